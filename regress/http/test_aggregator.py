"""kube-aggregator in front of the proxy: requests of its controllers, and forwarded requests (k8s-conformance 1)."""

import gzip
import json
import os
import subprocess

import pytest

from client import MERGE, POLR, REPS, failure, path_of, report, until
from conftest import stack_command
from front_proxy import AGGREGATED_BETA, Delegation, FrontProxy, encode_target, escape_key

GROUP_VERSION = "wgpolicyk8s.io/v1alpha2"
JSON = [("Content-Type", "application/json"), ("Accept", "application/json")]
# The paths of the ClusterRole system:discovery, which is bound to system:authenticated in every cluster.
SYSTEM_DISCOVERY = ("/healthz", "/livez", "/readyz", "/version", "/version/", "/api", "/api/*", "/apis", "/apis/*",
                    "/openapi", "/openapi/*")


def system_discovery(spec):
    """Allows only the requests of the ClusterRole system:discovery."""
    attributes = spec.get("nonResourceAttributes", {})
    path = attributes.get("path", "")
    matches = any(path == entry or (entry.endswith("*") and path.startswith(entry[:-1])) for entry in SYSTEM_DISCOVERY)
    return {"allowed": matches and attributes["verb"] == "get" and "system:authenticated" in spec.get("groups", [])}


def editor(spec):
    """Allows discovery to every user, and all requests in the served groups to users in the group dev."""
    return system_discovery(spec) if "nonResourceAttributes" in spec else {"allowed": "dev" in spec.get("groups", [])}


@pytest.fixture(scope="module")
def delegation(stack, module_apiserver):
    module_apiserver.access_rule = editor
    shared = Delegation(stack, module_apiserver, stack_command)
    yield shared
    shared.end()


@pytest.fixture(scope="module")
def front(delegation):
    return delegation.front()


def send(front, method, target, document=None, **more):
    body = None if document is None else json.dumps(document).encode()
    return front.request(method, target, groups=["dev"], headers=[*JSON, *more.pop("headers", [])], body=body, **more)


# --- controllers ---

def test_availability(front, delegation):
    """
    AGG-01, AGG-04: five checks at the same time find every group and version available, without a review.
    """
    before = len(delegation.apiserver.access_reviews)
    for group_version in ("wgpolicyk8s.io/v1alpha2", "openreports.io/v1alpha1", "reports.kyverno.io/v1"):
        answers = front.availability(group_version)
        assert [answer.code for answer in answers] == [200] * 5
        for answer in answers:
            assert answer.json["kind"] == "APIResourceList" and answer.json["groupVersion"] == group_version
            assert "Location" not in answer.headers
    assert len(delegation.apiserver.access_reviews) == before


def test_availability_without_the_database(own_stack, apiserver):
    """
    AGG-01, AGG-03, AGG-10: while the database is down, discovery is served, the APIService stays available, and the
    proxy tells clients the reason.
    """
    own_stack.begin()
    apiserver.access_rule = editor
    delegation = Delegation(own_stack, apiserver, stack_command)
    own_stack.database.stop("immediate")
    front = delegation.front()
    assert [answer.code for answer in front.availability(GROUP_VERSION)] == [200] * 5
    assert front.aggregated_discovery().code == 200 and front.openapi_v3().code == 200
    answer = send(front, "GET", path_of(POLR))
    failure(answer, 503, "ServiceUnavailable")
    assert int(answer.headers["Retry-After"]) > 0


def test_server_name(stack, delegation):
    """AGG-02: the aggregator sends and verifies the name <service>.<namespace>.svc, with any address."""
    name = "kube-reports.reports.svc"
    stack_command("certificate", stack.pki, "service", "/CN=kube-reports", "serverAuth", f"DNS:{name}")
    for suffix in ("crt", "key"):
        os.chmod(f"{stack.pki}/service.{suffix}", 0o644)
    own = Delegation(stack, delegation.apiserver, stack_command,
                     [f"--tls-cert-file={stack.pki}/service.crt", f"--tls-private-key-file={stack.pki}/service.key"])
    front = FrontProxy(own.proxy.port, f"{stack.pki}/ca.crt", f"{own.directory}/front-proxy-client", server_name=name)
    assert [answer.code for answer in front.availability(GROUP_VERSION)] == [200] * 5
    own.end()


