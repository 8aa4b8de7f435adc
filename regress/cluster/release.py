"""
A cluster with a node, an external database and helm, into which tests install the chart.

node.py runs the pods of Jobs, proxies, senders and the bundled database, so that the chart's hooks work as in a
cluster.
"""

import contextlib
import os
import pathlib
import re
import shlex
import subprocess

import pytest

import node
from client import POLR, path_of, report, until
from conftest import TOP, Cluster
from control_plane import API_SERVICES, GROUP_VERSIONS, NAMESPACE

CHART = TOP / "helm" / "kube-reports"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "kube-reports"
# The programs that .ci/check-chart builds.
HELMS = {version: CACHE / f"helm-{version}" / "helm" for version in ("v3.22.0", "v4.3.1")}
RELEASE = "kr"
FULLNAME = "kr-kube-reports"
CRDS = [TOP / "sql" / "crds" / f"{name}.json" for name in (
    "policyreports.wgpolicyk8s.io", "clusterpolicyreports.wgpolicyk8s.io", "ephemeralreports.reports.kyverno.io",
    "clusterephemeralreports.reports.kyverno.io")]

NEEDS_NETWORK = pytest.mark.skipif(not node.has_network(),
                                   reason="needs root and a network of its own, as .ci/check-cluster makes it")


class Release:
    """A cluster with a node, an external database for the chart, and helm."""

    def __init__(self, helm, prepared=True, hosts=()):
        """prepared: with the namespace, and Secrets for the roles of the database; hosts: names of this machine."""
        self.helm = helm
        self.prepared, self.hosts = prepared, hosts
        self.cluster = Cluster(settings=["listen_addresses = '127.0.0.1'"], apiserver_flags=["--allow-privileged=true"],
                               restricted=True,
                               manager_flags=["--controllers=*,-node-lifecycle-controller,-taint-eviction-controller"])
        self.plane = self.cluster.plane
        self.api = self.plane.api()
        self.database = self.cluster.stack.database
        self.node = None
        try:
            self._begin()
        except BaseException:
            self.end()
            raise

    def _begin(self):
        self.database.psql("CREATE ROLE setup LOGIN SUPERUSER PASSWORD 'of setup'; CREATE DATABASE reports",
                           user="postgres", database="postgres")
        if self.prepared:
            self.plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
            self.secret("proxy", "kube_reports_proxy", "of the proxy")
            self.secret("setup", "setup", "of setup")
        for file in CRDS:
            self.plane.kubectl("apply", "--server-side", "-f", str(file))
        self.plane.wait_available("wgpolicyk8s.io/v1alpha2", "reports.kyverno.io/v1")
        until(lambda: self.api.post(path_of(POLR, "default"), report("in-etcd", "default")).code in (201, 409), 60,
              "a report in etcd")
        directory = self.database.directory
        self.node = node.Node(self.plane, NAMESPACE, f"{directory}/dest", f"{directory}/node", self.hosts)
        # The containers' user has to pass this directory.
        os.chmod(self.database.directory, 0o711)

    def secret(self, name, user, password):
        """Makes a Secret with a role of the database and its password."""
        self.plane.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE},
                          "stringData": {"username": user, "password": password}})

    def run(self, *arguments, check=True, timeout="5m"):
        """Runs helm with these arguments."""
        done = subprocess.run([self.helm, *arguments, "--namespace", NAMESPACE, "--kubeconfig",
                               self.plane.kubeconfig, f"--timeout={timeout}"],
                              capture_output=True, text=True, timeout=400, check=False, cwd=TOP,
                              env={**os.environ, **{f"HELM_{name}_HOME": f"{self.plane.directory}/helm-{name}"
                                                    for name in ("CACHE", "CONFIG", "DATA")}})
        assert not check or done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{self.node.logs()}"
        return done

    def by_the_page(self, command):
        """Runs a command of docs/install.md, for this release."""
        page = (TOP / "docs" / "install.md").read_text(encoding="utf-8")
        (line,) = re.findall(rf"^```\nhelm ({command} kube-reports\b[^\n]*)\n```$", page, re.M)
        action, _, *words = shlex.split(line)
        return self.run(action, RELEASE, *words)

    def values(self, **more):
        values = {"database.type": "external", "database.name": "reports", "database.parameters.host": "127.0.0.1",
                  "database.secret.name": "proxy", "database.setup.secret.name": "setup",
                  "proxy.shutdownDelay": "1s", **more}
        return [word for name, value in values.items() for word in ("--set", f"{name}={value}")]

    def create(self, name):
        """Creates a report in the namespace default; returns the code of the answer."""
        return self.api.post(path_of(POLR, "default"), report(name, "default")).code

    def ready(self):
        """Returns the names of pods that are ready."""
        pods = self.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods").json["items"]
        return [pod["metadata"]["name"] for pod in pods if any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in pod.get("status", {}).get("conditions", []))]

    def names(self):
        answer = self.api.get(path_of(POLR, "default"))
        return [item["metadata"]["name"] for item in answer.json["items"]] if answer.code == 200 else None

    def api_service(self, group_version):
        group, version = group_version.split("/")
        answer = self.api.get(f"{API_SERVICES}/{version}.{group}")
        return answer.json if answer.code == 200 else None

    def taken(self):
        """Returns the groups that lead to the release's Service."""
        return [name for name in (*GROUP_VERSIONS, "kyverno.io/v1alpha2")
                if ((self.api_service(name) or {}).get("spec", {}).get("service") or {}).get("name") == FULLNAME]

    def end(self):
        with contextlib.suppress(Exception):
            if self.node is not None:
                self.node.stop()
        self.cluster.end()


def releases(version, **more):
    """Yields one Release, for a fixture."""
    if not os.access(HELMS[version], os.X_OK):
        pytest.skip(f"helm {version} is not built: make check-chart")
    own = Release(str(HELMS[version]), **more)
    try:
        yield own
    finally:
        own.end()
