"""YAML bodies and answers (conformance 7, 8.1, 11.1)."""

import json

import pytest
import yaml

from client import PARTIAL, POLR, failure, path_of, report, result

YAML = "application/yaml"

# Strings that some readers of YAML take for other values, or that break a line or a scalar.
STRANGE = ["", " ", "yes", "No", "y", "on", "off", "true", "null", "~", "1", "-1", "+1", "007", "0o7", "0x1F", "0b1",
           "1_000", "1.5", ".5",
           "1e3", "1e999", ".inf", ".NaN", "1:30", "190:20:30.15", "2001-12-14", "2001-12-14T21:59:43Z", "<<", "=",
           "- a", "a: b", "a:", "a #b",
           "#a", "'", "\"", "\\", "[a]", "{a}", "*a", "&a", "!a", "%a", "@a", "`a", "|", ">", "---", "...",
           "a\tb", "a\nb", "a\nb\n",
           "a\n\n", "\na", " a\nb", "a\n  b\n\nc ", "\u0085", "\u2028", "\ufeff", "\u0007", "\u007f",
           "\U0001f600", "é", "x" * 3000]


def post_yaml(api, ns, text, **query):
    return api.request("POST", path_of(POLR, ns), text, headers={"Content-Type": YAML}, **query)


def body_of(ns, name="r1", more=""):
    return (f"apiVersion: wgpolicyk8s.io/v1alpha2\nkind: PolicyReport\nmetadata:\n  name: {name}\n  namespace: {ns}\n"
            f"summary:\n  pass: 0o17\n{more}")


def test_create(api, ns):
    """
    REQ-02, FV-01: TestCreateYAML: a body of YAML 1.1 as Kubernetes reads it: octal numbers, merge keys, keys that
    become strings, one document
    """
    more = ("results:\n- &first\n  policy: a\n  result: pass\n  message: |\n    two\n    lines\n  properties: &p {yes: "
            "\"on\", 017: x, 1.5: w}\n"
            "- {<<: *first, policy: b}\n- policy: c\n  properties: *p\n--- # what follows is not looked at\n]\n")
    answer = post_yaml(api, ns, body_of(ns, more=more), fieldValidation="Ignore")
    assert answer.code == 201, answer
    stored = answer.json
    assert stored["summary"]["pass"] == 15
    first, second, third = stored["results"]
    assert first["message"] == "two\nlines\n" and second == {**first, "policy": "b"}
    assert first["properties"] == third["properties"] == {"true": "on", "15": "x", "1.5": "w"}
    assert api.get(path_of(POLR, ns, "r1")).json == stored
    headers = {"Content-Type": YAML, "Accept": "application/yaml, application/json"}
    answer = api.request("POST", path_of(POLR, ns), body_of(ns, "r2"), headers=headers)
    assert answer.code == 201 and answer.headers["Content-Type"] == YAML and answer.body[:1] != b"{"
    assert yaml.load(answer.body, yaml.CSafeLoader) == api.get(path_of(POLR, ns, "r2")).json


def test_update_and_parameters(api, ns):
    """REQ-02: parameters of the content type are ignored; an update and DeleteOptions may be YAML, too"""
    stored = post_yaml(api, ns, body_of(ns)).json
    stored["summary"]["fail"] = 3
    answer = api.request("PUT", path_of(POLR, ns, "r1"), yaml.safe_dump(stored),
                         headers={"Content-Type": "application/YAML; charset=utf-8"})
    assert answer.code == 200 and answer.json["summary"]["fail"] == 3, answer
    options = {"Content-Type": YAML}
    answer = api.request("DELETE", path_of(POLR, ns, "r1"),
                         "preconditions:\n  resourceVersion: \"1\"\n", headers=options)
    failure(answer, 409, "Conflict")
    answer = api.request("DELETE", path_of(POLR, ns, "r1"), "preconditions: [", headers=options)
    assert failure(answer, 400, "BadRequest")["message"].startswith("yaml: ")
    answer = api.request("DELETE", path_of(POLR, ns, "r1"), "propagationPolicy: Background\n", headers=options)
    assert answer.code == 200, answer
    answer = api.request("DELETE", path_of(POLR, ns), "dryRun: [All]\n", headers=options)
    assert answer.code == 200, answer


