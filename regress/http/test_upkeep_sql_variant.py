"""Writes by DML where the server has no engine: checked by SQL, and their results made by upkeep of a proxy."""

import json
import os
import pathlib
import pwd
import random

import psycopg2
import pytest

from client import run, until
from conftest import Proxy, stack_command
from variants import CLUSTER, both_variants

SEED = int(os.environ.get("SEED", "17"))
TYPE = "(SELECT id FROM kube_reports.resource_type WHERE plural = 'policyreports' AND \"group\" = 'wgpolicyk8s.io')"
INSERT = f"""
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
    SELECT c.id, {TYPE}, %s, %s, %s, %s FROM kube_reports.cluster c
"""
# Everything that follows documents, without times of writing and without versions.
# Details that no result refers to are garbage, which each server removes when its turn comes.
DERIVED = {
    "results": """
        SELECT g.namespace, g.name, r.key, r.criterion, r.subject, r.detail, r.status::text, r.native_status, r.score
        FROM kube_reports_internal.result r JOIN kube_reports_internal.origin g ON g.id = r.origin""",
    "texts": """
        SELECT c.id, c.source, c.policy, c.rule, c.category, c.severity FROM kube_reports_internal.criterion c
        UNION ALL SELECT s.id, s.api_version, s.kind, s.namespace, s.name, s.uid FROM kube_reports_internal.subject s
        UNION ALL SELECT d.id, d.message, d.properties::text, d.exceptions::text, '', ''
            FROM kube_reports_internal.detail d
            WHERE EXISTS (SELECT FROM kube_reports_internal.result r WHERE r.detail = d.id)""",
    "counts": """
        SELECT r.namespace, r.criterion, r.kind, r.status::text, r.native_status, r.count
        FROM kube_reports_internal.current_rollup r""",
    "history": """
        SELECT g.namespace, g.name, e.key, e.criterion, e.subject, e.old_status::text, e.new_status::text,
            e.gone_with::text, a.name
        FROM kube_reports_internal.report_change c JOIN kube_reports_internal.origin g ON g.id = c.origin
            JOIN kube_reports_internal.actor a ON a.id = c.actor
            CROSS JOIN LATERAL kube_reports_internal.unpacked_changes(c.ids, c.criterion, c.subject, c.old_statuses,
                c.new_statuses, c.gone_with, c.first_seen, c.old_since) e""",
    "objects": """
        SELECT o.namespace, o.name, (o.metadata::jsonb - '{uid,creationTimestamp}'::text[])::text, o.body::text,
            o.labels::text, o.evaluated_at
        FROM kube_reports.object o""",
    "log": """
        SELECT c.operation::text, c.namespace, c.name, c.actor, c.old_body::text FROM kube_reports_internal.change c""",
}


@pytest.fixture(scope="module")
def servers():
    yield from both_variants()


@pytest.fixture(scope="module")
def pki(servers):
    directory = f"{servers[1].directory}/pki"
    stack_command("certificates", directory)
    if os.getuid() == 0:
        owner = pwd.getpwnam("postgres")
        for entry in [pathlib.Path(directory), *pathlib.Path(directory).iterdir()]:
            os.chown(entry, owner.pw_uid, owner.pw_gid)
    return directory


@pytest.fixture
def proxies(servers, pki):
    """Starts proxies of the server without the engine; their upkeep runs whether they are ready or not."""
    started = []

    def start(count=1):
        started.extend(Proxy(servers[1], CLUSTER, pki) for _ in range(count))
        return started
    yield start
    for proxy in started:
        proxy.stop()


