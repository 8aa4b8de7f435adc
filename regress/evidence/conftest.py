"""The fixtures of regress/http.  Modules there import conftest, which is this module here: both have the same name."""

import importlib.util
import pathlib
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "regress" / "http"))

SPEC = importlib.util.spec_from_file_location("http_conftest", TOP / "regress" / "http" / "conftest.py")
HTTP = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(HTTP)

STACK = HTTP.STACK
free_port = HTTP.free_port
stack_command = HTTP.stack_command
module_stack = HTTP.module_stack
