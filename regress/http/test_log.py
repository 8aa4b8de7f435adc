"""The log: what a line says, and what happens when nobody reads the log."""

import fcntl
import json
import os
import re
import select
import subprocess
import threading

import psycopg2
import pytest

from client import POLR, path_of, report, until
from conftest import Proxy


class Piped(Proxy):
    """A proxy whose standard error is a pipe; the test decides whether it reads the pipe."""

    def start(self):
        self.pipe, writing = os.pipe()
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=writing, cwd="/", start_new_session=True)
        os.close(writing)
        self.read = b""

    def read_log(self, stop):
        """Reads the pipe until stop is set."""
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
    # An unread log does not prevent the end of the proxy.
    proxy.stop()
    os.close(proxy.pipe)


def test_nobody_reads_the_log(piped, ns):
    """
    A full pipe stops no request and no watch; lines without room are dropped and counted, and the log says so when
    there is room again
    """
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


# --- What a line says ---

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"


def line_of(proxy, audit_id):
    """Waits for the line of a request, and returns it."""
    return until(lambda: next((line for line in proxy.log_entries() if line.get("auditID") == audit_id), None), 10,
                 "the line")


@pytest.fixture
def logging_proxy(own_stack):
    own_stack.begin()
    return lambda *flags: own_stack.proxy(flags=list(flags))


def test_request_lines(logging_proxy, ns):
    """
    A line has all ids that came with the request, the parts of the request's path, and how long the database
    took
    """
    proxy = logging_proxy("--v=1")
    api = proxy.api()
    headers = {"Audit-Id": "create-1", "X-Request-Id": "edge.7_a-b", "traceparent": f"00-{TRACE}-{PARENT}-01"}
    answer = api.request("POST", path_of(POLR, ns), report("r1"), headers=headers)
    assert answer.code == 201 and answer.headers["X-Request-Id"] == "edge.7_a-b" and answer.headers[
        "Audit-Id"] == "create-1"
    line = line_of(proxy, "create-1")
    assert (line["message"], line["level"], line["requestID"], line["traceID"], line["parentID"]) == \
        ("request", "info", "edge.7_a-b", TRACE, PARENT)
    assert (line["verb"], line["group"], line["version"], line["resource"], line["namespace"], line["status"]) == \
        ("create", "wgpolicyk8s.io", "v1alpha2", "policyreports", ns, 201)
    assert 0 < line["database"] < line["latency"] and 0 <= line["databaseWait"] < line["latency"]

    # A get, a list and a watch, each with the time that the database took.
    for audit_id, path, verb, name in (("get-1", path_of(POLR, ns, "r1"), "get", "r1"),
                                       ("list-1", path_of(POLR, ns), "list", None)):
        assert api.request("GET", path, headers={"Audit-Id": audit_id}).code == 200
        line = line_of(proxy, audit_id)
        assert (line["verb"], line.get("name"), line["status"]) == (verb, name,
            200) and 0 < line["database"] < line["latency"]
    assert api.request("GET", path_of(POLR, ns), headers={"Audit-Id": "watch-1"}, watch=1, timeoutSeconds=1).code == 200
    line = line_of(proxy, "watch-1")
    assert (line["verb"], line["resource"], line["namespace"]) == ("watch", "policyreports",
        ns) and line["latency"] >= 1 > line["database"] > 0
    assert api.request("GET", "/version", headers={"Audit-Id": "version-1"}).code == 200
    line = line_of(proxy, "version-1")
    assert "resource" not in line and "namespace" not in line and line["uri"] == "/version"


def test_ids_that_are_none(logging_proxy):
    """A value that is no id, or no traceparent, is neither answered nor logged"""
    proxy = logging_proxy("--v=1")
    api = proxy.api()
    wrong = [f"01-{TRACE}-{PARENT}", f"ff-{TRACE}-{PARENT}-01", f"00-{'0' * 32}-{PARENT}-01",
             f"00-{TRACE}-{'0' * 16}-01", f"00-{TRACE.upper()}-{PARENT}-01",
             f"00-{TRACE}-{PARENT}-01-more", f"00-{TRACE}{PARENT}-01", f"00-{TRACE}-{PARENT}-0g",
             f"00_{TRACE}_{PARENT}_01", f"01-{TRACE}-{PARENT}-01more", "00"]
    for number, traceparent in enumerate(wrong):
        answer = api.request("GET", "/version",
                             headers={"Audit-Id": f"wrong-{number}", "traceparent": traceparent,
                                      "X-Request-Id": "a b" if number else "x" * 65})
        assert answer.code == 200 and "X-Request-Id" not in answer.headers
        line = line_of(proxy, f"wrong-{number}")
        assert "traceID" not in line and "parentID" not in line and "requestID" not in line, traceparent
    # A later version of the header may have more parts.
    assert api.request("GET", "/version",
                       headers={"Audit-Id": "later", "traceparent": f"01-{TRACE}-{PARENT}-01-more"}).code == 200
    assert line_of(proxy, "later")["traceID"] == TRACE
    # A wrong Audit-Id is replaced.
    answer = api.request("GET", "/version", headers={"Audit-Id": "a b"})
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
                        answer.headers["Audit-Id"])


