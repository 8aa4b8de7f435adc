"""The pages agree with the code, and the commands that make up prints work."""

import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess

import pytest

from client import run, until
from conftest import KUBECTLS, TOP, VARIANT, free_port
from runbook import blocks_of

API_PAGE = (TOP / "docs" / "api.md").read_text()

VISIBLE = """
SELECT p.proname FROM pg_proc p WHERE p.pronamespace = 'kube_reports'::regnamespace
UNION SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'kube_reports'::regnamespace
    AND c.relkind IN ('r', 'v', 'm', 'p', 'S') AND NOT c.relispartition
UNION SELECT t.typname FROM pg_type t LEFT JOIN pg_class c ON c.oid = t.typrelid
    WHERE t.typnamespace = 'kube_reports'::regnamespace AND t.typcategory <> 'A' AND (c.oid IS NULL OR c.relkind = 'c')
ORDER BY 1
"""

COMMENTS = """
SELECT p.proname || '|' || obj_description(p.oid, 'pg_proc') FROM pg_proc p
    WHERE p.pronamespace = 'kube_reports'::regnamespace
UNION ALL SELECT c.relname || '|' || obj_description(c.oid, 'pg_class') FROM pg_class c
    WHERE c.relnamespace = 'kube_reports'::regnamespace AND c.relkind IN ('r', 'v')
UNION ALL SELECT t.typname || '|' || obj_description(t.oid, 'pg_type') FROM pg_type t
    LEFT JOIN pg_class c ON c.oid = t.typrelid
    WHERE t.typnamespace = 'kube_reports'::regnamespace AND t.typcategory <> 'A' AND (c.oid IS NULL OR c.relkind = 'c')
"""

# Pages for users; other pages also describe the inner schema.
USER_PAGES = ["README.md", *(f"docs/{name}.md"
                             for name in ("api", "howto", "operations", "analytics", "export", "aggregation"))]

# The users of each routine, view and table.  The query takes the first of these that have the right: everybody, readers
# of one namespace, readers of everything, administrators, the owner.
FOR_WHOM = """
SELECT o.name, CASE WHEN 'docs_nobody' = ANY (o.roles) THEN 'everybody'
    WHEN 'docs_namespace' = ANY (o.roles) THEN 'readers'
        WHEN 'docs_reader' = ANY (o.roles) THEN 'readers of all' WHEN 'docs_admin' = ANY (o.roles) THEN 'administrators'
        ELSE 'owner' END,
    'docs_proxy' = ANY (o.roles)
FROM (SELECT p.proname AS name, ARRAY(SELECT r.rolname FROM role r
    WHERE has_function_privilege(r.rolname, p.oid, 'EXECUTE')) AS roles
    FROM pg_proc p WHERE p.pronamespace = 'kube_reports'::regnamespace
    UNION ALL
    SELECT c.relname, ARRAY(SELECT r.rolname FROM role r WHERE has_table_privilege(r.rolname, c.oid, 'SELECT'))
    FROM pg_class c WHERE c.relnamespace = 'kube_reports'::regnamespace AND c.relkind IN ('r', 'p', 'v')) o
ORDER BY 1
"""


def documented():
    """
    Returns the names in the first column of the page's tables, the arguments of the functions, and the users in the
    second column.
    """
    names, arguments, for_whom = set(), {}, {}
    for line in API_PAGE.splitlines():
        found = re.match(r"\| `(\w+)(?:\(([^`]*)\))?` \|(?: ([a-z ]+) \|)?", line)
        if found:
            names.add(found[1])
            for_whom[found[1]] = found[3]
            if found[2] is not None:
                arguments[found[1]] = found[2]
    return names, arguments, for_whom


def test_api_page_is_complete(stack):
    visible = set(stack.database.psql(VISIBLE).split())
    names, _, _ = documented()
    assert sorted(visible - names) == [], "not in docs/api.md"
    assert sorted(names - visible) == [], "only in docs/api.md"


