"""kube-aggregator for an extension server: forwarded requests, and requests of its controllers.

The requests have the same bytes as those of Go's client over HTTP/1.1: FrontProxy adds, removes and escapes headers,
and encodes path and query again, as Go does.
"""

import concurrent.futures
import gzip
import http.client
import socket
import ssl
import string
import urllib.parse
import urllib.request

from client import Answer, until

# Characters of a header's name, which Go does not escape in the key of an extra.
TOKEN = set(string.ascii_letters + string.digits + "!#$&'*+-.^_`|~")
# Characters that Go does not escape in a path and in a query.
PATH_SAFE = "$&+,/:;=@-_.~"
QUERY_SAFE = "-_.~"

AGGREGATED = ("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
              "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList")
# Before Kubernetes 1.30, kube-aggregator asks for this only.
AGGREGATED_BETA = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"

HOP_BY_HOP = {"connection", "proxy-connection", "keep-alive", "proxy-authenticate",
              "proxy-authorization", "te", "trailer",
              "transfer-encoding", "upgrade"}


def canonical(name):
    """Returns the name of a header as http.CanonicalHeaderKey does."""
    return "-".join(part[:1].upper() + part[1:].lower() for part in name.split("-"))


def escape_key(key):
    """Returns the key of an extra as part of a header's name."""
    return "".join(char if char in TOKEN else "".join(f"%{byte:02X}" for byte in char.encode()) for char in key)


def encode_query(query):
    """Encodes a query as url.Values.Encode() does: sorted by key, without parameters with a raw semicolon."""
    values = {}
    for pair in query.split("&"):
        if not pair or ";" in pair:
            continue
        key, _, value = pair.partition("=")
        values.setdefault(urllib.parse.unquote_plus(key), []).append(urllib.parse.unquote_plus(value))
    return "&".join(f"{urllib.parse.quote_plus(key, safe=QUERY_SAFE)}={urllib.parse.quote_plus(value, safe=QUERY_SAFE)}"
                    for key in sorted(values) for value in values[key])


def encode_target(target):
    """Encodes a path from its decoded form, in which %2F has become a slash; encodes the query again."""
    path, _, query = target.partition("?")
    encoded = urllib.parse.quote(urllib.parse.unquote(path), safe=PATH_SAFE)
    return encoded + ("?" + encode_query(query) if query else "")


class Response:
    """An answer as Go's transport returns it: inflated when the transport itself asked for gzip."""

    def __init__(self, connection, response, transparent):
        self.connection = connection
        self.response = response
        self.transparent = transparent
        self.code = response.status
        self.headers = response.headers

    def answer(self):
        body = self.response.read()
        if self.transparent and self.headers["Content-Encoding"] == "gzip":
            body = gzip.decompress(body)
        return Answer(self.response, body)

    def close(self):
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.connection.close()


