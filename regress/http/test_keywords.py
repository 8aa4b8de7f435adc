"""
Every keyword of a structural schema: enforced with upstream's error type and field path, or refused by register_crd.
"""

import copy
import json
import pathlib

import pytest

from client import TABLE, failure, path_of, until
from conftest import checks_of_c

CRD = json.loads((pathlib.Path(__file__).resolve().parents[1] / "crds" / "keywords.json").read_text())
GROUP = CRD["spec"]["group"]
KEYWORDS = f"{GROUP}/v1/keywords"
SCHEMA = CRD["spec"]["versions"][2]["schema"]["openAPIV3Schema"]

# All keywords of JSONSchemaProps of apiextensions.k8s.io/v1 that are kept.
SUPPORTED = {
    "additionalProperties", "allOf", "anyOf", "default", "description", "enum", "example", "exclusiveMaximum",
             "exclusiveMinimum", "externalDocs",
    "format", "items", "maxItems", "maxLength", "maxProperties", "maximum", "minItems", "minLength", "minProperties",
             "minimum", "multipleOf", "not",
    "nullable", "oneOf", "pattern", "properties", "required", "title", "type", "uniqueItems",
             "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string", "x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields"}

INVALID, TYPE, REQUIRED, UNSUPPORTED = ("FieldValueInvalid", "FieldValueTypeInvalid", "FieldValueRequired",
                                        "FieldValueNotSupported")
DUPLICATE, LONG, MANY = "FieldValueDuplicate", "FieldValueTooLong", "FieldValueTooMany"

TEMPLATE = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}}, "anything": [1]}

