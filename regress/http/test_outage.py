"""The database goes away and comes back; a proxy has never read its registry (DESIGN section 6)."""

import json
import os
import signal

import pytest

from client import POLR, REPS, failure, path_of, report, until
from conftest import reads_of_c

DISCOVERY = ["/apis", "/apis/wgpolicyk8s.io", "/apis/wgpolicyk8s.io/v1alpha2", "/openapi/v2", "/openapi/v3"]


def unavailable(answer):
    status = failure(answer, 503, "ServiceUnavailable")
    assert int(answer.headers["Retry-After"]) > 0
    return status


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_away_and_back(own_stack, mode):
    """ERR-02, HL-04, AGG-03, AGG-34, GC-02, NS-03: TestGetRetryAfter, as 503"""
    own_stack.begin()
    proxies = [own_stack.proxy(), own_stack.proxy()]
    first, second = proxies[0].api(), proxies[1].api()
    path = path_of(POLR, "ns")
    stored = first.create(POLR, report("before"), "ns")
    watch = second.watch(path, resourceVersion=stored["metadata"]["resourceVersion"])
    documents = {each: first.get(each).body for each in DISCOVERY}

    own_stack.database.stop(mode)
    for answer in (lambda: first.get(path), lambda: first.get(path + "/before"), lambda: first.post(path, report("r")),
                   lambda: first.delete(path + "/before")):
        until(lambda: answer().code == 503, 20, "a 503")
        unavailable(answer())
    for each, body in documents.items():
        answer = first.get(each)
        assert (answer.code, answer.body) == (200, body)
    assert first.get("/livez").code == 200
    until(lambda: first.get("/readyz").code == 500, 20, "readyz to fail")

    own_stack.database.start()
    for proxy in proxies:
        proxy.wait_ready(30)
    until(lambda: all(first.get(path + "/before").code == 200 for _ in range(20)), 20, "the answer of every worker")
    assert first.get(path + "/before").json == stored
    # Each worker connects again by itself; a client tries again after a 503, as its Retry-After says.
    answers = []
    until(lambda: answers.append(first.post(path, report("after"))) or answers[-1].code != 503, 20, "a write")
    assert answers[-1].code == 201, answers
    for answer in answers[:-1]:
        unavailable(answer)
    added = answers[-1].json
    # The watch went on or ended; nothing is lost either way.
    frame = watch.frames.get(timeout=30)
    if frame is watch.ENDED:
        with second.watch(path, resourceVersion=stored["metadata"]["resourceVersion"]) as again:
            assert again.change() == ("ADDED", added)
    else:
        assert (frame["type"], frame["object"]) == ("ADDED", added)
    watch.close()
    assert int(added["metadata"]["resourceVersion"]) > int(stored["metadata"]["resourceVersion"])


@reads_of_c
def test_a_read_fails(own_stack):
    """
    ERR-02, W-06: TestErrorList, TestWatchHTTPErrorsBeforeServe, TestWatchHTTPErrors: an unexpected error is a Status
    with code 500; a watch gets it as its answer, or as an ERROR event when its stream has begun; after that the watch
    counts no more
    """
    own_stack.begin()
    proxy = own_stack.proxy(flags=["--workers=1"])
    api = proxy.api()
    # A watch reads this list after it has sent its headers.
    own_stack.database.psql("ALTER FUNCTION kube_reports_internal.api_list RENAME TO lost_list", user="postgres")
    expected = failure(api.get(path_of(POLR, "ns")), 500, "InternalError")
    with api.watch(path_of(POLR, "ns")) as watch:
        assert watch.code == 200 and watch.end() == [("ERROR", expected)]
    # A list and a watch begin with this plan.
    own_stack.database.psql("ALTER FUNCTION kube_reports_internal.list_plan RENAME TO lost_plan", user="postgres")
    for query in ({}, {"watch": "true"}):
        failure(api.get(path_of(POLR, "ns"), **query), 500, "InternalError")
    until(lambda: proxy.watches() == 0, 10, "the end of the watch")


