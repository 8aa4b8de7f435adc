"""Dumps of plain installs: restored copies, and rows that move between kinds of installs (issue 17)."""

import pytest

from client import run
from ways import CLUSTER, PLAIN, FileServer, Server, assert_same, begun

STATE = "SELECT s.identity, s.restore_pending, c.secret FROM kube_reports_internal.store s, " \
        "kube_reports_internal.caller_secret c"
PENDING = "SELECT restore_pending FROM kube_reports.status"
HELLO = f"SELECT h.store FROM kube_reports_internal.api_hello('{CLUSTER}'::uuid, 'test') h"
DRAWN = "SELECT last_value FROM kube_reports_internal.version_seq"


@pytest.fixture(scope="module")
def server():
    yield from begun(Server())


def dump(server, name, *options):
    return run(["pg_dump", "-d", server.connection(database=name), *options]).out


def load(server, text, name):
    run(["psql", "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-d", server.connection(database=name)], input=text)


@pytest.mark.parametrize("place", ["another database", "the same database"])
def test_restored_copy(server, place):
    """
    A restored copy is recognized as one, and gets an identity and a secret of its own; it does not repeat versions that
    the original gave after the dump; its catalogs are the same
    """
    name = server.plain("dumped_" + place.split()[0])
    server.psql("SELECT kube_reports.set_setting('log_retention', '90 minutes')", database=name)
    made, state = server.same(name), server.psql(STATE, database=name)
    text = dump(server, name)
    server.psql("SELECT nextval('kube_reports_internal.version_seq') FROM generate_series(1, 1000)", database=name)
    given = int(server.psql(DRAWN, database=name))
    if place == "the same database":
        server.file(PLAIN / "kube_reports--uninstall.sql", name)
    else:
        name = server.create("restored")
    load(server, text, name)

    assert server.psql(PENDING, database=name) == "t"
    refused = server.psql("SELECT count(*) FROM kube_reports_internal.resolve("
                          f"'{CLUSTER}'::uuid, 'wgpolicyk8s.io', 'v1alpha2', 'policyreports', "
                          "kube_reports_internal.this_caller())", database=name, check=False)
    assert refused.code != 0 and "after_restore()" in refused.err
    store = server.psql(HELLO, user="kube_reports_proxy", database=name)
    assert server.psql(PENDING, database=name) == "f"
    assert int(server.psql(DRAWN, database=name)) > given
    identity, _, secret = state.split("|")
    assert store != identity and secret not in server.psql(STATE, database=name)
    assert server.psql("SELECT kube_reports.setting('log_retention')", database=name) == "90 minutes"
    # This happens only once, and nothing else differs.
    assert server.psql(HELLO, user="kube_reports_proxy", database=name) == store
    server.psql("SELECT kube_reports_internal.finish_restore()", database=name)
    # The server prints the bodies of views and functions with other words.
    same = server.same(name)
    assert_same(*({kind: lines for kind, lines in found.items() if kind not in ("relations", "routines")}
                  for found in (same, made)))


def test_base_backup_is_no_restore(server):
    """A copy of the server's files keeps the identity: standby, snapshot and pg_upgrade are no restored dump"""
    plain = server.plain("plain")
    copy = Server()
    try:
        copy.copy(server)
        copy.start()
        assert copy.psql(PENDING, database=plain) == "f"
        assert copy.psql(STATE, database=plain) == server.psql(STATE, database=plain)
    finally:
        copy.remove()


def data_only(server, name):
    """Returns a dump with the rows that a dump of the extension would have."""
    relations = server.psql("SELECT d.relation FROM kube_reports_internal.dumped_relations() d", database=name).split()
    return dump(server, name, "--data-only", *(f"--table={relation}" for relation in relations))


@pytest.mark.parametrize("variant", ["c", "sql", "plain"])
def test_data_into_another_install(server, variant):
    """The rows of a plain install load into the extension in C, the SQL variant and another plain install"""
    other = {"c": lambda: FileServer("c"), "sql": FileServer, "plain": Server}[variant]()
    try:
        other.begin()
        name = server.plain("rows_" + variant)
        server.psql("SELECT kube_reports.set_setting('log_retention', '90 minutes'); "
                    "UPDATE kube_reports.cluster SET name = 'somewhere'", database=name)
        text = data_only(server, name)
        given = int(server.psql(DRAWN, database=name))
        if variant == "plain":
            other.file(PLAIN / "kube_reports--install.sql", other.create("target"))
        else:
            other.psql("CREATE EXTENSION kube_reports", database=other.create("target"))
        other.psql("SELECT kube_reports.begin_restore()", database="target")
        load(other, text, "target")
        assert int(other.psql("SELECT kube_reports.after_restore()", database="target")) > given
        assert other.psql("SELECT kube_reports.setting('log_retention'), c.uid, c.name FROM kube_reports.cluster c",
                          database="target") == f"90 minutes|{CLUSTER}|somewhere"
        assert other.psql("SELECT count(*) FROM kube_reports.resource_type", database="target") == "10"
    finally:
        other.remove()


def test_data_of_the_extension(server):
    """The rows of the extension in C load into a plain install"""
    source = FileServer("c")
    try:
        source.begin()
        text = dump(source, source.extension("source"), "--data-only")
        given = int(source.psql(DRAWN, database="source"))
    finally:
        source.remove()
    target = server.create("from_c")
    server.file(PLAIN / "kube_reports--install.sql", target)
    server.psql("SELECT kube_reports.begin_restore()", database=target)
    load(server, text, target)
    assert int(server.psql("SELECT kube_reports.after_restore()", database=target)) > given
    assert server.psql("SELECT c.uid FROM kube_reports.cluster c", database=target) == CLUSTER
