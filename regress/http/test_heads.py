"""Heads of requests: users with many groups, too large heads, heads with two possible meanings."""

import http.client
import io
import json
import re
import socket

import pytest

from client import POLR, path_of, report
from test_http2 import Http2

HEAD_BYTES = 262144
HEAD_LINES = 4096


def exchange(api, text, pieces=None):
    """Sends these bytes, in pieces; returns everything that the server answers until it closes the connection."""
    with socket.create_connection(("127.0.0.1", api.port), 60) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with api.context.wrap_socket(plain, server_hostname="127.0.0.1") as sock:
            for piece in pieces or [text]:
                sock.sendall(piece)
            received = b""
            while more := sock.recv(65536):
                received += more
            return received


def read_answer(received):
    """Returns the first answer in these bytes: code, headers, document."""
    class Socket:
        def makefile(self, *_):
            return io.BytesIO(received)
    response = http.client.HTTPResponse(Socket())
    response.begin()
    return response.status, response.headers, json.loads(response.read())


def refusal(received, code, reason):
    """Checks that there is one answer, a Status that ends the connection; returns the Status."""
    got, headers, status = read_answer(received)
    assert received.count(b"HTTP/1.1 ") == 1 and got == code, received[:300]
    assert headers["Connection"] == "close" and headers["Content-Type"] == "application/json"
    assert (status["kind"], status["code"], status["reason"]) == ("Status", code, reason)
    return status


@pytest.fixture
def front(delegate, apiserver):
    apiserver.access_rule = lambda spec: {"allowed": spec.get("user") == "alice"}
    return delegate()


def groups_of(count):
    return [f"CN=group-{number:05},OU=teams,OU=groups,DC=directory,DC=example" for number in range(count)]


def test_a_thousand_groups(front):
    """
    AGG-11: a line for each group, as kube-apiserver sends them: all of them arrive, and so do all values of an extra
    """
    groups = groups_of(1500)
    extra = {"scopes": [f"scope-{number}" for number in range(500)]}
    answer = front.front().get(path_of(POLR, "ns-of-many"), groups=groups, extra=extra)
    assert answer.code == 200, answer
    seen = front.seen("alice")[-1]
    assert seen["groups"] == [*groups, "system:authenticated"] and seen["extra"]["scopes"] == extra["scopes"]
    # A request with such a head and a body.
    document = json.dumps(report("of-many")).encode()
    answer = front.front().request("POST", path_of(POLR, "ns-of-many"), groups=groups, body=document,
                                   headers=[("Content-Type", "application/json")])
    assert answer.code == 201, answer


def test_too_many_groups(front):
    """TR-04: beyond the limits a Status 431, a log line and a metric"""
    for groups in (groups_of(HEAD_LINES), [name * 10 for name in groups_of(500)]):
        answer = front.front().get(path_of(POLR, "ns-of-many"), groups=groups)
        assert answer.code == 431 and answer.headers["Connection"] == "close"
        assert answer.json["reason"] == "RequestHeaderFieldsTooLarge" and answer.json["code"] == 431
        assert (answer.json["message"]
                == f"Request header fields too large: limits are {HEAD_BYTES} bytes and {HEAD_LINES} lines")
    assert front.proxy.metric("kube_reports_large_heads_total") == 2
    assert ("a request was refused with code 431, because its head is too large: GET /apis/"
            in front.proxy.log_path.read_text())


def test_groups_over_http2(stack):
    """TR-04: the same limits where HTTP/2 is offered"""
    proxy = stack.proxy(flags=["--http2", "--workers=1"])
    connection = Http2(proxy)
    try:
        for count, code in ((1500, 200), (HEAD_LINES + 1, 431)):
            headers = [("x-remote-group", f"group-{number}") for number in range(count)]
            status, answered, body = connection.answer(connection.request("/version", headers=headers), 60)
            assert status == code, body
            assert code == 200 or json.loads(body)["reason"] == "RequestHeaderFieldsTooLarge"
    finally:
        connection.close()


