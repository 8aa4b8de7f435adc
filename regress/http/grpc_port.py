"""A kube-reports-grpc and its senders: protoc makes messages from docs/proto, grpcio makes calls."""

import importlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import uuid

import grpc

from client import run, until
from conftest import STACK, TOP, free_port

SERVICE = "/kube_reports.forward.v1.ForwardService/"
NONE = bytes
OPTIONS = [("grpc.enable_retries", 0), ("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1),
           ("grpc.use_local_subchannel_pool", 1)]


def load_messages():
    """Makes and returns the modules of forward.proto and compliance.proto."""
    with tempfile.TemporaryDirectory() as directory:
        protos = [f"{TOP}/docs/proto/{name}.proto" for name in ("forward", "compliance")]
        run(["protoc", f"--proto_path={TOP}/docs/proto", f"--python_out={directory}", *protos])
        sys.path.insert(0, directory)
        try:
            return importlib.import_module("forward_pb2"), importlib.import_module("compliance_pb2")
        finally:
            sys.path.remove(directory)


FORWARD, COMPLIANCE = load_messages()


def result(rule, outcome="PASS", subject="cluster.example.com", **more):
    return FORWARD.Result(**{"subject": subject, "control": "NIST-800-53: CM-6;CM-6(1)", "rule": rule,
                             "outcome": outcome, "severity": "high", "description": f"what {rule} wants",
                             "instructions": "look", "extra": {"resourceType": "cluster"}, **more})


def batch(results, sequence=1, last=True, assessment=None, scan="ocp4-cis", **more):
    return FORWARD.Batch(assessment_id=assessment or str(uuid.uuid4()), sequence=sequence, last=last, prune=True,
                         scan=FORWARD.Scan(name=scan, suite="cis", end_timestamp="2026-01-05T01:06:10Z"),
                         results=results, **more)


class GrpcPort:
    """A kube-reports-grpc in front of a database."""

    def __init__(self, stack, flags=(), under=()):
        self.pki = stack.pki
        self.port = free_port()
        self.metrics_port = free_port()
        self.log_path = pathlib.Path(stack.pki) / f"grpc-{self.port}.log"
        self.command = [
            "/bin/bash", STACK, "become_server", *under,
            f"{stack.database.directory}/dest/usr/bin/kube-reports-grpc",
            "--bind-address=127.0.0.1", f"--port={self.port}",
            "--metrics-bind-address=127.0.0.1", f"--metrics-port={self.metrics_port}",
            f"--tls-cert-file={stack.pki}/serving.crt", f"--tls-private-key-file={stack.pki}/serving.key",
            f"--client-ca-file={stack.pki}/senders/ca.crt",
            f"--database={stack.database.connection('kube_reports_proxy')}", f"--cluster-id={stack.cluster}",
            "--v=1", *flags]
        self.start()

    def start(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                                            start_new_session=True)

    def fetch(self, path):
        """Returns code and text of an answer of the plain port; None while it does not listen."""
        assert self.process.poll() is None, f"kube-reports-grpc has ended: {self.log_path.read_text()[-2000:]}"
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return None

    def wait_ready(self, seconds=30):
        until(lambda: (self.fetch("/readyz") or (0, ""))[0] == 200, seconds, "readiness of kube-reports-grpc")
        return self

    def metric(self, name):
        for line in self.fetch("/metrics")[1].splitlines():
            if line.rsplit(" ", 1)[0] == name:
                return float(line.rsplit(" ", 1)[1])
        return 0

    def memory(self):
        """Returns the number of resident bytes."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as lines:
            return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(15)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(40)

    def channel(self, certificate=None, options=()):
        def read(path):
            return pathlib.Path(path).read_bytes()
        pair = (read(certificate + ".key"), read(certificate + ".crt")) if certificate else (None, None)
        return grpc.secure_channel(f"127.0.0.1:{self.port}",
                                   grpc.ssl_channel_credentials(read(f"{self.pki}/ca.crt"), *pair),
                                   [*OPTIONS, *options])


class Sender:
    """Calls with one credential: a token, or a certificate (path without .crt)."""

    def __init__(self, port, token=None, certificate=None):
        self.channel = port.channel(certificate)
        self.metadata = [("authorization", f"Bearer {token}")] if token is not None else []

    def batch(self, message, timeout=30, metadata=()):
        """Calls StoreBatch with a Batch, or with any bytes."""
        call = self.channel.unary_unary(SERVICE + "StoreBatch", lambda m: m if isinstance(m, bytes) else
                                        m.SerializeToString(), FORWARD.Stored.FromString)
        return call(message, timeout=timeout, metadata=[*self.metadata, *metadata])

    def batches(self, messages, timeout=None):
        """Calls StoreBatches; returns an iterator of the answers."""
        call = self.channel.stream_stream(SERVICE + "StoreBatches", FORWARD.Batch.SerializeToString,
                                          FORWARD.Stored.FromString)
        return call(messages, timeout=timeout, metadata=self.metadata)

    def evidence(self, messages, timeout=30):
        """Calls StoreEvidence; returns an iterator of the answers."""
        call = self.channel.stream_stream(SERVICE + "StoreEvidence", lambda m: m if isinstance(m, bytes) else
                                          m.SerializeToString(), FORWARD.EvidenceStored.FromString)
        return call(messages, timeout=timeout, metadata=self.metadata)

    def result(self, timeout=30, metadata=(), **fields):
        """Calls SetResult."""
        call = self.channel.unary_unary("/ComplianceService/SetResult", COMPLIANCE.ResultRequest.SerializeToString,
                                        COMPLIANCE.ResultResponse.FromString)
        return call(COMPLIANCE.ResultRequest(**fields), timeout=timeout, metadata=[*self.metadata, *metadata])

    def raw(self, method, message, timeout=30):
        """Calls any method with any bytes; returns the bytes of the answer."""
        return self.channel.unary_unary(method, NONE, NONE)(message, timeout=timeout, metadata=self.metadata)

    def close(self):
        self.channel.close()


def code_of(call, *arguments, **more):
    """Makes a call and returns the name of its status code."""
    try:
        call(*arguments, **more)
        return "OK"
    except grpc.RpcError as error:
        return error.code().name
