"""docs/fleet.md: labels of clusters, questions about all of them, grants by label."""

import base64
import csv
import hashlib
import io
import json
import os
import re

import pytest

from client import run, sql_text
from conftest import TOP
from operators import check_result, compliance_crds, remediation
from test_dashboard import Words

PAGE = (TOP / "docs" / "fleet.md").read_text()
EU, STAGING, US = (f"00000000-0000-4000-8000-0000000000f{number}" for number in (1, 2, 3))
NAMES = {EU: "prod-eu", STAGING: "staging", US: "prod-us"}


def statements():
    """Returns the SQL statements of the page."""
    text = "\n".join(re.findall(r"```sql\n(.*?)```", PAGE, re.S))
    return [statement.strip() for statement in text.split(";\n") if statement.strip()]


@pytest.fixture(scope="module")
def fleet(module_stack):
    """Three clusters with the results of a scan: the check audit passes in prod-eu and fails in the two others."""
    database = module_stack.database
    database.psql(f"CALL kube_reports.unregister_cluster('{module_stack.cluster}')")
    for uid, name in NAMES.items():
        database.psql(f"SELECT kube_reports.register_cluster('{uid}', '{name}')")
    for definition in compliance_crds()[:2]:
        database.psql(f"SELECT kube_reports.register_crd({sql_text(definition)})")
    for uid, status in ((EU, "PASS"), (US, "FAIL"), (STAGING, "FAIL")):
        for document in (check_result("audit", status, "high"), check_result("kubelet", "PASS"), remediation("audit")):
            database.psql(f"SELECT kube_reports.create_report('{uid}', {sql_text(document)})")
    database.derive()
    database.psql("CREATE ROLE team_eu LOGIN; CREATE ROLE kube_reports_eu LOGIN", user="postgres")
    database.psql(f"SELECT kube_reports.grant_proxy('kube_reports_eu', '{EU}')")
    module_stack.first = module_stack.proxy(cluster=EU, user="kube_reports_eu", flags=["--cluster-name=prod-eu"])
    yield module_stack


def test_the_page(fleet):
    """Every statement of the page runs, in the order of the page; the answers are those expected here"""
    fleet.database.psql(f"SELECT kube_reports.set_cluster_labels('{US}', {sql_text({'env': 'prod', 'region': 'us'})})")
    answers = {}
    for statement in statements():
        answers[statement] = fleet.database.psql(statement)
    assert len(answers) == 12

    def answer(words):
        (one,) = [answer for statement, answer in answers.items() if words in statement]
        return one
    today = fleet.database.psql("SELECT (now() AT TIME ZONE 'UTC')::date")
    assert answer("search_results").split("|")[:3] == ["ocp4-cis", "audit", "prod-us"]
    assert answer("SELECT day, score, failing").splitlines()[-1] == f"{today}|0.75|1"
    assert [line for line in answer("compliance_score").splitlines() if line.split("|")[1] == today] == [
        f"prod-eu|{today}|1", f"prod-us|{today}|0.5"]
    assert answer("AS region") == "eu|1|0\nus|0.5|1"
    assert answer("string_agg(cluster_name") == "ocp4-cis|audit|prod-us, staging"
    assert answer("fleet_drift") == "ocp4-cis|audit|0|1"
    assert answer("silent_for").count("\n") == 2 and '{"env": "prod", "region": "eu"}' in answer("silent_for")
    assert answer("count(*) FROM kube_reports.remediations").splitlines() == [
        f"{name}|NotApplied|1" for name in sorted(NAMES.values())]
    assert answer("SELECT kube_reports.revoke_clusters") == "1"


