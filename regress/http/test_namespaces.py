"""
NamespaceLifecycle and the sweep of namespaces that are gone, with a stand-in for kube-apiserver (k8s-conformance 17,
18.2).
"""

import concurrent.futures
import os
import random
import threading
import time
import uuid
from types import SimpleNamespace

import pytest

from apiserver import ApiServer
from client import CPOLR, POLR, REPS, Watch, failure, path_of, report, result, until
from conftest import stack_command

ROLE = "kube_reports_proxy_namespaces"


@pytest.fixture(scope="module")
def cluster(stack):
    """A cluster of this module only: the namespaces of other tests do not exist in its kube-apiserver."""
    uid = str(uuid.uuid4())
    stack.database.psql(f"CREATE ROLE {ROLE} LOGIN", user="postgres")
    stack.database.psql(f"SELECT kube_reports.grant_proxy('{ROLE}', '{uid}')")
    return uid


class Kube(ApiServer):
    """A stand-in for the kube-apiserver of that cluster, and the proxies that follow it."""

    def __init__(self, stack, cluster):
        certificates = f"{stack.pki}/apiserver"
        stack_command("certificates", certificates)
        super().__init__(certificates)
        self.delete_namespace("kube-system")
        self.create_namespace("kube-system", uid=cluster)
        self.stack = stack
        self.cluster = cluster
        self.proxies = []

    def proxy(self, *flags, ready=True, user_entry=None, **more):
        path = self.kubeconfig(f"{self.stack.pki}/kubeconfig-{uuid.uuid4().hex}", **(user_entry or {"token": "t"}))
        started = self.stack.proxy(user=ROLE, ready=ready, cluster=self.cluster, flags=[
            f"--authentication-kubeconfig={path}", "--authentication-skip-lookup",
            "--disable-admission-plugins=", *flags], **more)
        self.proxies.append(started)
        return started

    def stop_proxies(self):
        for proxy in self.proxies:
            proxy.stop()
        self.proxies = []

    def rows(self, name):
        """Returns what the store has noted of a namespace: uid and state."""
        return self.stack.database.psql(
            "SELECT n.uid, n.state FROM kube_reports_internal.namespace n JOIN kube_reports.cluster c ON c.id = "
                                        "n.cluster_id"
            f" WHERE c.uid = '{self.cluster}' AND n.name = '{name}'").splitlines()

    def stored(self, name):
        """Returns the number of stored objects in a namespace."""
        return int(self.stack.database.psql(
            "SELECT count(*) FROM kube_reports.object o JOIN kube_reports.cluster c ON c.id = o.cluster_id"
            f" WHERE c.uid = '{self.cluster}' AND o.namespace = '{name}'"))

    def empty(self, name, seconds=20):
        until(lambda: self.stored(name) == 0 and self.rows(name) == [], seconds, f"namespace {name} to be swept")

    def noted(self, name):
        """Waits until the store has noted the uid of the namespace that now has this name."""
        wanted = [f"{self.namespace_uid(name)}|active"]
        until(lambda: self.rows(name) == wanted, 20, f"namespace {name} to be noted")


    def end_namespace(self, api, name):
        """Deletes a namespace as the namespace controller does: first the content, until lists are empty."""
        self.terminate_namespace(name)
        for resource in (POLR, REPS):
            assert api.delete(path_of(resource, name)).code == 200
        for resource in (POLR, REPS):
            assert api.names(resource, name) == []
        self.delete_namespace(name)


@pytest.fixture
def kube(stack, cluster):
    server = Kube(stack, cluster)
    yield server
    server.calm()
    server.stop_proxies()
    server.stop()
    stack.database.psql("DELETE FROM kube_reports.object o USING kube_reports.cluster c WHERE c.id = o.cluster_id AND "
                        f"c.uid = '{cluster}';"
                        "DELETE FROM kube_reports_internal.namespace n USING kube_reports.cluster c WHERE c.id = "
                        f"n.cluster_id AND c.uid = '{cluster}'")


@pytest.fixture
def pair(kube):
    """APIs of two proxies of that cluster."""
    return SimpleNamespace(first=kube.proxy().api(), second=kube.proxy().api())


