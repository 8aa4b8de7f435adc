"""Hostile clients of kube-reports-grpc: they send single frames over TLS, with and without a credential."""

import contextlib
import os
import pwd
import socket
import ssl
import struct
import uuid

import hpack
import pytest

from client import until
from conftest import stack_command
from grpc_port import SERVICE, GrpcPort, Sender, batch, result

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, _, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS, ACK = 1, 4, 1
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MEBIBYTE = 1 << 20


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def message(content):
    return b"\0" + struct.pack(">I", len(content)) + content


class Hostile:
    """An HTTP/2 connection whose frames the test makes."""

    def __init__(self, port, settings=b"", receive_buffer=None):
        context = ssl.create_default_context(cafile=f"{port.pki}/ca.crt")
        context.set_alpn_protocols(["h2"])
        plain = socket.socket()
        if receive_buffer:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        plain.settimeout(30)
        plain.connect(("127.0.0.1", port.port))
        self.socket = context.wrap_socket(plain, server_hostname="127.0.0.1")
        self.encoder = hpack.Encoder()
        self.decoder = hpack.Decoder()
        self.waiting = b""
        self.send(PREFACE, frame(SETTINGS, 0, 0, settings))

    def send(self, *frames):
        self.socket.sendall(b"".join(frames))

    def head(self, stream, token=None, flags=END_HEADERS, path=SERVICE + "StoreBatches", more=()):
        """Returns the head of a call."""
        fields = [(":method", "POST"), (":scheme", "https"), (":path", path), (":authority", "x"),
                  ("content-type", "application/grpc"), ("te", "trailers"), *more]
        if token:
            fields.append(("authorization", f"Bearer {token}"))
        return frame(HEADERS, flags, stream, self.encoder.encode(fields))

    def read(self):
        """Returns one frame (kind, flags, stream, payload), or None when the connection has ended."""
        while len(self.waiting) < 9 or len(self.waiting) < 9 + int.from_bytes(self.waiting[:3], "big"):
            try:
                more = self.socket.recv(65536)
            except (ConnectionError, ssl.SSLError):
                more = b""
            if not more:
                return None
            self.waiting += more
        size = int.from_bytes(self.waiting[:3], "big")
        kind, flags = self.waiting[3:5]
        stream, = struct.unpack(">I", self.waiting[5:9])
        payload, self.waiting = self.waiting[9:9 + size], self.waiting[9 + size:]
        return kind, flags, stream, payload

    def ended(self):
        """Reads until the connection ends; returns the code of a GOAWAY, if there was one."""
        code = None
        while (got := self.read()) is not None:
            if got[0] == GOAWAY:
                code = struct.unpack(">II", got[3][:8])[1]
        return code

    def status(self, stream):
        """Returns the gRPC status of a call, or None when the connection has ended."""
        while (got := self.read()) is not None:
            if got[0] == HEADERS:
                fields = dict(self.decoder.decode(got[3]))
                if got[2] == stream and "grpc-status" in fields:
                    return int(fields["grpc-status"])
        return None

    def close(self):
        self.socket.close()


def trusted(port, **more):
    """Returns a connection that has proved a credential: no time-out of strangers ends it."""
    hostile = Hostile(port, **more)
    hostile.send(hostile.head(1, port.token), frame(DATA, END_STREAM, 1, message(b"\xff")))
    assert hostile.status(1) == 3
    return hostile


@pytest.fixture(scope="module")
def port(module_stack):
    """A kube-reports-grpc with small limits."""
    certificates = f"{module_stack.pki}/senders"
    stack_command("certificates", certificates)
    if os.getuid() == 0:
        owner = pwd.getpwnam("postgres")
        for entry in [certificates, *(os.path.join(certificates, name) for name in os.listdir(certificates))]:
            os.chown(entry, owner.pw_uid, owner.pw_gid)
    module_stack.database.psql("SELECT kube_reports.grant_ingest('kube_reports_proxy')")
    # Tests open more connections than this process has descriptors.
    made = GrpcPort(module_stack, ["--max-connections=64"], under=["prlimit", "--nofile=150"]).wait_ready()
    made.token = module_stack.database.psql(
        f"SELECT kube_reports.add_sender('{uuid.uuid4()}', 'honest')")
    yield made
    made.stop()


@pytest.fixture(autouse=True)
def honest(port):
    """After each attack, an honest sender is served, and nothing is left of the attack."""
    before = port.memory()
    yield
    with contextlib.closing(Sender(port, port.token)) as sender:
        assert sender.batch(batch([result("a")]), timeout=20).accepted == 1
    until(lambda: port.metric("kube_reports_grpc_calls") == 0, 20, "the end of all calls")
    assert port.metric("kube_reports_grpc_held_bytes") == 0
    assert port.memory() < before + 48 * MEBIBYTE


def send_all(hostile, frames):
    """Sends frames until the server closes the connection."""
    with contextlib.suppress(OSError):
        for each in frames:
            hostile.send(each)


def test_rapid_reset(port):
    hostile = trusted(port)
    send_all(hostile, (hostile.head(stream) + frame(RST_STREAM, 0, stream, b"\0\0\0\x08")
                       for stream in range(3, 4001, 2)))
    hostile.ended()
    hostile.close()


def test_continuation_frames(port):
    hostile = trusted(port)
    block = hostile.encoder.encode([("a", "b" * 8000)])
    send_all(hostile, [hostile.head(3, flags=0), *[frame(CONTINUATION, 0, 3, block)] * 2000])
    hostile.ended()
    hostile.close()


