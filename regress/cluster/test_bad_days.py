"""
The chart on bad days: wrong values, a rollback, an uninstall while somebody writes, rotated passwords, groups that are
half handed back, an expired certificate, a dead node, an upgrade during an import, two releases of one cluster.
"""

import base64
import contextlib
import itertools
import os
import re
import signal
import socket
import subprocess
import threading

import pytest

from client import POLR, path_of, report, until
from conftest import TOP
from control_plane import API_SERVICES, GROUP_VERSIONS, NAMESPACE
from release import CHART, FULLNAME, NEEDS_NETWORK, RELEASE, releases

pytestmark = NEEDS_NETWORK

SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"


@pytest.fixture(scope="module")
def release():
    for own in releases("v3.22.0"):
        own.run("install", RELEASE, str(CHART), "--wait", *own.values())
        own.plane.wait_available()
        yield own


@pytest.fixture(autouse=True)
def good(release):
    """Each test begins and ends with a release that serves all its groups."""
    yield
    release.run("upgrade", RELEASE, str(CHART), "--install", "--wait", *release.values())
    assert release.taken() == list(GROUP_VERSIONS)
    release.plane.wait_available()
    until(lambda: release.names() is not None, 60, "lists of the proxies")


def upgrade(release, check=True, timeout="5m", **values):
    return release.run("upgrade", RELEASE, str(CHART), "--wait", *release.values(**values), check=check,
                       timeout=timeout)


