"""The user of a request (k8s-conformance section 4): front-proxy headers, client certificates, tokens, anonymous."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import tempfile
import threading

import pytest

from client import POLR, Api, failure, path_of, run, until
from conftest import stack_command
from front_proxy import Delegation, read

AUTHENTICATED = "system:authenticated"
CREDENTIAL = "authentication.kubernetes.io/credential-id"

# This path is not served: a SubjectAccessReview about it only shows the user of the request.
WHOAMI = "/whoami"


def denied(spec):
    return {"allowed": False}


@pytest.fixture(scope="module")
def shared(stack, module_apiserver):
    """A delegating proxy for tests that leave its ConfigMap as it is."""
    module_apiserver.access_rule = denied
    delegation = Delegation(stack, module_apiserver, stack_command)
    yield delegation
    delegation.end()


def who(delegation, ask, *arguments, **more):
    """Sends a request that is denied; returns its user: the spec of its review, without the attributes."""
    before = len(delegation.apiserver.access_reviews)
    answer = ask(*arguments, **more)
    assert answer.code == 403, answer
    reviews = delegation.apiserver.access_reviews[before:]
    assert len(reviews) == 1, reviews
    spec = dict(reviews[0]["spec"])
    assert spec.pop("nonResourceAttributes")["path"].startswith(WHOAMI)
    return spec


def unauthorized(answer):
    """Checks that an answer is the 401 of AUTHN-07."""
    assert answer.code == 401, answer
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json == {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                           "message": "Unauthorized", "reason": "Unauthorized", "code": 401}


unique = iter(range(10**6))


def fresh_path():
    """Returns a path that had no review yet."""
    return f"{WHOAMI}/{next(unique)}"


# --- front proxy ---

HEADERS = {"username": "X-Remote-User", "uid": "X-Remote-Uid", "group": "X-Remote-Group", "extra": "X-Remote-Extra-"}

# Rows of upstream's TestRequestHeader: flags, headers, the user in the review; None: the headers name no user.
REQUEST_HEADERS = {
    "no match": ({}, [("X-Other", "Bob")], None),
    "match": ({}, [("X-Remote-User", "Bob")], {"user": "Bob"}),
    "exact match": ({}, [("Prefixed-X-Remote-User-With-Suffix", "Bob"), ("X-Remote-User-With-Suffix", "Bob")], None),
    "first match": ({"username": "X-Remote-User,A-Second-X-Remote-User,Another-X-Remote-User"},
                    [("X-Remote-User", ""), ("X-Remote-User", "First header, second value"),
                     ("A-Second-X-Remote-User", "Second header, first value"),
                     ("A-Second-X-Remote-User", "Second header, second value"), ("Another-X-Remote-User", "Third")],
                    {"user": "Second header, first value"}),
    "case-insensitive": ({"username": "x-REMOTE-user"}, [("x-remote-USER", "Bob")], {"user": "Bob"}),
    "groups": ({"group": "X-Remote-Group-1,X-REMOTE-Group-2"},
               [("X-Remote-User", "Bob"), ("X-Remote-Group-1", "one-a"), ("X-Remote-Group-2", "two-a"),
                ("X-Remote-Group-1", "one-b"), ("X-Remote-Group-1", ""), ("X-Remote-Group-2", "two-b")],
               {"user": "Bob", "groups": ["one-a", "one-b", "two-a", "two-b"]}),
    "uid none": ({}, [("X-Remote-User", "Bob"), ("X-Remote-Uid-1", "other")], {"user": "Bob"}),
    "uid first match": ({"uid": "X-Remote-Uid-1,X-Remote-Uid-2"},
                        [("X-Remote-User", "Bob"), ("X-Remote-Uid-2", "second"), ("X-Remote-Uid-1", "first")],
                        {"user": "Bob", "uid": "first"}),
    "extra of two prefixes": ({"extra": "X-Remote-Extra-1-,X-Remote-Extra-2-"},
                              [("X-Remote-User", "Bob"), ("X-Remote-extra-1-key1", "alfa"),
                               ("X-Remote-extra-1-key1", "bravo"),
                               ("X-Remote-Extra-1-Key2", "charlie"), ("X-Remote-Extra-1-", "india"),
                               ("X-Remote-extra-2-", "kilo"), ("X-Remote-extra-2-Key1", "echo"),
                               ("X-Remote-Extra-2-key2", "golf"), ("X-Group-Bear", "panda")],
                              {"user": "Bob", "extra": {"key1": ["alfa", "bravo", "echo"], "key2": ["charlie", "golf"],
                                                        "": ["india", "kilo"]}}),
    "escaped keys": ({}, [("X-Remote-User", "Bob"), ("X-Remote-Extra-Alpha", "alphabetical"),
                          ("X-Remote-Extra-Percent%20encoded", "percent encoded"),
                          ("X-Remote-Extra-Almost%zzpercent%xxencoded", "not quite"),
                          ("X-Remote-Extra-Example.com%2fpercent%2520encoded", "double"),
                          ("X-Remote-Extra-Example.com%2F%E4%BB%8A%E6%97%A5%E3%81%AF", "unicode"),
                          ("X-Remote-Extra-Abc123!#$+.-_*^`~|'", "legal characters")],
                     {"user": "Bob", "extra": {"alpha": ["alphabetical"], "percent encoded": ["percent encoded"],
                                               "almost%zzpercent%xxencoded": ["not quite"],
                                               "example.com/percent%20encoded": ["double"],
                                               "example.com/今日は": ["unicode"],
                                               "abc123!#$+.-_*^`~|'": ["legal characters"]}}),
    # A NUL must not end a key.
    "escaped NUL": ({}, [("X-Remote-User", "Bob"), ("X-Remote-Extra-Scopes%00", "a")],
                    {"user": "Bob", "extra": {"scopes%00": ["a"]}}),
}


@pytest.mark.parametrize("row", REQUEST_HEADERS)
def test_request_headers(delegate, row):
    """AUTHN-03, AGG-11: TestRequestHeader: the headers of the front proxy give the user."""
    names, headers, expected = REQUEST_HEADERS[row]
    names = {**HEADERS, **names}
    delegation = delegate(**{f"requestheader_{kind}_headers{'_prefix' if kind == 'extra' else ''}": value.split(",")
                             for kind, value in names.items()}, client_ca_file=None)
    # Without CAs of clients the certificate itself gives no user; a request without a user is anonymous.
    expected = {**expected, "groups": [*expected.get("groups", []), AUTHENTICATED]} if expected else \
        {"user": "system:anonymous", "groups": ["system:unauthenticated"]}
    assert who(delegation, delegation.front().whole, "GET", fresh_path(), headers) == expected


def test_header_flags(stack, apiserver):
    """AUTHN-03, AUTHN-05: flags replace the ConfigMap; by default no header gives the uid."""
    apiserver.access_rule = denied
    directory = f"{apiserver.certificates}/flags"
    stack_command("certificates", directory)
    stack_command("certificate", directory, "front", "/CN=front", "clientAuth")
    for path in (directory, f"{directory}/ca.crt"):
        os.chmod(path, 0o755)
    flags = [f"--requestheader-client-ca-file={directory}/ca.crt", "--requestheader-allowed-names=somebody, front"]
    delegation = Delegation(stack, apiserver, stack_command, flags)
    headers = [("X-Remote-User", "alice"), ("X-Remote-Uid", "7"), ("X-Remote-Group", "dev"),
               ("X-Remote-Extra-Scopes", "a")]
    front = delegation.front(f"{directory}/front")
    assert who(delegation, front.whole, "GET", fresh_path(), headers) == \
        {"user": "alice", "groups": ["dev", AUTHENTICATED], "extra": {"scopes": ["a"]}}
    # The CA of the ConfigMap is not used then.
    unauthorized(delegation.front().whole("GET", fresh_path(), headers))
    delegation.end()


def test_already_in_the_group(shared):
    """AUTHN-05, AGG-32: system:authenticated is added once, and never to an unauthenticated user."""
    front = shared.front()
    for groups, expected in (
            ([], [AUTHENTICATED]), (["dev"], ["dev", AUTHENTICATED]), ([AUTHENTICATED, "dev"], [AUTHENTICATED, "dev"]),
            (["system:unauthenticated"], ["system:unauthenticated"])):
        assert who(shared, front.get, fresh_path(), user="alice", groups=groups)["groups"] == expected
    assert who(shared, front.get, fresh_path(), user="system:anonymous", groups=["dev"])["groups"] == ["dev"]


def test_forged_headers(shared):
    """AUTHN-03: headers from a peer without the front proxy's certificate change nothing."""
    forged = [("X-Remote-User", "kubernetes-admin"), ("X-Remote-Group", "system:masters"), ("X-Remote-Uid", "0"),
              ("X-Remote-Extra-Scopes", "all")]
    target = path_of(POLR)
    failure(shared.front(None).whole("GET", target, forged), 403, "Forbidden")
    assert who(shared, shared.front(None).whole, "GET", fresh_path(), forged) == \
        {"user": "system:anonymous", "groups": ["system:unauthenticated"]}
    nobody = who(shared, shared.front(f"{shared.stack.pki}/nobody").whole, "GET", fresh_path(), forged)
    assert nobody["user"] == "nobody" and nobody["groups"] == ["dev", AUTHENTICATED] and "uid" not in nobody
    assert list(nobody["extra"]) == [CREDENTIAL]
    # Beside a bearer token they change nothing either.
    shared.apiserver.token_rule = lambda spec: {"authenticated": True, "user": {"username": "tokenbearer"}}
    assert who(shared, shared.front(None).whole, "GET", fresh_path(),
               [*forged, ("Authorization", "Bearer forged")]) == \
        {"user": "tokenbearer", "groups": [AUTHENTICATED]}


