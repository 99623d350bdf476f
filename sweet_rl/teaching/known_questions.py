"""What the embedded teacher asks about a file: questions that the shown text answers, by plain patterns.

It finds functions, classes and named values in code, statements and headings in text, columns and cells in
tables. Where it finds nothing it says nothing, and the file gets no question.
"""

from __future__ import annotations

import csv
import random
import re
from typing import Final

from sweet_rl.errors import UsageError
from sweet_rl.repositories.made import make_repository
from sweet_rl.teaching.questions import QuestionAnswer, SourceFile

_MOST: Final = 3
_DEFINED: Final = re.compile(
    r"^\s*(?:public |private |static |async )*(?:def|class|func|function|fn)\s+([A-Za-z]\w+)", re.MULTILINE
)
_VALUE: Final = re.compile(
    r"""^[ \t]*(?:export\s+|const\s+|final\s+)*([A-Za-z_]\w*)\s*[:=]\s*"""
    r"""([\d.]+|"[^"\n]+"|'[^'\n]+')[ \t,;]*$""",
    re.MULTILINE,
)
_SENTENCE: Final = re.compile(r"[A-Z][^.!?\n#|{}<>]{15,200}[.!?]")
_STATEMENT: Final = re.compile(
    r"(?P<what>.{4,100}?) (?P<verb>is|are|was|were|costs|takes|opens|closes|holds|needs|contains|has|have) "
    r"(?P<rest>.+)"
)
_NUMBER: Final = re.compile(r"[\d.,:%$-]*")
_HEADING: Final = re.compile(r"^#+\s+(\S.{2,80})$", re.MULTILINE)


def known_questions(file: SourceFile, text: str, content: str, draws: random.Random) -> str:
    """A reply in the layout that a model is asked for: an analysis, then up to three pairs.

    Args:
        file: which one it is. One of a made repository has questions that no other file in it answers.
        text: all of it.
        content: what is shown of it.
        draws: of the choice and the wording.
    """
    kind = file.kind
    finders = {"code": _about_code, "text": _about_text, "data": _about_table}
    pairs = _made(file, text) or finders[kind](content, draws)
    chosen = draws.sample(pairs, min(_MOST, len(pairs)))
    lines = [
        "# ANALYSIS",
        f"The file {file.path} is {kind}; it answers {len(chosen)} of the questions below.",
    ]
    for number, pair in enumerate(chosen, start=1):
        lines += [f"- QUERY{number}: {pair.question}", f"- ANSWER{number}: {pair.answer}"]
    return "\n".join(lines)


def _made(file: SourceFile, text: str) -> list[QuestionAnswer]:
    """The questions that a made repository comes with, if the file is one of these and unchanged."""
    try:
        made = make_repository(file.repository)
    except UsageError:
        return []
    if made.files.get(file.path) != text:
        return []
    return [QuestionAnswer(task.question, task.answer) for task in made.tasks if task.filename == file.path]


def _about_code(content: str, draws: random.Random) -> list[QuestionAnswer]:
    pairs = []
    for name in dict.fromkeys(_DEFINED.findall(content)):
        words = _words(name)
        question = draws.choice(
            (
                f"Can you change how the service does this: {words}?",
                f"I want to see the code for {words}. Where is it?",
                f"Something seems wrong with {words}. Which code does it?",
            )
        )
        pairs.append(QuestionAnswer(question, f"It is done by `{name}`."))
    for name, value in dict.fromkeys(_VALUE.findall(content)):
        words = _words(name)
        question = draws.choice((f"What is the value of {words}?", f"Which {words} does the service use?"))
        pairs.append(QuestionAnswer(question, f"{name} is {value}."))
    return pairs


def _about_text(content: str, _: random.Random) -> list[QuestionAnswer]:
    pairs = []
    for sentence in dict.fromkeys(_SENTENCE.findall(content)):
        statement = _STATEMENT.match(sentence)
        if statement:
            what = statement["what"]
            what = what[0].lower() + what[1:] if not what[:2].isupper() else what
            verb = statement["verb"]
            is_there = verb in {"is", "are", "was", "were"}
            question = f"What {verb} {what}?" if is_there else f"I need to know what {what} {verb}."
        else:
            question = f"What is written about {_keywords(sentence)}?"
        pairs.append(QuestionAnswer(question, sentence))
    pairs += [
        QuestionAnswer(f"Where do I read about {heading.strip()}?", f"Under the heading {heading.strip()}.")
        for heading in dict.fromkeys(_HEADING.findall(content))
    ]
    pairs += [
        QuestionAnswer(f"Which {_words(name)} is configured?", f"{name} is {value}.")
        for name, value in dict.fromkeys(_VALUE.findall(content))
    ]
    return pairs


def _about_table(content: str, draws: random.Random) -> list[QuestionAnswer]:
    delimiter = "\t" if "\t" in content else ","
    rows = [row for row in csv.reader(content.splitlines(), delimiter=delimiter) if len(row) > 1]
    if not rows:
        return []
    has_header = len(rows) > 1 and not any(_NUMBER.fullmatch(cell.strip()) for cell in rows[0])
    body = rows[has_header:]
    pairs = []
    for row in draws.sample(body, min(_MOST, len(body))):
        cells = [cell.strip() for cell in row]
        named = next((at for at, cell in enumerate(cells) if not _NUMBER.fullmatch(cell)), 0)
        at = draws.choice([other for other in range(len(cells)) if other != named])
        what = _words(rows[0][at]) if has_header and at < len(rows[0]) else "number"
        pairs.append(QuestionAnswer(f"What is the {what} of {cells[named]}?", cells[at]))
    return pairs


def _words(name: str) -> str:
    """The words that an identifier is made of: snake case and camel case."""
    return " ".join(re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_\W]+", " ", name).lower().split()) or name


def _keywords(sentence: str) -> str:
    words = [word for word in re.findall(r"[A-Za-z][\w-]{3,}", sentence) if word[0].islower()]
    longest = sorted(dict.fromkeys(words), key=lambda word: (-len(word), word))[:3]
    in_order = [word for word in dict.fromkeys(words) if word in longest]
    return ", ".join(in_order) or sentence.rstrip(".!?")