def test_registry_never_read(own_stack):
    """
    DISC-15: TestWithMuxAndDiscoveryCompleteProtection, TestMuxAndDiscoveryComplete: 503, never an empty document and
    never 404; the proxy is ready as soon as the database is
    """
    own_stack.database.start()
    own_stack.database.stop()
    proxy = own_stack.proxy(ready=False)
    until(lambda: proxy.answers("/livez") is not None, 20, "an answer")
    api = proxy.api()
    assert api.get("/livez").code == 200
    assert api.get("/readyz").code == 500
    for path in DISCOVERY + ["/apis/none.example", "/apis/none.example/v1", path_of(POLR, "ns"), path_of(POLR), "/api"]:
        answer = api.get(path)
        assert answer.code == 503 or (path == "/api" and answer.code == 404), (path, answer)
        if answer.code == 503:
            unavailable(answer)

    # First a server without the database, then a database without the extension, then everything.
    own_stack.database.start()
    unavailable(api.get("/apis"))
    own_stack.database.psql("CREATE ROLE kube_reports_owner LOGIN", user="postgres", database="postgres")
    own_stack.database.psql("CREATE ROLE kube_reports_proxy LOGIN", user="postgres", database="postgres")
    own_stack.database.psql("CREATE DATABASE kube_reports OWNER kube_reports_owner", user="postgres",
                            database="postgres")
    unavailable(api.get("/apis"))
    unavailable(api.get(path_of(POLR, "ns")))
    own_stack.database.prepare(own_stack.cluster)
    until(lambda: all(api.get("/apis").code == 200 for _ in range(20)), 30, "every worker")
    assert [group["name"] for group in api.get("/apis").json["groups"]]
    until(lambda: all(api.get(path_of(POLR, "ns")).code == 200 for _ in range(20)), 30, "every worker's database")
    assert api.names(POLR, "ns") == []


def test_backends_are_killed(own_stack):
    """Answers are complete or 503; the proxy goes on by itself"""
    own_stack.begin()
    proxy = own_stack.proxy()
    api = proxy.api()
    stored = {}
    for number in range(60):
        if number % 6 == 3:
            own_stack.database.psql("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = "
                                    "'kube_reports_proxy'", user="postgres")
        answer = api.post(path_of(POLR, "ns"), report(f"r{number}"))
        assert answer.code in (201, 503), answer
        if answer.code == 201:
            stored[f"r{number}"] = answer.json
        else:
            unavailable(answer)

    def listed():
        answer = api.get(path_of(POLR, "ns"))
        return answer if answer.code == 200 else None

    items = {item["metadata"]["name"]: item for item in until(listed, 20, "a list").json["items"]}
    assert {name: items.get(name) for name in stored} == stored
    assert len(stored) > 30


def test_a_writer_hangs(own_stack):
    """
    ERR-02: writes behind a hung one, at its worker or at another, get 503 in a few seconds; reads and other types go on
    """
    own_stack.begin()
    proxies = [own_stack.proxy(flags=["--workers=1"]) for _ in range(2)]
    path = path_of(POLR, "ns")
    proxies[0].api().create(POLR, report("before"), "ns")
    blocker = own_stack.database.open_create(own_stack.cluster, report("open", "ns"))
    first = proxies[0].api().connect(90)
    first.request("POST", path, json.dumps(report("hung")), {"Content-Type": "application/json"})
    backend = int(until(lambda: own_stack.database.at_lane_lock("NOT l.granted"), 10, "a writer that waits"))
    os.kill(backend, signal.SIGSTOP)
    try:
        # The hung writer gets the lock, and cannot use it.
        blocker.rollback()
        assert own_stack.database.at_lane_lock("l.granted") == str(backend)
        for number, proxy in enumerate(proxies):
            unavailable(proxy.api().post(path, report("behind"), seconds=20))
            assert proxy.api().names(POLR, "ns") == ["before"]
            proxy.api().create(REPS, report(f"elsewhere-{number}", resource=REPS), "ns")
        # The proxy knows that the writer hangs and does not wait for it: a wait like that of the others would be 504.
        unavailable(proxies[0].api().post(path, report("behind"), seconds=20, timeout="3s"))
    finally:
        os.kill(backend, signal.SIGCONT)
        blocker.close()
    assert first.getresponse().status in (201, 503)
    until(lambda: proxies[0].api().post(path, report("after")).code == 201, 20, "a write after all")


def test_worker_is_killed(own_stack):
    """A fault ends one worker only, and another worker takes its place"""
    own_stack.begin()
    proxy = own_stack.proxy()
    parent, workers = proxy.process.pid, proxy.workers()
    assert len(workers) == 2
    os.kill(workers[0], signal.SIGKILL)
    until(lambda: len(proxy.workers()) == 2 and workers[0] not in proxy.workers(), 20, "a new worker")
    for _ in range(20):
        until(lambda: proxy.answers("/readyz") is not None and proxy.answers("/readyz").code == 200, 20, "answers")
    assert proxy.process.pid == parent


def test_shutdown(own_stack):
    """Watches end cleanly, the process ends by itself, no process stays"""
    own_stack.begin()
    proxy = own_stack.proxy()
    version = proxy.api().get(path_of(POLR, "ns")).json["metadata"]["resourceVersion"]
    watch = proxy.api().watch(path_of(POLR, "ns"), resourceVersion=version)
    processes = proxy.processes()
    proxy.process.send_signal(signal.SIGTERM)
    assert [kind for kind, _ in watch.end(20) if kind == "ERROR"] == []
    assert watch.error is None
    assert proxy.process.wait(20) == 0
    for pid in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
