"""Watches, always through another proxy than the writes (conformance 15; DESIGN section 5)."""

import contextlib
import json
import random
import socket
import ssl
import threading
import urllib.parse

import psycopg2
import pytest

from client import CPOLR, PARTIAL, POLR, TABLE, expired, failure, path_of, report, until
from conftest import bookmarks_of_c
from pods import crd


@pytest.fixture
def watching(stack):
    """The API of the proxy that watches; writes go through the fixture api."""
    return stack.second.api()


def version_of(api, ns):
    return api.get(path_of(POLR, ns)).json["metadata"]["resourceVersion"]


def test_events(api, watching, ns):
    """W-01, W-02, W-11, RV-02"""
    path = path_of(POLR, ns)
    api.create(POLR, report("before"), ns)
    with watching.watch(path, resourceVersion=version_of(api, ns)) as watch:
        assert watch.code == 200 and watch.headers["Content-Type"] == "application/json"
        assert watch.headers["Content-Length"] is None and watch.headers["Content-Encoding"] is None
        added = api.create(POLR, report("r1"), ns)
        modified = api.patch(path + "/r1", {"summary": {"pass": 5}}).json
        api.delete(path + "/r1")
        assert watch.event() == ("ADDED", added)
        assert watch.event() == ("MODIFIED", modified)
        kind, last = watch.event()
        assert kind == "DELETED" and int(last["metadata"]["resourceVersion"]) > int(
            modified["metadata"]["resourceVersion"])
        last["metadata"]["resourceVersion"] = modified["metadata"]["resourceVersion"]
        assert last == modified


def test_watchers_of_labels(api, watching, ns):
    """
    W-02, W-20: e2e watch.go, should observe add, update, and delete watch notifications: of one label, of another, of
    both
    """
    path, start = path_of(POLR, ns), version_of(api, ns)

    def watch_of(*groups):
        return watching.watch(path, resourceVersion=start, labelSelector=f"group in ({','.join(groups)})")

    with watch_of("a") as of_a, watch_of("b") as of_b, watch_of("a", "b") as of_both:
        # The names take turns, so that a watcher that gets an event of the other gets it before its own.
        for name, one in (("a", of_a), ("b", of_b)) * 2:
            created = api.create(POLR, report(name, labels={"group": name}), ns)
            changed = [api.patch(f"{path}/{name}", {"summary": {"pass": number}}).json for number in (7, 8)]
            api.delete(f"{path}/{name}")
            for watch in (one, of_both):
                assert [watch.event() for _ in range(3)] == [("ADDED", created),
                    *(("MODIFIED", document) for document in changed)]
                watch.expect(("DELETED", name))
        assert of_a.quiet() and of_b.quiet() and of_both.quiet()


def test_other_namespaces_are_not_seen(api, watching, ns):
    with watching.watch(path_of(POLR, ns), resourceVersion=version_of(api, ns)) as watch:
        api.create(POLR, report("r"), ns + "-b")
        api.create(POLR, report("mine"), ns)
        watch.expect(("ADDED", "mine"))
        assert watch.quiet()


def test_all_namespaces(api, watching, ns):
    version = api.get(path_of(POLR)).json["metadata"]["resourceVersion"]
    with watching.watch(path_of(POLR), resourceVersion=version, labelSelector=f"test={ns}") as watch:
        for suffix in ("-a", "-b", "-c"):
            api.create(POLR, report("r", labels={"test": ns}), ns + suffix)
        for suffix in ("-a", "-b", "-c"):
            kind, document = watch.event()
            assert (kind, document["metadata"]["namespace"]) == ("ADDED", ns + suffix)


def test_cluster_scope(api, watching, ns):
    """W-21"""
    version = api.get(path_of(CPOLR)).json["metadata"]["resourceVersion"]
    with watching.watch(path_of(CPOLR), resourceVersion=version, fieldSelector=f"metadata.name={ns}") as watch:
        api.create(CPOLR, report(ns, resource=CPOLR))
        api.delete(path_of(CPOLR, name=ns))
        watch.expect(("ADDED", ns), ("DELETED", ns))


