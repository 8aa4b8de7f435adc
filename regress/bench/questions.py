"""What readers ask of results: the views and functions of docs/analytics.md over a store of 30 days."""

import json
import pathlib
import re
import statistics
import time

import psycopg2

from filters import FILTERS
from fleet import register_compliance
from workbench import HERE, SCALE, note, row, scaled

FLEET_NAMESPACES = 200


class Reader:
    """A session of a reader, and how long its queries take."""

    def __init__(self, bench, role):
        self.session = psycopg2.connect(bench.database.connection(role))
        self.session.autocommit = True
        self.cursor = self.session.cursor()
        self.processor = pathlib.Path(f"/proc/{self.session.get_backend_pid()}/schedstat")

    def ask(self, sql, times=7):
        """
        (rows, first milliseconds, median of those that follow, processor time of the backend), until the client has
        all rows; what Python makes of them takes longer than some of the questions.
        """
        elapsed, used, rows = [], [], []
        for _ in range(times + 1):
            started, before = time.time(), int(self.processor.read_text().split()[0])
            self.cursor.execute(sql)
            elapsed.append((time.time() - started) * 1000)
            rows = self.cursor.fetchall()
            used.append((int(self.processor.read_text().split()[0]) - before) / 1e6)
        return rows, elapsed[0], statistics.median(elapsed[1:]), statistics.median(used[1:])


def reader_roles(bench):
    """Who sees all, and who sees 2 of the namespaces."""
    bench.database.psql("CREATE ROLE reader_of_two LOGIN", user="postgres")
    for namespace in ("ns-7", "ns-10"):
        bench.database.psql(f"SELECT kube_reports.grant_namespace('reader_of_two', '{bench.stack.cluster}', "
                            f"'{namespace}')")
    return {"all": "kube_reports_reader", "2 namespaces": "reader_of_two"}


def fleet(bench, count, scans=0):
    """Reports of 19 results in 200 namespaces, of the last 30 days as far as counts and history are concerned, and so
    many new reports of vulnerabilities; its readers by name."""
    days = 30
    step = count // days
    script = [f"\\i {HERE}/generate.sql"]
    for day in range(days):
        age = f"interval '{days - 1 - day} days'"
        script.append(f"""
            SELECT pg_temp.store('{bench.stack.cluster}', 'fleet', {day * step + 1}, {(day + 1) * step},
                {FLEET_NAMESPACES});
            UPDATE kube_reports_internal.rollup_delta SET day = (day - {age})::date;
            SELECT kube_reports_internal.fold_rollups(1000000);""")
        if days - 1 - day:
            script.append(f"""
            SELECT kube_reports.make_history(now() - {age});
            UPDATE kube_reports_internal.origin SET first_seen = first_seen - {age} WHERE id > {day * step};
            UPDATE kube_reports_internal.result SET first_seen = first_seen - {age}, since = since - {age}
                WHERE origin > {day * step};
            UPDATE kube_reports_internal.report_change SET at = at - {age} WHERE origin > {day * step};""")
    note(f"storing {days * step:,} reports")
    script.append("SELECT kube_reports.enable_text_search();")
    bench.script("\n".join(script))
    if scans:
        bench.fill("trivy", count + 1, count + scans, namespaces=FLEET_NAMESPACES)
        bench.fold()
    bench.upkeep()
    # What has aged was written twice.
    bench.vacuumed("kube_reports_internal.result")
    return {who: Reader(bench, role) for who, role in reader_roles(bench).items()}


def bench_analytics(bench):
    """analytics-*: what is answered from the counts of 150,000 reports, and the first 100 rows of every filter,
    as who sees all and as who sees 2 of 200 namespaces."""
    readers = fleet(bench, scaled(150000, 3000))
    today = "(now() AT TIME ZONE 'UTC')::date"
    for name, words, sql in (
            ("failing", "failing by policy and namespace",
             "SELECT namespace, policy, warn, fail, error FROM kube_reports.failing_by_policy_namespace"),
            ("status", "counts by status",
             "SELECT namespace, source, pass, warn, fail, error, skip FROM kube_reports.status_counts"),
            ("score", "score of the cluster, 30 days",
             f"SELECT day, score, weighted_score FROM kube_reports.compliance_score({today} - 29, {today})")):
        for who, reader in readers.items():
            rows_found, first, usual, used = reader.ask(sql, 21)
            assert rows_found
            row(f"analytics-{name}", f"{words}; {who}, {len(rows_found):,} rows", usual, None, "ms", None, "under 10",
                usual < 10, first_ms=first, processor_ms=used)
    for who, reader in readers.items():
        found = []
        for wanted in FILTERS:
            # Days, not words: the filter's times are those of now.
            sql = "SELECT * FROM kube_reports.search_results('%s', 100)" % json.dumps(wanted).replace(
                '"yesterday"', '"%s"' % time.strftime("%Y-%m-%dT00:00:00Z", time.gmtime(time.time() - 86400)))
            page, first, usual, used = reader.ask(sql)
            found.append({"filter": json.dumps(wanted), "rows": len(page), "first_ms": first, "ms": usual,
                          "processor_ms": used})
            if len(page) == 100:
                # Far on: after a place that is later than most.
                place = '[9000000000000000000, "p", 2147483647, "", 0, 0, 1]'
                page, first, usual, used = reader.ask(sql.replace(", 100)", f", 100, '{place}')"), 3)
                found.append({"filter": json.dumps(wanted) + ", deep", "rows": len(page), "first_ms": first,
                              "ms": usual, "processor_ms": used})
        worst = max(found, key=lambda one: one["ms"])
        row("analytics-filters", f"{len(found)} pages; {who}; slowest {worst['filter'][:30]}", worst["ms"],
            statistics.median(one["ms"] for one in found), "ms", None, "each under 50", worst["ms"] < 50, filters=found)
        for one in found:
            if one["ms"] >= 50:
                note(f"{who}: {one['filter']}: {one['ms']:.1f} ms ({one['processor_ms']:.1f} of the processor), first "
                     f"{one['first_ms']:.1f} ms, {one['rows']} rows")


