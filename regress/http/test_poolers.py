"""Poolers in front of the database: which modes work for proxies and for readers, which are refused."""

import pathlib
import signal
import subprocess

import psycopg2
import psycopg2.extras
import pytest

from client import POLR, path_of, report, until
from conftest import STACK, free_port, stack_command

REFUSAL = "pools transactions or statements: this proxy needs session pooling (pool_mode = session), because"
ROLES = ("kube_reports_proxy", "kube_reports_owner", "first_reader", "second_reader")


class PgBouncer:
    """A pgbouncer in front of a server."""

    def __init__(self, database, mode, pool_size=20):
        self.database = database
        self.port = free_port()
        self.directory = pathlib.Path(stack_command("server_directory"))
        self.configuration = self.directory / "pgbouncer.ini"
        self.pool_size = pool_size
        (self.directory / "users").write_text("".join(f'"{role}" ""\n' for role in ROLES), encoding="ascii")
        self.configure(mode)
        self.process = None
        self.start()

    def configure(self, mode):
        self.configuration.write_text(f"""
[databases]
kube_reports = host={self.database.directory} port=5432
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self.port}
unix_socket_dir =
auth_type = trust
auth_file = {self.directory}/users
pool_mode = {mode}
default_pool_size = {self.pool_size}
max_client_conn = 200
logfile = {self.directory}/log
""", encoding="ascii")

    def start(self):
        command = ["/bin/bash", STACK, "become_server", "pgbouncer", "-q", str(self.configuration)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)

        def listens():
            try:
                psycopg2.connect(self.connection()).close()
                return True
            except psycopg2.OperationalError:
                return False
        until(listens, 20, "the pooler to listen")

    def reload(self, mode):
        self.configure(mode)
        self.process.send_signal(signal.SIGHUP)

    def stop(self):
        self.process.kill()
        self.process.wait()

    def remove(self):
        self.stop()
        stack_command("as_server", "rm", "-rf", str(self.directory))

    def connection(self, user="kube_reports_owner"):
        return f"host=127.0.0.1 port={self.port} user={user} dbname=kube_reports"


@pytest.fixture
def bouncer(own_stack):
    own_stack.begin()
    made = []

    def make(mode, **more):
        made.append(PgBouncer(own_stack.database, mode, **more))
        return made[-1]
    yield make
    # End the proxies first: they are connected through the poolers.
    own_stack.end_proxies()
    for pooler in made:
        pooler.remove()


def serves(proxy, ns, name):
    """Checks that the proxy writes, reads and watches."""
    api, path = proxy.api(), path_of(POLR, ns)
    stored = api.create(POLR, report(name), ns)
    with api.watch(path, resourceVersion=stored["metadata"]["resourceVersion"]) as watch:
        assert api.request("PATCH", f"{path}/{name}", {"metadata": {"labels": {"a": "b"}}},
                           headers={"Content-Type": "application/merge-patch+json"}).code == 200
        watch.expect(("MODIFIED", name))
    assert name in api.names(POLR, ns)


def test_session_pooling(own_stack, bouncer, ns):
    """A proxy works through a pooler that keeps sessions, also after the pooler was started again"""
    pooler = bouncer("session")
    # There is one worker, so that an answer to one client holds for the next one.
    proxy = own_stack.proxy(connection=pooler.connection("kube_reports_proxy"), flags=["--workers=1"])
    serves(proxy, ns, "r1")
    pooler.stop()
    until(lambda: proxy.api().get(path_of(POLR, ns, "r1")).code == 503, 20, "the proxy to notice")
    pooler.start()
    proxy.wait_ready()
    # Connections for writes come back by themselves, too.
    until(lambda: proxy.api().post(path_of(POLR, ns), report("again")).code in (201, 409), 20, "a write")
    serves(proxy, ns, "r2")
    assert REFUSAL not in proxy.log_path.read_text()


