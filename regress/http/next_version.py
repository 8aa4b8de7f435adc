"""A made-up next version: a copy of the tree with a change of every kind that an update has to make (issue 15)."""

import os
import pathlib
import re
import shutil

from client import run
from conftest import TOP, VERSION

NEXT = "9.0"
OLD_MODULE, NEW_MODULE = f"kube_reports-{VERSION}.so", f"kube_reports-{NEXT}.so"

MIGRATION = f"""-- {VERSION}--{NEXT}.sql
--	  A column, a table, a type, a constraint; removed functions, and functions that return more columns.

ALTER TABLE kube_reports.cluster ADD COLUMN region text;
ALTER TABLE kube_reports_internal.lane ADD CONSTRAINT lane_floor CHECK (floor <> 7) NOT VALID;
CREATE TABLE kube_reports_internal.weather (
	id			integer PRIMARY KEY,
	sky			text NOT NULL
);
SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.weather', '');
CREATE SEQUENCE kube_reports_internal.weather_seq;
CREATE TYPE kube_reports_internal.forecast AS (day date, sky text);
DROP FUNCTION kube_reports.flapping(timestamptz, timestamptz, integer);
DROP FUNCTION kube_reports_internal.api_counts(uuid, kube_reports_internal.caller);

---- afterwards ----

DROP FUNCTION kube_reports.cve(text);
"""

TABLES = """
CREATE TABLE kube_reports_internal.weather (
	id			integer PRIMARY KEY,
	sky			text NOT NULL
);
COMMENT ON TABLE kube_reports_internal.weather IS 'made up';
SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.weather', '');
CREATE SEQUENCE kube_reports_internal.weather_seq;
COMMENT ON SEQUENCE kube_reports_internal.weather_seq IS 'made up';
"""

# Functions for readers (forecast, and terms in C), for proxies (api_forecast), and for no role (note_weather).
FUNCTIONS = """
CREATE TYPE kube_reports_internal.forecast AS (day date, sky text);
COMMENT ON TYPE kube_reports_internal.forecast IS 'made up';

CREATE FUNCTION kube_reports.forecast(days integer DEFAULT 1) RETURNS kube_reports_internal.forecast
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT ROW(date '2026-01-01' + days, 'clear')::kube_reports_internal.forecast;
END;
COMMENT ON FUNCTION kube_reports.forecast(integer) IS 'made up';

CREATE VIEW kube_reports.outlook WITH (security_barrier) AS
	SELECT (f.f).sky, f.days
	FROM (SELECT kube_reports.forecast(d.days) AS f, d.days FROM generate_series(1, 3) d(days)) f;
COMMENT ON VIEW kube_reports.outlook IS 'made up';

CREATE FUNCTION kube_reports_internal.api_forecast(cluster uuid,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller())
	RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT 'clear'
$$;
COMMENT ON FUNCTION kube_reports_internal.api_forecast(uuid, kube_reports_internal.caller) IS 'made up';

CREATE FUNCTION kube_reports_internal.note_weather() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.note_weather() IS 'made up';
CREATE TRIGGER note_weather AFTER INSERT ON kube_reports.cluster
	FOR EACH ROW EXECUTE FUNCTION kube_reports_internal.note_weather();
"""

FUNCTION_IN_C = """
CREATE FUNCTION kube_reports_internal.terms(metadata kube_reports.report) RETURNS text[]
	AS 'MODULE_PATHNAME', 'label_terms' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.terms(kube_reports.report) IS 'made up';
-- In this version the function is not in C, and only the owner may call it.
CREATE FUNCTION kube_reports_internal.commit_durably() RETURNS void
	AS 'MODULE_PATHNAME', 'keep_memory' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION kube_reports_internal.commit_durably() IS 'made up';
"""

FUNCTION_IN_SQL = """
CREATE FUNCTION kube_reports_internal.terms(metadata kube_reports.report) RETURNS text[]
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN '{}'::text[];
COMMENT ON FUNCTION kube_reports_internal.terms(kube_reports.report) IS 'made up';
CREATE FUNCTION kube_reports_internal.commit_durably() RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT set_config('synchronous_commit', 'on', true)
$$;
COMMENT ON FUNCTION kube_reports_internal.commit_durably() IS 'made up';
"""


