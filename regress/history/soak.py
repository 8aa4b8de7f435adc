#!/usr/bin/python3
"""Writes, watches, lists and resumes during faults, then checks every record against the shadow log.

    regress/history/soak.py                          ten minutes, longer when the machine is slow: every fault, and
                                                     enough events of each kind
    regress/history/soak.py --seconds 20 --quick     what make check does
    regress/history/soak.py --mutant no-lane-lock    succeeds when the checker finds the mutant
    regress/history/soak.py --mutant all
    regress/history/soak.py --mutant slow-compaction succeeds when the checker finds nothing: only times change

Exit code 1 when something is wrong, or when the run had too few events to mean anything.  With --keep the records stay.
"""

import argparse
import json
import multiprocessing
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "http"))

# pylint: disable=wrong-import-position
import checker
import nemesis
import readers
import shadow
import writers
from client import EPHR, POLR, path_of, until
from conftest import Database, Stack
from mutants import HARMLESS, MUTANTS, RESTORE_MUTANTS
from world import Records, document, now, random_of

# The number of events that a run must have.
FULL = {"events": 100_000, "resumes": 1000, "gone": 50, "conflicts": 1000, "bookmarks": 100}
# Number of events in which a mutant usually shows.  A mutant that needs two events at the same time may not show, and
# gets another run with another seed.
MUTANT = {"events": 1000}
MUTANT_RUNS = 3
# A run may last this many times its seconds, or these seconds if they are more, until it has these events.
PATIENCE, PATIENCE_SECONDS = 3, 120
QUICK = {"events": 2000, "resumes": 40, "gone": 3, "conflicts": 40, "bookmarks": 5, "lists": 40}


def work(role, index, threads, seed, directory, apis, connection, stop):
    """One process of the workload: several clients of one kind, each in a thread with connections of its own."""
    running = []
    for n in range(threads):
        number = index * 100 + n
        records = Records(directory / f"{role}-{number}.jsonl")
        rng = random_of(seed, role, number)
        own = [make() for make in apis]
        if role == "api-writer":
            client = writers.ApiWriter(number, own, records, rng)
        elif role == "sql-writer":
            client = writers.SqlWriter(50_000 + number, connection, records, rng)
        elif role == "watcher":
            client = readers.Watcher(own, records, rng)
        else:
            client = readers.Lister(own, records, rng)
        running.append(threading.Thread(target=attempt, args=(client, stop, records)))
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def attempt(client, stop, records):
    """Runs a client.  If the client fails, writes a record with which the run cannot pass."""
    try:
        client.run(stop)
    except Exception:  # shown at the end of the run
        records.write("failed", why=traceback.format_exc())


def time_out(options, mutant, troubles, directory, stop):
    """Ends the run when its time is over; the run continues for some time when it has too few events."""
    begun = time.monotonic()
    while not stop.wait(0.5):
        past = time.monotonic() - begun
        if past >= options.seconds and (past >= max(PATIENCE * options.seconds, PATIENCE_SECONDS) or
                                        enough(options, mutant, troubles, directory)):
            stop.set()


def enough(options, mutant, troubles, directory):
    if mutant:
        return written(directory) >= MUTANT["events"]
    return written(directory) >= (QUICK if options.quick else FULL)["events"] and not troubles.missing(options.demanded)


def written(directory):
    """Returns about the number of events in the records: successful writes, one in a line."""
    return int(subprocess.run("cat *writer-*.jsonl | grep -c '\"outcome\":\"ok\"'", shell=True, cwd=directory,
                              capture_output=True, text=True, check=False).stdout or 0)


def compact(stack, stop):
    """Compacts the log every second."""
    while not stop.wait(1):
        stack.database.psql("SELECT kube_reports_internal.compact()", check=False)


def see_floors(stack, stop, records):
    """Notes the visible floors, again and again: the checker compares answers only with floors that were seen."""
    while not stop.wait(0.3):
        seen = stack.database.psql("SELECT json_object_agg(shadow.lane_name(l.id), l.floor) FROM "
                                   "kube_reports_internal.lane l",
                                   check=False)
        if seen.code == 0:
            records.write("floors", floors=json.loads(seen.out), ended=now())


class Connect:
    """Makes a client of a proxy; can be passed to another process."""

    def __init__(self, proxy, keep):
        self.port, self.pki, self.keep = proxy.port, proxy.pki, keep

    def __call__(self):
        from client import Api
        return Api(self.port, f"{self.pki}/ca.crt", f"{self.pki}/admin", self.keep)


def still_alive(proxies):
    """At the end: an event of one proxy reaches a watcher of every other proxy."""
    for n, watching in enumerate(proxies):
        for lane in (POLR, EPHR):
            version = until(lambda: watching.api().get(path_of(lane), limit="1").json,
                            30)["metadata"]["resourceVersion"]
            with watching.api().watch(path_of(lane), resourceVersion=version) as watch:
                writing = proxies[(n + 1) % len(proxies)].api()
                name = f"alive-{n}"
                assert writing.post(path_of(lane, "ns-2"), document(lane, "ns-2", name, n, {})).code == 201
                watch.expect(("ADDED", name))