def report(chance, name):
    """A report with random results."""
    statuses = ["pass", "fail", "warn", "error", "skip"]
    results = [{"source": chance.choice(["kyverno", "falco"]), "policy": f"p{chance.randrange(6)}",
                "rule": f"r{chance.randrange(3)}", "result": chance.choice(statuses),
                "severity": chance.choice(["high", "low"]), "message": chance.choice(["m", "ü\u2028\"<&>", ""]),
                "scored": True, "category": "c", "properties": {"a": chance.choice(["1", "2"])},
                "timestamp": {"seconds": 1700000000 + chance.randrange(1000), "nanos": 5000},
                "resources": [{"apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": f"{name}-{n}"}
                              for n in range(chance.randrange(3))]}
               for _ in range(chance.randrange(6))]
    if chance.random() < 0.3:
        results = results + results[:1]
    return {"results": results, "summary": {s: sum(r["result"] == s for r in results) for s in statuses},
            "scope": {"kind": "Deployment", "apiVersion": "apps/v1", "name": name, "namespace": "shop"}}


def writes(seed, count):
    """Statements with their arguments: inserts, updates, deletes of the same keys again and again."""
    chance = random.Random(seed)
    names = set()
    yield "DELETE FROM kube_reports.object", []
    for _ in range(count):
        name = f"report-{chance.randrange(8)}"
        metadata = {"labels": {"app": chance.choice(["a", "b"])}, "annotations": {"a/b": "\u2028é\t"}}
        if name not in names:
            names.add(name)
            yield INSERT, ["shop", name, json.dumps(metadata), json.dumps(report(chance, name))]
        elif chance.random() < 0.3:
            names.remove(name)
            yield "DELETE FROM kube_reports.object WHERE name = %s", [name]
        else:
            yield ("UPDATE kube_reports.object SET body = %s, metadata = (metadata::jsonb || %s)::kube_reports.report "
                   "WHERE name = %s"), [json.dumps(report(chance, name)), json.dumps(metadata), name]


def perform(server, statements):
    connection = psycopg2.connect(server.connection())
    connection.autocommit = True
    with connection.cursor() as cursor:
        for statement, arguments in statements:
            cursor.execute(statement, arguments)
    connection.close()


def pending(server):
    return server.rows("SELECT count(*) FROM kube_reports_internal.result_pending")[0][0]


def derived(server, name, database="kube_reports"):
    return sorted(server.rows(DERIVED[name], database=database), key=repr)


def settled(server):
    """Whether no work waits."""
    return server.rows("SELECT count(*) FROM kube_reports.pending p WHERE p.what <> 'garbage'")[0][0] == 0


def assert_same(servers, *names):
    for server in servers:
        server.rows("SELECT kube_reports_internal.fold_rollups()")
    for name in names:
        ours, others = (derived(server, name) for server in servers)
        assert ours == others, f"{name}: only C has {[row for row in ours if row not in others][:3]}, only SQL has " \
                               f"{[row for row in others if row not in ours][:3]}"


def test_dml(servers, proxies):
    """What DML writes is stored, logged and versioned at once, waits for a proxy, and then has the results of C"""
    for server in servers:
        perform(server, writes(SEED, 40))
    assert_same(servers, "log")
    waiting = pending(servers[1])
    assert waiting > 0 and pending(servers[0]) == 0
    assert servers[1].rows("SELECT what, waiting FROM kube_reports.pending WHERE what = 'results'") == [
        ("results", waiting)]
    proxies()
    until(lambda: pending(servers[1]) == 0, 60, "pending results")
    # Several changes that wait are one: history has the first state and the last.
    assert_same(servers, "objects", "results", "counts")


DAMAGES = ["UPDATE kube_reports_internal.result SET score = 3 WHERE key = (SELECT max(key) FROM "
           "kube_reports_internal.result)",
           "DELETE FROM kube_reports_internal.result WHERE key = (SELECT min(key) FROM kube_reports_internal.result)",
           "UPDATE kube_reports_internal.detail SET message = message || '!'",
           "SELECT kube_reports_internal.begin_own_write(); "
           "UPDATE kube_reports.object SET evaluated_at = evaluated_at + interval '1 microsecond', "
           "body = '{\"results\":[{\"policy\":\"p\",\"result\":\"fail\"}]}' "
           "WHERE name = (SELECT min(name) FROM kube_reports.object)"]


