"""Secrets that the chart makes once are kept: helm asks a stand-in for kube-apiserver which objects exist."""

import base64
import contextlib
import datetime
import http.server
import json
import re
import subprocess
import threading
import time

import pytest

from conftest import CHART, HELMS, KUBE_VERSION, helm, named, of_kind, yaml_documents

SECRETS = "/api/v1/namespaces/kube-reports/secrets"
# Helm 4 asks discovery for the resource of each kind.
KINDS = {
    "v1": ["Secret", "Namespace", "ServiceAccount", "ConfigMap", "Service"],
    "apiregistration.k8s.io/v1": ["APIService"],
    "apps/v1": ["Deployment", "StatefulSet"],
    "batch/v1": ["Job"],
    "postgresql.cnpg.io/v1": ["Cluster"],
    "policy/v1": ["PodDisruptionBudget"],
    "networking.k8s.io/v1": ["NetworkPolicy"],
    "flowcontrol.apiserver.k8s.io/v1": ["FlowSchema"],
    "rbac.authorization.k8s.io/v1": ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"],
}


def discovery():
    groups = []
    for version, kinds in KINDS.items():
        resources = [
            {
                "name": f"{kind.lower().removesuffix('y')}{'ies' if kind.endswith('y') else 's'}",
                "singularName": kind.lower(),
                "namespaced": not kind.startswith("ClusterRole") and kind not in (
                    "APIService", "Namespace", "FlowSchema"),
                "kind": kind,
                "verbs": ["get", "list"],
            }
            for kind in kinds
        ]
        yield f"/api{'s' if '/' in version else ''}/{version}", {
            "kind": "APIResourceList",
            "groupVersion": version,
            "resources": resources,
        }
        if "/" in version:
            named_version = {"groupVersion": version, "version": "v1"}
            groups.append(
                {"name": version.partition("/")[0], "versions": [named_version], "preferredVersion": named_version}
            )
    yield "/apis", {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


FIXED = {
    "/version": {"major": "1", "minor": "31", "gitVersion": "v1.31.0"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/api/v1/namespaces/kube-system": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}},
    **dict(discovery()),
}


class Cluster:
    """A stand-in for kube-apiserver: serves Secrets by their names, over plain HTTP."""

    def __init__(self, directory):
        self.secrets = {}
        self.others = {}
        answers = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                path = self.path.partition("?")[0]
                document = (FIXED.get(path) or answers.others.get(path)
                            or answers.secrets.get(path.removeprefix(f"{SECRETS}/")))
                code = 200 if document else 404
                text = json.dumps(
                    document
                    or {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
                ).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.kubeconfig = directory / "kubeconfig"
        self.kubeconfig.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "c",
                    "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.server.server_port}"}}],
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                    "users": [{"name": "u", "user": {}}],
                }
            )
        )

    def render(self, binary, *values, check=True):
        """Renders as helm upgrade would; returns the finished process."""
        return helm("template", "kube-reports", CHART, "--namespace", "kube-reports", "--dry-run=server",
                    "--kube-version", KUBE_VERSION, "--disable-openapi-validation", "--kubeconfig", self.kubeconfig,
                    *values, binary=binary, check=check)

    def upgrade(self, binary, *values):
        """Renders as helm upgrade would, and stores the rendered Secrets."""
        objects = yaml_documents(self.render(binary, *values).stdout)
        self.secrets = {one["metadata"]["name"]: one for one in of_kind(objects, "Secret")}
        for one in self.secrets.values():
            # Helm recognizes the objects of a release by these.
            one["metadata"].setdefault("annotations", {}).update(
                {"meta.helm.sh/release-name": "kube-reports", "meta.helm.sh/release-namespace": "kube-reports"}
            )
        return objects

    def data(self, name):
        return {key: base64.b64decode(value).decode() for key, value in self.secrets[name]["data"].items()}


@pytest.fixture(params=HELMS)
def cluster(request, tmp_path):
    one = Cluster(tmp_path)
    one.binary = request.param
    yield one
    one.server.shutdown()
    one.server.server_close()


