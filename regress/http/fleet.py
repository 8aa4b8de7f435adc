"""Three clusters with six weeks of history: the sample reports, with failures of different ages."""

import json
import pathlib
import random

from client import run, sql_text

SAMPLES = pathlib.Path(__file__).resolve().parents[1] / "samples" / "generate.sql"
CLUSTERS = {"00000000-0000-4000-8000-0000000000a1": "prod-eu", "00000000-0000-4000-8000-0000000000a2": "prod-us",
            "00000000-0000-4000-8000-0000000000a3": "staging"}
NAMESPACES = {"prod-eu": ("kube-system", "shop", "payments", "monitoring", None),
              "prod-us": ("kube-system", "shop", "payments", None),
              "staging": ("kube-system", "shop", "ci", "monitoring", None)}
# Percentage of the samples' failures that each cluster has fixed.
MENDED = {"prod-eu": 75, "prod-us": 60, "staging": 25}
DAYS = (41, 36, 31, 28, 25, 22, 19, 16, 13, 10, 7, 4, 2, 1, 0)
# Days since the first checks of the Compliance Operator.
CHECKED = 19
CHECKS = (("kubelet-enable-protect-kernel-defaults", "medium"), ("api-server-audit-log-path", "high"),
          ("etcd-unique-ca", "medium"),
          ("scheduler-no-bind-address", "low"), ("accounts-restrict-service-account-tokens", "medium"))


def compliance_crd(kind):
    plural = kind.lower() + "s"
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.compliance.openshift.io"}, "spec": {
        "group": "compliance.openshift.io", "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": kind + "List"},
        "versions": [{"name": "v1alpha1", "served": True, "storage": True,
                      "schema": {"openAPIV3Schema": {"type": "object",
                                                     "x-kubernetes-preserve-unknown-fields": True}}}]}}


def register_compliance(database):
    """Registers the types; checks have results, remediations have none: views read the objects of remediations."""
    for kind, results in (("ComplianceCheckResult", "current"), ("ComplianceRemediation", "none")):
        database.psql(f"SELECT kube_reports.register_crd({sql_text(compliance_crd(kind))}, '{results}')")


def samples(database):
    """Returns the sample reports with current results, without reports that repeat them in another group."""
    lines = run(["psql", "-X", "-A", "-t", "-q", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-d", database.connection(), "-f",
                 str(SAMPLES)]).out.splitlines()
    documents = [json.loads(line.split("\t", 1)[1]) for line in lines]
    return [document for document in documents if document["kind"] in ("PolicyReport", "ClusterPolicyReport")]


def compliance(cluster_name):
    """Returns results and remediations like those of the Compliance Operator."""
    for number, (rule, severity) in enumerate(CHECKS):
        metadata = {"name": f"cis-node-{rule}", "namespace": "openshift-compliance"}
        yield {"apiVersion": "compliance.openshift.io/v1alpha1", "kind": "ComplianceCheckResult", "id": f"xccdf_{rule}",
               "severity": severity,
               "status": ("FAIL", "MANUAL", "PASS", "INCONSISTENT")[(number + len(cluster_name)) % 4],
               "description": rule.replace("-", " "),
               "metadata": {**metadata, "labels": {"compliance.openshift.io/scan-name": "cis-node",
                                                   "compliance.openshift.io/suite": "cis"}}}
        yield {"apiVersion": "compliance.openshift.io/v1alpha1", "kind": "ComplianceRemediation", "metadata": metadata,
               "spec": {"apply": True},
               "status": {"applicationState": ("Outdated", "Applied")[number % 2]}}


def with_past(choice, cluster_name, document):
    """
    Returns a document whose results have the present result (result), the previous one (before; None: none) and the
    age of the present one (became: days ago).
    """
    for result in document["results"]:
        vulnerability = result["source"] != "kyverno"
        if result["result"] == "skip":
            result["properties"] = {"exceptions": "allow-storage"}
        if result["result"] not in ("pass",
                                    "skip") and not vulnerability and choice.randrange(100) < MENDED[cluster_name]:
            result["result"], result["before"] = "pass", result["result"]
            result["became"] = choice.choice(DAYS[1:])
        else:
            result["before"] = None if vulnerability else "pass"
            result["became"] = choice.choice(DAYS) if vulnerability or result[
                "result"] != "pass" and choice.random() < 0.4 else DAYS[0]
    return document


