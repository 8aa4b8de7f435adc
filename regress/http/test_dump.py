"""
pg_dump and pg_restore by the owner, who is no superuser; DROP and CREATE EXTENSION (DESIGN section 5; LIST-07,
WATCH-07).
"""

import json

import pytest

from client import CPOLR, POLR, expired, failure, path_of, report, run
from conftest import VARIANT, Database, Proxy
from test_types import CRD, VULN, vulnerability_report

SECOND_CLUSTER = "22222222-2222-4222-8222-222222222222"

# The rows that must be the same on both sides: everything that a user can lose.
CONTENT = """
SELECT o FROM kube_reports.stored_report o ORDER BY o.cluster, o."group", o.resource, o.namespace, o.name;
SELECT c.uid, c.id, c.name, c.labels, c.extra_metadata FROM kube_reports.cluster c ORDER BY c.id;
SELECT t.id, t."group", t.plural, t.results, t.builtin FROM kube_reports.resource_type t ORDER BY t.id;
SELECT v.resource_type, v.version, v.definition FROM kube_reports_internal.resource_version v
    ORDER BY v.resource_type, v.version;
SELECT r FROM kube_reports_internal.proxy_role r ORDER BY r.role;
SELECT l.id, l.cluster_id, l.resource_type FROM kube_reports_internal.lane l ORDER BY l.id;
SELECT n FROM kube_reports_internal.namespace n ORDER BY n.cluster_id, n.name;
SELECT s FROM kube_reports_internal.setting s ORDER BY s.name;
SELECT g FROM kube_reports_internal.origin g ORDER BY g.id;
SELECT k.id, k.source, k.policy, k.rule, k.category, k.severity FROM kube_reports_internal.criterion k ORDER BY k.id;
SELECT s.id, s.cluster_id, s.api_version, s.kind, s.namespace, s.name, s.uid FROM kube_reports_internal.subject s
    ORDER BY s.id;
SELECT a FROM kube_reports_internal.actor a ORDER BY a.id;
SELECT s FROM kube_reports_internal.result_since s ORDER BY s.origin, s.key;
SELECT c FROM kube_reports_internal.report_change c ORDER BY c.version, c.ids;
SELECT t.id, t.mapping_id, t.mapping FROM kube_reports.resource_type t WHERE NOT t.builtin ORDER BY t.id;
"""

# Rows that a dump lacks and a restore derives again, with the times that documents do not have; counts of every day.
DERIVED = """
SELECT r FROM kube_reports_internal.result r ORDER BY r.origin, r.key;
SELECT d FROM kube_reports_internal.detail d
    JOIN (SELECT DISTINCT detail FROM kube_reports_internal.result) r ON r.detail = d.id ORDER BY d.id;
SELECT r FROM kube_reports_internal.current_rollup r
    ORDER BY r.cluster_id, r.namespace, r.criterion, r.kind, r.status, r.native_status;
SELECT r.cluster_id, r.namespace, r.criterion, r.kind, r.status, r.native_status, d.day, d.count
    FROM kube_reports_internal.rollup_daily d JOIN kube_reports_internal.rollup r ON r.id = d.rollup WHERE d.count <> 0
        ORDER BY 1, 2, 3, 4, 5, 6, 7;
SELECT p.cluster_id, p.namespace, p.policy, p.pass, p.warn, p.fail, p.error, p.skip
    FROM kube_reports_internal.rollup_policy p
    WHERE (p.pass, p.warn, p.fail, p.error, p.skip) <> (0, 0, 0, 0, 0) ORDER BY p.cluster_id, p.namespace, p.policy;
SELECT s FROM kube_reports_internal.score_daily s
    WHERE (s.pass, s.warn, s.fail, s.error, s.skip, s.excluded) <> (0, 0, 0, 0, 0, 0)
    ORDER BY s.cluster_id, s.namespace, s.source, s.category, s.severity, s.day;
"""

# Privileges and owners of all objects.  A partition whose grants were revoked lists the grants of its owner; a dump
# lacks them.
RIGHTS = """
SELECT DISTINCT p.oid::regprocedure::text, a.grantee::regrole::text, a.privilege_type
    FROM pg_proc p, aclexplode(p.proacl) a WHERE p.pronamespace IN ('kube_reports'::regnamespace,
        'kube_reports_internal'::regnamespace) AND a.grantee <> 0 ORDER BY 1, 2, 3;
SELECT DISTINCT c.oid::regclass::text, a.grantee::regrole::text, a.privilege_type
    FROM pg_class c, aclexplode(coalesce(c.relacl, acldefault(CASE c.relkind WHEN 'S' THEN 's' ELSE 'r' END::"char",
        c.relowner))) a WHERE c.relnamespace IN ('kube_reports'::regnamespace,
        'kube_reports_internal'::regnamespace) AND a.grantee <> 0 ORDER BY 1, 2, 3;
SELECT c.oid::regclass::text, c.relowner::regrole FROM pg_class c
    WHERE c.relnamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace) ORDER BY 1;
SELECT p.oid::regprocedure::text, p.proowner::regrole FROM pg_proc p
    WHERE p.pronamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace) ORDER BY 1;
"""

