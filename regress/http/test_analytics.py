"""
Every query of docs/analytics.md returns the rows that this file computes from the documents (issue 5, done when 1);
searches in pages find every result.
"""

import collections
import copy
import datetime
import json
import random
import re
import statistics

import pytest

from client import POLR, path_of, report, sql_text, until
from conftest import TOP, VARIANT, Database
from fleet import register_compliance

PROD, STAGING = "00000000-0000-4000-8000-00000000000a", "00000000-0000-4000-8000-00000000000b"
NAMES = {PROD: "prod", STAGING: "staging"}
FAILING = ("warn", "fail", "error")
STATUSES = ("pass", "warn", "fail", "error", "skip")
SEVERITIES = ("unknown", "info", "low", "medium", "high", "critical")
WEIGHTS = {"critical": 10, "high": 6, "medium": 3, "low": 1, "unknown": 1, "info": 0}
# (framework, control, source, policy, rule). Two rows have the same check; one policy checks two controls.
CONTROLS = [("NIST SP 800-53", "AC-2", "", "policy-1", ""), ("NIST SP 800-53", "AC-2", "kyverno", "policy-1", "rule-1"),
            ("NIST SP 800-53", "CM-6", "", "policy-1", "rule-2"),
            ("NIST SP 800-53", "CM-6", "kyverno", "policy-3", ""), ("NIST SP 800-53", "AC-2", "nobody", "policy-4", ""),
            ("CIS", "5.2", "", "cis", ""), ("CIS", "5.3", "", "policy-4", "rule-1")]

# (cluster, namespace, name, check that owns it, status, spec)
REMEDIATIONS = [(PROD, "team-a", "check", "check", {"applicationState": "Outdated"},
                 {"apply": True, "outdated": {"object": {"kind": "A"}}}),
                (PROD, "team-b", "check", "check", {"applicationState": "Applied"}, {"apply": True}),
                # The second remediation of "check"; a check of the name "check-1" exists as well.
                (PROD, "team-b", "check-1", "check", {"applicationState": "Pending"}, {"apply": True}),
                (STAGING, "team-b", "check-1", None, {}, {"apply": False})]

# The queries of the page, each with the number of its question.
QUERIES = [(int(number), sql) for number, text
           in re.findall(r"^### (\d+)\. (.*?)(?=^### |\Z)", (TOP / "docs" / "analytics.md").read_text(), re.M | re.S)
           for sql in re.findall(r"```sql\n(.*?);\n```", text, re.S)]
# The queries name objects of make up; the objects of this file replace them.
OWN_NAMES = {"'Deployment', 'shop', 'catalog'": "'Pod', 'team-a', 'pod-1'", "'local'": "'prod'", '"local"': '"prod"',
             "'sample-staging'": "'staging'", '"shop"': '"team-a"',
             '"payments"': '"team-b"', "'disallow-privilege-escalation'": "'policy-1'",
             "'autogen-privilege-escalation'": "'rule-1'",
             "'require-run-as-nonroot'": "'policy-2'", "CVE-2021-44228": "CVE-2024-0001"}
for name, own in OWN_NAMES.items():
    assert any(name in sql for _, sql in QUERIES), name
    QUERIES = [(number, sql.replace(name, own)) for number, sql in QUERIES]

# The ages of the steps: World.step() subtracts up to two hours for each report.
AGES = [datetime.timedelta(days=10), datetime.timedelta(days=3),
        *(datetime.timedelta(hours=hours) for hours in (20, 15, 10))]
AUDIT = datetime.timedelta(days=5)
DAY, WEEK = datetime.timedelta(days=1), datetime.timedelta(days=7)

# A change of a result: its time, the rows before and after it (None: no row), and since when the row before held.
Event = collections.namedtuple("Event", "at before after since")
Row = collections.namedtuple("Row", "cluster namespace report source policy rule category severity status native kind "
                             "subject message score properties exceptions")


