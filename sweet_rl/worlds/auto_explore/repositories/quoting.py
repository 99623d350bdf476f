"""Names in commands: quoted where they need it, and unquoted again.

`compat="published"` gives the published results where those are defects.

Published behaviour: docs/published/reflect_rl.md#deviations.
"""

from __future__ import annotations

import re
from typing import Final

from sweet_rl.types import Compat

_WORD: Final = re.compile(r"""\n|(?:"(?:\\.|[^"\\])*"|'[^']*'|\\.|[^\s"'\\]|["'\\])+""", re.DOTALL)
_NEEDS_QUOTES: Final = frozenset(" \"'\\")
_BEGINS_QUOTED: Final = frozenset("-<>|&;")
"""What would be taken for an option or an operator."""


def wrap(name: str, *, compat: Compat = "fixed") -> str:
    r"""A name as written in a command: in double quotes if it needs them, `"` and `\` behind a `\`."""
    if compat == "published":
        return f'"{name}"' if " " in name else name
    if _NEEDS_QUOTES.isdisjoint(name) and name[:1] not in _BEGINS_QUOTED:
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def unwrap(word: str, *, compat: Compat = "fixed") -> str:
    """The name in a word of a command: the reverse of `wrap`; single quotes are removed as well."""
    quote = word[:1]
    if len(word) < 2 or quote not in {'"', "'"} or not word.endswith(quote):
        return word if compat == "published" else re.sub(r"\\(.)", r"\1", word, flags=re.DOTALL)
    inside = word[1:-1]
    if compat == "published" or quote == "'":
        return inside
    return re.sub(r"\\([\"\\])", r"\1", inside)


def split_command(line: str, *, compat: Compat = "fixed") -> list[str | None]:
    """A command's words, quotes kept. With `compat="published"` a line break is the word None."""
    words: list[str | None] = [None if word == "\n" else word for word in _WORD.findall(line)]
    return words if compat == "published" else [word for word in words if word is not None]


def optimal_path(path: str, *, compat: Compat = "fixed") -> list[str]:
    """The commands that lead from the root to a file and show it, each folder listed on the way."""
    *folders, name = path.split("/")
    commands = [command for folder in folders for command in ("ls", f"cd {wrap(folder, compat=compat)}")]
    return [*commands, "ls", f"cat {wrap(name, compat=compat)}"]


def next_command(folder: str, path: str, *, opened: bool = False) -> str:
    """The next command on the shortest way to a file: through the folders, open it, hand it in."""
    above, _, name = path.rpartition("/")
    if above == folder:
        return f"{'id' if opened else 'cat'} {wrap(name)}"
    inside = f"{folder}/" if folder else ""
    if not above.startswith(inside):
        return "cd .."
    return f"cd {wrap(above.removeprefix(inside).partition('/')[0])}"
