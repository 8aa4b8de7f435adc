"""
A control plane on this machine: etcd, kube-apiserver and kube-controller-manager, as .ci/cluster-programs builds them.

There is no node: pods are objects that nothing runs.  An APIService reaches a proxy on this machine through a Service
of type ExternalName, localhost; the APIService has the proxy's port.
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
    """Returns the files of the programs by their names, without those that are not built."""
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
        """Returns a memory counter of the process, in bytes."""
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
    """The API for a user with a token, or with further headers."""

    def __init__(self, port, ca, token=None, **headers):
        super().__init__(port, ca)
        self.more = {**({"Authorization": f"Bearer {token}"} if token else {}), **headers}

    def request(self, method, path, body=None, headers=None, **more):
        return super().request(method, path, body, {**(headers or {}), **self.more}, **more)


class ControlPlane:
    """A control plane in a directory; pki has certificates of .ci/stack.sh, whose CA becomes the CA of clients."""

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
            # Endpoints may have no loopback address, and this machine may have no other.
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
        """Starts the store of kube-apiserver at etcd_port."""
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
        """Writes the configuration that makes restricted the level of namespaces without labels; returns the file."""
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
        """Returns the API for a user with a client certificate of pki."""
        return Api(self.port, f"{self.pki}/ca.crt", f"{self.pki}/{user}", keep)

    def user(self, name, *groups):
        """Makes the certificate of a user in groups; returns the user's API."""
        subject = "".join(f"/O={group}" for group in groups) + f"/CN={name}"
        self.stack_command("certificate", self.pki, f"user-{name}", subject, "clientAuth")
        return self.api(f"user-{name}")

    def bearer(self, token, port=None):
        return Bearer(port or self.port, f"{self.pki}/ca.crt", token)

    def write_kubeconfig(self, name, certificate=None, token=None, namespace="default"):
        """Writes a kubeconfig that includes all certificates and keys; returns the file."""
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
        # The proxy runs as another user, which has to read its kubeconfig.
        os.chmod(path, 0o644)
        return path

    def kubectl(self, *arguments, check=True, input=None, kubeconfig=None, program=None, timeout=120):
        """
        Runs kubectl of the control plane's version as an administrator; returns its output, or the finished process
        when check is off.
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
        """Returns the uid that a proxy takes for the cluster's id."""
        return until(lambda: self.api().get("/api/v1/namespaces/kube-system").json.get("metadata", {}).get("uid"), 30,
                     "kube-system")

    # --- etcd ---

    def ask_etcd(self, path, **question):
        """Returns an answer of etcd to JSON."""
        asked = urllib.request.Request(f"http://127.0.0.1:{self.etcd_port}/v3/{path}", json.dumps(question).encode(),
                                       {"Content-Type": "application/json"})
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return json.load(answer)

    def keys(self, prefix):
        """Returns how many keys etcd has below /registry/PREFIX/."""
        first = f"/registry/{prefix}/".encode()
        answer = self.ask_etcd("kv/range", key=base64.b64encode(first).decode(), count_only=True,
                               range_end=base64.b64encode(first[:-1] + b"0").decode())
        return int(answer.get("count", 0))

    def defragment(self):
        """Compacts all that is past, and defragments, as etcdctl does."""
        revision = self.ask_etcd("kv/range", key="AA==")["header"]["revision"]
        self.ask_etcd("kv/compaction", revision=revision, physical=True)
        self.ask_etcd("maintenance/defragment")

    def metric(self, name, *labels):
        """Returns a value of kube-apiserver's metrics, from the first line with all these labels, or None."""
        lines = self.api().get("/metrics").body.decode().splitlines()
        return next((float(line.rsplit(" ", 1)[1]) for line in lines
                     if line.startswith((name + "{", name + " ")) and all(label in line for label in labels)), None)

    # --- APIServices ---

    def service(self):
        """Makes the Service through which the aggregator finds proxies on this machine."""
        self.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": SERVICE, "namespace": NAMESPACE},
                    "spec": {"type": "ExternalName", "externalName": "localhost"}})

    def api_service(self, group_version, port, labels=None):
        """Returns the APIService of a group and version that leads to the proxy at a port."""
        group, version = group_version.split("/")
        with open(f"{self.pki}/ca.crt", "rb") as ca:
            bundle = base64.b64encode(ca.read()).decode()
        return {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
                "metadata": {"name": f"{version}.{group}", "labels": labels or {}},
                "spec": {"group": group, "version": version, "groupPriorityMinimum": 100, "versionPriority": 100,
                         "caBundle": bundle,
                         "service": {"name": SERVICE, "namespace": NAMESPACE, "port": port}}}

    def available(self, group_version):
        """Returns whether the APIService exists and kube-aggregator calls it available."""
        group, version = group_version.split("/")
        answer = self.api().get(f"{API_SERVICES}/{version}.{group}")
        conditions = answer.json.get("status", {}).get("conditions", []) if answer.code == 200 else []
        return any(condition["type"] == "Available" and condition["status"] == "True" for condition in conditions)

    def served(self, group_version):
        """Whether the group is served: an APIService may be available before the aggregator has its handler."""
        return self.api().get(f"/apis/{group_version}").code == 200

    def wait_available(self, *group_versions, seconds=60):
        for group_version in group_versions or GROUP_VERSIONS:
            until(lambda name=group_version: self.available(name) and self.served(name), seconds,
                  f"{group_version} to be available")
