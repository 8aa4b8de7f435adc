"""Messages and limits: what clients see when numbers, names and documents are unusual."""

import json

import pytest

from client import JSON_PATCH, MERGE, POLR, failure, path_of, report, result

NOT_FOUND = "policyreports.wgpolicyk8s.io"


@pytest.mark.parametrize("limit", [2 ** 63 - 1, 2 ** 63 - 2, 2 ** 31, -2 ** 63])
def test_limits_at_the_ends(api, ns, limit):
    """LIST-01, PAGE-01, DC-01: any number of 64 bits is a limit"""
    for name in ("a", "b"):
        api.create(POLR, report(name), ns)
    answer = api.get(path_of(POLR, ns), limit=limit)
    assert answer.code == 200 and [item["metadata"]["name"] for item in answer.json["items"]] == ["a", "b"]
    assert not answer.json["metadata"].get("continue")
    assert api.get(path_of(POLR, ns), limit=limit, watch=1, timeoutSeconds=1, resourceVersion=1).code in (200, 410)
    answer = api.delete(path_of(POLR, ns), limit=limit)
    assert answer.code == 200 and api.names(POLR, ns) == []


@pytest.mark.parametrize("selector, names", [
    ("=", ["a", "b"]), ("==", ["a", "b"]), ("!=", ["a", "b"]), ("=,=", ["a", "b"]), ("=,metadata.name=a", ["a"]),
    ("metadata.name!=a,!=", ["b"]), ("metadata.name=", [])])
def test_nothing_compared_with_nothing(api, ns, selector, names):
    """SEL-10: a comparison without name and value selects everything"""
    for name in ("a", "b"):
        api.create(POLR, report(name), ns)
    assert api.names(POLR, ns, fieldSelector=selector) == names
    with api.watch(path_of(POLR, ns), fieldSelector=selector, resourceVersion=0, timeoutSeconds=1) as watch:
        assert sorted(document["metadata"]["name"] for kind, document in watch.end() if kind == "ADDED") == names


@pytest.mark.parametrize("selector", ["=x", "==x", "!=x", "=,=x"])
def test_nothing_compared_with_something(api, ns, selector):
    """SEL-10"""
    status = failure(api.get(path_of(POLR, ns), fieldSelector=selector), 400, "BadRequest")
    assert "field label not supported" in status["message"]


@pytest.mark.parametrize("escaped, quoted, name", [
    ("a%0Ab", r'"a\nb"', "a\nb"), ("a%FFb", r'"a\xffb"', "a\ufffdb"), ("%C3%28", r'"\xc3("', "\ufffd("),
    ("a%22b", r'"a\"b"', 'a"b'),
    ("a%5Cb", r'"a\\b"', "a\\b"), ("a%7Fb", r'"a\x7fb"', "a\x7fb"), ("a%C2%85b", r'"a\u0085b"', "a\x85b"),
    ("%C3%A9", '"\u00e9"', "\u00e9")])
def test_names_are_quoted_as_by_go(api, ns, escaped, quoted, name):
    """ERR-10: in a 404, whatever the verb; a byte that is not UTF-8 is escaped in quotes, and is U+FFFD elsewhere"""
    path = f"{path_of(POLR, ns)}/{escaped}"
    for answer in (api.get(path), api.get(path + "/other"), api.delete(path), api.patch(path, {}),
                   api.patch(path, [], kind=JSON_PATCH)):
        status = failure(answer, 404, "NotFound")
        assert status["message"] == f"{NOT_FOUND} {quoted} not found" and status["details"]["name"] == name
    status = failure(api.put(path, report("a")), 400, "BadRequest")
    assert status["message"] == f"the name of the object (a) does not match the name on the URL ({name})"


def test_a_name_that_exists_is_quoted(api, ns):
    """CRE-08: the other messages with a name"""
    api.create(POLR, report("r"), ns)
    status = failure(api.post(path_of(POLR, ns), report("r")), 409, "AlreadyExists")
    assert status["message"] == f'{NOT_FOUND} "r" already exists'


