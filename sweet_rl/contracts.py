"""The contracts between packages: `Env`, `User`, `Policy`, `Sampler`, `Grader`.

They are Protocols: nothing needs to inherit from them. tests/test_conformance.py holds every world, user and
policy of the library to these contracts.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final, Protocol, TypeVar

from sweet_rl.errors import UsageError, own_code
from sweet_rl.types import (
    Completion,
    Generation,
    Message,
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
    if inspect.iscoroutine(player):
        player.close()
        raise UsageError(f"The {whose} is a coroutine: what makes it must be written `def`, not `async def`.")
    methods = ("reset", "step", "close") if method == "step" else (method, "close")
    lacking = [] if method == "step" or hasattr(player, "name") else ["name"]
    lacking += [
        f"async def {one}" for one in methods if not inspect.iscoroutinefunction(getattr(player, one, None))
    ]
    if lacking:
        kind = {"reply": "User", "act": "Policy", "step": "Env"}[method]
        problem = f"which has no `{'` and no `'.join(lacking)}`: write it (sweet_rl.{kind})."
        raise UsageError(f"The {whose} is {player!r}, {problem}")


_ASYNC: Final = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def check_async(kind: type, base: type, *either: str) -> None:
    """Raise a UsageError for a method that is `async def` where that of the base is not, or the other way round."""
    for name, wanted in vars(base).items():
        own = getattr(kind, name)
        if inspect.isfunction(own) and inspect.isfunction(wanted) and name not in either:
            awaits = wanted.__code__.co_flags & _ASYNC
            if bool(awaits) != bool(own.__code__.co_flags & _ASYNC):
                write = f"{'async ' if awaits else ''}def {name}"
                raise UsageError(f"`{name}` of {kind.__name__} must be written `{write}`.")


_WANTED: Final[Mapping[type, str]] = {
    Observation: 'sweet_rl.Observation(task_id, (sweet_rl.Message("user", text), ...), seed)',
    StepResult: "sweet_rl.StepResult(content, output, observation, reward, terminated, truncated), the first two str",
    Generation: "sweet_rl.Generation(prompt, sweet_rl.Completion(text))",
    UserReply: "sweet_rl.UserReply(text)",
}
"""What the parts of a world return, as a person writes it."""


async def held(whose: str, part: Any, method: str, kind: type[Answer], *given: Any, **named: Any) -> Answer:
    """What a person's own part answers; a UsageError that names part and line where that is not what it has to be."""
    what = f"`{method}` of {whose}"
    with own_code(what):
        found = await getattr(part, method)(*given, **named)
    match found:
        case (
            Observation(messages=[*_, Message(content=str())])
            | StepResult(
                content=str(), output=str(), observation=None | Observation(messages=[*_, Message()])
            )
            | Generation(completion=Completion(text=str()))
            | UserReply(content=str())
        ) if isinstance(found, kind):
            if not any(inspect.isawaitable(getattr(found, one.name)) for one in fields(found)):  # type: ignore[arg-type]
                return found
    raise wrong_answer(what, _WANTED[kind], found)


def wrong_answer(whose: str, wanted: str, found: object) -> UsageError:
    """The error for what a person's own part has returned."""
    hint = " A way through it ends without `return`." if found is None else ""
    if made := re.search(r"<coroutine object (\S+)", repr(found)):
        hint = f" Write `await` before the call of `{made[1]}`."
    return UsageError(f"{whose} must return {wanted}; got {found!r:.200} ({type(found).__name__}).{hint}")


class HeldPlayer:
    """A person's own agent or human, whose answers are looked at; the rest is its own."""

    def __init__(self, player: Any, whose: str) -> None:
        self.policy, self._whose = player, whose

    def __getattr__(self, name: str) -> Any:
        if name == "system_prompt":  # is given to the agent itself (`policies.instructed`)
            raise AttributeError(name)
        return getattr(vars(self).get("policy"), name)

    async def act(self, observation: Observation) -> Generation:
        """One turn of the agent."""
        return await held(self._whose, self.policy, "act", Generation, observation)

    async def reply(self, context: UserContext) -> UserReply:
        """The human's answer."""
        return await held(self._whose, self.policy, "reply", UserReply, context)


class HeldEnv:
    """An Env whose answers are looked at: results that are some, rewards that are numbers, an end."""

    def __init__(self, make: Callable[[], Env], world: str, turns: int) -> None:
        self._whose, self._turns, self._taken = f"the Env of {world}", turns, 0
        hint = "`make_env` returns a new Env, or `open` yields a function that does."
        with own_code(f"What makes an Env of {world}", hint):
            self._env = make()
        check_contract(self._env, self._whose.removeprefix("the "), "step")

    async def reset(self, task: Task, *, seed: int) -> Observation:
        """Begin the episode."""
        self._taken = 0
        return await held(self._whose, self._env, "reset", Observation, task, seed=seed)

    async def step(self, action: str) -> StepResult:
        """Take the agent's text."""
        found = await held(self._whose, self._env, "step", StepResult, action)
        self._taken += 1
        reward, wrong = found.reward, ""
        number = isinstance(reward, int | float) and not isinstance(reward, bool) and math.isfinite(reward)
        if reward is not None and not number:
            wrong = (
                f"gave the reward {reward!r} ({type(reward).__name__}): it must be a finite int or float, or None where the turn "
                "is not rewarded"
            )
        elif not found.over and found.observation is None:
            wrong = "gave no observation and no end: return the next one, or terminated=True, or truncated=True at the last turn"
        elif not found.over and self._taken > 2 * self._turns + 10:
            wrong = (
                f"goes on after {self._taken} turns, and its world says {self._turns} at most (`max_turns`): return "
                "truncated=True there, as `BaseEnv(self.turns(options), user)` does"
            )
        if wrong:
            raise UsageError(f"`step` of {self._whose} {wrong}.")
        return found

    async def close(self) -> None:
        """Free what the episode holds."""
        await self._env.close()
