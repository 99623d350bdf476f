"""AutoExplore: find the file of a repository that answers a question."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import ClassVar, Final

from sweet_rl.contracts import Policy
from sweet_rl.prompts import load_prompt
from sweet_rl.text_game import TextGame
from sweet_rl.worlds.auto_explore.options import ACTION_HEAD, STAGES, ExploreLearning, ExploreOptions
from sweet_rl.worlds.base import Rows, no_agent, rules_of
from sweet_rl.worlds.options import AgentRequest, Learning, Level, LevelRequest, Options, TaskLists
from sweet_rl.worlds.text_games import TextGameWorld

LEARNED_TASKS: Final = "data/auto_explore/tasks_filtered/train.json"
"""Records that agents learn from unless others are named; as published they are measured on these, too."""

MEASURED_TASKS: Final = "data/auto_explore/tasks_filtered/test.json"
"""Records that agents are measured on unless others are named."""


def prepared(options: Options, request: LevelRequest) -> Options:
    """Embedded repositories for a list of ours; nothing is left out where an agent is measured."""
    if not isinstance(options, ExploreOptions):
        return options
    if (request.tasks or "").partition(":")[0] in AutoExplore.tasks.sources:
        options = replace(options, place=None)
    return replace(options, leaveout_prob=0.0) if request.measures else options


def levels(options: Options, request: LevelRequest) -> list[Level]:
    """Tasks of a list or of records, by the depth of their files where that is asked for."""
    from sweet_rl.records import task_from_row
    from sweet_rl.worlds.auto_explore.repositories import Library
    from sweet_rl.worlds.auto_explore.tasks import explore_tasks, levels_of, load_dataset, task_rows

    learning = options if isinstance(options, ExploreLearning) else ExploreLearning()
    compat = options.compat
    usual = MEASURED_TASKS if request.measures and compat != "published" else LEARNED_TASKS
    source, _, where = (request.tasks or usual).partition(":")
    if source in AutoExplore.tasks.sources:
        rows = explore_tasks(where)
    else:
        rows = task_rows(
            load_dataset(request.tasks or usual, compat=compat), easy=learning.easy, compat=compat
        )
        Library(learning.place).need_one({str(row["root"]) for row in rows})
    found = levels_of(map(task_from_row, rows), learning, easy=learning.easy, compat=compat)
    return [Level(f"level {number}", level) for number, level in enumerate(found)]


class AutoExplore(TextGameWorld):
    """AutoExplore: find the file of a repository that answers a question."""

    name = "auto_explore"
    max_turns = 15
    options = ExploreOptions
    tasks = TaskLists("auto-explore:train", "auto-explore:test")
    agents: ClassVar = {"planner": {}, "wanderer": {}}
    learning = Learning(head=ACTION_HEAD, options=ExploreLearning, levels=levels, prepared=prepared)
    system_prompt = load_prompt("llm_agent_explore_prompt")
    player_rules = (
        "Find the file that answers the question: type the label of a command. `cd` goes to a "
        "folder, `cat` shows a file, `id` hands it in and ends the game. You have {turns} commands."
    )
    stages = STAGES

    def rows(self, source: str, where: str, *, limit: int | None, seed: int) -> Rows:
        from sweet_rl.worlds.auto_explore.tasks import explore_tasks

        return explore_tasks(where)

    @contextmanager
    def games(self, options: Options) -> Iterator[Callable[[], TextGame]]:
        from sweet_rl.worlds.auto_explore.game import ExploreGame
        from sweet_rl.worlds.auto_explore.repositories import Library

        library = Library(getattr(options, "place", None))
        rules = rules_of(self, options, "leaveout_prob", "shuffle_action", "easy", "first_step")
        yield lambda: ExploreGame(library, **rules)

    async def make_agent(self, wanted: AgentRequest) -> Policy:
        from sweet_rl.worlds.auto_explore.game import PlanningExplorer, Wanderer

        if wanted.name == "wanderer":
            return Wanderer(system_prompt=wanted.system_prompt)
        if wanted.name != "planner":
            raise no_agent(self, wanted.name)
        targets = {task.task_id: task.ground_truth for task in wanted.tasks}
        return PlanningExplorer(targets, system_prompt=wanted.system_prompt)


WORLD = AutoExplore()
