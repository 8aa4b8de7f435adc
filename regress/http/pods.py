"""Objects like those of upstream's storage suites: pods on nodes. A test can have a type of its own."""

import base64
import itertools
import json

from client import path_of, until

SCHEMA = {"type": "object", "properties": {
    "spec": {"type": "object", "properties": {"nodeName": {"type": "string"}}},
    "status": {"type": "object", "properties": {"phase": {"type": "string"}}}}}


def crd(group, plural, scope="Namespaced", schema=None, **version):
    """Returns a CustomResourceDefinition with one version, v1."""
    kind = plural.capitalize().removesuffix("s")
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"}, "spec": {
        "group": group, "scope": scope,
                "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": kind + "List"},
        "versions": [{"name": "v1", "served": True, "storage": True,
                      "schema": {"openAPIV3Schema": schema or SCHEMA}, **version}]}}


class Pods:
    """The objects of one type: their paths, their documents, and requests for them."""

    def __init__(self, api, definition):
        spec = definition["spec"]
        self.api = api
        self.resource = f"{spec['group']}/v1/{spec['names']['plural']}"
        self.head = {"apiVersion": f"{spec['group']}/v1", "kind": spec["names"]["kind"]}
        self.namespaced = spec["scope"] == "Namespaced"

    def path(self, namespace=None, name=None):
        return path_of(self.resource, namespace if self.namespaced else None, name)

    def pod(self, name, namespace=None, node=None, phase=None, **metadata):
        """Returns a pod; its node is also a label, so that label selectors find it."""
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
        """Creates or replaces an object; returns the stored object."""
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
        """Deletes an object; returns the version of the list afterwards."""
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
    """Registers types for a test module; end() unregisters them."""

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
        """Registers a type that no other test uses; returns its objects at the first proxy."""
        return Pods(self.stack.first.api(), self.register(crd(self.group, f"pod{next(self.numbers)}s", scope, **more)))

    def end(self):
        if self.names:
            self.stack.unregister(*self.names)


def token(version, start, **more):
    """Returns a continue token: base64url without padding."""
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": start, **more}, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def opened(text):
    """Returns the document in a continue token."""
    return json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def compact(stack):
    """Deletes every change from the log: afterwards only the newest version of each lane can be read."""
    def empty():
        # compact() does nothing while a proxy compacts; until() calls it again.
        return stack.database.psql("SELECT kube_reports_internal.compact() \\g /dev/null\nSELECT count(*) FROM "
                                   "kube_reports_internal.change") == "0"

    stack.database.psql("SELECT kube_reports.set_setting('log_retention', '0')")
    try:
        until(empty, 20, "an empty log")
    finally:
        stack.database.psql("SELECT kube_reports.set_setting('log_retention', '60 minutes')")
