"""The scripted human: answers the agent's questions from the hidden function, without a model and without state.

It says what it knows in at most two sentences, admits what it does not know, and never recites the code.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence, Set
from functools import cached_property, lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from sweet_rl.mini.backend.facts import MAX_REPLY, Fact, facts_of
from sweet_rl.mini.backend.questions import (
    BEYOND,
    POINTED,
    SHAPES,
    VAGUE,
    Intent,
    Question,
    Topic,
    numbers_in,
    questions_in,
    stems,
)
from sweet_rl.prompts import parse_simulator_prompt
from sweet_rl.types import Message, UserContext, UserReply

if TYPE_CHECKING:
    from sweet_rl.users.protocol import ServedMessage

_DONT_KNOW = ("I don't know about that.", "I'm not sure about that, sorry.", "I have no information on that.")
_ALL_TOLD = ("That's all I know about it.", "I think you have everything I know.")
_FINE = ("That sounds fine to me.", "Okay, go ahead.", "Sounds good to me.")
_NO_CODE = (
    "I don't have code to give you, I can only say how it should behave.",
    "I can't dictate the code, but ask me about any detail of how it should behave.",
)
_READ = 20_000
"""Characters that are read of the problem, and, its last, of the agent's message and of what was said before."""
_FIXED = POINTED | SHAPES | {Topic.RESULT}  # Topics that stay, whatever words the function has

_ABSENT = {
    Topic.ROUND: "No rounding is needed, as far as I know.",
    Topic.CASE: "I have no special wish about upper and lower case.",
    Topic.ORDER: "There is no sorting that I know of.",
    Topic.DEFAULT: "There is no default that I know of.",
    Topic.EMPTY: "I have no special rule for empty or missing input.",
    Topic.ERROR: "I have no special rule for bad input.",
}
_CLOSE = 0.75
"""From this share of the best score on, a new fact goes before one given already, and a second may join."""
_TRIVIAL_NUMBERS = frozenset({0.0, 1.0})
_TOKEN = re.compile(
    r"\"\"\".*?\"\"\"|'''.*?'''|\"(?:\\.|[^\"\\\n]){0,500}+\"|'(?:\\.|[^'\\\n]){0,500}+'|#[^\n]*|\d+(?:\.\d+)?|\w+|[^\w\s]",
    re.DOTALL,
)
_LITERAL = re.compile(r"[\"'\d,]|True$|False$|None$")
_RUN = 6  # Consecutive tokens that make a recital
_SHORTEST_LINE = 3  # Tokens that a line needs before repeating it counts: `else:` is no secret
MAX_HIDDEN: Final = 100_000  # characters of a hidden function: it is parsed while others wait
LOOKED_FOR: Final = (
    "It looks for the sections <request>, <hidden_information> and <dialogue> of the packaged prompt; else for a "
    "Python function (def ...:) in the system message, or in the prompt before the dialogue, and for a dialogue: "
    "entries like 'user: ...' and 'assistant: ...' at beginnings of lines after the function, or the other "
    "messages of the chat, the last of them the agent's."
)
_HUMAN: Final = "user|human|person|client|customer|requester"
_ENTRY: Final = re.compile(
    rf"^[ \t]*+[*#>\[(<|-]*+[ \t]*+(?:(?P<human>{_HUMAN})|assistant|agent|ai|bot|model|developer|programmer|collaborator)"
    r"(?:[ \t]++\d++)?+[*\])>|]*+[ \t]*+:\**+[ \t]?",
    re.IGNORECASE | re.MULTILINE,
)
_RULE: Final = re.compile(r"^(?:[-=#*_~]{3,}|```.*|</.*>)[ \t]*$", re.MULTILINE)
_FUNCTION: Final = re.compile(r"^([ \t]*)(?:@|(?:async )?def +\w+ *\()", re.MULTILINE)
_CODE_LINE: Final = re.compile(r"(?:[ \t]|\Z|@|\)|def |async |class |import |from |#|\w+ *=)")