@pytest.mark.parametrize("text, words", [
    ("a: b: c\n", "yaml: mapping values are not allowed in this context"),
    ("a:\n\t- b\n", "yaml: line 2: found character that cannot start any token"),
    ("a: *nothing\n", "yaml: unknown anchor 'nothing' referenced"),
    ("a: &a\n  b: *a\n", "yaml: anchor 'a' value contains itself"),
    ("a: .nan\n", "json: unsupported value: NaN"),
    ("{{ .x }}: 1\n", "yaml: invalid map key: map[interface {}]interface {}{\".x\":interface {}(nil)}"),
    ("[" * 2000, "yaml: exceeded max depth of 1000"),
    ("a: &a [x,x,x,x,x,x,x,x,x]\n"
     + "".join(f"{name}: &{name} [{','.join(['*' + chr(ord(name) - 1)] * 9)}]\n" for name in "bcdefghi"),
     "yaml: document contains excessive aliasing"),
    ("a: &a '" + "x" * 1000000 + "'\nb: [" + "*a," * 90 + "]\n", "yaml: document contains excessive aliasing"),
])
def test_what_cannot_be_read(api, ns, text, words):
    """REQ-05, REQ-08: the message has upstream's words, and the first bytes of the body"""
    status = failure(post_yaml(api, ns, text), 400, "BadRequest")
    message = f"the object provided is unrecognized (must be of type PolicyReport): {words} ("
    assert status["message"].startswith(message)
    if text[0] != "{":
        assert status["message"][len(message):] == (text[:30].encode().hex() + (" ...)" if len(text) > 30 else ")"))


def test_long_complaints(api, ns):
    """REQ-08: the message quotes only a part of the body"""
    for text in ("a: *" + "x" * 1000000, "{{" + "x" * 1000000 + "}: 1}: 1", "a: !!int " + "x" * 1000000,
                 "'" + "x" * 500000 + "': 1\n" * 2):
        assert len(failure(post_yaml(api, ns, text), 400, "BadRequest")["message"]) < 10000


def test_order_of_errors(api, ns):
    """
    CRE-01: mistakes in the Accept header, the content type and the options are reported before a body that cannot be
    read
    """
    path = path_of(POLR, ns)
    failure(api.request("POST", path, "a: [", headers={"Content-Type": YAML, "Accept": "image/png"}),
            406, "NotAcceptable")
    failure(api.request("POST", path, "a: [", headers={"Content-Type": "application/x-yaml"}), 415,
            "UnsupportedMediaType")
    failure(post_yaml(api, ns, "a: [", dryRun="x"), 422, "Invalid")
    failure(post_yaml(api, ns, "a: ["), 400, "BadRequest")


def test_duplicates(api, ns):
    """FV-01, FV-02: TestFieldValidation, its rows in YAML: keys that are set twice, on create and update"""
    text = body_of(ns, more="  fail: 1\n  fail: 2\nscope:\n  name: a\n  name: b\nfoo: 1\n")
    first, second = "line 9: key \"fail\" already set in map", "line 12: key \"name\" already set in map"
    status = failure(post_yaml(api, ns, text, fieldValidation="Strict"), 400, "BadRequest")
    assert status["message"] == ("PolicyReport in version \"v1alpha2\" cannot be handled as a PolicyReport: strict "
                                 "decoding error: "
                                 f"yaml: unmarshal errors:\n  {first}\n  {second}, unknown field \"foo\"")
    answer = post_yaml(api, ns, text)
    assert answer.code == 201 and answer.json["summary"]["fail"] == 2 and answer.json["scope"]["name"] == "b", answer
    quoted = ["299 - \"" + text.replace("\"", "\\\"") + "\"" for text in (first, second, "unknown field \"foo\"")]
    assert answer.warnings == quoted
    answer = post_yaml(api, ns, text.replace("r1", "r2"), fieldValidation="Ignore")
    assert answer.code == 201 and answer.warnings == [], answer
    # The update has one line more before these, the version.
    text = text.replace("metadata:\n",
                        f"metadata:\n  resourceVersion: '{answer.json['metadata']['resourceVersion']}'\n").replace("r1",
        "r2")
    for mode, code, words in (("Strict", 400, None), ("Ignore", 200, []),
                              ("Warn", 200, [text.replace("line 9", "line 10").replace("line 12", "line 13")
                                             for text in quoted])):
        answer = api.request("PUT", path_of(POLR, ns, "r2"), text, headers={"Content-Type": YAML}, fieldValidation=mode)
        assert answer.code == code, answer
        if words is None:
            message = failure(answer, 400, "BadRequest")["message"]
            assert ('line 10: key "fail" already set in map\n  line 13: key "name" already set in map, unknown field '
                    '"foo"' in message)
        else:
            assert answer.warnings == words


