"""
client-go's informers through the aggregator: the tests of regress/clients, with this control plane as their stack.

Dynamic, metadata and typed informers, RetryWatcher and controller-runtime's cache follow writers, with plain lists and
with WatchList; so do Kyverno's and Policy Reporter's ways of reading, while proxies are restarted one after the other.
"""

import os
import re
import subprocess

import pytest

from conftest import TOP

CLIENTS = TOP / "regress" / "clients"
TESTS = ("TestChurn", "TestListFromCacheIsConsistent", "TestSharedInformerFactory", "TestHowInformersBegin",
         "TestListsAreNotStreamed", "TestStreamedState", "TestStreamedStateAsTable", "TestKyverno")


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    """The Go tests, compiled."""
    file = tmp_path_factory.mktemp("clients") / "clients.test"
    built = subprocess.run(["go", "test", "-c", "-o", str(file), "."], cwd=CLIENTS, capture_output=True, text=True,
                           env={**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}, check=False)
    assert built.returncode == 0, built.stderr
    return file


@pytest.mark.parametrize("watch_list", [False, True], ids=["list", "watchlist"])
def test_informers(suite, watch_list):
    done = subprocess.run(
        [str(suite), "-test.v", f"-test.run=^({'|'.join(TESTS)})$", "-test.timeout=20m"], cwd=CLIENTS,
        capture_output=True, text=True, timeout=1300, check=False,
        env={**os.environ, "STACK": str(TOP / "regress" / "cluster" / "clients_stack.py"), "KYVERNO_SECONDS": "30",
             "KUBE_WATCHLIST_INCONSISTENCY_DETECTOR": "true", "KUBE_LIST_FROM_CACHE_INCONSISTENCY_DETECTOR": "true",
             "KUBE_FEATURE_WatchListClient": str(watch_list).lower()})
    outcomes = dict(reversed(pair) for pair in re.findall(r"^--- (\w+): (\w+)", done.stdout, re.M))
    told = "\n".join(line for line in done.stdout.splitlines()
                     if not line.startswith(("=== ", "--- PASS"))) + done.stderr[-3000:]
    assert done.returncode == 0 and set(outcomes.values()) == {"PASS"}, f"{told[:3000]}\n...\n{told[-1000:]}"
    assert sorted(outcomes) == sorted(TESTS)
