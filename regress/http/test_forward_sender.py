"""
kube-reports-proxy forward: its queue, and a checker of what arrives while everything is killed (issue 19, Sender).

make check-forward runs the checker with 100,000 changes and 200 kills (FORWARD_CHANGES, FORWARD_KILLS).
"""

import collections
import contextlib
import json
import os
import pathlib
import pwd
import random
import shutil
import signal
import subprocess
import threading
import time
import urllib.request
import uuid

import psycopg2
import pytest

import metric_names
from apiserver import ApiServer
from client import WRONG_ADDRESSES, until
from conftest import STACK, VARIANT, Stack, free_port, stack_command

CHANGES = int(os.environ.get("FORWARD_CHANGES", "2000"))
KILLS = int(os.environ.get("FORWARD_KILLS", "12"))
SECONDS = int(os.environ.get("FORWARD_SECONDS", "240"))
SEED = int(os.environ.get("FORWARD_SEED", "0")) or random.randrange(1 << 30)
REPORTS = "/apis/wgpolicyk8s.io/v1alpha2/policyreports"
KINDS = ("policyreports.wgpolicyk8s.io/v1alpha2", "clusterpolicyreports.wgpolicyk8s.io/v1alpha2")


def give_to_servers(*paths):
    if os.getuid() == 0:
        owner = pwd.getpwnam("postgres")
        for path in paths:
            os.chown(path, owner.pw_uid, owner.pw_gid)


class Sender:
    """kube-reports-proxy forward, from a source to a receiver.  token: None for a sender with a certificate."""

    def __init__(self, source, receiver_port, pki, token, directory, kinds=KINDS, flags=()):
        self.metrics_port = free_port()
        self.log_path = pathlib.Path(directory) / "sender.log"
        self.token_file = pathlib.Path(directory) / "token"
        self.token_file.write_text(f"{token}\n", encoding="ascii")
        kubeconfig = source.kubeconfig()
        give_to_servers(directory, self.token_file, kubeconfig)
        self.command = ["/bin/bash", STACK, "become_server", f"{Stack.installed}/usr/bin/kube-reports-proxy", "forward",
                        f"--to=https://127.0.0.1:{receiver_port}", f"--ca-file={pki}/ca.crt",
                        *([f"--token-file={self.token_file}"] if token is not None else []),
                        f"--kinds={','.join(kinds)}", f"--kubeconfig={kubeconfig}",
                        f"--queue={directory}/queue", "--metrics-bind-address=127.0.0.1",
                        f"--metrics-port={self.metrics_port}", "--v=1", *flags]
        self.process = None

    def start(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                                            start_new_session=True)
        return self

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(20)

    def metric(self, name):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=10) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(f"kube_reports_forward_{name} "):
                    return float(line.split()[1])
        raise AssertionError(f"no metric {name}")

    def when(self, name, value, seconds=60):
        def reached():
            assert self.process.poll() is None, self.log_path.read_text()[-2000:]
            with contextlib.suppress(OSError):
                return self.metric(name) == value
            return False
        until(reached, seconds, f"{name} = {value}")


class Pair:
    """A source and a receiver, each with a database of its own."""

    def __init__(self):
        self.source = Stack()
        self.hub = Stack()
        Stack.installed = f"{self.hub.database.directory}/dest"
        for stack in (self.source, self.hub):
            stack.begin()
            # The logs are compared at the end.
            stack.database.psql("SELECT kube_reports.set_setting('log_retention', '1 day'), "
                                "kube_reports.set_setting('log_bytes', '20000000000')")
        self.source.proxy(flags=("--workers=1",))
        self.port = free_port()
        self.certificates = f"{self.hub.pki}/senders"
        stack_command("certificates", self.certificates)
        stack_command("certificate", self.certificates, "east", "/CN=east-sender", "clientAuth")
        give_to_servers(self.certificates, *pathlib.Path(self.certificates).iterdir())
        self.hub.database.psql("SELECT kube_reports.grant_ingest('kube_reports_proxy')")
        self.hub.proxy(flags=("--workers=1", f"--forward-port={self.port}",
                              f"--forward-client-ca-file={self.certificates}/ca.crt"))

    def sender(self, directory, kinds=KINDS, flags=(), source=None, certificate=None):
        """A sender of a cluster of its own at the receiver; the sender and the cluster."""
        cluster = str(uuid.uuid4())
        token = self.hub.database.psql(f"SELECT kube_reports.add_sender('{cluster}', 's-{cluster}'"
                                       + (f", certificate => '{certificate}-sender')" if certificate else ")"))
        if certificate:
            token = None
            flags = (*flags, f"--client-certificate-file={self.certificates}/{certificate}.crt",
                     f"--client-key-file={self.certificates}/{certificate}.key")
        source = source or self.source.proxies[0]
        return Sender(source, self.port, self.hub.pki, token, directory, kinds, flags), cluster

    def end(self):
        self.source.end()
        self.hub.end()


