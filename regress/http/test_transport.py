"""Requests on the wire: paths, limits, time-outs, what is echoed (conformance 5.1, 7, 15.8, 15.9, 16, 17)."""

import json
import re
import socket
import threading
import time
import urllib.parse
import uuid

import psycopg2
import pytest

from client import POLR, failure, path_of, report, result, until
from conftest import reads_of_c


def raw(stack, text, api=None, seconds=20):
    """Sends these bytes; returns everything that the server answers until it closes the connection."""
    api = api or stack.first.api()
    with socket.create_connection(("127.0.0.1", stack.first.port), seconds) as plain, api.context.wrap_socket(plain,
        server_hostname="127.0.0.1") as sock:
        sock.sendall(text)
        answer = b""
        while True:
            more = sock.recv(65536)
            if not more:
                return answer
            answer += more


# --- Paths ---

@pytest.mark.parametrize("name", [".", "..", "%2e", "%2E%2e", "a%2Fb", "a%25b", "%2f"])
def test_names_that_cannot_be(api, ns, name):
    """REQ-07, TR-10: . and .., a slash or a percent sign in a segment, however they are written"""
    for method in ("GET", "DELETE"):
        status = failure(api.request(method, f"{path_of(POLR, ns)}/{name}"), 400, "BadRequest")
        decoded = urllib.parse.unquote(name)
        why = (f"may not be '{decoded}'" if decoded in (".", "..") else "may not contain '/'" if "/" in decoded
               else "may not contain '%'")
        assert status["message"] == f"Name parameter invalid: {json.dumps(decoded)}: {why}"


def test_paths_are_decoded_once(api, ns):
    """TR-10: escapes are decoded once, a NUL is refused, a path with an empty segment is not found"""
    api.create(POLR, report("r1"), ns)
    path = path_of(POLR, ns)
    assert api.get(f"{path}/%721").json["metadata"]["name"] == "r1"
    assert api.get(path.replace("policyreports", "%70olicyreports") + "/r1").code == 200
    failure(api.get(f"{path}/r1%00"), 400, "BadRequest")
    failure(api.get(f"{path}/r%"), 400, "BadRequest")
    failure(api.get(f"{path}/%2572"), 400, "BadRequest")
    for wrong in (path.replace("/apis/", "//apis/"), path.replace("/policyreports", "//policyreports"), path + "//r1",
                  "/" + path.lstrip("/").replace("/", "//")):
        assert api.get(wrong).code == 404, wrong
    # A path with .. does not get around authorization.
    nobody = "/apis/wgpolicyk8s.io/v1alpha2/namespaces/{}/livez/../policyreports"
    failure(api.get(nobody.format(ns)), 400, "BadRequest")


