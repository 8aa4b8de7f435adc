"""What set-wise INSERTs of the same rows cost: a write by anybody cannot cost less.

The rows of the reports that a benchmark has created are copied into plain tables, a batch for each transaction, by one
session that has nothing else to do.  There is no check, no lock, no JSON and no client.
"""

import time

import psycopg2

from scale import processor_ms

# Which rows are those of a report: r is its row of from_report.
SOURCES = {
    "object": ("kube_reports.object",
               "JOIN kube_reports.object x USING (cluster_id, resource_type, namespace, name)"),
    "change": ("kube_reports_internal.change",
               "JOIN kube_reports_internal.change x USING (lane, version)"),
    "origin": ("kube_reports_internal.origin",
               "JOIN kube_reports_internal.origin x ON x.id = r.origin"),
    "subject": ("kube_reports_internal.subject",
                "JOIN (SELECT s.subject, min(s.origin) AS origin FROM kube_reports_internal.result s GROUP BY 1) s"
                " USING (origin) JOIN kube_reports_internal.subject x ON x.id = s.subject"),
    "result": ("kube_reports_internal.result",
               "JOIN kube_reports_internal.result x USING (origin)"),
    "history": ("kube_reports_internal.report_change",
                "JOIN kube_reports_internal.report_change x USING (origin, version)"),
    "events": ("kube_reports_internal.result_change",
               "JOIN kube_reports_internal.result_change x USING (origin, version)"),
}
WITHOUT_INDEXES = "INCLUDING DEFAULTS INCLUDING GENERATED INCLUDING STORAGE INCLUDING COMPRESSION"
KEYS = {"object": "cluster_id, resource_type, namespace, name", "change": "lane, version", "origin": "id",
        "subject": "id", "result": "origin, key"}

# How the tables are laid out: (their names, those that have all indexes of their originals)
LAYOUTS = {
    # What the bar of creates is measured by: history has a row for each event there, as it had when the bar was set.
    "events": (("object", "result", "events"), ("object", "result")),
    # All rows of a report, with the same indexes.
    "same": (("object", "change", "origin", "subject", "history", "result"),) * 2,
    # The same rows with primary keys alone, and with one more index of results.
    "keys": (("object", "change", "origin", "subject", "history", "result"), ()),
    "one": (("object", "change", "origin", "subject", "history", "result"), ()),
    # The results alone.
    "results": (("result",), ()),
}
MORE = {
    "events": """
CREATE INDEX ON plain_events (cluster_id, namespace, at);
CREATE INDEX ON plain_events (cluster_id, version);
CREATE INDEX ON plain_events (origin);
CREATE INDEX ON plain_events (subject);
CREATE INDEX ON plain_events USING brin (at) WITH (pages_per_range = 32);
""",
    "one": "CREATE INDEX ON plain_result (criterion, status, cluster_id, namespace);",
}


def copy_rows(bench, names=tuple(SOURCES)):
    """Keeps the rows of all stored reports, to be inserted again; names: of which tables."""
    parts = ["DROP TABLE IF EXISTS from_report", """
        CREATE TABLE from_report AS
            SELECT g.id AS origin, l.id AS lane, o.version, o.cluster_id, o.resource_type, o.namespace, o.name,
                row_number() OVER (ORDER BY o.version) AS number
            FROM kube_reports.object o
                JOIN kube_reports_internal.origin g USING (cluster_id, resource_type, namespace, name)
                JOIN kube_reports_internal.lane l USING (cluster_id, resource_type)"""]
    for name in names:
        parts += [f"DROP TABLE IF EXISTS from_{name}",
                  f"CREATE TABLE from_{name} AS SELECT r.number, x.* FROM from_report r {SOURCES[name][1]}"
                  " ORDER BY r.number",
                  f"CREATE INDEX ON from_{name} (number)", f"VACUUM ANALYZE from_{name}"]
    bench.script(";\n".join(parts))