def test_grants_by_label(fleet):
    """A role that was granted labels sees the clusters with these labels in every view, as long as they have them"""
    database = fleet.database
    database.psql("SELECT kube_reports.grant_clusters('team_eu', 'env=prod,region=eu')")
    seen = "SELECT string_agg(DISTINCT cluster_name, ',') FROM kube_reports."
    for view in ("typed_result", "search_results()", "fleet_matrix", "fleet_freshness", "remediations", "result_event"):
        assert database.psql(seen + view, user="team_eu") == "prod-eu", view
    assert "staging" not in database.psql("SELECT kube_reports.dashboard_html()", user="team_eu")
    database.psql(f"SELECT kube_reports.set_cluster_labels('{EU}', '{{}}')")
    assert database.psql(seen + "typed_result", user="team_eu") == ""
    database.psql(f"""SELECT kube_reports.set_cluster_labels('{EU}', '{{"env": "prod", "region": "eu"}}')""")
    assert database.psql(seen + "typed_result", user="team_eu") == "prod-eu"
    assert "labels env=prod" in database.psql(
        """SELECT kube_reports.dashboard_html('{"cluster_labels": "env=prod"}')""")


# --- /v1/fleet ---

def fleet_of(fleet, what, accept=None, **query):
    answer = fleet.first.api().get(f"/v1/fleet/{what}", accept=accept, **query)
    assert answer.code == 200, answer
    return answer.json["items"] if "json" == answer.headers["Content-Type"].rpartition("/")[2] else answer.body.decode()


@pytest.fixture
def granted(fleet):
    """The proxy's role reads all clusters that have a label."""
    database = fleet.database
    for uid, labels in ((EU, {"env": "prod", "region": "eu"}), (US, {"env": "prod", "region": "us"}),
                        (STAGING, {"env": "test"})):
        database.psql(f"SELECT kube_reports.set_cluster_labels('{uid}', {sql_text(labels)})")
    database.psql("SELECT kube_reports.grant_clusters('kube_reports_eu', 'env')")
    yield fleet
    database.psql("SELECT kube_reports.revoke_clusters('kube_reports_eu', 'env')")


def test_scope(fleet):
    """A proxy answers about its own cluster, and about other clusters that its role was granted as a whole"""
    database = fleet.database

    def seen():
        return {(what, line["cluster_name"]) for what in ("clusters", "matrix", "scores", "remediations")
                for line in fleet_of(fleet, what)} | {
            ("events", json.loads(line)["cluster_name"]) for line in fleet_of(fleet, "events").splitlines()}

    def expected(*names):
        return {(what, name) for what in ("clusters", "matrix", "scores", "remediations", "events") for name in names}
    assert seen() == expected("prod-eu")
    database.psql(f"SELECT kube_reports.grant_namespace('kube_reports_eu', '{US}', 'openshift-compliance')")
    assert seen() == expected("prod-eu")
    database.psql(f"SELECT kube_reports.set_cluster_labels('{US}', '{{\"env\": \"prod\"}}')")
    database.psql("SELECT kube_reports.grant_clusters('kube_reports_eu', 'env=prod')")
    assert seen() == expected("prod-eu", "prod-us")
    database.psql("SELECT kube_reports.grant_reader('kube_reports_eu')")
    assert seen() == expected(*NAMES.values())
    database.psql("SELECT kube_reports.revoke_reader('kube_reports_eu')")
    assert seen() == expected("prod-eu")