def test_aggregated_discovery(front):
    """AGG-30, AGG-31, AGG-35: the document of the discovery controller, and 304 while it has not changed."""
    answer = front.aggregated_discovery()
    assert answer.code == 200
    assert answer.headers["Content-Type"] == "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    etag = answer.headers["ETag"]
    assert front.aggregated_discovery(etag).code == 304
    assert front.aggregated_discovery('"other"').code == 200
    beta = front.aggregated_discovery(accept=AGGREGATED_BETA)
    assert beta.headers["Content-Type"] == "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
    assert {item["metadata"]["name"] for item in beta.json["items"]} == {item["metadata"]["name"]
        for item in answer.json["items"]}


def test_user_without_groups(front, delegation):
    """
    AGG-32, AGG-41: a user without groups may read legacy discovery and OpenAPI by the ClusterRole system:discovery.
    """
    delegation.apiserver.access_rule = system_discovery
    try:
        assert front.legacy_discovery(GROUP_VERSION).json["groupVersion"] == GROUP_VERSION
        v2 = front.openapi_v2()
        assert v2.code == 200 and v2.json["swagger"] == "2.0"
        assert front.openapi_v2(v2.headers["ETag"]).code == 304
        v3 = front.openapi_v3()
        assert f"apis/{GROUP_VERSION}" in v3.json["paths"]
        for spec in (*delegation.seen("system:kube-aggregator"), *delegation.seen("system:aggregator")):
            assert spec["groups"] == ["system:authenticated"]
        # These users may send no other requests.
        assert front.get(path_of(POLR), user="system:aggregator", groups=[]).code == 403
    finally:
        delegation.apiserver.access_rule = editor


def test_what_is_proxied(front):
    """
    AGG-22: the paths that the aggregator forwards are answered for the end user; it does not forward other paths.
    """
    index = front.openapi_v3().json["paths"]
    for target in (f"/apis/{GROUP_VERSION}", path_of(POLR), path_of(REPS),
                   index[f"apis/{GROUP_VERSION}"]["serverRelativeURL"]):
        answer = send(front, "GET", target)
        assert answer.code == 200, (target, answer)
        assert answer.headers["Content-Type"].startswith("application/json")


# --- forwarded requests ---

def test_identity(front, delegation):
    """AGG-11, AUTHZ-14: each request of a connection has user, groups, uid and extra of its own headers."""
    keep = delegation.front(keep=True)
    for number in range(5):
        user = f"identity-{number}"
        extra = {"example.org/foo": ["a", "b"], "Scopes": [str(number)], "näme": ["ü"]}
        assert keep.get(path_of(POLR), user=user, groups=["dev", f"g{number}"], uid=f"u{number}",
                        extra=extra).code == 200
        spec, = delegation.seen(user)
        assert spec["groups"] == ["dev", f"g{number}", "system:authenticated"] and spec["uid"] == f"u{number}"
        assert spec["extra"] == {"example.org/foo": ["a", "b"], "scopes": [str(number)], "näme": ["ü"]}
    assert keep.connection is not None
    assert escape_key("example.org/foo") == "example.org%2Ffoo"


@pytest.mark.parametrize("target, forwarded", [
    ("?limit=2&labelSelector=a in (b,c)", "?labelSelector=a+in+%28b%2Cc%29&limit=2"),
    ("?labelSelector=a%3Db&fieldSelector=metadata.name%3Dr1", "?fieldSelector=metadata.name%3Dr1&labelSelector=a%3Db"),
    ("?labelSelector=a=b;c=d&limit=2", "?limit=2"),
    ("?limit=2&limit=1", "?limit=2&limit=1"),
])
def test_query(front, ns, target, forwarded):
    """AGG-12: a query that was parsed, sorted and encoded again has the same meaning."""
    for name, labels in (("r1", {"a": "b"}), ("r2", {"a": "c"}), ("r3", {"a": "d"})):
        assert send(front, "POST", path_of(POLR, ns), report(name, labels=labels)).code == 201
    assert encode_target(target) == forwarded
    expected = {"r1", "r2"} if "limit=2" in target else {"r1"}
    answer = send(front, "GET", path_of(POLR, ns) + target.replace(" ", "%20"))
    assert {item["metadata"]["name"] for item in answer.json["items"]} == expected


