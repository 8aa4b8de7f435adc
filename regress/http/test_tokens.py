"""Bearer tokens (k8s-conformance section 4): reviews, their cache and limits, and bodies of unknown users."""

import select
import threading
import time

import pytest

from client import POLR, path_of, until
from test_authentication import AUTHENTICATED, WHOAMI, fresh_path, shared, unauthorized, who  # noqa: F401

USER = {"username": "system:serviceaccount:ns:sa", "uid": "u-1", "groups": ["system:serviceaccounts", AUTHENTICATED],
        "extra": {"authentication.kubernetes.io/pod-name": ["p"]}}


def bearing(token, **more):
    return {"headers": {"Authorization": f"Bearer {token}"}, **more}


def test_token(delegate):
    """
    AUTHN-04, AUTHN-06, AUTHN-07: TestAuthenticateRequest, TestAuthenticateRequestFailed,
    TestAuthenticateRequestTokenInvalid, TestV1WebhookTokenAuthenticator: each token is reviewed once; a good token
    gives the user, a bad one is refused.
    """
    delegation = delegate()
    reviews = delegation.apiserver.token_reviews
    delegation.apiserver.token_rule = lambda spec: {"authenticated": spec["token"] == "good", "user": USER}
    api = delegation.proxy.api(None)
    for _ in range(3):
        assert who(delegation, api.request, "GET", fresh_path(), **bearing("good")) == \
            {"user": USER["username"], "uid": USER["uid"], "groups": USER["groups"], "extra": USER["extra"]}
    assert reviews == [{"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {},
                        "spec": {"token": "good"}}]
    for _ in range(3):
        unauthorized(api.request("GET", fresh_path(), **bearing("bad")))
    assert [review["spec"]["token"] for review in reviews] == ["good", "bad"]
    assert delegation.apiserver.asked("tokenreviews$")[0].authorization == "Bearer delegate"
    log = delegation.proxy.log_path.read_text()
    assert "Bearer" not in log and "good" not in log


# Upstream's bearertoken tests: headers with their tokens; None: the header has no token.
AUTHORIZATIONS = {"Bearer token": "token", "bearer token": "token", "BEARER token": "token", "  Bearer token ": "token",
                  "Bearer token more": "token", "Bearer": None, "Bearer ": None, "Bearer  token": None, "token": None,
                  "Basic dTpw": None, "Bearertoken": None, "Bearer\ttoken": None}


@pytest.mark.parametrize("header", AUTHORIZATIONS)
def test_authorization_header(shared, header):
    """
    AUTHN-04: TestBearerToken, TestAuthenticateRequestBadValue, TestAuthenticateRequestIncludingValueAfterToken: the
    headers that have a bearer token; other headers are ignored.
    """
    before = len(shared.apiserver.token_reviews)
    shared.apiserver.token_rule = lambda spec: {"authenticated": True, "user": {"username": "bearer"}}
    api = shared.proxy.api(None)
    spec = who(shared, api.request, "GET", fresh_path(), headers={"Authorization": header})
    token = AUTHORIZATIONS[header]
    assert spec["user"] == ("bearer" if token else "system:anonymous")
    assert {review["spec"]["token"] for review in shared.apiserver.token_reviews[before:]} <= {token}


def test_spaced_token(shared):
    """AUTHN-04: a token after two spaces is ignored, with a warning, as by kube-apiserver."""
    answer = shared.proxy.api(None).request("GET", "/livez", headers={"Authorization": "Bearer  token"})
    assert answer.code == 200
    assert answer.warnings == ['299 - "the provided Authorization header contains extra space before the bearer '
                               'token, and is ignored"']
    assert shared.proxy.api(None).request("GET", "/livez", headers={"Authorization": "Basic dTpw"}).warnings == []


