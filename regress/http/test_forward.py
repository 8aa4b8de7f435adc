"""/v1/forward/...: what senders of other clusters forward, their credentials, repeated batches (issue 19, Ingest)."""

import concurrent.futures
import contextlib
import gzip
import hashlib
import http.client
import json
import os
import pwd
import re
import shlex
import signal
import subprocess
import threading
import urllib.request
import uuid

import psycopg2
import pytest

from client import POLR, Api, report, run, until
from conftest import TOP, VARIANT, free_port, stack_command
from runbook import put

SCAN = {"name": "ocp4-cis", "suite": "cis", "profile": "xccdf_org.ssgproject.content_profile_cis", "index": 7,
        "startTimestamp": "2026-01-05T01:00:00Z", "endTimestamp": "2026-01-05T01:06:10Z"}


def result(rule, outcome="PASS", subject="cluster.example.com", **more):
    return {"subject": subject, "control": "NIST-800-53: CM-6;CM-6(1)", "rule": rule, "outcome": outcome,
            "severity": "high", "description": f"what {rule} wants", "instructions": "look", "warnings": [],
            "valuesUsed": [], "id": f"xccdf_{rule}", "extra": {"resourceType": "cluster"}, **more}


def batch(results, seq=1, last=True, assessment=None, **more):
    return {"apiVersion": "forward/v1", "assessmentId": assessment or str(uuid.uuid4()), "scan": SCAN, "seq": seq,
            "last": last, "prune": "scan", "results": results, **more}


class Receiver:
    """A proxy that receives what senders forward; its methods make senders, post batches and read results."""

    def __init__(self, own, flags=()):
        self.stack = own
        self.database = own.database
        self.port = free_port()
        self.pki = own.pki
        self.database.psql("SELECT kube_reports.grant_ingest('kube_reports_proxy')")
        self.proxy = own.proxy(flags=(f"--forward-port={self.port}",
                                      f"--forward-client-ca-file={own.pki}/senders/ca.crt", *flags))

    def add(self, name, cluster=None, **more):
        """Makes a sender of a given or a new cluster; returns the uid of the cluster and the token."""
        cluster = cluster or str(uuid.uuid4())
        arguments = "".join(f", {key} => '{value}'" for key, value in more.items())
        token = self.database.psql(f"SELECT kube_reports.add_sender('{cluster}', '{name}'{arguments})")
        return cluster, token

    def post(self, what, document, token=None, certificate=None, port=None, **headers):
        """port: that of another receiver of the same database."""
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        api = Api(port or self.port, f"{self.pki}/ca.crt", certificate)
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return api.request("POST", f"/v1/forward/{what}", body, {"Content-Type": "application/json", **headers})

    def settle(self):
        """In the variant in SQL, waits until the receiver's upkeep has derived results from the batches."""
        if VARIANT == "sql":
            until(lambda: self.database.psql("SELECT results_pending FROM kube_reports.status") == "f", 60,
                  "the results")

    def count(self, cluster):
        self.settle()
        return int(self.database.psql(f"SELECT count(*) FROM kube_reports.typed_result WHERE cluster = '{cluster}'"))

    def rows(self, cluster):
        """Returns a line for each row of results of a cluster; an update, a lock or a copy changes its line."""
        self.settle()
        return self.database.psql(
            "SELECT r.ctid, r.xmin, r.xmax FROM kube_reports_internal.result r JOIN kube_reports.cluster c "
            f"ON c.id = r.cluster_id WHERE c.uid = '{cluster}' ORDER BY 1").splitlines()

    def results(self, cluster, columns="rule || ' ' || status"):
        self.settle()
        return self.database.psql(f"SELECT string_agg({columns}, ', ' ORDER BY rule, subject_name) "
                                  f"FROM kube_reports.typed_result WHERE cluster = '{cluster}'")


def receiver_of(stack):
    certificates = f"{stack.pki}/senders"
    stack_command("certificates", certificates)
    stack_command("certificate", certificates, "east", "/CN=east-sender", "clientAuth")
    stack_command("certificate", certificates, "west", "/CN=west-sender", "clientAuth")
    if os.getuid() == 0:
        owner = pwd.getpwnam("postgres")
        for entry in [certificates, *(os.path.join(certificates, name) for name in os.listdir(certificates))]:
            os.chown(entry, owner.pw_uid, owner.pw_gid)
    return Receiver(stack)


@pytest.fixture(scope="module")
def receiver(module_stack):
    return receiver_of(module_stack)


# ---------- results of scans ----------

def test_results(receiver):
    cluster, token = receiver.add("results", cluster_name="foo")
    answer = receiver.post("results", batch(
        [result("a"), result("b", "FAIL"), result("c", "MANUAL"), result("d", "INCONSISTENT"), result("e", "INFO")],
        assessment="one", extraMetadata={"cluster_name": "foo", "cluster_type": "bar", "randomKey": "random value"}),
        token)
    assert answer.code == 200, answer
    assert answer.json == {"accepted": 5, "changed": 5, "pruned": 0, "cursor": "one:1"}
    assert receiver.proxy.series("kube_reports_database_call_duration_seconds_count", call="forward") >= 1
    assert receiver.results(cluster) == "a pass, b fail, c skip, d error, e skip"
    assert json.loads(receiver.database.psql(
        f"SELECT labels FROM kube_reports.fleet_freshness WHERE cluster = '{cluster}'")) == {
            "clusterName": "foo", "clusterType": "bar", "randomKey": "random value"}
    assert receiver.database.psql(
        f"SELECT DISTINCT source, policy, category, severity, subject_kind, subject_name, properties->>'control' "
        f"FROM kube_reports.typed_result WHERE cluster = '{cluster}'") == \
        "Compliance Operator|ocp4-cis|cis|high|Cluster|cluster.example.com|NIST-800-53: CM-6;CM-6(1)"


