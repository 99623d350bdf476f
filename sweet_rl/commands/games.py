"""The worlds that reward turns, put together from the rooms below: question games, adventures, the shop.

Published behaviour: docs/published/archer.md#ten-words; docs/published/reflect_rl.md#dangeroustaxi,
#autoexplore.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sweet_rl.commands.servers import key_in
from sweet_rl.contracts import Env, User
from sweet_rl.errors import UsageError, no_such
from sweet_rl.types import Json

if TYPE_CHECKING:
    from sweet_rl.envs.alfworld import Household
    from sweet_rl.openai_client import RetryPolicy

GAMES = (
    "twenty_questions",
    "guess_my_city",
    "detective",
    "lantern",
    "webshop",
    "dangerous_taxi",
    "auto_explore",
    "alfworld",
)
QUESTION_GAMES = ("twenty_questions", "guess_my_city")
ORACLES = ("embedded", "seq2seq", "openai", "gradio")

TURNS = {
    "twenty_questions": 20,
    "guess_my_city": 20,
    "detective": 50,
    "lantern": 50,
    "webshop": 10,
    "dangerous_taxi": 15,
    "auto_explore": 15,
    "alfworld": 15,
}
"""Agent turns at most, as published; of lantern ours."""

TASKS = {
    "twenty_questions": ("twenty-questions:train", "twenty-questions:test"),
    "guess_my_city": ("guess-my-city:train", "guess-my-city:test"),
    "detective": ("detective", "detective"),
    "lantern": ("lantern:train", "lantern:test"),
    "webshop": ("webshop:train", "webshop:test"),
    "dangerous_taxi": ("taxi:full:train", "taxi:full:test"),
    "auto_explore": ("auto-explore:train", "auto-explore:test"),
    "alfworld": ("alfworld:train", "alfworld:test"),
}
"""What is played to learn from, and what to measure on."""


@dataclass(frozen=True, slots=True)
class OracleFlags:
    """Who answers questions.

    Attributes:
        kind: one of `ORACLES`.
        path: the model's folder or weights, or the server's address.
        model: the name under which a server offers it, or the base model of weights.
        api_key_var: environment variable with the server's key.
        retry: how often and how patiently a server is asked.
    """

    kind: str = "embedded"
    path: str | None = None
    model: str | None = None
    api_key_var: str | None = None
    retry: RetryPolicy | None = None

    def check(self) -> None:
        """Find what is wrong before anything is begun.

        Raises:
            UsageError: there is no such oracle, or it needs a place.
        """
        if self.kind not in ORACLES:
            raise no_such("oracle", self.kind, ORACLES)
        if self.kind != "embedded" and not self.path:
            what = "the folder of the model" if self.kind == "seq2seq" else "the address of the server"
            raise UsageError(f"oracle={self.kind} needs {what} (env_load_path).")


@dataclass(frozen=True, slots=True)
class GameFlags:
    """Which world, and by which rules.

    Attributes:
        name: one of `GAMES`.
        max_steps: agent turns at most; None for the world's own.
        compat: "fixed" or "published".
        place: the game file, the shop's address, or the folder of repositories; None for what is embedded.
        reads_json: the agent writes its question as JSON.
        with_prompt: the rules stand in every text.
        with_history: every state so far stands in every text.
        leaveout_prob: with which files that are no answer are left out.
        shuffle_action: labels are drawn anew for every step.
    """

    name: str
    max_steps: int | None = None
    compat: str = "fixed"
    place: str | None = None
    reads_json: bool = False
    with_prompt: bool = False
    with_history: bool = False
    leaveout_prob: float = 0.0
    shuffle_action: bool = False

    @property
    def turns(self) -> int:
        """Agent turns at most: `--max_steps`, else the published number of the world."""
        return TURNS[self.name] if self.max_steps is None else self.max_steps

    def settings(self) -> dict[str, Json]:
        """What decides about the content of an episode."""
        settings: dict[str, Json] = {
            "task_type": self.name,
            "max_steps": self.turns,
            "compat": self.compat,
        }
        if self.name == "dangerous_taxi":
            return settings | {"with_prompt": self.with_prompt, "with_history": self.with_history}
        if self.name == "alfworld":
            return settings | {"shuffle_action": self.shuffle_action}
        settings |= {"place": self.place}
        if self.name == "auto_explore":
            return settings | {"leaveout_prob": self.leaveout_prob, "shuffle_action": self.shuffle_action}
        return settings


def make_oracle(game: str, flags: OracleFlags, *, concurrency: int) -> User:
    """Who answers in a question game.

    Raises:
        UsageError: a package, a model or an address is missing.
    """
    flags.check()
    if flags.kind == "embedded":
        return _embedded_oracle(game)
    from sweet_rl.users import oracles

    return oracles.open_oracle(
        game,
        flags.kind,
        str(flags.path),
        model=flags.model,
        api_key=key_in(flags.api_key_var),
        retry=flags.retry,
        concurrency=concurrency,
    )


def _embedded_oracle(game: str) -> User:
    if game == "guess_my_city":
        from sweet_rl.users.oracles.cities import CityOracle

        return CityOracle()
    if game == "twenty_questions":
        from sweet_rl.users.oracles.objects import ObjectOracle

        return ObjectOracle()
    raise no_such("question game with an embedded oracle", game, QUESTION_GAMES)


@asynccontextmanager
async def open_game(flags: GameFlags, oracle: User | None) -> AsyncIterator[Callable[[], Env]]:
    """What makes a fresh world for each episode; what they share is freed with the block.

    Args:
        flags: which world.
        oracle: who answers; of question games only. Its owner closes it.

    Raises:
        UsageError: there is no such world; a game file or a package is missing.
    """
    async with AsyncExitStack() as stack:
        if flags.name in QUESTION_GAMES:
            yield _question_game(flags, oracle)
        elif flags.name == "webshop":
            from sweet_rl.envs.webshop import HttpShop, LocalShop, WebShopEnv, quirks_of

            if flags.place is None:
                from sweet_rl.shop import EmbeddedShop

                shop: HttpShop | LocalShop = LocalShop(EmbeddedShop(compat=flags.compat).get)
            else:
                shop = HttpShop(flags.place)
            stack.push_async_callback(shop.close)
            quirks = quirks_of(flags.compat)
            yield lambda: WebShopEnv(shop, max_steps=flags.turns, quirks=quirks)
        elif flags.name == "detective":
            from sweet_rl.envs.adventure.detective import DetectiveEnv, open_detective

            interpreters = open_detective(flags.place)
            stack.callback(interpreters.close)
            yield lambda: DetectiveEnv(interpreters, max_steps=flags.turns, compat=flags.compat)
        elif flags.name == "dangerous_taxi":
            yield _taxi(flags)
        elif flags.name == "auto_explore":
            yield _explore(flags)
        elif flags.name == "alfworld":
            from sweet_rl.envs.alfworld import Household

            household = stack.enter_context(Household())
            yield _household(flags, household)
        elif flags.name == "lantern":
            from sweet_rl.envs.adventure.lantern import LanternEnv

            yield lambda: LanternEnv(max_steps=flags.turns, compat=flags.compat)
        else:
            raise no_such("game", flags.name, GAMES)


def _taxi(flags: GameFlags) -> Callable[[], Env]:
    from sweet_rl.envs.taxi import TaxiGame
    from sweet_rl.envs.text_game_env import TextGameEnv

    def game() -> TaxiGame:
        return TaxiGame(
            horizon=flags.turns,
            with_prompt=flags.with_prompt,
            with_history=flags.with_history,
            strict=flags.compat == "published",
        )

    return lambda: TextGameEnv(game)


def _explore(flags: GameFlags) -> Callable[[], Env]:
    from sweet_rl.envs.explore.game import ExploreGame
    from sweet_rl.envs.text_game_env import TextGameEnv
    from sweet_rl.repositories.library import Library

    library = Library(flags.place)

    def game() -> ExploreGame:
        return ExploreGame(
            library,
            horizon=flags.turns,
            leaveout_prob=flags.leaveout_prob,
            shuffle_action=flags.shuffle_action,
            strict=flags.compat == "published",
        )

    return lambda: TextGameEnv(game)


def _household(flags: GameFlags, household: Household) -> Callable[[], Env]:
    from sweet_rl.envs.alfworld import HouseholdGame
    from sweet_rl.envs.text_game_env import TextGameEnv
    from sweet_rl.household import BLACKLIST

    def game() -> HouseholdGame:
        return HouseholdGame(
            household,
            horizon=flags.turns,
            shuffle_action=flags.shuffle_action,
            strict=flags.compat == "published",
            blacklist=BLACKLIST,
        )

    return lambda: TextGameEnv(game, threaded=True)


def _question_game(flags: GameFlags, oracle: User | None) -> Callable[[], Env]:
    from sweet_rl.envs.asking import decode_question
    from sweet_rl.envs.question_games import GuessMyCityEnv, TwentyQuestionsEnv
    from sweet_rl.tasks.games import city_names

    if oracle is None:
        raise UsageError(f"{flags.name} needs an oracle.")
    more = {"read_action": decode_question} if flags.reads_json else {}
    rules = "published" if flags.compat == "published" else "fixed"
    if flags.name == "twenty_questions":
        return lambda: TwentyQuestionsEnv(oracle, max_turns=flags.turns, rules=rules, **more)  # type: ignore[arg-type]
    if flags.name == "guess_my_city":
        cities = city_names()
        return lambda: GuessMyCityEnv(oracle, cities=cities, max_turns=flags.turns, rules=rules, **more)  # type: ignore[arg-type]
    raise no_such("question game", flags.name, QUESTION_GAMES)
