"""Costly writes delay other writes only a little: documents with many results, and patches of large arrays."""

import json
import threading
import time

from client import JSON_PATCH, MERGE, POLR, path_of, report, until

NORMAL = [{"policy": "p", "rule": f"r{n}", "result": "pass", "message": "all is well"} for n in range(19)]


def compact(body):
    return json.dumps(body, separators=(",", ":"))


class Attack:
    """A client that repeats the same writes; codes: the codes of its answers."""

    def __init__(self, api, path, bodies, kind):
        self.api, self.path, self.kind = api, path, kind
        self.bodies = [compact(body) for body in bodies]
        self.codes = []
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        turn = 0
        while not self.ended.is_set():
            answer = self.api.request("PATCH", self.path, self.bodies[turn % len(self.bodies)],
                                      {"Content-Type": self.kind}, seconds=120)
            self.codes.append(answer.code)
            # A refused write is sent again.
            turn += answer.code == 200

    def end(self):
        self.ended.set()
        self.thread.join(120)
        assert not self.thread.is_alive()


def normal_writes(api, ns, prefix, seconds):
    """Creates and patches ordinary reports, one after the other; returns the codes, and the sorted times."""
    codes, times, count = [], [], 0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        name = f"{prefix}-{count}"
        for method, path, body, kind in (("POST", path_of(POLR, ns), report(name, results=NORMAL), "application/json"),
                                         ("PATCH", path_of(POLR, ns, name),
                                          {"metadata": {"labels": {"a": "b"}}}, MERGE)):
            begun = time.monotonic()
            answer = api.request(method, path, body, {"Content-Type": kind}, seconds=120)
            times.append(time.monotonic() - begun)
            codes.append(answer.code)
        count += 1
    return codes, sorted(times)


def assert_others_are_served(stack, proxy, ns, path, bodies, kind):
    """Starts two attackers; a writer beside them is never refused, and waits not much longer than without them."""
    api = proxy.api(keep=True)
    normal_writes(api, ns, "warm", 1)
    _, alone = normal_writes(api, ns, "alone", 4)
    attackers = [Attack(proxy.api(keep=True), path, bodies, kind) for _ in range(2)]
    until(lambda: any(attacker.codes for attacker in attackers), 120, "the first answer to an attacker")
    codes, beside = normal_writes(api, ns, "beside", 20)
    for attacker in attackers:
        attacker.end()
    assert set(codes) == {200, 201}, {code: codes.count(code) for code in set(codes)}
    # A write of an attacker takes seconds.  These writes, and the derivation of their results, use the processors, so
    # that all other writes are slower.
    assert beside[int(len(beside) * 0.99)] < 1 + 5 * alone[-1], (alone[-5:], beside[-5:])
    assert beside[-1] < 2 + 10 * alone[-1], (alone[-5:], beside[-5:])
    # The attackers were served as well, one after the other.
    assert sum(attacker.codes.count(200) for attacker in attackers) >= 2, [attacker.codes for attacker in attackers]


def test_results_that_flip(own_stack, ns):
    """80,000 results change with each write: other writes of the lane do not wait until the results are derived"""
    database = own_stack.begin().database
    proxy = own_stack.proxy(flags=["--workers=1"])
    api, path = proxy.api(), path_of(POLR, ns, "big")

    def flipped(status):
        return {"results": [{"policy": str(n), "result": status} for n in range(80_000)]}
    answer = api.request("POST", path_of(POLR, ns), compact({**report("big"), **flipped("pass")}), seconds=120)
    assert answer.code == 201, answer
    assert_others_are_served(own_stack, proxy, ns, path, [flipped("fail"), flipped("pass")], MERGE)

    wanted = {result["result"] for result in json.loads(api.request("GET", path, seconds=120).body)["results"]}
    until(lambda: database.psql("SELECT NOT results_pending FROM kube_reports.status") == "t", 500,
          "the results of the large report")
    found = database.psql("SELECT DISTINCT kube_reports_internal.status_name(r.status) FROM "
                          "kube_reports_internal.result r "
                          f"JOIN kube_reports_internal.origin g ON g.id = r.origin WHERE g.namespace = '{ns}' AND "
                          "g.name = 'big'")
    assert {found} == wanted
    assert database.psql("SELECT count(*) FROM kube_reports.verify()", timeout=500) == "0"


def test_patches_of_a_large_array(own_stack, ns):
    """The decision on a patch of a few bytes takes long, because the patch changes an array of 900,000 elements"""
    own_stack.begin()
    proxy = own_stack.proxy(flags=["--workers=1"])
    path = path_of(POLR, ns, "long")
    document = {**report("long"), "scopeSelector": {
                                                    "matchExpressions": [{"key": "k", "operator": "In",
        "values": [""] * 900_000}]}}
    answer = proxy.api().request("POST", path_of(POLR, ns), compact(document), seconds=120)
    assert answer.code == 201, answer
    place = "/scopeSelector/matchExpressions/0/values/0"
    assert_others_are_served(own_stack, proxy, ns, path, [
        [{"op": "add", "path": place, "value": "a"}], [{"op": "remove", "path": place}]], JSON_PATCH)


def test_a_write_that_always_loses(own_stack, ns):
    """
    When another write changes the object during the decision on a costly patch, the patch is decided on again; after
    five attempts it is a conflict, as upstream
    """
    database = own_stack.begin().database
    proxy = own_stack.proxy(flags=["--workers=1"])
    api, path = proxy.api(), path_of(POLR, ns, "big")
    answer = api.request("POST", path_of(POLR, ns), {**report("big"), "scope": {"name": "x" * 300_000}}, seconds=120)
    assert answer.code == 201, answer
    # Another writer changes the row between the decision and the lock: here, before each lock.
    database.psql("""
        CREATE TABLE public.others (n integer);
        CREATE OR REPLACE FUNCTION kube_reports_internal.lock_lane(lane integer) RETURNS void LANGUAGE plpgsql AS $$
            BEGIN
                PERFORM pg_advisory_xact_lock(kube_reports_internal.lock_class(), lane);
                IF (SELECT count(*) FROM public.others) < (SELECT setting FROM public.wanted) THEN
                    INSERT INTO public.others VALUES (1);
                    PERFORM kube_reports_internal.begin_own_write();
                    UPDATE kube_reports.object SET version = nextval('kube_reports_internal.version_seq')
                        WHERE name = 'big';
                END IF;
            END $$;
        CREATE TABLE public.wanted (setting integer);
        INSERT INTO public.wanted VALUES (2)""")
    assert api.patch(path, {"metadata": {"labels": {"a": "once"}}}).code == 200
    assert database.psql("SELECT count(*) FROM public.others") == "2"
    database.psql("UPDATE public.wanted SET setting = 1000")
    answer = api.patch(path, {"metadata": {"labels": {"a": "twice"}}})
    assert (answer.code, answer.json["reason"]) == (409, "Conflict"), answer
    assert "the object has been modified" in answer.json["message"]
    assert api.get(path).json["metadata"]["labels"] == {"a": "once"}
    assert proxy.metric("kube_reports_costly_writes_total") == 9