def test_labels_of_a_sender(receiver):
    """Labels that a sender gives its cluster are shown and can be searched, but neither grant nor hide the cluster"""
    def seen():
        return database.psql(f"SET ROLE labels_reader; SELECT count(*) FROM kube_reports.fleet_freshness "
                             f"WHERE cluster = '{cluster}'")

    def send(assessment, **metadata):
        answer = receiver.post("results", batch([result("a")], assessment=assessment, extraMetadata=metadata), token)
        assert answer.code == 200, answer

    database = receiver.database
    cluster, token = receiver.add("labels")
    database.psql("CREATE ROLE labels_reader; GRANT labels_reader TO kube_reports_owner", user="postgres")
    database.psql("SELECT kube_reports.grant_clusters('labels_reader', 'env=prod')")
    send("one", env="prod", zone="a")
    assert seen() == "0"
    assert database.psql("SELECT * FROM kube_reports.clusters('env=prod,zone=a')") == cluster
    database.psql(f"SELECT kube_reports.set_cluster_labels('{cluster}', '{{\"env\": \"prod\"}}')")
    send("two", env="test", **{"a=b": "c"})
    assert seen() == "1"
    assert json.loads(database.psql(f"SELECT labels FROM kube_reports.fleet_freshness WHERE cluster = '{cluster}'")) \
        == {"env": "prod", "zone": "a"}
    for n in range(5):
        send(f"many {n}", **{f"{n}-{key}": "x" * 253 for key in range(64)})
    assert int(database.psql("SELECT count(*) FROM kube_reports.cluster c, jsonb_object_keys(c.extra_metadata) "
                             f"WHERE c.uid = '{cluster}'")) <= 256


def test_order_and_repetition(receiver):
    cluster, token = receiver.add("order")
    first = batch([result("a"), result("b")], 1, False, "run")
    second = batch([result("c", "FAIL")], 2, True, "run")
    answer = receiver.post("results", second, token)
    assert answer.code == 409 and answer.json["details"]["causes"][0]["field"] == "/seq", answer
    assert receiver.results(cluster) == ""
    given = receiver.post("results", first, token)
    assert given.code == 200
    assert receiver.post("results", first, token).json == given.json
    assert receiver.post("results", batch([result("b")], 1, False, "run"), token).code == 409
    assert receiver.post("results", second, token).json["changed"] == 1
    assert receiver.post("results", second, token).json["changed"] == 1
    assert receiver.results(cluster) == "a pass, b pass, c fail"
    # A finished run takes no further batch.
    assert receiver.post("results", batch([result("z")], 3, True, "run"), token).code == 409
    changes = "SELECT count(*) FROM kube_reports_internal.change"
    before = receiver.database.psql(changes)
    assert receiver.post("results", first, token).code == 200
    assert receiver.database.psql(changes) == before


def test_prune(receiver):
    cluster, token = receiver.add("prune")
    many = [result(f"rule-{n:03}") for n in range(100)]
    assert receiver.post("results", batch(many, 1, True, "one"), token).code == 200
    assert receiver.post("results", batch(many[:50], 1, False, "two"), token).json["pruned"] == 0
    answer = receiver.post("results", batch(many[50:80] + [result("new")], 2, True, "two"), token)
    assert answer.json == {"accepted": 31, "changed": 1, "pruned": 20, "cursor": "two:2"}
    assert receiver.count(cluster) == 81
    assert receiver.database.psql("SELECT count(*) FROM kube_reports_internal.forward_seen s "
                                  "JOIN kube_reports.cluster c ON c.id = s.cluster_id "
                                  f"WHERE c.uid = '{cluster}'") == "0"
    # An unfinished run prunes nothing; after a newer run, batches of older runs are refused.
    assert receiver.post("results", batch(many[:1], 1, False, "three"), token).code == 200
    assert receiver.post("results", batch(many[:1], 1, True, "four"), token).json["pruned"] == 80
    assert receiver.post("results", batch(many[:2], 2, True, "three"), token).code == 409
    assert receiver.post("results", batch([result("late")], 1, True, "one"), token).code == 409
    assert receiver.results(cluster) == "rule-000 pass"


def test_history_of_what_is_pruned(receiver):
    """A pruned result has an event without a new status"""
    cluster, token = receiver.add("prune-history")
    receiver.database.psql("SELECT kube_reports.set_setting('settle_window', '0')")
    try:
        assert receiver.post("results", batch([result("a"), result("b", "FAIL")], 1, True, "one"), token).code == 200
        receiver.settle()
        assert receiver.post("results", batch([result("a")], 1, True, "two"), token).json["pruned"] == 1
        receiver.settle()
        assert until(lambda: receiver.database.psql(
            "SELECT rule, old_status, coalesce(new_status, 'null'), actor FROM kube_reports.result_event "
            f"WHERE cluster = '{cluster}' AND old_status IS NOT NULL"), 30, "the event") == \
            "b|fail|null|sender:prune-history"
    finally:
        receiver.database.psql("SELECT kube_reports.set_setting('settle_window', NULL)")


def test_remediations(receiver):
    cluster, token = receiver.add("remediations")
    document = batch([result("a", "FAIL")], 1, False, "run")
    document["remediations"] = [{"name": "ocp4-cis-a", "rule": "a", "type": "Configuration", "apply": False,
                                 "applicationState": "NotApplied", "current": {"object": {}}}]
    assert receiver.post("results", document, token).json["accepted"] == 2
    document = batch([], 2, False, "run")
    document["remediations"] = [{"name": "ocp4-cis-a", "rule": "a", "applicationState": "Applied"}]
    assert receiver.post("results", document, token).json["changed"] == 1
    assert receiver.results(cluster, "properties->>'remediation/ocp4-cis-a'") == "Applied"
    assert receiver.results(cluster) == "a fail"


