"""The log: what happens when nobody reads it."""

import fcntl
import json
import os
import select
import subprocess
import threading

import pytest

from client import POLR, path_of, report, until
from conftest import Proxy


class Piped(Proxy):
    """A proxy whose standard error is a pipe that the test reads, or does not."""

    def start(self):
        self.pipe, writing = os.pipe()
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=writing, cwd="/", start_new_session=True)
        os.close(writing)
        self.read = b""

    def read_log(self, stop):
        """Takes what comes until stop is set."""
        while not stop.is_set():
            if select.select([self.pipe], [], [], 0.1)[0]:
                data = os.read(self.pipe, 65536)
                if not data:
                    return
                self.read += data


@pytest.fixture
def piped(own_stack):
    own_stack.begin()
    proxy = Piped(own_stack.database, own_stack.cluster, own_stack.pki, flags=["--v=1", "--workers=1"])
    yield proxy
    # A log that nobody reads does not keep it from ending.
    proxy.stop()
    os.close(proxy.pipe)


def test_nobody_reads_the_log(piped, ns):
    """A full pipe stops no request and no watch; lines that find no room are dropped, counted, and told of when there is room again"""
    api, path = piped.api(), path_of(POLR, ns)
    until(lambda: all(getattr(piped.answers(), "code", 0) == 200 for _ in range(4)), 30, "readiness")
    stored = api.create(POLR, report("r0"), ns)
    watch = api.watch(path, resourceVersion=stored["metadata"]["resourceVersion"])
    keep = piped.api(keep=True)
    # Lines of 2 KB each: the pipe holds one, the proxy 256 KB of them.
    for _ in range(300):
        assert keep.get(path + "/r0", seconds=10, fieldManager="x" * 1900).code == 200
    assert piped.metric("kube_reports_log_lines_dropped_total") > 100
    assert api.create(POLR, report("r1"), ns)
    watch.expect(("ADDED", "r1"))
    watch.close()

    stop = threading.Event()
    reader = threading.Thread(target=piped.read_log, args=(stop,))
    reader.start()
    until(lambda: b"log lines were dropped" in piped.read, 30, "the log to tell")
    assert keep.get(path + "/r0", fieldManager="afterwards").code == 200
    until(lambda: b"afterwards" in piped.read, 30, "the line of a request")
    stop.set()
    reader.join()
    # Every line is whole.
    lines = [json.loads(line) for line in piped.read.decode().splitlines()[:-1]]
    told = [line for line in lines if "log lines were dropped" in line.get("message", "")]
    assert int(told[0]["message"].split()[0]) > 100
