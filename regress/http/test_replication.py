"""Logical replication to another server: what is published, what a subscriber may be used for (docs/operations.md)."""

import json

from client import POLR, path_of, report, until
from conftest import Database
from runbook import block
from test_dump import CONTENT, DERIVED, settle_results

RESULTS = [{"source": "kyverno", "policy": "p", "rule": rule, "result": "pass", "message": rule}
           for rule in ("a", "b", "c")]


def caught_up(publisher, subscriber):
    """Waits until everything that is committed has been applied."""
    end = publisher.psql("SELECT pg_current_wal_lsn()", user="postgres")
    until(lambda: publisher.psql("SELECT count(*) FROM pg_stat_replication"
                                 f" WHERE application_name = 'reports' AND replay_lsn >= '{end}'",
                                 user="postgres") == "1"
          and subscriber.psql("SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'",
                              user="postgres") == "0",
          120, "the subscriber")


def test_subscriber(own_stack):
    """A publication of all tables: a copy to read, which takes over when the publisher goes"""
    own_stack.begin("wal_level = logical")
    publisher, subscriber = own_stack.database, Database()
    api = own_stack.proxy().api()
    try:
        api.create(POLR, report("before", results=RESULTS), "ns")
        publisher.psql(block("CREATE PUBLICATION"), user="postgres")
        # What is published goes on as before: updates, deletes, history that is taken back, counts that are folded.
        results = [{**RESULTS[0], "result": "fail"}, *RESULTS[1:]]
        assert api.patch(path_of(POLR, "ns", "before"), {"results": results}).code == 200

        subscriber.start("wal_level = logical")
        for role in ("kube_reports_owner", "kube_reports_reader"):
            subscriber.psql(f"CREATE ROLE {role} LOGIN", user="postgres", database="postgres")
        subscriber.psql("CREATE DATABASE kube_reports OWNER kube_reports_owner", user="postgres", database="postgres")
        as_owner, as_superuser = block("CREATE SUBSCRIPTION").splitlines()
        subscriber.psql("SET client_min_messages = warning; " + as_owner)
        subscriber.psql(as_superuser.replace("host=... dbname=reports",
                                             f"host={publisher.directory} user=postgres dbname=kube_reports"),
                        user="postgres")
        for name in ("after", "again", "gone"):
            api.create(POLR, report(name, results=RESULTS), "ns")
        for name in ("again", "gone"):
            assert api.delete(path_of(POLR, "ns", name)).code == 200
        api.create(POLR, report("again", results=results), "ns")
        assert api.patch(path_of(POLR, "ns", "after"), {"results": results[1:]}).code == 200
        settle_results(publisher)
        caught_up(publisher, subscriber)

        # Nobody writes any more, but the proxy's upkeep, which changes nothing of this.
        own_stack.end_proxies()
        settle_results(publisher)
        caught_up(publisher, subscriber)
        content, derived = publisher.psql(CONTENT), publisher.psql(DERIVED)
        assert "again" in content and '"gone"' not in content.splitlines()[0]
        assert subscriber.psql(CONTENT) == content
        assert subscriber.psql(DERIVED) == derived
        assert subscriber.psql("SELECT count(*) FROM kube_reports.verify()") == "0"
        assert subscriber.psql("SELECT restore_pending FROM kube_reports.status") == "f"

        # A reader of the copy: granted at the publisher, then here, where privileges are made.
        publisher.psql("SELECT kube_reports.grant_reader('kube_reports_reader')")
        caught_up(publisher, subscriber)
        subscriber.psql("SELECT kube_reports.grant_reader('kube_reports_reader')")
        query = "SELECT policy, rule, status FROM kube_reports.search_results() ORDER BY 1, 2, 3"
        found = publisher.psql(query, user="kube_reports_reader")
        assert len(found.splitlines()) == 8
        assert subscriber.psql(query, user="kube_reports_reader") == found

        # It takes over: ids and versions go on above everything that was replicated.
        newest = int(publisher.psql("SELECT last_value FROM kube_reports_internal.version_seq"))
        clusters = int(publisher.psql("SELECT max(id) FROM kube_reports.cluster"))
        as_superuser, as_owner = block("DROP SUBSCRIPTION").splitlines()
        subscriber.psql(as_superuser, user="postgres")
        assert int(subscriber.psql(as_owner)) > newest
        document = json.dumps(report("there", "ns", results=RESULTS))
        created = json.loads(subscriber.psql(
            f"SELECT kube_reports.create_report('{own_stack.cluster}', '{document}'::kube_reports.report)"))
        assert int(created["metadata"]["resourceVersion"]) > newest
        assert int(subscriber.psql("SELECT kube_reports.register_cluster(gen_random_uuid())")) > clusters
        settle_results(subscriber)
        assert subscriber.psql("SELECT count(*) FROM kube_reports.verify()") == "0"
    finally:
        subscriber.remove()
