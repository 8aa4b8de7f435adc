"""Alerts name existing metrics and sections of docs/operations.md; dashboards are in the chart unchanged."""

import contextlib
import json
import re
import subprocess
import time
import urllib.request

import pytest
import yaml

from conftest import CHART, CLUSTER, PROXY, TOP, free_port, named, of_kind, render
from matrix import EVIDENCE, GRPC, KNOWN, SENDER

OPERATIONS = (TOP / "docs" / "operations.md").read_text()
PARTS = {"sender": SENDER, "grpc": GRPC, "evidence": EVIDENCE}
ON = {"prometheusRule": {"enabled": True}, "serviceMonitor": {"enabled": True}, "cluster": KNOWN, **PARTS}
FUNCTIONS = {
    "absent",
    "and",
    "avg",
    "by",
    "count",
    "histogram_quantile",
    "increase",
    "le",
    "max",
    "min",
    "on",
    "or",
    "rate",
    "sum",
    "time",
    "without",
}


def rules(values=None):
    groups = named(render({**ON, **(values or {})}), "PrometheusRule", "kube-reports")["spec"]["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def documented():
    """Returns the page's table of alerts: for, severity, expression."""
    rows = re.findall(r"^\| \[(\w+)\]\(#\w+\) \| (\w+) \| (\w+) \| `(.*)` \|$", OPERATIONS, re.M)
    return {name: rest for name, *rest in rows}


def test_alerts_are_those_of_the_page():
    given = {name: [rule["for"], rule["labels"]["severity"], rule["expr"]] for name, rule in rules().items()}
    assert given == documented()
    assert len(given) >= 10


def test_runbooks():
    """Each alert points at a section of the page."""
    sections = {title.lower() for title in re.findall(r"^#+ (\w+)$", OPERATIONS, re.M)}
    for name, rule in rules(
        {**ON, "prometheusRule": {"enabled": True, "runbookUrl": "https://wiki.example.org/ops"}}
    ).items():
        address, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert address == "https://wiki.example.org/ops"
        assert anchor == name.lower() and anchor in sections, name
    assert {title for title in sections if title.startswith("kubereports")} == {name.lower() for name in rules()}


def test_job():
    """The ServiceMonitor sets the job that alerts name."""
    for name in ("kube-reports", "other"):
        objects = render({**ON, "nameOverride": name})
        monitors = [one["spec"] for one in of_kind(objects, "ServiceMonitor")]
        assert len(monitors) == 4
        services = [one["metadata"]["labels"] for one in of_kind(objects, "Service")]
        jobs = {labels[monitor["jobLabel"]] for monitor in monitors for labels in services
                if monitor["selector"]["matchLabels"].items() <= labels.items()}
        expressions = [rule["expr"] for rule in of_kind(objects, "PrometheusRule")[0]["spec"]["groups"][0]["rules"]]
        assert {found for expr in expressions for found in re.findall(r'job="([^"]*)"', expr)} == jobs == {name}


def test_alerts_can_be_left_out():
    left = rules(
        {"prometheusRule": {"enabled": True, "disabled": ["KubeReportsSlow"], "additionalLabels": {"team": "a"}}}
    )
    assert set(documented()) - set(left) == {"KubeReportsSlow"}
    assert all(rule["labels"]["team"] == "a" for rule in left.values())


def test_alerts_of_parts():
    """A release has only the alerts of its own parts: absent() of a part that does not run would always fire."""
    parts = {one["alert"]: one["of"]
             for one in yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())["alerts"]}
    assert set(rules()) == set(parts)
    off = {part: {"enabled": False} for part in PARTS}
    for chosen in ("proxy", *PARTS):
        values = {**off, **({chosen: PARTS[chosen]} if chosen in PARTS else {})}
        if chosen == "sender":
            values["proxy"] = {"enabled": False}
        own = {name for name, part in parts.items()
               if part == chosen or (part == "proxy" and chosen in ("grpc", "evidence"))}
        assert set(rules(values)) == own, chosen


