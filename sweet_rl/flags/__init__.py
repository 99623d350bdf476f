"""Each setting is declared once: the fields of a dataclass are its flags, its validation and its documentation.

`class RenderFlags(Settings)` is a frozen, keyword-only dataclass whose fields are made by `flag`. The command
line reads them, `--help` lists them under the first sentence of the class, shells complete them, and whoever
builds the class, from Python or by a file, has its ranges and choices checked. Worlds, losses and trainings
say their settings in the same way.
"""

from __future__ import annotations

import inspect
import operator
import typing
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from numbers import Integral, Real
from os import PathLike
from types import NoneType, UnionType
from typing import Any, ClassVar, Final, Literal

from sweet_rl.errors import UsageError

Kind = typing.TypeVar("Kind")

REQUIRED: Final = MISSING
"""The default of a flag that must be given."""

_KEY: Final = "sweet_rl.flag"
_NONE: Final = {"none": True}
_KINDS: Final[dict[type, tuple[tuple[type, ...], str]]] = {
    bool: ((Integral,), "true or false"),
    int: ((Integral,), "a whole number"),
    float: ((Real,), "a number"),
    str: ((str, PathLike), "a text"),
}
"""Whose values a flag of each kind takes from Python."""
Shown = Literal["help", "all", "never"]
"""In which help a flag stands: the short one, only the whole one, or none (accepted, without effect)."""


@dataclass(frozen=True, slots=True)
class Only:
    """Where a flag has a meaning: with `values` (or what finds them) of a `facet` of what a stage is about to do, as
    the stage says it. Elsewhere it is refused, not ignored. `words` name that in messages.
    """

    facet: str
    values: tuple[str, ...] | Callable[[], tuple[str, ...]]
    words: str = ""

    @property
    def allowed(self) -> tuple[str, ...]:
        """The values of the facet."""
        return self.values() if callable(self.values) else self.values

    def __str__(self) -> str:
        return self.words or f"--{self.facet} {any_of(self.allowed)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One flag, with everything that is known of it."""

    name: str
    help: str = ""  # a sentence for the person who types it
    kind: type = str  # what its text is read as
    optional: bool = False  # whether the text None means that there is no value
    default: Any = None  # or `REQUIRED`
    group: str = ""  # the heading that it stands under
    choices: tuple[Any, ...] = ()  # all values that it may have; empty: any
    at_least: float | None = None  # the smallest value; `above`: a bound that it must exceed
    above: float | None = None
    at_most: float | None = None  # the largest value; `below`: a bound that it must not reach
    below: float | None = None
    aliases: tuple[str, ...] = ()  # further names, published or usual elsewhere
    formerly: tuple[str, ...] = ()  # names that are accepted, and not listed
    shown: Shown = "help"  # in which help it stands
    bare: str | None = None  # the text that it has where it stands alone, for flags that are no switches
    only: Only | None = None  # where it has a meaning; None: everywhere
    positional: bool = False  # may be given without its name
    many: bool = False  # takes all words that belong to no other flag

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that it is known by."""
        return (self.name, *self.aliases, *self.formerly)

    @property
    def annotation(self) -> str:
        """Its type as a signature has it."""
        return self.kind.__name__ + " | None" * self.optional

    def check(self, value: Any, dashes: str = "--") -> None:
        """Whether it may have this value; `UsageError` names the flag, what it may be, and what it was."""
        if value is None and self.optional:
            return
        if self.choices and value not in self.choices:
            raise UsageError(f"{dashes}{self.name} must be {any_of(self.choices)}, got {value!r}.")
        kinds, words = _KINDS[self.kind]
        if not self.many and not isinstance(value, kinds):
            raise UsageError(f"{dashes}{self.name} must be {words}, got {value!r}.")
        if not all(fits(value, bound) for _, bound, fits in self._bounds()):
            raise UsageError(f"{dashes}{self.name} must be {self.range}, got {value}.")

    @property
    def range(self) -> str:
        """The numbers that it may be, in words; empty for any."""
        if self.at_least is not None and self.at_most is not None:
            return f"from {self.at_least} to {self.at_most}"
        bounds = [f"{words} {bound}" for words, bound, _ in self._bounds()]
        return "positive" if bounds == ["above 0"] else " and ".join(bounds)

    def _bounds(self) -> list[tuple[str, float, Callable[[Any, Any], bool]]]:
        """Its bounds, each with how it is called and how a value is held against it."""
        known = (
            ("at least", self.at_least, operator.ge),
            ("above", self.above, operator.gt),
            ("at most", self.at_most, operator.le),
            ("below", self.below, operator.lt),
        )
        return [(words, bound, fits) for words, bound, fits in known if bound is not None]


def flag(default: Any, help: str, **details: Any) -> Any:
    """A field of a dataclass that is a flag; `details` are fields of `Flag`.

    The choices of a field annotated with a `Literal` are those of the annotation.
    """
    return field(default=default, metadata={_KEY: {"help": help, **details}})


def no_flag(default: Any = REQUIRED, *, factory: Any = MISSING) -> Any:
    """A field of such a dataclass that a run fills in; it is no flag. `factory` makes a default that can change."""
    return field(default=default, default_factory=factory, metadata={_KEY: _NONE})


class Settings:
    """Base of dataclasses whose fields are flags; values are checked when one is built."""

    __slots__ = ()

    DASHES: ClassVar = "--"
    """What stands before a setting's name where people type it."""

    def __post_init__(self) -> None:
        for one in flags_of(type(self)):
            one.check(getattr(self, one.name), self.DASHES)
        for kind in reversed(type(self).__mro__):
            if check := vars(kind).get("check_together"):
                check(self)

    def check_together(self) -> None:
        """For what no single field can say, such as two of them that exclude each other; raises `UsageError`.

        Each class of the settings has its own called, those that it extends first.
        """


