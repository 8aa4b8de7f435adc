"""
Policy Reporter as a client: its API and its metrics show what is stored, after reports were created, changed and
deleted, and after a rolling restart of the proxies.

It runs as its own chart starts it, with the chart's service account and roles.  It follows metadata of reports in two
groups, and gets each report that has changed.
"""

import base64
import collections
import json
import os
import pathlib
import re
import signal
import urllib.request

import pytest
import yaml

from client import CPOLR, POLR, REPS, path_of, report, result, run, until
from conftest import HTTP
from control_plane import GROUP_VERSIONS, Process, programs
from release import HELMS

PROGRAM = "policy-reporter"
NAMESPACE = "policy-reporter"
HELM = HELMS["v3.22.0"]
PATIENCE = 120
# The labels of a result's metric that identify the result and its report.
LABELS = ("namespace", "report", "policy", "rule", "kind", "name", "status", "severity", "source")

pytestmark = pytest.mark.skipif(PROGRAM not in programs() or not HELM.exists(),
                                reason="Policy Reporter or Helm is not built: .ci/cluster-programs build, "
                                       "make check-chart")


class Reporter:
    """The chart's objects in a control plane, and its container as a process of this machine."""

    def __init__(self, plane, port):
        self.plane, self.port = plane, port
        self.directory = pathlib.Path(plane.directory) / PROGRAM
        self.directory.mkdir()
        source = pathlib.Path(programs()[PROGRAM] + ".source")
        rendered = run([str(HELM), "template", PROGRAM, str(source / "charts" / PROGRAM), "--namespace", NAMESPACE,
                        "--kube-version", "1.36.0", "--set", "metrics.enabled=true,rest.enabled=true"],
                       env={**os.environ, **{f"HELM_{name}_HOME": f"{self.directory}/helm-{name}"
                                             for name in ("CACHE", "CONFIG", "DATA")}})
        objects = [each for each in yaml.safe_load_all(rendered.out) if each]
        plane.namespace(NAMESPACE)
        plane.apply(*(each for each in objects if each["kind"] in (
            "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Secret")))
        pod = next(each for each in objects if each["kind"] == "Deployment")["spec"]["template"]["spec"]
        config = plane.api().get(f"/api/v1/namespaces/{NAMESPACE}/secrets/{PROGRAM}-config").json["data"]["config.yaml"]
        (self.directory / "config.yaml").write_bytes(base64.b64decode(config))
        places = {"/app/config.yaml": self.directory / "config.yaml",
                  "/sqlite/database.db": self.directory / "database", "/app/templates": source / "templates"}
        flags = {name: places.get(value, value) for name, _, value in (
            argument.partition("=") for argument in pod["containers"][0]["args"])}
        kubeconfig = plane.write_kubeconfig(PROGRAM, token=plane.token(NAMESPACE, pod["serviceAccountName"]))
        flags.update({"--port": port, "--kubeconfig": kubeconfig})
        self.process = Process(PROGRAM, [programs()[PROGRAM], "run", *(f"{name}={value}"
                                                                      for name, value in flags.items())],
                               self.directory, {"POD_NAMESPACE": NAMESPACE})
        until(self.ready, PATIENCE, "readiness of Policy Reporter")

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{path}", timeout=30) as answer:
            return answer.read().decode()

    def ready(self):
        self.process.check()
        try:
            return self.get("ready")
        except OSError:
            return False

    def results(self, namespaces):
        """Returns the labels of each result in the metrics."""
        shown = [dict(re.findall(r'(\w+)="([^"]*)"', line)) for line in self.get("metrics").splitlines()
                 if re.match(r"(cluster_)?policy_report_result\{", line)]
        return sorted(tuple(one.get(name, "") for name in LABELS) for one in shown
                      if one.get("namespace", "") in namespaces)

    def reports(self, namespaces):
        """Returns the numbers of results by status of each report in the API."""
        listed = json.loads(self.get("v1/policy-reports"))["items"] + \
            json.loads(self.get("v1/cluster-policy-reports"))["items"]
        return sorted((one.get("namespace", ""), one["name"],
                       *(one[status] for status in ("pass", "fail", "warn", "error", "skip")))
                      for one in listed if one.get("namespace", "") in namespaces)

    def stop(self):
        self.process.stop(signal.SIGTERM)


