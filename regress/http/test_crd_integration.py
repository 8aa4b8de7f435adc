"""
Upstream's integration suite of the CRD server, as requests: the behaviour that users of CRDs have without kube-reports
(conformance 12, 24.4).
"""

import copy
import json

import pytest
import yaml

from client import APPLY, JSON_PATCH, MERGE, failure, until
from pods import Pods, crd

PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}


@pytest.fixture(scope="module")
def pods(types):
    return types.pods()


@pytest.fixture(scope="module")
def with_status(types):
    return types.pods(subresources={"status": {}})


def version(document):
    return int(document["metadata"]["resourceVersion"])


# ---- basic_test.go ----

@pytest.mark.parametrize("scope", ["Namespaced", "Cluster"])
def test_crud(types, ns, scope):
    """
    CRE-02, UPD-01, DEL-06, W-02, LIST-01: TestNamespaceScopedCRUD, TestClusterScopedCRUD, testListFound,
    testListNotFound, testUpdateEquals, testCreateEquals
    """
    kind = types.pods(scope)
    empty = kind.list(ns)
    assert empty["items"] == [] and version(empty) > 0
    with kind.api.watch(kind.path(ns), resourceVersion=empty["metadata"]["resourceVersion"]) as watch:
        stored = kind.create("foo", ns, node="a")
        assert watch.event() == ("ADDED", stored) and kind.list(ns)["items"] == [stored]
        stored["spec"]["nodeName"] = "b"
        updated = kind.api.put(kind.path(ns, "foo"), stored).json
        assert watch.event() == ("MODIFIED", updated) and kind.api.get(kind.path(ns, "foo")).json == updated
        kind.delete("foo", ns)
        assert watch.event()[0] == "DELETED" and kind.list(ns)["items"] == []
    assert kind.api.get(kind.path(ns, "foo")).code == 404


def test_invalid_crud(pods, ns):
    """CRE-03, CRE-04, UPD-01, ERR-10: TestInvalidCRUD: no name, an existing name, wrong versions, a missing object"""
    document = pods.pod("x")
    document["metadata"] = {}
    failure(pods.api.post(pods.path(ns), document), 422, "Invalid")
    stored = pods.create("foo", ns)
    failure(pods.api.post(pods.path(ns), pods.pod("foo")), 409, "AlreadyExists")
    failure(pods.api.post(pods.path(ns), {**pods.pod("bar"), "metadata": {"name": "bar", "resourceVersion": "5"}}), 500,
            None)
    stale = copy.deepcopy(stored)
    pods.api.patch(pods.path(ns, "foo"), {"spec": {"nodeName": "a"}})
    failure(pods.api.put(pods.path(ns, "foo"), stale), 409, "Conflict")
    del stale["metadata"]["resourceVersion"]
    failure(pods.api.put(pods.path(ns, "foo"), stale), 422, "Invalid")
    failure(pods.api.delete(pods.path(ns, "none")), 404, "NotFound")


def test_same_name_in_another_namespace(pods, ns):
    """GET-01, LIST-02: TestSameNameDiffNamespace, testGetDifferentNamespace, testGetMimatchedNamespace"""
    first, second = pods.create("same", ns + "-1", node="a"), pods.create("same", ns + "-2", node="b")
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    assert pods.api.get(pods.path(ns + "-1", "same")).json == first and pods.api.get(pods.path(ns + "-2",
        "same")).json == second
    pods.delete("same", ns + "-1")
    assert pods.list(ns + "-2")["items"] == [second]


def test_cross_namespace_list_and_watch(types):
    """LIST-02, W-02, W-11: TestCrossNamespaceListWatch: lists and watches of all namespaces and of one"""
    pods = types.pods()
    stored = [pods.create(f"foo-{namespace}", namespace) for namespace in ("ns-1", "ns-2")]
    everywhere = pods.list()
    assert everywhere["items"] == stored
    with pods.api.watch(pods.path(), resourceVersion=everywhere["metadata"]["resourceVersion"]) as all_of_them, \
            pods.api.watch(pods.path("ns-1"), resourceVersion=everywhere["metadata"]["resourceVersion"]) as first:
        added = [pods.create("bar", namespace) for namespace in ("ns-1", "ns-2")]
        assert [all_of_them.event(), all_of_them.event()] == [("ADDED", document) for document in added]
        assert first.event() == ("ADDED", added[0])
        for document in stored:
            pods.delete(document["metadata"]["name"], document["metadata"]["namespace"])
        all_of_them.expect(("DELETED", "foo-ns-1"), ("DELETED", "foo-ns-2"))
        first.expect(("DELETED", "foo-ns-1"))
        assert first.quiet()
    # A watch from the version of an object begins with the next change.
    with pods.api.watch(pods.path(), resourceVersion=stored[0]["metadata"]["resourceVersion"]) as watch:
        assert watch.event() == ("ADDED", stored[1])


