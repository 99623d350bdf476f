"""Reads a human's prompt in any format: the hidden function, and the dialogue so far.

The packaged prompt marks its sections. In any other the hidden function is the first Python function that
stands in the system message, or before the dialogue; the dialogue is what follows as `role: text` entries, as
in the published prompt, or the other messages of the chat.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from sweet_rl.mini.backend.human.human import ScriptedHuman
from sweet_rl.prompts import parse_simulator_prompt
from sweet_rl.types import Message, UserContext
from sweet_rl.users.protocol import ServedMessage

MAX_HIDDEN: Final = 100_000
"""Characters of a hidden function: it is parsed while others wait."""

_MAX_PARSED: Final = 2_000_000
"""Characters that are tried as Python, in all tries together."""

LOOKED_FOR: Final = (
    "It looks for the sections <request>, <hidden_information> and <dialogue> of the packaged prompt; else "
    "for a Python function (def ...:) in the system message, or in the prompt before the dialogue, and for a "
    "dialogue: entries like 'user: ...' and 'assistant: ...' at the beginnings of lines after the function, "
    "or the other messages of the chat, the last of them the agent's."
)

_HUMAN: Final = ("user", "human", "person", "client", "customer", "requester")
_AGENT: Final = ("assistant", "agent", "ai", "bot", "model", "developer", "programmer", "collaborator")
_ENTRY: Final = re.compile(
    rf"^[ \t]*+[*#>\[(<|-]*+[ \t]*+(?P<role>{'|'.join(_HUMAN + _AGENT)})"
    r"(?:[ \t]++\d++)?+[*\])>|]*+[ \t]*+:\**+[ \t]?",
    re.IGNORECASE | re.MULTILINE,
)
_SYSTEM: Final = ("system", "developer")
_RULE: Final = re.compile(r"^(?:[-=#*_~]{3,}|```.*|</.*>)[ \t]*$", re.MULTILINE)
_FUNCTION: Final = re.compile(r"^(?P<indent>[ \t]*)(?:@|(?:async[ ]+)?def[ ]+\w+[ ]*\()", re.MULTILINE)
_CODE_LINE: Final = re.compile(r"(?:[ \t]|\Z|@|\)|def[ ]|async[ ]|class[ ]|import[ ]|from[ ]|#|\w+[ ]*=)")


def answer_served(messages: Sequence[ServedMessage]) -> str:
    """What the scripted human says to a prompt that holds what it knows."""
    context = context_of(messages)
    return ScriptedHuman().answer(context.problem_description, context.hidden_information, context.messages)


def context_of(messages: Sequence[ServedMessage]) -> UserContext:
    """What the human of a request knows."""
    users = [message.text for message in messages if message.role == "user"]
    if users and "<hidden_information>" in users[-1]:
        return parse_simulator_prompt(users[-1])
    filled = [message for message in messages if message.text.strip()]
    first = next((at for at, message in enumerate(filled) if message.role not in _SYSTEM), len(filled))
    place = next(
        (at for at, message in enumerate(filled[: first + 1]) if _FUNCTION.search(message.text)), None
    )
    if place is None:
        raise ValueError(f"there is no hidden function in the prompt. {LOOKED_FOR}")
    hidden, rest = _function(filled[place].text)
    later = [message for message in filled[place + 1 :] if message.role in {"user", "assistant"}]
    dialogue = _of_messages(later) if later else _of_text(rest)
    if not dialogue or dialogue[-1].role != "assistant":
        what = "there is no dialogue in the prompt" if not dialogue else "the dialogue ends with the human"
        raise ValueError(f"{what}. {LOOKED_FOR}")
    asked = next((message.content for message in dialogue if message.role == "user"), "")
    return UserContext(asked, hidden, tuple(dialogue))


def _function(text: str) -> tuple[str, str]:
    """The first function of a text, with what belongs to it, and what follows."""
    dialogue = _ENTRY.search(text)
    left = _MAX_PARSED
    for found in _FUNCTION.finditer(text, 0, len(text) if dialogue is None else dialogue.start()):
        lines = text[found.start() :].splitlines(keepends=True)
        width = len(found["indent"])
        end = 1
        while end < len(lines) and _CODE_LINE.match(lines[end][width:] if lines[end].strip() else ""):
            end += 1
        for last in range(end, 0, -1):  # the longest part that is Python: prose may follow
            source = "".join(line[width:] if line.strip() else "\n" for line in lines[:last])
            left -= len(source)
            if len(source) > MAX_HIDDEN or left < 0:
                raise ValueError(f"the hidden function has more than {MAX_HIDDEN:,} characters.")
            if _is_function(source):
                return source.strip("\n") + "\n", "".join(lines[last:])
    raise ValueError(f"there is no Python function before the dialogue that can be read. {LOOKED_FOR}")


def _is_function(source: str) -> bool:
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) for node in body)


def _of_messages(later: Sequence[ServedMessage]) -> list[Message]:
    """The dialogue as a chat. The human is its assistant, unless an assistant spoke last."""
    swapped = later[-1].role == "user"
    return [
        Message("user" if (message.role == "assistant") == swapped else "assistant", message.text)
        for message in later
    ]


def _of_text(text: str) -> list[Message]:
    """The dialogue as entries of a text; a last one without words is the cue to speak."""
    found = list(_ENTRY.finditer(text))
    dialogue = []
    for entry, following in pairwise([*found, None]):
        if entry is None:
            continue
        last = following is None
        content = text[entry.end() : None if following is None else following.start()]
        if last and not content.partition("\n")[0].strip():
            continue
        if last and (rule := _RULE.search(content)):
            content = content[: rule.start()]
        role = "user" if entry["role"].lower() in _HUMAN else "assistant"
        dialogue.append(Message("user" if role == "user" else "assistant", content.strip()))
    return dialogue
