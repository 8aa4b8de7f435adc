"""
The groups of the Compliance Operator and the Trivy Operator on a real kube-apiserver: they are registered from its
CRDs, and one command takes them over.  No result reaches etcd, and reports may be larger than etcd accepts.
"""

import json

import pytest

from client import path_of, until
from conftest import Cluster
from control_plane import NAMESPACE, SERVICE
from old_cluster import command, disable
from operators import (COMPLIANCE, TRIVY, VERSION, check_result, compliance_crds, image, remediation, trivy_crds,
                       trivy_report, vulnerability)

NS = "openshift-compliance"
CHECKS = f"{COMPLIANCE}/{VERSION}/compliancecheckresults"
REMEDIATIONS = f"{COMPLIANCE}/{VERSION}/complianceremediations"
VULNERABILITIES = f"{TRIVY}/{VERSION}/vulnerabilityreports"
GROUPS = (f"{COMPLIANCE}/{VERSION}", f"{TRIVY}/{VERSION}")
# Vulnerabilities in a report of 16 MB.  etcd accepts 1.5 MB, and kube-apiserver 3 MB for an object in etcd.
LARGE = 8000


@pytest.fixture(scope="module")
def cluster():
    own = Cluster()
    try:
        own.plane.apply(*compliance_crds(), *trivy_crds())
        own.plane.wait_available(*GROUPS)
        own.plane.namespace(NS)
        own.grant()
        own.plane.service()
        own.first = own.proxy("--max-request-body-bytes=33554432")
        yield own
    finally:
        own.end()


def large_report(plane, database):
    """A report of 16 MB goes through kube-apiserver: it is created, read, listed, watched and replaced"""
    api = plane.api()
    document = trivy_report("VulnerabilityReport", "large", NS, **image(vulnerabilities=[
        vulnerability(f"CVE-2026-{number:05}", "LOW", description="d" * 1800) for number in range(LARGE)]))
    body = json.dumps(document).encode()
    assert len(body) > 16_000_000
    path, collection = path_of(VULNERABILITIES, NS, "large"), path_of(VULNERABILITIES, NS)
    version = api.get(collection).json["metadata"]["resourceVersion"]
    with api.watch(collection, resourceVersion=version) as watch:
        created = api.request("POST", collection, body, seconds=60)
        assert created.code == 201, created
        kind, shown = watch.change(60)
        assert (kind, shown["metadata"]["name"]) == ("ADDED", "large")
        assert shown["report"] == created.json["report"] == document["report"]
        found = api.request("GET", path, None, seconds=60)
        assert found.code == 200 and found.json == created.json
        listed = api.request("GET", collection, None, seconds=60).json["items"]
        assert [item["report"] for item in listed if item["metadata"]["name"] == "large"] == [document["report"]]
        changed = {**found.json, "report": {**document["report"], "updateTimestamp": "2026-01-06T14:29:37Z"}}
        answer = api.request("PUT", path, json.dumps(changed).encode(), seconds=60)
        assert answer.code == 200, answer
        assert watch.change(60)[0] == "MODIFIED"
    until(lambda: database.psql("SELECT count(*) FROM kube_reports.typed_result WHERE policy LIKE 'CVE-2026-_____'"
                                ) == str(LARGE), 60, "the results of the large report")


def test_no_result_reaches_etcd(cluster):
    """Results that operators write through kube-apiserver are in the database, and not in etcd"""
    plane, database = cluster.plane, cluster.stack.database
    for _ in range(2):
        told = command(cluster, "register", "compliance", "trivy",
                       f"--service={NAMESPACE}/{SERVICE}:{cluster.first.port}", f"--ca-file={cluster.stack.pki}/ca.crt",
                       f"--database={database.connection()}", "--timeout=90s")
        assert told.stdout.count(COMPLIANCE) == 12 and told.stdout.count(TRIVY) == 12
    assert "new" not in told.stdout.split() and "changed" not in told.stdout.split()
    assert all(plane.available(group) for group in GROUPS)
    api = plane.api()
    until(lambda: api.get(path_of(CHECKS, NS)).code == 200, 60, "the group")
    for name, status in (("audit", "FAIL"), ("kubelet", "PASS")):
        api.create(CHECKS, check_result(name, status), NS)
    made = api.create(REMEDIATIONS, remediation("audit"), NS)
    made["status"] = {"applicationState": "Applied"}
    assert api.put(path_of(REMEDIATIONS, NS, "ocp4-cis-audit") + "/status", made).code == 200
    api.create(VULNERABILITIES, trivy_report("VulnerabilityReport", "r", NS, **image(vulnerabilities=[
        vulnerability("CVE-2026-0001", "CRITICAL", score=9.8)])), NS)
    # kube-apiserver reads the discovery of a new group some time later.
    until(lambda: plane.kubectl("get", "ccr,vuln", "-n", NS, check=False).code == 0, 120, "the short names")
    assert plane.kubectl("get", "ccr", "-n", NS, "-o", "name").split() == [
        f"compliancecheckresult.{COMPLIANCE}/ocp4-cis-{name}" for name in ("audit", "kubelet")]
    assert "Applied" in plane.kubectl("get", "remediations", "-n", NS)
    # Results that were stored before the types were registered are derived by upkeep; later results wait for that, too.
    until(lambda: database.psql("SELECT string_agg(policy || ' ' || rule || ' ' || status, ',' ORDER BY source, rule) "
                                "FROM kube_reports.typed_result") == (
        "ocp4-cis audit fail,ocp4-cis kubelet pass,ocp4-cis ocp4-cis-audit pass,CVE-2026-0001  fail"), 60, "results")
    large_report(plane, database)
    # When the groups are given back, kube-apiserver shows the CRDs' own storage: it is empty.
    for group in GROUPS:
        disable(cluster, group)
    for resource in (CHECKS, REMEDIATIONS, VULNERABILITIES):
        answer = until(lambda path=path_of(resource, NS): next(
            (one for one in [api.get(path)] if one.code == 200), None), 60, "lists of etcd")
        assert answer.json["items"] == []
    assert database.psql("SELECT count(*) FROM kube_reports.typed_result") == str(4 + LARGE)
