"""The engine's packages in one worker process: one planner's library, texts parsed once.

TextWorld loads a copy of the library, 34 MB, for each game. One serves all of them: it gets a game anew,
which takes half a millisecond, whenever another one had it.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final

from sweet_rl.errors import missing_package
from sweet_rl.worlds.alfworld.sources import GameData

TEXTS_KEPT: Final = 4096
"""Grammar texts whose parses are remembered."""


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
            from textworld.envs.pddl import PddlEnv, textgen
        except ImportError as error:
            package = (error.name or "alfworld").partition(".")[0]
            raise missing_package(package, "alfworld", needed_for="The household world") from None
        textgen._parse_and_convert = _Remembered(textgen._parse_and_convert)  # noqa: SLF001
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
        names = self._names(game_infos=env._entity_infos)  # noqa: SLF001
        for info in env._entity_infos.values():  # noqa: SLF001
            info.name = names.demangle_alfred_name(info.id)
        self.holder = holder
        return env


class _Remembered:
    """TextWorld's parser of grammar texts, which parses the same few texts again and again: once each.

    Args:
        parse: gives symbols, which their users change: they get copies.
    """

    def __init__(self, parse: Callable[..., Any]) -> None:
        self._parse = parse
        self._parsed: dict[Any, Any] = {}

    def __call__(self, text: str, **settings: Any) -> Any:
        key = (text, *sorted(settings.items()))
        if key not in self._parsed:
            if len(self._parsed) >= TEXTS_KEPT:
                self._parsed.clear()
            self._parsed[key] = self._parse(text, **settings)
        return deepcopy(self._parsed[key])