def test_answers(granted):
    """Answers have the expected rows; CSV and JSON lines have the columns of JSON and as many rows"""
    psql = granted.database.psql
    clusters = fleet_of(granted, "clusters")
    assert [line["cluster_name"] for line in clusters] == sorted(NAMES.values())
    assert clusters[0]["labels"] == {"env": "prod", "region": "eu"} and clusters[0]["reports"] == 3
    assert clusters[0]["silent_seconds"] is not None and clusters[1]["silent_seconds"] is None
    matrix = fleet_of(granted, "matrix", status="fail")
    assert [(line["rule"], line["cluster_name"], line["fail"]) for line in matrix] == [
        ("audit", "staging", 1), ("audit", "prod-us", 1)]
    assert len(fleet_of(granted, "matrix")) == 9 == int(psql("SELECT count(*) FROM kube_reports.fleet_matrix"))
    assert len(fleet_of(granted, "matrix", cluster_labels="env=prod", source="Compliance Operator")) == 4
    assert len(fleet_of(granted, "matrix", cluster=US, rule="audit")) == 1
    scores = fleet_of(granted, "scores", cluster="staging")
    today = psql("SELECT (now() AT TIME ZONE 'UTC')::date")
    assert {line["cluster_name"] for line in scores} == {"staging"} and scores[-1]["day"] == today
    assert scores[-1]["score"] == 0.5 and scores[-1]["skip"] == 1
    together = fleet_of(granted, "score", cluster_labels="env=prod", **{"from": today, "to": today})
    assert [(line["pass"], line["fail"], line["score"]) for line in together] == [(3, 1, 0.75)]
    assert fleet_of(granted, "drift", a=EU, b="staging") == [
        {"source": "Compliance Operator", "policy": "ocp4-cis", "rule": "audit", "pass_a": 1, "failing_a": 0,
         "pass_b": 0, "failing_b": 1}]
    assert {line["state"] for line in fleet_of(granted, "remediations", state="NotApplied")} == {"NotApplied"}
    assert fleet_of(granted, "remediations", state="Applied") == []
    events = [json.loads(line) for line in fleet_of(granted, "events", cluster_labels="env=test").splitlines()]
    assert {event["cluster_name"] for event in events} == {"staging"} and len(events) == 3
    assert len(fleet_of(granted, "events", after=events[0]["id"], cluster_labels="env=test").splitlines()) == 2

    query = {"drift": {"a": EU, "b": US}}
    for what in ("clusters", "matrix", "scores", "score", "drift", "remediations"):
        lines = fleet_of(granted, what, **query.get(what, {}))
        assert lines, what
        rows = list(csv.reader(io.StringIO(fleet_of(granted, what, format="csv", **query.get(what, {})))))
        assert rows[0] == list(lines[0]), what
        assert len(rows) == len(lines) + 1
        text = fleet_of(granted, what, accept="application/x-ndjson", **query.get(what, {}))
        told = [json.loads(line) for line in text.splitlines()]
        for line in (*lines, *told):
            line.pop("silent_seconds", None)
            line.pop("last_seen", None)
        assert told == lines
        # An answer without rows is an empty JSON array.
        assert fleet_of(granted, what, cluster="staging", **({} if what == "drift" else {"cluster_labels": "no"})
                        ) == [] if what not in ("score", "drift") else True


def test_wrong_questions(granted):
    """A wrong request is refused, and the message names the mistake"""
    api = granted.first.api()
    for path, code, words in (
            ("matrix?cluster_labels=a+in+b", 400, "invalid label selector"),
            ("matrix?cluster_labels=a&cluster_labels=b", 400, "given more than once"),
            ("matrix?namespace=shop", 400, 'the filter has no member \\"namespace\\"'),
            ("matrix?status=bad", 400, 'there is no status \\"bad\\"'),
            ("scores?from=yesterday-or-so", 400, "is no day"), ("scores?from=2030-01-01&to=2020-01-01", 400,
                                                           "the range is reversed"),
            ("score?from=2030-01-01&to=2020-01-01", 400, "the range is reversed"),
            ("score?from=2999-01-01&to=2999-01-02", 400, "there are no days"),
            ("scores?from=2999-01-01&to=2999-01-02", 200, ""),
            ("score?from=0001-01-01&to=9999-12-31", 400, "is too long"),
            ("score?from=-infinity&to=infinity", 400, "is no day"), ("score?to=-infinity", 400, "is no day"),
            ("scores?from=infinity", 400, "is no day"), ("score?to=4714-11-24+BC", 400, "is no day"),
            ("score?from=01.10.2026", 400, 'is no day: \\"01.10.2026\\"'), ("scores?to=2026-02-30", 400, "is no day"),
            ("scores?to=0000-01-01", 400, "is no day"),
            (f"drift?a={EU}", 400, 'member \\"b\\" of the filter names no cluster'),
            (f"drift?a={EU}&b=hidden", 400, "names no cluster"), ("clusters?after=1-0", 400, "for events only"),
            ("clusters?format=xml", 400, "none of"), ("events?format=json", 400, "neither"),
            ("nothing", 404, ""), ("", 404, ""), ("clusters/more", 404, "")):
        answer = api.get("/v1/fleet/" + path)
        assert answer.code == code and words in answer.body.decode(), (path, answer)
    assert api.get("/v1/fleet/clusters", accept="application/xml").code == 406
    assert api.get("/v1/fleet/events", accept="application/json").code == 406
    assert api.post("/v1/fleet/clusters", {}).code == 405
    assert api.get("/v1/export/results", cluster_labels="env").code == 400
    assert granted.first.api("nobody").get("/v1/fleet/clusters").code == 403


