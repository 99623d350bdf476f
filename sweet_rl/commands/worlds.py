"""The world that the flags ask for, with its options, its browsers and its pictures."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sweet_rl.commands.rendering import RenderFlags, make_renderer
from sweet_rl.contracts import Env, User
from sweet_rl.errors import UsageError
from sweet_rl.rollout import Episode
from sweet_rl.types import Json, Task
from sweet_rl.worlds import Options, World, names, options_of, world_of
from sweet_rl.worlds.dialogue.parsing import PARSERS
from sweet_rl.worlds.frontend_design import DesignOptions

MOST_PAGES = 100
"""Frontend episodes at once, as published: more only wait for the browsers, with their pictures in memory."""


@dataclass(frozen=True, slots=True)
class WorldFlags:
    """The flags of a run that decide about its world; see `simulate_interactions`.

    Args:
        task_type: the world's name.
        values: of all options that may be given, whichever world has them.
        rendering: how pages are drawn, in worlds that draw some.
        temp_path: where their pictures go.
    """

    task_type: str
    values: Mapping[str, Any] = field(default_factory=dict)
    rendering: RenderFlags = field(default_factory=RenderFlags)
    temp_path: str | None = None

    @property
    def world(self) -> World:
        """The world itself.

        Raises:
            UsageError: there is none of this name.
        """
        return world_of(self.task_type)

    @property
    def options(self) -> Options:
        """The world's options with the values of the flags."""
        return options_of(self.world, self.values)

    @property
    def draws_pages(self) -> bool:
        """Whether the world renders pages, and so needs browsers."""
        return issubclass(self.world.options, DesignOptions)

    def check(self) -> None:
        """Find what is wrong before anything is begun.

        Raises:
            UsageError: a flag has a value that it cannot have.
        """
        options = self.options
        allowed = {
            "parser": tuple(PARSERS),
            "user_failure": ("reply", "stop"),
            "compat": ("fixed", "published"),
        }
        for flag, choices in allowed.items():
            if (value := getattr(options, flag, choices[0])) not in choices:
                raise UsageError(f"--{flag} must be {' or '.join(choices)}, got {value!r}.")
        if not 0 <= getattr(options, "leaveout_prob", 0.0) <= 1:
            raise UsageError(f"--leaveout_prob must be from 0 to 1, got {self.values['leaveout_prob']}.")
        if self.draws_pages:
            self.rendering.settings()

    def check_tasks(self, tasks: Sequence[Task], source: str) -> None:
        """Make sure that the tasks are of this world.

        Raises:
            UsageError: there are none, or they are the other world's.
        """
        if not tasks:
            raise UsageError(f"{source!r} holds no tasks.")
        world, prefix = self.world, tasks[0].task_id.partition("/")[0]
        others = {name for name in names() if name == prefix and world_of(name).answered_by != "human"}
        others = {name for name in others if all(task.task_id.startswith(f"{name}/") for task in tasks)}
        if others and world.name not in others:
            raise UsageError(f"{source!r} holds tasks of a game: add --task_type {others.pop()}.")
        if why := world.refuses(tasks):
            raise UsageError(f"{source!r} {why}")

    def check_pictures(self) -> None:
        """Make sure that a new run overwrites no other run's pictures.

        Raises:
            UsageError: the folder that was named holds some.
        """
        if self.draws_pages and self.temp_path and any(Path(self.temp_path).glob("*.png")):
            raise UsageError(
                f"--temp_path {self.temp_path!r} holds pictures of another run. Choose another folder, pass "
                "--overwrite to draw over them, or --to_continue with that run's file."
            )

    def at_once(self, wanted: int) -> int:
        """How many of `wanted` episodes may run at a time: pages need a browser each."""
        return min(wanted, MOST_PAGES) if self.draws_pages else wanted

    def settings(self) -> dict[str, Json]:
        """What decides about the content of an episode: a file may be continued only with the same."""
        settings = self.world.settings(self.options)
        if self.draws_pages:
            settings |= {
                "browser": self.rendering.browser,
                "network": self.rendering.network,
                "allow_scripts": self.rendering.allow_scripts,
                "viewport": self.rendering.viewport,
            }
        return settings


@asynccontextmanager
async def open_world(
    flags: WorldFlags, user: User, episodes: Sequence[Episode], output_path: str
) -> AsyncIterator[Callable[[], Env]]:
    """What makes a fresh world for each episode; browsers stop with the block.

    Raises:
        UsageError: there is no such world; no browser is installed.
    """
    options = flags.options
    if not isinstance(options, DesignOptions):
        async with flags.world.open(options, user) as make_env:
            yield make_env
        return
    from sweet_rl.worlds.frontend_design.pictures import PictureFolder

    output = Path(output_path)
    pictures = PictureFolder(
        Path(flags.temp_path) if flags.temp_path else output.with_name(f"{output.stem}_images"),
        beside=output.parent,
        samples={(episode.task.task_id, episode.seed): episode.sample_index for episode in episodes},
    )
    async with make_renderer(flags.rendering) as renderer:
        drawing = replace(options, renderer=renderer, pictures=pictures)
        async with flags.world.open(drawing, user) as make_env:
            yield make_env
