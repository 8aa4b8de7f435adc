"""Where the server has no engine, upkeep of a proxy imports states of the past, and puts aside what it refuses."""

import json
import random

import psycopg2
import pytest

from client import until
from test_upkeep_sql_variant import (CLUSTER, INSERT, SEED, assert_same, derived, perform, pending, pki, proxies,
                                     report, servers)

__all__ = ["pki", "proxies", "servers"]
TYPE = "policyreports.wgpolicyk8s.io"
ENGINE_STEP = "CALL kube_reports_internal.api_engine_step(%s, 'catch_up', NULL, %s, %s, NULL, NULL, NULL, NULL)"
TIMES = {
    "times": """
        SELECT g.namespace, g.name, r.key, r.first_seen, r.since
        FROM kube_reports_internal.result r JOIN kube_reports_internal.origin g ON g.id = r.origin""",
    "history": """
        SELECT g.name, e.at, e.key, e.old_status::text, e.new_status::text, e.gone_with::text, e.first_seen,
            e.old_since, a.name
        FROM kube_reports_internal.result_change e JOIN kube_reports_internal.origin g ON g.id = e.origin
            JOIN kube_reports_internal.actor a ON a.id = e.actor""",
    "scores": "SELECT s.day, s.pass, s.fail, s.warn, s.error, s.skip, s.excluded "
              "FROM kube_reports_internal.score_daily s WHERE s.namespace = '*' "
             "AND s.pass + s.fail + s.warn + s.error + s.skip + s.excluded > 0",
}


def document(name, body):
    return json.dumps({"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport",
                       "metadata": {"name": name, "namespace": "shop"},
                       **body})


def states(seed, count):
    """Yields calls that import states and deletions, each an hour after the one before."""
    chance = random.Random(seed)
    present = set()
    for number in range(count):
        name = f"past-{chance.randrange(5)}"
        if name in present and chance.random() < 0.25:
            present.remove(name)
            yield ("SELECT kube_reports.import_deletion(%s, %s, 'shop', %s, date_trunc('day', now())"
                   " - interval '30 days' + %s * interval '1 hour', 'gardener')"), [CLUSTER, TYPE, name, number]
        else:
            present.add(name)
            yield ("SELECT kube_reports.import_report(%s, %s, date_trunc('day', now()) - interval '30 days'"
                   " + %s * interval '1 hour', 'scanner')"), [CLUSTER, document(name, report(chance, name)), number]


def imports(server):
    """Returns how many states wait, and how many of them were refused."""
    found = server.rows("SELECT p.waiting, p.failed FROM kube_reports.pending p WHERE p.what = 'imports'")
    return found[0] if found else (0, 0)


def test_import(servers, proxies):
    """States of the past wait for a proxy; then results, times, history and counts by day equal those of C"""
    calls = list(states(SEED, 60))
    for server in servers:
        perform(server, calls)
    assert imports(servers[1]) == (len(calls), 0) and imports(servers[0]) == (0, 0)
    assert servers[1].rows("SELECT count(*) FROM kube_reports_internal.import_time") == [(0,)]
    proxies(2)
    until(lambda: imports(servers[1]) == (0, 0), 60, "imports")
    assert_same(servers, "results", "texts", "counts")
    for name, query in TIMES.items():
        ours, others = (sorted(server.rows(query), key=repr) for server in servers)
        assert ours and ours == others, name
    for server in servers:
        assert server.rows("SELECT * FROM kube_reports.verify()") == [], server.variant


@pytest.mark.parametrize("sqlstate, call, arguments", [
    ("22023", "import_report(%s, %s, now() + interval '1 minute')", [CLUSTER, document("late", {})]),
    ("22023", "import_report(%s, %s, now() - interval '30 years')", [CLUSTER, document("early", {})]),
    ("KR422", "import_report(%s, %s, now())", [CLUSTER, document("odd", {"results": {}})]),
    ("KR404", "import_report(%s, %s, now())", [CLUSTER, json.dumps({"apiVersion": "a/v1", "kind": "B"})]),
    ("42704", "import_report(%s, %s, now())", ["5a3d1e5a-0000-4000-8000-000000000008", document("other", {})]),
    ("KR404", "import_deletion(%s, %s, 'shop', 'never', now())", [CLUSTER, TYPE]),
    ("42704", "import_deletion(%s, 'nothings.none.io', 'shop', 'never', now())", [CLUSTER]),
])
def test_import_refused(servers, sqlstate, call, arguments):
    """What SQL can check is refused at once, with the SQLSTATE of C"""
    for server in servers:
        with pytest.raises(psycopg2.Error) as refused:
            perform(server, [(f"SELECT kube_reports.{call}", arguments)])
        assert refused.value.pgcode == sqlstate, server.variant


