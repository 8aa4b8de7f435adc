"""
Large reports, long lists, slow clients: bounded memory, no database connection held (issue 2, done when 3; DESIGN
section 6).
"""

import json
import pathlib
import socket
import threading
import time

import pytest

from client import JSON_PATCH, POLR, failure, path_of, report, result, until

GENERATE = pathlib.Path(__file__).resolve().parents[1] / "bench" / "generate.sql"
MIB = 1024 * 1024
ITEMS = 10000
LIST = path_of(POLR)


@pytest.fixture(scope="module")
def large(module_stack):
    """
    A stack with 10,000 generated reports in 100 namespaces; the proxy "roomy" accepts bodies of 30 MiB, "plain" has no
    flags.
    """
    module_stack.database.psql(f"SET client_min_messages = warning;\n\\ir {GENERATE}\nSELECT "
                               f"pg_temp.store('{module_stack.cluster}', 'pss', 1, {ITEMS});\n",
                               # The variant in SQL checks documents more slowly than the engine.
                               timeout=600)
    module_stack.plain = module_stack.proxy()
    module_stack.roomy = module_stack.proxy(flags=[f"--max-request-body-bytes={30 * MIB}"])
    return module_stack


def database_use(stack):
    """
    Returns the lists that connections of proxies run now, and their open transactions; polls and upkeep are left out,
    because they come and go.
    """
    return stack.database.psql("SELECT state, left(query, 100) FROM pg_stat_activity WHERE usename = "
                               "'kube_reports_proxy'"
                               " AND (state LIKE 'idle in transaction%' OR state = 'active' AND query LIKE "
                               "'%api_list%')", user="postgres")


class RawList:
    """A list whose answer the test reads piece by piece, from a socket with a small buffer."""

    def __init__(self, api, path, buffer=4096):
        plain = socket.socket()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        plain.settimeout(60)
        plain.connect(("127.0.0.1", api.port))
        self.socket = api.context.wrap_socket(plain, server_hostname="127.0.0.1")
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nUser-Agent: "
                            "tests/1.0\r\n\r\n".encode())
        self.received = []

    def read(self, size):
        chunk = self.socket.recv(size)
        self.received.append(chunk)
        return chunk

    def document(self):
        """Reads the rest; returns the document from the chunks."""
        while self.read(65536):
            pass
        head, _, rest = b"".join(self.received).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ") and b"\r\ntransfer-encoding: chunked" in head.lower(), head
        body, at = [], 0
        while True:
            end = rest.index(b"\r\n", at)
            size = int(rest[at:end], 16)
            if size == 0:
                return json.loads(b"".join(body))
            body.append(rest[end + 2:end + 2 + size])
            at = end + 2 + size + 2

    def close(self):
        self.socket.close()


def warm_up(proxy):
    """Makes every worker serve a short list, and resets the peak of memory; returns the memory in use."""
    for _ in range(20):
        assert proxy.api().get(LIST, limit=10).code == 200
    proxy.reset_peak()
    return proxy.memory("VmHWM")


def test_ten_thousand_reports(large):
    """DONE 3: valid JSON, complete, in order; the proxy grows by no more than 64 MiB"""
    before = warm_up(large.plain)
    answer = large.plain.api().get(LIST, seconds=60)
    grown = large.plain.memory("VmHWM") - before
    assert answer.code == 200 and answer.headers["Transfer-Encoding"] == "chunked"
    items = answer.json["items"]
    assert len(items) == ITEMS and len(answer.body) > 6000 * ITEMS
    keys = [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in items]
    assert keys == sorted(set(keys))
    assert all(item["kind"] == "PolicyReport" and len(item["results"]) == 19 for item in items)
    assert grown <= 64 * MIB, f"{grown / MIB:.1f} MiB"


def test_four_lists_at_once(large):
    """The limit holds for four lists at once, which are all read slowly"""
    before = warm_up(large.plain)
    lists = [RawList(large.plain.api(), LIST, buffer=65536) for _ in range(4)]
    documents = []
    readers = [threading.Thread(target=lambda each=each: documents.append(
        each.document()["metadata"]["resourceVersion"])) for each in lists]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(120)
    assert len(documents) == 4 and len(set(documents)) == 1
    assert large.plain.memory("VmHWM") - before <= 64 * MIB


