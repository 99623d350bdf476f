"""The shared part of Reflect-RL's worlds: the whole state as one text, an action as one label.

`TextGame` is the plain synchronous core of each: batched rollouts and data generators drive it directly. The
`Env` of the same world is a thin adapter over it, for the loop that plays every world.

Published behaviour: docs/published/reflect_rl.md#episodes, #models, #curriculum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from sweet_rl.errors import EpisodeError
from sweet_rl.types import Failure, Json, StopReason, Task


class GameStep(NamedTuple):
    """What one label did.

    `terminated` and `truncated` are as published and may both be true. `info["won"]` is whether the game's
    own goal was reached with this step; further keys are the world's.
    """

    text: str
    """The prompt of the state after it; the last one's where the world says nothing at the end."""
    reward: float
    terminated: bool
    truncated: bool
    info: Mapping[str, Json]

    @property
    def over(self) -> bool:
        """Whether the episode ended with this step."""
        return self.terminated or self.truncated

    @property
    def cost(self) -> float:
        """What the step cost: published code counts costs, we count rewards."""
        return -self.reward


def bad_task(task: Task, detail: str, kind: str = "bad_task") -> EpisodeError:
    """The error for a task that cannot be played; `detail` says what is wrong with it."""
    return EpisodeError(StopReason.WORLD_FAILED, Failure(kind, f"task {task.task_id!r}: {detail}"))


class TextGame(Protocol):
    """One game; can be reset any number of times. It blocks, and must not be shared between threads."""

    @property
    def head(self) -> str: ...  # what begins the list of actions; "" where a prompt has none
    @property
    def instruction(self) -> str: ...  # before the state when an agent reflects; "" where there is none
    @property
    def max_labels(self) -> Sequence[str]: ...  # every label that any state can offer: rows of a shrunk head
    @property
    def text(self) -> str: ...  # the whole prompt of the current state, the list of actions included
    @property
    def labels(self) -> Sequence[str]: ...  # on offer now, in the order of the list
    @property
    def success_threshold(self) -> float: ...  # an episode of this task succeeds when its costs sum to less

    def reset(self, task: Task, *, seed: int) -> str:
        """Begin the task's game and return `text`. Whatever is drawn depends on the task and the seed alone."""

    def step(self, label: str) -> GameStep:
        """Take the agent's raw text as a label. One that is not on offer has a defined outcome, no error."""

    def close(self) -> None:
        """Free what the game holds. May be called at any time, more than once."""
