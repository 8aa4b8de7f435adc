"""Authentication and authorization by kube-apiserver, through the aggregator and at the proxy's own port."""

import base64
import json
import os
import re

import pytest

from client import CPOLR, POLR, Api, failure, path_of, report, run, until
from conftest import TOP, documents
from control_plane import Bearer
from rights import RULES, binding, may, role


@pytest.fixture
def writer(plane, ns):
    """A user who may create and read policy reports of the namespace, by the group in the user's certificate."""
    plane.apply(role(ns, "writers"), binding(ns, "writers", kind="Group", name=f"team-{ns}"))
    return plane.user(f"alice-{ns}", f"team-{ns}")


@pytest.fixture(scope="module")
def open_proxy(cluster):
    """The port of a proxy that accepts clients without a certificate, beside those that the aggregator uses."""
    proxy = cluster.proxy("--require-client-cert=false")
    yield proxy.port
    cluster.stack.end_proxies([cluster.first])


def test_rights_of_the_page(plane):
    """The role for exports of a namespace in docs/security.md allows what the page says, and nothing more"""
    for name, allowed, refused in (
            ("kube-reports-export-shop", [("get", "/v1/export/namespaces/shop/results")],
             [("get", "/v1/export/results"), ("get", "/v1/export/namespaces/other/results")]),):
        plane.apply(*documents("security.md", f"name: {name}"), {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": f"of-{name}"}]})
        for words, answer in [*((words, "yes") for words in allowed), *((words, "no") for words in refused)]:
            everywhere = [] if words[1].startswith("/") else ["-A"]
            asked = ("auth", "can-i", *words, *everywhere, f"--as=of-{name}")
            until(lambda asked=asked, answer=answer: plane.kubectl(*asked, check=False).out.strip() == answer, 30,
                  " ".join(asked))


def test_user(writer, cluster, api, ns):
    """What RBAC allows works and is logged under the user's name; the rest is refused as kube-apiserver refuses it."""
    may(writer, path_of(POLR, ns))
    writer.create(POLR, report("one", ns), ns)
    assert cluster.stack.database.psql(
        "SELECT DISTINCT actor FROM kube_reports.result_event WHERE namespace = :'ns'", ns=ns) == f"alice-{ns}"
    refused = failure(writer.delete(path_of(POLR, ns, "one")), 403, "Forbidden")
    assert refused["message"] == (f'policyreports.wgpolicyk8s.io "one" is forbidden: User "alice-{ns}" cannot delete '
                                  'resource "policyreports" '
                                  f'in API group "wgpolicyk8s.io" in the namespace "{ns}"')
    failure(writer.get(path_of(POLR)), 403, "Forbidden")
    failure(writer.get(path_of(CPOLR)), 403, "Forbidden")
    failure(writer.get(path_of(POLR, "default")), 403, "Forbidden")
    assert api.names(POLR, ns) == ["one"]


def test_can_i(writer, plane, ns):
    """kubectl auth can-i answers by RBAC, and so does impersonation."""
    user = f"alice-{ns}"
    # kubectl has a cache from before our groups, and auth can-i does not refresh it.
    plane.kubectl("api-resources")
    assert plane.kubectl("auth", "can-i", "create", "polr", "-n", ns, f"--as={user}",
                         f"--as-group=team-{ns}").strip() == "yes"
    assert plane.kubectl("auth", "can-i", "delete", "polr", "-n", ns, f"--as={user}", f"--as-group=team-{ns}",
                         check=False).out.strip() == "no"
    until(lambda: plane.kubectl("get", "polr", "-n", ns, f"--as={user}", f"--as-group=team-{ns}", check=False).code
          == 0, 30, "leave to read")
    refused = plane.kubectl("get", "polr", "-n", ns, f"--as={user}", check=False)
    assert refused.code != 0 and "Forbidden" in refused.err


def test_service_account(plane, open_proxy, api, ns):
    """
    A token works through the aggregator and at the proxy's own port, until its account is deleted; a wrong token does
    not.
    """
    plane.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": ns}},
                role(ns, "robots"), binding(ns, "robots", kind="ServiceAccount", name="robot", namespace=ns))
    token = plane.token(ns, "robot")
    robot = plane.bearer(token)
    may(robot, path_of(POLR, ns))
    robot.create(POLR, report("one", ns), ns)
    failure(robot.delete(path_of(POLR, ns, "one")), 403, "Forbidden")
    kubeconfig = plane.write_kubeconfig(f"robot-{ns}", token=token)
    assert "one" in plane.kubectl("get", "polr", "-n", ns, kubeconfig=kubeconfig)
    direct = plane.bearer(token, open_proxy)
    assert direct.names(POLR, ns) == ["one"]
    failure(direct.get(path_of(POLR, "default")), 403, "Forbidden")
    failure(plane.bearer(token + "x", open_proxy).get(path_of(POLR, ns)), 401, "Unauthorized")
    assert api.delete(f"/api/v1/namespaces/{ns}/serviceaccounts/robot").code == 200
    for client in (robot, direct):
        until(lambda one=client: one.get(path_of(POLR, ns)).code == 401, 40, "the end of the token")


def test_account_of_policy_reporter(plane, api, open_proxy, tmp_path):
    """docs/policy-reporter.md: the account of its UI, and the Secret with which the UI logs in"""
    plane.namespace("policy-reporter")
    try:
        plane.apply(*documents("policy-reporter.md", "kind: ServiceAccount"))
        secrets = "/api/v1/namespaces/policy-reporter/secrets"
        until(lambda: "token" in api.get(f"{secrets}/policy-reporter-ui-reader").json.get("data", {}), 60, "the token")
        page = (TOP / "docs" / "policy-reporter.md").read_text(encoding="utf-8")
        (command,) = re.findall(r"^```\n(kubectl .*?)^```$", page, re.M | re.S)
        (tmp_path / "kubectl").symlink_to(plane.programs["kubectl"])
        run(["bash", "-euo", "pipefail", "-c", command],
            env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "KUBECONFIG": plane.kubeconfig})
        given = api.get(f"{secrets}/kube-reports").json["data"]
        login = b":".join(base64.b64decode(given[name]) for name in ("username", "password"))
        reader = Bearer(open_proxy, f"{plane.pki}/ca.crt", Authorization=f"Basic {base64.b64encode(login).decode()}")
        may(reader, "/v1/policy-reporter/v2/namespaces")
        # Elsewhere a password is no token.
        failure(reader.get(path_of(POLR)), 403, "Forbidden")
        for kind in ("clusterroles", "clusterrolebindings"):
            assert api.delete(f"/apis/rbac.authorization.k8s.io/v1/{kind}/kube-reports-policy-reporter").code == 200
    finally:
        api.delete("/api/v1/namespaces/policy-reporter")


