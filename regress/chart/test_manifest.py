"""make install-manifest: one file that kubectl applies as it is."""

import os
import stat
import subprocess

from conftest import HELMS, TOP, named, of_kind, render, yaml_documents


def manifest(tmp_path, **variables):
    output = tmp_path / "install.yaml"
    done = subprocess.run(
        [TOP / ".ci" / "install-manifest"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HELM": HELMS["helm4"], "OUTPUT": str(output), **variables},
    )
    assert done.returncode == 0, done.stderr
    return output


def test_manifest(tmp_path):
    output = manifest(tmp_path)
    assert stat.S_IMODE(output.stat().st_mode) == 0o600, "it holds passwords"
    objects = yaml_documents(output.read_text())
    assert objects[0]["kind"] == "Namespace" and objects[0]["metadata"]["name"] == "kube-reports"
    wanted = render({"apiServices": {"method": "objects"}})
    assert sorted((one["kind"], one["metadata"]["name"]) for one in objects[1:]) == sorted(
        (one["kind"], one["metadata"]["name"]) for one in wanted
    )
    assert len(of_kind(objects, "APIService")) == 3
    assert not [one for one in objects if "helm.sh/hook" in one["metadata"].get("annotations", {})]


def test_values_and_namespace(tmp_path):
    values = tmp_path / "values.yaml"
    values.write_text("replicas: 5\n")
    objects = yaml_documents(manifest(tmp_path, VALUES=str(values), NAMESPACE="reports").read_text())
    assert named(objects, "Deployment", "kube-reports")["spec"]["replicas"] == 5
    assert {one["metadata"].get("namespace") for one in objects} == {None, "reports", "kube-system"}
    assert {one["spec"]["service"]["namespace"] for one in of_kind(objects, "APIService")} == {"reports"}
