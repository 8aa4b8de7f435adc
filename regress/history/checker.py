"""Checks the records of a run against the shadow log.

Each function of CHECKS checks promises of docs/architecture/store.md ("What is promised", I1 to I11), and yields a text
for each violation.
"""

import bisect
from collections import defaultdict

from world import matches

# The database's clock counts microseconds, and the time of a change is taken before the change is visible.
TICK = 1000

# How long the log of a run is kept, in nanoseconds.
RETENTION = 1_500_000_000

# Within this time after the floors of a restored database are visible, clients use that database.
SETTLED = 2_000_000_000


def sorted_key(key):
    namespace, name = key.split("/")
    return namespace.encode(), name.encode()


def last_version(watch):
    """Returns the newest version that a stream has sent, or with which it began."""
    return max([watch["resumed"], *(event[1] for event in watch["events"][-1:]),
                *(version for _, version in watch["bookmarks"])])


class Run:
    def __init__(self, records, histories, standby_reads=False):
        self.histories = histories
        # A standby that lags still has rows that the primary has compacted.
        self.floors_lag = standby_reads
        self.writes, self.watches, self.lists, self.gets = [], [], [], []
        places = {"write": self.writes, "watch": self.watches, "list": self.lists, "get": self.gets}
        for record in records:
            if record["what"] in places:
                places[record["what"]].append(record)
        # A floor is valid for all readers when its transaction has committed, which may be long after it was set.
        # So it counts from the time when a reader saw it.
        self.seen_floors = defaultdict(list)
        for record in records:
            if record["what"] == "floors":
                for lane, floor in record["floors"].items():
                    self.seen_floors[lane].append((record["ended"], floor))
        self.known = self.answered(self.writes + self.lists, self.watches)
        # A standby may show a commit a moment before the primary does: it replays the record while the primary's
        # session has not yet ended its transaction (docs/howto.md).  So a read at the primary is compared only with
        # answers of the primary.
        self.known_at_primary = self.known
        if standby_reads:
            recent = [listed for listed in self.lists if listed["match"] == "recent"]
            self.known_at_primary = self.answered(self.writes + recent, [])

    def answered(self, requests, watches):
        """Returns the times of answers with a version, and the newest version at each time, lane by lane."""
        known = {}
        for lane in self.histories:
            seen = sorted((record["ended"], record["version"]) for record in requests
                          if record["lane"] == lane and record.get("version") and record["code"] in (0, 200, 201)
                          and record["outcome"] in ("ok", "whole"))
            seen += [(watch["ended"], last_version(watch)) for watch in watches if watch["lane"] == lane
                     and watch["started"]]
            seen.sort()
            times, newest = [], []
            for time, version in seen:
                times.append(time)
                newest.append(max(version, newest[-1] if newest else 0))
            known[lane] = (times, newest)
        return known

    def known_before(self, lane, time, known=None):
        """Returns the newest version of the lane in any answer before a time."""
        times, newest = (known or self.known)[lane]
        place = bisect.bisect_left(times, time)
        return newest[place - 1] if place else 0

    def floor_range(self, lane, begun, ended):
        """Returns the lowest and the highest floor that a request between these times may have met."""
        floors = self.histories[lane].floors
        if not floors:
            return None, None
        low, high = floors[0][1], floors[0][1]
        for at, floor in self.seen_floors[lane]:
            if at < begun - SETTLED:
                low = max(low, floor)
        for at, _, new_floor in floors:
            if at - TICK <= ended:
                high = max(high, new_floor)
        return low, high


def one_log(run):
    """I1, I4: versions are unique and grow, and the old state in a change is the state that it replaced."""
    for lane, history in run.histories.items():
        if len(set(history.versions)) != len(history.versions):
            yield f"{lane}: a version was given twice"
        for key, of_key in history.of_key.items():
            before = None
            for change in of_key:
                exists = before is not None and before.operation != "D"
                if change.restored:
                    pass
                elif (change.operation == "A") == exists:
                    yield f"{lane} {key}: {change.operation} at {change.version} after {before and before.operation}"
                elif exists and change.old_version != before.shown:
                    yield f"{lane} {key}: {change.version} replaced {change.old_version}, not {before.shown}"
                before = change
            stored = history.stored.get(key)
            expected = before.shown if before.operation != "D" else None
            if (stored and stored[0]) != expected:
                yield f"{lane} {key}: stored at {stored and stored[0]}, logged at {expected}"
        for key in history.stored.keys() - history.of_key.keys():
            yield f"{lane} {key}: stored and never logged"


