"""How many results a receiver stores each second, beside plain inserts of the same results."""

import json
import threading
import time
import uuid

import psycopg2

from client import Api
from evidence import sender_certificates
from grpc_port import GrpcPort, Sender

BATCH = 500
SENDERS = 4
WORDS = "The API server must not answer requests of clients that nobody has authenticated. " * 6

PLAIN = """CREATE TABLE plain_result (cluster text, scan text, subject text, rule text, outcome text, severity text,
    body jsonb, PRIMARY KEY (cluster, scan, subject, rule))"""
INSERT = """INSERT INTO plain_result SELECT %s, %s, r->>'subject', r->>'rule', r->>'outcome', r->>'severity', r
    FROM jsonb_array_elements(%s::jsonb) r
    ON CONFLICT (cluster, scan, subject, rule) DO UPDATE SET outcome = excluded.outcome, severity = excluded.severity,
        body = excluded.body"""


def results(scan, changed):
    """The results of a scan of the moderate profile's size; changed: every so many fail."""
    return [{"subject": "cluster.example.com", "control": "NIST-800-53: CM-6;CM-6(1)", "rule": f"{scan}-rule-{n:04}",
             "outcome": "FAIL" if changed and n % changed == 0 else "PASS", "severity": "high", "description": WORDS,
             "instructions": WORDS, "id": f"xccdf_rule_{n:04}", "extra": {"resourceType": "cluster"}}
            for n in range(BATCH)]


def at_once(work):
    """Runs the work of each sender; the seconds that all took."""
    failures = []

    def guarded(sender):
        try:
            work(sender)
        except Exception as error:  # shown below
            failures.append(error)
    threads = [threading.Thread(target=guarded, args=(sender,)) for sender in range(SENDERS)]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    return time.monotonic() - begun


def single_results(bench, row, calls):
    """SetResult: a transaction for each call; those of one cluster wait for each other."""
    sender_certificates(bench.stack.pki)
    database, port = bench.database, GrpcPort(bench.stack)
    tokens = [database.psql(f"SELECT kube_reports.add_sender('{uuid.uuid4()}', 'single-{number}')")
              for number in range(SENDERS)]
    try:
        port.wait_ready()
        senders = [Sender(port, token) for token in tokens]

        def send(sender, of=None, shared=1):
            for number in range(calls // shared):
                senders[of if of is not None else sender].result(
                    subject="cluster.example.com", control="CM-6", rule=f"rule-{sender}-{number:05}", outcome="PASS",
                    assessmentId=f"run-{shared}", description=WORDS, severity="high", instructions=WORDS,
                    extra={"scan": f"single-{shared}"})
        begun = time.monotonic()
        send(0)
        alone = calls / (time.monotonic() - begun)
        together = calls / at_once(lambda sender: send(sender, 0, SENDERS))
        apart = SENDERS * calls / at_once(lambda sender: send(sender, None, 2)) / 2
    finally:
        port.stop()
    for words, rate in (("one sender, one call at a time", alone), (f"one sender, {SENDERS} calls at a time", together),
                        (f"{SENDERS} senders, a call each", apart)):
        row("forward-single", f"SetResult, {words}", rate, alone, "/s", rate / alone, "reported", None)


def measure(bench, row, scans, port):
    """scans: of each sender, a batch each."""
    database = bench.database
    database.psql("SELECT kube_reports.grant_ingest('kube_reports_proxy')")
    database.psql(PLAIN)
    bench.stack.proxy(flags=(f"--forward-port={port}",))
    senders = []
    for number in range(SENDERS):
        cluster = str(uuid.uuid4())
        token = database.psql(f"SELECT kube_reports.add_sender('{cluster}', 'bench-{number}')")
        senders.append((Api(port, f"{bench.stack.pki}/ca.crt", None, keep=True), token,
                        psycopg2.connect(database.connection())))

    for name, changed in (("new", 0), ("unchanged", 0), ("a tenth changed", 10)):
        bodies = [json.dumps({"apiVersion": "forward/v1", "assessmentId": f"{name}-{scan}", "seq": 1, "last": True,
                              "prune": "scan", "scan": {"name": f"scan-{scan}"},
                              "results": results(f"scan-{scan}", changed)}).encode() for scan in range(scans)]
        plain = [json.dumps(results(f"scan-{scan}", changed)) for scan in range(scans)]

        def forward(sender, bodies=bodies):
            api, token, _ = senders[sender]
            for body in bodies:
                answer = api.request("POST", "/v1/forward/results", body, {"Authorization": f"Bearer {token}"})
                assert answer.code == 200, answer

        def insert(sender, plain=plain):
            connection = senders[sender][2]
            for scan, text in enumerate(plain):
                with connection, connection.cursor() as cursor:
                    cursor.execute(INSERT, (str(sender), f"scan-{scan}", text))

        count = SENDERS * scans * BATCH
        rate, baseline = count / at_once(forward), count / at_once(insert)
        row("forward", f"results of scans, {name}, {SENDERS} senders", rate, baseline, "/s", rate / baseline,
            ">= 2000/s", rate >= 2000)
    single_results(bench, row, scans * 40)
