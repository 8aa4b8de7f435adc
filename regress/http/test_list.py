"""Lists: order, versions, pages, selectors (conformance 9.2 to 9.4, 10)."""

import base64
import json

import pytest

from client import CPOLR, POLR, failure, path_of, report, until


@pytest.fixture
def many(api, ns):
    """Thirty reports in three namespaces; a label of the test tells them from the reports of other tests."""
    for number in range(30):
        api.create(POLR, report(f"r{number:02}", labels={"test": ns, "number": str(number), "odd": str(number % 2)}),
                   f"{ns}-{number % 3}")
    return {"labelSelector": f"test={ns}"}


def keys(document):
    return [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in document["items"]]


def test_empty(api, ns):
    """LIST-01, LIST-04, RV-03"""
    document = api.get(path_of(POLR, ns)).json
    assert document["items"] == [] and document["kind"] == "PolicyReportList" and document[
        "apiVersion"] == "wgpolicyk8s.io/v1alpha2"
    assert int(document["metadata"]["resourceVersion"]) > 0
    assert not document["metadata"].get("continue")


def test_order(api, many, ns):
    """LIST-01, LIST-02"""
    document = api.get(path_of(POLR), **many).json
    found = keys(document)
    assert len(found) == 30 and found == sorted(found)
    assert all(item["kind"] == "PolicyReport" and item["apiVersion"] == "wgpolicyk8s.io/v1alpha2"
               for item in document["items"])
    newest = max(int(item["metadata"]["resourceVersion"]) for item in document["items"])
    assert int(document["metadata"]["resourceVersion"]) >= newest


def test_byte_order(api, ns):
    """LIST-02: names are sorted by bytes, not by the rules of a language"""
    names = ["a", "a-b", "a.b", "a0", "ab", "b", "0", "a--b"]
    for name in names:
        api.create(POLR, report(name), ns)
    assert api.names(POLR, ns) == sorted(names)


def test_pages(api, many, ns):
    """
    PAGE-01 to PAGE-05: pages of a changing list; e2e chunking.go, should return chunks of results for list
    calls
    """
    path = path_of(POLR, ns + "-0")
    first = api.get(path, limit=4).json
    expected = api.names(POLR, ns + "-0")
    assert len(first["items"]) == 4 and first["metadata"]["remainingItemCount"] == 6
    token = json.loads(base64.urlsafe_b64decode(first["metadata"]["continue"] + "=="))
    assert token["v"] == "meta.k8s.io/v1" and str(token["rv"]) == first["metadata"]["resourceVersion"] and token[
        "start"].endswith("\0")
    # The pages show one version: changes between them do not appear.
    api.delete(path + "/" + expected[6])
    api.create(POLR, report("r99", labels={"test": ns}), ns + "-0")
    api.patch(path + "/" + expected[8], {"metadata": {"labels": {"changed": "yes"}}})
    for limits in ([4, 4], [1, 2, 3], [5, 1], [6], [7]):
        names, page = [item["metadata"]["name"] for item in first["items"]], first
        for limit in limits:
            page = api.get(path, limit=limit, **{"continue": page["metadata"]["continue"]}).json
            assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
            assert not any("changed" in item["metadata"]["labels"] for item in page["items"])
            names += [item["metadata"]["name"] for item in page["items"]]
            left = len(expected) - len(names)
            assert len(page["items"]) == limit or left == 0
            assert page["metadata"].get("remainingItemCount") == (left
                or None) and bool(page["metadata"].get("continue")) is (left > 0)
        assert names == expected


def test_pages_with_selector(api, many):
    """PAGE-04, PAGE-05"""
    found, page = [], None
    while page is None or page["metadata"].get("continue"):
        more = {"continue": page["metadata"]["continue"]} if page else {}
        page = api.get(path_of(POLR), limit=4, labelSelector=many["labelSelector"] + ",odd=1", **more).json
        assert "remainingItemCount" not in page["metadata"]
        if page["metadata"].get("continue"):
            assert len(page["items"]) == 4
        found += keys(page)
    assert len(found) == 15 and found == sorted(found)


def test_pages_through_another_proxy(stack, many, ns):
    """PAGE-02, LC-02: any proxy continues a list of any other"""
    apis = [stack.first.api(), stack.second.api()]
    found, token, turn = [], None, 0
    while token is not None or turn == 0:
        page = apis[turn % 2].get(path_of(POLR), limit=7, **many, **({"continue": token} if token else {})).json
        found += keys(page)
        token = page["metadata"].get("continue") or None
        turn += 1
    assert turn == 5 and len(found) == 30 and found == sorted(found)


def test_cluster_pages(api, ns):
    """PAGE-05"""
    for number in range(5):
        api.create(CPOLR, report(f"{ns}-{number}", resource=CPOLR, labels={"test": ns}))
    page = api.get(path_of(CPOLR), limit=3, labelSelector=f"test={ns}").json
    rest = api.get(path_of(CPOLR), limit=3, labelSelector=f"test={ns}",
                   **{"continue": page["metadata"]["continue"]}).json
    assert [item["metadata"]["name"] for item in page["items"] + rest["items"]] == [f"{ns}-{n}" for n in range(5)]
    api.delete(path_of(CPOLR), labelSelector=f"test={ns}")


