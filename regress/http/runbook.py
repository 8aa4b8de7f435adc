"""Commands and statements of docs/ and the README, as they stand there."""

import re

from conftest import TOP

BLOCKS = [text for page in ("README.md", "docs/operations.md")
          for text in re.findall(r"```\n(.*?)```", (TOP / page).read_text(encoding="utf-8"), re.S)]
STATEMENTS = re.findall(r"`((?:SELECT|CALL) [^`]+)`", (TOP / "docs" / "operations.md").read_text(encoding="utf-8"))


def block(contains, **names):
    """The only block that has a text; names: what stands there, and what it is called here."""
    (text,) = (text for text in BLOCKS if contains in text)
    for there, here in names.items():
        assert re.search(rf"\b{there}\b", text), there
        text = re.sub(rf"\b{there}\b", here, text)
    return text
