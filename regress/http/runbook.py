"""Reads the commands and statements of docs/operations.md and the README, so that tests run them unchanged."""

import os
import re

from conftest import TOP, stack_command


def blocks_of(page):
    """Returns the fenced blocks of a page, in their order: (language, text)."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", (TOP / page).read_text(encoding="utf-8"), re.M | re.S)


BLOCKS = [text for page in ("README.md", "docs/operations.md") for language, text in blocks_of(page) if not language]
STATEMENTS = re.findall(r"`((?:SELECT|CALL) [^`]+)`", (TOP / "docs" / "operations.md").read_text(encoding="utf-8"))


def block(contains, **names):
    """Returns the only block that has a text; names: names in the block, and the names that replace them."""
    (text,) = (text for text in BLOCKS if contains in text)
    return put(text, **names)


def put(text, **names):
    """Returns a text with other names; the text must have each of the replaced names."""
    for there, here in names.items():
        word = rf"(?<!\w){re.escape(there)}(?!\w)"
        assert re.search(word, text), there
        text = re.sub(word, lambda _, here=here: here, text)
    return text


def by_the_page(server, contains, **names):
    """Runs the commands of a block as the user of a server, in its directory, with its programs."""
    stack_command("as_server", "env", "-C", server.directory, f"PGHOST={server.directory}",
                  f"PGDATA={server.directory}/data", f"PATH={server.bindir()}:{os.environ['PATH']}",
                  "bash", "-e", "-c", block(contains, **names))
