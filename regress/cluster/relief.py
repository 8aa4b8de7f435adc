#!/usr/bin/python3
"""Measures what reports cost a cluster: as CustomResourceDefinitions in etcd, and in our proxy behind the aggregator.

Run by make bench-relief.  Two control planes, one after the other, each fresh: writers create the same policy reports
of 19 results through kube-apiserver, then every report is scanned again (new timestamps).  In between, etcd,
kube-apiserver and lists are measured, at the numbers of reports of the table that Kyverno published with its
reports-server, or at others.  fsync is on everywhere.  Prints tables in Markdown and, as the last line, JSON.
"""

import argparse
import concurrent.futures
import itertools
import json
import pathlib
import statistics
import sys
import time
import urllib.request

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path[:0] = [str(TOP / "regress" / "cluster"), str(TOP / "regress" / "http")]

from client import POLR, path_of, until  # noqa: E402
from conftest import Cluster  # noqa: E402

NAMESPACES = 20
WRITERS = 8
# Kyverno's table for its reports-server: policy reports, and MB of etcd without it and with it (and 6 more reports).
PUBLISHED = {179: (46, 38), 1199: (71, 38), 2219: (100, 41), 4259: (149, 55), 6299: (167, 58), 8339: (220, 67),
             10379: (255, 76)}
MIB = 1024 * 1024
CRD = TOP / "sql" / "crds" / "policyreports.wgpolicyk8s.io.json"


def documents(cluster, count):
    """Returns policy reports as regress/bench makes them, without owners, because their owners do not exist here."""
    generate = (TOP / "regress" / "bench" / "generate.sql")
    out = cluster.stack.database.psql(
        f"\\i {generate}\nSELECT pg_temp.generated('pss', n, 'relief-' || n % {NAMESPACES}) FROM generate_series(1, "
                                      f"{count}) n", user="postgres",
        timeout=600)
    made = []
    for line in out.splitlines():
        if line.startswith("{"):
            document = json.loads(line)
            document["metadata"].pop("ownerReferences")
            made.append(document)
    assert len(made) == count
    return made


def rescanned(document):
    """Returns the same report after another background scan: the times of its results are new."""
    results = [{**result, "timestamp": {"seconds": result["timestamp"]["seconds"] + 3600, "nanos": 0}}
               for result in document["results"]]
    return {**document, "results": results}


