"""
A role that is no superuser runs CREATE EXTENSION and does not become a superuser, although the script of a trusted
extension runs as one (issue 13).
"""

import concurrent.futures
import contextlib
import re

import psycopg2
import pytest

from client import run, until
from conftest import TOP, VERSION, Database, only_c

# The script of the variant in SQL never runs as a superuser.
pytestmark = only_c

# If the function runs with superuser rights, its owner gets them; every call leaves a trace in the session.
PAYLOAD = """AS $payload$
BEGIN
    PERFORM pg_catalog.set_config('mallory.ran', 'yes', false);
    BEGIN
        ALTER ROLE mallory SUPERUSER;
    EXCEPTION WHEN insufficient_privilege THEN
        NULL;
    END;
    RETURN NULL;
END
$payload$"""

# Functions that fit the calls in scripts better than the server's, whose arguments have any type or are converted.
FUNCTIONS = [
    "format(text, bigint) RETURNS text", "format(text, text) RETURNS text", "format(text, text, regrole) RETURNS text",
             "format(text, name) RETURNS text",
    "concat(text, text) RETURNS text", "concat_ws(text, text) RETURNS text",
    "jsonb_build_object(text, text) RETURNS jsonb", "jsonb_build_object(text, jsonb) RETURNS jsonb",
             "array_agg(text) RETURNS text[]",
    "pg_extension_config_dump(text, text) RETURNS text", "getdatabaseencoding() RETURNS text",
             "nextval(text) RETURNS bigint",
    "has_table_privilege(name, text, text) RETURNS boolean", "sha256(text) RETURNS bytea",
]
OPERATORS = ["|| (text, regprocedure) text", "|| (text, regclass) text", "|| (text, regtype) text",
             "|| (text, text) text", "= (regclass, oid) boolean",
             "<> (text, text) boolean", "= (text, name) boolean", "= (name, text) boolean", "= (oid, regclass) boolean",
             "- (jsonb, name) jsonb"]


@pytest.fixture(scope="module")
def server():
    """A server with the extension's files; its superuser is postgres."""
    database = Database()
    try:
        database.start()
        database.psql("CREATE ROLE mallory LOGIN; CREATE ROLE neighbour LOGIN", user="postgres", database="postgres")
        yield database
    finally:
        database.remove()


@pytest.fixture
def hostile(server):
    """An empty database that mallory owns."""
    server.psql("CREATE DATABASE hostile OWNER mallory", user="postgres", database="postgres")
    yield server
    server.psql("DROP DATABASE hostile WITH (FORCE)", user="postgres", database="postgres")
    server.psql("ALTER ROLE mallory RESET ALL; ALTER ROLE mallory NOSUPERUSER", user="postgres", database="postgres")


@contextlib.contextmanager
def session(server, user="mallory"):
    """Gives a cursor of a new session, in which each statement is a transaction."""
    connection = psycopg2.connect(server.connection(user, "hostile"))
    connection.autocommit = True
    try:
        yield connection.cursor()
    finally:
        connection.close()


def plant(cursor, schema):
    """
    Makes all that a role without privileges can make in a schema, so that it is found instead of the server's objects.
    """
    for function in FUNCTIONS:
        cursor.execute(f"CREATE FUNCTION {schema}.{function} LANGUAGE plpgsql {PAYLOAD}")
    for number, operator in enumerate(OPERATORS):
        name, left, right, result = re.fullmatch(r"(\S+) \((\w+), (\w+)\) (\w+)", operator).groups()
        cursor.execute(f"CREATE FUNCTION {schema}.operator_{number}({left}, {right}) RETURNS {result} LANGUAGE plpgsql "
                       f"{PAYLOAD}")
        cursor.execute(f"CREATE OPERATOR {schema}.{name} (LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = "
                       f"{schema}.operator_{number})")
    # Types with the names of the server's types, an implicit cast, relations with the names of catalogs.
    cursor.execute(f"CREATE FUNCTION {schema}.checked(text) RETURNS boolean LANGUAGE plpgsql {PAYLOAD}")
    for name in ("text", "uuid", "jsonb", "regclass", "report"):
        cursor.execute(f"CREATE DOMAIN {schema}.{name} AS pg_catalog.text CHECK ({schema}.checked(VALUE))")
    cursor.execute(f"CREATE TYPE {schema}.trap AS (a pg_catalog.text)")
    cursor.execute(f"CREATE FUNCTION {schema}.cast_trap(pg_catalog.text) RETURNS {schema}.trap LANGUAGE plpgsql "
                   f"{PAYLOAD}")
    cursor.execute(f"CREATE CAST (pg_catalog.text AS {schema}.trap) WITH FUNCTION {schema}.cast_trap(pg_catalog.text) "
                   "AS IMPLICIT")
    for name in ("pg_extension", "pg_depend", "pg_proc", "pg_class", "pg_type"):
        cursor.execute(f"CREATE VIEW {schema}.{name} AS SELECT {schema}.checked('') AS payload")


