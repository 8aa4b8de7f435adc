"""
The plain scripts (install, update, uninstall) among objects of hostile roles (issue 13): a script runs with the rights
of the role that runs it, and no other role gets these rights.
"""

import psycopg2
import pytest

from conftest import VERSION
from test_hostile_installer import plant
from ways import OWNER, PLAIN, Server, assert_same, begun, update_script

INSTALL, UNINSTALL = (PLAIN / f"kube_reports--{what}.sql" for what in ("install", "uninstall"))

# If this code of the neighbour runs with the victim's rights, the neighbour gets them; it also notes which role ran it.
PAYLOAD = """AS $payload$
BEGIN
    INSERT INTO evil.ran VALUES (current_user);
    EXECUTE 'GRANT ' || current_user || ' TO neighbour';
    RETURN {value};
EXCEPTION WHEN OTHERS THEN
    RETURN {value};
END
$payload$"""

# Settings under which a script of PostgreSQL may be read in another way.  Any role may set them for itself.
ODD = ("standard_conforming_strings = off", "transform_null_equals = on", "quote_all_identifiers = on",
       "intervalstyle = sql_standard", "datestyle = 'SQL, DMY'", "timezone = 'Pacific/Apia'", "array_nulls = off",
       "bytea_output = escape", "xmloption = document", "plpgsql.variable_conflict = use_column",
       "plpgsql.extra_errors = 'all'", "default_transaction_isolation = serializable",
       "default_transaction_read_only = on", "default_toast_compression = pglz", "extra_float_digits = -3",
       "backslash_quote = off", "check_function_bodies = off", "enable_seqscan = off", "jit_above_cost = 0")


@pytest.fixture(scope="module")
def server():
    """A server with a neighbour: a role that may create schemas in each of the owner's databases."""
    for made in begun(Server()):
        made.psql("CREATE ROLE neighbour LOGIN", user="postgres", database="postgres")
        yield made


@pytest.fixture
def hostile(server, request):
    """A database of the owner, with a schema of the neighbour."""
    name = server.create(f"hostile_{abs(hash(request.node.name)) % 1000000}")
    server.psql("GRANT CREATE ON DATABASE " + name + " TO neighbour", user="postgres", database="postgres")
    server.psql("CREATE SCHEMA evil; CREATE TABLE evil.ran (role text); GRANT USAGE ON SCHEMA evil TO PUBLIC;"
                "GRANT ALL ON evil.ran TO PUBLIC", user="neighbour", database=name)
    yield name
    server.psql(f"DROP DATABASE {name} WITH (FORCE); ALTER ROLE {OWNER} RESET ALL", user="postgres",
                database="postgres")


def planted(server, name, *functions, schema="kube_reports_internal"):
    """Creates functions of the neighbour with names of kube-reports' functions, and what they return."""
    server.psql(f"CREATE SCHEMA IF NOT EXISTS {schema}; GRANT ALL ON SCHEMA {schema} TO PUBLIC;" + "".join(
        f"CREATE FUNCTION {schema}.{function} LANGUAGE plpgsql {PAYLOAD.format(value=value)};"
        for function, value in functions), user="neighbour", database=name)


def untouched(server, name):
    return server.psql("SELECT (SELECT count(*) FROM evil.ran), (SELECT count(*) FROM pg_auth_members m "
                       "WHERE m.member = 'neighbour'::regrole)", user="postgres", database=name) == "0|0"


def refused(server, script, name, why, user=OWNER):
    done = server.file(script, name, user=user, check=False)
    assert done.code != 0 and why in done.err, done.err
    assert untouched(server, name)


def test_planted_elsewhere(server, hostile):
    """With any search_path and settings, the scripts use no object of the neighbour, and make the same objects"""
    connection = psycopg2.connect(server.connection("neighbour", hostile))
    connection.autocommit = True
    plant(connection.cursor(), "evil")
    connection.close()
    server.psql("GRANT USAGE ON SCHEMA evil TO PUBLIC; GRANT ALL ON ALL TABLES IN SCHEMA evil TO PUBLIC",
                user="neighbour", database=hostile)
    server.psql("".join(f"ALTER ROLE {OWNER} SET {setting};" for setting in (
        "search_path = evil, pg_temp, public, pg_catalog", *ODD)), user="postgres", database=hostile)
    server.file(INSTALL, hostile)
    server.psql(f"ALTER ROLE {OWNER} RESET ALL", user="postgres", database=hostile)
    assert untouched(server, hostile)
    server.psql("DROP SCHEMA evil CASCADE; CREATE SCHEMA evil; CREATE TABLE evil.ran (role text)", user="neighbour",
                database=hostile)
    assert server.psql("SELECT restore_pending FROM kube_reports.status", database=hostile) == "f"
    bare = server.create(f"{hostile}_bare")
    server.file(INSTALL, bare)
    assert_same(server.same(hostile), server.same(bare))
    server.file(UNINSTALL, hostile)


