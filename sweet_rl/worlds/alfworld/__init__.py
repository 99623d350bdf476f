"""ALFWorld: tasks in a household, in text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from sweet_rl.chat.reflect_format import ACTION_HEADS
from sweet_rl.chat.transcripts import LastObservation
from sweet_rl.contracts import Env, Policy, User
from sweet_rl.worlds.base import AgentRequest, Options, Rows, World


@dataclass(frozen=True, slots=True, kw_only=True)
class AlfworldOptions(Options):
    """Options of ALFWorld.

    Args:
        shuffle_action: labels are drawn anew for every step.
    """

    shuffle_action: bool = False


class Alfworld(World):
    """Games in ALFWorld's format: made here, or of its data."""

    name = "alfworld"
    max_turns = 15
    options = AlfworldOptions
    train_tasks, test_tasks = "alfworld:train", "alfworld:test"
    sources = ("alfworld", "alfworld-data")
    agents = ("planner", "careless", "random")
    agent_prompt = "llm_agent_household_prompt.txt"
    action_head = ACTION_HEADS["alfworld"]
    player_rules = (
        "Do the task in the household: type the number of an action. You carry one thing at a time. "
        "You have {turns} actions."
    )

    def rows(self, source: str, where: str, *, limit: int | None, seed: int) -> Rows:
        """Games of a split; before it may stand what their names contain."""
        from sweet_rl.worlds.alfworld.tasks import alfworld_data_tasks, household_tasks

        return alfworld_data_tasks(where) if source == "alfworld-data" else household_tasks(where)

    @asynccontextmanager
    async def open(self, options: Options, user: User | None) -> AsyncIterator[Callable[[], Env]]:
        """Games in worker processes of one engine."""
        from sweet_rl.worlds.alfworld.game import HouseholdGame
        from sweet_rl.worlds.alfworld.homes import BLACKLIST
        from sweet_rl.worlds.alfworld.household import Household
        from sweet_rl.worlds.text_game_env import TextGameEnv

        shuffle = isinstance(options, AlfworldOptions) and options.shuffle_action
        with Household() as household:

            def game() -> HouseholdGame:
                return HouseholdGame(
                    household,
                    horizon=self.turns(options),
                    shuffle_action=shuffle,
                    strict=options.published,
                    blacklist=BLACKLIST,
                )

            yield lambda: TextGameEnv(game, threaded=True)

    async def make_agent(self, wanted: AgentRequest) -> Policy:
        """With a planner of its own: a worker process, started when it is first asked."""
        from sweet_rl.worlds.alfworld.agents import HouseholdPlayer
        from sweet_rl.worlds.alfworld.household import Household

        if wanted.name not in self.agents:
            raise self.no_agent(wanted.name)
        household = Household(workers=1)

        async def plan(source: str, done: Sequence[str]) -> Sequence[str]:
            return await asyncio.to_thread(household.plan, source, done)

        return HouseholdPlayer(
            wanted.name,
            plan,
            {task.task_id: str(task.row.get("game")) for task in wanted.tasks},
            skill=wanted.skill,
            system_prompt=wanted.system_prompt,
            on_close=household.close,
        )

    def transcript(self) -> LastObservation:
        """What the game said last: it says the whole state each time."""
        return LastObservation()


WORLD = Alfworld()
