"""
Kyverno's merges in the database, compared with the rules of reports-server, sections 5.3 and 5.4. This file applies the
rules without code of kube-reports (issue 5, done when 4).
"""

import concurrent.futures
import itertools
import json
import os
import random
import signal
import threading
import uuid

import psycopg2
import pytest

from apiserver import ApiServer
from client import CPOLR, EPHR, POLR, REPS, path_of, run, until
from conftest import VARIANT, stack_command

CEPHR = "reports.kyverno.io/v1/clusterephemeralreports"
UID = "audit.kyverno.io/resource.uid"
MANAGED = "app.kubernetes.io/managed-by"
OWN_KINDS = ("KyvernoValidatingPolicy", "KyvernoImageValidatingPolicy", "KyvernoGeneratingPolicy",
             "KyvernoMutatingPolicy",
             "ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")
OUTCOMES = ("pass", "fail", "warn", "error", "skip")
NUMBERS = itertools.count(1)


# --- the rules of section 5.3 ---

def is_active(result, active):
    """Rule 4: returns whether the policy of a result is active, and the rule of a classic policy as well."""
    if active is None:
        return True
    source = result.get("source", "")
    if source in OWN_KINDS:
        return (source, result["policy"]) in active
    return result.get("rule", "") in active.get(("", result["policy"]), ())


def merge(reports, active):
    """Rules 2 to 5: merges the results of reports, the permanent report first."""
    kept = {}
    for results in reports:
        for result in results:
            if not is_active(result, active):
                continue
            source = result.get("source", "")
            key = (source, result["policy"]) if source in OWN_KINDS else (source, result["policy"],
                result.get("rule", ""))
            if key not in kept or kept[key]["timestamp"]["seconds"] < result["timestamp"]["seconds"]:
                kept[key] = result
    return sorted(kept.values(), key=lambda r: (r["policy"].encode(), r.get("rule", "").encode(),
                                                r.get("source", "").encode()))


def summary(results):
    return {outcome: sum(1 for result in results if result["result"] == outcome) for outcome in OUTCOMES}


class Workload:
    def __init__(self, namespace, choice):
        self.namespace = namespace
        self.uid = str(uuid.UUID(int=choice.getrandbits(128)))
        self.name = f"app-{self.uid[:8]}"
        kind, version = choice.choice((("Deployment", "apps/v1"), ("Pod", "v1"),
                                       ("Namespace", "v1"))) if namespace else ("Namespace", "v1")
        self.owner = {"apiVersion": version, "kind": kind, "name": self.name, "uid": self.uid}
        self.waiting = []
        self.results = None

    def ephemeral(self, results, owned=True, source="admission"):
        """Returns a report like those of Kyverno's webhook or scanner; names are in the order of creation."""
        document = {"apiVersion": "reports.kyverno.io/v1",
                    "kind": "EphemeralReport" if self.namespace else "ClusterEphemeralReport",
                    "metadata": {"generateName": f"{next(NUMBERS):08d}-",
                                 "labels": {UID: self.uid, MANAGED: "kyverno", "audit.kyverno.io/source": source}},
                    "spec": {"owner": {"apiVersion": "", "kind": "", "name": "", "uid": ""}, "results": results,
                             "summary": summary(results)}}
        if owned:
            document["metadata"]["ownerReferences"] = [self.owner]
        return document

    def settle(self, active):
        """Returns the state after all waiting reports have been merged."""
        self.results = merge([self.results or [], *self.waiting], active) or None
        self.waiting = []

    def expected(self):
        scope = {**self.owner, **({"namespace": self.namespace} if self.namespace else {})}
        return {"labels": {MANAGED: "kyverno"}, "owners": [self.owner], "scope": scope, "results": self.results,
                "summary": summary(self.results)}


def shown(document):
    return {"labels": document["metadata"].get("labels"), "owners": document["metadata"].get("ownerReferences"),
            "scope": document.get("scope"),
            "results": document.get("results"), "summary": document.get("summary")}


POLICIES = {("", f"policy-{n}"): {f"rule-{m}" for m in range(n % 3 + 1)}
            | {f"autogen-rule-{m}" for m in range(n % 3 + 1)} for n in range(9)}
POLICIES |= {("", "team/namespaced"): {"only"}, ("KyvernoValidatingPolicy", "cel"): (),
             ("ValidatingAdmissionPolicy", "vap"): ()}


