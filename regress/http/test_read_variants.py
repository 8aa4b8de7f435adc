"""
Reads of both variants: for the variant in SQL the proxy plans and renders, and answers with the bytes of the
C variant.

The reports are written in the variant in C, and their rows copied into a database of the other variant.
"""

import random

import pytest

import conftest
from client import CPOLR, PARTIAL, PARTIAL_LIST, POLR, TABLE, path_of, report, result, run, until

PRETTY = {"pretty": "true"}
COLUMNS = {
    "kube_reports.object": "cluster_id, resource_type, namespace, name, uid, version, metadata, body, evaluated_at",
    "kube_reports_internal.change":
        "lane, version, operation, namespace, name, at, actor, old_version, old_metadata, old_body",
}


def stack_of(variant, cluster=None):
    """Starts a stack whose database has this variant."""
    made = conftest.Stack(variant)
    made.cluster = cluster or made.cluster
    return made.begin()


def copy_rows(source, target, after=0):
    """Copies objects and log above a version, and the floors of lanes, in one transaction."""
    script = "BEGIN; SET LOCAL session_replication_role = replica;\n"
    for table, columns in COLUMNS.items():
        rows = run(["psql", "-X", "-q", "-d", source.connection("postgres"), "-c",
                    f"COPY (SELECT {columns} FROM {table} WHERE version > {after}) TO STDOUT"]).out
        script += f"COPY {table} ({columns}) FROM STDIN;\n{rows}\\.\n"
    lanes = source.psql("SELECT string_agg(format('(%s, %s)', id, floor), ', ') FROM kube_reports_internal.lane",
                        user="postgres")
    target.psql(script + "UPDATE kube_reports_internal.lane l SET floor = v.floor "
                f"FROM (VALUES {lanes}) v(id, floor) WHERE v.id = l.id; COMMIT", user="postgres")


def fill(api):
    """Creates objects of several sizes in several namespaces; changes and deletes some of them."""
    chance = random.Random(11)
    for n in range(60):
        labels = {"n": str(n % 5), "even": str(n % 2 == 0).lower()} if n % 7 else None
        results = [result(policy=f"policy-{i}", outcome=chance.choice(("pass", "fail", "warn", "error", "skip")),
                          message='"\\\u0001 \u00e4 \U0001f600 ' * chance.randrange(9)) for i in range(n % 13)]
        api.create(POLR, report(f"r-{n:03}", labels=labels, results=results), f"ns-{n % 3}")
    for n in range(9):
        api.create(CPOLR, report(f"c-{n}", resource=CPOLR))
    api.create(POLR, report("large", results=[result(policy=f"p-{i}", message="words " * 40) for i in range(4000)]),
               "ns-0")
    for n in range(0, 60, 4):
        path = path_of(POLR, f"ns-{n % 3}", f"r-{n:03}")
        assert api.patch(path, {"metadata": {"labels": {"even": "no", "changed": str(n)}}}).code == 200
    for n in range(0, 60, 9):
        assert api.delete(path_of(POLR, f"ns-{n % 3}", f"r-{n:03}")).code == 200


@pytest.fixture(scope="module")
def pair():
    """The proxies of both variants, with the same rows; the versions of the log of policy reports; the databases."""
    stacks = [stack_of("c")]
    try:
        stacks.append(stack_of("sql", stacks[0].cluster))
        first, second = stacks[0].proxy(), stacks[1]
        fill(first.api())
        copy_rows(stacks[0].database, second.database)
        apis = [first.api(), second.proxy(ready=False).wait_ready().api()]
        versions = stacks[0].database.psql(
            "SELECT string_agg(version::text, ' ' ORDER BY version) FROM kube_reports_internal.change "
            "WHERE namespace <> ''").split()
        yield apis, [int(version) for version in versions], [made.database for made in stacks]
    finally:
        for stack in stacks:
            stack.end()


def same(pair, path, accept=None, **query):
    """Asks both variants, and compares code, type and bytes; asks again, because ages may differ by a second."""
    def answers():
        given = [api.get(path, accept=accept, **query) for api in pair[0]]
        return [(answer.code, answer.headers.get("content-type"), answer.body) for answer in given]
    for _ in range(3):
        one, other = answers()
        if one == other:
            return one
    assert one == other
    return one


@pytest.mark.parametrize("accept", (None, PARTIAL, TABLE, "application/yaml", "text/plain"))
@pytest.mark.parametrize("query", ({}, PRETTY, {"includeObject": "Object"}, {"resourceVersion": "x"}))
def test_get(pair, accept, query):
    """A get of each kind of object"""
    for namespace, name in (("ns-1", "r-001"), ("ns-0", "large"), ("ns-0", "r-000"), ("ns-9", "missing")):
        same(pair, path_of(POLR, namespace, name), accept, **query)
    same(pair, path_of(CPOLR, None, "c-3"), accept, **query)