def test_patch(pods, ns):
    """MP-01, PAT-06, UPD-04: TestPatch: patches of labels and spec, and patches that change nothing"""
    pods.create("foo", ns, labels={"a": "1"})
    path = pods.path(ns, "foo")
    patched = pods.api.patch(path, {"metadata": {"labels": {"a": None, "b": "2"}}, "spec": {"nodeName": "x"}}).json
    assert patched["metadata"]["labels"] == {"b": "2"} and patched["spec"] == {"nodeName": "x"} and patched[
        "metadata"]["generation"] == 2
    for patch, kind in (({}, MERGE), ([], JSON_PATCH), ({"spec": {"nodeName": "x"}}, MERGE)):
        assert pods.api.patch(path, patch, kind=kind).json == patched
    # Name, uid and version in a patch must be those of the object.
    failure(pods.api.patch(path, {"metadata": {"name": "bar"}}), 400, "BadRequest")
    failure(pods.api.patch(path, {"metadata": {"resourceVersion": "1"}, "spec": {"nodeName": "y"}}), 409, "Conflict")
    assert pods.api.patch(path, {"kind": pods.head["kind"], "apiVersion": pods.head["apiVersion"], "metadata": {
        "name": "foo", "namespace": ns, "uid": patched["metadata"]["uid"],
        "resourceVersion": patched["metadata"]["resourceVersion"]}}).json == patched


def test_discovery(types):
    """DISC-10, DISC-12: TestDiscovery: discovery has all names of a CRD, in the order of the CRD"""
    definition = crd("discovered." + types.group, "noxus")
    definition["spec"]["names"].update(kind="WishIHadChosenNoxu", shortNames=["foo", "bar", "abc", "def"],
                                       categories=["all"])
    types.register(definition)
    kind = Pods(types.stack.first.api(), definition)
    found = until(lambda: kind.api.get("/apis/" + kind.head["apiVersion"]).json.get("resources"), 20,
                  "the type in discovery")
    verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
    assert found == [{"name": "noxus", "singularName": "noxu", "namespaced": True, "kind": "WishIHadChosenNoxu",
                      "shortNames": ["foo", "bar", "abc", "def"],
                      "categories": ["all"], "verbs": verbs, "storageVersionHash": found[0]["storageVersionHash"]}]


# ---- apply_test.go ----

FREE = {"type": "object", **PRESERVE}


def test_apply(types):
    """
    SSA-03, SSA-05: TestApplyBasic: applies in YAML, without a schema: a field that another manager has changed is a
    conflict, unless the apply is forced
    """
    free = types.pods("Cluster", schema=FREE)
    path = free.path(None, "mytest")
    text = (f"apiVersion: {free.head['apiVersion']}\nkind: {free.head['kind']}\nmetadata:\n  name: mytest\n"
            "values:\n  numVal: 1\n  boolVal: true\n  stringVal: \"1\"\n")
    answer = free.api.patch(path, text, kind=APPLY, fieldManager="apply_test")
    assert answer.code == 201 and answer.json["values"] == {"numVal": 1, "boolVal": True, "stringVal": "1"}
    assert free.api.patch(path, {"values": {"numVal": 5}}).json["values"]["numVal"] == 5
    status = failure(free.api.patch(path, text, kind=APPLY, fieldManager="apply_test"), 409, "Conflict")
    assert [(cause["reason"], cause["field"])
            for cause in status["details"]["causes"]] == [("FieldManagerConflict", ".values.numVal")]
    answer = free.api.patch(path, text, kind=APPLY, fieldManager="apply_test", force="true")
    assert answer.code == 200 and answer.json["values"]["numVal"] == 1


