"""The contracts between packages: `Env`, `User`, `Policy`, `Sampler`, `Grader`.

They are Protocols: nothing needs to inherit from them. tests/test_conformance.py holds every world, user and
policy of the library to these contracts.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from sweet_rl.errors import SweetRLError, UsageError, of_own
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

Answer = TypeVar("Answer")


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


def check_contract(player: Any, whose: str, method: str) -> None:
    """Whether who was made, by anyone's class, keeps the contract."""
    lacking = [] if hasattr(player, "name") else ["name"]
    for one in (method, "close"):
        if not inspect.iscoroutinefunction(getattr(player, one, None)):
            lacking.append(f"async def {one}")
    if lacking:
        kind = "User" if method == "reply" else "Policy"
        problem = f"which has no `{'` and no `'.join(lacking)}`: write it (sweet_rl.{kind})."
        raise UsageError(f"The {whose} is {player!r}, {problem}")


class HeldEnv:
    """An Env whose answers are looked at: results that are some, rewards that are numbers, an end."""

    def __init__(self, env: Env, world: str, turns: int) -> None:
        self._env, self._whose, self._turns, self._taken = env, f"the Env of {world}", turns, 0

    async def reset(self, task: Task, *, seed: int) -> Observation:
        """Begin the episode."""
        self._taken = 0
        return await self._asked("reset", self._env.reset(task, seed=seed), Observation)

    async def step(self, action: str) -> StepResult:
        """Take the agent's text."""
        found = await self._asked("step", self._env.step(action), StepResult)
        self._taken += 1
        wrong = ""
        if found.reward is not None and not math.isfinite(found.reward):
            wrong = f"gave the reward {found.reward}: it must be a finite number, or None where the turn is not rewarded"
        elif not found.over and found.observation is None:
            wrong = "gave no observation and no end: return the next one, or terminated=True, or truncated=True at the last turn"
        elif not found.over and self._taken > 2 * self._turns + 10:
            wrong = f"goes on after {self._taken} turns, and its world says {self._turns} at most (`max_turns`): return truncated=True there, as `BaseEnv(self.turns(options), user)` does"
        if wrong:
            raise UsageError(f"`step` of {self._whose} {wrong}.")
        return found

    async def close(self) -> None:
        """Free what the episode holds."""
        await self._env.close()

    async def _asked(self, what: str, answer: Any, kind: type[Answer]) -> Answer:
        try:
            found = await answer
        except SweetRLError:
            raise
        except Exception as error:
            raise of_own(f"`{what}` of {self._whose}", error) from error
        if not isinstance(found, kind):
            raise UsageError(
                f"`{what}` of {self._whose} must return a sweet_rl.{kind.__name__}; got {found!r:.80}."
            )
        return found
