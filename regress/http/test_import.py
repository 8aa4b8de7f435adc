"""import copies reports of a cluster's CRDs, or of a reports-server, into the database, and verifies each copy."""

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import threading
import time
import uuid

import pytest

from client import run, until
from crd_fixture import crd_certificates, crd_cluster  # noqa: F401 (fixtures)
from crd_cluster import OPEN, KYVERNO, WG, call, command, load, report, table

def stored(cluster):
    """Returns the documents in the database by group, plural, namespace and name; they have no resourceVersion."""
    rows = cluster.database.psql(f"SELECT json_build_array(s.\"group\", s.resource, s.namespace, s.name, "
                                 f"s.document::json)"
                                 f" FROM kube_reports.stored_report s WHERE s.cluster = '{cluster.uid}'")
    return {tuple(row[:4]): row[4] for row in map(json.loads, rows.splitlines())}


def expected(cluster):
    """Returns the documents of the cluster, in the same form."""
    version = {WG: "wgpolicyk8s.io/v1alpha2", OPEN: "openreports.io/v1alpha1", KYVERNO: "reports.kyverno.io/v1"}
    return {(group, plural, *key): {**document, "apiVersion": version[group],
                                    "metadata": {name: value for name, value in document["metadata"].items()
                                                 if name != "resourceVersion"}}
            for (group, plural), objects in cluster.stored.items() for key, document in objects.items()}


def changes(cluster):
    """Returns how often objects were added, modified and deleted in the database."""
    rows = cluster.database.psql(f"SELECT c.operation, count(*) FROM kube_reports_internal.change c JOIN "
                                 f"kube_reports_internal.lane l"
                                 f" ON l.id = c.lane JOIN kube_reports.cluster k ON k.id = l.cluster_id WHERE k.uid = "
                                 f"'{cluster.uid}' GROUP BY 1")
    return {row.split("|")[0]: int(row.split("|")[1]) for row in rows.splitlines()}


def fill(cluster, count, **more):
    for number in range(count):
        cluster.add(WG, "policyreports", report(number, **more))


def patch(cluster, name, label):
    patched = json.dumps({"metadata": {"labels": {"here": label}}})
    cluster.database.psql(f"SELECT kube_reports.patch_report('{cluster.uid}', 'policyreports.wgpolicyk8s.io', 'shop',"
                          f" '{name}', '{patched}')")


