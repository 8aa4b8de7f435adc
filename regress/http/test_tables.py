"""Tables: ages as upstream's table of durations has them, columns, cells (conformance 11.2, 24.3, 24.4)."""

import datetime
import re

import pytest

from client import TABLE, failure

SECOND, MINUTE, HOUR, DAY, YEAR = 1, 60, 3600, 86400, 365 * 86400

# seconds ago -> what is printed within the next half minute
AGES = [
    (-60, "<invalid>"), (1, r"\d+s"), (70, r"(7|8|9)\ds"), (125, r"2m\d+s"), (190, r"3m\d+s"), (545, r"9m\d+s"),
        (10 * MINUTE, "10m"), (10 * MINUTE + 1, "10m"),
    (70 * MINUTE, "70m"), (179 * MINUTE, "179m"), (3 * HOUR, "3h"), (3 * HOUR + MINUTE, "3h1m"),
        (7 * HOUR + 59 * MINUTE, "7h59m"), (8 * HOUR, "8h"),
    (8 * HOUR + 59 * MINUTE, "8h"), (47 * HOUR, "47h"), (2 * DAY, "2d"), (49 * HOUR, "2d1h"),
        (8 * DAY - HOUR, "7d23h"), (8 * DAY, "8d"),
    (8 * DAY + 23 * HOUR, "8d"), (367 * DAY, "367d"), (2 * YEAR - DAY, "729d"), (2 * YEAR, "2y"),
        (2 * YEAR + 23 * HOUR, "2y"), (2 * YEAR + DAY, "2y1d"),
    (2 * YEAR + 25 * HOUR, "2y1d"), (3 * YEAR, "3y"), (4 * YEAR, "4y"), (7 * YEAR, "7y"), (8 * YEAR - DAY, "7y364d"),
        (8 * YEAR, "8y"), (8 * YEAR + 364 * DAY, "8y"),
    (9 * YEAR, "9y"), (None, "null"), ("yesterday", "<invalid>"),
]

