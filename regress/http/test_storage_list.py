"""
Upstream's storage suite for reads, as requests: which objects a get or a list gives at which version (conformance
24.2).
"""

import pytest

from client import failure
from pods import compact, opened, token

TOO_LARGE = str(2 ** 63 - 1)


def names(document):
    return [f"{item['metadata']['namespace']}/{item['metadata']['name']}" for item in document["items"]]


# ---- RunTestList ----

class Seed:
    """Eight writes and their objects; each version has the name of the write that made it.

    first/bar, second/bar, second/foo, third/barfoo, third/foo and second/baz are created, first/bar is updated,
    second/baz is deleted.
    The log begins at the first write.
    """

    def __init__(self, stack, pods):
        self.pods = pods
        self.versions = {"initial": pods.version(), "0": "0", "none": "", "high": TOO_LARGE, "abc": "abc", "-1": "-1"}
        self.made = {}
        for number, key in enumerate(("first/bar", "second/bar", "second/foo", "third/barfoo",
                                      "third/foo", "second/baz"), 1):
            self.made[key] = pods.create(key.split("/")[1], key.split("/")[0])
            self.versions[f"write {number}"] = self.made[key]["metadata"]["resourceVersion"]
            if number == 1:
                compact(stack)
        self.updated = pods.put(pods.pod("bar", "first", node="fakeNode"))
        self.versions["write 7"] = self.updated["metadata"]["resourceVersion"]
        self.versions["write 8"] = pods.delete("baz", "second")
        # An object in another namespace comes and goes.
        pods.create("passing", "elsewhere")
        self.versions["current"] = pods.delete("passing", "elsewhere")
        self.versions["future"] = str(int(self.versions["current"]) + 1)

    def object(self, key):
        """Returns an object by its key: first/bar is the updated object, first/bar@1 is the one that was created."""
        if key == "first/bar":
            return self.updated
        return self.made[key.partition("@")[0]]


@pytest.fixture(scope="module")
def seed(stack, types):
    return Seed(stack, types.pods())


ALL = "first/bar second/bar second/foo third/barfoo third/foo"
BARFOO, BAR, FOO = "metadata.name=barfoo", "metadata.name=bar", "metadata.name=foo"