def random_results(choice, clock, odd=0):
    """
    Returns results of some policies. Of two results with equal times the first one counts. odd: 1 gives times that
    differ from all times with odd=0.
    """
    results = []
    for (source, policy), rules in choice.sample(sorted(POLICIES.items(), key=str), choice.randrange(1, 6)):
        for rule in sorted(rules) or [choice.choice(("one", "two"))]:
            results.append({"source": source or "kyverno", "policy": policy, "rule": rule,
                            "result": choice.choice(OUTCOMES), "message": f"m{choice.randrange(5)}",
                            "scored": True, "timestamp": {"seconds": 1700000000 + 2 * (clock + choice.randrange(3))
                                + odd, "nanos": choice.randrange(2)}})
    return results


def policies_of(active):
    return json.dumps([{"source": source, "policy": policy, **({"rules": sorted(rules)} if source == "" else {})}
                       for (source, policy), rules in active.items()])


class Flow:
    """Acts as Kyverno and its cluster, with two proxies."""

    def __init__(self, stack, group="wgpolicyk8s.io", flags=(), **options):
        stack.begin("deadlock_timeout = 100ms")
        self.database, self.cluster = stack.database, stack.cluster
        self.proxies = [stack.proxy(flags=flags), stack.proxy(flags=flags)]
        self.group = group
        self.set(policy_reports="resource", group=group, delay="300 ms", **options)
        self.local = threading.local()
        self.permanent = (POLR, CPOLR) if group == "wgpolicyk8s.io" else (REPS,
            "openreports.io/v1alpha1/clusterreports")

    def set(self, **options):
        arguments = ", ".join(f'"{name}" => \'{value}\'' for name, value in options.items())
        self.database.psql(f"SELECT kube_reports.set_aggregation('{self.cluster}', {arguments})")

    def set_active(self, active):
        literal = "NULL" if active is None else "'" + policies_of(active) + "'"
        self.database.psql(f"SELECT kube_reports.set_active_policies('{self.cluster}', {literal})")

    @property
    def api(self):
        """Returns the connection of this thread, to one of the two proxies."""
        if not hasattr(self.local, "api"):
            self.local.api = random.choice(self.proxies).api(keep=True)
        return self.local.api

    def create(self, workload, results, owned=True, source="admission"):
        document = workload.ephemeral(results, owned, source)
        path = path_of(EPHR, workload.namespace) if workload.namespace else path_of(CEPHR)
        answer = self.api.post(path, document)
        assert answer.code == 201, answer
        workload.waiting.append(results)
        return answer.json

    def adopt(self, workload, stored):
        """Adds the owner to a report, as Kyverno does when it has found the resource."""
        stored["metadata"]["ownerReferences"] = [workload.owner]
        path = path_of(EPHR, workload.namespace, stored["metadata"]["name"]) if workload.namespace else path_of(CEPHR,
            name=stored["metadata"]["name"])
        answer = self.api.put(path, stored)
        assert answer.code == 200, answer

    def remove(self, workload):
        """Deletes the reports of a deleted resource, as the garbage collector does."""
        for resource in ((EPHR, self.permanent[0]) if workload.namespace else (CEPHR, self.permanent[1])):
            selector = {"labelSelector": f"{UID}={workload.uid}"} if resource in (EPHR, CEPHR) else \
                {"fieldSelector": f"metadata.name={workload.uid}"}
            listed = self.api.get(path_of(resource, workload.namespace), **selector)
            for item in listed.json["items"]:
                answer = self.api.delete(path_of(resource, workload.namespace, item["metadata"]["name"]))
                assert answer.code in (200, 404), answer

    def each(self, workloads, work):
        """Does the work for each workload, for eight at a time."""
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(work, workloads))

    def quiet(self, seconds=120):
        """Waits until no report waits, and no merge is in progress."""
        until(lambda: self.database.psql("SELECT NOT EXISTS (SELECT FROM kube_reports_internal.aggregation_queue) AND "
                                         "NOT EXISTS"
                                         " (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid::int < -16)")
              == "t", seconds, "the queue to be empty")

    def reports(self):
        found = {}
        for resource in self.permanent:
            for item in self.api.get(path_of(resource)).json["items"]:
                found[item["metadata"].get("namespace", ""), item["metadata"]["name"]] = shown(item)
        return found

    def compare(self, workloads, active):
        self.quiet()
        for workload in workloads:
            workload.settle(active)
        expected = {(workload.namespace or "", workload.uid): workload.expected() for workload in workloads
                    if workload.results is not None}
        found = self.reports()
        assert sorted(found) == sorted(expected)
        for key, report in expected.items():
            assert found[key] == report, key
        self.sound()

    def sound(self):
        """Checks that derived rows agree with documents, and that there was no deadlock."""
        assert self.database.psql("SELECT * FROM kube_reports.verify()") == ""
        with open(f"{self.database.directory}/log/postgresql.log", encoding="utf-8") as log:
            assert "deadlock detected" not in log.read()


