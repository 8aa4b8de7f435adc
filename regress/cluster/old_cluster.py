"""A cluster that already has the CRDs, a report in etcd, and a proxy to which no APIService leads yet."""

import subprocess

from client import POLR, path_of, report, until
from conftest import TOP, Cluster
from control_plane import API_SERVICES, NAMESPACE, SERVICE

GROUP_VERSION = "wgpolicyk8s.io/v1alpha2"
NAME = "v1alpha2.wgpolicyk8s.io"
CRDS = [TOP / "sql" / "crds" / f"{name}.json" for name in (
    "policyreports.wgpolicyk8s.io", "clusterpolicyreports.wgpolicyk8s.io", "ephemeralreports.reports.kyverno.io",
    "clusterephemeralreports.reports.kyverno.io")]


def old_clusters(**control_plane):
    """Yields such a cluster, as the body of a fixture."""
    own = Cluster(**control_plane)
    try:
        for file in CRDS:
            own.plane.kubectl("apply", "--server-side", "-f", str(file))
        own.plane.wait_available(GROUP_VERSION)
        api = own.plane.api()
        until(lambda: api.post(path_of(POLR, "default"), report("in-etcd", "default")).code in (201, 409), 60,
              "a report in etcd")
        own.grant()
        own.plane.service()
        own.first = own.proxy()
        yield own
    finally:
        own.end()


def api_service(cluster):
    return cluster.plane.api().get(f"{API_SERVICES}/{NAME}").json


def command(cluster, *arguments, check=True):
    """Runs kube-reports-proxy with a command, as an administrator."""
    binary = f"{cluster.stack.database.directory}/dest/usr/bin/kube-reports-proxy"
    done = subprocess.run([binary, *arguments, f"--kubeconfig={cluster.plane.kubeconfig}"],
                          capture_output=True, text=True,
                          timeout=180, check=False)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def enable(cluster, *more, check=True, group_version=GROUP_VERSION):
    return command(cluster, "apiservice", "enable", group_version,
                   f"--service={NAMESPACE}/{SERVICE}:{cluster.first.port}",
                   f"--ca-file={cluster.stack.pki}/ca.crt",
                   f"--database={cluster.stack.database.connection('kube_reports_proxy')}",
                   "--timeout=90s", *more, check=check)


def disable(cluster, group_version=GROUP_VERSION):
    return command(cluster, "apiservice", "disable", group_version, f"--service={NAMESPACE}/{SERVICE}")


def names(cluster):
    """Returns the names of reports that a client sees, or None while the group is not served."""
    answer = cluster.plane.api().get(path_of(POLR, "default"))
    return [item["metadata"]["name"] for item in answer.json["items"]] if answer.code == 200 else None
