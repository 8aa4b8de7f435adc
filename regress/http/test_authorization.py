"""
The rights of a user: SubjectAccessReviews, the cache of their answers, and the messages of refused requests
(k8s-conformance section 5).
"""

import json
import select
import threading

import pytest

from client import CPOLR, MERGE, POLR, failure, path_of, report, until
from conftest import stack_command
from front_proxy import Delegation

GROUPS = ["dev", "system:authenticated"]
GROUP, VERSION = "wgpolicyk8s.io", "v1alpha2"
BASE = f"/apis/{GROUP}/{VERSION}"
APPLY = "application/apply-patch+yaml"


def denied(spec):
    return {"allowed": False}


def allowed(spec):
    return {"allowed": True}


@pytest.fixture(scope="module")
def shared(stack, module_apiserver):
    """A delegating proxy whose kube-apiserver allows nothing unless a test says otherwise."""
    delegation = Delegation(stack, module_apiserver, stack_command)
    yield delegation
    delegation.end()


@pytest.fixture(autouse=True)
def nothing_allowed(module_apiserver):
    module_apiserver.access_rule = denied
    yield
    module_apiserver.calm()


unique = iter(range(10**6))


def fresh_user():
    """Returns a user without remembered answers."""
    return f"user-{next(unique)}"


def asked(shared, method, target, user=None, **more):
    """Sends a request that is denied; returns the specs of its reviews."""
    before = len(shared.apiserver.access_reviews)
    answer = shared.front().request(method, target, user=user or fresh_user(), groups=["dev"], **more)
    assert answer.code == 403, answer
    return [review["spec"] for review in shared.apiserver.access_reviews[before:]]


def resource(verb, resource="policyreports", **more):
    return {"verb": verb, "group": GROUP, "version": VERSION, "resource": resource, **more}


# --- the attributes of reviews ---

ATTRIBUTES = {
    ("GET", "/namespaces/ns1/policyreports"): resource("list", namespace="ns1"),
    ("GET", "/policyreports"): resource("list"),
    ("HEAD", "/policyreports"): resource("list"),
    ("GET", "/clusterpolicyreports"): resource("list", "clusterpolicyreports"),
    ("GET", "/namespaces/ns1/policyreports/r1"): resource("get", namespace="ns1", name="r1"),
    ("HEAD", "/namespaces/ns1/policyreports/r1"): resource("get", namespace="ns1", name="r1"),
    ("GET", "/clusterpolicyreports/r1"): resource("get", "clusterpolicyreports", name="r1"),
    ("GET", "/namespaces/ns1/policyreports?watch=true"): resource("watch", namespace="ns1"),
    ("GET", "/namespaces/ns1/policyreports?watch="): resource("watch", namespace="ns1"),
    ("GET", "/namespaces/ns1/policyreports?watch=1"): resource("watch", namespace="ns1"),
    ("GET", "/namespaces/ns1/policyreports?watch=0"): resource("list", namespace="ns1"),
    ("GET", "/namespaces/ns1/policyreports?watch=false"): resource("list", namespace="ns1"),
    ("GET", "/watch/policyreports"): resource("watch"),
    ("GET", "/watch/namespaces/ns1/policyreports"): resource("watch", namespace="ns1"),
    ("GET", "/watch/namespaces/ns1/policyreports/r1"): resource("watch", namespace="ns1", name="r1"),
    ("POST", "/namespaces/ns1/policyreports"): resource("create", namespace="ns1"),
    ("PUT", "/namespaces/ns1/policyreports/r1"): resource("update", namespace="ns1", name="r1"),
    ("PATCH", "/namespaces/ns1/policyreports/r1"): resource("patch", namespace="ns1", name="r1"),
    ("DELETE", "/namespaces/ns1/policyreports/r1"): resource("delete", namespace="ns1", name="r1"),
    ("DELETE", "/namespaces/ns1/policyreports"): resource("deletecollection", namespace="ns1"),
    ("GET", "/namespaces/ns1/policyreports/r1/status"): resource("get", namespace="ns1", name="r1",
        subresource="status"),
    ("PUT", "/namespaces/ns1/policyreports/r1/status"): resource("update", namespace="ns1", name="r1",
        subresource="status"),
    ("GET", "/namespaces/ns1/policyreports/r1/proxy/subpath"): resource("get", namespace="ns1", name="r1",
        subresource="proxy"),
    ("DELETE", "/clusterpolicyreports"): resource("deletecollection", "clusterpolicyreports"),
    ("POST", "/clusterpolicyreports/r1"): resource("create", "clusterpolicyreports", name="r1"),
    ("GET", "/namespaces"): resource("list", "namespaces"),
    ("GET", "/namespaces/other"): resource("get", "namespaces", namespace="other", name="other"),
    ("DELETE", "/namespaces"): resource("deletecollection", "namespaces"),
    ("PUT", "/namespaces/other/finalize"): resource("update", "namespaces", namespace="other", name="other",
                                                    subresource="finalize"),
    ("PUT", "/namespaces/other/status"): resource("update", "namespaces", namespace="other", name="other",
                                                  subresource="status"),
    ("GET", "/proxy/namespaces/other/pods/foo"): resource("proxy", "pods", namespace="other", name="foo"),
    ("GET", "/proxy/namespaces/other/pods/foo/subpath/not/a/subresource"): resource("proxy", "pods",
        namespace="other", name="foo"),
    # A user without the right does not learn whether the path is served.
    ("GET", "/nothing"): resource("list", "nothing"),
    ("GET", "/namespaces/ns1/nothing/x/y/z"): resource("get", "nothing", namespace="ns1", name="x", subresource="y"),
}


