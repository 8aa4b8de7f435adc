"""Names of metrics that the chart's alerts and the pages of docs promise for one program."""

import pathlib
import re

import yaml

TOP = pathlib.Path(__file__).resolve().parents[2]
NAME = r"\b(?:kube_reports|apiserver|process)_[a-z_]+"


def alerts(part):
    """Returns {alert: metrics of its expression} for the chart's alerts of a part (`of` in alerts.yaml)."""
    listed = yaml.safe_load((TOP / "helm" / "kube-reports" / "files" / "alerts.yaml").read_text(encoding="utf-8"))
    return {one["alert"]: set(re.findall(NAME, one["expr"])) for one in listed["alerts"] if one["of"] == part}


def check(part, page, prefix, exposition):
    """
    Compares the metrics that a program shows at /metrics with its alerts and with the table of its page.

    The program shows each metric of an alert. The page describes exactly the metrics that the program shows. A row of
    the page may name several metrics: `kube_reports_x_a`, `_b`.
    """
    shown = set(re.findall(r"^# TYPE (\w+)", exposition, re.M))
    rows = re.findall(rf"^\| (`{prefix}_\w+`[^|]*) \|", (TOP / "docs" / page).read_text(encoding="utf-8"), re.M)
    described = {name if name.startswith("kube_reports") else prefix + name
                 for row in rows for name in re.findall(r"`(\w+)`", row)}
    asked = alerts(part)
    assert asked and described == shown, described ^ shown
    for alert, used in asked.items():
        assert used and used <= shown, (alert, used - shown)
