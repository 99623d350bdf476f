"""Pipeline files as trees of texts with their positions: YAML, files that extend others, overrides.

Every value stays the text that was written, until a flag reads it as its own kind: 2e-7 is a number and no
is a word wherever a flag says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sweet_rl.errors import UsageError, missing_package, suggestion

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
        """Its entries.

        Raises:
            UsageError: it has none.
        """
        if self.value is None:
            return {}
        if not isinstance(self.value, dict):
            raise self.error(f"must be a mapping (`name: value` lines), got {shown(self)}")
        return self.value

    @property
    def text(self) -> str:
        """Its text.

        Raises:
            UsageError: it is something else.
        """
        if not isinstance(self.value, str):
            raise self.error(f"must be a text or a number, got {shown(self)}")
        return self.value

    def error(self, problem: str) -> UsageError:
        """The error for this place, with file and line."""
        return UsageError(f"{self.place}: {problem}.")

    def only(self, known: Sequence[str], what: str) -> None:
        """Refuse unknown keys.

        Raises:
            UsageError: there is one.
        """
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
        above: files that led here.

    Raises:
        UsageError: it cannot be read, is no YAML, or extends itself.
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
    """Set one value: `values.x=3`, `folder=outputs/run2`, `stages.critic.with.beta=0.3`.

    Raises:
        UsageError: it has no `=`, or leads through something that is no mapping, or names a value or a stage
            that the files do not.
    """
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