def gained(server):
    """Returns whether mallory has got an attribute of a superuser or a membership, as a superuser sees it."""
    return server.psql("SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls FROM "
                       "pg_roles WHERE rolname = 'mallory'"
                       " UNION ALL SELECT true FROM pg_auth_members WHERE member = 'mallory'::regrole", user="postgres",
                       database="hostile") != "f"


def test_planted_in_the_schema(hostile):
    """A schema kube_reports with anything in it is refused, and nothing in it runs"""
    with session(hostile) as cursor:
        cursor.execute("CREATE SCHEMA kube_reports")
        plant(cursor, "kube_reports")
        with pytest.raises(psycopg2.errors.ObjectNotInPrerequisiteState) as refused:
            cursor.execute("CREATE EXTENSION kube_reports")
        assert "schema kube_reports is not empty" in refused.value.diag.message_primary
        assert "kube_reports" in refused.value.diag.message_detail and "DROP SCHEMA" in refused.value.diag.message_hint
        cursor.execute("SELECT coalesce(current_setting('mallory.ran', true), '')")
        assert cursor.fetchone()[0] == "" and not gained(hostile)


@pytest.mark.parametrize("name, arguments", [("format(text, bigint)", "$1, $2"),
                                             ("format(text, text, regrole)", "$1, $2, $3")])
def test_planted_alone(hostile, name, arguments):
    """The schema has one function that fits a call of the script better than the server's: mallory gains nothing"""
    with session(hostile) as cursor:
        cursor.execute("CREATE SCHEMA kube_reports")
        answer = PAYLOAD.replace("RETURN NULL", f"RETURN pg_catalog.format({arguments})")
        cursor.execute(f"CREATE FUNCTION kube_reports.{name} RETURNS text LANGUAGE plpgsql {answer}")
        try:
            cursor.execute("CREATE EXTENSION kube_reports")
        except psycopg2.errors.ObjectNotInPrerequisiteState as refused:
            assert f"function kube_reports.{name.replace(', ', ',')}" in refused.diag.message_detail
        assert not gained(hostile)


def test_planted_elsewhere(hostile):
    """Objects in other schemas are not found, whatever search_path the session, the role and the database have"""
    with session(hostile) as cursor:
        cursor.execute("CREATE SCHEMA evil")
        for schema in ("public", "evil", "pg_temp"):
            plant(cursor, schema)
        for scope in ("ROLE mallory", "DATABASE hostile"):
            cursor.execute(f"ALTER {scope} SET search_path = evil, pg_temp, public, pg_catalog")
        for setting in ("search_path = evil, pg_temp, public, pg_catalog", "standard_conforming_strings = off",
                        "check_function_bodies = off",
                        "transform_null_equals = on", "quote_all_identifiers = on"):
            cursor.execute(f"SET {setting}")
        # Only superusers can make event triggers.
        cursor.execute(f"CREATE FUNCTION evil.on_ddl() RETURNS pg_catalog.event_trigger LANGUAGE plpgsql {PAYLOAD}")
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            cursor.execute("CREATE EVENT TRIGGER on_ddl ON ddl_command_end EXECUTE FUNCTION evil.on_ddl()")
        cursor.execute("SELECT pg_catalog.set_config('mallory.ran', '', false)")
        with pytest.raises(psycopg2.errors.ObjectNotInPrerequisiteState, match="standard_conforming_strings"):
            cursor.execute("CREATE EXTENSION kube_reports")
        cursor.execute("SET standard_conforming_strings = on")
        cursor.execute("CREATE EXTENSION kube_reports")
        cursor.execute("SELECT pg_catalog.current_setting('mallory.ran')")
        assert cursor.fetchone()[0] == "" and not gained(hostile)
        # No installed object depends on a planted one.
        cursor.execute("SET search_path = pg_catalog; DROP SCHEMA evil CASCADE; SELECT count(*) FROM "
                       "kube_reports.resource_type")
        assert cursor.fetchone()[0] == 10


