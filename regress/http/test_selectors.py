"""Upstream's tables for label and field selectors, as lists (conformance 10, 24.3)."""

import pytest

from client import failure


@pytest.fixture(scope="module")
def pods(types):
    """A type; each set of labels that a test asks for gets a namespace."""
    made = types.pods()
    made.seen = {}
    return made


def matches(pods, selector, labels):
    """Returns whether a list with this selector has an object with these labels."""
    key = repr(sorted(labels.items()))
    if key not in pods.seen:
        pods.seen[key] = f"set-{len(pods.seen)}"
        pods.create("it", pods.seen[key], labels=labels)
    return [item["metadata"]["name"] for item in pods.list(pods.seen[key], labelSelector=selector)["items"]] == ["it"]


SET = {"foo": "bar", "baz": "blah"}

MATCHES = [
    ("", {"x": "y"}), ("x=y", {"x": "y"}), ("x=y,z=w", {"x": "y", "z": "w"}), ("x!=y,z!=w", {"x": "z", "z": "a"}),
           ("notin=in", {"notin": "in"}),
    ("x", {"x": "z"}), ("!x", {"y": "z"}), ("x>1", {"x": "2"}), ("x<1", {"x": "0"}), ("foo=bar", SET),
           ("baz=blah", SET), ("foo=bar,baz=blah", SET),
    # ResourceSelectorRequirements: presence, absence, empty values, numbers.
    ("x in (y,z)", {"x": "z"}), ("x in (y),z in (w)", {"x": "y", "z": "w"}), ("x notin (y)", {"x": "z"}),
           ("x notin (y)", {}), ("x!=y", {}),
    ("x=", {"x": ""}), ("x in ()", {"x": ""}), ("x in (a,)", {"x": ""}), ("x in (,a)", {"x": "a"}),
           ("x notin ()", {"x": "a"}), ("x", {"x": ""}),
    ("x>1,x<5", {"x": "3"}), ("x<9223372036854775807", {"x": "9223372036854775806"}), (" x = y ", {"x": "y"}),
           ("x==y", {"x": "y"}),
    ("example.com/x=y", {"example.com/x": "y"}), ("x=y,x!=z", {"x": "y"}), ("!x,!y", {"z": "1"}), ("x,!y", {"x": "1"}),
           ("in in (in)", {"in": "in"}),
    ("x\t in\n( y )", {"x": "y"}),
    # The parser of sets.
    ("\rx", {"x": "1"}), ("this-is-another-dns.domain.com/key-with-dash in (so,what)",
                          {"this-is-another-dns.domain.com/key-with-dash": "what"}),
    ("0.1.2.domain/99 notin (10.10.100.1, tick.tack.clock)", {"0.1.2.domain/99": "x"}),
           ("x in (abc,abc)", {"x": "abc"}), ("x in (a,,a,,a,,a,,)", {"x": ""}),
    ("x notin (abc,,def),bar,z in (),w", {"bar": "1", "z": "", "w": "1"}), ("x,y in (a)", {"x": "1", "y": "a"}),
           ("x=a,y!=b,z in (h,i,j)", {"x": "a", "z": "i"}),
    ("x notin ( )", {"x": "a"}), ("a ", {"a": "1"}), ("a in (x,y,notin, z,in)", {"a": "notin"}),
]

NO_MATCHES = [
    ("x=z", {}), ("x=y", {"x": "z"}), ("x=y,z=w", {"x": "w", "z": "w"}), ("x!=y,z!=w", {"x": "z", "z": "w"}),
              ("x", {"y": "z"}), ("!x", {"x": "z"}),
    ("x>1", {"x": "0"}), ("x<1", {"x": "2"}), ("foo=blah", SET), ("baz=bar", SET),
              ("foo=bar,foobar=bar,baz=blah", SET), ("x in (y)", {}),
    ("x notin (y,z)", {"x": "z"}), ("x=", {}), ("x in ()", {}), ("x>1", {}), ("x>1", {"x": "many"}), ("x<1", {"x": ""}),
              ("x>1", {"x": "1"}),
    ("0.1.2.domain/99 notin (10.10.100.1, tick.tack.clock)", {"0.1.2.domain/99": "10.10.100.1"}),
              ("x notin (abc,,def),bar,z in (),w", {"x": "", "bar": "1", "z": "", "w": "1"}),
    ("x notin ( )", {"x": ""}), ("x notin (, a)", {"x": "a"}), ("x>1", {"x": "99999999999999999999"}),
              ("!x", {"x": ""}), ("x=a,x=b", {"x": "a"}), ("X=y", {"x": "y"}), ("x=Y", {"x": "y"}),
]


@pytest.mark.parametrize("selector, labels, expected", [(*row, True) for row in MATCHES]
                         + [(*row, False) for row in NO_MATCHES])
