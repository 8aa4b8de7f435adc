"""
A database in trouble: locked, full, read-only, without free connections, slow, with a name that cannot be resolved.
Other requests are served, and no acknowledged write is lost.
"""

import concurrent.futures
import contextlib
import os
import pathlib
import secrets
import select
import shutil
import signal
import socket
import threading
import time

import psycopg2
import pytest

from client import EPHR, POLR, failure, path_of, report, run, until
from conftest import STACK, reads_of_c, stack_command


def unavailable(answer):
    """Checks that the answer is a 503 that says when to try again; returns the Status."""
    status = failure(answer, 503, "ServiceUnavailable")
    assert int(answer.headers["Retry-After"]) > 0 and status["details"]["retryAfterSeconds"] > 0
    return status


def backends(stack):
    return set(stack.database.psql("SELECT pid FROM pg_stat_activity WHERE usename = 'kube_reports_proxy'",
                                   user="postgres").split())


class Relay:
    """Forwards connections from a TCP port to the socket or the TCP port of a server, and delays all data."""

    def __init__(self, directory, address=None):
        self.family, self.address = (socket.AF_INET, address) if address else (socket.AF_UNIX,
            f"{directory}/.s.PGSQL.5432")
        self.delay = 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass, args=(client,), daemon=True).start()

    def _pass(self, client):
        with client, socket.socket(self.family) as server:
            server.connect(self.address)
            while True:
                for ready in select.select([client, server], [], [])[0]:
                    try:
                        data = ready.recv(65536)
                        time.sleep(self.delay)
                        (server if ready is client else client).sendall(data)
                    except OSError:
                        return
                    if not data:
                        return

    def connection(self, host="127.0.0.1", more=""):
        return f"host={host} port={self.port} user=kube_reports_proxy dbname=kube_reports sslmode=disable {more}"

    def close(self):
        self.listener.close()


@pytest.fixture
def relay(own_stack):
    made = Relay(own_stack.database.directory)
    yield made
    made.close()


def test_a_lock(own_stack, ns):
    """
    A session locks the reports: reads and readyz fail within seconds and say why; livez and watches go on; everything
    works again after the lock
    """
    own_stack.begin()
    proxy = own_stack.proxy(flags=["--workers=1"])
    api, path = proxy.api(), path_of(POLR, ns)
    stored = api.create(POLR, report("r0"), ns)
    watch = api.watch(path, resourceVersion=stored["metadata"]["resourceVersion"])
    locker = psycopg2.connect(own_stack.database.connection("postgres"))
    locker.cursor().execute("LOCK TABLE kube_reports.object IN ACCESS EXCLUSIVE MODE")
    for read in (path + "/r0", path):
        begun = time.monotonic()
        assert "waited too long" in unavailable(api.get(read))["message"]
        assert time.monotonic() - begun < 15
    until(lambda: api.get("/readyz").code == 500, 30, "readyz to fail")
    assert "waited too long for a lock" in api.get("/readyz/database").body.decode()
    assert api.get("/livez").code == 200
    # readyz succeeds again before a client reads.
    locker.rollback()
    until(lambda: api.get("/readyz").code == 200, 30, "readyz")
    assert api.get(path + "/r0").json == stored
    api.create(POLR, report("r1"), ns)
    watch.expect(("ADDED", "r1"))
    watch.close()
    locker.close()


@reads_of_c
def test_a_client_that_goes(own_stack, ns):
    """A query whose client has left is stopped, and its connection is used again"""
    own_stack.begin()
    proxy = own_stack.proxy(flags=["--workers=1"])
    api, path = proxy.api(), path_of(POLR, ns)
    api.create(POLR, report("r"), ns)
    # A function that takes long.
    own_stack.database.psql("""
        ALTER FUNCTION kube_reports_internal.api_list RENAME TO api_list_at_once;
        CREATE FUNCTION kube_reports_internal.api_list(cluster uuid, request jsonb, cursor text,
            OUT code integer, OUT content_type text,
            OUT retry_after integer, OUT warnings text[], OUT body bytea, OUT next_cursor text, OUT envelope text,
            OUT version bigint, OUT metadata kube_reports.report,
            OUT document kube_reports_internal.stored_document) RETURNS SETOF record
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
        BEGIN
            PERFORM pg_sleep(60);
        END $$;
        GRANT EXECUTE ON FUNCTION kube_reports_internal.api_list(uuid, jsonb, text)
            TO kube_reports_proxy""", user="postgres")

    def sleeping():
        return own_stack.database.psql("SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'",
                                       user="postgres").split()
    client = api.connect(60)
    client.request("GET", path)
    victim = until(sleeping, 20, "the list to run")
    client.close()
    until(lambda: not sleeping(), 20, "its end")
    assert proxy.metric("kube_reports_database_interrupts_total") == 1
    # The connection is still open, and takes lists.
    assert backends(own_stack).issuperset(victim)
    clients = [api.connect(60) for _ in range(2)]
    for client in clients:
        client.request("GET", path)
    until(lambda: set(victim) < set(sleeping()), 20, "two lists, one on the old connection")
    for client in clients:
        client.close()
    assert api.get(path + "/r").code == 200


