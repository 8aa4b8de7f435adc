"""What each index of results costs INSERTs of its rows, and what it saves the question that needs it."""

import contextlib
import pathlib
import statistics

import psycopg2

import floors
from questions import fleet, walked
from workbench import note, row, scaled

TABLE = "kube_reports_internal.result"
ALL, TWO = "kube_reports_reader", "reader_of_two"
SEARCH = "SELECT * FROM kube_reports.search_results('{}')"

# The question that needs each index: {index: (words, who asks, query)}.  Most indexes serve other questions, too.
QUESTIONS = {
    "result_pkey": ("the results of one report", ALL, SEARCH.format('{"report": "scan-210"}')),
    "result_criterion": ("what fails a policy", ALL, SEARCH.format('{"policy": "restrict-seccomp", "status": "fail"}')),
    "result_subject": ("the results of one resource", ALL,
                       "SELECT * FROM kube_reports.results_of_resource('$CLUSTER', 'Pod', 'ns-10', 'pod-410')"),
    "result_detail": ("the results of one exception", ALL, SEARCH.format('{"exception": "exception-7"}')),
    "result_open": ("failures that are older than four weeks", ALL,
                    "SELECT namespace, report, policy, since FROM kube_reports.open_failures"
                    " WHERE since < now() - interval '28 days'"),
    "result_scored": ("results with a score of 8 or more", ALL, SEARCH.format('{"score_from": 8}')),
    "result_score": ("the ten worst vulnerabilities", ALL, "SELECT * FROM kube_reports.worst_vulnerabilities(10)"),
    "result_report_score": ("reports with a score of 8 or more", ALL,
                            "SELECT * FROM kube_reports.reports_with_score(8.0)"),
    "result_namespace_score": ("the same in two of 200 namespaces", TWO,
                               "SELECT * FROM kube_reports.reports_with_score(8.0)"),
    "result_time": ("the state 29 days ago", ALL, "SELECT status, count(*) FROM kube_reports.status_at("
                                                  "now() - interval '29 days') GROUP BY status"),
}


def definitions(bench):
    """{index: its definition} of the catalog"""
    lines = bench.database.psql("SELECT c.relname, pg_get_indexdef(c.oid) FROM pg_index i JOIN pg_class c"
                                f" ON c.oid = i.indexrelid WHERE i.indrelid = '{TABLE}'::regclass ORDER BY c.oid")
    return dict(line.split("|", 1) for line in lines.splitlines())


def removal(bench, index):
    """The statement that drops an index, or the constraint that has it."""
    constraint = bench.database.psql(
        f"SELECT c.conname FROM pg_constraint c WHERE c.conindid = 'kube_reports_internal.{index}'::regclass")
    return (f"ALTER TABLE {TABLE} DROP CONSTRAINT {constraint}" if constraint
            else f"DROP INDEX kube_reports_internal.{index}")


def asked(bench, role, query, without=""):
    """(median of the processor time in milliseconds, the answer).  without: a statement that drops an index; it is
    rolled back."""
    with contextlib.closing(psycopg2.connect(bench.database.connection("postgres"))) as session:
        cursor, used = session.cursor(), []
        processor = pathlib.Path(f"/proc/{session.get_backend_pid()}/schedstat")
        cursor.execute(f"SET jit = off; {without}; SET LOCAL ROLE {role}")
        # What takes seconds is asked once.
        while len(used) < 6 and (len(used) < 1 or sum(used) < 2000):
            before = int(processor.read_text(encoding="ascii").split()[0])
            cursor.execute(query)
            answer = cursor.fetchall()
            used.append((int(processor.read_text(encoding="ascii").split()[0]) - before) / 1e6)
        session.rollback()
    return statistics.median(used[1:] or used), sorted(map(repr, answer))


def inserted(bench, definition):
    """INSERTs of the rows of results into a table with one index, or with none: {"ms", "kB": for each report, "MB": of
    the index}"""
    more = "ALTER TABLE plain_result DROP CONSTRAINT plain_result_pkey;" + (
        f"CREATE {'UNIQUE ' if ' UNIQUE ' in definition else ''}INDEX ON plain_result"
        f"{definition.partition(f' ON {TABLE}')[2]};" if definition else "")
    runs = [floors.measure(bench, "results", 32, more) for _ in range(3)]
    return {"ms": min(run["ms"] for run in runs), "kB": runs[-1]["kB"],
            "MB": int(bench.database.psql("SELECT pg_indexes_size('plain_result')")) / 1e6}


def bench_indexes(bench):
    """indexes: each index of results, alone, against none; and a question with all indexes against one without it."""
    bench.proxy.stop()
    count = scaled(40000, 600)
    # Two fifths of all results have a score.
    fleet(bench, count, count // 4)
    known = definitions(bench)
    row("indexes", "of results with a question, and all", len(known.keys() & QUESTIONS.keys()), len(known), "", None,
        "each, and no other", known.keys() == QUESTIONS.keys())
    for name in known.keys() ^ QUESTIONS.keys():
        note(f"{name} " + ("has no question" if name in known else "is no index, but has a question"))
    bench.log_no_pages()
    floors.copy_rows(bench, ["result"])
    bare = inserted(bench, None)
    reports = int(bench.database.psql("SELECT count(*) FROM kube_reports.object"))
    table = ["| index | MB | WAL | processor time of INSERTs | question | with it | without it |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    for name, (words, role, query) in QUESTIONS.items():
        if name not in known:
            continue
        cost, query = inserted(bench, known[name]), query.replace("$CLUSTER", bench.stack.cluster)
        wal, used, size = 1000 * (cost["kB"] - bare["kB"]), 1000 * (cost["ms"] - bare["ms"]), cost["MB"]
        row(f"{name}-cost", f"{reports:,} reports: INSERTs take {wal:.0f} bytes, {used:.0f} us each", size, None, "MB",
            None, "reported", None, wal_bytes=wal, microseconds=used)
        taken, answer = asked(bench, role, query)
        without, same = asked(bench, role, query, removal(bench, name))
        assert answer == same, f"{name}: {answer[:3]} and {same[:3]}"
        read = walked(bench, role, query).get(name)
        row(name, f"{words}, with it and without it", taken, without, "ms", without / taken, "is read, saves a third",
            read is not None and without >= 1.5 * taken, read=read, rows=len(answer))
        table.append(f"| `{name}` | {size:.2f} | {wal:.0f} bytes | {used:.0f} µs | {words} | {taken:.1f} ms | "
                     f"{without:.1f} ms |")
    print("\n".join(table), flush=True)