def test_resume_from_every_version(api, watching, ns):
    """
    W-11: no gap and no duplicate, wherever a watch begins; e2e watch.go, should be able to start watching from a
    specific resource version, to restart watching from the last resource version observed by the previous watch
    """
    path = path_of(POLR, ns)
    start = version_of(api, ns)
    history = [("ADDED", api.create(POLR, report("r1"), ns))]
    for number in range(3):
        history.append(("MODIFIED", api.patch(path + "/r1", {"summary": {"pass": number + 10}}).json))
    history.append(("ADDED", api.create(POLR, report("r2"), ns)))
    versions = [start] + [document["metadata"]["resourceVersion"] for _, document in history]
    for position, version in enumerate(versions):
        with watching.watch(path, resourceVersion=version, timeoutSeconds=60) as watch:
            for expected in history[position:]:
                assert watch.event() == expected
            last = api.create(POLR, report(f"end-{position}"), ns)
            assert watch.event() == ("ADDED", last)
            history.append(("ADDED", last))


@pytest.mark.parametrize("version", [None, "0"])
def test_initial_state(api, watching, ns, version):
    """W-10, W-12"""
    stored = [api.create(POLR, report(f"r{number}"), ns) for number in range(3)]
    with watching.watch(path_of(POLR, ns), **({"resourceVersion": version} if version else {})) as watch:
        for document in stored:
            assert watch.event() == ("ADDED", document)
        api.patch(path_of(POLR, ns, "r1"), {"summary": {"pass": 5}})
        watch.expect(("MODIFIED", "r1"))


def test_watch_list(api, watching, ns):
    """WL-01, WL-04, WL-06, WL-08"""
    for number in range(5):
        api.create(POLR, report(f"r{number}", labels={"odd": str(number % 2)}), ns)
    options = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    for selector, names in ((None, ["r0", "r1", "r2", "r3", "r4"]), ("odd=1", ["r1", "r3"]), ("odd=7", [])):
        for accept in (None, PARTIAL):
            with watching.watch(path_of(POLR, ns), accept=accept, **options,
                                **({"labelSelector": selector} if selector else {})) as watch:
                newest = 0
                for name in names:
                    kind, document = watch.event()
                    assert (kind, document["metadata"]["name"]) == ("ADDED", name)
                    assert document["kind"] == ("PartialObjectMetadata" if accept else "PolicyReport")
                    newest = max(newest, int(document["metadata"]["resourceVersion"]))
                kind, bookmark = watch.event()
                assert kind == "BOOKMARK"
                assert bookmark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
                assert bookmark["kind"] == ("PartialObjectMetadata" if accept else "PolicyReport")
                assert int(bookmark["metadata"]["resourceVersion"]) >= newest
    with watching.watch(path_of(POLR, ns), **options) as watch:
        for _ in range(6):
            watch.event()
        api.create(POLR, report("r9"), ns)
        watch.expect(("ADDED", "r9"))


def test_watch_list_of_many(api, watching, ns):
    """WL-08: initial events of several pieces: none comes twice or is lost while another client writes"""
    for number in range(60):
        api.create(POLR, report(f"r{number:03}", results=[{"policy": "p", "message": "m" * 20000}]), ns)
    done = threading.Event()

    def write():
        while not done.is_set():
            api.patch(path_of(POLR, ns, "r001"), {"summary": {"pass": random.randrange(10 ** 6)}})

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with watching.watch(path_of(POLR, ns), sendInitialEvents="true", resourceVersionMatch="NotOlderThan",
                            allowWatchBookmarks="true") as watch:
            names = []
            while True:
                kind, document = watch.event()
                if kind == "BOOKMARK":
                    break
                assert kind == "ADDED"
                names.append(document["metadata"]["name"])
            assert names == [f"r{n:03}" for n in range(60)]
            base = int(document["metadata"]["resourceVersion"])
            kind, document = watch.change()
            assert kind == "MODIFIED" and int(document["metadata"]["resourceVersion"]) > base
    finally:
        done.set()
        writer.join()


def test_without_initial_events(api, watching, ns):
    """WL-03"""
    api.create(POLR, report("old"), ns)
    with watching.watch(path_of(POLR, ns), sendInitialEvents="false", resourceVersionMatch="NotOlderThan") as watch:
        api.create(POLR, report("new"), ns)
        watch.expect(("ADDED", "new"))