def processes_below(pid):
    yield pid
    for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split():
        yield from processes_below(int(child))


def limit_files(database, size):
    """Limits the size of files that the processes of a server write: a number of bytes, or unlimited."""
    server = int(pathlib.Path(f"{database.directory}/data/postmaster.pid").read_text(encoding="ascii").splitlines()[0])
    # The postmaster comes first: new sessions inherit its limit.
    for pid in processes_below(server):
        # The process may have ended; only its own user may set the limit.
        run(["/bin/bash", STACK, "as_server", "prlimit", f"--pid={pid}", f"--fsize={size}:"], check=pid == server)


def preloaded(stack, name):
    """Builds a library from a file of preload/, beside the server's data; returns its path."""
    library = f"{stack.database.directory}/{name}.so"
    run(["cc", "-shared", "-fPIC", "-o", library, str(pathlib.Path(__file__).parent / "preload" / f"{name}.c"), "-ldl"])
    os.chmod(library, 0o755)
    return library


def test_no_room(own_stack, monkeypatch):
    """
    A write without room on the database's disk is 503; small writes and reads work, and nothing acknowledged is lost
    """
    with monkeypatch.context() as environment:
        environment.setenv("LD_PRELOAD", preloaded(own_stack, "full_disk"))
        own_stack.begin()
    proxy = own_stack.proxy()
    api, path, acknowledged = proxy.api(), path_of(EPHR, "large"), {}
    # The limit is no multiple of a page, so that the last page is cut, as on a full disk.  Segments of the log are
    # smaller.
    limit_files(own_stack.database, 20 * 1024 * 1024 + 4096)

    def document(name):
        return {"apiVersion": "reports.kyverno.io/v1", "kind": "EphemeralReport", "metadata": {"name": name},
                "spec": {"owner": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"},
                         "results": [{"policy": "p", "message": secrets.token_hex(500000)}]}}
    for number in range(60):
        answer = api.post(path, document(f"r{number}"))
        if answer.code != 201:
            break
        acknowledged[f"r{number}"] = answer.json["metadata"]["uid"]
    assert "out of resources" in unavailable(answer)["message"] and acknowledged
    refused = f"r{number}"

    def stored():
        return {item["metadata"]["name"]: item["metadata"]["uid"] for item in api.get(path).json["items"]}
    assert stored() == acknowledged
    assert api.post(path_of(POLR, "small"), report("small")).code == 201
    assert api.get(path_of(POLR, "small", "small")).code == 200
    assert [api.get(each).code for each in ("/readyz", "/livez")] == [200, 200]
    limit_files(own_stack.database, "unlimited")
    assert until(lambda: api.post(path, document(refused)).code == 201, 30, "room")
    assert set(stored()) == {*acknowledged, refused}


