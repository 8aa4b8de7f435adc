"""
kube-reports-proxy forward on a real kube-apiserver, whose etcd has the results of the Compliance Operator: the receiver
has what etcd has, whichever process is killed; Kubescape's kinds are sent like all others.
"""

import json
import pathlib
import shutil
import signal
import sys
import unittest.mock
import uuid

import pytest

from client import path_of, until
from conftest import HTTP, TOP, Cluster, documents
from control_plane import NAMESPACE
from old_cluster import command
from operators import COMPLIANCE, VERSION, check_result, compliance_crds, remediation

sys.path.append(str(TOP / "regress" / "http"))
with unittest.mock.patch.dict(sys.modules, conftest=HTTP):
    from test_forward_sender import Sender

NS = "openshift-compliance"
CHECKS = f"{COMPLIANCE}/{VERSION}/compliancecheckresults"
REMEDIATIONS = f"{COMPLIANCE}/{VERSION}/complianceremediations"
KUBESCAPE = "spdx.softwarecomposition.kubescape.io"
SCANS = f"{KUBESCAPE}/v1beta1/workloadconfigurationscans"
KINDS = {f"compliancecheckresults.{COMPLIANCE}/{VERSION}": CHECKS,
         f"complianceremediations.{COMPLIANCE}/{VERSION}": REMEDIATIONS,
         f"workloadconfigurationscans.{KUBESCAPE}/v1beta1": SCANS}
SCAN_CRD = documents("groups.md", "WorkloadConfigurationScan")[0]


def scan(name, **controls):
    """Returns a scan of Kubescape with the status of each control."""
    return {"apiVersion": f"{KUBESCAPE}/v1beta1", "kind": "WorkloadConfigurationScan",
            "metadata": {"name": name, "namespace": NS, "labels": {
                "kubescape.io/workload-kind": "Deployment", "kubescape.io/workload-name": "web",
                "kubescape.io/workload-namespace": NS}},
            "spec": {"relatedObjects": None, "controls": {
                key.replace("_", "-"): {"controlID": key.replace("_", "-"), "name": f"about {key}",
                                        "severity": {"severity": "High", "scoreFactor": 7},
                                        "status": {"status": status, "subStatus": "", "info": ""}, "rules": []}
                for key, status in controls.items()}}}