def missing(name):
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": f'namespaces "{name}" not found',
            "reason": "NotFound", "details": {"name": name, "kind": "namespaces"}, "code": 404}


def terminating(namespace, name):
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": f'policyreports.wgpolicyk8s.io "{name}" is forbidden: unable to create new content in namespace '
            f'{namespace}'
                       " because it is being terminated",
            "reason": "Forbidden",
            "details": {"name": name, "group": "wgpolicyk8s.io", "kind": "policyreports",
                        "causes": [{"reason": "NamespaceTerminating",
                                    "message": f"namespace {namespace} is being terminated",
                                    "field": "metadata.namespace"}]},
            "code": 403}


def test_missing_namespace(kube, pair, ns):
    """
    ADM-01, NS-04: TestCreateNotFound: nothing is created in a namespace that does not exist; other requests for it
    work.
    """
    path = path_of(POLR, ns)
    answer = pair.first.post(path, report("a"))
    assert (answer.code, answer.json) == (404, missing(ns))
    assert pair.first.post(path, report("a"), dryRun="All").json == missing(ns)
    assert pair.first.post(path_of(POLR, "No.Namespace"), report("a")).json == missing("No.Namespace")
    # The body is parsed before the namespace is checked, and validated after that.
    failure(pair.first.post(path, "{"), 400, "BadRequest")
    assert pair.first.post(path, {**report("a"), "results": 7}).json == missing(ns)
    assert pair.first.names(POLR, ns) == []
    failure(pair.first.get(path_of(POLR, ns, "a")), 404, "NotFound")
    assert pair.first.post(path_of(CPOLR), report(ns, resource=CPOLR)).code == 201
    # The proxy has asked for the namespace, after it gave the watch some time.
    assert kube.asked(f"/namespaces/{ns}$")
    # A new namespace can be used at once, through any proxy.
    kube.create_namespace(ns)
    pair.first.create(POLR, report("a"), ns)
    pair.second.create(POLR, report("b"), ns)
    assert pair.second.delete(path_of(CPOLR, name=ns)).code == 200


