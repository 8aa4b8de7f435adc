#!/usr/bin/python3
"""A throw-away database with a kube-reports-grpc for a sender in another language; see regress/clients/stack.py.

When it is ready, one line of JSON says where: {"address": host and port, "pki": directory, "token": of a sender,
"cluster": its uid, "certified": uid of the cluster whose sender has the certificate pki/senders/east.crt}.  Commands:

    query SQL        answers {"rows": text}
    hold             batches of the token's sender wait from now on
    release          these batches go on
    kill             ends kube-reports-grpc by SIGKILL and starts it again on its port
"""

import os
import pathlib
import pwd
import sys
import uuid

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "http"), str(HERE.parent / "clients")]

import psycopg2  # noqa: E402
from conftest import VARIANT, Stack, stack_command  # noqa: E402
from grpc_port import GrpcPort  # noqa: E402
from stack import serve  # noqa: E402


def certificates(pki):
    senders = f"{pki}/senders"
    stack_command("certificates", senders)
    stack_command("certificate", senders, "east", "/CN=east-sender", "clientAuth")
    if os.getuid() == 0:
        owner = pwd.getpwnam("postgres")
        for entry in [senders, *(os.path.join(senders, name) for name in os.listdir(senders))]:
            os.chown(entry, owner.pw_uid, owner.pw_gid)


class GrpcStack:
    """The database, the gRPC port, and a connection whose lock makes batches wait."""

    def __init__(self):
        self.stack = Stack()
        self.port = None
        self.holder = None

    def begin(self):
        self.stack.begin()
        certificates(self.stack.pki)
        psql = self.stack.database.psql
        psql("SELECT kube_reports.grant_ingest('kube_reports_proxy')")
        if VARIANT == "sql":
            # The upkeep of the proxy makes results of the stored batches.
            self.stack.proxy()
        cluster, certified = str(uuid.uuid4()), str(uuid.uuid4())
        token = psql(f"SELECT kube_reports.add_sender('{cluster}', 'go-token', cluster_name => 'go')")
        psql(f"SELECT kube_reports.add_sender('{certified}', 'go-certificate', certificate => 'east-sender')")
        self.port = GrpcPort(self.stack).wait_ready()
        return {"address": f"127.0.0.1:{self.port.port}", "pki": self.stack.pki, "token": token, "cluster": cluster,
                "certified": certified}

    def obey(self, line):
        word, _, rest = line.strip().partition(" ")
        if word == "query":
            return {"rows": self.stack.database.psql(rest)}
        if word == "hold":
            self.holder = psycopg2.connect(self.stack.database.connection())
            self.holder.cursor().execute("SELECT FROM kube_reports_internal.sender_credential WHERE name = 'go-token' "
                                         "FOR UPDATE")
        elif word == "release":
            self.holder.close()
        elif word == "kill":
            self.port.kill()
            self.port.start()
            self.port.wait_ready()
        else:
            raise ValueError(f"no such command: {line}")
        return {}

    def end(self):
        if self.port is not None:
            self.port.stop()
        self.stack.end()


if __name__ == "__main__":
    one = GrpcStack()
    serve(one.begin, one.obey, one.end)
