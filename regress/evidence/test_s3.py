"""
Evidence in an S3 bucket: Versity's gateway, which verifies signatures, serves a directory as a bucket.

The environment has the programs S3_SERVER and HELM3; .ci/check-evidence builds them.
"""

import hashlib
import http.client
import json
import os
import pathlib
import shlex
import signal
import subprocess
import threading

import pytest
import yaml

from client import Api, run, until
from conftest import TOP, free_port
from evidence import Evidence, sender_certificates
from runbook import blocks_of

MB = 1024 * 1024
ARF = b"<arf>" + b"evidence " * 1000 + b"</arf>"
CREDENTIALS = "kube-reports:a-secret-of-tests"


class Bucket:
    """An S3 server with one bucket, as files of a directory."""

    def __init__(self, directory, pki, disk=None):
        """disk: the size of the server's own disk, which no other process sees."""
        self.root = pathlib.Path(directory)
        self.under = []
        if disk:
            self.under = ["unshare", *(["--map-root-user"] if os.getuid() else []), "--mount", "bash", "-ec",
                          f'mount -t tmpfs -o size={disk} tmpfs "$0"; mkdir "$0/evidence"; exec "$@"', str(self.root)]
        self.metadata = self.root.with_name("metadata")
        self.root.mkdir()
        self.metadata.mkdir()
        self.port = free_port()
        self.pki = pki
        (self.root / "evidence").mkdir()
        self.access, self.secret = CREDENTIALS.split(":")
        self.start()

    def start(self):
        # pylint: disable=consider-using-with
        self.process = subprocess.Popen(
            [*self.under, os.environ["S3_SERVER"], "--port", f"127.0.0.1:{self.port}", "--access", self.access,
             "--secret", self.secret, "--cert", f"{self.pki}/serving.crt", "--key", f"{self.pki}/serving.key", "posix",
             "--sidecar", str(self.metadata), str(self.root)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def listens():
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.connect()
                connection.close()
                return True
            except OSError:
                return False
        until(listens, 30, "the S3 server")

    def stop(self):
        self.process.kill()
        self.process.wait(15)

    def place(self):
        """Returns the bucket's directory as the server sees it."""
        return pathlib.Path(f"/proc/{self.process.pid}/root{self.root}/evidence")

    def files(self):
        return sorted(str(path.relative_to(self.place())) for path in self.place().rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def bucket(module_stack, tmp_path_factory):
    sender_certificates(module_stack.pki)
    server = Bucket(tmp_path_factory.mktemp("s3") / "root", module_stack.pki)
    yield server
    server.stop()


def process(stack, bucket, credentials=CREDENTIALS, store="s3://evidence/arf", **more):
    path = f"{stack.database.directory}/s3-{hashlib.sha256(credentials.encode()).hexdigest()[:8]}"
    pathlib.Path(path).write_text(credentials + "\n", encoding="ascii")
    return Evidence(stack, ["--max-body-bytes=209715200", f"--s3-endpoint=https://127.0.0.1:{bucket.port}",
                            f"--s3-credentials-file={path}", "--s3-part-bytes=5242880",
                            f"--store-ca-file={stack.pki}/ca.crt"], store=store, **more)


@pytest.fixture(scope="module")
def evidence(module_stack, bucket):
    started = process(module_stack, bucket)
    yield started
    started.stop()


def settled(evidence, bucket):
    announced = ("SELECT place || '/' || key FROM kube_reports_internal.evidence_file WHERE place = "
                 f"'{evidence.store}' ORDER BY 1")

    def same():
        there = [f"s3://evidence/{name}" for name in bucket.files()]
        return evidence.unannounced() == 0 and sorted(evidence.database.psql(announced).split()) == sorted(there)
    until(same, 60, "the bucket to have what is announced, and nothing else")


def big_file(path, size):
    block = os.urandom(MB)
    with open(path, "wb") as file:
        for _ in range(size // MB):
            file.write(block)
    return hashlib.sha256(block * (size // MB)).hexdigest()


def test_small_files(evidence, bucket):
    """One PUT stores a small file; a replaced file is removed; rotation removes files"""
    cluster, token = evidence.add("small")
    for index in (1, 2, 3, 4):
        assert evidence.put(f"scan/{index}/a", b"<%d/>" % index + ARF, token).code == 201
    assert evidence.put("scan/4/a", ARF, token).code == 201
    assert evidence.put("scan/4/a", ARF, token).code == 200
    assert evidence.rows(cluster, "scan, index, name, provider") == "scan|2|a|s3\nscan|3|a|s3\nscan|4|a|s3"
    given = evidence.get("scan/4/a", token)
    assert (given.code, given.body) == (200, ARF)
    settled(evidence, bucket)


def test_large_files(evidence, bucket, tmp_path):
    """100 MB are stored in parts, with a length and chunked; the process holds one part in memory"""
    cluster, token = evidence.add("large")
    digest = big_file(tmp_path / "arf", 100 * MB)
    evidence.reset_peak()
    before = evidence.memory("VmRSS")
    for name, more in (("a", []), ("b", ["-H", "Transfer-Encoding: chunked"])):
        code, body = evidence.curl(f"/v1/evidence/large/1/{name}", token, "-T", str(tmp_path / "arf"), *more)
        assert code == 201, body + evidence.log()[-2000:]
    assert evidence.rows(cluster, "name, index, scan, sha256, bytes") == \
        f"a|1|large|{digest}|{100 * MB}\nb|1|large|{digest}|{100 * MB}"
    assert evidence.curl("/v1/evidence/large/1/b", token, "-o", str(tmp_path / "back"))[0] == 200
    run(["cmp", str(tmp_path / "arf"), str(tmp_path / "back")])
    assert evidence.memory("VmHWM") - before < 32 * MB
    settled(evidence, bucket)


def test_cut_transfers(evidence, bucket):
    """An upload that is cut before or after its first part leaves nothing in the bucket"""
    cluster, token = evidence.add("cut")
    for size in (100, 12 * MB):
        connection = evidence.connect()
        connection.sendall(evidence.head("/v1/evidence/s/1/a", token, f"Content-Length: {20 * MB}") + b"x" * size)
        until(lambda: evidence.unannounced() == 1, 20, "the begin of the upload")
        connection.close()
        settled(evidence, bucket)
    assert evidence.rows(cluster) == ""


def test_wrong_signature(module_stack, bucket):
    """When the server refuses the signature, the answer is 503, and no file is announced"""
    own = process(module_stack, bucket, "kube-reports:another-secret")
    try:
        cluster, token = own.add("wrong")
        refused = own.put("s/1/a", ARF, token)
        assert refused.code == 503 and refused.headers["Retry-After"], refused
        until(lambda: "SignatureDoesNotMatch" in own.log(), 20, "the line of the log")
        assert own.rows(cluster) == ""
        assert own.get("s/1/a", token).code == 404
    finally:
        own.stop()
        own.database.psql("DELETE FROM kube_reports_internal.evidence_body")


def test_killed(module_stack, evidence, bucket):
    """After kill -9 between two parts, another process removes the parts of the upload"""
    own = process(module_stack, bucket)
    cluster, token = own.add("killed")
    connection = own.connect()
    before = set(bucket.files())
    connection.sendall(own.head("/v1/evidence/s/1/a", token, f"Content-Length: {20 * MB}") + b"x" * 12 * MB)
    until(lambda: set(bucket.files()) - before, 30, "the first part")
    own.kill()
    connection.close()
    assert own.rows(cluster) == ""
    own.database.psql("UPDATE kube_reports_internal.evidence_body SET remove_after = now()")
    assert evidence.put("s/1/b", ARF, token).code == 201
    settled(evidence, bucket)


def test_an_outage_of_the_store(evidence, bucket):
    cluster, token = evidence.add("outage")
    bucket.stop()
    refused = evidence.put("s/1/a", ARF, token)
    assert refused.code == 503 and refused.headers["Retry-After"], refused
    bucket.start()
    assert evidence.put("s/1/a", ARF, token).code == 201
    bucket.process.send_signal(signal.SIGSTOP)
    answers = []
    thread = threading.Thread(target=lambda: answers.append(evidence.put("s/1/b", ARF, token)))
    thread.start()
    until(lambda: evidence.unannounced() >= 1, 20, "the begin of the upload")
    bucket.process.send_signal(signal.SIGCONT)
    thread.join()
    assert answers[0].code == 201
    evidence.database.psql("UPDATE kube_reports_internal.evidence_body SET remove_after = now()")
    assert evidence.put("s/1/c", ARF, token).code == 201
    assert evidence.rows(cluster) == "s|1|a\ns|1|b\ns|1|c"
    settled(evidence, bucket)


def test_full_disk(module_stack, bucket, tmp_path, tmp_path_factory):
    """The disk of the S3 server is full at a PUT, a part, or the end of an upload: 507, and nothing is left."""
    full = Bucket(tmp_path_factory.mktemp("full") / "root", bucket.pki, disk="16m")
    own = process(module_stack, full, store="s3://evidence/full")
    try:
        cluster, token = own.add("full")
        assert own.put("s/1/before", ARF, token).code == 201
        before = full.files()
        filler = full.place().parent / "filler"
        # A file of one part; a file whose last part has no room; a file whose parts have room, but not the whole file
        # beside them.
        for taken, size in ((13, 4), (0, 20), (4, 10)):
            filler.write_bytes(bytes(taken * MB))
            big_file(tmp_path / "arf", size * MB)
            for more in ([], ["-H", "Transfer-Encoding: chunked"]):
                code, body = own.curl("/v1/evidence/s/1/a", token, "-T", str(tmp_path / "arf"), *more)
                assert code == 507, (size, body, own.log()[-800:])
                assert json.loads(body)["reason"] == "InsufficientStorage"
                settled(own, full)
                assert full.files() == before
            filler.unlink()
        assert own.metrics()['kube_reports_evidence_store_failures_total{reason="full"}'] == 6
        assert own.put("s/1/a", ARF, token).code == 201
        assert own.rows(cluster) == "s|1|a\ns|1|before"
        settled(own, full)
    finally:
        own.stop()
        full.stop()


# ---------- docs/evidence.md ----------

def block(text):
    """The block of the page that has this text."""
    (found,) = (shown for _, shown in blocks_of("docs/evidence.md") if text in shown)
    return found


def test_page(module_stack, bucket, evidence, tmp_path):
    """The commands of the page for a bucket start a server that stores files there"""
    cluster, token = evidence.add("page")
    database = module_stack.database
    for name, file in (("serving.crt", "serving.crt"), ("serving.key", "serving.key"),
                       ("senders.crt", "senders/ca.crt")):
        (tmp_path / name).symlink_to(f"{module_stack.pki}/{file}")
    port = free_port()
    text = block("--store=s3").replace("https://s3.example.com", f"https://127.0.0.1:{bucket.port}").replace(
        "--secure-port=8443", f"--bind-address=127.0.0.1 --secure-port={port} --metrics-port=0 "
        f"--store-ca-file={module_stack.pki}/ca.crt").replace(
            "kube-reports-evidence", f"exec {database.directory}/dest/usr/bin/kube-reports-evidence", 1)
    (tmp_path / "services").write_text(f"[kube-reports]\nhost={database.directory}\ndbname=kube_reports\n"
                                       "user=kube_reports_proxy\n", encoding="ascii")
    environment = {**os.environ, "ACCESS_KEY_ID": bucket.access, "SECRET_ACCESS_KEY": bucket.secret,
                   "PGSERVICEFILE": str(tmp_path / "services")}
    with subprocess.Popen(["/bin/bash", "-ec", text], cwd=tmp_path, env=environment) as started:
        try:
            api = Api(port, f"{module_stack.pki}/ca.crt")

            def listens():
                assert started.poll() is None
                try:
                    return api.get("/readyz").code == 200
                except OSError:
                    return False
            until(listens, 30, "the server of the page")
            evidence.port, own = port, evidence.port
            try:
                assert evidence.put("s/1/a", ARF, token).code == 201
                assert evidence.get("s/1/a", token).body == ARF
            finally:
                evidence.port = own
        finally:
            started.send_signal(signal.SIGTERM)
        assert started.wait(40) == 0
    assert evidence.database.psql("SELECT name, provider, uri LIKE 's3://evidence/files/%' FROM kube_reports.evidence "
                                  f"WHERE cluster = '{cluster}'") == "a|s3|t"
    assert [name for name in bucket.files() if name.startswith("files/")]


def test_release_of_the_page(module_stack, bucket):
    """The flags that the release of the page gives its pods for the store, with the Secret's file and a bucket here"""
    text = block("evidence.store=s3")
    words = shlex.split(text[text.index("helm install "):].replace("\\\n", " "))
    made = run([os.environ["HELM3"], "template", words[2], str(TOP / words[3]), *[word for word in words[4:]
                if word != "--create-namespace"], "--kube-version=1.31.0"]).out
    (pod,) = (document["spec"]["template"]["spec"] for document in yaml.safe_load_all(made)
              if document and document["kind"] == "Deployment" and document["metadata"]["name"].endswith("-evidence"))
    (container,) = pod["containers"]
    flags = dict(word.removeprefix("--").split("=", 1) for word in container["args"] if "=" in word)
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    (secret,) = (volume for volume in pod["volumes"] if volume.get("secret", {}).get("secretName") == "bucket")
    place, _, key = flags["s3-credentials-file"].rpartition("/")
    assert place == mounts[secret["name"]] and f"--from-file={key}=" in text
    assert flags["s3-endpoint"] == "https://s3.example.com"
    path = pathlib.Path(f"{module_stack.database.directory}/{key}")
    path.write_text(CREDENTIALS + "\n", encoding="ascii")
    own = Evidence(module_stack, [f"--s3-endpoint=https://127.0.0.1:{bucket.port}", f"--s3-credentials-file={path}",
                                  f"--s3-region={flags['s3-region']}", f"--store-ca-file={module_stack.pki}/ca.crt"],
                   store=flags["store"])
    try:
        cluster, token = own.add("release")
        assert own.put("s/1/a", ARF, token).code == 201
        assert own.get("s/1/a", token).body == ARF
        assert own.rows(cluster, "name, provider") == "a|s3"
    finally:
        own.stop()