def test_api_page_has_the_comments(stack):
    """The last column of the page has the comments of the objects"""
    rows = dict(line.split("|", 1) for line in stack.database.psql(COMMENTS).splitlines())
    page = {found[1]: found[2] for found in re.finditer(r"^\| `(\w+)[^|]*\|(?:.*\|)? ([^|]+) \|$", API_PAGE, re.M)}
    assert len(page) > 100
    assert {name: text for name, text in page.items() if rows.get(name) != text} == {}


def test_api_page_has_the_signatures(stack):
    """The page has the arguments as they are declared, without defaults"""
    _, arguments, _ = documented()
    rows = stack.database.psql("SELECT p.proname, CASE p.prokind WHEN 'p' THEN pg_get_function_arguments(p.oid) ELSE"
                               " pg_get_function_identity_arguments(p.oid) END FROM pg_proc p"
                               " WHERE p.pronamespace = 'kube_reports'::regnamespace ORDER BY 1")

    def plain(text):
        text = re.sub(r" DEFAULT [^,]+", "", text).replace("kube_reports.", "").replace("character varying", "varchar")
        return [part.strip() for part in text.split(",") if part.strip() and not part.strip().startswith("OUT ")]

    for row in rows.splitlines():
        name, _, declared = row.partition("|")
        if name in arguments:
            assert plain(arguments[name]) == plain(declared), name


def test_api_page_says_for_whom(stack):
    """
    The second column agrees with the grants: everybody, readers of a part, readers of everything, administrators, or
    only the owner
    """
    database = stack.database
    roles = ("docs_nobody", "docs_namespace", "docs_reader", "docs_admin", "docs_proxy")
    cluster = database.psql("SELECT uid FROM kube_reports.cluster ORDER BY id LIMIT 1")
    database.psql("".join(f"CREATE ROLE {role};" for role in roles), user="postgres")
    try:
        database.psql(f"""SELECT kube_reports.grant_namespace('docs_namespace', '{cluster}', 'a');
            SELECT kube_reports.grant_reader('docs_reader'); SELECT kube_reports.grant_admin('docs_admin');
            SELECT kube_reports.grant_proxy('docs_proxy', '{cluster}')""")
        given = f"WITH role AS (SELECT r.rolname FROM pg_roles r WHERE r.rolname IN {roles}) {FOR_WHOM}"
        rows = [row.split("|") for row in database.psql(given, user="postgres").splitlines()]
    finally:
        database.psql("""DELETE FROM kube_reports_internal.proxy_role WHERE role = 'docs_proxy';
            DELETE FROM kube_reports_internal.reader_grant WHERE role LIKE 'docs\\_%'""")
        database.psql(f"GRANT {', '.join(roles)} TO kube_reports_owner", user="postgres")
        database.psql(f"DROP OWNED BY {', '.join(roles)}")
        database.psql(f"DROP ROLE {', '.join(roles)}", user="postgres")
    _, _, for_whom = documented()
    assert len(rows) > 80
    assert {name: for_whom.get(name) for name, _, _ in rows} == {name: whom for name, whom, _ in rows}
    # Proxies call functions of the inner schema; in the outer schema they have the rights of everybody.
    assert [name for name, whom, proxy in rows if (proxy == "t") != (whom == "everybody")] == []


@pytest.mark.parametrize("page", USER_PAGES)
def test_users_are_sent_to_what_is_public(stack, page):
    """A page for users names no object of the inner schema; each object of the outer schema that it names exists"""
    text = (TOP / page).read_text()
    if page == "docs/api.md":
        text = text.replace("Schema `kube_reports_internal` holds the rest", "")
    assert re.findall(r"kube_reports_internal\.\w+", text) == []
    visible = set(stack.database.psql(VISIBLE).split())
    assert sorted(set(re.findall(r"\bkube_reports\.(\w+)", text)) - visible) == []
    inside = set(stack.database.psql("SELECT p.proname FROM pg_proc p WHERE p.pronamespace = "
                                     "'kube_reports_internal'::regnamespace").split())
    assert sorted(set(re.findall(r"`[^`\n]*?\b(\w+)\(", text)) & inside - visible) == []