def test_escaped_slash(front, ns):
    """AGG-12: an escaped slash arrives as a slash: this is another path, and the answer is 404."""
    assert send(front, "POST", path_of(POLR, ns), report("r1")).code == 201
    assert encode_target("/a%2Fb%20c") == "/a/b%20c"
    assert send(front, "GET", f"{path_of(POLR, ns)}/r1%2Fstatus%2Fmore").code == 404
    assert send(front, "GET", f"{path_of(POLR, ns)}/r%31").json["metadata"]["name"] == "r1"


def test_forwarded_headers(front, delegation):
    """
    AGG-13: the headers that the aggregator adds change nothing; Audit-Id is returned; no Authorization arrives, and
    none is needed.
    """
    reviews = len(delegation.apiserver.token_reviews)
    more = [("Audit-Id", "a1b2c3d4-0000-4000-8000-000000000000"), ("Kubectl-Command", "kubectl get"),
            ("Kubectl-Session", "s"),
            ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            ("Authorization", "Bearer consumed"),
            ("X-Remote-Group", "system:masters"), ("X-Remote-User", "admin"), ("X-Forwarded-For", "10.0.0.1")]
    answer = send(front, "GET", path_of(POLR), user="forwarded", headers=more)
    assert answer.code == 200 and answer.headers["Audit-Id"] == "a1b2c3d4-0000-4000-8000-000000000000"
    assert delegation.seen("forwarded")[0]["groups"] == ["dev", "system:authenticated"]
    assert len(delegation.apiserver.token_reviews) == reviews
    # Without an Audit-Id in the request, the answer has a new one.
    assert len(send(front, "GET", path_of(POLR)).headers["Audit-Id"]) == 36


def test_gzip(front, ns):
    """AGG-14: Go's transport asks for gzip itself, and inflates the answer; a watch is never compressed."""
    for number in range(3):
        document = report(f"r{number}", results=[{"policy": "p" * 30000, "result": "pass", "message": "m" * 30000}])
        assert send(front, "POST", path_of(POLR, ns), document).code == 201
    plain = send(front, "GET", path_of(POLR, ns), headers=[("Accept-Encoding", "identity")])
    assert plain.headers["Content-Encoding"] is None
    assert send(front, "GET", path_of(POLR, ns)).json == plain.json
    zipped = send(front, "GET", path_of(POLR, ns), headers=[("Accept-Encoding", "gzip")])
    assert zipped.headers["Content-Encoding"] == "gzip" and json.loads(gzip.decompress(zipped.body)) == plain.json
    watch = front.open("GET", path_of(POLR, ns) + "?watch=1", groups=["dev"],
                       headers=[*JSON, ("Accept-Encoding", "gzip")])
    assert watch.headers["Content-Encoding"] is None
    assert json.loads(watch.response.readline())["type"] == "ADDED"
    watch.close()


@pytest.mark.parametrize("target", ["/apis/", f"/apis/{GROUP_VERSION}/", "//apis", f"/apis//{GROUP_VERSION}",
                                    "/openapi/v3/", "/", "/apis/../apis",
                                    "/openapi", "/index.html", f"/apis/{GROUP_VERSION}/policyreports/"])
def test_no_redirects(front, target):
    """AGG-15: no answer is a redirect."""
    for method in ("GET", "POST", "PUT", "DELETE"):
        answer = front.whole(method, target, FrontProxy.identity("admin", ["system:masters"]),
                             body=b"{}" if method != "GET" else None)
        assert not 300 <= answer.code < 400 and answer.headers["Location"] is None


def test_watch(front, ns):
    """
    AGG-16: a watch is chunked, without Content-Length; its head arrives before the first event, and each event at once.
    """
    watch = front.open("GET", path_of(POLR, ns) + "?watch=true&resourceVersion=0&timeoutSeconds=60",
                       groups=["dev"], headers=JSON)
    assert watch.code == 200 and watch.headers["Transfer-Encoding"] == "chunked" and watch.headers[
        "Content-Length"] is None
    for kind, method, target, document in (("ADDED", "POST", path_of(POLR, ns), report("r1")),
                                           ("MODIFIED", "PATCH", path_of(POLR, ns, "r1"),
                                            {"metadata": {"labels": {"a": "b"}}}),
                                           ("DELETED", "DELETE", path_of(POLR, ns, "r1"), None)):
        headers = [("Content-Type", MERGE)] if method == "PATCH" else JSON
        body = None if document is None else json.dumps(document).encode()
        assert front.request(method, target, groups=["dev"], headers=headers, body=body).code in (200, 201)
        event = json.loads(watch.response.readline())
        assert (event["type"], event["object"]["metadata"]["name"]) == (kind, "r1")
    watch.close()


