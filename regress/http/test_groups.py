"""
All types of the API groups of the Compliance Operator and the Trivy Operator: one command registers a group, requests
are those of the operators, results are typed.
"""

import collections
import http.client
import json
import os
import re
import threading

import pytest
import yaml

from aggregation import CRDS
from client import TABLE, path_of, run, until
from conftest import TOP, checks_of_c
from operators import (COMPLIANCE, MODERATE, TRIVY, VERSION, ModerateScan, check, check_result, compliance_crds,
                       compliance_report, image, remediation, trivy_crds, trivy_report, vulnerability)
from runbook import blocks_of
from test_api_service_command import SERVICE, Cluster

NS = "openshift-compliance"
CHECKS = f"{COMPLIANCE}/{VERSION}/compliancecheckresults"
REMEDIATIONS = f"{COMPLIANCE}/{VERSION}/complianceremediations"
SCANS = f"{COMPLIANCE}/{VERSION}/compliancescans"
SUITES = f"{COMPLIANCE}/{VERSION}/compliancesuites"


class Operators:
    """A stack with the YAML of both operators, and the command that registers it."""

    def __init__(self, stack, directory):
        self.stack = stack
        self.directory = directory
        # One directory with a file for each type, and one file with everything, as operators ship it.
        (directory / "compliance").mkdir()
        for definition in compliance_crds():
            name = definition["metadata"]["name"]
            (directory / "compliance" / f"{name}.yaml").write_text("---\n" + yaml.safe_dump(definition))
        (directory / "compliance" / "README.md").write_text("no YAML: {{")
        others = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "trivy-system"}},
                  {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "trivy-operator"}}]
        (directory / "trivy.yaml").write_text(
            "# everything\n" + yaml.safe_dump_all([*others, *trivy_crds()], explicit_start=True))

    def register(self, *words, user="kube_reports_owner", code=0, text=None):
        done = run([f"{self.stack.database.directory}/dest/usr/bin/kube-reports-proxy", "register",
                    f"--database={self.stack.database.connection(user)}", *map(str, words)], check=False, input=text)
        assert done.code == code, done
        return done

    def table(self, *words, **more):
        """Registers types; returns what the command prints, as {type: (versions, results, change)}"""
        lines = [line.split(maxsplit=3) for line in self.register(*words, **more).out.splitlines()]
        assert lines[0] == ["TYPE", "VERSIONS", "RESULTS", "CHANGE"]
        return {line[0]: tuple(line[1:]) for line in lines[1:]}

    def api(self):
        return self.stack.first.api()

    def psql(self, query, **more):
        return self.stack.database.psql(query, **more)

    def results(self, group_kind, columns):
        """Returns rows of typed_result of one type, as lists."""
        lines = self.psql(f"SELECT json_build_array({columns}) FROM kube_reports.typed_result WHERE "
                          f"report_resource || '.' || report_group = '{group_kind}'")
        return sorted((json.loads(line) for line in lines.splitlines()), key=json.dumps)


@pytest.fixture(scope="module")
def operators(module_stack, tmp_path_factory):
    made = Operators(module_stack, tmp_path_factory.mktemp("operators"))
    module_stack.first = module_stack.proxy()
    yield made


@pytest.fixture(scope="module")
def served(operators):
    """Both groups are registered, as docs/groups.md says."""
    operators.register("compliance", f"--from={operators.directory}/compliance")
    operators.register("trivy", f"--from={operators.directory}/trivy.yaml")

    def both(api):
        groups = {entry["name"] for entry in api.get("/apis").json["groups"]}
        return {COMPLIANCE, TRIVY} <= groups
    until(lambda: all(both(operators.api()) for _ in range(8)), 30, "both groups")
    return operators


# --- the command ---

def test_register_from_yaml(operators):
    """A type is new, then unchanged, then changed; documents that are no CRDs are skipped"""
    first = operators.table("compliance", f"--from={operators.directory}/compliance")
    assert len(first) == 12
    assert first[f"compliancecheckresults.{COMPLIANCE}"] == (VERSION, "current", "new")
    assert first[f"complianceremediations.{COMPLIANCE}"] == (VERSION, "current", "new")
    assert first[f"scansettings.{COMPLIANCE}"] == (VERSION, "none", "new")
    generation = operators.psql("SELECT generation FROM kube_reports_internal.store")
    again = operators.table(f"{operators.directory}/compliance", user="kube_reports_admin")
    assert {change for _, _, change in again.values()} == {"unchanged"}
    assert operators.psql("SELECT generation FROM kube_reports_internal.store") == generation

    trivy = operators.table("trivy", f"--from={operators.directory}/trivy.yaml")
    assert len(trivy) == 12
    assert {results for kind, (_, results, _) in trivy.items() if "sbom" not in kind} == {"current"}
    # As kube-apiserver returns it: with a default, a status, and metadata that the server writes.
    (definition,) = [one for one in compliance_crds() if one["spec"]["names"]["kind"] == "Variable"]
    definition["metadata"] |= {"uid": "u", "resourceVersion": "17", "managedFields": [{"manager": "olm"}]}
    definition["spec"]["conversion"] = {"strategy": "None"}
    definition["status"] = {"conditions": [], "storedVersions": [VERSION]}
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": [definition]})
    assert operators.table("-", text=listed) == {f"variables.{COMPLIANCE}": (VERSION, "none", "unchanged")}
    definition["spec"]["names"]["shortNames"].append("vars")
    told = operators.register("-", text=json.dumps(definition))
    assert told.out.split()[-1] == "changed" and f"{COMPLIANCE}/{VERSION} is served" in told.err
    assert operators.psql("SELECT crd::jsonb->'status' IS NULL FROM kube_reports.resource_type "
                          "WHERE plural = 'variables'") == "t"
    built_in = json.loads(operators.psql(
        "SELECT crd::jsonb FROM kube_reports.resource_type WHERE plural = 'policyreports'"))
    assert operators.table("-", text=json.dumps(built_in)) == {
        "policyreports.wgpolicyk8s.io": ("v1alpha2", "current", "built in")}


