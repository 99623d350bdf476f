"""Looking for things in a household, place by place: a planner knows where all of them are, and no player does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from sweet_rl.chat.reflect_format import offered_commands, split_prompt
from sweet_rl.worlds.alfworld import ACTION_HEAD

DONE: Final = re.compile(r"^--- Step: \d+ ---\nAction: (.+)$", re.MULTILINE)
"""The commands so far, in a state."""

_NEEDS: Final = re.compile(r"(?:take|use) (\w+) (\d+)")


class Look(NamedTuple):
    """A command that looks further, and the kind of thing that it looks for."""

    command: str
    kind: str


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
    if needs is None or re.search(rf"\b{needs[1]} {needs[2]}\b", told):
        return None
    kind, done = needs[1], DONE.findall(told)
    offered = sorted(
        command for command in offered_commands(text, ACTION_HEAD).values() if command not in done
    )
    for begins in (f"{needs[0].split()[0]} {kind} ", "open ", "go to "):
        found = next((command for command in offered if command.startswith(begins)), None)
        if found is not None:
            return Look(found, kind)
    return None
