"""Templates: packaged ones by name, a person's own by path.

The wording of the packaged ones is our own; what each must contain is as published.

Published behaviour: docs/published/sweet_rl.md#agent, #in-episodes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from sweet_rl.errors import UsageError


def load_prompt(name_or_path: str) -> str:
    """The text of a packaged template (with or without `.txt`; "reflect/react_act") or of a file.

    Packaged are those here and those in the worlds' folders; no two have the same name.

    Raises:
        UsageError: neither exists; lists the packaged ones.
    """
    packaged = _packaged()
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


def _packaged() -> dict[str, Traversable]:
    package = resources.files("sweet_rl")
    worlds = [folder / "prompts" for folder in (package / "worlds").iterdir()]
    places = {"": [package / "prompts", *worlds], "reflect/": [package / "prompts" / "reflect"]}
    return {
        f"{before}{file.name}": file
        for before, folders in places.items()
        for folder in folders
        if folder.is_dir()
        for file in folder.iterdir()
        if file.name.endswith(".txt")
    }


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
