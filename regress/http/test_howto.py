"""The commands and statements of docs/howto.md work, and deletions go as the page says."""

import json
import os
import pathlib
import re

import pytest
import yaml

from client import POLR, path_of, report, run, until
from conftest import KUBECTLS, TOP

PAGE = (TOP / "docs" / "howto.md").read_text()
CRD = json.loads((TOP / "regress" / "crds" / "vulnerabilityreports.aquasecurity.github.io.json").read_text())
# The type has a group of its own: other tests register Trivy's.
GROUP = "howto.example.com"


def section(title):
    """Returns the commands and the YAML of a section."""
    text = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    commands = [command for block in re.findall(r"```\n(.*?)```", text, re.S) for command in block.splitlines()]
    return commands, [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", text, re.S)]


def shell(script, directory, **environment):
    """Runs commands of the page, with a kubectl on the PATH."""
    binaries = pathlib.Path(directory) / "bin"
    binaries.mkdir(exist_ok=True)
    if not (binaries / "kubectl").exists():
        (binaries / "kubectl").symlink_to(next(path for path in reversed(KUBECTLS) if path))
    environment = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "HOME": str(directory), **environment}
    return run(["bash", "-c", f"set -e -o pipefail\n{script}"], cwd=directory, env=environment)


def test_a_type_from_yaml(stack, tmp_path):
    """
    A CustomResourceDefinition of a megabyte of YAML becomes a type that kubectl finds; the APIService names its group
    """
    crd = json.loads(json.dumps(CRD).replace("aquasecurity.github.io", GROUP))
    # More than an argument of a command can hold.
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["description"] = "It's \\ a `long` :'description' $HOME. " * 30000
    assert len(json.dumps(crd)) > 1_000_000
    (tmp_path / "crd.yaml").write_text(yaml.safe_dump(crd))
    commands, documents = section("Serve another report-like type")
    database = {"PGHOST": stack.database.directory, "PGUSER": "kube_reports_owner", "PGDATABASE": "kube_reports"}
    try:
        shell("\n".join(commands[:commands.index("SQL") + 1]), tmp_path, KUBECONFIG="/dev/null", **database)
        kubeconfig = stack.first.kubeconfig()
        listed = "kubectl api-resources --cached=false"
        until(lambda: GROUP in shell(listed, tmp_path, KUBECONFIG=kubeconfig).out, 20, "the type")
        got = shell(f"kubectl get vulnerabilityreports.{GROUP} -A", tmp_path, KUBECONFIG=kubeconfig)
        assert "No resources" in got.err
    finally:
        stack.unregister(f"vulnerabilityreports.{GROUP}")
    (service,) = documents
    spec = service["spec"]
    assert service["apiVersion"] == "apiregistration.k8s.io/v1" and service["kind"] == "APIService"
    assert service["metadata"]["name"] == f"{spec['version']}.{spec['group']}"
    assert spec["group"] == CRD["spec"]["group"]
    assert spec["version"] in [version["name"] for version in CRD["spec"]["versions"]]
    assert set(spec) == {"group", "version", "groupPriorityMinimum", "versionPriority", "service", "caBundle"}


@pytest.mark.parametrize("cascade, finalizer", [
    ("background", None), ("orphan", "orphan"), ("foreground", "foregroundDeletion")])
def test_cascade(stack, ns, tmp_path, cascade, finalizer):
    """Without a garbage collector the finalizer stays, until the page's second command removes it"""
    api = stack.first.api()
    api.create(POLR, report("r"), ns)
    commands, _ = section("Delete with `--cascade`")
    delete, patch = (command.replace("NAMESPACE", ns).replace("NAME", "r") for command in commands)
    kubeconfig = stack.first.kubeconfig()
    shell(delete.replace("orphan", cascade), tmp_path, KUBECONFIG=kubeconfig)
    if finalizer:
        metadata = api.get(path_of(POLR, ns, "r")).json["metadata"]
        assert metadata["finalizers"] == [finalizer] and metadata["deletionTimestamp"]
        shell(patch, tmp_path, KUBECONFIG=kubeconfig)
    assert api.get(path_of(POLR, ns, "r")).code == 404


def test_statements_of_the_page(stack):
    """Every statement of the page with a cluster's uid runs"""
    statements = [line for line in re.findall(r"^SELECT .*?;$", PAGE, re.M) if "<uid of the cluster>" in line]
    assert len(statements) == 3
    for statement in statements:
        statement = statement.replace("<uid of the cluster>", stack.cluster)
        stack.database.psql("BEGIN; CREATE TEMP TABLE states (document kube_reports.report, at timestamptz);"
                            f" {statement} ROLLBACK;")
