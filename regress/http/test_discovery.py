"""Discovery: /api, /apis, groups, versions, /version, health, metrics (conformance section 2, 20)."""

import json

import pytest

from client import POLR, failure, report, until
from pods import crd

VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]

# group, version, plural, kind, namespaced, short name
BUILT_IN = [
    ("wgpolicyk8s.io", "v1alpha2", "policyreports", "PolicyReport", True, "polr"),
    ("wgpolicyk8s.io", "v1alpha2", "clusterpolicyreports", "ClusterPolicyReport", False, "cpolr"),
    ("openreports.io", "v1alpha1", "reports", "Report", True, "reps"),
    ("openreports.io", "v1alpha1", "clusterreports", "ClusterReport", False, "creps"),
    ("reports.kyverno.io", "v1", "ephemeralreports", "EphemeralReport", True, "ephr"),
    ("reports.kyverno.io", "v1", "clusterephemeralreports", "ClusterEphemeralReport", False, "cephr"),
    ("kyverno.io", "v1alpha2", "admissionreports", "AdmissionReport", True, "admr"),
    ("kyverno.io", "v1alpha2", "clusteradmissionreports", "ClusterAdmissionReport", False, "cadmr"),
    ("kyverno.io", "v1alpha2", "backgroundscanreports", "BackgroundScanReport", True, "bgscanr"),
    ("kyverno.io", "v1alpha2", "clusterbackgroundscanreports", "ClusterBackgroundScanReport", False, "cbgscanr"),
]

V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
V2BETA1 = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"


