"""A superuser drops, renames and replaces roles of a store, as docs/operations.md says."""

import concurrent.futures
import contextlib
import uuid

import psycopg2
import pytest

from client import POLR, path_of, report, until
from conftest import VARIANT
from runbook import block


def grants(database, role):
    """Returns how many objects have a grant for the role."""
    return int(database.psql(f"""SELECT count(*) FROM pg_shdepend d WHERE d.refclassid = 'pg_authid'::regclass
        AND d.refobjid = '{role}'::regrole AND d.deptype = 'a'""", user="postgres"))


@pytest.mark.parametrize("granted_by", ["kube_reports_owner", "postgres"])
def test_an_administrator_is_dropped(module_stack, granted_by):
    """After revoke_admin() nothing prevents DROP ROLE, whichever role granted and whichever revokes"""
    database = module_stack.database
    for revoked_by in ("postgres", "kube_reports_owner"):
        database.psql("CREATE ROLE dropped LOGIN", user="postgres")
        database.psql("SELECT kube_reports.grant_admin('dropped')", user=granted_by)
        assert grants(database, "dropped") > 100
        revoked = database.psql("SELECT kube_reports.revoke_admin('dropped')", user=revoked_by, check=False)
        if VARIANT == "c" and (granted_by, revoked_by) == ("postgres", "kube_reports_owner"):
            # Functions in C belong to the superuser, and so do grants on them.
            assert revoked.code != 0 and "called by that role or a superuser" in revoked.err
            database.psql("SELECT kube_reports.revoke_admin('dropped')", user="postgres")
        else:
            assert revoked.code == 0, revoked.err
        assert grants(database, "dropped") == 0
        database.psql("DROP ROLE dropped", user="postgres")


def test_a_reader_is_renamed(module_stack):
    """Grants of readers are by name: the new name gets them by a grant, and the old name loses them"""
    database = module_stack.database
    database.psql("CREATE ROLE before LOGIN", user="postgres")
    database.psql("SELECT kube_reports.grant_reader('before')")
    database.psql("ALTER ROLE before RENAME TO after", user="postgres")
    # The role still has its privileges, but no grant says what it may see.
    assert database.psql("SELECT count(*) FROM kube_reports.fleet_freshness", user="after") == "0"
    database.psql("SELECT kube_reports.revoke_reader('before'); SELECT kube_reports.grant_reader('after')")
    assert database.psql("SELECT string_agg(role, ',') FROM kube_reports_internal.reader_grant "
                         "WHERE role IN ('before', 'after')") == "after"
    assert database.psql("SELECT count(*) FROM kube_reports.fleet_freshness", user="after") == "1"
    assert database.psql("SELECT kube_reports.revoke_reader('after')") == "1"
    database.psql("DROP ROLE after", user="postgres")


def test_another_owner(own_stack, ns):
    """REASSIGN OWNED gives the store to another owner; with the statements of docs/operations.md everything goes on"""
    database = own_stack.begin().database
    proxy = own_stack.proxy(flags=["--workers=1"])
    api, path = proxy.api(), path_of(POLR, ns)
    api.create(POLR, report("r0"), ns)
    database.psql("CREATE ROLE next_owner LOGIN", user="postgres")
    *grants_first, reassign = block("REASSIGN OWNED", reports="kube_reports").splitlines()
    database.psql("\n".join(grants_first), user="postgres")
    # REASSIGN OWNED locks every table, in no fixed order: a session of a proxy may cause a deadlock (40P01).
    until(lambda: database.psql(reassign, user="postgres", check=False).code == 0, 60, "the store to be given away")
    assert api.patch(path + "/r0", {"metadata": {"labels": {"a": "b"}}}).code == 200
    api.create(POLR, report("r1"), ns)
    database.psql("SELECT kube_reports.maintain(); SELECT kube_reports.make_history(now())", user="next_owner")
    assert database.psql("SELECT count(*) FROM kube_reports.verify()", user="next_owner") == "0"
    database.psql("CREATE ROLE later LOGIN", user="postgres")
    database.psql(f"SELECT kube_reports.grant_reader('later'); SELECT kube_reports.register_cluster('{uuid.uuid4()}')",
                  user="next_owner")
    assert database.psql("SELECT count(*) FROM kube_reports.stored_report", user="later") == "2"


def test_beside_autovacuum(own_stack):
    """CREATE EXTENSION waits for a worker of autovacuum that has written in the database; such a worker has no role"""
    database = own_stack.begin().database
    for setting in ("autovacuum = on", "autovacuum_naptime = '1s'"):
        database.psql(f"ALTER SYSTEM SET {setting}", user="postgres")
    database.psql("SELECT pg_reload_conf()", user="postgres")
    database.psql("CREATE DATABASE beside OWNER kube_reports_owner", user="postgres")
    # ANALYZE writes the statistics of the table before it computes those of the expression, which then wait.
    database.psql("CREATE FUNCTION held(n integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE "
                  "AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(42); RETURN n; END $$; "
                  "CREATE TABLE counted (n integer) WITH (autovacuum_analyze_threshold = 10); "
                  "CREATE STATISTICS of_counted ON (held(n)) FROM counted", database="beside")
    with contextlib.closing(psycopg2.connect(database.connection(database="beside"))) as holder:
        holder.cursor().execute("SELECT pg_advisory_lock(42)")
        holder.commit()
        database.psql("INSERT INTO counted SELECT generate_series(1, 1000)", database="beside")
        until(lambda: database.psql("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'autovacuum worker' "
                                    "AND backend_xid IS NOT NULL AND datname = 'beside'", user="postgres") == "1", 90,
              "a worker of autovacuum that has written")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            made = pool.submit(database.psql, "CREATE EXTENSION kube_reports", database="beside", check=False)
            until(lambda: made.done() or database.psql(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = 'beside'",
                user="postgres") == "1", 60, "the wait of the script")
            holder.cursor().execute("SELECT pg_advisory_unlock(42)")
            holder.commit()
            assert made.result().code == 0, made.result()
