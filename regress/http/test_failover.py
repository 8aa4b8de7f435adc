"""A standby without the last writes is promoted: clients with lost versions get 410 (DESIGN section 5)."""

import json
import re

import psycopg2

from client import POLR, expired, failure, path_of, report, until
from conftest import Database, run
from runbook import block


def databases_by_the_page(primary, standby):
    """Returns the value of --database in docs/operations.md, with these servers."""
    flags = block("target_session_attrs", **{"a,b": f"{primary.directory},{standby.directory}",
                                             "dbname=reports": "dbname=kube_reports"})
    return re.search(r'--database="([^"]*)"', flags).group(1)


def promote_by_the_page(standby):
    run(["bash", "-c", block("pg_promote", b=standby.directory)])


def test_promotion_loses_the_last_writes(own_stack):
    """
    LC-02, RV-01, W-50: new versions are above all versions that were given; only versions of the gap get 410; watches
    from older versions resume or go on
    """
    own_stack.begin()
    standby = Database()
    try:
        standby.follow(own_stack.database)
        primary = own_stack.database
        hosts = databases_by_the_page(primary, standby)
        proxies = [own_stack.proxy(connection=hosts) for _ in range(2)]
        api, other = proxies[0].api(), proxies[1].api()
        path = path_of(POLR, "ns")
        kept = api.create(POLR, report("kept"), "ns")["metadata"]["resourceVersion"]
        last = api.create(POLR, report("last"), "ns")["metadata"]["resourceVersion"]
        newest = primary.psql("SELECT pg_current_wal_lsn()", user="postgres")
        until(lambda: standby.psql(f"SELECT pg_last_wal_replay_lsn() >= '{newest}'", user="postgres") == "t", 20,
              "replay")

        # The standby gets no more writes.
        standby.psql("ALTER SYSTEM SET primary_conninfo = ''", user="postgres")
        standby.psql("SELECT pg_reload_conf()", user="postgres")
        until(lambda: primary.psql("SELECT count(*) FROM pg_stat_replication", user="postgres") == "0", 20,
              "the end of streaming")
        # One worker has one feed for both watches: after one watch has shown the writes, the feed has read them.
        proxies.append(own_stack.proxy(connection=hosts, flags=["--workers=1"]))
        concerned, elsewhere = (proxies[2].api().watch(path_of(POLR, ns), resourceVersion=last)
                                for ns in ("ns", "elsewhere"))
        lost = [api.create(POLR, report(f"lost-{n}"), "ns")["metadata"]["resourceVersion"] for n in range(3)]
        concerned.expect(*(("ADDED", f"lost-{n}") for n in range(3)))
        primary.kill()
        promote_by_the_page(standby)
        for proxy in proxies:
            until(lambda: proxy.api().get(path + "/kept").code == 200, 60, "the promoted server")
        until(lambda: all(client.get(path + "/lost-0").code == 404 for client in (api, other) for _ in range(8)),
              30, "every worker")

        written = []
        until(lambda: written.append(other.post(path, report("after"))) or written[-1].code != 503, 30, "a write")
        assert written[-1].code == 201, written
        after = written[-1].json["metadata"]["resourceVersion"]
        assert int(after) > int(lost[-1])

        # The watch that has shown lost writes ends with 410; the watch that has shown nothing of the gap goes on.
        kind, status = concerned.event(30)
        assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
        assert concerned.end() == []
        until(lambda: other.post(path_of(POLR, "elsewhere"), report("there")).code in (201, 409), 30,
              "a write elsewhere")
        elsewhere.expect(("ADDED", "there"))

        # Versions in the promoted log: the watch misses no event, and gets none twice.
        for version, names in ((kept, ["last", "after"]), (last, ["after"])):
            with api.watch(path, resourceVersion=version) as watch:
                assert watch.code == 200
                watch.expect(*(("ADDED", name) for name in names))
        # Versions of the gap: the client knows writes that are lost.
        for version in lost:
            expired(api, path, version)
            failure(api.get(path, resourceVersion=version, resourceVersionMatch="Exact"), 410, "Expired")
        assert api.names(POLR, "ns") == ["after", "kept", "last"]
        for watch in (concerned, elsewhere):
            watch.close()
    finally:
        standby.remove()


def test_first_writes_after_a_promotion_are_sql(own_stack):
    """
    RV-01, LC-02: no proxy has connected to the promoted server; neither a session from before nor a new one gives a
    version again
    """
    own_stack.begin()
    primary, standby = own_stack.database, Database()
    create = (f"SELECT (kube_reports.create_report('{own_stack.cluster}', "
              f"jsonb_set('{json.dumps(report('r', 'ns'))}'::jsonb,"
              " '{metadata,name}', to_jsonb('%s-' || n))::kube_reports.report)::jsonb #>> "
              "'{metadata,resourceVersion}')::bigint"
              " FROM generate_series(1, %d) n")
    try:
        standby.follow(primary)
        primary.psql(create % ("kept", 1))
        newest = primary.psql("SELECT pg_current_wal_lsn()", user="postgres")
        until(lambda: standby.psql(f"SELECT pg_last_wal_replay_lsn() >= '{newest}'", user="postgres") == "t", 20,
              "replay")
        standby.psql("ALTER SYSTEM SET primary_conninfo = ''", user="postgres")
        standby.psql("SELECT pg_reload_conf()", user="postgres")
        until(lambda: primary.psql("SELECT count(*) FROM pg_stat_replication", user="postgres") == "0", 20,
              "the end of streaming")
        # More writes than a sequence logs values ahead.
        lost = [int(version) for version in primary.psql(create % ("lost", 100)).split()]
        session = psycopg2.connect(standby.connection())
        session.autocommit = True
        with session.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM kube_reports.object")
            assert cursor.fetchone() == (1,)
            primary.kill()
            standby.promote()
            cursor.execute(create.replace("%s", "early").replace("%d", "50"))
            early = [row[0] for row in cursor.fetchall()]
        session.close()
        later = [int(version) for version in standby.psql(create % ("later", 50)).split()]
        assert len(early) == len(later) == 50
        assert max(lost) < min(early) and max(early) < min(later)
        assert standby.psql(f"SELECT bool_and(l.lost @> {lost[-1]}::bigint) FROM kube_reports_internal.lane l") == "t"
    finally:
        standby.remove()


def test_a_copy_takes_the_name(own_stack):
    """
    A copy made by CREATE DATABASE ... TEMPLATE, on the same server, replaces its original: no version is given twice,
    and watches from versions that the copy lacks get 410
    """
    database = own_stack.begin().database
    proxy = own_stack.proxy(flags=["--workers=1"])
    api, path = proxy.api(), path_of(POLR, "ns")
    api.create(POLR, report("kept"), "ns")
    names = {"reports": "kube_reports"}
    database.psql(block("TEMPLATE", **names), user="postgres", database="postgres")
    until(lambda: api.get(path + "/kept").code == 200, 30, "the original")
    lost = [api.create(POLR, report(f"lost-{n}"), "ns")["metadata"]["resourceVersion"] for n in range(3)]
    database.psql(block("RENAME TO original", **names), user="postgres", database="postgres")
    until(lambda: api.get(path + "/lost-0").code == 404, 30, "the copy")
    assert api.get(path + "/kept").code == 200
    written = []
    until(lambda: written.append(api.post(path, report("new"))) or written[-1].code == 201, 30, "a write")
    assert int(written[-1].json["metadata"]["resourceVersion"]) > int(lost[-1])
    assert expired(api, path, lost[-1])["code"] == 410
