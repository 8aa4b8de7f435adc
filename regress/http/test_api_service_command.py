"""kube-reports-proxy apiservice: groups are taken over from CRDs, and given back."""

import base64
import os
import pathlib
import re
import subprocess
import threading

import pytest
import yaml

from aggregation import AUTOMANAGED, Aggregation
from apiserver import API_SERVICES
from client import WRONG_ADDRESSES, run, until
from conftest import TOP, free_port, stack_command
from front_proxy import read
from test_howto import section

POLICY_REPORTS = "wgpolicyk8s.io/v1alpha2"
OPEN_REPORTS = "openreports.io/v1alpha1"
SERVICE = "kube-reports/kube-reports"


def name_of(group_version):
    group, _, version = group_version.partition("/")
    return f"{version}.{group}"


class Cluster:
    """A stand-in for kube-apiserver with its controllers, and the command."""

    def __init__(self, stack, apiserver):
        self.stack = stack
        self.server = apiserver
        self.aggregation = Aggregation(apiserver)
        self.directory = pathlib.Path(apiserver.certificates)
        self.ca = f"{stack.pki}/ca.crt"
        apiserver.trust(self.ca)
        self.kubeconfig = apiserver.kubeconfig(f"{self.directory}/command", **{
            "client-certificate": f"{stack.pki}/admin.crt", "client-key": f"{stack.pki}/admin.key"})
        self.binary = f"{stack.database.directory}/dest/usr/bin/kube-reports-proxy"

    def ready(self):
        """Makes the Service and an endpoint of it: the proxy of the stack."""
        self.aggregation.service()
        self.aggregation.endpoints(self.stack.first.port)
        return self

    def arguments(self, action, *words, kubeconfig=None):
        return [self.binary, "apiservice", action, f"--kubeconfig={kubeconfig or self.kubeconfig}", *map(str, words)]

    def command(self, action, *words, code=0, **more):
        done = run(self.arguments(action, *words, **more), check=False, timeout=120)
        assert done.code == code, done
        return done

    def enable(self, *words, code=0, ca=None, **more):
        own = [f"--service={SERVICE}", f"--ca-file={ca or self.ca}"]
        return self.command("enable", *own, *words, code=code, **more).err

    def disable(self, *words, code=0, **more):
        return self.command("disable", f"--service={SERVICE}", *words, code=code, **more).err

    def spec(self, group_version):
        document = self.aggregation.document(group_version)
        return document and document["spec"]

    def leads_here(self, group_version):
        document = self.aggregation.document(group_version)
        assert document["spec"]["service"] == {"namespace": "kube-reports", "name": "kube-reports", "port": 443}
        assert base64.b64decode(document["spec"]["caBundle"]).decode() == read(self.ca)
        assert "insecureSkipTLSVerify" not in document["spec"]
        assert document["metadata"]["labels"][AUTOMANAGED] == "false"
        assert document["status"]["conditions"][0]["reason"] == "Passed"

    def local(self, group_version):
        group, _, version = group_version.partition("/")
        document = self.aggregation.document(group_version)
        # kube-apiserver makes the APIService a little later.
        if document is None:
            return False
        assert document["spec"] == {"group": group, "version": version,
                                    "groupPriorityMinimum": 1000, "versionPriority": 100}
        assert document["metadata"]["labels"][AUTOMANAGED] == "true"
        return True

    def condition(self, group_version):
        return self.aggregation.document(group_version)["status"]["conditions"][0]

    def writes(self):
        return [entry for method in ("POST", "PATCH", "DELETE") for entry in self.server.asked("apiservices", method)]


@pytest.fixture
def cluster(stack, apiserver):
    made = Cluster(stack, apiserver)
    yield made
    made.aggregation.end()


@pytest.fixture
def crds(cluster):
    """The CRDs of wgpolicyk8s.io, which kube-apiserver serves."""
    cluster.aggregation.add_crd(POLICY_REPORTS, "policyreports", "clusterpolicyreports")
    until(lambda: cluster.aggregation.document(POLICY_REPORTS), 20, "the APIService of the CRDs")
    cluster.ready()
    return cluster


