"""What .ci/check-layers refuses: each fault in a copy of the tree is named."""

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
    """The exit code of the check, and what it prints."""
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
    ("extension/engine/api/selector.c", "#include <postgres.h>", "may not include postgres.h"),
    ("extension/engine/api/selector.c", '#include "fmgr.h"', "includes fmgr.h, which is no file of the tree"),
    ("extension/engine/api/selector.c", "#  include <libpq-fe.h>", "may not see libpq-fe.h"),
    ("proxy/api/get.c", '#include "db/pg_call.h"', "proxy/api/get.c may not see libpq-fe.h"),
    ("proxy/http/tls.c", "#include <h2o.h>", "may not include h2o.h"),
    ("proxy/api/get.c", '#include "http/http_h2o.h"', "proxy/api/get.c may not see h2o/http2.h"),
    ("proxy/cluster/kubeapi.c", "#include <curl/curl.h>", "may not see curl/curl.h"),
    ("extension/datum.c", "#if PG_VERSION_NUM >= 170000", "goes by the version of PostgreSQL"),
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
