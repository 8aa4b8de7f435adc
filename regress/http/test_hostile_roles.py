"""Each role of the database, used by an attacker, gets what docs/security.md says and no more (issue 13)."""

import contextlib
import json

import psycopg2
import pytest
from psycopg2 import errors

from client import report, until
from conftest import VARIANT, VERSION, Database, reads_of_c

ONE = "00000000-0000-4000-8000-000000000001"
TWO = "00000000-0000-4000-8000-000000000002"

# Roles that nobody trusts: they have different rights, and a schema each.
HOSTILE = ("kube_reports_proxy", "reader_of_one", "neighbour")

# What the code of a role tries; loot has each answer, with the current role and the role of the session.
TAKE = """
CREATE SCHEMA {role};
CREATE TABLE {role}.loot (how text, current_role_was text, session_role_was text, what text, answer text);
CREATE FUNCTION {role}.try(how text, what text, query text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    answer text;
BEGIN
    EXECUTE query INTO answer;
    INSERT INTO {role}.loot VALUES (how, current_user, session_user, what, answer);
EXCEPTION WHEN OTHERS THEN
    INSERT INTO {role}.loot VALUES (how, current_user, session_user, what, SQLSTATE);
END $$;
CREATE FUNCTION {role}.take(how text) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    cluster text;
    request text := '"group": "wgpolicyk8s.io", "version": "v1alpha2", "resource": "policyreports", "namespace": "a", '
        '"name": "r"';
BEGIN
    FOREACH cluster IN ARRAY ARRAY['{one}', '{two}'] LOOP
        PERFORM {role}.try(how, 'get ' || right(cluster, 1),
            format('SELECT code FROM kube_reports_internal.api_get(%L, %L)', cluster,
            '{{"verb": "get", ' || request || '}}'));
        PERFORM {role}.try(how, 'write ' || right(cluster, 1),
            format('SELECT codes[1] FROM kube_reports_internal.write_batch(%L, ARRAY[%L::jsonb], ARRAY[%L::bytea])',
            cluster, '{{"verb": "patch", "contentType": "application/merge-patch+json", ' || request || '}}',
            '{{"metadata": {{"labels": {{"by": "{role}"}}}}}}'));
        PERFORM {role}.try(how, 'hello ' || right(cluster, 1),
            format('SELECT store <> '''' FROM kube_reports_internal.api_hello(%L, '''')', cluster));
        PERFORM {role}.try(how, 'registry ' || right(cluster, 1),
            format('SELECT count(*) FROM kube_reports_internal.api_registry(%L)', cluster));
        PERFORM {role}.try(how, 'list ' || right(cluster, 1),
            format('SELECT min(code) FROM kube_reports_internal.api_list(%L, %L, NULL)', cluster,
            '{{"verb": "list", "group": "wgpolicyk8s.io", "version": "v1alpha2", "resource": "policyreports"}}'));
        PERFORM {role}.try(how, 'export ' || right(cluster, 1),
            format('SELECT code FROM kube_reports_internal.api_export(%L, %L, NULL)', cluster,
            '{{"what": "results", "format": "jsonl"}}'));
        PERFORM {role}.try(how, 'search ' || right(cluster, 1),
            format('SELECT count(*) FROM kube_reports.search_results() r WHERE r.cluster = %L',
            cluster));
        PERFORM {role}.try(how, 'view ' || right(cluster, 1),
            format('SELECT count(*) FROM kube_reports.stored_report r WHERE r.cluster = %L',
            cluster));
    END LOOP;
    RETURN 1;
END $$;
CREATE FUNCTION {role}.as_owner(how text) RETURNS integer LANGUAGE sql SECURITY DEFINER AS 'SELECT {role}.take(how)';
CREATE FUNCTION {role}.when_analyzed(a integer) RETURNS integer IMMUTABLE LANGUAGE plpgsql AS
    $$BEGIN IF a = 0 THEN RETURN a; END IF; PERFORM {role}.take('index'); RETURN a; END$$;
CREATE FUNCTION {role}.on_insert() RETURNS trigger SECURITY DEFINER LANGUAGE plpgsql AS
    $$BEGIN PERFORM {role}.take('trigger'); RETURN NEW; END$$;
CREATE TABLE {role}.bait (a integer);
CREATE INDEX bait_index ON {role}.bait ({role}.when_analyzed(a));
CREATE TABLE {role}.triggered (a integer);
CREATE TRIGGER on_insert AFTER INSERT ON {role}.triggered FOR EACH ROW EXECUTE FUNCTION {role}.on_insert();
CREATE VIEW {role}.seen AS SELECT {role}.as_owner('view') AS a;
CREATE MATERIALIZED VIEW {role}.kept AS SELECT {role}.take('materialized view') AS a WITH NO DATA;
GRANT USAGE ON SCHEMA {role} TO PUBLIC;
GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA {role} TO PUBLIC;
"""