def generated(choice):
    """Returns documents by (cluster, namespace, name)."""
    documents = {}
    for cluster in NAMES:
        for namespace in ("team-a", "team-b", ""):
            for number in range(6):
                metadata = {"name": f"checks-{number}", **({"namespace": namespace} if namespace else {})}
                results = [{"source": "kyverno", "policy": f"policy-{policy}", "rule": f"rule-{rule}",
                            "category": f"category-{policy % 2}",
                            "severity": choice.choice(SEVERITIES[1:]),
                            "result": choice.choice(STATUSES[:1] * 4 + STATUSES), "message": f"message {number}",
                            "timestamp": {"seconds": 1700000000 + number, "nanos": 0}} for policy in range(1, 5)
                           for rule in range(1, 3)]
                for result in results:
                    if result["result"] == "skip":
                        result["properties"] = {"exceptions": choice.choice(("exception-1", "exception-2",
                            "exception-1,exception-2"))}
                documents[cluster, namespace, metadata["name"]] = {
                    "apiVersion": "wgpolicyk8s.io/v1alpha2",
                    "kind": "PolicyReport" if namespace else "ClusterPolicyReport", "metadata": metadata,
                    "scope": {"apiVersion": "v1", "kind": "Pod" if namespace else "Node", "name": f"pod-{number}",
                              **({"namespace": namespace} if namespace else {})}, "results": results}
            if namespace:
                for number in range(4):
                    metadata = {"name": f"scan-{number}", "namespace": namespace}
                    documents[cluster, namespace, metadata["name"]] = {
                        "apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "metadata": metadata,
                        "scope": {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"app-{number}",
                                  "namespace": namespace},
                        "results": [{"source": "Trivy Vulnerability", "policy": f"CVE-2024-000{cve}",
                                     "category": "Vulnerability Scan", "result": "fail",
                                     "severity": choice.choice(SEVERITIES[2:]),
                                     "message": f"package-{cve} is affected", "properties": {
                                         "score": choice.choice(("0", "5.5", "7.9", "8.0", "9.8")),
                                         "resource": f"package-{cve}", "installedVersion": "1.0",
                                         **({"fixedVersion": "1.1"} if cve % 2 else {}),
                                         "artifact.repository": f"image-{number}", "artifact.tag": "v1"}}
                                    for cve in range(5) if choice.random() < 0.7]}
                for check, automated in (("check", True), ("check-1", True), ("check-2", False)):
                    documents[cluster, namespace, check] = {
                        "apiVersion": "compliance.openshift.io/v1alpha1", "kind": "ComplianceCheckResult", "id": check,
                        "severity": "high",
                        "status": "MANUAL" if namespace == "team-a" else "FAIL", "description": "a check",
                        "metadata": {
                            "name": check, "namespace": namespace,
                            "labels": {
                                "compliance.openshift.io/scan-name": "cis", "compliance.openshift.io/suite": "suite",
                                **({"compliance.openshift.io/automated-remediation": ""} if automated else {})},
                            # Without it, the time of the creation counts as the time of the evaluation.
                            "annotations": {"compliance.openshift.io/last-scanned-timestamp": "2023-11-14T22:13:20Z"}}}
    return documents


def rows_of(documents):
    """Returns the results of documents, without code of kube-reports."""
    rows = []
    for (cluster, namespace, name), document in documents.items():
        if document["kind"] == "ComplianceCheckResult":
            manual = document["status"] == "MANUAL"
            rows.append(Row(NAMES[cluster], namespace, name, "Compliance Operator", "cis", document["id"], "suite",
                            "high", "skip" if manual else "fail",
                            "MANUAL" if manual else "fail", "", "", "a check", None, {"id": document["id"]}, ()))
            continue
        for result in document["results"]:
            properties = result.get("properties", {})
            rows.append(Row(NAMES[cluster], namespace, name, result["source"], result["policy"], result.get("rule", ""),
                            result["category"],
                            result.get("severity", "unknown"), result["result"], result["result"],
                            document["scope"]["kind"], document["scope"]["name"],
                            result["message"], float(properties.get("score", 0)) or None, properties,
                            tuple(properties["exceptions"].split(",")) if "exceptions" in properties else ()))
    return rows


def identity(row):
    return row[:6]


