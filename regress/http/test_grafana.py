"""
The Grafana dashboards of the chart: their structure, and each of their queries as Grafana sends it.  Each query runs
as a role that reads everything, and as a role that reads little.
"""

import datetime
import itertools
import json
import re

import pytest

import fleet
from client import report
from conftest import TOP, Database, Stack

FILES = sorted((TOP / "helm" / "kube-reports" / "dashboards").glob("*.json"))
BOARDS = {file.stem: json.loads(file.read_text()) for file in FILES}
SOURCE = {"type": "grafana-postgresql-datasource", "uid": "${datasource}"}
READERS = ("kube_reports_reader", "analyst")
# Variables that are numbers, not texts, and their values in these tests.
NUMBERS = {"score": "4.0"}
# Values that somebody could type into the address of a dashboard.
HOSTILE = ("x') OR true --", "'", "''", "\\", "\\' OR true --", "'; DELETE FROM kube_reports.object; --", "${cluster}",
           "$1", "%", "a\"b", "x'::text) OR ('1' = '1", "\n--", "é\u202e")

every_board = pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)


# ---- what Grafana does with a query ----

def interpolated(sql, values):
    """Replaces variables as Grafana's format sqlstring does: quotes are doubled, commas separate several values."""
    def text(found):
        value = values[found[1]]
        return ",".join("'" + one.replace("'", "''") + "'" for one in (value if isinstance(value, list) else [value]))
    return re.sub(r"\$\{(\w+):sqlstring\}", text, sql)


def expanded(sql, begin, end):
    """Replaces the macros of Grafana's PostgreSQL data source."""
    sql = sql.replace("$__timeFrom()", f"'{begin}'").replace("$__timeTo()", f"'{end}'")
    sql = re.sub(r"\$__timeFilter\((\w+)\)", rf"\1 BETWEEN '{begin}' AND '{end}'", sql)
    return re.sub(r"\$__timeGroupAlias\((\w+), '1d'\)", r'floor(extract(epoch from \1)/86400)*86400 AS "time"', sql)


def queries(board):
    return [(panel, target) for panel in board["panels"] for target in panel["targets"]]


class Reader:
    """A role that sends the queries of dashboards."""

    def __init__(self, database, role):
        self.database, self.role = database, role
        now = datetime.datetime.now(datetime.timezone.utc)
        self.period = [at.strftime("%Y-%m-%dT%H:%M:%SZ")
                       for at in (now - datetime.timedelta(30), now + datetime.timedelta(minutes=1))]

    def ask(self, *statements):
        """Returns the rows of each statement."""
        lines = self.database.psql("BEGIN READ ONLY;\n"
                                   + "".join(f"SELECT coalesce(jsonb_agg(q), '[]') FROM ({sql}\n) q;\n"
                                             for sql in statements) + "COMMIT;",
                                   user=self.role).splitlines()
        assert len(lines) == len(statements)
        return [json.loads(line) for line in lines]

    def values(self, board, **chosen):
        """
        Returns the values of each variable: the chosen ones, or all of its options.  The query of a variable uses the
        values of the variables before it.
        """
        values = {}
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                rows = self.ask(interpolated(variable["query"], values))[0]
                values[variable["name"]] = [row.get("__value", next(iter(row.values()))) for row in rows]
                assert rows, variable["name"]
                values[variable["name"]] = chosen.get(variable["name"], values[variable["name"]])
            elif variable["type"] != "datasource":
                values[variable["name"]] = NUMBERS.get(variable["name"], "")
        return values

    def answers(self, board, values):
        return self.ask(*(expanded(interpolated(target["rawSql"], values), *self.period)
                          for _, target in queries(board)))


@pytest.fixture(scope="module")
def readers(fleet_store):
    """Readers by role: one reads everything, one reads a cluster and one namespace of another cluster."""
    database = fleet_store[0]
    clusters = {name: uid for uid, name in fleet.CLUSTERS.items()}
    database.psql("CREATE ROLE analyst LOGIN", user="postgres")
    database.psql(f"SELECT kube_reports.grant_cluster('analyst', '{clusters['prod-eu']}'), "
                  f"kube_reports.grant_namespace('analyst', '{clusters['staging']}', 'shop')")
    database.analyze()
    return {role: Reader(database, role) for role in READERS}


# ---- structure ----