def test_verify(servers, proxies):
    """Both variants compare results, their texts and their times with the documents, and find the same"""
    for server in servers:
        perform(server, writes(SEED + 3, 40))
    proxies()
    until(lambda: pending(servers[1]) == 0, 60, "pending results")
    found = []
    for damage in [None, *DAMAGES]:
        rows = []
        for server in servers:
            with psycopg2.connect(server.connection()) as connection, connection.cursor() as cursor:
                if damage is not None:
                    cursor.execute(damage)
                cursor.execute("SELECT v.what, v.namespace, v.name, v.expected, v.found FROM kube_reports.verify() v "
                               "WHERE v.what IN ('result', 'detail', 'evaluated_at')")
                rows.append(sorted(cursor.fetchall(), key=repr))
                connection.rollback()
        assert rows[0] == rows[1], damage
        found.append({row[0] for row in rows[0]})
    assert found == [set(), {"result"}, {"result"}, {"detail"}, {"result", "evaluated_at"}]
    for server in servers:
        assert server.rows("SELECT * FROM kube_reports.verify()") == []


def test_history(servers, proxies):
    """Changes that are applied one by one have the same history"""
    proxies()
    for statement in writes(SEED + 1, 12):
        perform(servers[0], [statement])
        perform(servers[1], [statement])
        until(lambda: pending(servers[1]) == 0, 60, "pending results")
    before = {name: derived(servers[0], name) for name in DERIVED}
    assert before["history"]
    assert_same(servers, "objects", "results", "counts")


def test_nothing_twice(servers, proxies):
    """Several proxies, while documents change under their hands"""
    proxies(3)
    for seed in range(5):
        for server in servers:
            perform(server, writes(f"{SEED} {seed}", 30))
            perform(server, [("DELETE FROM kube_reports.object", [])])
    for server in servers:
        perform(server, writes(SEED + 2, 30))
    until(lambda: pending(servers[1]) == 0, 90, "pending results")
    assert_same(servers, "objects", "results", "counts")


def test_several_at_once(servers, proxies):
    """
    Small reports that wait are taken several in a transaction.  One that is refused is put aside, and blocks nobody;
    what was refused is made once its cause is gone
    """
    server = servers[1]
    for each in servers:
        perform(each, [("DELETE FROM kube_reports.object", []),
                       ("INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body) "
                        f"SELECT c.id, {TYPE}, 'shop', 'several-' || n, '{{}}', json_build_object('results', "
                        "json_build_array(json_build_object('policy', 'p' || n %% 5, 'result', 'fail', 'message', "
                        "'message ' || n)))::text::kube_reports.report "
                        "FROM kube_reports.cluster c, generate_series(1, 200) n", [])])
    server.psql("ALTER TABLE kube_reports_internal.detail ADD CONSTRAINT refused CHECK (message <> 'message 77')")
    waiting = "SELECT p.name, p.attempts > 0 FROM kube_reports_internal.result_pending p"
    try:
        proxies()
        until(lambda: server.rows(waiting) == [("several-77", True)], 60, "all but the refused report")
    finally:
        server.psql("ALTER TABLE kube_reports_internal.detail DROP CONSTRAINT refused")
    together, = server.rows("SELECT max(t.reports) FROM (SELECT count(DISTINCT r.origin) AS reports "
                            "FROM kube_reports_internal.result r GROUP BY r.xmin::text) t")[0]
    assert together > 20, together
    server.psql("UPDATE kube_reports_internal.result_pending SET retry_at = '-infinity'")
    until(lambda: pending(server) == 0, 60, "the report that was refused")
    assert_same(servers, "objects", "results", "counts")
    for each in servers:
        assert each.rows("SELECT g.name, count(*) FROM kube_reports_internal.result_change c JOIN "
                         "kube_reports_internal.origin g ON g.id = c.origin WHERE starts_with(g.name, 'several-') "
                         "GROUP BY g.name HAVING count(*) <> 1") == [], each.variant


