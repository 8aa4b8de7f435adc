"""What goes wrong meanwhile.  Every function does its harm, undoes it and returns when the store answers again."""

import os
import signal
import socket
import ssl
import subprocess

import psycopg2

from client import POLR, path_of, until


class Nemesis:
    def __init__(self, stack, proxies, rng, stop):
        self.stack = stack
        self.proxies = proxies
        self.rng = rng
        self.stop = stop
        self.done = {}

    def run(self, names, pause):
        """One misfortune after another, in turn, until the run is over."""
        names = list(names)
        while names and not self.stop.wait(pause):
            name = names[sum(self.done.values()) % len(names)]
            getattr(self, name)()
            self.done[name] = self.done.get(name, 0) + 1

    def answers(self, seconds=60):
        """Waits until every proxy reads and writes again."""
        def works(proxy):
            try:
                return proxy.api().get(path_of(POLR), limit="1").code == 200
            except OSError:
                return False
        until(lambda: all(works(proxy) for proxy in self.proxies), seconds, "recovery without a hand")

    def backends(self, condition):
        rows = self.stack.database.psql(
            f"SELECT pid FROM pg_stat_activity a WHERE usename = 'kube_reports_proxy' AND {condition}", user="postgres", check=False)
        return [int(line) for line in rows.out.split()] if rows.code == 0 else []

    def signal_writer(self, number):
        """Sends a signal to a backend that holds a lane's lock, as soon as one is seen."""
        def holder():
            found = self.backends("EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid AND l.locktype = 'advisory' "
                                  "AND l.classid = 1802661986 AND l.objid <> 0 AND l.granted)")
            for pid in found:
                try:
                    os.kill(pid, number)
                    return pid
                except ProcessLookupError:
                    pass
            return None
        try:
            return until(holder, 5, "a writer with the lock")
        except AssertionError:
            return None

    def kill_backend(self):
        self.signal_writer(signal.SIGKILL)
        self.answers()

    def kill_server(self):
        self.stack.database.kill()

        def started():
            # Backends that have not noticed yet keep the shared memory.
            try:
                self.stack.database.start(*self.stack.settings)
                return True
            except AssertionError:
                return False
        until(started, 60, "start after the server was killed")
        self.answers()

    def restart_server(self):
        self.stack.database.stop("fast")
        self.stack.database.start(*self.stack.settings)
        self.answers()

    def fail_over(self):
        """The primary dies for good, a standby that has everything is promoted."""
        database, standby = self.stack.database, self.stack.spare
        standby.follow(database, *self.stack.settings)
        database.psql("ALTER SYSTEM SET synchronous_standby_names = '*'; SELECT pg_reload_conf()", user="postgres")
        until(lambda: database.psql("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'", user="postgres") == "1",
              30, "the standby to be synchronous")
        # From here on nothing is answered that the standby does not have; a commit of our own waits for what came before.
        database.psql("CREATE TABLE IF NOT EXISTS shadow.foreign_table (n int); INSERT INTO shadow.foreign_table VALUES (1)")
        self.stop.wait(1)
        database.kill()
        standby.promote()
        self.stack.database, self.stack.spare = standby, database
        self.answers()

    def kill_worker(self):
        worker = self.rng.choice(self.rng.choice(self.proxies).processes()[1:] or [0])
        if worker:
            os.kill(worker, signal.SIGKILL)
        self.answers()

    def kill_proxy(self):
        proxy = self.rng.choice(self.proxies)
        os.killpg(proxy.process.pid, signal.SIGKILL)
        proxy.process.wait()
        with open(proxy.log_path, "ab") as log:
            proxy.process = subprocess.Popen(proxy.process.args, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                                             start_new_session=True)
        self.answers()

    def stopped_writer(self):
        """A backend hangs while it holds the lock: others wait for at most the lock timeout."""
        pid = self.signal_writer(signal.SIGSTOP)
        if pid is None:
            return
        try:
            self.stop.wait(3)
        finally:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass
        self.answers()

    def half_request(self):
        """Clients that die half way through a request."""
        proxy = self.rng.choice(self.proxies)
        api = proxy.api()
        body = b'{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"half"}}'
        head = f"POST {path_of(POLR, 'ns-2')} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        for _ in range(20):
            try:
                with socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as plain:
                    with api.context.wrap_socket(plain, server_hostname="127.0.0.1") as tls:
                        tls.sendall(head.encode() + body[:self.rng.randrange(len(body))])
            except (OSError, ssl.SSLError):
                pass

    def long_reader(self):
        """A snapshot that stays open."""
        with psycopg2.connect(self.stack.database.connection()) as session, session.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("SELECT count(*) FROM kube_reports.object")
            self.stop.wait(10)

    def open_transaction(self):
        """A DBA's transaction that wrote elsewhere, and one that wrote reports and is slow to end."""
        with psycopg2.connect(self.stack.database.connection()) as session, session.cursor() as cursor:
            cursor.execute("CREATE TABLE IF NOT EXISTS shadow.foreign_table (n int)")
            cursor.execute("INSERT INTO shadow.foreign_table VALUES (1)")
            self.stop.wait(2)
        with psycopg2.connect(self.stack.database.connection()) as session, session.cursor() as cursor:
            cursor.execute("UPDATE kube_reports.object SET metadata = metadata WHERE false")
            self.stop.wait(1.5)


ALL = ("half_request", "kill_worker", "long_reader", "kill_backend", "stopped_writer", "kill_proxy", "open_transaction",
       "kill_server", "restart_server", "fail_over")