REFUSED_CERTIFICATES = {
    "another name": ("/CN=other", "clientAuth", None, r"x509: subject with cn=other is not in the allowed list"),
    "no name": ("/O=front-proxy-client", "clientAuth", None, r"x509: subject with cn= is not in the allowed list"),
    "name in another case": ("/CN=Front-Proxy-Client", "clientAuth", None,
                             r"cn=Front-Proxy-Client is not in the allowed list"),
    "for servers only": ("/CN=front-proxy-client", "serverAuth", None,
                         r"cn=front-proxy-client: unsuitable certificate purpose"),
    "expired": ("/CN=front-proxy-client", "clientAuth", "-1", r"cn=front-proxy-client: certificate has expired"),
    "of another CA": ("/CN=front-proxy-client", "clientAuth", "other", r"cn=front-proxy-client: "),
}


@pytest.mark.parametrize("row", REFUSED_CERTIFICATES)
def test_refused_certificates(delegate, row, tmp_path):
    """
    AUTHN-03, AUTHN-07: TestX509, rows of unknown CAs, server certificates and expired certificates: a request with such
    a certificate gets 401, and the log has the reason.
    """
    subject, usage, special, reason = REFUSED_CERTIFICATES[row]
    delegation = delegate()
    if special == "-1":
        certificate = expired_certificate(delegation.directory, tmp_path, subject)
    elif special == "other":
        # Its CA has the same name and another key.
        stack_command("certificates", tmp_path)
        certificate = delegation.certificate("foreign", subject, usage, str(tmp_path))
    else:
        certificate = delegation.certificate(row.replace(" ", "-"), subject, usage)
    front = delegation.front(certificate)
    unauthorized(front.get(path_of(POLR), user="kubernetes-admin", groups=["system:masters"]))
    assert delegation.apiserver.access_reviews == []
    until(lambda: re.search(reason, delegation.proxy.log_path.read_text()), 5, "the reason in the log")
    # A path that needs no authorization still needs authentication.
    unauthorized(front.whole("GET", "/livez", []))


