"""Objects as upstream's storage suites have them: pods on nodes, of types that a test has to itself."""

import base64
import itertools
import json

from client import path_of, until

SCHEMA = {"type": "object", "properties": {
    "spec": {"type": "object", "properties": {"nodeName": {"type": "string"}}},
    "status": {"type": "object", "properties": {"phase": {"type": "string"}}}}}


def crd(group, plural, scope="Namespaced", schema=None, **version):
    """A CustomResourceDefinition of one version, v1."""
    kind = plural.capitalize().removesuffix("s")
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"}, "spec": {
        "group": group, "scope": scope,
                "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": kind + "List"},
        "versions": [{"name": "v1", "served": True, "storage": True,
                      "schema": {"openAPIV3Schema": schema or SCHEMA}, **version}]}}


class Pods:
    """All objects of one type: where they are and what they look like."""

    def __init__(self, api, definition):
        spec = definition["spec"]
        self.api = api
        self.resource = f"{spec['group']}/v1/{spec['names']['plural']}"
        self.head = {"apiVersion": f"{spec['group']}/v1", "kind": spec["names"]["kind"]}
        self.namespaced = spec["scope"] == "Namespaced"

    def path(self, namespace=None, name=None):
        return path_of(self.resource, namespace if self.namespaced else None, name)

    def pod(self, name, namespace=None, node=None, phase=None, **metadata):
        """Its node is also a label, since labels can be selected by."""
        document = {**self.head, "metadata": {"name": name, **metadata}, "spec": {}}
        if namespace is not None:
            document["metadata"]["namespace"] = namespace
        if node is not None:
            document["spec"]["nodeName"] = node
            document["metadata"].setdefault("labels", {})["node"] = node
        if phase is not None:
            document["status"] = {"phase": phase}
        return document

    def create(self, name, namespace=None, **more):
        return self.api.create(self.resource, self.pod(name, **more), namespace if self.namespaced else None)

    def put(self, document):
        """Creates it or replaces it, whatever is there; returns the stored object."""
        metadata = document["metadata"]
        path = self.path(metadata.get("namespace"))
        found = self.api.get(f"{path}/{metadata['name']}")
        if found.code == 404:
            answer = self.api.post(path, document)
        else:
            metadata["resourceVersion"] = found.json["metadata"]["resourceVersion"]
            answer = self.api.put(f"{path}/{metadata['name']}", document)
        assert answer.code in (200, 201), answer
        return answer.json

    def delete(self, name, namespace=None):
        """Deletes it; returns the version of the list afterwards."""
        answer = self.api.delete(self.path(namespace, name))
        assert answer.code == 200, answer
        return self.version()

    def version(self):
        return self.api.get(self.path()).json["metadata"]["resourceVersion"]

    def list(self, namespace=None, **query):
        answer = self.api.get(self.path(namespace), **query)
        assert answer.code == 200, answer
        return answer.json


class Types:
    """Types registered for a test module, one after the other; end() takes them away."""

    def __init__(self, stack, group):
        self.stack = stack
        self.group = group
        self.numbers = itertools.count(1)
        self.names = []

    def register(self, definition):
        self.stack.database.psql(f"SELECT kube_reports.register_crd($crd${json.dumps(definition)}$crd$::jsonb)")
        self.names.append(definition["metadata"]["name"])
        return definition

    def pods(self, scope="Namespaced", **more):
        """A type that nobody else uses, by the first proxy."""
        return Pods(self.stack.first.api(), self.register(crd(self.group, f"pod{next(self.numbers)}s", scope, **more)))

    def end(self):
        if self.names:
            self.stack.unregister(*self.names)


def token(version, start, **more):
    """A continue token: base64url without padding."""
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": start, **more}, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def opened(text):
    """What a continue token says."""
    return json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def compact(stack):
    """Forgets every change: no version but the newest one of each lane can be read any more."""
    def empty():
        # A proxy that compacts at this moment has the lock: then again.
        return stack.database.psql("SELECT kube_reports_internal.compact() \\g /dev/null\nSELECT count(*) FROM "
                                   "kube_reports_internal.change") == "0"

    stack.database.psql("SELECT kube_reports.set_setting('log_retention', '0')")
    try:
        until(empty, 20, "an empty log")
    finally:
        stack.database.psql("SELECT kube_reports.set_setting('log_retention', '60 minutes')")
