#!/usr/bin/python3
"""Calls every SQL function that a role may call, with arguments that no caller should pass.

    regress/sql_fuzz/fuzz.py                            what make check does (stage sql_fuzz): a fixed number of rounds
                                                        under UBSan
    regress/sql_fuzz/fuzz.py --seconds 3600             the long form; --large 4000000 lets single values grow to
                                                        megabytes
    regress/sql_fuzz/fuzz.py --seed 7 --only render_item              one function, as it was called with that seed

Functions, procedures, aggregates, operators, casts and domains of the extension are read from the catalogs.  Five roles
call each of them, as far as they may: a role without grants, a reader, a proxy's role, an administrator and the owner.
First each argument in turn is NULL while the others are valid, then arguments are random.  Last, the C functions are
altered to CALLED ON NULL INPUT, as their owner can do, and called with NULL in every position.

The module is built with UBSan, whose runtime is a library, and runs in a server of its own.  (The runtime of
AddressSanitizer would have to be preloaded, and PostgreSQL of Debian 12 then waits for ever in setlocale().)
A finding is a dead backend, an SQLSTATE that is not in PROPER, or a report of the sanitizer in the log.
Each finding is printed as SQL that repeats it.  Exit code 1 when there are findings.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import psycopg2
import psycopg2.extensions

from values import CALLER, CLUSTER, KINDS, Values

TOP = pathlib.Path(__file__).resolve().parents[2]
STACK = TOP / ".ci" / "stack.sh"
ROLES = ["kube_reports_stranger", "kube_reports_reader", "kube_reports_proxy", "kube_reports_admin",
         "kube_reports_owner"]

# Allowed errors: SQLSTATEs, or their first letters, and the reason.
PROPER = {
    "KR": "the API's own answer: 404, 409, 422 ...",
    "22": "a value that is none of its type, out of range, or null where none may be",
    "23": "a constraint of a table that the function writes to",
    "42501": "not granted",
    "42710": "what is to be made is there already",
    "42704": "a role or a parameter that was named does not exist",
    "42939": "a role has a name that the server reserves, such as none",
    "54000": "more than the function is prepared for",
    "55000": "the store is not in the state for it: a restore is pending, there is no such lane",
    "55P03": "a lock was not to be had in time",
    "57014": "the statement timeout: it could be cancelled",
}

# Errors that are findings although PROPER allows their SQLSTATE.
IMPROPER = {
    "22012": "nobody asks for a division",
}

# Errors that are allowed although PROPER does not allow their SQLSTATE: SQLSTATE, text of the message, reason.
EXCEPTIONS = [
    ("21000", "cannot affect row a second time",
     "a function that only others of the extension call, with arrays that they made distinct"),
    ("40001", "the registry has changed meanwhile",
     "require_generation() of a generation that is not the present one: the transaction can be repeated"),
    ("42601", "zero-length delimited identifier",
     "the owner's functions that only others of the extension call, which have looked up the role"),
    ("XX001", "definition of a resource type is damaged",
     "a definition that was handed over, or put into the registry's table, by hand"),
]

# Functions that are not called, by name, and the reason.
NOT_CALLED = {
    "report_recv": "takes type internal; COPY in binary calls it (see binary_input())",
}

SANITIZER = {"UBSAN_OPTIONS": "abort_on_error=1:print_stacktrace=1"}
FAULT = re.compile(r"runtime error:|was terminated by signal|PANIC|stack smashing|TRAP:|exited with exit code [^01]")

Target = collections.namedtuple("Target", "kind name sql arguments returns_set")
Argument = collections.namedtuple("Argument", "name type variadic")


def stack(*command, **environment):
    done = subprocess.run([STACK, *command], capture_output=True, text=True,
                          env={**os.environ, **environment}, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{command}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


class Server:
    """A server whose extension is built with a sanitizer."""

    def __init__(self):
        self.directory = stack("server_directory")
        pg_config = os.environ.get("PG_CONFIG") or "pg_config"
        libraries = subprocess.run([pg_config, "--pkglibdir"], capture_output=True, text=True,
                                   check=True).stdout.strip()
        stack("server_install", self.directory)
        [installed] = (pathlib.Path(self.directory) / "dest" / libraries.lstrip("/")).glob("kube_reports-*.so")
        shutil.copyfile(TOP / "extension" / "build" / "sanitized" / installed.name, installed)
        stack("server_start", self.directory, "", "fsync = off", "log_min_messages = fatal",
              "log_min_error_statement = panic", **SANITIZER)
        stack("server_database", self.directory, "5432", CLUSTER)

    def connect(self, role):
        deadline = time.monotonic() + 60
        while True:
            try:
                connection = psycopg2.connect(host=self.directory, user=role, dbname="kube_reports",
                                              options="-c client_min_messages=error -c lock_timeout=1s")
                connection.autocommit = True
                query(connection, "SELECT 1")
                return connection
            except psycopg2.OperationalError:
                # The server restarts after a crash.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def faults(self):
        log = pathlib.Path(self.directory) / "log" / "postgresql.log"
        lines = log.read_text(errors="replace").splitlines()
        return [f"{line}\n    " + "\n    ".join(lines[n + 1:n + 8]) for n, line in enumerate(lines)
                if FAULT.search(line)]

    def stop(self):
        stack("server_stop", self.directory, "immediate")
        shutil.rmtree(self.directory, ignore_errors=True)


def query(connection, sql, *parameters):
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall() if cursor.description else []


def type_arguments(connection, oids, names=None, variadic=False):
    types = [query(connection, "SELECT format_type(%s, NULL)", oid)[0][0] for oid in oids]
    names = (names or []) + [""] * len(types)
    return [Argument(names[n], type_name, variadic and n == len(types) - 1) for n, type_name in enumerate(types)]


def typings(arguments):
    """Returns the arguments of a call, with concrete types for a polymorphic function."""
    polymorphic = {"anyarray": "{}[]", "anyelement": "{}"}
    if all(argument.type not in polymorphic for argument in arguments):
        return [arguments]
    elements = ("bigint", '"char"', "timestamp with time zone", "text", "jsonb")
    return [[argument._replace(type=polymorphic.get(argument.type, argument.type).format(element))
             for argument in arguments] for element in elements]


def routines(connection, condition=""):
    """Functions, procedures and aggregates of the schema that the caller may execute."""
    found = []
    for schema, name, kind, oids, names, variadic, returns, returns_set in query(connection, f"""
            SELECT p.pronamespace::regnamespace, p.proname, p.prokind, p.proargtypes::oid[], p.proargnames,
                p.provariadic <> 0, format_type(p.prorettype, NULL), p.proretset
            FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
            WHERE p.pronamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
                AND has_function_privilege(p.oid, 'EXECUTE')
                AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype)
            {condition} ORDER BY p.proname, p.oid"""):
        if name in NOT_CALLED:
            continue
        arguments = type_arguments(connection, oids, names, variadic)
        form = {"p": "CALL {}.{}({})", "a": "SELECT {}.{}({}) FROM generate_series(1, 2)"}.get(kind,
            "SELECT * FROM {}.{}({}) LIMIT 100")
        if kind == "f" and not returns_set and returns == "void":
            form = "SELECT {}.{}({})"
        found += [Target("procedure" if kind == "p" else "function", name,
                         form.format(schema, '"' + name.replace('"', '""') + '"', "{}"), typed, returns_set)
                  for typed in typings(arguments)]
    return found


def operators(connection):
    found = []
    for name, left, right in query(connection, "SELECT oprname, oprleft, oprright FROM pg_operator WHERE oprnamespace "
                                   "IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace) ORDER BY "
                                   "oid"):
        oids = [oid for oid in (left, right) if oid]
        found.append(Target("operator", name,
                            ("SELECT {} " if left else "SELECT ") + f"OPERATOR(kube_reports.{name}) " + "{}",
                            type_arguments(connection, oids), False))
    return found


def casts(connection):
    found = []
    for source, target, domain in query(connection, """
            SELECT c.castsource, format_type(c.casttarget, NULL), NULL FROM pg_cast c
            WHERE (SELECT count(*) FROM pg_type t WHERE t.oid IN (c.castsource, c.casttarget)
                AND t.typnamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)) > 0
            UNION ALL SELECT t.typbasetype, format_type(t.oid, NULL),
                (SELECT pg_get_constraintdef(c.oid) FROM pg_constraint c WHERE c.contypid = t.oid) FROM pg_type t
                WHERE t.typnamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
                AND t.typtype = 'd'
            UNION ALL SELECT 'unknown'::regtype, format_type(t.oid, NULL),
                (SELECT pg_get_constraintdef(c.oid) FROM pg_constraint c WHERE c.contypid = t.oid) FROM pg_type t
                WHERE t.typnamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
                AND t.typtype IN ('b', 'd') AND t.typelem = 0
            ORDER BY 1, 2"""):
        arguments = type_arguments(connection, [source])
        # CHECK (kube_reports.conforms(VALUE, 'group/version'::text, 'Kind'::text))
        of = re.search(r"'([^']+)'(?:::text)?, '([^']+)'", domain or "")
        found.append(Target("cast", f"{arguments[0].type} to {target}" + (f" of {of[1]} {of[2]}" if of else ""),
                            "SELECT CAST({} AS " + target + ")", arguments, False))
    return found


def known_values(connection):
    """Returns names that the store has, so that calls find objects."""
    composites = {}
    for name, column, column_type in query(connection, """
            SELECT format_type(c.reltype, NULL), a.attname, format_type(a.atttypid, NULL) FROM pg_class c
                JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
            WHERE c.relnamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
                AND c.relkind IN ('r', 'c', 'v') ORDER BY c.oid, a.attnum"""):
        composites.setdefault(name, []).append((column, column_type))
    return {
        "composites": composites,
        "definitions": query(connection,
                             "SELECT id, definition::text FROM kube_reports_internal.resource_version ORDER BY id"),
        "mappings": query(connection, "SELECT mapping_id, mapping::text FROM kube_reports.resource_type WHERE mapping "
                          "IS NOT NULL ORDER BY id"),
        "crds": [crd for crd, in query(connection, "SELECT crd::text FROM kube_reports.resource_type ORDER BY id")],
        "lanes": [lane for lane, in query(connection, "SELECT id FROM kube_reports_internal.lane ORDER BY id")],
        "cluster_id": query(connection, "SELECT id FROM kube_reports.cluster WHERE uid = %s", CLUSTER)[0][0],
    }


def fill(connection):
    for number in range(3):
        report = {"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport",
                  "metadata": {"name": f"r{number}", "namespace": "default", "labels": {"app": "x"}},
                  "results": [{"source": "kyverno", "policy": "p1", "rule": "r", "result": result,
                               "resources": [{"apiVersion": "v1", "kind": "Pod", "namespace": "default",
                                              "name": f"p{number}"}]}
                              for result in ("pass", "fail")]}
        query(connection, "SELECT kube_reports.create_report(%s, %s)", CLUSTER, json.dumps(report))


class Fuzzer:
    """Calls targets as one role."""

    show = ()

    def __init__(self, server, role, values, findings):
        self.server = server
        self.role = role
        self.values = values
        self.findings = findings
        self.calls = 0
        self.states = collections.Counter()
        self.slow = collections.Counter()
        self.open()

    def open(self):
        self.connection = self.server.connect(self.role)
        self.cursor = self.connection.cursor()
        self.cursor.execute("SET statement_timeout = '5s'")
        self.in_transaction = 0

    def argument(self, argument, value):
        """Returns SQL for a value: a string that the server reads, a list or a tuple of strings, or None."""
        if argument.type == "unknown":
            return "NULL" if value is None else self.cursor.mogrify("%s", (value,)).decode("utf-8", "surrogateescape")
        if value is None:
            return f"NULL::{argument.type}"
        if value is CALLER:
            return "kube_reports_internal.this_caller()"
        if argument.type in self.values.known["composites"]:
            columns = self.values.known["composites"][argument.type]
            return "ROW(" + ", ".join(self.argument(Argument(column, column_type, False), value[n])
                                      for n, (column, column_type) in enumerate(columns)) + f")::{argument.type}"
        if isinstance(value, list):
            element = Argument(argument.name, argument.type[:-2], False)
            return "ARRAY[" + ", ".join(self.argument(element, item) for item in value) + f"]::{argument.type}"
        if not isinstance(value, bytes):
            value = str(value)
        return self.cursor.mogrify("%s", (value,)).decode("utf-8", "surrogateescape") + f"::{argument.type}"

    def call_sql(self, target, values):
        arguments = [("VARIADIC " if argument.variadic else "") + self.argument(argument, value)
                     for argument, value in zip(target.arguments, values)]
        return target.sql.format(*arguments) if target.kind in ("operator",
            "cast") else target.sql.format(", ".join(arguments))

    def arguments(self, target):
        names = [argument.name for argument in target.arguments]
        pairs = []
        self.values.kind = next((kind for kind in KINDS if target.name.endswith(kind[0] + " " + kind[1])), None)
        for first, second, known in (("definition_id", "definition", "definitions"),
                                     ("mapping_id", "mapping", "mappings")):
            if first in names and second in names and self.values.chance(0.9):
                pairs.append((first, second, self.values.rng.choice(self.values.known[known])))
        for _, second, (_, document) in pairs:
            if second == "definition":
                kind = json.loads(document)["kind"]
                self.values.kind = next(known for known in KINDS if known[1] == kind)
        values = [self.values.of(argument.type, argument.name) for argument in target.arguments]
        for first, second, pair in pairs:
            values[names.index(first)], values[names.index(second)] = pair
        return values

    def call(self, target, values):
        sql = self.call_sql(target, values)
        self.calls += 1
        began = time.monotonic()
        try:
            if target.kind == "procedure":
                # The procedure commits.
                self.leave()
                self.cursor.execute(sql)
            else:
                self.enter()
                self.cursor.execute("SAVEPOINT call")
                try:
                    self.cursor.execute(sql)
                finally:
                    if not self.connection.closed:
                        self.cursor.execute("ROLLBACK TO SAVEPOINT call")
            self.states["ok"] += 1
        except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
            if self.connection.closed == 0 and getattr(error, "pgcode", None):
                self.judge(target, error, sql)
            else:
                self.found(target, f"the backend died: {error}", sql)
                self.open()
        except psycopg2.Error as error:
            self.judge(target, error, sql)
        if time.monotonic() - began > 1:
            self.slow[f"{target.kind} {target.name}"] += 1

    def enter(self):
        """Begins a transaction of some hundred calls, which is rolled back."""
        if self.in_transaction == 0:
            self.cursor.execute("BEGIN")
        self.in_transaction += 1
        if self.in_transaction > 300:
            self.leave()
            self.enter()

    def leave(self):
        if self.in_transaction:
            self.cursor.execute("ROLLBACK")
        self.in_transaction = 0

    def judge(self, target, error, sql):
        self.states[error.pgcode] += 1
        if error.pgcode in self.show:
            self.found(target, f"SQLSTATE {error.pgcode}: {error.diag.message_primary}", sql)
            return
        if error.pgcode and error.pgcode not in IMPROPER and any(error.pgcode.startswith(state) for state in PROPER):
            return
        message = error.diag.message_primary or ""
        if any(error.pgcode == state and said in message for state, said, _ in EXCEPTIONS):
            return
        self.found(target, f"SQLSTATE {error.pgcode}: {message} ({(error.diag.context or '')[:300]})", sql)

    def found(self, target, what, sql):
        key = (target.kind, target.name, what[:60])
        if key not in self.findings:
            print(f"FINDING as {self.role}: {target.kind} {target.name}: {what}\n  {sql[:2000]};", flush=True)
        self.findings[key] += 1

    def nulls(self, targets):
        """Calls with NULL in each position in turn, then in all positions."""
        for target in targets:
            for position in range(len(target.arguments)):
                values = self.arguments(target)
                values[position] = None
                self.call(target, values)
            if target.arguments:
                self.call(target, [None] * len(target.arguments))

    def rounds(self, targets, until, rounds):
        done = 0
        while time.monotonic() < until and done < rounds:
            for target in targets:
                self.call(target, self.arguments(target))
            done += 1

    def altered(self):
        """Calls the C functions with NULLs, although they are declared STRICT."""
        targets = routines(self.connection, "AND l.lanname = 'c'")
        for signature, in query(self.connection, """SELECT p.oid::regprocedure::text
                FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
                WHERE p.pronamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
                    AND l.lanname = 'c' AND p.proisstrict"""):
            self.cursor.execute(f"ALTER FUNCTION {signature} CALLED ON NULL INPUT")
        self.nulls(targets)
        self.binary_input(20)

    def binary_input(self, rounds):
        """Sends bytes of any kind as values in binary form."""
        self.leave()
        self.cursor.execute("CREATE TEMP TABLE IF NOT EXISTS received (document kube_reports.report)")
        target = Target("cast", "binary input of report", "", [], False)
        for _ in range(rounds):
            document = bytearray(self.values.of("bytea", "document"))
            for _ in range(self.values.rng.randrange(3)):
                document.insert(self.values.rng.randrange(len(document) + 1),
                                self.values.rng.choice([0, 0x80, 0xc0, 0xff, 0xed, 0x22, 0x7b]))
            length = self.values.rng.choice([len(document)] * 4 + [-1])
            message = b"PGCOPY\n\xff\r\n\0" + bytes(8) + b"\0\1" + length.to_bytes(4, "big",
                signed=True) + bytes(document)[:max(length, 0)] + b"\xff\xff"
            read, write = os.pipe()
            with open(write, "wb") as sink, open(read, "rb") as source:
                # A pipe has room for short output; long output is not needed here.
                sink.write(message[:60000])
                sink.close()
                self.calls += 1
                try:
                    self.cursor.copy_expert("COPY received FROM STDIN (FORMAT binary)", source)
                except psycopg2.Error as error:
                    if self.connection.closed:
                        self.found(target, f"the backend died: {error}", repr(message))
                        self.open()
                    else:
                        self.judge(target, error, repr(message))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2, help="random calls of each target by each role")
    parser.add_argument("--seconds", type=float, default=0, help="go on for so long instead")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--large", type=int, default=20_000, help="bytes of the largest values")
    parser.add_argument("--only", default="", help="a regular expression that names must match")
    parser.add_argument("--roles", default=",".join(ROLES))
    parser.add_argument("--show", default="", help="SQLSTATEs that count as findings although they are proper")
    parser.add_argument("--keep", action="store_true", help="leave the server running")
    options = parser.parse_args()

    built = subprocess.run(["make", "-C", TOP, "--no-print-directory", "-s", "sanitized-module"], capture_output=True,
                           text=True, check=False)
    if built.returncode != 0:
        raise SystemExit(built.stdout + built.stderr)
    Fuzzer.show = tuple(options.show.split(","))
    # A signal that ends this program must also end its server.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    server = Server()
    findings = collections.Counter()
    try:
        superuser = server.connect("postgres")
        query(superuser, "CREATE ROLE kube_reports_stranger LOGIN")
        owner = server.connect("kube_reports_owner")
        # Without USAGE the role without grants could not name any function, and would call none.
        query(owner, "GRANT USAGE ON SCHEMA kube_reports, kube_reports_internal TO kube_reports_stranger")
        fill(owner)
        known = known_values(superuser)
        owner.close()

        roles = options.roles.split(",")
        total = collections.Counter()
        slow = collections.Counter()
        for number, role in enumerate(roles):
            fuzzer = Fuzzer(server, role, Values(random.Random(f"{options.seed} {role}"), known, options.large),
                            findings)
            targets = [target for target in routines(fuzzer.connection) + operators(fuzzer.connection)
                       + casts(fuzzer.connection) if re.search(options.only, target.name)]
            # The owner may call the most functions.
            share = options.seconds * (number + 1) * 2 / (len(roles) * (len(roles) + 1))
            until = time.monotonic() + (share or 1e9)
            fuzzer.nulls(targets)
            fuzzer.binary_input(20)
            fuzzer.rounds(targets, until, 10**9 if options.seconds else options.rounds)
            fuzzer.leave()
            print(f"{role}: {len(targets)} targets, {fuzzer.calls} calls: "
                  + ", ".join(f"{state} {count}" for state, count in sorted(fuzzer.states.items(), key=str)),
                  flush=True)
            total += fuzzer.states
            slow += fuzzer.slow
        fuzzer = Fuzzer(server, "postgres", Values(random.Random(options.seed), known, options.large), findings)
        fuzzer.altered()
        print(f"altered C functions: {fuzzer.calls} calls: "
              + ", ".join(f"{state} {count}" for state, count in sorted(fuzzer.states.items(), key=str)), flush=True)
        if slow:
            print("slower than a second: " + ", ".join(f"{name} {count}" for name, count in slow.most_common()))
        if total["ok"] * 10 < sum(total.values()):
            print("FINDING: hardly any call succeeded: nothing was tried")
            findings["nothing tried"] += 1
        for fault in server.faults():
            print("LOG: " + fault)
            findings["log"] += 1
    finally:
        if options.keep:
            print(f"the server is {server.directory}")
        else:
            server.stop()
    print(f"{sum(findings.values())} findings of {len(findings)} kinds, seed {options.seed}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
