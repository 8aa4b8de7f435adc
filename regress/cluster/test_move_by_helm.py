"""
docs/moving-in.md from its first command to its last, with the chart and real helm: from etcd into the database, with
and without a gap, the cleanup of etcd, and the way back.

A writer that obeys the Deployment stands for Kyverno's reports-controller.
"""

import contextlib
import itertools
import json
import random
import re
import threading

import pytest

from client import POLR, path_of, report, result, until
from conftest import TOP
from control_plane import GROUP_VERSIONS
from page_shell import Shell, blocks
from release import NEEDS_NETWORK, releases

pytestmark = NEEDS_NETWORK

PAGE = "moving-in.md"
TEXT = (TOP / "docs" / PAGE).read_text(encoding="utf-8")
DEPLOYMENT = "/apis/apps/v1/namespaces/kyverno/deployments/kyverno-reports-controller"
BY_ETCD = "wgpolicyk8s.io/etcd/policyreports"
NAMESPACE = "shop"
# Reports that no writer changes: their number, and a message so large that the size of etcd's file shows them.
STILL, MESSAGE = 150, "m" * 20_000


def block(section, contains):
    """Returns the one block of a section with that text."""
    (found,) = [text for text in blocks(PAGE, section) if contains in text]
    return found


def inline(contains):
    """Returns the one command inside the text of the page that begins so."""
    (found,) = re.findall(rf"`({re.escape(contains)}[^`]*)`", TEXT)
    return found


class Writer(threading.Thread):
    """
    Creates, changes and deletes reports all the time, one request after the other, as long as its Deployment has
    replicas.  known has what was acknowledged: the last number of each report, None for a deleted one.
    """

    def __init__(self, plane):
        super().__init__(daemon=True)
        self.api = plane.api()
        self.known, self.refused = {}, 0
        self.stopped, self.ending = threading.Event(), threading.Event()
        self.choose = random.Random(16)

    def run(self):
        for number in itertools.count():
            while self.api.get(DEPLOYMENT).json["spec"]["replicas"] == 0 and not self.ending.is_set():
                self.stopped.set()
                self.ending.wait(0.1)
            self.stopped.clear()
            if self.ending.is_set():
                return
            name = f"w-{self.choose.randrange(60)}"
            there = self.known.get(name) is not None
            wanted = None if there and self.choose.random() < 0.3 else number
            # As a controller does: try again until the write has succeeded.
            while not self._write(name, wanted, there) and not self.ending.is_set():
                self.refused += 1
                self.ending.wait(0.05)

    def _write(self, name, number, there):
        before = self.known.pop(name, None)
        with contextlib.suppress(OSError):
            if number is None:
                code = self.api.delete(path_of(POLR, NAMESPACE, name)).code
                if code == 404:
                    # The report was made in etcd right before the switch, and is copied after it: delete it another
                    # time.
                    self.known[name] = before
                    return True
            else:
                labels = {"number": str(number)}
                code = self.api.patch(path_of(POLR, NAMESPACE, name), {"metadata": {"labels": labels}}).code if there \
                    else 404
                if code == 404:
                    code = self.api.post(path_of(POLR, NAMESPACE), report(name, NAMESPACE, labels)).code
                if code == 409:
                    code = self.api.patch(path_of(POLR, NAMESPACE, name), {"metadata": {"labels": labels}}).code
            if code in (200, 201):
                self.known[name] = number
                return True
        return False

    def went_on(self, count=20):
        """Waits until the writer has written more."""
        before = dict(self.known)
        until(lambda: sum(before.get(name) != number for name, number in list(self.known.items())) >= count, 120,
              "further writes")

    def end(self):
        self.ending.set()
        self.join(60)
        assert not self.is_alive()


