"""
/v1/policy-reporter/...: what Policy Reporter UI asks its backend for (docs/policy-reporter.md).

The members, the types and the status codes are those that Policy Reporter 3.9.0 was recorded with;
regress/cluster/test_policy_reporter_api.py compares the values with those of the program itself.
"""

import base64
import json
import re
import urllib.parse

import pytest
import yaml

from client import CPOLR, POLR, report, result, sql_text
from conftest import TOP, stack_command
from front_proxy import Delegation

PREFIX = "/v1/policy-reporter"
PAGE = (TOP / "docs" / "policy-reporter.md").read_text()
STATUSES = {"pass", "warn", "fail", "error", "skip"}
SEVERITIES = {"unknown", "info", "low", "medium", "high", "critical"}
ELSEWHERE = "00000000-0000-4000-8000-0000000000e1"
ODD = "it's \"odd\" %_\\ <b>"


def pod(name, namespace="shop", **more):
    return {"apiVersion": "v1", "kind": "Pod", "name": name, "namespace": namespace, **more}


class Reporter:
    """A proxy with some reports; its methods take the path after the prefix."""

    def __init__(self, stack):
        self.stack = stack
        self.database = stack.database
        self.proxy = stack.first = stack.proxy()
        self.api = self.proxy.api()
        self.create(POLR, "a", "shop", [
            result("p1", "fail", rule="r1", severity="high", category="Pods", resources=[pod("web", uid="u")],
                   message=ODD, properties={"k": ODD, "score": "9.8"}),
            result("p1", "pass", rule="r2", severity="low", resources=[pod("web")]),
            result("p2", "warn", rule="r1", severity="low", category="Pods", resources=[pod("db")]) | {"severity": ""}])
        self.create(POLR, "b", "other", [result("p1", "error", rule="r1", severity="high", category="Pods",
                                                resources=[pod("web", "other")])])
        self.create(POLR, "none", "shop", [result("event", "fail", rule="r", source=ODD, category="Events")])
        self.create(CPOLR, "c", None, [result("p9", "skip", severity="critical", category="Roles", resources=[
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "admin"}])])
        self.database.derive()

    def create(self, resource, name, namespace, results):
        for one in results:
            if one.get("severity") == "":
                del one["severity"]
        self.api.create(resource, report(name, namespace, {"team": "a"}, results, resource), namespace)

    def answer(self, path, **query):
        return self.api.get(f"{PREFIX}/{path}", **query)

    def get(self, path, **query):
        answer = self.answer(path, **query)
        assert answer.code == 200 and answer.headers["Content-Type"] == "application/json", answer
        return answer.json

    def resource(self, name="web", **query):
        """Returns the id of a resource."""
        items = self.get("v2/namespace-scoped/resource-results", search=name, namespaces="shop", **query)["items"]
        return next(item["id"] for item in items if item["name"] == name)


@pytest.fixture(scope="module")
def reporter(module_stack):
    return Reporter(module_stack)


# --- shapes ---

STATUS = {word: int for word in STATUSES}
SEVERITY = {word: int for word in SEVERITIES}
TREE = [{"name": str, "categories": [{"name": str, "status": STATUS, "severities": SEVERITY}]}]
RESULTS = {"count": int, "items": [{
    "id": str, "kind": str, "apiVersion": str, "name": str, "resourceId": str, "message": str, "policy": str,
    "rule": str, "status": str, "source": str,
    "optional": {"namespace": str, "category": str, "severity": str, "timestamp": int, "properties": dict}}]}
RESOURCE = {"id": str, "uid": str, "name": str, "kind": str, "apiVersion": str, "status": STATUS,
            "severities": SEVERITY, "optional": {"namespace": str, "source": str}}