@pytest.mark.parametrize("accept, version", [
    (V2 + "," + V2BETA1 + ",application/json", "v2"),
    (V2BETA1 + ",application/json", "v2beta1"),
    (V2 + ";profile=nopeer,application/json", "v2"),
])
def test_aggregated(api, accept, version):
    """DISC-01, DISC-02, DISC-05, AGG-30, AGG-31, AGG-33: TestBasicResponse, TestV2Beta1SkewSupport"""
    answer = api.get("/apis", accept=accept, timeout="32s")
    assert answer.code == 200
    assert (answer.headers["Content-Type"]
            == f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList")
    assert answer.headers["Vary"] == "Accept" and answer.headers["ETag"] and answer.body.endswith(b"}\n")
    document = answer.json
    assert (document["kind"], document["apiVersion"]) == ("APIGroupDiscoveryList", f"apidiscovery.k8s.io/{version}")
    found = {}
    for group in document["items"]:
        for served in group["versions"]:
            assert served["freshness"] == "Current"
            for resource in served["resources"]:
                found[group["metadata"]["name"], served["version"], resource["resource"]] = resource
    for group, served, plural, kind, namespaced, short in BUILT_IN:
        resource = found[group, served, plural]
        assert resource["responseKind"] == {"group": group, "version": served, "kind": kind}
        assert resource["scope"] == ("Namespaced" if namespaced else "Cluster")
        assert resource["singularResource"] == kind.lower()
        assert resource["shortNames"] == [short]
        assert sorted(resource["verbs"]) == VERBS


def test_aggregated_not_modified(api):
    """DISC-03, AGG-35: TestEtagMatching, TestEtagNonMatching"""
    first = api.get("/apis", accept=V2)
    again = api.request("GET", "/apis", headers={"Accept": V2, "If-None-Match": first.headers["ETag"]})
    assert (again.code, again.body) == (304, b"")
    assert again.headers["ETag"] == first.headers["ETag"]
    other = api.request("GET", "/apis", headers={"Accept": V2, "If-None-Match": "wrongetag"})
    assert (other.code, other.headers["ETag"], other.body) == (200, first.headers["ETag"], first.body)


@pytest.mark.parametrize("accept, version", [
    ("application/json;foo=bar", None), ("", None), ("application/json", None), (V2BETA1, "v2beta1"), (V2, "v2"),
                                             (V2 + ",application/json", "v2"),
    (V2 + ";profile=nopeer", "v2"), (V2 + ";profile=foo", "v2"),
                                             (V2.replace("json", "vnd.kubernetes.protobuf") + ",application/json",
                                              None)])
def test_aggregation_enabled(api, accept, version):
    """DISC-01, NEG-01: TestAggregationEnabled: the answer has the first form of Accept that the server offers"""
    failure(api.get("/apis", accept="application/vnd.kubernetes.protobuf"), 406, "NotAcceptable")
    document = api.request("GET", "/apis", headers={"Accept": accept}).json
    assert (document["kind"], document["apiVersion"]) == (("APIGroupDiscoveryList", f"apidiscovery.k8s.io/{version}")
        if version else ("APIGroupList", "v1"))


def test_changes(stack, types):
    """
    DISC-03, DISC-15, AGG-35: TestEtagConsistent, TestEtagOutdated, TestAddRemove: equal documents have equal ETags at
    both proxies, before a change and after it is undone; a request with an outdated ETag gets the new document
    """
    proxies = (stack.first, stack.second)

    def everywhere(**headers):
        # New connections reach every worker.
        answers = [proxy.api().request("GET", "/apis", headers={"Accept": V2, **headers}) for proxy in proxies
                   for _ in range(16)]
        etags = {answer.headers["ETag"] for answer in answers}
        return answers[0] if len(etags) == 1 and len({answer.code for answer in answers}) == 1 else None

    def groups(answer):
        return [group["metadata"]["name"] for group in answer.json["items"]]

    before = until(everywhere, 20, "the same document everywhere")
    group = "added." + types.group
    types.stack.database.psql("SELECT kube_reports.register_crd($crd$"
                              + json.dumps(crd(group, "things")) + "$crd$::jsonb)")
    try:
        during = until(lambda: next((a for a in [everywhere(**{"If-None-Match": before.headers["ETag"]})] if a
                                     and a.code == 200), None), 20, "the new group everywhere")
        assert during.headers["ETag"] != before.headers["ETag"] and set(groups(during)) == {*groups(before), group}
    finally:
        stack.unregister(f"things.{group}")
    after = until(everywhere, 20, "the same document everywhere")
    assert (after.headers["ETag"], after.body) == (before.headers["ETag"], before.body)


def test_both_proxies_agree(api, second_api):
    for path in ("/apis", "/openapi/v2", "/openapi/v3", "/apis/wgpolicyk8s.io/v1alpha2"):
        assert api.get(path).body == second_api.get(path).body


@pytest.mark.parametrize("slash", ["", "/"])
def test_legacy(api, slash):
    """DISC-10 to DISC-13"""
    groups = {group["name"]: group for group in api.get("/apis" + slash).json["groups"]}
    for group, version, plural, kind, namespaced, short in BUILT_IN:
        assert {"groupVersion": f"{group}/{version}", "version": version} in groups[group]["versions"]
        assert groups[group]["preferredVersion"] == {"groupVersion": f"{group}/{version}", "version": version}
        one = api.get(f"/apis/{group}{slash}").json
        assert (one["kind"], one["apiVersion"], one["name"]) == ("APIGroup", "v1", group)
        resources = api.get(f"/apis/{group}/{version}{slash}").json
        assert (resources["kind"], resources["groupVersion"]) == ("APIResourceList", f"{group}/{version}")
        names = [resource["name"] for resource in resources["resources"]]
        assert names == sorted(names)
        entry = next(resource for resource in resources["resources"] if resource["name"] == plural)
        assert entry["kind"] == kind and entry["namespaced"] is namespaced
        assert entry["singularName"] == kind.lower() and entry["shortNames"] == [short]
        assert entry["verbs"] == VERBS


def test_api(api):
    """DISC-17: the core group has a version without resources, in the form that was asked for"""
    assert api.get("/api").json["versions"] == ["v1"]
    aggregated = api.get("/api", accept=V2 + ",application/json").json
    assert aggregated["kind"] == "APIGroupDiscoveryList"
    assert [(group["metadata"]["name"], [version["resources"] for version in group["versions"]])
            for group in aggregated["items"]] == [("", [[]])]
    assert api.get("/api/v1").json == {"kind": "APIResourceList", "groupVersion": "v1", "resources": []}


@pytest.mark.parametrize("path", ["/apis/none.example", "/apis/none.example/v1", "/apis/wgpolicyk8s.io/v9", "/nowhere"])
def test_unknown_path(api, path):
    """DISC-14"""
    answer = api.get(path)
    assert (answer.code, answer.body) == (404, b"404 page not found\n")
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8" and answer.headers[
        "X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", [
    "/apis/wgpolicyk8s.io/v1alpha2/pods", "/apis/wgpolicyk8s.io/v1alpha2/namespaces/a/pods",
    "/apis/wgpolicyk8s.io/v1alpha2/namespaces/a/clusterpolicyreports"])