def certificates(text):
    return re.findall(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", text, re.S)


def verify(directory, files, *options):
    """Returns the output of openssl verify for a certificate, with the CAs beside it."""
    (directory / "ca.crt").write_text(files["ca.crt"])
    (directory / "tls.crt").write_text(files["tls.crt"])
    return subprocess.run(
        ["openssl", "verify", *options, "-CAfile", directory / "ca.crt", directory / "tls.crt"],
        capture_output=True,
        text=True,
        check=False,
    )


def test_certificate_and_passwords_are_kept(cluster):
    cluster.upgrade(cluster.binary)
    first = cluster.secrets
    assert len(first) == 4
    cluster.upgrade(cluster.binary, "--set", "replicas=3")
    assert cluster.secrets == first


def test_without_a_cluster_they_are_new():
    def secrets():
        return {
            one["metadata"]["name"]: one["data"]
            for one in of_kind(
                yaml_documents(helm("template", "kube-reports", CHART, "--kube-version", KUBE_VERSION).stdout),
                "Secret",
            )
        }

    first, second = secrets(), secrets()
    assert set(first) == set(second)
    assert all(first[name] != second[name] for name in first)


def test_certificate_is_good(cluster, tmp_path):
    """The CA verifies the certificate for the Service's name (kube-apiserver), and the database's (libpq)."""
    cluster.upgrade(cluster.binary, "--set", "certificate.days=100")
    for name, host in (
        ("kube-reports-tls", "kube-reports.kube-reports.svc"),
        ("kube-reports-database-tls", "kube-reports-database.kube-reports.svc"),
    ):
        files = cluster.data(name)
        done = verify(tmp_path, files, "-purpose", "sslserver", "-verify_hostname", host)
        assert done.returncode == 0, done.stderr
        assert verify(tmp_path, files, "-verify_hostname", "other.kube-reports.svc").returncode != 0
        key = subprocess.run(
            ["openssl", "pkey", "-pubout"], input=files["tls.key"], capture_output=True, text=True, check=True
        ).stdout
        certified = subprocess.run(
            ["openssl", "x509", "-pubkey", "-noout", "-enddate"],
            input=files["tls.crt"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert key in certified
        ends = datetime.datetime.strptime(re.search("notAfter=(.*) GMT", certified)[1], "%b %d %H:%M:%S %Y")
        assert 99 <= (ends - datetime.datetime.utcnow()).days <= 100
        assert (
            abs(
                int(cluster.secrets[name]["metadata"]["annotations"]["kube-reports/expires"])
                - time.time()
                - 100 * 86400
            )
            < 600
        )


def test_certificate_is_renewed_in_time(cluster, tmp_path):
    """A certificate is renewed in the last third of its time; the old CA stays, so that older proxies are trusted."""
    cluster.upgrade(cluster.binary)
    days = 1095 * 86400
    for left, renewed in ((days / 3 + 86400, False), (days / 3 - 86400, True)):
        before = cluster.data("kube-reports-tls")
        for name in ("kube-reports-tls", "kube-reports-database-tls"):
            cluster.secrets[name]["metadata"]["annotations"]["kube-reports/expires"] = str(int(time.time() + left))
        cluster.upgrade(cluster.binary)
        after = cluster.data("kube-reports-tls")
        assert (after["tls.crt"] != before["tls.crt"]) is renewed
    assert certificates(after["ca.crt"])[1:] == certificates(before["ca.crt"])[:1]
    assert verify(tmp_path, after).returncode == 0
    assert verify(tmp_path, {**before, "ca.crt": after["ca.crt"]}).returncode == 0
    # The next renewal removes the old CA.
    cluster.secrets["kube-reports-tls"]["metadata"]["annotations"]["kube-reports/expires"] = "1"
    cluster.upgrade(cluster.binary)
    assert len(certificates(cluster.data("kube-reports-tls")["ca.crt"])) == 2


def test_lost_secret(cluster):
    """When one of the two Secrets is lost, both are made again, because they have the same CA."""
    cluster.upgrade(cluster.binary)
    before = cluster.data("kube-reports-tls")
    del cluster.secrets["kube-reports-database-tls"]
    with contextlib.suppress(KeyError):
        del cluster.secrets["kube-reports-database-proxy"]
    objects = cluster.upgrade(cluster.binary)
    assert cluster.data("kube-reports-tls")["tls.crt"] != before["tls.crt"]
    assert (
        certificates(cluster.data("kube-reports-tls")["ca.crt"])[0]
        == certificates(cluster.data("kube-reports-database-tls")["ca.crt"])[0]
    )
    assert named(objects, "Secret", "kube-reports-database-proxy")


@pytest.mark.parametrize("made, kind, api, plural", [
    ("bundled", "StatefulSet", "apps/v1", "statefulsets"),
    ("cloudnative-pg", "Cluster", "postgresql.cnpg.io/v1", "clusters"),
])
def test_database_is_not_left_by_mistake(cluster, made, kind, api, plural):
    """A change of database.type does not move reports: the upgrade is refused unless a value permits that."""
    name = "kube-reports-database"
    cluster.others[f"/apis/{api}/namespaces/kube-reports/{plural}/{name}"] = {
        "apiVersion": api, "kind": kind, "metadata": {
            "name": name, "namespace": "kube-reports", "labels": {"app.kubernetes.io/managed-by": "Helm"},
            "annotations": {"meta.helm.sh/release-name": "kube-reports",
                            "meta.helm.sh/release-namespace": "kube-reports"}}}
    cluster.upgrade(cluster.binary, "--set", f"database.type={made}", "--api-versions", "postgresql.cnpg.io/v1")
    other = ("--set", "database.type=external,database.secret.name=db,database.setup.enabled=false",
             "--api-versions", "postgresql.cnpg.io/v1")
    done = cluster.render(cluster.binary, *other, check=False)
    assert done.returncode != 0 and f"has a database of database.type {made}" in done.stderr, done.stderr
    cluster.upgrade(cluster.binary, *other, "--set", "database.leaveExisting=true")
    # Only an existing object is a reason to refuse.
    cluster.others.clear()
    cluster.upgrade(cluster.binary, *other)


def test_job_that_was_left_does_not_count(cluster):
    """When a failed upgrade has left its Job, the same revision of a later release sets the database up again"""
    def job():
        (name,) = (one["metadata"]["name"] for one in of_kind(cluster.upgrade(cluster.binary), "Job")
                   if one["metadata"]["name"].startswith("kube-reports-setup-"))
        return name
    cluster.upgrade(cluster.binary)
    name = job()
    assert job() == name
    cluster.others[f"/apis/batch/v1/namespaces/kube-reports/jobs/{name}"] = {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "kube-reports", "uid": "1"}}
    other = job()
    assert other != name and job() == other


def api_service(group, service):
    """Returns an APIService that leads to a Service, NAMESPACE/NAME, or to none: then kube-apiserver itself answers"""
    spec = {"group": group, "version": "v1alpha1", "groupPriorityMinimum": 1000, "versionPriority": 100}
    if service:
        spec["service"] = dict(zip(("namespace", "name", "port"), (*service.split("/"), 443)))
    return {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": f"v1alpha1.{group}"}, "spec": spec}


def handed_back(objects):
    """Returns which groups of test_removed_group() an upgrade and an uninstallation hand back, and which names the
    role has"""
    def groups(one):
        pod = one["spec"]["template"]["spec"]
        (args,) = [container["args"] for container in (*pod.get("initContainers", []), *pod["containers"])
                   if container["command"][2] == "disable"]
        return [word for word in args if word.endswith(".example.com/v1alpha1")]
    hooks = {one["metadata"]["annotations"]["helm.sh/hook"].partition(",")[0]: groups(one)
             for one in of_kind(objects, "Job") if "helm.sh/hook" in one["metadata"].get("annotations", {})}
    names = named(objects, "ClusterRole", "kube-reports-takeover")["rules"][0]["resourceNames"]
    return hooks["post-install"], hooks["pre-delete"], [name for name in names if name.endswith(".example.com")]


def test_removed_group(cluster):
    """A group that apiServices.additionalGroups no longer names is handed back, and no group of another Service"""
    path = "/apis/apiregistration.k8s.io/v1/apiservices"
    services = {"removed": "kube-reports/kube-reports", "kept": "kube-reports/kube-reports", "local": None,
                "elsewhere": "other/kube-reports", "beside": "kube-reports/kube-reports-2"}
    cluster.others[path] = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIServiceList", "metadata": {},
                            "items": [api_service(f"{name}.example.com", services[name]) for name in services]}
    kept, removed = "kept.example.com/v1alpha1", "removed.example.com/v1alpha1"
    both = ["v1alpha1.kept.example.com", "v1alpha1.removed.example.com"]
    values = ("--set", f"apiServices.additionalGroups={{{kept},{removed}}}")
    assert handed_back(cluster.upgrade(cluster.binary, *values)) == ([], [kept, removed], both)
    values = ("--set", f"apiServices.additionalGroups={{{kept}}}")
    assert handed_back(cluster.upgrade(cluster.binary, *values)) == ([removed], [kept, removed], both)
    # What was handed back is forgotten.
    cluster.others.clear()
    assert handed_back(cluster.upgrade(cluster.binary, *values)) == ([], [kept], both[:1])
