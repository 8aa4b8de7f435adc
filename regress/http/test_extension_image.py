"""
The files of the image of the extension, as a PostgreSQL 18 finds them in an image volume (docs/packages.md).

CloudNativePG mounts the image read-only at /extensions/NAME, and sets extension_control_path and dynamic_library_path
to its directories share and lib.
"""

import pathlib
import re
import shutil

import pytest
import yaml

from client import POLR, path_of, report, run
from conftest import TOP, stack_command
from runbook import blocks_of

CONTAINERFILE = TOP / "helm" / "images" / "extension" / "Containerfile"

pytestmark = pytest.mark.skipif(
    stack_command("server_extension_setting", check=False) != "extension_control_path",
    reason="a PostgreSQL before 18 has no extension_control_path; make check-pg18 runs this test")


def image_of(stack):
    """Moves the files of the package to where the Containerfile puts them; returns the path of the mounted image."""
    (block,) = (text for _, text in blocks_of("docs/packages.md") if "extensions:" in text)
    (extension,) = yaml.safe_load(block)["spec"]["postgresql"]["extensions"]
    directory = pathlib.Path(stack.database.directory)
    image = directory / "extensions" / extension["name"]
    share, library = (run([f"{stack.database.bindir()}/pg_config", option]).out.strip()
                      for option in ("--sharedir", "--pkglibdir"))
    places = dict((there, here) for here, there in
                  re.findall(r"mv /package(/usr/\S*/\$\{PG_MAJOR\}/\S+) /image/(\S+);", CONTAINERFILE.read_text()))
    assert {name: pathlib.Path(path).name for name, path in places.items()} == {
        "lib": "lib", "share/extension": "extension"}
    for name, path in (("lib", library), ("share/extension", f"{share}/extension")):
        (image / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(f"{directory}/dest{path}", image / name)
    run(["chmod", "-R", "a-w,a+rX", str(image)])
    return image


def test_image_volume(own_stack):
    """The operator's settings find the extension in the image, and nowhere else; a proxy works with the database"""
    image = image_of(own_stack)
    own_stack.begin(f"extension_control_path = '$system:{image}/share'",
                    f"dynamic_library_path = '$libdir:{image}/lib'", copied=False)
    assert own_stack.database.psql("SELECT extversion <> '' FROM pg_extension WHERE extname = 'kube_reports'") == "t"
    api = own_stack.proxy().api()
    api.create(POLR, report("r"), "shop")
    assert api.get(path_of(POLR, "shop", "r")).code == 200
