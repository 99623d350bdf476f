"""The embedded teacher's questions about a file: those that the shown text answers, by plain patterns.

It finds functions, classes and named values in code, statements and headings in text, columns and cells in
tables. What another file of the repository could answer as well is not asked. Where it finds nothing it says
nothing, and the file gets no question.
"""

from __future__ import annotations

import csv
import random
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from sweet_rl.errors import UsageError
from sweet_rl.worlds.auto_explore.repositories.made import make_repository
from sweet_rl.worlds.auto_explore.teacher.questions import QuestionAnswer, SourceFile

_MOST: Final = 3
_DEFINED: Final = re.compile(
    r"^[^\S\n]*+(?:public |private |static |async )*(?:def|class|func|function|fn)\s+([A-Za-z]\w+)",
    re.MULTILINE,
)
_VALUE: Final = re.compile(
    r"""^[ \t]*+(?:(?:export|const|final)[ \t]++)*([A-Za-z_]\w*+)\s*+[:=]\s*+"""
    r"""([\d.]+|"[^"\n]+"|'[^'\n]+')[ \t,;]*$""",
    re.MULTILINE,
)
_ANY_NAME: Final = re.compile(
    r"\b(?:def|class|func|function|fn|struct|interface)\s+([A-Za-z_]\w*)|\b([A-Za-z_]\w*)[\"']?\s*[:=](?!=)"
)
"""Whatever might define a name or give it a value, in any language: rather too much than too little."""
_SENTENCE: Final = re.compile(r"[A-Z][^.!?\n#|{}<>]{15,200}+[.!?]")
_STATEMENT: Final = re.compile(
    r"(?P<what>.{4,100}?) (?P<verb>is|are|was|were|costs|takes|opens|closes|holds|needs|contains|has|have) "
    r"(?P<rest>.+)"
)
_NUMBER: Final = re.compile(r"[\d.,:%$-]*")
_HEADING: Final = re.compile(r"^#+\s+(\S.{2,80})$", re.MULTILINE)


class _Fact(NamedTuple):
    """Something to ask about: the question, and whether a text says something about the same, too."""

    asked: QuestionAnswer
    also_in: Callable[[str], bool]


def known_questions(
    file: SourceFile, text: str, shown: str, draws: random.Random, *, others: Sequence[str]
) -> str:
    """A reply in the layout that a model is asked for: an analysis, then up to three pairs."""
    finders = {"code": _about_code, "text": _about_text, "data": _about_table}
    made = _made(file, text)
    if made:
        chosen = draws.sample(made, min(_MOST, len(made)))
    else:
        facts = finders[file.kind](shown, draws)
        chosen = list(_only_here(draws.sample(facts, len(facts)), others))
    lines = [
        "# ANALYSIS",
        f"The file {file.path} is {file.kind}; it answers {len(chosen)} of the questions below.",
    ]
    for number, pair in enumerate(chosen, start=1):
        lines += [f"- QUERY{number}: {pair.question}", f"- ANSWER{number}: {pair.answer}"]
    return "\n".join(lines)


def _only_here(facts: Sequence[_Fact], others: Sequence[str]) -> Iterator[QuestionAnswer]:
    """The first few facts that no other text says anything about."""
    found = 0
    for fact in facts:
        if found == _MOST:
            return
        if not any(map(fact.also_in, others)):
            found += 1
            yield fact.asked


def _made(file: SourceFile, text: str) -> list[QuestionAnswer]:
    """The questions that a made repository comes with, if the file is one of these and unchanged."""
    try:
        made = make_repository(file.repository)
    except UsageError:
        return []
    if made.files.get(file.path) != text:
        return []
    return [QuestionAnswer(task.question, task.answer) for task in made.tasks if task.filename == file.path]


