"""Who plays household games without a model: one does what the planner says, one looks for things first, one
forgets.

They read the same text as a model; the planner is handed to them. Published behaviour:
docs/published/reflect_rl.md#data-of-recorded-states.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib import import_module
from random import Random
from typing import Final, NamedTuple

from sweet_rl.chat import with_system
from sweet_rl.chat.reflect_format import offered_commands, split_prompt
from sweet_rl.errors import EpisodeError, UsageError
from sweet_rl.policies.scripted import ScriptedPolicy, skill_of
from sweet_rl.types import Completion, Failure, FinishReason, Generation, Observation, StopReason, derive_seed
from sweet_rl.worlds.text_games import ACTION_HEAD

_DONE: Final = re.compile(r"^--- Step: \d+ ---\nAction: (.+)$", re.MULTILINE)
"""The commands so far, in a state."""

_USUAL: Final = {
    thing.lower(): {place.lower() for place in places}
    for thing, places in import_module("sweet_rl.mini.homes").BEGINS.items()
}
"""Where a kind of thing usually lies, as everybody knows it."""

Plan = Callable[[str, Sequence[str]], Awaitable[Sequence[str]]]
"""A game's source and the commands so far, to commands that solve it from there."""


class Look(NamedTuple):
    """A command that looks for a `kind` of thing, and the `rest` of the plan after it (None: ask the planner)."""

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
    needs = next(filter(None, (re.match(r"(take|use) (\w+) (\d+)", step) for step in plan)), None)
    told = split_prompt(text, ACTION_HEAD).before
    if needs is None:
        return None
    verb, kind, number = needs.groups()
    if re.search(rf"\b{kind} {number}\b", told):
        return None
    done = _DONE.findall(told)
    labels = {command: label for label, command in offered_commands(text, ACTION_HEAD).items()}
    usual = _USUAL.get(kind, set())
    for begins in (f"{verb} {kind} ", "open ", "go to "):
        found = [command for command in labels if command.startswith(begins) and command not in done]
        if found:
            first = min(found, key=lambda command: (command.split()[-2] not in usual, command))
            rest: Sequence[str] | None = None
            if first == plan[0]:
                rest = plan[1:]
            elif plan[0].startswith("go to ") and first.startswith(("go to ", "open ")):
                # one can go there from anywhere, and what was opened stays open
                rest = [step for step in plan if step != first or not first.startswith("open ")]
            return Look(first, kind, labels[first], rest)
    return None


class HouseholdPlayer(ScriptedPolicy):
    """With probability `skill` takes the planner's next command, else any that is on offer; the seeker looks
    for what the plan needs (`look`). The same episode seed draws the same steps."""

    def __init__(
        self,
        name: str,
        plan: Plan,
        games: Mapping[str, str],
        *,
        skill: float | None = None,
        system_prompt: str = "",
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(system_prompt)
        self.name = name
        # published data follows the planner in three steps of ten
        skills = {"planner": 1.0, "seeker": 1.0, "careless": 0.3, "random": 0.0}
        self._skill = skill_of("household player", name, skill, skills)
        self._plan, self._games = plan, games
        self._on_close = on_close
        self._plans: dict[tuple[str, ...], Sequence[str]] = {}

    async def act(self, observation: Observation) -> Generation:
        text = observation.messages[-1].content
        prompt = self.chat_format.render(with_system(self.system_prompt or "", observation.messages))
        offered = offered_commands(text, ACTION_HEAD)
        rng = Random(derive_seed(observation.seed, observation.turn, "household player"))
        if rng.random() >= self._skill:
            label = rng.choice(list(offered))
        else:
            label = await self._planned(observation.task_id, text, offered)
        return Generation(prompt, Completion(label, finish_reason=FinishReason.STOP))

    async def close(self) -> None:
        self._on_close()

    async def _planned(self, task_id: str, text: str, offered: Mapping[str, str]) -> str:
        """The label of the planner's next command."""
        done = _DONE.findall(split_prompt(text, ACTION_HEAD).before)
        key = (task_id, *done)
        if key not in self._plans:
            if task_id not in self._games:
                raise UsageError(f"The {self.name} agent cannot know which game the task {task_id!r} plays.")
            self._plans[key] = await self._plan(self._games[task_id], done)
        plan = self._plans[key]
        if self.name == "seeker" and (looks := look(plan, text)) is not None:
            if looks.rest is not None:
                self._plans.setdefault((*key, looks.command), looks.rest)
            return looks.label
        label = next((label for label, command in offered.items() if plan and command == plan[0]), None)
        if label is None:
            reason = f"its next command {plan[0]!r} is not on offer" if plan else "it found no way"
            raise EpisodeError(StopReason.POLICY_FAILED, Failure("planner_failed", f"{task_id}: {reason}"))
        self._plans.setdefault((*key, plan[0]), plan[1:])
        return label


_REASONS: Final = {
    "go": ("what is needed is there", "the next thing to do is there"),
    "take": ("the task needs it", "it has to be carried"),
    "open": ("it is closed and needed open", "something has to go in or out"),
    "close": ("it has to be closed first",),
    **dict.fromkeys(("move", "put"), ("that is where it belongs", "this finishes that part of the task")),
}


def thought(
    text: str,
    done: Sequence[str],
    plan: Sequence[str],
    helped: bool | None,
    draws: Random,
    *,
    looks: Look | None = None,
) -> str:
    """The embedded teacher's text: the task, the effect of the last command, the next one and why."""
    goal = re.search(r"Your task is to: (.+?)\.?$", text, re.MULTILINE)
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
