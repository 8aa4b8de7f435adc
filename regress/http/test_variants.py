"""Functions without the engine: both variants give the same values, or raise the same SQLSTATE."""

import copy
import json
import os
import random

import pytest

from conftest import TOP
from variants import both_variants

SEED = int(os.environ.get("SEED", "17"))
COUNT = int(os.environ.get("COUNT", "400"))
ATTEMPT = """
CREATE FUNCTION public.attempt(expression text, given text[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
BEGIN
    EXECUTE 'SELECT (' || expression || ')::text' INTO answer USING given;
    RETURN coalesce('=' || answer, 'null');
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE;
END
$$;
"""
HOSTILE = ["", " ", "\t", "a", "Pod", "v1", "é", "日本", "\ufffd", "\U0001f600", "a" * 64, "x" * 254, "=", "a=b", "'",
           "\\", "\"", "none", "all", "fail", "pass", "%", "{}", "a/b", "\u2028", "ſ", "ı", "K"]


@pytest.fixture(scope="module")
def servers():
    for made in both_variants():
        for server in made:
            server.psql(ATTEMPT, user="postgres")
            server.psql("CREATE ROLE anybody LOGIN; CREATE ROLE reader LOGIN;", user="postgres")
            server.psql("SELECT kube_reports.grant_reader('reader'); GRANT USAGE ON SCHEMA kube_reports TO anybody")
        yield made


class Writer:
    """Writes JSON texts as hostile clients do: white space, escapes, keys twice, halves of surrogate pairs, NUL."""

    def __init__(self, chance, odd=0.02):
        self.random = chance
        self.odd = odd  # how often a string has parts that no text can have

    def space(self):
        return self.random.choice(["", "", "", "", " ", "\n\t"])

    def string(self, text):
        parts = []
        for c in text:
            if ord(c) < 0x10000 and self.random.random() < 0.05 or c < " ":
                parts.append(f"\\u{ord(c):04{self.random.choice('xX')}}")
            elif c in "\"\\":
                parts.append("\\" + c)
            else:
                parts.append(c)
        if self.random.random() < self.odd:
            parts.insert(self.random.randint(0, len(parts)), self.random.choice(
                ["\\u0000",
                 "\\ud800", "\\uDC00", "\\ud83d\\ude00", "\\\\u0000", "\\\\\\u0000", "\\udc00\\ud800", "\\/"]))
        return '"' + "".join(parts) + '"'

    def text(self, value):
        if isinstance(value, str):
            made = self.string(value)
        elif isinstance(value, dict):
            members = [(k, v) for k, v in value.items()]
            if members and self.random.random() < 0.02:
                members.insert(0, (self.random.choice(members)[0], self.random.choice([None, 1, "twice", {}, []])))
            made = "{" + ",".join(self.space() + self.string(k) + self.space() + ":" + self.text(v)
                                  for k, v in members) + self.space() + "}"
        elif isinstance(value, list):
            made = "[" + ",".join(self.text(v) for v in value) + self.space() + "]"
        elif isinstance(value, Number):
            made = value.literal
        else:
            made = json.dumps(value)
        return self.space() + made + self.space()


class Number:
    """A number, by its literal."""

    def __init__(self, literal):
        self.literal = literal