def anchors(page):
    """Returns the anchors that a renderer makes of the headings of a page"""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_pages_name_existing_files():
    """Every file of the tree that a page names, and the target of every link between pages, exists"""
    pages = [*TOP.glob("*.md"), *(TOP / "docs").rglob("*.md")]
    assert pages
    for page in pages:
        text = page.read_text()
        for target, anchor in re.findall(r"\]\((?!\w+:)([^)#]*)(?:#([^)]*))?\)", text):
            linked = page.parent / target if target else page
            assert linked.exists(), (page.name, target)
            assert not anchor or anchor in anchors(linked), (page.name, target, anchor)
        for name in re.findall(r"`((?:extension|proxy|sql|regress|docs|\.ci)/[\w./-]+)`", text):
            # make builds these.
            built = name.startswith(("sql/build/", "regress/bench/build/"))
            assert built or (TOP / name).exists(), (page.name, name)


def rooms():
    """Returns the directories of the two top levels that have code or tests"""
    tracked = run(["git", "ls-files", "-z"], cwd=TOP).out.split("\0")
    found = {pathlib.PurePath(*pathlib.PurePath(name).parts[:depth]) for name in tracked for depth in (1, 2)
             if len(pathlib.PurePath(name).parts) > depth}
    return sorted(TOP / room for room in found if room.parts[0] in ("extension", "proxy", "sql", "helm", "regress"))


# Names of no files in the tree: headers of libraries, a pattern of scripts, the output of make install-manifest.
ELSEWHERE = {"postgres.h", "h2o.h", "OLD--NEW.sql", "install.yaml"}


def exists_near(name, places):
    return any((place / name).exists() for place in places)


def test_rooms_have_a_page():
    """
    The page of every room says what belongs there, what does not, and where its tests are; the files that it names
    exist, in the room, in the tree, or beside the file named before.  Rooms of regress are in the table of its page.
    """
    found = rooms()
    assert len(found) > 40
    for room in found:
        if room.parent == TOP / "regress":
            assert f"| `{room.name}` |" in (TOP / "regress" / "README.md").read_text(), room
            continue
        page = (room / "README.md").read_text()
        if room != TOP / "helm" / "kube-reports":
            assert re.search(r"^# \w", page), room
            assert room.name == "regress" or "**Not here:**" in page and "**Tests:**" in page, room
        places = [room, room.parent, TOP, TOP / "extension", TOP / "proxy"]
        for name in re.findall(r"`([\w./-]+\.(?:c|h|sql|py|md|proto|yaml))`", page):
            if name not in ELSEWHERE:
                assert exists_near(name, places), (room, name)
                places.append(next(place / name for place in places if (place / name).exists()).parent)


@pytest.mark.parametrize("command", [
    ["proxy"], ["grpc"], ["evidence"], *(["proxy", name] for name in ("forward", "register", "import", "cleanup"))])
def test_help_is_tidy(command):
    """No line of the help ends in a space, and only flags of sizes and rates are in bytes"""
    shown = run([str(TOP / "proxy" / "build" / f"kube-reports-{command[0]}"), *command[1:], "--help"]).out
    assert re.findall(r" $", shown, re.M) == []
    assert [name for name in re.findall(r"^  --([\w-]+) bytes$", shown, re.M)
            if not name.endswith("-bytes") and name != "min-rate"] == []
    assert "Flags:\n" in shown


def test_security_page_names_existing_tests():
    """Every test that the page names exists, in the file of its name, or in the file that was named before it"""
    page = (TOP / "docs" / "security.md").read_text()
    file, count = None, 0
    for name in re.findall(r"`((?:test_\w+\.py::)?test_\w+|\w+\.sql)`", page):
        count += 1
        if name.endswith(".sql"):
            assert (TOP / "regress" / "sql" / name).exists(), name
            continue
        file, _, test = name.rpartition("::") if "::" in name else (file, "", name)
        found = [room / file for room in (TOP / "regress" / "http", TOP / "regress" / "variant_sql")
                 if (room / file).exists()]
        assert len(found) == 1 and f"\ndef {test}(" in found[0].read_text(), name
    assert count > 30