@pytest.mark.parametrize("accept", (None, PARTIAL_LIST, TABLE, "application/yaml"))
@pytest.mark.parametrize("query", (
    {}, PRETTY, {"includeObject": "Object"}, {"includeObject": "None"}, {"labelSelector": "even=true"},
    {"fieldSelector": "metadata.name=r-004"}, {"fieldSelector": "metadata.namespace!=ns-1"},
    {"labelSelector": "n in (1,2),changed"}, {"labelSelector": "=="}, {"fieldSelector": "spec.x=1"},
    {"resourceVersion": "0"}, {"resourceVersion": "1", "resourceVersionMatch": "Exact"},
    {"resourceVersion": "999999999999999"}, {"continue": "x"}, {"limit": "-1"}))
def test_list(pair, accept, query):
    """A list in each form, of a namespace and of all"""
    for path in (path_of(POLR), path_of(POLR, "ns-2"), path_of(CPOLR), path_of(POLR, "none")):
        same(pair, path, accept, **query)


@pytest.mark.parametrize("accept", (None, TABLE))
@pytest.mark.parametrize("limit", (1, 7, 50, 500))
def test_pages(pair, accept, limit):
    """Pages have the same objects, tokens and numbers"""
    for path in (path_of(POLR), path_of(POLR, "ns-1")):
        token, pages = "", 0
        while token is not None and pages < 12:
            code, _, _ = same(pair, path, accept, limit=limit, **({"continue": token} if token else {}))
            assert code == 200
            listed = pair[0][0].get(path, limit=limit, **({"continue": token} if token else {})).json["metadata"]
            token, pages = listed.get("continue") or None, pages + 1


def test_versions(pair):
    """Lists at versions of the past, with selectors"""
    for version in pair[1][::6]:
        exact = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
        same(pair, path_of(POLR), **exact)
        same(pair, path_of(POLR), TABLE, **exact)
        same(pair, path_of(POLR), labelSelector="even=no", **exact)
        same(pair, path_of(POLR, "ns-0"), limit=3, **exact)


def events_of(api, path, accept, count, query):
    """Returns the first events of a watch."""
    with api.watch(path, accept=accept, **query) as watch:
        return [watch.event() for _ in range(count)]


@pytest.mark.parametrize("accept", (None, PARTIAL, TABLE))
def test_watch(pair, accept):
    """A watch from a version, and one with initial events"""
    start = pair[1][0] - 1
    asked = [({"resourceVersion": start}, 60), ({"resourceVersion": start, "labelSelector": "even=true"}, 20),
             ({"resourceVersion": start, "labelSelector": "changed"}, 10), ({}, 50)]
    if accept != TABLE:
        asked.append(({"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan",
                       "allowWatchBookmarks": "true"}, 50))
    for query, count in asked:
        def compare():
            one, other = [events_of(api, path_of(POLR), accept, count, query) for api in pair[0]]
            return one == other
        until(compare, 5, "both variants to tell the same events")


@pytest.mark.parametrize("accept", (None, PARTIAL, TABLE))
def test_feed(pair, accept):
    """Open watches get what is written, and a bookmark before they end"""
    apis, _, (source, target) = pair
    namespace = f"fed-{len(accept or '')}"
    newest = int(source.psql("SELECT max(version) FROM kube_reports_internal.change", user="postgres"))
    start = source.psql("SELECT max(version) FROM kube_reports_internal.change WHERE namespace <> ''", user="postgres")
    query = {"allowWatchBookmarks": "true", "timeoutSeconds": 6, "resourceVersion": start}
    with apis[0].watch(path_of(POLR), accept=accept, **query) as one, \
            apis[1].watch(path_of(POLR), accept=accept, **query) as other:
        for n in range(3):
            apis[0].create(POLR, report(f"fed-{n}", results=[result()] * n), namespace)
        copy_rows(source, target, newest)
        told = [watch.end() for watch in (one, other)]
    assert [kind for kind, _ in told[0]] == ["ADDED"] * 3 + ["BOOKMARK"]
    for _, document in (*told[0], *told[1]) if accept == TABLE else ():
        for row in document["rows"]:
            # Remove the age, which depends on the time when the event was rendered.
            row["cells"].pop()
    assert told[0] == told[1]


def test_watch_too_old(pair):
    """A watch from a version before the log, and from a wrong version"""
    for query in ({"resourceVersion": 1}, {"resourceVersion": "x"}):
        same(pair, path_of(POLR), watch="true", timeoutSeconds=1, **query)


def test_documents(pair):
    """Discovery and OpenAPI"""
    index = pair[0][0].get("/openapi/v3").json["paths"]
    for path in ("/apis", "/api", "/openapi/v3", "/openapi/v2", "/version", "/apis/wgpolicyk8s.io",
                 "/apis/wgpolicyk8s.io/v1alpha2", *(entry["serverRelativeURL"] for entry in index.values())):
        code, _, _ = same(pair, path)
        assert code == 200
    same(pair, "/apis", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
    same(pair, "/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