def test_views_of_remediations(receiver):
    """Forwarded remediations are in the views and the page, but only for roles that may read the whole cluster"""
    def rows(user="kube_reports_owner"):
        return database.psql("SELECT remediation, state, wanted, type, outdated, coalesce(error, '-'), object_kind, "
                             "object_name, suite, scan FROM kube_reports.remediations "
                             f"WHERE cluster = '{cluster}' ORDER BY remediation", user=user)

    def failures(user="kube_reports_owner"):
        return database.psql("SELECT check_result, scan, suite, rule, severity, status, remediations, states "
                             f"FROM kube_reports.remediable_failures WHERE cluster = '{cluster}'", user=user)

    database = receiver.database
    cluster, token = receiver.add("remediation-views", cluster_name="mended")
    nodes = [result("a", "FAIL", f"node-{n}", extra={"resourceType": "node"}) for n in range(2)]
    document = batch([*nodes, result("b", "PASS"), result("c", "FAIL")], 1, False, "run")
    machine = {"object": {"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
                          "metadata": {"name": "75-a"}, "spec": {"large": "x" * 1000}}}
    document["remediations"] = [
        {"name": "fix-a", "rule": "a", "type": "Enforcement", "apply": True, "applicationState": "Error",
         "errorMessage": "no such pool", "current": machine, "outdated": {"object": {"kind": "MachineConfig"}}},
        {"name": "fix-a-1", "rule": "a"}, {"name": "fix-b", "rule": "b", "applicationState": "Applied"}]
    assert receiver.post("results", document, token).json["accepted"] == 7
    receiver.settle()
    assert rows().splitlines() == [
        "fix-a|Error|t|Enforcement|t|no such pool|MachineConfig|75-a|cis|ocp4-cis",
        "fix-a-1|NotApplied|f|Configuration|f|-|||cis|ocp4-cis",
        "fix-b|Applied|f|Configuration|f|-|||cis|ocp4-cis"]
    assert failures().splitlines() == ["a|ocp4-cis|cis|a|high|fail|{fix-a,fix-a-1}|{Error,NotApplied}"] * 2
    assert "Applied 1, Error 1, NotApplied 1" in database.psql(
        f"SELECT kube_reports.fleet_html('{{\"cluster\": \"{cluster}\"}}')")
    # A new state of a remediation replaces its whole stored state; the other remediations of the rule stay.
    document = batch([*nodes], 2, False, "run")
    document["remediations"] = [{"name": "fix-a", "rule": "a", "applicationState": "Applied", "apply": False}]
    assert receiver.post("results", document, token).code == 200
    receiver.settle()
    assert rows().splitlines()[:2] == ["fix-a|Applied|f|Configuration|f|-|||cis|ocp4-cis",
                                       "fix-a-1|NotApplied|f|Configuration|f|-|||cis|ocp4-cis"]
    # A result with the properties of a remediation is in neither view.
    forged = {"automated-remediation": "true", "remediation": "x", "remediation-apply/": "x"}
    assert receiver.post("results", batch([result("d", "FAIL", extra=forged)], 3, True, "run", prune=None),
                         token).code == 200
    receiver.settle()
    assert len(rows().splitlines()) == 3 and len(failures().splitlines()) == 2
    # Only a role that may read the whole cluster sees its remediations.
    database.psql("CREATE ROLE mended_reader LOGIN; CREATE ROLE mended_stranger LOGIN; "
                  "CREATE ROLE mended_team LOGIN", user="postgres")
    other, _ = receiver.add("remediation-other")
    database.psql(f"SELECT kube_reports.grant_cluster('mended_reader', '{cluster}'), "
                  f"kube_reports.grant_cluster('mended_stranger', '{other}'), "
                  f"kube_reports.grant_namespace('mended_team', '{cluster}', 'team')")
    assert len(rows("mended_reader").splitlines()) == 3 and len(failures("mended_reader").splitlines()) == 2
    for user in ("mended_stranger", "mended_team"):
        assert rows(user) == failures(user) == "", user


def test_remediations_that_are_gone(receiver):
    """A run that tells remediations prunes the others, from each result of the rule; a run that tells none keeps all"""
    database = receiver.database
    cluster, token = receiver.add("gone")
    nodes = [result("a", "FAIL", f"node-{n}", extra={"resourceType": "node"}) for n in range(2)]
    checks = [*nodes, result("b", "FAIL"), result("c", "FAIL", extra={"": "nameless", "remediation/z": "forged"})]
    fixes = {name: {"name": name, "rule": rule, "applicationState": "Applied"}
             for name, rule in (("fix-a", "a"), ("fix-a-1", "a"), ("fix-b", "b"))}

    def run_of(*batches):
        """The names of the remediations after a run whose batches have these; None: without the member"""
        name = str(uuid.uuid4())
        for number, names in enumerate(batches, 1):
            document = batch(checks if number == 1 else [], number, number == len(batches), name)
            if names is not None:
                document["remediations"] = [fixes[name] for name in names]
            answer = receiver.post("results", document, token)
            assert answer.code == 200 and answer.json["pruned"] == 0, answer
        receiver.settle()
        assert receiver.results(cluster, "rule") == "a, a, b, c"
        return database.psql("SELECT string_agg(remediation, ' ' ORDER BY remediation) FROM kube_reports.remediations "
                             f"WHERE cluster = '{cluster}'")

    marked = "coalesce(properties->>'automated-remediation', '-')"
    assert run_of(["fix-a", "fix-a-1", "fix-b"]) == "fix-a fix-a-1 fix-b"
    assert run_of(None) == run_of(None, None) == "fix-a fix-a-1 fix-b"
    assert run_of(["fix-a-1"], None, ["fix-b"], []) == "fix-a-1 fix-b"
    assert receiver.results(cluster, marked) == "true, true, true, -"
    assert run_of(None, ["fix-b"]) == "fix-b"
    assert receiver.results(cluster, marked) == "-, -, true, -"
    assert run_of([], None) == ""
    assert receiver.results(cluster, marked) == "-, -, -, -"
    assert receiver.results(cluster, "coalesce(properties->>'', '-')") == "-, -, -, nameless"
    assert database.psql(f"SELECT count(*) FROM kube_reports.remediable_failures WHERE cluster = '{cluster}'") == "0"
    # Without prune nothing goes.
    assert run_of(["fix-a"]) == "fix-a"
    document = batch([], 1, True, "unpruned", prune=None, remediations=[])
    assert receiver.post("results", document, token).code == 200
    assert run_of(None) == "fix-a"


