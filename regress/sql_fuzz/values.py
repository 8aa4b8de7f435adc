"""
Arguments that no caller should pass, and valid ones: most calls must pass the first checks of their arguments.
"""

import json
import sys

# json.dumps() recurses; documents of this depth are refused when they are read.
sys.setrecursionlimit(10_000)

MAX_INT = {"smallint": 2**15 - 1, "integer": 2**31 - 1, "bigint": 2**63 - 1}
CLUSTER = "00000000-0000-0000-0000-000000000001"
# Stands for the caller's row, which has no literal.
CALLER = object()

NAMES = ["default", "r1", "no-such", "", "Bad_Name", "a" * 300, "*", "%", "a/b", "default'; --", "\u00e4\u0301",
         "\U0010ffff", "{", "\\"]
TIMES = ["2026-01-01T00:00:00Z", "2026-01-01 00:00:00.123456+14", "infinity", "-infinity", "epoch", "294276-12-31",
         "4713-01-01 BC", "now", "0001-01-01"]
SELECTORS = ["app=x", "app!=x,tier", "!app", "app in (a,b),tier notin (c)", "a=", "app in (", "==", ",",
             "metadata.name=r1", "metadata.namespace!=default",
             "spec.x=1", "a" * 64 + "=b", "a>1", "a in (" + ",".join("b%d" % n for n in range(500)) + ")"]
TRANSFORMS = ["object", "object+pretty", "partial/v1", "partial/v1beta1+pretty", "table/v1/Metadata+columns",
              "table/v1/Object", "table/v1beta1/None", "deleted", "table/v9", ""]
VERBS = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "connect", ""]
CONTENT_TYPES = ["application/json", "application/json-patch+json", "application/merge-patch+json",
                 "application/apply-patch+yaml",
                 "application/vnd.kubernetes.protobuf", "text/plain", ""]
ACCEPTS = ["application/json", "application/json;as=Table;v=v1;g=meta.k8s.io",
           "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", "*/*", "text/x", ""]
KINDS = [("wgpolicyk8s.io/v1alpha2", "PolicyReport", "policyreports"),
         ("wgpolicyk8s.io/v1alpha2", "ClusterPolicyReport", "clusterpolicyreports"),
         ("openreports.io/v1alpha1", "Report", "reports"),
         ("openreports.io/v1alpha1", "ClusterReport", "clusterreports"),
         ("reports.kyverno.io/v1", "EphemeralReport", "ephemeralreports"),
         ("reports.kyverno.io/v1", "ClusterEphemeralReport", "clusterephemeralreports"),
         ("kyverno.io/v1alpha2", "AdmissionReport", "admissionreports"),
         ("kyverno.io/v1alpha2", "ClusterAdmissionReport", "clusteradmissionreports"),
         ("kyverno.io/v1alpha2", "BackgroundScanReport", "backgroundscanreports"),
         ("kyverno.io/v1alpha2", "ClusterBackgroundScanReport", "clusterbackgroundscanreports")]
WORDS = ["pass", "fail", "warn", "error", "skip", "critical", "high", "medium", "low", "info", "current",
         "intermediate", "none", "csv", "jsonl", "policy", "resource",
         "off", "namespace", "source", "log_retention", "log_bytes", "policyreports.wgpolicyk8s.io", "wgpolicyk8s.io",
         "policyreports", "v1alpha2", "kyverno", "CVE-2026-1"]

