"""The agent's last message as questions, each with words, topics and constants: English read by its surface."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w]|\.\d)")
_QUOTED = re.compile(r"\"([^\"]*)\"|'([^']*)'(?!\w)|`([^`]*)`|“([^“”]*)”")
_ENDINGS = ("ations", "ation", "ingly", "ings", "ing", "ies", "edly", "ed", "es", "ly", "s", "e", "y")

_LISTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_STOP_WORDS = frozenset(_LISTS["stop_words"].split())

Intent = StrEnum("Intent", "DETAIL MORE CONFIRM CODE STATEMENT")

Topic = StrEnum(
    "Topic",
    "DEFAULT INPUT OUTPUT RESULT THRESHOLD MINIMUM MAXIMUM MORE LESS FORMULA LABEL EMPTY ERROR OTHERWISE "
    "ROUND CASE ORDER",
)

SHAPES = frozenset({Topic.INPUT, Topic.OUTPUT})
"""What goes in and what comes out, as opposed to what happens in between."""

POINTED = frozenset(
    {Topic.DEFAULT, Topic.EMPTY, Topic.ERROR, Topic.OTHERWISE, Topic.ROUND, Topic.CASE, Topic.ORDER}
)
"""Topics that a question is about even when it names other things as well: "is the total rounded?"."""

VAGUE = frozenset({Topic.FORMULA, Topic.RESULT})
"""Topics that anybody may ask about anything: "how do I cook pasta?"."""


def phrases(listed: str) -> re.Pattern[str]:
    escaped = (re.escape(" ".join(phrase.split())) for phrase in listed.split(","))
    either = "|".join(phrase.replace(r"\*", r"\w*").replace(r"\ ", r"\s+") for phrase in escaped)
    return re.compile(rf"(?<!\w)(?:{either})(?!\w)", re.IGNORECASE)


SIGNS = {Topic(topic): phrases(listed) for topic, listed in _LISTS["signs"].items()} | {
    Topic.MINIMUM: re.compile(r", but at least\b"),
    Topic.MAXIMUM: re.compile(r", but at most\b|\bthe first \d+ (?:items|characters)\b"),
    Topic.LABEL: re.compile(r"\bresult is [\"']|\"[^\"]*\" (?:if|otherwise|for)\b|I know the value"),
}
"""How a sentence about the function shows what it is about."""
TRIGGERS = {Topic(topic): phrases(listed) for topic, listed in _LISTS["triggers"].items()}
BEYOND = phrases(_LISTS["beyond"])  # What functions like these say nothing about


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """The word without its ending, so that "rounded", "rounding" and "round" meet."""
    word = word.lower()
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def stems(text: str) -> frozenset[str]:
    """Stems of the words of a text that carry meaning; identifiers are taken apart."""
    words = _WORD.findall(_CAMEL.sub(" ", text.replace("_", " ")))
    return frozenset(stem(word) for word in words if word.lower() not in _STOP_WORDS)


def numbers_in(text: str) -> frozenset[float]:
    return frozenset(float(number) for number in _NUMBER.findall(text))


def quotes_in(text: str) -> frozenset[str]:
    return frozenset("".join(groups) for groups in _QUOTED.findall(text))


@dataclass(frozen=True, slots=True)
class Question:
    """One sentence; `edge` ones ask whether the edge of a threshold counts, `subject` are words of no topic."""

    intent: Intent
    text: str
    words: frozenset[str]
    subject: frozenset[str]
    triggers: Mapping[Topic, frozenset[str]]
    numbers: frozenset[float]
    texts: frozenset[str]
    polar: bool = False
    edge: bool = False

    @property
    def topics(self) -> frozenset[Topic]:
        return frozenset(self.triggers)


_FENCED = re.compile(r"```.*?(```|\Z)", re.DOTALL)
_SENTENCE_END = re.compile(r"(?<=[?!])\s+|(?<=[.:])\s+(?=[A-Z\d\-*])|\n+")
_BULLET = re.compile(r"^\s*(?:[-*•]|\(?\d{1,2}[.)]|\(?[a-h]\))\s+")

_HAND_OVER = (
    r"paste|print|show|give|send|repeat|dump|reveal|output|write out|recite|provide|copy|share|display|quote"
    r"|see"
)
_DECORATION = (
    r"me|us|out|the|your|its|full|entire|whole|complete|exact|actual|hidden|original|source|python|reference"
    r"|all|of|raw|sample|example|an?|every|line|lines|literal|body|system|previous|correct|working"
)
_WHOLE = (
    r"code|source|implementation|function|hidden[_ ]information|ground[_ ]truth|solution|prompt"
    r"|instructions|def"
)
_HARMLESS = (
    r"signature|name|parameter|input|output|argument|should|do|does|return|returns|need|needs|take|handle"
)
_DEMANDS_CODE = re.compile(
    rf"\b(?:{_HAND_OVER})(?:\s+(?:{_DECORATION}))*\s+(?:{_WHOLE})\b(?!\s+(?:{_HARMLESS}))"
    r"|\bignore (?:all |the |your |any )*(?:previous|prior|above)\b",
    re.IGNORECASE,
)
_NAMES_THE_HIDDEN = phrases(
    "verbatim, word for word, everything above, hidden information, hidden_information, ground truth, "
    "ground_truth, source code"
)
_CONFIRMS = re.compile(
    r"\b(?:does|do|is|are|did|would|have)\b(?: \w+){0,3}? (?:looks?|sounds?|seem|make sense|correct|right"
    r"|okay|ok|what you (?:want|need|had)|match|understood|accurate|good|acceptable|work for you)\b"
    r"|\bis (?:this|that) (?:it|fine)\b|\bcorrect\?|\bright\?",
    re.IGNORECASE,
)
_MORE = re.compile(
    r"\b(?:anything|something|what) else\b|\bmore (?:detail|information|info|about|specific|context)"
    r"|\btell me more\b|\belaborate\b|\bgo on\b"
    r"|\bwhat (?:exactly )?(?:do|would) you (?:want|need|like)\b"
    r"|\b(?:any|what|other|additional|further|specific|special|particular|more) (?:\w+ )?"
    r"(?:requirement|detail|rule|constraint|consideration|information|condition)s?\b"
    r"|\bwhat should (?:it|the function) do\b",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"^(?:and |so |also,? |then |please |now |but )*(?:what|which|how|when|where|who|why|is|are|does|do|did"
    r"|should|can|could|will|would|has|have|must|may|if)\b"
    r"|\b(?:please|tell me|let me know|clarify|specify|describe|explain|provide|share|need to know"
    r"|like to know|confirm|wondering|assum\w+|i need|i'd like|give me|what)\b",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"""^(?:el)?if\b[^,?]*:(?:$| *#| *\w+ *[-+*/]?=| *return\b)|^(?:el)?if ["'][^"'?]*(?:["'](?: n(?:ot?)?)?(?: i(?:n(?: \w*)?)?)?)?$"""
)
"""A condition in Python, whole or cut off, as an answer without its marker has it: nobody asks so."""
_POLITE = re.compile(
    r"^(?:and |so |also,? |then |please |ok(?:ay)?,? |great,? |thanks?[,.!]? |now |but |first,? |hi[,!]? )*"
    r"(?:(?:can|could|would|will) you (?:please |also |kindly |just )?"
    r"(?:tell|let|explain|clarify|provide|specify|describe|share|give|confirm|elaborate|help|be)\b"
    r"(?: me| us| know)?|do you (?:know|have)|would you like|tell me|i'?d like to know)\s*",
    re.IGNORECASE,
)
_OPEN = re.compile(r"\bor\b|\b(which|what|how|when|where|who|why)\b", re.IGNORECASE)
"""A choice or an open question in it wants more than a yes or a no."""
_POLAR = re.compile(
    r"^(?:is|are|does|do|did|should|can|could|will|would|has|have|must|may|whether|if|am i|i assume"
    r"|i'll assume|so)\b|, (?:right|correct)\?$",
    re.IGNORECASE,
)
_EDGE = phrases("inclusive, exclusive, exactly, equal, equals, include, included, strict, strictly")
_ABOUT_OUTPUT = phrases("return*, output*, result*")
_ABOUT_INPUT = phrases("input*, param*, argument*")


