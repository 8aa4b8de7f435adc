"""Server-side apply and managed fields (conformance 13.4 and 13.5)."""

import datetime
import json

import pytest

from client import APPLY, JSON_PATCH, MERGE, PARTIAL_LIST, POLR, failure, path_of, report, result
from conftest import fields_of_c, writes_of_c

VERSION = "wgpolicyk8s.io/v1alpha2"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

TRACKED = {"type": "object", "properties": {
    "spec": {"type": "object", "properties": {
        "mode": {"type": "string", "default": "auto"}, "size": {"type": "integer"},
        "ports": {"type": "array", "x-kubernetes-list-type": "map",
                  "x-kubernetes-list-map-keys": ["port", "protocol"], "items": {
            "type": "object", "required": ["port"], "properties": {
                "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"},
                "name": {"type": "string"}}}},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "order": {"type": "array", "items": {"type": "string"}},
        "unit": {"type": "object", "x-kubernetes-map-type": "atomic",
                 "properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "quota": {"x-kubernetes-int-or-string": True}}},
    "status": {"type": "object", "properties": {"phase": {"type": "string"}, "seen": {"type": "integer"}}}}}


@pytest.fixture(scope="module")
def tracked(types):
    return types.pods(schema=TRACKED, subresources={"status": {}})


def owners(document):
    """Returns managed fields by manager and operation; checks the members and the time of each entry."""
    found = {}
    for entry in document["metadata"].get("managedFields", []):
        assert entry["fieldsType"] == "FieldsV1" and set(entry) <= {"manager", "operation", "apiVersion", "time",
            "fieldsType", "fieldsV1", "subresource"}
        if "time" in entry:
            datetime.datetime.strptime(entry["time"], "%Y-%m-%dT%H:%M:%SZ")
        found[(entry["manager"], entry["operation"])] = entry["fieldsV1"]
    return found


def apply(api, path, document, owner="applier", **query):
    return api.patch(path, document, kind=APPLY, fieldManager=owner, **query)


def applied(api, path, document, owner="applier", code=200, **query):
    answer = apply(api, path, document, owner, **query)
    assert answer.code == code, answer
    return answer.json


def config(metadata=None, **more):
    return {"apiVersion": VERSION, "kind": "PolicyReport", "metadata": {"name": "r1", **(metadata or {})}, **more}


@pytest.fixture
def path(ns):
    return path_of(POLR, ns, "r1")


# ---- updates ----

def test_creator_owns_what_it_sent(api, ns):
    """
    CRE-02, MF-01, MF-02, MF-03, MF-04, MF-09: the creator owns all fields: labels and summary are granular, results and
    scope are one field each
    """
    stored = api.create(POLR, report("r1", labels={"a": "1"}, scope={"kind": "Pod", "name": "p"}), ns,
                        fieldManager="maker")
    [entry] = stored["metadata"]["managedFields"]
    assert entry == {"time": stored["metadata"]["creationTimestamp"], "manager": "maker", "operation": "Update",
                     "apiVersion": VERSION, "fieldsType": "FieldsV1", "fieldsV1": {
        "f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:results": {}, "f:scope": {},
        "f:summary": {".": {}, "f:error": {}, "f:fail": {}, "f:pass": {}, "f:skip": {}, "f:warn": {}}}}
    assert list(stored["metadata"]["managedFields"][0]) == sorted(stored["metadata"]["managedFields"][0])
    assert api.get(path_of(POLR, ns, "r1")).json == stored
    listed = api.get(path_of(POLR, ns), accept=PARTIAL_LIST).json
    assert listed["items"][0]["metadata"]["managedFields"] == stored["metadata"]["managedFields"]


@pytest.mark.parametrize("agent, manager, owner", [
    ("tests/1.0", None, "tests"), ("a b (c)/x/y", None, "a b (c)"), ("x" * 200, None, "x" * 128),
                                                   ("\t/1", None, "unknown"), ("", None, "unknown"),
    ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/72.0.3626.121 Safari/537.36", None,
     "Mozilla"),
    ("f" * 130 + "/Something", None, "f" * 128), ("\U0001f354" * 60, None, "\U0001f354" * 32),
                                                   ("agent", "manager", "manager")])
def test_owner_from_user_agent(api, ns, agent, manager, owner):
    """CRE-07: TestManagerOrUserAgent"""
    # Headers are bytes; this client encodes them as Latin 1.
    answer = api.request("POST", path_of(POLR, ns), report("r1"),
                         headers={"User-Agent": agent.encode().decode("latin-1")},
                         **({"fieldManager": manager} if manager else {}))
    assert answer.code == 201, answer
    assert list(owners(answer.json)) == [(owner, "Update")]


def test_metadata_has_types_of_its_own(api, ns):
    """MF-04: finalizers are a set; owner references are a map by uid, and each item is one field"""
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u-1"}
    stored = api.create(POLR, {**report("r1"),
                               "metadata": {"name": "r1", "annotations": {"k": "<v>"}, "finalizers": ["example.com/f"],
                                                          "ownerReferences": [reference]}}, ns, fieldManager="m")
    assert owners(stored)[("m", "Update")]["f:metadata"] == {
        "f:annotations": {".": {}, "f:k": {}}, "f:finalizers": {".": {}, 'v:"example.com/f"': {}},
        "f:ownerReferences": {".": {}, 'k:{"uid":"u-1"}': {}}}


def test_updates_move_fields(api, ns, path):
    """MF-05, UPD-06, PAT-06: only the manager of a write owns a changed field; no manager owns a removed field"""
    stored = api.create(POLR, report("r1", labels={"a": "1", "b": "1"}), ns, fieldManager="one")
    stored["summary"]["pass"] = 7
    del stored["metadata"]["labels"]["b"]
    stored = api.put(path, stored, fieldManager="two").json
    assert owners(stored)[("two", "Update")] == {"f:summary": {"f:pass": {}}}
    first = owners(stored)[("one", "Update")]
    assert first["f:metadata"] == {"f:labels": {".": {}, "f:a": {}}} and "f:pass" not in first["f:summary"]
    stored = api.patch(path, {"summary": {"fail": 3}}, fieldManager="two").json
    assert owners(stored)[("two", "Update")] == {"f:summary": {"f:fail": {}, "f:pass": {}}}
    stored = api.patch(path, [{"op": "replace", "path": "/results", "value": []}], kind=JSON_PATCH,
                       fieldManager="three").json
    assert owners(stored)[("three",
                           "Update")] == {"f:results": {}} and "f:results" not in owners(stored)[("one", "Update")]


def test_same_manager_of_another_operation(api, ns, path):
    """MF-01, MF-06: apply and update are two entries; applies come first"""
    applied(api, path, config(summary={"pass": 1}), owner="m", code=201)
    stored = api.patch(path, {"summary": {"fail": 1}}, fieldManager="m").json
    assert [(entry["manager"], entry["operation"])
            for entry in stored["metadata"]["managedFields"]] == [("m", "Apply"), ("m", "Update")]


def test_no_op_keeps_times(api, ns, path):
    """UPD-04, MF-05: an update that changes nothing is not stored, whatever its field manager"""
    stored = api.create(POLR, report("r1"), ns, fieldManager="one")
    assert api.put(path, stored, fieldManager="two").json == stored
    assert api.patch(path, {"summary": {"pass": stored["summary"]["pass"]}}, fieldManager="two").json == stored
    older = json.loads(json.dumps(stored))
    older["metadata"]["managedFields"][0]["time"] = "2020-01-01T00:00:00Z"
    assert api.put(path, older, fieldManager="two").json == stored


def test_sorted_and_capped(api, ns, path):
    """MF-06, MF-07: there are at most 10 entries of updates; the oldest are merged into ancient-changes"""
    api.create(POLR, report("r1", labels={f"l{n}": "0" for n in range(14)}), ns, fieldManager="m00")
    for number in range(1, 13):
        stored = api.patch(path, {"metadata": {"labels": {f"l{number}": "1"}}}, fieldManager=f"m{number:02}").json
        entries = stored["metadata"]["managedFields"]
        assert len(entries) <= 10
        assert entries == sorted(entries, key=lambda entry: (entry["operation"], entry["time"], entry["manager"]))
    # Entries of one second are merged in the order of their names.
    assert "ancient-changes" in [entry["manager"] for entry in entries]
    together = [label for entry in entries
                for label in entry["fieldsV1"].get("f:metadata", {}).get("f:labels", {}) if label != "."]
    assert sorted(together) == sorted(f"f:l{n}" for n in range(14))


@pytest.mark.parametrize("reset", [[], [{}]])
@pytest.mark.parametrize("way", ["put", "merge", "json"])
def test_reset(api, ns, path, reset, way):
    """MP-03, MF-08, MF-11: an empty list removes managed fields; later updates do not add them again"""
    stored = api.create(POLR, report("r1"), ns)
    if way == "put":
        stored["metadata"]["managedFields"] = reset
        answer = api.put(path, stored)
    elif way == "merge":
        answer = api.patch(path, {"metadata": {"managedFields": reset}})
    else:
        answer = api.patch(path, [{"op": "replace", "path": "/metadata/managedFields", "value": reset}],
                           kind=JSON_PATCH)
    assert answer.code == 200 and "managedFields" not in answer.json["metadata"], answer
    assert "managedFields" not in api.patch(path, {"summary": {"pass": 9}}).json["metadata"]


def test_reset_of_nothing(api, ns, path):
    """JP-02, MP-03: a JSON patch may replace managed fields that do not exist; this changes nothing"""
    api.create(POLR, report("r1"), ns)
    reset = [{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]
    first = api.patch(path, reset, kind=JSON_PATCH)
    assert first.code == 200 and "managedFields" not in first.json["metadata"], first
    again = api.patch(path, reset, kind=JSON_PATCH)
    assert (again.code, again.json) == (200, first.json)


def test_edited_by_a_client(api, ns, path):
    """MF-08: TestValidateManagedFieldsInvalid: a client's list replaces the stored list if it can be decoded"""
    stored = api.create(POLR, report("r1"), ns, fieldManager="one")
    entries = stored["metadata"]["managedFields"]
    for broken in ([{**entries[0], "operation": "Delete"}], [{**entries[0], "fieldsType": "FieldsV2"}], [{**entries[0],
        "apiVersion": ""}],
                   [{**entries[0], "fieldsV1": {"bogus": {}}}], [{**entries[0],
                       "fieldsV1": {"k:{": {}}}], [{**entries[0], "fieldsV1": {"f:a": 1}}]):
        assert api.patch(path, {"metadata": {"managedFields": broken}}).json == stored, broken
    renamed = [{**entries[0], "manager": "heir",
                "fieldsV1": {"f:summary": {"f:pass": {}}, "k:{ \"b\":1,\"a\":\"x\" }": {}, "z:later": {}}}]
    edited = api.patch(path, {"metadata": {"managedFields": renamed}}).json
    assert owners(edited) == {("heir", "Update"): {"f:summary": {"f:pass": {}}, 'k:{"a":"x","b":1}': {}}}
    status = failure(api.patch(path,
                               {"metadata": {"managedFields": [{**entries[0], "manager": "m" * 129,
        "subresource": "s" * 257}]}}), 422, "Invalid")
    assert [cause["field"] for cause in status["details"]["causes"]] == 3 * ["metadata.managedFields[0].manager",
        "metadata.managedFields[0].subresource"]
    assert "metadata.managedFields[0].manager: Too long: may not be more than 128 bytes" in status["message"]
    failure(api.patch(path, {"metadata": {"managedFields": [{**entries[0], "manager": "field\nmanager"}]}}), 422,
            "Invalid")
    failure(api.patch(path, {"metadata": {"managedFields": {"a": 1}}}), 422, "Invalid")


def test_hostile_fields(api, ns, path):
    """MF-08: deep and large sets of fields are stored; a list with more than 1,000 entries is ignored"""
    stored = api.create(POLR, report("r1"), ns)
    deep = {}
    for _ in range(900):
        deep = {"f:a": deep}
    wide = {f'v:"{n}"': {} for n in range(20000)}
    entry = stored["metadata"]["managedFields"][0]
    for fields in (deep, wide):
        answer = api.patch(path, {"metadata": {"managedFields": [{**entry, "fieldsV1": fields}]}})
        assert answer.code == 200, answer
    many = [{**entry, "manager": f"m{n}", "fieldsV1": {}} for n in range(1001)]
    before = api.get(path).json
    assert api.patch(path, {"metadata": {"managedFields": many}}).json == before


# ---- apply ----

def test_apply_creates(api, ns, path):
    """SSA-10, PAT-03: an apply creates an object (201) and owns the fields that it sent; the same apply is no write"""
    created = applied(api, path, config(metadata={"labels": {"a": "1"}}, summary={"pass": 1}), code=201)
    assert created["metadata"]["name"] == "r1" and created["metadata"]["namespace"] == ns and created[
        "metadata"]["generation"] == 1
    assert owners(created) == {("applier", "Apply"): {"f:metadata": {"f:labels": {"f:a": {}}},
                                                      "f:summary": {"f:pass": {}}}}
    assert api.get(path).json == created
    again = applied(api, path, config(metadata={"labels": {"a": "1"}}, summary={"pass": 1}))
    assert again == created


def test_apply_creates_in_front_of_watchers(api, second_api, ns, path):
    """SSA-10: an apply that creates is an ADDED event, one that changes a MODIFIED event"""
    version = api.get(path_of(POLR, ns)).json["metadata"]["resourceVersion"]
    with second_api.watch(path_of(POLR, ns), resourceVersion=version) as watch:
        first = applied(api, path, config(summary={"pass": 1}), code=201)
        assert watch.event() == ("ADDED", first)
        applied(api, path, config(summary={"pass": 1}))
        second = applied(api, path, config(summary={"pass": 2}))
        assert watch.event() == ("MODIFIED", second)


def test_dry_run(api, ns, path):
    """CRE-06, PAT-08: a dry run stores nothing; in its answer a new object has no version"""
    shown = applied(api, path, config(summary={"pass": 1}), code=201, dryRun="All")
    assert shown["metadata"]["uid"] and "resourceVersion" not in shown["metadata"] and ("applier",
        "Apply") in owners(shown)
    failure(api.get(path), 404, "NotFound")
    stored = applied(api, path, config(summary={"pass": 1}), code=201)
    shown = applied(api, path, config(summary={"pass": 2}), dryRun="All")
    assert shown["summary"]["pass"] == 2 and shown["metadata"]["resourceVersion"] == stored[
        "metadata"]["resourceVersion"]
    assert api.get(path).json == stored


def test_removed_when_not_applied_any_more(api, ns, path):
    """SSA-03: a field that the applier no longer sends is removed, unless another manager owns it"""
    applied(api, path, config(metadata={"labels": {"a": "1", "b": "1", "c": "1"}}, summary={"pass": 1, "fail": 1}),
            code=201)
    applied(api, path, config(metadata={"labels": {"b": "1"}}), owner="other")
    api.patch(path, {"metadata": {"labels": {"c": "2"}}}, fieldManager="user")
    stored = applied(api, path, config(metadata={"labels": {"a": "1"}}, summary={"pass": 1}))
    assert stored["metadata"]["labels"] == {"a": "1", "b": "1", "c": "2"} and stored["summary"] == {"pass": 1}
    assert owners(stored)[("applier", "Apply")] == {"f:metadata": {"f:labels": {"f:a": {}}},
                                                    "f:summary": {"f:pass": {}}}


def test_conflicts(api, ns, path):
    """SSA-03, SSA-05: the exact message of a conflict with one manager, and with several"""
    api.create(POLR, report("r1", results=[]), ns, fieldManager="user")
    applied(api, path, config(metadata={"labels": {"a": "1"}}), owner="other")
    status = failure(apply(api, path, config(summary={"pass": 5})), 409, "Conflict")
    assert status["message"] == f'Apply failed with 1 conflict: conflict with "user" using {VERSION}: .summary.pass'
    assert status["details"] == {"causes": [{"reason": "FieldManagerConflict",
                                             "message": f'conflict with "user" using {VERSION}',
                                             "field": ".summary.pass"}]}
    status = failure(apply(api, path,
                           config(metadata={"labels": {"a": "2"}}, summary={"pass": 5, "fail": 5}, results=[result()])),
                     409, "Conflict")
    assert status["message"] == ('Apply failed with 4 conflicts: conflicts with "other":\n- .metadata.labels.a\n'
                                 f'conflicts with "user" using {VERSION}:\n'
                                 "- .results\n- .summary.fail\n- .summary.pass")
    assert [cause["field"] for cause in status["details"]["causes"]] == [".metadata.labels.a", ".results",
        ".summary.fail", ".summary.pass"]
    forced = applied(api, path, config(summary={"pass": 5}), force="true")
    assert forced["summary"]["pass"] == 5 and "f:pass" not in owners(forced)[("user", "Update")]["f:summary"]


def test_shared_ownership(api, ns, path):
    """SSA-04: the same value is no conflict; a field that one owner no longer sends stays with the others"""
    applied(api, path, config(summary={"pass": 1}), owner="one", code=201)
    stored = applied(api, path, config(summary={"pass": 1}), owner="two")
    assert set(owners(stored)) == {("one", "Apply"), ("two", "Apply")}
    stored = applied(api, path, config(), owner="one")
    assert stored["summary"] == {"pass": 1} and set(owners(stored)) == {("two", "Apply")}


def test_before_first_apply(api, stack, ns, path):
    """SSA-06: before-first-apply owns the fields of an object that had no managed fields"""
    api.create(POLR, report("r1", labels={"a": "1"}), ns)
    api.patch(path, {"metadata": {"managedFields": [{}]}})
    status = failure(apply(api, path, config(metadata={"labels": {"a": "2"}})), 409, "Conflict")
    assert (status["message"]
            == f'Apply failed with 1 conflict: conflict with "before-first-apply" using {VERSION}: .metadata.labels.a')
    stored = applied(api, path, config(metadata={"labels": {"b": "2"}}))
    assert owners(stored)[("before-first-apply", "Update")]["f:metadata"] == {"f:labels": {".": {}, "f:a": {}}}


def test_refusals(api, ns, path):
    """SSA-01, SSA-02, SSA-08, SSA-11, PAT-05, PAT-07: TestInvalidPatchOptions: bodies and options that are refused"""
    def message(document, code, reason, **query):
        return failure(apply(api, path, document, **query), code, reason)["message"]

    assert message({**config(), "kind": "Other"}, 400, "BadRequest") == f"invalid object type: {VERSION}, Kind=Other"
    assert message({**config(), "apiVersion": "v1"}, 400, "BadRequest") == "invalid object type: /v1, Kind=PolicyReport"
    assert message("null", 400, "BadRequest") == "invalid object type: /, Kind="
    assert message("[]", 400, "BadRequest").startswith(
        "error decoding patch: error unmarshaling JSON: while decoding JSON: "
        "json: cannot unmarshal array into Go value")
    assert message({**config(), "apiVersion": "a/b/c"}, 400, "BadRequest") == "invalid object type: /, Kind="
    assert message({"apiVersion": VERSION, "kind": "PolicyReport"}, 400, "BadRequest") == (
        "the name of the object (r1 based on URL) was undeterminable: name must be provided")
    assert message("{: [", 400, "BadRequest").startswith("error decoding YAML: ")
    assert message(config(metadata={"name": "r2"}), 400,
                   "BadRequest") == "the name of the object (r2) does not match the name on the URL (r1)"
    assert message(config(metadata={"managedFields": []}), 400, "BadRequest") == "metadata.managedFields must be nil"
    assert message(config(metadata={"uid": "u"}), 409, "Conflict").endswith(
        "uid mismatch: the provided object specified uid u, and no existing object was found")
    undeclared = (f"failed to create typed patch object (/r1; {VERSION}, Kind=PolicyReport): .colour: field not "
                  "declared in schema")
    assert failure(apply(api, path, config(colour="red")), 500, None)["message"] == undeclared
    assert message(config(colour="red"), 400, "BadRequest", fieldValidation="Strict") == undeclared
    status = failure(api.patch(path, config(), kind=APPLY), 422, "Invalid")
    assert (status["message"]
            == 'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch')
    failure(api.patch(path, {}, kind=MERGE, force="true"), 422, "Invalid")
    failure(api.get(path), 404, "NotFound")
    applied(api, path, config(summary={"pass": 1}), code=201)
    assert "object has been modified" in message(config(metadata={"resourceVersion": "1"}), 409, "Conflict")
    failure(apply(api, path, config(results=[{"policy": "p", "result": "bogus"}])), 422, "Invalid")


@writes_of_c
def test_may_not_create(api, stack, ns, path):
    """AUTHZ-13: when the proxy says that the user may not create, an apply may only change an existing object"""
    def write(document):
        request = {"verb": "patch", "group": "wgpolicyk8s.io", "version": "v1alpha2", "resource": "policyreports",
                   "namespace": ns, "name": "r1",
                   "contentType": APPLY, "query": {"fieldManager": ["m"]}, "mayCreate": False,
                   "createDenial": "bob cannot create this"}
        written = stack.database.psql(
            "SELECT codes[1], convert_from(replies[1], 'UTF8') FROM "
                                      f"kube_reports_internal.write_batch('{stack.cluster}', "
            f"ARRAY[$r${json.dumps(request)}$r$::jsonb], ARRAY[convert_to($d${json.dumps(document)}$d$, 'UTF8')])")
        code, reply = written.split("|", 1)
        return int(code), json.loads(reply)

    code, status = write(config(summary={"pass": 1}))
    assert (code, status["reason"], status["message"]) == (403, "Forbidden", "bob cannot create this")
    assert status["details"] == {"name": "r1", "group": "wgpolicyk8s.io", "kind": "policyreports"}
    assert write(config(results=[{"policy": "p", "result": "bogus"}]))[0] == 422
    failure(api.get(path), 404, "NotFound")
    applied(api, path, config(summary={"pass": 1}), code=201)
    assert write(config(metadata={"labels": {"a": "1"}}))[0] == 200


def test_duplicate_keys(api, ns, path):
    """SSA-09: duplicate keys are an error with Strict, a warning by default, and no warning with Ignore"""
    body = (f'{{"apiVersion":"{VERSION}","kind":"PolicyReport","metadata":{{"name":"r1"}},'
            '"summary":{"pass":1,"pass":2}}')
    status = failure(apply(api, path, body, fieldValidation="Strict"), 400, "BadRequest")
    assert status["message"].startswith(
                                        "error strict decoding patch: ") and 'key "pass" already set in map' in status[
        "message"]
    answer = apply(api, path, body)
    assert answer.code == 201 and any('key \\"pass\\" already set in map' in warning
                                      for warning in answer.warnings), answer.warnings
    assert not apply(api, path, body, fieldValidation="Ignore").warnings


def test_yaml(api, ns, path):
    """SSA-01: the body may be YAML"""
    stored = applied(api, path,
                     f"apiVersion: {VERSION}\nkind: PolicyReport\nmetadata:\n  name: r1\nsummary:\n  pass: 3\n",
                     code=201)
    assert stored["summary"] == {"pass": 3}


def test_last_applied(api, ns, path):
    """SSA-07: kubectl owns the fields of its client-side applies, and its annotation is kept up to date"""
    first = config(metadata={"name": "r1", "namespace": ns, "annotations": {}}, summary={"pass": 1, "fail": 1})
    api.create(POLR, {**first, "metadata": {**first["metadata"], "annotations": {LAST_APPLIED: json.dumps(first)}}}, ns,
               fieldManager="kubectl-client-side-apply")
    second = config(metadata={"name": "r1", "namespace": ns}, summary={"pass": 2, "fail": 1})
    failure(apply(api, path, second, owner="somebody"), 409, "Conflict")
    api.patch(path, {"summary": {"fail": 7}}, fieldManager="user")
    third = config(metadata={"name": "r1", "namespace": ns}, summary={"pass": 2, "fail": 3})
    status = failure(apply(api, path, third, owner="kubectl"), 409, "Conflict")
    assert [cause["field"] for cause in status["details"]["causes"]] == [".summary.fail"]
    stored = applied(api, path, config(metadata={"name": "r1", "namespace": ns}, summary={"pass": 2}), owner="kubectl")
    assert stored["summary"] == {"pass": 2, "fail": 7}
    assert json.loads(stored["metadata"]["annotations"][LAST_APPLIED]) == config(metadata={"name": "r1",
        "namespace": ns}, summary={"pass": 2})


@pytest.mark.parametrize("said", [{"labels": {"x": None}}, {"labels": {"a": "b"}, "annotations": None},
                                  {"labels": {"a": "b"}, "finalizers": []},
                                  {"labels": {"a": "b"}, "generateName": ""}])
def test_other_words_are_a_change(api, ns, path, said):
    """
    SSA-03, UPD-04: an apply whose metadata is not stored as it was sent is a write each time, as upstream; a dry run
    stores nothing
    """
    first = applied(api, path, config(metadata=said), code=201)
    again = applied(api, path, config(metadata=said))
    assert int(again["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
    assert again["metadata"]["generation"] == 1 and again["metadata"].get("labels") == first["metadata"].get("labels")
    applied(api, path, config(metadata=said), dryRun="All")
    assert api.get(path).json == again


@pytest.mark.parametrize("key, value", [("creationTimestamp", "soon"), ("creationTimestamp", 5),
                                        ("creationTimestamp", "2020-01-01T00:00:00Z"),
                                        ("generation", 1.5), ("generation", 7), ("selfLink", "/x")])
def test_server_members(api, ns, path, key, value):
    """SSA-06, CRE-03: members that only the server sets are ignored; the same apply again changes nothing"""
    before = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=2)
    document = config(metadata={key: value, "labels": {"a": "b"}})
    first = applied(api, path, document, code=201)
    made = datetime.datetime.fromisoformat(first["metadata"]["creationTimestamp"].replace("Z", "+00:00"))
    assert made > before and first["metadata"]["generation"] == 1 and "selfLink" not in first["metadata"]
    assert owners(first)[("applier", "Apply")] in [{"f:metadata": {"f:labels": {"f:a": {}}}},
                                                   {"f:metadata": {"f:labels": {"f:a": {}}, "f:selfLink": {}}}]
    assert applied(api, path, document) == first


def test_deletion_members(api, ns, path):
    """SSA-06: an apply that creates drops the members of a deletion; an apply that updates is refused with them"""
    first = applied(api, path, config(metadata={"deletionTimestamp": "soon", "deletionGracePeriodSeconds": 5}),
                    code=201)
    assert not {"deletionTimestamp", "deletionGracePeriodSeconds"} & set(first["metadata"])
    status = failure(apply(api, path, config(metadata={"deletionTimestamp": "soon"})), 422, "Invalid")
    [cause] = status["details"]["causes"]
    assert cause["field"] == "metadata" and cause["message"].endswith(
        'parsing time "soon" as "2006-01-02T15:04:05Z07:00": cannot parse "soon" as "2006"'), cause
    assert json.loads(cause["message"].removeprefix("Invalid value: ").partition(": parsing time")[0])[
        "deletionTimestamp"] == "soon"
    failure(apply(api, path, config(metadata={"deletionTimestamp": "2020-01-01T00:00:00Z"})), 422, "Invalid")


@pytest.mark.parametrize("said, field", [({"summary": None}, "summary"), ({"summary": {"pass": None}}, "summary.pass"),
                                         ({"results": None}, "results"),
                                         ({"results": [{"policy": "p", "properties": {"a": None}}]},
                                          "results[0].properties.a")])
def test_nulls_are_refused(api, ns, path, said, field):
    """SSA-03: an apply drops no null; validation refuses it as a value of the wrong type"""
    status = failure(apply(api, path, config(**said)), 422, "Invalid")
    assert [cause["field"] for cause in status["details"]["causes"]] == [field], status
    failure(api.get(path), 404, "NotFound")


# ---- a type with lists and a status ----

def base(tracked, metadata=None, **parts):
    return {**tracked.head, "metadata": {"name": "t", **(metadata or {})}, **parts}


def test_map_lists(api, tracked, ns):
    """MF-03, SSA-03: items merge by their keys, also by defaulted keys; fields are removed with their owner"""
    path = tracked.path(ns, "t")
    stored = applied(api, path, base(tracked,
                                     spec={"ports": [{"port": 80, "name": "web"}, {"port": 53, "protocol": "UDP"}]}),
                     code=201)
    assert owners(stored)[("applier", "Apply")] == {"f:spec": {"f:ports": {
        'k:{"port":53,"protocol":"UDP"}': {".": {}, "f:port": {}, "f:protocol": {}},
        'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:name": {}, "f:port": {}}}}}
    stored = applied(api, path, base(tracked, spec={"ports": [{"port": 443}, {"port": 80, "protocol": "TCP"}]}),
                     owner="other")
    assert [item["port"] for item in stored["spec"]["ports"]] == [443, 80, 53]
    assert stored["spec"]["ports"][1] == {"port": 80, "protocol": "TCP", "name": "web"}
    status = failure(apply(api, path, base(tracked, spec={"ports": [{"port": 80, "name": "x"}]}), owner="other"), 409,
                     "Conflict")
    assert status["details"]["causes"] == [{"reason": "FieldManagerConflict", "message": 'conflict with "applier"',
                                            "field": '.spec.ports[port=80,protocol="TCP"].name'}]
    stored = applied(api, path, base(tracked, spec={"ports": [{"port": 53, "protocol": "UDP"}]}))
    assert [(item["port"], item.get("name")) for item in stored["spec"]["ports"]] == [(443, None),
        (80, None), (53, None)]
    status = failure(apply(api, path, base(tracked, spec={"ports": [{"port": 1}, {"port": 1}]})), 500, None)
    assert status["message"].endswith('.spec.ports: duplicate entries for key [port=1,protocol="TCP"]')


def test_sets(api, tracked, ns):
    """MF-03, SSA-03: sets merge by value; a value is removed when no manager owns it"""
    path = tracked.path(ns, "t")
    applied(api, path, base(tracked, spec={"tags": ["b", "a<"]}), code=201)
    stored = applied(api, path, base(tracked, spec={"tags": ["c", "b"]}), owner="other")
    assert stored["spec"]["tags"] == ["c", "b", "a<"]
    assert owners(stored)[("applier", "Apply")] == {"f:spec": {"f:tags": {'v:"a\\u003c"': {}, 'v:"b"': {}}}}
    stored = applied(api, path, base(tracked, spec={"tags": ["a<"]}))
    assert stored["spec"]["tags"] == ["c", "b", "a<"]
    stored = applied(api, path, base(tracked, spec={}), owner="other")
    assert stored["spec"]["tags"] == ["a<"]


def test_atomic_and_unknown(api, tracked, ns):
    """
    MF-04, SSA-03: atomic parts are replaced as a whole; unknown fields are granular maps with atomic lists; a map that
    is not declared is removed as a whole when the applier no longer sends it
    """
    path = tracked.path(ns, "t")
    applied(api, path, base(tracked,
                            spec={"order": ["x", "y"], "unit": {"a": "1", "b": "1"}, "free": {"m": {"n": 1}, "l": [1]},
                                  "quota": 1}), code=201)
    stored = api.patch(path, {"spec": {"unit": {"a": "2"}, "free": {"m": {"o": 2}}}}, fieldManager="user").json
    assert owners(stored)[("user", "Update")] == {"f:spec": {"f:free": {"f:m": {"f:o": {}}}, "f:unit": {}}}
    assert owners(stored)[("applier", "Apply")] == {"f:spec": {
        "f:free": {"f:l": {}, "f:m": {".": {}, "f:n": {}}}, "f:order": {}, "f:quota": {}}}
    stored = applied(api, path, base(tracked, spec={"order": ["z"], "free": {"l": [2]}, "quota": "10%"}))
    assert stored["spec"] == {"mode": "auto", "order": ["z"], "unit": {"a": "2", "b": "1"},
                              "free": {"l": [2]}, "quota": "10%"}


def test_defaults_are_not_the_appliers(api, tracked, ns):
    """SSA-03, MF-09: after an apply no manager owns a default; after a create the creator owns it"""
    stored = applied(api, tracked.path(ns, "t"), base(tracked, spec={"size": 1}), code=201)
    assert stored["spec"] == {"mode": "auto",
                              "size": 1} and owners(stored)[("applier", "Apply")] == {"f:spec": {"f:size": {}}}
    assert applied(api, tracked.path(ns, "t"), base(tracked, spec={"size": 1})) == stored
    created = api.create(tracked.resource, base(tracked, metadata={"name": "u"}, spec={"size": 1}),
                         ns, fieldManager="m")
    assert owners(created)[("m", "Update")] == {"f:spec": {".": {}, "f:mode": {}, "f:size": {}}}


def test_status(api, tracked, ns):
    """UPD-08, MF-01, MF-02: only the subresource changes the status, and it has entries of its own"""
    path = tracked.path(ns, "t")
    stored = applied(api, path, base(tracked, spec={"size": 1}, status={"phase": "x"}), code=201)
    assert "status" not in stored and owners(stored) == {("applier", "Apply"): {"f:spec": {"f:size": {}}}}
    stored = applied(api, path + "/status",
                     base(tracked, metadata={"labels": {"a": "1"}}, spec={"size": 9}, status={"phase": "Ready"}),
                     owner="controller")
    assert stored["spec"]["size"] == 1 and "labels" not in stored["metadata"] and stored["status"] == {"phase": "Ready"}
    [entry] = [entry for entry in stored["metadata"]["managedFields"] if entry["manager"] == "controller"]
    assert entry["subresource"] == "status" and entry["operation"] == "Apply" and entry["fieldsV1"] == {
        "f:status": {"f:phase": {}}}
    status = failure(apply(api, path + "/status", base(tracked, status={"phase": "Down"}), owner="rival"), 409,
                     "Conflict")
    assert (status["message"]
            == 'Apply failed with 1 conflict: conflict with "controller" with subresource "status": .status.phase')
    stored = api.patch(path + "/status", {"status": {"seen": 1}, "metadata": {"managedFields": [{}]}},
                       fieldManager="watcher").json
    assert owners(stored)[("watcher", "Update")] == {"f:status": {"f:seen": {}}} and ("controller",
        "Apply") in owners(stored)
    stored = applied(api, path, base(tracked, spec={"size": 2}))
    assert stored["status"] == {"phase": "Ready", "seen": 1}
    failure(apply(api, tracked.path(ns, "missing") + "/status",
                  base(tracked, {"name": "missing"}, status={"phase": "x"})), 404, "NotFound")


def test_deep_documents(api, tracked, ns):
    """
    MF-04: every stored document can be changed and deleted, although its sets of fields are deeper than the document
    """
    path = tracked.path(ns, "t")
    head = json.dumps(base(tracked))[:-1]
    stored = 0
    for depth in range(985, 1000):
        answer = api.post(tracked.path(ns), head + ', "spec": {"free": ' + '{"a":' * depth + "1" + "}" * depth + "}}")
        if answer.code == 400:
            continue
        assert answer.code == 201, (depth, answer)
        stored += 1
        for changed in (api.patch(path, {"metadata": {"labels": {"a": "b"}}}),
                        apply(api, path, base(tracked, spec={"size": 1})), api.delete(path)):
            assert changed.code == 200, (depth, changed)
    assert 0 < stored < 15


def test_order_of_items(api, tracked, ns):
    """
    SSA-03: items of both have the order of the config; items of the live object alone keep their order between them
    """
    path = tracked.path(ns, "t")
    tags = [f"t{n}" for n in range(6)]
    api.create(tracked.resource, base(tracked, metadata={"name": "t"}, spec={"tags": tags}), ns)
    stored = applied(api, path, base(tracked, spec={"tags": ["t4", "new", "t1"]}))
    assert stored["spec"]["tags"] == ["t0", "t2", "t3", "t4", "t5", "new", "t1"]


# ---- the owner's SQL ----

@pytest.fixture
def summing(stack):
    """Fills in the summaries of policy reports during a test."""
    stack.database.psql("SELECT kube_reports.set_summaries('policyreports.wgpolicyk8s.io')")
    yield
    stack.database.psql("SELECT kube_reports.set_summaries('policyreports.wgpolicyk8s.io', false)")


@pytest.mark.parametrize("write", ["create", "update", "patch", "apply"])
def test_what_the_server_changes(api, summing, ns, path, write):
    """
    MF-10: the server adds a counted summary, as mutating admission would, after it has computed the managed fields: the
    manager of the request owns what it sent, and no manager owns the summary before one applies it.
    """
    document = config(results=[result()])
    sent = {"create": lambda: api.post(path_of(POLR, ns), document, fieldManager="writer"),
            "update": lambda: api.put(path, document | {"metadata": api.get(path).json["metadata"]},
                                      fieldManager="writer"),
            "patch": lambda: api.patch(path, {"results": [result()]}, kind=MERGE, fieldManager="writer"),
            "apply": lambda: apply(api, path, document, "writer")}
    before = {}
    if write in ("update", "patch"):
        before = owners(api.post(path_of(POLR, ns), config({"labels": {"a": "b"}}), fieldManager="maker").json)
        assert set(before) == {("maker", "Update")}
    answer = sent[write]()
    assert answer.code in (200, 201) and answer.warnings == [], answer
    assert answer.json["summary"]["pass"] == 1
    operation = "Apply" if write == "apply" else "Update"
    expected = before | {("writer", operation): {"f:results": {}}}
    assert owners(answer.json) == expected
    assert answer.json == api.get(path).json
    # An update without the summary does not make its sender the owner of the summary; other owners stay.
    again = api.patch(path, {"metadata": {"annotations": {"a": "b"}}}, kind=MERGE, fieldManager="other").json
    assert owners(again) == expected | {("other", "Update"): {"f:metadata": {"f:annotations": {".": {}, "f:a": {}}}}}
    taken = applied(api, path, config(summary={"pass": 1}), "taker")
    assert owners(taken)[("taker", "Apply")] == {"f:summary": {"f:pass": {}}}


@fields_of_c
def test_sql(api, stack, ns, path):
    """MF-11: UPDATE keeps managed fields as they are, unless it sets them"""
    stored = api.create(POLR, report("r1"), ns, fieldManager="m")

    def update(assignment):
        stack.database.psql(f"UPDATE kube_reports.object SET {assignment} WHERE namespace = '{ns}' AND name = 'r1'")
        return api.get(path).json

    changed = update("""body = '{"summary":{"pass":42}}'""")
    assert changed["summary"] == {"pass": 42} and changed["metadata"]["managedFields"] == stored[
        "metadata"]["managedFields"]
    assert update("""metadata = '{"labels":{"a":"1"}}'""")["metadata"]["managedFields"] == stored[
        "metadata"]["managedFields"]
    assert "managedFields" not in update("""metadata = '{"managedFields":[]}'""")["metadata"]
    made = api.post(path_of(POLR, ns), report("r2"), fieldManager="m").json["metadata"]["managedFields"]
    assert update(f"metadata = $m${json.dumps({'managedFields': made})}$m$")["metadata"]["managedFields"] == made


# ---- kubectl ----

@pytest.fixture
def applying(kubectl, ns, tmp_path):
    """kubectl apply --server-side of a document."""
    if kubectl.minor < 18:
        pytest.skip("no server-side apply")

    def run(document, *flags, check=True):
        file = tmp_path / "input.json"
        file.write_text(json.dumps(document))
        return kubectl("apply", "--server-side", "-n", ns, "-f", str(file), *flags, check=check)
    return run


def test_kubectl_apply(kubectl, applying, api, ns, path):
    """SSA-01, SSA-05: a field changes its owner from kubectl to a controller and back"""
    document = config(metadata={"name": "r1"}, summary={"pass": 1}, results=[result()])
    assert applying(document).out == "policyreport.wgpolicyk8s.io/r1 serverside-applied\n"
    assert set(owners(api.get(path).json)) == {("kubectl", "Apply")}
    before = api.get(path).json
    applying(document)
    assert api.get(path).json == before
    moved = api.get(path).json
    moved["summary"]["pass"] = 50
    assert api.put(path, moved, fieldManager="controller").code == 200
    document["summary"]["pass"] = 2
    done = applying(document, check=False)
    assert done.code == 1 and f'conflict with "controller" using {VERSION}: .summary.pass' in done.err
    assert api.get(path).json["summary"]["pass"] == 50
    applying(document, "--force-conflicts")
    stored = api.get(path).json
    assert stored["summary"]["pass"] == 2 and set(owners(stored)) == {("kubectl", "Apply")}
    assert applying(document,
                    "--dry-run=server").out == "policyreport.wgpolicyk8s.io/r1 serverside-applied (server dry run)\n"


def test_kubectl_diff(kubectl, ns, api, path, tmp_path):
    """PAT-08: diff --server-side shows what apply would change, and changes nothing"""
    applied(api, path, config(summary={"pass": 1}), owner="kubectl", code=201)
    before = api.get(path).json
    file = tmp_path / "input.json"
    file.write_text(json.dumps(config(metadata={"name": "r1"}, summary={"pass": 2})))
    done = kubectl("diff", "--server-side", "-n", ns, "-f", str(file), check=False)
    assert done.code == 1 and "-  pass: 1" in done.out and "+  pass: 2" in done.out, (done.out, done.err)
    assert api.get(path).json == before


def test_kubectl_migrates(kubectl, applying, ns, api, path, tmp_path):
    """SSA-07: server-side apply takes over an object of kubectl's client-side apply"""
    file = tmp_path / "client.json"
    document = config(metadata={"name": "r1", "namespace": ns}, summary={"pass": 1})
    file.write_text(json.dumps(document))
    kubectl("apply", "-f", str(file))
    assert ("kubectl-client-side-apply", "Update") in owners(api.get(path).json)
    document["summary"]["pass"] = 2
    applying(document)
    stored = api.get(path).json
    assert stored["summary"]["pass"] == 2 and ("kubectl", "Apply") in owners(stored)
    assert json.loads(stored["metadata"]["annotations"][LAST_APPLIED])["summary"] == {"pass": 2}


def test_upgraded_managers(api, ns, path):
    """SSA-07: a JSON patch on managedFields and resourceVersion, as csaupgrade and Argo CD send it"""
    stored = api.create(POLR, report("r1"), ns, fieldManager="kubectl-client-side-apply")
    entries = [{**stored["metadata"]["managedFields"][0], "manager": "kubectl", "operation": "Apply"}]
    upgrade = [{"op": "replace", "path": "/metadata/managedFields", "value": entries},
               {"op": "replace", "path": "/metadata/resourceVersion", "value": stored["metadata"]["resourceVersion"]}]
    upgraded = api.patch(path, upgrade, kind=JSON_PATCH, fieldManager="upgrader").json
    assert upgraded["metadata"]["managedFields"] == entries
    failure(api.patch(path, upgrade, kind=JSON_PATCH), 409, "Conflict")
    assert set(owners(applied(api, path, config(summary={"pass": 4}), owner="kubectl"))) == {("kubectl", "Apply")}