@pytest.mark.parametrize("lines", [
    b"A: b\r\n c\r\n", b"A: b\r\n\tc\r\n", b" A: b\r\n", b"A : b\r\n", b"A\t: b\r\n", b": b\r\n", b"A\r\n",
                                   b"A: b\rc\r\n", b"A: b\x00c\r\n",
    b"A\x00: b\r\n", b"A: b\x7f\r\n", b"A(: b\r\n", b"Content-Length: 1\r\nContent-Length: 2\r\n",
                                   b"Content-Length: 1, 1\r\n",
    b"Content-Length: +1\r\n", b"Content-Length: 0x1\r\n", b"Content-Length: \r\n",
                                   b"Content-Length: 18446744073709551617\r\n",
    b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", b"Transfer-Encoding: chunked\r\nContent-Length: 1\r\n",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip, chunked\r\n",
                                   b"Transfer-Encoding: identity\r\n"],
    ids=repr)
def test_two_meanings(api, lines):
    """TR-04: a head that two servers could read differently is refused; the bytes after it are not read as a request"""
    behind = b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n"
    refusal(exchange(api, b"POST /version HTTP/1.1\r\nHost: x\r\n" + lines + b"\r\n" + behind), 400, "BadRequest")


@pytest.mark.parametrize("line", [b"GET /version", b"GET  /version HTTP/1.1", b"GET /version HTTP/2.0",
                                  b"GET /version HTTP/1.10", b"GE(T /version HTTP/1.1",
                                  b"GET /ver\x00sion HTTP/1.1", b"GET /version HTTP/1.1\rX: y",
                                  b"GET /version\tHTTP/1.1"], ids=repr)
def test_bad_request_lines(api, line):
    """TR-04: a wrong request line is refused"""
    refusal(exchange(api, line + b"\r\nHost: x\r\n\r\n"), 400, "BadRequest")


def test_what_is_taken(api):
    """
    TR-04: heads that Go's server accepts, too: lines that end in LF, an empty line first, a repeated equal length,
    blanks behind a value
    """
    for text in (b"GET /version HTTP/1.1\nHost: x\nConnection: close\n\n",
                 b"\r\nGET /version HTTP/1.1\r\nHost: x\r\nConnection: close \t\r\n\r\n",
                 b"GET /version HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 2 \r\nConnection: "
                 b"close\r\n\r\n{}",
                 b"GET /version HTTP/1.0\r\n\r\n",
                 b"GET /version HTTP/1.1\r\nHost:\r\nX-Empty:\r\nX-High: \xc3\xa9\r\nConnection: close\r\n\r\n"):
        assert read_answer(exchange(api, text))[0] == 200, text


def test_heads_in_pieces(stack, ns):
    """TR-04: a head has the same meaning wherever it is cut into pieces"""
    api = stack.first.api()
    body = json.dumps(report("r1")).encode()
    text = (f"POST {path_of(POLR, ns)}?dryRun=All HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nX-A: b\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body
    last = b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    head = text.index(b"\r\n\r\n") + 4
    pieces = [piece for at in range(1, head + 1) for piece in (text[:at], text[at:])]
    answers = exchange(api, None, [*pieces, *(text[at:at + 1] for at in range(len(text))), last])
    assert re.findall(rb"HTTP/1\.1 (\d+) ", answers) == [b"201"] * (head + 1) + [b"200"]
    # A wrong head is refused wherever it is cut.
    wrong = b"GET /version HTTP/1.1\r\nHost: x\r\nA: b\rc\r\n\r\n"
    for at in range(1, wrong.index(b"\rc") + 2):
        refusal(exchange(api, None, [wrong[:at], wrong[at:]]), 400, "BadRequest")


def test_no_bodies_on_the_plain_port(stack):
    """HL-01: a request that announces a body is refused before the body comes; a request without one is answered"""
    for headers in (b"Content-Length: 3000000\r\n", b"Transfer-Encoding: chunked\r\n",
                    b"Content-Length: 1\r\nExpect: 100-continue\r\n"):
        with socket.create_connection(("127.0.0.1", stack.first.metrics_port), 20) as sock:
            sock.sendall(b"POST /metrics HTTP/1.1\r\nHost: x\r\n" + headers + b"\r\n")
            received = b""
            while more := sock.recv(65536):
                received += more
        refusal(received, 413, "RequestEntityTooLarge")
    with socket.create_connection(("127.0.0.1", stack.first.metrics_port), 20) as sock:
        sock.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        assert sock.recv(65536).startswith(b"HTTP/1.1 200 ")
