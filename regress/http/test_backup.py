"""Backups that are taken under load, and restored while proxies and watchers run (docs/operations.md)."""

import pathlib

import pytest

from client import POLR, expired, failure, path_of, report, run, until
from conftest import Database, stack_command
from crew import Crew
from runbook import block, by_the_page
from test_dump import settle_results

WRONG = "SELECT count(*) FROM kube_reports.verify()"


def newest(database):
    return int(database.psql("SELECT max(version) FROM kube_reports_internal.change"))


def wait_for_workers(proxies, path):
    """
    Waits until each worker answers.  Each has connections of its own; a connection that met a database without the
    extension tries again after seconds, and until then a worker answers 503 at once.
    """
    until(lambda: all(proxy.api().get(path).code == 200 for proxy in proxies for _ in range(16)), 30, "every worker")


def test_point_in_time(own_stack, ns, record_property):
    """A base backup and an archive restore a point in time; clients that saw later writes list again, others go on"""
    database = own_stack.database
    archive = f"{database.directory}/archive"
    stack_command("as_server", "mkdir", archive)
    own_stack.begin(*block("archive_command", **{"/archive": archive}).splitlines())
    proxies = [own_stack.proxy() for _ in range(2)]
    api, path = proxies[0].api(), path_of(POLR, ns)
    crew = Crew(lambda: proxies[0].api(), ns, writers=2, watchers=2, pace=0.02)
    backup = Database()
    try:
        until(lambda: crew.written() > 10 and all(crew.events), 30, "load")
        by_the_page(backup, "pg_basebackup", a=database.directory)
        kept = api.create(POLR, report("kept"), ns)["metadata"]["resourceVersion"]
        assert newest(database) >= int(kept)
        moment = database.psql("SELECT clock_timestamp()", user="postgres")
        lost = [api.create(POLR, report(f"lost-{n}"), ns)["metadata"]["resourceVersion"] for n in range(3)]
        until(lambda: all("lost-2" in known for known in crew.known), 20, "watchers to know what will be lost")
        elsewhere = api.watch(path_of(POLR, ns + "-elsewhere"), resourceVersion=kept)

        # The last segment of the server is archived, too.  A restored server then takes the name of the server.
        database.psql("SELECT pg_switch_wal()", user="postgres")
        database.psql("CHECKPOINT", user="postgres")
        segment = database.psql("SELECT pg_walfile_name(pg_current_wal_lsn())", user="postgres")
        until(lambda: database.psql("SELECT last_archived_wal FROM pg_stat_archiver", user="postgres") >= segment or
              database.psql("SELECT pg_switch_wal()", user="postgres") is None, 30, "the archive")
        database.stop("immediate")
        by_the_page(database, "recovery.signal", base=f"{backup.directory}/base")
        database.recover(*block("restore_command", **{"/archive": archive,
                                                               "2026-05-01 12:00:00+00": moment}).splitlines())
        before = crew.written()
        until(lambda: crew.written() > before + 5, 60, "writes to go on")
        crew.end_writers()
        wait_for_workers(proxies, path)

        # Writes before the point in time are there, later ones are not; no version is given twice.
        stored = crew.names()
        assert stored["kept"] == kept and not [name for name in stored if name.startswith("lost")]
        assert all(name in stored for name, version in crew.acknowledged.items() if version and version <= int(kept))
        after = int(api.create(POLR, report("after"), ns)["metadata"]["resourceVersion"])
        assert after > int(lost[-1])
        assert min(int(version) for version in stored.values() if int(version) > int(kept)) > int(kept)
        for version in lost:
            expired(api, path, version)
            failure(api.get(path, resourceVersion=version, resourceVersionMatch="Exact"), 410, "Expired")
        with api.watch(path, resourceVersion=kept) as watch:
            assert watch.code == 200 and watch.change()[0] == "ADDED"
        assert proxies[1].api().get(path + "/kept").code == 200
        api.create(POLR, report("there"), ns + "-elsewhere")
        elsewhere.expect(("ADDED", "there"))
        until(crew.caught_up, 60, "all watchers to know what is stored")
        crew.end()
        assert all(count >= 1 for count in crew.relists)
        settle_results(database)
        assert database.psql(WRONG) == "0"
        told = f"point in time: the longest write took {crew.write_gap:.2f} s"
        print(told)
        record_property("gaps", told)
        elsewhere.close()
    finally:
        crew.enough.set()
        crew.stop.set()
        backup.remove()


@pytest.fixture
def spare():
    """Another server with the roles, without the database."""
    server = Database()
    server.start()
    for role in ("kube_reports_owner", "kube_reports_proxy", "kube_reports_reader", "kube_reports_admin"):
        server.psql(f"CREATE ROLE {role} LOGIN", user="postgres", database="postgres")
    yield server
    server.remove()


def test_dumps_under_load(own_stack, spare, ns, tmp_path, record_property):
    """Dumps of all forms are taken under load and restored; one of them replaces the server, and informers recover"""
    own_stack.begin()
    source = own_stack.database
    hosts = f"host={source.directory},{spare.directory} port=5432,5432 user=kube_reports_proxy dbname=kube_reports " \
        "connect_timeout=3"
    proxies = [own_stack.proxy(connection=hosts) for _ in range(2)]
    crew = Crew(lambda: proxies[0].api(), ns, writers=2, watchers=3, pace=0.02)
    try:
        until(lambda: crew.written() > 10 and all(crew.events), 30, "load")
        dumps = {}
        for form, how in (("plain", ["--format=plain"]), ("custom", ["--format=custom"]),
                          ("directory", ["--format=directory", "--jobs=2"])):
            acknowledged = {name for name, version in list(crew.acknowledged.items()) if version}
            dumps[form] = str(pathlib.Path(tmp_path) / form), acknowledged
            run(["pg_dump", *how, f"--file={dumps[form][0]}", "-d", source.connection()])
        for form, (file, acknowledged) in dumps.items():
            name = "kube_reports" if form == "directory" else f"restored_{form}"
            if form == "directory":
                # The old server ends before a client can find the new one.
                given = newest(source)
                source.stop("immediate")
            spare.psql(f"CREATE DATABASE {name} OWNER kube_reports_owner", user="postgres", database="postgres")
            to = ["-d", spare.connection(database=name)]
            if form == "plain":
                run(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "--single-transaction", "-f", file, *to])
            else:
                run(["pg_restore", "--exit-on-error", *(["--jobs=2"] if form == "directory" else []), *to, file])
            if form != "directory":
                spare.psql("SELECT kube_reports.after_restore()", database=name)
                spare.derive(name)
                assert spare.psql(WRONG, database=name) == "0"
            there = set(spare.psql("SELECT name FROM kube_reports.object", database=name).split())
            assert acknowledged <= there, acknowledged - there
        before = crew.written()
        until(lambda: crew.written() > before + 5, 60, "writes to go on")
        crew.end_writers()
        wait_for_workers(proxies, path_of(POLR, ns))
        until(crew.caught_up, 60, "all informers to know what is stored")
        after = proxies[1].api().create(POLR, report("after"), ns)["metadata"]["resourceVersion"]
        assert int(after) > given
        crew.end()
        assert all(count >= 1 for count in crew.relists)
        settle_results(spare)
        assert spare.psql(WRONG) == "0"
        told = f"dump and restore: the longest write took {crew.write_gap:.2f} s, with the time that restoring took"
        print(told)
        record_property("gaps", told)
    finally:
        crew.enough.set()
        crew.stop.set()
        own_stack.end_proxies()
