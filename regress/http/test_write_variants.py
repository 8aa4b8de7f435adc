"""The same writes at a proxy of each variant: the same bytes, results, history and counts."""

import random
import re

import pytest

import conftest
from client import APPLY, JSON_PATCH, MERGE, PARTIAL, POLR, TABLE, path_of

NAMES = [f"r{n}" for n in range(5)]
STATUSES = ["pass", "fail", "warn", "error", "skip"]

# Values that differ between two servers.
CHANCE = [(re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), b"UID"),
          (re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), b"TIME"),
          (re.compile(rb"generated-[a-z0-9]{5}"), b"generated-NAME"),
          (re.compile(rb"\b1\d{15}\b"), b"VERSION"),
          (re.compile(rb'"<?\d+s>?"'), b'"AGE"')]

# Everything that is stored of a namespace.
STATE = """
    SELECT 'object', o.name, o.evaluated_at::text, o.body::text, o.labels::text FROM kube_reports.object o
        WHERE o.namespace = :'namespace'
    UNION ALL SELECT 'result', g.name, ((to_jsonb(r) - '{origin,first_seen,since}'::text[])
                || jsonb_build_object('new', r.first_seen = r.since))::text,
            concat(to_jsonb(c) - 'last_counted', to_jsonb(s), to_jsonb(d)), ''
        FROM kube_reports_internal.result r JOIN kube_reports_internal.origin g ON g.id = r.origin
            JOIN kube_reports_internal.criterion c ON c.id = r.criterion
            JOIN kube_reports_internal.subject s ON s.id = r.subject
            JOIN kube_reports_internal.detail d ON d.id = r.detail
        WHERE g.namespace = :'namespace'
    UNION ALL SELECT 'history', g.name, e.key || ' ' || e.criterion || ' ' || e.subject,
            concat(e.old_status, '-', e.new_status, '-', e.gone_with), a.name
        FROM kube_reports_internal.report_change c JOIN kube_reports_internal.origin g ON g.id = c.origin
            JOIN kube_reports_internal.actor a ON a.id = c.actor,
            kube_reports_internal.unpacked_changes(c.ids, c.criterion, c.subject, c.old_statuses, c.new_statuses,
                c.gone_with, c.first_seen, c.old_since) e
        WHERE g.namespace = :'namespace'
    UNION ALL SELECT 'pending', p.name, '', '', '' FROM kube_reports_internal.result_pending p
        WHERE p.namespace = :'namespace'"""


@pytest.fixture(scope="module")
def pair():
    """A stack of each variant."""
    stacks = []
    try:
        for variant in ("c", "sql"):
            stacks.append(conftest.Stack(variant))
            stacks[-1].begin()
            stacks[-1].proxy(flags=["--workers=1"])
        yield stacks
    finally:
        for stack in stacks:
            stack.end()


def certain(text):
    """Returns the bytes without values that differ between two servers."""
    for pattern, replacement in CHANCE:
        text = pattern.sub(replacement, text)
    return text


def said(answer):
    return (answer.code, answer.headers.get("content-type"), answer.headers.get("retry-after"), answer.warnings,
            certain(answer.body))


def both(pair, method, path, body=None, headers=None):
    """Sends a request to both proxies, and compares the answers; returns them."""
    answers = [stack.proxies[0].api().request(method, path, body, headers or {}) for stack in pair]
    first, second = map(said, answers)
    assert first == second, f"{method} {path} {headers} {body!r:.2000}"
    return answers


def state(stack, namespace):
    return sorted(certain(stack.database.psql(STATE, user="postgres", namespace=namespace).encode()).splitlines())


def result(chance, n):
    made = {"policy": f"p{chance.randrange(4)}", "rule": f"r{n}", "result": chance.choice(STATUSES),
            "source": chance.choice(["kyverno", "trivy", ""]),
            "message": chance.choice(["m", "\u00e9\\ \"\t", "x" * 300])}
    if chance.random() < .5:
        made["timestamp"] = {"seconds": 1700000000 + chance.randrange(9), "nanos": 0}
    if chance.random() < .5:
        made["properties"] = {"cve": str(chance.randrange(3)), "exceptions": "a,b"}
    if chance.random() < .7:
        made["resources"] = [{"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": f"pod{k}"}
                             for k in range(chance.randrange(1, 3))]
    if chance.random() < .1:
        made["result"] = "unheard of"
    if chance.random() < .1:
        made["severity"] = chance.choice(["high", "bad"])
    return made


