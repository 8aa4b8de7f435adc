"""The plain script: what it makes, refuses, updates and removes, and what a dump of it brings (issue 17)."""

import pytest

import next_version
from client import run
from conftest import VERSION
from next_version import NEXT
from ways import CLUSTER, GRANTS, OWNER, PLAIN, FileServer, Server, assert_same

STATE = "SELECT s.identity, s.restore_pending, c.secret FROM kube_reports_internal.store s, " \
        "kube_reports_internal.caller_secret c"
PENDING = "SELECT restore_pending FROM kube_reports.status"
HELLO = f"SELECT h.store FROM kube_reports_internal.api_hello('{CLUSTER}'::uuid, 'test') h"
DRAWN = "SELECT last_value FROM kube_reports_internal.version_seq"


@pytest.fixture(scope="module")
def server():
    made = Server()
    try:
        yield made.begin()
    finally:
        made.remove()


@pytest.fixture(scope="module")
def plain(server):
    return server.plain("plain")


def dump(server, name, *options):
    return run(["pg_dump", "-d", server.connection(database=name), *options]).out


def load(server, text, name):
    run(["psql", "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-d", server.connection(database=name)], input=text)


def test_no_file_of_ours(server, plain):
    """The server has none, and the owner is nobody's superuser; roles use what they were granted"""
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
    """By the catalogs: columns, bodies, constraints, comments, owners, grants"""
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
    """Said, and nothing is made"""
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
    """Leaves nothing, but refuses while somebody else's view reads ours"""
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


@pytest.mark.parametrize("place", ["another database", "the same database"])
def test_restored_copy(server, place):
    """
    Known as a restore, with an identity and a secret of its own; versions that the original gave after the dump are not
    given again; it is the same by its catalogs
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
    # Once only, and nothing else differs.
    assert server.psql(HELLO, user="kube_reports_proxy", database=name) == store
    server.psql("SELECT kube_reports_internal.finish_restore()", database=name)
    # The server writes the bodies of views and functions anew, in other words.
    same = server.same(name)
    assert_same(*({kind: lines for kind, lines in found.items() if kind not in ("relations", "routines")}
                  for found in (same, made)))


def test_base_backup_is_no_restore(server, plain):
    """A copy of the files keeps the place: a standby, a snapshot and pg_upgrade are not taken for a restored dump"""
    copy = Server()
    try:
        copy.copy(server)
        copy.start()
        assert copy.psql(PENDING, database=plain) == "f"
        assert copy.psql(STATE, database=plain) == server.psql(STATE, database=plain)
    finally:
        copy.remove()


def test_update(server, tmp_path):
    """The script of an update makes what a fresh install of the next version has; rows, settings and grants stay"""
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


def data_only(server, name):
    """The rows that a dump of the extension would hold."""
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