@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_other_pooling_is_refused(own_stack, bouncer, ns, mode):
    """A pooler of transactions or statements is refused, with the reason; one that keeps sessions is used; and back"""
    pooler = bouncer(mode)
    proxy = own_stack.proxy(connection=pooler.connection("kube_reports_proxy"), ready=False)
    until(lambda: REFUSAL in getattr(proxy.answers("/readyz/database"), "body", b"").decode(), 30, "the reason")
    # Another worker may have answered: wait until the first one has found out, too, before the mode changes.
    told = '"error","worker":0,"message":"the pooler'
    until(lambda: told in proxy.log_path.read_text(), 30, "the line of the first worker")
    assert proxy.api().get(path_of(POLR, ns)).code == 503
    pooler.reload("session")
    proxy.wait_ready()
    # Connections for writes follow, in each worker.
    until(lambda: all(proxy.api().post(path_of(POLR, ns), report("again")).code in (201, 409) for _ in range(8)), 20,
          "writes")
    serves(proxy, ns, "r1")
    lines = proxy.log_path.read_text().splitlines()
    assert len([line for line in lines if told in line]) == 1, lines
    assert all(line.startswith("{") for line in lines)

    pooler.reload(mode)
    until(lambda: REFUSAL in proxy.answers("/readyz/database").body.decode(), 60, "the change to be noticed")


def test_refused_on_a_busy_pooler(own_stack, bouncer):
    """A pooler of transactions is also refused while other clients take and leave its sessions all the time"""
    pooler = bouncer("transaction", pool_size=8)
    others = [psycopg2.connect(pooler.connection()) for _ in range(4)]
    script = pooler.directory / "busy.sql"
    script.write_text("SELECT pg_sleep(0.002);\n", encoding="ascii")
    stack_command("as_server", "chmod", "a+r", str(script), check=False)
    command = ["pgbench", "-n", "-c", "6", "-T", "60", "-f", str(script), pooler.connection("kube_reports_proxy")]
    busy = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    proxy = own_stack.proxy(connection=pooler.connection("kube_reports_proxy"), ready=False)
    try:
        until(lambda: REFUSAL in getattr(proxy.answers("/readyz/database"), "body", b"").decode(), 40, "the reason")
        assert busy.poll() is None
    finally:
        busy.kill()
        busy.wait()
        for connection in others:
            connection.close()


@pytest.mark.parametrize("mode", ["session", "transaction", "statement"])
def test_readers(own_stack, bouncer, ns, mode):
    """Readers and SQL writers may use any mode: each role sees only what it may see, whichever session it gets"""
    database = own_stack.database
    other = ns + "-other"
    for name in ROLES[2:]:
        database.psql(f"CREATE ROLE {name} LOGIN; ALTER ROLE {name} SET statement_timeout = '1min'", user="postgres")
    for name, namespace in zip(ROLES[2:], (ns, other)):
        database.psql(f"SELECT kube_reports.grant_namespace('{name}', '{own_stack.cluster}', '{namespace}')")
    pooler = bouncer(mode, pool_size=2)
    connections = {name: [psycopg2.connect(pooler.connection(name)) for _ in range(2)] for name in ROLES[1:]}
    for each in connections.values():
        for connection in each:
            connection.autocommit = True
    create = "SELECT kube_reports.create_report(%s, %s::kube_reports.report)"
    for number in range(6):
        document = psycopg2.extras.Json(report(f"r{number}", (ns, other)[number % 2]))
        with connections["kube_reports_owner"][number % 2].cursor() as cursor:
            cursor.execute(create, (own_stack.cluster, document))
    for _ in range(3):
        for name, wanted in (("first_reader", {ns}), ("second_reader", {other})):
            for connection in connections[name]:
                with connection.cursor() as cursor:
                    cursor.execute("SELECT namespace, count(*) FROM kube_reports.stored_report GROUP BY namespace")
                    assert dict(cursor.fetchall()) == {namespace: 3 for namespace in wanted}
                    cursor.execute("SHOW statement_timeout")
                    assert cursor.fetchone() == ("1min",)
    for each in connections.values():
        for connection in each:
            connection.close()