# Members that the engine reads, whose type may be wrong in a document.
METADATA = ["labels", "annotations", "managedFields", "ownerReferences", "finalizers", "name", "namespace",
            "generateName", "uid", "generation", "creationTimestamp",
            "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "selfLink"]


class Values:
    """Arguments by type and name, from one seeded source.  large: size of the largest argument in bytes."""

    def __init__(self, rng, known, large):
        self.rng = rng
        self.known = known
        self.large = large
        self.kind = None        # an element of KINDS: the type that the call is about

    def kind_of_call(self):
        return self.kind if self.kind and self.chance(0.8) else self.rng.choice(KINDS)

    def chance(self, of):
        return self.rng.random() < of

    def number(self, name="integer"):
        most = MAX_INT.get(name, 2**63 - 1)
        return self.rng.choice([0, 1, 2, 3, 7, 100, 1000, -1, most, -most - 1, most - 1, self.rng.randint(-most, most),
                                self.rng.randint(0, 100)])

    def text(self):
        choice = self.rng.randrange(8)
        if choice == 0:
            return self.rng.choice(["x", "\u20ac", "'", "\\", "%s", "\n", "<&\">"]) * self.rng.choice([1,
                10, self.large // 4])
        if choice == 1:
            return str(self.number())
        return self.rng.choice([NAMES, WORDS, WORDS, TIMES, SELECTORS, NAMES, NAMES][choice - 1])

    def wrong(self, depth=0):
        """Returns a JSON value of any type, for a place where another type is expected."""
        choice = self.rng.randrange(14)
        if choice < 2 and depth < 3:
            return [self.wrong(depth + 1) for _ in range(self.rng.randrange(4))]
        if choice < 4 and depth < 3:
            return {self.rng.choice(METADATA + ["", "a", "f:x", "k:{\"a\":1}", "seconds"]): self.wrong(depth + 1)
                    for _ in range(self.rng.randrange(4))}
        if choice == 4:
            nested = self.rng.choice(["x", 7, None, {}])
            for _ in range(self.rng.choice([5, 100, 600, 990, 1500])):
                nested = [nested] if self.chance(0.5) else {"a": nested}
            return nested
        if choice == 5:
            return [self.rng.choice([None, 0, "", {}, []])] * self.rng.choice([1, 200, max(1, self.large // 8)])
        return self.rng.choice(["AAAAAAAAAAAAAAAAAAAAAAAA", "", 0, -1, 2**63 - 1, -2**63, 2**63, 1e308, 1.5, True,
                                False, None, [], {}, [None], [7], {"a": []}, [[]], "x\u0000y",
                                self.rng.choice(TIMES), self.text()])

    def result(self):
        result = {"source": "kyverno", "policy": self.rng.choice(["p1", "p2", "Bad Name"]), "rule": "r",
                  "result": self.rng.choice(["pass", "fail", "error", "bogus"]),
                  "severity": "high", "category": "c", "message": "m", "scored": True,
                  "properties": {"a": "b", "cve": "CVE-2026-1"},
                  "timestamp": {"seconds": self.rng.choice([0, 1, 1767225600, self.number("bigint")]),
                                "nanos": self.rng.choice([0, 5, self.number("integer")])},
                  "resources": [{"apiVersion": "v1", "kind": "Pod", "namespace": "default",
                                 "name": "p%d" % self.rng.randrange(3), "uid": "u"}]}
        while self.chance(0.3):
            result[self.rng.choice(list(result) + ["subjects", "resourceSelector", "extra"])] = self.wrong()
        return result

    def metadata(self):
        metadata = {"name": "r1", "namespace": "default", "labels": {"app": "x"},
                    "annotations": {"a": "b"}, "uid": CLUSTER,
                    "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1,
                    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u",
                                         "controller": True}],
                    "managedFields": [{"manager": "m", "operation": "Apply", "apiVersion": "wgpolicyk8s.io/v1alpha2",
                                       "fieldsType": "FieldsV1",
                                       "fieldsV1": {"f:summary": {"f:pass": {}},
                                                    "f:metadata": {"f:labels": {"f:app": {}}}},
                                       "time": "2026-01-01T00:00:00Z"}]}
        while self.chance(0.5):
            metadata[self.rng.choice(METADATA)] = self.wrong()
        while self.chance(0.3):
            metadata.pop(self.rng.choice(list(metadata)))
            if not metadata:
                break
        for member in ("ownerReferences", "managedFields"):
            if isinstance(metadata.get(member), list) and metadata[member] and isinstance(metadata[member][0],
                dict) and self.chance(0.3):
                metadata[member][0][self.rng.choice(["fieldsV1", "time", "operation", "uid", "kind", "controller",
                                                     "subresource"])] = self.wrong()
        return metadata

    def report(self):
        """Returns a whole document, often with a part of a wrong type."""
        api_version, kind, _ = self.kind_of_call()
        document = {"apiVersion": api_version, "kind": kind, "metadata": self.metadata()}
        inner = {"results": [self.result() for _ in range(self.rng.randrange(4))],
                 "summary": {"pass": 1, "fail": self.number("bigint")}}
        if self.chance(0.3):
            document["spec"] = {"owner": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}, **inner}
        else:
            document.update(inner)
        for place in (document, document.get("spec", document)):
            while self.chance(0.3):
                place[self.rng.choice(["results", "summary", "scope", "spec", "metadata", "status", "kind",
                                       "apiVersion", "source"])] = self.wrong()
                if not isinstance(place, dict):
                    break
        return document

    def crd(self):
        crd = json.loads(self.rng.choice(self.known["crds"]))
        for _ in range(self.rng.randrange(4)):
            self.break_member(crd)
        return crd

    def definition(self):
        definition = json.loads(self.rng.choice(self.known["definitions"])[1])
        for _ in range(self.rng.randrange(3)):
            self.break_member(definition)
        return definition

    def mapping(self):
        mapping = json.loads(self.rng.choice(self.known["mappings"])[1])
        for _ in range(self.rng.randrange(3)):
            self.break_member(mapping)
        return mapping

    def break_member(self, node):
        """Replaces one member, at any depth, by another value."""
        while isinstance(node, (dict, list)) and node:
            key = self.rng.choice(list(node)) if isinstance(node, dict) else self.rng.randrange(len(node))
            if self.chance(0.3) or not isinstance(node[key], (dict, list)):
                node[key] = self.wrong()
                return
            node = node[key]

    def policy(self):
        policy = {"apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy",
                  "metadata": {"name": "p1", "annotations": {
            "pod-policies.kyverno.io/autogen-controllers": "Job,CronJob"}},
                  "spec": {"rules": [{"name": "\u00e4" * self.rng.choice([1, 31, 40]),
                                      "match": {"any": [{"resources": {"kinds": ["Pod"]}}]},
                                      "validate": {"pattern": {"spec": {}}}}]}}
        for _ in range(self.rng.randrange(3)):
            self.break_member(policy)
        return policy

    def filter(self):
        members = ["clusters", "namespaces", "reports", "sources", "policies", "rules", "categories", "severities",
                   "statuses", "nativeStatuses", "text", "properties", "score",
                   "since", "firstSeen", "resource", "exceptions", "exempted", "from", "to", "newOnly"]
        values = [["fail"], ["default"], ["kyverno"], [CLUSTER], "x", {"min": 0, "max": 100},
                  {"from": "2026-01-01", "to": "infinity"}, True, {"kind": ["Pod"], "name": ["p0"]}]
        return {self.rng.choice(members): self.rng.choice(values) if self.chance(0.6) else self.wrong()
                for _ in range(self.rng.randrange(4))}

    def request(self):
        api_version, _, plural = self.kind_of_call()
        group, version = api_version.split("/")
        query = {"limit": ["2"], "labelSelector": [self.rng.choice(SELECTORS)],
                 "fieldSelector": [self.rng.choice(SELECTORS)], "resourceVersion": [str(self.number("bigint"))],
                 "resourceVersionMatch": ["NotOlderThan"], "continue": [self.text()], "dryRun": ["All"],
                 "fieldManager": ["m"], "fieldValidation": ["Strict"], "force": ["true"],
                 "timeoutSeconds": ["1"], "sendInitialEvents": ["true"], "allowWatchBookmarks": ["1"],
                 "propagationPolicy": ["Orphan"], "format": ["csv"], "filter": ["{}"]}
        request = {"verb": self.rng.choice(VERBS), "group": group, "version": version, "resource": plural,
                   "namespace": "default", "name": "r1",
                   "accept": self.rng.choice(ACCEPTS), "contentType": self.rng.choice(CONTENT_TYPES),
                   "user": {"username": "u"},
                   "query": {key: query[key] for key in self.rng.sample(sorted(query), self.rng.randrange(4))}}
        while self.chance(0.3):
            request[self.rng.choice(list(request)
                                    + ["subresource", "duplicates", "decodeError", "mayCreate", "createDenial",
                                       "namespaceState", "namespaceUid"])] = self.wrong()
        while self.chance(0.2):
            request.pop(self.rng.choice(list(request)))
            if not request:
                break
        return request

    def body(self):
        """Returns the body of a request: a document, a patch, or another value."""
        return self.rng.choice([self.report, self.report, lambda: {"metadata": self.metadata()},
                                lambda: {"summary": {"pass": self.number()}},
                                lambda: [{"op": self.rng.choice(["add", "remove", "replace", "move", "copy", "test"]),
                                          "path": self.rng.choice(["/summary", "/metadata/labels/a", "", "/results/-"]),
                                          "from": "/summary", "value": self.wrong()}],
                                lambda: {"apiVersion": "meta.k8s.io/v1", "kind": "DeleteOptions",
                                         "preconditions": {"uid": self.wrong()}}, self.wrong])()

    def printed(self, value, cut=0.1):
        """Returns a value as JSON, sometimes cut, or with strange characters in it."""
        text = json.dumps(value, ensure_ascii=self.chance(0.5))
        if self.chance(cut):
            at = self.rng.randrange(len(text) + 1)
            return self.rng.choice([text[:at],
                                    text[:at] + self.rng.choice(["\x01", "\u2028", ",", "}", "\\u0000", "\\ud800",
                "1e999"]) + text[at:], " \n" + text + "\t "])
        return text

    def named(self, type_name, name):
        """Returns a value that fits the name of an argument; None: the name does not tell."""
        if type_name.endswith("[]"):
            return None
        if name in ("cluster", "a", "b", "uid") and type_name == "uuid":
            return CLUSTER
        if name in ("cluster_id", "target_cluster"):
            return self.known["cluster_id"]
        if name in ("lane", "target_lane"):
            return self.rng.choice(self.known["lanes"])
        if name in ("type_id", "target_type", "written_type", "read_type", "admission_type", "background_type"):
            return self.rng.randint(1, 10)
        if name == "request":
            return self.printed(self.request())
        if name == "definition":
            return self.printed(self.definition())
        if name == "mapping":
            return self.printed(self.mapping())
        if name == "crd":
            return self.printed(self.crd())
        if name == "policy" and type_name.endswith("report"):
            return self.printed(self.policy())
        if name == "filter":
            return self.printed(self.filter(), cut=0)
        if name in ("metadata", "stored_metadata", "old_metadata"):
            return self.printed(self.metadata(), cut=0)
        if name == "document" and type_name == "bytea":
            return self.printed(self.body()).encode()
        if name == "transform":
            return self.rng.choice(TRANSFORMS)
        if name in ("label_selector", "field_selector"):
            return self.rng.choice(SELECTORS)
        if name == "part":
            return self.rng.choice("hst?")
        if name in ("name", "namespace", "role") and type_name in ("text", "name"):
            return self.rng.choice(NAMES[:3] if self.chance(0.7) else NAMES)
        return None

    def of(self, type_name, name=""):
        """Returns a text that the server can cast to this type."""
        if self.chance(0.85):
            meant = self.named(type_name, name)
            if meant is not None:
                return meant
        if type_name == "kube_reports_internal.caller" and self.chance(0.8):
            return CALLER
        if type_name in self.known["composites"]:
            return tuple(self.maybe_null(column_type, column)
                         for column, column_type in self.known["composites"][type_name])
        if type_name.endswith("[]"):
            return [self.maybe_null(type_name[:-2], name.rstrip("s"))
                    for _ in range(self.rng.choice([0, 1, 2, 2, 3, 3, 50]))]
        if type_name == "boolean":
            return self.chance(0.5)
        if type_name in MAX_INT:
            return self.number(type_name)
        if type_name in ("real", "double precision", "numeric"):
            return self.rng.choice(["0", "1", "-1", "NaN", "Infinity", "-Infinity", "1e37", "-1e-37", "99.5", "100"])
        if type_name in ("timestamp with time zone", "date"):
            return self.rng.choice(["2026-01-01", "infinity", "-infinity", "epoch", "2026-02-01",
                                    "5874897-12-31" if type_name == "date" else "294276-12-31", "4713-01-02 BC", "now"])
        if type_name == "interval":
            return self.rng.choice(["0", "10 s", "-1 day", "178000000 years", "-178000000 years",
                                    "1 month", "0.000001 s"])
        if type_name == "regclass":
            return self.rng.choice(["kube_reports.object", "kube_reports_internal.actor", "kube_reports.status",
                                    "pg_catalog.pg_authid", "0", "4294967295"])
        if type_name == "uuid":
            return self.rng.choice([CLUSTER, "ffffffff-ffff-ffff-ffff-ffffffffffff"])
        if type_name == "bytea":
            return bytes(self.rng.randrange(256)
                         for _ in range(self.rng.randrange(40))) if self.chance(0.5) else self.printed(
                self.body()).encode()
        if type_name == '"char"':
            return self.rng.choice(["h", "p", "f", "", "\x7f", "A", "e"])
        if type_name == "tid":
            return self.rng.choice(["(0,0)", "(1,0)", "(64,1)", "(4294967295,65535)"])
        if type_name == "xid8":
            return self.rng.choice(["0", "3", "18446744073709551615", "1000"])
        if type_name in ("jsonb", "json"):
            return self.printed(self.rng.choice([self.filter, self.report, self.crd, self.wrong, self.mapping,
                                                 self.body])(), cut=0).replace("\\u0000", "")
        if type_name in ("cstring", "unknown") or type_name.endswith("report"):
            return self.printed(self.rng.choice([self.report, self.report, self.metadata, self.crd, self.definition,
                                                 self.policy, lambda: {"labels": self.wrong()}])(), cut=0.05)
        if type_name in ("text", "name", "character varying"):
            return self.text() if self.chance(0.8) else self.printed(self.body())
        raise AssertionError(f"no values of type {type_name}")

    def maybe_null(self, type_name, name=""):
        return None if self.chance(0.1) else self.of(type_name, name)
