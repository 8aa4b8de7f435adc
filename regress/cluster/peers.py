#!/usr/bin/python3
"""Compares our proxy with other servers of policy reports, on this machine, in one run.

Run by make bench-peers.  Each side is fresh and has the machine for itself: a control plane, its store, and the server
that is asked directly, by regress/bench/neutral.py.  fsync is on everywhere.  A bar that is missed is marked FAIL and
makes the exit status 1.

	proxy           kube-reports-proxy and PostgreSQL; kube-apiserver authenticates clients
	crd             kube-apiserver with Kyverno's CustomResourceDefinition in etcd
	kine            the same kube-apiserver, with kine and PostgreSQL in the place of etcd
	reports-server  Kyverno's reports-server and PostgreSQL, authentication as with the proxy
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import time
import urllib.request

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path[:0] = [str(TOP / "regress" / part) for part in ("cluster", "http", "bench")]

from client import POLR, path_of, until  # noqa: E402
from conftest import HTTP, Cluster  # noqa: E402
from control_plane import ControlPlane, Process  # noqa: E402
import neutral  # noqa: E402
from neutral import Neutral, memory_of, number, times  # noqa: E402

MIB = 1024 * 1024
CRD = TOP / "sql" / "crds" / "policyreports.wgpolicyk8s.io.json"
# The same settings for each side that has PostgreSQL.
SETTINGS = ("fsync = on", "shared_buffers = 1GB", "max_wal_size = 8GB", "checkpoint_timeout = 30min",
            "autovacuum_naptime = 10s")
ETCD_FLAGS = ("--quota-backend-bytes=8589934592",)
OURS = "proxy"
# The side that bars compare ours with.
BAR = "crd"


class KinePlane(ControlPlane):
    """A control plane whose objects are in a database of PostgreSQL: kine speaks etcd's protocol."""

    def _store(self, flags):
        return self._run("kine", [f"--endpoint=postgres://postgres@/kine?host={self.directory.parent}",
                                  f"--listen-address=127.0.0.1:{self.etcd_port}", "--metrics-bind-address=0"])


class Side:
    """One of the servers; its requests and answers are in client, its sizes in sizes."""

    database_name = None

    def __init__(self):
        self.stack = self.plane = None
        self.sizes = {}

    # --- what differs ---

    def begin(self):
        raise NotImplementedError

    def port(self):
        """Returns the port of the server that clients ask."""
        return self.plane.port

    def servers(self):
        """Returns the processes that serve reports, without those that store them."""
        return [self.plane.apiserver.process.pid]

    # --- what is the same ---

    def bare_stack(self, plane_class=ControlPlane):
        """Starts a PostgreSQL without the extension, and a control plane."""
        self.stack = HTTP.Stack()
        self.stack.database.start(*SETTINGS)
        self.start_plane(plane_class)

    def start_plane(self, plane_class):
        self.plane = plane_class(f"{self.stack.database.directory}/control-plane", self.stack.pki, HTTP.stack_command,
                                 HTTP.free_port, etcd_flags=ETCD_FLAGS)

    def serve_crd(self):
        self.plane.kubectl("apply", "-f", str(CRD))
        until(lambda: self.plane.available("wgpolicyk8s.io/v1alpha2"), 60, "the CustomResourceDefinition")

    def postgres(self):
        """Returns the processes of the database server."""
        with open(f"{self.stack.database.directory}/data/postmaster.pid", encoding="ascii") as file:
            server = int(file.readline())
        with open(f"/proc/{server}/task/{server}/children", encoding="ascii") as children:
            return [server, *map(int, children.read().split())]

    def etcd_bytes(self):
        """Returns the size of etcd's file: the cluster's own objects, and the reports if they are in etcd."""
        if isinstance(self.plane, KinePlane):
            return None
        with urllib.request.urlopen(f"http://127.0.0.1:{self.plane.etcd_port}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith("etcd_mvcc_db_total_size_in_bytes"))

    def note_sizes(self, when):
        """Notes memory and disk now, in MiB."""
        etcd = self.etcd_bytes()
        found = {"servers": memory_of(self.servers()) / MIB, "kube-apiserver": self.plane.apiserver.memory() / MIB,
                 "etcd": etcd and etcd / MIB}
        if self.database_name:
            size = f"SELECT pg_database_size('{self.database_name}')"
            found["store"] = memory_of(self.postgres(), "Pss") / MIB
            found["disk"] = int(self.stack.database.psql(size, "postgres", "postgres")) / MIB
        else:
            found["store"] = memory_of([self.plane.etcd.process.pid]) / MIB
            found["disk"] = found["etcd"]
        self.sizes[when] = found

    def run(self, documents, count, rounds):
        self.begin()
        stack = self.stack
        directory = pathlib.Path(stack.database.directory) / "neutral"
        directory.mkdir()
        self.client = Neutral(self.port(), f"{stack.pki}/ca.crt", f"{stack.pki}/admin", directory)
        until(self.answers, 120, "the first answer")
        for name in neutral.namespaces(rounds):
            self.plane.namespace(name)
        self.note_sizes("empty")
        self.client.measure(documents, count, rounds, self.note_sizes)
        self.note_sizes("end")
        return self

    def answers(self):
        """Whether the server answers and lists reports."""
        for process in self.plane.processes:
            process.check()
        try:
            return self.client.api().get(path_of(POLR)).code == 200
        except OSError:
            return False

    def end(self):
        if self.plane is not None:
            self.plane.stop()
        if self.stack is not None:
            self.stack.end()


class CrdSide(Side):
    def begin(self):
        self.bare_stack()
        self.stack.database.stop()
        self.serve_crd()


class KineSide(Side):
    database_name = "kine"

    def begin(self):
        self.bare_stack(KinePlane)
        self.serve_crd()

    def servers(self):
        return [self.plane.apiserver.process.pid, self.plane.etcd.process.pid]


class ReportsServerSide(Side):
    database_name = "reports"

    def begin(self):
        self.bare_stack()
        database = self.stack.database
        database.psql("CREATE DATABASE reports", "postgres", "postgres")
        kubeconfig = self.plane.kubeconfig
        self.listens = HTTP.free_port()
        self.process = Process("reports-server", [
            self.plane.programs["reports-server"], f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}",
            "--bind-address=127.0.0.1", f"--secure-port={self.listens}",
            f"--tls-cert-file={self.stack.pki}/kube-apiserver.crt",
            f"--tls-private-key-file={self.stack.pki}/kube-apiserver.key",
            "--servicename=reports-server", "--servicens=default"], self.plane.directory, {
                "DB_HOST": database.directory, "DB_PORT": "5432", "DB_DATABASE": "reports", "DB_USER": "postgres",
                "DB_PASSWORD": "none"})
        self.plane.processes.append(self.process)

    def port(self):
        return self.listens

    def servers(self):
        return [self.process.process.pid]


