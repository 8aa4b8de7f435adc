"""Metrics that pages, dashboards and alerts name are those that the programs show, with all of their options."""

import contextlib
import pathlib
import re
import shutil
import sys
import urllib.request
import uuid

import pytest
from prometheus_client.parser import text_string_to_metric_families

import metric_names
from client import CPOLR, POLR, path_of, report, until
from client import unrated_result as result
from conftest import TOP, Stack, free_port
from evidence import Evidence, sender_certificates
from grpc_port import GrpcPort
from test_forward_sender import Sender, give_to_servers

sys.path.append(str(TOP / "regress" / "chart"))
from alert_cases import cases  # noqa: E402

PAGES = (TOP / "README.md", *sorted((TOP / "docs").rglob("*.md")),
         *sorted(path for path in (TOP / "helm" / "kube-reports").rglob("*") if path.is_file()))
NAME = re.compile(r"(?<![\w./-])(?:(?:kube_reports|apiserver|process)_[a-z_]+|(?:cluster_)?policy_report_result)"
                  r"(?![\w.(*-])")
# Roles and the schema, whose names begin with the same word.
OTHER = {f"kube_reports_{word}" for word in ("admin", "internal", "owner", "proxy", "reader")}
# The changelog names them, because they are no more.
REMOVED = {"kube_reports_watchers", "kube_reports_database_calls_total"}
# Labels whose values are few: a program shows all of its series from its start, unless an event makes them.
FEW = {"code", "le", "operation", "reason", "state", "task", "what"}


class Shown:
    """What the programs show: for each metric its program, type, help text and labels; and all series."""

    def __init__(self):
        self.programs, self.kinds, self.helps, self.labels, self.series = {}, {}, {}, {}, []
        self.without_upkeep = ""

    def add(self, program, text):
        """Adds a text of /metrics: a metric is one program's, and has one type and one help text."""
        for table, pattern in ((self.kinds, r"^# TYPE (\S+) (\S+)$"), (self.helps, r"^# HELP (\S+) (.*)$")):
            for name, said in re.findall(pattern, text, re.M):
                assert table.setdefault(name, said) == said, name
                assert self.programs.setdefault(name, program) == program, name
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                self.series.append((sample.name, sample.labels))
                self.labels.setdefault(self.metric(sample.name), set()).add(frozenset(sample.labels) - {"le"})

    def metric(self, name):
        """Returns the metric that a series of this name is of."""
        whole = re.sub("_(bucket|sum|count)$", "", name)
        return whole if self.kinds.get(whole) == "histogram" else name

    def has(self, series):
        """Returns whether a program shows a series of alert_cases.yaml; values of labels that have many may differ."""
        def few(labels):
            return {name: value for name, value in labels.items() if name in FEW}
        return any(name == series.name and labels.keys() == series.labels.keys() and few(labels) == few(series.labels)
                   for name, labels in self.series)


def text_with(port, *series):
    """Returns the text of /metrics as soon as it has these series."""
    texts = [""]

    def there():
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics",
                                                                  timeout=10) as answer:
            texts[0] = answer.read().decode()
        return all(f"\n{name}" in texts[0] for name in series)
    until(there, 60, f"{', '.join(series)} at /metrics")
    return texts[0]