# Keyword, valid spec, invalid spec, errors of the invalid one.
CASES = [
    ("type string", {"text": "abc"}, {"text": 5}, [(TYPE, "spec.text")]),
    ("type integer", {"small": 3}, {"small": 1.5}, [(TYPE, "spec.small"), (INVALID, "<nil>")]),
    ("type number", {"precise": 1}, {"precise": "1"}, [(TYPE, "spec.precise")]),
    ("type boolean", {"flag": True}, {"flag": "true"}, [(TYPE, "spec.flag")]),
    ("type array", {"list": ["a"]}, {"list": {"a": 1}}, [(TYPE, "spec.list")]),
    ("type object", {"labels": {}}, {"labels": []}, [(TYPE, "spec.labels")]),
    ("required", {}, {"text": ...}, [(REQUIRED, "spec.text")]),
    ("minLength", {"text": "ab"}, {"text": "a"}, [(INVALID, "spec.text")]),
    ("maxLength", {"text": "abcdefgh"}, {"text": "abcdefghi"}, [(LONG, "spec.text")]),
    ("pattern", {"text": "abc"}, {"text": "ABC"}, [(INVALID, "spec.text")]),
    ("enum", {"choice": "two"}, {"choice": "four"}, [(UNSUPPORTED, "spec.choice")]),
    ("minimum", {"count": 0}, {"count": -2}, [(INVALID, "spec.count")]),
    ("maximum", {"count": 10}, {"count": 12}, [(INVALID, "spec.count")]),
    ("multipleOf", {"count": 8}, {"count": 7}, [(INVALID, "spec.count")]),
    ("exclusiveMinimum", {"ratio": 0.01}, {"ratio": 0}, [(INVALID, "spec.ratio")]),
    ("exclusiveMaximum", {"ratio": 0.99}, {"ratio": 1}, [(INVALID, "spec.ratio")]),
    ("format int32", {"small": -2147483648}, {"small": 2147483648}, [(INVALID, "<nil>")]),
    ("format int64", {"large": 9223372036854775807}, {"large": 1e19}, [(TYPE, "spec.large"), (INVALID, "<nil>")]),
    ("format float", {"precise": 1e300}, {"ratio": 1e300}, None),
    ("nullable", {"nullableText": None}, {"list": ["a", None]}, [(TYPE, "spec.list[1]")]),
    ("nullable, not", {}, {"text": None}, [(REQUIRED, "spec.text")]),
    ("minItems", {"list": ["a"]}, {"list": []}, [(INVALID, "spec.list")]),
    ("maxItems", {"list": ["a", "b", "c"]}, {"list": ["a", "b", "c", "d"]}, [(MANY, "spec.list")]),
    ("uniqueItems false", {"list": ["a", "a"]}, None, None),
    ("items", {"list": ["a"]}, {"list": ["a", 1]}, [(TYPE, "spec.list[1]")]),
    ("list type atomic", {"atomicList": [1, 1]}, {"atomicList": ["1"]}, [(TYPE, "spec.atomicList[0]")]),
    ("list type set", {"set": ["a", "b"]}, {"set": ["a", "b", "a"]}, [(DUPLICATE, "spec.set[2]")]),
    ("list type map", {"map": [{"name": "a"}, {"name": "a", "port": 81}]},
     {"map": [{"name": "a", "port": 80}, {"name": "b"}, {"name": "a"}]}, [(DUPLICATE, "spec.map[2]")]),
    ("list map keys", {"singleKeyMap": [{"name": "a"}, {"name": "b"}]},
     {"singleKeyMap": [{"name": "a"}, {"value": "x"}]}, [(REQUIRED, "spec.singleKeyMap[1].name")]),
    ("map type atomic", {"atomicMap": {"a": "x"}}, {"atomicMap": {"a": 1}}, [(TYPE, "spec.atomicMap.a")]),
    ("map type granular", {"granularMap": {"a": "x"}}, {"granularMap": {"a": 1}}, [(TYPE, "spec.granularMap.a")]),
    ("additionalProperties schema", {"labels": {"x": "12345"}}, {"labels": {"x": "123456"}}, [(LONG, "spec.labels.x")]),
    ("additionalProperties true", {"anything": {"x": [1, {}]}}, {"anything": "x"}, [(TYPE, "spec.anything")]),
    ("additionalProperties false", {"nothing": {}}, {"nothing": {"x": 1}}, [(INVALID, "spec.nothing")]),
    ("preserve unknown fields", {"free": {"a": [1, {"b": None}]}},
     {"free": {"known": {"kept": 1}}}, [(TYPE, "spec.free.known.kept")]),
    ("int or string", {"port": "http"}, {"port": True}, [(TYPE, "spec.port"), (INVALID, "<nil>"), (TYPE, "spec.port")]),
    ("int or string, int", {"port": 80}, {"port": "HTTP"}, [(INVALID, "spec.port")]),
    ("embedded resource", {"template": TEMPLATE},
     {"template": {"kind": "Pod"}}, [(REQUIRED, "spec.template.apiVersion")]),
    ("embedded resource, kind", {"embedded": {"apiVersion": "v1", "kind": "X"}}, {"embedded": {"apiVersion": "v1"}},
     [(REQUIRED, "spec.embedded.kind")]),
    ("embedded metadata", {"template": TEMPLATE}, {"template": {**TEMPLATE, "metadata": {"labels": {"a": "b c"}}}},
     [(INVALID, "spec.template.metadata.labels")]),
    ("embedded name", {"template": TEMPLATE},
     {"template": {**TEMPLATE, "metadata": {"name": "a/b"}}}, [(INVALID, "spec.template.metadata.name")]),
    ("anyOf", {"logic": {"any": 8}}, {"logic": {"any": 5}}, [(INVALID, "<nil>"), (INVALID, "spec.logic.any")]),
    ("oneOf, none", {"logic": {"one": {"a": "x"}}},
     {"logic": {"one": {}}}, [(INVALID, "<nil>"), (REQUIRED, "spec.logic.one.a")]),
    ("oneOf, two", {"logic": {"one": {"b": "x"}}}, {"logic": {"one": {"a": "x", "b": "x"}}}, [(INVALID, "<nil>")]),
    ("allOf", {"logic": {"all": "xy"}}, {"logic": {"all": "yy"}}, [(INVALID, "spec.logic.all"), (INVALID, "<nil>")]),
    ("not", {"logic": {"not": "allowed"}}, {"logic": {"not": "forbidden"}}, [(INVALID, "<nil>")]),
    ("unknown format", {"unknownFormat": "anything"}, None, None),
]

