"""Detective: the text adventure of ArCHer, played from its game file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from sweet_rl.chat.transcripts import LastObservation
from sweet_rl.contracts import Env, Policy, User
from sweet_rl.errors import UsageError
from sweet_rl.flags import flag
from sweet_rl.types import Json
from sweet_rl.worlds.base import Rows, World
from sweet_rl.worlds.options import AgentRequest, Options


def detective_tasks(split: str = "") -> list[dict[str, Json]]:
    """The one task of Detective."""
    if split:
        raise UsageError(f"'detective:{split}' is no split of detective: it is one task. Use 'detective'.")
    return [
        {
            "task_id": "detective/0",
            "problem_description": "You are a detective in a text adventure. Who murdered the Mayor?",
            "ground_truth": "360 points",
        }
    ]


@dataclass(frozen=True, kw_only=True)
class DetectiveOptions(Options):
    """Options of Detective."""

    place: str | None = flag(
        None, "the game file; default: what SWEET_RL_DETECTIVE names.", aliases=("game_place",)
    )


class Detective(World):
    """Detective: the text adventure of ArCHer, played from its game file."""

    name = "detective"
    published_names = ("adventure",)
    max_turns = 50
    options = DetectiveOptions
    train_tasks = test_tasks = "detective"
    sources = ("detective",)
    agents = ("walkthrough", "random")
    agent_prompt = "llm_agent_adventure_prompt.txt"
    archer_config = "archer_detective"
    player_rules = (
        "Type what you want to do; some of what you can do stands in the list. You have {turns} commands."
    )

    def rows(self, source: str, where: str, *, limit: int | None, seed: int) -> Rows:
        """The one task there is: the game from its beginning."""

        return detective_tasks(where)

    @asynccontextmanager
    async def open(self, options: Options, user: User | None) -> AsyncIterator[Callable[[], Env]]:
        """Games in interpreters that are used again."""
        from sweet_rl.worlds.detective.env import DetectiveEnv, open_detective

        interpreters = open_detective(_place(options))
        try:
            yield lambda: DetectiveEnv(interpreters, max_turns=self.turns(options), compat=options.compat)
        finally:
            interpreters.close()

    async def make_agent(self, wanted: AgentRequest) -> Policy:
        """One that follows the game's own walkthrough, or one that draws a command."""
        from sweet_rl.worlds.adventures.agents import RandomAdventurer, WalkthroughPolicy
        from sweet_rl.worlds.detective.env import open_detective

        if wanted.name == "random":
            return RandomAdventurer(system_prompt=wanted.system_prompt)
        if wanted.name != "walkthrough":
            raise self.no_agent(wanted.name)
        interpreters = open_detective(_place(wanted.options))
        try:
            route = await interpreters.walkthrough()
        finally:
            interpreters.close()
        routes = {task.task_id: route for task in wanted.tasks}
        return WalkthroughPolicy(routes, system_prompt=wanted.system_prompt)

    def transcript(self) -> LastObservation:
        """The game's last message: each one has the whole state."""
        return LastObservation()


def _place(options: Options) -> str | None:
    return options.place if isinstance(options, DetectiveOptions) else None


WORLD = Detective()