def bench_score(bench):
    """score: the first 100 reports with a high score among five million results."""
    results = scaled(5000000, 50000)
    count = int(results / 30.5)
    bench.fill("trivy", 1, count, namespaces=FLEET_NAMESPACES)
    bench.fold()
    bench.upkeep()
    stored = int(bench.database.psql("SELECT count(*) FROM kube_reports_internal.result"))
    for who, role in reader_roles(bench).items():
        for score in (8.0, 9.9):
            page, first, usual, used = Reader(bench, role).ask(
                f"SELECT * FROM kube_reports.reports_with_score({score})", 21)
            assert len(page) == 100 or SCALE < 1
            row("score", f"at least {score} among {stored:,} results; {who}", usual, None, "ms", None, "under 50",
                usual < 50, first_ms=first, processor_ms=used)


# What the queries of docs/analytics.md name, and what is there of the kind.
QUESTION_NAMES = {"'Deployment', 'shop', 'catalog'": "'Pod', 'ns-10', 'pod-410'", "'local'": "'test'",
                  '"local"': '"test"', "'sample-staging'": "'other'", '"shop"': '"ns-10"', '"payments"': '"ns-7"',
                  "'disallow-privilege-escalation'": "'disallow-capabilities-strict'",
                  "'autogen-privilege-escalation'": "'require-drop-all'",
                  "'require-run-as-nonroot'": "'restrict-seccomp'",
                  "CVE-2021-44228": "CVE-2018-1003", "interval '5 days'": "interval '10 days'"}


# The second cluster of those that they compare; it has reports of its own.
OTHER_CLUSTER = "00000000-0000-4000-8000-00000000000b"


def looked_at(plan):
    """What a plan read of tables: {index or table: rows}"""
    found = {}
    for node in [plan, *plan.get("Plans", [])]:
        if node is not plan:
            for name, rows_read in looked_at(node).items():
                found[name] = found.get(name, 0) + rows_read
    name = plan.get("Index Name") or plan.get("Relation Name")
    if "Scan" in plan["Node Type"] and name and plan["Actual Loops"]:
        name += " (whole)" if plan["Node Type"].endswith("Seq Scan") else ""
        rows_read = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
        found[name] = found.get(name, 0) + round(rows_read * plan["Actual Loops"])
    return found


def walked(bench, role, sql):
    """What is walked for an answer and how far, in the query and within functions: {index or table: rows}"""
    session = psycopg2.connect(bench.database.connection("postgres"))
    session.autocommit = True
    cursor = session.cursor()
    cursor.execute("LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_analyze = on;"
                   "SET auto_explain.log_timing = off; SET auto_explain.log_nested_statements = on;"
                   "SET auto_explain.log_format = json; SET client_min_messages = log; SET ROLE " + role)
    session.notices.clear()
    cursor.execute(sql)
    found = {}
    for notice in session.notices:
        if "plan:" in notice:
            for name, rows_read in looked_at(json.loads(notice.split("plan:", 1)[1])["Plan"]).items():
                found[name] = found.get(name, 0) + rows_read
    session.close()
    return found


def short_plan(bench, role, sql):
    """Its plan in short: the most first."""
    most = sorted(walked(bench, role, sql).items(), key=lambda one: -one[1])[:3]
    return ", ".join(f"{name} {rows_read:,}" for name, rows_read in most if rows_read > 20) or "a few rows"


