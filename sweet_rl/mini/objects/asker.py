"""Scripted players of Twenty Questions: who asks well, seldom, as well as can be, not at all, or anything.

Teachers and yardsticks for trained agents; they ask the function that answers, not the table.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, pairwise
from random import Random
from typing import Any, Final

from sweet_rl.errors import UsageError
from sweet_rl.mini.objects.language import ENGLISH, set_of
from sweet_rl.mini.objects.oracle import NO, YES, answer, sections
from sweet_rl.policies.scripted import ScriptedPolicy
from sweet_rl.types import Message, Observation, derive_seed
from sweet_rl.worlds import load_tasks
from sweet_rl.worlds.question_games import QuestionTranscript

MOST_WORDS = 20  # that the basic questions can distinguish; more have too many sets that can be left
_NEARLY_BEST_BITS = 0.05  # Questions whose information is within this of the best are as good

_BARE = set_of(ENGLISH["bare"])


def guess(word: str) -> str:
    """The question that names an object: "Is it an apple?", "Is it pants?"; the name comes last."""
    if word in _BARE:
        return f"Is it {word}?"
    article = "the" if word in ("ocean", "sea") else "an" if word[0] in "aeiou" else "a"
    return f"Is it {article} {word}?"


def questions_about(words: Collection[str]) -> tuple[tuple[str, ...], ...]:
    """What a scripted player may ask about these words, which are the objects' first names."""
    questions, sixteen = _questions()
    if set(words) == sixteen:
        return questions["four"]
    return questions["basic"] if len(words) <= MOST_WORDS else questions["basic"] + questions["more"]


@cache
def _questions() -> tuple[dict[str, tuple[tuple[str, ...], ...]], set[str]]:
    questions = {
        name: tuple(tuple(line.split(" / ")) for line in lines) for name, lines in sections("questions.txt")
    }
    return questions, {task.hidden_information for task in load_tasks("twenty-questions:sixteen")}


def answered(messages: Sequence[Message]) -> Iterator[tuple[str, str]]:
    for question, reply in pairwise(messages):
        if question.role == "assistant" and reply.role == "user":
            yield question.content.strip(), reply.content.strip()


class _Asker(ScriptedPolicy):
    """Who asks about these words; `skill` is the share of turns, or games, in which they ask well."""

    def __init__(
        self, words: Sequence[str], *, skill: float = 1.0, max_turns: int = 20, system_prompt: str = ""
    ) -> None:
        super().__init__(system_prompt, chat_format=QuestionTranscript())
        self._words, self._skill, self._max_turns = tuple(dict.fromkeys(words)), skill, max_turns
        self._answers = cache(lambda question: tuple(answer(word, question) for word in self._words))
        self._pool = questions_about(self._words)

    def _chance(self, observation: Observation) -> Random:
        return Random(derive_seed(observation.seed, observation.turn, self.name))


class ObjectAsker(_Asker):
    """Asks by information gain with the probability `skill`, else anything; the last turn always names a word."""

    name = "object_asker"

    def _say(self, observation: Observation) -> str:
        return self._ask(observation, self._skill)

    def _ask(self, observation: Observation, skill: float) -> str:
        chance = self._chance(observation)
        asked = list(answered(observation.messages))
        left = self._left(asked)
        heard = {question for question, _ in asked}
        untried = [wordings for wordings in self._pool if not heard.intersection(wordings)]
        if observation.turn >= self._max_turns - 1 or not untried:
            return guess(self._words[chance.choice(left)])
        if chance.random() >= skill:
            unlucky = chance.randrange(len(untried) + 1)
            return (
                guess(chance.choice(self._words))
                if unlucky == len(untried)
                else chance.choice(untried[unlucky])
            )
        gains = {}
        for wording in chain.from_iterable(untried):  # bits that its answer is worth
            share = sum(self._answers(wording)[place] == YES for place in left) / len(left)
            parts = [part for part in (share, 1 - share) if part]
            gains[wording] = -sum(part * math.log2(part) for part in parts)
        best = max(gains.values())
        if len(left) <= 2 or best <= 0:
            return guess(self._words[chance.choice(left)])
        return chance.choice([wording for wording, gain in gains.items() if gain >= best - _NEARLY_BEST_BITS])

    def _left(self, asked: Sequence[tuple[str, str]]) -> list[int]:
        """The places of the words that contradict the fewest answers; a word that was denied is out."""
        contradictions = [0] * len(self._words)
        denied = set()
        for question, reply in asked:
            if reply not in (YES, NO):
                continue
            for place, expected in enumerate(self._answers(question)):
                contradictions[place] += expected in (YES, NO) and expected != reply
                if reply == NO and question == guess(self._words[place]):
                    denied.add(place)
        places = [place for place in range(len(self._words)) if place not in denied]
        places = places or list(range(len(self._words)))
        fewest = min(contradictions[place] for place in places)
        return [place for place in places if contradictions[place] == fewest]


