"""The states of the items in docs/conformance.md agree with the tests.

A test has the ids of the items that it proves: in Python at the beginning of its docstring, in Go, JavaScript and Rust
in the comment above it.
"""

import ast
import collections
import pathlib
import re

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = TOP / "docs" / "conformance.md"

# All items: prefix, numbers.
ITEMS = """
MODEL 1-4  RV 1-6  AGG 1-4 10-22 30-35 40-41  DISC 1-6 10-18  OAPI 1-4 10-12 20-21  AUTHN 1-8 10-12  AUTHZ 1-4 10-14
ERR 1-4 10 20-24  REQ 1-12  CRE 1-14  FV 1-2  GET 1-3  LIST 1-4 10-13  PAGE 1-7  EXP 1  SEL 1-3 10-15  NEG 1-5
TAB 1-9  PART 1-5
UPD 1-9  PAT 1-8  JP 1-2  MP 1-3  MF 1-11  SSA 1-12  DEL 1-11  DC 1-8
W 1-6 10-12 20-21 30-32 40-41 50 60-61 70  WL 1-9  TR 1-10  ADM 1-4  WARN 1-2  AUD 1  APF 1
GC 1-8  NS 1-4  CTL 1-4  KC 1  INF 1-4  HL 1-5  LC 1-4  VER 1
"""

# HTTP/2 is off by default.
MUST_THAT_MAY_DIFFER = {"TR-01", "TR-02"}

ID = re.compile(r"\b([A-Z]{1,5})-(\d\d)(?: to [A-Z]{1,5}-(\d\d))?\b")
ROW = (re.compile(r"\| ([A-Z]+-\d\d) \| (MUST|SHOULD|NICE|fact) \| ([^|]+) \| (yes|no|n/a|differs: [^|]+) \| ([^|]*) "
                  r"?\|"))

Row = collections.namedtuple("Row", "id priority what state tests")


def items():
    """Returns the ids of ITEMS."""
    prefix, found = None, set()
    for word in ITEMS.split():
        if word.isalpha():
            prefix = word
            continue
        first, _, last = word.partition("-")
        found |= {f"{prefix}-{number:02}" for number in range(int(first), int(last or first) + 1)}
    return found


def ids_in(text):
    """Returns the ids in a comment; "A-01 to A-03" are three."""
    return {f"{prefix}-{number:02}" for prefix, first, last in ID.findall(text or "") if prefix in ITEMS.split()
            for number in range(int(first), int(last or first) + 1)}


def python_tests():
    for path in sorted((TOP / "regress" / "http").glob("test_*.py")):
        if path == pathlib.Path(__file__).resolve():
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield f"{path.name}::{node.name}", ids_in(ast.get_docstring(node))


def commented_tests():
    """
    Yields the tests of Go and Rust, which are functions, and of JavaScript, which are calls of test("name", ...), with
    the ids in the comment right above each.
    """
    for pattern, form in (("*_test.go", r"^func (Test\w+)\("), ("*.mjs", r"^test\(['\"]([^'\"]+)['\"]"),
                          ("tests/*.rs", r"^async fn (\w+)\(")):
        for path in sorted((TOP / "regress").rglob(pattern)):
            comment = []
            for line in path.read_text(encoding="utf-8").splitlines():
                named = re.match(form, line)
                if named:
                    yield named.group(1) if pattern.endswith(
                        ".go") else f"{path.name}::{named.group(1)}", ids_in(" ".join(comment))
                comment = comment + [line] if line.startswith("//") else []


@pytest.fixture(scope="module")
def tests():
    """The ids of each test."""
    return dict([*python_tests(), *commented_tests()])


@pytest.fixture(scope="module")
def rows():
    found = []
    for line in DOCUMENT.read_text(encoding="utf-8").splitlines():
        if re.match(r"\| [A-Z]+-\d", line):
            row = ROW.fullmatch(line)
            assert row, f"not a row: {line}"
            found.append(Row(*row.groups()[:4], re.findall(r"`([^`]+)`", row.group(5))))
    return found


def test_every_item_once(rows):
    counts = collections.Counter(row.id for row in rows)
    assert [item for item, count in counts.items() if count > 1] == []
    assert sorted(items() - set(counts)) == [] and sorted(set(counts) - items()) == []


def test_rows_name_their_tests(rows, tests):
    """A row with yes or differs names tests that have its id; a row with no or n/a names none."""
    wrong = []
    for row in rows:
        if bool(row.tests) is (row.state in ("no", "n/a")):
            wrong.append(f"{row.id}: {row.state} with {row.tests or 'no test'}")
        for test in row.tests:
            if row.id not in tests.get(test, ()):
                wrong.append(f"{row.id}: {test} " + ("does not carry it" if test in tests else "does not exist"))
    assert wrong == []


def test_tests_are_in_the_table(rows, tests):
    """Each id of a test is an item, and its row has neither no nor n/a."""
    state = {row.id: row.state for row in rows}
    assert [f"{test}: {item}" for test, carried in tests.items() for item in sorted(carried)
            if state.get(item, "no") in ("no", "n/a")] == []


def test_no_excuses(rows):
    assert [row.id for row in rows if row.state == "n/a" and row.priority != "fact"] == []
    assert [row.id for row in rows if row.priority == "MUST" and row.state.startswith("differs")
            and row.id not in MUST_THAT_MAY_DIFFER] == []


def test_differences_name_existing_tests(tests):
    """The last column of "Intended differences" has tests that exist, or none"""
    table = DOCUMENT.read_text(encoding="utf-8").partition("## Intended differences")[2].partition("\n## ")[0]
    last = [line.rpartition(" | ")[2].removesuffix(" |") for line in table.splitlines() if line.startswith("| ")][2:]
    assert len(last) > 15
    named = [test for column in last for test in re.findall(r"`([^`]+)`", column)]
    assert [column for column in last if column != "none" and "`" not in column] == []
    assert [test for test in named if test not in tests] == []
