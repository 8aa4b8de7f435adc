"""Watches and writes through the aggregator while a proxy, kube-apiserver or the database is restarted."""

import signal
import threading

import pytest

from client import POLR, Watch, path_of, report, until

PATH_QUERY = {"allowWatchBookmarks": "true"}


class Informer:
    """Follows a namespace like client-go's reflector: a list, then watches from the last version that was seen."""

    def __init__(self, api, ns):
        self.api, self.path = api, path_of(POLR, ns)
        self.seen = []      # (type, name, version), in order
        self.lists = 0
        self.stopped = threading.Event()
        self.state = {}
        self.error = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        try:
            while not self.stopped.is_set():
                self._list()
        except Exception as error:  # shown by the test
            self.error = error

    def _list(self):
        try:
            answer = self.api.get(self.path)
        except OSError:
            self.stopped.wait(0.2)
            return
        if answer.code != 200:
            self.stopped.wait(0.2)
            return
        self.lists += 1
        self.state = {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in answer.json["items"]}
        self.version = answer.json["metadata"]["resourceVersion"]
        while not self.stopped.is_set() and self._watch():
            pass

    def _watch(self):
        """Returns false when the version is too old, so that all has to be listed again."""
        try:
            watch = Watch(self.api, self.path, None, {"resourceVersion": self.version, **PATH_QUERY})
        except OSError:
            self.stopped.wait(0.2)
            return True
        with watch:
            if watch.code != 200:
                self.stopped.wait(0.2)
                return watch.code != 410
            while not self.stopped.is_set():
                if watch.quiet():
                    self.stopped.wait(0.02)
                    continue
                frame = watch.frames.get()
                if frame is Watch.ENDED:
                    return True
                if frame["type"] == "ERROR":
                    return frame["object"]["code"] != 410
                metadata = frame["object"]["metadata"]
                self.version = metadata["resourceVersion"]
                if frame["type"] != "BOOKMARK":
                    self.seen.append((frame["type"], metadata["name"], int(self.version)))
                    if frame["type"] == "DELETED":
                        self.state.pop(metadata["name"])
                    else:
                        self.state[metadata["name"]] = self.version
        return True

    def stop(self):
        self.stopped.set()
        self.thread.join(30)
        assert self.error is None, self.error


@pytest.fixture
def informer(api, ns):
    one = Informer(api, ns)
    until(lambda: one.lists, 20, "the first list")
    yield one
    one.stop()


def write(api, ns, name):
    """Creates a report, and tries again while a server is away."""
    def written():
        try:
            return api.post(path_of(POLR, ns), report(name, ns)).code in (201, 409)
        except OSError:
            return False
    until(written, 90, f"report {name}")


def restart_proxy(cluster):
    cluster.first.restart()


def kill_proxy(cluster):
    cluster.first.process.kill()
    cluster.first.process.wait(30)
    cluster.first.start()
    cluster.first.wait_ready(60)


def restart_apiserver(cluster):
    cluster.plane.restart_apiserver()


def kill_apiserver(cluster):
    cluster.plane.restart_apiserver(signal.SIGKILL)


def restart_database(cluster):
    cluster.stack.database.stop("immediate")
    cluster.stack.database.start()


@pytest.mark.parametrize("fault", [restart_proxy, kill_proxy, restart_apiserver, kill_apiserver, restart_database])
def test_watch_over(cluster, plane, api, ns, informer, fault):
    """
    Each report that is created before, during and after the fault arrives once and in order, without another list.
    """
    stop = threading.Event()
    written = []

    def keep_writing():
        while not stop.is_set():
            write(api, ns, f"r-{len(written)}")
            written.append(f"r-{len(written)}")
    writer = threading.Thread(target=keep_writing)
    writer.start()
    try:
        until(lambda: len(informer.seen) > 10, 30, "first events")
        fault(cluster)
        mark = len(written)
        until(lambda: len(written) > mark + 10, 120, "writes afterwards")
    finally:
        stop.set()
        writer.join(120)
    until(lambda: len(informer.seen) >= len(written), 60, "the last event")
    assert [name for _, name, _ in informer.seen] == written
    versions = [version for _, _, version in informer.seen]
    assert versions == sorted(set(versions))
    assert informer.lists == 1
    assert sorted(informer.state) == sorted(written)
    plane.wait_available(seconds=90)
