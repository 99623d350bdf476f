"""Lantern: a small text adventure of our own, which needs no game file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from sweet_rl.chat.transcripts import LastObservation
from sweet_rl.contracts import Env, Policy, User
from sweet_rl.errors import UsageError
from sweet_rl.types import Json
from sweet_rl.worlds.base import Rows, World
from sweet_rl.worlds.options import AgentRequest, Options

VARIANTS: Final = {"": range(100), "train": range(80), "test": range(80, 100)}
"""Which variants are whose. They are drawn one by one from their numbers, so any cut is as good."""


def lantern_tasks(split: str = "") -> list[dict[str, Json]]:
    """Variants of Lantern."""
    if split not in VARIANTS:
        raise UsageError(
            f"'lantern:{split}' is no split of lantern. Use 'lantern' for all of it, 'lantern:train' or "
            "'lantern:test'."
        )
    return [
        {
            "task_id": f"lantern/{variant}",
            "problem_description": "You are on an island in a text adventure. Light the great lantern again.",
            "ground_truth": "100 points",
            "variant": variant,
        }
        for variant in VARIANTS[split]
    ]


class Lantern(World):
    """Lantern: a small text adventure of twelve rooms, which needs no game file."""

    name = "lantern"
    max_turns = 50
    train_tasks, test_tasks = "lantern:train", "lantern:test"
    sources = ("lantern",)
    agents = ("walkthrough", "random")
    agent_prompt = "llm_agent_adventure_prompt.txt"
    player_rules = "Type what you want to do; what you can do stands in the list. You have {turns} commands."

    def rows(self, source: str, where: str, *, limit: int | None, seed: int) -> Rows:
        """The variants of a split, one task each."""

        return lantern_tasks(where)

    def reward_range(self, options: Options) -> tuple[float | None, float | None]:
        """The score's, which does not fall."""
        return 0.0, 100.0

    @asynccontextmanager
    async def open(self, options: Options, user: User | None) -> AsyncIterator[Callable[[], Env]]:
        """Open games; episodes share nothing."""
        from sweet_rl.worlds.lantern.env import LanternEnv

        yield lambda: LanternEnv(max_turns=self.turns(options), compat=options.compat)

    async def make_agent(self, wanted: AgentRequest) -> Policy:
        """One that knows the way, or one that draws a command."""
        from sweet_rl.worlds.adventures.agents import RandomAdventurer, WalkthroughPolicy
        from sweet_rl.worlds.lantern.solver import solve

        if wanted.name == "random":
            return RandomAdventurer(system_prompt=wanted.system_prompt)
        if wanted.name != "walkthrough":
            raise self.no_agent(wanted.name)
        routes = {task.task_id: solve(int(task.row.get("variant", 0))) for task in wanted.tasks}
        return WalkthroughPolicy(routes, system_prompt=wanted.system_prompt)

    def transcript(self) -> LastObservation:
        """The game's last message: each one has the whole state."""
        return LastObservation()

    def settings(self, options: Options) -> dict[str, Json]:
        """As rows of it have always had them."""
        return super().settings(options) | {"place": None}


WORLD = Lantern()