def names(expression):
    """Returns the metrics in an expression: words that are no function, label or value."""
    plain = re.sub(r'"[^"]*"', "", expression)
    plain = re.sub(r"\b(by|without) \([^)]*\)", "", plain)
    plain = re.sub(r"\{[^}]*\}", "", plain)
    return set(re.findall(r"\b[a-z_][a-z0-9_]*\b(?!\()", re.sub(r"\[[^]]*\]", "", plain))) - FUNCTIONS


def test_names_of_an_expression():
    assert names('sum by (verb, le) (rate(a_bucket{job="x",code=~"5.."}[5m])) / 2 > time() - max(b_total)') == {
        "a_bucket",
        "b_total",
    }


@pytest.fixture
def metrics(server, tmp_path):
    """The text of /metrics of a proxy that works."""
    server.psql("CREATE DATABASE reports")
    server.setup("postgres", "reports")
    key, certificate = tmp_path / "tls.key", tmp_path / "tls.crt"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "1",
            "-subj",
            "/CN=localhost",
            "-keyout",
            key,
            "-out",
            certificate,
        ],
        check=True,
        capture_output=True,
    )
    port, database = free_port(), server.connection("kube_reports_proxy", "reports")
    with open(tmp_path / "log", "wb") as log:
        proxy = subprocess.Popen(
            [
                PROXY,
                "--bind-address=127.0.0.1",
                f"--secure-port={free_port()}",
                "--metrics-bind-address=127.0.0.1",
                f"--metrics-port={port}",
                f"--tls-cert-file={certificate}",
                f"--tls-private-key-file={key}",
                f"--client-ca-file={certificate}",
                "--authorization-mode=AlwaysDeny",
                "--workers=1",
                f"--database={database}",
                f"--cluster-id={CLUSTER}",
            ],
            stdout=log,
            stderr=log,
        )

    def ask():
        assert proxy.poll() is None, (tmp_path / "log").read_text()
        with contextlib.suppress(OSError), urllib.request.urlopen(
            f"http://127.0.0.1:{port}/metrics", timeout=5
        ) as answer:
            return answer.read().decode()
        return ""

    yield ask
    proxy.terminate()
    proxy.wait(60)


def series(text):
    """Returns the names of series in the text of /metrics."""
    for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", text, re.M):
        yield from [name + end for end in ("_bucket", "_sum", "_count")] if kind == "histogram" else [name]


def test_metrics_of_alerts_are_there(metrics):
    """Each metric of an alert exists; some only after the first step of upkeep.  regress/http tests other programs."""
    off = {part: {"enabled": False} for part in PARTS}
    wanted = {alert: names(rule["expr"]) for alert, rule in rules(off).items()}
    assert all(wanted.values())
    deadline = time.monotonic() + 30
    missing = wanted
    while missing and time.monotonic() < deadline:
        time.sleep(0.2)
        there = set(series(metrics()))
        missing = {alert: found - there for alert, found in wanted.items() if found - there}
    assert missing == {}


def test_summaries():
    """The expression keeps the labels that the summary uses."""
    for alert in yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())["alerts"]:
        kept = re.findall(r"(?:sum|max|min|avg) ?(?:by \(([^)]*)\))?", alert["expr"])
        for label in re.findall(r"\$labels\.(\w+)", alert["summary"]):
            assert not kept or all(label in by for by in kept if by) and any(kept), f"{alert['alert']} has no {label}"


def test_dashboards():
    files = sorted((CHART / "dashboards").glob("*.json"))
    maps = of_kind(render({"dashboards": {"enabled": True, "namespace": "grafana"}}), "ConfigMap")
    maps = [one for one in maps if one["metadata"]["labels"].get("grafana_dashboard") == "1"]
    assert len(maps) == len(files) > 0
    given = {name: json.loads(text) for one in maps for name, text in one["data"].items()}
    assert given == {f"kube-reports-{file.name}": json.loads(file.read_text()) for file in files}
    assert all(one["metadata"]["namespace"] == "grafana" for one in maps)
    assert all(one["metadata"]["annotations"]["grafana_folder"] == "Policy reports" for one in maps)
