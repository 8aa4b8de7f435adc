#!/usr/bin/python3
"""The same as regress/clients/stack.py, with a real aggregator: a control plane whose APIServices lead to a proxy.

The protocol is the same: a line of JSON has the addresses for clients, where both "ports" are kube-apiserver's, and
each line of standard input is a command:

    restart N        the APIServices move to another proxy, as in a rolling restart, and the proxy before is restarted
    compact          forgets the change log up to now

The stack ends with its standard input.
"""

import sys
import unittest.mock

sys.dont_write_bytecode = True

from conftest import HTTP, TOP, Cluster  # noqa: E402
from control_plane import GROUP_VERSIONS  # noqa: E402

sys.path.append(str(TOP / "regress" / "clients"))
with unittest.mock.patch.dict(sys.modules, conftest=HTTP):
    from stack import compact, serve  # noqa: E402

# Clients name namespaces and owners that they do not create.
FLAGS = ["--disable-admission-plugins=NamespaceLifecycle"]
CONTROLLERS = ["--controllers=*,-garbage-collector-controller"]


class Clients(Cluster):
    """Two proxies; the APIServices lead to one of them."""

    def begin(self):
        self.grant()
        self.plane.service()
        self.proxies = [self.proxy(*FLAGS), self.proxy(*FLAGS)]
        self.lead()
        return {"ports": [self.plane.port] * 2, "pki": self.stack.pki, "kubeconfig": self.plane.kubeconfig}

    def lead(self):
        self.plane.apply(*(self.plane.api_service(name, self.proxies[0].port) for name in GROUP_VERSIONS))
        self.plane.wait_available()

    def obey(self, line):
        words = line.split()
        if words[0] == "restart":
            self.proxies.reverse()
            self.lead()
            self.proxies[1].restart()
        elif words == ["compact"]:
            compact(self.stack)
        else:
            raise ValueError(f"no such command: {line}")


def main():
    cluster = Clients(manager_flags=CONTROLLERS)
    serve(cluster.begin, cluster.obey, cluster.end)


if __name__ == "__main__":
    main()
