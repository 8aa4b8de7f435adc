"""Every kubectl on this machine against the proxy (issue 2: the commands of the list, done when 2 and 4)."""

import json
import os
import queue
import threading

import pytest

from client import CPOLR, EPHR, POLR, REPS, path_of, report, result, until
from conftest import KUBECTLS, Kubectl, kubectl_version
from test_discovery import BUILT_IN
from test_errors import SUBDOMAIN

SCOPE = {"apiVersion": "v1", "kind": "Pod", "name": "web-0"}


def polr(name, ns, passes=1, app="a", **more):
    """Returns a report as a user writes it, with the scope that the columns show."""
    document = report(name, ns, labels={"app": app}, scope={**SCOPE, "namespace": ns}, **more)
    document["summary"]["pass"] = passes
    return document


@pytest.fixture
def written(tmp_path):
    """Writes documents to a file for -f."""
    numbers = iter(range(1000))

    def write(*documents):
        path = tmp_path / f"input-{next(numbers)}.json"
        path.write_text(json.dumps(documents[0]) if len(documents) == 1
                        else "".join(f"---\n{json.dumps(each)}\n" for each in documents))
        return str(path)
    return write


@pytest.fixture
def three(api, ns):
    """Three reports: r1 and r3 have the label app=a, r2 has app=b."""
    return [api.create(POLR, polr(name, ns, passes, app), ns)
            for name, passes, app in (("r1", 5, "a"), ("r2", 3, "b"), ("r3", 4, "a"))]


def rows(text):
    """Returns a printed table as lists of cells; no cell here contains a blank."""
    return [line.split() for line in text.splitlines()]


class Lines:
    """Reads the lines of a process, with a deadline for each."""

    def __init__(self, process):
        self.process = process
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def next(self, seconds=20):
        try:
            line = self.lines.get(timeout=seconds)
        except queue.Empty:
            raise AssertionError(f"kubectl printed nothing within {seconds} s") from None
        assert line is not None, "kubectl has ended"
        return line

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)


# ---- discovery and documentation ----

def test_versions_at_hand():
    """VER-01: Debian's kubectl asks for version v2beta1 of discovery or for none; all tests run with the others, too"""
    minors = [int(kubectl_version(path).split(".")[1]) for path in KUBECTLS]
    assert min(minors) <= 28


def test_api_versions(kubectl):
    assert set(kubectl.out("api-versions").split()) >= {f"{group}/{version}" for group, version, *_ in BUILT_IN}


@pytest.mark.parametrize("group", sorted({entry[0] for entry in BUILT_IN}))
def test_api_resources(kubectl, group):
    """KC-01"""
    heading, *found = rows(kubectl.out("api-resources", f"--api-group={group}"))
    assert heading == ["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"]
    assert sorted(found) == sorted([plural, short, f"{of}/{version}", str(namespaced).lower(), kind]
                                   for of, version, plural, kind, namespaced, short in BUILT_IN if of == group)


def test_api_resources_wide(kubectl):
    line = next(line for line in kubectl.out("api-resources", "-o", "wide").splitlines()
                if line.startswith("policyreports "))
    for verb in ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"):
        assert verb in line


@pytest.mark.parametrize("name", [entry[5] for entry in BUILT_IN])
def test_explain(kubectl, name):
    """KC-01"""
    kind = next(entry[3] for entry in BUILT_IN if entry[5] == name)
    text = kubectl.out("explain", name)
    heading, fields = text.split("FIELDS:")
    assert kind in heading and "<empty>" not in heading
    assert {line.split()[0] for line in fields.splitlines() if "\t<" in line} >= {"apiVersion", "kind", "metadata"}


def test_explain_field(kubectl):
    text = kubectl.out("explain", "polr.results")
    assert "results <[]Object>" in text
    fields = {line.split()[0]: line.split(None, 1)[1] for line in text.splitlines() if "\t<" in line}
    assert fields["policy"] == "<string> -required-"
    assert fields["properties"] == "<map[string]string>"
    assert fields["resources"] == "<[]Object>"
    assert fields["scored"] == "<boolean>"
    leaf = kubectl.out("explain", "polr.results.result")
    assert "PolicyReport" in leaf and "<string>" in leaf
    done = kubectl("explain", "polr.nonsense", check=False)
    assert done.code == 1 and 'field "nonsense" does not exist' in done.err


