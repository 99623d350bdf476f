"""What the two worlds of ColBench share: an agent asks a simulated human, and submits an answer, which is
graded afterwards.

Published behaviour: docs/published/sweet_rl.md#backend-programming, #frontend-design, #in-episodes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Final, Literal

from sweet_rl.contracts import User
from sweet_rl.errors import EpisodeError
from sweet_rl.flags import flag, group
from sweet_rl.types import ANSWER_MARKER, NO_ANSWER, Failure, Json, StepResult, StopReason
from sweet_rl.worlds.base import BaseEnv, World
from sweet_rl.worlds.options import Options

HUB_REPOSITORY: Final = "facebook/collaborative_agent_bench"  # where ColBench is

OUTPUT_MARKER: Final = "OUTPUT:"
_MARKER_AT_LINE_START = re.compile(rf"^[ \t]*{re.escape(ANSWER_MARKER)}", re.MULTILINE)


def published_data(path: Path) -> str:
    """The command that downloads ColBench so that one of its files lies at the path."""
    folder = path.parent.parent if path.parent.name == "backend_tasks" else path.parent
    return f"hf download {HUB_REPOSITORY} --repo-type dataset --local-dir {folder} (docs/train_sweet.md)"


@dataclass(frozen=True, slots=True)
class ParsedAction:
    """`visible` is what the human and later prompts see, `output` the raw text, `answer` what was submitted."""

    visible: str
    output: str
    answer: str | None


def parse_published(text: str) -> ParsedAction:
    """The published protocol: `OUTPUT:` is cut first, so an answer before it is lost, and so is code at a marker."""
    visible, output = text, text
    if OUTPUT_MARKER in text:
        before, visible, *_ = text.split(OUTPUT_MARKER)
        output = before + OUTPUT_MARKER + visible
    answer = visible.split(ANSWER_MARKER)[1] if ANSWER_MARKER in visible else None
    return ParsedAction(visible, output, answer)


def parse_fixed(text: str) -> ParsedAction:
    """The repaired protocol: an announced answer always counts. It begins behind the first marker at the start
    of a line (else the first anywhere). Text before a final `OUTPUT:` stays private, as published."""
    at_line_start = _MARKER_AT_LINE_START.search(text)
    start = at_line_start.end() - len(ANSWER_MARKER) if at_line_start else text.find(ANSWER_MARKER)
    if start < 0:
        _, marker, visible = text.partition(OUTPUT_MARKER)
        return ParsedAction(visible if marker else text, text, None)
    _, marker, output = text[:start].rpartition(OUTPUT_MARKER)
    spoken = output if marker else text[:start]
    answer = text[start + len(ANSWER_MARKER) :]
    return ParsedAction(spoken + text[start:], text, answer.lstrip(" \t"))


PARSERS: Final[dict[str, Callable[[str], ParsedAction]]] = {
    "published": parse_published,
    "fixed": parse_fixed,
}


@group("Options of dialogues with a simulated human")
class DialogueOptions(Options):
    parser: Literal["published", "fixed"] = flag(
        "published",
        "how the agent's text is read: published (for comparison with released data) or fixed (an announced answer always counts).",
    )
    user_failure: Literal["stop", "reply"] = flag(
        "stop",
        "if the human cannot be reached: stop (the episode fails: it has no score and can be played again) or "
        'reply (the agent gets the published "No response.", and the failure is recorded).',
    )


class Dialogue(World):
    """A world where a simulated human answers and an answer is submitted; subclasses define the answer."""

    max_turns = 10
    options = DialogueOptions

    def succeeded(self, reward: float, row: Mapping[str, Json], options: Options) -> bool | None:
        return reward == 1

    def settings(self, options: Options) -> dict[str, Json]:
        settings: dict[str, Json] = {"task_type": self.name, "max_steps": self.turns(options)}
        if isinstance(options, DialogueOptions):
            settings |= {"parser": options.parser, "user_failure": options.user_failure}
        return settings


class DialogueEnv(BaseEnv):
    """One episode between an agent and a human; worlds fill in `_consider`, `_hand_in`, `context`.
    The last turn ends it whatever it says. A human who cannot be asked ends it, or says the published "No
    response.". Of a reply the agent gets to see `reply_limit` Unicode characters."""

    reply_limit: ClassVar[int]
    user: User
    answer: str | None = NO_ANSWER

    def __init__(
        self,
        user: User,
        *,
        max_turns: int = 10,
        parser: Callable[[str], ParsedAction] = parse_published,
        stop_on_user_failure: bool = False,
    ) -> None:
        super().__init__(max_turns, user)
        self._parse, self._stop_on_user_failure = parser, stop_on_user_failure

    async def opening(self) -> str:
        self.answer = NO_ANSWER
        return self.task.problem_description

    def visible(self, action: str) -> str:
        return self._parse(action).visible

    async def turn(self, action: str) -> StepResult:
        """What the agent says and, unless it was the last turn, the human's reply."""
        parsed = self._parse(action)
        failures = await self._consider(parsed)
        answered = parsed.answer is not None
        if answered or self.last_turn:
            self.answer = self._hand_in(parsed)
            reason = StopReason.ANSWERED if answered else StopReason.TURN_LIMIT
            return self.respond(
                terminated=answered, stop_reason=reason, output=parsed.output, failures=failures
            )
        reply = await self.user.reply(self.context())
        if reply.failure is not None:
            failure = self._now(reply.failure)
            if self._stop_on_user_failure:
                raise EpisodeError(StopReason.USER_FAILED, failure)
            failures = (*failures, failure)
        return self.respond(reply.content[: self.reply_limit], output=parsed.output, failures=failures)

    async def _consider(self, _parsed: ParsedAction) -> tuple[Failure, ...]:
        """Do what the turn asks of the world; returns what failed without ending the episode."""
        return ()

    def _hand_in(self, parsed: ParsedAction) -> str | None:
        """The answer of an episode that ends with this turn."""
        raise NotImplementedError

    def _now(self, failure: Failure) -> Failure:
        return replace(failure, turn=self.turns - 1)
