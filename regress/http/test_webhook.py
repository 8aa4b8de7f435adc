"""Webhooks for new failures: events come at least once and in order, whatever targets and proxies do (issue 5)."""

import base64
from concurrent.futures import ThreadPoolExecutor
import hashlib
import hmac
import http.server
import json
import os
import signal
import ssl
import threading
import time

import psycopg2
import pytest

from client import CPOLR, POLR, WRONG_ADDRESSES, report, until
from client import unrated_result as result

BEGINNING = "0-0000000000000000"
KEY = b"\x00\x01 a key of any bytes \xff"


class Receiver:
    """
    A target.  answer(number) decides the answer to the request of that number: a code, or a function of the handler.
    """

    def __init__(self, pki):
        receiver = self
        self.requests, self.lock, self.answer = [], threading.Condition(), lambda number: 200
        self.under_way = self.most_under_way = 0

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with receiver.lock:
                    number = len(receiver.requests)
                    receiver.requests.append((dict(self.headers), body, None, self.path))
                    receiver.under_way += 1
                    receiver.most_under_way = max(receiver.most_under_way, receiver.under_way)
                    receiver.lock.notify_all()
                code = receiver.answer(number)
                if callable(code):
                    code = code(self)
                with receiver.lock:
                    receiver.under_way -= 1
                    receiver.requests[number] = (dict(self.headers), body, code, self.path)
                    receiver.lock.notify_all()
                if code is None:
                    self.close_connection = True
                    self.connection.close()
                    return
                self.send_response(code)
                if 300 <= code < 400:
                    self.send_header("Location", f"https://127.0.0.1:{receiver.port}/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_POST

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{pki}/serving.crt", f"{pki}/serving.key")
        # The handshake happens in the thread of the connection.
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.server.server_address[1]
        self.url = f"https://127.0.0.1:{self.port}/hook?x=1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    def events(self, acknowledged=True):
        """Returns the events that came, in order; by default only those of requests that were answered with 200."""
        with self.lock:
            return [event for _, body, code, _ in self.requests if code == 200 or not acknowledged
                    for event in json.loads(body)["events"]]

    def policies(self, **more):
        return [event["policy"] for event in self.events(**more)]


class Hooks:
    """A stack with files for targets, and what tests need of it."""

    def __init__(self, own):
        self.stack = own
        self.database = own.database
        self.directory = f"{own.pki}/hooks"
        os.mkdir(self.directory)
        for name, content in (("ca.crt", open(f"{own.pki}/ca.crt", "rb").read()),
                              ("token", b"secret-token\n"), ("empty", b""),
                              ("hmac", b"whsec_" + base64.b64encode(KEY) + b"\n"), ("plain-hmac", b"words\n"),
                              ("bad-hmac", b"whsec_*\n"),
                              ("two-lines", b"a\r\nX-Injected: b\n")):
            with open(f"{self.directory}/{name}", "wb") as file:
                file.write(content)
            os.chmod(f"{self.directory}/{name}", 0o644)
        os.chmod(self.directory, 0o755)
        self.made = 0
        self.receivers = []
        self.proxy = self.start()
        self.api = self.proxy.api()

    def start(self, *flags, **more):
        return self.stack.proxy(flags=(f"--webhook-directory={self.directory}", "--workers=2", *flags), **more)

    def receiver(self):
        self.receivers.append(Receiver(self.stack.pki))
        return self.receivers[-1]

    def add(self, receiver, filters=None, ca_file="ca.crt", **more):
        """Adds a target of the test; returns its name."""
        self.made += 1
        name = f"target-{self.made}"
        arguments = {"name": name, "cluster": self.stack.cluster,
                     "url": receiver if isinstance(receiver, str) else receiver.url,
                     "filter": json.dumps(filters or {}), "ca_file": ca_file, **more}
        given = ", ".join(f"{key} => '{value}'" for key, value in arguments.items() if value is not None)
        self.database.psql(f"SELECT kube_reports.add_webhook({given})")
        return name

    def call(self, function, name, *more):
        return self.database.psql(f"SELECT kube_reports.{function}('{name}', "
                                  f"'{self.stack.cluster}'{''.join(f', {m!r}' for m in more)})")

    def state(self, name):
        return json.loads(self.database.psql("SELECT to_json(s) FROM kube_reports.webhook_state s WHERE name = "
                                             f"'{name}'"))

    def wait_for_all(self, targets):
        """Waits until the targets have passed every event: their places also move over events that they do not want."""
        newest = json.loads(self.api.get("/v1/export/events").body.splitlines()[-1])["id"]
        until(lambda: all(self.state(target)["acknowledged"] >= newest for target in targets), 30,
              "every target to be done")

    def put(self, namespace, name, *results):
        """Creates a report or replaces its results."""
        self.api.put_report(POLR if namespace else CPOLR, name, namespace, list(results))

    def failures(self, prefix, count, namespace="many"):
        """Makes as many reports with one failure each; returns the policies, in order."""
        policies = [f"{prefix}-{number:03}" for number in range(count)]
        for policy in policies:
            self.put(namespace, policy, result(policy, "fail"))
        return policies


@pytest.fixture(scope="module")
def module_hooks(module_stack):
    module_stack.database.psql("SELECT kube_reports.set_setting('settle_window', '0')")
    return Hooks(module_stack)


@pytest.fixture
def hooks(module_hooks):
    """The stack, without targets of other tests."""
    yield module_hooks
    module_hooks.database.psql("DELETE FROM kube_reports_internal.webhook")
    for receiver in module_hooks.receivers:
        receiver.stop()
    module_hooks.receivers.clear()


def same_order(events):
    """Returns whether the events are in the order of history."""
    places = [(int(event["id"].split("-")[0]),
               int.from_bytes(bytes.fromhex(event["id"].split("-")[1]), "big", signed=True)) for event in events]
    return places == sorted(places)


def test_what_is_sent(hooks):
    """Only new failures are sent, as they are exported, with message and properties; signed, with token, id and time"""
    receiver = hooks.receiver()
    hooks.put("one", "before", result("before", "fail"))
    name = hooks.add(receiver, token_file="token", hmac_file="hmac")
    begun = time.time()
    hooks.put("one", "a", result("new-fail", "fail", severity="high", message='a "message"', properties={"k": "v"}),
              result("passes", "pass"),
              result("is-skipped", "skip"))
    hooks.put("one", "a", result("new-fail", "error", severity="high"), result("passes", "warn"),
              result("is-skipped", "skip"))
    hooks.put("one", "a", result("new-fail", "pass"))
    hooks.put(None, "a", result("of-cluster", "error"))
    until(lambda: receiver.policies()[-1:] == ["of-cluster"], 30, "the last event")
    assert receiver.policies() == ["new-fail", "passes", "of-cluster"] and same_order(receiver.events())
    sent = receiver.events()
    exported = {json.loads(line)["id"]: json.loads(line)
                for line in hooks.api.get("/v1/export/events").body.splitlines()}
    for event in sent:
        assert {key: value for key, value in event.items()
                if key not in ("message", "properties")} == exported[event["id"]]
    assert set(sent[0]) == {*exported[sent[0]["id"]], "message", "properties"}
    for headers, body, _, path in receiver.requests:
        document = json.loads(body)
        headers = {key.lower(): value for key, value in headers.items()}
        assert path == "/hook?x=1" and headers["content-type"] == "application/json" and headers[
            "authorization"] == "Bearer secret-token"
        assert (document["target"], document["cluster"], document["cluster_name"]) == (name,
            hooks.stack.cluster, "test")
        assert (headers["webhook-id"] == headers["idempotency-key"]
                == f"{document['events'][0]['id']}_{document['events'][-1]['id']}")
        assert begun - 2 <= int(headers["webhook-timestamp"]) <= time.time() + 2
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        assert headers["webhook-signature"] == "v1," + base64.b64encode(hmac.new(KEY, signed,
            hashlib.sha256).digest()).decode()
    state = until(lambda: next((s for s in [hooks.state(name)] if s["sent"] == 3), None), 10,
                  "the acknowledgement to be noted")
    assert (state["failures"], state["error"], state["state"]) == (0, None, "waiting")


def test_filters(hooks):
    """Targets filter by status, severity, source, policy and namespace; no target affects another one"""
    wanted = {"all": ({}, {"a", "b", "c", "d"}), "status": ({"status": ["warn", "error"]}, {"b", "c"}),
              "severity": ({"severity": "critical"}, {"a"}),
              "source": ({"source": "trivy"}, {"d"}), "policy": ({"policy": ["a", "c"]}, {"a", "c"}),
              "namespace": ({"namespace": "f-two"}, {"c", "d"}),
              "both": ({"namespace": "f-two", "status": "fail"}, {"d"}), "none": ({"policy": "nothing"}, set())}
    receivers = {name: hooks.receiver() for name in wanted}
    targets = {name: hooks.add(receivers[name], filters) for name, (filters, _) in wanted.items()}
    hooks.put("f-one", "a", result("a", "fail", severity="critical"), result("b", "warn"),
              result("no", "pass", severity="critical"))
    hooks.put("f-two", "a", result("c", "error"), {**result("d", "fail"), "source": "trivy"})
    hooks.wait_for_all(targets.values())
    assert {name: set(receiver.policies()) for name, receiver in receivers.items()} == {name: policies
        for name, (_, policies) in wanted.items()}
    assert receivers["none"].requests == []


def test_what_is_new_for_a_filter_of_statuses(hooks):
    """Without a status filter, a change among warn, fail and error is not new; with one, a change from others is"""
    told = {"any": ({}, [("pass", "warn"), ("pass", "fail"), ("skip", "error")]),
            "fail": ({"status": "fail"}, [("warn", "fail"), ("error", "fail"), ("pass", "fail")]),
            "worse": ({"status": ["fail", "error"]}, [("warn", "fail"), ("pass", "fail"), ("skip", "error")]),
            "error": ({"status": ["error"]}, [("fail", "error"), ("skip", "error")])}
    receivers = {name: hooks.receiver() for name in told}
    targets = [hooks.add(receivers[name], {"namespace": "steps", **filters}) for name, (filters, _) in told.items()]
    for status in ("pass", "warn", "fail", "error", "fail", "pass", "fail", "skip", "error"):
        hooks.put("steps", "a", result("p", status))
    hooks.wait_for_all(targets)
    assert {name: [(event["old_status"], event["new_status"]) for event in receiver.events()]
            for name, receiver in receivers.items()} == {
        name: changes for name, (_, changes) in told.items()}


def test_a_target_that_fails(hooks):
    """
    500, a redirect, a cut connection, no answer in time: the batch is sent again until it is acknowledged, and the
    order stays; no redirect is followed
    """
    receiver = hooks.receiver()
    hold = threading.Event()

    def slow(handler):
        hold.wait(30)
        return None
    receiver.answer = lambda number: [500, 302, None, slow, 404][number] if number < 5 else 200
    name = hooks.add(receiver, timeout="1 second", batch_size=3)
    policies = hooks.failures("failing", 8)
    until(lambda: receiver.policies() == policies, 60, "all events to be acknowledged")
    hold.set()
    assert same_order(receiver.events()) and all(path == "/hook?x=1" for *_, path in receiver.requests)
    assert [code for *_, code, _ in receiver.requests[5:]] == [200] * len(receiver.requests[5:])
    first = [json.loads(body)["events"][0]["id"] for _, body, *_ in receiver.requests[:6]]
    assert len(set(first)) == 1, "something was sent before what failed"
    state = until(lambda: next((s for s in [hooks.state(name)] if s["sent"] == 8), None), 10, "the state")
    assert (state["failures"], state["error"], state["state"]) == (0, None, "waiting")


def test_batches_and_back_off(hooks):
    """Batches are bounded; attempts become rarer; state and metrics show the failures until the target works again"""
    receiver = hooks.receiver()
    receiver.answer = lambda number: 503
    times = []
    name = hooks.add(receiver, batch_size=2)
    policies = hooks.failures("batch", 5)
    with receiver.lock:
        for count in range(1, 5):
            assert receiver.lock.wait_for(lambda: len(receiver.requests) >= count, 30)
            times.append(time.monotonic())
    gaps = [after - before for before, after in zip(times, times[1:])]
    assert gaps[0] >= 0.35 and gaps[1] >= 0.75 and gaps[2] >= 1.5
    state = until(lambda: next((s for s in [hooks.state(name)] if s["failures"] >= 4), None), 10,
                  "the failures to be noted")
    assert state["state"] in ("failing",
                              "sending") and state["error"] == "the target answered with code 503" and state[
        "sent"] == 0
    label = f'{{target="{name}"}}'
    until(lambda: (hooks.proxy.metric(f"kube_reports_webhook_failing_attempts{label}") or 0) >= 3, 30,
          "the metrics to tell")
    assert hooks.proxy.metric(f"kube_reports_webhook_lag_seconds{label}") > 1
    assert hooks.proxy.metric(f"kube_reports_webhook_failures_total{label}") >= 3
    receiver.answer = lambda number: 200
    hooks.call("resume_webhook", name)
    until(lambda: receiver.policies() == policies, 30, "all events")
    assert max(len(json.loads(body)["events"]) for _, body, *_ in receiver.requests) == 2
    until(lambda: hooks.proxy.metric(f"kube_reports_webhook_lag_seconds{label}") == 0, 40, "the lag to be over")
    assert hooks.proxy.metric(f"kube_reports_webhook_events_total{label}") == 5


def test_large_events(hooks):
    """A batch ends early if the texts of its results are large; no event is left out"""
    receiver = hooks.receiver()
    hooks.add(receiver)
    large = [result(f"large-{number:02}", "fail", properties={f"k{n}": os.urandom(60).hex() for n in range(800)})
             for number in range(25)]
    hooks.put("large", "large", *large)
    until(lambda: len(receiver.events()) >= 25, 60, "all events")
    assert {event["policy"]: event["properties"]
            for event in receiver.events()} == {entry["policy"]: entry["properties"] for entry in large}
    assert len(receiver.events()) == 25 and same_order(receiver.events()) and 1 < len(receiver.requests) < 10


def test_a_slow_target_holds_up_nobody(hooks):
    slow, fast = hooks.receiver(), hooks.receiver()
    hold = threading.Event()
    slow.answer = lambda number: lambda handler: 200 if hold.wait(30) else 500
    hooks.add(slow, timeout="30 seconds")
    hooks.add(fast)
    policies = hooks.failures("beside", 3)
    until(lambda: fast.policies() == policies and len(slow.requests) == 1, 30, "the fast target")
    hold.set()
    until(lambda: slow.policies() == policies, 30, "the slow target")


def test_tls_and_files(hooks):
    """Without the CA, a token or a key, nothing is sent, and the state says why"""
    receiver = hooks.receiver()
    told = {hooks.add(receiver, ca_file=None): "certificate",
            hooks.add(receiver, ca_file="missing"): "missing: No such file",
            hooks.add(receiver, token_file="missing"): "missing: No such file",
            hooks.add(receiver, hmac_file="empty"): "empty is empty",
            hooks.add(receiver, hmac_file="bad-hmac"): "no base64",
            hooks.add(receiver, token_file="two-lines"): "more than one line",
            hooks.add(receiver.url.replace("127.0.0.1", "127.0.0.2")): "127.0.0.2"}
    hooks.failures("files", 1)
    for name, words in told.items():
        state = until(lambda name=name: next((s for s in [hooks.state(name)] if s["failures"] > 0), None), 30,
                      "a failure")
        assert words in state["error"], state
    assert receiver.requests == []


def test_a_replica_without_the_files(hooks):
    """
    A proxy without --webhook-directory, and one whose directory lacks a file, leave the target to other proxies, and do
    not delay them
    """
    receiver = hooks.receiver()
    empty = f"{hooks.stack.pki}/no-hooks"
    os.makedirs(empty, exist_ok=True)
    lacking = [hooks.stack.proxy(flags=("--workers=1", "--v=1")),
               hooks.stack.proxy(flags=("--workers=1", "--v=1", f"--webhook-directory={empty}"))]
    hooks.proxy.stop()
    try:
        # Only these two proxies run: each takes several turns.
        name = hooks.add(receiver, token_file="token")
        lacking[0].api().put_report(POLR, "lacking", "many", [result("lacking", "fail")])
        for proxy, words in zip(lacking, ("files need --webhook-directory", "ca.crt: No such file")):
            until(lambda proxy=proxy, words=words: words in proxy.log_path.read_text(), 30, "a turn without the files")
        until(lambda: hooks.state(name)["failures"] >= 6, 60, "several turns")
        assert hooks.state(name)["next_attempt_at"] is None, "the others would have to wait"
    finally:
        hooks.proxy.start()
        hooks.proxy.wait_ready()
    begun = time.monotonic()
    until(lambda: receiver.policies() == ["lacking"], 30, "the event")
    assert time.monotonic() - begun < 5
    state = until(lambda: next((s for s in [hooks.state(name)] if s["failures"] == 0), None), 10, "the acknowledgement")
    assert state["error"] is None
    for proxy in lacking:
        hooks.stack.proxies.remove(proxy)
        proxy.stop()


def test_a_url_without_a_path(hooks):
    receiver = hooks.receiver()
    hooks.add(f"https://127.0.0.1:{receiver.port}?x=1")
    policies = hooks.failures("query", 1)
    until(lambda: receiver.policies() == policies, 30, "the event")
    assert receiver.requests[0][3] == "/?x=1"


@pytest.mark.parametrize("code", (200, 500))
def test_an_answer_without_end(hooks, code):
    """The proxy soon stops to read an endless answer; the code of the answer decides about the batch"""
    receiver = hooks.receiver()
    sent = []

    def endless(handler):
        """Sends until the other side goes away, or has taken more than it should."""
        handler.send_response(code)
        handler.end_headers()
        try:
            while len(sent) < 1000:
                handler.wfile.write(bytes(65536))
                sent.append(1)
        except OSError:
            pass
        return None
    receiver.answer = lambda number: endless if number == 0 else 200
    name = hooks.add(receiver, batch_size=1)
    policies = hooks.failures(f"endless-{code}", 2)
    until(lambda: hooks.state(name)["sent"] == 2, 30, "both events to be acknowledged")
    assert len(sent) < 1000 and receiver.policies() == policies[1 if code == 200 else 0:]
    assert len(receiver.requests) == (2 if code == 200 else 3)


def test_pause_resume_remove(hooks):
    receiver = hooks.receiver()
    name = hooks.add(receiver)
    assert hooks.call("pause_webhook", name) == "t"
    other = hooks.receiver()
    hooks.add(other)
    policies = hooks.failures("paused", 3)
    until(lambda: other.policies() == policies, 30, "the other target")
    assert receiver.requests == [] and hooks.state(name)["state"] == "paused" and hooks.state(name)["oldest_event"]
    assert hooks.call("resume_webhook", name) == "t"
    until(lambda: receiver.policies() == policies, 30, "what waited")
    # Send again, from the second event on.
    assert hooks.call("resume_webhook", name, receiver.events()[0]["id"]) == "t"
    until(lambda: receiver.policies() == policies + policies[1:], 30, "the repetition")
    assert hooks.call("remove_webhook", name) == "t" and hooks.call("remove_webhook",
        name) == "f" == hooks.call("pause_webhook", name)
    more = hooks.failures("removed", 2)
    until(lambda: other.policies() == policies + more, 30, "the other target")
    assert receiver.policies() == policies + policies[1:]


@pytest.mark.parametrize("how", ("resumed", "added-anew"))
def test_going_back_while_a_batch_is_under_way(hooks, how):
    """
    A late acknowledgement does not count for the batch that has taken its place, although the same proxy sends both:
    the failed batch comes again
    """
    receiver = hooks.receiver()
    late, refused = threading.Event(), threading.Event()
    answers = {1: lambda handler: 200 if late.wait(60) else 500, 2: lambda handler: 500 if refused.wait(60) else 200}
    receiver.answer = lambda number: answers.get(number, 200)
    # The events exist before the target: else the first batch might have only one event.
    policies = hooks.failures(how, 4, namespace=how)
    wanted = {"filters": {"namespace": how}, "after": BEGINNING, "batch_size": 2, "timeout": "30 seconds"}
    name = hooks.add(receiver, **wanted)
    until(lambda: len(receiver.requests) == 2, 30, "the second batch to be under way")
    if how == "resumed":
        hooks.call("resume_webhook", name, BEGINNING)
    else:
        hooks.call("remove_webhook", name)
        hooks.add(receiver, name=name, **wanted)
    until(lambda: len(receiver.requests) == 3, 30, "the first batch to be under way again")
    place, failures = hooks.state(name)["acknowledged"], f'kube_reports_webhook_failures_total{{target="{name}"}}'
    late.set()
    until(lambda: hooks.proxy.metric(failures) == 1 or hooks.state(name)["acknowledged"] != place, 30,
          "the late acknowledgement to be told")
    assert hooks.state(name)["acknowledged"] == place
    refused.set()
    until(lambda: receiver.policies() == policies * 2, 60, "all events again")


def test_another_target_of_that_name(hooks):
    """A target is removed and added again while a proxy looks for work: events go to the new URL"""
    hooks.proxy.stop()
    try:
        name = hooks.add("https://127.0.0.1:1/before")
        another = report("another", "another", results=[result("p", "fail")])
        with ThreadPoolExecutor(1) as looking, psycopg2.connect(hooks.database.connection()) as sender, \
                hooks.database.open_create(hooks.stack.cluster, another) as keeper, \
                keeper.cursor() as cursor:
            keeper.commit()
            cursor.execute("LOCK TABLE kube_reports_internal.report_change IN ACCESS EXCLUSIVE MODE")

            def look():
                with sender.cursor() as found:
                    found.execute("SELECT url FROM kube_reports_internal.api_webhook_next(%s)", (hooks.stack.cluster,))
                    return found.fetchall()
            looked = looking.submit(look)
            until(lambda: hooks.database.psql(f"SELECT count(*) FROM pg_locks WHERE pid = {sender.info.backend_pid} "
                                              "AND NOT granted", user="postgres") == "1",
                  30, "the sender to have found the target")
            cursor.execute("SELECT kube_reports.remove_webhook(%s, %s), kube_reports.add_webhook(%s, %s, "
                           "'https://127.0.0.1:1/after',"
                           " after => %s)", (name, hooks.stack.cluster) * 2 + (BEGINNING,))
            keeper.commit()
            assert looked.result(60) == [("https://127.0.0.1:1/after",)]
    finally:
        hooks.proxy = hooks.start()
        hooks.api = hooks.proxy.api()


@pytest.mark.parametrize("arguments, sqlstate", [
    ({"url": "http://a/"}, "22023"), ({"url": "https://user:secret@a/"}, "22023"),
                                                 ({"url": "file:///etc/passwd"}, "22023"),
                                                 ({"url": "https://a/ b"}, "22023"),
    ({"url": "https://a/#f"}, "22023"), ({"url": "https://a/\nX: y"}, "22023"), ({"name": "a b"}, "22023"),
                                                 ({"name": ""}, "22023"), ({"name": "x" * 64}, "22023"),
    ({"token_file": "../token"}, "22023"), ({"hmac_file": ".hidden"}, "22023"), ({"ca_file": "a/b"}, "22023"),
                                                 ({"filter": '{"colour": "red"}'}, "22023"),
    ({"filter": '{"status": "pass"}'}, "22023"), ({"filter": '{"cluster": "x"}'}, "22023"),
                                                 ({"filter": '{"old_status": "pass"}'}, "22023"),
    ({"filter": "[]"}, "22023"), ({"after": "x"}, "22023"),
                                                 ({"cluster": "00000000-0000-4000-8000-000000000000"}, "42704"),
                                                 ({"cluster": None}, "42704"),
    ({"batch_size": "0"}, "22023"), ({"batch_size": "1001"}, "22023"), ({"batch_size": None}, "22023"),
                                                 ({"timeout": "1 hour"}, "22023"),
    ({"timeout": "99 milliseconds"}, "22023"), ({"timeout": None}, "22023"), ({"name": None}, "22023"),
                                                 ({"url": None}, "22023"),
    ({"url": "https://a?b#c"}, "22023"), ({"url": "https://?a"}, "22023"),
                                                 ({"filter": '{"severity": "hihg"}'}, "22023"),
                                                 ({"name": "twice"}, "23505")]
    + [({"url": f"https://{address}"}, "22023") for address in WRONG_ADDRESSES], ids=str)
def test_what_is_no_target(hooks, arguments, sqlstate):
    given = {"name": "good", "cluster": hooks.stack.cluster, "url": "https://a:1/x?y=z", **arguments}
    connection = psycopg2.connect(hooks.database.connection())
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("SELECT kube_reports.add_webhook('twice', %s, 'https://[::1]:8443')", (hooks.stack.cluster,))
        with pytest.raises(psycopg2.Error) as raised:
            cursor.execute(f"SELECT kube_reports.add_webhook({', '.join(f'{key} => %s' for key in given)})",
                           list(given.values()))
    connection.close()
    assert raised.value.pgcode == sqlstate


def test_who_may(hooks):
    """The owner and administrators see and change targets; readers and the proxies' role do not"""
    hooks.add("https://127.0.0.1:1/")
    for user in ("kube_reports_reader", "kube_reports_proxy"):
        for statement in ("SELECT * FROM kube_reports_internal.webhook", "SELECT * FROM kube_reports.webhook_state",
                          "SELECT * FROM kube_reports_internal.webhook_progress",
                          f"SELECT kube_reports.pause_webhook('x', '{hooks.stack.cluster}')",
                          f"SELECT kube_reports.add_webhook('x', '{hooks.stack.cluster}', 'https://a/')"):
            assert "permission denied" in hooks.database.psql(statement, user=user, check=False).err
    other = "00000000-0000-4000-8000-00000000000c"
    hooks.database.psql(f"SELECT kube_reports.register_cluster('{other}')")
    assert hooks.database.psql(f"SELECT count(*) FROM kube_reports_internal.api_webhook_next('{other}')",
                               user="kube_reports_proxy") == "0"
    assert hooks.database.psql("SELECT count(*) FROM kube_reports.webhook_state", user="kube_reports_admin") == "1"


def test_nothing_is_skipped_by_an_open_transaction(hooks):
    """A failure that was logged first and commits last is sent first; one with a larger version waits for it"""
    # Values that results share are stored once.
    # A second writer of the same new value would wait for the open transaction.
    hooks.put(None, "later", result("first-logged", "pass"), result("last-logged", "pass"))
    receiver = hooks.receiver()
    hooks.add(receiver)
    connection = hooks.database.open_create(hooks.stack.cluster,
                                            report("open", "open", results=[result("first-logged", "fail")]))
    hooks.put(None, "later", result("last-logged", "fail"))
    version = int(hooks.database.psql("SELECT max(version) FROM kube_reports_internal.result_change"))
    cluster = f"SELECT id FROM kube_reports.cluster WHERE uid = '{hooks.stack.cluster}'"
    assert int(hooks.database.psql(f"SELECT kube_reports_internal.event_horizon(ARRAY({cluster}))")) < version
    assert (hooks.database.psql(f"SELECT count(*) FROM kube_reports_internal.api_webhook_next('{hooks.stack.cluster}')")
            == "0")
    assert receiver.requests == []
    connection.commit()
    connection.close()
    until(lambda: len(receiver.events()) == 2, 30, "both events")
    assert receiver.policies() == ["first-logged", "last-logged"] and same_order(receiver.events())


def test_two_proxies(hooks):
    """One batch is sent at a time; each event comes once, in order"""
    second = hooks.start()
    try:
        receiver = hooks.receiver()
        pause = threading.Event()

        def answer(number):
            pause.wait(0.02)
            return 200
        receiver.answer = answer
        hooks.add(receiver, batch_size=1)
        policies = hooks.failures("two", 40)
        until(lambda: len(receiver.events()) >= 40, 60, "all events")
        assert receiver.policies() == policies and receiver.most_under_way == 1
    finally:
        second.stop()


def test_restart_loses_and_repeats_nothing(hooks):
    """A proxy that is told to end finishes the batch that it is sending"""
    receiver = hooks.receiver()
    hold = threading.Event()
    receiver.answer = lambda number: 200 if number > 0 else (lambda handler: 200 if hold.wait(30) else 500)
    hooks.add(receiver, batch_size=1, timeout="20 seconds")
    policies = hooks.failures("restart", 6)
    until(lambda: len(receiver.requests) == 1, 30, "the first batch")
    threading.Timer(0.5, hold.set).start()
    hooks.proxy.restart()
    until(lambda: len(receiver.events()) >= 6, 60, "all events")
    assert receiver.policies() == policies and len(receiver.requests) == 6


def test_a_proxy_that_is_killed(hooks):
    """Another proxy takes over when the time of the killed one is up; its last batch comes again, nothing is lost"""
    doomed = hooks.proxy
    receiver = hooks.receiver()
    hold = threading.Event()
    receiver.answer = lambda number: 200 if number > 0 else (lambda handler: None if hold.wait(60) else None)
    hooks.add(receiver, batch_size=2, timeout="1 second")
    policies = hooks.failures("killed", 5)
    until(lambda: len(receiver.requests) == 1, 30, "the first batch")
    for process in doomed.processes():
        os.kill(process, signal.SIGKILL)
    doomed.process.wait(10)
    hold.set()
    hooks.proxy = hooks.start()
    hooks.api = hooks.proxy.api()
    until(lambda: receiver.policies() == policies, 60, "all events")
    assert json.loads(receiver.requests[1][1])["events"][0] == json.loads(receiver.requests[0][1])["events"][0]


def test_the_database_goes_away(hooks):
    """If an acknowledgement cannot be stored, at most that batch comes again"""
    receiver = hooks.receiver()
    stopped = threading.Event()

    def first(handler):
        hooks.database.stop("immediate")
        stopped.set()
        return 200
    receiver.answer = lambda number: first if number == 0 else 200
    hooks.add(receiver, batch_size=2, timeout="1 second")
    policies = hooks.failures("away", 1)
    assert stopped.wait(30)
    hooks.database.start()
    hooks.proxy.wait_ready()
    policies += hooks.failures("again", 3)
    until(lambda: receiver.policies()[-1:] == policies[-1:], 60, "the last event")
    came = receiver.policies()
    repeated = len(came) - len(policies)
    assert repeated in (0, 1) and came == policies[:1] * repeated + policies and same_order(
        receiver.events()[repeated:])


def test_off(hooks):
    """--webhooks=false sends nothing"""
    hooks.proxy.stop()
    silent = hooks.start("--webhooks=false")
    try:
        hooks.api = silent.api()
        receiver = hooks.receiver()
        name = hooks.add(receiver)
        hooks.failures("silent", 1)
        until(lambda: hooks.state(name)["oldest_event"], 10, "the event")
        assert receiver.requests == []
    finally:
        silent.stop()
        hooks.proxy = hooks.start()
        hooks.api = hooks.proxy.api()
    until(lambda: receiver.policies() == ["silent-000"], 30, "the event")