def test_remediations_of_many_results(receiver):
    """A remediation is stored with each result of its rule: neither a batch nor a result may become large by that"""
    cluster, token = receiver.add("large-remediations")

    def fixes(count, rules="a", first=0):
        return [{"name": f"{n:04}" + "n" * 240, "rule": rules[n % len(rules)], "errorMessage": "e" * 2000}
                for n in range(first, first + count)]

    nodes = [result("a", "FAIL", f"node-{n}", extra={"resourceType": "node"}) for n in range(150)]
    assert receiver.post("results", batch(nodes, 1, False, "run"), token).code == 200
    refused = receiver.post("results", batch([], 2, False, "run", remediations=fixes(102)), token)
    assert refused.code == 400
    assert [cause["field"] for cause in refused.json["details"]["causes"]] == ["/remediations/100", "/remediations/101"]
    refused = receiver.post("results", batch([], 2, False, "run", remediations=fixes(100)), token)
    assert refused.code == 413 and "send them in several batches" in refused.json["message"], refused
    assert receiver.results(cluster, "coalesce(properties->>'automated-remediation', '-')") == ", ".join("-" * 150)
    # Of one subject, there may be 100, however many batches bring them.
    cluster, token = receiver.add("many-remediations")
    for number, more in enumerate(([], fixes(100), fixes(100)), 1):
        assert receiver.post("results", batch([result("a")] if number == 1 else [], number, False, "run",
                                              remediations=more), token).code == 200
    refused = receiver.post("results", batch([], 4, False, "run", remediations=fixes(1, first=100)), token)
    assert refused.code == 400 and "a rule has at most 100 remediations" in refused.json["message"]
    assert receiver.post("results", batch([result("a")], 1, True, "next", remediations=fixes(100, first=1)),
                         token).code == 400
    assert receiver.post("results", batch([result("a")], 1, True, "next", remediations=fixes(60)), token).code == 200
    assert receiver.post("results", batch([result("a")], 1, True, "third", remediations=fixes(40, first=60)),
                         token).code == 200
    # The results of a large report follow a moment later.
    until(lambda: receiver.database.psql("SELECT count(*) FROM kube_reports.remediations "
                                         f"WHERE cluster = '{cluster}'") == "40", 30, "those of the last run")


def test_same_rule_of_several_nodes(receiver):
    cluster, token = receiver.add("nodes")
    nodes = [result("a", outcome, f"node-{n}", extra={"resourceType": "node"})
             for n, outcome in enumerate(("PASS", "FAIL", "PASS"))]
    assert receiver.post("results", batch(nodes), token).code == 200
    assert receiver.results(cluster, "subject_kind || subject_name || status") == \
        "Nodenode-0pass, Nodenode-1fail, Nodenode-2pass"


def test_unchanged_results_write_no_history(receiver):
    """Results that are sent again touch no row of results; one that changes is one event"""
    cluster, token = receiver.add("unchanged")
    many = [result(f"rule-{n:03}") for n in range(200)]
    assert receiver.post("results", batch(many), token).json["changed"] == 200
    events = f"SELECT count(*) FROM kube_reports.result_event WHERE cluster = '{cluster}'"
    before = receiver.database.psql(events)
    rows = receiver.rows(cluster)
    assert len(rows) == 200
    assert receiver.post("results", batch(many), token).json["changed"] == 0
    assert receiver.rows(cluster) == rows
    many[7] = result("rule-007", "FAIL")
    assert receiver.post("results", batch(many), token).json["changed"] == 1
    receiver.settle()
    assert int(receiver.database.psql(events)) == int(before) + 1


# ---------- what is refused ----------

@pytest.mark.parametrize("change, places", [
    ({"results": [{"rule": "a", "outcome": "PASS"}, {"outcome": "PASS"}, {"rule": "b", "outcome": "GOOD"}]},
     ["/results/1/rule", "/results/2/outcome"]),
    ({"results": [result("a"), result("a")]}, ["/results/1"]),
    ({"results": ["a", 1, None]}, ["/results/0", "/results/1", "/results/2"]),
    ({"results": {}}, ["/results"]),
    ({"results": [result("a", severity="bad", extra={"n": 1})]}, ["/results/0/extra", "/results/0/severity"]),
    ({"seq": 0}, ["/seq"]), ({"seq": "1"}, ["/seq"]), ({"last": 1}, ["/last"]), ({"prune": "all"}, ["/prune"]),
    ({"scan": {"name": "../x"}}, ["/scan/name"]), ({"scan": None}, ["/scan/name"]),
    ({"assessmentId": ""}, ["/assessmentId"]), ({"apiVersion": "v2"}, ["/apiVersion"]),
    ({"remediations": [{"rule": "a"}]}, ["/remediations/0/name"]),
    ({"remediations": [{"rule": "a", "name": "n", "apply": "yes", "type": "t" * 64, "errorMessage": "e" * 2001}]},
     ["/remediations/0/apply", "/remediations/0/errorMessage", "/remediations/0/type"]),
    ({"remediations": [{"rule": "a", "name": "n", "current": {"object": {"kind": "k" * 254}}, "outdated": "x"}]},
     ["/remediations/0/current", "/remediations/0/outdated"]),
    ({"extraMetadata": {"a/b": 1}}, ["/extraMetadata/a~1b"]),
], ids=str)
def test_bad_items(receiver, change, places):
    cluster, token = receiver.add(f"bad-{uuid.uuid4().hex}")
    answer = receiver.post("results", {**batch([result("good")]), **change}, token)
    assert answer.code == 400, answer
    assert [cause["field"] for cause in answer.json["details"]["causes"]] == places
    assert receiver.results(cluster) == ""


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"\\u0000"', b'{"a":"\\u0000"}', b"\xff", b"[" * 100000],
                         ids=("empty", "cut", "array", "null", "nul", "nul-inside", "no-utf8", "deep"))
def test_no_json(receiver, body):
    _, token = receiver.add(f"json-{uuid.uuid4().hex}")
    for what in ("results", "objects", "sync"):
        assert receiver.post(what, body, token).code in (400, 413), what


def test_another_cluster(receiver):
    cluster, token = receiver.add("own", cluster_name="east")
    for key in ("clusterName", "cluster_name"):
        answer = receiver.post("results", batch([result("a")], extraMetadata={key: "west"}), token)
        assert answer.code == 403, answer
    assert receiver.results(cluster) == ""


