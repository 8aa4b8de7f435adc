"""Command lines of the chart, parsed by the programs themselves."""

import subprocess

import psycopg2.extensions
import pytest

from conftest import PROXY, containers, named, pods, render
from matrix import EXTERNAL, MATRIX

every_values = pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
BUNDLED_CA = "/etc/kube-reports/database/ca.crt"


def proxy_commands(objects):
    """Returns the command lines of kube-reports-proxy, without its name."""
    for _, pod in pods(objects):
        for container in containers(pod):
            if container["command"][0] == "kube-reports-proxy":
                yield container["command"][1:] + container.get("args", [])


def receiver_commands(objects):
    """Returns the other programs, each with its command line."""
    for _, pod in pods(objects):
        for container in containers(pod):
            if container["command"][0] in ("kube-reports-grpc", "kube-reports-evidence"):
                yield container["command"][0], container["args"]


def flags(objects):
    """Returns the flags of the proxy, by name."""
    container = named(objects, "Deployment", "kube-reports")["spec"]["template"]["spec"]["containers"][0]
    return dict(argument[2:].split("=", 1) for argument in container["args"])


@every_values
def test_every_flag_is_one(values):
    """The programs accept all flags and values: --help at the end works only when the flags before it are valid."""
    lines = list(proxy_commands(render(values)))
    assert lines
    own = [("kube-reports-proxy", line) for line in lines]
    for program, line in [*own, *receiver_commands(render(values))]:
        done = subprocess.run([PROXY.parent / program, *line, "--help"], capture_output=True, text=True, timeout=30,
                              check=False)
        assert done.returncode == 0, f"{' '.join(line)}: {done.stderr}"
        assert done.stdout.startswith(program) or "Usage:" in done.stdout


@pytest.mark.parametrize("extra", [{"no-such-flag": 1}, {"workers": "many"}])
def test_a_wrong_flag_is_noticed(extra):
    """The check above finds wrong flags and values."""
    line = next(iter(proxy_commands(render({"proxy": {"extraFlags": extra}, "apiServices": {"method": "none"}}))))
    assert subprocess.run([PROXY, *line, "--help"], capture_output=True, timeout=30, check=False).returncode == 2


def test_values_become_flags():
    given = flags(
        render(
            {
                "proxy": {
                    "workers": 3,
                    "databaseConnections": 30,
                    "requireClientCert": False,
                    "verbosity": 1,
                    "requestTimeout": "2m",
                    "resultMetricsSeries": 10,
                    "webhookSecret": "hooks",
                    "extraFlags": {"workers": 4, "http2": True},
                },
                "cluster": {"id": "3b241101-e2bb-4255-8caf-4136c566a962", "name": "production"},
            }
        )
    )
    assert given["workers"] == "4", "what is said last wins"
    assert given["http2"] == "true"
    assert given["database-connections"] == "30"
    assert given["require-client-cert"] == "false"
    assert given["v"] == "1"
    assert given["request-timeout"] == "2m"
    assert given["webhook-directory"] == "/etc/kube-reports/webhooks"
    assert given["cluster-name"] == "production"
    assert flags(render())["require-client-cert"] == "true"
    assert flags(render())["authorization-mode"] == "Webhook"


def environment(container):
    """Returns the names of variables, with the Secret and key of each."""
    return {
        one["name"]: tuple(one["valueFrom"]["secretKeyRef"][part] for part in ("name", "key"))
        for one in container.get("env", [])
        if "secretKeyRef" in one.get("valueFrom", {})
    }


def proxy_container(objects):
    return named(objects, "Deployment", "kube-reports")["spec"]["template"]["spec"]["containers"][0]


def setup_container(objects):
    return next(
        container
        for one, pod in pods(objects)
        for container in pod["spec"]["containers"]
        if container["name"] == "setup"
    )


def setup_database(objects):
    return psycopg2.extensions.parse_dsn(
        next(one["value"] for one in setup_container(objects)["env"] if one["name"] == "SETUP_DATABASE")
    )


def database(objects, flag="database"):
    """Returns the connection string, parsed as libpq parses it."""
    return psycopg2.extensions.parse_dsn(flags(objects)[flag])


def test_bundled_database():
    objects = render()
    wanted = {
        "host": "kube-reports-database.kube-reports.svc",
        "port": "5432",
        "dbname": "kube_reports",
        "sslmode": "verify-full",
        "sslrootcert": BUNDLED_CA,
    }
    assert database(objects) == wanted == setup_database(objects)
    assert environment(proxy_container(objects)) == {
        "PGUSER": ("kube-reports-database-proxy", "username"),
        "PGPASSWORD": ("kube-reports-database-proxy", "password"),
    }
    assert environment(setup_container(objects)) == {
        "PGUSER": ("kube-reports-database-superuser", "username"),
        "PGPASSWORD": ("kube-reports-database-superuser", "password"),
        "PROXY_PASSWORD": ("kube-reports-database-proxy", "password"),
    }