def test_nothing_is_cut_at_nul(api, ns):
    """MODEL-04, ERR-10: neither messages nor what is compared end at a NUL"""
    path = path_of(POLR, ns)
    status = failure(api.post(path, report("a\0b")), 422, "Invalid")
    assert status["message"].startswith(
        'PolicyReport.wgpolicyk8s.io "a\\x00b" is invalid: metadata.name: Invalid value: "a\\x00b": ')
    assert status["details"]["name"] == "a\0b"
    status = failure(api.post(path, {**report("a"), "kind": "PolicyReport\0x"}), 422, "Invalid")
    assert status["message"].startswith("PolicyReport\0x.wgpolicyk8s.io ")
    assert status["details"]["kind"] == "PolicyReport\0x"
    status = failure(api.post(path, {**report("a"), "apiVersion": "wgpolicyk8s.io/v1alpha2\0x"}), 400, "BadRequest")
    assert "(wgpolicyk8s.io/v1alpha2\0x) does not match" in status["message"]
    status = failure(api.post(path, {"x\0y": "z"}), 400, "BadRequest")
    assert "Object 'Kind' is missing in '{\"x\\u0000y\": \"z\"}'" in status["message"]
    status = failure(api.post(path, {**report("a"), "x\0y": 1}, fieldValidation="Strict"), 400, "BadRequest")
    assert 'unknown field "x\0y"' in status["message"]
    twice = json.dumps(report("a"))[:-1] + ', "x\\u0000y": 1, "x\\u0000y": 2}'
    status = failure(api.post(path, twice, fieldValidation="Strict"), 400, "BadRequest")
    assert 'duplicate field "x\\x00y"' in status["message"]

    stored = api.create(POLR, report("a"), ns)
    uid, version = stored["metadata"]["uid"], stored["metadata"]["resourceVersion"]
    path += "/a"
    assert "(a\0b) does not match" in failure(api.put(path, report("a\0b")), 400, "BadRequest")["message"]
    for metadata, code, reason in (({"uid": uid + "\0"}, 409, "Conflict"),
                                   ({"resourceVersion": version + "\0"}, 500, None)):
        document = report("a")
        document["metadata"].update({"resourceVersion": version, **metadata})
        answer = api.put(path, document)
        assert answer.code == code and answer.json.get("reason") == reason, answer
    status = failure(api.delete(path, {"preconditions": {"uid": uid + "\0"}}), 409, "Conflict")
    assert f"({uid}\0) does not match" in status["message"]
    assert api.get(path).json == stored


@pytest.mark.parametrize("written", ["1.0", "1e0", "1.5", "-0.0", "99999999999999999999"])
def test_a_number_that_is_no_integer_is_named(api, ns, written):
    """DEL-01: the message has the number as the client wrote it"""
    api.create(POLR, report("a"), ns)
    status = failure(api.delete(path_of(POLR, ns, "a"), '{"gracePeriodSeconds": %s}' % written), 400, "BadRequest")
    assert status["message"] == (f"json: cannot unmarshal number {written} into Go struct field "
                                 "DeleteOptions.gracePeriodSeconds of type int64")


LABELS = '{"op": "add", "path": "/metadata/labels", "value": {"a": "b", "a": "c"}}'
TWICE = ['json patch duplicate field "[0].value.a"']


@pytest.mark.parametrize("operations, fields", [
    ([LABELS], ["metadata.labels.a"]),
    ([LABELS, '{"op": "move", "from": "/metadata/labels", "path": "/metadata/annotations"}'],
     ["metadata.annotations.a"]),
    ([LABELS, '{"op": "copy", "from": "/metadata/labels", "path": "/metadata/annotations"}'],
     ["metadata.annotations.a", "metadata.labels.a"]),
    ([LABELS, '{"op": "add", "path": "/metadata/labels/d", "value": "e"}'], []),
    ([LABELS, '{"op": "test", "path": "/metadata/labels", "value": {"a": "c"}}'], []),
    ([LABELS, '{"op": "remove", "path": "/metadata/labels"}'], [])])
def test_keys_twice_in_a_json_patch(api, ns, operations, fields):
    """FV-01, JP-01: duplicates in a value that no other operation reads also count as duplicates of the document"""
    api.create(POLR, report("a"), ns)
    wanted = sorted([*TWICE, *(f'duplicate field "{field}"' for field in fields)])
    patch = f"[{', '.join(operations)}]"
    answer = api.patch(path_of(POLR, ns, "a"), patch, kind=JSON_PATCH, fieldValidation="Strict")
    status = failure(answer, 422, "Invalid")
    assert all(words in status["message"] for words in wanted)
    answer = api.patch(path_of(POLR, ns, "a"), patch, kind=JSON_PATCH)
    assert answer.code == 200
    assert sorted(warning[len('299 - "'):-1].replace('\\"', '"') for warning in answer.warnings) == wanted
    assert api.patch(path_of(POLR, ns, "a"), f"[{LABELS}]", kind=JSON_PATCH, fieldValidation="Ignore").warnings == []


