"""
The proxies' view of the active policies: a view that is not complete drops no result (issue 5, reports-server 5.3,
rules 4 and 9).
"""

import json
import random
import threading

import pytest

from client import EPHR, path_of, until
# pylint: disable=unused-import
from test_aggregation import CPOL, ENABLED, POL, VAP, VPOL, Flow, Workload, known, policed, policy

CEL = "/apis/policies.kyverno.io/v1"
KINDS = {CPOL: "ClusterPolicy", POL: "Policy", VPOL: "ValidatingPolicy",
         f"{CEL}/namespacedvalidatingpolicies": "NamespacedValidatingPolicy",
         f"{CEL}/imagevalidatingpolicies": "ImageValidatingPolicy",
         f"{CEL}/namespacedimagevalidatingpolicies": "NamespacedImageValidatingPolicy",
         f"{CEL}/generatingpolicies": "GeneratingPolicy",
         f"{CEL}/namespacedgeneratingpolicies": "NamespacedGeneratingPolicy",
         f"{CEL}/mutatingpolicies": "MutatingPolicy", f"{CEL}/namespacedmutatingpolicies": "NamespacedMutatingPolicy",
         VAP: "ValidatingAdmissionPolicy",
         "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies": "MutatingAdmissionPolicy"}
RESTS = "reports are not merged until it does"
GOES_ON = "reports are merged again"


@pytest.fixture
def served(policed):
    """A cluster that serves every kind of policy."""
    for collection, kind in KINDS.items():
        policed.apiserver.serve(collection, kind)
    return policed


def begin(stack, **options):
    """Starts two proxies; the database counts how often they ask it to merge."""
    flow = Flow(stack, flags=stack.flags, **options)
    flow.database.psql("ALTER SYSTEM SET track_functions = 'pl'", user="postgres")
    flow.database.psql("SELECT pg_reload_conf()", user="postgres")
    return flow


def let_merge(flow):
    """Waits until every proxy has asked several times for merges that are due."""
    def asked():
        return int(flow.database.psql("SELECT coalesce(sum(calls), 0) FROM pg_stat_user_functions WHERE funcname = "
                                      "'aggregate_piece'", user="postgres"))
    until(lambda: flow.database.psql("SELECT count(*) FROM kube_reports_internal.aggregation_queue q JOIN "
                                     "kube_reports_internal.aggregation a USING (cluster_id)"
                                     " WHERE q.queued_at > now() - a.delay") == "0", 30, "what waits to be due")
    before = asked()
    until(lambda: asked() >= before + 6, 60, "the proxies to ask for merges")


def result(source, name, rule, seconds=1700000000):
    return {"source": source, "policy": name, "rule": rule, "result": "fail",
            "timestamp": {"seconds": seconds, "nanos": 0}}


def errors(proxy, text=""):
    """Returns the messages of errors in the proxy's log."""
    return [entry["message"] for entry in proxy.log_entries(text, "error")]


def waiting(flow):
    return len(flow.api.get(path_of(EPHR)).json["items"])


def followed(server, proxies=2):
    """Waits until this many proxies watch each kind."""
    until(lambda: all(len(server.asked(rf"{collection}\?.*watch=true")) >= proxies for collection in KINDS), 60,
          "each proxy to watch each kind")


def told(flow):
    return flow.database.psql("SELECT changed_at FROM kube_reports_internal.active_policy_set")


