"""Rights of pods, and of proxies in the cluster: Pod Security "restricted", and the roles of docs/security.md."""

import re

import pytest
import yaml

from conftest import TOP, containers, of_kind, pods, render
from matrix import MATRIX

every_values = pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
NAMESPACES = "kube-reports-namespaces"
VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}


def violations(pod):
    """Returns the violations of Pod Security "restricted"."""
    spec = pod["spec"]
    context = spec.get("securityContext", {})
    found = [f"{name} is set" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    found += [
        f"volume {volume['name']}" for volume in spec.get("volumes", []) if not set(volume) - {"name"} <= VOLUMES
    ]
    if "sysctls" in context or "windowsOptions" in context:
        found.append("sysctls or windowsOptions")
    for container in containers(pod):
        own = container.get("securityContext", {})
        name = container["name"]
        if own.get("privileged") or own.get("procMount", "Default") != "Default" or "windowsOptions" in own:
            found.append(f"{name}: privileged")
        if own.get("allowPrivilegeEscalation") is not False:
            found.append(f"{name}: allowPrivilegeEscalation")
        if "ALL" not in own.get("capabilities", {}).get("drop", []) or own["capabilities"].get("add"):
            found.append(f"{name}: capabilities")
        if own.get("runAsNonRoot", context.get("runAsNonRoot")) is not True:
            found.append(f"{name}: runAsNonRoot")
        if own.get("runAsUser", context.get("runAsUser")) == 0:
            found.append(f"{name}: runAsUser")
        if own.get("seccompProfile", context.get("seccompProfile", {})).get("type") not in (
            "RuntimeDefault",
            "Localhost",
        ):
            found.append(f"{name}: seccompProfile")
        found += [f"{name}: hostPort" for port in container.get("ports", []) if port.get("hostPort")]
    return found


@every_values
def test_restricted(values):
    for one, pod in pods(render(values)):
        assert violations(pod) == [], one["metadata"]["name"]
        for container in containers(pod):
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["resources"]["requests"] and container["resources"]["limits"]["memory"]


def test_restricted_is_noticed():
    """The check above finds violations."""
    contexts = {
        "podSecurityContext": {"runAsNonRoot": None, "seccompProfile": None},
        "securityContext": {"allowPrivilegeEscalation": True},
    }
    found = [violations(pod) for one, pod in pods(render(contexts)) if one["kind"] == "Deployment"]
    assert found == [["proxy: allowPrivilegeEscalation", "proxy: runAsNonRoot", "proxy: seccompProfile"]]


@every_values
def test_tokens(values):
    """Only pods that call kube-apiserver have a token."""
    for one, pod in pods(render(values)):
        component = one["metadata"]["labels"]["app.kubernetes.io/component"]
        asks = component in ("proxy", "apiservices", "sender") or (
            component == "setup" and not values.get("cluster", {}).get("id")
        )
        assert pod["spec"]["automountServiceAccountToken"] is asks, one["metadata"]["name"]


def roles_of(objects):
    """Returns the rights and their subjects, without labels and annotations."""

    def key(one):
        return one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]

    def rule(one):
        return tuple(sorted((name, tuple(sorted(value))) for name, value in one.items()))

    roles = {key(one): sorted(map(rule, one["rules"])) for one in of_kind(objects, "Role", "ClusterRole")}
    bindings = {
        key(one): (sorted(one["roleRef"].items()), sorted(sorted(subject.items()) for subject in one["subjects"]))
        for one in of_kind(objects, "RoleBinding", "ClusterRoleBinding")
    }
    return roles | bindings


def documented():
    """Returns the objects of docs/security.md in the sections about proxies and hooks; other sections are for users."""
    sections = (TOP / "docs" / "security.md").read_text().split("\n## ")
    ours = ("The serving certificate and APIServices\n", "What the proxy may do in the cluster\n")
    page = "\n".join(section for section in sections if section.startswith(ours))
    blocks = re.findall(r"^```yaml\n(.*?)^```", page, re.M | re.S)
    objects = [document for block in blocks for document in yaml.safe_load_all(block) if document]
    # The page says "bound in the same way".
    bound = next(
        one for one in objects if one["kind"] == "ClusterRoleBinding" and one["metadata"]["name"] == NAMESPACES
    )
    local = next(
        one for one in objects if one["kind"] == "RoleBinding" and one["metadata"]["name"] == "kube-reports-events"
    )
    policies = yaml.safe_load(yaml.safe_dump(bound).replace(NAMESPACES, "kube-reports-policies"))
    takeover = [
        yaml.safe_load(yaml.safe_dump(one).replace(name, "kube-reports-takeover"))
        for one, name in ((bound, NAMESPACES), (local, "kube-reports-events"))
    ]
    for one in takeover:
        one["subjects"][0]["name"] = "kube-reports-takeover"
    return roles_of([*objects, policies, *takeover])


