"""
Clients replace all reports of a store ten times: the store has rows of the present reports, and of the past that is
kept (docs/operations.md, "What grows").
"""

from client import POLR, path_of, report, until

REPORTS = 20
# Tables in which each generation has rows of its own, which go with it at once.
DERIVED = ("result", "detail", "rollup", "rollup_policy", "rollup_daily", "score_daily", "result_since", "rollup_delta",
           "result_pending", "result_rebuild", "aggregation_queue")
# Tables whose rows stay as long as history names them.
NAMED_BY_HISTORY = ("origin", "subject", "criterion")
MAINTAIN = "DO $$ BEGIN FOR step IN 1..20 LOOP PERFORM kube_reports.maintain(); COMMIT; END LOOP; END $$"


def generation(number):
    """Returns reports that share no name, resource, rule or message with those of another generation."""
    return [report(f"g{number}-r{one}", results=[
        {"source": "kyverno", "policy": f"p{rule}", "rule": f"g{number}-{rule}", "severity": "high",
         "result": "fail" if (one + rule) % 3 else "pass", "message": f"generation {number}, {one}, {rule}",
         "resources": [{"kind": "Pod", "namespace": f"ns-{number}", "name": f"g{number}-{one}"}]}
        for rule in range(5)]) for one in range(REPORTS)]


def test_ten_turnovers(own_stack):
    """No table has more rows than after the first generation, except history and what it names; names go with it"""
    database = own_stack.begin().database
    api = own_stack.proxy().api()

    def count(tables):
        found = database.psql("SELECT " + ", ".join(f"(SELECT count(*) FROM kube_reports_internal.{table})"
                                                    for table in tables))
        return dict(zip(tables, map(int, found.split("|"))))

    def settled(condition, names=()):
        # Upkeep of a proxy does this once a minute, for one table at a time; it may run now, too.
        database.psql("UPDATE kube_reports_internal.garbage_sweep SET due_at = '-infinity'; " + MAINTAIN)
        found = count(DERIVED + names)
        return found if found["result"] == REPORTS * 5 and found["rollup_delta"] == 0 and condition(found) else None

    def turn(number):
        for document in generation(number):
            assert api.post(path_of(POLR, f"ns-{number}"), document).code == 201
        if number > 0:
            assert api.delete(path_of(POLR, f"ns-{number - 1}")).code == 200

    turn(0)
    first = until(lambda: settled(lambda found: found["detail"] > 0 and found["score_daily"] > 0), 60, "the counts")
    for number in range(1, 11):
        turn(number)
    last = until(lambda: settled(lambda found: all(found[table] <= first[table] for table in DERIVED)), 120,
                 "the removal of what ten generations have left")
    assert last == first
    assert database.psql("SELECT * FROM kube_reports.verify()") == ""

    # Subjects and criteria go with the months of history that may name them.
    assert count(NAMED_BY_HISTORY)["criterion"] == 11 * 5
    until(lambda: settled(lambda found: database.psql("SELECT count(*) FROM kube_reports_internal.subject "
                                                      "WHERE unused_since IS NOT NULL") == str(10 * REPORTS)), 60,
          "notes of subjects that have no results")
    database.psql("DELETE FROM kube_reports_internal.report_change c USING kube_reports_internal.origin g "
                  "WHERE g.id = c.origin AND g.namespace <> 'ns-10'; "
                  "UPDATE kube_reports_internal.subject SET unused_since = unused_since - interval '4 months'; "
                  "UPDATE kube_reports_internal.criterion SET last_counted = last_counted - interval '3 months'")
    until(lambda: settled(lambda found: (found["origin"], found["subject"], found["criterion"])
                          == (REPORTS, REPORTS, 5), NAMED_BY_HISTORY), 60, "the removal of names")
    assert database.psql("SELECT * FROM kube_reports.verify()") == ""
