"""Health and metrics of kube-reports-evidence, on its plain port."""

import contextlib
import signal
import socket
import threading

import metric_names
from client import until
from test_evidence import ARF, another, evidence  # noqa: F401


def test_metrics(another):
    """Metrics count stored, refused, cut, downloaded and removed files; the plain port has no evidence"""
    own = another(flags=["--max-body-bytes=100000"], under=["prlimit", "--fsize=50000"])
    cluster, token = own.add("metrics")
    assert own.plain("/livez") == (200, "ok") and own.plain("/readyz") == (200, "ok")
    assert own.plain("/v1/evidence/s/1/a")[0] == 404 and own.plain("/")[0] == 404
    assert own.put("s/1/a", ARF, token).code == 201 and own.put("s/1/a", ARF, token).code == 200
    assert own.put("s/1/b", b"x" * 60000, token).code == 507
    # The answer comes before the body; a client that sends the body may find the connection closed.
    connection = own.connect()
    connection.sendall(own.head("/v1/evidence/s/1/c", token, "Content-Length: 100001"))
    assert connection.recv(100).startswith(b"HTTP/1.1 413")
    connection.close()
    assert own.put("s/1/a", ARF, "wrong").code == 401
    assert own.get("s/1/a", token).code == 200 and own.get("s/1/b", token).code == 404
    own.settled()
    connection = own.connect()
    connection.sendall(own.head("/v1/evidence/s/1/d", token, "Content-Length: 1000") + b"x")
    until(lambda: own.metrics()["kube_reports_evidence_uploads"] == 1, 20, "the upload")
    assert own.metrics()["kube_reports_evidence_connections"] == 1
    connection.close()
    name = "kube_reports_evidence_requests_total"

    def count(operation, code):
        return own.metrics().get(f'{name}{{operation="{operation}",code="{code}"}}', 0)
    until(lambda: count("upload", "cut") == 1, 20, "the end of the upload")
    assert [count("upload", code) for code in (200, 201, 401, 413, 507)] == [1] * 5
    assert [count("download", code) for code in (200, 404)] == [1, 1]
    # Rotation removes the first two runs.
    for index in range(2, 6):
        assert own.put(f"s/{index}/a", ARF, token).code == 201
    own.settled()
    found = own.metrics()
    assert found["kube_reports_evidence_stored_bytes_total"] == 6 * len(ARF)
    assert found["kube_reports_evidence_sent_bytes_total"] == len(ARF)
    assert found['kube_reports_evidence_store_failures_total{reason="full"}'] == 1
    assert found['kube_reports_evidence_store_failures_total{reason="other"}'] == 0
    until(lambda: own.metrics()["kube_reports_evidence_removed_files_total"] >= 2, 20, "the rotation")
    assert found["kube_reports_evidence_unremoved_files"] == 0 and found["kube_reports_evidence_database_up"] == 1
    assert own.rows(cluster, "DISTINCT index, 1 AS scan, 2 AS name") == "3|1|2\n4|1|2\n5|1|2"


def test_metrics_of_alerts(evidence):
    """Each metric of an alert of the chart exists; docs/evidence.md describes exactly the metrics that exist."""
    metric_names.check("evidence", "evidence.md", "kube_reports_evidence", evidence.plain("/metrics")[1])


def test_not_ready(another, module_stack):
    """Without the database /readyz fails and /livez passes, and metrics show it; /readyz fails during a shutdown"""
    own = another()
    module_stack.database.stop("immediate")
    try:
        until(lambda: own.plain("/readyz")[0] == 503, 30, "the failure")
        assert own.plain("/livez") == (200, "ok")
        assert own.metrics()["kube_reports_evidence_database_up"] == 0
    finally:
        module_stack.database.start()
    until(lambda: own.plain("/readyz")[0] == 200, 30, "the database")
    _, token = own.add("not-ready")
    connection = own.connect()
    connection.sendall(own.head("/v1/evidence/s/1/a", token, f"Content-Length: {len(ARF)}") + ARF[:100])
    until(lambda: own.metrics()["kube_reports_evidence_uploads"] == 1, 20, "the upload")
    own.process.send_signal(signal.SIGTERM)
    until(lambda: own.plain("/readyz") == (503, "the server ends"), 20, "the shutdown")
    assert own.plain("/livez")[0] == 200
    connection.sendall(ARF[100:])
    assert connection.recv(100).startswith(b"HTTP/1.1 201")
    connection.close()
    assert own.process.wait(30) == 0


def test_slow_peers_of_the_plain_port(evidence):
    """Slow connections from one address do not block probes from another address"""
    held = [socket.create_connection(("127.0.0.1", evidence.metrics_port), timeout=60, source_address=("127.0.0.2", 0))
            for _ in range(80)]
    ended = threading.Event()

    def drip():
        while not ended.wait(0.2):
            for connection in held:
                with contextlib.suppress(OSError):
                    connection.send(b"G")
    dripping = threading.Thread(target=drip)
    dripping.start()
    try:
        assert evidence.plain("/livez") == (200, "ok")
        # The slow connections are cut (--head-timeout), whatever they send.
        for connection in held:
            with contextlib.suppress(ConnectionError):
                assert connection.recv(1) == b""
        assert evidence.metrics()["kube_reports_evidence_connections"] == 0
    finally:
        ended.set()
        dripping.join()
        for connection in held:
            connection.close()