def test_keys_twice_in_a_merge_patch(api, ns):
    """FV-01, MP-01: duplicates are found everywhere in a merge patch"""
    api.create(POLR, report("a"), ns)
    answer = api.patch(path_of(POLR, ns, "a"), '{"metadata": {"labels": {"a": "b", "a": "c"}}}', kind=MERGE)
    assert answer.warnings == ['299 - "duplicate field \\"metadata.labels.a\\""']


@pytest.mark.parametrize("kind, patch", [
    (JSON_PATCH, [{"op": "remove", "path": "/kind"}]), (MERGE, {"kind": None}), (MERGE, {"kind": ""})])
def test_a_patched_object_without_a_kind_is_quoted_whole(api, ns, kind, patch):
    """MP-02: the error quotes the object with its managed fields"""
    api.create(POLR, report("a", labels={"a": "b"}, results=[result("p")]), ns)
    status = failure(api.patch(path_of(POLR, ns, "a"), patch, kind=kind), 422, "Invalid")
    [cause] = status["details"]["causes"]
    document = json.JSONDecoder().raw_decode(cause["message"].partition(": ")[2])[0]
    assert json.loads(document)["metadata"]["managedFields"][0]["manager"] == "tests"


def indented(answer):
    return answer.body.decode() == json.dumps(answer.json, indent=2, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("agent, query, accept, pretty", [
    ("curl/8.1", "", None, True), ("Wget/1.21", "", None, True), ("Mozilla/5.0 (X11)", "", None, True),
    ("kubectl/v1.36", "", None, False), ("curl/8.1", "?pretty=false", None, False),
    ("kubectl/v1.36", "?pretty=true", None, True), ("kubectl/v1.36", "?pretty=1", None, True),
    ("kubectl/v1.36", "", "application/json;pretty=1", True), ("curl/8.1", "", "application/yaml", False)])
def test_pretty_is_for_every_answer(api, stack, ns, agent, query, accept, pretty):
    """REQ-10: also writes, errors of the extension and of the proxy, the Status of a deletion, discovery"""
    headers = {"User-Agent": agent, "Accept": accept}
    path = path_of(POLR, ns)

    def ask(method, where, body=None, **more):
        where += query.replace("?", "&") if "?" in where else query
        answer = api.request(method, where, body, headers={**headers, **more})
        if accept == "application/yaml":
            assert answer.headers["Content-Type"] == accept and not answer.body.startswith(b"{")
        else:
            assert indented(answer) is pretty, answer
        return answer.code

    assert ask("POST", path, report("a", labels={"a": "b"})) == 201
    assert ask("POST", path, report("a")) == 409
    assert ask("POST", path, {"kind": "x"}) == 400
    assert ask("PUT", path + "/a", report("a", labels={"a": "c"})) == 422
    assert ask("PUT", path + "/a", api.get(path + "/a").json) == 200
    assert ask("PATCH", path + "/a", {"metadata": {"labels": None}}, **{"Content-Type": MERGE}) == 200
    assert ask("PATCH", path + "/a", {}, **{"Content-Type": "text/plain"}) == 415
    assert ask("GET", path + "/b") == 404
    assert ask("GET", path + "/a/other") == 404
    assert ask("GET", path + "/%2E%2E") == 400
    assert ask("GET", path + "?limit=x") == 400
    assert ask("GET", path + "?watch=1&limit=x") == (406 if accept == "application/yaml" else 400)
    assert ask("PATCH", path, {}) == 405
    assert ask("DELETE", path + "/a", {"propagationPolicy": "x"}) == 422
    assert ask("DELETE", path + "/a") == 200
    assert ask("DELETE", path) == 200
    for where in ("/apis", "/apis/wgpolicyk8s.io", "/apis/wgpolicyk8s.io/v1alpha2"):
        assert ask("GET", where) == 200
    nobody = stack.first.api(user=None) if accept is None else None
    if nobody is not None:
        answer = nobody.request("GET", path + query, headers=headers)
        assert answer.code in (401, 403) and indented(answer) is pretty


# ---- differences that are meant: docs/conformance.md lists them ----


def test_equal_numbers(api, ns):
    """UPD-04, MODEL-02: 1.0 for 1 is no change"""
    stored = api.create(POLR, report("a", summary={"pass": 1}), ns)
    for kind, patch in ((MERGE, '{"summary": {"pass": 1.0}}'),
                        (JSON_PATCH, '[{"op": "replace", "path": "/summary/pass", "value": 1e0}]')):
        answer = api.patch(path_of(POLR, ns, "a"), patch, kind=kind)
        assert answer.code == 200 and answer.json == stored


@pytest.mark.parametrize("written, code", [
    ("1e15", 201), ("9007199254740991.0", 201), ("9007199254740992.0", 422), ("1e17", 422), ("1e18", 422),
    ("1000000000000000000", 201)])
def test_large_integers(api, ns, written, code):
    """MODEL-02: with a point or an exponent a number is an integer up to 2^53 - 1, without them up to 2^63 - 1"""
    document = json.dumps(report("a", summary={"pass": "number"})).replace('"number"', written)
    answer = api.post(path_of(POLR, ns), document)
    assert answer.code == code, answer
    if code == 422:
        (cause,) = failure(answer, 422, "Invalid")["details"]["causes"]
        assert cause["field"] == "summary.pass" and "must be of type integer" in cause["message"]


def test_depth(api, ns):
    """REQ-08: a document may have 1,000 levels"""
    document = json.dumps(report("a"))[:-1] + ', "x": %s}'
    answer = api.post(path_of(POLR, ns), document % ("[" * 998 + "]" * 998), dryRun="All")
    assert answer.code == 201
    status = failure(api.post(path_of(POLR, ns), document % ("[" * 1000 + "]" * 1000), dryRun="All"), 400, "BadRequest")
    assert "exceeded max depth" in status["message"]


@pytest.mark.parametrize("name, words", [
    ("%zz", "invalid escape"), ("a%00b", "NUL"), ("%2E", "may not be '.'"), ("%2E%2E", "may not be '..'"),
    ("a%2Fb", "may not contain '/'"), ("a%25b", "may not contain '%'")])
def test_odd_urls(api, ns, name, words):
    """REQ-07: such a URL is refused with every method"""
    for method in ("GET", "DELETE", "PUT", "PATCH"):
        body = None if method in ("GET", "DELETE") else report("a")
        headers = {"Content-Type": MERGE} if method == "PATCH" else None
        answer = api.request(method, f"{path_of(POLR, ns)}/{name}", body, headers=headers)
        assert words in failure(answer, 400, "BadRequest")["message"]
    for query in ("x=%zz", "x=a%00b"):
        failure(api.request("GET", f"{path_of(POLR, ns)}?{query}"), 400, "BadRequest")


@pytest.mark.parametrize("form, member", [("PartialObjectMetadataList", "items"), ("Table", "rows"), (None, "items")])
def test_empty_lists(api, ns, form, member):
    """PART-02, TAB-02: without items, the list has an empty array"""
    accept = "application/json" + (f";as={form};g=meta.k8s.io;v=v1" if form else "")
    assert api.get(path_of(POLR, ns), accept=accept).json[member] == []


@pytest.mark.parametrize("accept", ["text/plain", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"])
def test_what_cannot_be_shown_is_not_written(api, ns, accept):
    """NEG-05"""
    answer = api.request("POST", path_of(POLR, ns), report("a"), headers={"Accept": accept})
    assert answer.code == 406 and api.names(POLR, ns) == []


def test_a_dry_run_has_no_version(api, ns):
    """CRE-06"""
    answer = api.post(path_of(POLR, ns), report("a"), dryRun="All")
    assert answer.code == 201 and "resourceVersion" not in answer.json["metadata"]
    document = report("a")
    document["metadata"]["resourceVersion"] = "5"
    answer = api.post(path_of(POLR, ns), document, dryRun="All")
    assert answer.code == 201 and "resourceVersion" not in answer.json["metadata"]


def test_a_token_of_another_resource(api, ns):
    """PAGE-03: a token whose version is ahead of this resource's own versions is refused with 504"""
    for name in ("a", "b"):
        api.create(POLR, report(name), ns)
    token = api.get(path_of(POLR, ns), limit=1).json["metadata"]["continue"]
    answer = api.get(path_of("kyverno.io/v1alpha2/backgroundscanreports", ns), **{"continue": token})
    status = failure(answer, 504, "Timeout")
    assert "Too large resource version" in status["message"] and answer.headers["Retry-After"] == "1"


@pytest.mark.parametrize("written, stored", [
    (r"\ud800", "\ufffd"), (r"\u007f", "\x7f"), (r"\u0085", "\x85"), (r"\u2028", "\u2028"),
    (r"\ud83d\ude00", "\U0001f600")])
def test_odd_characters_in_an_apply(api, ns, written, stored):
    """SSA-01, MODEL-04"""
    document = report("a")
    document["metadata"]["annotations"] = {"x": "@"}
    document = json.dumps(document).replace("@", written)
    answer = api.patch(path_of(POLR, ns, "a"), document, kind="application/apply-patch+yaml", fieldManager="m")
    assert answer.code == 201 and answer.json["metadata"]["annotations"]["x"] == stored
