"""The log lines of the start: what is served, from where, and what is missing."""

import datetime
import os
import pathlib
import re
import signal
import uuid

import pytest

from client import run, until


def attempts(database):
    """Returns the times, in seconds, when proxies have connected to a server that logs connections."""
    log = pathlib.Path(f"{database.directory}/log/postgresql.log").read_text(encoding="utf-8", errors="replace")
    times = re.findall(r"^(\S+ [\d:.]+) \S+ .*connection authorized: user=kube_reports_proxy ", log, re.M)
    return [datetime.datetime.fromisoformat(time).timestamp() for time in times]


def test_a_good_start(stack):
    """Two lines, no errors: where the proxy listens; what is served, with which database and versions"""
    proxy = stack.proxy()
    served = until(lambda: proxy.log_entries("is served"), 20, "the line")
    assert len(served) == 1 and served[0]["level"] == "info"
    server = stack.database.psql("SHOW server_version")
    extension = stack.database.psql("SELECT extversion FROM pg_extension WHERE extname = 'kube_reports'")
    for words in (stack.cluster, "(test)", "types of", "wgpolicyk8s.io", "openreports.io",
                  'database "kube_reports"', stack.database.directory, 'role "kube_reports_proxy"',
                  f"PostgreSQL {server}", f"extension {extension}"):
        assert words in served[0]["message"], words
    listens = proxy.log_entries(f"listens at 127.0.0.1 port {proxy.port}")
    assert len(listens) == 1 and listens[0]["level"] == "info"
    assert str(proxy.metrics_port) in listens[0]["message"]
    assert [line for line in proxy.log_entries() if line["level"] == "error"] == []


def test_a_database_without_the_extension(own_stack):
    """The log says once what is missing, and nothing that misleads; when this is made, the proxy is ready"""
    database = own_stack.database
    database.start("log_connections = on")
    for statement in ("CREATE ROLE kube_reports_owner LOGIN", "CREATE ROLE kube_reports_proxy LOGIN",
                      "CREATE DATABASE kube_reports OWNER kube_reports_owner"):
        database.psql(statement, user="postgres", database="postgres")
    proxy = own_stack.proxy(ready=False, flags=("--workers=2",))
    until(lambda: len(proxy.log_entries("readyz fails")) == 2, 20, "both workers to say that they are not ready")

    def said():
        """Checks that the log has the error once, one line of each worker that is not ready, and nothing else."""
        told = proxy.log_entries("CREATE EXTENSION kube_reports")
        assert len(told) == 1 and told[0]["level"] == "error"
        assert 'database "kube_reports" does not have the extension' in told[0]["message"]
        shown = [line for line in proxy.log_entries() if "listens at" not in line["message"]]
        assert len(shown) == 3, shown
        return shown

    shown = said()
    assert not [line for line in shown if "prepared statement" in line["message"] or "26000" in line["message"]]
    why = until(lambda: getattr(proxy.answers("/readyz/database"), "body", None), 10, "an answer")
    assert b"does not have the extension" in why
    # Every process tries again, and logs no more.
    made = len(attempts(database))
    until(lambda: len(attempts(database)) >= made + 12, 30, "further attempts")
    said()
    # Attempts become rarer: the feed process, which has one connection, shows this while the other processes are
    # stopped.
    others = [*proxy.workers(), proxy.upkeep()]
    for pid in others:
        os.kill(pid, signal.SIGSTOP)

    def pauses():
        times = attempts(database)[-3:]
        return [later - former for former, later in zip(times, times[1:])]

    try:
        until(lambda: min(pauses()) > 4.9, 60, "two pauses of five seconds")
        assert max(pauses()) < 20
    finally:
        for pid in others:
            os.kill(pid, signal.SIGCONT)
    said()

    # The log names the next missing thing in the same way.
    database.psql("CREATE EXTENSION kube_reports")
    told = until(lambda: proxy.log_entries("grant_proxy"), 20, "what is missing next")
    assert f"SELECT kube_reports.grant_proxy('kube_reports_proxy', '{own_stack.cluster}')" in told[0]["message"]
    database.psql(f"SELECT kube_reports.grant_proxy('kube_reports_proxy', '{own_stack.cluster}')")
    proxy.wait_ready()
    until(lambda: len(proxy.log_entries("readyz passes again")) == 2, 20, "both workers")
    assert {line["level"] for line in proxy.log_entries("readyz passes again")} == {"info"}
    assert len(proxy.log_entries("is served")) == 1


