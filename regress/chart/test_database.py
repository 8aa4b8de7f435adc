"""The bundled database and the setup: their own scripts and command lines run on this machine's PostgreSQL."""

import base64
import contextlib
import json
import os
import pathlib
import pwd
import re
import shlex
import shutil
import signal
import ssl
import subprocess
import time
import urllib.request

import psycopg2
import pytest

from conftest import (
    CHART,
    CLUSTER,
    KUBE_VERSION,
    SETUP,
    STACK,
    TOP,
    Server,
    containers,
    free_port,
    helm,
    named,
    of_kind,
    pods,
    render,
    stack_command,
    yaml_documents,
)

VERSION = re.search("default_version = '(.*)'", (TOP / "extension" / "kube_reports.control").read_text())[1]
OTHER = "00000000-0000-4000-8000-000000000001"
BINDIR = subprocess.run(
    [os.environ.get("PG_CONFIG") or "pg_config", "--bindir"], capture_output=True, text=True, check=True
).stdout.strip()
SERVER_USER = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name


ROLES = ("kube_reports_owner", "kube_reports_proxy", "kube_reports_reader", "kube_reports_admin")


@pytest.fixture
def database(server):
    """A new database; the roles do not exist yet."""
    server.psql("CREATE DATABASE reports")
    yield "reports"
    server.psql("DROP DATABASE reports")
    server.psql("".join(f"DROP ROLE IF EXISTS {role};" for role in (*ROLES, "installer", "kube_reports_proxy2")))


def test_as_a_superuser(server, database):
    """The setup may run repeatedly: it makes the missing objects and keeps the others."""
    for password in ("first", "", "it's \\ second"):
        server.setup("postgres", database, password)
        assert server.psql(
            "SELECT rolname FROM pg_roles WHERE rolname ~ '^kube_reports' ORDER BY 1"
        ).split() == sorted(ROLES)
        assert (
            server.psql(
                "SELECT r.rolname, r.rolsuper FROM pg_extension e JOIN pg_roles r ON r.oid = e.extowner"
                " WHERE e.extname = 'kube_reports'",
                database=database,
            )
            == "kube_reports_owner|f"
        )
        assert server.psql("SELECT rolpassword ~ '^SCRAM' FROM pg_authid WHERE rolname = 'kube_reports_proxy'") == "t"
    assert server.psql(
        "SELECT rolcanlogin FROM pg_roles WHERE rolname ~ '^kube_reports' ORDER BY rolname"
    ).split() == ["t", "f", "t", "t"]
    # Each role has the rights for its purpose.
    bound = (
        "SELECT p.role, c.uid FROM kube_reports_internal.proxy_role p"
        " JOIN kube_reports.cluster c ON c.id = p.cluster_id"
    )
    assert server.psql(bound, database=database) == f"kube_reports_proxy|{CLUSTER}"
    reads = "SELECT count(*) FROM kube_reports.failing_by_policy_namespace"
    assert server.psql(reads, "kube_reports_reader", database) == "0"
    assert "permission denied" in server.psql(reads, "kube_reports_proxy", database, check=False).stderr
    assert server.psql("SELECT count(*) FROM kube_reports.object", "kube_reports_admin", database) == "0"
    assert server.psql("SHOW statement_timeout", "kube_reports_reader", database) == "1min"
    assert (
        server.psql(
            "SELECT has_function_privilege('kube_reports_reader', 'pg_advisory_lock(bigint)', 'execute')",
            database=database,
        )
        == "f"
    )
    assert (
        server.psql(
            "SELECT has_function_privilege('kube_reports_admin', 'pg_advisory_lock(bigint)', 'execute')",
            database=database,
        )
        == "t"
    )


def test_as_the_owner(server, database):
    """The setup runs as the database's owner, which is no superuser and may not create roles: the roles exist."""
    server.psql("CREATE ROLE installer LOGIN; ALTER DATABASE reports OWNER TO installer")
    said = server.setup("installer", database, check=False).stderr
    assert "permission denied to create role" in said
    server.psql(
        "CREATE ROLE kube_reports_proxy LOGIN; CREATE ROLE kube_reports_reader LOGIN;"
        "CREATE ROLE kube_reports_admin LOGIN"
    )
    for _ in range(2):
        server.setup("installer", database, "not set")
        assert (
            server.psql("SELECT extowner::regrole FROM pg_extension WHERE extname = 'kube_reports'", database=database)
            == "installer"
        )
    assert server.psql("SELECT rolpassword IS NULL FROM pg_authid WHERE rolname = 'kube_reports_proxy'") == "t"


