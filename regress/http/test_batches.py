"""Writes that wait at a worker at the same time are one batch; each has its own answer (DESIGN section 5)."""

import http.client
import json
from concurrent.futures import ThreadPoolExecutor

import psycopg2

from client import CPOLR, MERGE, POLR, Answer, path_of, report, until


class Writer:
    """A client with an open connection."""

    def __init__(self, proxy):
        self.connection = proxy.api().connect(60)
        self.connection.connect()

    def send(self, method, path, body):
        self.connection.request(method, path, json.dumps(body),
                                {"Content-Type": MERGE if method == "PATCH" else "application/json"})

    def answer(self):
        response: http.client.HTTPResponse = self.connection.getresponse()
        return Answer(response, response.read())


def test_each_gets_its_own_answer(own_stack):
    """
    ERR-10, PAT-04: refused writes, names that exist, two writes of one object, unexpected failures and exceeded budgets
    do not change the answers of the other writes
    """
    own_stack.begin()
    own_stack.database.psql("""
        CREATE FUNCTION public.fail() RETURNS trigger
            LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'nobody expected this'; END $$;
        CREATE FUNCTION public.cost() RETURNS trigger
            LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'too much' USING ERRCODE = '54000'; END $$;
        CREATE TRIGGER cost BEFORE INSERT ON kube_reports.object FOR EACH ROW
            WHEN (NEW.name = 'costs') EXECUTE FUNCTION public.cost();
        CREATE TRIGGER fail BEFORE INSERT ON kube_reports.object FOR EACH ROW WHEN (NEW.name = 'fails')
        EXECUTE FUNCTION public.fail()""",
        user="postgres")
    proxy = own_stack.proxy(flags=["--workers=1"])
    api, path = proxy.api(), path_of(POLR, "ns")
    api.create(POLR, report("there"), "ns")

    def accompanied():
        """Returns the number of writes that were not the first of their batch."""
        return proxy.metric("kube_reports_batched_writes_total") - proxy.metric("kube_reports_write_batches_total")
    assert accompanied() == 0
    writes = [("POST", path, report(f"new-{n}"), 201) for n in range(5)]
    writes[2:2] = [("POST", path, report("fails"), 500), ("POST", path, report("costs"), 413),
                   ("POST", path, report("Bad_Name"), 422), ("POST", path, report("there"), 409)]
    writes += [("PATCH", f"{path}/there", {"metadata": {"labels": {label: "yes"}}}, 200) for label in ("a", "b")]
    first, *others = (Writer(proxy) for _ in range(len(writes) + 1))

    # The others arrive while the first one waits for the lane's lock.  The proxy reads the get after them, so its
    # answer shows that they have arrived.
    blocker = own_stack.database.open_create(own_stack.cluster, report("open", "ns"))
    first.send("POST", path, report("first"))
    api.get(f"{path}/there")
    for writer, (method, where, body, _) in zip(others, writes):
        writer.send(method, where, body)
    api.get(f"{path}/there")
    blocker.rollback()
    blocker.close()
    assert first.answer().code == 201
    answers = [writer.answer() for writer in others]
    assert [answer.code for answer in answers] == [code for *_, code in writes], answers
    # One batch had nine writes; when it failed, they were sent one by one.  A batch has one write of an object.
    assert accompanied() == 8
    assert api.names(POLR, "ns") == ["first", *(f"new-{n}" for n in range(5)), "there"]
    assert api.get(f"{path}/there").json["metadata"]["labels"] == {"a": "yes", "b": "yes"}