def expired_certificate(directory, tmp_path, subject):
    run(["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", subject,
         "-keyout", f"{tmp_path}/old.key", "-out", f"{tmp_path}/old.csr"])
    run(["openssl", "x509", "-req", "-days", "-1", "-in", f"{tmp_path}/old.csr", "-CA", f"{directory}/ca.crt",
         "-CAkey", f"{directory}/ca.key", "-set_serial", "77", "-out", f"{tmp_path}/old.crt"])
    return f"{tmp_path}/old"


def test_any_name(delegate):
    """AUTHN-03: an empty list of allowed names allows every name, and certificates without a name."""
    delegation = delegate(requestheader_allowed_names=[])
    for name, subject in (("whatever", "/CN=whatever"), ("nameless", "/O=front")):
        front = delegation.front(delegation.certificate(name, subject))
        assert who(delegation, front.get, fresh_path(), user="alice", groups=[])["user"] == "alice"


def test_next_after_the_front_proxy(delegate, stack, tmp_path):
    """
    AUTHN-03: without a user in the headers, the front proxy's certificate is tried as a client's; after a refused
    certificate a token is tried.
    """
    delegation = delegate(client_ca_file=read(f"{stack.pki}/ca.crt"))
    # The clients' CA did not sign it: the certificate is refused.
    unauthorized(delegation.front().whole("GET", fresh_path(), []))
    both = delegate(client_ca_file=read(f"{delegation.directory}/ca.crt"))
    assert who(both, both.front().whole, "GET", fresh_path(), [])["user"] == "front-proxy-client"
    # A token is tried even after a certificate was refused.
    both.apiserver.token_rule = lambda spec: {"authenticated": True, "user": {"username": "bearer"}}
    stack_command("certificates", tmp_path)
    stranger = both.front(both.certificate("stranger", "/CN=stranger", directory=str(tmp_path)))
    assert who(both, stranger.whole, "GET", fresh_path(), [("Authorization", "Bearer t")])["user"] == "bearer"
    unauthorized(stranger.whole("GET", fresh_path(), []))