def test_slow_client(large):
    """DONE 3: a client that reads 1 KB/s holds neither memory nor a connection; it gets the state when it asked"""
    api = large.plain.api()
    before = warm_up(large.plain)
    slow = RawList(api, LIST)
    try:
        pause = threading.Event()
        first = slow.read(1024)
        assert first.startswith(b"HTTP/1.1 200 ")
        until(lambda: database_use(large) == "", 20, "the release of the database connection")
        victim = api.get(LIST, limit=1).json["items"][0]["metadata"]
        for number in range(6):
            slow.read(1024)
            # Other clients are served at once, and no connection is in a transaction for the slow client.
            started = time.monotonic()
            path = path_of(POLR, "others", f"r{number}")
            assert api.post(path_of(POLR, "others"), report(f"r{number}")).code == 201
            assert api.get(path).code == 200 and api.delete(path).code == 200
            assert time.monotonic() - started < 5
            assert database_use(large) == ""
            pause.wait(1)
        assert large.plain.memory("VmHWM") - before <= 64 * MIB
        assert api.delete(path_of(POLR, victim["namespace"], victim["name"])).code == 200
        items = slow.document()["items"]
        assert len(items) == ITEMS
        assert items[0]["metadata"]["uid"] == victim["uid"]
        assert large.plain.memory("VmHWM") - before <= 64 * MIB
    finally:
        slow.close()
    restored = report(victim["name"], victim["namespace"], results=[result()] * 19)
    api.create(POLR, restored, victim["namespace"])


def test_aborted_lists(large):
    """Clients that leave in the middle of a list leave no connection, query or memory behind"""
    api = large.plain.api()
    before = warm_up(large.plain)
    connections = large.plain.metric("kube_reports_connections")
    for number in range(20):
        aborted = RawList(api, LIST)
        if number % 2:
            assert aborted.read(16384)
        aborted.close()
    until(lambda: large.plain.metric("kube_reports_connections") <= connections, 20, "the end of the connections")
    until(lambda: database_use(large) == "", 20, "the end of the queries")
    until(lambda: large.plain.metric('kube_reports_database_connections{state="busy"}') == 0, 20,
          "the end of the calls")
    assert large.plain.memory("VmHWM") - before <= 64 * MIB
    assert len(api.get(LIST, seconds=60).json["items"]) == ITEMS


def test_twenty_mebibytes(large):
    """A body of 20 MiB goes through all requests; a proxy without the flag refuses the body, but serves the report"""
    roomy, plain = large.roomy.api(), large.plain.api()
    path = path_of(POLR, "big", "big")
    document = report("big", "big",
                      results=[result(policy=f"p{number}", message="m" * 1000) for number in range(18500)])
    body = json.dumps(document).encode()
    assert 20 * MIB <= len(body) < 21 * MIB
    status = failure(plain.post(path_of(POLR, "big"), body), 413, "RequestEntityTooLarge")
    assert status["message"] == "Request entity too large: limit is 3145728"
    assert roomy.get(path).code == 404
    version = roomy.get(path_of(POLR, "big")).json["metadata"]["resourceVersion"]
    watches = [api.watch(path_of(POLR, "big"), resourceVersion=version) for api in (roomy, plain)]
    try:
        answer = roomy.request("POST", path_of(POLR, "big"), body, seconds=60)
        assert answer.code == 201, answer
        stored = answer.json
        assert stored["results"] == document["results"]
        for api in (roomy, plain):
            assert api.get(path, seconds=60).json == stored
            assert api.get(path_of(POLR, "big"), seconds=60).json["items"] == [stored]
        for patch, kind in (({"summary": {"pass": 1}}, None),
                            ([{"op": "replace", "path": "/results/18499/result", "value": "fail"}], JSON_PATCH)):
            answer = roomy.patch(path, patch, seconds=60, **({"kind": kind} if kind else {}))
            assert answer.code == 200, answer
        patched = answer.json
        assert patched["summary"]["pass"] == 1 and patched["results"][-1]["result"] == "fail" and len(
            patched["results"]) == 18500
        assert patched["metadata"]["generation"] == 3
        # A small patch of a large object has a small body.
        assert plain.patch(path, {"metadata": {"labels": {"a": "b"}}}, seconds=60).code == 200
        replaced = plain.get(path, seconds=60).json
        failure(plain.put(path, replaced), 413, "RequestEntityTooLarge")
        replaced["summary"]["fail"] = 1
        assert roomy.put(path, replaced, seconds=60).code == 200
        assert plain.delete(path, seconds=60).code == 200
        for watch in watches:
            events = [watch.event(60) for _ in range(6)]
            assert [kind for kind, _ in events] == ["ADDED", "MODIFIED", "MODIFIED", "MODIFIED", "MODIFIED", "DELETED"]
            assert events[0][1] == stored and events[2][1] == patched
            assert events[-1][1]["summary"]["fail"] == 1
    finally:
        for watch in watches:
            watch.close()
    assert roomy.get(path).code == 404


def test_beyond_the_raised_limit(large):
    """The error names the limit that the flag gives"""
    body = json.dumps(report("big", "big", results=[result(message="m" * (31 * MIB))]))
    status = failure(large.roomy.api().post(path_of(POLR, "big"), body), 413, "RequestEntityTooLarge")
    assert status["message"] == f"Request entity too large: limit is {30 * MIB}"
