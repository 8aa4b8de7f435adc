"""--cluster-id left out: the uid of kube-system, asked from kube-apiserver with a kubeconfig (DESIGN section 3)."""

import http.server
import json
import os
import ssl
import threading

import pytest

from client import POLR, path_of, until


class Apiserver:
    """A stand-in for kube-apiserver: it knows the namespace kube-system once uid is set, and who asks."""

    def __init__(self, pki):
        asked = self.asked = []
        outer = self
        self.uid = None

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append((self.path, self.headers["Authorization"]))
                document = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "kube-system", "uid": outer.uid}}
                self.send_response(200 if outer.uid else 503)
                self.end_headers()
                self.wfile.write(json.dumps(document).encode())

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{pki}/serving.crt", f"{pki}/serving.key")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def kubeconfig(self, path, **user):
        document = f"""
apiVersion: v1
kind: Config
current-context: here
contexts: [{{name: other, context: {{cluster: none, user: none}}}}, {{name: here, context: {{cluster: c, user: u}}}}]
clusters:
- name: c
  cluster:
    server: https://127.0.0.1:{self.server.server_address[1]}/
    certificate-authority: ca.crt
users:
- name: u
  user: {json.dumps(user)}
"""
        with open(path, "w", encoding="utf-8") as file:
            file.write(document)
        os.chmod(path, 0o644)
        return path


@pytest.fixture
def apiserver(stack):
    server = Apiserver(stack.pki)
    yield server
    server.server.shutdown()


def test_asked_from_kube_apiserver(stack, apiserver):
    path = apiserver.kubeconfig(f"{stack.pki}/kubeconfig-token", token="secret-token")
    proxy = stack.proxy(ready=False, flags=["--cluster-id=", f"--authentication-kubeconfig={path}"])
    # It waits for an answer and serves nothing meanwhile; what it then serves is that cluster.
    until(lambda: apiserver.asked, 20, "the first question")
    assert proxy.answers() is None
    apiserver.uid = stack.cluster
    proxy.wait_ready()
    assert set(apiserver.asked) == {("/api/v1/namespaces/kube-system", "Bearer secret-token")}
    assert proxy.api().get(path_of(POLR)).code == 200
    assert stack.first.api().names(POLR) == proxy.api().names(POLR)


@pytest.mark.parametrize("user, text", [
    ({"exec": {"command": "login"}}, "credentials of a plugin are not supported"),
    ({"client-certificate-data": "%%%"}, "client-certificate-data is not base64"),
    ({"client-certificate": "missing.crt"}, "missing.crt: No such file or directory"),
])
def test_unusable_kubeconfig(stack, apiserver, user, text):
    path = apiserver.kubeconfig(f"{stack.pki}/kubeconfig-bad", **user)
    proxy = stack.proxy(ready=False, flags=["--cluster-id=", f"--authentication-kubeconfig={path}"])
    until(lambda: text in proxy.log_path.read_text(), 20, "the reason in the log")
    assert apiserver.asked == []
