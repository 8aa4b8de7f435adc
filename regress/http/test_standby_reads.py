"""--read-database: which reads a standby may answer, and which only the primary can answer."""

import re

import pytest

from client import POLR, failure, path_of, report, until
from conftest import VARIANT, Database, Stack
from runbook import blocks_of, put

(HOWTO,) = (text for _, text in blocks_of("docs/howto.md") if "--read-database" in text)

# Functions that a proxy reads with.
LIST, CHANGES = "api_list", "api_read_changes" if VARIANT == "sql" else "api_changes"


@pytest.fixture(scope="module")
def replicated():
    """A primary and a standby; a proxy that reads from both, and one that reads from the primary only."""
    stack = Stack()
    standby = Database()
    try:
        stack.begin()
        standby.follow(stack.database, "track_functions = all")
        stack.standby = standby
        databases = dict(re.findall(r'--([a-z-]+)="([^"]*)"', put(HOWTO, **{
            "host=primary": f"host={stack.database.directory}", "host=standby": f"host={standby.directory}",
            "dbname=reports": "dbname=kube_reports"})))
        stack.mixed = stack.proxy(connection=databases["database"],
                                  flags=[f"--read-database={databases['read-database']}", "--workers=1"])
        stack.plain = stack.proxy(flags=["--workers=1"])
        until(lambda: standby.psql("SELECT count(*) FROM pg_stat_activity WHERE usename = 'kube_reports_proxy'",
                                   user="postgres") != "0",
              20, "the proxy at the standby")
        yield stack
    finally:
        standby.remove()
        stack.end()


def replayed(stack):
    newest = stack.database.psql("SELECT pg_current_wal_lsn()", user="postgres")
    until(lambda: stack.standby.psql(f"SELECT pg_last_wal_replay_lsn() >= '{newest}'", user="postgres") == "t", 20,
          "replay")


class Behind:
    """The standby applies nothing new while the block runs."""

    def __init__(self, stack):
        self.stack = stack

    def __enter__(self):
        replayed(self.stack)
        self.stack.standby.psql("SELECT pg_wal_replay_pause()", user="postgres")
        until(lambda: self.stack.standby.psql("SELECT pg_get_wal_replay_pause_state()", user="postgres") == "paused",
              20, "the pause")

    def __exit__(self, *_):
        self.stack.standby.psql("SELECT pg_wal_replay_resume()", user="postgres")


def calls(stack, function):
    """Returns how often the standby has run a function; its statistics come with a delay."""
    return int(stack.standby.psql("SELECT coalesce(sum(calls), 0) FROM pg_stat_user_functions WHERE funcname = "
                                  f"'{function}'", user="postgres"))


def names(answer):
    assert answer.code == 200, answer
    return [item["metadata"]["name"] for item in answer.json["items"]]


def test_lists(replicated, ns):
    """LIST-10, LIST-12, GET-03, PAGE-02: a version that the standby has is read there, other versions at the primary"""
    api = replicated.mixed.api()
    path = path_of(POLR, ns)
    for n in range(3):
        api.create(POLR, report(f"old-{n}"), ns)
    old = api.get(path).json["metadata"]["resourceVersion"]
    with Behind(replicated):
        new = api.create(POLR, report("young"), ns)["metadata"]["resourceVersion"]
        everything = ["old-0", "old-1", "old-2", "young"]
        before = calls(replicated, LIST)
        assert names(api.get(path)) == everything
        assert names(api.get(path, resourceVersion="0")) == everything[:3]
        assert names(api.get(path, resourceVersion=old, resourceVersionMatch="Exact")) == everything[:3]
        assert names(api.get(path, resourceVersion=new, resourceVersionMatch="Exact")) == everything
        assert names(api.get(path, resourceVersion=new, resourceVersionMatch="NotOlderThan")) == everything
        # Pages of the old version are read at the standby, pages of the new version at the primary.
        first = api.get(path, limit="2", resourceVersion=old, resourceVersionMatch="Exact").json["metadata"]
        assert names(api.get(path, limit="2", **{"continue": first["continue"]})) == ["old-2"]
        first = api.get(path, limit="2").json["metadata"]
        assert first["resourceVersion"] == new
        assert names(api.get(path, limit="2", **{"continue": first["continue"]})) == ["old-2", "young"]
        until(lambda: calls(replicated, LIST) >= before + 4, 20, "the standby's share")
        failure(api.get(path, resourceVersion=str(int(new) + 1000), resourceVersionMatch="NotOlderThan"), 504,
                "Timeout")


