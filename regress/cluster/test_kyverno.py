"""
Kyverno's own reports-controller as a client: policies for 100 resources are changed and deleted, and every report is
right.

The controller finds resources and policies by watches, writes ephemeral reports, and merges them into one policy report
for each resource.  All reports are in the database.
"""

import collections
import json
import signal

import pytest

from client import CPOLR, EPHR, POLR, path_of, until
from conftest import HTTP, Cluster
from control_plane import programs
from kyverno_release import HELM, PROGRAM, Kyverno

pytestmark = pytest.mark.skipif(PROGRAM not in programs() or not HELM.exists(),
                                reason="Kyverno and Helm are not built: .ci/cluster-programs build, make check-chart")

NAMESPACES = [f"scanned-{number}" for number in range(4)]
EACH = 25
# The controller waits for 30 s before it scans and for 10 s before it merges, and other controllers run beside it.
PATIENCE = 300
POLICIES = "/apis/kyverno.io/v1/clusterpolicies"


def policy(name, label):
    """Returns a ClusterPolicy that requires a label of ConfigMaps."""
    return {"apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "metadata": {"name": name},
            "spec": {"background": True, "validationFailureAction": "Audit", "rules": [{
                "name": f"wants-{label}", "match": {"any": [{"resources": {"kinds": ["ConfigMap"],
                                                                           "namespaces": ["scanned-*"]}}]},
                "validate": {"message": f"no label {label}",
                             "pattern": {"metadata": {"labels": {label: "?*"}}}}}]}}


class Scanned(Cluster):
    """A cluster without CRDs of reports, where Kyverno scans ConfigMaps."""

    kyverno = None

    def prepare(self, *values):
        self.serve()
        self.api = self.plane.api()
        self.kyverno = Kyverno(self.plane, HTTP.free_port, *values)
        for namespace in NAMESPACES:
            self.plane.namespace(namespace)
        self.plane.apply(*({"apiVersion": "v1", "kind": "ConfigMap",
                            "metadata": {"name": f"resource-{number}", "namespace": namespace,
                                         "labels": {"team": "a"} if number % 2 else {"owner": "b"}}}
                           for namespace in NAMESPACES for number in range(EACH)))
        return self

    def resources(self):
        """Returns the ConfigMaps by their uids, with those that Kubernetes itself makes."""
        return {item["metadata"]["uid"]: item for namespace in NAMESPACES
                for item in self.api.get(f"/api/v1/namespaces/{namespace}/configmaps").json["items"]}

    def expected(self):
        """Returns the results that each resource should have, by the present policies: (policy, rule, result)."""
        rules = [(item["metadata"]["name"], rule["name"], rule["name"].partition("-")[2])
                 for item in self.api.get(POLICIES).json["items"] for rule in item["spec"]["rules"]]
        return {uid: sorted((name, rule, "pass" if item["metadata"].get("labels", {}).get(label) else "fail")
                            for name, rule, label in rules)
                for uid, item in self.resources().items()} if rules else {}

    def reports(self):
        return {item["metadata"]["name"]: item for item in self.api.get(path_of(POLR)).json["items"]}

    def found(self):
        return {name: sorted((each["policy"], each["rule"], each["result"]) for each in item["results"])
                for name, item in self.reports().items()}

    def settled(self):
        """Whether reports are what they should be, and none waits to be merged."""
        self.kyverno.process.check()
        return self.found() == self.expected() and not self.api.get(path_of(EPHR)).json["items"]

    def rows(self):
        """Returns how many results of which policy and status SQL shows."""
        return json.loads(self.stack.database.psql(
            "SELECT coalesce(json_object_agg(key, count), '{}') FROM (SELECT policy || '/' || status AS key, count(*)"
            " FROM kube_reports.typed_result WHERE cluster = :'cluster' GROUP BY 1) AS counted",
            cluster=self.stack.cluster))

    def right(self, what):
        """Checks that every report is right, in each of its parts, and so are the rows that SQL shows."""
        try:
            until(self.settled, PATIENCE, what)
        except AssertionError as error:
            found, expected = self.found(), self.expected()
            wrong = {uid: (found.get(uid), expected.get(uid)) for uid in found.keys() | expected.keys()
                     if found.get(uid) != expected.get(uid)}
            waiting = len(self.api.get(path_of(EPHR)).json["items"])
            raise AssertionError(f"{error}: {len(wrong)} reports differ, {waiting} wait to be merged: "
                                 f"{list(wrong.items())[:3]}\n{self.kyverno.process.tail()}") from None
        resources, reports = self.resources(), self.reports()
        for uid, item in reports.items():
            resource = resources[uid]
            metadata = item["metadata"]
            assert metadata["namespace"] == resource["metadata"]["namespace"]
            assert item["scope"]["name"] == resource["metadata"]["name"] and item["scope"]["uid"] == uid
            assert [owner["uid"] for owner in metadata["ownerReferences"]] == [uid]
            counts = collections.Counter(each["result"] for each in item["results"])
            assert {key: value for key, value in item["summary"].items() if value} == counts
        counted = collections.Counter(f"{name}/{result}" for results in self.expected().values()
                                      for name, _, result in results)
        until(lambda: self.rows() == counted, 30, f"{counted} in SQL")
        assert not self.api.get(path_of(CPOLR)).json["items"]

    def end(self):
        if self.kyverno is not None:
            self.kyverno.stop(signal.SIGKILL)
        super().end()


