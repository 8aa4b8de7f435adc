"""The same requests to any server of policy reports: how fast its answers are, and which of them are wrong.

One program sends all of them (load.c; watchers.c holds watches): HTTPS over connections that are kept, HTTP/1.1, the
same bytes for every server but for resource versions, which a server gives.
"""

import contextlib
import json
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "http"))

from client import POLR, Api, path_of, run  # noqa: E402

BUILD = HERE / "build"
# load puts the number of a request here.
NUMBERED = "10000000-0000-4000-8000-@@@@@@@@@@@@"
# Among so many reports one has a label's value.
SHARES = 100
PAGE = 500
CLIENTS = (8, 32)
# The items of a list need not say what they are.
KIND = {"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport"}
# A round's numbers begin at a multiple of this.
ROUND = 10 ** 6

# What is measured, in the order of the table: name, words, unit, whether more is better.
MEASURES = [
    ("list", "list of everything", "ms", False),
    ("label", f"list by label, one in {SHARES}", "ms", False),
    ("page", f"page, limit={PAGE}", "ms", False),
    ("get", "get, 8 clients", "/s", True),
    ("create-8", "create, 8 clients", "/s", True),
    ("create-32", "create, 32 clients", "/s", True),
    ("update-8", "update of a changed report, 8 clients", "/s", True),
    ("update-8-latency", "the same, median latency", "ms", False),
    ("watch-p50", "event after its write was sent, median", "ms", False),
    ("watch-p99", "the same, p99", "ms", False),
]
# What has to hold between ours and one other side: measure, how many times better ours has to be, words.
BARS = [
    ("update-8", 3, "update of a changed report, 8 clients: 3 times the rate"),
    ("update-8-latency", 2, "the same: half the median latency"),
]


def namespaces(rounds):
    """What has to be there before measure()."""
    return ["watch-0", *(f"peers-{clients}-{number}" for clients in CLIENTS for number in range(rounds))]


def bodies(database):
    """So many policy reports of 19 results, a line each, whose names load makes; database has the extension."""
    text = database.psql(f"""
        \\i {HERE}/generate.sql
        SELECT pg_temp.generated('pss', n, 'peers') FROM generate_series(1, {SHARES}) n""")
    made = []
    for number, line in enumerate(text.splitlines()):
        document = json.loads(line)
        document["metadata"] = {"name": NUMBERED, "labels": {**document["metadata"]["labels"],
                                                            "peers/share": f"s-{number}"}}
        made.append(json.dumps(document, separators=(",", ":")))
    assert len(made) == SHARES
    return made


def changed(document):
    """The same report when three of its results have another status, as a client that has read it sends it."""
    results = [{**result, "result": "fail" if result["result"] == "pass" else "pass"} if place < 3 else result
               for place, result in enumerate(document["results"])]
    return {**document, "results": results}


