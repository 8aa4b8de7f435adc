"""
Statements of an impatient DBA: each is harmless, or refused with a hint, or verify() names the damage and
docs/operations.md has the repair.
"""

import contextlib
import re

import psycopg2
import pytest

from client import POLR, path_of, report, run, until
from conftest import TOP, VARIANT, Stack, rebuilds_of_c
from runbook import block

SCHEMAS = "('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)"
MONTH = "'report_change_' || to_char(now() AT TIME ZONE 'UTC', 'YYYY_MM')"
INSERTS = re.findall("`(INSERT [^`]+)`", (TOP / "docs" / "operations.md").read_text(encoding="utf-8"))
# Settings that change how texts are read, values are shown and plans are made, and how long statements may take.
SETTINGS = {
    "search_path": "nowhere", "default_transaction_isolation": "serializable", "default_transaction_deferrable": "on",
    "row_security": "off", "jit": "on", "jit_above_cost": "0", "timezone": "Asia/Kathmandu", "datestyle": "German, DMY",
    "intervalstyle": "sql_standard", "extra_float_digits": "-5", "bytea_output": "escape", "lc_numeric": "C",
    "standard_conforming_strings": "off", "escape_string_warning": "off", "backslash_quote": "off",
    "quote_all_identifiers": "on", "transform_null_equals": "on", "array_nulls": "off", "xmloption": "document",
    "plan_cache_mode": "force_generic_plan", "enable_indexscan": "off", "enable_bitmapscan": "off",
    "enable_hashjoin": "off", "enable_partition_pruning": "off", "from_collapse_limit": "1", "work_mem": "64kB",
    "gin_fuzzy_search_limit": "1", "default_text_search_config": "pg_catalog.german", "client_encoding": "SQL_ASCII",
    "client_min_messages": "error", "exit_on_error": "on", "check_function_bodies": "off",
    "synchronous_commit": "off", "idle_in_transaction_session_timeout": "1s", "idle_session_timeout": "1s",
    "statement_timeout": "1s", "lock_timeout": "1ms"}
# Queries of readers: of a page, of programs, and of files.
ANSWERS = ("SELECT kube_reports.dashboard_html() ~ 'ns</bdi>'",
           "SELECT json_agg((s.day, s.pass, s.fail, s.score)) "
           "FROM kube_reports.compliance_score('-infinity', 'infinity') s",
           "SELECT string_agg((to_jsonb(x) - ARRAY['since', 'first_seen'])::text, '|') "
           "FROM kube_reports.export_results() x",
           r"""SELECT json_agg(to_jsonb(r) - ARRAY['since', 'first_seen'])
               FROM kube_reports.search_results(E'{"text": "50%_of\\\\", "score_from": 2}') r""",
           "SELECT json_agg(r ORDER BY r.report) FROM kube_reports.reports_with_score(2.5) r")


class Store:
    """A stack with reports; well() checks that it works."""

    def __init__(self, stack):
        self.stack, self.database, self.cluster = stack, stack.database, stack.cluster
        self.proxy = stack.proxy(flags=["--workers=1"])
        self.api = self.proxy.api()
        self.number = 0
        for _ in range(6):
            self.write()

    def write(self):
        """Creates a report of three results, one of them with a text that has to be escaped; returns the answer."""
        self.number += 1
        document = report(f"r{self.number}", "ns", results=[
            {"policy": f"p{number}", "rule": "r", "result": "fail", "properties": {"score": f"{number}.5"},
             "message": "50%_of\\" if number == 2 else "half"} for number in (1, 2, 3)])
        answer = self.api.post(path_of(POLR, "ns"), document)
        return answer

    def psql(self, sql, user="kube_reports_owner", **more):
        return self.database.psql(sql, user=user, **more)

    def verify(self):
        return self.psql("SELECT DISTINCT what FROM kube_reports.verify() ORDER BY 1").split()

    def settle(self):
        """Waits for results that are made again, and for their counts: by the proxy's upkeep in the SQL variant."""
        until(lambda: self.psql("SELECT s.results_pending OR m.rebuilding FROM kube_reports.status s, "
                                "kube_reports_internal.rollup_mark m") == "f", 60, "results")

    def well(self):
        """Checks that the API writes and lists, that views follow, and that verify() finds nothing"""
        until(lambda: self.write().code == 201, 30, "a write")
        # Writes and reads have connections of their own.
        listed = until(lambda: self.api.get(path_of(POLR, "ns")).json.get("items"), 30, "a list")
        assert f"r{self.number}" in [item["metadata"]["name"] for item in listed]
        until(lambda: self.psql("SELECT count(*), (SELECT sum(fail) FROM kube_reports.status_counts) "
                                "FROM kube_reports.typed_result") == f"{3 * len(listed)}|{3 * len(listed)}",
              60, "views")
        self.settle()
        assert self.verify() == []

    def end_sessions(self):
        self.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                  "WHERE datname = 'kube_reports'", "postgres", database="postgres")

    def each(self, statement, tables):
        """Runs a statement for each table, in transactions of their own; returns the errors that psql prints."""
        done = self.psql("\\set ON_ERROR_STOP off\n" + "\n".join(statement.format(table) for table in tables),
                         check=False)
        return done.err


@pytest.fixture(scope="module")
def store(module_stack):
    made = Store(module_stack)
    yield made
    module_stack.end_proxies()


def test_rewrites(store):
    """REINDEX, CLUSTER, VACUUM FULL, another tablespace and the end of every session are harmless"""
    def again(sql):
        """Commands that lock many tables, or catalogs as well, may deadlock with a session of a proxy (40P01)."""
        def done():
            answer = store.psql(sql, "postgres", check=False)
            assert answer.code == 0 or "deadlock detected" in answer.err, answer.err
            return answer.code == 0
        until(done, 60, sql)
    again("REINDEX DATABASE kube_reports")
    keys = store.psql(f"""SELECT format('CLUSTER %s USING %I;', i.indrelid::regclass, c.relname)
        FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
        WHERE i.indisprimary AND t.relkind = 'r' AND c.relnamespace IN {SCHEMAS}""")
    assert keys.count("CLUSTER") > 30
    store.psql(keys)
    again("VACUUM FULL")
    store.psql("SET allow_in_place_tablespaces = on; CREATE TABLESPACE other LOCATION ''", "postgres")
    for kind in ("TABLE", "INDEX"):
        again(f"ALTER {kind} ALL IN TABLESPACE pg_default OWNED BY kube_reports_owner SET TABLESPACE other")
    store.end_sessions()
    store.well()