@pytest.mark.parametrize("method, path", ATTRIBUTES)
def test_attributes(shared, method, path):
    """
    AUTHZ-01, AUTHZ-10, AUTHZ-14, DEL-10: TestGetAPIRequestInfo, TestGetAuthorizerAttributes,
    Test_resourceAttributesFrom, TestV1Webhook: the whole review of a request that the aggregator forwards, with its
    attributes.
    """
    before = len(shared.apiserver.access_reviews)
    user = fresh_user()
    answer = shared.front().request(method, BASE + path, user=user, groups=["dev"], uid="u-1",
                                    extra={"Example.org/Scopes": ["a", "b"]},
                                    body=b"{}" if method in ("POST", "PUT", "PATCH") else None)
    assert answer.code == 403
    assert shared.apiserver.access_reviews[before:] == [
        {"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {},
         "spec": {"resourceAttributes": ATTRIBUTES[method, path], "user": user, "groups": GROUPS, "uid": "u-1",
                  "extra": {"example.org/scopes": ["a", "b"]}}}]


@pytest.mark.parametrize("method, path, attributes", [
    ("GET", "/apis", {"path": "/apis", "verb": "get"}),
    ("GET", BASE, {"path": BASE, "verb": "get"}),
    ("GET", "/openapi/v3", {"path": "/openapi/v3", "verb": "get"}),
    ("POST", "/openapi/v3", {"path": "/openapi/v3", "verb": "post"}),
    ("GET", "/metrics", {"path": "/metrics", "verb": "get"}),
    ("GET", "/readyz/db", {"path": "/readyz/db", "verb": "get"}),
    ("OPTIONS", "/version", {"path": "/version", "verb": "options"}),
    ("GET", "/", {"path": "/", "verb": "get"}),
    ("POST", "/", {"path": "/", "verb": "post"}),
    ("GET", "/api", {"path": "/api", "verb": "get"}),
    # A slash at the end is dropped.
    ("GET", "/api/", {"path": "/api", "verb": "get"}),
    ("GET", "/api/v1/", {"path": "/api/v1", "verb": "get"}),
    ("GET", "/apis/group/", {"path": "/apis/group", "verb": "get"}),
    ("GET", "/apis/group/version/", {"path": "/apis/group/version", "verb": "get"}),
    ("GET", "/not-api/version/resource", {"path": "/not-api/version/resource", "verb": "get"}),
    ("GET", "/logs/a%20b", {"path": "/logs/a b", "verb": "get"}),
])
def test_non_resource(shared, method, path, attributes):
    """AUTHZ-04, AUTHZ-10: TestGetNonAPIRequestInfo: other paths are attributes, with the method in lower case."""
    assert asked(shared, method, path) == [{"nonResourceAttributes": attributes,
                                            "user": f"user-{next(unique) - 1}", "groups": GROUPS}]


def requirement(key, operator, *values):
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


