"""The end of a proxy: SIGTERM under load (conformance 20)."""

import http.client
import json
import signal
import socket
import subprocess
import threading
import time

import psycopg2
import pytest

from client import POLR, Watch, path_of, report, result, until

LATE = b"The apiserver is shutting down, please try again later.\n"


def terminate(proxy):
    proxy.process.send_signal(signal.SIGTERM)


def refuses(proxy):
    """Returns whether nothing listens on the API port any more."""
    try:
        with socket.create_connection(("127.0.0.1", proxy.port), 5):
            return False
    except ConnectionRefusedError:
        return True


def test_readiness_first(module_stack, ns):
    """
    LC-01, HL-02: readyz fails at once; during the delay everything else is served, also on new connections; each answer
    tells the client to close its connection
    """
    proxy = module_stack.proxy(flags=["--shutdown-delay-duration=3s"])
    kept = proxy.api(keep=True)
    assert kept.get(path_of(POLR, ns)).headers["Connection"] == "keep-alive"
    terminate(proxy)
    answer = until(lambda: next((a for a in [proxy.api().get("/readyz")] if a.code == 500), None), 2, "readyz to fail")
    assert b"[-]shutdown failed: reason withheld\nreadyz check failed" in answer.body
    assert proxy.api().get("/readyz/shutdown").body == b"internal server error: process is shutting down\n"
    assert proxy.api().get("/livez").code == 200
    answer = kept.post(path_of(POLR, ns), report("late"))
    assert answer.code == 201 and answer.headers["Connection"] == "close"
    with proxy.api().watch(path_of(POLR, ns)) as watch:
        watch.expect(("ADDED", "late"))
        assert watch.end() == []
    assert proxy.process.wait(20) == 0


def test_late_newcomers(module_stack, ns):
    """
    LC-01, ERR-02: TestWithRetryAfter: when the listeners are closed, a request on a connection that is still open gets
    a 429 that says when to try again
    """
    proxy = module_stack.proxy(flags=["--shutdown-timeout=20s"])
    paths = [path_of(POLR, ns), "/apis", "/version"]
    late = [proxy.api(keep=True) for _ in paths]
    exempt = {path: proxy.api(keep=True)
              for path in ("/livez?verbose", "/readyz?verbose", "/healthz?verbose", "/metrics?foo=bar")}
    for api in [*late, *exempt.values()]:
        assert api.get("/livez").code == 200
    # Half-sent requests keep the workers alive until the other connections have been tested.
    slow = [half_a_request(proxy, ns, f"slow{number}") for number in range(8)]
    terminate(proxy)
    until(lambda: refuses(proxy), 10, "the listeners to close")
    for api, path in zip(late, paths):
        answer = api.get(path)
        assert (answer.code, answer.body) == (429, LATE), (path, answer)
        assert answer.headers["Retry-After"] == "5" and answer.headers["Connection"] == "close"
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    for path, api in exempt.items():
        answer = api.get(path)
        assert answer.code == (500 if "readyz" in path else 200) and "Retry-After" not in answer.headers, (path, answer)
    # These requests began in time, but the proxy could not know what they ask for.
    for connection, rest in slow:
        connection.send(rest)
        assert connection.getresponse().status in (201, 429)
        connection.close()
    assert proxy.process.wait(20) == 0


def half_a_request(proxy, ns, name):
    """Returns a connection with a create that is half sent, and the missing bytes."""
    connection = proxy.api().connect()
    body = json.dumps(report(name)).encode()
    connection.putrequest("POST", path_of(POLR, ns))
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(len(body)))
    connection.endheaders()
    connection.send(body[:10])
    return connection, body[10:]


def test_what_is_under_way_is_answered(module_stack, ns):
    """
    LC-01: TestGracefulTerminationWithKeepListeningDuringGracefulTerminationDisabled: a write that waits for the
    database when the signal comes is answered, and so is a list that is being read
    """
    proxy = module_stack.proxy()
    api = proxy.api()
    for number in range(30):
        api.create(POLR, report(f"r{number:02}", results=[result(message="x" * 200000)]), ns)
    reader = api.connect()
    reader.connect()
    reader.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    reader.request("GET", path_of(POLR, ns))
    response = reader.getresponse()
    begun = response.read(1000)

    blocker = psycopg2.connect(module_stack.database.connection("postgres"))
    blocker.cursor().execute("LOCK TABLE kube_reports.object IN SHARE MODE")
    answers = []
    writer = threading.Thread(target=lambda: answers.append(api.post(path_of(POLR, ns), report("waiting"))))
    writer.start()
    until(lambda: waiting_locks(module_stack) > 0, 10, "the write to wait")
    terminate(proxy)
    until(lambda: refuses(proxy), 10, "the listeners to close")
    assert answers == []
    blocker.close()
    writer.join(20)
    assert answers and (answers[0].code == 201
                        or (answers[0].code == 503 and answers[0].headers["Retry-After"])), answers
    document = json.loads(begun + response.read())
    assert len([item for item in document["items"] if item["metadata"]["name"] != "waiting"]) == 30
    reader.close()
    assert proxy.process.wait(20) == 0