@pytest.fixture(scope="module")
def shown():
    """What all programs show, with all options that add metrics; and a proxy without upkeep."""
    made = Shown()
    with contextlib.ExitStack() as ended:
        stack = Stack()
        ended.callback(stack.end)
        database = stack.begin().database
        Stack.installed = f"{database.directory}/dest"
        sender_certificates(stack.pki)
        database.psql("SELECT kube_reports.grant_ingest('kube_reports_proxy')")
        database.psql(f"SELECT kube_reports.add_webhook('chat', '{stack.cluster}', 'https://127.0.0.1:9/')")

        bare = stack.proxy(flags=("--workers=1", "--upkeep=false"))
        made.without_upkeep = text_with(bare.metrics_port, "kube_reports_build_info")
        made.add("proxy", made.without_upkeep)
        forward_port = free_port()
        proxy = stack.proxy(flags=("--workers=1", "--result-metrics-series=100", "--result-metrics-interval=1s",
                                   f"--forward-port={forward_port}",
                                   f"--forward-client-ca-file={stack.pki}/senders/ca.crt",
                                   f"--read-database={database.connection('kube_reports_proxy')}"))
        api = proxy.api()
        api.create(POLR, report("r", results=[result("p", "fail")]), "shop")
        api.create(CPOLR, report("r", results=[result("p", "fail")], resource=CPOLR))
        assert api.get(path_of(POLR, "shop", "r")).code == 200 and api.get(path_of(POLR, "shop", "none")).code == 404
        assert api.get(path_of(POLR, "shop")).code == 200
        ended.callback(api.watch(path_of(POLR, "shop")).close)
        made.add("proxy", text_with(
            proxy.metrics_port, "kube_reports_webhook_lag_seconds{", "kube_reports_webhook_events_total{",
            "kube_reports_pending{", "kube_reports_result_series ", "policy_report_result{",
            "cluster_policy_report_result{", "apiserver_longrunning_requests{", "apiserver_storage_objects{",
            *(f'kube_reports_upkeep_last_success_timestamp_seconds{{task="{task}"}}'
              for task in ("maintenance", "merging", "catching_up", "counting", "measuring"))))

        port = GrpcPort(stack)
        ended.callback(port.stop)
        made.add("grpc", text_with(port.metrics_port, "kube_reports_grpc_database_up 1"))
        evidence = Evidence(stack)
        ended.callback(evidence.stop)
        made.add("evidence", text_with(evidence.metrics_port, "kube_reports_evidence_database_up 1"))

        place = pathlib.Path(f"/tmp/kube-reports-metrics-{uuid.uuid4().hex[:12]}")
        place.mkdir(mode=0o755)
        ended.callback(shutil.rmtree, place, ignore_errors=True)
        give_to_servers(place)
        token = database.psql(f"SELECT kube_reports.add_sender('{uuid.uuid4()}', 'east')")
        sender = Sender(proxy, forward_port, stack.pki, token, place).start()
        ended.callback(sender.kill)
        made.add("sender", text_with(sender.metrics_port, "kube_reports_forward_watching 2"))
    return made


def test_named(shown):
    """Each metric that a page, the chart, an alert or a dashboard names is shown by a program."""
    names = set(shown.kinds) | {f"{name}_{part}" for name, kind in shown.kinds.items() if kind == "histogram"
                                for part in ("bucket", "sum", "count")}
    found = {name: path for path in PAGES for name in NAME.findall(path.read_text(encoding="utf-8"))}
    assert len(found) > 70
    missing = {name: str(path.relative_to(TOP)) for name, path in found.items() if name not in names | OTHER | REMOVED}
    assert missing == {}
    assert REMOVED <= found.keys() and not REMOVED & names


def test_help(shown):
    """Each metric has a help text of its own, one sentence or two; counters are named as such."""
    assert set(shown.kinds) == set(shown.helps)
    for name, said in shown.helps.items():
        assert re.fullmatch(r"(?:[A-Z]|--).*\.", said), f"{name}: {said}"
        assert (shown.kinds[name] == "counter") == name.endswith("_total"), name
    told = list(shown.helps.values())
    assert [said for said in told if told.count(said) > 1] == []


def test_tables(shown):
    """A row of a table that describes a metric says whether it is a histogram; and its labels, if it names any."""
    row = re.compile(r"^\| `([a-z_]+)(?:\{([a-z,]+)\})?` \| (.*) \|$", re.M)
    rows = [found for path in PAGES if path.suffix == ".md" for found in row.findall(path.read_text(encoding="utf-8"))
            if found[0] in shown.kinds]
    assert len(rows) > 25
    for name, labels, said in rows:
        assert ("histogram" in said) == (shown.kinds[name] == "histogram"), name
        if labels or name.startswith(("kube_reports_database", "kube_reports_feed", "kube_reports_upkeep")):
            assert shown.labels[name] == {frozenset(labels.split(",") if labels else ())}, name


@pytest.mark.parametrize("case", cases(), ids=str)
def test_alert_cases(shown, case):
    """
    The series over which promtool evaluates an alert (regress/chart/test_alerts.py) are those of a program.

    Those that begin with a sample are shown before any event; of the others, the metric and its labels are known.
    """
    for series in case.series:
        metric = shown.metric(series.name)
        assert metric in shown.kinds, series
        if series.from_the_start:
            assert shown.has(series), f"no program shows {series} from its start"
        elif metric in shown.labels:
            assert frozenset(series.labels) - {"le"} in shown.labels[metric], series


def test_alerts_without_upkeep(shown):
    """With --upkeep=false a proxy lacks the metrics of two alerts about upkeep, and of none that has others as well."""
    there = set(re.findall(r"^# TYPE (\S+)", shown.without_upkeep, re.M))
    of_upkeep = {"kube_reports_pending_oldest_seconds", "kube_reports_upkeep_last_success_timestamp_seconds"}
    lacking = {alert: {shown.metric(name) for name in used} - there - of_upkeep
               for alert, used in metric_names.alerts("proxy").items()}
    assert {alert: names for alert, names in lacking.items() if names} == {}