RESOURCES = {"count": int, "items": [RESOURCE]}
FINDINGS = {"total": int, "perResult": dict, "counts": [{"total": int, "source": str, "counts": dict}]}
SHAPES = {
    "v1/namespaces": [str], "v1/namespaced-resources/kinds": [str], "v1/namespaced-resources/categories": [str],
    "v1/cluster-resources/kinds": [str], "v1/cluster-resources/categories": [str], "v2/targets": {},
    "v2/namespaces": [str], "v2/sources": [str], "v2/sources/categories": TREE,
    "v2/sources/kyverno/use-resources": {"resources": bool}, "v2/sources/kyverno/status-counts": STATUS,
    "v2/sources/kyverno/severity-counts": SEVERITY,
    "v2/policies": [{"policy": str, "results": dict, "optional": {"source": str, "category": str, "severity": str}}],
    "v2/findings": FINDINGS, "v2/severity-findings": FINDINGS, "v2/total-results": RESOURCES,
    "v2/results-without-resources": RESULTS, "v2/properties/k": [{"namespace": str, "property": str}],
    "v2/namespace-scoped/resource-results": RESOURCES, "v2/namespace-scoped/results": RESULTS,
    "v2/namespace-scoped/kinds": [str], "v2/namespace-scoped/kyverno/status-counts": {"shop": STATUS, "other": STATUS},
    "v2/namespace-scoped/kyverno/severity-counts": {"shop": SEVERITY, "other": SEVERITY},
    "v2/cluster-scoped/resource-results": RESOURCES, "v2/cluster-scoped/results": RESULTS,
    "v2/cluster-scoped/kinds": [str], "v2/cluster-scoped/kyverno/status-counts": STATUS,
    "v2/cluster-scoped/kyverno/severity-counts": SEVERITY,
    "v2/resource/ID": {"id": str, "uid": str, "name": str, "namespace": str, "kind": str, "apiVersion": str},
    "v2/resource/ID/status-counts": [{"source": str, **STATUS}],
    "v2/resource/ID/severity-counts": [{"source": str, **SEVERITY}], "v2/resource/ID/resource-results": [RESOURCE],
    "v2/resource/ID/results": RESULTS, "v2/resource/ID/source-categories": TREE}


def fits(shape, value, where):
    if isinstance(shape, type):
        assert type(value) is shape, (where, value)
    elif isinstance(shape, list):
        assert isinstance(value, list) and value, where
        for one in value:
            fits(shape[0], one, where)
    else:
        optional = shape.get("optional", {})
        needed = {key: kind for key, kind in shape.items() if key != "optional"}
        assert isinstance(value, dict) and needed.keys() <= value.keys() <= needed.keys() | optional.keys(), (where,
                                                                                                              value)
        for key, one in value.items():
            fits(needed.get(key) or optional.get(key) or {}, one, (where, key))


@pytest.mark.parametrize("path", SHAPES)
def test_shapes(reporter, path):
    fits(SHAPES[path], reporter.get(path.replace("ID", reporter.resource())), path)


def test_the_page_lists_the_paths():
    """The page lists exactly the paths that are served"""
    listed = {line.split("`")[1] for line in PAGE.splitlines() if line.startswith("| `v")}
    served = {path.replace("ID", "<id>").replace("kyverno", "<source>").replace("properties/k", "properties/<property>")
              for path in SHAPES} | {"v2/namespaces/resolve-selector"}
    assert listed == served


# --- what differs from Policy Reporter, on purpose ---

def test_policies_of_one_name(reporter):
    """A policy has a line for each source and category, with the highest severity"""
    lines = [line for line in reporter.get("v2/policies") if line["policy"] == "p1"]
    assert lines == [
        {"source": "kyverno", "category": "Other", "policy": "p1", "severity": "low", "results": {"pass": 1}},
        {"source": "kyverno", "category": "Pods", "policy": "p1", "severity": "high",
         "results": {"fail": 1, "error": 1}}]


def test_without_a_severity(reporter):
    assert reporter.get("v2/namespace-scoped/kyverno/severity-counts")["shop"] == {
        "unknown": 1, "info": 0, "low": 1, "medium": 0, "high": 1, "critical": 0}
    (found,) = reporter.get("v2/namespace-scoped/results", severities="unknown")["items"]
    assert found["policy"] == "p2" and "severity" not in found


