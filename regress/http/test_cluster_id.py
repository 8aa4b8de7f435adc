"""Without --cluster-id the proxy asks kube-apiserver for the uid of kube-system (DESIGN section 3)."""

import pytest

from client import POLR, path_of, until


def test_asked_from_kube_apiserver(stack, apiserver):
    apiserver.token = "secret-token"
    apiserver.delete_namespace("kube-system")
    path = apiserver.kubeconfig(f"{stack.pki}/kubeconfig-token", token="secret-token")
    proxy = stack.proxy(ready=False, flags=["--cluster-id=", f"--authentication-kubeconfig={path}"])
    # The proxy waits for the uid and serves nothing before; then it serves the cluster with this uid.
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
    """A server whose certificate is not of the CA is not trusted, and does not get the token."""
    path = apiserver.kubeconfig(f"{stack.pki}/kubeconfig-wrong-ca", ca=f"{stack.pki}/ca.crt", token="secret-token")
    proxy = stack.proxy(ready=False, flags=["--cluster-id=", f"--authentication-kubeconfig={path}"])
    until(lambda: "the cluster's id is not known yet" in proxy.log_path.read_text(), 20, "the reason in the log")
    assert apiserver.asked(".") == []
    proxy.stop()