def test_there_are_four():
    assert list(BOARDS) == ["compliance", "fleet", "namespaces-and-policies", "vulnerabilities"]
    for key in ("uid", "title"):
        assert len({board[key] for board in BOARDS.values()}) == 4
    # Grafana's limit.
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", board["uid"]) for board in BOARDS.values())


@every_board
def test_structure(board):
    """
    A dashboard is like an export of Grafana: no id of a server, panels that do not overlap, a data source to choose,
    units
    """
    assert board["schemaVersion"] >= 39 and "id" not in board and board["panels"]
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    taken = set()
    for panel in board["panels"]:
        assert panel["type"] in ("stat", "timeseries", "table", "bargauge", "piechart") and panel["title"]
        place = panel["gridPos"]
        assert place["w"] > 0 and place["h"] > 2 and 0 <= place["x"] and place["x"] + place["w"] <= 24
        cells = set(itertools.product(range(place["x"], place["x"] + place["w"]),
                                      range(place["y"], place["y"] + place["h"])))
        assert not cells & taken, panel["title"]
        taken |= cells
        assert panel["datasource"] == SOURCE and panel["fieldConfig"]["defaults"]["unit"]
        assert panel["fieldConfig"]["defaults"]["thresholds"]["steps"][0]["value"] is None
        for target in panel["targets"]:
            assert target["datasource"] == SOURCE and target["rawQuery"] is True and target["editorMode"] == "code"
            assert target["format"] == ("time_series" if panel["type"] == "timeseries" else "table")
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


@every_board
def test_titles_in_plain_words(board):
    """Titles are words, not names of SQL; a result that passes now is "fixed", it did not "come to pass\""""
    for panel in board["panels"]:
        assert re.fullmatch(r"[A-Z][a-z]+( [a-z]+)*", panel["title"]), panel["title"]
        told = " ".join((panel["title"], panel["description"], json.dumps(panel["fieldConfig"]["overrides"])))
        assert not re.search(r"[Cc](a|o)me to pass", told), panel["title"]
    if board["title"].endswith("namespaces and policies"):
        fixed = next(panel for panel in board["panels"] if panel["title"] == "Fixed")
        assert "changed to pass" in fixed["description"]


@every_board
def test_variables(board):
    """Each variable is defined before its first use, is used, and is quoted in each query"""
    variables = board["templating"]["list"]
    assert (variables[0]["name"], variables[0]["type"], variables[0]["query"]) == ("datasource",
        "datasource", SOURCE["type"])
    known, used = {"datasource"}, {"datasource"}
    for variable in variables[1:]:
        if variable["type"] == "query":
            assert variable["datasource"] == SOURCE and variable["query"] == variable["definition"]
            used |= (uses := set(re.findall(r"\$\{(\w+)", variable["query"])))
            assert uses <= known, variable["name"]
        known.add(variable["name"])
    assert len(known) == len(variables)
    for panel, target in queries(board):
        sql = target["rawSql"]
        names = re.findall(r"\$\{(\w+):sqlstring\}", sql)
        used |= set(names)
        assert set(names) <= known, panel["title"]
        # No other form of a variable, and no macro that this test does not expand.
        assert not re.search(r"\$\{(?!\w+:sqlstring\})|\[\[|\$(?!__|\{)\w", sql.replace("GHSA)-'", "")), panel["title"]
        assert "$__" not in expanded(sql, "", ""), panel["title"]
        assert not re.search(r"kube_reports\.(?!" + "|".join(sorted(READABLE)) + r")\w+\b", sql), panel["title"]
    assert used == known


# Objects that docs/analytics.md and docs/api.md offer to readers; the tests below run the queries as readers.
READABLE = {"compliance_score", "framework_score", "fleet_freshness", "fleet_matrix", "score_change", "status_counts",
            "new_failures", "transitions", "result_event",
            "failing_by_policy_namespace", "open_failures", "exceptions", "result_count", "reports_with_score", "top",
            "search_results", "control_counts", "fix_time",
            "remediations", "category_tree", "fleet_score", "worst_vulnerabilities", "typed_result",
            "excluded_from_score"}


# ---- queries ----