def test_codes(receiver):
    _, token = receiver.add("codes")
    assert receiver.post("results", batch([result(f"r{n}") for n in range(5001)]), token).code == 413
    assert receiver.post("results", b" " * (4 << 20), token).code == 413
    assert receiver.post("nothing", {}, token).code == 404
    assert receiver.post("results", {}, token, **{"Content-Encoding": "br"}).code == 415
    assert Api(receiver.port, f"{receiver.pki}/ca.crt").get("/v1/forward/results").code == 405
    # Each port refuses the paths and the credentials of the other.
    assert Api(receiver.port, f"{receiver.pki}/ca.crt", f"{receiver.pki}/admin").get("/apis").code == 404
    assert receiver.proxy.api().request("POST", "/v1/forward/results", b"{}").code in (403, 404)
    bearer = {"Authorization": f"Bearer {token}"}
    assert receiver.proxy.api(None).request("GET", "/apis", None, bearer).code in (401, 403)


def test_gzip(receiver):
    cluster, token = receiver.add("gzip")
    body = json.dumps(batch([result(f"rule-{n}") for n in range(500)])).encode()
    answer = receiver.post("results", gzip.compress(body), token, **{"Content-Encoding": "gzip"})
    assert answer.code == 200 and answer.json["accepted"] == 500, answer
    assert receiver.post("results", body, token, **{"Content-Encoding": "gzip"}).code == 400
    bomb = gzip.compress(b" " * (64 << 20))
    assert receiver.post("results", bomb, token, **{"Content-Encoding": "gzip"}).code == 413
    assert receiver.count(cluster) == 500


def test_gzip_of_many(receiver):
    """While the database is busy, compressed bodies count with their unpacked size"""
    _, token = receiver.add("many")
    bomb = gzip.compress(json.dumps(batch([])).encode() + b" " * (11 << 20))
    started = receiver.proxy.memory()
    connection = psycopg2.connect(receiver.database.connection())
    with contextlib.closing(connection), concurrent.futures.ThreadPoolExecutor(60) as pool:
        connection.cursor().execute("SELECT FROM kube_reports_internal.sender_credential FOR UPDATE")
        receiver.proxy.reset_peak()
        answers = [pool.submit(receiver.post, "results", bomb, token, None, **{"Content-Encoding": "gzip"})
                   for _ in range(60)]
        def refused():
            return sum(answer.done() and answer.result().code == 429 for answer in answers)
        until(lambda: refused() >= 30, 60, "most of them to be refused")
        assert receiver.proxy.memory("VmHWM") - started < 700 << 20
        connection.rollback()
        # 503: on a slow machine a request may have waited too long for the database.
        assert {answer.result().code for answer in answers} <= {200, 429, 503}
        assert all(int(answer.result().headers["Retry-After"]) >= 1 for answer in answers
                   if answer.result().code != 200)
    assert receiver.post("results", bomb, token, None, **{"Content-Encoding": "gzip"}).code == 200
    until(lambda: receiver.proxy.metric("kube_reports_buffered_body_bytes") == 0, what="nothing to be held")
    assert receiver.proxy.metric("kube_reports_refused_bodies_total") >= 1


# ---------- credentials ----------

def test_certificates(receiver):
    senders = f"{receiver.pki}/senders"
    cluster, token = receiver.add("cert", certificate="east-sender")
    assert token == ""
    assert receiver.post("results", batch([result("a")]), certificate=f"{senders}/east").code == 200
    assert receiver.results(cluster) == "a pass"
    assert receiver.post("results", batch([result("a")]), certificate=f"{senders}/west").code == 401
    # A certificate of the CA of API clients is no sender's certificate, whatever its name.
    stack_command("certificate", receiver.pki, "false-east", "/CN=east-sender", "clientAuth")
    assert receiver.post("results", batch([result("a")]), certificate=f"{receiver.pki}/false-east").code == 401
    # A certificate of the senders' CA is no certificate of an API client.
    stack_command("certificate", senders, "false-admin", "/O=system:masters/CN=admin", "clientAuth")
    assert Api(receiver.proxy.port, f"{receiver.pki}/ca.crt", f"{senders}/false-admin").get(
        "/apis/wgpolicyk8s.io/v1alpha2/policyreports").code == 401


def test_tokens(receiver):
    cluster, token = receiver.add("token")
    assert len(token) == 64
    for wrong in ("", "x", token[:-1], token.upper() + "x", hashlib.sha256(token.encode()).hexdigest()):
        assert receiver.post("results", batch([result("a")]), wrong).code == 401, wrong
    assert receiver.post("results", batch([result("a")])).code == 401
    assert receiver.post("results", batch([result("a")]), Authorization=f"Basic {token}").code == 401
    fresh = receiver.database.psql("SELECT kube_reports.rotate_sender('token')")
    for good in (token, fresh):
        assert receiver.post("results", batch([result("a")]), good).code == 200
    last = receiver.database.psql("SELECT kube_reports.rotate_sender('token', overlap => '0')")
    codes = [receiver.post("results", batch([result("a")]), each).code for each in (token, fresh, last)]
    assert codes == [401, 401, 200]
    own = hashlib.sha256(b"chosen").hexdigest()
    receiver.database.psql(f"SELECT kube_reports.rotate_sender('token', token_sha256 => '{own}')")
    assert receiver.post("results", batch([result("a")]), "chosen").code == 200
    assert receiver.database.psql("SELECT kube_reports.remove_sender('token')") == "t"
    assert [receiver.post("results", batch([result("a")]), each).code for each in (last, "chosen")] == [401, 401]
    assert receiver.results(cluster) == "a pass"
    assert token not in receiver.database.psql("SELECT string_agg(s::text, '') "
                                               "FROM kube_reports_internal.sender_credential s")


