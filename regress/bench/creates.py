"""Writes: creates against INSERTs of the same text or rows, re-scans, updates, and what a write costs."""

import contextlib
import os
import pathlib
import shutil
import statistics

import floors
import scale
from client import EPHR, PARTIAL_LIST, POLR, path_of
from workbench import BUILD, MEBIBYTE, NUMBERED, SETTINGS, note, row, scaled, seconds


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
    count = scaled(10000, 200)
    found, batches, shared = {}, {}, {}
    for clients in (8, 32):
        for part in ("warm", "measured"):
            before = written_batches(bench)
            processes = [*bench.backends(), *bench.proxy.processes()]
            spent = scale.processor_ms(processes)
            found[clients] = bench.load(path_of(POLR, f"create-{clients}-{part}"), "--method=POST",
                                        f"--bodies={bench.policy_reports()}", f"--connections={clients}",
                                        f"--requests={count if part == 'measured' else count // 10}")
            writes, number = (now - then for now, then in zip(written_batches(bench), before))
            batches[clients] = writes / number
            shared[clients] = ((scale.processor_ms(processes) - spent) / 1000 + found[clients]["processor_seconds"]
                               ) / os.cpu_count() / found[clients]["ok"]
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
        # With so few processors creates cannot be faster, even if no process ever waits.
        row(f"create-results-{clients}-processors",
            f"work of database, proxy and client, on {os.cpu_count()} processors", 1 / shared[clients], plain, "/s",
            1 / shared[clients] / plain, "reported", None)

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
    bench_replacements(bench, count // 2)
    assert bench.database.psql("SELECT * FROM kube_reports.verify()") == ""


def places(count):
    """{clients: (number of the first report that they update, how many)}: the body of each is that of its creation."""
    return {1: (1 + -(-count // 64) * 64, count // 10), 8: (1, count)}


def bench_updates(bench, count):
    """update: three of 19 results get another status.

    Eight clients share batches: each waits for less than eight updates."""
    states = [bench.policy_updates(), bench.policy_reports(0)]
    median = {1: [], 8: []}
    for part in range(4):
        for clients, (first, number) in places(count).items():
            result = bench.load(path_of(POLR, "create-32-measured", NUMBERED), "--method=PATCH",
                                f"--bodies={states[part % 2]}",
                                "--content-type=application/merge-patch+json", f"--connections={clients}",
                                f"--requests={number}", f"--first-number={first}")
            median[clients].append(result["p50_ms"])
    alone, together = statistics.median(median[1]), statistics.median(median[8])
    row("update-8", f"changed policy reports, 8 clients; {result['per_second']:.0f} a second", together, alone, "ms",
        together / alone, "at most 4.5", together / alone <= 4.5, p99_ms=result["p99_ms"])


def bench_replacements(bench, count):
    """put: the same change by PUT of the whole report, with the version that a list has given."""
    path, versions = path_of(POLR, "create-32-measured"), bench.directory / "versions"
    states = [bench.policy_replacements(True), bench.policy_replacements(False)]
    events = "SELECT count(*) FROM kube_reports_internal.result_change"
    before, median, puts = int(bench.database.psql(events)), {1: [], 8: []}, 0
    for part in range(4):
        for clients, (first, number) in places(count).items():
            items = bench.proxy.api().get(path, accept=PARTIAL_LIST, seconds=60).json["items"]
            # A list is in the order of names, and these are numbers.
            versions.write_text("".join(item["metadata"]["resourceVersion"] + "\n"
                                        for item in items[first - 1:first - 1 + number]), encoding="utf-8")
            result = bench.load(f"{path}/{NUMBERED}", "--method=PUT", f"--bodies={states[part % 2]}",
                                f"--versions={versions}", f"--connections={clients}", f"--requests={number}",
                                f"--first-number={first}")
            puts += number
            median[clients].append(result["p50_ms"])
    changed = int(bench.database.psql(events)) - before
    alone, together = statistics.median(median[1]), statistics.median(median[8])
    row("put-8", f"changed policy reports, 8 clients; {result['per_second']:.0f} a second", together, alone, "ms",
        together / alone, "at most 25 ms, all counted", together <= 25 and changed == 3 * puts, p99_ms=result["p99_ms"],
        changed=changed / puts)


def bench_cost(bench):
    """cost: log and processor time of the database for a new policy report of 19 results, by 32 clients and alone;
    and those of INSERTs of its rows: with the same indexes, with primary keys alone, with one more index."""
    count = scaled(4000, 600)
    bench.log_no_pages()
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