# --- enable ---

def test_with_the_crds(crds):
    """enable takes over an APIService of CRDs, and kube-apiserver does not undo it; a second run changes nothing"""
    told = crds.enable(POLICY_REPORTS)
    crds.leads_here(POLICY_REPORTS)
    assert crds.spec(POLICY_REPORTS)["groupPriorityMinimum"] == 1000
    assert "leads to kube-reports/kube-reports now; before, kube-apiserver served it" in told
    assert told.endswith("v1alpha2.wgpolicyk8s.io: available\n")
    before = len(crds.writes())
    assert "leads to kube-reports/kube-reports already" in crds.enable(POLICY_REPORTS)
    assert len(crds.writes()) == before


def test_without_the_label_it_is_undone(crds):
    """the stand-in behaves like kube-apiserver: it restores a changed spec while the label is true"""
    document = crds.aggregation.document(POLICY_REPORTS)
    document["spec"]["service"] = {"namespace": "kube-reports", "name": "kube-reports", "port": 443}
    crds.server.put(API_SERVICES, document)
    until(lambda: "service" not in crds.spec(POLICY_REPORTS), 20, "the CRD's spec")


def test_without_crds(cluster):
    """enable makes missing APIServices, with the given priorities"""
    cluster.ready()
    told = cluster.enable(POLICY_REPORTS, OPEN_REPORTS, "--group-priority-minimum=1500", "--version-priority=15")
    for group_version in (POLICY_REPORTS, OPEN_REPORTS):
        cluster.leads_here(group_version)
        assert cluster.spec(group_version)["groupPriorityMinimum"] == 1500
        assert cluster.spec(group_version)["versionPriority"] == 15
        assert f"{name_of(group_version)}: created" in told
    # A CRD that is created later does not change the APIService.
    cluster.aggregation.add_crd(POLICY_REPORTS, "policyreports")
    cluster.enable(POLICY_REPORTS)
    cluster.leads_here(POLICY_REPORTS)
    assert cluster.spec(POLICY_REPORTS)["groupPriorityMinimum"] == 1500


def test_endpoints_come_later(crds):
    """nothing is changed before an endpoint is ready; the command prints why it waits; without --wait it fails"""
    crds.aggregation.endpoints(crds.stack.first.port, ready=False)
    told = crds.enable(POLICY_REPORTS, "--wait=false", code=1)
    assert "the Service kube-reports/kube-reports has no ready endpoint" in told and "nothing was changed" in told
    assert crds.writes() == []
    with subprocess.Popen(crds.arguments("enable", f"--service={SERVICE}", f"--ca-file={crds.ca}", POLICY_REPORTS),
                          stderr=subprocess.PIPE, text=True) as process:
        line = process.stderr.readline()
        assert line == f"waiting for the server: the Service {SERVICE} has no ready endpoint\n"
        assert crds.writes() == []
        crds.aggregation.endpoints(crds.stack.first.port)
        assert process.wait(30) == 0, process.stderr.read()
        assert "waiting for the server" not in process.stderr.read()
    crds.leads_here(POLICY_REPORTS)


def test_no_endpoint_in_time(cluster):
    """--timeout ends the wait for a Service that does not exist"""
    told = cluster.enable(POLICY_REPORTS, "--timeout=1s", code=1)
    assert "error: there is no Service kube-reports/kube-reports" in told


def test_wrong_port(cluster):
    """a port that the Service does not have is an error at once"""
    cluster.ready()
    told = cluster.command("enable", f"--service={SERVICE}:8443", f"--ca-file={cluster.ca}", POLICY_REPORTS, code=1).err
    assert "the Service kube-reports/kube-reports has no port 8443" in told


