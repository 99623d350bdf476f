"""The table of attacks, and of odd answers that are right: what each is to score, and what it does score.

Run: python -m tests.grading.attacks [--environment root|user|neither|container]
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from sweet_rl.grading.code import CodeGrader
from sweet_rl.grading.sandbox import Job, Program, Sandbox
from sweet_rl.types import Score, Task, Trajectory
from tests.conftest import ROOT
from tests.grading.environments import ENVIRONMENTS, enter, why_not
from tests.grading.hostile_case import (
    CHANNELS,
    DOUBLE,
    OPEN_WITHOUT_MOUNTS,
    Case,
    Channel,
    read_cases,
    read_pairs,
)

SECRET = "sesame-" + "opens-nothing"
GOOD = Case("good", DOUBLE, 1.0)
TWO_WORKERS = partial(Sandbox, workers=2, timeout_s=0.6)


def loads_packages(case: Case) -> bool:
    return any(package in case.reference + case.answer for package in ("numpy", "pandas"))


ODD_CHARACTERS = {  # and what is too long for a file
    "odd texts": [
        Case("null byte", "def level(x):\n    return 2 * x\n# \0\n", 0.0, "error"),
        Case("lone surrogate in the code", "def level(x):\n    return 2 * x  # \ud800\n", 0.0, "error"),
        Case("byte order mark", "\ufeffdef level(x):\n    return 2 * x\n", 0.0, "error"),
        Case("tabs and blanks", "def level(x):\n\tif x:\n        return 2 * x\n", 0.0, "error"),
        Case("nothing", "", 0.0, "error"),
        Case("blanks", "   \n\t\n", 0.0, "error"),
        Case("prose", "I would return twice the value.", 0.0, "error"),
        Case("fence around nothing", "```python\n```", 0.0, "error"),
        Case("deeply nested brackets", "level = " + "(" * 5000 + ")" * 5000, 0.0, "error"),
        Case("a long text", "def level(x):\n    '''" + "x" * 10**6 + "'''\n    return 2 * x\n", 1.0),
        Case("Windows line ends", DOUBLE.replace("\n", "\r\n"), 1.0),
    ]
}  # fmt: skip
NAMES = read_pairs("names.txt")
_WRITTEN = read_cases("attacks.txt") | read_cases("legal_answers.txt")
TABLE: dict[str, Sequence[Case]] = {
    **{name: [*ODD_CHARACTERS.get(name, ()), *cases] for name, cases in _WRITTEN.items()},
    # those that load numpy or pandas take longer than answers get here: test_named_things.py has them all
    **{
        name: [case for case in cases if not loads_packages(case)]
        for name, cases in NAMES.items()
        if name not in {"more: data", "more: objects", "more: callables", "more: disguises", "more: last"}
    },
}
if os.uname().machine != "x86_64":
    TABLE["raw system calls"] = []  # by their numbers there
NEEDS_MOUNTS, TELL = "legal: files", "tell another answer"
CASES = [case for cases in TABLE.values() for case in cases]


class Row(NamedTuple):
    """One line of the table; `after` is the score of an honest answer graded next."""

    category: str
    case: Case
    way: str
    expected: float | None
    score: Score
    after: float | None

    def is_right(self) -> bool:
        outcome = self.case.outcome if self.way == "fixed" else None
        return self.score.value == self.expected and outcome in {
            None,
            self.score.tests[0].outcome if self.score.tests else None,
        }


class Playground:
    """Where the attacks go: a sandbox, and what they must not reach."""

    def __init__(
        self, folder: Path, make: Callable[[], Sandbox] = TWO_WORKERS, grader: type[CodeGrader] = CodeGrader
    ) -> None:
        os.environ["SWEET_RL_CANARY"] = SECRET
        self.file = folder / "secret.txt"
        self.file.write_text(SECRET)
        folder.chmod(0o755)
        self.file.chmod(0o666)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.sandbox = make()
        self.grader = grader

    def grade(self, *cases: Case, way: Literal["fixed", "published"] = "fixed") -> list[Score]:
        grader = self.grader(self.sandbox, grading=way)
        return list(grader.grade([self.trajectory(case) for case in cases]))

    def rows(self, cases: Sequence[Case], way: Literal["fixed", "published"] = "fixed") -> Iterator[Row]:
        """Each case between two honest answers, all in one stream through one worker."""
        where = {case.name: category for category, some in TABLE.items() for case in some}
        scores = self.grade(*(one for case in cases for one in (case, GOOD)), way=way)
        for case, score, after in zip(cases, scores[::2], scores[1::2], strict=True):
            expected = case.score if way == "fixed" else case.published
            yield Row(where[case.name], case, way, expected, score, after.value)

    def trajectory(self, case: Case) -> Trajectory:
        answer = case.answer
        for word, meaning in {
            "@FILE@": self.file,
            "@SECRET@": SECRET,
            "@PORT@": self.listener.getsockname()[1],
            "@PROJECT@": ROOT,
        }.items():
            answer = answer.replace(word, str(meaning))
        tests = {f"test{index}": test for index, test in enumerate(case.tests)}
        task = Task(case.name, case.description, case.reference, case.reference, tests, {})
        return Trajectory(task, (), answer)

    def offers(self, category: str) -> bool:
        """Whether answers of this category have what they need: files have a place only beside other mounts."""
        return category != NEEDS_MOUNTS or "mount" in self.sandbox.layers

    def connections(self) -> int:
        try:
            self.listener.accept()
        except BlockingIOError:
            return 0
        return 1

    def close(self) -> None:
        self.sandbox.close()
        self.listener.close()
        os.environ.pop("SWEET_RL_CANARY", None)


def whole_table(ground: Playground, only: Sequence[str] = tuple(TABLE)) -> list[Row]:
    """All rows of these categories that can be here, the published ones last."""
    here = [case for category in only if ground.offers(category) for case in TABLE[category]]
    published = [case for case in here if case.published is not None]
    return [*ground.rows(here), *ground.rows(published, "published")]


def sizes(*, mounts: bool) -> dict[str, int]:
    """How many rows there are in each category, where namespaces are offered (`mounts`) or not."""
    found = {
        category: len(cases) + sum(case.published is not None for case in cases)
        for category, cases in TABLE.items()
        if mounts or category != NEEDS_MOUNTS
    }
    return found | {TELL: len(CHANNELS) - (0 if mounts else len(OPEN_WITHOUT_MOUNTS))}


def seen_through(channel: Channel, sandbox: Sandbox) -> list[str]:
    """What the second answer sees where the first one tells it 0, and where it tells it 1."""
    seen = []
    for bit in (0, 1):
        sources = channel.writer(bit), channel.reader()
        _, (value,) = sandbox.run(Job("fixed", [Program(source, ["f()"])]) for source in sources)
        seen.append(value.text)
    return seen


def leaks_at(*, at_once: bool) -> tuple[list[str], list[tuple[str, str, str]]]:
    """The channels of one kind that can be here, by name; those that are open, with what is seen."""
    with Sandbox(workers=1 + at_once, timeout_s=1 + at_once) as sandbox:
        mounts = "mount" in sandbox.layers
        ways = [
            way
            for way in CHANNELS
            if way.at_once == at_once and (mounts or way.name not in OPEN_WITHOUT_MOUNTS)
        ]
        seen = [(way.name, *seen_through(way, sandbox)) for way in ways]
    return [way.name for way in ways], [each for each in seen if each[1] != each[2]]


def main() -> int:
    """Print each row that is not as it should be, and the number of rows by category."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environment", choices=ENVIRONMENTS, help="become such a process first")
    parser.add_argument("--only", nargs="*", choices=TABLE, default=list(TABLE), help="these categories")
    environment, only = parser.parse_args().environment, parser.parse_args().only
    if environment is not None:
        if reason := why_not(environment):
            parser.error(reason)
        enter(environment)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as others:
        looks = others.submit(leaks_at, at_once=False), others.submit(leaks_at, at_once=True)
        ground = Playground(Path(folder))
        rows = whole_table(ground, only)
        print(f"{ground.sandbox.protection}\n\n{'':<24}{'rows':>6}{'as expected':>13}{'after it 1.0':>14}")
        ground.close()
        (some_ways, some_leaks), (more_ways, more_leaks) = (look.result() for look in looks)
        ways, leaks = some_ways + more_ways, some_leaks + more_leaks
    for category in only:
        some = [row for row in rows if row.category == category]
        right, alive = (sum(row.is_right() for row in some), sum(row.after == 1 for row in some))
        print(f"{category:<24}{len(some):>6}{right:>13}{alive:>14}")
    print(f"{TELL:<24}{len(ways):>6}{len(ways) - len(leaks):>13}")
    print(f"{'all':<24}{len(rows) + len(ways):>6}, in {time.monotonic() - started:.0f} s")
    wrong = [row for row in rows if not row.is_right() or row.after != 1]
    for row in wrong:
        print(f"\n{row.category}: {row.case.name} ({row.way}): expected {row.expected}, found {row.score}")
    for name, *seen in leaks:
        print(f"\n{TELL}: {name}: {seen}")
    return 1 if wrong or leaks else 0


if __name__ == "__main__":
    sys.exit(main())
