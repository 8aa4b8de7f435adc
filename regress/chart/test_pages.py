"""docs/install.md and the chart's README.md: their values exist, and their commands render."""

import json
import re
import shlex

import pytest
import yaml

from conftest import CHART, KUBE_VERSION, TOP, helm, of_kind, render, yaml_documents

PAGE = (TOP / "docs" / "install.md").read_text()
README = (CHART / "README.md").read_text()
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
OURS, _, EQUIVALENTS = PAGE.partition("## Values of reports-server's chart")


def known(path):
    """Whether the schema has this value, or a free map that may have it."""
    node = SCHEMA
    for name in path.split("."):
        if name == "*" or "properties" not in node:
            return True
        if name not in node["properties"]:
            return False
        node = node["properties"][name]
    return True


def values_in(text):
    """Returns the paths of values between backquotes: a.b, a.b=c, a.b: c."""
    for quoted in re.findall(r"`([^`\n]+)`", text):
        found = re.match(r"([a-z]\w*(?:\.[\w*]+)*)(?:[:=].*)?$", quoted)
        if found and found[1].partition(".")[0] in SCHEMA["properties"] and ("." in found[1] or "=" in quoted):
            yield found[1]


def rows():
    return re.findall(r"^\| (.*) \| (.*) \|$", EQUIVALENTS, re.M)[2:]


def test_named_values_are_there():
    named = [*values_in(OURS), *values_in(README), *(path for _, ours in rows() for path in values_in(ours))]
    assert len(named) > 30
    assert [path for path in named if not known(path)] == []
    assert not known("proxy.worker") and known("database.parameters.host")


def test_equivalents():
    """Each value of reports-server's chart is in the table."""
    theirs = " ".join(left for left, _ in rows())
    for name in (
        "postgresql.enabled",
        "openreports.enabled",
        "replicaCount",
        "clusterName",
        "image.*",
        "imagePullSecrets",
        "podEnv",
        "priorityClassName",
        "serviceAccount.*",
        "podAnnotations",
        "commonLabels",
        "podSecurityContext",
        "securityContext",
        "livenessProbe",
        "readinessProbe",
        "metrics.enabled",
        "metrics.serviceMonitor",
        "resources",
        "autoscaling.enabled",
        "minReplicas",
        "maxReplicas",
        "autoscaling.targetCPU",
        "targetMemory",
        "autoscaling.metrics",
        "behavior",
        "pdb.enabled",
        "pdb.maxUnavailable",
        "nodeSelector",
        "tolerations",
        "affinity",
        "service.type",
        "service.port",
        "config.skipMigration",
        "config.etcd",
        "config.db.secretName",
        "config.db.host",
        "config.db.password",
        "config.db.sslrootcert",
        "apiServicesManagement.enabled",
        "apiServicesManagement.installApiServices.enabled",
        "installEphemeralReportsService",
        "installOpenreportsService",
        "extraObjects",
        "templating.enabled",
        "nameOverride",
        "fullnameOverride",
    ):
        assert name in theirs, name


def commands():
    """Returns the commands helm install and helm upgrade of the page, with the files that they read."""
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.M | re.S):
        text = "" if language else block.replace("\\\n", " ")
        for line, values in re.findall(
            r"^(helm (?:install|upgrade) .*?)(?: <<'VALUES'\n(.*?)^VALUES)?$", text, re.M | re.S
        ):
            yield line.split("\n", maxsplit=1)[0], values


@pytest.mark.parametrize("line, values", commands())
def test_commands_render(line, values, binary):
    words = shlex.split(line)
    # Options that need a cluster.
    left_out = {"--wait", "--create-namespace", "--reset-then-reuse-values"}
    words = ["template", *(word for word in words[2:] if word not in left_out)]
    done = helm(*words, "--kube-version", KUBE_VERSION, binary=binary, cwd=TOP, input=values)
    assert len(of_kind(yaml_documents(done.stdout), "Deployment")) == 1


def test_secrets_of_the_readme():
    """The values of the page name keys that the Secrets of the page have"""
    (block,) = [text for text in re.findall(r"^```\n(.*?)^```$", README, re.M | re.S) if "create secret" in text]
    secrets = {
        name: set(re.findall(r"--from-literal=(\w+)=", words) + re.findall(r"--from-file=(\S+)", words))
        for name, words in re.findall(r"^kubectl -n kube-reports create secret generic (\S+) (.*)$", block, re.M)
    }
    settings = re.findall(r"^helm \.\.\. (.*)$", block, re.M)
    assert set(secrets) == {"db-proxy", "db-tls"} and len(settings) == 2
    used = {}
    for line in settings:
        words = ["template", "kube-reports", "helm/kube-reports", *shlex.split(line)]
        done = helm(*words, "--kube-version", KUBE_VERSION, cwd=TOP)
        (deployment,) = of_kind(yaml_documents(done.stdout), "Deployment")
        pod = deployment["spec"]["template"]["spec"]
        for variable in pod["containers"][0].get("env", []):
            key = variable.get("valueFrom", {}).get("secretKeyRef")
            if key:
                used.setdefault(key["name"], set()).add(key["key"])
        for volume in pod["volumes"]:
            if "secret" in volume:
                items = {item["key"] for item in volume["secret"].get("items", [])}
                used.setdefault(volume["secret"]["secretName"], set()).update(items)
    assert set(secrets) <= set(used), used
    assert all(used[name] <= keys for name, keys in secrets.items()), used


def test_there_are_commands():
    assert len(list(commands())) == 4


@pytest.mark.parametrize("block", re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S))
def test_values_render(block, binary):
    values = yaml.safe_load(block)
    objects = render(values, binary)
    if values.get("certificate"):
        assert not of_kind(objects, "Secret"), "GitOps has no secrets in its manifests"


def test_links():
    """The sections exist to which the page has links."""
    for page, anchor in re.findall(r"\]\((\w+\.md)#([\w-]+)\)", PAGE):
        titles = re.findall(r"^#+ (.*)$", (TOP / "docs" / page).read_text(), re.M)
        assert anchor in [
            re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles
        ], f"{page}#{anchor}"