@pytest.fixture(scope="module")
def scanned():
    own = Scanned()
    try:
        yield own
    finally:
        own.end()


def test_checks_of_crds(scanned):
    """Without CRDs the controller ends at once, unless the chart says that there is a reports server."""
    scanned.prepare("crds.reportsServer.enabled=true")
    container = scanned.kyverno.controller["containers"][0]
    with_checks = [argument for argument in container["args"] if argument != "--reportsCRDsSanityChecks=false"]
    assert len(with_checks) == len(container["args"]) - 1
    container["args"], without = with_checks, container["args"]
    process = scanned.kyverno.start()
    until(lambda: process.process.poll() is not None, 60, "the end of the controller")
    assert process.process.returncode != 0 and "sanity checks failed" in process.tail()
    container["args"] = without


def test_first_scan(scanned):
    """The controller scans 100 resources by two policies."""
    scanned.plane.apply(policy("team", "team"), policy("owner", "owner"))
    scanned.kyverno.start()
    scanned.right("the first scan")
    assert len(scanned.reports()) >= len(NAMESPACES) * EACH


def test_policy_changed(scanned):
    """One policy requires another label, and a third policy comes."""
    scanned.plane.apply(policy("owner", "team"), policy("color", "color"))
    scanned.right("the scan of changed policies")


def test_resources_changed(scanned):
    """Labels and resources change; reports are deleted with their resources."""
    for namespace in NAMESPACES:
        path = f"/api/v1/namespaces/{namespace}/configmaps/resource-"
        for number in range(0, EACH, 4):
            answer = scanned.api.patch(f"{path}{number}", {"metadata": {"labels": {"team": "c", "color": "red"}}})
            assert answer.code == 200, answer
        for number in range(1, EACH, 4):
            assert scanned.api.delete(f"{path}{number}").code == 200
        scanned.plane.apply({"apiVersion": "v1", "kind": "ConfigMap",
                             "metadata": {"name": "late", "namespace": namespace, "labels": {"color": "blue"}}})
    scanned.right("the scan of changed resources")


def test_restarts(scanned):
    """A proxy is killed, and the controller restarted, while policies change."""
    scanned.plane.apply(policy("color", "owner"))
    scanned.first.process.kill()
    scanned.first.process.wait(30)
    scanned.first.start()
    scanned.first.wait_ready(60)
    scanned.kyverno.stop()
    scanned.plane.apply(policy("team", "color"))
    scanned.kyverno.start()
    scanned.right("the scan after restarts")


def test_policy_deleted(scanned):
    """Results of a deleted policy are removed, and with the last policy all reports."""
    for name in ("owner", "team", "color"):
        assert scanned.api.delete(f"{POLICIES}/{name}").code == 200
        scanned.right(f"reports without {name}")
    assert scanned.reports() == {}