@contextlib.contextmanager
def session(database, user, name="kube_reports"):
    """Gives a cursor of a new session, in which each statement is a transaction."""
    connection = psycopg2.connect(database.connection(user, name))
    connection.autocommit = True
    try:
        yield connection.cursor()
    finally:
        connection.close()


@pytest.fixture(scope="module")
def store():
    """
    Two clusters with a report each, the roles of their proxies, readers, an administrator, a neighbour; autovacuum
    looks every second.
    """
    database = Database()
    try:
        database.start("autovacuum_naptime = 1s")
        database.prepare(ONE)
        database.psql("CREATE ROLE proxy_two LOGIN; CREATE ROLE reader_of_one LOGIN; CREATE ROLE neighbour LOGIN; "
                      "CREATE ROLE stranger LOGIN",
                      user="postgres")
        database.psql(f"SELECT kube_reports.grant_proxy('proxy_two', '{TWO}'); SELECT "
                      f"kube_reports.grant_cluster('reader_of_one', '{ONE}')")
        for cluster in (ONE, TWO):
            document = report("r", "a", results=[{"policy": "p", "rule": "r", "result": "fail", "source": "s"}])
            database.psql(f"SELECT kube_reports.create_report('{cluster}', "
                          f"'{json.dumps(document)}'::kube_reports.report)")
        for role in HOSTILE:
            database.psql(f"GRANT CREATE ON DATABASE kube_reports TO {role}", user="postgres")
            database.psql(TAKE.format(role=role, one=ONE, two=TWO), user=role)
        yield database
    finally:
        database.remove()


def request(verb, **more):
    return json.dumps({"verb": verb, "group": "wgpolicyk8s.io", "version": "v1alpha2", "resource": "policyreports",
                       "namespace": "a", "name": "r", **more})


# ---- code of one role in a session of another ----

# Occasions on which a session uses an object of the hostile role: role of the session, statement.
OCCASIONS = {
    "ANALYZE by a superuser": ("postgres", "ANALYZE {role}.bait"),
    "ANALYZE by the owner of the database": ("kube_reports_owner", "ANALYZE {role}.bait"),
    "REINDEX by a superuser": ("postgres", "REINDEX TABLE {role}.bait"),
    "VACUUM FULL by a superuser": ("postgres", "VACUUM FULL {role}.bait"),
    "CREATE INDEX by a superuser": ("postgres", "CREATE INDEX ON {role}.bait ({role}.when_analyzed(a + 1))"),
    "materialized view by a superuser": ("postgres", "REFRESH MATERIALIZED VIEW {role}.kept"),
    "SECURITY DEFINER called by the owner": ("kube_reports_owner", "SELECT {role}.as_owner('function')"),
    "SECURITY DEFINER called by an administrator": ("kube_reports_admin", "SELECT {role}.as_owner('function')"),
    "SECURITY DEFINER called by another proxy": ("proxy_two", "SELECT {role}.as_owner('function')"),
    "view read by the owner": ("kube_reports_owner", "SELECT * FROM {role}.seen"),
    "trigger fired by an administrator": ("kube_reports_admin", "INSERT INTO {role}.triggered VALUES (1)"),
    "SET ROLE by a superuser": ("postgres", "SET ROLE {role}; SELECT {role}.take('set role')"),
    "its own session": (None, "SELECT {role}.take('own')"),
    "autovacuum": (None, None),
}