def test_one_connection(delegation, ns):
    """AGG-17: one connection may have all requests of a kube-apiserver, of different users."""
    front = delegation.front(keep=True)
    assert send(front, "POST", path_of(POLR, ns), report("r1")).code == 201
    connection = front.connection
    for number in range(100):
        groups = ["dev"] if number % 2 else ["other"]
        answer = front.request("GET", path_of(POLR, ns, "r1"), user=f"shared-{number % 4}", groups=groups, headers=JSON)
        assert answer.code == (200 if number % 2 else 403)
        assert front.connection is connection


def test_client_gives_up(stack, delegation, front):
    """AGG-18: when the client leaves, its query in the database is cancelled."""
    waiting = ("SELECT count(*) FROM pg_stat_activity WHERE usename = 'kube_reports_proxy' AND wait_event_type = "
               "'Lock' "
               "AND query ~ 'api_get|api_read_object'")
    assert send(front, "POST", path_of(POLR, "gives-up"), report("r1")).code in (201, 409)
    locker = subprocess.Popen(["psql", "-X", "-q", "-d", stack.database.connection("postgres")],
                              stdin=subprocess.PIPE, text=True)
    try:
        locker.stdin.write("BEGIN; LOCK TABLE kube_reports.object IN ACCESS EXCLUSIVE MODE;\n")
        locker.stdin.flush()
        until(lambda: stack.database.psql("SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND "
                                          "granted "
                                          "AND relation = 'kube_reports.object'::regclass", user="postgres") == "1", 10,
              "the lock")
        connection = front.connect()
        connection.sendall(f"GET {path_of(POLR, 'gives-up', 'r1')} HTTP/1.1\r\nHost: x\r\nX-Remote-User: a\r\n"
                           "X-Remote-Group: system:masters\r\n\r\n".encode())
        until(lambda: stack.database.psql(waiting, user="postgres") == "1", 10, "the query to wait")
        connection.close()
        until(lambda: stack.database.psql(waiting, user="postgres") == "0", 10, "the query to end")
    finally:
        locker.stdin.write("ROLLBACK;\n")
        locker.stdin.close()
        locker.wait(10)
    assert send(front, "DELETE", path_of(POLR, "gives-up", "r1")).code == 200


def test_admission_is_ours(front, ns):
    """AGG-19: kube-apiserver does not check forwarded documents; the proxy validates and prunes them."""
    target = path_of(POLR, ns)
    failure(send(front, "POST", target, report("r1", summary={"pass": "many"})), 422, "Invalid")
    failure(send(front, "POST", target, report("Not A Name")), 422, "Invalid")
    failure(send(front, "POST", target, report("r1", namespace="another")), 400, "BadRequest")
    created = send(front, "POST", target, report("r1", unheard={"of": 1}))
    assert created.code == 201 and "unheard" not in created.json


def test_end_of_idle_connections(stack, delegation):
    """
    AGG-20: when the proxy ends, it closes idle connections and does not reset them: the aggregator's pool then opens
    new ones.
    """
    own = Delegation(stack, delegation.apiserver, stack_command)
    front = own.front(keep=True)
    assert front.get("/livez").code == 200
    connection = front.connection
    own.end()
    assert connection.recv(1) == b""


@pytest.mark.parametrize("upgrade", ["websocket", "SPDY/3.1", "h2c"])
def test_no_upgrade(front, upgrade):
    """AGG-21: a request to upgrade is ignored: the answer is the same as without it."""
    headers = [("Connection", "Upgrade"), ("Upgrade", upgrade), ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
               ("Sec-WebSocket-Version", "13"),
               *FrontProxy.identity("admin", ["system:masters"])]
    answer = front.whole("GET", path_of(POLR), headers)
    assert answer.code == 200 and answer.json["kind"] == "PolicyReportList" and answer.headers["Upgrade"] is None