SELECTORS = {
    "labelSelector=a%3Db": {"labelSelector": [requirement("a", "In", "b")]},
    "labelSelector=z!%3Dc,a+in+(y,x,x),b,!c": {"labelSelector": [
        requirement("a", "In", "x", "y"), requirement("b", "Exists"), requirement("c", "DoesNotExist"),
        requirement("z", "NotIn", "c")]},
    # A requirement that a review cannot express is left out: the review then asks for more objects.
    "labelSelector=a%3E1,b%3Dc": {"labelSelector": [requirement("b", "In", "c")]},
    "labelSelector=a%3E1": {},
    "labelSelector=a+%3D%3D%3D": {},
    "labelSelector=": {},
    "fieldSelector=metadata.name%3Dx": {"name": "x", "fieldSelector": [requirement("metadata.name", "In", "x")]},
    "fieldSelector=metadata.namespace!%3Dy,metadata.name%3Dx": {"name": "x", "fieldSelector": [
        requirement("metadata.name", "In", "x"), requirement("metadata.namespace", "NotIn", "y")]},
    "fieldSelector=metadata.name!%3Dx": {"fieldSelector": [requirement("metadata.name", "NotIn", "x")]},
    "fieldSelector=metadata.name%3Da/b": {"fieldSelector": [requirement("metadata.name", "In", "a/b")]},
    "fieldSelector=nonsense": {},
    "fieldSelector=%2Abar": {},
    "labelSelector=%2Abar": {},
    "fieldSelector=metadata.name%3Dx&labelSelector=a": {"name": "x",
                                                        "fieldSelector": [requirement("metadata.name", "In", "x")],
                                                        "labelSelector": [requirement("a", "Exists")]},
}


@pytest.mark.parametrize("verb, method, more", [("list", "GET", ""), ("watch", "GET", "&watch=1"),
                                                ("deletecollection", "DELETE", "")])
@pytest.mark.parametrize("query", SELECTORS)
def test_selectors(shared, query, verb, method, more):
    """
    AUTHZ-02, AUTHZ-03: TestGetAuthorizerAttributes: selectors of lists, watches and deletecollections are passed on,
    those that cannot be parsed are not.
    """
    expected = {key: value if key == "name" else {"requirements": value} for key, value in SELECTORS[query].items()}
    spec, = asked(shared, method, f"{BASE}/namespaces/ns1/policyreports?{query}{more}")
    assert spec["resourceAttributes"] == resource(verb, namespace="ns1", **expected)


def test_selectors_elsewhere(shared):
    """AUTHZ-03: reviews of other requests, and of paths with /watch/, have no selectors; they have the name."""
    query = "fieldSelector=metadata.name%3Dx&labelSelector=a%3Db"
    spec, = asked(shared, "GET", f"{BASE}/namespaces/ns1/policyreports/r1?{query}")
    assert spec["resourceAttributes"] == resource("get", namespace="ns1", name="r1")
    spec, = asked(shared, "GET", f"{BASE}/watch/namespaces/ns1/policyreports?{query}")
    assert spec["resourceAttributes"] == resource("watch", namespace="ns1", name="x")


# --- users that need no review ---

def test_masters(shared):
    """AUTHZ-14: system:masters may do anything, without a review."""
    front = shared.front()
    before = len(shared.apiserver.access_reviews)
    for target in (f"{BASE}/policyreports", "/apis", "/metrics"):
        assert front.get(target, user="admin", groups=["system:masters"]).code == 200
    assert front.get("/nothing", user="admin", groups=["other", "system:masters"]).code == 404
    assert len(shared.apiserver.access_reviews) == before


def test_always_allowed_paths(delegate):
    """
    AUTHZ-04: /healthz, /livez and /readyz are for everyone, the paths below them are not; the flag replaces the list.
    """
    delegation = delegate()
    for path, code in (("/healthz", 200), ("/livez", 200), ("/readyz", 200), ("/readyz/ping", 403), ("/livezz", 403),
                       ("/metrics", 403)):
        assert delegation.front(None).whole("GET", path, []).code == code, path
    own = delegate(flags=["--authorization-always-allow-paths=/metrics,readyz*,/"])
    for path, code in (("/metrics", 200), ("/readyz", 200), ("/readyz/ping", 200), ("/livez", 403),
                       ("/", 200), ("/apis", 403)):
        assert own.front(None).whole("GET", path, []).code == code, path
    # The list never allows paths of resources.
    every = delegate(flags=["--authorization-always-allow-paths=/*"])
    assert every.front(None).whole("GET", f"{BASE}/policyreports", []).code == 403
    assert every.front(None).whole("GET", "/apis", []).code == 200


