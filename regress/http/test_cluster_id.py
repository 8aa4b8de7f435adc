"""--cluster-id left out: the uid of kube-system, asked from kube-apiserver with a kubeconfig (DESIGN section 3)."""

import pytest

from client import POLR, path_of, until


def test_asked_from_kube_apiserver(stack, apiserver):
    apiserver.token = "secret-token"
    apiserver.delete_namespace("kube-system")
    path = apiserver.kubeconfig(f"{stack.pki}/kubeconfig-token", token="secret-token")
    proxy = stack.proxy(ready=False, flags=["--cluster-id=", f"--authentication-kubeconfig={path}"])
    # It waits for an answer and serves nothing meanwhile; what it then serves is that cluster.
    until(lambda: apiserver.asked("/kube-system$"), 20, "the first question")
    assert proxy.answers() is None
    apiserver.create_namespace("kube-system", uid=stack.cluster)
    proxy.wait_ready()
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
    assert apiserver.asked(".") == []


def test_wrong_ca(stack, apiserver):
    """A server without a certificate of the CA is not believed, and does not get the token."""
    path = apiserver.kubeconfig(f"{stack.pki}/kubeconfig-wrong-ca", ca=f"{stack.pki}/ca.crt", token="secret-token")
    proxy = stack.proxy(ready=False, flags=["--cluster-id=", f"--authentication-kubeconfig={path}"])
    until(lambda: "the cluster's id is not known yet" in proxy.log_path.read_text(), 20, "the reason in the log")
    assert apiserver.asked(".") == []
    proxy.stop()
