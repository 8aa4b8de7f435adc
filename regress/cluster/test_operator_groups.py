"""
The groups of the Compliance Operator and the Trivy Operator on a real kube-apiserver: they are registered from its
CRDs, and one command takes them over, or the chart does so.  No result reaches etcd, and reports may be larger than
etcd accepts.
"""

import json

import pytest

from client import EPHR, POLR, REPS, path_of, report, until
from conftest import Cluster
from control_plane import GROUP_VERSIONS, NAMESPACE, SERVICE
from old_cluster import command, disable
from operators import (COMPLIANCE, TRIVY, VERSION, check_result, compliance_crds, image, remediation, trivy_crds,
                       trivy_report, vulnerability)
from release import CHART, FULLNAME, NEEDS_NETWORK, RELEASE, releases

NS = "openshift-compliance"
CHECKS = f"{COMPLIANCE}/{VERSION}/compliancecheckresults"
REMEDIATIONS = f"{COMPLIANCE}/{VERSION}/complianceremediations"
VULNERABILITIES = f"{TRIVY}/{VERSION}/vulnerabilityreports"
GROUPS = (f"{COMPLIANCE}/{VERSION}", f"{TRIVY}/{VERSION}")
ADMISSION_GROUP = "kyverno.io/v1alpha2"
# Every group that a release can serve here.
EVERY = (*GROUP_VERSIONS, ADMISSION_GROUP, *GROUPS)
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


@pytest.fixture(scope="module")
def release():
    yield from releases("v4.3.1")


def of_kyverno(group_version, kind, name, namespace):
    """Returns a report that Kyverno merges into others."""
    return {"apiVersion": group_version, "kind": kind, "metadata": {"name": name, "namespace": namespace},
            "spec": {"owner": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}, "summary": {},
                     "results": []}}


def one_of_each(name, namespace):
    """Returns a report of each group, by its resource; no report has an owner."""
    check = check_result(name, "FAIL")
    check["metadata"].update(name=name, namespace=namespace)
    del check["metadata"]["ownerReferences"]
    return {
        POLR: report(name, namespace),
        REPS: report(name, namespace, resource=REPS),
        EPHR: of_kyverno("reports.kyverno.io/v1", "EphemeralReport", name, namespace),
        f"{ADMISSION_GROUP}/admissionreports": of_kyverno(ADMISSION_GROUP, "AdmissionReport", name, namespace),
        CHECKS: check,
        VULNERABILITIES: trivy_report("VulnerabilityReport", name, namespace, owner=False, **image(
            vulnerabilities=[vulnerability("CVE-2026-0001", "HIGH")])),
    }


def listed(api, resource, namespace):
    """Returns the names that a client lists, or None while the group is not served."""
    answer = api.get(path_of(resource, namespace))
    return [item["metadata"]["name"] for item in answer.json["items"]] if answer.code == 200 else None


def leading(release):
    """Returns the groups whose APIServices lead to the release."""
    return [name for name in EVERY if ((release.api_service(name) or {}).get("spec", {}).get("service") or {}).get(
        "name") == FULLNAME]


def stored(release, namespace):
    """Returns how many reports of a namespace the database has."""
    return int(release.database.psql("SELECT count(*) FROM kube_reports.object WHERE namespace = :'ns'",
                                     user="postgres", database="reports", ns=namespace))


def namespace_ends(api, name):
    assert api.delete(f"/api/v1/namespaces/{name}").code == 200
    until(lambda: api.get(f"/api/v1/namespaces/{name}").code == 404, 240, "the end of a namespace")


@NEEDS_NETWORK
def test_all_groups_or_none(release):
    """
    The chart takes over every group, also those of both operators, then hands back one that its values no longer name,
    then all: with all groups and with none, clients see what the groups have, and a namespace can be deleted
    """
    plane, api = release.plane, release.api
    plane.apply(*compliance_crds(), *trivy_crds())
    plane.wait_available(*GROUPS)
    # What has CRDs; of these, a policy report is in etcd already.
    in_etcd = (POLR, EPHR, CHECKS, VULNERABILITIES)
    for resource in in_etcd:
        document = one_of_each("in-etcd", "default")[resource]
        until(lambda path=path_of(resource, "default"), document=document: api.post(path, document).code in (201, 409),
              60, f"{resource} in etcd")
    release.run("install", RELEASE, str(CHART), "--wait", *release.values(**{"apiServices.enabled": "false"}))
    command(release.cluster, "register", "compliance", "trivy",
            f"--database={release.database.connection(database='reports')}")
    assert leading(release) == []

    every = {r"apiServices.groups.kyverno\.io/v1alpha2": "true",
             "apiServices.additionalGroups": "{" + ",".join(GROUPS) + "}"}
    release.run("upgrade", RELEASE, str(CHART), "--wait", *release.values(**every))
    assert leading(release) == list(EVERY)
    plane.wait_available(*EVERY, seconds=120)
    for namespace in ("kept", "short"):
        plane.namespace(namespace)
    for resource in one_of_each("one", "short"):
        until(lambda path=resource: listed(api, path, "default") == [], 60, f"{resource} of the proxies")
        for namespace in ("kept", "short"):
            api.create(resource, one_of_each("one", namespace)[resource], namespace)
            assert listed(api, resource, namespace) == ["one"]
    for resource in in_etcd:
        group, _, plural = resource.split("/")
        assert plane.keys(f"{group}/{plural}") == 1, resource
    assert stored(release, "short") == stored(release, "kept") == len(EVERY)
    namespace_ends(api, "short")
    assert stored(release, "short") == 0

    # Values without the Trivy Operator's group hand back this group, and no other.
    without = {**every, "apiServices.additionalGroups": "{" + GROUPS[0] + "}"}
    release.run("upgrade", RELEASE, str(CHART), "--wait", *release.values(**without))
    assert leading(release) == [name for name in EVERY if name != GROUPS[1]]
    until(lambda: listed(api, VULNERABILITIES, "default") == ["in-etcd"], 90, "the group of etcd")
    assert listed(api, CHECKS, "kept") == ["one"]

    release.run("upgrade", RELEASE, str(CHART), "--wait", *release.values(**every, **{"apiServices.enabled": "false"}))
    assert leading(release) == []
    for resource in in_etcd:
        until(lambda path=resource: listed(api, path, "default") == ["in-etcd"], 90, f"{resource} of etcd")
        assert listed(api, resource, "kept") == []
    for group_version in ("openreports.io/v1alpha1", ADMISSION_GROUP):
        assert release.api_service(group_version) is None
    plane.namespace("later")
    namespace_ends(api, "later")
    assert stored(release, "kept") == len(EVERY)
    release.run("uninstall", RELEASE, "--wait")
