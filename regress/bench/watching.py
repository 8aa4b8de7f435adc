"""Watches: their delays, what an event costs for all workers, the memory of an idle watch."""

import json
import subprocess

from client import PARTIAL, POLR, path_of, run
from workbench import BUILD, row, scaled, seconds


def watchers(bench, ports, *options, wait=True):
    """Runs the watchers; what they saw, or the process when wait is off."""
    pki = bench.stack.pki
    command = [str(BUILD / "watchers"), f"--ports={','.join(map(str, ports))}", f"--ca={pki}/ca.crt",
               f"--certificate={pki}/admin.crt", f"--key={pki}/admin.key", *options, path_of(POLR, "%s")]
    if not wait:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return json.loads(run(command, timeout=900).out)


def bench_watch(bench):
    """watch-metadata, watch-objects:
    a thousand watchers at two proxies, beside two hundred that read nothing; every event to everyone it concerns."""
    ports = [bench.proxy.port, bench.stack.proxy().port]
    count, slow = scaled(1000, 50), scaled(200, 10)
    for name, rate, words, options in (
            ("watch-metadata", 20, "all namespaces", [f"--accept={PARTIAL}"]),
            ("watch-objects", 100, "1 write in 50", ["--namespaces=50"])):
        writes = int(rate * seconds(20))
        seen = watchers(bench, ports, f"--watchers={count + slow}", f"--slow={slow}", f"--writes={writes}",
                        f"--rate={rate}", *options)
        whole = (not seen["failed"] and seen["writes"] == writes
                 and seen["missing"] == seen["doubled"] == seen["ended"] == 0)
        row(name, f"{count:,} watchers, {rate} writes/s, {words}", seen["p99_ms"], seen["p50_ms"], "ms", None,
            "p99 under 250, none missed", whole and seen["p99_ms"] < 250, **seen)
        row(name + "-sends", f"{seen['events']:,} events sent in {seen['seconds']:.0f} s",
            seen["events"] / seen["seconds"], seen["bytes"] / seen["seconds"] / 1e6, "/s; MB", None, "reported", None)


def bench_feed(bench):
    """feed: 64 watchers at 8 workers: how often an event is rendered that each of these delivers."""
    proxy = bench.stack.proxy(flags=["--workers=8", "--database-connections=40"])
    rendered = ("kube_reports_feed_events_rendered_total", "kube_reports_watch_events_rendered_total")
    before, writes = sum(map(proxy.metric, rendered)), int(50 * seconds(10))
    seen = watchers(bench, [proxy.port], "--watchers=64", f"--writes={writes}", "--rate=50")
    each = (sum(map(proxy.metric, rendered)) - before) / writes
    whole = not seen["failed"] and seen["writes"] == writes and seen["missing"] == seen["doubled"] == seen["ended"] == 0
    row("feed", "64 watchers, 8 workers: renderings of an event", each, None, "", None, "at most 1.02, none missed",
        whole and each <= 1.02, **seen)
    proxy.stop()


def bench_idle(bench):
    """idle-watch: memory of the proxy for a watch that nothing happens to."""
    count = scaled(5000, 200)
    # What a worker allocates once shall not count.
    warm = watchers(bench, [bench.proxy.port], "--watchers=50", wait=False)
    assert warm.stdout.readline() == "ready\n"
    before = bench.proxy.memory("VmRSS")
    idle = watchers(bench, [bench.proxy.port], f"--watchers={count}", wait=False)
    assert idle.stdout.readline() == "ready\n"
    each = (bench.proxy.memory("VmRSS") - before) / count / 1024
    for process in (warm, idle):
        process.communicate(timeout=60)
    row("idle-watch", f"{count:,} idle watchers", each, None, "KiB", None, "at most 32", each <= 32)
