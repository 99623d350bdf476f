"""The contracts between packages: `Env`, `User`, `Policy`, `Sampler`, `Grader`.

They are Protocols: nothing needs to inherit from them. tests/test_conformance.py holds every world, user and
policy of the library to these contracts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from sweet_rl.types import (
    Completion,
    Generation,
    Observation,
    Score,
    StepResult,
    Task,
    Trajectory,
    UserContext,
    UserReply,
)


class Env(Protocol):
    """A world. One fresh Env for each episode, so that it needs no locks and no clean-up between episodes."""

    async def reset(self, task: Task, *, seed: int) -> Observation:
        """Begin the episode and return the first observation."""

    async def step(self, action: str) -> StepResult:
        """Take the agent's raw text. After the end it changes nothing and returns no observation.

        The step that ends an episode says so by `terminated` or `truncated`; it may bring the world's last
        words as an observation, which is not answered. An `EpisodeError` is recorded by the loop.
        """

    async def close(self) -> None:
        """Free what the episode holds. May be called at any time, more than once."""


class User(Protocol):
    """The simulated human, or an oracle. One object serves many episodes and keeps no state of them."""

    name: str

    async def reply(self, context: UserContext) -> UserReply:
        """Answer the agent's last message; `UserReply.failure` says why there is no answer."""

    async def close(self) -> None:
        """Close connections and files; the user is not asked again."""


class Policy(Protocol):
    """An agent. Many episodes call `act` at once; a policy whose engine likes batches gathers them."""

    name: str

    async def act(self, observation: Observation) -> Generation:
        """One turn; `EpisodeError` where this episode cannot continue, `ServiceError` where the run cannot."""

    async def close(self) -> None:
        """Free the model, or stop the server that this policy started."""


class Sampler(Protocol):
    """What a policy with a model behind it also offers: many completions of given prompt strings."""

    async def sample(
        self, prompts: Sequence[str], n: int, *, seeds: Sequence[int] | None = None
    ) -> list[list[Completion]]:
        """`n` completions for each prompt, in order. Prompts are tokenised as they are, no token is added.

        `seeds` has one for each prompt; without it a prompt's samples are the same in every call.
        """


class Grader(Protocol):
    """Trajectories to scores, in order; knows nothing of rollouts, so that old runs can be re-scored."""

    def grade(self, trajectories: Iterable[Trajectory]) -> Iterator[Score]:
        """Yield one score for each trajectory, in order, as they become known."""