@pytest.fixture(scope="module")
def pair():
    made = Pair()
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def place(tmp_path_factory):
    """A directory that the servers' user can reach."""
    made = pathlib.Path(f"/tmp/kube-reports-forward-{uuid.uuid4().hex[:12]}")
    made.mkdir(mode=0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


class Writer:
    """Changes reports of the source: a namespace of its own, every change with a number in an annotation."""

    def __init__(self, stack, namespace, objects=200):
        self.stack = stack
        self.namespace = namespace
        self.names = [f"r{n:04}" for n in range(objects)]
        self.there = set()
        self.number = 0
        self.connection = psycopg2.connect(stack.database.connection())
        self.random = random.Random(SEED)

    def write(self, count):
        """One batch, no object twice."""
        requests, bodies = [], []
        for name in self.random.sample(self.names, min(count, len(self.names))):
            self.number += 1
            verb = "create" if name not in self.there else self.random.choice(("patch", "patch", "patch", "delete"))
            request = {"group": "wgpolicyk8s.io", "version": "v1alpha2", "resource": "policyreports", "verb": verb,
                       "namespace": self.namespace, "name": None if verb == "create" else name,
                       "contentType": "application/merge-patch+json" if verb == "patch" else "application/json",
                       "user": {"username": "writer"}}
            requests.append(json.dumps({key: value for key, value in request.items() if value}))
            document = {"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "metadata": {
                "name": name, "namespace": self.namespace, "annotations": {"n": str(self.number)}},
                "results": [{"policy": "p", "source": "s", "result": self.random.choice(("pass", "fail")),
                             "message": "x" * self.random.randrange(200)}]}
            bodies.append(b"" if verb == "delete" else json.dumps(document).encode())
            if verb == "delete":
                self.there.discard(name)
            else:
                self.there.add(name)
        with self.connection, self.connection.cursor() as cursor:
            if VARIANT == "sql":
                for request, body in zip(requests, bodies):
                    cursor.execute("SELECT kube_reports_internal.write_one(%s, %s, %s)",
                                   (self.stack.cluster, request, body))
                return len(requests)
            cursor.execute("SELECT w.codes, w.replies FROM kube_reports_internal.write_batch(%s, %s::jsonb[], "
                           "%s::bytea[]) w", (self.stack.cluster, requests, bodies))
            codes, replies = cursor.fetchone()
            assert all(code in (200, 201) for code in codes), [bytes(reply) for reply in replies][:3]
        return len(requests)


def history(database, cluster, namespace):
    """
    For each object its changes in order: A, M or D and the number of the state that came (of D: the one that went).
    """
    rows = json.loads(database.psql(f"""
        SELECT coalesce(json_agg(json_build_array(x.name, x.operation, x.n) ORDER BY x.version), '[]')
        FROM (SELECT c.name, c.operation, c.version,
                CASE WHEN c.operation = 'D' THEN c.old_metadata::text ELSE coalesce(
                lead(c.old_metadata::text) OVER (PARTITION BY c.name ORDER BY c.version),
                (SELECT o.metadata::text FROM kube_reports.object o WHERE o.cluster_id = l.cluster_id
                    AND o.resource_type = l.resource_type AND o.namespace = c.namespace AND o.name = c.name))
                END::jsonb#>>'{{annotations,n}}' AS n
            FROM kube_reports_internal.change c JOIN kube_reports_internal.lane l ON l.id = c.lane
                JOIN kube_reports.cluster k ON k.id = l.cluster_id
                JOIN kube_reports.resource_type t ON t.id = l.resource_type
            WHERE k.uid = '{cluster}' AND c.namespace = '{namespace}' AND t.plural = 'policyreports'
                AND t."group" = 'wgpolicyk8s.io') x""", timeout=300))
    found = collections.defaultdict(list)
    for name, operation, number in rows:
        found[name].append((operation, number))
    return dict(found)