def test_label_selector_matches(pods, selector, labels, expected):
    """SEL-01, SEL-03: TestSelectorMatches, TestSetSelectorParser, testListMatchLabels"""
    assert matches(pods, selector, labels) is expected


@pytest.mark.parametrize("selector", ["x=a,y=b,z=c", "", "x!=a,y=b", "x=", "x= ", "x=,z= ", "x= ,z= ", "!x", "x>1",
                                      "x>1,z<5", "x in (a),y", "x in (),y",
                                      "x notin (a,b),y", "key in ( value1, value2 )", "key2  notin(x)",
                                      "x.y-z_0=A.b-c_9", "a" * 63 + "=" + "b" * 63])
def test_label_selector_parses(pods, selector):
    """SEL-02: TestSelectorParse, TestLexer, TestLexerSequence"""
    assert pods.api.get(pods.path(), labelSelector=selector).code == 200


OPERATORS = "in, notin, =, ==, !=, gt, lt"

BAD_LABEL_SELECTORS = [
    ("x=a||y=b", None), ("x==a==b", None), ("!x=a", None), ("x<a", None), ("x>a", None), ("x>", None), ("x in", None),
                       ("x in (", None), ("x in (a", None),
    ("x in a", None), ("x,,y", None), (",", None), (",x", None), ("=a", None), ("()", None),
                       ("x a", f"found 'a', expected: {OPERATORS}"),
    ("x exists", f"found 'exists', expected: {OPERATORS}"), ("x !y", f"found '!', expected: {OPERATORS}"),
                       ("x (", f"found '(', expected: {OPERATORS}"),
    ("-x=a", "prefix part"), ("x=-a", None), ("x in (-a)", None), ("a/b/c=d", None),
                       ("x=" + "a" * 64, "must be no more than 63"),
    ("a" * 64 + "=x", "must be no more than 63"), ("x=a b", None), ("x>1.5", None), ("x>99999999999999999999", None),
                       ("x>-1", None), ("ä=b", None), ("!", None), ("x in (a))", None),
    (",x,y", None), ("x nott in (y)", None), ("a in (xyz),", None), ("a in (xyz)b notin ()", None),
                       ("a in (xyz abc)", None), ("a notin(", None), ("a (", None), ("(", None), ("~", None),
]


@pytest.mark.parametrize("selector, text", BAD_LABEL_SELECTORS)
def test_label_selector_does_not_parse(pods, selector, text):
    """
    SEL-02: TestSelectorParse, TestSetSelectorParser, TestLexer, TestParseOperator, TestRequirementConstructor: 400 for
    list, watch and deletecollection, and nothing is deleted
    """
    for method, query in (("GET", {}), ("GET", {"watch": "true"}), ("DELETE", {})):
        status = failure(pods.api.request(method, pods.path("set-0"), labelSelector=selector, **query), 400,
                         "BadRequest")
        assert status["message"].startswith("unable to parse requirement: ") or status["message"].startswith(
            "found "), status["message"]
        if text and text != "prefix part":
            assert text in status["message"]


# ---- field selectors ----

@pytest.mark.parametrize("selector, expected", [
    ("", "a b c"), ("metadata.name=a", "a"), ("metadata.name==a", "a"), ("metadata.name!=a", "b c"),
                                                ("metadata.name=a,metadata.name=b", ""),
    ("metadata.name!=a,metadata.name!=b", "c"), ("metadata.namespace=fields", "a b c"),
                                                ("metadata.namespace!=fields", ""),
    ("metadata.name=a,metadata.namespace=fields", "a"), ("metadata.name=a,", "a"), (",metadata.name=a", "a"),
                                                (r"metadata.name=a\,b", ""),
    (r"metadata.name=a\=b", ""), ("metadata.name=a\\\\", ""), (r"metadata.name=\\\=\\\,\\", ""),
                                                (r"metadata.name!=\\\=\\\,\\", "a b c"), ("metadata.name=", ""),
                                                ("metadata.name!=", "a b c"), ("metadata.name=수", "")])
def test_field_selector_matches(pods, selector, expected):
    """SEL-10, SEL-11: TestSplitTerms, TestEscapeValue, TestSelectorMatches of fields"""
    for name in ("a", "b", "c"):
        answer = pods.api.post(pods.path("fields"), pods.pod(name))
        assert answer.code in (201, 409)
    assert [item["metadata"]["name"]
            for item in pods.list("fields", fieldSelector=selector)["items"]] == expected.split()


