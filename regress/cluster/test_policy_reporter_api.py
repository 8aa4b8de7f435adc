"""
Policy Reporter's API (docs/policy-reporter.md), answered by the proxy and by Policy Reporter itself.

Policy Reporter reads the reports from the proxy, which is its API server here, and keeps them in its own database.
What differs on purpose is named where it is compared.
"""

import copy
import json
import pathlib
import signal
import urllib.error
import urllib.parse
import urllib.request

import pytest

from client import CPOLR, POLR, REPS, path_of, report, result, until
from conftest import HTTP
from control_plane import Process, programs

PROGRAM = "policy-reporter"
PREFIX = "/v1/policy-reporter/"
PATIENCE = 60
STATUSES = ("pass", "fail", "warn", "error", "skip")
SEVERITIES = ("info", "low", "medium", "high", "critical")

pytestmark = pytest.mark.skipif(PROGRAM not in programs(),
                                reason="Policy Reporter is not built: .ci/cluster-programs build")


def subject(kind, name, namespace=None, version="v1", uid=None):
    made = {"apiVersion": version, "kind": kind, "name": name, "uid": uid or f"uid-{name}"}
    return {**made, "namespace": namespace} if namespace else made


def reports():
    """
    Yields reports of three kinds with many policies, statuses and severities; some results have no category, severity
    or resource.  All results of a policy have one source, category and severity: Policy Reporter would show only one of
    several.
    """
    for number in range(12):
        namespace = ("shop", "payments", "with-dash")[number % 3]
        kind, version = (("Pod", "v1"), ("Deployment", "apps/v1"), ("Ingress", "networking.k8s.io/v1"))[number // 4]
        resource = subject(kind, f"app-{number}", namespace, version)
        results = [result(f"policy-{rule}", STATUSES[(number + rule) % 5], rule=f"rule-{rule}",
                          severity=SEVERITIES[rule % 5], source="kyverno" if rule % 3 else "Trivy Vulnerability",
                          category=("Pod Security", "Best Practices")[rule % 2], resources=[resource],
                          message=f"message {rule} of {number}",
                          properties={"score": str(rule), "part": f"p{rule % 2}"})
                   for rule in range(6)]
        del results[0]["category"], results[1]["severity"], results[2]["properties"]
        for one in results:
            one["timestamp"] = {"seconds": 1700000000 + number, "nanos": 0}
        yield (POLR, REPS)[number % 2], f"report-{number}", namespace, results
    for number in range(3):
        yield CPOLR, f"cluster-{number}", None, [
            result("of-cluster", STATUSES[number], rule="r", severity="high", source="kyverno", category="Roles",
                   resources=[subject("ClusterRole", f"role-{number}", None, "rbac.authorization.k8s.io/v1")])]
    yield POLR, "nothing", "shop", [result("without", "fail", rule=f"r{number}", source="falco", category="Runtime",
                                           message=f"event {number}") for number in range(3)]


class Both:
    """The proxy and Policy Reporter, by the same paths."""

    def __init__(self, stack, directory):
        self.stack = stack
        self.api = stack.first.api(keep=True)
        self.port = HTTP.free_port()
        self.ids = {"ours": {}, "theirs": {}}
        self.expected = 0
        for resource, name, namespace, results in reports():
            labels = {"team": name[-1]}
            self.api.create(resource, report(name, namespace, labels, results, resource), namespace)
            self.expected += len(results)
        source = pathlib.Path(programs()[PROGRAM] + ".source")
        config = directory / "config.yaml"
        config.write_text("{}\n")
        self.process = Process(PROGRAM, [
            programs()[PROGRAM], "run", f"--kubeconfig={stack.first.kubeconfig()}", f"--port={self.port}",
            f"--config={config}", f"--dbfile={directory}/database", f"--template-dir={source}/templates",
            "--rest-enabled"], directory)
        until(self.complete, PATIENCE, "all results in Policy Reporter")

    def theirs(self, path, **query):
        url = f"http://127.0.0.1:{self.port}/{urllib.parse.quote(path)}?{urllib.parse.urlencode(query, doseq=True)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            # To filter by labels, Policy Reporter joins the reports, and its query names columns that both tables have.
            if error.code == 500 and "labels" in query:
                return None
            raise

    def ours(self, path, **query):
        answer = self.api.get(PREFIX + urllib.parse.quote(path), **query)
        assert answer.code == 200 and answer.headers["Content-Type"] == "application/json", answer
        return answer.json

    def complete(self):
        self.process.check()
        try:
            found = sum(self.theirs(f"v2/{scope}-scoped/results", page=1, offset=1)["count"]
                        for scope in ("namespace", "cluster"))
        except OSError:
            return False
        return found == self.expected

    def stop(self):
        self.process.stop(signal.SIGTERM)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    stack = HTTP.Stack().begin()
    own = None
    try:
        stack.first = stack.proxy()
        own = Both(stack, tmp_path_factory.mktemp(PROGRAM))
        stack.database.derive()
        yield own
    finally:
        if own is not None:
            own.stop()
        stack.end()


def unknown_named(counts):
    """Some answers of Policy Reporter have an empty text for a result without severity: rename that to unknown."""
    if "" in counts:
        counts["unknown"] = counts.get("unknown", 0) + counts.pop("")
    return counts


def comparable(value):
    """
    Returns an answer without the differences that are allowed: ids (test_resources compares their meaning), the order
    of lists that Policy Reporter makes from maps, and empty members.
    """
    if isinstance(value, list):
        return sorted((comparable(one) for one in value), key=lambda one: json.dumps(one, sort_keys=True))
    if not isinstance(value, dict):
        return value
    return {key: comparable(unknown_named(one) if isinstance(one, dict) else one)
            for key, one in unknown_named(copy.copy(value)).items() if key not in ("id", "resourceId") and
            one not in (None, "", {})}


def same(both, path, query, form=comparable):
    """Checks that both answer the same, unless Policy Reporter's own query is broken."""
    ours, theirs = both.ours(path, **query), both.theirs(path, **query)
    assert theirs is None or form(ours) == form(theirs), (path, query)


FILTERS = ({}, {"sources": "kyverno"}, {"sources": ["kyverno", "falco"], "kinds": "Pod"},
           {"categories": "Other"}, {"categories": ["Pod Security", "Roles"], "exclude": "kyverno:Pod"},
           {"labels": "team:1"}, {"apis": ["deployments.apps/v1", "ingresses.networking.k8s.io/v1"]},
           {"labels": ["team:1", "no label"], "apis": "pods.v1", "kinds": ["Pod", "Deployment"]},
           {"sources": "it's \"none\""})


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_counts(both, filters):
    """Both count the same with each filter"""
    narrow = {**filters, "namespaces": ["shop", "payments"], "status": ["fail", "warn"]}
    paths = [(path, more) for more in (filters, narrow) for path in (
        "v1/namespaces", "v2/namespaces", "v2/sources", "v2/sources/categories", "v2/policies", "v2/findings",
        "v1/namespaced-resources/categories", "v1/namespaced-resources/kinds", "v2/namespace-scoped/kinds",
        "v1/cluster-resources/categories", "v1/cluster-resources/kinds", "v2/cluster-scoped/kinds")]
    paths += [(f"v2/{scope}/{source}/{words}-counts", more) for more in (filters, narrow)
              for scope in ("sources", "namespace-scoped", "cluster-scoped")
              for source in ("kyverno", "Trivy Vulnerability", "nothing") for words in ("status", "severity")]
    paths += [(f"v2/sources/{source}/use-resources", filters) for source in ("kyverno", "falco")]
    paths += [(path, {**narrow, "namespaced": "true", "policies": "policy-1"}) for path in (
        "v2/findings", "v2/severity-findings")]
    paths += [("v2/severity-findings", narrow), ("v2/policies", {**filters, "search": "olicy-1"}),
              ("v2/policies", {**filters, "search": "POD"}),
              ("v2/severity-findings", {**filters, "severities": ["high", "low"]}),
              ("v2/namespace-scoped/kyverno/severity-counts", {**filters, "severities": ["high"]})]
    for path, query in paths:
        # Lists of kinds, and paths of v1, have their own rules for some filters: leave these filters out.
        if path.startswith("v2/") and path.endswith("/kinds") or path == "v1/cluster-resources/kinds":
            query = {key: value for key, value in query.items() if key not in ("kinds", "apis", "status", "exclude")}
        if path.startswith("v1/") and "exclude" in query:
            query = {key: value for key, value in query.items() if key != "exclude"}
        same(both, path, query)


PAGES = ({}, {"page": 1, "offset": 5}, {"page": 3, "offset": 7, "direction": "desc"}, {"page": 99, "offset": 10},
         {"page": -1, "offset": 4}, {"page": 1, "offset": -1}, {"page": "two", "offset": "three"},
         {"page": 2, "offset": 9, "sortBy": ["policy", "resource_name", "rule"]},
         {"page": 1, "offset": 20, "sortBy": ["result", "resource_name", "rule"], "direction": "DESC"},
         {"page": 2, "offset": 4, "sortBy": ["resource_kind", "resource_name", "rule"]})
RESULT_FILTERS = ({}, {"status": ["fail", "error"]}, {"severities": "high", "kinds": "Pod"},
                  {"namespaces": ["shop", "with-dash"], "policies": ["policy-1", "policy-2"]},
                  {"rules": "rule-2", "resources": ["app-1", "app-4"]}, {"search": "APP-1"}, {"search": "deployment"},
                  {"search": "fail"}, {"search": "shop", "labels": "team:1"}, {"exclude": ["kyverno:Pod", "nothing:X"]},
                  {"search": "100%"}, {"search": "' OR 1=1 --"})


def ordered(page):
    """Returns the items of a page in their order, and the count of all items."""
    return [comparable(item) for item in page["items"]], page["count"]


@pytest.mark.parametrize("filters", RESULT_FILTERS, ids=str)
def test_results(both, filters):
    """Both have the same pages of results, in the same order"""
    for path in ("v2/namespace-scoped/results", "v2/cluster-scoped/results"):
        for page in PAGES:
            same(both, path, {**filters, **page}, ordered)
    same(both, "v2/results-without-resources", filters)


RESOURCE_PAGES = [page for page in PAGES if "sortBy" not in page] + [
    {"page": 1, "offset": 5, "sortBy": ["resource_namespace", "resource_name"], "direction": "desc"},
    {"page": 2, "offset": 4, "sortBy": ["resource_kind", "resource_name"]}]


@pytest.mark.parametrize("filters", ({}, {"status": ["fail", "error"]}, {"severities": "high", "kinds": "Pod"},
                                     {"namespaces": ["shop", "with-dash"], "sources": "kyverno"},
                                     {"search": "APP-1"}, {"search": "deployment", "labels": "team:1"},
                                     {"exclude": "kyverno:Pod", "categories": "Pod Security"},
                                     {"apis": "pods.v1"}), ids=str)
def test_resources(both, filters):
    """Both have the same pages of resources, and the same answers about the first resource of each page"""
    for path in ("v2/namespace-scoped/resource-results", "v2/cluster-scoped/resource-results"):
        for page in RESOURCE_PAGES:
            ours, theirs = both.ours(path, **filters, **page), both.theirs(path, **filters, **page)
            if theirs is None:
                continue
            assert ordered(ours) == ordered(theirs), (path, page)
            for one, other in zip(ours["items"][:1], theirs["items"][:1]):
                compare_resource(both, one["id"], other["id"])


def compare_resource(both, ours, theirs):
    resource = both.ours(f"v2/resource/{ours}")
    assert resource["id"] == ours and comparable(resource) == comparable(both.theirs(f"v2/resource/{theirs}"))
    for filters in ({}, {"sources": "kyverno"}, {"categories": ["Best Practices", "Other"]}):
        for path in ("status-counts", "severity-counts", "resource-results", "source-categories", "results"):
            one, other = (ask(f"v2/resource/{id}/{path}", **filters)
                          for ask, id in ((both.ours, ours), (both.theirs, theirs)))
            # Policy Reporter leaves the severities out of these two.
            if path in ("resource-results", "source-categories"):
                for lines in (one, other):
                    for line in lines if path == "resource-results" else [
                            category for source in lines for category in source["categories"]]:
                        line.pop("severities")
            assert comparable(one) == comparable(other), (path, filters)
    listed = both.ours(f"v2/resource/{ours}/results")["items"]
    assert {item["resourceId"] for item in listed} == {ours}
    scope = "namespace" if resource.get("namespace") else "cluster"
    assert both.ours(f"v2/{scope}-scoped/results", resource_id=ours)["items"] == listed


def test_totals(both):
    ours, theirs = both.ours("v2/total-results"), both.theirs("v2/total-results")
    assert ordered(ours) == ordered(theirs)
    assert both.ours("v2/targets") == both.theirs("v2/targets") == {}