def test_roles_are_those_of_the_page():
    everything = {"rbac": {"policies": True}, "apiServices": {"groups": {"kyverno.io/v1alpha2": True}}}
    given = roles_of(
        [one for one in render(everything) if not any("aggregate-to" in label for label in one["metadata"]["labels"])]
    )
    wanted = documented()
    assert sorted(map(str, set(given) - set(wanted))) == [], "only in the chart"
    assert sorted(map(str, set(wanted) - set(given))) == [], "only in docs/security.md"
    for name, role in wanted.items():
        assert given[name] == role, name


def test_flow_schema():
    """The FlowSchema for the proxies' reviews is the one of the page, in the API version of each Kubernetes."""
    block = next(block for block in re.findall(r"^```yaml\n(.*?)^```", (TOP / "docs" / "security.md").read_text(),
                                               re.M | re.S) if "kind: FlowSchema" in block)
    wanted = yaml.safe_load(block)
    for kube_version, version in (("1.25.0", "v1beta2"), ("1.28.9", "v1beta3"), ("1.29.0", "v1")):
        (given,) = of_kind(render(kube_version=kube_version), "FlowSchema")
        assert given["apiVersion"] == f"flowcontrol.apiserver.k8s.io/{version}"
        assert (given["metadata"]["name"], given["spec"]) == (wanted["metadata"]["name"], wanted["spec"])
    assert of_kind(render({"flowSchema": {"create": False}}), "FlowSchema") == []


def test_least():
    """By default there is no right to read policies, nor to change APIServices of groups that are not served."""
    objects = render()
    assert "policies" not in repr(
        [one["rules"] for one in of_kind(objects, "ClusterRole") if one["metadata"]["name"] == "kube-reports-policies"]
    )
    assert [one for one in of_kind(objects, "ClusterRole") if one["metadata"]["name"] == "kube-reports-policies"] == []
    proxy = next(
        one for one in of_kind(objects, "ClusterRole") if one["metadata"]["name"] == "kube-reports-apiservices"
    )
    assert "v1alpha2.kyverno.io" not in proxy["rules"][0]["resourceNames"]


def test_no_rule_for_all_api_services():
    """A rule with an empty list of names would allow every APIService: without groups there is none"""
    names = ("openreports.io/v1alpha1", "reports.kyverno.io/v1", "wgpolicyk8s.io/v1alpha2")
    for values in ({"groups": {name: False for name in names}}, {"enabled": False}, {"method": "none"}):
        rules = [rule for one in of_kind(render({"apiServices": values}), "ClusterRole") for rule in one["rules"]
                 if "apiservices" in rule["resources"]]
        assert rules or "groups" in values
        for rule in rules:
            assert rule.get("resourceNames") or set(rule["verbs"]) <= {"create", "list"}, rule


def test_roles_for_people():
    """The roles have all built-in types, and are aggregated to the cluster's roles view and admin."""
    types = {path.stem.partition(".")[::2] for path in (TOP / "sql" / "crds").glob("*.json")}
    served = {group for resource, group in types} & {
        "wgpolicyk8s.io",
        "openreports.io",
        "reports.kyverno.io",
        "kyverno.io",
    }
    types = {one for one in types if one[1] in served}
    for role, verbs in (
        ("view", {"get", "list", "watch"}),
        ("admin", {"create", "delete", "deletecollection", "patch", "update"}),
    ):
        found = [
            one
            for one in of_kind(render(), "ClusterRole")
            if one["metadata"]["labels"].get(f"rbac.authorization.k8s.io/aggregate-to-{role}")
        ]
        assert len(found) == 1
        assert {
            (resource, group)
            for rule in found[0]["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
        } == types
        assert all(set(rule["verbs"]) == verbs for rule in found[0]["rules"])