@pytest.mark.parametrize("schema", ["kube_reports", "kube_reports_internal"])
def test_schema_of_a_neighbour(server, hostile, schema):
    """No script uses a schema that the neighbour has made, or calls functions in it"""
    planted(server, hostile, ("format(text, text) RETURNS text", "''"), schema=schema)
    refused(server, INSTALL, hostile, "belongs to role" if schema == "kube_reports" else "exists already")


def test_default_privileges(server, hostile):
    """Default privileges of the owner give no role more rights"""
    server.psql("".join(f"ALTER DEFAULT PRIVILEGES GRANT {what};" for what in (
        "ALL ON TABLES TO neighbour", "ALL ON ROUTINES TO PUBLIC", "ALL ON TYPES TO neighbour",
        "ALL ON SEQUENCES TO neighbour WITH GRANT OPTION", "USAGE ON SCHEMAS TO neighbour")), database=hostile)
    server.file(INSTALL, hostile)
    assert server.psql("SELECT count(*) FROM pg_class c WHERE c.relnamespace::regnamespace::text LIKE 'kube_reports%' "
                       "AND c.relkind IN ('r', 'p', 'v', 'S') AND has_table_privilege('neighbour', c.oid, 'SELECT')",
                       database=hostile) == "0"
    assert server.psql("SELECT count(*) FROM pg_namespace n WHERE n.nspname LIKE 'kube_reports%' "
                       "AND has_schema_privilege('neighbour', n.oid, 'USAGE')", database=hostile) == "0"


def test_functions_with_the_owners_rights(server, hostile):
    """Each has a path of its own; a role without a grant reaches neither them nor the tables"""
    server.file(INSTALL, hostile)
    assert server.psql("SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace::regnamespace::text LIKE "
                       "'kube_reports%' AND p.prosecdef "
                       "AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (p.proconfig), false)",
                       database=hostile) == ""
    for attempt in ("SELECT kube_reports.selector_terms('a')", "SELECT kube_reports_internal.this_caller()",
                    "SELECT * FROM kube_reports.cluster", "SELECT '{}'::kube_reports.report",
                    "CREATE FUNCTION evil.f(kube_reports.report) RETURNS integer LANGUAGE sql RETURN 1"):
        done = server.psql(attempt, user="neighbour", database=hostile, check=False)
        assert done.code != 0 and "permission denied for schema kube_reports" in done.err, done.err
    assert untouched(server, hostile)


def test_superusers_remove_nothing(server, hostile):
    """A superuser cannot run the uninstall script: it would call the owner's functions with a superuser's rights"""
    server.file(INSTALL, hostile)
    server.psql("SELECT kube_reports.grant_reader('kube_reports_reader')", database=hostile)
    server.psql("CREATE OR REPLACE FUNCTION kube_reports.revoke_reader(role text) RETURNS bigint LANGUAGE plpgsql AS "
                f"$$BEGIN EXECUTE 'ALTER ROLE {OWNER} SUPERUSER'; RETURN 1; END$$", database=hostile)
    done = server.file(UNINSTALL, hostile, user="postgres", check=False)
    assert done.code != 0 and f"SET ROLE {OWNER}" in done.err, done.err
    assert server.psql(f"SELECT rolsuper FROM pg_roles WHERE rolname = '{OWNER}'", database=hostile) == "f"


@pytest.mark.parametrize("user", [OWNER, "postgres"])
def test_nothing_of_ours_to_remove(server, hostile, user):
    """The neighbour has made objects that look like kube-reports, and another role runs the uninstall script"""
    planted(server, hostile, ("script_version() RETURNS text", "'x'"), ("revoke_reader(name) RETURNS bigint", "1"))
    planted(server, hostile, ("revoke_reader(name) RETURNS bigint", "1"), schema="kube_reports")
    server.psql("CREATE VIEW kube_reports_internal.reader_grant AS SELECT 'kube_reports_reader'::name AS role;"
                "GRANT SELECT ON kube_reports_internal.reader_grant TO PUBLIC", user="neighbour", database=hostile)
    refused(server, UNINSTALL, hostile, "SET ROLE neighbour", user)


@pytest.fixture(scope="module")
def update(tmp_path_factory):
    return update_script(tmp_path_factory.mktemp("next"))


@pytest.mark.parametrize("outer", ["neighbour", OWNER])
def test_nothing_of_ours_to_update(server, hostile, update, outer):
    """The same, and another role runs the update script; the outer schema may belong to that role"""
    planted(server, hostile, ("script_version() RETURNS text", f"'{VERSION}'"))
    server.psql("CREATE SCHEMA kube_reports", user=outer, database=hostile)
    refused(server, update, hostile, "SET ROLE neighbour")
