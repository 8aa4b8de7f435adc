"""
policy_report_result and cluster_policy_report_result at /metrics (issue 5): the metrics of Policy Reporter's simple
mode, from the stored counts.
"""

import collections
import threading
import urllib.request
import uuid

import psycopg2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from client import CPOLR, POLR, REPS, path_of, report, until
from client import unrated_result as result

NAMES = ("policy_report_result", "cluster_policy_report_result")
INTERVAL = ("--result-metrics-interval=1s",)


def series(proxy, api=None):
    """Returns the counts at /metrics, by metric and labels, and the metrics without labels."""
    if api is not None:
        text = api.get("/metrics").body.decode()
    else:
        with urllib.request.urlopen(f"http://127.0.0.1:{proxy.metrics_port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    counts, others = {}, {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if family.name in NAMES:
                assert family.type == "gauge" and family.documentation
                key = (family.name, frozenset(sample.labels.items()))
                assert key not in counts, "a series is there twice"
                counts[key] = sample.value
            elif not sample.labels:
                others[sample.name] = sample.value
    return counts, others


def expected(documents):
    """
    Returns the counts of these documents, as Policy Reporter's listener counts them: one for each result, with the
    category Other by default.
    """
    counts = collections.Counter()
    for document in documents:
        namespace = document["metadata"].get("namespace")
        for result in document["results"]:
            labels = {"policy": result["policy"], "status": result["result"], "severity": result.get("severity", ""),
                      "category": result.get("category") or "Other", "source": result.get("source", "")}
            if namespace:
                labels["namespace"] = namespace
            counts[NAMES[0] if namespace else NAMES[1], frozenset(labels.items())] += 1
    return dict(counts)


def another_cluster(stack, number):
    """Starts a proxy of a new cluster that shows at most so many series."""
    cluster = str(uuid.uuid4())
    role = f"proxy_{cluster}"
    stack.database.psql(f'CREATE ROLE "{role}" LOGIN', user="postgres")
    stack.database.psql(f"SELECT kube_reports.grant_proxy('{role}', '{cluster}')")
    return stack.proxy(cluster=cluster, user=role, flags=(f"--result-metrics-series={number}", *INTERVAL))


def test_counts_follow_the_documents(module_stack):
    """
    Both ports and every worker show the counts of all types; texts that need escaping come back unchanged; results that
    are gone have no series
    """
    proxy = module_stack.proxy(flags=("--result-metrics-series=1000", *INTERVAL))
    api = proxy.api()
    odd = 'quote " backslash \\ newline \n brace } comma , ümlaut'
    kept = {}

    def put(resource, name, namespace, results):
        kept[resource, namespace, name] = api.put_report(resource, name, namespace, results)

    put(POLR, "a", "one", [result("p1", "fail", severity="high", category="c"),
                           result("p1", "fail", severity="high", category="c", rule="other"),
                           result("p1", "pass"), result(odd, "warn", category=odd, source=odd)])
    put(POLR, "b", "one", [result("p1", "fail", severity="high", category="c"), result("p2", "skip", severity="info")])
    put(REPS, "a", "two", [result("p1", "error", severity="low")])
    put(CPOLR, "a", None, [result("p1", "fail", severity="critical"), result("p3", "pass")])
    until(lambda: series(proxy)[0] == expected(kept.values()), 20, "the counts of the documents")
    assert any("\n" in value for _, labels in series(proxy)[0] for _, value in labels), "nothing needed escaping"
    assert series(proxy, api)[0] == expected(kept.values())
    assert all(series(proxy)[0] == expected(kept.values()) for _ in range(16)), "workers show different readings"

    put(POLR, "b", "one", [result("p1", "pass", severity="high", category="c")])
    assert api.delete(path_of(CPOLR, None, "a")).code == 200
    del kept[CPOLR, None, "a"]
    until(lambda: series(proxy)[0] == expected(kept.values()), 20, "the counts after the changes")
    others = series(proxy)[1]
    assert others["kube_reports_result_series"] == len(expected(kept.values())) and others[
        "kube_reports_result_series_cut"] == 0


def test_other_clusters_are_not_shown(module_stack):
    proxy = another_cluster(module_stack, 1000)
    document = report("only", "three", results=[result("mine", "pass")])
    proxy.api().create(POLR, document, "three")
    until(lambda: series(proxy)[0], 20, "a count")
    assert series(proxy)[0] == expected([document])


def test_none_without_the_flag(stack):
    counts, others = series(stack.first)
    assert counts == {} and "kube_reports_result_series" not in others


def test_the_number_is_bounded(module_stack):
    """Beyond the limit, failing results are shown first, the same ones every time; a metric has the number left out"""
    results = [result(f"p{number:03}", "fail" if number % 3 == 0 else "pass") for number in range(60)]
    document = report("many", "many", results=results)
    proxy = another_cluster(module_stack, 25)
    proxy.api().create(POLR, document, "many")
    shown, others = until(lambda: next((s for s in [series(proxy)] if s[0]), None), 20, "counts")
    whole = expected([document])
    failing = {key for key in whole if ("status", "fail") in key[1]}
    assert len(shown) == 25 and failing < set(shown) and all(whole[key] == value for key, value in shown.items())
    assert (others["kube_reports_result_series"], others["kube_reports_result_series_cut"]) == (60, 35)
    read_at = others["kube_reports_result_read_timestamp_seconds"]
    again = until(lambda: next((s for s in [series(proxy)]
                                if s[1]["kube_reports_result_read_timestamp_seconds"] > read_at), None),
                  20, "another reading")
    assert again[0] == shown


def test_long_labels_cannot_exceed_the_room(module_stack):
    """The room for texts is bounded as well: series without room count as left out, and the rest can be parsed"""
    proxy = another_cluster(module_stack, 20)
    results = [result(f"{number:02}" + '"' * 500, "fail", category="\\" * 500, source="\n" * 500)
               for number in range(20)]
    proxy.api().create(POLR, report("long", "long", results=results), "long")
    shown, others = until(lambda: next((s for s in [series(proxy)] if s[0]), None), 20, "counts")
    assert 0 < len(shown) < 20 and others["kube_reports_result_series"] == 20 == len(shown) + others[
        "kube_reports_result_series_cut"]


def test_the_database_is_asked_seldom(module_stack):
    """The proxy reads the counts once in an interval, however many clients ask, and whichever worker answers"""
    proxy = module_stack.proxy(flags=("--result-metrics-series=1000", "--result-metrics-interval=1h"))
    readings, threads = [], []
    for _ in range(24):
        threads.append(threading.Thread(
                                        target=lambda: readings.append(
            series(proxy)[1].get("kube_reports_result_read_timestamp_seconds"))))
        threads[-1].start()
    for thread in threads:
        thread.join()
    until(lambda: series(proxy)[1].get("kube_reports_result_read_timestamp_seconds"), 10, "a reading")
    later = {series(proxy)[1]["kube_reports_result_read_timestamp_seconds"] for _ in range(24)}
    assert len(later) == 1 and set(readings) <= later | {None}


def test_without_the_database(own_stack):
    """
    Other metrics are shown at once while the database is away, and after three seconds when it does not answer; later
    the counts are shown again
    """
    own_stack.begin()
    proxy = own_stack.proxy(flags=("--result-metrics-series=1000", *INTERVAL))
    document = report("a", "one", results=[result("p", "fail")])
    proxy.api().create(POLR, document, "one")
    until(lambda: series(proxy)[0] == expected([document]), 20, "the counts")
    blocker = psycopg2.connect(own_stack.database.connection("postgres"))
    blocker.cursor().execute("LOCK TABLE kube_reports_internal.criterion IN ACCESS EXCLUSIVE MODE")
    stamp = series(proxy)[1]["kube_reports_result_read_timestamp_seconds"]
    until(lambda: series(proxy)[1]["kube_reports_database_errors_total"] > 0, 20, "a reading to fail")
    counts, others = series(proxy)
    assert counts == expected([document]) and others["kube_reports_result_read_timestamp_seconds"] == stamp
    blocker.close()
    own_stack.database.stop("immediate")
    until(lambda: proxy.answers("/readyz/database").code == 500, 20, "the proxy to notice")
    for _ in range(4):
        assert "kube_reports_connections" in series(proxy)[1]
    own_stack.database.start()
    proxy.wait_ready()
    until(lambda: series(proxy)[1].get("kube_reports_result_read_timestamp_seconds", 0) > stamp, 20, "another reading")
    assert series(proxy)[0] == expected([document])