def restores(run):
    """
    I10, I9: after a restore every new version is above all earlier versions, and these are below the floor.
    """
    for lane, history in run.histories.items():
        if history.versions != sorted(history.versions):
            yield f"{lane}: versions went back"
        for restore in history.restores:
            if restore.base is None:
                yield f"{lane}: the dump of {restore.dumped} was restored and no floor was raised"
                continue
            given = run.known_before(lane, restore.at - TICK)
            if restore.base <= given:
                yield f"{lane}: the floor after a restore is {restore.base}, {given} had been answered"


def answers_are_logged(run):
    """I3, I4: an answered write is in the log with its version; a refused or rolled back write is not in the log."""
    nonces = {lane: {change.nonce: change for change in history.changes if change.operation != "D"}
              for lane, history in run.histories.items()}
    deletions = {lane: defaultdict(int) for lane in run.histories}
    for lane, history in run.histories.items():
        for change in history.changes:
            if change.operation == "D":
                deletions[lane][change.key] += 1
    deleted = {lane: defaultdict(lambda: [0, 0]) for lane in run.histories}
    for write in run.writes:
        lane, change = write["lane"], nonces[write["lane"]].get(write["nonce"])
        if write["kind"] in ("delete", "guarded", "sql delete"):
            count = deleted[lane][write["key"]]
            count[0] += write["outcome"] == "ok"
            count[1] += write["outcome"] == "unknown"
        elif write["outcome"] == "ok" and change is None:
            yield f"{lane} {write['key']}: answered at {write['version']}, not in the log"
        elif write["outcome"] == "ok" and write["version"] not in (None, change.version):
            yield f"{lane} {write['key']}: answered at {write['version']}, logged at {change.version}"
        elif write["outcome"] == "fail" and change is not None:
            yield f"{lane} {write['key']}: refused with {write['code']}, logged at {change.version}"
    for lane, of_key in deleted.items():
        for key in of_key.keys() | deletions[lane].keys():
            sure, unsure = of_key[key]
            if not sure <= deletions[lane][key] <= sure + unsure:
                yield f"{lane} {key}: {sure} deletions answered, {unsure} unknown, {deletions[lane][key]} logged"


def real_time(run):
    """I11, I10: a write that was answered before another one was sent has the smaller version."""
    for write in run.writes:
        if write["outcome"] == "ok" and write["version"]:
            before = run.known_before(write["lane"], write["begun"])
            if write["version"] <= before:
                yield f"{write['lane']} {write['key']}: written at {write['version']} after {before} had been answered"


def swaps(run):
    """I11: a compare-and-swap succeeds exactly when its version was the newest of the object."""
    for write in run.writes:
        if write["compared"] is None:
            continue
        history = run.histories[write["lane"]]
        if write["outcome"] == "ok" and write["kind"] == "guarded":
            if not any(change.operation == "D" and change.old_version == write["compared"]
                       for change in history.of_key[write["key"]]):
                yield (f"{write['lane']} {write['key']}: deleted at {write['compared']}, and no deletion of that is "
                       "logged")
        elif write["outcome"] == "ok" and write["version"]:
            change = history.by_version.get(write["version"])
            if change is not None and change.old_version != write["compared"]:
                yield (f"{write['lane']} {write['key']}: {write['compared']} swapped for {write['version']}, was "
                       f"{change.old_version}")
        elif write["code"] == 409:
            versions = history.key_versions.get(write["key"], [])
            place = bisect.bisect_right(versions, write["compared"])
            if place and versions[place - 1] == write["compared"]:
                following = history.of_key[write["key"]][place] if place < len(versions) else None
                if following is None or following.at - TICK > write["ended"]:
                    yield f"{write['lane']} {write['key']}: {write['compared']} was the newest and refused"
            last = history.of_key[write["key"]][-1] if versions else None
            if last is not None and last.restored and last.shown == write[
                "compared"] and last.at + SETTLED < write["begun"]:
                yield f"{write['lane']} {write['key']}: {write['compared']} was restored and refused"


def existence(run):
    """
    I11: a create is refused only when the object exists, and other writes only when the object does not exist;
    successful writes fit the state before them.
    """
    operations = {"create": "A", "replace": "M", "swap": "M", "patch": "M", "jsonpatch": "M",
                  "sql insert": "A", "sql update": "M",
                  "sql create": "A", "sql swap": "M", "sql patch": "M"}
    for write in run.writes:
        of_key = run.histories[write["lane"]].of_key.get(write["key"], [])
        where = f"{write['lane']} {write['key']}: {write['kind']}"
        if write["outcome"] == "ok" and write["version"]:
            change = run.histories[write["lane"]].by_version.get(write["version"])
            if change is not None and change.operation != operations[write["kind"]]:
                yield f"{where} at {write['version']} is logged as {change.operation}"
        elif write["kind"] == "create" and write["code"] == 409 or write["kind"] != "create" and write["code"] == 404:
            # (start, whether the object existed): each state lasts until the next one is visible.
            states = [(0, False), *((change.at, change.operation != "D") for change in of_key)]
            ends = [at for at, _ in states[1:]] + [write["ended"]]
            if not any(there == (write["code"] == 409) and at - TICK <= write["ended"]
                       and end + SETTLED >= write["begun"]
                       for (at, there), end in zip(states, ends)):
                yield (f"{where} was answered {write['code']}, and "
                       f"{'nothing' if write['code'] == 409 else 'something'} was there")