# --- the messages of refused requests ---

DENIALS = {
    ("GET", f"{BASE}/namespaces/ns1/policyreports"): (
        'policyreports.wgpolicyk8s.io is forbidden: User "alice" cannot list resource "policyreports" in API group '
                                                      '"wgpolicyk8s.io" '
        'in the namespace "ns1"', {"group": GROUP, "kind": "policyreports"}),
    ("GET", f"{BASE}/clusterpolicyreports/x"): (
        'clusterpolicyreports.wgpolicyk8s.io "x" is forbidden: User "alice" cannot get resource "clusterpolicyreports" '
                                                'in API group '
        '"wgpolicyk8s.io" at the cluster scope', {"name": "x", "group": GROUP, "kind": "clusterpolicyreports"}),
    ("PUT", f"{BASE}/namespaces/ns1/policyreports/x/status"): (
        'policyreports.wgpolicyk8s.io "x" is forbidden: User "alice" cannot update resource "policyreports/status" in '
        'API group '
        '"wgpolicyk8s.io" in the namespace "ns1"', {"name": "x", "group": GROUP, "kind": "policyreports"}),
    ("GET", f"{BASE}/policyreports?fieldSelector=metadata.name%3Dx"): (
        'policyreports.wgpolicyk8s.io "x" is forbidden: User "alice" cannot list resource "policyreports" in API group '
        '"wgpolicyk8s.io" '
        'at the cluster scope', {"name": "x", "group": GROUP, "kind": "policyreports"}),
    ("GET", "/api/v1/pods"): (
        'pods is forbidden: User "alice" cannot list resource "pods" in API group "" at the cluster scope',
                              {"kind": "pods"}),
    ("GET", "/openapi/v3"): ('forbidden: User "alice" cannot get path "/openapi/v3"', {}),
    ("GET", "/a<b>&c"): ('forbidden: User "alice" cannot get path "/a&lt;b&gt;&amp;c"', {}),
    ("GET", f"{BASE}/%3Cb%3E"): (
        '<b>.wgpolicyk8s.io is forbidden: User "alice" cannot list resource "&lt;b&gt;" in API group "wgpolicyk8s.io" '
                                 'at the cluster scope',
        {"group": GROUP, "kind": "<b>"}),
}


@pytest.mark.parametrize("method, target", DENIALS)
def test_denial(shared, method, target):
    """AUTHZ-12: TestForbidden: the message of a 403, with the reason of the review if it has one."""
    message, details = DENIALS[method, target]
    for groups, reason in ((["a"], None), (["b"], "no RBAC <rule> matched")):
        shared.apiserver.access_rule = lambda spec: {"allowed": False, **({"reason": reason} if reason else {})}
        answer = shared.front().request(method, target, user="alice", groups=groups,
                                        body=b"{}" if method == "PUT" else None)
        status = failure(answer, 403, "Forbidden")
        assert status["message"] == message + (f": {reason}" if reason else "")
        assert status["details"] == details
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_denied_wins(shared):
    """AUTHZ-12: a review with denied allows nothing; a review with allowed and denied is an error."""
    shared.apiserver.access_rule = lambda spec: {"allowed": False, "denied": True, "reason": "no"}
    failure(shared.front().get("/apis", user=fresh_user()), 403, "Forbidden")
    shared.apiserver.access_rule = lambda spec: {"allowed": True, "denied": True}
    failure(shared.front().get("/apis", user=fresh_user()), 500, "InternalError")


@pytest.mark.parametrize("status", [None, [], "allowed", {"allowed": "true"}, {"allowed": 1}, {}])
def test_nonsense_allows_nothing(shared, status):
    """AUTHZ-12: an answer that does not say allowed: true allows nothing."""
    shared.apiserver.access_rule = lambda spec: status
    answer = shared.front().get("/apis", user=fresh_user())
    assert answer.code == (403 if isinstance(status, dict) else 500)


