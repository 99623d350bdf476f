"""Files of pipelines: trees of YAML laid over each other, what `${...}` stands for in them, and the steps they describe.

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
from sweet_rl.pipelines.steps import COPY, Step, function_of
from sweet_rl.records import check_yaml

_OURS: Final = {"copy": COPY}  # steps that are no commands
_NO_STEPS: Final = frozenset({"run", "demo", "demo_archer", "demo_reflect", "preflight", "play"})
_KEYS: Final = "description extends folder values defaults launchers stages iterations next".split()
_STAGE_KEYS: Final = ("run", "with", "args", "needs", "launcher", "once")


@dataclass(slots=True)
class Node:
    """A value, and where it was given: file and line, or the override."""

    value: str | dict[str, Node] | list[Node] | None
    place: str

    @property
    def mapping(self) -> dict[str, Node]:
        """Its entries."""
        if self.value is not None and not isinstance(self.value, dict):
            raise self.error(f"must be a mapping (`name: value` lines), got {self._shown}")
        return {} if self.value is None else self.value

    @property
    def text(self) -> str:
        """Its text."""
        if not isinstance(self.value, str):
            raise self.error(f"must be a text or a number, got {self._shown}")
        return self.value

    @property
    def listed(self) -> list[Node]:
        """Its entries, or itself where it is no list."""
        return self.value if isinstance(self.value, list) else [self]

    @property
    def _shown(self) -> str:
        kinds = {dict: "a mapping", list: "a list", type(None): "nothing"}
        return kinds.get(type(self.value)) or repr(self.value)

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
    for one in base.listed:
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
        check_yaml(text, path)
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no text in UTF-8 (byte {error.start}).") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise UsageError(
            f"{path}{line}: this is no YAML: {getattr(error, 'problem', None) or error}."
        ) from error
    if tree is None:
        raise UsageError(f"{path} is empty.")

    def node(read: Any, line: int) -> Node:
        place = f"{path}, line {line}"
        if read.id == "scalar":
            return Node(None if read.tag == "tag:yaml.org,2002:null" else str(read.value), place)
        if read.id == "sequence":
            return Node([node(one, one.start_mark.line + 1) for one in read.value], place)
        entries: dict[str, Node] = {}
        lines: dict[str, int] = {}
        for key, value in read.value:
            name, at = str(key.value), key.start_mark.line + 1
            if name in lines:
                raise UsageError(f"{path}, line {at}: {name!r} is already in line {lines[name]}.")
            lines[name], entries[name] = at, node(value, at)
        return Node(entries, place)

    return node(tree, tree.start_mark.line + 1)


class _Round:
    """The names of one round, and the steps that its stages are."""

    def __init__(self, tree: Node, number: int, before: _Round | None) -> None:
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
        self.stages = [name for name in self._every if number == 1 or not self._once(name)]
        for part in ("defaults", "launchers"):
            for run, node in self._part(part).items():
                if ":" not in run and run not in COMMANDS and run not in stages():
                    raise node.error(f"there is no stage {run!r}{suggestion(run, stages())}")

    @property
    def folder(self) -> str:
        """The folder of the round; the first one has the pipeline's own."""
        whole = self._text(self._tree["folder"], set())
        return whole if self._number == 1 else f"{whole}/round-{self._number}"

    def step(self, name: str) -> Step:
        """One stage of the round, its flags read as its command line reads them."""
        stage, run = self._every[name], self._run_of(name)
        place, needs = stage.mapping["run"], set[str]()
        run = _OURS.get(run, run)
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
        nodes = {known.get(flag, flag): node for flag, node in self._flags_of(name).items()}
        many = next((one.name for one in flags if one.many), None)
        words, texts = list[str](), dict[str, str]()
        for flag, node in nodes.items():
            if flag == many:
                words += [self._value(one, needs) or "" for one in node.listed]
            elif (text := self._value(node, needs)) is not None:
                texts[flag] = text
        if {"save_path", "ckpt_path"} <= {one.name for one in flags} and "save_path" in texts:
            texts.setdefault("ckpt_path", f"{texts['save_path']}.checkpoints")
        split = list[list[str]]()  # further flags, as on a command line, and the words that begin it
        launcher = stage.mapping.get("launcher", self._part("launchers").get(self._run_of(name)))
        for more in (stage.mapping.get("args"), launcher):
            try:
                split.append(shlex.split((more and self._value(more, needs)) or ""))
            except ValueError as error:
                raise UsageError(f"{more and more.place}: a quote is open ({error}).") from None
        arguments = [*(f"--{flag}={text}" for flag, text in texts.items()), *words, *split[0]]
        try:
            rewrite = getattr(function, "rewrite_arguments", None)  # of a stage with another parser's flags
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
        said = stage.mapping.get("needs")
        for one in said.listed if said is not None and said.value is not None else ():
            needs.add(self._owner(one.text, one.place)._full(one.text))
        front, values = parse.in_front(function, typed.words, values)
        return Step(self._full(name), run, front, values, tuple(sorted(needs)), tuple(split[1]))

    def _part(self, name: str) -> Mapping[str, Node]:
        return self._tree[name].mapping if name in self._tree else {}

    def _once(self, name: str) -> bool:
        node = self._every[name].mapping.get("once")
        if node is not None and node.value is not None and node.text.lower() not in {"true", "false"}:
            raise node.error(f"once must be true or false, got {node.text!r}")
        return node is not None and node.value is not None and node.text.lower() == "true"

    def _full(self, name: str) -> str:
        """A stage's name among those of all rounds."""
        return name if self._number == 1 or self._once(name) else f"round-{self._number}/{name}"

    def _run_of(self, name: str) -> str:
        stage = self._every[name]
        if "run" not in stage.mapping:
            raise stage.error(f"the stage {name!r} needs `run`: a command, for example train_dpo")
        return " ".join(self._text(stage.mapping["run"], set()).split())

    def _flags_of(self, name: str) -> dict[str, Node]:
        """A stage's flags: the defaults of its command, and its own over them."""
        parts = (self._part("defaults").get(self._run_of(name)), self._every[name].mapping.get("with"))
        return {flag.replace("-", "_"): node for part in parts if part for flag, node in part.mapping.items()}

    def _owner(self, name: str, place: str) -> _Round:
        """The round that has this stage."""
        if name in self.stages:
            return self
        if name in self._every and self._before is not None:
            return self._before._owner(name, place)
        known = ", ".join(self._every)
        raise UsageError(
            f"{place}: there is no stage {name!r}{suggestion(name, self._every)}. Known: {known}."
        )

    def _value(self, node: Node, needs: set[str]) -> str | None:
        """A value with its references replaced; None where it is null, and a text with commas of a list.

        `needs` takes the names of steps that are referred to.
        """
        if isinstance(node.value, list):
            return ",".join(self._text(one, needs) for one in node.value)
        if node.value is None:
            return None
        whole = re.fullmatch(r"\$\{([^{}]*)\}", node.text)
        if whole is not None:
            return self._refer(whole[1], node.place, needs)

        def inner(found: re.Match[str]) -> str:
            text = self._refer(found[1], node.place, needs)
            if text is None:
                raise node.error(f"{found[0]} has no value, and is part of a longer text")
            return text

        return re.sub(r"\$\{([^{}]*)\}", inner, node.text)

    def _text(self, node: Node, needs: set[str]) -> str:
        text = self._value(node, needs)
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
            if not dot and first in {"folder", "round"}:
                return self.folder if first == "folder" else str(self._number)
            if not dot:
                raise UsageError(
                    f"{place}: ${{{name}}} is not defined: write ${{values.NAME}}, ${{STAGE.FLAG}} (what that "
                    "flag of another stage is), ${folder} or ${round}."
                )
            if first != "values":
                owner = self._owner(first, place)
                needs.add(owner._full(first))
                flags = owner._flags_of(first)
                if second in flags:
                    return owner._value(flags[second], set())
                raise UsageError(
                    f"{place}: the stage {first!r} is given no {second!r}{suggestion(second, flags)}. "
                    f"It has: {', '.join(flags) or 'none'}."
                )
            if second in self._next and self._before is not None:
                return self._before._value(self._next[second], needs)
            if second in self._values:
                return self._value(self._values[second], needs)
            raise UsageError(
                f"{place}: there is no value {second!r}{suggestion(second, self._values)}. "
                f"Known: {', '.join(self._values) or 'none'}."
            )
        finally:
            self._open.pop()


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
        if not re.fullmatch(r"[A-Za-z0-9][\w-]*", name) or name in {"values", "folder", "round"}:
            raise stage.error(
                f"a stage cannot be called {name!r}: letters, digits, - and _, and no word of our own"
            )
        stage.only(_STAGE_KEYS, f"the stage {name!r}")
    steps: list[Step] = []
    rounds = top.get("iterations", Node("1", tree.place))
    if rounds.value is not None:
        if not rounds.text.isdigit() or int(rounds.text) < 1:
            raise rounds.error(f"iterations must be a whole number of at least 1, got {rounds.text!r}")
        if int(rounds.text) > 1 and (top.get("next") is None or not top["next"].mapping):
            raise rounds.error(
                "more than one iteration needs `next`: the values that a round takes from the one before it, "
                "for example model: ${policy.save_path}"
            )
    first = now = _Round(tree, 1, None)
    for number in range(1, int(rounds.text if rounds.value is not None else 1) + 1):
        now = first if number == 1 else _Round(tree, number, now)
        left = {step.name: step for step in map(now.step, now.stages)}
        while left:  # as they stand in the file, but each behind those that it needs
            ready = next((step for step in left.values() if left.keys().isdisjoint(step.needs)), None)
            if ready is None:
                raise UsageError(f"These stages need each other: {', '.join(left)}.")
            steps.append(left.pop(ready.name))
    return Pipeline(Path(first.folder), tuple(steps))