# Name: namespace, version, match, limit, continue (version, start), field selector -> objects, more, version; or the
# code of a failure.  more: the number of items that remain, None if the answer does not say it although items may
# follow, or "end".  Versions are given by name.
LIST_CASES = {
    "rejects invalid resource version": (None, "abc", None, None, None, None, 400),
    "rejects resource version and continue token": ("second", "write 1", None, 1, ("write 8", "foo"), None, 400),
    "rejects resource version set too high": (None, "high", None, None, None, None, 504),
    "existing key": ("first", "none", None, None, None, None, "first/bar", "end", "current"),
    "existing key, version 0": ("first", "0", None, None, None, None, "first/bar", "end", "current"),
    "existing key, before update, Exact": ("first", "write 1", "Exact", None, None, None,
                                           "first/bar@1", "end", "write 1"),
    "existing key, before creation, Exact": ("second", "write 1", "Exact", None, None, None, "", "end", "write 1"),
    "existing key, after creation, Exact": ("second", "write 2", "Exact", None, None, None,
                                            "second/bar", "end", "write 2"),
    "existing key, before first write, Exact": ("first", "initial", "Exact", None, None, None, 410),
    "existing key, version 0, NotOlderThan": ("first", "0", "NotOlderThan", None, None, None,
                                              "first/bar", "end", "current"),
    "existing key, version 0, Invalid": ("first", "0", "Invalid", None, None, None, 422),
    "existing key, before first write, NotOlderThan": ("first", "initial", "NotOlderThan", None, None, None,
                                                       "first/bar", "end", "current"),
    "existing key, before first write, Invalid": ("first", "initial", "Invalid", None, None, None, 422),
    "existing key, current version": ("first", "current", None, None, None, None, "first/bar", "end", "current"),
    "existing key, current version, Exact": ("first", "current", "Exact", None, None, None,
                                             "first/bar", "end", "current"),
    "existing key, current version, NotOlderThan": ("first", "current", "NotOlderThan", None, None, None,
                                                    "first/bar", "end", "current"),
    "non-existing key": ("nowhere", "none", None, None, None, None, "", "end", "current"),
    "pod name matching": ("first", "none", None, None, None, "metadata.name!=bar", "", "end", "current"),
    "pod name matching, current version, NotOlderThan": ("first", "current", "NotOlderThan", None, None,
                                                         "metadata.name!=bar", "", "end", "current"),
    "limit": ("second", "none", None, 1, None, None, "second/bar", 1, "current"),
    "limit, current version": ("second", "write 8", None, 1, None, None, "second/bar", 1, "write 8"),
    "limit, current version, Exact": ("second", "write 8", "Exact", 1, None, None, "second/bar", 1, "write 8"),
    "limit, current version, NotOlderThan": ("second", "write 8", "NotOlderThan", 1, None, None,
                                             "second/bar", 1, "current"),
    "limit, version 0": ("second", "0", None, 1, None, None, "second/bar", 1, "current"),
    "limit, version 0, NotOlderThan": ("second", "0", "NotOlderThan", 1, None, None, "second/bar", 1, "current"),
    "limit, before created, Exact": ("second", "write 1", "Exact", 1, None, None, "", "end", "write 1"),
    "limit, after created, Exact": ("second", "write 2", "Exact", 1, None, None, "second/bar", "end", "write 2"),
    "pregenerated continue token": ("second", "none", None, 1, ("write 8", "foo"), None,
                                    "second/foo", "end", "write 8"),
    "ignores version 0 for pregenerated continue token": ("second", "0", None, 1, ("write 8", "foo"), None,
        "second/foo", "end", "write 8"),
    "multiple levels, flattened": ("second", "none", None, None, None, None, "second/bar second/foo", "end", "current"),
    "multiple levels, flattened, NotOlderThan": ("second", "current", "NotOlderThan", None, None, None,
                                                 "second/bar second/foo", "end", "current"),
    "filter returning one item, single page": (None, "none", None, 1, None, BARFOO, "third/barfoo", None, "current"),
    "filter returning one item, single page, NotOlderThan": (None, "current", "NotOlderThan", 1, None, BARFOO,
        "third/barfoo", None, "current"),
    "filter returning one item, entire list": (None, "none", None, 2, None, BARFOO, "third/barfoo", "end", "current"),
    "filter returning one item, entire list, NotOlderThan": (None, "current", "NotOlderThan", 2, None, BARFOO,
        "third/barfoo", "end", "current"),
    "filter returning one item, entire list, version 0": (None, "0", None, 2, None, BARFOO,
        "third/barfoo", "end", "current"),
    "filter returning two items, more pages possible": (None, "none", None, 2, None, BAR,
                                                        "first/bar second/bar", None, "current"),
    "filter returning two items, more pages possible, NotOlderThan":
        (None, "current", "NotOlderThan", 2, None, BAR, "first/bar second/bar", None, "current"),
    "filter returns two items split across pages": (None, "none", None, 2, None, FOO,
                                                    "second/foo third/foo", "end", "current"),
    "filter returns two items split across pages, NotOlderThan": (None, "current", "NotOlderThan", 2, None, FOO,
        "second/foo third/foo", "end", "current"),
    "one item for last page, ends on last item, not full": (None, "none", None, 2, ("write 8", "third/barfoo"), FOO,
        "third/foo", "end", "write 8"),
    "one item for last page, starts on last item, full": (None, "none", None, 1, ("write 8", "third/barfoo"), FOO,
        "third/foo", "end", "write 8"),
    "one item for last page, starts on last item, partial page": (None, "none", None, 2, ("write 8", "third/barfoo"),
        FOO, "third/foo", "end", "write 8"),
    "filter returns two items, page size equal to total": (None, "none", None, 5, None, FOO,
        "second/foo third/foo", "end", "current"),
    "filter returns two items, page size equal to total, NotOlderThan":
        (None, "current", "NotOlderThan", 5, None, FOO, "second/foo third/foo", "end", "current"),
    "filter returns one item, page size equal to total": (None, "none", None, 5, None, BARFOO,
        "third/barfoo", "end", "current"),
    "filter returns one item, page size equal to total, NotOlderThan": (None, "current", "NotOlderThan", 5, None,
        BARFOO, "third/barfoo", "end", "current"),
    "list all items": (None, "none", None, None, None, None, ALL, "end", "current"),
    "list all items, NotOlderThan": (None, "current", "NotOlderThan", None, None, None, ALL, "end", "current"),
    "does not return deleted object": (None, "current", "NotOlderThan", 5, None, "metadata.name=baz",
                                       "", "end", "current"),
    "consistent List": ("empty", "none", None, None, None, None, "", "end", "current"),
    "non-consistent List": ("empty", "0", None, None, None, None, "", "end", "current"),
    "before first write, Exact": (None, "initial", "Exact", None, None, None, 410),
    "first write, Exact": (None, "write 1", "Exact", None, None, None, "first/bar@1", "end", "write 1"),
    "second write, Exact": (None, "write 2", "Exact", None, None, None, "first/bar@1 second/bar", "end", "write 2"),
    "third write, Exact": (None, "write 3", "Exact", None, None, None,
                           "first/bar@1 second/bar second/foo", "end", "write 3"),
    "fourth write, Exact": (None, "write 4", "Exact", None, None, None,
                            "first/bar@1 second/bar second/foo third/barfoo", "end", "write 4"),
    "fifth write, Exact": (None, "write 5", "Exact", None, None, None,
                           "first/bar@1 second/bar second/foo third/barfoo third/foo", "end", "write 5"),
    "sixth write, Exact":
        (None, "write 6", "Exact", None, None, None,
         "first/bar@1 second/bar second/baz second/foo third/barfoo third/foo", "end", "write 6"),
    "seventh write, Exact":
        (None, "write 7", "Exact", None, None, None,
         "first/bar second/bar second/baz second/foo third/barfoo third/foo", "end", "write 7"),
    "eighth write, Exact": (None, "write 8", "Exact", None, None, None, ALL, "end", "write 8"),
    "after writes, Exact": (None, "current", "Exact", None, None, None, ALL, "end", "current"),
    "future, Exact": (None, "future", "Exact", None, None, None, 504),
    "limit, second write, Exact": (None, "write 2", "Exact", 1, None, None, "first/bar@1", 1, "write 2"),
    "limit, third write, Exact": (None, "write 3", "Exact", 2, None, None, "first/bar@1 second/bar", 1, "write 3"),
    "limit, fourth write, Exact": (None, "write 4", "Exact", 4, None, None,
                                   "first/bar@1 second/bar second/foo third/barfoo", "end", "write 4"),
    "limit, fifth write, Exact": (None, "write 5", "Exact", 1, None, None, "first/bar@1", 4, "write 5"),
    "limit, sixth write, Exact": (None, "write 6", "Exact", 2, None, None, "first/bar@1 second/bar", 4, "write 6"),
    "limit, seventh write, Exact": (None, "write 7", "Exact", 4, None, None,
                                    "first/bar second/bar second/baz second/foo", 2, "write 7"),
    "limit, eighth write, Exact": (None, "write 8", "Exact", 8, None, None, ALL, "end", "write 8"),
    "limit, after writes, Exact": (None, "current", "Exact", 1, None, None, "first/bar", 4, "current"),
    "continue, before first write": (None, "none", None, 1, ("initial", "first/bar\0"), None, 410),
    "continue, first write": (None, "none", None, 1, ("write 1", "first/bar\0"), None, "", "end", "write 1"),
    "continue, second write": (None, "none", None, 1, ("write 2", "first/bar\0"), None, "second/bar", "end", "write 2"),
    "continue, third write": (None, "none", None, 2, ("write 3", "second/bar\0"), None, "second/foo", "end", "write 3"),
    "continue, fifth write": (None, "none", None, 1, ("write 5", "first/bar\0"), None, "second/bar", 3, "write 5"),
    "continue, sixth write": (None, "none", None, 2, ("write 6", "second/bar\0"), None,
                              "second/baz second/foo", 2, "write 6"),
    "continue, seventh write": (None, "none", None, 4, ("write 7", "second/foo\0"), None,
                                "third/barfoo third/foo", "end", "write 7"),
    "continue, after writes": (None, "none", None, 1, ("current", "first/bar\0"), None, "second/bar", 3, "current"),
    "continue from second pod, negative version": (None, "none", None, None, ("-1", "first/bar\0"), None,
                                                   ALL.removeprefix("first/bar "), "end", "current"),
    "continue from second pod and limit, negative version": (None, "none", None, 2, ("-1", "first/bar\0"), None,
        "second/bar second/foo", 2, "current"),
    "continue from third pod, negative version": (None, "none", None, None, ("-1", "second/foo\0"), None,
                                                  "third/barfoo third/foo", "end", "current"),
    "continue from empty fails": (None, "none", None, None, ("write 8", ""), None, 400),
    "continue from first pod, empty version fails": (None, "none", None, None, ("0", "first/bar\0"), None, 400),
    "negative version fails": (None, "-1", None, None, None, None, 400),
}

