"""docs/moving-in.md on a real control plane: reports in etcd, a switch without a gap, cleanup, the way back."""

import json
import os
import pathlib
import re
import threading

import pytest

from client import run, until
from conftest import TOP, Cluster, documents

PAGE = (TOP / "docs" / "moving-in.md").read_text(encoding="utf-8")
POLR, CPOLR = "policyreports.wgpolicyk8s.io", "clusterpolicyreports.wgpolicyk8s.io"
OTHERS = "ephemeralreports.reports.kyverno.io", "clusterephemeralreports.reports.kyverno.io"
LIST = "/apis/wgpolicyk8s.io/{}/policyreports"
IN_SHOP = "/apis/wgpolicyk8s.io/{}/namespaces/shop/policyreports"
SERVED = "wgpolicyk8s.io/v1alpha2"


def command(contains):
    """Returns the commands of the page's block with that text."""
    return next(block for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.M | re.S)
                if not language and contains in block)


class Moving(Cluster):
    """A cluster with the CRDs of policy reports, a proxy to which no APIService leads yet, and a user with rights."""

    def prepare(self):
        self.grant()
        self.plane.service()
        self.first = self.proxy()
        self.apply_crds()
        self.plane.user("mover")
        self.plane.apply(*documents("security.md", "name: kube-reports-import"), *(
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": role},
             "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
             "subjects": [{"kind": "User", "name": "mover", "apiGroup": "rbac.authorization.k8s.io"}]}
            for role in ("kube-reports-import", "kube-reports-cleanup")))
        self.mover = self.plane.write_kubeconfig("mover", certificate=f"{self.plane.pki}/user-mover")
        self.wait_crds("v1alpha2")
        return self

    def apply_crds(self):
        self.plane.apply(*(json.loads((TOP / "sql" / "crds" / f"{name}.json").read_text())
                           for name in (POLR, CPOLR, *OTHERS)))

    def wait_crds(self, version, *others):
        def stored():
            answers = [self.plane.api().get(LIST.format(name)) for name in (version, *others)]
            return all(answer.code == 200 for answer in answers)
        until(stored, 60, f"{version} of the CRDs")

    def shell(self, script, kubeconfig=None):
        """Runs commands of the page, with the programs on the PATH."""
        database = self.stack.database
        binaries = pathlib.Path(self.plane.directory) / "bin"
        binaries.mkdir(exist_ok=True)
        programs = {"kubectl": self.kubectl_program(),
                    "kube-reports-proxy": f"{database.directory}/dest/usr/bin/kube-reports-proxy"}
        for name, program in programs.items():
            if not (binaries / name).exists():
                (binaries / name).symlink_to(program)
        environment = {
            **os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "HOME": str(self.plane.directory),
            "KUBECONFIG": kubeconfig or self.plane.kubeconfig, "DATABASE": database.connection("kube_reports_proxy"),
            "OWNER_DATABASE": database.connection(), "CLUSTER": self.stack.cluster}
        return run(["bash", "-c", f"set -e -o pipefail\n{script}"], cwd=self.plane.directory, env=environment,
                   timeout=300)

    def here(self, script):
        """Returns commands for the proxy on this machine, at its port."""
        port = self.first.port
        return script.replace("--service=kube-reports/kube-reports", f"--service=kube-reports/kube-reports:{port} "
                              f"--connect-to=127.0.0.1:{port}").replace("ca.crt", f"{self.stack.pki}/ca.crt")

    def kubectl_program(self):
        return self.plane.programs.get("kubectl") or run(["bash", "-c", "command -v kubectl"]).out.strip()

    def reports(self, version="v1alpha2"):
        """Returns the reports that kube-apiserver lists, without members that differ between etcd and the database."""
        def listed():
            """Returns None while kube-apiserver refuses, after a change of a CRD (429)."""
            answer = self.plane.api().get(LIST.format(version))
            assert answer.code in (200, 429), answer
            return answer if answer.code == 200 else None
        answer = until(listed, 60, "the list")
        found = {}
        for item in answer.json["items"]:
            del item["metadata"]["resourceVersion"], item["apiVersion"]
            found[item["metadata"]["namespace"], item["metadata"]["name"]] = item
        return found

    def create(self, name, owner):
        answer = self.plane.api().post(IN_SHOP.format("v1alpha2"), {
            "apiVersion": SERVED, "kind": "PolicyReport",
            "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "kyverno"}, "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"],
                 "uid": owner["metadata"]["uid"]}]},
            "results": [{"policy": "p", "rule": f"r{place}", "result": "fail", "message": name} for place in range(5)],
            "summary": {"fail": 5}})
        assert answer.code == 201, answer


