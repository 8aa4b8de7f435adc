"""Two clusters in one database: a client of one cluster sees no objects of the other."""

import uuid

from client import CPOLR, POLR, failure, path_of, report, until


def test_objects_and_lists(stack, ns):
    ours, theirs = stack.first.api(), stack.other.api()
    stored = ours.create(POLR, report("r", labels={"test": ns}), ns)
    assert theirs.get(path_of(POLR, ns, "r")).code == 404
    assert theirs.names(POLR, ns) == [] and theirs.names(POLR, labelSelector=f"test={ns}") == []
    other = theirs.create(POLR, report("r", labels={"test": ns}, results=[]), ns)
    assert other["metadata"]["uid"] != stored["metadata"]["uid"]
    assert ours.get(path_of(POLR, ns, "r")).json == stored
    failure(theirs.put(path_of(POLR, ns, "r"), stored), 409, "Conflict")
    assert theirs.delete(path_of(POLR, ns, "r")).code == 200
    assert ours.get(path_of(POLR, ns, "r")).json == stored
    assert theirs.delete(path_of(POLR, ns)).code == 200
    assert ours.names(POLR, ns) == ["r"]


def test_cluster_scope(stack, ns):
    stack.first.api().create(CPOLR, report(ns, resource=CPOLR))
    assert ns not in stack.other.api().names(CPOLR)
    assert stack.first.api().delete(path_of(CPOLR, name=ns)).code == 200


def test_watches_and_versions(stack, ns):
    """A write in one cluster is no event in the other, and does not change a version there"""
    ours, theirs = stack.first.api(), stack.other.api()
    before = theirs.get(path_of(POLR, ns)).json["metadata"]["resourceVersion"]
    with theirs.watch(path_of(POLR, ns), resourceVersion=before) as watch:
        ours.create(POLR, report("ours"), ns)
        assert theirs.get(path_of(POLR, ns)).json["metadata"]["resourceVersion"] == before
        theirs.create(POLR, report("theirs"), ns)
        watch.expect(("ADDED", "theirs"))


def test_continue_tokens(stack, ns):
    """A continue token gives no objects at another cluster"""
    ours, theirs = stack.first.api(), stack.other.api()
    for number in range(4):
        ours.create(POLR, report(f"r{number}"), ns)
    token = ours.get(path_of(POLR, ns), limit=2).json["metadata"]["continue"]
    answer = theirs.get(path_of(POLR, ns), limit=2, **{"continue": token})
    assert answer.code in (400, 410, 504) or answer.json["items"] == []


def test_a_role_serves_its_cluster_only(stack):
    """The database refuses a proxy that claims another cluster"""
    for user, cluster in (("kube_reports_proxy", stack.other_cluster), ("kube_reports_proxy_b", stack.cluster)):
        done = stack.database.psql(f"SELECT kube_reports_internal.api_hello('{cluster}', 'x')", user=user, check=False)
        assert done.code != 0 and "may not serve" in done.err
        request = '{"verb": "list", "group": "wgpolicyk8s.io", "version": "v1alpha2", "resource": "policyreports"}'
        done = stack.database.psql(f"SELECT code FROM kube_reports_internal.api_list('{cluster}', '{request}', NULL)",
                                   user=user, check=False)
        assert done.code != 0 or "200" not in done.out.split(), done
    done = stack.database.psql("SELECT 1 FROM kube_reports.object", user="kube_reports_proxy", check=False)
    assert done.code != 0 and "permission denied" in done.err


def test_a_proxy_of_an_unknown_cluster_is_not_ready(stack):
    proxy = stack.proxy(cluster=str(uuid.uuid4()), ready=False)
    try:
        until(lambda: proxy.answers("/livez") is not None, 20, "an answer")
        assert proxy.api().get("/readyz").code == 500
        failure(proxy.api().get("/apis"), 503, "ServiceUnavailable")
    finally:
        proxy.stop()


def test_unregister_a_cluster(own_stack):
    """
    A cluster with a connected proxy is unregistered only with force; its proxy then cannot write, and another cluster
    goes on
    """
    own_stack.begin()
    database, other = own_stack.database, str(uuid.uuid4())
    database.psql("CREATE ROLE other_proxy LOGIN", user="postgres")
    database.psql(f"SELECT kube_reports.grant_proxy('other_proxy', '{other}')")
    leaving, staying = own_stack.proxy(), own_stack.proxy(cluster=other, user="other_proxy")
    for proxy in (leaving, staying):
        for number in range(20):
            proxy.api().create(POLR, report(f"r{number}"), "ns")
    call = f"CALL kube_reports.unregister_cluster('{own_stack.cluster}')"
    refused = database.psql(f"\\set VERBOSITY verbose\n{call}", check=False)
    assert refused.code != 0 and "55006" in refused.err, refused.err
    assert "connections of role kube_reports_proxy are open" in refused.err
    assert leaving.api().create(POLR, report("later"), "ns")

    database.psql(call.replace(")", ", force => true)"))
    assert leaving.api().post(path_of(POLR, "ns"), report("late")).code in (404, 500, 503)
    assert database.psql(f"SELECT count(*) FROM kube_reports.cluster WHERE uid = '{own_stack.cluster}'") == "0"
    leaving.stop()
    assert staying.api().create(POLR, report("goes-on"), "ns")
    assert len(staying.api().names(POLR, "ns")) == 21
    staying.stop()
    connected = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'other_proxy'"
    until(lambda: database.psql(connected) == "0", what="the end of its connections")
    database.psql(f"CALL kube_reports.unregister_cluster('{other}')")
    inside = ("change", "lane", "proxy_role", "origin", "subject", "result", "report_change", "rollup", "rollup_daily",
              "rollup_policy", "rollup_delta", "score_daily")
    for table in ("kube_reports.object", "kube_reports.cluster", *(f"kube_reports_internal.{name}" for name in inside)):
        assert database.psql(f"SELECT count(*) FROM {table}") == "0", table
