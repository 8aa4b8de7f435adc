"""HTTP/2, which is offered on request (conformance 16)."""

import json
import select
import shutil
import time

import h2.config
import h2.connection
import h2.events
import h2.settings
import pytest

from client import POLR, path_of, report, result, run, until
from conftest import Kubectl, KUBECTLS, kubectl_version, stack_command

# Streams that libh2o lets a connection have open at once; above this number, Go's client opens another connection.
STREAMS = 100

# For this library GOAWAY ends the connection; in the protocol, open streams go on after it.
CLIENT_OPEN = h2.connection.ConnectionState.CLIENT_OPEN
h2.connection.H2ConnectionStateMachine._transitions[(CLIENT_OPEN, h2.connection.ConnectionInputs.RECV_GOAWAY)] = (None,
    CLIENT_OPEN)


@pytest.fixture(scope="module")
def offering(stack):
    return stack.proxy(flags=["--http2", "--workers=1"])


class Http2:
    """An HTTP/2 connection that collects the answers of its streams."""

    def __init__(self, proxy, window=None, user="admin"):
        api = proxy.api(user)
        api.context.set_alpn_protocols(["h2"])
        self.plain = api.connect()
        self.plain.connect()
        self.sock = self.plain.sock
        assert self.sock.selected_alpn_protocol() == "h2"
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.h2.initiate_connection()
        if window is not None:
            self.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window})
        self.refill = window is None
        self.headers, self.bodies, self.ended, self.resets = {}, {}, set(), {}
        self.pongs, self.goaway = [], None
        self.closed = False
        self.flush()

    def flush(self):
        self.sock.sendall(self.h2.data_to_send())

    def request(self, path, method="GET", body=None, headers=()):
        stream = self.h2.get_next_available_stream_id()
        self.bodies[stream] = b""
        self.h2.send_headers(stream, [(":method", method), (":path", path), (":scheme", "https"), (":authority", "x"),
                                      ("user-agent", "tests/1.0"), *headers], end_stream=body is None)
        if body is not None:
            self.h2.send_data(stream, body, end_stream=True)
        self.flush()
        return stream

    def read(self, seconds=0.1):
        """Reads the frames that have come."""
        if not self.sock.pending() and not select.select([self.sock], [], [], seconds)[0]:
            return
        received = self.sock.recv(65536)
        if not received:
            self.closed = True
            return
        for event in self.h2.receive_data(received):
            if isinstance(event, h2.events.ResponseReceived):
                self.headers[event.stream_id] = dict(event.headers)
            elif isinstance(event, h2.events.DataReceived):
                self.bodies[event.stream_id] += event.data
                if self.refill:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                else:
                    self.h2.increment_flow_control_window(max(event.flow_controlled_length, 1))
            elif isinstance(event, h2.events.StreamEnded):
                self.ended.add(event.stream_id)
            elif isinstance(event, h2.events.StreamReset):
                self.resets[event.stream_id] = event.error_code
            elif isinstance(event, h2.events.PingAckReceived):
                self.pongs.append(event.ping_data)
            elif isinstance(event, h2.events.ConnectionTerminated):
                self.goaway = event
        self.flush()

    def wait(self, condition, seconds=20, what="a frame"):
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline and not self.closed, f"{what} did not come"
            self.read()

    def answer(self, stream, seconds=20):
        self.wait(lambda: stream in self.ended or stream in self.resets, seconds, "an answer")
        assert stream not in self.resets
        return int(self.headers[stream][":status"]), self.headers[stream], self.bodies[stream]

    def frames(self, stream):
        """Returns the complete events: a DATA frame may end in the middle of a line."""
        return [json.loads(line) for line in self.bodies[stream].rpartition(b"\n")[0].splitlines() if line.strip()]

    def wait_closed(self, seconds=20):
        """Waits for the end of the connection."""
        deadline = time.monotonic() + seconds
        while not self.closed:
            assert time.monotonic() < deadline, "the connection was not closed"
            self.read()

    def close(self):
        self.plain.close()


@pytest.fixture
def connection(offering):
    opened = Http2(offering)
    yield opened
    opened.close()


def test_only_on_request(stack, offering):
    """TR-01: ALPN chooses HTTP/2 only if the proxy has --http2 and the client offers it"""
    for proxy, offered, chosen in ((stack.first, ["h2", "http/1.1"], "http/1.1"), (offering, ["h2", "http/1.1"], "h2"),
                                   (offering, ["http/1.1"], "http/1.1"), (offering, [], None)):
        api = proxy.api()
        if offered:
            api.context.set_alpn_protocols(offered)
        plain = api.connect()
        plain.connect()
        assert plain.sock.selected_alpn_protocol() == chosen
        plain.close()
    assert offering.api().get("/version").code == 200
    for flag, version in (("--http2", "2"), ("--http1.1", "1.1")):
        pki = offering.pki
        done = run(["curl", "-s", flag, "--cacert", f"{pki}/ca.crt", "--cert", f"{pki}/admin.crt", "--key",
                    f"{pki}/admin.key",
                    "-o", "/dev/null", "-w", "%{http_version} %{http_code}", f"https://127.0.0.1:{offering.port}/apis"])
        assert done.out == f"{version} 200"