def test_watches(replicated, ns):
    """
    W-11, WL-04, WL-08: initial events and old changes are read at the standby as far as it has them; nothing is missed
    """
    api, writer = replicated.mixed.api(), replicated.plain.api()
    path = path_of(POLR, ns)
    start = api.create(POLR, report("first"), ns)["metadata"]["resourceVersion"]
    for n in range(5):
        api.create(POLR, report(f"old-{n}"), ns)
    with Behind(replicated):
        before = calls(replicated, CHANGES)
        for n in range(5):
            api.create(POLR, report(f"young-{n}"), ns)
        expected = [*(("ADDED", f"old-{n}") for n in range(5)), *(("ADDED", f"young-{n}") for n in range(5))]
        with api.watch(path, resourceVersion=start) as watch:
            watch.expect(*expected)
            writer.create(POLR, report("live"), ns)
            watch.expect(("ADDED", "live"))
        options = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
        with api.watch(path, **options) as watch:
            shown = [watch.event()[1]["metadata"]["name"] for _ in range(12)]
            assert shown == sorted(["first", "live", *(name for _, name in expected)])
            assert watch.event()[0] == "BOOKMARK"
            writer.create(POLR, report("later"), ns)
            watch.expect(("ADDED", "later"))
        until(lambda: calls(replicated, CHANGES) > before, 20, "the standby's share")


def test_standby_goes_away(replicated, ns):
    """GET-03: without its standby, a proxy reads everything at the primary; later it uses the standby again"""
    api = replicated.mixed.api()
    path = path_of(POLR, ns)
    api.create(POLR, report("r"), ns)
    replayed(replicated)
    replicated.standby.stop("immediate")
    for _ in range(20):
        assert names(api.get(path, resourceVersion="0")) == ["r"]
    replicated.standby.start("track_functions = all")
    before = calls(replicated, LIST)

    def used():
        assert names(api.get(path, resourceVersion="0")) == ["r"]
        return calls(replicated, LIST) > before
    until(used, 20, "the standby to be used again")


def test_another_store_is_never_read(replicated, ns):
    """GET-03: a database that is no standby of the store is recognized, and never read"""
    stranger = Stack()
    stranger.cluster = replicated.cluster
    try:
        stranger.begin(copied=False)
        proxy = replicated.proxy(flags=[f"--read-database={stranger.database.connection('kube_reports_proxy')}",
                                        "--workers=1"])
        api = proxy.api()
        api.create(POLR, report("here"), ns)
        until(lambda: "is no standby of the database" in proxy.log_path.read_text(), 20, "the complaint")
        for _ in range(20):
            assert names(api.get(path_of(POLR, ns), resourceVersion="0")) == ["here"]
    finally:
        stranger.end()


def test_primary_goes_away(replicated, ns):
    """
    Lists that name a version are read at the standby: they need no primary.  The metric of an alert counts connections
    to the database, not those to its standby, which are still there
    """
    proxy, path = replicated.mixed, path_of(POLR, ns)
    version = proxy.api().create(POLR, report("r"), ns)["metadata"]["resourceVersion"]
    replayed(replicated)

    def connections():
        return [proxy.series("kube_reports_database_connections"),
                proxy.series("kube_reports_database_connections_open", use="standby")]
    until(lambda: min(connections()) > 0, 20, "connections to both")
    replicated.database.stop("immediate")
    try:
        until(lambda: connections()[0] == 0, 20, "the end of the connections to the primary")
        assert connections()[1] > 0
        for query in ({"resourceVersion": "0"}, {"resourceVersion": version, "resourceVersionMatch": "Exact"}):
            assert names(proxy.api().get(path, **query)) == ["r"]
        failure(proxy.api().get(path), 503, "ServiceUnavailable")
        assert replicated.standby.psql("SELECT count(*) FROM pg_stat_activity WHERE usename = 'kube_reports_proxy' "
                                       "AND state = 'idle'", user="postgres") != "0"
    finally:
        replicated.database.start()
    replicated.mixed.wait_ready()
