"""A world as a run plays it: its levels, when each starts, and its games.

Published behaviour: docs/published/reflect_rl.md#curriculum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sweet_rl.algorithms.reflect.schedule import equal_starts, starts_of
from sweet_rl.algorithms.reflect.settings import ReflectSettings
from sweet_rl.errors import EpisodeError, UsageError
from sweet_rl.text_game import TextGame
from sweet_rl.types import Task
from sweet_rl.worlds import Level, LevelRequest


@dataclass(frozen=True, slots=True)
class Playground:
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
def open_playground(settings: ReflectSettings, *, measures: bool = False) -> Iterator[Playground]:
    """The world of the settings; what its games share is freed with the block."""
    world = settings.world
    # A published level has as many entries as a micro-batch has rows, so an iteration plays no more.
    batch = (
        settings.per_device_train_batch_size if settings.published else settings.per_device_eval_batch_size
    )
    request = LevelRequest(tasks=settings.task_file or None, measures=measures, entries=batch)
    levels = _chosen(world.levels(settings.rules, request), settings)
    if not levels or not all(level.tasks for level in levels):
        raise UsageError(
            f"There is nothing to play: --task_file {settings.task_file!r} has no task for a level of "
            "the curriculum. --curriculum_index takes one level."
        )
    sizes = [len(level.tasks) for level in levels]
    starts = (
        equal_starts(len(sizes), settings.max_steps)
        if world.equal_levels
        else starts_of(sizes, settings.max_steps, compat=settings.compat)
    )
    with world.games(world.prepared(settings.rules, request)) as make_game:
        yield Playground(
            [level.tasks for level in levels],
            [level.name for level in levels],
            starts,
            world.labels,
            make_game,
        )


def _chosen(levels: Sequence[Level], settings: ReflectSettings) -> Sequence[Level]:
    """All levels or the one that is asked for; of the first one only a few tasks where that is asked for."""
    index = settings.curriculum_index
    if index >= len(levels):
        raise UsageError(
            f"--curriculum_index must be below {len(levels)}, the number of levels, got {index}; -1 takes "
            "all."
        )
    chosen = levels if index < 0 else levels[index : index + 1]
    few = settings.few_data
    return [Level(chosen[0].name, chosen[0].tasks[:few])] if few and chosen else chosen


def sample_texts(ground: Playground, count: int = 48) -> list[str]:
    """Prompts of some first states, and of those a few steps later: what a tokenizer may learn from."""
    texts: list[str] = []
    tasks = [task for level in ground.levels for task in level]
    for number in range(count):
        game = ground.make_game()
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