@pytest.mark.parametrize("query, text", [
    ({"sendInitialEvents": "true"}, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
    ({"resourceVersionMatch": "NotOlderThan", "resourceVersion": "1"},
     "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"),
    ({"sendInitialEvents": "true", "resourceVersionMatch": "Exact", "resourceVersion": "1"}, "resourceVersionMatch"),
])
def test_bad_options(watching, ns, query, text):
    """WL-02"""
    status = failure(watching.get(path_of(POLR, ns), watch="true", **query), 422, "Invalid")
    assert text in status["message"]


@pytest.mark.parametrize("query", [{"resourceVersion": "x"}, {"labelSelector": "a in"}, {"fieldSelector": "spec.x=1"}])
def test_bad_options_400(watching, ns, query):
    """W-06, W-10"""
    failure(watching.get(path_of(POLR, ns), watch="true", **query), 400, "BadRequest")


def test_watch_list_as_table(watching, ns):
    """WL-06"""
    options = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    failure(watching.get(path_of(POLR, ns), accept=TABLE, watch="true", **options), 406, "NotAcceptable")
    with watching.watch(path_of(POLR, ns), accept=TABLE + ",application/json", **options) as watch:
        kind, document = watch.event()
        assert kind == "BOOKMARK" and document["kind"] == "PolicyReport"


def test_label_transitions(api, watching, ns):
    """
    W-20: into and out of the selector, and removal outside of it; e2e watch.go, should observe an object deletion if it
    stops meeting the
    requirements of the selector"""
    path = path_of(POLR, ns)
    with watching.watch(path, resourceVersion=version_of(api, ns), labelSelector="team=a") as watch:
        api.create(POLR, report("r1", labels={"team": "b"}), ns)
        api.patch(path + "/r1", {"metadata": {"labels": {"team": "a"}}})
        api.patch(path + "/r1", {"summary": {"pass": 8}})
        gone = api.patch(path + "/r1", {"metadata": {"labels": {"team": "b"}}, "summary": {"pass": 99}}).json
        api.patch(path + "/r1", {"summary": {"pass": 5}})
        api.patch(path + "/r1", {"metadata": {"labels": {"team": "a"}}})
        api.patch(path + "/r1", {"summary": {"pass": 6}})
        api.delete(path + "/r1")
        api.create(POLR, report("r2", labels={"team": "c"}), ns)
        api.delete(path + "/r2")
        api.create(POLR, report("end", labels={"team": "a"}), ns)
        watch.expect(("ADDED", "r1"), ("MODIFIED", "r1"))
        kind, previous = watch.event()
        # The event has the content before the change, with the version of the change.
        assert kind == "DELETED" and previous["summary"]["pass"] == 8 and previous["metadata"][
            "labels"] == {"team": "a"}
        assert previous["metadata"]["resourceVersion"] == gone["metadata"]["resourceVersion"]
        watch.expect(("ADDED", "r1"), ("MODIFIED", "r1"), ("DELETED", "r1"), ("ADDED", "end"))


@pytest.mark.parametrize("accept", [PARTIAL, TABLE])
def test_transitions_in_other_forms(api, watching, ns, accept):
    """W-20, PART-01, TAB-05"""
    path = path_of(POLR, ns)
    with watching.watch(path, accept=accept, resourceVersion=version_of(api, ns), labelSelector="team=a") as watch:
        api.create(POLR, report("r1", labels={"team": "a"}), ns)
        api.patch(path + "/r1", {"metadata": {"labels": {"team": "b"}}})
        (first, added), (second, deleted) = watch.event(), watch.event()
        assert (first, second) == ("ADDED", "DELETED")
        if accept == PARTIAL:
            assert deleted["kind"] == "PartialObjectMetadata" and deleted["metadata"]["labels"] == {"team": "a"}
        else:
            assert added["kind"] == "Table" and added["columnDefinitions"] and not deleted["columnDefinitions"]
            assert deleted["rows"][0]["cells"][0] == "r1" and deleted["rows"][0]["object"]["metadata"][
                "labels"] == {"team": "a"}


def test_initial_events_of_a_table(api, watching, ns):
    """TAB-05: the first initial event brings the columns, no other event repeats them"""
    for n in range(3):
        api.create(POLR, report(f"r{n}"), ns)
    with watching.watch(path_of(POLR, ns), accept=TABLE) as watch:
        shown = [watch.change()[1] for _ in range(3)]
        api.create(POLR, report("r3"), ns)
        shown.append(watch.change()[1])
    assert [table["rows"][0]["cells"][0] for table in shown] == ["r0", "r1", "r2", "r3"]
    assert [bool(table["columnDefinitions"]) for table in shown] == [True, False, False, False]


def test_field_selector(api, watching, ns):
    """W-21, SEL-12"""
    with watching.watch(path_of(POLR, ns), resourceVersion=version_of(api, ns),
                        fieldSelector="metadata.name=r2") as watch:
        for name in ("r1", "r2", "r3"):
            api.create(POLR, report(name), ns)
        api.delete(path_of(POLR, ns, "r2"))
        watch.expect(("ADDED", "r2"), ("DELETED", "r2"))


def test_watch_of_one(api, watching, ns):
    """W-61, SEL-13"""
    api.create(POLR, report("r1"), ns)
    api.create(POLR, report("r2"), ns)
    with watching.watch(path_of(POLR, ns, "r1"), resourceVersion=version_of(api, ns)) as watch:
        api.delete(path_of(POLR, ns, "r2"))
        api.delete(path_of(POLR, ns, "r1"))
        watch.expect(("DELETED", "r1"))


def test_timeout_ends_cleanly(api, watching, ns):
    """W-03, W-40: TestWatchHTTPTimeout: a bookmark comes before the end if the watch asks for bookmarks"""
    version = version_of(api, ns)
    with watching.watch(path_of(POLR, ns), resourceVersion=version, timeoutSeconds=3,
                        allowWatchBookmarks="true") as watch:
        api.create(POLR, report("elsewhere"), ns + "-b")
        events = watch.end(seconds=20)
        assert watch.error is None
        assert events and {kind for kind, _ in events} == {"BOOKMARK"}
        bookmark = events[-1][1]
        assert bookmark["kind"] == "PolicyReport" and set(bookmark["metadata"]) - {
            "creationTimestamp"} == {"resourceVersion"}
        # The bookmark has the version of changes elsewhere, too.
        assert int(bookmark["metadata"]["resourceVersion"]) > int(version)
    with watching.watch(path_of(POLR, ns), resourceVersion=version, timeoutSeconds=1) as watch:
        assert watch.end(seconds=20) == [] and watch.error is None


@bookmarks_of_c
def test_late_bookmark(own_stack, ns):
    """
    W-40, W-41: a late bookmark is not sent if a newer event came meanwhile; the next one is
    """
    own_stack.begin()
    api = own_stack.proxy(flags=["--workers=1"]).api()
    path = path_of(POLR, ns)
    # From now on every bookmark takes as long as the test wants.  It does not wait for a lock, because the server ends
    # such a wait earlier.
    blocker = psycopg2.connect(own_stack.database.connection("postgres"))
    blocker.cursor().execute("SELECT pg_advisory_xact_lock(4711)")
    own_stack.database.psql("""
        ALTER FUNCTION kube_reports_internal.api_bookmark(uuid, integer, bigint, text, kube_reports_internal.caller)
            RENAME TO api_bookmark_at_once;
        CREATE FUNCTION kube_reports_internal.api_bookmark(cluster uuid, lane integer, version bigint,
            representation text) RETURNS bytea
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
        BEGIN
            WHILE NOT pg_try_advisory_xact_lock_shared(4711) LOOP PERFORM pg_sleep(0.05); END LOOP;
            RETURN kube_reports_internal.api_bookmark_at_once(cluster, lane, version, representation);
        END $$;
        REVOKE ALL ON FUNCTION kube_reports_internal.api_bookmark(uuid, integer, bigint, text) FROM PUBLIC;
        GRANT EXECUTE ON FUNCTION kube_reports_internal.api_bookmark(uuid, integer, bigint, text)
            TO kube_reports_proxy""", user="postgres")
    with api.watch(path, resourceVersion=version_of(api, ns), timeoutSeconds=6, allowWatchBookmarks="true") as watch:
        until(lambda: own_stack.database.psql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'",
                                              user="postgres") == "1",
              20, "a bookmark to be asked for")
        stored = api.create(POLR, report("r1"), ns)
        assert watch.event() == ("ADDED", stored)
        blocker.close()
        events = watch.end()
    assert events and {(kind, document["metadata"]["resourceVersion"]) for kind, document in events} == \
        {("BOOKMARK", stored["metadata"]["resourceVersion"])}


