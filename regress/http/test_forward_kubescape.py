"""A sender whose source is Kubescape's own API server, which gives whole objects in lists only."""

import pytest
import yaml

from client import sql_text, until
from runbook import blocks_of
from test_forward_sender import pair, place, stand_in  # noqa: F401

KUBESCAPE = "spdx.softwarecomposition.kubescape.io/v1beta1"
SCANS = f"/apis/{KUBESCAPE}/workloadconfigurationscans"
MANIFESTS = f"/apis/{KUBESCAPE}/vulnerabilitymanifests"


def scan(name, status="failed", kind="WorkloadConfigurationScan"):
    return {"apiVersion": KUBESCAPE, "kind": kind,
            "metadata": {"name": name, "namespace": "shop", "labels": {
                "kubescape.io/workload-kind": "Deployment", "kubescape.io/workload-name": name,
                "kubescape.io/workload-namespace": "shop"}},
            "spec": {"controls": {"C-0016": {"controlID": "C-0016", "name": "Allow privilege escalation",
                                             "severity": {"severity": "Medium", "scoreFactor": 6},
                                             "status": {"status": status, "subStatus": "", "info": ""}}}}}


def manifest(name, *matches):
    return {"apiVersion": KUBESCAPE, "kind": "VulnerabilityManifest",
            "metadata": {"name": name, "namespace": "kubescape"},
            "spec": {"metadata": {"tool": {"name": "grype"}}, "payload": {"matches": list(matches) or None}}}


class Kubescape:
    """Its API server, the types of docs/groups.md at the receiver, and a sender between both."""

    def __init__(self, pair, place, stand_in):
        self.pair = pair
        self.server = stand_in.server
        for path, kind in ((SCANS, "WorkloadConfigurationScan"), (MANIFESTS, "VulnerabilityManifest")):
            self.server.serve(path, kind)
            self.server.kubescape.add(path)
        (text,) = (text for language, text in blocks_of("docs/groups.md") if language == "yaml")
        for document in yaml.safe_load_all(text):
            pair.hub.database.psql(f"SELECT kube_reports.register_crd({sql_text(document)})")
        kinds = [f"{path.rpartition('/')[2]}.{KUBESCAPE}" for path in (SCANS, MANIFESTS)]
        self.sender, self.cluster = pair.sender(place, kinds, ("--list-interval=1s",), source=stand_in)

    def results(self):
        return self.pair.hub.database.psql(
            "SELECT source, policy, status, subject_kind, subject_name FROM kube_reports.typed_result WHERE cluster = "
            f"'{self.cluster}' ORDER BY 1, 2, 5").splitlines()

    def objects(self):
        return self.pair.hub.database.psql(
            f"SELECT s.name, s.document::jsonb->'spec' <> '{{}}' FROM kube_reports.stored_report s WHERE s.cluster = "
            f"'{self.cluster}' ORDER BY 1").splitlines()


@pytest.fixture
def kubescape(pair, place, stand_in):
    made = Kubescape(pair, place, stand_in)
    yield made
    if made.sender.process is not None:
        made.sender.kill()


def test_kubescape(kubescape):
    """Whole objects, in pages, again and again; changes and deletions; no watch, which would miss events"""
    server, sender = kubescape.server, kubescape.sender
    for number in range(45):
        server.put(SCANS, scan(f"w{number:02}", "passed" if number % 3 else "failed"))
    server.put(MANIFESTS, manifest("clean"))
    server.put(MANIFESTS, manifest("shop", {"vulnerability": {"id": "CVE-2026-0001", "severity": "High"},
                                            "artifact": {"name": "openssl", "version": "3.0.1"}}))
    sender.start().when("watching", 2)
    until(lambda: len(kubescape.results()) == 46, 60, "the results of all objects")
    assert len(kubescape.objects()) == 47
    assert kubescape.results()[0] == "Kubescape|C-0016|fail|Deployment|w00"
    assert kubescape.results()[-1] == "Kubescape Vulnerability|CVE-2026-0001|fail|Image|shop"
    pages = [entry.path for entry in server.asked(f"^{SCANS}\\?.*fullSpec")]
    assert pages[0].endswith("?limit=20&resourceVersion=fullSpec") and "&continue=" in pages[1] and len(pages) >= 3
    server.put(SCANS, scan("w00", "passed"))
    server.remove(SCANS, "shop/w01")
    until(lambda: kubescape.results()[0] == "Kubescape|C-0016|pass|Deployment|w00" and len(kubescape.results()) == 45,
          60, "the change and the deletion")
    assert not server.asked(f"^/apis/{KUBESCAPE}.*watch=true")
    # After a restart, too: nothing of the queue lets a watch begin.
    sender.kill()
    sender.start().when("watching", 2)
    assert not server.asked(f"^/apis/{KUBESCAPE}.*watch=true")