class World:
    """A store, its documents, and the results of every step."""

    def __init__(self, database):
        self.database, self.choice, self.documents, self.steps = database, random.Random(19), {}, []
        self.offsets = random.Random(13)
        self.begun = datetime.datetime.fromisoformat(
                                                     database.psql(
            "SELECT to_json(date_trunc('second', clock_timestamp()))").strip('"'))
        self.events, self.since, self.first_seen = [], {}, {}

    def write(self, cluster, document):
        return f"SELECT kube_reports.create_report('{cluster}', {sql_text(document)}) IS NULL;"

    def step(self, wanted, days_ago):
        """Stores the wanted documents as if at the age of this step; counts by day have them days_ago days ago."""
        statements = []
        for key in {**self.documents, **wanted}:
            cluster, namespace, name = key
            before, after = self.documents.get(key), wanted.get(key)
            if before == after:
                continue
            group = (before or after)["apiVersion"].split("/")[0]
            plural = (before or after)["kind"].lower() + "s"
            if before is None:
                statements.append(self.write(cluster, after))
            elif after is None:
                statements.append(f"SELECT kube_reports.delete_report('{cluster}', '{plural}.{group}', '{namespace}', "
                                  f"'{name}');")
            else:
                patch = sql_text({"results": after["results"]})
                statements.append(f"SELECT kube_reports.patch_report('{cluster}', '{plural}.{group}', '{namespace}', "
                                  f"'{name}', {patch}) IS NULL;")
        written_from = self.database.psql("SELECT clock_timestamp()")
        with self.database.unfolded():
            self.database.psql("\n".join(statements))
        self.database.derive()
        moments = {key: self.begun - AGES[len(self.steps)] + datetime.timedelta(seconds=self.offsets.randrange(7200))
                   for key in {**self.documents, **wanted}}
        self.backdate(written_from, moments)
        self.documents = copy.deepcopy(wanted)
        if days_ago:
            self.database.psql(f"UPDATE kube_reports_internal.rollup_delta SET day = day - {days_ago}; SELECT "
                               "kube_reports_internal.fold_rollups(1000000)")
        self.steps.append((days_ago, rows_of(wanted)))
        self.remember({(NAMES[cluster], *rest): moment for (cluster, *rest), moment in moments.items()})

    def backdate(self, written_from, moments):
        """Gives the rows that were written since written_from the moment of their report."""
        values = ", ".join(f"('{cluster}'::uuid, '{namespace}', '{name}', '{moment}'::timestamptz)"
                           for (cluster, namespace, name), moment in moments.items())
        self.database.psql(f"""
            CREATE TEMP TABLE moment AS SELECT g.id AS origin, m.moment
                FROM (VALUES {values}) m(uid, namespace, name, moment)
                JOIN kube_reports.cluster c USING (uid) JOIN kube_reports_internal.origin g
                    ON (g.cluster_id, g.namespace, g.name) = (c.id, m.namespace, m.name);
            SELECT kube_reports.make_history(m.moment) FROM moment m;
            UPDATE kube_reports_internal.report_change h SET at = m.moment FROM moment m WHERE h.origin = m.origin
                AND h.at >= '{written_from}';
            UPDATE kube_reports_internal.origin g SET first_seen = m.moment FROM moment m
                WHERE g.id = m.origin AND g.first_seen >= '{written_from}';""" + "".join(f"""
            UPDATE kube_reports_internal.{table} r SET since = m.moment,
                first_seen = CASE WHEN r.first_seen >= '{written_from}' THEN m.moment ELSE r.first_seen END
                FROM moment m WHERE r.origin = m.origin AND r.since >= '{written_from}';"""
                for table in ("result", "result_since")))

    def remember(self, moments):
        """Records the changes of the last step."""
        old, new = ({identity(row): row for row in rows} for _, rows in ([(None, [])] + self.steps)[-2:])
        assert len(new) == len(self.steps[-1][1])
        for key in {**old, **new}:
            before, after, at = old.get(key), new.get(key), moments[key[:3]]
            if before is None:
                self.first_seen[key] = at
            if (before and before.status) != (after and after.status):
                self.events.append(Event(at, before, after, self.since.get(key)))
                self.since[key] = at

    def changes(self, first, last):
        """Returns the changes from the first time on and before the last."""
        return [event for event in self.events if first <= event.at < last]


@pytest.fixture(scope="module")
def world(module_stack):
    database = module_stack.database
    for uid, name in NAMES.items():
        database.psql(f"SELECT kube_reports.register_cluster('{uid}', '{name}')")
    register_compliance(database)
    # A disappearance settles at once.
    database.psql("SELECT kube_reports.set_setting('settle_window', '0')")
    database.psql("INSERT INTO kube_reports.framework_control (framework, control, source, policy, rule) VALUES "
                  + ", ".join(map(str, CONTROLS)))
    made = World(database)
    made.step(generated(made.choice), 10)
    made.audit = made.begun - AUDIT
    flapping = copy.deepcopy(made.documents)
    for number in range(4):
        # Two results alternate between pass and fail, and one of them fails at the end. In the first step other results
        # change as well, and two reports are deleted.
        if number == 0:
            for key in list(flapping):
                for result in flapping[key].get("results", []):
                    if result["source"] == "kyverno" and made.choice.random() < 0.2:
                        result["result"] = made.choice.choice(STATUSES[:4])
            del flapping[PROD, "team-a", "scan-1"], flapping[STAGING, "", "checks-2"]
            # For drift: a rule that passes in one cluster and fails in the other.
            for (cluster, _, _), document in flapping.items():
                for result in document.get("results", []):
                    if (result["policy"], result.get("rule")) == ("policy-4", "rule-2"):
                        result["result"] = "pass" if cluster == PROD else "fail"
        for place, turn in ((0, number), (2, number + 1)):
            flapping[PROD, "team-b", "checks-3"]["results"][place]["result"] = ("pass", "fail")[turn % 2]
        made.step(copy.deepcopy(flapping), 3 if number == 0 else 0)
    for cluster, namespace, name, owner, status, spec in REMEDIATIONS:
        references = [{"apiVersion": "v1", "kind": "Pod", "name": "check-2", "uid": "1"},
                      {"apiVersion": "compliance.openshift.io/v1alpha1", "kind": "ComplianceCheckResult",
                                                                                           "name": owner, "uid": "2"}]
        database.psql(made.write(cluster,
                                 {"apiVersion": "compliance.openshift.io/v1alpha1", "kind": "ComplianceRemediation",
                                  "spec": spec, "status": status,
                                           "metadata": {"name": name, "namespace": namespace,
                                                        **({"ownerReferences": references} if owner else {})}}))
    database.analyze()
    return made


