"""
Upstream's storage suite for watches, as requests: which events come, in which order, with which object (conformance
24.2).
"""

import json
import os
import signal
import threading
import time
import urllib.parse

import pytest

from client import PARTIAL, TABLE, expired, failure, until
from pods import compact

INITIAL_END = {"k8s.io/initial-events-end": "true"}


@pytest.fixture(scope="module")
def watching(stack):
    """The API of the proxy through which tests do not write: they watch there."""
    return stack.second.api()


@pytest.fixture(scope="module")
def one_type(types):
    """A type for tests that use namespaces of their own, or that see only their own changes."""
    return types.pods()


class Script:
    """Makes writes one after the other, and checks the event that a watch shows for each.

    A step is (pod, event or None); a pod is name/namespace[/node][+], where + sets the phase.  When a pod leaves the
    selection, its event DELETED has the object as it was selected last, with the version of the write.
    """

    def __init__(self, pods, prefix=""):
        self.pods = pods
        self.prefix = prefix
        self.seen = {}

    def step(self, pod, event):
        name, namespace, *node = pod.rstrip("+").split("/")
        namespace = self.prefix + namespace
        where = {"namespace": namespace} if self.pods.namespaced else {}
        stored = self.pods.put(self.pods.pod(name, node=node[0] if node else None,
                                             phase="Running" if pod.endswith("+") else None, **where))
        key = (namespace, name)
        if event == "DELETED":
            last = self.seen.pop(key)
            last["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
            return (event, last)
        self.seen[key] = stored
        return (event, stored) if event else None

    def run(self, watch, steps):
        for pod, event in steps:
            expected = self.step(pod, event)
            if expected:
                assert watch.event() == expected
        assert watch.quiet()


# ---- RunTestWatch ----

NOT_ON_BAR, ON_BAR, SELECTED = {"labelSelector": "node!=bar"}, {"labelSelector": "node=bar"}, {
    "labelSelector": "select=true"}

WATCHES = {
    "create a key": ({}, [("", "ADDED")]),
    "key updated to match predicate": (ON_BAR, [("", None), ("bar", "ADDED")]),
    "update": ({}, [("", "ADDED"), ("bar", "MODIFIED")]),
    "delete because of being filtered": (NOT_ON_BAR, [("", "ADDED"), ("bar", "DELETED")]),
    "filtering": (SELECTED, [("select", "ADDED"), ("", "DELETED"), ("select", "ADDED"), ("select bar", "MODIFIED"),
                             (None, "DELETED")]),
}


@pytest.mark.parametrize("single", [False, True], ids=["namespace", "name"])
@pytest.mark.parametrize("selector, steps", WATCHES.values(), ids=WATCHES)
def test_watch(types, watching, selector, steps, single):
    """W-02, W-20, W-21, RV-04, SEL-12: RunTestWatch, testWatchLabels, of a namespace and of one name in it"""
    pods = types.pods()
    query = dict(selector, fieldSelector="metadata.name=foo") if single else selector
    with watching.watch(pods.path("ns"), resourceVersion=pods.version(), **query) as watch:
        pods.create("foo", "ns-bad", node="bar", labels={"select": "true"})
        last = None
        for state, event in steps:
            if state is None:
                before, stored = last, {"metadata": {"resourceVersion": pods.delete("foo", "ns")}}
            else:
                labels = {"select": "true"} if "select" in state else {}
                before, stored = last, pods.put(pods.pod("foo", "ns",
                                                         node="bar" if "bar" in state else None, labels=labels))
            if event == "DELETED":
                before["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
                assert watch.event() == ("DELETED", before)
            elif event:
                assert watch.event() == (event, stored)
            last = stored
        assert watch.quiet()


def test_watch_from_zero(stack, types, watching):
    """W-10, W-12, W-50: RunTestWatchFromZero"""
    pods = types.pods()
    stored = pods.create("foo", "test-ns")
    with watching.watch(pods.path("test-ns"), resourceVersion="0") as watch:
        assert watch.event() == ("ADDED", stored)
        changed = pods.put(pods.pod("foo", "test-ns", annotations={"a": "1"}))
        assert watch.event() == ("MODIFIED", changed)
    with watching.watch(pods.path("test-ns"), resourceVersion="0") as watch:
        assert watch.event() == ("ADDED", changed)
    again = pods.put(pods.pod("foo", "test-ns"))
    compact(stack)
    with watching.watch(pods.path("test-ns"), resourceVersion="0") as watch:
        assert watch.event() == ("ADDED", again)
    status = expired(watching, pods.path("test-ns"), changed["metadata"]["resourceVersion"])
    assert status["message"].startswith(f"too old resource version: {changed['metadata']['resourceVersion']} (")
    # A watch can still start from the version at which the log was cut.
    with watching.watch(pods.path("test-ns"), resourceVersion=again["metadata"]["resourceVersion"]) as watch:
        added = pods.create("bar", "test-ns")
        assert watch.event() == ("ADDED", added)


def test_watch_that_is_overtaken(stack, types):
    """
    W-50: TestWatchHTTPErrors, RunTestWatchError, RunWatchErrorIsBlockingFurtherEvents: the log is cut while a proxy is
    stopped: its open watches end with an ERROR event, without the missed events and without later ones
    """
    pods = types.pods()
    proxy = stack.proxy(flags=["--workers=1"])
    api = proxy.api()
    until(lambda: api.get(pods.path("ns")).code == 200, 20, "the type to be served")
    start = pods.version()
    watches = [api.watch(path, resourceVersion=start) for path in [pods.path("ns"), pods.path()] * 5]
    stored = pods.create("a", "ns")
    for watch in watches:
        assert watch.event() == ("ADDED", stored)
    workers = proxy.processes()[1:]
    for worker in workers:
        os.kill(worker, signal.SIGSTOP)
    try:
        pods.create("b", "ns")
        last = pods.create("c", "ns")["metadata"]["resourceVersion"]
        compact(stack)
        pods.create("d", "ns")
    finally:
        for worker in workers:
            os.kill(worker, signal.SIGCONT)
    for watch in watches:
        kind, status = watch.event()
        assert (kind, status["kind"], status["apiVersion"], status["status"]) == ("ERROR", "Status", "v1", "Failure")
        assert (status["code"], status["reason"]) == (410, "Expired")
        assert status["message"] == f"too old resource version: {stored['metadata']['resourceVersion']} ({last})"
        assert watch.end() == [] and watch.error is None
    proxy.stop()


def test_delete_trigger_watch(types, watching):
    """W-02, RV-04: RunTestDeleteTriggerWatch, RunTestWatchDeleteEventObjectHaveLatestRV"""
    pods = types.pods()
    stored = pods.create("foo", "test-ns")
    with watching.watch(pods.path("test-ns", "foo"), resourceVersion=stored["metadata"]["resourceVersion"]) as watch:
        version = pods.delete("foo", "test-ns")
        assert int(version) > int(stored["metadata"]["resourceVersion"])
        stored["metadata"]["resourceVersion"] = version
        assert watch.event() == ("DELETED", stored)


def test_watch_from_non_zero(types, watching):
    """W-10: RunTestWatchFromNonZero"""
    pods = types.pods()
    stored = pods.create("foo", "test-ns")
    with watching.watch(pods.path("test-ns", "foo"), resourceVersion=stored["metadata"]["resourceVersion"]) as watch:
        changed = pods.put(pods.pod("foo", "test-ns", annotations={"version": "2"}))
        assert watch.event() == ("MODIFIED", changed)


def unread(api, path, **query):
    """Starts a watch and reads only its headers; returns its body."""
    connection = api.connect(60)
    connection.request("GET", f"{path}?{urllib.parse.urlencode({'watch': 'true', **query})}")
    response = connection.getresponse()
    assert response.status == 200
    return response


def test_delayed_delivery(types, watching):
    """W-02, W-31: RunTestDelayedWatchDelivery: a client that reads late gets all events in their order"""
    pods = types.pods()
    start = pods.create("foo", "test-ns")["metadata"]["resourceVersion"]
    with unread(watching, pods.path("test-ns"), resourceVersion=start) as body:
        stored = [pods.create(f"foo-{number}", "test-ns") for number in range(21)]
        for document in stored:
            assert json.loads(body.readline()) == {"type": "ADDED", "object": document}


def test_watchers_that_do_not_read(types, watching):
    """
    TR-05, W-31: RunTestWatchContextCancel, RunTestWatcherTimeout: watchers that left, and watchers that do not read,
    delay no other watcher
    """
    pods = types.pods()
    start = pods.version()
    idle = [unread(watching, pods.path("test-ns"), resourceVersion=start) for _ in range(60)]
    for watch in idle[:10]:
        watch.close()
    try:
        with watching.watch(pods.path("test-ns"), resourceVersion=start) as reading:
            began = time.monotonic()
            for number in range(22):
                stored = pods.create(f"foo-{number}", "test-ns")
                assert reading.event(seconds=10) == ("ADDED", stored)
            assert time.monotonic() - began < 0.25 * 50
    finally:
        for watch in idle:
            watch.close()


# ---- RunTestClusterScopedWatch, RunTestNamespaceScopedWatch: a node is selected by its label ----

CLUSTER_WATCHES = {
    "no name, no selector": ({}, [("foo1/-", "ADDED"), ("foo1/-+", "MODIFIED"), ("foo2/-/bar1", "ADDED")]),
    "no name, node": ({"l": "node=bar1"}, [("foo1/-", None), ("foo1/-/bar1", "ADDED")]),
    "no name, node to filter out":
        ({"l": "node!=bar1"}, [("foo1/-", "ADDED"), ("foo2/-", "ADDED"), ("foo1/-+", "MODIFIED"),
                               ("foo1/-/bar1", "DELETED")]),
    "name": ({"f": "metadata.name=foo1"}, [("foo1/-", "ADDED"), ("foo2/-", None), ("foo1/-+", "MODIFIED"),
                                           ("foo2/-+", None)]),
    "name and node": ({"f": "metadata.name=foo1", "l": "node=bar1"},
                      [("foo1/-", None), ("foo2/-", None), ("foo1/-+", None), ("foo2/-+", None),
                       ("foo1/-/bar1", "ADDED")]),
    "name, node to filter out": ({"f": "metadata.name=foo1", "l": "node!=bar1"},
                                 [("foo1/-", "ADDED"), ("foo2/-", None), ("foo1/-+", "MODIFIED"),
                                  ("foo1/-/bar1", "DELETED"), ("foo2/-/bar1", None)]),
}

NAMESPACE_WATCHES = {
    "no name, no namespace, no selector":
        (None, {}, [("foo1/ns1", "ADDED"), ("foo2/ns2", "ADDED"), ("foo1/ns1+", "MODIFIED"),
                    ("foo2/ns2+", "MODIFIED")]),
    "no name, no namespace, metadata.namespace":
        (None, {"f": "metadata.namespace=ns1"}, [("foo1/ns1", "ADDED"), ("foo1/ns2", None), ("foo1/ns1+", "MODIFIED"),
                                                 ("foo1/ns2+", None)]),
    "no name, no namespace, node":
        (None, {"l": "node=bar1"}, [("foo1/ns1", None), ("foo2/ns2", None), ("foo1/ns1/bar1", "ADDED"),
                                    ("foo2/ns2/bar1", "ADDED")]),
    "no name, no namespace, node to filter out":
        (None, {"l": "node!=bar1"}, [("foo1/ns1", "ADDED"), ("foo2/ns1", "ADDED"), ("foo1/ns1+", "MODIFIED"),
                                     ("foo1/ns1/bar1", "DELETED")]),
    "no name, namespace, no selector":
        ("ns1", {}, [("foo1/ns1", "ADDED"), ("foo1/ns2", None), ("foo2/ns1", "ADDED"), ("foo1/ns1+", "MODIFIED"),
                     ("foo1/ns2+", None)]),
    "no name, namespace, matched metadata.namespace":
        ("ns1", {"f": "metadata.namespace=ns1"}, [("foo1/ns1", "ADDED"), ("foo1/ns2", None),
                                                  ("foo1/ns1+", "MODIFIED")]),
    "no name, namespace, non-matched metadata.namespace":
        ("ns1", {"f": "metadata.namespace=ns2"}, [("foo1/ns1", None), ("foo1/ns2", None), ("foo1/ns1+", None),
                                                  ("foo1/ns2+", None)]),
    "no name, namespace, node":
        ("ns1", {"l": "node=bar2"}, [("foo1/ns1", None), ("foo1/ns1/bar1", None), ("foo1/ns2/bar2", None),
                                     ("foo1/ns1/bar2", "ADDED")]),
    "no name, namespace, node to filter out":
        ("ns2", {"l": "node!=bar1"}, [("foo1/ns1", None), ("foo1/ns2", "ADDED"), ("foo1/ns2/bar1", "DELETED"),
                                      ("foo1/ns2/bar2", "ADDED")]),
    "name, no namespace":
        (None, {"f": "metadata.name=foo1"},
         [("foo1/ns1", "ADDED"), ("foo1/ns2", "ADDED"), ("foo2/ns1", None), ("foo1/ns1+", "MODIFIED"),
          ("foo1/ns1/bar1", "MODIFIED")]),
    "name and metadata.namespace, no namespace":
        (None, {"f": "metadata.name=foo1,metadata.namespace=ns1"},
         [("foo1/ns1", "ADDED"), ("foo2/ns1", None), ("foo1/ns2", None), ("foo1/ns1+", "MODIFIED"),
          ("foo1/ns1/bar1", "MODIFIED")]),
    "name and node, no namespace":
        (None, {"f": "metadata.name=foo1", "l": "node=bar1"}, [("foo1/ns1", None), ("foo1/ns1+", None),
            ("foo1/ns1/bar1", "ADDED")]),
    "name, no namespace, node to filter out":
        (None, {"f": "metadata.name=foo1", "l": "node!=bar1"},
         [("foo1/ns1", "ADDED"), ("foo2/ns1", None), ("foo1/ns1+", "MODIFIED"), ("foo1/ns1/bar1", "DELETED"),
          ("foo1/ns1/bar2", "ADDED")]),
    "name, namespace":
        ("ns1", {"f": "metadata.name=foo1"}, [("foo1/ns1", "ADDED"), ("foo2/ns1", None), ("foo1/ns1+", "MODIFIED"),
                                              ("foo1/ns1/bar1", "MODIFIED")]),
    "name and metadata.namespace, namespace":
        ("ns1", {"f": "metadata.name=foo2,metadata.namespace=ns1"},
         [("foo1/ns1", None), ("foo2/ns1", "ADDED"), ("foo1/ns1+", None), ("foo2/ns1/bar1", "MODIFIED")]),
    "name, metadata.namespace and node, namespace":
        ("ns1", {"f": "metadata.name=foo1,metadata.namespace=ns1", "l": "node=bar1"},
         [("foo1/ns1", None), ("foo2/ns1", None), ("foo1/ns2", None), ("foo1/ns1+", None), ("foo1/ns1/bar1", "ADDED")]),
    "name and metadata.namespace, namespace, node to filter out":
        ("ns1", {"f": "metadata.name=foo2,metadata.namespace=ns1", "l": "node!=bar1"},
         [("foo1/ns1", None), ("foo2/ns2", None), ("foo2/ns1", "ADDED"), ("foo2/ns1+", "MODIFIED"),
          ("foo2/ns1/bar1", "DELETED")]),
}


def query_of(selectors):
    return {{"f": "fieldSelector", "l": "labelSelector"}[key]: value for key, value in selectors.items()}


@pytest.mark.parametrize("selectors, steps", CLUSTER_WATCHES.values(), ids=CLUSTER_WATCHES)
def test_cluster_scoped_watch(types, watching, selectors, steps):
    """W-20, W-21, SEL-12: RunTestClusterScopedWatch"""
    pods = types.pods("Cluster")
    with watching.watch(pods.path(), resourceVersion=pods.version(), **query_of(selectors)) as watch:
        Script(pods).run(watch, steps)


@pytest.mark.parametrize("namespace, selectors, steps", NAMESPACE_WATCHES.values(), ids=NAMESPACE_WATCHES)
def test_namespace_scoped_watch(one_type, watching, ns, namespace, selectors, steps):
    """W-20, W-21, SEL-10, SEL-12: RunTestNamespaceScopedWatch, TestStoreWatch, testWatchFields"""
    query = {key: value.replace("metadata.namespace=", f"metadata.namespace={ns}-")
             for key, value in query_of(selectors).items()}
    with watching.watch(one_type.path(namespace and f"{ns}-{namespace}"),
                        resourceVersion=one_type.version(), **query) as watch:
        Script(one_type, ns + "-").run(watch, steps)


# ---- bookmarks ----

@pytest.mark.parametrize("allowed", [False, True])
def test_bookmark_events(types, watching, allowed):
    """
    W-40: RunTestWatchDispatchBookmarkEvents, RunOptionalTestProgressNotify: only a watch that asks for bookmarks gets
    them, also after changes elsewhere
    """
    pods = types.pods()
    start = pods.create("foo", "test-ns")["metadata"]["resourceVersion"]
    with watching.watch(pods.path("test-ns", "foo"), resourceVersion=start, timeoutSeconds=3,
                        allowWatchBookmarks=str(allowed).lower()) as watch:
        other = pods.create("foo", "other-ns")["metadata"]["resourceVersion"]
        events = watch.end(20)
    assert watch.error is None
    assert [kind for kind, _ in events] == ["BOOKMARK"] * len(events) and bool(events) is allowed
    for _, bookmark in events:
        assert set(bookmark) == {"kind", "apiVersion", "metadata"} and bookmark["kind"] == pods.head["kind"]
        assert list(bookmark["metadata"]) == ["resourceVersion"] and int(
            bookmark["metadata"]["resourceVersion"]) >= int(start)
    assert not events or events[-1][1]["metadata"]["resourceVersion"] == other


def test_bookmarks_with_correct_version(types, watching):
    """
    W-40, W-41, RV-05: RunTestOptionalWatchBookmarksWithCorrectResourceVersion: versions never go back, and no event is
    at or below a bookmark
    """
    pods = types.pods()
    done = threading.Event()

    def write():
        number = 0
        while not done.is_set():
            pods.create(f"foo-{number}", "test-ns" if number % 2 else "elsewhere")
            number += 1

    with watching.watch(pods.path("test-ns"), resourceVersion=pods.version(), timeoutSeconds=3,
                        allowWatchBookmarks="true") as watch:
        writer = threading.Thread(target=write)
        writer.start()
        try:
            events = watch.end(20)
        finally:
            done.set()
            writer.join()
    newest, bookmarks, after = 0, 0, 0
    for kind, document in events:
        version = int(document["metadata"]["resourceVersion"])
        if kind == "BOOKMARK":
            assert version >= newest
            bookmarks += 1
        else:
            assert version > newest
            after += bookmarks
        newest = version
    assert bookmarks and len(events) > 10


# ---- RunWatchSemantics ----

# Bookmarks, sendInitialEvents, version -> whether the watch shows the pods that exist, and whether a bookmark ends the
# initial events.
SEMANTICS = [
    (True, True, "unset", True, True), (True, False, "unset", False, False), (False, False, "unset", False, False),
             (False, True, "unset", True, False),
    (True, True, "0", True, True), (True, False, "0", False, False), (False, False, "0", False, False),
             (False, True, "0", True, False),
    (True, True, "1", True, True), (True, False, "1", True, False), (False, False, "1", True, False),
             (False, True, "1", True, False),
    (True, True, "current", True, True), (True, False, "current", False, False),
             (False, False, "current", False, False), (False, True, "current", True, False),
    (False, None, "0", True, False), (False, None, "unset", True, False),
    # Over HTTP, a watch with bookmarks and without sendInitialEvents counts as one that asks for initial events.
    (True, None, "0", True, True), (True, None, "unset", True, True),
]


@pytest.mark.parametrize("accept", [None, PARTIAL], ids=["object", "metadata"])
@pytest.mark.parametrize("bookmarks, initial, version, existing, ends", SEMANTICS,
                         ids=[f"bookmarks={b} initial={s} version={v}".lower() for b, s, v, _, _ in SEMANTICS])
def test_watch_semantics(one_type, watching, ns, bookmarks, initial, version, existing, ends, accept):
    """
    WL-01, WL-03, WL-04, WL-07, WL-08, W-10, W-12: RunWatchSemantics; without bookmarks
    RunSendInitialEventsBackwardCompatibility
    """
    pods = one_type
    # Version 1 of upstream's store is that of the empty store.
    versions = {"0": "0", "1": pods.version()}
    stored = [pods.create(f"pod-{number}", ns) for number in (1, 2, 3)]
    versions["current"] = pods.version()
    query = {"allowWatchBookmarks": str(bookmarks).lower()}
    if initial is not None:
        query.update(sendInitialEvents=str(initial).lower(), resourceVersionMatch="NotOlderThan")
    if version != "unset":
        query["resourceVersion"] = versions[version]

    def seen(document):
        return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                "metadata": document["metadata"]} if accept else document

    with watching.watch(pods.path(ns), accept=accept, **query) as watch:
        if existing:
            for document in stored:
                assert watch.event() == ("ADDED", seen(document))
        if ends:
            kind, bookmark = watch.event()
            assert kind == "BOOKMARK" and int(bookmark["metadata"]["resourceVersion"]) >= int(versions["current"])
            assert bookmark["metadata"] == {"resourceVersion": bookmark["metadata"]["resourceVersion"],
                                            "annotations": INITIAL_END}
        for number in (4, 5):
            added = pods.create(f"pod-{number}", ns)
            assert watch.event() == ("ADDED", seen(added))
        assert watch.quiet()


def test_initial_events_extended(types, watching):
    """WL-04: RunWatchSemanticInitialEventsExtended: the bookmark at the end has the newest version of all namespaces"""
    pods = types.pods()
    stored = [pods.create(f"pod-{number}", "ns-foo") for number in range(1, 6)]
    other = pods.create("pod-1", "other-ns-foo")
    with watching.watch(pods.path("ns-foo"), sendInitialEvents="true", resourceVersionMatch="NotOlderThan",
                        allowWatchBookmarks="true") as watch:
        for document in stored:
            assert watch.event() == ("ADDED", document)
        assert watch.event() == ("BOOKMARK",
                                 {**pods.head, "metadata": {"resourceVersion": other["metadata"]["resourceVersion"],
            "annotations": INITIAL_END}})
        assert watch.quiet()


def test_watch_list_match_single(types, watching):
    """WL-06: RunWatchListMatchSingle"""
    pods = types.pods()
    expected = pods.create("pod-1", "ns-foo")
    last = [pods.create(f"pod-{number}", "ns-foo") for number in range(2, 6)][-1]
    for path in (pods.path(), pods.path("ns-foo")):
        with watching.watch(path, sendInitialEvents="true", resourceVersionMatch="NotOlderThan",
                            allowWatchBookmarks="true",
                            fieldSelector="metadata.name=pod-1") as watch:
            assert watch.event() == ("ADDED", expected)
            assert watch.event() == ("BOOKMARK", {**pods.head, "metadata": {
                "resourceVersion": last["metadata"]["resourceVersion"], "annotations": INITIAL_END}})
            assert watch.quiet()


def test_watch_list_version_too_large(types, watching):
    """WL-05, WL-09: a version of the future is refused before the stream begins"""
    pods = types.pods()
    future = str(int(pods.version()) + 10 ** 9)
    for match in ({"sendInitialEvents": "true"}, {"sendInitialEvents": "true", "allowWatchBookmarks": "true"}):
        status = failure(watching.get(pods.path("ns"), watch="true", resourceVersion=future,
                                      resourceVersionMatch="NotOlderThan", **match), 504, "Timeout")
        assert status["message"].startswith(f"Timeout: Too large resource version: {future}, current: ")
        assert status["details"] == {"causes": [{"reason": "ResourceVersionTooLarge",
                                                 "message": "Too large resource version"}], "retryAfterSeconds": 1}
    # A version that is reached while the watch waits is no error.
    version = str(int(pods.version()) + 1)
    answer = {}

    def ask():
        with watching.watch(pods.path("ns"), resourceVersion=version, resourceVersionMatch="NotOlderThan",
                            sendInitialEvents="true") as watch:
            answer.update(code=watch.code, event=watch.code == 200 and watch.event())

    asking = threading.Thread(target=ask)
    asking.start()
    stored = pods.create("pod-1", "ns")
    asking.join()
    assert answer["code"] == 504 or (answer["code"], answer["event"]) == (200, ("ADDED", stored))


# ---- metainternalversion validation: the 18 rows and what a table does ----

VALID, INVALID = 200, 422
WATCH_LIST = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}