@pytest.mark.parametrize("role", READERS)
@every_board
def test_panels_answer(readers, board, role):
    """Each panel gets rows with a value, in the format and with the columns that it needs"""
    reader = readers[role]
    for (panel, target), rows in zip(queries(board), reader.answers(board, reader.values(board))):
        title = panel["title"]
        assert rows and any(value not in (None, 0) for row in rows for value in row.values()), title
        columns = set().union(*rows)
        if target["format"] == "time_series":
            assert columns == {"time", "metric", "value"}, title
            times = [row["time"] for row in rows]
            assert times == sorted(times) and len({(row["time"], row["metric"]) for row in rows}) == len(rows), title
            assert all(isinstance(row["value"], (int, float)) and isinstance(row["metric"], str) for row in rows
                       if row["value"] is not None), title
            columns |= {row["metric"] for row in rows}
        elif panel["type"] == "stat":
            assert len(rows) == 1 and len(columns) == 1, title
        if panel["type"] == "piechart":
            columns |= {row["metric"] for row in rows} | {"critical", "high", "medium", "low", "info", "unknown"}
        if target["format"] == "time_series" and "severity" in title:
            columns |= {"critical", "high", "medium", "low", "info", "unknown"}
        for override in panel["fieldConfig"]["overrides"]:
            assert override["matcher"]["options"] in columns, title
        for transformation in panel.get("transformations", []):
            assert {transformation["options"][key]
                    for key in ("columnField", "rowField", "valueField")} <= columns, title
        if role == "analyst":
            assert "prod-us" not in json.dumps(rows), title


def only(rows):
    """Returns the value of a panel that shows one value."""
    (value,) = rows[0].values()
    return value


def rounded(value):
    return value if value is None else round(value, 6)


def by_day(rows):
    return {(row["time"][:10], row["metric"]): rounded(row["value"]) for row in rows}


def added(rows, key, value):
    sums = {}
    for row in rows:
        sums[row[key]] = sums.get(row[key], 0) + row[value]
    return sums


def of_cluster(name):
    """Returns the filter for a namespace that panels write as cluster/namespace."""
    cluster, namespace = name.split("/", 1)
    return {"cluster": cluster, "namespace": "" if namespace == "(cluster scope)" else namespace}