@checks_of_c
def test_register_refusals(operators, tmp_path):
    """Wrong CRDs, sources and commands are refused with the reason: all types are registered, or none"""
    registry = ("SELECT generation FROM kube_reports_internal.store; SELECT t.id, t.plural, t.\"group\", t.crd::text "
                "FROM kube_reports.resource_type t ORDER BY t.id")
    before = operators.psql(registry)
    (good, *_) = trivy_crds()
    good = json.loads(json.dumps(good).replace(TRIVY, "refused.example.com"))
    wrong = json.loads(json.dumps(good).replace("vulnerabilityreport", "otherreport"))
    wrong["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["report"]["type"] = "wrong"
    for both in ([good, wrong], [wrong, good]):
        told = operators.register("-", code=1, text=yaml.safe_dump_all(both, explicit_start=True)).err
        assert "nothing was registered" in told and "[report].type" in told
    told = operators.register("-", code=1, text=yaml.safe_dump_all([good, {**good, "status": {}}])).err
    assert "two different CustomResourceDefinitions vulnerabilityreports.refused.example.com" in told
    told = operators.register("trivy", f"--from={operators.directory}/compliance", code=1).err
    assert f"trivy: there is no CRD vulnerabilityreports.{TRIVY} in " in told
    assert "no CustomResourceDefinition was given" in operators.register(
        "-", code=1, text="kind: ConfigMap\n").err
    assert "No such file" in operators.register(tmp_path / "missing.yaml", code=1).err
    assert "yaml: " in operators.register("-", code=1, text="kind: CustomResourceDefinition\n a: [").err
    assert "grant_admin" in operators.register(
        operators.directory / "compliance", user="kube_reports_reader", code=1).err
    operators.register(code=2)
    operators.register("compliance", "--service=a/b", code=2)
    assert good["metadata"]["name"] in operators.register("-", "--dry-run", text=yaml.safe_dump(good)).out
    assert operators.psql(registry) == before


def test_register_with_api_services(served, apiserver, tmp_path):
    """CRDs of the cluster are registered, and the APIService of their group leads here; a repeat changes nothing"""
    cluster = Cluster(served.stack, apiserver)
    try:
        cluster.ready()
        for definition in trivy_crds():
            apiserver.put(CRDS, definition)
        group = f"{TRIVY}/{VERSION}"
        until(lambda: cluster.aggregation.document(group), 20, "the APIService of the CRDs")
        words = ["trivy", f"--kubeconfig={cluster.kubeconfig}", f"--service={SERVICE}", f"--ca-file={cluster.ca}",
                 f"--cluster-id={served.stack.cluster}"]
        # A CRD of the group that is not registered would not be served any more: no APIService changes.
        (extra,) = [one for one in trivy_crds() if one["spec"]["names"]["kind"] == "SbomReport"]
        extra = json.loads(json.dumps(extra).replace("sbomreport", "newreport").replace("SbomR", "NewR"))
        apiserver.put(CRDS, extra)
        before = len(cluster.writes())
        assert "newreports.aquasecurity.github.io, which is not registered" in served.register(
            *words[1:], f"{served.directory}/trivy.yaml", code=1).err
        assert len(cluster.writes()) == before and "service" not in cluster.spec(group)
        apiserver.remove(CRDS, extra["metadata"]["name"])
        told = served.register(*words)
        assert len(told.out.splitlines()) == 13 and "unchanged" in told.out and "new" not in told.out.split()
        cluster.leads_here(group)
        writes = len(cluster.writes())
        assert "leads to kube-reports/kube-reports already" in served.register(*words).err
        assert len(cluster.writes()) == writes
        # The commands of the pages name no cluster: the cluster's uid is that of kube-system.
        apiserver.delete_namespace("kube-system")
        apiserver.create_namespace("kube-system", uid=served.stack.cluster)
        (tmp_path / "ca.crt").symlink_to(cluster.ca)
        (tmp_path / "admin.conf").symlink_to(cluster.kubeconfig)
        database = served.stack.database
        environment = {**os.environ, "PATH": f"{database.directory}/dest/usr/bin:{os.environ['PATH']}",
                       "PGHOST": database.directory, "PGUSER": "kube_reports_owner", "PGDATABASE": "kube_reports"}
        for page, contains in (("docs/groups.md", "register trivy --service"), ("docs/howto.md", f"enable {group}")):
            (command,) = (text for _, text in blocks_of(page) if contains in text)
            told = run(["bash", "-c", command], cwd=tmp_path, env=environment).err
            assert "leads to kube-reports/kube-reports already" in told, told
        # Registered with the whole group, the new type is served, too.
        apiserver.put(CRDS, extra)
        assert f"newreports.{TRIVY} " in served.register(*words).out
        cluster.leads_here(group)
        assert "there is no CRD compliancecheckresults" in served.register("compliance", *words[1:], code=1).err
        for definition in compliance_crds():
            apiserver.put(CRDS, definition)
        (commands,) = (text for _, text in blocks_of("docs/groups.md") if "register trivy --kubeconfig" in text)
        out = run(["bash", "-e", "-c", commands], cwd=tmp_path, env=environment).out
        assert f"compliancecheckresults.{COMPLIANCE} " in out and f"vulnerabilityreports.{TRIVY} " in out
        page = (TOP / "docs" / "groups.md").read_text(encoding="utf-8")
        (back,) = re.findall(r"`(kube-reports-proxy apiservice disable [^`]*)`", page)
        run(["bash", "-c", back], cwd=tmp_path, env=environment)
        assert "service" not in cluster.spec(group)
    finally:
        cluster.aggregation.end()
        served.psql(f"SELECT kube_reports.unregister('newreports.{TRIVY}') WHERE EXISTS (SELECT FROM "
                    "kube_reports.resource_type WHERE plural = 'newreports')")


def test_the_page(served, tmp_path):
    """Runs the commands of docs/groups.md; test_register_with_api_services runs those that need a cluster"""
    page = (TOP / "docs" / "groups.md").read_text()
    blocks = blocks_of("docs/groups.md")
    commands = [line for language, block in blocks if not language for line in block.splitlines()]
    (crds,) = (block for language, block in blocks if language == "yaml")
    (tmp_path / "kubescape.yaml").write_text(crds)
    of_cluster = {line for line in commands if "--kubeconfig" in line}
    assert len(of_cluster) == 3 and of_cluster <= set(commands)
    (tmp_path / "compliance-operator" / "config" / "crd").mkdir(parents=True)
    (tmp_path / "compliance-operator" / "config" / "crd" / "bases").symlink_to(served.directory / "compliance")
    (tmp_path / "trivy-operator" / "deploy" / "helm" / "crds").mkdir(parents=True)
    (tmp_path / "trivy-operator" / "deploy" / "helm" / "crds" / "all.yaml").symlink_to(served.directory / "trivy.yaml")
    (tmp_path / "crds").symlink_to(served.directory / "compliance")
    (tmp_path / "operator.yaml").symlink_to(served.directory / "trivy.yaml")
    (tmp_path / "kubectl").write_text(f"#!/bin/sh\ncat {served.directory}/trivy.yaml\n")
    (tmp_path / "kubectl").chmod(0o755)
    database = served.stack.database
    environment = {**os.environ, "PATH": f"{tmp_path}:{database.directory}/dest/usr/bin:{os.environ['PATH']}",
                   "PGHOST": database.directory, "PGUSER": "kube_reports_owner", "PGDATABASE": "kube_reports"}
    script = "set -e -o pipefail\n" + "\n".join(line for line in commands if line not in of_cluster)
    out = run(["bash", "-c", script], cwd=tmp_path, env=environment).out
    assert out.count(f"compliancecheckresults.{COMPLIANCE} ") == 2 and out.count(f"sbomreports.{TRIVY} ") == 6
    assert out.count(" new\n") == 2 and " changed\n" not in out
    for kind in ("workloadconfigurationscans", "vulnerabilitymanifests"):
        assert re.search(rf"^{kind}\.spdx\.softwarecomposition\.kubescape\.io +v1beta1 +current +new$", out, re.M), out
    # The table of the page names the kinds that have results.
    rows = [line for line in page.splitlines() if line.startswith("| ") and "Report" in line or "Compliance Op" in line]
    for kind in served.psql(f"SELECT kind FROM kube_reports.resource_type WHERE results = 'current' AND \"group\" IN "
                            f"('{COMPLIANCE}', '{TRIVY}')").splitlines():
        assert any(kind in row or kind.startswith("Cluster") and "of cluster scope" in row for row in rows), kind


# --- the groups ---

@pytest.mark.parametrize("definition", [*compliance_crds(), *trivy_crds()],
                         ids=lambda definition: definition["spec"]["names"]["kind"])
def test_every_kind(served, definition):
    """Each request of a client works with objects of each kind; names, scope and status are those of the CRD"""
    spec = definition["spec"]
    group, names = spec["group"], spec["names"]
    resource = f"{group}/{VERSION}/{names['plural']}"
    namespace = "default" if spec["scope"] == "Namespaced" else None
    api = served.api()
    (entry,) = [one for one in api.get(f"/apis/{group}/{VERSION}").json["resources"] if one["name"] == names["plural"]]
    assert entry["kind"] == names["kind"] and entry["namespaced"] == (namespace is not None)
    assert entry.get("shortNames", []) == names.get("shortNames", [])
    document = minimal(definition, "every-kind")
    start = api.get(path_of(resource, namespace)).json["metadata"]["resourceVersion"]
    with api.watch(path_of(resource, namespace), resourceVersion=start) as watch:
        created = api.create(resource, document, namespace)
        assert watch.change()[0] == "ADDED"
        path = path_of(resource, namespace, "every-kind")
        assert api.post(path_of(resource, namespace), document).code == 409
        assert api.names(resource, namespace, labelSelector="made-by in (tests),!other") == ["every-kind"]
        assert api.names(resource, namespace, labelSelector="other") == []
        updated = {**created, "metadata": {**created["metadata"], "labels": {"made-by": "others"}}}
        assert api.put(path, updated).code == 200
        assert api.put(path, updated).code == 409
        assert api.patch(path, {"metadata": {"annotations": {"seen": "yes"}}}).code == 200
        assert [watch.change()[0] for _ in range(2)] == ["MODIFIED"] * 2
        has_status = "status" in spec["versions"][0]["subresources"]
        assert api.get(path + "/status").code == (200 if has_status else 404)
        table = api.get(path_of(resource, namespace), accept=TABLE).json
        assert [column["name"] for column in table["columnDefinitions"][1:]] == [
            column["name"] for column in spec["versions"][0]["additionalPrinterColumns"]] or not spec["versions"][0][
                "additionalPrinterColumns"]
        assert api.delete(path).code == 200 and watch.change()[0] == "DELETED"


def minimal(definition, name):
    """Returns the smallest object that the schema of a type allows."""
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]

    def value(schema):
        if "enum" in schema:
            return schema["enum"][0]
        if schema["type"] == "object":
            return {key: value(schema["properties"][key]) for key in schema.get("required", ())}
        if schema.get("format") == "date-time":
            return "2026-01-05T01:06:10Z"
        return {"string": "x", "boolean": True, "integer": 0, "number": 0, "array": []}[schema["type"]]
    return {"apiVersion": f"{definition['spec']['group']}/{VERSION}", "kind": definition["spec"]["names"]["kind"],
            **value(schema), "metadata": {"name": name, "labels": {"made-by": "tests"}}}


