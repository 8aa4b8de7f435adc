"""
Results, history and counts agree with the documents, however they are written, and by however many writers at once
(issue 5, done when 3).

RESULT_WRITES is the number of random writes: 800 for make check, 50000 for the full run.
"""

import collections
import contextlib
import json
import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg2
import pytest

from client import POLR, path_of, report, run, until
from conftest import sql_writers_of_c
from test_dump import CONTENT, DERIVED, restore, settle_results

WRITES = int(os.environ.get("RESULT_WRITES") or 800)
SECOND = "22222222-2222-4222-8222-222222222222"
TYPES = {"policyreports": "PolicyReport", "reports": "Report"}
GROUPS = {"policyreports": "wgpolicyk8s.io/v1alpha2", "reports": "openreports.io/v1alpha1"}
STATUSES = {"pass": "p", "warn": "w", "fail": "f", "error": "e", "skip": "s"}


def random_results(choice):
    results = []
    for _ in range(choice.randrange(6)):
        result = {"policy": f"p{choice.randrange(5)}", "rule": f"r{choice.randrange(4)}", "source": "s",
                  "result": choice.choice(list(STATUSES)),
                  "timestamp": {"seconds": 1700000000 + choice.randrange(1000), "nanos": 0}}
        if choice.random() < 0.3:
            result["severity"] = choice.choice(("low", "high", "critical"))
        if choice.random() < 0.3:
            result["message"] = f"m{choice.randrange(6)}"
        if choice.random() < 0.2:
            result["properties"] = {"score": str(choice.randrange(11)), "n": str(choice.randrange(3))}
        if choice.random() < 0.3:
            result["resources"] = [{"apiVersion": "v1", "kind": "Pod", "name": f"pod{choice.randrange(3)}"}
                                   for _ in range(choice.randrange(1, 3))]
        results.append(result)
    return results


def random_transaction(choice, clusters):
    """Returns a transaction with one write or several to one type; some of them, or all, may be rolled back."""
    cluster, plural = choice.choice(clusters), choice.choice(list(TYPES))

    def api_write():
        return random_write(choice, cluster, plural, (40, 40, 15, 0, 0))

    # DML locks the store, the API one lane of it: a transaction that does both locks the store first.
    steps = [random_write(choice, cluster, plural, (40, 40, 15, 3, 2))]
    # Several writes may wait in a circle when they store the same new texts in another order, unless no other session
    # writes.
    alone = "SELECT kube_reports.lock_writes()"
    if choice.random() < 0.25:
        steps = [alone, *steps, "SAVEPOINT a", api_write(), choice.choice(("ROLLBACK TO a", "RELEASE a")), api_write()]
    elif choice.random() < 0.1:
        steps = [alone, "SAVEPOINT a", *steps, "SAVEPOINT b", api_write(), "RELEASE b", api_write(),
                 "ROLLBACK TO a", api_write()]
    return f"BEGIN; {'; '.join(steps)}; {choice.choices(('COMMIT', 'ROLLBACK'), (85, 15))[0]};\n"


def random_write(choice, cluster, plural, weights):
    kind, name, namespace = TYPES[plural], f"n{choice.randrange(20)}", f"ns{choice.randrange(3)}"
    group, _ = GROUPS[plural].split("/")
    results = json.dumps(random_results(choice)).replace("'", "''")
    scope = json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "name": f"d{choice.randrange(4)}"})
    row = (f"o.cluster_id = (SELECT id FROM kube_reports.cluster WHERE uid = '{cluster}') AND o.resource_type = "
           f"(SELECT id FROM kube_reports.resource_type WHERE plural = '{plural}') AND o.namespace = '{namespace}'")
    kinds = {
        "create": f"SELECT kube_reports.create_report('{cluster}', "
             f"'{{\"apiVersion\":\"{GROUPS[plural]}\",\"kind\":\"{kind}\",\"metadata\":"
                  f"{{\"name\":\"{name}\",\"namespace\":\"{namespace}\"}},\"scope\":{scope},\"results\":{results}}}')",
        "patch": f"SELECT kube_reports.patch_report('{cluster}', '{plural}.{group}', '{namespace}', '{name}', "
             f"'{{\"results\":{results}}}')",
        "delete": f"SELECT kube_reports.delete_report('{cluster}', '{plural}.{group}', '{namespace}', '{name}')",
        "update": f"UPDATE kube_reports.object o SET body = jsonb_set(o.body::jsonb, '{{results}}', "
             f"'{results}')::kube_reports.report"
                  f" WHERE {row} AND o.name LIKE 'n1%'",
        "remove": f"DELETE FROM kube_reports.object o WHERE {row} AND o.name = '{name}'",
    }
    return kinds[choice.choices(list(kinds), weights)[0]]