def test_explain_recursive(kubectl):
    text = kubectl.out("explain", "polr", "--recursive")
    depth = {}
    for line in text.splitlines():
        if "\t<" in line:
            depth.setdefault(line.split()[0], len(line) - len(line.lstrip()))
    assert depth["results"] < depth["policy"] == depth["resourceSelector"] < depth["matchLabels"]
    ephemeral = kubectl.out("explain", "ephr.spec", "--recursive")
    assert "owner\t<Object>" in ephemeral and "results\t<[]Object>" in ephemeral


# ---- get ----

COLUMNS = ["NAME", "KIND", "NAME", "PASS", "FAIL", "WARN", "ERROR", "SKIP", "AGE"]
PRINTED = [["r1", "Pod", "web-0", "5", "0", "0", "0", "0"], ["r2", "Pod", "web-0", "3", "0", "0", "0", "0"],
           ["r3", "Pod", "web-0", "4", "0", "0", "0", "0"]]


def test_get(kubectl, three, ns):
    """KC-01"""
    heading, *found = rows(kubectl.out("get", "polr", "-n", ns))
    assert heading == COLUMNS
    assert [row[:-1] for row in found] == PRINTED
    assert all(row[-1][-1] in "sm" and row[-1][:-1].isdigit() for row in found)
    assert rows(kubectl.out("get", "policyreports.v1alpha2.wgpolicyk8s.io", "r2", "-n", ns))[1][:-1] == PRINTED[1]
    assert rows(kubectl.out("get", "policyreport/r1", "polr/r3", "-n", ns, "--no-headers"))[0][0].endswith("r1")


def test_get_wide(kubectl, api, three, ns):
    """The columns are those of each kind's CRD; wide columns are printed only with -o wide"""
    heading, *found = rows(kubectl.out("get", "polr", "-n", ns, "-o", "wide"))
    assert heading == COLUMNS and [row[:-1] for row in found] == PRINTED
    api.create(REPS, report("r", ns, resource=REPS, scope=SCOPE), ns)
    assert rows(kubectl.out("get", "reps", "-n", ns))[0] == ["NAME", "PASS", "FAIL", "WARN", "ERROR", "SKIP", "AGE"]
    heading, row = rows(kubectl.out("get", "reps", "-n", ns, "-o", "wide"))
    assert heading == COLUMNS and row[:-1] == ["r", "Pod", "web-0", "1", "0", "0", "0", "0"]
    labels = {"audit.kyverno.io/source": "admission", "audit.kyverno.io/resource.uid": "u-1",
              "audit.kyverno.io/resource.hash": "h-1",
              "audit.kyverno.io/resource.group": "apps", "audit.kyverno.io/resource.kind": "Deployment"}
    api.create(EPHR, {"apiVersion": "reports.kyverno.io/v1", "kind": "EphemeralReport",
                      "metadata": {"name": "e", "labels": labels,
                                   "annotations": {"audit.kyverno.io/resource.name": "web"}},
                      "spec": {"owner": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"},
                               "summary": {"pass": 1, "fail": 2, "warn": 3, "error": 4, "skip": 5}}}, ns)
    narrow = ["NAME", "SOURCE", "GROUP", "KIND", "OWNER", "PASS", "FAIL", "WARN", "ERROR", "SKIP", "AGE"]
    cells = ["e", "admission", "apps", "Deployment", "web", "1", "2", "3", "4", "5"]
    heading, row = rows(kubectl.out("get", "ephr", "-n", ns))
    assert heading == narrow and row[:-1] == cells
    heading, row = rows(kubectl.out("get", "ephr", "-n", ns, "-o", "wide"))
    assert heading == narrow + ["UID", "HASH"] and row[:10] + row[11:] == cells + ["u-1", "h-1"]


def test_get_nothing(kubectl, ns):
    done = kubectl("get", "polr", "-n", ns)
    assert (done.out, done.err) == ("", f"No resources found in {ns} namespace.\n")
    # In a namespace other than default, kubectl asks for the namespace next, which a stand-alone proxy does not have.
    done = kubectl("get", "polr", ns, "-n", "default", check=False)
    assert (done.code, done.err) == (1,
                                     f'Error from server (NotFound): policyreports.wgpolicyk8s.io "{ns}" not found\n')


