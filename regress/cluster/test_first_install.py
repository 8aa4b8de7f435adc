"""
First installations on bad days: the database comes late, its CA or its password is wrong, the proxies' certificate has
expired or is of another CA.  Meanwhile reports in etcd are served, and a correction completes the installation.
"""

import base64
import subprocess

import pytest

from client import run, until
from conftest import HTTP
from control_plane import GROUP_VERSIONS, NAMESPACE
from release import CHART, FULLNAME, NEEDS_NETWORK, RELEASE, releases

pytestmark = NEEDS_NETWORK

SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"


@pytest.fixture(scope="module")
def module_release():
    yield from releases("v3.22.0")


@pytest.fixture
def release(module_release):
    """A cluster without the chart; after the test the chart is uninstalled, and etcd serves its reports."""
    yield module_release
    module_release.run("uninstall", RELEASE, "--wait", "--ignore-not-found")
    untouched(module_release)


def untouched(release):
    """Checks that no group leads to the release, and that reports in etcd are served."""
    until(lambda: release.taken() == [] and release.names() == ["in-etcd"], 60, "lists of etcd")


def begin(release, **values):
    """Starts helm install, which goes on in the background."""
    return subprocess.Popen([release.helm, "install", RELEASE, str(CHART), "--wait", *release.values(**values),
                             "--namespace", NAMESPACE, "--kubeconfig", release.plane.kubeconfig, "--timeout=5m"],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def fails(release, told, **values):
    """Starts an installation that does not become ready, and waits until logs of pods have this text."""
    process = begin(release, **values)
    try:
        until(lambda: told in release.node.logs(), 120, f"{told!r} in the logs")
        untouched(release)
    finally:
        process.terminate()
        out = process.communicate(timeout=60)[0]
    assert process.returncode != 0, out


def succeeds(release, **values):
    """Completes the installation by an upgrade with the right values."""
    release.run("upgrade", RELEASE, str(CHART), "--install", "--wait", *release.values(**values))
    assert release.taken() == list(GROUP_VERSIONS)
    release.plane.wait_available()
    until(lambda: release.names() is not None and "in-etcd" not in release.names(), 60, "lists of the proxies")
    assert release.create("stored") in (201, 409)


def test_database_comes_late(release):
    """The set-up waits for a server that does not run yet; helm install succeeds when the server runs"""
    release.database.stop()
    process = begin(release)
    try:
        until(lambda: "waiting for the database" in release.node.logs(), 120, "the set-up to wait")
        untouched(release)
    finally:
        release.database.start("listen_addresses = '127.0.0.1'")
    out = process.communicate(timeout=400)[0]
    assert process.returncode == 0, out
    assert release.taken() == list(GROUP_VERSIONS)
    until(lambda: release.names() is not None and "in-etcd" not in release.names(), 60, "lists of the proxies")


def test_wrong_password(release):
    """The set-up's role has a wrong password; the Secret is corrected, and the set-up of the next upgrade uses it"""
    release.secret("setup", "setup", "not this one")
    fails(release, "password authentication failed")
    release.secret("setup", "setup", "of setup")
    succeeds(release)


def database_certificate(release):
    """Gives the database a certificate; returns the file of the CA."""
    pki = release.cluster.stack.pki
    HTTP.stack_command("certificate", pki, "database", "/CN=database", "serverAuth", "IP:127.0.0.1")
    run(["chown", "postgres", f"{pki}/database.crt", f"{pki}/database.key"])
    for setting, value in (("ssl_cert_file", f"{pki}/database.crt"), ("ssl_key_file", f"{pki}/database.key"),
                           ("ssl", "on")):
        release.database.psql(f"ALTER SYSTEM SET {setting} = '{value}'", user="postgres", database="postgres")
    release.database.psql("SELECT pg_reload_conf()", user="postgres", database="postgres")
    return f"{pki}/ca.crt"


def secret(release, name, **files):
    data = {}
    for key, path in files.items():
        with open(path, "rb") as file:
            data[key.replace("_", ".")] = base64.b64encode(file.read()).decode()
    release.plane.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE},
                         "data": data})


def test_wrong_ca_of_the_database(release, tmp_path):
    """Neither the set-up nor a proxy connects to a server with an unknown CA; uninstall leaves nothing"""
    right = database_certificate(release)
    HTTP.stack_command("certificates", tmp_path / "other")
    secret(release, "database-ca", ca_crt=tmp_path / "other" / "ca.crt")
    values = {"database.tls.secretName": "database-ca"}
    fails(release, "certificate verify failed", **values)
    release.run("uninstall", RELEASE, "--wait")
    until(lambda: release.plane.kubectl("get", "all,secret,configmap,networkpolicy", "-n", NAMESPACE, "-l",
                                        f"app.kubernetes.io/instance={RELEASE}", "-o", "name") == "", 60,
          "the end of all objects")
    fails(release, "certificate verify failed", **values)
    secret(release, "database-ca", ca_crt=right)
    succeeds(release, **values)


def certificate(directory, subject, *more):
    """Makes ca.crt, tls.crt and tls.key of a new CA; more: arguments of openssl x509."""
    directory.mkdir()
    for command in (
            ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=a CA", "-keyout", "ca.key",
             "-out", "ca.crt"],
            ["req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=proxies", "-keyout", "tls.key", "-out", "tls.csr",
             "-addext", f"subjectAltName=DNS:{subject}"],
            ["x509", "-req", "-in", "tls.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
             "-copy_extensions", "copy", "-out", "tls.crt", *more]):
        run(["openssl", *command], cwd=directory)
    return {"tls_crt": directory / "tls.crt", "tls_key": directory / "tls.key", "ca_crt": directory / "ca.crt"}


@pytest.mark.parametrize("wrong", ["expired", "another CA"])
def test_wrong_certificate_of_the_proxies(release, tmp_path, wrong):
    """The hook takes over no group whose proxies kube-apiserver could not verify, and says why"""
    name = f"{FULLNAME}.{NAMESPACE}.svc"
    right = certificate(tmp_path / "right", name, "-days", "2")
    bad = certificate(tmp_path / "bad", name, "-days", "-1") if wrong == "expired" else {
        **right, "ca_crt": certificate(tmp_path / "bad", name, "-days", "2")["ca_crt"]}
    secret(release, "own", **bad)
    values = {"certificate.source": "secret", "certificate.secretName": "own", "apiServices.timeout": "20s"}
    fails(release, "certificate of the server cannot be verified", **values)
    secret(release, "own", **right)
    succeeds(release, **values)
