"""Where cost grows: the same steps in one database at sizes that are ten times each other."""

import pathlib
import shutil
import statistics
import time

import psycopg2

from client import POLR, path_of, run
from workbench import NUMBERED, note

NAMESPACES = 200
PAGE = 500
WRITES = 1000
STEP = 5000                     # changes that a step of compaction removes

# The rows of the table: name, unit, words, whether the cost should stay as it is while the store grows.
STEPS = [
    ("create", "ms", "create, 8 clients: processor time of the database for each", True),
    ("update", "ms", "update of three of 19 results, 8 clients: the same", True),
    ("page", "ms", f"list, limit={PAGE}: the same", True),
    ("label", "ms", "list by a label that one report has: the same", True),
    ("cvss", "ms", "`reports_with_score(8.0)`, first 100, as a reader of everything", True),
    ("failing", "ms", f"failing by policy and namespace, {NAMESPACES} namespaces", True),
    ("fold", "ms", "folding the counts of 500 new reports", True),
    ("compact", "ms", f"a step of compaction, {STEP:,} changes", True),
    ("dump", "s", "pg_dump -Fd -j 2", False),
    ("dump-mib", "MiB", "its size", False),
    ("restore", "s", "pg_restore -j 2", False),
    ("after-restore", "s", "after_restore(): checks and all results again", False),
    ("database", "MiB", "size of the database", False),
]