def test_read_only(own_stack, ns):
    """
    A database that somebody has made read-only is read, over new connections as well; a write is 503 with the reason;
    the log says once when this begins and when it ends
    """
    own_stack.begin()
    proxy = own_stack.proxy()
    api, path = proxy.api(), path_of(POLR, ns)
    stored = api.create(POLR, report("r0"), ns)
    watch = api.watch(path, resourceVersion=stored["metadata"]["resourceVersion"])
    own_stack.database.psql("ALTER SYSTEM SET default_transaction_read_only = on", user="postgres")
    own_stack.database.psql("SELECT pg_reload_conf()", user="postgres")
    until(lambda: api.post(path, report("r1")).code == 503, 20, "a refusal")
    assert "read-only" in unavailable(api.post(path, report("r1")))["message"]
    # So old that the greeting of a new connection would write the time.
    own_stack.database.psql("SET default_transaction_read_only = off; UPDATE kube_reports.cluster SET last_seen = "
                            "last_seen - interval '1 hour'", user="postgres")
    own_stack.database.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = "
                            "'kube_reports_proxy'", user="postgres")
    until(lambda: all(api.get(path + "/r0").code == 200 for _ in range(8)), 30, "reads")
    until(lambda: "read-only" in unavailable(api.delete(path + "/r0"))["message"], 30, "the reason")
    assert api.get(path).json["items"][0]["metadata"]["uid"] == stored["metadata"]["uid"]
    proxy.wait_ready()
    own_stack.database.psql("ALTER SYSTEM RESET default_transaction_read_only", user="postgres")
    own_stack.database.psql("SELECT pg_reload_conf()", user="postgres")
    until(lambda: api.post(path, report("r2")).code == 201, 30, "a write")

    def told(beginning):
        return [entry for entry in proxy.log_entries(beginning) if entry["message"].startswith(beginning)]
    # One of the workers says so, when it connects again.
    until(lambda: told("the database accepts writes again"), 30, "the end in the log")
    assert len(told("the database is read-only")) == 1
    watch.expect(("ADDED", "r2"))
    watch.close()


def test_settings_of_a_role(own_stack, ns):
    """
    Settings of a DBA for the proxy's role or the database change nothing: writes, reads that wait for a lock and upkeep
    go on, and idle sessions stay
    """
    database = own_stack.begin().database
    database.psql("""
        ALTER DATABASE kube_reports SET default_transaction_isolation = 'serializable';
        ALTER DATABASE kube_reports SET timezone = 'Asia/Kathmandu';
        ALTER ROLE kube_reports_proxy SET default_transaction_isolation = 'repeatable read';
        ALTER ROLE kube_reports_proxy SET statement_timeout = '300ms';
        ALTER ROLE kube_reports_proxy SET lock_timeout = '200ms';
        ALTER ROLE kube_reports_proxy SET idle_session_timeout = '400ms';
        ALTER ROLE kube_reports_proxy SET exit_on_error = on;
        ALTER ROLE kube_reports_proxy SET row_security = off;
        ALTER ROLE kube_reports_proxy SET standard_conforming_strings = off;
        ALTER ROLE kube_reports_proxy SET datestyle = 'German'""", user="postgres")
    proxy = own_stack.proxy(flags=["--workers=1"])
    api, path = proxy.api(), path_of(POLR, ns)
    stored = api.create(POLR, report("r0"), ns)
    watch = api.watch(path, resourceVersion=stored["metadata"]["resourceVersion"])
    assert api.patch(path + "/r0", {"metadata": {"labels": {"a": "b"}}}).code == 200
    watch.expect(("MODIFIED", "r0"))
    assert api.delete(path + "/r0").code == 200
    watch.expect(("DELETED", "r0"))
    api.create(POLR, report("r1"), ns)

    def long_idle():
        return set(database.psql("SELECT pid FROM pg_stat_activity WHERE usename = 'kube_reports_proxy' "
                                 "AND state = 'idle' AND clock_timestamp() - state_change > '1 s'",
                                 user="postgres").split())
    until(long_idle, 20, "a session that has been idle for longer than idle_session_timeout")
    with contextlib.closing(psycopg2.connect(database.connection("postgres"))) as locker:
        locker.cursor().execute("LOCK TABLE kube_reports.object IN ACCESS EXCLUSIVE MODE")
        answers = []
        reader = threading.Thread(target=lambda: answers.append(api.get(path + "/r1")))
        reader.start()
        until(lambda: database.psql("SELECT 1 FROM pg_stat_activity WHERE usename = 'kube_reports_proxy' AND "
                                    "wait_event_type = 'Lock' AND clock_timestamp() - query_start > '1 s'",
                                    user="postgres"), 10, "a read to wait longer than both time-outs")
        locker.rollback()
        reader.join()
    assert [answer.code for answer in answers] == [200]
    until(lambda: proxy.series("kube_reports_upkeep_last_success_timestamp_seconds", task="maintenance"), 20,
          "a step of upkeep")


