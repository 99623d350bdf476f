"""An episode that is played one turn at a time, by whoever holds it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from sweet_rl.chat import as_json, with_system
from sweet_rl.contracts import Env
from sweet_rl.errors import EpisodeError, UsageError
from sweet_rl.rollout import LiveEpisode
from sweet_rl.types import (
    AgentTurn,
    Completion,
    Failure,
    FinishReason,
    Generation,
    Message,
    Observation,
    StopReason,
    Trajectory,
)
from sweet_rl.worlds import Options, World


@dataclass(frozen=True, slots=True)
class Turn:
    """What a turn of the agent led to.

    `text` is what it is told next, at the end perhaps the world's last words; "" for nothing. `reward` is the
    turn's own; of the last one in worlds whose answers are graded, the grade; 0 where there is none.
    """

    text: str
    reward: float
    over: bool


class SteppedEpisode:
    """An episode whose turns come from elsewhere; `OpenWorld.begin` makes it.

    Attributes:
        trajectory: what our own loop would record; graded once it is over.
        rewards: of the turns so far.
    """

    def __init__(
        self,
        live: LiveEpisode,
        env: Env,
        world: World,
        options: Options,
        grade: Callable[[Trajectory], Awaitable[Trajectory]],
    ) -> None:
        self._live, self._env, self._world, self._options, self._grade = live, env, world, options, grade
        self._seen: Observation | None = None
        self._awaits_turn = False
        self.trajectory = live.trajectory
        self.rewards: list[float] = []

    @property
    def observation(self) -> Observation:
        """What a policy may see, as it was before the last turn where that was the end."""
        if self._seen is None:
            raise UsageError("The episode has not begun.")
        return self._seen

    @property
    def told(self) -> str:
        """What the agent was told last."""
        return self.observation.messages[-1].content

    @property
    def prompt(self) -> list[Message]:
        """What a chat model is given for its next turn: the world's instructions, and the dialogue."""
        return with_system(self._world.system_prompt(), self.observation.messages)

    @property
    def messages(self) -> list[dict[str, str]]:
        """The same as servers of chat models take it."""
        return [{"role": one.role, "content": one.content} for one in self.prompt]

    @property
    def succeeded(self) -> bool | None:
        """Whether it reached its goal; None where grades only say how near it came, and before the end."""
        one = self.trajectory
        if one.reward is None:
            return None
        return self._world.succeeded(one.reward, one.extra, self._options)

    async def begin(self) -> None:
        """Let the world begin."""
        self._seen = await self._live.begin()
        if self._seen is None:
            await self._end()
        self._awaits_turn = True

    async def step(self, said: str | Generation) -> Turn:
        """The agent's turn: its text, or a generation with tokens and log-probabilities."""
        if self.trajectory.stop_reason is not None:
            raise UsageError("The episode is over: begin another one.")
        if not self._awaits_turn:
            raise UsageError(
                "The episode takes no turn: one is under way or was broken off, or it was closed. Wait for "
                "that turn, or begin another episode."
            )
        if not isinstance(said, str | Generation):
            raise UsageError(f"A turn of the agent is a text, got {said!r}.")
        self._awaits_turn = False
        if isinstance(said, str):
            said = Generation(as_json(self.prompt), Completion(said, finish_reason=FinishReason.STOP))
        seen = await self._live.take(said)
        if seen is None:
            await self._end()
        else:
            self._seen, self.trajectory = seen, self._live.trajectory
        turn = self._turn(over=seen is None)
        self.rewards.append(turn.reward)
        self._awaits_turn = not turn.over
        return turn

    async def close(self) -> None:
        """Free what the episode holds; may be called at any time."""
        self._awaits_turn = False
        await self._env.close()

    def _turn(self, *, over: bool) -> Turn:
        """The last turn; one without a reward ends with that of the episode, or counts as 0."""
        history = self.trajectory.dialogue_history
        said = next(one for one in reversed(history) if isinstance(one, AgentTurn))
        reward = self.trajectory.reward if over and said.reward is None else said.reward
        return Turn("" if history[-1] is said else history[-1].content, reward or 0.0, over)

    async def _end(self) -> None:
        await self._env.close()
        self.trajectory = self._live.trajectory
        if self.trajectory.reward is None and not self.trajectory.failed:
            self.trajectory = await self._grade(self.trajectory)
        if self.trajectory.reward is None:
            unknown = Failure("no_reward", "the episode has no reward, and nothing says why")
            raise EpisodeError(
                self.trajectory.stop_reason or StopReason.WORLD_FAILED, self.trajectory.error or unknown
            )
