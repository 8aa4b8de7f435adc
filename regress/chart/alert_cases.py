"""The cases of alert_cases.yaml, and their series with all labels."""

import pathlib
import re
from dataclasses import dataclass, field

import yaml

PAGE = pathlib.Path(__file__).with_name("alert_cases.yaml")
REQUEST = {"verb": "GET", "group": "wgpolicyk8s.io", "version": "v1alpha2", "resource": "policyreports"}
TARGET = ("job", "namespace", "pod", "instance")


@dataclass
class Series:
    """A series of a case: name, labels that the program gives it, labels of its target, and values."""

    name: str
    labels: dict
    target: dict
    values: str

    @property
    def from_the_start(self):
        return not self.values.startswith("_")

    def __str__(self):
        labels = ",".join(f'{name}="{value}"' for name, value in {**self.labels, **self.target}.items())
        return f"{self.name}{{{labels}}}"


@dataclass
class Case:
    """A case of an alert: what happens, its series, and when and how the alert fires; labels is None if it does not."""

    alert: str
    name: str
    when: str
    at: str
    series: list
    summary: str = ""
    labels: dict | None = field(default=None)

    def __str__(self):
        return f"{self.alert}-{self.name}".replace(" ", "-")


def target_of(pod, job):
    return {"job": job, "namespace": "kube-reports", "pod": pod,
            "instance": f"10.244.0.{pod.rpartition('-')[2]}:8080"}


def series_of(text, values):
    """Reads one series, name{label="value",...}, and adds the labels that its line leaves out."""
    name, inner = re.fullmatch(r"(\w+)\{(.*)\}", text).groups()
    labels = dict(re.findall(r'(\w+)="([^"]*)"', inner))
    target = target_of(labels.pop("pod", "kube-reports-0"), labels.pop("job", "kube-reports"))
    if name.startswith("apiserver_request_"):
        labels = {**REQUEST, **labels}
    return Series(name, labels, target, values)


def expected_labels(said):
    """Returns the labels of an alert that fires, for the word or the mapping of its case."""
    target = target_of("kube-reports-0", "kube-reports")
    if said == "target":
        return target
    if said == "pod":
        return {name: value for name, value in target.items() if name != "job"}
    return said


def cases():
    """Yields all cases, in the order of the file."""
    # This loader leaves 0x10 a text.
    for alert, of_alert in yaml.load(PAGE.read_text(encoding="utf-8"), Loader=yaml.BaseLoader).items():
        for name, case in of_alert.items():
            fires = name.startswith("fires")
            assert fires == ("labels" in case) == ("summary" in case) and (fires or name.startswith("silent")), alert
            yield Case(alert, name, case["when"], case["at"],
                       [series_of(text, values) for text, values in case["series"].items()],
                       case.get("summary", ""), expected_labels(case["labels"]) if fires else None)