# ---- answers, by question ----

def counted(rows, keys, columns):
    """Returns groups of rows by fields, with the number of rows for which each column is true."""
    groups = collections.defaultdict(list)
    for row in rows:
        groups[tuple(getattr(row, key) for key in keys)].append(row)
    return [(*key, *(sum(map(column, group)) for column in columns)) for key, group in groups.items()]


def having(field, *values):
    return lambda row: getattr(row, field) in values


def scores(rows):
    """Returns the counts and both scores of results."""
    numbers = [sum(row.status == status and row.native != "MANUAL" for row in rows) for status in STATUSES]
    weights = [sum(WEIGHTS[row.severity] for row in rows if row.status in wanted and row.native != "MANUAL")
               for wanted in (("pass",), STATUSES[:4])]
    total = sum(numbers[:4])
    return (*numbers, sum(row.native == "MANUAL" for row in rows), round(numbers[0] / total, 9) if total else None,
            round(weights[0] / weights[1], 9) if weights[1] else None)


def checking(rows, framework, control=None):
    """Returns the rows that check a control, or any control of a framework."""
    wanted = [(source, policy, rule) for of, at, source, policy, rule in CONTROLS if of == framework
              and control in (None, at)]
    return [row for row in rows if any(policy == row.policy and source in ("", row.source) and rule in ("", row.rule)
                                       for source, policy, rule in wanted)]


def control_scores(rows):
    answer = []
    for framework, control in {(of, at) for of, *controls in CONTROLS for at in (controls[0], None)}:
        for cluster in NAMES.values():
            found = having_all(checking(rows, framework, control), cluster=cluster)
            *numbers, excluded, score, weighted = scores(found)
            assert found
            answer.append((cluster, framework, control, *numbers, excluded, score, weighted))
    return answer


def daily(world, today):
    answer = []
    for back in range(30):
        known = [rows for days_ago, rows in world.steps if days_ago >= back]
        for cluster in NAMES.values():
            if known:
                answer.append((str(today - datetime.timedelta(back)), cluster,
                               *scores([row for row in known[-1] if row.cluster == cluster])))
    return answer


def failing_rows(rows):
    return [row for row in rows if row.status in FAILING]


def ranked(rows, key, number):
    groups = collections.defaultdict(list)
    for row in rows:
        if key(row):
            groups[key(row)].append(row)
    order = sorted(((-len(failing_rows(group)), -len(group), value) for value, group in groups.items()))
    return [(value, -failing, -total) for failing, total, value in order[:number]]


def fixed(world, now):
    """
    Returns (cluster, namespace, severity, number, mean time, median time, number of results that were deleted) of the
    failures that ended: a result passes, or its report is deleted.
    """
    groups = collections.defaultdict(list)
    for at, a, b, since in world.changes(now - datetime.timedelta(days=30), now):
        if a and a.status in FAILING and (b is None or b.status == "pass"):
            groups[a.cluster, a.namespace, a.severity].append((at - since).total_seconds() if b else None)
    answer = []
    for key, every in groups.items():
        times = [one for one in every if one is not None]
        answer.append((*key, len(times),
                       *(datetime.timedelta(seconds=round(what(times), 3)) if times else None
                         for what in (statistics.mean, statistics.median)),
                       len(every) - len(times)))
    assert any(row[-1] for row in answer), "nothing went with its report"
    return answer


def flaps(world, now):
    counts = collections.Counter(identity(event.before) for event in world.changes(now - DAY, now)
                                 if event.before and event.after)
    return [(key[1], key[2], key[4], key[5], number) for key, number in counts.items() if number >= 3]


def transitions(world, now, old, new):
    return [(a.namespace, a.report, a.policy, a.rule) for _, a, b, _ in world.changes(now - WEEK, now) if a and b
            and (a.status, b.status) == (old, new)]


def drift(rows):
    answer = []
    for policy, rule in {(row.policy, row.rule) for row in rows}:
        passes, fails = ([sum(row.status in wanted for row in rows
                              if (row.cluster, row.policy, row.rule) == (cluster, policy, rule))
                          for cluster in NAMES.values()] for wanted in (("pass",), FAILING))
        if any(passes[one] and not fails[one] and fails[1 - one] for one in (0, 1)):
            answer.append((policy, rule, *fails))
    return answer


def exceptions(world, rows):
    groups = collections.defaultdict(list)
    for row in rows:
        for exception in row.exceptions:
            groups[exception].append(row)
    return [(exception, sum(row.status == "skip" for row in group),
             len({(row.cluster, row.kind, row.namespace, row.subject) for row in group}),
             min(world.first_seen[identity(row)] for row in group), max(world.since[identity(row)] for row in group))
            for exception, group in groups.items()]


def vulnerable(rows):
    groups = collections.defaultdict(list)
    for row in rows:
        if (row.score or 0) >= 8.0:
            groups[row.cluster, row.namespace, row.report].append(row.score)
    return [(*key, len(found), round(max(found), 9)) for key, found in groups.items()]