@pytest.mark.parametrize("nullable", [True, False])
def test_apply_null(types, nullable):
    """
    SSA-03, CRE-12: TestApplyNullToObject: a null is stored in a nullable field; in any other field it is refused,
    because it is no object, whether the field is required or has required members or not
    """
    fields = {}
    for number in range(4):
        inner = {"type": "object", "nullable": nullable,
                 "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                 **({"required": ["a", "b"]} if number & 1 else {})}
        fields[f"field{number}"] = {"type": "object", "properties": {"inner": inner},
                                    **({"required": ["inner"]} if number & 2 else {})}
    kind = types.pods("Cluster", schema={"type": "object",
                                         "properties": {"spec": {"type": "object", "properties": fields}}})
    for field in fields:
        def apply(inner):
            return kind.api.patch(kind.path(None, field),
                                  {**kind.head, "metadata": {"name": field}, "spec": {field: {"inner": inner}}},
                                  kind=APPLY, fieldManager="apply_test")

        assert apply({"a": "1", "b": "2"}).code == 201
        answer = apply(None)
        if nullable:
            assert answer.code == 200 and answer.json["spec"] == {field: {"inner": None}}, answer
        else:
            status = failure(answer, 422, "Invalid")
            assert f"spec.{field}.inner in body must be of type object" in status["message"]


# ---- yaml_test.go ----

def test_yaml(types):
    """
    NEG-03, REQ-02, W-05, PAT-01, DISC-16: TestYAML: discovery, errors, create, get, list, update and delete have YAML;
    watches and patches do not
    """
    free = types.pods("Cluster", schema=FREE)
    path = free.path(None, "mytest")
    text = {"Accept": "application/yaml", "Content-Type": "application/yaml"}

    def asked(method, where, code, body=None, **query):
        answer = free.api.request(method, where, body and yaml.safe_dump(body), headers=text, **query)
        assert answer.code == code and answer.headers["Content-Type"] == "application/yaml", answer
        return yaml.safe_load(answer.body)

    group = "/apis/" + free.head["apiVersion"]
    found = until(lambda: next((d for d in [yaml.safe_load(free.api.get(group, accept="application/yaml").body)]
                                if isinstance(d, dict)), None), 20, "the type in discovery")
    assert (found["apiVersion"], found["kind"], found["groupVersion"]) == ("v1", "APIResourceList",
        free.head["apiVersion"])
    status = asked("GET", free.path(None, "missingname"), 404)
    assert (status["apiVersion"], status["kind"], status["reason"]) == ("v1", "Status", "NotFound")
    values = {"numVal": 1, "boolVal": True, "stringVal": "1"}
    stored = asked("POST", free.path(), 201, {**free.head, "metadata": {"name": "mytest"}, "values": values})
    assert stored["values"] == values and {key: stored[key]
                                           for key in free.head} == free.head and stored["metadata"]["name"] == "mytest"
    assert asked("GET", path, 200) == stored
    found = asked("GET", free.path(), 200)
    assert (found["apiVersion"], found["kind"], found["items"]) == (free.head["apiVersion"],
        free.head["kind"] + "List", [stored])
    status = asked("GET", free.path(), 406, watch="true")
    assert (status["apiVersion"], status["kind"], status["reason"], status["code"]) == ("v1", "Status",
        "NotAcceptable", 406)
    values = {"numVal": 2, "boolVal": False, "stringVal": "2"}
    metadata = {key: stored["metadata"][key] for key in ("name", "uid", "resourceVersion")}
    updated = asked("PUT", path, 200, {**free.head, "metadata": metadata, "values": values})
    assert updated["values"] == values and updated["metadata"]["uid"] == stored["metadata"]["uid"]
    status = asked("PATCH", path, 415, {"values": {"numVal": 3}})
    assert (status["apiVersion"], status["kind"], status["reason"]) == ("v1", "Status", "UnsupportedMediaType")
    status = asked("DELETE", path, 200)
    assert (status["apiVersion"], status["kind"], status["status"]) == ("v1", "Status", "Success")


# ---- subresources_test.go ----

def test_status(with_status, ns):
    """UPD-08, UPD-03: TestStatusSubresource, TestGeneration: the object and its status are written separately"""
    path = with_status.path(ns, "foo")
    stored = with_status.api.create(with_status.resource,
                                    {**with_status.pod("foo", node="a"), "status": {"phase": "ignored"}}, ns)
    assert "status" not in stored and stored["metadata"]["generation"] == 1
    document = copy.deepcopy(stored)
    document["status"], document["spec"]["nodeName"], document["metadata"]["labels"] = {
        "phase": "one"}, "ignored", {"ignored": "yes"}
    updated = with_status.api.put(path + "/status", document).json
    assert (updated["status"], updated["spec"], updated["metadata"]["generation"]) == ({"phase": "one"},
        {"nodeName": "a"}, 1)
    assert updated["metadata"]["labels"] == stored["metadata"]["labels"] and version(updated) > version(stored)
    failure(with_status.api.put(path + "/status", document), 409, "Conflict")
    document = copy.deepcopy(updated)
    document["status"], document["spec"]["nodeName"] = {"phase": "ignored"}, "b"
    changed = with_status.api.put(path, document).json
    assert (changed["status"], changed["spec"], changed["metadata"]["generation"]) == ({"phase": "one"},
        {"nodeName": "b"}, 2)
    assert with_status.api.get(path + "/status").json == changed
    for method in ("POST", "DELETE"):
        failure(with_status.api.request(method, path + "/status", {}), 405, "MethodNotAllowed")
    del changed["metadata"]["resourceVersion"]
    failure(with_status.api.put(path + "/status", changed), 422, "Invalid")
    failure(with_status.api.get(with_status.path(ns, "none") + "/status"), 404, "NotFound")


@pytest.mark.parametrize("kind", [MERGE, JSON_PATCH])
def test_status_patch(with_status, ns, kind):
    """UPD-08, UPD-04, PAT-04: TestSubresourcePatch, TestStatusGetAndPatch: no-op, stale version, missing object"""
    path = with_status.path(ns, "foo") + "/status"

    def patch(phase, at=None, where=path):
        if kind == MERGE:
            body = {"status": {"phase": phase}, **({"metadata": {"resourceVersion": at}} if at else {})}
        else:
            body = [{"op": "add", "path": "/status", "value": {"phase": phase}},
                    *([{"op": "replace", "path": "/metadata/resourceVersion", "value": at}] if at else [])]
        return with_status.api.patch(where, body, kind=kind)

    stored = with_status.create("foo", ns, node="a")
    patched = patch("one").json
    assert patched["status"] == {"phase": "one"} and patched["spec"] == {"nodeName": "a"} and patched[
        "metadata"]["generation"] == 1
    assert patch("one").json == patched and patch("one", patched["metadata"]["resourceVersion"]).json == patched
    failure(patch("two", stored["metadata"]["resourceVersion"]), 409, "Conflict")
    failure(patch("one", where=with_status.path(ns, "none") + "/status"), 404, "NotFound")
    failure(with_status.api.patch(path, {"status": {"phase": 5}}), 422, "Invalid")
    # A patch of the object itself does not change the status.
    assert with_status.api.patch(with_status.path(ns, "foo"), {"status": {"phase": "three"}}).json == patched


# ---- pruning_test.go ----

PRUNED = {"type": "object", "properties": {
    "alpha": {"type": "string"}, "beta": {"type": "number"},
                                           "kept": {"type": "object", **PRESERVE,
                                                    "properties": {"inner": {"type": "object",
        "properties": {"a": {"type": "string"}}}}},
    "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
    "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}},
    "status": {"type": "object", "properties": {"a": {"type": "string"}}}}}

GIVEN = {"unspecified": "bar", "alpha": "abc", "beta": 42.5, "kept": {"x": 1, "inner": {"a": "1", "b": "2"}},
         "list": [{"a": "1", "b": "2"}],
         "map": {"k": {"a": "1", "b": "2"}}}
LEFT = {"alpha": "abc", "beta": 42.5, "kept": {"x": 1, "inner": {"a": "1"}}, "list": [{"a": "1"}],
        "map": {"k": {"a": "1"}}}


def content(document):
    return {key: value for key, value in document.items() if key not in ("apiVersion", "kind", "metadata", "spec")}


def test_pruning(types, ns):
    """
    CRE-12, FV-01, PAT-06: TestPruningCreate, TestPruningPatch, TestPruningStatus: creates, updates, patches and writes
    of the status prune alike
    """
    pruned = types.pods(schema=PRUNED, subresources={"status": {}})
    path = pruned.path(ns, "foo")
    stored = pruned.api.create(pruned.resource, {**pruned.pod("foo"), **GIVEN}, ns)
    assert content(stored) == LEFT
    assert content(pruned.api.put(path, {**stored, **GIVEN, "alpha": "def"}).json) == {**LEFT, "alpha": "def"}
    merged = pruned.api.patch(path, {"unspecified": "x", "alpha": "ghi", "list": [{"b": "3"}]}).json
    assert content(merged) == {**LEFT, "alpha": "ghi", "list": [{}]}
    assert pruned.api.patch(path, [{"op": "add", "path": "/unspecified", "value": 1}], kind=JSON_PATCH).json == merged
    status = pruned.api.patch(path + "/status", {"status": {"a": "1", "b": "2"}, "unspecified": 1}).json
    assert status["status"] == {"a": "1"} and "unspecified" not in status


def test_embedded_resources(types, ns):
    """CRE-11, CRE-12: TestEmbeddedResources: metadata of embedded objects is coerced and validated like any other"""
    embedding = types.pods(schema={"type": "object",
                                   "properties": {"embedded": {"type": "object",
        "x-kubernetes-embedded-resource": True, **PRESERVE}}})
    inner = {"apiVersion": "foo/v1", "kind": "Foo", "metadata": {"name": "foo", "unspecified": "bar"}, "anything": 1}
    answer = embedding.api.post(embedding.path(ns), {**embedding.head, "metadata": {"name": "foo"}, "embedded": inner})
    assert answer.code == 201 and answer.json["embedded"] == {**inner, "metadata": {"name": "foo"}}
    assert answer.warnings == ['299 - "unknown field \\"embedded.metadata.unspecified\\""']
    status = failure(embedding.api.post(embedding.path(ns),
                                        {**embedding.head, "metadata": {"name": "bar"}, "embedded": inner},
                                        fieldValidation="Strict"), 400, "BadRequest")
    assert status["message"].endswith('strict decoding error: unknown field "embedded.metadata.unspecified"')
    for broken in ({"kind": "Foo", "metadata": {}}, {"apiVersion": "foo/v1", "metadata": {}},
                   {**inner, "metadata": {"name": ".."}}, {**inner, "metadata": {"labels": {"a": "-"}}}):
        failure(embedding.api.post(embedding.path(ns),
                                   {**embedding.head, "metadata": {"name": "bar"}, "embedded": broken}), 422, "Invalid")


# ---- listtype_test.go ----

LISTS = {"type": "object", "properties": {
    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
    "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"],
            "items": {"type": "object", "required": ["a", "b"],
                      "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}, "c": {"type": "integer"}}}},
    "atomic": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "integer"}}}}