def state(database, cluster, namespace):
    return database.psql(f"""
        SELECT string_agg(r.name || ' ' || r.uid || ' ' || r.body::text, E'\\n' ORDER BY r.name)
        FROM kube_reports.stored_report r
        WHERE r.cluster = '{cluster}' AND r.namespace = '{namespace}'""")


def same_state(pair, cluster, namespace, seconds=60):
    until(lambda: state(pair.hub.database, cluster, namespace) == state(pair.source.database, pair.source.cluster,
                                                                        namespace), seconds, "the same state")


def same_history(pair, cluster, namespace):
    """Each change once and in order; returns how many there are."""
    sent = history(pair.source.database, pair.source.cluster, namespace)
    got = history(pair.hub.database, cluster, namespace)
    for name, changes in sent.items():
        assert got[name] == changes, name
    assert got.keys() == sent.keys()
    return sum(map(len, sent.values()))


# ---------- the checker ----------

class Killer(threading.Thread):
    """Kills the sender, the receiver or its database, and starts it again."""

    def __init__(self, pair, sender, kills):
        super().__init__(daemon=True)
        self.pair = pair
        self.sender = sender
        self.left = kills
        self.random = random.Random(SEED + 1)
        self.done = collections.Counter()
        self.failed = None
        self.ended = False

    def kill_sender(self):
        self.sender.kill()
        self.sender.start()

    def kill_worker(self):
        with contextlib.suppress(ProcessLookupError, IndexError):
            os.kill(self.random.choice(self.pair.hub.proxies[0].workers()), signal.SIGKILL)

    def kill_receiver(self):
        proxy = self.pair.hub.proxies[0]
        os.killpg(proxy.process.pid, signal.SIGKILL)
        proxy.process.wait(20)
        proxy.start()

    def kill_database(self):
        self.pair.hub.database.kill()
        self.pair.hub.database.start()

    def run(self):
        kinds = ["kill_sender"] * 12 + ["kill_worker"] * 5 + ["kill_receiver"] * 2 + ["kill_database"]
        # A short run has each of them, too.
        plan = (["kill_sender", "kill_worker", "kill_receiver", "kill_database"]
                + [self.random.choice(kinds) for _ in range(self.left)])[:self.left]
        self.random.shuffle(plan)
        try:
            for kind in plan:
                time.sleep(self.random.uniform(0.05, 0.8))
                if self.ended:
                    return
                getattr(self, kind)()
                self.done[kind] += 1
                self.left -= 1
        except Exception as error:  # shown by the test
            self.failed = error


def test_nothing_lost_and_nothing_twice(pair, place):
    print(f"seed {SEED}, {CHANGES} changes, {KILLS} kills")
    sender, cluster = pair.sender(place)
    namespace = f"t-{uuid.uuid4().hex[:8]}"
    writer = Writer(pair.source, namespace)
    sender.start().when("watching", len(KINDS))
    killer = Killer(pair, sender, KILLS)
    killer.start()
    begun = time.monotonic()
    written = 0
    try:
        while written < CHANGES or killer.is_alive() and killer.left > 0:
            assert killer.failed is None, killer.failed
            assert time.monotonic() - begun < SECONDS * 4, f"{written} changes, {killer.left} kills are left"
            written += writer.write(writer.random.randrange(1, 60) if written < CHANGES else 1)
            # Changes and kills end at about the same time.
            ahead = written / CHANGES - (KILLS - killer.left) / max(KILLS, 1)
            time.sleep(0.2 if ahead > 0.05 else 0.001)
    finally:
        killer.ended = True
        killer.join()
    assert killer.failed is None, killer.failed
    try:
        same_state(pair, cluster, namespace, SECONDS)
        sender.when("queue_batches", 0, SECONDS)
    finally:
        sender.kill()
    assert same_history(pair, cluster, namespace) == written
    print(f"{written} changes, {dict(killer.done)}, {time.monotonic() - begun:.0f} s")
    assert sum(killer.done.values()) == KILLS


# ---------- the queue ----------