def test_nobody_decides(delegate):
    """AUTHZ-11, AUTHZ-12: a review is tried five times; without an answer the request gets 500, not remembered."""
    delegation = delegate()
    delegation.apiserver.access_rule = allowed
    delegation.apiserver.trouble("subjectaccessreviews", code=403)
    status = failure(delegation.front().get("/apis"), 500, "InternalError")
    assert status["message"] == "Internal error occurred: the request could not be authorized"
    # The log is written after the answer.
    until(lambda: "the ClusterRole system:auth-delegator is needed" in delegation.proxy.log_path.read_text(), 20,
          "the reason in the log")
    delegation.apiserver.calm()
    assert delegation.front().get("/apis").code == 200
    delegation.apiserver.trouble("subjectaccessreviews", code=500)
    failure(delegation.front().get("/openapi/v3"), 500, "InternalError")
    assert len(delegation.apiserver.asked("subjectaccessreviews")) == 2 + 5
    delegation.apiserver.calm()
    delegation.apiserver.trouble("subjectaccessreviews", code=429, times=1)
    delegation.apiserver.trouble("subjectaccessreviews", drop=True, times=1)
    assert delegation.front().get("/openapi/v3").code == 200
    # Remembered answers hold while kube-apiserver is unreachable; other requests are refused.
    delegation.apiserver.stop()
    assert delegation.front().get("/openapi/v3").code == 200
    failure(delegation.front().get("/version"), 500, "InternalError")
    assert delegation.front().get("/readyz").code == 200


def test_silence(delegate):
    """AUTHZ-11: a review without an answer ends after ten seconds."""
    delegation = delegate()
    delegation.apiserver.trouble("subjectaccessreviews", hold=threading.Event())
    failure(delegation.front().get("/apis", seconds=15), 500, "InternalError")


# --- remembered answers ---

def test_remembered(shared):
    """
    AUTHZ-11: TestV1WebhookCache: equal requests have one review, whatever its answer; requests with any difference have
    reviews of their own.
    """
    front = shared.front()
    user = fresh_user()
    for rule, code in ((denied, 403), (allowed, 200)):
        shared.apiserver.access_rule = rule
        name = fresh_user()
        before = len(shared.apiserver.access_reviews)
        for _ in range(3):
            assert front.get("/apis", user=name).code == code
        assert len(shared.apiserver.access_reviews) == before + 1
    shared.apiserver.access_rule = denied
    before = len(shared.apiserver.access_reviews)
    questions = [
        {"groups": []}, {"groups": ["ab", "c"]}, {"groups": ["a", "bc"]}, {"groups": ["a,b"]}, {"groups": ["a", "b"]},
        {"groups": ["b", "a"]}, {"groups": [], "uid": "a"}, {"groups": [], "extra": {"a": ["b"]}},
                 {"groups": [], "extra": {"a": ["b", "c"]}},
        {"groups": [], "extra": {"ab": ["c"]}}, {"groups": ['a","b']}]
    for question in questions * 2:
        assert front.get("/apis", user=user, **question).code == 403
    for target in [f"{BASE}/policyreports", f"{BASE}/policyreports?labelSelector=a",
                   f"{BASE}/policyreports?labelSelector=a&limit=1",
                   f"{BASE}/policyreports?watch=1", "/apis/wgpolicyk8s.io"] * 2:
        assert front.get(target, user=user, groups=[]).code == 403
    assert len(shared.apiserver.access_reviews) == before + len(questions) + 4


def test_forgotten(delegate):
    """
    AUTHZ-11: TestV1WebhookCache: flags say how long answers are remembered: one flag for answers that allow, one for
    other answers.
    """
    delegation = delegate(flags=["--authorization-webhook-cache-authorized-ttl=300ms",
                                 "--authorization-webhook-cache-unauthorized-ttl=0"])
    front = delegation.front(keep=True)
    reviews = delegation.apiserver.access_reviews
    for _ in range(2):
        assert front.get("/apis").code == 403
    assert len(reviews) == 2
    delegation.apiserver.access_rule = allowed
    assert front.get("/apis").code == 200
    delegation.apiserver.access_rule = denied
    assert front.get("/apis").code == 200 and len(reviews) == 3
    until(lambda: front.get("/apis").code == 403, 10, "the end of what was allowed")


def test_long_attributes(shared):
    """AUTHZ-11: decisions about attributes of 10,000 bytes are not remembered."""
    user = fresh_user()
    for length, reviews in ((9000, 1), (10000, 2)):
        before = len(shared.apiserver.access_reviews)
        target = f"{BASE}/policyreports?fieldSelector=metadata.name%3D{'n' * length}"
        for _ in range(2):
            assert shared.front().get(target, user=user).code == 403
        assert len(shared.apiserver.access_reviews) == before + reviews, length


