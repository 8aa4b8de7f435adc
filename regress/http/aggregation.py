"""kube-apiserver's controllers of APIServices: one makes those of CRDs, the others check availability."""

import base64
import copy
import json
import socket
import ssl
import threading

from apiserver import API_SERVICES

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
AUTOMANAGED = "kube-aggregator.kubernetes.io/automanaged"


def slices(namespace):
    return f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"


def services(namespace):
    return f"/api/v1/namespaces/{namespace}/services"


def crd(group, version, plural, served=True):
    versions = [{"name": "v0", "served": True, "storage": False},
                {"name": version, "served": served, "storage": True}]
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {"group": group, "scope": "Namespaced", "names": {"plural": plural}, "versions": versions}}


class Aggregation:
    """
    The autoregister controller (kube-aggregator pkg/controllers/autoregister) and the two controllers of availability
    (pkg/controllers/status). As in kube-apiserver, each controller acts a little after a change.
    """

    def __init__(self, server):
        self.server = server
        self.paused = False
        self.ended = False
        server.serve(CRDS, "CustomResourceDefinition")
        for namespace in ("kube-reports", "other"):
            server.serve(services(namespace), "Service")
            server.serve(slices(namespace), "EndpointSlice")
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def end(self):
        with self.server.lock:
            self.ended = True
            self.server.lock.notify_all()
        self.thread.join(20)

    # --- what tests set ---

    def add_crd(self, group_version, *plurals, served=True):
        group, _, version = group_version.partition("/")
        for plural in plurals:
            self.server.put(CRDS, crd(group, version, plural, served))

    def service(self, port=443, namespace="kube-reports", name="kube-reports", **spec):
        ports = [{"name": "https", "port": port}, {"name": "metrics", "port": 8080}]
        self.server.put(services(namespace), {
            "metadata": {"name": name}, "spec": {"type": "ClusterIP", "ports": ports, **spec}})

    def endpoints(self, port, ready=True, namespace="kube-reports", name="kube-reports", address="127.0.0.1"):
        """Sets two slices of a Service: an empty one, and one with the given endpoint and one that is not ready."""
        for suffix, found in (("a", []), ("b", [{"addresses": ["192.0.2.1"], "conditions": {"ready": False}},
                                               {"addresses": [address], "conditions": {"ready": ready}}])):
            self.server.put(slices(namespace), {
                "metadata": {"name": f"{name}-{suffix}", "labels": {"kubernetes.io/service-name": name}},
                "ports": [{"name": "metrics", "port": 1}, {"name": "https", "port": port}], "endpoints": found})

    def document(self, group_version):
        """Returns an APIService, or None."""
        group, _, version = group_version.partition("/")
        with self.server.lock:
            return copy.deepcopy(self.server.objects[API_SERVICES].get(f"{version}.{group}"))

    # --- the controllers ---

    def run(self):
        seen = None
        server = self.server
        while True:
            with server.lock:
                while not self.ended and (self.paused or seen == server.version):
                    server.lock.wait(1)
                if self.ended:
                    return
                seen = server.version
                self.register()
                found = copy.deepcopy(server.objects[API_SERVICES])
            for name, document in found.items():
                self.look(name, document)

    def register(self):
        """Makes, changes and removes the APIServices of CRDs, by the table of checkAPIService()."""
        server = self.server
        desired = {}
        for definition in server.objects[CRDS].values():
            spec = definition["spec"]
            for version in spec["versions"]:
                if version["served"]:
                    desired[f"{version['name']}.{spec['group']}"] = {
                        "group": spec["group"], "version": version["name"],
                        "groupPriorityMinimum": 1000, "versionPriority": 100}
        for name in {*desired, *server.objects[API_SERVICES]}:
            current = server.objects[API_SERVICES].get(name)
            if current is None:
                metadata = {"name": name, "labels": {AUTOMANAGED: "true"}}
                server.put(API_SERVICES, {"metadata": metadata, "spec": desired[name]})
            elif current["metadata"].get("labels", {}).get(AUTOMANAGED) != "true":
                continue
            elif name not in desired:
                server.remove(API_SERVICES, name)
            elif current["spec"] != desired[name]:
                server.put(API_SERVICES, {**current, "spec": desired[name]})

    def look(self, name, document):
        status, reason, message = "True", "Local", "Local APIServices are always available"
        if document["spec"].get("service"):
            status, reason, message = self.check(document["spec"])
        condition = {"type": "Available", "status": status, "reason": reason, "message": message}
        with self.server.lock:
            current = self.server.objects[API_SERVICES].get(name)
            if current and current["spec"] == document["spec"] and current.get("status") != {"conditions": [condition]}:
                self.server.put(API_SERVICES, {**current, "status": {"conditions": [condition]}})

    def check(self, spec):
        service = spec["service"]
        with self.server.lock:
            found = copy.deepcopy(self.server.objects[services(service["namespace"])].get(service["name"]))
            all_slices = copy.deepcopy(list(self.server.objects[slices(service["namespace"])].values()))
        if found is None:
            return "False", "ServiceNotFound", "it is not present"
        addresses = [
            (endpoint["addresses"][0], next(port["port"] for port in one["ports"] if port["name"] == "https"))
            for one in all_slices if one["metadata"]["labels"]["kubernetes.io/service-name"] == service["name"]
            for endpoint in one["endpoints"] if endpoint["conditions"]["ready"]]
        if found["spec"]["type"] == "ExternalName":
            addresses = [("localhost", service["port"])]
        if not addresses:
            return "False", "MissingEndpoints", "no addresses"
        try:
            context = ssl.create_default_context(cadata=base64.b64decode(spec["caBundle"]).decode())
            with socket.create_connection(addresses[0], 5) as connection, \
                    context.wrap_socket(connection, server_hostname=f"{service['name']}.{service['namespace']}.svc"):
                return "True", "Passed", "all checks passed"
        except (OSError, KeyError) as error:
            return "False", "FailedDiscoveryCheck", f"failing or missing response: {json.dumps(str(error))}"