def test_tablespaces(store):
    """
    A new month of history is in the tablespace of report_change, or in default_tablespace. Without the right to that
    tablespace it is in the tablespace of the database, because writers need it. The same holds for new indexes
    """
    store.psql("SET allow_in_place_tablespaces = on; CREATE TABLESPACE fast LOCATION ''", "postgres")
    place = ("SELECT DISTINCT coalesce(s.spcname, 'usual') FROM pg_class c LEFT JOIN pg_tablespace s "
             "ON s.oid = c.reltablespace WHERE c.relname ~ '^report_change_{}'")
    store.psql("ALTER TABLE kube_reports_internal.report_change SET TABLESPACE pg_default", "postgres")
    try:
        store.psql("ALTER DATABASE kube_reports SET default_tablespace = fast;"
                   "ALTER DATABASE kube_reports SET temp_tablespaces = fast", "postgres")
        assert "permission denied for tablespace" in store.psql("CREATE TABLE public.own ()", check=False).err
        # As at the beginning of a month without a partition.
        partition = store.psql(f"SELECT {MONTH}")
        store.psql(f"DROP TABLE kube_reports_internal.{partition}")
        store.end_sessions()
        until(lambda: store.write().code == 201, 30, "a write")
        assert store.psql(place.format(partition[-7:])) == "usual"
        store.psql("CALL kube_reports.rebuild()")
        told = store.psql("SELECT kube_reports.make_history('2031-01-01')", check=False)
        assert 'may not use tablespace "fast"' in told.err and "GRANT CREATE ON TABLESPACE fast" in told.err
        assert store.psql("SELECT kube_reports.enable_text_search()") == "t"
        store.psql("GRANT CREATE ON TABLESPACE fast TO kube_reports_owner", "postgres")
        store.psql("SELECT kube_reports.make_history('2031-02-01')")
        store.psql("ALTER DATABASE kube_reports RESET default_tablespace", "postgres")
        store.psql("SELECT kube_reports.make_history('2031-03-01')")
        store.psql("ALTER TABLE kube_reports_internal.report_change SET TABLESPACE fast")
        store.psql("SELECT kube_reports.make_history('2031-04-01')")
        assert [store.psql(place.format(f"2031_0{month}")) for month in range(1, 5)] == [
            "usual", "fast", "usual", "fast"]
        store.end_sessions()
        store.well()
    finally:
        store.psql("ALTER TABLE kube_reports_internal.report_change SET TABLESPACE pg_default;"
                   "ALTER DATABASE kube_reports RESET ALL", "postgres")
        store.psql("DROP TABLE IF EXISTS " + ", ".join(f"kube_reports_internal.report_change_2031_0{month}"
                                                       for month in range(1, 5)))
        store.psql("SELECT kube_reports.set_setting('text_search', NULL); DROP TABLESPACE fast", "postgres")


def test_settings_of_the_database(store):
    """Readers and owners get the same answers, proxies serve, whatever ALTER DATABASE sets"""
    def answers():
        return [store.psql(sql, "kube_reports_reader") for sql in ANSWERS]
    store.well()
    before = answers()
    assert "r1" in before[2] and '"r1"' in before[3] and "half" not in before[3]
    try:
        store.psql("\n".join(f"ALTER DATABASE kube_reports SET {name} = '{value}';"
                             for name, value in SETTINGS.items() if name != "search_path")
                   + "ALTER DATABASE kube_reports SET search_path = nowhere", "postgres", database="postgres")
        store.end_sessions()
        # The proxy has its own limits of time.
        until(lambda: store.write().code == 201, 30, "a write")
        assert store.api.delete(path_of(POLR, "ns") + f"/r{store.number}").code == 200
        for name in ("statement_timeout", "lock_timeout"):
            store.psql(f"ALTER DATABASE kube_reports RESET {name}", "postgres", database="postgres")
        assert answers() == before
        assert store.verify() == []
        refused = store.psql("UPDATE kube_reports.object SET body = body", check=False)
        assert "READ COMMITTED" in refused.err and "HINT" in refused.err
    finally:
        store.psql("ALTER DATABASE kube_reports RESET ALL", "postgres", database="postgres")
        store.end_sessions()
    store.well()


@pytest.mark.parametrize("call", [
    "kube_reports.maintain()", "kube_reports.catch_up()", "kube_reports.set_aggregation(uid)",
    "kube_reports.set_active_policies(uid, '[]')", "kube_reports.aggregate(uid)", "kube_reports.hold_writes(uid)",
    "kube_reports.after_restore()", "kube_reports.new_incarnation()", "kube_reports.set_summaries("
    "'policyreports.wgpolicyk8s.io', true)", "kube_reports_internal.lock_store()",
    "kube_reports.delete_report(uid, 'policyreports.wgpolicyk8s.io', 'ns', 'r1')"])
def test_upkeep_in_old_snapshots(store, call):
    """Calls that take a lock are refused when the snapshot may be older: unused rows may be in use again"""
    for level in ("REPEATABLE READ", "SERIALIZABLE"):
        refused = store.psql(f"BEGIN ISOLATION LEVEL {level}; SELECT {call} FROM kube_reports.cluster", check=False).err
        assert "READ COMMITTED transactions" in refused and "HINT" in refused, refused


