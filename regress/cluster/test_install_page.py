"""
docs/install.md and docs/forwarding.md, and what docs/operations.md asks kubectl: each command as it stands there, with
both versions of helm, on a cluster that has the CRDs and a report in etcd.
"""

import base64
import json
import os
import re
import shlex
import shutil
import subprocess
import uuid

import pytest

from client import POLR, path_of, until
from conftest import HTTP, TOP
from control_plane import GROUP_VERSIONS, NAMESPACE
from page_shell import Shell, blocks
from release import HELMS, NEEDS_NETWORK, releases

pytestmark = NEEDS_NETWORK

NAME = "kube-reports"
DATABASE_HOST = "db.example.org"


@pytest.fixture(scope="module", params=list(HELMS))
def release(request):
    yield from releases(request.param, prepared=False, hosts=(DATABASE_HOST, "receiver.example.com"))


@pytest.fixture
def shell(release, tmp_path):
    """A shell, and a cluster without the chart; after the test the release and its namespace are gone."""
    one = Shell(release, tmp_path)
    yield one
    # Remove what the test has left, also when it failed.
    release.run("uninstall", NAME, "--wait", "--ignore-not-found")
    release.plane.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=false")
    until(lambda: release.api.get(f"/api/v1/namespaces/{NAMESPACE}").code == 404, 240, "the end of the namespace")


def installed(release):
    """Checks that the groups lead to the release, that old reports are hidden, and that a new one is stored."""
    for group_version in GROUP_VERSIONS:
        spec = release.api_service(group_version)["spec"]
        assert spec["service"]["name"] == NAME and spec["caBundle"] and not spec.get("insecureSkipTLSVerify")
    release.plane.wait_available()
    until(lambda: release.names() == [], 30, "lists of the proxies")
    assert release.create("one") == 201
    until(lambda: release.names() == ["one"], 30, "the report")


def asks(shell, begin):
    """Runs the one command in the sentences of docs/operations.md that begins with a text; returns its output."""
    page = (TOP / "docs" / "operations.md").read_text(encoding="utf-8")
    (found,) = set(re.findall(rf"`({re.escape(begin)}[^`\n]*)`", page))
    return shell.run(found)


def given_back(release):
    for group_version in GROUP_VERSIONS:
        found = release.api_service(group_version)
        assert found is None or not found["spec"].get("service"), group_version
    until(lambda: release.names() == ["in-etcd"], 60, "lists of etcd")