def test_heads(port):
    """A too large head is answered with RESOURCE_EXHAUSTED; a far too large one, even if HPACK packs it, ends all"""
    hostile = trusted(port)
    hostile.send(hostile.head(3, port.token, more=[(f"x-{n}", "y") for n in range(120)]))
    assert hostile.status(3) == 8
    hostile.send(hostile.head(5, port.token, more=[("x", "y" * 3000), *[("x", "y" * 3000)] * 100]))
    hostile.ended()
    hostile.close()


@pytest.mark.parametrize("kind", ["ping", "settings"])
def test_frames_to_answer(port, kind):
    """A client causes answers and reads none: the server ends the connection"""
    hostile = trusted(port, receive_buffer=2048)
    each = frame(PING, 0, 0, b"12345678") if kind == "ping" else frame(SETTINGS, 0, 0, b"\0\3\0\0\0\x64")
    send_all(hostile, [each * 100] * 20000)
    until(lambda: port.metric("kube_reports_grpc_connections") == 0, 60, "the end of the connection")
    hostile.close()


def test_refused_streams(port):
    """A client that reads nothing opens calls beyond the limit: the server keeps 32 at most"""
    hostile = trusted(port, receive_buffer=2048)
    send_all(hostile, (hostile.head(stream, port.token) for stream in range(3, 40001, 2)))
    assert 0 < port.metric("kube_reports_grpc_calls") <= 32
    hostile.close()


def test_strangers_bytes(port):
    """Without a credential, the server holds at most 64 KiB of a connection, however many calls the connection has"""
    made = [Hostile(port) for _ in range(10)]
    before = port.memory()
    for hostile in made:
        with contextlib.suppress(OSError):
            hostile.socket.settimeout(0.5)
            hostile.send(*(hostile.head(stream, path="/grpc.health.v1.Health/Check") for stream in range(1, 33, 2)))
            hostile.send(*(frame(DATA, 0, stream, b"\0\0\0\x04\0" + b"x" * 3000) for stream in range(1, 33, 2)))
            hostile.send(*(frame(DATA, 0, 1, b"x" * 16000) for _ in range(100)))
    assert port.memory() < before + 16 * MEBIBYTE
    for hostile in made:
        hostile.close()


def test_unread_answers(port):
    """A sender reads no answers: its next batch is not stored, so that answers do not pile up"""
    hostile = Hostile(port, settings=b"\0\4\0\0\0\0")
    before = port.metric("kube_reports_grpc_messages_total")
    hostile.send(hostile.head(1, port.token))
    for sequence in range(1, 20):
        content = message(batch([result("a")], sequence, False, "unread").SerializeToString())
        hostile.send(frame(DATA, 0, 1, content))
    until(lambda: port.metric("kube_reports_grpc_messages_total") == before + 1, 20, "the first batch")
    # The sender makes room for the answer, which has 19 bytes, and one more batch is stored.
    hostile.send(frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", 19)))
    until(lambda: port.metric("kube_reports_grpc_messages_total") == before + 2, 20, "the second batch")
    hostile.close()


def test_calls_without_a_message(port):
    """Of calls that need no credential, only few are open at a time, and only for seconds"""
    made = [Hostile(port) for _ in range(4)]
    for hostile in made:
        hostile.send(*(hostile.head(stream, path="/grpc.health.v1.Health/Check") for stream in range(1, 65, 2)))
    until(lambda: port.metric('kube_reports_grpc_calls_total{code="RESOURCE_EXHAUSTED"}') >= 64, 20, "the limit")
    assert port.metric("kube_reports_grpc_calls") <= 64
    with contextlib.closing(Sender(port, port.token)) as sender:
        assert sender.batch(batch([result("a")]), timeout=20).accepted == 1
    until(lambda: port.metric("kube_reports_grpc_calls") == 0, 20, "the time limit")
    for hostile in made:
        hostile.close()


def test_wrong_credentials(port):
    hostile = Hostile(port)
    for stream in range(1, 15, 2):
        hostile.send(hostile.head(stream, "wrong", END_HEADERS | END_STREAM))
        assert hostile.status(stream) == 16
    hostile.send(hostile.head(15, "wrong", END_HEADERS | END_STREAM))
    assert hostile.ended() == 11
    hostile.close()


def test_connections(port):
    """Many silent connections use up neither the descriptors nor the place of a sender"""
    with contextlib.ExitStack() as open_ones:
        for _ in range(400):
            open_ones.callback(socket.create_connection(("127.0.0.1", port.port), 10).close)
        with contextlib.closing(Sender(port, port.token)) as sender:
            assert sender.batch(batch([result("a")]), timeout=30).accepted == 1
        assert port.metric("kube_reports_grpc_strangers") <= 32
        assert port.metric("kube_reports_grpc_connections_refused_total") >= 300


@pytest.mark.parametrize("opening", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", PREFACE, b"\x16\x03\x01" + b"\0" * 100],
                         ids=("plain", "h2c", "half-a-handshake"))
def test_no_tls(port, opening):
    with socket.create_connection(("127.0.0.1", port.port), 10) as plain:
        plain.sendall(opening)
        plain.settimeout(40)
        with contextlib.suppress(ConnectionError):
            while plain.recv(4096):
                pass


def test_nonsense(port):
    """Frames that break the rules of HTTP/2"""
    for nonsense in (frame(DATA, 0, 0, b"x"), frame(HEADERS, END_HEADERS, 2, b"\x82"), frame(0xff, 0xff, 1, b"x" * 100)
                     + frame(DATA, 0, 1, b"x"), frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\0"), frame(PING, 0, 0, b"x"),
                     frame(HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff"), b"\xff" * 5000,
                     frame(SETTINGS, 0, 0, b"\0\4\xff\xff\xff\xff"), frame(GOAWAY, 0, 0, b"x")):
        hostile = Hostile(port)
        send_all(hostile, [nonsense])
        hostile.ended()
        hostile.close()
