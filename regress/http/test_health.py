"""Health and metrics of a proxy (conformance 20)."""

import time
import urllib.error
import urllib.request

import pytest

from client import failure, until

LIVE = ["ping", "log"]
READY = LIVE + ["database", "shutdown"]


def plain(proxy, path):
    """Returns the answer of the plain port: code, text."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{proxy.metrics_port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def lines_of(checks, name, excluded=()):
    shown = "".join(f"[+]{check} {'excluded: ' if check in excluded else ''}ok\n" for check in checks)
    return f"{shown}{name} check passed\n"


@pytest.mark.parametrize("name, checks", [("livez", LIVE), ("healthz", LIVE), ("readyz", READY)])
def test_checks(stack, name, checks):
    """
    HL-01, HL-02, HL-03: TestInstallHandler, TestInstallPathHandler, TestFormatQuoted, TestGetExcludedChecks: on both
    ports, for everybody; a single check, for users who may read it; checks that do not exist
    """
    anonymous = stack.first.api(user=None)
    for path, code, text in [
            (f"/{name}", 200, "ok"), (f"/{name}/", 200, "ok"), (f"/{name}?verbose", 200, lines_of(checks, name)),
            (f"/{name}?verbose=false", 200, lines_of(checks, name)),
            (f"/{name}?verbose&exclude=ping&exclude=log", 200, lines_of(checks, name, ("ping", "log"))),
            (f"/{name}?exclude=nothing", 200, "ok"),
                             (f"/{name}?verbose=true&exclude=ping", 200, lines_of(checks, name, ("ping",))),
            (f"/{name}?verbose=true&exclude=nothing", 200,
             lines_of(checks, name).replace(f"{name} check", "warn: some health checks cannot be excluded: no matches "
                                            f"for \"nothing\"\n{name} check")),
            (f"/{name}?verbose&exclude=nothing&exclude=a", 200,
             lines_of(checks, name).replace(f"{name} check", "warn: some health checks cannot be excluded: no matches "
                                            f"for \"a\",\"nothing\"\n{name} check")),
            (f"/{name}/ping", 200, "ok"), (f"/{name}/nothing", 404, "404 page not found\n"), (f"/{name}x", None, None)]:
        code_there, text_there = plain(stack.first, path)
        single = path.count("/") > 1 and not path.endswith("/")
        if code is None or single:
            assert anonymous.get(path).code == 403
        if code is None:
            assert code_there == 404
            continue
        answer = (stack.first.api() if single else anonymous).get(path)
        assert (answer.code, answer.body.decode()) == (code_there, text_there) == (code, text), path
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8" and answer.headers[
            "X-Content-Type-Options"] == "nosniff"
    assert anonymous.request("HEAD", f"/{name}").body == b""
    assert anonymous.request("POST", f"/{name}", b"").code == 405


def test_checks_of_readiness_alone(stack):
    """HL-03, HL-04: database is a check of readyz only, shutdown is no check of healthz"""
    api = stack.first.api()
    assert api.get("/readyz/database").code == 200
    assert api.get("/livez/database").code == api.get("/healthz/shutdown").code == 404


def test_database_away(own_stack):
    """
    HL-02, HL-03, HL-04: TestMultipleChecks, TestMultiplePathChecks: readyz withholds the reason, a single check tells
    it; a short absence of the database is no failure; livez does not depend on the database
    """
    own_stack.begin()
    proxy = own_stack.proxy()
    api = proxy.api()
    # Fresh connections reach every worker.
    until(lambda: all(api.get("/readyz").code == 200 for _ in range(20)), 20, "every worker to be ready")
    begun = time.monotonic()
    own_stack.database.stop("immediate")
    answer = until(lambda: next((a for a in [api.get("/readyz")] if a.code == 500), None), 20, "readyz to fail")
    assert time.monotonic() - begun > 2
    until(lambda: all(api.get("/readyz").code == 500 for _ in range(20)), 20, "every worker to notice")
    assert (answer.body.decode()
            == "[+]ping ok\n[+]log ok\n[-]database failed: reason withheld\n[+]shutdown ok\nreadyz check failed\n")
    answer = api.get("/readyz/database")
    assert answer.code == 500 and answer.body.startswith(b"internal server error: ") and len(answer.body) > 25
    failed = "[+]ping ok\n[+]log ok\n[-]database failed: reason withheld\n[+]shutdown ok\nreadyz check failed\n"
    for path, code, text in (("?verbose", 500, failed), ("?exclude=database", 200, "ok"),
                             ("?exclude=ping", 500, failed.replace("ping", "ping excluded:")), ("/ping", 200, "ok"),
                             ("?verbose=true&exclude=database", 200, lines_of(READY, "readyz", ("database",)))):
        answer = api.get("/readyz" + path)
        assert (answer.code, answer.body.decode()) == (code,
                                                       text) and answer.headers[
            "Content-Type"] == "text/plain; charset=utf-8", path
    assert (plain(proxy, "/livez"), api.get("/livez").code) == ((200, "ok"), 200)
    own_stack.database.start()
    proxy.wait_ready()


def test_metrics(stack):
    """HL-05: the API port has metrics, for users with the right to this non-resource path"""
    assert b"apiserver_request_total{" in stack.first.api().get("/metrics").body
    for user in ("nobody", None):
        answer = stack.first.api(user=user).get("/metrics")
        assert "cannot get path \"/metrics\"" in failure(answer, 403, "Forbidden")["message"]