# --- client certificates ---

def test_client_certificate(shared, tmp_path):
    """
    AUTHN-03: TestX509, rows of names, organizations and uids: user, groups, uid and credential of a client's
    certificate; the last CN counts.
    """
    config = tmp_path / "openssl.cnf"
    config.write_text("oid_section = oids\n[oids]\nkubernetesUID = 1.3.6.1.4.1.57683.2\n"
                      "[req]\ndistinguished_name = dn\n[dn]\n")
    environment = {**os.environ, "OPENSSL_CONF": str(config)}
    pki = shared.stack.pki

    def ask(name, subject):
        stack_command("certificate", pki, name, subject, "clientAuth", env=environment)
        return shared.front(f"{pki}/{name}").whole("GET", fresh_path(), [])

    spec = who(shared, ask, "auth-full", "/O=dev/CN=first/O=ops/CN=zoe/kubernetesUID=u-1")
    digest = run(["openssl", "x509", "-in", f"{pki}/auth-full.crt", "-noout", "-fingerprint", "-sha256"]).out
    digest = digest.partition("=")[2].replace(":", "").strip().lower()
    assert spec == {"user": "zoe", "groups": ["dev", "ops", AUTHENTICATED], "uid": "u-1",
                    "extra": {CREDENTIAL: [f"X509SHA256={digest}"]}}
    # More than one uid is an error, as upstream.
    unauthorized(ask("auth-uids", "/CN=two/kubernetesUID=u-1/kubernetesUID=u-2"))
    # Without a CN a certificate gives no user; the answer is 401, because the front proxy's CAs have refused it.
    unauthorized(ask("auth-nameless", "/O=dev"))


def test_require_client_cert(delegate, stack):
    """AUTHN-02: with --require-client-cert a handshake without an accepted client certificate fails."""
    delegation = delegate(flags=["--require-client-cert"])
    assert delegation.proxy.api("nobody").get("/livez").code == 200
    assert delegation.front().get("/livez").code == 200
    for certificate in (None, delegation.certificate("other", "/CN=other")):
        with pytest.raises((ssl.SSLError, OSError)):
            delegation.front(certificate).whole("GET", "/livez", [])
    until(lambda: "TLS handshake refused" in delegation.proxy.log_path.read_text(), 5, "the refusal in the log")


# --- TLS ---

