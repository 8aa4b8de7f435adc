"""The upkeep process beside the workers, and the budget of database connections that all of them share."""

import concurrent.futures
import os
import signal
import subprocess
import threading
import time

import pytest

from client import POLR, path_of, report, until

# Work that lasts until the test ends it.  It does not wait for a lock, because the server ends such a wait earlier.
HELD = """
    ALTER FUNCTION kube_reports_internal.{name}(uuid, kube_reports_internal.caller) RENAME TO {name}_at_once;
    CREATE FUNCTION kube_reports_internal.{name}(cluster uuid, caller kube_reports_internal.caller
            DEFAULT kube_reports_internal.this_caller()) RETURNS boolean
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    BEGIN
        WHILE NOT pg_try_advisory_xact_lock_shared(4712) LOOP PERFORM pg_sleep(0.05); END LOOP;
        RETURN false;
    END $$;
    GRANT EXECUTE ON FUNCTION kube_reports_internal.{name}(uuid, kube_reports_internal.caller) TO kube_reports_proxy;
"""
# Calls of the upkeep: in the SQL variant a step that may ask the engine is called by another name.
UPKEEP = "state = 'active' AND query ~ 'api_(maintain|catch_up|engine_step)'"


def backends(stack, condition="true"):
    return stack.database.psql(f"SELECT pid FROM pg_stat_activity WHERE usename = 'kube_reports_proxy' AND {condition} "
                               "ORDER BY 1", user="postgres").split()


def test_lists_do_not_wait_for_upkeep(own_stack, ns):
    """Long steps of maintenance and catching up hold no connection that clients need; watches and readyz go on"""
    own_stack.begin()
    blocker = own_stack.database.open_create(own_stack.cluster, report("open", "elsewhere"))
    blocker.rollback()
    with blocker.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(4712)")
    for name in ("api_maintain", "api_catch_up"):
        own_stack.database.psql(HELD.format(name=name), user="postgres")
    proxy = own_stack.proxy(flags=["--workers=1"])
    api, path = proxy.api(), path_of(POLR, ns)
    stored = api.create(POLR, report("r0"), ns)
    watch = api.watch(path, resourceVersion=stored["metadata"]["resourceVersion"])
    until(lambda: backends(own_stack, UPKEEP), 20, "upkeep")
    for number in range(1, 6):
        # As many lists at once as may run; none of them finds a connection taken.
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(api.get(path, seconds=10))) for _ in range(4)]
        begun = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [answer.code for answer in answers] == [200] * 4
        assert time.monotonic() - begun < 5
        assert api.post(path, report(f"r{number}")).code == 201
        watch.expect(("ADDED", f"r{number}"))
        assert api.get("/readyz").code == 200
    serving = backends(own_stack, UPKEEP)
    # Upkeep takes one step at a time, on one of its own two connections.
    assert len(serving) == 1
    watch.close()
    blocker.close()


def test_upkeep_dies(own_stack, ns):
    """Another upkeep process is started; no watch ends, and the proxy stays ready"""
    own_stack.begin()
    proxy = own_stack.proxy()
    api, path = proxy.api(), path_of(POLR, ns)
    stored = api.create(POLR, report("r0"), ns)
    watch = api.watch(path, resourceVersion=stored["metadata"]["resourceVersion"])
    workers, victim = proxy.workers(), until(proxy.upkeep, 20, "an upkeep process")
    os.kill(victim, signal.SIGKILL)
    until(lambda: proxy.upkeep() not in (None, victim), 20, "another upkeep process")
    assert proxy.metric("kube_reports_upkeep_restarts_total") == 1
    assert proxy.metric("kube_reports_worker_restarts_total") == 0
    assert proxy.workers() == workers and api.get("/readyz").code == 200
    api.create(POLR, report("r1"), ns)
    watch.expect(("ADDED", "r1"))
    # The new process counts the objects, and every worker shows its count.
    for _ in range(8):
        until(lambda: proxy.metric('apiserver_storage_objects{resource="policyreports.wgpolicyk8s.io"}') is not None,
              60, "a count")
    # The upkeep process does not delay the end of the proxy.
    processes = proxy.processes()
    proxy.process.send_signal(signal.SIGTERM)
    assert proxy.process.wait(30) == 0
    assert not any(os.path.exists(f"/proc/{pid}") for pid in processes)
    watch.close()


# A function of upkeep that fails until the test repairs it.
BROKEN = """
    ALTER FUNCTION kube_reports_internal.{name}(uuid, kube_reports_internal.caller) RENAME TO {name}_whole;
    CREATE FUNCTION kube_reports_internal.{name}(cluster uuid,
            caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller()) RETURNS boolean
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    BEGIN
        RAISE EXCEPTION '{name} does not like it' USING HINT = 'Do otherwise.';
    END $$;
    GRANT EXECUTE ON FUNCTION kube_reports_internal.{name}(uuid, kube_reports_internal.caller) TO kube_reports_proxy;
"""
MENDED = """
    DROP FUNCTION kube_reports_internal.{name}(uuid, kube_reports_internal.caller);
    ALTER FUNCTION kube_reports_internal.{name}_whole(uuid, kube_reports_internal.caller) RENAME TO {name};
"""
LAST_SUCCESS = "kube_reports_upkeep_last_success_timestamp_seconds"