def test_external_name(cluster):
    """a Service of type ExternalName has no endpoints: the command connects to its name, as kube-apiserver does"""
    port = cluster.stack.first.port
    cluster.aggregation.service(type="ExternalName", externalName="localhost", ports=[])
    cluster.command("enable", f"--service={SERVICE}:{port}", f"--ca-file={cluster.ca}", POLICY_REPORTS)
    assert cluster.spec(POLICY_REPORTS)["service"]["port"] == port


def test_conflicts(crds):
    """after a conflict the APIService is read again; when conflicts never end, the command gives up"""
    crds.server.trouble("/apiservices/", method="PATCH", code=409, times=2)
    crds.enable(POLICY_REPORTS)
    crds.leads_here(POLICY_REPORTS)
    assert len(crds.server.asked("/apiservices/", "PATCH")) == 3
    crds.disable(POLICY_REPORTS)
    crds.server.trouble("/apiservices/", method="PATCH", code=409)
    assert "another client keeps changing it" in crds.enable(POLICY_REPORTS, code=1)


def test_foreign_service(cluster):
    """an APIService of another Service is not changed, unless --replace names that Service"""
    cluster.ready()
    cluster.server.register(POLICY_REPORTS, insecureSkipTLSVerify=True,
                            service={"namespace": "other", "name": "reports-server", "port": 443})
    before = cluster.spec(POLICY_REPORTS)
    told = cluster.enable(OPEN_REPORTS, POLICY_REPORTS, code=1)
    assert "v1alpha2.wgpolicyk8s.io leads to the Service other/reports-server" in told
    assert "--replace=other/reports-server takes it over" in told
    assert "leads to the Service other/reports-server and does not change" in cluster.disable(POLICY_REPORTS)
    assert cluster.spec(POLICY_REPORTS) == before and cluster.writes() == []
    cluster.enable(OPEN_REPORTS, POLICY_REPORTS, "--replace=other/reports-server")
    cluster.leads_here(POLICY_REPORTS)


def test_wrong_ca(crds, tmp_path):
    """a CA that did not sign the server's certificate, or a file without a CA, is refused before anything is changed"""
    stack_command("certificates", tmp_path / "other")
    told = crds.enable(POLICY_REPORTS, ca=tmp_path / "other" / "ca.crt", code=1)
    assert "the certificate of the server cannot be verified by" in told and "nothing was changed" in told
    (tmp_path / "empty").write_text("")
    (tmp_path / "rubbish").write_text("-----BEGIN CERTIFICATE-----\nrubbish\n-----END CERTIFICATE-----\n")
    for name in ("empty", "rubbish"):
        assert f"--ca-file: {tmp_path}/{name}" in crds.enable(POLICY_REPORTS, ca=tmp_path / name, code=1)
    assert crds.writes() == []


def test_wrong_name(cluster):
    """a certificate without the name of the Service, which kube-apiserver verifies, is refused"""
    cluster.aggregation.service(name="elsewhere")
    cluster.aggregation.endpoints(cluster.stack.first.port, name="elsewhere")
    told = cluster.enable("--service=kube-reports/elsewhere", POLICY_REPORTS, code=1)
    assert "the certificate of the server cannot be verified by" in told and "elsewhere.kube-reports.svc" in told
    assert cluster.writes() == []


def test_unregistered_crd(crds):
    """a CRD that the server does not serve would be lost: refused; other groups and versions do not count"""
    crds.aggregation.add_crd(POLICY_REPORTS, "auditreports")
    told = crds.enable(POLICY_REPORTS, code=1)
    assert "error: the cluster has the CRD auditreports.wgpolicyk8s.io, which is not registered" in told
    assert crds.writes() == []
    crds.aggregation.add_crd(POLICY_REPORTS, "auditreports", served=False)
    crds.aggregation.add_crd("policy.wgpolicyk8s.io/v1alpha2", "auditreports")
    crds.enable(POLICY_REPORTS)
    crds.leads_here(POLICY_REPORTS)


