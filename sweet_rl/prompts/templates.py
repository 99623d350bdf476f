"""Templates: packaged ones by name, a person's own by path; filled without surprises.

The wording of the packaged ones is our own; what each must contain is as published.

Published behaviour: docs/published/sweet_rl.md#agent, #in-episodes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path

from sweet_rl.errors import UsageError


def load_prompt(name_or_path: str) -> str:
    """The text of a packaged template (with or without `.txt`; "taxi_rules") or of a file.

    Raises:
        UsageError: neither exists; lists the packaged ones.
    """
    folder = resources.files("sweet_rl.prompts")
    packaged = {file.name: file for file in folder.iterdir() if file.name.endswith(".txt")}
    inside = folder / "reflect"
    packaged |= {f"reflect/{file.name}": file for file in inside.iterdir() if file.name.endswith(".txt")}
    for name in (name_or_path, f"{name_or_path}.txt"):
        if name in packaged:
            return packaged[name].read_text(encoding="utf-8")
    try:
        return Path(name_or_path).expanduser().read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(
            f"There is no prompt file {name_or_path!r}. Give a path, or one of the packaged templates: "
            f"{', '.join(sorted(packaged))}."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"Cannot read the prompt file {name_or_path!r}: {error}.") from error


@cache
def packaged_text(name: str) -> str:
    """A packaged template without blank ends, looked for once: for texts that every step needs.

    Raises:
        UsageError: there is none.
    """
    return load_prompt(name).strip()


def prompt_digest(text: str) -> str:
    """The first 12 hexadecimal digits of a text's SHA-256, which identify a prompt."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def fill(template: str, **values: str) -> str:
    """Replace `{name}` by its value for exactly the given names, in one pass.

    Values are inserted as they are, braces and placeholders in them included; all other braces of the
    template stay (the published `str.format` fails on them).
    """
    if not values:
        return template
    pattern = "|".join(re.escape("{" + name + "}") for name in values)
    return re.sub(pattern, lambda match: values[match.group()[1:-1]], template)


def check_placeholders(template: str, names: Sequence[str], path: str) -> None:
    """Make sure that a template has all places it is going to be filled at.

    Raises:
        UsageError: names what is missing.
    """
    missing = [f"{{{name}}}" for name in names if f"{{{name}}}" not in template]
    if missing:
        raise UsageError(
            f"The prompt {path!r} lacks {', '.join(missing)}. Put each placeholder where its text belongs."
        )