def test_larger_reports_lock_no_lane(servers, proxies):
    """What takes long to make is made while clients write: not together with other reports, and without the lane"""
    server = servers[1]
    perform(server, [("DELETE FROM kube_reports.object", []),
                     (INSERT, ["shop", "larger", "{}", json.dumps({"results": [
                         {"policy": f"p{n}", "result": "pass", "message": "m" * 60} for n in range(800)]})])])
    writer = psycopg2.connect(server.connection())
    try:
        writer.cursor().execute("SELECT kube_reports_internal.lock_store_shared()")
        writer.cursor().execute("SELECT kube_reports_internal.lock_lane(l.id) FROM kube_reports_internal.lane l "
                                "ORDER BY l.id")
        proxies()
        until(lambda: server.rows("SELECT count(*) FROM kube_reports_internal.result r "
                                  "JOIN kube_reports_internal.origin g ON g.id = r.origin WHERE g.name = 'larger'")
              == [(800,)], 60, "the results of the larger report")
    finally:
        writer.close()
    until(lambda: pending(server) == 0, 60, "the end of the queue")


def test_merge_asks_without_locks(servers):
    """A merge asks the engine for its write and its deletions at once, and locks nothing: clients go on writing"""
    server = servers[1]
    uid = "11111111-0000-0000-0000-000000000001"
    perform(server, [("SELECT kube_reports.set_aggregation(%s, policy_reports => 'resource', \"group\" => "
                      "'wgpolicyk8s.io', delay => '0', follow_policies => false)", [CLUSTER]),
                     ("DELETE FROM kube_reports_internal.aggregation_queue", []),
                     (INSERT.replace(TYPE, "(SELECT id FROM kube_reports.resource_type "
                                           "WHERE plural = 'ephemeralreports')"), [
                         "shop", "merged", json.dumps({
                             "labels": {"audit.kyverno.io/resource.uid": uid, "audit.kyverno.io/source": "admission",
                                        "app.kubernetes.io/managed-by": "kyverno"},
                             "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "app",
                                                  "uid": uid}]}),
                         json.dumps({"spec": {"owner": {"apiVersion": "", "kind": "", "name": "", "uid": ""},
                                              "results": [{"source": "kyverno", "policy": "p", "rule": "r",
                                                           "result": "fail"}]}})])])
    writer = psycopg2.connect(server.connection())
    try:
        writer.cursor().execute("SELECT kube_reports_internal.lock_store_shared()")
        writer.cursor().execute("SELECT kube_reports_internal.lock_lane(l.id) FROM kube_reports_internal.lane l "
                                "ORDER BY l.id")
        until(lambda: server.rows("SELECT q.stage::text FROM kube_reports_internal.aggregation_queue q WHERE "
                                  "q.queued_at <= clock_timestamp()"), 20, "the merge to be due")
        asked = [json.loads(question[32:]) for question in server.rows(
            "SELECT p.questions FROM kube_reports_internal.api_engine_piece(%s, 'aggregate', NULL, '{}', '{}') p",
            CLUSTER)[0][0]]
        assert {json.loads(question["request"])["verb"] for question in asked} == {"create", "delete"}
    finally:
        writer.close()
        perform(server, [("SELECT kube_reports.set_aggregation(%s, policy_reports => 'off', follow_policies => true)",
                          [CLUSTER]),
                         ("DELETE FROM kube_reports_internal.aggregation_queue", []),
                         ("DELETE FROM kube_reports.object", [])])


