"""JSON patch and merge patch (conformance 13.1 to 13.3, 24.3)."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from client import JSON_PATCH, MERGE, POLR, failure, path_of, report, result, until

APPLY = "application/apply-patch+yaml"
CBOR = "application/apply-patch+cbor"
STRATEGIC = "application/strategic-merge-patch+json"


@pytest.fixture
def path(api, ns):
    api.create(POLR, report("r1", labels={"a": "1", "b/c": "2"}, results=[result("p1"), result("p2", "fail")]), ns)
    return path_of(POLR, ns, "r1")


def test_merge_patch(api, path):
    """MP-01: TestPatch of the handlers"""
    before = api.get(path).json
    answer = api.patch(path, {"metadata": {"labels": {"a": None, "d": "4"}}, "summary": {"fail": 7},
                              "results": [result("p3")],
                              "scope": {"kind": "Pod", "name": "p"}}, kind=MERGE + "; charset=UTF-8")
    assert answer.code == 200
    after = answer.json
    assert after["metadata"]["labels"] == {"b/c": "2", "d": "4"}
    assert after["summary"]["fail"] == 7 and after["summary"]["pass"] == before["summary"]["pass"]
    assert [entry["policy"] for entry in after["results"]] == ["p3"]
    assert after["scope"] == {"kind": "Pod", "name": "p"}
    assert after["metadata"]["generation"] == 2
    assert api.patch(path, {"scope": None}).json.get("scope") is None


def test_json_patch(api, path):
    """JP-01: every operation"""
    answer = api.patch(path, [
        {"op": "test", "path": "/results/0/policy", "value": "p1"},
        {"op": "add", "path": "/results/-", "value": result("p9")},
        {"op": "add", "path": "/results/0", "value": result("p0")},
        {"op": "remove", "path": "/results/1"},
        {"op": "replace", "path": "/summary/pass", "value": 11},
        {"op": "copy", "from": "/results/0", "path": "/results/-"},
        {"op": "move", "from": "/metadata/labels/b~1c", "path": "/metadata/labels/moved"},
        {"op": "add", "path": "/results/0/properties", "value": {"x~y": "1"}},
        {"op": "replace", "path": "/results/0/properties/x~0y", "value": "2"},
    ], kind=JSON_PATCH)
    assert answer.code == 200, answer
    after = answer.json
    assert [entry["policy"] for entry in after["results"]] == ["p0", "p2", "p9", "p0"]
    assert after["summary"]["pass"] == 11
    assert after["metadata"]["labels"] == {"a": "1", "moved": "2"} and after["results"][0]["properties"] == {"x~y": "2"}


def test_json_patch_beyond_the_rfc(api, path):
    """
    JP-02: negative indices count from the end, replace adds a missing member, copy of a missing member copies null
    """
    policies = [entry["policy"] for entry in api.get(path).json["results"]]
    answer = api.patch(path, [
        {"op": "add", "path": "/results/-1", "value": result("last")},
        {"op": "remove", "path": f"/results/-{len(policies) + 1}"},
        {"op": "replace", "path": "/metadata/labels/new", "value": "1"},
        {"op": "copy", "from": "/nothing", "path": "/summary/skip"},
    ], kind=JSON_PATCH)
    assert answer.code == 200, answer
    assert [entry["policy"] for entry in answer.json["results"]] == policies[1:] + ["last"]
    assert answer.json["metadata"]["labels"]["new"] == "1" and "skip" not in answer.json["summary"]
    for pointer in (f"/results/-{len(policies) + 1}", "/results/99"):
        failure(api.patch(path, [{"op": "remove", "path": pointer}], kind=JSON_PATCH), 422, "Invalid")


@pytest.mark.parametrize("patch, code, reason, text", [
    ([{"op": "test", "path": "/metadata/name", "value": "r1"}], 200, None, None),
    (b"invalid json patch", 400, "BadRequest", "invalid JSON patch"),
    ([{"op": "test", "path": "/invalid/path", "value": "r1"}], 422, "Invalid",
     "the server rejected our request due to an error in our request"),
    ([{"op": "test", "path": "/results/-1/policy", "value": "p2"}], 200, None, None),
    ([{"op": "replace", "path": "/metadata/path", "value": "foo"},
      {"op": "test", "path": "/metadata/path", "value": "foo"}], 200, None, None)])
def test_json_patch_cases(api, path, patch, code, reason, text):
    """JP-01, JP-02, PAT-05: TestJSONPatch: none of them changes the object"""
    before = api.get(path).json
    answer = api.patch(path, patch, kind=JSON_PATCH)
    assert answer.code == code, answer
    assert code == 200 or text in failure(answer, code, reason)["message"]
    assert api.get(path).json == before


@pytest.mark.parametrize("kind, patch, code", [
    (JSON_PATCH, b'[{"op": "add", "path": "/summary/pass", "value": 5}]', 200),
                                               (JSON_PATCH, b'[{"op": "add", "path": "/summary/pass", "value": 5', 400),
    (MERGE, b'{"summary": {"pass": 5}}', 200), (MERGE, b'{"summary": {"pass": 5}', 400),
    (APPLY, b"apiVersion: wgpolicyk8s.io/v1alpha2\nkind: PolicyReport\nsummary: {pass: 5}\nmetadata: {name: r1}", 200),
                                               (APPLY, b":\n  invalid", 400),
    (STRATEGIC, b'{"summary": {"pass": 5}}', 415), (STRATEGIC, b'{"summary": {"pass": 5}', 415),
                                               (CBOR, b"\xa1aa\x01", 415), (CBOR, b"\xff\xff", 415), (CBOR, b"", 415),
    (JSON_PATCH, b"", 400), (MERGE, b"", 400), (APPLY, b"", 400)])
def test_patch_bytes(api, path, kind, patch, code):
    """
    PAT-01, PAT-02, SSA-01, SSA-12: TestValidateAndTranscodePatch, TestPatchCustomResource: a type of patch that a CRD
    does not have is 415, whatever the body is
    """
    before = api.get(path).json
    answer = api.patch(path, patch, kind=kind, **({"fieldManager": "m", "force": "true"} if kind == APPLY else {}))
    if code == 200:
        assert answer.code == 200 and answer.json["summary"]["pass"] == 5, answer
        return
    failure(answer, code, {400: "BadRequest", 415: "UnsupportedMediaType"}[code])
    assert api.get(path).json == before


# Another patch first changes pass from 1 to 7.  Then: the patch, whether it names the old version, its code, the counts
# in the end.
RACES = [
    ({"fail": 30}, False, 200, {"pass": 7, "fail": 30}), ({"pass": 7}, False, 200, {"pass": 7, "fail": 1}),
         ({"pass": 9}, False, 200, {"pass": 9, "fail": 1}),
    ({"fail": 30}, True, 409, {"pass": 7, "fail": 1}), ({"pass": 7}, True, 409, {"pass": 7, "fail": 1}),
    ([{"op": "test", "path": "/summary/pass", "value": 1}, {"op": "replace", "path": "/summary/fail", "value": 30}],
     False, 422, {"pass": 7, "fail": 1}),
]


@pytest.mark.parametrize("kind", [MERGE, JSON_PATCH])
@pytest.mark.parametrize("counts, pinned, code, expected", RACES)
def test_overtaken(stack, api, path, kind, counts, pinned, code, expected):
    """
    PAT-04, UPD-09: TestPatchResourceWithVersionConflict, TestPatchResourceNumberConversion,
    TestPatchResourceWithConflict,
    TestPatchResourceWithRacingVersionConflict: a patch changes the object as it is when the patch has its turn,
    whatever was written before
    """
    if isinstance(counts, list):
        kind, patch = JSON_PATCH, counts
    elif kind == MERGE:
        patch = {"summary": counts}
    else:
        patch = [{"op": "replace", "path": f"/summary/{key}", "value": value} for key, value in counts.items()]
    before = api.get(path).json["metadata"]
    if pinned and kind == MERGE:
        patch["metadata"] = {"resourceVersion": before["resourceVersion"]}
    elif pinned:
        patch.append({"op": "replace", "path": "/metadata/resourceVersion", "value": before["resourceVersion"]})
    other = stack.database.open_write(stack.cluster,
                                      {"verb": "patch", "namespace": before["namespace"], "name": "r1",
                                       "contentType": MERGE}, {"summary": {"pass": 7}}, 200)
    try:
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(api.patch, path, patch, kind)
            until(lambda: stack.database.at_lane_lock("NOT l.granted"), 20, "the patch to wait")
            other.commit()
            answer = answer.result()
    finally:
        other.close()
    assert answer.code == code, answer
    stored = api.get(path).json
    assert {key: stored["summary"][key] for key in expected} == expected
    if code == 200:
        assert answer.json == stored
    else:
        failure(answer, code, {409: "Conflict", 422: "Invalid"}[code])


def test_json_patch_is_all_or_nothing(api, path):
    """JP-01"""
    before = api.get(path).json
    failure(api.patch(path, [{"op": "replace", "path": "/summary/pass", "value": 50},
                             {"op": "test", "path": "/kind", "value": "x"}],
                      kind=JSON_PATCH), 422, "Invalid")
    assert api.get(path).json == before


@pytest.mark.parametrize("operations", [
    [{"op": "remove", "path": "/nothing"}], [{"op": "remove", "path": "/results/7"}], [{"op": "replace",
        "path": "/results/7", "value": {}}],
    [{"op": "test", "path": "/nothing", "value": 1}], [{"op": "move", "from": "/nothing",
                                                        "path": "/summary/pass"}], [{"op": "copy",
        "from": "/results/7", "path": "/x"}],
    [{"op": "add", "path": "/results/-9", "value": {}}], [{"op": "remove", "path": "/results/-9"}], [{"op": "add",
        "path": "/results/3", "value": {}}],
    [{"op": "add", "path": "/results/x", "value": {}}], [{"op": "add", "path": "/nothing/below",
        "value": 1}], [{"op": "add", "path": "/summary/pass/x", "value": 1}],
    [{"op": "copy", "from": "/results", "path": f"/metadata/annotations{number}"} for number in range(9999)],
], ids=lambda operations: " ".join(str(operations[0].get(key, "")) for key in ("op", "from", "path")))
def test_json_patch_that_fails(api, path, operations):
    """
    JP-02, JP-01: members that do not exist, indices beyond either end, more copied than a body may hold
    """
    if len(operations) > 1:
        api.patch(path, {"results": [result(message="m" * 10000)]})
    before = api.get(path).json
    status = failure(api.patch(path, operations, kind=JSON_PATCH), 422, "Invalid")
    assert status["message"] == "the server rejected our request due to an error in our request" and status[
        "details"] == {}
    assert api.get(path).json == before


def test_json_patch_on_version(api, path):
    """PAT-04: test on resourceVersion"""
    version = api.get(path).json["metadata"]["resourceVersion"]
    change = [{"op": "test", "path": "/metadata/resourceVersion", "value": version},
              {"op": "replace", "path": "/summary/pass", "value": 3}]
    assert api.patch(path, change, kind=JSON_PATCH).code == 200
    assert api.patch(path, change, kind=JSON_PATCH).code in (409, 422)


@pytest.mark.parametrize("kind, empty", [(MERGE, {}), (JSON_PATCH, [])])
def test_no_op(api, path, kind, empty):
    """UPD-04: a patch without a change makes no version and no event"""
    before = api.get(path).json
    with api.watch(path.rsplit("/", 1)[0], resourceVersion=before["metadata"]["resourceVersion"]) as watch:
        answer = api.patch(path, empty, kind=kind)
        assert answer.code == 200 and answer.json == before
        assert api.patch(path, {"metadata": {"labels": {"a": "1"}}}).json == before
        after = api.patch(path, {"metadata": {"labels": {"a": "2"}}}).json
        assert watch.event()[1]["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]


def test_unknown_fields(api, path):
    """MP-02, FV-01"""
    answer = api.patch(path, {"colour": "red"})
    assert answer.code == 200 and "colour" not in answer.json
    assert any("colour" in warning for warning in answer.warnings)
    failure(api.patch(path, {"colour": "red"}, fieldValidation="Strict"), 422, "Invalid")


def test_immutable_metadata(api, path):
    """PAT-06, UPD-02"""
    before = api.get(path).json
    failure(api.patch(path, {"metadata": {"namespace": "other"}}), 400, "BadRequest")
    failure(api.patch(path, {"metadata": {"uid": "x"}}), 422, "Invalid")
    answer = api.patch(path, {"metadata": {"generation": 50, "labels": {"q": "1"}}})
    assert answer.code == 200 and answer.json["metadata"]["generation"] == before["metadata"]["generation"]
