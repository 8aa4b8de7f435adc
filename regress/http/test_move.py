"""
One cluster moves to another database with the commands of the page: its clients go on, and the other clusters of both
databases notice nothing.
"""

import json
import os
import threading
import uuid

import pytest

from client import POLR, failure, path_of, report, result, until
from conftest import Database, Proxy, Stack, own_certificates, run
from runbook import block
from variants import both_variants

PAGE = "COPY kube_reports.arriving_row"
UID = "3b241101-e2bb-4255-8caf-4136c566a962"


class Neighbour:
    """A cluster with a writer that never stops, and a watch from its first version."""

    def __init__(self, proxy, name):
        self.api, self.name, self.refused = proxy.api(), name, []
        listed = self.api.get(path_of(POLR, name)).json
        self.watch = self.api.watch(path_of(POLR, name), resourceVersion=listed["metadata"]["resourceVersion"])
        self.written = 0
        self.ends = threading.Event()
        self.writer = threading.Thread(target=self._write, args=(proxy.api(),))
        self.writer.start()

    def _write(self, api):
        while not self.ends.is_set():
            document = report(f"r{self.written}", self.name, results=[result("shared")])
            answer = api.post(path_of(POLR, self.name), document)
            if answer.code != 201:
                self.refused.append(answer)
            self.written += 1

    def end(self):
        """Stops the writer; checks that no write was refused, and that the watch has brought each write."""
        self.ends.set()
        self.writer.join(60)
        assert self.refused == [] and self.written > 0
        self.watch.expect(*(("ADDED", f"r{number}") for number in range(self.written)))
        self.watch.close()


def commands(old, new, pages_cluster=UID, cluster=None, part=None):
    """Runs the page's commands for these databases, or only those that contain a text; returns the outcome."""
    text = block(PAGE).replace(pages_cluster, cluster or pages_cluster)
    lines = text.replace("|\n", "| ").splitlines()
    text = "\n".join(line for line in lines if part is None or part in line)
    text = text.replace("-d old", f"-d '{old.connection()}'").replace("-d new", f"-d '{new.connection()}'")
    return run(["bash", "-c", f"set -e -o pipefail\n{text}"], env={**os.environ, "PGOPTIONS": ""}, check=False)


def proxy_of(database, cluster, role):
    database.psql(f"CREATE ROLE {role} LOGIN", user="postgres")
    database.psql(f"SELECT kube_reports.grant_proxy('{role}', '{cluster}')")
    return Proxy(database, cluster, own_certificates(f"{database.directory}/{role}"), user=role).wait_ready()


@pytest.fixture(scope="module")
def homes():
    """Two databases on two servers, each with a cluster that stays; the first has the cluster that moves, too."""
    old, new, proxies = Stack(), Database(), []
    try:
        old.begin()
        new.start()
        new.prepare(str(uuid.uuid4()))
        yield old, new, proxies
    finally:
        for proxy in proxies:
            proxy.stop()
        old.end()
        new.remove()


# Queries about a cluster that give the same rows in both databases: they select no ids.
ANSWERS = (
    "SELECT namespace, name, uid, version, metadata::text, body::text, evaluated_at FROM kube_reports.object o "
    "WHERE o.cluster_id = k.id ORDER BY 1, 2",
    "SELECT to_jsonb(r) FROM kube_reports.typed_result r WHERE r.cluster = k.uid ORDER BY 1",
    "SELECT h.at, h.version, g.name, h.key, e.policy, s.name AS subject, a.name AS actor, h.old_status, h.new_status, "
    "h.gone_with, h.namespace, h.first_seen, h.old_since, h.settles_at FROM kube_reports_internal.result_change h "
    "JOIN kube_reports_internal.origin g ON g.id = h.origin "
    "JOIN kube_reports_internal.criterion e ON e.id = h.criterion "
    "JOIN kube_reports_internal.subject s ON s.id = h.subject JOIN kube_reports_internal.actor a ON a.id = h.actor "
    "WHERE h.cluster_id = k.id ORDER BY h.version, h.key",
    "SELECT to_jsonb(s) FROM kube_reports.status_counts s WHERE s.cluster = k.uid ORDER BY 1",
    "SELECT g.version, g.operation, g.name, g.at, g.actor, g.old_version, g.old_body::text "
    "FROM kube_reports_internal.change g JOIN kube_reports_internal.lane l ON l.id = g.lane "
    "WHERE l.cluster_id = k.id ORDER BY 1",
)


