"""Runs commands that stand in the sentences of pages, exactly as they stand there."""

import os
import re
import subprocess

from client import POLR, report, run, until
from conftest import KUBECTLS, TOP, VERSION


def command(page, begin):
    """Returns the only command in the sentences of a page that begins with a text."""
    text = re.sub(r"^```.*?^```$", "", (TOP / page).read_text(encoding="utf-8"), flags=re.M | re.S)
    (found,) = {code for code in re.findall(r"`([^`\n]+)`", text) if code.startswith(begin)}
    return found.replace(r"\|", "|")


def environment(stack, directory):
    """Returns the environment of a user with kubectl, psql and the programs of kube-reports."""
    programs = directory / "bin"
    programs.mkdir(exist_ok=True)
    if not (programs / "kubectl").exists():
        (programs / "kubectl").symlink_to(next(path for path in reversed(KUBECTLS) if path))
    return {**os.environ, "PATH": f"{programs}:{stack.database.directory}/dest/usr/bin:{os.environ['PATH']}",
            "HOME": str(directory), "KUBECONFIG": stack.first.kubeconfig(), "PGHOST": stack.database.directory,
            "PGUSER": "kube_reports_owner", "PGDATABASE": "kube_reports"}


def shell(stack, directory, text):
    return run(["bash", "-c", text], cwd=directory, env=environment(stack, directory)).out


def test_watch(stack, ns, tmp_path):
    """README: kubectl shows a report that is created while it watches"""
    stack.first.api().create(POLR, report("before", ns), ns)
    with subprocess.Popen(["bash", "-c", "exec " + command("README.md", "kubectl get polr")], cwd=tmp_path,
                          env=environment(stack, tmp_path), stdout=subprocess.PIPE, text=True) as watching:
        def shown(name):
            """Reads the lines until that of a report; when kubectl ends, there are no more."""
            return next(line for line in watching.stdout if line.split()[:2] == [ns, name])
        try:
            shown("before")
            stack.first.api().create(POLR, report("after", ns), ns)
            shown("after")
        finally:
            watching.terminate()


def test_list_by_chunks(module_stack, tmp_path):
    """docs/operations.md, alerts: each page of one report is answered"""
    # The store of all tests has thousands of reports, and so many pages.
    module_stack.first = module_stack.proxy()
    for name in ("one", "two"):
        module_stack.first.api().create(POLR, report(name, "chunks"), "chunks")
    lines = shell(module_stack, tmp_path, command("docs/operations.md", "kubectl get polr")).splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["chunks", "one"], ["chunks", "two"]]


def test_page_for_people(stack, tmp_path):
    """README: psql writes the page"""
    shell(stack, tmp_path, command("README.md", "psql -X -A -t"))
    assert (tmp_path / "dashboard.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_spreadsheet(stack, ns, tmp_path):
    """docs/analytics.md: the query beside the command, in the place of its dots"""
    stack.first.api().create(POLR, report("r", ns, results=[{"policy": "p", "rule": "r", "result": "fail"}]), ns)
    page = (TOP / "docs" / "analytics.md").read_text(encoding="utf-8")
    copy = command("docs/analytics.md", "psql -c")
    query = page.partition(copy)[2].partition("```sql\n")[2].partition("```")[0]

    def rows():
        """In the variant in SQL, upkeep derives the results some time later."""
        shell(stack, tmp_path, copy.replace("...", " ".join(query.split()).rstrip(";")))
        head, *events = (tmp_path / "events.csv").read_text(encoding="utf-8").splitlines()
        assert head.split(",")[:4] == ["at", "cluster_name", "namespace", "policy"]
        return [event for event in events if event.split(",")[2] == ns]
    assert len(until(rows, 60, "the event")) == 1


def test_help_and_version(stack, tmp_path):
    """README, docs/forwarding.md, docs/contributing.md: the programs describe themselves"""
    for page, text, says in (("README.md", "kube-reports-proxy --help", "--secure-port"),
                             ("docs/forwarding.md", "kube-reports-grpc --help", "--max-message-bytes"),
                             ("docs/contributing.md", "kube-reports-proxy --version", VERSION)):
        assert says in shell(stack, tmp_path, command(page, text)), text