def test_receiver_away(pair, place):
    """Changes wait in the queue, each of them, and arrive when the receiver is there again."""
    sender, cluster = pair.sender(place)
    namespace = f"t-{uuid.uuid4().hex[:8]}"
    writer = Writer(pair.source, namespace, 20)
    sender.start().when("watching", 2)
    proxy = pair.hub.proxies[0]
    os.killpg(proxy.process.pid, signal.SIGKILL)
    proxy.process.wait(20)
    try:
        for _ in range(10):
            writer.write(20)
        until(lambda: sender.metric("events_total") >= 200, 30, "events")
        until(lambda: sender.metric("receiver_up") == 0 and sender.metric("queue_batches") > 0, 30, "the queue")
        # Batches that were written while the clock was ahead.
        for file in (place / "queue").iterdir():
            os.utime(file, (time.time() + 3600, time.time() + 3600))
        assert sender.metric("oldest_seconds") == 0
        sender.kill()
    finally:
        proxy.start()
    sender.start()
    try:
        same_state(pair, cluster, namespace)
        sender.when("queue_batches", 0)
        assert sender.metric("lists_total") == 0
    finally:
        sender.kill()
    same_history(pair, cluster, namespace)


def test_a_read_only_database(pair, place):
    """While the database of the receiver is read-only, changes wait in the queue; then each arrives once"""
    def read_only(setting):
        pair.hub.database.psql(f"SET default_transaction_read_only = off; ALTER SYSTEM {setting}", user="postgres")
        pair.hub.database.psql("SELECT pg_reload_conf()", user="postgres")

    sender, cluster = pair.sender(place)
    namespace = f"t-{uuid.uuid4().hex[:8]}"
    writer = Writer(pair.source, namespace, 20)
    sender.start().when("watching", 2)
    try:
        read_only("SET default_transaction_read_only = on")
        until(lambda: writer.write(20) and sender.metric("failures_total") > 0, 30, "a refused batch")
        sender.kill()
        sender.start().when("watching", 2)
        writer.write(20)
        until(lambda: sender.metric("failures_total") > 0 and sender.metric("queue_batches") > 0, 30, "the queue")
    finally:
        read_only("RESET default_transaction_read_only")
    try:
        same_state(pair, cluster, namespace)
        sender.when("queue_batches", 0)
        assert sender.metric("lists_total") == 0 and sender.metric("rejected_objects_total") == 0
    finally:
        sender.kill()
    same_history(pair, cluster, namespace)


def test_full_queue(pair, place):
    """A full queue is reported, blocks no writer, and goes on where it stopped."""
    sender, cluster = pair.sender(place, flags=("--queue-bytes=1048576", "--batch-bytes=65536"))
    namespace = f"t-{uuid.uuid4().hex[:8]}"
    writer = Writer(pair.source, namespace, 100)
    sender.start().when("watching", 2)
    proxy = pair.hub.proxies[0]
    os.killpg(proxy.process.pid, signal.SIGKILL)
    proxy.process.wait(20)
    try:
        until(lambda: writer.write(100) and sender.metric("queue_full") == 1, 60, "a full queue")
        assert sender.metric("queue_bytes") <= 1048576
        # The log has a thread of its own.
        until(lambda: "the queue is full" in sender.log_path.read_text(), 20, "the line about the queue")
        for _ in range(5):
            writer.write(100)
    finally:
        proxy.start()
    try:
        same_state(pair, cluster, namespace)
        sender.when("queue_full", 0)
        assert sender.metric("queue_full_total") >= 1
    finally:
        sender.kill()
    same_history(pair, cluster, namespace)


