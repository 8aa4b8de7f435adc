"""kube-reports-grpc, the gRPC provider of result forwarding: batches, single results, what is refused."""

import concurrent.futures
import contextlib
import hashlib
import os
import pathlib
import pwd
import queue
import random
import re
import signal
import subprocess
import sys
import threading
import urllib.request
import uuid

import grpc
import psycopg2
import pytest

import metric_names
from client import run, until
from conftest import TOP, VARIANT, VERSION, free_port, stack_command
from grpc_port import COMPLIANCE, FORWARD, SERVICE, GrpcPort, Sender, batch, code_of, result


class Receiver:
    """A kube-reports-grpc; its methods make senders and read results."""

    def __init__(self, own):
        self.own = own
        self.database = own.database
        self.database.psql("SELECT kube_reports.grant_ingest('kube_reports_proxy')")
        if VARIANT == "sql":
            # The upkeep of this proxy derives results from the batches.
            own.proxy()
        self.port = GrpcPort(own).wait_ready()
        self.channels = []

    def add(self, name=None, **more):
        """Makes a sender of a new cluster; returns the uid of the cluster and the token."""
        cluster = str(uuid.uuid4())
        arguments = "".join(f", {key} => '{value}'" for key, value in more.items())
        token = self.database.psql(
            f"SELECT kube_reports.add_sender('{cluster}', '{name or uuid.uuid4().hex}'{arguments})")
        return cluster, token

    def sender(self, token=None, certificate=None, port=None):
        self.channels.append(Sender(port or self.port, token, certificate))
        return self.channels[-1]

    def results(self, cluster, columns="rule || ' ' || status"):
        if VARIANT == "sql":
            until(lambda: self.database.psql("SELECT results_pending FROM kube_reports.status") == "f", 60,
                  "the results")
        return self.database.psql(f"SELECT string_agg({columns}, ', ' ORDER BY rule, subject_name) "
                                  f"FROM kube_reports.typed_result WHERE cluster = '{cluster}'")

    def end(self):
        for channel in self.channels:
            channel.close()
        self.port.stop()


@pytest.fixture(scope="module")
def receiver(module_stack):
    certificates = f"{module_stack.pki}/senders"
    stack_command("certificates", certificates)
    stack_command("certificate", certificates, "east", "/CN=east-sender", "clientAuth")
    stack_command("certificate", certificates, "west", "/CN=west-sender", "clientAuth")
    stack_command("certificate", module_stack.pki, "false-east", "/CN=east-sender", "clientAuth")
    if os.getuid() == 0:
        owner = pwd.getpwnam("postgres")
        for entry in [certificates, *(os.path.join(certificates, name) for name in os.listdir(certificates))]:
            os.chown(entry, owner.pw_uid, owner.pw_gid)
    made = Receiver(module_stack)
    yield made
    made.end()


# The number of batches that wait for a lock.
WAITING = ("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
           "AND query LIKE 'CALL kube_reports_internal.api_forward%'")


@contextlib.contextmanager
def held_up(database, sender):
    """Makes the batches of this sender wait while the block runs."""
    connection = psycopg2.connect(database.connection())
    try:
        connection.cursor().execute("SELECT FROM kube_reports_internal.sender_credential WHERE name = %s FOR UPDATE",
                                    (sender,))
        yield
    finally:
        connection.close()


def failure(call, *arguments, **more):
    """Returns the code and the message of the error that the call raises."""
    with pytest.raises(grpc.RpcError) as caught:
        call(*arguments, **more)
    return caught.value.code().name, caught.value.details()


def trailers(call, *arguments, **more):
    with pytest.raises(grpc.RpcError) as caught:
        call(*arguments, **more)
    return dict(caught.value.trailing_metadata())


# ---------- batches ----------

