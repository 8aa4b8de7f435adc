"""Senders and readers of a fleet with ill will (issue 19)."""

import concurrent.futures
import contextlib
import json
import uuid

import psycopg2
import pytest

from client import until
from conftest import stack_command
from test_forward import batch, objects, policy_report, receiver, result  # noqa: F401


@pytest.mark.parametrize("twins", [
    [result("a", extra={"resourceType": kind}) for kind in ("cluster", "other")],
    [result("a"), result("a", extra={})],
    [result("a", subject=""), {key: value for key, value in result("a").items() if key != "subject"}],
], ids=("kinds", "no-kind", "no-subject"))
def test_results_that_become_one(receiver, twins):
    """Two spellings of one result in a batch: refused.  Before, each such batch multiplied the results of the rule"""
    cluster, token = receiver.add(f"twins-{len(json.dumps(twins))}")
    answer = receiver.post("results", batch(twins), token)
    assert answer.code == 400, answer
    assert [cause["field"] for cause in answer.json["details"]["causes"]] == ["/results/1"]
    assert receiver.count(cluster) == 0


def test_a_report_with_twins(receiver):
    """A report of a scan that its sender has stored as an object, with a rule several times: one result stays"""
    cluster, token = receiver.add("twins-as-object")
    assert receiver.post("results", batch([result("a")]), token).code == 200
    report = json.loads(receiver.database.psql(f"SELECT document FROM kube_reports.stored_report "
                                               f"WHERE cluster = '{cluster}'"))
    report["metadata"]["resourceVersion"] = "other"
    report["results"] = report["results"] * 3
    assert receiver.post("objects", objects([("apply", report)]), token).json["changed"] == 1
    assert receiver.count(cluster) == 3
    assert receiver.post("results", batch([result("a", "FAIL")]), token).code == 200
    assert receiver.results(cluster) == "a fail"


@pytest.mark.parametrize("member,time", [("endTimestamp", "-infinity"), ("startTimestamp", "-infinity"),
                                         ("startTimestamp", "next winter"), ("endTimestamp", {"seconds": 1})])
def test_times_of_scans(receiver, member, time):
    """A time that is none: 400, with its place.  Before, an infinite one was an internal error (500)"""
    cluster, token = receiver.add(f"time-{uuid.uuid4().hex}")
    answer = receiver.post("results", batch([result("a")], scan={"name": "s", member: time}), token)
    assert answer.code == 400, answer
    assert [cause["field"] for cause in answer.json["details"]["causes"]] == [f"/scan/{member}"]


def test_a_name_that_is_the_uid_of_another(receiver):
    """No cluster is found by the uid of another: neither a sender, nor a proxy, nor the owner gives it that name"""
    victim, _ = receiver.add("victim", cluster_name="victim")
    cluster, token = receiver.add("impostor")
    answer = receiver.post("results", batch([result("a", "FAIL")], extraMetadata={"clusterName": victim}), token)
    assert answer.code == 200 and receiver.count(cluster) == 1
    assert receiver.database.psql(f"SELECT name FROM kube_reports.cluster WHERE uid = '{cluster}'") == ""
    assert receiver.database.psql(
        f"SELECT count(*) FROM kube_reports.search_results('{{\"cluster\": \"{victim}\"}}')") == "0"
    for statement in (f"SELECT kube_reports.register_cluster(gen_random_uuid(), upper('{victim}'))",
                      f"UPDATE kube_reports.cluster SET name = '{victim}' WHERE uid = '{cluster}'"):
        with pytest.raises(AssertionError, match="cluster_name_no_uid|is the uid of a cluster"):
            receiver.database.psql(statement)
    # Its own uid is a name like any other.
    cluster, token = receiver.add("honest")
    assert receiver.post("results", batch([result("b")], extraMetadata={"clusterName": cluster}), token).code == 200
    assert receiver.database.psql(f"SELECT name FROM kube_reports.cluster WHERE uid = '{cluster}'") == cluster


def test_two_senders_of_one_name(receiver):
    """Two calls of add_sender() at once for two clusters: one name means one sender, which rotate_sender() trusts"""
    statement = "SELECT kube_reports.add_sender(gen_random_uuid(), 'one-name')"
    first = psycopg2.connect(receiver.database.connection())
    second = psycopg2.connect(receiver.database.connection())
    with contextlib.closing(first), contextlib.closing(second), concurrent.futures.ThreadPoolExecutor() as pool:
        first.cursor().execute(statement)
        later = pool.submit(second.cursor().execute, statement)
        until(lambda: receiver.database.psql("SELECT count(*) FROM pg_locks WHERE NOT granted") != "0", 20, "the lock")
        first.commit()
        with pytest.raises(psycopg2.errors.UniqueViolation, match="there is a sender"):
            later.result(30)
    assert receiver.database.psql("SELECT count(*) FROM kube_reports.sender WHERE name = 'one-name'") == "1"


def test_a_certificate_with_two_names(receiver):
    """A CA that looks at one common name of a request gives nobody the other name"""
    certificates = f"{receiver.pki}/senders"
    stack_command("certificate", certificates, "two", "/CN=two-names-own/CN=two-names-other", "clientAuth")
    receiver.add("two-own", certificate="two-names-own")
    receiver.add("two-other", certificate="two-names-other")
    assert receiver.post("results", batch([result("a")]), certificate=f"{certificates}/two").code == 401
