"""Throw-away stacks: a PostgreSQL with the extension, and proxies in front of it."""

import atexit
import contextlib
import fcntl
import functools
import itertools
import json
import os
import pathlib
import pwd
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.request
import uuid

import psycopg2
import pytest

from apiserver import ApiServer
from client import Api, until, run
import fleet
from front_proxy import Delegation
from pods import Types

TOP = pathlib.Path(__file__).resolve().parents[2]
VERSION = re.search(r"default_version = '(.*)'",
                    (TOP / "extension" / "kube_reports.control").read_text(encoding="utf-8")).group(1)
STACK = str(TOP / ".ci" / "stack.sh")
CACHE = TOP / "regress" / ".cache"
# The variant of the extension in the databases of the tests: make's variable VARIANT, from the environment.
VARIANT = os.environ.get("VARIANT") or "c"


def only_c_because(reason):
    """Returns a mark for a test that the variant in SQL cannot pass; pytest shows the reason."""
    return pytest.mark.skipif(VARIANT != "c", reason=reason)


only_c = only_c_because("tests the module in C, which the variant in SQL does not have")
# Marks for tests of what the variant in SQL does in another way; each reason says how.
reads_of_c = only_c_because("the proxy of the variant in SQL does not call api_get() and api_list()")
checks_of_c = only_c_because("register_crd() in SQL checks names and versions, not schemas")
fields_of_c = only_c_because("writes by SQL leave managed fields as they are in the variant in SQL")
sql_writers_of_c = only_c_because("writes by SQL exclude each other in the variant in SQL, as DML does")
writes_of_c = only_c_because("the proxy of the variant in SQL decides on writes, and does not call write_batch()")
bookmarks_of_c = only_c_because("the proxy of the variant in SQL makes bookmarks itself, at once")
rebuilds_of_c = only_c_because("in the variant in SQL only the upkeep of a proxy takes the steps of a rebuild")
# A condition on a row l of pg_locks: true for the lock of a lane.
LANE_LOCK = "l.locktype = 'advisory' AND l.classid = 1802661986 AND l.objid::int > 0"
# The number of this worker of pytest-xdist, or of this command of .ci/jobs.sh. The first port is random, because
# several runs may be in progress at the same time.
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw" + os.environ.get("JOB_NUMBER", "0"))[2:])
PORTS = itertools.count(10000 + 6000 * WORKER + random.randrange(4000))


def free_port():
    """
    Returns a port on which no process listens, never the same one twice.  Each worker has its own range, below the
    ports that the kernel gives to clients.
    """
    for port in PORTS:
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port


def stack_command(*arguments, **more):
    """Runs a function of .ci/stack.sh; returns its output."""
    return run(["/bin/bash", STACK, *map(str, arguments)], **more).out.strip()


def decided_write(cursor, cluster, request, document):
    """Commits a create, or a merge patch of top-level members, like a proxy that decides on writes itself."""
    def call(function, *more):
        arguments = (cluster, request["group"], request["version"], request["resource"], *more)
        places = ", ".join(["%s"] * len(arguments))
        cursor.execute(f"SELECT * FROM kube_reports_internal.{function}({places})", arguments)
        return cursor.fetchall()

    body = {key: value for key, value in document.items() if key not in ("apiVersion", "kind", "metadata")}
    if request["verb"] == "create":
        metadata = {**document["metadata"], "uid": str(uuid.uuid4()), "creationTimestamp": "2026-01-01T00:00:00Z"}
        base = 0
    else:
        (_, base, metadata, stored), = call("api_load", [request["namespace"]], [request["name"]], True)
        metadata = json.loads(metadata)
        stored = json.loads(stored)
        body = {**stored, **{key: {**stored.get(key, {}), **value} for key, value in body.items()}}
    cursor.execute("SELECT r.mapping_id, r.fill_summary, r.definition_id FROM kube_reports_internal.api_registry(%s) r "
                   'WHERE (r."group", r.version, r.resource) = (%s, %s, %s)',
                   (cluster, request["group"], request["version"], request["resource"]))
    mapping, fill_summary, definition = cursor.fetchone()
    (codes, *_), = call("commit_batch", False, mapping, fill_summary, [definition], ["u" if base else "i"],
                        [metadata["namespace"]], [metadata["name"]], [metadata["uid"]], [json.dumps(metadata)],
                        [json.dumps(body)], [base], [""], [request["user"]["username"]], [None], [None])
    assert codes == [200]