@pytest.mark.parametrize("credential", [None, "Bearer x", "Basic x", "stale"])
def test_strangers_send_no_body(receiver, credential):
    """A missing, wrong or removed credential is refused at the end of the head: the proxy waits for no body"""
    if credential == "stale":
        _, token = receiver.add("stale")
        assert receiver.database.psql("SELECT kube_reports.remove_sender('stale')") == "t"
        credential = f"Bearer {token}"
    connection = Api(receiver.port, f"{receiver.pki}/ca.crt").connect(10)
    with contextlib.closing(connection):
        connection.putrequest("POST", "/v1/forward/results")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", "1000000")
        if credential is not None:
            connection.putheader("Authorization", credential)
        connection.endheaders()
        answer = connection.getresponse()
        assert answer.status == 401 and json.loads(answer.read())["reason"] == "Unauthorized"


def test_role_without_ingest(receiver):
    _, token = receiver.add("no-ingest")
    receiver.database.psql("SELECT kube_reports.revoke_ingest('kube_reports_proxy')")
    try:
        answer = receiver.post("results", batch([result("a")]), token)
        assert answer.code == 503 and answer.headers["Retry-After"], answer
    finally:
        receiver.database.psql("SELECT kube_reports.grant_ingest('kube_reports_proxy')")
    assert receiver.post("results", batch([result("a")]), token).code == 200


def test_removed_cluster(receiver):
    cluster, token = receiver.add("leaving")
    assert receiver.post("results", batch([result("a")]), token).code == 200
    receiver.database.psql(f"CALL kube_reports.unregister_cluster('{cluster}')")
    assert receiver.post("results", batch([result("a")]), token).code == 401
    assert receiver.database.psql("SELECT count(*) FROM kube_reports.sender WHERE name = 'leaving'") == "0"


# ---------- objects ----------

def policy_report(name, namespace="team", version="1", uid=None, results=1, kind="PolicyReport", **more):
    document = {"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": kind, "metadata": {
        "name": name, "uid": uid or str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{namespace}/{name}")),
        "resourceVersion": version, "creationTimestamp": "2026-01-05T01:00:00Z", "generation": 1},
        "results": [{"policy": f"p{n}", "result": "fail", "source": "kyverno"} for n in range(results)], **more}
    if namespace:
        document["metadata"]["namespace"] = namespace
    return document


def objects(items, seq=1, stream=None, **more):
    return {"apiVersion": "forward/v1", "stream": stream or str(uuid.uuid4()), "seq": seq,
            "items": [{"op": op, "object": item} for op, item in items], **more}


def test_objects(receiver):
    cluster, token = receiver.add("objects")
    stream = str(uuid.uuid4())
    one, two = policy_report("one"), policy_report("two", results=3)
    whole = policy_report("whole", namespace=None, kind="ClusterPolicyReport")
    answer = receiver.post("objects", objects([("apply", one), ("apply", two), ("apply", whole)], 1, stream), token)
    assert answer.code == 200 and answer.json["changed"] == 3, answer
    assert receiver.post("objects", objects([("delete", one)], 1, stream), token).json["changed"] == 0
    assert receiver.post("objects", objects([("delete", one)], 3, stream), token).code == 409
    stored = json.loads(receiver.database.psql(
        f"SELECT document FROM kube_reports.stored_report WHERE cluster = '{cluster}' AND name = 'two'"))
    stored["metadata"]["resourceVersion"] = "1"
    assert stored == two
    again = policy_report("two", version="2", results=2)
    assert receiver.post("objects", objects([("delete", one), ("apply", again)], 2, stream), token).json["changed"] == 2
    assert receiver.database.psql(f"SELECT string_agg(name, ' ' ORDER BY name) FROM kube_reports.stored_report "
                                  f"WHERE cluster = '{cluster}'") == "two whole"
    assert receiver.count(cluster) == 3
    # A deletion with another uid does not delete the object.
    other = policy_report("two", uid=str(uuid.uuid4()))
    assert receiver.post("objects", objects([("delete", other)], 3, stream), token).json["changed"] == 0
    assert receiver.database.psql(
        f"SELECT DISTINCT actor FROM kube_reports.result_event WHERE cluster = '{cluster}'") == "sender:objects"


def test_bad_objects(receiver):
    cluster, token = receiver.add("bad-objects")
    good = policy_report("good")
    unknown = {**policy_report("x"), "kind": "Strange"}
    nameless = policy_report("x")
    del nameless["metadata"]["name"]
    invalid = policy_report("invalid")
    invalid["results"] = [{"result": "perhaps"}]
    answer = receiver.post("objects", objects([("apply", good), ("apply", unknown), ("put", policy_report("y")),
                                               ("apply", nameless), ("apply", good)]), token)
    assert answer.code == 400, answer
    assert [cause["field"] for cause in answer.json["details"]["causes"]] == \
        ["/items/1/object", "/items/2/op", "/items/3/object/metadata/name", "/items/4"]
    answer = receiver.post("objects", objects([("apply", good), ("apply", invalid)]), token)
    assert answer.code == 400 and [c["field"] for c in answer.json["details"]["causes"]] == ["/items/1/object"], answer
    assert receiver.database.psql(f"SELECT count(*) FROM kube_reports.stored_report WHERE cluster = '{cluster}'") == "0"


def test_sync(receiver):
    cluster, token = receiver.add("sync")
    stream = str(uuid.uuid4())
    reports = [policy_report(f"r{n}", version=str(n)) for n in range(5)]
    assert receiver.post("objects", objects([("apply", each) for each in reports], 1, stream), token).code == 200
    scan = receiver.post("results", batch([result("a")]), token)
    assert scan.code == 200

    def entry(report, version=None):
        metadata = report["metadata"]
        return [metadata["namespace"], metadata["name"], metadata["uid"], version or metadata["resourceVersion"]]

    question = {"apiVersion": "forward/v1", "type": "policyreports.wgpolicyk8s.io/v1alpha2",
                "items": [entry(reports[0]), entry(reports[1], "9"), entry(policy_report("new")), entry(reports[3])],
                "range": {"after": None, "to": None}}
    answer = receiver.post("sync", question, token)
    assert answer.code == 200, answer
    assert answer.json["wanted"] == [1, 2] and answer.json["more"] is False
    assert [row[1] for row in answer.json["surplus"]] == ["r2", "r4"]
    question["range"] = {"after": ["team", "r0"], "to": ["team", "r3"]}
    assert [row[1] for row in receiver.post("sync", question, token).json["surplus"]] == ["r2"]
    # An idle sender sends no type and no items, so that its cluster counts as seen; all other requests need a type.
    receiver.database.psql(f"UPDATE kube_reports.cluster SET last_seen = now() - interval '1 day' "
                           f"WHERE uid = '{cluster}'", user="postgres")
    empty = {"apiVersion": "forward/v1", "items": []}
    assert receiver.post("sync", empty, token).json == {"wanted": [], "surplus": [], "more": False}
    assert receiver.database.psql("SELECT silent_for < interval '1 minute' FROM kube_reports.fleet_freshness "
                                  f"WHERE cluster = '{cluster}'") == "t"
    for wrong in ({"type": None}, {"type": "x"}, {"items": question["items"]}, {"range": question["range"]}):
        assert receiver.post("sync", {**empty, **wrong}, token).code == 400, wrong