class Maker:
    """Makes random documents."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.writer = Writer(self.random)

    def number(self):
        return Number(self.random.choice(["0", "1", "-1", "1.0", "1e3", "1.5", "-0", "9223372036854775807",
                                          "9223372036854775808", "-9223372036854775808", "1E-7", "1700000000"]))

    def anything(self, depth=2):
        kind = self.random.randrange(8 if depth else 5)
        if kind < 3:
            return self.random.choice(HOSTILE)
        if kind == 3:
            return self.number()
        if kind == 4:
            return self.random.choice([None, True, False])
        if kind < 6:
            return [self.anything(depth - 1) for _ in range(self.random.randrange(3))]
        return {self.random.choice(HOSTILE): self.anything(depth - 1) for _ in range(self.random.randrange(3))}

    def maybe(self, value):
        """Returns the value, seldom anything else instead."""
        return self.anything() if self.random.random() < 0.06 else value

    def members(self, **choices):
        """Returns an object with some of these members."""
        made = {}
        for name, value in choices.items():
            if self.random.random() < 0.6:
                made[name] = self.maybe(value())
        return made

    def word(self, *words):
        return self.random.choice(words + tuple(self.random.sample(HOSTILE, 1)))

    def several(self, one, most=3):
        return [self.maybe(one()) for _ in range(self.random.randrange(most + 1))]

    def metadata(self):
        return self.members(
            labels=lambda: {self.word("app", "b/c", "a.b/c", "n"): self.maybe(self.word("web", "1", "x-y"))
                            for _ in range(self.random.randrange(4))},
            ownerReferences=lambda: self.several(lambda: self.members(
                apiVersion=lambda: self.word("v1"), kind=lambda: self.word("Pod"), name=lambda: self.word("n"),
                uid=lambda: self.word("u"), controller=lambda: True)))

    def report(self):
        place = self.members(
            results=lambda: self.several(lambda: self.members(
                source=lambda: self.word("kyverno"), policy=lambda: self.word("p"), rule=lambda: self.word("r"),
                result=lambda: self.word("pass", "fail", "warn", "error", "skip"), score=self.number,
                resources=lambda: self.several(self.anything, 2),
                timestamp=lambda: self.members(seconds=self.number, nanos=self.number)), 5),
            summary=lambda: self.members(**{s: self.number for s in ("pass", "fail", "warn", "error", "skip")}))
        return {**place, **self.members(spec=self.report)} if self.random.random() < 0.7 else {"spec": place}

    def description(self):
        return self.members(
            kinds=lambda: self.several(lambda: self.word("Pod", "Pod", "Deployment", "v1/Pod", "apps/v1/Deployment",
                                                         "*/Pod", "Pod.status", "Pod/exec", "v1beta1/Pod", "v1beta/Pod",
                                                         "a/v1/Pod/x", "a/b/c/d/e"), 2),
            **{name: lambda value=value: value for name, value in (
                ("name", self.random.choice(["", "", "n"])), ("names", []), ("selector", None), ("annotations", None))
               if self.random.random() < 0.3})

    def block(self):
        return self.members(
            resources=self.description, any=lambda: self.several(lambda: {"resources": self.description()}, 2),
            all=lambda: self.several(lambda: {"resources": self.description()}, 1))

    def policy(self):
        def rule():
            made = {"name": self.maybe(self.word("r", "autogen-r", "long" * 16, "é" * 40, "日" * 20)),
                    "match": self.maybe(self.block())}
            made.update(self.members(validate=lambda: self.members(
                pattern=lambda: {}, deny=lambda: None, foreach=lambda: self.several(self.anything, 1), cel=lambda: {})))
            if self.random.random() < 0.3:
                made.update(self.members(
                    exclude=self.block, verifyImages=lambda: [], generate=lambda: {},
                    mutate=lambda: self.members(patchStrategicMerge=lambda: {}, patchesJson6902=lambda: "",
                                                foreach=lambda: self.several(lambda: {"patchesJson6902": ""}, 1))))
            return made
        annotations = {"pod-policies.kyverno.io/autogen-controllers":
                       self.word("none", "all", "CronJob", "Deployment", "CronJob,,Deployment", "Deployment,CronJobs")}
        return {**({"metadata": self.maybe({"annotations": self.maybe(annotations)})}
                   if self.random.random() < 0.4 else {}),
                "spec": self.maybe({"rules": self.maybe([self.maybe(rule())
                                                         for _ in range(self.random.randrange(1, 4))])})}

    def path(self):
        pieces = [".a", ".a.b", "['a']", "['a.b']", "[0]", "[-1]", "[1:2]", "[::2]", "[::0]", "[*]", ".*", "[]",
                  "[a]", "[,]",
                  "[?(@.a==\"b\")]", "[?(@.a)]", "[?(@.a=='b)')]", "[?(@.a==1.5)]", "[?(@.a=1)]", "[?(@.a>true)]", "..",
                  " ", "@", "$", ".", "\\.", "é", "\n", "]", "[", ",", "{", "[?(@.a==\"\\n\")]", "[?(@.a=='\\q')]", "x",
                  "[?(1==@.a)]", "[?(\"x\"==@.a[?(@.b)])]", "[?()]", "\v"]
        return self.random.choice(["$", ".", "@", "", "$.a", ".a", "$.metadata.labels", "x"]) + "".join(
            self.random.choices(pieces, k=self.random.randrange(3)))

    def source(self, paths):
        kind = self.random.randrange(9)
        if kind == 0:
            return [self.maybe(self.source(paths)) for _ in range(self.random.randrange(3))]
        if kind == 1:
            return self.members(path=lambda: self.path(), map=lambda: {
                self.random.choice(HOSTILE): self.maybe(self.random.choice(["pass", "FAIL", "x"]))})
        if kind == 2:
            return self.members(value=lambda: self.random.choice(["pass", "Fail", "é", ""]))
        return self.path() if kind == 3 else self.random.choice(paths)

    def mapping(self):
        usual = ["$.a", ".a", "$", "$.a[0].b", ".é"]
        made = {"list": self.source(["$.a", "$"]), "policy": self.source(usual),
                "status": self.random.choice([".s", {"path": ".s", "map": {"a": "pass"}}, {"value": "skip"}])}
        for column in ("source", "severity", "key", "time", "status", "list", "nonsense"):
            if self.random.random() < 0.06:
                made[column] = self.maybe(self.source(usual))
        if self.random.random() < 0.3:
            made["properties"] = self.maybe({"p": self.source(usual)})
        if self.random.random() < 0.5:
            made["subjects"] = self.maybe(self.several(lambda: {
                **({"each": self.source(usual)} if self.random.random() < 0.5 else {}),
                "name": self.source(["@.n", ".n", "$.n"]), **self.members(kind=lambda: self.source(usual))}, 2))
        if self.random.random() < 0.05:
            made.pop(self.random.choice(list(made)))
        return made

    def selector(self):
        pieces = ["app", "b/c", "a.b/c", "n", "in", "notin", "(", ")", ",", "!", "=", "==", "!=", ">", "<", " ", "web",
                  "1", "-1", "x-y", "", "a" * 64, "é", "9223372036854775808", "_x", "B/c", "a/b/c", "\t", "'", "\u00a0"]
        if self.random.random() < 0.4:
            return "".join(self.random.choices(pieces, k=self.random.randrange(9)))
        return ",".join(self.random.choice([
            lambda: f"{self.random.choice(['app', 'b/c', 'n', 'z'])}{self.random.choice(['=', '==', '!='])}"
                    f"{self.random.choice(['web', '1', '', 'x-y'])}",
            lambda: f"{self.random.choice(['app', 'n'])} {self.random.choice(['in', 'notin'])} "
                    f"({','.join(self.random.choices(['web', '1', '', 'in'], k=self.random.randrange(4)))})",
            lambda: self.random.choice(["app", "!app", "! n", "in", "notin in (in)"]),
            lambda: f"n{self.random.choice('<>')}{self.random.choice(['0', '1', '007', 'x', '99999999999999999999'])}",
        ])() for _ in range(self.random.randrange(1, 4)))

    def fields(self):
        pieces = ["metadata.name", "metadata.namespace", "=", "==", "!=", ",", "a", "b", "\\", "\\,", "\\=", "\\\\",
                  "é", "\\é", "spec.x", " ", "\n"]
        if self.random.random() < 0.5:
            return "".join(self.random.choices(pieces, k=self.random.randrange(9)))
        return ",".join(f"metadata.name{self.random.choice(['', 'space'])}{self.random.choice(['=', '==', '!='])}"
                        f"{self.random.choice(['a', 'b', ''])}" for _ in range(self.random.randrange(1, 4)))

    def terms(self):
        made = sorted({f"{k}={self.word('web', '1', '+1', '-9223372036854775808', '9223372036854775808', '00001', '')}"
                       for k in self.random.sample(["app", "b/c", "n", "in", "z"], self.random.randrange(5))})
        array = ",".join('"' + t.replace("\\", "\\\\").replace('"', '\\"') + '"' for t in made)
        return "{" + array + (",NULL" if made and self.random.random() < 0.05 else "") + "}"

    def results_path(self, starts):
        """Returns a path to something in a document of mapped()."""
        steps = [".a", ".b", ".c", ".l", ".l[0]", ".l[-1]", ".l[1:]", ".l[:2].a", ".l[::2].b", ".l[*].a", ".*", ".c.*",
                 "['a']", ".l[?(@.a==1)].b", ".l[?(@.b)].a", ".l[?(@.a!='x')].b", ".l[?(@.a<2)]", ".l[?(@.b==true)].a",
                 ".l[?(@.a>=\"x\")].b", ".l[?(@.a==1.0)]", ".a\\.b", ".d", ".t", ".s", ".sev", ".score", ".e"]
        made = self.random.choice(starts) + "".join(self.random.choices(steps, k=self.random.choice([1, 1, 1, 2])))
        return f"${made}" if made.startswith("[") else made

    def results_source(self, starts, statuses=False, several=True):
        words = ["pass", "Fail", "warn", "SKIP", "error"] if statuses else ["x", "", "low", "é", "a/b"]
        kind = self.random.randrange(10)
        if kind == 0:
            return {"value": self.random.choice(words)}
        if kind == 1:
            made = {"path": self.results_path(starts), "map": {
                key: self.random.choice(words) for key in self.random.sample(["", "x", "1", "true", "Pod"], 3)}}
            return {**made, "otherwise": self.random.choice(words)} if self.random.random() < 0.5 else made
        if kind == 2 and several:
            return [self.results_source(starts, statuses, False) for _ in range(2)]
        return self.results_path(starts)

    def results_mapping(self):
        """Returns a valid mapping."""
        both = ["$", "", ""]
        made = {"list": self.random.choice(["$.l", "$.l", "$.l", ["$.n", "$.l"], ["$.c", "$"], "$.*", "$"]),
                "policy": self.results_source(both), "status": self.random.choice([".s", ".s",
                                                                                  self.results_source(both, True)])}
        for column, usual in (("source", ".a"), ("rule", ".b"), ("category", ".c"), ("severity", ".sev"),
                              ("score", [".score", ".a"]), ("message", ".d"), ("exceptions", [".e", ".a"]),
                              ("time", [".t", "$.t"]), ("key", [".b", ".c"])):
            if self.random.random() < 0.6:
                made[column] = usual if self.random.random() < 0.5 else self.results_source(both)
        if self.random.random() < 0.6:
            made["properties"] = self.random.choice([".c", [".d", ".c", "$.metadata.labels"],
                                                     {"z": ".a", "é": self.results_source(both), "a": "$.c.a"}])
        if self.random.random() < 0.8:
            made["subjects"] = []
            for _ in range(self.random.randrange(4)):
                each = {"each": self.random.choice([".l", "$.l", ".c"])} if self.random.random() < 0.6 else {}
                starts = ["@", "$", ""] if each else both
                made["subjects"].append({**each, "name": self.results_source(starts), **{
                    part: self.results_source(starts) for part in ("apiVersion", "kind", "namespace", "uid")
                    if self.random.random() < 0.6}})
        return made

    def mapped(self, depth=2):
        """Returns a document with the members that mappings read.  For jsonb, 1e3 and 1000 are the same."""
        values = ["x", "", "1", "Pod", "a/b", "pass", "é" * 130, "日" * 200, " 9.8\t", "1e2", "0x1", "-1", "1e-400",
                  ".5", "x, y ,,z", True, False, None, 1, 2, -1, Number("1.0"), Number("1.50"),
                  Number("9223372036854775808"), Number("1700000000"), Number("253402300800"),
                  Number("31535999"), Number("31536000"), "1970-12-31T23:59:59Z", "1971-01-01T00:00:00Z",
                  Number("1750000000"), "2026-03-04T05:06:07.5Z",
                  "2026-01-02T03:04:05Z", "2026-02-29T00:00:00Z",
                  "2024-02-29T23:59:59.123+24:60", "1969-12-31T23:00:00-02:00", "9999-12-31T23:59:59-01:00",
                  "0000-01-01T00:00:00Z", {"seconds": 1700000000, "nanos": 999999999},
                  {"seconds": "2026-01-02T03:04:05Z"}, {"seconds": 1, "nanos": -1}, {"nanos": 5},
                  ["x", 1, None, " y ", []], "HIGH", "Critical", "\u2028<&>"]
        made = {}
        for name in ("a", "b", "c", "d", "e", "s", "sev", "score", "t", "a.b"):
            if self.random.random() < 0.55:
                made[name] = self.random.choice(values)
        if self.random.random() < 0.5:
            made["c"] = {key: self.random.choice(values) for key in self.random.sample(["a", "b", "zz", "é", "z"], 3)}
        if self.random.random() < 0.4:
            made["s"] = self.random.choice(["pass", "FAIL", "warn", "error", "skip", "unknown"])
        if depth:
            made["l"] = [self.mapped(depth - 1) for _ in range(self.random.randrange(4 + 2 * depth))]
            if made["l"] and self.random.random() < 0.4:
                twin = copy.deepcopy(self.random.choice(made["l"]))
                made["l"].append({**twin, "s": self.random.choice(["pass", "fail", "warn"])})
                made["l"].append(copy.deepcopy(twin))
        if depth == 2:
            made["metadata"] = {"name": "n", "namespace": "ns", "labels": {"app": "web", "n": "1"}}
        return made

    def mapped_text(self):
        """Returns mapped() as text, without NUL: in jsonb, members with NUL in their names would have another order."""
        return Writer(self.random, 0).text(self.mapped())

    def usual_report(self):
        """Returns a report in the policy working group's format, with what mappings of built-in types read."""
        made = {"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport",
                "metadata": {"name": "r", "namespace": "ns", **self.members(ownerReferences=lambda: self.several(
                    lambda: {"apiVersion": "apps/v1", "kind": "Deployment", "name": self.word("n"), "uid": "u",
                             "controller": self.random.choice([True, False])}))}}
        return {**made, **self.members(scope=lambda: {"apiVersion": "v1", "kind": "Pod", "name": self.word("p")},
                                       source=lambda: self.word("kyverno"),
                                       results=lambda: self.several(lambda: self.members(
                                           policy=lambda: self.word("p", "q"), rule=lambda: self.word("r"),
                                           result=lambda: self.word("pass", "fail", "warn", "error", "skip"),
                                           severity=lambda: self.word("high", "low"), message=lambda: self.word("m"),
                                           timestamp=lambda: {"seconds": 1700000000, "nanos": 5},
                                           properties=lambda: {
                                               self.word("score", "exceptions", "k8s.pod.name", "ka.target.resource"):
                                               self.word("7.5", "a,b", "<nil>", "pods", "other"),
                                               self.word("k8s.ns.name", "ka.target.name", "ka.resp.name",
                                                         "ka.target.namespace"): self.word("x", "<NA>", "")},
                                           resources=lambda: self.several(lambda: {
                                               "apiVersion": "v1", "kind": "Pod", "name": self.word("a", "b"),
                                               "uid": self.word("u")})), 6))}

    def text(self, value):
        """Returns a document as text, seldom something that is no document."""
        written = self.writer.text(value)
        if self.random.random() < 0.01:
            at = self.random.randrange(len(written) + 1)
            written = written[:at] + self.random.choice(["", "}", "\"", ",", "\\"]) + written[at + 1:]
        return written


