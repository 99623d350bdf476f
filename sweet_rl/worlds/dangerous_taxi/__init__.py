"""DangerousTaxi: fetch a passenger and bring them to their destination; a wrong action ends the game."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from sweet_rl.cli.stage import StageEntry
from sweet_rl.contracts import Policy
from sweet_rl.errors import UsageError
from sweet_rl.flags import Settings, flag, group
from sweet_rl.prompts import load_prompt
from sweet_rl.text_game import TextGame
from sweet_rl.worlds.base import Rows, no_agent, one_level, rules_of, tasks_in
from sweet_rl.worlds.options import AgentRequest, Learning, Level, LevelRequest, Measured, Options, TaskLists
from sweet_rl.worlds.text_games import ACTION_HEAD, TextGameWorld

if TYPE_CHECKING:
    from sweet_rl.reflect_data.teachers import Expert

STAGES: Final[Mapping[str, StageEntry]] = {
    "reflect taxi_reflection": StageEntry(
        f"{__name__}.data:taxi_reflection",
        "DangerousTaxi: let a teacher reflect on states of random games.",
        ("taxi/data_reflection.json",),
    ),
    "reflect taxi_gen_sft": StageEntry(
        f"{__name__}.data:taxi_gen_sft",
        "DangerousTaxi: write training texts from records.",
        ("taxi/sft*.jsonl",),
    ),
}
"""What is typed behind `sweet-rl`."""


@group("Options of DangerousTaxi")
class TaxiOptions(Options):
    with_prompt: bool = flag(False, "put the rules into every observation.")
    with_history: bool = flag(False, "put all states so far into every observation.")


@group("Options of DangerousTaxi for training")
class TaxiLearning(TaxiOptions):
    taxi_curriculum: bool = flag(
        False, "learn to pick up, then to drop off, then both; without it, no taxi episode succeeds."
    )


@group("The games")
class TaxiMeasured(Settings):
    extra: Literal["pickup", "dropoff", "full", "none"] = flag("pickup", "part of the ride to play.")


def levels(options: Options, request: LevelRequest) -> Sequence[Level]:
    """The start states of a list or file; else games whose starts are drawn, in one level or three."""
    from sweet_rl.records import task_from_row
    from sweet_rl.worlds.dangerous_taxi.game import taxi_row

    if request.tasks and not WORLD.learning.ignored(request.tasks, WORLD.tasks.sources, options.compat):
        return one_level(WORLD, options, request)
    learns = isinstance(options, TaxiLearning) and options.taxi_curriculum
    names = ("pickup", "dropoff", "full") if learns else ("none",)
    found = []
    for name in names:
        rows = [taxi_row(name) | {"task_id": f"dangerous_taxi/{name}/{at}"} for at in range(request.entries)]
        found.append(Level(name, list(map(task_from_row, rows))))
    return found


def measured(flags: TaxiMeasured, tasks: str | None, max_turns: int) -> Measured:
    """Games of one task, with the rules in every state."""
    found = tasks_in(WORLD, tasks or f"taxi:{flags.extra}:test")
    others = {str(task.row.get("curriculum") or "none") for task in found} - {flags.extra}
    if others:
        raise UsageError(
            f"--tasks {tasks} has tasks of {', '.join(sorted(others))}, and --extra is {flags.extra}. "
            f"Add --extra {min(others)}, or name other tasks."
        )
    options = TaxiOptions(max_turns=max_turns, with_prompt=True)
    return Measured(
        f"taxi {flags.extra}", found, options, published_return=20 if flags.extra == "dropoff" else 0
    )


def expert(game: TextGame) -> Expert | None:
    """The planner, with a thought for each of its actions."""
    from sweet_rl.reflect_data.teachers import Expert
    from sweet_rl.worlds.dangerous_taxi.game import LABELS, TaxiGame, thought

    if not isinstance(game, TaxiGame):
        return None
    return Expert(
        lambda: partial(thought, None, None, game.state),
        lambda: next((LABELS[action] for action in game.best_actions()), "0"),
    )


class DangerousTaxi(TextGameWorld):
    """DangerousTaxi: fetch a passenger and bring them to their destination; a wrong action ends the game."""

    name = "dangerous_taxi"
    max_turns = 15
    options = TaxiOptions
    tasks = TaskLists("taxi:full:train", "taxi:full:test", sources=("taxi", "dangerous-taxi"))
    agents: ClassVar = {"planner": {}, "careless": {"skill": None}, "random": {}}
    learning = Learning(
        head=ACTION_HEAD,
        labels=("0", "1", "2", "3", "4", "5"),
        options=TaxiLearning,
        levels=levels,
        equal_levels=True,
        ignores_files=True,
        expert=expert,
        flags=TaxiMeasured,
        measured=measured,
    )
    system_prompt = load_prompt("llm_agent_taxi_prompt")
    player_rules = (
        "Fetch the passenger (P) with the taxi (T) and bring them to the destination (D): type "
        "the number of an action. O: the taxi is where they wait, X: they are in it. An action that changes "
        "nothing, like driving into a wall, ends the game. You have {turns} actions."
    )
    stages = STAGES

    def rows(self, source: str, where: str, *, limit: int | None, seed: int) -> Rows:
        from sweet_rl.worlds.dangerous_taxi.game import taxi_tasks

        return taxi_tasks(where)

    @contextmanager
    def games(self, options: Options) -> Iterator[Callable[[], TextGame]]:
        from sweet_rl.worlds.dangerous_taxi.game import TaxiGame

        rules = rules_of(self, options, "with_prompt", "with_history")
        yield lambda: TaxiGame(**rules)

    async def make_agent(self, wanted: AgentRequest) -> Policy:
        from sweet_rl.worlds.dangerous_taxi.game import TaxiDriver

        if wanted.name not in self.agents:
            raise no_agent(self, wanted.name)
        return TaxiDriver(wanted.name, skill=wanted.skill, system_prompt=wanted.system_prompt)


WORLD = DangerousTaxi()
