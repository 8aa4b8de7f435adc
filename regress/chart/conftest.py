"""Renders the chart by real helm; .ci/check-chart names the helms, and the directory of Kubernetes' schemas."""

import functools
import json
import os
import pathlib
import shutil
import socket
import subprocess

import pytest
import yaml

TOP = pathlib.Path(__file__).resolve().parents[2]
CHART = TOP / "helm" / "kube-reports"
PROXY = TOP / "proxy" / "build" / "kube-reports-proxy"
HELMS = {"helm3": os.environ["HELM3"], "helm4": os.environ["HELM4"]}
KUBE_VERSION = "1.31.0"
CLUSTER = "3b241101-e2bb-4255-8caf-4136c566a962"
STACK = str(TOP / ".ci" / "stack.sh")
SETUP = CHART / "files" / "database.sql"


# The loader in C takes a tenth of the time.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def yaml_documents(text):
    return [document for document in yaml.load_all(text, Loader=LOADER) if document]


def helm(*arguments, binary="helm3", check=True, **more):
    done = subprocess.run(
        [HELMS[binary], *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False, **more
    )
    if check:
        assert done.returncode == 0, f"helm {' '.join(map(str, arguments))}: {done.stderr}"
    return done


def template(values, binary="helm3", kube_version=KUBE_VERSION, release="kube-reports", check=True):
    """Runs helm template with values as JSON; returns the finished process."""
    return helm("template", release, CHART, "--namespace", release, "--kube-version", kube_version, "--values", "-",
                binary=binary, check=check, input=values)


@functools.lru_cache(maxsize=None)
def rendered_text(values, binary, kube_version, release):
    return template(values, binary, kube_version, release).stdout


def render(values=None, binary="helm3", kube_version=KUBE_VERSION, release="kube-reports"):
    """Returns the objects of the chart with these values: new objects for each call."""
    return yaml_documents(rendered_text(json.dumps(values or {}), binary, kube_version, release))


def refused(values, binary="helm3"):
    """Returns the error message of helm for wrong values."""
    done = template(json.dumps(values), binary, check=False)
    assert done.returncode != 0, "helm takes these values"
    return done.stderr


def of_kind(objects, *kinds):
    return [one for one in objects if one["kind"] in kinds]


def named(objects, kind, name):
    found = [one for one in of_kind(objects, kind) if one["metadata"]["name"] == name]
    assert len(found) == 1, f"{len(found)} objects are {kind} {name}"
    return found[0]


def pods(objects):
    """Returns (object, pod template) of all objects that make pods."""
    return [(one, one["spec"]["template"]) for one in of_kind(objects, "Deployment", "StatefulSet", "Job")]


def containers(pod):
    return pod["spec"].get("initContainers", []) + pod["spec"]["containers"]


@pytest.fixture(params=HELMS)
def binary(request):
    return request.param


# ---- a server ----


def stack_command(*arguments):
    return subprocess.run(
        ["/bin/bash", STACK, *map(str, arguments)], capture_output=True, text=True, check=True, timeout=300
    ).stdout.strip()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """A throw-away server, on its socket alone unless it has a port."""

    def __init__(self, port="", settings=(), primary=None):
        """primary: the server of which this one becomes a streaming standby."""
        self.directory, self.port = stack_command("server_directory"), port
        stack_command("server_install", self.directory)
        if primary:
            stack_command("as_server", "pg_basebackup", "-d", primary.connection("postgres", "postgres"), "-R",
                          "-X", "stream", "-D", f"{self.directory}/data", "--no-sync", "--checkpoint=fast")
        stack_command("server_start", self.directory, port, "fsync = off", *settings)

    def psql(self, sql, user="postgres", database="postgres", check=True):
        done = subprocess.run(
            ["psql", "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d", self.connection(user, database)],
            input=sql,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout.strip() if check else done

    def connection(self, user, database):
        return f"host={self.directory} user={user} dbname={database}" + (f" port={self.port}" if self.port else "")

    def setup(self, user, database, password="", check=True, **variables):
        variables = {"cluster": CLUSTER, **variables}
        done = subprocess.run(
            [
                "psql",
                "-X",
                "-q",
                "-d",
                self.connection(user, database),
                *(f"-v{name}={text}" for name, text in variables.items()),
                "-f",
                SETUP,
            ],
            env={**os.environ, "PROXY_PASSWORD": password},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0 or not check, done.stderr
        return done

    def remove(self):
        stack_command("server_stop", self.directory, "immediate")
        shutil.rmtree(self.directory, ignore_errors=True)


@pytest.fixture(scope="module")
def server():
    one = Server()
    yield one
    one.remove()
