"""
Kyverno's own reports-controller, as Kyverno's chart starts it: its service account, roles, configuration and arguments.

Chart and CustomResourceDefinitions come with the Go module that the program is built from.
"""

import json
import os
import pathlib
import shutil
import signal

import yaml

from client import run
from control_plane import Process, programs

TOP = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "kube-reports"
HELM = CACHE / "helm-v3.22.0" / "helm"
NAMESPACE = "kyverno"
PROGRAM = "kyverno-reports-controller"


def source():
    """Returns the directory of the Go module."""
    listed = run(["go", "list", "-m", "-f", "{{.Dir}}", "github.com/kyverno/kyverno"],
                 cwd=TOP / "regress" / "cluster" / "kyverno")
    return pathlib.Path(listed.out.strip())


class Kyverno:
    """The chart's objects in a control plane; of its programs, only the reports-controller runs, after start()."""

    def __init__(self, plane, free_port, *values):
        self.plane = plane
        self.directory = pathlib.Path(plane.directory) / "kyverno"
        self.free_port = free_port
        self.process = None
        self.starts = 0
        shutil.copytree(source() / "charts" / "kyverno", self.directory / "chart", copy_function=shutil.copyfile)
        for path in (self.directory / "chart").rglob("*"):
            path.chmod(0o755)
        # Remove dependencies on other charts, which are not available here; only the definitions that follow are needed
        # of them.
        described = self.directory / "chart" / "Chart.yaml"
        chart = yaml.safe_load(described.read_text(encoding="utf-8"))
        chart["dependencies"] = [entry for entry in chart["dependencies"] if not entry.get("repository")]
        described.write_text(yaml.safe_dump(chart), encoding="utf-8")
        (self.directory / "chart" / "Chart.lock").unlink()
        crds = source() / "config" / "crds" / "policies.kyverno.io"
        definitions = [document for file in sorted(crds.glob("*.yaml"))
                       for document in yaml.safe_load_all(file.read_text(encoding="utf-8"))]
        rendered = run([str(HELM), "template", "kyverno", str(self.directory / "chart"), "--namespace", NAMESPACE,
                        "--kube-version", "1.36.0", "--no-hooks", "--set", "reportsController.replicas=1",
                        *(word for value in values for word in ("--set", value))],
                       env={**os.environ, **{f"HELM_{name}_HOME": f"{self.directory}/helm-{name}"
                                             for name in ("CACHE", "CONFIG", "DATA")}})
        self.objects = [each for each in yaml.safe_load_all(rendered.out) if each]
        self.controller = next(each for each in self.objects if each["kind"] == "Deployment"
                               and each["metadata"]["name"] == PROGRAM)["spec"]["template"]["spec"]
        kinds = ("CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "ConfigMap", "Role", "RoleBinding",
                 "ServiceAccount")
        self._apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, *definitions,
                    *(each for kind in kinds for each in self.objects if each["kind"] == kind))

    def _apply(self, *documents):
        """Applies on the server: kubectl's annotation of the last configuration would be too long here."""
        self.plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-",
                           input=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(documents)}))

    def start(self):
        """Runs the program with the container's arguments and environment, as a pod of its own name."""
        container = self.controller["containers"][0]
        given = {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}
        self.starts += 1
        kubeconfig = self.plane.write_kubeconfig(
            PROGRAM, token=self.plane.token(NAMESPACE, self.controller["serviceAccountName"]))
        self.process = Process(
            f"{PROGRAM}-{self.starts}",
            [programs()[PROGRAM], *(argument for argument in container["args"]
                                    if not argument.startswith("--metricsPort")),
             "--disableLogColor=true", f"--metricsPort={self.free_port()}", f"--kubeconfig={kubeconfig}"],
            self.directory, {**given, "KYVERNO_NAMESPACE": NAMESPACE, "KYVERNO_POD_NAME": f"controller-{self.starts}",
                             "TUF_ROOT": f"{self.directory}/sigstore"})
        return self.process

    def stop(self, with_signal=signal.SIGTERM):
        if self.process is not None:
            self.process.stop(with_signal)