LIST_OPTIONS = {
    "valid-default": (False, {}, VALID, None),
    "valid-resourceversionmatch-exact": (False,
                                         {"resourceVersion": "current", "resourceVersionMatch": "Exact"}, VALID, None),
    "invalid-resourceversionmatch-exact":
        (False, {"resourceVersion": "0", "resourceVersionMatch": "Exact"}, INVALID,
         ['resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"']),
    "valid-resourceversionmatch-notolderthan": (False,
                                                {"resourceVersion": "0", "resourceVersionMatch": "NotOlderThan"}, VALID,
                                                None),
    "invalid-resourceversionmatch":
        (False, {"resourceVersion": "0", "resourceVersionMatch": "foo"}, INVALID,
         ['resourceVersionMatch: Unsupported value: "foo": supported values: "Exact", "NotOlderThan", ""']),
    "list-sendInitialEvents-forbidden": (False, {"sendInitialEvents": "true"}, INVALID, [
        "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"]),
    "valid-watch-default": (True, {}, VALID, None),
    "valid-watch-sendInitialEvents-on": (True, WATCH_LIST, VALID, None),
    "valid-watch-sendInitialEvents-off": (True, {**WATCH_LIST, "sendInitialEvents": "false"}, VALID, None),
    "watch-resourceversionmatch-without-sendInitialEvents-forbidden":
        (True, {"resourceVersionMatch": "NotOlderThan"}, INVALID,
         ["resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is "
          "provided"]),
    "watch-sendInitialEvents-without-resourceversionmatch-forbidden":
        (True, {"sendInitialEvents": "true", "allowWatchBookmarks": "true"}, INVALID,
         ["resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"]),
    "watch-sendInitialEvents-with-exact-resourceversionmatch-forbidden":
        (True, {**WATCH_LIST, "resourceVersionMatch": "Exact", "resourceVersion": "1"}, INVALID,
         ["resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
          'resourceVersionMatch: Unsupported value: "Exact": supported values: "NotOlderThan"']),
    "watch-sendInitialEvents-on-with-empty-resourceversionmatch-forbidden":
        (True, {"sendInitialEvents": "true", "resourceVersionMatch": ""}, INVALID,
         ["resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"]),
    "watch-sendInitialEvents-off-with-empty-resourceversionmatch-forbidden":
        (True, {"sendInitialEvents": "false", "resourceVersionMatch": ""}, INVALID,
         ["resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"]),
    "watch-sendInitialEvents-with-incorrect-resourceversionmatch-forbidden":
        (True, {**WATCH_LIST, "resourceVersionMatch": "incorrect"}, INVALID,
         ["resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
          'resourceVersionMatch: Unsupported value: "incorrect": supported values: "NotOlderThan"']),
    "watch-sendInitialEvents-no-allowWatchBookmark":
        (True, {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}, VALID, None),
    "list-resourceVersionMatch-without-resourceVersion": (False, {"resourceVersionMatch": "Exact"}, INVALID, [
        "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"]),
    "list-resourceVersionMatch-with-continue": (False,
                                                {"resourceVersion": "0", "resourceVersionMatch": "NotOlderThan",
                                                 "continue": "x"}, INVALID, [
        "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided"]),
    "watch-continue": (True, {**WATCH_LIST, "continue": "x"}, INVALID, [
        "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided"]),
}