def test_defaults(served):
    """Defaults of the schema are set at every depth; an unknown field is pruned"""
    api = served.api()
    made = api.create(f"{COMPLIANCE}/{VERSION}/scansettings", {
        "apiVersion": f"{COMPLIANCE}/{VERSION}", "kind": "ScanSetting", "metadata": {"name": "s"}, "roles": ["worker"],
        "rawResultStorage": {"size": "2Gi", "storageClassName": None}, "unknown": 1}, NS)
    assert made["rawResultStorage"] == {"enabled": True, "size": "2Gi", "rotation": 3, "storageClassName": None,
                                        "pvAccessModes": ["ReadWriteOnce"]}
    assert made["scanTolerations"] == [{"operator": "Exists"}] and made["strictNodeScan"] is True
    assert (made["timeout"], made["maxRetryOnTimeout"], made["suspend"]) == ("30m", 3, False)
    assert made["showNotApplicable"] is False and "unknown" not in made
    bound = api.create(f"{COMPLIANCE}/{VERSION}/scansettingbindings", {
        "apiVersion": f"{COMPLIANCE}/{VERSION}", "kind": "ScanSettingBinding", "metadata": {"name": "b"},
        "profiles": [{"name": "ocp4-cis", "kind": "Profile"}]}, NS)
    assert bound["settingsRef"]["name"] == "default"