class HastyAsker(ObjectAsker):
    """Plays a share `skill` of its games as `ObjectAsker`; in the others it only names words."""

    name = "hasty"

    def _say(self, observation: Observation) -> str:
        if Random(derive_seed(observation.seed, self.name)).random() < self._skill:
            return self._ask(observation, 1.0)
        heard = {question for question, _ in answered(observation.messages)}
        names = [guess(word) for word in self._words]
        return self._chance(observation).choice([name for name in names if name not in heard] or names)


class NamingAsker(_Asker):
    """Names one word after the other and never asks: what needs no skill."""

    name = "namer"

    def _say(self, observation: Observation) -> str:
        return guess(self._words[observation.turn % len(self._words)])


class RandomAsker(NamingAsker):
    """Says any question or name, each as likely, at every turn."""

    name = "random"

    def _say(self, observation: Observation) -> str:
        questions = [wordings[0] for wordings in self._pool]
        return self._chance(observation).choice((*questions, *map(guess, self._words)))


@cache
def least_cost(count: int) -> float:
    """Turns that cost something, over `count` words, if every question could be asked: a lower bound."""
    if count <= 1:
        return 0.0
    asked = min(
        1 + (part * least_cost(part) + (count - part) * least_cost(count - part)) / count
        for part in range(1, count // 2 + 1)
    )
    return min(asked, (count - 1) / count * (1 + least_cost(count - 1)))


class BestAsker(_Asker):
    """Plays as well as it can be played with these questions, by dynamic programming over sets of words."""

    name = "best"

    def __init__(self, words: Sequence[str], *, max_turns: int = 20, **how: Any) -> None:
        super().__init__(words, max_turns=max_turns, **how)
        count = len(self._words)
        if not 1 <= count <= min(MOST_WORDS, max_turns):
            raise UsageError(
                f"The best play is known for 1 to {MOST_WORDS} words and as many turns, got {count} words "
                f"and {max_turns} turns. Play the tasks twenty-questions:sixteen or twenty-questions:ten."
            )
        self._yes = {
            question: frozenset(word for word in self._words if answer(word, question) == YES)
            for question, *_ in self._pool
        } | {guess(word): frozenset({word}) for word in self._words}
        self._names = frozenset(map(guess, self._words))
        self._all = frozenset(self._words)
        self._known: dict[frozenset[str], tuple[float, str]] = {}

    @property
    def mean_return(self) -> float:
        """Of its games, over all words: the optimum."""
        return -self._best(self._all)[0]

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
        """Whether this names a word that the answers leave; None where it names none, or all are left."""
        asked = list(asked)
        denied = (self._yes[question] for question, _ in asked if question in self._names)
        left = self._left(asked)
        if saying not in self._names or self._all.difference(*denied) <= left:
            return None
        return self._yes[saying] <= left

    def _say(self, observation: Observation) -> str:
        return self._best(self._left(answered(observation.messages)))[1]

    def _left(self, asked: Iterable[tuple[str, str]]) -> frozenset[str]:
        left = self._all
        for question, reply in asked:
            yes = self._yes.get(question)
            if yes is not None and reply in (YES, NO):
                left = left & yes if reply == YES else left - yes
        return left or self._all

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


PLAYERS: Final[Mapping[str, type[_Asker]]] = {  # By the names of scripted agents
    "asker": ObjectAsker, "hasty": HastyAsker, "best": BestAsker, "namer": NamingAsker, "random": RandomAsker
}  # fmt: skip


def make_player(name: str, words: Sequence[str], **how: Any) -> ScriptedPolicy:
    return PLAYERS[name](words, **how)