REPORT = "$1[1]::kube_reports.report"
# A session of the C variant remembers mappings by their ids.
RESULTS = ("SELECT json_agg(r ORDER BY r.key) FROM kube_reports_internal.result_difference("
           "kube_reports_internal.field_hash($1[2]), $1[2]::kube_reports.report, 7, NULL, NULL, "
           "nullif($1[3], '')::kube_reports.report, $1[1]::kube_reports.report) r")
# The expression, and a function that makes its arguments.
FUNCTIONS = {
    "label_terms": (f"to_json(kube_reports.label_terms({REPORT}))", lambda m: [m.text(m.metadata())]),
    "matches_labels": ("kube_reports.matches_labels($1[1]::text[], $1[2])", lambda m: [m.terms(), m.selector()]),
    "selector_terms": ("to_json(kube_reports.selector_terms($1[1]))", lambda m: [m.selector()]),
    "matches_fields": ("kube_reports.matches_fields($1[1], $1[2], $1[3])",
                       lambda m: [m.random.choice("ab"), m.random.choice(["a", "b", "", "é"]), m.fields()]),
    "first_owner": (f"SELECT json_build_array(f.owners, f.uid, f.owner::text) FROM "
                    f"kube_reports_internal.first_owner({REPORT}) f", lambda m: [m.text(m.metadata())]),
    "count_summary": (f"SELECT json_build_array(c.counted::text, c.found::text) FROM "
                      f"kube_reports_internal.count_summary({REPORT}) c", lambda m: [m.text(m.report())]),
    "list_results": (f"SELECT json_agg(r) FROM kube_reports_internal.list_results({REPORT}, "
                     f"nullif($1[2], '')::kube_reports.report) r",
                     lambda m: [m.text(m.report()),
                                m.random.choice(["", m.writer.text({"kind": "Pod", "name": m.anything()})])]),
    "result_difference": (RESULTS, lambda m: [m.mapped_text(), json.dumps(m.results_mapping()),
                                              m.random.choice(["", json.dumps({"name": "other"})])]),
    "document_time": ("kube_reports_internal.document_time(kube_reports_internal.field_hash($1[2]), "
                      "$1[2]::kube_reports.report, NULL, $1[1]::kube_reports.report)",
                      lambda m: [m.mapped_text(), json.dumps(m.results_mapping())]),
    "results": (f"SELECT json_agg(r) FROM kube_reports.results({REPORT}) r", lambda m: [m.text(m.usual_report())]),
    "summary": (f"SELECT row_to_json(s) FROM kube_reports.summary({REPORT}) s", lambda m: [m.text(m.usual_report())]),
    "policy_rules": (f"to_json(kube_reports.policy_rules({REPORT}))", lambda m: [m.text(m.policy())]),
    "check_results_mapping": (f"kube_reports_internal.check_results_mapping({REPORT}, 'types.group')",
                              lambda m: [m.writer.text(m.mapping())]),
    "string_at": (f"kube_reports_internal.string_at({REPORT}, VARIADIC $1[2:])",
                  lambda m: [m.text({"a": {"b": m.anything()}, "c": m.anything()}),
                             *m.random.choice([["a", "b"], ["c"], ["a"], ["c", "a"], ["c", "0"]])]),
    "value_at": (f"kube_reports_internal.value_at({REPORT}, VARIADIC $1[2:])",
                 lambda m: [m.text({"a": {"b": m.anything()}, "c": m.anything()}),
                            *m.random.choice([["a", "b"], ["c"], ["a"], ["c", "a"], ["c", "0"]])]),
    "field_hash": ("kube_reports_internal.field_hash(VARIADIC $1)",
                   lambda m: [m.random.choice(HOSTILE) for _ in range(m.random.randrange(1, 4))]),
    "history": ("SELECT json_build_array(p, (SELECT json_agg(u) FROM kube_reports_internal.unpacked_changes(p.joined, "
                "p.common, CASE cardinality(p.ids) WHEN 1 THEN 0 END, p.letters, NULL, p.letters, p.times, NULL) u)) "
                "FROM (SELECT g.ids, kube_reports_internal.common(g.ids) AS common, "
                "kube_reports_internal.joined_ids(g.places, g.ids, "
                "ARRAY(SELECT n / 2 FROM unnest(g.places) n)) AS joined, "
                "kube_reports_internal.letters(g.given::\"char\"[]) AS letters, kube_reports_internal.packed("
                "ARRAY(SELECT to_timestamp(n::integer) FROM unnest(g.given) n)) AS times "
                "FROM (SELECT CASE $1[1] WHEN '' THEN $1[2:] ELSE array_replace($1[2:], '1', NULL) END AS given, "
                "$1[2:]::bigint[] AS ids, ARRAY(SELECT generate_series(1, cardinality($1[2:]))::bigint) AS places"
                ") g) p",
                lambda m: [m.random.choice(["", "nulls"]), *m.random.choices(["1", "2"], k=m.random.randrange(4))]),
}


