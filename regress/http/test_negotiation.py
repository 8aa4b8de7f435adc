"""Accept, Table, PartialObjectMetadata (conformance 11)."""

import re

import pytest

from client import CPOLR, EPHR, PARTIAL, PARTIAL_LIST, POLR, REPS, TABLE, failure, path_of, report, result

KUBECTL = ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,"
           "application/json")
METADATA = ("application/vnd.kubernetes.protobuf;as=PartialObjectMetadata{0};g=meta.k8s.io;v=v1,"
            "application/json;as=PartialObjectMetadata{0};g=meta.k8s.io;v=v1,application/json")
SUMMARY = [("Pass", 0), ("Fail", 0), ("Warn", 0), ("Error", 0), ("Skip", 0), ("Age", 0)]


@pytest.fixture
def stored(api, ns):
    return api.create(POLR, report("r1", labels={"a": "1"},
                                   results=[result(), result(outcome="fail"), result(outcome="fail")],
                                   scope={"apiVersion": "v1", "kind": "Pod", "name": "web"}), ns)


@pytest.mark.parametrize("resource, columns", [
    (POLR, [("Name", 0), ("Kind", 0), ("Name", 0), *SUMMARY]),
    (CPOLR, [("Name", 0), ("Kind", 0), ("Name", 0), *SUMMARY]),
    (REPS, [("Name", 0), ("Kind", 1), ("Name", 1), *SUMMARY]),
    (EPHR, [("Name", 0), ("Source", 0), ("Group", 0), ("Kind", 0), ("Owner", 0), *SUMMARY, ("Uid", 1), ("Hash", 1)]),
    ("reports.kyverno.io/v1/clusterephemeralreports",
     [("Name", 0), ("Source", 0), ("Group", 0), ("Kind", 0), ("Owner", 0), *SUMMARY, ("Uid", 0), ("Hash", 1)]),
    ("kyverno.io/v1alpha2/admissionreports",
     [("Name", 0), ("AGE", 0), ("PASS", 0), ("FAIL", 0), ("WARN", 0), ("ERROR", 0), ("SKIP", 0), ("GVR", 1), ("REF", 1),
      ("AGGREGATE", 1)]),
    ("kyverno.io/v1alpha2/backgroundscanreports",
     [("Name", 0), ("ApiVersion", 1), ("Kind", 1), ("Subject", 1), *SUMMARY, ("Hash", 1)]),
])
def test_columns(api, resource, columns):
    """TAB-07: columns are those of the CRDs, also for an empty list"""
    document = api.get(path_of(resource), accept=TABLE, labelSelector="none=such").json
    assert (document["kind"], document["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [(column["name"], column["priority"]) for column in document["columnDefinitions"]] == columns
    assert document["columnDefinitions"][0]["format"] == "name"
    assert document["rows"] == []


def test_table(api, stored, ns):
    """TAB-01 to TAB-04"""
    document = api.get(path_of(POLR, ns), accept=KUBECTL).json
    assert document["kind"] == "Table" and int(document["metadata"]["resourceVersion"]) > 0
    (row,) = document["rows"]
    assert row["cells"][:-1] == ["r1", "Pod", "web", 1, 2, 0, 0, 0]
    assert re.fullmatch(r"\d+s", row["cells"][-1])
    assert row["object"]["kind"] == "PartialObjectMetadata" and row["object"]["metadata"] == stored["metadata"]


@pytest.mark.parametrize("include, kind", [("Object", "PolicyReport"),
                                           ("Metadata", "PartialObjectMetadata"), ("None", None)])
def test_include_object(api, stored, ns, include, kind):
    """TAB-01"""
    (row,) = api.get(path_of(POLR, ns), accept=TABLE, includeObject=include).json["rows"]
    if kind is None:
        assert row.get("object") is None
    else:
        assert row["object"]["kind"] == kind
        assert ("results" in row["object"]) is (kind == "PolicyReport")


def test_include_object_bad(api, ns):
    """TAB-01"""
    status = failure(api.get(path_of(POLR, ns), accept=TABLE, includeObject="x"), 400, "BadRequest")
    assert "must be 'Metadata', 'Object', 'None', or empty" in status["message"]


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_table_of_one(api, stored, ns, version):
    """TAB-06, NEG-02: e2e table_conversion.go, should return pod details"""
    document = api.get(path_of(POLR, ns, "r1"), accept=TABLE.replace("v=v1", f"v={version}")).json
    assert document["kind"] == "Table" and document["apiVersion"] == f"meta.k8s.io/{version}"
    assert document["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
    (row,) = document["rows"]
    assert len(row["cells"]) == len(document["columnDefinitions"]) > 2
    assert document["columnDefinitions"][0]["name"] == "Name" and row["cells"][0] == "r1"


def test_table_without_values(api, ns):
    """TAB-04: missing values are null"""
    api.create(POLR, {"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "metadata": {"name": "bare"}},
               ns)
    (row,) = api.get(path_of(POLR, ns), accept=TABLE).json["rows"]
    assert row["cells"][:-1] == ["bare"] + [None] * 7


def test_table_pages(api, ns):
    """TAB-09"""
    for number in range(5):
        api.create(POLR, report(f"r{number}"), ns)
    page = api.get(path_of(POLR, ns), accept=TABLE, limit=3).json
    rest = api.get(path_of(POLR, ns), accept=TABLE, limit=3, **{"continue": page["metadata"]["continue"]}).json
    assert [row["cells"][0] for row in page["rows"] + rest["rows"]] == [f"r{n}" for n in range(5)]
    assert page["metadata"]["remainingItemCount"] == 2


def test_partial(api, stored, ns):
    """PART-01, PART-03, NEG-04"""
    for accept in (PARTIAL, METADATA.format("")):
        document = api.get(path_of(POLR, ns, "r1"), accept=accept).json
        assert document == {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                            "metadata": stored["metadata"]}
    for accept in (PARTIAL_LIST, METADATA.format("List")):
        answer = api.get(path_of(POLR, ns), accept=accept)
        document = answer.json
        assert answer.headers["Content-Type"] == "application/json"
        assert document["kind"] == "PartialObjectMetadataList" and document["apiVersion"] == "meta.k8s.io/v1"
        assert document["items"] == [{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                                      "metadata": stored["metadata"]}]
        assert int(document["metadata"]["resourceVersion"]) >= int(stored["metadata"]["resourceVersion"])


def test_partial_where_it_does_not_fit(api, stored, ns):
    """PART-02"""
    failure(api.get(path_of(POLR, ns, "r1"), accept=PARTIAL_LIST), 406, "NotAcceptable")
    failure(api.get(path_of(POLR, ns), accept=PARTIAL), 406, "NotAcceptable")


def test_writes_answer_in_the_form_asked_for(api, stored, ns):
    """PART-05"""
    path = path_of(POLR, ns, "r1")
    answer = api.request("PATCH", path, {"summary": {"pass": 4}},
                         headers={"Accept": PARTIAL, "Content-Type": "application/merge-patch+json"})
    assert answer.code == 200 and answer.json["kind"] == "PartialObjectMetadata" and "summary" not in answer.json


@pytest.mark.parametrize("accept", [None, "*/*", "application/*", "text/html, */*;q=0.1",
                                    "application/json;q=0.5, application/xml",
                                    "application/vnd.kubernetes.protobuf, application/json"])
def test_json(api, stored, ns, accept):
    """NEG-01"""
    answer = api.request("GET", path_of(POLR, ns, "r1"), headers={"Accept": accept})
    assert answer.code == 200 and answer.headers["Content-Type"] == "application/json" and answer.json == stored


@pytest.mark.parametrize("accept", ["image/png", "application/vnd.kubernetes.protobuf",
                                    "application/json;as=Nothing;v=v1;g=meta.k8s.io",
                                    "application/json;as=Table;v=v9;g=meta.k8s.io"])
def test_not_acceptable(api, stored, ns, accept):
    """NEG-02, NEG-05"""
    failure(api.get(path_of(POLR, ns), accept=accept), 406, "NotAcceptable")


def test_answer_headers(api, stored, ns):
    """REQ-09, ERR-03"""
    for path in (path_of(POLR, ns), path_of(POLR, ns, "r1"), path_of(POLR, ns, "missing")):
        answer = api.get(path)
        assert answer.headers["Cache-Control"] == "no-cache, private"
        assert answer.headers["Audit-Id"]
