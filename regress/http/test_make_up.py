"""make up: which settings it keeps, and what it makes for kubectl and psql."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct

import pytest

from browser import Browser
from client import run
from conftest import KUBECTLS, TOP, free_port
from runbook import blocks_of, put


class Checkout:
    """Runs goals of make with a directory and ports of its own."""

    def __init__(self):
        # A short path that the server's user may enter.
        self.directory = pathlib.Path(run(["mktemp", "-d", "/tmp/kube-reports-up-XXXXXX"]).out.strip())
        self.directory.chmod(0o755)
        self.run_dir = self.directory / "run"
        unset = ("KUBECONFIG", "PORT", "METRICS_PORT", "PG_PORT", "DATABASE", "CLUSTER_ID", "CLUSTER_NAME",
                 "PROXY_FLAGS")
        self.environment = {name: value for name, value in os.environ.items() if name not in unset}
        self.environment["RUN_DIR"] = str(self.run_dir)

    def make(self, goal, check=True, **variables):
        given = [f"{name}={value}" for name, value in variables.items()]
        return run(["make", "--no-print-directory", goal, *given],
                   check=check, timeout=300, cwd=TOP, env=self.environment)

    def psql(self, sql, env="env", check=True):
        script = f'. {self.run_dir}/{env} && exec psql -X -A -t -v ON_ERROR_STOP=1 -c "$0"'
        done = run(["bash", "-c", script, sql], check=check, env=self.environment)
        return done.out.strip() if check else done

    def command_line(self):
        """Returns the flags of the running proxy."""
        pid = (self.run_dir / "server" / "proxy.pid").read_text().strip()
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")

    def port(self):
        return re.search(r"server: https://127.0.0.1:(\d+)", (self.run_dir / "kubeconfig").read_text())[1]

    def pids(self):
        """Returns the pids of the proxy and the server; fails if one of them does not run."""
        server = self.run_dir / "server"
        pids = [(server / file).read_text().split()[0] for file in ("proxy.pid", "data/postmaster.pid")]
        assert all(pathlib.Path(f"/proc/{pid}").exists() for pid in pids), pids
        return pids

    def end(self):
        self.make("clean-run", check=False)
        shutil.rmtree(self.directory, ignore_errors=True)


@pytest.fixture(scope="module")
def checkout():
    made = Checkout()
    try:
        yield made
    finally:
        made.end()


@pytest.fixture(scope="module")
def stack_of_samples():
    """A stack that no test changes."""
    made = Checkout()
    try:
        made.make("up", PORT=free_port(), METRICS_PORT=free_port(), PG_PORT=free_port())
        yield made
    finally:
        made.end()


def test_what_failed_is_forgotten(checkout):
    """make up fails with each of its settings in turn; then it succeeds with good ports, and the next one keeps them"""
    ports = {"PORT": free_port(), "METRICS_PORT": free_port(), "PG_PORT": free_port()}
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        busy = taken.getsockname()[1]
        wrong = checkout.make("up", check=False, **ports, CLUSTER_ID="no-uuid")
        assert wrong.code != 0 and "CLUSTER_ID is no uuid" in wrong.err
        wrong = checkout.make("up", check=False, **{**ports, "PG_PORT": busy})
        assert wrong.code != 0 and "PostgreSQL did not start on port" in wrong.err
        wrong = checkout.make("up", check=False, **{**ports, "PORT": busy}, PROXY_FLAGS="--workers=1")
        assert wrong.code != 0 and "the proxy does not answer" in wrong.err
    # The failed settings are neither kept nor used by a process.
    assert not (checkout.run_dir / "kubeconfig").exists()
    checkout.make("up", **ports, CLUSTER_NAME="shop-eu")
    assert "--workers=1" not in checkout.command_line()

    again = checkout.make("up").out
    assert f"https://127.0.0.1:{ports['PORT']}," in again


def test_what_runs_goes_on(checkout):
    """A make up with a wrong setting stops nothing; one that fails later starts again what ran before; both say why"""
    ready = f"https://127.0.0.1:{checkout.port()}"
    before = checkout.pids()
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        busy = taken.getsockname()[1]
        for name, value, said in (("PROXY_FLAGS", "--no-such-flag", "unknown flag: --no-such-flag"),
                                  ("PROXY_FLAGS", "--workers=many", "workers"),
                                  ("PORT", busy, f"port {busy} is in use"),
                                  ("METRICS_PORT", busy, f"port {busy} is in use"),
                                  ("PG_PORT", busy, f"port {busy} is in use"),
                                  ("PG_PORT", checkout.port(), "have to differ"),
                                  ("PORT", "abc", "a number from 1 to 65535: abc"),
                                  ("METRICS_PORT", 70000, "a number from 1 to 65535: 70000"),
                                  ("DATABASE", "host=/nowhere", "DATABASE cannot be reached"),
                                  ("CLUSTER_ID", "no-uuid", "is no uuid")):
            wrong = checkout.make("up", check=False, **{name: value})
            assert wrong.code != 0 and said in wrong.err, (name, wrong.err)
            assert checkout.pids() == before, name
    # A mistake that only the proxy itself finds.
    wrong = checkout.make("up", check=False, PROXY_FLAGS="--database-connections=1")
    assert wrong.code != 0 and "database-connections" in wrong.err, wrong.err
    assert f"what ran before runs again, on {ready}" in wrong.err
    assert checkout.pids() != before and "--database-connections=1" not in checkout.command_line()
    assert not (checkout.run_dir / "attempt").exists()
    pids = checkout.pids()
    assert f"{ready}," in checkout.make("up").out and checkout.pids() == pids
    # If nothing ran before, make up starts nothing when it fails.
    checkout.make("down")
    wrong = checkout.make("up", check=False, PROXY_FLAGS="--database-connections=1")
    assert wrong.code != 0 and "runs again" not in wrong.err
    # The pid file of a killed proxy causes no error.
    checkout.make("up")
    os.kill(int(checkout.pids()[0]), signal.SIGKILL)
    assert "/proc/" not in checkout.make("up").err
    os.kill(int(checkout.pids()[0]), signal.SIGKILL)
    assert checkout.make("down").err == ""
    checkout.make("up")


def test_flags_stay_until_taken_back(checkout):
    checkout.make("up", PROXY_FLAGS="--workers=1")
    checkout.make("up")
    assert "--workers=1" in checkout.command_line()
    checkout.make("up", PROXY_FLAGS="")
    assert "--workers=1" not in checkout.command_line()


def test_variant_of_the_database_stays():
    """The other variant is refused before anything is stopped or made"""
    made = Checkout()
    try:
        made.run_dir.mkdir()
        (made.run_dir / "variant").write_text("sql\n", encoding="ascii")
        done = made.make("up", check=False, VARIANT="c")
        assert done.code != 0 and "has the variant sql" in done.err
        assert [file.name for file in made.run_dir.iterdir()] == ["variant"]
    finally:
        shutil.rmtree(made.directory)


def test_cluster_name_and_id(checkout):
    """Views show CLUSTER_NAME, and make up keeps it; a CLUSTER_ID that is not the database's is refused"""
    assert checkout.psql("SELECT name FROM kube_reports.cluster WHERE NOT labels ? 'sample'") == "shop-eu"
    assert "--cluster-name=shop-eu" in checkout.command_line()
    other = checkout.make("up", check=False, CLUSTER_ID="3b241101-e2bb-4255-8caf-4136c566a962")
    assert other.code != 0 and "has the cluster" in other.err