def test_clients_that_take_turns_meet(own_stack):
    """
    Clients of one batch and clients that wait for the next batch become one batch: the lane waits a moment for the next
    writes of the clients that it has just answered
    """
    own_stack.begin()
    proxy = own_stack.proxy(flags=["--workers=1"])
    api, path = proxy.api(), path_of(POLR, "ns")
    names = ["ahead", "behind-1", "behind-2", "behind-3"]
    for name in names:
        api.create(POLR, report(name), "ns")
    writers = [Writer(proxy) for _ in names]

    def batches():
        return proxy.metric("kube_reports_write_batches_total")

    def meet(turn):
        """
        One write is in a batch and three wait; after its answer the first client writes again at once.  Returns whether
        these five writes were two batches.
        """
        change = {"metadata": {"labels": {"turn": str(turn)}}}
        blocker = own_stack.database.open_create(own_stack.cluster, report("open", "ns"))
        before = batches()
        writers[0].send("PATCH", f"{path}/ahead", change)
        api.get(f"{path}/ahead")
        for writer, name in zip(writers[1:], names[1:]):
            writer.send("PATCH", f"{path}/{name}", change)
        api.get(f"{path}/ahead")
        # The lane waits for a part of the time that the last batch took, so that batch has to take a while.
        waited = "NOT l.granted AND l.waitstart < clock_timestamp() - interval '0.1 s'"
        until(lambda: own_stack.database.at_lane_lock(waited),
              10, "the batch to have taken a while")
        blocker.rollback()
        blocker.close()
        assert writers[0].answer().code == 200
        writers[0].send("PATCH", f"{path}/ahead", {"metadata": {"labels": {"again": str(turn)}}})
        assert [writer.answer().code for writer in writers] == [200] * 4
        return batches() - before == 2
    # On a busy machine a client may be late, and then the next batches do not wait for it.
    assert any(meet(turn) for turn in range(12))


# The first insert of a report named "victim" waits until a session waits for the lock of a lane: so the batch is the
# session that completes the deadlock.
HELD = """
    CREATE SEQUENCE public.tries;
    CREATE FUNCTION public.hold() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
        IF nextval('public.tries') = 1 THEN
            WHILE NOT EXISTS (SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND NOT l.granted
                    AND l.classid = kube_reports_internal.lock_class()::oid AND l.objid::integer > 0) LOOP
                PERFORM pg_sleep(0.01);
            END LOOP;
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER hold BEFORE INSERT ON kube_reports.object FOR EACH ROW
        WHEN (NEW.name = 'victim') EXECUTE FUNCTION public.hold()"""


def test_a_deadlocks_victim_is_sent_again(own_stack):
    """
    A SQL transaction writes two lanes and waits for a batch, and the batch waits for a policy that the transaction has
    inserted: the batch is rolled back and sent again, and its client gets the usual answer
    """
    own_stack.begin("deadlock_timeout = 100ms")
    database = own_stack.database
    database.psql(HELD, user="postgres")
    proxy = own_stack.proxy(flags=["--workers=1"])
    api, path = proxy.api(), path_of(POLR, "ns")
    results = [{"source": "s", "policy": "new", "result": "fail"}]
    create = "SELECT kube_reports.create_report(%s, %s)"
    with psycopg2.connect(database.connection("postgres")) as other, other.cursor() as cursor, \
            ThreadPoolExecutor(2) as pool:
        # Only the session of the batch looks for deadlocks.
        cursor.execute("SET deadlock_timeout = '10min'")
        other.commit()
        cursor.execute(create, (own_stack.cluster, json.dumps(
            report("first", results=results, resource=CPOLR))))
        batch = pool.submit(api.post, path, report("victim", results=results))
        until(lambda: database.psql("SELECT is_called FROM public.tries", user="postgres") == "t", 30, "the batch")
        waits = pool.submit(cursor.execute, create, (own_stack.cluster, json.dumps(
            report("second", results=results, namespace="ns"))))
        waits.result()
        other.commit()
        assert batch.result().code == 201, batch.result()
    until(lambda: database.psql("SELECT deadlocks FROM pg_stat_database WHERE datname = 'kube_reports'") == "1", 30,
          "the server to count the deadlock")
    assert api.names(POLR, "ns") == ["second", "victim"] and api.names(CPOLR) == ["first"]
    assert database.psql("SELECT count(*) FROM kube_reports.verify()") == "0"
