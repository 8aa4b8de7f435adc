"""cleanup deletes from etcd the objects that import has verified, and no others."""

import os
import pty
import subprocess

import pytest

from crd_fixture import crd_certificates, crd_cluster  # noqa: F401 (fixtures)
from crd_cluster import OPEN, WG, call, command, load, report, table

POLR = "policyreports.wgpolicyk8s.io"


@pytest.fixture(name="moved")
def moved_cluster(cluster):
    """Six reports and a report of another group, imported."""
    for number in range(6):
        cluster.add(WG, "policyreports", report(number))
    cluster.add(OPEN, "reports", {**report(1), "kind": "Report"})
    load(cluster)
    return cluster


def clean(cluster, *flags, code=0):
    return call(cluster, "cleanup", *flags, code=code)


def left(cluster):
    return sorted(name for _, name in cluster.stored[WG, "policyreports"])


def sql(cluster, statement):
    return cluster.database.psql(statement)


def change_here(cluster, name):
    patch = '{"metadata":{"labels":{"here":"yes"}}}'
    sql(cluster, f"SELECT kube_reports.patch_report('{cluster.uid}', '{POLR}', 'shop', '{name}', '{patch}')")


def delete_here(cluster, name):
    sql(cluster, f"SELECT kube_reports.delete_report('{cluster.uid}', '{POLR}', 'shop', '{name}')")


def test_verified_ones_go(moved):
    """
    All verified objects of both groups are deleted, each by its uid and version; counts and size fall; the database
    keeps all reports.
    """
    done = clean(moved, "--dry-run")
    assert table(done, POLR) == {"found": 6, "verified": 6}
    assert not moved.asked(".*", "DELETE")
    done = clean(moved, "--yes")
    assert table(done, POLR, 1) == {"before": 6, "deleted": 6}
    assert moved.count(WG, "policyreports") == moved.count(OPEN, "reports") == 0
    metrics = [line.split() for line in done.stdout.splitlines()]
    assert [POLR, "6", "0"] in metrics
    size = next(line for line in metrics if line[:3] == ["size", "of", "etcd"])
    assert int(size[5]) == int(size[3]) - 7 * 7000
    assert sql(moved, f"SELECT count(*) FROM kube_reports.stored_report WHERE cluster = '{moved.uid}'") == "7"
    assert sql(moved,
               "SELECT count(*) FROM kube_reports_internal.imported i JOIN kube_reports_internal.lane l ON l.id = "
               "i.lane"
                      f" JOIN kube_reports.cluster c ON c.id = l.cluster_id WHERE c.uid = '{moved.uid}'") == "0"
    assert "there is nothing to delete" in clean(moved, "--yes").stderr


def test_what_is_not_verified_stays(moved):
    """
    New, changed and recreated objects stay, and those without a copy or with a copy that was not verified; each is
    named.  The others are deleted, also if their copy has changed after the import.
    """
    moved.add(WG, "policyreports", report(7))
    moved.add(WG, "policyreports", report(0, results=5))
    moved.drop(WG, "policyreports", "shop", "r-000001")
    moved.add(WG, "policyreports", report(1))
    change_here(moved, "r-000002")
    delete_here(moved, "r-000003")
    sql(moved, "UPDATE kube_reports_internal.imported SET verified = false WHERE name = 'r-000004'")
    done = clean(moved, "--yes", f"--kinds={POLR}")
    assert table(done, POLR) == {"found": 7, "verified": 2, "gone": 1, "stay": 5}
    assert table(done, POLR, 1) == {"before": 7, "deleted": 2, "left": 5}
    assert left(moved) == ["r-000000", "r-000001", "r-000003", "r-000004", "r-000007"]
    for name, reason in (("r-000000", "it has changed since"), ("r-000001", "it was not imported"),
                         ("r-000004", "its copy is not the same document"), ("r-000007", "it was not imported")):
        assert f"shop/{name} stays: {reason}" in done.stderr
    assert moved.count(OPEN, "reports") == 1
    # After another import they are deleted as well; an object whose copy was deleted needs a flag of its own.
    load(moved)
    assert table(clean(moved, "--yes"), POLR, 1) == {"before": 5, "deleted": 4, "left": 1}
    assert left(moved) == ["r-000003"]
    assert table(clean(moved, "--yes", "--also-gone"), POLR, 1) == {"before": 1, "deleted": 1}