class Move:
    """A cluster whose reports are in etcd, and a shell with what "Before you begin" asks for."""

    def __init__(self, release, directory):
        self.release, self.plane, self.api = release, release.plane, release.api
        self.shell = Shell(release, directory)
        directory = release.database.directory
        self.shell.environment.update(
            DATABASE=f"host={directory} dbname=reports user=kube_reports_proxy",
            OWNER_DATABASE=f"host={directory} dbname=reports user=postgres", CLUSTER=self.plane.uid())
        (self.shell.directory / "values.yaml").write_text(json.dumps({
            "database": {"type": "external", "name": "reports", "parameters": {"host": "127.0.0.1"},
                         "secret": {"name": "proxy"}, "setup": {"secret": {"name": "setup"}}},
            "proxy": {"shutdownDelay": "1s"}}), encoding="utf-8")
        self.plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kyverno"}}, {
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "kyverno-reports-controller", "namespace": "kyverno"},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "k"}}, "template": {
                "metadata": {"labels": {"app": "k"}}, "spec": {"containers": [{"name": "k", "image": "k"}]}}}})
        self.plane.namespace(NAMESPACE)
        self.plane.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner",
                                                                                "namespace": NAMESPACE}})
        owner = self.api.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/owner").json["metadata"]
        for number in range(STILL):
            document = report(f"s-{number}", NAMESPACE, {"still": "yes"}, [result(message=MESSAGE)])
            document["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner",
                                                        "uid": owner["uid"]}]
            self.api.create(POLR, document, NAMESPACE)
        self.still = self.documents("still=yes")
        assert len(self.still) == STILL
        self.writer = Writer(self.plane)
        self.writer.start()
        self.writer.went_on()

    def run(self, text):
        """Runs a command of the page; returns all its output."""
        return self.shell.run(f"{{ {text.strip()}\n}} 2>&1")

    def documents(self, labels=None, resource=POLR):
        """Returns the reports that clients see, without members that each store sets itself."""
        def listed():
            """Returns None while kube-apiserver refuses, after a change of a CRD (429) and at a switch."""
            answer = self.api.get(path_of(resource, NAMESPACE), **({"labelSelector": labels} if labels else {}))
            assert answer.code in (200, 404, 429, 503), answer
            return answer if answer.code == 200 else None
        found = {}
        for item in until(listed, 60, "the list").json["items"]:
            del item["metadata"]["resourceVersion"], item["apiVersion"]
            found[item["metadata"]["name"]] = item
        return found

    def numbers(self, resource=POLR):
        """Returns the numbers of the writer's reports as a client sees them."""
        return {name: int(item["metadata"]["labels"]["number"])
                for name, item in self.documents("number", resource).items()}

    def nothing_lost(self):
        """With the writer stopped, its reports are as they were acknowledged, and the others are unchanged."""
        expected = {name: number for name, number in self.writer.known.items() if number is not None}
        assert expected and self.numbers() == expected
        assert self.documents("still=yes") == self.still

    def deleted_again(self):
        """
        Deletes reports that are back because they were deleted in the database before their last change in etcd was
        copied: a controller would do the same.
        """
        for name in self.numbers().keys() - {name for name, number in self.writer.known.items() if number is not None}:
            assert name in self.writer.known, name
            assert self.api.delete(path_of(POLR, NAMESPACE, name)).code == 200

    def taken(self):
        return [name for name in GROUP_VERSIONS
                if ((self.release.api_service(name) or {}).get("spec", {}).get("service") or {}).get("name")
                == "kube-reports"]

    def rest(self):
        """Stops the controller as the page does."""
        self.run(inline("kubectl -n kyverno scale"))
        assert self.writer.stopped.wait(60)

    def start(self):
        self.run(inline("kubectl -n kyverno scale").replace("--replicas=0", "--replicas=1"))
        self.writer.went_on()

    def end(self):
        self.writer.ending.set()
        self.writer.join(60)
        self.release.run("uninstall", "kube-reports", "--wait", "--ignore-not-found")


@pytest.fixture(scope="module")
def release(request):
    yield from releases(request.param)


@pytest.fixture
def move(release, tmp_path):
    moving = Move(release, tmp_path)
    try:
        yield moving
    finally:
        moving.end()


def installed(move):
    """Before you begin: the release is ready, and nothing has changed for any client"""
    told = move.run(block("Before you begin", "helm install"))
    assert "apiServices.enabled is false" in told, told
    assert len(move.release.ready()) >= 2
    assert move.taken() == []
    assert move.documents("still=yes") == move.still


def back(move):
    """Goes the way back, from a release with all reports in the database; etcd has old reports or none"""
    export, upgrade, _, write = blocks(PAGE, "The way back")
    move.rest()
    move.run(export)
    move.run(upgrade)
    assert move.taken() == []
    move.plane.wait_available("wgpolicyk8s.io/v1alpha2", "reports.kyverno.io/v1")
    move.run(inline("kubectl -n kube-reports scale"))
    move.run(write)
    expected = {name: number for name, number in move.writer.known.items() if number is not None}
    assert move.numbers() == expected
    for name, document in move.documents("still=yes").items():
        for member in ("results", "summary"):
            assert document[member] == move.still[name][member]
        assert document["metadata"]["ownerReferences"] == move.still[name]["metadata"]["ownerReferences"]
    move.start()


def cleaned(told, column):
    """Returns a number of cleanup's last table for policy reports: column 1 is before, column 4 is left."""
    (line,) = [line for line in told.splitlines() if re.match(r"policyreports\.wgpolicyk8s\.io +[0-9]", line)
               and len(line.split()) == 5]
    return int(line.split()[column])


