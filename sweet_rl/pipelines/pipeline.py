"""Files of pipelines: their trees, laid over each other, what `${...}` stands for in them, and the steps they describe.

Every flag of every stage is checked before anything runs; an error names file, line, stage and flag.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sweet_rl.cli import parse
from sweet_rl.cli.main import COMMANDS, stages
from sweet_rl.cli.parse import joined_flags, stage_flags, values_of
from sweet_rl.errors import SweetRLError, UsageError, missing_package, suggestion
from sweet_rl.pipelines.steps import Step, function_of
from sweet_rl.records import check_yaml

_KEYS: Final = (
    *("description", "extends", "folder", "values", "defaults", "launchers", "stages", "iterations", "next"),
)
_STAGE_KEYS: Final = ("run", "with", "args", "needs", "launcher", "once")
_NAME: Final = re.compile(r"[A-Za-z0-9][\w-]*")
_REFERENCE: Final = re.compile(r"\$\{([^{}]*)\}")
_OURS: Final = {"copy": "sweet_rl.pipelines.steps:copy"}  # steps that are no commands
_NO_STEPS: Final = frozenset({"run", "demo", "demo_archer", "demo_reflect", "preflight", "play"})


@dataclass(slots=True)
class Node:
    """A value, and where it was given: file and line, or the override."""

    value: str | dict[str, Node] | list[Node] | None
    place: str

    @property
    def mapping(self) -> dict[str, Node]:
        """Its entries."""
        if self.value is None:
            return {}
        if not isinstance(self.value, dict):
            raise self.error(f"must be a mapping (`name: value` lines), got {self._shown}")
        return self.value

    @property
    def text(self) -> str:
        """Its text."""
        if not isinstance(self.value, str):
            raise self.error(f"must be a text or a number, got {self._shown}")
        return self.value

    def error(self, problem: str) -> UsageError:
        """The error for this place, with file and line."""
        return UsageError(f"{self.place}: {problem}.")

    def only(self, known: Sequence[str], what: str) -> None:
        """Refuse unknown keys."""
        for name, one in self.mapping.items():
            if name not in known:
                raise one.error(
                    f"{what} has no {name!r}{suggestion(name, known)}. It may have: {', '.join(known)}"
                )

    @property
    def _shown(self) -> str:
        if isinstance(self.value, dict | list):
            return "a mapping" if isinstance(self.value, dict) else "a list"
        return "nothing" if self.value is None else repr(self.value)


def read_file(path: str | Path, above: tuple[Path, ...] = ()) -> Node:
    """A file laid over those that it extends, which are looked for beside the file that names them."""
    place = Path(path).expanduser()
    if place.resolve() in above:
        raise UsageError(f"{place} extends itself, by way of {above[-1]}.")
    tree = _parse(place)
    base = tree.mapping.pop("extends", None)
    if base is None:
        return tree
    below = Node({}, str(place))
    for one in base.value if isinstance(base.value, list) else [base]:
        named = place.parent / one.text
        if not named.is_file():
            near = suggestion(named.name, [file.name for file in named.parent.glob("*.yaml")])
            raise one.error(f"extends {one.text!r}, and there is no file {str(named)!r}{near}")
        below = laid_over(below, read_file(named, (*above, place.resolve())))
    return laid_over(below, tree)


def laid_over(base: Node, over: Node) -> Node:
    """Mappings are merged entry by entry; any other value of `over` replaces the old one.

    A stage that runs another command is another stage: nothing of the old one stays.
    """
    if not isinstance(base.value, dict) or not isinstance(over.value, dict):
        return over
    runs = (base.value.get("run"), over.value.get("run"))
    if runs[0] is not None and runs[1] is not None and runs[0].value != runs[1].value:
        return over
    merged = dict(base.value)
    for name, one in over.value.items():
        merged[name] = laid_over(merged[name], one) if name in merged else one
    return Node(merged, over.place)


def override(tree: Node, setting: str) -> None:
    """Set one value: `values.x=3`, `folder=outputs/run2`, `stages.critic.with.beta=0.3`."""
    path, equals, text = setting.partition("=")
    *way, last = path.strip().split(".")
    if not equals or not last:
        raise UsageError(f"--set {setting!r}: write NAME=VALUE, for example --set values.model=/models/mine.")
    place = f"--set {setting}"
    node = tree
    for depth, name in enumerate(way):
        known = node.mapping
        if name not in known and way[:1] == ["stages"] and depth == 1:
            raise UsageError(f"{place}: there is no stage {name!r}{suggestion(name, known)}.")
        node = known.setdefault(name, Node({}, place))
        if node.value is None:
            node.value = {}
    if way == ["values"] and last not in node.mapping:
        names = ", ".join(node.mapping) or "none"
        raise UsageError(
            f"{place}: there is no value {last!r}{suggestion(last, node.mapping)}. Known: {names}."
        )
    node.mapping[last] = Node(None if text == "null" else text, place)


def _parse(path: Path) -> Node:
    try:
        import yaml
    except ImportError:
        raise missing_package("pyyaml", "pipelines", needed_for="A pipeline's file") from None
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no text in UTF-8 (byte {error.start}).") from error
    try:
        check_yaml(text, path)
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error)
        raise UsageError(f"{path}{line}: this is no YAML: {problem}.") from error
    if tree is None:
        raise UsageError(f"{path} is empty.")
    return _node(tree, path)


def _node(read: Any, path: Path, line: int | None = None) -> Node:
    place = f"{path}, line {read.start_mark.line + 1 if line is None else line}"
    if read.id == "scalar":
        return Node(None if read.tag == "tag:yaml.org,2002:null" else str(read.value), place)
    if read.id == "sequence":
        return Node([_node(one, path) for one in read.value], place)
    entries: dict[str, Node] = {}
    lines: dict[str, int] = {}
    for key, value in read.value:
        name, at = str(key.value), key.start_mark.line + 1
        if name in lines:
            raise UsageError(f"{path}, line {at}: {name!r} is already in line {lines[name]}.")
        lines[name], entries[name] = at, _node(value, path, at)
    return Node(entries, place)


class Scope:
    """The names of one round."""

    def __init__(self, tree: Node, number: int, before: Scope | None) -> None:
        self._tree, self._number, self._before = tree.mapping, number, before
        self._values = dict(self._part("values"))
        self._next = self._part("next") if before is not None else {}
        for name, node in self._part("next").items():
            if name not in self._values:
                raise node.error(
                    f"there is no value {name!r}{suggestion(name, self._values)} for the next round"
                )
        self._open: list[str] = []
        self._every = {name: node for name, node in self._part("stages").items() if node.value is not None}
        self.stages = {name: one for name, one in self._every.items() if number == 1 or not _once(one)}
        for part in ("defaults", "launchers"):
            for run, node in self._part(part).items():
                if ":" not in run and run not in COMMANDS and run not in stages():
                    raise node.error(f"there is no stage {run!r}{suggestion(run, stages())}")

    @property
    def folder(self) -> str:
        """The folder of the round; the first one has the pipeline's own."""
        whole = self._text(self._tree["folder"], set())
        return whole if self._number == 1 else f"{whole}/round-{self._number}"

    def full(self, name: str) -> str:
        """A stage's name among those of all rounds."""
        if self._number == 1 or _once(self._every[name]):
            return name
        return f"round-{self._number}/{name}"

    def run_of(self, name: str) -> str:
        """The command that a stage runs."""
        stage = self._every[name]
        if "run" not in stage.mapping:
            raise stage.error(f"the stage {name!r} needs `run`: a command, for example train_dpo")
        return " ".join(self._text(stage.mapping["run"], set()).split())

    def flags_of(self, name: str) -> dict[str, Node]:
        """A stage's flags: the defaults of its command, and its own over them."""
        defaults = self._part("defaults").get(self.run_of(name))
        own = self._every[name].mapping.get("with")
        given = {**(defaults.mapping if defaults else {}), **(own.mapping if own else {})}
        return {flag.replace("-", "_"): node for flag, node in given.items()}

    def words(self, name: str, needs: set[str]) -> tuple[list[str], list[str]]:
        """A stage's further flags, as on a command line, and the words that begin it; none for one process."""
        stage = self._every[name].mapping
        found = list[list[str]]()
        for node in (
            stage.get("args"),
            stage.get("launcher", self._part("launchers").get(self.run_of(name))),
        ):
            try:
                found.append(shlex.split((node and self.text(node, needs)) or ""))
            except ValueError as error:
                raise UsageError(f"{node and node.place}: a quote is open ({error}).") from None
        return found[0], found[1]

    def said_needs(self, name: str) -> set[str]:
        """The steps that a stage is declared to need, beside those that its flags name."""
        node = self._every[name].mapping.get("needs")
        if node is None or node.value is None:
            return set()
        listed = node.value if isinstance(node.value, list) else [node]
        return {self._known(one.text, one.place).full(one.text) for one in listed}

    def text(self, node: Node, needs: set[str]) -> str | None:
        """A value with its references replaced; None where it is null, and a text with commas of a list.

        `needs` takes the names of steps that are referred to.
        """
        if isinstance(node.value, list):
            return ",".join(self._text(one, needs) for one in node.value)
        if node.value is None:
            return None
        whole = _REFERENCE.fullmatch(node.text)
        if whole is not None:
            return self._refer(whole[1], node.place, needs)

        def inner(found: re.Match[str]) -> str:
            text = self._refer(found[1], node.place, needs)
            if text is None:
                raise node.error(f"{found[0]} has no value, and is part of a longer text")
            return text

        return _REFERENCE.sub(inner, node.text)

    def _text(self, node: Node, needs: set[str]) -> str:
        text = self.text(node, needs)
        if text is None:
            raise node.error("needs a value")
        return text

    def _refer(self, name: str, place: str, needs: set[str]) -> str | None:
        """What `${name}` stands for."""
        if name in self._open:
            raise UsageError(f"{place}: ${{{name}}} refers to itself ({' -> '.join([*self._open, name])}).")
        first, dot, second = name.strip().partition(".")
        self._open.append(name)
        try:
            if not dot:
                if first not in {"folder", "round"}:
                    raise UsageError(
                        f"{place}: ${{{name}}} is not defined: write ${{values.NAME}}, ${{STAGE.FLAG}} (what that "
                        "flag of another stage is), ${folder} or ${round}."
                    )
                return self.folder if first == "folder" else str(self._number)
            if first != "values":
                owner = self._known(first, place)
                needs.add(owner.full(first))
                flags = owner.flags_of(first)
                if second in flags:
                    return owner.text(flags[second], set())
                raise UsageError(
                    f"{place}: the stage {first!r} is given no {second!r}{suggestion(second, flags)}. "
                    f"It has: {', '.join(flags) or 'none'}."
                )
            if second in self._next and self._before is not None:
                return self._before.text(self._next[second], needs)
            if second in self._values:
                return self.text(self._values[second], needs)
            raise UsageError(
                f"{place}: there is no value {second!r}{suggestion(second, self._values)}. "
                f"Known: {', '.join(self._values) or 'none'}."
            )
        finally:
            self._open.pop()

    def _known(self, name: str, place: str) -> Scope:
        """The round that has this stage."""
        if name in self.stages:
            return self
        if name in self._every and self._before is not None:
            return self._before._known(name, place)
        known = ", ".join(self._every)
        raise UsageError(
            f"{place}: there is no stage {name!r}{suggestion(name, self._every)}. Known: {known}."
        )

    def _part(self, name: str) -> Mapping[str, Node]:
        node = self._tree.get(name)
        return {} if node is None else node.mapping