def test_rebuild_of_what_waits(servers, proxies):
    """A rebuild makes the results of waiting changes first: history has each change once, with its writer, as in C"""
    def body(**statuses):
        return json.dumps({"results": [{"policy": policy, "result": status} for policy, status in statuses.items()]})

    insert = (INSERT, ["shop", "rebuilt", "{}", body(same="pass", other="pass", gone="fail")])
    change = ("UPDATE kube_reports.object SET body = %s WHERE name = 'rebuilt'",
              [body(same="pass", other="fail", new="warn")])
    events = """
        SELECT k.policy, c.old_status::text, c.new_status::text, a.name
        FROM kube_reports_internal.result_change c JOIN kube_reports_internal.origin g ON g.id = c.origin
            JOIN kube_reports_internal.criterion k ON k.id = c.criterion
            LEFT JOIN kube_reports_internal.actor a ON a.id = c.actor
        WHERE g.name = 'rebuilt' ORDER BY c.version, k.policy"""
    for server in servers:
        perform(server, [("DELETE FROM kube_reports.object", []), insert])
    proxy, = proxies()
    until(lambda: pending(servers[1]) == 0, 60, "pending results")
    proxy.stop()
    for server in servers:
        perform(server, [change])
        server.psql("CALL kube_reports.rebuild()")
    assert servers[1].rows("SELECT p.what, p.waiting FROM kube_reports.pending p WHERE p.what = 'results'") == [
        ("results", 1)]
    proxies()
    until(lambda: settled(servers[1]), 60, "the rebuild and pending results")
    expected = [(policy, None, status, "kube_reports_owner")
                for policy, status in (("gone", "f"), ("other", "p"), ("same", "p"))]
    expected += [(policy, *statuses, "kube_reports_owner")
                 for policy, *statuses in (("gone", "f", None), ("new", None, "w"), ("other", "p", "f"))]
    for server in servers:
        assert server.rows(events) == expected, server.variant
        assert server.rows("SELECT * FROM kube_reports.verify()") == []
    assert_same(servers, "objects", "results", "counts")


def test_strict_dml(servers):
    """With strict_dml the SQL variant refuses what it cannot check in full; deletions stay possible"""
    server = servers[1]
    server.psql("SELECT kube_reports.set_setting('strict_dml', 'on')")
    try:
        with pytest.raises(psycopg2.errors.FeatureNotSupported, match="by DML") as refused:
            perform(server, [(INSERT, ["shop", "strict", "{}", "{}"])])
        assert "strict_dml" in refused.value.diag.message_hint
        perform(server, [("DELETE FROM kube_reports.object", [])])
    finally:
        server.psql("SELECT kube_reports.set_setting('strict_dml', NULL)")


@pytest.mark.parametrize("namespace, name, metadata, body", [
    ("shop", "UPPER", "{}", "{}"),
    ("", "no-namespace", "{}", "{}"),
    ("a.b", "n", "{}", "{}"),
    ("shop", "n", '{"name": "other"}', "{}"),
    ("shop", "n", '{"namespace": "other"}', "{}"),
    ("shop", "n", '{"labels": {"a b": "c"}}', "{}"),
    ("shop", "n", '{"labels": {"a": 1}}', "{}"),
    ("shop", "n", '{"labels": []}', "{}"),
    ("shop", "n", '{"annotations": {"a": {}}}', "{}"),
    ("shop", "n", '{"ownerReferences": [{"kind": "Pod"}]}', "{}"),
    ("shop", "n", '{"finalizers": ["a b"]}', "{}"),
    ("shop", "n", "{}", '{"results": {}}'),
    ("shop", "n", "{}", '{"results": [{"result": "maybe", "policy": "p"}]}'),
    ("shop", "n", "{}", '{"results": [{"result": "pass"}]}'),
    ("shop", "n", "{}", '{"summary": {"pass": "1"}}'),
    ("shop", "n", "{}", '{"summary": {"pass": 1.5}}'),
])
def test_refused(servers, namespace, name, metadata, body):
    """What SQL can check is refused by both, with the same SQLSTATE"""
    for server in servers:
        with pytest.raises(psycopg2.Error) as refused:
            perform(server, [(INSERT, [namespace, name, metadata, body])])
        assert refused.value.pgcode == "KR422", server.variant