def test_batches(receiver):
    cluster, token = receiver.add(cluster_name="foo")
    sender = receiver.sender(token)
    stored = sender.batch(batch([result("a"), result("b", "FAIL"), result("c", "MANUAL")], assessment="one",
                                extra_metadata={"cluster_name": "foo", "randomKey": "random value"},
                                remediations=[FORWARD.Remediation(name="fix-b", rule="b",
                                                                  application_state="NotApplied")]))
    assert (stored.assessment_id, stored.sequence, stored.accepted, stored.changed) == ("one", 1, 4, 3)
    assert receiver.results(cluster) == "a pass, b fail, c skip"
    assert receiver.results(cluster, "coalesce(properties->>'remediation/fix-b', '-')") == "-, NotApplied, -"
    assert receiver.database.psql("SELECT extra_metadata->>'randomKey' FROM kube_reports.cluster "
                                  f"WHERE uid = '{cluster}'") == "random value"
    assert receiver.database.psql(
        "SELECT DISTINCT source, policy, category, severity, subject_kind, subject_name, properties->>'control' "
        f"FROM kube_reports.typed_result WHERE cluster = '{cluster}'") == \
        "Compliance Operator|ocp4-cis|cis|high|Cluster|cluster.example.com|NIST-800-53: CM-6;CM-6(1)"


def test_views_of_remediations(receiver):
    """The view shows all fields of a Remediation message, as with JSON"""
    cluster, token = receiver.add()
    payload = FORWARD.RemediationObject(kind="MachineConfig", name="75-a")
    receiver.sender(token).batch(batch([result("a", "FAIL"), result("b", "FAIL")], remediations=[
        FORWARD.Remediation(name="fix-a", rule="a", application_state="Error", type="Enforcement", apply=True,
                            current=payload, outdated=FORWARD.RemediationObject(), error_message="no such pool"),
        FORWARD.Remediation(name="fix-b", rule="b")]))
    receiver.results(cluster)
    assert receiver.database.psql(
        "SELECT remediation, state, wanted, type, outdated, coalesce(error, '-'), object_kind, object_name FROM "
        f"kube_reports.remediations WHERE cluster = '{cluster}' ORDER BY remediation").splitlines() == [
            "fix-a|Error|t|Enforcement|t|no such pool|MachineConfig|75-a",
            "fix-b|NotApplied|f|Configuration|f|-||"]


def test_remediations_that_are_gone(receiver):
    """Remediations, or the word that these are all, prune the others; a run without both keeps them"""
    cluster, token = receiver.add()
    sender = receiver.sender(token)

    def run_of(*names, **more):
        sender.batch(batch([result("a", "FAIL")], **more, remediations=[
            FORWARD.Remediation(name=name, rule="a") for name in names]))
        receiver.results(cluster)
        return receiver.database.psql("SELECT string_agg(remediation, ' ' ORDER BY remediation) FROM "
                                      f"kube_reports.remediations WHERE cluster = '{cluster}'")
    assert run_of("x", "y") == "x y"
    assert run_of() == "x y"
    assert run_of("y") == "y"
    assert run_of(all_remediations=True) == ""


def kept(name, index=1, **more):
    return FORWARD.EvidenceFile(**{"scan": "ocp4-cis", "index": index, "name": name, "sha256": "0" * 64, "bytes": 7,
                                   "uri": f"s3://theirs/{index}/{name}.xml", **more})


