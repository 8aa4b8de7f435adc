"""
kube-controller-manager's garbage collector, which finds owners and dependents among our objects as among any others.
"""

import pytest

from client import CPOLR, POLR, path_of, report, until

# The collector looks for new resources every 30 s, and then waits for its caches.
PATIENCE = 120
CONFIG_MAPS = "/api/v1/namespaces/{}/configmaps"


def owner(document, **more):
    return {"apiVersion": document["apiVersion"], "kind": document["kind"], "name": document["metadata"]["name"],
            "uid": document["metadata"]["uid"],
            **more}


def config_map(api, ns, name, **metadata):
    answer = api.post(CONFIG_MAPS.format(ns),
                      {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}})
    assert answer.code == 201, answer
    return answer.json


def create(api, ns, name, *owners, **metadata):
    document = report(name, ns)
    document["metadata"].update(metadata, **({"ownerReferences": list(owners)} if owners else {}))
    return api.create(POLR, document, ns)


def gone(api, path, seconds=PATIENCE):
    until(lambda: api.get(path).code == 404, seconds, f"the end of {path}")


@pytest.fixture(scope="module", autouse=True)
def collecting(plane, api):
    """The collector knows our resources: a first report was deleted with its owner."""
    plane.namespace("collecting")
    first = config_map(api, "collecting", "first")
    create(api, "collecting", "first", owner(first))
    api.delete(CONFIG_MAPS.format("collecting") + "/first")
    gone(api, path_of(POLR, "collecting", "first"), 180)
    yield
    api.delete("/api/v1/namespaces/collecting")


def test_owner_is_a_config_map(api, ns):
    """A report is deleted with the last of its owners; without owners it stays."""
    one, two = config_map(api, ns, "one"), config_map(api, ns, "two")
    create(api, ns, "of-one", owner(one))
    create(api, ns, "of-both", owner(one), owner(two))
    create(api, ns, "of-nobody")
    api.delete(CONFIG_MAPS.format(ns) + "/one")
    gone(api, path_of(POLR, ns, "of-one"))
    # A patch of the collector removes the reference to the deleted owner.
    until(lambda: len(api.get(path_of(POLR, ns, "of-both")).json["metadata"]["ownerReferences"]) == 1,
          PATIENCE, "one owner less")
    api.delete(CONFIG_MAPS.format(ns) + "/two")
    gone(api, path_of(POLR, ns, "of-both"))
    assert api.names(POLR, ns) == ["of-nobody"]


def test_owner_that_never_was(api, ns):
    """A report whose owner does not exist is deleted."""
    create(api, ns, "lost", {"apiVersion": "v1", "kind": "ConfigMap", "name": "never",
                             "uid": "00000000-0000-4000-8000-000000000000"})
    gone(api, path_of(POLR, ns, "lost"))


def test_pod_with_foreground(plane, api, ns):
    """kubectl delete --cascade=foreground: the owner ends after its reports."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", "namespace": ns},
           "spec": {"containers": [{"name": "a", "image": "a"}]}}
    stored = api.post(f"/api/v1/namespaces/{ns}/pods", pod)
    assert stored.code == 201, stored
    create(api, ns, "of-pod", owner(stored.json, blockOwnerDeletion=True))
    with api.watch(path_of(POLR, ns)) as reports:
        reports.expect(("ADDED", "of-pod"))
        plane.kubectl("-n", ns, "delete", "pod", "pod", "--cascade=foreground", "--timeout=120s")
        reports.expect(("DELETED", "of-pod"))
    assert api.get(f"/api/v1/namespaces/{ns}/pods/pod").code == 404


def test_report_is_the_owner(api, ns):
    """A dependent of a report is deleted with it, in the background or in the foreground, or stays as an orphan."""
    for how in ("Background", "Foreground", "Orphan"):
        name = how.lower()
        stored = create(api, ns, name)
        config_map(api, ns, name, ownerReferences=[owner(stored, blockOwnerDeletion=True)])
    # Delete the reports only now: the collector has to know all dependents before.
    for how in ("Background", "Foreground", "Orphan"):
        answer = api.delete(path_of(POLR, ns, how.lower()),
                            {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": how})
        assert answer.code == 200, answer
        gone(api, path_of(POLR, ns, how.lower()))
    for how in ("background", "foreground"):
        gone(api, CONFIG_MAPS.format(ns) + "/" + how)
    orphan = api.get(CONFIG_MAPS.format(ns) + "/orphan").json
    assert not orphan["metadata"].get("ownerReferences")


def test_reports_among_themselves(api, ns):
    """A cluster-wide report owns a report of a namespace, which owns another one: the chain is deleted as a whole."""
    top = api.create(CPOLR, report(f"top-{ns}", resource=CPOLR))
    middle = create(api, ns, "middle", owner(top))
    create(api, ns, "bottom", owner(middle))
    api.delete(path_of(CPOLR, None, f"top-{ns}"))
    for name in ("middle", "bottom"):
        gone(api, path_of(POLR, ns, name))


def test_many_dependents(api, ns):
    """300 reports of one owner are deleted with it."""
    one = config_map(api, ns, "one")
    for number in range(300):
        create(api, ns, f"r-{number}", owner(one))
    api.delete(CONFIG_MAPS.format(ns) + "/one")
    until(lambda: not api.names(POLR, ns), PATIENCE, "the end of all reports")
