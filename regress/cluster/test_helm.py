"""
The chart by real helm on a control plane with CRDs and reports in etcd: install, upgrade, uninstall, and once more.
"""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

from client import POLR, path_of, report, until
from control_plane import GROUP_VERSIONS, NAMESPACE, programs
from release import CHART, FULLNAME, HELMS, NEEDS_NETWORK, RELEASE, releases

pytestmark = NEEDS_NETWORK


@pytest.fixture(scope="module", params=list(HELMS))
def release(request):
    for own in releases(request.param):
        own.seen = set()  # pods of hooks that hooks_are_gone() has checked
        yield own


def waits(release):
    """
    Runs what Kyverno's reportsServer.waitForReady runs before its controllers, for the Service of this chart; returns
    whether the Service is ready.
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


def hooks_are_gone(release, *names):
    """Checks that the hooks of these names, and no others, have run since the last check, and left no Job and no pod"""
    prefix, component = f"{FULLNAME}-apiservices-", "app.kubernetes.io/component=apiservices"
    pods = {uid: pod for uid, pod in list(release.node.pods.items()) if pod.name.startswith(prefix)}
    ran = {pod.name[len(prefix):].split("-")[0] for uid, pod in pods.items() if uid not in release.seen}
    assert ran == set(names)
    release.seen |= pods.keys()
    # helm deletes the Jobs; the garbage collector deletes their pods, some time later.
    assert release.api.get(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", labelSelector=component).json["items"] == []
    until(lambda: release.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector=component).json["items"] == [],
          60, "the end of the hooks' pods")


def test_install(release):
    """
    helm install --wait: the database is set up, proxies are ready, also for Kyverno's own check, groups are taken over,
    and old reports are hidden.
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
    # With the chart's certificate and caBundle, kube-apiserver verifies TLS.
    assert not release.api_service(GROUP_VERSIONS[0])["spec"].get("insecureSkipTLSVerify")
    hooks_are_gone(release, "enable")


def test_pods_are_restricted(release):
    """
    Namespaces in all tests of the chart accept only pods of the restricted Pod Security level, and they accept the
    chart's pods.
    """
    name = "refused"
    answer = release.api.post(f"/api/v1/namespaces/{NAMESPACE}/pods", {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": name, "image": name}]}})
    assert answer.code == 403 and "restricted" in answer.json["message"], answer


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
    hooks_are_gone(release, "enable")
    # The upgrade of the page keeps the values.
    release.by_the_page("upgrade")
    assert release.taken() == switched
    assert release.api.get(secret).json["data"] == before
    until(lambda: release.names() == ["one"], 30, "lists of the new proxies")
    release.run("upgrade", RELEASE, str(CHART), "--wait", *release.values())
    assert release.taken() == list(GROUP_VERSIONS)
    hooks_are_gone(release, "enable")
    until(lambda: release.names() == ["one"], 30, "lists of the new proxies")


def test_uninstall_and_reinstall(release):
    """
    helm uninstall gives the groups back first: etcd's reports are served again.  The next install finds those of the
    database.
    """
    release.by_the_page("uninstall")
    assert release.taken() == []
    hooks_are_gone(release, "disable")
    until(lambda: release.names() == ["in-etcd"], 60, "lists of etcd")
    # Groups without CRDs are gone, so that no namespace waits for them.
    assert release.api_service("openreports.io/v1alpha1") is None
    until(lambda: not release.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods").json["items"], 60, "the end of the pods")
    until(lambda: json.loads(release.plane.kubectl(
        "get", "all,configmap,secret,serviceaccount,networkpolicy,poddisruptionbudget,role,rolebinding,clusterrole,"
        "clusterrolebinding,flowschema", "-n", NAMESPACE,
        "-l", f"app.kubernetes.io/instance={RELEASE}", "-o", "json"))["items"] == [], 60, "the end of all objects")
    release.run("install", RELEASE, str(CHART), "--wait", *release.values())
    assert release.taken() == list(GROUP_VERSIONS)
    until(lambda: release.names() == ["one"], 60, "lists of the proxies")
    release.run("uninstall", RELEASE, "--wait")


def test_objects_that_are_there(release):
    """
    The other method, with APIServices as objects of the chart: helm takes over those that kube-apiserver has made only
    if it is told to.
    """
    values = release.values(**{"apiServices.method": "objects"})
    refused = release.run("install", RELEASE, str(CHART), *values, check=False)
    assert refused.returncode != 0 and ("ownership" in refused.stderr or "conflict" in refused.stderr), refused.stderr
    release.run("uninstall", RELEASE, "--wait", "--ignore-not-found")
    more = ["--take-ownership"]
    if "helm-v4" in release.helm:
        # Helm 4 applies on the server: the fields belong to kube-apiserver.
        refused = release.run("install", RELEASE, str(CHART), "--wait", *more, *values, check=False)
        assert refused.returncode != 0 and "conflict" in refused.stderr, refused.stderr
        assert release.names() == ["in-etcd"]
        release.run("uninstall", RELEASE, "--ignore-not-found")
        release.plane.wait_available("wgpolicyk8s.io/v1alpha2", "reports.kyverno.io/v1")
        more.append("--force-conflicts")
    release.run("install", RELEASE, str(CHART), "--wait", *more, *values)
    release.plane.wait_available(seconds=120)
    assert release.taken() == list(GROUP_VERSIONS)
    until(lambda: release.names() in ([], ["one"]), 60, "lists of the proxies")
    # With --wait, helm would wait for the end of APIServices that kube-apiserver makes again for CRDs.
    release.run("uninstall", RELEASE)
    until(lambda: release.names() == ["in-etcd"], 90, "lists of etcd")
