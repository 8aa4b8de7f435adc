"""ALTER EXTENSION UPDATE to a made-up next version: catalogs, grants, rows, dumps, and proxies of either version (issue 15)."""

import contextlib
import json
import re
import threading

import psycopg2
import pytest

import next_version
from client import POLR, path_of, report, run, until
from conftest import TOP, VERSION, Proxy, Stack
from next_version import NEXT
from test_hostile_installer import FIRST, PAYLOAD, statements
from test_types import CRD

SCHEMAS = "('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)"
# Without the months of history, which are made when they begin, and their indexes.
RELATIONS = f"(SELECT c.* FROM pg_class c WHERE c.relnamespace IN {SCHEMAS} AND c.relname !~ '^result_change_2')"

# Everything that the server knows of the extension, without numbers of objects.
CATALOGS = {
    "columns": f"""SELECT c.oid::regclass, row_number() OVER (PARTITION BY c.oid ORDER BY a.attnum), a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
        a.attgenerated, a.attidentity, a.attstorage, a.attcompression, a.attcollation::regcollation, pg_get_expr(d.adbin, d.adrelid), a.attacl
        FROM {RELATIONS} c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        LEFT JOIN pg_attrdef d ON (d.adrelid, d.adnum) = (a.attrelid, a.attnum) WHERE c.relkind NOT IN ('i', 'S')""",
    "relations": f"SELECT c.oid::regclass, c.relkind, c.relowner::regrole, c.reloptions, c.relrowsecurity, pg_get_viewdef(c.oid) FROM {RELATIONS} c",
    "indexes": f"SELECT pg_get_indexdef(c.oid) FROM {RELATIONS} c WHERE c.relkind IN ('i', 'I')",
    "constraints": f"""SELECT coalesce(c.conrelid::regclass::text, c.contypid::regtype::text), c.conname, pg_get_constraintdef(c.oid), c.convalidated
        FROM pg_constraint c WHERE c.connamespace IN {SCHEMAS} AND NOT EXISTS (SELECT FROM pg_class r WHERE r.oid = c.conrelid AND r.relispartition)""",
    "triggers": f"SELECT pg_get_triggerdef(t.oid), t.tgenabled FROM pg_trigger t JOIN {RELATIONS} c ON c.oid = t.tgrelid WHERE NOT t.tgisinternal",
    "routines": f"""SELECT p.oid::regprocedure, p.proowner::regrole, p.prosrc, p.probin, CASE WHEN p.prokind <> 'a' THEN pg_get_functiondef(p.oid) END, a
        FROM pg_proc p LEFT JOIN pg_aggregate a ON a.aggfnoid = p.oid WHERE p.pronamespace IN {SCHEMAS}""",
    "types": f"""SELECT t.oid::regtype, t.typtype, t.typowner::regrole, t.typinput, t.typnotnull, t.typdefault, format_type(t.typbasetype, t.typtypmod), t.typacl
        FROM pg_type t LEFT JOIN pg_class c ON c.oid = t.typrelid WHERE t.typnamespace IN {SCHEMAS} AND c.relispartition IS NOT true
        AND NOT EXISTS (SELECT FROM pg_type e JOIN pg_class p ON p.oid = e.typrelid WHERE e.typarray = t.oid AND p.relispartition)""",
    "casts": f"""SELECT c.castsource::regtype, c.casttarget::regtype, c.castfunc::regproc, c.castcontext, c.castmethod FROM pg_cast c
        WHERE 'kube_reports.report'::regtype IN (c.castsource, c.casttarget)""",
    "sequences": f"""SELECT s.seqrelid::regclass, s.seqtypid::regtype, s.seqincrement, s.seqmax, s.seqmin, s.seqcache, s.seqcycle FROM pg_sequence s
        JOIN {RELATIONS} c ON c.oid = s.seqrelid""",
    "comments": f"""SELECT pg_describe_object(d.classoid, d.objoid, d.objsubid), d.description FROM pg_description d
        JOIN pg_depend m ON (m.classid, m.objid, m.deptype) = (d.classoid, d.objoid, 'e') AND m.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'kube_reports')""",
    "members": """SELECT pg_describe_object(d.classid, d.objid, d.objsubid) FROM pg_depend d
        WHERE d.deptype = 'e' AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'kube_reports')""",
    "dependencies": f"""SELECT DISTINCT pg_describe_object(d.classid, d.objid, d.objsubid), pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid), d.deptype
        FROM pg_depend d JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid AND p.pronamespace IN {SCHEMAS}""",
    "extension": """SELECT e.extversion, e.extowner::regrole, (SELECT array_agg((c.config::regclass, c.condition)::text ORDER BY c.config::regclass::text)
        FROM unnest(e.extconfig, e.extcondition) c(config, condition)) FROM pg_extension e WHERE e.extname = 'kube_reports'""",
    "grants": f"""SELECT o.name, a.grantor::regrole, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END, a.privilege_type, a.is_grantable
        FROM (SELECT c.oid::regclass::text AS name, c.relacl AS acl FROM {RELATIONS} c
            UNION ALL SELECT p.oid::regprocedure::text, coalesce(p.proacl, acldefault('f', p.proowner)) FROM pg_proc p WHERE p.pronamespace IN {SCHEMAS}
            UNION ALL SELECT n.nspname, n.nspacl FROM pg_namespace n WHERE n.oid IN {SCHEMAS}) o, aclexplode(o.acl) a""",
}

