"""The chart by real helm on a control plane with CRDs and reports in etcd: install, upgrade, uninstall, and once more.

The Jobs and the proxies of the chart run as node.py runs pods, so its hooks do what they do in a cluster.
"""

import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest

import node
from client import POLR, path_of, report, until
from conftest import TOP, Cluster
from control_plane import API_SERVICES, GROUP_VERSIONS, NAMESPACE, programs

CHART = TOP / "helm" / "kube-reports"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "kube-reports"
# As .ci/check-chart builds them.
HELMS = {version: CACHE / f"helm-{version}" / "helm" for version in ("v3.22.0", "v4.3.1")}
RELEASE = "kr"
FULLNAME = "kr-kube-reports"
CRDS = [TOP / "sql" / "crds" / f"{name}.json" for name in (
    "policyreports.wgpolicyk8s.io", "clusterpolicyreports.wgpolicyk8s.io", "ephemeralreports.reports.kyverno.io",
    "clusterephemeralreports.reports.kyverno.io")]

pytestmark = pytest.mark.skipif(not node.has_network(),
                                reason="needs root and a network of its own, as .ci/check-cluster makes it")


class Release:
    """A cluster with a node, a database that the chart is told of, and helm."""

    def __init__(self, helm):
        self.helm = helm
        self.cluster = Cluster(settings=["listen_addresses = '127.0.0.1'"], apiserver_flags=["--allow-privileged=true"],
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
        self.plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        self.database.psql("CREATE ROLE setup LOGIN SUPERUSER PASSWORD 'of setup'; CREATE DATABASE reports",
                           user="postgres", database="postgres")
        self.plane.apply(*({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE},
                            "stringData": {"username": user, "password": password}}
                           for name, user, password in (("proxy", "kube_reports_proxy", "of the proxy"),
                                                        ("setup", "setup", "of setup"))))
        for file in CRDS:
            self.plane.kubectl("apply", "--server-side", "-f", str(file))
        self.plane.wait_available("wgpolicyk8s.io/v1alpha2", "reports.kyverno.io/v1")
        until(lambda: self.api.post(path_of(POLR, "default"), report("in-etcd", "default")).code in (201, 409), 60,
              "a report in etcd")
        self.node = node.Node(self.plane, NAMESPACE, f"{self.database.directory}/dest/usr/bin",
                              f"{self.database.directory}/node")
        # The containers' user goes through it.
        os.chmod(self.database.directory, 0o711)

    def run(self, *arguments, check=True):
        done = subprocess.run([self.helm, *arguments, "--namespace", NAMESPACE, "--kubeconfig",
                               self.plane.kubeconfig, "--timeout=5m"],
                              capture_output=True, text=True, timeout=400, check=False, cwd=TOP,
                              env={**os.environ, **{f"HELM_{name}_HOME": f"{self.plane.directory}/helm-{name}"
                                                    for name in ("CACHE", "CONFIG", "DATA")}})
        assert not check or done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{self.node.logs()}"
        return done

    def by_the_page(self, command):
        """A command of docs/install.md, for this release."""
        page = (TOP / "docs" / "install.md").read_text(encoding="utf-8")
        (line,) = re.findall(rf"^```\nhelm ({command} kube-reports\b[^\n]*)\n```$", page, re.M)
        action, _, *words = shlex.split(line)
        return self.run(action, RELEASE, *words)

    def values(self, **more):
        values = {"database.type": "external", "database.name": "reports", "database.parameters.host": "127.0.0.1",
                  "database.secret.name": "proxy", "database.setup.secret.name": "setup",
                  "proxy.shutdownDelay": "1s", **more}
        return [word for name, value in values.items() for word in ("--set", f"{name}={value}")]

    def names(self):
        answer = self.api.get(path_of(POLR, "default"))
        return [item["metadata"]["name"] for item in answer.json["items"]] if answer.code == 200 else None

    def api_service(self, group_version):
        group, version = group_version.split("/")
        answer = self.api.get(f"{API_SERVICES}/{version}.{group}")
        return answer.json if answer.code == 200 else None

    def taken(self):
        """The groups that lead to the release's Service."""
        return [name for name in (*GROUP_VERSIONS, "kyverno.io/v1alpha2")
                if ((self.api_service(name) or {}).get("spec", {}).get("service") or {}).get("name") == FULLNAME]

    def end(self):
        with contextlib.suppress(Exception):
            if self.node is not None:
                self.node.stop()
        self.cluster.end()


@pytest.fixture(scope="module", params=list(HELMS))
def release(request):
    if not os.access(HELMS[request.param], os.X_OK):
        pytest.skip(f"helm {request.param} is not built: make check-chart")
    own = Release(str(HELMS[request.param]))
    try:
        yield own
    finally:
        own.end()


def waits(release):
    """
    What Kyverno's reportsServer.waitForReady runs before its controllers, for the Service of this chart: whether it
    found the Service ready.
    """
    plane = release.plane
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "waits", "namespace": NAMESPACE}}
    plane.apply({**role, "kind": "Role", "rules": [{"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"],
                                                    "verbs": ["get", "list"]}]},
                {**role, "kind": "RoleBinding",
                 "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "waits"},
                 "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": NAMESPACE}]})
    account = pathlib.Path(plane.directory) / "waits"
    account.mkdir(exist_ok=True)
    (account / "token").write_text(plane.token(NAMESPACE, "default"), encoding="utf-8")
    shutil.copy(f"{plane.pki}/ca.crt", account)
    place = "/run/secrets/kubernetes.io/serviceaccount"
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-ec",
         f'mount -t tmpfs none /run; mkdir -p {place}; mount --bind {account} {place}; exec "$@"', "sh",
         programs()["kyverno-readiness-checker"], "check-endpoints", f"--service-name={FULLNAME}",
         f"--namespace={NAMESPACE}", "--timeout=3s"],
        capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(plane.port)})
    ready = "endpoint is ready!" in done.stdout
    assert ready == (done.returncode == 0) and (ready or "is not ready" in done.stdout), done.stdout + done.stderr
    return ready


