"""What one document may cost: memory and work grow with its size only, and other documents do not suffer (issue 13)."""

import json

import psycopg2
import pytest

from client import JSON_PATCH, POLR, failure, path_of, report, result, sql_text
from conftest import only_c_because

pytestmark = only_c_because("measures a backend that runs the engine")

KIB, MIB = 1024, 1024 * 1024

# The budget of an arena (FLOOR, PER_BYTE), and room for what is outside of it: the texts themselves, rows, sorts.
FLOOR = 32 * MIB
PER_BYTE = 50
BESIDE = 24 * MIB

# Bounded work takes a second at most, and little more than this on a slow machine under load.  Without a bound it took
# much longer.
PATIENCE = "10s"


class Backend:
    """A database session, with the memory that its process takes."""

    def __init__(self, stack):
        self.cluster = stack.cluster
        self.connection = psycopg2.connect(stack.database.connection())
        self.connection.autocommit = True
        self.run(f"SET statement_timeout = '{PATIENCE}'")
        # Compiled definitions stay in memory: compile them before a test measures.
        self.write(report("warm-up", "warm-up", results=[result()]))

    def run(self, sql, *values):
        with self.connection.cursor() as cursor:
            cursor.execute(sql, values)
            return cursor.fetchall() if cursor.description else None

    def status(self, field):
        with open(f"/proc/{self.connection.info.backend_pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) * KIB for line in file if line.startswith(field + ":"))

    def peak(self, sql, *values):
        """Returns the rows of a statement, and the most by which the memory grew while it ran."""
        with open(f"/proc/{self.connection.info.backend_pid}/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
        before = self.status("VmRSS")
        rows = self.run(sql, *values)
        return rows, self.status("VmHWM") - before

    def write(self, *documents, verb="create", kind="application/json", **query):
        """Writes a batch; returns the codes and bodies of the answers, the warnings, and the growth of memory."""
        requests, bodies = [], []
        for document in documents:
            text = document if isinstance(document, str) else json.dumps(document, separators=(",", ":"))
            request = {"verb": verb, "group": "wgpolicyk8s.io", "version": "v1alpha2", "resource": "policyreports",
                       "namespace": "warm-up",
                       "contentType": kind, "username": "u", "query": query}
            if verb != "create":
                request["name"] = "patched"
            requests.append(json.dumps(request))
            bodies.append(text.encode())
        [(codes, replies, warnings)], grown = self.peak(
            "SELECT w.codes, w.replies, w.warnings "
            "FROM kube_reports_internal.write_batch(%s, %s::jsonb[], %s::bytea[]) w",
                                                        self.cluster, requests, bodies)
        return codes, [bytes(reply) for reply in replies], warnings, grown

    def close(self):
        self.connection.close()


@pytest.fixture(scope="module")
def backend(stack):
    made = Backend(stack)
    yield made
    made.close()


def allowed(*texts):
    return FLOOR + PER_BYTE * sum(map(len, texts)) + BESIDE


def in_document(name, metadata="", body=""):
    """Returns a policy report as text."""
    return ('{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"%s",'
            '"namespace":"warm-up"%s}%s}'
            % (name, metadata, body))


# Derives the results of a document that is not stored, as a write does.
DIFFERENCE = ("SELECT count(*), count(DISTINCT d.subject), count(DISTINCT d.detail), sum(octet_length(d.message)), "
              "count(d.policy)"
              " FROM kube_reports_internal.mapping_for(%s::text::kube_reports.report) m,"
              " kube_reports_internal.result_difference(m.mapping_id, m.mapping, 0, NULL, NULL, NULL, "
              "%s::text::kube_reports.report) d")


def subjects(count):
    return [{"name": f"a{n}"} for n in range(count)]


def test_one_message_of_many_resources(backend):
    """The database hashes and returns the message of a result once for all its subjects"""
    document = json.dumps(report("many", results=[result(message="m" * 95000, resources=subjects(10000))]),
                          separators=(",", ":"))
    rows, grown = backend.peak(DIFFERENCE, document, document)
    assert rows == [(10000, 10000, 1, 95000, 1)] and grown < allowed(document), grown // MIB


def test_equal_messages_of_many_resources(backend):
    """Equal messages of two results about the same subjects are compared once"""
    document = json.dumps(report("pairs",
                                 results=[result(message="m" * 700000, resources=subjects(20000)) for _ in range(2)]),
                          separators=(",", ":"))
    rows, grown = backend.peak(DIFFERENCE, document, document)
    assert rows == [(40000, 20000, 1, 1400000, 2)] and grown < allowed(document), grown // MIB


def test_rows_of_one_message(backend):
    """The rows of a result about several resources share one detail"""
    document = report("several", "warm-up",
                      results=[result(message="of several", resources=subjects(100), properties={"a": "b"}),
                                                                        result("other", message="of one",
                                                                            resources=subjects(1))])
    assert backend.write(document)[0] == [201]
    assert backend.run("SELECT c.policy, d.message, d.properties::text, count(*), count(DISTINCT r.subject) FROM "
                       "kube_reports_internal.result r"
                       " JOIN kube_reports_internal.origin o ON o.id = r.origin JOIN kube_reports_internal.detail d ON "
                       "d.id = r.detail"
                       " JOIN kube_reports_internal.criterion c ON c.id = r.criterion WHERE o.namespace = 'warm-up' "
                       "AND o.name = 'several'"
                       " GROUP BY 1, 2, 3 ORDER BY 1") == [("other", "of one", "{}", 1, 1),
                           ("require-labels", "of several", '{"a": "b"}', 100, 100)]
    assert backend.run("SELECT r.policy, r.message, r.properties::text, count(*), count(DISTINCT r.name) FROM "
                       "kube_reports.results(%s::text::kube_reports.report) r"
                       " GROUP BY 1, 2, 3 ORDER BY 1", json.dumps(document)) == [("other", "of one", "{}", 1, 1),
                           ("require-labels", "of several", '{"a": "b"}', 100, 100)]


HOSTILE = {
    "managed fields that are values": in_document("managed", ',"managedFields":[{"manager":"m","operation":"Update",'
                                                  '"fieldsType":"FieldsV1",'
                                                  '"apiVersion":"wgpolicyk8s.io/v1alpha2","fieldsV1":{%s}}]'
                                                  % ",".join(f'"v:[{n}]":{{}}' for n in range(200000))),
    "owners without names": in_document("owners", ',"ownerReferences":[%s]' % ",".join(["{}"] * 900000)),
    "zeros": in_document("zeros", "", ',"x":[%s]' % ",".join(["0"] * 2200000)),
    "empty results": in_document("empty", "", ',"results":[%s]' % ",".join(['{"policy":"p"}'] * 150000)),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_memory_of_an_admission(backend, case):
    document = HOSTILE[case]
    codes, _, _, grown = backend.write(document, dryRun=["All"])
    assert codes[0] in (201, 413, 422) and grown < allowed(document), (codes, grown // MIB)


@pytest.fixture(scope="module")
def maps(stack):
    """
    A type whose objects have members with any name: parts, with known members each, and embedded resources.
    """
    group = "limits.example"
    schema = {"type": "object", "properties": {
        "text": {"type": "string", "pattern": "[a-z]+[0-9]"},
        "parts": {"type": "object", "additionalProperties": {"type": "object",
            "properties": {"known": {"type": "string"}}}},
        "embedded": {"type": "object", "additionalProperties": {"type": "array", "items": {
            "type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}}}}}
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
           "metadata": {"name": f"maps.{group}"},
           "spec": {"group": group, "scope": "Namespaced",
                    "names": {"plural": "maps", "singular": "map", "kind": "Map", "listKind": "MapList"},
                    "versions": [{"name": "v1", "served": True, "storage": True,
                                  "schema": {"openAPIV3Schema": schema}}]}}
    stack.database.psql(f"SELECT kube_reports.register_crd({sql_text(json.dumps(crd))}::jsonb)")
    yield f"{group}/v1"
    stack.unregister(f"maps.{group}")


def admit(backend, version, document):
    """Calls write_admit() for a create; returns the code, the warnings, and the growth of memory."""
    group, _, version = version.partition("/")
    request = {"verb": "create", "group": group, "version": version, "resource": "maps", "namespace": "warm-up",
               "contentType": "application/json", "username": "u", "query": {}}
    sql = ("SELECT a.code, a.warnings FROM kube_reports.resource_type t JOIN kube_reports_internal.resource_version v "
           "ON v.resource_type = t.id,"
           " kube_reports_internal.write_admit(v.id, v.definition, %s, %s, false, NULL, NULL, NULL,"
           " NULL) a WHERE t.\"group\" = %s")
    # The first call compiles the definition.
    backend.run(sql, json.dumps(request), b"{}", group)
    [(code, warnings)], grown = backend.peak(sql, json.dumps(request), document.encode(), group)
    return code, warnings, grown


@pytest.mark.parametrize("where", ["parts", "embedded"])
def test_warnings_below_a_long_key(backend, maps, where):
    """A path is shortened before it is repeated for each unknown field below it"""
    key = "k" * 300000
    below = ({f"u{n}": 1 for n in range(1000)} if where == "parts" else
             [{"apiVersion": "v1", "kind": "A", "metadata": {"name": "a", f"u{n}": 1}} for n in range(2000)])
    document = json.dumps({"apiVersion": maps, "kind": "Map", "metadata": {"name": "x", "namespace": "warm-up"},
                           where: {key: below}}, separators=(",", ":"))
    code, warnings, grown = admit(backend, maps, document)
    assert code == 201 and grown < allowed(document), grown // MIB
    assert warnings and all(len(text) <= 256 for text in warnings) and warnings[0].startswith(f'unknown field "{where}')


def test_pattern_over_a_long_text(backend, maps):
    """The work of a search is bounded over all places where a match may begin: answers come at once"""
    text = {"apiVersion": maps, "kind": "Map", "metadata": {"name": "x", "namespace": "warm-up"}}
    code, _, _ = admit(backend, maps, json.dumps({**text, "text": "a" * 200000}))
    assert code == 422
    code, _, _ = admit(backend, maps, json.dumps({**text, "text": "a" * 200000 + "1"}))
    assert code == 201


def test_pretty_printing_of_many_levels(backend):
    """Indentation grows with the depth only up to a limit"""
    body = '{"x":%s%s%s}' % ("[" * 900, ",".join(["0"] * 100000), "]" * 900)
    [(pretty,)], grown = backend.peak(
        "SELECT convert_from(kube_reports_internal.render_object(v.id, v.definition, p.transform, '{\"name\":\"x\"}', "
                                      "%s, 1), 'UTF8')"
        " FROM kube_reports.resource_type t JOIN kube_reports_internal.resource_version v ON v.resource_type = t.id,"
        " kube_reports_internal.get_plan(v.id, v.definition, %s) p WHERE t.plural = 'policyreports'", body,
        json.dumps({"verb": "get", "group": "wgpolicyk8s.io", "version": "v1alpha2", "resource": "policyreports",
                    "namespace": "n", "name": "x",
                    "query": {"pretty": ["true"]}}))
    inner = json.loads(pretty)["x"]
    for _ in range(899):
        [inner] = inner
    assert inner == [0] * 100000 and pretty.startswith('{\n  "apiVersion"')
    assert grown < allowed(body), grown // MIB


def patched(backend, patch):
    """Applies a JSON patch to a report with 400,000 resources; returns the code of the answer."""
    backend.run("DELETE FROM kube_reports.object WHERE namespace = 'warm-up' AND name = 'patched'")
    stored = in_document("patched", ',"annotations":{"a":"1"}',
                         ',"results":[{"policy":"p","properties":{"b":"1"},"resources":[%s]}]'
                         % ",".join(["{}"] * 400000))
    assert backend.write(stored)[0] == [201]
    codes, _, _, grown = backend.write(patch, verb="patch", kind=JSON_PATCH, fieldManager=["m"])
    assert grown < allowed(stored, json.dumps(patch)), grown // MIB
    return codes[0]


def test_patch_of_many_moves(backend):
    """A move measures the moved value, not the whole document"""
    places = "/metadata/annotations/a", "/results/0/properties/a"
    assert patched(backend, [{"op": "move", "from": places[n % 2], "path": places[(n + 1) % 2]}
                             for n in range(10000)]) == 200
    # At this depth, each move uses up the bound on the depth.
    nested = {}
    for _ in range(500):
        nested = [nested]
    places = "/metadata/annotations/a", "/deep" + "/0" * 500 + "/a"
    assert patched(backend, [{"op": "add", "path": "/deep", "value": nested},
                             *({"op": "move", "from": places[n % 2], "path": places[(n + 1) % 2]} for n in range(2004)),
                             {"op": "remove", "path": "/deep"}]) == 200


def test_patch_of_many_inserts(backend):
    """The work of an insert at the front of a long array is that of moving the other elements"""
    inserts = [{"op": "add", "path": "/results/0/resources/0", "value": {}} for _ in range(10000)]
    assert patched(backend, inserts[:100]) == 200
    assert patched(backend, inserts) == 413


def test_a_neighbour_in_the_batch(backend):
    """A document over its budget is refused alone; the other documents of the batch are stored"""
    document = HOSTILE["owners without names"]
    codes, replies, _, _ = backend.write(report("one", "warm-up"), document, report("two", "warm-up"))
    assert codes == [201, 413, 201]
    status = json.loads(replies[1])
    assert (status["reason"], status["code"]) == ("RequestEntityTooLarge",
                                                  413) and "too much memory" in status["message"]


def test_over_the_wire(api, ns):
    """Such a document gets 413 from the API; the next one is served"""
    document = HOSTILE["owners without names"].replace("warm-up", ns)
    failure(api.post(path_of(POLR, ns), document), 413, "RequestEntityTooLarge")
    api.create(POLR, report("next"), ns)


def test_an_error_in_sql(backend):
    """A SQL function raises an error with SQLSTATE 54000 for such a document"""
    document = in_document("x", "", ',"results":[%s]' % ",".join(["{}"] * 1000000))
    with pytest.raises(psycopg2.errors.ProgramLimitExceeded) as raised:
        backend.run("SELECT count(*) FROM kube_reports.results(%s::text::kube_reports.report)", document)
    assert raised.value.diag.message_primary == "document takes too much memory" and raised.value.diag.message_hint
