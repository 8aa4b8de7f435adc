"""ALTER EXTENSION UPDATE of the variant without C, to a made-up next version."""

import pytest

import next_version
from catalogs import assert_equal, catalogs
from conftest import VERSION, Database, stack_command
from next_version import NEXT

CLUSTER = "3b241101-e2bb-4255-8caf-4136c566a962"
ROLES = ("kube_reports_proxy", "kube_reports_reader", "kube_reports_admin")
GRANTS = f"""
SELECT kube_reports.grant_proxy('kube_reports_proxy', '{CLUSTER}');
SELECT kube_reports.grant_reader('kube_reports_reader');
SELECT kube_reports.grant_admin('kube_reports_admin');
"""


class Server(Database):
    """A server with the variant without C."""

    def __init__(self):
        self.directory = stack_command("server_directory")
        self.started = False
        stack_command("server_install", self.directory, "VARIANT=sql")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    made = Server()
    try:
        next_version.install_sql_variant(next_version.build_sql_variant(tmp_path_factory.mktemp("next")), made)
        made.start()
        made.psql("".join(f"CREATE ROLE {role} LOGIN;" for role in ("kube_reports_owner", *ROLES)),
                  user="postgres", database="postgres")
        yield made
    finally:
        made.remove()


def install(server, name, version):
    """Makes a database with the extension of a version, and its grants; returns the name."""
    server.psql(f"CREATE DATABASE {name} OWNER kube_reports_owner", user="postgres", database="postgres")
    server.psql(f"CREATE EXTENSION kube_reports VERSION '{version}';{GRANTS}", database=name)
    return name


def test_update_of_the_sql_variant(server):
    """By its catalogs, an updated installation equals a fresh one; its rows and settings stay"""
    updated, fresh = install(server, "updated", VERSION), install(server, "fresh", NEXT)
    server.psql("SELECT kube_reports.set_setting('log_retention', '90 minutes')", database=updated)
    server.psql(f"BEGIN; ALTER EXTENSION kube_reports UPDATE TO '{NEXT}'; SELECT kube_reports.after_update(); COMMIT",
                database=updated)
    assert server.psql("SELECT extversion FROM pg_extension WHERE extname = 'kube_reports'", database=updated) == NEXT
    assert_equal(catalogs(server, updated), catalogs(server, fresh))
    assert server.psql("SELECT kube_reports.setting('log_retention'), c.uid FROM kube_reports.cluster c",
                       database=updated) == f"90 minutes|{CLUSTER}"