GRANTS = """
CREATE EXTENSION IF NOT EXISTS kube_reports VERSION '{version}';
SELECT kube_reports.grant_proxy('kube_reports_proxy', '{cluster}');
SELECT kube_reports.grant_reader('kube_reports_reader');
SELECT kube_reports.grant_admin('kube_reports_admin');
GRANT EXECUTE ON FUNCTION kube_reports.setting(text) TO auditor;
GRANT SELECT ON kube_reports.policy_counts TO auditor WITH GRANT OPTION;
REVOKE EXECUTE ON FUNCTION kube_reports.document_size(kube_reports.report) FROM PUBLIC;
"""


def catalogs(database, name):
    """Lines of everything, by kind."""
    found = {kind: database.psql(f"SELECT r FROM ({query}) r", user="postgres", database=name).splitlines() for kind, query in CATALOGS.items()}
    return {kind: sorted(lines) for kind, lines in found.items()}


def assert_equal(updated, fresh):
    for kind, lines in fresh.items():
        missing, extra = [sorted(set(one) - set(other))[:10] for one, other in ((lines, updated[kind]), (updated[kind], lines))]
        assert (missing, extra) == ([], []), f"{kind}: missing {missing}, not in a fresh install {extra}"
        assert len(lines) == len(updated[kind]), kind


