"""Episodes of any world as games of labels, for algorithms that step many games at once.

What stands in a prompt is the world's transcript; the label is what its `Env` is given.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from sweet_rl.chat.formats import ChatFormat
from sweet_rl.chat.reflect_format import offered_commands
from sweet_rl.contracts import Env, User
from sweet_rl.errors import EpisodeError, UsageError
from sweet_rl.text_game import GameStep, TextGame
from sweet_rl.types import Failure, Json, Observation, Task

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Look:
    """How a world's episodes look as games; see `TextGame`."""

    transcript: ChatFormat
    head: str
    instruction: str
    labels: Sequence[str]
    success_threshold: float
    succeeded: Callable[[float, Mapping[str, Json]], bool | None]
    """By the sum of an episode's rewards, and what its steps said in their `info`."""


@contextmanager
def games_of(
    opening: AbstractAsyncContextManager[Callable[[], Env]], user: User | None, look: Look
) -> Iterator[Callable[[], TextGame]]:
    """What makes a fresh game. Its coroutines run in a thread of their own, one at a time.

    Args:
        user: who answers in them, if anyone; closed at the end.
    """
    with _Thread() as thread:
        make_env = thread.run(opening.__aenter__())
        try:
            yield lambda: PlayedEnv(look, make_env, thread)
        finally:
            thread.run(opening.__aexit__(None, None, None))
            if user is not None:
                thread.run(user.close())


class _Thread:
    """A thread with an event loop: whoever waits for it may have a running one."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="games")
        self._runner = asyncio.Runner()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._executor.submit(self._runner.run, work).result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.submit(self._runner.close).result()
        self._executor.shutdown()


class PlayedEnv:
    """One episode of an `Env` as a `TextGame`.

    The `info` of its last step says whether it `succeeded`, where the world knows.

    Attributes:
        observation: what the world's own agents are shown; None before the first reset.
    """

    def __init__(self, look: Look, make_env: Callable[[], Env], thread: _Thread) -> None:
        self.head, self.instruction, self.max_labels = look.head, look.instruction, look.labels
        self.success_threshold = look.success_threshold
        self.text = ""
        self.observation: Observation | None = None
        self._transcript, self._succeeded = look.transcript, look.succeeded
        self._return, self._told = 0.0, dict[str, Json]()
        self._make_env, self._run = make_env, thread.run
        self._env: Env | None = None

    @property
    def labels(self) -> Sequence[str]:
        """The available labels; every label where the text has no list."""
        return tuple(offered_commands(self.text, self.head)) or self.max_labels

    def reset(self, task: Task, *, seed: int) -> str:
        """Begin an episode of the task and return `text`."""
        self.close()
        self._env = env = self._make_env()
        self._return, self._told = 0.0, {}
        return self._see(self._run(env.reset(task, seed=seed)))

    def step(self, label: str) -> GameStep:
        """Give the label to the world; a turn without a reward counts as 0.

        Raises:
            EpisodeError: the world broke.
            UsageError: the episode is over, and the world does not say whether it is a success.
        """
        if self._env is None:
            return GameStep(self.text, 0.0, terminated=True, truncated=False, info={})
        result = self._run(self._env.step(label))
        if result.stop_reason is not None and result.stop_reason.failed:
            unknown = Failure(result.stop_reason, "the world ended the episode without saying why")
            raise EpisodeError(result.stop_reason, (*result.failures, unknown)[0])
        self._see(result.observation)
        reward = result.reward or 0.0
        self._return += reward
        self._told |= result.info
        info = dict(result.info)
        if result.terminated or result.truncated:
            info["succeeded"] = self._succeeded(self._return, self._told)
            if info["succeeded"] is None:
                raise UsageError(
                    "This world does not say what a success is, which is learned from and counted here: let its last "
                    "step's info tell {'game': {'won': ...}}, or give it `success_return(options)` (docs/reflect.md)."
                )
        return GameStep(self.text, reward, result.terminated, result.truncated, info)

    def close(self) -> None:
        """End the episode, if one was started."""
        env, self._env = self._env, None
        if env is not None:
            self._run(env.close())

    def _see(self, observation: Observation | None) -> str:
        if observation is not None:
            self.observation = observation
            self.text = self._transcript.render(observation.messages)
        return self.text
