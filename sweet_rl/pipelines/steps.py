"""A step of a pipeline: a stage with its arguments, under a name."""

from __future__ import annotations

import importlib
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Final

from sweet_rl import tracking
from sweet_rl.cli.main import load
from sweet_rl.cli.parse import stage_flags
from sweet_rl.cli.stage import recorded, settings_of
from sweet_rl.errors import UsageError
from sweet_rl.openai_client import shown
from sweet_rl.records import replace_file
from sweet_rl.runs import new_file
from sweet_rl.training.checkpoints import complete_checkpoints
from sweet_rl.types import Json

_CONTINUING: Final = ({"to_continue": True}, {"load_checkpoint": True, "overwrite": True})
"""Flags with which a stage resumes what it left; the first that it has count."""

COPY: Final = "sweet_rl.pipelines.steps:copy"
PLAIN: Final = re.compile(r"(?<![\w./-])[./-]*+\w[\w./-]*+")
"""A path that can be told from what stands around it; the current folder cannot."""


@dataclass(frozen=True, slots=True)
class Step:
    """One stage with its arguments."""

    name: str  # in its pipeline; what it made is found by it again
    run: str  # a command, or `module:FUNCTION` for a step that is none
    words: tuple[Any, ...] = ()  # what has no name on a command line
    flags: Mapping[str, Any] = field(default_factory=dict)  # that are given, by name
    needs: tuple[str, ...] = ()  # names of steps that come before, because it uses what they leave
    launcher: tuple[str, ...] = ()  # words that begin a stage of several processes; none: it runs in one
    after: tuple[str, ...] = ()  # steps that come before, whatever they leave; it runs again for none of them

    @property
    def command(self) -> str:
        """The line that does the same by hand."""
        program = ["sweet-rl"] if ":" not in self.run else []
        return shown(shlex.join([*self.launcher, *program, *self.arguments]))

    @property
    def arguments(self) -> list[str]:
        """The stage and its arguments as words of a command line."""
        words = [*self.run.split(), *map(str, self.words)]
        for name, value in self.flags.items():
            words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
        return words

    @property
    def settings(self) -> dict[str, Json]:
        """Every flag with its value, defaults and those of its world included, as the record of its run has them."""
        return settings_of(function_of(self.run), self.words, self._called)

    @property
    def _called(self) -> dict[str, Any]:
        return {name: str(value) if isinstance(value, Path) else value for name, value in self.flags.items()}

    def resumed(self, made: Sequence[Path]) -> Step | None:
        """The step that resumes this one; None for one that starts again."""
        function = function_of(self.run)
        if getattr(function, "__resumes__", False):
            return self
        has = {one.name for one in stage_flags(function)}
        ways: list[Mapping[str, Any]] = [more for more in _CONTINUING if has.issuperset(more)]
        if "resume" in has:  # a flag that names the folder of the run to resume
            ways += [{"resume": str(place)} for place in made if complete_checkpoints(place)]
        return replace(self, flags={**self.flags, **ways[0]}) if ways else None

    def __call__(self) -> None:
        """Run it in this process."""
        function_of(self.run)(*self.words, **self._called)


def function_of(run: str) -> Callable[..., None]:
    """The stage of a name; one that keeps no record of itself is made to."""
    module, colon, name = run.partition(":")
    if not colon:
        return load(run)
    try:
        function: Callable[..., None] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"There is no function {run!r}: {error}.") from error
    return function if hasattr(function, "__recorded__") else recorded(run)(function)


def in_rounds(rounds: Sequence[Sequence[Sequence[Step]]], folder: Path | None = None) -> list[Step]:
    """Steps of chains: in a chain they follow each other, and a round waits for the ones before it.

    What a step uses of an earlier round are files that it names, which are compared by digest. So chains that
    join a round, as those of more seeds do, let nothing run again. Where all of them write in one `folder`, a step waits
    only for those of earlier rounds that made what it names: for all that name it in the first round that does. A folder
    whose path has other signs than letters, digits, / . _ and - is as none.
    """
    told = folder is not None and PLAIN.fullmatch(str(folder))
    made: list[tuple[str, str]] = []  # what steps of earlier rounds were the first to name, and which
    steps: list[Step] = []
    last: tuple[str, ...] = ()
    for chains in rounds:
        new: list[tuple[str, str]] = []
        for chain in chains:
            needs: tuple[str, ...] = ()
            for step in chain:
                after = last
                if told:  # files and folders there that it names, also within a word: `critic_lm=FOLDER/start/policy`
                    words = map(str, (*step.words, *step.flags.values()))
                    paths = {f"{Path(one)}/" for word in words for one in PLAIN.findall(word)}
                    inside = [
                        path for path in paths if path.startswith(f"{folder}/") and path != f"{folder}/"
                    ]
                    makers = {path: set[str]() for path in inside}
                    for (place, name), path in product(made, inside):
                        if place.startswith(path) or path.startswith(place):
                            makers[path].add(name)
                    ahead = set[str]().union(*makers.values())
                    after = tuple(name for name in dict.fromkeys(name for _, name in made) if name in ahead)
                    new += [(path, step.name) for path, names in makers.items() if not names]
                steps.append(replace(step, needs=needs, after=after))
                needs = (step.name,)
        made += new
        last = tuple(chain[-1].name for chain in chains if chain)
    return steps


@recorded("copy", reads=("input_path",))
def copy(input_path: str, output_path: str) -> None:
    """Copy a file, at once or not at all."""
    source = Path(input_path)
    if not source.is_file():
        raise UsageError(f"There is no file {input_path!r} to copy.")
    new_file(output_path, "output_path", overwrite=False)
    tracking.writes(output_path)
    with source.open("rb") as file:
        replace_file(output_path, iter(lambda: file.read(1 << 20), b""))
    print(f"{output_path} is a copy of {input_path}")
