"""
A stand-in for a cluster whose CustomResourceDefinitions hold reports in etcd: pages, expired lists, deletions, metrics.
"""

import base64
import copy
import json
import re
import subprocess
import uuid
from urllib.parse import parse_qs, unquote, urlsplit

from apiserver import ApiServer, Handler, now

WG, OPEN, KYVERNO = "wgpolicyk8s.io", "openreports.io", "reports.kyverno.io"


def report(number, results=3, namespace="shop", kind="PolicyReport", **metadata):
    """Returns a report like those of Kyverno's reports-controller."""
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"d-{number}", "uid": str(uuid.uuid4())}
    return {
        "kind": kind,
        "metadata": {
            "name": f"r-{number:06}", "generation": 3, "labels": {"app.kubernetes.io/managed-by": "kyverno"},
            "annotations": {"audit.kyverno.io/last-scan-time": "2026-01-02T03:04:05Z"}, "ownerReferences": [owner],
            "managedFields": [{"apiVersion": "wgpolicyk8s.io/v1alpha2", "fieldsType": "FieldsV1",
                               "manager": "reports-controller",
                               "fieldsV1": {"f:metadata": {"f:labels": {".": {}}},
                                            "f:results": {}}, "operation": "Update",
                               "time": "2026-01-02T03:04:05Z"}],
            **({"namespace": namespace} if namespace else {}), **metadata},
        "results": [{"policy": f"policy-{place}", "rule": f"rule-{place}",
                     "result": ("pass", "fail", "skip")[(number + place) % 3],
                     "source": "kyverno", "scored": True, "severity": "medium",
                     "category": "Pod Security Standards (Baseline)",
                     "message": f"validation rule 'rule-{place}' of r-{number} says \u2028 \"so\" <&> \\ ü {number}",
                     "properties": {"standard": "baseline", "process": "background scan"},
                     "timestamp": {"seconds": 1767323045 + place, "nanos": 0}} for place in range(results)],
        "scope": {**owner, **({"namespace": namespace} if namespace else {})},
        "summary": {"pass": results, "fail": 0, "warn": 0, "error": 0, "skip": 0},
    }


def command(cluster, name, *flags):
    return [f"{cluster.database.directory}/dest/usr/bin/kube-reports-proxy", name, f"--kubeconfig={cluster.config}",
            f"--database={cluster.database.connection(cluster.role)}", *flags]


def call(cluster, name, *flags, code=0):
    """Runs a command that must end with this code; returns the finished process."""
    done = subprocess.run(command(cluster, name, *flags), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=300, check=False)
    assert done.returncode == code, f"{done.returncode}: {done.stdout}\n{done.stderr}"
    return done


def load(cluster, *flags, code=0):
    return call(cluster, "import", "--from-cluster", *flags, code=code)


def table(done, name, which=0):
    """Returns the line of a type in a printed table, without zeros: the number of objects with each outcome."""
    tables, lines = [], []
    for line in [line.split() for line in done.stdout.splitlines()] + [[]]:
        if line and line[0] == "TYPE":
            lines = [line]
            tables.append(lines)
        elif line:
            lines.append(line)
    heads = [head.lower() for head in " ".join(tables[which][0]).replace("IN ETCD", "FOUND").split()[1:]]
    values = next(line for line in tables[which] if line[0] == name)[1:]
    return {head: int(value) for head, value in zip(heads, values) if value.isdigit() and value != "0"}


class CrdCluster(ApiServer):
    """
    Serves reports of the types that define() made.  All versions of a group have the same reports; a version is served
    while its APIService has no service.  stored is {(group, plural): {(namespace, name): object}}.

    forbidden: a regular expression; requests whose METHOD and path match get 403.  throttled: the number of lists that
    get 429 first.  expire_after: the token of a list expires once, after this many objects; offer_token: the 410 has a
    token with which the list continues.  page_hook(plural, passed) is called after each page.  behind: the objects that
    proxies serve, in the form of stored, for versions whose APIService has a service; without behind, such a version is
    not found.
    """

    def __init__(self, certificates):
        self.stored = {}
        self.forbidden = None
        self.throttled = 0
        self.expire_after = None
        self.offer_token = True
        self.page_hook = None
        self.behind = None
        self.etcd_size = 8_000_000
        super().__init__(certificates)

    def start(self):
        super().start()
        self.server.RequestHandlerClass = type("BoundHandler", (CrdHandler,), {"apiserver": self})

    def define(self, group, versions, *plurals):
        for version in versions:
            self.register(f"{group}/{version}", service=None)
        for plural in plurals:
            self.stored[group, plural] = {}

    def add(self, group, plural, document):
        """Creates or replaces an object as kube-apiserver would; returns the stored object."""
        with self.lock:
            self.version += 1
            document = copy.deepcopy(document)
            metadata = document["metadata"]
            key = metadata.get("namespace", ""), metadata["name"]
            old = self.stored[group, plural].get(key)
            metadata.setdefault("uid", old["metadata"]["uid"] if old else str(uuid.uuid4()))
            metadata.setdefault("creationTimestamp", old["metadata"]["creationTimestamp"] if old else now(-86400))
            metadata["resourceVersion"] = str(self.version)
            self.stored[group, plural][key] = document
            return document

    def drop(self, group, plural, namespace, name):
        with self.lock:
            self.version += 1
            return self.stored[group, plural].pop((namespace, name))

    def count(self, group, plural):
        with self.lock:
            return len(self.stored[group, plural])

    def versions_of(self, group):
        """Returns the served versions, and whether kube-apiserver stores them itself."""
        services = self.objects["/apis/apiregistration.k8s.io/v1/apiservices"].values()
        return {entry["spec"]["version"]: entry["spec"].get("service") is None for entry in services
                if entry["spec"]["group"] == group}

    def metrics(self):
        lines = [f'apiserver_storage_objects{{resource="{plural}.{group}"}} {len(objects)}'
                 for (group, plural), objects in sorted(self.stored.items())]
        size = self.etcd_size + 7000 * sum(len(objects) for objects in self.stored.values())
        return "\n".join(["# HELP apiserver_storage_objects x", *lines,
                          f'apiserver_storage_size_bytes{{storage_cluster_id="etcd-0"}} {size:.6e}', ""])


