"""A world as a run plays it: its levels, when each starts, and its games.

Published behaviour: docs/published/reflect_rl.md#curriculum, #online-loop, #deviations.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sweet_rl.errors import EpisodeError, UsageError
from sweet_rl.online.reflect.settings import ReflectSettings
from sweet_rl.text_game import TextGame
from sweet_rl.types import Compat, Task, derive_seed
from sweet_rl.worlds import Level, LevelRequest


def starts_of(sizes: Sequence[int], max_steps: int, *, compat: Compat = "fixed") -> list[int]:
    """The iteration with which each level begins: levels get iterations by their number of items.

    With less iterations than items the published rule lets every level begin at 0, and then only the first is
    played; ours divides further.
    """
    total = sum(sizes)
    before = [sum(sizes[:level]) for level in range(len(sizes))]
    per_item = max_steps // total if total else 0
    if per_item or compat == "published":
        return [per_item * items for items in before]
    return [max_steps * items // max(1, total) for items in before]


def equal_starts(levels: int, max_steps: int) -> list[int]:
    """The same for levels that get as many iterations each."""
    return [level * max_steps // levels for level in range(levels)]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run is in its data: a level, a pass over it, how much of the pass is over."""

    level: int = -1
    passed: int = 0
    position: int = 0

    def state(self) -> dict[str, int]:
        """The place as plain data for a checkpoint; `Schedule.restore` takes it back."""
        return {"level": self.level, "passed": self.passed, "position": self.position}


class Schedule:
    """Draws an iteration's items from the levels' items.

    Args:
        batch: items of an iteration; the last ones of a pass may be fewer.
        compat: "published": levels that begin together are one turn.
    """

    def __init__(
        self, sizes: Sequence[int], starts: Sequence[int], *, batch: int, seed: int, compat: Compat = "fixed"
    ) -> None:
        self._sizes, self._batch, self._seed = sizes, batch, seed
        self._starts = sorted(set(starts)) if compat == "published" else list(starts)
        self.place = Place()

    def level_at(self, iteration: int) -> int:
        """The level that an iteration plays, counted from 0."""
        return max(0, bisect_right(self._starts, iteration) - 1)

    def draw(self, iteration: int) -> tuple[bool, int, list[int]]:
        """Whether a level begins, which it is, and the items that are played now."""
        level = max(self.level_at(iteration), self.place.level)  # a run that became longer goes no level back
        begins = level != self.place.level
        if begins:
            self.place = Place(level)
        at = self.place
        order = list(range(self._sizes[level]))
        random.Random(derive_seed(self._seed, "order", level, at.passed)).shuffle(order)
        items = order[at.position : at.position + self._batch]
        end = at.position + self._batch
        over = end >= len(order)
        self.place = Place(level, at.passed + over, 0 if over else end)
        return begins, level, items

    def restore(self, state: Any) -> None:
        """Continue at the place that `place.state()` gave."""
        self.place = Place(int(state["level"]), int(state["passed"]), int(state["position"]))


@dataclass(frozen=True, slots=True)
class Playground:
    """What is played.

    Attributes:
        starts: the iterations with which they begin.
        labels: every label that can be offered.
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
    levels = chosen(world.levels(settings.rules, request), settings)
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


def chosen(levels: Sequence[Level], settings: ReflectSettings) -> Sequence[Level]:
    """All levels or the one that is asked for; of the first one only a few tasks where that is asked for."""
    index = settings.curriculum_index
    if index >= len(levels):
        raise UsageError(
            f"--curriculum_index must be below {len(levels)}, the number of levels, got {index}; -1 takes "
            "all."
        )
    left, few = levels if index < 0 else levels[index : index + 1], settings.few_data
    return [Level(left[0].name, left[0].tasks[:few])] if few and left else left


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