def test_killed_in_the_middle(cluster):
    """kill -9 at two places: committed objects stay, the next run imports the others, none is stored twice."""
    fill(cluster, 900)
    for behind in (200, 600):
        reached, go_on = threading.Event(), threading.Event()

        def hold(_, passed):
            if passed >= behind:
                reached.set()
                go_on.wait(60)
        cluster.page_hook = hold
        with subprocess.Popen(command(cluster, "import", "--from-cluster", "--page-size=50"), stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as process:
            assert reached.wait(60)
            until(lambda: len(stored(cluster)) >= behind - 114, 60, "the first pages to be stored")
            os.kill(process.pid, signal.SIGKILL)
            assert process.wait(10) == -signal.SIGKILL
        go_on.set()
        cluster.page_hook = None
        assert 0 < len(stored(cluster)) < 900
    # The server may still commit the last statement of the killed import.
    until(lambda: cluster.database.psql("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' "
                                        "AND state <> 'idle' AND pid <> pg_backend_pid()", user="postgres") == "0",
          20, "the backend of the killed import to be done")
    before = len(stored(cluster))
    done = load(cluster)
    assert table(done, "all") == {"read": 900, "imported": 900 - before, "unchanged": before, "verified": 900}
    assert stored(cluster) == expected(cluster)
    assert changes(cluster) == {"A": 900}


@pytest.mark.parametrize("offered", [True, False])
def test_expired_in_the_middle(cluster, offered):
    """
    The list expires (410) after 200 objects: import goes on with the token that the answer offers, or begins again.  In
    both cases it says so, and all objects come.
    """
    fill(cluster, 500)
    cluster.expire_after, cluster.offer_token = 200, offered
    done = load(cluster, "--page-size=100")
    assert stored(cluster) == expected(cluster)
    assert changes(cluster) == {"A": 500}
    assert "run import again" in done.stderr
    if offered:
        assert table(done, "policyreports.wgpolicyk8s.io") == {"read": 500, "imported": 500, "verified": 500}
    else:
        assert "begins again" in done.stderr
        assert table(done, "policyreports.wgpolicyk8s.io") == {"read": 500, "imported": 300, "unchanged": 200,
                                                               "verified": 500}


def test_busy_server(cluster):
    """429 with Retry-After, a 500 and a cut connection in the middle of the list: import waits and tries again."""
    fill(cluster, 300)
    cluster.throttled = 2
    cluster.trouble("policyreports.*continue", code=500, times=1)
    began = time.monotonic()
    done = load(cluster, "--page-size=100", "--kinds=policyreports")
    assert time.monotonic() - began >= 2
    cluster.trouble("policyreports.*continue", drop=True, times=1)
    assert table(load(cluster, "--page-size=100", "--kinds=policyreports"),
                 "policyreports.wgpolicyk8s.io")["unchanged"] == 300
    assert table(done, "policyreports.wgpolicyk8s.io") == {"read": 300, "imported": 300, "verified": 300}
    assert stored(cluster) == expected(cluster)


@pytest.mark.parametrize("answer", [
    "{}", '{"metadata": {"resourceVersion": "9"}}', '{"metadata": {"resourceVersion": "9"}, "items": {}}',
    '{"items": []}', "null", "<html>maintenance</html>"])
def test_no_list(cluster, answer):
    """An answer 200 that is no list, as from a load balancer: no object counts as gone, none is deleted."""
    fill(cluster, 3)
    load(cluster)
    for command_name, flags in (("import", ["--from-cluster", "--prune"]), ("cleanup", ["--yes"])):
        for path in ("policyreports[?]", "policyreports[?].*continue"):
            cluster.calm()
            cluster.trouble(f"/{path}", code=200, text=answer)
            done = call(cluster, command_name, *flags, "--page-size=2", "--kinds=policyreports", code=1)
            assert "policyreports" in done.stderr
            assert len(stored(cluster)) == 3
    assert cluster.count(WG, "policyreports") == 3
    cluster.calm()
    assert table(load(cluster, "--prune"), "policyreports.wgpolicyk8s.io") == {"read": 3, "unchanged": 3, "verified": 3}


def test_gone_in_the_middle(cluster):
    """404 after the first page, as from a server that has just begun: import says that not everything was read."""
    fill(cluster, 6)
    cluster.trouble("policyreports.*continue", code=404)
    done = load(cluster, "--prune", "--page-size=2", "--kinds=policyreports", code=1)
    assert "(in part)" in done.stdout and "not everything was read" in done.stderr
    cluster.calm()
    load(cluster, "--prune", "--page-size=2", "--kinds=policyreports")
    assert stored(cluster) == expected(cluster)


def test_never_ending_expiry(cluster):
    """A server answers every continuation with 410 and offers another one each time: import gives up."""
    fill(cluster, 6)
    cluster.trouble("policyreports.*continue", code=410, text=json.dumps(
        {"kind": "Status", "code": 410, "reason": "Expired", "metadata": {"continue": "more"}}))
    done = load(cluster, "--page-size=2", "--kinds=policyreports", code=1)
    assert "410" in done.stderr and "(in part)" in done.stdout


def test_invalid_and_altered(cluster):
    """Each document that the schema refuses is named, and so is one that loses a field; the others are stored."""
    fill(cluster, 10)
    cluster.add(WG, "policyreports", {**report(20), "results": [{"policy": "p", "result": "bogus"}]})
    cluster.add(WG, "policyreports", {**report(21), "summary": "none"})
    cluster.add(WG, "policyreports", report(22, uid="no-uid-at-all"))
    cluster.add(WG, "policyreports", {**report(23), "surprise": {"a": 1}})
    done = load(cluster, code=1)
    assert table(done, "policyreports.wgpolicyk8s.io") == {"read": 14, "imported": 11, "refused": 3, "altered": 1,
                                                           "verified": 10}
    lines = done.stderr.splitlines()
    assert [line for line in lines if "shop/r-000020 is refused" in line and 'Unsupported value: "bogus"' in line]
    assert [line for line in lines if "shop/r-000021 is refused" in line and "summary" in line]
    assert [line for line in lines if "shop/r-000022 is refused" in line]
    assert [line for line in lines if "shop/r-000023 is stored, but differs in surprise" in line]
    assert "3 objects were refused, and 1 copies differ from their originals" in done.stderr
    assert len(stored(cluster)) == 11


def test_refused_by_the_cluster(cluster):
    """
    import names a kind that it may not list, and goes on with the others; without the right to read APIServices it
    reads nothing.
    """
    fill(cluster, 5)
    cluster.add(OPEN, "reports", {**report(1), "kind": "Report"})
    cluster.forbidden = r"GET /apis/openreports.io/v1alpha1/reports"
    done = load(cluster, code=1)
    assert "reports.openreports.io: " in done.stderr
    assert "cannot GET /apis/openreports.io/v1alpha1/reports" in done.stderr
    assert table(done, "policyreports.wgpolicyk8s.io") == {"read": 5, "imported": 5, "verified": 5}
    assert "not everything was read" in done.stderr
    cluster.forbidden = "GET .*/apiservices/"
    done = load(cluster, code=1)
    assert "apiservices/v1alpha2.wgpolicyk8s.io is answered with status 403" in done.stderr
    cluster.forbidden = "GET .*/namespaces/kube-system"
    assert "the cluster's uid cannot be read" in load(cluster, code=1).stderr
    cluster.forbidden = None
    other = uuid.UUID(int=1)
    assert f"but --cluster-id is {other}" in load(cluster, f"--cluster-id={other}", code=1).stderr


def test_hidden_behind_a_service(cluster):
    """A group that kube-reports already serves is not read: its list would not be what etcd holds."""
    fill(cluster, 3)
    cluster.register(f"{WG}/v1alpha2")
    done = load(cluster, code=1)
    assert "APIService v1alpha2.wgpolicyk8s.io points at service kube-reports/kube-reports" in done.stderr
    assert "apiservice disable wgpolicyk8s.io/v1alpha2" in done.stderr
    assert stored(cluster) == {}


def test_switched_meanwhile(cluster):
    """
    Somebody switches the group to kube-reports between two pages: the list begins again and has only copies.  import
    fails, and --prune deletes nothing.
    """
    fill(cluster, 30)
    load(cluster)
    gone = cluster.drop(WG, "policyreports", "shop", "r-000000")
    cluster.add(WG, "policyreports", report(30))

    def switch(plural, _):
        if plural == "policyreports" and cluster.behind is None:
            copies = {key: item for key, item in cluster.stored[WG, plural].items() if key[1] < "r-000020"}
            cluster.behind = {**cluster.stored, (WG, plural): copies}
            cluster.register(f"{WG}/v1alpha2")
            cluster.expire_after, cluster.offer_token = 0, False
    cluster.page_hook = switch
    done = load(cluster, "--page-size=10", "--kinds=policyreports", "--prune", code=1)
    assert "the list expired after 10 objects" in done.stderr
    assert "APIService v1alpha2.wgpolicyk8s.io points at service kube-reports/kube-reports" in done.stderr
    assert "not all objects were read" in done.stderr
    assert (WG, "policyreports", "shop", gone["metadata"]["name"]) in stored(cluster)


def test_by_another_version(cluster):
    """While proxies serve one version, import reads etcd by another version of the same schema; newer copies stay."""
    fill(cluster, 3)
    load(cluster)
    cluster.register(f"{WG}/v1alpha2")
    cluster.register(f"{WG}/etcd", service=None)
    patch(cluster, "r-000001", "newer")
    late = cluster.add(WG, "policyreports", report(3))
    cluster.add(WG, "policyreports", report(1, results=1))
    done = load(cluster, "--version=etcd", "--kinds=policyreports")
    assert table(done, "policyreports.wgpolicyk8s.io") == {"read": 4, "imported": 1, "unchanged": 2, "kept": 1,
                                                           "verified": 3}
    now = stored(cluster)
    assert now[WG, "policyreports", "shop", "r-000001"]["metadata"]["labels"]["here"] == "newer"
    assert now[WG, "policyreports", "shop", "r-000003"]["metadata"]["uid"] == late["metadata"]["uid"]


def test_progress_on_a_terminal(cluster):
    """A terminal shows a line with the number of objects, the speed and the time left; the table has no such line."""
    fill(cluster, 300)
    held = threading.Event()
    # The second page is late, so that there is time for a line.
    cluster.trouble("policyreports.*continue", hold=held, times=1)
    screen, terminal = pty.openpty()
    with subprocess.Popen(command(cluster, "import", "--from-cluster", "--page-size=100", "--kinds=policyreports"),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=terminal, text=True) as process:
        os.close(terminal)
        until(lambda: len(stored(cluster)) > 0, 60, "the first batch")
        # Longer than the pause between two lines, so that the next batch shows one.
        assert not held.wait(0.3)
        held.set()
        shown = b""
        with contextlib.suppress(OSError):
            while more := os.read(screen, 4096):
                shown += more
        out = process.communicate(timeout=60)[0]
    os.close(screen)
    assert process.returncode == 0
    line = rb"\r\x1b\[K|policyreports.wgpolicyk8s.io: \d+ of 300 \(\d+ %\), \d+/s, about \d+ s left"
    assert any(b"s left" in found for found in re.findall(line, shown)), shown
    assert re.search(rb"policyreports.wgpolicyk8s.io: 300 in [0-9.]+ s, \d+/s", shown), shown
    assert "s left" not in out and "VERIFIED" in out


def test_wrong_databases(cluster):
    """
    No server, no extension, a role of another cluster, a role without rights, an unknown kind, a wrong command
    line.
    """
    database = cluster.database
    binary = f"{database.directory}/dest/usr/bin/kube-reports-proxy"

    def fails(connection, *flags, code=1):
        done = subprocess.run([binary, "import", "--from-cluster", f"--kubeconfig={cluster.config}",
                               f"--database={connection}", *flags],
                              capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == code, done.stderr
        return done.stderr
    assert "the database cannot be reached" in fails(f"host={database.directory}/none dbname=x user=y")
    stderr = fails(database.connection("postgres", "postgres"))
    assert "the database has no extension kube_reports" in stderr
    assert "may not serve cluster" in fails(database.connection("kube_reports_proxy"))
    database.psql(f"CREATE ROLE nobody_{cluster.role} LOGIN", user="postgres")
    assert "grant_proxy(role, cluster)" in fails(database.connection(f"nobody_{cluster.role}"))
    assert "--kinds: the database does not serve bananas" in fails(database.connection(cluster.role),
                                                                   "--kinds=policyreports,bananas")
    assert "--from-cluster" in fails(database.connection(cluster.role), "--from-reports-server=dbname=x", code=2)
    assert "unknown flag" in fails(database.connection(cluster.role), "--from=here", code=2).lower()


def test_changed_on_both_sides(cluster):
    """
    import updates copies that nobody has changed; it keeps what was changed or deleted here, unless --overwrite
    says otherwise.
    """
    fill(cluster, 6)
    load(cluster)
    first = expected(cluster)
    patch(cluster, "r-000001", "one")
    patch(cluster, "r-000002", "two")
    for name in ("r-000003", "r-000004"):
        cluster.database.psql(f"SELECT kube_reports.delete_report('{cluster.uid}', 'policyreports.wgpolicyk8s.io', "
                              f"'shop', '{name}')")
    for number in (0, 2, 4):
        cluster.add(WG, "policyreports", report(number, results=4))
    cluster.drop(WG, "policyreports", "shop", "r-000005")
    cluster.add(WG, "policyreports", report(5, results=1))
    done = load(cluster)
    assert table(done, "policyreports.wgpolicyk8s.io") == {"read": 6, "imported": 1, "updated": 2, "kept": 3,
                                                           "verified": 3}
    now, there = stored(cluster), expected(cluster)
    key = (WG, "policyreports", "shop")
    for number in (0, 4, 5):
        assert now[*key, f"r-{number:06}"] == there[*key, f"r-{number:06}"]
    assert now[*key, "r-000001"]["metadata"]["labels"]["here"] == "one"
    assert now[*key, "r-000002"]["results"] == first[*key, "r-000002"]["results"]
    assert (*key, "r-000003") not in now
    assert "shop/r-000002 is left as it is: it was changed here" in done.stderr
    assert "shop/r-000003 is left as it is: it was deleted here" in done.stderr
    # A repeat changes nothing; with --overwrite the source wins.
    assert table(load(cluster), "all") == {"read": 6, "unchanged": 3, "kept": 3, "verified": 3}
    assert table(load(cluster, "--overwrite"), "all") == {"read": 6, "imported": 1, "updated": 2, "unchanged": 3,
                                                          "verified": 6}
    assert stored(cluster) == there
    assert cluster.database.psql("SELECT count(*) FROM kube_reports.verify()") == "0"


def test_gone_at_the_source(cluster):
    """
    Copies of objects that the source has no more are counted; only --prune deletes them, unless somebody changed them
    here.
    """
    fill(cluster, 4)
    load(cluster)
    patch(cluster, "r-000001", "kept")
    for name in ("r-000001", "r-000002", "r-000003"):
        cluster.drop(WG, "policyreports", "shop", name)
    done = load(cluster)
    assert table(done, "policyreports.wgpolicyk8s.io") == {"read": 1, "unchanged": 1, "verified": 1, "gone": 2}
    assert "--prune deletes these copies from the database" in done.stderr
    assert len(stored(cluster)) == 4
    load(cluster, "--prune")
    assert [key[3] for key in sorted(stored(cluster))] == ["r-000000", "r-000001"]
    # A type whose list was not read to its end prunes nothing.
    cluster.forbidden = "policyreports[?]"
    load(cluster, "--prune", code=1)
    assert len(stored(cluster)) == 2


def test_refused_is_not_gone(cluster):
    """An object that was copied and then becomes invalid at the source is still there: --prune deletes no copy of it"""
    fill(cluster, 3)
    load(cluster)
    cluster.add(WG, "policyreports", {**report(1), "results": [{"policy": "p", "result": "bogus"}]})
    cluster.drop(WG, "policyreports", "shop", "r-000002")
    done = load(cluster, "--prune", code=1)
    assert table(done, "policyreports.wgpolicyk8s.io") == {"read": 2, "unchanged": 1, "refused": 1, "verified": 1,
                                                           "gone": 1}
    assert [key[3] for key in sorted(stored(cluster))] == ["r-000000", "r-000001"]
    # The same for an object at which the database raises an error: then import looks for no gone copies.
    cluster.database.psql("""CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE EXCEPTION 'not this one' USING ERRCODE = '22000'; END $$;
        CREATE TRIGGER refuse BEFORE UPDATE ON kube_reports.object FOR EACH ROW EXECUTE FUNCTION public.refuse()""")
    cluster.add(WG, "policyreports", report(1, labels={"changed": "yes"}))
    done = load(cluster, "--prune", code=1)
    assert "shop/r-000001 is refused: " in done.stderr and "not this one" in done.stderr
    assert "are not looked for, because of the refused objects" in done.stderr
    cluster.database.psql("DROP TRIGGER refuse ON kube_reports.object; DROP FUNCTION public.refuse()")
    assert [key[3] for key in sorted(stored(cluster))] == ["r-000000", "r-000001"]
    assert cluster.database.psql("SELECT count(*) FROM kube_reports.verify()") == "0"


def test_a_database_that_goes_away(cluster):
    """Connections are cut between batches: the command connects again and goes on."""
    fill(cluster, 400)
    stop = threading.Event()

    def cut(_, passed):
        if passed in (100, 300) and not stop.is_set():
            cluster.database.psql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = "
                                  f"'{cluster.role}'", user="postgres")
    cluster.page_hook = cut
    done = load(cluster, "--page-size=100")
    cluster.page_hook = None
    assert table(done, "policyreports.wgpolicyk8s.io")["verified"] == 400
    assert stored(cluster) == expected(cluster)


# ---------- reports-server ----------

# Tables of a reports-server, and whether their reports have namespaces.
TABLES = {"policyreports": True, "clusterpolicyreports": False, "ephemeralreports": True,
          "clusterephemeralreports": False, "reports": True, "clusterreports": False}


@pytest.fixture(name="server_database")
def reports_server_database(cluster):
    """A database as a reports-server leaves it (its migrations 1 to 11)."""
    name = "rs_" + cluster.uid[:8]
    database = cluster.database
    database.psql(f"CREATE DATABASE {name}", user="postgres")
    for plural, namespaced in TABLES.items():
        column, key = ("namespace varchar NOT NULL,", ", namespace") if namespaced else ("", "")
        database.psql(f"CREATE TABLE {plural} (name varchar NOT NULL, {column} report jsonb NOT NULL,"
                      " cluster_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',"
                      f" PRIMARY KEY (cluster_id, name{key}))", user="postgres", database=name)
    database.psql("CREATE TABLE clusters (id uuid PRIMARY KEY, name varchar)", user="postgres", database=name)
    database.psql(f"INSERT INTO clusters VALUES ('{cluster.uid}', 'here'), ('{uuid.UUID(int=7)}', 'there')",
                  user="postgres", database=name)
    return name


def put(cluster, plural, document, owner=None):
    """Returns the statement that inserts a row as a reports-server does: annotated, with its own resourceVersion."""
    metadata = document["metadata"]
    for member, value in (("uid", str(uuid.uuid4())), ("resourceVersion", "17"), ("annotations", {}),
                          ("creationTimestamp", "2026-02-03T04:05:06Z")):
        metadata.setdefault(member, value)
    metadata["annotations"]["kyverno.reports-server.io/served-by"] = "reports-server"
    row = {"name": metadata["name"], "report": json.dumps(document).replace("'", "''"),
           "cluster_id": owner or cluster.uid}
    if TABLES[plural]:
        row["namespace"] = metadata["namespace"]
    values = ", ".join(f"'{value}'" for value in row.values())
    return f"INSERT INTO {plural} ({', '.join(row)}) VALUES ({values});\n"


def from_server(cluster, name, *flags, code=0):
    return call(cluster, "import", f"--from-reports-server={cluster.database.connection('postgres', name)}", *flags,
                code=code)


def test_from_reports_server(cluster, server_database):
    """import reads the rows of this cluster and those of no cluster, page by page, and writes nothing in the source."""
    documents = {}
    statements = []
    for number in range(130):
        document = {**report(number), "apiVersion": "wgpolicyk8s.io/v1alpha2"}
        owner = None if number % 10 else str(uuid.UUID(int=0))
        statements.append(put(cluster, "policyreports", document, owner))
        documents[WG, "policyreports", "shop", document["metadata"]["name"]] = document
    # A document without a kind, as Go prints typed objects.
    bare = report(1, namespace=None)
    del bare["kind"], bare["metadata"]["annotations"]
    statements.append(put(cluster, "clusterpolicyreports", bare))
    documents[WG, "clusterpolicyreports", "", "r-000001"] = {**bare, "apiVersion": "wgpolicyk8s.io/v1alpha2",
                                                             "kind": "ClusterPolicyReport"}
    statements.append(put(cluster, "reports", report(3), str(uuid.UUID(int=7))))
    bogus = {**report(999), "results": [{"policy": "p", "result": "bogus"}]}
    statements.append(put(cluster, "policyreports", bogus))
    cluster.database.psql("".join(statements), user="postgres", database=server_database)

    def writes():
        return cluster.database.psql("SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables",
                                     user="postgres", database=server_database)
    before = writes()
    done = from_server(cluster, server_database, "--page-size=20", code=1)
    assert table(done, "policyreports.wgpolicyk8s.io") == {"read": 131, "imported": 130, "refused": 1, "verified": 130}
    assert "r-000999 is refused" in done.stderr
    assert table(done, "all")["imported"] == 131
    for document in documents.values():
        del document["metadata"]["resourceVersion"]
        del document["metadata"]["annotations"]["kyverno.reports-server.io/served-by"]
        if not document["metadata"]["annotations"]:
            del document["metadata"]["annotations"]
    assert stored(cluster) == documents
    assert table(from_server(cluster, server_database, code=1), "policyreports.wgpolicyk8s.io")["unchanged"] == 130
    assert writes() == before
    # This source needs no kube-apiserver.
    source = cluster.database.connection("postgres", server_database)
    done = subprocess.run([f"{cluster.database.directory}/dest/usr/bin/kube-reports-proxy", "import",
                           f"--cluster-id={cluster.uid}", f"--from-reports-server={source}",
                           "--kinds=clusterpolicyreports", f"--database={cluster.database.connection(cluster.role)}"],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and table(done, "clusterpolicyreports.wgpolicyk8s.io")["unchanged"] == 1, done.stderr


def test_each_source_prunes_its_copies(cluster, server_database):
    """--prune deletes what the source of this run no longer has, and no copy that came from another source"""
    rows = [{**report(number), "apiVersion": "wgpolicyk8s.io/v1alpha2"} for number in range(3)]
    cluster.database.psql("".join(put(cluster, "policyreports", row) for row in rows), user="postgres",
                          database=server_database)
    from_server(cluster, server_database)
    cluster.add(WG, "policyreports", report(10))
    cluster.add(WG, "policyreports", report(11))
    assert table(load(cluster, "--prune"), "policyreports.wgpolicyk8s.io") == {"read": 2, "imported": 2, "verified": 2}
    cluster.database.psql("DELETE FROM policyreports WHERE name = 'r-000001'", user="postgres",
                          database=server_database)
    assert table(from_server(cluster, server_database, "--prune"), "policyreports.wgpolicyk8s.io") == {
        "read": 2, "unchanged": 2, "verified": 2, "gone": 1}
    assert {key[3] for key in stored(cluster)} == {"r-000000", "r-000002", "r-000010", "r-000011"}


def test_not_a_reports_server(cluster, server_database):
    """A database without such tables, one that does not answer, one of another cluster, one without newer tables."""
    assert "has no tables of a reports-server" in from_server(cluster, "postgres", code=1).stderr
    assert "cannot be reached" in call(cluster, "import",
                                       f"--from-reports-server=host={cluster.database.directory}/none", code=1).stderr
    cluster.database.psql(f"DELETE FROM clusters WHERE id = '{cluster.uid}'; DROP TABLE reports, clusterreports",
                          user="postgres", database=server_database)
    stderr = from_server(cluster, server_database, code=1).stderr
    assert f"has no reports of cluster {cluster.uid}, only of {uuid.UUID(int=7)} (there)" in stderr
    cluster.database.psql(f"INSERT INTO clusters VALUES ('{cluster.uid}', 'here')", user="postgres",
                          database=server_database)
    done = from_server(cluster, server_database)
    assert [line.split()[1:] for line in done.stdout.splitlines()
            if line.startswith("reports.openreports.io")] == [["not", "at", "the", "source"]]


def test_help(cluster):
    """The help names every flag; the server's help names the command."""
    binary = f"{cluster.database.directory}/dest/usr/bin/kube-reports-proxy"
    shown = run([binary, "import", "--help"]).out
    for flag in ("--from-cluster", "--from-reports-server", "--kubeconfig", "--database", "--kinds", "--overwrite",
                 "--prune"):
        assert flag in shown
    assert "import" in run([binary, "--help"]).out
    for words, flag in (([], "--help"), ([], "--version"), (["import"], "--help"), (["register"], "--version")):
        done = run([binary, *words, f"{flag}=foo"], check=False)
        assert done.code == 2 and f'invalid argument "foo" for {flag}: takes no value' in done.err


def test_everything_as_it_is(cluster, capsys):
    """
    Thousands of reports of several kinds are stored as the cluster has them; results follow; a repeat writes nothing.
    """
    fill(cluster, 5000, results=6)
    for number in range(150):
        cluster.add(WG, "clusterpolicyreports", report(number, namespace=None, kind="ClusterPolicyReport"))
        cluster.add(KYVERNO, "ephemeralreports", {
            "kind": "EphemeralReport", "metadata": {"name": f"e-{number:03}", "namespace": "shop", "generation": 1,
                                                    "finalizers": ["example.com/kept"]},
            "spec": {"owner": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": str(uuid.uuid4())}, "results": [],
                     "summary": {"pass": 0, "fail": 0, "warn": 0, "error": 0, "skip": 0}}})
    began = time.monotonic()
    done = load(cluster)
    seconds = time.monotonic() - began
    with capsys.disabled():
        print(f"\n  import: 5300 reports in {seconds:.1f} s, {5300 / seconds:.0f}/s", end=" ")
    assert stored(cluster) == expected(cluster)
    assert table(done, "policyreports.wgpolicyk8s.io") == {"read": 5000, "imported": 5000, "verified": 5000}
    assert table(done, "all") == {"read": 5300, "imported": 5300, "verified": 5300}
    assert changes(cluster) == {"A": 5300}
    assert "5300 of them are new" in done.stderr
    cluster.database.derive()
    assert cluster.database.psql(f"SELECT count(*) FROM kube_reports.typed_result t WHERE t.cluster = "
                                 f"'{cluster.uid}'") == str(5000 * 6 + 150 * 3)

    done = load(cluster)
    assert table(done, "all") == {"read": 5300, "unchanged": 5300, "verified": 5300}
    assert changes(cluster) == {"A": 5300}
    assert "were stored before" in done.stderr
    # import only read the source.
    assert not [entry for entry in cluster.requests if entry.method != "GET"]
