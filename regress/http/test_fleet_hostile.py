"""Hostile senders and readers of a fleet (issue 19)."""

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
    """A batch with one result in two spellings is refused.  Before, such a batch multiplied the results of the rule"""
    cluster, token = receiver.add(f"twins-{len(json.dumps(twins))}")
    answer = receiver.post("results", batch(twins), token)
    assert answer.code == 400, answer
    assert [cause["field"] for cause in answer.json["details"]["causes"]] == ["/results/1"]
    assert receiver.count(cluster) == 0


def test_a_report_with_twins(receiver):
    """A sender stores the report of a scan as an object with a rule three times: the next batch leaves one result"""
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
    """An infinite or unreadable time is refused with 400 and its place.  Before, an infinite one was an error 500"""
    cluster, token = receiver.add(f"time-{uuid.uuid4().hex}")
    answer = receiver.post("results", batch([result("a")], scan={"name": "s", member: time}), token)
    assert answer.code == 400, answer
    assert [cause["field"] for cause in answer.json["details"]["causes"]] == [f"/scan/{member}"]


def test_a_name_that_is_the_uid_of_another(receiver):
    """No cluster gets the uid of another as its name: not from a sender, nor register_cluster(), nor an UPDATE"""
    victim, _ = receiver.add("victim", cluster_name="victim")
    cluster, token = receiver.add("impostor")
    answer = receiver.post("results", batch([result("a", "FAIL")], extraMetadata={"clusterName": victim}), token)
    assert answer.code == 200 and receiver.count(cluster) == 1
    assert receiver.database.psql(f"SELECT name FROM kube_reports.cluster WHERE uid = '{cluster}'") == ""
    assert receiver.database.psql(
        f"SELECT count(*) FROM kube_reports.search_results('{{\"cluster\": \"{victim}\"}}')") == "0"
    for statement in (f"SELECT kube_reports.register_cluster(gen_random_uuid(), upper('{victim}'))",
                      f"UPDATE kube_reports.cluster SET name = '{victim}' WHERE uid = '{cluster}'"):
        with pytest.raises(AssertionError, match="cluster_name_clear|is the uid of a cluster"):
            receiver.database.psql(statement)
    # A cluster may have its own uid as its name.
    cluster, token = receiver.add("honest")
    assert receiver.post("results", batch([result("b")], extraMetadata={"clusterName": cluster}), token).code == 200
    assert receiver.database.psql(f"SELECT name FROM kube_reports.cluster WHERE uid = '{cluster}'") == cluster


@pytest.mark.parametrize("name", ["prod\u202eue-", "prod-eu\u200b", "prod\tx", "prod-eu\n", "\ufeffprod", "pr\u00adod",
                                  "a\u00a0b", "prod\u2066", "prod\u3164", "prod\U000e0041", "prod ", " prod",
                                  "\u0085"], ids=ascii)
def test_a_name_with_what_does_not_show(receiver, name):
    """A name with an invisible character or a space at an end is not taken: not from a sender, not from the owner"""
    cluster, token = receiver.add(f"hidden-{uuid.uuid4().hex}")
    answer = receiver.post("results", batch([result("a")], extraMetadata={"clusterName": name}), token)
    assert answer.code == 200 and receiver.count(cluster) == 1
    row = f"FROM kube_reports.cluster WHERE uid = '{cluster}'"
    assert receiver.database.psql(f"SELECT name = '' {row}") == "t"
    with contextlib.closing(psycopg2.connect(receiver.database.connection())) as connection:
        for statement in ("SELECT kube_reports.register_cluster(gen_random_uuid(), %s)",
                          "SELECT kube_reports.add_sender(gen_random_uuid(), 'never', cluster_name => %s)"):
            with connection.cursor() as cursor, pytest.raises(psycopg2.errors.InvalidParameterValue) as refused:
                cursor.execute(statement, (name,))
            connection.rollback()
            hidden = [letter for letter in name.strip(" ") if not letter.isprintable()
                      or letter in "\u00a0\u3164"]
            assert "begins or ends with a space" in str(refused.value) if not hidden else \
                f"the character U+{ord(hidden[0]):04X}" in str(refused.value), refused.value
        with connection.cursor() as cursor, pytest.raises(psycopg2.errors.CheckViolation, match="cluster_name_clear"):
            cursor.execute("UPDATE kube_reports.cluster SET name = %s WHERE uid = %s", (name, cluster))


@pytest.mark.parametrize("name", ["Produktion S\u00fcd (\u6771\u4eac) #1", "\u043f\u0440\u043e\u0434", "a  b"],
                         ids=ascii)
def test_a_name_in_any_language(receiver, name):
    cluster, token = receiver.add(f"shown-{uuid.uuid4().hex}")
    assert receiver.post("results", batch([result("a")], extraMetadata={"clusterName": name}), token).code == 200
    assert receiver.database.psql(f"SELECT name FROM kube_reports.cluster WHERE uid = '{cluster}'") == name


def test_a_cluster_whose_name_is_refused(receiver):
    """A clusterName that another cluster has becomes only a label; then a different clusterName is refused (403)"""
    receiver.add("named", cluster_name="taken")
    cluster, token = receiver.add("nameless")

    def send(assessment, name):
        return receiver.post("results", batch([result("a")], assessment=assessment,
                                              extraMetadata={"cluster_name": name}), token).code

    assert [send("one", "Taken"), send("two", "Taken"), send("three", "free")] == [200, 200, 403]
    shown = receiver.database.psql("SELECT cluster_name = '', labels FROM kube_reports.fleet_freshness "
                                   f"WHERE cluster = '{cluster}'")
    assert shown == 't|{"clusterName": "Taken"}'
    # A filter by cluster finds names only; a filter by labels finds the label.
    assert receiver.database.psql(
        "SELECT count(*) FROM kube_reports.search_results('{\"cluster\": \"Taken\"}')") == "0"
    assert receiver.database.psql("SELECT * FROM kube_reports.clusters('clusterName=Taken')") == cluster
    # The owner gives the cluster a name; then its sender must give that name.
    receiver.database.psql(f"UPDATE kube_reports.cluster SET name = 'free' WHERE uid = '{cluster}'", user="postgres")
    assert [send("four", "Taken"), send("five", "free")] == [403, 200]


def test_a_proxy_with_a_name_that_does_not_show(module_stack, receiver):
    """A proxy with such a --cluster-name does not become ready, and its log says why"""
    proxy = module_stack.proxy(ready=False, flags=["--cluster-name=prod\u202eue"])
    until(lambda: "cannot have a name with the character U+202E" in proxy.log_path.read_text(), 30, "the reason")
    assert proxy.answers().code == 500
    assert receiver.database.psql("SELECT count(*) FROM kube_reports.cluster WHERE name LIKE 'prod%ue'") == "0"
    proxy.stop()


def test_two_senders_of_one_name(receiver):
    """Of two concurrent calls of add_sender() with one name, one fails: rotate_sender() finds senders by their name"""
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
    """A certificate with two common names is refused: its CA may have checked only one of them"""
    certificates = f"{receiver.pki}/senders"
    stack_command("certificate", certificates, "two", "/CN=two-names-own/CN=two-names-other", "clientAuth")
    receiver.add("two-own", certificate="two-names-own")
    receiver.add("two-other", certificate="two-names-other")
    assert receiver.post("results", batch([result("a")]), certificate=f"{certificates}/two").code == 401
