"""docs/first-fleet.md: from an empty database to a fleet view of two clusters that have the objects of a scan."""

import collections
import contextlib
import json
import os
import signal
import subprocess

import psycopg2
import pytest
import yaml

from client import Api, run, sql_text, until
from conftest import Database, Stack, free_port
from operators import MODERATE, ModerateScan, compliance_crds
from runbook import blocks_of

PAGE = "docs/first-fleet.md"
CLUSTERS = {"east": "11111111-2222-4333-8444-555555555555", "west": "22222222-2222-4333-8444-555555555555"}
# What the same scan found in both clusters: in west, ten rules pass that fail in east, two fail that pass in east, and
# one is missing.
SCANS = {name: ModerateScan() for name in CLUSTERS}
FAILING, PASSING = ([rule for rule, document in SCANS["west"].checks.items() if document["status"] == status]
                    for status in ("FAIL", "PASS"))
for mended in FAILING[:10]:
    SCANS["west"].set_status(mended, "PASS")
for spoilt in PASSING[:2]:
    SCANS["west"].set_status(spoilt, "FAIL")
SCANS["west"].forget(FAILING[10])


@pytest.fixture(scope="module")
def clusters():
    """API servers of two clusters, with the operator's types and the objects of a scan."""
    source = Stack()
    source.begin()
    psql = source.database.psql
    for definition in compliance_crds():
        psql(f"SELECT kube_reports.register_crd({sql_text(definition)})")
    servers = {}
    for name, uid in CLUSTERS.items():
        psql(f"CREATE ROLE proxy_{name} LOGIN", user="postgres")
        psql(f"SELECT kube_reports.grant_proxy('proxy_{name}', '{uid}')")
        servers[name] = source.proxy(cluster=uid, user=f"proxy_{name}", flags=("--workers=1",))
        scan = SCANS[name]
        with contextlib.closing(psycopg2.connect(source.database.connection())) as connection:
            with connection, connection.cursor() as cursor:
                for document in (scan.suite, scan.scan, *scan.checks.values(), *scan.remediations.values()):
                    cursor.execute("SELECT kube_reports.create_report(%s, %s)", (uid, json.dumps(document)))
    yield servers
    source.end()


@pytest.fixture(scope="module")
def empty():
    """A server without roles or databases of ours."""
    database = Database()
    database.start()
    yield database
    database.remove()


def test_the_page(clusters, empty, tmp_path):
    port, api_port = free_port(), free_port()
    bases = tmp_path / "compliance-operator" / "config" / "crd" / "bases"
    bases.mkdir(parents=True)
    for definition in compliance_crds():
        (bases / f"{definition['metadata']['name']}.yaml").write_text(yaml.safe_dump(definition), encoding="utf-8")
    for name, server in clusters.items():
        (tmp_path / f"{name}.conf").symlink_to(server.kubeconfig())
    environment = {**os.environ, "PGHOST": empty.directory, "PGUSER": "postgres",
                   "PATH": f"{empty.directory}/dest/usr/bin:{empty.bindir()}:{os.environ['PATH']}"}
    running = []

    def here(text):
        for there, replaced in (("6444", str(port)), ("--metrics-port=8081", "--metrics-port=0"),
                                ("--metrics-port=8082", "--metrics-port=0"),
                                ("--authorization-mode", f"--secure-port={api_port} --metrics-port=0 --workers=1 "
                                 "--bind-address=127.0.0.1 --authorization-mode")):
            text = text.replace(there, replaced)
        return text

    def start(text):
        running.append(subprocess.Popen(["/bin/bash", "-e", "-c", "exec " + here(text)], cwd=tmp_path, env=environment))

    def ready():
        assert running[0].poll() is None
        with contextlib.suppress(OSError):
            return Api(api_port, str(tmp_path / "receiver.crt"), None).get("/readyz").code == 200
        return False

    try:
        for language, text in blocks_of(PAGE):
            if language == "sql":
                matrix, drift, remediations = (one.strip() for one in text.split(";\n") if one.strip())
            elif text.startswith(("kube-reports-proxy --forward-port", "kube-reports-proxy forward")):
                start(text)
                if len(running) == 1:
                    until(ready, 60, "the receiver")
            else:
                run(["/bin/bash", "-e", "-c", text], cwd=tmp_path, env=environment)

        def ask(sql):
            return run(["psql", "-X", "-A", "-t", "-d", "fleet", "-U", "kube_reports_owner", "-c", sql],
                       env=environment).out.strip()

        def shown():
            """How many rules have passed and failed, and how many neither, in each cluster."""
            lines = [line.split("|") for line in ask(matrix).splitlines()]
            assert {policy for policy, *_ in lines} <= {SCANS["east"].name}
            return collections.Counter(tuple(rest) for _, _, *rest in lines)
        fail, passed, others = MODERATE["FAIL"], MODERATE["PASS"], sum(MODERATE.values())
        others -= fail + passed
        until(lambda: shown() == {
            ("east", "1", "0"): passed, ("east", "0", "1"): fail, ("east", "0", "0"): others,
            ("west", "1", "0"): passed + 8, ("west", "0", "1"): fail - 9, ("west", "0", "0"): others}, 60,
              "the matrix of both clusters")
        assert sorted(ask(drift).splitlines()) == sorted([f"{rule}|1|0" for rule in FAILING[:10]]
                                                         + [f"{rule}|0|1" for rule in PASSING[:2]])
        assert collections.Counter(line.split("|")[0] for line in ask(remediations).splitlines()) == {
            name: len(scan.remediations) for name, scan in SCANS.items()}
        assert {line.split("|")[2] for line in ask(remediations).splitlines()} == {"NotApplied"}
        # The page for a browser was made when the senders had only begun: again, by the same command.
        (command,) = (text for _, text in blocks_of(PAGE) if "fleet_html" in text)
        run(["/bin/bash", "-e", "-c", command], cwd=tmp_path, env=environment)
        page = (tmp_path / "fleet.html").read_text(encoding="utf-8")
        assert page.lower().startswith("<!doctype html>") and ">east<" in page and ">west<" in page
    finally:
        for process in reversed(running):
            process.send_signal(signal.SIGTERM)
        codes = [process.wait(60) for process in running]
    assert codes == [0, 0, 0]
