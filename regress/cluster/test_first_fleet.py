"""
docs/first-fleet.md with two real control planes: the CRDs and the objects of a scan are in the etcd of each, senders
list and watch them through kube-apiserver, and a third server has the fleet.
"""

import copy
import re

import pytest

from client import path_of, run, until
from conftest import HTTP
from control_plane import ControlPlane
from first_fleet import CLUSTERS, PAGE, SCANS, FirstFleet, empty_server
from operators import COMPLIANCE, VERSION, compliance_crds

NS = "openshift-compliance"
CHECKS = f"{COMPLIANCE}/{VERSION}/compliancecheckresults"


def resource(document):
    return f"{COMPLIANCE}/{VERSION}/{document['kind'].lower()}s"


class Scanned:
    """A cluster in which the operator has scanned."""

    def __init__(self, scan):
        self.stack = HTTP.Stack()
        self.plane = ControlPlane(f"{self.stack.database.directory}/control-plane", self.stack.pki, HTTP.stack_command,
                                  HTTP.free_port)
        try:
            self.plane.apply(*compliance_crds())
            self.plane.wait_available(f"{COMPLIANCE}/{VERSION}")
            self.plane.namespace(NS)
            self.api = self.plane.api(keep=True)
            self.uids = {}
            until(lambda: self.api.get(path_of(CHECKS, NS)).code == 200, 60, "the types")
            for document in (scan.suite, scan.scan, *scan.checks.values(), *scan.remediations.values()):
                self.create(document)
        except BaseException:
            self.end()
            raise

    def create(self, document):
        """Creates an object as the operator does: with its owners' uids, and with the status in a second request."""
        document = copy.deepcopy(document)
        for owner in document["metadata"].get("ownerReferences", []):
            owner["uid"] = self.uids[owner["kind"], owner["name"]]
        stored = self.api.create(resource(document), document, NS)
        self.uids[document["kind"], document["metadata"]["name"]] = stored["metadata"]["uid"]
        if isinstance(document.get("status"), dict):
            path = path_of(resource(document), NS, document["metadata"]["name"])
            # No remediation is to be applied (spec.apply).
            answer = self.api.patch(f"{path}/status", {"status": {"applicationState": "NotApplied"}})
            assert answer.code == 200, answer

    def end(self):
        self.plane.stop()
        self.stack.end()


@pytest.fixture(scope="module")
def clusters():
    begun = {}
    try:
        for name in CLUSTERS:
            begun[name] = Scanned(SCANS[name])
        yield begun
    finally:
        for cluster in begun.values():
            cluster.end()


@pytest.fixture(scope="module")
def empty():
    yield from empty_server(HTTP.Database())


def test_the_page(clusters, empty, tmp_path):
    """Every block of the page runs; then a rule passes in one cluster, and the fleet shows it"""
    planes = {name: cluster.plane for name, cluster in clusters.items()}
    fleet = FirstFleet(empty, HTTP.free_port, tmp_path, {name: plane.kubeconfig for name, plane in planes.items()},
                       {name: plane.uid() for name, plane in planes.items()})
    (uid,) = re.findall(r"`(kubectl --kubeconfig east.conf [^`]*)`", PAGE)
    program = clusters["east"].plane.programs.get("kubectl", "kubectl")
    assert run(["bash", "-c", uid.replace("kubectl", str(program), 1)], cwd=tmp_path).out == planes["east"].uid()
    codes = []
    try:
        statements = fleet.follow()
        fleet.right(statements)
        shown = fleet.shown(statements[0])
        name = next(document["metadata"]["name"] for document in SCANS["east"].checks.values()
                    if document["status"] == "FAIL")
        assert clusters["east"].api.patch(path_of(CHECKS, NS, name), {"status": "PASS"}).code == 200
        shown["east", "1", "0"] += 1
        shown["east", "0", "1"] -= 1
        until(lambda: fleet.shown(statements[0]) == shown, 60, "the mended rule")
        for each, plane in planes.items():
            assert fleet.ask(f"SELECT name FROM kube_reports.cluster WHERE uid = '{plane.uid()}'") == each
    finally:
        codes = fleet.end()
    assert codes == [0, 0, 0]
