"""make up: what it remembers, and what it leaves for kubectl and psql."""

import os
import pathlib
import shutil
import socket

import pytest

from client import run
from conftest import TOP, free_port


class Checkout:
    """make goals in a directory of its own, on ports of its own."""

    def __init__(self):
        # A short path that the server's user may enter.
        self.directory = pathlib.Path(run(["mktemp", "-d", "/tmp/kube-reports-up-XXXXXX"]).out.strip())
        self.directory.chmod(0o755)
        self.run_dir = self.directory / "run"
        unset = ("KUBECONFIG", "PORT", "METRICS_PORT", "PG_PORT", "DATABASE", "CLUSTER_ID", "CLUSTER_NAME",
                 "PROXY_FLAGS")
        self.environment = {name: value for name, value in os.environ.items() if name not in unset}
        self.environment["RUN_DIR"] = str(self.run_dir)

    def make(self, goal, check=True, **variables):
        given = [f"{name}={value}" for name, value in variables.items()]
        return run(["make", "--no-print-directory", goal, *given],
                   check=check, timeout=300, cwd=TOP, env=self.environment)

    def psql(self, sql, env="env", check=True):
        script = f'. {self.run_dir}/{env} && exec psql -X -A -t -v ON_ERROR_STOP=1 -c "$0"'
        done = run(["bash", "-c", script, sql], check=check, env=self.environment)
        return done.out.strip() if check else done

    def command_line(self):
        """The flags of the proxy that runs."""
        pid = (self.run_dir / "server" / "proxy.pid").read_text().strip()
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")

    def end(self):
        self.make("clean-run", check=False)
        shutil.rmtree(self.directory, ignore_errors=True)


@pytest.fixture(scope="module")
def checkout():
    made = Checkout()
    try:
        yield made
    finally:
        made.end()


def test_what_failed_is_forgotten(checkout):
    """make up fails by each of its settings in turn; then one with good ports succeeds, and the next keeps them"""
    ports = {"PORT": free_port(), "METRICS_PORT": free_port(), "PG_PORT": free_port()}
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        busy = taken.getsockname()[1]
        wrong = checkout.make("up", check=False, **ports, CLUSTER_ID="no-uuid")
        assert wrong.code != 0 and "CLUSTER_ID is no uuid" in wrong.err
        wrong = checkout.make("up", check=False, **{**ports, "PG_PORT": busy})
        assert wrong.code != 0 and "PostgreSQL did not start on port" in wrong.err
        wrong = checkout.make("up", check=False, **{**ports, "PORT": busy}, PROXY_FLAGS="--workers=1")
        assert wrong.code != 0 and "the proxy does not answer" in wrong.err
    # As if they had never been given: what failed is neither in the settings nor in a process.
    assert not (checkout.run_dir / "kubeconfig").exists()
    checkout.make("up", **ports, CLUSTER_NAME="shop-eu")
    assert "--workers=1" not in checkout.command_line()

    # A stack that runs: settings that fail are gone with the next call, which starts it as it was.
    wrong = checkout.make("up", check=False, PROXY_FLAGS="--no-such-flag")
    assert wrong.code != 0 and "no-such-flag" in wrong.err
    again = checkout.make("up").out
    assert f"https://127.0.0.1:{ports['PORT']}," in again
    assert "--no-such-flag" not in checkout.command_line()


def test_flags_stay_until_taken_back(checkout):
    checkout.make("up", PROXY_FLAGS="--workers=1")
    checkout.make("up")
    assert "--workers=1" in checkout.command_line()
    checkout.make("up", PROXY_FLAGS="")
    assert "--workers=1" not in checkout.command_line()


def test_cluster_name_and_id(checkout):
    """CLUSTER_NAME is what views show, and stays; another CLUSTER_ID than the database's is refused"""
    assert checkout.psql("SELECT name FROM kube_reports.cluster") == "shop-eu"
    assert "--cluster-name=shop-eu" in checkout.command_line()
    other = checkout.make("up", check=False, CLUSTER_ID="3b241101-e2bb-4255-8caf-4136c566a962")
    assert other.code != 0 and "has the cluster" in other.err


def test_env_of_a_reader(checkout):
    """.run/env.reader is for analysts: it reads results and writes nothing; make help names it"""
    assert checkout.psql("SELECT current_user", "env.reader") == "kube_reports_reader"
    assert int(checkout.psql("SELECT count(*) FROM kube_reports.failing_by_policy_namespace", "env.reader")) > 10
    assert "permission denied" in checkout.psql("DELETE FROM kube_reports.object", "env.reader", check=False).err
    told = run(["make", "--no-print-directory", "help"], cwd=TOP).out
    for name in (".run/env.reader", "CLUSTER_NAME", "PROXY_FLAGS"):
        assert name in told, name
