"""The Backend Programming world of ColBench: a vague request, a human who knows the function (spec §3.2).

The agent talks until it announces its answer or has used up its turns. Rewards are 0 here: answers are graded
afterwards, by `sweet_rl.grading`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sweet_rl.contracts import User
from sweet_rl.envs.parsing import ParsedAction, parse_published
from sweet_rl.errors import EpisodeError
from sweet_rl.types import (
    NO_ANSWER,
    Failure,
    Message,
    Observation,
    StepResult,
    StopReason,
    Task,
    UserContext,
)

REPLY_LIMIT = 400
"""Unicode characters of the human's reply that reach the agent (spec §3.2, rule 5)."""


class BackendEnv:
    """One episode of Backend Programming.

    Args:
        user: who answers; shared by many episodes.
        max_steps: agent turns at most; the last one counts as the answer whatever it says.
        parser: how the agent's text is read, one of `sweet_rl.envs.parsing.PARSERS`.
        reply_limit: characters of a reply that the agent gets to see.
        stop_on_user_failure: end the episode when the human cannot be asked, instead of going on with the
            published "No response.".
    """

    def __init__(
        self,
        user: User,
        *,
        max_steps: int = 10,
        parser: Callable[[str], ParsedAction] = parse_published,
        reply_limit: int = REPLY_LIMIT,
        stop_on_user_failure: bool = False,
    ) -> None:
        self._user = user
        self._max_steps = max_steps
        self._parse = parser
        self._reply_limit = reply_limit
        self._stop_on_user_failure = stop_on_user_failure
        self._done = True
        self._steps = 0

    async def reset(self, task: Task, *, seed: int) -> Observation:
        """Begin: the agent sees the request and nothing else."""
        self._task, self._seed = task, seed
        self._messages = [Message("user", task.problem_description)]
        self._answer = NO_ANSWER
        self._steps, self._done = 0, False
        return self._observe()

    async def step(self, action: str) -> StepResult:
        """One agent turn and, unless it was the last, the human's reply (spec §3.2).

        Raises:
            EpisodeError: the human cannot be asked and `stop_on_user_failure` is set.
        """
        if self._done:
            return StepResult(action, action, None, terminated=True, answer=self._answer)
        self._steps += 1
        parsed = self._parse(action)
        self._messages.append(Message("assistant", parsed.visible))
        if parsed.answer is not None or self._steps >= self._max_steps:
            return self._finish(parsed)
        reply = await self._user.reply(
            UserContext(
                problem_description=self._task.problem_description,
                hidden_information=self._task.hidden_information,
                messages=tuple(self._messages),
            )
        )
        failures: tuple[Failure, ...] = ()
        if reply.failure is not None:
            failure = replace(reply.failure, turn=self._steps - 1)
            if self._stop_on_user_failure:
                self._done = True
                raise EpisodeError(StopReason.USER_FAILED, failure)
            failures = (failure,)
        self._messages.append(Message("user", reply.text[: self._reply_limit]))
        return StepResult(parsed.visible, parsed.output, self._observe(), failures=failures)

    async def close(self) -> None:
        """Nothing to free: the user outlives the episode."""

    def _observe(self) -> Observation:
        return Observation(self._task.task_id, tuple(self._messages), self._seed)

    def _finish(self, parsed: ParsedAction) -> StepResult:
        self._done = True
        answered = parsed.answer is not None
        self._answer = parsed.answer if parsed.answer is not None else parsed.visible
        return StepResult(
            content=parsed.visible,
            output=parsed.output,
            observation=None,
            terminated=answered,
            truncated=not answered,
            stop_reason=StopReason.ANSWERED if answered else StopReason.TURN_LIMIT,
            answer=self._answer,
        )
