"""The commands of docs/managed.md, unchanged."""

import os

import pytest

from client import run
from runbook import blocks_of, put
from ways import CLUSTER, OWNER, PG_TLE, PLAIN, TLE, Server, TleServer

SCRIPT, ROWS, PACKAGE, _ = (text for _, text in blocks_of("docs/managed.md"))


def shell(server, script, directory="/"):
    run(["bash", "-e", "-o", "pipefail", "-c", script], cwd=directory, timeout=120,
        env={**os.environ, "PGHOST": server.directory, "PGUSER": OWNER})


def test_the_plain_script_and_rows_of_another_install():
    server = Server()
    try:
        server.begin()
        server.plain("source")
        server.psql("SELECT kube_reports.set_setting('log_retention', '90 minutes')", database="source")
        server.create("target")
        shell(server, put(SCRIPT, **{"host=... dbname=reports user=reports_owner": "dbname=target"}), PLAIN)
        server.psql("SELECT kube_reports.begin_restore()", database="target")
        shell(server, ROWS)
        assert server.psql("SELECT kube_reports.setting('log_retention'), c.uid, s.restore_pending "
                           "FROM kube_reports.cluster c, kube_reports.status s",
                           database="target") == f"90 minutes|{CLUSTER}|f"
    finally:
        server.remove()


@pytest.mark.skipif(not PG_TLE, reason="PG_TLE names no installed pg_tle; docs/managed.md has the steps")
def test_the_package():
    server = TleServer()
    try:
        server.begin().create("reports")
        shell(server, put(PACKAGE, reports_owner=OWNER), TLE)
        assert server.psql("SELECT count(*) FROM pg_extension WHERE extname = 'kube_reports'",
                           database="reports") == "1"
    finally:
        server.remove()
