"""
Upstream's handler suites, as requests: routes, decoding, field validation, order of checks, negotiation (conformance 6
to 8, 11, 13, 24.3).
"""

import copy
import itertools
import json
import time

import pytest

from client import (APPLY, JSON_PATCH, MERGE, PARTIAL, PARTIAL_LIST, POLR, TABLE, failure, path_of, report, status_of,
                    until)

PROTOBUF = "application/vnd.kubernetes.protobuf"


@pytest.fixture(scope="module")
def pods(types):
    return types.pods()


@pytest.fixture(scope="module")
def nodes(types):
    return types.pods("Cluster")


# ---- bytes ----

def test_bodies_end_in_one_newline(pods, ns):
    """MODEL-03, MODEL-02: every JSON body and every frame ends in exactly one newline; equal state gives equal bytes"""
    path = pods.path(ns)
    answers = [pods.api.post(path, pods.pod("a")), pods.api.get(path), pods.api.get(path + "/a"),
               pods.api.get(path, accept=TABLE),
               pods.api.get(path, accept=PARTIAL_LIST), pods.api.get(path + "/a", accept=PARTIAL),
               pods.api.patch(path + "/a", {"spec": {"nodeName": "n"}}),
               pods.api.get(path, limit=1), pods.api.get("/apis"), pods.api.get(f"/apis/{pods.head['apiVersion']}"),
               pods.api.get(path + "/none"),
               pods.api.post(path, b"{"), pods.api.delete(path + "/a"), pods.api.delete(path)]
    for answer in answers:
        assert answer.body.endswith(b"}\n") and not answer.body.endswith(b"\n\n"), answer
        assert answer.headers["Content-Length"] == str(len(answer.body))
    for each in (path, path + "/b"):
        pods.api.post(path, pods.pod("b", labels={"z": "1", "a": "2"}))
        assert pods.api.get(each).body == pods.api.get(each).body


def test_shapes(pods, ns):
    """MODEL-01: stored objects begin with apiVersion, as with the CRD server; all other answers begin with kind"""
    path = pods.path(ns)
    pods.api.post(path, pods.pod("a"))
    pods.create("b", ns)
    for answer in (pods.api.get(path + "/a"), pods.api.get(path)):
        assert list(answer.json)[0] == "apiVersion"
    for answer in (pods.api.get(path + "/a", accept=PARTIAL), pods.api.get(path, accept=PARTIAL_LIST),
                   pods.api.get(path, accept=TABLE),
                   pods.api.get(path + "/none"), pods.api.delete(path + "/b"), pods.api.get("/apis"),
                   pods.api.get(f"/apis/{pods.head['apiVersion']}")):
        assert list(answer.json)[0] == "kind", answer


TEXTS = ["<&>", "\u2028\u2029", "\x7f", '"\\/', "\b\f\n\r\t", "\x01\x1f", "é€𝄞", "\ufeff", "\ufffd", "", " ",
         "a" * 70000, "\ud7ff\ue000"]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_texts(pods, ns, text):
    """MODEL-04: every form of an answer has the text that was written, whether the request escaped it or not"""
    for name, ascii_only in (("a", True), ("b", False)):
        body = json.dumps({**pods.pod(name), "spec": {"nodeName": text}}, ensure_ascii=ascii_only)
        assert pods.api.post(pods.path(ns), body).json["spec"]["nodeName"] == text
        assert pods.api.get(pods.path(ns, name)).json["spec"]["nodeName"] == text
        assert pods.api.get(pods.path(ns),
                            fieldSelector=f"metadata.name={name}").json["items"][0]["spec"]["nodeName"] == text
        assert pods.api.patch(pods.path(ns, name),
                              {"metadata": {"annotations": {"text": text}}}).json["metadata"][
            "annotations"]["text"] == text


