"""The world that the flags ask for: Backend Programming, Frontend Design with browsers, or a game."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from sweet_rl.commands.games import GAMES, TASKS, GameFlags, open_game
from sweet_rl.commands.rendering import RenderFlags, make_renderer
from sweet_rl.contracts import Env, User
from sweet_rl.envs.parsing import PARSERS
from sweet_rl.errors import UsageError, no_such
from sweet_rl.rollout import Episode
from sweet_rl.types import Json, Task

TASK_TYPES = ("code", "html", *GAMES)
MOST_PAGES = 100
"""Frontend episodes at once, as published: more only wait for the browsers, with their pictures in memory."""


@dataclass(frozen=True, slots=True)
class WorldFlags:
    """The flags of a run that decide about its world; see `simulate_interactions`."""

    task_type: str
    max_steps: int
    parser: str
    user_failure: str
    compat: str
    temp_path: str | None
    rendering: RenderFlags
    place: str | None = None
    with_prompt: bool = False
    with_history: bool = False
    leaveout_prob: float = 0.0
    shuffle_action: bool = False

    @property
    def game(self) -> GameFlags:
        """The flags that a game needs, as one value for `open_game`."""
        return GameFlags(
            self.task_type,
            self.max_steps,
            self.compat,
            self.place,
            with_prompt=self.with_prompt,
            with_history=self.with_history,
            leaveout_prob=self.leaveout_prob,
            shuffle_action=self.shuffle_action,
        )

    def check(self) -> None:
        """Find what is wrong before anything is begun.

        Raises:
            UsageError: a flag has a value that it cannot have.
        """
        if self.task_type not in TASK_TYPES:
            raise no_such("world: --task_type", self.task_type, TASK_TYPES)
        for flag, value, allowed in (
            ("parser", self.parser, tuple(PARSERS)),
            ("user_failure", self.user_failure, ("reply", "stop")),
            ("compat", self.compat, ("fixed", "published")),
        ):
            if value not in allowed:
                raise UsageError(f"--{flag} must be {' or '.join(allowed)}, got {value!r}.")
        if not 0 <= self.leaveout_prob <= 1:
            raise UsageError(f"--leaveout_prob must be from 0 to 1, got {self.leaveout_prob}.")
        if self.task_type == "html":
            self.rendering.settings()

    def check_tasks(self, tasks: Sequence[Task], source: str) -> None:
        """Make sure that the tasks are of this world.

        Raises:
            UsageError: there are none, or they are the other world's.
        """
        if not tasks:
            raise UsageError(f"{source!r} holds no tasks.")
        games = {name for name in GAMES if all(task.task_id.startswith(f"{name}/") for task in tasks)}
        if games and self.task_type not in games:
            raise UsageError(f"{source!r} holds tasks of a game: add --task_type {games.pop()}.")
        if self.task_type in GAMES and not games:
            raise UsageError(
                f"{source!r} holds no tasks of {self.task_type}; use {TASKS[self.task_type][0]!r}, say."
            )
        pages = sum(task.ground_truth.lstrip().startswith("<") for task in tasks)
        if self.task_type == "code" and pages == len(tasks):
            raise UsageError(f"{source!r} holds web pages, not functions: add --task_type html.")
        if self.task_type == "html" and not pages:
            raise UsageError(
                f"{source!r} holds no web pages: no ground_truth begins with a tag. Leave --task_type out "
                "for functions."
            )

    def check_pictures(self) -> None:
        """Make sure that a new run overwrites no other run's pictures.

        Raises:
            UsageError: the folder that was named holds some.
        """
        if self.task_type == "html" and self.temp_path and any(Path(self.temp_path).glob("*.png")):
            raise UsageError(
                f"--temp_path {self.temp_path!r} holds pictures of another run. Choose another folder, pass "
                "--overwrite to draw over them, or --to_continue with that run's file."
            )

    def at_once(self, wanted: int) -> int:
        """How many of `wanted` episodes may run at a time: pages need a browser each."""
        return min(wanted, MOST_PAGES) if self.task_type == "html" else wanted

    def settings(self) -> dict[str, Json]:
        """What decides about the content of an episode: a file may be continued only with the same."""
        if self.task_type in GAMES:
            return self.game.settings()
        settings: dict[str, Json] = {
            "task_type": self.task_type,
            "max_steps": self.max_steps,
            "parser": self.parser,
            "user_failure": self.user_failure,
        }
        if self.task_type == "html":
            settings |= {
                "compat": self.compat,
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
    if flags.task_type in GAMES:
        async with open_game(flags.game, user) as make_game:
            yield make_game
        return
    stop = flags.user_failure == "stop"
    parser = PARSERS[flags.parser]
    if flags.task_type == "code":
        from sweet_rl.envs.backend import BackendEnv

        yield lambda: BackendEnv(user, max_steps=flags.max_steps, parser=parser, stop_on_user_failure=stop)
        return
    if flags.task_type != "html":
        raise no_such("world", flags.task_type, TASK_TYPES)
    from sweet_rl.envs.frontend import FrontendEnv
    from sweet_rl.envs.pictures import PictureFolder

    output = Path(output_path)
    pictures = PictureFolder(
        Path(flags.temp_path) if flags.temp_path else output.with_name(f"{output.stem}_images"),
        beside=output.parent,
        samples={(episode.task.task_id, episode.seed): episode.sample_index for episode in episodes},
    )
    async with make_renderer(flags.rendering) as renderer:
        yield lambda: FrontendEnv(
            user,
            renderer,
            pictures,
            max_steps=flags.max_steps,
            parser=parser,
            stop_on_user_failure=stop,
            forget_answer=flags.compat == "published",
        )