def answers(database, cluster):
    return [database.psql(f"SELECT a::text FROM kube_reports.cluster k, LATERAL ({sql}) a WHERE k.uid = '{cluster}'")
            for sql in ANSWERS]


def fill(api):
    """Stores reports with history; returns the version before the last changes."""
    for number in range(30):
        api.create(POLR, report(f"r{number}", "ns", labels={"n": str(number)},
                                results=[result("shared"), result(f"p{number}", "fail")]), "ns")
    for number in range(10):
        stored = api.get(path_of(POLR, "ns", f"r{number}")).json
        stored["results"] = [result("shared", "fail")]
        assert api.put(path_of(POLR, "ns", f"r{number}"), stored).code == 200
    # Results of one subject or several, of one rule or several.
    pods = [{"kind": "Pod", "name": name} for name in ("one", "two")]
    api.create(POLR, report("pods", "ns", results=[result("shared", resources=pods)]), "ns")
    api.create(POLR, report("pods-and-rules", "ns", results=[result("shared", resources=pods),
                                                             result("p1", "fail", resources=pods)]), "ns")
    before = api.get(path_of(POLR, "ns")).json["metadata"]["resourceVersion"]
    for number in range(20, 23):
        assert api.delete(path_of(POLR, "ns", f"r{number}")).code == 200
    api.create(POLR, report("last", "ns"), "ns")
    return before


def test_a_cluster_moves(homes):
    old, new, proxies = homes
    stays = proxy_of(old.database, str(uuid.uuid4()), "stays")
    proxies.append(stays)
    there = proxy_of(new, str(uuid.uuid4()), "there")
    proxies.append(there)
    first = old.proxy()
    api = first.api()
    before = fill(api)
    neighbours = [Neighbour(stays, "stays"), Neighbour(there, "there")]
    try:
        move(old, new, proxies, first, before)
    finally:
        for neighbour in neighbours:
            neighbour.ends.set()
    for neighbour in neighbours:
        neighbour.end()
    assert new.psql("SELECT count(*) FROM kube_reports.verify()") == "0"


def move(old, new, proxies, first, before):
    api, cluster = first.api(), old.cluster

    done = commands(old.database, new, cluster=cluster, part="send_cluster")
    assert done.code != 0 and "may still be written" in done.err and "hold_writes" in done.err
    assert new.psql("SELECT count(*) FROM kube_reports.arriving_row") == "0"

    assert commands(old.database, new, cluster=cluster, part="hold_writes").code == 0
    answer = api.post(path_of(POLR, "ns"), report("late", "ns"))
    failure(answer, 503, "ServiceUnavailable")
    assert answer.headers["Retry-After"]
    listed = api.get(path_of(POLR, "ns")).json
    done = old.database.psql("DELETE FROM kube_reports.object WHERE name = 'last'", check=False)
    assert done.code != 0 and f"writes of cluster {cluster} are held" in done.err and "release_writes" in done.err
    assert old.database.psql(f"SELECT what FROM kube_reports.pending WHERE what = 'hold' AND cluster = '{cluster}'")

    # Upkeep folds the last counts.
    until(lambda: commands(old.database, new, cluster=cluster, part="send_cluster").code == 0, 30, "no waiting work")
    done = commands(old.database, new, cluster=cluster, part="receive_cluster")
    assert done.code == 0, done.err
    assert new.psql("SELECT count(*) FROM kube_reports.arriving_row") == "0"
    assert answers(new, cluster) == answers(old.database, cluster)
    assert all(answers(new, cluster))

    moved = proxy_of(new, cluster, "moved")
    proxies.append(moved)
    there = moved.api()
    assert there.get(path_of(POLR, "ns")).json == listed
    with there.watch(path_of(POLR, "ns"), resourceVersion=before) as watch:
        watch.expect(("DELETED", "r20"), ("DELETED", "r21"), ("DELETED", "r22"), ("ADDED", "last"))
        written = there.create(POLR, report("new", "ns", results=[result("shared", "fail")]), "ns")
        watch.expect(("ADDED", "new"))
    assert int(written["metadata"]["resourceVersion"]) > int(listed["metadata"]["resourceVersion"])
    assert there.delete(path_of(POLR, "ns", "last")).code == 200
    # A repeated write of a report keeps the results that came with the move.
    stored = there.get(path_of(POLR, "ns", "r5")).json
    kept = f"SELECT first_seen, since FROM kube_reports.typed_result WHERE cluster = '{cluster}' AND report = 'r5'"
    times = new.psql(kept)
    stored["metadata"]["labels"]["again"] = "yes"
    assert there.put(path_of(POLR, "ns", "r5"), stored).code == 200
    new.derive()
    assert new.psql(kept) == times != ""

    first.stop()
    old.proxies.remove(first)
    done = commands(old.database, new, cluster=cluster, part="unregister_cluster")
    assert done.code == 0, done.err
    assert old.database.psql(f"SELECT count(*) FROM kube_reports.cluster WHERE uid = '{cluster}'") == "0"
    assert old.database.psql("SELECT count(*) FROM kube_reports.verify()") == "0"


