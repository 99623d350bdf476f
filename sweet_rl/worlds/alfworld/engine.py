"""The real engine: TextWorld's PDDL games with ALFWorld's names, and Fast Downward's planner behind both.

It blocks, and a planner may search for ever: it runs in processes that many episodes share, and one that
dies or hangs spoils one question. A state is given by the commands that led to it, so that an engine keeps
none; texts come from the game's own grammar. The planner's library, 34 MB for each game in TextWorld, is
loaded once. Published behaviour: docs/published/reflect_rl.md#alfworld.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import replace
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, TypeAlias

from sweet_rl.errors import EpisodeError, SweetRLError, missing_package
from sweet_rl.processes import WorkerPool, work
from sweet_rl.types import Failure, Json, StopReason, derive_seed


class EngineState(NamedTuple):
    """What the engine says of a state of a game.

    `feedback` is its answer to the last command (the introduction, at first). `commands` are those it accepts
    now. `score` is 1 when the task is done, `done` that the game is over.
    """

    feedback: str
    commands: tuple[str, ...]
    score: float = 0
    done: bool = False


class Household(WorkerPool):
    """A pool of engines, at most four processes by default, that many threads may ask; closed after the run."""

    def __init__(
        self, *, workers: int | None = None, timeout_s: float = 100.0, plan_timeout_s: float = 100.0
    ) -> None:
        super().__init__(
            "sweet_rl.worlds.alfworld.engine", workers=workers, timeout_s=timeout_s, called="household engine"
        )
        self._plan_timeout_s = plan_timeout_s
        self._first: dict[str, EngineState] = {}

    def begin(self, source: str) -> EngineState:
        """The state a game starts in; `source` is an embedded game's name, or a problem's folder."""
        if source not in self._first:  # it is always the same
            self._first[source] = self.ask_now("begin", source, label=source)
        return self._first[source]

    def play(self, source: str, before: Sequence[str], command: str) -> EngineState:
        """What `command` leads to from the state that the commands `before` led to."""
        state: EngineState = self.ask_now("play", source, tuple(before), command, label=command)
        return state

    def plan(self, source: str, before: Sequence[str]) -> tuple[str, ...]:
        """Commands that solve the game from there; empty where the planner finds none."""
        try:
            plan: tuple[str, ...] = self.ask_now(
                "plan", source, tuple(before), label="planning", timeout_s=self._plan_timeout_s
            )
        except EpisodeError as error:
            if error.failure.kind == "bad_game":
                raise
            failure = replace(error.failure, kind="planner_failed")
            raise EpisodeError(error.stop_reason, failure) from None
        return plan


def read_game(source: str) -> dict[str, str]:
    """The game of a source, as `textworld.envs.pddl.PddlEnv.load` takes it."""
    if not Path(source).is_absolute():
        homes = import_module("sweet_rl.mini.homes")
        try:
            game = homes.game(source)
        except SweetRLError as error:
            raise bad_game(source, str(error)) from None
        return _game_data(homes.problem(game), homes.trajectory_data(game), own_words=True)
    folder = Path(source)
    problem, trajectory = folder / "initial_state.pddl", folder / "traj_data.json"
    try:
        if problem.is_file():
            return _game_data(problem.read_text("utf-8"), json.loads(trajectory.read_text("utf-8")))
        data = json.loads((folder / "game.tw-pddl").read_text("utf-8"))
        return {name: str(data[name]) for name in ("pddl_domain", "grammar", "pddl_problem")}
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise bad_game(source, f"{type(error).__name__}: {error}") from None


def bad_game(source: str, why: str) -> EpisodeError:
    """The error for a game that cannot be read."""
    return EpisodeError(StopReason.WORLD_FAILED, Failure("bad_game", f"{source}: {why}"))


def _game_data(problem: str, trajectory: Json, *, own_words: bool = False) -> dict[str, str]:
    """Domain and grammar are the user's (`logic/`) where the folder has them, else the package's."""
    from alfworld.agents.utils.misc import add_task_to_grammar
    from alfworld.info import ALFRED_PDDL_PATH, ALFRED_TWL2_PATH

    logic = Path(os.environ.get("SWEET_RL_ALFWORLD_LOGIC", ""))
    domain, grammar = Path(ALFRED_PDDL_PATH), Path(ALFRED_TWL2_PATH)
    if logic.is_absolute() and (logic / domain.name).is_file() and (logic / grammar.name).is_file():
        domain, grammar = logic / domain.name, logic / grammar.name
    random.seed(derive_seed("sentence", trajectory["task_type"], problem))  # it draws from the global one
    words = add_task_to_grammar(
        grammar.read_text("utf-8"), trajectory, goal_desc_human_anns_prob=float(own_words)
    )
    return {"pddl_domain": domain.read_text("utf-8"), "grammar": str(words), "pddl_problem": problem}


class Library:
    """What loads games. `holder` is whose game the planner's library holds now."""

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
        textgen._parse_and_convert = _remembered(textgen._parse_and_convert, deepcopy)
        textgen.copy_context = lambda context: {  # not its entities, which are read only
            **context,
            "variables": dict(context["variables"]),
            "mapping": dict(context["mapping"]),
        }
        logic._parse_and_convert = _remembered(logic._parse_and_convert, copy)
        # whole grammars, which nobody changes: games whose task is the same sentence have the same one
        pddl_logic._parse_and_convert = lru_cache(maxsize=32)(pddl_logic._parse_and_convert)
        self.translate: Callable[..., tuple[Any, str]] = fast_downward.pddl2sas
        once = lru_cache(maxsize=1)(self.translate)
        fast_downward.pddl2sas = lambda domain, problem, **_: once(domain, problem)
        self.holder: object = None
        self.operator: Callable[[int, bytes, int], Any] = fast_downward.Operator
        self._downward = fast_downward.load_lib()
        self._env, self._base, self._names = PddlEnv, textworld.Environment, Demangler

    def load(self, data: Mapping[str, str], holder: object) -> Any:
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