class Neutral:
    """A client of one server; figures are {measure: [a value for each round]}."""

    def __init__(self, port, ca, certificate, directory):
        """certificate is a path without .crt and .key, of a user that may do everything."""
        self.port, self.ca, self.certificate = port, ca, certificate
        self.directory = pathlib.Path(directory)
        self.figures = {}
        self.wrong = []

    def api(self):
        return Api(self.port, self.ca, self.certificate)

    def note(self, measure, value):
        self.figures.setdefault(measure, []).append(value)

    def load(self, path, *options):
        done = run([str(BUILD / "load"), f"--port={self.port}", f"--ca={self.ca}",
                    f"--certificate={self.certificate}.crt", f"--key={self.certificate}.key", *options, path],
                   timeout=900)
        result = json.loads(done.out)
        assert result["ok"] > 0 and not any(result[kind] for kind in ("other", "refused", "failed", "broken")), result
        return result

    def lines(self, name, documents):
        path = self.directory / name
        path.write_text("\n".join(documents) + "\n", encoding="utf-8")
        return path

    def measure(self, documents, count, rounds, created, writes=1000):
        """
        Everything, with count reports and so many writes for watches; documents are those of bodies();
        created("created") is called when all are there.
        """
        each = count // (len(CLIENTS) * rounds)
        self.create(self.lines("bodies", documents), each, rounds)
        created("created")
        self.read(each * len(CLIENTS) * rounds, rounds)
        self.get(each, rounds)
        self.update(each, rounds)
        self.check(each * len(CLIENTS) * rounds)
        self.watch(writes)

    def create(self, file, each, rounds):
        for number in range(rounds):
            for clients in CLIENTS:
                result = self.load(path_of(POLR, f"peers-{clients}-{number}"), "--method=POST", f"--bodies={file}",
                                   f"--connections={clients}", f"--requests={each}",
                                   f"--first-number={(number + 1) * ROUND}")
                self.note(f"create-{clients}", result["per_second"])

    def read(self, count, rounds):
        for measure, times, query in (("list", rounds, ""), ("label", rounds * 5, "labelSelector=peers%2Fshare%3Ds-7"),
                                      ("page", rounds * 3, f"limit={PAGE}")):
            for _ in range(times):
                result = self.load(f"{path_of(POLR)}?{query}", "--requests=1")
                self.note(measure, result["seconds"] * 1000)
            self.note(f"{measure}-bytes", result["bytes"])
        found = len(self.api().get(path_of(POLR), seconds=300).json["items"])
        assert found == count, f"{found} reports are listed, {count} were created"
        self.note("reports", found)

    def get(self, each, rounds):
        for number in range(rounds):
            result = self.load(path_of(POLR, f"peers-8-{number}", NUMBERED), "--connections=8", f"--requests={each}",
                               f"--first-number={(number + 1) * ROUND}")
            self.note("get", result["per_second"])

    def update(self, each, rounds):
        for number in range(rounds):
            namespace = f"peers-8-{number}"
            stored = self.api().get(path_of(POLR, namespace), seconds=300).json["items"]
            stored.sort(key=lambda document: document["metadata"]["name"])
            assert len(stored) == each
            file = self.lines("updates", (json.dumps({**KIND, **changed(document)}) for document in stored))
            result = self.load(path_of(POLR, namespace, NUMBERED), "--method=PUT", f"--bodies={file}",
                               "--connections=8", f"--requests={each}", f"--first-number={(number + 1) * ROUND}",
                               "--also=201")
            self.note("update-8", result["per_second"])
            self.note("update-8-latency", result["p50_ms"])

    def watch(self, writes, watchers=10, rate=100):
        """Watches of everything that begin after a list, as informers do, while small reports are created."""
        version = self.api().get(path_of(POLR), seconds=300).json["metadata"]["resourceVersion"]
        done = run([str(BUILD / "watchers"), f"--ports={self.port}", f"--ca={self.ca}",
                    f"--certificate={self.certificate}.crt", f"--key={self.certificate}.key",
                    f"--version={version}", f"--watchers={watchers}", f"--writes={writes}", f"--rate={rate}",
                    path_of(POLR, "%s")], timeout=600)
        seen = json.loads(done.out)
        assert not seen["failed"] and seen["writes"] == writes, seen
        self.note("watch-p50", seen["p50_ms"])
        self.note("watch-p99", seen["p99_ms"])
        self.note("watch-writes", seen["writes"] / seen["seconds"])
        wanted = watchers * writes
        if seen["missing"]:
            self.wrong.append(f"{seen['missing']:,} of {wanted:,} events never reach their watcher")
        if seen["doubled"]:
            self.wrong.append(f"{seen['doubled']:,} events come twice")
        if seen["ended"]:
            self.wrong.append(f"{seen['ended']} of {watchers} watches are ended")

    def check(self, count):
        """What else a client relies on, each by one request or two."""
        api, namespace = self.api(), path_of(POLR, "peers-8-0")
        page = api.get(path_of(POLR), seconds=300, limit=str(PAGE)).json
        if len(page["items"]) != min(PAGE, count):
            self.wrong.append(f"limit={PAGE} gives {len(page['items']):,} reports")
        elif count > PAGE:
            following = api.get(path_of(POLR), limit=str(PAGE), **{"continue": page["metadata"]["continue"]})
            names = {(item["metadata"]["namespace"], item["metadata"]["name"])
                     for item in page["items"] + following.json["items"]}
            if len(names) != min(2 * PAGE, count):
                self.wrong.append("the second page is not what follows the first")
        selected = api.get(path_of(POLR), seconds=300, labelSelector="peers/share=s-7").json["items"]
        if any(item["metadata"]["labels"]["peers/share"] != "s-7" for item in selected) or not selected:
            self.wrong.append(f"a label selects {len(selected):,} reports that do not all have it")
        first = page["items"][0]
        named = api.get(path_of(POLR), seconds=300, fieldSelector=f"metadata.name={first['metadata']['name']}")
        if any(item["metadata"]["name"] != first["metadata"]["name"] for item in named.json["items"]):
            self.wrong.append(f"a field selector of one name gives {len(named.json['items']):,} reports")

        one = api.get(f"{namespace}/{NUMBERED.replace('@' * 12, f'{ROUND:012}')}").json
        path = f"{namespace}/{one['metadata']['name']}"
        before = api.get(namespace, seconds=300).json["metadata"]["resourceVersion"]
        code = api.put(path, changed(one)).code
        if code != 200:
            self.wrong.append(f"an update is answered with {code}")
        if api.put(path, one).code != 409:
            self.wrong.append("an update of an outdated version replaces the newer one")
        if api.get(namespace, seconds=300).json["metadata"]["resourceVersion"] == before:
            self.wrong.append(f"a list's version stays the same ({before}) when a report has changed")
        lost = {**KIND, "metadata": {"name": "lost", "namespace": "not-there"}, "results": one["results"]}
        if api.post(path_of(POLR, "not-there"), lost).code != 404:
            self.wrong.append("a report is created in a namespace that does not exist")
            api.delete(path_of(POLR, "not-there", "lost"))


