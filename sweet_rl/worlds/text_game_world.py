"""Worlds whose core is a `TextGame`: each says how to build it, and is played turn by turn."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import ClassVar, Final

from sweet_rl.chat.formats import LastObservation
from sweet_rl.contracts import Env, User
from sweet_rl.worlds.base import World
from sweet_rl.worlds.options import Options

ACTION_HEAD: Final = "\nThe actions you can take now is:"
"""What begins the list of actions, which ends a prompt, in the published games."""


class TextGameWorld(World):
    """Subclasses write `games`.

    Attributes:
        threaded: a game waits for files or processes, and is played in a thread.
    """

    threaded: ClassVar[bool] = False

    @asynccontextmanager
    async def open(self, options: Options, user: User | None) -> AsyncIterator[Callable[[], Env]]:
        """Games as environments; what they share is freed with the block."""
        from sweet_rl.worlds.text_game_env import TextGameEnv  # with asyncio, which --help does not load

        with self.games(options) as make_game:
            yield lambda: TextGameEnv(make_game, threaded=self.threaded)

    def transcript(self) -> LastObservation:
        """The game's last message: each one has the whole state."""
        return LastObservation()
