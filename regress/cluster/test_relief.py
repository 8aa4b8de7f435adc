"""The small run of make bench-relief that docs/performance.md names shows how much less etcd has to store."""

import json
import re
import shlex

from client import run
from conftest import TOP


def test_bench_relief():
    page = (TOP / "docs" / "performance.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^(make bench-relief REPORTS=\d+)", page, re.M)
    count = int(command.rpartition("=")[2])
    printed = run(shlex.split(command), cwd=TOP, timeout=1200).out
    tables, _, last = printed.strip().rpartition("\n")
    assert f"| policy reports that kube-apiserver counts in etcd | {count} | none |" in tables
    sides = json.loads(last)
    crd, proxy = sides["crd"], sides["proxy"]
    assert [point["reports"] for point in crd["points"]] == [point["reports"] for point in proxy["points"]]
    # etcd has a key for each report, and the keys that a fresh cluster has, too.
    assert crd["points"][-1]["etcd_keys"] > count > proxy["points"][-1]["etcd_keys"]
    assert crd["points"][-1]["etcd_mib"] > proxy["points"][-1]["etcd_mib"]
    assert proxy["points"][-1]["database_mib"] > proxy["points"][0]["database_mib"]
    # Both sides answer the same lists.
    assert crd["lists"].keys() == proxy["lists"].keys()
    assert crd["lists"]["all, in pages of 500"]["pages"] == proxy["lists"]["all, in pages of 500"]["pages"]