def test_kubescape_without_contents(kubescape):
    """What comes without its contents is not sent; what the receiver has stays, and a list without any is no list"""
    server, sender = kubescape.server, kubescape.sender
    server.put(SCANS, scan("whole"))
    broken = {**scan("broken"), "spec": {}}
    server.put(SCANS, broken)
    server.put(MANIFESTS, manifest("clean"))
    sender.start().when("watching", 2)
    until(lambda: kubescape.objects() == ["clean|t", "whole|t"], 60, "the whole objects")
    until(lambda: "1 objects came without their contents" in sender.log_path.read_text(), 20,
          "the line about the other")
    server.full_spec = False
    server.put(SCANS, scan("whole", "passed"))
    server.put(SCANS, scan("later"))
    sender.when("watching", 0)
    until(lambda: "gives no object with its contents" in sender.log_path.read_text(), 20, "the line about the list")
    assert kubescape.objects() == ["clean|t", "whole|t"]
    assert kubescape.results() == ["Kubescape|C-0016|fail|Deployment|whole"]
    server.full_spec = True
    until(lambda: kubescape.objects() == ["clean|t", "later|t", "whole|t"], 60, "all that is whole again")
    sender.when("watching", 2)
    # An object that cannot be read has no name: it may be any that the receiver has.
    server.remove(SCANS, "shop/later")
    server.put(SCANS, {**broken, "metadata": {**broken["metadata"], "name": ""}})
    lists = sender.metric("lists_total")
    until(lambda: sender.metric("lists_total") >= lists + 4, 60, "further lists")
    assert kubescape.objects() == ["clean|t", "later|t", "whole|t"]
    server.remove(SCANS, "shop")
    until(lambda: kubescape.objects() == ["clean|t", "whole|t"], 60, "the deletion")


def test_kubescape_with_short_lists(kubescape):
    """A list that lacks objects, all or those of further pages, deletes none; the second such list in a row does"""
    server, sender = kubescape.server, kubescape.sender
    database = kubescape.pair.hub.database

    def deletions():
        return int(database.psql(f"""SELECT count(*) FROM kube_reports_internal.change c
            JOIN kube_reports_internal.lane l ON l.id = c.lane JOIN kube_reports.cluster k ON k.id = l.cluster_id
            WHERE k.uid = '{kubescape.cluster}' AND c.operation = 'D'"""))

    def lists(pages):
        """Lets lists end short at these pages, and waits for a list after them."""
        server.short_lists[SCANS] += pages
        until(lambda: not server.short_lists[SCANS], 60, "the short lists")
        first = f"^{SCANS}\\?limit=20&resourceVersion=fullSpec$"
        begun = len(server.asked(first))
        until(lambda: len(server.asked(first)) >= begun + 2, 60, "more lists")

    for number in range(45):
        server.put(SCANS, scan(f"w{number:02}"))
    sender.start().when("watching", 2)
    until(lambda: len(kubescape.objects()) == 45, 60, "all objects")
    for page, missing in ((0, 45), (1, 25), (2, 5)):
        lists([page])
        assert f"lacks {missing} objects that the list before had" in sender.log_path.read_text()
    assert deletions() == 0 and len(kubescape.objects()) == 45
    # A sender that has just started knows no list before: its first list deletes nothing.
    sender.kill()
    server.short_lists[SCANS] = [0]
    sender.start().when("watching", 2)
    lists([])
    assert deletions() == 0 and len(kubescape.objects()) == 45
    # What is really gone is lacking in the next list, too, whatever fails between.
    server.remove(SCANS, "shop/w44")
    until(lambda: deletions() == 1, 60, "the deletion")
    lists([1, 1])
    until(lambda: deletions() == 25, 60, "the deletions of a failure that lasts")
    until(lambda: len(kubescape.objects()) == 44, 60, "the objects again")
