"""A move: one cluster goes to another database, while the neighbours of both databases write and watch."""

import time
import uuid

from client import PARTIAL, PARTIAL_LIST, POLR, path_of, report, run, until
from conftest import Database, Proxy
from workbench import SETTINGS, note, row, scaled, seconds

WRITERS = 8
RATE = 40                       # writes a second of each neighbour
NAMESPACES = 50


class Neighbour:
    """A cluster that stays: eight writers, and a watch that began before their first write."""

    def __init__(self, bench, database, name):
        self.bench, self.name, self.cluster = bench, name, str(uuid.uuid4())
        self.proxy = proxy_of(bench, database, self.cluster, name)
        version = self.proxy.api().get(path_of(POLR, name), limit="1").json["metadata"]["resourceVersion"]
        self.watch = self.proxy.api().watch(path_of(POLR, name), PARTIAL, resourceVersion=version)
        self.first, self.written = 1, []

    def write(self, duration):
        """Starts the writers."""
        self.load = self.bench.load(path_of(POLR, self.name), "--method=POST",
                                    f"--bodies={self.bench.policy_reports()}", f"--connections={WRITERS}",
                                    f"--rate={RATE}", f"--seconds={duration}", f"--first-number={self.first}",
                                    port=self.proxy.port, wait=False)
        self.first += 10 ** 8

    def end_writing(self, stop=False):
        """What the writers found; no write may have been refused."""
        if stop:
            self.load.terminate()
        self.written.append(self.bench.result(self.load.communicate(timeout=120)[0]))
        return self.written[-1]

    def missing(self):
        """How many of the written reports the watch has not brought exactly once; all, if it has ended (410)."""
        items = self.proxy.api().get(path_of(POLR, self.name), accept=PARTIAL_LIST, seconds=60).json["items"]
        expected = {item["metadata"]["name"] for item in items}
        assert len(expected) == sum(part["ok"] for part in self.written), "a write has no report"
        seen = []
        try:
            for _ in expected:
                kind, document = self.watch.change(30)
                assert kind == "ADDED", document
                seen.append(document["metadata"]["name"])
        except AssertionError as error:
            note(f"{self.name}: {error}")
        return len(expected) - len(expected.intersection(seen)) + len(seen) - len(set(seen))

    def stop(self):
        self.watch.close()
        self.proxy.stop()


def proxy_of(bench, database, cluster, role):
    database.psql(f"CREATE ROLE {role} LOGIN", user="postgres")
    database.psql(f"SELECT kube_reports.grant_proxy('{role}', '{cluster}')")
    return Proxy(database, cluster, bench.stack.pki, user=role).wait_ready()


def move(bench, new, steps):
    """Moves the cluster of the bench as docs/operations.md says; its proxy there.  steps: {name: seconds}"""
    old, cluster, begun = bench.database, bench.stack.cluster, time.monotonic()

    def step(name):
        nonlocal begun
        steps[name], begun = time.monotonic() - begun, time.monotonic()
    old.psql(f"SELECT kube_reports.hold_writes('{cluster}')")
    step("hold")
    send = (f"set -o pipefail; psql -X -v ON_ERROR_STOP=1 -d '{old.connection()}'"
            f" -c \"COPY (SELECT * FROM kube_reports.send_cluster('{cluster}')) TO STDOUT\" |"
            f" psql -X -v ON_ERROR_STOP=1 -d '{new.connection()}'"
            " -c 'COPY kube_reports.arriving_row (relation, content) FROM STDIN'")

    def sent():
        """False while counts of the cluster wait for upkeep."""
        done = run(["bash", "-c", send], check=False, timeout=3600)
        assert done.code == 0 or "waits: counts" in done.err, done.err
        return done.code == 0
    until(sent, 120, "the counts of the cluster")
    step("send")
    new.psql("CALL kube_reports.receive_cluster()", timeout=3600)
    step("receive")
    proxy = proxy_of(bench, new, cluster, "moved")
    proxy.api().create(POLR, report("first", "moved"), "moved")
    step("serve")
    bench.proxy.stop()
    old.psql(f"CALL kube_reports.unregister_cluster('{cluster}', force => true)", timeout=3600)
    step("remove")
    return proxy


def written(neighbours, duration, meanwhile=None):
    """What the writers of the neighbours find, for a time or while something is done: {name: result of load}"""
    for neighbour in neighbours.values():
        neighbour.write(3600 if meanwhile else duration)
    if meanwhile:
        meanwhile()
    return {name: neighbour.end_writing(stop=meanwhile is not None) for name, neighbour in neighbours.items()}


def bench_move(bench):
    """move: seconds of each step for 15,000 reports of 19 results, and what a neighbour in each database notices."""
    count = scaled(15000, 150)
    bench.fill("pss", 1, count, namespaces=NAMESPACES)
    bench.fold()
    new, neighbours, moved, steps = Database(), {}, None, {}

    def work():
        nonlocal moved
        moved = move(bench, new, steps)
    try:
        new.copy_prepared()
        new.start(*SETTINGS)
        new.prepare("")
        neighbours["sender"] = Neighbour(bench, bench.database, "stays")
        neighbours["receiver"] = Neighbour(bench, new, "waits")
        before = written(neighbours, seconds(20))
        during = written(neighbours, None, work)
        held = sum(steps[name] for name in ("hold", "send", "receive", "serve"))
        note("the move: " + ", ".join(f"{name} {taken:.2f} s" for name, taken in steps.items()))
        row("move", f"{count:,} reports; its writes are held for {held:.1f} s", sum(steps.values()), None, "s", None,
            "reported", None, steps=steps)
        for name, neighbour in neighbours.items():
            then, now = before[name], during[name]
            row(f"move-{name}", f"neighbour's writes: p50 {now['p50_ms']:.1f} and {then['p50_ms']:.1f} ms; p99",
                now["p99_ms"], then["p99_ms"], "ms", now["p99_ms"] / then["p99_ms"], "within 3",
                now["p99_ms"] / then["p99_ms"] <= 3, before=then, during=now)
            missing = neighbour.missing()
            row(f"move-{name}-watch", f"{now['ok'] + then['ok']:,} writes: events lost or doubled", missing, None, "",
                None, "none", missing == 0)
        kept = moved.api().get(path_of(POLR), accept=PARTIAL_LIST, seconds=60).json["items"]
        assert len(kept) == count + 1, f"{len(kept)} reports of {count} have moved"
        for database in (bench.database, new):
            assert database.psql("SELECT * FROM kube_reports.verify()", timeout=3600) == ""
    finally:
        for started in (*neighbours.values(), *([moved] if moved else [])):
            started.stop()
        new.remove()