REASONS = {
    400: ("BadRequest", ""), 422: ("Invalid", "resourceVersionMatch: Unsupported value"),
           504: ("Timeout", "Too large resource version"),
    410: ("Expired", "is too old"),
}


@pytest.mark.parametrize("case", LIST_CASES.values(), ids=LIST_CASES)
def test_list(seed, case):
    """LIST-02, LIST-03, LIST-10 to LIST-13, PAGE-01 to PAGE-06, EXP-01, SEL-12, RV-03: RunTestList"""
    namespace, version, match, limit, start, fields, *expected = case
    query = {}
    if version != "none":
        query["resourceVersion"] = seed.versions[version]
    if match:
        query["resourceVersionMatch"] = match
    if limit:
        query["limit"] = limit
    if start:
        query["continue"] = token(int(seed.versions[start[0]]), start[1])
    if fields:
        query["fieldSelector"] = fields
    answer = seed.pods.api.get(seed.pods.path(namespace), **query)
    if isinstance(expected[0], int):
        reason, text = REASONS[expected[0]]
        status = failure(answer, expected[0], reason)
        assert text in status["message"]
        # Only the answer to an expired token has another token.
        assert bool(status["metadata"].get("continue")) is (expected[0] == 410 and start is not None)
        return
    objects, more, at = expected
    document = answer.json
    keys = objects.split()
    assert names(document) == [key.partition("@")[0] for key in keys]
    assert document["items"] == [seed.object(key) for key in keys]
    assert document["metadata"]["resourceVersion"] == seed.versions[at]
    assert document["metadata"].get("remainingItemCount") == (more if isinstance(more, int) else None)
    if more == "end":
        assert not document["metadata"].get("continue")
    else:
        last = names(document)[-1]
        assert opened(document["metadata"]["continue"]) == {
            "v": "meta.k8s.io/v1", "rv": int(seed.versions[at]),
            "start": (last if namespace is None else last.split("/")[1]) + "\0"}