@pytest.fixture(scope="module")
def moving():
    cluster = Moving()
    try:
        yield cluster.prepare()
    finally:
        cluster.end()


def test_in_and_out(moving):
    plane, api = moving.plane, moving.plane.api()
    plane.namespace("shop")
    owner = api.post("/api/v1/namespaces/shop/configmaps",
                     {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}}).json
    for number in range(120):
        moving.create(f"r-{number:03}", owner)
    before = moving.reports()
    assert len(before) == 120

    # Without a gap: the second version, two imports, the switch, and the reports that came in between.
    moving.shell(command("kubectl patch crd policyreports.wgpolicyk8s.io clusterpolicyreports"))
    moving.wait_crds("etcd", "v1alpha2")
    load = command("import --from-cluster --kubeconfig")
    done = moving.shell(load, moving.mover)
    assert re.search(rf"{POLR} +120 +120 +0 +0 +0 +0 +0 +120 +0", done.out), done.out
    api.delete(IN_SHOP.format("v1alpha2") + "/r-119")
    moving.shell(command("import --from-cluster --prune"), moving.mover)
    assert moving.stack.database.psql("SELECT count(*) FROM kube_reports.stored_report") == "119"
    moving.create("late", owner)
    moving.shell(moving.here(command("apiservice enable")))
    until(lambda: ("shop", "late") not in moving.reports(), 60, "the switch")
    expected = {key: value for key, value in before.items() if key[1] != "r-119"}
    assert moving.reports() == expected
    done = moving.shell(command("import --from-cluster --version=etcd"), moving.mover)
    assert re.search(rf"{POLR} +120 +1 +0 +119 +0 +0 +0 +120 +0", done.out), done.out
    now = moving.reports()
    assert {key: value for key, value in now.items() if key[1] != "late"} == expected and ("shop", "late") in now
    # Clients still prefer our version.
    assert api.get("/apis/wgpolicyk8s.io").json["preferredVersion"]["version"] == "v1alpha2"

    # A report changes in etcd, and stays there; the others are deleted, and no client of the group notices.
    api.patch(IN_SHOP.format("etcd") + "/r-005",
              # Remove managed fields of the version that is removed later: an apply could not read them.
              {"metadata": {"labels": {"changed": "yes"}, "managedFields": [{}]}})
    done = moving.shell(command("cleanup --dry-run"), moving.mover)
    assert re.search(rf"{POLR} +etcd +120 +119 +0 +1", done.out), done.out
    assert "shop/r-005 stays: it has changed since it was imported" in done.err
    done = moving.shell(command("cleanup --also-gone --yes"), moving.mover)
    assert re.search(rf"{POLR} +120 +119 +0 +1", done.out), done.out
    assert re.search(r"size of etcd +[0-9]+ B +[0-9]+ B", done.out), done.out
    assert [name for _, name in moving.reports("etcd")] == ["r-005"]
    assert moving.reports() == now
    moving.shell(command('"op": "remove"'))

    # The way back.
    moving.shell(command("psql -X -A -t"))
    moving.shell(command("apiservice disable"))
    until(lambda: list(moving.reports()) == [("shop", "r-005")], 90, "the CRD to be served again")
    moving.shell(command("kubectl apply --server-side"))
    back = moving.reports()
    assert back.keys() == now.keys()
    for key, document in now.items():
        for member in ("results", "summary"):
            assert back[key][member] == document[member]
        assert back[key]["metadata"]["ownerReferences"] == document["metadata"]["ownerReferences"]
        assert back[key]["metadata"]["labels"].items() >= document["metadata"]["labels"].items()


def switch(moving):
    moving.shell(moving.here(command("apiservice enable")))


def hand_back(moving):
    moving.shell(command("apiservice disable"))
    moving.wait_crds("v1alpha2")


def fill(moving, prefix, count=10):
    """Creates reports with an owner, in the store that serves the group now."""
    plane, api = moving.plane, moving.plane.api()
    if api.get("/api/v1/namespaces/shop").code == 404:
        plane.namespace("shop")
    owner = api.post("/api/v1/namespaces/shop/configmaps", {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"owner-of-{prefix}"}}).json
    for number in range(count):
        moving.create(f"{prefix}-{number}", owner)