def test_one_resource_with_and_without_a_uid(reporter):
    """A result with the uid of a resource, and one without, are results of that resource, by either of its ids"""
    (item,) = reporter.get("v2/namespace-scoped/resource-results", resource_id=reporter.resource())["items"]
    assert item["uid"] == "u" and item["status"] == {"pass": 1, "fail": 1, "warn": 0, "error": 0, "skip": 0}
    ids = reporter.database.psql("SELECT kube_reports_internal.reporter_id(id) FROM kube_reports_internal.subject "
                                 "WHERE name = 'web' AND namespace = 'shop'").splitlines()
    assert len(ids) == 2 and item["id"] in ids
    for id in ids:
        assert reporter.get(f"v2/resource/{id}/results") == reporter.get(f"v2/resource/{ids[0]}/results")
    assert reporter.get(f"v2/resource/{ids[0]}/results")["count"] == 2
    # These filters limit the results of a resource; Policy Reporter ignores them.
    assert reporter.get(f"v2/resource/{ids[0]}/results", status="fail", policies="p1")["count"] == 1


def test_properties(reporter):
    assert reporter.get("v2/properties/k") == [{"namespace": "shop", "property": ODD}]
    assert reporter.get("v2/properties/score", namespaces="other") == []
    assert reporter.get("v2/properties/k'%20||%20'x") == []


def test_targets(reporter):
    database, cluster = reporter.database, reporter.stack.cluster
    database.psql(f"SELECT kube_reports.add_webhook('on-call', '{cluster}', 'https://hooks.example/secret?token=1', "
                  "hmac_file => 'key')")
    try:
        (target,) = reporter.get("v2/targets")["webhook"]
        assert target["name"] == "on-call" and target["host"] == "https://hooks.example" and target["auth"] is True
        assert "secret" not in json.dumps(target) and reporter.get("namespaces/shop/v2/targets") == {}
    finally:
        database.psql(f"SELECT kube_reports.remove_webhook('on-call', '{cluster}')")


# --- hostile and wrong input ---

def test_hostile_texts(reporter):
    """SQL and patterns in parameters are plain texts: rows that contain the text are found, or none"""
    for name in ("sources", "categories", "policies", "rules", "kinds", "apis", "resources", "namespaces", "status",
                 "severities", "search", "resource_id"):
        for text in ("'", "\"", "x') OR true --", "%", "_", "\\", "ü" * 1000, "{}", "$1"):
            answer = reporter.get("v2/namespace-scoped/results", **{name: text})
            found = 1 if name == "search" and text in ("_",) else 0
            assert answer == {"items": [], "count": 0} or name == "search" and found == answer["count"], (name, text)
    for name in ("labels", "exclude"):
        for text in ("a'b:c", "a:b:c", ":", "x", "\":\"", "' OR '1'='1:x"):
            assert reporter.answer("v2/namespace-scoped/results", **{name: text}).code == 200, (name, text)
    assert reporter.get("v2/namespace-scoped/results", labels="team:a")["count"] == 5
    assert reporter.get("v2/namespace-scoped/results", labels="team:b")["count"] == 0
    (found,) = reporter.get("v2/results-without-resources", sources=ODD)["items"]
    assert found["source"] == ODD and found["name"] == ""


@pytest.mark.parametrize("sort", ("policy; DROP TABLE x", "policy DESC", "r.policy", "\"policy\"", "(SELECT 1)", ""))
@pytest.mark.parametrize("path", ("v2/namespace-scoped/results", "v2/cluster-scoped/resource-results",
                                  "v2/total-results"))
def test_hostile_order(reporter, path, sort):
    answer = reporter.answer(path, sortBy=sort)
    assert answer.code == 400 and answer.json["reason"] == "BadRequest" and "sortBy" in answer.json["message"]


