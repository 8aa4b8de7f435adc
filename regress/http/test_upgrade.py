"""Another server, perhaps a newer PostgreSQL, takes over the data: by pg_upgrade, and by a dump of the older one."""

import json
import os
import uuid

import pytest

from client import report, run
from conftest import Database, DatabaseBefore, stack_command
from runbook import by_the_page
from test_dump import CONTENT, DERIVED, REFERENCES, newest, restore, settle_results

# .ci/check-pg has the version before; make check has only one version.
KINDS = [pytest.param(Database, id="same version"),
         pytest.param(DatabaseBefore, id="version before",
                      marks=pytest.mark.skipif("TREE_BEFORE" not in os.environ, reason="make check-pg17 and the like"))]


def create(server, cluster, name, database="kube_reports"):
    document = json.dumps(report(name, "ns"))
    stored = server.psql(f"SELECT kube_reports.create_report('{cluster}', '{document}'::kube_reports.report)",
                         database=database)
    return int(json.loads(stored)["metadata"]["resourceVersion"])


def skip_unless_known(old, new):
    """
    Skips the test if the new server is a minor release that does not know an option of columns which the old server has
    set.
    """
    options = old.psql("SELECT DISTINCT split_part(o, '=', 1) FROM pg_attribute a, unnest(a.attoptions) o WHERE o !~ "
                       "'^n_distinct'").split()
    for option in options:
        known = new.psql(f"CREATE TEMPORARY TABLE t (a integer); ALTER TABLE t ALTER a SET ({option} = 1)",
                         user="postgres",
                         database="postgres", check=False)
        if "unrecognized parameter" in known.err:
            pytest.skip(f"the new server's minor release is too old to know {option}, which the old one's sets")


@pytest.mark.parametrize("kind", KINDS)
def test_pg_upgrade(kind):
    """LC-02: after pg_upgrade the system identifier is another one; the first write notices that"""
    old, new, cluster = kind(), Database(), str(uuid.uuid4())
    try:
        # PostgreSQL 18 uses checksums by default; pg_upgrade needs the same setting in both servers.
        new.start()
        checksums = new.psql("SHOW data_checksums", user="postgres", database="postgres")
        old.start()
        old.prepare(cluster)
        if kind is not Database:
            skip_unless_known(old, new)
        new.stop()
        create(old, cluster, "before")
        settle_results(old)
        content, derived, references, last = old.psql(CONTENT), old.psql(DERIVED), old.psql(REFERENCES), newest(old)
        old_checksums = old.psql("SHOW data_checksums", user="postgres", database="postgres")
        old.stop()
        if old_checksums != checksums:
            stack_command("as_server", f"{old.bindir()}/pg_checksums", "--enable" if checksums == "on" else "--disable",
                          "--no-sync", "-D", f"{old.directory}/data")
        by_the_page(new, "pg_upgrade", **{
            "/usr/lib/postgresql/15/bin": old.bindir(), "/usr/lib/postgresql/17/bin": new.bindir(),
            "/var/lib/postgresql/15/main": f"{old.directory}/data",
            "/var/lib/postgresql/17/main": f"{new.directory}/data"})
        new.start()
        by_the_page(new, "vacuumdb")
        assert new.psql(CONTENT) == content and new.psql(DERIVED) == derived and new.psql(REFERENCES) == references
        # The extension belongs to the superuser now; the owner of the tables reads and writes as before.
        assert new.psql("SELECT count(*) FROM kube_reports.search_results()") == "1"
        assert new.psql("SELECT restore_pending, results_pending FROM kube_reports.status") == "f|f"
        assert create(new, cluster, "after") > last
        # Watchers of the old server resume: the versions between its last one and the first new one are the gap.
        assert new.psql(f"SELECT bool_and(l.lost @> {last + 1}::bigint AND NOT l.lost @> {last}::bigint)"
                        " FROM kube_reports_internal.lane l JOIN kube_reports.resource_type t ON t.id = l.resource_type"
                        " WHERE t.plural = 'policyreports'") == "t"
        assert new.psql("SELECT count(*) FROM kube_reports.verify()") == "0"
    finally:
        old.remove()
        new.remove()


@pytest.mark.parametrize("form", ["plain", "custom", "parallel"])
@pytest.mark.parametrize("kind", KINDS[1:])
def test_dump_of_the_version_before(kind, form, tmp_path):
    """LC-04: pg_dump of the new version reads the old server, the new server has the same afterwards"""
    old, new, cluster = kind(), Database(), str(uuid.uuid4())
    try:
        old.start()
        old.prepare(cluster)
        last = create(old, cluster, "before")
        settle_results(old)
        new.start()
        skip_unless_known(old, new)
        for role in ("owner", "proxy", "reader", "admin"):
            new.psql(f"CREATE ROLE kube_reports_{role} LOGIN", user="postgres", database="postgres")
        file = str(tmp_path / "dump")
        how = ["--format=directory", "--jobs=4"] if form == "parallel" else [f"--format={form}"]
        run([f"{new.bindir()}/pg_dump", *how, f"--file={file}", "-d", old.connection()])
        restore(new, "restored", form, file)
        assert new.psql(CONTENT, database="restored") == old.psql(CONTENT)
        new.psql("SELECT kube_reports.after_restore()", database="restored")
        settle_results(new, "restored")
        assert new.psql(DERIVED, database="restored") == old.psql(DERIVED)
        assert new.psql(REFERENCES, database="restored") == old.psql(REFERENCES)
        assert create(new, cluster, "after", database="restored") > last
        assert new.psql("SELECT count(*) FROM kube_reports.verify()", database="restored") == "0"
    finally:
        old.remove()
        new.remove()
