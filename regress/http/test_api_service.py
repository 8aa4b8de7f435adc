"""The caBundle of the APIServices: which proxy writes a new CA (k8s-conformance section 4.3)."""

import base64
import os
import pathlib
import subprocess
import tempfile

import pytest

from client import run, until
from conftest import stack_command
from front_proxy import read
from test_authentication import place

OPEN_REPORTS = "openreports.io/v1alpha1"
POLICY_REPORTS = "wgpolicyk8s.io/v1alpha2"


@pytest.fixture
def cas(stack):
    """Directories, each with a CA and a serving certificate of it: one as old as the stack, and two newer ones."""
    directory = pathlib.Path(tempfile.mkdtemp(dir=stack.pki))
    os.chmod(directory, 0o755)
    made = [pathlib.Path(stack.pki)]
    for name in ("second", "third"):
        # The times in certificates are whole seconds.
        newest = os.stat(made[-1] / "ca.crt").st_mtime
        until(lambda after=newest: pathlib.Path(tempfile.mkstemp(dir=directory)[1]).stat().st_mtime > after + 1,
              10, "another second")
        stack_command("certificates", directory / name)
        made.append(directory / name)
    return made


def ca_from(directory, begins):
    """Makes a CA whose validity starts at the given second, and its certificates."""
    os.chmod(directory, 0o755)
    (directory / "index").touch()
    (directory / "ca.conf").write_text(f"""
        [ca]
        default_ca = own
        [own]
        new_certs_dir = {directory}
        database = {directory}/index
        rand_serial = yes
        default_md = sha256
        policy = any
        x509_extensions = extensions
        [any]
        commonName = supplied
        [extensions]
        basicConstraints = critical,CA:TRUE
        keyUsage = critical,keyCertSign,cRLSign
        subjectKeyIdentifier = hash
        """, encoding="ascii")
    run(["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
         "/CN=kube-reports local CA", "-keyout", directory / "ca.key", "-out", directory / "ca.csr"])
    run(["openssl", "ca", "-batch", "-selfsign", "-notext", "-startdate", begins, "-days", "3650", "-config",
         directory / "ca.conf", "-keyfile", directory / "ca.key", "-in", directory / "ca.csr", "-out",
         directory / "ca.crt"])
    stack_command("certificates", directory)
    return directory


def bundle(*directories):
    return base64.b64encode("".join(read(path / "ca.crt") for path in directories).encode()).decode()


class Looking:
    """A proxy that maintains the caBundle of its APIServices, with files of its own."""

    def __init__(self, stack, apiserver, own):
        self.directory = pathlib.Path(tempfile.mkdtemp(dir=stack.pki))
        os.chmod(self.directory, 0o755)
        self.install(own)
        kubeconfig = apiserver.kubeconfig(f"{self.directory}/kubeconfig", token="look")
        self.proxy = stack.proxy(flags=[
            f"--tls-cert-file={self.directory}/serving.crt",
                                        f"--tls-private-key-file={self.directory}/serving.key", "--workers=1",
            f"--apiservice-ca-file={self.directory}/ca.crt", f"--authentication-kubeconfig={kubeconfig}",
                                        "--authentication-skip-lookup", "--v=2"],
            ready=False)

    def install(self, own, names=("serving.key", "serving.crt", "ca.crt")):
        for name in names:
            place(f"{own}/{name}", self.directory / name)

    def logged(self, text):
        until(lambda: text in self.proxy.log_path.read_text(), 20, f"{text} in the log")


@pytest.fixture
def look(stack, apiserver):
    made = []

    def make(own):
        made.append(Looking(stack, apiserver, own))
        return made[-1]
    yield make
    for looking in made:
        looking.proxy.stop()


def has(apiserver, group_version, expected):
    until(lambda: apiserver.api_service(group_version)["caBundle"] == expected, 20, f"the CA of {group_version}")


def test_new_ca(apiserver, look, cas):
    """
    AUTHN-12: the APIServices of all served groups get the CA of the certificate, at the start and when it changes
    """
    old, new, _ = cas
    for group_version in (OPEN_REPORTS, POLICY_REPORTS):
        apiserver.register(group_version, caBundle="")
    looking = look(old)
    for group_version in (OPEN_REPORTS, POLICY_REPORTS):
        has(apiserver, group_version, bundle(old))
    looking.install(new)
    for group_version in (OPEN_REPORTS, POLICY_REPORTS):
        has(apiserver, group_version, bundle(new))
    kept = apiserver.api_service(OPEN_REPORTS)
    assert kept["groupPriorityMinimum"] == 1000 and kept["service"]["name"] == "kube-reports"


