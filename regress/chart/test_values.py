"""Each value is documented, and has a default and a schema; other values are refused."""

import json
import subprocess

import pytest
import yaml

from conftest import CHART, TOP, refused, render
from matrix import SENDER

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())


def described(schema, path=()):
    """Yields the paths of the schema that have a description."""
    for name, part in schema.get("properties", {}).items():
        if "description" in part:
            yield ".".join((*path, name))
        else:
            yield from described(part, (*path, name))


def value(path):
    found = VALUES
    for name in path.split("."):
        found = found[name]
    return found


def rooms(schema, path=()):
    """Yields the objects of the schema whose members are listed."""
    if schema.get("properties"):
        yield ".".join(path), schema
    for name, part in schema.get("properties", {}).items():
        yield from rooms(part, (*path, name))


def test_each_has_a_default():
    for path in described(SCHEMA):
        if path != "global":
            value(path)


def test_each_has_a_schema():
    """No part of values.yaml is unknown to the schema, at any depth that the schema describes."""

    def check(values, schema, path):
        if "properties" not in schema:
            return
        for name, part in values.items():
            assert name in schema["properties"], f"{path}{name} is not in values.schema.json"
            if isinstance(part, dict):
                check(part, schema["properties"][name], f"{path}{name}.")

    check(VALUES, SCHEMA, "")


def test_nothing_else_is_taken():
    for path, schema in rooms(SCHEMA):
        assert schema.get("additionalProperties") is False, f"{path or 'the top'} takes any name"


def test_page():
    """README.md has each value, its default and its description from the schema."""
    done = subprocess.run([TOP / ".ci" / "chart-values", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "values, named",
    [
        ({"proxy": {"worker": 2}}, "worker"),
        ({"replica": 2}, "replica"),
        ({"replicas": "two"}, "replicas"),
        ({"apiServices": {"groups": {"wgpolicyk8s.io/v1": True}}}, "wgpolicyk8s.io/v1"),
        ({"apiServices": {"additionalGroups": ["trivy"]}}, "additionalGroups"),
        ({"database": {"type": "mysql"}}, "type"),
        ({"database": {"secret": {"keys": {"sslkey": "tls.key"}}}}, "sslkey"),
        ({"database": {"setup": {"roles": {"proxy": ""}}}}, "proxy"),
        ({"certificate": {"source": "selfsigned"}}, "source"),
        ({"proxy": {"shutdownDelay": "ten"}}, "shutdownDelay"),
        ({"cluster": {"id": "production"}}, "id"),
        ({"postgresql": {"storage": {"size": 20}}}, "size"),
        ({"image": {"pullPolicy": "Sometimes"}}, "pullPolicy"),
        ({"prometheusRule": {"enabled": "yes"}}, "enabled"),
        ({"sender": {"to": "http://receiver"}}, "to"),
        ({"sender": {"kinds": ["policyreports"]}}, "kinds"),
        ({"sender": {"extraMetadata": {"region": "eu,us"}}}, "region"),
    ],
)
def test_schema_refuses(values, named, binary):
    said = refused(values, binary)
    assert "values don't meet the specifications of the schema" in said
    assert named in said


@pytest.mark.parametrize(
    "values, said",
    [
        (
            {"database": {"type": "external"}},
            "database.parameters.host, database.secret.name or database.serviceFile.secretName",
        ),
        ({"database": {"type": "external", "secret": {"name": "db"}}}, "database.setup.secret.name"),
        ({"certificate": {"source": "secret"}}, "certificate.secretName"),
        ({"certificate": {"source": "secret", "secretName": "mine"}}, "the bundled database needs a certificate"),
        ({"serviceAccount": {"create": False}}, "serviceAccount.name"),
        ({"proxy": {"enabled": False}}, "proxy.enabled or sender.enabled"),
        ({"receiver": {"enabled": True}}, "proxy.requireClientCert=false, or receiver.clientCA.secretName"),
        ({"sender": {**SENDER, "to": ""}}, "sender.to"),
        ({"sender": {**SENDER, "kinds": []}}, "sender.kinds"),
        ({"sender": {**SENDER, "credential": {}}}, "sender.credential.secretName"),
    ],
)
def test_templates_refuse(values, said, binary):
    assert said in refused(values, binary)


def test_parent_charts():
    """A parent chart may give values to all of its charts."""
    assert render({"global": {"any": "thing"}})