class FrontProxy:
    """kube-apiserver as the client of an extension server, with the front proxy's client certificate."""

    def __init__(self, port, ca, certificate, server_name="localhost", keep=False):
        self.port = port
        self.server_name = server_name
        self.context = ssl.create_default_context(cafile=ca)
        self.context.set_alpn_protocols(["http/1.1"])
        if certificate is not None:
            self.context.load_cert_chain(certificate + ".crt", certificate + ".key")
        self.keep = keep
        self.connection = None

    def connect(self, seconds=30):
        return self.context.wrap_socket(socket.create_connection(("127.0.0.1", self.port), seconds),
                                        server_hostname=self.server_name)

    def send(self, method, target, headers, body=None, seconds=30):
        """Sends exactly these headers, sorted as Go sends them; reads the head of the answer."""
        headers = [(name, value) for name, value in headers if value is not None]
        names = [name.lower() for name, _ in headers]
        transparent = "accept-encoding" not in names and method != "HEAD"
        if transparent:
            headers.append(("Accept-Encoding", "gzip"))
        if body is not None:
            headers.append(("Content-Length", str(len(body))))
        lines = [f"{method} {target} HTTP/1.1", f"Host: 127.0.0.1:{self.port}"]
        lines += [f"{name}: {value}" for name, value in sorted(headers, key=lambda header: header[0])]
        connection = self.connection or self.connect(seconds)
        self.connection = None
        connection.sendall("\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + (body or b""))
        response = http.client.HTTPResponse(connection, method=method)
        response.begin()
        return Response(connection, response, transparent)

    def whole(self, *arguments, **more):
        response = self.send(*arguments, **more)
        answer = response.answer()
        if self.keep and answer.headers["Connection"] != "close":
            self.connection = response.connection
        else:
            response.close()
        return answer

    @staticmethod
    def identity(user, groups=(), uid=None, extra=None):
        headers = [("X-Remote-User", user), *(("X-Remote-Group", group) for group in groups)]
        if uid is not None:
            headers.append(("X-Remote-Uid", uid))
        for key, values in (extra or {}).items():
            headers += [(canonical("X-Remote-Extra-" + escape_key(key)), value) for value in values]
        return headers

    # --- requests of clients ---

    def forwarded(self, target, headers, identity):
        """Returns the headers of a request that kube-apiserver forwards."""
        dropped = HOP_BY_HOP | {"authorization", "host", "content-length"}
        kept = [(canonical(name), value) for name, value in headers
                if name.lower() not in dropped and not name.lower().startswith(("x-remote-", "x-forwarded-"))]
        if not any(name == "User-Agent" for name, _ in kept):
            kept.append(("User-Agent", "Go-http-client/1.1"))
        return kept + [("X-Forwarded-For", "203.0.113.7"), ("X-Forwarded-Host", "kubernetes.default.svc:443"),
                       ("X-Forwarded-Proto", "https"),
                       ("X-Forwarded-Uri", encode_target(target).partition("?")[0]), *identity]

    def open(self, method, target, user="alice", groups=("system:authenticated",), uid=None, extra=None,
             headers=(), body=None,
             seconds=30):
        """Forwards a client's request; the caller reads the body of the answer."""
        identity = self.identity(user, groups, uid, extra)
        return self.send(method, encode_target(target), self.forwarded(target, headers, identity), body, seconds)

    def request(self, method, target, user="alice", groups=("system:authenticated",), uid=None, extra=None,
                headers=(), body=None,
                seconds=30):
        identity = self.identity(user, groups, uid, extra)
        return self.whole(method, encode_target(target), self.forwarded(target, headers, identity),
                          body=body, seconds=seconds)

    def get(self, target, **more):
        return self.request("GET", target, **more)

    # --- requests of controllers ---

    def availability(self, group_version):
        """Checks availability: five requests at the same time, each with five seconds, without Accept."""
        headers = [("User-Agent", "Go-http-client/1.1"), *self.identity("system:kube-aggregator", ["system:masters"])]
        with concurrent.futures.ThreadPoolExecutor(5) as pool:
            return list(pool.map(lambda _: self.whole("GET", f"/apis/{group_version}", headers, seconds=5), range(5)))

    def aggregated_discovery(self, etag=None, accept=AGGREGATED):
        return self.whole("GET", "/apis", [("Accept", accept), ("If-None-Match", etag),
                                           ("User-Agent", "Go-http-client/1.1"),
                                           *self.identity("system:kube-aggregator", ["system:masters"])], seconds=5)

    def legacy_discovery(self, group_version):
        """Requests the legacy document, as for servers without the aggregated one; the user has no groups."""
        return self.whole("GET", f"/apis/{group_version}", [("Accept", "application/json"),
            ("User-Agent", "Go-http-client/1.1"),
                                                            *self.identity("system:kube-aggregator")], seconds=5)

    def openapi_v2(self, etag=None):
        return self.whole("GET", "/openapi/v2", [("Accept", "application/json"), ("If-None-Match", etag),
                                                 ("User-Agent", "Go-http-client/1.1"),
                                                 *self.identity("system:aggregator")], seconds=60)

    def openapi_v3(self):
        return self.whole("GET", "/openapi/v3", [("User-Agent", "Go-http-client/1.1"),
                                                 *self.identity("system:aggregator")], seconds=60)


class Delegation:
    """A proxy that delegates to a kube-apiserver of its own, and the certificates of a front proxy."""

    def __init__(self, stack, apiserver, command, flags=(), **entries):
        """
        command is stack_command(); flags are added to the proxy's flags; entries replace entries of the ConfigMap
        (None: the entry is omitted).
        """
        self.stack = stack
        self.apiserver = apiserver
        self.command = command
        self.directory = f"{apiserver.certificates}/front"
        command("certificates", self.directory)
        command("certificate", self.directory, "front-proxy-client", "/CN=front-proxy-client", "clientAuth")
        self.entries = {
            "client-ca-file": read(f"{stack.pki}/ca.crt"),
            "requestheader-client-ca-file": read(f"{self.directory}/ca.crt"),
            "requestheader-allowed-names": ["front-proxy-client"],
            "requestheader-username-headers": ["X-Remote-User"],
            "requestheader-uid-headers": ["X-Remote-Uid"],
            "requestheader-group-headers": ["X-Remote-Group"],
            "requestheader-extra-headers-prefix": ["X-Remote-Extra-"],
        }
        self.publish(**entries)
        self.kubeconfig = apiserver.kubeconfig(f"{stack.pki}/kubeconfig-{apiserver.port}", token="delegate")
        # The last of two equal flags counts. CAs come from the ConfigMap; one worker has one cache.
        self.proxy = stack.proxy(ready=False,
                                 flags=["--client-ca-file=", "--authorization-mode=Webhook", "--workers=1", "--v=2",
                                        f"--authentication-kubeconfig={self.kubeconfig}", *flags])
        until(self.ready, 30, "readiness of the proxy")

    def ready(self):
        """Returns whether /readyz of the plain port passes; on the API port the answer depends on the ConfigMap."""
        assert self.proxy.process.poll() is None, self.proxy.log_path.read_text()[-2000:]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.proxy.metrics_port}/readyz", timeout=10) as answer:
                return answer.status == 200
        except OSError:
            return False

    def publish(self, **entries):
        """Changes entries of the ConfigMap, named with underscores."""
        self.entries.update({name.replace("_", "-"): value for name, value in entries.items()})
        self.apiserver.set_authentication({name: value for name, value in self.entries.items() if value is not None})

    def certificate(self, name, subject, usage="clientAuth", directory=None):
        """Makes a certificate of the front proxy's CA, or of a directory's CA; returns its path without a suffix."""
        directory = directory or self.directory
        self.command("certificate", directory, name, subject, usage)
        return f"{directory}/{name}"

    def front(self, certificate="front-proxy-client", keep=False):
        path = certificate if certificate is None or "/" in certificate else f"{self.directory}/{certificate}"
        return FrontProxy(self.proxy.port, f"{self.stack.pki}/ca.crt", path, keep=keep)

    def seen(self, user):
        """Returns the specs of the SubjectAccessReviews about a user so far."""
        return [review["spec"] for review in list(self.apiserver.access_reviews) if review["spec"].get("user") == user]

    def end(self):
        self.proxy.stop()


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()
