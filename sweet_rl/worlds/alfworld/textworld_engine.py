"""The real engine: TextWorld's PDDL games with ALFWorld's names, and Fast Downward's planner behind both.

Runs in a worker process and serves any number of episodes with one loaded game each: a state is found again
by applying the operators of the commands that led to it, which takes a millisecond. Texts come from the
game's own grammar, as `PddlEnv` derives them; the commands' texts, which take most of an engine's time and
state nothing that changes, are derived once.

TextWorld loads a copy of the planner's library, 34 MB, for each game. One serves all of them: it gets a game anew,
which takes half a millisecond, whenever another one had it. What most of the packages' time goes to, and is
needed by nobody, is left out: parsing the same texts again, deep copies of what nobody changes, and a
problem's form for the planner before there is a question for it.

The inputs of a game (domain, grammar with the task, problem) are read here, in the worker: a problem may come from a user's ALFWorld
folder, and the domain from the alfworld package. Nothing is ever written there.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy, deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, TypedDict

from sweet_rl.errors import EpisodeError, SweetRLError, missing_package
from sweet_rl.types import Failure, Json, StopReason, derive_seed
from sweet_rl.worlds.alfworld import homes as household
from sweet_rl.worlds.alfworld.household import EngineState


class GameData(TypedDict):
    """What `textworld.envs.pddl.PddlEnv.load` takes."""

    pddl_domain: str
    grammar: str
    pddl_problem: str


def read_game(source: str) -> GameData:
    """The game of a source."""
    if not Path(source).is_absolute():
        try:
            game = household.game(source)
        except SweetRLError as error:
            raise bad_game(source, str(error)) from None
        return _game_data(household.problem(game), household.trajectory_data(game), own_words=True)
    folder = Path(source)
    problem, trajectory = folder / "initial_state.pddl", folder / "traj_data.json"
    whole = folder / "game.tw-pddl"
    try:
        if problem.is_file():
            return _game_data(problem.read_text("utf-8"), json.loads(trajectory.read_text("utf-8")))
        data = json.loads(whole.read_text("utf-8"))
        return {
            "pddl_domain": str(data["pddl_domain"]),
            "grammar": str(data["grammar"]),
            "pddl_problem": str(data["pddl_problem"]),
        }
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise bad_game(source, f"{type(error).__name__}: {error}") from None


def bad_game(source: str, why: str) -> EpisodeError:
    """The error for a game that cannot be read."""
    return EpisodeError(StopReason.WORLD_FAILED, Failure("bad_game", f"{source}: {why}"))


def _game_data(problem: str, trajectory: Json, *, own_words: bool = False) -> GameData:
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


TEXTS_KEPT: Final = 4096
"""Grammar texts whose parses are remembered."""

GRAMMARS_KEPT: Final = 32
"""Whole grammars: games whose task is the same sentence have the same one."""


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


GAMES_KEPT: Final = 128
"""Loaded games of one worker: two MB each."""

WAYS_KEPT: Final = 4096
"""Command sequences of one game whose operators are remembered."""

NOTHING_HAPPENS: Final = "Nothing happens."
"""What the engine says to a command that it does not accept."""


class TextWorldEngine:
    """A `sweet_rl.worlds.alfworld.household.Engine`, for one process."""

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
    """One game in the engine, at some state; taken to another one at will."""

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
