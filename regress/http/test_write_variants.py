"""The same writes at a proxy of each variant: the same bytes, results, history and counts."""

import json
import random
import re

import pytest

import conftest
from client import APPLY, JSON_PATCH, MERGE, PARTIAL, POLR, TABLE, path_of

NAMES = [f"r{n}" for n in range(5)]
STATUSES = ["pass", "fail", "warn", "error", "skip"]

# What two servers cannot agree on.
CHANCE = [(re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), b"UID"),
          (re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), b"TIME"),
          (re.compile(rb"generated-[a-z0-9]{5}"), b"generated-NAME"),
          (re.compile(rb"\b1\d{15}\b"), b"VERSION"),
          (re.compile(rb'"<?\d+s>?"'), b'"AGE"')]

STATE = """
    SELECT 'object', o.namespace, o.name, o.evaluated_at::text, o.body::text, o.labels::text, '', ''
        FROM kube_reports.object o
    UNION ALL SELECT 'result', g.namespace, g.name, r.key::text, r.criterion::text, r.subject::text, r.detail::text,
            r.status || r.native_status || r.score || (r.first_seen = r.since)
        FROM kube_reports_internal.result r JOIN kube_reports_internal.origin g ON g.id = r.origin
    UNION ALL SELECT 'criterion', c.id::text, c.source, c.policy, c.rule, c.category, c.severity, ''
        FROM kube_reports_internal.criterion c
    UNION ALL SELECT 'subject', s.id::text, s.api_version, s.kind, s.namespace, s.name, s.uid, ''
        FROM kube_reports_internal.subject s
    UNION ALL SELECT 'detail', d.id::text, d.message, d.properties::text, d.exceptions::text, '', '', ''
        FROM kube_reports_internal.detail d
    UNION ALL SELECT 'actor', a.id::text, a.name, '', '', '', '', '' FROM kube_reports_internal.actor a
    UNION ALL SELECT 'history', g.namespace, g.name, e.key::text, e.criterion::text, e.subject::text,
            coalesce(e.old_status, '-') || coalesce(e.new_status, '-') || coalesce(e.gone_with, '-'), c.actor::text
        FROM kube_reports_internal.report_change c JOIN kube_reports_internal.origin g ON g.id = c.origin,
            kube_reports_internal.unpacked_changes(c.keys, c.criteria, c.subjects, c.old_statuses, c.new_statuses,
                c.gone_with, c.first_seen, c.old_since) e
    UNION ALL SELECT 'pending', p.namespace, p.name, '', '', '', '', '' FROM kube_reports_internal.result_pending p
    ORDER BY 1, 2, 3, 4, 5, 6, 7, 8"""


@pytest.fixture(scope="module")
def pair():
    """A stack of each variant."""
    stacks = []
    installed = conftest.VARIANT
    try:
        for variant in ("c", "sql"):
            conftest.VARIANT = variant
            stacks.append(conftest.Stack())
            stacks[-1].begin()
            if variant == "sql":  # STANDIN
                stacks[-1].database.psql("CREATE OR REPLACE FUNCTION kube_reports_internal.served_documents(definitions kube_reports.report[],OUT path text, OUT content_type text, OUT etag text, OUT body bytea) RETURNS SETOF record LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$ BEGIN RETURN; END $$", user="postgres")  # STANDIN
            stacks[-1].proxy(flags=["--workers=1"])
        yield stacks
    finally:
        conftest.VARIANT = installed
        for stack in stacks:
            stack.end()


def said(answer):
    """An answer without what two servers cannot agree on."""
    body = answer.body
    for pattern, replacement in CHANCE:
        body = pattern.sub(replacement, body)
    return answer.code, answer.headers.get("content-type"), answer.headers.get("retry-after"), answer.warnings, body


def both(pair, method, path, body=None, headers=None):
    """Sends a request to both proxies; the answers."""
    answers = [stack.proxies[0].api().request(method, path, body, headers or {}) for stack in pair]
    first, second = map(said, answers)
    assert first == second, f"{method} {path} {headers} {body!r:.2000}"
    return answers


def state(stack):
    return stack.database.psql(STATE, user="postgres").splitlines()


def result(chance, n):
    made = {"policy": f"p{chance.randrange(4)}", "rule": f"r{n}", "result": chance.choice(STATUSES),
            "source": chance.choice(["kyverno", "trivy", ""]), "message": chance.choice(["m", "\u00e9\\ \"\t", "x" * 300])}
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
    """Method, path, body, headers of a random write."""
    path = path_of(POLR, ns)
    name = chance.choice(NAMES)
    query = chance.choice(["", "", "", "", "?dryRun=All", "?fieldManager=me", "?fieldValidation=Strict", "?pretty=true"])
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
    """Whatever clients write, both variants say and keep the same"""
    chance = random.Random(seed)
    codes = {}
    for _ in range(150):
        for answer in both(pair, *one_request(chance, f"ns{seed}")):
            codes[answer.code] = codes.get(answer.code, 0) + 1
    assert {200, 201, 400, 404, 409} <= codes.keys(), codes
    assert state(pair[0]) == state(pair[1])