def test_token_cache_ends(delegate):
    """
    AUTHN-06: TestCachedTokenAuthenticator, TestV1WebhookCacheAndRetry: good and bad tokens are remembered for
    --authentication-token-webhook-cache-ttl; with 0 they are not remembered.
    """
    reviews = []
    delegation = delegate(flags=["--authentication-token-webhook-cache-ttl=300ms"])

    def rule(spec):
        reviews.append(spec["token"])
        return {"authenticated": spec["token"] == "good", "user": USER}
    delegation.apiserver.token_rule = rule
    api = delegation.proxy.api(None, keep=True)
    for token, code in (("good", 403), ("bad", 401)):
        assert api.request("GET", WHOAMI, **bearing(token)).code == code
        assert reviews.count(token) == 1
        until(lambda: api.request("GET", WHOAMI, **bearing(token)).code == code and reviews.count(token) > 1, 10,
              "another review")
    none = delegate(flags=["--authentication-token-webhook-cache-ttl=0"])
    before = len(reviews)
    for _ in range(2):
        assert none.proxy.api(None).request("GET", WHOAMI, **bearing("good")).code == 403
    assert len(reviews) == before + 2


@pytest.mark.parametrize("trouble", [
    {"code": 403}, {"code": 404}, {"status": {"authenticated": False, "error": "broken"}},
    {"status": {"authenticated": True}}, {"status": {"authenticated": True, "user": {"username": ""}}},
    {"status": {"authenticated": True, "user": {"username": "a\x00b"}}},
    {"status": {"authenticated": "true", "user": USER}}, {"status": None}, {"status": []}])
def test_token_errors_are_not_remembered(delegate, trouble):
    """
    AUTHN-06: TestAuthenticateRequestTokenError, TestAuthenticateRequestError: after a failed or invalid review the
    request gets 401, and the next request has a new review.
    """
    delegation = delegate()
    api = delegation.proxy.api(None)
    if "code" in trouble:
        delegation.apiserver.trouble("tokenreviews", **trouble)
    delegation.apiserver.token_rule = lambda spec: trouble.get("status")
    unauthorized(api.request("GET", fresh_path(), **bearing("token")))
    delegation.apiserver.calm()
    delegation.apiserver.token_rule = lambda spec: {"authenticated": True, "user": USER}
    expected = 401 if trouble.get("status", {}) == {"authenticated": "true", "user": USER} else 403
    # The text "true" counts as an answer that denies, and such an answer is remembered.
    assert api.request("GET", fresh_path(), **bearing("token")).code == expected


def test_token_retried(delegate):
    """AUTHN-06: TestV1WebhookCacheAndRetry: connection errors, 429 and 5xx are tried again within one request."""
    delegation = delegate()
    delegation.apiserver.token_rule = lambda spec: {"authenticated": True, "user": USER}
    delegation.apiserver.trouble("tokenreviews", drop=True, times=1)
    delegation.apiserver.trouble("tokenreviews", code=503, times=1)
    assert delegation.proxy.api(None).request("GET", fresh_path(), **bearing("token")).code == 403
    assert len(delegation.apiserver.asked("tokenreviews")) == 3


def test_token_reviews_are_shared(delegate):
    """
    AUTHN-06: TestSharedLookup: requests with the same token wait for one review; clients that leave do not end it for
    the others.
    """
    delegation = delegate()
    delegation.apiserver.token_rule = lambda spec: {"authenticated": True, "user": USER}
    hold = threading.Event()
    delegation.apiserver.trouble("tokenreviews", hold=hold)
    answers = []
    sockets = []
    for _ in range(10):
        connection = delegation.front(None).connect()
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer same\r\nConnection: close\r\n\r\n")
        sockets.append(connection)
    until(lambda: delegation.apiserver.asked("tokenreviews"), 10, "the review")
    for connection in sockets[:5]:
        connection.close()
    # The proxy looks once a second for clients that have left.
    until(lambda: delegation.proxy.log_path.read_text().count('"complete":false') >= 5, 10, "five to be gone")
    hold.set()
    for connection in sockets[5:]:
        answers.append(connection.recv(12))
    assert answers == [b"HTTP/1.1 200"] * 5
    assert len(delegation.apiserver.token_reviews) == 1