def test_tls(shared):
    """
    AUTHN-02: the proxy asks for client certificates but does not require them; TLS 1.2 is the lowest version; the proxy
    sends the names of the CAs of both bundles.
    """
    assert shared.front(None).whole("GET", "/livez", []).code == 200
    for version, works in ((ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True),
                           (ssl.TLSVersion.TLSv1_3, True)):
        front = shared.front(None)
        front.context.set_ciphers("DEFAULT:@SECLEVEL=0")
        front.context.minimum_version = front.context.maximum_version = version
        if works:
            assert front.connect().version() == version.name.replace("_", ".")
        else:
            with pytest.raises((ssl.SSLError, OSError)):
                front.connect()
    asked = run(["openssl", "s_client", "-connect", f"127.0.0.1:{shared.proxy.port}", "-alpn", "h2,http/1.1"],
                check=False, input="").out
    names = asked.partition("Acceptable client certificate CA names\n")[2].splitlines()
    # Both CAs have the same name: one for each bundle.
    assert names[:2] == ["CN = kube-reports local CA"] * 2, asked
    assert "ALPN protocol: http/1.1" in asked or "ALPN protocol: h2" in asked


def test_no_session_resumption(shared):
    """AUTHN-02: no session is resumed, so that each connection presents its certificate."""
    front = shared.front()
    sessions = []
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        front.context.maximum_version = version
        with front.connect() as connection:
            connection.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert connection.recv(100)
            sessions.append(connection.session)
    assert [session.has_ticket for session in sessions if session] in ([], [False], [False, False])


def test_serving_certificate(stack, own_files):
    """
    AUTHN-10: new connections use a new key pair, and old connections stay open; a certificate without its key changes
    nothing.
    """
    directory, proxy = own_files
    old = proxy.api(keep=True)
    assert old.get("/livez").code == 200

    def served():
        with ssl.create_default_context(cafile=f"{stack.pki}/ca.crt").wrap_socket(
                socket.create_connection(("127.0.0.1", proxy.port)), server_hostname="localhost") as connection:
            return connection.getpeercert()["serialNumber"]
    first = served()
    for suffix in ("crt", "key"):
        (directory / f"serving.{suffix}").rename(directory / f"old.{suffix}")
    stack_command("certificate", stack.pki, "serving-new", "/CN=kube-reports-proxy", "serverAuth",
                  "DNS:localhost,IP:127.0.0.1")
    place(f"{stack.pki}/serving-new.crt", directory / "serving.crt")
    place(f"{stack.pki}/serving.key", directory / "serving.key")
    # The certificate is new, the key is not yet.
    until(lambda: "the TLS files changed but cannot be used" in proxy.log_path.read_text(), 20,
          "the complaint in the log")
    assert served() == first
    place(f"{stack.pki}/serving-new.key", directory / "serving.key")
    until(lambda: served() != first, 20, "the new certificate")
    assert old.get("/livez").code == 200


def place(source, target):
    """Replaces a file at once by a copy of another file, which the proxy may read."""
    fresh = f"{target}.new"
    shutil.copy(source, fresh)
    os.chmod(fresh, 0o644)
    os.replace(fresh, target)


@pytest.fixture
def own_files(stack):
    """A proxy with TLS files of its own."""
    directory = pathlib.Path(tempfile.mkdtemp(dir=stack.pki))
    os.chmod(directory, 0o755)
    for name in ("serving.crt", "serving.key"):
        place(f"{stack.pki}/{name}", directory / name)
    place(f"{stack.pki}/ca.crt", directory / "ca.crt")
    proxy = stack.proxy(flags=[f"--tls-cert-file={directory}/serving.crt",
                               f"--tls-private-key-file={directory}/serving.key",
                               f"--client-ca-file={directory}/ca.crt", "--workers=1"])
    yield directory, proxy
    proxy.stop()


