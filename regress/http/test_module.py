"""The shared library: the symbols that it exports, and the functions of the C library that it must not use."""

import pathlib

import pytest

from client import run
from conftest import VERSION, only_c

pytestmark = only_c

# Functions of the C library that follow the locale of the database.
LOCALIZED = {"strcasecmp", "strncasecmp", "tolower", "toupper", "strcoll", "strtok", "__ctype_b_loc",
             "__ctype_tolower_loc", "__ctype_toupper_loc"}


@pytest.fixture(scope="module")
def module(stack):
    [found] = pathlib.Path(stack.database.directory, "dest").glob("**/kube_reports-*.so")
    return found


def test_name_has_the_version(stack, module):
    """
    The module's name has the version, so that the file stays for databases that have not been updated; functions of a
    database name no other module
    """
    assert module.name == f"kube_reports-{VERSION}.so"
    assert stack.database.psql("SELECT DISTINCT p.probin FROM pg_proc p WHERE p.pronamespace IN "
                               "('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace) "
                               "AND p.probin IS NOT NULL") == f"$libdir/kube_reports-{VERSION}"


def symbols(module, which):
    return {line.split()[-1].partition("@")[0] for line in run(["nm", "-D", which, str(module)]).out.splitlines()}


def test_exported_symbols(module):
    """Only what PostgreSQL looks up is exported: the magic block, the hook, each function with its description"""
    exported = symbols(module, "--defined-only")
    functions = {name.removeprefix("pg_finfo_") for name in exported if name.startswith("pg_finfo_")}
    assert len(functions) > 30
    assert exported == {"Pg_magic_func", "_PG_init"} | functions | {f"pg_finfo_{name}" for name in functions}


def test_no_function_of_the_locale(module):
    """IMMUTABLE functions fold case as ASCII does, in a Turkish database as well"""
    assert not symbols(module, "--undefined-only") & LOCALIZED