def test_in_with_one_version(moving):
    """
    Another import, where etcd is newer than the earlier copies: they are replaced.  After the switch etcd is cleaned
    up, while the group is handed back.
    """
    plane, api = moving.plane, moving.plane.api()
    fill(moving, "s")
    before = moving.reports()
    again = command("import --from-cluster --prune").replace("--prune", "--prune --overwrite")
    moving.shell(again, moving.mover)
    assert "all objects were stored before" in moving.shell(again, moving.mover).err
    switch(moving)
    until(lambda: moving.reports() == before, 60, "the copies behind the aggregator")
    # Garbage collection knows the copies by the uids that they kept, as soon as its watch has left etcd.
    moving.shell(command('"categories"'))
    api.delete("/api/v1/namespaces/shop/configmaps/owner-of-s")
    until(lambda: all(not name.startswith("s-") for _, name in moving.reports()), 180, "the end of what was owned")
    copies = {key: value for key, value in before.items() if not key[1].startswith("s-")}
    assert moving.reports() == copies and copies

    # No version leads to etcd while the proxies serve the only one.
    refused = moving.shell("! " + command("cleanup --dry-run"), moving.mover)
    assert "apiservice disable" in refused.err or "hidden" in refused.err, refused.err
    hand_back(moving)
    # The owner is deleted: if the collector was first, etcd has none of its reports any more.
    until(lambda: moving.reports().keys() >= copies.keys(), 60, "the reports of etcd")
    done = moving.shell(command("cleanup --also-gone --yes"), moving.mover)
    assert re.search(rf"{POLR} +[0-9]+ +[0-9]+ +0 +0\n", done.out), done.out
    assert moving.reports() == {} and plane.keys(f"wgpolicyk8s.io/{POLR.partition('.')[0]}") == 0
    switch(moving)
    until(lambda: moving.reports() == copies, 60, "the copies behind the aggregator")


class Reader(threading.Thread):
    """Lists all the time; wrong has the unexpected answers."""

    def __init__(self, moving, names):
        super().__init__(daemon=True)
        self.api, self.names = moving.plane.api(), names
        self.wrong, self.count = [], 0
        self.ending = threading.Event()

    def run(self):
        while not self.ending.is_set():
            answer = self.api.get(LIST.format("v1alpha2"))
            self.count += 1
            if answer.code != 200 or {item["metadata"]["name"] for item in answer.json["items"]} != self.names:
                self.wrong.append(answer)


def test_without_the_crds(moving):
    """
    The CRDs are deleted under a group that the proxies serve: etcd's objects go with them, no client notices, and the
    proxies serve on.  Without the proxies the group is gone then, but no report.
    """
    plane, api = moving.plane, moving.plane.api()
    hand_back(moving)
    fill(moving, "c")
    etcd = moving.reports()
    moving.shell(command("import --from-cluster --kubeconfig"), moving.mover)
    done = moving.shell(command("cleanup --dry-run"), moving.mover)
    assert re.search(rf"{POLR} +v1alpha2 +{len(etcd)} +{len(etcd)} +0 +0", done.out), done.out
    switch(moving)
    until(lambda: moving.reports().keys() > etcd.keys(), 60, "the copies behind the aggregator")
    before = moving.reports()
    assert plane.keys("wgpolicyk8s.io/policyreports") == len(etcd) > 0
    reader = Reader(moving, {name for _, name in before})
    reader.start()
    moving.shell(command("kubectl delete crd"))
    until(lambda: plane.keys("wgpolicyk8s.io/policyreports") == 0, 60, "the end of the objects in etcd")
    assert api.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{POLR}").code == 404
    count = reader.count
    until(lambda: reader.count > count + 50, 60, "further lists")
    reader.ending.set()
    reader.join(60)
    assert reader.wrong == []

    # The APIService stays, also over a restart; kubectl and the namespace controller find the types.
    plane.restart_apiserver()
    plane.wait_available(SERVED)
    assert moving.reports() == before
    assert "policyreports" in plane.kubectl("api-resources", "--api-group=wgpolicyk8s.io", "--cached=false")
    plane.namespace("short")
    assert api.post(f"/apis/{SERVED}/namespaces/short/policyreports", {
        "apiVersion": SERVED, "kind": "PolicyReport", "metadata": {"name": "short"}}).code == 201
    assert api.delete("/api/v1/namespaces/short").code == 200
    until(lambda: api.get("/api/v1/namespaces/short").code == 404, 180, "the end of a namespace")

    # The worst case: the group is handed back, and nobody serves it.  The database has the reports.
    moving.shell(command("apiservice disable"))
    until(lambda: api.get(LIST.format("v1alpha2")).code == 404, 60, "the end of the group")
    assert moving.stack.database.psql("SELECT count(*) FROM kube_reports.stored_report") == str(len(before))
    # The CRDs come back without objects: for import all copies are gone, and it deletes none without --prune.
    moving.apply_crds()
    moving.wait_crds("v1alpha2")
    assert moving.reports() == {}
    done = moving.shell(command("import --from-cluster --kubeconfig"), moving.mover)
    assert re.search(rf"{POLR} +0( +[0-9]+)+ +[1-9][0-9]*\n", done.out), done.out
    switch(moving)
    until(lambda: moving.reports() == before, 60, "the reports")