def test_tasks_that_fail(own_stack):
    """
    The log says once that a task of upkeep fails again and again, with the cause, and once that the task goes on; the
    metric has the last success of each task, and 0 before the first one
    """
    database = own_stack.begin().database
    for name in ("api_maintain", "api_catch_up"):
        database.psql(BROKEN.format(name=name), user="postgres")
    proxy = own_stack.proxy(flags=["--workers=1", "--v=0"])

    def said(text):
        return [line for line in proxy.log_path.read_text().splitlines() if text in line]
    for name in ("api_maintain", "api_catch_up"):
        cause = f"{name} does not like it (SQLSTATE P0001). HINT: Do otherwise."
        until(lambda text=cause: said(text), 40, cause)
    assert len(said("upkeep is stalled")) == 2
    for task, known in (("maintenance", False), ("catching_up", False), ("merging", True), ("counting", True),
                        ("measuring", True)):
        assert (proxy.series(LAST_SUCCESS, task=task) > 0) == known, task
    for name in ("api_maintain", "api_catch_up"):
        database.psql(MENDED.format(name=name), user="postgres")
    until(lambda: len(said("upkeep goes on")) == 2, 40, "both to go on")
    assert len(said("upkeep is stalled")) == 2
    until(lambda: proxy.series(LAST_SUCCESS, task="maintenance") and proxy.series(LAST_SUCCESS, task="catching_up"),
          10, "the metric to tell")


def test_outages_are_no_stalls(own_stack):
    """While the database is away, the log has no lines about the tasks of upkeep"""
    own_stack.begin()
    proxy = own_stack.proxy(flags=["--workers=1", "--v=0"])
    own_stack.database.stop()
    away = time.monotonic()
    until(lambda: proxy.answers().code == 500 and time.monotonic() - away > 13, 40, "an outage longer than a stall")
    own_stack.database.start()
    proxy.wait_ready(40)
    assert "upkeep is stalled" not in proxy.log_path.read_text()


def test_objects_are_counted_soon(own_stack, ns):
    """After a start with an empty store, the metric soon counts new objects"""
    own_stack.begin()
    proxy = own_stack.proxy(flags=["--workers=1"])
    api, name = proxy.api(), 'apiserver_storage_objects{resource="policyreports.wgpolicyk8s.io"}'
    api.create(POLR, report("first"), ns)
    assert api.delete(path_of(POLR, ns) + "/first").code == 200
    until(lambda: proxy.metric(name) == 0, 20, "a count of nothing")
    begun = time.monotonic()
    for number in range(30):
        api.create(POLR, report(f"r{number}"), ns)
    until(lambda: proxy.metric(name) == 30, 20, "a count of all")
    assert time.monotonic() - begun < 15


def test_replicas_without_upkeep(own_stack):
    """
    --upkeep=false: no upkeep process, no time of a success, and 0 restarts, which alerts add up; result metrics are
    refused
    """
    own_stack.begin()
    proxy = own_stack.proxy(flags=["--upkeep=false"])
    assert proxy.upkeep() is None and len(proxy.workers()) == 2
    assert proxy.metric("kube_reports_upkeep_restarts_total") == 0
    assert proxy.series(LAST_SUCCESS) is None
    assert proxy.metric('kube_reports_database_connections_open{use="upkeep"}') == 0
    assert proxy.metric("kube_reports_database_connections_limit") == 13
    refused = subprocess.run(proxy.command + ["--result-metrics-series=10"], capture_output=True, text=True,
                             timeout=30, check=False)
    assert refused.returncode == 2 and "--result-metrics-series: needs --upkeep" in refused.stderr


@pytest.mark.parametrize("flags, least", [(["--workers=8", "--database-connections=26"], 27), (["--workers=14"], 45),
                                          (["--workers=8", "--database-connections=24", "--upkeep=false"], 25)])
def test_too_few_connections(stack, flags, least):
    """Too few connections are refused at the start, with the number that is needed"""
    refused = subprocess.run(stack.first.command + flags, capture_output=True, text=True, timeout=30, check=False)
    assert refused.returncode == 2
    assert f"give at least {least}," in refused.stderr


def test_the_budget(own_stack, ns):
    """
    The proxy opens no more connections than --database-connections, however many requests come; metrics tell what the
    connections are for
    """
    own_stack.begin()
    proxy = own_stack.proxy(flags=["--workers=2", "--database-connections=9"])
    api, path = proxy.api(), path_of(POLR, ns)
    api.create(POLR, report("r"), ns)
    done, most = threading.Event(), [0]

    def ask():
        """Reads and writes until the test is done; returns how often. A wrong answer fails the test by the future."""
        client, times = proxy.api(), 0
        while not done.is_set():
            assert client.get(path).code == 200
            assert client.patch(path + "/r", {"metadata": {"labels": {"a": "b"}}}).code == 200
            times += 1
        return times

    def all_open():
        most[0] = max(most[0], len(backends(own_stack)))
        return most[0] >= 9
    with concurrent.futures.ThreadPoolExecutor(16) as clients:
        asked = [clients.submit(ask) for _ in range(16)]
        try:
            until(all_open, 60, "all of them to be in use")
            for _ in range(20):
                all_open()
            assert proxy.metric("kube_reports_database_connections_limit") == 9
            shown = {use: proxy.metric(f'kube_reports_database_connections_open{{use="{use}"}}')
                     for use in ("reads", "writes", "upkeep", "feed", "standby")}
        finally:
            done.set()
    assert min(one.result() for one in asked) > 0
    assert most[0] == 9 and shown == {"reads": 4, "writes": 2, "upkeep": 2, "feed": 1, "standby": 0}