def test_another_worker_writes(stack, ns):
    """Workers tell each other what they write, so that no watch waits for the next poll (DESIGN section 5)"""
    proxy = stack.proxy(flags=["--workers=2", "--watch-poll-interval=60s"])
    api, path = proxy.api(), path_of(POLR, ns)
    version = version_of(api, ns)
    with contextlib.ExitStack() as streams:
        watches = []
        while proxy.metric("kube_reports_feeds") < 2:
            watches.append(streams.enter_context(api.watch(path, resourceVersion=version)))
            assert len(watches) < 100
        # The first write tells each feed its place in the log; each polls again after a minute.
        for n in range(8):
            api.create(POLR, report(f"r{n}"), ns)
            for watch in watches:
                watch.expect(("ADDED", f"r{n}"))


def test_first_byte(stack, ns):
    """W-01: the headers come at once; no line comes before the first event"""
    context = ssl.create_default_context(cafile=f"{stack.pki}/ca.crt")
    context.load_cert_chain(f"{stack.pki}/admin.crt", f"{stack.pki}/admin.key")
    query = urllib.parse.urlencode({"watch": "true", "resourceVersion": version_of(stack.first.api(), ns)})
    with socket.create_connection(("127.0.0.1", stack.second.port), 10) as plain, context.wrap_socket(plain,
        server_hostname="127.0.0.1") as tls:
        tls.settimeout(10)
        tls.sendall(f"GET {path_of(POLR, ns)}?{query} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += tls.recv(4096)
        assert head.startswith(b"HTTP/1.1 200 ")
        assert b"transfer-encoding: chunked" in head.lower()
        assert b"\n" not in head.split(b"\r\n\r\n", 1)[1].replace(b"\r\n", b"")


def test_version_too_old(api, watching, ns):
    """W-50: 200 and one ERROR event, as kube-apiserver answers: after an HTTP 410 some clients never list again"""
    status = expired(watching, path_of(POLR, ns), "1")
    assert status["message"].startswith("too old resource version: 1 (")
    # The body is the line of the event, and nothing else.
    answer = watching.get(path_of(POLR, ns), watch="true", resourceVersion="1")
    assert answer.code == 200 and answer.headers["content-type"] == "application/json"
    assert answer.body.endswith(b'"reason":"Expired","code":410}}\n') and answer.body.count(b"\n") == 1


def test_the_log_stays_bounded(own_stack):
    """W-50: however fast the log grows, a proxy removes what is too old, in as many steps as it needs"""
    own_stack.begin()
    database = own_stack.database
    upkeep = database.psql("SELECT pg_get_functiondef('kube_reports.maintain()'::regprocedure)")
    assert upkeep.count("compact(5000)") == 1
    database.psql(upkeep.replace("compact(5000)", "compact(1)"))
    database.psql("""
        INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
            SELECT l.cluster_id, l.resource_type, 'ns', 'r' || n, '{}', '{}'
            FROM kube_reports_internal.lane l JOIN kube_reports.resource_type t ON t.id = l.resource_type,
                generate_series(1, 250) n
            WHERE t.plural = 'policyreports'""")
    # The log keeps entries from which results are still to be derived, so derive them first.
    database.derive()
    assert database.psql("SELECT count(*) FROM kube_reports_internal.change") == "250"
    database.psql("SELECT kube_reports.set_setting('log_retention', '0')")
    own_stack.proxy()
    # The next upkeep begins a minute later.
    until(lambda: database.psql("SELECT count(*) FROM kube_reports_internal.change") == "0", 40, "the end of the log")


def test_version_of_the_future(api, watching, ns):
    """W-10: a watch from a version of the future stays open; WL-05: with sendInitialEvents it is refused"""
    future = str(int(version_of(api, ns)) + 10 ** 12)
    with watching.watch(path_of(POLR, ns), resourceVersion=future, timeoutSeconds=2) as watch:
        assert watch.code == 200
        api.create(POLR, report("r1"), ns)
        assert [kind for kind, _ in watch.end(20) if kind != "BOOKMARK"] == []
    answer = watching.get(path_of(POLR, ns), watch="true", resourceVersion=future, sendInitialEvents="true",
                          resourceVersionMatch="NotOlderThan")
    status = failure(answer, 504, "Timeout")
    assert status["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


def test_owner_changes_by_sql(stack, watching, ns):
    """Changes by SQL of the owner, of one row or several, are seen like any write"""
    with watching.watch(path_of(POLR, ns), resourceVersion=version_of(watching, ns)) as watch:
        document = json.dumps(report("r1", ns, labels={"a": "1"}))
        stack.database.psql(f"SELECT kube_reports.create_report('{stack.cluster}', $doc${document}$doc$)")
        kind, added = watch.event()
        assert kind == "ADDED" and added["metadata"]["name"] == "r1"
        stack.database.psql(f"""UPDATE kube_reports.object
            SET body = jsonb_set(body::jsonb, '{{summary,pass}}', '42')::kube_reports.report
            WHERE namespace = '{ns}'""")
        kind, modified = watch.event()
        assert kind == "MODIFIED" and modified["summary"]["pass"] == 42
        assert int(modified["metadata"]["resourceVersion"]) > int(added["metadata"]["resourceVersion"])
        stack.database.psql(f"""BEGIN; DELETE FROM kube_reports.object WHERE namespace = '{ns}'; ROLLBACK;
            DELETE FROM kube_reports.object WHERE namespace = '{ns}'""")
        watch.expect(("DELETED", "r1"))
        stack.first.api().create(POLR, report("end"), ns)
        watch.expect(("ADDED", "end"))


def test_list_plus_events_is_the_list(stack, ns):
    """W-02, W-30, RV-02: invariant 2 of DESIGN section 5, with concurrent writers and watchers through both proxies"""
    apis = [stack.first.api(keep=True), stack.second.api(keep=True)]
    path = path_of(POLR, ns)
    first = apis[0].get(path).json
    watches = [api.watch(path, resourceVersion=first["metadata"]["resourceVersion"])
               for api in (stack.first.api(), stack.second.api())]
    failures = []

    def write(seed):
        api = [stack.first.api(keep=True), stack.second.api(keep=True)][seed % 2]
        choice = random.Random(seed)
        for _ in range(40):
            name = f"r{choice.randrange(8)}"
            action = choice.randrange(3)
            if action == 0:
                code = api.post(path, report(name)).code
            elif action == 1:
                code = api.patch(f"{path}/{name}", {"summary": {"pass": choice.randrange(1000)}}).code
            else:
                code = api.delete(f"{path}/{name}").code
            if code not in (200, 201, 404, 409):
                failures.append(code)

    writers = [threading.Thread(target=write, args=(seed,)) for seed in range(6)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert not failures
    apis[0].create(POLR, report("end"), ns)
    last = apis[1].get(path).json
    expected = {item["metadata"]["name"]: item for item in last["items"]}
    for watch in watches:
        state = {item["metadata"]["name"]: item for item in first["items"]}
        newest = int(first["metadata"]["resourceVersion"])
        while "end" not in state:
            kind, document = watch.event()
            name, version = document["metadata"]["name"], int(document["metadata"]["resourceVersion"])
            assert version > newest
            newest = version
            assert (name in state) is (kind != "ADDED"), (kind, name)
            if kind == "DELETED":
                del state[name]
            else:
                state[name] = document
        assert state == expected
        watch.close()


def test_a_reader_that_does_not_read(stack, api, ns):
    """
    W-31: a client that does not read has a bounded queue; then its stream ends, without a gap before that; writers and
    other watchers go on
    """
    context = ssl.create_default_context(cafile=f"{stack.pki}/ca.crt")
    context.load_cert_chain(f"{stack.pki}/admin.crt", f"{stack.pki}/admin.key")
    path = path_of(POLR, ns)
    api.create(POLR, report("big"), ns)
    before = stack.second.memory("RssAnon")
    with socket.socket() as plain:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plain.connect(("127.0.0.1", stack.second.port))
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as tls:
            tls.sendall(f"GET {path}?watch=true&resourceVersion={version_of(api, ns)} HTTP/1.1\r\nHost: "
                        "x\r\nConnection: close\r\n\r\n".encode())
            tls.settimeout(20)
            taken = tls.recv(1)
            with stack.second.api().watch(path, resourceVersion=version_of(api, ns)) as lively:
                for number in range(120):
                    answer = api.patch(path + "/big",
                                       {"results": [{"policy": "p", "message": f"{number}" + "m" * 1000000}]})
                    assert answer.code == 200
                for _ in range(120):
                    assert lively.event()[0] == "MODIFIED"
            assert stack.second.memory("RssAnon") - before < 64 * 1024 * 1024
            # The client can still read the events that were sent in time, and then the end.
            tls.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024 * 1024)
            for piece in iter(lambda: tls.recv(65536), b""):
                taken += piece
    numbers = [int(json.loads(line)["object"]["results"][0]["message"].rstrip("m"))
               for line in chunks(taken).splitlines()]
    assert numbers == list(range(len(numbers))) and len(numbers) < 120


def chunks(answer):
    """Returns the body of a complete answer in chunks."""
    rest, body, size = answer.partition(b"\r\n\r\n")[2], b"", None
    while size != 0:
        line, _, rest = rest.partition(b"\r\n")
        size = int(line, 16)
        body, rest = body + rest[:size], rest[size + 2:]
    assert rest == b""
    return body


def test_many_watchers_of_one_namespace(stack, api, ns):
    """W-02: every event to every watcher"""
    version = version_of(api, ns)
    watches = [stack.second.api().watch(path_of(POLR, ns), resourceVersion=version) for _ in range(40)]
    try:
        stored = [api.create(POLR, report(f"r{number}"), ns) for number in range(5)]
        for watch in watches:
            for document in stored:
                assert watch.event() == ("ADDED", document)
    finally:
        for watch in watches:
            watch.close()


def test_more_representations_than_a_feed_carries(stack, types, ns):
    """
    W-02: a feed carries 16 representations of events for all watches; a watch with another representation reads for
    itself, and takes nothing from others when it ends
    """
    definition = crd(types.group, "manyversions")
    version = definition["spec"]["versions"][0]
    names = [f"v{number}" for number in range(1, 18)]
    definition["spec"]["versions"] = [{**version, "name": name, "storage": name == "v1"} for name in names]
    types.register(definition)
    proxy = stack.proxy(flags=["--workers=1"])
    api = proxy.api()
    root = f"/apis/{types.group}/"

    def opened(name):
        return api.watch(f"{root}{name}/namespaces/{ns}/manyversions", resourceVersion=start)

    def watchers(count):
        until(lambda: proxy.watches() == count, 20, f"{count} watches")

    until(lambda: api.get(f"{root}v17/manyversions").code == 200, 20, "the type to be served")
    start = api.get(f"{root}v1/manyversions").json["metadata"]["resourceVersion"]
    watches = [opened(name) for name in names]
    try:
        watchers(17)
        watches.pop(0).close()
        watchers(16)
        alone = watches.pop()
        watches.append(opened("v17"))
        watchers(17)
        alone.close()
        watchers(16)
        for number in range(2):
            document = {"apiVersion": f"{types.group}/v1", "kind": definition["spec"]["names"]["kind"],
                        "metadata": {"name": f"a{number}"}}
            assert api.post(f"{root}v1/namespaces/{ns}/manyversions", document).code == 201
            for watch in watches:
                watch.expect(("ADDED", f"a{number}"))
    finally:
        for watch in watches:
            watch.close()
        proxy.stop()


def test_a_client_that_leaves_is_noticed(stack, api, ns):
    """TR-05: TestWatchClientClose"""
    import urllib.request

    def watchers():
        with urllib.request.urlopen(f"http://127.0.0.1:{stack.second.metrics_port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        assert any(line.startswith("# TYPE apiserver_longrunning_requests ") for line in lines)
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines
                   if line.startswith("apiserver_longrunning_requests{"))

    until(lambda: watchers() == 0, 30, "the end of earlier watches")
    watch = stack.second.api().watch(path_of(POLR, ns), resourceVersion=version_of(api, ns))
    until(lambda: watchers() == 1, 10, "the count of the watch")
    watch.close()
    until(lambda: watchers() == 0, 10, "the end of the watch")