def test_reads_and_writes(connection, api, ns):
    """
    TR-01: every kind of answer: an object, an error, a list of several pieces, HEAD, 304, a body that is too large
    """
    path = path_of(POLR, ns)
    typed = [("content-type", "application/json")]
    code, headers, body = connection.answer(connection.request(path, "POST", json.dumps(report("r1")).encode(), typed))
    assert code == 201 and "connection" not in headers and "transfer-encoding" not in headers
    assert connection.answer(connection.request(path + "/r1"))[2] == api.get(path + "/r1").body == body
    assert connection.answer(connection.request(path + "/missing"))[0] == 404
    code, headers, body = connection.answer(connection.request(path + "/r1", "HEAD"))
    assert (code, body) == (200, b"") and int(headers["content-length"]) > 100
    code, headers, _ = connection.answer(connection.request("/openapi/v2"))
    assert connection.answer(connection.request("/openapi/v2", headers=[("if-none-match", headers["etag"])]))[0] == 304
    for number in range(12):
        api.create(POLR, report(f"x{number}", results=[result(message="x" * 250000)]), ns)
    code, headers, body = connection.answer(connection.request(path), 60)
    assert (code, body) == (200, api.get(path).body) and "content-length" not in headers
    assert connection.answer(connection.request("/readyz"))[2] == b"ok"


def test_many_watches(connection, api, ns):
    """
    TR-02, TR-03, AGG-17: as many watches as the connection may have, requests beside them, and an answer to PING at
    once
    """
    connection.wait(lambda: h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS in connection.h2.remote_settings)
    assert connection.h2.remote_settings.max_concurrent_streams == STREAMS
    version = api.get(path_of(POLR, ns)).json["metadata"]["resourceVersion"]
    watches = [connection.request(f"{path_of(POLR, ns)}?watch=true&resourceVersion={version}")
               for _ in range(STREAMS - 1)]
    connection.wait(lambda: all(stream in connection.headers for stream in watches), 30, "the headers of the watches")
    assert all(connection.headers[stream][":status"] == "200" for stream in watches)
    for number in range(5):
        created = connection.answer(connection.request(path_of(POLR, ns), "POST",
                                                       json.dumps(report(f"r{number}")).encode(),
                                                       [("content-type", "application/json")]))
        assert created[0] == 201
        connection.h2.ping(b"%08d" % number)
        connection.flush()
    connection.wait(lambda: len(connection.pongs) == 5, 15, "the answers to PING")
    connection.wait(lambda: all(len(connection.frames(stream)) == 5 for stream in watches), 30, "the events")
    for stream in watches:
        assert [frame["object"]["metadata"]["name"] for frame in connection.frames(stream)] == [f"r{number}"
            for number in range(5)]


def test_reset_by_the_client(offering, connection, api, ns):
    """TR-05: a watch that the client resets ends at once; the other watches of its connection go on"""
    streams = [connection.request(f"{path_of(POLR, ns)}?watch=true") for _ in range(10)]
    connection.wait(lambda: all(stream in connection.headers for stream in streams))

    def watchers():
        return offering.watches()
    until(lambda: watchers() >= 10, 10, "the watches to be counted")
    before = watchers()
    for stream in streams[:9]:
        connection.h2.reset_stream(stream, 8)
    connection.flush()
    until(lambda: watchers() == before - 9, 10, "the end of nine watches")
    api.create(POLR, report("r1"), ns)
    connection.wait(lambda: len(connection.frames(streams[9])) == 1)


def test_stalled_stream(offering, api, ns):
    """TR-08: a stream whose client gives it no room does not delay the other streams of its connection"""
    for number in range(8):
        api.create(POLR, report(f"r{number}", results=[result(message="x" * 250000)]), ns)
    connection = Http2(offering, window=20000)
    stalled = [connection.request(path_of(POLR, ns)), connection.request(f"{path_of(POLR, ns)}?watch=true")]
    connection.wait(lambda: all(len(connection.bodies[stream]) == 20000 for stream in stalled))
    for _ in range(50):
        assert connection.answer(connection.request("/version"))[0] == 200
    connection.h2.reset_stream(stalled[0], 8)
    connection.flush()
    assert connection.answer(connection.request("/readyz"))[2] == b"ok"
    connection.close()
    assert offering.api().get("/readyz").code == 200


