"""
A control plane with proxies behind its aggregator, set up as docs/security.md and docs/howto.md say.
"""

import importlib.util
import os
import pathlib
import pwd
import re
import signal
import sys
import uuid

import pytest
import yaml

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "regress" / "http"))


def http_stack():
    """Returns the module conftest of regress/http, which makes stacks; this module has the same name."""
    spec = importlib.util.spec_from_file_location("http_conftest", TOP / "regress" / "http" / "conftest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HTTP = http_stack()

from control_plane import GROUP_VERSIONS, NAMESPACE, SERVICE, SERVICE_ACCOUNT, ControlPlane  # noqa: E402


# On SIGTERM, a program stops its servers before it ends.
signal.signal(signal.SIGTERM, signal.default_int_handler)


def documents(page, contains):
    """Returns the Kubernetes objects in those YAML blocks of a page of docs/ that contain a text."""
    text = (TOP / "docs" / page).read_text(encoding="utf-8")
    blocks = [block for block in re.findall(r"```yaml\n(.*?)```", text, re.S) if contains in block]
    assert blocks, f"{page} has no YAML block with {contains}"
    return [document for block in blocks for document in yaml.safe_load_all(block)]


class Cluster:
    """A control plane, a database, and proxies that the aggregator reaches."""

    def __init__(self, settings=(), **control_plane):
        """settings are those of the database."""
        self.stack = HTTP.Stack()
        self.plane = None
        try:
            self._begin(settings, control_plane)
        except BaseException:
            self.end()
            raise

    def _begin(self, settings, control_plane):
        stack = self.stack
        HTTP.stack_command("certificate", stack.pki, "service", "/CN=kube-reports", "serverAuth",
                           f"DNS:{SERVICE}.{NAMESPACE}.svc,DNS:localhost,IP:127.0.0.1")
        self.plane = ControlPlane(f"{stack.database.directory}/control-plane", stack.pki, HTTP.stack_command,
                                  HTTP.free_port, **control_plane)
        # Only now the uid of the cluster is known.
        stack.cluster = self.plane.uid()
        stack.begin(*settings)
        if os.getuid() == 0:
            owner = pwd.getpwnam("postgres")
            for suffix in ("crt", "key"):
                os.chown(f"{stack.pki}/service.{suffix}", owner.pw_uid, owner.pw_gid)

    def grant(self):
        """Makes namespace, service account and roles of docs/security.md; returns the account's kubeconfig."""
        self.plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
                         {"apiVersion": "v1", "kind": "ServiceAccount",
                          "metadata": {"name": SERVICE_ACCOUNT, "namespace": NAMESPACE}})
        self.plane.apply(*documents("security.md", "kube-reports-authentication-reader"),
                         *documents("security.md", "kube-reports-events"),
                         *documents("security.md", "kube-reports-apiservices"))
        return self.plane.write_kubeconfig("proxy", token=self.plane.token(NAMESPACE, SERVICE_ACCOUNT))

    def proxy(self, *flags, **more):
        """
        Starts a proxy that has only its service account: kube-apiserver decides who clients are and what they may do.
        """
        pki = self.stack.pki
        proxy = self.stack.proxy(ready=False, flags=[
            "--client-ca-file=", "--authorization-mode=Webhook", "--disable-admission-plugins=", "--cluster-id=",
                                                     "--require-client-cert",
            f"--tls-cert-file={pki}/service.crt", f"--tls-private-key-file={pki}/service.key",
                                                     f"--apiservice-ca-file={pki}/ca.crt",
            f"--authentication-kubeconfig={self.plane.pki}/kubeconfig-proxy", *flags], **more)
        return proxy.wait_ready(60)

    def serve(self, *group_versions):
        """Starts a proxy with its APIServices; returns the cluster."""
        self.grant()
        self.plane.service()
        self.first = self.proxy()
        self.plane.apply(*(self.plane.api_service(name, self.first.port) for name in group_versions or GROUP_VERSIONS))
        self.plane.wait_available(*group_versions)
        return self

    def end(self):
        for proxy in list(self.stack.proxies):
            proxy.stop()
        if self.plane is not None:
            self.plane.stop()
        self.stack.end()


@pytest.fixture(scope="session")
def cluster():
    """The cluster that most tests share."""
    shared = Cluster()
    try:
        yield shared.serve()
    finally:
        shared.end()


@pytest.fixture(scope="session")
def plane(cluster):
    return cluster.plane


@pytest.fixture(scope="session")
def api(plane):
    return plane.api()


@pytest.fixture
def ns(plane, api):
    """A namespace of the test, which is deleted after the test."""
    name = "t-" + uuid.uuid4().hex[:10]
    plane.namespace(name)
    yield name
    api.delete(f"/api/v1/namespaces/{name}")