def test_no_connections_left(own_stack, ns):
    """
    A server accepts no more connections: a proxy that has some goes on; a proxy that has none says so, once in the log
    and in a metric, and becomes ready when there is room
    """
    own_stack.begin("max_connections = 25")
    first = own_stack.proxy()
    api, path = first.api(), path_of(POLR, ns)
    stored = api.create(POLR, report("r0"), ns)
    watch = api.watch(path, resourceVersion=stored["metadata"]["resourceVersion"])
    others = []
    with pytest.raises(psycopg2.OperationalError):
        while True:
            others.append(psycopg2.connect(own_stack.database.connection("postgres")))
    second = own_stack.proxy(ready=False)
    until(lambda: second.answers("/livez") is not None, 20, "an answer")
    until(lambda: second.metric("kube_reports_database_refusals_total") > 10, 30, "refusals")
    told = [line for line in second.log_path.read_text().splitlines()
            if "refuses further connections (SQLSTATE 53300)" in line]
    # Each process says it once, however often the server refuses it: two workers, upkeep and feed.
    assert 1 <= len(told) <= 4 and "--database-connections" in told[0]
    assert second.api().get("/readyz").code == 500 and second.api().get("/livez").code == 200
    unavailable(second.api().get(path))
    for number in range(1, 20):
        assert api.post(path, report(f"r{number}")).code == 201
        assert api.get(f"{path}/r{number}").code == 200
        watch.expect(("ADDED", f"r{number}"))
    assert len(api.get(path).json["items"]) == 20 and api.get("/readyz").code == 200
    for each in others:
        each.close()
    second.wait_ready(30)
    assert len(second.api().get(path).json["items"]) == 20
    watch.close()


def test_an_event_of_no_connections_left(own_stack, apiserver):
    """
    With a kube-apiserver, one Event of the pod says that connections are refused, and what can be done; without the
    right to create events, the log says so
    """
    own_stack.begin("max_connections = 25")
    kubeconfig = apiserver.kubeconfig(f"{own_stack.pki}/kubeconfig-events", token="delegate")
    others = []
    with pytest.raises(psycopg2.OperationalError):
        while True:
            others.append(psycopg2.connect(own_stack.database.connection("postgres")))
    flags = (f"--authentication-kubeconfig={kubeconfig}", "--authentication-skip-lookup")
    proxy = own_stack.proxy(ready=False, flags=flags, environment={"POD_NAME": "proxy-0", "POD_NAMESPACE": "reports"})
    path, event = until(lambda: apiserver.events[0] if apiserver.events else None, 30, "an Event")
    assert path == "/api/v1/namespaces/reports/events" == f"/api/v1/namespaces/{event['metadata']['namespace']}/events"
    assert (event["apiVersion"], event["kind"], event["type"], event["reason"]) == ("v1", "Event", "Warning",
        "DatabaseConnectionsRefused")
    assert event["involvedObject"] == {"apiVersion": "v1", "kind": "Pod", "namespace": "reports", "name": "proxy-0"}
    assert event["metadata"]["generateName"] == "proxy-0." and "53300" in event[
        "message"] and "max_connections" in event["message"]
    until(lambda: proxy.metric("kube_reports_database_refusals_total") > 15, 30, "further refusals")
    assert len(apiserver.events) == 1
    # The proxy becomes ready when there is room again.
    for each in others:
        each.close()
    proxy.wait_ready(30)
    proxy.stop()

    with pytest.raises(psycopg2.OperationalError):
        while True:
            others.append(psycopg2.connect(own_stack.database.connection("postgres")))
    apiserver.trouble("/api/v1/namespaces/reports/events", code=403)
    proxy = own_stack.proxy(ready=False, flags=flags, environment={"POD_NAME": "proxy-0", "POD_NAMESPACE": "reports"})
    until(lambda: "needs to create events" in proxy.log_path.read_text(), 30, "the log to say what is missing")
    for each in others:
        each.close()


