"""CEL rules (x-kubernetes-validations): a type that has some is served; they are named, and not evaluated."""

import copy
import json

import pytest

from client import JSON_PATCH, MERGE, path_of, until
from conftest import checks_of_c

APPLY = "application/apply-patch+yaml"
WORDS = "x-kubernetes-validations are not evaluated: "
RULE = "self.low <= self.high"

SCHEMA = {
    "type": "object",
    "x-kubernetes-validations": [{"rule": "has(self.spec)", "message": "a spec is needed"}],
    "properties": {
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
        "spec": {
            "type": "object",
            "x-kubernetes-validations": [{"rule": RULE}, {"rule": "self.low > 0 &&\n\t  self.high > 0"}],
            "properties": {
                "low": {"type": "integer"}, "high": {"type": "integer"},
                "list": {"type": "array", "items": {
                    "type": "string", "x-kubernetes-validations": [{"rule": "self != \"\""}]}},
                "map": {"type": "object", "additionalProperties": {
                    "type": "string", "x-kubernetes-validations": [{"rule": "self.size() < 9"}]}}}}}}

RULES = ["has(self.spec)", f"spec: {RULE}", "spec: self.low > 0 && self.high > 0", 'spec.list[*]: self != ""',
         "spec.map.*: self.size() < 9"]


def crd(plural, schema):
    kind = plural.capitalize()
    names = {"plural": plural, "singular": plural, "kind": kind, "listKind": kind + "List"}
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
               "schema": {"openAPIV3Schema": schema}}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.rules.example"},
            "spec": {"group": "rules.example", "scope": "Namespaced", "names": names, "versions": [version]}}


def register(stack, document):
    return stack.database.psql(f"SELECT kube_reports.register_crd($crd${json.dumps(document)}$crd$::jsonb)",
                               check=False)


@pytest.fixture
def serve(stack, api):
    """Registers a type with this schema; returns the path of its collection, and what the database said."""
    registered = []

    def begin(plural, schema, ns):
        done = register(stack, crd(plural, schema))
        assert done.code == 0, done.err
        registered.append(f"{plural}.rules.example")
        path = path_of(f"rules.example/v1/{plural}", ns)
        until(lambda: all(api.get(path).code == 200 for _ in range(20)), 10, "the type, in every worker")
        return path, done.err

    yield begin
    for name in registered:
        stack.unregister(name)


def document(name, **spec):
    return {"apiVersion": "rules.example/v1", "kind": "Limits", "metadata": {"name": name}, "spec": spec}


def told(answer):
    """Returns the one warning about rules, without its quotes."""
    [warning] = [text for text in answer.warnings if WORDS in text]
    return json.loads(warning[len("299 - "):])


@checks_of_c
def test_rules_are_named(api, serve, ns):
    """WARN-01: a WARNING at registration names all rules, and so does a header of every write that may break them"""
    path, said = serve("limits", SCHEMA, ns)
    assert "WARNING:  x-kubernetes-validations of limits.rules.example, version v1, are not evaluated" in said
    for rule in RULES:
        assert rule in said, said

    words = WORDS + "; ".join(RULES)
    answer = api.post(path, document("a", low=9, high=1, list=[""]))
    assert answer.code == 201 and told(answer) == words
    stored = answer.json
    assert told(api.post(path, document("b"), dryRun="All")) == words
    assert told(api.put(path + "/a", stored)) == words
    for kind, patch in ((MERGE, {"spec": {"low": 10}}),
                        (JSON_PATCH, [{"op": "add", "path": "/spec/low", "value": 11}])):
        answer = api.patch(path + "/a", patch, kind=kind)
        assert answer.code == 200 and told(answer) == words
    answer = api.patch(path + "/c", document("c", low=3, high=2), kind=APPLY, fieldManager="m")
    assert answer.code == 201 and told(answer) == words
    answer = api.patch(path + "/a/status", {"status": {"phase": "x"}})
    assert answer.code == 200 and told(answer) == words
    for answer in (api.get(path + "/a"), api.get(path), api.delete(path + "/a"), api.delete(path)):
        assert answer.code == 200 and answer.warnings == []


@checks_of_c
def test_the_warning_is_bounded(api, serve, ns):
    """WARN-01: the warning is bounded, however many and long the rules are, and whatever other warnings there are"""
    schema = copy.deepcopy(SCHEMA)
    schema["properties"]["spec"]["x-kubernetes-validations"] = [
        {"rule": f"self.low != {number} || {'x' * 5000}"} for number in range(500)]
    path, said = serve("limits", schema, ns)
    assert "self.low != 499" in said
    answer = api.post(path, document("a", low=1))
    assert answer.code == 201
    words = told(answer)
    assert words.startswith(WORDS + "has(self.spec); spec: self.low != 0")
    assert words.endswith(" more") and len(words) <= 1300
    answer = api.post(path, document("b", **{f"unknown{number}": 1 for number in range(1000)}))
    assert answer.code == 201 and told(answer).startswith(WORDS)
    assert sum(len(text) for text in answer.warnings) < 3 * 4096


def test_rules_follow_the_schema(api, stack, serve, ns):
    """A type that is registered again without rules gives no warning"""
    path, _ = serve("limits", SCHEMA, ns)
    schema = json.loads(json.dumps(SCHEMA).replace("x-kubernetes-validations", "x"))

    def strip(node):
        if isinstance(node, dict):
            node.pop("x", None)
            for value in node.values():
                strip(value)

    strip(schema)
    done = register(stack, crd("limits", schema))
    assert done.code == 0 and "WARNING" not in done.err
    until(lambda: all(api.post(path, document("a"), dryRun="All").warnings == [] for _ in range(20)), 10,
          "the new schema, in every worker")


def test_rules_are_published(api, serve, ns):
    """OAPI-12: the published schema has the rules, for clients that evaluate them"""
    serve("limits", SCHEMA, ns)

    def published():
        found = api.get("/openapi/v3/apis/rules.example/v1").json
        return json.dumps(found).count("x-kubernetes-validations") == 4

    until(published, 10, "the rules in OpenAPI v3")