@pytest.mark.parametrize("selector, text", [
    ("metadata.name=a||y=b", None), ("metadata.name==a==b", None),
                                            ("metadata.name=a,b",
                                             "invalid selector: 'metadata.name=a,b'; can't understand 'b'"),
    ("x in (a)", "invalid selector: 'x in (a)'; can't understand 'x in (a)'"),
                                            ("metadata.name",
                                             "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
    (r"metadata.name=\a", None), ("metadata.name=a\\", None), ("metadata.name=\\\\\\", None),
                                            ("spec.nodeName=x", "field label not supported: spec.nodeName"),
    ("함=수", "field label not supported: 함"),
                                            ("metadata.name=a,status.phase!=b",
                                             "field label not supported: status.phase"),
    ("metadata.labels=a", "field label not supported: metadata.labels")])
def test_field_selector_is_refused(pods, selector, text):
    """
    SEL-10, SEL-11, DC-07: TestSelectorParse of fields, TestEscapeValue, and the unknown field of TestSelectableFields:
    400 for list, watch and deletecollection, and nothing is deleted
    """
    for method, query in (("GET", {}), ("GET", {"watch": "true"}), ("DELETE", {})):
        status = failure(pods.api.request(method, pods.path("fields"), fieldSelector=selector, **query), 400,
                         "BadRequest")
        assert text is None or status["message"].endswith(text), status["message"]


def test_cluster_scope_has_no_namespace(types):
    """SEL-10: metadata.namespace of a cluster-scoped object is empty"""
    nodes = types.pods("Cluster")
    nodes.create("a")
    for selector, expected in (("metadata.namespace=", ["a"]), ("metadata.namespace=x", []),
                               ("metadata.namespace!=x", ["a"]), ("metadata.name=a,metadata.namespace=", ["a"])):
        assert [item["metadata"]["name"] for item in nodes.list(fieldSelector=selector)["items"]] == expected


def test_selectors_of_requests(pods):
    """
    REQ-03, SEL-13, SEL-12: TestSelectorParsing: the first of a repeated parameter counts; a get ignores selectors; a
    watch of one object refuses a selector for another name
    """
    for name in ("name1", "name2"):
        pods.create(name, "requests", labels={"foo": "bar" if name == "name1" else "baz"})
    path = pods.path("requests")
    assert [item["metadata"]["name"]
            for item in pods.list("requests",
                                  fieldSelector=["metadata.name=name1", "metadata.name=name2"])["items"]] == ["name1"]
    assert [item["metadata"]["name"]
            for item in pods.list("requests", labelSelector=["foo=bar", "foo=baz"])["items"]] == ["name1"]
    assert pods.api.get(path + "/name1", fieldSelector="foo=bar", labelSelector="a in").code == 200
    for watch in ("true", "1", "t", ""):
        status = failure(pods.api.get(path + "/name1", watch=watch, fieldSelector="metadata.name=name2"), 400,
                         "BadRequest")
        assert status["message"] == "fieldSelector metadata.name doesn't match requested name"
    for selector in ("metadata.name=name1", "metadata.name==name1", "metadata.namespace=requests,metadata.name=name1",
                     "metadata.name!=name2,metadata.name=name1"):
        with pods.api.watch(path + "/name1", resourceVersion="0", fieldSelector=selector) as watch:
            watch.expect(("ADDED", "name1"))
    for selector in ("metadata.namespace=requests", "metadata.name!=name2"):
        failure(pods.api.get(path + "/name1", watch="1", fieldSelector=selector), 400, "BadRequest")
    # A comma in the name adds no selector.
    with pods.api.watch(path + "/name1,metadata.namespace=requests", resourceVersion="0", timeoutSeconds=1) as watch:
        assert watch.end(20) == []
    for watch in ("false", "False", "fALSE", "0"):
        assert pods.api.get(path, watch=watch, fieldSelector="metadata.name=name1").json["kind"].endswith("List")
        assert pods.api.get(path + "/name1", watch=watch).json["metadata"]["name"] == "name1"


def test_unknown_options(pods):
    """
    SEL-15, REQ-03, PAGE-05: TestPrepareContinueTokenRemainingItemCount: unknown parameters are ignored, and so is a
    shard selector: the list names no shard
    """
    for name in ("a", "b"):
        pods.create(name, "unknown-options", labels={"foo": name})
    document = pods.list("unknown-options", shardSelector="shardRange(object.metadata.uid, '0x00', '0x80')",
                         nonsense="1", export="true")
    assert len(document["items"]) == 2 and "shardInfo" not in document["metadata"]
    for query, remaining in (({}, 1), ({"shardSelector": "shardRange(object.metadata.uid, '0x00', '0x80')"}, 1),
                             ({"labelSelector": "foo"}, None)):
        metadata = pods.list("unknown-options", limit=1, **query)["metadata"]
        assert metadata["continue"] and metadata.get("remainingItemCount") == remaining, query
