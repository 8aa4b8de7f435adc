"""
kubectl from 1.20 to current, through the aggregator: the commands that regress/http/test_kubectl.py gives Debian's
kubectl at a proxy.

Each test of that file runs here with each version.  The test that counts a proxy's watches has a form of its own here,
because controllers watch, too.
"""

import importlib
import subprocess
import sys
import types
import unittest.mock
import uuid

import pytest

from client import POLR, path_of, until
from conftest import HTTP
from control_plane import API_SERVICES, programs


def proxy_tests():
    """Returns the names in the proxy's test module, which imports modules whose names exist here, too."""
    pytest.register_assert_rewrite("test_kubectl")
    with unittest.mock.patch.dict(sys.modules, conftest=HTTP):
        return vars(importlib.import_module("test_kubectl"))


TESTS = proxy_tests()
LEFT_OUT = {"test_versions_at_hand", "test_wait_for_delete"}
VERSIONS = {name: file for name, file in programs().items() if name.startswith("kubectl")}
globals().update({name: value for name, value in TESTS.items() if name in ("written", "three", "store")
                  or (name.startswith("test_") and name not in LEFT_OUT)})


class Behind:
    """Stands for a proxy in the tests: it is kube-apiserver."""

    def __init__(self, plane):
        self.plane = plane

    def kubeconfig(self):
        return self.plane.kubeconfig


@pytest.fixture(scope="module", autouse=True)
def old_group(cluster, plane, api):
    """The tests expect every built-in group, and this one is served only on request."""
    plane.apply(plane.api_service("kyverno.io/v1alpha2", cluster.first.port))
    plane.wait_available("kyverno.io/v1alpha2")
    yield
    api.delete(f"{API_SERVICES}/v1alpha2.kyverno.io")


@pytest.fixture
def stack(cluster, plane):
    """Stands for two proxies and their database in the tests."""
    return types.SimpleNamespace(first=Behind(plane), second=Behind(plane), database=cluster.stack.database,
                                 cluster=cluster.stack.cluster)


@pytest.fixture
def ns(plane, api):
    """The namespace of the test, and a second one to which some tests write."""
    name = "t-" + uuid.uuid4().hex[:10]
    names = (name, name + "-b")
    for each in names:
        plane.namespace(each)
    yield name
    for each in names:
        api.delete(f"/api/v1/namespaces/{each}")


@pytest.fixture(scope="session")
def caches(tmp_path_factory):
    """kubectl's caches of discovery, one for each version, which stay between commands."""
    return tmp_path_factory.mktemp("kubectl")


@pytest.fixture(params=VERSIONS or [None])
def kubectl(request, plane, caches):
    assert request.param, "no kubectl is built: .ci/cluster-programs build"
    plane.wait_available()
    return HTTP.Kubectl(VERSIONS[request.param], Behind(plane), caches / request.param)


@pytest.mark.parametrize("watcher", ["wait", "delete"])
def test_wait_until_gone(kubectl, api, ns, watcher, tmp_path):
    """wait --for=delete, and delete, which waits by itself, return only when the last finalizer is gone"""
    document = TESTS["polr"]("r", ns)
    document["metadata"]["finalizers"] = ["example.com/hold"]
    api.create(POLR, document, ns)
    told = tmp_path / "told"
    command = ["wait", "--for=delete", "polr/r", "-n", ns, "--timeout=60s"] if watcher == "wait" else \
        ["delete", "polr", "r", "-n", ns]
    # kubectl logs its requests when they are answered.  A count of watches would not help, because controllers end
    # watches meanwhile.
    with open(told, "w", encoding="utf-8") as log, \
            subprocess.Popen(kubectl.command(*command, "-v=6"), stdout=subprocess.PIPE, stderr=log,
                             text=True) as process:
        until(lambda: "watch=true" in told.read_text(encoding="utf-8"), 30, "kubectl's watch")
        gone_with_its_finalizer(api, ns, watcher, process)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0, out + told.read_text(encoding="utf-8")
    assert "condition met" in out if watcher == "wait" else out == TESTS["deleted"](kubectl, ns, "r")


def gone_with_its_finalizer(api, ns, watcher, process):
    """Deletes the report, checks that kubectl still waits, and removes the finalizer."""
    if watcher == "wait":
        assert api.delete(path_of(POLR, ns, "r")).code == 200
    else:
        until(lambda: "deletionTimestamp" in api.get(path_of(POLR, ns, "r")).json["metadata"], 20, "the deletion")
    assert process.poll() is None
    assert api.patch(path_of(POLR, ns, "r"), {"metadata": {"finalizers": None}}).code == 200