@pytest.mark.parametrize("group, count", [("wgpolicyk8s.io", 500), ("openreports.io", 40)])
def test_flow(own_stack, group, count):
    """
    Admission and background reports of many workloads, changes of policies, and deletions: after each step the stored
    reports are those of the rules
    """
    flow, choice = Flow(own_stack, group), random.Random(group)
    workloads = [Workload(choice.choice(("shop", "pay", "web", None)), choice) for _ in range(count)]
    clock = itertools.count(0, 2)

    def scan(workload):
        """Sends at most one report of the webhook, which Kyverno adopts later, and one of a background scan."""
        own = random.Random(workload.uid + str(len(workload.waiting)))
        adopted = [flow.create(workload, random_results(own, now, odd=1), owned=False) for _ in range(own.randrange(2))]
        flow.create(workload, random_results(own, now), source="background-scan")
        for stored in adopted:
            flow.adopt(workload, stored)

    # No proxy has reported the policies yet.
    now = next(clock)
    flow.each(workloads, scan)
    flow.compare(workloads, None)
    assert flow.api.get(path_of(EPHR)).json["items"] == []

    # All policies are active, then fewer and fewer, while reports of all of them arrive; then all are active again.
    active = dict(POLICIES)
    for gone in (None, ("", "policy-1"), ("KyvernoValidatingPolicy", "cel")):
        active.pop(gone, None)
        if gone == ("", "policy-1"):
            active["", "policy-2"] = active["", "policy-2"] - {"rule-0"}
        flow.set_active(active)
        flow.compare(workloads, active)
        now = next(clock)
        flow.each(choice.sample(workloads, count // 5), scan)
        flow.compare(workloads, active)
    active = dict(POLICIES)
    flow.set_active(active)
    flow.compare(workloads, active)

    # Resources are deleted, with everything that they own; others are created.
    going = choice.sample(workloads, count // 5)
    now = next(clock)
    flow.each(going, scan)
    flow.each(going, flow.remove)
    workloads = [workload for workload in workloads if workload not in going]
    # A merge in between may have written another report; the collector deletes that report as well.
    flow.quiet()
    flow.each(going, flow.remove)
    flow.compare(workloads, active)
    workloads += [Workload("shop", choice) for _ in range(count // 10)]
    flow.each(workloads[-(count // 10):], scan)
    flow.compare(workloads, active)

    # No policy is left, so no report is left.
    flow.set_active({})
    flow.compare(workloads, {})
    assert flow.reports() == {}


def test_unowned_and_foreign(own_stack):
    """Reports without an owner are not merged; another manager's report with a merged name is not changed"""
    flow, choice = Flow(own_stack), random.Random(1)
    left, foreign, mine = (Workload("shop", choice) for _ in range(3))
    now = 0
    flow.create(left, random_results(choice, now), owned=False)
    other = {"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport",
             "metadata": {"name": foreign.uid}, "results": []}
    assert flow.api.post(path_of(POLR, "shop"), other).code == 201
    flow.create(foreign, random_results(choice, now))
    flow.create(mine, random_results(choice, now))
    until(lambda: len(flow.reports()) == 2, 20, "the merge")
    flow.quiet()
    mine.settle(None)
    assert flow.reports()["shop", mine.uid] == mine.expected()
    assert flow.reports()["shop", foreign.uid]["results"] == []
    assert sorted(item["metadata"]["labels"][UID]
                  for item in flow.api.get(path_of(EPHR)).json["items"]) == sorted([left.uid, foreign.uid])


def test_burst_costs_one_merge(own_stack):
    """A burst of reports for one resource becomes one write of its report and one event, with several proxies"""
    flow, choice = Flow(own_stack), random.Random(2)
    flow.set(delay="2 seconds")
    workload = Workload("shop", choice)
    with flow.api.watch(path_of(POLR, "shop")) as watch:
        for now in range(40):
            flow.create(workload, random_results(choice, now))
        flow.compare([workload], None)
        watch.expect(("ADDED", workload.uid))
        again = random_results(choice, 100)
        flow.create(workload, again)
        flow.compare([workload], None)
        watch.expect(("MODIFIED", workload.uid))
        # The same results again change nothing, and watchers get no event.
        flow.create(workload, again)
        flow.compare([workload], None)
        assert watch.quiet()
    assert flow.database.psql("SELECT count(*) FROM kube_reports_internal.change c JOIN kube_reports_internal.lane l "
                              "ON l.id = c.lane WHERE l.resource_type = 1") == "2"


def test_locked_out(own_stack):
    """While a writer holds the lock of a lane, reports of other lanes are merged; those of this lane follow later"""
    flow, choice = Flow(own_stack), random.Random(9)
    first, second = Workload("shop", choice), Workload(None, choice)
    with psycopg2.connect(flow.database.connection()) as writer:
        writer.cursor().execute("SELECT kube_reports_internal.lock_lane(l.id) FROM kube_reports_internal.lane l WHERE "
                                "l.resource_type = 1")
        flow.create(first, random_results(choice, 0))
        flow.create(second, random_results(choice, 0))
        until(lambda: list(flow.reports()) == [("", second.uid)], 30, "the report of the cluster")
        assert (flow.database.psql("SELECT DISTINCT key, attempts FROM kube_reports_internal.aggregation_queue")
                == f"{first.uid}|0")
    writer.close()
    flow.compare([first, second], None)


class Controller(threading.Thread):
    """Kyverno's own controller: lists, merges, writes, deletes; repeats after conflicts."""

    def __init__(self, flow, workloads):
        super().__init__()
        self.flow, self.workloads = flow, workloads
        self.done, self.failure, self.merges = threading.Event(), None, 0

    def run(self):
        try:
            while not self.done.is_set():
                for workload in self.workloads:
                    self.reconcile(workload)
        except Exception as error:  # the test checks it
            self.failure = error

    def reconcile(self, workload):
        api, path = self.flow.api, path_of(POLR, workload.namespace, workload.uid)
        listed = api.get(path_of(EPHR, workload.namespace), labelSelector=f"{UID}={workload.uid}").json["items"]
        if not listed:
            return
        stored = api.get(path)
        report = stored.json if stored.code == 200 else None
        results = merge([report["results"] if report else [], *(item["spec"]["results"] for item in listed)], None)
        if report:
            report.update(results=results, summary=summary(results))
            answer = api.put(path, report)
        else:
            expected = workload.expected() if workload.results else {"scope": {**workload.owner,
                "namespace": workload.namespace}}
            answer = api.post(path_of(POLR, workload.namespace), {
                "apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "scope": expected["scope"],
                "results": results, "summary": summary(results),
                "metadata": {"name": workload.uid, "labels": {MANAGED: "kyverno"},
                             "ownerReferences": [workload.owner]}})
        assert answer.code in (200, 201, 404, 409), answer
        if answer.code in (200, 201):
            self.merges += 1
            for item in listed:
                assert api.delete(path_of(EPHR, workload.namespace, item["metadata"]["name"])).code in (200, 404)


def unique_results(choice, now):
    """Returns results with a time of their own: then the order of merges does not change their result."""
    results = random_results(choice, 0)
    for result in results:
        result["timestamp"]["seconds"] = 1700000000 + now
    return results


def test_beside_kyverno(own_stack):
    """Kyverno and the database merge the same reports while more arrive: nothing is lost or counted twice"""
    flow, choice = Flow(own_stack), random.Random(3)
    flow.set(delay="0")
    workloads = [Workload("shop", choice) for _ in range(12)]
    controller = Controller(flow, workloads)
    controller.start()
    for now in range(40):
        flow.each(workloads, lambda workload: flow.create(workload,
            unique_results(random.Random(f"{workload.uid}{now}"), now)))
    until(lambda: flow.api.get(path_of(EPHR)).json["items"] == [], 60, "all to be merged")
    controller.done.set()
    controller.join()
    assert controller.failure is None
    flow.compare(workloads, None)
    by = dict(line.split("|") for line in flow.database.psql(
        "SELECT c.actor = 'system:kube-reports:aggregation', count(*) FROM kube_reports_internal.change c JOIN "
        "kube_reports_internal.lane l ON l.id = c.lane"
        " WHERE l.resource_type = 1 GROUP BY 1").splitlines())
    assert set(by) == {"t", "f"}, by


def test_killed_while_draining(own_stack, tmp_path):
    """When upkeep processes and backends are killed during merges, every report is still merged, exactly once"""
    flow, choice = Flow(own_stack), random.Random(4)
    flow.set(delay="0")
    workloads = [Workload("shop", choice) for _ in range(100)]
    done, killed = threading.Event(), []

    def kill():
        while not done.wait(0.2):
            victim = choice.randrange(2)
            if victim == 0:
                for upkeep in filter(None, [proxy.upkeep() for proxy in flow.proxies]):
                    os.kill(upkeep, signal.SIGKILL)
            else:
                flow.database.psql("SELECT pg_terminate_backend(l.pid) FROM pg_locks l WHERE l.locktype = 'advisory' "
                                   "AND l.objid::int < -16", user="postgres")
            killed.append(victim)

    script = tmp_path / "create.sql"
    with open(script, "w", encoding="utf-8") as file:
        for now in range(3):
            for workload in workloads:
                results = unique_results(choice, now)
                document = workload.ephemeral(results)
                document["metadata"]["namespace"] = workload.namespace
                file.write(f"SELECT kube_reports.create_report('{flow.cluster}', '{json.dumps(document)}') IS NOT "
                           "NULL;\n")
                workload.waiting.append(results)
    killer = threading.Thread(target=kill)
    killer.start()
    try:
        run(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-o", "/dev/null", "-f", str(script), "-d",
             flow.database.connection()])
        until(lambda: set(killed) == {0, 1}, 20, "both kinds of victims")
    finally:
        done.set()
        killer.join()
    flow.proxies[0].wait_ready()
    flow.compare(workloads, None)
    assert flow.api.get(path_of(EPHR)).json["items"] == []


# --- the rules of section 5.4: Kyverno 1.8 to 1.10 ---

ADMR, CADMR = "kyverno.io/v1alpha2/admissionreports", "kyverno.io/v1alpha2/clusteradmissionreports"
BGSCANR, CBGSCANR = "kyverno.io/v1alpha2/backgroundscanreports", "kyverno.io/v1alpha2/clusterbackgroundscanreports"
AGGREGATE = "audit.kyverno.io/report.aggregate"
CHUNK = 25


def newest(pairs, key):
    """Returns the newest result for each key, with its companion; of equal results the first one."""
    kept = {}
    for found, result in pairs:
        if key(found, result) not in kept or kept[key(found,
                                                      result)][1]["timestamp"]["seconds"] < result[
            "timestamp"]["seconds"]:
            kept[key(found, result)] = (found, result)
    return kept.values()


class OldWorkload(Workload):
    """A workload with waiting admission reports, the aggregated report, and the report of the background scan."""

    def __init__(self, namespace, choice):
        super().__init__(namespace, choice)
        self.scanned = None
        self.subject = {**self.owner, **({"namespace": namespace} if namespace else {})}
        self.types = {"AdmissionReport": ADMR,
                      "BackgroundScanReport": BGSCANR} if namespace else {"AdmissionReport": CADMR,
            "BackgroundScanReport": CBGSCANR}

    def document(self, kind, name, results, owned):
        metadata = {"name": name, "labels": {UID: self.uid, "audit.kyverno.io/resource.gvr": "pods.v1",
                                             MANAGED: "kyverno"}}
        if owned:
            metadata["ownerReferences"] = [self.owner]
        empty = {"owner": {"apiVersion": "", "kind": "", "name": "", "uid": ""}} if kind == "AdmissionReport" else {}
        return {"apiVersion": "kyverno.io/v1alpha2", "kind": kind if self.namespace else f"Cluster{kind}",
                "metadata": metadata, "spec": {**empty, "results": results, "summary": summary(results)}}

    def settle_admission(self):
        """Merges the admission reports, unless the owner is not known yet."""
        if self.results is None and self.scanned is None or not self.waiting:
            return
        merged = newest((((), result) for results in [self.results or [], *self.waiting] for result in results),
                        lambda _, result: (result["policy"], result["rule"]))
        self.results = sorted(({**result, "resources": [self.subject]} for _, result in merged),
                              key=lambda result: (result["policy"], result["rule"])) or None
        self.waiting = []


def namespace_reports(workloads, namespace, active):
    """Returns the expected policy reports of a namespace, by their names."""
    rules = active and {key: rules for key, (rules, _) in active.items()}
    pairs = [(workload, result) for kind in ("results", "scanned")
             for workload in sorted(workloads, key=lambda w: w.uid)
             if workload.namespace == namespace for result in getattr(workload, kind) or [] if is_active(result, rules)]
    by_policy = {}
    for workload, result in newest(pairs, lambda workload, result: (result["policy"], result["rule"], workload.uid)):
        by_policy.setdefault(result["policy"], []).append((result["rule"], workload.uid,
            {**result, "resources": [workload.subject]}))
    reports = {}
    for policy, results in by_policy.items():
        ordered = [result for *_, result in sorted(results, key=lambda entry: entry[:2])]
        prefix, short = ("pol", policy.split("/")[1]) if "/" in policy else ("cpol", policy)
        labels = {MANAGED: "kyverno", **({f"{prefix}.kyverno.io/{short}": active["", policy][1]} if active else {})}
        for number, start in enumerate(range(0, len(ordered), CHUNK)):
            chunk = ordered[start:start + CHUNK]
            reports[f"{prefix}-{short}" + (f"-{number}" if number else "")] = {"labels": labels, "owners": None,
                "scope": None, "results": chunk,
                                                                              "summary": summary(chunk)}
    return reports


class OldFlow(Flow):
    """Acts as Kyverno 1.8 to 1.10."""

    def __init__(self, stack):
        super().__init__(stack, admission="true", chunk_size=str(CHUNK))
        self.set(policy_reports="policy")
        self.active = None
        self.versions = itertools.count(1)

    def put(self, workload, kind, name, results, owned):
        path = path_of(workload.types[kind], workload.namespace)
        document = workload.document(kind, name, results, owned)
        answer = self.api.post(path, document)
        if answer.code == 409:
            answer = self.api.patch(f"{path}/{name}", {"spec": document["spec"]})
        assert answer.code in (200, 201), answer

    def admit(self, workload, now):
        own = random.Random(f"{workload.uid}{now}")
        for _ in range(own.randrange(3)):
            results = [result for result in random_results(own, now, odd=1) if result["source"] == "kyverno"]
            self.put(workload, "AdmissionReport", f"{next(NUMBERS):08d}", results, False)
            workload.waiting.append(results)

    def scan(self, workload, now):
        workload.scanned = [result for result in random_results(random.Random(f"{now}{workload.uid}"), now)
                            if result["source"] == "kyverno"]
        self.put(workload, "BackgroundScanReport", workload.uid, workload.scanned, True)

    def set_versions(self, policies):
        self.active = {key: (rules, str(next(self.versions))) for key, rules in policies.items() if key[0] == ""}
        entries = json.dumps([{"policy": policy, "rules": sorted(rules), "version": version}
                              for (_, policy), (rules, version) in self.active.items()])
        self.database.psql(f"SELECT kube_reports.set_active_policies('{self.cluster}', '{entries}')")

    def compare_old(self, workloads):
        self.quiet()
        for workload in workloads:
            workload.settle_admission()
        stored = [item for resource in (ADMR, CADMR) for item in self.api.get(path_of(resource)).json["items"]]
        aggregated = {item["metadata"]["name"]: item for item in stored if AGGREGATE in item["metadata"]["labels"]}
        assert {name: item["spec"]["results"] for name, item in aggregated.items()} == \
            {workload.uid: workload.results for workload in workloads if workload.results is not None}
        for name, item in aggregated.items():
            assert item["metadata"]["labels"] == {UID: name, AGGREGATE: name, MANAGED: "kyverno",
                                                  "audit.kyverno.io/resource.gvr": "pods.v1"}
            assert item["spec"]["summary"] == summary(item["spec"]["results"])
        assert len(stored) - len(aggregated) == sum(len(workload.waiting) for workload in workloads)
        assert self.reports() == {(namespace or "", name): report for namespace in ("shop", "pay", None)
                                  for name, report in namespace_reports(workloads, namespace, self.active).items()}
        self.sound()


def test_older_flow(own_stack):
    """
    Admission reports become one report for each resource; these and the reports of scans become policy reports in
    chunks, also after changes of policies and deletions
    """
    flow, choice = OldFlow(own_stack), random.Random(5)
    workloads = [OldWorkload(choice.choice(("shop", "pay", None)), choice) for _ in range(120)]
    flow.each(workloads, lambda workload: flow.admit(workload, 0))
    flow.compare_old(workloads)
    assert flow.reports() == {}
    flow.each(workloads[:90], lambda workload: flow.scan(workload, 0))
    flow.compare_old(workloads)
    assert {namespace for namespace, name in flow.reports() if name.endswith("-1")} >= {"", "shop", "pay"}
    flow.set_versions({key: rules for key, rules in POLICIES.items() if key[1] not in ("policy-1", "policy-5")})
    flow.compare_old(workloads)
    # Unlike with ephemeral reports, results of an inactive policy appear again when the policy becomes active.
    flow.set_versions(POLICIES)
    flow.each(workloads, lambda workload: flow.admit(workload, 4))
    flow.each(workloads[60:], lambda workload: flow.scan(workload, 4))
    flow.compare_old(workloads)
    # Resources are deleted, with everything that they own.
    for workload in workloads[:30]:
        for resource in workload.types.values():
            for item in flow.api.get(path_of(resource, workload.namespace),
                                     labelSelector=f"{UID}={workload.uid}").json["items"]:
                assert flow.api.delete(path_of(resource, workload.namespace, item["metadata"]["name"])).code == 200
    workloads = workloads[30:]
    flow.compare_old(workloads)
    flow.set_versions({})
    flow.compare_old(workloads)
    assert flow.reports() == {}


# --- active policies, read from kube-apiserver ---

CPOL = "/apis/kyverno.io/v1/clusterpolicies"
POL = "/apis/kyverno.io/v1/policies"
VPOL = "/apis/policies.kyverno.io/v1beta1/validatingpolicies"
VAP = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
DISABLED = {"reports.kyverno.io/disabled": ""}
ENABLED = {"reports.kyverno.io/enabled": "true"}


def policy(name, rules=(), namespace=None, labels=None):
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}),
                **({"labels": labels} if labels else {})}
    return {"metadata": metadata, "spec": {
                                           "rules": [{"name": rule, "match": {
        "any": [{"resources": {"kinds": ["Pod"]}}]}, "validate": {"pattern": {}}}
                                                     for rule in rules]}}


@pytest.fixture
def policed(own_stack):
    """A stack whose proxies have a stand-in for kube-apiserver with policies of some kinds."""
    certificates = f"{own_stack.pki}/apiserver"
    stack_command("certificates", certificates)
    server = ApiServer(certificates)
    server.delete_namespace("kube-system")
    server.create_namespace("kube-system", uid=own_stack.cluster)
    for collection, kind in ((CPOL, "ClusterPolicy"), (POL, "Policy"), (VPOL, "ValidatingPolicy"),
                             (VAP, "ValidatingAdmissionPolicy")):
        server.serve(collection, kind)
    own_stack.apiserver = server
    kubeconfig = server.kubeconfig(f"{own_stack.pki}/kubeconfig-policies", token="t")
    own_stack.flags = [f"--authentication-kubeconfig={kubeconfig}", "--authentication-skip-lookup"]
    yield own_stack
    server.calm()
    server.stop()


def known(flow):
    """Returns the active policies in the database: source and policy, rules."""
    rows = flow.database.psql("SELECT source, policy, array_to_string(rules, ',') FROM "
                              "kube_reports_internal.active_policy ORDER BY 1, 2").splitlines()
    return {tuple(row.split("|")[:2]): set(filter(None, row.split("|")[2].split(","))) for row in rows}


def test_policies_are_followed(policed):
    """
    Rules 4 and 9: nothing is merged before all kinds of policies are known; then proxies follow policies, rules that
    are generated for controllers, labels and versions of kinds
    """
    server = policed.apiserver
    server.put(CPOL, policy("one", ["a"]))
    server.put(CPOL, policy("silent", ["a"], labels=DISABLED))
    server.put(POL, policy("two", ["b"], namespace="team"))
    server.put(VPOL, policy("cel"))
    server.put(VAP, policy("admission", labels=ENABLED))
    server.put(VAP, policy("unreported"))
    server.trouble(POL, code=403)
    flow, choice = Flow(policed, flags=policed.flags), random.Random(6)

    def result(source, name, rule):
        return {"source": source, "policy": name, "rule": rule, "result": "fail",
                "timestamp": {"seconds": 1700000000, "nanos": 0}}

    results = [result("kyverno", "one", "a"), result("kyverno", "one", "autogen-cronjob-a"),
               result("kyverno", "one", "gone"), result("kyverno", "silent", "a"),
               result("kyverno", "team/two", "b"), result("KyvernoValidatingPolicy", "cel", "x"),
               result("ValidatingAdmissionPolicy", "admission", ""),
               result("ValidatingAdmissionPolicy", "unreported", "")]
    workload = Workload("shop", choice)
    flow.create(workload, results)
    until(lambda: server.asked(POL), 20, "the proxies to ask for policies")
    until(lambda: any("and reports are not merged until it does" in proxy.log_path.read_text()
                      for proxy in flow.proxies), 20, "the log to say so")
    assert known(flow) == {} and flow.reports() == {}

    server.calm()
    active = {("", "one"): {"a", "autogen-a", "autogen-cronjob-a"},
              ("", "team/two"): {"b", "autogen-b", "autogen-cronjob-b"},
              ("KyvernoValidatingPolicy", "cel"): set(), ("ValidatingAdmissionPolicy", "admission"): set()}
    until(lambda: known(flow) == active, 30, "the policies to be known")
    flow.compare([workload], active)
    assert len(flow.reports()["shop", workload.uid]["results"]) == 5

    # Changes of policies change the reports.
    server.put(CPOL, policy("one", ["a"], labels=DISABLED))
    server.remove(VPOL, "cel")
    server.put(VAP, policy("unreported", labels=ENABLED))
    active = {("", "team/two"): active["", "team/two"], ("ValidatingAdmissionPolicy", "admission"): set(),
              ("ValidatingAdmissionPolicy", "unreported"): set()}
    until(lambda: known(flow) == active, 30, "the change to be known")
    flow.compare([workload], active)
    assert len(flow.reports()["shop", workload.uid]["results"]) == 2

    # Policies changed while no proxy ran: no result is dropped because of the old set.
    for proxy in flow.proxies:
        proxy.stop()
    server.put(CPOL, policy("one", ["a"]))
    server.trouble(VAP, code=503)
    for proxy in flow.proxies:
        proxy.start()
        proxy.wait_ready()
    flow.local = threading.local()
    flow.create(workload, [result("kyverno", "one", "a")])
    server.calm()
    active["", "one"] = {"a", "autogen-a", "autogen-cronjob-a"}
    until(lambda: known(flow) == active, 60, "the policies to be known again")
    flow.compare([workload], active)
    assert len(flow.reports()["shop", workload.uid]["results"]) == 3

    # The database has forgotten the policies, as after a restore: the proxies send them again.
    flow.set_active(None)
    until(lambda: known(flow) == active, 30, "the database to be told again")


def test_policies_of_another_cluster(policed):
    """Policies of a kube-apiserver of another cluster are not used"""
    policed.apiserver.delete_namespace("kube-system")
    policed.apiserver.create_namespace("kube-system")
    policed.apiserver.put(CPOL, policy("one", ["a"]))
    flow = Flow(policed, flags=policed.flags)
    workload = Workload("shop", random.Random(7))
    flow.create(workload, [])
    until(lambda: all("is not that of cluster" in proxy.log_path.read_text() for proxy in flow.proxies), 20,
          "the log to say so")
    assert not policed.apiserver.asked(CPOL)
    assert known(flow) == {} and flow.database.psql("SELECT count(*) FROM kube_reports_internal.aggregation_queue "
                                                    "WHERE stage = 'r'") == "1"
    # Another program may set the policies.
    flow.set(follow_policies="false")
    flow.quiet()
    assert flow.api.get(path_of(EPHR)).json["items"] == []


# --- dumps ---

def test_dump(own_stack):
    """A dump has the options; after the restore, waiting reports are merged once, and old policies drop no result"""
    flow, choice = Flow(own_stack), random.Random(8)
    database = flow.database
    database.psql("SELECT kube_reports.set_summaries('policyreports.wgpolicyk8s.io')")
    merged, waiting = Workload("shop", choice), Workload("shop", choice)
    flow.create(merged, random_results(choice, 0))
    flow.set_active(POLICIES)
    flow.compare([merged], POLICIES)
    flow.set(delay="1 hour", chunk_size="7", follow_policies="false")
    flow.create(waiting, random_results(choice, 0))
    flow.create(merged, random_results(choice, 1))
    for proxy in flow.proxies:
        proxy.stop()
    dump = f"{database.directory}/aggregation.dump"
    run(["pg_dump", "-Fc", "-f", dump, "-d", database.connection()])
    database.psql("CREATE DATABASE restored OWNER kube_reports_owner", user="postgres", database="postgres")
    run(["pg_restore", "--exit-on-error", "--single-transaction", "-d", database.connection(database="restored"), dump])

    def ask(sql):
        return database.psql(sql, database="restored")

    options = "SELECT a.* FROM kube_reports_internal.aggregation a"
    assert (ask(options) == database.psql(options)
            == "1|f|resource|wgpolicyk8s.io|01:00:00|7|f|{wgpolicyk8s.io/resource}")
    assert ask("SELECT resource_type FROM kube_reports_internal.summary_type") == "1"
    assert ask("SELECT count(*) FROM kube_reports_internal.active_policy") == "0"
    ask("SELECT kube_reports.after_restore()")
    if VARIANT == "sql":
        refused = database.psql(f"SELECT kube_reports.aggregate('{flow.cluster}')", database="restored", check=False)
        assert refused.code != 0 and "The upkeep of a proxy merges." in refused.err
        ask(f"SELECT kube_reports.set_aggregation('{flow.cluster}', policy_reports => 'resource', delay => '0')")
        own_stack.proxy(connection=database.connection("kube_reports_proxy", "restored"))
        until(lambda: ask("SELECT count(*) FROM kube_reports.object WHERE resource_type = 5") == "0", 60, "the merges")
    else:
        assert ask(f"SELECT kube_reports.aggregate('{flow.cluster}')") == "t"
        assert ask("SELECT stage, namespace, key FROM kube_reports_internal.aggregation_queue "
                   "ORDER BY key").splitlines() == [f"r|shop|{uid}" for uid in sorted((merged.uid, waiting.uid))]
        assert ask(f"SELECT kube_reports.aggregate('{flow.cluster}', at_once => true), "
                   f"kube_reports.aggregate('{flow.cluster}', at_once => true)") == "t|f"
    for workload in (merged, waiting):
        workload.settle(None)
        stored = json.loads(ask("SELECT body FROM kube_reports.object WHERE resource_type = 1 AND name = "
                                f"'{workload.uid}'"))
        assert (stored["results"], stored["summary"]) == (workload.results, summary(workload.results))
    assert ask("SELECT count(*) FROM kube_reports.object WHERE resource_type = 5") == "0"
    # Each report is written once.
    assert ask("SELECT operation, count(*) FROM kube_reports_internal.change GROUP BY 1 ORDER BY 1").splitlines() == [
        "A|1", "D|2", "M|1"]