def test_env_of_a_reader(checkout):
    """.run/env.reader is for analysts: it reads results and writes nothing; make help names it"""
    assert checkout.psql("SELECT current_user", "env.reader") == "kube_reports_reader"
    assert int(checkout.psql("SELECT count(*) FROM kube_reports.failing_by_policy_namespace", "env.reader")) > 10
    assert "permission denied" in checkout.psql("DELETE FROM kube_reports.object", "env.reader", check=False).err
    told = run(["make", "--no-print-directory", "help"], cwd=TOP).out
    for name in (".run/env.reader", "CLUSTER_NAME", "PROXY_FLAGS"):
        assert name in told, name


# ---- the samples ----

def questions():
    """Yields the queries of docs/analytics.md with their numbers."""
    page = (TOP / "docs" / "analytics.md").read_text()
    for number, text in re.findall(r"^### (\d+)\. (.*?)(?=^### |\Z)", page, re.M | re.S):
        for sql in re.findall(r"```sql\n(.*?);\n```", text, re.S):
            yield number, sql


def test_every_question_has_an_answer(stack_of_samples):
    """Each query of the page, unchanged and as an analyst, returns rows on the samples"""
    count = 0
    for number, sql in questions():
        rows = stack_of_samples.psql(f"SELECT count(*) FROM ({sql}) q", "env.reader")
        assert int(rows) > 0, f"question {number}: {sql}"
        count += 1
    assert count >= 25


def test_the_page_tells_a_story(stack_of_samples):
    """The page has 30 days of scores that change, two clusters, and no empty list"""
    page = json.loads(stack_of_samples.psql("SELECT kube_reports.dashboard()", "env.reader"))
    scores = [day["score"] for day in page["trend"]]
    assert len(scores) == 30 and None not in scores and len(set(scores)) > 10 and scores[-1] > scores[0] + 0.02
    assert {cluster["cluster_name"] for cluster in page["top_clusters"]} == {"local", "sample-staging"}
    assert all(None not in cluster["scores"] for cluster in page["top_clusters"])
    for name in ("top_policies", "top_namespaces", "top_vulnerabilities", "oldest"):
        assert len(page[name]) >= 4, name
    assert sum(1 for age in page["ages"] if sum(age) > 0) >= 4 and page["overdue"] > 0 and page["new"] > 0
    assert "<svg" in stack_of_samples.psql("SELECT kube_reports.dashboard_html()", "env.reader")