def test_tests_of_one_variant_are_told():
    """The page about the SQL variant names each file with tests that only the C variant runs, and no other file"""
    marked = {path.name for path in (TOP / "regress" / "http").glob("test_*.py")
              if re.search(r"^(@|pytestmark = )(only_c\w*|\w+_of_c)\b", path.read_text(), re.MULTILINE)}
    told = (TOP / "docs" / "managed.md").read_text().partition("### What the tests leave out")[2].partition("\n### ")[0]
    rows = [line.split(" | ")[0] for line in told.splitlines() if line.startswith("| ")]
    assert marked and marked == {name for row in rows for name in re.findall(r"`(test_\w+\.py)`", row)}


def test_differences_are_told():
    """
    ADM-03, ADM-04: the list of differences names the checks of kube-apiserver that aggregated groups do not have
    """
    differences = (TOP / "docs" / "conformance.md").read_text().partition("## Where this differs")[2]
    for word in ("Webhooks and policies of admission", "OwnerReferencesPermissionEnforcement", "quotas"):
        assert word in differences


# ---- tables and locks ----

# All tables except the partitions of history.
TABLES = """
SELECT c.relname, (SELECT string_agg(a.attname, ', ' ORDER BY k.place) FROM pg_index i,
        unnest(i.indkey::smallint[]) WITH ORDINALITY k(number, place)
        JOIN pg_attribute a ON a.attnum = k.number WHERE i.indrelid = c.oid AND i.indisprimary AND a.attrelid = c.oid)
FROM pg_class c WHERE c.relnamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
    AND c.relkind IN ('r', 'p') AND c.relname !~ '^report_change_\\d'
"""
REFERENCES = """
SELECT p.relname, h.relname, EXISTS (SELECT FROM kube_reports_internal.dumped_references() r
    WHERE r.child = c.conrelid AND r.name = c.conname)
FROM pg_constraint c JOIN pg_class p ON p.oid = c.confrelid JOIN pg_class h ON h.oid = c.conrelid
WHERE c.contype = 'f' AND c.connamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
"""
# Tables that only databases of the SQL variant have.
ONLY_SQL = {"sql_answer"} if VARIANT == "c" else set()


def chapter(page, heading):
    return (TOP / "docs" / page).read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


@pytest.fixture(scope="module")
def tables(stack):
    """Each table with its primary key, or with an empty text."""
    return dict(row.split("|") for row in stack.database.psql(TABLES).splitlines())


def test_what_grows_has_each_table(tables):
    """The page has each table: with its growth and its limit, or among the tables that do not grow with reports"""
    growing, _, other = chapter("operations.md", "What grows").partition("The other tables")
    rows = [re.fullmatch(r"\| (.+?) \| (.+?) \| (.+) \|", line).groups() for line in growing.splitlines()
            if line.startswith("| `")]
    assert len(rows) > 15
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row[0])]
    named += [name for line in other.partition("These views")[0].splitlines() if line.startswith("- ")
              for name in re.findall(r"`(\w+)`", line.partition(":")[2])]
    assert sorted(named) == sorted({*tables, *ONLY_SQL})


def test_diagram_has_each_table_and_key(stack, tables):
    """The diagram has each table with its primary key, and an arrow for each foreign key, starred if dumps lack it"""
    diagram = chapter("architecture/store.md", "Tables and their keys").split("```")[1]
    arrows, above = set(), []
    for line in diagram.splitlines():
        found = re.match(r"([ |]*)(<-[*-]-)? ?(\w+)", line)
        if not found:
            continue
        depth = len(found[1])
        above = [(place, name) for place, name in above if place < depth]
        if found[2]:
            arrows.add((above[-1][1], found[3], "t" if "*" in found[2] else "f"))
        above.append((depth, found[3]))
    assert arrows == {tuple(row.split("|")) for row in stack.database.psql(REFERENCES).splitlines()}
    plain = re.sub(r"unique \([^)]*\)|\(variant sql\)", "", diagram)
    keys = re.findall(r"(\w+) \(([a-z_]+(?:, [a-z_]+)*)\)", plain)
    assert [(name, key) for name, key in keys if name not in ONLY_SQL and tables.get(name) != key] == []
    # Tables without a key have a single row, or rows that identify themselves.
    left = {*tables, *ONLY_SQL} - {name for name, _ in keys}
    assert left == {"store", "caller_secret", "rollup_mark", "reader_grant", "report_change"}
    assert [name for name in left if not re.search(rf"\b{name}\b", diagram)] == []