class Side:
    """One of the two sides: a control plane with its reports, and what was measured there."""

    def __init__(self, name):
        self.name = name
        self.cluster = Cluster(("fsync = on",), etcd_flags=("--quota-backend-bytes=8589934592",))
        self.plane = self.cluster.plane
        self.points = []
        self.rates = {}
        self.lists = {}

    def etcd_metric(self, name):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.plane.etcd_port}/metrics", timeout=30) as answer:
            return sum(float(line.rsplit(" ", 1)[1]) for line in answer.read().decode().splitlines()
                       if line.startswith((name + " ", name + "{")))

    def measure(self, what, count):
        point = {
            "what": what, "reports": count,
            "etcd_mib": self.etcd_metric("etcd_mvcc_db_total_size_in_bytes") / MIB,
            "etcd_in_use_mib": self.etcd_metric("etcd_mvcc_db_total_size_in_use_in_bytes") / MIB,
            "etcd_keys": self.etcd_metric("etcd_debugging_mvcc_keys_total"),
            "apiserver_mib": self.plane.apiserver.memory() / MIB,
            "apiserver_peak_mib": self.plane.apiserver.memory("VmHWM") / MIB,
            "etcd_memory_mib": self.plane.etcd.memory() / MIB,
            "apiserver_cpu_s": cpu_seconds(self.plane.apiserver.process.pid),
                 "etcd_cpu_s": cpu_seconds(self.plane.etcd.process.pid)}
        if self.name == "proxy":
            size = "SELECT pg_database_size('kube_reports')"
            point["database_mib"] = int(self.cluster.stack.database.psql(size, user="postgres")) / MIB
            point["proxy_mib"] = self.cluster.first.memory() / MIB
        self.points.append(point)
        print(f"{self.name:6} {what:22} "
              + " ".join(f"{key}={value:.0f}" for key, value in point.items() if key not in ("what",)),
              file=sys.stderr, flush=True)

    def write(self, todo, method):
        """Writes all documents with WRITERS clients; returns the writes per second."""
        queue = iter(todo)
        clients = [self.plane.api(keep=True) for _ in range(WRITERS)]

        def work(api):
            # next() of an iterator over a list is one step of the interpreter, so that no two clients get one document.
            for document in queue:
                namespace = document["metadata"]["namespace"]
                path = path_of(POLR, namespace, None if method == "POST" else document["metadata"]["name"])
                for _ in range(10):
                    answer = api.request(method, path, document, seconds=120)
                    if answer.code not in (429, 503):
                        break
                    # Wait as client-go does.
                    time.sleep(int(answer.headers["Retry-After"]))
                assert answer.code in (200, 201), answer
                # An update has to name what it replaces.
                document["metadata"]["resourceVersion"] = answer.json["metadata"]["resourceVersion"]
        begin = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(WRITERS) as pool:
            for done in [pool.submit(work, api) for api in clients]:
                done.result()
        rate = len(todo) / (time.monotonic() - begin)
        print(f"{self.name:6} {method} {rate:.0f}/s", file=sys.stderr, flush=True)
        return rate

    def list_ms(self, name, times, path, accept=None, **query):
        """Notes the median and greatest time of a list, whose bytes are read but not decoded."""
        api = self.plane.api(keep=True)
        taken = []
        for _ in range(times):
            begin = time.monotonic()
            answer = api.get(path, accept=accept, seconds=120, **query)
            taken.append((time.monotonic() - begin) * 1000)
            assert answer.code == 200, answer
        self.listed(name, taken, bytes=len(answer.body))

    def listed(self, name, taken, **more):
        self.lists[name] = {"median_ms": statistics.median(taken), "max_ms": max(taken), **more}
        print(f"{self.name:6} {name}: {self.lists[name]}", file=sys.stderr, flush=True)

    def pages_ms(self, name, times):
        """Notes the times of a whole list in pages of 500, as kubectl and client-go's pager read it."""
        api = self.plane.api(keep=True)
        taken = []
        for _ in range(times):
            begin, query = time.monotonic(), {"limit": "500"}
            for number in itertools.count(1):
                answer = api.get(path_of(POLR), seconds=120, **query)
                assert answer.code == 200, answer
                following = answer.json["metadata"].get("continue")
                if not following:
                    break
                query["continue"] = following
            taken.append((time.monotonic() - begin) * 1000)
        self.listed(name, taken, pages=number)

    def run(self, steps):
        """Measures everything; steps are the numbers of reports at which sizes are measured, the least first."""
        plane, count = self.plane, steps[-1]
        if self.name == "crd":
            plane.kubectl("apply", "-f", str(CRD))
            until(lambda: plane.available("wgpolicyk8s.io/v1alpha2"), 60, "the CustomResourceDefinition")
            until(lambda: plane.api().get(path_of(POLR)).code == 200, 60, "the CustomResourceDefinition")
        else:
            self.cluster.serve("wgpolicyk8s.io/v1alpha2")
        todo = documents(self.cluster, count)
        for number in range(NAMESPACES):
            plane.namespace(f"relief-{number}")
        self.measure("empty", 0)
        begin = 0
        for end in steps:
            self.rates[f"create to {end}"] = self.write(todo[begin:end], "POST")
            self.measure("created", end)
            begin = end
        until(lambda: self.name == "proxy" or stored_objects(plane) == count, 120, "kube-apiserver to count")
        self.objects = stored_objects(plane)
        self.list_ms("all", 7, path_of(POLR))
        self.list_ms("all, resourceVersion=0", 7, path_of(POLR), resourceVersion="0")
        self.list_ms("all, metadata only", 7, path_of(POLR),
                     accept="application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
        self.list_ms("all, table", 7, path_of(POLR), accept="application/json;as=Table;v=v1;g=meta.k8s.io")
        self.list_ms("one namespace", 15, path_of(POLR, "relief-1"))
        self.list_ms("limit=500", 15, path_of(POLR), limit="500")
        self.pages_ms("all, in pages of 500", 3)
        self.measure("listed", count)
        self.rates["re-scan"] = self.write([rescanned(document) for document in todo], "PUT")
        self.measure("scanned again", count)
        return self

    def end(self):
        self.cluster.end()


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def stored_objects(plane):
    """Returns the number of policy reports by kube-apiserver's metric, or None if there is no such series."""
    for line in plane.api().get("/metrics").body.decode().splitlines():
        # Since 1.34 its name is apiserver_resource_objects.
        if line.startswith(("apiserver_storage_objects{", "apiserver_resource_objects{")) and "policyreports" in line:
            return int(float(line.rsplit(" ", 1)[1]))
    return None


def moment(point):
    """Returns when a point was measured, in words."""
    return f"{point['reports']:,}" + ("" if point["what"] in ("created", "empty") else f", {point['what']}")


def megabytes(point):
    """Returns the size of etcd's file in words, in millions of bytes as etcdctl prints it."""
    size = point["etcd_mib"] * MIB / 1e6
    return f"{size:.0f} MB" if size >= 1 else "below 1 MB"


def tables(sides):
    crd, proxy = sides["crd"], sides["proxy"]
    yield "| policy reports | etcd, published: without reports-server | with it | etcd here: CRD | proxy |"
    yield "| --- | --- | --- | --- | --- |"
    for one, other in zip(crd.points, proxy.points):
        published = PUBLISHED.get(one["reports"]) if one["what"] == "created" else None
        cells = [f"{size} MB" for size in published] if published else ["", ""]
        yield f"| {moment(one)} | {' | '.join([*cells, megabytes(one), megabytes(other)])} |"
    yield ""
    yield ("| policy reports | memory of kube-apiserver, CRD | memory of kube-apiserver, proxy | memory of etcd, CRD "
           "| memory of etcd, proxy | database |")
    yield "| --- | --- | --- | --- | --- | --- |"
    for one, other in zip(crd.points, proxy.points):
        yield (f"| {moment(one)} | {one['apiserver_mib']:,.0f} MiB | {other['apiserver_mib']:,.0f} MiB "
               f"| {one['etcd_memory_mib']:.0f} MiB | {other['etcd_memory_mib']:.0f} MiB "
               f"| {other['database_mib']:.0f} MiB |")
    yield ""
    yield "| list, median | size | CRD | proxy |"
    yield "| --- | --- | --- | --- |"
    for name, one in crd.lists.items():
        size = f"{one['bytes'] / 1e6:.1f} MB" if "bytes" in one else f"{one['pages']} pages"
        yield f"| {name} | {size} | {one['median_ms']:,.0f} ms | {proxy.lists[name]['median_ms']:,.0f} ms |"
    yield ""
    yield f"| writes, {WRITERS} clients | CRD | proxy |"
    yield "| --- | --- | --- |"
    for name, one in crd.rates.items():
        yield f"| {name} | {one:.0f}/s | {proxy.rates[name]:.0f}/s |"
    yield ""
    last, other = crd.points[-1], proxy.points[-1]
    yield "| over all of it | CRD | proxy |"
    yield "| --- | --- | --- |"
    for key, name, unit in (("apiserver_cpu_s", "CPU time of kube-apiserver", "s"),
                            ("etcd_cpu_s", "CPU time of etcd", "s"),
                            ("apiserver_peak_mib", "most memory of kube-apiserver", "MiB"),
                            ("etcd_memory_mib", "memory of etcd", "MiB"),
                            ("proxy_mib", "memory of the proxy", "MiB")):
        cells = [f"{point[key]:,.0f} {unit}" if key in point else "none" for point in (last, other)]
        yield f"| {name} | {' | '.join(cells)} |"
    yield f"| policy reports that kube-apiserver counts in etcd | {crd.objects} | {proxy.objects or 'none'} |"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--reports", default="", help="numbers of reports at which sizes are measured")
    parser.add_argument("--side", choices=("crd", "proxy"), help="only this one, as JSON")
    arguments = parser.parse_args()
    steps = sorted({int(count) for count in arguments.reports.split()} or PUBLISHED)
    sides = {}
    for name in [arguments.side] if arguments.side else ("crd", "proxy"):
        side = Side(name)
        try:
            sides[name] = side.run(steps)
        finally:
            side.end()
    if not arguments.side:
        print("\n".join(tables(sides)))
        print()
    print(json.dumps({name: {"points": side.points, "lists": side.lists, "rates": side.rates, "objects": side.objects}
                      for name, side in sides.items()}))


if __name__ == "__main__":
    main()
