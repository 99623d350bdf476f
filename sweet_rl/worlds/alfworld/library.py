"""The engine's packages in one worker process: one planner's library, texts parsed once.

TextWorld loads a copy of the library, 34 MB, for each game. One serves all of them: it gets a game anew,
which takes half a millisecond, whenever another one had it. What most of the packages' time goes to, and is
needed by nobody, is left out: parsing the same texts again, deep copies of what nobody changes, and a
problem's form for the planner before there is a question for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy, deepcopy
from functools import lru_cache
from typing import Any, Final

from sweet_rl.errors import missing_package
from sweet_rl.worlds.alfworld.sources import GameData

TEXTS_KEPT: Final = 4096
"""Grammar texts whose parses are remembered."""

GRAMMARS_KEPT: Final = 32
"""Whole grammars: games whose task is the same sentence have the same one."""


class Library:
    """What loads games. `holder` is whose game the planner's library holds now.

    Raises:
        UsageError: the packages are not installed.
    """

    def __init__(self) -> None:
        try:
            import fast_downward
            import textworld
            from alfworld.agents.utils.misc import Demangler
            from textworld import logic
            from textworld.envs.pddl import PddlEnv, textgen
            from textworld.envs.pddl import logic as pddl_logic
        except ImportError as error:
            package = (error.name or "alfworld").partition(".")[0]
            raise missing_package(package, "alfworld", needed_for="The household world") from None
        textgen._parse_and_convert = _Remembered(textgen._parse_and_convert, deepcopy)
        textgen.copy_context = _own_context
        logic._parse_and_convert = _Remembered(logic._parse_and_convert, copy)
        whole = lru_cache(maxsize=GRAMMARS_KEPT)(pddl_logic._parse_and_convert)  # nobody changes it
        pddl_logic._parse_and_convert = whole
        self._translate: Callable[..., tuple[Any, str]] = fast_downward.pddl2sas
        once = lru_cache(maxsize=1)(self._translate)
        fast_downward.pddl2sas = lambda domain, problem, **_: once(domain, problem)
        self.holder: object = None
        self.operator: Callable[[int, bytes, int], Any] = fast_downward.Operator
        self._downward = fast_downward.load_lib()
        self._env, self._base, self._names = PddlEnv, textworld.Environment, Demangler

    def load(self, data: GameData, holder: object) -> Any:
        """A `PddlEnv` with ALFWorld's names in it. Whatever the packages' parsers raise passes through."""
        self.holder = None  # should it fail
        env = self._env.__new__(self._env)
        self._base.__init__(env)  # without a library of its own
        env.downward_lib = self._downward
        env.load(data)
        names = self._names(game_infos=env._entity_infos)
        for info in env._entity_infos.values():
            info.name = names.demangle_alfred_name(info.id)
        self.holder = holder
        return env

    def for_planner(self, domain: str, problem: str) -> str:
        """A problem in the planner's form, without what cannot matter to a plan.

        `load` gives the planner the form in which a game is played: it takes half of the time to load a game, and
        most games are never planned.
        """
        return self._translate(domain, problem, optimize=True)[1]


def _own_context(context: Mapping[str, Any]) -> dict[str, Any]:
    """TextWorld's `copy_context`, which copies all entities of a context; they are read only."""
    return {**context, "variables": dict(context["variables"]), "mapping": dict(context["mapping"])}


class _Remembered:
    """A parser of TextWorld's, which parses the same few texts again and again: once each."""

    def __init__(self, parse: Callable[..., Any], copied: Callable[[Any], Any]) -> None:
        self._parse, self._copied = parse, copied
        self._parsed: dict[Any, Any] = {}

    def __call__(self, text: str, **settings: Any) -> Any:
        key = (text, *sorted(settings.items()))
        if key not in self._parsed:
            if len(self._parsed) >= TEXTS_KEPT:
                self._parsed.clear()
            self._parsed[key] = self._parse(text, **settings)
        return self._copied(self._parsed[key])