def test_list_types(types, ns):
    """CRE-12, ERR-10: TestListTypes: duplicates in sets and map lists are refused on create, update and patch"""
    lists = types.pods(schema=LISTS)
    valid = {"set": [1, 2], "map": [{"a": 1, "b": 2}, {"a": 1, "b": 3}], "atomic": [1, 1]}
    stored = lists.api.create(lists.resource, {**lists.pod("foo"), **valid}, ns)
    for change, field in (({"set": [1, 2, 1]}, "set[2]"),
                          ({"map": [{"a": 1, "b": 2}, {"a": 2, "b": 2}, {"a": 1, "b": 2, "c": 4}]}, "map[2]")):
        for answer in (lists.api.post(lists.path(ns), {**lists.pod("bar"), **valid, **change}),
                       lists.api.put(lists.path(ns, "foo"), {**stored, **change}),
                       lists.api.patch(lists.path(ns, "foo"), change)):
            status = failure(answer, 422, "Invalid")
            assert [(cause["field"], cause["reason"])
                    for cause in status["details"]["causes"]] == [(field, "FieldValueDuplicate")]
    assert lists.api.get(lists.path(ns, "foo")).json == stored


# ---- validation_test.go ----

VALIDATED = {"type": "object", "required": ["alpha", "beta"], "properties": {
    "alpha": {"type": "string", "pattern": "^[a-zA-Z0-9_]*$"}, "beta": {"type": "number", "minimum": 10},
    "gamma": {"type": "string", "enum": ["foo", "bar", "baz"]}}}


