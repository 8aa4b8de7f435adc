"""Strange values: text that YAML or SQL could read as more than text, long numbers and names, contradictions."""

import functools
import json
import re

import pytest

from conftest import CHART, named, of_kind, pods, render, template, yaml_documents
from matrix import MATRIX

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
TEXTS = ["123", "true", "~", "a: b", "a #b", "x\ninjected: true", "'", '"', "{{ .Release.Name }}", "*a", "!!int 3",
         "- a", "{a}", "`a`", " lead", "\u00e9\u2028", "a, b", "a\\b"]
BASES = ["everything", "external-everything", "service-file", "cloudnative-pg", "apiservice-objects"]


def places(schema, path=()):
    """Yields (path, pattern) of each text in the schema, with a key for free names."""
    if "string" in ([schema.get("type")] if isinstance(schema.get("type"), str) else schema.get("type", [])):
        yield path, schema.get("pattern", "")
    for name, part in schema.get("properties", {}).items():
        yield from places(part, (*path, name))
    if isinstance(schema.get("additionalProperties"), dict):
        name = schema.get("propertyNames", {}).get("enum", ["some-key"])[0]
        yield from places(schema["additionalProperties"], (*path, name))


def merged(left, right):
    found = dict(left)
    for name, value in right.items():
        found[name] = merged(found.get(name, {}), value) if isinstance(value, dict) and \
            isinstance(found.get(name, {}), dict) else value
    return found


def everywhere(text):
    """Returns the values with the text at each place where the schema allows it, and with another text there."""
    strange, plain = {}, {}
    for path, pattern in places(SCHEMA):
        # Roles must be different.
        role = path[-1] if path[:-1] == ("database", "setup", "roles") else ""
        if re.search(pattern, text + role):
            strange, plain = merged(strange, at(path, text + role)), merged(plain, at(path, "plain" + role))
    return strange, plain


def at(path, value):
    for name in reversed(path):
        value = {name: value}
    return value


def shape(document):
    """Returns the names and types of a document, without the values."""
    if isinstance(document, dict):
        return {name: shape(value) for name, value in document.items()}
    if isinstance(document, list):
        return [shape(value) for value in document]
    return type(document).__name__


@functools.lru_cache(maxsize=None)
def shape_with(values):
    return shape(yaml_documents(template(values).stdout))


@pytest.mark.parametrize("base", BASES)
def test_text_stays_text(base):
    """The schema refuses a text, or the objects have it as text, even if it looks like another type."""
    for text in TEXTS:
        strange, plain = (json.dumps(merged(MATRIX[base], values)) for values in everywhere(text))
        assert shape_with(strange) == shape_with(plain), text


def test_numbers_as_names():
    """Helm accepts 123 as the name of a release, and Kubernetes as the name of a namespace."""
    for one in render(MATRIX["all-groups"], release="123") + render(MATRIX["everything"], release="123"):
        metadata = one["metadata"]
        for text in (metadata.get("namespace", ""), *metadata.get("labels", {}).values()):
            assert isinstance(text, str), metadata
        for subject in one.get("subjects", []):
            assert isinstance(subject["namespace"], str)


def test_large_numbers():
    """Numbers of a values file are floating-point numbers in templates: 268435456 must not become 2.68435456e+08."""
    values = {
        "proxy": {"extraFlags": {"max-buffered-answer-bytes": 268435456}},
        "postgresql": {"parameters": {"max_wal_size": 1048576}},
        "database": {"parameters": {"keepalives_idle": 1000000}},
    }
    objects = render(values)
    args = named(objects, "Deployment", "kube-reports")["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--max-buffered-answer-bytes=268435456" in args
    assert "keepalives_idle='1000000'" in next(arg for arg in args if arg.startswith("--database="))
    server = of_kind(objects, "StatefulSet")[0]["spec"]["template"]["spec"]["containers"][0]
    assert "max_wal_size=1048576" in server["args"]


def test_parameters_of_cloudnative_pg():
    """CloudNativePG's type accepts only texts."""
    values = {"database": {"type": "cloudnative-pg"},
              "postgresql": {"parameters": {"max_connections": 200, "jit": False, "work_mem": 1048576}}}
    parameters = of_kind(render(values), "Cluster")[0]["spec"]["postgresql"]["parameters"]
    assert (parameters["max_connections"], parameters["jit"], parameters["work_mem"]) == ("200", "false", "1048576")


@pytest.mark.parametrize("base", ["defaults", "cloudnative-pg", "cert-manager", "everything"])
def test_long_names(base):
    """
    Limits of names in characters: 53 of a release in Helm; 63 of Services, Jobs and labels in Kubernetes; 52 of a
    StatefulSet, because a label of its pods has a hash too; 50 in CloudNativePG; 64 of a certificate's common name.
    """
    release = "kube-reports-of-the-production-cluster-in-the-far-west"[:53]
    long = {**MATRIX[base], "fullnameOverride": ""}
    for one in render(long, release=release):
        limit = {"StatefulSet": 52, "Cluster": 50, "Service": 63, "Job": 63}.get(one["kind"], 253)
        assert len(one["metadata"]["name"]) <= limit, (one["kind"], one["metadata"]["name"])
        for text in one["metadata"].get("labels", {}).values():
            assert len(text) <= 63, text
        if one["kind"] == "Certificate":
            assert len(one["spec"]["commonName"].encode()) <= 64


def test_labels_of_pods_are_selected():
    """Labels that select pods cannot be overridden: Kubernetes refuses a Deployment that does not select its pods."""
    for values in ({"commonLabels": {"app.kubernetes.io/component": "mine"}},
                   {"podLabels": {"app.kubernetes.io/name": "mine"}},
                   {"dashboards": {"labels": {"app.kubernetes.io/instance": "mine"}}}):
        said = template(json.dumps(values), check=False)
        assert said.returncode != 0 and "values don't meet the specifications of the schema" in said.stderr, values
    for one, pod in pods(render(MATRIX["everything"])):
        wanted = one["spec"].get("selector", {}).get("matchLabels", {})
        assert wanted.items() <= pod["metadata"]["labels"].items()


@pytest.mark.parametrize("values, said", [
    ({"database": {"setup": {"roles": {"reader": "kube_reports_proxy"}}}},
     "database.setup.roles must be different roles"),
    ({"database": {"setup": {"roles": {"owner": ""}}}}, "owner"),
    ({"database": {"name": "a\nDROP DATABASE b"}}, "name"),
    ({"proxy": {"extraFlags": {"secure-port": 7443}}}, "extraFlags"),
    ({"proxy": {"extraFlags": {"metrics-port": 9090}}}, "extraFlags"),
    ({"autoscaling": {"enabled": True, "minReplicas": 5, "maxReplicas": 4}}, "autoscaling.minReplicas is greater than"),
    ({"serviceMonitor": {"enabled": True, "interval": "10s", "scrapeTimeout": "30s"}}, "serviceMonitor.scrapeTimeout"),
    ({"certificate": {"source": "cert-manager", "certManager": {"duration": "24h", "renewBefore": "48h"}}},
     "certificate.certManager.renewBefore"),
    ({"updateStrategy": {"rollingUpdate": {"maxSurge": 0}}}, "updateStrategy"),
])
def test_contradictions_are_refused(values, said, binary):
    """Values that one object would accept and another would refuse are refused before any object is made."""
    done = template(json.dumps(values), binary, check=False)
    assert done.returncode != 0
    assert said in done.stderr