def shown(kubectl, documents):
    """Returns documents as kubectl prints them: without managed fields since 1.21."""
    if kubectl.minor < 21:
        return documents
    return [{**document, "metadata": {key: value for key, value in document["metadata"].items()
                                      if key != "managedFields"}}
            for document in documents]


def test_get_output(kubectl, three, ns):
    """KC-01"""
    listed = json.loads(kubectl.out("get", "polr", "-n", ns, "-o", "json"))
    assert listed["kind"] == "List" and shown(kubectl, listed["items"]) == shown(kubectl, three)
    assert shown(kubectl, [json.loads(kubectl.out("get", "polr", "r2", "-n", ns, "-o", "json"))]) == shown(
        kubectl, [three[1]])
    yaml = kubectl.out("get", "polr", "r1", "-n", ns, "-o", "yaml")
    for line in ("apiVersion: wgpolicyk8s.io/v1alpha2", "kind: PolicyReport", "  name: r1",
                 "- policy: require-labels", "  pass: 5",
                 f"  uid: {three[0]['metadata']['uid']}",
                 f'  resourceVersion: "{three[0]["metadata"]["resourceVersion"]}"'):
        assert line in yaml.splitlines()
    assert kubectl.out("get", "polr", "-n", ns, "-o",
                       "jsonpath={range .items[*]}{.metadata.name}={.summary.pass} {end}") == "r1=5 r2=3 r3=4 "
    assert kubectl.out("get", "polr", "r1", "-n", ns, "-o", "jsonpath={.results[0].policy}") == "require-labels"
    names = "".join(f"policyreport.wgpolicyk8s.io/{name}\n" for name in ("r1", "r2", "r3"))
    assert kubectl.out("get", "polr", "-n", ns, "-o", "name") == names
    assert rows(kubectl.out("get", "polr", "-n", ns, "-o", "custom-columns=N:.metadata.name,P:.summary.pass")) == [
        ["N", "P"], ["r1", "5"], ["r2", "3"], ["r3", "4"]]


def first_column(kubectl, *arguments):
    return [row[0] for row in rows(kubectl.out("get", "polr", "--no-headers", *arguments))]


def test_get_selectors(kubectl, three, ns):
    """KC-01"""
    assert first_column(kubectl, "-n", ns, "-l", "app=a") == ["r1", "r3"]
    assert first_column(kubectl, "-n", ns, "-l", "app in (b, c)") == ["r2"]
    assert first_column(kubectl, "-n", ns, "-l", "app,app!=a") == ["r2"]
    assert first_column(kubectl, "-n", ns, "--field-selector", "metadata.name=r2") == ["r2"]
    assert first_column(kubectl, "-n", ns, "--field-selector", "metadata.name!=r2") == ["r1", "r3"]
    assert rows(kubectl.out("get", "polr", "-n", ns, "-L", "app", "--no-headers"))[1][-1] == "b"
    assert "app=b" in kubectl.out("get", "polr", "r2", "-n", ns, "--show-labels")


def test_get_everywhere(kubectl, api, three, ns):
    """KC-01: -A sorts by namespace, then by name"""
    api.create(POLR, polr("r0", ns + "-b", app="a"), ns + "-b")
    heading, *found = rows(kubectl.out("get", "polr", "-A"))
    assert heading == ["NAMESPACE", *COLUMNS]
    assert [row[:2] for row in found
            if row[0].startswith(ns)] == [[ns, "r1"], [ns, "r2"], [ns, "r3"], [ns + "-b", "r0"]]
    found = rows(kubectl.out("get", "polr", "-A", "--field-selector", f"metadata.namespace={ns}", "--no-headers"))
    assert [row[:2] for row in found] == [[ns, "r1"], [ns, "r2"], [ns, "r3"]]


def test_get_chunks_and_order(kubectl, stack, three, ns):
    """KC-01, PAGE-07: with --chunk-size, kubectl reads each page with a request"""
    assert first_column(kubectl, "-n", ns, "--chunk-size=1") == ["r1", "r2", "r3"]
    done = kubectl("get", "polr", "-n", ns, "--chunk-size=1", "-v=6")
    assert (done.out + done.err).count("limit=1") == 3
    assert first_column(kubectl, "-n", ns, "--sort-by=.summary.pass") == ["r2", "r3", "r1"]
    assert first_column(kubectl, "-n", ns, "--sort-by={.metadata.name}") == ["r1", "r2", "r3"]


