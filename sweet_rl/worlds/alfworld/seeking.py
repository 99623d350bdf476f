"""Looking for things in a household, place by place: a planner knows where all of them are, and no player does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from sweet_rl.chat.reflect_format import offered_commands, split_prompt
from sweet_rl.worlds.alfworld.homes.catalogue import BEGINS
from sweet_rl.worlds.text_game_world import ACTION_HEAD

DONE: Final = re.compile(r"^--- Step: \d+ ---\nAction: (.+)$", re.MULTILINE)
"""The commands so far, in a state."""

_USUAL: Final = {thing.lower(): {place.lower() for place in places} for thing, places in BEGINS.items()}
"""Where a kind of thing usually lies, as everybody knows it."""

_NEEDS: Final = re.compile(r"(take|use) (\w+) (\d+)")


class Look(NamedTuple):
    """A command that looks further.

    `kind` is what it looks for, `label` its own among those on offer, `rest` what is left of the plan after it:
    None where only the planner knows.
    """

    command: str
    kind: str
    label: str
    rest: Sequence[str] | None


def look(plan: Sequence[str], text: str) -> Look | None:
    """What one does who knows of the household what the state says; None: as the plan says.

    A plan needs a thing next, to take or to use. Where the state has named it, the plan knows nothing more. Else
    another thing of its kind is taken if there is one, what is closed here is opened, or the next place that
    nobody went to is looked at: first those where such a thing usually lies, each in the order of their names.
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
    usual = _USUAL.get(kind, set())
    for begins in (f"{verb} {kind} ", "open ", "go to "):
        found = [command for command in labels if command.startswith(begins) and command not in done]
        if found:
            first = min(found, key=lambda command: (command.split()[-2] not in usual, command))
            return Look(first, kind, labels[first], _rest(plan, first))
    return None


def _rest(plan: Sequence[str], command: str) -> Sequence[str] | None:
    """A plan that begins with going somewhere does so from anywhere, and what was opened stays open."""
    if command == plan[0]:
        return plan[1:]
    if not plan[0].startswith("go to ") or not command.startswith(("go to ", "open ")):
        return None
    opened = command if command.startswith("open ") else None
    return [step for step in plan if step != opened]
