"""The scripted player of Twenty Questions: asks the question that splits the remaining words best.

The teacher of agents that start from scripted dialogues, and a yardstick for trained ones.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from sweet_rl.errors import UsageError
from sweet_rl.policies.scripted import ScriptedPolicy
from sweet_rl.types import Message, Observation, derive_seed
from sweet_rl.worlds.question_games import QuestionTranscript
from sweet_rl.worlds.twenty_questions.questions import guess, questions_about

_NEARLY_BEST_BITS = 0.05
"""Questions whose information is within this of the best are as good; which is asked is drawn."""


class ObjectAsker(ScriptedPolicy):
    """Asks by information gain over the words that the answers leave, then names one of them.

    Words that contradict fewer of the answers stay longer, so that one wrong answer does not end the search.
    What it says depends on the observation alone (its seed included).

    Args:
        answer: what the oracle would say to a question about a word ("Yes.", "No.", or something else where
            it cannot say): `sweet_rl.worlds.twenty_questions.oracle.objects.answer`.
        skill: how often it asks one of the best questions; else any of them, or a wild guess.
        max_turns: questions there are; the last one always names a word.
    """

    name = "object_asker"

    def __init__(
        self,
        answer: Callable[[str, str], str | None],
        words: Sequence[str],
        *,
        skill: float = 1.0,
        max_turns: int = 20,
        system_prompt: str = "",
    ) -> None:
        super().__init__(system_prompt)
        if not words or not 0 <= skill <= 1:
            raise UsageError(
                "An asker needs words to tell apart and a skill from 0 to 1, got "
                f"{len(words)} words and {skill=}."
            )
        self.chat_format = QuestionTranscript()
        self._words = tuple(dict.fromkeys(words))
        self._skill, self._max_turns = skill, max_turns
        self._answer = answer
        self._known: dict[str, tuple[str | None, ...]] = {}
        self._pool = questions_about(self._words)

    def _say(self, observation: Observation) -> str:
        chance = random.Random(derive_seed(observation.seed, observation.turn, self.name))
        asked = list(answered(observation.messages))
        left = self._left(asked)
        heard = {question for question, _ in asked}
        open_questions = [wordings for wordings in self._pool if not heard.intersection(wordings)]
        if observation.turn >= self._max_turns - 1 or not open_questions:
            return guess(self._words[chance.choice(left)])
        if chance.random() >= self._skill:
            unlucky = chance.randrange(len(open_questions) + 1)
            if unlucky == len(open_questions):
                return guess(chance.choice(self._words))
            return chance.choice(open_questions[unlucky])
        if len(left) <= 2:
            return guess(self._words[chance.choice(left)])
        gains = [max(self._gain(wording, left) for wording in wordings) for wordings in open_questions]
        best = max(gains)
        if best <= 0:
            return guess(self._words[chance.choice(left)])
        good = [
            wording
            for wordings in open_questions
            for wording in wordings
            if self._gain(wording, left) >= best - _NEARLY_BEST_BITS
        ]
        return chance.choice(good)

    def _left(self, asked: Sequence[tuple[str, str]]) -> list[int]:
        """The places of the words that contradict the fewest answers; a word that was denied is out."""
        contradictions = [0] * len(self._words)
        denied = set()
        for question, reply in asked:
            if reply not in ("Yes.", "No."):
                continue
            for place, expected in enumerate(self._answers(question)):
                contradictions[place] += expected in ("Yes.", "No.") and expected != reply
                if reply == "No." and question == guess(self._words[place]):
                    denied.add(place)
        places = [place for place in range(len(self._words)) if place not in denied]
        places = places or list(range(len(self._words)))
        fewest = min(contradictions[place] for place in places)
        return [place for place in places if contradictions[place] == fewest]

    def _gain(self, question: str, left: Sequence[int]) -> float:
        """Bits that the answer to a question is worth."""
        answers = self._answers(question)
        share = sum(answers[place] == "Yes." for place in left) / len(left)
        if share in (0.0, 1.0):
            return 0.0
        return -share * math.log2(share) - (1 - share) * math.log2(1 - share)

    def _answers(self, question: str) -> tuple[str | None, ...]:
        if question not in self._known:
            self._known[question] = tuple(self._answer(word, question) for word in self._words)
        return self._known[question]


class HastyAsker(ObjectAsker):
    """Plays a share `skill` of its games as `ObjectAsker` does; in the others it only names words, each once.

    So the games that it wins soonest are won by luck, and say nothing of how to win most.

    Args:
        skill: the share of games in which it asks.
    """

    name = "hasty"

    def __init__(
        self,
        answer: Callable[[str, str], str | None],
        words: Sequence[str],
        *,
        skill: float,
        max_turns: int = 20,
        system_prompt: str = "",
    ) -> None:
        super().__init__(answer, words, max_turns=max_turns, system_prompt=system_prompt)
        if not 0 <= skill <= 1:
            raise UsageError(f"A player needs a skill from 0 to 1, got {skill=}.")
        self._asks = skill

    def _say(self, observation: Observation) -> str:
        if random.Random(derive_seed(observation.seed, self.name)).random() < self._asks:
            return super()._say(observation)
        heard = {question for question, _ in answered(observation.messages)}
        names = [guess(word) for word in self._words]
        chance = random.Random(derive_seed(observation.seed, observation.turn, self.name))
        return chance.choice([name for name in names if name not in heard] or names)


def answered(messages: Sequence[Message]) -> Iterator[tuple[str, str]]:
    """Questions and their answers."""
    for question, reply in pairwise(messages):
        if question.role == "assistant" and reply.role == "user":
            yield question.content.strip(), reply.content.strip()