def fresh(world):
    answer = []
    for uid, cluster in NAMES.items():
        mine = [document for (at, _, _), document in world.documents.items() if at == uid]
        newest = max(result["timestamp"]["seconds"] for document in mine for result in document.get("results", [])
                     if "timestamp" in result)
        answer.append((cluster, len(mine) + sum(remediation[0] == uid for remediation in REMEDIATIONS), newest))
    return answer


def answers(world, now):
    """Returns the expected rows of the queries, in the order of the page; None: test_question() computes them."""
    rows = world.steps[-1][1]
    by_status = [having("status", status) for status in STATUSES]
    described = [(row.policy, row.rule, row.status, row.message) for row in rows
                 if (row.cluster, row.kind, row.namespace, row.subject) == ("prod", "Pod", "team-a", "pod-1")]
    return [
        vulnerable(rows),
        [(row.cluster, row.namespace, row.report, row.policy, row.subject, round(row.score, 9)) for row in rows
         if (row.score or 0) >= 8],
        counted(failing_rows(rows), ("cluster", "namespace", "policy"),
                [having("status", status) for status in ("fail", "warn", "error")]),
        counted(rows, ("cluster", "namespace", "source"), by_status),
        counted(having_all(rows, status="fail"),
                ("cluster", "namespace", "source"), [having("severity", severity) for severity in SEVERITIES]),
        counted(rows, ("cluster", "source", "category"), [having("status", "pass"), having("status", "fail"),
            having("severity", "high"), lambda row: True]),
        described,
        None,
        ranked(having_all(rows, cluster="prod"), lambda row: row.policy, 3),
        ranked(rows, lambda row: row.properties.get("artifact.repository")
               and row.properties["artifact.repository"] + ":v1", 3),
        [(b.cluster, b.namespace, b.report, b.policy, b.rule, a and a.status, b.status)
         for _, a, b, _ in world.changes(now - DAY, now)
         if b and b.status in FAILING and not (a and a.status in FAILING)],
        transitions(world, now, "fail", "pass"),
        transitions(world, now, "pass", "fail"),
        daily(world, now.date()),
        [(*key, scores([row for row in rows if (row.cluster, row.source, row.category) == key])[6])
         for key in {(row.cluster, row.source, row.category) for row in rows}],
        control_scores(rows),
        fixed(world, now),
        [(row.namespace, row.report, row.policy, row.rule, row.status, row.severity, world.since[identity(row)])
         for row in failing_rows(rows)
         if world.since[identity(row)] > now - DAY],
        [(row.namespace, row.report, row.policy) for row in failing_rows(rows) if row.severity == "critical"
         and world.since[identity(row)] < now - WEEK],
        exceptions(world, rows),
        flaps(world, now),
        [row for row in counted(having_all(rows, policy="policy-1", rule="rule-1"),
                                ("cluster",), [having("status", "fail")]) if row[1]],
        drift(rows),
        [(cluster, "AC-2", *numbers) for cluster, *numbers
         in counted(checking(rows, "NIST SP 800-53", "AC-2"), ("cluster",),
                                                                      [having("status", "pass"), having("status",
                                                                          "fail")])],
        None,
        [(row.cluster, row.namespace, row.report, "high", "fail",
          *(tuple(one[2] if named else one[4].get("applicationState", "NotApplied") for one in REMEDIATIONS
                  if (NAMES[one[0]], one[1], one[3] or one[2]) == row[:3]) for named in (True, False)))
         for row in having_all(rows, source="Compliance Operator", status="fail") if row.report != "check-2"],
        [(NAMES[cluster], name, status.get("applicationState", "NotApplied"), spec["apply"], "outdated" in spec)
         for cluster, _, name, _, status, spec in REMEDIATIONS],
        [(row.cluster, row.namespace, row.kind, row.subject, "package-1", "1.0", "1.1", True)
         for row in having_all(rows, policy="CVE-2024-0001")],
        counted(world.steps[0][1], ("cluster", "namespace", "status"), [lambda row: True]),
        [(at, (b or a).cluster, (b or a).namespace, (b or a).policy, (b or a).rule, (b or a).kind, (b or a).subject,
          a and a.status, b and b.status,
          "kube_reports_owner") for at, a, b, _ in world.changes(world.audit, now)],
        counted(failing_rows(having_all(rows, policy="policy-2")), ("cluster", "namespace"),
                [having("status", "fail")]),
    ]


def having_all(rows, **fields):
    return [row for row in rows if all(getattr(row, field) == value for field, value in fields.items())]


def typed(value):
    """Returns a value of JSON with times and intervals as Python's, and numbers rounded."""
    if isinstance(value, list):
        return tuple(map(typed, value))
    if isinstance(value, float):
        return round(value, 9)
    if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\dT", value):
        return datetime.datetime.fromisoformat(value)
    if isinstance(value, str) and (
                                   parts := re.fullmatch(r"(?:(-?\d+) days? ?)?(?:(\d+):(\d\d):(\d\d(?:\.\d+)?))?",
                                                         value)) and value:
        days, hours, minutes, seconds = (float(part or 0) for part in parts.groups())
        return datetime.timedelta(days=days, seconds=round(hours * 3600 + minutes * 60 + seconds, 3))
    return value