# Answers about what belongs to others: refused, or not there.
NOTHING = {"get": {"404", "42501", "42883"}, "hello": {"42501"}, "registry": {"0", "42501"}, "list": {"404", "42501"},
           "export": {"42501"},
           "search": {"0", "42501"}, "view": {"0", "42501"}, "write": {"404", "42501"}}
# Answers that a role gets by right, in the cluster that it was given.
GRANTED = {"kube_reports_proxy": {"get 1": "200", "write 1": "200", "hello 1": "true", "list 1": "200",
                                  "export 1": "200"},
           "reader_of_one": {"search 1": "1", "view 1": "1"}, "neighbour": {}}


@reads_of_c
@pytest.mark.parametrize("role", HOSTILE)
@pytest.mark.parametrize("occasion", OCCASIONS)
def test_code_in_a_session_of_another(store, role, occasion):
    """Code of a role has the rights of that role, in whatever session it runs"""
    user, statement = OCCASIONS[occasion]
    harmless = (f"CREATE OR REPLACE FUNCTION {role}.when_analyzed(a integer) RETURNS integer IMMUTABLE LANGUAGE sql AS "
                "'SELECT a'")
    hostile = (f"CREATE OR REPLACE FUNCTION {role}.when_analyzed(a integer) RETURNS integer IMMUTABLE LANGUAGE plpgsql "
               "AS"
               f" $$BEGIN IF a = 7 THEN PERFORM {role}.take('index'); END IF; RETURN a; END$$")
    # The rows are there before the expression of the index does anything.
    store.psql(f"{harmless}; ALTER TABLE {role}.bait SET (autovacuum_enabled = off); TRUNCATE {role}.bait;"
               f" INSERT INTO {role}.bait SELECT generate_series(1, 100); {hostile}; TRUNCATE {role}.loot", user=role)
    if occasion == "autovacuum":
        store.psql(f"ALTER TABLE {role}.bait SET (autovacuum_enabled = on, autovacuum_analyze_threshold = 1)",
                   user=role)
        until(lambda: store.psql(f"SELECT count(*) FROM {role}.loot", user=role) != "0", 60,
              "autovacuum to analyze the table")
    else:
        store.psql(statement.format(role=role), user=user or role)
    loot = store.psql(f"SELECT DISTINCT current_role_was, what, answer FROM {role}.loot", user=role).splitlines()
    got = dict(line.split("|")[1:] for line in loot)
    # The code ran, as that role.
    assert {line.split("|")[0] for line in loot} == {role} and len(got) == 16
    for what in NOTHING:
        assert got[f"{what} 2"] in NOTHING[what], (what, got)
    for what, answer in GRANTED[role].items():
        assert got[what] == answer, (what, got)
    for cluster in (ONE, TWO):
        assert store.psql("SELECT count(*) FROM kube_reports.stored_report "
                          f"WHERE cluster = '{cluster}' AND name = 'r'") == "1"


# ---- seals ----

