"""Wrong input gets the answer of a CRD, and changes nothing in the store (issue 2, done when 4; conformance 6, 7)."""

import copy
import json

import pytest

from client import CPOLR, EPHR, JSON_PATCH, MERGE, POLR, failure, path_of, report, result, run

SUBDOMAIN = ("a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
             "start and end with an "
             "alphanumeric character (e.g. 'example.com', regex used for validation is "
             "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')")


@pytest.fixture
def collection(api, ns):
    """A collection with one report; after the test it must have the same items."""
    path = path_of(POLR, ns)
    api.create(POLR, report("kept", ns), ns)
    before = api.get(path).json
    yield path
    after = api.get(path).json
    assert after["items"] == before["items"]


def test_unknown_enum_value(api, collection, ns):
    """ERR-10, CRE-12: NotSupported"""
    answer = api.post(collection, report("r", ns, results=[result(outcome="maybe")]))
    status = failure(answer, 422, "Invalid")
    assert status["message"] == ('PolicyReport.wgpolicyk8s.io "r" is invalid: results[0].result: Unsupported value: '
                                 '"maybe": '
                                 'supported values: "pass", "fail", "warn", "error", "skip"')
    assert status["details"] == {
        "name": "r", "group": "wgpolicyk8s.io", "kind": "PolicyReport", "causes": [{
            "reason": "FieldValueNotSupported", "field": "results[0].result",
            "message": 'Unsupported value: "maybe": supported values: "pass", "fail", "warn", "error", "skip"'}]}


def test_missing_required_field(api, collection, ns):
    """ERR-10, CRE-12: Required"""
    bad = result()
    del bad["policy"]
    status = failure(api.post(collection, report("r", ns, results=[bad])), 422, "Invalid")
    assert status["message"] == 'PolicyReport.wgpolicyk8s.io "r" is invalid: results[0].policy: Required value'
    assert status["details"]["causes"] == [
        {"reason": "FieldValueRequired", "message": "Required value", "field": "results[0].policy"}]


def test_wrong_type(api, collection, ns):
    """ERR-10, CRE-12: TypeInvalid"""
    document = report("r", ns)
    document["summary"]["pass"] = "three"
    status = failure(api.post(collection, document), 422, "Invalid")
    assert status["message"] == ('PolicyReport.wgpolicyk8s.io "r" is invalid: summary.pass: Invalid value: "string": '
                                 'summary.pass in body must be of type integer: "string"')


def test_several_errors(api, collection, ns):
    """One answer has all errors, each once"""
    bad = [result(outcome="maybe"), result(severity="huge")]
    status = failure(api.post(collection, report("r", ns, results=bad)), 422, "Invalid")
    assert status["message"].startswith('PolicyReport.wgpolicyk8s.io "r" is invalid: [')
    assert [cause["field"] for cause in status["details"]["causes"]] == ["results[0].result", "results[1].severity"]


@pytest.mark.parametrize("name", ["Bad_Name", "-a", "a..b", "ä"])
def test_bad_name(api, collection, ns, name):
    """CRE-05"""
    status = failure(api.post(collection, report(name, ns)), 422, "Invalid")
    assert (status["message"]
            == f'PolicyReport.wgpolicyk8s.io "{name}" is invalid: metadata.name: Invalid value: "{name}": {SUBDOMAIN}')
    assert status["details"]["causes"][0]["field"] == "metadata.name"
    assert status["details"]["causes"][0]["reason"] == "FieldValueInvalid"


def test_long_name(api, collection, ns):
    """CRE-05"""
    status = failure(api.post(collection, report("a" * 254, ns)), 422, "Invalid")
    assert "must be no more than 253" in status["message"]


def test_no_name(api, collection, ns):
    """CRE-03"""
    document = report("x", ns)
    del document["metadata"]["name"]
    status = failure(api.post(collection, document), 422, "Invalid")
    assert "metadata.name: Required value: name or generateName is required" in status["message"]