def test_pages(reporter):
    """Pages have every row once; a wrong number means the first page with the largest size"""
    whole = reporter.get("v2/namespace-scoped/results")
    assert whole["count"] == len(whole["items"]) == 5
    for direction in ("asc", "desc"):
        rows = [item["id"] for page in range(1, 6)
                for item in reporter.get("v2/namespace-scoped/results", page=page, offset=1,
                                         direction=direction)["items"]]
        assert sorted(rows) == sorted(item["id"] for item in whole["items"])
    for page, offset in ((-1, 1), (0, 1), (1, -1), ("x", "y"), ("", ""), (10 ** 30, 1), (1, 10 ** 30), ("1.5", 2)):
        assert reporter.get("v2/namespace-scoped/results", page=page, offset=offset) == whole
    for page in (6, 10 ** 9, 10 ** 17):
        assert reporter.get("v2/namespace-scoped/results", page=page, offset=3) == {"items": [], "count": 5}
    assert reporter.answer("v2/namespace-scoped/results", page=1, offset=10001).code == 400
    assert reporter.answer("v2/namespace-scoped/results", sortBy=["policy"] * 9).code == 400


def test_unknown(reporter):
    """Resources and paths that do not exist, other methods and media types"""
    for id in ("1", "-1", "0", "99999999999999999999999", "18446744073709551615", "x", "%27"):
        assert reporter.answer(f"v2/resource/{id}").code == 404
        assert reporter.get(f"v2/resource/{id}/results") == {"items": [], "count": 0}
        assert reporter.get(f"v2/resource/{id}/status-counts") == []
    for path in ("", "v2", "v2/nothing", "v2/findings/x", "v3/findings", "v2/sources//status-counts",
                 "v2/resource", "namespaces/Not_A_Label/v2/findings", "clusters//v2/findings"):
        assert reporter.answer(path).code == 404, path
    for method in ("POST", "PUT", "DELETE"):
        assert reporter.api.request(method, f"{PREFIX}/v2/findings").code == 405
    assert reporter.api.get(f"{PREFIX}/v2/findings", accept="text/csv").code == 406
    assert reporter.api.get(f"{PREFIX}/v2/findings", accept="text/html, */*;q=0.5").code == 200


def test_a_long_list(reporter):
    """A long list comes in pieces; without a page it has 10,000 rows, and the number of all rows"""
    reporter.database.psql(f"""
        SELECT kube_reports.create_report('{reporter.stack.cluster}',
            jsonb_build_object('apiVersion', 'wgpolicyk8s.io/v1alpha2', 'kind', 'PolicyReport',
            'metadata', jsonb_build_object('name', 'many-' || n, 'namespace', 'many'), 'results',
            (SELECT jsonb_agg(jsonb_build_object('policy', 'm' || i, 'result', 'pass', 'source', 'many',
                'resources', jsonb_build_array(jsonb_build_object('apiVersion', 'v1', 'kind', 'Pod',
                'namespace', 'many', 'name', 'pod-' || n)))) FROM generate_series(1, 1050) i))::kube_reports.report)
        FROM generate_series(1, 10) n""")
    reporter.database.derive()
    try:
        answer = reporter.get("v2/namespace-scoped/results", sources="many")
        assert answer["count"] == 10500 and len({item["id"] for item in answer["items"]}) == 10000
        assert len(reporter.get("v2/policies", sources="many")) == 1050
        page = reporter.get("v2/namespace-scoped/results", sources="many", page=3, offset=4500)
        assert len(page["items"]) == 1500 and page["count"] == 10500
    finally:
        reporter.database.psql(f"SELECT kube_reports.delete_report('{reporter.stack.cluster}', "
                               "'policyreports.wgpolicyk8s.io', 'many', 'many-' || n) FROM generate_series(1, 10) n")


# --- who sees what ---

def test_one_namespace(reporter):
    """The path of a namespace shows only reports of that namespace, whatever the parameters are"""
    for path in SHAPES:
        if path == "v2/targets":
            continue
        told = json.dumps(reporter.get(f"namespaces/other/{path.replace('ID', reporter.resource())}", namespaces="shop")
                          if not path.endswith("ID") else {})
        assert "shop" not in told and "db" not in told and "admin" not in told, path
    assert reporter.answer(f"namespaces/other/v2/resource/{reporter.resource()}").code == 404
    assert reporter.get("namespaces/other/v2/findings", namespaced="true")["total"] == 1
    assert reporter.get("namespaces/other/v2/findings")["total"] == 0
    assert reporter.get("namespaces/other/v2/total-results")["count"] == 1