@reads_of_c
def test_seal_of_another(store):
    """A proxy's role has no other seal than its own, of this transaction"""
    get = f"SELECT code FROM kube_reports_internal.api_get('{TWO}', '{request('get')}', %s)"
    own = f"SELECT code FROM kube_reports_internal.api_get('{ONE}', '{request('get')}', %s)"
    with session(store, "kube_reports_proxy") as cursor:
        cursor.execute("SELECT kube_reports_internal.this_caller()::text")
        kept = cursor.fetchone()[0]
        for role in ("kube_reports_owner", "kube_reports_admin", "postgres", "proxy_two", "pg_database_owner"):
            with pytest.raises(errors.InsufficientPrivilege):
                cursor.execute(get.replace("%s", f"ROW('{role}', "
                                           "(kube_reports_internal.this_caller()).seal)::kube_reports_internal.caller"))
            with pytest.raises(errors.InsufficientPrivilege):
                cursor.execute(get.replace("%s", f"ROW('{role}', sha256('{role}'))::kube_reports_internal.caller"))
        for forged in ("NULL", "ROW(NULL, NULL)::kube_reports_internal.caller", f"'{kept}'"):
            with pytest.raises(errors.InsufficientPrivilege):
                cursor.execute(own.replace("%s", forged))
        for private in ("kube_reports_internal.proven_role(kube_reports_internal.this_caller())",
                        "kube_reports_internal.may_serve(1, kube_reports_internal.this_caller())"):
            with pytest.raises(errors.InsufficientPrivilege):
                cursor.execute(f"SELECT {private}")
        for table in ("kube_reports_internal.caller_secret", "kube_reports_internal.proxy_role",
                      "kube_reports_internal.reader_grant",
                      "kube_reports.object", "kube_reports_internal.change", "kube_reports_internal.webhook"):
            with pytest.raises(errors.InsufficientPrivilege):
                cursor.execute(f"SELECT * FROM {table}")
        cursor.execute(own.replace("%s", "kube_reports_internal.this_caller()"))
        assert cursor.fetchone()[0] == 200


@reads_of_c
def test_set_role(store):
    """After SET ROLE, the new role alone decides which cluster may be served"""
    for role, served in (("kube_reports_proxy", (ONE,)), ("proxy_two", (TWO,)), ("kube_reports_owner", (ONE, TWO))):
        with session(store, "postgres") as cursor:
            cursor.execute(f"SET ROLE {role}")
            for cluster in (ONE, TWO):
                get = f"SELECT code FROM kube_reports_internal.api_get('{cluster}', '{request('get')}')"
                if cluster in served:
                    cursor.execute(get)
                    assert cursor.fetchone() == (200,)
                else:
                    with pytest.raises(errors.InsufficientPrivilege, match="may not serve cluster"):
                        cursor.execute(get)


# ---- a neighbour, a stranger ----

FORBIDDEN_TO_NEIGHBOURS = [
    "SELECT * FROM kube_reports.object", "SELECT * FROM kube_reports.stored_report",
                           "SELECT kube_reports.search_results()",
    "SELECT kube_reports.conforms('{}', 'a', 'b')", "SELECT '{}'::kube_reports.report",
                           "DO 'BEGIN LOCK TABLE kube_reports.object IN ACCESS SHARE MODE; END'",
    "CREATE FUNCTION kube_reports.f() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
                           "CREATE TABLE kube_reports.t (a integer)",
    "CREATE INDEX ON kube_reports.object (name)", "CREATE TRIGGER t AFTER INSERT ON kube_reports.object EXECUTE "
                           "FUNCTION neighbour.on_insert()",
    "CREATE RULE r AS ON INSERT TO kube_reports.object DO ALSO NOTHING", "ALTER SCHEMA kube_reports RENAME TO mine",
                           "DROP SCHEMA kube_reports CASCADE",
    "CREATE TABLE neighbour.refers (id integer REFERENCES kube_reports.cluster)", "ALTER EXTENSION kube_reports UPDATE",
                           "DROP EXTENSION kube_reports",
    "ALTER EXTENSION kube_reports ADD FUNCTION neighbour.take(text)", "COMMENT ON SCHEMA kube_reports IS 'x'",
                           "ANALYZE kube_reports.object",
    "CREATE CAST (kube_reports.report AS xml) WITH INOUT",
                           "ALTER DEFAULT PRIVILEGES FOR ROLE kube_reports_owner GRANT SELECT ON TABLES TO neighbour",
    "SET ROLE kube_reports_owner", "SET SESSION AUTHORIZATION kube_reports_owner",
                           "CREATE PUBLICATION p FOR TABLE kube_reports.object",
    "CREATE EVENT TRIGGER e ON ddl_command_end EXECUTE FUNCTION neighbour.on_ddl()",
                           "GRANT kube_reports_owner TO neighbour",
    "SELECT pg_read_file('/etc/passwd')", "COPY neighbour.loot TO PROGRAM 'true'",
    f"CREATE FUNCTION neighbour.c() RETURNS text LANGUAGE c AS '$libdir/kube_reports-{VERSION}', 'report_out'",
    "REASSIGN OWNED BY kube_reports_owner TO neighbour",
]


