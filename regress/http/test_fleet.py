"""docs/fleet.md: labels of clusters, questions about all of them, grants by label."""

import re

import pytest

from client import sql_text
from conftest import TOP
from operators import check_result, compliance_crds, remediation

PAGE = (TOP / "docs" / "fleet.md").read_text()
EU, STAGING, US = (f"00000000-0000-4000-8000-0000000000f{number}" for number in (1, 2, 3))
NAMES = {EU: "prod-eu", STAGING: "staging", US: "prod-us"}


def statements():
    """The SQL of the page."""
    text = "\n".join(re.findall(r"```sql\n(.*?)```", PAGE, re.S))
    return [statement.strip() for statement in text.split(";\n") if statement.strip()]


@pytest.fixture(scope="module")
def fleet(module_stack):
    """Three clusters with the results of a scan: what is audited fails in one, passes in another."""
    database = module_stack.database
    for uid, name in NAMES.items():
        database.psql(f"SELECT kube_reports.register_cluster('{uid}', '{name}')")
    for definition in compliance_crds()[:2]:
        database.psql(f"SELECT kube_reports.register_crd({sql_text(definition)})")
    for uid, status in ((EU, "PASS"), (US, "FAIL"), (STAGING, "FAIL")):
        for document in (check_result("audit", status, "high"), check_result("kubelet", "PASS"), remediation("audit")):
            database.psql(f"SELECT kube_reports.create_report('{uid}', {sql_text(document)})")
    database.psql("CREATE ROLE team_eu LOGIN", user="postgres")
    yield module_stack


def test_the_page(fleet):
    """Every statement of the page, in its order; what the questions are answered with"""
    answers = {}
    for statement in statements():
        answers[statement] = fleet.database.psql(statement)
    assert len(answers) == 11

    def answer(words):
        (one,) = [answer for statement, answer in answers.items() if words in statement]
        return one
    assert answer("search_results") == ""
    assert answer("fleet_score").splitlines()[-1].endswith("|1|0")
    assert answer("string_agg(cluster_name") == "ocp4-cis|audit|prod-us, staging"
    assert answer("fleet_drift") == "ocp4-cis|audit|0|1"
    assert answer("silent_for").count("\n") == 3 and '{"env": "prod", "region": "eu"}' in answer("silent_for")
    assert sorted(answer("count(*) FROM kube_reports.remediations").splitlines()) == [
        f"{name}|NotApplied|1" for name in sorted(NAMES.values())]
    assert answer("SELECT kube_reports.revoke_clusters") == "1"


def test_grants_by_label(fleet):
    """A reader of some labels sees these clusters everywhere, until the label goes"""
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