def test_unserved_group(cluster):
    """a group that the server does not serve at all is refused"""
    cluster.ready()
    told = cluster.enable("example.org/v1", code=1)
    assert f"example.org/v1 is not served by {SERVICE}: register its CRDs with kube_reports.register_crd()" in told


def test_many_crds(crds):
    """the list of CRDs is read in pages"""
    crds.server.page_size = 3
    for number in range(10):
        crds.aggregation.add_crd("example.org/v1", f"things{number}")
    crds.aggregation.add_crd(POLICY_REPORTS, "zreports")
    assert "zreports.wgpolicyk8s.io" in crds.enable(POLICY_REPORTS, code=1)


def test_not_available(crds):
    """an APIService that does not become available is restored or deleted: it would block deletions of namespaces"""
    def fail(_):
        return "False", "FailedDiscoveryCheck", "a firewall"
    crds.aggregation.check = fail
    told = crds.enable(POLICY_REPORTS, OPEN_REPORTS, "--timeout=2s", code=1)
    assert "v1alpha2.wgpolicyk8s.io: waiting until it is available (FailedDiscoveryCheck: a firewall)" in told
    assert "error: v1alpha2.wgpolicyk8s.io: not available after 2 s" in told
    for group_version in (POLICY_REPORTS, OPEN_REPORTS):
        assert f"{name_of(group_version)}: restored" in told
    until(lambda: crds.local(POLICY_REPORTS), 20, "the CRDs")
    assert crds.aggregation.document(OPEN_REPORTS) is None
    # An APIService that led to this Service before is kept: the servers may be restarting.
    del crds.aggregation.check
    crds.enable(POLICY_REPORTS)
    crds.aggregation.check = fail
    crds.ready()
    until(lambda: crds.condition(POLICY_REPORTS)["status"] == "False", 20, "a look")
    told = crds.enable(POLICY_REPORTS, "--version-priority=7", "--timeout=2s", code=1)
    assert f"leads to {SERVICE} as before" in told
    assert crds.spec(POLICY_REPORTS)["service"]["name"] == "kube-reports"


def test_stopped(crds):
    """SIGTERM, for example at the deadline of a Job, ends the wait: taken APIServices are given back"""
    crds.aggregation.check = lambda _: ("False", "FailedDiscoveryCheck", "a firewall")
    with subprocess.Popen(crds.arguments("enable", f"--service={SERVICE}", f"--ca-file={crds.ca}", POLICY_REPORTS),
                          stderr=subprocess.PIPE, text=True) as process:
        while "waiting until it is available" not in process.stderr.readline():
            assert process.poll() is None
        process.terminate()
        assert process.wait(30) == 1
        told = process.stderr.read()
    assert "waiting was interrupted" in told and ": restored" in told
    until(lambda: crds.local(POLICY_REPORTS), 20, "the CRDs")


def test_forbidden(crds):
    """for 403 the command prints kube-apiserver's message and the page of the rights; changes are undone"""
    crds.server.trouble("/apiservices$", method="POST", code=403)
    told = crds.enable(POLICY_REPORTS, OPEN_REPORTS, code=1)
    assert "status 403: trouble of the test; docs/security.md says which rights this command needs" in told
    until(lambda: crds.local(POLICY_REPORTS), 20, "the CRDs")
    crds.server.calm()
    for path in ("/services/", "/endpointslices", "/customresourcedefinitions", "/apiservices/"):
        crds.server.trouble(path, method="GET", code=403)
        told = crds.enable(POLICY_REPORTS, code=1)
        assert "403" in told and "nothing was changed" in told
        crds.server.calm()


def test_tries_again(crds):
    """requests are repeated after 429, 503 with Retry-After, and broken connections while nothing is changed"""
    crds.server.trouble("/apiservices/", method="PATCH", code=429, retry_after=1, times=1)
    crds.server.trouble("/services/", code=503, retry_after=1, times=1)
    crds.server.trouble("/endpointslices", drop=True, times=1)
    crds.server.trouble("/customresourcedefinitions", code=500, times=1)
    crds.enable(POLICY_REPORTS)
    crds.leads_here(POLICY_REPORTS)


