"""The commands of docs/moving-in.md do what the page says; regress/cluster/test_moving.py runs the others."""

import json
import os
import pathlib
import re

from client import run
from conftest import KUBECTLS, TOP
from crd_fixture import crd_certificates, crd_cluster  # noqa: F401 (fixtures)
from crd_cluster import WG, report
from runbook import blocks_of, put
from test_import import reports_server_database  # noqa: F401 (fixture)

PAGE = (TOP / "docs" / "moving-in.md").read_text(encoding="utf-8")
BLOCKS = [text for language, text in blocks_of("docs/moving-in.md") if not language]


def block(contains):
    return next(text for text in BLOCKS if contains in text)


def shell(cluster, script, directory, **environment):
    """Runs commands of the page, with the program on the PATH."""
    binaries = pathlib.Path(directory) / "bin"
    binaries.mkdir(exist_ok=True)
    program = binaries / "kube-reports-proxy"
    if not program.exists():
        program.symlink_to(f"{cluster.database.directory}/dest/usr/bin/kube-reports-proxy")
    environment = {
        **os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "CLUSTER": cluster.uid,
        "OWNER_DATABASE": cluster.database.connection(), **environment}
    settings = put(block("export DATABASE"), **{
        "$HOME/.kube/config": cluster.config,
        "host=db.example.com dbname=reports user=kube_reports_proxy": cluster.database.connection(cluster.role)})
    return run(["bash", "-c", f"set -e -o pipefail\n{settings}{script}"], cwd=directory, env=environment)


def test_in_by_the_page(cluster, tmp_path):
    """Two imports, one more after the switch, a dry run, the cleanup, and the file for the way back"""
    for number in range(20):
        cluster.add(WG, "policyreports", report(number))
    shell(cluster, block("import --from-cluster --kubeconfig"), tmp_path)
    cluster.drop(WG, "policyreports", "shop", "r-000003")
    shell(cluster, block("import --from-cluster --prune"), tmp_path)
    cluster.register(f"{WG}/v1alpha2")
    cluster.register(f"{WG}/etcd", service=None)
    cluster.add(WG, "policyreports", report(50))
    shell(cluster, block("--version=etcd"), tmp_path)
    count = f"SELECT count(*) FROM kube_reports.stored_report WHERE cluster = '{cluster.uid}'"
    assert cluster.database.psql(count) == "20"
    shell(cluster, block("cleanup --dry-run"), tmp_path)
    assert cluster.count(WG, "policyreports") == 20
    shell(cluster, block("cleanup --also-gone --yes"), tmp_path)
    assert cluster.count(WG, "policyreports") == 0
    assert cluster.database.psql(count) == "20"

    shell(cluster, block("psql -X -A -t"), tmp_path)
    lines = (tmp_path / "reports.json").read_text(encoding="utf-8").rstrip("\n").split("\n")
    assert len(lines) == 20
    for document in map(json.loads, lines):
        assert document["apiVersion"] == "wgpolicyk8s.io/v1alpha2" and document["kind"] == "PolicyReport"
        assert not {"uid", "resourceVersion", "managedFields"} & document["metadata"].keys()
        assert document["metadata"]["ownerReferences"]


def test_reports_server_by_the_page(cluster, server_database, tmp_path):
    source = cluster.database.connection("postgres", server_database)
    script = "\n".join(line for line in block("REPORTS_SERVER").splitlines() if not line.startswith("export"))
    assert "imported" in shell(cluster, script, tmp_path, REPORTS_SERVER=source).out.lower()


def test_results_that_count_twice(own_stack, tmp_path):
    """
    Kyverno writes to another group, and its old reports stay: each result exists twice, until the page's command
    deletes the old reports, and only these
    """
    own_stack.begin()
    kubectl = KUBECTLS[-1]
    assert kubectl is not None, "there is no kubectl"
    proxy = own_stack.proxy()
    api, managed = proxy.api(), {"app.kubernetes.io/managed-by": "kyverno"}
    for kind, path, group_version, labels in (
            ("PolicyReport", f"/apis/{WG}/v1alpha2/namespaces/shop/policyreports", f"{WG}/v1alpha2", managed),
            ("ClusterPolicyReport", f"/apis/{WG}/v1alpha2/clusterpolicyreports", f"{WG}/v1alpha2", managed),
            ("Report", "/apis/openreports.io/v1alpha1/namespaces/shop/reports", "openreports.io/v1alpha1", managed),
            ("ClusterReport", "/apis/openreports.io/v1alpha1/clusterreports", "openreports.io/v1alpha1", managed),
            ("PolicyReport", f"/apis/{WG}/v1alpha2/namespaces/shop/policyreports", f"{WG}/v1alpha2", {})):
        answer = api.post(path, {
            "apiVersion": group_version, "kind": kind,
            "metadata": {"name": "r" if labels else "of-others", "labels": labels},
            "results": [{"source": "kyverno" if labels else "other", "policy": "p", "rule": "r", "result": "fail"}]})
        assert answer.code == 201, answer.json
    told = "SELECT source, count(*) FROM kube_reports.typed_result GROUP BY 1 ORDER BY 1"
    assert own_stack.database.psql(told).split() == ["kyverno|4", "other|1"]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").symlink_to(kubectl)
    run(["bash", "-c", block("managed-by=kyverno")], cwd=tmp_path, env={
        **os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "KUBECONFIG": proxy.kubeconfig(),
        "HOME": str(tmp_path)})
    assert own_stack.database.psql(told).split() == ["kyverno|2", "other|1"]


def test_flags_of_the_page(cluster):
    """Each command has every flag that the page gives it"""
    binary = f"{cluster.database.directory}/dest/usr/bin/kube-reports-proxy"
    for name in ("import", "cleanup"):
        known = run([binary, name, "--help"]).out
        uses = re.findall(rf"kube-reports-proxy {name} ([^`\n]*)", PAGE) + re.findall(rf"`{name} (--[^`\n]*)`", PAGE)
        assert uses
        for flag in re.findall(r"--[a-z-]+", " ".join(uses)):
            assert f"  {flag}" in known, f"{name} has no {flag}"


def test_links_of_the_page():
    for target in re.findall(r"\]\(([^)]+)\)", PAGE):
        page, _, heading = target.partition("#")
        text = (TOP / "docs" / page).read_text(encoding="utf-8") if page else PAGE
        titles = re.findall(r"^#+ (.*)$", text, re.M)
        anchors = [re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles]
        assert not heading or heading in anchors, target