def test_validation(types, ns):
    """CRE-12, ERR-10: TestCustomResourceValidation, TestCustomResourceValidationErrors: both versions validate"""
    definition = crd(types.group, "validations", schema=VALIDATED)
    (version_1,) = definition["spec"]["versions"]
    definition["spec"]["versions"].append({**version_1, "name": "v1beta1", "storage": False})
    types.register(definition)
    good = {"alpha": "foo_123", "beta": 10, "gamma": "bar"}
    for served in ("v1", "v1beta1"):
        kind = Pods(types.stack.first.api(), definition)
        kind.head["apiVersion"], kind.resource = f"{types.group}/{served}", f"{types.group}/{served}/validations"
        for change, texts in (({"alpha": "foo_123!"}, ["alpha in body should match '^[a-zA-Z0-9_]*$'"]),
                              ({"beta": 5}, ["beta in body should be greater than or equal to 10"]),
                              ({"gamma": "qux"}, ['gamma: Unsupported value: "qux": supported values: "foo", "bar", '
                                                  '"baz"']),
                              ({"alpha": ..., "beta": ..., "delta": "hello"}, ["alpha: Required value",
                                  "beta: Required value"])):
            document = {**kind.head, "metadata": {"name": "foo"},
                        **{key: value for key, value in {**good, **change}.items() if value is not ...}}
            status = failure(kind.api.post(kind.path(ns), document), 422, "Invalid")
            assert all(text in status["message"]
                       for text in texts) and len(status["details"]["causes"]) == len(texts), status
        assert kind.api.post(kind.path(ns), {**kind.head, "metadata": {"name": "foo"}, **good}).code == 201
        kind.delete("foo", ns)


