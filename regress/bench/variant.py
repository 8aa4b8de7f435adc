"""The SQL variant beside the C variant: each row measures both in turns, so that other work slows both down alike."""

import statistics
import subprocess
import time

import psycopg2

from client import POLR, path_of, until
from relay import Relay
from scale import processor_ms
from workbench import NUMBERED, Bench

TURNS = 3
MERGE = "--content-type=application/merge-patch+json"


class Side:
    """One variant: a stack, and how many reports it has been given."""

    def __init__(self, bench):
        self.bench = bench
        self.created = 1
        self.policy_reports = bench.policy_reports()
        self.updates = [bench.policy_updates(), bench.policy_reports(0)]

    def create(self, count, clients, port=None):
        result = self.bench.load(path_of(POLR, "create"), "--method=POST", f"--bodies={self.policy_reports}",
                                 f"--connections={clients}", f"--requests={count}", f"--first-number={self.created}",
                                 port=port)
        self.created += count
        return result

    def update(self, count, clients, turn, port=None):
        return self.bench.load(path_of(POLR, "create", NUMBERED), "--method=PATCH",
                               f"--bodies={self.updates[turn % 2]}", MERGE, f"--connections={clients}",
                               f"--requests={count}", port=port)

    def list(self, query="", requests=1):
        return self.bench.load(path_of(POLR) + query, f"--requests={requests}")["seconds"] / requests

    def page(self, requests):
        """Pages of 500 from the middle, by the token that a page gave."""
        api = self.bench.proxy.api()
        token = api.get(path_of(POLR), limit=str(self.created // 2)).json["metadata"]["continue"]
        return self.list(f"?limit=500&continue={token}", requests)

    def replay(self, version, events):
        """Seconds until a watch from that version has as many events of the log."""
        pki = self.bench.stack.pki
        begun = time.monotonic()
        with subprocess.Popen(["curl", "-sN", "--cacert", f"{pki}/ca.crt", "--cert", f"{pki}/admin.crt", "--key",
                               f"{pki}/admin.key", f"https://127.0.0.1:{self.bench.proxy.port}{path_of(POLR)}?watch=1"
                               f"&resourceVersion={version}"], stdout=subprocess.PIPE) as curl:
            seen = 0
            while seen < events:
                chunk = curl.stdout.read1(1 << 20)
                assert chunk, f"the watch ended after {seen} of {events} events"
                seen += chunk.count(b"\n")
            taken = time.monotonic() - begun
            curl.kill()
        return taken

    def used(self, work):
        """What the database and the proxy use of processors for some work, in ms."""
        groups = self.bench.backends(), self.bench.proxy.processes()
        before = [processor_ms(pids) for pids in groups]
        work()
        return [processor_ms(pids) - used for pids, used in zip(groups, before)]

    def floor(self):
        """What a backend uses to send the columns that a list needs, without a function, in ms."""
        with psycopg2.connect(self.bench.database.connection()) as session, session.cursor() as cursor, \
                open("/dev/null", "wb") as sink:
            copy = "COPY (SELECT o.version, o.metadata, o.body FROM kube_reports.object o) TO STDOUT (FORMAT binary)"
            cursor.copy_expert(copy, sink)
            before = processor_ms([session.get_backend_pid()])
            cursor.copy_expert(copy, sink)
            return processor_ms([session.get_backend_pid()]) - before

    def version(self):
        return self.bench.proxy.api().get(path_of(POLR), limit="1").json["metadata"]["resourceVersion"]


def in_turns(sides, measured):
    """The medians of what each side measures, one after the other."""
    values = {side: [] for side in sides}
    for turn in range(TURNS):
        for side in sides if turn % 2 else reversed(sides):
            values[side].append(measured(side, turn))
    return [statistics.median(values[side]) for side in sides]


def measure(bench, row, count):
    """bench: of the C variant; count: reports created by each turn."""
    other = Bench("sql")
    try:
        compare([Side(bench), Side(other)], row, count)
    finally:
        other.end()


def compare(sides, row, count):
    for side in sides:
        side.create(max(count // 10, 64), 8)
    before = {side: side.version() for side in sides}
    ours, others = in_turns(sides, lambda side, _: side.create(count, 8)["per_second"])
    row("variant-create", "policy reports of 19 results, 8 clients", others, ours, "/s", others / ours,
        "at least 0.8", others / ours >= 0.8)
    ours, others = in_turns(sides, lambda side, turn: side.update(count // 2, 8, turn)["per_second"])
    row("variant-update", "three of 19 results changed, 8 clients", others, ours, "/s", others / ours, "", None)
    ours, others = in_turns(sides, lambda side, _: side.list(requests=2))
    row("variant-list", f"{sides[0].created - 1:,} reports", others, ours, "s", ours / others, "at least 1.0",
        ours / others >= 1.0)
    ours, others = in_turns(sides, lambda side, _: side.page(10) * 1000)
    row("variant-page", "limit=500 from the middle", others, ours, "ms", ours / others, "", None)
    ours, others = in_turns(sides, lambda side, _: side.replay(before[side], TURNS * count))
    row("variant-watch", f"{TURNS * count:,} events of the log", others, ours, "s", ours / others, "", None)
    processors(sides, row, count)
    for latency in (1, 10):
        link(sides, latency, row, max(count // 40, 16))
    for side in sides:
        until(lambda side=side: side.bench.database.psql("SELECT results_pending FROM kube_reports.status") == "f",
              120, "pending results")


def processors(sides, row, count):
    """The same in processor time, which other work on the machine changes less."""
    for kind, each, work in (("create", count, lambda side: side.create(count, 8)),
                             ("list", 5, lambda side: side.list(requests=5))):
        for place, program in enumerate(("database", "proxy")):
            ours, others = in_turns(sides, lambda side, _, work=work, place=place, each=each:
                                    side.used(lambda: work(side))[place] / each)
            row(f"variant-{kind}-{program}", "processor time for each", others, ours, "ms", ours / others, "", None)
    row("variant-list-floor", "its columns, without a function", *reversed(in_turns(
        sides, lambda side, _: side.floor())), "ms", None, "", None)


def link(sides, latency, row, count):
    """A commit over a link: one client, so that no write shares a batch."""
    relays = [Relay(side.bench.database, latency / 1000) for side in sides]
    proxies = [side.bench.stack.proxy(flags=["--upkeep=false"],
                                      connection=f"host=127.0.0.1 port={relay.port} user=kube_reports_proxy "
                                                 "dbname=kube_reports") for side, relay in zip(sides, relays)]
    try:
        for kind in ("create", "update"):
            values, trips = [[], []], [0, 0]
            for turn in range(TURNS + 1):
                for place, side in enumerate(sides):
                    before = relays[place].trips.value
                    result = side.create(count, 1, proxies[place].port) if kind == "create" else \
                        side.update(count, 1, turn, proxies[place].port)
                    # The first turn opens connections and prepares statements.
                    if turn > 0:
                        values[place].append(result["p50_ms"])
                        trips[place] += relays[place].trips.value - before
            ours, others = (statistics.median(found) for found in values)
            each = [number / (TURNS * count) for number in trips]
            row(f"variant-link-{latency}ms", f"{kind}, 1 client; round trips {each[1]:.2f}, C {each[0]:.2f}", others,
                ours, "ms", others / ours, "", None, trips=each[1], trips_c=each[0])
    finally:
        for proxy, relay in zip(proxies, relays):
            proxy.stop()
            relay.end()