def loaded(database, rows):
    """Returns the outcome of receive_cluster() with these rows."""
    database.psql("TRUNCATE kube_reports.arriving_row")
    database.psql(f"INSERT INTO kube_reports.arriving_row (relation, content) {rows}")
    return database.psql("CALL kube_reports.receive_cluster()", check=False)


def test_what_is_refused(homes):
    """Half a cluster, rows of other tables, a known cluster, other versions or types: refused, and nothing is stored"""
    _, new, _ = homes
    cluster = new.psql("SELECT uid FROM kube_reports.cluster ORDER BY id LIMIT 1")
    new.psql(f"SELECT kube_reports.hold_writes('{cluster}')")
    sent = f"SELECT relation, content FROM kube_reports.send_cluster('{cluster}')"
    clusters = new.psql("SELECT * FROM kube_reports.cluster ORDER BY id")
    header = "replace(content, '{}', '{}')"
    unknown = f"CASE relation WHEN 'begin' THEN {header.format(cluster, uuid.uuid4())} ELSE content END"
    for rows, message, hint in (
        (f"{sent} WHERE relation <> 'end'", "does not hold one complete cluster", "TRUNCATE"),
        (f"{sent} UNION ALL {sent}", "does not hold one complete cluster", "TRUNCATE"),
        (f"{sent} UNION ALL SELECT 'pg_catalog.pg_authid', '(1)'", "does not hold one complete cluster", "TRUNCATE"),
        (sent, f"cluster {cluster} is known here already", "unregister_cluster"),
        (f"SELECT relation, jsonb_set(content::jsonb, '{{version}}', '\"0.0\"')::text FROM ({sent}) s "
         "WHERE relation = 'begin' UNION ALL SELECT 'end', ''", "comes from version 0.0", "Update both"),
        (f"SELECT relation, CASE relation WHEN 'begin' THEN jsonb_set(({unknown})::jsonb, '{{types,77}}', "
         f"'{{\"type\": \"things.example.com\"}}')::text ELSE content END FROM ({sent}) s",
         "not registered here: things.example.com", "register_crd"),
        (f"SELECT relation, CASE relation WHEN 'begin' THEN jsonb_set(({unknown})::jsonb, '{{newest}}', "
         f"'9007199254740991')::text ELSE content END FROM ({sent}) s", "is too large", "new_incarnation"),
    ):
        done = loaded(new, rows)
        assert done.code != 0 and message in done.err and hint in done.err, (message, done.err)
        assert new.psql("SELECT * FROM kube_reports.cluster ORDER BY id") == clusters
    # An error in the middle of the rows also stores nothing, and the rows stay for a second call.
    damaged = (f"SELECT relation, CASE relation WHEN 'kube_reports.cluster' THEN '(' ELSE {unknown} END "
               f"FROM ({sent}) s")
    done = loaded(new, damaged)
    assert done.code != 0 and "malformed record literal" in done.err
    assert new.psql("SELECT * FROM kube_reports.cluster ORDER BY id") == clusters
    assert int(new.psql("SELECT count(*) FROM kube_reports.arriving_row")) > 2
    done = new.psql("BEGIN; CALL kube_reports.receive_cluster()", check=False)
    assert done.code != 0 and "cannot be called within a transaction" in done.err
    done = new.psql(f"SET datestyle = 'German'; SELECT content FROM kube_reports.send_cluster('{cluster}')",
                    check=False)
    assert done.code != 0 and "RESET datestyle" in done.err
    new.psql(f"TRUNCATE kube_reports.arriving_row; SELECT kube_reports.release_writes('{cluster}')")