# Test_decodeContinue
BROKEN_TOKENS = {
    "empty version": (token(1, "ns/key", v=""), "server does not recognize this encoded version "),
    "invalid version": (token(1, "ns/key", v="v1"), "server does not recognize this encoded version v1"),
    "invalid RV": (token(0, "ns/key"), "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
    "no start key": (token(1, ""), "encoded start key empty (version meta.k8s.io/v1)"),
    "path traversal, parent": (token(1, "../key"), "../key"),
    "path traversal, local": (token(1, "./key"), "./key"),
    "path traversal, double parent": (token(1, "./../key"), "./../key"),
    "path traversal, after parent": (token(1, "key/../.."), "key/../.."),
    "double slash": (token(1, "ns//key"), "ns//key"),
    "no base64": ("%%%", "illegal base64 data at input byte 0"),
    "padded": (token(1, "ns/key") + "=", f"illegal base64 data at input byte {len(token(1, 'ns/key'))}"),
    "no JSON": ("e30x", "invalid character '1' after top-level value"),
    "another type": (token("1", "ns/key"),
                     "json: cannot unmarshal string into Go struct field continueToken.rv of type int64"),
}


@pytest.mark.parametrize("text, why", BROKEN_TOKENS.values(), ids=BROKEN_TOKENS)
def test_decode_continue(seed, text, why):
    """
    PAGE-06, REQ-03: Test_decodeContinue: 400, in upstream's words; a deletecollection with such a token deletes nothing
    """
    for method in ("GET", "DELETE"):
        status = failure(seed.pods.api.request(method, seed.pods.path() if method == "GET" else seed.pods.path("first"),
                                               **{"continue": text}), 400, "BadRequest")
        assert status["message"] == "invalid continue token: continue key is not valid: " + why
    assert names(seed.pods.list()) == ALL.split()


def test_list_returns_updated_version(seed):
    """SEL-01: RunTestList, verify list returns updated version of object"""
    document = seed.pods.list(labelSelector="node=fakeNode", limit=5, resourceVersion=seed.versions["current"],
                              resourceVersionMatch="NotOlderThan")
    assert document["items"] == [seed.updated] and "remainingItemCount" not in document["metadata"]


# ---- the other list tests ----

def test_consistent_list(stack, seed):
    """
    GET-03, LIST-03, RV-03: RunTestConsistentList: a list has what was written through another proxy just before; an
    empty list has the version of that write
    """
    other = stack.second.api(keep=True)
    for number in range(20):
        stored = seed.pods.create(f"pod-{number}", "consistent")
        document = other.get(seed.pods.path("consistent")).json
        assert len(document["items"]) == number + 1 and stored in document["items"]
        assert document["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
    for number, query in enumerate(({"resourceVersion": "0"}, {}, {"continue": token(-1, "a")},
                                    {"resourceVersion": "0"})):
        stored = seed.pods.create(f"more-{number}", "consistent")
        document = other.get(seed.pods.path("empty"), **query).json
        assert document["items"] == [] and document["metadata"]["resourceVersion"] == stored[
            "metadata"]["resourceVersion"]
    assert other.delete(seed.pods.path("consistent")).code == 200
    seed.versions["current"] = seed.pods.version()


@pytest.mark.parametrize("query, expected", [
    ({}, "now"), ({"resourceVersion": "0"}, "now"),
                                             ({"resourceVersion": "0", "resourceVersionMatch": "NotOlderThan"}, "now"),
    ({"resourceVersion": "current"}, "now"),
                                             ({"resourceVersion": "current", "resourceVersionMatch": "NotOlderThan"},
                                              "now"),
    ({"resourceVersion": "previous", "resourceVersionMatch": "NotOlderThan"}, "now"),
    ({"resourceVersion": "current", "resourceVersionMatch": "Exact"}, "now"),
    ({"resourceVersion": "previous", "resourceVersionMatch": "Exact"}, "before"), ({"resourceVersion": TOO_LARGE}, 504),
    ({"resourceVersion": "current", "fieldSelector": "metadata.name=foo,metadata.name!=foo"}, None),
                                             ({"fieldSelector": "metadata.name=nothing"}, None),
])
@pytest.mark.parametrize("scope", ["Namespaced", "Cluster"])
def test_list_of_one(one_of_each, scope, query, expected):
    """LIST-10, LIST-12, SEL-12: RunTestGetListNonRecursive: a list of one name"""
    pods, before, now = one_of_each[scope]
    query = {"fieldSelector": "metadata.name=foo", **query}
    versions = {"current": now["metadata"]["resourceVersion"], "previous": before["metadata"]["resourceVersion"]}
    if "resourceVersion" in query:
        query["resourceVersion"] = versions.get(query["resourceVersion"], query["resourceVersion"])
    answer = pods.api.get(pods.path("test-ns"), **query)
    if expected == 504:
        status = failure(answer, 504, "Timeout")
        assert status["details"]["causes"] == [{"reason": "ResourceVersionTooLarge",
                                                "message": "Too large resource version"}]
    else:
        assert answer.json["items"] == {"now": [now], "before": [before], None: []}[expected]
        assert int(answer.json["metadata"]["resourceVersion"]) >= int(versions["previous"])


@pytest.fixture(scope="module")
def one_of_each(types):
    """For each scope an object foo, as it was created and as it is now, and an object that was created later."""
    made = {}
    for scope in ("Namespaced", "Cluster"):
        pods = types.pods(scope)
        before = pods.create("foo", "test-ns")
        now = pods.api.patch(pods.path("test-ns", "foo"), {"metadata": {"annotations": {"version": "second"}}}).json
        pods.create("foobar", "test-ns")
        made[scope] = (pods, before, now)
    return made


@pytest.mark.parametrize("query, expected", [
    ({}, "now"), ({"resourceVersion": "0"}, "now"), ({"resourceVersion": "previous"}, "now"),
                                             ({"resourceVersion": "current"}, "now"),
    ({"resourceVersion": "latest"}, "now"), ({"resourceVersion": TOO_LARGE}, 504)])
@pytest.mark.parametrize("scope", ["Namespaced", "Cluster"])
def test_get(one_of_each, scope, query, expected):
    """GET-01, GET-02: RunTestGet, TestStoreGet, testGetFound, testGetNotFound"""
    pods, before, now = one_of_each[scope]
    versions = {"previous": before["metadata"]["resourceVersion"], "current": now["metadata"]["resourceVersion"],
                "latest": pods.version()}
    query = {name: versions.get(value, value) for name, value in query.items()}
    answer = pods.api.get(pods.path("test-ns", "foo"), **query)
    if expected == 504:
        failure(answer, 504, "Timeout")
    else:
        assert answer.code == 200 and answer.json == now
    missing = pods.api.get(pods.path("test-ns", "non-existing"), **query)
    failure(missing, expected if expected == 504 else 404, "Timeout" if expected == 504 else "NotFound")


def test_list_recursive_prefix(types):
    """
    LIST-02, LIST-10: RunTestGetListRecursivePrefix: a name or namespace finds no other one that begins with it
    """
    pods = types.pods()
    foo, foobar, other = pods.create("foo", "test-ns"), pods.create("foobar", "test-ns"), pods.create("baz", "test-ns2")
    for query in ({"resourceVersion": other["metadata"]["resourceVersion"], "resourceVersionMatch": "Exact"}, {},
                  {"resourceVersion": "0", "resourceVersionMatch": "NotOlderThan"}):
        assert pods.list(**query)["items"] == [foo, foobar, other]
        assert pods.list("test-ns", **query)["items"] == [foo, foobar]
        assert pods.list("test", **query)["items"] == []
        assert pods.list("test-ns", fieldSelector="metadata.name=foo", **query)["items"] == [foo]
        assert pods.list("test-ns", fieldSelector="metadata.name=foobar", **query)["items"] == [foobar]


def test_continuation(types):
    """PAGE-01 to PAGE-03: RunTestListContinuation"""
    pods = types.pods()
    stored = [pods.create("bar", "first"), pods.create("bar", "second"), pods.create("foo", "second")]
    version = stored[-1]["metadata"]["resourceVersion"]
    first = pods.list(limit=1)
    assert first["items"] == stored[:1] and first["metadata"]["continue"]
    second = first["metadata"]["continue"]
    rest = pods.list(**{"continue": second})
    assert rest["items"] == stored[1:] and not rest["metadata"].get("continue")
    page = pods.list(limit=1, **{"continue": second})
    assert page["items"] == stored[1:2] and page["metadata"]["continue"]
    last = pods.list(limit=1, **{"continue": page["metadata"]["continue"]})
    assert last["items"] == stored[2:] and not last["metadata"].get("continue")
    assert {each["metadata"]["resourceVersion"] for each in (first, rest, page, last)} == {version}


def test_pagination_rare_object(stack, types):
    """PAGE-03, PAGE-05: RunTestListPaginationRareObject: the only match is the last of a thousand, and ends the list"""
    pods = types.pods()
    writer = stack.first.api(keep=True)
    for number in range(1000):
        labels = {"rare": "yes"} if number == 999 else {}
        stored = writer.create(pods.resource, pods.pod(f"pod-{number:03}", labels=labels), "ns")
    for query in ({"fieldSelector": "metadata.name=pod-999"}, {"labelSelector": "rare"}):
        document = pods.list(limit=1, **query)
        assert document["items"] == [stored] and not document["metadata"].get("continue")


def test_continuation_with_filter(types):
    """PAGE-04, PAGE-05: RunTestListContinuationWithFilter"""
    pods = types.pods()
    stored = [pods.create(name, namespace)
              for name, namespace in (("foo", "1"), ("bar", "2"), ("foo", "3"), ("foo", "4"))]
    page = pods.list(limit=2, fieldSelector="metadata.name!=bar")
    assert page["items"] == [stored[0],
                             stored[2]] and page["metadata"][
        "continue"] and "remainingItemCount" not in page["metadata"]
    assert page["metadata"]["resourceVersion"] == stored[-1]["metadata"]["resourceVersion"]
    rest = pods.list(limit=2, fieldSelector="metadata.name!=bar", **{"continue": page["metadata"]["continue"]})
    assert rest["items"] == [stored[3]] and not rest["metadata"].get("continue")
    assert rest["metadata"]["resourceVersion"] == stored[-1]["metadata"]["resourceVersion"]


def test_inconsistent_continuation(stack, types):
    """
    EXP-01, PAGE-05: RunTestListInconsistentContinuation; e2e chunking.go, should support continue listing from the last
    key
    """
    pods = types.pods()
    stored = [pods.create("bar", "first"), pods.create("bar", "second"), pods.create("foo", "second")]
    first = pods.list(limit=1)
    assert first["items"] == stored[:1]
    stored[2] = pods.put(pods.pod("foo", "second", labels={"state": "new"}))
    compact(stack)
    status = failure(pods.api.get(pods.path(), resourceVersion="0", **{"continue": first["metadata"]["continue"]}), 410,
                     "Expired")
    assert status["message"] == (
        "The provided continue parameter is too old to display a consistent list result. You can start a new list "
                                 "without the continue parameter, "
        "or use the continue token in this response to retrieve the remainder of the results. Continuing with the "
                                 "provided token results in an "
        "inconsistent list - objects that were created, modified, or deleted between the time the first chunk was "
                                 "returned and now may show up in the list.")
    page = pods.list(limit=1, resourceVersion="0", **{"continue": status["metadata"]["continue"]})
    assert page["items"] == stored[1:2] and page["metadata"]["continue"]
    assert int(page["metadata"]["resourceVersion"]) >= int(stored[2]["metadata"]["resourceVersion"])
    assert page["metadata"]["remainingItemCount"] == 1
    pods.create("later", "third")
    last = pods.list(limit=1, resourceVersion="0", **{"continue": page["metadata"]["continue"]})
    assert last["items"] == stored[2:] and not last["metadata"].get(
        "continue") and "remainingItemCount" not in last["metadata"]
    assert last["metadata"]["resourceVersion"] == page["metadata"]["resourceVersion"]


def test_resource_version_match(stack, types):
    """
    LIST-03, LIST-10: RunTestListResourceVersionMatch: while another client writes, a second list of one version has the
    same objects
    """
    pods = types.pods()
    writer = stack.second.api(keep=True)
    for number in range(12):
        even = str(number % 2 == 0).lower()
        writer.create(pods.resource, pods.pod(f"pod-{number}", labels={"even": even}), "ns")
        query = {"labelSelector": "even=true", "limit": 4}
        for match in (None, "NotOlderThan"):
            more = {"resourceVersion": "1", "resourceVersionMatch": match} if match else {}
            found = pods.list(**query, **more)
            writer.create(pods.resource, pods.pod(f"pod-{number}-{match}".lower(), labels={"even": even}), "ns")
            again = pods.list(**query, resourceVersion=found["metadata"]["resourceVersion"],
                              resourceVersionMatch="Exact")
            assert again == found


def test_paging(types):
    """PAGE-02, PAGE-05: RunTestListPaging: an object that is created between pages is in no later page"""
    pods = types.pods()
    for number in range(4):
        pods.create(f"test-{number}", "paging")
    found, query, calls = [], {}, 0
    while calls == 0 or query["continue"]:
        calls += 1
        page = pods.list(limit=1, **query)
        found += names(page)
        if calls == 2:
            pods.create("test-5", "paging")
        query = {"continue": page["metadata"].get("continue")}
    assert calls == 4 and found == [f"paging/test-{number}" for number in range(4)]


# RunTestNamespaceScopedList.  A pod is name/namespace or name/namespace/node; the node is selected by its label.
SCOPED_LISTS = {
    "no namespace, no selector": (None, {}, "foo1/ns1 foo2/ns2", "foo1/ns1 foo2/ns2"),
    "no namespace, metadata.namespace": (None, {"f": "metadata.namespace=ns1"}, "foo1/ns1 foo1/ns2", "foo1/ns1"),
    "no namespace, node": (None, {"l": "node=bar1"}, "foo1/ns1/bar1 foo2/ns2/bar2", "foo1/ns1"),
    "no namespace, node to filter out": (None, {"l": "node!=bar1"}, "foo1/ns1/bar1 foo2/ns2/bar2", "foo2/ns2"),
    "namespace, no selector": ("ns1", {}, "foo1/ns1 foo1/ns2 foo2/ns1", "foo1/ns1 foo2/ns1"),
    "namespace, matched metadata.namespace": ("ns1", {"f": "metadata.namespace=ns1"}, "foo1/ns1 foo1/ns2", "foo1/ns1"),
    "namespace, non-matched metadata.namespace": ("ns1", {"f": "metadata.namespace=ns2"},
                                                  "foo1/ns1 foo1/ns2 foo2/ns1 foo2/ns2", ""),
    "namespace, node": ("ns1", {"l": "node=bar2"}, "foo1/ns1/bar1 foo1/ns2/bar2 foo2/ns1/bar2", "foo2/ns1"),
    "namespace, node to filter out": ("ns2", {"l": "node!=bar1"}, "foo1/ns1 foo1/ns2 foo3/ns2/bar1 foo2/ns2/bar2",
                                      "foo1/ns2 foo2/ns2"),
    "no namespace, metadata.name": (None, {"f": "metadata.name=foo1"}, "foo1/ns1 foo1/ns2 foo2/ns1",
                                    "foo1/ns1 foo1/ns2"),
    "no namespace, metadata.name and metadata.namespace":
        (None, {"f": "metadata.name=foo1,metadata.namespace=ns1"}, "foo1/ns1 foo2/ns1 foo1/ns2", "foo1/ns1"),
    "no namespace, metadata.name and node": (None, {"f": "metadata.name=foo1", "l": "node=bar1"},
                                             "foo1/ns1/bar1 foo1/ns2 foo2/ns1/bar1", "foo1/ns1"),
    "no namespace, metadata.name, node to filter out":
        (None, {"f": "metadata.name=foo1", "l": "node!=bar1"},
         "foo1/ns1 foo2/ns1 foo1/ns2/bar1 foo2/ns2/bar1 foo1/ns3/bar2 foo2/ns3/bar2", "foo1/ns1 foo1/ns3"),
    "namespace, metadata.name": ("ns1", {"f": "metadata.name=foo1"}, "foo1/ns1 foo2/ns1 foo1/ns2 foo2/ns2", "foo1/ns1"),
    "namespace, metadata.name and metadata.namespace":
        ("ns1", {"f": "metadata.name=foo1,metadata.namespace=ns1"}, "foo1/ns1 foo2/ns1 foo1/ns2 foo2/ns2", "foo1/ns1"),
    "namespace, metadata.name, metadata.namespace and node":
        ("ns2", {"f": "metadata.name=foo2,metadata.namespace=ns2", "l": "node=bar1"},
         "foo1/ns1 foo2/ns1 foo1/ns2 foo2/ns2/bar1 foo1/ns3/bar1 foo2/ns3/bar1", "foo2/ns2"),
    "namespace, metadata.name, metadata.namespace, node to filter out":
        ("ns2", {"f": "metadata.name=foo1,metadata.namespace=ns2", "l": "node!=bar2"},
         "foo1/ns1 foo2/ns1 foo1/ns2/bar1 foo2/ns2/bar2 foo1/ns3/bar2", "foo1/ns2"),
}


@pytest.mark.parametrize("namespace, selectors, present, expected", SCOPED_LISTS.values(), ids=SCOPED_LISTS)
def test_namespace_scoped_list(types, namespace, selectors, present, expected):
    """SEL-01, SEL-10, SEL-12, LIST-02: RunTestNamespaceScopedList, TestStoreList"""
    pods = types.pods()
    for each in present.split():
        name, where, *node = each.split("/")
        pods.create(name, where, node=node[0] if node else None)
    query = {{"f": "fieldSelector", "l": "labelSelector"}[key]: value for key, value in selectors.items()}
    wanted = sorted(f"{where}/{name}" for name, where in (each.split("/") for each in expected.split()))
    assert names(pods.list(namespace, **query)) == wanted
    for limit in (1, 2):
        found, more = [], {}
        while more == {} or more["continue"]:
            page = pods.list(namespace, limit=limit, **query, **more)
            found += names(page)
            more = {"continue": page["metadata"].get("continue")}
        assert found == wanted


def test_compact_revision(stack, types):
    """LIST-13, EXP-01, RV-03: RunTestCompactRevision"""
    pods = types.pods()
    pods.create("foo", "ns")
    version = pods.version()
    exact = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
    assert names(pods.list(**exact)) == ["ns/foo"]
    pods.create("bar", "ns")
    assert names(pods.list(**exact)) == ["ns/foo"]
    compact(stack)
    status = failure(pods.api.get(pods.path(), **exact), 410, "Expired")
    assert status["message"] == "The resourceVersion for the provided list is too old."
    assert names(pods.list(resourceVersion=version)) == ["ns/bar", "ns/foo"]
    assert names(pods.list(resourceVersion=pods.version(), resourceVersionMatch="Exact")) == ["ns/bar", "ns/foo"]
