"""The commands of a page of docs/, and a shell that runs them as a person would, at a release of the chart."""

import os
import pathlib
import re
import shlex
import subprocess
import sys

from conftest import TOP
from control_plane import programs


def blocks(page, section):
    """Returns the commands of a section of a page, block by block."""
    text = (TOP / "docs" / page).read_text(encoding="utf-8")
    (part,) = re.findall(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    return [block for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", part, re.M | re.S) if not language]


class Shell:
    """A shell of a person with helm, kubectl and psql, in a checkout."""

    def __init__(self, release, directory):
        self.release = release
        self.directory = pathlib.Path(directory)
        programs_here = self.directory / "bin"
        programs_here.mkdir()
        proxy = f"{release.database.directory}/dest/usr/bin/kube-reports-proxy"
        for name, file in (("helm", release.helm), ("kubectl", programs()["kubectl"]), ("python3", sys.executable),
                           ("kube-reports-proxy", proxy)):
            (programs_here / name).symlink_to(file)
        (self.directory / "helm").symlink_to(TOP / "helm")
        self.environment = {
            **os.environ, "PATH": f"{programs_here}:{os.environ['PATH']}", "KUBECONFIG": release.plane.kubeconfig,
            **{f"HELM_{name}_HOME": f"{release.plane.directory}/helm-{name}" for name in ("CACHE", "CONFIG", "DATA")}}

    def enters(self, pod, container):
        """From now on, kubectl exec runs commands in this container, like a kubelet; other commands go to kubectl."""
        here = self.release.node.pod(pod)
        variables = [f"{name}={value}" for name, value in here.environments[container].items()]
        kubectl = self.directory / "bin" / "kubectl"
        real = kubectl.resolve()
        kubectl.unlink()
        kubectl.write_text(f"""#!/bin/bash
if [[ " $* " == *" exec {pod} "* ]]; then
	while [ "$1" != -- ]; do shift; done
	exec env -i {shlex.join(variables)} {shlex.join(here.enter(container, []))} "${{@:2}}"
fi
exec {real} "$@"
""", encoding="utf-8")
        kubectl.chmod(0o755)

    def enters_database(self, pod):
        """From now on, psql is that of the bundled database, as the extension's owner."""
        here = self.release.node.pod(pod)
        variables = [f"{name}={value}" for name, value in here.environments["postgresql"].items()]
        program = self.directory / "bin" / "psql"
        program.write_text(f"""#!/bin/bash
exec env -i {shlex.join(variables)} PGDATABASE=kube_reports PGOPTIONS='-c role=kube_reports_owner' \\
	{shlex.join(here.enter("postgresql", ["psql"]))} -X "$@"
""", encoding="utf-8")
        program.chmod(0o755)

    def run(self, text, **environment):
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], capture_output=True, text=True, timeout=400,
                              check=False, cwd=self.directory, env={**self.environment, **environment})
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}\n{self.release.node.logs()}"
        return done.stdout
