"""
Features that an aggregated group does not have, by docs/moving-in.md: webhooks, admission policies, ResourceQuota and
CEL rules work with the CRDs, and none of them works with the same group behind the proxies.
"""

import base64
import collections
import http.server
import json
import ssl
import threading

import pytest

from client import POLR, path_of, report, until
from conftest import HTTP, TOP
from old_cluster import enable, old_clusters

NS = "limited"
QUOTA = "count/policyreports.wgpolicyk8s.io"
ROWS = ("validating and mutating admission webhooks", "ValidatingAdmissionPolicy, MutatingAdmissionPolicy",
        f"ResourceQuota (`{QUOTA}`)", "CEL rules")
REFUSERS = ("webhook", "policy", "rule")
ADMISSION = {"apiVersion": "admissionregistration.k8s.io/v1"}
RULES = [{"apiGroups": ["wgpolicyk8s.io"], "apiVersions": ["*"], "operations": ["CREATE"],
          "resources": ["policyreports"]}]


class Webhooks:
    """A server of webhooks: /refuse refuses, /change sets a label; asked counts the requests."""

    def __init__(self, pki):
        HTTP.stack_command("certificate", pki, "webhook", "/CN=webhook", "serverAuth", "DNS:localhost,IP:127.0.0.1")
        asked = self.asked = collections.Counter()

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_POST(self):
                path = self.path.partition("?")[0]
                asked[path] += 1
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                response = {"uid": review["request"]["uid"], "allowed": path != "/refuse"}
                if path == "/refuse":
                    response["status"] = {"message": "refused by webhook"}
                else:
                    patch = [{"op": "add", "path": "/metadata/labels/changed", "value": "by-webhook"}]
                    response.update(patchType="JSONPatch", patch=base64.b64encode(json.dumps(patch).encode()).decode())
                body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                                   "response": response}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{pki}/webhook.crt", f"{pki}/webhook.key")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        with open(f"{pki}/ca.crt", "rb") as file:
            self.bundle = base64.b64encode(file.read()).decode()
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def configuration(self, kind, path, label):
        """Returns the configuration of a webhook for reports with that label."""
        return {**ADMISSION, "kind": kind, "metadata": {"name": "reports"}, "webhooks": [{
            "name": "reports.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "rules": RULES,
            "failurePolicy": "Fail", "objectSelector": {"matchLabels": label},
            "clientConfig": {"url": f"https://localhost:{self.server.server_port}{path}", "caBundle": self.bundle}}]}

    def end(self):
        self.server.shutdown()
        self.server.server_close()


def policies():
    """Yields admission policies in CEL, with their bindings, for reports with a label."""
    def labelled(name, value):
        return (f"has(object.metadata.labels) && '{name}' in object.metadata.labels && "
                f"object.metadata.labels['{name}'] == '{value}'")
    matching = {"matchConstraints": {"resourceRules": RULES}, "failurePolicy": "Fail"}
    yield {**ADMISSION, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "reports"}, "spec": {
        **matching, "validations": [{"expression": f"!({labelled('refused-by', 'policy')})",
                                     "message": "refused by policy"}]}}
    yield {**ADMISSION, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "reports"},
           "spec": {"policyName": "reports", "validationActions": ["Deny"]}}
    yield {**ADMISSION, "kind": "MutatingAdmissionPolicy", "metadata": {"name": "reports"}, "spec": {
        **matching, "reinvocationPolicy": "Never",
        "matchConditions": [{"name": "labelled", "expression": labelled("changed-by", "policy")}],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {
            "expression": '[JSONPatch{op: "add", path: "/metadata/labels/changed", value: "by-policy"}]'}}]}}
    yield {**ADMISSION, "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": "reports"},
           "spec": {"policyName": "reports"}}


@pytest.fixture(scope="module")
def limited():
    """A cluster with CRDs, with webhooks, admission policies and a CEL rule."""
    # The quota controller finds the resources of CRDs in its next round: by default after five minutes.
    for own in old_clusters(manager_flags=["--resource-quota-sync-period=10s"]):
        plane = own.plane
        own.webhooks = Webhooks(own.stack.pki)
        plane.namespace(NS)
        plane.apply(own.webhooks.configuration("ValidatingWebhookConfiguration", "/refuse", {"refused-by": "webhook"}),
                    own.webhooks.configuration("MutatingWebhookConfiguration", "/change", {"changed-by": "webhook"}),
                    *policies())
        rule = [{"rule": "!has(self.metadata.name) || self.metadata.name != 'refused-by-rule'",
                 "message": "refused by rule"}]
        plane.kubectl("patch", "crd", "policyreports.wgpolicyk8s.io", "--type=json", "-p", json.dumps([
            {"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/x-kubernetes-validations", "value": rule}]))
        yield own
        own.webhooks.end()


def create(cluster, name, **labels):
    labels = {key.replace("_", "-"): value for key, value in labels.items()}
    return cluster.plane.api().post(path_of(POLR, NS), report(name, NS, labels))


def refused(cluster, by):
    """Returns whether a report is refused that this feature has to refuse; deletes a report that was accepted."""
    answer = create(cluster, f"refused-by-{by}", refused_by=by)
    if answer.code == 201:
        cluster.plane.api().delete(path_of(POLR, NS, f"refused-by-{by}"))
        return False
    assert answer.code in (400, 403, 422, 429) and (answer.code == 429 or f"refused by {by}" in answer.json["message"])
    return answer.code != 429


def changed(cluster, by):
    """Returns the label that this feature has set in a new report, or None."""
    answer = create(cluster, f"changed-by-{by}", changed_by=by)
    if answer.code != 201:
        assert answer.code == 429, answer
        return None
    cluster.plane.api().delete(path_of(POLR, NS, f"changed-by-{by}"))
    return answer.json["metadata"]["labels"].get("changed")


def test_the_page_says_so():
    section = (TOP / "docs" / "moving-in.md").read_text(encoding="utf-8").partition(
        "## What an aggregated group does not have")[2]
    assert [row for row in ROWS if row not in section] == []


def test_with_crds(limited):
    """Each of the four features works, once kube-apiserver has noticed it"""
    api = limited.plane.api()
    for by in REFUSERS:
        until(lambda by=by: refused(limited, by), 90, f"the refusal by {by}")
    for by in ("webhook", "policy"):
        until(lambda by=by: changed(limited, by) == f"by-{by}", 90, f"the change by {by}")
    assert limited.webhooks.asked["/refuse"] and limited.webhooks.asked["/change"]
    limited.plane.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "reports", "namespace": NS},
                         "spec": {"hard": {QUOTA: "2"}}})
    until(lambda: api.get(f"/api/v1/namespaces/{NS}/resourcequotas/reports").json.get("status", {}).get("used"), 180,
          "the quota to be counted")
    for number in range(2):
        assert create(limited, f"counted-{number}").code == 201
    answer = create(limited, "counted-2")
    assert answer.code == 403 and "exceeded quota" in answer.json["message"], answer


def test_aggregated(limited):
    """None of the four features works"""
    asked = dict(limited.webhooks.asked)
    enable(limited)
    api = limited.plane.api()
    until(lambda: (answer := api.get(path_of(POLR, NS))).code == 200 and answer.json["items"] == [], 60,
          "lists of the proxies")
    for by in REFUSERS:
        assert not refused(limited, by), by
    for by in ("webhook", "policy"):
        assert changed(limited, by) is None and create(limited, f"unchanged-by-{by}", changed_by=by).code == 201
    for number in range(5):
        assert create(limited, f"counted-{number}").code == 201
    assert limited.webhooks.asked == asked