def test_text(logging_proxy, ns):
    """--logging-format=text writes lines as klog does, with each text quoted; the proxy refuses a wrong format"""
    proxy = logging_proxy("--v=1", "--logging-format=text")
    answer = proxy.api().request("POST", path_of(POLR, ns), report("r1"),
                                 headers={"Audit-Id": "text-1", "User-Agent": 'a"b'}, fieldManager="m")
    assert answer.code == 201
    line = until(lambda: next((line for line in proxy.log_lines() if 'auditID="text-1"' in line),
                              None), 10, "the line")
    assert re.match(r'I\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ "request" auditID="text-1" method="POST" ', line), line
    assert (' resource="policyreports" ' in line and f' namespace="{ns}" ' in line
            and ' groups=["system:masters","system:authenticated"] ' in line)
    assert re.search(r' status=201 latency=\d+\.\d{6} databaseWait=\d+\.\d{6} database=\d+\.\d{6} bytes=\d+ '
                     r'complete=true userAgent="a\\"b"$', line), line
    # Every line has this form, also the lines of the start.
    lines = proxy.log_lines()
    assert len(lines) > 2 and all(re.match(r'[EWID]\d{4} \d\d:\d\d:\d\d\.\d{6} +-?\d+ "', line)
                                  for line in lines), lines
    wrong = subprocess.run([word for word in proxy.command if word not in ("--logging-format=text",)]
                           + ["--logging-format=xml"],
                           capture_output=True, text=True, timeout=60, check=False)
    assert wrong.returncode == 2 and 'invalid argument "xml" for --logging-format: must be json or text' in wrong.stderr


@pytest.mark.parametrize("form", ["json", "text"])
def test_slow_requests(own_stack, logging_proxy, ns, form):
    """
    A request that takes as long as --slow-request-threshold is logged with any --v; a quick request or a watch is not
    slow; with 0 no request is slow
    """
    proxy = logging_proxy("--slow-request-threshold=400ms", f"--logging-format={form}")
    quiet = logging_proxy("--slow-request-threshold=0")
    api = proxy.api()
    api.create(POLR, report("r1"), ns)
    holder = psycopg2.connect(own_stack.database.connection("postgres"))
    holder.cursor().execute("LOCK TABLE kube_reports.object IN ACCESS EXCLUSIVE MODE")
    timer = threading.Timer(0.7, holder.rollback)
    timer.start()
    others = threading.Thread(target=lambda: quiet.api().request("GET", path_of(POLR, ns, "r1"),
        headers={"Audit-Id": "slow-2"}))
    others.start()
    assert api.request("GET", path_of(POLR, ns, "r1"), headers={"Audit-Id": "slow-1"}).code == 200
    timer.join()
    others.join()
    holder.close()
    assert api.request("GET", path_of(POLR, ns, "r1"), headers={"Audit-Id": "quick-1"}).code == 200
    assert api.request("GET", path_of(POLR, ns), headers={"Audit-Id": "watch-1"}, watch=1, timeoutSeconds=1).code == 200
    assert api.request("GET", "/readyz", headers={"Audit-Id": "quick-2"}).code == 200
    line = until(lambda: next((line for line in proxy.log_lines() if "slow-1" in line), None), 10,
                 "the line")
    if form == "json":
        line = json.loads(line)
        assert (line["level"], line["message"], line["resource"]) == ("warning", "slow request", "policyreports")
        assert line["latency"] >= 0.4 and line["database"] >= 0.4
    else:
        assert re.match(r'W\d{4} \S+ +\d+ "slow request" auditID="slow-1" ', line), line
    text = proxy.log_path.read_text()
    assert ("quick-1" not in text and "quick-2" not in text and "watch-1" not in text
            and "slow-2" not in quiet.log_path.read_text())
