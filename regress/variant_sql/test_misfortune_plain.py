"""The plain scripts when something goes wrong: in use, cancelled, twice at once, by clients that go on after errors."""

import signal
import subprocess

import psycopg2
import pytest

from client import until
from conftest import VERSION
from ways import OWNER, PLAIN, Server, begun, update_script

INSTALL, UNINSTALL = (PLAIN / f"kube_reports--{what}.sql" for what in ("install", "uninstall"))
VIEW = "CREATE VIEW public.mine AS SELECT uid FROM kube_reports.cluster"
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


@pytest.fixture(scope="module")
def server():
    yield from begun(Server())


@pytest.fixture(scope="module")
def update(tmp_path_factory):
    return update_script(tmp_path_factory.mktemp("next"))


def begin(server, script, name, *options, user=OWNER):
    """Starts a psql that runs a file."""
    return subprocess.Popen(["psql", "-X", "-q", "-At", *options, "-d", server.connection(user, name), "-f",
                             str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(psql):
    """Waits for the end of psql; returns the errors that it printed."""
    return psql.communicate(timeout=120)[1]


REFUSED = {
    "superuser installs": ("", INSTALL, "postgres", "a superuser is not to own"),
    "schema of others": ("CREATE SCHEMA kube_reports; GRANT CREATE ON SCHEMA kube_reports TO PUBLIC", INSTALL, OWNER,
                         "others may create objects"),
    "superuser uninstalls": (None, UNINSTALL, "postgres", "owns kube_reports"),
    "view of others": (VIEW, UNINSTALL, OWNER, "other objects depend"),
    "superuser updates": (None, None, "postgres", "owns kube_reports"),
    "another version": ("CREATE OR REPLACE FUNCTION kube_reports_internal.script_version() RETURNS text LANGUAGE sql "
                        "IMMUTABLE RETURN '9.5'", None, OWNER, "version 9.5 of kube_reports is in this database"),
    "others in a schema": ("GRANT CREATE ON SCHEMA kube_reports_internal TO PUBLIC", None, OWNER,
                           "others may create objects"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_to_a_client_that_goes_on(server, update, case):
    """A client may roll back each failed statement, go on and commit: a refused script still changes nothing"""
    prepare, script, user, why = REFUSED[case]
    name = "on_" + case.replace(" ", "_")
    server.create(name) if script == INSTALL else server.plain(name)
    server.psql(prepare or "", user="postgres" if prepare == VIEW else OWNER, database=name)
    before = server.everything(name)
    errors = end(begin(server, script or update, name, "-v", "ON_ERROR_ROLLBACK=on", user=user))
    assert why in errors.splitlines()[0], errors[:500]
    assert server.everything(name) == before


def test_two_install_at_once(server):
    """Of two installs at the same time, one fails and says that the other one installed"""
    name = server.create("at_once")
    errors = sorted(end(psql) for psql in [begin(server, INSTALL, name, "-v", "ON_ERROR_STOP=1") for _ in range(2)])
    assert errors[0] == ""
    assert "has just made schema" in errors[1] or "in this database already" in errors[1], errors[1]
    assert server.psql("SELECT version FROM kube_reports.status", database=name) == VERSION


@pytest.mark.parametrize("options", [(), ("-v", "ON_ERROR_STOP=1")])
def test_install_cut_off(server, options):
    """Ctrl-C during the install leaves nothing, and the script can be run again"""
    name = server.create(f"cut_off_{len(options)}")
    before = server.everything(name)
    with psycopg2.connect(server.connection("postgres", name)) as other, other.cursor() as cursor:
        cursor.execute("LOCK TABLE pg_trigger IN SHARE MODE")
        psql = begin(server, INSTALL, name, *options)
        until(lambda: server.psql(WAITING, database=name) == "1", 60, "the install to wait")
        psql.send_signal(signal.SIGINT)
        assert "Cancel request sent" in end(psql)
    assert server.everything(name) == before
    server.file(INSTALL, name)


def test_uninstall_in_use(server):
    """Uninstall does not wait for a reader for ever, while others wait for uninstall; cancelled, it changes nothing"""
    name = server.plain("in_use")
    before = server.everything(name)
    with psycopg2.connect(server.connection("kube_reports_reader", name)) as reader, reader.cursor() as cursor:
        cursor.execute("SELECT * FROM kube_reports.status")
        psql = begin(server, UNINSTALL, name, "-v", "ON_ERROR_STOP=1")
        until(lambda: server.psql(WAITING, database=name) == "1", 60, "the uninstall to wait")
        psql.send_signal(signal.SIGINT)
        assert "canceling statement" in end(psql)
        errors = end(begin(server, UNINSTALL, name, "-v", "ON_ERROR_STOP=1"))
        assert "kube_reports is in use" in errors and "of role kube_reports_reader" in errors, errors
    assert server.everything(name) == before
    server.file(UNINSTALL, name)


def test_uninstall_calls_nothing_of_others(server):
    """Uninstall does not call a function of another role in the schema, although its arguments fit a call better"""
    name = server.plain("left_behind")
    server.psql("GRANT CREATE ON SCHEMA kube_reports TO kube_reports_admin", database=name)
    server.psql("CREATE FUNCTION kube_reports.revoke_reader(name) RETURNS bigint LANGUAGE plpgsql AS "
                "$$BEGIN EXECUTE 'GRANT ' || current_user || ' TO kube_reports_admin'; RETURN 1; END$$",
                user="kube_reports_admin", database=name)
    server.psql("REVOKE CREATE ON SCHEMA kube_reports FROM kube_reports_admin", database=name)
    server.file(UNINSTALL, name)
    assert server.psql("SELECT count(*) FROM pg_auth_members m WHERE m.member = 'kube_reports_admin'::regrole",
                       database=name) == "0"