def test_remediations(served):
    """An embedded object is stored whole and needs a kind; the status is written apart, and has its default"""
    api = served.api()
    document = remediation("embedded")
    made = api.create(REMEDIATIONS, document, NS)
    # A create never sets the status of a type that has the subresource.
    assert "status" not in made and made["spec"]["type"] == "Configuration"
    assert made["spec"]["current"]["object"] == document["spec"]["current"]["object"]
    path = path_of(REMEDIATIONS, NS, made["metadata"]["name"])
    refused = remediation("no-kind")
    del refused["spec"]["current"]["object"]["kind"]
    answer = api.post(path_of(REMEDIATIONS, NS), refused)
    assert answer.code == 422 and "spec.current.object.kind: Required value" in answer.json["message"]
    made["status"] = {"errorMessage": "boom"}
    made["spec"]["apply"] = True
    answer = api.put(path + "/status", made)
    assert answer.code == 200
    assert answer.json["status"] == {"applicationState": "NotApplied", "errorMessage": "boom"}
    assert answer.json["spec"]["apply"] is False
    answer = api.patch(path, {"spec": {"apply": True}, "status": {"errorMessage": "lost"}})
    assert answer.json["spec"]["apply"] is True and answer.json["status"]["errorMessage"] == "boom"
    assert api.delete(path).code == 200


