"""HL-05: the metrics at /metrics, with the names that Kubernetes uses, and the page that describes them."""

import os
import pathlib
import re
import signal
import ssl
import subprocess
import threading
import time
import urllib.request

import psycopg2
import pytest

import metric_names
from client import POLR, path_of, report, until
from conftest import VARIANT

OPERATIONS = pathlib.Path(__file__).parents[2] / "docs" / "operations.md"


def scrape(proxy):
    with urllib.request.urlopen(f"http://127.0.0.1:{proxy.metrics_port}/metrics", timeout=10) as answer:
        return answer.read().decode()


def families(text):
    """Returns {name: (type, help)} of every metric."""
    heads = dict(re.findall(r"^# HELP (\S+) (.+)$", text, re.M))
    types = re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M)
    assert len(types) == len({name for name, _ in types}), "a metric has two heads"
    assert set(heads) == {name for name, _ in types}
    return {name: (kind, heads[name]) for name, kind in types}


@pytest.fixture
def watched(own_stack):
    own_stack.begin()
    return own_stack.proxy()


def test_names(watched, ns):
    """Each metric has a type and help; docs/operations.md describes only existing metrics, and so do alerts"""
    watched.api().create(POLR, report("r1"), ns)
    until(lambda: watched.series("kube_reports_pending_oldest_seconds") is not None and
          watched.series("kube_reports_upkeep_last_success_timestamp_seconds") is not None, 20, "upkeep to tell")
    text = scrape(watched)
    known = families(text)
    for name, (kind, said) in known.items():
        assert re.fullmatch(r"[A-Z].*\.", said), f"{name}: {said}"
        assert (kind == "counter") == name.endswith("_total"), name
    names = set(known) | {name + part for name, (kind, _) in known.items() if kind == "histogram"
                          for part in ("_bucket", "_sum", "_count")}
    seen = [re.match(r"[a-z_:]+", line).group() for line in text.splitlines() if not line.startswith("#")]
    assert set(seen) <= names
    assert len(text.splitlines()) == len(set(text.splitlines())), "a series is there twice"

    page = OPERATIONS.read_text(encoding="utf-8")
    section = page[page.index("# Metrics\n"):page.index("# Alerts\n")]
    described = set(re.findall(r"^\| `([a-z_]+)", section, re.M))
    assert len(described) > 10 and described <= names, described - names
    optional = {"kube_reports_webhook_lag_seconds"}
    for alert, used in metric_names.alerts("proxy").items():
        assert used and used <= names | optional, (alert, used - names)


def test_durations(own_stack, watched, ns):
    """Durations by verb, resource and class of code; requests in work and database calls are counted"""
    api = watched.api()
    api.create(POLR, report("r1"), ns)
    assert api.get(path_of(POLR, ns, "r1")).code == 200 and api.get(path_of(POLR, ns, "none")).code == 404
    of = {"group": "wgpolicyk8s.io", "version": "v1alpha2", "resource": "policyreports"}

    def answered(verb, code):
        return watched.series("apiserver_request_duration_seconds_count", verb=verb, code=code, **of)
    until(lambda: [answered("POST", "2xx"), answered("GET", "2xx"), answered("GET", "4xx")] == [1, 1, 1], 10,
          "the counts")
    assert answered("GET", "5xx") is None
    assert watched.series("apiserver_request_total", verb="GET", code="404", **of) == 1
    write, get = ("commit", "read_object") if VARIANT == "sql" else ("write", "get")
    assert watched.series("kube_reports_database_call_duration_seconds_count", call=write) == 1
    assert watched.series("kube_reports_database_call_duration_seconds_count", call=get) >= 2
    assert watched.series("kube_reports_database_wait_seconds_count") >= 3

    holder = psycopg2.connect(own_stack.database.connection("postgres"))
    holder.cursor().execute("LOCK TABLE kube_reports.object IN ACCESS EXCLUSIVE MODE")
    threads = [threading.Thread(target=lambda: watched.api().get(path_of(POLR, ns, "r1"))),
               threading.Thread(target=lambda: watched.api().post(path_of(POLR, ns), report("r2")))]
    for thread in threads:
        thread.start()
    under_way = "apiserver_current_inflight_requests"
    until(lambda: [watched.series(under_way, request_kind=kind) for kind in ("readOnly", "mutating")] == [1, 1], 2.5,
          "both to be under way")
    holder.rollback()
    for thread in threads:
        thread.join()
    until(lambda: watched.series(under_way) == 0, 10, "their ends")