def test_many_lines(granted):
    """A long answer, sent in several pieces, is one document with each line once, in order"""
    psql = granted.database.psql
    psql(f"""SELECT kube_reports.create_report('{US}', jsonb_build_object('apiVersion', 'wgpolicyk8s.io/v1alpha2',
            'kind', 'PolicyReport', 'metadata', jsonb_build_object('name', 'many-' || n, 'namespace', 'many'),
            'results', (SELECT jsonb_agg(jsonb_build_object('source', 'many', 'policy', 'p' || n, 'rule', 'r' || m,
                'result', 'pass')) FROM generate_series(1, 1000) m))::kube_reports.report)
        FROM generate_series(1, 5) n""")
    granted.database.derive()
    # Upkeep analyzes the table only a minute later: until then PostgreSQL plans for a table of nine rows.
    for query in ({}, {"format": "csv"}, {"format": "jsonl"}):
        lines = fleet_of(granted, "matrix", source="many", **query)
        if query:
            lines = lines.splitlines()[query["format"] == "csv":]
            assert len(set(lines)) == len(lines) == 5000
        else:
            keys = [(line["policy"], line["rule"]) for line in lines]
            assert len(keys) == 5000 and keys == sorted(set(keys))
    drift = fleet_of(granted, "drift", a=NAMES[US], b=NAMES[EU], source="many")
    assert drift == []


def test_the_html(granted):
    """A page without scripts lists each cluster and what fails there; texts are escaped; a reader sees its clusters"""
    psql = granted.database.psql
    psql(f"SELECT kube_reports.set_cluster_labels('{US}', {sql_text({'env': '<b>&prod'})})")
    page = psql("SELECT kube_reports.fleet_html()")
    words = Words(page)
    assert words.elements["script"] == 0 and words.elements["table"] == 2 and words.elements["b"] == 0
    for text in (*NAMES.values(), "env=<b>&prod", "NotApplied 1", "ocp4-cis", "Compliance Operator"):
        assert text in words.texts, text
    assert "2 clusters have" in words.texts and " not been seen for an hour." in words.texts
    style = re.search("<style>(.*?)</style>", page, re.S).group(1)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in page
    psql("SELECT kube_reports.grant_clusters('team_eu', 'region=eu')")
    own = Words(psql("SELECT kube_reports.fleet_html()", user="team_eu"))
    assert "prod-eu" in own.texts and "staging" not in own.texts and "prod-us" not in own.texts
    psql("SELECT kube_reports.revoke_reader('team_eu')")
    empty = psql("""SELECT kube_reports.fleet_html('{"cluster_labels": "env=none"}')""")
    assert "No cluster is known" in empty


def test_the_commands_of_the_page(granted, tmp_path):
    """The shell commands of the page run, and their answers have the expected rows"""
    commands = [line for kind, block in re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.S | re.M) if not kind
                for line in block.splitlines()]
    assert len(commands) == 5
    for name in ("ca.crt", "admin.crt", "admin.key"):
        (tmp_path / name.replace("admin", "me")).write_bytes(open(f"{granted.pki}/{name}", "rb").read())
    script = "set -e\n" + "\n".join(commands).replace("proxy:6443", f"localhost:{granted.first.port}")
    out = run(["bash", "-c", script], cwd=tmp_path, env={
        **os.environ, "PGHOST": granted.database.directory, "PGUSER": "kube_reports_owner",
        "PGDATABASE": "kube_reports"}).out
    assert '"cluster_name":"prod-us"' in out and "source,policy,rule,pass_a" in out
    assert "ocp4-cis" in (tmp_path / "matrix.csv").read_text()
    page = Words((tmp_path / "fleet.html").read_text())
    assert "prod-us" in page.texts and "staging" not in page.texts