def asked(world, sql, database=None):
    """Returns the rows that a reader gets, and the time of the transaction."""
    lines = (database or world.database).psql("BEGIN; SET LOCAL timezone = 'UTC'; SELECT to_json(now()); SELECT "
                                              f"to_json(q) FROM ({sql}) q; COMMIT",
                                              user="kube_reports_reader", audit=world.audit).splitlines()
    return [tuple(map(typed, json.loads(line).values())) for line in lines[1:]], typed(json.loads(lines[0]))


@pytest.mark.parametrize("place", range(len(QUERIES)),
                         ids=[f"question-{number}-{place}" for place, (number, _) in enumerate(QUERIES)])
def test_question(world, place):
    number, sql = QUERIES[place]
    found, now = asked(world, sql)
    expected = answers(world, now)[place]
    if number == 7:
        # Resources with equal counts may come in any order.
        groups = {(kind, namespace, subject): (passed, failing)
                  for kind, namespace, subject, passed, failing in counted(
            [row for row in world.steps[-1][1] if row.cluster == "prod" and row.namespace in ("team-a", "team-b")],
                      ("kind", "namespace", "subject"),
            [having("status", "pass"), having("status", *FAILING)])}
        assert [row[4] for row in found] == sorted((failing for _, failing in groups.values()), reverse=True)[:5]
        # A result without a resource has a subject without a name and without a namespace.
        assert all(groups[row[:3]] == row[3:] for row in found if row[2])
    elif number == 20:
        # The third cluster is the stack's own. It has no reports, and is not silent if a proxy has derived results.
        seen = [(cluster, reports, at and at.timestamp()) for cluster, silent, reports, at in found if silent]
        own = [] if VARIANT == "sql" else [("", 0, None)]
        assert collections.Counter(seen) == collections.Counter([*fresh(world), *own])
    else:
        assert collections.Counter(found) == collections.Counter(expected)
    assert found, "a question that nothing answers proves nothing"


def test_every_question_is_asked():
    """The page has 25 questions, and a query for each"""
    assert sorted({number for number, _ in QUERIES}) == list(range(1, 26))


def test_on_a_standby(world):
    """Every query of the page has the primary's answer on a hot standby"""
    standby = Database()
    try:
        standby.follow(world.database)
        position = world.database.psql("SELECT pg_current_wal_lsn()")
        until(lambda: standby.psql(f"SELECT pg_last_wal_replay_lsn() >= '{position}'") == "t", 30,
              "the standby to have replayed")
        assert [database.psql("SELECT pg_is_in_recovery()") for database in (world.database, standby)] == ["f", "t"]
        for _, sql in QUERIES:
            assert collections.Counter(asked(world, sql, standby)[0]) == collections.Counter(asked(world, sql)[0]), sql
        # The dashboard has the same values as well, except for made_at, and top_clusters, which has ages.
        told = [json.loads(database.psql("SELECT kube_reports.dashboard() - '{made_at,top_clusters}'::text[]",
                                         user="kube_reports_reader")) for database in (world.database, standby)]
        assert told[0] == told[1] and told[0]["failing_policies"]
        assert standby.psql("SELECT kube_reports.dashboard_html() LIKE '<!DOCTYPE html>%</html>%'",
                            user="kube_reports_reader") == "t"
    finally:
        standby.remove()


