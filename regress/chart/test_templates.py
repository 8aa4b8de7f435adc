"""Both helms render every template with every row of the matrix, and the schemas of Kubernetes accept it."""

import collections
import functools
import json
import os
import re
import subprocess

import kubernetes_validate
import pytest
import yaml

from conftest import CHART, KUBE_VERSION, TOP, containers, helm, named, of_kind, pods, render
from matrix import MATRIX

every_values = pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
# Kinds of operators; Kubernetes itself has no schemas of them.
WITH_TYPES = {"cert-manager.io/v1", "monitoring.coreos.com/v1"}
FOREIGN = {*WITH_TYPES, "postgresql.cnpg.io/v1"}
OLDEST = "1.25.0"
GENERATED = ("tls.crt", "tls.key", "ca.crt", "password", "kube-reports/expires", "checksum/password",
             "checksum/superuser")


# Cached, because each call would read the definitions of that version again.
kubernetes_validate.utils.schema_contents = functools.lru_cache(maxsize=None)(
    kubernetes_validate.utils.schema_contents
)


def schema_versions():
    return [OLDEST, KUBE_VERSION, kubernetes_validate.latest_version()]


def test_lint(binary):
    said = helm("lint", CHART, "--strict", "--kube-version", KUBE_VERSION, binary=binary).stdout
    assert "0 chart(s) failed" in said
    assert "[WARNING]" not in said and "[ERROR]" not in said


