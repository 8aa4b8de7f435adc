"""The plain script: installs, refusals, updates and uninstalls (issue 17)."""

import pytest

import next_version
from conftest import VERSION
from next_version import NEXT
from ways import CLUSTER, GRANTS, OWNER, PLAIN, FileServer, Server, assert_same, begun

HELLO = f"SELECT h.store FROM kube_reports_internal.api_hello('{CLUSTER}'::uuid, 'test') h"


@pytest.fixture(scope="module")
def server():
    yield from begun(Server())


@pytest.fixture(scope="module")
def plain(server):
    return server.plain("plain")


def test_no_file_of_ours(server, plain):
    """The server has no file of kube-reports, and the owner is no superuser; roles use their grants"""
    assert server.psql("SELECT count(*) FROM pg_available_extensions WHERE name = 'kube_reports'",
                       database=plain) == "0"
    assert server.psql(f"SELECT rolsuper OR rolcreaterole OR rolcreatedb FROM pg_roles WHERE rolname = '{OWNER}'",
                       database=plain) == "f"
    assert server.psql("SELECT version, update_pending, restore_pending FROM kube_reports.status",
                       database=plain) == f"{VERSION}|f|f"
    assert server.psql("SELECT count(*) FROM kube_reports.resource_type", database=plain) == "10"
    assert server.psql(HELLO, user="kube_reports_proxy", database=plain)
    assert server.psql("SELECT version FROM kube_reports.status", user="kube_reports_reader", database=plain) == VERSION
    assert server.psql("SELECT count(*) FROM kube_reports_internal.caller_grant", database=plain) != "0", \
        "the owner sees everything"


def test_the_same_as_from_files(server, plain):
    """The catalogs are the same as with the files: columns, bodies, constraints, comments, owners, grants"""
    other = FileServer()
    try:
        assert_same(server.same(plain), other.begin().same(other.extension("files")))
    finally:
        other.remove()


@pytest.mark.parametrize("prepare, user, why", [
    ("", "postgres", "a superuser is not to own"),
    ("CREATE SCHEMA kube_reports; CREATE TABLE kube_reports.mine (a integer)", OWNER, "is not empty"),
    ("CREATE SCHEMA kube_reports_internal", OWNER, "kube_reports_internal exists already"),
    ("CREATE SCHEMA kube_reports; GRANT CREATE ON SCHEMA kube_reports TO kube_reports_reader", OWNER,
     "others may create objects")], ids=["superuser", "objects", "internal schema", "grant"])
def test_refused_starts(server, request, prepare, user, why):
    """The script says why it refuses to start, and makes nothing"""
    name = server.create("refused_" + str(abs(hash(request.node.name)) % 100000))
    server.psql(prepare, database=name)
    before = server.everything(name)
    done = server.file(PLAIN / "kube_reports--install.sql", name, user=user, check=False)
    assert done.code != 0 and why in done.err, done.err
    assert server.everything(name) == before


def test_installed_twice(server, plain):
    done = server.file(PLAIN / "kube_reports--install.sql", plain, check=False)
    assert done.code != 0 and "in this database already" in done.err


def test_uninstall(server):
    """Uninstall leaves nothing, but refuses while a view of another role reads a view of kube-reports"""
    name = server.create("uninstalled")
    before = server.everything(name)
    server.file(PLAIN / "kube_reports--install.sql", name)
    server.psql(GRANTS, database=name)
    server.psql("CREATE VIEW public.mine AS SELECT uid FROM kube_reports.cluster", user="postgres", database=name)
    done = server.file(PLAIN / "kube_reports--uninstall.sql", name, check=False)
    assert done.code != 0 and "mine" in done.err, done.err
    server.psql("DROP VIEW public.mine", user="postgres", database=name)
    server.file(PLAIN / "kube_reports--uninstall.sql", name)
    assert server.everything(name) == before
    done = server.file(PLAIN / "kube_reports--uninstall.sql", name, check=False)
    assert done.code != 0 and "is not in this database" in done.err


def test_update(server, tmp_path):
    """The update script makes the same objects as a fresh install of the next version; rows, settings, grants stay"""
    tree = next_version.build_sql_variant(tmp_path)
    tree.make("VARIANT=sql", "plain")
    scripts = tree.path / "sql" / "build" / "plain"
    update = scripts / f"kube_reports--update--{VERSION}--{NEXT}.sql"
    updated, fresh = server.plain("updated"), server.plain("fresh", scripts)
    server.psql("SELECT kube_reports.set_setting('log_retention', '90 minutes')", database=updated)
    refused = server.file(update, updated, user="postgres", check=False)
    assert refused.code != 0 and f"SET ROLE {OWNER}" in refused.err
    server.file(update, updated)
    assert server.psql("SELECT version, update_pending FROM kube_reports.status", database=updated) == f"{NEXT}|t"
    server.psql("SELECT kube_reports.after_update()", database=updated)
    assert server.psql("SELECT version, update_pending, restore_pending FROM kube_reports.status",
                       database=updated) == f"{NEXT}|f|f"
    assert_same(server.same(updated), server.same(fresh))
    assert server.psql("SELECT kube_reports.setting('log_retention'), c.uid FROM kube_reports.cluster c",
                       database=updated) == f"90 minutes|{CLUSTER}"
    again = server.file(update, updated, check=False)
    assert again.code != 0 and f"version {NEXT} of kube_reports is in this database" in again.err
    server.file(scripts / "kube_reports--uninstall.sql", updated)