def test_describe(kubectl, three, ns):
    """KC-01"""
    text = kubectl.out("describe", "polr", "r1", "-n", ns)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    for line in ("Name: r1", f"Namespace: {ns}", "Labels: app=a", "API Version: wgpolicyk8s.io/v1alpha2",
                 "Kind: PolicyReport",
                 "Policy: require-labels", "Result: pass", "Pass: 5"):
        assert line in lines
    assert kubectl.out("describe", "polr", "-n", ns).count("\nAPI Version:  wgpolicyk8s.io/v1alpha2\n") == 3
    done = kubectl("describe", "polr", "missing", "-n", ns, check=False)
    assert done.code == 1 and "NotFound" in done.err


# ---- writing ----

def test_create(kubectl, api, written, ns):
    """KC-01"""
    path = written(polr("r", ns))
    assert kubectl.out("create", "-f", path) == "policyreport.wgpolicyk8s.io/r created\n"
    assert api.get(path_of(POLR, ns, "r")).json["scope"] == {**SCOPE, "namespace": ns}
    done = kubectl("create", "-f", path, check=False)
    assert (done.code, done.err) == (
        1, f'Error from server (AlreadyExists): error when creating "{path}": policyreports.wgpolicyk8s.io "r" already '
                                     'exists\n')
    assert kubectl.out("create", "--dry-run=server", "-f", written(polr("dry", ns))) == (
        "policyreport.wgpolicyk8s.io/dry created (server dry run)\n")
    generated = polr("x", ns)
    generated["metadata"] = {"generateName": "scan-", "namespace": ns}
    created = kubectl.out("create", "-f", written(generated), "-o", "name").strip()
    assert created.startswith("policyreport.wgpolicyk8s.io/scan-")
    assert api.names(POLR, ns) == ["r", created.partition("/")[2]]


def test_create_cluster_wide(kubectl, api, written, ns):
    assert kubectl.out("create", "-f",
                       written(report(ns, resource=CPOLR))) == f"clusterpolicyreport.wgpolicyk8s.io/{ns} created\n"
    assert rows(kubectl.out("get", "cpolr", ns))[1][0] == ns
    assert kubectl.out("delete", "cpolr", ns) == f'clusterpolicyreport.wgpolicyk8s.io "{ns}" deleted\n'


def test_apply(kubectl, api, written, ns):
    """KC-01: the same document twice, then one with another value, without a label and without an item of a list"""
    first = polr("r", ns, results=[result(), result(policy="second")])
    path = written(first)
    assert kubectl.out("apply", "-f", path) == "policyreport.wgpolicyk8s.io/r created\n"
    stored = api.get(path_of(POLR, ns, "r")).json
    assert kubectl.out("apply", "-f", path) == "policyreport.wgpolicyk8s.io/r unchanged\n"
    assert api.get(path_of(POLR, ns, "r")).json == stored
    second = polr("r", ns, passes=7)
    second["metadata"]["labels"] = {"team": "x"}
    assert kubectl.out("apply", "-f", written(second)) == "policyreport.wgpolicyk8s.io/r configured\n"
    changed = api.get(path_of(POLR, ns, "r")).json
    assert changed["summary"]["pass"] == 7 and changed["metadata"]["labels"] == {"team": "x"} and len(
        changed["results"]) == 1
    assert changed["metadata"]["uid"] == stored["metadata"]["uid"] and changed["metadata"]["generation"] == 2
    assert kubectl.out("apply", "-f", written(polr("r", ns, passes=8), polr("s", ns))) == (
        "policyreport.wgpolicyk8s.io/r configured\npolicyreport.wgpolicyk8s.io/s created\n")


def test_apply_what_get_wrote(kubectl, api, tmp_path, three, ns):
    """kubectl maps a v1 List through the core group, which every cluster has"""
    path = tmp_path / "list.yaml"
    path.write_text(kubectl.out("get", "polr", "-n", ns, "-o", "yaml"))
    assert "kind: List" in path.read_text()
    assert kubectl.out("apply", "-f", str(path)).count(" configured\n") == 3
    assert api.names(POLR, ns) == ["r1", "r2", "r3"]