class NextProxy(Proxy):
    """The proxy of the next version."""

    def start(self):
        self.command = [word + "-next" if word.endswith("/bin/kube-reports-proxy") else word for word in self.command]
        super().start()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A store of this version with a bit of everything, a proxy, a dump; the next version is at hand beside it."""
    tree = next_version.build(tmp_path_factory.mktemp("next"))
    own = Stack()
    try:
        own.begin()
        database = own.database
        database.psql("CREATE ROLE auditor; CREATE ROLE mallory LOGIN; GRANT CREATE ON DATABASE kube_reports TO kube_reports_reader",
                      user="postgres", database="kube_reports")
        database.psql(GRANTS.format(version=VERSION, cluster=own.cluster))
        database.psql(f"SELECT kube_reports.register_crd($crd${json.dumps(CRD)}$crd$::jsonb); SELECT kube_reports.set_setting('log_retention', '90 minutes')")
        own.first = own.proxy()
        for number in range(20):
            own.first.api().create(POLR, report(f"r{number}", results=[{"source": "kyverno", "policy": "p", "rule": "r", "result": "fail"}]), "here")
        own.dump = f"{database.directory}/old.dump"
        run(["pg_dump", "--format=custom", f"--file={own.dump}", "-d", database.connection()])
        # A reader's own view of a view that will have a column more, and of a function that stays.
        database.psql("CREATE SCHEMA reader; CREATE VIEW reader.quiet AS SELECT f.*, kube_reports.severity_weight('high') AS weight FROM kube_reports.fleet_freshness f",
                      user="kube_reports_reader")
        next_version.install(tree, database)
        own.tree = tree
        yield own
    finally:
        own.end()


def test_update(site):
    """While proxies of the old version write and watch; afterwards all is as after a fresh installation, and nothing was lost"""
    database, api = site.database, site.first.api()
    version = api.get(path_of(POLR, "here")).json["metadata"]["resourceVersion"]
    written, refused, done = [], [], threading.Event()

    def write():
        number = 0
        while not done.is_set():
            answer = api.post(path_of(POLR, "here"), report(f"w{number}", "here"))
            (written if answer.code == 201 else refused).append((f"w{number}", answer))
            number += 1
    session = psycopg2.connect(database.connection("kube_reports_reader"))
    session.autocommit = True
    writer = threading.Thread(target=write)
    with session.cursor() as cursor, api.watch(path_of(POLR, "here"), resourceVersion=version) as watch:
        cursor.execute("SELECT kube_reports.document_size('{\"a\": 1}'), count(*) FROM reader.quiet")
        writer.start()
        until(lambda: len(written) > 3, 20, "some writes")
        database.psql("ALTER EXTENSION kube_reports UPDATE")
        # The connections that were there do the rest, whatever they meet first.
        until(lambda: database.psql("SELECT version, update_pending FROM kube_reports.status") == f"{NEXT}|f", 30, "the rows to follow")
        before = len(written)
        until(lambda: len(written) > before + 3, 30, "writes after the update")
        done.set()
        writer.join()
        # 500: a statement that has another answer now, once for each connection.
        assert {answer.code for _, answer in refused} <= {409, 500, 503}
        seen = [watch.change()[1]["metadata"]["name"] for _ in written]
        assert seen == [name for name, _ in written]
        # A session that has the old module goes on with both.
        cursor.execute("SELECT kube_reports_internal.terms(metadata) = kube_reports.label_terms(metadata) FROM kube_reports.stored_report")
        cursor.execute("SELECT weight FROM reader.quiet")
        assert cursor.fetchall() == [(6,)]
    session.close()
    database.psql("SELECT kube_reports.after_update()")
    assert database.psql("SELECT kube_reports.setting('log_retention'), count(*) FROM kube_reports.verify()") == "90 minutes|0"
    assert database.psql("SELECT count(*) FROM kube_reports.object WHERE namespace = 'here'") == str(20 + len(written))
    # A built-in type is that of the new version.
    until(lambda: b"Made up." in api.get("/openapi/v3/apis/wgpolicyk8s.io/v1alpha2").body, 20, "the new definition to be served")
    # What is new can be used by whoever would have been granted it.
    assert database.psql("SELECT count(*), min(sky) FROM kube_reports.outlook", user="kube_reports_reader") == "3|clear"
    assert database.psql("SELECT count(*) FROM kube_reports.cve('CVE-1', true)", user="kube_reports_reader") == "0"
    assert database.psql(f"SELECT kube_reports_internal.api_forecast('{site.cluster}')", user="kube_reports_proxy") == "clear"
    assert database.psql("INSERT INTO kube_reports_internal.weather VALUES (1, 'clear') RETURNING sky", user="kube_reports_admin") == "clear"
    database.psql("DELETE FROM kube_reports_internal.weather; DROP SCHEMA reader CASCADE", user="postgres")

    database.psql("CREATE DATABASE fresh OWNER kube_reports_owner", user="postgres", database="postgres")
    database.psql(GRANTS.format(version=NEXT, cluster=site.cluster), database="fresh")
    assert_equal(catalogs(database, "kube_reports"), catalogs(database, "fresh"))


def test_dump_of_the_version_before(site):
    """Restores into the new version; all that cannot be is a grant on what is gone"""
    database = site.database
    database.psql("CREATE DATABASE restored OWNER kube_reports_owner", user="postgres", database="postgres")
    done = run(["pg_restore", "-d", database.connection(database="restored"), site.dump], check=False)
    errors = re.findall(r"error: could not execute query: ERROR:  (.*)", done.err)
    assert errors and all(re.fullmatch(r"function kube_reports\.(flapping|cve)\(.*\) does not exist", error) for error in errors), done.err
    proxy = Proxy(database, site.cluster, site.pki, connection=database.connection("kube_reports_proxy", "restored"))
    try:
        proxy.wait_ready()
        assert len(proxy.api().get(path_of(POLR, "here")).json["items"]) == 20
        assert database.psql("SELECT version, restore_pending, update_pending FROM kube_reports.status", database="restored") == f"{NEXT}|f|f"
        assert database.psql("SELECT count(*) FROM kube_reports.resource_type t WHERE NOT t.builtin", database="restored") == "1"
    finally:
        proxy.stop()


def test_dump_into_its_own_version(site):
    """Both versions are on disk: a dump restores into the one that it is of without an error, and is then updated"""
    database = site.database
    database.psql("CREATE DATABASE again OWNER kube_reports_owner", user="postgres", database="postgres")
    script = run(["pg_restore", "-f", "-", site.dump]).out
    said = "CREATE EXTENSION IF NOT EXISTS kube_reports WITH SCHEMA kube_reports"
    assert script.count(said) == 1
    database.psql(script.replace(said, f"{said} VERSION '{VERSION}'"), database="again")
    database.psql("ALTER EXTENSION kube_reports UPDATE; SELECT kube_reports.after_update(); SELECT kube_reports.after_restore()", database="again")
    if "fresh" not in database.psql("SELECT datname FROM pg_database", user="postgres", database="postgres").splitlines():
        pytest.skip("test_update has not made the fresh installation")
    assert_equal(catalogs(database, "again"), catalogs(database, "fresh"))


# ---- proxies and extensions of different versions ----

@contextlib.contextmanager
def serving(site, proxy_class, database):
    proxy = proxy_class(site.database, site.cluster, site.pki, connection=site.database.connection("kube_reports_proxy", database))
    try:
        yield proxy
    finally:
        proxy.stop()

@pytest.mark.parametrize("version, proxy_class", [(VERSION, NextProxy), (NEXT, Proxy), (NEXT, NextProxy)], ids=["newer proxy", "older proxy", "both next"])
def test_versions_side_by_side(site, version, proxy_class):
    """A proxy serves with the extension of the version before its own, and of the one after"""
    name = f"side_{version.replace('.', '_')}_{proxy_class.__name__.lower()}"
    site.database.psql(f"CREATE DATABASE {name} OWNER kube_reports_owner", user="postgres", database="postgres")
    site.database.psql(GRANTS.format(version=version, cluster=site.cluster), database=name)
    with serving(site, proxy_class, name) as proxy:
        api = proxy.wait_ready().api()
        created = api.create(POLR, report("a"), "side")
        with api.watch(path_of(POLR, "side"), resourceVersion=created["metadata"]["resourceVersion"]) as watch:
            changed = api.patch(path_of(POLR, "side", "a"), {"summary": {"pass": 9}}).json
            assert watch.change() == ("MODIFIED", changed)
        assert api.delete(path_of(POLR, "side", "a")).code == 200


@pytest.mark.parametrize("oldest, newest, word, remedy", [(2, 3, "old", "use a newer proxy"), (-1, 0, "new", "ALTER EXTENSION kube_reports UPDATE")])
def test_versions_too_far_apart(site, oldest, newest, word, remedy):
    """The proxy says so in one line of its log and at readyz, does nothing, and serves as soon as it is understood"""
    name = f"apart_{word}"
    database = site.database
    database.psql(f"CREATE DATABASE {name} OWNER kube_reports_owner", user="postgres", database="postgres")
    database.psql(GRANTS.format(version=VERSION, cluster=site.cluster), database=name)
    protocols = "CREATE OR REPLACE FUNCTION kube_reports_internal.protocols(OUT oldest integer, OUT newest integer) LANGUAGE sql IMMUTABLE AS 'SELECT {}, {}'"
    database.psql(protocols.format(oldest, newest), database=name)
    with serving(site, Proxy, name) as proxy:
        def refusal():
            answer = proxy.answers("/readyz/database")
            return answer is not None and answer.code == 500 and "protocols" in answer.body.decode() and answer.body.decode()
        why = until(refusal, 20, "readyz to say why")
        assert f"too {word} for the extension" in why and f"the extension {oldest} to {newest}" in why and remedy in why
        assert word == "new" or database.psql("SELECT last_seen FROM kube_reports.cluster", database=name) == ""
        until(lambda: "readyz fails" in proxy.log_path.read_text(), 20, "the line about readyz")
        lines = [line for line in proxy.log_path.read_text().splitlines() if f"too {word} for the extension" in line and "readyz fails" not in line]
        # One for each process: two workers and upkeep.
        assert 1 <= len(lines) <= 3, lines
        database.psql(protocols.format(1, 1), database=name)
        proxy.wait_ready()
        assert proxy.api().get(path_of(POLR)).code == 200


def test_protocol_of_this_version():
    """The proxy and the extension of one tree say the same"""
    header = (TOP / "proxy" / "db" / "pg_call.h").read_text(encoding="utf-8")
    said = re.search(r"protocols\(OUT.*?SELECT (\d+), (\d+);", (TOP / "sql" / "store" / "update.sql").read_text(encoding="utf-8"), re.DOTALL).groups()
    assert said == tuple(re.search(rf"#define PROTOCOL_{which} (\d+)", header).group(1) for which in ("OLDEST", "NEWEST"))


# ---- what the owner has put there meanwhile ----

@pytest.fixture
def hostile(site):
    """A database whose extension, of this version, is mallory's."""
    database = site.database
    database.psql("CREATE DATABASE hostile OWNER mallory", user="postgres", database="postgres")
    database.psql(f"CREATE EXTENSION kube_reports VERSION '{VERSION}'", user="mallory", database="hostile")
    connection = psycopg2.connect(database.connection("mallory", "hostile"))
    connection.autocommit = True
    try:
        yield connection.cursor()
        assert database.psql("SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'", user="postgres", database="postgres") == "f"
    finally:
        connection.close()
        database.psql("DROP DATABASE hostile WITH (FORCE)", user="postgres", database="postgres")
        database.psql("ALTER ROLE mallory NOSUPERUSER", user="postgres", database="postgres")


