"""The real engine: TextWorld's PDDL games with ALFWorld's names, and Fast Downward's planner behind both.

Runs in a worker process and serves any number of episodes with one loaded game each: a state is found again
by applying the operators of the commands that led to it, which takes a millisecond. Texts come from the
game's own grammar, as `PddlEnv` derives them; the commands' texts, which take most of an engine's time and
state nothing that changes, are derived once.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from sweet_rl.worlds.alfworld.engine import EngineState
from sweet_rl.worlds.alfworld.library import Library
from sweet_rl.worlds.alfworld.sources import bad_game, read_game

GAMES_KEPT: Final = 128
"""Loaded games of one worker: two MB each."""

WAYS_KEPT: Final = 4096
"""Command sequences of one game whose operators are remembered."""

NOTHING_HAPPENS: Final = "Nothing happens."
"""What the engine says to a command that it does not accept."""


class TextWorldEngine:
    """A `sweet_rl.worlds.alfworld.engine.Engine`, for one process.

    Raises:
        UsageError: the packages are not installed.
    """

    def __init__(self) -> None:
        self._library = Library()
        self._games: OrderedDict[str, LoadedGame] = OrderedDict()

    def begin(self, source: str) -> EngineState:
        """The state a game starts in: its text and the commands on offer."""
        return self._game(source).begin()

    def play(self, source: str, before: Sequence[str], command: str) -> EngineState:
        """The state after `command`, given the commands `before` it."""
        return self._game(source).play(tuple(before), command)

    def plan(self, source: str, before: Sequence[str]) -> tuple[str, ...]:
        """The planner's commands to the goal, after the commands `before`."""
        return self._game(source).plan(tuple(before))

    def _game(self, source: str) -> LoadedGame:
        if source not in self._games:
            self._games[source] = LoadedGame(source, self._library)
            if len(self._games) > GAMES_KEPT:
                self._games.popitem(last=False)
        self._games.move_to_end(source)
        return self._games[source]


Way: TypeAlias = tuple[tuple[int, int], ...]
"""A sequence of commands as the engine knows it: operators, with how many atoms each changes."""


