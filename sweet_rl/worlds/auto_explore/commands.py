"""The command language of AutoExplore: names with quotes, commands in fenced blocks, files they name.

Nothing here runs anything. `compat="published"` gives the published results where those are defects:
`None` for every line break between commands, and quotes that only blanks ask for.

Published behaviour: docs/published/reflect_rl.md#deviations, #autoexplore.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from sweet_rl.types import Compat
from sweet_rl.worlds.auto_explore.repositories.quoting import split_command, unwrap, wrap

__all__ = [
    "COMMANDS",
    "NAMED_COMMANDS",
    "PUBLISHED_COMMANDS",
    "Block",
    "extract_blocks",
    "extract_commands",
    "file_names",
    "hide_root",
    "split_command",
    "unwrap",
    "wrap",
]

COMMANDS: Final = ("cd", "ls", "cat", "head", "tail", "echo", "id")
"""What the sandbox does."""

PUBLISHED_COMMANDS: Final = ("cd", "ls", "cat", "head", "tail", "echo", "python", "pip", "id")
"""What the published sandbox does; ours refuses `python` and `pip`, which run code of the repository."""

NAMED_COMMANDS: Final = ("cd", "ls", "cat", "head", "tail", "id", "exit")
"""What an agent is asked to use when it chose nothing that is on offer."""

_BLOCK: Final = re.compile(r"```bash(.*?)```", re.DOTALL)
_OPERATORS: Final = frozenset(("|", ">", ">>", "<", "&&", "||", ";", "&"))


class Block(NamedTuple):
    """The text of a fenced block of commands, and the span of the block with its fences."""

    text: str
    start: int
    end: int


def extract_blocks(text: str) -> list[Block]:
    """The blocks fenced by ```` ```bash ```` and ```` ``` ````, without the blanks around their texts."""
    return [Block(found[1].strip(), found.start(), found.end()) for found in _BLOCK.finditer(text)]


def extract_commands(text: str, *, compat: Compat = "fixed") -> list[list[str | None]]:
    """The commands of all blocks in a text, one a line, as words.

    What `echo` says becomes one word, and `python` prints no warnings, as published.
    """
    commands = []
    for block in extract_blocks(text):
        lines = [line for line in block.text.split("\n") if line.strip()]
        for number, line in enumerate(lines, start=1):
            words = _prepared([word for word in split_command(line) if word is not None])
            commands.append([*words, *([None] if compat == "published" and number < len(lines) else [])])
    return commands


def file_names(words: Sequence[str | None]) -> list[str]:
    """The files and folders that a command would touch; `.` where it names none."""
    command, *rest = [word for word in words if word is not None] or [""]
    if command == "echo":
        return [rest[at + 1] for at, word in enumerate(rest[:-1]) if word in {">", ">>"}] or ["."]
    if command == "pip":
        return ["."]
    if command == "python":
        return [word for word in rest if word.endswith(".py")][:1] or ["."]
    names, skip = list[str](), False
    for word in rest:
        if word == "|":
            break
        if skip or word in _OPERATORS or word.startswith("-"):
            skip = word in {"-n", "-c"} and command in {"head", "tail"} and not skip
            continue
        names.append(word)
    return names or ["."]


def hide_root(text: str, root: str) -> str:
    """A message without the repository's own path: paths in it become relative, the root `.`."""
    return text.replace(f"{root.rstrip('/')}/", "").replace(root.rstrip("/"), ".")


def _prepared(words: list[str]) -> list[str]:
    if words[:1] == ["echo"]:
        stop = next((at for at, word in enumerate(words) if word in _OPERATORS), len(words))
        text = " ".join(words[1:stop])
        return ["echo", *([text] if text else []), *words[stop:]]
    if words[:1] == ["python"]:
        return ["python", "-W ignore", *words[1:]]
    return words