class Tree:
    """A copy of this tree with its built objects, in which texts of files can be replaced."""

    def __init__(self, directory):
        self.path = pathlib.Path(directory)

        def needless(path, names):
            return [name for name in names if name in (".git", ".cache", "__pycache__", "node_modules", "sanitized")
                    or name.startswith(".run") or (name == "build" and pathlib.Path(path).name in ("fuzz", "bench"))]
        shutil.copytree(TOP, self.path, dirs_exist_ok=True, symlinks=True, ignore=needless)

    def change(self, name, old, new, count=1):
        """Replaces a text; its words may be on several lines."""
        file = self.path / name
        place = r"\s+".join(re.escape(word) for word in old.split())
        text, found = re.subn(place, lambda _: new, file.read_text(encoding="utf-8"), count=count)
        assert found >= 1, f"{name} has no {old!r}"
        file.write_text(text, encoding="utf-8")

    def remove(self, name, pattern):
        file = self.path / name
        text, count = re.subn(pattern, "", file.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert count == 1, f"{name} has {count} times {pattern!r}"
        file.write_text(text, encoding="utf-8")

    def make(self, *goals):
        run(["make", "--no-print-directory", "-s", "-C", str(self.path), *goals], timeout=600)


def build(directory):
    """Builds proxy, module and scripts of the next version; returns its tree."""
    tree = Tree(directory)
    # The proxy of the next version, which also works with the extension of this version.
    tree.change("proxy/db/pg_call.h", "#define PROTOCOL_NEWEST 1", "#define PROTOCOL_NEWEST 2")
    tree.make("VARIANT=c", "proxy/build/kube-reports-proxy")
    change_sql(tree)
    tree.change("sql/types/functions_c.sql", "---- results ----\n", FUNCTION_IN_C)
    tree.make("VARIANT=c", NEW_MODULE, f"sql/build/c/kube_reports--{NEXT}.sql",
              f"sql/build/c/kube_reports--{VERSION}--{NEXT}.sql")
    return tree


def build_sql_variant(directory):
    """Builds the scripts without C of the next version; returns its tree."""
    tree = Tree(directory)
    change_sql(tree)
    file = tree.path / "sql" / "types" / "functions_sql.sql"
    file.write_text(file.read_text(encoding="utf-8") + FUNCTION_IN_SQL, encoding="utf-8")
    tree.make("VARIANT=sql", "sql/build/sql/kube_reports.control", f"sql/build/sql/kube_reports--{NEXT}.sql",
              f"sql/build/sql/kube_reports--{VERSION}--{NEXT}.sql")
    return tree


def change_sql(tree):
    """Makes changes of every kind in the SQL of a tree."""
    tree.change("extension/kube_reports.control", f"default_version = '{VERSION}'", f"default_version = '{NEXT}'")
    (tree.path / "sql" / "migrations" / f"{VERSION}--{NEXT}.sql").write_text(MIGRATION, encoding="utf-8")
    tables = "sql/tables/store.sql"
    tree.change(tables, "	removing	boolean NOT NULL DEFAULT false\n",
                "	removing	boolean NOT NULL DEFAULT false,\n	region		text\n")
    tree.change(tables, "---- what pg_dump takes along ----\n",
                "COMMENT ON COLUMN kube_reports.cluster.region IS 'made up';\n" + TABLES)
    tree.change(tables, "	store		uuid,\n", "	store		uuid,\n	CONSTRAINT lane_floor CHECK (floor <> 7),\n")
    tree.change("sql/store/update.sql", "SELECT 1, 1;", "SELECT 1, 2;")
    tree.change("sql/store/sql_api.sql", "CREATE VIEW", FUNCTIONS + "\nCREATE VIEW")
    tree.change("sql/script/grants.sql", "'cve', ", "'cve', 'forecast', 'terms', ")
    tree.remove("sql/analytics/trends.sql",
                r"CREATE FUNCTION kube_reports\.flapping\(.*?COMMENT ON FUNCTION kube_reports\.flapping[^;]*;\n")
    tree.remove("sql/store/locks.sql",
                r"CREATE FUNCTION kube_reports_internal\.commit_durably\(.*?COMMENT ON FUNCTION[^;]*;\n")
    # One more argument, one more column of a view, one more column of a result, another comment in the script.
    views = "sql/analytics/views.sql"
    tree.change(views, "FUNCTION kube_reports.cve(cve text)",
                "FUNCTION kube_reports.cve(cve text, fixable_only boolean DEFAULT false)")
    tree.change(views, "COMMENT ON FUNCTION kube_reports.cve(text)",
                "COMMENT ON FUNCTION kube_reports.cve(text, boolean)")
    tree.change(views, "AS evaluation_age, o.oldest_evaluation\n", "AS evaluation_age, o.oldest_evaluation, c.region\n")
    tree.change("sql/store/proxy.sql", 'OUT "group" text, OUT resource text, OUT objects bigint)',
                'OUT "group" text, OUT resource text, OUT objects bigint, OUT bytes bigint)')
    tree.change("sql/store/proxy.sql", "WHERE o.cluster_id = c.id AND o.resource_type = t.id)\n",
                "WHERE o.cluster_id = c.id AND o.resource_type = t.id), 0::bigint\n")
    tree.change("sql/store/read.sql", "-- read.sql", "-- read.sql, made up")
    tree.change("sql/crds/policyreports.wgpolicyk8s.io.json", '"description": "', '"description": "Made up. ')


def directory_of(database, option):
    """Returns a directory of pg_config within the directory of a server."""
    config = os.environ.get("PG_CONFIG") or "pg_config"
    return pathlib.Path(database.directory) / "dest" / run([config, option]).out.strip().lstrip("/")


def install_sql_variant(tree, database):
    """Puts the scripts of the next version beside those of this one."""
    for file in (tree.path / "sql" / "build" / "sql").glob("kube_reports*"):
        shutil.copy(file, directory_of(database, "--sharedir") / "extension")
    run(["chmod", "-R", "go+rX", f"{database.directory}/dest"])


def install(tree, database):
    """Puts the next version beside this version; the proxy of this version stays."""
    destination = pathlib.Path(database.directory) / "dest"

    def directory(option):
        return directory_of(database, option)
    shutil.copy(tree.path / "extension" / "kube_reports.control", directory("--sharedir") / "extension")
    for script in (tree.path / "sql" / "build" / "c").glob(f"kube_reports--*{NEXT}.sql"):
        shutil.copy(script, directory("--sharedir") / "extension")
    shutil.copy(tree.path / NEW_MODULE, directory("--pkglibdir"))
    shutil.copy(tree.path / "proxy/build/kube-reports-proxy", destination / "usr/bin/kube-reports-proxy-next")
    run(["chmod", "-R", "go+rX", str(destination)])
    assert (directory("--pkglibdir") / OLD_MODULE).exists()
