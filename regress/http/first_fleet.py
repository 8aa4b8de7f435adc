"""
Follows docs/first-fleet.md for two clusters: from an empty database to a fleet view of the findings of a scan in both.
Proxies or real control planes may serve the clusters.
"""

import collections
import contextlib
import os
import pathlib
import re
import signal
import subprocess

import yaml

from client import Api, run, until
from conftest import TOP
from operators import MODERATE, ModerateScan, compliance_crds

# The blocks of the page: (language, text).
PAGE = (TOP / "docs" / "first-fleet.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.M | re.S)
# The uids of the clusters on the page.
CLUSTERS = {"east": "11111111-2222-4333-8444-555555555555", "west": "22222222-2222-4333-8444-555555555555"}
# The findings of the same scan in both clusters. The west differs from the east: ten failing rules pass, two passing
# rules fail, and one failing rule is missing.
SCANS = {name: ModerateScan() for name in CLUSTERS}
FAILING, PASSING = ([rule for rule, document in SCANS["west"].checks.items() if document["status"] == status]
                    for status in ("FAIL", "PASS"))
for mended in FAILING[:10]:
    SCANS["west"].set_status(mended, "PASS")
for spoilt in PASSING[:2]:
    SCANS["west"].set_status(spoilt, "FAIL")
SCANS["west"].forget(FAILING[10])


def empty_server(database):
    """Yields the database's server, started, without roles or databases of kube-reports, for a fixture."""
    try:
        database.start()
        yield database
    finally:
        database.remove()


class FirstFleet:
    """Runs the page's commands in a directory, with a server that has no roles or databases of kube-reports."""

    def __init__(self, empty, free_port, directory, kubeconfigs, uids=None):
        """kubeconfigs: a path for each name of a cluster; uids: the clusters' uids, which replace the page's."""
        self.directory = pathlib.Path(directory)
        self.uids = uids or CLUSTERS
        self.port, self.api_port = free_port(), free_port()
        self.running = []
        self.environment = {**os.environ, "PGHOST": empty.directory, "PGUSER": "postgres",
                            "PATH": f"{empty.directory}/dest/usr/bin:{empty.bindir()}:{os.environ['PATH']}"}
        bases = self.directory / "compliance-operator" / "config" / "crd" / "bases"
        bases.mkdir(parents=True)
        for definition in compliance_crds():
            (bases / f"{definition['metadata']['name']}.yaml").write_text(yaml.safe_dump(definition), encoding="utf-8")
        for name, file in kubeconfigs.items():
            (self.directory / f"{name}.conf").symlink_to(file)

    def _here(self, text):
        for there, replaced in (("6444", str(self.port)), ("--metrics-port=8081", "--metrics-port=0"),
                                ("--metrics-port=8082", "--metrics-port=0"),
                                *((CLUSTERS[name], uid) for name, uid in self.uids.items()),
                                ("--authorization-mode", f"--secure-port={self.api_port} --metrics-port=0 --workers=1 "
                                 "--bind-address=127.0.0.1 --authorization-mode")):
            text = text.replace(there, replaced)
        return text

    def _shell(self, text):
        return run(["/bin/bash", "-e", "-c", self._here(text)], cwd=self.directory, env=self.environment).out.strip()

    def _start(self, text):
        self.running.append(subprocess.Popen(["/bin/bash", "-e", "-c", "exec " + self._here(text)], cwd=self.directory,
                                             env=self.environment))

    def _ready(self):
        assert self.running[0].poll() is None
        with contextlib.suppress(OSError):
            return Api(self.api_port, str(self.directory / "receiver.crt"), None).get("/readyz").code == 200
        return False

    def follow(self):
        """Runs every block; returns the statements of the SQL block."""
        for language, text in BLOCKS:
            if language == "sql":
                statements = [one.strip() for one in text.split(";\n") if one.strip()]
            elif text.startswith(("kube-reports-proxy --forward-port", "kube-reports-proxy forward")):
                self._start(text)
                if len(self.running) == 1:
                    until(self._ready, 60, "the receiver")
            else:
                self._shell(text)
        return statements

    def ask(self, sql):
        return run(["psql", "-X", "-A", "-t", "-d", "fleet", "-U", "kube_reports_owner", "-c", sql],
                   env=self.environment).out.strip()

    def shown(self, matrix):
        """Returns the number of rules in the matrix for each (cluster, passed, failed)."""
        lines = [line.split("|") for line in self.ask(matrix).splitlines()]
        assert {policy for policy, *_ in lines} <= {SCANS["east"].name}
        return collections.Counter(tuple(rest) for _, _, *rest in lines)

    def right(self, statements):
        """Checks that the page's statements and its page for a browser show the findings of both scans."""
        matrix, drift, remediations = statements
        fail, passed, others = MODERATE["FAIL"], MODERATE["PASS"], sum(MODERATE.values())
        others -= fail + passed
        until(lambda: self.shown(matrix) == {
            ("east", "1", "0"): passed, ("east", "0", "1"): fail, ("east", "0", "0"): others,
            ("west", "1", "0"): passed + 8, ("west", "0", "1"): fail - 9, ("west", "0", "0"): others}, 60,
              "the matrix of both clusters")
        assert sorted(self.ask(drift).splitlines()) == sorted([f"{rule}|1|0" for rule in FAILING[:10]]
                                                              + [f"{rule}|0|1" for rule in PASSING[:2]])
        assert collections.Counter(line.split("|")[0] for line in self.ask(remediations).splitlines()) == {
            name: len(scan.remediations) for name, scan in SCANS.items()}
        assert {line.split("|")[2] for line in self.ask(remediations).splitlines()} == {"NotApplied"}
        # follow() made the page for a browser when the senders had only begun; the same command makes it again.
        (command,) = (text for _, text in BLOCKS if "fleet_html" in text)
        self._shell(command)
        page = (self.directory / "fleet.html").read_text(encoding="utf-8")
        assert page.lower().startswith("<!doctype html>") and ">east<" in page and ">west<" in page

    def end(self):
        """Ends the processes of the page; returns their exit codes, the receiver's first."""
        for process in reversed(self.running):
            process.send_signal(signal.SIGTERM)
        return [process.wait(60) for process in self.running]
