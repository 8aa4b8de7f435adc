"""Types registered at run time (issue 2, done when 5)."""

import json
import pathlib

import pytest

from client import TABLE, failure, path_of, until
from conftest import checks_of_c

CRD = json.loads((pathlib.Path(__file__).resolve().parents[1] / "crds"
                  / "vulnerabilityreports.aquasecurity.github.io.json").read_text())
VULN = "aquasecurity.github.io/v1alpha1/vulnerabilityreports"
CVE = {"vulnerabilityID": "CVE-2021-44228", "resource": "log4j-core", "installedVersion": "2.14.1",
       "fixedVersion": "2.15.0", "severity": "CRITICAL",
       "title": "remote code execution", "publishedDate": "2021-12-10T10:15:09Z",
       "lastModifiedDate": "2023-04-03T20:15:08Z", "score": 10.0}


def vulnerability_report(name):
    return {"apiVersion": "aquasecurity.github.io/v1alpha1", "kind": "VulnerabilityReport",
            "metadata": {"name": name}, "report": {
        "artifact": {"repository": "library/app", "tag": "1.0"}, "os": {"family": "debian", "name": "12"},
                                                   "registry": {"server": "index.example"},
        "scanner": {"name": "Trivy", "vendor": "Aqua Security", "version": "0.50.0"},
                                                   "updateTimestamp": "2024-01-01T00:00:00Z",
        "summary": {"criticalCount": 1, "highCount": 0, "mediumCount": 0, "lowCount": 0, "unknownCount": 0},
                                                   "vulnerabilities": [CVE]}}


def register(stack, crd):
    return stack.database.psql(f"SELECT kube_reports.register_crd($crd${json.dumps(crd)}$crd$::jsonb)")


def served(api, group):
    return any(entry["name"] == group for entry in api.get("/apis").json["groups"])


def always(condition):
    """Whether a condition holds for many connections in a row, and so for every worker of a proxy."""
    return all(condition() for _ in range(16))


@pytest.fixture(scope="module")
def vulnerability_reports(stack):
    apis = [stack.first.api(), stack.second.api()]
    assert apis[0].get("/apis/aquasecurity.github.io/v1alpha1").code == 404
    register(stack, CRD)
    for api in apis:
        until(lambda: always(lambda: served(api, "aquasecurity.github.io")), 10, "the group in discovery")
    yield apis
    stack.unregister("vulnerabilityreports.aquasecurity.github.io")
    for api in apis:
        until(lambda: always(lambda: not served(api, "aquasecurity.github.io")), 10, "its disappearance")


def test_served_by_both_proxies(vulnerability_reports, ns):
    first, second = vulnerability_reports
    with second.watch(path_of(VULN, ns)) as watch:
        stored = first.create(VULN, vulnerability_report("app"), ns, fieldValidation="Strict")
        assert watch.event() == ("ADDED", stored)
    assert second.get(path_of(VULN, ns, "app")).json == stored
    for api in (first, second):
        resources = api.get("/apis/aquasecurity.github.io/v1alpha1").json["resources"]
        assert [(entry["name"], entry["shortNames"])
                for entry in resources] == [("vulnerabilityreports", ["vuln", "vulns"])]
        assert "apis/aquasecurity.github.io/v1alpha1" in api.get("/openapi/v3").json["paths"]
        assert b"VulnerabilityReport" in api.get("/openapi/v2").body


def test_its_columns(vulnerability_reports, ns):
    """TAB-07"""
    api = vulnerability_reports[0]
    api.create(VULN, vulnerability_report("app"), ns)
    document = api.get(path_of(VULN, ns), accept=TABLE).json
    assert [(column["name"], column["priority"]) for column in document["columnDefinitions"]] == [
        ("Name", 0), ("Repository", 0), ("Tag", 0), ("Scanner", 0), ("Age", 0), ("Critical", 1), ("High", 1),
        ("Medium", 1), ("Low", 1), ("Unknown", 1)]
    cells = document["rows"][0]["cells"]
    assert cells[:4] == ["app", "library/app", "1.0", "Trivy"] and cells[5:] == [1, 0, 0, 0, 0]