TROUBLES = {
    "forbidden": ([{"path": CPOL, "code": 403}], "403"),
    "no-watch": ([{"path": f"{CPOL}.*watch=true", "code": 403}], "403"),
    "broken": ([{"path": CPOL, "code": 500}], "500"),
    "cut": ([{"path": CPOL, "drop": True}], ""),
    "discovery": ([{"path": "/apis/kyverno.io/v1$", "code": 403}], "403"),
    "silent": ([{"path": "/apis/kyverno.io/v1$", "hold": True}], "in time"),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_lost_watch(served, trouble):
    """
    A proxy that cannot watch the policies merges nothing, and says so once, with kube-apiserver's answer; reports that
    came meanwhile are merged afterwards
    """
    server = served.apiserver
    server.put(CPOL, policy("one", ["a"]))
    flow = begin(served)
    until(lambda: ("", "one") in known(flow), 30, "the policies to be known")
    first = Workload("shop", random.Random(1))
    flow.create(first, [result("kyverno", "one", "a")])
    flow.quiet()

    what, said = TROUBLES[trouble]
    for entry in what:
        server.trouble(**{**entry, **({"hold": threading.Event()} if "hold" in entry else {})})
    if trouble not in ("discovery", "silent"):
        server.disconnect()
    until(lambda: all(any(said in line for line in errors(proxy, RESTS)) for proxy in flow.proxies), 30,
          "the logs to say so")
    server.put(CPOL, policy("new", ["b"]))
    second = Workload("shop", random.Random(2))
    flow.create(second, [result("kyverno", "new", "b")])
    let_merge(flow)
    assert waiting(flow) == 1 and ("", "new") not in known(flow)

    server.calm()
    flow.quiet()
    assert set(flow.reports()) == {("shop", first.uid), ("shop", second.uid)}
    until(lambda: all(errors(proxy, GOES_ON) for proxy in flow.proxies), 30, "the logs to say that it goes on")
    for proxy in flow.proxies:
        # Once, or twice if the connection was lost before an answer came.
        assert len(errors(proxy, RESTS)) <= 2 and len(errors(proxy, GOES_ON)) == 1
        assert said != "403" or sum("docs/security.md" in line for line in errors(proxy, "status 403")) == 1


def test_said_again(served):
    """A watch breaks, comes back, and is forbidden later: each time the log says so, with the answer"""
    server = served.apiserver
    server.put(CPOL, policy("one", ["a"]))
    flow = begin(served)
    until(lambda: ("", "one") in known(flow), 30, "the policies to be known")
    # One proxy stores the policies.  The other proxy notices the end of a watch only after it has begun that watch.
    followed(server)
    for _ in range(2):
        said = [len(errors(proxy, GOES_ON)) for proxy in flow.proxies]
        server.disconnect()
        until(lambda: all(len(errors(proxy, GOES_ON)) > times for proxy, times in zip(flow.proxies, said)), 30,
              "the watches to be back")
    server.trouble(CPOL, code=403)
    server.disconnect()
    until(lambda: all(errors(proxy, "status 403") for proxy in flow.proxies), 30, "the logs to say so")


def test_gap(served):
    """Policies that changed while kube-apiserver was away are known before anything is merged"""
    server = served.apiserver
    flow = begin(served)
    until(lambda: told(flow), 30, "the policies to be known")
    server.stop()
    until(lambda: all(errors(proxy, RESTS) for proxy in flow.proxies), 30, "the logs to say so")
    server.put(VPOL, policy("cel"))
    server.put(VAP, policy("admission", labels=ENABLED))
    workload = Workload("shop", random.Random(3))
    flow.create(workload, [result("KyvernoValidatingPolicy", "cel", ""),
                           result("ValidatingAdmissionPolicy", "admission", "")])
    let_merge(flow)
    server.start()
    flow.quiet()
    assert len(flow.reports()["shop", workload.uid]["results"]) == 2


def test_kinds_come_later(own_stack, policed):
    """
    kube-reports is installed before Kyverno: the kinds of policies are known before the first result is merged, and no
    result is dropped
    """
    server = policed.apiserver
    for collection in (CPOL, POL, VPOL, VAP):
        server.unserve(collection)
    flow = begin(policed)
    flow.set(delay="5 seconds")
    until(lambda: told(flow), 60, "the absence of all kinds to be known")
    assert known(flow) == {}
    for collection, kind in KINDS.items():
        server.serve(collection, kind)
    server.put(CPOL, policy("classic", ["a"]))
    server.put(f"{CEL}/mutatingpolicies", policy("cel"))
    workload = Workload("shop", random.Random(4))
    flow.create(workload, [result("kyverno", "classic", "a"), result("KyvernoMutatingPolicy", "cel", "")])
    flow.quiet()
    assert len(flow.reports()["shop", workload.uid]["results"]) == 2


def test_kind_is_away(served):
    """
    A kind that is not served for a moment keeps its policies and their results; one that is gone for good loses them
    """
    server = served.apiserver
    server.put(CPOL, policy("one", ["a"]))
    server.put(VPOL, policy("cel"))
    flow = begin(served)
    until(lambda: set(known(flow)) == {("", "one"), ("KyvernoValidatingPolicy", "cel")}, 30, "the policies to be known")
    workload = Workload("shop", random.Random(5))
    flow.create(workload, [result("kyverno", "one", "a"), result("KyvernoValidatingPolicy", "cel", "")])
    flow.quiet()
    before, reports = told(flow), flow.reports()
    assert len(reports["shop", workload.uid]["results"]) == 2

    # Results are in the order of policies.  Now the list of one kind is not found, although discovery has the kind.
    server.trouble(CPOL, code=404)
    server.forget()
    until(lambda: all(errors(proxy, "404") for proxy in flow.proxies), 30, "the logs to say so")
    flow.create(workload, [result("kyverno", "one", "a", 1700000001)])
    let_merge(flow)
    assert waiting(flow) == 1
    server.calm()
    flow.quiet()
    assert told(flow) == before
    assert [entry["timestamp"]["seconds"]
            for entry in flow.reports()["shop", workload.uid]["results"]] == [1700000000, 1700000001]

    until(lambda: all(len(errors(proxy, GOES_ON)) == 1 for proxy in flow.proxies), 30,
          "the logs to say that it goes on")

    # For a moment, discovery does not have the kind either.
    with server.lock:
        objects = server.objects[CPOL]
        server.unserve(CPOL)
    asked = len(server.asked("/apis/kyverno.io/v1$"))
    until(lambda: len(server.asked("/apis/kyverno.io/v1$")) >= asked + 4, 30, "both proxies to have looked")
    with server.lock:
        server.serve(CPOL, "ClusterPolicy")
        server.objects[CPOL].update(objects)
    until(lambda: all(len(errors(proxy, GOES_ON)) == 2 for proxy in flow.proxies), 30,
          "the logs to say that it goes on")
    assert told(flow) == before and len(flow.reports()["shop", workload.uid]["results"]) == 2

    # Now the kind is gone for good.
    server.unserve(CPOL)
    until(lambda: set(known(flow)) == {("KyvernoValidatingPolicy", "cel")}, 60, "the policies to be gone")
    flow.quiet()
    assert [entry["policy"] for entry in flow.reports()["shop", workload.uid]["results"]] == ["cel"]


def test_cluster_is_not_known(served):
    """A proxy that may not read kube-system says so once, with the answer, and goes on when it may"""
    server = served.apiserver
    server.trouble("/api/v1/namespaces/kube-system", code=403)
    server.put(CPOL, policy("one", ["a"]))
    flow = begin(served)
    workload = Workload("shop", random.Random(6))
    flow.create(workload, [result("kyverno", "one", "a")])
    asked = len(server.asked("/api/v1/namespaces/kube-system"))
    until(lambda: len(server.asked("/api/v1/namespaces/kube-system")) >= asked + 4, 60,
          "the proxies to have asked again")
    let_merge(flow)
    assert waiting(flow) == 1
    for proxy in flow.proxies:
        assert len(errors(proxy, RESTS)) == 1
        assert "status 403" in errors(proxy, RESTS)[0] and "docs/security.md" in errors(proxy, RESTS)[0]
    server.calm()
    flow.quiet()
    assert set(flow.reports()) == {("shop", workload.uid)}
    until(lambda: all(len(errors(proxy, GOES_ON)) == 1 for proxy in flow.proxies), 30,
          "the logs to say that it goes on")


def test_views_of_proxies(served):
    """
    A proxy does not merge by a set of policies that another proxy has stored: an older set that is stored after a newer
    one drops nothing, and is replaced
    """
    served.apiserver.put(CPOL, policy("one", ["a"]))
    flow = begin(served)
    until(lambda: ("", "one") in known(flow), 30, "the policies to be known")
    for number in range(3):
        flow.set_active({("", "older"): ["a"]})
        workload = Workload("shop", random.Random(number))
        flow.create(workload, [result("kyverno", "one", "a")])
        flow.quiet()
        assert ("shop", workload.uid) in flow.reports()
        assert set(known(flow)) == {("", "one")}


def test_version_of_policies(own_stack):
    """
    A proxy that has stored a set of policies merges only while that set is stored; a proxy without a kube-apiserver
    merges by any set; a proxy that knows no set yet does not merge
    """
    flow = Flow(own_stack)
    database, cluster = flow.database, own_stack.cluster

    def tell(*names):
        policies = json.dumps([{"policy": name, "rules": []} for name in names])
        return int(database.psql(f"SELECT kube_reports_internal.api_tell_policies('{cluster}', '{policies}')",
                                 user="kube_reports_proxy"))

    def may_merge(version):
        return database.psql(f"SELECT kube_reports_internal.api_may_merge('{cluster}', {version})",
                             user="kube_reports_proxy") == "t"

    for proxy in flow.proxies:
        proxy.stop()
    first = tell("one")
    assert tell("one") == first and may_merge(first) and may_merge(0) and not may_merge("NULL")
    second = tell("one", "two")
    assert second != first and may_merge(second) and not may_merge(first)
    assert tell("one") != first
    flow.set_active({})
    assert not may_merge(second)
    flow.set_active(None)
    assert not may_merge(second)
    flow.set(follow_policies="false")
    assert tell("one") == -1 and not may_merge(-1) and known(flow) == {}