def test_metadata_of_evidence(receiver):
    """/v1/forward/evidence does the same as StoreEvidence of gRPC; it takes the batch that docs/evidence.md shows"""
    cluster, token = receiver.add("keeper")
    (shown,) = blocks((TOP / "docs" / "evidence.md").read_text(encoding="utf-8"), "json")
    _, another = receiver.add("page")
    assert receiver.post("evidence", json.loads(shown), another).json == {"accepted": 1, "changed": 1, "removed": 0}
    file = {"scan": "ocp4-cis", "index": 7, "name": "master-0", "sha256": "0" * 64, "bytes": 7,
            "uri": "https://store.example.com/7/master-0.xml"}
    document = {"apiVersion": "forward/v1", "evidence": [file]}
    assert receiver.post("evidence", document, token).json == {"accepted": 1, "changed": 1, "removed": 0}
    assert receiver.post("evidence", document, token).json == {"accepted": 1, "changed": 0, "removed": 0}
    assert receiver.database.psql("SELECT scan, index, name, provider, uri FROM kube_reports.evidence "
                                  f"WHERE cluster = '{cluster}'") == \
        "ocp4-cis|7|master-0|sender|https://store.example.com/7/master-0.xml"
    refused = receiver.post("evidence", {**document, "evidence": [file, {**file, "name": "a/b", "index": "x"}]}, token)
    assert refused.code == 400
    assert [cause["field"] for cause in refused.json["details"]["causes"]] == ["/evidence/1/index", "/evidence/1/name"]
    assert receiver.post("evidence", {"apiVersion": "forward/v1"}, token).code == 400
    assert receiver.post("evidence", {**document, "evidence": [file] * 5001}, token).code == 413
    assert receiver.post("evidence", document, "wrong").code == 401