def test_nothing_was_imported(cluster):
    cluster.add(WG, "policyreports", report(1))
    done = clean(cluster, "--yes")
    assert table(done, POLR) == {"found": 1, "stay": 1}
    assert left(cluster) == ["r-000001"] and not cluster.asked(".*", "DELETE")


def test_changed_right_before(moved):
    """kube-apiserver does not delete an object that has changed since the database's answer; the object stays."""
    pages = []

    def change(plural, _):
        pages.append(plural)
        if pages.count("policyreports") == 2:
            moved.page_hook = None
            moved.add(WG, "policyreports", report(3, results=1))
    moved.page_hook = change
    done = clean(moved, "--yes", f"--kinds={POLR}", code=1)
    assert "shop/r-000003 is not deleted: the object has changed meanwhile" in done.stderr
    assert table(done, POLR, 1) == {"before": 6, "deleted": 5, "failed": 1, "left": 1}
    assert left(moved) == ["r-000003"]


def test_through_another_version(moved):
    """While proxies serve one version, another version of the CRD reaches etcd; without one the error has advice."""
    moved.register(f"{WG}/v1alpha2")
    done = clean(moved, "--yes", f"--kinds={POLR}", code=1)
    assert "has no other version: etcd cannot be reached" in done.stderr and "apiservice disable" in done.stderr
    moved.register(f"{WG}/v1beta1", service=None)
    done = clean(moved, "--yes", f"--kinds={POLR}")
    assert table(done, POLR, 1) == {"before": 6, "deleted": 6}
    assert ["/v1beta1/" in entry.path for entry in moved.asked(".*", "DELETE")] == [True] * 6
    assert clean(moved, "--version=v1beta9", f"--kinds={POLR}", code=1).stderr.count("etcd cannot be reached") == 1


def test_group_without_crds(moved):
    """A group that only the proxies serve has no objects in etcd; this is no failure."""
    moved.register("reports.kyverno.io/v1")
    for key in [key for key in moved.stored if key[0] == "reports.kyverno.io"]:
        del moved.stored[key]
    done = clean(moved, "--yes")
    assert "etcd cannot be reached" not in done.stderr
    assert table(done, POLR, 1) == {"before": 6, "deleted": 6}


def test_confirmation(moved):
    """Without --yes the user has to type the name of the group at a terminal."""
    assert "give --yes" in clean(moved, code=2).stderr
    assert len(left(moved)) == 6

    def typed(*lines):
        keyboard, terminal = pty.openpty()
        with subprocess.Popen(command(moved, "cleanup"), stdin=terminal, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as process:
            os.close(terminal)
            os.write(keyboard, "".join(f"{line}\n" for line in lines).encode())
            out, err = process.communicate(timeout=60)
        os.close(keyboard)
        return process.returncode, out, err
    code, _, err = typed("no", "yes")
    assert code == 1 and "no object of wgpolicyk8s.io is deleted" in err and len(left(moved)) == 6
    code, _, err = typed("wrong", WG)
    assert code == 0 and left(moved) == [] and moved.count(OPEN, "reports") == 1


def test_rights(moved):
    """Forbidden lists and deletions are named; without metrics only the size is missing."""
    moved.forbidden = "DELETE .*/r-000002$"
    done = clean(moved, "--yes", code=1)
    assert "shop/r-000002 is not deleted: DELETE" in done.stderr and "403" in done.stderr
    assert left(moved) == ["r-000002"]
    moved.forbidden = "GET /metrics"
    done = clean(moved, "--yes")
    assert "metrics cannot be read" in done.stderr and left(moved) == []
    moved.forbidden = "GET .*/policyreports[?]"
    assert "cannot GET" in clean(moved, "--yes", code=1).stderr


def test_interrupted(moved):
    """All objects are deleted although a list expires and the server throttles."""
    for number in range(10, 300):
        moved.add(WG, "policyreports", report(number, results=1))
    load(moved)
    moved.throttled = 1
    moved.expire_after, moved.offer_token = 100, False
    done = clean(moved, "--yes", "--page-size=50", f"--kinds={POLR}")
    assert table(done, POLR, 1) == {"before": 296, "deleted": 296}
    assert left(moved) == []
