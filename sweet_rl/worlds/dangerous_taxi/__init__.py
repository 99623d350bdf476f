"""DangerousTaxi: fetch a passenger and bring them to their destination; a wrong action ends the game."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from sweet_rl.chat.reflect_format import ACTION_HEADS
from sweet_rl.chat.transcripts import LastObservation
from sweet_rl.contracts import Env, Policy, User
from sweet_rl.worlds.base import AgentRequest, Options, Rows, World


@dataclass(frozen=True, slots=True, kw_only=True)
class TaxiOptions(Options):
    """Options of DangerousTaxi.

    Args:
        with_prompt: the rules stand in every observation.
        with_history: every state so far stands in every observation.
    """

    with_prompt: bool = False
    with_history: bool = False


class DangerousTaxi(World):
    """Reflect-RL's taxi."""

    name = "dangerous_taxi"
    max_turns = 15
    options = TaxiOptions
    train_tasks, test_tasks = "taxi:full:train", "taxi:full:test"
    sources = ("taxi", "dangerous-taxi")
    agents = ("planner", "careless", "random")
    agent_prompt = "llm_agent_taxi_prompt.txt"
    action_head = ACTION_HEADS["dangerous_taxi"]
    player_rules = (
        "Fetch the passenger (P) with the taxi (T) and bring them to the destination (D): type "
        "the number of an action. O: the taxi is where they wait, X: they are in it. An action that changes "
        "nothing, like driving into a wall, ends the game. You have {turns} actions."
    )

    def rows(self, source: str, where: str, *, limit: int | None, seed: int) -> Rows:
        """Starts of a level of the curriculum and a split: `pickup:train`."""
        from sweet_rl.worlds.dangerous_taxi.tasks import taxi_tasks

        return taxi_tasks(where)

    @asynccontextmanager
    async def open(self, options: Options, user: User | None) -> AsyncIterator[Callable[[], Env]]:
        """Open games; episodes share nothing."""
        from sweet_rl.worlds.dangerous_taxi.game import TaxiGame
        from sweet_rl.worlds.text_game_env import TextGameEnv

        taxi = options if isinstance(options, TaxiOptions) else TaxiOptions()

        def game() -> TaxiGame:
            return TaxiGame(
                horizon=self.turns(options),
                with_prompt=taxi.with_prompt,
                with_history=taxi.with_history,
                strict=options.published,
            )

        yield lambda: TextGameEnv(game)

    async def make_agent(self, wanted: AgentRequest) -> Policy:
        """Drivers who plan, with slips or without, and one who draws."""
        from sweet_rl.worlds.dangerous_taxi.agents import TaxiDriver

        if wanted.name not in self.agents:
            raise self.no_agent(wanted.name)
        return TaxiDriver(wanted.name, skill=wanted.skill, system_prompt=wanted.system_prompt)

    def transcript(self) -> LastObservation:
        """What the game said last: it says the whole state each time."""
        return LastObservation()


WORLD = DangerousTaxi()