def test_legacy_watch_paths(api, ns):
    """W-60: /watch/ before the rest of the path is watch=true"""
    group, version, plural = POLR.split("/")
    first = api.create(POLR, report("r1"), ns)
    for path, names in ((f"/apis/{group}/{version}/watch/namespaces/{ns}/{plural}", ["r1", "r2"]),
                        (f"/apis/{group}/{version}/watch/namespaces/{ns}/{plural}/r2", ["r2"])):
        with api.watch(path, watch="", resourceVersion=int(first["metadata"]["resourceVersion"]) - 1) as watch:
            if "r1" in names:
                watch.expect(("ADDED", "r1"))
            created = api.create(POLR, report("r2"), ns)
            watch.expect(("ADDED", "r2"))
            assert api.delete(path_of(POLR, ns, "r2")).code == 200
            watch.expect(("DELETED", "r2"))
            assert int(created["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
    failure(api.post(f"/apis/{group}/{version}/watch/namespaces/{ns}/{plural}", report("r3")), 405, "MethodNotAllowed")


def test_upgrades_are_ignored(api, ns):
    """W-70: a watch that asks for a web socket is an ordinary watch"""
    api.create(POLR, report("r1"), ns)
    connection = api.connect()
    connection.request("GET", path_of(POLR, ns) + "?watch=true&timeoutSeconds=1", headers={
        "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="})
    answer = connection.getresponse()
    assert answer.status == 200 and answer.headers[
                                                   "Content-Type"] == "application/json" and answer.headers[
        "Upgrade"] is None
    assert [json.loads(line)["type"] for line in answer.read().splitlines() if line.strip()] == ["ADDED"]
    connection.close()


# --- Limits ---

def test_body_limit(api, ns):
    """TR-04, REQ-01: a body of exactly the limit is read; one byte more is a 413"""
    path = path_of(POLR, ns)
    document = json.dumps(report("r1")).encode()
    assert api.post(path, document.ljust(3145728)).code == 201
    status = failure(api.post(path, document.ljust(3145729)), 413, "RequestEntityTooLarge")
    assert status["message"] == "Request entity too large: limit is 3145728"


def test_header_limits(stack):
    """
    TR-04: a header block beyond what any client sends ends in an answer or the end of the connection, never in a wait
    """
    many = b"".join(b"x-header-%d: y\r\n" % number for number in range(90))
    assert raw(stack, b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + many
               + b"\r\n").startswith(b"HTTP/1.1 200 ")
    large = b"x-large: " + b"y" * 100000 + b"\r\n"
    assert raw(stack, b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + large
               + b"\r\n").startswith(b"HTTP/1.1 200 ")
    for header in (b"x: y\r\n" * 5000, b"x: " + b"y" * 2000000 + b"\r\n"):
        try:
            answer = raw(stack, b"GET /version HTTP/1.1\r\nHost: x\r\n" + header + b"\r\n")
        except ConnectionError:
            answer = b""
        assert answer == b"" or answer.startswith(b"HTTP/1.1 431 "), answer[:100]


def test_body_without_length(api, ns):
    """TR-09: a body without a length, as Go's ReverseProxy sends it; a chunked body without bytes is an empty body"""
    connection = api.connect()
    document = json.dumps(report("chunked")).encode()
    connection.request("POST", path_of(POLR, ns), body=iter([document[:7], document[7:]]),
                       headers={"Content-Type": "application/json"}, encode_chunked=True)
    assert connection.getresponse().status == 201
    connection.close()
    connection = api.connect()
    connection.request("DELETE", path_of(POLR, ns, "chunked"), body=iter([]), encode_chunked=True)
    assert connection.getresponse().status == 200
    connection.close()


def test_idle_connection(stack):
    """
    TR-03: a watch of 13 seconds without events does not end its connection, which takes the next request
    """
    keep = stack.first.api(keep=True)
    assert keep.get("/version").headers["Connection"] == "keep-alive"
    before = keep.connection.sock.getsockname()
    with keep.watch(path_of(POLR, "t-idle"), timeoutSeconds=13) as watch:
        assert watch.end(30) == [] and watch.error is None
    assert keep.get("/version").code == 200 and keep.connection.sock.getsockname() == before


def test_slow_head(stack, ns):
    """
    TR-03, TR-07: a head that does not end closes its connection after 32 s, as in kube-apiserver; a slow body and an
    idle connection do not
    """
    api = stack.first.api()
    body = json.dumps(report("slow"))
    head = (f"POST {path_of(POLR, ns)} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: "
            f"{len(body) + 100}\r\n")
    connections = [api.connect(60) for _ in range(3)]
    for connection in connections:
        connection.connect()
    slow_head, slow_body, idle = (connection.sock for connection in connections)
    idle.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
    assert idle.recv(12) == b"HTTP/1.1 200"
    slow_body.sendall(f"{head}\r\n".encode())
    slow_head.sendall(f"{head}X-Long: ".encode())
    slow_head.settimeout(1)
    begun, answer, spaces = time.monotonic(), None, 0
    while answer is None and time.monotonic() - begun < 60:
        try:
            answer = slow_head.recv(100)
        except TimeoutError:
            slow_head.sendall(b"x")
            slow_body.sendall(b" ")
            spaces += 1
        except OSError:
            answer = b""
    took = time.monotonic() - begun
    assert answer == b"" and 31 < took < 50, (answer, took)
    slow_body.sendall(b" " * (100 - spaces) + body.encode())
    assert slow_body.recv(12) == b"HTTP/1.1 201"
    idle.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
    while b"HTTP/1.1 200" not in idle.recv(65536):
        pass
    for connection in connections:
        connection.close()


# --- Parameters ---

@pytest.mark.parametrize("timeout", ["x", "5", "1", "-1", "1m30", "s", "1 s", "%2B"])
def test_bad_timeout(api, ns, timeout):
    """REQ-04: TestParseTimeout, TestWithRequestDeadline"""
    status = failure(api.get(path_of(POLR, ns) + f"?timeout={urllib.parse.quote(urllib.parse.unquote(timeout))}"), 400,
                     "BadRequest")
    assert status["message"].startswith("invalid timeout specified in the request URL")


@pytest.mark.parametrize("timeout", ["", "0", "0s", "-1s", "32s", "1m30s", "1.5h", "500ms", "+1s", "2h45m"])
def test_good_timeout(api, ns, timeout):
    """REQ-04, DISC-16: TestParseTimeout"""
    for path in (path_of(POLR, ns), "/apis"):
        assert api.get(path, timeout=timeout).code == 200


def test_timeout_counts(stack, api, ns):
    """
    REQ-04, AGG-18: TestWithRequestDeadline, TestWithRequestDeadlineWithRequestTimesOut, TestTimeout: a timeout ends a
    request that waits, and its work in the database; it does not end a watch
    """
    stored = api.create(POLR, report("r1"), ns)
    blocker = psycopg2.connect(stack.database.connection("postgres"))
    blocker.cursor().execute("LOCK TABLE kube_reports.object IN ACCESS EXCLUSIVE MODE")
    try:
        status = failure(api.get(path_of(POLR, ns, "r1"), timeout="300ms"), 504, "Timeout")
        assert status["message"] == "Timeout: request did not complete within the allotted timeout"
    finally:
        blocker.close()
    assert api.get(path_of(POLR, ns, "r1")).json == stored
    with api.watch(path_of(POLR, ns), timeout="1ms", resourceVersion=stored["metadata"]["resourceVersion"]) as watch:
        api.create(POLR, report("r2"), ns)
        watch.expect(("ADDED", "r2"))


def test_timeout_of_writes(stack, api, ns):
    """
    REQ-04, AGG-18: TestCreateTimeout, TestPatchResourceTimeout: a client that waits gets an answer, which does not say
    what becomes of the write; later writes go on
    """
    api.create(POLR, report("r1"), ns)
    blocker = stack.database.open_create(stack.cluster, report("open", ns))
    try:
        for answer in (api.post(path_of(POLR, ns), report("r2"), timeout="4ms"),
                       api.patch(path_of(POLR, ns, "r1"), {"summary": {"pass": 9}}, timeout="4ms")):
            status = failure(answer, 504, "Timeout")
            assert status["message"] == "Timeout: request did not complete within the allotted timeout"
    finally:
        blocker.rollback()
        blocker.close()
    api.create(POLR, report("r3"), ns)
    assert {"r1", "r3"} <= set(api.names(POLR, ns)) <= {"r1", "r2", "r3"}


def test_default_timeout(stack, api, ns):
    """
    REQ-04: TestWithRequestDeadline: without a timeout, with 0 or with a longer one, --request-timeout applies
    """
    api.create(POLR, report("r1"), ns)
    proxy = stack.proxy(flags=["--request-timeout=1s"])
    blocker = psycopg2.connect(stack.database.connection("postgres"))
    blocker.cursor().execute("LOCK TABLE kube_reports.object IN ACCESS EXCLUSIVE MODE")
    try:
        for query in ({}, {"timeout": ""}, {"timeout": "0s"}, {"timeout": "61s"}):
            begun = time.monotonic()
            failure(proxy.api().get(path_of(POLR, ns, "r1"), **query), 504, "Timeout")
            assert 0.9 < time.monotonic() - begun < 20, query
    finally:
        blocker.close()


def test_parameters(api, ns):
    """
    REQ-03: the first of repeated parameters counts; unknown ones, and those with a raw semicolon, are ignored
    """
    for number in range(3):
        api.create(POLR, report(f"r{number}", labels={"n": str(number)}), ns)
    path = path_of(POLR, ns)
    assert len(api.get(path + "?limit=1&limit=2&unknown=%zz".replace("%zz", "x")).json["items"]) == 1
    assert len(api.get(path + "?labelSelector=n%3D1;x&foo").json["items"]) == 3
    assert [item["metadata"]["name"]
            for item in api.get(path + "?labelSelector=n+in+(0%2C2)").json["items"]] == ["r0", "r2"]
    for value in ("0", "false", "False"):
        assert api.get(path, watch=value).json["kind"] == "PolicyReportList"
    failure(api.get(path + "?limit=%zz"), 400, "BadRequest")
    failure(api.get(path + "?labelSelector=a%00"), 400, "BadRequest")


@pytest.mark.parametrize("agent, query, accept, pretty", [
    ("curl/7.88", None, None, True), ("Wget/1.21", None, None, True), ("Mozilla/5.0 (X11)", None, None, True),
    ("kubectl/v1.32", None, None, False),
    ("curl/7.88", "false", None, False), ("curl/7.88", "0", None, False), ("kubectl/v1.32", "true", None, True),
    ("kubectl/v1.32", "1", None, True),
    ("kubectl/v1.32", None, "application/json;pretty=1", True),
    ("kubectl/v1.32", None, "application/json;pretty=0", False),
    ("kubectl/v1.32", "", None, False)])
def test_pretty(api, ns, agent, query, accept, pretty):
    """
    REQ-10: TestGetPretty: agent, parameter or Accept decide; the bytes are those of an encoder that indents by two, or
    not at all
    """
    api.create(POLR, report("r1"), ns)
    for path in (path_of(POLR, ns), path_of(POLR, ns, "r1")):
        answer = api.request("GET", path + ("" if query is None else f"?pretty={query}"),
                             headers={"User-Agent": agent, "Accept": accept})
        assert answer.body.decode() == json.dumps(answer.json,
                                                  **({"indent": 2} if pretty else {"separators": (",", ":")})) + "\n"


def test_head(api, ns):
    """REQ-12: the headers of a get, of one object and of a list, and no body"""
    api.create(POLR, report("r1"), ns)
    for path in (path_of(POLR, ns), path_of(POLR, ns, "r1"), path_of(POLR, ns, "missing"), "/apis", "/version"):
        get, head = api.get(path), api.request("HEAD", path)
        assert (head.code, head.body) == (get.code, b"")
        assert head.headers["Content-Type"] == get.headers["Content-Type"] and head.headers[
            "Content-Length"] == get.headers["Content-Length"]


# --- Headers and log lines ---

def test_audit_id(api, ns):
    """AUD-01, REQ-09: the client's own id comes back on every answer; a new one is a UUID"""
    for path in (path_of(POLR, ns), "/apis", "/livez", "/nothing", path_of(POLR, ns, "missing")):
        given = str(uuid.uuid4())
        assert api.request("GET", path, headers={"Audit-Id": given}).headers["Audit-Id"] == given
        assert uuid.UUID(api.get(path).headers["Audit-Id"]).version == 4
        assert api.request("GET", path, headers={"Audit-Id": "a\tb" * 50}).headers["Audit-Id"] != "a\tb" * 50
        assert api.get(path).headers["Date"].endswith(" GMT")


def test_access_log(own_stack, ns):
    """AUD-01: the line of a request has its user, path, verb and code"""
    own_stack.begin()
    proxy = own_stack.proxy(flags=["--v=1"])
    given = str(uuid.uuid4())
    answer = proxy.api().request("POST", path_of(POLR, ns), report("r1"), headers={"Audit-Id": given}, fieldManager="m")
    assert answer.code == 201

    def logged():
        return next((entry for entry in proxy.log_entries() if entry.get("auditID") == given), None)
    line = until(logged, 10, "the line")
    assert (line["method"], line["verb"], line["status"], line["complete"]) == ("POST", "create", 201, True)
    assert line["uri"] == path_of(POLR,
                                  ns) + "?fieldManager=m" and line["userAgent"] == "tests/1.0" and line[
        "bytes"] == len(answer.body)
    assert line["user"] == "kube-reports-admin" and line["groups"] == ["system:masters",
        "system:authenticated"] and 0 < line["latency"] < 20


def test_warnings(api, ns):
    """
    WARN-01: TestTruncation, Test_recorder_AddWarning: each warning is quoted in a header of its own, comes once, and
    has no control characters; too much text is shortened
    """
    document = report("r1") | {"a\"\\b": 1, "c": 1}
    answer = api.post(path_of(POLR, ns), json.dumps(document)[:-1] + ", \"c\": 2, \"c\": 3}")
    assert answer.code == 201
    assert sorted(answer.warnings) == sorted([r'299 - "unknown field \"a\"\\b\""', r'299 - "unknown field \"c\""',
                                              r'299 - "duplicate field \"c\""'])
    # Nothing is shortened as long as there is room for all.
    alone = report("r3") | {"ñ" * 600: 1, "short": 1}
    assert [warning.encode("latin-1").decode() for warning in api.post(path_of(POLR, ns), alone).warnings] == [
        '299 - "unknown field \\"short\\""', f'299 - "unknown field \\"{"ñ" * 600}\\""']
    many = report("r2") | {f"field-{number:03}-" + "x" * 600: 1 for number in range(40)}
    warnings = api.post(path_of(POLR, ns), many).warnings
    assert 1 < len(warnings) <= 16 and all(len(warning) <= 256 + 20 for warning in warnings)
    assert sum(len(warning) for warning in warnings) <= 4096 + 20 * len(warnings)


# --- Too much at once ---

@reads_of_c
def test_saturation(own_stack, ns):
    """
    APF-01: TestMaxInFlightNonMutating, TestMaxInFlightSkipsMasters: when the queues are full, requests get 429 with
    Retry-After at once; health, discovery, open watches and system:masters are served
    """
    own_stack.begin("max_connections = 100")
    proxy = own_stack.proxy(flags=["--workers=1", "--request-timeout=2m", "--authorization-mode=AlwaysAllow"])
    api, crowd = proxy.api(), proxy.api("nobody")
    stored = api.create(POLR, report("r1"), ns)
    watch = api.watch(path_of(POLR, ns), resourceVersion=stored["metadata"]["resourceVersion"])
    blocker = psycopg2.connect(own_stack.database.connection("postgres"))
    blocker.cursor().execute("SELECT pg_advisory_xact_lock(4711)")
    # Gets take as long as the test wants.  They do not wait for a lock, because the server ends such a wait earlier.
    own_stack.database.psql("""
        ALTER FUNCTION kube_reports_internal.api_get(uuid, jsonb, kube_reports_internal.caller)
            RENAME TO api_get_at_once;
        CREATE FUNCTION kube_reports_internal.api_get(cluster uuid, request jsonb,
            OUT code integer, OUT content_type text,
            OUT retry_after integer, OUT warnings text[], OUT body bytea)
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
        BEGIN
            WHILE NOT pg_try_advisory_xact_lock_shared(4711) LOOP PERFORM pg_sleep(0.05); END LOOP;
            SELECT g.* INTO code, content_type, retry_after, warnings, body
                FROM kube_reports_internal.api_get_at_once(cluster, request) g;
        END $$;
        GRANT EXECUTE ON FUNCTION kube_reports_internal.api_get(uuid, jsonb) TO kube_reports_proxy""", user="postgres")
    connections, refused = [], None
    path = path_of(POLR, ns, "r1")
    while refused is None and len(connections) < 3000:
        connection = crowd.connect()
        connection.connect()
        connection.sock.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        connections.append(connection)
        if len(connections) % 100 == 0:
            probe = crowd.connect()
            probe.request("GET", path)
            probe.sock.settimeout(0.5)
            try:
                refused = probe.getresponse()
            except TimeoutError:
                connections.append(probe)
    assert refused is not None and (refused.status, refused.headers["Retry-After"]) == (429, "1")
    assert json.loads(refused.read())["reason"] == "TooManyRequests"
    for free in ("/livez", "/healthz", "/apis", "/apis/wgpolicyk8s.io/v1alpha2", "/metrics"):
        assert api.get(free, seconds=10).code == 200, free
    masters = api.connect()
    masters.request("GET", path)
    masters.sock.settimeout(2)
    with pytest.raises(TimeoutError):
        masters.sock.recv(12)
    blocker.close()
    masters.sock.settimeout(30)
    assert masters.sock.recv(12) == b"HTTP/1.1 200"
    masters.close()
    for connection in connections[:50]:
        answer = connection.sock.recv(12)
        assert answer == b"HTTP/1.1 200", answer
    for connection in connections:
        connection.close()
    until(lambda: api.post(path_of(POLR, ns), report("r2")).code in (201, 409), 20, "a write")
    watch.expect(("ADDED", "r2"))
    watch.close()


@reads_of_c
def test_lists_starve_nobody(own_stack, ns):
    """
    APF-01, W-01: while lists hold every connection that they may have, gets, watches and readyz go on
    """
    own_stack.begin("max_connections = 100")
    proxy = own_stack.proxy(flags=["--workers=1", "--database-connections=9"])
    api = proxy.api()
    path = path_of(POLR, ns)
    stored = api.create(POLR, report("r1"), ns)
    watch = api.watch(path, resourceVersion=stored["metadata"]["resourceVersion"])
    # From now on every list takes as long as the test wants.
    blocker = psycopg2.connect(own_stack.database.connection("postgres"))
    blocker.cursor().execute("SELECT pg_advisory_xact_lock(4711)")
    own_stack.database.psql("""
        ALTER FUNCTION kube_reports_internal.api_list RENAME TO api_list_at_once;
        CREATE FUNCTION kube_reports_internal.api_list(cluster uuid, request jsonb, cursor text,
            OUT code integer, OUT content_type text,
            OUT retry_after integer, OUT warnings text[], OUT body bytea, OUT next_cursor text, OUT envelope text,
            OUT version bigint, OUT metadata kube_reports.report,
            OUT document kube_reports_internal.stored_document, OUT continue_token text,
            OUT remaining bigint) RETURNS SETOF record
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
        BEGIN
            -- Locks are not waited for so long.
            WHILE NOT pg_try_advisory_xact_lock_shared(4711) LOOP PERFORM pg_sleep(0.05); END LOOP;
            RETURN QUERY SELECT l.* FROM kube_reports_internal.api_list_at_once(cluster, request, cursor) l;
        END $$;
        REVOKE ALL ON FUNCTION kube_reports_internal.api_list(uuid, jsonb, text) FROM PUBLIC;
        GRANT EXECUTE ON FUNCTION kube_reports_internal.api_list(uuid, jsonb, text)
            TO kube_reports_proxy""", user="postgres")
    lists = [api.connect(60) for _ in range(50)]
    for connection in lists:
        connection.request("GET", path)

    def waiting():
        return int(own_stack.database.psql("SELECT count(*) FROM pg_stat_activity WHERE query ~ 'api_list' AND usename "
                                           "= 'kube_reports_proxy' "
                                            "AND state = 'active'", user="postgres"))
    until(lambda: waiting() == 2, 20, "two lists to run")
    # Longer than readyz takes a missing answer for a late one.
    ends, number = time.monotonic() + 6, 1
    while time.monotonic() < ends:
        number += 1
        assert api.post(path, report(f"r{number}")).code == 201
        watch.expect(("ADDED", f"r{number}"))
        assert api.get(f"{path}/r{number}", seconds=10).code == 200
        assert api.get("/readyz", seconds=10).code == 200
    assert waiting() == 2
    blocker.close()
    for connection in lists:
        assert connection.getresponse().status == 200
        connection.close()
    watch.close()


def test_requests_of_one_connection(stack, ns):
    """
    TR-05, TR-08: requests that are sent one behind the other are answered in order; a client that does not read stops
    no other client
    """
    api = stack.first.api()
    for number in range(20):
        api.create(POLR, report(f"r{number:02}", results=[result(message="x" * 150000)]), ns)
    path = path_of(POLR, ns)
    text = "".join(f"GET {path}/r{number:02} HTTP/1.1\r\nHost: x\r\n\r\n"
                   for number in range(20)) + "GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answers = []
    reader = threading.Thread(target=lambda: answers.append(raw(stack, text.encode(), seconds=60)))
    reader.start()
    stalled = api.connect()
    stalled.request("GET", path)
    for _ in range(20):
        assert api.get(path + "/r00").code == 200
    reader.join(60)
    names = re.findall(rb'"name":"(r\d\d)"', answers[0])
    assert [name for name in names if name] == [f"r{number:02}".encode()
                                                for number in range(20)] and b"gitVersion" in answers[0]
    stalled.close()