# Foreign keys between dumped tables, which do not exist while a dump is loaded.
REFERENCES = ("SELECT count(*) FROM pg_constraint c JOIN kube_reports_internal.dumped_references() r ON c.conrelid = "
              "r.child AND c.conname = r.name AND c.convalidated")


def settle_results(database, name="kube_reports"):
    """
    Derives all pending results, and folds every delta, as a proxy does in time; open transactions of others may delay
    this.
    """
    database.derive(name)
    database.psql("DO $$ BEGIN WHILE EXISTS (SELECT FROM kube_reports_internal.result_rebuild) OR EXISTS (SELECT FROM "
                  "kube_reports_internal.rollup_delta) LOOP"
                  " PERFORM kube_reports.maintain(); COMMIT; END LOOP; END $$", database=name)
    assert database.psql("SELECT results_pending FROM kube_reports.status", database=name) == "f"


def newest(database, name="kube_reports"):
    return int(database.psql("SELECT greatest((SELECT max(version) FROM kube_reports.object), (SELECT max(version) "
                             "FROM kube_reports_internal.change),"
                             " (SELECT max(floor) FROM kube_reports_internal.lane), (SELECT last_value FROM "
                             "kube_reports_internal.version_seq))", database=name))


@pytest.fixture(scope="module")
def source(stack, tmp_path_factory):
    """The shared stack with rows of every kind, and its dumps."""
    database, api = stack.database, stack.first.api()
    database.psql(f"SELECT kube_reports.register_crd($crd${json.dumps(CRD)}$crd$::jsonb)")
    database.psql(f"SELECT kube_reports.register_cluster('{SECOND_CLUSTER}', 'elsewhere', "
                  f"'{{\"region\": \"x\"}}'::jsonb)")
    database.psql("SELECT kube_reports.set_setting('log_retention', '90 minutes')")
    database.psql(f"SELECT kube_reports_internal.api_namespace('{SECOND_CLUSTER}', 'dump', '', 'its-uid', true)")
    for number in range(50):
        api.create(POLR, report(f"r{number}", labels={"n": str(number), "quote": "a-b.c"}), "dump")
    # Results whose times are not those of their reports: one has changed, one is new, one is gone; one report was
    # deleted and created again.
    results = [{"source": "kyverno", "policy": "p", "rule": rule, "result": "pass", "message": f"message of {rule}"}
               for rule in ("a", "b", "c")]
    api.create(POLR, report("history", results=results), "dump")
    results[0]["result"] = "fail"
    api.patch(path_of(POLR, "dump", "history"), {"results": [results[0], results[2], {**results[1], "rule": "d"}]})
    for name in ("again", "gone"):
        api.create(POLR, report(name, results=results), "dump")
        api.delete(path_of(POLR, "dump", name))
    api.create(POLR, report("again", results=results), "dump")
    api.create(CPOLR, report("dump", resource=CPOLR))
    odd = report("odd", annotations=None)
    odd["metadata"]["annotations"] = {
        "odd": "tab\there, back\\slash, \"quotes\", line\nbreak, \\N, \u00e4\u20ac\U0001f600"}
    odd["metadata"]["finalizers"] = ["example.com/hold"]
    api.create(POLR, odd, "dump")
    assert api.delete(path_of(POLR, "dump", "odd")).json["metadata"]["deletionTimestamp"]
    document = json.dumps(vulnerability_report("app")).replace("'", "''")
    database.psql(f"SELECT kube_reports.create_report('{stack.cluster}', jsonb_set('{document}'::jsonb, "
                  f"'{{metadata,namespace}}', '\"dump\"')"
                  "::kube_reports.report)")
    database.psql(f"SELECT kube_reports.create_report('{SECOND_CLUSTER}', "
                  f"'{json.dumps(report('there', 'dump'))}'::kube_reports.report)")
    database.derive()
    directory = tmp_path_factory.mktemp("dump")
    dumps = {"plain": str(directory / "plain.sql"), "custom": str(directory / "custom.dump"),
             "parallel": str(directory / "parallel")}
    for form, file in dumps.items():
        how = ["--format=directory", "--jobs=4"] if form == "parallel" else [f"--format={form}"]
        run(["pg_dump", *how, f"--file={file}", "-d", database.connection()])
    yield stack, dumps
    assert api.patch(path_of(POLR, "dump", "odd"), {"metadata": {"finalizers": None}}).code == 200
    assert api.delete(path_of(POLR, "dump")).code == 200 and api.delete(path_of(CPOLR, name="dump")).code == 200
    database.psql("SELECT kube_reports.unregister('vulnerabilityreports.aquasecurity.github.io', true)")
    database.psql(f"SELECT kube_reports.delete_report('{SECOND_CLUSTER}', 'policyreports.wgpolicyk8s.io', 'dump', "
                  "'there')")
    database.psql("SELECT kube_reports.set_setting('log_retention', '60 minutes')")


