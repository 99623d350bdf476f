"""A pipeline's tree becomes steps, every flag of every stage checked before anything runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sweet_rl import command_line
from sweet_rl.command_line import stage_flags
from sweet_rl.command_line.reading import joined_flags
from sweet_rl.commands.catalogue import COMMANDS, stages, values_of
from sweet_rl.errors import SweetRLError, UsageError, suggestion
from sweet_rl.pipelines.reading import Node, Scope
from sweet_rl.pipelines.steps import Step, function_of

_KEYS: Final = (
    *("description", "extends", "folder", "values", "defaults", "launchers", "stages", "iterations", "next"),
)
_STAGE_KEYS: Final = ("run", "with", "args", "needs", "launcher", "once")
_NAME: Final = re.compile(r"[A-Za-z0-9][\w-]*")
_OURS: Final = {"copy": "sweet_rl.pipelines.steps:copy"}
"""Steps that are no commands."""

_NO_STEPS: Final = frozenset({"run", "demo", "demo_archer", "demo_reflect", "preflight", "play"})


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What a file describes: a folder, and steps in an order in which they can be run."""

    folder: Path
    steps: tuple[Step, ...]

    def chosen(self, *, only: Iterable[str] = (), until: Iterable[str] = ()) -> tuple[Step, ...]:
        """Some of the steps.

        Args:
            only: names; in rounds a name stands for the step of every round.
            until: names of steps that are run with all that they need.
        """
        if names := self._named(only):
            return tuple(step for step in self.steps if step.name in names)
        wanted = self._named(until)
        for step in reversed(self.steps):
            if step.name in wanted:
                wanted |= set(step.needs)
        return tuple(step for step in self.steps if step.name in wanted) if wanted else self.steps

    def _named(self, names: Iterable[str]) -> set[str]:
        found: set[str] = set()
        for name in names:
            fits = {step.name for step in self.steps if name in {step.name, step.name.rpartition("/")[2]}}
            if not fits:
                known = [step.name for step in self.steps]
                raise UsageError(
                    f"There is no stage {name!r}{suggestion(name, known)}. Known: {', '.join(known)}."
                )
            found |= fits
        return found


def build(tree: Node) -> Pipeline:
    """The steps of a pipeline, checked."""
    tree.only(_KEYS, "a pipeline")
    top = tree.mapping
    for key in ("folder", "stages"):
        if key not in top or top[key].value is None:
            raise tree.error(f"a pipeline needs {key!r}")
    for name, stage in top["stages"].mapping.items():
        if not _NAME.fullmatch(name) or name in {"values", "folder", "round"}:
            raise stage.error(
                f"a stage cannot be called {name!r}: letters, digits, - and _, and no word of our own"
            )
        if stage.value is not None:
            stage.only(_STAGE_KEYS, f"the stage {name!r}")
    steps: list[Step] = []
    scope: Scope | None = None
    for number in range(1, _iterations(top) + 1):
        scope = Scope(tree, number, scope)
        steps += _ordered({name: _step(scope, name) for name in scope.stages})
    folder = Path(Scope(tree, 1, None).folder)
    return Pipeline(folder, tuple(steps))


def _iterations(top: Mapping[str, Node]) -> int:
    node = top.get("iterations")
    if node is None or node.value is None:
        return 1
    if not node.text.isdigit() or int(node.text) < 1:
        raise node.error(f"iterations must be a whole number of at least 1, got {node.text!r}")
    if int(node.text) > 1 and (top.get("next") is None or not top["next"].mapping):
        raise node.error(
            "more than one iteration needs `next`: the values that a round takes from the one before it, "
            "for example model: ${policy.save_path}"
        )
    return int(node.text)


def _step(scope: Scope, name: str) -> Step:
    """One stage of a round, its flags read as its command line reads them."""
    stage = scope.stages[name]
    run = _OURS.get(scope.run_of(name), scope.run_of(name))
    function = _function(run, stage)
    flags = stage_flags(function)
    known = {each: one.name for one in flags for each in one.names}
    nodes = {known.get(flag, flag): node for flag, node in scope.flags_of(name).items()}
    many = next((one.name for one in flags if one.many), None)
    needs: set[str] = set()
    listed_words, texts = list[str](), dict[str, str]()
    for flag, node in nodes.items():
        if flag == many:
            listed = node.value if isinstance(node.value, list) else [node]
            listed_words += [scope.text(one, needs) or "" for one in listed]
        elif (text := scope.text(node, needs)) is not None:
            texts[flag] = text
    if {"save_path", "ckpt_path"} <= {one.name for one in flags} and "save_path" in texts:
        texts.setdefault("ckpt_path", f"{texts['save_path']}.checkpoints")
    arguments = [
        *(f"--{flag}={text}" for flag, text in texts.items()),
        *listed_words,
        *scope.args(name, needs),
    ]
    try:
        rewrite = getattr(function, "rewrite_arguments", None)  # of a stage with the flags of another parser
        typed = command_line.read(function, arguments if rewrite is None else rewrite(arguments))
        values = values_of(function, typed)
        _check(function, values)
    except SweetRLError as error:
        raise _placed(error, name, run, stage, nodes) from None
    launcher = scope.launcher(name, needs)
    needs |= scope.said_needs(name)
    words, values = command_line.in_front(function, typed.words, values)
    return Step(scope.full(name), run, words, values, tuple(sorted(needs)), launcher)


def _function(run: str, stage: Node) -> Callable[..., None]:
    place = stage.mapping["run"]
    if run in _NO_STEPS or (":" not in run and run not in COMMANDS and run not in stages()):
        known = [one for one in (*stages(), *_OURS) if one not in _NO_STEPS]
        raise place.error(
            f"there is no stage {run!r} to run{suggestion(run, known)}. `sweet-rl --help` lists them; a "
            "function of your own is written module:FUNCTION"
        )
    try:
        return function_of(run)
    except UsageError as error:
        raise UsageError(f"{place.place}: {error}") from None


def _check(function: Callable[..., Any], values: Mapping[str, Any]) -> None:
    """Ranges and choices of single flags, then what the settings say together."""
    flags = {one.name: one for one in (*stage_flags(function), *joined_flags(function, values))}
    for name, value in values.items():
        flags[name].check(value)
    if settings := getattr(function, "build", None):
        settings(**values)


def _placed(error: SweetRLError, name: str, run: str, stage: Node, nodes: Mapping[str, Node]) -> UsageError:
    """The error with the line of the flag that it is about, or else of the stage."""
    about = (nodes[flag] for flag in re.findall(r"--(\w+)", str(error)) if flag in nodes)
    place = next(about, stage).place
    return UsageError(f"{place}: stage {name} ({run}): {error}")


def _ordered(steps: Mapping[str, Step]) -> Iterator[Step]:
    """As they stand in the file, but each behind those that it needs."""
    left = {step.name: step for step in steps.values()}
    while left:
        ready = next((step for step in left.values() if left.keys().isdisjoint(step.needs)), None)
        if ready is None:
            raise UsageError(f"These stages need each other: {', '.join(left)}.")
        yield left.pop(ready.name)
