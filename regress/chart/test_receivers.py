"""The programs beside the proxy that receive from senders: kube-reports-grpc and kube-reports-evidence."""

import json

import psycopg2.extensions
import pytest

from conftest import CHART, CLUSTER, helm, named, of_kind, refused, render
from matrix import EVIDENCE, GRPC, KNOWN, MATRIX

PARTS = ("grpc", "evidence")
ALL = MATRIX["all-receivers"]


def spec_of(objects, part):
    return named(objects, "Deployment", f"kube-reports-{part}")["spec"]


def pod_of(objects, part):
    return spec_of(objects, part)["template"]["spec"]


def flags(objects, part):
    return dict(argument[2:].split("=", 1) for argument in pod_of(objects, part)["containers"][0]["args"])


def test_off_unless_asked_for():
    names = [one["metadata"]["name"] for one in render()]
    assert not [name for name in names if "grpc" in name or "evidence" in name]


@pytest.mark.parametrize("part", PARTS)
def test_ports_and_names(part):
    """Flag, container, Service and NetworkPolicy have the same port; the certificate has the names of the Service."""
    objects = render(ALL)
    container = pod_of(objects, part)["containers"][0]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    given = flags(objects, part)
    assert given["secure-port" if part == "evidence" else "port"] == str(ports[part])
    assert given["metrics-port"] == str(ports["metrics"])
    service = named(objects, "Service", f"kube-reports-{part}")["spec"]
    assert service["ports"] == [{"name": part, "port": 443, "targetPort": part}]
    assert service["type"] == "LoadBalancer"
    policy = named(objects, "NetworkPolicy", f"kube-reports-{part}")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"] and policy["egress"]
    assert policy["ingress"] == [
        {"ports": [{"protocol": "TCP", "port": part}], "from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]},
        {"ports": [{"protocol": "TCP", "port": "metrics"}],
         "from": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}]},
    ]
    issued = {**ALL, "certificate": {"source": "cert-manager"}}
    names = named(render(issued), "Certificate", "kube-reports-tls")["spec"]["dnsNames"]
    assert {f"{part}.example.org", f"kube-reports-{part}.kube-reports.svc"} <= set(names)
    annotations = named(objects, "Secret", "kube-reports-tls")["metadata"]["annotations"]
    assert f"{part}.example.org" in annotations["kube-reports/names"].split(",")


@pytest.mark.parametrize("part", PARTS)
def test_database_and_senders(part):
    """The program uses the proxies' database, whose NetworkPolicy admits it, and the receiver's CAs of senders."""
    objects = render(ALL)
    container = pod_of(objects, part)["containers"][0]
    proxy = named(objects, "Deployment", "kube-reports")["spec"]["template"]["spec"]["containers"][0]
    wanted = next(one for one in proxy["args"] if one.startswith("--database="))
    assert wanted in container["args"]
    assert psycopg2.extensions.parse_dsn(flags(objects, part)["database"])["sslmode"] == "verify-full"
    secrets = [one for one in proxy["env"] if one["name"] in ("PGUSER", "PGPASSWORD")]
    assert len(secrets) == 2 and container["env"] == secrets
    assert flags(objects, part)["client-ca-file"] == "/etc/kube-reports/senders/cas.pem"
    assert "client-ca-file" not in flags(render(MATRIX[part]), part)
    peers = named(objects, "NetworkPolicy", "kube-reports-database")["spec"]["ingress"][0]["from"]
    labels = spec_of(objects, part)["template"]["metadata"]["labels"]
    assert [peer for peer in peers if peer["podSelector"]["matchLabels"].items() <= labels.items()]


@pytest.mark.parametrize("part", PARTS)
def test_setup_grants(part):
    job = next(one for one in of_kind(render(MATRIX[part]), "Job")
               if one["metadata"]["labels"]["app.kubernetes.io/component"] == "setup")
    assert {"name": "INGEST", "value": "true"} in job["spec"]["template"]["spec"]["containers"][0]["env"]


