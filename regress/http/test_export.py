"""/v1/export/...: results and events as JSON lines and CSV, the same bytes as by COPY (issue 5, Getting it out)."""

import collections
import csv
import datetime
import gzip
import http.client
import io
import json
import os
import re
import socket
import threading
import time

import psycopg2
import pytest

from client import CPOLR, POLR, path_of, report, sql_text, until
from client import unrated_result as result

ODD = 'comma , quote " newline \n backslash \\ =1+1 ümlaut'
STATUSES = ("pass", "fail", "warn", "error", "skip")
BEGINNING = "0-0000000000000000"
# A time in UTC, without a time zone: read in the time zone of Kathmandu it would be another time.
SOON = f"{datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=4):%Y-%m-%dT%H:%M:%S}"


def shown(filters):
    """Returns a filter for the name of a test; the name must be the same in all workers of pytest-xdist."""
    return str(filters).replace(SOON, "soon")


class Store:
    """A stack, and a reader of its cluster that uses psycopg2."""

    def __init__(self, own):
        self.stack = own
        self.proxy = own.proxy(flags=("--authorization-mode=AlwaysDeny",))
        self.api = self.proxy.api()
        own.database.psql(f"SELECT kube_reports.grant_cluster('kube_reports_reader', '{own.cluster}')")
        self.documents = {}

    def put(self, resource, name, namespace, results):
        self.documents[resource, namespace, name] = self.api.put_report(resource, name, namespace, results)
        self.wait_for_results()

    def wait_for_results(self):
        """Waits for pending results: those of a large report, and in the SQL variant all results."""
        until(lambda: self.stack.database.psql("SELECT count(*) FROM kube_reports_internal.result_pending") == "0", 60,
              "the results")

    def drop(self, resource, name, namespace):
        assert self.api.delete(path_of(resource, namespace, name)).code == 200
        del self.documents[resource, namespace, name]

    def copy(self, select, form, **settings):
        """Returns the output of COPY for a reader, in a session with these settings."""
        connection = psycopg2.connect(self.stack.database.connection("kube_reports_reader"))
        with connection, connection.cursor() as cursor:
            for name, value in settings.items():
                cursor.execute(f"SET {name} = '{value}'")
            out = io.BytesIO()
            cursor.copy_expert(
                f"COPY (SELECT * FROM {select}) TO STDOUT (FORMAT csv, HEADER)" if form == "csv" else
                f"COPY (SELECT to_json(x) FROM {select} x) TO STDOUT (FORMAT csv, QUOTE E'\\x01', DELIMITER E'\\x02')",
                               out)
        connection.close()
        return out.getvalue()

    def events(self, api=None, after=None, **query):
        """Returns the events that are final."""
        answer = (api or self.api).get("/v1/export/events", **({"after": after} if after else {}), **query)
        assert answer.code == 200, answer
        return [json.loads(line) for line in answer.body.splitlines()]


@pytest.fixture(scope="module")
def store(module_stack):
    module_stack.database.psql("SELECT kube_reports.set_setting('settle_window', '0')")
    made = Store(module_stack)
    made.put(POLR, "a", "one", [result("p1", "fail", severity="high", category="c", message=ODD,
                                       properties={"k": ODD, "score": "9.8"}),
                                result("p2", "pass", message=""),
                                result("p3", "skip", properties={"exceptions": "x,y"})])
    made.put(POLR, "b", "two", [result("p1", "fail",
                                       resources=[{"apiVersion": "v1", "kind": "Pod", "name": "p",
                                                   "namespace": "two", "uid": "u"}])])
    made.put(CPOLR, "a", None, [result("p9", "warn", severity="critical", properties={"score": "7.05"})])
    made.put(POLR, "b", "two", [result("p1", "pass",
                                       resources=[{"apiVersion": "v1", "kind": "Pod", "name": "p",
                                                   "namespace": "two", "uid": "u"}])])
    made.put(POLR, "gone", "two", [result("p5", "error")])
    made.drop(POLR, "gone", "two")
    return made


@pytest.mark.parametrize("form", ("jsonl", "csv"))
@pytest.mark.parametrize("filters",
                         ({}, {"status": ["fail", "warn"]}, {"policy": ["p1"], "namespace": ["two"]},
                          {"score_from": "9"}, {"text": "UMLAUT"},
                                     {"properties": {"k": ODD}}, {"report": ["nothing"]},
                          {"since_to": SOON, "first_seen_to": "12/31/2999"}), ids=shown)