def test_the_same_batch_at_once(receiver):
    cluster, token = receiver.add("cut")
    stream = str(uuid.uuid4())
    threads = []
    for _ in range(8):
        document = objects([("apply", policy_report(f"r{n}")) for n in range(50)], 1, stream)
        threads.append(threading.Thread(target=receiver.post, args=("objects", document, token)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert receiver.database.psql("SELECT count(*) FROM kube_reports_internal.change c "
                                  "JOIN kube_reports_internal.lane l ON l.id = c.lane "
                                  "JOIN kube_reports.cluster k ON k.id = l.cluster_id "
                                  f"WHERE k.uid = '{cluster}'") == "50"


def test_many_batches_of_one_sender(module_stack, receiver):
    """A sender that posts many batches at once waits for itself: the batch of another sender is the next one"""
    cluster, token = receiver.add("crowd")
    _, theirs = receiver.add("bystander")
    own = Receiver(module_stack, ("--workers=1",))
    answered, threads = [], []

    def post(name, token):
        answered.append((name, own.post("results", batch([result("a")]), token).code))

    def queued():
        return own.proxy.metric("kube_reports_database_queued_calls")

    try:
        with contextlib.closing(psycopg2.connect(receiver.database.connection())) as connection:
            connection.cursor().execute("SELECT FROM kube_reports_internal.sender_credential WHERE name = 'crowd' "
                                        "FOR UPDATE")
            for count in range(80):
                threads.append(threading.Thread(target=post, args=("crowd", token), daemon=True))
                threads[-1].start()
                # 64 wait; each further one is answered at once.
                until(lambda: queued() + len(answered) >= count, 30, "the batch to wait")
            refused = len(answered)
            assert refused >= 15 and {code for _, code in answered} <= {429, 503}, answered
            before = queued()
            threads.append(threading.Thread(target=post, args=("bystander", theirs), daemon=True))
            threads[-1].start()
            until(lambda: ("bystander", 200) in answered or queued() > before, 30, "the other batch")
        for thread in threads:
            thread.join()
    finally:
        own.proxy.stop()
    assert answered.index(("bystander", 200)) - refused <= 3, answered
    assert receiver.results(cluster) == "a pass"


# ---------- kills and outages ----------

def test_kill(own_stack):
    """kill -9 of the receiver and of its database in the middle of batches: no result is lost or stored twice"""
    def send():
        for document in sent:
            while True:
                with contextlib.suppress(OSError, http.client.HTTPException):
                    answer = receiver.post("results", document, token)
                    if answer.code == 200:
                        break
                    if answer.code not in (429, 503):
                        refused.append(answer)
                        return

    own_stack.begin()
    receiver = receiver_of(own_stack)
    cluster, token = receiver.add("killed")
    sent = [batch([result(f"rule-{n:04}", "FAIL" if n % 3 else "PASS") for n in range(at, at + 50)], at // 50 + 1,
                  at == 950, "run") for at in range(0, 1000, 50)]
    refused = []
    stored = (f"SELECT coalesce(max(a.seq), 0) FROM kube_reports_internal.forward_assessment a "
              f"JOIN kube_reports.cluster c ON c.id = a.cluster_id WHERE c.uid = '{cluster}'")
    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    seen = 0
    for what in ("receiver", "database", "receiver", "database"):
        seen = until(lambda: (n := int(receiver.database.psql(stored))) > seen and n, 120, "progress")
        assert refused == [] and sender.is_alive(), "the batches came to an end before the kills"
        if what == "receiver":
            os.killpg(receiver.proxy.process.pid, signal.SIGKILL)
            receiver.proxy.process.wait(20)
            receiver.proxy.start()
        else:
            receiver.database.kill()
            receiver.database.start()
    sender.join(300)
    assert not sender.is_alive() and refused == []
    assert receiver.results(cluster) == ", ".join(f"rule-{n:04} {'fail' if n % 3 else 'pass'}" for n in range(1000))
    assert receiver.database.psql(stored) == "20"
    assert receiver.database.psql("SELECT count(*), count(DISTINCT rule), count(old_status) "
                                  f"FROM kube_reports.result_event WHERE cluster = '{cluster}'") == "1000|1000|0"
    # While the database is away, the answer says when the sender shall try again.
    receiver.database.stop("immediate")
    late = batch([result("late")], 1, True, "late", prune=None)
    answer = until(lambda: (one := receiver.post("results", late, token)).code == 503 and one, 20, "503")
    assert int(answer.headers["Retry-After"]) >= 1
    receiver.database.start()
    until(lambda: receiver.post("results", late, token).code == 200, 60, "the batch")
    assert receiver.count(cluster) == 1001


# ---------- the page ----------

def blocks(page, kind=""):
    return [text for found, text in re.findall(r"^```(\w*)\n(.*?)^```$", page, flags=re.M | re.S) if found == kind]


def test_page(receiver, tmp_path):
    """Runs the commands of docs/forwarding.md, from the first grant to a running sender."""
    # test_forward_grpc.py runs the section on gRPC.
    page = (TOP / "docs" / "forwarding.md").read_text(encoding="utf-8").partition("## gRPC")[0]
    scan, objects_batch, comparison = [json.loads(block) for block in blocks(page, "json")]
    # regress/chart/test_forwarding.py runs the commands of the chart.
    shells = [re.sub(r"\\\n +", "", block).removeprefix("$ ").strip().split("\n") for block in blocks(page)
              if "helm install" not in block]
    (grant, receive), (add,), (curl, printed), (forward,) = shells
    environment = {**os.environ, "PGHOST": receiver.database.directory, "PGUSER": "kube_reports_owner",
                   "PGDATABASE": "kube_reports"}
    (tmp_path / "scan.json").write_text(json.dumps(scan), encoding="utf-8")
    (tmp_path / "ca.crt").write_bytes((TOP / receiver.pki / "ca.crt").read_bytes())

    port = free_port()

    def shell(command):
        return run(["/bin/bash", "-c", command.replace("127.0.0.1:6444", f"127.0.0.1:{port}")], cwd=tmp_path,
                   env=environment).out.strip()

    shell(grant)
    # The page leaves out the flags that every proxy needs, and its receiver runs beside the other one.
    receive = put(receive, **{"6444": str(port), "senders.crt": f"{receiver.pki}/senders/ca.crt"})
    command, *flags, more = shlex.split(receive)
    assert (command, more) == ("kube-reports-proxy", "...")
    receiver.stack.proxy(flags=flags)
    stack_command("certificate", f"{receiver.pki}/senders", "page", "/CN=sender-of-the-page", "clientAuth")
    receiver.add("of-the-page", certificate="sender-of-the-page")
    certificate = f"{receiver.pki}/senders/page"
    assert receiver.post("results", batch([result("a")]), certificate=certificate, port=port).json["changed"] == 1
    shell(add)
    token = (tmp_path / "east.token").read_text(encoding="ascii").strip()
    assert shell(curl) == printed
    # A token of another program: the database gets its digest.
    (digest,) = re.findall(r"`(printf %s [^`]*sha256sum)`", page)
    own, _ = run(["bash", "-c", digest.replace(r"\|", "|")], env={**os.environ, "TOKEN": "made-elsewhere"}).out.split()
    receiver.add("digest", token_sha256=own)
    assert receiver.post("results", batch([result("a")]), "made-elsewhere", port=port).json["changed"] == 1
    cluster = re.search(r"add_sender\('([^']*)'", add).group(1)
    assert receiver.results(cluster, "rule || ' ' || status || ' ' || (properties->>'control')") == \
        "ocp4-api-server-anonymous-auth fail NIST-800-53: CM-6;CM-6(1)"
    assert receiver.post("objects", objects_batch, token).json["changed"] == 1
    assert receiver.post("sync", comparison, token).json == {"wanted": [], "surplus": [], "more": False}

    receiver.proxy.api().create(POLR, report("arrives", "team"), "team")
    metrics_port = free_port()
    command = forward.replace("https://receiver.example.com:6444", f"https://127.0.0.1:{port}")
    command = command.replace("/var/lib/kube-reports-forward", f"{tmp_path}/queue").replace(
        "kube-reports-proxy", f"exec {receiver.database.directory}/dest/usr/bin/kube-reports-proxy", 1)
    with subprocess.Popen(["/bin/bash", "-c", f"{command} --kubeconfig={receiver.proxy.kubeconfig()} "
                           f"--metrics-bind-address=127.0.0.1 --metrics-port={metrics_port}"], cwd=tmp_path) as sender:
        try:
            def metrics():
                assert sender.poll() is None
                with contextlib.suppress(OSError):
                    with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics", timeout=10) as answer:
                        text = answer.read().decode()
                        return "kube_reports_forward_watching 2\n" in text and text
                return None
            found = set(re.findall(r"^(kube_reports_forward_\w+) ", until(metrics, 30, "the watches"), flags=re.M))
            until(lambda: receiver.database.psql("SELECT count(*) FROM kube_reports.stored_report WHERE name = "
                                                 f"'arrives' AND cluster = '{cluster}'") == "1", 30, "the object")
        finally:
            sender.send_signal(signal.SIGTERM)
        assert sender.wait(20) == 0
    named = re.findall(r"^\| (`kube_reports_forward_.*?) \|", page, flags=re.M)
    told = {"kube_reports_forward" + name.removeprefix("kube_reports_forward")
            for row in named for name in re.findall(r"`(\w+)`", row)}
    assert found == told
