"""The three worlds as the flags ask for them: tasks in levels, and games.

Published behaviour: docs/published/reflect_rl.md#curriculum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from sweet_rl.algorithms.reflect.curriculum import LevelFlags, levels_of, taxi_levels
from sweet_rl.algorithms.reflect.schedule import starts_of, thirds
from sweet_rl.algorithms.reflect.settings import ENVS, ReflectSettings
from sweet_rl.chat.reflect_format import CHOICES
from sweet_rl.errors import EpisodeError, UsageError, no_such
from sweet_rl.records import task_from_row
from sweet_rl.text_game import TextGame
from sweet_rl.types import Task
from sweet_rl.worlds.auto_explore.repositories.library import Library


@dataclass(frozen=True, slots=True)
class World:
    """What is played.

    Attributes:
        levels: of the curriculum; tasks of each.
        names: of the levels.
        starts: the iterations with which they begin.
        labels: every label that can be offered.
        make_game: a fresh game for each episode.
    """

    levels: Sequence[Sequence[Task]]
    names: Sequence[str]
    starts: Sequence[int]
    labels: Sequence[str]
    make_game: Callable[[], TextGame]


@contextmanager
def open_world(settings: ReflectSettings, *, evaluates: bool = False) -> Iterator[World]:
    """The world of the flags; what its games share is freed with the block.

    Args:
        settings: of the run.
        evaluates: nothing is left out of repositories; alfworld plays the games that are held out.

    Raises:
        UsageError: tasks or packages are missing.
        DataError: a task is wrong.
    """
    with ExitStack() as stack:
        if settings.env == "taxi":
            world = _taxi(settings)
        elif settings.env == "auto_explore":
            world = _explore(settings, evaluates=evaluates)
        elif settings.env == "alfworld":
            world = _household(settings, stack, evaluates=evaluates)
        else:
            raise no_such("world: --env", settings.env, ENVS)
        if not all(world.levels) or not world.levels:
            raise UsageError(
                f"There is nothing to play: --task_file {settings.task_file!r} has no task for a level of "
                "the curriculum. Tasks need a question and trajectories; --curriculum_index takes one level."
            )
        yield world


def _taxi(settings: ReflectSettings) -> World:
    from sweet_rl.worlds.dangerous_taxi.game import TaxiGame  # noqa: PLC0415 - of the worlds only this one's
    from sweet_rl.worlds.dangerous_taxi.tasks import taxi_row, taxi_tasks  # noqa: PLC0415

    # A published level has as many entries as a micro-batch has rows, so an iteration plays no more.
    batch = settings.per_device_train_batch_size if settings.strict else settings.per_device_eval_batch_size
    index = settings.curriculum_index
    if settings.task_file.startswith("taxi"):
        where = settings.task_file.partition(":")[2]
        levels, names = [[task_from_row(row) for row in taxi_tasks(where)]], [where or "full"]
    else:
        drawn = taxi_levels(batch, curriculum=settings.taxi_curriculum, index=index)
        names = [str(level[0] or "none") for level in drawn]
        levels = [
            [task_from_row({**taxi_row(name), "task_id": f"dangerous_taxi/{name}/{n}"}) for n in range(batch)]
            for name in names
        ]

    def game() -> TextGame:
        return TaxiGame(
            horizon=settings.horizon,
            with_prompt=settings.with_prompt,
            with_history=settings.with_history,
            strict=settings.strict,
        )

    return World(levels, names, thirds(len(levels), settings.max_steps), TaxiGame.max_labels, game)


def _explore(settings: ReflectSettings, *, evaluates: bool) -> World:
    from sweet_rl.worlds.auto_explore.game import ExploreGame  # noqa: PLC0415 - of the worlds only this one's
    from sweet_rl.worlds.auto_explore.tasks import explore_tasks, load_dataset, task_rows  # noqa: PLC0415

    name, _, where = settings.task_file.partition(":")
    if name == "auto-explore":
        rows, library = explore_tasks(where), Library()
    else:
        records = load_dataset(settings.task_file, strict=settings.strict)
        rows = task_rows(records, easy=settings.easy, strict=settings.strict)
        library = Library(settings.repo_dir)
        _need_one(library, {str(row["root"]) for row in rows})
    flags = LevelFlags(
        depth_curriculum=settings.depth_curriculum,
        merge_first_two=settings.merge_first_two,
        merge_after_first_k=settings.merge_after_first_k,
        few_data=settings.few_data,
        easy=settings.easy,
        curriculum_index=settings.curriculum_index,
        strict=settings.strict,
    )
    found = levels_of(
        rows,
        flags,
        paths=lambda row: [str(path) for path in row["targets"]],
        question=lambda row: str(row.get("question") or row.get("problem_description") or ""),
    )
    levels = [[task_from_row(row) for row in level] for level in found]

    def game() -> TextGame:
        return ExploreGame(
            library,
            horizon=settings.horizon,
            leaveout_prob=0.0 if evaluates else settings.leaveout_prob,
            shuffle_action=settings.shuffle_action,
            easy=settings.easy,
            first_step=settings.first_step,
            strict=settings.strict,
        )

    sizes = [len(level) for level in levels]
    starts = starts_of(sizes, settings.max_steps, strict=settings.strict)
    return World(levels, [f"level {n}" for n in range(len(levels))], starts, CHOICES, game)


def _need_one(library: Library, roots: set[str]) -> None:
    """A repository that is missing spoils its own episodes; where all are, the folder is another one.

    Raises:
        UsageError: names a repository and the folder.
    """
    absent: UsageError | None = None
    for root in sorted(roots):
        try:
            library.get(root)
        except UsageError as error:
            absent = absent or error
        else:
            return
    if absent is not None:
        raise absent


def _household(settings: ReflectSettings, stack: ExitStack, *, evaluates: bool) -> World:
    from sweet_rl.worlds.alfworld.game import HouseholdGame  # noqa: PLC0415 - of the worlds only this one's
    from sweet_rl.worlds.alfworld.homes import TOMATO, data_folder  # noqa: PLC0415
    from sweet_rl.worlds.alfworld.household import Household  # noqa: PLC0415 - of the worlds only this one's
    from sweet_rl.worlds.alfworld.tasks import alfworld_data_tasks, household_tasks  # noqa: PLC0415

    split = "test" if evaluates else "train"
    name, _, where = settings.task_file.partition(":")
    if name == "alfworld":
        rows = household_tasks(where)
    elif name == "alfworld-data" or data_folder() is not None:
        rows = alfworld_data_tasks(where if name == "alfworld-data" else split)
    else:
        rows = household_tasks(f"{TOMATO}:{split}")
    tasks = [task_from_row(row) for row in rows]
    engine = Household()
    stack.callback(engine.close)

    def game() -> TextGame:
        return HouseholdGame(
            engine, horizon=settings.horizon, shuffle_action=settings.shuffle_action, strict=settings.strict
        )

    return World([tasks], [where or split], [0], CHOICES, game)


def sample_texts(world: World, count: int = 48) -> list[str]:
    """Prompts of some first states, and of those a few steps later: what a tokenizer may learn from."""
    texts: list[str] = []
    tasks = [task for level in world.levels for task in level]
    for number in range(count):
        game = world.make_game()
        try:
            texts += [game.instruction, game.reset(tasks[number % len(tasks)], seed=number)]
            for step in range(3):
                moved = game.step(game.labels[(number + step) % len(game.labels)])
                texts.append(moved.text)
                if moved.over:
                    break
        except EpisodeError:
            continue
        finally:
            game.close()
    return texts
