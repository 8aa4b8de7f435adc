"""The ways to install the SQL variant; the owner is always a role that is no superuser."""

import os
import re
import shutil

import catalogs
import next_version
from client import run
from conftest import TOP, VERSION, Database, stack_command

OWNER = "kube_reports_owner"
ROLES = ("kube_reports_proxy", "kube_reports_reader", "kube_reports_admin")
CLUSTER = "3b241101-e2bb-4255-8caf-4136c566a962"
GRANTS = f"""
SET client_min_messages = warning;
SELECT kube_reports.grant_proxy('kube_reports_proxy', '{CLUSTER}');
SELECT kube_reports.grant_reader('kube_reports_reader');
SELECT kube_reports.grant_admin('kube_reports_admin');
"""
PLAIN = TOP / "sql" / "build" / "plain"
TLE = TOP / "sql" / "build" / "tle"
# The directory in which pg_tle was installed with DESTDIR.
PG_TLE = os.environ.get("PG_TLE")

# Facts that are equal for all ways: not the members of an extension, nor its settings for pg_dump.
SAME = {kind: query for kind, query in catalogs.QUERIES.items() if kind not in ("members", "extension", "comments")}
SAME["comments"] = f"""
    SELECT pg_describe_object(d.classoid, d.objoid, d.objsubid), d.description FROM pg_description d
    WHERE d.objoid >= 16384 AND d.classoid <> 'pg_extension'::regclass
        AND ((pg_identify_object(d.classoid, d.objoid, d.objsubid)).schema IN ('kube_reports', 'kube_reports_internal')
            OR d.classoid = 'pg_namespace'::regclass AND d.objoid IN {catalogs.SCHEMAS})"""

# All facts about objects that are not part of PostgreSQL itself, in a database and its server.
EVERYTHING = """
    SELECT pg_describe_object(o.classid, o.oid, 0) FROM (
        SELECT 'pg_class'::regclass AS classid, oid FROM pg_class UNION ALL SELECT 'pg_proc'::regclass, oid FROM pg_proc
        UNION ALL SELECT 'pg_type'::regclass, oid FROM pg_type
        UNION ALL SELECT 'pg_namespace'::regclass, oid FROM pg_namespace
        UNION ALL SELECT 'pg_constraint'::regclass, oid FROM pg_constraint
        UNION ALL SELECT 'pg_trigger'::regclass, oid FROM pg_trigger
        UNION ALL SELECT 'pg_cast'::regclass, oid FROM pg_cast
        UNION ALL SELECT 'pg_extension'::regclass, oid FROM pg_extension
        UNION ALL SELECT 'pg_default_acl'::regclass, oid FROM pg_default_acl
        UNION ALL SELECT 'pg_statistic_ext'::regclass, oid FROM pg_statistic_ext
        UNION ALL SELECT 'pg_event_trigger'::regclass, oid FROM pg_event_trigger
        UNION ALL SELECT 'pg_publication'::regclass, oid FROM pg_publication) o WHERE o.oid >= 16384
    UNION ALL SELECT s::text FROM pg_db_role_setting s
    UNION ALL SELECT d::text FROM pg_shdepend d
        WHERE d.dbid = (SELECT b.oid FROM pg_database b WHERE b.datname = current_database())
    UNION ALL SELECT d::text FROM pg_description d WHERE d.objoid >= 16384
    UNION ALL SELECT l.oid::text FROM pg_largeobject_metadata l
    UNION ALL SELECT l.objid::text FROM pg_locks l WHERE l.locktype = 'advisory'
    ORDER BY 1"""


class Server(Database):
    """A server without files of kube-reports, with a role that owns databases and has no other rights."""

    def __init__(self):
        self.directory = stack_command("server_directory")
        self.started = False

    def begin(self, *settings):
        self.start(*settings)
        self.psql("".join(f"CREATE ROLE {role} LOGIN;" for role in (OWNER, *ROLES)), user="postgres",
                  database="postgres")
        return self

    def create(self, name):
        self.psql(f"CREATE DATABASE {name} OWNER {OWNER}", user="postgres", database="postgres")
        return name

    def file(self, path, name, user=OWNER, check=True):
        """Runs a file of SQL; returns the finished process."""
        return run(["psql", "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-d", self.connection(user, name),
                    "-f", str(path)], check=check, timeout=120)

    def plain(self, name, scripts=PLAIN):
        """Creates a database, runs the plain script in it, and grants the roles."""
        self.file(scripts / "kube_reports--install.sql", self.create(name))
        self.psql(GRANTS, database=name)
        return name

    def same(self, name):
        """Returns lines, by kind, about the objects that must be equal for all ways."""
        return {kind: sorted(comparable(self.psql(f"SELECT r FROM ({query}) r", user="postgres", database=name)))
                for kind, query in SAME.items()}

    def everything(self, name):
        return self.psql(EVERYTHING, user="postgres", database=name).splitlines()


class FileServer(Server):
    """A server with the files of a variant."""

    def __init__(self, variant="sql"):
        super().__init__()
        stack_command("server_install", self.directory, f"VARIANT={variant}")

    def extension(self, name):
        self.create(name)
        self.psql(f"CREATE EXTENSION kube_reports VERSION '{VERSION}';{GRANTS}", database=name)
        return name


class TleServer(Server):
    """A server with a real pg_tle."""

    def __init__(self):
        super().__init__()
        # pg_tle looks for its files beside the files of the server: so this uses a copy of the server.
        for option in ("--bindir", "--sharedir", "--pkglibdir"):
            place = run([os.environ.get("PG_CONFIG") or "pg_config", option]).out.strip()
            shutil.copytree(place, f"{self.directory}/dest{place}", dirs_exist_ok=True)
        shutil.copytree(PG_TLE, f"{self.directory}/dest", dirs_exist_ok=True)
        run(["chmod", "-R", "go+rX", f"{self.directory}/dest"])

    def begin(self, *settings):
        # Without this, the setting would lead from the copy to the original directory.
        super().begin("shared_preload_libraries = 'pg_tle'", "extension_destdir = ''", *settings)
        self.psql("CREATE ROLE packager LOGIN", user="postgres", database="postgres")
        return self

    def create(self, name):
        super().create(name)
        self.psql("CREATE EXTENSION pg_tle; GRANT pgtle_admin TO packager", user="postgres", database=name)
        return name

    def extension(self, name, package=TLE / "kube_reports--tle.sql"):
        self.file(package, self.create(name), user="packager")
        self.psql(f"CREATE EXTENSION kube_reports;{GRANTS}", database=name)
        return name


def begun(server):
    """Yields the server, started with its roles, and removes it afterwards, for a fixture."""
    try:
        yield server.begin()
    finally:
        server.remove()


def update_script(directory):
    """Builds a made-up next version in a directory; returns the plain script that leads to it."""
    tree = next_version.build_sql_variant(directory)
    tree.make("VARIANT=sql", "plain")
    return tree.path / "sql" / "build" / "plain" / f"kube_reports--update--{VERSION}--{next_version.NEXT}.sql"


def comparable(text):
    """Returns the lines of a text without the identity of a store, members of an extension, and months of history."""
    text = re.sub(r"^RETURN (\(\d+\)|NULL)::oid$", "RETURN a place", text, flags=re.MULTILINE)
    return [line for line in text.splitlines()
            if not line.endswith('"extension kube_reports",e)') and "report_change_2" not in line]


def assert_same(one, other):
    catalogs.assert_equal(one, other)