class StandIn:
    """A stand-in for kube-apiserver as the source of a sender."""

    def __init__(self, pki, directory):
        self.server = ApiServer(pki)
        self.server.serve(REPORTS, "PolicyReport")
        self.directory = directory
        self.writes = 0

    def kubeconfig(self):
        return self.server.kubeconfig(f"{self.directory}/kubeconfig")

    def write(self, count, size=2000):
        """That many reports, each incompressible; the seconds of the slowest write."""
        slowest = 0
        for _ in range(count):
            self.writes += 1
            begun = time.monotonic()
            self.server.put(REPORTS, {
                "apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport",
                "metadata": {"name": f"r{self.writes % 50}", "namespace": "team"},
                "results": [{"policy": f"p{self.writes}", "source": "s", "result": "fail",
                             "message": os.urandom(size // 2).hex()}]})
            slowest = max(slowest, time.monotonic() - begun)
        return slowest

    def told(self):
        """The Events about full queues."""
        with self.server.lock:
            return [(path, event) for path, event in self.server.events if event["reason"] == "ForwardQueueFull"]


@pytest.fixture
def stand_in(pair, place):
    made = StandIn(pair.hub.pki, place)
    yield made
    made.server.stop()


def fill(pair, sender, stand_in):
    """Lets the queue become full, with the receiver stopped; the receiver's process."""
    proxy = pair.hub.proxies[0]
    os.killpg(proxy.process.pid, signal.SIGKILL)
    proxy.process.wait(20)
    until(lambda: stand_in.write(50) is not None and sender.metric("queue_full") == 1, 60, "a full queue")
    return proxy


@pytest.mark.parametrize("refused", [False, True])
def test_event_of_a_full_queue(pair, place, stand_in, monkeypatch, refused):
    """
    An Event and metrics report a full queue; neither the queue nor a refused Event blocks the cluster, or the sender.
    """
    monkeypatch.setenv("POD_NAME", "sender-0")
    monkeypatch.setenv("POD_NAMESPACE", "reports")
    if refused:
        stand_in.server.trouble("/events$", code=403)
    sender, cluster = pair.sender(place, KINDS[:1], ("--queue-bytes=1048576", "--batch-bytes=65536"), stand_in)
    sender.start().when("watching", 1)
    assert sender.metric("queue_full") == sender.metric("queue_full_total") == 0
    proxy = fill(pair, sender, stand_in)
    try:
        sender.when("queue_full_total", 1)
        assert sender.metric("queue_bytes") <= sender.metric("queue_limit_bytes") == 1048576
        if refused:
            until(lambda: "no Event about the full queue" in sender.log_path.read_text(), 20, "the refused Event")
        else:
            (path, event), = until(stand_in.told, 20, "the Event")
            assert path == "/api/v1/namespaces/reports/events"
            assert event["type"] == "Warning" and "full" in event["message"]
            assert event["metadata"]["namespace"] == "reports"
            assert event["involvedObject"] == {"apiVersion": "v1", "kind": "Pod", "namespace": "reports",
                                               "name": "sender-0"}
        # The cluster writes much more than the queue holds.
        assert stand_in.write(2000) < 5
        assert sender.metric("queue_bytes") <= 1048576
    finally:
        proxy.start()
    wanted = {(one["metadata"]["name"], one["results"][0]["policy"])
              for one in stand_in.server.objects[REPORTS].values()}

    def stored():
        rows = json.loads(pair.hub.database.psql(
            f"SELECT coalesce(json_agg(json_build_array(name, body::text::json#>>'{{results,0,policy}}')), '[]') "
            f"FROM kube_reports.stored_report WHERE cluster = '{cluster}'"))
        return {tuple(row) for row in rows} == wanted
    try:
        until(stored, 60, "the same reports")
        sender.when("queue_full", 0)
        if not refused:
            # Full again within five minutes: counted, but no second Event.
            times = sender.metric("queue_full_total")
            proxy = fill(pair, sender, stand_in)
            until(lambda: sender.metric("queue_full_total") > times, 20, "the count")
            proxy.start()
            assert len(stand_in.told()) == 1
    finally:
        if proxy.process.poll() is not None:
            proxy.start()
        sender.kill()


@pytest.mark.parametrize("code", [401, 403])
def test_refused_at_the_start(pair, place, stand_in, code):
    """A kube-apiserver that has just started refuses everybody for a moment: the sender asks again"""
    stand_in.server.trouble("^/apis/wgpolicyk8s.io/v1alpha2$", code=code, times=2)
    sender, _ = pair.sender(place, KINDS[:1], source=stand_in)
    try:
        sender.start().when("watching", 1)
        assert "this is asked again" in sender.log_path.read_text()
    finally:
        sender.kill()


def test_metrics_of_alerts(pair, place):
    """Each metric that an alert of the chart names is there; docs/forwarding.md describes each, and none else."""
    sender, _ = pair.sender(place)
    sender.start().when("watching", 2)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{sender.metrics_port}/metrics", timeout=10) as answer:
            metric_names.check("sender", "forwarding.md", "kube_reports_forward", answer.read().decode())
    finally:
        sender.kill()


def test_comparison(pair, place):
    """After a cut that kube-apiserver has forgotten, only what differs is sent, and what is gone is deleted."""
    sender, cluster = pair.sender(place)
    namespace = f"t-{uuid.uuid4().hex[:8]}"
    writer = Writer(pair.source, namespace, 50)
    for _ in range(4):
        writer.write(50)
    sender.start()
    try:
        same_state(pair, cluster, namespace)
        assert sender.metric("lists_total") == 2
        sender.when("queue_batches", 0)
        sender.kill()
        before = {name: len(changes) for name, changes in history(pair.hub.database, cluster, namespace).items()}
        changed = writer.random.sample(writer.names, 10)
        everything, writer.names = writer.names, changed
        writer.write(10)
        writer.write(10)
        writer.names = everything
        # What compact() does with a log that is too old.
        pair.source.database.psql("UPDATE kube_reports_internal.lane l SET floor = greatest(l.floor, (SELECT "
                                  "max(c.version) FROM kube_reports_internal.change c WHERE c.lane = l.id)); "
                                  "DELETE FROM kube_reports_internal.change")
        sender.start()
        same_state(pair, cluster, namespace)
        after = {name: len(changes) for name, changes in history(pair.hub.database, cluster, namespace).items()}
        assert {name for name in after if after[name] != before.get(name)} <= set(changed)
    finally:
        sender.kill()


def test_a_receiver_that_was_restored(pair, place):
    """A receiver that has forgotten the stream gets everything that it lacks."""
    sender, cluster = pair.sender(place)
    namespace = f"t-{uuid.uuid4().hex[:8]}"
    writer = Writer(pair.source, namespace, 50)
    sender.start().when("watching", 2)
    try:
        writer.write(50)
        same_state(pair, cluster, namespace)
        sender.when("queue_batches", 0)
        pair.hub.database.psql(f"""
            DELETE FROM kube_reports_internal.forward_stream f USING kube_reports.cluster c
                WHERE c.id = f.cluster_id AND c.uid = '{cluster}';
            DELETE FROM kube_reports.object o USING kube_reports.cluster c
                WHERE c.id = o.cluster_id AND c.uid = '{cluster}' AND o.name < 'r0025'""")
        writer.names = writer.names[40:]
        writer.write(5)
        same_state(pair, cluster, namespace)
        assert sender.metric("streams_total") == 1
    finally:
        sender.kill()


def test_refused_object(pair, place):
    """An object that the receiver's schema refuses is left out, and the others go on."""
    plural, group = f"things{uuid.uuid4().hex[:6]}", "forward.example"
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
           "metadata": {"name": f"{plural}.{group}"},
           "spec": {"group": group, "scope": "Namespaced",
                    "names": {"plural": plural, "singular": plural, "kind": "Thing" + plural,
                              "listKind": plural + "List"},
                    "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                        "type": "object", "properties": {"n": {"type": "integer"}}}}}]}}
    pair.source.database.psql(f"SELECT kube_reports.register_crd('{json.dumps(crd)}')")
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["n"]["maximum"] = 5
    pair.hub.database.psql(f"SELECT kube_reports.register_crd('{json.dumps(crd)}')")
    api = pair.source.proxies[0].api()
    path = f"/apis/{group}/v1/namespaces/team/{plural}"
    until(lambda: api.get(path).code == 200, 20, "the type")
    sender, cluster = pair.sender(place, (f"{plural}.{group}/v1",))
    sender.start().when("watching", 1)
    try:
        for number in (1, 9, 2):
            document = {"apiVersion": f"{group}/v1", "kind": "Thing" + plural, "metadata": {"name": f"t{number}"},
                        "n": number}
            assert api.post(path, document).code == 201
        until(lambda: pair.hub.database.psql(
            f"SELECT string_agg(name, ' ' ORDER BY name) FROM kube_reports.stored_report WHERE cluster = '{cluster}'")
            == "t1 t2", 30, "the other objects")
        assert sender.metric("rejected_objects_total") == 1
        sender.when("queue_batches", 0)
    finally:
        sender.kill()


def reports_of(pair, cluster):
    return pair.hub.database.psql(f"SELECT string_agg(name, ' ' ORDER BY name) FROM kube_reports.stored_report "
                                  f"WHERE cluster = '{cluster}'")


def put_report(stand_in, name, **more):
    stand_in.server.put(REPORTS, {"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport",
                                  "metadata": {"name": name, "namespace": "team", **more.pop("metadata", {})},
                                  "results": [{"policy": "p", "source": "s", "result": "fail", **more}]})


def test_refused_objects_of_a_batch(pair, place, stand_in):
    """
    Objects that the receiver refuses for different reasons: it names some at first, others later, and cannot even read
    a text with U+0000.  All of these are left out, and the others arrive.
    """
    for number in range(8):
        put_report(stand_in, f"good{number}")
    put_report(stand_in, "nul1", message="a\0b")
    put_report(stand_in, "nul2", message="\0")
    put_report(stand_in, "invalid", result="perhaps")
    put_report(stand_in, "uid", metadata={"uid": "no-uuid"})
    sender, cluster = pair.sender(place, KINDS[:1], source=stand_in)
    sender.start()
    try:
        until(lambda: reports_of(pair, cluster) == " ".join(f"good{number}" for number in range(8)), 40, "the others")
        sender.when("queue_batches", 0)
        assert sender.metric("rejected_objects_total") == 4
        put_report(stand_in, "later")
        until(lambda: "later" in reports_of(pair, cluster), 20, "what comes afterwards")
        assert sender.metric("streams_total") == 0
    finally:
        sender.kill()


def test_large_objects(pair, place, stand_in):
    """Objects that the receiver has room for arrive one by one; one that it has no room for is left out"""
    for number, size in enumerate((900_000, 2_500_000, 900_000, 3_200_000, 1000)):
        put_report(stand_in, f"r{number}", message=os.urandom(size // 2).hex())
    sender, cluster = pair.sender(place, KINDS[:1], source=stand_in)
    sender.start()
    try:
        until(lambda: reports_of(pair, cluster) == "r0 r1 r2 r4", 60, "the objects")
        sender.when("queue_batches", 0)
        assert sender.metric("rejected_objects_total") == 1
    finally:
        sender.kill()


def test_a_start_with_a_full_disk(pair, place, stand_in):
    """A sender whose disk is full sends what has filled it, also after a restart"""
    sender, cluster = pair.sender(place, KINDS[:1], source=stand_in)
    sender.start().when("watching", 1)
    proxy = pair.hub.proxies[0]
    os.killpg(proxy.process.pid, signal.SIGKILL)
    proxy.process.wait(20)
    queue = place / "queue"
    try:
        put_report(stand_in, "waits")
        until(lambda: list(queue.glob("*.batch")), 20, "the batch")
        sender.kill()
        # The files can be read, and none can be written.
        queue.chmod(0o500)
        proxy.start()
        sender.start()
        until(lambda: reports_of(pair, cluster) == "waits", 30, "the report")
        queue.chmod(0o700)
        sender.when("queue_batches", 0)
        assert sender.metric("rejected_objects_total") == 0
    finally:
        queue.chmod(0o700)
        if proxy.process.poll() is not None:
            proxy.start()
        sender.kill()


@pytest.mark.parametrize("killed", [False, True])
def test_a_restored_receiver_and_a_full_disk(pair, place, stand_in, killed):
    """A stream that the receiver has forgotten: no batch of another one before that is on the disk, with the order to
    compare, which a restart does not lose"""
    put_report(stand_in, "old")
    sender, cluster = pair.sender(place, KINDS[:1], source=stand_in)
    sender.start().when("watching", 1)
    queue = place / "queue"
    try:
        until(lambda: reports_of(pair, cluster) == "old", 20, "the report")
        sender.when("queue_batches", 0)
        proxy = pair.hub.proxies[0]
        os.killpg(proxy.process.pid, signal.SIGKILL)
        proxy.process.wait(20)
        put_report(stand_in, "new")
        until(lambda: list(queue.glob("*.batch")), 20, "the batch")
        pair.hub.database.psql(f"""
            DELETE FROM kube_reports_internal.forward_stream f USING kube_reports.cluster c
                WHERE c.id = f.cluster_id AND c.uid = '{cluster}';
            DELETE FROM kube_reports.object o USING kube_reports.cluster c
                WHERE c.id = o.cluster_id AND c.uid = '{cluster}'""")
        queue.chmod(0o500)
        proxy.start()
        until(lambda: "state cannot be written" in sender.log_path.read_text(), 30, "the full disk")
        if killed:
            # It may list nothing before it is killed again.
            sender.kill()
            stand_in.server.trouble("/policyreports", code=503)
            sender.start()
        queue.chmod(0o700)
        until(lambda: "new" in (reports_of(pair, cluster) or ""), 30, "the new report")
        if killed:
            sender.kill()
            stand_in.server.calm()
            sender.start()
        until(lambda: reports_of(pair, cluster) == "new old", 30, "both")
    finally:
        queue.chmod(0o700)
        if proxy.process.poll() is not None:
            proxy.start()
        sender.kill()


def test_an_idle_sender_is_not_silent(pair, place, stand_in):
    """A cluster in which nothing changes was seen a moment ago, as long as its sender is there"""
    senders = {}
    for name in ("killed", "idle"):
        (place / name).mkdir()
        sender, cluster = pair.sender(place / name, KINDS[:1], source=stand_in)
        senders[cluster] = sender.start()
        sender.when("watching", 1)
    killed, idle = senders
    seen = pair.hub.database.psql
    try:
        senders[killed].kill()
        # The receiver may still store that it was there.
        until(lambda: seen("SELECT count(*) FROM pg_stat_activity WHERE state <> 'idle' AND query LIKE "
                           "'CALL kube_reports_internal.api_forward%'") == "0", 20, "no request")
        seen("UPDATE kube_reports.cluster SET last_seen = now() - interval '2 hours' "
             f"WHERE uid IN ('{killed}', '{idle}')", user="postgres")
        until(lambda: seen("SELECT silent_for < interval '1 minute' FROM kube_reports.fleet_freshness "
                           f"WHERE cluster = '{idle}'") == "t", 90, "the idle sender to be seen")
        assert seen("SELECT silent_for > interval '1 hour' FROM kube_reports.fleet_freshness "
                    f"WHERE cluster = '{killed}'") == "t"
        assert senders[idle].metric("batches_total") == 0 and senders[idle].metric("receiver_up") == 1
    finally:
        for sender in senders.values():
            sender.kill()


def test_a_certificate_and_metadata(pair, place, stand_in):
    """A sender proves its cluster by a certificate, and says of the cluster what --extra-metadata has"""
    sender, cluster = pair.sender(place, KINDS[:1], ("--extra-metadata=cluster_type=edge,region=north",), stand_in,
                                  "east")
    assert not any(part.startswith("--token-file") for part in sender.command)
    put_report(stand_in, "certified")
    sender.start()
    try:
        until(lambda: reports_of(pair, cluster) == "certified", 30, "the report")
        assert json.loads(pair.hub.database.psql(
            f"SELECT labels FROM kube_reports.fleet_freshness WHERE cluster = '{cluster}'")) == {
                "clusterType": "edge", "region": "north"}
    finally:
        sender.kill()


def test_a_new_token(pair, place, stand_in):
    """After a rotation the sender goes on with what the file has then, without a restart"""
    sender, cluster = pair.sender(place, KINDS[:1], source=stand_in)
    sender.start().when("watching", 1)
    try:
        put_report(stand_in, "first")
        until(lambda: reports_of(pair, cluster) == "first", 30, "the first report")
        sender.when("queue_batches", 0)
        token = pair.hub.database.psql(f"SELECT kube_reports.rotate_sender('s-{cluster}', overlap => '0')")
        before = sender.metric("failures_total")
        put_report(stand_in, "second")
        until(lambda: sender.metric("failures_total") > before, 30, "the old token to be refused")
        assert reports_of(pair, cluster) == "first"
        sender.token_file.write_text(f"{token}\n", encoding="ascii")
        until(lambda: reports_of(pair, cluster) == "first second", 60, "the second report")
        sender.when("queue_batches", 0)
        assert sender.process.poll() is None
        assert sender.metric("lists_total") == 1 and sender.metric("batches_total") == 2
    finally:
        sender.kill()


def test_command_line(pair, place):
    sender, _ = pair.sender(place)
    for change, message in (("--to=http://x", "must be https://HOST:PORT"), ("--kinds=pods", "PLURAL.GROUP/VERSION"),
                            ("--kinds=x.wgpolicyk8s.io/v1alpha2", "does not serve it"),
                            ("--extra-metadata=x", "KEY=VALUE"), ("--queue=/proc/x", "/proc/x"),
                            *((f"--to=https://{wrong}", "must be https://HOST:PORT") for wrong in WRONG_ADDRESSES)):
        done = subprocess.run(sender.command + [change], capture_output=True, text=True, timeout=30, check=False,
                              cwd="/")
        assert done.returncode in (1, 2) and message in done.stderr, (change, done.stderr)
    sender.start().when("watching", 2)
    try:
        done = subprocess.run(sender.command + ["--metrics-port=0"], capture_output=True, text=True, timeout=30,
                              check=False, cwd="/")
        assert done.returncode == 1 and "another sender uses it" in done.stderr, done.stderr
    finally:
        sender.kill()