def test_reviews_are_shared(delegate):
    """AUTHZ-11: requests with the same review wait for one answer."""
    delegation = delegate()
    delegation.apiserver.access_rule = allowed
    hold = threading.Event()
    delegation.apiserver.trouble("subjectaccessreviews", hold=hold)
    sockets = begin(delegation, ["/apis"] * 20)
    until(lambda: delegation.apiserver.asked("subjectaccessreviews"), 10, "the review")
    hold.set()
    assert [connection.recv(12) for connection in sockets] == [b"HTTP/1.1 200"] * 20
    assert len(delegation.apiserver.access_reviews) == 1


def test_flood(delegate):
    """AUTHZ-11: the number of running reviews is bounded: further requests get 429 and Retry-After."""
    delegation = delegate()
    hold = threading.Event()
    delegation.apiserver.trouble("subjectaccessreviews", hold=hold)
    sockets = begin(delegation, [f"/{number}" for number in range(205)])
    until(lambda: delegation.proxy.log_path.read_text().count('"status":429') == 5, 20, "five refusals")
    refused = select.select(sockets, [], [], 0)[0]
    assert len(refused) == 5
    head = refused[0].recv(4096)
    assert head.startswith(b"HTTP/1.1 429") and b"\r\nretry-after: 1\r\n" in head.lower()
    assert delegation.front().get("/apis", user="admin", groups=["system:masters"]).code == 200
    hold.set()
    assert all(connection.recv(12) == b"HTTP/1.1 403" for connection in sockets if connection not in refused)
    # Afterwards a new request is reviewed as usual.
    assert delegation.front().get("/afterwards").code == 403


def begin(delegation, targets):
    """Sends anonymous requests; returns their connections."""
    sockets = []
    for target in targets:
        connection = delegation.front(None).connect()
        connection.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        sockets.append(connection)
    return sockets


# --- apply ---

def test_apply_asks_for_create(shared, ns):
    """AUTHZ-13: when patch is allowed, an apply has a review for create as well; both answers are remembered."""
    target = f"{BASE}/namespaces/{ns}/policyreports/r1?fieldManager=tests"

    def verbs(kind, rule):
        user = fresh_user()
        shared.apiserver.access_rule = rule
        before = len(shared.apiserver.access_reviews)
        for _ in range(2):
            shared.front().request("PATCH", target, user=user, headers=[("Content-Type", kind)], body=b"{}")
        return [review["spec"]["resourceAttributes"] for review in shared.apiserver.access_reviews[before:]]
    patch = resource("patch", namespace=ns, name="r1")
    assert verbs(APPLY, allowed) == [patch, {**patch, "verb": "create"}]
    assert verbs("Application/Apply-Patch+YAML; charset=utf-8", allowed) == [patch, {**patch, "verb": "create"}]
    assert verbs(APPLY, denied) == [patch]
    assert verbs(MERGE, allowed) == [patch]


def test_apply_may_not_create(shared, ns):
    """
    AUTHZ-12, AUTHZ-13: a user that may patch but not create may apply to existing objects only; without an answer for
    create the request gets 500
    """
    def apply(name, **more):
        target = f"{path_of(POLR, ns, name)}?fieldManager=tests"
        document = json.dumps({"apiVersion": f"{GROUP}/{VERSION}", "kind": "PolicyReport",
                               "metadata": {"name": name, "labels": {"a": "b"}}}).encode()
        return shared.front().request("PATCH", target, headers=[("Content-Type", APPLY)], body=document,
                                      **{"user": fresh_user(), **more})
    shared.apiserver.access_rule = lambda spec: {"allowed": spec["resourceAttributes"]["verb"] == "patch",
                                                 "reason": "no role"}
    status = failure(apply("r1", user="patcher"), 403, "Forbidden")
    assert status["message"] == ('policyreports.wgpolicyk8s.io "r1" is forbidden: User "patcher" cannot create '
                                 'resource "policyreports" in API '
                                 f'group "{GROUP}" in the namespace "{ns}": no role')
    assert status["details"] == {"name": "r1", "group": GROUP, "kind": "policyreports"}
    assert apply("r1", groups=["system:masters"]).code == 201
    assert apply("r1").code == 200
    shared.apiserver.access_rule = lambda spec: {"allowed": True} if spec["resourceAttributes"][
        "verb"] == "patch" else None
    failure(apply("r2"), 500, "InternalError")