def test_scans(served):
    """A deleted scan stays until its finalizer is removed; its status has its phase"""
    api = served.api()
    made = api.create(SCANS, {
        "apiVersion": f"{COMPLIANCE}/{VERSION}", "kind": "ComplianceScan",
        "metadata": {"name": "held", "finalizers": [f"scan.finalizers.{COMPLIANCE}"]},
        "spec": {"profile": "cis", "scanType": "Node", "scanLimits": {"memory": "1Gi", "cpu": 2}}}, NS)
    path = path_of(SCANS, NS, "held")
    for phase in ("PENDING", "LAUNCHING", "RUNNING", "AGGREGATING", "DONE"):
        made["status"] = {"phase": phase, "result": "NON-COMPLIANT" if phase == "DONE" else "NOT-AVAILABLE",
                          "currentIndex": 7, "resultsStorage": {"kind": "PersistentVolumeClaim", "name": "held"}}
        answer = api.put(path + "/status", made)
        assert answer.code == 200, answer
        made = answer.json
    table = api.get(path, accept=TABLE).json
    assert table["rows"][0]["cells"][1:3] == ["DONE", "NON-COMPLIANT"]
    assert api.delete(path).code == 200
    assert api.get(path).json["metadata"]["deletionTimestamp"]
    assert api.patch(path, {"metadata": {"finalizers": None}}).code == 200
    assert api.get(path).code == 404


# --- their results ---

def test_compliance_results(served):
    """The objects that the aggregator writes in two runs give results, remediations and changes of results"""
    api = served.api()
    checks = {"audit": "FAIL", "kubelet": "PASS", "by-hand": "MANUAL", "mixed": "INCONSISTENT", "told": "INFO",
              "broken": "ERROR", "elsewhere": "NOT-APPLICABLE"}
    for name, status in checks.items():
        document = check_result(name, status, {"audit": "high", "told": "info"}.get(name, "medium"))
        # The aggregator reads each object before it writes it.
        assert api.get(path_of(CHECKS, NS, document["metadata"]["name"])).code == 404
        api.create(CHECKS, document, NS)
    assert len(api.names(CHECKS, NS, labelSelector=f"{COMPLIANCE}/suite=cis,{COMPLIANCE}/check-status=FAIL,"
                                                   f"{COMPLIANCE}/automated-remediation")) == 1
    assert len(api.names(CHECKS, NS, labelSelector=f"{COMPLIANCE}/check-status in (FAIL,MANUAL),"
                                                   f"!{COMPLIANCE}/inconsistent-check")) == 2
    got = served.results(f"compliancecheckresults.{COMPLIANCE}",
                         "rule, policy, category, source, severity, status, native_status, subject_kind, subject_name, "
                         "namespace, message, properties->>'automated-remediation', score")
    expected = {"FAIL": "fail", "PASS": "pass", "ERROR": "error", "INCONSISTENT": "error"}
    assert got == sorted(
        [[name, "ocp4-cis", "cis", "Compliance Operator", {"audit": "high", "told": "info"}.get(name, "medium"),
          expected.get(status, "skip"), status if status in ("MANUAL", "NOT-APPLICABLE", "INCONSISTENT", "INFO")
          else expected[status], "ComplianceScan", "ocp4-cis", NS, f"what {name} does",
          "true" if status == "FAIL" else None, None] for name, status in checks.items()], key=json.dumps)

    made = api.create(REMEDIATIONS, remediation("audit"), NS)
    path = path_of(REMEDIATIONS, NS, "ocp4-cis-audit")

    def state():
        return served.results(f"complianceremediations.{COMPLIANCE}",
                              "rule, policy, status, native_status, subject_kind, subject_name, message, "
                              "properties->>'object.kind'")
    about = ["ocp4-cis-audit", "ocp4-cis"], ["ComplianceCheckResult", "ocp4-cis-audit"]
    assert state() == [[*about[0], "skip", "skip", *about[1], "", "MachineConfig"]]
    for word, status in (("Pending", "skip"), ("Applied", "pass"), ("Outdated", "warn"), ("Error", "error")):
        made["status"] = {"applicationState": word, "errorMessage": "boom" if word == "Error" else ""}
        answer = api.put(path + "/status", made)
        assert answer.code == 200
        made = answer.json
        native = word if word != "Error" else "error"
        assert state() == [[*about[0], status, native, *about[1], made["status"]["errorMessage"], "MachineConfig"]]
    # The score counts the two checks that passed or failed, and the error.  The states that remediations go through are
    # in no score.
    made["status"] = {"applicationState": "Applied"}
    assert api.put(path + "/status", made).code == 200
    assert served.psql("SELECT pass, fail, error, score::numeric(4, 3) FROM (SELECT (now() AT TIME ZONE 'UTC')::date) "
                       "d(today), kube_reports.fleet_score(today, today, '{\"source\": [\"Compliance Operator\", "
                       "\"Compliance Operator Remediation\"]}')") == "1|1|1|0.333"
    assert served.psql("SELECT check_result, remediations, states FROM kube_reports.remediable_failures"
                       ) == "ocp4-cis-audit|{ocp4-cis-audit}|{Applied}"
    assert served.psql("SELECT remediation, state, wanted, object_kind, object_name, suite, scan FROM "
                       "kube_reports.remediations") == (
        "ocp4-cis-audit|Applied|f|MachineConfig|75-audit|cis|ocp4-cis")

    # The next run: one check passes now, another one is deleted.
    fixed = api.get(path_of(CHECKS, NS, "ocp4-cis-audit")).json
    fixed["status"] = "PASS"
    assert api.put(path_of(CHECKS, NS, "ocp4-cis-audit"), fixed).code == 200
    assert api.delete(path_of(CHECKS, NS, "ocp4-cis-elsewhere")).code == 200
    assert served.psql("SELECT rule, old_status, new_status FROM kube_reports.result_event WHERE old_status IS NOT "
                       "NULL AND source = 'Compliance Operator' AND new_status = 'pass'") == "audit|fail|pass"
    assert served.psql("SELECT * FROM kube_reports.verify()") == ""


