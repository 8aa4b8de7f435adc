"""Logical replication to another server: what is published, what a subscriber may be used for (docs/operations.md)."""

import json
import re

from client import POLR, path_of, report, run, sql_text, until
from conftest import Database
from runbook import STATEMENTS, block
from test_dump import CONTENT, DERIVED, restore, settle_results

RESULTS = [{"source": "kyverno", "policy": "p", "rule": rule, "result": "pass", "message": rule}
           for rule in ("a", "b", "c")]


def caught_up(publisher, subscriber):
    """Waits until the subscriber has applied everything that is committed."""
    end = publisher.psql("SELECT pg_current_wal_lsn()", user="postgres")
    until(lambda: publisher.psql("SELECT count(*) FROM pg_stat_replication"
                                 f" WHERE application_name = 'reports' AND replay_lsn >= '{end}'",
                                 user="postgres") == "1"
          and subscriber.psql("SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'",
                              user="postgres") == "0",
          120, "the subscriber")


def subscribe(publisher, subscriber, prepare):
    """Starts the subscriber, and subscribes as the page says; prepare is the call of prepare_subscriber()."""
    subscriber.start("wal_level = logical")
    for role in ("kube_reports_owner", "kube_reports_reader"):
        subscriber.psql(f"CREATE ROLE {role} LOGIN", user="postgres", database="postgres")
    subscriber.psql("CREATE DATABASE kube_reports OWNER kube_reports_owner", user="postgres", database="postgres")
    as_owner, as_superuser = block("CREATE SUBSCRIPTION").splitlines()
    assert "prepare_subscriber()" in as_owner and "host=... dbname=reports" in as_superuser
    subscriber.psql("SET client_min_messages = warning; " + as_owner.replace("prepare_subscriber()", prepare))
    subscriber.psql(as_superuser.replace("host=... dbname=reports",
                                         f"host={publisher.directory} user=postgres dbname=kube_reports"),
                    user="postgres")


EVENTS = "SELECT report, policy, rule, old_status, new_status FROM kube_reports.export_events() ORDER BY id"


def check_uses(publisher, subscriber, content, directory):
    """Checks what the page says about exports and dumps of a subscriber."""
    exported = "SELECT r::text FROM kube_reports.export_results() r ORDER BY 1"
    found = publisher.psql(exported, user="kube_reports_reader")
    assert len(found.splitlines()) == 8
    assert subscriber.psql(exported, user="kube_reports_reader") == found
    # Events can be followed at the publisher only; the view shows them at both.
    assert len(publisher.psql(EVENTS, user="kube_reports_reader").splitlines()) > 10
    refused = subscriber.psql("\\set VERBOSITY verbose\n" + EVENTS, user="kube_reports_reader", check=False)
    assert "0A000" in refused.err and "cannot be followed on a subscriber" in refused.err
    seen = "SELECT count(*) FROM kube_reports.result_event"
    assert subscriber.psql(seen, user="kube_reports_reader") == publisher.psql(seen, user="kube_reports_reader")
    # The dump of a subscriber is that of its publisher.
    file = str(directory / "subscriber.dump")
    run(["pg_dump", "--format=custom", "--no-publications", "--no-subscriptions", f"--file={file}", "-d",
         subscriber.connection()])
    restore(subscriber, "restored", "custom", file)
    subscriber.psql("SELECT kube_reports.after_restore()", database="restored")
    settle_results(subscriber, "restored")
    assert subscriber.psql(CONTENT, database="restored") == content
    assert subscriber.psql("SELECT count(*) FROM kube_reports.verify()", database="restored") == "0"
    subscriber.psql("DROP DATABASE restored WITH (FORCE)", user="postgres", database="postgres")


