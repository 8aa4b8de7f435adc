"""The chart's receiver and sender: docs/forwarding.md, docs/security.md."""

import re
import shlex

import pytest
import yaml

from conftest import CHART, CLUSTER, KUBE_VERSION, TOP, helm, named, of_kind, render, yaml_documents
from matrix import MATRIX, SENDER

PAGE = (TOP / "docs" / "forwarding.md").read_text() + (TOP / "docs" / "evidence.md").read_text()
ONLY_SENDER = MATRIX["sender"]
SENDERS = [values for values in MATRIX.values() if values.get("sender")]


def pod_of(objects, kind="StatefulSet", name="kube-reports-sender"):
    return named(objects, kind, name)["spec"]["template"]["spec"]


def flags(pod):
    return dict(argument[2:].split("=", 1) for argument in pod["containers"][0]["args"])


def roles(objects):
    """Returns the rights and the subjects of roles, by kind and name."""
    given = {}
    for one in of_kind(objects, "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"):
        rules = [{key: sorted(value) for key, value in rule.items()} for rule in one.get("rules", [])]
        given[one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]] = (
            rules, one.get("roleRef"), one.get("subjects"))
    return given


def test_rights_are_those_of_the_page():
    """The rights are those of docs/security.md and no others: list and watch of the chosen kinds, and Events."""
    section = (TOP / "docs" / "security.md").read_text().partition("\n## Senders\n")[2].partition("\n## ")[0]
    block = re.search(r"^```yaml\n(.*?)^```", section, re.M | re.S)[1]
    values = {**ONLY_SENDER, "sender": {**SENDER, "kinds": SENDER["kinds"][:2]}}
    assert roles(render(values)) == roles(yaml_documents(block))


def test_chosen_kinds_only():
    """Each group of sender.kinds has a rule with its resources."""
    rules = named(render(ONLY_SENDER), "ClusterRole", "kube-reports-sender")["rules"]
    assert sorted((rule["apiGroups"], sorted(rule["resources"]), sorted(rule["verbs"])) for rule in rules) == [
        (["compliance.openshift.io"], ["compliancecheckresults"], ["list", "watch"]),
        (["wgpolicyk8s.io"], ["clusterpolicyreports", "policyreports"], ["list", "watch"]),
    ]
    assert not of_kind(render({**ONLY_SENDER, "rbac": {"create": False}}), "ClusterRole", "Role")


def test_a_sender_alone():
    """A sender alone has no proxies and no database, nor their rights, certificates and jobs."""
    kinds = {one["kind"] for one in render(ONLY_SENDER)}
    assert kinds == {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Service",
                     "StatefulSet", "NetworkPolicy"}
    assert {one["metadata"]["name"] for one in render(ONLY_SENDER)} == {"kube-reports-sender"}


def test_flags():
    pod = pod_of(render(ONLY_SENDER))
    assert flags(pod) == {
        "to": "https://receiver.example.org:6444",
        "kinds": ",".join(SENDER["kinds"]),
        "queue": "/var/lib/kube-reports-forward/queue",
        "queue-bytes": "1073741824",
        "metrics-port": "8080",
        "v": "0",
        "token-file": "/etc/kube-reports/sender/token",
        "ca-file": "/etc/kube-reports/sender/ca.crt",
    }
    given = flags(pod_of(render(MATRIX["sender-with-everything"])))
    assert given["queue-bytes"] == "4294967296" and given["batch-items"] == "1000"
    assert given["client-certificate-file"] == "/etc/kube-reports/sender/tls.crt"
    assert given["client-key-file"] == "/etc/kube-reports/sender/tls.key"
    assert given["extra-metadata"] == "cluster_type=edge,region=eu west"
    assert "token-file" not in given and "ca-file" not in given


@pytest.mark.parametrize("values", SENDERS)
def test_queue(values):
    """The sender is one pod; its queue outlives the pod, and the volume is larger than --queue-bytes."""
    spec = named(render(values), "StatefulSet", "kube-reports-sender")["spec"]
    assert spec["replicas"] == 1
    claim = spec["volumeClaimTemplates"][0]
    mounts = {one["name"]: one["mountPath"] for one in spec["template"]["spec"]["containers"][0]["volumeMounts"]}
    given = flags(spec["template"]["spec"])
    assert given["queue"].startswith(mounts[claim["metadata"]["name"]] + "/")
    size = int(claim["spec"]["resources"]["requests"]["storage"].removesuffix("Gi")) << 30
    assert size > int(given["queue-bytes"])