def test_a_role_that_makes_roles(server, database):
    server.psql("CREATE ROLE installer LOGIN CREATEROLE; ALTER DATABASE reports OWNER TO installer")
    for _ in range(2):
        server.setup("installer", database, "secret", reader="", admin="")
    assert server.psql("SELECT rolname FROM pg_roles WHERE rolname ~ '^kube_reports'") == "kube_reports_proxy"
    assert server.psql("SELECT rolpassword IS NOT NULL FROM pg_authid WHERE rolname = 'kube_reports_proxy'") == "t"


@pytest.mark.parametrize("page", ["docs/install.md", "helm/kube-reports/README.md"])
def test_by_the_pages(server, database, page, tmp_path):
    """The command for administrators who keep a powerful role out of the cluster; kubectl reads only one namespace"""
    (command,) = re.findall(r"^```\n(psql [^\n]*database\.sql)\n```$", (TOP / page).read_text(), re.M)
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f"""#!/bin/sh
        [ "$*" = "get namespace kube-system -o jsonpath={{.metadata.uid}}" ] && echo {CLUSTER}""")
    kubectl.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PGHOST": server.directory,
                   "PGUSER": "postgres", "PGOPTIONS": "-c client_min_messages=warning"}
    for _ in range(2):
        subprocess.run(["bash", "-c", command], cwd=TOP, env=environment, check=True, timeout=120)
    assert server.psql("SELECT uid FROM kube_reports.cluster", database=database) == CLUSTER


def test_two_clusters(server, database):
    """Each of two clusters has its own role; one role for both is refused."""
    server.setup("postgres", database)
    assert (
        f"bound to cluster {CLUSTER} already" in server.setup("postgres", database, cluster=OTHER, check=False).stderr
    )
    server.setup("postgres", database, cluster=OTHER, proxy="kube_reports_proxy2")
    assert server.psql("SELECT count(*) FROM kube_reports.cluster", database=database) == "2"


def test_role_of_somebody_else(server, database):
    """The proxies' password is not set for a superuser, nor for the role that runs the setup."""
    server.psql("ALTER ROLE postgres PASSWORD NULL; CREATE ROLE installer LOGIN CREATEROLE;"
                "ALTER DATABASE reports OWNER TO installer")
    for user in ("postgres", "installer"):
        said = server.setup(user, database, "secret", check=False, proxy=user).stderr
        assert f"or the role that sets up the database: {user}" in said and "a role of their own" in said
    assert server.psql("SELECT count(*) FROM pg_authid WHERE rolname IN ('postgres', 'installer')"
                       " AND rolpassword IS NOT NULL") == "0"


def test_names_and_passwords_of_any_text(server, database):
    """Long names are cut as the server cuts them, text of psql and SQL stays text, and no log shows a password."""
    server.psql("ALTER SYSTEM SET log_statement = 'all'; SELECT pg_reload_conf()")
    names = ["\u00fc" * 63, "x; DROP ROLE y", ":'owner'", "%s %I", "$(id)"]
    try:
        for number, name in enumerate(names):
            for _ in range(2):
                server.setup("postgres", database, f"hunter2'; DROP {number}", proxy=name,
                             cluster=f"00000000-0000-4000-8000-{number:012}")
        assert server.psql("SELECT count(*) FROM kube_reports_internal.proxy_role", database=database) == "5"
        log = (pathlib.Path(server.directory) / "log" / "postgresql.log").read_text()
        assert "CREATE EXTENSION" in log and "hunter2" not in log
    finally:
        server.psql("ALTER SYSTEM RESET log_statement; SELECT pg_reload_conf()")
        server.psql("DROP OWNED BY " + ", ".join(f'"{name}"' for name in names), database=database)
        server.psql("".join(f'DROP ROLE IF EXISTS "{name}";' for name in names))


def test_update(server, database):
    """An extension of another version is updated, unless the values forbid that."""
    server.setup("postgres", database)
    server.psql("UPDATE pg_extension SET extversion = '0.0' WHERE extname = 'kube_reports'", database=database)
    server.setup("postgres", database, update="false")
    assert 'no update path from version "0.0"' in server.setup("postgres", database, check=False).stderr
    server.psql(f"UPDATE pg_extension SET extversion = '{VERSION}' WHERE extname = 'kube_reports'", database=database)
    server.setup("postgres", database)