def write_by_sql(database, choice, clusters, script, count, name="kube_reports"):
    """
    Runs random transactions with psql; returns the errors that psql prints.  psql rolls failed statements back to
    savepoints.
    """
    script.write_text("".join(random_transaction(choice, clusters) for _ in range(count)), encoding="utf-8")
    return run(["psql", "-X", "-q", "-o", "/dev/null", "-v", "VERBOSITY=sqlstate", "-v",
                "ON_ERROR_ROLLBACK=on", "-f", str(script),
                "-d", database.connection(database=name)], timeout=3600).err


def check_complaints(texts):
    """
    Checks the errors that psql printed: a missing object, or one that exists already, is no failure; anything else,
    such as a deadlock, is a failure.
    """
    codes = collections.Counter(line.split("ERROR:")[1].strip() for text in texts for line in text.splitlines()
                                if "ERROR:" in line)
    assert set(codes) <= {"KR404", "KR409"}, codes


def expected_results(document, cluster, namespace):
    """Returns the results of a report, computed from the document without the product's code."""
    rows = []
    for result in document["body"].get("results", []):
        scope = document["body"].get("scope")
        owner = [{**scope, "namespace": scope.get("namespace", namespace)}] if scope else [{}]
        subjects = [{**resource, "namespace": resource.get("namespace", namespace)}
                    for resource in result.get("resources", [])] or owner
        score = float(result.get("properties", {}).get("score", 0))
        for subject in subjects:
            rows.append((cluster, namespace, document["name"],
                         result.get("source", document["body"].get("source", "")), result["policy"],
                         result["rule"], result.get("severity", "unknown"), STATUSES[result["result"]],
                         subject.get("kind", ""),
                         subject.get("namespace", ""), subject.get("name", ""), result.get("message", ""),
                         json.dumps(result.get("properties", {}), sort_keys=True), score))
    return rows