# A check runs when a literal is read as a row of that type.
TRAP = f"""CREATE SCHEMA evil;
CREATE FUNCTION evil.checked(text) RETURNS boolean LANGUAGE plpgsql {PAYLOAD};
CREATE DOMAIN evil.text AS pg_catalog.text CHECK (evil.checked(VALUE));
CREATE TYPE evil.trap AS (a evil.text);
"""

PLANTED = {
    "an argument": TRAP + "CREATE FUNCTION kube_reports.matches_labels(text[], evil.trap) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
    "a member's argument": TRAP + "CREATE FUNCTION kube_reports.matches_labels(text[], evil.trap) RETURNS boolean LANGUAGE sql AS 'SELECT true';"
                           " ALTER EXTENSION kube_reports ADD FUNCTION kube_reports.matches_labels(text[], evil.trap)",
    "an array": TRAP + "CREATE FUNCTION kube_reports.matches_labels(text[], evil.trap[]) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
    "a column": TRAP + "ALTER TABLE kube_reports_internal.setting ADD COLUMN a evil.trap",
    "a column's domain": TRAP + "CREATE DOMAIN kube_reports.mine AS text CHECK (evil.checked(VALUE)); ALTER TABLE kube_reports_internal.setting ADD COLUMN a kube_reports.mine",
    "a row's column": TRAP + "CREATE TYPE kube_reports.mine AS (a evil.text)",
    "a range": "CREATE TYPE kube_reports.mine AS RANGE (SUBTYPE = text); CREATE FUNCTION kube_reports.top(kube_reports.mine) RETURNS text LANGUAGE sql AS 'SELECT 1'",
    "another type report": "ALTER EXTENSION kube_reports DROP TYPE kube_reports.report; ALTER TYPE kube_reports.report RENAME TO before;"
                           " CREATE DOMAIN kube_reports.report AS bigint; ALTER EXTENSION kube_reports ADD DOMAIN kube_reports.report",
    "a key": "CREATE FUNCTION kube_reports.now(text) RETURNS integer IMMUTABLE LANGUAGE sql AS $$SELECT length(set_config('mallory.ran', 'yes', false))$$;"
             " CREATE TABLE kube_reports.mine (a integer) PARTITION BY RANGE ((a + kube_reports.now('')))",
    "a neighbour": "GRANT CREATE ON SCHEMA kube_reports TO kube_reports_reader",
    "a schema": "ALTER EXTENSION kube_reports DROP SCHEMA kube_reports_internal; ALTER SCHEMA kube_reports_internal RENAME TO elsewhere",
}