@pytest.mark.parametrize("token", [
    {"v": "meta.k8s.io/v1", "rv": 0, "start": "a\0"}, {"v": "meta.k8s.io/v1", "rv": 5, "start": ""},
                                   {"v": "v9", "rv": 5, "start": "a\0"},
    {"v": "meta.k8s.io/v1", "rv": 5, "start": "../a\0"}])
def test_bad_tokens(api, ns, token):
    """PAGE-06"""
    text = base64.urlsafe_b64encode(json.dumps(token).encode()).decode().rstrip("=")
    failure(api.get(path_of(POLR, ns), **{"continue": text}), 400, "BadRequest")


def test_continue_with_version(api, many, ns):
    """PAGE-06"""
    page = api.get(path_of(POLR, ns + "-0"), limit=1).json
    status = failure(api.get(path_of(POLR, ns + "-0"), resourceVersion=page["metadata"]["resourceVersion"],
                             **{"continue": page["metadata"]["continue"]}), 400, "BadRequest")
    assert status["message"] == "specifying resource version is not allowed when using continue"
    assert api.get(path_of(POLR, ns + "-0"), resourceVersion="0",
                   **{"continue": page["metadata"]["continue"]}).code == 200


def test_inconsistent_continue(api, many, ns):
    """EXP-01: the token in a 410 continues at the current version"""
    expected = api.names(POLR, ns + "-0")
    text = base64.urlsafe_b64encode(
                                    json.dumps({"v": "meta.k8s.io/v1", "rv": -1,
                                                "start": expected[3] + "\0"}).encode()).decode().rstrip("=")
    page = api.get(path_of(POLR, ns + "-0"), **{"continue": text})
    assert page.code == 200 and [item["metadata"]["name"] for item in page.json["items"]] == expected[4:]
    assert int(page.json["metadata"]["resourceVersion"]) > 0


def test_versions_below_the_floor(api, ns):
    """EXP-01, LIST-13, W-50"""
    path = path_of(POLR, ns)
    text = base64.urlsafe_b64encode(
                                    json.dumps({"v": "meta.k8s.io/v1", "rv": 1,
                                                "start": "a\0"}).encode()).decode().rstrip("=")
    status = failure(api.get(path, **{"continue": text}), 410, "Expired")
    assert status["message"].startswith("The provided continue parameter is too old to display a consistent list "
                                        "result.")
    token = status["metadata"]["continue"]
    assert json.loads(base64.urlsafe_b64decode(token + "=="))["rv"] == -1
    assert api.get(path, **{"continue": token}).code == 200
    status = failure(api.get(path, resourceVersion="1", resourceVersionMatch="Exact"), 410, "Expired")
    assert status["message"] == "The resourceVersion for the provided list is too old."


def test_versions_of_a_list(api, ns):
    """LIST-10, LIST-12"""
    path = path_of(POLR, ns)
    api.create(POLR, report("r1"), ns)
    old = api.get(path).json["metadata"]["resourceVersion"]
    api.create(POLR, report("r2"), ns)
    api.delete(path + "/r1")
    assert api.names(POLR, ns, resourceVersion=old, resourceVersionMatch="Exact") == ["r1"]
    exact = api.get(path, resourceVersion=old, resourceVersionMatch="Exact").json
    assert exact["metadata"]["resourceVersion"] == old
    assert api.names(POLR, ns, resourceVersion=old, limit=10) == ["r1"]
    assert api.names(POLR, ns, resourceVersion=old, resourceVersionMatch="NotOlderThan") == ["r2"]
    assert api.names(POLR, ns, resourceVersion=old) == ["r2"]
    assert api.names(POLR, ns, resourceVersion="0") == ["r2"]
    assert api.names(POLR, ns, resourceVersion="0", resourceVersionMatch="NotOlderThan", limit=500) == ["r2"]
    future = str(int(api.get(path).json["metadata"]["resourceVersion"]) + 10 ** 12)
    status = failure(api.get(path, resourceVersion=future), 504, "Timeout")
    assert status["message"].startswith(f"Timeout: Too large resource version: {future}, current: ")
    assert status["details"]["causes"] == [{"reason": "ResourceVersionTooLarge",
                                            "message": "Too large resource version"}]
    assert status["details"]["retryAfterSeconds"] == 1


@pytest.mark.parametrize("selector, expected", [
    ("a=1", "x"), ("a==1", "x"), ("a!=1", "yzv"), ("a", "xy"), ("!a", "zv"), ("a in (1, 2)", "xy"), ("a in (2),b", "y"),
    ("a notin (1)", "yzv"), ("a notin (1,2)", "zv"), ("n>5", "y"), ("n<5", "x"), ("n>10", ""), ("example.com/k=v", "z"),
    ("e=", "z"), ("e", "z"), ("a=1,a=2", ""), ("a,b", "y"), (" a  in ( 1 ) ", "x"), ("in=1", "v"),
                                                ("e in ()", "z"), ("a=1,!b", "x"),
    ("", "xyzv")])