def test_metadata_of_evidence(receiver):
    """Files that a sender keeps are in the view once; a batch is stored whole or not; a repeat changes nothing"""
    cluster, token = receiver.add(cluster_name="keeper")
    sender = receiver.sender(token)

    def rows():
        return receiver.database.psql("SELECT scan, index, name, bytes, encoding, provider, uri "
                                      f"FROM kube_reports.evidence WHERE cluster = '{cluster}' ORDER BY index, name")

    first = FORWARD.EvidenceBatch(files=[kept("a"), kept("b", encoding="bzip2")],
                                  extra_metadata={"clusterName": "keeper", "region": "eu"})
    answers = list(sender.evidence(iter([first, first, FORWARD.EvidenceBatch(files=[kept("a", bytes=8)])])))
    assert [(one.accepted, one.changed, one.removed) for one in answers] == [(2, 2, 0), (2, 0, 0), (1, 1, 0)]
    stored = ("ocp4-cis|1|a|8||sender|s3://theirs/1/a.xml\n"
              "ocp4-cis|1|b|7|bzip2|sender|s3://theirs/1/b.xml")
    assert rows() == stored
    assert receiver.database.psql("SELECT extra_metadata->>'region' FROM kube_reports.cluster "
                                  f"WHERE uid = '{cluster}'") == "eu"
    # The error names the wrong field; nothing of the batch is stored; the batch before it stays.
    for wrong, path in ((kept("../x"), "files[1].name"), (kept("x", scan="a/b"), "files[1].scan"),
                        (kept("x", sha256="X"), "files[1].sha256"), (kept("x", bytes=0), "files[1].bytes"),
                        (kept("x", index=4294967295), "files[1].index"), (kept("x", uri="none"), "files[1].uri"),
                        (kept("c"), "files[1]")):
        stream = sender.evidence(iter([first, FORWARD.EvidenceBatch(files=[kept("c"), wrong])]))
        assert next(stream).accepted == 2
        code, message = failure(list, stream)
        assert code == "INVALID_ARGUMENT" and message.startswith(path + " "), (wrong, message)
    assert failure(list, sender.evidence(iter([b"\xff\xff"])))[0] == "INVALID_ARGUMENT"
    too_many = FORWARD.EvidenceBatch(files=[kept(f"n{n}") for n in range(5001)])
    assert failure(list, sender.evidence(iter([too_many])))[0] == "RESOURCE_EXHAUSTED"
    other = FORWARD.EvidenceBatch(files=[kept("c")], extra_metadata={"clusterName": "other"})
    assert failure(list, sender.evidence(iter([other])))[0] == "PERMISSION_DENIED"
    assert failure(list, receiver.sender("wrong").evidence(iter([first])))[0] == "UNAUTHENTICATED"
    # The repeated first batch has brought back its own size.
    assert rows() == stored.replace("|8|", "|7|")
    # A sender of another cluster changes only files of its own cluster.
    another, its_token = receiver.add()
    assert list(receiver.sender(its_token).evidence(iter([first.__class__(files=[kept("a")])])))[0].changed == 1
    assert rows() == stored.replace("|8|", "|7|")
    # The oldest runs are removed, as with files that the database stores.
    runs = [FORWARD.EvidenceBatch(files=[kept("a", index)]) for index in range(2, 6)]
    assert [one.removed for one in sender.evidence(iter(runs))] == [0, 0, 2, 1]
    assert receiver.database.psql("SELECT string_agg(index::text, ',' ORDER BY index) FROM kube_reports.evidence "
                                  f"WHERE cluster = '{cluster}'") == "3,4,5"
    assert receiver.database.psql("SELECT count(*) FROM kube_reports_internal.evidence_body") == "0"
    assert receiver.database.psql(f"SELECT count(*) FROM kube_reports.evidence WHERE cluster = '{another}'") == "1"