def test_newer_bundle(crds):
    """a caBundle that is newer than the file is kept, as the server itself keeps it"""
    crds.enable(POLICY_REPORTS)
    newer = crds.directory / "newer"
    until(lambda: os.stat(stack_command("certificates", newer) or newer / "ca.crt"), 20, "a CA")
    document = crds.aggregation.document(POLICY_REPORTS)
    document["spec"]["caBundle"] = base64.b64encode((read(newer / "ca.crt") + read(crds.ca)).encode()).decode()
    crds.server.put(API_SERVICES, document)
    assert "its caBundle is newer" in crds.enable(POLICY_REPORTS)
    assert crds.spec(POLICY_REPORTS) == document["spec"]


def test_by_token(cluster, delegate):
    """a token that kube-apiserver knows is enough; when the server accepts only certificates, --database is needed"""
    cluster.server.token_rule = lambda spec: {"authenticated": spec["token"] == "good", "user": {"username": "x"}}
    cluster.server.access_rule = lambda spec: {
        "allowed": spec.get("nonResourceAttributes", {}).get("path", "").startswith("/apis/")}
    kubeconfig = cluster.server.kubeconfig(f"{cluster.directory}/token", token="good")
    cluster.aggregation.service()
    cluster.aggregation.endpoints(delegate().proxy.port)
    cluster.enable(POLICY_REPORTS, kubeconfig=kubeconfig)
    cluster.leads_here(POLICY_REPORTS)
    cluster.disable(POLICY_REPORTS)

    cluster.aggregation.endpoints(delegate(flags=["--require-client-cert"]).proxy.port)
    told = cluster.enable(POLICY_REPORTS, kubeconfig=kubeconfig, code=1)
    assert "the server does not tell which types it serves" in told and "give --database" in told
    database = f"--database={cluster.stack.database.connection('kube_reports_proxy')}"
    identity = f"--cluster-id={cluster.stack.cluster}"
    cluster.enable(POLICY_REPORTS, database, identity, kubeconfig=kubeconfig)
    cluster.leads_here(POLICY_REPORTS)
    told = cluster.enable("example.org/v1", database, identity, kubeconfig=kubeconfig, code=1)
    assert "example.org/v1 is not served" in told
    # The CA and the database are still checked.
    stack_command("certificates", cluster.directory / "other")
    told = cluster.enable(POLICY_REPORTS, database, identity, ca=cluster.directory / "other" / "ca.crt",
                          kubeconfig=kubeconfig, code=1)
    assert "cannot be verified by" in told
    told = cluster.enable(POLICY_REPORTS, "--database=host=/nowhere", identity, kubeconfig=kubeconfig, code=1)
    assert "the database does not tell which types are served: connection to server" in told


def test_connect_to(crds):
    """--connect-to replaces endpoints that cannot be reached from this machine"""
    crds.aggregation.endpoints(crds.stack.first.port, address="localhost")
    crds.enable(POLICY_REPORTS, f"--connect-to=127.0.0.1:{crds.stack.first.port}", f"--service={SERVICE}")
    told = crds.enable(POLICY_REPORTS, f"--connect-to=127.0.0.1:{free_port()}", code=1)
    assert "the server does not tell which types it serves" in told
    # An empty value counts as no flag.
    for wrong in filter(None, WRONG_ADDRESSES):
        assert "must be HOST:PORT" in crds.enable(POLICY_REPORTS, f"--connect-to={wrong}", code=2)


# --- disable ---