# Format: valid value, invalid value (None: every value is valid).
FORMATS = {
    "bsonobjectid": ("507f1f77bcf86cd799439011", "507f1f77"),
    "byte": ("aGVsbG8=", "***"),
    "cidr": ("10.0.0.0/8", "10.0.0.0"),
    "creditcard": ("4111111111111111", "4111-x"),
    "date": ("2024-02-29", "2024-2-29"),
    "date_time": ("2024-02-29T10:00:00Z", "2024-02-29"),
    "duration": ("1h30m", "soon"),
    "email": ("someone@example.com", "someone"),
    "hexcolor": ("#fff000", "#ggg"),
    "hostname": ("www.example.com", "-x-"),
    "ipv4": ("192.0.2.1", "192.0.2.256"),
    "ipv6": ("2001:db8::1", "2001:db8:::1"),
    "isbn": ("978-3-16-148410-0", "978"),
    "isbn10": ("3836221195", "3836221190"),
    "isbn13": ("9783161484100", "9783161484101"),
    "k8s_long_name": ("a.b-c", "A_b"),
    "k8s_short_name": ("a-b", "a.b"),
    "mac": ("01:23:45:67:89:ab", "01:23:45"),
    "password": ("anything", None),
    "rgbcolor": ("rgb(1,2,3)", "rgb(1,2)"),
    "ssn": ("123-45-6789", "12-345-6789"),
    "uri": ("https://example.com/a", "no uri"),
    "uuid": ("550e8400-e29b-41d4-a716-446655440000", "550e8400"),
    "uuid3": ("6fa459ea-ee8a-3ca4-894e-db77e160355e", "550e8400-e29b-41d4-a716-446655440000"),
    "uuid4": ("550e8400-e29b-41d4-a716-446655440000", "6fa459ea-ee8a-3ca4-894e-db77e160355e"),
    "uuid5": ("886313e1-3b8a-5372-9b90-0c9aee199e5d", "550e8400-e29b-41d4-a716-446655440000"),
}


def register(stack, crd, check=True):
    return stack.database.psql(f"SELECT kube_reports.register_crd($crd${json.dumps(crd)}$crd$::jsonb)", check=check)


def small_crd():
    """Returns a CRD with one version and one string: most refused CRDs are variants of it."""
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "refusals.refused.example"},
            "spec": {"group": "refused.example", "scope": "Namespaced",
                     "names": {"plural": "refusals", "singular": "refusal", "kind": "Refusal",
                               "listKind": "RefusalList"},
                     "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                         "type": "object", "properties": {"spec": {"type": "object",
                             "properties": {"a": {"type": "string"}}}}}}}]}}


@pytest.fixture(scope="module")
def keywords(stack):
    api = stack.first.api()
    register(stack, CRD)
    until(lambda: all(api.get(path_of(KEYWORDS, "ns")).code == 200 for _ in range(20)), 10, "the type, in every worker")
    yield api
    stack.unregister(f"keywords.{GROUP}")


def keyword(spec, name="k", **more):
    """Returns a document with these members of spec, which is valid without them; ... removes a member."""
    full = {"text": "abc", **spec}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Keyword", "metadata": {"name": name},
            "spec": {key: value for key, value in full.items() if value is not ...}, **more}


def causes(answer):
    status = failure(answer, 422, "Invalid")
    assert status["details"]["kind"] == "Keyword" and status["details"]["group"] == GROUP
    return [(cause["reason"], cause["field"]) for cause in status["details"]["causes"]]