def compare(database, name="kube_reports"):
    """Compares everything that is derived with a computation from the documents."""

    def rows_of(sql):
        return [json.loads(line) for line
                in database.psql(f"SELECT to_json(q) FROM ({sql}) q", database=name).splitlines()]

    documents = rows_of("SELECT o.cluster_id, o.namespace, o.name, o.body::json AS body, extract(epoch FROM "
                        "o.evaluated_at) AS evaluated"
                        " FROM kube_reports.object o")
    expected = collections.Counter()
    for document in documents:
        times = [result["timestamp"]["seconds"] for result in document["body"].get("results", [])]
        assert document["evaluated"] == (max(times) if times else None)
        expected.update(expected_results(document, document["cluster_id"], document["namespace"]))
    stored = rows_of("""
        SELECT r.origin, r.key, r.cluster_id, r.namespace, g.name AS report, k.source, k.policy, k.rule,
            k.severity, r.status, s.kind,
            s.namespace AS subject_namespace, s.name AS subject, d.message, d.properties,
            r.score, r.first_seen, r.since, r.native_status
        FROM kube_reports_internal.result r JOIN kube_reports_internal.origin g ON g.id = r.origin
            JOIN kube_reports_internal.criterion k ON k.id = r.criterion
            JOIN kube_reports_internal.subject s ON s.id = r.subject
            JOIN kube_reports_internal.detail d ON d.id = r.detail""")
    found = collections.Counter(
        (row["cluster_id"], row["namespace"], row["report"], row["source"], row["policy"], row["rule"], row["severity"],
         row["status"], row["kind"],
         row["subject_namespace"], row["subject"], row["message"], json.dumps(row["properties"], sort_keys=True),
         row["score"]) for row in stored)
    assert found == expected
    assert all(row["native_status"] == "" for row in stored)

    counts = collections.Counter((row[0], row[1], row[3], row[4], row[5], row[6], row[8], row[7])
                                 for row in expected.elements())
    rollups = {(row["cluster_id"], row["namespace"], row["source"], row["policy"], row["rule"], row["severity"],
                row["kind"], row["status"]): row["count"]
               for row in rows_of("SELECT r.*, k.source, k.policy, k.rule, k.severity FROM "
                                  "kube_reports_internal.current_rollup r"
                                  " JOIN kube_reports_internal.criterion k ON k.id = r.criterion")}
    assert rollups == dict(counts)
    policies = collections.Counter()
    for (cluster, namespace, source, policy, _, severity, _, status), count in counts.items():
        policies[cluster, namespace, source, policy, severity, status] += count
    assert {(row["cluster_id"], row["namespace"], row["source"], row["policy"], row["severity"],
             status): row["counts"][status]
            for row in rows_of("""
                SELECT p.cluster_id, p.namespace, k.source, k.policy, k.severity,
                    json_build_object('p', sum(p.pass), 'w', sum(p.warn), 'f', sum(p.fail), 'e', sum(p.error),
                        's', sum(p.skip)) AS counts
                FROM kube_reports_internal.visible_policy p JOIN kube_reports_internal.criterion k ON k.id = p.criterion
                GROUP BY 1, 2, 3, 4, 5""")
            for status in row["counts"] if row["counts"][status] != 0} == dict(policies)

    # A replay of history from its beginning ends with the results that are stored, and with their times.
    life = {}
    for row in rows_of("SELECT c.origin, c.key, c.old_status, c.new_status, c.at, c.first_seen, c.old_since FROM "
                       "kube_reports_internal.result_change c"
                       " ORDER BY c.version, c.at"):
        before = life.get((row["origin"], row["key"]))
        assert (before and before[0]) == row["old_status"], row
        assert row["old_status"] != row["new_status"], row
        if before:
            assert (row["first_seen"], row["old_since"]) == before[1:], row
        if row["new_status"] is None:
            del life[row["origin"], row["key"]]
        else:
            life[row["origin"], row["key"]] = (row["new_status"], before[1] if before else row["at"], row["at"])
    assert life == {(row["origin"], row["key"]): (row["status"], row["first_seen"], row["since"]) for row in stored}
    assert database.psql("SELECT * FROM kube_reports.verify()", database=name) == ""