def test_unknown_resource(api, path):
    """ERR-20, ERR-23"""
    status = failure(api.get(path), 404, "NotFound")
    assert status["message"] == "the server could not find the requested resource"


def test_yaml(api):
    """DISC-16: discovery has YAML as well"""
    answer = api.get("/apis", accept="application/yaml")
    assert answer.code == 200 and answer.headers["Content-Type"] == "application/yaml"
    assert b"\nkind: APIGroupList\n" in b"\n" + answer.body


def test_version(api):
    """DISC-18"""
    answer = api.get("/version")
    assert answer.code == 200 and answer.headers["Content-Type"] == "application/json"
    assert answer.json["gitVersion"].startswith("v1.") and answer.json["major"] == "1"


def test_health_without_certificate(stack):
    """HL-01, HL-02"""
    anonymous = stack.first.api(user=None)
    for path in ("/livez", "/readyz", "/healthz"):
        answer = anonymous.get(path)
        assert (answer.code, answer.body) == (200, b"ok"), path
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    verbose = anonymous.get("/readyz", verbose="")
    assert verbose.code == 200 and b"check passed" in verbose.body


def test_authorization(stack, ns):
    """With AlwaysDeny only system:masters may do anything; other users do not learn which objects exist."""
    path = f"/apis/wgpolicyk8s.io/v1alpha2/namespaces/{ns}/policyreports"
    stack.first.api().create(POLR, report("r", ns), ns)
    failure(stack.first.api(user="nobody").get(path + "/r"), 403, "Forbidden")
    failure(stack.first.api(user="nobody").get(path + "/missing"), 403, "Forbidden")
    failure(stack.first.api(user="nobody").delete(path), 403, "Forbidden")
    failure(stack.first.api(user=None).get(path), 403, "Forbidden")
    assert stack.first.api().names(POLR, ns) == ["r"]


def test_metrics(stack, api, ns):
    """HL-05: metrics have the names that dashboards use"""
    import urllib.request

    api.create(POLR, report("r", ns), ns)
    url = f"http://127.0.0.1:{stack.first.metrics_port}"
    with urllib.request.urlopen(url + "/metrics", timeout=10) as answer:
        text = answer.read().decode()
    for name in ("apiserver_storage_objects", "apiserver_request_total", "apiserver_request_duration_seconds_bucket"):
        assert f"\n{name}{{" in "\n" + text, name
    created = [line for line in text.splitlines()
               if line.startswith("apiserver_request_total{") and 'resource="policyreports"' in line
               and 'code="201"' in line]
    assert created and float(created[0].rsplit(" ", 1)[1]) >= 1
    for path in ("/livez", "/readyz"):
        with urllib.request.urlopen(url + path, timeout=10) as answer:
            assert answer.read() == b"ok"


def test_stored_objects(stack, types):
    """
    HL-05: RunTestStats: a new proxy counts the stored objects: those that were created and not deleted, updated or not
    """
    pods, none = types.pods(), types.pods()
    for name in ("a", "b", "c"):
        pods.create(name, "ns")
    pods.put(pods.pod("b", "ns", node="n"))
    pods.delete("c", "ns")
    proxy = stack.proxy(flags=["--workers=1"])

    def stored(kind):
        group, _, plural = kind.resource.split("/")
        return proxy.metric(f'apiserver_storage_objects{{resource="{plural}.{group}"}}')
    until(lambda: None not in (stored(pods), stored(none)), 30, "the first count")
    assert (stored(pods), stored(none)) == (2, 0)
    proxy.stop()