def test_results_as_by_copy(store, form, filters):
    query = {key: json.dumps(value) if isinstance(value, dict) else value for key, value in filters.items()}
    answer = store.api.get("/v1/export/results", format=form, **query)
    assert answer.code == 200
    for settings in ({}, {"TimeZone": "Asia/Kathmandu", "DateStyle": "German, DMY", "extra_float_digits": "-5",
                          "IntervalStyle": "iso_8601"}):
        assert answer.body == store.copy(f"kube_reports.export_results({sql_text(filters)})", form, **settings)


@pytest.mark.parametrize("form", ("jsonl", "csv"))
@pytest.mark.parametrize("filters",
                         ({}, {"status": ["fail", ""]}, {"namespace": ["two"], "old_status": ["fail"]},
                          {"from": "2999-01-01"},
                                     {"to": "2999-01-01", "policy": ["p1", "p9"]},
                          {"severity": ["critical"], "subject_kind": [""]},
                                     {"to": SOON}, {"to": "12/31/2999"}), ids=shown)
def test_events_as_by_copy(store, form, filters):
    answer = store.api.get("/v1/export/events", format=form, **filters)
    assert answer.code == 200
    for settings in ({}, {"TimeZone": "Asia/Kathmandu", "DateStyle": "German, DMY"}):
        assert answer.body == store.copy(f"kube_reports.export_events({sql_text(filters)})", form, **settings)


def test_results_are_those_of_the_documents(store):
    """Both formats, when parsed, have the results of the documents with unchanged texts"""
    expected = collections.Counter(
        (document["metadata"].get("namespace", ""), document["metadata"]["name"], entry["policy"], entry["result"],
         entry.get("severity", "unknown"),
         entry.get("message", ""), json.dumps(entry.get("properties", {}), sort_keys=True),
         float(entry.get("properties", {}).get("score", 0)))
        for document in store.documents.values() for entry in document["results"])
    lines = [json.loads(line) for line in store.api.get("/v1/export/results").body.decode().splitlines()]
    rows = list(csv.DictReader(io.StringIO(store.api.get("/v1/export/results", "text/csv").body.decode(), newline="")))
    for found in (lines, rows):
        assert collections.Counter(
            (row["namespace"], row["report"], row["policy"], row["status"], row["severity"], row["message"],
             json.dumps(row["properties"] if isinstance(row["properties"], dict)
                        else json.loads(row["properties"]), sort_keys=True),
             float(row["score"] or 0)) for row in found) == expected
    assert [list(line) for line in lines] == [list(rows[0])] * len(lines)
    assert {line["cluster"] for line in lines} == {store.stack.cluster}
    assert [row["exceptions"] for row in lines if row["policy"] == "p3"] == [["x", "y"]]


def test_events_tell_what_happened(store):
    told = [(event["namespace"], event["policy"], event["old_status"], event["new_status"]) for event in store.events()]
    assert collections.Counter(told) == collections.Counter([
        ("one", "p1", None, "fail"), ("one", "p2", None, "pass"), ("one", "p3", None, "skip"),
        ("two", "p1", None, "fail"), ("", "p9", None, "warn"),
        ("two", "p1", "fail", "pass"), ("two", "p5", None, "error"), ("two", "p5", "error", None)])
    ids = [event["id"] for event in store.events()]
    assert len(set(ids)) == len(ids)
    for index, place in enumerate(ids):
        assert [event["id"] for event in store.events(after=place)] == ids[index + 1:]


@pytest.mark.parametrize("accept, format, kind", [
    (None, None, "application/x-ndjson"), ("*/*", None, "application/x-ndjson"),
                                                  ("text/csv", None, "text/csv; charset=utf-8; header=present"),
    ("text/html, text/csv;q=0.5, application/jsonl;q=0.4", None, "text/csv; charset=utf-8; header=present"),
    ("text/csv;q=0.2, application/x-ndjson;q=0.3", None, "application/x-ndjson"),
    # An invalid q counts as 1, as in goautoneg.
    ("application/x-ndjson;q=0.9, text/csv;q=many", None, "text/csv; charset=utf-8; header=present"),
                                                  ("text/csv", "jsonl", "application/x-ndjson"),
    ("", None, "application/x-ndjson"), (" ", None, "application/x-ndjson"),
                                                  ("", "csv", "text/csv; charset=utf-8; header=present"),
    (",", None, None), ("text/html", None, None), ("text/csv;q=0", None, None)])