def report(chance, **metadata):
    document = {"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "metadata": metadata,
                "results": [result(chance, n) for n in range(chance.randrange(4))]}
    if chance.random() < .3:
        metadata["labels"] = {"a": chance.choice(["b", "c"])}
    if chance.random() < .15:
        metadata["finalizers"] = ["example.org/f"]
    if chance.random() < .1:
        document["unknown"] = 1
    return document


def one_request(chance, ns):
    """Returns method, path, body and headers of a random write."""
    path = path_of(POLR, ns)
    name = chance.choice(NAMES)
    query = chance.choice(["", "", "", "", "?dryRun=All", "?fieldManager=me", "?fieldValidation=Strict",
                           "?pretty=true"])
    headers = {"Accept": chance.choice([None, None, TABLE, PARTIAL, "application/yaml"])}
    headers = {key: value for key, value in headers.items() if value}
    verb = chance.choice(["create", "create", "update", "merge", "merge", "json", "apply", "delete", "broken"])
    named = f"{path}/{name}{query}"
    if verb == "create":
        document = report(chance, name=name)
        if chance.random() < .2:
            document["metadata"] = {"generateName": "generated-"}
        return "POST", path + query, document, headers
    if verb == "update":
        document = report(chance, name=name, namespace=ns)
        if chance.random() < .3:
            document["metadata"]["resourceVersion"] = "1"
        return "PUT", named, document, headers
    if verb == "merge":
        return "PATCH", named, report(chance), {**headers, "Content-Type": MERGE}
    if verb == "json":
        operations = [{"op": "add", "path": "/results/-", "value": result(chance, 9)},
                      {"op": "remove", "path": "/metadata/finalizers"}, {"op": "test", "path": "/kind", "value": "x"}]
        return "PATCH", named, [chance.choice(operations)], {**headers, "Content-Type": JSON_PATCH}
    if verb == "apply":
        query = f"?fieldManager={chance.choice('ab')}" + chance.choice(["", "&force=true"])
        return "PATCH", f"{path}/{name}{query}", report(chance, name=name), {**headers, "Content-Type": APPLY}
    if verb == "delete":
        body = chance.choice([None, {"preconditions": {"resourceVersion": "1"}}, {"propagationPolicy": "Orphan"},
                              {"dryRun": ["All"]}, {"kind": "X"}])
        return "DELETE", named, body, headers
    return chance.choice(["POST", "PUT", "DELETE"]), named if chance.random() < .5 else path, "{" * 9, headers


@pytest.mark.parametrize("seed", range(3))
def test_random_writes(pair, seed):
    """Both variants answer and store the same, whatever clients write"""
    chance = random.Random(seed)
    codes = {}
    for _ in range(150):
        for answer in both(pair, *one_request(chance, f"ns{seed}")):
            codes[answer.code] = codes.get(answer.code, 0) + 1
    assert {200, 201, 400, 404, 409} <= codes.keys(), codes
    assert state(pair[0], f"ns{seed}") == state(pair[1], f"ns{seed}")


def test_collections(pair):
    """A deletecollection with more than one dialogue deletes the same objects and results in both variants"""
    chance = random.Random(7)
    path = path_of(POLR, "many")
    for n in range(70):
        document = report(chance, name=f"r{n:02}", labels={"app": "ab"[n % 2]})
        assert {answer.code for answer in both(pair, "POST", path, document)} <= {201, 422}
    for query in ("limit=x", "continue=x", "labelSelector=%21", "dryRun=All", "labelSelector=app%3Da&limit=9",
                  "propagationPolicy=Never", "fieldSelector=metadata.name%3Dr01", "labelSelector=app%3Da", "", ""):
        both(pair, "DELETE", f"{path}?{query}")
        assert state(pair[0], "many") == state(pair[1], "many"), query
    both(pair, "DELETE", path, {"preconditions": {"resourceVersion": "1"}})
    both(pair, "DELETE", path_of("none.example/v1/nothings", "many"))