def test_five_minutes(release, shell):
    """The first block of the page: a bundled database, whose volume outlives an upgrade and an uninstall"""
    (block,) = blocks("install.md", "Five minutes")
    told = shell.run(block)
    assert told.count(f"{NAMESPACE}/{NAME} ") == len(GROUP_VERSIONS), told
    installed(release)
    upgrade, *_ = blocks("install.md", "Upgrade")
    shell.run(upgrade)
    until(lambda: release.names() == ["one"], 30, "the report after the upgrade")
    (uninstall,) = blocks("install.md", "Uninstall")
    shell.run(uninstall)
    given_back(release)
    until(lambda: not release.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods").json["items"], 120, "the end of the pods")
    shell.run(block)
    until(lambda: release.names() == ["one"], 60, "the report of the installation before")
    shell.run(uninstall)
    (claim,) = re.findall(r"`(kubectl -n kube-reports delete pvc [^`]*)`",
                          (TOP / "docs" / "install.md").read_text(encoding="utf-8"))
    shell.run(claim.replace("delete", "get"))
    shell.run(claim)


@pytest.fixture
def database(release, shell):
    """The database of the page: TLS with that name, an owner that may make roles; ca.crt where the page has it."""
    pki = release.cluster.stack.pki
    HTTP.stack_command("certificate", pki, "database", "/CN=database", "serverAuth", f"DNS:{DATABASE_HOST}")
    for suffix in ("crt", "key"):
        subprocess.run(["chown", "postgres", f"{pki}/database.{suffix}"], check=True)
    server = release.database
    server.psql(f"ALTER SYSTEM SET ssl_cert_file = '{pki}/database.crt'", user="postgres", database="postgres")
    server.psql(f"ALTER SYSTEM SET ssl_key_file = '{pki}/database.key'", user="postgres", database="postgres")
    server.psql("ALTER SYSTEM SET ssl = on", user="postgres", database="postgres")
    server.psql("SELECT pg_reload_conf()", user="postgres", database="postgres")
    if server.psql("SELECT count(*) FROM pg_roles WHERE rolname = 'reports_owner'", user="postgres",
                   database="postgres") == "0":
        server.psql("ALTER DATABASE reports RENAME TO reports_of_others", user="postgres", database="postgres")
    else:
        # The database of the test before.
        server.psql("DROP DATABASE reports WITH (FORCE)", user="postgres", database="postgres")
        server.psql("DROP ROLE reports_owner", user="postgres", database="postgres")
    server.psql("CREATE ROLE reports_owner LOGIN CREATEROLE PASSWORD '...'", user="postgres", database="postgres")
    server.psql("CREATE DATABASE reports OWNER reports_owner", user="postgres", database="postgres")
    (shell.directory / "ca.crt").symlink_to(f"{pki}/ca.crt")
    return server


def test_a_database_of_your_own(release, shell, database):
    """The blocks about an external database; the last one runs by hand, as the owner"""
    install, setup = blocks("install.md", "A database of your own")
    shell.run(install)
    installed(release)
    assert database.psql("SELECT extowner::regrole FROM pg_extension WHERE extname = 'kube_reports'",
                         user="postgres", database="reports") == "reports_owner"
    assert database.psql("SELECT bool_and(s.ssl) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) "
                         "WHERE a.usename = 'kube_reports_proxy'", user="postgres", database="reports") == "t"
    shell.run(setup, PGHOST=database.directory, PGUSER="reports_owner")
    until(lambda: release.names() == ["one"], 30, "the report")


def of_page(pattern):
    """Returns the one place of docs/install.md that matches."""
    (found,) = re.findall(pattern, (TOP / "docs" / "install.md").read_text(encoding="utf-8"), re.M | re.S)
    return found


def test_to_another_database(release, shell, database):
    """From the bundled database to an external one, with the commands of the page: reports and versions move"""
    (first,) = blocks("install.md", "Five minutes")
    shell.run(first)
    installed(release)
    version = release.api.get(path_of(POLR, "default")).json["metadata"]["resourceVersion"]
    stop, dump, move = of_page(r"^### To another database$.*?^```\n(.*?)^```$.*?^```\n(.*?)^```$.*?^```\n(.*?)^```$")
    own, _ = blocks("install.md", "A database of your own")
    secrets = own.partition("helm install")[0]
    shell.run("\n".join(line for line in secrets.splitlines() if "create namespace" not in line))
    refused = subprocess.run(["bash", "-c", move.replace("--set database.leaveExisting=true", "")],
                             capture_output=True, text=True, timeout=120, check=False, cwd=shell.directory,
                             env=shell.environment)
    assert refused.returncode != 0 and "database.leaveExisting=true" in refused.stderr, refused.stderr
    shell.run(stop)
    assert not [pod for pod in release.ready() if "database" not in pod]
    assert release.api.get(path_of(POLR, "default")).code == 503
    # kube-apiserver notices the end of the Service's endpoints some time later.
    until(lambda: not any(release.plane.available(name) for name in GROUP_VERSIONS), 60, "unavailable APIServices")
    assert asks(shell, "kubectl get apiservices").count(f"{NAMESPACE}/{NAME} ") == len(GROUP_VERSIONS)
    assert [line.split()[0] for line in asks(shell, "kubectl -n kube-reports get pods").splitlines()
            if "Running" in line] == [f"{NAME}-database-0"]
    assert f"deployment/{NAME}" in asks(shell, "kubectl events").lower()
    shell.enters(f"{NAME}-database-0", "postgresql")
    shell.run(dump, PGHOST=database.directory, PGUSER="reports_owner")
    shell.run(move)
    for group_version in GROUP_VERSIONS:
        assert release.api_service(group_version)["spec"]["service"]["name"] == NAME
    release.plane.wait_available(seconds=120)
    until(lambda: release.names() == ["one"], 60, "the report in the new database")
    assert int(release.api.get(path_of(POLR, "default")).json["metadata"]["resourceVersion"]) > int(version)
    assert release.create("two") == 201
    assert database.psql("SELECT string_agg(name, ',' ORDER BY name) FROM kube_reports.stored_report",
                         user="postgres", database="reports") == "one,two"
    shell.run(of_page(r"`(kubectl -n kube-reports delete pvc [^`]*)`"))


def test_manifest(release, shell):
    """Without Helm: the chart as one file, which the commands of the page apply and delete"""
    page = (TOP / "docs" / "install.md").read_text(encoding="utf-8")
    (apply,) = re.findall(r"`(kubectl apply --server-side [^`]*install\.yaml)`", page)
    (delete,) = re.findall(r"`(kubectl delete -f install\.yaml)`", page)
    shell.run(f"make -s -C {TOP} install-manifest HELM={release.helm} OUTPUT={shell.directory}/install.yaml")
    shell.run(apply)
    release.plane.wait_available(seconds=180)
    installed(release)
    shell.run(f"{delete} --wait=false")
    until(lambda: release.names() == ["in-etcd"], 120, "lists of etcd")


def test_receiver(release, shell):
    """docs/forwarding.md: a release that receives what senders of other clusters forward"""
    (block,) = [block for block in blocks("forwarding.md", "The receiver") if block.startswith("helm")]
    # There is no cert-manager here, and no load balancer, for which --wait would wait.
    shell.run(block.replace(" --set certificate.source=cert-manager", ""))
    pod = until(lambda: next((name for name in release.ready() if name.startswith(f"{NAME}-database")), None), 120,
                "the database")
    release.plane.wait_available()
    token = release.node.pod(pod).inside("postgresql", [
        "psql", "-X", "-A", "-t", "-q", "-d", "kube_reports", "-c", "SET ROLE kube_reports_owner", "-c",
        f"SELECT kube_reports.add_sender('{uuid.uuid4()}', 'east', cluster_name => 'east')"]).stdout
    secret = release.api.get(f"/api/v1/namespaces/{NAMESPACE}/secrets/{NAME}-tls").json["data"]["ca.crt"]
    (shell.directory / "ca.crt").write_bytes(base64.b64decode(secret))
    (shell.directory / "east.token").write_text(token, encoding="ascii")
    text = (TOP / "docs" / "forwarding.md").read_text(encoding="utf-8")
    (shell.directory / "scan.json").write_text(
        next(one for one in re.findall(r"^```json\n(.*?)^```$", text, re.M | re.S) if '"seq": 1, "last"' in one),
        encoding="utf-8")
    address = release.api.get(f"/api/v1/namespaces/{NAMESPACE}/services/{NAME}-receiver").json["spec"]["clusterIP"]
    (request,) = re.findall(r"^\$ (curl .*?)\n\{", text, re.M | re.S)
    # Use the name in the certificate, as senders reach the load balancer.
    request = request.replace("https://127.0.0.1:", f"--resolve receiver.example.com:6444:{address} "
                              "https://receiver.example.com:")
    # Workers answer 401 until they know the sender, and 503 until they know the database.
    answer = until(lambda: (got := json.loads(shell.run(request))).get("accepted") and got, 60, "an answer")
    assert answer["accepted"] == 2 and answer["changed"] == 1, answer


def pods_of(release, part):
    """Returns the names of the ready pods of a part of the release."""
    return [name for name in release.ready() if name.startswith(f"{NAME}-{part}-")]


def serves_senders(release, shell, part):
    """Waits until the release and its part are ready; prepares psql and ca.crt; returns the Service's address."""
    release.plane.wait_available(seconds=180)
    until(lambda: pods_of(release, part), 120, f"a pod of {part}")
    shell.enters_database(pods_of(release, "database")[0])
    secret = release.api.get(f"/api/v1/namespaces/{NAMESPACE}/secrets/{NAME}-tls").json["data"]["ca.crt"]
    (shell.directory / "ca.crt").write_bytes(base64.b64decode(secret))
    return release.api.get(f"/api/v1/namespaces/{NAMESPACE}/services/{NAME}-{part}").json["spec"]["clusterIP"]


def test_evidence(release, shell):
    """docs/evidence.md: a release with the server for files; its volume outlives the pod and the release"""
    (block,) = [block for block in blocks("evidence.md", "Start") if "evidence.volume.size" in block]
    shell.run(block)
    address = serves_senders(release, shell, "evidence")
    (shell.directory / "arf.xml").write_text("<arf/>" * 5000, encoding="ascii")

    def by_the_page(text):
        """Runs commands with the name in the certificate, as senders reach the load balancer."""
        return shell.run(re.sub(r"^\$ ", "", text, flags=re.M).replace(
            "https://127.0.0.1:", f"--resolve evidence.example.com:8443:{address} https://evidence.example.com:"))
    send, = blocks("evidence.md", "Send a file")
    download = blocks("evidence.md", "Download")[0]
    stored = json.loads(by_the_page(send))
    assert (stored["scan"], stored["name"], stored["bytes"]) == ("ocp4-cis", "master-0-pod", 30000), stored
    assert shell.run("psql -A -t -c 'SELECT cluster_name, bytes FROM kube_reports.evidence'") == "west|30000\n"
    (before,) = pods_of(release, "evidence")
    told = asks(shell, "kubectl -n kube-reports get pod,pvc -l app.kubernetes.io/component=evidence")
    assert f"pod/{before} " in told and f"persistentvolumeclaim/{NAME}-evidence " in told
    assert by_the_page(download).split()[0] == stored["sha256"]
    release.plane.kubectl("delete", "pod", f"-n{NAMESPACE}", before, "--wait=false")
    until(lambda: (pods := pods_of(release, "evidence")) and before not in pods, 120, "the next pod")
    assert by_the_page(download).split()[0] == stored["sha256"]
    (uninstall,) = blocks("install.md", "Uninstall")
    shell.run(uninstall)
    shell.run(f"kubectl -n {NAMESPACE} get pvc {NAME}-evidence")


def test_grpc(release, shell):
    """docs/forwarding.md: a release with the gRPC port, and the sender of the page"""
    (block,) = [block for block in blocks("forwarding.md", "gRPC") if "helm install" in block]
    shell.run(re.sub(r"cluster\.id=[0-9a-f-]+", f"cluster.id={release.plane.uid()}", block))
    address = serves_senders(release, shell, "grpc")
    until(lambda: len(pods_of(release, "grpc")) == 2, 120, "both pods")
    told = asks(shell, "kubectl -n kube-reports get pods -l app.kubernetes.io/component=grpc")
    assert sorted(line.split()[0] for line in told.splitlines()[1:]) == sorted(pods_of(release, "grpc"))
    page = (TOP / "docs" / "forwarding.md").read_text(encoding="utf-8").partition("\n## gRPC\n")[2]
    (script,) = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    (send,) = [block for block in blocks("forwarding.md", "gRPC") if "send.py" in block]
    (shell.directory / "docs").symlink_to(TOP / "docs")
    (shell.directory / "hosts").write_text(f"{address} grpc.example.com\n", encoding="ascii")
    (shell.directory / "send.py").write_text(script.replace("127.0.0.1", "grpc.example.com"), encoding="utf-8")
    # The name in the certificate leads to the load balancer.
    done = shell.run("unshare --mount --propagation private bash -euc "
                     + shlex.quote(f"mount --bind hosts /etc/hosts\n{send}"), GRPC_DNS_RESOLVER="native")
    promised = re.search(r"^It prints `(.*)` and `(.*)`\.$", page, flags=re.M)
    assert done == "\n".join((*promised.groups(), "")), done
    assert shell.run("psql -A -t -c \"SELECT rule, status FROM kube_reports.typed_result WHERE cluster_name = 'north' "
                     'ORDER BY rule"') == "ocp4-api-server-anonymous-auth|fail\nocp4-audit-logging|pass\n"


def test_sender(release, shell):
    """docs/forwarding.md: a release that only sends what this cluster's etcd has, to a receiver elsewhere"""
    stack = release.cluster.stack
    HTTP.stack_command("certificate", stack.pki, "receiver", "/CN=receiver", "serverAuth",
                       "DNS:receiver.example.com,IP:127.0.0.1,DNS:localhost")
    if os.getuid() == 0:
        for suffix in ("crt", "key"):
            shutil.chown(f"{stack.pki}/receiver.{suffix}", "postgres")
    hub = stack.database
    hub.psql("SELECT kube_reports.grant_ingest('kube_reports_proxy')")
    receiver = stack.proxy(flags=["--workers=1", "--forward-port=6444", f"--tls-cert-file={stack.pki}/receiver.crt",
                                  f"--tls-private-key-file={stack.pki}/receiver.key"])
    (shell.directory / "ca.crt").symlink_to(f"{stack.pki}/ca.crt")
    (shell.directory / "east.token").write_text(
        hub.psql(f"SELECT kube_reports.add_sender('{uuid.uuid4()}', 'east')") + "\n", encoding="ascii")
    (block,) = [block for block in blocks("forwarding.md", "Objects") if "helm install" in block]

    def received():
        return hub.psql("SELECT string_agg(s.namespace || '/' || s.name || ' ' || c.name, ',' ORDER BY s.name) "
                        "FROM kube_reports.stored_report s JOIN kube_reports.cluster c ON c.uid = s.cluster "
                        "WHERE c.name = 'east'")
    try:
        shell.run(block)
        until(lambda: received() == "default/in-etcd east", 120, "what etcd has")
        told = asks(shell, "kubectl -n kube-reports get pod,pvc -l app.kubernetes.io/component=sender")
        assert f"pod/{NAME}-sender-0 " in told and f"persistentvolumeclaim/queue-{NAME}-sender-0 " in told
        assert release.create("later") == 201
        until(lambda: received() == "default/in-etcd east,default/later east", 60, "a new report")
        # The pod is replaced; the next pod sends what happens meanwhile, from the same volume.
        release.plane.kubectl("delete", "pod", f"-n{NAMESPACE}", f"{NAME}-sender-0", "--wait=false")
        assert release.api.delete(path_of(POLR, "default", "later")).code == 200
        until(lambda: received() == "default/in-etcd east", 120, "the deletion")
    finally:
        release.api.delete(path_of(POLR, "default", "later"))
        receiver.stop()
        stack.proxies.remove(receiver)