def test_long_label(api, collection, ns):
    """CRE-08"""
    status = failure(api.post(collection, report("r", ns, labels={"key": "v" * 64})), 422, "Invalid")
    assert status["details"]["causes"][0]["field"] == "metadata.labels"
    assert "must be no more than 63" in status["message"]


@pytest.mark.parametrize("key, value, text", [
    ("-bad", "v", "name part must consist of alphanumeric characters"),
    ("a/b/c", "v", "a valid label key must consist of"),
    ("good", "bad value", "a valid label must be an empty string or consist of alphanumeric characters"),
])
def test_bad_label(api, collection, ns, key, value, text):
    """CRE-08: TestValidateLabels"""
    status = failure(api.post(collection, report("r", ns, labels={key: value})), 422, "Invalid")
    assert text in status["message"]


def test_label_of_wrong_type(api, collection, ns):
    """CRE-11"""
    answer = api.post(collection, report("r", ns, labels={"a": 1}))
    failure(answer, 400, "BadRequest")


def test_annotations_too_long(api, collection, ns):
    """CRE-08"""
    document = report("r", ns)
    document["metadata"]["annotations"] = {"a": "x" * 262144}
    status = failure(api.post(collection, document), 422, "Invalid")
    assert status["details"]["causes"][0]["reason"] == "FieldValueTooLong"
    assert status["details"]["causes"][0]["field"] == "metadata.annotations"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_four_megabytes(api, collection, ns, method):
    """REQ-01"""
    document = report("kept", ns, results=[result(message="x" * (4 * 1024 * 1024))])
    path = collection + ("" if method == "POST" else "/kept")
    answer = api.request(method, path, document, headers={"Content-Type": MERGE} if method == "PATCH" else None)
    status = failure(answer, 413, "RequestEntityTooLarge")
    assert status["message"] == "Request entity too large: limit is 3145728"


def test_stale_version(api, collection, ns):
    """UPD-01: TestPatchResourceWithStaleVersionConflict, TestAPIStatus"""
    path = collection + "/moving"
    api.create(POLR, report("moving", ns), ns)
    old = api.get(path).json
    new = copy.deepcopy(old)
    new["summary"]["pass"] = 7
    assert api.put(path, new).code == 200
    old["summary"]["pass"] = 8
    status = failure(api.put(path, old), 409, "Conflict")
    assert status["message"] == ('Operation cannot be fulfilled on policyreports.wgpolicyk8s.io "moving": the object '
                                 'has been modified; '
                                 'please apply your changes to the latest version and try again')
    assert status["details"] == {"name": "moving", "group": "wgpolicyk8s.io", "kind": "policyreports"}
    assert api.get(path).json["summary"]["pass"] == 7
    # A patch that names a stale version is refused as well (PAT-04).
    stale = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}, "summary": {"pass": 9}}
    failure(api.patch(path, stale), 409, "Conflict")
    assert api.get(path).json["summary"]["pass"] == 7
    assert api.delete(path).code == 200


@pytest.mark.parametrize("body", [b"{", b"not json", b'{"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": }',
                                  b'{"a": "\xff"}', b"[1,2]", b"null", b'"x"'])
def test_malformed_json(api, collection, body):
    """REQ-05"""
    answer = api.post(collection, body)
    failure(answer, 400, "BadRequest")


def test_empty_body(api, collection):
    """REQ-01"""
    failure(api.post(collection, b""), 400, "BadRequest")


def test_deep_json(api, collection):
    """REQ-08"""
    answer = api.post(collection, b'{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport",'
                      b'"metadata":{"name":"deep"},"results":' +
                      b"[" * 100000 + b"]" * 100000 + b"}")
    failure(answer, 400, "BadRequest")


def test_wrong_kind_and_version(api, collection, ns):
    """REQ-05"""
    document = report("r", ns)
    status = failure(api.post(collection, {**document, "kind": "Pod"}), 422, "Invalid")
    assert status["message"].endswith('is invalid: kind: Invalid value: "Pod": must be PolicyReport')
    status = failure(api.post(collection, {**document, "apiVersion": "wgpolicyk8s.io/v1beta1"}), 400, "BadRequest")
    assert "does not match the expected API version (wgpolicyk8s.io/v1alpha2)" in status["message"]
    missing = dict(document)
    del missing["kind"]
    failure(api.post(collection, missing), 400, "BadRequest")