def test_its_schema(vulnerability_reports, ns):
    api = vulnerability_reports[0]
    for change, path, reason in (
            (lambda r: r["summary"].update(criticalCount=-1), "report.summary.criticalCount", "FieldValueInvalid"),
            (lambda r: r["scanner"].pop("vendor"), "report.scanner.vendor", "FieldValueRequired"),
            (lambda r: r["vulnerabilities"][0].update(severity="critical"), "report.vulnerabilities[0].severity",
             "FieldValueNotSupported"),
            (lambda r: r.update(updateTimestamp="yesterday"), "report.updateTimestamp", "FieldValueTypeInvalid")):
        document = json.loads(json.dumps(vulnerability_report("bad")))
        change(document["report"])
        status = failure(api.post(path_of(VULN, ns), document), 422, "Invalid")
        assert [(cause["field"], cause["reason"]) for cause in status["details"]["causes"]] == [(path, reason)], status
    # x-kubernetes-preserve-unknown-fields at the root: unknown fields stay.
    kept = api.create(VULN, {**vulnerability_report("kept"), "extra": {"a": [1]}}, ns)
    assert kept["extra"] == {"a": [1]}


def test_registered_again_with_another_schema(stack, ns):
    """A new schema applies at once, at both proxies, without a restart"""
    def crd(column, limit):
        return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "audits.types.example"},
                "spec": {"group": "types.example", "scope": "Namespaced",
                         "names": {"plural": "audits", "singular": "audit", "kind": "Audit", "listKind": "AuditList",
                                   "shortNames": ["aud"]},
                         "versions": [{"name": "v1", "served": True, "storage": True,
                                       "additionalPrinterColumns": [{"name": column, "type": "integer",
                                           "jsonPath": ".spec.score"}],
                                       "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                                           "spec": {"type": "object", "properties": {"score": {"type": "integer",
                                               "maximum": limit}}}}}}}]}}

    apis = [stack.first.api(), stack.second.api()]
    path = path_of("types.example/v1/audits", ns)
    register(stack, crd("Score", 10))
    try:
        document = {"apiVersion": "types.example/v1", "kind": "Audit", "metadata": {"name": "a"}, "spec": {"score": 11}}
        for api in apis:
            until(lambda: always(lambda: api.get(path).code == 200), 10, "the type")
            failure(api.post(path, document), 422, "Invalid")
        register(stack, crd("Points", 20))
        for number, api in enumerate(apis):
            document["metadata"]["name"] = f"a{number}"
            until(lambda: api.post(path, document).code in (201, 409), 10, "the new limit")
            names = lambda: [column["name"] for column in api.get(path, accept=TABLE).json["columnDefinitions"]]
            until(lambda: always(lambda: names() == ["Name", "Points"]), 10, "the new columns")
        refused = stack.database.psql("SELECT kube_reports.unregister('audits.types.example')", check=False)
        assert refused.code != 0 and "objects are stored" in refused.err
        assert apis[0].get(path + "/a0").code == 200
    finally:
        stack.unregister("audits.types.example")
    for api in apis:
        until(lambda: api.get(path).code == 404, 10, "the end of the type")


def test_watch_of_a_type_that_ends(stack, ns):
    """An unregistered type ends its watches; nothing hangs"""
    register(stack, {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                     "metadata": {"name": "brief.types2.example"},
                     "spec": {"group": "types2.example", "scope": "Namespaced",
                              "names": {"plural": "brief", "singular": "brief", "kind": "Brief",
                                        "listKind": "BriefList"},
                              "versions": [{"name": "v1", "served": True, "storage": True,
                                            "schema": {"openAPIV3Schema": {"type": "object",
                                                "x-kubernetes-preserve-unknown-fields": True}}}]}})
    api = stack.second.api()
    path = path_of("types2.example/v1/brief", ns)
    for each in (api, stack.first.api()):
        until(lambda: always(lambda: each.get(path).code == 200), 10, "the type")
    version = api.get(path).json["metadata"]["resourceVersion"]
    with api.watch(path, resourceVersion=version) as watch:
        stack.first.api().create("types2.example/v1/brief",
                                 {"apiVersion": "types2.example/v1", "kind": "Brief", "metadata": {"name": "b"}}, ns)
        watch.expect(("ADDED", "b"))
        stack.unregister("brief.types2.example")
        until(lambda: always(lambda: api.get(path).code == 404), 10, "the end of the type")
        watch.end(seconds=30)


