"""Typical sets of values: each template is rendered with each of them."""

EXTERNAL = {
    "type": "external",
    "parameters": {"host": "db.example.org"},
    "secret": {"name": "db-proxy"},
    "setup": {"secret": {"name": "db-owner"}},
}

SENDER = {
    "enabled": True,
    "to": "https://receiver.example.org:6444",
    "kinds": ["policyreports.wgpolicyk8s.io/v1alpha2", "clusterpolicyreports.wgpolicyk8s.io/v1alpha2",
              "compliancecheckresults.compliance.openshift.io/v1alpha1"],
    "credential": {"secretName": "receiver"},
}
GRPC = {"enabled": True}
EVIDENCE = {"enabled": True}
KNOWN = {"id": "3b241101-e2bb-4255-8caf-4136c566a962"}
MONITORED = {"serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}, "dashboards": {"enabled": True}}

MATRIX = {
    "defaults": {},
    "one-replica": {"replicas": 1, "podDisruptionBudget": {"enabled": False}, "topologySpread": []},
    "autoscaling": {
        "autoscaling": {
            "enabled": True,
            "targetMemoryUtilizationPercentage": 75,
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 600}},
        }
    },
    "cert-manager": {"certificate": {"source": "cert-manager"}},
    "issuer": {
        "certificate": {
            "source": "cert-manager",
            "secretName": "serving",
            "certManager": {"issuerRef": {"name": "company", "kind": "ClusterIssuer", "group": "cert-manager.io"}},
        }
    },
    "own-certificate": {"certificate": {"source": "secret", "secretName": "serving"}, "database": EXTERNAL},
    "external": {"database": EXTERNAL},
    "external-everything": {
        "database": {
            "type": "external",
            "name": "reports",
            "parameters": {
                "connect_timeout": 5,
                "application_name": "it's \\ a proxy",
                "target_session_attrs": "read-write",
            },
            "secret": {"name": "db-proxy", "keys": {"host": "host", "port": "port", "dbname": "dbname"}},
            "tls": {"secretName": "db-tls", "certificate": "tls.crt", "key": "tls.key"},
            "readReplica": {"parameters": {"host": "standby.example.org"}},
            "setup": {
                "parameters": {"host": "primary.example.org", "port": 5433},
                "secret": {"name": "db-owner"},
                "roles": {"reader": "", "admin": ""},
            },
        }
    },
    "service-file": {
        "database": {"type": "external", "serviceFile": {"secretName": "db-service"}, "setup": {"enabled": False}}
    },
    "cloudnative-pg": {
        "database": {"type": "cloudnative-pg"},
        "postgresql": {
            "cloudNativePG": {"instances": 3, "readReplica": True, "spec": {"backup": {"retentionPolicy": "30d"}}},
            "storage": {"storageClassName": "fast"},
        },
    },
    "apiservice-objects": {"apiServices": {"method": "objects"}},
    "apiservice-none": {"apiServices": {"method": "none"}},
    "apiservice-later": {
        "apiServices": {"enabled": False, "additionalGroups": ["aquasecurity.github.io/v1alpha1"]}
    },
    "apiservice-objects-later": {"apiServices": {"enabled": False, "method": "objects"}},
    "all-groups": {
        "apiServices": {
            "groups": {"kyverno.io/v1alpha2": True},
            "additionalGroups": ["aquasecurity.github.io/v1alpha1"],
            "replace": "kyverno/kyverno-reports-server",
        }
    },
    "no-groups": {
        "apiServices": {
            "groups": {
                "wgpolicyk8s.io/v1alpha2": False,
                "openreports.io/v1alpha1": False,
                "reports.kyverno.io/v1": False,
            }
        }
    },
    "receiver": {"receiver": {"enabled": True}, "proxy": {"requireClientCert": False}},
    "receiver-with-certificates": {
        "receiver": {
            "enabled": True,
            "service": {"type": "LoadBalancer", "port": 443, "annotations": {"a": "b"}},
            "dnsNames": ["receiver.example.org"],
            "clientCA": {"secretName": "senders", "key": "cas.pem"},
        },
        "certificate": {"source": "cert-manager"},
        "networkPolicy": {"forwardFrom": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]},
    },
    "grpc": {"grpc": GRPC, "cluster": KNOWN},
    "evidence": {"evidence": EVIDENCE},
    "evidence-in-a-bucket": {
        "evidence": {
            "enabled": True,
            "replicas": 2,
            "store": "s3://evidence/files",
            "s3": {"endpoint": "https://s3.example.org", "region": "eu", "credentials": {"secretName": "bucket"}},
            "storeTls": {"secretName": "store", "certificate": "tls.crt"},
        },
        "database": EXTERNAL,
    },
    "evidence-on-a-shared-volume": {
        "evidence": {
            "enabled": True,
            "replicas": 2,
            "volume": {"accessModes": ["ReadWriteMany"], "storageClassName": "shared", "size": "1Ti"},
        },
    },
    "evidence-on-a-claim": {"evidence": {"enabled": True, "volume": {"existingClaim": "mine"}}},
    "all-receivers": {
        **MONITORED,
        "cluster": KNOWN,
        "commonLabels": {"team": "platform"},
        "imagePullSecrets": [{"name": "pull"}],
        "receiver": {"enabled": True, "clientCA": {"secretName": "senders", "key": "cas.pem"}},
        "networkPolicy": {
            "forwardFrom": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
            "metricsFrom": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}],
            "receiversEgress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}],
        },
        **{
            part: {
                "enabled": True,
                "image": {"registry": "registry.example.org/mirror", "tag": "1"},
                "service": {"type": "LoadBalancer", "port": 443, "annotations": {"a": "b"}},
                "dnsNames": [f"{part}.example.org"],
                "verbosity": 1,
                "extraFlags": {"max-connections": 512},
                "podAnnotations": {"a": "b"},
                "podLabels": {"c": "d"},
                "nodeSelector": {"e": "f"},
                "tolerations": [{"operator": "Exists"}],
                "affinity": {"podAntiAffinity": {}},
                "priorityClassName": "high",
            }
            for part in ("grpc", "evidence")
        },
    },
    "sender": {"proxy": {"enabled": False}, "sender": SENDER},
    "sender-with-everything": {
        **MONITORED,
        "proxy": {"enabled": False},
        "commonLabels": {"team": "platform"},
        "commonAnnotations": {"owner": "platform"},
        "imagePullSecrets": [{"name": "pull"}],
        "networkPolicy": {
            "metricsFrom": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}],
            "senderEgress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}],
        },
        "sender": {
            **SENDER,
            "credential": {"secretName": "receiver", "certificate": "tls.crt", "ca": ""},
            "extraMetadata": {"cluster_type": "edge", "region": "eu west"},
            "queue": {"bytes": 4294967296, "storage": "5Gi", "storageClassName": "fast"},
            "verbosity": 1,
            "extraFlags": {"batch-items": 1000},
            "serviceAccountName": "mine",
            "podAnnotations": {"a": "b"},
            "podLabels": {"c": "d"},
            "nodeSelector": {"e": "f"},
            "tolerations": [{"operator": "Exists"}],
            "affinity": {"podAntiAffinity": {}},
            "priorityClassName": "high",
        },
    },
    "proxy-and-sender": {**MONITORED, "sender": SENDER},
    "known-cluster": {"cluster": {"id": "3b241101-e2bb-4255-8caf-4136c566a962", "name": "production"}},
    "everything": {
        "fullnameOverride": "reports",
        "commonLabels": {"team": "platform"},
        "commonAnnotations": {"owner": "platform"},
        "image": {"registry": "registry.example.org/mirror", "tag": "1"},
        "imagePullSecrets": [{"name": "pull"}],
        "postgresql": {
            "image": {"digest": "sha256:" + "0" * 64},
            "nodeSelector": {"disk": "ssd"},
            "priorityClassName": "high",
            "tolerations": [{"operator": "Exists"}],
            "affinity": {"podAntiAffinity": {}},
        },
        "proxy": {
            "databaseConnections": 20,
            "verbosity": 1,
            "resultMetricsSeries": 1000,
            "webhookSecret": "hooks",
            "extraFlags": {"max-connections": 4096, "http2": True},
        },
        "podAnnotations": {"a": "b"},
        "podLabels": {"c": "d"},
        "nodeSelector": {"e": "f"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "priorityClassName": "system-cluster-critical",
        "extraEnv": [{"name": "TZ", "value": "UTC"}],
        "extraVolumes": [{"name": "more", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
        "service": {"annotations": {"g": "h"}, "type": "NodePort"},
        "serviceAccount": {"annotations": {"i": "j"}},
        "rbac": {"policies": True},
        "networkPolicy": {
            "apiFrom": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
            "metricsFrom": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}],
            "databaseFrom": [{"podSelector": {"matchLabels": {"app": "grafana"}}}],
            "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}],
        },
        "serviceMonitor": {
            "enabled": True,
            "labels": {"release": "prometheus"},
            "relabelings": [{"action": "labeldrop", "regex": "instance"}],
            "metricRelabelings": [{"action": "drop", "regex": "x"}],
        },
        "prometheusRule": {
            "enabled": True,
            "labels": {"release": "prometheus"},
            "additionalLabels": {"team": "platform"},
            "disabled": ["KubeReportsLogDropped"],
        },
        "dashboards": {"enabled": True, "namespace": "grafana"},
        "extraObjects": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-more"}, "data": {}},
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: text}\n",
        ],
    },
    "nothing": {
        "rbac": {"create": False, "aggregateRoles": False},
        "flowSchema": {"create": False},
        "serviceAccount": {"create": False, "name": "mine"},
        "networkPolicy": {"enabled": False},
        "apiServices": {"method": "none"},
        "podDisruptionBudget": {"enabled": False},
        "certificate": {"source": "secret", "secretName": "serving"},
        "database": {"type": "external", "leaveExisting": True, "secret": {"name": "db"}, "setup": {"enabled": False}},
    },
}
