"""Guess My City: which of 91 cities is the oracle's home town? It answers freely.

The cities and their order are the published ones, spellings included. The further names of `cities.txt`, under which
most people know some of the cities today, are ours; accents, spaces and apostrophes make no difference.

Published behaviour: docs/published/archer.md#guess-my-city.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from importlib.resources import files
from typing import Any, Final

from sweet_rl.contracts import User
from sweet_rl.prompts import load_prompt
from sweet_rl.worlds.base import Rows
from sweet_rl.worlds.options import Answers, Archer, TaskLists
from sweet_rl.worlds.question_games import (
    FIRST_OBSERVATION,
    Asking,
    QuestionGame,
    QuestionGameEnv,
    says_name,
    split_of,
    without_tail,
    words_of,
    written_question,
)

REFUSAL = "I can't answer that question."  # the reply in place of an answer that gives the city away
MAX_ANSWER_CHARACTERS: Final = 500  # of a free answer; more is cut, by the repaired rules


def guess_my_city_tasks(split: str = "") -> Rows:
    """The home towns: all, "train" or "test"."""
    rows: Rows = []
    for line in files(__package__).joinpath("cities.txt").read_text("utf-8").splitlines():
        place, *others = line.split("; ")
        rows.append(
            {
                "task_id": f"guess_my_city/{len(rows)}",
                "problem_description": FIRST_OBSERVATION,
                "ground_truth": place,
                "hidden_information": place,
                "aliases": [name.lower() for name in (place.partition(",")[0], *others)],
            }
        )
    return split_of(rows, split, "guess-my-city", ("train", "test"))


class GuessMyCityEnv(QuestionGameEnv):
    """Solved when a question names the city, whatever the answer; an answer that names it is replaced by
    `REFUSAL`. By the repaired rules a question that names two of the `cities` is no guess; the published
    ones look for the name anywhere in the text."""

    _no_answer = REFUSAL

    def __init__(self, oracle: User, *, cities: Collection[Sequence[str]] = (), **rules: Any) -> None:
        super().__init__(oracle, **rules)
        self._cities = cities

    def _judge(self, question: str, reply: str) -> tuple[str, bool]:
        if self._published:
            city = self.task.hidden_information.split(",")[0].lower()
            leaks, named = city in reply.lower(), city in without_tail(question).lower()
        else:
            leaks, own = says_name(reply, self._names), {"".join(words_of(name)) for name in self._names}
            others = (
                city for city in self._cities if own.isdisjoint("".join(words_of(name)) for name in city)
            )
            # what else it says does not matter; by the published rules one question may list all cities
            named = says_name(question, self._names) and not any(says_name(question, city) for city in others)
            reply = " ".join(reply.split())[:MAX_ANSWER_CHARACTERS]  # one line of the transcript
        return REFUSAL if leaks else reply, named


class GuessMyCity(QuestionGame):
    """Guess My City: find out one of 100 cities by questions that are answered freely."""

    name = "guess_my_city"
    tasks = TaskLists("guess-my-city:train", "guess-my-city:test")
    user = Answers(
        by="oracle",
        scripted="sweet_rl.mini.cities.oracle:CityOracle",
        oracle=Asking("Your home town is {hidden}.", 64, "oracle_guess_my_city_prompt").open,  # as published
    )
    game = staticmethod(partial(GuessMyCityEnv, cities=[row["aliases"] for row in guess_my_city_tasks()]))
    player = "sweet_rl.mini.cities.asker:make_player"
    archer = Archer(config="archer_city", games_shown=6, shown_action=written_question)
    system_prompt = load_prompt("llm_agent_city_prompt")
    player_rules = (
        "I come from a big city. Find out which: ask me about it, and guess it by its name "
        '("Is it Oslo?"). You have {turns} questions.'
    )

    def rows(self, source: str, where: str, *, limit: int | None, seed: int) -> Rows:
        return guess_my_city_tasks(where)


WORLD = GuessMyCity()
