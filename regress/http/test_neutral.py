"""The client of make bench-peers, and its table, with a proxy of the tests."""

import os
import sys

import pytest

from client import run
from conftest import TOP

sys.path.insert(0, str(TOP / "regress" / "bench"))

import neutral  # noqa: E402


@pytest.fixture(scope="module")
def figures(module_stack, tmp_path_factory):
    """The client, after it has measured a proxy that has only the client's reports."""
    run(["make", "-C", str(TOP), "-s", "bench-programs"], env={**os.environ, "MAKEFLAGS": ""}, timeout=300)
    client = neutral.Neutral(module_stack.proxy().port, f"{module_stack.pki}/ca.crt", f"{module_stack.pki}/admin",
                             tmp_path_factory.mktemp("neutral"))
    created = []
    client.measure(neutral.bodies(module_stack.database), 600, 1, created.append, writes=100)
    assert created == ["created"]
    return client


def test_client_finds_nothing_wrong(figures):
    # Without a kube-apiserver, a proxy takes every namespace as one that exists.
    assert figures.wrong == ["a report is created in a namespace that does not exist"]


def test_reports_are_counted(figures):
    assert figures.figures["reports"] == [600]


def test_bars():
    ours = {"update-8": [310, 30, 290], "update-8-latency": [10, 90, 9]}
    for rate, latency, passed in ((96, 20, [True, True]), (97, 20, [False, True]), (96, 19, [True, False])):
        other = {"update-8": [rate, 1, 1000], "update-8-latency": [1, latency, 1000]}
        assert [bar["passed"] for bar in neutral.bars(ours, other)] == passed
    assert [bar["times"] for bar in neutral.bars(ours, ours)] == [1, 1]


def test_table_has_every_measure(figures):
    slower = {name: [value * 2 for value in values] for name, values in figures.figures.items()}
    lines = list(neutral.table({"proxy": figures.figures, "other": slower}, "proxy"))
    assert lines[0] == "| | proxy | other |"
    assert [line.split(" | ")[0][2:] for line in lines[2:]] == [words for _, words, _, _ in neutral.MEASURES]
    assert [line.rsplit(", ", 1)[1] for line in lines[2:]] == [
        "0.5 times |" if more else "2 times |" for _, _, _, more in neutral.MEASURES]
