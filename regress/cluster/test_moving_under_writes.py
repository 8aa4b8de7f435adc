"""
docs/moving-in.md, "Kyverno with CRDs: without a gap", with the patches of that page: from etcd into the database while
reports are written.
"""

import re

import pytest

from client import CPOLR, POLR, path_of, report, until
from conftest import TOP
from old_cluster import GROUP_VERSION, command, disable, enable, names, old_clusters

PAGE = (TOP / "docs" / "moving-in.md").read_text(encoding="utf-8")
BY_ETCD = "wgpolicyk8s.io/etcd/policyreports"


@pytest.fixture(scope="module")
def old_cluster():
    yield from old_clusters()


def patch_crds(cluster, operation):
    """Runs one of the page's commands that patch CRDs."""
    command_line = next(text for text in re.findall(r"kubectl (patch crd [^`]*?\]')", PAGE) if operation in text)
    command_line = command_line.replace("\\\n", "")
    words, patch = re.fullmatch(r"(.*) -p '(.*)'", command_line, re.S).groups()
    cluster.plane.kubectl(*words.split(), "-p", patch)


def moved(cluster, *arguments):
    """Runs import or cleanup; returns the output."""
    return command(cluster, *arguments, f"--database={cluster.stack.database.connection('kube_reports_proxy')}").stdout


def test_without_a_gap(old_cluster):
    api = old_cluster.plane.api()
    account = api.get("/api/v1/namespaces/default/serviceaccounts/default").json["metadata"]
    owned = report("owned", "default")
    owned["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "ServiceAccount", "name": "default",
                                             "uid": account["uid"]}]
    api.create(POLR, owned, "default")
    api.create(CPOLR, report("of-all", resource=CPOLR))
    for number in range(60):
        api.create(POLR, report(f"r-{number}", "default"), "default")
    before = {item["metadata"]["name"]: item for item in api.get(path_of(POLR, "default")).json["items"]}
    patch_crds(old_cluster, '"copy"')
    until(lambda: api.get(path_of(BY_ETCD, "default")).code == 200, 60, "the second version")
    for _ in range(2):
        moved(old_cluster, "import", "--from-cluster", "--page-size=20")
    # These writes come between the last import and the switch.
    api.create(POLR, report("late", "default"), "default")
    api.patch(path_of(POLR, "default", "r-1"), {"summary": {"warn": 7}})
    enable(old_cluster)
    until(lambda: "late" not in (names(old_cluster) or ["late"]), 30, "lists of the proxy")
    moved(old_cluster, "import", "--from-cluster", "--version=etcd")
    after = {item["metadata"]["name"]: item for item in api.get(path_of(POLR, "default")).json["items"]}
    assert after.keys() == before.keys() | {"late"}
    assert after["r-1"]["summary"]["warn"] == 7
    for name, document in before.items():
        for member in ("uid", "creationTimestamp", "ownerReferences"):
            assert after[name]["metadata"].get(member) == document["metadata"].get(member)
    assert api.names(CPOLR) == ["of-all"]
    # The collector knows the owner of a copy: it stays.
    assert len(api.names(BY_ETCD, "default")) == len(after)
    moved(old_cluster, "cleanup", "--also-gone", "--yes")
    assert api.names(BY_ETCD, "default") == []
    assert api.names(POLR, "default") == sorted(after)
    patch_crds(old_cluster, '"remove"')
    # The way back: etcd has no reports any more.
    disable(old_cluster)
    old_cluster.plane.wait_available(GROUP_VERSION)
    until(lambda: names(old_cluster) == [], 60, "lists of etcd")
