"""A kube-reports-evidence with its senders, for regress/http/test_evidence*.py and regress/evidence."""

import contextlib
import http.client
import os
import pathlib
import pwd
import signal
import socket
import ssl
import subprocess
import uuid

from client import Answer, Api, run, until
from conftest import STACK, free_port, stack_command


def sender_certificates(pki):
    """Makes certificates of senders in PKI/senders, by a CA of their own."""
    certificates = f"{pki}/senders"
    stack_command("certificates", certificates)
    stack_command("certificate", certificates, "east", "/CN=east-evidence", "clientAuth")
    stack_command("certificate", certificates, "stranger", "/CN=stranger", "clientAuth")
    stack_command("certificate", certificates, "server", "/CN=server-evidence", "serverAuth")
    if os.getuid() == 0:
        owner = pwd.getpwnam("postgres")
        for entry in [certificates, *(os.path.join(certificates, name) for name in os.listdir(certificates))]:
            os.chown(entry, owner.pw_uid, owner.pw_gid)


class Evidence:
    """A process kube-reports-evidence."""

    def __init__(self, own, flags=(), under=(), store=None, ready=True):
        """under: a command, such as prlimit, that starts kube-reports-evidence in the same process."""
        self.database = own.database
        self.pki = own.pki
        self.cluster = own.cluster
        self.port = free_port()
        self.metrics_port = free_port()
        self.directory = f"{own.database.directory}/evidence-{self.port}"
        stack_command("as_server", "mkdir", self.directory)
        self.database.psql("SELECT kube_reports.grant_ingest('kube_reports_proxy')")
        self.store = store or f"file://{self.directory}"
        self.log_path = pathlib.Path(f"{self.directory}.log")
        self.command = [
            "/bin/bash", STACK, "become_server", *under,
            f"{own.database.directory}/dest/usr/bin/kube-reports-evidence", "--bind-address=127.0.0.1",
            f"--secure-port={self.port}", "--metrics-bind-address=127.0.0.1",
            f"--metrics-port={self.metrics_port}", f"--tls-cert-file={own.pki}/serving.crt",
            f"--tls-private-key-file={own.pki}/serving.key", f"--client-ca-file={own.pki}/senders/ca.crt",
            f"--database={own.database.connection('kube_reports_proxy')}",
            f"--store={self.store}", "--v=1", *flags]
        self.start(ready)

    def start(self, ready=True):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                                            start_new_session=True)
        if ready:
            until(lambda: self.answers() == 200, 30, "the start of kube-reports-evidence")

    def answers(self):
        assert self.process.poll() is None, self.log()
        with contextlib.suppress(OSError):
            return self.api().get("/readyz").code
        return None

    def plain(self, path):
        """Returns the status and the text of an answer of the port for health and metrics."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.metrics_port, timeout=30)) as connection:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()

    def metrics(self):
        """Returns the values of /metrics by name with labels."""
        lines = (line.rpartition(" ") for line in self.plain("/metrics")[1].splitlines() if line[:1] != "#")
        return {name: float(value) for name, _, value in lines}

    def log(self):
        return self.log_path.read_text(encoding="utf-8")

    def kill(self):
        self.process.kill()
        self.process.wait(15)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(40)
            except subprocess.TimeoutExpired:
                self.kill()

    def add(self, name, cluster=None, **more):
        """Adds a sender, by default of a new cluster; returns the cluster and the token."""
        cluster = cluster or str(uuid.uuid4())
        arguments = "".join(f", {key} => '{value}'" for key, value in more.items())
        return cluster, self.database.psql(f"SELECT kube_reports.add_sender('{cluster}', '{name}'{arguments})")

    def api(self, certificate=None):
        return Api(self.port, f"{self.pki}/ca.crt", certificate and f"{self.pki}/senders/{certificate}")

    def send(self, method, path, body=None, token=None, certificate=None, headers=None):
        headers = dict({"Content-Type": "application/xml"} if body is not None else {}, **(headers or {}))
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        connection = self.api(certificate).connect(60)
        with contextlib.closing(connection):
            connection.request(method, path, body,
                               {name: value for name, value in headers.items() if value is not None},
                               encode_chunked="Transfer-Encoding" in headers)
            response = connection.getresponse()
            return Answer(response, response.read())

    def put(self, path, body, token, **headers):
        return self.send("PUT", f"/v1/evidence/{path}", body, token, headers=headers)

    def get(self, path, token):
        return self.send("GET", f"/v1/evidence/{path}", token=token)

    def curl(self, path, token, *arguments):
        """Runs curl, which streams files; returns status and body of the answer."""
        proof = ["-H", f"Authorization: Bearer {token}"] if token else []
        done = run(["curl", "--silent", "--show-error", "--cacert", f"{self.pki}/ca.crt", *proof, "-H",
                    "Content-Type: application/xml", "-w", "\n%{http_code}", *arguments,
                    f"https://127.0.0.1:{self.port}{path}"], check=False, timeout=300)
        body, _, code = done.out.rpartition("\n")
        return int(code), body

    def connect(self, certificate=None):
        """Opens a TLS connection, for bytes that no client library sends."""
        context = ssl.create_default_context(cafile=f"{self.pki}/ca.crt")
        if certificate:
            context.load_cert_chain(f"{self.pki}/senders/{certificate}.crt", f"{self.pki}/senders/{certificate}.key")
        return context.wrap_socket(socket.create_connection(("127.0.0.1", self.port), timeout=60),
                                   server_hostname="127.0.0.1")

    def head(self, path, token, *lines, method="PUT"):
        return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {token}",
                            "Content-Type: application/xml", *lines, "", ""]).encode()

    def files(self):
        """Returns the files in the store's directory, also files that are being received."""
        return sorted(str(path.relative_to(self.directory)) for path in pathlib.Path(self.directory).rglob("*")
                      if path.is_file())

    def rows(self, cluster, columns="scan, index, name"):
        return self.database.psql(f"SELECT {columns} FROM kube_reports.evidence WHERE cluster = '{cluster}' "
                                  "ORDER BY scan, index, name")

    def unannounced(self, cluster=None):
        """Returns the number of files in the database that are not announced, of one cluster or of all clusters."""
        of_cluster = f" AND c.uid = '{cluster}'" if cluster else ""
        return int(self.database.psql("SELECT count(*) FROM kube_reports_internal.evidence_body b "
                                      "LEFT JOIN kube_reports.cluster c ON c.id = b.cluster_id "
                                      f"WHERE b.place = '{self.store}'{of_cluster}"))

    def settled(self):
        """Waits until all files in the store and in the database are announced."""
        announced = f"SELECT count(*) FROM kube_reports_internal.evidence_file WHERE place = '{self.store}'"
        until(lambda: self.unannounced() == 0 and len(self.files()) == int(self.database.psql(announced)), 30,
              "the removal of what nothing announces")

    def memory(self, field):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":"))

    def reset_peak(self):
        with open(f"/proc/{self.process.pid}/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
