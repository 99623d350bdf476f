"""Files of pipelines taken apart: their trees, laid over each other, and what `${...}` stands for in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sweet_rl.commands.catalogue import COMMANDS, stages
from sweet_rl.errors import UsageError, missing_package, suggestion
from sweet_rl.records import check_yaml

_NULL: Final = "tag:yaml.org,2002:null"


@dataclass(slots=True)
class Node:
    """A value, and where it was given.

    Attributes:
        value: a text, None (given as null), a mapping or a list of nodes.
        place: file and line, or the override.
    """

    value: str | dict[str, Node] | list[Node] | None
    place: str

    @property
    def mapping(self) -> dict[str, Node]:
        """Its entries."""
        if self.value is None:
            return {}
        if not isinstance(self.value, dict):
            raise self.error(f"must be a mapping (`name: value` lines), got {shown(self)}")
        return self.value

    @property
    def text(self) -> str:
        """Its text."""
        if not isinstance(self.value, str):
            raise self.error(f"must be a text or a number, got {shown(self)}")
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


def shown(node: Node) -> str:
    """A value in a message."""
    if isinstance(node.value, dict):
        return "a mapping"
    return "a list" if isinstance(node.value, list) else "nothing" if node.value is None else repr(node.value)


def read_file(path: str | Path, above: tuple[Path, ...] = ()) -> Node:
    """A file laid over those that it extends.

    Args:
        path: of the file; one that is extended is looked for beside the file that names it.
    """
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


def _node(read: Any, path: Path) -> Node:
    place = f"{path}, line {read.start_mark.line + 1}"
    if read.id == "scalar":
        return Node(None if read.tag == _NULL else str(read.value), place)
    if read.id == "sequence":
        return Node([_node(one, path) for one in read.value], place)
    return Node(dict(_entries(read, path)), place)


def _entries(read: Any, path: Path) -> Iterator[tuple[str, Node]]:
    seen: dict[str, int] = {}
    for key, value in read.value:
        name, line = str(key.value), key.start_mark.line + 1
        if name in seen:
            raise UsageError(f"{path}, line {line}: {name!r} is already in line {seen[name]}.")
        seen[name] = line
        one = _node(value, path)
        one.place = f"{path}, line {line}"
        yield name, one


_REFERENCE: Final = re.compile(r"\$\{([^{}]*)\}")
_HINT: Final = (
    "write ${values.NAME}, ${STAGE.FLAG} (what that flag of another stage is), ${folder} or ${round}"
)


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
        every = {name: node for name, node in self._part("stages").items() if node.value is not None}
        self._every = every
        later = number > 1
        self.stages = {name: node for name, node in every.items() if not (later and _once(node))}
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

    def args(self, name: str, needs: set[str]) -> list[str]:
        """A stage's further flags, as on a command line."""
        node = self._every[name].mapping.get("args")
        return [] if node is None else _split(node, self.text(node, needs) or "")

    def launcher(self, name: str, needs: set[str]) -> tuple[str, ...]:
        """The words that begin a stage; none for one process."""
        node = self._every[name].mapping.get("launcher", self._part("launchers").get(self.run_of(name)))
        return () if node is None else tuple(_split(node, self.text(node, needs) or ""))

    def said_needs(self, name: str) -> set[str]:
        """The steps that a stage is declared to need, beside those that its flags name."""
        node = self._every[name].mapping.get("needs")
        if node is None or node.value is None:
            return set()
        listed = node.value if isinstance(node.value, list) else [node]
        return {self._known(one.text, one.place).full(one.text) for one in listed}

    def text(self, node: Node, needs: set[str]) -> str | None:
        """A value with its references replaced; None where it is null.

        Args:
            node: the value; a list becomes a text with commas.
            needs: takes the names of steps that are referred to.
        """
        if isinstance(node.value, list):
            return ",".join(self._text(one, needs) for one in node.value)
        if node.value is None:
            return None
        whole = _REFERENCE.fullmatch(node.text)
        if whole is not None:
            return self._refer(whole[1], node.place, needs)
        return _REFERENCE.sub(lambda found: self._inner(found[1], node.place, needs), node.text)

    def _text(self, node: Node, needs: set[str]) -> str:
        text = self.text(node, needs)
        if text is None:
            raise node.error("needs a value")
        return text

    def _inner(self, name: str, place: str, needs: set[str]) -> str:
        text = self._refer(name, place, needs)
        if text is None:
            raise UsageError(f"{place}: ${{{name}}} has no value, and is part of a longer text.")
        return text

    def _refer(self, name: str, place: str, needs: set[str]) -> str | None:
        if name in self._open:
            raise UsageError(f"{place}: ${{{name}}} refers to itself ({' -> '.join([*self._open, name])}).")
        self._open.append(name)
        try:
            return self._meaning(name, place, needs)
        finally:
            self._open.pop()

    def _meaning(self, name: str, place: str, needs: set[str]) -> str | None:
        first, dot, second = name.strip().partition(".")
        if name.strip() == "folder":
            return self.folder
        if name.strip() == "round":
            return str(self._number)
        if not dot:
            raise UsageError(f"{place}: ${{{name}}} is not defined: {_HINT}.")
        if first == "values":
            return self._value(second, place, needs)
        owner = self._known(first, place)
        needs.add(owner.full(first))
        flags = owner.flags_of(first)
        if second not in flags:
            close = suggestion(second, flags)
            raise UsageError(
                f"{place}: the stage {first!r} is given no {second!r}{close}. "
                f"It has: {', '.join(flags) or 'none'}."
            )
        return owner.text(flags[second], set())

    def _value(self, name: str, place: str, needs: set[str]) -> str | None:
        if name in self._next and self._before is not None:
            return self._before.text(self._next[name], needs)
        if name not in self._values:
            names = ", ".join(self._values) or "none"
            raise UsageError(
                f"{place}: there is no value {name!r}{suggestion(name, self._values)}. Known: {names}."
            )
        return self.text(self._values[name], needs)

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


def _split(node: Node, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise node.error(f"a quote is open ({error})") from None
