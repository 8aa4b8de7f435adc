"""What clients notice when proxies restart in turn, and when the database restarts or fails over."""

import time


from client import POLR, path_of, report, until
from conftest import Database
from crew import Balancer, Crew


def gap_of(action, api, path):
    """Returns the seconds from before an action until a write is answered again, and until a read is answered again."""
    begun = time.monotonic()
    action()
    done = {}

    def answered(what, answer, codes):
        if what not in done and answer.code in codes:
            done[what] = time.monotonic() - begun

    def both():
        try:
            answered("read", api().get(path, seconds=5), (200,))
            answered("write", api().post(path, report(f"gap-{time.monotonic_ns()}"), seconds=5), (201,))
        except OSError:
            pass
        return len(done) == 2
    until(both, 60, "the store to answer again")
    return done["write"], done["read"]


def test_rolling_restart(own_stack, ns, record_property):
    """Two proxies are restarted in turn under load: no acknowledged write is lost, each event comes once"""
    own_stack.begin()
    proxies = [own_stack.proxy(flags=["--shutdown-delay-duration=1s"]) for _ in range(2)]
    balancer = Balancer(proxies)

    def make_api():
        api = proxies[0].api(keep=True)
        api.port = balancer.port
        return api
    crew = Crew(make_api, ns, writers=3, watchers=4, pace=0.005)
    try:
        until(lambda: crew.written() > 20 and all(crew.events), 30, "load")
        for proxy in proxies * 2:
            before = crew.written()
            proxy.restart()
            until(lambda: crew.written() > before, 30, "writes to go on")
            until(lambda: proxy in balancer.ready, 10, "the balancer to use it again")
        crew.end_writers()
        stored = crew.names()
        assert set(stored) == set(crew.acknowledged)
        assert all(version in (None, int(stored[name])) for name, version in crew.acknowledged.items())
        until(crew.caught_up, 30, "all watchers to know everything")
        crew.end()
    finally:
        crew.stop.set()
        crew.enough.set()
        balancer.end()
    for number, events in enumerate(crew.events):
        versions = [version for version, _, _ in events]
        assert versions == sorted(set(versions)), f"watcher {number} saw an event twice, or out of order"
        assert {kind for _, kind, _ in events} == {"ADDED"}
    assert crew.relists == [0] * 4
    gaps = f"rolling restart: {crew.written()} writes, the longest took {crew.write_gap:.2f} s; " \
        f"a watcher was away for at most {max(crew.watch_gap):.2f} s"
    print(gaps)
    record_property("gaps", gaps)
    assert crew.write_gap < 20 and max(crew.watch_gap) < 20


def test_database_gaps(own_stack, ns, record_property):
    """Clients go on after a restart of the database and after a promotion; no acknowledged write is lost"""
    own_stack.begin()
    primary, standby = own_stack.database, Database()
    try:
        standby.follow(primary)
        hosts = f"host={primary.directory},{standby.directory} port=5432,5432 user=kube_reports_proxy " \
            "dbname=kube_reports target_session_attrs=read-write connect_timeout=3"
        proxies = [own_stack.proxy(connection=hosts) for _ in range(2)]
        primary.psql("ALTER SYSTEM SET synchronous_standby_names = '*'", user="postgres")
        primary.psql("SELECT pg_reload_conf()", user="postgres")
        synchronous = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
        until(lambda: primary.psql(synchronous, user="postgres") == "1", 30, "the standby to be synchronous")
        path = path_of(POLR, ns)
        crew = Crew(lambda: proxies[0].api(), ns, writers=2, watchers=2, pace=0.02)
        until(lambda: crew.written() > 10 and all(crew.events), 30, "load")

        def restart():
            primary.stop("fast")
            primary.start()

        def fail_over():
            primary.kill()
            standby.promote()
        told = []
        for what, action in (("restart of PostgreSQL", restart), ("promotion", fail_over)):
            write, read = gap_of(action, proxies[1].api, path)
            told.append(f"{what}: writes again after {write:.2f} s, reads after {read:.2f} s")
            before = crew.written()
            until(lambda: crew.written() > before + 5, 60, "writes to go on")
        own_stack.database = standby
        crew.end_writers()
        until(crew.caught_up, 60, "all watchers to know everything")
        assert set(crew.acknowledged) <= set(crew.names())
        crew.end()
        assert crew.relists == [0] * 2
        told.append(f"a client's write took at most {crew.write_gap:.2f} s,"
                    f" a watcher was away for at most {max(crew.watch_gap):.2f} s")
        print("; ".join(told))
        record_property("gaps", "; ".join(told))
        own_stack.end_proxies()
    finally:
        own_stack.database = primary
        standby.remove()