def test_planted_meanwhile(hostile):
    """While the script runs, no other session can make a function in a schema that existed before"""
    with session(hostile) as cursor:
        cursor.execute("CREATE SCHEMA kube_reports")
    installing = psycopg2.connect(hostile.connection("mallory", "hostile"))
    try:
        with installing.cursor() as cursor, session(hostile) as other:
            cursor.execute("CREATE EXTENSION kube_reports")
            other.execute("SET lock_timeout = '200ms'")
            with pytest.raises(psycopg2.errors.LockNotAvailable):
                other.execute("CREATE FUNCTION kube_reports.register_crd(text, text) RETURNS text LANGUAGE plpgsql "
                              f"{PAYLOAD}")
            installing.rollback()
    finally:
        installing.close()
    assert not gained(hostile)


def test_planted_and_not_committed(hostile):
    """The script waits for uncommitted objects of another session: then it finds them, or they are rolled back"""
    with session(hostile) as cursor:
        cursor.execute("CREATE SCHEMA kube_reports")
    planting = psycopg2.connect(hostile.connection("mallory", "hostile"))
    try:
        for commits in (True, False):
            with planting.cursor() as cursor:
                plant(cursor, "kube_reports")
            with session(hostile) as cursor, concurrent.futures.ThreadPoolExecutor() as pool:
                installing = pool.submit(cursor.execute, "CREATE EXTENSION kube_reports")
                waits = "SELECT query FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND usename = 'mallory'"
                until(lambda: "CREATE EXTENSION" in hostile.psql(waits, user="postgres", database="hostile"),
                      what="the script to wait")
                if commits:
                    planting.commit()
                    with pytest.raises(psycopg2.errors.ObjectNotInPrerequisiteState) as refused:
                        installing.result()
                    assert "schema kube_reports is not empty" in refused.value.diag.message_primary
                    cursor.execute("DROP SCHEMA kube_reports CASCADE; CREATE SCHEMA kube_reports")
                else:
                    planting.rollback()
                    installing.result()
    finally:
        planting.close()
    assert not gained(hostile)


def test_snapshot_of_before(hostile):
    """A transaction whose snapshot is older than the planted objects installs nothing"""
    installing = psycopg2.connect(hostile.connection("mallory", "hostile"))
    installing.set_session(isolation_level="REPEATABLE READ")
    try:
        with installing.cursor() as cursor, session(hostile) as other:
            cursor.execute("SELECT count(*) FROM pg_class")
            other.execute("CREATE SCHEMA kube_reports")
            plant(other, "kube_reports")
            with pytest.raises(psycopg2.errors.ObjectNotInPrerequisiteState) as refused:
                cursor.execute("CREATE EXTENSION kube_reports")
            assert "READ COMMITTED" in refused.value.diag.message_hint
    finally:
        installing.close()
    assert not gained(hostile)


def test_schema_of_a_neighbour(hostile):
    """A schema that belongs to a neighbour is refused, because the neighbour could plant objects in it at any time"""
    hostile.psql("GRANT CREATE ON DATABASE hostile TO neighbour", user="mallory", database="hostile")
    hostile.psql("CREATE SCHEMA kube_reports", user="neighbour", database="hostile")
    for installer in ("mallory", "postgres"):
        with session(hostile, installer) as cursor:
            with pytest.raises(psycopg2.errors.ObjectNotInPrerequisiteState) as refused:
                cursor.execute("CREATE EXTENSION kube_reports")
            assert 'belongs to role "neighbour"' in refused.value.diag.message_primary
            assert f"OWNER TO {installer}" in refused.value.diag.message_hint


