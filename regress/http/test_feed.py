"""The feed process reads the change log once for all workers of a proxy; when it dies, no watch ends."""

import contextlib
import os
import signal
import threading
import time

import pytest

from client import PARTIAL, POLR, TABLE, path_of, report, result, until

RENDERED = "kube_reports_feed_events_rendered_total"
CAUGHT_UP = "kube_reports_watch_events_rendered_total"


def watches_of_each_worker(streams, proxy, path, **query):
    """Opens watches until each worker has one; returns them. The proxy must not have watches of other lanes."""
    watches, workers = [], len(proxy.workers())
    while proxy.metric("kube_reports_feeds") < workers:
        watches.append(streams.enter_context(proxy.api().watch(path, **query)))
        assert watches[-1].code == 200
        assert len(watches) < 400
    return watches


def worker_of(proxy, watch):
    """Returns the id of the worker that has the other end of a watch's connection."""
    port = watch.connection.sock.getsockname()[1] if watch.connection.sock else \
        watch.response.fp.raw._sock.getsockname()[1]  # pylint: disable=protected-access
    with open("/proc/net/tcp", encoding="ascii") as lines:
        rows = [line.split() for line in list(lines)[1:]]
    inode = next(row[9] for row in rows if int(row[2].split(":")[1], 16) == port
                 and int(row[1].split(":")[1], 16) == proxy.port)
    for pid in proxy.workers():
        for number in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{number}") == f"socket:[{inode}]":
                    return pid
    raise AssertionError("no worker has the connection")


def resumed(proxy, path, version):
    """Returns a watch from a version; tries again while a worker that has just started is not ready."""
    def begun():
        watch = proxy.api().watch(path, resourceVersion=version)
        return watch if watch.code == 200 else None
    return until(begun, 20, "a watch")


def start_of(api, ns):
    return api.get(path_of(POLR, ns)).json["metadata"]["resourceVersion"]


def test_rendered_once(stack, ns):
    """With eight workers, each event is rendered once for each representation"""
    proxy = stack.proxy(flags=["--workers=8", "--database-connections=40"])
    api, path = stack.first.api(), path_of(POLR, ns)
    with contextlib.ExitStack() as streams:
        watches = watches_of_each_worker(streams, proxy, path, resourceVersion=start_of(api, ns))
        # The feed process knows all watches now; the first event also shows that they have caught up.
        api.create(POLR, report("first"), ns)
        for watch in watches:
            watch.expect(("ADDED", "first"))
        before, caught_up = proxy.metric(RENDERED), proxy.metric(CAUGHT_UP)
        for n in range(20):
            api.create(POLR, report(f"r{n}"), ns)
        for watch in watches:
            watch.expect(*(("ADDED", f"r{n}") for n in range(20)))
        assert proxy.metric(RENDERED) - before == 20
        assert proxy.metric(CAUGHT_UP) == caught_up

        start = start_of(api, ns)
        others = [streams.enter_context(proxy.api().watch(path, accept=accept, resourceVersion=start))
                  for accept in (PARTIAL, TABLE) * 12]
        api.create(POLR, report("second"), ns)
        for watch in others:
            assert watch.event()[0] == "ADDED"
        # Only the first event of a table has the columns; the feed process stops rendering it within a second.
        time.sleep(3)
        before, caught_up = proxy.metric(RENDERED), proxy.metric(CAUGHT_UP)
        for n in range(20):
            api.patch(f"{path}/r{n}", {"metadata": {"labels": {"n": str(n)}}})
        for watch in others:
            for _ in range(20):
                assert watch.event()[0] == "MODIFIED"
        assert proxy.metric(RENDERED) - before == 3 * 20
        assert proxy.metric(CAUGHT_UP) == caught_up


