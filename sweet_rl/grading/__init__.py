"""Trajectories to scores; it knows nothing of rollouts, so that old runs can be graded again.

Begin with `code.py`: an answer's text, the code in it, its hidden tests, a score. `hidden_tests.py` plans what is
called and compared, `sandbox/` runs it, `pages/` grades web pages, `report.py` is the table.

Also here: from an answer's text to the code in it, by the published word filter and fences, or leniently, which shows
how much of a score is a matter of format. The lenient reading only ever looks for a definition of the function that
the tests call; what it reads runs as any answer does. `GRADERS` are those of other packages, for any world.

Published behaviour: docs/published/sweet_rl.md#grading-code.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping

from sweet_rl.plugins import Registry
from sweet_rl.types import ANSWER_MARKER, Json, Score, Trajectory, is_answer

GRADERS = Registry("sweet_rl.graders", "grader", parts=("grade",))
"""An object, or a class or factory that takes nothing or the world."""


def fields_by(grader: str, score: Score, row: Mapping[str, Json]) -> dict[str, Json]:
    """The fields that a grader gives a row; its reward before the first grading stays among the grades."""
    grades = dict(row.get("grades") or {})
    if not grades and row.get("reward") is not None:
        grades["as played"] = row["reward"]
    details = dict(score.details) | ({f"{grader}_note": score.note} if score.note else {})
    return {
        "reward": score.value,
        "grades": grades | {grader: score.value},
        "grading_details": dict(row.get("grading_details") or {}) | details,
    }


FORBIDDEN = tuple("import os,from os,import sys,from sys,sudo,transformers,exit(,quit(,argparse".split(","))
"""Plain substrings that set an answer to 0, in prose and comments too; the published list."""

_FENCED_BLOCK = re.compile(r"^[ \t]*(```|~~~)[^\n`]*\n(.*?)(?:^[ \t]*\1|\Z)", re.DOTALL | re.MULTILINE)
_FENCE_LINE = re.compile(r"^[ \t]*(?:```|~~~).*$", re.MULTILINE)
_CODE_LINE = re.compile(
    r"\s|$|[@#\])}\"']|(?:async +)?def |(?:class|import|from|assert|del|raise|global) "
    r"|(?:if|for|while|with|else|try|finally|except|elif)\b(?:.*:\s*$|.*?:\s*#)"
    r"|[\w.\[\]'\"]++(?:, *[\w.\[\]'\"]++)*+ *(?::[^=]++|[-+*/|&%]*+)=|[\w.]++\("
)
"""How a line of code looks; prose seldom does."""

_LOOKED_AT = 200_000
"""Characters of an answer that are read leniently; a longer one is read by the published rules alone."""


def forbidden_word(answer: str) -> str | None:
    """The first word of the published filter that the raw answer contains."""
    return next((word for word in FORBIDDEN if word in answer), None)


def published_code(answer: str) -> str:
    """What the published rules take for the code: the first python fence, else the first fence, else all."""
    if "```python" in answer:
        answer = answer.split("```python")[1].split("```", 1)[0]
    if "```" in answer:
        answer = answer.split("```")[1]
    return answer


def lenient_code(trajectory: Trajectory, name: str) -> str | None:
    """What a person would take for the code that defines `name`; None where there is none to be seen.

    The last fenced block with any tag that defines it, else the lines of the text that look like code around
    such a definition; in the answer, else in what its last turn says before the answer is announced.
    """
    answer, turn = trajectory.answer, trajectory.last_turn
    if not is_answer(answer):
        return None
    texts = [answer] if turn is None else [answer, turn.content.split(ANSWER_MARKER)[0]]
    texts = [text.replace("\r\n", "\n").replace("\u00a0", " ").lstrip("\ufeff") for text in texts]
    definition = re.compile(
        rf"^[ \t]*(?:(?:async +)?def|class) +{re.escape(name)}\b|^[ \t]*{re.escape(name)} *=", re.MULTILINE
    )
    for text in texts:
        if len(text) > _LOOKED_AT:
            continue
        blocks = [block for _, block in _FENCED_BLOCK.findall(text) if definition.search(block)]
        if blocks:
            return _aligned(blocks[-1])
        if definition.search(text):
            lines = _aligned(_FENCE_LINE.sub("", text)).split("\n")
            return "\n".join(filter(_CODE_LINE.match, lines))  # without the prose around them
    return None


def _aligned(code: str) -> str:
    """Code at the left margin; also where only the first line, beside the marker, is shifted."""
    code = textwrap.dedent(code.strip("\n"))
    return code.lstrip(" \t") if code[:1] in {" ", "\t"} else code