def _remembered(parse: Callable[..., Any], copied: Callable[[Any], Any]) -> Callable[..., Any]:
    """A parser of TextWorld's, which parses the same few texts again and again: once each."""
    once = lru_cache(maxsize=4096)(parse)
    return lambda text, **settings: copied(once(text, **settings))


WAYS_KEPT: Final = 4096  # command sequences of one game whose operators are remembered

Commands: TypeAlias = tuple[str, ...]
Way: TypeAlias = tuple[tuple[int, int], ...]
"""A sequence of commands as the engine knows it: operators, with how many atoms each changes."""


class LoadedGame:
    """One game in the engine, at some state; taken to another one at will."""

    def __init__(self, library: Library, source: str) -> None:
        self._library = library
        data = read_game(source)
        try:
            self._env = library.load(data, self)
        except (SystemExit, Exception) as error:  # noqa: BLE001 - whatever its parsers raise; the translator exits
            why = str(error) if isinstance(error, SystemExit) else f"{type(error).__name__}: {error}"
            raise bad_game(source, f"is not a PDDL problem of this domain ({why})") from None
        self._state: Any = self._env._pddl_state  # there is no other way to it
        self._first_facts = frozenset(self._state.facts)
        changing = {
            effect.literal.predicate for action in self._state.task.actions for effect in action.effects
        }
        actions: dict[str, Any] = self._env._logic.actions
        words = {name: frozenset(re.findall(r"\w+", action.template)) for name, action in actions.items()}
        self._fixed = {name: terms for name, terms in words.items() if not terms & changing}
        self._texts: dict[tuple[str, ...], str] = {}
        self._ways: OrderedDict[Commands, Way] = OrderedDict({(): ()})
        self._here: Commands = ()
        self._states: dict[Commands, EngineState] = {}
        self._for_planner: bytes | None = None
        self._plans: dict[Commands, Commands] = {}

    def begin(self) -> EngineState:
        """The first state, with the introduction."""
        self._go_to(())
        return self._as_state(self._derive("#intro#", {}))

    def play(self, before: Commands, command: str) -> EngineState:
        """One command from the state after `before`; results are cached."""
        after = (*before, command)
        if after not in self._states:
            if len(self._states) >= WAYS_KEPT:
                self._states.clear()
            self._go_to(before)
            action = self._do(command)
            refused = action is None
            told = "Nothing happens." if refused else self._derive(action.feedback_rule, action.mapping)
            self._states[after] = self._as_state(told)
        return self._states[after]

    def plan(self, before: Commands) -> Commands:
        """What the planner would do from there; a way that it named once is known to its end."""
        if before not in self._plans:
            self._go_to(before)
            if self._for_planner is None:
                data = self._env._game_data
                # without what cannot matter to a plan; it takes half of the time to load a game, and most are never planned
                form = self._library.translate(data["pddl_domain"], data["pddl_problem"], optimize=True)
                self._for_planner = form[1].encode()
            self._state.downward_lib.load_sas_replan(self._for_planner)
            plan: list[str] = self._state.replan(self._env._entity_infos)
            commands = tuple(" ".join(command.split()) for command in plan)
            if len(self._plans) >= WAYS_KEPT:
                self._plans.clear()
            for done in range(max(1, len(commands))):
                self._plans.setdefault((*before, *commands[:done]), commands[done:])
        return self._plans[before]

    def _go_to(self, commands: Commands) -> None:
        """Stand where `commands` lead. Those that the engine did not accept lead nowhere."""
        if commands == self._here and self._library.holder is self:
            return
        known = len(commands)
        while commands[:known] not in self._ways:
            known -= 1
        self._library.holder = self
        self._state.downward_lib.load_sas(self._state.sas.encode())
        now = frozenset(self._state.facts)
        for fact in now - self._first_facts:
            self._state.remove_fact(fact)
        for fact in self._first_facts - now:
            self._state.add_fact(fact)
        for operator, changed in self._ways[commands[:known]]:
            self._state._operators = {operator: self._library.operator(operator, b"", changed)}
            self._state.apply(SimpleNamespace(id=operator))
        self._here = commands[:known]
        for command in commands[known:]:
            self._do(command)

    def _do(self, command: str) -> Any:
        """Take a command from here; its action, or None where the engine does not accept it."""
        way, action = self._ways[self._here], self._offered().get(command)
        if action is not None:
            way = (*way, (action.id, self._state._operators[action.id].nb_effect_atoms))
            self._state.apply(action)
        self._here = (*self._here, command)
        self._ways[self._here] = way
        if len(self._ways) > WAYS_KEPT:
            del self._ways[next(key for key in self._ways if key and key != self._here)]
        return action

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


def start() -> dict[str, Callable[..., Any]]:
    """What a worker answers.

    ALFWorld's package makes the folder that `ALFWORLD_DATA` names: let it be the worker's own, which goes.
    """
    folder = os.environ.get("ALFWORLD_DATA")
    if folder:
        os.environ["SWEET_RL_ALFWORLD_LOGIC"] = str(Path(folder).expanduser().resolve() / "logic")
    os.environ["ALFWORLD_DATA"] = str(Path.cwd())
    game = lru_cache(maxsize=128)(partial(LoadedGame, Library()))  # two MB each
    return {
        "begin": lambda source: game(source).begin(),
        "play": lambda source, before, command: game(source).play(before, command),
        "plan": lambda source, before: game(source).plan(before),
    }


if __name__ == "__main__":  # python -m sweet_rl.worlds.alfworld.engine FD FOLDER
    import sweet_rl.worlds.alfworld.engine as engine  # noqa: PLW0406 - its states are pickled by this name

    work(engine.start)
