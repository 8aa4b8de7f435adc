"""Clients of the tests: an HTTPS client of the API, a watch reader, psql, kubectl."""

import http.client
import json
import queue
import ssl
import subprocess
import threading
import time
import urllib.parse
from types import SimpleNamespace

POLR = "wgpolicyk8s.io/v1alpha2/policyreports"
CPOLR = "wgpolicyk8s.io/v1alpha2/clusterpolicyreports"
EPHR = "reports.kyverno.io/v1/ephemeralreports"
REPS = "openreports.io/v1alpha1/reports"

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"

# Addresses HOST[:PORT] that are not valid in a URL. Each is wrong in one way.
WRONG_ADDRESSES = ("a:99999", "a:0", "a:", "a:1x", "a:-1", "", ":443", "[::1", "::1", "[::1]443", "[::g]", "[]",
                   "[1.2.3.4]", "a..b", "-a", "a-", ".", "x" * 64, "1.2.3", "1.2.3.256", "a b")


def until(condition, seconds=20, what="condition"):
    """Polls until condition() is true and returns what it returned; fails after the deadline."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"{what} did not come true within {seconds} s"
        pause.wait(0.05)


def path_of(resource, namespace=None, name=None):
    """Returns the URL path of a resource named group/version/plural."""
    group, version, plural = resource.split("/")
    path = f"/apis/{group}/{version}"
    if namespace is not None:
        path += f"/namespaces/{namespace}"
    path += f"/{plural}"
    if name is not None:
        path += f"/{name}"
    return path


class Answer:
    def __init__(self, response, body):
        self.code = response.status
        self.headers = response.headers
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def warnings(self):
        return self.headers.get_all("Warning") or []

    def __repr__(self):
        return f"<{self.code} {self.body[:600]!r}>"


class Api:
    """Sends the requests of one user to one proxy. Each request has a new connection, unless keep is set."""

    def __init__(self, port, ca, certificate=None, keep=False):
        self.port = port
        self.context = ssl.create_default_context(cafile=ca)
        if certificate is not None:
            self.context.load_cert_chain(certificate + ".crt", certificate + ".key")
        self.keep = keep
        self.connection = None

    def connect(self, timeout=30):
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context, timeout=timeout)

    def request(self, method, path, body=None, headers=None, seconds=30, **query):
        if query:
            path += "?" + urllib.parse.urlencode(query, doseq=True)
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        if isinstance(body, str):
            body = body.encode()
        all_headers = {"User-Agent": "tests/1.0"}
        if body is not None:
            all_headers["Content-Type"] = "application/json"
        all_headers.update(headers or {})
        all_headers = {name: value for name, value in all_headers.items() if value is not None}
        connection = self.connection if self.keep and self.connection else self.connect(seconds)
        try:
            connection.request(method, path, body=body, headers=all_headers)
            response = connection.getresponse()
            answer = Answer(response, response.read())
        except Exception:
            connection.close()
            self.connection = None
            raise
        if self.keep:
            self.connection = connection
        else:
            connection.close()
        return answer

    def get(self, path, accept=None, **query):
        return self.request("GET", path, headers={"Accept": accept} if accept else None, **query)

    def post(self, path, body, **query):
        return self.request("POST", path, body, **query)

    def put(self, path, body, **query):
        return self.request("PUT", path, body, **query)

    def patch(self, path, body, kind=MERGE, **query):
        return self.request("PATCH", path, body, headers={"Content-Type": kind}, **query)

    def delete(self, path, body=None, **query):
        return self.request("DELETE", path, body, **query)

    def watch(self, path, accept=None, **query):
        return Watch(self, path, accept, query)

    def create(self, resource, document, namespace=None, **query):
        """Creates an object; fails unless that succeeds; returns the stored object."""
        answer = self.post(path_of(resource, namespace), document, **query)
        assert answer.code == 201, answer
        return answer.json

    def put_report(self, resource, name, namespace, results):
        """Creates a report, or replaces the results of the stored one; returns the document."""
        document = report(name, namespace, results=results, resource=resource)
        answer = self.post(path_of(resource, namespace), document)
        if answer.code == 409:
            answer = self.patch(path_of(resource, namespace, name),
                                {"results": results, "summary": document["summary"]})
        assert answer.code in (200, 201), answer
        return document

    def names(self, resource, namespace=None, **query):
        answer = self.get(path_of(resource, namespace), **query)
        assert answer.code == 200, answer
        return [item["metadata"]["name"] for item in answer.json["items"]]


class Watch:
    """A watch stream, read by a thread of its own: event() waits for the next frame with a deadline."""

    ENDED = object()

    def __init__(self, api, path, accept, query):
        query = {"watch": "true", **query}
        self.connection = api.connect(timeout=600)
        self.connection.request("GET", path + "?" + urllib.parse.urlencode(query),
                                headers={"User-Agent": "tests/1.0", "Accept": accept or "application/json"})
        self.connection.sock.settimeout(30)
        self.response = self.connection.getresponse()
        self.code = self.response.status
        self.headers = self.response.headers
        self.frames = queue.Queue()
        self.error = None
        if self.code == 200:
            self.connection.sock and self.connection.sock.settimeout(600)
            threading.Thread(target=self._read, daemon=True).start()
        else:
            self.body = self.response.read()

    def _read(self):
        try:
            while True:
                line = self.response.readline()
                # When no event followed, the line has only the space that was sent with the headers.
                if not line.strip(b" "):
                    break
                assert line.endswith(b"\n"), f"a frame without its newline: {line[:200]!r}"
                self.frames.put(json.loads(line))
        except Exception as error:  # event() shows it
            self.error = error
        self.frames.put(self.ENDED)

    def event(self, seconds=20):
        """Returns the next event as (type, object); fails when none arrives or the stream ends."""
        try:
            frame = self.frames.get(timeout=seconds)
        except queue.Empty:
            raise AssertionError(f"no event within {seconds} s") from None
        assert frame is not self.ENDED, f"the stream has ended ({self.error})"
        return frame["type"], frame["object"]

    def change(self, seconds=20):
        """Returns the next event that is not a bookmark."""
        while True:
            kind, document = self.event(seconds)
            if kind != "BOOKMARK":
                return kind, document

    def expect(self, *expected, seconds=20):
        """Checks that the next changes are exactly these: (type, name)."""
        for kind, name in expected:
            got_kind, document = self.change(seconds)
            assert (got_kind, document["metadata"]["name"]) == (kind, name), document

    def end(self, seconds=20):
        """Waits for the end of the stream; returns the events that came before it."""
        events = []
        while True:
            frame = self.frames.get(timeout=seconds)
            if frame is self.ENDED:
                return events
            events.append((frame["type"], frame["object"]))

    def quiet(self):
        return self.frames.empty()

    def close(self):
        sock = self.connection.sock or getattr(getattr(self.response, "fp", None), "raw", None)
        try:
            if hasattr(sock, "_sock"):
                sock = sock._sock
            if sock is not None:
                sock.shutdown(2)
        except OSError:
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def status_of(answer):
    """Checks the invariants of a Status and returns it (ERR-01..03)."""
    status = answer.json
    assert status["kind"] == "Status" and status["apiVersion"] == "v1", answer
    assert status["metadata"] is not None
    assert status["code"] == answer.code
    assert answer.headers["Content-Type"] == "application/json"
    retry = status.get("details", {}).get("retryAfterSeconds")
    if retry:
        assert answer.headers["Retry-After"] == str(retry)
    return status


def failure(answer, code, reason):
    assert answer.code == code, answer
    status = status_of(answer)
    assert status["status"] == "Failure"
    assert status.get("reason") == reason, status
    return status


def expired(api, path, version):
    """Watches from a version that is too old; checks for HTTP 200 and one ERROR event; returns its Status."""
    with api.watch(path, resourceVersion=version) as watch:
        assert watch.code == 200
        kind, status = watch.event()
        assert (kind, status["kind"], status["code"], status["reason"]) == ("ERROR", "Status", 410, "Expired")
        assert watch.end() == [] and watch.error is None
    return status


def result(policy="require-labels", outcome="pass", **more):
    return {"policy": policy, "result": outcome, "source": "kyverno", "severity": "medium",
            "timestamp": {"seconds": 1700000000, "nanos": 0}, **more}


def unrated_result(policy, status, **more):
    """Returns a result of a rule, without a severity."""
    return {"policy": policy, "rule": "r", "result": status, "source": "kyverno",
            "timestamp": {"seconds": 1, "nanos": 0}, **more}


def report(name, namespace=None, labels=None, results=None, resource=POLR, **more):
    """Returns a valid report of a kind whose results are at the top level."""
    kind = {POLR: "PolicyReport", CPOLR: "ClusterPolicyReport", REPS: "Report"}[resource]
    group, version, _ = resource.split("/")
    results = [result()] if results is None else results
    metadata = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if labels:
        metadata["labels"] = labels
    summary = {key: sum(1 for r in results if r.get("result") == key)
               for key in ("pass", "fail", "warn", "error", "skip")}
    return {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": metadata, "summary": summary,
            "results": results, **more}


def sql_text(value):
    """Returns a SQL literal of a text, or of another value as JSON."""
    return "'" + (value if isinstance(value, str) else json.dumps(value)).replace("'", "''") + "'"


def run(command, check=True, timeout=120, **more):
    """Runs a command; returns the finished process: code, out, err."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, **more)
    assert not check or done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return SimpleNamespace(code=done.returncode, out=done.stdout, err=done.stderr)
