"""Looking for things in a household, place by place: a planner knows where all of them are, and no player does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from sweet_rl.chat.reflect_format import offered_commands, split_prompt
from sweet_rl.worlds.alfworld import ACTION_HEAD

DONE: Final = re.compile(r"^--- Step: \d+ ---\nAction: (.+)$", re.MULTILINE)
"""The commands so far, in a state."""

_NEEDS: Final = re.compile(r"(take|use) (\w+) (\d+)")


class Look(NamedTuple):
    """A command that looks further, the kind of thing that it looks for, and its label among those on offer."""

    command: str
    kind: str
    label: str


def look(plan: Sequence[str], text: str) -> Look | None:
    """What one does who knows of the household what the state says; None: as the plan says.

    A plan needs a thing next, to take or to use. Where the state has named it, the plan knows nothing more. Else
    another thing of its kind is taken if there is one, what is closed here is opened, or the next place that
    nobody went to is looked at, in the order of their names.

    Args:
        plan: the planner's commands from here.
        text: the state, with its list of actions.
    """
    needs = next(filter(None, map(_NEEDS.match, plan)), None)
    told = split_prompt(text, ACTION_HEAD).before
    if needs is None:
        return None
    verb, kind, number = needs.groups()
    if re.search(rf"\b{kind} {number}\b", told):
        return None
    done = DONE.findall(told)
    labels = {command: label for label, command in offered_commands(text, ACTION_HEAD).items()}
    for begins in (f"{verb} {kind} ", "open ", "go to "):
        found = [command for command in labels if command.startswith(begins) and command not in done]
        if found:
            return Look(min(found), kind, labels[min(found)])
    return None