def waiting_locks(stack):
    return int(stack.database.psql("SELECT count(*) FROM pg_locks WHERE NOT granted", user="postgres"))


def test_handshake_under_way(module_stack, ns):
    """LC-01: a client in its TLS handshake when the listeners close is answered; other clients are not disturbed"""
    # Freed memory is overwritten, so that its use shows.
    proxy = module_stack.proxy(flags=["--shutdown-timeout=20s"], environment={"MALLOC_PERTURB_": "165"})
    # Half-sent requests keep the workers alive until the other connections have been tested.
    slow = [half_a_request(proxy, ns, f"under-way{number}") for number in range(8)]
    late = [socket.create_connection(("127.0.0.1", proxy.port), 20) for _ in range(8)]
    terminate(proxy)
    until(lambda: refuses(proxy), 10, "the listeners to close")
    for plain in late:
        with plain, proxy.api().context.wrap_socket(plain, server_hostname="127.0.0.1") as tls:
            tls.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            assert tls.recv(12) == b"HTTP/1.1 200"
    for connection, rest in slow:
        connection.send(rest)
        assert connection.getresponse().status in (201, 429)
        connection.close()
    assert proxy.process.wait(20) == 0


def test_slow_handshake(module_stack, ns):
    """
    LC-01, W-04: clients that were accepted in time are answered, also when their handshake is slow and nothing else is
    in work: client-go would take a watch that was reset for a short one, and list again.  A client that stays silent
    does not keep the proxy from ending.
    """
    proxy = module_stack.proxy(flags=["--shutdown-timeout=20s"])
    late = [socket.create_connection(("127.0.0.1", proxy.port), 20) for _ in range(4)]
    with socket.create_connection(("127.0.0.1", proxy.port), 20):
        terminate(proxy)
        until(lambda: refuses(proxy), 10, "the listeners to close")
        # The clients are slow.
        with pytest.raises(subprocess.TimeoutExpired):
            proxy.process.wait(1)
        for plain in late:
            with plain, proxy.api().context.wrap_socket(plain, server_hostname="127.0.0.1") as tls:
                tls.sendall(b"GET " + path_of(POLR, ns).encode() + b"?watch=true HTTP/1.1\r\nHost: x\r\n\r\n")
                assert tls.recv(12) == b"HTTP/1.1 429"
        assert proxy.process.wait(20) == 0


def test_watches_end_little_by_little(module_stack, ns):
    """
    LC-01, LC-03: TestWithWatchTerminationDuringShutdown: watches end cleanly, not all at once, and well before
    --shutdown-timeout
    """
    count, grace = 300, 8
    proxy = module_stack.proxy(flags=[f"--shutdown-timeout={grace}s"])
    ends = []
    watches = [proxy.api().connect() for _ in range(count)]

    def follow(connection):
        connection.request("GET", path_of(POLR, ns) + "?watch=true")
        response = connection.getresponse()
        begun.release()
        assert response.status == 200 and response.read().strip() == b""
        ends.append(time.monotonic())

    begun = threading.Semaphore(0)
    threads = [threading.Thread(target=follow, args=(connection,), daemon=True) for connection in watches]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert begun.acquire(timeout=60)
    terminate(proxy)
    for thread in threads:
        thread.join(30)
    assert len(ends) == count, "a watch did not end cleanly"
    ends.sort()
    # Each of two workers ends twenty watches in a tenth of a second.
    assert 0.5 < ends[-1] - ends[0] < grace * 0.75 + 1
    assert proxy.process.wait(20) == 0


def test_a_young_watch(module_stack, ns):
    """W-04, LC-01: a watch that began just before the signal lasts a second; else client-go would list again"""
    proxy = module_stack.proxy(flags=["--shutdown-timeout=20s"])
    connection = proxy.api().connect()
    begun = time.monotonic()
    connection.request("GET", path_of(POLR, ns) + "?watch=true")
    response = connection.getresponse()
    terminate(proxy)
    assert response.status == 200 and response.read().strip() == b"" and time.monotonic() - begun >= 1
    connection.close()
    assert proxy.process.wait(20) == 0


def test_time_is_up(module_stack, ns):
    """LC-01: a client that never ends its request delays the end by --shutdown-timeout at most"""
    proxy = module_stack.proxy(flags=["--shutdown-timeout=1s"])
    connection, _ = half_a_request(proxy, ns, "never")
    begun = time.monotonic()
    terminate(proxy)
    assert proxy.process.wait(10) == 0 and time.monotonic() - begun > 0.9
    connection.close()


def test_a_second_signal(module_stack, ns):
    """LC-01: a second signal ends the proxy at once"""
    proxy = module_stack.proxy(flags=["--shutdown-timeout=60s"])
    connection, _ = half_a_request(proxy, ns, "never")
    terminate(proxy)
    until(lambda: refuses(proxy), 10, "the listeners to close")
    terminate(proxy)
    assert proxy.process.wait(5) == 1
    connection.close()