def expected_events(history, namespace, selector, after, upto):
    for change in history.between(after, upto):
        if namespace is not None and not change.key.startswith(namespace + "/"):
            continue
        was = change.operation != "A" and matches(selector, change.old_labels)
        is_now = change.operation != "D" and matches(selector, change.labels)
        if is_now:
            yield ["MODIFIED" if was else "ADDED", change.version, change.key, change.nonce]
        elif was:
            yield ["DELETED", change.version, change.key, change.old_nonce]


def shown(history, namespace, selector, version):
    """Returns the items of a list at a version, in order: (version, key, nonce)."""
    found = [(change.shown, key, change.nonce) for key, change in history.state(version).items()
             if (namespace is None or key.startswith(namespace + "/")) and matches(selector, change.labels)]
    return sorted(found, key=lambda item: sorted_key(item[1]))


def streams(run):
    """I5, I6: a watch gets exactly the events that concern it, in order, and bookmarks only after them."""
    for watch in run.watches:
        if watch["code"] != 200 or not watch["started"]:
            continue
        history = run.histories[watch["lane"]]
        where = f"{watch['lane']} {watch['namespace']} [{watch['selector']}] from {watch['resumed']}"
        events = watch["events"]
        last = last_version(watch)
        for restore in history.restores:
            if restore.base is not None and watch["resumed"] < restore.base <= last:
                yield f"{where}: went on to {last}, over the restore at {restore.base}"
        expected = list(expected_events(history, watch["namespace"], watch["selector"], watch["resumed"], last))
        if events != expected:
            for n in range(max(len(events), len(expected))):
                got = events[n] if n < len(events) else None
                wanted = expected[n] if n < len(expected) else None
                if got != wanted:
                    yield f"{where}: event {n} is {got}, expected {wanted}"
                    break
        for count, version in watch["bookmarks"]:
            if any(event[1] > version for event in events[:count]) or any(event[1] <= version
                for event in events[count:]):
                yield f"{where}: the bookmark {version} is out of order"
        if watch["initial_events"]:
            wanted = [["ADDED", *item] for item
                      in shown(history, watch["namespace"], watch["selector"], watch["resumed"])]
            if watch["initial"] != wanted:
                yield f"{where}: {len(watch['initial'])} initial events, expected {len(wanted)}, or others"
            before = run.known_before(watch["lane"], watch["begun"])
            if watch["resumed"] < before:
                yield f"{where}: the initial events are older than {before}, which had been answered"


def lists(run):
    """
    I7, I8: a list, whole or in pages, is the state at its version; a list without a version is not older than earlier
    answers.
    """
    for listed in run.lists:
        where = (f"{listed['lane']} {listed['namespace']} [{listed['selector']}] {listed['match']} at "
                 f"{listed['version']}")
        if listed["outcome"] in ("another version", "page too short"):
            yield f"{where}: {listed['outcome']}"
        if listed["outcome"] != "whole":
            continue
        history = run.histories[listed["lane"]]
        wanted = shown(history, listed["namespace"], listed["selector"], listed["version"])
        got = [tuple(item) for item in listed["items"]]
        if got != wanted:
            yield f"{where}: {len(got)} items, expected {len(wanted)}; first difference " \
                f"{next((pair for pair in zip(got, wanted) if pair[0] != pair[1]), None)}"
        if listed["match"] == "Exact" and listed["version"] != listed["asked"]:
            yield f"{where}: asked for exactly {listed['asked']}"
        if listed["match"] == "NotOlderThan" and listed["version"] < listed["asked"]:
            yield f"{where}: older than {listed['asked']}"
        if listed["match"] == "recent":
            before = run.known_before(listed["lane"], listed["begun"], run.known_at_primary)
            if listed["version"] < before:
                yield f"{where}: older than {before}, which had been answered"