def value(answer):
    """Returns an answer for a comparison: documents by their values.  In jsonb, a NUL has become U+FFFD."""
    def plain(node):
        if isinstance(node, str):
            if node[:1] in "{[\"" or node in ("null", "true", "false") or node[:1] in "-0123456789":
                try:
                    return ["document", plain(json.loads(node))]
                except ValueError:
                    pass
            return node.replace("\0", "\ufffd")
        if isinstance(node, dict):
            return {plain(k) if isinstance(k, str) and "\0" in k else k: plain(v) for k, v in node.items()}
        if isinstance(node, list):
            return [plain(v) for v in node]
        return float(node) if isinstance(node, int) and not isinstance(node, bool) and abs(node) >= 2 ** 63 else node

    return plain(answer[1:]) if answer.startswith("=") else answer


def test_a_summary_reads_its_document_once(servers):
    """The time of a summary grows with the document, not with the square of its results."""
    for server in servers:
        assert server.psql("""
            SET statement_timeout = '20s';
            SELECT c.counted::text::jsonb->>'fail'
            FROM (SELECT jsonb_build_object('results', jsonb_agg(jsonb_build_object('policy', v, 'result', 'fail')))
                    ::text::kube_reports.report AS body FROM generate_series(1, 6000) v OFFSET 0) d,
                kube_reports_internal.count_summary(d.body) c""") == "6000"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_same_values(servers, name):
    """Both variants give the same values for random, hostile and Unicode arguments; SEED and COUNT choose them"""
    expression, arguments = FUNCTIONS[name]
    maker = Maker(f"{SEED} {name}")
    calls = [[f"({expression})" if expression.startswith("SELECT") else expression, arguments(maker)]
             for _ in range(COUNT)]
    ours, others = (server.attempt(calls) for server in servers)
    different = [(call[1], mine, other) for call, mine, other in zip(calls, ours, others)
                 if value(mine) != value(other)]
    assert not different, f"{len(different)} of {len(calls)}: C says {different[0][1]}, SQL says {different[0][2]} " \
                          f"of {different[0][0]}"
    answered = sum(answer.startswith("=") for answer in ours)
    assert answered > COUNT / 10, f"only {answered} of {COUNT} had an answer"