def test_a_slow_database(own_stack, relay, ns):
    """
    The database answers late: so do requests that need it, and the others are answered at once; a client that waits too
    long gets 503 or 504
    """
    own_stack.begin()
    proxy = own_stack.proxy(connection=relay.connection())
    neighbour = own_stack.proxy()
    api, path = proxy.api(), path_of(POLR, ns)
    stored = api.create(POLR, report("r0"), ns)
    watch = api.watch(path, resourceVersion=stored["metadata"]["resourceVersion"])
    relay.delay = 0.5
    times = 0
    with concurrent.futures.ThreadPoolExecutor(8) as clients:
        writes = {f"r{number}": clients.submit(proxy.api().post, path, report(f"r{number}")) for number in range(1, 9)}
        while not all(write.done() for write in writes.values()):
            for each in ("/livez", "/apis"):
                begun = time.monotonic()
                assert api.get(each).code == 200
                assert time.monotonic() - begun < 2
            assert neighbour.api().get(path + "/r0", seconds=10).code == 200
            times += 1
    codes = {name: write.result().code for name, write in writes.items()}
    assert times > 0 and set(codes.values()) <= {201, 503, 504}, codes
    acknowledged = [name for name, code in codes.items() if code == 201]
    assert acknowledged
    begun = time.monotonic()
    relay.delay = 5
    answer = api.get(path + "/r0", timeout="2s")
    assert answer.code in (503, 504) and time.monotonic() - begun < 10
    assert api.get("/livez").code == 200
    relay.delay = 0
    until(lambda: all(api.get(path + "/r0").code == 200 for _ in range(8)), 60, "answers")
    names = {item["metadata"]["name"] for item in api.get(path).json["items"]}
    assert names >= {"r0", *acknowledged}
    until(lambda: api.post(path, report("last")).code in (201, 409), 30, "a write")
    events = set()
    while "last" not in events:
        kind, document = watch.event(30)
        assert kind == "ADDED"
        events.add(document["metadata"]["name"])
    assert events >= {"last", *acknowledged}
    watch.close()


@pytest.fixture
def hanging_dns(own_stack):
    """The environment of a proxy whose DNS hangs while a file exists, and the file."""
    library, control = preloaded(own_stack, "hanging_dns"), pathlib.Path(f"{own_stack.database.directory}/hanging_dns")
    yield {"LD_PRELOAD": library, "HANGING_DNS": str(control)}, control
    control.unlink(missing_ok=True)


def test_names_that_cannot_be_resolved(own_stack, relay, hanging_dns, ns):
    """DNS hangs: all goes on; new connections go to the last good address, and so do those of a new worker"""
    environment, control = hanging_dns
    own_stack.begin()
    proxy = own_stack.proxy(connection=relay.connection("database.test"), environment=environment)
    api, path = proxy.api(), path_of(POLR, ns)
    stored = api.create(POLR, report("r0"), ns)
    watch = api.watch(path, resourceVersion=stored["metadata"]["resourceVersion"])
    control.touch()
    before = backends(own_stack)
    own_stack.database.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = "
                            "'kube_reports_proxy'", user="postgres")
    # A new worker has to connect while DNS hangs.
    worker = proxy.workers()[0]
    os.kill(worker, signal.SIGKILL)

    def calm():
        for _ in range(4):
            begun = time.monotonic()
            assert proxy.answers("/livez") is None or time.monotonic() - begun < 2
        return True
    until(lambda: calm() and len(proxy.workers()) == 2 and worker not in proxy.workers(), 20, "a new worker")
    until(lambda: calm() and all(getattr(proxy.answers(), "code", 0) == 200 for _ in range(8)), 30, "readiness")
    assert api.get(path + "/r0").json == stored and not before & backends(own_stack)
    until(lambda: api.post(path, report("r1")).code in (201, 409), 20, "a write")
    # The watch ended with the killed worker, or it goes on.
    frame = watch.frames.get(timeout=30)
    assert frame is watch.ENDED or frame["object"]["metadata"]["name"] == "r1"
    watch.close()
    control.unlink()
    until(lambda: api.post(path, report("r2")).code in (201, 409), 20, "a write")


@pytest.mark.parametrize("host", ["database.test,127.0.0.1", "{directory},database.test", "127.0.0.1", "{directory}",
                                  "none.invalid,database.test"])
