"""
Items of lists: the proxy puts them together from stored documents, compressed or not.  Their bytes are those that the
database renders for a get.
"""

import json
import random
import re

import pytest

from client import PARTIAL, PARTIAL_LIST, POLR, failure, path_of, report, result
from conftest import VARIANT

FORMS = {"small": 1, "packed": 20, "outside": 3000}
# How PostgreSQL stores a body: attributes of the column during the write.
KEPT = ("SET COMPRESSION lz4", "SET COMPRESSION pglz", "SET STORAGE EXTERNAL", "SET STORAGE PLAIN")
STORED = "ALTER TABLE kube_reports.object ALTER COLUMN body SET STORAGE EXTENDED"


def documents():
    """Yields reports of several sizes, one of them with bytes that no compression makes smaller."""
    for name, count in FORMS.items():
        yield report(name, results=[result(f"policy-{n}", message="the same words again") for n in range(count)])
    noise = random.Random(7)
    yield report("noise", results=[result(message="".join(chr(noise.randrange(32, 0x2fff)) for _ in range(40000)))])
    yield report("escapes", labels={"a": "b"}, results=[result(message='"\\\u0001 \u00e4 \U0001f600')])


@pytest.fixture(scope="module")
def filled(module_stack):
    """Reports in every form in which PostgreSQL stores documents; each form has a namespace."""
    proxy = module_stack.proxy()
    api = proxy.api()
    lz4 = module_stack.database.psql("SELECT 'lz4' = ANY (enumvals) FROM pg_settings WHERE name = "
                                     "'default_toast_compression'") == "t"
    for n, how in enumerate(KEPT):
        if "lz4" in how and not lz4:
            continue
        module_stack.database.psql(f"ALTER TABLE kube_reports.object ALTER COLUMN body {how}", user="postgres")
        for document in documents():
            if "PLAIN" in how and len(json.dumps(document)) > 6000:
                continue
            api.create(POLR, document, f"kept-{n}")
        module_stack.database.psql(STORED, user="postgres")
    module_stack.lz4 = lz4
    module_stack.api = api
    return module_stack


def items_of(api, text, namespace, accept=None):
    """Returns the items of a list, in its order, with the bytes that a get of each returns."""
    names = [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in json.loads(text)["items"]]
    assert names == sorted(names)
    return [api.get(path_of(POLR, *name), accept=accept).body.rstrip(b"\n") for name in names]


# Functions of the first byte: stored_bytes() returns bytea in the variant in C, text in the other one.
FIRST_BYTE = {"c": "get_byte(kube_reports_internal.stored_bytes(body), 0)",
              "sql": "ascii(kube_reports_internal.stored_bytes(body))"}


def test_forms(filled):
    """PostgreSQL stores some bodies as text and some compressed, inside the row and outside of it"""
    forms = filled.database.psql("SELECT count(DISTINCT (pg_column_compression(body), pg_column_size(body) > 2000,"
                                 f" {FIRST_BYTE[VARIANT]})) FROM kube_reports.object")
    # SQL functions cannot return a compressed body as it is stored.
    assert int(forms) >= (6 if filled.lz4 and VARIANT == "c" else 4)
    if filled.lz4 and VARIANT == "c":
        assert filled.database.psql("SELECT count(*) > 1 FROM kube_reports.object WHERE"
                                    f" {FIRST_BYTE[VARIANT]} = 1") == "t"


@pytest.mark.parametrize("accept, item", ((None, None), (PARTIAL_LIST, PARTIAL)))
def test_items(filled, accept, item):
    """A list has the bytes of its objects, however they are stored"""
    api = filled.api
    for namespace in (None, "kept-0", "kept-1", "kept-2", "kept-3"):
        listed = api.get(path_of(POLR, namespace), accept=accept).body
        head, tail = re.match(rb'(.*?"items":\[).*(\],[^\]]*\n)$', listed, re.DOTALL).groups()
        assert listed == head + b",".join(items_of(api, listed, namespace, item)) + tail


def test_ways(filled):
    """A list has the same items by pages, by a selector, at a version, compressed, and as initial events"""
    api, path = filled.api, path_of(POLR)
    whole = api.get(path)
    items = items_of(api, whole.body, None)
    version = whole.json["metadata"]["resourceVersion"]
    paged, token = [], None
    while token != "":
        page = api.get(path, limit=3, **({"continue": token} if token else {}))
        paged += items_of(api, page.body, None)
        token = page.json["metadata"].get("continue", "")
    assert paged == items
    for query in ({"labelSelector": "nothing!=this"}, {"fieldSelector": "metadata.name!=nobody"},
                  {"resourceVersion": version, "resourceVersionMatch": "Exact"}):
        assert api.get(path, **query).body == whole.body
    with api.watch(path, sendInitialEvents="true", resourceVersionMatch="NotOlderThan",
                   allowWatchBookmarks="true") as watch:
        assert [watch.event() for _ in items] == [("ADDED", json.loads(item)) for item in items]
        assert watch.event()[0] == "BOOKMARK"
    # After these changes, the old version of the list comes from the log.
    for n in range(2):
        api.put_report(POLR, f"later-{n}", "kept-1", [result()])
    api.delete(path_of(POLR, "kept-1", "packed"))
    at_version = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
    assert api.get(path, **at_version).body == whole.body
    for n in range(2):
        api.delete(path_of(POLR, "kept-1", f"later-{n}"))


def test_damaged(own_stack, ns):
    """A document that cannot be unpacked, or has another form, gives an error, not a shorter list"""
    own_stack.begin()
    api = own_stack.proxy().api()
    api.create(POLR, report("r"), ns)
    stored_bytes = "kube_reports_internal.stored_bytes(kube_reports.report)"
    own_stack.database.psql(f"ALTER FUNCTION {stored_bytes} RENAME TO undamaged", user="postgres")
    # A text can contain neither zero bytes nor incomplete characters.
    returned, blocks = ("bytea", ("\\x01", "\\x0100", "\\x01ffffffff00", "\\x010000000a1f61",
                                  "\\x0100000010ffffffffffffffff")) if VARIANT == "c" else \
        ("text", ("\x01", "\x01\x01", "\x01\x7f\x01\x01\x01\x1fa"))
    for block in blocks:
        own_stack.database.psql("CREATE OR REPLACE FUNCTION "
                                "kube_reports_internal.stored_bytes(document kube_reports.report)"
                                f" RETURNS {returned} LANGUAGE sql RETURN '{block}'::{returned}", user="postgres")
        failure(api.get(path_of(POLR, ns)), 500, "InternalError")
        with api.watch(path_of(POLR, ns), sendInitialEvents="true", resourceVersionMatch="NotOlderThan") as watch:
            assert watch.event()[0] == "ERROR"
    # In the variant in SQL the proxy renders this object, too.
    assert api.get(path_of(POLR, ns, "r")).code == (200 if VARIANT == "c" else 500)
