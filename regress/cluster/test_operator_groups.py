"""
The groups of the Compliance Operator and the Trivy Operator on a real kube-apiserver: registered from the CRDs that it
has, taken over by one command; no result reaches etcd.
"""

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


@pytest.fixture(scope="module")
def cluster():
    own = Cluster()
    try:
        own.plane.apply(*compliance_crds(), *trivy_crds())
        own.plane.wait_available(*GROUPS)
        own.plane.namespace(NS)
        own.grant()
        own.plane.service()
        own.first = own.proxy()
        yield own
    finally:
        own.end()


def test_no_result_reaches_etcd(cluster):
    """What operators write through kube-apiserver is typed in the database, and etcd has none of it"""
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
    # kube-apiserver reads the discovery of a group that it has just got a while later.
    until(lambda: plane.kubectl("get", "ccr,vuln", "-n", NS, check=False).code == 0, 120, "the short names")
    assert plane.kubectl("get", "ccr", "-n", NS, "-o", "name").split() == [
        f"compliancecheckresult.{COMPLIANCE}/ocp4-cis-{name}" for name in ("audit", "kubelet")]
    assert "Applied" in plane.kubectl("get", "remediations", "-n", NS)
    # While upkeep derives what was stored before the types were registered, later results wait for it, too.
    until(lambda: database.psql("SELECT string_agg(policy || ' ' || rule || ' ' || status, ',' ORDER BY source, rule) "
                                "FROM kube_reports.typed_result") == (
        "ocp4-cis audit fail,ocp4-cis kubelet pass,ocp4-cis ocp4-cis-audit pass,CVE-2026-0001  fail"), 60, "results")
    # The CRDs' own storage: what is there when the groups are given back.
    for group in GROUPS:
        disable(cluster, group)
    for resource in (CHECKS, REMEDIATIONS, VULNERABILITIES):
        answer = until(lambda path=path_of(resource, NS): next(
            (one for one in [api.get(path)] if one.code == 200), None), 60, "lists of etcd")
        assert answer.json["items"] == []
    assert database.psql("SELECT count(*) FROM kube_reports.typed_result") == "4"