def test_formats(store, accept, format, kind):
    """An empty Accept counts as no Accept, as upstream"""
    answer = store.api.request("GET", "/v1/export/results", headers={"Accept": accept},
                               **({"format": format} if format else {}))
    assert (answer.code, answer.headers["Content-Type"]) == ((200, kind) if kind else (406, "application/json"))


@pytest.mark.parametrize("path, query, code", [
    ("results", {"format": "xml"}, 400), ("results", {"colour": "red"}, 400), ("results", {"status": "bad"}, 400),
                                               ("results", {"score_from": "high"}, 400),
    ("results", {"properties": "{"}, 400), ("results", {"properties": "[]"}, 400), ("results", {"cluster": "x"}, 400),
                                               ("results", {"after": "1-0"}, 400),
    ("events", {"after": "x"}, 400), ("events", {"after": "1-00000000000000zz"}, 400),
                                               ("events", {"after": "9" * 19 + "-0000000000000000"}, 400),
    ("events", {"from": "yesterday-ish"}, 400), ("events", {"text": "x"}, 400), ("events", {"cluster": "x"}, 400),
                                               ("events", {"status": "x\x00"}, 400),
    ("results", {"severity": "hihg"}, 400), ("events", {"severity": ["high", "hihg"]}, 400),
                                               ("events", {"old_status": "bad"}, 400),
    ("results", {"properties": '{"k": "\\u0000"}'}, 400), ("results", {"properties": '{"k": 1e999999}'}, 400),
    ("results", {"score_from": ["1", "2"]}, 400), ("results", {"text": ["a", "a"]}, 400),
                                               ("results", {"properties": ["{}", "{}"]}, 400),
    ("events", {"from": ["2026-01-01", "2027-01-01"]}, 400), ("events", {"after": [BEGINNING, BEGINNING]}, 400),
                                               ("events", {"format": ["csv", "jsonl"]}, 400),
    ("nothing", {}, 404), ("namespaces/one/nothing", {}, 404), ("namespaces/One/results", {}, 404),
                                               ("namespaces//results", {}, 404),
    ("results/more", {}, 404)])
def test_what_is_refused(store, path, query, code):
    answer = store.api.get(f"/v1/export/{path}", **query)
    assert answer.code == code, answer
    if code == 400:
        assert answer.json["kind"] == "Status" and answer.json["reason"] == "BadRequest" and answer.json["message"]


@pytest.mark.parametrize("path, query, hint", [
    ("export/results", {"severity": "hihg"}, 'It can be "unknown", "info", '),
    ("export/results", {"colour": "red"}, "docs/analytics.md lists the members"),
    ("export/results", {"score_from": "high"}, "Times are such as "),
    ("export/results", {"cluster": "x"}, "An export is of the cluster of its proxy"),
    ("export/results", {"properties": "[]"}, "It has the properties"),
    ("export/results", {"properties": '{"k": "\\u0000"}'}, "PostgreSQL stores no NUL"),
    ("export/events", {"after": "x"}, "Give the id of the last event"),
    ("export/events", {"from": "yesterday-ish"}, 'Times are such as "2026-01-31T12:00:00Z"'),
    ("export/events", {"text": "x"}, "docs/export.md lists the members"),
    ("export/events", {"status": "bad"}, 'It can be "pass", '),
    ("export/events", {"cluster_labels": "env=prod"}, "An export is of the cluster of its proxy"),
    ("fleet/scores", {"from": "yesterday-ish"}, "Days are such as 2026-01-31"),
    ("fleet/scores", {"colour": "red"}, "docs/fleet.md lists the parameters")])
def test_refusals_say_what_to_do(store, path, query, hint):
    """A refusal has the message of the database, then its HINT"""
    message = store.api.get(f"/v1/{path}", **query).json["message"]
    assert re.search(r".\. " + re.escape(hint), message), message


def test_only_reads(store):
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        answer = store.api.request(method, "/v1/export/results", "{}")
        assert (answer.code, answer.headers["Allow"], answer.json["reason"]) == (405, "GET, HEAD", "MethodNotAllowed")
    answer = store.api.request("HEAD", "/v1/export/results")
    assert (answer.code, answer.body) == (200, b"")


