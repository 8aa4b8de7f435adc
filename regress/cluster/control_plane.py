"""
A control plane on this machine: etcd, kube-apiserver and kube-controller-manager, as .ci/cluster-programs builds them.

There is no node: pods are objects that nothing runs.  An APIService reaches a proxy of this machine by a Service of
type ExternalName,
localhost, with the proxy's port in the APIService.
"""

import base64
import json
import os
import pathlib
import signal
import subprocess
import urllib.request

from client import Api, run, until

TOP = pathlib.Path(__file__).resolve().parents[2]
GROUP_VERSIONS = ("wgpolicyk8s.io/v1alpha2", "openreports.io/v1alpha1", "reports.kyverno.io/v1")
# Where the chart and docs/security.md put the proxy.
NAMESPACE = SERVICE = SERVICE_ACCOUNT = "kube-reports"
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


def programs():
    """The files of the programs by their names; those that are not built are left out."""
    lines = run([str(TOP / ".ci" / "cluster-programs"), "list"]).out.splitlines()
    return {name: file for name, file in (line.split() for line in lines) if os.access(file, os.X_OK)}


class Process:
    """A program that runs until it is stopped; its output goes to a log."""

    def __init__(self, name, command, directory, environment=None):
        self.name = name
        self.command = command
        self.environment = {**os.environ, **(environment or {})}
        self.log_path = pathlib.Path(directory) / f"{name}.log"
        self.process = None
        self.start()

    def start(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                                            env=self.environment, start_new_session=True)

    def check(self):
        assert self.process.poll() is None, f"{self.name} has ended: {self.tail()}"

    def tail(self, size=3000):
        return self.log_path.read_text(encoding="utf-8", errors="replace")[-size:]

    def memory(self, field="VmRSS"):
        """A memory counter of the process, in bytes."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":"))

    def stop(self, with_signal=signal.SIGTERM, seconds=60):
        if self.process is None or self.process.poll() is not None:
            return
        os.killpg(self.process.pid, with_signal)
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(seconds)


class Bearer(Api):
    """A user with a token, or with further headers."""

    def __init__(self, port, ca, token=None, **headers):
        super().__init__(port, ca)
        self.more = {**({"Authorization": f"Bearer {token}"} if token else {}), **headers}

    def request(self, method, path, body=None, headers=None, **more):
        return super().request(method, path, body, {**(headers or {}), **self.more}, **more)


class ControlPlane:
    """One in a directory; pki is a directory of .ci/stack.sh's certificates, whose CA becomes that of clients."""

    def __init__(self, directory, pki, stack_command, free_port, etcd_flags=("--unsafe-no-fsync",), apiserver_flags=(),
                 manager_flags=(), restricted=False):
        """restricted: every namespace takes only pods of the restricted Pod Security level."""
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True)
        self.pki = pki
        self.stack_command = stack_command
        self.programs = programs()
        self.port = free_port()
        self.etcd_port = free_port()
        self.free_port = free_port
        self.processes = []
        self._keys()
        self.etcd = self._store(etcd_flags)
        certificates = self.directory
        if restricted:
            apiserver_flags = [*apiserver_flags, f"--admission-control-config-file={self._restrict()}"]
        self.apiserver = self._run("kube-apiserver", [
            f"--etcd-servers=http://127.0.0.1:{self.etcd_port}", "--bind-address=127.0.0.1",
                                                      f"--secure-port={self.port}",
            f"--tls-cert-file={pki}/kube-apiserver.crt", f"--tls-private-key-file={pki}/kube-apiserver.key",
                                                      f"--client-ca-file={pki}/ca.crt",
            # No address of this machine can be in Endpoints but those of the loopback device, which are refused there.
            "--endpoint-reconciler-type=none", "--advertise-address=10.244.255.1",
                                                      "--service-cluster-ip-range=10.96.0.0/16",
                                                      "--authorization-mode=RBAC",
            f"--requestheader-client-ca-file={certificates}/front/ca.crt",
                                                      "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-uid-headers=X-Remote-Uid", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={certificates}/front/front-proxy-client.crt",
            f"--proxy-client-key-file={certificates}/front/front-proxy-client.key",
            "--service-account-issuer=https://kubernetes.default.svc",
                                                      f"--service-account-key-file={certificates}/tokens.key",
            f"--service-account-signing-key-file={certificates}/tokens.key", *apiserver_flags])
        self.kubeconfig = self.write_kubeconfig("admin", certificate=f"{pki}/admin")
        self.wait_ready()
        manager = self.write_kubeconfig("manager", certificate=f"{pki}/manager")
        self.controller_manager = self._run("kube-controller-manager", [
            f"--kubeconfig={manager}", f"--authentication-kubeconfig={manager}",
            f"--authorization-kubeconfig={manager}",
            "--bind-address=127.0.0.1", f"--secure-port={free_port()}", f"--cert-dir={self.directory}",
            "--leader-elect=false",
            "--use-service-account-credentials=true", f"--service-account-private-key-file={certificates}/tokens.key",
            f"--root-ca-file={pki}/ca.crt", "--concurrent-gc-syncs=5", *manager_flags])

    def _store(self, flags):
        """What kube-apiserver keeps its objects in, at etcd_port."""
        client, peer = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{self.free_port()}"
        return self._run("etcd", [
            f"--data-dir={self.directory}/etcd", f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}", "--log-level=warn", *flags])

    def _keys(self):
        self.stack_command("certificate", self.pki, "kube-apiserver", "/CN=kube-apiserver", "serverAuth",
                           "DNS:localhost,DNS:kubernetes.default.svc,IP:127.0.0.1")
        self.stack_command("certificate", self.pki, "manager",
                           "/O=system:masters/CN=system:kube-controller-manager", "clientAuth")
        # The front proxy has a CA of its own.
        self.stack_command("certificates", f"{self.directory}/front")
        self.stack_command("certificate", f"{self.directory}/front", "front-proxy-client",
                           "/CN=front-proxy-client", "clientAuth")
        run(["openssl", "genrsa", "-traditional", "-out", f"{self.directory}/tokens.key", "2048"])

    def _restrict(self):
        """What makes the restricted level that of namespaces without labels; the file."""
        path = self.directory / "admission.json"
        path.write_text(json.dumps({
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
            "plugins": [{"name": "PodSecurity", "configuration": {
                "apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration",
                "defaults": {"enforce": "restricted", "enforce-version": "latest"}}}]}), encoding="utf-8")
        return path

    def _run(self, name, flags):
        process = Process(name, [self.programs[name], *flags], self.directory)
        self.processes.append(process)
        return process

    def wait_ready(self, seconds=180):
        def ready():
            for process in self.processes:
                process.check()
            try:
                return self.api().get("/readyz").code == 200
            except OSError:
                return False
        until(ready, seconds, "readiness of kube-apiserver")
        return self

    def restart_apiserver(self, with_signal=signal.SIGTERM):
        self.apiserver.stop(with_signal)
        self.apiserver.start()
        self.wait_ready()

    def stop(self):
        for process in reversed(self.processes):
            process.stop(signal.SIGTERM if process is self.etcd else signal.SIGKILL)

    # --- clients ---

    def api(self, user="admin", keep=False):
        """A user with a client certificate of pki."""
        return Api(self.port, f"{self.pki}/ca.crt", f"{self.pki}/{user}", keep)

    def user(self, name, *groups):
        """A user of that name in groups, whose certificate is made."""
        subject = "".join(f"/O={group}" for group in groups) + f"/CN={name}"
        self.stack_command("certificate", self.pki, f"user-{name}", subject, "clientAuth")
        return self.api(f"user-{name}")

    def bearer(self, token, port=None):
        return Bearer(port or self.port, f"{self.pki}/ca.crt", token)

    def write_kubeconfig(self, name, certificate=None, token=None, namespace="default"):
        """A kubeconfig with everything in it; the file."""
        def data(path):
            return base64.b64encode(pathlib.Path(path).read_bytes()).decode()
        user = {"token": token} if token else {
            "client-certificate-data": data(certificate + ".crt"), "client-key-data": data(certificate + ".key")}
        path = f"{self.pki}/kubeconfig-{name}"
        with open(path, "w", encoding="utf-8") as file:
            json.dump({
                "apiVersion": "v1", "kind": "Config", "current-context": "it",
                "clusters": [{"name": "it", "cluster": {"server": f"https://127.0.0.1:{self.port}",
                                                        "certificate-authority-data": data(f"{self.pki}/ca.crt")}}],
                "users": [{"name": name, "user": user}],
                "contexts": [{"name": "it", "context": {"cluster": "it", "user": name, "namespace": namespace}}]}, file)
        # The proxy's user reads what is meant for it.
        os.chmod(path, 0o644)
        return path

    def kubectl(self, *arguments, check=True, input=None, kubeconfig=None, program=None, timeout=120):
        """
        kubectl of the control plane's version, as an administrator; its output, or the finished process when check is
        off.
        """
        done = run([program or self.programs.get("kubectl", "kubectl"), f"--kubeconfig={kubeconfig or self.kubeconfig}",
                    f"--cache-dir={self.directory}/kubectl-cache", *arguments], check=check,
                   input=input, timeout=timeout)
        return done.out if check else done

    def apply(self, *documents):
        self.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}))

    def token(self, namespace, account, seconds=7200):
        answer = self.api().post(f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token",
                                 {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
                                  "spec": {"expirationSeconds": seconds}})
        assert answer.code == 201, answer
        return answer.json["status"]["token"]

    def namespace(self, name):
        """Makes a namespace."""
        answer = self.api().post("/api/v1/namespaces",
                                 {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        assert answer.code == 201, answer
        return answer.json

    def uid(self):
        """What a proxy takes for the cluster's id."""
        return until(lambda: self.api().get("/api/v1/namespaces/kube-system").json.get("metadata", {}).get("uid"), 30,
                     "kube-system")

    # --- etcd ---

    def ask_etcd(self, path, **question):
        """An answer of etcd to JSON."""
        asked = urllib.request.Request(f"http://127.0.0.1:{self.etcd_port}/v3/{path}", json.dumps(question).encode(),
                                       {"Content-Type": "application/json"})
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return json.load(answer)

    def keys(self, prefix):
        """How many keys etcd has below /registry/."""
        first = f"/registry/{prefix}/".encode()
        answer = self.ask_etcd("kv/range", key=base64.b64encode(first).decode(), count_only=True,
                               range_end=base64.b64encode(first[:-1] + b"0").decode())
        return int(answer.get("count", 0))

    def defragment(self):
        """What etcdctl does after a compaction of all that is past."""
        revision = self.ask_etcd("kv/range", key="AA==")["header"]["revision"]
        self.ask_etcd("kv/compaction", revision=revision, physical=True)
        self.ask_etcd("maintenance/defragment")

    def metric(self, name, *labels):
        """A value of kube-apiserver's metrics: of the first line that has all these labels; None when there is none."""
        lines = self.api().get("/metrics").body.decode().splitlines()
        return next((float(line.rsplit(" ", 1)[1]) for line in lines
                     if line.startswith((name + "{", name + " ")) and all(label in line for label in labels)), None)

    # --- APIServices ---

    def service(self):
        """The Service by which the aggregator finds the proxies of this machine."""
        self.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": SERVICE, "namespace": NAMESPACE},
                    "spec": {"type": "ExternalName", "externalName": "localhost"}})

    def api_service(self, group_version, port, labels=None):
        """The APIService of a group and version, to the proxy at a port."""
        group, version = group_version.split("/")
        with open(f"{self.pki}/ca.crt", "rb") as ca:
            bundle = base64.b64encode(ca.read()).decode()
        return {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
                "metadata": {"name": f"{version}.{group}", "labels": labels or {}},
                "spec": {"group": group, "version": version, "groupPriorityMinimum": 100, "versionPriority": 100,
                         "caBundle": bundle,
                         "service": {"name": SERVICE, "namespace": NAMESPACE, "port": port}}}

    def available(self, group_version):
        """Whether the APIService is there and kube-aggregator calls it available."""
        group, version = group_version.split("/")
        answer = self.api().get(f"{API_SERVICES}/{version}.{group}")
        conditions = answer.json.get("status", {}).get("conditions", []) if answer.code == 200 else []
        return any(condition["type"] == "Available" and condition["status"] == "True" for condition in conditions)

    def served(self, group_version):
        """The aggregator may call an APIService available before it has a handler for it: then it answers 404."""
        return self.api().get(f"/apis/{group_version}").code == 200

    def wait_available(self, *group_versions, seconds=60):
        for group_version in group_versions or GROUP_VERSIONS:
            until(lambda name=group_version: self.available(name) and self.served(name), seconds,
                  f"{group_version} to be available")