def test_network_of_the_sender():
    """Only the port for metrics is open; egress may be limited."""
    spec = named(render(ONLY_SENDER), "NetworkPolicy", "kube-reports-sender")["spec"]
    assert spec["policyTypes"] == ["Ingress"]
    assert [rule["ports"] for rule in spec["ingress"]] == [[{"protocol": "TCP", "port": "metrics"}]]
    spec = named(render(MATRIX["sender-with-everything"]), "NetworkPolicy", "kube-reports-sender")["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"] and spec["egress"]


def test_receiver():
    """Flag, container and Service have the same port; without a receiver there is no such port."""
    objects = render(MATRIX["receiver-with-certificates"])
    pod = pod_of(objects, "Deployment", "kube-reports")
    given = flags(pod)
    ports = {one["name"]: one["containerPort"] for one in pod["containers"][0]["ports"]}
    service = named(objects, "Service", "kube-reports-receiver")["spec"]
    assert given["forward-port"] == str(ports["forward"])
    assert service["ports"] == [{"name": "forward", "port": 443, "targetPort": "forward"}]
    assert service["type"] == "LoadBalancer"
    mounts = {one["name"]: one["mountPath"] for one in pod["containers"][0]["volumeMounts"]}
    assert given["forward-client-ca-file"] == mounts["senders"] + "/cas.pem"
    ingress = named(objects, "NetworkPolicy", "kube-reports")["spec"]["ingress"]
    assert {"ports": [{"protocol": "TCP", "port": "forward"}], "from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]} in ingress
    names = named(objects, "Certificate", "kube-reports-tls")["spec"]["dnsNames"]
    assert {"receiver.example.org", "kube-reports-receiver.kube-reports.svc"} <= set(names)
    text = repr(render())
    assert "forward" not in text.replace(repr((CHART / "files" / "database.sql").read_text())[1:-1], "")


def test_setup_of_a_receiver(server):
    """The setup grants ingest to the role of a receiver, also repeatedly, and to no other role."""
    job = next(one for one in of_kind(render(MATRIX["receiver"]), "Job")
               if one["metadata"]["labels"]["app.kubernetes.io/component"] == "setup")
    environment = job["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "INGEST", "value": "true"} in environment
    assert '-v ingest="$INGEST"' in (CHART / "files" / "setup.sh").read_text()
    server.psql("CREATE DATABASE fleet")
    granted = "SELECT count(*) FROM kube_reports_internal.ingest_role"
    for ingest, count in (("false", "0"), ("true", "1"), ("true", "1")):
        server.setup("postgres", "fleet", cluster=CLUSTER, ingest=ingest)
        assert server.psql(granted, database="fleet") == count


@pytest.mark.parametrize("line", re.findall(r"^helm install .*?[^\\]$", PAGE, re.M | re.S))
def test_commands_render(line, binary):
    words = shlex.split(line.replace("\\\n", " "))
    words = ["template", *(word for word in words[2:] if word != "--create-namespace")]
    done = helm(*words, "--kube-version", KUBE_VERSION, binary=binary, cwd=TOP)
    assert len(of_kind(yaml_documents(done.stdout), "Deployment", "StatefulSet")) >= 1


def test_there_are_commands():
    assert len(re.findall(r"^helm install ", PAGE, re.M)) == 5
    assert yaml.safe_load((CHART / "values.yaml").read_text())["sender"]["enabled"] is False


def test_notes():
    said = helm("install", "kube-reports", CHART, "--dry-run=client", "--namespace", "kube-reports", "--values", "-",
                binary="helm4", input=yaml.safe_dump(ONLY_SENDER)).stdout.partition("NOTES:")[2]
    assert SENDER["to"] in said and SENDER["kinds"][0] in said and "queue-kube-reports-sender-0" in said
    assert "apiservices" not in said and "PostgreSQL without replica" not in said