# Numbers that a panel and the page both show.  For (board, panel): a function that returns the numbers from the rows
# of the panel and those from the page; page(filter) returns the data of the page.
PAGE = {
    ("compliance", "Weighted score"): lambda rows, page: (rounded(only(rows)), page()["trend"][-1]["weighted_score"]),
    ("compliance", "Checks without a verdict"): lambda rows, page: (only(rows), page()["trend"][-1]["excluded"]),
    ("compliance", "Failing checks"): lambda rows, page: (len(rows), min(200, sum(map(sum, page()["ages"])))),
    ("fleet", "Score"): lambda rows, page: (rounded(only(rows)), page()["trend"][-1]["score"]),
    ("fleet", "Failing results"): lambda rows, page: (only(rows), page()["trend"][-1]["failing"]),
    ("fleet", "Clusters"): lambda rows, page: (only(rows), page()["clusters"]),
    ("fleet", "Score by cluster"): lambda rows, page: (by_day(rows), {
        (day["day"], cluster["cluster_name"]): score for cluster in page()["top_clusters"]
        for day, score in zip(page()["trend"], cluster["scores"]) if score is not None}),
    ("fleet", "Failing results by cluster"): lambda rows, page: (
        {row["metric"]: row["value"] for row in rows if row["time"] == rows[-1]["time"]},
        {row["cluster_name"]: row["failing"] for row in page()["top_clusters"]}),
    ("fleet", "Failing results by policy and cluster"): lambda rows, page: (
        {policy: failing for policy, failing
         in added([row for row in rows if row["failing"]], "policy", "failing").items()
         if policy in {row["policy"] for row in page()["top_policies"]}},
        added(page()["top_policies"], "policy", "failing")),
    ("fleet", "Freshness"): lambda rows, page: (
        {row["cluster"]: row["evaluated_at"] for row in rows if row["reports"]},
                                                {row["cluster_name"]: row["evaluated_at"]
                                                 for row in page()["top_clusters"]}),
    ("namespaces-and-policies", "Score"): lambda rows, page: (rounded(only(rows)), page()["trend"][-1]["score"]),
    ("namespaces-and-policies", "Failing results"): lambda rows, page: (only(rows), page()["trend"][-1]["failing"]),
    ("namespaces-and-policies", "Score by namespace"): lambda rows, page: (
        {key: value for key, value in by_day(rows).items() if value is not None},
        {(day["day"], name): day["score"] for name in {row["metric"] for row in rows}
         for day in page(**of_cluster(name))["trend"] if day["score"] is not None}),
    ("namespaces-and-policies", "Failing policies"): lambda rows, page: (
        [row["failing"] for row in rows[:10]],
        sorted(added(page()["top_policies"], "policy", "failing").values(), reverse=True)),
    ("namespaces-and-policies", "Failing namespaces"): lambda rows, page: (
        [row["failing"] for row in rows],
        [page(**of_cluster(row["namespace"]))["trend"][-1]["failing"] for row in rows]),
    ("namespaces-and-policies", "Open for longest"): lambda rows, page: (
        sorted(row["time"] for row in rows)[:6], [row["since"] for row in page()["oldest"]]),
    ("vulnerabilities", "Vulnerabilities"): lambda rows, page: (only(rows), page()["vulnerabilities"]),
    ("vulnerabilities", "Critical"): lambda rows,
        page: (only(rows), len({row["policy"] for row in page()["top_vulnerabilities"]
                                if row["severity"] == "critical"})),
    ("vulnerabilities", "Affected results"): lambda rows,
        page: (only(rows), sum(row["failing"] for row in page()["top_vulnerabilities"])),
    ("vulnerabilities", "Results by severity"): lambda rows, page: (
        sum(row["value"] for row in rows), sum(row["failing"] for row in page()["top_vulnerabilities"])),
    ("vulnerabilities", "Failing results by severity"): lambda rows, page: (
        sum(row["value"] for row in rows if row["time"] == max(each["time"] for each in rows)),
        sum(row["failing"] for row in page()["top_vulnerabilities"])),
    ("vulnerabilities", "Worst vulnerabilities"): lambda rows, page: (
        [(row["vulnerability"], row["score"], row["results"], row["namespaces"], row["fixed"]) for row in rows],
        [(row["policy"], row["score"], row["failing"], row["places"], row["fixed_version"])
         for row in page()["top_vulnerabilities"]]),
}
# Panels whose numbers are not on the page: changes, controls, single results, scores of reports.
NOT_ON_PAGE = {
    "compliance": ["Failing controls", "Mean time to fix", "Score by category", "Score by category now", "Controls",
                   "Time to fix", "Remediations"],
    "fleet": ["Silent clusters"],
    "namespaces-and-policies": ["New failures in the period", "Fixed", "Changes by day", "New failures", "Exceptions"],
    "vulnerabilities": ["Reports with such a score", "Images", "Reports by score", "What a vulnerability affects"],
}


@pytest.mark.parametrize("role", READERS)
@pytest.mark.parametrize("name", BOARDS)
def test_panels_agree_with_the_page(readers, name, role):
    """Numbers that a panel and the page both show are equal; PAGE and NOT_ON_PAGE together have all panels"""
    board, reader, pages = BOARDS[name], readers[role], {}

    def page(**filter_):
        asked = json.dumps(filter_)
        if asked not in pages:
            first, last = (at[:10] for at in reader.period)
            pages[asked] = json.loads(reader.database.psql(
                f"SELECT kube_reports.dashboard('{asked}', '{first}', '{last}')", user=role))
        return pages[asked]
    titles = [panel["title"] for panel in board["panels"]]
    assert sorted(titles) == sorted([title for of, title in PAGE if of == name] + NOT_ON_PAGE[name])
    for (panel, _), rows in zip(queries(board), reader.answers(board, reader.values(board))):
        if (name, panel["title"]) in PAGE:
            shown, expected = PAGE[name, panel["title"]](rows, page)
            assert shown == expected and shown, panel["title"]


# ---- many vulnerabilities ----

@pytest.fixture(scope="module")
def scanned():
    """40 namespaces; in each, a scanner has found 300 vulnerabilities, and Kyverno has one failing result."""
    own = Stack()
    try:
        database = own.begin().database
        database.psql(f"""
            INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
            SELECT c.id, t.id, 'ns-' || n, 'scan', '{{}}', jsonb_build_object('results', (SELECT jsonb_agg(
                jsonb_build_object('source', 'Trivy Vulnerability', 'category', 'Vulnerability Scan', 'result', 'fail',
                    'policy', 'CVE-2030-' || v * (1 + n % 3),
                    'severity', (ARRAY['low', 'medium', 'high', 'critical'])[1 + v % 4],
                    'properties', jsonb_build_object('score', (v % 100 / 10.0)::text, 'resource', 'package-' || v,
                        'artifact.repository', 'image-' || n % 2))) FROM generate_series(1, 300) v)
                || '[{{"source": "kyverno", "policy": "p", "category": "Best Practices", "result": "fail"}}]')
                ::text::kube_reports.report
            FROM kube_reports.cluster c, kube_reports.resource_type t, generate_series(1, 40) n
            WHERE c.uid = '{own.cluster}' AND t.plural = 'policyreports' AND t."group" = 'wgpolicyk8s.io'""")
        database.derive()
        database.psql("SELECT kube_reports_internal.fold_rollups(1000000)")
        database.analyze()
        yield Reader(database, "kube_reports_reader")
    finally:
        own.end()


