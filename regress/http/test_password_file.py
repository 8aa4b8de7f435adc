"""--database-password-file: a password that changes while the proxy runs, as access tokens do (issue 17)."""

import os
import pathlib
import pwd

import pytest

from client import until

ASKED = "local all kube_reports_proxy scram-sha-256\n"


def write(path, text):
    """Replaces the file by a new one, as a process that writes tokens does."""
    new = path.with_suffix(".new")
    new.write_text(text, encoding="ascii")
    new.chmod(0o600)
    if os.getuid() == 0:
        owner = pwd.getpwnam("postgres")
        os.chown(new, owner.pw_uid, owner.pw_gid)
    new.rename(path)


@pytest.fixture
def asking(own_stack):
    """A stack whose server asks the proxy's role for a password, and the file for it."""
    own_stack.begin()
    hba = pathlib.Path(own_stack.database.directory, "data", "pg_hba.conf")
    rules = hba.read_text(encoding="ascii")
    hba.write_text(ASKED + rules, encoding="ascii")
    own_stack.database.psql("ALTER ROLE kube_reports_proxy PASSWORD 'first'; SELECT pg_reload_conf()", user="postgres")
    yield own_stack, pathlib.Path(own_stack.pki, "token")


def end_connections(database):
    database.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'kube_reports_proxy'",
                  user="postgres")


def reason(proxy):
    return getattr(proxy.answers("/readyz/database"), "body", b"")


def test_read_for_each_connection(asking):
    """readyz names a missing, empty or wrong password; that of the file replaces the string's, also after a change"""
    stack, token = asking
    string = stack.database.connection("kube_reports_proxy") + " password=stale"
    proxy = stack.proxy(ready=False, connection=string, flags=(f"--database-password-file={token}",))
    until(lambda: b"the password's file" in reason(proxy) and b"No such file" in reason(proxy), 20, "a missing file")
    write(token, "\n")
    until(lambda: b"is empty" in reason(proxy), 20, "an empty file")
    write(token, "wrong")
    until(lambda: b"password authentication failed" in reason(proxy), 20, "a wrong password")
    write(token, "first\n")
    proxy.wait_ready()
    assert "first" not in proxy.log_path.read_text(encoding="utf-8")

    # Open connections stay open when their password has expired; new connections use the new password.
    stack.database.psql("ALTER ROLE kube_reports_proxy PASSWORD 'second'", user="postgres")
    assert proxy.api().get("/apis/wgpolicyk8s.io/v1alpha2/policyreports").code == 200
    write(token, "second")
    end_connections(stack.database)
    proxy.wait_ready()
    until(lambda: proxy.api().get("/apis/wgpolicyk8s.io/v1alpha2/policyreports").code == 200, 20, "new connections")


def test_standby_has_its_own(asking):
    """A token is for one host, so --read-database may have a file of its own; without it, both use one file"""
    stack, token = asking
    write(token, "first")
    other = token.with_name("other")
    write(other, "wrong")
    string = stack.database.connection("kube_reports_proxy")
    log = pathlib.Path(stack.database.directory, "log", "postgresql.log")
    flags = (f"--database-password-file={token}", f"--read-database={string} connect_timeout=9")

    def refused():
        return log.read_text(encoding="utf-8").count("password authentication failed")
    proxy = stack.proxy(connection=string, flags=(*flags, f"--read-database-password-file={other}"))
    until(lambda: refused() > 0, 20, "the password of the standby to be refused")
    proxy.stop()
    before = refused()
    stack.proxy(connection=string, flags=flags)
    assert refused() == before


def test_line_end_of_a_secret(asking):
    """A Secret that was made from a file ends with a line end: in environment variables, it does no harm"""
    stack, _ = asking
    string = stack.database.connection("kube_reports_proxy")
    proxy = stack.proxy(connection=string, environment={"PGPASSWORD": "first\r\n", "PGSSLMODE": "prefer\n"})
    until(lambda: proxy.api().get("/apis/wgpolicyk8s.io/v1alpha2/policyreports").code == 200, 20, "a list")