def test_client_ca_file(stack, own_files, tmp_path):
    """
    AUTHN-11: the file of the clients' CAs is read again; certificates of a CA that was removed are refused on every
    connection.
    """
    directory, proxy = own_files
    kept = proxy.api("nobody", keep=True)
    assert kept.get("/apis").code == 200
    stack_command("certificates", tmp_path)
    place(f"{tmp_path}/ca.crt", directory / "ca.crt")
    until(lambda: kept.get("/apis").code == 401, 20, "the end of trust on an open connection")
    unauthorized(proxy.api("nobody").get("/apis"))
    newcomer = Api(proxy.port, f"{stack.pki}/ca.crt", f"{tmp_path}/admin")
    assert newcomer.get("/apis").code == 200
    # A file that is not a valid bundle changes nothing.
    (tmp_path / "broken").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    place(tmp_path / "broken", directory / "ca.crt")
    until(lambda: "the CA bundles changed but cannot be used" in proxy.log_path.read_text(), 20,
          "the complaint in the log")
    assert newcomer.get("/apis").code == 200


# --- the ConfigMap ---

def test_config_map_changes(delegate, tmp_path):
    """
    AUTHN-01, AUTHN-11: TestRequestHeaderAuthRequestController: CA, allowed names and header names of the ConfigMap
    change without a restart, for open connections too.
    """
    delegation = delegate()
    kept = delegation.front(keep=True)
    assert who(delegation, kept.get, fresh_path())["user"] == "alice"

    delegation.publish(requestheader_allowed_names=["another"])
    until(lambda: kept.get(fresh_path()).code == 401, 20, "the end of an allowed name")
    another = delegation.front(delegation.certificate("another", "/CN=another"), keep=True)
    assert who(delegation, another.get, fresh_path())["user"] == "alice"

    delegation.publish(requestheader_username_headers=["X-Someone"])
    until(lambda: another.whole("GET", fresh_path(), [("X-Someone", "carol")]).code == 403, 20, "another header")
    assert who(delegation, another.whole, "GET", fresh_path(), [("X-Someone", "carol")])["user"] == "carol"
    unauthorized(another.get(fresh_path()))

    stack_command("certificates", tmp_path)
    delegation.publish(requestheader_username_headers=["X-Remote-User"],
                       requestheader_client_ca_file=read(f"{tmp_path}/ca.crt"))
    until(lambda: another.get(fresh_path()).code == 401, 20, "the end of a CA")
    renewed = delegation.front(delegation.certificate("another", "/CN=another", directory=str(tmp_path)))
    assert who(delegation, renewed.get, fresh_path())["user"] == "alice"

    # Both CAs at the same time, as during a rotation.
    delegation.publish(requestheader_client_ca_file=read(f"{tmp_path}/ca.crt") + read(f"{delegation.directory}/ca.crt"))
    until(lambda: another.get(fresh_path()).code == 403, 20, "a bundle of two")
    assert who(delegation, renewed.get, fresh_path())["user"] == "alice"

    # The CA of clients changes as well.
    nobody = delegation.proxy.api("nobody", keep=True)
    assert nobody.get(fresh_path()).code == 403
    delegation.publish(client_ca_file=None)
    until(lambda: nobody.get(fresh_path()).code == 401, 20, "the end of clients' certificates")
    asked = run(["openssl", "s_client", "-connect", f"127.0.0.1:{delegation.proxy.port}"], check=False, input="").out
    assert asked.count("CN = kube-reports local CA\n") >= 2


def test_config_map_nonsense(delegate):
    """
    AUTHN-01: TestRequestHeaderAuthRequestControllerPreserveState: when the ConfigMap is invalid or deleted, its last
    valid contents stay in force.
    """
    delegation = delegate()
    front = delegation.front()
    for nonsense in ({"requestheader_client_ca_file": "no certificate"}, {"requestheader_allowed_names": "not a list"},
                     {"requestheader_group_headers": [""]}, {"requestheader_username_headers": [1]}):
        before = delegation.proxy.log_path.read_text().count("changed but cannot be used")
        kept = dict(delegation.entries)
        delegation.publish(**nonsense)
        until(lambda: delegation.proxy.log_path.read_text().count("changed but cannot be used") > before, 20,
              "the complaint")
        delegation.entries = kept
        assert who(delegation, front.get, fresh_path())["user"] == "alice"
    delegation.apiserver.set_authentication(None)
    until(lambda: "was deleted; its last contents stay in force" in delegation.proxy.log_path.read_text(), 20,
          "the deletion in the log")
    assert who(delegation, front.get, fresh_path())["user"] == "alice"
    delegation.publish(requestheader_allowed_names=["somebody"])
    until(lambda: front.get(fresh_path()).code == 401, 20, "the new ConfigMap")