def test_back_to_the_crds(crds):
    """disable gives an APIService back to kube-apiserver, which manages it again; a second run does nothing"""
    crds.enable(POLICY_REPORTS, "--group-priority-minimum=1500")
    uid = crds.aggregation.document(POLICY_REPORTS)["metadata"]["uid"]
    told = crds.disable(POLICY_REPORTS)
    # kube-apiserver asks the Service of an APIService as long as the APIService exists.
    assert crds.aggregation.document(POLICY_REPORTS)["metadata"]["uid"] != uid
    assert "v1alpha2.wgpolicyk8s.io: given back to kube-apiserver, which has 2 CRDs of the group" in told
    assert crds.local(POLICY_REPORTS)
    assert crds.aggregation.document(POLICY_REPORTS)["status"]["conditions"][0]["reason"] == "Local"
    before = len(crds.writes())
    assert "kube-apiserver serves it already" in crds.disable(POLICY_REPORTS)
    assert len(crds.writes()) == before
    # Enable and disable once more.
    crds.enable(POLICY_REPORTS)
    crds.leads_here(POLICY_REPORTS)


def test_delete(cluster):
    """disable deletes an APIService without CRDs"""
    cluster.ready()
    cluster.enable(OPEN_REPORTS)
    assert "v1alpha1.openreports.io: deleted, because the group has no CRD" in cluster.disable(OPEN_REPORTS)
    assert cluster.aggregation.document(OPEN_REPORTS) is None
    assert "there is no such APIService" in cluster.disable(OPEN_REPORTS)


def test_all(crds):
    """--all means every APIService of the Service, and no other"""
    crds.enable(POLICY_REPORTS, OPEN_REPORTS)
    crds.server.register("example.org/v1", service={"namespace": "other", "name": "kube-reports", "port": 443})
    crds.disable("--all")
    assert crds.local(POLICY_REPORTS) and crds.aggregation.document(OPEN_REPORTS) is None
    assert crds.spec("example.org/v1")["service"]["namespace"] == "other"
    assert "no APIService leads to kube-reports/kube-reports" in crds.disable("--all")


def test_disable_forbidden(crds):
    """disable prints which APIService it may not change, and continues with the others"""
    crds.enable(POLICY_REPORTS, OPEN_REPORTS)
    crds.server.trouble("/apiservices/v1alpha2", method="DELETE", code=403)
    told = crds.disable("--all", code=1)
    assert "403" in told and "v1alpha1.openreports.io: deleted" in told
    crds.leads_here(POLICY_REPORTS)


def test_kube_apiserver_is_slow(crds):
    """disable prints why it waits"""
    crds.enable(POLICY_REPORTS)
    crds.aggregation.paused = True
    told = crds.disable(POLICY_REPORTS, "--timeout=1s", code=1)
    assert "waiting until it is available (it does not exist)" in told
    assert "not available after 1 s" in told
    assert "error" not in crds.disable(POLICY_REPORTS, "--wait=false")


# --- the page ---

def test_commands_of_the_page(crds, tmp_path):
    """docs/howto.md: each command of the page, unchanged"""
    commands, _ = section("Take an API group over from its CRDs by hand")
    for name, source in (("ca.crt", crds.ca), ("admin.conf", crds.kubeconfig)):
        (tmp_path / name).write_text(read(source))
    environment = {"PATH": f"{os.path.dirname(crds.binary)}:{os.environ['PATH']}"}
    done = [run(["/bin/sh", "-c", command], cwd=tmp_path, env=environment) for command in commands]
    assert "v1alpha2.wgpolicyk8s.io: available" in done[0].err
    assert len(done[1].out.splitlines()) == 3
    assert crds.local(POLICY_REPORTS) and crds.aggregation.document(OPEN_REPORTS) is None


def test_rights_of_the_page(crds):
    """docs/security.md: the command needs exactly the rights of the page"""
    crds.enable(POLICY_REPORTS, OPEN_REPORTS)
    crds.disable("--all")
    crds.command("status")
    text = (TOP / "docs" / "security.md").read_text().split("kube-reports-takeover")[0]
    page = (TOP / "docs" / "security.md").read_text()[text.rindex("```yaml"):]
    rules = [rule for document in yaml.safe_load_all(page.split("```")[1].removeprefix("yaml"))
             for rule in document["rules"]]
    verbs = {"GET": "get", "POST": "create", "PATCH": "patch", "DELETE": "delete"}
    asked = set()
    for entry in crds.server.requests:
        path = entry.path.partition("?")[0]
        found = re.fullmatch(r"/apis?/(?:([^/]+\.[^/]+)/)?v1/(?:namespaces/[^/]+/)?([^/]+)(/[^/]+)?", path)
        asked.add((found[1] or "", found[2], "list" if entry.method == "GET" and not found[3] else verbs[entry.method]))
    given = {(group, resource, verb) for rule in rules for group in rule["apiGroups"]
             for resource in rule["resources"] for verb in rule["verbs"]}
    assert asked == given - {("", "namespaces", "get")}


