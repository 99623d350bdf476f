"""What the agent of the question games reads before it plays: games of a scripted asker of middling skill.

Its tokenizer makes a question or an answer one token, as that of the mini worlds does a line: a game is a few
dozen tokens, and a question's log-probability is one number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random
from typing import Final

from sweet_rl.mini.objects.asker import ObjectAsker
from sweet_rl.mini.objects.oracle import ObjectOracle, answer
from sweet_rl.records import task_from_row
from sweet_rl.reflect_data.pretraining import Phase, School, Text
from sweet_rl.rollout import rollout, schedule
from sweet_rl.types import AgentTurn, Message, Trajectory
from sweet_rl.worlds.twenty_questions.world import TwentyQuestionsEnv, twenty_questions_tasks

SKILL = 0.3
"""Of the asker: most of its questions are any question, so that there is something left to learn."""

_GAMES = 200
"""Games for each word; the agent reads them again and again."""


def asked_games(rng: Random, *, split: str = "ten", games: int = _GAMES, skill: float = SKILL) -> list[Text]:
    """Games about all words of a split, in random order."""
    tasks = [task_from_row(row) for row in twenty_questions_tasks(split)]
    asker = ObjectAsker(answer, [task.hidden_information for task in tasks], skill=skill)
    oracle = ObjectOracle()
    played: list[Text] = []

    async def keep(trajectory: Trajectory) -> None:
        played.append(Text(tuple(map(_plain, trajectory.dialogue_history[:-1]))))

    asyncio.run(
        rollout(
            schedule(tasks, games, seed=rng.getrandbits(31)),
            make_env=lambda: TwentyQuestionsEnv(oracle),
            policy=asker,
            on_finished=keep,
            concurrency=1,
        )
    )
    rng.shuffle(played)
    return played


def games(rng: Random) -> Iterator[Text]:
    """Transcripts of games drawn from a fixed set, without end."""
    played = asked_games(rng)
    while True:
        yield rng.choice(played)


def _plain(message: Message) -> Message:
    """Without the prompt that an agent's turn carries."""
    return Message(message.role, message.content) if isinstance(message, AgentTurn) else message


def _corpus() -> Iterator[Text]:
    """What the tokenizer is learnt from: the same for every agent."""
    yield from asked_games(Random(0), games=100, skill=0.0)


SCHOOL: Final = School(
    "llm_agent_twenty_questions_prompt",
    _corpus,
    (Phase("games", games, 200, 32, 2e-3),),
)