def gets(run):
    """I11: a get shows at least the state that had been answered when the get was sent."""
    for got in run.gets:
        if got["code"] not in (200, 404):
            continue
        history = run.histories[got["lane"]]
        before = run.known_before(got["lane"], got["begun"], run.known_at_primary)
        if got["code"] == 200:
            version, key, nonce = got["state"]
            change = history.by_version.get(version)
            if change is None or (change.key, change.nonce) != (key, nonce):
                yield f"{got['lane']} {got['key']}: got {version}, which is not in the log"
                continue
            of_key = history.of_key[key]
            # The object had this state at some later time: no change had followed, or a restore brought the state back.
            if not any(state.shown == version and (n + 1 == len(of_key) or of_key[n + 1].version > before)
                       for n, state in enumerate(of_key)):
                yield (f"{got['lane']} {got['key']}: got {version}, which was over at {before}, and that had been "
                       "answered")
        elif history.at(got["key"], before) is not None and \
                not any(change.operation == "D" and change.version > before for change in history.of_key[got["key"]]):
            yield f"{got['lane']} {got['key']}: not found, and never deleted after {before}"


def refused_as_expired(watch):
    """Whether the first event of a watch is an ERROR that says that its version is too old."""
    return watch["end"] == "error 410" and not (watch["initial"] or watch["events"] or watch["bookmarks"])


def expiry(run):
    """I9: requests below the floor get 410, and other requests do not."""
    for request in run.watches + run.lists:
        if request["what"] == "watch":
            begun = request["begun"]
            asked = request["resumed"] if not request["initial_events"] else None
            gone = refused_as_expired(request)
            served = request["code"] == 200 and not gone
        else:
            # A further page asks for the version of the first page.
            begun = request["page_begun"]
            asked = request["version"] or (request["asked"] if request["match"] == "Exact" else None)
            gone, served = request["outcome"] == "refused" and request["code"] == 410, request["outcome"] == "whole"
        low, high = run.floor_range(request["lane"], begun, request["ended"])
        if request["what"] == "watch" and request["started"] and request["end"] == "error 410":
            known = last_version(request)
            if high is None or known >= high:
                yield (f"{request['lane']}: the stream from {request['resumed']} was told 410 at {known}, the floor "
                       f"was at most {high}")
        if asked is None:
            if gone:
                yield f"{request['lane']}: 410 for what asked for no version that may be gone"
            continue
        if gone and (high is None or asked >= high):
            yield f"{request['lane']}: 410 for {asked}, the floor was at most {high}"
        if served and not run.floors_lag and low is not None and asked < low:
            yield f"{request['lane']}: {asked} was served, the floor was at least {low}"


def retention(run):
    """I9: the floor only rises, and never above a change that is younger than the retention."""
    for lane, history in run.histories.items():
        bases = {restore.base for restore in history.restores}
        newest = 0
        for at, _, floor in history.floors:
            if floor < newest:
                yield f"{lane}: the floor fell from {newest} to {floor}"
            newest = floor
            if floor in bases:
                continue
            change = history.by_version.get(floor)
            if change is None:
                yield f"{lane}: the floor {floor} is no change"
            elif change.at + RETENTION > at + TICK:
                yield f"{lane}: {floor} was let go after {(at - change.at) / 1e6:.0f} ms"


CHECKS = (one_log, restores, answers_are_logged, real_time, swaps, existence, streams, lists, gets, expiry, retention)


def counts(run):
    """Returns the numbers of events: soak.py wants enough of some of them."""
    return {
        "events": sum(len(history.changes) for history in run.histories.values()),
        "writes": len(run.writes),
        "unknown": sum(write["outcome"] == "unknown" for write in run.writes),
        "conflicts": sum(write["compared"] is not None and write["code"] == 409 for write in run.writes),
        "streams": len(run.watches),
        "delivered": sum(len(watch["events"]) for watch in run.watches),
        "resumes": sum(watch["code"] == 200 and not watch["initial_events"] and not refused_as_expired(watch)
                       for watch in run.watches),
        # Without the bookmarks that end initial events.
        "bookmarks": sum(len(watch["bookmarks"]) - (watch["initial_events"] and watch["started"])
                         for watch in run.watches),
        "lists": sum(listed["outcome"] == "whole" for listed in run.lists),
        "gone": sum(map(refused_as_expired, run.watches)) + sum(listed["code"] == 410 for listed in run.lists),
    }


def check(records, histories, standby_reads=False, most=5):
    """Returns (counts, {check: [complaints]}), with at most this number of complaints of each check."""
    run = Run(records, histories, standby_reads)
    complaints = {}
    for one in CHECKS:
        found = []
        for complaint in one(run):
            found.append(complaint)
            if len(found) >= most:
                break
        if found:
            complaints[one.__name__] = found
        # When the log contradicts itself, it does not tell which answers clients should have got.
        if one is one_log and found:
            break
    return counts(run), complaints
