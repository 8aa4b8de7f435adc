"""What the proxy tells a service manager: sd_notify(3), issue 16."""

import os
import pathlib
import shutil
import socket
import tempfile

import pytest


@pytest.mark.parametrize("name", ["path", "abstract"])
def test_ready_and_stopping(stack, name):
    """The proxy sends a datagram when its ports are open, and one when its end begins: to a path or an abstract name"""
    manager, directory = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), None
    manager.settimeout(30)
    if name == "path":
        # The proxy runs as another user, and the path of a socket must be short.
        directory = pathlib.Path(tempfile.mkdtemp(prefix="kube-reports-"))
        directory.chmod(0o711)
        address = str(directory / "socket")
        manager.bind(address)
        os.chmod(address, 0o777)
    else:
        manager.bind(f"\0kube-reports-{stack.first.port}")
        address = f"@kube-reports-{stack.first.port}"
    proxy = stack.proxy(ready=False, environment={"NOTIFY_SOCKET": address})
    try:
        assert manager.recv(100) == b"READY=1"
        # The port accepts a connection at once, before the test has read the log.
        socket.create_connection(("127.0.0.1", proxy.port), 5).close()
        proxy.wait_ready()
    finally:
        stack.end_proxies(kept=[other for other in stack.proxies if other is not proxy])
    assert manager.recv(100) == b"STOPPING=1"
    manager.close()
    if directory:
        shutil.rmtree(directory)


def test_nobody_to_tell(stack):
    """A NOTIFY_SOCKET that is no socket is logged, and the proxy goes on"""
    proxy = stack.proxy(environment={"NOTIFY_SOCKET": "nothing"})
    try:
        assert "NOTIFY_SOCKET names no socket: nothing" in proxy.log_path.read_text(encoding="utf-8")
    finally:
        stack.end_proxies(kept=[other for other in stack.proxies if other is not proxy])
