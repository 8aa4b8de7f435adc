"""Each alert of the chart, evaluated by promtool over the series of alert_cases.yaml."""

import os
import subprocess

import pytest
import yaml

from alert_cases import cases
from conftest import named, render
from test_monitoring import ON

PROMTOOL = os.environ["PROMTOOL"]
RUNBOOK = "https://wiki.example.org/ops"
CASES = list(cases())


def groups(**values):
    """Returns the groups of rules that the chart renders with all of its parts."""
    rule = {"enabled": True, "runbookUrl": RUNBOOK}
    return named(render({**ON, "prometheusRule": rule, **values}), "PrometheusRule", "kube-reports")["spec"]["groups"]


def promtool(*arguments):
    return subprocess.run([PROMTOOL, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def rules(tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": groups()}))
    return path


def test_rules_are_valid(rules):
    done = promtool("check", "rules", rules)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_cases():
    """One with which it fires, and one with which it does not."""
    named_here = [(case.alert, case.labels is not None) for case in CASES]
    alerts = {rule["alert"] for group in groups() for rule in group["rules"]}
    assert set(named_here) == {(alert, fires) for alert in alerts for fires in (True, False)}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case, rules, tmp_path):
    """The alert fires with its labels and its summary, or does not fire."""
    (severity,) = {rule["labels"]["severity"] for group in groups() for rule in group["rules"]
                   if rule["alert"] == case.alert}
    expected = [] if case.labels is None else [{
        "exp_labels": {**case.labels, "severity": severity},
        "exp_annotations": {"summary": case.summary, "runbook_url": f"{RUNBOOK}#{case.alert.lower()}"}}]
    test = {
        "rule_files": [str(rules)],
        "evaluation_interval": "1m",
        "tests": [{
            "interval": "1m",
            "input_series": [{"series": str(one), "values": one.values} for one in case.series],
            "alert_rule_test": [{"eval_time": case.at, "alertname": case.alert, "exp_alerts": expected}],
        }],
    }
    path = tmp_path / "test.yaml"
    path.write_text(yaml.safe_dump(test))
    done = promtool("test", "rules", path)
    assert done.returncode == 0, f"{case.when}: {done.stdout}{done.stderr}"