def test_costly(pair):
    """A costly write, which gets a turn of its own, has the same answers in both variants"""
    path = path_of(POLR, "large")
    results = [{"policy": "p", "rule": f"r{n}", "result": "fail", "message": "m" * 1000} for n in range(300)]
    document = {"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "metadata": {"name": "r"}}
    both(pair, "POST", path, {**document, "results": results})
    both(pair, "PATCH", f"{path}/r", {"metadata": {"labels": {"a": "b"}}}, {"Content-Type": MERGE})
    both(pair, "PUT", f"{path}/r", {**document, "results": results[:200] + [{"policy": 1}]})
    both(pair, "POST", path, {**document, "results": results})
    assert [both(pair, method, f"{path}/r")[0].code for method in ("DELETE", "DELETE")] == [200, 404]


def test_namespace_sweep(pair):
    """The sweep of a dead namespace deletes its objects, whatever their finalizers, and their results"""
    chance = random.Random(9)
    for n in range(12):
        both(pair, "POST", path_of(POLR, "dead"), report(chance, name=f"r{n}"))
    for stack in pair:
        stack.database.psql(f"""
            SELECT kube_reports_internal.api_namespace('{stack.cluster}', 'dead', '', 'one', false);
            SELECT kube_reports_internal.api_namespace('{stack.cluster}', 'dead', 'one', 'two', false);
            CALL kube_reports_internal.api_sweep('{stack.cluster}', 'dead', 'one', '', now(), NULL);
            CALL kube_reports_internal.api_sweep('{stack.cluster}', 'dead', 'one', '', now(), NULL)""")
        assert stack.database.psql("SELECT count(*) FROM kube_reports.object o WHERE o.namespace = 'dead'") == "0"
    assert state(pair[0], "dead") == state(pair[1], "dead")


def test_setting_of_a_moment_ago(pair):
    """A write is decided by the settings at the time when it is stored, not by those that the proxy has read before"""
    kind = POLR.split("/")
    document = {"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport",
                "results": [{"policy": "p", "result": "fail"}]}
    for turn in range(4):
        for stack in pair:
            stack.database.psql(f"SELECT kube_reports.set_summaries('{kind[2]}.{kind[0]}', {turn % 2 == 0})")
        first, _ = both(pair, "POST", path_of(POLR, "moment"), {**document, "metadata": {"name": f"r{turn}"}})
        assert first.code == 201 and ("summary" in first.json) == (turn % 2 == 0)


def test_round_trips(pair):
    """A create takes one call of the database, a change of an object two, a refused create none"""
    proxy = pair[1].proxies[0]

    def calls():
        counted = [proxy.series("kube_reports_database_call_duration_seconds_count", call=call) or 0
                   for call in ("load", "commit", "write")]
        return tuple(map(int, counted))

    api, path = proxy.api(), path_of(POLR, "trips")
    document = {"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "metadata": {"name": "r"}}
    for method, where, body, cost in (("POST", path, document, (0, 1, 0)),
                                      ("POST", path, {**document, "results": 1}, (0, 0, 0)),
                                      ("PATCH", f"{path}/r", {"metadata": {"labels": {"a": "b"}}}, (1, 1, 0)),
                                      ("PATCH", f"{path}/r", {}, (1, 0, 0)),
                                      ("POST", path, document, (0, 1, 0)),
                                      ("DELETE", f"{path}/r", None, (1, 1, 0)),
                                      ("DELETE", f"{path}/r", None, (1, 0, 0))):
        before = calls()
        kind = {"Content-Type": MERGE} if method == "PATCH" else {}
        api.request(method, where, body, kind)
        assert tuple(after - was for after, was in zip(calls(), before)) == cost, (method, body)