def test_numbers(types, ns):
    """
    MODEL-02, REQ-08: TestPreserveInt, TestNumberConversion: integers come back as integers, through a patch as well
    """
    free = types.pods(schema={"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    numbers = {"zero": 0, "one": 1, "negative": -1, "large": 9007199254740993, "max": 2 ** 63 - 1, "min": -(2 ** 63),
               "half": 0.5, "float": 1e300}
    body = {**free.pod("a"), "spec": numbers}
    stored = free.api.create(free.resource, body, ns)
    path = free.path(ns, "a")
    merged = free.api.patch(path, {"spec": {"new": 1}}).json
    copied = free.api.patch(path, [{"op": "copy", "from": "/spec", "path": "/copy"},
                                   {"op": "remove", "path": "/copy/new"}], kind=JSON_PATCH).json
    assert merged["spec"].pop("new") == 1
    for found in (stored["spec"], merged["spec"], copied["copy"], free.api.get(path).json["copy"]):
        assert found == numbers
        for key, value in numbers.items():
            assert type(found[key]) is type(value), key
    assert b'"large":9007199254740993' in free.api.get(path).body


# ---- routes ----

def routes(pods):
    group, version, plural = pods.resource.split("/")
    everywhere, here = f"/apis/{group}/{version}/{plural}", f"/apis/{group}/{version}/namespaces/ns/{plural}"
    return {"everywhere": everywhere, "here": here, "one": here + "/none", "sub": here + "/none/nothing",
            "status": here + "/none/status",
            "deep": here + "/none/a/b", "unknown": f"/apis/{group}/{version}/nothing",
            "unknown here": f"/apis/{group}/{version}/namespaces/ns/nothing",
            "unknown one": f"/apis/{group}/{version}/namespaces/ns/nothing/a",
            "unknown everywhere's one": f"/apis/{group}/{version}/nothing/a",
            "unknown watched": f"/apis/{group}/{version}/watch/nothing",
            "unknown one watched": f"/apis/{group}/{version}/watch/nothing/a",
            "unknown proxied": f"/apis/{group}/{version}/proxy/nothing/a",
            "one watched": f"/apis/{group}/{version}/watch/namespaces/ns/{plural}/none",
            "one watched by parameter": here + "/none?watch=true",
            "watch of nothing": f"/apis/{group}/{version}/watch/",
            "one proxied": f"/apis/{group}/{version}/proxy/namespaces/ns/{plural}/a"}


# Method, path -> code
ROUTES = [
    ("GET", "everywhere", 200), ("GET", "here", 200), ("GET", "one", 404), ("GET", "sub", 404), ("GET", "status", 404),
          ("GET", "deep", 404),
    ("GET", "unknown", 404), ("GET", "unknown here", 404), ("GET", "unknown one", 404), ("POST", "unknown here", 404),
          ("DELETE", "unknown", 404),
    ("POST", "one", 405), ("PUT", "here", 405), ("PATCH", "here", 405), ("POST", "everywhere", 404),
          ("PUT", "everywhere", 404), ("PATCH", "everywhere", 404),
    ("DELETE", "everywhere", 404), ("DELETE", "sub", 404), ("PUT", "sub", 404), ("OPTIONS", "here", 405),
          ("POST", "unknown", 404),
    ("GET", "unknown everywhere's one", 404), ("PUT", "unknown one", 404), ("DELETE", "unknown one", 404),
          ("GET", "unknown watched", 404), ("GET", "unknown one watched", 404),
    ("GET", "unknown proxied", 404), ("POST", "one watched", 405), ("POST", "one watched by parameter", 405),
          ("PUT", "deep", 404), ("DELETE", "deep", 404),
    ("GET", "watch of nothing", 404), ("GET", "one proxied", 405), ("DELETE", "one proxied", 405),
]


@pytest.mark.parametrize("method, where, code", ROUTES)
def test_routes(pods, method, where, code):
    """
    ERR-04, ERR-20 to ERR-22, ERR-24, CRE-13: TestNotFound, TestUnimplementedRESTStorage: an error is a Status, never
    text; such a request creates and deletes nothing
    """
    pods.api.post(pods.path("kept"), pods.pod("kept"))
    body = {"POST": pods.pod("a"), "PUT": pods.pod("none"), "PATCH": {}}.get(method)
    answer = pods.api.request(method, routes(pods)[where], body,
                              headers={"Content-Type": MERGE} if method == "PATCH" else None)
    if code == 200:
        assert answer.code == 200
        return
    status = status_of(answer)
    assert answer.code == code, answer
    assert status["reason"] == {404: "NotFound", 405: "MethodNotAllowed"}[answer.code]
    if answer.code == 405:
        # A method without a verb gets the message of the resource, any other method that of the path.
        group, _, plural = pods.resource.split("/")
        verb = "proxy" if where == "one proxied" else "" if method == "OPTIONS" or where == "one watched" else None
        assert status["message"] == (f'{verb} is not supported on resources of kind "{plural}.{group}"'
                                     if verb is not None else
                                     "the server does not allow this method on the requested resource")
    assert [item["metadata"]["name"] for item in pods.list()["items"]
            if item["metadata"]["namespace"] in ("kept", "ns")] == ["kept"]


def test_scope(pods, nodes):
    """
    ERR-21, ERR-23, ERR-20: TestHandlerScope, TestNotFound: a cluster resource has no path with a namespace; an object
    of a namespaced resource has no path without one
    """
    group, version, plural = nodes.resource.split("/")
    nodes.api.post(nodes.path(), nodes.pod("a"))
    for method, path in itertools.product(("GET", "DELETE", "POST", "PUT"),
                                          (f"/apis/{group}/{version}/namespaces/x/{plural}",
                                           f"/apis/{group}/{version}/namespaces/x/{plural}/a")):
        status = failure(nodes.api.request(method, path, nodes.pod("b") if method in ("POST", "PUT") else None), 404,
                         "NotFound")
        assert status["message"] == "the server could not find the requested resource" and status["details"] == {}
    for method in ("PUT", "PATCH"):
        failure(nodes.api.request(method, nodes.path(), {}, headers={"Content-Type": MERGE}), 405, "MethodNotAllowed")
    for method, more in itertools.product(("GET", "DELETE", "PUT"), ("/baz", "/baz/c")):
        failure(nodes.api.request(method, nodes.path(name="a") + more, nodes.pod("a") if method == "PUT" else None),
                404, "NotFound")
    failure(pods.api.get(pods.path() + "/a"), 404, "NotFound")
    assert nodes.api.get(nodes.path(name="a")).code == 200


@pytest.mark.parametrize("name", ["%2e", "%2e%2e", "a%2fb", "a%25b", "%00", "a%0ab", "%ff"])
def test_path_segments(pods, name):
    """REQ-07, TR-10: a name that cannot be a segment of a path is refused in a URL by every method, and in objects"""
    for method, body in (("GET", None), ("DELETE", None), ("PUT", pods.pod("a")), ("PATCH", {})):
        answer = pods.api.request(method, pods.path("ns") + "/" + name, body,
                                  headers={"Content-Type": MERGE} if method == "PATCH" else None)
        assert 400 <= answer.code < 500, answer
        status_of(answer)
    for name in (".", "..", "a/b", "a%b"):
        answer = pods.api.post(pods.path("ns"), pods.pod(name))
        failure(answer, 422, "Invalid")


# ---- create and decode ----

def test_order_of_checks(pods, ns):
    """CRE-01, PAT-02: a request has several mistakes, and the answer names the first one in the order of checks"""
    good, bad = json.dumps(pods.pod("a")), json.dumps(pods.pod("A"))
    for accept, kind, body, query, code in (
            ("image/png", "text/plain", "{", {"dryRun": "x"}, 406), ("*/*", "text/plain", "{", {"dryRun": "x"}, 415),
            ("*/*", "application/json", "{", {"dryRun": "x"}, 422), ("*/*", "application/json", "{", {}, 400),
                                            ("*/*", "application/json", bad, {}, 422),
            ("*/*", "application/json", good, {}, 201), ("*/*", "application/json", good, {}, 409)):
        answer = pods.api.request("POST", pods.path(ns), body,
                                  headers={"Accept": accept, "Content-Type": kind}, **query)
        assert answer.code == code, (code, answer)
    for accept, kind, body, query, code in (
            ("image/png", "text/plain", "{", {"dryRun": "x"}, 415), ("image/png", MERGE, "{", {"dryRun": "x"}, 406),
                                            ("*/*", MERGE, "{", {"dryRun": "x"}, 422),
            ("*/*", MERGE, "{", {}, 400), ("*/*", MERGE, '{"metadata":{"labels":{"a":"-"}}}', {}, 422),
                                            ("*/*", MERGE, '{"metadata":{"labels":{"a":"b"}}}', {}, 200)):
        answer = pods.api.request("PATCH", pods.path(ns, "a"), body,
                                  headers={"Accept": accept, "Content-Type": kind}, **query)
        assert answer.code == code, (code, answer)


def test_too_large(pods, ns):
    """
    REQ-01, TR-04: TestLimitedReadBody, TestLimits: a body above the limit is not read, so that the answer names no
    other mistake of the request
    """
    body = json.dumps({**pods.pod("A"), "spec": {"nodeName": "x" * 3145728}})
    for method, path, kind in (("POST", pods.path(ns), "application/json"),
                               ("PUT", pods.path(ns, "a"), "application/json"), ("PATCH", pods.path(ns, "a"), MERGE),
                               ("PATCH", pods.path(ns, "a"), JSON_PATCH),
                               ("DELETE", pods.path(ns, "a"), "application/json"),
                               ("POST", pods.path(ns), "text/plain")):
        status = failure(pods.api.request(method, path, body, headers={"Content-Type": kind}, dryRun="x"), 413,
                         "RequestEntityTooLarge")
        assert status["message"] == "Request entity too large: limit is 3145728"
    fits = json.dumps({**pods.pod("a"), "spec": {"nodeName": ""}})
    fits = fits.replace('"nodeName": ""', '"nodeName": "' + "x" * (3145728 - len(fits)) + '"')
    assert len(fits) == 3145728 and pods.api.post(pods.path(ns), fits).code == 201


@pytest.mark.parametrize("bomb", ["[" * 10001 + "]" * 10001, '{"a":' * 10001 + "1" + "}" * 10001,
                                  "[" * 1572000 + "]" * 1572000, "[" * 3144000],
                         ids=["lists", "maps", "all that fits", "no end"])
def test_nesting(pods, ns, bomb):
    """REQ-08: TestLimits: nesting bombs in a body, in JSON and YAML, each kind of patch and DeleteOptions"""
    pods.create("a", ns)
    document = json.dumps({**pods.pod("b"), "spec": {"x": 0}}).replace('"x": 0', f'"x": {bomb}')
    failure(pods.api.post(pods.path(ns), document), 400, "BadRequest")
    failure(pods.api.request("POST", pods.path(ns), document, headers={"Content-Type": "application/yaml"}), 400,
            "BadRequest")
    failure(pods.api.patch(pods.path(ns, "a"), f'{{"spec":{bomb}}}'), 400, "BadRequest")
    failure(pods.api.patch(pods.path(ns, "a"), f'{{"value":{bomb}}}', kind=APPLY, fieldManager="test"), 400,
            "BadRequest")
    failure(pods.api.patch(pods.path(ns, "a"), f'[{{"op":"add","path":"/spec","value":{bomb}}}]', kind=JSON_PATCH), 400,
            "BadRequest")
    failure(pods.api.delete(pods.path(ns, "a"), f'{{"preconditions":{bomb}}}'), 400, "BadRequest")
    assert pods.api.get(pods.path(ns, "a")).code == 200


@pytest.mark.parametrize("kind", [MERGE, JSON_PATCH])
def test_patch_of_a_missing_object(pods, ns, kind):
    """PAT-03, PAT-07: a patch of a missing object without a uid is 404, with either kind of patch"""
    failure(pods.api.patch(pods.path(ns, "none"), {} if kind == MERGE else [], kind=kind), 404, "NotFound")
    failure(pods.api.patch(pods.path(ns, "none"), {"metadata": {"resourceVersion": "1"}} if kind == MERGE else
                           [{"op": "test", "path": "/metadata/resourceVersion", "value": "1"}], kind=kind), 404,
            "NotFound")


@pytest.mark.parametrize("change, code, text", [
    ({"apiVersion": None}, 400, None), ({"kind": None}, 400, "Object 'Kind' is missing in"),
                                                ({"apiVersion": "other/v1"}, 400,
                                                 "does not match the expected API version"),
    ({"apiVersion": "v1", "kind": "Pod"}, 400, "does not match the expected API version"),
    ({"apiVersion": ""}, 400, None), ({"kind": ""}, 400, "Object 'Kind' is missing in"), ({"kind": 5}, 400, None),
                                                ({"metadata": 5}, 400, None), ({"metadata": None}, 422, None),
    ({"metadata": []}, 400, None),
                                                ({"metadata": {"name": 5}}, 400, "cannot unmarshal number into Go "
                                                 "struct field ObjectMeta.name of type string"),
    ({"metadata": {"name": "a", "labels": {"a": 1}}}, 400, None),
                                                ({"metadata": {"name": "a", "labels": "x"}}, 400, None),
    ({"metadata": {"name": "a", "annotations": {"a": {}}}}, 400, None),
                                                ({"metadata": {"name": "a", "ownerReferences": {}}}, 400, None),
    ({"metadata": {"name": "a", "finalizers": "x"}}, 400, None),
                                                ({"metadata": {"name": "a", "generation": "x"}}, 400, None),
    ({"metadata": {"name": "a", "creationTimestamp": "yesterday"}}, 400, None),
                                                ({"metadata": {"name": "a", "deletionGracePeriodSeconds": "x"}}, 400,
                                                 None),
    ({"metadata": {"name": "a", "creationTimestamp": None, "labels": None, "annotations": None, "finalizers": None,
                   "ownerReferences": None}}, 201, None),
    ({"metadata": {"name": "a", "unknown": 5}}, 201, None), ({"metadata": {}}, 422, "name or generateName is required"),
])
def test_decoding(pods, ns, change, code, text):
    """
    REQ-05, CRE-11, CRE-03: TestCreateChecksDecode, TestCreateChecksAPIVersion,
    TestTransformDecodeErrorEnsuresBadRequestError, TestPostInvalidObjectMeta
    """
    document = {**pods.pod("a"), **change}
    for key, value in change.items():
        if value is None:
            del document[key]
    answer = pods.api.post(pods.path(ns), document)
    assert answer.code == code, answer
    if code != 201:
        status = failure(answer, code, {400: "BadRequest", 422: "Invalid"}[code])
        assert text is None or text in status["message"]
        assert pods.list(ns)["items"] == []


@pytest.mark.parametrize("change, text", [
    ({"apiVersion": "other/v1"}, "does not match the expected API version"),
                                          ({"apiVersion": "v1", "kind": "Pod"},
                                           "does not match the expected API version"),
    ({"kind": ""}, "Object 'Kind' is missing in"), ({"metadata": 5}, None),
                                          ({"metadata": {}}, "was undeterminable: name must be provided"),
    ({"metadata": {"name": "b"}}, "the name of the object (b) does not match the name on the URL (a)")])
def test_decoding_of_updates(pods, ns, change, text):
    """REQ-05, REQ-06: TestUpdateChecksDecode, TestUpdateChecksAPIVersion, TestUpdateRequiresMatchingName"""
    stored = pods.create("a", ns)
    status = failure(pods.api.put(pods.path(ns, "a"), {**stored, **change}), 400, "BadRequest")
    assert text is None or text in status["message"], status
    assert pods.api.get(pods.path(ns, "a")).json == stored


@pytest.mark.parametrize("where, given, code, text", [
    ("ns-a", "ns-a", 201, None), ("ns-a", None, 201, None), ("ns-a", "", 201, None),
    ("ns-a", "ns-b", 400, "the namespace of the provided object does not match the namespace sent on the request")])
def test_namespace_agreement(pods, ns, where, given, code, text):
    """
    REQ-06: TestUpdateAllowsMissingNamespace, TestUpdatePreventsMismatchedNamespace,
    TestUpdateDisallowsMismatchedNamespaceOnError,
    TestNoNamespaceReject: create and update alike
    """
    document = pods.pod(ns)
    if given is not None:
        document["metadata"]["namespace"] = given
    created = pods.api.post(pods.path(where), document)
    assert created.code == code, created
    if code == 400:
        assert status_of(created)["message"] == text
        pods.create(ns, where)
    stored = pods.api.get(pods.path(where, ns)).json
    assert stored["metadata"]["namespace"] == where
    document["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
    document["spec"]["nodeName"] = "x"
    updated = pods.api.put(pods.path(where, ns), document)
    assert updated.code == (200 if code == 201 else 400), updated
    assert pods.api.get(pods.path(where, ns)).json == (updated.json if code == 201 else stored)
    document["metadata"]["name"] = "other"
    document["metadata"]["namespace"] = where
    status = failure(pods.api.put(pods.path(where, ns), document), 400, "BadRequest")
    assert status["message"] == f"the name of the object (other) does not match the name on the URL ({ns})"


@pytest.mark.parametrize("kind, code", [(None, 201), ("application/json", 201), ("application/json;charset=utf-8", 201),
                                        ("application/json; charset=UTF-8", 201),
                                        (PROTOBUF, 415), ("text/plain", 415), ("application/cbor", 415),
                                        ("application/xml", 415), ("json", 415)])
def test_body_types(pods, ns, kind, code):
    """REQ-02: without a Content-Type the body is JSON; parameters are ignored"""
    answer = pods.api.request("POST", pods.path(ns), pods.pod("a"), headers={"Content-Type": kind})
    assert answer.code == code, answer
    if code == 415:
        status = failure(answer, 415, "UnsupportedMediaType")
        assert status["message"].startswith("the body of the request was in an unknown format - accepted media types "
                                            "include: application/json")


@pytest.mark.parametrize("kind", ["application/strategic-merge-patch+json", "application/json", "text/plain",
                                  "application/apply-patch+cbor", ""])
def test_patch_types(pods, ns, kind):
    """
    PAT-01, GC-06, SSA-12: other types are 415, which tells kubectl and the garbage collector to send a merge
    patch
    """
    pods.create("a", ns)
    status = failure(pods.api.patch(pods.path(ns, "a"), {}, kind=kind or None), 415, "UnsupportedMediaType")
    assert status["message"].startswith("the body of the request was in an unknown format - accepted media types "
                                        "include: "
                                        "application/json-patch+json, application/merge-patch+json")


# ---- field validation ----

UNKNOWN = {"unknown": 1, "spec": {"nodeName": "n", "unknown": 2}, "metadata": {"name": "a", "unknown": 3}}


def warned(answer):
    return sorted(json.loads(warning.removeprefix("299 - ")) for warning in answer.warnings)


@pytest.mark.parametrize("method", ["POST", "PUT", "MERGE", "JSON"])
@pytest.mark.parametrize("mode", [None, "Warn", "Ignore", "Strict", "x"])
def test_field_validation(pods, ns, mode, method):
    """
    FV-01, FV-02, MP-02, JP-01, WARN-01, UPD-06: TestFieldValidation, its rows in JSON: unknown and duplicate fields on
    create, replace and patch
    """
    query = {} if mode is None else {"fieldValidation": mode}
    document = copy.deepcopy({**pods.pod("a"), **UNKNOWN})
    if method != "POST":
        document["metadata"]["resourceVersion"] = pods.create("a", ns)["metadata"]["resourceVersion"]
    if method == "MERGE":
        document = {"unknown": 1, "spec": {"nodeName": "n", "unknown": 2}}
    text = json.dumps(document).replace('"nodeName": "n"', '"nodeName": "m", "nodeName": "n"')
    expected = {'duplicate field "spec.nodeName"', 'unknown field "spec.unknown"', 'unknown field "unknown"'}
    if method == "JSON":
        # Two operations on one field are no duplicate.
        text = [{"op": "add", "path": f"/{field}", "value": value}
                for field, value in (("unknown", 1), ("spec/unknown", 2), ("spec/nodeName", "m"),
                                     ("spec/nodeName", "n"))]
        expected.remove('duplicate field "spec.nodeName"')
    path = pods.path(ns) if method == "POST" else pods.path(ns, "a")
    patch = method in ("MERGE", "JSON")
    if patch:
        query["kind"] = {"MERGE": MERGE, "JSON": JSON_PATCH}[method] + "; charset=UTF-8"
    send = {"POST": pods.api.post, "PUT": pods.api.put}.get(method, pods.api.patch)
    answer = send(path, text, **query)
    if mode == "x":
        status = failure(answer, 422, "Invalid")
        assert 'fieldValidation: Unsupported value: "x": supported values: "", "Ignore", "Strict", "Warn"' in status[
            "message"]
        return
    if mode == "Strict":
        # A patch is refused as Invalid, a document as BadRequest.
        status = failure(answer, 422, "Invalid") if patch else failure(answer, 400, "BadRequest")
        told = status["message"].partition("strict decoding error: ")[2].split(", ")
        assert expected <= set(told) and len(told) == len(expected) + (not patch), status
        return
    assert answer.code == (201 if method == "POST" else 200), answer
    assert answer.json["spec"] == {
                                   "nodeName": "n"} and "unknown" not in answer.json and "unknown" not in answer.json[
        "metadata"]
    found = warned(answer)
    if mode == "Ignore":
        assert found == []
    else:
        assert expected <= set(found) and len(found) == len(expected) + (not patch), found


def test_finalizer_warning(pods, ns):
    """CRE-09, WARN-01: a finalizer without a domain gets a warning, in a header that a client can unquote"""
    answer = pods.api.post(pods.path(ns), pods.pod("a", finalizers=["example.com/x"]))
    assert answer.code == 201 and answer.warnings == []
    answer = pods.api.patch(pods.path(ns, "a"),
                            {"metadata": {"finalizers": ["example.com/x", "plain.name", "plain",
                                                         "kubernetes", "orphan"]}})
    assert answer.code == 200 and warned(answer) == [
        'metadata.finalizers: "plain": prefer a domain-qualified finalizer name to avoid accidental conflicts with '
                                                     'other finalizer writers',
        'metadata.finalizers: "plain.name": prefer a domain-qualified finalizer name including a path (/) to avoid '
                                                     'accidental conflicts with other finalizer writers']


# ---- negotiation: TestNegotiate ----

@pytest.mark.parametrize("accept, code", [
    (None, 200), ("", 200), ("*/*", 200), ("application/*", 200), ("application/json", 200),
                                          ("application/json; pretty=1", 200),
    ("unrecognized/stuff,application/json; pretty=1", 200),
                                          ("application/json;as=BOGUS;v=v1beta1;g=meta.k8s.io, application/json", 200),
    ("application/BOGUS, application/json", 200), (PROTOBUF + ",application/json", 200),
                                          (PROTOBUF + ", */*;q=0.5", 200),
    ("application/json;profile=x", 200), ("application", 406), (PROTOBUF, 406), ("text/html", 406),
                                          ("application/json;as=BOGUS;v=v1;g=meta.k8s.io", 406),
    ("application/cbor", 406)])
def test_negotiate(pods, ns, accept, code):
    """NEG-01 to NEG-03, NEG-05: TestNegotiate"""
    answer = pods.api.request("GET", pods.path(ns), headers={"Accept": accept})
    assert answer.code == code, answer
    if code == 406:
        status = failure(answer, 406, "NotAcceptable")
        assert status["message"].startswith("only the following media types are accepted: application/json")
    else:
        assert answer.headers["Content-Type"] == "application/json" and answer.json["kind"].endswith("List")
        assert (b"\n  " in answer.body) is ("pretty" in (accept or ""))


@pytest.mark.parametrize("accept, kind, version", [
    (TABLE, "Table", "meta.k8s.io/v1"), (PARTIAL_LIST, "PartialObjectMetadataList", "meta.k8s.io/v1"),
    ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1", "PartialObjectMetadataList",
     "meta.k8s.io/v1beta1"),
    ("application/json;q=0.1," + TABLE, "Table", "meta.k8s.io/v1"), (TABLE + ";q=0.1,application/json", None, None),
    (PROTOBUF + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1," + PARTIAL_LIST + ",application/json",
     "PartialObjectMetadataList", "meta.k8s.io/v1"),
    ("application/json;as=Table;v=v1alpha1;g=meta.k8s.io,application/json", None, None),
                                                   ("application/json;as=Table;v=v1;g=other,application/json", None,
                                                    None)])
def test_transforms(pods, ns, accept, kind, version):
    """NEG-02, NEG-04, PART-01, PART-03: clauses are tried by q, then by order; an impossible clause is skipped"""
    pods.create("a", ns)
    answer = pods.api.get(pods.path(ns), accept=accept)
    assert answer.code == 200 and answer.headers["Content-Type"] == "application/json"
    assert (answer.json["kind"], answer.json["apiVersion"]) == (kind or pods.head["kind"] + "List",
        version or pods.head["apiVersion"])


ALPHA, BETA = PARTIAL.replace("v=v1", "v=v1alpha1"), PARTIAL.replace("v=v1", "v=v1beta1")
BETA_LIST, JSON = PARTIAL_LIST.replace("v=v1", "v=v1beta1"), "application/json"


# List or object; clauses of Accept; version of the answer ("": the type itself; None: 406).
@pytest.mark.parametrize("of_list, accept, version", [
    (False, [ALPHA], None), (False, [ALPHA, JSON], ""), (False, [BETA, JSON], "v1beta1"), (True, [BETA], None),
                                                      (False, [BETA, PARTIAL, JSON], "v1beta1"),
    (False, [PARTIAL, BETA, JSON], "v1"), (False, [BETA, PARTIAL], "v1beta1"), (False, [PARTIAL, BETA], "v1"),
                                                      (True, [ALPHA, JSON], ""), (True, [BETA_LIST, JSON], "v1beta1"),
    (False, [BETA_LIST], None), (False, [BETA], "v1beta1"), (False, [PARTIAL], "v1"), (True, [BETA_LIST], "v1beta1"),
                                                      (True, [PARTIAL_LIST], "v1")])
def test_partial_metadata(pods, ns, of_list, accept, version):
    """
    NEG-02, NEG-04, PART-01, PART-03: TestGetPartialObjectMetadata: clauses are tried in their order; an object is not
    answered as a list, nor a list as an object
    """
    stored = [pods.create(name, ns, node="n") for name in ("foo1", "foo2")]
    answer = pods.api.get(pods.path(ns) if of_list else pods.path(ns, "foo1"), accept=", ".join(accept))
    if version is None:
        failure(answer, 406, "NotAcceptable")
        return
    expected = stored
    if version:
        expected = [{"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}",
                     "metadata": document["metadata"]} for document in stored]
    if not of_list:
        assert answer.json == expected[0]
        return
    assert (answer.json["kind"], answer.json["apiVersion"]) == (
        ("PartialObjectMetadataList", f"meta.k8s.io/{version}") if version
        else (pods.head["kind"] + "List", pods.head["apiVersion"]))
    assert answer.json["items"] == expected


# ---- watch ----

def test_watch_accept(pods, ns):
    """
    W-05, W-06, NEG-03: TestWatchHTTPAccept, TestWatchRead: JSON or 406; errors before the stream are ordinary answers
    """
    for accept, code in (("application/json", 200), ("application/json;stream=watch", 200), ("*/*", 200),
                         (PROTOBUF + ",application/json", 200),
                         ("application/XYZ", 406), (PROTOBUF, 406), ("application/yaml", 406)):
        with pods.api.watch(pods.path(ns), accept=accept, resourceVersion=pods.version()) as watch:
            assert watch.code == code, accept
            if code == 200:
                assert watch.headers["Content-Type"] == "application/json"
                stored = pods.create("bar", ns)
                changed = pods.api.patch(pods.path(ns, "bar"), {"spec": {"nodeName": "n"}}).json
                pods.delete("bar", ns)
                assert [watch.event(), watch.event()] == [("ADDED", stored), ("MODIFIED", changed)]
                kind, last = watch.event()
                assert kind == "DELETED" and last["metadata"].pop("resourceVersion") > changed["metadata"].pop(
                    "resourceVersion") and last == changed
    for query in ({"resourceVersion": "x"}, {"labelSelector": "a in"}, {"fieldSelector": "x"},
                  {"timeoutSeconds": "x"}, {"limit": "x"}):
        failure(pods.api.get(pods.path(ns), watch="true", **query), 400, "BadRequest")


def test_watch_paths(pods, ns):
    """W-60, W-61, AUTHZ-01: /watch/ before the resource makes the request a watch"""
    pods.create("a", ns)
    group, version, plural = pods.resource.split("/")
    for path in (f"/apis/{group}/{version}/watch/namespaces/{ns}/{plural}",
                 f"/apis/{group}/{version}/watch/namespaces/{ns}/{plural}/a",
                 f"/apis/{group}/{version}/watch/{plural}", pods.path(ns, "a")):
        with pods.api.watch(path, fieldSelector="metadata.name=a", resourceVersion="0") as watch:
            kind, document = watch.event()
            assert kind == "ADDED" and document["metadata"]["name"] == "a"


def test_watch_parameters(pods, ns):
    """W-60, W-10, W-20, W-21: TestWatchParamParsing: version and selectors, in all namespaces and in one"""
    group, version, plural = pods.resource.split("/")
    stored = {(where, name): pods.create(name, f"{ns}-{where}", node=node, annotations={"test": ns})
              for where, name, node in (("other", "foo", "n"), ("other", "bar", "n"), ("else", "foo", "m"),
                                        ("else", "bar", "n"))}
    first = stored["other", "foo"]["metadata"]["resourceVersion"]
    for query, expected in (({"resourceVersion": first}, [("other", "bar"), ("else", "foo"), ("else", "bar")]),
                            ({"resourceVersion": first, "fieldSelector": "metadata.name=bar",
                              "labelSelector": "node=n"}, [("other", "bar"), ("else", "bar")]),
                            ({"resourceVersion": first, "fieldSelector": "metadata.name=foo",
                              "labelSelector": "node=n"}, []),
                            ({"fieldSelector": "metadata.name=foo", "resourceVersion": first}, [("else", "foo")]),
                            ({}, list(stored))):
        for where in (None, "other"):
            path = f"/apis/{group}/{version}/watch/" + (f"namespaces/{ns}-{where}/{plural}" if where else plural)
            wanted = sorted(each for each in expected if where in (None, each[0]))
            found, last, turn = [], False, str(time.monotonic_ns())
            with pods.api.watch(path, **query) as watch:
                # A change after all others, of objects that every selector selects; initial events may have it already.
                for name in ("foo", "bar"):
                    pods.api.patch(pods.path(f"{ns}-other", name), {"metadata": {"annotations": {"turn": turn}}})
                while not last or len(found) < len(wanted):
                    kind, document = watch.event()
                    annotations = document["metadata"].get("annotations", {})
                    last |= annotations.get("turn") == turn
                    if kind == "ADDED" and annotations.get("test") == ns:
                        found.append((document["metadata"]["namespace"].removeprefix(ns + "-"),
                                      document["metadata"]["name"]))
            assert sorted(found) == wanted, (path, query)


@pytest.mark.parametrize("header", ["Upgrade", "keep-alive, Upgrade", "upgrade", "keep-alive"])
def test_watch_upgrade_is_ignored(pods, ns, header):
    """
    W-70, AGG-21: TestWatchProtocolSelection: a request for a WebSocket, or with a part of the headers of one, gets a
    plain watch
    """
    connection = pods.api.connect()
    connection.request("GET", pods.path(ns) + "?watch=true&resourceVersion=" + pods.version(), headers={
        "Connection": header, "Upgrade": "websocket", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version": "13"})
    response = connection.getresponse()
    assert response.status == 200 and response.headers["Content-Type"] == "application/json"
    connection.close()


def test_short_watch(pods, ns):
    """W-04, W-03: a watch does not end before its timeoutSeconds; with 0 it lasts"""
    begun = time.monotonic()
    with pods.api.watch(pods.path(ns), resourceVersion=pods.version(), timeoutSeconds=1) as watch:
        watch.end(20)
    assert time.monotonic() - begun >= 1 and watch.error is None
    with pods.api.watch(pods.path(ns), resourceVersion=pods.version(), timeoutSeconds=0) as lasting:
        begun = time.monotonic()
        while time.monotonic() - begun < 1.5:
            pods.create(f"a{time.monotonic_ns()}", ns)
            assert lasting.event()[0] == "ADDED"


def test_latency(stack, pods, ns):
    """W-32: an event is at another proxy's watcher soon after the write is answered"""
    other = stack.second.api()
    taken = []
    with other.watch(pods.path(ns), resourceVersion=pods.version()) as watch:
        for number in range(20):
            pods.create(f"a{number}", ns)
            begun = time.monotonic()
            watch.event()
            taken.append(time.monotonic() - begun)
    assert sorted(taken)[10] < 1


def test_old_versions(pods, ns):
    """RV-06, EXP-01: a version of a thousand changes ago can be watched and listed"""
    start = pods.create("a", ns)["metadata"]["resourceVersion"]
    api = pods.api
    api.keep = True
    try:
        for number in range(1000):
            assert api.patch(pods.path(ns, "a"), {"spec": {"nodeName": f"n{number}"}}).code == 200
    finally:
        api.keep = False
    with pods.api.watch(pods.path(ns), resourceVersion=start) as watch:
        for number in range(1000):
            kind, document = watch.event()
            assert (kind, document["spec"]["nodeName"]) == ("MODIFIED", f"n{number}")
    assert pods.list(ns, resourceVersion=start, resourceVersionMatch="Exact")["items"][0]["spec"] == {}


# ---- what the aggregator forwards ----

def test_query_as_the_aggregator_sends_it(pods, ns):
    """AGG-12, REQ-03: parameters are sorted, + is a blank, %2C a comma; an encoded slash does not divide a segment"""
    for name in ("a", "b", "c"):
        pods.create(name, ns, labels={"app": name})
    answer = pods.api.get(pods.path(ns) + "?fieldSelector=metadata.name%21%3Dc&labelSelector=app+in+%28a%2Cc%29%2C%21x&"
                          "limit=500&unknown=a%3Bb")
    assert [item["metadata"]["name"] for item in answer.json["items"]] == ["a"]
    assert 400 <= pods.api.get(pods.path(ns) + "/a%2Fb").code < 500


def test_forwarded_headers(pods, ns):
    """AGG-13, AUD-01, REQ-09: the aggregator's headers change nothing; an answer has the Audit-Id, or a new one"""
    headers = {"X-Forwarded-For": "10.0.0.1", "X-Forwarded-Host": "example.com", "X-Forwarded-Proto": "https",
               "X-Forwarded-Uri": "/x", "Kubectl-Command": "kubectl get",
               "Kubectl-Session": "s", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
               "Audit-Id": "b2b52c1e-0000-4000-8000-000000000001"}
    answer = pods.api.request("GET", pods.path(ns), headers=headers)
    assert answer.code == 200 and answer.headers["Audit-Id"] == headers["Audit-Id"]
    assert answer.body == pods.api.get(pods.path(ns)).body
    assert len({pods.api.get(pods.path(ns)).headers["Audit-Id"] for _ in range(5)}) == 5


def test_no_redirects(pods, ns):
    """AGG-15: no answer is a redirect, with or without a slash at the end"""
    for path in ("/", "/apis", "/apis/", "/openapi/v3", "/openapi/v3/", "/openapi/v2/", "/version/", "/readyz/",
                 pods.path(ns), pods.path(ns) + "/",
                 f"/apis/{pods.head['apiVersion']}/", "/apis//x", "//apis",
                 "/openapi/v3/apis/wgpolicyk8s.io/v1alpha2?hash=0"):
        answer = pods.api.get(path)
        assert not 300 <= answer.code < 400 and answer.headers["Location"] is None, (path, answer)


def test_watch_is_not_buffered(pods, ns):
    """AGG-14, AGG-16, W-01: a watch is chunked and never compressed, even if the client accepts gzip"""
    connection = pods.api.connect()
    connection.request("GET", pods.path(ns) + "?watch=true&resourceVersion=" + pods.version(),
                       headers={"Accept-Encoding": "gzip"})
    response = connection.getresponse()
    assert response.status == 200 and response.headers["Transfer-Encoding"] == "chunked"
    assert response.headers["Content-Encoding"] is None and response.headers["Content-Length"] is None
    stored = pods.create("a", ns)
    assert json.loads(response.readline()) == {"type": "ADDED", "object": stored}
    connection.close()


def test_a_stream_without_events(pods, ns):
    """AGG-16: the headers come with a blank; the end of the stream adds nothing"""
    answer = pods.api.get(pods.path(ns), watch="true", resourceVersion=pods.version(), timeoutSeconds="1")
    assert answer.code == 200 and answer.headers["Transfer-Encoding"] == "chunked"
    assert answer.body == b" "


# ---- documents ----

def test_discovery_of_subresources(types):
    """DISC-04, DISC-06, DISC-10, DISC-12: both forms of discovery have status; a type has only its CRD's categories"""
    definition = types.pods(subresources={"status": {}})
    group, version, plural = definition.resource.split("/")
    api, kind = definition.api, definition.head["kind"]

    def discovered():
        document = api.get("/apis", accept="application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList").json
        return [each for entry in document["items"] if entry["metadata"]["name"] == group
                for served in entry["versions"] for each in served["resources"]
                if each["resource"] == plural]

    def listed():
        # Each worker reads the registry itself: another worker may not have the type yet.
        document = {each["name"]: each for each in api.get(f"/apis/{group}/{version}").json.get("resources", ())}
        return document if plural in document else None

    (found,) = until(discovered, 20, "the type in discovery")
    assert found["subresources"] == [{"subresource": "status",
                                      "responseKind": {"group": group, "version": version, "kind": kind},
                                      "verbs": ["get", "patch", "update"]}]
    assert "categories" not in found
    entries = until(listed, 20, "the type among the group's resources")
    assert entries[plural + "/status"] == {"name": plural + "/status", "singularName": "", "namespaced": True,
                                           "kind": kind, "verbs": ["get", "patch", "update"]}
    assert list(entries) == sorted(entries)


def test_openapi_types(api):
    """OAPI-03, OAPI-12: protobuf of v3 is not offered; list and map types of a schema are in the document"""
    url = api.get("/openapi/v3").json["paths"]["apis/wgpolicyk8s.io/v1alpha2"]["serverRelativeURL"]
    for protobuf in ("application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
                     "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"):
        assert api.get(url, accept=protobuf).code == 406
        assert api.get(url, accept=protobuf + ",application/json").headers["Content-Type"] == "application/json"
    text = api.get(url).body
    assert b'"x-kubernetes-map-type":"atomic"' in text


def test_head(api, ns):
    """REQ-12, GET-01: a HEAD of an object is its get without the body"""
    api.create(POLR, report("a"), ns)
    head, got = api.request("HEAD", path_of(POLR, ns, "a")), api.get(path_of(POLR, ns, "a"))
    assert (head.code, head.body) == (200, b"") and head.headers["Content-Length"] == str(len(got.body))
    assert api.request("HEAD", path_of(POLR, ns, "none")).code == 404