def test_names_disagree(api, collection, ns):
    """REQ-06"""
    document = api.get(collection + "/kept").json
    document["metadata"]["name"] = "other"
    status = failure(api.put(collection + "/kept", document), 400, "BadRequest")
    assert status["message"] == "the name of the object (other) does not match the name on the URL (kept)"
    status = failure(api.post(collection, report("r", "elsewhere")), 400, "BadRequest")
    assert status["message"] == "the namespace of the provided object does not match the namespace sent on the request"


def test_already_exists(api, collection, ns):
    """ERR-10: TestAPIStatus"""
    status = failure(api.post(collection, report("kept", ns)), 409, "AlreadyExists")
    assert status["message"] == 'policyreports.wgpolicyk8s.io "kept" already exists'
    assert status["details"] == {"name": "kept", "group": "wgpolicyk8s.io", "kind": "policyreports"}


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
def test_not_found(api, collection, ns, method):
    """ERR-01, ERR-10, GET-01: TestGetMissing, TestUpdateMissing, TestDeleteMissing, TestAPIStatus"""
    body = {"PUT": report("missing", ns), "PATCH": {"summary": {}}}.get(method)
    if method == "PUT":
        body["metadata"]["resourceVersion"] = "1"
    answer = api.request(method, collection + "/missing", body,
                         headers={"Content-Type": MERGE} if method == "PATCH" else None)
    status = failure(answer, 404, "NotFound")
    assert status["message"] == 'policyreports.wgpolicyk8s.io "missing" not found'
    assert status["details"] == {"name": "missing", "group": "wgpolicyk8s.io", "kind": "policyreports"}


def test_update_without_version(api, collection, ns):
    """UPD-01"""
    status = failure(api.put(collection + "/kept", report("kept", ns)), 422, "Invalid")
    assert "metadata.resourceVersion: Invalid value: 0" in status["message"]
    assert "must be specified for an update" in status["message"]


def test_create_with_version(api, collection, ns):
    """CRE-04"""
    document = report("r", ns)
    document["metadata"]["resourceVersion"] = "5"
    status = failure(api.post(collection, document), 500, None)
    assert status["message"] == "resourceVersion should not be set on objects to be created"


def test_content_types(api, collection, ns):
    """REQ-02, PAT-01, NEG-05"""
    answer = api.request("POST", collection, report("r", ns),
                         headers={"Content-Type": "application/vnd.kubernetes.protobuf"})
    failure(answer, 415, "UnsupportedMediaType")
    answer = api.patch(collection + "/kept", {"summary": {}}, kind="application/strategic-merge-patch+json")
    status = failure(answer, 415, "UnsupportedMediaType")
    assert status["message"].startswith("the body of the request was in an unknown format - accepted media types "
                                        "include: "
                                        "application/json-patch+json, application/merge-patch+json")
    failure(api.get(collection + "/kept", accept="image/png"), 406, "NotAcceptable")
    answer = api.request("POST", collection, json.dumps(report("kept", ns)),
                         headers={"Content-Type": "application/json;charset=utf-8"})
    failure(answer, 409, "AlreadyExists")


def test_methods(api, collection):
    """ERR-21, ERR-22, ERR-24"""
    for method, path in (("POST", collection + "/kept"), ("PUT", collection), ("PATCH", collection)):
        status = failure(api.request(method, path, {}), 405, "MethodNotAllowed")
        assert status["message"] == "the server does not allow this method on the requested resource"
    everywhere = path_of(POLR)
    for method in ("POST", "PUT", "DELETE"):
        failure(api.request(method, everywhere, {} if method != "DELETE" else None), 404, "NotFound")
    assert api.get(collection + "/kept/status").code == 404
    assert api.get(collection + "/kept/log").code == 404