def test_front_proxy(plane, cluster, open_proxy, ns):
    """The proxy believes headers of a front proxy only from kube-apiserver."""
    forged = {"X-Remote-User": "kube-reports-admin", "X-Remote-Group": "system:masters"}
    user = plane.user(f"mallory-{ns}")
    direct = Api(cluster.first.port, f"{plane.pki}/ca.crt", f"{plane.pki}/user-mallory-{ns}")
    for client in (user, direct):
        failure(client.request("GET", path_of(POLR), headers=forged), 403, "Forbidden")
    failure(Bearer(open_proxy, f"{plane.pki}/ca.crt", **forged).get(path_of(POLR)), 403, "Forbidden")
    with pytest.raises(OSError):
        Bearer(cluster.first.port, f"{plane.pki}/ca.crt", **forged).get(path_of(POLR))
    # With the front proxy's own certificate, the proxy believes them.
    trusted = Api(cluster.first.port, f"{plane.pki}/ca.crt", f"{plane.directory}/front/front-proxy-client")
    assert trusted.request("GET", path_of(POLR, ns), headers=forged).code == 200


def test_aggregated_roles(plane, api, ns):
    """A ClusterRole that is aggregated to view, as charts make them, lets users with view read reports."""
    plane.apply({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                 "metadata": {"name": f"viewers-{ns}",
                              "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}, "rules": RULES},
                {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                 "metadata": {"name": "viewers", "namespace": ns},
                 "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
                 "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": f"viewer-{ns}"}]})
    may(plane.user(f"viewer-{ns}"), path_of(POLR, ns))
    assert api.delete(f"/apis/rbac.authorization.k8s.io/v1/clusterroles/viewers-{ns}").code == 200


def test_large_user(plane, cluster, ns):
    """A user in 60 groups: the aggregator sends a header for each, and RBAC finds the one that counts."""
    plane.apply(role(ns, "many"), binding(ns, "many", kind="Group", name="group-59"))
    many = plane.user(f"many-{ns}", *(f"group-{number}" for number in range(60)))
    may(many, path_of(POLR, ns))
    assert json.loads(many.get(path_of(POLR, ns)).body)["items"] == []