# Adds a column at the end of the result of a function that proxies call, as an update may do.
WIDER = """
    DO $$
    DECLARE
        f record;
    BEGIN
        SELECT p.proname AS name, pg_get_function_arguments(p.oid) AS arguments,
                (SELECT string_agg('$' || n, ', ') FROM generate_series(1, p.pronargs) n) AS given
            INTO f FROM pg_proc p WHERE p.oid = 'kube_reports_internal.{function}'::regproc;
        -- It keeps its name, which its body has before names of arguments.
        CREATE SCHEMA before_update;
        EXECUTE format('ALTER FUNCTION kube_reports_internal.%1$I SET SCHEMA before_update', f.name);
        EXECUTE format('CREATE FUNCTION kube_reports_internal.%1$I(%2$s, OUT more integer) LANGUAGE sql
            SECURITY DEFINER AS $f$ SELECT b.*, 1 FROM before_update.%1$I(%3$s) b $f$',
            f.name, f.arguments, f.given);
        EXECUTE format('GRANT EXECUTE ON FUNCTION kube_reports_internal.%1$I TO kube_reports_proxy', f.name);
    END $$"""


def test_messages_in_another_language(own_stack, monkeypatch):
    """With German messages, too, a proxy connects again when an update has outdated its statements"""
    # C.UTF-8 is in every Debian; LANGUAGE chooses the translation.
    monkeypatch.setenv("LANGUAGE", "de")
    store = Store(own_stack.begin("lc_messages = 'C.UTF-8'"))
    assert "Division durch Null" in store.psql("SELECT 1 / 0", check=False).err
    path = path_of(POLR, "ns") + "/r1"
    assert store.api.get(path).code == 200
    store.psql(WIDER.format(function="api_get" if VARIANT == "c" else "api_read_object"), "postgres")
    # Each connection fails once; its client gets 503.
    codes = []
    until(lambda: codes.append(store.api.get(path).code) or codes[-1] == 200, 20, "an answer of the function as it is")
    assert set(codes) <= {200, 503}
    store.well()


def test_patterns_do_not_depend_on_settings(store):
    """No function depends on standard_conforming_strings: literals with a backslash are E'' literals"""
    literals = r"""SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace IN (%s) AND p.prosqlbody IS NULL
        AND p.proname <> 'builtin_types' AND NOT 'standard_conforming_strings=on' = ANY (coalesce(p.proconfig, '{}'))
        AND regexp_replace(regexp_replace(p.prosrc, '--[^\n]*', '', 'g'),
            'E''([^''\\]|''''|\\.)*''(\s*''([^''\\]|''''|\\.)*'')*', '', 'g') ~ '\\'
        AND p.prolang <> (SELECT l.oid FROM pg_language l WHERE l.lanname = 'c')"""
    assert store.psql(literals % SCHEMAS[1:-1]) == ""


def test_unlogged(store):
    """verify() names tables that a crash would empty, until they are logged again"""
    tables = [f"kube_reports_internal.{name}" for name in ("result", "rollup_delta", "result_since")]
    assert store.each("ALTER TABLE {} SET UNLOGGED;", tables) == ""
    assert store.verify() == ["result", "result_since", "rollup_delta"]
    assert store.each("ALTER TABLE {} SET LOGGED;", tables) == ""
    store.well()


def test_parts_are_dropped(store):
    """verify() names dropped indexes and triggers, and gives the statements that make them again"""
    gone = "{result_score,change_key}"
    store.psql("DROP INDEX kube_reports_internal.result_score, kube_reports_internal.change_key;"
               " DROP TRIGGER dml_ends ON kube_reports.object")
    store.write()
    assert store.verify() == ["change", "object", "result"]
    store.psql(block("made by"))
    assert store.psql(f"SELECT count(*) FROM pg_class WHERE relname = ANY ('{gone}')") == "2"
    store.well()


DEFINITIONS = [
    ("DROP INDEX kube_reports_internal.result_score; "
     "CREATE INDEX result_score ON kube_reports_internal.result (origin)", "result"),
    ("DROP INDEX kube_reports.object_labels; "
     "CREATE INDEX object_labels ON kube_reports.object USING gin (labels) WHERE namespace = 'ns'", "object"),
    ("DO $$ BEGIN EXECUTE (SELECT 'DROP INDEX kube_reports_internal.' || string_agg(relname, ', ') FROM pg_class "
     f"WHERE relname = {MONTH} || '_origin_idx'); END $$", "report_change_"),
    ("ALTER TABLE kube_reports.object DROP CONSTRAINT object_lane_fkey", "object"),
    ("ALTER TABLE kube_reports_internal.log_size DROP CONSTRAINT log_size_lane_fkey", "log_size"),
    ("ALTER TABLE kube_reports_internal.rollup DROP CONSTRAINT "
     "rollup_cluster_id_namespace_criterion_kind_status_native_st_key", "rollup"),
    ("ALTER TABLE kube_reports_internal.log_size DROP CONSTRAINT log_size_lane_fkey, ADD CONSTRAINT log_size_lane_fkey "
     "FOREIGN KEY (lane) REFERENCES kube_reports_internal.lane ON DELETE CASCADE NOT VALID", "log_size"),
    ("ALTER TABLE kube_reports_internal.result SET (autovacuum_enabled = off)", "result"),
    ("ALTER TABLE kube_reports.object REPLICA IDENTITY NOTHING", "object"),
    ("ALTER TABLE kube_reports.object ALTER COLUMN labels DROP EXPRESSION", "object"),
    ("ALTER TABLE kube_reports.object ALTER COLUMN body SET STORAGE PLAIN", "object")]


@pytest.mark.parametrize("there, table", DEFINITIONS)
def test_definitions_are_changed(store, there, table):
    """verify() names what makes a store slow or wrong, and the statements that it shows make it as it was"""
    store.psql(there)
    (named,) = store.verify()
    assert named.startswith(table)
    store.psql(block("made by"))
    store.well()


def test_keys_are_known(store):
    """verify() knows every unique and every foreign key"""
    known = """SELECT c.conrelid::regclass, c.conname FROM pg_constraint c WHERE c.contype IN ('u', 'f')
        AND c.connamespace IN {} AND (c.conrelid, c.conname) NOT IN (
            SELECT k.child, k.name FROM kube_reports_internal.kept_keys() k
            UNION ALL SELECT r.child, r.name FROM kube_reports_internal.dumped_references() r)"""
    assert store.psql(known.format(SCHEMAS)) == ""