@pytest.mark.parametrize("query", [{"resourceVersion": "x"}, {"limit": "x"}, {"labelSelector": "a in"},
                                   {"labelSelector": "<invalid>"}, {"fieldSelector": "x"},
                                   {"fieldSelector": "spec.a=1"}, {"continue": "%%%"},
                                   {"timeoutSeconds": "x"}, {"x": "a\0b"}])
def test_bad_list_options(api, collection, query):
    """LIST-11, SEL-02, SEL-10, SEL-11, PAGE-06, REQ-03, DC-07: TestRequestsWithInvalidQuery, of a list"""
    answer = api.get(collection, **query)
    failure(answer, 400, "BadRequest")
    # The same options on a deletecollection delete nothing.
    failure(api.delete(collection, **query), 400, "BadRequest")


def test_list_options_that_exclude_each_other(api, collection):
    """LIST-10"""
    for query, text in (
            ({"resourceVersionMatch": "Exact"}, "resourceVersionMatch is forbidden unless resourceVersion is provided"),
            ({"resourceVersion": "0", "resourceVersionMatch": "Exact"},
             'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'),
            ({"resourceVersion": "1", "resourceVersionMatch": "x"}, 'supported values: "Exact", "NotOlderThan", ""'),
            ({"sendInitialEvents": "true"}, "sendInitialEvents is forbidden for list")):
        status = failure(api.get(collection, **query), 422, "Invalid")
        assert status["message"].startswith('ListOptions.meta.k8s.io "" is invalid: ') and text in status["message"]


def test_patches_that_do_not_apply(api, collection):
    """
    JP-01, MP-01, PAT-05, PAT-07: TestPatchRequiresMatchingName, TestForbiddenForceOnNonApply, TestInvalidPatchOptions,
    and the limit of operations
    """
    kept = collection + "/kept"
    for operation in ({"op": "test", "path": "/summary/pass", "value": 99},
                      {"op": "remove", "path": "/summary/nothing"},
                      {"op": "replace", "path": "/nowhere/at/all", "value": 1}):
        status = failure(api.patch(kept, [operation], kind=JSON_PATCH), 422, "Invalid")
        assert status["message"] == "the server rejected our request due to an error in our request"
    failure(api.patch(kept, {"op": "add"}, kind=JSON_PATCH), 400, "BadRequest")
    failure(api.patch(kept, [1, 2], kind=MERGE), 400, "BadRequest")
    failure(api.patch(kept, b"{", kind=MERGE), 400, "BadRequest")
    failure(api.patch(kept, {"metadata": {"name": "other"}}), 400, "BadRequest")
    failure(api.patch(kept, {"results": [{"policy": "p", "result": "maybe"}]}), 422, "Invalid")
    for query in ({"force": "true"}, {"force": "false"}, {"force": "false", "fieldManager": "kubectl"}):
        status = failure(api.patch(kept, {"metadata": {"labels": {"foo": "bar"}}}, **query), 422, "Invalid")
        assert "force: Forbidden: may not be specified for non-apply patch" in status["message"]
    many = [{"op": "add", "path": "/metadata/annotations", "value": {}}] * 10001
    failure(api.patch(kept, many, kind=JSON_PATCH), 413, "RequestEntityTooLarge")


def test_write_options(api, collection, ns):
    """
    CRE-06, CRE-07, FV-01, DEL-02: TestInvalidDryRun, TestValidDryRun, TestValidateFieldManagerInvalid,
    TestValidateFieldManagerValid
    """
    for query, text in (({"dryRun": "x"}, 'dryRun: Unsupported value: ["x"]: supported values: "All"'),
                        ({"dryRun": ["All", "False"]},
                         'dryRun: Unsupported value: ["All","False"]: supported values: "All"'),
                        ({"fieldManager": "field\nmanager"},
                         'fieldManager: Invalid value: "field\\nmanager": invalid character U+000A (at position 5)'),
                        ({"fieldManager": "m" * 129}, "fieldManager: Too long: may not be more than 128 bytes"),
                        ({"fieldValidation": "x"},
                         'fieldValidation: Unsupported value: "x": supported values: "", "Ignore", "Strict", "Warn"')):
        status = failure(api.post(collection, report("r", ns), **query), 422, "Invalid")
        assert status["message"].startswith('CreateOptions.meta.k8s.io "" is invalid: ') and text in status["message"]
    for manager in ("filedManager", "你好", "🍔"):
        for dry in ("All", ["All", "All"]):
            assert api.post(collection, report("r", ns), fieldManager=manager, dryRun=dry).code == 201
    failure(api.delete(collection + "/kept", {"propagationPolicy": "x"}), 422, "Invalid")
    failure(api.delete(collection + "/kept", dryRun="x"), 422, "Invalid")
    failure(api.delete(collection + "/kept", {"kind": "Pod", "apiVersion": "v1"}), 400, "BadRequest")