def test_trivy_results(served):
    """The results of each kind have the right keys, severities, scores and subjects"""
    api = served.api()

    def create(kind, name, namespace=None, **report):
        plural = f"{TRIVY}/{VERSION}/{kind.lower()}s"
        return api.create(plural, trivy_report(kind, name, namespace, **report), namespace)

    create("VulnerabilityReport", "replicaset-storefront-app", "shop", **image(vulnerabilities=[
        vulnerability("CVE-2026-0001", "CRITICAL", score=9.8),
        vulnerability("CVE-2026-0001", "CRITICAL", score=9.8, resource="libssl"),
        vulnerability("CVE-2026-0002", "LOW", cvss={"nvd": {"V3Score": 3.1}, "ghsa": {"V3Score": 4.1}}),
        vulnerability("CVE-2026-0003", "UNKNOWN", fixedVersion="")]))
    create("ClusterVulnerabilityReport", "k8s-cluster", owner=False, **image(vulnerabilities=[
        vulnerability("CVE-2026-0004", "MEDIUM", score=5)]))
    got = served.results(f"vulnerabilityreports.{TRIVY}",
                         "policy, severity, score, status, source, category, subject_kind, subject_name, "
                         "properties->>'resource', properties->>'fixedVersion', properties->>'artifact.tag'")
    about = ["fail", "Trivy Vulnerability", "Vulnerability Scan", "ReplicaSet", "storefront-7d998c79c4"]
    assert got == [["CVE-2026-0001", "critical", 9.8, *about, "libssl", "3.0.2", "v1.2.3"],
                   ["CVE-2026-0001", "critical", 9.8, *about, "openssl", "3.0.2", "v1.2.3"],
                   ["CVE-2026-0002", "low", 3.1, *about, "openssl", "3.0.2", "v1.2.3"],
                   ["CVE-2026-0003", "unknown", None, *about, "openssl", None, "v1.2.3"]]
    assert served.results(f"clustervulnerabilityreports.{TRIVY}",
                          "policy, score, namespace, subject_kind, subject_name") == [
        ["CVE-2026-0004", 5, "", "ReplicaSet", "storefront-7d998c79c4"]]
    assert served.psql("SELECT report, results, highest_score FROM kube_reports.reports_with_score(8.0)"
                       ) == "replicaset-storefront-app|2|9.8"

    create("ExposedSecretReport", "replicaset-storefront-app", "shop", **image(secrets=[
        {"category": "Stripe", "match": f"{name}: *****", "ruleID": "stripe-access-token", "severity": "HIGH",
         "target": "/app/secret.yaml", "title": "Stripe"} for name in ("public", "secret")]))
    assert served.results(f"exposedsecretreports.{TRIVY}",
                          "policy, severity, status, source, category, subject_name, properties->>'match'") == [
        ["stripe-access-token", "high", "fail", "Trivy ExposedSecrets", "Stripe", "storefront-7d998c79c4",
         f"{name}: *****"] for name in ("public", "secret")]

    for kind in ("ConfigAudit", "InfraAssessment", "RbacAssessment"):
        for scope, namespace in (("", "shop"), ("Cluster", None)):
            create(f"{scope}{kind}Report", "replicaset-storefront", namespace, owner=not scope,
                   checks=[check("KSV014", False, "HIGH"), check("KSV001", True, "LOW")])
            assert served.results(f"{scope.lower()}{kind.lower()}reports.{TRIVY}",
                                  "policy, severity, status, source, category, message, subject_name, namespace") == [
                [name, severity, status, f"Trivy {kind}", "Kubernetes Security Check", message,
                 "storefront-7d998c79c4", namespace or ""] for name, severity, status, message in (
                    ("KSV001", "low", "pass", "about KSV001"), ("KSV014", "high", "fail", "KSV014 fails"))]

    # The operator creates the report, and writes its status later: a summary or all checks.
    reports = f"{TRIVY}/{VERSION}/clustercompliancereports"
    made = api.create(reports, compliance_report("k8s-nsa", summary={"failCount": 9}))
    assert "status" not in made and served.results(f"clustercompliancereports.{TRIVY}", "rule") == []
    made["status"] = compliance_report("k8s-nsa", summaryReport={"id": "nsa", "title": "NSA", "controlCheck": [
        {"id": "1.0", "name": "Non-root", "severity": "MEDIUM", "totalFail": 0},
        {"id": "1.1", "name": "Immutable", "severity": "LOW", "totalFail": 7}]})["status"]
    made = api.put(path_of(reports, None, "k8s-nsa") + "/status", made).json
    columns = "policy, rule, severity, status, source, category, message, subject_kind, subject_name, namespace"
    about = ["Trivy Compliance", "NSA Kubernetes Hardening"], ["ClusterComplianceReport", "k8s-nsa", ""]
    assert served.results(f"clustercompliancereports.{TRIVY}", columns) == [
        ["k8s-nsa", "1.0", "medium", "pass", *about[0], "Non-root", *about[1]],
        ["k8s-nsa", "1.1", "low", "fail", *about[0], "Immutable", *about[1]]]
    made["status"] = compliance_report("k8s-nsa", detailReport={"id": "nsa", "title": "NSA", "results": [
        {"id": "1.0", "name": "Non-root", "severity": "MEDIUM", "checks": [check("KSV012", True)]},
        {"id": "1.1", "name": "Immutable", "severity": "LOW", "checks": [
            check("KSV014", True), check("KSV014", False, target="shop/Pod/a")]},
        {"id": "3.0", "name": "By hand", "severity": "CRITICAL", "status": "WARN", "checks": None}]})["status"]
    assert api.put(path_of(reports, None, "k8s-nsa") + "/status", made).code == 200
    assert served.results(f"clustercompliancereports.{TRIVY}", columns) == [
        ["k8s-nsa", "1.0", "medium", "pass", *about[0], "Non-root", *about[1]],
        ["k8s-nsa", "1.1", "low", "fail", *about[0], "KSV014 fails", *about[1]],
        ["k8s-nsa", "3.0", "critical", "warn", *about[0], "By hand", *about[1]]]
    # The same controls, now in a detail report: history has no change.
    assert served.psql("SELECT count(*) FROM kube_reports.result_event WHERE policy = 'k8s-nsa' AND old_status IS NOT "
                       "NULL") == "0"
    assert served.psql("SELECT * FROM kube_reports.verify()") == ""