def compared(plan):
    """Returns how many pairs of rows the joins of a plan compared without a match."""
    return (plan.get("Rows Removed by Join Filter", 0) * plan["Actual Loops"]
            + sum(compared(part) for part in plan.get("Plans", [])))


def test_panels_do_not_compare_all_with_all(scanned):
    """The number of comparisons in a panel does not grow with vulnerabilities times namespaces"""
    board = BOARDS["vulnerabilities"]
    values = scanned.values(board)
    for panel, target in queries(board):
        sql = expanded(interpolated(target["rawSql"], values), *scanned.period)
        plan = json.loads(scanned.database.psql("EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) " + sql, user=scanned.role))
        assert compared(plan[0]["Plan"]) < 50000, panel["title"]


def test_top_with_many_names(scanned):
    """For "All", Grafana sends every name; top() looks each result up among the names, and compares it with few"""
    names = "SELECT jsonb_agg('no-' || n) || '[\"ns-7\"]' FROM generate_series(1, 100000) n"
    for dimension, failing in (("image", 300), ("cluster", 301)):
        assert scanned.database.psql(f"""
            SET statement_timeout = '5s';
            SELECT failing FROM kube_reports.top('{dimension}', 10, jsonb_build_object('namespace', ({names})))""",
            user=scanned.role) == str(failing)


LABELLED = {"prod-eu": {"env": "prod", "region": "eu"}, "staging": {"env": "test"}}


@pytest.fixture
def labelled(readers):
    """Two clusters have labels, the third has none."""
    owner = readers["kube_reports_reader"].database
    for uid, name in fleet.CLUSTERS.items():
        owner.psql(f"SELECT kube_reports.set_cluster_labels('{uid}', '{json.dumps(LABELLED.get(name, {}))}')")
    yield readers
    for uid in fleet.CLUSTERS:
        owner.psql(f"SELECT kube_reports.set_cluster_labels('{uid}', '{{}}')")


def test_label_chooses_clusters(labelled):
    """The variable label offers labels of visible clusters; chosen labels limit the clusters to choose from"""
    query = {one["name"]: one["query"] for one in BOARDS["compliance"]["templating"]["list"]}
    for board in BOARDS.values():
        assert {"label": query["label"], "cluster": query["cluster"]}.items() <= {
            one["name"]: one["query"] for one in board["templating"]["list"]}.items()

    def labels(role):
        return [row["label"] for row in labelled[role].ask(query["label"])[0]]

    def clusters(role, chosen):
        rows = labelled[role].ask(interpolated(query["cluster"], {"label": chosen}))[0]
        return [row["__text"] for row in rows if row["__value"] in fleet.CLUSTERS]
    everyone = "kube_reports_reader"
    assert labels(everyone) == ["(none)", "env=prod", "env=test", "region=eu"]
    assert clusters(everyone, labels(everyone)) == ["prod-eu", "prod-us", "staging"]
    assert clusters(everyone, ["env=test"]) == ["staging"]
    assert clusters(everyone, ["region=eu", "env=test"]) == ["prod-eu", "staging"]
    assert clusters(everyone, ["(none)"]) == ["prod-us"]
    assert labels("analyst") == ["env=prod", "env=test", "region=eu"]
    assert clusters("analyst", ["env=prod"]) == ["prod-eu"]