def test_terminating_namespace(kube, pair, ns):
    """ADM-01: creates are refused with their cause; updates, patches and deletes are not."""
    kube.create_namespace(ns)
    held = report("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    stored = pair.first.create(POLR, report("a"), ns)
    pair.first.create(POLR, held, ns)
    kube.noted(ns)
    kube.terminate_namespace(ns)
    for api in (pair.first, pair.second):
        until(lambda: api.post(path_of(POLR, ns), report("b"), dryRun="All").code != 201, 20, "the refusal")
        answer = api.post(path_of(POLR, ns), report("b"))
        assert (answer.code, answer.json) == (403, terminating(ns, "b"))
    generated = report("x")
    generated["metadata"] = {"generateName": "gen-"}
    assert pair.first.post(path_of(POLR, ns), generated).json == terminating(ns, "gen-")
    stored["summary"]["pass"] = 5
    assert pair.first.put(path_of(POLR, ns, "a"), stored).code == 200
    assert pair.second.patch(path_of(POLR, ns, "a"), {"metadata": {"labels": {"x": "y"}}}).code == 200
    assert pair.first.delete(path_of(POLR, ns, "a")).code == 200
    assert pair.second.delete(path_of(POLR, ns)).code == 200
    assert pair.first.names(POLR, ns) == ["held"]
    assert pair.first.patch(path_of(POLR, ns, "held"), {"metadata": {"finalizers": None}}).code == 200
    assert pair.second.names(POLR, ns) == []
    assert kube.rows(ns) == [f"{kube.namespace_uid(ns)}|terminating"]


def test_apply(kube, pair, ns):
    """ADM-01, SSA-10: an apply that would create is a create; one that changes an object is not."""
    def apply(name):
        return pair.first.patch(path_of(POLR, ns, name), report(name), kind="application/apply-patch+yaml",
                                fieldManager="tests")
    assert apply("a").json == missing(ns)
    kube.create_namespace(ns)
    assert apply("a").code == 201
    kube.terminate_namespace(ns)
    # A new name each time: the next apply would change an object that was created before the watches knew.
    until(lambda: all(apply(f"b-{uuid.uuid4().hex}").code == 403 for _ in range(16)), 20, "the watches")
    assert apply("b").json == terminating(ns, "b")
    assert apply("a").code == 200


def test_live_look_up(kube, pair, ns):
    """ADM-01: the proxy asks for a namespace that its watch has not shown yet."""
    kube.noted("default")
    hold = threading.Event()
    kube.trouble(r"\?watch=true", hold=hold)
    kube.disconnect()
    kube.create_namespace(ns)
    pair.first.create(POLR, report("a"), ns)
    assert kube.asked(f"/namespaces/{ns}$")
    assert pair.second.names(POLR, ns) == ["a"]


def test_away_from_the_start(kube, ns):
    """ADM-01: while the proxy knows no namespace, a create is neither 404 nor 201; reads and deletes go on."""
    kube.create_namespace(ns)
    kube.stop()
    api = kube.proxy().api()
    answer = api.post(path_of(POLR, ns), report("a"))
    assert failure(answer, 503, "ServiceUnavailable")["details"] == {"retryAfterSeconds": 1}
    assert api.names(POLR, ns) == []
    failure(api.delete(path_of(POLR, ns, "a")), 404, "NotFound")
    kube.start()
    until(lambda: api.post(path_of(POLR, ns), report("a")).code == 201, 30, "creates to go on")


def test_away_later(kube, pair, ns):
    """ADM-01: while kube-apiserver is away, known namespaces stay known; a create in another one is 503."""
    kube.create_namespace(ns)
    kube.noted(ns)
    kube.stop()
    pair.first.create(POLR, report("a"), ns)
    pair.second.create(POLR, report("b"), ns)
    failure(pair.first.post(path_of(POLR, "no-" + ns), report("a")), 503, "ServiceUnavailable")
    # A deletion meanwhile is seen when kube-apiserver is back.
    kube.delete_namespace(ns)
    assert sorted(pair.first.names(POLR, ns)) == ["a", "b"]
    kube.start()
    kube.empty(ns, 30)
    assert pair.second.post(path_of(POLR, ns), report("c")).json == missing(ns)


@pytest.mark.parametrize("lost", ["forget", "disconnect"])
def test_watch_resumes(kube, pair, ns, lost):
    """ADM-02: after 410 and after a broken connection, nothing that happened meanwhile is missed."""
    doomed, made = ns + "-old", ns + "-new"
    kube.create_namespace(doomed)
    pair.first.create(POLR, report("a"), doomed)
    kube.noted(doomed)
    lists = len(kube.asked("limit="))
    watches = len(kube.asked("watch=true"))
    hold = threading.Event()
    kube.trouble(r"watch=true|limit=", hold=hold)
    getattr(kube, lost)()
    kube.delete_namespace(doomed)
    kube.create_namespace(made)
    kube.calm()
    kube.empty(doomed)
    pair.second.create(POLR, report("a"), made)
    if lost == "forget":
        assert len(kube.asked("limit=")) > lists
    else:
        until(lambda: len(kube.asked("watch=true")) >= watches + 4, 20, "every worker's watch")
        assert len(kube.asked("limit=")) == lists
    # Bookmarks raise the version of a watch without an event: a later 410 for older versions does not concern it.
    kube.bookmark()
    kube.noted(made)


def test_sweep(kube, pair, ns):
    """
    NS-04, RV-04, DC-05: objects of a namespace that is gone are deleted, each with an event and a version of its own.
    """
    other = ns + "-other"
    kube.create_namespace(ns)
    kube.create_namespace(other)
    held = report("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    pair.first.create(POLR, held, ns)
    for number in range(20):
        pair.first.create(POLR, report(f"r{number:02}"), ns)
        pair.second.create(REPS, report(f"r{number:02}", resource=REPS), ns)
    pair.first.create(POLR, report("stays"), other)
    kube.noted(ns)
    listed = int(pair.first.get(path_of(POLR)).json["metadata"]["resourceVersion"])
    with pair.second.watch(path_of(POLR), resourceVersion=str(listed)) as watch:
        kube.delete_namespace(ns)
        kube.empty(ns)
        events = [watch.change() for _ in range(21)]
    assert {kind for kind, _ in events} == {"DELETED"}
    assert sorted(document["metadata"]["name"] for _, document in events) == ["held",
        *(f"r{number:02}" for number in range(20))]
    versions = [int(document["metadata"]["resourceVersion"]) for _, document in events]
    assert versions == sorted(set(versions)) and versions[0] > listed
    assert pair.second.names(POLR, ns) == [] and pair.first.names(REPS, ns) == []
    assert pair.first.names(POLR, other) == ["stays"]


def test_made_again(kube, pair, ns):
    """ADM-01, NS-04: a second namespace of the same name inherits nothing; it is used as soon as the watch shows it."""
    kube.create_namespace(ns)
    pair.first.create(POLR, report("a"), ns)
    kube.end_namespace(pair.first, ns)
    kube.create_namespace(ns)

    def refused(answer):
        """Whether a create was refused: a worker whose watch is late still knows the old namespace."""
        assert answer.code == 201 or answer.json == terminating(ns, "a"), answer
        return answer.code != 201
    for api in (pair.first, pair.second):
        # So many that each of the two workers answers one.
        until(lambda: not any(refused(api.post(path_of(POLR, ns), report("a"), dryRun="All")) for _ in range(16)), 20,
              "the watches")
    stored = pair.second.create(POLR, report("a"), ns)
    pair.first.create(POLR, report("b"), ns)
    kube.noted(ns)
    assert sorted(pair.first.names(POLR, ns)) == ["a", "b"]
    assert pair.first.get(path_of(POLR, ns, "a")).json["metadata"]["uid"] == stored["metadata"]["uid"]


def test_made_again_while_every_proxy_was_down(kube, ns):
    """ADM-01, NS-04: objects of an earlier namespace of the name are swept before anything is created."""
    vanished = ns + "-vanished"
    for name in (ns, vanished):
        kube.create_namespace(name)
    api = kube.proxy().api()
    for name in (ns, vanished):
        api.create(POLR, report("old"), name)
        kube.noted(name)
    kube.stop_proxies()
    for name in (ns, vanished):
        kube.delete_namespace(name)
    kube.create_namespace(ns, clock=2)
    api = kube.proxy().api()
    api.create(POLR, report("new"), ns)
    assert api.names(POLR, ns) == ["new"]
    kube.empty(vanished)
    # The same without a create.
    kube.stop_proxies()
    kube.delete_namespace(ns)
    kube.create_namespace(ns, clock=4)
    kube.proxy()
    until(lambda: kube.stored(ns) == 0, 20, "the sweep")
    kube.noted(ns)


def test_made_again_unseen(kube, pair, ns):
    """
    NS-04: objects that were created after a change that no proxy could see belong to the namespace that exists by
    then.
    """
    kube.create_namespace(ns)
    pair.first.create(POLR, report("old"), ns)
    kube.noted(ns)
    kube.stack.database.psql(f"""
        UPDATE kube_reports.object o SET metadata = (o.metadata::jsonb
            || '{{"creationTimestamp": "2020-01-01T00:00:00Z"}}')::kube_reports.report
        WHERE o.namespace = '{ns}'""")
    kube.stop()
    kube.delete_namespace(ns)
    kube.create_namespace(ns)
    pair.first.create(POLR, report("new"), ns)
    kube.start()
    kube.noted(ns)
    assert pair.second.names(POLR, ns) == ["new"]


def test_deletecollection_sees_the_end(kube, pair, ns):
    """
    NS-01: after the namespace controller has deleted the content, nothing is created there, even if no watch has shown
    the end.
    """
    kube.create_namespace(ns)
    pair.first.create(POLR, report("a"), ns)
    kube.noted(ns)
    hold = threading.Event()
    kube.trouble(r"watch=true|limit=", hold=hold)
    kube.disconnect()
    kube.terminate_namespace(ns)
    assert pair.first.delete(path_of(POLR, ns)).code == 200
    for api in (pair.first, pair.second):
        assert api.post(path_of(POLR, ns), report("b")).json == terminating(ns, "b")
        assert api.names(POLR, ns) == []
    # Without kube-apiserver, a deletion works as well.
    kube.stop()
    assert pair.second.delete(path_of(POLR, "default")).code == 200


def test_objects_that_nobody_knew_of(kube, stack, ns):
    """
    NS-04: objects without a noted namespace (from a dump or SQL) belong to the namespace that exists; without one they
    are swept.
    """
    kube.create_namespace(ns)
    nowhere = ns + "-nowhere"
    for name in (ns, nowhere):
        stack.database.psql(f"SELECT kube_reports.create_report('{kube.cluster}', "
                            f"'{{\"apiVersion\": \"wgpolicyk8s.io/v1alpha2\","
                            " \"kind\": \"PolicyReport\", \"metadata\": "
                            f"{{\"name\": \"a\", \"namespace\": \"{name}\"}}}}')")
    api = kube.proxy().api()
    kube.empty(nowhere)
    kube.noted(ns)
    assert api.names(POLR, ns) == ["a"]


class Lists:
    """Wrong lists of namespaces."""

    @staticmethod
    def empty(items):
        return []

    @staticmethod
    def partial(items):
        return [item for item in items if item["metadata"]["name"] == "kube-system"]

    @staticmethod
    def other_cluster(items):
        return [{"metadata": {"name": "kube-system", "uid": str(uuid.uuid4()), "resourceVersion": "1"}}]


@pytest.mark.parametrize("given", ["empty", "partial", "other_cluster"])
def test_wrong_list_wipes_nothing(kube, ns, given):
    """NS-04: an empty list, one with holes and one of another cluster delete nothing."""
    kube.create_namespace(ns)
    api = kube.proxy().api()
    api.create(POLR, report("a"), ns)
    kube.noted(ns)
    with kube.lock:
        items = list(kube.objects["/api/v1/namespaces"].values())
    asked = len(kube.asked(f"/namespaces/{ns}$"))
    kube.trouble(r"\?limit=", code=200, document={"kind": "NamespaceList", "apiVersion": "v1",
                                                  "metadata": {"resourceVersion": str(kube.version)},
                                                  "items": getattr(Lists, given)(items)})
    lists = len(kube.asked(r"\?limit="))
    kube.forget()
    until(lambda: len(kube.asked(r"\?limit=")) >= lists + 2, 20, "every worker's list")
    if given == "partial":
        # The proxy asks for the missing namespace by name, and finds it.
        until(lambda: len(kube.asked(f"/namespaces/{ns}$")) > asked, 20, "the question for the namespace")
    api.create(POLR, report("b"), ns)
    assert sorted(api.names(POLR, ns)) == ["a", "b"]
    assert kube.rows(ns) == [f"{kube.namespace_uid(ns)}|active"]


@pytest.mark.parametrize("answer", [
    {"code": 404, "text": "404 page not found"},
    {"code": 404, "document": {"kind": "Status", "reason": "NotFound",
                               "details": {"name": "other", "kind": "namespaces"}, "code": 404}},
    {"code": 403, "document": {"kind": "Status", "reason": "Forbidden", "code": 403}},
])
def test_wrong_answer_wipes_nothing(kube, ns, answer):
    """NS-04: only kube-apiserver's own 404 for that very namespace says that it is gone."""
    kube.create_namespace(ns)
    api = kube.proxy().api()
    api.create(POLR, report("a"), ns)
    kube.noted(ns)
    kube.trouble(f"/namespaces/{ns}$", **answer)
    asked = len(kube.asked(f"/namespaces/{ns}$"))
    kube.delete_namespace(ns)
    until(lambda: len(kube.asked(f"/namespaces/{ns}$")) > asked, 20, "the question for the namespace")
    failure(api.post(path_of(POLR, ns), report("b")), 503, "ServiceUnavailable")
    assert api.names(POLR, ns) == ["a"]
    kube.calm()
    assert api.post(path_of(POLR, ns), report("b")).json == missing(ns)
    kube.empty(ns)


def test_unauthorized_list(kube, stack, ns):
    """ADM-02: without the right to list namespaces, the proxy asks for each one, and sweeps nothing by mistake."""
    kube.create_namespace(ns)
    kube.trouble(r"\?limit=", code=403)
    proxy = kube.proxy()
    api = proxy.api()
    until(lambda: "the namespaces cannot be read from kube-apiserver" in proxy.log_path.read_text(), 20,
          "the reason in the log")
    api.create(POLR, report("a"), ns)
    assert api.post(path_of(POLR, "no-" + ns), report("a")).json == missing("no-" + ns)
    assert api.names(POLR, ns) == ["a"]


def test_other_cluster_from_the_start(kube, ns):
    """NS-04: a proxy with the kube-apiserver of another cluster deletes nothing of the store."""
    kube.create_namespace(ns)
    api = kube.proxy().api()
    api.create(POLR, report("a"), ns)
    kube.noted(ns)
    kube.stop_proxies()
    kube.delete_namespace("kube-system")
    kube.create_namespace("kube-system")
    kube.delete_namespace(ns)
    proxy = kube.proxy()
    until(lambda: "is not that of cluster" in proxy.log_path.read_text(), 20, "the reason in the log")
    assert proxy.api().post(path_of(POLR, ns), report("b")).json == missing(ns)
    assert proxy.api().names(POLR, ns) == ["a"]


def test_turned_off(kube, ns):
    """ADM-01: --disable-admission-plugins accepts NamespaceLifecycle, and no other plugin."""
    proxy = kube.proxy("--disable-admission-plugins=NamespaceLifecycle")
    proxy.api().create(POLR, report("a"), ns)
    assert kube.asked(".") == []
    wrong = kube.proxy("--disable-admission-plugins=Other", ready=False)
    assert wrong.process.wait(20) == 2
    assert "the only plugin is NamespaceLifecycle" in wrong.log_path.read_text()


def test_namespace_itself(kube, pair, ns):
    """kubectl asks for the namespace of an object that it did not find."""
    path = f"/api/v1/namespaces/{ns}"
    assert pair.first.get(path).json == missing(ns)
    kube.create_namespace(ns)
    assert pair.first.get(path).json["status"] == {"phase": "Active"}
    kube.terminate_namespace(ns)
    until(lambda: pair.first.get(path).json["status"] == {"phase": "Terminating"}, 20, "the phase")


def test_creates_against_deletions(kube, pair, ns):
    """
    ADM-01, NS-01, NS-04, 24.8: eight writers use two proxies while their namespace is deleted and made again and
    watches break.  Objects that were acknowledged before the last deletion began are gone; objects whose create began
    after the namespace was made last exist.
    """
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    kube.create_namespace(ns)
    done = threading.Event()
    created = []
    wrong = []

    def write(writer):
        api = (pair.first, pair.second)[writer % 2]
        number = 0
        while not done.is_set():
            name = f"w{writer}-{number}"
            number += 1
            begun = time.monotonic()
            answer = api.post(path_of((POLR, REPS)[number % 2], ns), report(name, resource=(POLR, REPS)[number % 2]))
            if answer.code == 201:
                created.append((begun, time.monotonic(), name, answer.json["metadata"]["uid"]))
            elif answer.code not in (403, 404) or (answer.code == 404 and answer.json != missing(ns)):
                wrong.append(answer)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        writers = [pool.submit(write, writer) for writer in range(8)]
        try:
            for _ in range(15):
                count = len(created)
                until(lambda: len(created) > count + chance.randrange(60), 30, f"writes (seed {seed})")
                if chance.random() < 0.3:
                    kube.disconnect()
                if chance.random() < 0.2:
                    kube.forget()
                deletion = time.monotonic()
                kube.end_namespace(chance.choice((pair.first, pair.second)), ns)
                if chance.random() < 0.5:
                    done.wait(chance.random() / 10)
                kube.create_namespace(ns)
                making = time.monotonic()
            count = len(created)
            until(lambda: len(created) > count + 100, 30, f"writes (seed {seed})")
        finally:
            done.set()
        for writer in writers:
            writer.result()
    assert not wrong, (seed, wrong[:3])
    kube.noted(ns)
    there = {item["metadata"]["uid"] for resource in (POLR, REPS)
             for item in pair.second.get(path_of(resource, ns)).json["items"]}
    assert len(there) == kube.stored(ns)
    must_be_gone = {uid for _, ended, _, uid in created if ended < deletion}
    must_be_there = {uid for begun, _, _, uid in created if begun > making}
    assert len(must_be_there) > 50 and len(must_be_gone) > 50, seed
    assert not there & must_be_gone, (seed, len(there & must_be_gone))
    assert must_be_there <= there, (seed, len(must_be_there - there))
    # After the last deletion of the namespace, no object remains.
    kube.delete_namespace(ns)
    kube.empty(ns, 30)


def test_pages(kube, ns):
    """ADM-02: a list comes in pages, and begins again when one has expired."""
    names = [f"{ns}-{number}" for number in range(7)]
    for name in names:
        kube.create_namespace(name)
    kube.page_size = 2
    kube.trouble(r"&continue=", code=410, times=1)
    api = kube.proxy().api()
    for name in names:
        kube.noted(name)
    # A process watches when its list has ended: two workers and the upkeep process.
    until(lambda: len(kube.asked("watch=true")) >= 3, 20, "every process to have its list")
    assert len(kube.asked("&continue=")) >= 3 * 4 + 1
    # From here on, the proxies can know these namespaces from the list only.
    kube.trouble(r"/namespaces/[^?]+$", code=403)
    for name in names:
        api.create(POLR, report("a"), name)


def test_token_is_read_anew(kube, ns):
    """ADM-02: the proxy reads the token of its service account again when it was replaced."""
    token = f"{kube.stack.pki}/token-{ns}"
    with open(token, "w", encoding="ascii") as file:
        file.write("first\n")
    os.chmod(token, 0o644)
    kube.token = "first"
    kube.create_namespace(ns)
    api = kube.proxy(user_entry={"tokenFile": token}).api()
    api.create(POLR, report("a"), ns)
    kube.token = "second"
    failure(api.post(path_of(POLR, "no-" + ns), report("a")), 503, "ServiceUnavailable")
    with open(token, "w", encoding="ascii") as file:
        file.write("second\n")
    assert api.post(path_of(POLR, "no-" + ns), report("a")).json == missing("no-" + ns)


def test_retries(kube, pair, ns):
    """AUTHN-06, AUTHZ-11, ADM-01: five attempts after an error that may pass (429, 5xx, a cut), one after another."""
    kube.noted("default")
    path = f"/namespaces/{ns}$"
    kube.trouble(path, code=500, times=1)
    kube.trouble(path, code=429, times=1)
    kube.trouble(path, drop=True, times=1)
    kube.trouble(path, code=503, times=1)
    assert pair.first.post(path_of(POLR, ns), report("a")).json == missing(ns)
    assert len(kube.asked(path)) == 5
    kube.trouble(path, code=503)
    failure(pair.first.post(path_of(POLR, ns), report("a")), 503, "ServiceUnavailable")
    assert len(kube.asked(path)) == 10
    kube.calm()
    kube.trouble(path, code=403)
    failure(pair.first.post(path_of(POLR, ns), report("a")), 503, "ServiceUnavailable")
    assert len(kube.asked(path)) == 11


def test_flood(kube, ns):
    """
    ADM-01, AUTHZ-11: creates in more unknown namespaces than are looked up at a time are refused at once; creates in a
    known namespace go on
    """
    api = kube.proxy("--workers=1").api()
    kube.create_namespace(ns)
    kube.noted(ns)
    hold = threading.Event()
    path = f"/namespaces/{ns}-flood"
    kube.trouble(path, hold=hold)
    with concurrent.futures.ThreadPoolExecutor(100) as clients:
        answers = [clients.submit(api.post, path_of(POLR, f"{ns}-flood{number}"), report("a")) for number in range(100)]
        until(lambda: sum(answer.done() for answer in answers) == 84, 8, "84 of a hundred to be refused")
        for answer in answers:
            if answer.done():
                status = failure(answer.result(), 503, "ServiceUnavailable")
                assert status["message"].endswith(
                    "could not be looked up: too many namespaces are being looked up"), status
        until(lambda: len(kube.asked(path)) == 16, 8, "16 to be looked up")
        api.create(POLR, report("a"), ns)
        kube.calm()
        assert sorted(answer.result().code for answer in answers) == [404] * 16 + [503] * 84
    assert api.post(path_of(POLR, f"{ns}-flood0"), report("a")).json == missing(f"{ns}-flood0")


def test_silence(kube, pair, ns):
    """ADM-01: a kube-apiserver that accepts and never answers delays requests that need it, for a bounded time."""
    kube.create_namespace(ns)
    pair.first.create(POLR, report("a"), ns)
    kube.noted(ns)
    asked = len(kube.asked(f"/namespaces/{ns}$"))
    hold = threading.Event()
    kube.trouble(r"/namespaces/[^?]+$", hold=hold)
    begun = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(21) as pool:
        waiting = [pool.submit(pair.first.post, path_of(POLR, "no-" + ns), report("a")) for _ in range(20)]
        deletion = pool.submit(pair.first.delete, path_of(REPS, ns))
        until(lambda: len(kube.asked(f"/namespaces/{ns}$")) > asked, 20, "the question of the deletion")
        for number in range(10):
            pair.first.create(POLR, report(f"b{number}"), ns)
        assert not deletion.done()
        assert deletion.result().code == 200
        assert time.monotonic() - begun < 20
        for answer in waiting:
            failure(answer.result(), 503, "ServiceUnavailable")
    # Each worker asks once for all its waiting creates.
    assert len(kube.asked(f"/namespaces/no-{ns}$")) <= 2


def fill(kube, api, ns, count):
    """Stores many reports, as an installation has them after a long time."""
    kube.create_namespace(ns)
    api.create(POLR, report("first", results=[result() for _ in range(3)]), ns)
    kube.stack.database.psql(f"""
        INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
            SELECT o.cluster_id, o.resource_type, o.namespace, 'r' || n,
                jsonb_build_object('name', 'r' || n, 'namespace', o.namespace)::kube_reports.report, o.body
            FROM kube_reports.object o, generate_series(2, {count}) n
            WHERE o.namespace = '{ns}' AND o.name = 'first'""")


def test_namespace_controller(kube, pair, ns):
    """
    NS-01, NS-02, DC-08, RV-04, 24.8: 10,000 reports are deleted as the namespace controller does it, and lists are
    empty at once.
    """
    kube.create_namespace(ns + "-other")
    pair.first.create(POLR, report("stays"), ns + "-other")
    fill(kube, pair.first, ns, 10000)
    kube.noted(ns)
    kube.terminate_namespace(ns)
    listed = pair.first.get(path_of(POLR, ns), limit="1").json["metadata"]["resourceVersion"]
    with Watch(pair.second, path_of(POLR), "application/json", {"resourceVersion": listed}) as watch:
        begun = time.monotonic()
        answer = pair.first.request("DELETE", path_of(POLR, ns), seconds=60,
                                    body={"kind": "DeleteOptions", "apiVersion": "wgpolicyk8s.io/v1alpha2",
                                          "propagationPolicy": "Background"})
        took = time.monotonic() - begun
        assert answer.code == 200, answer
        # Both proxies list nothing from now on.
        assert pair.first.names(POLR, ns) == [] and pair.second.names(POLR, ns) == []
        versions = []
        for _ in range(10000):
            kind, document = watch.change(60)
            assert kind == "DELETED" and document["metadata"]["namespace"] == ns
            versions.append(int(document["metadata"]["resourceVersion"]))
    assert versions == sorted(set(versions)) and versions[0] > int(listed)
    assert took < 30, took
    assert pair.second.names(POLR, ns + "-other") == ["stays"]
    failure(pair.first.delete(path_of(POLR)), 404, "NotFound")
    kube.delete_namespace(ns)
    kube.empty(ns)