def test_authorization(stack, delegate):
    """
    Only a user that may get exactly this path gets an answer; the path of a namespace has the reports of this namespace
    only, and no path has other clusters
    """
    delegation = delegate()
    stack.first.api().create(POLR, report("x", "exp-one", results=[result("p1", "fail")]), "exp-one")
    stack.first.api().create(POLR, report("x", "exp-two", results=[result("p1", "fail")]), "exp-two")
    stack.other.api().create(POLR, report("x", "exp-one", results=[result("of-another", "fail")]), "exp-one")
    # Deletions by other tests have not settled, and would delay these events.
    stack.database.psql("UPDATE kube_reports_internal.report_change SET settles_at = now() WHERE settles_at > now()")
    paths = [f"/v1/export/{part}{what}" for part in ("", "namespaces/exp-one/", "namespaces/exp-two/")
             for what in ("results", "events")]
    nobody = stack.first.api("nobody")
    for path in paths:
        assert nobody.get(path).code == 403
        assert stack.first.api(user=None).get(path).code == 403
    mine = stack.first.api()
    for what in ("results", "events"):
        lines = [json.loads(line) for line in mine.get(f"/v1/export/namespaces/exp-one/{what}").body.splitlines()]
        assert {line["namespace"] for line in lines} == {"exp-one"} and {line["policy"] for line in lines} == {"p1"}
        assert mine.get(f"/v1/export/namespaces/exp-one/{what}", namespace="exp-two").body == b""
        whole = [json.loads(line) for line in mine.get(f"/v1/export/{what}").body.splitlines()]
        assert {"exp-one", "exp-two"} <= {line["namespace"]
                                          for line in whole} and "of-another" not in {line["policy"] for line in whole}


