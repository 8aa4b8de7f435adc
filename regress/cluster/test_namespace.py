"""Deletion of a namespace: kube-controller-manager deletes its objects, also ours, and then the namespace."""

from client import CPOLR, EPHR, POLR, REPS, failure, path_of, report, until

PATIENCE = 120


def ephemeral(name, namespace):
    return {"apiVersion": "reports.kyverno.io/v1", "kind": "EphemeralReport",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"owner": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"},
                     "summary": {}, "results": []}}


def fill(api, ns):
    for number in range(20):
        api.create(POLR, report(f"r-{number}", ns), ns)
        api.create(REPS, report(f"r-{number}", ns, resource=REPS), ns)
        api.create(EPHR, ephemeral(f"r-{number}", ns), ns)


def gone(api, ns):
    return api.get(f"/api/v1/namespaces/{ns}").code == 404


def test_reports_go(cluster, api, ns):
    """Reports of all groups are deleted with their namespace, and nothing else is."""
    fill(api, ns)
    api.create(CPOLR, report(f"stays-{ns}", resource=CPOLR))
    assert api.delete(f"/api/v1/namespaces/{ns}").code == 200
    until(lambda: gone(api, ns), PATIENCE, "the end of the namespace")
    assert cluster.stack.database.psql("SELECT count(*) FROM kube_reports.object WHERE namespace = :'ns'", ns=ns) == "0"
    assert api.delete(path_of(CPOLR, None, f"stays-{ns}")).code == 200


def test_finalizer(api, ns):
    """A report with a finalizer holds its namespace, which says so; when it is released, both end."""
    document = report("held", ns)
    document["metadata"]["finalizers"] = ["example.com/hold"]
    api.create(POLR, document, ns)
    fill(api, ns)
    api.delete(f"/api/v1/namespaces/{ns}")

    def condition(kind):
        status = api.get(f"/api/v1/namespaces/{ns}").json["status"]
        return next((entry for entry in status.get("conditions", []) if entry["type"] == kind
                     and entry["status"] == "True"), None)
    remaining = until(lambda: condition("NamespaceFinalizersRemaining"), PATIENCE, "the condition")
    assert "example.com/hold in 1 resource instances" in remaining["message"]
    assert "policyreports.wgpolicyk8s.io has 1 resource instances" in condition("NamespaceContentRemaining")["message"]
    held = api.get(path_of(POLR, ns, "held")).json
    assert held["metadata"]["deletionTimestamp"]
    assert api.names(POLR, ns) == ["held"] and not api.names(REPS, ns)
    assert api.patch(path_of(POLR, ns, "held"), {"metadata": {"finalizers": None}}).code == 200
    until(lambda: gone(api, ns), PATIENCE, "the end of the namespace")


def test_create_while_it_ends(api, ns):
    """Nothing is created in a namespace that is being deleted, or that does not exist."""
    document = report("held", ns)
    document["metadata"]["finalizers"] = ["example.com/hold"]
    api.create(POLR, document, ns)
    api.delete(f"/api/v1/namespaces/{ns}")
    refused = until(lambda: (answer := api.post(path_of(POLR, ns), report("late", ns))).code == 403
                    and answer, 20, "a refusal")
    status = failure(refused, 403, "Forbidden")
    assert status["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    api.patch(path_of(POLR, ns, "held"), {"metadata": {"finalizers": None}})
    until(lambda: gone(api, ns), PATIENCE, "the end of the namespace")
    until(lambda: api.post(path_of(POLR, ns), report("late", ns)).code == 404, 20, "a refusal")


def test_proxy_away(cluster, plane, api, ns):
    """While no proxy answers, a deleted namespace stays and says why; afterwards it ends by itself."""
    fill(api, ns)
    cluster.first.stop()
    try:
        until(lambda: not plane.available("wgpolicyk8s.io/v1alpha2"), 90, "kube-aggregator to notice")
        api.delete(f"/api/v1/namespaces/{ns}")

        def failing():
            status = api.get(f"/api/v1/namespaces/{ns}").json.get("status", {})
            return [entry["message"] for entry in status.get("conditions", [])
                    if entry["type"] in ("NamespaceDeletionDiscoveryFailure", "NamespaceDeletionContentFailure")
                    and entry["status"] == "True"]
        messages = until(failing, PATIENCE, "the condition")
        assert any("wgpolicyk8s.io" in message or "openreports.io" in message or "reports.kyverno.io" in message
                   for message in messages)
    finally:
        cluster.first.start()
        cluster.first.wait_ready(60)
    plane.wait_available(seconds=90)
    until(lambda: gone(api, ns), 180, "the end of the namespace")
    assert cluster.stack.database.psql("SELECT count(*) FROM kube_reports.object WHERE namespace = :'ns'", ns=ns) == "0"