def test_get_missing(kubectl, ns):
    """kubectl asks for the namespace before it says that the report is missing"""
    done = kubectl("get", "polr", "missing", "-n", ns, check=False)
    assert done.code == 1
    assert done.err == 'Error from server (NotFound): policyreports.wgpolicyk8s.io "missing" not found\n'


def test_replace(kubectl, api, written, three, ns):
    """KC-01"""
    assert kubectl.out("replace", "-f",
                       written({**three[0], "summary": {"fail": 9}})) == "policyreport.wgpolicyk8s.io/r1 replaced\n"
    assert api.get(path_of(POLR, ns, "r1")).json["summary"] == {"fail": 9}
    done = kubectl("replace", "-f", written(polr("missing", ns)), check=False)
    assert done.code == 1 and "NotFound" in done.err
    assert "replaced" in kubectl.out("replace", "--force", "-f", written(polr("r2", ns, passes=1)))
    assert api.get(path_of(POLR, ns, "r2")).json["metadata"]["uid"] != three[1]["metadata"]["uid"]


def test_edit(kubectl, api, three, ns, tmp_path):
    """KC-01"""
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nexec sed -i -e 's/pass: 5/pass: 6/' -e 's/app: a/app: edited/' \"$1\"\n")
    editor.chmod(0o755)
    environment = {**os.environ, "KUBE_EDITOR": str(editor)}
    assert kubectl.out("edit", "polr", "r1", "-n", ns, env=environment) == "policyreport.wgpolicyk8s.io/r1 edited\n"
    edited = api.get(path_of(POLR, ns, "r1")).json
    assert edited["summary"]["pass"] == 6 and edited["metadata"]["labels"] == {"app": "edited"}
    assert "no changes made" in kubectl("edit", "polr", "r1", "-n", ns, env=environment).err


def test_patch(kubectl, api, three, ns):
    """KC-01"""
    path = path_of(POLR, ns, "r1")
    out = kubectl.out("patch", "polr", "r1", "-n", ns, "--type=merge", "-p", '{"summary":{"pass":9,"fail":null}}')
    assert out == "policyreport.wgpolicyk8s.io/r1 patched\n"
    assert api.get(path).json["summary"] == {"pass": 9, "warn": 0, "error": 0, "skip": 0}
    operations = [{"op": "test", "path": "/summary/pass", "value": 9},
                  {"op": "replace", "path": "/summary/pass", "value": 10},
                  {"op": "add", "path": "/results/-", "value": result(policy="added")}]
    out = kubectl.out("patch", "polr", "r1", "-n", ns, "--type=json", "-p", json.dumps(operations))
    assert out == "policyreport.wgpolicyk8s.io/r1 patched\n"
    assert [each["policy"] for each in api.get(path).json["results"]] == ["require-labels", "added"]
    before = api.get(path).json
    done = kubectl("patch", "polr", "r1", "-n", ns, "--type=json", "-p", json.dumps(operations), check=False)
    # Before 1.27 kubectl omits the server's message.
    message = ": the server rejected our request due to an error in our request" if kubectl.minor >= 27 else ""
    assert (done.code, done.err) == (1, f"The request is invalid{message}\n")
    assert "(no change)" in kubectl.out("patch", "polr", "r1", "-n", ns, "--type=merge", "-p",
                                        '{"summary":{"pass":10}}')
    assert api.get(path).json == before


def test_strategic_patch(kubectl, api, three, ns):
    """A CRD has no strategic merge patch, which is kubectl's default: 415 (PAT-01)"""
    done = kubectl("patch", "polr", "r1", "-n", ns, "-p", '{"summary":{"pass":9}}', check=False)
    assert done.code == 1
    assert done.err.endswith("the body of the request was in an unknown format - accepted media types include: "
                             "application/json-patch+json, application/merge-patch+json, "
                             "application/apply-patch+yaml\n")
    assert api.get(path_of(POLR, ns, "r1")).json == three[0]


