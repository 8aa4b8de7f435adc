"""ALTER EXTENSION UPDATE to a made-up next version: catalogs, grants, rows, dumps, proxies of both (issue 15)."""

import contextlib
import json
import re
import threading

import psycopg2
import pytest

import next_version
from catalogs import assert_equal, catalogs
from client import POLR, path_of, report, run, until
from conftest import TOP, VERSION, Proxy, Stack, only_c
from next_version import NEXT
from runbook import block
from test_hostile_installer import FIRST, PAYLOAD, statements
from test_types import CRD

# The variant in SQL has a file of its own: test_update_sql_variant.py.
pytestmark = only_c

GRANTS = """
CREATE EXTENSION IF NOT EXISTS kube_reports VERSION '{version}';
SELECT kube_reports.grant_proxy('kube_reports_proxy', '{cluster}');
SELECT kube_reports.grant_reader('kube_reports_reader');
SELECT kube_reports.grant_admin('kube_reports_admin');
GRANT EXECUTE ON FUNCTION kube_reports.setting(text) TO auditor;
GRANT SELECT ON kube_reports.policy_counts TO auditor WITH GRANT OPTION;
REVOKE EXECUTE ON FUNCTION kube_reports.document_size(kube_reports.report) FROM PUBLIC;
"""


class NextProxy(Proxy):
    """The proxy of the next version."""

    def start(self):
        self.command = [word + "-next" if word.endswith("/bin/kube-reports-proxy") else word for word in self.command]
        super().start()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A store of this version with objects of many kinds, a proxy, a dump; the next version is installed beside it."""
    tree = next_version.build(tmp_path_factory.mktemp("next"))
    own = Stack()
    try:
        own.begin()
        database = own.database
        database.psql("CREATE ROLE auditor; CREATE ROLE mallory LOGIN;"
                      " GRANT CREATE ON DATABASE kube_reports TO kube_reports_reader", user="postgres")
        database.psql(GRANTS.format(version=VERSION, cluster=own.cluster))
        database.psql(f"SELECT kube_reports.register_crd($crd${json.dumps(CRD)}$crd$::jsonb);"
                      " SELECT kube_reports.set_setting('log_retention', '90 minutes')")
        own.first = own.proxy()
        for number in range(20):
            results = [{"source": "kyverno", "policy": "p", "rule": "r", "result": "fail"}]
            own.first.api().create(POLR, report(f"r{number}", results=results), "here")
        own.dump = f"{database.directory}/old.dump"
        run(["pg_dump", "--format=custom", f"--file={own.dump}", "-d", database.connection()])
        # A reader's own view of a view that gets another column, and of a function that stays.
        database.psql("CREATE SCHEMA reader; CREATE VIEW reader.quiet AS"
                      " SELECT f.*, kube_reports.severity_weight('high') AS weight FROM kube_reports.fleet_freshness f",
                      user="kube_reports_reader")
        next_version.install(tree, database)
        own.tree, own.fresh = tree, None
        yield own
    finally:
        own.end()


def install(site, name, version):
    """Makes a database with the extension of a version, and its grants; returns the name."""
    site.database.psql(f"CREATE DATABASE {name} OWNER kube_reports_owner", user="postgres", database="postgres")
    site.database.psql(GRANTS.format(version=version, cluster=site.cluster), database=name)
    return name


def fresh(site):
    """Returns the name of a database with a fresh installation of the next version."""
    if not site.fresh:
        site.fresh = install(site, "fresh", NEXT)
    return site.fresh


def test_update(site):
    """An update while a proxy of the old version writes and watches ends like a fresh installation; nothing is lost"""
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
        # Open connections of the proxy notice the update, and have the rest done.
        state = "SELECT version, update_pending FROM kube_reports.status"
        until(lambda: database.psql(state) == f"{NEXT}|f", 30, "the rows to follow")
        before = len(written)
        until(lambda: len(written) > before + 3, 30, "writes after the update")
        done.set()
        writer.join()
        # A statement whose answer has changed fails once on each connection; the script locks all tables for a moment.
        assert {answer.code for _, answer in refused} <= {503}, refused
        seen = [watch.change()[1]["metadata"]["name"] for _ in written]
        assert seen == [name for name, _ in written]
        # A session that has loaded the old module calls functions of both modules.
        cursor.execute("SELECT kube_reports_internal.terms('{}') = kube_reports.label_terms('{}')")
        cursor.execute("SELECT weight FROM reader.quiet")
        assert cursor.fetchall() == [(6,)]
    session.close()
    database.psql("SELECT kube_reports.after_update()")
    assert database.psql("SELECT kube_reports.setting('log_retention')") == "90 minutes"
    assert database.psql("SELECT count(*) FROM kube_reports.verify()") == "0"
    assert database.psql("SELECT count(*) FROM kube_reports.object WHERE namespace = 'here'") == str(20 + len(written))
    # A built-in type has the definition of the new version.
    document = "/openapi/v3/apis/wgpolicyk8s.io/v1alpha2"
    until(lambda: b"Made up." in api.get(document).body, 20, "the new definition to be served")
    # New objects have the grants that a fresh installation gives.
    assert database.psql("SELECT count(*), min(sky) FROM kube_reports.outlook", user="kube_reports_reader") == "3|clear"
    assert database.psql("SELECT count(*) FROM kube_reports.cve('CVE-1', true)", user="kube_reports_reader") == "0"
    forecast = f"SELECT kube_reports_internal.api_forecast('{site.cluster}')"
    assert database.psql(forecast, user="kube_reports_proxy") == "clear"
    database.psql("INSERT INTO kube_reports_internal.weather VALUES (1, 'clear')", user="kube_reports_admin")
    database.psql("DELETE FROM kube_reports_internal.weather; DROP SCHEMA reader CASCADE", user="postgres")

    assert_equal(catalogs(database, "kube_reports"), catalogs(database, fresh(site)))


def test_dump_of_the_version_before(site):
    """A dump restores into the new version; only grants on functions that are gone fail"""
    database = site.database
    database.psql("CREATE DATABASE restored OWNER kube_reports_owner", user="postgres", database="postgres")
    done = run(["pg_restore", "-d", database.connection(database="restored"), site.dump], check=False)
    errors = re.findall(r"error: could not execute query: ERROR:  (.*)", done.err)
    gone = r"function kube_reports\.(flapping|cve)\(.*\) does not exist"
    assert errors and all(re.fullmatch(gone, error) for error in errors), done.err
    proxy = Proxy(database, site.cluster, site.pki, connection=database.connection("kube_reports_proxy", "restored"))
    try:
        proxy.wait_ready()
        assert len(proxy.api().get(path_of(POLR, "here")).json["items"]) == 20
        state = "SELECT version, restore_pending, update_pending FROM kube_reports.status"
        assert database.psql(state, database="restored") == f"{NEXT}|f|f"
        registered = "SELECT count(*) FROM kube_reports.resource_type t WHERE NOT t.builtin"
        assert database.psql(registered, database="restored") == "1"
    finally:
        proxy.stop()


def test_dump_into_its_own_version(site):
    """With both versions on disk, a dump restores into its own version without an error, and is then updated"""
    database = site.database
    database.psql("CREATE DATABASE again OWNER kube_reports_owner", user="postgres", database="postgres")
    command = block("pg_restore -f -").replace("'0.1'", f"'{VERSION}'").replace("old.dump", str(site.dump))
    run(["bash", "-c", "set -e -o pipefail\n" + command.replace(
        "psql -d reports", f"psql -X -q -v ON_ERROR_STOP=1 -d '{database.connection(database='again')}'")])
    assert database.psql("SELECT extversion FROM pg_extension WHERE extname = 'kube_reports'",
                         database="again") == VERSION
    database.psql(block("ALTER EXTENSION kube_reports UPDATE") + "SELECT kube_reports.after_restore()",
                  database="again")
    assert_equal(catalogs(database, "again"), catalogs(database, fresh(site)))


# ---- proxies and extensions of different versions ----

@contextlib.contextmanager
def serving(site, proxy_class, database):
    connection = site.database.connection("kube_reports_proxy", database)
    proxy = proxy_class(site.database, site.cluster, site.pki, connection=connection)
    try:
        yield proxy
    finally:
        proxy.stop()

@pytest.mark.parametrize("version, proxy_class", [(VERSION, NextProxy), (NEXT, Proxy), (NEXT, NextProxy)],
                         ids=["newer proxy", "older proxy", "both next"])
def test_versions_side_by_side(site, version, proxy_class):
    """A proxy serves with the extension of the version before its own, and of the one after"""
    name = install(site, f"side_{version.replace('.', '_')}_{proxy_class.__name__.lower()}", version)
    with serving(site, proxy_class, name) as proxy:
        api = proxy.wait_ready().api()
        created = api.create(POLR, report("a"), "side")
        with api.watch(path_of(POLR, "side"), resourceVersion=created["metadata"]["resourceVersion"]) as watch:
            changed = api.patch(path_of(POLR, "side", "a"), {"summary": {"pass": 9}}).json
            assert watch.change() == ("MODIFIED", changed)
        assert api.delete(path_of(POLR, "side", "a")).code == 200


@pytest.mark.parametrize("oldest, newest, word, remedy", [
    (2, 3, "old", "use a newer proxy"), (-1, 0, "new", "ALTER EXTENSION kube_reports UPDATE")])
def test_versions_too_far_apart(site, oldest, newest, word, remedy):
    """The proxy says so in its log and at readyz, and does nothing; it serves as soon as the versions fit"""
    name = install(site, f"apart_{word}", VERSION)
    database = site.database
    protocols = ("CREATE OR REPLACE FUNCTION kube_reports_internal.protocols(OUT oldest integer, OUT newest integer)"
                 " LANGUAGE sql IMMUTABLE AS 'SELECT {}, {}'")
    database.psql(protocols.format(oldest, newest), database=name)
    with serving(site, Proxy, name) as proxy:
        def refusal():
            answer = proxy.answers("/readyz/database")
            body = answer.body.decode() if answer is not None and answer.code == 500 else ""
            return "protocols" in body and body
        why = until(refusal, 20, "readyz to say why")
        assert f"too {word} for the extension" in why and f"the extension {oldest} to {newest}" in why and remedy in why
        assert word == "new" or database.psql("SELECT last_seen FROM kube_reports.cluster", database=name) == ""
        until(lambda: "readyz fails" in proxy.log_path.read_text(), 20, "the line about readyz")
        lines = [line for line in proxy.log_path.read_text().splitlines()
                 if f"too {word} for the extension" in line and "readyz fails" not in line]
        # Each process says it once: two workers, upkeep and feed.
        assert 1 <= len(lines) <= 4, lines
        database.psql(protocols.format(1, 1), database=name)
        proxy.wait_ready()
        assert proxy.api().get(path_of(POLR)).code == 200


def test_protocol_of_this_version():
    """The proxy and the extension of one tree have the same protocols"""
    header = (TOP / "proxy" / "db" / "pg_call.h").read_text(encoding="utf-8")
    function = (TOP / "sql" / "store" / "update.sql").read_text(encoding="utf-8")
    said = re.search(r"protocols\(OUT.*?SELECT (\d+), (\d+);", function, re.DOTALL).groups()
    oldest, newest = (re.search(rf"#define PROTOCOL_{which} (\d+)", header).group(1) for which in ("OLDEST", "NEWEST"))
    assert said == (oldest, newest)


# ---- objects that the owner has made in the schemas ----

@pytest.fixture
def hostile(site):
    """A database whose extension, of this version, belongs to mallory."""
    database = site.database
    database.psql("CREATE DATABASE hostile OWNER mallory", user="postgres", database="postgres")
    database.psql(f"CREATE EXTENSION kube_reports VERSION '{VERSION}'", user="mallory", database="hostile")
    connection = psycopg2.connect(database.connection("mallory", "hostile"))
    connection.autocommit = True
    try:
        yield connection.cursor()
        gained = "SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'"
        assert database.psql(gained, user="postgres", database="postgres") == "f"
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

OVERLOAD = "CREATE FUNCTION kube_reports.matches_labels(text[], {}) RETURNS boolean LANGUAGE sql AS 'SELECT true';"

PLANTED = {
    "an argument": TRAP + OVERLOAD.format("evil.trap"),
    "a member's argument": TRAP + OVERLOAD.format("evil.trap")
    + "ALTER EXTENSION kube_reports ADD FUNCTION kube_reports.matches_labels(text[], evil.trap)",
    "an array": TRAP + OVERLOAD.format("evil.trap[]"),
    "a column": TRAP + "ALTER TABLE kube_reports_internal.setting ADD COLUMN a evil.trap",
    "a column's domain": TRAP + "CREATE DOMAIN kube_reports.mine AS text CHECK (evil.checked(VALUE));"
                         " ALTER TABLE kube_reports_internal.setting ADD COLUMN a kube_reports.mine",
    "a row's column": TRAP + "CREATE TYPE kube_reports.mine AS (a evil.text)",
    "a range": "CREATE TYPE kube_reports.mine AS RANGE (SUBTYPE = text);" + OVERLOAD.format("kube_reports.mine"),
    "another type report": "ALTER EXTENSION kube_reports DROP TYPE kube_reports.report;"
                           " ALTER TYPE kube_reports.report RENAME TO before;"
                           " CREATE DOMAIN kube_reports.report AS bigint;"
                           " ALTER EXTENSION kube_reports ADD DOMAIN kube_reports.report",
    "a key": "CREATE FUNCTION kube_reports.now(text) RETURNS integer IMMUTABLE LANGUAGE sql"
             " AS $$SELECT length(set_config('mallory.ran', 'yes', false))$$;"
             " CREATE TABLE kube_reports.mine (a integer) PARTITION BY RANGE ((a + kube_reports.now('')))",
    "a neighbour": "GRANT CREATE ON SCHEMA kube_reports TO kube_reports_reader",
    "a schema of the name": "ALTER SCHEMA kube_reports RENAME TO elsewhere; CREATE SCHEMA kube_reports;"
                            " CREATE TYPE kube_reports.report AS ENUM ('{}')",
    "a schema": "ALTER EXTENSION kube_reports DROP SCHEMA kube_reports_internal;"
                " ALTER SCHEMA kube_reports_internal RENAME TO elsewhere",
}


@pytest.mark.parametrize("what", PLANTED)
def test_update_is_refused(hostile, what):
    """The script runs as a superuser: it is refused where it could run code of the owner or of another role"""
    hostile.execute(PLANTED[what])
    hostile.execute("SELECT set_config('mallory.ran', '', false)")
    with pytest.raises(psycopg2.errors.ObjectNotInPrerequisiteState) as refused:
        hostile.execute("ALTER EXTENSION kube_reports UPDATE")
    assert refused.value.diag.message_hint
    hostile.execute("SELECT current_setting('mallory.ran')")
    assert hostile.fetchone()[0] == ""


def test_snapshot_of_before(site, hostile):
    """A transaction whose snapshot is older than a planted object updates nothing"""
    updating = psycopg2.connect(site.database.connection("mallory", "hostile"))
    updating.set_session(isolation_level="REPEATABLE READ")
    try:
        with updating.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_class")
            hostile.execute(PLANTED["an argument"])
            with pytest.raises(psycopg2.errors.ObjectNotInPrerequisiteState) as refused:
                cursor.execute("ALTER EXTENSION kube_reports UPDATE")
            assert "READ COMMITTED" in refused.value.diag.message_hint
    finally:
        updating.close()


def test_new_names_are_taken(hostile):
    """An object of the owner that has the name of a new object is not taken for it: the update is refused"""
    hostile.execute(f"CREATE FUNCTION kube_reports_internal.note_weather() RETURNS trigger LANGUAGE plpgsql {PAYLOAD}")
    with pytest.raises(psycopg2.errors.ObjectNotInPrerequisiteState) as refused:
        hostile.execute("ALTER EXTENSION kube_reports UPDATE")
    assert "not a member of extension" in refused.value.diag.message_primary


def test_nothing_of_the_owner_runs(hostile):
    """The update runs no code of the owner: triggers, policies, checks on altered tables, functions that it replaces"""
    hostile.execute(f"""CREATE SCHEMA evil;
        CREATE FUNCTION evil.fire() RETURNS trigger LANGUAGE plpgsql {PAYLOAD};
        CREATE FUNCTION evil.checked(text) RETURNS boolean IMMUTABLE LANGUAGE plpgsql {PAYLOAD};
        CREATE TRIGGER fire BEFORE INSERT OR UPDATE OR DELETE ON kube_reports.cluster
            FOR EACH STATEMENT EXECUTE FUNCTION evil.fire();
        SELECT kube_reports.register_cluster('00000000-0000-0000-0000-000000000001');
        ALTER TABLE kube_reports.cluster ADD CHECK (evil.checked(name)) NOT VALID;
        ALTER TABLE kube_reports.cluster ENABLE ROW LEVEL SECURITY;
        CREATE POLICY mine ON kube_reports.cluster USING (evil.checked(name));
        CREATE OR REPLACE FUNCTION kube_reports_internal.api_hello(cluster uuid, name text, protocol integer DEFAULT 1,
            caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
            OUT generation bigint, OUT store text, OUT oldest_protocol integer, OUT newest_protocol integer,
            OUT variant text)
            LANGUAGE plpgsql AS 'BEGIN PERFORM evil.checked(name); END';
        CREATE OR REPLACE FUNCTION kube_reports_internal.reader_objects()
            RETURNS TABLE (kind text, object text, privileges text)
            LANGUAGE plpgsql AS $$BEGIN PERFORM evil.checked(''); END$$;
        SELECT set_config('mallory.ran', '', false)""")
    hostile.execute("ALTER EXTENSION kube_reports UPDATE")
    hostile.execute("SELECT current_setting('mallory.ran'), p.prosecdef, p.proconfig FROM pg_proc p"
                    " WHERE p.proname = 'api_hello'")
    assert hostile.fetchone() == ("", True, ["search_path=pg_catalog, pg_temp"])


@pytest.mark.parametrize("made", ["FUNCTION kube_reports.top(text) RETURNS text LANGUAGE sql AS 'SELECT 1'",
                                  "SCHEMA other",
                                  "TYPE kube_reports.other AS ENUM ('{}')", "DOMAIN kube_reports.other AS text"])
def test_nobody_makes_functions_meanwhile(site, hostile, made):
    """During an update no other session makes functions, types or schemas"""
    updating = psycopg2.connect(site.database.connection("mallory", "hostile"))
    try:
        with updating.cursor() as cursor:
            cursor.execute("ALTER EXTENSION kube_reports UPDATE")
            hostile.execute("SET lock_timeout = '200ms'")
            with pytest.raises(psycopg2.errors.LockNotAvailable):
                hostile.execute("CREATE " + made)
            updating.rollback()
    finally:
        updating.close()


# ---- the scripts themselves ----

def test_update_scripts_run_nothing(site):
    """The schemas are the owner's, so update scripts call no function, read or write no row, and rewrite no table"""
    found = list((site.tree.path / "sql" / "build" / "c").glob("kube_reports--*--*.sql"))
    migrations = [*(TOP / "sql" / "migrations").glob("*.sql"), *(site.tree.path / "sql" / "migrations").glob("*.sql")]
    assert [path.name for path in found] == [f"kube_reports--{VERSION}--{NEXT}.sql"] and migrations
    text = found[0].read_text(encoding="utf-8")
    assert statements(found[0])[0] == FIRST
    # Outside of dollar quotes, only statements and these clauses begin in the first column.
    outside = re.sub(r"(?s)\$([a-z]*)\$.*?\$\1\$", "$$", re.sub(r"(?m)^(\\\\|--).*$", "", text))
    said = [line for line in outside.splitlines() if re.match(r"[A-Z]", line)
            and not re.match(r"(AS|LANGUAGE|SET (?!LOCAL)[a-z_]+ =|RETURNS?|BEGIN ATOMIC|END;)", line)]
    assert len(said) > 600
    # Two guards, and the block that gives new objects to the owner.
    assert len([line for line in said if line.startswith("DO ")]) == 3
    migrated = {line for path in migrations for line in path.read_text(encoding="utf-8").splitlines()}
    replaced = re.compile(r"DO \$|CREATE OR REPLACE (FUNCTION|PROCEDURE|AGGREGATE|VIEW|TRIGGER) |COMMENT ON ")
    for line in said[1:]:
        assert replaced.match(line) or line in migrated, line
    allowed = re.compile(r"(CREATE (TABLE|INDEX|UNIQUE INDEX|SEQUENCE|TYPE|DOMAIN|FUNCTION|STATISTICS)|DROP|COMMENT ON"
                         r"|ALTER (TABLE|TYPE|SEQUENCE|DOMAIN)) |SELECT pg_catalog\.pg_extension_config_dump\(")
    forbidden = re.compile(r"CASCADE|IF (NOT )?EXISTS|ADD COLUMN .* (DEFAULT|CHECK|GENERATED|REFERENCES)"
                           r"|ALTER COLUMN .* TYPE|SET NOT NULL|VALIDATE|ADD (?!COLUMN).*(?<!NOT VALID);$")
    for path in migrations:
        for statement in statements(path):
            assert allowed.match(statement) and not forbidden.search(statement), f"{path.name}: {statement[:100]}"


def test_every_release_is_left_by_a_migration():
    """A version later than the first one has a migration from the version before"""
    assert VERSION == "0.1" or list((TOP / "sql" / "migrations").glob(f"*--{VERSION}.sql"))
