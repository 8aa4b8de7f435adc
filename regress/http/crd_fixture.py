"""Clusters with CustomResourceDefinitions, each with a role of its own in the module's database."""

import pytest

from conftest import stack_command
from crd_cluster import KYVERNO, OPEN, WG, CrdCluster


@pytest.fixture(scope="module")
def crd_certificates(module_stack):
    stack_command("certificates", f"{module_stack.pki}/apiserver")
    return f"{module_stack.pki}/apiserver"


@pytest.fixture(name="cluster")
def crd_cluster(module_stack, crd_certificates):
    server = CrdCluster(crd_certificates)
    server.define(WG, ["v1alpha2"], "policyreports", "clusterpolicyreports")
    server.define(OPEN, ["v1alpha1"], "reports", "clusterreports")
    server.define(KYVERNO, ["v1"], "ephemeralreports", "clusterephemeralreports")
    server.uid = server.namespace_uid("kube-system")
    server.role = "proxy_" + server.uid[:8]
    server.database = module_stack.database
    server.database.psql(f"CREATE ROLE {server.role} LOGIN", user="postgres")
    server.database.psql(f"SELECT kube_reports.grant_proxy('{server.role}', '{server.uid}')")
    server.config = server.kubeconfig(f"{module_stack.pki}/kubeconfig-{server.port}")
    yield server
    server.calm()
    server.stop()
