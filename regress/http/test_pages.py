"""Runs commands and statements of pages that have no test file of their own."""

import re
import shlex

import pytest

from client import POLR, report, run
from conftest import TOP
from runbook import blocks_of, put

FAILING = [{"source": "kyverno", "policy": "p", "rule": "r", "result": "fail", "severity": "high"}]


def texts(page, language=""):
    return [text for found, text in blocks_of(page) if found == language]


def rolled_back(stack, *statements, **where):
    """Returns what the statements print, with their notices, in a transaction that is rolled back."""
    done = stack.database.psql("BEGIN;\n" + "\n".join(statements) + "\nROLLBACK;", check=False, **where)
    assert done.code == 0, done.err
    return done.out + done.err


def test_aggregation(stack):
    """Every step of the page runs, from summaries to the reports of Kyverno 1.8"""
    summaries, resource, policies, policy = texts("docs/aggregation.md")
    uid = {"<uid of the cluster>": stack.cluster}
    told = rolled_back(stack, summaries, put(resource, **uid), put(policies, **uid), put(policy, **uid))
    assert re.search(r"\bresource\b", told) and re.search(r"\bpolicy\b", told), told


def test_api(stack):
    """The statement of the page fails with the error that the page shows"""
    (block,) = texts("docs/api.md", "sql")
    statement, shown = re.split(r"^(?=ERROR:)", block, flags=re.M)
    done = stack.database.psql(statement, check=False)
    assert done.code != 0 and shown.strip() in done.err


@pytest.fixture
def failing(stack, ns):
    stack.first.api().create(POLR, report("r", results=FAILING), ns)
    return stack


def test_export(failing, tmp_path):
    """curl, the three forms of COPY and the webhook of the page work"""
    (curl, _), (copies, webhook) = texts("docs/export.md"), texts("docs/export.md", "sql")
    for name, file in (("ca.crt", "ca.crt"), ("me.crt", "admin.crt"), ("me.key", "admin.key")):
        (tmp_path / name).symlink_to(f"{failing.pki}/{file}")
    run(["bash", "-c", put(curl, **{"proxy:6443": f"localhost:{failing.first.port}"})], cwd=tmp_path)
    rows = (tmp_path / "failing.csv").read_text().splitlines()
    assert "policy" in rows[0].split(",") and len(rows) > 1
    results, lines, events = (failing.database.psql(copy) for copy in copies.splitlines())
    assert "policy" in results.split("\n", maxsplit=1)[0].split(",")
    assert all(line.startswith("{") and line.endswith("}") for line in lines.splitlines()) and lines
    assert "new_status" in events.split("\n", maxsplit=1)[0].split(",")
    told = rolled_back(failing, put(webhook, **{"b2c7...-cluster-uid": failing.cluster}))
    assert re.search(r"^on-call\|", told, re.M), told


def test_advisory_locks(stack):
    """docs/security.md: after its statements PUBLIC can take no advisory lock, and the owner can"""
    (block,) = texts("docs/security.md", "sql")
    left = "SELECT count(*) FILTER (WHERE has_function_privilege('public', p.oid, 'EXECUTE')), " \
        "bool_and(has_function_privilege('kube_reports_owner', p.oid, 'EXECUTE')) " \
        "FROM pg_proc p WHERE p.proname ~ '^pg_(try_)?advisory_';"
    # In a database where nobody has run them.
    told = rolled_back(stack, left, block, left, user="postgres", database="postgres").split("\n")
    before, after = (line for line in told if re.fullmatch(r"\d+\|[tf]", line))
    assert int(before.split("|")[0]) > 10 and after == "0|t"


def test_service_behind_a_kube_apiserver(stack, apiserver, delegate):
    """With the flags of the page the proxy asks kube-apiserver for the cluster's id, the CAs and its decisions"""
    line = texts("docs/packages.md", "text")[0]
    apiserver.delete_namespace("kube-system")
    apiserver.create_namespace("kube-system", uid=stack.cluster)
    (given,) = shlex.split(put(line, **{"/run/credentials/kube-reports-proxy.service/pki_kubeconfig":
                                        f"{stack.pki}/kubeconfig-{apiserver.port}"}))
    name, _, flags = given.partition("=")
    assert name == "KUBE_REPORTS_PROXY_FLAGS"
    delegation = delegate(["--cluster-id=", *flags.split()])
    apiserver.access_rule = lambda spec: {"allowed": spec["user"] == "alice"}
    front = delegation.front()
    assert [front.get(f"/apis/{POLR}", user=user).code for user in ("alice", "bob")] == [200, 403]