# ---- the bundled database, and the Job ----


class Pod:
    """A container of the chart as a process: its files are below a directory, its Secrets are the rendered ones."""

    def __init__(self, objects, directory, pod, container, extra=()):
        self.objects, self.directory = objects, pathlib.Path(directory)
        self.container = next(one for one in containers(pod) if one["name"] == container)
        for mount in self.container["volumeMounts"]:
            self.mount(mount, next((one for one in pod["spec"]["volumes"] if one["name"] == mount["name"]), {}))
        self.environment = {
            "PATH": f"{BINDIR}:{os.environ['PATH']}",
            **{one["name"]: self.value(one) for one in self.container.get("env", [])},
        }
        self.command = [
            self.moved(word) for word in self.container["command"] + self.container.get("args", [])
        ] + list(extra)

    def moved(self, text):
        places = sorted((one["mountPath"] for one in self.container["volumeMounts"]), key=len, reverse=True)
        return re.sub(f"(^|[='])({'|'.join(map(re.escape, places))})(?=[/']|$)", rf"\1{self.directory}\2", text)

    def mount(self, mount, volume):
        place = pathlib.Path(f"{self.directory}{mount['mountPath']}")
        place.mkdir(parents=True, exist_ok=True)
        files = {}
        if "secret" in volume:
            data = named(self.objects, "Secret", volume["secret"]["secretName"])["data"]
            files = {name: base64.b64decode(text) for name, text in data.items()}
        elif "configMap" in volume:
            files = {
                name: text.encode()
                for name, text in named(self.objects, "ConfigMap", volume["configMap"]["name"])["data"].items()
            }
        for name, content in files.items():
            (place / name).write_bytes(
                content.replace(b"/etc/kube-reports", f"{self.directory}/etc/kube-reports".encode())
            )
            (place / name).chmod(0o600)
        for path in (place, *place.iterdir()):
            shutil.chown(path, SERVER_USER)

    def value(self, variable):
        if "value" in variable:
            return self.moved(variable["value"])
        reference = variable["valueFrom"].get("secretKeyRef")
        if not reference:
            return ""
        return base64.b64decode(named(self.objects, "Secret", reference["name"])["data"][reference["key"]]).decode()

    def start(self, log):
        return subprocess.Popen(
            [
                "/bin/bash",
                STACK,
                "become_server",
                "env",
                "-i",
                *(f"{name}={text}" for name, text in self.environment.items()),
                *self.command,
            ],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def test_bundled(tmp_path_factory, server):
    """The bundled database starts empty; the proxies' connection string reaches it with TLS; then it starts again."""
    directory = pathlib.Path(stack_command("server_directory"))
    port = free_port()
    values = {
        "cluster": {"id": CLUSTER},
        "postgresql": {"parameters": {"port": port, "shared_buffers": "16MB", "fsync": "off"}},
    }
    extension = ["-c", f"extension_destdir={server.directory}/dest"]
    if (
        "extension_destdir"
        not in subprocess.run(
            [f"{BINDIR}/postgres", "--describe-config"], capture_output=True, text=True, check=True
        ).stdout
    ):
        share, library = (
            subprocess.run([f"{BINDIR}/pg_config", option], capture_output=True, text=True, check=True).stdout.strip()
            for option in ("--sharedir", "--pkglibdir")
        )
        extension = [
            "-c",
            f"extension_control_path={server.directory}/dest{share}:$system",
            "-c",
            f"dynamic_library_path={server.directory}/dest{library}:$libdir",
        ]
    # The extension's files are in a directory that only the server's user may enter, like this one.
    pathlib.Path(f"{directory}/tmp").mkdir()
    shutil.chown(f"{directory}/tmp", SERVER_USER)
    started = []
    try:
        for turn in ("made", "kept"):
            # Before the second start, all but the volume was uninstalled: passwords and certificates are new.
            objects = render({**values, "podLabels": {"turn": turn}})
            template = {one["kind"]: pod for one, pod in pods(objects)}
            setup = next(
                pod
                for one, pod in pods(objects)
                if one["metadata"]["labels"]["app.kubernetes.io/component"] == "setup"
            )
            with open(directory / f"{turn}.log", "wb") as log:
                running = Pod(objects, directory, template["StatefulSet"], "postgresql", extension).start(log)
                started.append(running)
            job = Pod(objects, directory, setup, "setup")
            # The Service's name leads to this machine; its certificate is verified by that name.
            job.environment["SETUP_DATABASE"] += f" port={port} hostaddr=127.0.0.1"
            # Values end with a line end, as in a Secret that was made from a file.
            job.environment["PGPASSWORD"] += "\r\n"
            job.environment["PROXY_PASSWORD"] += "\n"
            with open(directory / "setup.log", "wb") as log:
                started.append(job.start(log))
                code = started[-1].wait(120)
            assert code == 0, (directory / "setup.log").read_text() + (directory / f"{turn}.log").read_text()
            proxy = Pod(objects, directory, template["Deployment"], "proxy")
            connection = next(word.partition("=")[2] for word in proxy.command if word.startswith("--database="))
            arguments = {"user": proxy.environment["PGUSER"], "password": proxy.environment["PGPASSWORD"]}
            with psycopg2.connect(
                f"{connection} port={port} hostaddr=127.0.0.1", **arguments
            ) as link, link.cursor() as cursor:
                cursor.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
                assert cursor.fetchone() == (True,)
                cursor.execute("SELECT current_user")
                assert cursor.fetchone() == ("kube_reports_proxy",)
            link.close()
            for wrong in ({"sslmode": "disable"}, {"password": "wrong"}):
                with pytest.raises(psycopg2.OperationalError):
                    psycopg2.connect(f"{connection} port={port} hostaddr=127.0.0.1", **{**arguments, **wrong})
            # Stop the server as the preStop hook does.
            subprocess.run(
                [
                    "/bin/bash",
                    STACK,
                    "as_server",
                    f"{BINDIR}/pg_ctl",
                    "stop",
                    "-m",
                    "fast",
                    "-s",
                    "-D",
                    f"{directory}/var/lib/postgresql/data/pgdata",
                ],
                check=True,
                timeout=60,
            )
            assert running.wait(60) == 0
    finally:
        for process in started:
            # In a container no process outlives the first one.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)
        shutil.rmtree(directory, ignore_errors=True)


# ---- a database of one's own ----


def until(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def lines_with_certificates():
    """Returns the commands of the README and of docs/install.md for a database with client certificates."""
    (block,) = [text for text in re.findall(r"^```\n(.*?)^```$", (CHART / "README.md").read_text(), re.M | re.S)
                if "create secret" in text]
    *secrets, _, values = block.splitlines()
    (owner,) = re.findall("^kubectl .* create secret generic db-owner .*$", (TOP / "docs" / "install.md").read_text(),
                          re.M)
    return [*secrets, owner], values


def test_client_certificate_and_standby(tmp_path):
    """The setup and a proxy work with the README's Secrets and values; the role of the proxy has no password"""
    secrets, line = lines_with_certificates()
    pki = pathlib.Path(stack_command("server_directory"))
    stack_command("certificates", pki)
    stack_command("certificate", pki, "database", "/CN=database", "serverAuth",
                  "DNS:db.example.org,DNS:standby.example.org")
    stack_command("certificate", pki, "tls", "/CN=kube_reports_proxy", "clientAuth")
    # pg_basebackup copies no file from here.
    (pki / "pg_hba.conf").write_text("local all all trust\nlocal replication all trust\n"
                                     "hostssl all kube_reports_proxy 127.0.0.1/32 cert\n"
                                     "hostssl all reports_owner 127.0.0.1/32 scram-sha-256\n")
    for file in pki.iterdir():
        shutil.chown(file, SERVER_USER)
    settings = [f"hba_file = '{pki}/pg_hba.conf'", "ssl = on", f"ssl_cert_file = '{pki}/database.crt'",
                f"ssl_key_file = '{pki}/database.key'", f"ssl_ca_file = '{pki}/ca.crt'"]
    with contextlib.ExitStack() as end:
        end.callback(shutil.rmtree, pki, ignore_errors=True)
        primary = Server(free_port(), settings)
        end.callback(primary.remove)
        primary.psql("CREATE ROLE reports_owner LOGIN CREATEROLE PASSWORD '...'")
        primary.psql("CREATE DATABASE kube_reports OWNER reports_owner")
        standby = Server(free_port(), settings, primary)
        end.callback(standby.remove)

        made = [json.loads(subprocess.run(
            [*shlex.split(secret), "--dry-run=client", "--output=json"], cwd=pki, check=True, capture_output=True,
            text=True, timeout=60, env={**os.environ, "KUBECONFIG": "/dev/null"}).stdout) for secret in secrets]
        words = [*shlex.split(line)[2:], "--set", f"cluster.id={CLUSTER}",
                 # Both names lead to this machine.
                 "--set", f"database.parameters.hostaddr=127.0.0.1,database.parameters.port={primary.port}",
                 "--set", "database.readReplica.parameters.host=standby.example.org",
                 "--set", f"database.readReplica.parameters.port={standby.port}"]
        objects = [*yaml_documents(helm("template", "kube-reports", CHART, "--namespace", "kube-reports",
                                        "--kube-version", KUBE_VERSION, *words).stdout), *made]
        components = {one["metadata"]["labels"]["app.kubernetes.io/component"]: pod for one, pod in pods(objects)}
        with open(tmp_path / "setup.log", "wb") as log:
            code = Pod(objects, pki, components["setup"], "setup").start(log).wait(120)
        assert code == 0, (tmp_path / "setup.log").read_text()
        assert primary.psql("SELECT rolpassword IS NULL FROM pg_authid WHERE rolname = 'kube_reports_proxy'") == "t"

        proxy = Pod(objects, pki, components["proxy"], "proxy")
        assert "PGPASSWORD" not in proxy.environment
        databases = [word for word in proxy.command if word.startswith(("--database=", "--read-database="))]
        assert len(databases) == 2
        port = free_port()
        # Without a kube-apiserver to ask: for a user of system:masters it need not be asked.
        proxy.command = [
            f"{primary.directory}/dest/usr/bin/kube-reports-proxy", "--bind-address=127.0.0.1",
            f"--secure-port={port}", "--metrics-bind-address=127.0.0.1", f"--metrics-port={free_port()}",
            f"--tls-cert-file={pki}/serving.crt", f"--tls-private-key-file={pki}/serving.key",
            f"--client-ca-file={pki}/ca.crt", "--authorization-mode=AlwaysDeny",
            "--disable-admission-plugins=NamespaceLifecycle", f"--cluster-id={CLUSTER}", *databases]
        log = end.enter_context(open(tmp_path / "proxy.log", "wb"))
        running = proxy.start(log)
        end.callback(running.wait, 60)
        end.callback(running.terminate)
        context = ssl.create_default_context(cafile=pki / "ca.crt")
        context.load_cert_chain(pki / "admin.crt", pki / "admin.key")

        def request(path, document=None):
            body = json.dumps(document).encode() if document else None
            headers = {"Content-Type": "application/json"}
            message = urllib.request.Request(f"https://127.0.0.1:{port}{path}", body, headers)
            with urllib.request.urlopen(message, context=context, timeout=30) as answer:
                return json.loads(answer.read())

        def names():
            assert running.poll() is None, (tmp_path / "proxy.log").read_text()
            with contextlib.suppress(OSError):
                return [item["metadata"]["name"] for item in request(reports)["items"]]
            return None

        reports = "/apis/wgpolicyk8s.io/v1alpha2/namespaces/default/policyreports"
        until(lambda: names() == [], 60, "an answer of the proxy")
        request(reports, {"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport",
                          "metadata": {"name": "one", "namespace": "default"}})
        assert names() == ["one"]
        for one in (primary, standby):
            until(lambda one=one: one.psql(
                "SELECT DISTINCT s.client_dn FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid)"
                " WHERE a.usename = 'kube_reports_proxy'") == "/CN=kube_reports_proxy", 60, "a session by certificate")

        # Neither server takes the role without a certificate, or with that of another user.
        for database in databases:
            parameters = psycopg2.extensions.parse_dsn(database.partition("=")[2])
            other = {"sslcert": f"{pki}/admin.crt", "sslkey": f"{pki}/admin.key"}
            none = {"sslcert": f"{pki}/none.crt", "sslkey": f"{pki}/none.key"}
            for more, message in ((other, "certificate authentication failed"),
                                  (none, "requires a valid client certificate")):
                with pytest.raises(psycopg2.OperationalError, match=message):
                    psycopg2.connect(**{**parameters, "user": "kube_reports_proxy", **more})
            psycopg2.connect(**parameters, user="kube_reports_proxy").close()


def test_scripts_are_those_of_the_chart():
    maps = {one["metadata"]["name"]: one["data"] for one in of_kind(render(), "ConfigMap")}
    files = CHART / "files"
    assert maps["kube-reports-setup"] == {
        "setup.sh": (files / "setup.sh").read_text(),
        "database.sql": SETUP.read_text(),
    }
    assert maps["kube-reports-database-scripts"]["start-postgresql.sh"] == (files / "start-postgresql.sh").read_text()