def test_stream_of_many(receiver):
    """1,000 results in a stream: all are acknowledged in order, none is lost or stored twice"""
    cluster, token = receiver.add()
    sent = [batch([result(f"rule-{n:04}", random.choice(("PASS", "FAIL"))) for n in range(at, at + 100)],
                  at // 100 + 1, at == 900, "many") for at in range(0, 1000, 100)]
    answers = list(receiver.sender(token).batches(iter(sent)))
    assert [answer.sequence for answer in answers] == list(range(1, 11))
    assert sum(answer.changed for answer in answers) == 1000
    wanted = {item.rule: item.outcome.lower() for part in sent for item in part.results}
    assert receiver.results(cluster) == ", ".join(f"{rule} {wanted[rule]}" for rule in sorted(wanted))


def test_order_and_repetition(receiver):
    cluster, token = receiver.add()
    sender = receiver.sender(token)
    first = batch([result("a", extra={str(n): "x" for n in range(20)})], 1, False, "run")
    second = batch([result("b", "FAIL")], 2, True, "run")
    assert failure(sender.batch, second) == ("FAILED_PRECONDITION", "batch 1 is expected, not 2")
    assert receiver.results(cluster) == ""
    given = sender.batch(first)
    # A repeat may have the entries of a map in another order.
    again = FORWARD.Batch()
    again.CopyFrom(first)
    again.results[0].extra.clear()
    for key, value in reversed(list(first.results[0].extra.items())):
        again.results[0].extra[key] = value
    assert sender.batch(again) == given
    assert code_of(sender.batch, batch([result("z")], 1, False, "run")) == "ALREADY_EXISTS"
    assert sender.batch(second).changed == 1
    # The answer to a repeat has the sequence of the repeated batch.
    repeated = sender.batch(first)
    assert (repeated.sequence, repeated.changed) == (1, 0)
    assert failure(sender.batch, batch([], 3, True, "run"))[1] == 'assessment "run" is finished'
    assert receiver.results(cluster) == "a pass, b fail"


def test_an_error_ends_a_stream(receiver):
    """Batches before the wrong one stay, batches after it are not stored"""
    cluster, token = receiver.add()
    calls = receiver.sender(token).batches(iter([
        batch([result("a")], 1, False, "run"), batch([result("b", "BAD")], 2, False, "run"),
        batch([result("c")], 2, True, "run")]))
    assert next(calls).sequence == 1
    assert failure(next, calls)[0] == "INVALID_ARGUMENT"
    assert receiver.results(cluster) == "a pass"


# ---------- single results ----------

def test_single_results(receiver):
    cluster, token = receiver.add(cluster_name="single")
    sender = receiver.sender(token)
    example = {"subject": "cluster.example.com", "control": "NIST-800-53: CM-6;CM-6(1)", "assessmentId": "one",
               "severity": "high", "description": "d", "instructions": "i", "extra": {"resourceType": "cluster"}}
    for rule in ("a", "b"):
        sender.result(rule=rule, outcome="FAIL", metadata=[("clustername", "single"), ("clustertype", "edge"),
                                                           ("extra-metadata-region", "north")], **example)
    sender.result(rule="n", outcome="PASS", **{**example, "subject": "node-1",
                                               "extra": {"resourceType": "node", "scan": "ocp4-node"}})
    assert receiver.results(cluster, "policy || ' ' || subject_kind || ' ' || rule || ' ' || status") == \
        "compliance Cluster a fail, compliance Cluster b fail, ocp4-node Node n pass"
    assert receiver.database.psql("SELECT extra_metadata ->> 'clusterType', extra_metadata ->> 'region' "
                                  f"FROM kube_reports.cluster WHERE uid = '{cluster}'") == "edge|north"


def test_repeated_single_results(receiver):
    """A repeat changes nothing; a late result of an earlier assessment does not replace that of a later assessment"""
    cluster, token = receiver.add()
    sender = receiver.sender(token)
    changes = "SELECT count(*) FROM kube_reports_internal.change"

    def send(assessment, outcome):
        sender.result(subject="c", rule="a", assessmentId=assessment, outcome=outcome)

    send("one", "FAIL")
    before = receiver.database.psql(changes)
    send("one", "FAIL")
    assert receiver.database.psql(changes) == before
    # Assessments are ordered by seconds, so set the first one back.
    receiver.database.psql("UPDATE kube_reports_internal.forward_assessment SET received_at = received_at - "
                           "interval '1 hour' WHERE assessment = 'one'", user="postgres")
    send("two", "PASS")
    send("one", "FAIL")
    assert receiver.results(cluster) == "a pass"
    assert code_of(sender.batch, batch([result("z")], 1, True, "two", scan="compliance")) == "FAILED_PRECONDITION"


# ---------- what is refused ----------

@pytest.mark.parametrize("change, fields", [
    ({"results": [result("a"), result("", "PASS"), result("b", "GOOD")]}, ["results[1].rule", "results[2].outcome"]),
    ({"results": [result("a"), result("a")]}, ["results[1]"]),
    ({"sequence": 0}, ["sequence"]), ({"sequence": 10000}, ["sequence"]), ({"assessment_id": ""}, ["assessment_id"]),
    ({"scan": FORWARD.Scan(name="../x")}, ["scan.name"]),
    ({"remediations": [FORWARD.Remediation(rule="a")]}, ["remediations[0].name"]),
    ({"remediations": [FORWARD.Remediation(rule="a", name="n", error_message="e" * 2001,
                                           current=FORWARD.RemediationObject(kind="k" * 254))]},
     ["remediations[0].error_message", "remediations[0].current"]),
    ({"remediations": [FORWARD.Remediation(rule="a", name="n", outdated=FORWARD.RemediationObject(name="a\0b"))]},
     ["remediations[0].outdated"]),
    ({"extra_metadata": {"k": "v" * 254}}, ["extra_metadata.k"]),
    ({"results": [result("a", description="a\0b")]}, ["results[0].description"]),
    ({"results": [result("a", extra={"k": "a\0b"})]}, ["results[0].extra"]),
], ids=str)
def test_wrong_fields(receiver, change, fields):
    cluster, token = receiver.add()
    message = FORWARD.Batch()
    message.CopyFrom(batch([result("good")]))
    for name, value in change.items():
        message.ClearField(name)
        message.MergeFrom(FORWARD.Batch(**{name: value}))
    details = trailers(receiver.sender(token).batch, message)["grpc-status-details-bin"]
    assert all(field.encode() in details for field in fields) and b"google.rpc.BadRequest" in details
    assert receiver.results(cluster) == ""


def test_broken_messages(receiver):
    cluster, token = receiver.add()
    sender = receiver.sender(token)
    good = batch([result("a")]).SerializeToString()
    assert failure(sender.batch, good[:-3])[0] == "INVALID_ARGUMENT"
    # A text that is not UTF-8.
    assert failure(sender.batch, good.replace(b"what a wants", b"what \xff wants")) == \
        ("INVALID_ARGUMENT", "results[0].description must be UTF-8 without NUL")
    # Every two bytes of this message would become a large struct.
    assert failure(sender.batch, b"\x32\x00" * 1_500_000) == ("RESOURCE_EXHAUSTED", "the message has too many parts")
    assert failure(sender.batch, batch([result(f"r{n}") for n in range(5001)]))[0] == "RESOURCE_EXHAUSTED"
    assert failure(sender.batch, b"\x0a" * (5 << 20))[0] == "RESOURCE_EXHAUSTED"
    generator = random.Random(1)
    for _ in range(200):
        spoiled = bytearray(good)
        for _ in range(generator.randrange(1, 4)):
            spoiled[generator.randrange(len(spoiled))] = generator.randrange(256)
        assert code_of(sender.batch, bytes(spoiled)) in ("OK", "INVALID_ARGUMENT", "FAILED_PRECONDITION",
                                                         "ALREADY_EXISTS", "RESOURCE_EXHAUSTED")
    # Unknown fields are ignored.
    assert sender.batch(batch([result("a")]).SerializeToString() + b"\xf8\x07\x01").accepted == 1
    assert receiver.port.metric("kube_reports_grpc_held_bytes") == 0


def test_methods(receiver):
    _, token = receiver.add()
    sender = receiver.sender(token)
    assert failure(sender.raw, "/x.Y/Z", b"")[0] == "UNIMPLEMENTED"
    # A call without a message.
    call = sender.channel.stream_unary(SERVICE + "StoreBatch", FORWARD.Batch.SerializeToString,
                                       FORWARD.Stored.FromString)
    assert failure(call, iter([]), metadata=sender.metadata)[0] == "INVALID_ARGUMENT"


def test_another_cluster(receiver):
    cluster, token = receiver.add(cluster_name="east")
    sender = receiver.sender(token)
    for key in ("clusterName", "cluster_name"):
        assert failure(sender.batch, batch([result("a")], extra_metadata={key: "west"})) == \
            ("PERMISSION_DENIED", 'the credential is of cluster "east", not of "west"')
    for key in ("clustername", "cluster_name"):
        assert code_of(sender.result, rule="a", outcome="PASS", assessmentId="x",
                       metadata=[(key, "west")]) == "PERMISSION_DENIED"
    assert receiver.results(cluster) == ""


# ---------- credentials ----------

def test_certificates(receiver):
    pki = receiver.own.pki
    cluster, _ = receiver.add("cert", certificate="east-sender")
    assert receiver.sender(certificate=f"{pki}/senders/east").batch(batch([result("a")])).accepted == 1
    assert receiver.results(cluster) == "a pass"
    # A certificate of no sender, and two of another CA.
    for certificate in (f"{pki}/senders/west", f"{pki}/false-east", f"{pki}/admin"):
        assert code_of(receiver.sender(certificate=certificate).batch, batch([result("z")])) == "UNAUTHENTICATED"
    # If a call has both, the token decides.
    other, token = receiver.add()
    assert receiver.sender(token, f"{pki}/senders/east").batch(batch([result("b")])).accepted == 1
    assert (receiver.results(cluster), receiver.results(other)) == ("a pass", "b pass")


def test_tokens(receiver):
    cluster, token = receiver.add("token")
    for wrong in ("", "x", token[:-1], hashlib.sha256(token.encode()).hexdigest()):
        assert code_of(receiver.sender(wrong).batch, batch([result("z")])) == "UNAUTHENTICATED", wrong
    assert code_of(receiver.sender().batch, batch([result("z")])) == "UNAUTHENTICATED"
    fresh = receiver.database.psql("SELECT kube_reports.rotate_sender('token')")
    for good in (token, fresh):
        assert receiver.sender(good).batch(batch([result("a")])).accepted == 1
    last = receiver.database.psql("SELECT kube_reports.rotate_sender('token', overlap => '0')")
    assert [code_of(receiver.sender(each).batch, batch([result("a")])) for each in (token, fresh, last)] == \
        ["UNAUTHENTICATED", "UNAUTHENTICATED", "OK"]
    # An open stream of a removed sender ends at its next message.
    messages = queue.Queue()
    calls = receiver.sender(last).batches(iter(messages.get, None))
    messages.put(batch([result("b")], 1, False, "run"))
    assert next(calls).sequence == 1
    assert receiver.database.psql("SELECT kube_reports.remove_sender('token')") == "t"
    messages.put(batch([result("c")], 2, True, "run"))
    assert failure(next, calls)[0] == "UNAUTHENTICATED"
    messages.put(None)
    assert "c pass" not in receiver.results(cluster)


# ---------- time, outages ----------

def test_deadline(receiver):
    """A batch that a lock delays beyond its deadline is not stored; sent again, it is stored"""
    cluster, token = receiver.add("deadline")
    sender = receiver.sender(token)
    message = batch([result("a")])
    with held_up(receiver.database, "deadline"):
        assert code_of(sender.batch, message, timeout=1) == "DEADLINE_EXCEEDED"
        # The receiver has ended the call and its statement, too.
        until(lambda: receiver.port.metric("kube_reports_grpc_calls") == 0, 20, "the end of the call")
        until(lambda: receiver.database.psql(WAITING, user="postgres") == "0", 20, "the end of the statement")
    assert receiver.results(cluster) == ""
    assert sender.batch(message).accepted == 1
    assert receiver.results(cluster) == "a pass"


def test_many_batches_of_one_sender(receiver):
    """The batches of a sender are stored one after another: they take no connection from another sender"""
    cluster, token = receiver.add("crowd")
    _, theirs = receiver.add("bystander")
    crowd = [receiver.sender(token) for _ in range(2)]
    with concurrent.futures.ThreadPoolExecutor(40) as pool:
        with held_up(receiver.database, "crowd"):
            calls = [pool.submit(crowd[n % 2].batch, batch([result("a")]), 120) for n in range(40)]
            until(lambda: receiver.port.metric("kube_reports_grpc_calls") == 40, 20, "all calls to be open")
            until(lambda: receiver.database.psql(WAITING, user="postgres") == "1", 20, "the first batch to wait")
            assert receiver.sender(theirs).batch(batch([result("a")])).accepted == 1
            assert receiver.database.psql(WAITING, user="postgres") in "01"
        assert any(call.exception() is None for call in calls)
    assert receiver.results(cluster) == "a pass"


def test_cut_stream(receiver):
    """A client cancels a stream: its stored batches stay, and the next call continues after them"""
    cluster, token = receiver.add()
    messages = queue.Queue()
    calls = receiver.sender(token).batches(iter(messages.get, None))
    messages.put(batch([result("a")], 1, False, "run"))
    assert next(calls).sequence == 1
    calls.cancel()
    messages.put(None)
    until(lambda: receiver.port.metric("kube_reports_grpc_calls") == 0, 20, "the end of the call")
    assert receiver.port.metric("kube_reports_grpc_held_bytes") == 0
    assert receiver.sender(token).batch(batch([result("b")], 2, True, "run")).sequence == 2
    assert receiver.results(cluster) == "a pass, b pass"


def send_until_stored(receiver, port, token, batches):
    """Sends batches as a sender does: a batch without an answer is sent again, over a new connection."""
    left = list(batches)
    while left:
        sender = Sender(port, token)
        try:
            for answer in sender.batches(iter(left)):
                left = [message for message in left if message.sequence > answer.sequence]
        except grpc.RpcError as error:
            assert error.code().name in ("UNAVAILABLE", "CANCELLED", "INTERNAL", "RESOURCE_EXHAUSTED"), error
        finally:
            sender.close()


def test_kill(receiver):
    """kill -9 of the receiver in the middle of streams: no result is lost or stored twice"""
    cluster, token = receiver.add()
    port = GrpcPort(receiver.own).wait_ready()
    sent = [batch([result(f"rule-{n:04}") for n in range(at, at + 50)], at // 50 + 1, at == 950, "run")
            for at in range(0, 1000, 50)]
    sender = threading.Thread(target=send_until_stored, args=(receiver, port, token, sent))
    sender.start()
    seen = 0
    stored = (f"SELECT coalesce(max(a.seq), 0) FROM kube_reports_internal.forward_assessment a "
              f"JOIN kube_reports.cluster c ON c.id = a.cluster_id WHERE c.uid = '{cluster}'")
    try:
        for _ in range(3):
            seen = until(lambda: (n := int(receiver.database.psql(stored))) > seen and n, 120, "progress")
            port.kill()
            port.start()
            port.wait_ready()
        sender.join(300)
        assert not sender.is_alive()
    finally:
        port.stop()
    assert receiver.results(cluster) == ", ".join(f"rule-{n:04} pass" for n in range(1000))
    assert receiver.database.psql(stored) == "20"
    assert receiver.database.psql("SELECT count(*) FROM kube_reports.result_event WHERE "
                                  f"cluster = '{cluster}'") == "1000"


def test_database_away(own_stack):
    own_stack.begin()
    stack_command("certificates", f"{own_stack.pki}/senders")
    if os.getuid() == 0:
        owner = pwd.getpwnam("postgres")
        for directory, _, names in os.walk(f"{own_stack.pki}/senders"):
            for name in ("", *names):
                os.chown(os.path.join(directory, name), owner.pw_uid, owner.pw_gid)
    receiver = Receiver(own_stack)
    try:
        cluster, token = receiver.add()
        sender = receiver.sender(token)
        assert sender.batch(batch([result("a")], 1, False, "run")).accepted == 1
        own_stack.database.stop("immediate")
        until(lambda: code_of(sender.batch, batch([result("b")], 2, True, "run")) == "UNAVAILABLE", 20,
              "UNAVAILABLE")
        given = trailers(sender.batch, batch([result("b")], 2, True, "run"))
        assert given["grpc-retry-pushback-ms"] == "1000" and b"google.rpc.RetryInfo" in given[
            "grpc-status-details-bin"]
        assert sender.raw("/grpc.health.v1.Health/Check", b"") == b"\x08\x02"
        assert receiver.port.fetch("/readyz")[0] == 500 and receiver.port.fetch("/livez")[0] == 200
        own_stack.database.start()
        until(lambda: code_of(sender.batch, batch([result("b")], 2, True, "run")) == "OK", 30, "recovery")
        assert sender.raw("/grpc.health.v1.Health/Check", b"") == b"\x08\x01"
        assert receiver.results(cluster) == "a pass, b pass"
    finally:
        receiver.end()


def test_shutdown(receiver):
    """SIGTERM: the message that is being stored is answered, then the stream ends with UNAVAILABLE; exit code 0"""
    cluster, token = receiver.add("shutdown")
    port = GrpcPort(receiver.own).wait_ready()
    with held_up(receiver.database, "shutdown"):
        calls = receiver.sender(token, port=port).batches(iter([batch([result("a")], 1, False, "run"),
                                                                batch([result("b")], 2, True, "run")]))
        until(lambda: receiver.database.psql(WAITING, user="postgres") == "1", 20, "the batch to wait")
        port.process.send_signal(signal.SIGTERM)
        until(lambda: "shutdown begins" in port.log_path.read_text(), 20, "the shutdown")
    assert next(calls).sequence == 1
    assert failure(next, calls)[0] == "UNAVAILABLE"
    assert port.process.wait(30) == 0
    assert receiver.results(cluster) == "a pass"


def test_health(receiver):
    """The health check needs no credentials; it can ask about a single service"""
    sender = receiver.sender()
    check = "/grpc.health.v1.Health/Check"
    assert sender.raw(check, b"") == b"\x08\x01"
    for name in (b"ComplianceService", b"kube_reports.forward.v1.ForwardService"):
        assert sender.raw(check, b"\x0a" + bytes([len(name)]) + name) == b"\x08\x01"
    assert failure(sender.raw, check, b"\x0a\x01x")[0] == "NOT_FOUND"
    assert failure(sender.raw, check, b"\x0a" + b"\xff" * 5000)[0] == "RESOURCE_EXHAUSTED"
    assert COMPLIANCE.ResultResponse().SerializeToString() == b""


# ---------- the page ----------

def test_metrics_of_alerts(receiver):
    """Every metric in an alert of the chart exists; docs/forwarding.md describes every metric and no other."""
    metric_names.check("grpc", "forwarding.md", "kube_reports_grpc", receiver.port.fetch("/metrics")[1])


def test_version(receiver):
    program = f"{receiver.database.directory}/dest/usr/bin/kube-reports-grpc"
    assert run([program, "--version"]).out == f"kube-reports-grpc {VERSION}\n"


def test_page(receiver, tmp_path):
    """Runs the section of docs/forwarding.md on gRPC, from the grant to a sender in Python."""
    page = (TOP / "docs" / "forwarding.md").read_text(encoding="utf-8").partition("## gRPC")[2]
    (start, send), (script,) = ([text for kind, text in re.findall(r"^```(\w*)\n(.*?)^```$", page, flags=re.M | re.S)
                                 if kind == wanted and "helm " not in text] for wanted in ("", "python"))
    port, metrics_port = free_port(), free_port()
    database, pki = receiver.database, receiver.own.pki
    environment = {**os.environ, "PGHOST": database.directory, "PGUSER": "kube_reports_owner",
                   "PGDATABASE": "kube_reports", "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    for name, source in (("tls.crt", "serving.crt"), ("tls.key", "serving.key"), ("ca.crt", "ca.crt"),
                         ("senders.crt", "senders/ca.crt")):
        (tmp_path / name).write_bytes(pathlib.Path(pki, source).read_bytes())
    (tmp_path / "send.py").write_text(script.replace(":6445", f":{port}"), encoding="utf-8")

    def shell(command):
        return run(["/bin/bash", "-e", "-c", command], cwd=tmp_path, env=environment).out

    grant, _, command = start.partition("\n")
    shell(grant)
    for said, here in (("--port=6445", f"--port={port} --metrics-port={metrics_port}"),
                       ("kube-reports-grpc ", f"exec {database.directory}/dest/usr/bin/kube-reports-grpc "),
                       ("dbname=reports", "dbname=kube_reports"),
                       ("3b241101-e2bb-4255-8caf-4136c566a962", receiver.own.cluster)):
        assert said in command
        command = command.replace(said, here)
    with subprocess.Popen(["/bin/bash", "-c", command], cwd=tmp_path, env=environment) as server:
        try:
            def ready():
                assert server.poll() is None
                with contextlib.suppress(OSError):
                    with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/readyz", timeout=10) as answer:
                        return answer.status == 200
                return False
            until(ready, 30, "readiness")
            with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics", timeout=10) as answer:
                found = set(re.findall(r"^# TYPE (\w+)", answer.read().decode(), flags=re.M))
            printed = shell(send.replace("docs/proto", f"{TOP}/docs/proto").replace("python3", sys.executable))
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait(40) == 0
    promised = re.search(r"^It prints `(.*)` and `(.*)`\.$", page, flags=re.M)
    assert printed == "\n".join((*promised.groups(), ""))
    cluster = re.search(r"add_sender\('([^']*)'", send).group(1)
    assert receiver.results(cluster) == "ocp4-api-server-anonymous-auth fail, ocp4-audit-logging pass"
    named = re.findall(r"^\| (`kube_reports_grpc_.*?) \|", page, flags=re.M)
    assert found == {"kube_reports_grpc" + name.removeprefix("kube_reports_grpc")
                     for row in named for name in re.findall(r"`(\w+)`", row)}
