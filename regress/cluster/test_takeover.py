"""The groups of a cluster that has their CRDs, and reports in etcd, are taken over and given back."""

import json
import re
import threading
import time

import pytest

from client import POLR, path_of, report, sql_text, until
from conftest import TOP, documents
from control_plane import API_SERVICES, NAMESPACE, SERVICE
from old_cluster import CRDS, GROUP_VERSION, api_service, command, disable, enable, names, old_clusters

AUTOMANAGED = "kube-aggregator.kubernetes.io/automanaged"


@pytest.fixture(scope="module")
def old_cluster():
    yield from old_clusters()


def test_without_the_label(old_cluster):
    """
    Without the command, kubectl says that an applied APIService is "configured", and kube-apiserver puts its own back
    at once.
    """
    plane = old_cluster.plane
    assert api_service(old_cluster)["metadata"]["labels"][AUTOMANAGED] == "true"
    plane.apply(plane.api_service(GROUP_VERSION, old_cluster.first.port))
    until(lambda: not api_service(old_cluster)["spec"].get("service"), 60, "kube-apiserver to put it back")
    assert names(old_cluster) == ["in-etcd"]


def test_there_and_back(old_cluster):
    """
    After enable, clients see the proxy's reports, also after a restart of kube-apiserver; after disable, they see those
    of etcd.  All of this is done twice, and each command runs twice.
    """
    plane = old_cluster.plane
    for _ in range(2):
        for _ in range(2):
            enable(old_cluster)
        taken = api_service(old_cluster)
        assert taken["spec"]["service"]["name"] == SERVICE and taken["spec"]["caBundle"]
        assert taken["metadata"].get("labels", {}).get(AUTOMANAGED) not in ("true", "onstart")
        assert plane.available(GROUP_VERSION)
        until(lambda: names(old_cluster) in ([], ["in-the-database"]), 30, "lists of the proxy")
        plane.api().post(path_of(POLR, "default"), report("in-the-database", "default"))
        assert names(old_cluster) == ["in-the-database"]
        # The next upgrade of a chart with the CRDs changes them like this.
        plane.kubectl("annotate", "crd", "policyreports.wgpolicyk8s.io", "touched=yes", "--overwrite")
        plane.restart_apiserver()
        plane.wait_available(GROUP_VERSION)
        assert names(old_cluster) == ["in-the-database"]
        for _ in range(2):
            disable(old_cluster)
        until(lambda: names(old_cluster) == ["in-etcd"], 60, "lists of etcd")
        given_back = api_service(old_cluster)
        assert not given_back["spec"].get("service") and given_back["metadata"]["labels"][AUTOMANAGED] == "true"


def test_reports_of_a_deleted_namespace(old_cluster):
    """Hidden reports outlive their namespace: after disable they are visible, in a namespace that does not exist"""
    plane, api = old_cluster.plane, old_cluster.plane.api()
    plane.namespace("doomed")
    assert api.post(path_of(POLR, "doomed"), report("hidden", "doomed")).code == 201
    enable(old_cluster)
    until(lambda: names(old_cluster) in ([], ["in-the-database"]), 30, "lists of the proxy")
    assert api.delete("/api/v1/namespaces/doomed").code == 200
    until(lambda: api.get("/api/v1/namespaces/doomed").code == 404, 120, "the end of the namespace")
    disable(old_cluster)
    until(lambda: names(old_cluster) == ["in-etcd"], 60, "lists of etcd")
    assert [item["metadata"]["name"] for item in api.get(path_of(POLR, "doomed")).json["items"]] == ["hidden"]
    assert api.get("/api/v1/namespaces/doomed").code == 404
    assert api.delete(path_of(POLR, "doomed") + "/hidden").code == 200


def test_type_that_is_not_registered(old_cluster):
    """
    The objects of a CRD in the same group and version that the proxies do not serve would be invisible: enable refuses
    that, and changes nothing.
    """
    crd = json.loads(CRDS[0].read_text(encoding="utf-8"))
    crd["metadata"] = {"name": "exceptions.wgpolicyk8s.io", "annotations": crd["metadata"].get("annotations", {})}
    crd["spec"]["names"] = {"plural": "exceptions", "singular": "exception", "kind": "Exception",
                            "listKind": "ExceptionList"}
    old_cluster.plane.apply(crd)
    try:
        refused = enable(old_cluster, check=False)
        assert refused.returncode != 0 and "exceptions" in refused.stderr
        assert not api_service(old_cluster)["spec"].get("service")
        assert names(old_cluster) == ["in-etcd"]
    finally:
        old_cluster.plane.kubectl("delete", "crd", "exceptions.wgpolicyk8s.io")


def test_before_the_proxy_answers(old_cluster):
    """Nothing is taken over while no proxy can answer."""
    old_cluster.first.stop()
    try:
        # The command has no connection to a database either: it asks the proxy itself.
        refused = command(old_cluster, "apiservice", "enable", GROUP_VERSION,
                          f"--service={NAMESPACE}/{SERVICE}:{old_cluster.first.port}",
                          f"--ca-file={old_cluster.stack.pki}/ca.crt", "--timeout=5s", check=False)
        assert refused.returncode != 0
        assert names(old_cluster) == ["in-etcd"]
    finally:
        old_cluster.first.start()
        old_cluster.first.wait_ready(60)