def test_body_limit(api, ns):
    """REQ-01: TestLimits: the limit counts the bytes that were sent"""
    failure(post_yaml(api, ns, body_of(ns, more="#" * 3145728)), 413, "RequestEntityTooLarge")
    assert post_yaml(api, ns, body_of(ns, more="#" * 3000000)).code == 201


@pytest.fixture
def strange(api, ns):
    """A report with all the strange strings, as values and as keys."""
    properties = {f"k{number}": text for number, text in enumerate(STRANGE)} | {text: "v" for text in STRANGE}
    return api.create(POLR, report("r1",
                                   results=[result(message=text) for text in STRANGE]
                                   + [result(properties=properties)]), ns)


def test_answers(api, strange, ns):
    """NEG-03: get, list and the answers to writes are YAML that a YAML 1.1 reader takes for the same document"""
    answer = api.get(path_of(POLR, ns, "r1"), accept=YAML)
    assert answer.code == 200 and answer.headers["Content-Type"] == YAML
    assert yaml.load(answer.body, yaml.CSafeLoader) == yaml.safe_load(answer.body) == strange
    lines = answer.body.decode().splitlines()
    assert [line.split(":")[0] for line in lines if line[:1] not in ("", " ", "-")] == sorted(strange)
    assert "results:" in lines and lines[lines.index("results:") + 1].startswith("- ")

    answer = api.get(path_of(POLR, ns), accept=YAML, pretty="true")
    assert answer.code == 200 and answer.headers["Content-Type"] == YAML
    assert yaml.safe_load(answer.body) == api.get(path_of(POLR, ns)).json

    again = {**strange, "metadata": {"name": "r2"}}
    answer = api.request("POST", path_of(POLR, ns), again, headers={"Accept": YAML}, fieldValidation="Strict")
    assert answer.code == 201 and answer.headers["Content-Type"] == YAML, answer
    assert yaml.safe_load(answer.body)["results"] == strange["results"]
    answer = api.request("DELETE", path_of(POLR, ns, "r2"), headers={"Accept": YAML})
    assert answer.code == 200 and yaml.safe_load(answer.body)["status"] == "Success"


def test_own_answer_can_be_sent_back(api, strange, ns):
    """NEG-03: the server reads its own YAML as the same object"""
    text = api.get(path_of(POLR, ns, "r1"), accept=YAML).body
    answer = api.request("PUT", path_of(POLR, ns, "r1"), text, headers={"Content-Type": YAML}, fieldValidation="Strict")
    assert answer.code == 200 and answer.json == strange and answer.warnings == []


@pytest.mark.parametrize("accept", ["application/yaml", "application/yaml, application/json",
                                    "application/json;q=0.5, application/yaml;q=0.6",
                                    "application/vnd.kubernetes.protobuf, application/yaml",
                                    "text/html, application/yaml;pretty=1"])
def test_chosen(api, ns, accept):
    """NEG-01"""
    assert api.get(path_of(POLR, ns), accept=accept).headers["Content-Type"] == YAML


@pytest.mark.parametrize("accept", ["application/json, application/yaml", "*/*", "application/*",
                                    "application/yaml;q=0.4, */*;q=0.5",
                                    "application/yaml;as=Nothing;g=meta.k8s.io;v=v1, application/json"])
def test_not_chosen(api, ns, accept):
    """NEG-01, NEG-02"""
    assert api.get(path_of(POLR, ns), accept=accept).headers["Content-Type"] == "application/json"