@pytest.mark.parametrize("what", PLANTED)
def test_update_is_refused(hostile, what):
    """Where something of the owner's would run as the superuser by which the script runs, or others could put it there"""
    hostile.execute(PLANTED[what])
    hostile.execute("SELECT set_config('mallory.ran', '', false)")
    with pytest.raises(psycopg2.errors.ObjectNotInPrerequisiteState) as refused:
        hostile.execute("ALTER EXTENSION kube_reports UPDATE")
    assert refused.value.diag.message_hint
    hostile.execute("SELECT current_setting('mallory.ran')")
    assert hostile.fetchone()[0] == ""


def test_new_names_are_taken(hostile):
    """What has the name of something new is not taken for it"""
    hostile.execute(f"CREATE FUNCTION kube_reports_internal.note_weather() RETURNS trigger LANGUAGE plpgsql {PAYLOAD}")
    with pytest.raises(psycopg2.errors.ObjectNotInPrerequisiteState) as refused:
        hostile.execute("ALTER EXTENSION kube_reports UPDATE")
    assert "not a member of extension" in refused.value.diag.message_primary


def test_nothing_of_the_owner_runs(hostile):
    """Triggers, policies, rules, checks and indexes of the owner on tables that are altered, and functions that are replaced"""
    hostile.execute(f"""CREATE SCHEMA evil;
        CREATE FUNCTION evil.fire() RETURNS trigger LANGUAGE plpgsql {PAYLOAD};
        CREATE FUNCTION evil.checked(text) RETURNS boolean IMMUTABLE LANGUAGE plpgsql {PAYLOAD};
        CREATE TRIGGER fire BEFORE INSERT OR UPDATE OR DELETE ON kube_reports.cluster FOR EACH STATEMENT EXECUTE FUNCTION evil.fire();
        SELECT kube_reports.register_cluster('00000000-0000-0000-0000-000000000001');
        ALTER TABLE kube_reports.cluster ADD CHECK (evil.checked(name)) NOT VALID;
        ALTER TABLE kube_reports.cluster ENABLE ROW LEVEL SECURITY;
        CREATE POLICY mine ON kube_reports.cluster USING (evil.checked(name));
        CREATE OR REPLACE FUNCTION kube_reports_internal.api_hello(cluster uuid, name text, protocol integer DEFAULT 1,
            caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
            OUT generation bigint, OUT store text, OUT oldest_protocol integer, OUT newest_protocol integer) LANGUAGE plpgsql AS 'BEGIN PERFORM evil.checked(name); END';
        CREATE OR REPLACE FUNCTION kube_reports_internal.reader_objects() RETURNS TABLE (kind text, object text, privileges text) LANGUAGE plpgsql
            AS $$BEGIN PERFORM evil.checked(''); END$$;
        SELECT set_config('mallory.ran', '', false)""")
    hostile.execute("ALTER EXTENSION kube_reports UPDATE")
    hostile.execute("SELECT current_setting('mallory.ran'), prosecdef, proconfig FROM pg_proc WHERE proname = 'api_hello'")
    assert hostile.fetchone() == ("", True, ["search_path=pg_catalog, pg_temp"])