SCHEMA = {"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}

COLUMNS = [
    {"name": "When", "type": "date", "jsonPath": ".spec.when"},
           {"name": "Count", "type": "integer", "jsonPath": ".spec.count"},
    {"name": "Share", "type": "number", "jsonPath": ".spec.share"},
           {"name": "Good", "type": "boolean", "jsonPath": ".spec.good"},
    {"name": "Text", "type": "string", "jsonPath": ".spec.text", "description": "what it says",
     "format": "password", "priority": 1},
    {"name": "Second", "type": "string", "jsonPath": ".spec.list[1]"},
           {"name": "Ready", "type": "string", "jsonPath": '.spec.conditions[?(@.type=="Ready")].status'},
    {"name": "Label", "type": "string", "jsonPath": r".metadata.labels.example\.com/team"},
]


@pytest.fixture(scope="module")
def columns(types):
    return types.pods(schema=SCHEMA, additionalPrinterColumns=COLUMNS)


@pytest.fixture(scope="module")
def plain(types):
    return types.pods()


def cells(pods, name, namespace, spec, **metadata):
    document = pods.pod(name, **metadata)
    document["spec"] = spec
    pods.api.create(pods.resource, document, namespace)
    (row,) = pods.api.get(pods.path(namespace, name), accept=TABLE).json["rows"]
    return row["cells"]


@pytest.mark.parametrize("seconds, expected", AGES)
def test_human_duration(columns, ns, seconds, expected):
    """TAB-03: TestHumanDuration, TestHumanDurationBoundaries"""
    when = seconds
    if isinstance(seconds, int):
        when = (datetime.datetime.now(datetime.timezone.utc)
                - datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    cell = cells(columns, "a", ns, {"when": when} if when else {})[1]
    assert re.fullmatch(expected, "null" if cell is None else cell), cell


@pytest.mark.parametrize("spec, metadata, expected", [
    ({"count": 3, "share": 0.5, "good": True, "text": "x"}, {}, [3, 0.5, True, "x", None, None, None]),
    ({"count": 9007199254740993}, {}, [9007199254740993, None, None, None, None, None, None]),
    ({"count": 3.7, "share": 2}, {}, [3, 2, None, None, None, None, None]),
    ({"count": "three", "share": "half", "good": "yes"}, {}, [None] * 7),
    ({"list": ["a", "b", "c"]}, {}, [None, None, None, None, "b", None, None]),
    ({"conditions": [{"type": "Other", "status": "no"}, {"type": "Ready", "status": "True"}]},
     {}, [None, None, None, None, None, "True", None]),
    ({}, {"labels": {"example.com/team": "a"}}, [None, None, None, None, None, None, "a"]),
    ({"text": 5}, {}, [None, None, None, "5", None, None, None]),
    ({"text": {"a": [1]}}, {}, [None, None, None, '{"a":[1]}', None, None, None]),
    ({"text": ""}, {}, [None, None, None, "", None, None, None]),
    ({"text": 123456.5}, {}, [None, None, None, "123456.5", None, None, None]),
    ({"text": 1234567.5}, {}, [None, None, None, "1.2345675e+06", None, None, None]),
    ({"text": -0.00002}, {}, [None, None, None, "-2e-05", None, None, None]),
    ({"text": {"a": "<b>&"}}, {}, [None, None, None, r'{"a":"\u003cb\u003e\u0026"}', None, None, None]),
])
def test_cells(columns, ns, spec, metadata, expected):
    """TAB-04: integers stay integers; missing values, and values of another type, are null; texts are client-go's"""
    assert cells(columns, "a", ns, spec, **metadata)[2:] == expected


def test_column_definitions(columns, ns):
    """TAB-07: TestTableGet: the name, then the columns of the CRD with all their attributes"""
    document = columns.api.get(columns.path(ns), accept=TABLE).json
    name, *rest = document["columnDefinitions"]
    assert (name["name"], name["type"], name["format"], name["priority"]) == ("Name", "string", "name",
        0) and name["description"].startswith("Name must be unique")
    for definition, column in zip(rest, COLUMNS, strict=True):
        assert (definition["name"], definition["type"], definition["format"], definition["priority"]) == (
            column["name"], column["type"], column.get("format", ""), column.get("priority", 0))
        assert definition["description"] == column.get("description", "Custom resource definition column (in JSONPath "
                                                       f"format): {column['jsonPath']}")


def test_default_columns(plain, ns):
    """TAB-08: a CRD without columns has the name and the age"""
    plain.create("a", ns)
    document = plain.api.get(plain.path(ns), accept=TABLE).json
    assert [(column["name"], column["type"])
            for column in document["columnDefinitions"]] == [("Name", "string"), ("Age", "date")]
    (row,) = document["rows"]
    assert row["cells"][0] == "a" and re.fullmatch(r"\d+s", row["cells"][1])


def test_rows(plain, ns):
    """
    TAB-01, TAB-02, TAB-06: TestGetTable, testListTableConversion: includeObject decides what a row has of its object,
    for a list and for one object
    """
    stored = plain.create("a", ns, labels={"team": "x"})
    for path in (plain.path(ns), plain.path(ns, "a")):
        for include, expected in ((None, "PartialObjectMetadata"), ("", "PartialObjectMetadata"),
                                  ("Metadata", "PartialObjectMetadata"),
                                  ("Object", plain.head["kind"]), ("None", None)):
            (row,) = plain.api.get(path, accept=TABLE,
                                   **({} if include is None else {"includeObject": include})).json["rows"]
            if expected is None:
                assert row.get("object") is None
                continue
            assert row["object"]["kind"] == expected and row["object"]["metadata"] == stored["metadata"]
            assert row["object"]["apiVersion"] == ("meta.k8s.io/v1" if expected == "PartialObjectMetadata"
                                                   else plain.head["apiVersion"])
        status = failure(plain.api.get(path, accept=TABLE, includeObject="bad"), 400, "BadRequest")
        assert "must be 'Metadata', 'Object', 'None', or empty" in status["message"]


BETA, ALPHA = TABLE.replace("v=v1;", "v=v1beta1;"), TABLE.replace("v=v1;", "v=v1alpha1;")
PROTOBUF, PROTOBUF_BETA = (accept.replace("/json", "/vnd.kubernetes.protobuf") for accept in (TABLE, BETA))


@pytest.mark.parametrize("accept, version", [
    (ALPHA, None), (PROTOBUF_BETA, None), (PROTOBUF, None), (TABLE, "v1"), (BETA, "v1beta1"),
                                             (f"{PROTOBUF_BETA},{BETA}", "v1beta1")])
@pytest.mark.parametrize("query", [{}, {"includeObject": "Metadata"}])
def test_versions(plain, ns, accept, version, query):
    """
    NEG-02, TAB-01, TAB-02, TAB-05, TAB-06: TestGetTable, TestWatchTable: a table's version is that of its objects, for
    one object, a list or an event
    """
    stored = plain.create("foo1", ns)
    if version is None:
        for path, more in ((plain.path(ns, "foo1"), {}), (plain.path(ns), {}), (plain.path(ns), {"watch": "1"})):
            failure(plain.api.get(path, accept=accept, **query, **more), 406, "NotAcceptable")
        return

    def check(table, document, columns=True):
        assert (table["kind"], table["apiVersion"]) == ("Table", f"meta.k8s.io/{version}")
        assert [column["name"] for column in table["columnDefinitions"] or ()] == (["Name", "Age"] if columns else [])
        (row,) = table["rows"]
        assert row["cells"][0] == "foo1"
        assert row["object"] == {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}",
                                 "metadata": document["metadata"]}
        return table["metadata"]["resourceVersion"]

    assert check(plain.api.get(plain.path(ns, "foo1"), accept=accept, **query).json,
                 stored) == stored["metadata"]["resourceVersion"]
    assert check(plain.api.get(plain.path(ns), accept=accept, **query).json, stored) == plain.version()
    with plain.api.watch(plain.path(ns), accept=accept, **query) as watch:
        kind, table = watch.event()
        assert kind == "ADDED" and check(table, stored) == stored["metadata"]["resourceVersion"]
        changed = plain.api.patch(plain.path(ns, "foo1"), {"spec": {"nodeName": "n"}}).json
        kind, table = watch.event()
        assert kind == "MODIFIED" and check(table, changed, columns=False) == changed["metadata"]["resourceVersion"]


def test_answers_of_writes(plain, ns):
    """
    TAB-06, PART-05: kubectl's Accept on create, update and patch brings tables; a delete that removes brings a Status
    """
    headers = {"Accept": TABLE}
    created = plain.api.request("POST", plain.path(ns), plain.pod("a"), headers=headers)
    assert created.code == 201 and created.json["kind"] == "Table" and created.json["rows"][0]["cells"][0] == "a"
    patched = plain.api.request("PATCH", plain.path(ns, "a"), {"spec": {"nodeName": "n"}},
                                headers={**headers, "Content-Type": "application/merge-patch+json"})
    assert patched.code == 200 and patched.json["kind"] == "Table"
    document = plain.api.get(plain.path(ns, "a")).json
    document["spec"]["nodeName"] = "m"
    updated = plain.api.request("PUT", plain.path(ns, "a"), document, headers=headers)
    assert updated.code == 200 and updated.json["kind"] == "Table"
    deleted = plain.api.request("DELETE", plain.path(ns, "a"), headers=headers)
    assert deleted.code == 200 and deleted.json["kind"] == "Status"
    # Errors are never converted.
    failure(plain.api.get(plain.path(ns, "a"), accept=TABLE), 404, "NotFound")


@pytest.mark.parametrize("scope", ["Namespaced", "Cluster"])
def test_table_of_all(types, scope):
    """
    TAB-01, TAB-08: e2e table_conversion.go, should return generic metadata details across all namespaces for nodes
    """
    pods = types.pods(scope)
    stored = [pods.create(name, namespace) for name, namespace in (("a", "first"), ("b", "second"))]
    document = pods.api.get(pods.path(), accept=TABLE).json
    assert document["metadata"]["resourceVersion"] == pods.version() and document["columnDefinitions"][
        0]["name"] == "Name"
    assert [row["object"]["metadata"] for row in document["rows"]] == [each["metadata"] for each in stored]
    assert [row["cells"][0] for row in document["rows"]] == ["a", "b"]
    assert {len(row["cells"]) for row in document["rows"]} == {len(document["columnDefinitions"])} == {2}


def test_empty_table(plain, ns):
    """TAB-01, LIST-01: rows are never null"""
    document = plain.api.get(plain.path(ns), accept=TABLE).json
    assert document["rows"] == [] and document["metadata"]["resourceVersion"] == plain.version()


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_chunks(plain, ns, version):
    """
    TAB-09, PAGE-04: chunks of a table are those of the list; e2e table_conversion.go, should return chunks of table
    results for list calls
    """
    accept = TABLE.replace("v=v1", f"v={version}")
    for number in range(7):
        plain.create(f"p{number}", ns)
    found, remaining, more = [], [], {}
    while more == {} or more["continue"]:
        document = plain.api.get(plain.path(ns), accept=accept, limit=3, **more).json
        assert document["apiVersion"] == f"meta.k8s.io/{version}" and document["metadata"][
            "resourceVersion"] == plain.version()
        found += [row["cells"][0] for row in document["rows"]]
        remaining.append(document["metadata"].get("remainingItemCount"))
        more = {"continue": document["metadata"].get("continue")}
    assert found == [f"p{number}" for number in range(7)] and remaining == [4, 1, None]