def test_subscriber(own_stack, tmp_path):
    """A publication of all tables gives a copy to read, which takes over when the publisher goes"""
    own_stack.begin("wal_level = logical")
    publisher, subscriber = own_stack.database, Database()
    api = own_stack.proxy().api()
    try:
        api.create(POLR, report("before", results=RESULTS), "ns")
        publisher.psql(block("CREATE PUBLICATION"), user="postgres")
        # Published tables are written as before: updates, deletes, history that is taken back, counts that are folded.
        results = [{**RESULTS[0], "result": "fail"}, *RESULTS[1:]]
        assert api.patch(path_of(POLR, "ns", "before"), {"results": results}).code == 200

        subscribe(publisher, subscriber, "prepare_subscriber()")
        for name in ("after", "again", "gone"):
            api.create(POLR, report(name, results=RESULTS), "ns")
        for name in ("again", "gone"):
            assert api.delete(path_of(POLR, "ns", name)).code == 200
        api.create(POLR, report("again", results=results), "ns")
        assert api.patch(path_of(POLR, "ns", "after"), {"results": results[1:]}).code == 200
        settle_results(publisher)
        caught_up(publisher, subscriber)

        # End the proxies, whose upkeep still writes.
        own_stack.end_proxies()
        settle_results(publisher)
        caught_up(publisher, subscriber)
        content, derived = publisher.psql(CONTENT), publisher.psql(DERIVED)
        assert "again" in content and '"gone"' not in content.splitlines()[0]
        assert subscriber.psql(CONTENT) == content
        assert subscriber.psql(DERIVED) == derived
        assert subscriber.psql("SELECT count(*) FROM kube_reports.verify()") == "0"
        assert subscriber.psql("SELECT restore_pending FROM kube_reports.status") == "f"

        # Grant a reader of the copy at the publisher, and then at the subscriber, where this call grants the
        # privileges.
        publisher.psql("SELECT kube_reports.grant_reader('kube_reports_reader')")
        caught_up(publisher, subscriber)
        subscriber.psql("SELECT kube_reports.grant_reader('kube_reports_reader')")
        query = "SELECT policy, rule, status FROM kube_reports.search_results() ORDER BY 1, 2, 3"
        found = publisher.psql(query, user="kube_reports_reader")
        assert len(found.splitlines()) == 8
        assert subscriber.psql(query, user="kube_reports_reader") == found
        check_uses(publisher, subscriber, content, tmp_path)

        # The subscriber takes over: ids and versions go on above all that were replicated.
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
        assert len(subscriber.psql(EVENTS, user="kube_reports_reader").splitlines()) > 10
    finally:
        subscriber.remove()


def test_subscriber_of_a_publisher_that_has_dropped_months(own_stack):
    """As the page says, the subscriber begins with the publisher's oldest month: then verify() finds nothing missing"""
    own_stack.begin("wal_level = logical")
    publisher, subscriber = own_stack.database, Database()
    api = own_stack.proxy().api()
    try:
        # Results that still exist when their events are dropped.
        document = sql_text(report("old", "ns", results=RESULTS))
        publisher.psql(f"SELECT kube_reports.import_report('{own_stack.cluster}', {document}::kube_reports.report,"
                       " now() - interval '100 days')")
        until(lambda: api.names(POLR, "ns") == ["old"], 60, "the import")
        api.create(POLR, report("new", results=RESULTS), "ns")
        own_stack.end_proxies()
        settle_results(publisher)
        (look,) = (sql for sql in STATEMENTS if sql.startswith("SELECT min(relname)"))
        imported = publisher.psql(look)
        publisher.psql("SELECT kube_reports.set_setting('history_retention', '1 month')")
        publisher.psql("CALL kube_reports.expire()")
        oldest = publisher.psql(look)
        year, month = re.fullmatch(r"report_change_(\d{4})_(\d\d)", oldest).groups()
        assert oldest > imported and publisher.psql("SELECT count(*) FROM kube_reports.verify()") == "0"

        publisher.psql(block("CREATE PUBLICATION"), user="postgres")
        subscribe(publisher, subscriber, f"prepare_subscriber('{year}-{month}-01 00:00:00+00')")
        caught_up(publisher, subscriber)
        assert subscriber.psql(look) == oldest
        assert subscriber.psql(CONTENT) == publisher.psql(CONTENT) != ""
        assert subscriber.psql("SELECT count(*) FROM kube_reports.verify()") == "0"
        # With an earlier, empty month, verify() reports what the page says.
        subscriber.psql("SELECT kube_reports.make_history(now() - interval '100 days')")
        assert subscriber.psql("SELECT DISTINCT what FROM kube_reports.verify()") == "report_change"
    finally:
        subscriber.remove()