def test_install(release):
    """
    helm install --wait: the database is set up, proxies are ready, as Kyverno's own check finds them, groups are taken
    over, and old reports are hidden.
    """
    assert not waits(release)
    release.run("install", RELEASE, str(CHART), "--wait", *release.values())
    assert waits(release)
    assert release.taken() == list(GROUP_VERSIONS)
    release.plane.wait_available()
    until(lambda: release.names() == [], 30, "lists of the proxies")
    answer = release.api.post(path_of(POLR, "default"), report("one", "default"))
    assert answer.code == 201, answer
    assert release.names() == ["one"]
    # What the chart's certificate and caBundle are for.
    assert not release.api_service(GROUP_VERSIONS[0])["spec"].get("insecureSkipTLSVerify")
    # Hooks leave nothing behind but the objects that they need.
    assert not [job for job in release.api.get(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs").json["items"]
                if "apiservices" in job["metadata"]["name"]]


def test_roles(release):
    """view, edit and admin of the cluster have the chart's rules."""
    for role, verb, allowed in (("view", "get", True), ("view", "delete", False), ("admin", "delete", True)):
        release.plane.apply({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                             "metadata": {"name": f"person-{role}", "namespace": "default"},
                             "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                             "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User",
                                           "name": f"person-{role}"}]})
        asked = ("auth", "can-i", verb, "policyreports.wgpolicyk8s.io", "-n", "default", f"--as=person-{role}")
        until(lambda asked=asked, allowed=allowed: release.plane.kubectl(*asked, check=False).out.strip()
              == ("yes" if allowed else "no"),
              30, f"{role} to {verb}")


def test_upgrade(release):
    """
    An upgrade rolls proxies over, keeps certificate and reports, and takes or gives back groups that were switched.
    """
    secret = f"/api/v1/namespaces/{NAMESPACE}/secrets/{FULLNAME}-tls"
    before = release.api.get(secret).json["data"]
    release.run("upgrade", RELEASE, str(CHART), "--wait", *release.values(**{
        "proxy.verbosity": "1", r"apiServices.groups.openreports\.io/v1alpha1": "false",
        r"apiServices.groups.kyverno\.io/v1alpha2": "true"}))
    switched = ["wgpolicyk8s.io/v1alpha2", "reports.kyverno.io/v1", "kyverno.io/v1alpha2"]
    assert release.taken() == switched
    # As the page upgrades: the values stay.
    release.by_the_page("upgrade")
    assert release.taken() == switched
    assert release.api.get(secret).json["data"] == before
    until(lambda: release.names() == ["one"], 30, "lists of the new proxies")
    release.run("upgrade", RELEASE, str(CHART), "--wait", *release.values())
    assert release.taken() == list(GROUP_VERSIONS)
    until(lambda: release.names() == ["one"], 30, "lists of the new proxies")


def test_uninstall_and_reinstall(release):
    """
    helm uninstall gives the groups back first: etcd's reports are there again.  The next install finds the database's.
    """
    release.by_the_page("uninstall")
    assert release.taken() == []
    until(lambda: release.names() == ["in-etcd"], 60, "lists of etcd")
    # Groups without CRDs are gone, so that no namespace waits for them.
    assert release.api_service("openreports.io/v1alpha1") is None
    until(lambda: not release.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods").json["items"], 60, "the end of the pods")
    until(lambda: json.loads(release.plane.kubectl(
        "get", "all,configmap,networkpolicy,role,rolebinding,clusterrole,clusterrolebinding", "-n", NAMESPACE,
        "-l", f"app.kubernetes.io/instance={RELEASE}", "-o", "json"))["items"] == [], 60, "the end of all objects")
    release.run("install", RELEASE, str(CHART), "--wait", *release.values())
    assert release.taken() == list(GROUP_VERSIONS)
    until(lambda: release.names() == ["one"], 60, "lists of the proxies")
    release.run("uninstall", RELEASE, "--wait")


def test_objects_that_are_there(release):
    """
    The other method, APIServices as objects of the chart: helm takes over what kube-apiserver has made only if it is
    told to.
    """
    values = release.values(**{"apiServices.method": "objects"})
    refused = release.run("install", RELEASE, str(CHART), *values, check=False)
    assert refused.returncode != 0 and ("ownership" in refused.stderr or "conflict" in refused.stderr), refused.stderr
    release.run("uninstall", RELEASE, "--wait", "--ignore-not-found")
    more = ["--take-ownership"] + (["--force-conflicts"] if "helm-v4" in release.helm else [])
    release.run("install", RELEASE, str(CHART), "--wait", *more, *values)
    release.plane.wait_available(seconds=120)
    assert release.taken() == list(GROUP_VERSIONS)
    until(lambda: release.names() in ([], ["one"]), 60, "lists of the proxies")
    # With --wait helm would wait for the end of APIServices that kube-apiserver makes anew for CRDs.
    release.run("uninstall", RELEASE)
    until(lambda: release.names() == ["in-etcd"], 90, "lists of etcd")


