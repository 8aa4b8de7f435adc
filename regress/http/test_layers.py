"""Each fault in a copy of the tree is named by .ci/check-layers or .ci/format."""

import re
import shutil
import subprocess

import pytest

from conftest import TOP


@pytest.fixture(name="tree", scope="module")
def fixture_tree(tmp_path_factory):
    """A copy of the files that the check reads."""
    tree = tmp_path_factory.mktemp("layers")
    for name in ("extension", "proxy", "sql", ".ci"):
        shutil.copytree(TOP / name, tree / name, ignore=shutil.ignore_patterns("build"))
    return tree


def check(tree):
    """Returns the exit code of the check, and what it prints."""
    done = subprocess.run([tree / ".ci" / "check-layers"], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_the_tree_has_no_fault(tree):
    code, said = check(tree)
    assert code == 0, said


@pytest.mark.parametrize("name, added, said", [
    ("proxy/base/log.c", '#include "http/http.h"', "proxy/base may not include proxy/http"),
    ("extension/engine/base/json.c", '#include "engine/api/metadata.h"', "engine/base may not include engine/api"),
    ("proxy/base/log.h", '#include "base/log.h"', "includes itself by way of others"),
    ("proxy/api/event.c", '#include "api/watch.h"', "proxy/api/event includes proxy/api/watch includes "),
    ("extension/engine/base/ascii.h", '#include "engine/base/json_scan.h"', "includes itself by way of others"),
    ("extension/engine/api/selector.c", "#include <postgres.h>", "may not include postgres.h"),
    ("extension/engine/api/selector.c", '#include "fmgr.h"', "includes fmgr.h, which is no file of the tree"),
    ("extension/engine/api/selector.c", "#  include <libpq-fe.h>", "may not see libpq-fe.h"),
    ("proxy/api/get.c", '#include "db/pg_call.h"', "proxy/api/get.c may not see libpq-fe.h"),
    ("proxy/http/tls.c", "#include <h2o.h>", "may not include h2o.h"),
    ("proxy/api/get.c", '#include "http/http_h2o.h"', "proxy/api/get.c may not see h2o/http2.h"),
    ("proxy/cluster/kubeapi.c", "#include <curl/curl.h>", "may not see curl/curl.h"),
    ("extension/datum.c", "#if PG_VERSION_NUM >= 170000", "goes by the version of PostgreSQL"),
    ("proxy/http/tls.c", "static int\njson_parse(void)\n{\n\treturn 0;\n}", "static json_parse() has the name"),
    ("proxy/http/tls.c", "typedef struct Transfer Transfer;", "Transfer has the name of that of proxy/cluster"),
    ("sql/store/read.sql", "CREATE UNLOGGED TABLE elsewhere (id integer);", "belongs into sql/tables"),
    (".ci/layers", "proxy/base: proxy/api", ".ci/layers: "),
])
def test_the_check_names_a_fault(tree, name, added, said):
    path = tree / name
    before = path.read_text()
    try:
        path.write_text(f"{before}\n{added}\n")
        code, printed = check(tree)
    finally:
        path.write_text(before)
    assert code == 1
    assert re.search(re.escape(said), printed), printed


def test_the_format_names_what_is_too_long(tmp_path):
    """A function and a file of C at their limits are accepted; one line more, or one column more, is named."""
    def function(name, lines):
        return f"static void\n{name}(void)\n{{\n" + "\t;\n" * (lines - 3) + "}\n\n"
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".ci").mkdir()
    for name in ("format", "typedefs"):
        shutil.copy(TOP / ".ci" / name, tmp_path / ".ci")
    (tmp_path / "functions.c").write_text(function("may_be", 80) + function("too_long", 81))
    (tmp_path / "short.c").write_text("/* as long as it may be */\n" * 900)
    (tmp_path / "long.c").write_text("/* too long */\n" * 901)
    (tmp_path / "wide.spec").write_text("#" * 121 + "\n")
    done = subprocess.run([tmp_path / ".ci" / "format", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "functions.c:84: too_long() has 81 lines, at most 80" in done.stdout
    assert "long.c: 901 lines, at most 900" in done.stdout
    assert "wide.spec:1: 121 columns, at most 120" in done.stdout
    assert "may_be" not in done.stdout and "short.c" not in done.stdout


def table_of(name, declaration, entry):
    """Returns the entries of a table in C, each with what the expression takes from it."""
    text = (TOP / "extension" / "engine" / name).read_text()
    body = re.search(rf"{re.escape(declaration)}\[\] = \{{\n(.*?)^\}};", text, re.M | re.S).group(1)
    return re.findall(entry, body)


@pytest.mark.parametrize("admitted, owned, described", [
    ("FieldShape object_meta_fields", "SchemaProperty object_meta_properties", "MetaField object_meta_fields"),
    ("FieldShape owner_fields", "SchemaProperty owner_properties", "MetaField owner_reference_fields"),
])
def test_the_three_tables_of_metadata_agree(admitted, owned, described):
    """A write admits, managed fields follow and OpenAPI describes the same fields, with the same kinds."""
    kinds = {"FIELD_STRING": "string", "FIELD_DROPPED": "string", "FIELD_INT": "integer", "FIELD_BOOL": "boolean",
             "FIELD_STRING_MAP": "map", "FIELD_TIME": "time", "FIELD_STRING_LIST": "strings",
             "FIELD_MANAGED": "objects", "FIELD_OWNERS": "objects",
             "string_schema": "string", "uid_schema": "string", "integer_schema": "integer",
             "boolean_schema": "boolean", "string_map_schema": "map", "time_schema": "time",
             "finalizers_schema": "strings", "managed_fields_schema": "objects", "owners_schema": "objects",
             "META_STRING": "string", "META_INT64": "integer", "META_BOOLEAN": "boolean", "META_STRING_MAP": "map",
             "META_REFERENCE": "time", "META_STRINGS": "strings", "META_REFERENCES": "objects"}
    tables = [table_of("api/metadata.c", admitted, r'\{"(\w+)", (\w+),'),
              table_of("fields/field_type.c", owned, r'PROPERTY\("(\w+)", (\w+)\)'),
              table_of("answers/openapi_schema.c", described, r'\{"(\w+)", (META_\w+)')]
    first, second, third = ([(name, kinds[kind]) for name, kind in table] for table in tables)
    assert len(first) >= 6
    assert first == second == third