# --- status, and errors ---

def test_status(crds):
    """status prints a table of APIServices and their Services"""
    crds.enable(OPEN_REPORTS)
    crds.server.register("example.org/v1", service={"namespace": "other", "name": "server", "port": 8443})
    until(lambda: crds.aggregation.document("example.org/v1").get("status"), 20, "a look")
    shown = crds.command("status").out.splitlines()
    assert shown[0].split() == ["APISERVICE", "SERVED", "BY", "AVAILABLE", "REASON", "CRDS"]
    assert [line.split() for line in shown[1:]] == [
        ["v1.example.org", "other/server:8443", "False", "ServiceNotFound", "0"],
        ["v1alpha1.openreports.io", "kube-reports/kube-reports:443", "True", "Passed", "0"]]
    shown = crds.command("status", POLICY_REPORTS, "none.example/v1").out.splitlines()
    assert [line.split() for line in shown[1:]] == [
        ["v1alpha2.wgpolicyk8s.io", "kube-apiserver", "True", "Local", "2"],
        ["v1.none.example", "<none>", "<none>", "<none>", "0"]]
    assert len(crds.command("status", f"--service={SERVICE}").out.splitlines()) == 2


@pytest.mark.parametrize("words, error", [
    (["enable"], "--service: is required"),
    (["enable", f"--service={SERVICE}", "--ca-file=/dev/null"], "name at least one GROUP/VERSION"),
    (["enable", f"--service={SERVICE}", POLICY_REPORTS], "--ca-file: is required"),
    (["enable", f"--service={SERVICE}", "--ca-file=/none", POLICY_REPORTS], '"/none" for --ca-file: No such file'),
    (["enable", "--service=kube-reports", POLICY_REPORTS], "must be NAMESPACE/NAME"),
    (["enable", f"--service={SERVICE}:0", POLICY_REPORTS], "the port must be between"),
    (["enable", f"--service={SERVICE}:x", POLICY_REPORTS], "the port must be between"),
    (["enable", "--service=a/b/../c", POLICY_REPORTS], "must be NAMESPACE/NAME"),
    (["enable", f"--service={SERVICE}", "wgpolicyk8s.io"], 'invalid argument "wgpolicyk8s.io": must be GROUP/VERSION'),
    (["enable", f"--service={SERVICE}", "../v1"], "must be GROUP/VERSION"),
    (["enable", f"--service={SERVICE}", "a/v1/b"], "must be GROUP/VERSION"),
    (["enable", f"--service={SERVICE}", "a?b/v1"], "must be GROUP/VERSION"),
    (["enable", "--version-priority=1001"], "must be between 1 and 1000"),
    (["enable", "--insecure-skip-tls-verify"], "unknown flag: --insecure-skip-tls-verify"),
    (["disable", f"--service={SERVICE}", "--all", POLICY_REPORTS], "excludes GROUP/VERSION"),
    (["disable", f"--service={SERVICE}"], "name at least one GROUP/VERSION"),
    (["mend"], 'unknown command "mend"'),
    ([], "")])
def test_wrong_arguments(stack, words, error):
    """a wrong command line is an error with code 2, and no server is asked"""
    done = run([f"{stack.database.directory}/dest/usr/bin/kube-reports-proxy", "apiservice", *words], check=False)
    assert done.code == 2 and error in done.err, done