def test_scanner_report_ttl(served):
    """Trivy deletes and recreates every report each day: no result appears or disappears in history"""
    api = served.api()
    resource = f"{TRIVY}/{VERSION}/configauditreports"
    document = trivy_report("ConfigAuditReport", "ttl", "shop", checks=[check("KSV099", False)])
    api.create(resource, document, "shop")
    since = served.psql("SELECT first_seen FROM kube_reports.typed_result WHERE policy = 'KSV099'")
    for _ in range(2):
        assert api.delete(path_of(resource, "shop", "ttl")).code == 200
        api.create(resource, document, "shop")
    assert served.psql("SELECT first_seen FROM kube_reports.typed_result WHERE policy = 'KSV099'") == since
    assert served.psql("SELECT count(*) FROM kube_reports.result_event WHERE policy = 'KSV099'") == "1"


class Aggregator:
    """Makes the calls of the operator's aggregator at the end of a scan, one by one; it repeats calls that failed."""

    def __init__(self, proxy):
        self.proxy = proxy
        self.calls = collections.Counter()

    def ask(self, method, path, body=None, **query):
        self.calls[method] += 1

        def answered():
            try:
                answer = self.proxy.api().request(method, path, body, **query)
            except (OSError, http.client.HTTPException):
                return None
            return answer if answer.code != 429 and answer.code < 500 else None
        return until(answered, 60, f"an answer to {method} {path}")

    def names(self, resource, scan):
        answer = self.ask("GET", path_of(resource, NS), labelSelector=f"{COMPLIANCE}/scan-name={scan.name}")
        assert answer.code == 200, answer
        return {item["metadata"]["name"] for item in answer.json["items"]}

    def store(self, resource, document):
        """GET, then CREATE or UPDATE; returns the updated object, or None if it was created."""
        path = path_of(resource, NS, document["metadata"]["name"])
        found = self.ask("GET", path)
        if found.code == 404:
            # 409: the answer to the first attempt was lost.
            assert self.ask("POST", path_of(resource, NS), document).code in (201, 409)
            return None
        assert found.code == 200, found
        metadata = {**document["metadata"], **{key: found.json["metadata"][key] for key in ("resourceVersion", "uid")}}
        answer = self.ask("PUT", path, {**document, "metadata": metadata})
        assert answer.code == 200, answer
        return answer.json

    def remove(self, resource, names):
        for name in names:
            assert self.ask("DELETE", path_of(resource, NS, name)).code in (200, 404)

    def run(self, scan, halfway=lambda: None):
        stale = {resource: self.names(resource, scan) for resource in (CHECKS, REMEDIATIONS)}
        for number, document in enumerate(scan.checks.values()):
            if number == len(scan.checks) // 2:
                halfway()
            self.store(CHECKS, document)
            stale[CHECKS].discard(document["metadata"]["name"])
        for document in scan.remediations.values():
            stored = self.store(REMEDIATIONS, document)
            if stored is not None:
                assert self.ask("PUT", path_of(REMEDIATIONS, NS, document["metadata"]["name"]) + "/status",
                                stored).code == 200
            stale[REMEDIATIONS].discard(document["metadata"]["name"])
        for resource, names in stale.items():
            self.remove(resource, names)