@pytest.mark.parametrize("user", ["neighbour", "stranger"])
def test_neighbour(store, user):
    """
    A role that may only connect, or that has a schema of its own, can use nothing in the schema of kube-reports, and
    learns nothing from statistics
    """
    if user == "neighbour":
        store.psql("CREATE OR REPLACE FUNCTION neighbour.on_ddl() RETURNS event_trigger LANGUAGE plpgsql "
                   "AS 'BEGIN END'", user=user)
    store.psql("ANALYZE kube_reports.object")
    with session(store, user) as cursor:
        for statement in FORBIDDEN_TO_NEIGHBOURS:
            with pytest.raises((errors.InsufficientPrivilege, errors.InvalidSchemaName)):
                cursor.execute(statement)
                pytest.fail(statement)
        cursor.execute("SELECT (SELECT count(*) FROM pg_stats WHERE schemaname IN ('kube_reports', "
                       "'kube_reports_internal')),"
                       " (SELECT count(*) FROM pg_stat_activity WHERE usename = 'kube_reports_proxy' AND query <> "
                       "'<insufficient privilege>')")
        assert cursor.fetchone() == (0, 0)


# ---- an administrator ----

@pytest.mark.parametrize("statement", [
    "CREATE TRIGGER t BEFORE INSERT ON kube_reports.object FOR EACH ROW EXECUTE FUNCTION admin.as_whom()",
    "CREATE TABLE admin.refers (id integer REFERENCES kube_reports.cluster)",
    "CREATE RULE r AS ON INSERT TO kube_reports_internal.setting DO ALSO SELECT 1",
    "CREATE INDEX ON kube_reports.cluster (name)",
    "CREATE FUNCTION kube_reports.setting(name) RETURNS text LANGUAGE sql AS 'SELECT 1'",
    "CREATE OR REPLACE FUNCTION kube_reports.maintain() RETURNS boolean LANGUAGE sql AS 'SELECT true'",
    "ALTER FUNCTION kube_reports_internal.write_batch RESET ALL",
    "ALTER TABLE kube_reports.object DISABLE TRIGGER ALL",
    "ALTER TABLE kube_reports.object OWNER TO kube_reports_admin",
    "SELECT * FROM kube_reports_internal.caller_secret",
    "UPDATE kube_reports_internal.caller_secret SET secret = ''",
    "SELECT kube_reports.grant_reader('stranger')",
    f"SELECT kube_reports.grant_proxy('stranger', '{ONE}')",
    "SELECT kube_reports.grant_admin('stranger')",
    "SELECT kube_reports.revoke_reader('reader_of_one')",
    "INSERT INTO kube_reports_internal.proxy_role "
    f"SELECT 'proxy_two', id FROM kube_reports.cluster WHERE uid = '{ONE}'",
    "UPDATE kube_reports_internal.reader_grant SET cluster_id = NULL",
    "SET ROLE kube_reports_owner",
])
def test_administrator(store, statement):
    """An administrator reads every row, makes the owner run no code, and changes no grants"""
    store.psql("CREATE SCHEMA IF NOT EXISTS admin AUTHORIZATION kube_reports_admin", user="postgres")
    store.psql("CREATE OR REPLACE FUNCTION admin.as_whom() RETURNS trigger LANGUAGE plpgsql AS"
               " $$BEGIN RAISE EXCEPTION 'as %', current_user; END$$", user="kube_reports_admin")
    with session(store, "kube_reports_admin") as cursor:
        with pytest.raises(errors.InsufficientPrivilege):
            cursor.execute(statement)
        cursor.execute("SELECT count(*) FROM kube_reports.object")
        assert cursor.fetchone()[0] == 2