def test_panels_of_a_label_agree_with_the_page(labelled):
    """With a chosen label, numbers are those of the page with that selector, and some differ from those without it"""
    name = "compliance"
    board, reader = BOARDS[name], labelled["kube_reports_reader"]

    def page(**filter_):
        asked = json.dumps({**filter_, "cluster_labels": "env=prod"})
        first, last = (at[:10] for at in reader.period)
        return json.loads(reader.database.psql(
            f"SELECT kube_reports.dashboard('{asked}', '{first}', '{last}')", user=reader.role))
    some = reader.answers(board, reader.values(board, label=["env=prod"]))
    every = reader.answers(board, reader.values(board))
    compared = 0
    for (panel, _), rows, all_rows in zip(queries(board), some, every):
        assert "staging" not in json.dumps(rows), panel["title"]
        if (name, panel["title"]) in PAGE:
            shown, expected = PAGE[name, panel["title"]](rows, page)
            assert shown == expected, panel["title"]
            compared += rows != all_rows
    assert compared > 0


@every_board
def test_filters_matter(readers, board):
    """With one chosen cluster, no panel shows another one; with an unknown cluster, panels differ from those for all"""
    reader = readers["kube_reports_reader"]
    values = reader.values(board)
    chosen = ({}, {"cluster": [uid for uid, name in fleet.CLUSTERS.items() if name == "staging"]},
              {"cluster": ["00000000-0000-4000-8000-000000000000"]})
    for (panel, _), every, one, none in zip(queries(board),
                                            *(reader.answers(board, {**values, **choice}) for choice in chosen)):
        assert "prod-" not in json.dumps(one), panel["title"]
        assert none != every, panel["title"]


@every_board
def test_period_matters(readers, board):
    """A panel whose query uses the period has another answer for another period"""
    reader = readers["kube_reports_reader"]
    values = reader.values(board)
    now = datetime.datetime.now(datetime.timezone.utc)
    for panel, target in queries(board):
        sql = interpolated(target["rawSql"], values)
        if "$__" in sql:
            old = [(now - datetime.timedelta(days)).strftime("%Y-%m-%dT%H:%M:%SZ") for days in (40, 30)]
            first, second = reader.ask(expanded(sql, *reader.period), expanded(sql, *old))
            assert first != second, panel["title"]


@pytest.fixture
def writable(fleet_store):
    """A reader of a copy of the store, which a test may change: other tests read the store."""
    copy = Database()
    try:
        copy.copy_data(fleet_store[0])
        copy.start()
        yield Reader(copy, "kube_reports_reader")
    finally:
        copy.remove()


def test_what_is_deleted_is_not_fixed(writable):
    """
    A failing report is deleted: panels count its failures as gone, not as fixed. The results of another report pass:
    panels count them as fixed.
    """
    reader, database = writable, writable.database
    titles, asked = ("Mean time to fix", "Time to fix", "Fixed", "Changes by day"), {}
    for board in BOARDS.values():
        values = reader.values(board)
        asked |= {panel["title"]: expanded(interpolated(target["rawSql"], values), *reader.period)
                  for panel, target in queries(board) if panel["title"] in titles}
    assert len(asked) == len(titles)
    asked["fixed"] = "SELECT sum(fixed) FROM kube_reports.fix_time('{}', '{}')".format(*reader.period)
    database.psql("""
        CREATE TABLE public.failing AS
            SELECT g.cluster_id AS c, g.resource_type AS t, g.namespace AS ns, g.name, count(*) AS failing,
                    row_number() OVER (ORDER BY g.id) AS number
                FROM kube_reports_internal.origin g JOIN kube_reports_internal.result r ON r.origin = g.id
                    JOIN kube_reports.resource_type t ON t.id = g.resource_type
                WHERE r.status IN ('w', 'f', 'e') AND t.kind = 'PolicyReport'
                GROUP BY g.id ORDER BY g.id LIMIT 2""", user="postgres")
    deleted, passed = map(int, database.psql("SELECT failing FROM public.failing ORDER BY number",
                                             user="postgres").splitlines())

    def look():
        return dict(zip(asked, reader.ask(*asked.values())))

    def write(sql, number):
        """
        Writes one of the reports. Results that disappeared may come back for a while; until then readers do not count
        them. So the changes become an hour old.
        """
        begun = database.psql("SELECT clock_timestamp()")
        database.psql(f"""{sql} public.failing f WHERE f.number = {number}
            AND (o.cluster_id, o.resource_type, o.namespace, o.name) = (f.c, f.t, f.ns, f.name)""", user="postgres")
        database.derive()
        database.psql(f"""UPDATE kube_reports_internal.report_change SET at = at - interval '1 hour',
            settles_at = settles_at - interval '1 hour' WHERE at >= '{begun}'""")
    before = look()
    write("DELETE FROM kube_reports.object o USING", 1)
    without = look()
    write("""UPDATE kube_reports.object o SET body = jsonb_set(o.body::jsonb, '{results}',
            (SELECT jsonb_agg(r.result || '{"result": "pass"}')
                FROM jsonb_array_elements(o.body::jsonb->'results') r(result)))::kube_reports.report FROM""", 2)
    mended = look()

    def total(rows, column):
        return sum(row[column] for row in rows)
    for found in (before, without, mended):
        assert len(found["Time to fix"]) < 200
        assert only(found["Fixed"]) == only(found["fixed"]) == total(found["Time to fix"], "fixed") > 0
        assert only(found["Fixed"]) == sum(row["value"] for row in found["Changes by day"] if row["metric"] == "fixed")
    assert only(without["Fixed"]) == only(before["Fixed"])
    assert only(without["Mean time to fix"]) == only(before["Mean time to fix"])
    assert total(without["Time to fix"], "gone") == total(before["Time to fix"], "gone") + deleted
    assert only(mended["Fixed"]) == only(before["Fixed"]) + passed
    assert total(mended["Time to fix"], "gone") == total(without["Time to fix"], "gone")