class Client:
    """
    A client that follows client-go's rules: it keeps one connection, takes another proxy when it gets none, and repeats
    a request only after an error of the connection or an answer that asks for it.
    """

    def __init__(self, proxies, number):
        self.proxies = proxies
        self.turn = number
        self.connection = None
        self.connections = 0

    def once(self, method, path, body):
        if self.connection is None:
            self.turn += 1
            self.connections += 1
            self.connection = self.proxies[self.turn % len(self.proxies)].api().connect()
        self.connection.request(method, path, body=body,
                                headers={"Content-Type": "application/json", "User-Agent": "tests/1.0"})
        response = self.connection.getresponse()
        answer = response.status, response.headers, response.read()
        if response.will_close:
            self.connection.close()
            self.connection = None
        return answer

    def request(self, method, path, body=None):
        """Returns the answer, and whether an earlier try may have taken effect."""
        uncertain = False
        for _ in range(200):
            try:
                code, headers, answer = self.once(method, path, body)
            except (OSError, http.client.HTTPException) as error:
                uncertain |= not isinstance(error, ConnectionRefusedError)
                if self.connection is not None:
                    self.connection.close()
                self.connection = None
                threading.Event().wait(0.02)
                continue
            if code == 429 or code >= 500:
                assert headers["Retry-After"], (code, answer)
                self.connection = None
                threading.Event().wait(0.05)
                continue
            return code, json.loads(answer), uncertain
        raise AssertionError(f"no answer to {method} {path}")


def test_rolling_restart(module_stack, ns):
    """
    LC-01, LC-02, LC-03, W-11, RV-02: two proxies are replaced in turn under writes, lists and watches: no request fails
    that client-go would not repeat, no event is lost or comes twice, versions grow
    """
    proxies = [module_stack.proxy(), module_stack.proxy()]
    failures, created, seen, connections = [], {}, [], []
    stop = threading.Event()
    path = path_of(POLR, ns)

    def guarded(work, *arguments):
        try:
            work(*arguments)
        except BaseException as error:  # shown by the test
            failures.append(error)
            raise

    def write(number):
        client = Client(proxies, number)
        count = last = 0
        while not stop.is_set():
            name = f"w{number}-{count}"
            code, stored, uncertain = client.request("POST", path, json.dumps(report(name)))
            if code == 409 and uncertain:
                code, stored, _ = client.request("GET", f"{path}/{name}")
                code = 201 if code == 200 else code
            assert code == 201, (code, stored)
            version = int(stored["metadata"]["resourceVersion"])
            assert version > last
            last = created[name] = version
            count += 1
        connections.append(client.connections)

    def read(number):
        client = Client(proxies, number)
        last = 0
        while not stop.is_set():
            known = set(created)
            code, document, _ = client.request("GET", path)
            assert code == 200, document
            version = int(document["metadata"]["resourceVersion"])
            assert version >= last and known <= {item["metadata"]["name"] for item in document["items"]}
            last = version

    def follow(number, events):
        turn, version = number, start
        while not (stop.is_set() and len(events) >= len(created)):
            turn += 1
            try:
                watch = Watch(proxies[turn % 2].api(), path, None, {"resourceVersion": version})
            except (OSError, http.client.HTTPException):
                threading.Event().wait(0.02)
                continue
            if watch.code != 200:
                assert watch.code in (429, 503) and watch.headers["Retry-After"], watch.body
                continue
            with watch:
                while True:
                    try:
                        frame = watch.frames.get(timeout=0.5)
                    except Exception:
                        if stop.is_set() and len(events) >= len(created):
                            return
                        continue
                    if frame is watch.ENDED:
                        assert watch.error is None, f"a watch did not end cleanly: {watch.error!r}"
                        break
                    assert frame["type"] == "ADDED", frame
                    events.append(frame["object"])
                    version = frame["object"]["metadata"]["resourceVersion"]

    start = proxies[0].api().get(path).json["metadata"]["resourceVersion"]
    work = [(write, number) for number in range(4)] + [(read, number) for number in range(2)]
    for number in range(4):
        seen.append([])
        work.append((follow, number, seen[-1]))
    threads = [threading.Thread(target=guarded, args=each, daemon=True) for each in work]
    for thread in threads:
        thread.start()
    for _ in range(2):
        for proxy in proxies:
            before = len(created)
            until(lambda: failures or len(created) > before + 20, 20, "some writes")
            proxy.restart()
    stop.set()
    for thread in threads:
        thread.join(60)
    assert failures == [] and not any(thread.is_alive() for thread in threads)
    assert min(connections) > 2, "the restarts were not noticed"
    for events in seen:
        versions = [int(document["metadata"]["resourceVersion"]) for document in events]
        assert versions == sorted(set(versions))
        assert {document["metadata"]["name"]: int(document["metadata"]["resourceVersion"])
                for document in events} == created