def test_the_extension_forgets_a_table(store, tmp_path):
    """
    After ALTER EXTENSION ... DROP and ADD no dump has the rows of a table: verify() names it, and the statements that
    it shows bring it back; a month of history that was added is named, too
    """
    if store.psql("SELECT count(*) FROM pg_extension WHERE extname = 'kube_reports'") == "0":
        pytest.skip("the plain script makes no extension")
    month = store.psql(f"SELECT {MONTH}")
    entries = {"TABLE DATA kube_reports object ", "SEQUENCE SET kube_reports_internal version_seq ",
               f"TABLE DATA kube_reports_internal {month} "}

    def dumped():
        run(["pg_dump", "-Fc", "-f", tmp_path / "dump", "-d", store.database.connection()])
        listed = run(["pg_restore", "-l", tmp_path / "dump"]).out
        return {entry for entry in entries if entry in listed}
    drop, add = (f"ALTER EXTENSION kube_reports {verb} TABLE kube_reports.object; ALTER EXTENSION kube_reports {verb} "
                 "SEQUENCE kube_reports_internal.version_seq" for verb in ("DROP", "ADD"))
    store.psql(f"{drop}; ALTER EXTENSION kube_reports ADD TABLE kube_reports_internal.{month}")
    assert store.verify() == sorted(["object", month, "version_seq"])
    store.psql(block("made by"))
    assert store.verify() == ["object", "version_seq"]
    assert dumped() == {f"TABLE DATA kube_reports_internal {month} "}
    store.psql(f"{drop}; {add}")
    store.psql(block("as superuser"), "postgres")
    assert dumped() == entries
    store.well()


def test_reindexed(store):
    """REINDEX CONCURRENTLY of all indexes, which replaces each with a new one, is harmless"""
    store.psql("REINDEX (VERBOSE) SCHEMA CONCURRENTLY kube_reports_internal; REINDEX SCHEMA CONCURRENTLY kube_reports")
    store.well()


def test_sequences(store):
    """verify() names sequences that were set back, which new_incarnation() repairs, and those a crash would set back"""
    ids = [name for name in store.psql(
        f"SELECT relname FROM pg_class WHERE relkind = 'S' AND relnamespace IN {SCHEMAS}").split()
        # version_seq is in other tests; the others give ids of rows that are soon removed, and not unique.
        if name not in ("version_seq", "arriving_row_seq", "rollup_delta_id_seq", "aggregation_queue_id_seq")]
    assert len(ids) > 5
    store.psql("INSERT INTO kube_reports_internal.import_waiting (lane, at, namespace, name, actor, reason) "
               "SELECT min(l.id), now(), 'ns', 'none', 'none', 'none' FROM kube_reports_internal.lane l")
    # A type that is not built in.
    store.psql("""SELECT kube_reports.register_crd('{"apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
        "openAPIV3Schema": {"type": "object"}}}]}}')""")
    # Counts are folded once a minute; before the first time, no row has an id of rollup_id_seq.
    until(lambda: store.psql("SELECT count(*) > 0 FROM kube_reports_internal.rollup") == "t", 120, "folded counts")
    assert store.verify() == []
    store.psql(f"SELECT setval(format('kube_reports_internal.%I', s)::regclass, 1, false) FROM unnest(ARRAY{ids}) s")
    assert store.verify() == sorted(ids)
    assert store.write().code >= 500
    store.psql("SELECT kube_reports.new_incarnation()")
    assert store.verify() == [] and store.write().code == 201
    store.psql("DELETE FROM kube_reports_internal.import_waiting; SELECT kube_reports.unregister('things.example.com')")
    if int(store.psql("SHOW server_version_num")) >= 150000:
        store.psql("ALTER SEQUENCE kube_reports_internal.origin_id_seq SET UNLOGGED")
        assert store.verify() == ["origin_id_seq"]
        store.psql("ALTER SEQUENCE kube_reports_internal.origin_id_seq SET LOGGED")
    store.well()


def test_partitions_of_the_dba(store):
    """A default partition and one of another name stop neither upkeep nor verify(), and are never dropped"""
    store.psql("""SET search_path = kube_reports_internal;
        CREATE TABLE report_change_default PARTITION OF report_change DEFAULT;
        CREATE TABLE archived PARTITION OF report_change FOR VALUES FROM ('2003-01-15') TO ('2003-03-20')""")
    store.psql("CALL kube_reports.expire()")
    store.psql("SELECT kube_reports.maintain() FROM generate_series(1, 20)")
    store.psql("SELECT kube_reports_internal.collect_garbage() FROM generate_series(1, 20)")
    assert store.write().code == 201
    # verify() names them because they have no replica identity.
    assert store.verify() == ["archived", "report_change_default"]
    overlapping = store.psql("SELECT kube_reports.make_history('2003-02-01')", check=False)
    assert 'would overlap partition "archived"' in overlapping.err
    # Both are empty: no row of history is lost.
    store.psql("DROP TABLE kube_reports_internal.report_change_default, kube_reports_internal.archived")
    store.well()


def test_row_security_without_force(store):
    """It changes nothing for the API and for readers: their functions and views run as the owner"""
    store.psql("ALTER TABLE kube_reports.object ENABLE ROW LEVEL SECURITY")
    store.well()
    store.psql("ALTER TABLE kube_reports.object DISABLE ROW LEVEL SECURITY")