def test_watches(watched, ns):
    """Open watches are counted by resource; the count of a killed worker disappears, its processor time does not"""
    api = watched.api()
    other = "/apis/openreports.io/v1alpha1/reports"
    open_watches = [api.watch(path_of(POLR, ns)) for _ in range(8)] + [api.watch(other)]

    def count(**labels):
        return watched.series("apiserver_longrunning_requests", verb="WATCH", **labels)
    until(lambda: count(group="wgpolicyk8s.io", version="v1alpha2", resource="policyreports") == 8 and
          count(group="openreports.io", resource="reports") == 1, 10, "the watches")
    assert watched.series("apiserver_current_inflight_requests") == 0
    until(lambda: watched.metric("process_cpu_seconds_total") > 0, 10, "processor time")
    before = watched.metric("process_cpu_seconds_total")
    for pid in watched.workers():
        os.kill(pid, signal.SIGKILL)
    until(lambda: watched.metric("kube_reports_worker_restarts_total") == 2, 20, "other workers")
    watched.wait_ready()
    assert count() == 0 and watched.metric("process_cpu_seconds_total") >= before
    for watch in open_watches:
        watch.close()


def test_certificate(watched):
    """The metric of the serving certificate is the time when it expires"""
    def expected():
        text = subprocess.run(["openssl", "x509", "-noout", "-enddate", "-in", f"{watched.pki}/serving.crt"],
                              capture_output=True, text=True, check=True).stdout
        return ssl.cert_time_to_seconds(text.strip().split("=", 1)[1])
    name = "kube_reports_serving_certificate_expiration_timestamp_seconds"
    until(lambda: watched.metric(name) == expected(), 10, "the time")
    assert expected() > time.time()


def test_upkeep_without_a_success(own_stack):
    """A task that has never succeeded is there: an alert about the time of its last success sees it"""
    own_stack.begin()
    own_stack.database.stop()
    proxy = own_stack.proxy(ready=False)

    def succeeded():
        try:
            return proxy.series("kube_reports_upkeep_last_success_timestamp_seconds", task="maintenance")
        except OSError:
            return None
    until(lambda: succeeded() == 0, 30, "an attempt of maintenance")
    own_stack.database.start()
    until(lambda: succeeded() > time.time() - 60, 30, "a step of maintenance")


def test_pending(own_stack, watched):
    """The metrics say what waits for upkeep, and for how long: here merges"""
    now = time.time()
    until(lambda:
          (watched.series("kube_reports_upkeep_last_success_timestamp_seconds", task="maintenance") or 0) > now - 60,
          20, "a step of maintenance")
    assert until(lambda: watched.series("kube_reports_pending", what="merges") == 0, 20, "nothing to wait") and \
        watched.series("kube_reports_pending_oldest_seconds", what="results") == 0
    own_stack.database.psql("""
        INSERT INTO kube_reports_internal.aggregation_queue (cluster_id, queued_at, stage, namespace, key)
        SELECT c.id, clock_timestamp() - interval '1 hour', 'r', 'ns', 'k' || n
            FROM kube_reports.cluster c, generate_series(1, 3) n""", user="postgres")
    until(lambda: watched.series("kube_reports_pending", what="merges") == 3, 30, "three merges to wait")
    assert 3600 <= watched.series("kube_reports_pending_oldest_seconds", what="merges") < 3700