def as_of(document, days_ago):
    """Returns the document as it was so many days ago."""
    results = [{key: value for key, value in result.items() if key not in ("became", "before")} | {"result": status}
               for result in document["results"]
               for status in [result["result"] if days_ago <= result["became"] else result["before"]] if status]
    return {**document, "results": results}


def fill(database):
    """Stores all documents, with the history of with_past(); returns pairs (cluster, document)."""
    choice = random.Random(5)
    database.psql("\n".join(f"SELECT kube_reports.register_cluster('{uid}', '{name}');"
                            for uid, name in CLUSTERS.items()))
    register_compliance(database)
    database.psql("INSERT INTO kube_reports.framework_control (framework, control, policy, rule) VALUES ('CIS', "
                  "'1.2.22', 'cis-node', 'xccdf_api-server-audit-log-path'),"
                  " ('CIS', '4.2.6', 'cis-node', 'xccdf_kubelet-enable-protect-kernel-defaults'), ('NSA', 'Pod "
                  "security', 'require-run-as-nonroot', '')")
    database.psql("SELECT kube_reports.make_history(now() - days * interval '10 days') FROM generate_series(1, "
                  f"{max(DAYS) // 10 + 1}) days")
    kept = samples(database)
    wanted = [(uid, with_past(choice, name, json.loads(json.dumps(document)))) for uid, name in CLUSTERS.items()
              for document in kept
              if document["metadata"].get("namespace") in NAMESPACES[name]]
    checks = [(uid, document) for uid, name in CLUSTERS.items() for document in compliance(name)]
    for days_ago in DAYS:
        step = [{"cluster": uid, "document": as_of(document, days_ago) if "results" in document else document}
                for uid, document in wanted + (checks if days_ago <= CHECKED else [])]
        with database.unfolded():
            database.psql(f"""
                -- In UTC every day has 24 hours; elsewhere a day may be shorter.
                SET TimeZone = 'UTC';
                CREATE TEMP TABLE step AS
                    SELECT c.id AS cluster_id, t.id AS resource_type,
                        coalesce(d#>>'{{metadata,namespace}}', '') AS namespace, d#>>'{{metadata,name}}' AS name,
                        (d->'metadata')::kube_reports.report AS metadata,
                        (d - '{{apiVersion,kind,metadata}}'::text[])::kube_reports.report AS body
                    FROM jsonb_array_elements({sql_text(step)}) e, LATERAL (SELECT e->'document') s(d),
                        kube_reports.cluster c, kube_reports.resource_type t
                    WHERE c.uid::text = e->>'cluster' AND t."group" = split_part(d->>'apiVersion', '/', 1)
                        AND t.kind = d->>'kind';
                UPDATE kube_reports.object o SET body = s.body FROM step s
                    WHERE (o.cluster_id, o.resource_type, o.namespace, o.name) = (s.cluster_id, s.resource_type,
                        s.namespace, s.name) AND o.body::text <> s.body::text;
                INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
                    SELECT s.* FROM step s WHERE NOT EXISTS (SELECT FROM kube_reports.object o
                        WHERE (o.cluster_id, o.resource_type, o.namespace, o.name) = (s.cluster_id,
                            s.resource_type, s.namespace, s.name));""")
        database.derive()
        database.psql(f"""
            -- Set back the times of the rows that this step wrote, and of no other rows.
            UPDATE kube_reports_internal.rollup_delta SET day = day - {days_ago};
            SELECT kube_reports_internal.fold_rollups(1000000);
            UPDATE kube_reports_internal.result SET since = since - interval '{days_ago} days'
                WHERE since > now() - interval '12 hours';
            UPDATE kube_reports_internal.result SET first_seen = first_seen - interval '{days_ago} days'
                WHERE first_seen > now() - interval '12 hours';
            UPDATE kube_reports_internal.report_change SET at = at - interval '{days_ago} days'
            WHERE at > now() - interval '12 hours'""")
    database.analyze()
    return wanted + checks