def test_token_flood(delegate):
    """AUTHN-06: the number of running reviews is bounded: further tokens get 429 and Retry-After."""
    delegation = delegate()
    hold = threading.Event()
    delegation.apiserver.trouble("tokenreviews", hold=hold)
    sockets = []
    for number in range(205):
        connection = delegation.front(None).connect()
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t%d\r\n"
                           b"Connection: close\r\n\r\n" % number)
        sockets.append(connection)
    until(lambda: delegation.proxy.log_path.read_text().count('"status":429') == 5, 20, "five refusals")
    # Clients that need no review are served as before.
    assert delegation.front().get("/livez").code == 200
    refused = select.select(sockets, [], [], 0)[0]
    assert len(refused) == 5
    head = refused[0].recv(4096)
    assert head.startswith(b"HTTP/1.1 429") and b"\r\nretry-after: 1\r\n" in head.lower()
    hold.set()
    assert all(connection.recv(12) == b"HTTP/1.1 401" for connection in sockets if connection not in refused)


def test_strangers_delay_nobody(delegate):
    """While reviews of unknown tokens and of anonymous users reach their limits, known users are reviewed at once."""
    ttl = ["--authentication-token-webhook-cache-ttl=0s", "--authorization-webhook-cache-authorized-ttl=0s",
           "--authorization-webhook-cache-unauthorized-ttl=0s"]
    delegation = delegate(flags=ttl)
    hold = threading.Event()

    def token_rule(spec):
        if spec["token"] == "known":
            return {"authenticated": True, "user": USER}
        hold.wait(60)
        return {"authenticated": False}

    def access_rule(spec):
        if spec["user"] == "system:anonymous":
            hold.wait(60)
        return {"allowed": False}
    delegation.apiserver.token_rule, delegation.apiserver.access_rule = token_rule, access_rule
    assert delegation.proxy.api(None).request("GET", fresh_path(), **bearing("known")).code == 403
    sockets = [delegation.front(None).connect() for _ in range(410)]
    begun = time.monotonic()
    for number in range(205):
        for path, more in (("/livez", f"Authorization: Bearer t{number}\r\n"), (f"/anonymous/{number}", "")):
            opened = sockets[2 * number + (path == "/livez")]
            opened.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n{more}Connection: close\r\n\r\n".encode())
    # Both floods have reached their limits.
    until(lambda: delegation.proxy.log_path.read_text().count('"status":429') == 10, 60, "ten refusals")
    for _ in range(5):
        assert delegation.proxy.api(None).request("GET", fresh_path(), seconds=10, **bearing("known")).code == 403
        assert delegation.front().get(fresh_path()).code == 403
    # A review ends after ten seconds: no known user has waited for the end of one.
    assert time.monotonic() - begun < 9
    hold.set()
    for connection in sockets:
        connection.close()


def begin_body(delegation, *lines, length=3000000):
    """Returns a connection without a certificate, on which a head announces a body; the body is not sent."""
    connection = delegation.front(None).connect()
    head = [f"POST {path_of(POLR, 'x')} HTTP/1.1", "Host: x", "Content-Type: application/json", *lines]
    if not any(line.startswith("Transfer-Encoding") for line in lines):
        head.append(f"Content-Length: {length}")
    connection.sendall("\r\n".join([*head, "", ""]).encode())
    return connection


def answer_to(connection, seconds=15):
    """Returns the bytes that arrive until the connection ends."""
    connection.settimeout(seconds)
    received = b""
    while data := connection.recv(65536):
        received += data
    return received


@pytest.mark.parametrize("framing", ["Content-Length: 3000000", "Transfer-Encoding: chunked", "Expect: 100-continue"])
def test_a_body_with_a_bad_token(delegate, framing):
    """AUTHN-06: a token is reviewed at the end of the head: a bad token is refused before the body is read."""
    delegation = delegate()
    delegation.apiserver.token_rule = lambda spec: {"authenticated": False}
    lines = [] if framing.startswith("Content-Length") else [framing]
    connection = begin_body(delegation, "Authorization: Bearer bad", *lines)
    received = answer_to(connection)
    assert received.startswith(b"HTTP/1.1 401 ") and b'"reason":"Unauthorized"' in received, received
    assert len(delegation.apiserver.token_reviews) == 1
    assert delegation.proxy.metric("kube_reports_buffered_body_bytes") == 0


