"""The benchmarks of DESIGN section 8, each beside its baseline in the same run.

Run by make bench.  A row below its bar is marked FAIL and makes the exit status 1.
"""

import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

import psycopg2

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "http"))

from client import EPHR, PARTIAL, PARTIAL_LIST, POLR, path_of, run, until  # noqa: E402
from conftest import free_port, stack_command  # noqa: E402
from filters import FILTERS  # noqa: E402
from fleet import register_compliance  # noqa: E402
import clusters  # noqa: E402
import floors  # noqa: E402
import forward  # noqa: E402
import scale  # noqa: E402
import variant  # noqa: E402
from workbench import (  # noqa: E402
    BUILD, MEBIBYTE, NUMBERED, OUTPUT, SCALE, SETTINGS, WANTED, Bench, note, row, rows, scaled, seconds)


def bench_list(bench):
    """list, list-metadata: against the same bytes as a static file of the same libh2o, over TLS."""
    count = scaled(10000, 200)
    bench.fill("pss", 1, count)
    saved = bench.directory / "static"
    saved.mkdir()
    before = bench.proxy.memory("VmRSS")
    bench.proxy.reset_peak()
    bench.load(path_of(POLR), "--requests=1", f"--output={saved}/list.json")
    assert len(json.loads((saved / "list.json").read_bytes())["items"]) == count
    bench.load(path_of(POLR), "--requests=1", f"--accept={PARTIAL_LIST}", f"--output={saved}/metadata.json")
    port = free_port()
    server = subprocess.Popen([str(BUILD / "static_server"), str(port), f"{bench.stack.pki}/serving.crt",
                               f"{bench.stack.pki}/serving.key", str(saved)],
                              stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout.readline() == "ready\n"
        sides = {"full": (path_of(POLR), None), "static": ("/list.json", port),
                 "metadata": (path_of(POLR), None, f"--accept={PARTIAL_LIST}"),
                 "static_metadata": ("/metadata.json", port)}
        processes = [*bench.backends(), *bench.proxy.processes(), server.pid]
        times, used = {side: [] for side in sides}, {}
        for _ in range(5):
            for side, (path, at, *options) in sides.items():
                spent = scale.processor_ms(processes)
                times[side].append(bench.load(path, "--requests=3", *options, port=at)["seconds"] / 3)
                used.setdefault(side, []).append((scale.processor_ms(processes) - spent) / 3)
        grown = (bench.proxy.memory("VmHWM") - before) / MEBIBYTE
    finally:
        server.kill()
        server.wait()
    size = (saved / "list.json").stat().st_size
    full, static, metadata, static_metadata = (statistics.median(times[side]) for side in sides)
    processor = {side: statistics.median(each) for side, each in used.items()}
    # Processor time of the servers depends less than the clock on what else runs.
    row("list", f"{size / 1e6:.0f} MB; {processor['full']:.0f} ms of processors, static {processor['static']:.0f}",
        size / full / 1e6, size / static / 1e6, "MB/s",
        static / full, "at least 0.7", static / full >= 0.7, reports=count, processor_ms=processor)
    row("list-memory", "growth of the proxy during the lists", grown, None, "MiB", None, "at most 64", grown <= 64)
    row("list-metadata", f"its metadata; {processor['metadata']:.0f} ms of processors", metadata * 1000, full * 1000,
        "ms", metadata / full, "at most 60 ms, or 0.2", metadata <= 0.06 or metadata / full <= 0.2)
    row("list-metadata-static", "the same bytes as a static file", static_metadata * 1000, None, "ms", None,
        "reported", None)


def insert_rate(bench, clients, duration):
    """Prepared one-row INSERTs of the same text by pgbench."""
    assert bench.database.psql("SHOW fsync") == "on"
    text = bench.bodies().read_text(encoding="utf-8").splitlines()[0]
    bench.database.psql("DROP TABLE IF EXISTS plain; CREATE TABLE plain (id bigserial PRIMARY KEY, document text "
                        "COMPRESSION lz4)")
    script = bench.directory / "insert.sql"
    script.write_text("INSERT INTO plain (document) VALUES (:document);\n", encoding="utf-8")
    done = bench.database.pgbench(script, "-M", "prepared", "-c", str(clients), "-j", "2", "-T", str(int(duration)),
                                  "-D", f"document={text}")
    return next(float(line.split()[2]) for line in done.splitlines() if line.startswith("tps"))


create_number = 1


def create_rate(bench, clients, duration):
    global create_number
    result = bench.load(path_of(EPHR, "create"), "--method=POST", f"--bodies={bench.bodies()}",
                        f"--connections={clients}", f"--seconds={duration}", f"--first-number={create_number}")
    create_number += 10 ** 8
    return result


def bench_create(bench):
    """create: HTTPS creates against INSERTs, with the disk as it is and with two milliseconds more a flush."""
    duration = seconds(10)
    library = pathlib.Path(bench.database.directory) / "slow_flush.so"
    shutil.copy(BUILD / "slow_flush.so", library)
    library.chmod(0o755)
    for kind, least in (("", 0.25), ("-slow-flush", 0.5)):
        if kind:
            bench.database.stop()
            os.environ["LD_PRELOAD"] = str(library)
            try:
                bench.database.start(*SETTINGS)
            finally:
                del os.environ["LD_PRELOAD"]
            bench.proxy.wait_ready()
        for clients in (8, 32):
            create_rate(bench, clients, 2)
            baselines, results = [], []
            for _ in range(2):
                baselines.append(insert_rate(bench, clients, duration / 2))
                results.append(create_rate(bench, clients, duration / 2))
            baseline = statistics.mean(baselines)
            rate = statistics.mean(result["per_second"] for result in results)
            p99 = max(result["p99_ms"] for result in results)
            row(f"create-{clients}{kind}", f"ephemeral reports, {clients} clients; p99 {p99:.1f} ms", rate, baseline,
                "/s", rate / baseline, f"at least {least}", rate / baseline >= least, p99_ms=p99)


def written_batches(bench):
    """(writes, batches) of the proxy so far"""
    return [bench.proxy.metric(f"kube_reports_{name}_total") for name in ("batched_writes", "write_batches")]


def bench_results(bench):
    """create-results, rescan:
    policy reports of 19 results by HTTPS against set-wise INSERTs of the same rows in batches of 32."""
    count = scaled(10000, 500)
    found, batches = {}, {}
    for clients in (8, 32):
        for part in ("warm", "measured"):
            before = written_batches(bench)
            found[clients] = bench.load(path_of(POLR, f"create-{clients}-{part}"), "--method=POST",
                                        f"--bodies={bench.policy_reports()}", f"--connections={clients}",
                                        f"--requests={count if part == 'measured' else count // 10}")
            writes, number = (now - then for now, then in zip(written_batches(bench), before))
            batches[clients] = writes / number
    floors.copy_rows(bench)
    plain = statistics.mean(floors.measure(bench, "events", 32)["rate"] for _ in range(2))
    for clients, result in found.items():
        rate = result["per_second"]
        row(f"create-results-{clients}", f"policy reports, {clients} clients; p99 {result['p99_ms']:.1f} ms", rate,
            plain, "/s", rate / plain, "at least 0.8", rate / plain >= 0.8, p99_ms=result["p99_ms"])
        # A batch has no more writes than there are clients: so few INSERTs a transaction are slower, too.
        same = floors.measure(bench, "events", round(batches[clients]))["rate"]
        row(f"create-results-{clients}-batches", f"INSERTs in batches of {batches[clients]:.1f}, not 32", same, plain,
            "/s", same / plain, "reported", None, batch=batches[clients])

    state = ("SELECT md5(string_agg(r.ctid || ' ' || r.xmin, ',' ORDER BY r.origin, r.key)) "
             "FROM kube_reports_internal.result r; SELECT count(*) FROM kube_reports_internal.result_change")
    before = bench.database.psql(state)
    result = bench.load(path_of(POLR, "create-32-measured", NUMBERED), "--method=PATCH",
                        f"--bodies={bench.policy_reports(1800000000)}",
                        "--content-type=application/merge-patch+json", "--connections=32", f"--requests={count}")
    untouched = bench.database.psql(state) == before
    written = int(bench.database.psql("SELECT count(*) FROM kube_reports.object WHERE evaluated_at = "
                                      "to_timestamp(1800000000)"))
    assert written == count, f"{written} reports have new times"
    create, rate = found[32]["per_second"], result["per_second"]
    row("rescan", f"new times only, 32 clients; p99 {result['p99_ms']:.1f} ms", rate, create, "/s", rate / create,
        "at least 1, no row touched", rate >= create and untouched, untouched=untouched)
    bench_updates(bench, count // 2)
    assert bench.database.psql("SELECT * FROM kube_reports.verify()") == ""


def bench_updates(bench, count):
    """update: three of 19 results get another status.

    Eight clients share batches: each waits for less than eight updates."""
    states = [bench.policy_updates(), bench.policy_reports(0)]
    median = {1: [], 8: []}
    for part in range(4):
        for clients, places in median.items():
            result = bench.load(path_of(POLR, "create-32-measured", NUMBERED), "--method=PATCH",
                                f"--bodies={states[part % 2]}",
                                "--content-type=application/merge-patch+json", f"--connections={clients}",
                                f"--requests={count // 10 if clients == 1 else count}",
                                f"--first-number={1 if clients == 8 else 1 + count}")
            places.append(result["p50_ms"])
    alone, together = statistics.median(median[1]), statistics.median(median[8])
    row("update-8", f"changed policy reports, 8 clients; {result['per_second']:.0f} a second", together, alone, "ms",
        together / alone, "at most 4.5", together / alone <= 4.5, p99_ms=result["p99_ms"])


def bench_cost(bench):
    """cost: log and processor time of the database for a new policy report of 19 results, by 32 clients and alone;
    and those of INSERTs of its rows: with the same indexes, with primary keys alone, with one more index."""
    count = scaled(4000, 600)
    bench.database.psql("ALTER SYSTEM SET full_page_writes = off", user="postgres")
    bench.database.psql("SELECT pg_reload_conf()", user="postgres")
    until(lambda: bench.database.psql("SHOW full_page_writes") == "off", 20, "full_page_writes = off")
    inserted, first = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')", 1

    def created(clients, number):
        """Processor milliseconds and log bytes of each."""
        nonlocal first
        backends = bench.backends()
        before, log = scale.processor_ms(backends), int(bench.database.psql(inserted))
        bench.load(path_of(POLR, "cost"), "--method=POST", f"--bodies={bench.policy_reports()}",
                   f"--connections={clients}", f"--requests={number}", f"--first-number={first}")
        first += number
        return ((scale.processor_ms(backends) - before) / number,
                (int(bench.database.psql(inserted)) - log) / number)

    created(32, count // 4)
    found = {clients: [created(clients, count // 4 if clients == 32 else count // 16) for _ in range(3)]
             for clients in (32, 1)}
    floors.copy_rows(bench)
    for clients, least in ((32, 0.6), (1, 1.5)):
        used, log = (statistics.median(one[place] for one in found[clients]) for place in (0, 1))
        plain = floors.measure(bench, "same", clients)
        row(f"cost-{clients}", f"a new report, {clients} client{'s'[:clients - 1]}, and INSERTs of its rows", used,
            plain["ms"], "ms", used / plain["ms"], f"at most {least}", used <= least, all=found[clients])
        if clients == 32:
            row("cost-log", "the same: WAL without images of pages", log / 1e3, plain["kB"], "kB",
                log / 1e3 / plain["kB"], "at most 8", log <= 8e3)
    for layout, words in (("keys", "INSERTs of its rows, primary keys alone"),
                          ("one", "and one more index of results")):
        plain = floors.measure(bench, layout, 32)
        row(f"cost-log-{layout}", words, plain["kB"], None, "kB", None, "reported", None)
        row(f"cost-{layout}", words, plain["ms"], None, "ms", None, "reported", None)


def bench_disk(bench):
    """disk: 10,000 reports of 19 results in 100 namespaces with everything derived,
    and the history of their creation."""
    count = scaled(10000, 1000)
    bench.fill("pss", 1, count, batch=32)
    bench.fold()
    bench.upkeep()
    sizes = {line.split("|")[0]: int(line.split("|")[1]) for line in bench.database.psql(
        "SELECT c.relname, pg_total_relation_size(c.oid) FROM pg_class c"
        " WHERE c.relnamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)"
        " AND c.relkind = 'r' ORDER BY 2 DESC").splitlines()}
    history = sum(size for name, size in sizes.items() if name.startswith("report_change_")) / 1e6
    documents = sizes["object"] / 1e6
    tables = ("origin", "criterion", "subject", "detail", "actor", "result", "result_since", "rollup",
              "rollup_policy", "rollup_delta", "rollup_daily", "score_daily")
    derived = sum(sizes[name] for name in tables) / 1e6
    share = count / 10000
    # A small store has empty pages.
    spare = 1 if share < 1 else 0
    row("disk", f"{count:,} reports of 19 results, all derived", documents + derived, None, "MB", None, "at most 45",
        documents + derived <= 45 * share + spare)
    row("disk-documents", "metadata and bodies of the same", documents, None, "MB", None, "at most 24",
        documents <= 24 * share + spare)
    rows_alone = float(bench.database.psql(
        "SELECT sum(pg_table_size(c.oid)) / 1e6 FROM pg_class c"
        f" WHERE c.relnamespace = 'kube_reports_internal'::regnamespace AND c.relname IN {tables}"))
    row("disk-rows", "documents, and all rows without any index", documents + rows_alone, None, "MB", None, "reported",
        None)
    row("disk-history", "of their creation", history, None, "MB", None, "at most 6", history <= 6 * share + spare)
    rows_alone = float(bench.database.psql(
        "SELECT sum(pg_table_size(c.oid)) / 1e6 FROM pg_class c WHERE c.oid IN (SELECT i.inhrelid FROM pg_inherits i"
        " WHERE i.inhparent = 'kube_reports_internal.report_change'::regclass)"))
    row("disk-history-rows", "the same without any index", rows_alone, None, "MB", None, "reported", None)
    note("of results: " + bench.database.psql(
        "SELECT string_agg(format('%s %s', c.relname, round(pg_relation_size(c.oid) / 1e6, 1)), ', '"
        " ORDER BY c.relname) FROM pg_class c"
        " WHERE c.oid = 'kube_reports_internal.result'::regclass OR c.oid IN (SELECT i.indexrelid"
        " FROM pg_index i WHERE i.indrelid = 'kube_reports_internal.result'::regclass)"))
    note(", ".join(f"{name} {size / 1e6:.1f}" for name, size in sizes.items() if size > 200000))


# Reports of which each says what no other one says, in a namespace of their own.
TURN = """
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
    SELECT c.id, 1, 'turn-{turn}', 'r' || n, '{{}}', jsonb_build_object(
        'scope', jsonb_build_object('kind', 'Pod', 'name', 'pod-{turn}-' || n),
        'results', (SELECT jsonb_agg(jsonb_build_object('source', 'kyverno', 'policy', 'p' || m,
                'rule', 'r-{turn}-' || n % 50, 'severity', 'high',
                'result', CASE (n + m) % 5 WHEN 0 THEN 'fail' ELSE 'pass' END,
                'message', format('turn {turn}, report %s, result %s', n, m)))
            FROM generate_series(1, 19) m))::kube_reports.report
    FROM kube_reports.cluster c, generate_series({first}, {last}) n WHERE c.uid = '{cluster}'"""


def bench_turnover(bench):
    """turnover: the rows and bytes of a store besides reports and history, when all reports were replaced ten times."""
    count = scaled(2000, 200)
    kept = ("detail", "rollup", "rollup_policy", "rollup_daily", "score_daily")
    history, spent = [], 0
    for turn in range(11):
        for first in range(1, count + 1, 500):
            bench.script(TURN.format(turn=turn, first=first, last=min(first + 499, count), cluster=bench.stack.cluster))
        bench.fold()
        if turn > 0:
            bench.script(f"DELETE FROM kube_reports.object WHERE namespace = 'turn-{turn - 1}'")
            bench.fold()
        started = time.time()
        bench.upkeep()
        spent += time.time() - started
        history.append({name: int(bench.database.psql(f"SELECT count(*) FROM kube_reports_internal.{name}"))
                        for name in kept})
    first, last = (sum(one.values()) for one in (history[0], history[-1]))
    size = int(bench.database.psql("SELECT sum(pg_total_relation_size(('kube_reports_internal.' || name)::regclass))"
                                   f" FROM unnest('{{{','.join(kept)}}}'::text[]) name"))
    row("turnover", f"{count:,} reports replaced 10 times; upkeep {spent:.1f} s", last, first, "rows", last / first,
        "within 1.1", last / first <= 1.1, upkeep_seconds=spent, bytes=size, tables=history[-1])
    assert bench.database.psql("SELECT * FROM kube_reports.verify()") == ""


# ---- what readers ask ----

FLEET_NAMESPACES = 200


class Reader:
    """A session of a reader, and how long its queries take."""

    def __init__(self, bench, role):
        self.session = psycopg2.connect(bench.database.connection(role))
        self.session.autocommit = True
        self.cursor = self.session.cursor()
        self.processor = pathlib.Path(f"/proc/{self.session.get_backend_pid()}/schedstat")

    def ask(self, sql, times=7):
        """(rows, first milliseconds, median of those that follow, their processor time)"""
        elapsed, used, rows = [], [], []
        for _ in range(times + 1):
            started, before = time.time(), int(self.processor.read_text().split()[0])
            self.cursor.execute(sql)
            rows = self.cursor.fetchall()
            elapsed.append((time.time() - started) * 1000)
            used.append((int(self.processor.read_text().split()[0]) - before) / 1e6)
        return rows, elapsed[0], statistics.median(elapsed[1:]), statistics.median(used[1:])


def reader_roles(bench):
    """Who sees all, and who sees 2 of the namespaces."""
    bench.database.psql("CREATE ROLE reader_of_two LOGIN", user="postgres")
    for namespace in ("ns-7", "ns-10"):
        bench.database.psql(f"SELECT kube_reports.grant_namespace('reader_of_two', '{bench.stack.cluster}', "
                            f"'{namespace}')")
    return {"all": "kube_reports_reader", "2 namespaces": "reader_of_two"}


def fleet(bench):
    """150,000 reports of 19 results in 200 namespaces, of the last 30 days as far as counts and history are concerned;
    its readers by name."""
    count, days = scaled(150000, 3000), 30
    step = count // days
    script = [f"\\i {HERE}/generate.sql"]
    for day in range(days):
        age = f"interval '{days - 1 - day} days'"
        script.append(f"""
            SELECT pg_temp.store('{bench.stack.cluster}', 'fleet', {day * step + 1}, {(day + 1) * step},
                {FLEET_NAMESPACES});
            UPDATE kube_reports_internal.rollup_delta SET day = (day - {age})::date;
            SELECT kube_reports_internal.fold_rollups(1000000);""")
        if days - 1 - day:
            script.append(f"""
            SELECT kube_reports.make_history(now() - {age});
            UPDATE kube_reports_internal.origin SET first_seen = first_seen - {age} WHERE id > {day * step};
            UPDATE kube_reports_internal.result SET first_seen = first_seen - {age}, since = since - {age}
                WHERE origin > {day * step};
            UPDATE kube_reports_internal.report_change SET at = at - {age} WHERE origin > {day * step};""")
    note(f"storing {days * step:,} reports")
    # What has aged was written twice, which no store has to.
    script.append("SELECT kube_reports.enable_text_search();\nVACUUM (FULL) kube_reports_internal.result;\n")
    bench.script("\n".join(script))
    bench.upkeep()
    return {who: Reader(bench, role) for who, role in reader_roles(bench).items()}


def bench_analytics(bench):
    """analytics-*: what is answered from the counts, and the first 100 rows of every filter,
    as who sees all and as who sees 2 of 200 namespaces."""
    readers = fleet(bench)
    today = "(now() AT TIME ZONE 'UTC')::date"
    for name, words, sql in (
            ("failing", "failing by policy and namespace",
             "SELECT namespace, policy, warn, fail, error FROM kube_reports.failing_by_policy_namespace"),
            ("status", "counts by status",
             "SELECT namespace, source, pass, warn, fail, error, skip FROM kube_reports.status_counts"),
            ("score", "score of the cluster, 30 days",
             f"SELECT day, score, weighted_score FROM kube_reports.compliance_score({today} - 29, {today})")):
        for who, reader in readers.items():
            rows_found, first, usual, used = reader.ask(sql, 21)
            assert rows_found
            row(f"analytics-{name}", f"{words}; {who}, {len(rows_found):,} rows", usual, None, "ms", None, "under 10",
                usual < 10, first_ms=first, processor_ms=used)
    for who, reader in readers.items():
        found = []
        for wanted in FILTERS:
            # Days, not words: the filter's times are those of now.
            sql = "SELECT * FROM kube_reports.search_results('%s', 100)" % json.dumps(wanted).replace(
                '"yesterday"', '"%s"' % time.strftime("%Y-%m-%dT00:00:00Z", time.gmtime(time.time() - 86400)))
            page, first, usual, used = reader.ask(sql)
            found.append({"filter": json.dumps(wanted), "rows": len(page), "first_ms": first, "ms": usual,
                          "processor_ms": used})
            if len(page) == 100:
                # Far on: after a place that is later than most.
                place = '[9000000000000000000, "p", 2147483647, "", 0, 0, 1]'
                page, first, usual, used = reader.ask(sql.replace(", 100)", f", 100, '{place}')"), 3)
                found.append({"filter": json.dumps(wanted) + ", deep", "rows": len(page), "first_ms": first,
                              "ms": usual, "processor_ms": used})
        worst = max(found, key=lambda one: one["ms"])
        row("analytics-filters", f"{len(found)} pages; {who}; slowest {worst['filter'][:30]}", worst["ms"],
            statistics.median(one["ms"] for one in found), "ms", None, "each under 50", worst["ms"] < 50, filters=found)
        for one in found:
            if one["ms"] >= 50:
                note(f"{who}: {one['filter']}: {one['ms']:.1f} ms ({one['processor_ms']:.1f} of the processor), first "
                     f"{one['first_ms']:.1f} ms, {one['rows']} rows")


def bench_score(bench):
    """score: the first 100 reports with a high score among five million results."""
    results = scaled(5000000, 50000)
    count = int(results / 30.5)
    bench.fill("trivy", 1, count, namespaces=FLEET_NAMESPACES)
    bench.fold()
    bench.upkeep()
    stored = int(bench.database.psql("SELECT count(*) FROM kube_reports_internal.result"))
    for who, role in reader_roles(bench).items():
        for score in (8.0, 9.9):
            page, first, usual, used = Reader(bench, role).ask(
                f"SELECT * FROM kube_reports.reports_with_score({score})", 21)
            assert len(page) == 100 or SCALE < 1
            row("score", f"at least {score} among {stored:,} results; {who}", usual, None, "ms", None, "under 50",
                usual < 50, first_ms=first, processor_ms=used)


# What the queries of docs/analytics.md name, and what is there of the kind.
QUESTION_NAMES = {"'Deployment', 'shop', 'catalog'": "'Pod', 'ns-10', 'pod-410'", "'local'": "'test'",
                  '"local"': '"test"', "'sample-staging'": "'other'", '"shop"': '"ns-10"', '"payments"': '"ns-7"',
                  "'disallow-privilege-escalation'": "'disallow-capabilities-strict'",
                  "'autogen-privilege-escalation'": "'require-drop-all'",
                  "'require-run-as-nonroot'": "'restrict-seccomp'",
                  "CVE-2021-44228": "CVE-2018-1003", "interval '5 days'": "interval '10 days'"}
# The second cluster of those that they compare; it has reports of its own.
OTHER_CLUSTER = "00000000-0000-4000-8000-00000000000b"


def looked_at(plan):
    """What a plan read of tables: {index or table: rows}"""
    found = {}
    for node in [plan, *plan.get("Plans", [])]:
        if node is not plan:
            for name, rows_read in looked_at(node).items():
                found[name] = found.get(name, 0) + rows_read
    name = plan.get("Index Name") or plan.get("Relation Name")
    if "Scan" in plan["Node Type"] and name and plan["Actual Loops"]:
        name += " (whole)" if plan["Node Type"].endswith("Seq Scan") else ""
        rows_read = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
        found[name] = found.get(name, 0) + round(rows_read * plan["Actual Loops"])
    return found


def short_plan(bench, role, sql):
    """Its plan in short: what is walked and how far, in the query and within functions, the most first."""
    session = psycopg2.connect(bench.database.connection("postgres"))
    session.autocommit = True
    cursor = session.cursor()
    cursor.execute("LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_analyze = on;"
                   "SET auto_explain.log_timing = off; SET auto_explain.log_nested_statements = on;"
                   "SET auto_explain.log_format = json; SET client_min_messages = log; SET ROLE " + role)
    session.notices.clear()
    cursor.execute(sql)
    found = {}
    for notice in session.notices:
        if "plan:" in notice:
            for name, rows_read in looked_at(json.loads(notice.split("plan:", 1)[1])["Plan"]).items():
                found[name] = found.get(name, 0) + rows_read
    session.close()
    most = sorted(found.items(), key=lambda one: -one[1])[:3]
    return ", ".join(f"{name} {rows_read:,}" for name, rows_read in most if rows_read > 20) or "a few rows"


def lively(bench):
    """What a fleet has besides:
    results that change and change back, a cluster where what fails elsewhere passes, checks with remediations."""
    changed, checks = scaled(3000, 60), scaled(600, 30)
    # Hours ago; every second of them changes back, every tenth goes to and fro.
    for hours, wanted in ((120, 1), (60, 2), (16, 10), (12, 10), (8, 10), (4, 10)):
        bench.script(f"""
            SELECT clock_timestamp() AS begun \\gset
            UPDATE kube_reports.object o
                SET body = jsonb_set(o.body::jsonb, '{{results,0,result}}', CASE o.body::jsonb#>>'{{results,0,result}}'
                    WHEN 'fail' THEN '"pass"' ELSE '"fail"' END::jsonb)::kube_reports.report
                FROM (SELECT g.*, row_number() OVER (ORDER BY g.id) AS number FROM kube_reports_internal.origin g
                    ORDER BY g.id LIMIT {changed}) g
                WHERE (o.cluster_id, o.resource_type, o.namespace, o.name)
                    = (g.cluster_id, g.resource_type, g.namespace, g.name) AND g.number % {wanted} = 0;
            SELECT kube_reports.make_history(now() - interval '{hours} hours');
            UPDATE kube_reports_internal.result r SET since = since - interval '{hours} hours' WHERE since >= :'begun';
            UPDATE kube_reports_internal.report_change c SET at = at - interval '{hours} hours'
                WHERE at >= :'begun';""")
    bench.script(f"""
        \\i {HERE}/generate.sql
        SELECT kube_reports.register_cluster('{OTHER_CLUSTER}', 'other');
        INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
            SELECT c.id, t.id, 'ns-1', d.document#>>'{{metadata,name}}', (d.document->'metadata')::kube_reports.report,
                (d.document - '{{apiVersion,kind,metadata}}'::text[])::kube_reports.report
            FROM generate_series(1, {changed}) n,
                LATERAL (SELECT pg_temp.generated_pss(n, 'ns-1')::jsonb OFFSET 0) d(document),
                kube_reports.cluster c, kube_reports.resource_type t
            WHERE c.uid = '{OTHER_CLUSTER}' AND t."group" = 'wgpolicyk8s.io' AND t.kind = 'PolicyReport'
                AND d.document#>>'{{summary,fail}}' = '0'""")
    register_compliance(bench.database)
    bench.script(f"""
        INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
            SELECT c.id, t.id, 'openshift-compliance', d.name,
                (d.metadata || jsonb_build_object('namespace', 'openshift-compliance', 'name', d.name))
                    ::kube_reports.report, d.body::kube_reports.report
            FROM generate_series(1, {checks}) n, LATERAL (VALUES
                    ('compliancecheckresults', 'cis-check-' || n,
                        '{{"labels": {{"compliance.openshift.io/scan-name": "cis",
                            "compliance.openshift.io/suite": "suite",
                            "compliance.openshift.io/automated-remediation": ""}}}}'::jsonb,
                        jsonb_build_object('id', 'xccdf_' || n, 'severity', 'medium',
                            'status', CASE WHEN n % 3 = 0 THEN 'PASS' ELSE 'FAIL' END)),
                    ('complianceremediations', 'cis-check-' || n,
                        jsonb_build_object('ownerReferences', jsonb_build_array(jsonb_build_object(
                            'apiVersion', 'compliance.openshift.io/v1alpha1', 'kind', 'ComplianceCheckResult',
                            'name', 'cis-check-' || n, 'uid', n::text))),
                        jsonb_build_object('spec', '{{"apply": true}}'::jsonb, 'status', jsonb_build_object(
                            'applicationState', CASE WHEN n % 2 = 0 THEN 'Applied' ELSE 'Pending' END)))
                ) d(plural, name, metadata, body), kube_reports.cluster c, kube_reports.resource_type t
            WHERE c.uid = '{bench.stack.cluster}' AND t."group" = 'compliance.openshift.io' AND t.plural = d.plural""")
    bench.fold()
    bench.upkeep()


def bench_questions(bench):
    """questions: the queries of docs/analytics.md, as a table: milliseconds of the processor, and what was read."""
    page = (HERE.parents[1] / "docs" / "analytics.md").read_text(encoding="utf-8")
    readers = fleet(bench)
    lively(bench)
    bench.database.psql("INSERT INTO kube_reports.framework_control (framework, control, policy) "
                        "VALUES ('NIST SP 800-53', 'AC-2', 'restrict-seccomp')")
    table = ["| question | sees all: ms | sees 2 of 200 namespaces: ms | rows | plan: rows read, by index or table |",
             "| --- | --- | --- | --- | --- |"]
    slowest, unanswered = 0, []
    for number, text in re.findall(r"^### (\d+)\. (.*?)(?=^### |\Z)", page, re.M | re.S):
        for sql in re.findall(r"```sql\n(.*?);\n```", text, re.S):
            for name, there in QUESTION_NAMES.items():
                sql = sql.replace(name, there)
            times = {}
            for who, reader in readers.items():
                # What the machine does otherwise is no part of a page of documentation.
                found, _, _, times[who] = reader.ask(sql, 5)
                if who == "all":
                    count = len(found)
            slowest = max(slowest, *times.values())
            if count == 0:
                unanswered.append(sql)
            table.append(f"| {number} | {times['all']:.1f} | {times['2 namespaces']:.1f} | {count:,} | "
                         f"{short_plan(bench, 'kube_reports_reader', sql)} |")
    row("questions", "docs/analytics.md; the slowest, of the processor", slowest, None, "ms", None,
        "each has an answer", not unanswered, table=table)
    print("\n".join(table), flush=True)
    for sql in unanswered:
        note(f"nothing answers {sql}")


def bench_page(bench):
    """page: of a list that began before the log's last 45,000 events, at its beginning and at depth 300,
    while others write."""
    count, page = scaled(150000, 3000), 500
    depth = count // page
    bench.fill("pss", 1, count)
    note(f"walking to page {depth}")
    api, token = bench.proxy.api(keep=True), ""
    for _ in range(depth - 1):
        token = api.get(path_of(POLR), accept=PARTIAL_LIST,
                        **{"limit": page, "continue": token}).json["metadata"]["continue"]
    events = scaled(45000, 900)
    note(f"{events} changes for the log")
    bench.database.psql(f"""UPDATE kube_reports.object o
        SET metadata = jsonb_set(o.metadata::jsonb, '{{labels,touched}}', '"yes"')::kube_reports.report
        FROM (SELECT cluster_id, resource_type, namespace, name FROM kube_reports.object ORDER BY uid LIMIT {events}) t
        WHERE (o.cluster_id, o.resource_type, o.namespace, o.name)
            = (t.cluster_id, t.resource_type, t.namespace, t.name)""")
    # A small report under ever new names: as many changes as writes.
    body = bench.directory / "polr"
    body.write_text('{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"' + NUMBERED
                    + '"},"summary":{"pass":1}}\n', encoding="utf-8")
    writes = 500
    writer = bench.load(path_of(POLR, "writes"), "--method=POST", f"--bodies={body}", "--connections=8",
                        f"--rate={writes}", "--seconds=3600", wait=False)
    try:
        times = {1: [], depth: []}
        for _ in range(scaled(40, 10)):
            for at, query in ((1, ""), (depth, f"&continue={token}")):
                times[at].append(bench.load(f"{path_of(POLR)}?limit={page}{query}", "--requests=1")["seconds"])
    finally:
        writer.terminate()
        written = bench.result(writer.communicate(timeout=60)[0])
    first, deep = (statistics.median(times[at]) * 1000 for at in (1, depth))
    # The same cost: neither may be dearer than the other.
    ratio = max(deep / first, first / deep)
    row("page", f"{page} of {count:,}, depth {depth} and 1; {written['per_second']:.0f} writes/s", deep, first, "ms",
        ratio, f"within 1.5, {writes} writes/s", ratio <= 1.5 and written["per_second"] >= 0.95 * writes,
        writes_per_second=written["per_second"])


def rewrite(bench, mark, tenths):
    """Writes objects again as the owner, each with another annotation, a tenth in a transaction;
    all that are asked for."""
    for tenth in tenths:
        condition = f"abs(hashtext(o.name)) % 10 = {tenth}"
        counted = bench.database.psql(f"""
            WITH written AS (UPDATE kube_reports.object o
                SET metadata = (o.metadata::jsonb
                    || '{{"annotations": {{"rewritten": "{mark}"}}}}')::kube_reports.report
                WHERE {condition} RETURNING 1)
            SELECT count(*) > 0 AND count(*) = (SELECT count(*) FROM kube_reports.object o WHERE {condition})
                FROM written""")
        assert counted == "t", "not all were written again"


def lookup_ms(bench, count):
    """Median of lists by the uid label of one among the stored reports."""
    choice = random.Random(count)
    path = path_of(EPHR) + "?labelSelector=audit.kyverno.io%2Fresource.uid%3D" + NUMBERED
    found = bench.proxy.api().get(path.replace("@" * 12, f"{count // 2:012}")).json["items"]
    assert len(found) == 1, f"{len(found)} reports have the label of one"
    medians = []
    for _ in range(21):
        medians.append(bench.load(path, "--requests=20", f"--first-number={choice.randrange(1, count - 30)}")["p50_ms"])
    return statistics.median(medians)


def bench_lookup(bench):
    """lookup: one report by a label, among many and among few."""
    few, many = scaled(10000, 500), scaled(1000000, 5000)
    bench.fill("small", 1, few)
    among_few = lookup_ms(bench, few)
    bench.fill("small", few + 1, many)
    among_many = lookup_ms(bench, many)
    row("lookup", f"by label among {many:,} and {few:,}", among_many, among_few, "ms", among_many / among_few,
        "under 5 ms, within 3", among_many < 5 and among_many / among_few <= 3)


def watchers(bench, ports, *options, wait=True):
    """Runs the watchers; what they saw, or the process when wait is off."""
    pki = bench.stack.pki
    command = [str(BUILD / "watchers"), f"--ports={','.join(map(str, ports))}", f"--ca={pki}/ca.crt",
               f"--certificate={pki}/admin.crt", f"--key={pki}/admin.key", *options, path_of(POLR, "%s")]
    if not wait:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return json.loads(run(command, timeout=900).out)


def bench_watch(bench):
    """watch-metadata, watch-objects:
    a thousand watchers at two proxies, beside two hundred that read nothing; every event to everyone it concerns."""
    ports = [bench.proxy.port, bench.stack.proxy().port]
    count, slow = scaled(1000, 50), scaled(200, 10)
    for name, rate, words, options in (
            ("watch-metadata", 20, "all namespaces", [f"--accept={PARTIAL}"]),
            ("watch-objects", 100, "1 write in 50", ["--namespaces=50"])):
        writes = int(rate * seconds(20))
        seen = watchers(bench, ports, f"--watchers={count + slow}", f"--slow={slow}", f"--writes={writes}",
                        f"--rate={rate}", *options)
        whole = (not seen["failed"] and seen["writes"] == writes
                 and seen["missing"] == seen["doubled"] == seen["ended"] == 0)
        row(name, f"{count:,} watchers, {rate} writes/s, {words}", seen["p99_ms"], seen["p50_ms"], "ms", None,
            "p99 under 250, none missed", whole and seen["p99_ms"] < 250, **seen)
        row(name + "-sends", f"{seen['events']:,} events sent in {seen['seconds']:.0f} s",
            seen["events"] / seen["seconds"], seen["bytes"] / seen["seconds"] / 1e6, "/s; MB", None, "reported", None)


def bench_feed(bench):
    """feed: 64 watchers at 8 workers: how often an event is rendered that each of these delivers."""
    proxy = bench.stack.proxy(flags=["--workers=8", "--database-connections=40"])
    rendered = ("kube_reports_feed_events_rendered_total", "kube_reports_watch_events_rendered_total")
    before, writes = sum(map(proxy.metric, rendered)), int(50 * seconds(10))
    seen = watchers(bench, [proxy.port], "--watchers=64", f"--writes={writes}", "--rate=50")
    each = (sum(map(proxy.metric, rendered)) - before) / writes
    whole = not seen["failed"] and seen["writes"] == writes and seen["missing"] == seen["doubled"] == seen["ended"] == 0
    row("feed", "64 watchers, 8 workers: renderings of an event", each, None, "", None, "at most 1.02, none missed",
        whole and each <= 1.02, **seen)
    proxy.stop()


def bench_idle(bench):
    """idle-watch: memory of the proxy for a watch that nothing happens to."""
    count = scaled(5000, 200)
    # What a worker allocates once shall not count.
    warm = watchers(bench, [bench.proxy.port], "--watchers=50", wait=False)
    assert warm.stdout.readline() == "ready\n"
    before = bench.proxy.memory("VmRSS")
    idle = watchers(bench, [bench.proxy.port], f"--watchers={count}", wait=False)
    assert idle.stdout.readline() == "ready\n"
    each = (bench.proxy.memory("VmRSS") - before) / count / 1024
    for process in (warm, idle):
        process.communicate(timeout=60)
    row("idle-watch", f"{count:,} idle watchers", each, None, "KiB", None, "at most 32", each <= 32)


def bench_growth(bench):
    """growth: creates into a large store that was rewritten three times, beside a snapshot of 60 s,
    against creates into a small one."""
    few, many, duration = scaled(10000, 500), scaled(1000000, 5000), seconds(20)
    bench.fill("small", 1, few)
    create_rate(bench, 8, 2)
    small = create_rate(bench, 8, duration)["per_second"]
    bench.fill("small", few + 1, many)
    for n in range(3):
        note(f"rewrite {n + 1} of {many:,} objects")
        rewrite(bench, n, range(10))
    reader = subprocess.Popen(["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d",
                               bench.database.connection()],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        # The first query takes the snapshot; with its answer it is there, and it stays until the transaction ends.
        reader.stdin.write("BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT count(*) FROM kube_reports_internal.lane;\n")
        reader.stdin.flush()
        assert int(reader.stdout.readline()) > 0
        large = create_rate(bench, 8, seconds(60))["per_second"]
    finally:
        reader.communicate("SELECT count(*) FROM kube_reports_internal.lane;\nCOMMIT;\n", timeout=60)
    assert reader.returncode == 0, "the old snapshot did not last"
    row("growth", f"creates among {many:,} and {few:,}", large, small, "/s", small / large, "within 1.5",
        small / large <= 1.5)


def first_sync(bench, count):
    """How a metadata informer begins, in the three ways that there are:
    seconds for each, those of each page, and what the proxy grew by."""
    path = path_of(EPHR)
    before = bench.proxy.memory("VmRSS")
    bench.proxy.reset_peak()
    # One that lasts longer than --request-timeout is cut.
    begun = time.time()
    try:
        bench.load(path, "--requests=1", f"--accept={PARTIAL_LIST}")
        found = {"list": time.time() - begun}
    except AssertionError:
        found = {"list": None}

    api, token, pages, begun = bench.proxy.api(keep=True), "", [], time.time()
    while token is not None:
        page_begun = time.time()
        page = api.get(path, accept=PARTIAL_LIST, limit="500", **({"continue": token} if token else {}))
        assert page.code == 200, page
        pages.append(time.time() - page_begun)
        # The list's metadata stand at its end.
        token = re.search(rb'"continue":"([^"]*)"', page.body[-4096:])
        token = token[1].decode() if token else None
    found["pages"] = time.time() - begun
    assert len(pages) == -(-count // 500), f"{len(pages)} pages"

    begun, events = time.time(), 0
    connection = bench.proxy.api().connect(600)
    connection.request("GET", f"{path}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
                       "&allowWatchBookmarks=true",
                       headers={"User-Agent": "bench/1.0", "Accept": PARTIAL})
    answer = connection.getresponse()
    while b"k8s.io/initial-events-end" not in (line := answer.readline()):
        assert line, "the stream ended before its bookmark"
        events += 1
    found["watch"] = time.time() - begun
    connection.close()
    assert events == count, f"{events} initial events"
    return found, pages, (bench.proxy.memory("VmHWM") - before) / MEBIBYTE


def bench_backlog(bench):
    """backlog: a store full of ephemeral reports:
    informers' first sync, pages, deletecollection, and what churn does to the table."""
    count = scaled(1000000, 4000)
    share = count // 20
    bench.fill("small", 1, count, namespaces=20)
    size = "SELECT pg_total_relation_size('kube_reports.object')"
    fresh = int(bench.database.psql(size))

    found, pages, grown = first_sync(bench, count)
    for way, words in (("list", "in one list"), ("pages", "in pages of 500"), ("watch", "as initial events")):
        whole = found[way] is not None
        row(f"backlog-sync-{way}", f"metadata of {count:,} {words}", count / found[way] if whole else None, found[way],
            "/s; s", None, "whole", whole)
    row("backlog-sync-memory", "growth of the proxy meanwhile", grown, None, "MiB", None, "at most 64", grown <= 64)
    tenth = len(pages) // 10 + 1
    first, last = statistics.median(pages[:tenth]) * 1000, statistics.median(pages[-tenth:]) * 1000
    row("backlog-pages", f"the last tenth of {len(pages):,} pages, and the first", last, first, "ms", last / first,
        "within 1.5", last / first <= 1.5)

    # Others write to the same lane meanwhile, and somebody watches.
    writer = bench.load(path_of(EPHR, "create"), "--method=POST", f"--bodies={bench.bodies()}", "--connections=2",
                        "--rate=50", "--seconds=3600", wait=False)
    version = bench.proxy.api().get(path_of(EPHR, "ns-3"), accept=PARTIAL_LIST,
                                    limit="1").json["metadata"]["resourceVersion"]
    with bench.proxy.api().watch(path_of(EPHR, "ns-3"), PARTIAL, resourceVersion=version) as watch:
        begun, requests, code = time.time(), 0, 504
        # A request that outlasts --request-timeout has deleted a part.
        # A client that wants to delete all asks again, as the namespace controller does.
        while code == 504:
            code = bench.proxy.api().request("DELETE", path_of(EPHR, "ns-3"), seconds=600).code
            requests += 1
        assert code == 200, code
        taken = time.time() - begun
        seen = {watch.change(60)[1]["metadata"]["name"] for _ in range(share)}
        lag = time.time() - begun - taken
    writer.terminate()
    p99 = bench.result(writer.communicate(timeout=60)[0])["p99_ms"]
    row("backlog-delete", f"deletecollection of {share:,}, {requests} requests; last event {lag:.1f} s later",
        share / taken, taken, "/s; s", None, "a watcher sees each", len(seen) == share)
    row("backlog-delete-others", "p99 of creates beside it", p99, None, "ms", None, "below the lock timeout",
        p99 < 2000)

    # Half of it is written again, a tenth at a time; autovacuum has what the extension's tables ask for.
    vacuums = "SELECT autovacuum_count FROM pg_stat_user_tables WHERE relid = 'kube_reports.object'::regclass"
    for n in range(5):
        before = int(bench.database.psql(vacuums))
        rewrite(bench, n, [n])
        until(lambda: int(bench.database.psql(vacuums)) > before, 300, "autovacuum")
    churned = int(bench.database.psql(size))
    row("backlog-bloat", "size of the table, half of it written again", churned / 1e6, fresh / 1e6, "MB",
        churned / fresh, "within 1.25", churned / fresh <= 1.25)


def processor_seconds(*processes):
    """What processes have used so far, with those of their children that have ended."""
    ticks = 0
    for pid in processes:
        # A backend may end between its being listed and this: it then counts as a child that has ended, next time.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def bench_sizing(bench):
    """sizing: what a write of each kind costs: log, processor time of the database and of the proxy, and what stays."""
    count = scaled(10000, 500)
    server = int(pathlib.Path(bench.database.directory,
                              "data/postmaster.pid").read_text(encoding="ascii").splitlines()[0])
    times, changed = bench.policy_reports(1800000000), bench.directory / "changed"
    changed.write_text("".join(line.replace('"pass"', '"fail"', 2) + "\n"
                               for line in times.read_text(encoding="utf-8").splitlines()), encoding="utf-8")
    path, merge = path_of(POLR, "sizing", NUMBERED), "--content-type=application/merge-patch+json"
    kinds = (("an ephemeral report", path_of(EPHR, "create"), ("--method=POST", f"--bodies={bench.bodies()}")),
             ("19 results", path_of(POLR, "sizing"), ("--method=POST", f"--bodies={bench.policy_reports()}")),
             ("the same, new times", path, ("--method=PATCH", f"--bodies={times}", merge)),
             ("two of 19 changed", path, ("--method=PATCH", f"--bodies={changed}", merge)),
             ("a deletion", path, ("--method=DELETE",)))

    def used():
        with open(f"/proc/{server}/task/{server}/children", encoding="ascii") as children:
            backends = children.read().split()
        return (processor_seconds(server, *backends), processor_seconds(*bench.proxy.processes()),
                int(bench.database.psql("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')")))
    for kind, target, how in kinds:
        bench.database.psql("CHECKPOINT", user="postgres")
        before = used()
        result = bench.load(target, *how, "--connections=8", f"--requests={count}")
        database, proxy, log = (then - now for then, now in zip(used(), before))
        sizes = [float(size) for size in bench.database.psql(
            "SELECT object_bytes / 1e6, log_bytes / 1e6, result_bytes / 1e6, history_bytes / 1e6, count_bytes / 1e6"
            " FROM kube_reports.status").split("|")]
        row("sizing", f"{kind}: {result['per_second']:.0f}/s, store {sum(sizes):.0f} MB", log / count / 1024,
            None, "KB", None, "", None)
        note(f"{kind}: {database / count * 1000:.2f} ms of the database, {proxy / count * 1000:.2f} ms of the proxy "
             f"for each;"
             f" proxy holds {bench.proxy.memory() / MEBIBYTE:.0f} MB")
        note("MB of objects {:.1f}, log {:.1f}, results {:.1f}, history {:.1f}, counts {:.1f}".format(*sizes))


def bench_forward(bench):
    forward.measure(bench, row, scaled(10), free_port())


def bench_variant(bench):
    variant.measure(bench, row, scaled(4000, 200))


def bench_scale(bench):
    """scale: every step among 10, 100 and 1,000 thousand reports; BENCH_SIZES names others."""
    sizes = [int(size) for size in os.environ.get("BENCH_SIZES", "").split()]
    scale.measure(bench, row, sizes or [scaled(10000, 500), scaled(100000, 1500), scaled(1000000, 3000)])


def bench_fleet(bench):
    """fleet-*: 2, 5 and 10 clusters of 5,000 pods, and the slope; BENCH_CLUSTERS names other numbers of them."""
    clusters.measure(bench, row, clusters.sizes(os.environ.get("BENCH_CLUSTERS", ""), [2, 5, 10]),
                   scaled(clusters.PODS, 50))


BENCHMARKS = {"list": bench_list, "create": bench_create, "results": bench_results, "cost": bench_cost,
              "disk": bench_disk, "turnover": bench_turnover, "analytics": bench_analytics, "score": bench_score,
              "questions": bench_questions, "page": bench_page, "lookup": bench_lookup, "watch": bench_watch,
              "feed": bench_feed, "idle": bench_idle, "growth": bench_growth, "backlog": bench_backlog,
              "sizing": bench_sizing, "forward": bench_forward, "scale": bench_scale, "fleet": bench_fleet,
              "variant": bench_variant}
# Take long: only where they are named.
LONG = {"scale", "fleet"}


def main():
    unknown = set(WANTED) - set(BENCHMARKS)
    if unknown:
        sys.exit(f"no such rows: {' '.join(sorted(unknown))}; there are {' '.join(BENCHMARKS)}")
    # Everything is cleaned up on the way out.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    started = time.time()
    print(f"{'row':<18} {'workload':<44} {'measured':>12} {'baseline':>12} {'unit':<6} {'ratio':>7}  bar")
    for name, benchmark in BENCHMARKS.items():
        if name not in (WANTED or BENCHMARKS.keys() - LONG):
            continue
        # Each benchmark has a server of its own, so that the remains of one do not change the next.
        bench = Bench()
        try:
            benchmark(bench)
        finally:
            bench.end()
    with open(OUTPUT, "w", encoding="utf-8") as file:
        json.dump({"scale": SCALE, "started": int(started), "seconds": round(time.time() - started),
                   "processors": os.cpu_count(),
                   "postgresql": stack_command("server_version"), "rows": rows}, file, indent=1)
        file.write("\n")
    note(f"JSON in {OUTPUT}")
    sys.exit(any(result["passed"] is False for result in rows))


if __name__ == "__main__":
    main()
