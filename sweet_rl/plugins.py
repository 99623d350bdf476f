"""Plug-ins by name, ours or from outside: worlds, humans, agents, graders, losses.

A name stands for one of ours, for an entry point that an installed package declares
(`[project.entry-points."sweet_rl.worlds"]`), or for itself: `module:ATTRIBUTE` is imported as it says, from
the current folder where no installed module has its name.
Nothing is imported before it is asked for.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from sweet_rl import tracking
from sweet_rl.errors import UsageError, no_such, own_code, suggestion

_PLACE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
"""`module:ATTRIBUTE`; no address, no path and no model's name with its owner looks like it."""


@dataclass(frozen=True, slots=True)
class Registry:
    """One kind of thing that can be named."""

    group: str  # of entry points, as in "sweet_rl.worlds"
    kind: str  # one of them in messages, as in "world"
    ours: Mapping[str, str] = field(default_factory=dict)  # in this package, each as `module:ATTRIBUTE`
    parts: tuple[str, ...] = ()  # attributes that one of them has, by its contract
    base: type = object  # that all of them are of, where there is one

    def names(self) -> tuple[str, ...]:
        """Ours in their order, then those of installed packages."""
        return (*self.ours, *sorted(set(_installed(self.group)) - set(self.ours)))

    def knows(self, name: str) -> bool:
        """Whether the name is known here, or is written as `module:ATTRIBUTE`."""
        return bool(_PLACE.fullmatch(name)) or name in self.names()

    def make(self, name: str, given: object, *, flag: str) -> Any:
        """What keeps the contract: the object of this name, or what its class or factory makes.

        `given` is what that is called with, if it takes an argument. The run's record has the file it comes from, under
        the `flag` that named it.
        """
        found, what = self.find(name), f"The {self.kind} {name!r}"
        maker = inspect.isclass(found) or not hasattr(found, self.parts[-1])
        if name not in self.ours:
            with suppress(TypeError, OSError):  # something that has no file
                tracking.reads(flag, inspect.getsourcefile(found if maker else type(found)))
        if maker:
            if not callable(found):
                raise UsageError(f"{what} is {found!r}, which has no {self.parts[-1]}.")
            taken = inspect.signature(found).parameters.values()
            places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
            needed = [one.name for one in taken if one.default is one.empty and one.kind in places]
            if len(needed) > 1:
                raise UsageError(f"{what} takes {', '.join(needed)}, and is given one argument at most.")
            found = found(given) if needed else found()
        if lacking := [part for part in self.parts if not hasattr(found, part)]:
            raise UsageError(
                f"{what} is {found!r}, which has no {' and no '.join(lacking)}. Everyone of that kind has "
                f"{', '.join(self.parts)} (sweet_rl.contracts)."
            )
        return found

    def find(self, name: str) -> Any:
        """The object with that name."""
        place = self.ours.get(name) or _installed(self.group).get(name) or name
        if isinstance(place, tuple):
            raise UsageError(f"Two installed packages offer a {self.kind} {name!r}: {' and '.join(place)}.")
        if place == name and ":" not in name:
            hint = "Your own is named as module:ATTRIBUTE, or by the entry point of an installed package."
            raise no_such(self.kind, name, self.names(), hint)
        if place == name and (here := str(Path.cwd())) not in sys.path:
            sys.path.append(here)  # where a person's own file lies; it takes no other module's place
        module, _, attribute = place.partition(":")
        what = f"The {self.kind} {name!r} cannot be imported"
        if place == name and not _PLACE.fullmatch(place):
            raise UsageError(
                f"{what}: write module:ATTRIBUTE, as in `from module import ATTRIBUTE`. A file in another folder is found with "
                "PYTHONPATH=FOLDER before the command."
            )
        with own_code(f"{what}: its module {module}", ""):
            try:
                found: Any = importlib.import_module(module)
            except ModuleNotFoundError as error:
                if not f"{module}.".startswith(f"{error.name}."):
                    raise
                places = f"It was looked for in the current folder ({Path.cwd()}), on PYTHONPATH and among installed packages."
                raise UsageError(f"{what}: there is no module {error.name!r}. {places}") from error
        for part in attribute.split("."):
            if not hasattr(found, part):
                members = getattr(found, "__dict__", {}).items() if self.base is not object else ()
                known = [key for key, value in members if isinstance(value, self.base)]
                has = f" It has the {self.kind} {', '.join(known)}." if known else ""
                raise UsageError(f"{what}: {module} has no attribute {part!r}{suggestion(part, known)}.{has}")
            found = getattr(found, part)
        return found


def is_own(module: str) -> bool:
    """Whether a module is somebody's own: neither this library's nor Python's."""
    top = module.partition(".")[0]
    return top != "sweet_rl" and top not in sys.stdlib_module_names


@cache
def _installed(group: str) -> dict[str, str | tuple[str, ...]]:
    """Entry points: their places by name; of a name that several packages offer, who they are."""
    by_name: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=group):
        by_name.setdefault(entry.name, []).append(entry)
    return {
        name: found[0].value
        if len({entry.value for entry in found}) == 1
        else tuple(sorted(entry.dist.name if entry.dist else entry.value for entry in found))
        for name, found in by_name.items()
    }