def test_nobody_watches(stack, ns):
    """Without a watch the feed process does not poll; with watches it polls for the whole proxy"""
    proxy = stack.proxy(flags=["--workers=4", "--database-connections=15", "--watch-poll-interval=20ms"])

    def polls(seconds):
        name = 'kube_reports_database_call_duration_seconds_count{call="poll"}'
        before = proxy.metric(name)
        time.sleep(seconds)
        return proxy.metric(name) - before

    # Each worker asks once a second whether the database answers.
    assert polls(3) <= 4 * 4
    with contextlib.ExitStack() as streams:
        api = stack.first.api()
        watches_of_each_worker(streams, proxy, path_of(POLR, ns), resourceVersion=start_of(api, ns))
        assert 4 * 4 < polls(3) <= 4 * 4 + 150
    until(lambda: proxy.metric("kube_reports_feeds") == 0, 20, "the end of the feeds")
    assert polls(3) <= 4 * 4


class Writer:
    """Creates reports r0, r1 ... until it is stopped."""

    def __init__(self, api, ns):
        self.api, self.ns, self.count, self.done = api, ns, 0, threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.done.wait(0.005):
            self.api.create(POLR, report(f"r{self.count}"), self.ns)
            self.count += 1

    def stop(self):
        self.done.set()
        self.thread.join()
        return [("ADDED", f"r{n}") for n in range(self.count)]


@pytest.mark.parametrize("workers", [1, 4])
def test_feed_dies(stack, ns, workers):
    """The feed process is killed during writes: each watch goes on, and gets every event once, in order"""
    proxy = stack.proxy(flags=[f"--workers={workers}", "--database-connections=15"])
    api, path = stack.first.api(), path_of(POLR, ns)
    with contextlib.ExitStack() as streams:
        watches = watches_of_each_worker(streams, proxy, path, resourceVersion=start_of(api, ns))
        writer = Writer(api, ns)
        for n in range(3):
            written = writer.count
            until(lambda: writer.count > written + 20, 60, "some writes")
            victim = until(proxy.feed, 20, "a feed process")
            os.kill(victim, signal.SIGKILL)
            until(lambda: proxy.feed() not in (None, victim), 20, "another feed process")
        written = writer.count
        until(lambda: writer.count > written + 20, 60, "some writes")
        expected = writer.stop()
        for watch in watches:
            watch.expect(*expected)
        assert all(watch.quiet() for watch in watches)
        assert proxy.metric("kube_reports_feed_restarts_total") == 3
        assert proxy.metric("kube_reports_worker_restarts_total") == 0
        # A watch that begins afterwards gets events as well.
        with proxy.api().watch(path, resourceVersion=start_of(api, ns)) as late:
            api.create(POLR, report("late"), ns)
            late.expect(("ADDED", "late"))


def test_worker_dies(stack, ns):
    """A worker is killed during writes: watches of other workers miss nothing, and its own watches can resume"""
    proxy = stack.proxy(flags=["--workers=3", "--database-connections=15"])
    api, path = stack.first.api(), path_of(POLR, ns)
    start = start_of(api, ns)
    with contextlib.ExitStack() as streams:
        watches = watches_of_each_worker(streams, proxy, path, resourceVersion=start)
        writer = Writer(api, ns)
        until(lambda: writer.count > 20, 60, "some writes")
        victim = worker_of(proxy, watches[0])
        ended = [watch for watch in watches if worker_of(proxy, watch) == victim]
        os.kill(victim, signal.SIGKILL)
        seen = {}
        for watch in ended:
            events = watch.end()
            version = events[-1][1]["metadata"]["resourceVersion"] if events else start
            seen[streams.enter_context(resumed(proxy, path, version))] = \
                [(kind, document["metadata"]["name"]) for kind, document in events]
        written = writer.count
        until(lambda: writer.count > written + 20, 60, "some writes")
        expected = writer.stop()
        for watch in watches:
            if watch not in ended:
                watch.expect(*expected)
        for watch, events in seen.items():
            assert events == expected[:len(events)]
            watch.expect(*expected[len(events):])
        # The worker that replaces it has a feed of its own.
        proxy.wait_ready()
        with contextlib.ExitStack() as more:
            later = watches_of_each_worker(more, proxy, path, resourceVersion=start_of(api, ns))
            api.create(POLR, report("last"), ns)
            for watch in later:
                watch.expect(("ADDED", "last"))