def test_members_named_as_keywords(types, ns):
    """CRE-12: TestCustomResourceItemsValidation: members may have the names items and type"""
    def members(**properties):
        return {"type": "object", "properties": properties}

    def items(schema):
        return {"type": "array", "items": schema}

    named = types.pods(schema=members(
        one=members(items=items(members())), two=members(items=items(items(members()))),
                                      three=members(items=items(members(items=items(members())))),
        four=members(type={"type": "string"}), five=members(items=items(members()), type={"type": "string"}),
        six=members(volumes=items(members(downwardAPI=members(items=items(members(path={"type": "string"}))))))))
    document = {"one": {"items": [{}]}, "two": {"items": [[{}]]}, "three": {"items": [{"items": [{}]}]},
                "four": {"type": "array"},
                "five": {"items": [{}], "type": "array"},
                "six": {"volumes": [{"downwardAPI": {"items": [{"path": "annotations"}]}}]}}
    assert content(named.api.create(named.resource, {**named.pod("foo"), **document}, ns)) == document


def test_zero_values(types, ns):
    """CRE-12, MODEL-02: TestZeroValueValidation: zero values are valid, are stored, and can be defaults"""
    zeros = {"string": ({"type": "string"}, ""), "boolean": ({"type": "boolean"}, False),
             "number": ({"type": "number"}, 0), "integer": ({"type": "integer"}, 0),
             "array": ({"type": "array", "items": {"type": "string"}}, []),
             "object": ({"type": "object", "properties": {"a": {"type": "string"}}}, {})}
    properties, given, defaulted = {}, {}, {}
    for name, (schema, zero) in zeros.items():
        properties |= {name: schema, name + "_default": {**schema, "default": zero},
                       name + "_null": {**schema, "nullable": True}}
        given |= {name: zero, name + "_null": None}
        defaulted[name + "_default"] = zero
    kind = types.pods(schema={"type": "object", "properties": properties})
    stored = content(kind.api.create(kind.resource, {**kind.pod("foo"), **given}, ns))
    # Compare JSON: in Python 0, 0.0 and False are equal.
    assert json.dumps(stored, sort_keys=True) == json.dumps({**given, **defaulted}, sort_keys=True)


def test_validation_of_updates(pods, ns):
    """
    CRE-12, PAT-06, UPD-07: TestCustomResourceUpdateValidation: updates and patches are validated as creates are
    """
    stored = pods.create("foo", ns, node="a")
    path = pods.path(ns, "foo")
    for answer in (pods.api.put(path, {**stored, "spec": {"nodeName": 5}}),
                   pods.api.patch(path, {"spec": {"nodeName": 5}}),
                   pods.api.patch(path, [{"op": "replace", "path": "/spec/nodeName", "value": 5}], kind=JSON_PATCH),
                   pods.api.patch(path, {"spec": {"nodeName": 5}}, dryRun="All")):
        status = failure(answer, 422, "Invalid")
        assert status["details"]["causes"] == [{"reason": "FieldValueTypeInvalid", "field": "spec.nodeName",
                                                "message": 'Invalid value: "integer": spec.nodeName in body must be of '
                                                'type string: "integer"'}]
    assert pods.api.get(path).json == stored