class ScriptedHuman:
    """A simulated human that needs no model (contract: `sweet_rl.contracts.User`), for any number of episodes."""

    name = "scripted"

    async def reply(self, context: UserContext) -> UserReply:
        return UserReply(
            self.answer(context.problem_description, context.hidden_information, context.messages)
        )

    async def close(self) -> None:
        """Nothing to free."""

    def answer(self, problem_description: str, hidden_information: str, messages: Sequence[Message]) -> str:
        """One or two sentences, at most 400 characters; never raises, whatever the texts are."""
        turn = sum(message.role == "assistant" for message in messages)
        problem_description = problem_description[:_READ]
        asked = messages[-1].content[-_READ:] if messages else ""
        earlier = "\n".join(message.content for message in messages[1:] if message.role == "user")[-_READ:]
        answers = Answers(facts_of(hidden_information), earlier, stems(problem_description))
        questions = questions_in(asked)
        found = [sentences for question in questions if (sentences := answers.to(question, asked))]

        def one_of(phrases: Sequence[str]) -> str:
            return phrases[turn % len(phrases)]

        if questions[0].intent is Intent.CODE:
            said = [one_of(_NO_CODE)]
        elif questions[0].intent is Intent.STATEMENT:
            said = [one_of(_FINE)]
        elif not found:
            only_more = all(question.intent is Intent.MORE for question in questions)
            said = [one_of(_ALL_TOLD if only_more else _DONT_KNOW)]
        else:
            said = found[0] if len(found) == 1 else list(dict.fromkeys(sentences[0] for sentences in found))
        said = [one for one in said if not recites(one, hidden_information, problem_description)]
        both = " ".join(said[:2])
        return (both if len(both) <= MAX_REPLY else said[0]) or one_of(_NO_CODE)


class Answers:
    """What the human can say about one function; `public` are stems of the problem description."""

    def __init__(self, facts: tuple[Fact, ...], earlier: str, public: frozenset[str]) -> None:
        self._facts, self._earlier, self._public = facts, earlier.casefold(), public

    def to(self, question: Question, asked: str) -> list[str]:
        """The sentences that answer a question of a message, best first; empty when it cannot be answered."""
        if question.intent is Intent.CONFIRM:
            numbers = numbers_in(asked) | _TRIVIAL_NUMBERS
            for fact in self._facts:  # what the proposal seems to have forgotten
                unsaid = [text for text in fact.texts if text not in asked and "[" not in text]
                if not (fact.parts or fact.topics & SHAPES) and (unsaid or not fact.numbers <= numbers):
                    return [_after("I can't judge it all, but keep in mind: ", fact)]
            return ["It sounds right to me."]
        if question.intent is Intent.MORE:  # one new fact, those with constants first
            untold = [fact for fact in self._facts if not fact.parts and not self._told(fact)]
            weighty = [fact for fact in untold if _gives_constants(fact) and not fact.topics & SHAPES]
            return [fact.text for fact in (*weighty, *untold)][:1]
        return self._detail(question)

    def _detail(self, question: Question) -> list[str]:
        if BEYOND.search(question.text) and not question.subject & self._vocabulary:
            return []
        # An answer keeps to the topics that are pointed at; to a limit only if the function has such a limit.
        limits = question.topics & {Topic.MINIMUM, Topic.MAXIMUM}
        known = {limit for limit in limits if any(limit in fact.topics for fact in self._facts)}
        pointed = question.topics & POINTED | known
        absent = [_ABSENT[topic] for topic in sorted(pointed) if topic in _ABSENT]
        ranked = self._rank(question, pointed)
        if not ranked and not absent:
            ranked = self._rank(question, frozenset())
        if not ranked:
            return absent[:1]
        best_score, best = ranked[0]
        shapes = question.topics & best.topics & SHAPES
        fresh = [
            fact
            for score, fact in ranked
            if score >= _CLOSE * best_score and shapes <= fact.topics and not self._told(fact)
        ]
        if not fresh:
            return [_after(_yes_or_no(question, best) or "As I said, ", best)]
        first, opening = fresh[0], _yes_or_no(question, fresh[0])
        for other in fresh[1:]:  # one that says something new, and gives away a constant with it
            told = other.text in first.parts or first.text in other.parts or not _gives_constants(other)
            if not told and not (other.numbers <= first.numbers and other.texts <= first.texts):
                return [_after(opening, first), other.text]
        return [_after(opening, first)]

    @cached_property
    def _vocabulary(self) -> frozenset[str]:
        return frozenset().union(*(fact.words for fact in self._facts))

    @cached_property
    def _rarity(self) -> dict[str, float]:
        counts = Counter(word for fact in self._facts for word in fact.words)
        return {word: math.log(1 + len(self._facts) / count) for word, count in counts.items()}

    def _rank(self, question: Question, pointed: Set[Topic]) -> list[tuple[float, Fact]]:
        foreign = bool(question.subject) and not question.subject & (self._vocabulary | self._public)
        # without those whose word is a word of the function: there "extra" means its `extra`
        topics = {
            topic
            for topic, words in question.triggers.items()
            if topic in _FIXED or not words or not words <= self._vocabulary
        } - (VAGUE if foreign else frozenset())
        facts = (fact for fact in self._facts if not pointed or fact.topics & pointed)
        scored = [(self._score(question, fact, topics), fact) for fact in facts]
        return sorted((pair for pair in scored if pair[0] > 0), key=lambda pair: -pair[0])

    def _score(self, question: Question, fact: Fact, topics: Set[Topic]) -> float:
        # fsum: the order of a set must not decide between two facts.
        words = math.fsum(self._rarity[word] for word in question.words & fact.words)
        words += 0.5 * math.fsum(self._rarity[word] for word in question.words & fact.head)
        constants = len(question.numbers & fact.numbers) + 1.5 * len(question.texts & fact.texts)
        score = words + constants + 0.8 * len(topics & fact.topics)
        if fact.topics & SHAPES and Topic.LABEL not in topics & fact.topics:
            score *= 0.7 if question.topics & SHAPES else 0.5
        return score if _gives_constants(fact) else 0.8 * score

    def _told(self, fact: Fact) -> bool:
        if fact.text.casefold() in self._earlier:
            return True
        if fact.parts and all(part.casefold() in self._earlier for part in fact.parts):
            return True
        return any(
            fact.text in other.parts and other.text.casefold() in self._earlier for other in self._facts
        )