@pytest.mark.parametrize("user", ["anybody", "reader"])
def test_same_rights(servers, user):
    """Both variants let a role call the same functions"""
    maker = Maker("rights")
    calls = [[f"({expression})" if expression.startswith("SELECT") else expression, made(maker)]
             for expression, made in FUNCTIONS.values()]
    ours, others = ([answer == "42501" for answer in server.attempt(calls, user)] for server in servers)
    assert ours == others and not all(ours)


def test_same_estimates(servers):
    """
    From each function the planner expects as many rows in both variants, so that it joins the rows of a large report
    in the same way
    """
    ours, others = (dict(server.rows("""
        SELECT p.oid::regprocedure::text, p.prorows FROM pg_proc p
        WHERE p.proretset AND p.pronamespace::regnamespace::text ~ '^kube_reports'""")) for server in servers)
    assert "kube_reports_internal.unpacked_changes" in {name.split("(")[0] for name in ours}
    assert {name: others[name] for name in ours} == ours


CRDS = sorted([*TOP.glob("sql/crds/*.json"), *TOP.glob("regress/crds/**/*.json")])
BROKEN = [["spec", "group"], ["spec", "names"], ["spec", "names", "plural"], ["spec", "names", "kind"],
          ["spec", "scope"], ["spec", "versions"], ["spec", "versions", 0, "name"], ["spec", "versions", 0, "schema"],
          ["metadata", "name"], ["spec", "versions", 0, "schema", "openAPIV3Schema", "type"]]


