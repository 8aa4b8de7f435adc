"""
API priority and fairness: kube-apiserver sorts requests for our groups like any others, and the proxy's questions about
these requests do not wait for seats that the requests hold.
"""

import collections
import concurrent.futures
import itertools

import pytest

from client import POLR, path_of, report, result, until
from conftest import documents
from control_plane import NAMESPACE, SERVICE_ACCOUNT
from rights import binding, may, role

FLOW = "flowcontrol.apiserver.k8s.io/v1"
SCHEMAS = f"/apis/{FLOW}/flowschemas"
LEVELS = f"/apis/{FLOW}/prioritylevelconfigurations"


def account(name, namespace):
    return {"kind": "ServiceAccount", "serviceAccount": {"name": name, "namespace": namespace}}


@pytest.fixture
def level(plane, api, ns):
    """Makes a level for these subjects, which is removed after the test."""
    def make(subjects, shares, response):
        plane.apply(
            {"apiVersion": FLOW, "kind": "PriorityLevelConfiguration", "metadata": {"name": ns},
             "spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": shares, "lendablePercent": 0,
                                                     "borrowingLimitPercent": 0, "limitResponse": response}}},
            {"apiVersion": FLOW, "kind": "FlowSchema", "metadata": {"name": ns},
             "spec": {"matchingPrecedence": 500, "priorityLevelConfiguration": {"name": ns}, "rules": [{
                 "subjects": subjects, "resourceRules": [{
                     "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"],
                     "clusterScope": True}]}]}})
        return api.get(f"{SCHEMAS}/{ns}").json["metadata"]["uid"]
    yield make
    for path in (f"{SCHEMAS}/{ns}", f"{LEVELS}/{ns}"):
        assert api.delete(path).code == 200


def sorted_as(user, path, uid):
    """Waits until kube-apiserver sorts requests of a user by the FlowSchema with this uid."""
    until(lambda: user.get(path).headers["X-Kubernetes-Pf-Flowschema-Uid"] == uid, 30, "the FlowSchema")


def rejected(api, schema):
    """Returns how many requests of a FlowSchema kube-apiserver has refused."""
    return sum(float(line.rpartition(" ")[2]) for line in api.get("/metrics").body.decode().splitlines()
               if line.startswith("apiserver_flowcontrol_rejected_requests_total{")
               and f'flow_schema="{schema}"' in line)


def test_refusals(plane, api, ns, level):
    """
    kube-apiserver refuses requests for which a level has no place, and serves others meanwhile.  A level without seats
    that does not queue lets in one request at a time.
    """
    plane.apply(role(ns, "greedy"), binding(ns, "greedy", kind="User", name=f"greedy-{ns}"))
    greedy = plane.user(f"greedy-{ns}")
    for number in range(20):
        api.create(POLR, report(f"r-{number}", ns, results=[result()] * 50), ns)
    may(greedy, path_of(POLR, ns))
    uid = level([{"kind": "User", "user": {"name": f"greedy-{ns}"}}], 0, {"type": "Reject"})
    sorted_as(greedy, path_of(POLR, ns), uid)
    before = rejected(api, ns)
    codes = collections.Counter()

    def crowd():
        with concurrent.futures.ThreadPoolExecutor(9) as pool:
            others = pool.submit(lambda: [api.get(path_of(POLR, ns)).code for _ in range(8)])
            answers = list(pool.map(lambda _: greedy.get(path_of(POLR, ns)), range(32)))
            assert others.result() == [200] * 8
        codes.update(answer.code for answer in answers)
        return next((answer for answer in answers if answer.code == 429), None)
    refused = until(crowd, 60, "a refusal")
    assert int(refused.headers["Retry-After"]) > 0
    assert codes.keys() == {200, 429}
    assert rejected(api, ns) - before == codes[429]


def test_questions_of_the_proxy(plane, api, ns, level):
    """
    docs/security.md: requests hold all seats while the proxy asks whether they are allowed.  Without the FlowSchema of
    the page the questions wait for these seats, and the requests fail.
    """
    plane.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": ns}},
                role(ns, "robots"), binding(ns, "robots", kind="ServiceAccount", name="robot", namespace=ns))
    robot = plane.bearer(plane.token(ns, "robot"))
    may(robot, path_of(POLR, ns))
    uid = level([account("robot", ns), account(SERVICE_ACCOUNT, NAMESPACE)], 1,
                {"type": "Queue", "queuing": {"queues": 1, "handSize": 1, "queueLengthLimit": 50}})
    sorted_as(robot, path_of(POLR, ns), uid)
    numbers = itertools.count()

    def crowd():
        """Sends many requests at once, for names that the proxy has not asked about; returns their codes."""
        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            return set(pool.map(lambda _: robot.get(path_of(POLR, ns, f"missing-{next(numbers)}"), seconds=90).code,
                                range(24)))
    until(lambda: crowd() - {404}, 180, "requests that fail")
    (schema,) = documents("security.md", "kind: FlowSchema")
    plane.apply(schema)
    try:
        until(lambda: crowd() == {404}, 180, "requests that are all answered")
        assert crowd() == crowd() == {404}
    finally:
        assert api.delete(f"{SCHEMAS}/{schema['metadata']['name']}").code == 200