# ---- objectmeta_test.go, validation of metadata: pkg/api/validation/objectmeta_test.go ----

OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"}
METADATA = [
    ({"labels": {"a/b/c": "d"}}, "metadata.labels"), ({"labels": {"a": "b c"}}, "metadata.labels"),
            ({"labels": {"-a": "b"}}, "metadata.labels"),
    ({"labels": {"": "b"}}, "metadata.labels"), ({"labels": {"a" * 64: "b"}}, "metadata.labels"),
            ({"annotations": {"a/b/c": "d"}}, "metadata.annotations"),
    ({"annotations": {"a": "x" * 262145}}, "metadata.annotations"),
            ({"finalizers": ["not qualified"]}, "metadata.finalizers"), ({"finalizers": [""]}, "metadata.finalizers"),
    ({"finalizers": ["orphan", "foregroundDeletion"]}, "metadata.finalizers"),
            ({"ownerReferences": [{**OWNER, "apiVersion": ""}]}, "metadata.ownerReferences"),
    ({"ownerReferences": [{**OWNER, "kind": ""}]}, "metadata.ownerReferences"),
            ({"ownerReferences": [{**OWNER, "name": ""}]}, "metadata.ownerReferences"),
    ({"ownerReferences": [{**OWNER, "uid": ""}]}, "metadata.ownerReferences"),
            ({"ownerReferences": [{**OWNER, "apiVersion": "a/b/c"}]}, "metadata.ownerReferences"),
    ({"ownerReferences": [{**OWNER, "kind": "Event"}]}, "metadata.ownerReferences"),
    ({"ownerReferences": [{**OWNER, "controller": True}, {**OWNER, "uid": "2", "name": "q", "controller": True}]},
     "metadata.ownerReferences"),
    ({"name": "a" * 254}, "metadata.name"), ({"name": "A"}, "metadata.name"), ({"name": "a_b"}, "metadata.name"),
            ({"name": "a."}, "metadata.name"),
]


@pytest.mark.parametrize("change, field", METADATA)
def test_object_meta(pods, ns, change, field):
    """
    CRE-05, CRE-08, UPD-02: TestPostInvalidObjectMeta, TestValidateObjectMetaOwnerReferences, TestValidateAnnotations,
    testCreateValidatesNames, TestValidateFinalizersPreventConflictingFinalizers: creates and patches with invalid
    metadata are refused
    """
    document = pods.pod("foo")
    document["metadata"].update(change)
    status = failure(pods.api.post(pods.path(ns), document), 422, "Invalid")
    assert all(cause["field"].startswith(field) for cause in status["details"]["causes"])
    if "name" not in change:
        stored = pods.create("foo", ns)
        failure(pods.api.patch(pods.path(ns, "foo"), {"metadata": change}), 422, "Invalid")
        assert pods.api.get(pods.path(ns, "foo")).json == stored
    assert len(pods.list(ns)["items"]) == ("name" not in change)


@pytest.mark.parametrize("change", [
    {"labels": {"example.com/a": "", "b": "c.d-e_f"}},
                                    {"annotations": {"A": "any thing ✓", "example.com/x": "y" * 1000}},
                                    {"annotations": {"a": "x" * 262143}},
    {"finalizers": ["example.com/a", "orphan"]},
                                    {"ownerReferences": [OWNER, {**OWNER, "uid": "2", "controller": True,
        "blockOwnerDeletion": True}]},
    {"ownerReferences": [{**OWNER, "apiVersion": "apps/v1", "controller": False}]}])
def test_valid_object_meta(pods, ns, change):
    """CRE-08, GC-08: valid metadata is stored unchanged"""
    document = pods.pod("foo")
    document["metadata"].update(change)
    stored = pods.api.create(pods.resource, document, ns)
    for key, value in change.items():
        assert stored["metadata"][key] == value
