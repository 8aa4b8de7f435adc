"""The objects that the workload writes, and its records.

Every state of every object has a number of its own, the nonce, in an annotation: so each answer tells which write it
shows.  All times are nanoseconds of the system's clock, so that records of several processes and of the database can be
compared.
"""

import json
import random
import time

POLR = "wgpolicyk8s.io/v1alpha2/policyreports"
EPHR = "reports.kyverno.io/v1/ephemeralreports"
LANES = (POLR, EPHR)

# Names whose order differs when namespace and name are joined to one text, or compared by a locale.
NAMESPACES = ("ns-1", "ns-10", "ns-1-a", "ns-2", "ns1")
NAMES = tuple(f"r{n}" for n in range(24)) + tuple(f"r-{n}" for n in range(12))

COLORS = ("red", "green", "blue")
SIZES = ("s", "m")

SELECTORS = ("", "color=red", "color!=red", "color in (green,blue)", "size", "!size",
             "color=blue,size=s", "size notin (m)")

NONCE = "test.example/nonce"


def now():
    return time.time_ns()


def matches(selector, labels):
    """Evaluates the selectors of SELECTORS without the product's parser, which is under test."""
    color, size = labels.get("color"), labels.get("size")
    return {
        "": True,
        "color=red": color == "red",
        "color!=red": color != "red",
        "color in (green,blue)": color in ("green", "blue"),
        "size": size is not None,
        "!size": size is None,
        "color=blue,size=s": color == "blue" and size == "s",
        "size notin (m)": size != "m",
    }[selector]


def some_labels(rng):
    labels = {"color": rng.choice(COLORS)}
    if rng.random() < 0.5:
        labels["size"] = rng.choice(SIZES)
    return labels


def document(lane, namespace, name, nonce, labels):
    group, version, _ = lane.split("/")
    metadata = {"name": name, "namespace": namespace, "labels": labels, "annotations": {NONCE: str(nonce)}}
    if lane == POLR:
        return {"apiVersion": f"{group}/{version}", "kind": "PolicyReport", "metadata": metadata,
                "summary": {"pass": nonce},
                "results": [{"policy": "p", "result": "pass", "message": "x" * (nonce % 700)}]}
    return {"apiVersion": f"{group}/{version}", "kind": "EphemeralReport", "metadata": metadata,
            "spec": {"owner": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}, "summary": {"pass": nonce}}}


def state_of(obj):
    """
    Returns (version, namespace/name, nonce) of an object that a client got; body and metadata must be of one write.
    """
    metadata = obj["metadata"]
    nonce = int(metadata["annotations"][NONCE])
    summary = obj.get("summary") or obj.get("spec", {}).get("summary")
    if obj["kind"] != "PartialObjectMetadata" and summary["pass"] != nonce:
        raise AssertionError(f"metadata and body are of two writes: {obj}")
    return int(metadata["resourceVersion"]), f"{metadata['namespace']}/{metadata['name']}", nonce


class Records:
    """Lines of JSON in files; each file has one writer."""

    def __init__(self, path):
        self.file = open(path, "a", encoding="utf-8", buffering=1)

    def write(self, what, **fields):
        self.file.write(json.dumps({"what": what, **fields}, separators=(",", ":")) + "\n")

    @staticmethod
    def read(directory):
        for path in sorted(directory.glob("*.jsonl")):
            with open(path, encoding="utf-8") as lines:
                for line in lines:
                    # A killed process may have written a part of its last line.
                    if line.endswith("\n"):
                        yield json.loads(line)


class Nonces:
    """Numbers from the range of this process, which no other process uses."""

    def __init__(self, index):
        self.next = index * 10_000_000

    def take(self):
        self.next += 1
        return self.next


def random_of(seed, role, index):
    return random.Random(f"{seed}/{role}/{index}")