def test_label_and_annotate(kubectl, api, three, ns):
    """KC-01"""
    path = path_of(POLR, ns, "r1")
    assert kubectl.out("label", "polr", "r1", "-n", ns, "team=x") == "policyreport.wgpolicyk8s.io/r1 labeled\n"
    assert api.get(path).json["metadata"]["labels"] == {"app": "a", "team": "x"}
    done = kubectl("label", "polr", "r1", "-n", ns, "team=y", check=False)
    assert done.code == 1 and "'team' already has a value (x), and --overwrite is false" in done.err
    kubectl("label", "polr", "r1", "-n", ns, "team=y", "app-", "--overwrite")
    assert api.get(path).json["metadata"]["labels"] == {"team": "y"}
    kubectl("label", "polr", "-n", ns, "-l", "app", "seen=yes")
    assert first_column(kubectl, "-n", ns, "-l", "seen=yes") == ["r2", "r3"]
    assert kubectl.out("annotate", "polr", "r1", "-n", ns,
                       "note=two words") == "policyreport.wgpolicyk8s.io/r1 annotated\n"
    assert api.get(path).json["metadata"]["annotations"] == {"note": "two words"}
    kubectl("annotate", "polr", "--all", "-n", ns, "note-")
    assert "annotations" not in api.get(path).json["metadata"]
    # A change of metadata does not change the generation.
    assert api.get(path).json["metadata"]["generation"] == 1


def deleted(kubectl, ns, *names):
    """Returns what kubectl prints about deleted reports: with their namespace after 1.32."""
    place = f" from {ns} namespace" if kubectl.minor > 32 else ""
    return "".join(f'policyreport.wgpolicyk8s.io "{name}" deleted{place}\n' for name in names)


def test_delete(kubectl, api, three, ns):
    """KC-01"""
    assert kubectl.out("delete", "polr", "r3", "-n", ns) == deleted(kubectl, ns, "r3")
    assert api.names(POLR, ns) == ["r1", "r2"]
    assert kubectl.out("delete", "polr", "-l", "app=a", "-n", ns) == deleted(kubectl, ns, "r1")
    api.create(POLR, polr("r4", ns), ns)
    assert kubectl.out("delete", "polr", "--all", "-n", ns) == deleted(kubectl, ns, "r2", "r4")
    assert api.names(POLR, ns) == []
    done = kubectl("delete", "polr", "r1", "-n", ns, check=False)
    assert (done.code, done.err) == (1, 'Error from server (NotFound): policyreports.wgpolicyk8s.io "r1" not found\n')
    assert kubectl("delete", "polr", "r1", "-n", ns, "--ignore-not-found").code == 0
    assert kubectl.out("delete", "polr", "--all", "-n", ns) == "No resources found\n"


def test_diff(kubectl, written, ns):
    """KC-01"""
    kubectl("apply", "-f", written(polr("r", ns)))
    assert kubectl("diff", "-f", written(polr("r", ns))).out == ""
    done = kubectl("diff", "-f", written(polr("r", ns, passes=7)), check=False)
    lines = done.out.splitlines()
    assert done.code == 1 and "-  pass: 1" in lines and "+  pass: 7" in lines
    added = kubectl("diff", "-f", written(polr("new", ns)), check=False)
    assert added.code == 1 and "+kind: PolicyReport" in added.out.splitlines()
    assert first_column(kubectl, "-n", ns) == ["r"]


# ---- two terminals ----