@pytest.mark.parametrize("release", ["v3.22.0"], indirect=True)
def test_with_a_gap(move):
    """Steps 1 to 6, a cleanup of CRDs with one version, and the way back"""
    section = "Kyverno with CRDs: with a gap"
    installed(move)
    move.run(block(section, "import --from-cluster --kubeconfig"))
    move.writer.went_on()
    move.rest()
    changes = block(section, "import --from-cluster --prune")
    until(lambda: "all objects were stored before" in move.run(changes), 120, "a copy without changes")
    before = move.documents()
    move.run(block(section, "helm upgrade"))
    assert move.taken() == list(GROUP_VERSIONS)
    until(lambda: move.documents() == before, 60, "the copies")
    move.nothing_lost()
    # A watch that is still at etcd sees nothing of the database, until the watch is ended.
    move.run(block("Watches that stay at etcd", "categories"))
    move.start()
    move.rest()
    move.nothing_lost()
    # Clean up etcd, with one version: meanwhile the group is handed back, and the writer rests.
    _, upgrade, _, _ = blocks(PAGE, "The way back")
    now = move.documents()
    move.run(upgrade)
    until(lambda: move.documents().keys() == before.keys(), 90, "the reports of etcd")
    dry = move.run(block("Clean up etcd", "--dry-run"))
    assert re.search(rf"policyreports\.wgpolicyk8s\.io +v1alpha2 +{len(before) + 1} +", dry), dry
    told = move.run(block("Clean up etcd", "--also-gone"))
    assert cleaned(told, 1) == len(before) + 1 and cleaned(told, 4) == 0, told
    assert move.plane.keys("wgpolicyk8s.io/policyreports") == 0 and move.documents() == {}
    move.run(block(section, "helm upgrade"))
    until(lambda: move.documents() == now, 60, "the copies")
    move.nothing_lost()
    back(move)


@pytest.mark.parametrize("release", ["v4.3.1"], indirect=True)
def test_without_a_gap(move):
    """The writer goes on all the time; afterwards each of its reports is as it was acknowledged"""
    section, with_a_gap = "Kyverno with CRDs: without a gap", "Kyverno with CRDs: with a gap"
    installed(move)
    move.run(block(section, '"op": "copy"'))
    until(lambda: move.api.get(path_of(BY_ETCD, NAMESPACE)).code == 200, 60, "the second version")
    move.run(block(with_a_gap, "import --from-cluster --kubeconfig"))
    move.run(block(with_a_gap, "import --from-cluster --prune"))
    move.writer.went_on(5)
    with move.api.watch(path_of(POLR, NAMESPACE), resourceVersion=move.api.get(
            path_of(POLR, NAMESPACE)).json["metadata"]["resourceVersion"]) as watch:
        move.run(block(with_a_gap, "helm upgrade"))
        assert move.taken() == list(GROUP_VERSIONS)
        move.run(block("Watches that stay at etcd", "categories"))
        # The watch ends, and its client lists again.
        watch.end(120)
    move.writer.went_on()
    late = block(section, "--version=etcd").strip()
    until(lambda: "see above" not in move.run(f"{late} || true"), 120, "a copy of what is left in etcd")
    move.writer.went_on()
    move.rest()
    move.deleted_again()
    move.nothing_lost()
    # etcd's count and size fall, and no client notices.
    objects = ("apiserver_resource_objects", 'group="wgpolicyk8s.io"', 'resource="policyreports"')
    in_etcd = move.plane.keys("wgpolicyk8s.io/policyreports")
    until(lambda: move.plane.metric(*objects) == in_etcd, 150, "a count of the reports in etcd")
    move.plane.defragment()
    size = until(lambda: move.plane.metric("apiserver_storage_size_bytes"), 30, "the size of etcd")
    now = move.documents()
    told = move.run(block("Clean up etcd", "--also-gone"))
    assert cleaned(told, 1) == in_etcd, told
    left = cleaned(told, 4)
    assert left < in_etcd - STILL and left == move.plane.keys("wgpolicyk8s.io/policyreports"), told
    assert move.documents() == now
    # Reports that changed on both sides stay, until somebody deletes one of them.
    for name in move.documents(resource=BY_ETCD):
        move.run(inline("kubectl -n NAMESPACE delete").replace("NAMESPACE", NAMESPACE).replace("NAME", name))
    assert move.plane.keys("wgpolicyk8s.io/policyreports") == 0 and move.documents() == now
    until(lambda: move.plane.metric(*objects) == 0, 150, "kube-apiserver to count again")
    move.plane.defragment()
    until(lambda: move.plane.metric("apiserver_storage_size_bytes") < size - STILL * len(MESSAGE) / 2, 90,
          "a smaller file of etcd")
    move.run(block(section, '"op": "remove"'))
    move.nothing_lost()
    move.start()
    move.rest()
    move.nothing_lost()
    back(move)
