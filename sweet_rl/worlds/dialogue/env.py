"""The episode of the worlds of ColBench: turns, markers, a human who replies.

The agent talks until it announces its answer or has used up its turns. Rewards are 0: answers are graded
afterwards, by `sweet_rl.grading`. A world says what it does with a turn and what its human may know.

Published behaviour: docs/published/sweet_rl.md#backend-programming, #frontend-design.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ClassVar

from sweet_rl.contracts import User
from sweet_rl.errors import EpisodeError
from sweet_rl.types import (
    NO_ANSWER,
    Failure,
    Json,
    Message,
    Observation,
    StepResult,
    StopReason,
    Task,
    UserContext,
)
from sweet_rl.worlds.dialogue.parsing import ParsedAction, parse_published


class DialogueEnv:
    """One episode between an agent and a human; worlds fill in `_begin`, `_consider`, `_hand_in`, `_context`.

    Args:
        user: who answers; shared by many episodes.
        max_turns: agent turns at most; the last one ends the episode whatever it says.
        parser: how the agent's text is read, one of `sweet_rl.worlds.dialogue.parsing.PARSERS`.
        stop_on_user_failure: end the episode when the human cannot be asked, instead of going on with the
            published "No response.".

    Attributes:
        reply_limit: Unicode characters of a reply that the agent gets to see.
    """

    reply_limit: ClassVar[int]

    def __init__(
        self,
        user: User,
        *,
        max_turns: int = 10,
        parser: Callable[[str], ParsedAction] = parse_published,
        stop_on_user_failure: bool = False,
    ) -> None:
        self._user = user
        self._max_turns = max_turns
        self._parse = parser
        self._stop_on_user_failure = stop_on_user_failure
        self._done = True
        self._steps = 0
        self._answer: str | None = NO_ANSWER

    async def reset(self, task: Task, *, seed: int) -> Observation:
        """Begin: the agent sees the request and nothing else."""
        self._task, self._seed = task, seed
        self._messages = [Message("user", task.problem_description)]
        self._answer, self._steps, self._done = NO_ANSWER, 0, True
        await self._begin()
        self._done = False
        return self._observe()

    async def step(self, action: str) -> StepResult:
        """One agent turn and, unless it was the last, the human's reply."""
        if self._done:
            return StepResult(action, action, None, terminated=True, answer=self._answer, info=self._info())
        self._steps += 1
        parsed = self._parse(action)
        self._messages.append(Message("assistant", parsed.visible))
        failures = await self._consider(parsed)
        if parsed.answer is not None or self._steps >= self._max_turns:
            return self._finish(parsed, failures)
        reply = await self._user.reply(self._context())
        if reply.failure is not None:
            failure = self._now(reply.failure)
            if self._stop_on_user_failure:
                self._done = True
                raise EpisodeError(StopReason.USER_FAILED, failure)
            failures = (*failures, failure)
        self._messages.append(Message("user", reply.content[: self.reply_limit]))
        return StepResult(
            parsed.visible, parsed.output, self._observe(), failures=failures, info=self._info()
        )

    async def close(self) -> None:
        """Nothing to free: the user outlives the episode."""

    async def _begin(self) -> None:
        """Make ready what the task needs."""

    async def _consider(self, _parsed: ParsedAction) -> tuple[Failure, ...]:
        """Do what the turn asks of the world; returns what failed without ending the episode."""
        return ()

    def _hand_in(self, parsed: ParsedAction) -> str | None:
        """The answer of an episode that ends with this turn."""
        raise NotImplementedError

    def _context(self) -> UserContext:
        """What the human may know."""
        return UserContext(
            problem_description=self._task.problem_description,
            hidden_information=self._task.hidden_information,
            messages=tuple(self._messages),
        )

    def _info(self) -> Mapping[str, Json]:
        """Fields of the episode's row that belong to this world alone."""
        return {}

    def _now(self, failure: Failure) -> Failure:
        return replace(failure, turn=self._steps - 1)

    def _observe(self) -> Observation:
        return Observation(self._task.task_id, tuple(self._messages), self._seed)

    def _finish(self, parsed: ParsedAction, failures: tuple[Failure, ...]) -> StepResult:
        self._done = True
        answered = parsed.answer is not None
        self._answer = self._hand_in(parsed)
        return StepResult(
            content=parsed.visible,
            output=parsed.output,
            observation=None,
            terminated=answered,
            truncated=not answered,
            stop_reason=StopReason.ANSWERED if answered else StopReason.TURN_LIMIT,
            answer=self._answer,
            failures=failures,
            info=self._info(),
        )