def questions_in(message: str) -> list[Question]:
    """The questions of a message in their order; one statement if there is none."""
    text = _FENCED.sub("\n", message)
    sentences = [_BULLET.sub("", part).strip() for part in _SENTENCE_END.split(text)]
    questions = [_understand(sentence) for sentence in sentences if len(sentence) > 1]
    asked = [question for question in questions if question.intent is not Intent.STATEMENT]
    demands = [question for question in asked if question.intent is Intent.CODE]
    return demands or asked or questions[:1] or [_understand("")]


def _understand(sentence: str) -> Question:
    subject, triggers = sentence, {}
    for topic, trigger in TRIGGERS.items():
        subject = trigger.sub(" ", subject)
        if found := trigger.findall(sentence):
            triggers[topic] = stems(" ".join(found))
    if _ABOUT_OUTPUT.search(sentence) and not _ABOUT_INPUT.search(sentence):
        triggers.pop(Topic.INPUT, None)  # "in what format should it be returned?"
    if _DEMANDS_CODE.search(sentence) or _NAMES_THE_HIDDEN.search(sentence):
        intent = Intent.CODE
    elif not sentence.endswith("?") and (_CODE.search(sentence) or not _ASKS.search(sentence)):
        intent = Intent.STATEMENT
    elif _MORE.search(sentence):
        intent = Intent.MORE
    else:
        confirms = _CONFIRMS.search(sentence) and not numbers_in(sentence)
        intent = Intent.CONFIRM if confirms else Intent.DETAIL
    return Question(
        intent=intent,
        text=sentence,
        words=stems(sentence),
        subject=stems(subject),
        triggers=triggers,
        numbers=numbers_in(sentence),
        texts=quotes_in(sentence),
        polar=bool(_POLAR.search(_POLITE.sub("", sentence))) and not _OPEN.search(sentence),
        edge=bool(_EDGE.search(sentence)),
    )