def test_ready_when_every_worker_is(own_stack):
    """A proxy is not ready while one of its two workers cannot serve: the kernel chooses the worker of a connection"""
    own_stack.begin()
    own_stack.database.stop()
    proxy = own_stack.proxy(ready=False, flags=("--workers=2",))
    until(lambda: len(proxy.log_entries("readyz fails")) == 2, 20, "both workers to say that they are not ready")
    api = proxy.api()

    def answer(path):
        """Returns None if the kernel chose the stopped worker."""
        try:
            return api.request("GET", path, seconds=1)
        except OSError:
            return None

    stopped = proxy.workers()[0]
    os.kill(stopped, signal.SIGSTOP)
    try:
        own_stack.database.start()
        until(lambda: getattr(answer("/apis/wgpolicyk8s.io/v1alpha2"), "code", None) == 200, 30, "the other worker")
        assert until(lambda: answer("/readyz"), 20, "an answer").code == 500
        assert b"another worker has not read the registry" in until(lambda: answer("/readyz/database"), 20, "why").body
    finally:
        os.kill(stopped, signal.SIGCONT)
    proxy.wait_ready()


@pytest.mark.parametrize("lost, why, advice, back", [
    ("DROP EXTENSION kube_reports CASCADE", b"does not have the extension", "CREATE EXTENSION kube_reports",
     "CREATE EXTENSION kube_reports"),
    ("CALL kube_reports.unregister_cluster('{cluster}', force => true)", b"may not serve cluster", "grant_proxy",
     None)], ids=["extension", "cluster"])
def test_what_is_served_goes(own_stack, lost, why, advice, back):
    """
    The extension is dropped, or the cluster is unregistered, under a running proxy: the log says so as at a start, and
    clients get 503 and never "not found"; when this is made again, the proxy goes on
    """
    own_stack.begin()
    database = own_stack.database
    proxy = own_stack.proxy()
    api = proxy.api()
    path = "/apis/wgpolicyk8s.io/v1alpha2/policyreports"
    assert api.get(path).code == 200

    database.psql(lost.format(cluster=own_stack.cluster))
    codes = []

    def not_ready():
        answer = api.get(path)
        codes.append(answer.code)
        if answer.code == 503:
            assert answer.json["reason"] == "ServiceUnavailable" and answer.headers["Retry-After"]
        return why in getattr(proxy.answers("/readyz/database"), "body", b"")

    until(not_ready, 20, "/readyz/database to say what is missing")
    assert set(codes) == {503}
    # The log has the failing statements, too, each once a minute.
    told = until(lambda: [line for line in proxy.log_entries(advice) if line["level"] == "error"
                          and not line["message"].startswith("database: ")], 10, "the line of a start")
    assert len(told) == 1
    assert api.get(path).code == 503

    if back:
        database.psql(back)
    database.psql(f"SELECT kube_reports.grant_proxy('kube_reports_proxy', '{own_stack.cluster}')")
    proxy.wait_ready()
    assert api.get(path).code == 200


def test_a_role_of_another_cluster(stack):
    """The log says which call of grant_proxy() binds a role"""
    wanted = str(uuid.uuid4())
    proxy = stack.proxy(cluster=wanted, ready=False)
    told = until(lambda: proxy.log_entries("may not serve cluster"), 20, "the error")
    for words in ("grant_proxy(", wanted, stack.cluster):
        assert words in told[0]["message"]


@pytest.mark.parametrize("flag", ["database", "read-database"])
@pytest.mark.parametrize("text, words", [
    ("hots=foo", 'invalid connection option "hots"'), ("host=x password", 'missing "=" after "password"'),
    ("postgresql://host:port:5/x?hots=1", "invalid"),
    ("postgresql://h/x?hots=1", 'invalid URI query parameter: "hots"')])
def test_a_wrong_connection_string(stack, flag, text, words):
    """A wrong connection string ends the start as any wrong flag does; it is not printed: it may contain a password"""
    binary = f"{stack.database.directory}/dest/usr/bin/kube-reports-proxy"
    tls = (f"--tls-cert-file={stack.pki}/serving.crt", f"--tls-private-key-file={stack.pki}/serving.key")
    done = run([binary, *tls, f"--cluster-id={stack.cluster}", f"--{flag}={text} "], check=False, timeout=20)
    assert done.code == 2 and f"--{flag}: " in done.err and words in done.err, done.err
    assert text not in done.err