def test_watch(kubectl, stack, written, ns, tmp_path):
    """KC-01: done when 2: get --watch shows what apply does through the second proxy and what the owner does by SQL"""
    other = Kubectl(kubectl.binary, stack.second, tmp_path / "other-cache")
    other("apply", "-f", written(polr("r1", ns, passes=1)))

    def cells(line):
        return line.split()[:6]

    with Lines(kubectl.start("get", "polr", "-n", ns, "--watch", "--output-watch-events", "--no-headers")) as lines:
        assert cells(lines.next()) == ["ADDED", "r1", "Pod", "web-0", "1", "0"]
        other("apply", "-f", written(polr("r1", ns, passes=2)))
        assert cells(lines.next()) == ["MODIFIED", "r1", "Pod", "web-0", "2", "0"]
        other("apply", "-f", written(polr("r2", ns, passes=3)))
        assert cells(lines.next()) == ["ADDED", "r2", "Pod", "web-0", "3", "0"]
        assert stack.database.psql(
            "UPDATE kube_reports.object SET body = jsonb_set(body::jsonb, '{summary,fail}', '8')::kube_reports.report"
            f" WHERE namespace = '{ns}' AND name = 'r2' RETURNING 1") == "1"
        assert cells(lines.next()) == ["MODIFIED", "r2", "Pod", "web-0", "3", "8"]
        stack.database.psql(f"SELECT kube_reports.create_report('{stack.cluster}', :'document'::kube_reports.report)",
                            document=json.dumps(polr("r3", ns, passes=4)))
        assert cells(lines.next()) == ["ADDED", "r3", "Pod", "web-0", "4", "0"]
        stack.database.psql(f"DELETE FROM kube_reports.object WHERE namespace = '{ns}' AND name = 'r1'")
        assert cells(lines.next()) == ["DELETED", "r1", "Pod", "web-0", "2", "0"]
        other("delete", "polr", "r3", "-n", ns)
        assert cells(lines.next()) == ["DELETED", "r3", "Pod", "web-0", "4", "0"]


def test_watch_everywhere(kubectl, stack, written, ns, tmp_path):
    """Done when 2, with the command as it is there: get polr -A --watch"""
    other = Kubectl(kubectl.binary, stack.second, tmp_path / "other-cache")
    other("apply", "-f", written(polr("r1", ns, passes=1)))

    def next_here(lines):
        while True:
            row = lines.next().split()
            if row[0] == ns:
                return row[1:5]

    with Lines(kubectl.start("get", "polr", "-A", "--watch")) as lines:
        assert next_here(lines) == ["r1", "Pod", "web-0", "1"]
        other("apply", "-f", written(polr("r1", ns, passes=2)))
        assert next_here(lines) == ["r1", "Pod", "web-0", "2"]


@pytest.mark.parametrize("watcher", ["wait", "delete"])
def test_wait_for_delete(kubectl, stack, second_api, ns, watcher):
    """
    KC-01: wait --for=delete, and delete, which waits by itself, return only when the last finalizer is gone
    """
    document = polr("r", ns)
    document["metadata"]["finalizers"] = ["example.com/hold"]
    second_api.create(POLR, document, ns)
    until(lambda: stack.first.watches() == 0, 30, "the end of earlier watches")
    if watcher == "wait":
        process = kubectl.start("wait", "--for=delete", "polr/r", "-n", ns, "--timeout=60s")
    else:
        process = kubectl.start("delete", "polr", "r", "-n", ns)
    until(lambda: stack.first.watches() == 1, 20, "kubectl's watch")
    if watcher == "wait":
        assert second_api.delete(path_of(POLR, ns, "r")).code == 200
    else:
        until(lambda: "deletionTimestamp" in second_api.get(path_of(POLR, ns, "r")).json["metadata"],
              20, "the deletion")
    assert process.poll() is None
    assert second_api.patch(path_of(POLR, ns, "r"), {"metadata": {"finalizers": None}}).code == 200
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0, out
    assert "condition met" in out if watcher == "wait" else out == deleted(kubectl, ns, "r")


# ---- done when 4: what a CRD would answer, and nothing stored ----

@pytest.fixture
def store(api, ns):
    """One report exists before the test; after it, this report is the only one, and unchanged."""
    stored = api.create(POLR, polr("kept", ns), ns)
    yield stored
    after = api.get(path_of(POLR, ns)).json["items"]
    assert after == [stored]


def refused(kubectl, text, *arguments, **more):
    done = kubectl(*arguments, check=False, **more)
    assert (done.code, done.out, done.err) == (1, "", text + "\n")


def test_apply_unknown_enum_value(kubectl, store, written, ns):
    bad = polr("r", ns, results=[result(outcome="maybe")])
    text = ('The PolicyReport "r" is invalid: results[0].result: Unsupported value: "maybe": '
            'supported values: "pass", "fail", "warn", "error", "skip"')
    refused(kubectl, text, "apply", "-f", written(bad))
    bad["metadata"]["name"] = "kept"
    refused(kubectl, text.replace('"r"', '"kept"'), "replace", "-f", written({**store, "results": bad["results"]}))


