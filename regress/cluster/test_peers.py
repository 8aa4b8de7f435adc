"""The small run of make bench-peers that docs/performance.md names measures two sides and judges the bars."""

import json
import os
import re
import shlex
import sys

from client import run
from conftest import TOP

sys.path.insert(0, str(TOP / "regress" / "bench"))

import neutral  # noqa: E402


def test_bench_peers(tmp_path):
    page = (TOP / "docs" / "performance.md").read_text(encoding="utf-8")
    (command,) = re.findall(r'^(make bench-peers PEERS="proxy crd" REPORTS=\d+ ROUNDS=1)', page, re.M)
    count = int(re.search(r"REPORTS=(\d+)", command)[1])
    file = tmp_path / "peers.json"
    done = run(shlex.split(command), check=False, cwd=TOP, timeout=1200,
               env={**os.environ, "MAKEFLAGS": "", "PEERS_JSON": str(file)})
    assert file.exists(), done
    sides = json.loads(file.read_text(encoding="utf-8"))["sides"]
    assert list(sides) == ["proxy", "crd"], done
    proxy, crd = (sides[name]["figures"] for name in sides)
    assert proxy["reports"] == crd["reports"] == [count]
    assert [side["wrong"] for side in sides.values()] == [[], []]
    for side in sides.values():
        assert side["sizes"]["empty"]["disk"] < side["sizes"]["created"]["disk"]

    rows = [line.strip("| ").split(" | ") for line in done.out.splitlines() if line.startswith("| ")]
    assert rows[0] == ["proxy", "crd"]
    table = {row[0]: row[1:] for row in rows if len(row) == 3}
    for words in (*(words for _, words, _, _ in neutral.MEASURES), "at the end", "memory of the store",
                  "disk: the store when all are created"):
        assert re.fullmatch(r"[\d.,]+( ms|/s| MiB)", table[words][0]), table
        assert re.fullmatch(r"[\d.,]+( ms|/s| MiB), [\d.,]+ times", table[words][1]), table

    passed = [proxy["update-8"][0] >= 3 * crd["update-8"][0],
              2 * proxy["update-8-latency"][0] <= crd["update-8-latency"][0]]
    judged = rows[-2:]
    assert [row[0] for row in judged] == [words for _, _, words in neutral.BARS]
    assert [row[-1] for row in judged] == ["ok" if held else "FAIL" for held in passed]
    assert (done.code == 0) == all(passed), done