@pytest.mark.parametrize("part", PARTS)
def test_end_of_a_pod(part):
    """The grace period of the pod is longer than the shutdown of the program."""
    objects = render(MATRIX[part])
    seconds = int(flags(objects, part)["shutdown-timeout"].removesuffix("s"))
    assert pod_of(objects, part)["terminationGracePeriodSeconds"] > seconds + 10


def test_the_uid_of_the_cluster():
    assert flags(render(MATRIX["grpc"]), "grpc")["cluster-id"] == CLUSTER
    assert "grpc.enabled needs cluster.id" in refused({"grpc": GRPC})


def test_volume():
    """The volume has one pod at a time and outlives the release; pods that share a volume are replaced one by one."""
    objects = render(MATRIX["evidence"])
    claim = named(objects, "PersistentVolumeClaim", "kube-reports-evidence")
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert spec_of(objects, "evidence")["strategy"] == {"type": "Recreate"}
    pod = pod_of(objects, "evidence")
    mounts = {one["name"]: one["mountPath"] for one in pod["containers"][0]["volumeMounts"]}
    assert flags(objects, "evidence")["store"] == f"file://{mounts['files']}"
    assert {"name": "files", "persistentVolumeClaim": {"claimName": "kube-reports-evidence"}} in pod["volumes"]
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsGroup"]
    shared = render(MATRIX["evidence-on-a-shared-volume"])
    assert spec_of(shared, "evidence")["strategy"]["type"] == "RollingUpdate"
    assert named(shared, "PersistentVolumeClaim", "kube-reports-evidence")["spec"]["storageClassName"] == "shared"
    own = render(MATRIX["evidence-on-a-claim"])
    assert not of_kind(own, "PersistentVolumeClaim")
    assert {"name": "files", "persistentVolumeClaim": {"claimName": "mine"}} in pod_of(own, "evidence")["volumes"]
    said = refused({"evidence": {**EVIDENCE, "replicas": 2}})
    assert "evidence.replicas above 1 needs a store that pods share" in said


def test_bucket():
    objects = render(MATRIX["evidence-in-a-bucket"])
    given = flags(objects, "evidence")
    assert given["store"] == "s3://evidence/files" and given["s3-endpoint"] == "https://s3.example.org"
    assert given["s3-region"] == "eu"
    mounts = {one["name"]: one["mountPath"] for one in pod_of(objects, "evidence")["containers"][0]["volumeMounts"]}
    assert given["s3-credentials-file"] == f"{mounts['s3']}/credentials"
    assert given["store-ca-file"] == f"{mounts['store']}/ca.crt"
    assert given["store-client-cert-file"] == f"{mounts['store']}/tls.crt"
    assert "files" not in mounts and not of_kind(objects, "PersistentVolumeClaim")
    assert spec_of(objects, "evidence")["replicas"] == 2
    assert named(objects, "PodDisruptionBudget", "kube-reports-evidence")
    for missing, said in (("endpoint", "evidence.s3.endpoint"), ("credentials", "evidence.s3.credentials.secretName")):
        values = json.loads(json.dumps(MATRIX["evidence-in-a-bucket"]))
        del values["evidence"]["s3"][missing]
        assert said in refused(values)


@pytest.mark.parametrize("part", PARTS)
def test_needs_a_proxy(part):
    values = {"cluster": KNOWN, "proxy": {"enabled": False}, "sender": MATRIX["sender"]["sender"]}
    assert f"{part}.enabled needs proxy.enabled" in refused({**values, part: {"enabled": True}})


def test_notes():
    said = helm("install", "kube-reports", "--dry-run=client", "--namespace", "kube-reports", "--values", "-",
                CHART, binary="helm4", input=json.dumps(ALL)).stdout.partition("NOTES:")[2]
    assert "kube-reports-grpc" in said and "kube-reports-evidence" in said and "PersistentVolumeClaim" in said