def test_another_cluster(reporter):
    """A path names another cluster by uid or name; it is answered if the proxy's role may read the whole cluster"""
    database = reporter.database
    database.psql(f"SELECT kube_reports.register_cluster('{ELSEWHERE}', 'else''where')")
    document = report("x", "far", results=[result("of-another", "fail", resources=[pod("p", "far")])])
    database.psql(f"SELECT kube_reports.create_report('{ELSEWHERE}', {sql_text(document)})")
    database.derive()
    paths = (f"clusters/{ELSEWHERE}", "clusters/else'where", f"clusters/{ELSEWHERE}/namespaces/far")
    assert all(reporter.answer(f"{path}/v2/policies").code == 404 for path in paths)
    assert "of-another" not in json.dumps(reporter.get("v2/policies"))
    database.psql(f"SELECT kube_reports.grant_namespace('kube_reports_proxy', '{ELSEWHERE}', 'far')")
    assert all(reporter.answer(f"{path}/v2/policies").code == 404 for path in paths)
    database.psql(f"SELECT kube_reports.grant_cluster('kube_reports_proxy', '{ELSEWHERE}')")
    for path in paths:
        assert [line["policy"] for line in reporter.get(f"{path}/v2/policies")] == ["of-another"]
    assert reporter.answer("clusters/nothing/v2/policies").code == 404
    ours = reporter.resource()
    assert reporter.answer(f"clusters/{ELSEWHERE}/v2/resource/{ours}").code == 404
    assert reporter.get(f"clusters/{reporter.stack.cluster}/v2/resource/{ours}")["name"] == "web"


def test_authorization(reporter):
    """A user without a right to the path gets no answer"""
    for user in ("nobody", None):
        for path in ("v2/findings", "namespaces/shop/v2/findings", f"clusters/{ELSEWHERE}/v2/findings",
                     "v1/namespaces"):
            assert reporter.proxy.api(user).get(f"{PREFIX}/{path}").code == 403


def basic(user, password):
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def test_token_as_password(delegate):
    """Policy Reporter UI can send a token only as the password of HTTP Basic; on other paths this is no login"""
    delegation = delegate()
    server = delegation.apiserver
    server.token_rule = lambda spec: {"authenticated": spec["token"] == "good", "user": {"username": "ui"}}
    server.access_rule = lambda spec: {"allowed": spec["user"] == "ui"}
    api = delegation.proxy.api(None)
    path = f"{PREFIX}/v2/findings"
    assert api.request("GET", path, headers=basic("anything", "good")).code == 200
    assert server.access_reviews[-1]["spec"]["nonResourceAttributes"] == {"path": path, "verb": "get"}
    assert api.request("GET", path, headers={"Authorization": "Bearer good"}).code == 200
    for password in ("bad", "good:", ":good"):
        assert api.request("GET", path, headers=basic("good", password)).code == 401
    before = len(server.token_reviews)
    for headers in (basic("good", ""), {"Authorization": "Basic !"}, {"Authorization": "Basic Z29vZA=="}):
        assert api.request("GET", path, headers=headers).code == 403
    for path in ("/v1/export/results", "/apis/wgpolicyk8s.io/v1alpha2/policyreports", "/v1/policy-reporters"):
        assert api.request("GET", path, headers=basic("anything", "good")).code == 403
    assert len(server.token_reviews) == before


