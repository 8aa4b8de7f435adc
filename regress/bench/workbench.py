"""What every benchmark uses: a stack with the programs that load it, and the rows of the result."""

import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "http"))

from client import run, until  # noqa: E402
from conftest import Stack  # noqa: E402

SCALE = float(os.environ.get("BENCH_SCALE") or 1)
WANTED = (os.environ.get("BENCH_ROWS") or "").split()
BUILD = HERE / "build"
OUTPUT = os.environ.get("BENCH_JSON") or str(BUILD / "results.json")
SETTINGS = ("fsync = on", "shared_buffers = 1GB", "max_wal_size = 8GB", "checkpoint_timeout = 30min",
            "autovacuum_naptime = 10s")
# A body or path of load with this in it gets the request's number there.
NUMBERED = "10000000-0000-4000-8000-@@@@@@@@@@@@"
# A body of load with this in it gets the request's line of --versions there.
VERSION = "$VERSION"
# The results of a generated report n, of which the first three have another status.
CHANGED = """(SELECT json_agg(r.result::jsonb || CASE WHEN r.place > 3 THEN '{}'
        ELSE jsonb_build_object('result', CASE r.result->>'result' WHEN 'pass' THEN 'fail' ELSE 'pass' END) END
        ORDER BY r.place)
    FROM json_array_elements(pg_temp.generated('pss', n, 'create')::json->'results') WITH ORDINALITY
        r(result, place))"""
MEBIBYTE = 1024 * 1024

rows = []


def scaled(count, least=1):
    return max(least, int(count * SCALE))


def seconds(full):
    """Duration of a measurement: shorter in a quick run, long enough to mean something."""
    return max(3, full * min(1, SCALE * 2))


def row(name, workload, value, baseline, unit, ratio, bar, passed, **more):
    """Notes a result; bar is words, passed is None for a row that only reports."""
    rows.append({"row": name, "workload": workload, "value": value, "baseline": baseline, "unit": unit,
                 "ratio": ratio, "bar": bar, "passed": passed, **more})
    print(line_of(rows[-1]), flush=True)


def line_of(result):
    def number(value):
        return "" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"

    mark = {True: "ok", False: "FAIL", None: ""}[result["passed"]]
    return (f"{result['row']:<18} {result['workload']:<44} {number(result['value']):>12} "
            f"{number(result['baseline']):>12} {result['unit']:<6} {number(result['ratio']):>7}  "
            f"{result['bar']:<26} {mark}")


def note(text):
    print(f"# {text}", file=sys.stderr, flush=True)