# A rebuild would correct mistakes of writes; so the first case has none.
@pytest.mark.parametrize("window, rebuild", [("10 minutes", False), ("0", True)])
def test_random_writers(own_stack, window, rebuild, tmp_path):
    """
    Eight writers in four lanes of two clusters, with rollbacks, savepoints, deletes and DML, beside upkeep or rebuilds.
    Then a dump is restored, and is written to before its results are derived
    """
    own_stack.begin("deadlock_timeout = 100ms", "log_statement = none")
    database, api = own_stack.database, own_stack.proxy().api()
    database.psql(f"SELECT kube_reports.register_cluster('{SECOND}', 'second')")
    database.psql(f"SELECT kube_reports.set_setting('settle_window', '{window}')")
    clusters = [own_stack.cluster, SECOND]
    done, failures = threading.Event(), []

    def by_sql(number):
        failures.append(write_by_sql(database, random.Random(f"{window} {number}"), clusters,
                                     tmp_path / f"writer{number}.sql", WRITES // 8))

    def by_http(number):
        choice = random.Random(f"{window} {number}")
        for _ in range(WRITES // 8):
            name, namespace = f"n{choice.randrange(20)}", f"ns{choice.randrange(3)}"
            answer = choice.choices((
                lambda: api.post(path_of(POLR, namespace), report(name, results=random_results(choice))),
                lambda: api.patch(path_of(POLR, namespace, name), {"results": random_results(choice)}),
                lambda: api.delete(path_of(POLR, namespace, name)),
                lambda: api.delete(path_of(POLR, namespace))), (50, 40, 8, 2))[0]()
            assert answer.code in (200, 201, 404, 409), answer

    def upkeep():
        while not done.is_set():
            database.psql("SELECT kube_reports.maintain()")
            if rebuild:
                database.psql("CALL kube_reports.rebuild()")

    def guarded(work, *arguments):
        try:
            work(*arguments)
        except Exception as error:  # the test reports it below
            failures.append(f"ERROR: {error!r}")

    writers = [threading.Thread(target=guarded, args=(by_http if number < 2 else by_sql, number))
               for number in range(8)]
    keeper = threading.Thread(target=guarded, args=(upkeep,))
    for thread in [*writers, keeper]:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    keeper.join()
    check_complaints(failures)
    database.derive()
    assert int(database.psql("SELECT count(*) FROM kube_reports_internal.result")) > 50
    compare(database)

    dump = str(tmp_path / "left.dump")
    run(["pg_dump", "--format=custom", f"--file={dump}", "-d", database.connection()])
    for name, writes in (("restored", 0), ("written", WRITES // 8)):
        restore(database, name, "custom", dump)
        database.psql("SELECT kube_reports.after_restore(recompute => false)", database=name)
        assert database.psql("SELECT results_pending FROM kube_reports.status", database=name) == "t"
        check_complaints([write_by_sql(database, random.Random(f"{window} {name}"), clusters,
                                       tmp_path / f"{name}.sql", writes, name)])
        settle_results(database, name)
        compare(database, name)
    settle_results(database)
    for content in (CONTENT, DERIVED):
        assert database.psql(content, database="restored") == database.psql(content)


def test_rebuilds_meet(own_stack):
    """Two rebuilds find the same wrong counts: one of them corrects them, while reports are written"""
    own_stack.begin()
    database, api = own_stack.database, own_stack.proxy().api()
    choice = random.Random(8)
    for number in range(20):
        api.create(POLR, report(f"r{number}", results=random_results(choice)), "met")
    settle_results(database)
    database.psql("UPDATE kube_reports_internal.rollup SET count = count + 5; UPDATE "
                  "kube_reports_internal.rollup_policy SET warn = warn + 5;"
                  " UPDATE kube_reports_internal.rollup_daily SET count = count - 1;"
                  " UPDATE kube_reports_internal.score_daily SET fail = fail + 2")
    folding = "SELECT pg_advisory_xact_lock(kube_reports_internal.lock_class(), -3)"
    waiting = ("SELECT count(*) FROM pg_locks l WHERE l.locktype = 'advisory' AND NOT l.granted AND l.classid = "
               "kube_reports_internal.lock_class()::oid"
               " AND l.objid = '-3'::integer::oid")
    with contextlib.closing(psycopg2.connect(database.connection())) as folder, ThreadPoolExecutor(2) as pool:
        with folder, folder.cursor() as cursor:
            cursor.execute(folding)
            rebuilds = [pool.submit(database.psql, "CALL kube_reports.rebuild()") for _ in range(2)]
            until(lambda: database.psql(waiting, user="postgres") == "2", what="both to wait for the counts")
            for number in range(10):
                assert api.patch(path_of(POLR, "met", f"r{number}"), {"results": random_results(choice)}).code == 200
            assert not any(rebuild.done() for rebuild in rebuilds)
        for rebuild in rebuilds:
            rebuild.result()
    compare(database)
    settle_results(database)
    compare(database)


# One writer in each of eight lanes: the two lanes of a cluster count in the same cells, and all lanes share texts.
COUNTED_WRITE = """
    CREATE FUNCTION public.counted_write(writer integer, number integer, first text) RETURNS SETOF kube_reports.report
        LANGUAGE sql AS $$
        WITH target AS (SELECT c.uid, v.plural, v.plural || '.' || split_part(v.api, '/', 1) AS type, v.api, v.kind,
            writer || '-' || number AS name
            FROM kube_reports.cluster c, (VALUES (0, 'policyreports', 'wgpolicyk8s.io/v1alpha2', 'PolicyReport'),
                (1, 'reports', 'openreports.io/v1alpha1', 'Report')) v(odd, plural, api, kind)
            WHERE c.name = 'c' || writer / 2 AND v.odd = writer % 2)
        SELECT kube_reports.create_report(t.uid, jsonb_build_object('apiVersion', t.api, 'kind', t.kind,
                'metadata', jsonb_build_object('namespace', 'ns', 'name', t.name),
                'results', (SELECT jsonb_agg(
                        jsonb_build_object('policy', p, 'rule', 'r', 'source', 's', 'result', 'fail',
                            'timestamp', '{"seconds": 1700000000, "nanos": 0}'::jsonb) ORDER BY random())
                    FROM unnest(ARRAY['p0', 'p1', 'p2', first || '1', first || '2']) p))::text::kube_reports.report)
                        FROM target t
        UNION ALL
        SELECT kube_reports.patch_report(t.uid, t.type, 'ns', t.name,
            '{"results": [{"policy": "p0", "rule": "r", "source": "s", "result": "pass",
            "timestamp": {"seconds": 1700000000, "nanos": 0}}]}') FROM target t WHERE number % 2 = 0
    $$;
"""


@sql_writers_of_c
def test_counts_are_not_hot(own_stack, tmp_path):
    """
    Writers of the same counts, and folding, neither wait for each other nor deadlock: pgbench writes in eight lanes,
    beside a transaction that stays open
    """
    own_stack.begin("deadlock_timeout = 100ms")
    database, done = own_stack.database, threading.Event()
    database.psql("".join(f"SELECT kube_reports.register_cluster('{number}{SECOND[1:]}', 'c{number}');"
                          for number in range(4)) + COUNTED_WRITE)
    script = tmp_path / "write.sql"

    def write(first_writer, clients, after, times, first):
        script.write_text(f"\\set n :n + 1\nSELECT count(*) FROM public.counted_write(:client_id + {first_writer}, :n, "
                          f"{first});\n", encoding="utf-8")
        told = database.pgbench(script, "-c", str(clients), "-t", str(times), "-D", f"n={after}")
        assert f"number of transactions actually processed: {clients * times}/{clients * times}" in told, told

    def upkeep():
        while not done.is_set():
            database.psql("SELECT kube_reports_internal.fold_rollups()")

    write(0, 8, 0, 2, "'first'")
    with contextlib.closing(psycopg2.connect(database.connection())) as open_writer, ThreadPoolExecutor(1) as pool:
        keeper = pool.submit(upkeep)
        try:
            with open_writer, open_writer.cursor() as cursor:
                cursor.execute("SELECT count(*) FROM public.counted_write(0, 0, 'first')")
                assert cursor.fetchone() == (2,)
                write(1, 7, 2, 30, "'first'")
                assert database.at_lane_lock("l.granted") == str(open_writer.info.backend_pid)
            # Policies that are new: several writers store them at a time, in any order.
            write(0, 8, 32, 60, "'first' || :n")
        finally:
            done.set()
        keeper.result()
    assert database.psql("SELECT sum(deadlocks) FROM pg_stat_database") == "0"
    assert database.psql("SELECT sum(r.count) FROM kube_reports_internal.current_rollup r WHERE r.status = 'p'") == str(
        1 + 8 * 1 + 7 * 15 + 8 * 30)
    compare(database)


def test_unchanged_scan(own_stack):
    """
    A scan that changes only times writes the reports, but touches no row of results, and writes no history
    """
    own_stack.begin()
    database, api = own_stack.database, own_stack.proxy().api()
    choice = random.Random(5)
    results = [{"policy": f"p{n}", "rule": "r", "result": choice.choice(list(STATUSES)),
                "timestamp": {"seconds": 1700000000, "nanos": 0}} for n in range(19)]
    for number in range(20):
        api.create(POLR, report(f"r{number}", results=results), "scan")

    def state():
        """Returns a line for each row of results and of their history; an update, a lock or a copy changes its line."""
        until(lambda: database.psql("SELECT results_pending FROM kube_reports.status") == "f", 60, "the results")
        return [database.psql(f"SELECT r.tableoid, r.ctid, r.xmin, r.xmax FROM kube_reports_internal.{table} r "
                              "ORDER BY 1, 2").splitlines() for table in ("result", "report_change")]
    before = state()
    # A row of history has all results of a new report.
    assert [len(rows) for rows in before] == [20 * 19, 20]
    for result in results:
        result["timestamp"]["seconds"] += 3600
    for number in range(20):
        assert api.patch(path_of(POLR, "scan", f"r{number}"), {"results": results}).code == 200
    assert state() == before
    assert (database.psql("SELECT DISTINCT extract(epoch FROM evaluated_at)::bigint FROM kube_reports.object")
            == "1700003600")
    compare(database)


def test_a_cluster_goes_while_its_log_is_compacted(own_stack):
    """
    A deletion of a cluster waits for folding, or upkeep for rows of the cluster, but both never deadlock; no count of
    the cluster stays
    """
    own_stack.begin()
    database, cluster = own_stack.database, "00000000-0000-0000-0000-00000000dead"
    document = json.dumps({"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport",
                           "metadata": {"name": "r", "namespace": "gone"},
                           "results": [{"policy": "p", "rule": "r", "result": "fail"}]})
    database.psql(f"SELECT kube_reports.register_cluster('{cluster}')")
    database.psql(f"SELECT kube_reports.create_report('{cluster}', '{document}')")
    database.psql("SELECT kube_reports.set_setting('log_retention', '0')")
    # Make the next month of history first: in the last days of a month, a step of upkeep would do only that.
    database.psql("SELECT kube_reports.make_history(now() + interval '5 days')")
    gone = f"(SELECT id FROM kube_reports.cluster WHERE uid = '{cluster}')"
    with contextlib.closing(psycopg2.connect(database.connection())) as deleter, ThreadPoolExecutor(1) as pool:
        with deleter, deleter.cursor() as cursor:
            cursor.execute(f"DELETE FROM kube_reports.object WHERE cluster_id = {gone}")
            cursor.execute(f"DELETE FROM kube_reports_internal.lane WHERE cluster_id = {gone}")
            # Postpone the collection of garbage, so that the step does other work.
            upkeep = pool.submit(database.psql,
                                 "UPDATE kube_reports_internal.garbage_sweep SET due_at = now() + interval '1 minute';"
                                                " SELECT kube_reports.maintain()")
            until(lambda: database.psql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND "
                                        "query LIKE '%maintain()%'",
                                        user="postgres") == "1", what="upkeep to wait for a row of the lane")
            cursor.execute(f"DELETE FROM kube_reports.cluster WHERE uid = '{cluster}'")
        # The step may fail for a lane that is gone; the next one does not.
        assert "deadlock" not in str(upkeep.exception())
    settle_results(database)
    assert database.psql("SELECT (SELECT count(*) FROM kube_reports_internal.rollup), (SELECT count(*) FROM "
                         "kube_reports_internal.rollup_policy)") == "0|0"
    assert database.psql("SELECT * FROM kube_reports.verify()") == ""


def test_folding_waits_for_no_other_database(own_stack):
    """Counts are folded while a transaction of another database of the server, which has written, goes on"""
    own_stack.begin()
    database = own_stack.database
    counts = ("SELECT (SELECT count(*) FROM kube_reports_internal.rollup_delta), (SELECT sum(count) FROM "
              "kube_reports_internal.rollup)")
    with contextlib.closing(psycopg2.connect(database.connection("postgres", "postgres"))) as elsewhere:
        elsewhere.cursor().execute("SELECT pg_current_xact_id()")
        for number in range(3):
            results = [{"policy": "p", "rule": f"r{number}", "result": "fail"}]
            document = json.dumps(report(f"r{number}", results=results, namespace="ns"))
            database.psql(f"SELECT kube_reports.create_report('{own_stack.cluster}', '{document}')")
            database.derive()
            database.psql("SELECT kube_reports_internal.fold_rollups()")
            assert database.psql(counts) == f"0|{number + 1}"