def test_selector_of_namespaces(reporter, module_apiserver):
    """Labels select namespaces that have results; kube-apiserver knows the labels"""
    delegation = Delegation(reporter.stack, module_apiserver, stack_command)
    try:
        module_apiserver.access_rule = lambda spec: {"allowed": True}
        module_apiserver.token_rule = lambda spec: {"authenticated": True, "user": {"username": "ui"}}
        for name, team in (("shop", "a"), ("other", "b"), ("empty", "a")):
            module_apiserver.put("/api/v1/namespaces", {"metadata": {"name": name, "labels": {"team": team}}})
        api = delegation.proxy.api(None)
        path = f"{PREFIX}/v2/namespaces/resolve-selector"

        def ask(selector, path=path, **query):
            return api.request("POST", path, selector, headers=basic("token", "t"), **query)
        assert ask({"team": "a"}).json == ["shop"]
        assert ask({"team": "b"}).json == ["other"] and ask({"team": "c"}).json == []
        assert ask({"team": "a"}, sources="nothing").json == ask({"team": "a"}, namespaces="other").json == []
        assert ask({"team": "a"}, path=f"{PREFIX}/namespaces/other/v2/namespaces/resolve-selector").json == []
        for selector, sent in (({"a.b/c": "x, y,z", "d": "*", "e": "!*"}, "a.b/c in (x,y,z),d,!e"), ({}, "")):
            ask(selector)
            assert urllib.parse.unquote(module_apiserver.requests[-1].path).endswith("labelSelector=" + sent)
        for bad in ("x", [], {"a": 1}, {"a": "b)"}, {"a=b": "c"}, {"": "a"}, {"a": "\u0000"}, {"a": "b;c"},
                    {"a": ["b"]}, {str(number): "a" for number in range(51)}):
            assert ask(bad).code == 400, bad
        assert ask({}, path=f"{PREFIX}/clusters/x/v2/namespaces/resolve-selector").code == 501
        assert api.request("GET", path, headers=basic("token", "t")).code == 405
        module_apiserver.trouble("/api/v1/namespaces[?]labelSelector", code=403)
        assert ask({"team": "a"}).code == 503
    finally:
        module_apiserver.calm()
        delegation.end()
    assert reporter.api.post(path, {"team": "a"}).code == 501


def test_the_page(reporter, module_apiserver):
    """The UI's configurations in the page get answers, with the rights and the Secret in the page"""
    blocks = re.findall(r"```(\w*)\n(.*?)```", PAGE, re.S)
    documents = [document for language, text in blocks if language == "yaml" for document in yaml.safe_load_all(text)]
    clusters = [cluster for document in documents for cluster in document.get("clusters", ())]
    (role,) = [document for document in documents if document.get("kind") == "ClusterRole"]
    (rule,) = role["rules"]
    (command,) = [text for language, text in blocks if not language]
    assert re.findall(r"--from-literal=(\w+)=", command) == ["username", "password"]
    assert {cluster["secretRef"] for cluster in clusters} == {re.search(r"generic (\S+)", command)[1]}
    names = {document["kind"]: document["metadata"]["name"] for document in documents if "kind" in document}
    assert names["ServiceAccount"] == names["Secret"] == re.search(r"get secret (\S+)", command)[1]
    database = reporter.database
    for uid, name in ((ELSEWHERE[:-1] + "2", "east"), (ELSEWHERE[:-1] + "3", "west")):
        database.psql(f"SELECT kube_reports.register_cluster('{uid}', '{name}')")
        database.psql(f"SELECT kube_reports.grant_cluster('kube_reports_proxy', '{uid}')")
    module_apiserver.token_rule = lambda spec: {"authenticated": True, "user": {"username": "ui"}}
    module_apiserver.access_rule = lambda spec: {
        "allowed": spec["nonResourceAttributes"]["verb"] in rule["verbs"] and any(
            spec["nonResourceAttributes"]["path"].startswith(url.rstrip("*")) for url in rule["nonResourceURLs"])}
    delegation = Delegation(reporter.stack, module_apiserver, stack_command)
    try:
        api = delegation.proxy.api(None)
        assert len(clusters) == 3
        for cluster in clusters:
            path = urllib.parse.urlsplit(cluster["host"]).path
            assert api.request("GET", path + "/v2/sources", headers=basic("token", "t")).code == 200, cluster
        assert api.request("POST", f"{PREFIX}/v2/namespaces/resolve-selector", {}, basic("token", "t")).code == 200
        assert api.request("GET", "/v1/export/results", headers=basic("token", "t")).code == 403
    finally:
        delegation.end()
