"""The shared part of question games: an oracle answers, and an agent asks until it can name the answer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from sweet_rl.chat.transcripts import without_system
from sweet_rl.contracts import Env, Policy, User
from sweet_rl.errors import UsageError
from sweet_rl.flags import no_flag
from sweet_rl.types import Json, Message
from sweet_rl.worlds.base import Answerer, World
from sweet_rl.worlds.options import AgentRequest, Options
from sweet_rl.worlds.question_games.asking import Asking, decode_question

_IN_JSON = '"Question":'


@dataclass(frozen=True, kw_only=True)
class QuestionOptions(Options):
    """Options of question games.

    Args:
        reads_json: the agent writes its question as JSON, as chat models are instructed to.
    """

    reads_json: bool = no_flag(False)


class QuestionTranscript:
    r"""Question games: the opening line, then a line for each question.

    `["Questions:\n", "Is it alive?", "Yes."]` becomes `"Questions:\nIs it alive? Yes.\n"`. A question
    that has no answer yet is written with nothing behind it.
    """

    def render(self, messages: Sequence[Message]) -> str:
        """The game so far: the opening, then a line for each question with its answer."""
        spoken = without_system(messages)
        opening = "".join(message.content for message in spoken[:1])
        return opening + "".join(
            message.content if message.role == "assistant" else f" {message.content}\n"
            for message in spoken[1:]
        )


class QuestionGame(World):
    """Subclasses say which game it is and who answers in it without a model."""

    max_turns = 20
    options = QuestionOptions
    answered_by: ClassVar[Answerer] = "oracle"
    agents: ClassVar[tuple[str, ...]] = ("asker",)
    asking: ClassVar[Asking]
    takes: ClassVar = {"asker": {"skill": 1.0}}

    @asynccontextmanager
    async def open(self, options: Options, user: User | None) -> AsyncIterator[Callable[[], Env]]:
        """Open games whose questions `user` answers."""
        if user is None:
            raise UsageError(f"{self.name} needs an oracle.")
        rules: dict[str, Any] = {"max_turns": self.turns(options), "compat": options.compat}
        if isinstance(options, QuestionOptions) and options.reads_json:
            rules["read_action"] = decode_question
        yield self.maker(user, rules)

    def reward_range(self, options: Options) -> tuple[float | None, float | None]:
        """Every turn may cost 1."""
        return -float(self.turns(options)), 0.0

    def maker(self, oracle: User, rules: dict[str, Any]) -> Callable[[], Env]:
        """What makes a fresh game."""
        raise NotImplementedError

    async def make_agent(self, wanted: AgentRequest) -> Policy:
        """The asker, who knows the table that the packaged oracle answers from."""
        if wanted.name != "asker":
            raise self.no_agent(wanted.name)
        return self.asker(
            [task.hidden_information for task in wanted.tasks],
            skill=1.0 if wanted.skill is None else wanted.skill,
            max_turns=self.turns(wanted.options),
            system_prompt=wanted.system_prompt,
        )

    def asker(self, answers: list[str], **how: Any) -> Policy:
        """Who asks what divides the answers that are still possible."""
        raise NotImplementedError

    def make_oracle(self, kind: str, path: str, **how: Any) -> User:
        """A model that answers, in this process or behind a server; see `oracles.open_oracle`."""
        from sweet_rl.worlds.question_games.oracles import open_oracle

        return open_oracle(self.asking, kind, path, **how)

    def transcript(self) -> QuestionTranscript:
        """Questions with their answers, line by line."""
        return QuestionTranscript()

    def shown_action(self, action: str, options: Options) -> str:
        """A question; as JSON where that is how the agent writes it."""
        if not (isinstance(options, QuestionOptions) and options.reads_json) or _IN_JSON in action:
            return action
        return json.dumps({"Question": action}, ensure_ascii=False)

    def settings(self, options: Options) -> dict[str, Json]:
        """As before these worlds had options of their own."""
        return {
            "task_type": self.name,
            "max_steps": self.turns(options),
            "compat": options.compat,
            "place": None,
        }