def test_help(stack):
    """the server's help names the commands; each has flags of its own"""
    binary = f"{stack.database.directory}/dest/usr/bin/kube-reports-proxy"
    assert re.search(r"^  apiservice +\S", run([binary, "--help"]).out, re.M)
    assert "--replace" in run([binary, "apiservice", "enable", "--help"]).out
    assert run([binary, "unknown"], check=False).code == 2


def test_no_kube_apiserver(stack, tmp_path):
    """the command prints an error without a kubeconfig outside of a pod, and with one whose server does not answer"""
    binary = f"{stack.database.directory}/dest/usr/bin/kube-reports-proxy"
    done = run([binary, "apiservice", "status"], check=False)
    assert done.code == 1 and "--kubeconfig" in done.err
    assert done.err.startswith("error: kube-apiserver cannot be reached: this process does not run in a pod")
    (tmp_path / "config").write_text("{}")
    done = run([binary, "apiservice", "status", f"--kubeconfig={tmp_path}/config"], check=False)
    assert done.code == 1 and "no current context" in done.err


@pytest.mark.parametrize("text", [
    "", "null", "[]", "7", '"x"', "{", "[" * 5000, '{"metadata":' * 3000, '{"items":{}}',
    '{"items":[null,1,[],{"metadata":7}]}',
    '{"metadata":{"name":"x","resourceVersion":"1"},"spec":{"service":[]},"status":{"conditions":[null,{"type":1}]}}',
    '{"metadata":{"name":"x","resourceVersion":"1","labels":[]},'
    '"spec":{"service":{"port":-1,"name":{}},"caBundle":"*"}}',
    '{"spec":{"ports":[{"port":443}],"versions":[{}]},'
    '"items":[{"ports":[{"port":"x"}],"endpoints":[{"addresses":[]},7]}]}'])
def test_strange_answers(crds, text):
    """with any answers of kube-apiserver, the command ends with an error, not with a crash"""
    for path in ("/apiservices", "/services/", "/endpointslices", "/customresourcedefinitions"):
        crds.server.calm()
        crds.server.trouble(path, code=200, text=text, method="GET")
        for action, flags in (("enable", [f"--service={SERVICE}", f"--ca-file={crds.ca}", "--timeout=1s"]),
                              ("disable", [f"--service={SERVICE}", "--timeout=1s"]), ("status", [])):
            done = run(crds.arguments(action, *flags, POLICY_REPORTS), check=False, timeout=60)
            assert done.code in (0, 1), done


@pytest.mark.parametrize("text", ["{}", "[]", '{"items":{}}', '{"kind":"Status","status":"Success"}'])
def test_no_list(crds, text):
    """an answer that is not a list of CRDs or APIServices does not mean that there are no objects"""
    crds.enable(POLICY_REPORTS)
    writes = len(crds.writes())
    crds.server.trouble("/customresourcedefinitions[?]", code=200, text=text, method="GET")
    assert "no list" in crds.disable(POLICY_REPORTS, code=1)
    assert "nothing was changed" in crds.enable(POLICY_REPORTS, code=1)
    crds.server.calm()
    crds.server.trouble("/apiservices$", code=200, text=text, method="GET")
    assert "no list" in crds.disable("--all", code=1)
    crds.server.calm()
    assert len(crds.writes()) == writes
    crds.leads_here(POLICY_REPORTS)
    crds.disable(POLICY_REPORTS)


def test_large_answers(crds):
    """an answer above its limit ends the command, and is not kept in memory"""
    crds.server.trouble("/services/", code=200, text=" " * (5 * 1024 * 1024))
    told = crds.enable(POLICY_REPORTS, code=1)
    assert "the answer is too large" in told


def test_hanging_server(crds):
    """when a server does not answer within the time limit, the command ends"""
    crds.server.trouble("/apiservices/", method="PATCH", hold=threading.Event())
    told = crds.enable(POLICY_REPORTS, code=1)
    assert "timed out" in told.lower()
    crds.server.calm()