def test_several_versions(stack, ns):
    """Conversion None: an object is served in each version, with its schema and columns"""
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}}
    register(stack, {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                     "metadata": {"name": "doubles.types3.example"},
                     "spec": {"group": "types3.example", "scope": "Namespaced", "conversion": {"strategy": "None"},
                              "names": {"plural": "doubles", "singular": "double", "kind": "Double",
                                        "listKind": "DoubleList"},
                              "versions": [{"name": "v1beta1", "served": True, "storage": False,
                                            "schema": {"openAPIV3Schema": schema}},
                                           {"name": "v1", "served": True, "storage": True,
                                            "schema": {"openAPIV3Schema": schema}}]}})
    try:
        api = stack.first.api()
        until(lambda: always(lambda: served(api, "types3.example")), 10, "the group")
        group = api.get("/apis/types3.example").json
        assert [version["version"] for version in group["versions"]] == ["v1", "v1beta1"]
        assert group["preferredVersion"]["version"] == "v1"
        document = {"apiVersion": "types3.example/v1beta1", "kind": "Double", "metadata": {"name": "d"},
                    "spec": {"a": "x"}}
        stored = api.create("types3.example/v1beta1/doubles", document, ns)
        assert stored["apiVersion"] == "types3.example/v1beta1"
        as_v1 = api.get(path_of("types3.example/v1/doubles", ns, "d")).json
        assert as_v1 == {**stored, "apiVersion": "types3.example/v1"}
        with api.watch(path_of("types3.example/v1/doubles", ns)) as watch:
            assert watch.event() == ("ADDED", as_v1)
    finally:
        stack.unregister("doubles.types3.example")


def test_status_subresource(stack, ns):
    """UPD-08, DISC-10"""
    schema = {"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                               "status": {"type": "object",
                                                   "x-kubernetes-preserve-unknown-fields": True}}}
    register(stack, {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                     "metadata": {"name": "tasks.types4.example"},
                     "spec": {"group": "types4.example", "scope": "Namespaced",
                              "names": {"plural": "tasks", "singular": "task", "kind": "Task", "listKind": "TaskList"},
                              "versions": [{"name": "v1", "served": True, "storage": True,
                                            "subresources": {"status": {}},
                                            "schema": {"openAPIV3Schema": schema}}]}})
    try:
        api = stack.first.api()
        until(lambda: always(lambda: served(api, "types4.example")), 10, "the group")
        path = path_of("types4.example/v1/tasks", ns, "t")
        document = {"apiVersion": "types4.example/v1", "kind": "Task", "metadata": {"name": "t"}, "spec": {"a": 1},
                    "status": {"done": True}}
        stored = api.create("types4.example/v1/tasks", document, ns)
        assert "status" not in stored
        stored["status"], stored["spec"] = {"done": False}, {"a": 99}
        with_status = api.put(path + "/status", stored)
        assert with_status.code == 200 and with_status.json["status"] == {"done": False}
        assert with_status.json["spec"] == {"a": 1} and with_status.json["metadata"]["generation"] == 1
        changed = api.patch(path, {"spec": {"a": 2}, "status": {"done": True}}).json
        assert changed["spec"] == {"a": 2} and changed["status"] == {"done": False} and changed[
            "metadata"]["generation"] == 2
        assert api.patch(path + "/status", {"status": {"done": True}}).json["status"] == {"done": True}
        assert api.get(path + "/status").json["status"] == {"done": True}
        names = [entry["name"] for entry in api.get("/apis/types4.example/v1").json["resources"]]
        assert names == ["tasks", "tasks/status"]
    finally:
        stack.unregister("tasks.types4.example")


@checks_of_c
@pytest.mark.parametrize("change, path", [
    (lambda v: v["schema"]["openAPIV3Schema"].update({"uniqueItems": True}), "uniqueItems"),
    (lambda v: v.update(subresources={"scale": {"specReplicasPath": ".a", "statusReplicasPath": ".b"}}), "scale"),
])
def test_refused(stack, change, path):
    """A CRD with unsupported parts is refused with their JSON path, and nothing is registered"""
    crd = json.loads(json.dumps(CRD))
    crd["metadata"]["name"] = "refused.types5.example"
    crd["spec"].update(group="types5.example",
                       names={"plural": "refused", "singular": "refused", "kind": "Refused", "listKind": "RefusedList"})
    change(crd["spec"]["versions"][0])
    done = stack.database.psql(f"SELECT kube_reports.register_crd($crd${json.dumps(crd)}$crd$::jsonb)", check=False)
    assert done.code != 0 and path in done.err and "spec.versions[0]" in done.err, done.err
    assert not served(stack.first.api(), "types5.example")


def test_served_at_once(stack):
    """Every worker knows a type from the moment its registration is committed, and no longer than that."""
    crd = json.loads(json.dumps(CRD).replace("aquasecurity.github.io", "at-once.example.com"))
    paths = ["/apis/at-once.example.com/v1alpha1/vulnerabilityreports", "/apis/at-once.example.com/v1alpha1"]
    apis = [proxy.api() for proxy in (stack.first, stack.second) for _ in range(4)]
    for _ in range(2):
        register(stack, crd)
        assert [api.get(path).code for api in apis for path in paths] == [200] * 16
        stack.unregister("vulnerabilityreports.at-once.example.com")
        assert [api.get(paths[0]).code for api in apis] == [404] * 8