def test_pruned(servers):
    """Unknown fields go, numbers and texts are stored as the engine prints them"""
    for server in servers:
        perform(server, [("DELETE FROM kube_reports.object", []), (INSERT, [
            "shop", "pruned", '{"resourceVersion": "5", "selfLink": "/x"}',
            '{"unknown": 1, "summary": {"pass": 1.0, "fail": 1e2, "other": 2}, "results": [{"policy": "p", "extra": {},'
            ' "message": "\\u2028\\u007f\\b/<é", "properties": {"b": "1", "B": "2", "aa": "3"}, "result": "pass"}]}'])])
    assert_same(servers, "objects") if not pending(servers[1]) else None
    bodies = [server.rows("SELECT o.body::text FROM kube_reports.object o") for server in servers]
    assert bodies[0] == bodies[1]


def test_policies_of_pending(servers):
    """Reports whose results wait are merged again when the active policies change: they may have results of others"""
    for server in servers:
        perform(server, [("DELETE FROM kube_reports.object", []), (INSERT, [
            "shop", "waits", '{"labels": {"app.kubernetes.io/managed-by": "kyverno"}}',
            json.dumps({"results": [{"policy": "p", "source": "kyverno", "result": "pass"}]})])])
        if server.variant == "c":
            perform(server, [("INSERT INTO kube_reports_internal.result_pending (lane, namespace, name, first) "
                              "SELECT c.lane, c.namespace, c.name, max(c.version) FROM kube_reports_internal.change c "
                              "WHERE c.name = 'waits' GROUP BY c.lane, c.namespace, c.name", []),
                             ("DELETE FROM kube_reports_internal.result", [])])
        server.psql(f"SELECT kube_reports.set_aggregation('{CLUSTER}', policy_reports => 'resource', \"group\" => "
                    f"'wgpolicyk8s.io'); DELETE FROM kube_reports_internal.aggregation_queue;"
                    f"SELECT kube_reports.set_active_policies('{CLUSTER}', '[]')")
        waiting = server.rows("SELECT q.stage::text, q.namespace, q.key FROM kube_reports_internal.aggregation_queue q")
        assert waiting == [("r", "shop", "waits")], server.variant
        server.psql(f"SELECT kube_reports.set_active_policies('{CLUSTER}', NULL);"
                    f"SELECT kube_reports.set_aggregation('{CLUSTER}', policy_reports => 'off');"
                    "DELETE FROM kube_reports_internal.aggregation_queue; DELETE FROM kube_reports.object")
        # History and counts have the results that were removed by hand.
        server.psql("CALL kube_reports.rebuild()")


def test_endless_questions(servers, proxies):
    """A step that never has enough answers is given up, and begins again after a pause: it does not fill a processor"""
    server = servers[1]
    kept = server.psql("SELECT pg_get_functiondef(p.oid) FROM pg_proc p WHERE p.proname = 'api_engine_piece'")
    server.psql("CREATE TABLE public.asked (id bigserial, at timestamptz DEFAULT clock_timestamp(), work text, begins "
                "boolean)")
    head, _, _ = kept.partition("DECLARE")
    try:
        server.psql(f"""{head}BEGIN
            INSERT INTO public.asked (work, begins) VALUES (work, cardinality(answered) = 0);
            SELECT true, false, false, ARRAY[md5(clock_timestamp()::text) || '{{}}']
                INTO more, follow_policies, policies_stored, questions;
            END $function$""")
        proxies()
        begun = "SELECT count(*) FROM public.asked WHERE work = 'catch_up' AND begins"
        until(lambda: server.rows(begun)[0][0] > 3, 60, "four steps")
        pauses = server.rows("SELECT extract(epoch FROM a.at - b.at)::float FROM public.asked a JOIN public.asked b "
                             "ON b.id = (SELECT max(c.id) FROM public.asked c WHERE c.id < a.id AND c.work <> "
                             "'maintain') WHERE a.work = 'catch_up' AND a.begins")
        assert len(pauses) >= 3 and min(pause for pause, in pauses) >= 0.9, pauses
    finally:
        server.psql(kept)
        server.psql("DROP TABLE public.asked")