@pytest.fixture(scope="module")
def other_server():
    """A second PostgreSQL server with the roles, without the database."""
    server = Database()
    try:
        server.start()
        for role in ("kube_reports_owner", "kube_reports_proxy", "kube_reports_proxy_b", "kube_reports_reader",
                     "kube_reports_admin"):
            server.psql(f"CREATE ROLE {role} LOGIN", user="postgres", database="postgres")
        yield server
    finally:
        server.remove()


def restore(database, name, form, file):
    """Restores a dump as the owner into a new database with this name, in one transaction or with four jobs."""
    database.psql(f"CREATE DATABASE {name} OWNER kube_reports_owner", user="postgres", database="postgres")
    connection = database.connection(database=name)
    if form == "plain":
        run(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "--single-transaction", "-f", file, "-d", connection])
    else:
        how = ["--jobs=4"] if form == "parallel" else ["--single-transaction"]
        run(["pg_restore", "--exit-on-error", *how, "-d", connection, file])


@pytest.mark.parametrize("form", ["plain", "custom", "parallel"])
@pytest.mark.parametrize("where", ["another server", "another database"])
def test_restore(source, other_server, form, where):
    """LC-04"""
    stack, dumps = source
    target = other_server if where == "another server" else stack.database
    name = f"restored_{form}"
    before = newest(stack.database)
    listed = stack.first.api().get(path_of(POLR, "dump")).json
    first = next(item for item in listed["items"] if item["metadata"]["name"] == "r0")
    restore(target, name, form, dumps[form])
    proxy = None
    try:
        assert target.psql("SELECT restore_pending FROM kube_reports.status", database=name) == "t"
        content = stack.database.psql(CONTENT)
        assert target.psql(CONTENT, database=name) == content
        assert target.psql(RIGHTS, database=name) == stack.database.psql(RIGHTS)
        assert target.psql(REFERENCES, database=name) == "0"
        assert target.psql("SELECT results_pending FROM kube_reports.status", database=name) == "t"
        assert int(target.psql("SELECT count(*) FROM kube_reports_internal.result_since", database=name)) >= 2

        # Another server has the roles of the proxies, as the dump needs them; another database of the same server has
        # them anyway.
        proxy = Proxy(target, stack.cluster, stack.pki,
                      connection=target.connection("kube_reports_proxy", name)).wait_ready()
        assert target.psql("SELECT restore_pending FROM kube_reports.status", database=name) == "f"
        assert target.psql(REFERENCES, database=name) == stack.database.psql(REFERENCES)
        # No new history, no first-seen time lost, the same counts.
        settle_results(target, name)
        settle_results(stack.database)
        assert target.psql(CONTENT, database=name) == content
        assert target.psql(DERIVED, database=name) == stack.database.psql(DERIVED)
        assert target.psql("SELECT count(*) FROM kube_reports.verify()", database=name) == "0"
        api = proxy.api()
        again = api.get(path_of(POLR, "dump")).json
        assert again["items"] == listed["items"]
        assert int(again["metadata"]["resourceVersion"]) > before
        expired(api, path_of(POLR, "dump"), listed["metadata"]["resourceVersion"])
        with api.watch(path_of(POLR, "dump"), resourceVersion=again["metadata"]["resourceVersion"]) as watch:
            created = api.create(POLR, report("after"), "dump")
            assert watch.change() == ("ADDED", created)
        assert int(created["metadata"]["resourceVersion"]) > before
        changed = api.patch(path_of(POLR, "dump", "r0"), {"summary": {"pass": 9}}).json
        assert changed["metadata"]["uid"] == first["metadata"]["uid"]
        assert int(changed["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])
        # A stale write is still a conflict, a restored type is served, and new rows get ids of their own.
        failure(api.put(path_of(POLR, "dump", "r0"), first), 409, "Conflict")
        assert api.get(path_of(VULN, "dump", "app")).json["report"]["registry"] == {"server": "index.example"}
        assert int(target.psql("SELECT kube_reports.register_cluster(gen_random_uuid(), 'new')", database=name)) > int(
            stack.database.psql("SELECT max(id) FROM kube_reports.cluster"))
        # The original store has not changed.
        assert stack.first.api().get(path_of(POLR, "dump")).json["items"] == listed["items"]
    finally:
        if proxy is not None:
            proxy.stop()
        target.psql(f"DROP DATABASE {name} WITH (FORCE)", user="postgres", database="postgres")


def test_dump_of_a_restored_database(source, other_server, tmp_path):
    """A restored database can be dumped before a proxy has connected; a call of after_restore() ends the restore"""
    stack, dumps = source
    restore(other_server, "first_copy", "custom", dumps["custom"])
    file = str(tmp_path / "again.dump")
    run(["pg_dump", "--format=custom", f"--file={file}", "-d", other_server.connection(database="first_copy")])
    restore(other_server, "second_copy", "custom", file)
    content = stack.database.psql(CONTENT)
    for name in ("first_copy", "second_copy"):
        assert other_server.psql(CONTENT, database=name) == content
        assert other_server.psql("SELECT restore_pending FROM kube_reports.status", database=name) == "t"
    base = int(other_server.psql("SELECT kube_reports.after_restore()", database="second_copy"))
    assert base > newest(stack.database)
    # In the SQL variant a proxy's upkeep derives the results.
    assert other_server.psql("SELECT restore_pending, results_pending FROM kube_reports.status",
                             database="second_copy") == ("f|t" if VARIANT == "sql" else "f|f")
    settle_results(other_server, "second_copy")
    settle_results(stack.database)
    assert other_server.psql(DERIVED, database="second_copy") == stack.database.psql(DERIVED)
    assert other_server.psql("SELECT count(*) FROM kube_reports.verify()", database="second_copy") == "0"
    assert other_server.psql(f"SELECT count(*) FROM kube_reports_internal.lane WHERE floor < {base}",
                             database="second_copy") == "0"


def test_drop_and_create(source, other_server):
    """In a restored database DROP EXTENSION leaves nothing, and CREATE EXTENSION makes everything again"""
    _, dumps = source
    restore(other_server, "again", "custom", dumps["custom"])
    other_server.psql("DROP EXTENSION kube_reports", database="again")
    left = ("SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = n.oid) + (SELECT count(*) FROM pg_proc WHERE "
            "pronamespace = n.oid)"
            " + (SELECT count(*) FROM pg_type WHERE typnamespace = n.oid) FROM pg_namespace n WHERE nspname = "
            "'kube_reports'")
    assert other_server.psql(left, database="again") in ("0", "")
    other_server.psql("SET client_min_messages = warning; CREATE EXTENSION kube_reports", database="again")
    assert other_server.psql("SELECT objects, clusters, restore_pending FROM kube_reports.status",
                             database="again") == "0|0|f"
    assert other_server.psql("SELECT count(*) FROM kube_reports.resource_type", database="again") == "10"
    cluster = "33333333-3333-4333-8333-333333333333"
    other_server.psql(f"SELECT kube_reports.register_cluster('{cluster}')", database="again")
    stored = json.loads(other_server.psql(
        f"SELECT kube_reports.create_report('{cluster}', '{json.dumps(report('r', 'ns'))}'::kube_reports.report)",
                                          database="again"))
    assert stored["metadata"]["name"] == "r"


def test_data_only(source, other_server):
    """
    LC-04: rows are restored into an existing store: after begin_restore() tables may come in any order; the partitions
    of history are made before
    """
    stack, dumps = source
    other_server.psql("CREATE DATABASE data_only OWNER kube_reports_owner", user="postgres", database="postgres")
    other_server.psql("SET client_min_messages = warning; CREATE EXTENSION kube_reports; SELECT "
                      "kube_reports.begin_restore()",
                      database="data_only")
    months = stack.database.psql("SELECT inhrelid::regclass FROM pg_inherits"
                                 " WHERE inhparent = 'kube_reports_internal.report_change'::regclass").split()
    for month in months:
        other_server.psql(f"SELECT kube_reports.make_history('{month[-7:-3]}-{month[-2:]}-15')", database="data_only")
    run(["pg_restore", "--data-only", "--jobs=4", "--exit-on-error", "-d",
         other_server.connection(database="data_only"),
         dumps["parallel"]])
    assert int(other_server.psql("SELECT kube_reports.after_restore()", database="data_only")) > newest(stack.database)
    assert other_server.psql(REFERENCES, database="data_only") == stack.database.psql(REFERENCES)
    content = stack.database.psql(CONTENT)
    assert other_server.psql(CONTENT, database="data_only") == content
    settle_results(other_server, "data_only")
    assert other_server.psql("SELECT count(*) FROM kube_reports.verify()", database="data_only") == "0"