def broken(crd, path, value):
    """Returns the same without a member, or with another value in its place."""
    made = copy.deepcopy(crd)
    place = made
    for step in path[:-1]:
        place = place[step]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return made


def test_same_definitions(servers):
    """Both variants accept and refuse the same CustomResourceDefinitions, and derive the same definitions from them"""
    crds = [json.loads(path.read_text(encoding="utf-8")) for path in CRDS]
    crds = [crd for crd in crds if isinstance(crd, dict) and crd.get("kind") == "CustomResourceDefinition"]
    assert crds
    expression = (f"SELECT jsonb_agg(jsonb_build_object('names', d - 'versions', 'version', v->'version', 'scope', "
                  f"v->'scope', 'storage', v->'storage', 'rules', (SELECT jsonb_agg(r.rule ORDER BY r.rule) FROM "
                  f"jsonb_array_elements_text(v->'unevaluatedRules') r(rule)))) "
                  f"FROM kube_reports_internal.crd_definitions({REPORT}) d, "
                  f"jsonb_array_elements(d->'versions') v")
    documents = crds + [broken(crds[0], path, wrong) for path in BROKEN
                        for wrong in (None, 5, "A b", {"type": "nothing"}, [])]
    # CEL rules, which are not evaluated, at every place of a schema.
    rule = {"x-kubernetes-validations": [{"rule": " self\n==  1 "}, {"rule": "self != 2", "message": "m"}]}
    documents.append(broken(crds[0], ["spec", "versions", 0, "schema", "openAPIV3Schema"], {
        "type": "object", **rule, "properties": {
            "a": {"type": "array", **rule, "items": {"type": "object",
                                                     "properties": {"b": {"type": "string", **rule}}}},
            "m": {"type": "object", "additionalProperties": {"type": "string", **rule}}}}))
    calls = [[f"({expression})", [json.dumps(document)]] for document in documents]
    ours, others = (server.attempt(calls) for server in servers)
    different = [(call[1][0][:300], mine[:300], other[:300]) for call, mine, other in zip(calls, ours, others)
                 if value(mine) != value(other)]
    assert not different, f"{len(different)} of {len(calls)}: {different[:4]}"