def test_transforms(api, strange, ns):
    """NEG-02: as= works with YAML as with JSON"""
    table = yaml.safe_load(api.get(path_of(POLR, ns), accept="application/yaml;as=Table;v=v1;g=meta.k8s.io").body)
    assert table["kind"] == "Table" and len(table["rows"]) == 1 and len(table["rows"][0]["cells"]) == len(
        table["columnDefinitions"])
    partial = yaml.safe_load(api.get(path_of(POLR, ns, "r1"), accept=PARTIAL.replace("json", "yaml")).body)
    assert partial == {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": strange["metadata"]}


def test_errors(api, ns):
    """ERR-03: a Status has the negotiated media type; as= does not apply to it"""
    answer = api.get(path_of(POLR, ns, "missing"), accept=YAML)
    status = yaml.safe_load(answer.body)
    assert answer.headers["Content-Type"] == YAML and (answer.code, status["code"],
                                                       status["reason"]) == (404, 404, "NotFound")
    answer = api.get("/apis/wgpolicyk8s.io/v1alpha2/nothing", accept=YAML)
    assert yaml.safe_load(answer.body)["message"] == "the server could not find the requested resource"
    answer = api.get(path_of(POLR, ns, "missing"),
                     accept="application/yaml;as=Table;v=v1;g=meta.k8s.io, application/json")
    failure(answer, 404, "NotFound")


def test_texts(api, ns):
    """NEG-05, REQ-02: errors name the media types that are offered"""
    status = failure(api.get(path_of(POLR, ns), accept="image/png"), 406, "NotAcceptable")
    assert status["message"] == "only the following media types are accepted: application/json, application/yaml"
    answer = api.request("POST", path_of(POLR, ns), "x", headers={"Content-Type": "text/plain"})
    assert failure(answer, 415, "UnsupportedMediaType")["message"] == (
        "the body of the request was in an unknown format - accepted media types include: application/json, "
        "application/yaml")


def test_watch(api, ns):
    """W-05: there is no watch in YAML"""
    answer = api.get(path_of(POLR, ns), accept="application/yaml;stream=watch", watch="true")
    assert answer.code == 406 and yaml.safe_load(answer.body)["reason"] == "NotAcceptable"
    with api.watch(path_of(POLR, ns), accept="application/yaml, application/json", timeoutSeconds=1) as watch:
        assert watch.code == 200 and watch.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("path, more", [("/apis", ""), ("/api", ""), ("/apis/wgpolicyk8s.io", ""),
                                        ("/apis/wgpolicyk8s.io/v1alpha2", ""),
                                        ("/apis", ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")])
def test_discovery(api, path, more):
    """DISC-16"""
    answer = api.get(path, accept=YAML + more, timeout="32s")
    assert answer.code == 200 and answer.headers["Content-Type"] == YAML + more
    assert yaml.safe_load(answer.body) == api.get(path, accept="application/json" + more).json
    failure(api.get("/apis", accept="image/png"), 406, "NotAcceptable")


def test_large_list(api, stack, ns):
    """NEG-03, LIST-01: a list of several pieces becomes YAML piece by piece"""
    bulk = "x" * 20000
    for number in range(120):
        api.create(POLR, report(f"r{number:03}", results=[result(message=f"{bulk}: {number}\n- b")]), ns)
    plain = api.get(path_of(POLR, ns)).json
    answer = api.get(path_of(POLR, ns), accept=YAML)
    assert answer.headers["Transfer-Encoding"] == "chunked" and answer.headers["Content-Type"] == YAML
    assert yaml.load(answer.body, yaml.CSafeLoader) == plain
    page = yaml.load(api.get(path_of(POLR, ns), accept=YAML, limit=100).body, yaml.CSafeLoader)
    assert len(page["items"]) == 100 and page["metadata"]["remainingItemCount"] == 20
    head = api.request("HEAD", path_of(POLR, ns), headers={"Accept": YAML})
    assert (head.code, head.headers["Content-Type"], head.body) == (200, YAML, b"")


def test_json_stays_json(api, ns):
    """MODEL-02: a document is not changed by the way through YAML"""
    document = report("r1", results=[result(properties={"a": json.dumps([1, 2.5, 1e21])})], )
    document["metadata"]["annotations"] = {"n": "1", "b": "true"}
    stored = api.create(POLR, document, ns)
    assert yaml.safe_load(api.get(path_of(POLR, ns, "r1"), accept=YAML).body) == stored


def test_many_anchors(api, ns):
    """
    REQ-05, TR-07: anchors whose names share a chain of a hash table, and one name given again and again, do not take
    long
    """
    # These two names share a chain in a table without a seed: FNV-1a, 13 bits.
    text = body_of(ns, more="x:\n- &wjp 1\n" + "- &a 1\n" * 150000 + "- *wjp\n" * 150000)
    answer = api.request("POST", path_of(POLR, ns), text, headers={"Content-Type": YAML}, seconds=20)
    assert answer.code == 201 and answer.warnings == ['299 - "unknown field \\"x\\""'], answer
    text = body_of(ns, "r2", "x:\n" + "".join(f"- &n{number} 1\n- *n{number}\n" for number in range(50000)))
    assert api.request("POST", path_of(POLR, ns), text, headers={"Content-Type": YAML}, seconds=20).code == 201