def test_versions():
    """appVersion is the version of the extension; the schemas of the oldest supported Kubernetes are tested."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    control = (TOP / "extension" / "kube_reports.control").read_text()
    assert chart["appVersion"] == re.search(r"default_version = '(.*)'", control)[1]
    assert chart["kubeVersion"] == f">={OLDEST}-0"
    assert helm("template", "kube-reports", CHART, "--kube-version", "1.24.0", check=False).returncode != 0


@every_values
def test_schemas(values):
    for version in schema_versions():
        for one in render(values, kube_version=version):
            if one["apiVersion"] in FOREIGN:
                continue
            where = f"{one['kind']} {one['metadata']['name']} in Kubernetes {version}"
            try:
                kubernetes_validate.validate(one, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                pytest.fail(f"{where}: {'.'.join(map(str, error.path))}: {error.message}")
            except kubernetes_validate.SchemaNotFoundError:
                pytest.fail(f"{where}: no such kind")


def without_generated(one):
    """Returns the object without passwords, certificates and names made from them, which are new each time."""
    if isinstance(one, dict):
        return {key: "" if key in GENERATED else without_generated(value) for key, value in one.items()}
    if isinstance(one, list):
        return [without_generated(part) for part in one]
    return one


@every_values
def test_both_helms(values):
    """Helm 4 and Helm 3 make the same objects."""

    def by_name(objects):
        return {
            (one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]): without_generated(one)
            for one in objects
        }

    assert by_name(render(values, "helm3")) == by_name(render(values, "helm4"))


def read_by_operators(objects):
    """Returns the fields of these objects that the types of operators do not have."""
    return subprocess.run([os.environ["FOREIGN_TYPES"]], input="".join(json.dumps(one) + "\n" for one in objects),
                          capture_output=True, text=True, timeout=60, check=False)


@every_values
def test_types_of_operators(values):
    """cert-manager's and the Prometheus operator's types have each field; CloudNativePG has no Go module of types."""
    foreign = [one for one in render(values) if one["apiVersion"] in WITH_TYPES]
    done = read_by_operators(foreign)
    assert done.returncode == 0 and done.stdout == f"{len(foreign)} objects, 0 failed\n", done.stdout + done.stderr


def test_types_of_operators_refuse():
    """The program finds a field with a wrong name, a value of a wrong type, and an unknown kind."""
    issuer = {"apiVersion": "cert-manager.io/v1", "kind": "Issuer", "metadata": {"name": "one"},
              "spec": {"selfSigned": {}}}
    wrong = [{**issuer, "spec": {"selfsigned": {}}}, {**issuer, "spec": []}, {**issuer, "kind": "Other"}]
    done = read_by_operators([issuer, *wrong])
    assert done.returncode == 1 and done.stdout.endswith("4 objects, 3 failed\n"), done.stdout + done.stderr


@every_values
def test_references(values):
    """Names are unique; an object to which another one refers exists, or the values name it."""
    objects = render(values)
    names = collections.Counter(
        (one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in objects
    )
    assert [name for name, count in names.items() if count > 1] == []
    there = {(kind, name) for kind, _, name in names}
    given = repr(values)
    # cert-manager and CloudNativePG make these.
    there |= {("Secret", one["spec"]["secretName"]) for one in of_kind(objects, "Certificate")}
    there |= {
        ("Secret", f"{one['metadata']['name']}-{end}") for one in of_kind(objects, "Cluster") for end in ("ca", "app")
    }

    def needs(kind, name):
        assert (kind, name) in there or f"'{name}'" in given, f"there is no {kind} {name}"

    for owner, pod in pods(objects):
        spec = pod["spec"]
        if spec.get("serviceAccountName"):
            needs("ServiceAccount", spec["serviceAccountName"])
        volumes = {volume["name"] for volume in spec.get("volumes", [])}
        volumes |= {claim["metadata"]["name"] for claim in owner["spec"].get("volumeClaimTemplates", [])}
        for volume in spec.get("volumes", []):
            if "secret" in volume:
                needs("Secret", volume["secret"]["secretName"])
            if "configMap" in volume:
                needs("ConfigMap", volume["configMap"]["name"])
        for container in containers(pod):
            assert {mount["name"] for mount in container.get("volumeMounts", [])} <= volumes
            for variable in container.get("env", []):
                reference = variable.get("valueFrom", {}).get("secretKeyRef")
                if reference:
                    needs("Secret", reference["name"])
    for binding in of_kind(objects, "RoleBinding", "ClusterRoleBinding"):
        for subject in binding["subjects"]:
            needs(subject["kind"], subject["name"])


@every_values
def test_selectors(values):
    """Each selector of pods finds the pods of one object."""
    objects = render(values)
    labels = [pod["metadata"]["labels"] for _, pod in pods(objects)]

    def found(selector):
        return sum(selector.items() <= one.items() for one in labels)

    for one in of_kind(objects, "Service"):
        assert found(one["spec"]["selector"]) == 1, one["metadata"]["name"]
    for one in of_kind(objects, "Deployment", "StatefulSet", "PodDisruptionBudget"):
        assert found(one["spec"]["selector"]["matchLabels"]) == 1, one["metadata"]["name"]
    for one in of_kind(objects, "NetworkPolicy"):
        assert found(one["spec"]["podSelector"]["matchLabels"]) == 1, one["metadata"]["name"]
    services = [one["metadata"]["labels"] for one in of_kind(objects, "Service")]
    for one in of_kind(objects, "ServiceMonitor"):
        selector = one["spec"]["selector"]["matchLabels"]
        assert sum(selector.items() <= labels.items() for labels in services) == 1


@every_values
def test_namespaces(values):
    """Namespaced objects name their namespace; cluster-scoped objects have none."""
    clusterwide = {"ClusterRole", "ClusterRoleBinding", "APIService", "FlowSchema"}
    for one in render(values):
        if one["metadata"]["name"] in ("kube-reports-more", "text"):
            continue
        assert ("namespace" in one["metadata"]) == (one["kind"] not in clusterwide), one["metadata"]["name"]


@every_values
def test_common_labels(values):
    for one in render(values):
        if one["metadata"]["name"] in ("kube-reports-more", "text"):
            continue
        assert (values.get("commonLabels") or {}).items() <= one["metadata"]["labels"].items()
        assert (values.get("commonAnnotations") or {}).items() <= one["metadata"].get("annotations", {}).items()


@every_values
def test_never_unverified(values):
    for one in render(values):
        assert "insecureSkipTLSVerify" not in repr(one)


def test_apiservices():
    """Each enabled group can have an APIService object; kube-apiserver does not change it when CRDs have the group."""
    objects = render({"apiServices": {"method": "objects", "additionalGroups": ["aquasecurity.github.io/v1alpha1"]}})
    services = of_kind(objects, "APIService")
    assert [one["metadata"]["name"] for one in services] == [
        "v1alpha1.aquasecurity.github.io",
        "v1alpha1.openreports.io",
        "v1.reports.kyverno.io",
        "v1alpha2.wgpolicyk8s.io",
    ]
    for one in services:
        assert one["metadata"]["labels"]["kube-aggregator.kubernetes.io/automanaged"] == "false"
        assert one["metadata"]["name"] == f"{one['spec']['version']}.{one['spec']['group']}"
        assert one["spec"]["service"] == {"namespace": "kube-reports", "name": "kube-reports", "port": 443}
    assert [one for one in objects if "hook" in repr(one["metadata"].get("annotations"))] == []


def test_one_wait_for_the_database():
    """The setup is not a hook: helm --wait would wait for proxies, which wait for the setup; each release has a Job."""

    def job(values):
        found = [
            one
            for one in of_kind(render(values), "Job")
            if one["metadata"]["labels"]["app.kubernetes.io/component"] == "setup"
        ]
        assert len(found) == 1
        assert "annotations" not in found[0]["metadata"]
        return found[0]["metadata"]["name"]

    assert job({}) == job({"replicas": 3})
    assert job({}) != job({"database": {"name": "other"}})
    assert job({}) != job({"image": {"tag": "other"}})
    # helm template always renders revision 1.
    assert ".Release.Revision" in (CHART / "templates" / "setup.yaml").read_text()


def test_shutdown_has_time():
    """A pod lives longer than the proxy takes to end."""
    for delay, timeout, least in (("10s", "30s", 40), ("1m30s", "1m", 150), ("0s", "5s", 5)):
        spec = named(
            render({"proxy": {"shutdownDelay": delay, "shutdownTimeout": timeout}}), "Deployment", "kube-reports"
        )["spec"]["template"]["spec"]
        assert least < spec["terminationGracePeriodSeconds"] <= least + 30


def test_in_the_place_of_reports_server():
    """The Service for which Kyverno's chart waits has endpoints in its namespace: the endpoints of the proxies."""
    objects = render({"fullnameOverride": "kyverno-reports-server"}, release="kyverno")
    service = named(objects, "Service", "kyverno-reports-server")
    assert service["metadata"]["namespace"] == "kyverno"
    labels = named(objects, "Deployment", "kyverno-reports-server")["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()


def test_notes():
    """The notes that helm prints after an installation fit the values."""

    def notes(values):
        # Helm 3 has no --kube-version here, and assumes 1.20.
        return helm(
            "install",
            "kube-reports",
            CHART,
            "--dry-run=client",
            "--namespace",
            "kube-reports",
            *values,
            binary="helm4",
        ).stdout.partition("NOTES:")[2]

    assert "wgpolicyk8s.io/v1alpha2" in notes([])
    assert "PersistentVolumeClaim data-kube-reports-database-0" in notes([])
    assert "database.sql" in notes(
        ["--set", "database.type=external,database.secret.name=a,database.setup.enabled=false"]
    )
    assert "One replica" in notes(["--set", "replicas=1"])