def test_a_body_of_nobody(delegate):
    """AUTHN-05: with --anonymous-auth=false a body without credentials is refused before it is read."""
    delegation = delegate(flags=["--anonymous-auth=false"])
    assert answer_to(begin_body(delegation)).startswith(b"HTTP/1.1 401 ")


def test_bodies_with_good_tokens_are_no_strangers(delegate):
    """AUTHN-06: bodies with a good token use the memory of known users, while an unknown user fills its share."""
    delegation = delegate(flags=["--workers=1", "--max-buffered-body-bytes=12582912"])
    delegation.apiserver.token_rule = lambda spec: {"authenticated": spec["token"] == "good", "user": USER}
    stranger = begin_body(delegation)
    until(lambda: delegation.proxy.metric("kube_reports_buffered_body_bytes") == 3000000, 20, "a stranger's body")
    known = [begin_body(delegation, "Authorization: Bearer good") for _ in range(3)]
    until(lambda: delegation.proxy.metric("kube_reports_buffered_body_bytes") == 12000000, 20, "four bodies")
    for connection in known:
        connection.sendall(b" " * 3000000)
        connection.settimeout(30)
        assert connection.recv(12) == b"HTTP/1.1 403"
    for connection in (stranger, *known):
        connection.close()


def test_leaving_while_a_token_is_reviewed(delegate):
    """AUTHN-06: a client may leave, or send its body, while its token is reviewed; others are served."""
    delegation = delegate(flags=["--workers=1"])
    delegation.apiserver.token_rule = lambda spec: {"authenticated": spec["token"] == "good", "user": USER}
    hold = threading.Event()
    delegation.apiserver.trouble("tokenreviews", hold=hold)
    connections = [begin_body(delegation, f"Authorization: Bearer {token}") for token in ("left", "good")]
    until(lambda: len(delegation.apiserver.asked("tokenreviews")) == 2, 20, "both reviews")
    connections[0].close()
    # The proxy takes no byte of a body before it knows the user.
    assert delegation.proxy.metric("kube_reports_buffered_body_bytes") == 0
    assert delegation.front().get("/livez").code == 200
    hold.set()
    connections[1].sendall(b" " * 3000000)
    connections[1].settimeout(30)
    assert connections[1].recv(12) == b"HTTP/1.1 403"
    until(lambda: delegation.proxy.metric("kube_reports_buffered_body_bytes") == 0, 20, "the end of both")
    assert delegation.proxy.metric("kube_reports_worker_restarts_total") == 0
    connections[1].close()


def test_audiences(delegate):
    """
    AUTHN-04: TestAuthenticateRequestWithAud, TestCachedTokenAuthenticatorWithAudiences: with --api-audiences a token
    must be for one of the audiences.
    """
    delegation = delegate(flags=["--api-audiences=reports,https://reports.example"])
    granted = {"one": ["other", "reports"], "none": ["other"], "unaware": None}
    delegation.apiserver.token_rule = lambda spec: {"authenticated": True, "user": USER,
                                                    "audiences": granted[spec["token"]]}
    api = delegation.proxy.api(None)
    assert who(delegation, api.request, "GET", fresh_path(), **bearing("one"))["user"] == USER["username"]
    unauthorized(api.request("GET", fresh_path(), **bearing("none")))
    unauthorized(api.request("GET", fresh_path(), **bearing("unaware")))
    assert delegation.apiserver.token_reviews[0]["spec"] == {"token": "one",
                                                             "audiences": ["reports", "https://reports.example"]}


def test_tokens_without_kube_apiserver(stack):
    """AUTHN-04, AUTHN-05: a proxy without a kube-apiserver ignores tokens."""
    answer = stack.first.api(None).request("GET", "/apis", **bearing("token"))
    assert 'User \\"system:anonymous\\"' in answer.body.decode()