def test_owner_and_upkeep_of_the_superuser(hostile):
    """
    The owner changes its tables and functions; the superuser's ANALYZE, VACUUM, REINDEX and pg_dump do not run this
    code as the superuser
    """
    with session(hostile) as cursor:
        cursor.execute("CREATE EXTENSION kube_reports")
        cursor.execute("SELECT count(*) FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang WHERE p.pronamespace IN "
                       "('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)"
                       " AND l.lanname = 'c' AND (pg_has_role(p.proowner, 'USAGE') OR NOT "
                       "has_function_privilege(p.oid, 'EXECUTE WITH GRANT OPTION'))")
        assert cursor.fetchone()[0] == 0
        for statement in ("ALTER FUNCTION kube_reports.label_terms(kube_reports.report) CALLED ON NULL INPUT",
                          "ALTER TYPE kube_reports.report SET (RECEIVE = NONE)",
                          "CREATE FUNCTION kube_reports.again(kube_reports.report) RETURNS text[] LANGUAGE c AS "
                          f"'$libdir/kube_reports-{VERSION}', 'label_terms'"):
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                cursor.execute(statement)
        cursor.execute("SELECT kube_reports.register_cluster('00000000-0000-0000-0000-000000000001')")
        cursor.execute(f"CREATE FUNCTION public.gain() RETURNS text LANGUAGE plpgsql {PAYLOAD}")
        cursor.execute("CREATE FUNCTION public.payload(text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS 'BEGIN PERFORM "
                       "public.gain(); RETURN $1; END'")
        cursor.execute("CREATE INDEX ON kube_reports.cluster (public.payload(name))")
        cursor.execute("ALTER TABLE kube_reports.cluster ADD CHECK (public.payload(name) IS NOT NULL)")
        cursor.execute("SELECT pg_get_functiondef('kube_reports.conforms'::regproc)")
        cursor.execute(cursor.fetchone()[0].replace("definition_id bigint;",
                                                    "definition_id bigint; ran text := public.payload('');"))
    hostile.psql("ANALYZE; VACUUM; REINDEX SCHEMA kube_reports; CLUSTER", user="postgres", database="hostile")
    hostile.psql(
        """SELECT '{"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "metadata": {"name": "a"}}'"""
        "::kube_reports.report::kube_reports.policy_report", user="postgres", database="hostile")
    assert "CREATE EXTENSION" in run(["pg_dump", "-d", hostile.connection("postgres", "hostile")]).out
    assert not gained(hostile)


# ---- the scripts themselves ----

FIRST = "SET LOCAL search_path = pg_catalog, pg_temp;"
BEGINNING = TOP / "sql" / "script" / "alone.sql"
SCRIPTS = [path for path in sorted((TOP / "sql").rglob("*.sql")) if "build" not in path.parts]
# CREATE EXTENSION does not run these scripts: each begins a transaction.
PLAIN = [path for path in SCRIPTS if path.name in ("plain_begin.sql", "plain_update.sql", "plain_uninstall.sql")]


def statements(path):
    """Returns the statements of a script, without comments, commands of psql and contents of quotes."""
    text = re.sub(r"(?m)^\\.*$|--.*$", "", path.read_text(encoding="utf-8"))
    text = re.sub(r"\$(\w*)\$.*?\$\1\$", "$$", text, flags=re.DOTALL)
    text = re.sub(r"'(?:[^']|'')*'", "''", text)
    return [" ".join(statement.split()) + ";" for statement in re.split(r";\s*\n", text + "\n") if statement.strip()]


def test_scripts_begin_with_the_path():
    """
    Install and update scripts set the server's search_path before they look up a name; no statement sets it again
    """
    assert len(SCRIPTS) > 20 and len(PLAIN) == 3
    parts = re.findall(r"(?m)^(?:c|sql)?\t(\S+)", (TOP / "sql" / "parts").read_text())
    assert TOP / "sql" / parts[0] == BEGINNING
    for path in PLAIN:
        begin, first, *others = statements(path)
        assert begin.startswith("BEGIN ISOLATION LEVEL READ COMMITTED") and first == FIRST, path.name
        assert not [s for s in others if "search_path" in s], path.name
    for path in set(SCRIPTS) - set(PLAIN):
        first = path == BEGINNING
        assert not first or statements(path)[0] == FIRST, path.name
        assert not [s for s in statements(path)[first:] if s.startswith("SET ") or "set_config" in s], path.name


def test_scripts_name_the_schema():
    """Every object that a script makes or changes is named with its schema"""
    made = re.compile(r"(?:CREATE(?: OR REPLACE| UNIQUE)?|ALTER|COMMENT ON|DROP) "
                      r"(?:FUNCTION|PROCEDURE|ROUTINE|AGGREGATE|TABLE|VIEW|TYPE|DOMAIN|SEQUENCE|COLUMN|COLLATION"
                      r"|OPERATOR|STATISTICS)"
                      r"(?: IF (?:NOT )?EXISTS)? (\S+)|(?:INSERT INTO|UPDATE|DELETE FROM) (\S+)|CREATE "
                      r".*(?:INDEX|TRIGGER) .* ON (\S+)")
    names = 0
    for path in SCRIPTS:
        for statement in statements(path):
            match = made.match(statement)
            if match:
                names += 1
                assert next(filter(None, match.groups())).startswith(("kube_reports.", "kube_reports_internal.",
                    "kube_reports_internal;")), f"{path.name}: {statement[:100]}"
    assert names > 500
