"""Players of household games without a model: one does what the planner says, one looks for things first, one forgets.

They read the same text as a model. The planner is handed to them, and with it what no player may see; the seeker
does as if it knew what the text says.

Published behaviour: docs/published/reflect_rl.md#data-of-recorded-states.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Final

from sweet_rl.chat import with_system
from sweet_rl.chat.reflect_format import offered_commands, split_prompt
from sweet_rl.errors import EpisodeError, UsageError
from sweet_rl.policies.scripted import ScriptedPolicy, skill_of
from sweet_rl.types import (
    Completion,
    Failure,
    FinishReason,
    Generation,
    Observation,
    StopReason,
    derive_seed,
)
from sweet_rl.worlds.alfworld.seeking import DONE, look
from sweet_rl.worlds.text_game_world import ACTION_HEAD

Plan = Callable[[str, Sequence[str]], Awaitable[Sequence[str]]]
"""A game's source and the commands so far, to commands that solve it from there."""

SEEKER: Final = "seeker"

SKILLS: Final = {"planner": 1.0, SEEKER: 1.0, "careless": 0.3, "random": 0.0}
"""How often each follows the planner; the published data generator in three steps of ten."""


class HouseholdPlayer(ScriptedPolicy):
    """With probability `skill` takes the planner's next command, else any that is on offer.

    The seeker looks for what the plan needs where it has not been told of it (`look`). The same episode seed draws
    the same steps.

    Args:
        plan: the planner; never asked by one without skill.
        skill: how often it plans, 0 to 1; None for what its name says.
    """

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
        self._skill = skill_of("household player", name, skill, SKILLS)
        self._plan, self._games = plan, games
        self._on_close = on_close
        self._plans: dict[tuple[str, ...], Sequence[str]] = {}

    async def act(self, observation: Observation) -> Generation:
        """One turn."""
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
        """Free the planner, where the player has one."""
        self._on_close()

    async def _planned(self, task_id: str, text: str, offered: Mapping[str, str]) -> str:
        """The label of the planner's next command."""
        done = DONE.findall(split_prompt(text, ACTION_HEAD).before)
        key = (task_id, *done)
        if key not in self._plans:
            if task_id not in self._games:
                raise UsageError(f"The {self.name} agent cannot know which game the task {task_id!r} plays.")
            self._plans[key] = await self._plan(self._games[task_id], done)
        plan = self._plans[key]
        if self.name == SEEKER and (looks := look(plan, text)) is not None:
            if looks.rest is not None:
                self._plans.setdefault((*key, looks.command), looks.rest)
            return looks.label
        label = next((label for label, command in offered.items() if plan and command == plan[0]), None)
        if label is None:
            reason = f"its next command {plan[0]!r} is not on offer" if plan else "it found no way"
            raise EpisodeError(StopReason.POLICY_FAILED, Failure("planner_failed", f"{task_id}: {reason}"))
        self._plans.setdefault((*key, plan[0]), plan[1:])
        return label