class Source:
    """A control plane with CRDs and without a proxy; a receiver; and a sender from the first to the second."""

    def __init__(self, directory):
        # etcd forgets versions that are older than some seconds, so that watches end with 410.  The garbage collector
        # is off, because the owners of the objects do not exist.
        self.cluster = Cluster(apiserver_flags=["--etcd-compaction-interval=5s"],
                               manager_flags=["--controllers=*,-garbage-collector-controller"])
        try:
            self._begin(directory)
        except BaseException:
            self.end()
            raise

    def _begin(self, directory):
        self.plane = self.cluster.plane
        self.api = self.plane.api()
        stack = self.cluster.stack
        self.hub = stack.database
        crds = [*compliance_crds(), SCAN_CRD]
        self.plane.apply(*crds)
        self.plane.wait_available(f"{COMPLIANCE}/{VERSION}", f"{KUBESCAPE}/v1beta1")
        self.plane.namespace(NS)
        self.hub.psql("SELECT kube_reports.grant_ingest('kube_reports_proxy')")
        file = pathlib.Path(directory) / "kubescape.json"
        file.write_text(json.dumps(SCAN_CRD), encoding="utf-8")
        for words in (["compliance"], [str(file)]):
            command(self.cluster, "register", *words, f"--database={self.hub.connection()}")
        self.port = HTTP.free_port()
        self.receiver = stack.proxy(flags=["--workers=1", f"--forward-port={self.port}"])
        self.uid = str(uuid.uuid4())
        HTTP.Stack.installed = f"{self.hub.directory}/dest"
        token = self.hub.psql(f"SELECT kube_reports.add_sender('{self.uid}', 'east', cluster_name => 'east')")
        self.sender = Sender(self, self.port, stack.pki, token, directory, tuple(KINDS), ["--batch-items=20"])
        self.sender.start()

    def kubeconfig(self):
        """Writes the sender's kubeconfig, with the rights of docs/forwarding.md and no others."""
        rights = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "sender"}}
        subjects = [{"kind": "ServiceAccount", "name": "sender", "namespace": NAMESPACE}]
        resources = [{"apiGroups": [path.split("/")[0]], "resources": [path.split("/")[2]], "verbs": ["list", "watch"]}
                     for path in KINDS.values()]
        self.plane.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "sender", "namespace": NAMESPACE}},
            {**rights, "kind": "ClusterRole", "rules": resources},
            {**rights, "kind": "ClusterRoleBinding", "subjects": subjects,
             "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "sender"}})
        return self.plane.write_kubeconfig("sender", token=self.plane.token(NAMESPACE, "sender"))

    def etcd(self):
        """Returns (kind, name, uid, document without what differs) of each object in etcd, from kube-apiserver."""
        found = []
        for path in KINDS.values():
            for item in self.api.get(path_of(path)).json["items"]:
                found.append(self._plain(item))
        return sorted(found)

    def received(self):
        rows = self.hub.psql(f"SELECT s.document FROM kube_reports.stored_report s WHERE s.cluster = '{self.uid}'")
        return sorted(self._plain(json.loads(row)) for row in rows.splitlines())

    @staticmethod
    def _plain(item):
        metadata = item["metadata"]
        rest = {name: value for name, value in item.items() if name not in ("metadata", "apiVersion", "kind")}
        return (item.get("kind", ""), metadata["name"], metadata["uid"], metadata["creationTimestamp"],
                json.dumps(metadata.get("labels")), json.dumps(rest, sort_keys=True))

    def settle(self, seconds=90):
        """Waits until the receiver has exactly what etcd has."""
        def same():
            assert self.sender.process.poll() is None, self.sender.log_path.read_text()[-2000:]
            return self.received() == self.etcd()
        until(same, seconds, "the receiver to have what etcd has")

    def write(self, path, document, change=None):
        """Creates an object, or changes the stored one with the function change and replaces it."""
        if change is None:
            return self.api.create(path, document, NS)
        stored = self.api.get(path_of(path, NS, document["metadata"]["name"])).json
        change(stored)
        answer = self.api.put(path_of(path, NS, document["metadata"]["name"]), stored)
        assert answer.code == 200, answer
        return answer.json

    def end(self):
        if hasattr(self, "sender"):
            self.sender.kill()
        self.cluster.end()


@pytest.fixture(scope="module")
def source():
    directory = pathlib.Path(f"/tmp/kube-reports-sender-{uuid.uuid4().hex[:12]}")
    directory.mkdir(mode=0o755)
    made = Source(directory)
    try:
        yield made
    finally:
        made.end()
        shutil.rmtree(directory, ignore_errors=True)


def test_all_of_etcd_arrives(source):
    """The sender sends lists in pages, then changes and deletions: each object has its uid, its time and its results"""
    for number in range(45):
        source.write(CHECKS, check_result(f"check-{number:03}", "PASS" if number % 3 else "FAIL"))
    source.write(REMEDIATIONS, remediation("check-000"))
    source.write(SCANS, scan("deployment-web", C_0016="failed", C_0017="passed", C_0001="skipped"))
    source.settle()
    source.write(CHECKS, check_result("check-001", "FAIL"), lambda stored: stored.update(status="FAIL"))
    assert source.api.delete(path_of(CHECKS, NS, "ocp4-cis-check-002")).code == 200
    source.settle()
    counts = source.hub.psql("SELECT string_agg(r.source || ' ' || r.status || ' ' || r.n, ',' ORDER BY 1) FROM ("
                             "SELECT source, status, count(*) AS n FROM kube_reports.typed_result WHERE cluster_name = "
                             "'east' GROUP BY 1, 2) r")
    assert counts == ("Compliance Operator fail 16,Compliance Operator pass 28,Compliance Operator Remediation skip 1,"
                      "Kubescape fail 1,Kubescape pass 1,Kubescape skip 1"), counts
    assert source.hub.psql("SELECT policy || ' ' || severity || ' ' || subject_kind || ' ' || subject_name FROM "
                           "kube_reports.typed_result WHERE source = 'Kubescape' AND status = 'fail'") == (
        "C-0016 high Deployment web")


def test_whatever_ends(source):
    """The sender, kube-apiserver and the database are killed, the receiver restarts, etcd compacts: nothing is lost"""
    for turn in range(3):
        source.sender.kill()
        source.write(CHECKS, check_result(f"turn-{turn}", "FAIL"))
        assert source.api.delete(path_of(CHECKS, NS, f"ocp4-cis-check-{turn + 10:03}")).code == 200
        if turn == 1:
            # etcd has forgotten the version that the sender has read last: the sender lists and compares.
            _compacted(source)
        source.sender.start()
        source.plane.restart_apiserver(signal.SIGKILL)
        source.receiver.restart()
        if turn == 2:
            source.hub.kill()
            source.hub.start()
        source.write(CHECKS, check_result(f"later-{turn}", "PASS"))
        source.settle(180)
    # Nothing was stored twice: each result has appeared once.
    appeared = source.hub.psql(
        "SELECT string_agg(DISTINCT r.rule, ',' ORDER BY r.rule), count(*) FROM kube_reports_internal.result_change c "
        "JOIN kube_reports_internal.criterion r ON r.id = c.criterion WHERE r.rule ~ '^(turn|later)-'")
    assert appeared == "later-0,later-1,later-2,turn-0,turn-1,turn-2|6", appeared


def _compacted(source):
    """Waits until etcd has forgotten its present version."""
    version = source.api.get(path_of(CHECKS, NS)).json["metadata"]["resourceVersion"]
    count = iter(range(1000))

    def forgotten():
        source.write(REMEDIATIONS, remediation(f"noise-{next(count)}"))
        answer = source.api.get(path_of(CHECKS, NS), resourceVersion=version, resourceVersionMatch="Exact")
        return answer.code == 410
    until(forgotten, 120, "a compaction of etcd")


def test_kind_that_goes(source):
    """A CRD is deleted with its objects, and created again: other kinds go on, and the new objects are sent"""
    name = f"workloadconfigurationscans.{KUBESCAPE}"
    source.plane.kubectl("delete", "crd", name)
    source.write(CHECKS, check_result("meanwhile", "FAIL"))

    def others():
        return {row[1] for row in source.received()}
    until(lambda: "ocp4-cis-meanwhile" in others(), 60, "changes of other kinds")
    source.plane.apply(SCAN_CRD)
    source.plane.wait_available(f"{KUBESCAPE}/v1beta1")
    until(lambda: source.api.post(path_of(SCANS, NS), scan("again", C_0016="passed")).code in (201, 409), 30, "a scan")
    source.settle(180)


def test_rights_are_those_of_the_page(source):
    """The sender reads the kinds that it sends, and nothing else; it writes nothing"""
    sent = source.plane.kubectl("auth", "can-i", "--list", f"--as=system:serviceaccount:{NAMESPACE}:sender")
    granted = [line.split() for line in sent.splitlines() if COMPLIANCE in line or KUBESCAPE in line]
    assert len(granted) == len(KINDS) and all(line[-2:] == ["[list", "watch]"] for line in granted), sent
