#!/usr/bin/python3
"""A throw-away stack for clients written in other languages: a database and two proxies of one cluster.

When both proxies are ready, one line of JSON says where they are: {"ports": [...], "pki": directory, "kubeconfig":
file}; pki has ca.crt and the administrator's admin.crt and admin.key, kubeconfig leads to the first proxy.
Then each line of standard input is one command, answered by one line of JSON, {} or {"error": text}:

    restart N        ends proxy N (0 or 1) by SIGTERM and starts it again on its port
    compact          forgets the change log up to now

The stack ends with its standard input.
"""

import json
import pathlib
import signal
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "http"))

from client import until  # noqa: E402
from conftest import Stack  # noqa: E402


def compact(stack):
    """Compacts the change log: every version that a client knows is too old afterwards."""
    now = stack.database.psql("SELECT clock_timestamp()")
    stack.database.psql("SELECT kube_reports.set_setting('log_retention', '0 seconds')")
    # While a proxy compacts the log, this call does nothing.
    until(lambda: stack.database.psql("SELECT kube_reports_internal.compact(); SELECT count(*) FROM "
                                      "kube_reports_internal.change WHERE at <= :'now'",
                                      now=now).split()[-1] == "0", 20, "the end of the compaction")
    stack.database.psql("SELECT kube_reports.set_setting('log_retention', '60 minutes')")


def obey(stack, proxies, line):
    words = line.split()
    if words[0] == "restart":
        proxies[int(words[1])].restart()
    elif words[0] == "compact":
        compact(stack)
    else:
        raise ValueError(f"no such command: {line}")


def serve(begin, obey, end):
    """Prints where the stack is, executes each line of standard input; ends the stack, also one begun in part."""
    # An interrupt from the terminal also reaches the client, which closes the standard input of this program.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        print(json.dumps(begin()), flush=True)
        for line in sys.stdin:
            try:
                answer = obey(line) or {}
            except Exception as error:  # reported to the client, whose test fails
                answer = {"error": repr(error)}
            print(json.dumps(answer), flush=True)
    finally:
        end()


def main():
    stack = Stack()
    proxies = []

    def begin():
        stack.begin()
        proxies.extend(stack.proxy(ready=False) for _ in range(2))
        for proxy in proxies:
            proxy.wait_ready()
        return {"ports": [proxy.port for proxy in proxies], "pki": stack.pki, "kubeconfig": proxies[0].kubeconfig()}

    serve(begin, lambda line: obey(stack, proxies, line), stack.end)


if __name__ == "__main__":
    main()