def test_forced_row_security(store):
    """
    Whatever table it is forced on, the API does not answer that types and objects do not exist, and upkeep does not
    remove what hidden rows refer to: both refuse, and say what to do
    """
    tables = store.psql(f"SELECT c.oid::regclass FROM pg_class c WHERE c.relkind IN ('r', 'p') "
                        f"AND NOT c.relispartition AND c.relnamespace IN {SCHEMAS} "
                        # Has rows only while a transaction of the SQL variant runs.
                        "AND c.relname <> 'sql_answer' ORDER BY 1").split()
    assert len(tables) > 40
    hidden = store.each("""BEGIN; ALTER TABLE {0} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
        DO $$ BEGIN ASSERT kube_reports_internal.hides_rows(), '{0}'; END $$; ROLLBACK;""", tables)
    assert hidden == ""
    path = path_of(POLR, "ns")
    for table in ("kube_reports.object", "kube_reports.cluster", "kube_reports_internal.resource_version",
                  "kube_reports_internal.lane", "kube_reports_internal.store", "kube_reports_internal.caller_secret",
                  "kube_reports_internal.result", "kube_reports_internal.report_change"):
        store.psql(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
        try:
            told = f'row-level security of table {table} hides rows from role "kube_reports_owner"'
            # A request that has begun before may still be answered.
            until(lambda: store.api.get(path).code == 503, 10, f"a refusal because of {table}")
            assert [store.api.get(f"{path}/r1").code, store.write().code] == [503, 503], table
            until(lambda: told in store.api.get("/readyz/database").body.decode(), 30, "the reason at readyz")
            assert table.split(".")[1] in store.verify()
            for call in (f"kube_reports.get_report('{store.cluster}', 'policyreports.wgpolicyk8s.io', 'ns', 'r1')",
                         "kube_reports.maintain()", "kube_reports.catch_up()"):
                refused = store.psql(f"SELECT {call}", check=False).err
                assert told in refused and f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY" in refused, refused
            refused = store.psql("SELECT * FROM kube_reports.search_results('{}')", "kube_reports_reader", check=False)
            # Without the secret or its own grant, a reader has neither a proof of its name nor the right to call.
            assert told in refused.err or table == "kube_reports_internal.caller_secret"
        finally:
            store.psql(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY, DISABLE ROW LEVEL SECURITY")
        until(lambda: store.api.get("/readyz").code == 200, 60, "readyz")
    store.well()


def test_event_triggers(store):
    """When an event trigger refuses DDL, make_history() fails with its message, and the API goes on"""
    store.psql("CREATE FUNCTION public.refuse_ddl() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN"
               " RAISE EXCEPTION 'no DDL today' USING ERRCODE = '42501'; END $$;"
               " CREATE EVENT TRIGGER refuse_ddl ON ddl_command_start EXECUTE FUNCTION public.refuse_ddl()", "postgres")
    try:
        # A month that has no partition yet.
        refused = store.psql("SELECT kube_reports.make_history('2031-01-01')", check=False)
        assert "no DDL today" in refused.err
        store.well()
    finally:
        store.psql("DROP EVENT TRIGGER refuse_ddl; DROP FUNCTION public.refuse_ddl()", "postgres")
    store.well()


def test_truncate(store):
    """TRUNCATE is refused for tables whose clients or counts would miss the change"""
    for table in ("kube_reports.object", "kube_reports.cluster", "kube_reports.resource_type",
                  "kube_reports_internal.lane", "kube_reports_internal.change"):
        refused = store.psql(f"TRUNCATE {table} CASCADE", check=False)
        assert refused.code != 0 and 'cannot truncate table "' in refused.err and "HINT" in refused.err, table
    store.well()


@pytest.mark.parametrize("table", ["store", "caller_secret", "rollup_mark", "garbage_sweep"])
@pytest.mark.parametrize("remedy", ["CALL kube_reports.rebuild()", "SELECT kube_reports.after_restore()"])
def test_rows_of_the_store(store, table, remedy):
    """verify() names a table whose only row is missing; either call of the runbook makes the row again"""
    # Verify in the same transaction: the next connection of a proxy would finish a restore.
    deleted = f"BEGIN; DELETE FROM kube_reports_internal.{table};"
    assert table in store.psql(f"{deleted} SELECT DISTINCT what FROM kube_reports.verify()").split()
    if table == "caller_secret" and VARIANT == "c":
        refused = store.psql(f"{deleted} SELECT kube_reports.delete_report(uid, 'policyreports.wgpolicyk8s.io', 'ns', "
                             "'none') FROM kube_reports.cluster", check=False)
        assert "after_restore()" in refused.err
    if table == "store":
        assert store.psql(f"{deleted} SELECT restore_pending FROM kube_reports.status") == "t"
        refused = store.psql(f"{deleted} INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, "
                             "metadata, body) SELECT id, 1, 'ns', 'none', '{}', '{}' FROM kube_reports.cluster",
                             check=False)
        assert "after_restore()" in refused.err
    store.psql(f"DELETE FROM kube_reports_internal.{table}")
    store.psql(remedy)
    store.well()


@pytest.mark.parametrize("table, remedy", [
    ("resource_version", "SELECT kube_reports.after_restore()"), ("origin", None), ("criterion", None),
    ("result", None), ("rollup", None), ("rollup_policy", None), ("score_daily", None)])
def test_rows_are_deleted(store, table, remedy):
    """rebuild() makes derived rows again, after_restore() makes built-in types again"""
    # Counts that are not folded yet are in none of the tables.
    until(lambda: store.psql("SELECT count(*) FROM kube_reports_internal.rollup_delta") == "0", 60, "folded counts")
    store.psql(f"DELETE FROM kube_reports_internal.{table}")
    if remedy is None:
        assert store.verify() != []
    store.psql(remedy or "CALL kube_reports.rebuild()")
    store.well()


def test_settings_and_grants_are_deleted(store):
    """Without settings the defaults hold; readers can be granted their rights again"""
    store.psql("DELETE FROM kube_reports_internal.setting; DELETE FROM kube_reports_internal.reader_grant; "
               "DELETE FROM kube_reports_internal.actor; DELETE FROM kube_reports_internal.log_size")
    assert store.psql("SELECT count(*) FROM kube_reports.typed_result", "kube_reports_reader") == "0"
    store.psql("SELECT kube_reports.grant_reader('kube_reports_reader')")
    assert store.psql("SELECT count(*) > 0 FROM kube_reports.typed_result", "kube_reports_reader") == "t"
    store.well()


def test_history_is_detached_and_dropped(store):
    """Writers get another partition for the month at once; the detached table stays, with another name"""
    partition = store.psql(f"SELECT {MONTH}")
    events = store.psql("SELECT count(*) FROM kube_reports.result_event")
    oid = store.psql(f"SELECT 'kube_reports_internal.{partition}'::regclass::oid")
    store.psql(f"ALTER TABLE kube_reports_internal.report_change DETACH PARTITION kube_reports_internal.{partition}")
    assert store.write().code == 201
    until(lambda: store.psql("SELECT count(*) FROM kube_reports.result_event") == "3", 60, "new history")
    store.psql("CALL kube_reports.rebuild()")
    store.well()
    assert store.psql(f"SELECT relname FROM pg_class WHERE oid = {oid}") == f"{partition}_detached_{oid}"
    assert int(events) > 0
    store.psql(f"DROP TABLE kube_reports_internal.{partition}_detached_{oid}, kube_reports_internal.{partition}")
    assert store.write().code == 201
    store.psql("CALL kube_reports.rebuild()")
    store.well()


def test_a_dump_is_loaded_over_the_store(store, tmp_path):
    """verify() names duplicate history and sequences that were set back; the calls of the page repair both"""
    dump = tmp_path / "dump"
    events = "SELECT count(*) FROM kube_reports.result_event"
    before = store.psql(events)
    run(["pg_dump", "-Fc", "-f", dump, "-d", store.database.connection()])
    store.write()
    until(lambda: int(store.psql(events)) == int(before) + 3, 60, "events")
    refused = run(["pg_restore", "--data-only", "-d", store.database.connection(), dump], check=False)
    assert "duplicate key" in refused.err
    assert store.psql(events) == str(2 * int(before) + 3)
    assert {"report_change", "version_seq"} <= set(store.verify())
    assert store.write().code == 500
    store.psql("SELECT kube_reports.new_incarnation()")
    store.psql("CALL kube_reports.rebuild()")
    assert store.psql(events) == str(int(before) + 3)
    store.well()


def test_a_dump_replaces_the_store(own_stack, tmp_path):
    """pg_restore --clean, with stopped proxies and in one transaction, as the page says"""
    store = Store(own_stack.begin())
    if store.psql("SELECT count(*) FROM pg_extension WHERE extname = 'kube_reports'") == "0":
        pytest.skip("the plain script makes no extension")
    run(["pg_dump", "-Fc", "-f", tmp_path / "dump", "-d", store.database.connection()])
    assert store.write().code == 201
    store.proxy.stop()
    run(["pg_restore", "--clean", "--single-transaction", "-d", store.database.connection(), tmp_path / "dump"])
    store.proxy.start()
    store.proxy.wait_ready()
    assert store.api.names(POLR, "ns") == [f"r{number}" for number in range(1, store.number)]
    store.well()


def test_results_come_back_after_history_was_loaded_twice(store):
    """A result that is taken back into history, where the event of its disappearance is there twice"""
    document = store.write().json
    name = document["metadata"]["name"]
    assert store.api.delete(path_of(POLR, "ns") + f"/{name}").code == 200
    store.psql("INSERT INTO kube_reports_internal.report_change SELECT * FROM kube_reports_internal.report_change "
               "WHERE settles_at > now()")
    assert "report_change" in store.verify()
    store.number -= 1
    assert store.write().code == 201
    store.psql("CALL kube_reports.rebuild()")
    store.well()


@rebuilds_of_c
def test_rebuild_is_interrupted(store):
    """Upkeep finishes all of it: also what follows the results of the last report"""
    until(lambda: store.psql("SELECT count(*) FROM kube_reports_internal.rollup_delta") == "0", 60, "folded counts")
    store.psql("UPDATE kube_reports_internal.rollup SET count = count + 1; "
               "DELETE FROM kube_reports_internal.score_daily")
    assert {"rollup", "score_daily"} <= set(store.verify())
    # A session that folds keeps the call from its last step.
    with contextlib.closing(psycopg2.connect(store.database.connection())) as folds, folds.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(kube_reports_internal.lock_class(), "
                       "kube_reports_internal.folding_lock())")
        refused = store.psql("SET statement_timeout = '2s'; CALL kube_reports.rebuild()", check=False)
        assert "statement timeout" in refused.err
        assert {"rollup", "score_daily"} <= set(store.verify())
    until(lambda: store.verify() == [], 60, "upkeep to finish")
    store.well()


@rebuilds_of_c
def test_the_end_of_a_rebuild_takes_long(store):
    """
    Upkeep finishes an interrupted rebuild() when no lane waits; an attempt that is canceled is put off, so that counts
    are folded meanwhile
    """
    until(lambda: store.psql("SELECT count(*) FROM kube_reports_internal.rollup_delta") == "0", 60, "folded counts")
    store.proxy.stop()
    end = "SELECT kube_reports_internal.end_rebuild()"
    left = ("SELECT rebuilding, attempts, retry_at > now() + interval '30 seconds'"
            " FROM kube_reports_internal.rollup_mark")
    store.psql("UPDATE kube_reports_internal.score_daily SET pass = pass + 1; "
               "SELECT kube_reports_internal.set_rebuilding(true); "
               "INSERT INTO kube_reports_internal.result_rebuild (lane) SELECT max(id) FROM kube_reports_internal.lane")
    assert store.psql(end) == "f"
    store.psql("DELETE FROM kube_reports_internal.result_rebuild")
    with contextlib.closing(psycopg2.connect(store.database.connection())) as reads, reads.cursor() as cursor:
        cursor.execute("LOCK TABLE kube_reports_internal.score_daily")
        assert store.psql(f"SET statement_timeout = '1s'; {end}") == "t"
        assert store.psql(left) == "t|1|t"
    assert store.psql(end) == "f" and store.verify() == ["score_daily"]
    store.psql("UPDATE kube_reports_internal.rollup_mark SET retry_at = now()")
    assert store.psql(end) == "t" and store.psql(left) == "f|0|f"
    assert store.verify() == []
    store.proxy.start()
    store.proxy.wait_ready()
    store.well()


def test_detached_history_is_copied_back(store):
    """The statement of the page copies the rows of the month back"""
    partition = store.psql(f"SELECT {MONTH}")
    events = "SELECT count(*) FROM kube_reports.result_event"
    before = store.psql(events)
    oid = store.psql(f"SELECT 'kube_reports_internal.{partition}'::regclass::oid")
    store.psql(f"ALTER TABLE kube_reports_internal.report_change DETACH PARTITION kube_reports_internal.{partition}")
    assert store.write().code == 201
    (statement,) = (text for text in INSERTS if "_detached_..." in text)
    store.psql("SET search_path = kube_reports_internal; "
               + re.sub(r"report_change_2026_05_detached_\.\.\.", f"{partition}_detached_{oid}", statement))
    until(lambda: store.psql(events) == str(int(before) + 3), 60, "events")
    store.psql(f"DROP TABLE kube_reports_internal.{partition}_detached_{oid}")
    store.well()


def test_writes_without_triggers(store):
    """verify() finds such writes; after rebuild() and new_incarnation() results and clients follow"""
    gone = f"r{store.number}"
    with store.api.watch(path_of(POLR, "ns"), resourceVersion=str(
            store.api.get(path_of(POLR, "ns")).json["metadata"]["resourceVersion"])) as watch:
        store.psql(f"SET session_replication_role = replica; DELETE FROM kube_reports.object WHERE name = '{gone}'",
                   "postgres")
        store.psql("ALTER TABLE kube_reports.object DISABLE TRIGGER USER")
        store.psql("UPDATE kube_reports.object SET body = '{}' WHERE name = 'r1'")
        assert "object" in store.verify()
        store.psql("ALTER TABLE kube_reports.object ENABLE TRIGGER USER; CALL kube_reports.rebuild()")
        store.psql("SELECT kube_reports.new_incarnation(log_lost => true)")
        assert ("ERROR", 410) in [(kind, document.get("code")) for kind, document in watch.end(30)]
    assert "r1" in (names := store.api.names(POLR, "ns")) and gone not in names
    store.settle()
    assert store.verify() == []
    store.psql("UPDATE kube_reports.object SET body = (SELECT o.body FROM kube_reports.object o WHERE o.name = 'r2') "
               "WHERE name = 'r1'")
    store.well()


@pytest.mark.parametrize("there, back, code, told", [
    ("ALTER TABLE kube_reports.object RENAME TO other", "ALTER TABLE kube_reports.other RENAME TO object", 500,
     'relation "kube_reports.object" does not exist'),
    ("ALTER TABLE kube_reports.object RENAME body TO other", "ALTER TABLE kube_reports.object RENAME other TO body",
     500, "does not exist"),
    ("ALTER SCHEMA kube_reports_internal RENAME TO other", "ALTER SCHEMA other RENAME TO kube_reports_internal", 503,
     "does not have the extension")])
def test_renames(own_stack, there, back, code, told):
    """Requests fail and the log has the reason at its default verbosity; with the old name all requests succeed"""
    store = Store(own_stack.begin())
    store.psql(there, "postgres")
    until(lambda: store.write().code == code, 30, "the failure")
    store.write()
    lines = until(lambda: store.proxy.log_entries(told, "error"), 30, "a line of the log")
    # At most one line of each process.
    assert len(lines) <= 3
    store.psql(back, "postgres")
    store.well()


def test_rights(store):
    """The owner can revoke its own rights and grant them again; other roles that lost rights get new grants"""
    both = "IN SCHEMA kube_reports, kube_reports_internal"
    store.psql(f"REVOKE ALL ON ALL TABLES {both} FROM kube_reports_owner")
    assert store.write().code == 503
    refused = store.psql("SELECT * FROM kube_reports.verify()", check=False)
    assert "permission denied for table" in refused.err
    store.psql(f"GRANT ALL ON ALL TABLES {both} TO kube_reports_owner")
    store.well()
    store.psql("DROP OWNED BY kube_reports_proxy, kube_reports_reader", "postgres")
    until(lambda: store.write().code == 503, 30, "the refusal")
    store.psql(f"SELECT kube_reports.grant_proxy('kube_reports_proxy', '{store.cluster}'); "
               "SELECT kube_reports.grant_reader('kube_reports_reader')")
    assert store.psql("SELECT count(*) > 0 FROM kube_reports.typed_result", "kube_reports_reader") == "t"
    store.well()


def errors(proxy, told):
    """Returns the messages of errors with a text in a proxy's log"""
    return [entry["message"] for entry in proxy.log_entries(told, "error")]


@pytest.mark.parametrize("there, back, why", [
    ("DELETE FROM kube_reports_internal.proxy_role",
     "SET SESSION AUTHORIZATION kube_reports_owner; SELECT kube_reports.grant_proxy('kube_reports_proxy', '{cluster}')",
     "may not serve cluster {cluster}"),
    ("ALTER ROLE kube_reports_proxy RENAME TO other", "ALTER ROLE other RENAME TO kube_reports_proxy",
     'role "kube_reports_proxy" does not exist'),
    ("ALTER TABLE kube_reports.object OWNER TO postgres", "ALTER TABLE kube_reports.object OWNER TO kube_reports_owner",
     "permission denied for table object"),
    ("ALTER TABLE kube_reports.object RENAME body TO other", "ALTER TABLE kube_reports.object RENAME other TO body",
     "does not exist"),
    ("DELETE FROM kube_reports_internal.caller_secret",
     "SET SESSION AUTHORIZATION kube_reports_owner; SELECT kube_reports.after_restore()",
     "table kube_reports_internal.caller_secret is empty. The owner calls kube_reports.after_restore()")])
def test_not_ready(store, there, back, why):
    """When a proxy cannot serve with its open connections, /readyz fails, and the log has the reason"""
    proxy = store.stack.proxy(flags=["--workers=2"])
    api, why = proxy.api(), why.format(cluster=store.cluster)
    store.psql(there, "postgres")
    # Only reads notice that a table cannot be read.
    until(lambda: api.get(path_of(POLR, "ns")).code >= 500 and api.get("/readyz").code == 500, 30, "readyz to fail")
    until(lambda: why in api.get("/readyz/database").body.decode(), 30, "the reason at readyz")
    until(lambda: errors(proxy, why), 30, "the reason in the log")
    store.psql(back.format(cluster=store.cluster), "postgres")
    # The proxy notices the repair without a request.
    until(lambda: [api.get("/readyz").code for _ in range(4)] == [200] * 4, 60, "readyz")
    proxy.stop()
    store.well()


def test_the_row_of_store_is_deleted(store):
    """The proxy makes the row of store again, over its open connections"""
    store.psql("ALTER ROLE kube_reports_proxy CONNECTION LIMIT 0", "postgres")
    store.psql("DELETE FROM kube_reports_internal.store")
    until(lambda: store.psql("SELECT count(*) FROM kube_reports_internal.store") == "1", 60, "the row")
    store.psql("ALTER ROLE kube_reports_proxy CONNECTION LIMIT -1", "postgres")
    until(lambda: store.api.get("/readyz").code == 200, 60, "readyz")
    assert store.write().code == 201
    store.well()


def test_members_are_kept(store):
    """Objects of the extension cannot be dropped, and an update to the same version does nothing"""
    if store.psql("SELECT count(*) FROM pg_extension WHERE extname = 'kube_reports'") == "0":
        pytest.skip("the plain script makes no extension")
    for what in ("TABLE kube_reports_internal.actor", "FUNCTION kube_reports_internal.this_caller()",
                 "VIEW kube_reports.typed_result", "SCHEMA kube_reports"):
        refused = store.psql(f"DROP {what}", check=False)
        assert "cannot drop" in refused.err and "extension kube_reports" in refused.err, refused.err
    assert "already installed" in store.psql("ALTER EXTENSION kube_reports UPDATE", check=False).err
    assert "no update path" in store.psql("ALTER EXTENSION kube_reports UPDATE TO '9'", check=False).err
    assert "does not support SET SCHEMA" in store.psql("ALTER EXTENSION kube_reports SET SCHEMA public", "postgres",
                                                       check=False).err
    store.well()


@pytest.mark.parametrize("locale", ["LOCALE 'C'", "LOCALE 'C.UTF-8' LOCALE_PROVIDER icu ICU_LOCALE 'tr-TR'",
                                    "LOCALE 'C.UTF-8' LOCALE_PROVIDER icu ICU_LOCALE 'und-u-ks-level1'"])
def test_locales(store, locale):
    """In every locale names are ordered byte by byte, and searches for texts ignore case"""
    store.psql(f"CREATE DATABASE elsewhere TEMPLATE template0 OWNER kube_reports_owner ENCODING 'UTF8' {locale}",
               "postgres", database="postgres")
    try:
        store.psql("CREATE EXTENSION IF NOT EXISTS kube_reports", database="elsewhere")
        found = store.psql(f"""
            SELECT kube_reports.register_cluster('{store.cluster}', 'İstanbul') > 0;
            INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
                SELECT c.id, t.id, 'ns', n, '{{}}', '{{"results": [{{"policy": "Istanbul", "result": "fail",
                    "severity": "high"}}, {{"policy": "ISTANBUL", "result": "pass", "severity": "high"}}]}}'
                FROM kube_reports.cluster c, kube_reports.resource_type t, unnest('{{i,i-1,i.2,i0}}'::text[]) n
                WHERE t.plural = 'policyreports';
            SELECT string_agg(name, ' ' ORDER BY name) FROM kube_reports.stored_report;
            SELECT kube_reports_internal.caseless('ISTANBUL') = kube_reports_internal.caseless('istanbul');
            SELECT count(*) FROM kube_reports.verify()""", database="elsewhere").split("\n")
        assert found == ["t", "i i-1 i.2 i0", "t", "0"]
        if VARIANT == "c":
            for wanted, count in (('{"policy": "Istanbul"}', "4"), ('{"text": "istanbul"}', "8")):
                assert store.psql(f"SELECT count(*) FROM kube_reports.search_results('{wanted}')",
                                  database="elsewhere") == count
    finally:
        store.psql("DROP DATABASE elsewhere", "postgres", database="postgres")


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII", "EUC_JP"])
def test_encodings(store, encoding):
    """Another encoding than UTF8 is refused, and the message says how to make the database"""
    store.psql("CREATE DATABASE elsewhere TEMPLATE template0 OWNER kube_reports_owner "
               f"ENCODING '{encoding}' LOCALE 'C'", "postgres", database="postgres")
    try:
        refused = store.psql("CREATE EXTENSION kube_reports", database="elsewhere", check=False).err
        assert f"needs a database of encoding UTF8, not {encoding}" in refused and "ENCODING 'UTF8'" in refused
    finally:
        store.psql("DROP DATABASE elsewhere", "postgres", database="postgres")


def test_row_security_is_off_for_the_database(store):
    """A new store in it is no dump that is loaded"""
    store.psql("CREATE DATABASE elsewhere OWNER kube_reports_owner", "postgres", database="postgres")
    try:
        store.psql("ALTER DATABASE elsewhere SET row_security = off", "postgres", database="postgres")
        store.psql("CREATE EXTENSION IF NOT EXISTS kube_reports", database="elsewhere")
        store.psql(f"INSERT INTO kube_reports.cluster (uid) VALUES ('{store.cluster}')", database="elsewhere")
        assert store.psql("SELECT restore_pending FROM kube_reports.status", database="elsewhere") == "f"
        assert store.psql("SELECT count(*) FROM kube_reports.verify()", database="elsewhere") == "0"
    finally:
        store.psql("DROP DATABASE elsewhere", "postgres", database="postgres")


def test_scripts_are_read_with_standard_strings(store):
    refused = store.psql("CREATE DATABASE elsewhere OWNER kube_reports_owner", "postgres", database="postgres",
                         check=False)
    assert refused.code == 0, refused.err
    try:
        refused = store.psql("SET standard_conforming_strings = off; CREATE EXTENSION kube_reports",
                             database="elsewhere", check=False).err
        assert "SET standard_conforming_strings = on" in refused or VARIANT == "sql"
    finally:
        store.psql("DROP DATABASE elsewhere", "postgres", database="postgres")