def test_nobody_makes_functions_meanwhile(site, hostile):
    """From the first statement of the script to the end of the transaction"""
    updating = psycopg2.connect(site.database.connection("mallory", "hostile"))
    try:
        with updating.cursor() as cursor:
            cursor.execute("ALTER EXTENSION kube_reports UPDATE")
            hostile.execute("SET lock_timeout = '200ms'")
            with pytest.raises(psycopg2.errors.LockNotAvailable):
                hostile.execute("CREATE FUNCTION kube_reports.top(text) RETURNS text LANGUAGE sql AS 'SELECT 1'")
            updating.rollback()
    finally:
        updating.close()


# ---- the scripts themselves ----

def test_update_scripts_run_nothing(site):
    """What stands in the schema then is the owner's: no function of it is called, no row is written or read, no table is rewritten or checked"""
    found = list((site.tree.path / "sql" / "build" / "c").glob("kube_reports--*--*.sql"))
    migrations = [*(TOP / "sql" / "migrations").glob("*.sql"), *(site.tree.path / "sql" / "migrations").glob("*.sql")]
    assert [path.name for path in found] == [f"kube_reports--{VERSION}--{NEXT}.sql"] and migrations
    text = found[0].read_text(encoding="utf-8")
    assert statements(found[0])[0] == FIRST
    # Statements begin in the first column, and so does nothing else outside of dollar quotes but these clauses.
    outside = re.sub(r"(?s)\$([a-z]*)\$.*?\$\1\$", "$$", re.sub(r"(?m)^(\\\\|--).*$", "", text))
    said = [line for line in outside.splitlines() if re.match(r"[A-Z]", line)
            and not re.match(r"(AS|LANGUAGE|SET (?!LOCAL)[a-z_]+ =|RETURNS?|BEGIN ATOMIC|END;)", line)]
    assert len(said) > 600 and text.startswith(re.match(r"(?s)--.*?SET LOCAL", text).group())
    # The guards, and what gives new objects to the owner.
    assert [line for line in said if line.startswith("DO ")] == ["DO $$;", "DO $$;"] or said.count("DO $$") == 2
    migrated = {line for path in migrations for line in path.read_text(encoding="utf-8").splitlines()}
    for line in said[1:]:
        assert re.match(r"(DO \$|CREATE OR REPLACE (FUNCTION|PROCEDURE|AGGREGATE|VIEW|TRIGGER) |COMMENT ON )", line) or line in migrated, line
    for path in migrations:
        for statement in statements(path):
            assert re.match(r"(CREATE (TABLE|INDEX|UNIQUE INDEX|SEQUENCE|TYPE|DOMAIN|FUNCTION|STATISTICS)|ALTER (TABLE|TYPE|SEQUENCE|DOMAIN)|DROP|COMMENT ON) "
                            r"|SELECT pg_catalog\.pg_extension_config_dump\(", statement), f"{path.name}: {statement[:100]}"
            assert not re.search(r"CASCADE|IF (NOT )?EXISTS|ADD COLUMN .* (DEFAULT|CHECK|GENERATED|REFERENCES)|ALTER COLUMN .* TYPE|SET NOT NULL|VALIDATE"
                                 r"|ADD (?!COLUMN).*(?<!NOT VALID);$", statement), f"{path.name}: {statement[:100]}"


def test_every_release_is_left_by_a_migration():
    """A version later than the first one is reached from the one before"""
    assert VERSION == "0.1" or list((TOP / "sql" / "migrations").glob(f"*--{VERSION}.sql"))
