"""docs/first-fleet.md: from an empty database to a fleet view of two clusters that have the objects of a scan."""

import contextlib
import json

import psycopg2
import pytest

from client import sql_text
from conftest import Database, Stack, free_port
from first_fleet import CLUSTERS, SCANS, FirstFleet, empty_server
from operators import compliance_crds


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
    yield from empty_server(Database())


def test_the_page(clusters, empty, tmp_path):
    fleet = FirstFleet(empty, free_port, tmp_path, {name: server.kubeconfig() for name, server in clusters.items()})
    codes = []
    try:
        fleet.right(fleet.follow())
    finally:
        codes = fleet.end()
    assert codes == [0, 0, 0]