def test_nobody_else_may(homes):
    """Nobody but the owner may send or receive: no administrator, whose rows the owner would store, and no reader"""
    _, new, _ = homes
    new.psql("CREATE ROLE chief LOGIN; CREATE ROLE looks LOGIN", user="postgres")
    new.psql("SELECT kube_reports.grant_admin('chief'), kube_reports.grant_reader('looks')")
    for user in ("chief", "looks", "kube_reports_proxy"):
        for sql in ("SELECT * FROM kube_reports.send_cluster(gen_random_uuid())", "CALL kube_reports.receive_cluster()",
                    "INSERT INTO kube_reports.arriving_row (relation, content) VALUES ('begin', '')"):
            done = new.psql(sql, user=user, check=False)
            assert done.code != 0 and "permission denied" in done.err, (user, sql, done.err)


def test_every_table_of_a_cluster_moves(homes):
    """Every table that refers to a cluster, a lane or an origin moves, or has a reason to stay"""
    _, new, _ = homes
    stays = {"proxy_role", "reader_grant",  # rights of roles of the server
             "active_policy", "active_policy_set", "aggregation_queue",  # made again from kube-apiserver and objects
             "log_size", "result_rebuild", "result_pending", "import_time", "import_waiting", "rollup_delta",  # empty
             "imported",  # the next import compares every document
             "evidence_body"}  # files of the store that no database announces
    found = new.psql(
        "SELECT DISTINCT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid "
        "WHERE c.relnamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace) "
        "AND c.relkind IN ('r', 'p') AND NOT c.relispartition "
        "AND a.attname IN ('cluster_id', 'lane', 'origin', 'rollup')")
    moved = new.psql("SELECT c.relname FROM kube_reports_internal.moved_relations() m JOIN pg_class c ON c.oid = "
                     "m.relation").split()
    assert set(found.split()) - set(moved) == stays
    sent = new.psql("SELECT pg_get_functiondef('kube_reports.send_cluster(uuid)'::regprocedure)")
    for name in new.psql("SELECT relation FROM kube_reports_internal.moved_relations()").split():
        assert f"'{name}'" in sent


def moves(old, new, cluster):
    """Moves the cluster from one database to the other; returns the answers of both."""
    for part in ("hold_writes", "send_cluster", "receive_cluster"):
        done = commands(old, new, cluster=cluster, part=part)
        assert done.code == 0, done.err
    before = answers(old, cluster)
    assert commands(old, new, cluster=cluster, part="unregister_cluster").code == 0
    return before, answers(new, cluster)


@pytest.fixture(scope="module")
def variants():
    yield from both_variants()


def test_to_the_other_variant_and_back(variants):
    """Both variants have the same rows of the cluster"""
    in_c, in_sql = variants
    cluster = str(uuid.uuid4())
    in_c.psql(f"SELECT kube_reports.register_cluster('{cluster}')")
    for number in range(3):
        document = json.dumps(report(f"r{number}", "ns", results=[result("shared"), result(f"p{number}", "fail")]))
        in_c.psql(f"SELECT kube_reports.create_report('{cluster}', :'document'::jsonb::text::kube_reports.report)",
                  document=document)
    in_c.psql(f"SELECT kube_reports.delete_report('{cluster}', 'policyreports.wgpolicyk8s.io', 'ns', 'r2')")
    while in_c.psql("SELECT kube_reports.maintain()") == "t":
        pass
    for old, new in ((in_c, in_sql), (in_sql, in_c)):
        before, after = moves(old, new, cluster)
        assert before == after and all(after)
        assert old.psql(f"SELECT count(*) FROM kube_reports.cluster WHERE uid = '{cluster}'") == "0"
    assert in_c.psql("SELECT count(*) FROM kube_reports.verify()") == "0"