def run(options, mutant=None):
    """Does one run; returns (counts, complaints)."""
    stack = Stack()
    directory = pathlib.Path(tempfile.mkdtemp(prefix="kube-reports-history-"))
    stop = multiprocessing.Event()
    processes = []
    stack.spare = None
    try:
        stack.settings = ()
        stack.begin()
        database = stack.database
        stack.spare = Database()
        # The retention is short, so that the log does not have the versions of clients that were away for long.
        database.psql(f"SELECT kube_reports.set_setting('log_retention', '{checker.RETENTION // 1000} microseconds')")
        shadow.install(database)
        if mutant in MUTANTS or mutant in HARMLESS:
            (MUTANTS | HARMLESS)[mutant](database)
        # Connect to the server of the two that accepts writes.
        hosts = (f"host={database.directory},{stack.spare.directory} port=5432,5432 dbname=kube_reports "
                 "target_session_attrs=read-write")
        flags = []
        if options.standby_reads:
            stack.spare.follow(database)
            flags.append(f"--read-database={stack.spare.connection('kube_reports_proxy')}")
        proxies = [stack.proxy(connection=f"{hosts} user=kube_reports_proxy connect_timeout=3", flags=flags)
                   for _ in range(2)]
        kept = [Connect(proxy, True) for proxy in proxies]
        fresh = [Connect(proxy, False) for proxy in proxies]
        roles = [("api-writer", 6, kept), ("api-writer", 6, kept), ("sql-writer", 1, fresh), ("watcher", 8, fresh),
                 ("watcher", 8, fresh), ("lister", 3, kept)]
        for index, (role, threads, apis) in enumerate(roles):
            processes.append(multiprocessing.Process(
                target=work, args=(role, index, threads, options.seed, directory, apis,
                                   f"{hosts} user=kube_reports_owner", stop)))
        for process in processes:
            process.start()
        troubles = nemesis.Nemesis(stack, proxies, Records(directory / "nemesis.jsonl"),
                                   random.Random(options.seed), stop,
                                   10 if options.quick or mutant else 60, RESTORE_MUTANTS.get(mutant))
        threading.Thread(target=time_out, args=(options, mutant, troubles, directory, stop), daemon=True).start()
        threading.Thread(target=compact, args=(stack, stop), daemon=True).start()
        threading.Thread(target=see_floors, args=(stack, stop, Records(directory / "floors.jsonl")),
                         daemon=True).start()
        troubles.run(["restore"] if mutant in RESTORE_MUTANTS else [] if mutant else options.nemesis, options.pause)
        stop.wait()
        for process in processes:
            process.join(60)
            assert not process.is_alive(), "a client hangs"
        if not mutant:
            troubles.answers()
            still_alive(proxies)
        missing = [] if mutant else troubles.missing(options.demanded)
        histories = shadow.read(stack.database, troubles.lives)
        records = list(Records.read(directory))
        counts, complaints = checker.check(records, histories, options.standby_reads)
        failures = [record["why"] for record in records if record["what"] == "failed"]
        if failures:
            complaints["clients"] = failures[:3]
        if missing:
            complaints["nemesis"] = [f"{name} never came" for name in missing]
        counts["nemesis"] = troubles.done
        return counts, complaints
    finally:
        stop.set()
        for process in processes:
            # A process that is killed while it reads stop would keep the lock of stop, and the threads here would wait
            # for it.
            process.join(10)
            if process.is_alive():
                process.terminate()
        if stack.spare is not None:
            stack.spare.remove()
        stack.end()
        if options.keep:
            print(f"records are in {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)


def show(complaints):
    for check, found in complaints.items():
        for complaint in found:
            print(f"  {check}: {complaint}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--nemesis", help="names with commas, all of which must come, or none; all faults if not given")
    parser.add_argument("--pause", type=float, default=3, help="seconds between misfortunes")
    parser.add_argument("--mutant", help="a name of mutants.py, or all")
    parser.add_argument("--standby-reads", action="store_true",
                        help="the proxies read from a standby where they may; nothing fails over")
    parser.add_argument("--list-mutants", action="store_true")
    parser.add_argument("--quick", action="store_true", help="bars of a short run, in which not all faults need come")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    given = options.nemesis is not None
    options.nemesis = [name for name in (options.nemesis.split(",") if given else nemesis.ALL)
                       if name and name != "none" and
                       not (options.standby_reads and name in ("fail_over", "point_in_time"))]
    options.demanded = options.nemesis if given or not options.quick else []
    failed = False

    if options.list_mutants:
        print(*MUTANTS, *RESTORE_MUTANTS, *HARMLESS, sep="\n")
        return False
    if options.mutant:
        for name in (*MUTANTS, *RESTORE_MUTANTS, *HARMLESS) if options.mutant == "all" else [options.mutant]:
            if name in HARMLESS:
                counts, complaints = run(options, name)
                print(f"harmless {name}: {'found' if complaints else 'not found'} among {counts['events']} events "
                      f"(seed {options.seed})")
                show(complaints)
                failed = failed or bool(complaints)
                continue
            for _ in range(MUTANT_RUNS):
                counts, complaints = run(options, name)
                # A client that failed has not found the mutant.
                found = complaints.keys() - {"clients"}
                print(f"mutant {name}: {'found' if found else 'NOT found'} among {counts['events']} events (seed "
                      f"{options.seed})")
                show({check: complaint[:1] for check, complaint in complaints.items()})
                if found:
                    break
                options.seed += 1
            failed = failed or not found
        return failed

    counts, complaints = run(options)
    print(f"seed {options.seed}: " + ", ".join(f"{value} {name}" for name, value in counts.items()))
    show(complaints)
    for name, least in (QUICK if options.quick else FULL).items():
        if counts[name] < least:
            print(f"  too gentle: {counts[name]} {name}, at least {least} are needed")
            failed = True
    return failed or bool(complaints)


if __name__ == "__main__":
    sys.exit(main())
