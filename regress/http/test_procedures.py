"""
Each block of the pages, and each command in a sentence, is run by a test exactly as it stands there, or has a reason
why not (procedures.py).
"""

import re

import pytest

from client import run
from conftest import TOP
from procedures import COMMANDS, GOALS, NAMES, PAGES_WITHOUT_COMMANDS, PROCEDURES, Reason
from runbook import blocks_of

BLOCKS = {str(path.relative_to(TOP)): blocks_of(path.relative_to(TOP))
          for path in (TOP / "README.md", *sorted((TOP / "docs").rglob("*.md")), TOP / "helm/kube-reports/README.md")}
PROGRAMS = ("kubectl|helm|psql|pg_\\w+|pgbench|initdb|createdb|createuser|vacuumdb|systemctl|systemd-\\w+|journalctl|"
            "apt-get|apt|dpkg\\S*|make|kube-reports-\\w+|etcdctl|curl|openssl|printf|perf|docker|podman|buildah|git")
# Where tests read the pages through a tool: the tool reads the page.
TOOLS = {"block": ("README.md", "docs/operations.md"), "by_the_page": ("docs/operations.md",),
         "section": ("docs/howto.md",), "documents": ("docs/security.md",)}


def lines_for(page, language, text):
    """The lines of a page that name a block: those of its own, else that of its language."""
    lines = PROCEDURES.get(page, {})
    own = [key for key in lines if not key.startswith("```") and key in text]
    return own or [key for key in lines if key == f"```{language}"]


@pytest.mark.parametrize("page", [page for page, blocks in BLOCKS.items() if blocks])
def test_each_block_is_named(page):
    """Once; no line names two blocks, but those of a language, and none names nothing"""
    used = []
    for language, text in BLOCKS[page]:
        lines = lines_for(page, language, text)
        assert len(lines) == 1, f"{page}: {lines} in procedures.py for this block:\n{text}"
        used += lines
    assert sorted(set(used)) == sorted(PROCEDURES[page])
    assert [key for key in set(used) if used.count(key) > 1 and not key.startswith("```")] == []


def test_there_are_the_pages():
    assert set(PROCEDURES) == {page for page, blocks in BLOCKS.items() if blocks}


def in_sentences(page):
    """Returns the code outside of blocks that calls a program: with its name, there is an argument."""
    text = re.sub(r"^```.*?^```$", "", (TOP / page).read_text(encoding="utf-8"), flags=re.M | re.S)
    return {code for code in re.findall(r"`([^`\n]+)`", text)
            if re.match(rf"(\$ )?([A-Z_]+=\S+ )*({PROGRAMS}) ", code)}


def calls_make(code):
    return re.match(r"([A-Z_]+=\S+ )*make ", code)


@pytest.mark.parametrize("page", [page for page in BLOCKS if page not in PAGES_WITHOUT_COMMANDS])
def test_each_command_in_a_sentence_is_named(page):
    found = {code for code in in_sentences(page) if not calls_make(code)}
    assert found - NAMES == set(COMMANDS.get(page, {}))


def test_each_name_is_used():
    found = {code for page in BLOCKS if page not in PAGES_WITHOUT_COMMANDS for code in in_sentences(page)}
    assert NAMES <= found and PAGES_WITHOUT_COMMANDS | set(COMMANDS) <= set(BLOCKS)


@pytest.mark.parametrize("page", sorted({*PROCEDURES, *COMMANDS}))
def test_the_tests_are_there_and_read_the_page(page):
    for key, where in (*PROCEDURES.get(page, {}).items(), *COMMANDS.get(page, {}).items()):
        for name in [] if isinstance(where, Reason) else where.split():
            file, _, function = name.partition("::")
            text = (TOP / file).read_text(encoding="utf-8")
            assert re.search(rf"^(def )?{function}( = |\()", text, re.M), f"{page}, {key}: there is no {name}"
            reads = [tool for tool, pages in TOOLS.items() if page in pages and f"{tool}(" in text]
            assert reads or where == GOALS or page.rpartition("/")[2] in text, f"{name} does not read {page}"


def goals():
    """Each line of a page that calls make, without what is said of it, and each such command in a sentence."""
    for page, blocks in BLOCKS.items():
        for language, text in blocks:
            named = [PROCEDURES[page][line] for line in lines_for(page, language, text)]
            for line in [] if any(isinstance(where, Reason) for where in named) else text.splitlines():
                found = re.match(r"((?:[A-Z_]+=(?:\"[^\"]*\"|\S+) )*make(?: [^#&]*)?)", line)
                if found:
                    yield found[1].strip()
        if page not in PAGES_WITHOUT_COMMANDS:
            yield from filter(calls_make, in_sentences(page))


@pytest.mark.parametrize("line", sorted(set(goals())))
def test_goals(line):
    """make knows each goal, and its script each variable"""
    before, _, after = line.partition("make")
    run(["bash", "-c", f"{before} make --dry-run --no-print-directory {after}"], cwd=TOP)
    known = "".join((TOP / ".ci" / name).read_text(encoding="utf-8")
                    for name in ("check", "check-variant-sql", "fuzz-run", "bench-relief", "bench-peers",
                                 "bench", "check-oracle")) + run(
                        ["make", "help"], cwd=TOP).out
    assert [name for name in re.findall(r"\b([A-Z_]+)=", line) if name not in known] == []