class CrdHandler(Handler):
    def do_DELETE(self):
        self.answer_request(self.delete)

    def answer_request(self, answer):
        server = self.apiserver
        if server.forbidden is not None and re.search(server.forbidden, f"{self.command} {self.path}"):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.failure(403, "Forbidden", f'user "u" cannot {self.command} {urlsplit(self.path).path}')
            return
        super().answer_request(answer)

    def place(self):
        """Returns the parts of a path of reports: group, version, plural, namespace, name."""
        match = re.fullmatch(r"/apis/([^/]+)/([^/]+)(?:/namespaces/([^/]+))?/([^/]+)(?:/([^/]+))?",
                             urlsplit(self.path).path)
        if not match or (match[1], match[4]) not in self.apiserver.stored:
            return None
        if not self.apiserver.versions_of(match[1]).get(match[2]) and self.apiserver.behind is None:
            return None
        return match[1], match[2], match[4], unquote(match[3] or ""), unquote(match[5] or "")

    def get(self, body):
        server = self.apiserver
        path = urlsplit(self.path).path
        place = self.place()
        if path == "/metrics":
            self.answer(200, "text/plain", server.metrics().encode())
        elif match := re.fullmatch(r"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/([^.]+)[.](.+)", path):
            found = (match[2], match[1]) in server.stored
            self.document(200 if found else 404, {"metadata": {"name": f"{match[1]}.{match[2]}"}} if found else {})
        elif place is not None and not place[4]:
            self.list_reports(*place[:3])
        elif place is not None:
            document = server.stored[place[0], place[2]].get(place[3:])
            self.document(200 if document else 404, document or {})
        elif (group := path.removeprefix("/apis/")) in {group for group, _ in server.stored}:
            self.document(200, {"kind": "APIGroup", "apiVersion": "v1", "name": group, "versions": [
                {"groupVersion": f"{group}/{version}", "version": version} for version in server.versions_of(group)]})
        elif (match := re.fullmatch(r"/apis/([^/]+)/([^/]+)", path)) and match[2] in server.versions_of(match[1]):
            self.document(200, {"kind": "APIResourceList", "apiVersion": "v1", "resources": [
                {"name": plural} for group, plural in server.stored if group == match[1]]})
        else:
            super().get(body)

    def list_reports(self, group, version, plural):
        server = self.apiserver
        query = {key: values[0] for key, values in parse_qs(urlsplit(self.path).query).items()}
        with server.lock:
            if server.throttled > 0:
                server.throttled -= 1
                self.send_response(429)
                self.send_header("Retry-After", "1")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            objects = (server.stored if server.versions_of(group)[version] else server.behind)[group, plural]
            after = tuple(json.loads(base64.b64decode(query["continue"]))) if "continue" in query else ("", "")
            items = [(key, item) for key, item in sorted(objects.items()) if key > after]
            passed = len(objects) - len(items)
            if server.expire_after is not None and "continue" in query and passed >= server.expire_after:
                server.expire_after = None
                metadata = {"continue": query["continue"]} if server.offer_token else {}
                self.document(410, {"kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure",
                                    "message": "The provided continue parameter is too "
                                               "old", "reason": "Expired", "code": 410})
                return
            limit = int(query.get("limit", 0)) or len(items)
            page, rest = items[:limit], items[limit:]
            metadata = {"resourceVersion": str(server.version)}
            if rest:
                metadata |= {"continue": base64.b64encode(json.dumps(page[-1][0]).encode()).decode(),
                             "remainingItemCount": len(rest)}
        partial = "PartialObjectMetadataList" in (self.headers["Accept"] or "")
        found = [{"metadata": item["metadata"]} if partial else {**item, "apiVersion": f"{group}/{version}"} for _,
                 item in page]
        self.document(200, {"kind": "List", "apiVersion": f"{group}/{version}", "metadata": metadata, "items": found})
        if server.page_hook is not None:
            server.page_hook(plural, passed + len(page))

    def delete(self, body):
        server = self.apiserver
        place = self.place()
        if place is None or not place[4]:
            self.failure(404, "NotFound", "the server could not find the requested resource")
            return
        group, _, plural, namespace, name = place
        wanted = json.loads(body)["preconditions"]
        with server.lock:
            found = server.stored[group, plural].get((namespace, name))
            if found is None:
                self.failure(404, "NotFound", f"{name} not found")
            elif any(found["metadata"][key] != value for key, value in wanted.items()):
                self.failure(409, "Conflict",
                             "the ResourceVersion in the precondition does not match the one in record")
            else:
                server.drop(group, plural, namespace, name)
                self.document(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})