def test_external_database():
    objects = render({"database": EXTERNAL})
    assert database(objects) == {"dbname": "kube_reports", "host": "db.example.org"}
    assert environment(proxy_container(objects)) == {
        "PGUSER": ("db-proxy", "username"),
        "PGPASSWORD": ("db-proxy", "password"),
    }
    assert environment(setup_container(objects)) == {
        "PGUSER": ("db-owner", "username"),
        "PGPASSWORD": ("db-owner", "password"),
        "PROXY_PASSWORD": ("db-proxy", "password"),
    }


def test_any_parameter_of_libpq():
    objects = render(MATRIX["external-everything"])
    mount = "/etc/kube-reports/database"
    common = {
        "connect_timeout": "5",
        "application_name": "it's \\ a proxy",
        "target_session_attrs": "read-write",
        "sslmode": "verify-full",
        "sslrootcert": f"{mount}/ca.crt",
        "sslcert": f"{mount}/tls.crt",
        "sslkey": f"{mount}/tls.key",
    }
    assert database(objects) == common
    assert database(objects, "read-database") == {**common, "host": "standby.example.org"}
    assert setup_database(objects) == {**common, "host": "primary.example.org", "port": "5433"}
    assert environment(proxy_container(objects))["PGHOST"] == ("db-proxy", "host")
    assert environment(proxy_container(objects))["PGDATABASE"] == ("db-proxy", "dbname")


def test_key_of_a_client_certificate():
    """libpq refuses a key that other users than root and its group may read."""
    volumes = named(render(MATRIX["external-everything"]), "Deployment", "kube-reports")["spec"]["template"]["spec"][
        "volumes"
    ]
    assert [volume["secret"]["defaultMode"] for volume in volumes if volume["name"] == "database-tls"] == [0o440]


def test_service_file():
    objects = render(MATRIX["service-file"])
    assert database(objects) == {"service": "kube-reports"}
    container = proxy_container(objects)
    assert {"name": "PGSERVICEFILE", "value": "/etc/kube-reports/database-service/pg_service.conf"} in container["env"]
    assert "database-service" in {mount["name"] for mount in container["volumeMounts"]}


def test_cloudnative_pg():
    objects = render(MATRIX["cloudnative-pg"])
    assert database(objects)["host"] == "kube-reports-database-rw.kube-reports.svc"
    assert database(objects, "read-database")["host"] == "kube-reports-database-ro.kube-reports.svc"
    assert environment(setup_container(objects)) == {
        "PGUSER": ("kube-reports-database-app", "username"),
        "PGPASSWORD": ("kube-reports-database-app", "password"),
    }
    spec = named(objects, "Cluster", "kube-reports-database")["spec"]
    assert spec["instances"] == 3 and spec["backup"] == {"retentionPolicy": "30d"}
    assert spec["storage"] == {"size": "20Gi", "storageClass": "fast"}
    assert spec["bootstrap"]["initdb"]["owner"] == "kube_reports_owner"
    assert {
        "name": "kube_reports_proxy",
        "ensure": "present",
        "login": True,
        "passwordSecret": {"name": "kube-reports-database-proxy"},
    } in spec["managed"]["roles"]
    assert {one["name"] for one in spec["managed"]["roles"]} == {
        "kube_reports_proxy",
        "kube_reports_reader",
        "kube_reports_admin",
    }


def test_hooks():
    """Hooks take groups over and hand disabled groups back; before an uninstallation they hand back all groups."""
    jobs = {
        one["metadata"]["annotations"]["helm.sh/hook"]: pod["spec"]
        for one, pod in pods(render())
        if "annotations" in one["metadata"]
    }
    served = ["openreports.io/v1alpha1", "reports.kyverno.io/v1", "wgpolicyk8s.io/v1alpha2"]

    def line(container):
        words = container["command"] + container["args"]
        return (
            words[:3],
            [word for word in words[3:] if not word.startswith("--")],
            [word for word in words if word.startswith("--")],
        )

    begin = jobs["post-install,post-upgrade,post-rollback"]
    words, groups, given = line(begin["containers"][0])
    assert words == ["kube-reports-proxy", "apiservice", "enable"] and groups == served
    assert "--ca-file=/etc/kube-reports/ca/ca.crt" in given
    words, groups, _ = line(begin["initContainers"][0])
    assert words[2] == "disable" and groups == ["kyverno.io/v1alpha2"]
    words, groups, _ = line(jobs["pre-delete"]["containers"][0])
    assert words[2] == "disable" and groups == [*served, "kyverno.io/v1alpha2"]


@pytest.mark.parametrize("how", ["each", "together"])
def test_all_groups_switched_off(how):
    """An upgrade hands back groups that were enabled before, also when no group is left"""
    names = ("openreports.io/v1alpha1", "reports.kyverno.io/v1", "wgpolicyk8s.io/v1alpha2")
    off = {"groups": {name: False for name in names}}
    if how == "together":
        names = (*names, "example.org/v1")
        off = {"enabled": False, "additionalGroups": ["example.org/v1"]}
    hooks = {
        one["metadata"]["annotations"]["helm.sh/hook"]: pod["spec"]["containers"][0]
        for one, pod in pods(render({"apiServices": off}))
        if "annotations" in one["metadata"]
    }
    ((when, container),) = hooks.items()
    assert {"pre-delete", "post-upgrade", "post-rollback"} <= set(when.split(","))
    assert container["command"][2] == "disable" and set(names) <= set(container["args"])