@pytest.fixture
def megabytes(servers):
    """
    Steps whose questions have answers of a megabyte each.  One asks ever new questions, as about a document that is
    written all the time; the other needs a dozen answers at once, and asks for the first that is not there.
    """
    server = servers[1]
    kept = server.psql("SELECT pg_get_functiondef(p.oid) FROM pg_proc p WHERE p.proname = 'api_engine_piece'")
    server.psql("CREATE TABLE public.asked (work text, answers integer, bytes bigint, questions integer)")
    head, _, _ = kept.partition("DECLARE")
    server.psql(f"""{head}DECLARE
        wanted      text[] := CASE WHEN work = 'catch_up' THEN ARRAY[md5(clock_timestamp()::text)]
            WHEN work = 'aggregate' THEN ARRAY(SELECT md5(n::text) FROM generate_series(1, 12) n) END;
        BEGIN
        questions := ARRAY(SELECT u.hash || json_build_object('ask', 'results', 'cluster', 1, 'mapping', t.mapping,
                'body', json_build_object('results', json_build_array(json_build_object(
                    'policy', 'p', 'result', 'fail', 'message', repeat('m', 1000000))))::text)::text
            FROM unnest(wanted) u(hash), kube_reports.resource_type t
            WHERE t.id = {TYPE} AND u.hash <> ALL (answered) LIMIT 1);
        INSERT INTO public.asked
            SELECT work, cardinality(answers), coalesce(sum(octet_length(a.answer)), 0), cardinality(questions)
                FROM unnest(answers) a(answer);
        SELECT false, false, false INTO more, follow_policies, policies_stored;
        END $function$""")
    yield server
    server.psql(kept)
    server.psql("DROP TABLE public.asked")


def test_answers_in_memory(megabytes, proxies):
    """
    The upkeep process keeps some megabytes of answers, and drops the oldest; a step that needs more at once has them
    """
    proxies()
    asked = "SELECT a.answers, a.bytes FROM public.asked a WHERE "
    until(lambda: len(megabytes.rows(asked + "a.work = 'catch_up'")) > 30, 60, "thirty rounds")
    most = max(megabytes.rows(asked + "a.work = 'catch_up'"))
    assert 7 <= most[0] <= 9 and most[1] < 10_000_000, most
    until(lambda: megabytes.rows(asked + "a.work = 'aggregate' AND a.questions = 0"), 120, "a dozen answers at once")


MAPPED = "results.example.com"
CRD = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": MAPPED},
       "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "results", "kind": "Result"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}}


def test_mapping(servers, proxies):
    """A type of its own, whose mapping is set after objects are there, and changed"""
    for server in servers:
        perform(server, [("DELETE FROM kube_reports.object", []),
                         ("SELECT kube_reports.register_crd(%s)", [json.dumps(CRD)])])
        perform(server, [(INSERT.replace(TYPE, f"(SELECT id FROM kube_reports.resource_type WHERE plural || '.' || "
                                               f"\"group\" = '{MAPPED}')"),
                          ["shop", f"own-{n}", "{}", json.dumps({"found": [
                              {"check": f"c{n}", "outcome": word, "why": "m"} for word in ("pass", "FAIL", "odd")]})])
                         for n in range(30)])
    proxies()
    for policy in (".check", ".why"):
        mapping = {"list": "$.found", "policy": policy, "status": ".outcome", "message": ".why"}
        for server in servers:
            perform(server, [("SELECT kube_reports.set_results_mapping(%s, %s)", [MAPPED, json.dumps(mapping)])])
        assert len(derived(servers[0], "results")) == 90
        until(lambda: settled(servers[1]), 60, "results to be made again")
        assert_same(servers, "objects", "results", "counts")
    for server in servers:
        perform(server, [("SELECT kube_reports.unregister(%s, true)", [MAPPED])])