def test_locks_have_their_keys(stack):
    """The table of locks has each function that gives a key, and the key that it gives"""
    functions = stack.database.psql(
        "SELECT p.proname, p.pronargs FROM pg_proc p WHERE p.pronamespace = 'kube_reports_internal'::regnamespace"
        " AND p.proname ~ '_lock$' AND p.prorettype = 'integer'::regtype").splitlines()
    assert len(functions) > 8
    page = dict(re.findall(r"^\| `(\w+)\([a-z]*\)` \| ([^|]+) \|", chapter("architecture/store.md", "Locks"), re.M))
    assert sorted(page) == sorted(row.split("|")[0] for row in functions)
    for name, said in page.items():
        arguments, key = "", said
        if f"{name}|1" in functions:
            # The key of each cluster.
            arguments, key = "5", str(int(re.fullmatch(r"(-\d+) less the cluster's id", said)[1]) - 5)
        assert stack.database.psql(f"SELECT kube_reports_internal.{name}({arguments})") == key, name


def test_explained_query_is_that_of_the_page():
    """The page says which index EXPLAIN shows for a query; regress/sql explains the same query"""
    (query,) = (text for language, text in blocks_of("docs/analytics.md")
                if language == "sql" and "score >= 8 ORDER BY" in text)
    explained = (TOP / "regress" / "sql" / "answers.sql").read_text()
    assert " ".join(query.split()).removesuffix(";") in " ".join(explained.split())


# ---- make up ----

@pytest.fixture(scope="module")
def stack_of_make_up(tmp_path_factory):
    """Runs make up in a directory and on ports of its own; gives the printed commands as well."""
    # A short path that the server's user may enter.
    directory = pathlib.Path(run(["mktemp", "-d", "/tmp/kube-reports-up-XXXXXX"]).out.strip())
    directory.chmod(0o755)
    ports = {"PORT": free_port(), "METRICS_PORT": free_port(), "PG_PORT": free_port()}
    environment = {**{name: value for name, value in os.environ.items() if name != "KUBECONFIG"},
                   "RUN_DIR": str(directory / "run")}
    command = ["make", "--no-print-directory", "up", *(f"{name}={value}" for name, value in ports.items())]
    try:
        first = run(command, timeout=300, cwd=TOP, env=environment)
        yield directory, command, environment, [line.strip() for line in first.out.splitlines()
                                                if line.startswith("  ")]
    finally:
        run(["make", "--no-print-directory", "clean-run"], check=False, cwd=TOP, env=environment)
        run(["make", "--no-print-directory", "clean-run"], check=False, cwd=TOP,
            env={**environment, "RUN_DIR": str(directory / "second")})
        shutil.rmtree(directory, ignore_errors=True)


def shell(script, directory, environment, **more):
    """Runs a command as a user types it, with an available kubectl on the PATH."""
    binaries = directory / "bin"
    binaries.mkdir(exist_ok=True)
    if not (binaries / "kubectl").exists():
        (binaries / "kubectl").symlink_to(next(path for path in reversed(KUBECTLS) if path))
    environment = {**environment, "PATH": f"{binaries}:{environment['PATH']}", "HOME": str(directory)}
    return run(["bash", "-c", f"set -e -o pipefail\n{script}"], cwd=TOP, env=environment, **more)


