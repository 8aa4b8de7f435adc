"""
A node for one namespace: it runs the pods of that namespace, with all that the chart's pods need, and connects Services
to them.

A container is a process with the pod's volumes, environment, user and service account token, in a mount namespace of
its own; images are what this tree has built, and Debian's PostgreSQL client.  All pods share one network namespace,
which has every address of pods and Services (see .ci/check-cluster).  So each container gets flags to listen at its
pod's address; nothing else in a pod is changed.
"""

import base64
import contextlib
import http.client
import os
import pathlib
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import threading
import urllib.request

from client import run, until

NAME = "here"
# Addresses that the control plane is started with.
SERVICES = "10.96.0.1"
PODS = "10.244.0."


def has_network():
    """Whether this machine has the addresses of Services and pods, and all ports free: in a network namespace."""
    with socket.socket() as one, contextlib.suppress(OSError):
        one.bind((SERVICES, 0))
        return os.getuid() == 0
    return False


class Pod:
    """One pod: its directory and its processes."""

    def __init__(self, node, document, address):
        self.node = node
        self.document = document
        self.metadata = document["metadata"]
        self.spec = document["spec"]
        self.name = self.metadata["name"]
        self.address = address
        # A StatefulSet gives a new pod the name of the one before.
        self.directory = node.directory / f"{self.name}-{self.metadata['uid'][:8]}"
        self.processes = []
        self.main = {}
        self.environments = {}
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._live, daemon=True)
        self.thread.start()

    # --- volumes and environment ---

    def _object(self, kind, name):
        """Returns an object.  Like a kubelet, it waits for one that does not exist yet, while the pod is wanted."""
        def found():
            if self.stopping.is_set():
                raise InterruptedError(f"{kind} {name}: the pod ends")
            answer = self.node.api.get(f"{self.node.core}/{kind}/{name}")
            return answer.code == 200 and answer.json
        return until(found, 900, f"{kind} {name}")

    def _claim(self, volume):
        """Returns the directory of a claim: it outlives the pod, and a later claim of the same name has another one."""
        claim = self._object("persistentvolumeclaims", volume["persistentVolumeClaim"]["claimName"])
        path = self.node.directory / "claims" / claim["metadata"]["uid"]
        path.mkdir(parents=True, exist_ok=True)
        os.chown(path, 0, self._group())
        path.chmod(0o2770)
        return path

    def _volume(self, volume):
        """Returns a volume's directory, with its files."""
        if "persistentVolumeClaim" in volume:
            return self._claim(volume)
        path = self.directory / "volumes" / volume["name"]
        path.mkdir(parents=True, exist_ok=True)
        files, mode = {}, 0o444
        if "secret" in volume:
            data = self._object("secrets", volume["secret"]["secretName"])["data"]
            items = volume["secret"].get("items") or [{"key": key, "path": key} for key in data]
            files = {item["path"]: base64.b64decode(data[item["key"]]) for item in items}
            mode = volume["secret"].get("defaultMode", 0o444)
        elif "configMap" in volume:
            files = {key: text.encode() for key, text
                     in self._object("configmaps", volume["configMap"]["name"])["data"].items()}
        elif "emptyDir" in volume:
            path.chmod(0o777)
        elif "projected" in volume:
            account = self.spec["serviceAccountName"]
            files = {"token": self.node.plane.token(self.node.namespace, account).encode(),
                     "ca.crt": pathlib.Path(f"{self.node.plane.pki}/ca.crt").read_bytes(),
                     "namespace": self.node.namespace.encode()}
        else:
            raise ValueError(f"a volume that this node does not know: {volume}")
        for name, content in files.items():
            self._write(path / name, content, mode)
        return path

    def _write(self, path, content, mode):
        """Writes a file of a volume as a whole, so that no reader sees a part."""
        if path.exists() and path.read_bytes() == content:
            return
        new = path.with_name(f"..{path.name}")
        new.write_bytes(content)
        os.chown(new, 0, self._group())
        new.chmod(mode)
        new.rename(path)

    def _refresh(self):
        """Updates Secrets and ConfigMaps that have changed; returns false when the pod ends."""
        for volume in self.spec.get("volumes", []):
            kind, named = (("secrets", volume["secret"]["secretName"]) if "secret" in volume else
                           ("configmaps", volume["configMap"]["name"]) if "configMap" in volume else (None, None))
            # The files of a deleted object stay.
            with contextlib.suppress(OSError, http.client.HTTPException):
                if kind and self.node.api.get(f"{self.node.core}/{kind}/{named}").code == 200:
                    self._volume(volume)
        return not self.stopping.is_set()

    def _user(self):
        return self.spec.get("securityContext", {}).get("runAsUser", 65532)

    def _group(self):
        return self.spec.get("securityContext", {}).get("fsGroup", self._user())

    def _environment(self, container):
        plane = self.node.plane
        made = {"PATH": f"/mnt/usr/bin:{self.node.postgresql}:/usr/bin:/bin", "KUBERNETES_SERVICE_HOST": "127.0.0.1",
                "KUBERNETES_SERVICE_PORT": str(plane.port)}
        for entry in container.get("env", []):
            source = entry.get("valueFrom", {})
            if "secretKeyRef" in source:
                reference = source["secretKeyRef"]
                made[entry["name"]] = base64.b64decode(self._object("secrets",
                    reference["name"])["data"][reference["key"]]).decode()
            elif "fieldRef" in source:
                made[entry["name"]] = self.metadata[source["fieldRef"]["fieldPath"].partition(".")[2]]
            else:
                made[entry["name"]] = entry.get("value", "")
        return made

    # --- containers ---

    def _names(self, etc):
        """Writes the names of Services, and those of the image's users."""
        hosts = [f"{document['spec']['clusterIP']} {name}.{self.node.namespace}.svc {name}"
                 for document in self.node.api.get(f"{self.node.core}/services").json["items"]
                 for name in [document["metadata"]["name"]] if document["spec"].get("clusterIP", "None") != "None"]
        hosts += [f"127.0.0.1 {name}" for name in ("localhost", *self.node.hosts)]
        (etc / "hosts").write_text("\n".join(hosts) + "\n", encoding="ascii")
        # The image's postgres is 26.
        users = (etc / "passwd").read_text(encoding="utf-8")
        (etc / "passwd").write_text(re.sub(r"(?m)^postgres:x:\d+:\d+:", "postgres:x:26:26:", users),
                                    encoding="utf-8")

    def _start(self, container):
        """Starts the container's process, in a mount namespace with the volumes at the container's paths."""
        etc = self.directory / "etc"
        if not etc.exists():
            shutil.copytree("/etc", etc, symlinks=True)
            self._names(etc)
        mounts = [f"mount --bind {shlex.quote(str(etc))} /etc", f"mount --bind {shlex.quote(self.node.installed)} /mnt",
                  "mount -t tmpfs none /run", "mount -t tmpfs none /var/lib"]
        volumes = {volume["name"]: volume for volume in self.spec.get("volumes", [])}
        # /tmp last: the directories of volumes are below it.
        for mount in sorted(container.get("volumeMounts", []), key=lambda entry: entry["mountPath"] == "/tmp"):
            source, target = self._volume(volumes[mount["name"]]), mount["mountPath"].replace("/var/run/", "/run/")
            mounts.append(f"mkdir -p {target} && mount --bind {shlex.quote(str(source))} {target}")
        command = container["command"] + container.get("args", [])
        # All pods share one network: each listens at its own address.
        if container["name"] in ("proxy", "grpc", "evidence"):
            command += [f"--bind-address={self.address}", f"--metrics-bind-address={self.address}"]
        elif container["name"] == "sender":
            command += [f"--metrics-bind-address={self.address}"]
        elif container["name"] == "postgresql":
            command += [word for setting in (f"listen_addresses={self.address}", "extension_destdir=/mnt", "fsync=off")
                        for word in ("-c", setting)]
        environment = self.environments[container["name"]] = self._environment(container)
        user = self._user()
        script = " && ".join(["set -e", "cd /", *mounts,
                              f"exec setpriv --reuid {user} --regid {user} --groups {self._group()} -- "
                              + shlex.join(command)])
        log = open(self.directory / f"{container['name']}.log", "ab")  # pylint: disable=consider-using-with
        with log:
            process = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
                                       stdin=subprocess.DEVNULL,
                                       stdout=log, stderr=log, env=environment, start_new_session=True)
        self.processes.append(process)
        return process

    def _live(self):
        try:
            self.directory.mkdir(parents=True)
            for container in self.spec.get("initContainers", []):
                if self._start(container).wait(600) != 0:
                    self._status("Failed", False)
                    return
            processes = [self._start(container) for container in self.spec["containers"]]
            self.main = dict(zip((container["name"] for container in self.spec["containers"]), processes))
            if any(owner["kind"] == "Job" for owner in self.metadata.get("ownerReferences", [])):
                self._status("Running", True)
                codes = [process.wait(600) for process in processes]
                self._status("Succeeded" if not any(codes) else "Failed", False)
                return
            self._status("Running", False)
            ready = False
            while not self.stopping.wait(0.3):
                if not self._refresh():
                    break
                if any(process.poll() is not None for process in processes):
                    # A kubelet would restart the container; here the pod ends, and its owner makes another one.
                    self._status("Failed", False)
                    return
                if all(self._probe(container) for container in self.spec["containers"]) != ready:
                    ready = not ready
                    self._status("Running", ready)
        except Exception as error:  # the logs show it
            (self.directory / "node.log").write_text(repr(error), encoding="utf-8")
            with contextlib.suppress(Exception):
                self._status("Failed", False)

    def enter(self, container, command):
        """Returns the words that run a command in a container, as kubectl exec does, without its environment."""
        user = self._user()
        return ["nsenter", "-t", str(self.main[container].pid), "-m", "setpriv", "--reuid", str(user), "--regid",
                str(user), "--groups", str(self._group()), "--", *command]

    def inside(self, container, command):
        """Runs a command in a container; returns the finished process."""
        return subprocess.run(self.enter(container, command), env=self.environments[container], capture_output=True,
                              text=True, timeout=120, check=False)

    def _probe(self, container):
        if "readinessProbe" not in container:
            return True
        if "exec" in container["readinessProbe"]:
            return self.inside(container["name"], container["readinessProbe"]["exec"]["command"]).returncode == 0
        probe = container["readinessProbe"]["httpGet"]
        port = next(entry["containerPort"] for entry in container["ports"] if entry["name"] == probe["port"])
        try:
            with urllib.request.urlopen(f"http://{self.address}:{port}{probe['path']}", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def _status(self, phase, ready):
        conditions = [{"type": kind, "status": str(ready)} for kind in ("Ready", "ContainersReady")]
        conditions += [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Initialized")]
        self.node.api.patch(f"{self.node.core}/pods/{self.name}/status", {"status": {
            "phase": phase, "podIP": self.address, "podIPs": [{"ip": self.address}], "hostIP": "10.244.255.1",
            "conditions": conditions}})

    def log(self):
        return "\n".join(f"--- {self.name} {path.name}\n{path.read_text(encoding='utf-8')[-1500:]}"
                         for path in sorted(self.directory.glob("*.log")))

    def stop(self):
        """Ends the pod as a kubelet does."""
        self.stopping.set()
        for container in self.spec["containers"]:
            if "preStop" in container.get("lifecycle", {}) and container["name"] in self.main:
                self.inside(container["name"], container["lifecycle"]["preStop"]["exec"]["command"])
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(self.spec.get("terminationGracePeriodSeconds", 30))
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait(10)
        # The control plane may end before its pods do.
        with contextlib.suppress(OSError, http.client.HTTPException):
            self.node.api.delete(f"{self.node.core}/pods/{self.name}",
                                 {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})


class Node:
    """The node, and what kube-scheduler and kube-proxy would do for it."""

    def __init__(self, plane, namespace, installed, directory, hosts=()):
        """installed: where this tree is installed, as the images have it; hosts: further names of this machine."""
        self.plane, self.namespace, self.installed = plane, namespace, installed
        self.hosts = hosts
        self.directory = pathlib.Path(directory)
        self.postgresql = run(["pg_config", "--bindir"]).out.strip()
        self.core = f"/api/v1/namespaces/{namespace}"
        self.api = plane.api()
        self.pods = {}
        self.listeners = {}
        self.stopped = threading.Event()
        plane.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NAME}})
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.stopped.wait(0.2):
            with contextlib.suppress(OSError, KeyError):
                self._pods()
                self._services()

    def _pods(self):
        for document in self.api.get(f"{self.core}/pods").json["items"]:
            uid, name = document["metadata"]["uid"], document["metadata"]["name"]
            if document["metadata"].get("deletionTimestamp"):
                pod = self.pods.get(uid)
                if pod and not pod.stopping.is_set():
                    pod.stopping.set()
                    threading.Thread(target=pod.stop, daemon=True).start()
            elif uid not in self.pods:
                self.api.post(f"{self.core}/pods/{name}/binding",
                              {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
                                                                  "target": {"apiVersion": "v1",
                                                                      "kind": "Node", "name": NAME}})
                self.pods[uid] = Pod(self, document, f"{PODS}{len(self.pods) + 1}")

    def _services(self):
        for document in self.api.get(f"{self.core}/services").json["items"]:
            address = document["spec"].get("clusterIP", "None")
            for port in document["spec"].get("ports", []) if address != "None" else []:
                if (address, port["port"]) not in self.listeners:
                    listener = socket.create_server((address, port["port"]))
                    self.listeners[address, port["port"]] = listener
                    threading.Thread(target=self._accept, args=(listener, document["metadata"]["name"], port["name"]),
                                     daemon=True).start()

    def endpoints(self, service, port_name):
        """Returns (address, port) of a Service's ready pods."""
        found = []
        slices = self.api.get(f"/apis/discovery.k8s.io/v1/namespaces/{self.namespace}/endpointslices",
                              labelSelector=f"kubernetes.io/service-name={service}")
        for document in slices.json["items"]:
            port = next((port["port"] for port in document["ports"] or [] if port["name"] == port_name), None)
            found += [(address, port) for one in document["endpoints"] or [] if one["conditions"].get("ready")
                      for address in one["addresses"]]
        return found

    def _accept(self, listener, service, port_name):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._relay, args=(client, service, port_name), daemon=True).start()

    def _relay(self, client, service, port_name):
        with client, contextlib.suppress(OSError, KeyError):
            for target in self.endpoints(service, port_name):
                with contextlib.suppress(ConnectionRefusedError), socket.create_connection(target, 10) as server:
                    self._copy(client, server)
                    return

    @staticmethod
    def _copy(client, server):
        other = {client: server, server: client}
        while other:
            for source in select.select(list(other), [], [])[0]:
                data = source.recv(65536)
                if not data:
                    return
                other[source].sendall(data)

    def pod(self, name):
        """Returns the running pod of a name."""
        return next(pod for pod in list(self.pods.values()) if pod.name == name and not pod.stopping.is_set())

    def logs(self):
        return "\n".join(pod.log() for pod in list(self.pods.values()))

    def stop(self):
        self.stopped.set()
        self.thread.join(30)
        for listener in self.listeners.values():
            listener.close()
        for pod in self.pods.values():
            pod.stopping.set()
            for process in pod.processes:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait(10)
