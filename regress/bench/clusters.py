"""What clusters of 5,000 pods cost together: the same steps as one cluster after another joins the database."""

import shutil
import time
import uuid

from client import run
from scale import STEP, Session
from workbench import HERE, note

PODS = 5000
REPORTS = 3                     # of each pod, 19 results each
NAMESPACES = 50
WANTED = 100                    # clusters, to which the slope is extended

# name, unit, words, what it is asked (None: measured otherwise)
DAY = "(now() AT TIME ZONE 'UTC')::date"
STEPS = [
    ("ingest", "ms", "storing a report with 19 results: processor time of the database", None),
    ("matrix", "ms", "`fleet_matrix`, all lines", "SELECT count(*) FROM (SELECT * FROM kube_reports.fleet_matrix "
     "OFFSET 0) m"),
    ("matrix-policy", "ms", "`fleet_matrix` of one rule", "SELECT * FROM kube_reports.fleet_matrix "
     "WHERE policy = 'restrict-seccomp' AND fail > 0"),
    ("score", "ms", "`fleet_score()` over 30 days", f"SELECT * FROM kube_reports.fleet_score({DAY} - 29, {DAY})"),
    ("scores", "ms", "`compliance_score()` of each cluster over 30 days",
     f"SELECT * FROM kube_reports.compliance_score({DAY} - 29, {DAY})"),
    ("freshness", "ms", "`fleet_freshness`", "SELECT * FROM kube_reports.fleet_freshness"),
    ("search", "ms", "first 100 failures by label of clusters", "SELECT * FROM kube_reports.search_results("
     "'{\"cluster_labels\": \"env=prod\", \"status\": \"fail\", \"severity\": [\"high\", \"medium\"]}', 100)"),
    ("drift", "ms", "`fleet_drift()` of two clusters", "SELECT d.* FROM kube_reports.fleet_freshness a, "
     "kube_reports.fleet_freshness b, kube_reports.fleet_drift(a.cluster, b.cluster) d "
     "WHERE a.cluster_name = 'fleet-1' AND b.cluster_name = 'fleet-2'"),
    ("compact", "ms", f"a step of retention of the log, at most {STEP:,} changes of each cluster", None),
    ("fold", "ms", "folding the counts of 100 new reports", None),
    ("dump", "s", "pg_dump -Fd -j 2", None),
    ("dump-mib", "MiB", "its size", None),
    ("database", "MiB", "size of the database", None),
]


class Fleet:
    """A database that clusters join."""

    def __init__(self, bench, pods):
        # What upkeep does is measured here: nothing does it beside.
        bench.proxy.stop()
        self.bench, self.reports, self.clusters = bench, pods * REPORTS, []
        self.owner, self.reader = Session(bench), Session(bench, "kube_reports_reader")
        self.owner.cursor.execute((HERE / "generate.sql").read_text(encoding="utf-8").replace(
            "\\ir ../samples/pss.sql", (HERE.parent / "samples" / "pss.sql").read_text(encoding="utf-8")))

    def store(self, first, last):
        """Reports of the newest cluster; the processor time for each, in milliseconds."""
        used = self.owner.cost(f"SELECT pg_temp.store('{self.clusters[-1]}', 'fleet', {first}, {last}, {NAMESPACES})")
        return used / (last - first + 1)

    def join(self):
        """One more cluster; every second one is labelled."""
        self.clusters.append(str(uuid.uuid4()))
        number = len(self.clusters)
        database = self.bench.database
        database.psql(f"SELECT kube_reports.register_cluster('{self.clusters[-1]}', 'fleet-{number}')")
        if number % 2:
            database.psql(f"SELECT kube_reports.set_cluster_labels('{self.clusters[-1]}', '{{\"env\": \"prod\"}}')")
        used = [self.store(first, min(first + 4999, self.reports)) for first in range(1, self.reports + 1, 5000)]
        self.bench.fold()
        self.bench.upkeep()
        return used[-1]

    def dump(self):
        """(seconds, MiB)"""
        directory, database = self.bench.directory / "dump", self.bench.database
        begun = time.monotonic()
        run([f"{database.bindir()}/pg_dump", "-Fd", "-j", "2", "-f", str(directory), "-d", database.connection()],
            timeout=7200)
        taken = time.monotonic() - begun
        size = sum(file.stat().st_size for file in directory.iterdir()) / 1024 / 1024
        shutil.rmtree(directory)
        return taken, size

    def measure(self, clusters):
        """{name of a step: number} with so many clusters."""
        begun, found = time.monotonic(), {}
        while len(self.clusters) < clusters:
            found["ingest"] = self.join()
        for name, _, _, sql in STEPS:
            if sql is not None:
                found[name] = self.reader.cost(sql, 5)
        self.store(self.reports + 1, self.reports + 100)
        found["fold"] = self.owner.cost("SELECT kube_reports_internal.fold_rollups()")
        self.reports += 100
        self.owner.cost("SELECT kube_reports.set_setting('log_retention', '1 second')")
        found["compact"] = self.owner.cost(f"SELECT kube_reports_internal.compact({STEP})")
        self.owner.cost("SELECT kube_reports.set_setting('log_retention', NULL)")
        found["database"] = float(self.bench.database.psql("SELECT pg_database_size('kube_reports') / 1048576.0"))
        found["dump"], found["dump-mib"] = self.dump()
        note(f"{clusters} clusters: done after {time.monotonic() - begun:.0f} s: "
             + ", ".join(f"{name} {value:.4g}" for name, value in found.items()))
        return found


def line(points):
    """(slope, value at zero) of the least squares through points (x, y)."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    return slope, mean_y - slope * mean_x


def measure(bench, row, clusters, pods=PODS):
    """clusters: growing numbers of them, at least two."""
    fleet = Fleet(bench, pods)
    columns = {count: fleet.measure(count) for count in clusters}
    head = " | ".join(f"{count} clusters" for count in clusters)
    lines = [f"| | {head} | each further cluster | {WANTED} clusters |", "| --- |" + " --- |" * (len(clusters) + 2)]
    for name, unit, words, _ in STEPS:
        values = [columns[count][name] for count in clusters]
        slope, start = line(list(zip(clusters, values)))
        reached = max(start + slope * WANTED, 0)
        row(f"fleet-{name}", f"{clusters[-1]} and {clusters[0]} clusters of {pods:,} pods", values[-1], values[0], unit,
            values[-1] / values[0] if values[0] else None, "reported", None,
            columns={str(count): columns[count][name] for count in clusters}, slope=slope, extended=reached)
        lines.append(f"| {words} | {' | '.join(f'{value:.3g} {unit}' for value in values)} | {slope:.2g} {unit} | "
                     f"{reached:.3g} {unit} |")
    print("\n".join(lines), flush=True)


def sizes(text, fallback):
    """Numbers of clusters that a variable names."""
    found = [int(word) for word in text.split()] or fallback
    assert len(found) > 1 and found == sorted(set(found)), "numbers that grow, at least two"
    return found