def test_without_crds(old_cluster):
    """A group without CRDs: enable creates the APIService, and disable deletes it."""
    group_version, name = "openreports.io/v1alpha1", "v1alpha1.openreports.io"
    enable(old_cluster, group_version=group_version)
    old_cluster.plane.wait_available(group_version)
    disable(old_cluster, group_version)
    until(lambda: old_cluster.plane.api().get(f"{API_SERVICES}/{name}").code == 404, 30, "the end of the APIService")


def test_manifest_of_the_page(old_cluster):
    """
    kubectl applies the YAML of docs/howto.md beside the CRD: kube-apiserver leaves it as it is, and makes its own
    APIService when it is deleted
    """
    plane, stack = old_cluster.plane, old_cluster.stack
    crd = json.loads((TOP / "regress" / "crds" / "vulnerabilityreports.aquasecurity.github.io.json").read_text())
    group_version, name = "aquasecurity.github.io/v1alpha1", "v1alpha1.aquasecurity.github.io"
    path = f"/apis/{group_version}/namespaces/default/vulnerabilityreports"
    plane.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(crd))
    plane.wait_available(group_version)
    (manifest,) = documents("howto.md", "kind: APIService")
    assert manifest["metadata"]["name"] == name and manifest["spec"]["caBundle"] == ""
    manifest["spec"]["caBundle"] = plane.api_service(group_version, 443)["spec"]["caBundle"]
    manifest["spec"]["service"]["port"] = old_cluster.first.port
    stack.database.psql(f"SELECT kube_reports.register_crd({sql_text(crd)})")
    try:
        plane.apply(manifest)
        until(lambda: plane.available(group_version) and plane.api().get(path).headers.get("Audit-Id")
              and plane.api().get(path).code == 200, 60, "the proxy's answer")
        page = (TOP / "docs" / "howto.md").read_text(encoding="utf-8")
        asked, = re.findall(r"`kubectl (get apiservice [^`]*)`", page)
        assert plane.kubectl(*asked.split()).splitlines()[1].split()[2] == "True"
        asked, = re.findall(r"`kubectl (get crd NAME [^`>]*) >crd.json`", page)
        read = json.loads(plane.kubectl(*asked.replace("NAME", crd["metadata"]["name"]).split()))
        assert read["spec"]["names"]["kind"] == crd["spec"]["names"]["kind"]
        taken = plane.api().get(f"{API_SERVICES}/{name}").json
        assert taken["spec"]["service"]["name"] == SERVICE
        # These two make kube-apiserver put the spec of an APIService back that it manages itself.
        plane.kubectl("annotate", "crd", crd["metadata"]["name"], "touched=yes")
        plane.restart_apiserver()
        plane.wait_available(group_version)
        assert plane.api().get(f"{API_SERVICES}/{name}").json["spec"]["service"] == manifest["spec"]["service"]
        assert plane.keys("aquasecurity.github.io") == 0
        plane.kubectl("delete", "apiservice", name)
        until(lambda: "service" not in (plane.api().get(f"{API_SERVICES}/{name}").json.get("spec") or {"service": 0}),
              60, "kube-apiserver's own APIService")
    finally:
        plane.kubectl("delete", "crd", crd["metadata"]["name"])
        stack.database.psql(f"SELECT kube_reports.unregister('{crd['metadata']['name']}', true)")


def discovered(plane):
    """Returns what kubectl and controllers discover of each group and version: (freshness, number of types)."""
    answer = plane.api().get("/apis", accept="application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
    return {f"{group['metadata']['name']}/{version['version']}": (version["freshness"],
                                                                  len(version.get("resources", [])))
            for group in answer.json["items"] for version in group["versions"]}


def test_discovery_without_proxies(old_cluster):
    """
    After a group is given back, kube-apiserver does not ask the Service any more: without proxies, the types of the
    CRDs are still discovered.  kubectl and the deletion of namespaces need them.
    """
    plane, other = old_cluster.plane, "openreports.io/v1alpha1"
    enable(old_cluster)
    enable(old_cluster, group_version=other)
    disable(old_cluster)
    until(lambda: discovered(plane).get(GROUP_VERSION) == ("Current", 2) and other in discovered(plane), 60,
          "discovery")
    old_cluster.first.stop()
    until(lambda: discovered(plane)[other][0] == "Stale", 180, "a look at the Service")
    # kube-apiserver asks all Services once a minute: wait for two rounds.
    ends = time.monotonic() + 130
    while time.monotonic() < ends:
        assert discovered(plane)[GROUP_VERSION] == ("Current", 2)
        threading.Event().wait(1)
    plane.api().delete(f"{API_SERVICES}/v1alpha1.openreports.io")
    plane.namespace("short")
    assert plane.api().delete("/api/v1/namespaces/short").code == 200
    until(lambda: plane.api().get("/api/v1/namespaces/short").code == 404, 120, "the end of a namespace")
