"""A stand-in for kube-apiserver: answers the requests of the proxy, over real HTTPS with a CA of its own."""

import base64
import collections
import copy
import http.server
import json
import os
import re
import socket
import ssl
import threading
import uuid
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

NAMESPACES = "/api/v1/namespaces"
CONFIG_MAPS = "/api/v1/namespaces/kube-system/configmaps"
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
KINDS = {NAMESPACES: "Namespace", CONFIG_MAPS: "ConfigMap", API_SERVICES: "APIService"}
AUTHENTICATION = "extension-apiserver-authentication"
TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def now(seconds=0):
    return (datetime.now(timezone.utc) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


class Trouble:
    """A fault for requests whose path matches: it delays the answer, or replaces it."""

    def __init__(self, path, code=None, times=None, drop=False, hold=None, method=None, document=None,
                 text=None, retry_after=None):
        self.path = path
        self.retry_after = retry_after
        self.method = method
        self.code = code
        self.times = times
        self.drop = drop
        self.hold = hold
        self.document = document
        self.text = text


class ApiServer:
    """
    Serves collections with versions, watches and bookmarks; answers TokenReviews and SubjectAccessReviews by the rules
    of the test.

    token_rule(spec) and access_rule(spec) return the status of a review; token_reviews and access_reviews are the
    received documents.  requests has every request: method, path with query, authorization, peer (the certificate's
    subject).  While token is set, requests with another token are answered with 401.
    """

    def __init__(self, certificates, page_size=None):
        self.certificates = certificates
        self.page_size = page_size
        self.lock = threading.Condition()
        self.version = 1000
        self.floor = 0
        self.objects = {collection: {} for collection in KINDS}
        # Collections whose lists are like those of Kubescape's API server: no version, and no specs unless fullSpec is
        # asked for and full_spec is set.
        self.kubescape = set()
        self.full_spec = True
        # For such a collection the pages, from 0, at which its next lists fail: the rest is missing, the code is 200.
        self.short_lists = collections.defaultdict(list)
        self.log = []
        self.bookmarks = 0
        self.requests = []
        self.token = None
        self.token_reviews = []
        self.access_reviews = []
        self.events = []
        self.token_rule = lambda spec: {"authenticated": False}
        self.access_rule = lambda spec: {"allowed": False}
        self.troubles = []
        self.connections = set()
        self.port = 0
        self.server = self.context = None
        for name in ("default", "kube-system"):
            self.create_namespace(name)
        self.start()

    # --- the process ---

    def start(self):
        """Starts to listen; after stop(), on the same port as before."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{self.certificates}/serving.crt", f"{self.certificates}/serving.key")
        context.load_verify_locations(f"{self.certificates}/ca.crt")
        context.verify_mode = ssl.CERT_OPTIONAL
        self.context = context
        self.server = Listener(("127.0.0.1", self.port), handler_of(self))
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self):
        """Stops listening, and cuts every connection."""
        if self.server is None:
            return
        self.server.shutdown()
        self.server.server_close()
        self.server = None
        self.disconnect()

    def disconnect(self):
        """Cuts every connection."""
        with self.lock:
            connections, self.connections = self.connections, set()
            for connection in connections:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
            self.lock.notify_all()

    def trust(self, ca):
        """Also accepts client certificates of another CA, until the next start()."""
        self.context.load_verify_locations(ca)

    def kubeconfig(self, path, ca=None, **user):
        """Writes a kubeconfig with these credentials and returns its path."""
        with open(ca or f"{self.certificates}/ca.crt", "rb") as file:
            bundle = base64.b64encode(file.read()).decode()
        document = f"""
apiVersion: v1
kind: Config
current-context: here
contexts: [{{name: other, context: {{cluster: none, user: none}}}}, {{name: here, context: {{cluster: c, user: u}}}}]
clusters:
- name: c
  cluster:
    server: https://127.0.0.1:{self.port}/
    certificate-authority-data: {bundle}
users:
- name: u
  user: {json.dumps(user)}
"""
        with open(path, "w", encoding="utf-8") as file:
            file.write(document)
        os.chmod(path, 0o644)
        return path

    # --- objects ---

    def _change(self, kind, collection, name, document):
        """Stores a document, or removes it, as the next version."""
        with self.lock:
            self.version += 1
            document = copy.deepcopy(document)
            document["metadata"]["resourceVersion"] = str(self.version)
            if kind == "DELETED":
                del self.objects[collection][name]
            else:
                self.objects[collection][name] = document
            self.log.append((self.version, kind, collection, document))
            self.lock.notify_all()
            return document

    def create_namespace(self, name, uid=None, clock=0):
        """Creates a namespace; clock: the number of seconds by which this server's clock is ahead."""
        with self.lock:
            assert name not in self.objects[NAMESPACES]
            return self._change("ADDED", NAMESPACES, name, {
                "metadata": {"name": name, "uid": uid or str(uuid.uuid4()), "creationTimestamp": now(clock),
                             "labels": {"kubernetes.io/metadata.name": name}},
                "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}})

    def terminate_namespace(self, name):
        """Marks a namespace as terminating, as kube-apiserver does while it deletes the objects in the namespace."""
        with self.lock:
            document = copy.deepcopy(self.objects[NAMESPACES][name])
            document["metadata"]["deletionTimestamp"] = now()
            document["status"]["phase"] = "Terminating"
            return self._change("MODIFIED", NAMESPACES, name, document)

    def delete_namespace(self, name):
        with self.lock:
            return self._change("DELETED", NAMESPACES, name, self.objects[NAMESPACES][name])

    def namespace_uid(self, name):
        with self.lock:
            return self.objects[NAMESPACES][name]["metadata"]["uid"]

    def set_authentication(self, entries):
        """Sets the ConfigMap of k8s-conformance 4.1; entries that are not texts become JSON; None removes it."""
        with self.lock:
            old = self.objects[CONFIG_MAPS].get(AUTHENTICATION)
            if entries is None:
                return self._change("DELETED", CONFIG_MAPS, AUTHENTICATION, old)
            document = copy.deepcopy(old) or {"metadata": {"name": AUTHENTICATION, "namespace": "kube-system",
                                                           "uid": str(uuid.uuid4()), "creationTimestamp": now()}}
            document["data"] = {key: value if isinstance(value, str) else json.dumps(value)
                                for key, value in entries.items()}
            return self._change("MODIFIED" if old else "ADDED", CONFIG_MAPS, AUTHENTICATION, document)

    def serve(self, collection, kind):
        """Adds a collection, without objects if it is new."""
        with self.lock:
            KINDS[collection] = kind
            self.objects.setdefault(collection, {})

    def unserve(self, collection):
        """Removes a collection and its objects, as if its CustomResourceDefinition was deleted; its watches end."""
        with self.lock:
            del self.objects[collection]
            self.lock.notify_all()

    def put(self, collection, document):
        """Creates or replaces an object; returns it."""
        with self.lock:
            metadata = document["metadata"]
            key = "/".join(part for part in (metadata.get("namespace"), metadata["name"]) if part)
            old = self.objects[collection].get(key)
            document = {**document, "metadata": {"uid": old["metadata"]["uid"] if old else str(uuid.uuid4()),
                                                 "creationTimestamp": now(), **metadata}}
            return self._change("MODIFIED" if old else "ADDED", collection, key, document)

    def remove(self, collection, key):
        with self.lock:
            return self._change("DELETED", collection, key, self.objects[collection][key])

    def register(self, group_version, **spec):
        """
        Creates or replaces the APIService of a group and version such as openreports.io/v1alpha1; returns it. The spec
        names a service unless service is None.
        """
        group, _, version = group_version.partition("/")
        name = f"{version}.{group}"
        spec = {"group": group, "version": version,
                "service": {"namespace": "kube-reports", "name": "kube-reports", "port": 443},
                "groupPriorityMinimum": 1000, "versionPriority": 10, **spec}
        return self.put(API_SERVICES, {"metadata": {"name": name}, "spec": spec})

    def api_service(self, group_version):
        """Returns the spec of an APIService."""
        group, _, version = group_version.partition("/")
        with self.lock:
            return copy.deepcopy(self.objects[API_SERVICES][f"{version}.{group}"]["spec"])

    # --- faults for clients ---

    def forget(self):
        """Makes all versions so far too old: watches from them get 410, and open watches get 410 at once."""
        with self.lock:
            self.version += 1
            self.floor = self.version
            self.lock.notify_all()

    def bookmark(self):
        """Sends a bookmark to every open watch that asked for bookmarks."""
        with self.lock:
            self.version += 1
            self.bookmarks = self.version
            self.lock.notify_all()

    def trouble(self, path, **what):
        """
        Sets a fault for requests whose path (with its query) matches the regular expression.  hold: an Event; the
        server waits until it is set, for at most a minute.  Then the server cuts the connection (drop), or answers with
        code and a text, a document or a Status (with retry_after in seconds); without any of these it answers as usual.
        method: the fault is for requests with this method only.  times: the number of requests with the fault; later
        requests are answered as usual.  calm() ends all faults.
        """
        with self.lock:
            self.troubles.append(Trouble(re.compile(path), **what))

    def calm(self):
        with self.lock:
            for trouble in self.troubles:
                if trouble.hold is not None:
                    trouble.hold.set()
            self.troubles = []

    def asked(self, path, method=None):
        """Returns the requests so far whose path matches the regular expression."""
        with self.lock:
            return [entry for entry in self.requests if re.search(path, entry.path) and method in (None, entry.method)]

    def _take_trouble(self, method, path):
        with self.lock:
            for trouble in self.troubles:
                if not trouble.path.search(path) or trouble.method not in (None, method) or trouble.times == 0:
                    continue
                if trouble.times is not None:
                    trouble.times -= 1
                return trouble
        return None


class Listener(http.server.ThreadingHTTPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        """Ignores errors: failed handshakes and cut connections are no errors of the test."""


def handler_of(apiserver):
    class BoundHandler(Handler):
        pass
    BoundHandler.apiserver = apiserver
    return BoundHandler


class Cut(Exception):
    """The connection ends without an answer."""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    retry_after = None
    # Send headers and body in one packet; otherwise Nagle's algorithm delays each answer.
    wbufsize = -1
    apiserver = None

    def setup(self):
        super().setup()
        with self.apiserver.lock:
            self.apiserver.connections.add(self.request)

    def finish(self):
        with self.apiserver.lock:
            self.apiserver.connections.discard(self.request)
        super().finish()

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.answer_request(self.get)

    def do_POST(self):
        self.answer_request(self.post)

    def do_PATCH(self):
        self.answer_request(self.patch)

    def do_DELETE(self):
        self.answer_request(self.delete)

    def answer_request(self, answer):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        subject = (self.request.getpeercert() or {}).get("subject", ())
        entry = SimpleNamespace(method=self.command, path=self.path, authorization=self.headers["Authorization"],
                                peer={key: value for group in subject for key, value in group})
        with self.apiserver.lock:
            self.apiserver.requests.append(entry)
            token = self.apiserver.token
        try:
            trouble = self.apiserver._take_trouble(self.command, self.path)
            if trouble is not None:
                if trouble.hold is not None:
                    trouble.hold.wait(60)
                if trouble.drop:
                    raise Cut
                if trouble.text is not None:
                    self.answer(trouble.code, "text/plain", trouble.text.encode())
                    return
                if trouble.document is not None:
                    self.document(trouble.code, trouble.document)
                    return
                if trouble.code is not None:
                    self.retry_after = trouble.retry_after
                    self.failure(trouble.code, "Trouble", "trouble of the test")
                    return
            if token is not None and entry.authorization != f"Bearer {token}":
                self.failure(401, "Unauthorized", "Unauthorized")
                return
            answer(body)
        except (Cut, OSError, ValueError):
            self.close_connection = True

    # --- answers ---

    def document(self, code, document):
        self.answer(code, "application/json", json.dumps(document).encode())

    def answer(self, code, content_type, body):
        self.send_response(code)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        if self.retry_after is not None:
            self.send_header("Retry-After", str(self.retry_after))
            self.retry_after = None
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def failure(self, code, reason, message, **details):
        self.document(code, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                             "message": message, "reason": reason, "details": details, "code": code})

    def get(self, _):
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        server = self.apiserver
        if url.path in server.objects:
            if query.get("watch") == "true":
                self.watch(url.path, query)
            else:
                self.list(url.path, query)
            return
        collection, _, name = url.path.rpartition("/")
        with server.lock:
            members = [path.rpartition("/")[2] for path in server.objects if path.rpartition("/")[0] == url.path
                       and path.startswith("/apis/")]
        if members:
            self.document(200, {"kind": "APIResourceList", "apiVersion": "v1",
                                "groupVersion": url.path.removeprefix("/apis/"), "resources": [
                {"name": plural, "kind": KINDS[f"{url.path}/{plural}"], "verbs": ["get", "list", "watch"]}
                                    for plural in members]})
            return
        if collection not in server.objects:
            self.failure(404, "NotFound", "the server could not find the requested resource")
            return
        with server.lock:
            found = server.objects[collection].get(name)
        if found is None:
            kind = collection.rpartition("/")[2]
            self.failure(404, "NotFound", f'{kind} "{name}" not found', name=name, kind=kind)
        else:
            self.document(200, {"kind": KINDS[collection], "apiVersion": "v1", **found})

    def list(self, collection, query):
        """Lists in pages, by key.  Each page shows the present state, which suffices for clients that then watch."""
        server = self.apiserver
        with server.lock:
            metadata = {"resourceVersion": str(server.version)}
            after = ""
            page = 0
            if "continue" in query:
                position = json.loads(base64.b64decode(query["continue"]))
                if position["version"] < server.floor:
                    self.failure(410, "Expired",
                                 "The provided continue parameter is too old to display a consistent list result.")
                    return
                after = position["after"]
                page = position["page"]
                metadata = {"resourceVersion": str(position["version"])}
            found = [(key, item) for key, item in sorted(server.objects[collection].items())
                     if key > after and selected(item, query)]
            items = [item for _, item in found]
            limit = min((size for size in (int(query.get("limit", 0)), server.page_size) if size), default=len(items))
            if len(items) > limit:
                items = items[:limit]
                position = {"version": int(metadata["resourceVersion"]), "after": found[limit - 1][0],
                            "page": page + 1}
                metadata["continue"] = base64.b64encode(json.dumps(position).encode()).decode()
            if collection in server.kubescape:
                del metadata["resourceVersion"]
                if not server.full_spec or query.get("resourceVersion") != "fullSpec":
                    items = [{**item, "spec": {}} for item in items]
                elif server.short_lists[collection][:1] == [page]:
                    server.short_lists[collection].pop(0)
                    items = []
                    metadata.pop("continue", None)
        self.document(200, {"kind": KINDS[collection] + "List", "apiVersion": "v1",
                            "metadata": metadata, "items": items})

    def frame(self, kind, document):
        line = json.dumps({"type": kind, "object": document}).encode() + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))

    def watch(self, collection, query):
        server = self.apiserver
        position = int(query["resourceVersion"])
        kind = {"kind": KINDS[collection], "apiVersion": "v1"}
        wants_bookmarks = query.get("allowWatchBookmarks") == "true"
        bookmarked = position
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while True:
            self.wfile.flush()
            with server.lock:
                while True:
                    if self.request not in server.connections:
                        raise Cut
                    if collection not in server.objects:
                        self.wfile.write(b"0\r\n\r\n")
                        self.wfile.flush()
                        return
                    expired = position < server.floor
                    events = [entry for entry in server.log
                              if entry[0] > position and entry[2] == collection and selected(entry[3], query)]
                    bookmark = wants_bookmarks and server.bookmarks > bookmarked
                    if expired or events or bookmark:
                        break
                    server.lock.wait()
                bookmarked = server.bookmarks
            if expired:
                self.frame("ERROR", {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                                     "message": f"too old resource version: {position} ({server.floor})",
                                     "reason": "Expired", "code": 410})
                self.wfile.write(b"0\r\n\r\n")
                self.wfile.flush()
                return
            for version, change, _, document in events:
                self.frame(change, {**kind, **document})
                position = version
            if bookmark:
                self.frame("BOOKMARK", {**kind,
                                        "metadata": {"resourceVersion": str(bookmarked), "creationTimestamp": None}})
                position = max(position, bookmarked)

    def post(self, body):
        path = urlsplit(self.path).path
        server = self.apiserver
        reviews = {TOKEN_REVIEWS: (server.token_reviews, server.token_rule),
                   ACCESS_REVIEWS: (server.access_reviews, server.access_rule)}
        if path.startswith("/api/v1/namespaces/") and path.endswith("/events"):
            event = json.loads(body)
            with server.lock:
                server.events.append((path, event))
            self.document(201, event)
            return
        if path == API_SERVICES:
            self.create(path, json.loads(body))
            return
        if path not in reviews:
            self.failure(404, "NotFound", "the server could not find the requested resource")
            return
        seen, rule = reviews[path]
        review = json.loads(body)
        with server.lock:
            seen.append(review)
        self.document(201, {**review, "status": rule(review["spec"])})


    def create(self, collection, document):
        name = document["metadata"]["name"]
        server = self.apiserver
        with server.lock:
            found = name in server.objects[collection]
            if not found:
                document = server.put(collection, document)
        if found:
            self.failure(409, "AlreadyExists", f'"{name}" already exists')
        else:
            self.document(201, {**document, "kind": KINDS[collection]})

    def patch(self, body):
        """Applies a merge patch to an APIService, which must have the version in the patch."""
        server = self.apiserver
        collection, _, name = urlsplit(self.path).path.rpartition("/")
        if collection != API_SERVICES or self.headers["Content-Type"] != "application/merge-patch+json":
            self.failure(415, "UnsupportedMediaType", "the stand-in does not patch this, or so")
            return
        patch = json.loads(body)
        with server.lock:
            document = copy.deepcopy(server.objects[collection].get(name))
            if document is None:
                self.failure(404, "NotFound", f'"{name}" not found')
                return
            if patch["metadata"]["resourceVersion"] != document["metadata"]["resourceVersion"]:
                self.failure(409, "Conflict", "the object has been modified")
                return
            merge(document, patch)
            if not document["spec"].get("service") and document["spec"].get("caBundle"):
                self.failure(422, "Invalid", "local APIServices may not have a caBundle")
                return
            document = server._change("MODIFIED", collection, name, document)
        self.document(200, {"kind": KINDS[collection], "apiVersion": "apiregistration.k8s.io/v1", **document})

    def delete(self, body):
        """Deletes an APIService, with preconditions."""
        server = self.apiserver
        collection, _, name = urlsplit(self.path).path.rpartition("/")
        if collection != API_SERVICES:
            self.failure(405, "MethodNotAllowed", "the stand-in does not delete this")
            return
        wanted = json.loads(body or b"{}").get("preconditions", {})
        with server.lock:
            document = server.objects[collection].get(name)
            if document is None:
                self.failure(404, "NotFound", f'"{name}" not found')
                return
            if any(document["metadata"][key] != value for key, value in wanted.items()):
                self.failure(409, "Conflict", "the object has been modified")
                return
            server.remove(collection, name)
        self.document(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})


def merge(document, patch):
    """Merges a patch into an object (RFC 7386)."""
    for key, value in patch.items():
        if isinstance(value, dict):
            if not isinstance(document.get(key), dict):
                document[key] = {}
            merge(document[key], value)
        elif value is None:
            document.pop(key, None)
        else:
            document[key] = value


def selected(item, query):
    """Returns whether an item matches: metadata.name=x, as informers of one object send it, and label=value."""
    field, _, value = query.get("fieldSelector", "").partition("=")
    label, _, wanted = query.get("labelSelector", "").partition("=")
    return (not field or item["metadata"]["name"] == value) and (not label
        or item["metadata"].get("labels", {}).get(label) == wanted)