def _gives_constants(fact: Fact) -> bool:
    return bool(fact.numbers or fact.texts)


def _after(opening: str, fact: Fact) -> str:
    if not opening or len(opening) + len(fact.text) > MAX_REPLY:
        return fact.text
    first = fact.text.split(" ", 1)[0]
    is_name = len(first) == 1 or first.startswith(('"', "'"))
    return opening + (fact.text if is_name else fact.text[:1].lower() + fact.text[1:])


def _yes_or_no(question: Question, fact: Fact) -> str:
    verdict: bool | None = None
    if question.edge and not question.numbers:
        verdict = fact.inclusive
    elif question.numbers and fact.numbers:
        verdict = question.numbers <= fact.numbers or (None if question.numbers & fact.numbers else False)
    elif (question.texts and question.texts <= fact.texts) or Topic.ROUND in question.topics & fact.topics:
        verdict = True
    return "" if verdict is None or not question.polar else "Yes, " if verdict else "No, "


def recites(reply: str, source: str, known: str = "") -> bool:
    """Whether `reply` repeats a run of six tokens, or a whole line, of `source` that is not in `known`."""
    tokens = _tokens(reply)
    runs, lines = _secrets(source, known)
    if any(run in runs for run in _runs(tokens, _RUN)):
        return True
    spoken = _spaced(tokens)
    return any(line in spoken for line in lines)


@lru_cache(maxsize=256)
def _secrets(source: str, known: str) -> tuple[frozenset[tuple[str, ...]], tuple[str, ...]]:
    public = _tokens(known)
    runs = {run for run in _runs(_tokens(source), _RUN) if _is_code(run)} - set(_runs(public, _RUN))
    lines = [tokens for line in source.splitlines() if len(tokens := _tokens(line)) >= _SHORTEST_LINE]
    said_before = _spaced(public)
    texts = [_spaced(line) for line in lines if _is_code(line)]
    return frozenset(runs), tuple(text for text in texts if text not in said_before)