def own_certificates(directory):
    """Makes certificates that the proxies' user may read."""
    stack_command("certificates", directory)
    if os.getuid() == 0:
        owner = pwd.getpwnam("postgres")
        for entry in [directory, *(os.path.join(directory, name) for name in os.listdir(directory))]:
            os.chown(entry, owner.pw_uid, owner.pw_gid)
    return directory


@contextlib.contextmanager
def locked(path):
    """Makes a file, and holds its lock: only one process at a time runs a block with the same path."""
    with open(path, "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def made_once(name):
    """
    Yields the path of files from which servers are copied, and whether the caller has to make these files. They are
    made once for this process, or once for all processes with the same directory TEST_SERVERS in their environment.
    """
    directory = os.environ.get("TEST_SERVERS")
    if not directory:
        directory = tempfile.mkdtemp(prefix="kube-reports-servers-")
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
    with locked(f"{directory}/{name}.lock"):
        path = f"{directory}/{name}"
        yield path, not os.path.exists(path)


@functools.cache
def installed(variant):
    """Returns a directory in which make has installed a variant."""
    with made_once(f"installed-{variant}") as (path, missing):
        if missing:
            directory = stack_command("server_directory")
            stack_command("server_install", directory, f"VARIANT={variant}")
            shutil.move(f"{directory}/dest", path)
            os.rmdir(directory)
    return path


@functools.cache
def prepared(variant):
    """
    Returns the data directory of a stopped server with roles, a database and the extension: a copy takes much less time
    than a new server.  All copies have the same system identifier.
    """
    with made_once(f"prepared-{variant}-{os.environ.get('INSTALL_WAY', '')}") as (path, missing):
        if missing:
            database = Database(variant)
            try:
                database.start()
                database.prepare("")
                database.stop()
                shutil.move(f"{database.directory}/data", path)
            finally:
                database.remove()
    return path


class Database:
    """A PostgreSQL server in a directory of its own."""

    def __init__(self, variant=VARIANT):
        self.variant = variant
        self.directory = self.stack_command("server_directory")
        self.started = False
        self.install()

    def stack_command(self, *arguments):
        return stack_command(*arguments)

    def install(self):
        run(["cp", "-a", installed(self.variant), f"{self.directory}/dest"])

    def copy_prepared(self):
        """Copies the data of prepared(), unless this server has data already."""
        if not os.path.exists(f"{self.directory}/data"):
            run(["cp", "-a", prepared(self.variant), f"{self.directory}/data"])

    def copy_data(self, other):
        """Copies the data of another server, which is stopped meanwhile: the copy is no restore."""
        other.stop()
        try:
            run(["cp", "-a", f"{other.directory}/data", f"{self.directory}/data"])
        finally:
            other.start()

    def start(self, *settings):
        self.stack_command("server_start", self.directory, "", "fsync = off", *settings)
        self.started = True

    def stop(self, mode="fast"):
        self.stack_command("server_stop", self.directory, mode)
        self.started = False

    def bindir(self):
        """Returns the directory of the programs of PostgreSQL."""
        return self.stack_command("server_bindir", self.directory)

    def prepare(self, cluster):
        """Makes the roles, the database and the extension, and the grants unless cluster is empty."""
        self.stack_command("server_database", self.directory, "5432", cluster)

    def connection(self, user="kube_reports_owner", database="kube_reports"):
        return f"host={self.directory} user={user} dbname={database}"

    def psql(self, sql, user="kube_reports_owner", database="kube_reports", check=True, timeout=120, **variables):
        """Runs SQL; returns its unaligned output without headings, or the finished process when check is off."""
        command = ["psql", "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d", self.connection(user, database)]
        for name, value in variables.items():
            command += ["-v", f"{name}={value}"]
        done = run(command, check=check, timeout=timeout, input=sql)
        return done.out.strip() if check else done

    def derive(self, database="kube_reports"):
        """
        Derives all pending results.  In the SQL variant the upkeep of a proxy derives results, so a proxy runs here
        until none is pending.  Its upkeep cannot fold deltas, because tests change the days of new deltas.
        """
        waiting = "SELECT results_pending FROM kube_reports.status"
        if self.variant != "sql" or self.psql(waiting, database=database) == "f":
            return
        cluster = self.psql("SELECT uid FROM kube_reports.cluster ORDER BY id LIMIT 1", database=database)
        with self.unfolded(database):
            proxy = Proxy(self, cluster, own_certificates(f"{self.directory}/pki-derive"),
                          connection=self.connection(database=database), flags=["--cluster-name="])
            try:
                until(lambda: self.psql(waiting, database=database) == "f", 120, "results by a proxy's upkeep")
            finally:
                proxy.stop()

    def analyze(self, database="kube_reports"):
        """
        Analyzes what a proxy's upkeep analyzes in its first minute. Without statistics of small tables the planner
        expects so many rows that the server compiles the queries of readers, which takes seconds.
        """
        until(lambda: self.psql("SELECT kube_reports_internal.analyze_step()", database=database) == "f", 60,
              "statistics")

    @contextlib.contextmanager
    def unfolded(self, database="kube_reports"):
        """Keeps new deltas unfolded meanwhile: upkeep folds them, and so does a write now and then."""
        lock = "(kube_reports_internal.lock_class(), kube_reports_internal.folding_lock())"
        with contextlib.closing(psycopg2.connect(self.connection(database=database))) as folding:
            folding.cursor().execute(f"SELECT pg_advisory_lock{lock}")
            try:
                yield
            finally:
                # The end of the session would release the lock some time later.
                folding.cursor().execute(f"SELECT pg_advisory_unlock{lock}")

    def pgbench(self, script, *options):
        """Runs a file of SQL repeatedly; returns the output of pgbench."""
        return run([f"{self.bindir()}/pgbench", "-n", "-f", str(script), *options, self.connection()], timeout=600).out

    def open_create(self, cluster, document):
        """Creates a policy report as the API does, in a transaction that stays open; returns its connection."""
        return self.open_write(cluster,
                               {"verb": "create", "namespace": document["metadata"]["namespace"]}, document, 201)

    def open_write(self, cluster, request, document, code):
        """Does any write in the same way; the code of its answer must be this one."""
        connection = psycopg2.connect(self.connection())
        request = {"group": "wgpolicyk8s.io", "version": "v1alpha2", "resource": "policyreports",
                   "user": {"username": "u"}, **request}
        with connection.cursor() as cursor:
            cursor.execute("SELECT kube_reports_internal.lock_store_shared()")
            if self.variant == "sql":
                decided_write(cursor, cluster, request, document)
                return connection
            cursor.execute("SELECT w.codes[1] FROM kube_reports_internal.write_batch(%s, ARRAY[%s::jsonb], "
                           "ARRAY[%s::bytea], 8) w",
                           (cluster, json.dumps(request), json.dumps(document).encode()))
            assert cursor.fetchone()[0] == code
        return connection

    def at_lane_lock(self, how):
        """Returns the pids of backends that hold or await a lane's lock, as lines; how: a condition on the lock l."""
        return self.psql(f"SELECT l.pid FROM pg_locks l WHERE {LANE_LOCK} AND {how}", user="postgres")

    def copy(self, primary, *options):
        """Takes a base backup of another server."""
        data = f"{self.directory}/data"
        shutil.rmtree(data, ignore_errors=True)
        stack_command("as_server", "pg_basebackup", "-h", primary.directory, "-U", "postgres", "-D", data, "--no-sync",
                      "--checkpoint=fast", *options)

    def recover(self, *settings):
        """Starts from a base backup; the settings say where the WAL is. Returns when recovery has ended."""
        stack_command("as_server", "touch", f"{self.directory}/data/recovery.signal")
        self.start(*settings)
        until(lambda: self.psql("SELECT pg_is_in_recovery()", user="postgres") == "f", 60, "the end of recovery")

    def follow(self, primary, *settings):
        """Makes this server a standby of another server: takes a base backup, starts, waits until it streams."""
        self.copy(primary, "-R", "-X", "stream")
        self.start(*settings)
        until(lambda: primary.psql("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'",
                                   user="postgres") == "1",
              30, "the standby to stream")

    def promote(self):
        self.psql("SELECT pg_promote()", user="postgres")

    def kill(self):
        """Kills the postmaster with SIGKILL; returns when its process has ended."""
        with open(f"{self.directory}/data/postmaster.pid", encoding="ascii") as file:
            server = int(file.readline())
        os.kill(server, signal.SIGKILL)

        def gone():
            try:
                os.kill(server, 0)
                return False
            except ProcessLookupError:
                return True
        until(gone, 10, "the end of the killed server")

    def remove(self):
        self.stop("immediate")
        shutil.rmtree(self.directory, ignore_errors=True)


class DatabaseBefore(Database):
    """A server of the previous PostgreSQL version, for which .ci/check-pg has built a copy of the tree."""

    def stack_command(self, *arguments):
        return run(["/bin/bash", f"{os.environ['TREE_BEFORE']}/.ci/stack.sh", *map(str, arguments)],
                   env={**os.environ, "PG_CONFIG": os.environ["PG_CONFIG_BEFORE"]}).out.strip()

    def install(self):
        self.stack_command("server_install", self.directory, f"VARIANT={self.variant}")

    def copy_prepared(self):
        """Does nothing: prepared() has the data of another version."""


class Proxy:
    """A proxy process with its workers."""

    def __init__(self, database, cluster, pki, user="kube_reports_proxy", connection=None, flags=(),
                 environment=None, under=()):
        """under: a command, such as prlimit or env, that starts the proxy in the same process."""
        self.pki = pki
        self.environment = {**os.environ, **(environment or {})}
        self.port = free_port()
        self.metrics_port = free_port()
        self.log_path = pathlib.Path(pki) / f"proxy-{self.port}.log"
        self.command = [
            "/bin/bash", STACK, "become_server", *under,
            f"{database.directory}/dest/usr/bin/kube-reports-proxy",
            "--bind-address=127.0.0.1", f"--secure-port={self.port}",
            "--metrics-bind-address=127.0.0.1", f"--metrics-port={self.metrics_port}",
            f"--tls-cert-file={pki}/serving.crt", f"--tls-private-key-file={pki}/serving.key",
            f"--client-ca-file={pki}/ca.crt", "--authorization-mode=AlwaysDeny",
            # A stand-in for kube-apiserver lacks the namespaces of other tests; the proxy would delete their objects.
            "--disable-admission-plugins=NamespaceLifecycle",
            f"--database={connection or database.connection(user)}", f"--cluster-id={cluster}", "--cluster-name=test",
            "--workers=2", *flags]
        self.start()

    def start(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                                            env=self.environment, start_new_session=True)

    def restart(self):
        """Ends the proxy as Kubernetes ends a pod, by SIGTERM to its first process; restarts it on the same ports."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0, f"the proxy did not end well: {self.log_path.read_text()[-2000:]}"
        self.start()
        self.wait_ready()

    def api(self, user="admin", keep=False):
        return Api(self.port, f"{self.pki}/ca.crt", f"{self.pki}/{user}" if user else None, keep)

    def answers(self, path="/readyz"):
        """Returns the answer to a request of the user admin, or None while no process listens."""
        assert self.process.poll() is None, f"the proxy has ended: {self.log_path.read_text()[-2000:]}"
        try:
            return self.api().get(path)
        except OSError:
            return None

    def wait_ready(self, seconds=30):
        def ready():
            """Returns whether eight requests succeed: for each connection the kernel chooses a worker."""
            answers = (self.answers() for _ in range(8))
            return all(answer is not None and answer.code == 200 for answer in answers)
        until(ready, seconds, "readiness of the proxy")
        return self

    def processes(self):
        """Returns the ids of the parent, its workers, the upkeep process and the feed process."""
        def below(pid):
            try:
                children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
            except OSError:
                # The process has ended after its id was read.
                children = []
            for child in children:
                yield int(child)
                yield from below(int(child))
        return [self.process.pid, *below(self.process.pid)]

    def named(self, name):
        """Returns the id of the process with this name, or None."""
        for pid in self.processes()[1:]:
            try:
                if pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="ascii") == name + "\n":
                    return pid
            except OSError:
                pass
        return None

    def upkeep(self):
        """Returns the id of the upkeep process, or None."""
        return self.named("kube-reports-up")

    def feed(self):
        """Returns the id of the feed process, or None."""
        return self.named("kube-reports-fd")

    def workers(self):
        """Returns the ids of the workers."""
        others = (self.upkeep(), self.feed())
        return [pid for pid in self.processes()[1:] if pid not in others]

    def memory(self, field="VmRSS"):
        """Returns the sum of a memory counter over all processes of the proxy, in bytes."""
        total = 0
        for pid in self.processes():
            with open(f"/proc/{pid}/status", encoding="ascii") as lines:
                total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":"))
        return total

    def reset_peak(self):
        """Resets VmHWM of all processes."""
        for pid in self.processes():
            with open(f"/proc/{pid}/clear_refs", "w", encoding="ascii") as file:
                file.write("5")

    def metric(self, name):
        """Returns the value of a metric without labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=10) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(name + " "):
                    return float(line.split()[1])
        return None

    def series(self, name, **labels):
        """Returns the sum of the series of a metric that have these labels; None when there are none."""
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=10) as answer:
            found = [float(line.rsplit(" ", 1)[1]) for line in answer.read().decode().splitlines()
                     if line.startswith((name + "{", name + " ")) and all(label in line for label in wanted)]
        return sum(found) if found else None

    def watches(self):
        """Returns the number of open watches."""
        return self.series("apiserver_longrunning_requests") or 0

    def log_lines(self):
        """Returns the complete lines of the log; the proxy may be writing the last one."""
        return self.log_path.read_text(encoding="utf-8").rpartition("\n")[0].splitlines()

    def log_entries(self, words="", level=None):
        """Returns the entries of a log in JSON that have these words in the message and, if given, this level."""
        entries = (json.loads(line) for line in self.log_lines() if line.startswith("{"))
        return [entry for entry in entries if words in entry["message"] and level in (None, entry["level"])]

    def kubeconfig(self):
        path = f"{self.pki}/kubeconfig-{self.port}"
        with open(path, "w", encoding="utf-8") as file:
            file.write(stack_command("kubeconfig", self.pki, self.port))
        return path

    def stop(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait(15)


class Stack:
    """One database and the proxies of a test module."""

    shared = None  # the Stack of the fixture stack

    def __init__(self, variant=VARIANT):
        self.database = Database(variant)
        self.cluster = str(uuid.uuid4())
        self.proxies = []
        self.pki = f"{self.database.directory}/pki"
        stack_command("certificates", self.pki)
        stack_command("certificate", self.pki, "nobody", "/O=dev/CN=nobody", "clientAuth")
        if os.getuid() == 0:
            owner = pwd.getpwnam("postgres")
            for entry in [self.pki, *(os.path.join(self.pki, name) for name in os.listdir(self.pki))]:
                os.chown(entry, owner.pw_uid, owner.pw_gid)

    def begin(self, *settings, copied=True):
        """Starts the server with its database; copied: the server may have the system identifier of others."""
        if copied:
            self.database.copy_prepared()
        self.database.start(*settings)
        self.database.prepare(self.cluster)
        return self

    def proxy(self, cluster=None, ready=True, **more):
        started = Proxy(self.database, cluster or self.cluster, self.pki, **more)
        self.proxies.append(started)
        return started.wait_ready() if ready else started

    def unregister(self, *names):
        """Unregisters types of one group, and waits until no worker of the two proxies serves them."""
        self.database.psql(f"SELECT kube_reports.unregister(name, true) FROM unnest('{{{','.join(names)}}}'::text[]) "
                           "name")
        group = names[0].split(".", 1)[1]

        def gone(api):
            return all(entry["name"] != group for entry in api.get("/apis").json["groups"])
        until(lambda: all(gone(proxy.api()) for proxy in (self.first, self.second) for _ in range(16)), 20,
              f"{group} to be gone")

    def end_proxies(self, kept=()):
        """Stops all proxies except the kept ones: each proxy holds connections of the database."""
        for proxy in [proxy for proxy in self.proxies if proxy not in kept]:
            self.proxies.remove(proxy)
            proxy.stop()

    def end(self):
        self.end_proxies()
        self.database.remove()


@pytest.fixture(scope="session")
def stack():
    """The stack that most tests share: two proxies of one cluster, and a third proxy of another cluster."""
    shared = Stack()
    try:
        shared.begin()
        shared.other_cluster = str(uuid.uuid4())
        shared.database.psql("CREATE ROLE kube_reports_proxy_b LOGIN", user="postgres")
        shared.database.psql(f"SELECT kube_reports.grant_proxy('kube_reports_proxy_b', '{shared.other_cluster}')")
        shared.first = shared.proxy()
        shared.second = shared.proxy()
        shared.other = shared.proxy(cluster=shared.other_cluster, user="kube_reports_proxy_b")
        Stack.shared = shared
        yield shared
    finally:
        shared.end()


def end_further_proxies():
    """Stops the proxies that tests have started at the shared stack."""
    kept = list(Stack.shared.proxies) if Stack.shared else None
    yield
    if kept is not None:
        Stack.shared.end_proxies(kept)


@pytest.fixture(autouse=True, scope="module")
def proxies_of_a_module():
    yield from end_further_proxies()


@pytest.fixture(autouse=True)
def proxies_of_a_test():
    yield from end_further_proxies()


@pytest.fixture(scope="session")
def fleet_store():
    """A database with the fleet of fleet.py, and the documents of the fleet; tests only read them."""
    shared = Stack()
    try:
        database = shared.begin().database
        yield database, fleet.fill(database)
    finally:
        shared.end()


@pytest.fixture(scope="module")
def module_stack():
    """A stack for one module, without a proxy."""
    own = Stack()
    try:
        yield own.begin()
    finally:
        own.end()


@pytest.fixture
def own_stack():
    """A stack for a test that breaks the stack; no process is started yet."""
    own = Stack()
    try:
        yield own
    finally:
        own.end()


def run_apiserver(stack):
    """Yields a stand-in for kube-apiserver with the namespaces default and kube-system."""
    certificates = f"{stack.pki}/apiserver"
    stack_command("certificates", certificates)
    server = ApiServer(certificates)
    yield server
    server.calm()
    server.stop()


@pytest.fixture
def apiserver(stack):
    """A stand-in for kube-apiserver for one test."""
    yield from run_apiserver(stack)


@pytest.fixture(scope="module")
def module_apiserver(stack):
    """A stand-in for kube-apiserver for one module."""
    yield from run_apiserver(stack)


@pytest.fixture
def delegate(stack, apiserver):
    """
    Makes proxies for one test that delegate to the stand-in for kube-apiserver, which allows nothing by default.
    """
    made = []

    def make(flags=(), **entries):
        made.append(Delegation(stack, apiserver, stack_command, flags, **entries))
        return made[-1]
    yield make
    for delegation in made:
        delegation.end()


@pytest.fixture(scope="session")
def api(stack):
    return stack.first.api()


@pytest.fixture(scope="session")
def second_api(stack):
    return stack.second.api()


@pytest.fixture
def ns():
    """The name of a namespace for one test; a store needs no object for a namespace."""
    return "t-" + uuid.uuid4().hex[:10]


@pytest.fixture(scope="module")
def types(stack, request):
    """Registers types for the module, and unregisters them at its end."""
    made = Types(stack, request.module.__name__.removeprefix("test_").replace("_", "-") + ".example")
    yield made
    made.end()


def debian_kubectl():
    """Returns Debian's kubectl of any version: the installed one, or one unpacked into a cache beside the tests."""
    owner = run(["dpkg-query", "-W", "-f", "${Status}", "kubernetes-client"], check=False)
    if owner.out == "install ok installed":
        return "/usr/bin/kubectl"
    unpacked = CACHE / "kubernetes-client" / "usr" / "bin" / "kubectl"
    CACHE.mkdir(parents=True, exist_ok=True)
    with locked(CACHE / "kubernetes-client.lock"):
        if not unpacked.exists():
            # apt downloads into a directory that its unprivileged user may write to; otherwise it warns and goes on.
            done = run(["apt-get", "download", "kubernetes-client"], check=False, cwd=CACHE)
            packages = sorted(CACHE.glob("kubernetes-client_*.deb"))
            if done.code != 0 or not packages:
                return None
            run(["dpkg", "-x", str(packages[-1]), str(CACHE / "kubernetes-client")])
            for package in packages:
                package.unlink()
    return str(unpacked)


def kubectl_binaries():
    """Returns every available kubectl; None instead of Debian's when it is not available, so that its tests fail."""
    found = [debian_kubectl()]
    on_path = shutil.which("kubectl")
    if on_path and os.path.realpath(on_path) not in [os.path.realpath(other) for other in found if other]:
        found.append(on_path)
    return found


def kubectl_version(path):
    if path is None:
        return "debian"
    done = run([path, "version", "--client"], check=False)
    words = done.out.replace('"', " ").replace(",", " ").split()
    return next((word for word in words if word.startswith("v1.")), "unknown")


KUBECTLS = kubectl_binaries()


def pytest_report_header():
    return f"variant: {VARIANT}; kubectl: " + (", ".join(f"{path} {kubectl_version(path)}" for path in KUBECTLS))


class Kubectl:
    def __init__(self, binary, proxy, cache):
        self.binary = binary
        self.kubeconfig = proxy.kubeconfig()
        self.cache = cache
        minor = kubectl_version(binary).split(".")
        self.minor = int(minor[1]) if len(minor) > 1 else 0

    def command(self, *arguments):
        return [self.binary, f"--kubeconfig={self.kubeconfig}", f"--cache-dir={self.cache}", *arguments]

    def __call__(self, *arguments, check=True, **more):
        return run(self.command(*arguments), check=check, **more)

    def out(self, *arguments, **more):
        return self(*arguments, **more).out

    def start(self, *arguments):
        return subprocess.Popen(self.command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.fixture(params=KUBECTLS, ids=[kubectl_version(path) for path in KUBECTLS])
def kubectl(request, stack, tmp_path):
    assert (request.param is
            not None), f"Debian's kubernetes-client is not installed and apt-get could not download it to {CACHE}"
    return Kubectl(request.param, stack.first, tmp_path / "cache")
