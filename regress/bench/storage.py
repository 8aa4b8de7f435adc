"""What a store takes on disk, and what it costs when it is large, rewritten or turned over."""

import re
import statistics
import subprocess
import time

import floors
from client import EPHR, PARTIAL, PARTIAL_LIST, path_of, until
from creates import create_rate
from workbench import MEBIBYTE, note, row, scaled, seconds


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
    plain = floors.bytes_of_plain(bench, ["kube_reports.object", *(f"kube_reports_internal.{name}"
                                                                   for name in tables)]) / 1e6
    row("disk-keys", "the same rows in plain tables, primary keys alone", plain, None, "MB", None, "reported", None)
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
