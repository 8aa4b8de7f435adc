"""The package for pg_tle, with a real pg_tle (issue 17)."""

import re

import pytest

import next_version
from client import run
from conftest import TOP, VERSION
from next_version import NEXT
from ways import CLUSTER, OWNER, PG_TLE, TLE, FileServer, TleServer, assert_same, begun

pytestmark = pytest.mark.skipif(not PG_TLE, reason="PG_TLE names no installed pg_tle; docs/managed.md has the steps")


@pytest.fixture(scope="module")
def server():
    yield from begun(TleServer())


def test_the_same_as_from_files(server):
    """The catalogs are the same as with the files; the owner is neither superuser nor member of pgtle_admin"""
    name = server.extension("tle")
    assert server.psql("SELECT extversion, extowner::regrole FROM pg_extension WHERE extname = 'kube_reports'",
                       database=name) == f"{VERSION}|{OWNER}"
    other = FileServer()
    try:
        assert_same(server.same(name), other.begin().same(other.extension("files")))
    finally:
        other.remove()


def test_packaged_twice(server):
    name = server.extension("twice")
    done = server.file(TLE / "kube_reports--tle.sql", name, user="packager", check=False)
    assert done.code != 0 and f"has version {VERSION} of kube_reports already" in done.err
    server.psql("DROP EXTENSION kube_reports", database=name)
    server.psql("SELECT pgtle.uninstall_extension('kube_reports')", user="packager", database=name)
    assert server.psql("SELECT count(*) FROM pgtle.available_extensions()", database=name) == "0"
    assert server.psql("SELECT count(*) FROM pg_class WHERE relnamespace::regnamespace::text LIKE 'kube_reports%'",
                       database=name) == "0"


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The package of a made-up next version."""
    tree = next_version.build_sql_variant(tmp_path_factory.mktemp("next"))
    tree.make("VARIANT=sql", "tle")
    return tree.path / "sql" / "build" / "tle" / "kube_reports--tle.sql"


def test_older_after_newer(server, package):
    """An older package refuses a database with a newer version, which stays the default version"""
    name = server.create("newer")
    server.file(package, name, user="packager")
    done = server.file(TLE / "kube_reports--tle.sql", name, user="packager", check=False)
    assert done.code != 0 and f"has version {NEXT} of kube_reports, which version {VERSION} does not follow" in done.err
    assert server.psql("SELECT e.default_version FROM pgtle.available_extensions() e WHERE e.name = 'kube_reports'",
                       database=name) == NEXT


def test_update(server, package):
    """The package of the next version beside this one: ALTER EXTENSION UPDATE gives what a fresh install has"""
    updated, fresh = server.extension("updated"), server.extension("fresh", package)
    server.file(package, updated, user="packager")
    server.psql("ALTER EXTENSION kube_reports UPDATE; SELECT kube_reports.after_update()", database=updated)
    assert server.psql("SELECT version, update_pending FROM kube_reports.status", database=updated) == f"{NEXT}|f"
    assert_same(server.same(updated), server.same(fresh))


def test_dump(server):
    """The owner can restore the owner's dump where pg_tle has the package; it is recognized as restored"""
    name = server.extension("dumped")
    (dump,) = re.findall(r"`(pg_dump --extension=[^`]*)`", (TOP / "docs" / "managed.md").read_text(encoding="utf-8"))
    text = run([*dump.split(), "-d", server.connection(database=name)]).out
    assert "CREATE EXTENSION IF NOT EXISTS kube_reports WITH SCHEMA kube_reports" in text
    target = server.create("again")
    server.file(TLE / "kube_reports--tle.sql", target, user="packager")
    run(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", server.connection(database=target)],
        input=text)
    assert server.psql("SELECT restore_pending FROM kube_reports.status", database=target) == "t"
    assert server.psql("SELECT c.uid FROM kube_reports.cluster c", database=target) == CLUSTER
    server.psql("SELECT kube_reports.after_restore()", database=target)
    assert server.psql("SELECT restore_pending FROM kube_reports.status", database=target) == "f"


def test_grants_are_for_the_owner_to_make(server):
    name = server.extension("granted")
    assert server.psql(f"SELECT h.store FROM kube_reports_internal.api_hello('{CLUSTER}'::uuid, 'test') h",
                       user="kube_reports_proxy", database=name)


def test_packaged_without_a_schema(server):
    """With an older pg_tle, CREATE EXTENSION in another schema fails and says which schema to name"""
    name = server.create("unnamed")
    script = (TLE / "install.sql").read_text(encoding="utf-8")
    server.psql(f"SELECT pgtle.install_extension('kube_reports', '{VERSION}', 'unnamed', $script${script}$script$)",
                user="packager", database=name)
    server.psql(f"GRANT CREATE ON SCHEMA public TO {OWNER}", user="postgres", database=name)
    done = server.psql("CREATE EXTENSION kube_reports", database=name, check=False)
    assert done.code != 0 and "CREATE EXTENSION kube_reports SCHEMA kube_reports" in done.err, done.err
    server.psql("CREATE SCHEMA kube_reports; CREATE EXTENSION kube_reports SCHEMA kube_reports", database=name)
    assert server.psql("SELECT version FROM kube_reports.status", database=name) == VERSION