def _about_code(content: str, draws: random.Random) -> list[_Fact]:
    facts = []
    for name in dict.fromkeys(_DEFINED.findall(content)):
        words = _words(name)
        question = draws.choice(
            (
                f"Can you change how the service does this: {words}?",
                f"I want to see the code for {words}. Where is it?",
                f"Something seems wrong with {words}. Which code does it?",
            )
        )
        facts.append(_Fact(QuestionAnswer(question, f"It is done by `{name}`."), _names(name)))
    for name, value in dict.fromkeys(_VALUE.findall(content)):
        words = _words(name)
        question = draws.choice((f"What is the value of {words}?", f"Which {words} does the service use?"))
        facts.append(_Fact(QuestionAnswer(question, f"{name} is {value}."), _names(name)))
    return facts


def _about_text(content: str, _: random.Random) -> list[_Fact]:
    facts = []
    for sentence in dict.fromkeys(_SENTENCE.findall(content)):
        statement = _STATEMENT.match(sentence)
        if statement:
            what = statement["what"]
            what = what[0].lower() + what[1:] if not what[:2].isupper() else what
            verb = statement["verb"]
            is_there = verb in {"is", "are", "was", "were"}
            question = f"What {verb} {what}?" if is_there else f"I need to know what {what} {verb}."
            also_in = _says(what)
        else:
            keywords = _keywords(sentence)
            question, also_in = f"What is written about {', '.join(keywords)}?", _says(*keywords)
        facts.append(_Fact(QuestionAnswer(question, sentence), also_in))
    for heading in dict.fromkeys(map(str.strip, _HEADING.findall(content))):
        asked = QuestionAnswer(f"Where do I read about {heading}?", f"Under the heading {heading}.")
        facts.append(_Fact(asked, _says(heading)))
    for name, value in dict.fromkeys(_VALUE.findall(content)):
        asked = QuestionAnswer(f"Which {_words(name)} is configured?", f"{name} is {value}.")
        facts.append(_Fact(asked, _names(name)))
    return facts


def _about_table(content: str, draws: random.Random) -> list[_Fact]:
    delimiter = "\t" if "\t" in content else ","
    rows = [row for row in csv.reader(content.splitlines(), delimiter=delimiter) if len(row) > 1]
    if not rows:
        return []
    has_header = len(rows) > 1 and not any(_NUMBER.fullmatch(cell.strip()) for cell in rows[0])
    facts = []
    for row in rows[has_header:]:
        cells = [cell.strip() for cell in row]
        named = next((at for at, cell in enumerate(cells) if not _NUMBER.fullmatch(cell)), 0)
        at = draws.choice([other for other in range(len(cells)) if other != named])
        what = _words(rows[0][at]) if has_header and at < len(rows[0]) else "number"
        asked = QuestionAnswer(f"What is the {what} of {cells[named]}?", cells[at])
        facts.append(_Fact(asked, _says(cells[named])))
    return facts


def _names(name: str) -> Callable[[str], bool]:
    """Whether a text defines something, or gives it a value, whose name has the words of this one."""
    words = _words(name)
    return lambda text: words in _names_in(text)


def _says(*phrases: str) -> Callable[[str], bool]:
    """Whether all of the phrases stand in a text, in upper or lower case, broken or not."""
    wanted = [" ".join(phrase.split()).casefold() for phrase in phrases]
    return lambda text: all(phrase in _plain(text) for phrase in wanted)


@lru_cache(maxsize=10_000)
def _names_in(text: str) -> frozenset[str]:
    return frozenset(_words(name or value) for name, value in _ANY_NAME.findall(text))


@lru_cache(maxsize=10_000)
def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _words(name: str) -> str:
    """The words that an identifier is made of: snake case and camel case."""
    return " ".join(re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_\W]+", " ", name).lower().split()) or name


def _keywords(sentence: str) -> list[str]:
    words = [word for word in re.findall(r"[A-Za-z][\w-]{3,}", sentence) if word[0].islower()]
    longest = sorted(dict.fromkeys(words), key=lambda word: (-len(word), word))[:3]
    return [word for word in dict.fromkeys(words) if word in longest] or [sentence.rstrip(".!?")]
