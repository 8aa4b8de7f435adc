"""Lists, pages and searches by label: a list against the same bytes as a static file."""

import contextlib
import json
import os
import random
import statistics
import subprocess

import psycopg2

import scale
from client import EPHR, PARTIAL_LIST, POLR, path_of
from conftest import free_port
from workbench import BUILD, MEBIBYTE, NUMBERED, Bench, note, row, scaled


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
        times, used, client = ({side: [] for side in sides} for _ in range(3))
        for _ in range(5):
            for side, (path, at, *options) in sides.items():
                spent = scale.processor_ms(processes)
                result = bench.load(path, "--requests=3", *options, port=at)
                times[side].append(result["seconds"] / 3)
                used[side].append((scale.processor_ms(processes) - spent) / 3)
                client[side].append(result["processor_seconds"] * 1000 / 3)
        grown = (bench.proxy.memory("VmHWM") - before) / MEBIBYTE
    finally:
        server.kill()
        server.wait()
    size = (saved / "list.json").stat().st_size
    full, static, metadata, static_metadata = (statistics.median(times[side]) for side in sides)
    processor = {side: statistics.median(each) for side, each in used.items()}
    # Processor time of the servers depends less than the clock on what else runs.
    fast = static / full >= 0.7
    row("list", f"{size / 1e6:.0f} MB; {processor['full']:.0f} ms of processors, static {processor['static']:.0f}",
        size / full / 1e6, size / static / 1e6, "MB/s",
        static / full, "at least 0.7", fast, reports=count, processor_ms=processor)
    # With so few processors the list cannot be faster, however well its processes work side by side.
    shared = (processor["full"] + statistics.median(client["full"])) / os.cpu_count()
    row("list-processors", f"work of database, proxy and client, on {os.cpu_count()} processors", shared, static * 1000,
        "ms", static * 1000 / shared, "reported", None)
    row("list-memory", "growth of the proxy during the lists", grown, None, "MiB", None, "at most 64", grown <= 64)
    # The bar of metadata holds in a run in which the list meets its own.
    row("list-metadata", f"its metadata, while the list {'meets' if fast else 'misses'} its bar", metadata * 1000,
        full * 1000, "ms", metadata / full, "at most 60, list at its bar", fast and metadata <= 0.06,
        processor_ms=processor["metadata"])
    row("list-metadata-static", "the same bytes as a static file", static_metadata * 1000, None, "ms", None,
        "reported", None)


REQUEST = {"verb": "list", "group": "wgpolicyk8s.io", "version": "v1alpha2", "resource": "policyreports", "query": {},
           "accept": "application/json"}
# What the proxy of each variant calls; %s: the cursor.
LIST_CALLS = {
    "c": "kube_reports_internal.api_list('{cluster}', '{request}', %s)",
    "sql": "kube_reports_internal.api_list('{cluster}', NULL, %s, 'wgpolicyk8s.io', 'v1alpha2', 'policyreports', NULL,"
           " true, '', '{{}}', '', NULL, 0, NULL, 0, false, false, '', '')"}


def list_megabytes(bench, count):
    """MB of the JSON of a list for each second of the processor that a backend takes: by api_list(), and for the same
    columns without a function"""
    bench.load(path_of(POLR, "list"), "--method=POST", f"--bodies={bench.policy_reports()}", "--connections=8",
               f"--requests={count}")
    size = bench.load(path_of(POLR), "--requests=1")["bytes"]
    call = LIST_CALLS[bench.database.variant].format(cluster=bench.stack.cluster, request=json.dumps(REQUEST))
    columns = "SELECT o.version, o.metadata, o.body FROM kube_reports.object o"
    best = {}
    with contextlib.closing(psycopg2.connect(bench.database.connection("kube_reports_proxy"))) as proxy, \
            contextlib.closing(psycopg2.connect(bench.database.connection())) as owner, open("/dev/null", "wb") as sink:
        proxy.autocommit = owner.autocommit = True
        cursor, pieces = proxy.cursor(), [None]
        while len(pieces) == 1 or pieces[-1] is not None:
            cursor.execute(f"SELECT max(l.next_cursor), sum((l.metadata IS NOT NULL)::integer) FROM {call} l",
                           (pieces[-1],))
            following, items = cursor.fetchone()
            count -= items
            pieces.append(following)
        assert count == 0, f"the pieces lack {count} reports"
        calls = [cursor.mogrify(f"SELECT * FROM {call}", (piece,)).decode() for piece in pieces[:-1]]
        for way, session, queries in (("list", proxy, calls), ("columns", owner, [columns])):
            cursor, pid, used = session.cursor(), [session.get_backend_pid()], []
            for _ in range(6):
                spent = scale.processor_ms(pid)
                for query in queries:
                    cursor.copy_expert(f"COPY ({query}) TO STDOUT (FORMAT binary)", sink)
                used.append(scale.processor_ms(pid) - spent)
            best[way] = size / 1e3 / min(used)
    return best


def bench_list_rate(bench):
    """list-rate: what the database sends of a list in a second of its processor, in both variants."""
    count = scaled(1500, 150)
    for variant in ("c", "sql"):
        side = bench if bench.database.variant == variant else Bench(variant)
        try:
            best = list_megabytes(side, count)
        finally:
            if side is not bench:
                side.end()
        row(f"list-rate-{variant}", f"{count:,} reports: api_list(), and its columns alone", best["list"],
            best["columns"], "MB/s", best["list"] / best["columns"], "reported", None)


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