def columns_of(bench, table):
    """The columns that an INSERT gives a value, separated by commas."""
    return bench.database.psql(
        "SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute"
        f" WHERE attrelid = '{table}'::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''")


def bytes_of_plain(bench, tables):
    """What the rows of these tables take in plain tables that have just been filled, with primary keys alone."""
    sizes = []
    for table in tables:
        key = bench.database.psql("SELECT 'ALTER TABLE plain ADD ' || pg_get_constraintdef(c.oid) FROM pg_constraint c"
                                  f" WHERE c.conrelid = '{table}'::regclass AND c.contype = 'p'")
        columns = columns_of(bench, table)
        bench.script(f"DROP TABLE IF EXISTS plain; CREATE TABLE plain (LIKE {table} {WITHOUT_INDEXES});"
                     f" INSERT INTO plain ({columns}) SELECT {columns} FROM {table}; {key}")
        sizes.append(int(bench.database.psql("SELECT pg_total_relation_size('plain')")))
    bench.script("DROP TABLE plain")
    return sum(sizes)


def lay_out(bench, layout, more=""):
    """Makes the plain tables, and a procedure that fills them in batches; more: statements about these tables."""
    tables, indexed = LAYOUTS[layout]
    script, inserts = [], []
    for name in tables:
        source = SOURCES[name][0]
        if name == "history":
            # The parent has no index: those of a month are meant.
            source = bench.database.psql("SELECT DISTINCT tableoid::regclass FROM kube_reports_internal.report_change")
        script.append(f"DROP TABLE IF EXISTS plain_{name};")
        if name == "events":
            script.append(f"CREATE TABLE plain_{name} AS SELECT * FROM {source} LIMIT 0;")
        else:
            script.append(f"CREATE TABLE plain_{name} (LIKE {source} "
                          f"{'INCLUDING ALL' if name in indexed else WITHOUT_INDEXES});")
            if name not in indexed and name in KEYS:
                script.append(f"ALTER TABLE plain_{name} ADD PRIMARY KEY ({KEYS[name]});")
        columns = columns_of(bench, source)
        inserts.append(f"INSERT INTO plain_{name} ({columns}) SELECT {columns} FROM from_{name}"
                       " WHERE number >= first AND number < first + size")
    script.append(MORE.get(layout, "") + more)
    parts = ", ".join(f"part_{place} AS ({insert})" for place, insert in enumerate(inserts[:-1]))
    script.append(f"""
CREATE OR REPLACE PROCEDURE plain_inserts(size integer) LANGUAGE plpgsql AS $$
DECLARE
    first bigint;
BEGIN
    FOR first IN SELECT generate_series(1, (SELECT max(number) FROM from_report), size) LOOP
        {'WITH ' if parts else ''}{parts} {inserts[-1]};
        COMMIT;
    END LOOP;
END $$;""")
    bench.script("\n".join(script))


def measure(bench, layout, size, more=""):
    """Inserts all rows that copy_rows() kept, so many reports a transaction: {"rate": reports a second, "ms": processor
    time of the backend for each, "kB": of log for each}"""
    lay_out(bench, layout, more)
    session = psycopg2.connect(bench.database.connection())
    session.autocommit = True
    cursor, pid = session.cursor(), [session.get_backend_pid()]

    def log_bytes():
        cursor.execute("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')")
        return int(cursor.fetchone()[0])
    try:
        log, used, begun = log_bytes(), processor_ms(pid), time.monotonic()
        cursor.execute("CALL plain_inserts(%s)", (size,))
        elapsed, used = time.monotonic() - begun, processor_ms(pid) - used
        log = log_bytes() - log
        cursor.execute("SELECT count(*) FROM from_report")
        count = cursor.fetchone()[0]
    finally:
        session.close()
    return {"rate": count / elapsed, "ms": used / count, "kB": log / count / 1e3}