class LoadedGame:
    """One game in the engine, at some state; taken to another one at will.

    Args:
        source: see `sources.read_game`.
        library: shared by all games of the process.

    Raises:
        EpisodeError: the game cannot be read, or its PDDL makes no sense ("bad_game").
    """

    def __init__(self, source: str, library: Library) -> None:
        self._library = library
        data = read_game(source)
        try:
            self._env = library.load(data, self)
        except SystemExit as error:  # how the translator refuses some files
            raise bad_game(source, f"is no PDDL problem of this domain ({error})") from None
        except Exception as error:  # noqa: BLE001 - whatever its parsers raise
            why = f"is no PDDL problem of this domain ({type(error).__name__}: {error})"
            raise bad_game(source, why) from None
        self._state: Any = self._env._pddl_state  # there is no other way to it
        self._first_facts = frozenset(self._state.facts)
        changing = {
            effect.literal.predicate for action in self._state.task.actions for effect in action.effects
        }
        words = {name: frozenset(re.findall(r"\w+", action.template)) for name, action in self._actions()}
        self._fixed = {name: terms for name, terms in words.items() if not terms & changing}
        self._texts: dict[tuple[str, ...], str] = {}
        self._ways: OrderedDict[tuple[str, ...], Way] = OrderedDict({(): ()})
        self._here: tuple[str, ...] = ()
        self._states: dict[tuple[str, ...], EngineState] = {}
        self._for_planner: bytes | None = None
        self._plans: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._first: EngineState | None = None

    def _actions(self) -> Iterable[tuple[str, Any]]:
        """The grammar's actions by name."""
        actions: dict[str, Any] = self._env._logic.actions
        return actions.items()

    def begin(self) -> EngineState:
        """The first state, with the introduction."""
        if self._first is None:
            self._go_to(())
            self._first = self._as_state(self._derive("#intro#", {}))
        return self._first

    def play(self, before: tuple[str, ...], command: str) -> EngineState:
        """One command from the state after `before`; results are cached."""
        after = (*before, command)
        if after not in self._states:
            if len(self._states) >= WAYS_KEPT:
                self._states.clear()
            self._states[after] = self._play(before, command)
        return self._states[after]

    def _play(self, before: tuple[str, ...], command: str) -> EngineState:
        self._go_to(before)
        action = self._offered().get(command)
        if action is None:
            self._remember((*before, command), self._ways[before])
            return self._as_state(NOTHING_HAPPENS)
        self._apply(action, command)
        return self._as_state(self._derive(action.feedback_rule, action.mapping))

    def plan(self, before: tuple[str, ...]) -> tuple[str, ...]:
        """What the planner would do from there; a way that it named once is known to its end."""
        if before not in self._plans:
            self._go_to(before)
            if self._for_planner is None:
                data = self._env._game_data
                form = self._library.for_planner(data["pddl_domain"], data["pddl_problem"])
                self._for_planner = form.encode()
            self._state.downward_lib.load_sas_replan(self._for_planner)
            plan: list[str] = self._state.replan(self._env._entity_infos)
            commands = tuple(" ".join(command.split()) for command in plan)
            if len(self._plans) >= WAYS_KEPT:
                self._plans.clear()
            for done in range(max(1, len(commands))):
                self._plans.setdefault((*before, *commands[:done]), commands[done:])
        return self._plans[before]

    def _go_to(self, commands: tuple[str, ...]) -> None:
        """Stand where `commands` lead. Those that the engine did not accept lead nowhere."""
        if commands == self._here and self._library.holder is self:
            return
        known = len(commands)
        while commands[:known] not in self._ways:
            known -= 1
        self._return_to_start()
        for operator, changed in self._ways[commands[:known]]:
            self._state._operators = {operator: self._library.operator(operator, b"", changed)}
            self._state.apply(_Applied(operator))
        self._here = commands[:known]
        for command in commands[known:]:
            action = self._offered().get(command)
            if action is not None:
                self._apply(action, command)
            else:
                self._remember((*self._here, command), self._ways[self._here])

    def _return_to_start(self) -> None:
        self._library.holder = self
        self._state.downward_lib.load_sas(self._state.sas.encode())
        now = frozenset(self._state.facts)
        for fact in now - self._first_facts:
            self._state.remove_fact(fact)
        for fact in self._first_facts - now:
            self._state.add_fact(fact)

    def _apply(self, action: Any, command: str) -> None:
        way = self._ways[self._here]
        changed = self._state._operators[action.id].nb_effect_atoms
        self._state.apply(action)
        self._remember((*self._here, command), (*way, (action.id, changed)))

    def _remember(self, commands: tuple[str, ...], way: Way) -> None:
        self._ways[commands] = way
        self._here = commands
        if len(self._ways) > WAYS_KEPT:
            oldest = next(key for key in self._ways if key and key != commands)
            del self._ways[oldest]

    def _offered(self) -> dict[str, Any]:
        """The actions that can be taken now, by their commands; of several with one command the first."""
        offered: dict[str, Any] = {}
        for action in self._state.all_applicable_actions():
            offered.setdefault(self._text_of(action), action)
        return offered

    def _text_of(self, action: Any) -> str:
        words = self._fixed.get(action.name)
        named = (variable.name for holder, variable in action.mapping.items() if holder.name in (words or ()))
        key = (action.name, *named)
        text = self._texts.get(key)
        if text is None:
            infos = self._env._entity_infos
            action.command_template = self._derive(action.command_template, action.mapping)
            text = str(action.format_command({name: info.name for name, info in infos.items()})).strip()
            if words is not None:
                self._texts[key] = text
        return text

    def _derive(self, rule: str, mapping: Any) -> str:
        """What the grammar makes of a rule here."""
        infos = self._env._entity_infos
        context = {
            "state": self._state,
            "facts": list(self._state.facts),
            "variables": {holder.name: infos[variable.name] for holder, variable in mapping.items()},
            "mapping": mapping,
            "entity_infos": infos,
        }
        return str(self._env._logic.grammar.derive(rule, context))

    def _as_state(self, feedback: str) -> EngineState:
        won = bool(self._state.check_goal())
        return EngineState(feedback, tuple(sorted(self._offered())), float(won), won)


class _Applied(NamedTuple):
    """What `PddlState.apply` wants to know of an action."""

    id: int


def start() -> dict[str, Any]:
    """What a worker answers.

    ALFWorld's package makes the folder that `ALFWORLD_DATA` names: let it be the worker's own, which goes.
    """
    folder = os.environ.get("ALFWORLD_DATA")
    if folder:
        os.environ["SWEET_RL_ALFWORLD_LOGIC"] = str(Path(folder).expanduser().resolve() / "logic")
    os.environ["ALFWORLD_DATA"] = str(Path.cwd())
    engine = TextWorldEngine()
    return {"begin": engine.begin, "play": engine.play, "plan": engine.plan}
