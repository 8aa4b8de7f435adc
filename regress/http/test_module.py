"""The shared library: what it gives to other modules of the server, and what it takes from the C library."""

import pathlib

import pytest

from client import run
from conftest import VERSION, only_c

pytestmark = only_c

# They follow the locale of the database.
LOCALIZED = {"strcasecmp", "strncasecmp", "tolower", "toupper", "strcoll", "strtok", "__ctype_b_loc",
             "__ctype_tolower_loc", "__ctype_toupper_loc"}


@pytest.fixture(scope="module")
def module(stack):
    [found] = pathlib.Path(stack.database.directory, "dest").glob("**/kube_reports-*.so")
    return found


def test_name_has_the_version(stack, module):
    """
    So that the module of a version stays where it is for databases that have not been updated; nothing in a database
    names another
    """
    assert module.name == f"kube_reports-{VERSION}.so"
    assert stack.database.psql("SELECT DISTINCT p.probin FROM pg_proc p WHERE p.pronamespace IN "
                               "('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace) "
                               "AND p.probin IS NOT NULL") == f"$libdir/kube_reports-{VERSION}"


def symbols(module, which):
    return {line.split()[-1].partition("@")[0] for line in run(["nm", "-D", which, str(module)]).out.splitlines()}


def test_exported_symbols(module):
    """Nothing but what PostgreSQL looks up: the magic block, the hook, and each function with its description"""
    exported = symbols(module, "--defined-only")
    functions = {name.removeprefix("pg_finfo_") for name in exported if name.startswith("pg_finfo_")}
    assert len(functions) > 30
    assert exported == {"Pg_magic_func", "_PG_init"} | functions | {f"pg_finfo_{name}" for name in functions}


def test_no_function_of_the_locale(module):
    """IMMUTABLE functions fold case as ASCII does, in a Turkish database as well"""
    assert not symbols(module, "--undefined-only") & LOCALIZED
