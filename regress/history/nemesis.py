"""
Faults during a run.  Each function of ALL causes a fault, repairs it, and returns when the store answers again.  It
returns False when it could not cause the fault.
"""

import http.client
import os
import signal
import socket
import ssl
import subprocess

import psycopg2

import shadow
from client import POLR, path_of, run, until
from conftest import LANE_LOCK
from half_batch import Session
from world import LANES, NAMES, NAMESPACES, Nonces, document, now, some_labels

HALF_BATCH_WRITER = 90_000


class Nemesis:
    """records: for writes of the nemesis itself.  long_reader_seconds: how long a snapshot stays open.

    lives: the databases that were in use, one after the other; break_database is called for each new one.
    """

    def __init__(self, stack, proxies, records, rng, stop, long_reader_seconds=10, break_database=None):
        self.stack = stack
        self.proxies = proxies
        self.records = records
        self.rng = rng
        self.stop = stop
        self.long_reader_seconds = long_reader_seconds
        self.break_database = break_database
        self.nonces = Nonces(HALF_BATCH_WRITER)
        self.dumps = {}             # format of pg_dump -> (file or directory, lane -> version)
        self.lives = [shadow.Life("kube_reports")]
        self.done = {}

    def run(self, names, pause):
        """Causes one fault after the other until the run is over."""
        names = list(names)
        while names and not self.stop.wait(pause):
            name = names[sum(self.done.values()) % len(names)]
            if getattr(self, name)() is not False:
                self.done[name] = self.done.get(name, 0) + 1

    def missing(self, names):
        """Returns the names of the faults that did not occur yet."""
        return [name for name in names if name not in self.done]

    def answers(self, seconds=60):
        """Waits until every proxy reads and writes again."""
        def works(proxy):
            try:
                return proxy.api().get(path_of(POLR), limit="1").code == 200 and all(
                    self.write_nothing(proxy, lane).code == 201 for lane in LANES)
            except (OSError, http.client.HTTPException):
                return False
        until(lambda: all(works(proxy) for proxy in self.proxies), seconds, "recovery without a hand")

    @staticmethod
    def write_nothing(proxy, lane):
        """Sends a write that the store executes, and that does not appear in the records of the run."""
        return proxy.api().post(path_of(lane, "ns-2"), document(lane, "ns-2", "nothing", 0, {}),
                                seconds=20, dryRun="All")

    def backends(self, condition):
        rows = self.stack.database.psql(
            f"SELECT pid FROM pg_stat_activity a WHERE usename = 'kube_reports_proxy' AND {condition}",
                                        user="postgres", check=False)
        return [int(line) for line in rows.out.split()] if rows.code == 0 else []

    def signal_writer(self, number):
        """Sends a signal to a backend that holds a lane's lock, when there is one; returns its process id or None."""
        def holder():
            found = self.backends(f"EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid AND {LANE_LOCK} AND l.granted)")
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
        killed = self.signal_writer(signal.SIGKILL) is not None
        self.answers()
        return killed

    def kill_server(self):
        self.stack.database.kill()

        def started():
            # Backends that have not noticed the end of the server keep the shared memory.
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
        """The primary is destroyed, and a standby that has all its commits is promoted."""
        database, standby = self.stack.database, self.stack.spare
        standby.follow(database, *self.stack.settings)
        database.psql("ALTER SYSTEM SET synchronous_standby_names = '*'; SELECT pg_reload_conf()", user="postgres")
        until(lambda: database.psql("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'",
                                    user="postgres") == "1",
              30, "the standby to be synchronous")
        # From here on the primary answers only when the standby has the commit.  A commit of this test waits until the
        # standby has all earlier commits.
        database.psql("CREATE TABLE IF NOT EXISTS shadow.foreign_table (n int); INSERT INTO shadow.foreign_table "
                      "VALUES (1)")
        self.stop.wait(1)
        database.kill()
        standby.promote()
        self.stack.database, self.stack.spare = standby, database
        self.answers()

    def point_in_time(self):
        """The server is destroyed, and restored from a base backup taken under load and the archived WAL."""
        database, spare = self.stack.database, self.stack.spare
        database.psql("ALTER SYSTEM SET wal_keep_size = '2GB'", user="postgres")
        database.psql("SELECT pg_reload_conf()", user="postgres")
        spare.copy(database, "-X", "none")
        self.stop.wait(1)
        # The archive has all WAL, so no answered write is lost: for the checker, the database is the same as before.
        archive = f"{database.directory}/data/pg_wal"
        database.kill()
        spare.recover(f"restore_command = 'cp {archive}/%f %p'", *self.stack.settings)
        self.stack.database, self.stack.spare = spare, database
        self.answers()

    def kill_worker(self):
        workers = self.rng.choice(self.proxies).processes()[1:]
        if workers:
            os.kill(self.rng.choice(workers), signal.SIGKILL)
        self.answers()
        return bool(workers)

    def kill_proxy(self):
        proxy = self.rng.choice(self.proxies)
        os.killpg(proxy.process.pid, signal.SIGKILL)
        proxy.process.wait()
        with open(proxy.log_path, "ab") as log:
            proxy.process = subprocess.Popen(proxy.process.args, stdin=subprocess.DEVNULL, stdout=log,
                                             stderr=log, cwd="/",
                                             start_new_session=True)
        self.answers()

    def stopped_writer(self):
        """A backend hangs while it holds a lane's lock: readers continue, and other writers are told to try again."""
        pid = self.signal_writer(signal.SIGSTOP)
        if pid is None:
            return False
        try:
            # The backend may have ended its transaction before the signal arrived.
            lanes = self.stack.database.psql("SELECT shadow.lane_name(l.objid::int) FROM pg_locks l WHERE l.pid = "
                                             f"{pid} AND {LANE_LOCK} AND l.granted",
                                             timeout=20).split()
            for proxy in self.proxies:
                assert proxy.api().get(path_of(POLR), limit="1").code == 200, "a stopped writer stops readers"
                for lane in lanes:
                    # A write that stores nothing would not wait for the lock.
                    answer = proxy.api().post(path_of(lane, "ns-2"),
                                              document(lane, "ns-2", "nothing", 0, {}), seconds=20)
                    assert answer.code == 503 and answer.headers[
                        "Retry-After"], f"a write behind a stopped one is answered {answer}"
        except subprocess.TimeoutExpired:
            # The backend was stopped while it held a latch of the server's lock table: then the whole server hangs, not
            # only a lane.
            return False
        finally:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass
        self.answers()
        return bool(lanes)

    def half_request(self):
        """Clients disconnect in the middle of a request."""
        proxy = self.rng.choice(self.proxies)
        api = proxy.api()
        body = b'{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"half"}}'
        head = (f"POST {path_of(POLR, 'ns-2')} HTTP/1.1\r\nHost: x\r\nContent-Type: "
                f"application/json\r\nContent-Length: {len(body)}\r\n\r\n")
        for _ in range(20):
            try:
                with socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as plain:
                    with api.context.wrap_socket(plain, server_hostname="127.0.0.1") as tls:
                        tls.sendall(head.encode() + body[:self.rng.randrange(len(body))])
            except (OSError, ssl.SSLError):
                pass

    def half_batch(self):
        """
        Clients send a batch and disconnect: at once without Sync, or after Sync without reading; one client sends Flush
        instead of Sync, and stays for a second.
        """
        for ending, waits in ((b"", False), (b"S", False), (b"H", True)):
            lane = self.rng.choice(LANES)
            group, version, plural = lane.split("/")
            writes, requests, documents = [], [], []
            for name in self.rng.sample(NAMES, 5):
                namespace, nonce = self.rng.choice(NAMESPACES), self.nonces.take()
                writes.append((f"{namespace}/{name}", nonce))
                requests.append({"verb": "create", "group": group, "version": version, "resource": plural,
                                 "namespace": namespace,
                                 "contentType": "application/json", "userAgent": "half", "user": {"username": "half"}})
                documents.append(document(lane, namespace, name, nonce, some_labels(self.rng)))
            begun = now()
            try:
                session = Session(self.stack.database.directory, "kube_reports_proxy", "kube_reports")
                session.send_batch(self.stack.cluster, requests, documents, ending)
                if waits and session.wait_executed():
                    self.no_lock_is_held(session.pid)
                    self.stop.wait(1)
                    self.no_lock_is_held(session.pid)
                session.die()
            except OSError:
                pass
            # The server may still execute the batch.  Its end is not known, so the checker accepts any end in the run.
            for key, nonce in writes:
                self.records.write("write", kind="create", lane=lane, key=key, nonce=nonce, begun=begun,
                                   ended=now(), code=0,
                                   outcome="unknown", version=None, compared=None)
        self.answers()

    def no_lock_is_held(self, pid):
        """Checks that the batch has committed and holds no lock, although its client has not sent Sync."""
        held = self.stack.database.psql(f"SELECT count(*) FROM pg_locks WHERE pid = {pid} AND locktype = 'advisory'",
                                        user="postgres")
        assert held == "0", "a client that does not send Sync keeps a lock"

    def long_reader(self):
        """A snapshot stays open, and shows the same at its end as at its beginning."""
        with psycopg2.connect(self.stack.database.connection()) as session, session.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            shown = []
            for pause in (self.long_reader_seconds, 0):
                cursor.execute("SELECT count(*), sum(version), (SELECT count(*) FROM kube_reports_internal.change) "
                               "FROM kube_reports.object")
                shown.append(cursor.fetchone())
                self.stop.wait(pause)
            assert shown[0] == shown[1], f"a snapshot has changed: {shown}"

    def take_dump(self, form):
        """Makes a dump of one snapshot, and keeps the version of each lane in that snapshot."""
        file = f"{self.stack.pki}/dump-{len(self.lives)}"
        with psycopg2.connect(self.stack.database.connection()) as session, session.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("SELECT pg_export_snapshot()")
            snapshot = cursor.fetchone()[0]
            cursor.execute("SELECT shadow.lane_name(l.id), kube_reports_internal.lane_version(l.id) FROM "
                           "kube_reports_internal.lane l")
            versions = dict(cursor.fetchall())
            run(["pg_dump", f"--format={form}", *(["--jobs=2"] if form == "directory" else []),
                 "--exclude-schema=shadow", f"--snapshot={snapshot}", f"--file={file}",
                 "-d", self.stack.database.connection()])
        self.dumps[form] = file, versions

    def restore(self, form="custom"):
        """An older dump replaces the database; proxies and clients continue."""
        database = self.stack.database
        if form not in self.dumps or self.rng.random() < 0.7:
            self.take_dump(form)
            self.stop.wait(3)
        file, versions = self.dumps[form]
        database.psql("CREATE DATABASE kube_reports_next OWNER kube_reports_owner", user="postgres",
                      database="postgres")
        target = database.connection(database="kube_reports_next")
        if form == "plain":
            run(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", target, "-f", file])
        else:
            run(["pg_restore", "--exit-on-error", "--jobs=2" if form == "directory" else "--single-transaction",
                 "-d", target, file])
        shadow.install(database, "kube_reports_next")
        if self.break_database:
            self.break_database(database, "kube_reports_next")
        last = f"kube_reports_{len(self.lives)}"
        database.psql("ALTER DATABASE kube_reports ALLOW_CONNECTIONS false; "
                      "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = 'kube_reports'",
                      user="postgres", database="postgres")
        # In one transaction, so that a database of this name always exists.
        database.psql(f"BEGIN; ALTER DATABASE kube_reports RENAME TO {last}; ALTER DATABASE kube_reports_next RENAME "
                      "TO kube_reports; COMMIT; "
                      f"ALTER DATABASE {last} ALLOW_CONNECTIONS true", user="postgres", database="postgres")
        self.lives[-1].database = last
        self.lives.append(shadow.Life("kube_reports", versions))
        self.answers()

    def restore_in_parallel(self):
        self.restore("directory")

    def restore_plain(self):
        self.restore("plain")

    def open_transaction(self):
        """A DBA's transactions stay open for some time: one wrote another table, one ran an UPDATE of no report."""
        with psycopg2.connect(self.stack.database.connection()) as session, session.cursor() as cursor:
            cursor.execute("CREATE TABLE IF NOT EXISTS shadow.foreign_table (n int)")
            cursor.execute("INSERT INTO shadow.foreign_table VALUES (1)")
            self.stop.wait(2)
        with psycopg2.connect(self.stack.database.connection()) as session, session.cursor() as cursor:
            cursor.execute("UPDATE kube_reports.object SET metadata = metadata WHERE false")
            self.stop.wait(1.5)


ALL = ("half_request", "half_batch", "kill_worker", "restore", "long_reader", "kill_backend",
       "stopped_writer", "kill_proxy",
       "open_transaction", "restore_in_parallel", "kill_server", "restart_server", "restore_plain", "fail_over",
       "point_in_time")