def spread(values):
    """Median, least and greatest."""
    return statistics.median(values), min(values), max(values)


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def times(ratio):
    # With two digits 99.6 would be 1e+02.
    return f"{ratio:.2g} times" if ratio < 99.5 else f"{ratio:,.0f} times"


def times_better(more_is_better, ours, other):
    return ours / other if more_is_better else other / ours


def bars(ours, other):
    """Yields each bar between two sides, which are what measure() noted: how many times better ours is."""
    more_is_better = {measure: more for measure, _, _, more in MEASURES}
    for measure, wanted, words in BARS:
        ratio = times_better(more_is_better[measure],
                             statistics.median(ours[measure]), statistics.median(other[measure]))
        yield {"measure": measure, "bar": words, "times": ratio, "passed": ratio >= wanted}


def cell(measure_unit, more_is_better, values, ours):
    """A cell of the table: median, spread, and how many times better ours is than the median."""
    middle, least, greatest = spread(values)
    text = f"{number(middle)} {measure_unit}" if measure_unit == "ms" else f"{number(middle)}{measure_unit}"
    if len(values) > 1:
        text += f" ({number(least)} to {number(greatest)})"
    if ours is not None:
        text += f", {times(times_better(more_is_better, ours, middle))}"
    return text


def table(sides, ours):
    """Lines of Markdown: a row for each measure, a column for each side; sides are {name: what measure() noted}."""
    names = [name for name in sides if name != ours]
    yield f"| | {' | '.join([ours, *names])} |"
    yield "| --- |" + " --- |" * len(sides)
    for measure, words, unit, more in MEASURES:
        base = spread(sides[ours][measure])[0]
        cells = [cell(unit, more, sides[ours][measure], None),
                 *(cell(unit, more, sides[name][measure], base) for name in names)]
        yield f"| {words} | {' | '.join(cells)} |"


def memory_of(pids, field="Rss"):
    """Bytes of these processes: Rss, or Pss, which counts a shared page once."""
    total = 0
    for pid in pids:
        # A backend may end meanwhile.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as lines:
                total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":"))
    return total