def test_what_make_up_prints(stack_of_make_up):
    """Every printed line works"""
    directory, _, environment, printed = stack_of_make_up
    export = printed[0]
    assert export == f"export KUBECONFIG={directory}/run/kubeconfig"
    seen = set()
    for line in printed[1:]:
        words = shlex.split(line)
        if words[0] == "make" and words[1] == "up":
            # The second proxy: in a directory and on ports of this test.
            second = [f"RUN_DIR={directory}/second" if word.startswith("RUN_DIR=") else
                      f"PORT={free_port()}" if word.startswith("PORT=") else
                      f"METRICS_PORT={free_port()}" if word.startswith("METRICS_PORT=") else word for word in words]
            plain = {name: value for name, value in environment.items() if name != "RUN_DIR"}
            out = shell(shlex.join(second), directory, plain, timeout=120).out
            assert "kube-reports answers on" in out
            both = [shell(f"export KUBECONFIG={directory}/{name}/kubeconfig; kubectl get polr -A -o name",
                          directory, environment).out
                    for name in ("run", "second")]
            assert both[0] == both[1] != ""
            assert shell(f"make down RUN_DIR={directory}/second", directory, plain).code == 0
            seen.add("second")
        elif words[0] == "make" and words[1] == "down":
            seen.add("down")
            assert words[2:] == [f"RUN_DIR={directory}/run"]
        elif "--watch" in words:
            watching = subprocess.Popen(["bash", "-c", f"{export}; exec {line}"], cwd=TOP,
                                        stdout=subprocess.PIPE, text=True,
                                        env={**environment, "PATH": f"{directory}/bin:{environment['PATH']}",
                                             "HOME": str(directory)})
            assert watching.stdout.readline().split()[:2] == ["NAMESPACE", "NAME"]
            assert len(watching.stdout.readline().split()) == 10
            watching.send_signal(signal.SIGTERM)
            watching.communicate(timeout=10)
            seen.add("watch")
        else:
            out = shell(f"{export}\n{line}", directory, environment).out
            assert out.strip(), line
            seen.add(words[0])
            if line == "kubectl get polr -A -o wide":
                rows = [row.split() for row in out.splitlines()]
                assert rows[0] == ["NAMESPACE", "NAME", "KIND", "NAME", "PASS", "FAIL", "WARN", "ERROR", "SKIP", "AGE"]
                assert len(rows) > 30 and len({row[0] for row in rows[1:]}) >= 4
                assert any(int(row[5]) > 0 for row in rows[1:]) and any(int(row[4]) > 0 for row in rows[1:])
    assert seen >= {"kubectl", "watch", ".", "curl", "second", "down"}


def test_a_write_of_the_readme(stack_of_make_up):
    """kubectl shows the change that psql makes in the README; the report keeps its results"""
    directory, _, environment, printed = stack_of_make_up
    name = "6b82cb4f-c2af-5afb-f537-b9fb016b221c"
    (write,) = (text for _, text in blocks_of("README.md") if "patch_report" in text)

    def results():
        """Returns the number of results of the report in the views, after all pending results are derived."""
        def asked(sql):
            return shell(f'. {directory}/run/env\npsql -X -A -t -c "{sql}"', directory, environment).out.strip()
        until(lambda: asked("SELECT results_pending FROM kube_reports.status") == "f", 60, "the results")
        return int(asked("SELECT count(*) FROM kube_reports.typed_result WHERE cluster_name = 'local'"
                         f" AND namespace = 'shop' AND report = '{name}'"))

    before = results()
    shell(f". {directory}/run/env\n{write.removeprefix('$ ')}", directory, environment)
    seen = "kubectl get polr -n shop -l seen=yes -o name"
    assert name in shell(f"{printed[0]}\n{seen}", directory, environment).out
    assert results() == before > 0


def test_make_up_again_changes_nothing(stack_of_make_up):
    directory, command, environment, printed = stack_of_make_up
    state = ("SELECT md5(string_agg(o::text, '' ORDER BY o::text)) FROM kube_reports.object o;"
             "SELECT version, registry_generation, log_entries FROM kube_reports.status")

    def look():
        tables = shell(f". {directory}/run/env && psql -X -A -t -c \"{state}\"", directory, environment).out
        server = directory / "run" / "server"
        return tables, (server / "proxy.pid").read_text(), (server / "data" / "postmaster.pid").read_text()

    before = look()
    again = run(command, timeout=120, cwd=TOP, env=environment)
    assert [line.strip() for line in again.out.splitlines() if line.startswith("  ")] == printed
    assert look() == before


def test_make_down_leaves_no_process(stack_of_make_up):
    directory, _, environment, _ = stack_of_make_up

    def processes():
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and str(directory) in (entry / "cmdline").read_bytes().replace(b"\0",
                    b" ").decode(errors="replace"):
                    found.append(entry.name)
            except OSError:
                pass
        return found

    assert processes()
    assert shell("make down", directory, environment).code == 0
    until(lambda: not processes(), 10, "the end of the processes")