def test_import_order(servers):
    """A state that is older than a waiting one is refused at once"""
    for server in servers:
        import_at = "SELECT kube_reports.import_report(%s, %s, now() - %s * interval '1 hour')"
        results = [{"policy": "p", "result": "pass"}]
        perform(server, [(import_at, [CLUSTER, document("order", {"results": results}), 5])])
        with pytest.raises(psycopg2.errors.ObjectNotInPrerequisiteState, match="history up to"):
            perform(server, [(import_at, [CLUSTER, document("order", {}), 6])])
        perform(server, [("DELETE FROM kube_reports_internal.import_waiting", [])])


def test_import_refused_later(servers, proxies):
    """A state that the engine refuses stays with the reason; the states after it are imported"""
    server = servers[1]
    import_at = "SELECT kube_reports.import_report(%s, %s, now() - %s * interval '1 hour')"
    perform(server, [(import_at, [CLUSTER, document("taken", {}), 5]), (import_at, [CLUSTER, document("next", {}), 4]),
                     # Another writer makes newer history meanwhile.
                     (INSERT, ["shop", "taken", "{}", '{"results": [{"policy": "p", "result": "pass"}]}'])])
    proxies()
    until(lambda: imports(server) == (1, 1) and pending(server) == 0, 60, "the refusal")
    until(lambda: server.rows("SELECT FROM kube_reports.object o WHERE o.name = 'next'"), 30, "the next one")
    reason = server.rows("SELECT p.reason FROM kube_reports.pending p WHERE p.what = 'imports'")[0][0]
    assert "history up to" in reason
    perform(server, [("DELETE FROM kube_reports_internal.import_waiting", [])])


def step(server, answers):
    """Takes one step of upkeep, as a proxy does; returns its questions by their hashes."""
    connection = psycopg2.connect(server.connection("kube_reports_proxy"))
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(ENGINE_STEP, [CLUSTER, list(answers), list(answers.values())])
        questions = cursor.fetchone()[3] or []
    connection.close()
    return {question[:32]: json.loads(question[32:]) for question in questions}


def test_put_aside(servers, proxies):
    """A report whose results the engine refuses is put aside with the reason, and does not block reports after it"""
    server = servers[1]
    perform(server, [("DELETE FROM kube_reports.object", [])])
    perform(server, [(INSERT, ["shop", name, "{}", json.dumps({"results": [{"policy": name, "result": "pass"}]})])
                     for name in ("costly", "behind")])
    for _ in range(50):
        questions = step(server, {})
        if any("costly" in (question.get("body") or "") for question in questions.values()):
            break
    step(server, {question: "!54000it costs too much" for question in questions})
    assert server.rows("SELECT p.failed, p.reason FROM kube_reports.pending p WHERE p.what = 'results'") == [
        (1, "it costs too much")]
    proxies()
    until(lambda: [row[1] for row in derived(server, "results")] == ["behind"], 30, "the report behind it")
    assert server.rows("SELECT p.waiting, p.failed FROM kube_reports.pending p WHERE p.what = 'results'") == [(1, 1)]
    tries = "SELECT p.attempts, p.retry_at > now() + interval '20 s' FROM kube_reports_internal.result_pending p"
    assert server.rows(tries) == [(1, True)]
    # A new state of the report is tried at once.
    perform(server, [("UPDATE kube_reports.object SET metadata = %s WHERE name = 'costly'",
                      ['{"labels": {"again": "yes"}}'])])
    until(lambda: pending(server) == 0, 30, "the report itself")
    assert sorted(row[1] for row in derived(server, "results")) == ["behind", "costly"]


def test_rebuild_put_aside(servers, proxies):
    """A type whose results the engine refuses is put aside with the reason, and does not block other work"""
    server = servers[1]
    proxies()
    until(lambda: pending(server) == 0, 30, "what waits")
    for proxy in proxies(0):
        proxy.stop()
    perform(server, [("INSERT INTO kube_reports_internal.result_rebuild (lane) SELECT l.id FROM "
                      "kube_reports_internal.lane l JOIN kube_reports.resource_type t ON t.id = l.resource_type "
                      "WHERE t.plural || '.' || t.\"group\" = %s", [TYPE])])
    answers = {}
    for _ in range(10):
        answers.update({question: "!54000it costs too much" for question in step(server, answers)})
        if server.rows("SELECT FROM kube_reports.pending p WHERE p.what = 'rebuilds' AND p.failed = 1 AND p.reason = "
                       "'it costs too much'"):
            break
    else:
        pytest.fail("the rebuild is not put aside")
    server.rows("UPDATE kube_reports_internal.result_rebuild SET retry_at = '-infinity' RETURNING 1")
    proxies(1)
    until(lambda: not server.rows("SELECT FROM kube_reports_internal.result_rebuild"), 30, "the rebuild")