@typing.dataclass_transform(frozen_default=True, kw_only_default=True)
def group(heading: str) -> Callable[[type[Kind]], type[Kind]]:
    """Make a frozen, keyword-only dataclass of a class of flags, which are under this heading in the help."""

    def decorate(kind: type[Kind]) -> type[Kind]:
        kind.__doc__ = f"{heading}."
        return dataclass(frozen=True, kw_only=True)(kind)

    return decorate


_known: dict[type, tuple[Flag, ...]] = {}


def flags_of(settings: type) -> tuple[Flag, ...]:
    """The flags of a dataclass: its own in their order, then those of the classes that it extends."""
    if settings in _known:
        return _known[settings]
    found, left = [], {one.name: one for one in fields(settings)}
    for owner in settings.__mro__:
        written = vars(owner).get("__annotations__", {})
        for one in [left.pop(name) for name in list(left) if name in written]:
            if one.metadata.get(_KEY) is _NONE:
                continue
            # of this field alone: the types of others may be known to type checkers only
            alone = type(
                "_", (), {"__annotations__": {one.name: written[one.name]}, "__module__": owner.__module__}
            )
            kind, optional, choices = read_type(typing.get_type_hints(alone)[one.name])
            details = {"choices": choices, **(one.metadata.get(_KEY) or {})}
            heading = (owner.__doc__ or "").strip().partition("\n")[0].rstrip(".")
            known: dict[str, Any] = {"name": one.name, "kind": kind, "default": one.default, "group": heading}
            found.append(Flag(optional=optional, **known, **details))
    return _known.setdefault(settings, tuple(found))


def described(documented: Any) -> dict[str, str]:
    """The text after each name under `Args:` in a docstring, on one line."""
    args = inspect.cleandoc(documented.__doc__ or "").partition("Args:\n")[2]
    found: dict[str, str] = {}
    name = ""
    for line in args.partition("\n\n")[0].splitlines():
        if line.startswith("     "):  # continues the line before
            found[name] += f" {line.strip()}"
            continue
        name, _, words = line.strip().partition(": ")
        found[name.lstrip("*")] = words
    return found


def read_type(annotation: Any) -> tuple[type, bool, tuple[Any, ...]]:
    """What a text is read as, whether there may be no value, and the values of a `Literal`; TypeError for other types."""
    union = typing.get_origin(annotation) in {UnionType, typing.Union}
    parts = typing.get_args(annotation) if union else (annotation,)
    kinds = [part for part in parts if part is not NoneType]
    optional = len(kinds) < len(parts)
    if len(kinds) == 1 and kinds[0] in {bool, int, float, str}:
        return kinds[0], optional, ()
    if len(kinds) == 1 and typing.get_origin(kinds[0]) is Literal:
        values = typing.get_args(kinds[0])
        return type(values[0]), optional, values
    raise TypeError(f"a flag is text, a number, a switch or a choice of them, not {annotation}")


def any_of(values: tuple[Any, ...]) -> str:
    """Names as a sentence has them: `a, b or c`."""
    *most, last = map(str, values)
    return f"{', '.join(most)} or {last}" if most else last


def listed(text: str) -> list[str]:
    """The parts of a value that has commas between them; no empty ones."""
    return [part.strip() for part in text.split(",") if part.strip()]