def test_vulnerabilities_of_any_scanner(writable):
    """The trend has results of scanners that name no category, or another one than Trivy"""
    reader, database = writable, writable.database
    board = BOARDS["vulnerabilities"]
    now, trend = ({panel["title"]: expanded(interpolated(target["rawSql"], reader.values(board)), *reader.period)
                   for panel, target in queries(board)}[title]
                  for title in ("Results by severity", "Failing results by severity"))

    def look():
        database.psql("SELECT kube_reports_internal.fold_rollups(1000000)")
        return [{row["metric"]: row["value"] for row in rows} for rows in reader.ask(
            f"SELECT metric, value FROM ({now}) n WHERE value > 0",
            f"SELECT metric, value FROM ({trend}) t WHERE value > 0 AND time = (SELECT max(time) FROM ({trend}) u)")]
    results = [{"policy": policy, "result": "fail", "source": "grype", "severity": severity, **more}
               for policy, severity, more in (("CVE-2026-1", "critical", {"category": "Vulnerabilities"}),
                                              ("GHSA-aaaa-bbbb-cccc", "high", {}))]
    document = json.dumps(report("any-scanner", results=results))
    before, trend_before = look()
    database.psql(f"""
        SELECT kube_reports.create_report(o.cluster, jsonb_set('{document}', '{{metadata,namespace}}',
                to_jsonb(o.namespace))::kube_reports.report) IS NULL
            FROM (SELECT cluster, namespace FROM kube_reports.result_count WHERE policy ~ '^CVE-' LIMIT 1) o""")
    database.derive()
    after, trend_after = look()
    assert before == trend_before
    assert after == trend_after == {**before, "critical": before.get("critical", 0) + 1,
                                    "high": before.get("high", 0) + 1}


@every_board
def test_hostile_values(readers, board):
    """A hostile value of a variable is a name that nothing has, and never becomes SQL"""
    reader = readers["analyst"]
    names = [variable["name"] for variable in board["templating"]["list"] if variable["name"] != "datasource"]

    def every(*chosen):
        return {name: NUMBERS.get(name, chosen[0] if name == "cve" else [*chosen, *(one + "x" for one in chosen)])
                for name in names}
    nothing = reader.answers(board, every("no-such-name"))
    assert any(nothing) or board["uid"] == "kube-reports-vulnerabilities"
    # All text variables but cve can have several values.
    for values in [[value] for value in HOSTILE] if "cve" in names else [HOSTILE]:
        assert reader.answers(board, every(*values)) == nothing, values
    if "score" in names:
        for value in HOSTILE:
            done = [
                reader.database.psql(
                    "SELECT * FROM "
                    f"({expanded(interpolated(target['rawSql'], {**every('x'), 'score': value}), *reader.period)}\n) q",
                    user="analyst", check=False)
                for _, target in queries(board) if "${score" in target["rawSql"]]
            assert done and all("invalid input syntax for type real" in one.err for one in done), value


def test_page_tells_how(readers):
    """docs/analytics.md names every dashboard"""
    page = (TOP / "docs" / "analytics.md").read_text()
    assert all(f"{file.name}" in page for file in FILES)