class Bench:
    """A stack with the settings of a server that is meant to be fast, and the programs that load it."""

    def __init__(self, variant="c"):
        self.stack = Stack(variant)
        self.stack.begin(*SETTINGS)
        self.database = self.stack.database
        self.proxy = self.stack.proxy()
        self.directory = pathlib.Path(self.database.directory) / "bench"
        self.directory.mkdir()

    def end(self):
        self.stack.end()

    def load(self, path, *options, port=None, wait=True):
        """Runs the load generator; its result, or the process when wait is off."""
        pki = self.stack.pki
        command = [str(BUILD / "load"), f"--port={port or self.proxy.port}", f"--ca={pki}/ca.crt",
                   f"--certificate={pki}/admin.crt", f"--key={pki}/admin.key", *options, path]
        if not wait:
            return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        return self.result(run(command, timeout=900).out)

    @staticmethod
    def result(text):
        """What the load generator says; every answer must have been the one that was hoped for."""
        result = json.loads(text)
        assert result["ok"] > 0 and not any(result[kind] for kind in ("other", "refused", "failed", "broken")), result
        return result

    def backends(self):
        """The processes of the database that serve proxies."""
        return self.database.psql("SELECT pid FROM pg_stat_activity WHERE usename = 'kube_reports_proxy'",
                                  user="postgres").split()

    def fill(self, style, first, last, namespaces=100, batch=20000):
        """Stores generated reports first..last as the owner."""
        note(f"storing {last - first + 1} reports ({style})")
        statements = [f"SELECT pg_temp.store('{self.stack.cluster}', '{style}', {start},"
                      f" {min(start + batch - 1, last)}, {namespaces});"
                      for start in range(first, last + 1, batch)]
        self.script(f"\\i {HERE}/generate.sql\n" + "\n".join(statements))
        self.upkeep()

    def script(self, sql):
        """Runs SQL that takes as long as it takes, for its effect."""
        run(["psql", "-X", "-q", "-o", "/dev/null", "-v", "ON_ERROR_STOP=1", "-d", self.database.connection()],
            input=sql, timeout=7200)

    def fold(self):
        """What proxies do by and by: folds every count; a transaction of somebody else may hold that up."""
        self.script("DO $$ BEGIN WHILE EXISTS (SELECT FROM kube_reports_internal.rollup_delta) LOOP"
                    " PERFORM kube_reports_internal.fold_rollups(); COMMIT; END LOOP; END $$")

    def upkeep(self):
        """What the proxies' upkeep does once a minute, and nothing more: nobody else looks after a store."""
        self.script("DO $$ BEGIN UPDATE kube_reports_internal.garbage_sweep SET due_at = '-infinity'; COMMIT;"
                    " WHILE kube_reports.maintain() LOOP COMMIT; END LOOP; END $$")

    def log_no_pages(self):
        """From now on the log has no images of pages: how many there are depends on the time of the last checkpoint."""
        self.database.psql("ALTER SYSTEM SET full_page_writes = off", user="postgres")
        self.database.psql("SELECT pg_reload_conf()", user="postgres")
        until(lambda: self.database.psql("SHOW full_page_writes") == "off", 20, "full_page_writes = off")

    def vacuumed(self, table):
        """Waits until autovacuum has no work with a large table: a fill of minutes stands for weeks."""
        asked = f"""
            SELECT s.n_dead_tup <= 50 + 0.05 * s.n_live_tup AND s.n_ins_since_vacuum <= 1000 + 0.2 * s.n_live_tup
                AND s.n_mod_since_analyze <= 50 + 0.05 * s.n_live_tup
            FROM pg_stat_all_tables s WHERE s.relid = '{table}'::regclass"""
        note(f"waiting for autovacuum of {table}")
        until(lambda: self.database.psql(asked) == "t", 1800, f"autovacuum of {table}")

    def policy_reports(self, seconds=None, count=64):
        """A file of policy reports of 19 results named by load; with seconds: patches of the times of evaluation."""
        path = self.directory / f"policy-reports-{seconds}"
        document = f"replace(pg_temp.generated('pss', n, 'create'), pg_temp.resource_uid(n)::text, '{NUMBERED}')"
        if seconds is not None:
            document = (f"json_build_object('results', regexp_replace({document}, '\"seconds\" *: *[0-9]+',"
                        f" '\"seconds\":{seconds}', 'g')::json->'results')::text")
        text = self.database.psql(f"""
            \\i {HERE}/generate.sql
            SELECT regexp_replace({document}, '"namespace":"create",', '', 'g') FROM generate_series(1, {count}) n""")
        path.write_text(text + "\n", encoding="utf-8")
        return path

    def policy_updates(self, count=64):
        """A file of merge patches of the same reports: the first three results of each get another status."""
        path = self.directory / "policy-updates"
        text = self.database.psql(f"""
            \\i {HERE}/generate.sql
            SELECT json_build_object('results', {CHANGED}) FROM generate_series(1, {count}) n""")
        path.write_text(text + "\n", encoding="utf-8")
        return path

    def policy_replacements(self, changed, count=64):
        """A file of whole documents of the same reports, for PUT with the stored version; changed: as policy_updates()
        changes them, else as policy_reports() has them."""
        path = self.directory / f"policy-replacements-{changed}"
        document = "pg_temp.generated('pss', n, 'create')::jsonb #- '{metadata,namespace}' #- '{scope,namespace}'"
        if changed:
            document = f"{document} || jsonb_build_object('results', {CHANGED})"
        text = self.database.psql(f"""
            \\i {HERE}/generate.sql
            SELECT replace(jsonb_set({document}, '{{metadata,resourceVersion}}', '"{VERSION}"')::text,
                pg_temp.resource_uid(n)::text, '{NUMBERED}') FROM generate_series(1, {count}) n""")
        path.write_text(text + "\n", encoding="utf-8")
        return path

    def bodies(self, count=64):
        """A file of ephemeral reports whose names are generated and whose resource is numbered by load."""
        path = self.directory / "bodies"
        if not path.exists():
            text = self.database.psql(f"""
                \\i {HERE}/generate.sql
                SELECT regexp_replace(replace(pg_temp.generated('bare', n, 'create'), pg_temp.resource_uid(n)::text,
                        '{NUMBERED}'),
                    '"name":"[^"]*"', '"generateName":"{NUMBERED}-"')
                FROM generate_series(1, {count}) n""")
            path.write_text(text + "\n", encoding="utf-8")
        return path