def test_label_selectors(api, ns, selector, expected):
    """SEL-01, SEL-03"""
    for name, labels in (("x", {"a": "1", "n": "3"}), ("y", {"a": "2", "b": "1", "n": "10"}),
                         ("z", {"example.com/k": "v", "e": "", "n": "x"}),
                         ("v", {"in": "1"})):
        api.create(POLR, report(name, labels=labels), ns)
    assert sorted(api.names(POLR, ns, labelSelector=selector)) == sorted(expected)


@pytest.mark.parametrize("selector", ["a in", "-a=1", "a=b c", "a in (1", "a/b/c", "a=" + "x" * 64, "a>x", "=1",
                                      "a,,b", "a in (1,"])
def test_bad_label_selectors(api, ns, selector):
    """SEL-02"""
    failure(api.get(path_of(POLR, ns), labelSelector=selector), 400, "BadRequest")


def test_field_selectors(api, ns):
    """SEL-10, SEL-12"""
    for name in ("x", "y", "z"):
        api.create(POLR, report(name), ns)
    api.create(POLR, report("x"), ns + "-b")
    assert api.names(POLR, ns, fieldSelector="metadata.name=x") == ["x"]
    assert api.names(POLR, ns, fieldSelector="metadata.name!=x") == ["y", "z"]
    assert api.names(POLR, ns, fieldSelector="metadata.name==x,metadata.namespace=" + ns) == ["x"]
    assert api.names(POLR, ns, fieldSelector="metadata.namespace=other") == []
    assert api.names(POLR, fieldSelector=f"metadata.name=x,metadata.namespace={ns}-b") == ["x"]
    assert api.names(POLR, ns, fieldSelector="metadata.name=nothing") == []
    status = failure(api.get(path_of(POLR, ns), fieldSelector="spec.x=1"), 400, "BadRequest")
    assert "field label not supported: spec.x" in status["message"]


def test_a_list_and_a_get_agree(api, ns):
    """MODEL-02, INF-03: TestNonEmptyList: a list and a get have the same object"""
    stored = api.create(POLR, report("r1", labels={"a": "1"}), ns)
    assert api.get(path_of(POLR, ns)).json["items"] == [stored] == [api.get(path_of(POLR, ns, "r1")).json]


@pytest.mark.parametrize("namespace", [None, "", "other"])
@pytest.mark.parametrize("selected", [False, True])
def test_namespace_as_a_parameter(api, ns, namespace, selected):
    """
    LIST-02, REQ-03, SEL-01, SEL-10: TestList: the path gives the namespace, a parameter does not; selectors work in one
    namespace and in all
    """
    for where in ("other", "default"):
        for name in ("foo", "bar"):
            api.create(POLR, report(name, labels={"a": name, "test": ns}), f"{ns}-{where}")
    query = {"labelSelector": f"test={ns}"}
    if selected:
        query = {"labelSelector": f"test={ns},a=foo", "fieldSelector": "metadata.name=foo"}
    if namespace is not None:
        query["namespace"] = namespace and f"{ns}-{namespace}"
    names = ["foo"] if selected else ["bar", "foo"]
    for where in ("default", "other"):
        assert keys(api.get(path_of(POLR, f"{ns}-{where}"), **query).json) == [(f"{ns}-{where}", name)
            for name in names]
    assert keys(api.get(path_of(POLR), **query).json) == [(f"{ns}-{where}", name)
        for where in ("default", "other") for name in names]


def test_list_while_writing(stack, ns):
    """LIST-03: a list of several pieces has one version"""
    import threading

    api, other = stack.first.api(), stack.second.api(keep=True)
    for number in range(40):
        api.create(POLR, report(f"r{number:02}", labels={"turn": "0"}), ns)
    done = threading.Event()

    def write():
        turn = 0
        while not done.is_set():
            turn += 1
            for number in range(0, 40, 7):
                other.patch(path_of(POLR, ns, f"r{number:02}"), {"metadata": {"labels": {"turn": str(turn)}}})

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(15):
            document = api.get(path_of(POLR, ns)).json
            version = int(document["metadata"]["resourceVersion"])
            assert len(document["items"]) == 40
            assert max(int(item["metadata"]["resourceVersion"]) for item in document["items"]) <= version
            exact = api.get(path_of(POLR, ns), resourceVersion=str(version), resourceVersionMatch="Exact").json
            assert exact["items"] == document["items"]
    finally:
        done.set()
        writer.join()


def test_owner_writes_are_listed(stack, api, ns):
    """What the owner writes by SQL is listed at once"""
    document = json.dumps(report("by-sql", ns))
    stack.database.psql(f"SELECT kube_reports.create_report('{stack.cluster}', $doc${document}$doc$)")
    assert api.names(POLR, ns) == ["by-sql"]
    stack.database.psql(f"DELETE FROM kube_reports.object WHERE namespace = '{ns}'")
    until(lambda: api.names(POLR, ns) == [], what="the deletion")