def test_restore(servers, pki):
    """A dump of the SQL variant, restored there: a proxy finishes the restore, and makes the results of before"""
    source = servers[1]
    perform(source, [statement for seed in (1, 2) for statement in writes(seed, 20)])
    first = Proxy(source, CLUSTER, pki)
    try:
        until(lambda: settled(source), 60, "pending results")
    finally:
        first.stop()
    source.rows("SELECT kube_reports_internal.fold_rollups()")
    before = {name: derived(source, name) for name in ("objects", "results", "counts")}
    assert before["results"]
    source.psql("CREATE DATABASE restored OWNER kube_reports_owner", user="postgres", database="postgres")
    dump = f"{source.directory}/dump.sql"
    run([f"{source.bindir()}/pg_dump", "-f", dump, "-d", source.connection()])
    run(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", source.connection(database="restored"), "-f", dump])
    connection = source.connection("kube_reports_proxy", "restored")
    second = Proxy(source, CLUSTER, pki, connection=connection)
    try:
        def done():
            return source.psql("SELECT NOT EXISTS (SELECT FROM kube_reports.pending p WHERE p.what <> 'garbage') AND "
                               "EXISTS (SELECT FROM kube_reports_internal.result)", database="restored") == "t"
        until(done, 90, "the results of the restored store")
    finally:
        second.stop()
    for name, rows in before.items():
        assert derived(source, name, "restored") == rows, name


def test_single_reports(servers):
    """create_report() and the like, by the owner and by an administrator: as DML, with the answers of the API"""
    server = servers[1]
    kind = "policyreports.wgpolicyk8s.io"

    def ask(user, function, *arguments):
        places = ", ".join(["%s"] * len(arguments))
        try:
            return server.rows(f"SELECT kube_reports.{function}(%s, {places})", CLUSTER, *arguments, user=user)[0][0]
        except psycopg2.Error as error:
            return error.pgcode
    for user in ("kube_reports_owner", "kube_reports_admin"):
        document = {"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport",
                    "metadata": {"name": "single", "namespace": "single", "labels": {"a": "b"}},
                    "results": [{"policy": "p", "result": "fail"}]}
        created = json.loads(ask(user, "create_report", json.dumps(document)))
        assert created["kind"] == "PolicyReport" and created["results"] == document["results"]
        assert ask(user, "create_report", json.dumps(document)) == "KR409"
        wrong = {**document, "results": [{"policy": "p", "result": "bad"}]}
        assert ask(user, "create_report", json.dumps({**wrong, "metadata": {"name": "wrong"}})) == "KR422"
        patched = json.loads(ask(user, "patch_report", kind, "single", "single",
                                 '{"metadata": {"labels": {"a": null}}, "summary": {"fail": 1}}'))
        assert "a" not in patched["metadata"].get("labels", {}) and patched["summary"] == {"fail": 1}
        assert ask(user, "replace_report", json.dumps(created)) == "KR409"
        del patched["summary"]
        assert "summary" not in json.loads(ask(user, "replace_report", json.dumps(patched)))
        assert not ask(user, "delete_report", kind, "single", "single")
        for function, more in (("delete_report", []), ("patch_report", ["{}"])):
            assert ask(user, function, kind, "single", "single", *more) == "KR404"
    assert server.rows("SELECT count(*) FROM kube_reports.object WHERE namespace = 'single'") == [(0,)]