def test_config_map_survives_an_outage(delegate):
    """
    AUTHN-01: while kube-apiserver is unreachable, the last contents stay in force; afterwards the proxy sees changes
    again, also those during the outage.
    """
    delegation = delegate()
    front = delegation.front()
    delegation.apiserver.stop()
    assert front.get("/livez").code == 200
    delegation.publish(requestheader_allowed_names=["somebody"])
    delegation.apiserver.start()
    until(lambda: front.get("/livez").code == 401, 30, "the change that was missed")


def test_worker_started_again(delegate):
    """AUTHN-01: a worker that replaces another worker begins with the present ConfigMap, not with that of the start."""
    delegation = delegate()
    front = delegation.front()
    assert front.get("/livez").code == 200
    delegation.publish(requestheader_allowed_names=["somebody"])
    until(lambda: front.get("/livez").code == 401, 20, "the change")
    # The list and the watch of the ConfigMap are delayed, the lookup is not.
    delegation.apiserver.trouble("/configmaps[?]", hold=threading.Event())
    workers = delegation.proxy.processes()[1:]
    for worker in workers:
        os.kill(worker, signal.SIGKILL)

    def code():
        try:
            return front.get("/livez").code
        except OSError:
            return None
    assert until(code, 20, "another worker") == 401


def start_failing(stack, path, *flags):
    """Starts a proxy that ends by itself; returns its exit code and log."""
    proxy = stack.proxy(ready=False, flags=["--client-ca-file=", f"--authentication-kubeconfig={path}", *flags])
    code = proxy.process.wait(20)
    return code, proxy.log_path.read_text()


def test_lookup_forbidden(stack, apiserver):
    """AUTHN-01: without the right to read the ConfigMap the proxy does not start, and logs the missing role."""
    path = apiserver.kubeconfig(f"{stack.pki}/kubeconfig-forbidden", token="x")
    apiserver.trouble("/extension-apiserver-authentication", code=403)
    code, log = start_failing(stack, path)
    assert code == 1 and "extension-apiserver-authentication-reader" in log and "--authentication-skip-lookup" in log
    asked = len(apiserver.asked("extension-apiserver-authentication"))
    # With --authentication-skip-lookup the proxy does not ask.
    proxy = stack.proxy(flags=["--client-ca-file=", f"--authentication-kubeconfig={path}",
                               "--authentication-skip-lookup"])
    assert proxy.api("nobody").get("/apis").code == 403
    assert len(apiserver.asked("extension-apiserver-authentication")) == asked
    proxy.stop()


def test_lookup_failure_tolerated(delegate, stack, apiserver):
    """AUTHN-01: with --authentication-tolerate-lookup-failure a failed lookup is tried again after the start."""
    apiserver.trouble("/configmaps", code=403)
    delegation = delegate(flags=["--authentication-tolerate-lookup-failure"])
    assert who(delegation, delegation.front().get, fresh_path())["user"] == "system:anonymous"
    apiserver.calm()
    until(lambda: delegation.front().get(fresh_path()).code == 403 and delegation.seen("alice"), 30,
          "the front proxy to be believed")


def test_lookup_waits(stack, apiserver):
    """AUTHN-01: the proxy repeats the lookup until kube-apiserver answers, and serves nothing before."""
    apiserver.trouble("/extension-apiserver-authentication", code=500)
    path = apiserver.kubeconfig(f"{stack.pki}/kubeconfig-waits", token="x")
    proxy = stack.proxy(ready=False, flags=["--client-ca-file=", f"--authentication-kubeconfig={path}"])
    until(lambda: apiserver.asked("extension-apiserver-authentication"), 20, "the first question")
    assert proxy.answers() is None
    apiserver.set_authentication({"client-ca-file": read(f"{stack.pki}/ca.crt")})
    apiserver.calm()
    proxy.wait_ready()
    assert proxy.api().get(path_of(POLR)).code == 200
    proxy.stop()