class ProxySide(Side):
    database_name = "kube_reports"

    def begin(self):
        self.cluster = Cluster(SETTINGS, etcd_flags=ETCD_FLAGS)
        self.stack, self.plane = self.cluster.stack, self.cluster.plane
        self.cluster.serve("wgpolicyk8s.io/v1alpha2")

    def port(self):
        return self.cluster.first.port

    def servers(self):
        return self.cluster.first.processes()


SIDES = {OURS: ProxySide, "crd": CrdSide, "kine": KineSide, "reports-server": ReportsServerSide}


def documents():
    """Returns the reports for all sides, made by a database with the extension."""
    stack = HTTP.Stack()
    try:
        return neutral.bodies(stack.begin().database)
    finally:
        stack.end()


def size_rows(sides):
    """Yields the rows of the table for memory and disk."""
    for words, when, key in (("memory of the servers, before", "empty", "servers"),
                             ("with the reports, before the first list", "created", "servers"),
                             ("at the end", "end", "servers"),
                             ("memory of the store", "end", "store"),
                             ("disk: the store when all are created", "created", "disk"),
                             ("the same after the updates", "end", "disk"),
                             ("etcd's file of that cluster", "created", "etcd")):
        values = {name: side["sizes"][when][key] for name, side in sides.items()}
        base = values[OURS]
        cells = ["none" if value is None else f"{number(value)} MiB" +
                 ("" if name == OURS or key == "etcd" else f", {times(value / base)}")
                 for name, value in values.items()]
        yield f"| {words} | {' | '.join(cells)} |"


def bars_of(sides):
    """Returns the bars; none without the side that they compare ours with."""
    return list(neutral.bars(sides[OURS]["figures"], sides[BAR]["figures"])) if BAR in sides else []


def report(sides, bars):
    """Yields the lines that are printed: the table, the bars, and what each side does wrong."""
    figures = {name: side["figures"] for name, side in sides.items()}
    yield from neutral.table(figures, OURS)
    yield from size_rows(sides)
    yield ""
    if bars:
        yield f"| bar, against {BAR} | times better | |"
        yield "| --- | --- | --- |"
        for bar in bars:
            yield f"| {bar['bar']} | {bar['times']:.3g} | {'ok' if bar['passed'] else 'FAIL'} |"
        yield ""
    for name, side in sides.items():
        size = statistics.median(side["figures"]["list-bytes"]) / 1e6
        yield (f"{name}: {'; '.join(side['wrong']) or 'nothing wrong was seen'}; a list has {size:.1f} MB; "
               f"load {side['load'][0]} at the end.")


def load_averages():
    return pathlib.Path("/proc/loadavg").read_text(encoding="ascii").split()[:3]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--reports", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sides", default="proxy crd kine reports-server")
    parser.add_argument("--json", required=True, help="where the figures go")
    arguments = parser.parse_args()
    names = arguments.sides.split()
    unknown = set(names) - set(SIDES)
    if unknown or OURS not in names:
        parser.error(f"the sides are among {' '.join(SIDES)}, and one is {OURS}, with which all are compared")
    made, sides = documents(), {}
    # The table has ours first.
    for name in sorted(names, key=lambda name: name != OURS):
        print(f"# {name}; load {' '.join(load_averages())}", file=sys.stderr, flush=True)
        begun, side = time.time(), SIDES[name]()
        try:
            side.run(made, arguments.reports, arguments.rounds)
            sides[name] = {"figures": side.client.figures, "sizes": side.sizes, "wrong": side.client.wrong,
                           "seconds": round(time.time() - begun), "load": load_averages()}
        finally:
            side.end()
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"reports": arguments.reports, "rounds": arguments.rounds, "processors": os.cpu_count(),
                       "sides": sides, "bars": bars_of(sides)}, file, indent=1)
            file.write("\n")
    bars = bars_of(sides)
    print("\n".join(report(sides, bars)))
    sys.exit(not all(bar["passed"] for bar in bars))


if __name__ == "__main__":
    main()