def test_replay_of_the_aggregator(served):
    """The aggregator stores a scan while the proxy restarts; a repeat changes nothing; the next scan has changes"""
    scan = ModerateScan()
    proxy = served.stack.first
    aggregator = Aggregator(proxy)
    served.api().create(SUITES, scan.suite, NS)
    uid = served.api().create(SCANS, scan.scan, NS)["metadata"]["uid"]
    for document in scan.checks.values():
        document["metadata"]["ownerReferences"][0]["uid"] = uid
    restart = threading.Thread(target=proxy.restart)
    aggregator.run(scan, restart.start)
    restart.join()
    proxy.wait_ready()

    def counts(columns, table="typed_result", **more):
        where = "".join(f" AND {key} = '{value}'" for key, value in more.items())
        return dict(line.rsplit("|", 1) for line in served.psql(
            f"SELECT {columns}, count(*) FROM kube_reports.{table} WHERE policy = '{scan.name}' {where} "
            "GROUP BY 1").splitlines())

    native = {"FAIL": "fail", "PASS": "pass", "ERROR": "error"}
    assert counts("native_status", source="Compliance Operator") == {
        native.get(status, status): str(count) for status, count in MODERATE.items()}
    assert counts("severity", status="fail", source="Compliance Operator") == {
        level: str(sum(document["status"] == "FAIL" and document["severity"] == level
                       for document in scan.checks.values())) for level in ("low", "medium", "high")}
    assert counts("status", source="Compliance Operator Remediation") == {"skip": str(len(scan.remediations))}
    assert served.psql(f"SELECT count(*), count(DISTINCT remediation) FROM kube_reports.remediations WHERE scan = "
                       f"'{scan.name}'") == f"{len(scan.remediations)}|{len(scan.remediations)}"
    # The restart has repeated no event.
    assert counts("new_status", "result_event", source="Compliance Operator") == {
        "fail": "193", "pass": "32", "error": "4", "skip": "6"}

    # The controller of remediations sets their status.
    for document in scan.remediations.values():
        stored = served.api().get(path_of(REMEDIATIONS, NS, document["metadata"]["name"])).json
        stored["status"] = {"applicationState": "NotApplied"}
        assert served.api().put(path_of(REMEDIATIONS, NS, document["metadata"]["name"]) + "/status", stored).code == 200

    def versions():
        return {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for resource in (CHECKS, REMEDIATIONS)
                for item in served.api().get(path_of(resource, NS)).json["items"]}

    def events():
        return served.psql(f"SELECT count(*) FROM kube_reports.result_event WHERE policy = '{scan.name}'")
    before = versions(), events()
    aggregator.calls.clear()
    aggregator.run(scan)
    assert (versions(), events()) == before
    checks, remediations = len(scan.checks), len(scan.remediations)
    assert aggregator.calls == {"GET": 2 + checks + remediations, "PUT": checks + 2 * remediations}

    # The next run, at another time.
    rules = list(scan.checks)
    for document in scan.checks.values():
        document["metadata"]["annotations"][f"{COMPLIANCE}/last-scanned-timestamp"] = "2026-01-06T01:06:10Z"
    for rule in rules[:3]:
        scan.set_status(rule, "PASS")
    gone = rules[5:10]
    for rule in gone:
        scan.forget(rule)
    aggregator.calls.clear()
    aggregator.run(scan)
    assert aggregator.calls["DELETE"] == 5 + remediations - len(scan.remediations)
    assert served.psql("SELECT count(*), count(*) FILTER (WHERE old_status = 'fail' AND new_status = 'pass') FROM "
                       f"kube_reports.result_event WHERE policy = '{scan.name}' AND old_status IS NOT NULL AND "
                       "new_status IS NOT NULL") == "3|3"
    assert counts("native_status", source="Compliance Operator")["fail"] == str(193 - 3 - 5)
    assert aggregator.names(CHECKS, scan) == {document["metadata"]["name"] for document in scan.checks.values()}
    assert aggregator.names(REMEDIATIONS, scan) == {f"{scan.name}-{name}" for name in scan.remediations}
    assert served.psql("SELECT * FROM kube_reports.verify()") == ""