def _once(stage: Node) -> bool:
    node = stage.mapping.get("once")
    if node is None or node.value is None:
        return False
    if node.text.lower() not in {"true", "false"}:
        raise node.error(f"once must be true or false, got {node.text!r}")
    return node.text.lower() == "true"


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What a file describes: a folder, and steps in an order in which they can be run."""

    folder: Path
    steps: tuple[Step, ...]

    def chosen(self, *, only: Iterable[str] = (), until: Iterable[str] = ()) -> tuple[Step, ...]:
        """Some of the steps: `only` these, or `until` these with all that they need. A name counts in every round."""
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
    rounds = top.get("iterations", Node("1", tree.place))
    if rounds.value is not None:
        if not rounds.text.isdigit() or int(rounds.text) < 1:
            raise rounds.error(f"iterations must be a whole number of at least 1, got {rounds.text!r}")
        if int(rounds.text) > 1 and (top.get("next") is None or not top["next"].mapping):
            raise rounds.error(
                "more than one iteration needs `next`: the values that a round takes from the one before it, "
                "for example model: ${policy.save_path}"
            )
    for number in range(1, int(rounds.text if rounds.value is not None else 1) + 1):
        scope = Scope(tree, number, scope)
        left = {step.name: step for step in (_step(scope, name) for name in scope.stages)}
        while left:  # as they stand in the file, but each behind those that it needs
            ready = next((step for step in left.values() if left.keys().isdisjoint(step.needs)), None)
            if ready is None:
                raise UsageError(f"These stages need each other: {', '.join(left)}.")
            steps.append(left.pop(ready.name))
    folder = Path(Scope(tree, 1, None).folder)
    return Pipeline(folder, tuple(steps))


def _step(scope: Scope, name: str) -> Step:
    """One stage of a round, its flags read as its command line reads them."""
    stage = scope.stages[name]
    run = _OURS.get(scope.run_of(name), scope.run_of(name))
    place = stage.mapping["run"]
    if run in _NO_STEPS or (":" not in run and run not in COMMANDS and run not in stages()):
        choices = [one for one in (*stages(), *_OURS) if one not in _NO_STEPS]
        raise place.error(
            f"there is no stage {run!r} to run{suggestion(run, choices)}. `sweet-rl --help` lists them; a "
            "function of your own is written module:FUNCTION"
        )
    try:
        function = function_of(run)
    except UsageError as error:
        raise UsageError(f"{place.place}: {error}") from None
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
    more, launcher = scope.words(name, needs)
    arguments = [*(f"--{flag}={text}" for flag, text in texts.items()), *listed_words, *more]
    try:
        rewrite = getattr(function, "rewrite_arguments", None)  # of a stage with the flags of another parser
        typed = parse.read(function, arguments if rewrite is None else rewrite(arguments))
        values = values_of(function, typed)
        single = {one.name: one for one in (*flags, *joined_flags(function, values))}
        for flag, value in values.items():
            single[flag].check(value)
        if settings := getattr(function, "build", None):
            settings(**values)
    except SweetRLError as error:  # with the line of the flag that it is about, or else of the stage
        about = (nodes[flag] for flag in re.findall(r"--(\w+)", str(error)) if flag in nodes)
        raise UsageError(f"{next(about, stage).place}: stage {name} ({run}): {error}") from None
    needs |= scope.said_needs(name)
    words, values = parse.in_front(function, typed.words, values)
    return Step(scope.full(name), run, words, values, tuple(sorted(needs)), tuple(launcher))
