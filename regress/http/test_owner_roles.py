"""What a superuser does to roles of a store: drops, renames and replaces them, as docs/operations.md says."""

import uuid

import pytest

from client import POLR, path_of, report, until
from conftest import VARIANT
from runbook import block


def grants(database, role):
    """How many objects have a grant for the role."""
    return int(database.psql(f"""SELECT count(*) FROM pg_shdepend d WHERE d.refclassid = 'pg_authid'::regclass
        AND d.refobjid = '{role}'::regrole AND d.deptype = 'a'""", user="postgres"))


@pytest.mark.parametrize("granted_by", ["kube_reports_owner", "postgres"])
def test_an_administrator_is_dropped(module_stack, granted_by):
    """Whichever role granted or revokes: nothing stays that keeps the role from being dropped"""
    database = module_stack.database
    for revoked_by in ("postgres", "kube_reports_owner"):
        database.psql("CREATE ROLE dropped LOGIN", user="postgres")
        database.psql("SELECT kube_reports.grant_admin('dropped')", user=granted_by)
        assert grants(database, "dropped") > 100
        revoked = database.psql("SELECT kube_reports.revoke_admin('dropped')", user=revoked_by, check=False)
        if VARIANT == "c" and (granted_by, revoked_by) == ("postgres", "kube_reports_owner"):
            # Functions in C are the superuser's, and so are its grants.
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
    # It has its privileges still, but no grant says what it sees.
    assert database.psql("SELECT count(*) FROM kube_reports.fleet_freshness", user="after") == "0"
    database.psql("SELECT kube_reports.revoke_reader('before'); SELECT kube_reports.grant_reader('after')")
    assert database.psql("SELECT string_agg(role, ',') FROM kube_reports_internal.reader_grant "
                         "WHERE role IN ('before', 'after')") == "after"
    assert database.psql("SELECT count(*) FROM kube_reports.fleet_freshness", user="after") == "1"
    assert database.psql("SELECT kube_reports.revoke_reader('after')") == "1"
    database.psql("DROP ROLE after", user="postgres")


def test_another_owner(own_stack, ns):
    """REASSIGN OWNED gives the store away; by the statements of docs/operations.md all goes on"""
    database = own_stack.begin().database
    proxy = own_stack.proxy(flags=["--workers=1"])
    api, path = proxy.api(), path_of(POLR, ns)
    api.create(POLR, report("r0"), ns)
    database.psql("CREATE ROLE next_owner LOGIN", user="postgres")
    *grants_first, reassign = block("REASSIGN OWNED", reports="kube_reports").splitlines()
    database.psql("\n".join(grants_first), user="postgres")
    # It locks every table, in no order: a session of a proxy may be in the way (40P01).
    until(lambda: database.psql(reassign, user="postgres", check=False).code == 0, 60, "the store to be given away")
    assert api.patch(path + "/r0", {"metadata": {"labels": {"a": "b"}}}).code == 200
    api.create(POLR, report("r1"), ns)
    database.psql("SELECT kube_reports.maintain(); SELECT kube_reports.make_history(now())", user="next_owner")
    assert database.psql("SELECT count(*) FROM kube_reports.verify()", user="next_owner") == "0"
    database.psql("CREATE ROLE later LOGIN", user="postgres")
    database.psql(f"SELECT kube_reports.grant_reader('later'); SELECT kube_reports.register_cluster('{uuid.uuid4()}')",
                  user="next_owner")
    assert database.psql("SELECT count(*) FROM kube_reports.stored_report", user="later") == "2"