FILTERS = {
    "cluster": ({"cluster": "prod"}, lambda row: row.cluster == "prod"),
    "uid of cluster": ({"cluster": STAGING}, lambda row: row.cluster == "staging"),
    "namespace": ({"namespace": ["team-a", ""]}, lambda row: row.namespace in ("team-a", "")),
    "report": ({"report": "checks-1"}, lambda row: row.report == "checks-1"),
    "source": ({"source": "kyverno"}, lambda row: row.source == "kyverno"),
    "policy and rule": ({"policy": "policy-1", "rule": "rule-2"},
                        lambda row: (row.policy, row.rule) == ("policy-1", "rule-2")),
    "category": ({"category": "category-1"}, lambda row: row.category == "category-1"),
    "severity": ({"severity": ["high", "critical"]}, lambda row: row.severity in ("high", "critical")),
    "status": ({"status": ["fail", "error"]}, lambda row: row.status in ("fail", "error")),
    "native status": ({"native_status": "MANUAL"}, lambda row: row.native == "MANUAL"),
    "kind": ({"subject_kind": "Node"}, lambda row: row.kind == "Node"),
    "name": ({"subject_name": "pod-2", "subject_namespace": "team-b"},
             lambda row: (row.subject, row.namespace) == ("pod-2", "team-b")),
    "exception": ({"exception": "exception-1"}, lambda row: "exception-1" in row.exceptions),
    "exempted": ({"exempted": True}, lambda row: row.exceptions),
    "score": ({"score_from": 5.5, "score_to": 8.0}, lambda row: row.score and 5.5 <= row.score <= 8.0),
    "high score": ({"score_from": 8.0}, lambda row: (row.score or 0) >= 8.0),
    "properties": ({"properties": {"resource": "package-3"}},
                   lambda row: row.properties.get("resource") == "package-3"),
    "text of a message": ({"text": "PACKAGE-2 is"}, lambda row: row.message.startswith("package-2")),
    "text with wildcards": ({"text": "package_2"}, lambda row: False),
    "text of a policy": ({"text": "olicy-3"}, lambda row: row.policy == "policy-3"),
    "text in several places": ({"text": "-1"},
                               lambda row: any("-1" in text for text
                                               in (row.policy, row.rule, row.subject, row.message))),
    "text of a subject, in a namespace": ({"text": "app-", "namespace": "team-a"},
                                          lambda row: row.namespace == "team-a" and row.subject.startswith("app-")),
    "text and status": ({"text": "e", "status": "skip"}, lambda row: row.status == "skip"),
    "kind and status": ({"subject_kind": "Deployment", "status": "fail"},
                        lambda row: (row.kind, row.status) == ("Deployment", "fail")),
    "not exempted": ({"exempted": False, "source": "kyverno"},
                     lambda row: row.source == "kyverno" and not row.exceptions),
    "namespace of subjects": ({"subject_namespace": "team-b", "subject_kind": "Pod"},
                              lambda row: (row.namespace, row.kind) == ("team-b", "Pod")),
    "exception and properties": ({"exception": "exception-2", "properties": {"exceptions": "exception-2"}},
                                 lambda row: row.exceptions == ("exception-2",)),
    "what nothing has": ({"policy": "policy-1", "subject_kind": "Deployment"}, lambda row: False),
    "since, in a namespace": ({"namespace": "team-a", "since_from": "-infinity"},
                              lambda row: row.namespace == "team-a"),
    "since": ({"since_from": "-infinity", "since_to": "infinity"}, lambda row: True),
    "future": ({"first_seen_from": "infinity"}, lambda row: False),
    "nothing": ({}, lambda row: True),
}


@pytest.mark.parametrize("name", FILTERS)
def test_search(world, name):
    """Each filter finds the results of the documents, page by page, and counts them by resource"""
    filter_, matches = FILTERS[name]
    wanted = [row for row in world.steps[-1][1] if matches(row)]
    pages, place = [], "NULL"
    while True:
        page, _ = asked(world, "SELECT r.cluster_name, r.namespace, r.report, r.source, r.policy, r.rule, r.status, "
                        "r.native_status, r.score, r.place FROM"
                               f" kube_reports.search_results('{json.dumps(filter_)}', 30, {place}) r")
        pages += page
        if len(page) < 30:
            break
        place = "'" + page[-1][-1] + "'"
    assert collections.Counter(row[:-1] for row in pages) == collections.Counter(
        (row.cluster, row.namespace, row.report, row.source, row.policy, row.rule, row.status, row.native, row.score)
        for row in wanted)
    assert len({row[-1] for row in pages}) == len(pages)
    found, _ = asked(world, "SELECT sum(r.pass + r.warn + r.fail + r.error + r.skip) FROM "
                     f"kube_reports.search_resources('{json.dumps(filter_)}', 10000) r")
    assert (found[0][0] or 0) == len(wanted)


def test_search_of_many(own_stack):
    """Searches by properties or texts that more than 20,000 results have find all of them"""
    own_stack.begin()
    database = own_stack.database
    database.psql("""
        INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
            SELECT c.id, t.id, 'ns' || n % 3, 'r' || n, '{}',
                jsonb_build_object('results', (SELECT jsonb_agg(jsonb_build_object(
                    'policy', 'policy-' || p, 'result', CASE WHEN (n + p) % 7 = 0 THEN 'fail' ELSE 'pass' END,
                    'message', CASE WHEN p < 5 THEN 'rare' ELSE 'common' END,
                    'properties', CASE WHEN p < 5 THEN '{}' ELSE '{"team": "a"}' END::jsonb))
                    FROM generate_series(1, 20) p))::text::kube_reports.report
            FROM kube_reports.cluster c, kube_reports.resource_type t, generate_series(1, 1300) n
            WHERE t.plural = 'policyreports'""")
    database.derive()
    stored = [(f"ns{n % 3}", f"r{n}", f"policy-{p}", "fail" if (n + p) % 7 == 0 else "pass") for n in range(1, 1301)
              for p in range(1, 21)]

    def common(row):
        return int(row[2][7:]) >= 5

    assert sum(map(common, stored)) > 20000
    for filter_, matches in (({"properties": {"team": "a"}}, common),
                             ({"properties": {"team": "a"}, "policy": ["policy-2", "policy-7"], "status": "fail"},
                              lambda row: row[2:] == ("policy-7", "fail")),
                             ({"properties": {"team": "a"}, "text": "policy-1", "namespace": "ns1"},
                              lambda row: common(row) and row[2].startswith("policy-1") and row[0] == "ns1"),
                             ({"text": "COMMON"}, common),
                             ({"text": "common", "status": "fail", "namespace": ["ns0", "ns2"]},
                              lambda row: common(row) and row[0] != "ns1" and row[3] == "fail"),
                             ({"text": "rare"}, lambda row: not common(row))):
        found, place = [], "NULL"
        while place:
            page = [line.split("|") for line in database.psql(
                "SELECT r.namespace, r.report, r.policy, r.status, r.place FROM "
                f"kube_reports.search_results('{json.dumps(filter_)}', 6000, {place}) r").splitlines()]
            found += page
            place = len(page) == 6000 and "'" + page[-1][-1] + "'"
        assert collections.Counter(tuple(row[:-1])
                                   for row in found) == collections.Counter(filter(matches, stored)), filter_
        assert len({row[-1] for row in found}) == len(found)


