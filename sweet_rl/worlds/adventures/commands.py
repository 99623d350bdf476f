"""The commands that an agent may send to a game: one line, within its own episode.

Interpreters know commands that are not moves. Some write files or keep a second copy of the game that other
episodes would meet (`save`, `script`, `undo`): those never reach the game. Others end or restart the session,
open a menu that waits for keys, or come from the game's debugging (`purloin` fetches anything from anywhere):
those are refused unless the published behaviour is asked for.

Published behaviour: docs/published/archer.md (text games).
"""

from __future__ import annotations

import re

REFUSED_ALWAYS = frozenset(
    ("save", "restore", "script", "transcript", "noscript", "unscript", "recording", "replay", "undo")
)
"""Files and second copies."""

REFUSED = REFUSED_ALWAYS | frozenset(
    (
        *("quit", "q", "die", "restart", "verify", "help", "about", "info", "information", "manual"),
        *("actions", "changes", "daemons", "timers", "messages", "routines", "trace", "tree", "scope"),
        *("showobj", "showverb", "purloin", "abstract", "goto", "gonear", "random"),
    )
)
"""Also the session, menus, and the game's debugging."""

REFUSAL = "[That is no move of this game.]"
"""What the world says instead."""

COMMAND_BYTES = 198
"""What fits into the interpreter's input line, as UTF-8."""

_DICTIONARY_LENGTH = 9
_ALWAYS = frozenset(word[:_DICTIONARY_LENGTH] for word in REFUSED_ALWAYS)
_BY_DEFAULT = frozenset(word[:_DICTIONARY_LENGTH] for word in REFUSED)


def first_line(action: str) -> str:
    """The agent's text up to its first newline."""
    return action.partition("\n")[0]


def typed(action: str) -> str:
    """What of an action reaches the game's keyboard: one line, at most `COMMAND_BYTES` long.

    Control characters and backslashes, which an interpreter takes for keys, become blanks.
    """
    line = "".join(char if char.isprintable() and char != "\\" else " " for char in first_line(action))
    return line.encode("utf-8", errors="replace")[:COMMAND_BYTES].decode("utf-8", errors="ignore")


def is_refused(command: str, *, published: bool = False) -> bool:
    """Whether the command, or one of several in a line, is none that an agent may give."""
    refused = _ALWAYS if published else _BY_DEFAULT
    for sentence in re.split(r"[.,;:\"]|\bthen\b", command.lower()):
        words = sentence.split()
        if words and words[0][:_DICTIONARY_LENGTH] in refused:
            return True
    return False