@pytest.mark.parametrize("watches, query, code, errors", LIST_OPTIONS.values(), ids=LIST_OPTIONS)
def test_list_options(one_type, watching, watches, query, code, errors):
    """WL-02, LIST-10, ERR-10: TestValidateListOptions"""
    query = {name: one_type.version() if value == "current" else value for name, value in query.items()}
    if watches and code == VALID:
        with watching.watch(one_type.path("ns"), **query) as watch:
            assert watch.code == VALID
        return
    answer = watching.get(one_type.path("ns"), **({"watch": "true"} if watches else {}), **query)
    if code == VALID:
        assert answer.code == VALID
        return
    status = failure(answer, code, "Invalid")
    assert status["message"] == 'ListOptions.meta.k8s.io "" is invalid: ' + (errors[0] if len(errors) == 1
        else f"[{', '.join(errors)}]")
    assert [f"{cause['field']}: {cause['message']}" for cause in status["details"]["causes"]] == errors
    assert (status["details"]["group"], status["details"]["kind"]) == ("meta.k8s.io", "ListOptions")


def test_watch_list_of_tables(one_type, watching):
    """
    WL-06, TAB-05, NEG-02: initial events do not come as tables, an ordinary watch does; e2e watchlist.go, doesn't
    support receiving
    resources as Tables, falls backs to supported content type"""
    failure(watching.get(one_type.path("ns"), accept=TABLE, watch="true", **WATCH_LIST), 406, "NotAcceptable")
    with watching.watch(one_type.path("ns"), accept=TABLE + ", application/json", **WATCH_LIST) as watch:
        assert watch.event()[1]["kind"] == one_type.head["kind"]
    with watching.watch(one_type.path("table"), accept=TABLE, resourceVersion=one_type.version()) as watch:
        one_type.create("a", "table")
        one_type.create("b", "table")
        (_, first), (_, second) = watch.event(), watch.event()
        assert first["kind"] == second["kind"] == "Table" and first["columnDefinitions"] and second[
            "columnDefinitions"] is None