def processor_ms(pids):
    """What these processes have used."""
    total = 0
    for pid in pids:
        try:
            total += int(pathlib.Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e6
        except (FileNotFoundError, ProcessLookupError):
            pass
    return total


class Session:
    """One of the database, and the processor time of what it is asked."""

    def __init__(self, bench, role="kube_reports_owner"):
        self.session = psycopg2.connect(bench.database.connection(role))
        self.session.autocommit = True
        self.cursor = self.session.cursor()

    def cost(self, sql, times=1):
        """The median of the calls, after one that is not counted when there are several."""
        pid, used = [self.session.get_backend_pid()], []
        for _ in range(times + (times > 1)):
            before = processor_ms(pid)
            self.cursor.execute(sql)
            used.append(processor_ms(pid) - before)
        return statistics.median(used[-times:])


class Store:
    """The store that grows, and the steps that are measured in it."""

    def __init__(self, bench):
        # What upkeep does is measured here: nothing does it beside.
        bench.proxy.stop()
        bench.proxy = bench.stack.proxy(flags=["--upkeep=false"])
        self.bench = bench
        self.owner, self.reader = Session(bench), Session(bench, "kube_reports_reader")
        self.stored = self.written = 0

    def fill(self, count):
        self.bench.fill("fleet", self.stored + 1, count, namespaces=NAMESPACES)
        self.stored = count
        self.bench.fold()
        self.bench.upkeep()
        self.bench.vacuumed("kube_reports.object")
        self.bench.vacuumed("kube_reports_internal.result")

    def requests(self, path, number, *options):
        """Requests of load, and what each costs the database's processes that serve the proxy."""
        pids = self.bench.backends()
        before = processor_ms(pids)
        self.bench.load(path, f"--requests={number}", *options)
        return (processor_ms(pids) - before) / number

    def reads(self, path, number, *options):
        """requests() after as many that are not counted: a session first maps the shared memory that it reads."""
        self.requests(path, number, *options)
        return self.requests(path, number, *options)

    def writes(self):
        """(create, update) of reports in a namespace of their own, which then has so many more."""
        bench, first = self.bench, f"--first-number={1 + self.written}"
        bodies = bench.directory / "scale-bodies"
        bodies.write_text(bench.policy_reports().read_text(encoding="utf-8").replace(
            '"labels":{', f'"labels":{{"scale/name":"{NUMBERED}",'), encoding="utf-8")
        made = self.requests(path_of(POLR, "scale"), WRITES, "--method=POST", f"--bodies={bodies}", "--connections=8",
                             first)
        updated = self.requests(path_of(POLR, "scale", NUMBERED), WRITES, "--method=PATCH",
                                f"--bodies={bench.policy_updates()}", "--content-type=application/merge-patch+json",
                                "--connections=8", first)
        self.written += WRITES
        return made, updated

    def fold(self):
        """Counts of 500 new reports."""
        self.bench.fold()
        generate = pathlib.Path(__file__).parent / "generate.sql"
        self.bench.script(f"\\i {generate}\nSELECT pg_temp.store('{self.bench.stack.cluster}', 'fleet',"
                          f" {self.stored + 1}, {self.stored + 500}, {NAMESPACES})")
        self.stored += 500
        return self.owner.cost("SELECT kube_reports_internal.fold_rollups()")

    def compact(self):
        """One step over changes that are too old."""
        self.owner.cost("SELECT kube_reports.set_setting('log_retention', '1 second')")
        used = self.owner.cost(f"SELECT kube_reports_internal.compact({STEP})")
        self.owner.cost("SELECT kube_reports.set_setting('log_retention', NULL)")
        return used

    def dump_and_restore(self):
        """(seconds of the dump, its MiB, seconds of the restore, seconds until all results are there)"""
        directory, database = self.bench.directory / "dump", self.bench.database

        def timed(*command):
            begun = time.monotonic()
            run(list(command), timeout=7200)
            return time.monotonic() - begun
        bindir = database.bindir()
        dumped = timed(f"{bindir}/pg_dump", "-Fd", "-j", "2", "-f", str(directory), "-d", database.connection())
        size = sum(file.stat().st_size for file in directory.iterdir()) / 1024 / 1024
        database.psql("CREATE DATABASE restored OWNER kube_reports_owner", "postgres", "postgres")
        target = database.connection(database="restored")
        try:
            restored = timed(f"{bindir}/pg_restore", "-j", "2", "--exit-on-error", "-d", target, str(directory))
            derived = timed("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", target, "-o", "/dev/null", "-c",
                            "SELECT kube_reports.after_restore()")
        finally:
            database.psql("DROP DATABASE restored", "postgres", "postgres")
            shutil.rmtree(directory)
        return dumped, size, restored, derived

    def measure(self, count):
        """What each step costs among so many reports: {name of a step: number}"""
        begun = time.monotonic()
        self.fill(count)
        note(f"{count:,} reports: stored after {time.monotonic() - begun:.0f} s")
        found = {}
        found["create"], found["update"] = self.writes()
        found["page"] = self.reads(f"{path_of(POLR)}?limit={PAGE}", 40)
        found["label"] = self.reads(f"{path_of(POLR)}?labelSelector=scale%2Fname%3D{NUMBERED}", 200,
                                    f"--first-number={1 + self.written - WRITES}")
        # Proxies with upkeep fold once a second.  How many rows the last writes have left depends on their batches.
        self.bench.fold()
        found["cvss"] = self.reader.cost("SELECT * FROM kube_reports.reports_with_score(8.0)", 11)
        found["failing"] = self.reader.cost("SELECT namespace, policy, warn, fail, error"
                                            " FROM kube_reports.failing_by_policy_namespace", 11)
        found["fold"] = self.fold()
        found["compact"] = self.compact()
        size = "SELECT pg_database_size('kube_reports') / 1048576.0"
        found["database"] = float(self.bench.database.psql(size))
        found["dump"], found["dump-mib"], found["restore"], found["after-restore"] = self.dump_and_restore()
        note(f"{count:,} reports: done after {time.monotonic() - begun:.0f} s: "
             + ", ".join(f"{name} {value:.4g}" for name, value in found.items()))
        return found


def table(columns):
    """Lines of Markdown; columns are {number of reports: what measure() found}."""
    sizes = sorted(columns)
    yield f"| | {' | '.join(f'{size:,} reports' for size in sizes)} | last against first |"
    yield "| --- |" + " --- |" * (len(sizes) + 1)
    for name, unit, words, _ in STEPS:
        values = [columns[size][name] for size in sizes]
        yield f"| {words} | {' | '.join(f'{value:.3g} {unit}' for value in values)} | {values[-1] / values[0]:.2g} |"


def measure(bench, row, sizes):
    """Rows for all sizes, and the table."""
    store = Store(bench)
    columns = {size: store.measure(size) for size in sizes}
    for name, unit, words, flat in STEPS:
        first, last = columns[sizes[0]][name], columns[sizes[-1]][name]
        row(f"scale-{name}", f"{sizes[-1]:,} and {sizes[0]:,} reports", last, first, unit, last / first,
            "within 1.5" if flat else "reported", last / first <= 1.5 if flat else None, columns={
                size: column[name] for size, column in columns.items()})
    print("\n".join(table(columns)), flush=True)
