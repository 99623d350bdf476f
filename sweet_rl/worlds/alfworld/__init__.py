"""ALFWorld: tasks in a household, in text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from sweet_rl.cli.stage import StageEntry
from sweet_rl.contracts import Policy
from sweet_rl.flags import Settings, flag, group
from sweet_rl.prompts import load_prompt
from sweet_rl.text_game import TextGame
from sweet_rl.worlds.base import Rows, no_agent, one_level, rules_of
from sweet_rl.worlds.options import AgentRequest, Learning, Level, LevelRequest, Measured, Options, TaskLists
from sweet_rl.worlds.text_games import ACTION_HEAD, TextGameWorld

if TYPE_CHECKING:
    from sweet_rl.reflect_data.teachers import Expert

STAGES: Final[Mapping[str, StageEntry]] = {
    "reflect alfworld_reflection": StageEntry(
        f"{__name__}.data:alfworld_reflection",
        "ALFWorld: let a teacher reflect on states of random household games.",
        ("alfworld/data_reflection.json",),
    ),
    "reflect alfworld_gen_sft": StageEntry(
        f"{__name__}.data:alfworld_gen_sft",
        "ALFWorld: write training texts from records.",
        ("alfworld/sft*.jsonl",),
    ),
}
"""What is typed behind `sweet-rl`."""


@group("Options of ALFWorld")
class AlfworldOptions(Options):
    shuffle_action: bool = flag(False, "draw new labels for the commands at every step.")


@group("Options of ALFWorld for training")
class AlfworldLearning(AlfworldOptions):
    disable_alfworld: bool = flag(
        True, "has no effect: the planner is called when it is needed.", shown="all"
    )


@group("The games")
class AlfworldMeasured(Settings):
    shuffle_action: bool = flag(False, "draw new labels for the commands at every step.")


def levels(options: Options, request: LevelRequest) -> Sequence[Level]:
    """One level: the games of a list or file; by default a user's or the embedded ones, of the published goal."""
    from sweet_rl.records import task_from_row
    from sweet_rl.worlds.alfworld.game import published_household_tasks

    if request.tasks and not WORLD.learning.ignored(request.tasks, WORLD.tasks.sources, options.compat):
        return one_level(WORLD, options, request)
    split = "test" if request.measures else "train"
    return [Level(split, [task_from_row(row) for row in published_household_tasks(split)])]


def measured(flags: AlfworldMeasured, tasks: str | None, max_turns: int) -> Measured:
    """The held-out games with the published goal, or those of a list."""
    options = AlfworldOptions(max_turns=max_turns, shuffle_action=flags.shuffle_action)
    (level,) = levels(options, LevelRequest(tasks=tasks, measures=True))
    return Measured(WORLD.name, level.tasks, options)


def expert(game: TextGame) -> Expert | None:
    """The planner, with a thought for each of its actions."""
    from sweet_rl.reflect_data.teachers import Expert
    from sweet_rl.worlds.alfworld.game import HouseholdGame
    from sweet_rl.worlds.alfworld.players import thought

    if not isinstance(game, HouseholdGame):
        return None
    return Expert(
        lambda: partial(thought, game.text, game.commands, game.expert_plan(), None),
        lambda: game.expert_label() or game.labels[0],
    )


class Alfworld(TextGameWorld):
    """ALFWorld: tasks in a household, in text; made here, or of its data."""

    name = "alfworld"
    max_turns = 15
    options = AlfworldOptions
    tasks = TaskLists("alfworld:train", "alfworld:test", sources=("alfworld", "alfworld-data"))
    agents: ClassVar = {"planner": {}, "seeker": {}, "careless": {"skill": None}, "random": {}}
    learning = Learning(
        head=ACTION_HEAD,
        options=AlfworldLearning,
        levels=levels,
        ignores_files=True,
        expert=expert,
        flags=AlfworldMeasured,
        measured=measured,
    )
    threaded = True
    system_prompt = load_prompt("llm_agent_household_prompt")
    player_rules = (
        "Do the task in the household: type the number of an action. You carry one thing at a time. "
        "You have {turns} actions."
    )
    stages = STAGES

    def rows(self, source: str, where: str, *, limit: int | None, seed: int) -> Rows:
        from sweet_rl.worlds.alfworld.game import alfworld_data_tasks, household_tasks

        return alfworld_data_tasks(where) if source == "alfworld-data" else household_tasks(where, limit)

    @contextmanager
    def games(self, options: Options) -> Iterator[Callable[[], TextGame]]:
        from sweet_rl.worlds.alfworld.engine import Household
        from sweet_rl.worlds.alfworld.game import BLACKLIST, HouseholdGame

        rules = rules_of(self, options, "shuffle_action")
        with Household() as household:
            yield lambda: HouseholdGame(household, blacklist=BLACKLIST, **rules)

    async def make_agent(self, wanted: AgentRequest) -> Policy:
        import asyncio

        from sweet_rl.worlds.alfworld.engine import Household
        from sweet_rl.worlds.alfworld.players import HouseholdPlayer

        if wanted.name not in self.agents:
            raise no_agent(self, wanted.name)
        household = Household(workers=1)

        async def plan(source: str, done: Sequence[str]) -> Sequence[str]:
            return await asyncio.to_thread(household.plan, source, done)

        return HouseholdPlayer(
            wanted.name,
            plan,
            {task.task_id: str(task.row.get("game")) for task in wanted.tasks},
            skill=wanted.skill,
            system_prompt=wanted.system_prompt,
            on_close=household.close,
        )


WORLD = Alfworld()
