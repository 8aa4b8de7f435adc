"""pg_upgrade: everything is there, nothing has to be finished, versions go on above the old server's."""

import json
import os
import uuid

from client import report, run
from conftest import Database, stack_command
from test_dump import CONTENT, DERIVED, REFERENCES, newest, settle_results


def test_pg_upgrade():
    """LC-02: the system identifier is another one, which the first write notices"""
    old, new, cluster = Database(), Database(), str(uuid.uuid4())
    bindir = run([os.environ.get("PG_CONFIG") or "pg_config", "--bindir"]).out.strip()

    def create(server, name):
        document = json.dumps(report(name, "ns"))
        stored = server.psql(f"SELECT kube_reports.create_report('{cluster}', '{document}'::kube_reports.report)")
        return int(json.loads(stored)["metadata"]["resourceVersion"])
    try:
        old.start()
        old.prepare(cluster)
        create(old, "before")
        settle_results(old)
        content, derived, references, last = old.psql(CONTENT), old.psql(DERIVED), old.psql(REFERENCES), newest(old)
        old.stop()
        new.start()
        new.stop()
        stack_command("as_server", "env", "-C", new.directory, f"{bindir}/pg_upgrade", "-b", bindir, "-B", bindir,
                      "-U", "postgres", "-d", f"{old.directory}/data", "-D", f"{new.directory}/data", "-s", new.directory)
        new.start()
        assert new.psql(CONTENT) == content and new.psql(DERIVED) == derived and new.psql(REFERENCES) == references
        # The extension belongs to the superuser now; the owner of the tables sees and does what it did.
        assert new.psql("SELECT count(*) FROM kube_reports.search_results()") == "1"
        assert new.psql("SELECT restore_pending, results_pending FROM kube_reports.status") == "f|f"
        assert create(new, "after") > last
        # Watchers of the old server resume: what lies between its last version and the new one is the gap.
        assert new.psql(f"SELECT bool_and(l.lost @> {last + 1}::bigint AND NOT l.lost @> {last}::bigint)"
                        " FROM kube_reports_internal.lane l JOIN kube_reports.resource_type t ON t.id = l.resource_type"
                        " WHERE t.plural = 'policyreports'") == "t"
        assert new.psql("SELECT count(*) FROM kube_reports.verify()") == "0"
    finally:
        old.remove()
        new.remove()