@pytest.fixture(scope="module")
def reporter(plane):
    own = Reporter(plane, HTTP.free_port())
    yield own
    own.stop()


def stored(api, namespaces):
    """Returns the same from the stored reports: the results, and the numbers of each report."""
    results, reports = [], []
    for resource in (POLR, CPOLR, REPS):
        for item in api.get(path_of(resource)).json["items"]:
            metadata = item["metadata"]
            key = (metadata.get("namespace", ""), metadata["name"])
            if key[0] not in namespaces:
                continue
            counts = collections.Counter(one["result"] for one in item["results"])
            reports.append((*key, *(counts[status] for status in ("pass", "fail", "warn", "error", "skip"))))
            results += [(*key, one["policy"], one["rule"], one["resources"][0]["kind"], one["resources"][0]["name"],
                         one["result"], one["severity"], one["source"]) for one in item["results"]]
    return sorted(results), sorted(reports)


def results_of(number, *outcomes):
    return [result("labels", outcome, rule=f"rule-{index}", resources=[
        {"apiVersion": "v1", "kind": "ConfigMap", "name": f"resource-{number}"}])
            for index, outcome in enumerate(outcomes)]


def shown(reporter, api, namespaces, what):
    """Waits until Policy Reporter shows what is stored; returns the number of results."""
    results, reports = stored(api, namespaces)

    def same():
        reporter.process.check()
        return reporter.results(namespaces) == results and reporter.reports(namespaces) == reports
    try:
        until(same, PATIENCE, what)
    except AssertionError as error:
        found = reporter.results(namespaces)
        raise AssertionError(f"{error}: results only in metrics {sorted(set(found) - set(results))[:3]}, only stored "
                             f"{sorted(set(results) - set(found))[:3]}; reports {reporter.reports(namespaces)[:5]}, "
                             f"stored {reports[:5]}\n{reporter.process.tail()}") from None
    return len(results)


def test_what_is_stored(reporter, api, ns):
    """Policy Reporter shows reports of two groups and of the cluster that are created, changed and deleted"""
    try:
        for number in range(20):
            resource = POLR if number % 2 else REPS
            api.create(resource, report(f"r-{number}", ns, results=results_of(number, "pass", "fail", "warn"),
                                        resource=resource), ns)
        api.create(CPOLR, report(ns, results=results_of(99, "error", "skip"), resource=CPOLR))
        # Reports of the cluster have no namespace.
        assert shown(reporter, api, ("", ns), "what was written") >= 20 * 3 + 2
        for number in range(0, 20, 3):
            api.put_report(POLR if number % 2 else REPS, f"r-{number}", ns, results_of(number, "fail"))
        for number in range(1, 20, 3):
            assert api.delete(path_of(POLR if number % 2 else REPS, ns, f"r-{number}")).code == 200
        assert shown(reporter, api, ("", ns), "what has changed") >= 7 * 1 + 6 * 3 + 2
    finally:
        api.delete(path_of(CPOLR, name=ns))
    shown(reporter, api, ("", ns), "the end of a report of the cluster")


def test_rolling_restart(reporter, cluster, api, ns):
    """Writes go on while another proxy takes over and the first one restarts"""
    second = cluster.proxy()
    try:
        for number in range(30):
            if number == 10:
                lead(cluster, api, second)
                cluster.first.restart()
            elif number == 20:
                lead(cluster, api, cluster.first)
                second.stop()
            api.create(POLR, report(f"r-{number}", ns, results=results_of(number, "pass")), ns)
            if number % 3 == 0:
                api.put_report(POLR, f"r-{number}", ns, results_of(number, "fail", "fail"))
        assert shown(reporter, api, (ns,), "what was written meanwhile") == 20 + 10 * 2
    finally:
        lead(cluster, api, cluster.first)
        second.stop()
        cluster.stack.proxies.remove(second)


def lead(cluster, api, proxy):
    """Makes the APIServices name this proxy, and waits until kube-apiserver asks it."""
    cluster.plane.apply(*(cluster.plane.api_service(name, proxy.port) for name in GROUP_VERSIONS))

    def asked():
        before = proxy.series("apiserver_request_total", verb="GET") or 0
        api.get(path_of(POLR, "default", "nothing"))
        return (proxy.series("apiserver_request_total", verb="GET") or 0) > before
    until(asked, 60, "a request to that proxy")