EQUAL = {"policy": "p", "rule": "r", "source": "s", "category": "c"}


def told(database):
    """
    Returns the history of each report from its second version on: for each version a list with the old and the new
    status of each changed result.
    """
    reports = collections.defaultdict(lambda: collections.defaultdict(list))
    for line in database.psql("SELECT to_json(q) FROM (SELECT e.report, e.resource_version, e.old_status, e.new_status "
                              "FROM kube_reports.result_event e"
                              " ORDER BY e.resource_version) q", user="kube_reports_reader").splitlines():
        report, version, old, new = json.loads(line).values()
        reports[report][version].append((old, new))
    return {report: list(versions.values())[1:] for report, versions in reports.items()}


def test_equals(own_stack):
    """
    Several results of a report have the same policy, rule and subject: when one of them is removed, history has no
    other result that ceases to fail
    """
    own_stack.begin()
    database, choice, api = own_stack.database, random.Random(7), own_stack.proxy().api(keep=True)
    database.psql("SELECT kube_reports.set_setting('settle_window', '0')")

    def store(name, *states):
        """
        Writes a report with the results of each state, {message: status}, one state after the other. The results are
        in any order.
        """
        for number, state in enumerate(states):
            results = [{**EQUAL, "result": status, "message": message} for message, status in state.items()]
            choice.shuffle(results)
            if number:
                assert api.patch(path_of(POLR, "ns", name), {"results": results}).code == 200
            else:
                api.create(POLR, report(name, "ns", results=results), "ns")

    three = {"1": "error", "2": "fail", "3": "pass"}
    store("without-1", three, {"2": "fail", "3": "pass"})
    store("without-2", three, {"1": "error", "3": "pass"})
    store("without-3", three, {"1": "error", "2": "fail"})
    store("status", three, {**three, "3": "warn"}, {**three, "3": "skip"}, {**three, "2": "pass", "3": "skip"})
    store("one-and-two", {"2": "fail"}, {"1": "pass", "2": "fail"}, {"2": "fail"})
    store("alone", {"1": "fail"}, {"2": "pass"})
    series = {}
    for number in range(60):
        states = [{message: choice.choice(STATUSES) for message in "abc"}]
        for _ in range(12):
            state = dict(states[-1])
            # One change in each write, or three.
            for _ in range(3 if number % 3 == 2 else 1):
                if choice.random() < 0.7:
                    state[choice.choice("abcdef")] = choice.choice(STATUSES)
                else:
                    state.pop(choice.choice("abcdef"), None)
            if state != states[-1]:
                states.append(state)
        series[f"random-{number}"] = states
        store(f"random-{number}", *states)
    found = told(database)
    assert found["without-2"] == [[("fail", None)]] and found["without-3"] == [[("pass", None)]]
    # The first failing result has the key of a single result; after its removal the next failing result has this key.
    assert sorted(found["without-1"][0], key=str) == [("error", "fail"), ("fail", None)]
    assert found["status"] == [[("pass", "warn")], [("warn", "skip")], [("fail", "pass")]]
    assert found["one-and-two"] == [[(None, "pass")], [("pass", None)]]
    assert found["alone"] == [[("fail", "pass")]]

    # History has as many results that begin and cease to fail as the documents have. If several results change in one
    # write, history may have fewer.
    for number, (name, states) in enumerate(series.items()):
        changes = [(old.get(message), new.get(message)) for old, new in zip(states, states[1:]) for message in "abcdef"]
        events = [event for version in found[name] for event in version]
        for began in (True, False):
            seen, wanted = (sum((old in FAILING, new in FAILING) == (not began, began) for old, new in pairs)
                            for pairs in (events, changes))
            assert seen <= wanted and (seen == wanted or number % 3 == 2), (name, began, seen, wanted)
    assert database.psql("SELECT * FROM kube_reports.verify()") == ""