def lively(bench):
    """What a fleet has besides:
    results that change and change back, a cluster where what fails elsewhere passes, checks with remediations."""
    changed, checks = scaled(3000, 60), scaled(600, 30)
    # Hours ago; every second of them changes back, every tenth goes to and fro.
    for hours, wanted in ((120, 1), (60, 2), (16, 10), (12, 10), (8, 10), (4, 10)):
        bench.script(f"""
            SELECT clock_timestamp() AS begun \\gset
            UPDATE kube_reports.object o
                SET body = jsonb_set(o.body::jsonb, '{{results,0,result}}', CASE o.body::jsonb#>>'{{results,0,result}}'
                    WHEN 'fail' THEN '"pass"' ELSE '"fail"' END::jsonb)::kube_reports.report
                FROM (SELECT g.*, row_number() OVER (ORDER BY g.id) AS number FROM kube_reports_internal.origin g
                    ORDER BY g.id LIMIT {changed}) g
                WHERE (o.cluster_id, o.resource_type, o.namespace, o.name)
                    = (g.cluster_id, g.resource_type, g.namespace, g.name) AND g.number % {wanted} = 0;
            SELECT kube_reports.make_history(now() - interval '{hours} hours');
            UPDATE kube_reports_internal.result r SET since = since - interval '{hours} hours' WHERE since >= :'begun';
            UPDATE kube_reports_internal.report_change c SET at = at - interval '{hours} hours'
                WHERE at >= :'begun';""")
    bench.script(f"""
        \\i {HERE}/generate.sql
        SELECT kube_reports.register_cluster('{OTHER_CLUSTER}', 'other');
        INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
            SELECT c.id, t.id, 'ns-1', d.document#>>'{{metadata,name}}', (d.document->'metadata')::kube_reports.report,
                (d.document - '{{apiVersion,kind,metadata}}'::text[])::kube_reports.report
            FROM generate_series(1, {changed}) n,
                LATERAL (SELECT pg_temp.generated_pss(n, 'ns-1')::jsonb OFFSET 0) d(document),
                kube_reports.cluster c, kube_reports.resource_type t
            WHERE c.uid = '{OTHER_CLUSTER}' AND t."group" = 'wgpolicyk8s.io' AND t.kind = 'PolicyReport'
                AND d.document#>>'{{summary,fail}}' = '0'""")
    register_compliance(bench.database)
    bench.script(f"""
        INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
            SELECT c.id, t.id, 'openshift-compliance', d.name,
                (d.metadata || jsonb_build_object('namespace', 'openshift-compliance', 'name', d.name))
                    ::kube_reports.report, d.body::kube_reports.report
            FROM generate_series(1, {checks}) n, LATERAL (VALUES
                    ('compliancecheckresults', 'cis-check-' || n,
                        '{{"labels": {{"compliance.openshift.io/scan-name": "cis",
                            "compliance.openshift.io/suite": "suite",
                            "compliance.openshift.io/automated-remediation": ""}}}}'::jsonb,
                        jsonb_build_object('id', 'xccdf_' || n, 'severity', 'medium',
                            'status', CASE WHEN n % 3 = 0 THEN 'PASS' ELSE 'FAIL' END)),
                    ('complianceremediations', 'cis-check-' || n,
                        jsonb_build_object('ownerReferences', jsonb_build_array(jsonb_build_object(
                            'apiVersion', 'compliance.openshift.io/v1alpha1', 'kind', 'ComplianceCheckResult',
                            'name', 'cis-check-' || n, 'uid', n::text))),
                        jsonb_build_object('spec', '{{"apply": true}}'::jsonb, 'status', jsonb_build_object(
                            'applicationState', CASE WHEN n % 2 = 0 THEN 'Applied' ELSE 'Pending' END)))
                ) d(plural, name, metadata, body), kube_reports.cluster c, kube_reports.resource_type t
            WHERE c.uid = '{bench.stack.cluster}' AND t."group" = 'compliance.openshift.io' AND t.plural = d.plural""")
    bench.fold()
    bench.upkeep()


def bench_questions(bench):
    """questions: the queries of docs/analytics.md, as a table: milliseconds of the processor, and what was read."""
    page = (HERE.parents[1] / "docs" / "analytics.md").read_text(encoding="utf-8")
    readers = fleet(bench, scaled(150000, 3000))
    lively(bench)
    bench.database.psql("INSERT INTO kube_reports.framework_control (framework, control, policy) "
                        "VALUES ('NIST SP 800-53', 'AC-2', 'restrict-seccomp')")
    table = ["| question | sees all: ms | sees 2 of 200 namespaces: ms | rows | plan: rows read, by index or table |",
             "| --- | --- | --- | --- | --- |"]
    slowest, unanswered = 0, []
    for number, text in re.findall(r"^### (\d+)\. (.*?)(?=^### |\Z)", page, re.M | re.S):
        for sql in re.findall(r"```sql\n(.*?);\n```", text, re.S):
            for name, there in QUESTION_NAMES.items():
                sql = sql.replace(name, there)
            times = {}
            for who, reader in readers.items():
                # What the machine does otherwise is no part of a page of documentation.
                found, _, _, times[who] = reader.ask(sql, 5)
                if who == "all":
                    count = len(found)
            slowest = max(slowest, *times.values())
            if count == 0:
                unanswered.append(sql)
            table.append(f"| {number} | {times['all']:.1f} | {times['2 namespaces']:.1f} | {count:,} | "
                         f"{short_plan(bench, 'kube_reports_reader', sql)} |")
    row("questions", "docs/analytics.md; the slowest, of the processor", slowest, None, "ms", None,
        "each has an answer", not unanswered, table=table)
    print("\n".join(table), flush=True)
    for sql in unanswered:
        note(f"nothing answers {sql}")