def _spaced(tokens: Sequence[str]) -> str:
    return f" {' '.join(tokens)} "


def _tokens(text: str) -> list[str]:
    """Without comments; string literals count by their value, whichever quotes they wear."""
    return [
        f'"{token.strip(token[0])}"' if token[0] in "\"'" and len(token) > 1 else token
        for token in _TOKEN.findall(text)
        if not token.startswith("#")
    ]


def _runs(tokens: Sequence[str], length: int) -> list[tuple[str, ...]]:
    return [tuple(tokens[start : start + length]) for start in range(len(tokens) - length + 1)]


def _is_code(tokens: Sequence[str]) -> bool:
    return not all(_LITERAL.match(token) for token in tokens)


def answer_served(messages: Sequence[ServedMessage]) -> str:
    context = context_of(messages)
    return ScriptedHuman().answer(context.problem_description, context.hidden_information, context.messages)


def context_of(messages: Sequence[ServedMessage]) -> UserContext:
    """What the human of a request knows: by the packaged prompt's sections, or as `LOOKED_FOR` says."""
    users = [message.text for message in messages if message.role == "user"]
    if users and "<hidden_information>" in users[-1]:
        return parse_simulator_prompt(users[-1])
    filled = [message for message in messages if message.text.strip()]
    first = next(
        (at for at, one in enumerate(filled) if one.role not in {"system", "developer"}), len(filled)
    )
    place = next(
        (at for at in range(first + 1) if at < len(filled) and _FUNCTION.search(filled[at].text)), None
    )
    if place is None:
        raise ValueError(f"there is no hidden function in the prompt. {LOOKED_FOR}")
    hidden, rest = _function(filled[place].text)
    later = [message for message in filled[place + 1 :] if message.role in {"user", "assistant"}]
    if later:  # a chat, whose human is its assistant, unless an assistant spoke last
        agent = later[-1].role
        dialogue = [Message("assistant" if one.role == agent else "user", one.text) for one in later]
    else:
        dialogue = _of_text(rest)
    if not dialogue or dialogue[-1].role != "assistant":
        what = "there is no dialogue in the prompt" if not dialogue else "the dialogue ends with the human"
        raise ValueError(f"{what}. {LOOKED_FOR}")
    asked = next((message.content for message in dialogue if message.role == "user"), "")
    return UserContext(asked, hidden, tuple(dialogue))


def _function(text: str) -> tuple[str, str]:
    """The first function of a text before its dialogue, with the lines of code behind it, and what follows."""
    entry = _ENTRY.search(text)
    found = _FUNCTION.search(text, 0, entry.start() if entry else len(text))
    if found is None:
        raise ValueError(f"there is no Python function before the dialogue. {LOOKED_FOR}")
    lines = [line.removeprefix(found[1]) for line in text[found.start() :].splitlines(keepends=True)]
    code = [lines[0], *takewhile(lambda line: _CODE_LINE.match(line.rstrip("\n")), lines[1:])]
    hidden = "".join(code).strip()
    if len(hidden) > MAX_HIDDEN:
        raise ValueError(f"the hidden function has more than {MAX_HIDDEN:,} characters.")
    return f"{hidden}\n", "".join(lines[len(code) :])


def _of_text(text: str) -> list[Message]:
    """The dialogue as entries of a text; a last one without words is the cue to speak."""
    entries = list(_ENTRY.finditer(text))
    ends = [*(entry.start() for entry in entries[1:]), len(text)]
    said = [text[entry.end() : end] for entry, end in zip(entries, ends, strict=False)]
    if said and not said[-1].partition("\n")[0].strip():
        entries.pop()
    elif said:
        said[-1] = _RULE.split(said[-1], maxsplit=1)[0]
    return [
        Message("user" if entry["human"] else "assistant", content.strip())
        for entry, content in zip(entries, said, strict=False)
    ]
