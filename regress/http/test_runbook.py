"""
A database is installed, served, dumped, restored and removed with the commands of the README; the statements of
docs/operations.md run on it.
"""

import os
import pathlib
import re
import subprocess

import pytest

from client import POLR, Api, path_of, report, until
from conftest import TOP, VARIANT, Stack, free_port, run
from runbook import STATEMENTS, block


class Own:
    """An empty server, and a directory with the files that the commands name."""

    def __init__(self, stack, directory):
        self.stack, self.directory = stack, directory
        database = stack.database
        database.start()
        # A role that may create roles and databases.
        database.psql("CREATE ROLE kube_reports_owner LOGIN CREATEROLE CREATEDB", user="postgres", database="postgres")
        for name in ("serving.crt", "serving.key", "ca.crt"):
            (directory / name).symlink_to(f"{stack.pki}/{name}")
        self.environment = {**os.environ, "PGHOST": database.directory, "PGUSER": "kube_reports_owner",
                            "PATH": f"{database.directory}/dest/usr/bin:{os.environ['PATH']}"}
        self.proxy = self.api = None

    def shell(self, script):
        return run(["bash", "-c", f"set -e -o pipefail\n{script}"], cwd=self.directory, env=self.environment).out

    def install(self):
        """Makes roles, database and extension, and starts a proxy."""
        commands = block("make && sudo make install")
        database, proxy = commands.split("kube-reports-proxy --database", 1)
        self.shell("\n".join(line for line in database.splitlines() if "make" not in line))
        self.api = self.serve("kube-reports-proxy --database" + proxy)

    def serve(self, command):
        """Starts a proxy with this command at a free port; returns its API."""
        port = free_port()
        ports = f"--secure-port={port} --metrics-port={free_port()} --bind-address=127.0.0.1"
        with open(self.directory / "log", "wb") as log:
            self.proxy = subprocess.Popen(["bash", "-c", f"exec {command.strip()} {ports}"], cwd=self.directory,
                                          env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        api = Api(port, f"{self.stack.pki}/ca.crt", f"{self.stack.pki}/admin")

        def ready():
            assert self.proxy.poll() is None, (self.directory / "log").read_text()
            try:
                return api.get("/readyz").code == 200
            except OSError:
                return False
        until(ready, 30, "the proxy to be ready")
        return api

    def psql(self, sql, database):
        return self.stack.database.psql(sql, database=database)

    def stop(self):
        if self.proxy is not None:
            self.proxy.terminate()
            self.proxy.wait(30)
            self.proxy = None

    def end(self):
        self.stop()
        self.stack.end()


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    stack = Stack()
    made = Own(stack, tmp_path_factory.mktemp("own"))
    try:
        made.install()
        yield made
    finally:
        made.end()


def test_install_by_the_readme(own):
    """The commands make a store and a proxy, which with AlwaysDeny serves administrators only"""
    assert own.api.post(path_of(POLR, "ns"), report("r", "ns")).code == 201
    assert own.psql("SELECT name FROM kube_reports.object", "reports") == "r"


def test_dump_and_restore(own):
    """The owner restores a dump into another database with several jobs: it has what was stored"""
    assert own.api.post(path_of(POLR, "ns"), report("dumped", "ns")).code == 201
    own.shell(block("pg_restore -j 4"))
    for sql in ("SELECT name, body::text FROM kube_reports.object ORDER BY 1",
                "SELECT report, policy, status FROM kube_reports.typed_result ORDER BY 1, 2"):
        assert own.psql(sql, "restored") == own.psql(sql, "reports") != ""
        if VARIANT == "sql":
            # No proxy is connected to the copy, and upkeep of a proxy would derive the results.
            return
    assert own.psql("SELECT count(*) FROM kube_reports.verify()", "restored") == "0"


# Statements that only read; and patterns of what some of them find in a store that works, as the page says.
LOOKING = [sql for sql in STATEMENTS if re.match(r"SELECT (\*|[a-z_]+,|[a-z]+ FROM|min)", sql)]
FINDING = {"kube_reports.status": "f", "kube_reports.restore_status": "f", "min(relname)": r"report_change_\d{4}_\d\d",
           "extversion": r"\d+\.\d+", "pg_stat_activity": "kube_reports_proxy", "pg_stat_wal": r"\d",
           "pg_stat_user_tables": r"\w+\|\d+\|", "server_identity": r"\d+\|\d+", "kube_reports.verify": r"\A\Z"}


@pytest.mark.parametrize("sql", LOOKING)
def test_statements_that_look(own, sql):
    found = own.psql(sql, "reports")
    for named, said in FINDING.items():
        assert named not in sql or re.search(said, found), (sql, found)


def test_who_keeps_dead_rows(own):
    assert own.psql(block("backend_xmin"), "reports") is not None


def test_there_are_statements():
    assert len(LOOKING) > 12
    assert [named for named in FINDING if not any(named in sql for sql in LOOKING)] == []


def test_calls_that_mend(own):
    """The calls without arguments in the runbook work"""
    calls = {sql for sql in STATEMENTS if re.fullmatch(r"CALL kube_reports\.(expire|rebuild)\(\)", sql)}
    assert len(calls) == 2
    for sql in sorted(calls):
        own.psql(sql, "reports")
    assert own.psql("SELECT count(*) FROM kube_reports.verify()", "reports") == "0"


def test_remove_a_cluster(own):
    """The last cluster is removed after its proxy has stopped: neither its rows nor its role stay"""
    assert own.psql("SELECT count(*) > 0 FROM kube_reports.object", "reports") == "t"
    own.stop()
    # The copy that was restored has grants for the role.
    own.psql("DROP DATABASE IF EXISTS restored", "postgres")
    own.psql(block("DROP OWNED BY kube_reports_proxy"), "reports")
    assert own.psql("SELECT count(*) FROM kube_reports.cluster", "reports") == "0"
    assert own.psql("SELECT count(*) FROM kube_reports.object", "reports") == "0"
    assert own.psql("SELECT count(*) FROM pg_roles WHERE rolname = 'kube_reports_proxy'", "reports") == "0"


# Everything that may be left: schemas, extensions, relations, functions; roles; settings of roles.
LEFT = ("SELECT n.nspname FROM pg_namespace n WHERE n.nspname LIKE 'kube%'"
        " UNION ALL SELECT e.extname FROM pg_extension e WHERE e.extname LIKE 'kube%'"
        " UNION ALL SELECT c.oid::regclass::text FROM pg_class c WHERE c.oid >= 16384 AND c.relkind <> 't'"
        " AND c.relnamespace <> 'pg_toast'::regnamespace"
        " UNION ALL SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.oid >= 16384"
        " UNION ALL SELECT r.rolname FROM pg_roles r WHERE r.rolname LIKE 'kube%' AND r.rolname <> current_user"
        " UNION ALL SELECT s.setconfig::text FROM pg_db_role_setting s")


def test_remove_everything(tmp_path):
    """After the commands of the README nothing is left in the database, no role, and no file of make install"""
    stack = Stack()
    made = Own(stack, tmp_path)
    installed = pathlib.Path(stack.database.directory) / "dest"

    def files():
        return [str(file) for file in installed.rglob("*kube*") if file.is_file()]

    try:
        made.install()
        assert made.api.post(path_of(POLR, "ns"), report("r", "ns")).code == 201
        for sql in ("CREATE ROLE kube_reports_reader", "SELECT kube_reports.grant_reader('kube_reports_reader')"):
            made.psql(sql, "reports")
        made.stop()
        assert len(files()) > 4 and len(made.psql(LEFT, "reports").splitlines()) > 500
        uninstall = (f"make -C {TOP} --no-print-directory -s uninstall DESTDIR={installed} prefix=/usr "
                     f"VARIANT={VARIANT}")
        made.shell(block("sudo make uninstall", **{"sudo make uninstall": uninstall}))
        # The page drops only the role that its commands made.
        made.psql("DROP ROLE kube_reports_reader", "reports")
        assert made.psql(LEFT, "reports") == ""
        assert files() == []
    finally:
        made.end()
