"""Questions about the files of a repository, with answers: the request to a teacher, and its reply.

Which files, which part of each, the request, and the reading of the reply. Who
answers is decided in `teachers`; what the embedded teacher says, of `known_questions`.

Published behaviour: docs/published/reflect_rl.md#data-of-autoexplore, #deviations.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from sweet_rl.types import Compat
from sweet_rl.worlds.auto_explore.repositories import RepositoryIndex, is_allowed, kind_of

FILES_PER_REPOSITORY: Final = 100
MAX_LEVEL: Final = 2
"""A file deeper than so many folders gets no question."""
MIN_TOKENS: Final = 50
MAX_TOKENS: Final = 2000
DATA_LINES: Final = 20
"""What is shown of a table."""

_NOT_ASKED_ABOUT: Final = tuple(map(re.compile, (r".*out.*", r".*\.git.*", r".*test.*", r"__init__.py")))
_LABEL_WITHIN: Final = 10
_AFTER_LABEL: Final = "0123456789: "
_NUMBER_AND_COLON: Final = re.compile(r"\s*+\d*+\s*+:")


class QuestionAnswer(NamedTuple):
    """One question with its answer."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that questions are asked about: `path` is relative to the repository, in POSIX form."""

    repository: str
    path: str

    @property
    def levels(self) -> int:
        """Number of folders above the file."""
        return self.path.count("/")

    @property
    def kind(self) -> str:
        """Which request is made: code (also scripts), text or data."""
        kind = kind_of(self.path)
        return kind if kind in {"text", "data"} else "code"


def files_to_ask_about(repository: RepositoryIndex, *, compat: Compat = "fixed") -> list[str]:
    """Relative paths of the files that may get questions, sorted."""
    above = f"{repository.root}/" if compat == "published" and repository.root else ""
    return [
        path
        for path in repository.files()
        if is_allowed(path) and not any(pattern.match(above + path) for pattern in _NOT_ASKED_ABOUT)
    ]


def draw_files(files: Sequence[str], draws: random.Random, *, compat: Compat = "fixed") -> list[str]:
    """At most 100 files to ask about, none deeper than two folders."""
    count = min(FILES_PER_REPOSITORY, len(files))
    drawn = draws.choices(files, k=count) if compat == "published" else draws.sample(list(files), count)
    return [path for path in drawn if path.count("/") <= MAX_LEVEL]


def block_of(
    text: str,
    draws: random.Random,
    count_tokens: Callable[[str], int],
    *,
    max_tokens: int = MAX_TOKENS,
    compat: Compat = "fixed",
) -> str:
    """The part of a file that a teacher is shown; "" of one that is too short for a question.

    A short file is shown whole; of a long one a random run of lines, which never begins so late that fewer
    than `max_tokens` are left.
    """
    if count_tokens(text) < MIN_TOKENS:
        return ""
    lines = text.splitlines(keepends=True)
    if count_tokens(text) > max_tokens:
        lines = _run_of_lines(lines, draws, count_tokens, max_tokens)
    return ("\n" if compat == "published" else "").join(lines)


def _run_of_lines(
    lines: Sequence[str], draws: random.Random, count_tokens: Callable[[str], int], max_tokens: int
) -> list[str]:
    tokens = [count_tokens(line) for line in lines]
    last, left = len(lines), 0
    while last > 0 and left < max_tokens:
        last -= 1
        left += tokens[last]
    start = draws.randint(0, last)
    end, taken = start, 0
    while end < len(lines) and taken + tokens[end] <= max_tokens:
        taken += tokens[end]
        end += 1
    return list(lines[start:end])


def extract_questions(text: str, *, compat: Compat = "fixed") -> list[QuestionAnswer]:
    """The questions and answers of a reply, in its order; a question may have several answers.

    A line counts whose first 10 characters hold QUERY or ANSWER; the number and the colon behind the word
    are skipped. An answer without a question is passed over.
    """
    found = []
    query = ""
    for line in text.splitlines():
        if "QUERY" in line[:_LABEL_WITHIN]:
            query = _behind(line, "QUERY", compat=compat)
        elif "ANSWER" in line[:_LABEL_WITHIN] and query:
            found.append(QuestionAnswer(query, _behind(line, "ANSWER", compat=compat)))
    return found


def _behind(line: str, word: str, *, compat: Compat) -> str:
    rest = line.partition(word)[2]
    number = None if compat == "published" else _NUMBER_AND_COLON.match(rest)
    return (rest[number.end() :] if number else rest.lstrip(_AFTER_LABEL)).strip()