# ---- maintenance without more, which PostgreSQL 17 brought ----

def test_maintainer(store):
    """No role gets MAINTAIN; a role that has it from elsewhere runs only the owner's code, and reads nothing"""
    if int(store.psql("SHOW server_version_num")) < 170000:
        pytest.skip("PostgreSQL before 17 has no such privilege")
    ours = "c.relnamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)"
    assert store.psql(f"SELECT c.oid::regclass, a.grantee::regrole FROM pg_class c, aclexplode(c.relacl) a WHERE {ours}"
                      " AND a.privilege_type = 'MAINTAIN' AND a.grantee <> c.relowner") == ""
    store.psql("CREATE ROLE maintainer LOGIN; GRANT pg_maintain TO maintainer;"
               " GRANT USAGE ON SCHEMA kube_reports, kube_reports_internal TO maintainer", user="postgres")
    tables = store.psql(f"SELECT c.oid::regclass FROM pg_class c WHERE {ours} AND c.relkind IN ('r', 'p')").split()
    assert "kube_reports.object" in tables
    with session(store, "maintainer") as cursor:
        for table in tables:
            # Expressions of indexes are evaluated as the owner, with the server's path.
            cursor.execute(f"ANALYZE {table}")
            cursor.execute(f"REINDEX TABLE {table}")
            for statement in (f"SELECT * FROM {table}", f"DELETE FROM {table}", f"CREATE INDEX ON {table} ((1))"):
                with pytest.raises(errors.InsufficientPrivilege):
                    cursor.execute(statement)
                    pytest.fail(statement)


# ---- the class ----

def test_nobody_is_believed_by_session(store):
    """session_user only gives the name of a writer; functions that run as the owner for other roles need a seal"""
    names = store.psql("SELECT p.proname FROM pg_proc p WHERE p.pronamespace IN ('kube_reports'::regnamespace, "
                       "'kube_reports_internal'::regnamespace) AND p.prokind <> 'a'"
                       r" AND pg_get_functiondef(p.oid) ~* '\msession_user\M' ORDER BY 1").split()
    assert names == ["address", "commit_decided", "dml_object", "import_actor", "import_later", "request_for"]
    unsealed = store.psql("""
        SELECT DISTINCT p.proname FROM pg_proc p, aclexplode(p.proacl) a
        WHERE p.pronamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace) AND p.prosecdef
            AND a.grantee NOT IN ('kube_reports_owner'::regrole, 'kube_reports_admin'::regrole)
            AND NOT ('kube_reports_internal.caller'::regtype = ANY (p.proargtypes) OR 'seal' = ANY (p.proargnames))
        ORDER BY 1""").split()
    # These functions read the document that they are given, and the registry; setting() reads one setting.
    looking = {"conforms", "results", "setting", "summary"}
    if VARIANT == "sql":
        looking |= {"label_terms", "matches_fields", "matches_labels", "selector_terms", "string_at", "value_at"}
    assert set(unsealed) == looking
    believing = store.psql("SELECT c.oid::regclass FROM pg_class c WHERE c.relnamespace IN "
                           "('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace) AND c.relkind = 'v'"
                           r" AND pg_get_viewdef(c.oid) ~* '\msession_user\M'")
    assert believing == ""