def test_worker_stops(stack, ns):
    """A worker is stopped while writes exceed the ring: watches of others get events at once, its own get all later"""
    proxy = stack.proxy(flags=["--workers=2", "--database-connections=15"])
    api, path = stack.first.api(), path_of(POLR, ns)
    large = [result(message="x" * 200000)]
    with contextlib.ExitStack() as streams:
        watches = watches_of_each_worker(streams, proxy, path, resourceVersion=start_of(api, ns))
        overruns = proxy.metric("kube_reports_feed_overruns_total")
        victim = worker_of(proxy, watches[0])
        stopped = [watch for watch in watches if worker_of(proxy, watch) == victim]
        others = [watch for watch in watches if watch not in stopped]
        os.kill(victim, signal.SIGSTOP)
        try:
            for n in range(70):
                api.create(POLR, report(f"r{n}", results=large), ns)
                for watch in others:
                    watch.expect(("ADDED", f"r{n}"), seconds=5)
        finally:
            os.kill(victim, signal.SIGCONT)
        for watch in stopped:
            watch.expect(*(("ADDED", f"r{n}") for n in range(70)))
        assert until(lambda: proxy.metric("kube_reports_feed_overruns_total"), 20, "an overrun") > overruns
        api.create(POLR, report("after"), ns)
        for watch in watches:
            watch.expect(("ADDED", "after"))
        assert all(watch.quiet() for watch in watches)


def test_event_too_large_for_the_ring(stack, ns):
    """Workers read an event of more than half of the ring from the log, and send it in order"""
    proxy = stack.proxy(flags=["--workers=2", "--database-connections=15"])
    api, path = stack.first.api(), path_of(POLR, ns)
    large = [result(message="x" * 2400000)]
    with contextlib.ExitStack() as streams:
        watches = watches_of_each_worker(streams, proxy, path, resourceVersion=start_of(api, ns))
        api.create(POLR, report("large", results=large), ns)
        api.create(POLR, report("r0"), ns)
        # An event with changed labels has the object before and after the change.
        assert api.patch(f"{path}/large", {"metadata": {"labels": {"a": "b"}}}).code == 200
        api.create(POLR, report("r1"), ns)
        for watch in watches:
            watch.expect(("ADDED", "large"), ("ADDED", "r0"), ("MODIFIED", "large"), ("ADDED", "r1"))
        before = proxy.metric(CAUGHT_UP)
        assert before > 0
        api.create(POLR, report("r2"), ns)
        for watch in watches:
            watch.expect(("ADDED", "r2"))
        assert proxy.metric(CAUGHT_UP) == before


def test_shutdown_keeps_the_feed(stack, ns):
    """During a shutdown watches get events: the feed process ends after the workers, and is replaced until then"""
    proxy = stack.proxy(flags=["--workers=2", "--database-connections=15", "--shutdown-delay-duration=6s"])
    api, path = stack.first.api(), path_of(POLR, ns)
    with contextlib.ExitStack() as streams:
        watches = watches_of_each_worker(streams, proxy, path, resourceVersion=start_of(api, ns))
        # A service manager signals all processes.
        processes = proxy.processes()
        for pid in processes:
            os.kill(pid, signal.SIGTERM)
        until(lambda: proxy.answers().code != 200, 20, "the shutdown")
        api.create(POLR, report("r0"), ns)
        for watch in watches:
            watch.expect(("ADDED", "r0"))
        os.kill(proxy.feed(), signal.SIGKILL)
        api.create(POLR, report("r1"), ns)
        for watch in watches:
            watch.expect(("ADDED", "r1"))
            assert watch.end() == []
    assert proxy.process.wait(30) == 0
    assert not any(os.path.exists(f"/proc/{pid}") for pid in processes)
