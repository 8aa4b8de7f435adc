"""What the proxy tells a service manager: sd_notify(3), issue 16."""

import os
import pathlib
import shutil
import socket
import tempfile

import pytest


@pytest.mark.parametrize("name", ["path", "abstract"])
def test_ready_and_stopping(stack, name):
    """One datagram when the ports are open, one when the end begins; by a path, and by a name that is no file"""
    manager, directory = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), None
    manager.settimeout(30)
    if name == "path":
        # The proxy is another user, and a socket's path is short.
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
        # What listens accepts at once, with no look at the log before.
        socket.create_connection(("127.0.0.1", proxy.port), 5).close()
        proxy.wait_ready()
    finally:
        stack.end_proxies(kept=[other for other in stack.proxies if other is not proxy])
    assert manager.recv(100) == b"STOPPING=1"
    manager.close()
    if directory:
        shutil.rmtree(directory)


def test_nobody_to_tell(stack):
    """A name that is no socket is told once and is no reason to end"""
    proxy = stack.proxy(environment={"NOTIFY_SOCKET": "nothing"})
    try:
        assert "NOTIFY_SOCKET names no socket: nothing" in proxy.log_path.read_text(encoding="utf-8")
    finally:
        stack.end_proxies(kept=[other for other in stack.proxies if other is not proxy])
