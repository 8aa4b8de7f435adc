"""The benchmarks of DESIGN section 8, each beside its baseline in the same run.

Run by make bench.  A row below its bar is marked FAIL and makes the exit status 1.
"""

import json
import os
import pathlib
import signal
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "http"))

from conftest import free_port, stack_command  # noqa: E402
import clusters  # noqa: E402
import creates  # noqa: E402
import forward  # noqa: E402
import indexes  # noqa: E402
import move  # noqa: E402
import questions  # noqa: E402
import reads  # noqa: E402
import scale  # noqa: E402
import storage  # noqa: E402
import variant  # noqa: E402
import watching  # noqa: E402
from workbench import OUTPUT, SCALE, WANTED, Bench, note, row, rows, scaled  # noqa: E402


def bench_forward(bench):
    forward.measure(bench, row, scaled(10), free_port())


def bench_variant(bench):
    variant.measure(bench, row, scaled(4000, 200))


def bench_scale(bench):
    """scale: every step among 10, 100 and 1,000 thousand reports; BENCH_SIZES names others."""
    sizes = [int(size) for size in os.environ.get("BENCH_SIZES", "").split()]
    scale.measure(bench, row, sizes or [scaled(10000, 500), scaled(100000, 1500), scaled(1000000, 3000)])


def bench_fleet(bench):
    """fleet-*: 2, 5 and 10 clusters of 5,000 pods, and the slope; BENCH_CLUSTERS names other numbers of them."""
    clusters.measure(bench, row, clusters.sizes(os.environ.get("BENCH_CLUSTERS", ""), [2, 5, 10]),
                   scaled(clusters.PODS, 50))


BENCHMARKS = {
    "list": reads.bench_list, "list-rate": reads.bench_list_rate, "create": creates.bench_create,
    "results": creates.bench_results, "cost": creates.bench_cost, "disk": storage.bench_disk,
    "indexes": indexes.bench_indexes, "turnover": storage.bench_turnover, "analytics": questions.bench_analytics,
    "score": questions.bench_score, "questions": questions.bench_questions,
    "page": reads.bench_page, "lookup": reads.bench_lookup, "watch": watching.bench_watch,
    "feed": watching.bench_feed, "idle": watching.bench_idle, "growth": storage.bench_growth,
    "backlog": storage.bench_backlog, "move": move.bench_move, "sizing": creates.bench_sizing, "forward": bench_forward,
    "scale": bench_scale, "fleet": bench_fleet, "variant": bench_variant}
# Take long: only where they are named.
LONG = {"scale", "fleet"}


def main():
    unknown = set(WANTED) - set(BENCHMARKS)
    if unknown:
        sys.exit(f"no such rows: {' '.join(sorted(unknown))}; there are {' '.join(BENCHMARKS)}")
    # Everything is cleaned up on the way out.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    started = time.time()
    print(f"{'row':<18} {'workload':<44} {'measured':>12} {'baseline':>12} {'unit':<6} {'ratio':>7}  bar")
    for name, benchmark in BENCHMARKS.items():
        if name not in (WANTED or BENCHMARKS.keys() - LONG):
            continue
        # Each benchmark has a server of its own, so that the remains of one do not change the next.
        bench = Bench()
        try:
            benchmark(bench)
        finally:
            bench.end()
    with open(OUTPUT, "w", encoding="utf-8") as file:
        json.dump({"scale": SCALE, "started": int(started), "seconds": round(time.time() - started),
                   "processors": os.cpu_count(),
                   "postgresql": stack_command("server_version"), "rows": rows}, file, indent=1)
        file.write("\n")
    note(f"JSON in {OUTPUT}")
    sys.exit(any(result["passed"] is False for result in rows))


if __name__ == "__main__":
    main()