def test_apply_missing_required_field(kubectl, store, written, ns):
    bad = polr("r", ns)
    del bad["results"][0]["policy"]
    path = written(bad)
    text = 'The PolicyReport "r" is invalid: results[0].policy: Required value'
    refused(kubectl, text, "apply", "--validate=false", "-f", path)
    if kubectl.minor < 24:
        # Before 1.24 kubectl finds the mistake itself, in the OpenAPI document.
        text = (f'error: error validating "{path}": error validating data: ValidationError(PolicyReport.results[0]): '
                'missing required field '
                '"policy" in io.wgpolicyk8s.v1alpha2.PolicyReport.results; if you choose to ignore these errors, turn '
                'validation off '
                "with --validate=false")
    refused(kubectl, text, "apply", "-f", path)


def test_apply_unknown_field(kubectl, store, written, ns):
    """Strict validation is kubectl's default, either by the server or by the OpenAPI document"""
    done = kubectl("apply", "-f", written({**polr("r", ns), "nonsense": 1}), check=False)
    assert done.code == 1
    assert 'unknown field "nonsense"' in done.err, done.err


def test_apply_bad_name(kubectl, store, written, ns):
    refused(kubectl, f'The PolicyReport "Bad_Name" is invalid: metadata.name: Invalid value: "Bad_Name": {SUBDOMAIN}',
            "apply", "-f", written(polr("Bad_Name", ns)))


def test_apply_long_label(kubectl, store, written, ns):
    value = "v" * 64
    refused(kubectl, f'The PolicyReport "r" is invalid: metadata.labels: Invalid value: "{value}": must be no more '
            'than 63 bytes',
            "apply", "-f", written(polr("r", ns, app=value)))


def test_apply_four_megabytes(kubectl, store, written, ns):
    path = written(polr("r", ns, results=[result(message="x" * (4 * 1024 * 1024))]))
    refused(kubectl, f'Error from server (RequestEntityTooLarge): error when creating "{path}": Request entity too '
            'large: limit is 3145728',
            "apply", "-f", path)


def test_apply_stale_version(kubectl, api, written, ns):
    path = path_of(POLR, ns, "r")
    kubectl("apply", "-f", written(polr("r", ns)))
    old = api.get(path).json["metadata"]["resourceVersion"]
    kubectl("apply", "-f", written(polr("r", ns, passes=2)))
    stored = api.get(path).json
    stale = polr("r", ns, passes=3)
    stale["metadata"]["resourceVersion"] = old
    conflict = ('Operation cannot be fulfilled on policyreports.wgpolicyk8s.io "r": the object has been modified; '
                "please apply your changes to the latest version and try again")
    done = kubectl("apply", "-f", written(stale), check=False)
    assert done.code == 1 and done.err.startswith("Error from server (Conflict): error when applying patch:\n")
    assert done.err.endswith(conflict + "\n")
    file = written(stale)
    refused(kubectl, f'Error from server (Conflict): error when replacing "{file}": {conflict}', "replace", "-f", file)
    assert api.get(path).json == stored


def test_apply_malformed_json(kubectl, store, ns, tmp_path):
    """kubectl parses the file itself; with --raw it sends the file as it is, and the server refuses it"""
    file = tmp_path / "malformed.json"
    file.write_text('{"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "metadata": {"name": "r"},, }')
    done = kubectl("apply", "-n", ns, "-f", str(file), check=False)
    assert done.code == 1 and "invalid character ','" in done.err
    file.write_text('{"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "metadata": {"name": "r"}, ')
    text = ('Error from server (BadRequest): the object provided is unrecognized (must be of type PolicyReport): '
            "couldn't get version/kind; json parse error: unexpected end of JSON input ({\"apiVersion\": "
            "\"wgpolicyk8s.io ...)")
    refused(kubectl, text, "create", "--raw", path_of(POLR, ns), "-f", str(file))


def test_wrong_types(kubectl, store, written, ns):
    bad = {**polr("r", ns), "summary": 5, "results": {}}
    text = ('The PolicyReport "r" is invalid: \n* results: Invalid value: "object": results in body must be of type '
            'array: "object"\n'
            '* summary: Invalid value: "integer": summary in body must be of type object: "integer"')
    refused(kubectl, text, "create", "--validate=false", "-f", written(bad))
