"""What clients find through the aggregator: discovery, OpenAPI, kubectl."""

import json

from client import APPLY, CPOLR, EPHR, POLR, REPS, path_of, report, result, until
from control_plane import GROUP_VERSIONS, NAMESPACE, SERVICE

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def test_available(api):
    """Every group is available and verified by a caBundle, and etcd has no object of it."""
    for group_version in GROUP_VERSIONS:
        group, version = group_version.split("/")
        document = api.get(f"/apis/apiregistration.k8s.io/v1/apiservices/{version}.{group}").json
        assert document["spec"]["service"]["name"] == SERVICE and document["spec"]["service"]["namespace"] == NAMESPACE
        assert document["spec"]["caBundle"] and not document["spec"].get("insecureSkipTLSVerify")
    assert not [line for line in api.get("/metrics").body.decode().splitlines()
                if line.startswith("apiserver_storage_objects{") and "report" in line]


def test_discovery(api):
    """The aggregated document has our groups, fresh, with what a client needs; so have the older documents."""
    groups = {item["metadata"]["name"]: item for item in api.get("/apis", accept=AGGREGATED).json["items"]}
    for group_version in GROUP_VERSIONS:
        group, version = group_version.split("/")
        entry = next(item for item in groups[group]["versions"] if item["version"] == version)
        assert entry["freshness"] == "Current"
        resources = {item["resource"]: item for item in entry["resources"]}
        legacy = {item["name"]: item for item in api.get(f"/apis/{group_version}").json["resources"]}
        assert resources.keys() == legacy.keys()
        for name, resource in resources.items():
            assert {"get", "list", "watch", "create", "update", "patch", "delete",
                    "deletecollection"} == set(resource["verbs"])
            assert resource["scope"] == ("Namespaced" if legacy[name]["namespaced"] else "Cluster")
    legacy = {item["name"]: item for item in api.get("/apis", accept="application/json").json["groups"]}
    assert {group_version.split("/")[0] for group_version in GROUP_VERSIONS} <= legacy.keys()


def test_openapi(api):
    """Our schemas are in kube-apiserver's documents of both versions."""
    # kube-aggregator asks for them in the background.
    paths = until(lambda: (found := api.get("/openapi/v3").json["paths"]).keys()
                  >= {f"apis/{name}" for name in GROUP_VERSIONS} and found,
                  90, "OpenAPI v3")
    for group_version in GROUP_VERSIONS:
        document = api.get(paths[f"apis/{group_version}"]["serverRelativeURL"])
        assert document.code == 200 and document.json["components"]["schemas"]
    until(lambda: f"/apis/{POLR.rpartition('/')[0]}/policyreports" in api.get("/openapi/v2", seconds=60).json["paths"],
          90, "OpenAPI v2")


def test_kubectl(plane, ns):
    """The usual commands of kubectl work."""
    def kubectl(*arguments, **more):
        return plane.kubectl("-n", ns, *arguments, **more)
    assert "policyreports" in plane.kubectl("api-resources", "--api-group=wgpolicyk8s.io")
    assert "results" in plane.kubectl("explain", "polr")
    document = report("one", ns, results=[result(outcome="fail")])
    assert "one created" in kubectl("create", "-f", "-", input=json.dumps(document))
    head, line = kubectl("get", "polr").splitlines()
    assert head.split()[0] == "NAME" and "FAIL" in head.split() and line.split()[0] == "one"
    assert "one" in plane.kubectl("get", "polr", "-A")
    assert json.loads(kubectl("get", "polr", "one", "-o", "json"))["summary"]["fail"] == 1
    assert "Name:" in kubectl("describe", "polr", "one")
    kubectl("label", "polr", "one", "team=a")
    assert "one" in kubectl("get", "polr", "-l", "team=a") and "one" not in kubectl("get", "polr", "-l", "team!=a")
    kubectl("annotate", "polr", "one", "note=b")
    kubectl("patch", "polr", "one", "--type=merge", "-p", '{"summary": {"warn": 3}}')
    kubectl("patch", "polr", "one", "--type=json", "-p", '[{"op": "replace", "path": "/summary/warn", "value": 4}]')
    assert kubectl("get", "polr", "one", "-o", "jsonpath={.summary.warn}") == "4"
    # Three ways of apply: the client's, the server's, and from one to the other.
    second = json.dumps(report("two", ns))
    assert "created" in kubectl("apply", "-f", "-", input=second)
    assert "unchanged" in kubectl("apply", "-f", "-", input=second)
    assert "serverside-applied" in kubectl("apply", "--server-side", "-f", "-", input=second)
    assert kubectl("diff", "-f", "-", input=second) == ""
    assert "condition met" in kubectl("wait", "polr/two", "--for=jsonpath={.metadata.name}=two", "--timeout=20s")
    assert "replaced" in kubectl("replace", "-f", "-",
                                 input=json.dumps(json.loads(kubectl("get", "polr", "two", "-o", "json"))))
    assert "deleted" in kubectl("delete", "polr", "one")
    assert "deleted" in kubectl("delete", "polr", "--all")
    assert "No resources found" in kubectl("get", "polr", check=False).err


def test_all_verbs(api, ns):
    """All verbs work for types of each group."""
    for resource, namespace in ((POLR, ns), (CPOLR, None), (REPS, ns)):
        name = f"verbs-{ns}"
        api.create(resource, report(name, namespace, resource=resource), namespace)
        path = path_of(resource, namespace, name)
        stored = api.get(path).json
        assert api.put(path, {**stored, "metadata": {**stored["metadata"], "labels": {"a": "b"}}}).code == 200
        assert api.patch(path, {"metadata": {"annotations": {"c": "d"}}}).code == 200
        assert api.patch(path + "?fieldManager=m", json.dumps(report(name, namespace, resource=resource)), kind=APPLY,
                         force="true").code == 200
        assert api.delete(path_of(resource, namespace), labelSelector="a=b").code == 200
        assert api.get(path).code == 404
    assert api.get(path_of(EPHR, ns)).json["kind"] == "EphemeralReportList"


def test_watch(api, ns):
    """A bookmark ends the initial events; after it, events come one by one."""
    with api.watch(path_of(POLR, ns), sendInitialEvents="true", resourceVersionMatch="NotOlderThan",
                   allowWatchBookmarks="true") as watch:
        assert watch.event()[0] == "BOOKMARK"
        api.create(POLR, report("one", ns), ns)
        watch.expect(("ADDED", "one"))
        api.patch(path_of(POLR, ns, "one"), {"summary": {"warn": 1}})
        watch.expect(("MODIFIED", "one"))
        api.delete(path_of(POLR, ns, "one"))
        watch.expect(("DELETED", "one"))