def test_gzip(store):
    answer = store.api.request("GET", "/v1/export/results", headers={"Accept-Encoding": "gzip"})
    assert answer.headers["Content-Encoding"] is None, "too small to be worth it"
    store.put(POLR, "large", "large", [result(f"policy-{number}", "pass", message=ODD * 10) for number in range(600)])
    plain = store.api.get("/v1/export/results", namespace="large")
    packed = store.api.request("GET", "/v1/export/results?namespace=large", headers={"Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip" and packed.headers["Vary"] == "Accept-Encoding"
    assert gzip.decompress(packed.body) == plain.body and len(packed.body) < len(plain.body) / 4
    store.drop(POLR, "large", "large")


@pytest.fixture(scope="module")
def many(store):
    """Writes results for several pieces: 6,000 results and as many events, by one statement."""
    store.stack.database.psql(f"""
        SELECT kube_reports.create_report('{store.stack.cluster}',
            jsonb_build_object('apiVersion', 'wgpolicyk8s.io/v1alpha2', 'kind', 'PolicyReport',
            'metadata', jsonb_build_object('name', 'many-' || n, 'namespace', 'many'), 'results',
            (SELECT jsonb_agg(jsonb_build_object('policy', 'p' || i,
            'source', 'many', 'result', 'fail', 'message', repeat('m', 600), 'rule', 'r' || n))
            FROM generate_series(1, 100) i))::kube_reports.report)
        FROM generate_series(1, 60) n""")
    store.stack.database.derive()
    # Results of an earlier large report may be pending, and events are exported in the order of versions.
    until(lambda: store.copy("""kube_reports.export_events('{"source":"many"}')""", "csv").count(b"\n") == 6001,
          what="the events to be final")
    yield store


@pytest.mark.parametrize("encoding", ("identity", "gzip"))
def test_many_pieces(many, encoding):
    """An export of several pieces is chunked, and has the same bytes as COPY"""
    for what, select in (("results", """export_results('{"source":"many"}')"""),
                         ("events", """export_events('{"source":"many"}')""")):
        answer = many.api.request("GET", f"/v1/export/{what}?source=many&format=csv",
                                  headers={"Accept-Encoding": encoding})
        assert answer.headers["Transfer-Encoding"] == "chunked"
        body = gzip.decompress(answer.body) if encoding == "gzip" else answer.body
        assert body == many.copy(f"kube_reports.{select}", "csv")
        assert len(list(csv.reader(io.StringIO(body.decode())))) == 6001


def test_large_results(store):
    """A piece with large results has fewer rows; no result is left out"""
    large = [result(f"large-{number}", "fail", properties={f"k{n}": os.urandom(60).hex() for n in range(800)})
             for number in range(25)]
    store.put(POLR, "large", "large", large)
    answer = store.api.get("/v1/export/results", namespace="large")
    assert answer.headers["Transfer-Encoding"] == "chunked", "one piece for everything"
    lines = {line["policy"]: line["properties"] for line in map(json.loads, answer.body.splitlines())}
    assert lines == {entry["policy"]: entry["properties"] for entry in large}
    assert answer.body == store.copy("""kube_reports.export_results('{"namespace": "large"}')""", "jsonl")
    store.drop(POLR, "large", "large")


def test_what_matches_little_is_found(many):
    """Steps without a line send nothing, and the export goes on"""
    assert len(many.events(source="many", policy="p77")) == 60
    assert many.events(source="nobody") == []


def slow_reader(api, path, room=4096):
    """Sends a request on a connection with a small receive buffer; returns the connection, its answer unread."""
    connection = api.connect(timeout=60)
    connection.connect()
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    connection.request("GET", path)
    return connection


def test_a_slow_client_holds_nothing(many):
    """Slow clients cost bounded memory, and hold no connection and no snapshot of the database"""
    proxy = many.stack.proxy(flags=("--workers=1",))
    before = proxy.memory()
    readers = [slow_reader(proxy.api(), "/v1/export/results?source=many") for _ in range(10)]
    try:
        idle = ("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'kube-reports-proxy' AND (state <> "
                "'idle' OR backend_xmin IS NOT NULL)")
        until(lambda: proxy.metric("kube_reports_connections") >= 10, 10, "the readers")
        until(lambda: many.stack.database.psql(idle, user="postgres") == "0", 60, "the database to be left alone")
        assert proxy.memory() - before < 10 * 8 * 1024 * 1024
    finally:
        for reader in readers:
            reader.close()


def test_a_steady_client_is_not_cut(many):
    """An export may take longer than --request-timeout while its client reads"""
    proxy = many.stack.proxy(flags=("--request-timeout=1s", "--workers=1"))
    connection = slow_reader(proxy.api(), "/v1/export/results?source=many", 131072)
    response = connection.getresponse()
    begun, body, pause = time.monotonic(), b"", threading.Event()
    while chunk := response.read(256 * 1024):
        body += chunk
        pause.wait(0.25)
    assert time.monotonic() - begun > 2 and body.count(b"\n") == 6000
    connection.close()


def test_a_lost_database_is_seen(own_stack):
    """The connection is reset, so that no part of an export looks like a complete export"""
    own_stack.begin()
    own = Store(own_stack)
    for number in range(40):
        own.put(POLR, f"r{number}", "one", [result(f"p{policy}", "fail", message="m" * 500) for policy in range(250)])
    connection = slow_reader(own.api, "/v1/export/results")
    response = connection.getresponse()
    response.read(1000)
    own_stack.database.stop("immediate")
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        response.read()
    connection.close()


def test_nothing_is_skipped_by_an_open_transaction(store):
    """
    A transaction commits after transactions with larger versions: its events are exported, and later events are not
    exported before them
    """
    last = store.events()[-1]["id"]
    connection = store.stack.database.open_create(store.stack.cluster,
                                                  report("open", "open", results=[result("of-the-open", "fail")]))
    store.put(CPOLR, "later", None, [result("of-the-later", "fail")])
    assert store.events(after=last) == [], "an event was told although one before it may still come"
    connection.commit()
    connection.close()
    store.wait_for_results()
    assert [event["policy"] for event in store.events(after=last)] == ["of-the-open", "of-the-later"]
    store.drop(CPOLR, "later", None)


def test_what_may_come_back_is_waited_for(store):
    """
    A disappearance is exported when it has settled, and later events are exported only then: no event appears before an
    exported one
    """
    store.put(POLR, "brief", "one", [result("brief", "fail")])
    last = until(lambda: next((e for e in [store.events()[-1]] if e["policy"] == "brief"), None), 10, "the event")["id"]
    store.stack.database.psql("SELECT kube_reports.set_setting('settle_window', '3 seconds')")
    store.drop(POLR, "brief", "one")
    store.stack.database.psql("SELECT kube_reports.set_setting('settle_window', '0')")
    store.put(POLR, "after", "one", [result("after", "fail")])
    assert store.events(after=last) == []
    found = until(lambda: store.events(after=last), 20, "the events to be final")
    assert [(event["policy"], event["new_status"]) for event in found] == [("brief", None), ("after", "fail")]
    store.drop(POLR, "after", "one")


def test_following_is_refused_where_it_cannot_be_exact(store):
    connection = psycopg2.connect(store.stack.database.connection("kube_reports_reader"))
    connection.set_session(isolation_level="REPEATABLE READ")
    with connection.cursor() as cursor, pytest.raises(psycopg2.errors.FeatureNotSupported):
        cursor.execute("SELECT * FROM kube_reports.export_events()")
    connection.close()