def used_keywords(schema):
    """Returns all keywords that a schema uses, with those of its parts."""
    found = set(schema)
    parts = [*schema.get("properties", {}).values()]
    for key in ("items", "not", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            parts.append(schema[key])
    for key in ("allOf", "anyOf", "oneOf"):
        parts += schema.get(key, [])
    return found.union(*map(used_keywords, parts))


def test_the_crd_has_every_keyword():
    assert used_keywords(SCHEMA) == SUPPORTED
    formats = SCHEMA["properties"]["spec"]["properties"]["formats"]["properties"]
    assert formats.keys() == FORMATS.keys()


@pytest.mark.parametrize("name, good, bad, errors", CASES, ids=[case[0] for case in CASES])
def test_keyword(keywords, ns, name, good, bad, errors):
    """CRE-12"""
    stored = keywords.create(KEYWORDS, keyword(good), ns)
    for key, value in good.items():
        if name != "list type map":
            assert stored["spec"][key] == value
    if bad is not None:
        found = causes(keywords.post(path_of(KEYWORDS, ns), keyword(bad, name="bad")))
        assert errors is None or found == errors, found
        # An update is checked in the same way.
        stored["spec"] = keyword(bad)["spec"]
        assert causes(keywords.put(path_of(KEYWORDS, ns, "k"), stored)) == found
    assert keywords.names(KEYWORDS, ns) == ["k"]


@pytest.mark.parametrize("name", FORMATS)
def test_format(keywords, ns, name):
    good, bad = FORMATS[name]
    assert keywords.create(KEYWORDS, keyword({"formats": {name: good}}), ns)["spec"]["formats"] == {name: good}
    if bad is not None:
        answer = keywords.post(path_of(KEYWORDS, ns), keyword({"formats": {name: bad}}, name="bad"))
        assert causes(answer) == [(TYPE, f"spec.formats.{name}")]


def test_deprecated_version(keywords, ns):
    """
    WARN-02: every answer about a deprecated version has the warning, whatever the verb; answers about others have none
    """
    words = '299 - "keywords.example.com/v1alpha1 is deprecated"'
    old = path_of(f"{GROUP}/v1alpha1/keywords", ns)
    document = {**keyword({}), "apiVersion": f"{GROUP}/v1alpha1"}
    made = keywords.post(old, document)
    assert made.code == 201, made
    table = keywords.get(old, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    watch = keywords.watch(old)
    watch.expect(("ADDED", "k"))
    for answer in (made, table, watch, keywords.get(old), keywords.get(f"{old}/k"), keywords.get(f"{old}/nobody"),
                   keywords.put(f"{old}/k", made.json),
                   keywords.patch(f"{old}/k", {"metadata": {"labels": {"a": "b"}}}),
                   keywords.patch(f"{old}/k", {"spec": 5}),
                   keywords.delete(f"{old}/k"), keywords.delete(old)):
        assert (answer.headers.get_all("Warning") or []).count(words) == 1, answer
    watch.close()
    assert not any("deprecated" in warning for warning in keywords.get(path_of(KEYWORDS, ns)).warnings)


def test_words_for_deprecated_versions(keywords, stack, ns):
    """WARN-02: without a warning of its own, a version names the best other version, if that one comes before it"""
    crd = small_crd()
    [version] = crd["spec"]["versions"]
    crd["spec"]["versions"] = [{**version, "name": name, "storage": name == "v1", "served": name != "v3",
                                "deprecated": name not in ("v1", "v3")}
                               for name in ("v1", "v1beta1", "v1alpha1", "v2", "v3")]
    register(stack, crd)
    try:
        path = path_of("refused.example/v2/refusals", ns)
        until(lambda: all(keywords.get(path).code == 200 for _ in range(20)), 10, "the type, in every worker")
        for name, words in (("v1", []), ("v2", ['299 - "refused.example/v2 Refusal is deprecated"']),
                            ("v1beta1", ['299 - "refused.example/v1beta1 Refusal is deprecated; use refused.example/v1 '
                                         'Refusal"']),
                            ("v1alpha1", ['299 - "refused.example/v1alpha1 Refusal is deprecated; use '
                                          'refused.example/v1 Refusal"'])):
            assert keywords.get(path_of(f"refused.example/{name}/refusals", ns)).warnings == words
    finally:
        stack.unregister("refusals.refused.example")


def test_min_and_max_properties(keywords, stack, ns):
    """The members that count are those that would be stored: after pruning and defaulting"""
    unknown = {f"unknown{number}": 1 for number in range(50)}
    assert keywords.create(KEYWORDS, keyword(unknown), ns)["spec"].keys() == {"text", "choice", "count", "flag",
        "nullableWithDefault", "defaults"}
    bounded = small_crd()
    bounded["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].update(
        {"minProperties": 1, "maxProperties": 2, "x-kubernetes-preserve-unknown-fields": True})
    register(stack, bounded)
    try:
        path = path_of("refused.example/v1/refusals", ns)
        until(lambda: all(keywords.get(path).code == 200 for _ in range(20)), 10, "the type, in every worker")
        for spec, reason in (({}, INVALID), ({"a": "x"}, None), ({"a": "x", "b": 1}, None),
                             ({"a": "x", "b": 1, "c": 1}, MANY)):
            answer = keywords.post(path, {"apiVersion": "refused.example/v1", "kind": "Refusal",
                                          "metadata": {"name": f"r{len(spec)}"}, "spec": spec})
            if reason is None:
                assert answer.code == 201, answer
            else:
                assert [(cause["reason"], cause["field"])
                        for cause in failure(answer, 422, "Invalid")["details"]["causes"]] == [(reason, "spec")]
    finally:
        stack.unregister("refusals.refused.example")


def test_messages(keywords, ns):
    """Some texts, word by word"""
    for spec, text in (
            ({"text": "a"}, 'spec.text: Invalid value: "a": spec.text in body should be at least 2 chars long'),
            ({"text": "ABC"}, "spec.text: Invalid value: \"ABC\": spec.text in body should match '^[a-z]+$'"),
            ({"text": "abcdefghi"}, "spec.text: Too long: may not be more than 8 bytes"),
            ({"choice": "x"}, 'spec.choice: Unsupported value: "x": supported values: "one", "two", "three"'),
            ({"count": 12}, "spec.count: Invalid value: 12: spec.count in body should be less than or equal to 10"),
            ({"count": 7}, "spec.count: Invalid value: 7: spec.count in body should be a multiple of 2"),
            ({"list": []}, "spec.list: Invalid value: 0: spec.list in body should have at least 1 items"),
            ({"list": list("abcd")}, "spec.list: Too many: 4: must have at most 3 items"),
            ({"set": ["a", "a"]}, 'spec.set[1]: Duplicate value: "a"'),
            ({"map": [{"name": "a"}, {"name": "a"}]}, 'spec.map[1]: Duplicate value: {"name":"a","port":80}'),
            ({"small": "x"},
             'spec.small: Invalid value: "string": spec.small in body must be of type integer: "string"'),
            ({"formats": {"uuid": "x"}},
             'spec.formats.uuid: Invalid value: "x": spec.formats.uuid in body must be of type uuid: "x"'),
            ({"logic": {"not": "forbidden"}},
             '<nil>: Invalid value: "": "spec.logic.not" must not validate the schema (not)')):
        status = failure(keywords.post(path_of(KEYWORDS, ns), keyword(spec)), 422, "Invalid")
        assert status["message"] == f'Keyword.{GROUP} "k" is invalid: {text}'


def test_defaults(keywords, ns):
    """
    Defaults are set for missing members, also inside of defaults and of list items; a null that is not allowed counts
    as missing
    """
    spec = keywords.create(KEYWORDS,
                           keyword({"defaults": {"items": [{}, {"level": "high"}]}, "choice": None,
                                    "nullableWithDefault": None,
                                              "map": [{"name": "a"}]}), ns)["spec"]
    assert spec["choice"] == "one" and spec["count"] == 4 and spec["flag"] is False
    assert spec["nullableWithDefault"] is None
    assert spec["defaults"] == {"inner": {"a": "x", "b": "y"}, "items": [{"level": "low"}, {"level": "high"}]}
    assert spec["map"] == [{"name": "a", "port": 80}]
    assert keywords.create(KEYWORDS, keyword({}, name="bare"), ns)["spec"] == {
        "text": "abc", "choice": "one", "count": 4, "flag": False, "nullableWithDefault": "set",
        "defaults": {"inner": {"a": "x", "b": "y"}}}


def test_pruning(keywords, ns):
    """Unknown members are removed, unless the schema preserves them or the object around them"""
    document = keyword({"unknown": 1, "free": {"any": {"thing": 1}, "known": {"kept": "x", "lost": 1}},
                        "untyped": {"a": [1]},
                        "nothing": {}, "embedded": {"apiVersion": "v1", "kind": "X",
                                                    "metadata": {"name": "x", "labels": {"a": "b"}},
                                                    "spec": {"a": "x", "b": 1}},
                        "map": [{"name": "a", "lost": 1}], "atomicMap": {"a": "x", "lost": 1}}, other=1)
    stored = keywords.create(KEYWORDS, document, ns)
    assert "other" not in stored
    spec = stored["spec"]
    assert "unknown" not in spec
    assert spec["free"] == {"any": {"thing": 1}, "known": {"kept": "x"}}
    assert spec["untyped"] == {"a": [1]}
    assert spec["embedded"] == {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x", "labels": {"a": "b"}},
                                "spec": {"a": "x"}}
    assert spec["map"] == [{"name": "a", "port": 80}] and spec["atomicMap"] == {"a": "x"}
    document["metadata"]["name"] = "strict"
    status = failure(keywords.post(path_of(KEYWORDS, ns), document, fieldValidation="Strict"), 400, "BadRequest")
    for field in ("other", "spec.unknown", "spec.free.known.lost", "spec.embedded.spec.b", "spec.map[0].lost",
                  "spec.atomicMap.lost"):
        assert f'unknown field "{field}"' in status["message"]


def test_name_in_metadata(keywords, ns):
    """The schema may restrict metadata.name"""
    assert keywords.post(path_of(KEYWORDS, ns), keyword({}, name="a" * 40)).code == 201
    found = causes(keywords.post(path_of(KEYWORDS, ns), keyword({}, name="a" * 41)))
    assert found == [(LONG, "metadata.name")]


def test_versions_and_columns(keywords, ns):
    """A version that is not served does not exist for clients; columns are those of the version"""
    assert keywords.get(f"/apis/{GROUP}/v1beta1").code == 404
    keywords.create(f"{GROUP}/v1alpha1/keywords", {**keyword({}), "apiVersion": f"{GROUP}/v1alpha1"}, ns)
    table = keywords.get(path_of(KEYWORDS, ns), accept=TABLE).json
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Text", "Count", "Ratio",
        "Flag", "Name", "Age"]
    assert table["rows"][0]["cells"][:4] == ["k", "abc", 4, None]
    names = [column["name"] for column
             in keywords.get(path_of(f"{GROUP}/v1alpha1/keywords", ns), accept=TABLE).json["columnDefinitions"]]
    assert names == ["Name", "Age"]


def test_status(keywords, ns):
    """v1 has the subresource status: a create ignores the status"""
    assert "status" not in keywords.create(KEYWORDS, keyword({}, status={"phase": "x"}), ns)
    assert keywords.patch(path_of(KEYWORDS, ns, "k") + "/status",
                          {"status": {"phase": "x"}}).json["status"] == {"phase": "x"}
    assert causes(keywords.patch(path_of(KEYWORDS, ns, "k") + "/status",
                                 {"status": {"phase": 1}})) == [(TYPE, "status.phase")]


# ---- refused ----

AT = "spec.versions[0].schema.openAPIV3Schema"


# Keywords that are put into the schema of spec.a, and the path below it that the error names.
REFUSED_KEYWORDS = [
    ({"x-kubernetes-validations": [{"message": "no rule"}]}, ".x-kubernetes-validations[0].rule"),
    ({"x-kubernetes-validations": {"rule": "true"}}, ".x-kubernetes-validations"),
    ({"anyOf": [{"x-kubernetes-validations": [{"rule": "true"}]}]}, ".anyOf[0].x-kubernetes-validations"),
    ({"$ref": "#/definitions/x"}, ".$ref"),
    ({"$schema": "http://json-schema.org/schema#"}, ".$schema"),
    ({"id": "x"}, ".id"),
    ({"definitions": {"x": {"type": "string"}}}, ".definitions"),
    ({"dependencies": {"x": ["y"]}}, ".dependencies"),
    ({"patternProperties": {"^x": {"type": "string"}}}, ".patternProperties"),
    ({"additionalItems": True}, ".additionalItems"),
    ({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, ".uniqueItems"),
    ({"type": "array", "items": [{"type": "string"}]}, ".items"),
    ({"type": "array"}, ".items"),
    ({"type": "null"}, ".type"),
    ({"type": "file"}, ".type"),
    ({"type": ...}, ".type"),
    ({"type": ["string", "null"]}, ".type"),
    ({"const": "x"}, ".const"),
    ({"readOnly": True}, ".readOnly"),
    ({"x-unknown": True}, ".x-unknown"),
    ({"pattern": "["}, ".pattern"),
    ({"pattern": "a(?=b)"}, ".pattern"),
    ({"minLength": "1"}, ".minLength"),
    ({"maximum": "1"}, ".maximum"),
    ({"default": 1}, ".default"),
    ({"nullable": "yes"}, ".nullable"),
    ({"x-kubernetes-preserve-unknown-fields": False}, ".x-kubernetes-preserve-unknown-fields"),
    ({"x-kubernetes-embedded-resource": True}, ".type"),
    ({"x-kubernetes-list-type": "set"}, ".type"),
    ({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "bag"}, ".x-kubernetes-list-type"),
    ({"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}},
      "x-kubernetes-list-type": "map"},
     ".x-kubernetes-list-map-keys"),
    ({"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}},
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["k"]}, ".items.properties[k].default"),
    ({"x-kubernetes-map-type": "atomic"}, ".type"),
    ({"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": {"type": "string"}},
     ".additionalProperties"),
    ({"anyOf": [{"type": "string"}]}, ".anyOf[0].type"),
    ({"allOf": [{"default": "x"}]}, ".allOf[0].default"),
    ({"oneOf": [{"nullable": True}]}, ".oneOf[0].nullable"),
]


@checks_of_c
@pytest.mark.parametrize("change, path", REFUSED_KEYWORDS,
                         ids=[f"{number}-{'-'.join(case[0])}" for number, case in enumerate(REFUSED_KEYWORDS)])
def test_refused_keyword(stack, change, path):
    crd = small_crd()
    fields = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    changed = {"type": "string", **change}
    fields["a"] = {key: value for key, value in changed.items() if value is not ...}
    refused(stack, crd, f"{AT}.properties[spec].properties[a]{path}: ")


def refused(stack, crd, path):
    done = register(stack, crd, check=False)
    assert done.code != 0
    assert path in done.err, done.err
    assert (stack.database.psql("SELECT count(*) FROM kube_reports.resource_type WHERE \"group\" = 'refused.example'")
            == "0")


def changed(*steps, to):
    """Returns a CRD with another value at a path."""
    crd = small_crd()
    at = crd
    for step in steps[:-1]:
        at = at.setdefault(step, {}) if isinstance(at, dict) else at[step]
    at[steps[-1]] = copy.deepcopy(to)
    return crd


V = ("spec", "versions", 0)
REFUSED_FIELDS = [
    (("spec", "conversion"), {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}},
     "spec.conversion.strategy"),
    (("spec", "preserveUnknownFields"), True, "spec.preserveUnknownFields"),
    (("spec", "scope"), "Global", "spec.scope"),
    (("spec", "group"), "nodots", "spec.group"),
    (("spec", "validation"), {}, "spec.validation"),
    (("metadata", "name"), "other.refused.example", "metadata.name"),
    (("apiVersion",), "apiextensions.k8s.io/v1beta1", "apiVersion"),
    (("kind",), "Deployment", "kind"),
    (("spec", "names", "kind"), "Bad_Kind", "spec.names.kind"),
    (("spec", "names", "plural"), "Refusals", "spec.names.plural"),
    (("spec", "names", "listKind"), "Refusal", "spec.names.listKind"),
    (("spec", "names", "shortNames"), ["Not Short"], "spec.names.shortNames[0]"),
    (("spec", "versions"), [], "spec.versions"),
    ((*V, "storage"), False, "spec.versions"),
    ((*V, "served"), False, "spec.versions"),
    ((*V, "schema"), {}, "spec.versions[0].schema.openAPIV3Schema"),
    ((*V, "subresources"), {"scale": {"specReplicasPath": ".spec.a", "statusReplicasPath": ".status.a"}},
     "spec.versions[0].subresources.scale"),
    ((*V, "selectableFields"), [{"jsonPath": ".spec.a"}], "spec.versions[0].selectableFields"),
    ((*V, "deprecationWarning"), "old", "spec.versions[0].deprecationWarning"),
    ((*V, "additionalPrinterColumns"), [{"name": "A", "type": "text", "jsonPath": ".a"}],
     "spec.versions[0].additionalPrinterColumns[0].type"),
    ((*V, "additionalPrinterColumns"), [{"name": "A", "type": "string", "jsonPath": "a"}],
     "spec.versions[0].additionalPrinterColumns[0].jsonPath"),
    ((*V, "schema", "openAPIV3Schema", "type"), "array", f"{AT}.type"),
    ((*V, "schema", "openAPIV3Schema", "nullable"), True, f"{AT}.nullable"),
    ((*V, "schema", "openAPIV3Schema", "additionalProperties"), True, f"{AT}.additionalProperties"),
    ((*V, "schema", "openAPIV3Schema", "not"), {"properties": {"unseen": {"minLength": 1}}},
     f"{AT}.properties[unseen]"),
    ((*V, "schema", "openAPIV3Schema", "properties", "metadata"),
     {"type": "object", "properties": {"labels": {"type": "object"}}}, f"{AT}.properties[metadata]"),
]


@checks_of_c
@pytest.mark.parametrize("steps, to, path", REFUSED_FIELDS,
                         ids=[f"{number}-{case[2].rpartition('.')[2]}" for number, case in enumerate(REFUSED_FIELDS)])
def test_refused_field(stack, steps, to, path):
    refused(stack, changed(*steps, to=to), f"{path}: ")


@checks_of_c
def test_several_reasons(stack):
    """The error names all reasons at once"""
    crd = changed("spec", "conversion", to={"strategy": "Webhook"})
    crd["spec"]["versions"][0]["subresources"] = {"scale": {}}
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["uniqueItems"] = True
    done = register(stack, crd, check=False)
    for path in ("spec.conversion.strategy", "spec.versions[0].subresources.scale",
                 f"{AT}.properties[spec].uniqueItems"):
        assert path in done.err