def test_strict_field_validation(api, collection, ns):
    """FV-01, FV-02"""
    document = report("r", ns, colour="red")
    document["results"][0]["size"] = 3
    status = failure(api.post(collection, document, fieldValidation="Strict"), 400, "BadRequest")
    assert 'strict decoding error: unknown field "colour", unknown field "results[0].size"' in status["message"]
    text = json.dumps(report("r", ns)).replace('"summary"', '"summary": {"pass": 1}, "summary"')
    status = failure(api.post(collection, text, fieldValidation="Strict"), 400, "BadRequest")
    assert 'duplicate field "summary"' in status["message"]


def test_nested_spec_paths(api, ns):
    """Errors below spec have their paths, also that of a required object that is missing"""
    document = {"apiVersion": "reports.kyverno.io/v1", "kind": "EphemeralReport",
                "metadata": {"name": "e", "namespace": ns},
                "spec": {"results": [{"policy": "p", "result": "no"}]}}
    status = failure(api.post(path_of(EPHR, ns), document), 422, "Invalid")
    assert sorted(cause["field"] for cause in status["details"]["causes"]) == ["spec.owner", "spec.results[0].result"]
    assert api.names(EPHR, ns) == []


def test_cluster_scope_with_namespace(api):
    """CRE-01"""
    document = report("cluster-scoped-with-namespace", "somewhere", resource=CPOLR)
    answer = api.post(path_of(CPOLR), document)
    assert answer.code == 201 and "namespace" not in answer.json["metadata"]
    assert api.delete(path_of(CPOLR, name="cluster-scoped-with-namespace")).code == 200


def test_bad_namespace(api):
    """CRE-05: TestValidateObjectMetaNamespaces"""
    for namespace, count in (("Bad_Namespace", 1), ("foo.bar", 1), ("A" * 64, 2)):
        status = failure(api.post(path_of(POLR, namespace), report("r")), 422, "Invalid")
        assert [cause["field"] for cause in status["details"]["causes"]] == ["metadata.namespace"] * count, namespace
        assert f'metadata.namespace: Invalid value: "{namespace}": ' in status["message"]


def test_many_errors_keep_their_connection(stack, ns):
    """After an error the connection stays open for the next request."""
    keeping = stack.first.api(keep=True)
    for _ in range(20):
        failure(keeping.get(path_of(POLR, ns, "missing")), 404, "NotFound")
        failure(keeping.post(path_of(POLR, ns), b"{"), 400, "BadRequest")
    assert keeping.connection is not None


def test_expect_continue_and_chunked_body(stack, ns):
    """TR-09"""
    pki = stack.pki
    document = json.dumps(report("by-curl", ns))
    done = run(["curl", "-sS", "--cacert", f"{pki}/ca.crt", "--cert", f"{pki}/admin.crt", "--key", f"{pki}/admin.key",
                "-H", "Expect: 100-continue", "-H", "Transfer-Encoding: chunked", "-H",
                "Content-Type: application/json",
                "-d", "@-", "-w", "\n%{http_code}", f"https://127.0.0.1:{stack.first.port}{path_of(POLR, ns)}"],
               input=document)
    assert done.out.rsplit("\n", 1)[1] == "201", done.out