def proxies(release):
    """Returns the uids of the proxies' pods."""
    pods = release.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods",
                           labelSelector="app.kubernetes.io/component=proxy").json["items"]
    return {pod["metadata"]["uid"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}


class Writer(threading.Thread):
    """Writes reports as a controller does, one after the other; done has those that were acknowledged."""

    def __init__(self, release, prefix):
        super().__init__(daemon=True)
        self.api = release.plane.api()
        self.prefix = prefix
        self.done, self.refused = [], 0
        self.ending = threading.Event()

    def run(self):
        for number in itertools.count():
            if self.ending.is_set():
                return
            name = f"{self.prefix}-{number}"
            code = None
            with contextlib.suppress(OSError):
                code = self.api.post(path_of(POLR, "default"), report(name, "default")).code
            if code == 201:
                self.done.append(name)
            else:
                self.refused += 1
                self.ending.wait(0.05)

    def end(self):
        self.ending.set()
        self.join(60)
        assert self.done


def test_wrong_values(release):
    """
    A missing Secret, an unknown flag or a wrong host makes the upgrade fail; the old pods serve all the time; a
    rollback repairs the release.
    """
    before = proxies(release)
    writer = Writer(release, "wrong")
    writer.start()
    for values in ({"database.secret.name": "missing"}, {"proxy.extraFlags.no-such-flag": "1"},
                   {"database.parameters.host": "127.0.0.2"}):
        failed = upgrade(release, check=False, timeout="15s", **values)
        assert failed.returncode != 0
        assert before <= proxies(release), "the pods of before are gone"
        assert release.taken() == list(GROUP_VERSIONS)
    release.run("rollback", RELEASE, "1", "--wait")
    writer.end()
    assert writer.refused == 0
    assert set(writer.done) <= set(release.names())


def test_rollback_takes_groups_back(release):
    """An upgrade hands a group back; a rollback of it takes the group again"""
    upgrade(release, **{r"apiServices.groups.openreports\.io/v1alpha1": "false"})
    assert "openreports.io/v1alpha1" not in release.taken()
    release.run("rollback", RELEASE, "--wait")
    assert release.taken() == list(GROUP_VERSIONS)


def test_uninstall_while_somebody_writes(release):
    """Every acknowledged report is in the database or in etcd, and namespaces can be deleted at once"""
    writer = Writer(release, "late")
    writer.start()
    until(lambda: len(writer.done) > 20, 60, "writes")
    release.run("uninstall", RELEASE, "--wait")
    until(lambda: release.names() is not None and release.taken() == [], 60, "lists of etcd")
    count = len(writer.done)
    until(lambda: len(writer.done) > count + 5, 60, "writes into etcd")
    writer.end()
    in_etcd = set(release.names())
    stored = set(release.database.psql("SELECT name FROM kube_reports.stored_report", user="postgres",
                                       database="reports").split())
    assert set(writer.done) <= in_etcd | stored
    assert in_etcd & set(writer.done) and stored & set(writer.done)
    # No APIService is left without endpoints: namespaces can be deleted.
    namespaces_can_go(release, "goes")
    for name in in_etcd - {"in-etcd"}:
        release.api.delete(path_of(POLR, "default", name))


def namespaces_can_go(release, name):
    release.plane.namespace(name)
    release.api.delete(f"/api/v1/namespaces/{name}")
    until(lambda: release.api.get(f"/api/v1/namespaces/{name}").code == 404, 240, "the end of a namespace")


def test_uninstall_without_hooks(release):
    """The APIServices lead nowhere, until the command of docs/install.md deletes them"""
    release.run("uninstall", RELEASE, "--wait", "--no-hooks")
    assert release.taken() == list(GROUP_VERSIONS)
    until(lambda: release.api.get(path_of(POLR, "default")).code == 503, 60, "a group without proxies")
    page = (TOP / "docs" / "install.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"`kubectl (delete apiservice [^`]*)`", page)
    release.plane.kubectl(*command.split())
    until(lambda: release.taken() == [] and "in-etcd" in (release.names() or []), 60, "lists of etcd")
    namespaces_can_go(release, "goes-without-hooks")


def test_in_the_place_of_reports_server(release):
    """
    APIServices of reports-server, which is scaled to 0: the chart takes them over only with apiServices.replace, and
    then verifies TLS
    """
    release.run("uninstall", RELEASE, "--wait")
    until(lambda: release.taken() == [], 60, "the end of the APIServices")
    plane, other = release.plane, "reports-server"
    plane.namespace(other)
    for group_version in GROUP_VERSIONS:
        document = plane.api_service(group_version, 443, {"kube-aggregator.kubernetes.io/automanaged": "false"})
        document["spec"].update(service={"name": other, "namespace": other}, insecureSkipTLSVerify=True)
        del document["spec"]["caBundle"]
        plane.apply(document)
    refused = release.run("install", RELEASE, str(CHART), "--wait", *release.values(**{"apiServices.timeout": "10s"}),
                          check=False)
    assert refused.returncode != 0 and f"--replace={other}/{other}" in release.node.logs(), release.node.logs()[-3000:]
    assert release.taken() == []
    release.run("upgrade", RELEASE, str(CHART), "--install", "--wait",
                *release.values(**{"apiServices.replace": f"{other}/{other}"}))
    assert release.taken() == list(GROUP_VERSIONS)
    for group_version in GROUP_VERSIONS:
        spec = release.api_service(group_version)["spec"]
        assert spec["caBundle"] and not spec.get("insecureSkipTLSVerify")
    plane.wait_available()
    release.api.delete(f"/api/v1/namespaces/{other}")


def test_rotated_password(release):
    """The Secret has a new password: an upgrade with the same values sets it and replaces the pods, one by one"""
    before = proxies(release)
    upgrade(release)
    assert proxies(release) == before, "an upgrade without a change replaces pods"
    writer = Writer(release, "rotated")
    writer.start()
    release.secret("proxy", "kube_reports_proxy", "of the proxy, the second\n")
    upgrade(release)
    assert not before & proxies(release)
    # Connections with the old password may end: the new one is in use.
    release.database.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'kube_reports_proxy'",
                          user="postgres")
    until(lambda: release.create("after-the-rotation") in (201, 409), 30, "a write")
    writer.end()
    assert set(writer.done) <= set(release.names())


def test_groups_half_handed_back(release):
    """One group was handed back and another one was deleted: the next upgrade takes both again"""
    name = GROUP_VERSIONS[1].split("/")
    assert release.api.delete(f"{API_SERVICES}/{name[1]}.{name[0]}").code == 200
    done = subprocess.run(
        [f"{release.database.directory}/dest/usr/bin/kube-reports-proxy", "apiservice", "disable", GROUP_VERSIONS[0],
         f"--service={NAMESPACE}/{FULLNAME}", f"--kubeconfig={release.plane.kubeconfig}"],
        capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert release.taken() == [GROUP_VERSIONS[2]]
    upgrade(release)
    assert release.taken() == list(GROUP_VERSIONS)


def test_hook_that_is_killed(release):
    """The pod that hands groups back is deleted at its first step: the Job makes another, and uninstall ends"""
    killed = threading.Event()

    def kill():
        selector = "app.kubernetes.io/component=apiservices"
        while not killed.is_set():
            for pod in release.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector=selector).json["items"]:
                release.plane.kubectl("delete", "pod", "-n", NAMESPACE, pod["metadata"]["name"], "--wait=false",
                                      "--grace-period=0", "--force", check=False)
                killed.set()
    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    try:
        release.run("uninstall", RELEASE, "--wait")
        assert killed.is_set()
    finally:
        killed.set()
        thread.join(30)
    until(lambda: release.taken() == [] and release.names() is not None, 60, "lists of etcd")


def expire(release):
    """Puts an expired certificate of a CA that nobody else knows into the release's Secret."""
    directory = release.database.directory
    name = f"{FULLNAME}.{NAMESPACE}.svc"
    key, ca, request, certificate = (f"{directory}/expired.{suffix}" for suffix in ("key", "ca", "csr", "crt"))
    for command in (
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=old CA",
             "-keyout", f"{ca}.key", "-out", ca],
            ["openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", request,
             "-addext", f"subjectAltName=DNS:{name}"],
            ["openssl", "x509", "-req", "-in", request, "-CA", ca, "-CAkey", f"{ca}.key", "-CAcreateserial", "-days",
             "-1", "-copy_extensions", "copy", "-out", certificate]):
        subprocess.run(command, check=True, capture_output=True)
    data = {}
    for entry, file in (("tls.crt", certificate), ("tls.key", key), ("ca.crt", ca)):
        with open(file, "rb") as content:
            data[entry] = base64.b64encode(content.read()).decode()
    patched = release.api.patch(f"{SECRETS}/{FULLNAME}-tls", {
        "data": data, "metadata": {"annotations": {"kube-reports/expires": "1"}}})
    assert patched.code == 200, patched


def test_expired_certificate(release):
    """The group is not available and says why; an upgrade makes a new certificate, and no proxy is restarted"""
    before = proxies(release)
    expire(release)

    def message():
        group, version = GROUP_VERSIONS[0].split("/")
        conditions = release.api.get(f"{API_SERVICES}/{version}.{group}").json["status"]["conditions"]
        return next((one["message"] for one in conditions if one["type"] == "Available" and one["status"] == "False"),
                    "")
    until(lambda: "expired" in message(), 120, "the aggregator to notice")
    upgrade(release)
    release.plane.wait_available(seconds=120)
    until(lambda: release.names() is not None, 60, "lists of the proxies")
    assert proxies(release) == before
    assert release.api.get(f"{SECRETS}/{FULLNAME}-tls").json["metadata"]["annotations"][
        "kube-reports/expires"] != "1"


def frozen(pod, how):
    """Sends a signal to all processes of a pod; SIGSTOP freezes them, as in a node without power."""
    for process in pod.processes:
        if process.poll() is None:
            os.killpg(process.pid, how)


def test_node_of_a_proxy_dies(release):
    """
    A node no longer answers, and connections to its proxy hang: when its pod is no endpoint any more and kube-apiserver
    has given the connections up, the other proxy serves.  Acknowledged reports are stored.
    """
    writer = Writer(release, "node")
    writer.start()
    until(lambda: len(writer.done) > 20, 60, "writes")
    # The pod to which kube-apiserver's connections lead.
    (address, _), *_ = release.node.endpoints(FULLNAME, "https")
    pod = next(pod for pod in list(release.node.pods.values()) if pod.address == address)
    frozen(pod, signal.SIGSTOP)
    try:
        count = len(writer.done)
        until(lambda: len(writer.done) > count + 20, 180, "writes through the other proxy")
        release.plane.kubectl("delete", "pod", "-n", NAMESPACE, pod.name, "--force", "--grace-period=0")
        until(lambda: len(release.node.endpoints(FULLNAME, "https")) == 2, 120, "a pod in its place")
    finally:
        for process in pod.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    writer.end()
    assert set(writer.done) <= set(release.names())


class Gate:
    """Forwards a port of its own to kube-apiserver; stops after so many bytes of answers, until the test opens it."""

    def __init__(self, port, most):
        self.to, self.left = port, most
        self.shut, self.opened = threading.Event(), threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.to))
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=self._copy, args=(source, target, source is server), daemon=True).start()

    def _copy(self, source, target, counts):
        with contextlib.suppress(OSError), source, target:
            while data := source.recv(4096):
                self.left -= len(data) if counts else 0
                if self.left < 0:
                    self.shut.set()
                    self.opened.wait(600)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


def test_upgrade_during_an_import(release):
    """
    While import reads etcd, the chart is upgraded with the groups on: proxies, set-up and APIServices change.  import
    says that it has not read everything; after the groups are handed back it completes, and no report is missing.
    """
    release.run("uninstall", RELEASE, "--wait")
    until(lambda: release.names() is not None and release.taken() == [], 60, "lists of etcd")
    for number in range(100):
        assert release.create(f"import-{number}") == 201
    off = {"apiServices.groups." + name.replace(".", r"\."): "false" for name in GROUP_VERSIONS}
    release.run("install", RELEASE, str(CHART), "--wait", *release.values(**off))
    assert release.taken() == []
    gate = Gate(release.plane.port, 30_000)
    with open(release.plane.kubeconfig, encoding="utf-8") as file:
        config = file.read().replace(f"127.0.0.1:{release.plane.port}", f"127.0.0.1:{gate.port}")
    kubeconfig = f"{release.plane.directory}/through-the-gate"
    with open(kubeconfig, "w", encoding="utf-8") as file:
        file.write(config)
    command = [f"{release.database.directory}/dest/usr/bin/kube-reports-proxy", "import", "--from-cluster",
               "--page-size=10", f"--kubeconfig={kubeconfig}",
               f"--database=host={release.database.directory} dbname=reports user=kube_reports_proxy"]

    def stored():
        return int(release.database.psql("SELECT count(*) FROM kube_reports.stored_report WHERE name LIKE 'import-%'",
                                         user="postgres", database="reports"))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert gate.shut.wait(60) and stored() < 100
            upgrade(release)
            assert release.taken() == list(GROUP_VERSIONS)
        finally:
            gate.opened.set()
        told = process.communicate(timeout=300)[0]
    assert process.returncode == 1 and "not all objects were read" in told, told
    upgrade(release, **off)
    assert release.taken() == []
    until(lambda: release.names() is not None, 60, "lists of etcd")
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    gate.listener.close()
    assert done.returncode == 0 and stored() == 100, done.stdout + done.stderr
    upgrade(release)
    until(lambda: {f"import-{number}" for number in range(100)} <= set(release.names() or []), 60, "the copies")
    # etcd still has the reports; the tests after this one expect one report in etcd.
    upgrade(release, **off)
    until(lambda: release.names() is not None, 60, "lists of etcd")
    for number in range(100):
        release.api.delete(path_of(POLR, "default", f"import-{number}"))


def test_two_releases(release):
    """The second release is refused the groups of the first; the first goes on, also when the second is uninstalled"""
    second = release.run("install", "second", str(CHART), "--wait", *release.values(**{"apiServices.timeout": "10s"}),
                         check=False)
    try:
        assert second.returncode != 0, second.stdout
        logs = release.node.logs()
        assert f"{NAMESPACE}/{FULLNAME}" in logs and "--replace" in logs, logs[-3000:]
        assert release.taken() == list(GROUP_VERSIONS)
        assert release.create("first-goes-on") in (201, 409)
    finally:
        release.run("uninstall", "second", "--wait")
    assert release.taken() == list(GROUP_VERSIONS)
    release.plane.wait_available()
    assert "first-goes-on" in release.names()
