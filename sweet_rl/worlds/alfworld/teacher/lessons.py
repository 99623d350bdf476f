"""Household games of a mostly random player, and their records as training texts.

Published behaviour: docs/published/reflect_rl.md#data-of-recorded-states, #deviations.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from sweet_rl.chat.reflect_format import sft_texts
from sweet_rl.prompts import packaged_text
from sweet_rl.reflect_data.texts import Moment, Request, Texts, Words, label_of
from sweet_rl.types import Compat, Task, derive_seed
from sweet_rl.worlds.alfworld.game import HouseholdGame
from sweet_rl.worlds.alfworld.seeking import Look, look
from sweet_rl.worlds.text_game_world import ACTION_HEAD

RANDOM_SHARE: Final = 0.7
"""How often the player takes any action; else the planner's next."""

REFLECTION_FILE: Final = "sft_reflection.jsonl"
PUBLISHED_REFLECTION_FILE: Final = "sft_reflectioner.jsonl"

_GOAL: Final = re.compile(r"Your task is to: (.+?)\.?$", re.MULTILINE)
_REASONS: Final = {
    "go": ("what is needed is there", "the next thing to do is there"),
    "take": ("the task needs it", "it has to be carried"),
    "open": ("it is closed and needed open", "something has to go in or out"),
    "close": ("it has to be closed first",),
    "move": ("that is where it belongs", "this finishes that part of the task"),
    "put": ("that is where it belongs", "this finishes that part of the task"),
}


def play_household(
    seed: int,
    tasks: Sequence[Task],
    make_game: Callable[[], HouseholdGame],
    *,
    random_share: float = RANDOM_SHARE,
    seek: bool = False,
) -> list[Moment]:
    """One game, step by step, until it ends.

    Every moment knows what would have been best: the planner is asked at every step, but for those of a seeker
    who does as planned.
    """
    draws = random.Random(seed)
    task = draws.choice(list(tasks))
    game = make_game()
    game.reset(task, seed=derive_seed(seed, "labels"))
    moments: list[Moment] = []
    left: int | None = None
    rest: Sequence[str] | None = None
    over = False
    try:
        while not over:
            plan = game.expert_plan() if rest is None else rest
            looks = look(plan, game.text) if seek else None
            best = game.expert_label(plan) if looks is None else looks.label
            any_action = draws.random() < random_share
            action = draws.choice(list(game.labels)) if any_action or best is None else best
            helped = None if left is None else len(plan) < left
            known = partial(thought, game.text, game.commands, plan, helped, looks=looks)
            moments.append(Moment(game.text, action, best, known, "", {"problem": task.ground_truth}))
            left = len(plan)
            rest = None
            if seek and action == best:
                rest = (plan[1:] if looks is None else looks.rest) or None
            over = game.step(action).over
    finally:
        game.close()
    return moments


def thought(
    text: str,
    done: Sequence[str],
    plan: Sequence[str],
    helped: bool | None,
    draws: random.Random,
    *,
    looks: Look | None = None,
) -> str:
    """The embedded teacher's text: the task, the effect of the last command, the next one and why.

    Of one who still looks for something it says nothing about the last command, as only the planner knows that.
    """
    goal = _GOAL.search(text)
    task = goal[1] if goal else "finish the task"
    parts = [draws.choice((f"The task is to {task}.", f"I have to {task}.", f"The goal is to {task}."))]
    if done and helped is not None and looks is None:
        good = (f"To {done[-1]} helped.", f"Good, {done[-1]} was a step forward.")
        bad = (f"To {done[-1]} did not help.", f"It was no use to {done[-1]}.")
        parts.append(draws.choice(good if helped else bad))
    if not plan:
        return " ".join([*parts, "I see no way to finish it from here."])
    command = plan[0] if looks is None else looks.command
    reasons = _REASONS.get(command.partition(" ")[0], ("the task asks for it",))
    if looks is not None:
        reasons = (f"no {looks.kind} was seen yet", f"some {looks.kind} is still to be found")
    why = draws.choice(reasons)
    parts.append(draws.choice((f"Next {command}, because {why}.", f"Now {command}: {why}.")))
    return " ".join(parts)


def household_request() -> Request:
    """How a model is asked: without a spoiler, as published."""
    return Request(
        packaged_text("alfworld_teacher_system"),
        packaged_text("alfworld_teacher_request"),
        ACTION_HEAD,
    )


def household_texts(
    records: Iterable[Mapping[str, Any]], *, containing: str, label: str = "taken", compat: Compat = "fixed"
) -> Texts:
    """Training texts of records; those of other problems and those without a reflection are passed over."""
    reflection_file = PUBLISHED_REFLECTION_FILE if compat == "published" else REFLECTION_FILE
    texts = Texts({name: [] for name in ("sft.jsonl", reflection_file, "sft_policy.jsonl")})
    for record in records:
        reflection = str(record.get("reflection") or "")
        state = str(record.get("state") or "")
        if containing not in str(record.get("problem", containing)):
            texts.skipped["record of another problem"] += 1
        elif not reflection.strip():
            texts.skipped["record without a reflection"] += 1
        elif label == "best" and record.get("best_action", "") is None:
            texts.skipped["record without a best action"] += 1
        else:
            state = state.strip() if compat == "published" else state
            made = sft_texts(state, ACTION_HEAD, reflection, label_of(record, label))
            texts.add(made, reflection_file=reflection_file)
    return texts


class HouseholdExpert:
    """Asks the planner; once for each state."""

    def __init__(self, game: HouseholdGame) -> None:
        self._game = game

    def thought(self) -> Words:
        """The task and the next command."""
        plan = self._game.expert_plan()
        return partial(thought, self._game.text, self._game.commands, plan, None)

    def label(self) -> str:
        """The label of the planner's next command; the first one where there is no plan."""
        return self._game.expert_label() or self._game.labels[0]