def test_picture(stack_of_samples, tmp_path):
    """The README's pictures show the page of the samples; SCREENSHOTS=yes writes the pictures again"""
    page = tmp_path / "dashboard.html"
    page.write_text(stack_of_samples.psql("SELECT kube_reports.dashboard_html()", "env.reader"), encoding="utf-8")
    browser = Browser()
    try:
        for scheme in ("light", "dark"):
            browser.look(1280, scheme, "screen")
            browser.open(page.as_uri())
            picture = browser.picture(1280, 905)
            file = TOP / "docs" / f"dashboard-{scheme}.png"
            if os.environ.get("SCREENSHOTS"):
                file.write_bytes(picture)
            for bytes_of in (picture, file.read_bytes()):
                assert bytes_of.startswith(b"\x89PNG") and 30000 < len(bytes_of) < 400000
                assert struct.unpack(">II", bytes_of[16:24]) == (1280, 905)
    finally:
        browser.end()
    light, dark = ((TOP / "docs" / f"dashboard-{scheme}.png").read_bytes() for scheme in ("light", "dark"))
    assert light != dark


def commands(block):
    """Returns the commands of a block that shows a session, which begin with "$ ", and the rest of the block."""
    shown = block.startswith("$ ") and re.split(r"^(?!\$ )", block, maxsplit=1, flags=re.M)
    return [line.removeprefix("$ ") for line in shown[0].splitlines()], "".join(shown[1:])


def test_first_look_of_the_readme(stack_of_samples, tmp_path):
    """kubectl shows the reports that the README shows, and psql writes the page for people"""
    (session,) = (text for _, text in blocks_of("README.md") if "kubectl get" in text)
    (page,) = (text for _, text in blocks_of("docs/analytics.md") if "dashboard_html" in text)
    (tmp_path / "kubectl").symlink_to(next(path for path in reversed(KUBECTLS) if path))
    environment = {**stack_of_samples.environment, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}

    def shell(lines):
        return run(["bash", "-e", "-c", "\n".join(lines)], cwd=tmp_path, env=environment).out

    lines, shown = commands(session)
    out = shell(put("\n".join(lines), **{"$PWD/.run": str(stack_of_samples.run_dir)}).splitlines())
    rows = [line.split()[:-1] for line in shown.splitlines() if line != "..."]
    assert [line.split()[:-1] for line in out.splitlines()][:1] == rows[:1]
    assert {tuple(row) for row in rows} <= {tuple(line.split()[:-1]) for line in out.splitlines()}
    shell([f". {stack_of_samples.run_dir}/env.reader", *commands(page)[0]])
    assert "<svg" in (tmp_path / "dashboard.html").read_text()
    # The samples have no such cluster.
    assert "<footer" in (tmp_path / "october.html").read_text()


def test_samples_are_told_from_what_is_real(stack_of_samples):
    """Made history has the actor sample, and the second cluster a label; verify() finds no mistake in it"""
    psql = stack_of_samples.psql
    assert psql("SELECT labels->>'sample' FROM kube_reports.cluster WHERE name = 'sample-staging'") == "true"
    made = "SELECT count(*) FROM kube_reports.result_event WHERE at < now() - interval '1 day' AND actor"
    assert int(psql(f"{made} = 'sample'")) > 1000 and psql(f"{made} <> 'sample'") == "0"
    assert psql("SELECT count(*) FROM kube_reports.verify()") == "0"


def test_readme_shows_what_make_up_gives(stack_of_samples):
    """The README shows the table that the samples give, row by row"""
    readme = (TOP / "README.md").read_text()
    sql, table = re.search(r'psql -c "(SELECT policy, .*?)"\n(.*?)```', readme, re.S).groups()
    shown = [[cell.strip() for cell in row.split("|")] for row in table.splitlines()[2:]]
    assert [row.split("|") for row in stack_of_samples.psql(sql, "env.reader").splitlines()] == shown


def test_script_does_not_follow_the_locale(tmp_path):
    """The install script is the same in a locale where I is no capital of i: verify() reads words of the script."""
    run(["localedef", "-i", "tr_TR", "-f", "UTF-8", str(tmp_path / "tr_TR.UTF-8")])
    tree = tmp_path / "tree"
    shutil.copytree(TOP / "sql", tree / "sql", ignore=shutil.ignore_patterns("build"))
    (tree / "extension").mkdir()
    for file in ("Makefile", "extension/kube_reports.control"):
        shutil.copy(TOP / file, tree / file)
    run(["make", "sql/build/made.sql"], cwd=tree,
        env={**os.environ, "LOCPATH": str(tmp_path), "LC_ALL": "tr_TR.UTF-8"})
    kinds = set(re.findall(r"^\t\t\('(\w+)', ", (tree / "sql/build/made.sql").read_text(), re.M))
    assert kinds == {"index", "trigger"}