def test_a_list_that_breaks(stack, ns):
    """TR-06: a list that cannot be finished ends with a reset of its stream; the connection goes on"""
    proxy = stack.proxy(flags=["--http2", "--workers=1", "--request-timeout=2s", "--v=1"])
    api = proxy.api()
    for number in range(40):
        api.create(POLR, report(f"r{number:02}", results=[result(message="x" * 250000)]), ns)
    connection = Http2(proxy, window=100000)
    stream = connection.request(path_of(POLR, ns))
    connection.wait(lambda: len(connection.bodies[stream]) == 100000)
    until(lambda: "a list is cut off" in proxy.log_path.read_text(), 20, "the deadline")
    connection.h2.increment_flow_control_window(2000000, stream)
    connection.flush()
    connection.wait(lambda: stream in connection.resets or stream in connection.ended)
    assert stream in connection.resets and stream not in connection.ended
    assert connection.answer(connection.request("/readyz"))[2] == b"ok"
    connection.close()


def test_shutdown(stack, ns):
    """TR-06, LC-01, LC-03: GOAWAY comes, watches end cleanly, and then the connection ends"""
    proxy = stack.proxy(flags=["--http2", "--workers=1"])
    connection = Http2(proxy)
    watches = [connection.request(f"{path_of(POLR, ns)}?watch=true") for _ in range(5)]
    connection.wait(lambda: all(stream in connection.headers for stream in watches))
    proxy.process.terminate()
    connection.wait(lambda: connection.goaway is not None)
    assert connection.goaway.error_code == 0
    connection.wait(lambda: all(stream in connection.ended for stream in watches))
    assert connection.resets == {}
    assert proxy.process.wait(20) == 0
    connection.close()


@pytest.mark.parametrize("binary", KUBECTLS, ids=[kubectl_version(path) for path in KUBECTLS])
def test_go_clients(offering, api, ns, tmp_path, binary):
    """TR-01: kubectl speaks HTTP/2 where it is offered"""
    kubectl = Kubectl(binary, offering, tmp_path / "cache")
    api.create(POLR, report("r1"), ns)
    assert "r1" in kubectl.out("get", "polr", "-n", ns)
    watching = kubectl.start("get", "polr", "-n", ns, "--watch-only", "-o", "name")
    until(lambda: offering.watches() >= 1, 20, "the watch")
    api.create(POLR, report("r2"), ns)
    assert watching.stdout.readline().strip().endswith("/r2")
    watching.terminate()
    watching.wait()
    assert "deleted" in kubectl.out("delete", "polr", "--all", "-n", ns)


@pytest.mark.parametrize("user, code", [(None, 403), ("stranger", 401)])
def test_anonymous_connections(stack, offering, user, code):
    """
    AUTHN-08, TR-07: TestUnauthenticatedHTTP2ClientConnectionClose: after requests of an unknown user the connection is
    closed; requests that are open then are answered.
    """
    if user:
        stack_command("certificates", f"{stack.pki}/strangers")
        for suffix in ("crt", "key"):
            shutil.copy(f"{stack.pki}/strangers/admin.{suffix}", f"{stack.pki}/stranger.{suffix}")
    opened = Http2(offering, user=user)
    first, second = opened.request(path_of(POLR)), opened.request("/apis")
    assert [opened.answer(stream)[0] for stream in (first, second)] == [code, code]
    opened.wait_closed()
    # Everybody may read health, but such a request does not keep the connection open.
    health = Http2(offering, user=None)
    assert health.answer(health.request("/livez"))[0] == 200
    health.wait_closed()


def test_known_connections_stay(offering):
    """
    AUTHN-08: TestUnauthenticatedHTTP2ClientConnectionClose: a client that is known keeps its connection, even when it
    is refused.
    """
    opened = Http2(offering, user="nobody")
    for _ in range(3):
        assert opened.answer(opened.request(path_of(POLR)))[0] == 403
    stranger = Http2(offering, user=None)
    assert stranger.answer(stranger.request("/livez"))[0] == 200
    # By now the server would have closed the other connection, too.
    stranger.wait_closed()
    assert opened.answer(opened.request("/livez"))[0] == 200
    opened.close()


def test_flood_of_a_stranger(offering):
    """AUTHN-08, TR-07: overlapping requests of an unknown user do not keep the connection open."""
    opened = Http2(offering, user=None)
    sent, deadline = 0, time.monotonic() + 60
    while not opened.closed and sent < 2000 and time.monotonic() < deadline:
        try:
            # When as many streams are open as the server allows, wait until one has ended, however slow it is.
            opened.read(20 if opened.h2.open_outbound_streams >= opened.h2.remote_settings.max_concurrent_streams
                        else 0)
            if not opened.closed and opened.h2.open_outbound_streams < opened.h2.remote_settings.max_concurrent_streams:
                opened.request("/livez")
                sent += 1
        except OSError:
            break
    opened.wait_closed()
    assert len(opened.ended) <= 1 + 100