# --- impersonation ---

@pytest.mark.parametrize("header", ["Impersonate-User", "impersonate-group", "Impersonate-Extra-Scopes",
                                    "Impersonate-Uid"])
def test_impersonation(shared, header):
    """AUTHZ-12: a request that impersonates a user is refused; it is not served as its own user."""
    shared.apiserver.access_rule = allowed
    answer = shared.front().request("GET", "/apis", user="root", groups=["system:masters"], headers=[(header, "bob")])
    name = ' "bob"' if header == "Impersonate-User" else ""
    assert failure(answer, 403, "Forbidden")["message"] == (
        f'users{name} is forbidden: User "root" cannot impersonate resource "users" in API group "" at the cluster '
        'scope: '
        "impersonation is not offered here")


# --- fixed modes ---

@pytest.mark.parametrize("mode, code", [("AlwaysAllow", 200), ("AlwaysDeny", 403)])
def test_fixed_modes(delegate, mode, code):
    """AUTHZ-12: the fixed modes ask no server; every authenticated user may read discovery."""
    delegation = delegate(flags=[f"--authorization-mode={mode}"])
    assert delegation.front().get(f"{BASE}/policyreports").code == code
    assert delegation.front().get("/openapi/v3", groups=[]).code == 200
    assert delegation.front(None).whole("GET", "/openapi/v3", []).code == code
    assert delegation.apiserver.access_reviews == []


def test_own_kubeconfig(stack, apiserver, module_apiserver):
    """AUTHZ-11: --authorization-kubeconfig may name another kube-apiserver than --authentication-kubeconfig."""
    module_apiserver.access_rule = allowed
    path = module_apiserver.kubeconfig(f"{stack.pki}/kubeconfig-authorization", token="decide")
    delegation = Delegation(stack, apiserver, stack_command, [f"--authorization-kubeconfig={path}"])
    before = len(module_apiserver.access_reviews)
    assert delegation.front().get("/apis", user=fresh_user()).code == 200
    assert len(module_apiserver.access_reviews) == before + 1 and apiserver.access_reviews == []
    delegation.end()


def test_impossible_mode(stack):
    """AUTHZ-12: the mode Webhook without a kube-apiserver is an error of the command line."""
    proxy = stack.proxy(ready=False, flags=["--authorization-mode=Webhook"])
    assert proxy.process.wait(10) == 2
    assert "needs --authorization-kubeconfig" in proxy.log_path.read_text()


# --- with RBAC as a cluster has it ---

def test_roles(shared, ns):
    """AUTHZ-01, AUTHZ-12: users that may only read, write to one namespace, or read one object."""
    other = ns + "-other"

    def rule(spec):
        attributes = spec.get("resourceAttributes", {})
        reading = attributes.get("verb") in ("get", "list", "watch")
        user = spec["user"]
        return {"allowed": (user == "reader" and reading) or (user == "writer" and attributes.get("namespace") == ns)
                or (user == "one" and reading and attributes.get("name") == "r1"), "reason": ""}
    shared.apiserver.access_rule = rule
    front = shared.front()

    def code(user, method, target, body=None):
        document = None if body is None else json.dumps(body).encode()
        return front.request(method, target, user=user, body=document,
                             headers=[("Content-Type", "application/json")] if body else []).code
    collection, elsewhere = path_of(POLR, ns), path_of(POLR, other)
    assert code("writer", "POST", collection, report("r1")) == 201
    assert code("writer", "POST", elsewhere, report("r1")) == 403
    assert code("writer", "GET", path_of(POLR)) == 403
    assert code("reader", "POST", collection, report("r2")) == 403
    assert code("reader", "GET", path_of(POLR)) == 200
    assert code("reader", "DELETE", path_of(POLR, ns, "r1")) == 403
    assert code("one", "GET", path_of(POLR, ns, "r1")) == 200
    assert code("one", "GET", path_of(POLR, ns, "r2")) == 403
    assert code("one", "GET", collection + "?fieldSelector=metadata.name%3Dr1") == 200
    assert code("one", "GET", collection) == 403
    assert code("writer", "DELETE", collection) == 200
    assert code("nobody", "GET", path_of(CPOLR)) == 403
