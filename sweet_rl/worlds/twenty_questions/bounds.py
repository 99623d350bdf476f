"""Ceiling and floors of a game about a few words: the best play, computed exactly; names in order; anything.

The cost of a set of words that are left is that of the best question or name (dynamic programming over such
sets). Each turn of the best play rules out a word, so it is exact where there are as many turns as words.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from functools import cache

from sweet_rl.errors import UsageError
from sweet_rl.policies.scripted import ScriptedPolicy
from sweet_rl.types import Observation, derive_seed
from sweet_rl.worlds.question_games import QuestionTranscript
from sweet_rl.worlds.twenty_questions.asker import answered
from sweet_rl.worlds.twenty_questions.env import NO, YES
from sweet_rl.worlds.twenty_questions.questions import guess, questions_about

MOST_WORDS = 20
"""More have too many sets that can be left."""


@cache
def least_cost(count: int) -> float:
    """Turns that cost something, on average over `count` words, where every question could be asked.

    No play is better, whatever is asked: a question divides the words in two, a name takes one away.
    """
    if count <= 1:
        return 0.0
    asked = min(
        1 + (part * least_cost(part) + (count - part) * least_cost(count - part)) / count
        for part in range(1, count // 2 + 1)
    )
    return min(asked, (count - 1) / count * (1 + least_cost(count - 1)))


class BestAsker(ScriptedPolicy):
    """Plays a game about a few words as well as it can be played with the questions that scripted players ask."""

    name = "best"

    def __init__(
        self,
        answer: Callable[[str, str], str | None],
        words: Sequence[str],
        *,
        max_turns: int = 20,
        system_prompt: str = "",
    ) -> None:
        super().__init__(system_prompt, chat_format=QuestionTranscript())
        words = tuple(dict.fromkeys(words))
        if not 1 <= len(words) <= min(MOST_WORDS, max_turns):
            raise UsageError(
                f"The best play is known for 1 to {MOST_WORDS} words and as many turns, got {len(words)} words "
                f"and {max_turns} turns. Play the tasks twenty-questions:sixteen or twenty-questions:ten."
            )
        questions = [wordings[0] for wordings in questions_about(words)]
        self._yes = {
            question: frozenset(word for word in words if answer(word, question) == YES)
            for question in questions
        } | {guess(word): frozenset({word}) for word in words}
        self._names = frozenset(map(guess, words))
        self._words = frozenset(words)
        self._known: dict[frozenset[str], tuple[float, str]] = {}

    @property
    def mean_return(self) -> float:
        """Of its games, over all words: the optimum."""
        return -self._best(self._words)[0]

    def advantage(self, asked: Iterable[tuple[str, str]], saying: str) -> float:
        """What saying this gains on the best that can be said, if all is played as well as can be afterwards."""
        left = self._left(asked)
        yes = self._yes.get(saying, frozenset())
        inside, outside = left & yes, left - yes
        names = saying in self._names
        if not inside or not (outside or names):
            return -1.0
        return self._best(left)[0] - self._cost(inside, outside, names=names)

    def fits(self, asked: Iterable[tuple[str, str]], saying: str) -> bool | None:
        """Whether this names a word that the answers leave."""
        asked = list(asked)
        untried = self._words.difference(
            *(self._yes[question] for question, _ in asked if question in self._names)
        )
        left = self._left(asked)
        if saying not in self._names or untried <= left:
            return None
        return self._yes[saying] <= left

    def _say(self, observation: Observation) -> str:
        return self._best(self._left(answered(observation.messages)))[1]

    def _left(self, asked: Iterable[tuple[str, str]]) -> frozenset[str]:
        """The words that the answers leave; all, where they leave none."""
        left = self._words
        for question, reply in asked:
            yes = self._yes.get(question)
            if yes is not None and reply in (YES, NO):
                left = left & yes if reply == YES else left - yes
        return left or self._words

    def _cost(self, inside: frozenset[str], outside: frozenset[str], *, names: bool) -> float:
        """Turns of a question or name that these words answer with yes and no, and of the best play after it."""
        count = len(inside) + len(outside)
        after = 0.0 if names else len(inside) / count * self._best(inside)[0]
        if outside:
            after += len(outside) / count * self._best(outside)[0]
        return (len(outside) / count if names else 1.0) + after

    def _best(self, left: frozenset[str]) -> tuple[float, str]:
        """The mean cost of finding out which of these it is, and what to say first."""
        if left in self._known:
            return self._known[left]
        best = (0.0, guess(min(left))) if len(left) == 1 else (math.inf, "")
        for saying, yes in self._yes.items():
            inside, outside = left & yes, left - yes
            if not (inside and outside):
                continue
            shares = len(inside) / len(left), len(outside) / len(left)
            paid = shares[1] if saying in self._names else 1.0
            if paid + shares[0] * least_cost(len(inside)) + shares[1] * least_cost(len(outside)) >= best[0]:
                continue
            best = min(best, (self._cost(inside, outside, names=saying in self._names), saying))
        self._known[left] = best
        return best


class NamingAsker(ScriptedPolicy):
    """Names one word after the other and never asks: what needs no skill."""

    name = "namer"

    def __init__(self, words: Sequence[str], *, system_prompt: str = "") -> None:
        super().__init__(system_prompt, chat_format=QuestionTranscript())
        self._words = tuple(dict.fromkeys(words))

    def _say(self, observation: Observation) -> str:
        return guess(self._words[observation.turn % len(self._words)])


class RandomAsker(ScriptedPolicy):
    """Says any question or name, each as likely, at every turn."""

    name = "random"

    def __init__(self, words: Sequence[str], *, system_prompt: str = "") -> None:
        super().__init__(system_prompt, chat_format=QuestionTranscript())
        names = tuple(dict.fromkeys(words))
        self._sayings = (*(wordings[0] for wordings in questions_about(names)), *map(guess, names))

    def _say(self, observation: Observation) -> str:
        return random.Random(derive_seed(observation.seed, observation.turn, self.name)).choice(self._sayings)