# --- anonymous ---

def test_anonymous(shared):
    """AUTHN-05: TestAnonymous: a client without credentials is system:anonymous."""
    assert who(shared, shared.proxy.api(None).get, fresh_path()) == {"user": "system:anonymous",
                                                                     "groups": ["system:unauthenticated"]}


def test_no_anonymous(delegate):
    """AUTHN-05, AUTHN-07: with --anonymous-auth=false a client without credentials gets 401 on every path."""
    delegation = delegate(flags=["--anonymous-auth=false"])
    api = delegation.proxy.api(None)
    for path in ("/livez", "/apis", path_of(POLR), "/nothing"):
        unauthorized(api.get(path))
    assert delegation.front().get("/livez").code == 200


# --- odd bytes ---

@pytest.mark.parametrize("header", [b"X-Remote-User: a\x00b", b"X-Remote-User : alice", b"X-Remote-User\x00: alice",
                                    b" X-Remote-User: alice", b"X-Remote-User: a\rX-Remote-Group: system:masters"])
def test_malformed_headers(shared, header):
    """AUTHN-03: headers that two parsers could read in two ways are refused, or give no user."""
    before = len(shared.apiserver.access_reviews)
    with shared.front().connect() as connection:
        connection.sendall(b"GET /apis/wgpolicyk8s.io/v1alpha2/policyreports HTTP/1.1\r\nHost: x\r\n" + header +
                           b"\r\nConnection: close\r\n\r\n")
        first = connection.recv(12)
    assert first in (b"HTTP/1.1 400", b"HTTP/1.1 401", b""), first
    assert len(shared.apiserver.access_reviews) == before


def test_bad_utf8(shared):
    """AUTHN-03: names that are not UTF-8 are repaired before the review: review and store have the same name."""
    spec = who(shared, shared.front().whole, "GET", fresh_path(),
               [("X-Remote-User", "al\udcffice"), ("X-Remote-Group", "d\udc80")])
    assert (spec["user"], spec["groups"]) == ("al\ufffdice", ["d\ufffd", AUTHENTICATED])


def test_many_headers(shared):
    """AUTHN-03: a user may have more groups than large directories give; test_heads.py has the limits."""
    many = [("X-Remote-User", "alice"), *(("X-Remote-Group", f"g{number}") for number in range(60)),
            *((f"X-Remote-Extra-K{number}", "v" * 1000) for number in range(20))]
    spec = who(shared, shared.front().whole, "GET", fresh_path(), many)
    assert len(spec["groups"]) == 61 and len(spec["extra"]) == 20
    spec = who(shared, shared.front().whole, "GET", fresh_path(),
               [*many, *(("X-Remote-Group", f"h{number}") for number in range(400))])
    assert len(spec["groups"]) == 461


# --- the log ---

def test_access_log(shared):
    """AUD-01: the log has user, verb and path of each request, with its audit id."""
    front = shared.front()
    shared.apiserver.access_rule = lambda spec: {"allowed": True}
    answer = front.get(f"{path_of(POLR)}?limit=1", user="auditor", groups=["dev", "a\"b"],
                       headers=[("Audit-Id", "audit-1")])
    shared.apiserver.access_rule = denied
    assert answer.code == 200 and answer.headers["Audit-Id"] == "audit-1"

    def logged():
        return [line for line in shared.proxy.log_lines() if '"auditID":"audit-1"' in line]
    entry = json.loads(until(logged, 5, "the line")[0])
    assert (entry["method"], entry["verb"], entry["user"], entry["groups"], entry["status"]) == \
        ("GET", "list", "auditor", ["dev", 'a"b', AUTHENTICATED], 200)
    assert entry["uri"] == "/apis/wgpolicyk8s.io/v1alpha2/policyreports?limit=1" and 0 < entry["latency"] < 30
