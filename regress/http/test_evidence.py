"""kube-reports-evidence: files of scans, the rights to send and read them, and failures (issue 19)."""

import base64
import bz2
import contextlib
import hashlib
import http.server
import json
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import threading

import pytest
import yaml

from client import WRONG_ADDRESSES, Api, run, until
from conftest import KUBECTLS, STACK, TOP, VERSION, free_port, stack_command
from evidence import Evidence, sender_certificates
from runbook import blocks_of

ARF = b"<arf>" + b"evidence " * 1000 + b"</arf>"
MB = 1024 * 1024


@pytest.fixture(scope="module")
def evidence(module_stack):
    sender_certificates(module_stack.pki)
    started = Evidence(module_stack, ["--min-rate=100000", "--head-timeout=2s", "--max-body-bytes=209715200",
                                      "--reader-downloads"])
    yield started
    started.stop()


@pytest.fixture
def another(module_stack, evidence):  # which makes the senders' certificates
    """Returns a function that starts another process; all of them end with the test."""
    started = []

    def start(**more):
        started.append(Evidence(module_stack, **more))
        return started[-1]
    yield start
    for process in started:
        process.stop()


def big_file(path, size):
    block = os.urandom(MB)
    with open(path, "wb") as file:
        for _ in range(size // MB):
            file.write(block)
    return hashlib.sha256(block * (size // MB)).hexdigest()


def ask_for_passwords(database, roles):
    """Makes the database server ask these roles for passwords; the server reads the new rules a moment later."""
    rules = f"{database.directory}/data/pg_hba.conf"
    with open(rules, encoding="ascii") as file:
        text = file.read()
    with open(rules, "w", encoding="ascii") as file:
        file.write(f"local all {roles} scram-sha-256\n{text}")
    database.psql("SELECT pg_reload_conf()", user="postgres")


# ---------- stored files ----------

def test_put_and_get(evidence):
    cluster, token = evidence.add("put", cluster_name="put")
    answer = evidence.put("ocp4-cis/7/master-0-pod", ARF, token)
    digest = hashlib.sha256(ARF).hexdigest()
    assert answer.code == 201, answer
    assert answer.json == {"cluster": cluster, "scan": "ocp4-cis", "index": 7, "name": "master-0-pod", "sha256": digest,
                           "bytes": len(ARF), "encoding": ""}
    shown = evidence.rows(cluster, "cluster_name, scan, index, name, sha256, bytes, encoding, provider, uri")
    *row, uri = shown.split("|")
    assert row == ["put", "ocp4-cis", "7", "master-0-pod", digest, str(len(ARF)), "", "directory"]
    with open(uri.removeprefix("file://"), "rb") as file:
        assert file.read() == ARF
    given = evidence.get("ocp4-cis/7/master-0-pod", token)
    assert (given.code, given.body, given.headers["ETag"]) == (200, ARF, f'"{digest}"')
    assert given.headers["Content-Type"] == "application/xml" and "Content-Encoding" not in given.headers
    assert evidence.get(f"{cluster}/ocp4-cis/7/master-0-pod", token).body == ARF
    assert evidence.get("ocp4-cis/7/other", token).code == 404
    # The same file again changes nothing; another file replaces it.
    assert evidence.put("ocp4-cis/7/master-0-pod", ARF, token).code == 200
    assert evidence.put("ocp4-cis/7/master-0-pod", b"<new/>", token).code == 201
    assert evidence.get("ocp4-cis/7/master-0-pod", token).body == b"<new/>"
    evidence.settled()


def test_result_server(evidence):
    """The protocol of the Compliance Operator's result collector: POST, a certificate, bzip2, chunked"""
    cluster, _ = evidence.add("east-rs", certificate="east-evidence")
    packed = bz2.compress(ARF)

    def post(body, path="/", certificate="east", **headers):
        headers = {"X-Report-Name": "worker-1-pod", "Content-Encoding": "bzip2", **headers}
        return evidence.send("POST", path, body, certificate=certificate, headers=headers)

    assert post(iter([packed[:10], packed[10:]]), **{"Transfer-Encoding": "chunked"}).code == 201
    assert evidence.rows(cluster, "scan, index, name, encoding, sha256") == \
        f"east-rs|0|worker-1-pod|bzip2|{hashlib.sha256(packed).hexdigest()}"
    given = evidence.send("GET", f"/v1/evidence/{cluster}/east-rs/0/worker-1-pod", certificate="east")
    assert given.headers["Content-Encoding"] == "bzip2" and bz2.decompress(given.body) == ARF
    # A repeated upload belongs to the same run; another file with this name begins the next run.
    assert post(packed).code == 200
    assert post(bz2.compress(b"<next/>")).json["index"] == 1
    assert post(packed, **{"X-Report-Name": "worker-2-pod"}).json["index"] == 1
    assert post(packed, "/?scan=ocp4-cis&index=12").json["index"] == 12
    assert evidence.rows(cluster) == "east-rs|0|worker-1-pod\neast-rs|1|worker-1-pod\neast-rs|1|worker-2-pod\n" \
        "ocp4-cis|12|worker-1-pod"
    assert post(packed, **{"Content-Encoding": "gzip"}).code == 415
    assert post(packed, **{"X-Report-Name": None}).code == 400
    assert post(packed, certificate=None).code == 401
    # A token is no certificate.
    _, token = evidence.add("token-only")
    assert evidence.send("POST", "/", ARF, token, headers={"X-Report-Name": "a"}).code == 401
    evidence.settled()


def test_rotation(evidence):
    cluster, token = evidence.add("rotation")
    for index in (1, 2, 3, 4):
        for name in ("a", "b"):
            assert evidence.put(f"scan/{index}/{name}", b"<%d/>" % index, token).code == 201
    assert evidence.put("other/1/a", ARF, token).code == 201
    assert evidence.rows(cluster, "DISTINCT scan, index, name") == \
        "other|1|a\nscan|2|a\nscan|2|b\nscan|3|a\nscan|3|b\nscan|4|a\nscan|4|b"
    evidence.settled()
    # A scan that was created again counts from 0: the runs that came last stay.
    assert evidence.put("scan/0/a", ARF, token).code == 201
    assert evidence.rows(cluster, "DISTINCT scan, index, name") == \
        "other|1|a\nscan|0|a\nscan|3|a\nscan|3|b\nscan|4|a\nscan|4|b"
    evidence.settled()
    evidence.database.psql("SELECT kube_reports.set_setting('evidence_retention', '0')")
    try:
        evidence.put("scan/0/b", ARF, token)
        until(lambda: evidence.rows(cluster) == "", 30, "the end of old evidence")
        evidence.settled()
    finally:
        evidence.database.psql("SELECT kube_reports.set_setting('evidence_retention', NULL)")


def test_a_cluster_that_is_removed(evidence):
    cluster, token = evidence.add("leaving")
    assert evidence.put("scan/1/a", ARF, token).code == 201
    evidence.database.psql(f"CALL kube_reports.unregister_cluster('{cluster}')")
    assert evidence.get("scan/1/a", token).code == 401
    _, token = evidence.add("coming")
    assert evidence.put("scan/1/a", ARF, token).code == 201
    evidence.settled()


def test_large_files_in_little_memory(evidence, tmp_path):
    """Four uploads of 100 MB at the same time: the process keeps no body in memory"""
    cluster, token = evidence.add("large")
    digest = big_file(tmp_path / "arf", 100 * MB)
    evidence.reset_peak()
    before = evidence.memory("VmRSS")
    answers = []
    threads = [threading.Thread(target=lambda n=n: answers.append(
        evidence.curl(f"/v1/evidence/large/1/node-{n}", token, "-T", str(tmp_path / "arf")))) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [code for code, _ in answers] == [201] * 4, answers
    assert evidence.rows(cluster, "DISTINCT sha256, bytes, scan, index, 1 AS name") == \
        f"{digest}|{100 * MB}|large|1|1"
    code, _ = evidence.curl("/v1/evidence/large/1/node-0", token, "-o", str(tmp_path / "back"))
    assert code == 200
    run(["cmp", str(tmp_path / "arf"), str(tmp_path / "back")])
    assert evidence.memory("VmHWM") - before < 16 * MB


def test_two_uploads_of_one_name(evidence):
    """Of uploads with one name the last one to end is announced, and each download is one whole file"""
    cluster, token = evidence.add("both")
    bodies = [bytes([65 + n]) * 300000 for n in range(4)]
    connections = [evidence.connect() for _ in bodies]
    for connection, body in zip(connections, bodies):
        connection.sendall(evidence.head("/v1/evidence/s/1/a", token, f"Content-Length: {len(body)}") + body[:200000])
    for connection, body in zip(connections, bodies):
        connection.sendall(body[200000:])
        assert connection.recv(100).startswith(b"HTTP/1.1 201")
        assert evidence.get("s/1/a", token).body == body
        connection.close()
    assert evidence.rows(cluster) == "s|1|a"
    evidence.settled()


# ---------- rights ----------

def test_who_may_send_and_read(evidence):
    cluster, token = evidence.add("mine")
    _, other = evidence.add("theirs")
    assert evidence.put("s/1/a", ARF, token).code == 201
    for wrong in (None, "", "wrong", token + "x", hashlib.sha256(token.encode()).hexdigest()):
        assert evidence.put("s/1/a", ARF, wrong).code == 401, wrong
        assert evidence.get("s/1/a", wrong).code == 401, wrong
    # Another cluster's sender neither reads nor replaces it.
    assert evidence.get("s/1/a", other).code == 404
    assert evidence.get(f"{cluster}/s/1/a", other).code == 404
    assert evidence.put(f"{cluster}/s/1/a", ARF, other).code == 404
    # A certificate of the API's CA, a certificate for servers, and one of no sender.
    for path in ("admin", "senders/server", "senders/stranger"):
        api = evidence.api()
        api.context.load_cert_chain(f"{evidence.pki}/{path}.crt", f"{evidence.pki}/{path}.key")
        with contextlib.suppress(OSError):
            assert api.request("PUT", "/v1/evidence/s/1/a", ARF, {"Content-Type": "application/xml"}).code == 401
    # Rotation and revocation.
    fresh = evidence.database.psql("SELECT kube_reports.rotate_sender('mine', overlap => '0')")
    assert evidence.get("s/1/a", token).code == 401 and evidence.get("s/1/a", fresh).code == 200
    evidence.database.psql("SELECT kube_reports.remove_sender('mine')")
    assert evidence.get("s/1/a", fresh).code == 401


def test_revoked_while_sending(evidence):
    cluster, token = evidence.add("revoked")
    connection = evidence.connect()
    connection.sendall(evidence.head("/v1/evidence/s/1/a", token, "Content-Length: 10") + b"12345")
    until(lambda: evidence.unannounced() == 1, 20, "the begin of the upload")
    evidence.database.psql("SELECT kube_reports.remove_sender('revoked')")
    connection.sendall(b"67890")
    assert connection.recv(100).startswith(b"HTTP/1.1 401")
    connection.close()
    assert evidence.rows(cluster) == ""
    evidence.settled()


def test_readers(evidence):
    """A role of the database, with its password, downloads the files that it sees in the view"""
    database = evidence.database
    east, token = evidence.add("reader-east")
    west, other = evidence.add("reader-west")
    for sender in (token, other):
        assert evidence.put("s/1/a", ARF, sender).code == 201
    database.psql("CREATE ROLE evidence_reader LOGIN PASSWORD 'right';"
                  "CREATE ROLE evidence_team LOGIN PASSWORD 'right';"
                  "CREATE ROLE evidence_trusted LOGIN PASSWORD 'right';"
                  "GRANT evidence_reader, evidence_team TO kube_reports_owner", user="postgres")
    database.psql(f"SELECT kube_reports.grant_cluster('evidence_reader', '{east}'); "
                  f"SELECT kube_reports.grant_namespace('evidence_team', '{east}', 'team'); "
                  f"SELECT kube_reports.grant_cluster('evidence_trusted', '{east}')")
    seen = "SELECT count(*) FROM kube_reports.evidence"
    assert database.psql(f"SET ROLE evidence_reader; {seen}") == "1"
    assert database.psql(f"SET ROLE evidence_team; {seen}") == "0"
    ask_for_passwords(database, "evidence_reader,evidence_team")

    def get(cluster, user, password):
        return evidence.curl(f"/v1/evidence/{cluster}/s/1/a", None, "-u", f"{user}:{password}")

    until(lambda: get(east, "evidence_reader", "right") == (200, ARF.decode()), 20, "the new rules of the server")
    assert get(east, "evidence_reader", "wrong")[0] == 401
    assert get(west, "evidence_reader", "right")[0] == 404
    assert get(east, "evidence_team", "right")[0] == 404
    assert get(east, "evidence_reader", "")[0] == 401
    # Roles that the server accepts without a password are refused, and so is the role of the process.
    assert get(east, "evidence_trusted", "wrong")[0] == 401
    assert get(east, "kube_reports_owner", "x")[0] == 401
    assert get(east, "kube_reports_proxy", "")[0] == 401


# ---------- failures ----------

def test_what_is_put_into_the_directory(evidence, tmp_path):
    """
    Another process writes to the volume: kube-reports-evidence follows no link out of the store, waits for no pipe, and
    returns no file with other bytes than the sender's.
    """
    cluster, token = evidence.add("tampered")
    outside = tmp_path / "outside"
    outside.mkdir()
    outside.chmod(0o777)
    for parent in outside.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o055)
    assert evidence.put("s/1/a", ARF, token).code == 201
    scan = pathlib.Path(evidence.directory, cluster, "s")
    (stored,) = scan.iterdir()
    secret = outside / stored.name
    secret.write_bytes(b"S" * len(ARF))
    secret.chmod(0o644)

    def download():
        code, body = evidence.curl("/v1/evidence/s/1/a", token, "--max-time", "20")
        assert "SSSS" not in body
        return code, body
    kept = scan.with_name("kept")
    scan.rename(kept)
    scan.symlink_to(outside)
    assert download()[0] == 503
    # An upload follows no link either; the scan keeps its file.
    assert evidence.put("s/2/b", ARF, token).code == 503
    assert list(outside.iterdir()) == [secret]
    scan.unlink()
    kept.rename(scan)
    content = scan / "content"
    stored.rename(content)
    stored.symlink_to(secret)
    assert download()[0] == 503
    stored.unlink()
    os.mkfifo(stored, 0o644)
    assert download()[0] == 404
    stored.unlink()
    stored.write_bytes(b"X" + ARF[1:])
    stored.chmod(0o644)
    # The head is sent before the bytes are read.
    assert download() == (200, "")
    assert "another SHA-256" in evidence.log()
    content.rename(stored)
    assert download() == (200, ARF.decode())
    # Files that could not be removed because of the link are removed now.
    evidence.database.psql("UPDATE kube_reports_internal.evidence_body b SET remove_after = now() "
                           f"FROM kube_reports.cluster c WHERE c.id = b.cluster_id AND c.uid = '{cluster}'")
    assert evidence.put("s/2/b", ARF, token).code == 201
    evidence.settled()


def test_names(evidence):
    cluster, token = evidence.add("names")
    evidence.add("names-rs", certificate="names-evidence")
    stack_command("certificate", f"{evidence.pki}/senders", "names", "/CN=names-evidence", "clientAuth")
    for path in ("s/1/..", "s/1/.hidden", "s/1/a%2fb", "s/1/%2e%2e", "../1/a", "s/-1/a", "s/01/a", "s/x/a",
                 "s/1/a/../b", "s/9999999999/a", "s/1/" + "a" * 201, "s" * 64 + "/1/a", "s/1/a%00b", "s//a", "s/1/a b",
                 "s/1/a-", "s/1/\u00e4".encode().decode("latin-1"), "s/1/a;b", "s/1"):
        connection = evidence.connect()
        connection.sendall(evidence.head(f"/v1/evidence/{path}", token, f"Content-Length: {len(ARF)}") + ARF)
        answer = connection.recv(200)
        connection.close()
        # A path with a space makes an invalid request line, which has no answer.
        assert answer[9:12] in (b"400", b"404") or " " in path and answer == b"", (path, answer)
    for name in ("../../etc/passwd", "/etc/passwd", "a/b", "..", ".", "a\tb", "", "x" * 3000):
        answer = evidence.send("POST", "/", ARF, certificate="names", headers={"X-Report-Name": name})
        assert answer.code == 400, (name, answer)
    assert evidence.put("s/1/" + "a" * 200, ARF, token).code == 201
    assert evidence.rows(cluster) == "s|1|" + "a" * 200
    evidence.settled()


def test_cut_transfers(evidence):
    """An upload that is cut leaves nothing: with a length or chunked, before or after its first bytes"""
    cluster, token = evidence.add("cut")
    for lines in (["Content-Length: 100000"], ["Transfer-Encoding: chunked"]):
        for sent in (b"", b"10\r\n" + b"x" * 16 + b"\r\n"):
            for how in (socket.SHUT_WR, None):
                connection = evidence.connect()
                connection.sendall(evidence.head("/v1/evidence/s/1/a", token, *lines) + sent)
                until(lambda: evidence.unannounced() == 1, 20, "the begin of the upload")
                if how is not None:
                    connection.shutdown(how)
                connection.close()
                until(lambda: evidence.unannounced() == 0, 20, "the end of the upload")
                assert evidence.files() == [name for name in evidence.files() if not name.startswith(".incoming")]
    assert evidence.rows(cluster) == ""
    evidence.settled()


def test_limits(evidence):
    cluster, token = evidence.add("limits")
    huge = "Content-Length: 99999999999999999999"

    def answer(*lines, body=b""):
        connection = evidence.connect()
        connection.sendall(evidence.head("/v1/evidence/s/1/a", token, *lines) + body)
        found = connection.recv(2000)
        connection.close()
        return found[9:12]
    assert answer("Content-Length: 209715201") == b"413"
    assert answer(huge) in (b"400", b"413")
    assert answer("Content-Length: 0") == b"400"
    assert answer("Transfer-Encoding: chunked", body=b"0\r\n\r\n") == b"400"
    assert answer("Content-Length: 3", "Transfer-Encoding: chunked", body=b"0\r\n\r\n") == b"400"
    assert answer("Content-Length: 3", "Content-Length: 4", body=b"abcd") == b"400"
    assert answer("Content-Length: 3", f"Authorization: Bearer {token}", body=b"abc") == b"401"
    with contextlib.suppress(OSError):
        assert answer("Content-Length: 3", "X-Large: " + "x" * 100000) in (b"413", b"431", b"")
    assert answer("Content-Length: 3", "Content-Type: text/html", body=b"abc") == b"400"
    assert evidence.send("DELETE", "/v1/evidence/s/1/a", token=token).code == 405
    assert evidence.send("GET", "/v1/other", token=token).code == 404
    evidence.database.psql("SELECT kube_reports.set_setting('evidence_bytes', '10000')")
    try:
        assert evidence.put("s/1/a", ARF, token).code == 201
        refused = evidence.put("s/1/b", ARF, token)
        assert refused.code == 507 and refused.headers["Retry-After"], refused
        refused = evidence.send("PUT", "/v1/evidence/s/1/b", iter([ARF]), token,
                                headers={"Transfer-Encoding": "chunked"})
        assert refused.code == 507, refused
    finally:
        evidence.database.psql("SELECT kube_reports.set_setting('evidence_bytes', NULL)")
    assert evidence.rows(cluster) == "s|1|a"
    evidence.settled()


# A disk of its own, which no other process sees.
OWN_DISK = ["unshare", "--map-root-user", "--mount", "bash", "-ec",
            'for word; do case $word in --store=file://*) mount -t tmpfs -o size=3m tmpfs "${word#--store=file://}";; '
            'esac; done; exec "$@"', "evidence"]


PRIVATE_MOUNTS = run(["/bin/bash", STACK, "as_server", *OWN_DISK[:3], "true"], check=False).code == 0


@pytest.mark.parametrize("under", [["prlimit", "--fsize=3000000"], pytest.param(OWN_DISK, marks=pytest.mark.skipif(
    not PRIVATE_MOUNTS, reason="this machine allows no private mounts"))], ids=["limit", "disk"])
def test_full_disk(another, tmp_path, under):
    """With a limit of file sizes or a full disk an upload gets 507 and leaves nothing, and the next upload works"""
    small = another(under=under)
    small.directory = f"/proc/{small.process.pid}/root{small.directory}"
    cluster, token = small.add(f"full-{under[0]}")
    big_file(tmp_path / "arf", 4 * MB)
    for arguments in (["-T", str(tmp_path / "arf")], ["-T", str(tmp_path / "arf"), "-H", "Transfer-Encoding: chunked"]):
        code, body = small.curl("/v1/evidence/s/1/a", token, *arguments)
        assert code == 507 and json.loads(body)["reason"] == "InsufficientStorage", body
        small.settled()
    assert small.put("s/1/a", ARF, token).code == 201
    assert small.rows(cluster) == "s|1|a"


def test_larger_than_said(another, tmp_path):
    """A chunked body above --max-body-bytes gets 413; the connection of a much larger body is cut"""
    own = another(flags=["--max-body-bytes=2097152"])
    cluster, token = own.add("larger")
    big_file(tmp_path / "arf", 4 * MB)
    chunked = ["-T", str(tmp_path / "arf"), "-H", "Transfer-Encoding: chunked"]
    assert own.curl("/v1/evidence/s/1/b", token, *chunked)[0] == 413
    big_file(tmp_path / "arf", 40 * MB)
    assert own.curl("/v1/evidence/s/1/b", token, *chunked)[0] in (0, 100)
    own.settled()
    assert own.rows(cluster) == ""


def test_killed(another):
    """After SIGKILL during an upload nothing is announced, and the next process removes the rest"""
    own = another(flags=["--upload-timeout=10s"])
    cluster, token = own.add("killed")
    assert own.put("s/1/before", ARF, token).code == 201
    connection = own.connect()
    connection.sendall(own.head("/v1/evidence/s/1/a", token, "Content-Length: 100000") + b"x" * 50000)
    until(lambda: any(name.startswith(".incoming/a.") for name in own.files()), 20, "the begin of the upload")
    own.kill()
    connection.close()
    # As if the process had been killed after the last byte and before the announcement.
    key = own.database.psql("SELECT key FROM kube_reports_internal.evidence_body")
    stack_command("as_server", "cp", f"{own.directory}/.incoming/{key.rsplit('/', 1)[1]}", f"{own.directory}/{key}")
    assert own.rows(cluster) == "s|1|before"
    own.start()
    assert not any(name.startswith(".incoming/") for name in own.files())
    assert own.unannounced() == 1
    # The time of the upload is over.
    own.database.psql("UPDATE kube_reports_internal.evidence_body SET remove_after = now()")
    assert own.put("s/1/after", ARF, token).code == 201
    assert own.rows(cluster) == "s|1|after\ns|1|before"
    own.settled()


def test_without_the_database(another, module_stack):
    own = another()
    cluster, token = own.add("outage")
    connection = own.connect()
    connection.sendall(own.head("/v1/evidence/s/1/a", token, f"Content-Length: {len(ARF)}") + ARF[:100])
    until(lambda: own.unannounced() == 1, 20, "the begin of the upload")
    module_stack.database.stop("immediate")
    connection.sendall(ARF[100:])
    assert connection.recv(100).startswith(b"HTTP/1.1 503")
    connection.close()
    refused = own.put("s/1/b", ARF, token)
    assert refused.code == 503 and refused.headers["Retry-After"] == "5", refused
    assert own.answers() == 503
    module_stack.database.start()
    until(lambda: own.answers() == 200, 30, "the database")
    assert own.rows(cluster) == ""
    assert own.put("s/1/a", ARF, token).code == 201
    own.database.psql("UPDATE kube_reports_internal.evidence_body SET remove_after = now()")
    assert own.put("s/1/b", ARF, token).code == 201
    own.settled()


def test_a_restart_of_the_database(another, module_stack):
    """The process replaces connections that the database server has ended, before a sender needs one"""
    own = another()
    _, token = own.add("restart")
    assert own.put("s/1/a", ARF, token).code == 201
    module_stack.database.stop("immediate")
    module_stack.database.start()
    assert own.put("s/1/b", ARF, token).code == 201


def test_end_of_the_process(another):
    """After SIGTERM a running upload is completed, and new connections are refused"""
    own = another()
    cluster, token = own.add("ending")
    connection = own.connect()
    connection.sendall(own.head("/v1/evidence/s/1/a", token, f"Content-Length: {len(ARF)}") + ARF[:100])
    until(lambda: own.unannounced() == 1, 20, "the begin of the upload")
    own.process.send_signal(signal.SIGTERM)

    def refused():
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", own.port)).close()
            return False
        return True
    until(refused, 20, "the end of listening")
    connection.sendall(ARF[100:])
    assert connection.recv(100).startswith(b"HTTP/1.1 201")
    connection.close()
    assert own.process.wait(30) == 0
    assert own.rows(cluster) == "s|1|a"


def test_new_certificate(another, module_stack):
    """A new certificate is read without a restart, and a running upload goes on"""
    own = another()
    _, token = own.add("certificate")
    pki = f"{module_stack.database.directory}/pki-new"
    stack_command("certificates", pki)
    connection = own.connect()
    connection.sendall(own.head("/v1/evidence/s/1/a", token, f"Content-Length: {len(ARF)}") + ARF[:100])
    names = ("serving.crt", "serving.key")
    before = {name: open(f"{own.pki}/{name}", "rb").read() for name in names}  # pylint: disable=consider-using-with

    def replace(contents):
        for name in names:
            with open(f"{own.pki}/{name}", "wb") as file:
                file.write(contents[name])

    def accepted(ca):
        with contextlib.suppress(ssl.SSLError):
            context = ssl.create_default_context(cafile=ca)
            with context.wrap_socket(socket.create_connection(("127.0.0.1", own.port)), server_hostname="127.0.0.1"):
                return True
        return False
    try:
        replace({name: open(f"{pki}/{name}", "rb").read() for name in names})  # pylint: disable=consider-using-with
        until(lambda: accepted(f"{pki}/ca.crt"), 30, "the new certificate")
        connection.sendall(ARF[100:])
        assert connection.recv(100).startswith(b"HTTP/1.1 201")
        connection.close()
    finally:
        replace(before)
    until(lambda: accepted(f"{own.pki}/ca.crt"), 30, "the certificate from before")


# ---------- hostile senders ----------

def test_slow_peers(evidence):
    """Connections that send nothing, or a byte now and then, are cut, and other senders are served meanwhile"""
    cluster, token = evidence.add("slow")
    _, good = evidence.add("quick")
    silent = [socket.create_connection(("127.0.0.1", evidence.port), timeout=60) for _ in range(20)]
    heads = [evidence.connect() for _ in range(20)]
    for connection in heads:
        connection.sendall(b"PUT /v1/evidence/s/1/a HTTP/1.1\r\nX: ")
    bodies = [evidence.connect() for _ in range(4)]
    for connection in bodies:
        connection.sendall(evidence.head("/v1/evidence/s/1/a", token, "Content-Length: 1000000") + b"x")
    until(lambda: evidence.unannounced(cluster) == 4, 20, "the uploads")
    refused = evidence.put("s/1/b", ARF, token)
    assert refused.code == 429 and refused.headers["Retry-After"] == "5", refused
    assert evidence.put("s/1/b", ARF, good).code == 201
    ended = threading.Event()

    def drip():
        """Sends bytes: each restarts the time limit of the library."""
        while not ended.wait(0.5):
            for connection in heads + bodies:
                with contextlib.suppress(OSError, ValueError):
                    connection.sendall(b"x")
    dripping = threading.Thread(target=drip)
    dripping.start()
    try:
        for connection in silent + heads + bodies:
            with contextlib.suppress(OSError):
                connection.settimeout(60)
                assert connection.recv(1) == b""
        evidence.settled()
    finally:
        ended.set()
        dripping.join()
        for connection in silent + heads + bodies:
            connection.close()


def test_foreign_uris(evidence):
    """A sender whose metadata have the URI of another cluster's file can neither read nor remove this file"""
    database = evidence.database
    victim, token = evidence.add("victim")
    assert evidence.put("s/1/a", ARF, token).code == 201
    uri = evidence.rows(victim, "uri, scan, index, name").split("|")[0]
    thief, its_token = evidence.add("thief")
    database.psql("CREATE ROLE evidence_thief LOGIN PASSWORD 'right'; GRANT evidence_thief TO kube_reports_owner",
                  user="postgres")
    database.psql(f"SELECT kube_reports.grant_cluster('evidence_thief', '{thief}')")
    ask_for_passwords(database, "evidence_thief")

    def announce(index):
        file = {"scan": "s", "index": index, "name": "a", "sha256": "0" * 64, "bytes": len(ARF), "uri": uri}
        document = json.dumps({"apiVersion": "forward/v1", "evidence": [file]})
        digest = hashlib.sha256(its_token.encode()).hexdigest()
        return database.psql(
            f"SELECT code FROM kube_reports_internal.api_forward_batch('{evidence.cluster}', 'evidence', 'token', "
            f"'{digest}', convert_to('{document}', 'UTF8'))", user="kube_reports_proxy")
    assert [announce(index) for index in range(1, 6)] == ["200"] * 5
    assert evidence.rows(thief, "uri, scan, index, name") == "\n".join(f"{uri}|s|{index}|a" for index in (3, 4, 5))
    assert evidence.get("s/5/a", its_token).code == 404
    until(lambda: evidence.curl(f"/v1/evidence/{thief}/s/4/b", None, "-u", "evidence_thief:right")[0] == 404, 20,
          "the new rules of the server")
    assert evidence.curl(f"/v1/evidence/{thief}/s/5/a", None, "-u", "evidence_thief:right")[0] == 404
    # An uploaded file replaces metadata, and rotation goes on.
    for index in range(5, 9):
        assert evidence.put(f"s/{index}/a", ARF, its_token).code == 201
    database.psql(f"CALL kube_reports.unregister_cluster('{thief}')")
    # An upload starts the removal of files.
    assert evidence.put("s/1/b", ARF, token).code == 201
    evidence.settled()
    assert evidence.get("s/1/a", token).body == ARF


# ---------- the other server ----------

class Sink(http.server.BaseHTTPRequestHandler):
    """A result server that records its requests."""

    protocol_version = "HTTP/1.1"
    got = []
    code = 200

    def do_POST(self):
        body = b""
        if self.headers.get("Transfer-Encoding") == "chunked":
            while True:
                line = self.rfile.readline()
                if not line:
                    self.got.append("cut")
                    return
                size = int(line, 16)
                body += self.rfile.read(size)
                self.rfile.readline()
                if size == 0:
                    break
        else:
            length = int(self.headers["Content-Length"])
            body = self.rfile.read(length)
            if len(body) < length:
                self.got.append("cut")
                return
        self.got.append((self.headers["X-Report-Name"], self.headers.get("Content-Encoding"),
                         self.headers["Content-Type"], hashlib.sha256(body).hexdigest()))
        self.send_response(self.code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments):
        """Logs nothing."""


@pytest.fixture
def sink(module_stack):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{module_stack.pki}/serving.crt", f"{module_stack.pki}/serving.key")
    context.load_verify_locations(f"{module_stack.pki}/ca.crt")
    context.verify_mode = ssl.CERT_REQUIRED
    server.socket = context.wrap_socket(server.socket, server_side=True)
    Sink.got = []
    Sink.code = 200
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_sent_on(another, sink, module_stack, tmp_path):
    """With --store=https:// each file is sent to another result server while it arrives"""
    pki = module_stack.pki
    own = another(store=f"https://127.0.0.1:{sink.server_port}/in",
                  flags=[f"--store-ca-file={pki}/ca.crt", f"--store-client-cert-file={pki}/admin.crt",
                         f"--store-client-key-file={pki}/admin.key"])
    cluster, token = own.add("sent-on")
    digest = big_file(tmp_path / "arf", 20 * MB)
    own.reset_peak()
    before = own.memory("VmRSS")
    assert own.curl("/v1/evidence/s/1/a", token, "-T", str(tmp_path / "arf"))[0] == 201
    assert own.curl("/v1/evidence/s/1/b", token, "-T", str(tmp_path / "arf"), "-H", "Transfer-Encoding: chunked",
                    "-H", "Content-Encoding: bzip2")[0] == 201
    assert own.memory("VmHWM") - before < 16 * MB
    assert Sink.got == [("a", None, "application/xml", digest), ("b", "bzip2", "application/xml", digest)]
    assert own.rows(cluster, "name, provider, sha256, index, scan") == \
        f"a|http|{digest}|1|s\nb|http|{digest}|1|s"
    assert own.get("s/1/a", token).code == 404
    # When an upload is cut, its request to the other server is cut as well.
    for lines in (["Content-Length: 100000"], ["Transfer-Encoding: chunked"]):
        connection = own.connect()
        connection.sendall(own.head("/v1/evidence/s/1/c", token, *lines) + b"10\r\n" + b"x" * 16 + b"\r\n")
        until(lambda: own.unannounced() == 1, 20, "the begin of the upload")
        connection.close()
        until(lambda: Sink.got[-1] == "cut" and own.unannounced() == 0, 20, "the end of the upload")
        Sink.got.append("")
    for code, answer in ((500, 503), (403, 503), (507, 507)):
        Sink.code = code
        assert own.put("s/1/d", ARF, token).code == answer
    until(lambda: own.unannounced() == 0, 20, "the end of the uploads")
    assert own.rows(cluster) == "s|1|a\ns|1|b"
    sink.shutdown()
    sink.server_close()
    assert own.put("s/1/e", ARF, token).code == 503


def test_command_lines(module_stack):
    program = f"{module_stack.database.directory}/dest/usr/bin/kube-reports-evidence"
    for flags, named in (([], "tls-cert-file"), (["--store=ftp://x"], "store"),
                         (["--store=s3://bucket"], "s3-endpoint"), (["--store=file:///x/"], "slash"),
                         (["--frob"], "frob"),
                         *((["--store=https://" + wrong + "/x"], "store") for wrong in WRONG_ADDRESSES),
                         *((["--store=s3://bucket", f"--s3-endpoint=http://{wrong}"], "s3-endpoint")
                           for wrong in WRONG_ADDRESSES)):
        needed = [f"--tls-cert-file={module_stack.pki}/serving.crt",
                  f"--tls-private-key-file={module_stack.pki}/serving.key"] if flags else []
        done = run([program, *needed, *flags], check=False)
        assert done.code == 2 and named in done.err, (flags, done)
    assert run([program, "--version"]).out == f"kube-reports-evidence {VERSION}\n"


def test_page(another, tmp_path):
    """docs/evidence.md, from the grant to a reader's download"""
    own = another(flags=["--reader-downloads"])
    database = own.database
    shells, statements = ([text for found, text in blocks_of("docs/evidence.md") if found == language]
                          for language in ("", "sql"))
    (tmp_path / "arf.xml").write_bytes(ARF)
    (tmp_path / "ca.crt").symlink_to(f"{own.pki}/ca.crt")
    environment = {**os.environ, "PGHOST": database.directory, "PGUSER": "kube_reports_owner",
                   "PGDATABASE": "kube_reports", "PGSERVICEFILE": str(tmp_path / "services")}
    (tmp_path / "services").write_text("[kube-reports]\nuser=kube_reports_proxy\n", encoding="ascii")
    for name in ("serving.crt", "serving.key"):
        (tmp_path / name).symlink_to(f"{own.pki}/{name}")
    (tmp_path / "senders.crt").symlink_to(f"{own.pki}/senders/ca.crt")
    # regress/chart runs the blocks with helm, regress/evidence that with a bucket.
    start, send, download, read = (text for text in shells if "helm" not in text and "s3://" not in text)

    def shell(text, port):
        text = re.sub(r"^\$ ", "", text, flags=re.M).replace("127.0.0.1:8443", f"127.0.0.1:{port}")
        return run(["/bin/bash", "-e", "-c", text], cwd=tmp_path, env=environment, check=True).out.strip()

    # The server of the page, and that of the test for its readers, have the same store.
    grant, directory, server = start.split("\n", 2)
    shell(grant, 0)
    if PRIVATE_MOUNTS:
        run([*OWN_DISK[:3], "bash", "-ec", f"mount -t tmpfs tmpfs /var/lib\n{directory}\n"
             "test -w /var/lib/kube-reports-evidence"])
    port = free_port()
    server = server.replace("/var/lib/kube-reports-evidence", own.directory).replace(
        "--secure-port=8443", f"--bind-address=127.0.0.1 --secure-port={port} --metrics-port=0").replace(
            "kube-reports-evidence", f"exec {database.directory}/dest/usr/bin/kube-reports-evidence", 1)
    with subprocess.Popen(["/bin/bash", "-c", server], cwd=tmp_path, env=environment) as started:
        try:
            def listens():
                assert started.poll() is None
                with contextlib.suppress(OSError):
                    return Api(port, f"{own.pki}/ca.crt").get("/readyz").code == 200
                return False
            until(listens, 30, "the server of the page")
            told = json.loads(shell(send, port))
            assert (told["scan"], told["index"], told["name"]) == ("ocp4-cis", 7, "master-0-pod")
            digest = hashlib.sha256(ARF).hexdigest()
            assert shell(download, port).split()[0] == digest
        finally:
            started.send_signal(signal.SIGTERM)
        assert started.wait(40) == 0
    if os.getuid() == 0:
        run(["chown", "-R", "postgres", own.directory])
    view, setting = statements
    assert f"west|ocp4-cis|7|master-0-pod|{len(ARF)}||{digest}|file://{own.directory}/" in database.psql(view)
    database.psql(f"BEGIN; {setting} ROLLBACK;")
    database.psql("CREATE ROLE auditor LOGIN PASSWORD 'secret'; GRANT auditor TO kube_reports_owner", user="postgres")
    database.psql(f"SELECT kube_reports.grant_cluster('auditor', '{told['cluster']}')")
    ask_for_passwords(database, "auditor")
    until(lambda: shell(read, own.port).split()[0] == digest, 20, "the new rules of the database server")


def test_secret_of_the_page(tmp_path):
    """The Secret that the page makes for a bucket has the name and the key that its release asks for"""
    (text,) = (text for _, text in blocks_of("docs/evidence.md") if "evidence.store=s3" in text)
    commands, helm, values = text.partition("helm install")
    assert helm and commands.count("kubectl ") == 2
    (tmp_path / "s3.credentials").write_text("ACCESS:SECRET\n", encoding="ascii")
    binary = next(path for path in reversed(KUBECTLS) if path)
    made = run(["bash", "-ec", f'kubectl() {{ {binary} "$@" --dry-run=client -o yaml; echo ---; }}\n{commands}'],
               cwd=tmp_path).out
    namespace, secret = (document for document in yaml.safe_load_all(made) if document)
    assert (namespace["kind"], namespace["metadata"]["name"]) == ("Namespace", "kube-reports")
    assert secret["metadata"]["namespace"] == "kube-reports" and "--namespace kube-reports " in values
    assert f"--set evidence.s3.credentials.secretName={secret['metadata']['name']}\n" in values
    chart = yaml.safe_load((TOP / "helm" / "kube-reports" / "values.yaml").read_text(encoding="utf-8"))
    assert {key: base64.b64decode(value) for key, value in secret["data"].items()} == {
        chart["evidence"]["s3"]["credentials"]["key"]: b"ACCESS:SECRET\n"}
