"""Roles of RBAC for tests, and the wait until they hold."""

from client import until

RULES = [{"apiGroups": ["wgpolicyk8s.io"], "resources": ["policyreports"], "verbs": ["get", "list", "watch", "create"]}]


def role(namespace, name, rules=None):
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": name, "namespace": namespace},
            "rules": rules or RULES}


def binding(namespace, name, /, **subject):
    group = {} if subject["kind"] == "ServiceAccount" else {"apiGroup": "rbac.authorization.k8s.io"}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": name, "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{**group, **subject}]}


def may(api, path, **query):
    """Waits for the right to read: kube-apiserver and the proxy remember a refusal for some seconds."""
    until(lambda: api.get(path, **query).code == 200, 30, f"leave to read {path}")
