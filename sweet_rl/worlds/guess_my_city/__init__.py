"""Guess My City: find out the city by questions that are answered freely."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sweet_rl.contracts import Env, Policy, User
from sweet_rl.worlds.base import Rows
from sweet_rl.worlds.question_games import QuestionGame
from sweet_rl.worlds.question_games.asking import Asking


class GuessMyCity(QuestionGame):
    """Guess My City: find out one of 100 cities by questions that are answered freely."""

    name = "guess_my_city"
    train_tasks, test_tasks = "guess-my-city:train", "guess-my-city:test"
    sources = ("guess-my-city",)
    agent_prompt = "llm_agent_city_prompt.txt"
    asking = Asking("Your home town is {hidden}.", 64, "oracle_guess_my_city_prompt")  # as published
    archer_config = "archer_city"
    games_shown = 6
    player_rules = (
        "I come from a big city. Find out which: ask me about it, and guess it by its name "
        '("Is it Oslo?"). You have {turns} questions.'
    )

    def rows(self, source: str, where: str, *, limit: int | None, seed: int) -> Rows:
        """The cities of a split, one task each."""
        from sweet_rl.worlds.guess_my_city.tasks import guess_my_city_tasks

        return guess_my_city_tasks(where)

    def maker(self, oracle: User, rules: dict[str, Any]) -> Callable[[], Env]:
        """What makes a fresh game."""
        from sweet_rl.worlds.guess_my_city.env import GuessMyCityEnv
        from sweet_rl.worlds.guess_my_city.tasks import city_names

        cities = city_names()
        return lambda: GuessMyCityEnv(oracle, cities=cities, **rules)

    def asker(self, answers: list[str], **how: Any) -> Policy:
        """Who asks what divides the cities that are still possible."""
        from sweet_rl.worlds.guess_my_city.asker import CityAsker
        from sweet_rl.worlds.guess_my_city.oracle.cities import CityOracle

        return CityAsker(CityOracle().answer, answers, **how)

    def make_user(self) -> User:
        """Answers from a table of facts."""
        from sweet_rl.worlds.guess_my_city.oracle.cities import CityOracle

        return CityOracle()


WORLD = GuessMyCity()
