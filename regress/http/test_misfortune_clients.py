"""
Thousands of harmful clients, and workers that run out of memory or files, or die: other clients are served meanwhile.
"""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import pytest

from client import POLR, failure, path_of, report, result, until
from conftest import stack_command

CROWD = pathlib.Path(__file__).with_name("crowd.py")
MEBIBYTE = 1024 * 1024


class Crowd:
    """Many clients of one kind (crowd.py) at a proxy."""

    def __init__(self, proxy, kind, count, path, user=None):
        command = [sys.executable, str(CROWD), str(proxy.port), f"{proxy.pki}/ca.crt", kind, str(count), path,
                   *([f"{proxy.pki}/{user}"] if user else [])]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def attached(self):
        """Waits until all clients have come as far as the proxy lets them."""
        assert self.process.stdout.readline() == "attached\n"

    def leave(self):
        """Ends the clients; returns how their requests ended."""
        out, _ = self.process.communicate("", timeout=60)
        return json.loads(out)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


@pytest.fixture
def crowds():
    """Makes crowds that end with the test."""
    made = []

    def make(*arguments, **more):
        made.append(Crowd(*arguments, **more))
        return made[-1]
    yield make
    for crowd in made:
        crowd.end()


class Bystanders:
    """Well-behaved clients with a certificate: watches, gets, creates."""

    def __init__(self, proxy, ns, watches=20):
        self.proxy, self.api, self.path = proxy, proxy.api(), path_of(POLR, ns)
        self.created = ["r0"]
        stored = self.api.create(POLR, report("r0"), ns)
        self.watches = [self.api.watch(self.path, resourceVersion=stored["metadata"]["resourceVersion"])
                        for _ in range(watches)]

    def slowest(self, count):
        """
        Sends so many gets, each over a new connection, and some creates between them; returns the time within which 99
        of 100 gets were answered.
        """
        times = []
        for number in range(count):
            begun = time.monotonic()
            assert self.api.get(f"{self.path}/r0").code == 200
            times.append(time.monotonic() - begun)
            if number % 20 == 0:
                name = f"r{len(self.created)}"
                assert self.api.post(self.path, report(name)).code == 201
                self.created.append(name)
        return sorted(times)[count * 99 // 100 - 1]

    def check(self):
        """Checks that no acknowledged report is lost, that every watch has seen all, and that no worker died."""
        assert sorted(item["metadata"]["name"]
                      for item in self.api.get(self.path).json["items"]) == sorted(self.created)
        for watch in self.watches:
            watch.expect(*(("ADDED", name) for name in self.created[1:]))
        assert self.proxy.metric("kube_reports_worker_restarts_total") == 0

    def close(self):
        for watch in self.watches:
            watch.close()


def leave_memory(proxy, spare):
    """Limits the memory of each worker to its present size plus so many bytes."""
    for pid in proxy.processes()[1:]:
        with open(f"/proc/{pid}/status", encoding="ascii") as lines:
            size = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmSize:"))
        stack_command("as_server", "prlimit", "--pid", pid, f"--as={size + spare}")


def check_served(bystanders, quiet, meanwhile):
    """
    Checks that a get takes less than a second, or less than three times as long as without the crowd.
    """
    assert meanwhile < max(1, 3 * quiet), (quiet, meanwhile)
    bystanders.check()


@pytest.mark.parametrize("kind", ["body", "tell", "drip", "head", "idle"])
def test_a_thousand_strangers(stack, ns, crowds, kind):
    """
    TR-04, TR-07: a thousand clients without a certificate take all that they can, workers have 256 MB to spare, and
    other clients are served
    """
    proxy = stack.proxy()
    bystanders = Bystanders(proxy, ns)
    quiet = bystanders.slowest(100)
    leave_memory(proxy, 256 * MEBIBYTE)
    crowd = crowds(proxy, kind, 1000, bystanders.path)
    crowd.attached()
    check_served(bystanders, quiet, bystanders.slowest(200))
    outcome = crowd.leave()
    if kind in ("body", "tell", "drip"):
        # Requests without room are refused; slow clients are ended, which makes room for others.
        assert outcome["codes"].get("429", 0) + outcome["ended"] > 500, outcome
        assert proxy.metric("kube_reports_refused_bodies_total") + proxy.metric(
            "kube_reports_ended_connections_total") > 500
    until(lambda: proxy.metric("kube_reports_buffered_body_bytes") == 0, 60, "everything to be given back")
    bystanders.close()


@pytest.mark.parametrize("what", ["", "?watch=1&resourceVersion=0", "export"])
def test_clients_that_never_read(stack, ns, crowds, what):
    """
    TR-07: a thousand known clients do not read large answers: the memory held for them is bounded, others are served
    """
    proxy = stack.proxy(flags=["--max-buffered-answer-bytes=67108864", "--authorization-mode=AlwaysAllow"])
    api = proxy.api()
    for number in range(6):
        api.create(POLR, report(f"large{number}", results=[result(message="x" * 1400000)]), ns + "-large")
    # Wait for the results of these reports, because the test is not about that work.
    until(lambda: stack.database.psql("SELECT count(*) FROM kube_reports_internal.result_pending") == "0", 60,
          "the results")
    bystanders = Bystanders(proxy, ns)
    quiet = bystanders.slowest(100)
    leave_memory(proxy, 256 * MEBIBYTE)
    path = f"/v1/export/namespaces/{ns}-large/results" if what == "export" else path_of(POLR, ns + "-large") + what
    crowd = crowds(proxy, "deaf", 1000, path, user="nobody")
    crowd.attached()
    check_served(bystanders, quiet, bystanders.slowest(200))
    until(lambda: proxy.metric("kube_reports_cut_answers_total") > 0, 60, "the first to be cut")
    until(lambda: proxy.metric("kube_reports_refused_answers_total") > 0, 60, "the first to be refused")
    # When these clients have been cut, their user has room again.
    lists = proxy.api("nobody")
    until(lambda: lists.get(path_of(POLR, ns + "-large"), seconds=60).code == 200, 60, "a list of the same user")
    assert proxy.metric("kube_reports_worker_restarts_total") == 0
    crowd.leave()
    until(lambda: proxy.metric("kube_reports_buffered_answer_bytes") == 0, 60, "everything to be given back")
    bystanders.close()


def test_watches_that_never_read(stack, ns):
    """
    TR-07: twenty known clients do not read large events: the memory held for them is bounded, other watches go on
    """
    proxy = stack.proxy(flags=["--workers=1", "--max-buffered-answer-bytes=4194304",
                               "--authorization-mode=AlwaysAllow"])
    api, path = proxy.api(), path_of(POLR, ns)
    version = api.create(POLR, report("large", results=[result(message="x" * 1400000)]),
                         ns)["metadata"]["resourceVersion"]
    deaf = []
    for _ in range(20):
        connection = proxy.api("nobody").connect()
        connection.connect()
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.putrequest("GET", f"{path}?watch=1&resourceVersion={version}")
        connection.endheaders()
        deaf.append(connection)
    watch = api.watch(path, resourceVersion=version)
    until(lambda: proxy.watches() == 21, 20, "the watches")
    held = []
    for number in range(10):
        assert api.patch(f"{path}/large", {"metadata": {"labels": {"n": str(number)}}}).code == 200
        watch.expect(("MODIFIED", "large"))
        held.append(proxy.metric("kube_reports_buffered_answer_bytes"))
    # Such a watch is cut, or ends because the feed keeps its next events no more.
    until(lambda: proxy.metric("kube_reports_cut_answers_total")
          + proxy.metric("kube_reports_watch_overflows_total") > 0, 30, "the end of one")
    assert 0 < max(held) < 6 * MEBIBYTE, held
    assert proxy.metric("kube_reports_worker_restarts_total") == 0
    for connection in deaf:
        connection.close()
    watch.close()
    until(lambda: proxy.metric("kube_reports_buffered_answer_bytes") == 0, 60, "everything to be given back")


def test_known_clients_have_room(stack, ns, crowds):
    """
    TR-04: while strangers fill their share, the body of another stranger is refused with 429, that of a known client
    not
    """
    proxy = stack.proxy(flags=["--workers=1", "--max-buffered-body-bytes=12582912"])
    path = path_of(POLR, ns)
    large = json.dumps(report("large", results=[result(message="x" * 2500000)]))
    strangers = [proxy.api(None).connect() for _ in range(3)]
    begun = time.monotonic()
    for connection in strangers:
        connection.putrequest("POST", path)
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", "3000000")
        connection.endheaders(b"{")
    answer = strangers[1].getresponse()
    if time.monotonic() - begun < 1:
        # None of the strangers was slow yet.
        document = json.loads(answer.read())
        assert (answer.status, document["reason"], answer.headers["Retry-After"]) == (429, "TooManyRequests", "1")
        assert document["details"]["retryAfterSeconds"] == 1 and answer.headers["Connection"] == "close"
    assert proxy.api().post(path, large).code == 201
    # A stranger that has been slow for a second is ended, which makes room.
    time_to_come = until(lambda: proxy.api(None).post(path, large).code == 403 and time.monotonic(), 20,
                         "room for a stranger")
    assert time_to_come - begun >= 1
    assert proxy.metric("kube_reports_refused_bodies_total") >= 1 and proxy.metric(
        "kube_reports_ended_connections_total") >= 1
    log = proxy.log_path.read_text()
    assert ("a request was refused with code 429, because too many request bodies are held already "
            "(--max-buffered-body-bytes)" in log)
    assert ("connections of unauthenticated clients are closed: too many bytes of incomplete requests are held"
            in log)
    for connection in strangers:
        connection.close()


def test_files_run_out(stack, ns, crowds):
    """
    TR-07: a worker that may open few files serves fewer clients and refuses the others; of strangers, old ones make
    room for new ones
    """
    proxy = stack.proxy(flags=["--workers=1"], under=["prlimit", "--nofile=160:160"])
    assert "a worker serves 80 connections instead of 8192, because it may open 160 files" in proxy.log_path.read_text()
    bystanders = Bystanders(proxy, ns)
    quiet = bystanders.slowest(100)
    crowd = crowds(proxy, "idle", 500, bystanders.path)
    crowd.attached()
    check_served(bystanders, quiet, bystanders.slowest(200))
    assert crowd.leave()["ended"] >= 480
    assert "cannot accept connections" not in proxy.log_path.read_text()
    # Known clients may have three quarters of 80 connections: these 40 and the 20 watches.
    known = [proxy.api(keep=True) for _ in range(45)]
    codes = [client.get("/version") for client in known]
    refused = [answer for answer in codes if answer.code != 200]
    assert [answer.code for answer in codes[:40]] == [200] * 40 and len(refused) == 5
    for answer in refused:
        assert (failure(answer, 429, "TooManyRequests")["message"]
                == "Too many clients are connected, please try again later.")
    assert proxy.metric("kube_reports_refused_connections_total") == 5
    for client in known[:6]:
        client.connection.close()
    until(lambda: proxy.api().get("/version").code == 200, 20, "room for another")
    bystanders.close()
    for client in known:
        if client.connection:
            client.connection.close()


def test_a_worker_that_dies_again_and_again(stack):
    """TR-07: while a killed worker waits for its restart, the other worker accepts connections to its sockets"""
    proxy = stack.proxy()
    survivor, victim = proxy.workers()
    deaths = 0
    # After the eighth death in a row, the parent waits five seconds before it starts the worker.
    while deaths < 8:
        os.kill(victim, signal.SIGKILL)
        deaths += 1
        until(lambda: victim not in proxy.workers(), 10, "the end of the worker")
        if deaths < 8:
            victim = until(lambda: next((pid for pid in proxy.workers() if pid != survivor), None),
                           20, "another worker")
    times = {"api": [], "plain": []}
    while len(proxy.workers()) == 1:
        begun = time.monotonic()
        assert proxy.api().get("/livez", seconds=20).code == 200
        times["api"].append(time.monotonic() - begun)
        begun = time.monotonic()
        with socket.create_connection(("127.0.0.1", proxy.metrics_port), 20) as sock:
            sock.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert sock.recv(100).startswith(b"HTTP/1.1 200 ")
        times["plain"].append(time.monotonic() - begun)
    for port, taken in times.items():
        assert len(taken) >= 10 and max(taken) < 2, (port, taken)
    # When the worker is back, each worker accepts connections to its own sockets.
    proxy.wait_ready()
    newcomer = next(pid for pid in proxy.workers() if pid != survivor)
    seen = set()

    def both_serve():
        """Notes which worker accepts a connection, by its open files.  True if both have accepted one."""
        before = {pid: len(os.listdir(f"/proc/{pid}/fd")) for pid in (survivor, newcomer)}
        with socket.create_connection(("127.0.0.1", proxy.metrics_port), 20) as sock:
            sock.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            assert sock.recv(100).startswith(b"HTTP/1.1 200 ")
            seen.update(pid for pid in before if len(os.listdir(f"/proc/{pid}/fd")) > before[pid])
        return seen == {survivor, newcomer}
    until(both_serve, 30, "connections for both")
