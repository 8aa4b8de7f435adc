"""kube-reports-proxy cluster-id: the uid of kube-system, for the setup of a database."""

import subprocess

import pytest

from conftest import TOP

UID = "3b241101-e2bb-4255-8caf-4136c566a962"


def cluster_id(*arguments):
    return subprocess.run(
        [TOP / "proxy" / "build" / "kube-reports-proxy", "cluster-id", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def kubeconfig(apiserver, tmp_path):
    apiserver.token = "ask"
    apiserver.delete_namespace("kube-system")
    apiserver.create_namespace("kube-system", uid=UID)
    return apiserver.kubeconfig(str(tmp_path / "kubeconfig"), token="ask")


def test_uid(kubeconfig, tmp_path):
    done = cluster_id(f"--kubeconfig={kubeconfig}")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{UID}\n", "")
    output = tmp_path / "uid"
    done = cluster_id(f"--kubeconfig={kubeconfig}", f"--output={output}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert output.read_text() == f"{UID}\n"


def test_failures(kubeconfig, apiserver, tmp_path):
    """Each failure prints its cause, and no uid."""
    output = tmp_path / "no-such-directory" / "uid"
    done = cluster_id(f"--kubeconfig={kubeconfig}", f"--output={output}")
    assert (done.returncode, done.stdout) == (1, "") and f"{output}: No such file or directory" in done.stderr
    done = cluster_id()
    assert (done.returncode, done.stdout) == (1, "") and "this process does not run in a pod" in done.stderr
    apiserver.delete_namespace("kube-system")
    done = cluster_id(f"--kubeconfig={kubeconfig}")
    assert (done.returncode, done.stdout) == (1, "") and "the namespace kube-system cannot be read" in done.stderr
    assert cluster_id("--no-such-flag").returncode == 2