def test_hosts(own_stack, relay, hanging_dns, ns, host):
    """The proxy connects with lists of hosts, sockets, addresses, and names that do not exist"""
    environment, _ = hanging_dns
    own_stack.begin()
    host = host.format(directory=own_stack.database.directory)
    ports = ",".join("5432" if each.startswith("/") else str(relay.port) for each in host.split(","))
    connection = f"host={host} port={ports} user=kube_reports_proxy dbname=kube_reports sslmode=disable"
    proxy = own_stack.proxy(connection=connection, environment=environment, flags=["--workers=1"])
    assert proxy.api().create(POLR, report("r"), ns)
    hidden = own_stack.proxy(connection=f"host=none.invalid hostaddr=127.0.0.1 port={relay.port} "
                             "user=kube_reports_proxy dbname=kube_reports sslmode=disable",
                             environment=environment, flags=["--workers=1"])
    assert hidden.api().get(path_of(POLR, ns, "r")).code == 200


def test_names_in_certificates(own_stack, hanging_dns, ns):
    """
    sslmode=verify-full: names are resolved by threads, or come with an address; in both cases the certificate is
    verified by name
    """
    # This home directory has no client certificate.
    environment = {**hanging_dns[0], "HOME": own_stack.database.directory}
    pki, password = own_stack.pki, secrets.token_hex(16)
    stack_command("certificate", pki, "database", "/CN=database", "serverAuth", "DNS:database.test")
    if os.getuid() == 0:
        shutil.chown(f"{pki}/database.crt", "postgres")
        shutil.chown(f"{pki}/database.key", "postgres")
    # The server has an address of its own, because other servers use the same port.
    address = f"127.{secrets.randbelow(200) + 20}.{secrets.randbelow(256)}.{secrets.randbelow(254) + 1}"
    own_stack.begin(f"listen_addresses = '{address}'", "ssl = on", f"ssl_cert_file = '{pki}/database.crt'",
                    f"ssl_key_file = '{pki}/database.key'")
    own_stack.database.psql(f"ALTER ROLE kube_reports_proxy PASSWORD '{password}'", user="postgres")
    relay = Relay(own_stack.database.directory, (address, 5432))

    def start(hosts, **more):
        return own_stack.proxy(connection=f"{hosts} port={relay.port} user=kube_reports_proxy dbname=kube_reports "
                               f"password={password}"
                               f" sslmode=verify-full sslrootcert={pki}/ca.crt", environment=environment,
                               flags=["--workers=1"], **more)
    assert start("host=database.test").api().create(POLR, report("r"), ns)
    assert start("host=database.test hostaddr=127.0.0.1").api().get(path_of(POLR, ns, "r")).code == 200
    assert own_stack.database.psql("SELECT bool_and(s.ssl), count(*) > 0 FROM pg_stat_ssl s JOIN pg_stat_activity a "
                                   "USING (pid)"
                                   " WHERE a.usename = 'kube_reports_proxy'", user="postgres") == "t|t"
    # A good address does not help a name that is not in the certificate.
    for hosts, name in (("host=localhost", "localhost"), ("host=elsewhere.test hostaddr=127.0.0.1", "elsewhere.test"),
                        ("host=127.0.0.1", "127.0.0.1")):
        stranger = start(hosts, ready=False)
        until(lambda: f'does not match host name \\"{name}\\"' in stranger.log_path.read_text(), 30,
              "the refusal of a certificate")
        assert stranger.answers("/readyz").code == 500
    relay.listener.close()


def test_up_after_a_kill(own_stack):
    """server_start starts a server right after kill -9, although its old processes are still there for a moment"""
    own_stack.begin()
    for _ in range(3):
        directory = own_stack.database.directory
        connections = [psycopg2.connect(own_stack.database.connection("postgres")) for _ in range(20)]
        # A process that does not notice at once that its postmaster is gone.
        sleeper = connections[0].get_backend_pid()
        os.kill(sleeper, signal.SIGSTOP)
        with open(f"{directory}/data/postmaster.pid", encoding="ascii") as file:
            server = int(file.readline())
        os.kill(server, signal.SIGKILL)
        timer = threading.Timer(2, os.kill, (sleeper, signal.SIGCONT))
        timer.start()
        run(["/bin/bash", STACK, "server_start", directory, "", "fsync = off"], timeout=60)
        timer.join()
        assert own_stack.database.psql("SELECT 1", user="postgres") == "1"
        for connection in connections:
            connection.close()