def test_left_alone(apiserver, look, cas):
    """
    AUTHN-12: an APIService is not changed when its caBundle verifies the certificate or has a newer CA, when it skips
    verification, or when it has no service
    """
    old, middle, new = cas
    apiserver.register(OPEN_REPORTS, caBundle=bundle(old, middle))
    apiserver.register(POLICY_REPORTS, caBundle=bundle(new))
    apiserver.register("reports.kyverno.io/v1", caBundle=bundle(old), insecureSkipTLSVerify=True)
    apiserver.register("kyverno.io/v1alpha2", caBundle=bundle(old), service=None)
    before = {group_version: apiserver.api_service(group_version)
              for group_version in (OPEN_REPORTS, POLICY_REPORTS, "reports.kyverno.io/v1", "kyverno.io/v1alpha2")}
    looking = look(middle)
    looking.logged("v1alpha2.wgpolicyk8s.io has a newer CA")
    names = ("v1alpha1.openreports.io", "v1.reports.kyverno.io", "v1alpha2.kyverno.io")
    until(lambda: all(apiserver.asked(f"/{name}$", "GET") for name in names), 20, "a look at each")
    # Start another round; it begins when the requests of the first round have been answered.
    place(f"{middle}/ca.crt", looking.directory / "ca.crt")
    until(lambda: all(len(apiserver.asked(f"/{name}$", "GET")) > 1 for name in names), 20, "a second look at each")
    assert apiserver.asked("apiservices", "PATCH") == []
    assert {group_version: apiserver.api_service(group_version) for group_version in before} == before


def test_another_server(apiserver, look, cas):
    """AUTHN-12: an APIService of another Service, whose name is not in the certificate, keeps its own CA"""
    old, new, _ = cas
    apiserver.register(OPEN_REPORTS, caBundle=bundle(old))
    apiserver.register(POLICY_REPORTS, caBundle=bundle(old),
                       service={"namespace": "kube-reports", "name": "reports-server", "port": 443})
    before = apiserver.api_service(POLICY_REPORTS)
    looking = look(new)
    has(apiserver, OPEN_REPORTS, bundle(new))
    # Start another round; it begins when the requests of the first round have been answered.
    place(f"{new}/ca.crt", looking.directory / "ca.crt")
    until(lambda: len(apiserver.asked("/v1alpha2.wgpolicyk8s.io$", "GET")) > 1, 20, "a second look")
    assert apiserver.api_service(POLICY_REPORTS) == before


def test_same_second(apiserver, look, stack):
    """AUTHN-12: when two proxies have CAs of the same second, the caBundle always gets the same one of the two"""
    begins = subprocess.check_output(["date", "-u", "-d", "1 minute ago", "+%Y%m%d%H%M%SZ"], text=True).strip()
    one, two = (ca_from(pathlib.Path(tempfile.mkdtemp(dir=stack.pki)), begins) for _ in range(2))
    taken = []
    for own, other in ((one, two), (two, one)):
        apiserver.register(OPEN_REPORTS, caBundle=bundle(other))
        looking = look(own)
        until(lambda other=other, looking=looking: apiserver.api_service(OPEN_REPORTS)["caBundle"] != bundle(other) or
              "v1alpha1.openreports.io has a newer CA" in looking.proxy.log_path.read_text(), 20, "a decision")
        taken.append(apiserver.api_service(OPEN_REPORTS)["caBundle"] == bundle(own))
        looking.proxy.stop()
    assert sorted(taken) == [False, True]


def test_halves(apiserver, look, cas):
    """
    AUTHN-12: a new CA is not written while it does not verify the certificate in use; it is written with the new
    certificate
    """
    old, new, _ = cas
    apiserver.register(OPEN_REPORTS, caBundle=bundle(old))
    looking = look(old)
    until(lambda: apiserver.asked("/v1alpha1.openreports.io$", "GET"), 20, "the first look")
    looking.install(new, ["ca.crt"])
    looking.logged("does not verify the server's certificate")
    assert apiserver.api_service(OPEN_REPORTS)["caBundle"] == bundle(old)
    looking.install(new, ["serving.key", "serving.crt"])
    has(apiserver, OPEN_REPORTS, bundle(new))


def test_forbidden(apiserver, look, cas):
    """AUTHN-12: without the right to patch, the proxy logs the missing right, and patches when it has the right"""
    old, new, _ = cas
    apiserver.register(OPEN_REPORTS, caBundle=bundle(old))
    apiserver.trouble("/apiservices/", method="PATCH", code=403)
    looking = look(new)
    looking.logged("a ClusterRole has to allow get and patch of apiservices")
    assert apiserver.api_service(OPEN_REPORTS)["caBundle"] == bundle(old)
    apiserver.calm()
    place(f"{new}/ca.crt", looking.directory / "ca.crt")
    has(apiserver, OPEN_REPORTS, bundle(new))


def test_somebody_else_was_faster(apiserver, look, cas):
    """AUTHN-12: when another client changes the APIService meanwhile, it is read again before it is patched"""
    old, new, _ = cas
    apiserver.register(OPEN_REPORTS, caBundle=bundle(old))
    apiserver.trouble("/apiservices/", method="PATCH", code=409, times=1)
    look(new)
    has(apiserver, OPEN_REPORTS, bundle(new))
    assert len(apiserver.asked("/v1alpha1.openreports.io$", "GET")) == 2
