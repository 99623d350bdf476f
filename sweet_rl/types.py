"""The data types of the library: frozen dataclasses, free of torch and of I/O.

How these look on disk belongs to `sweet_rl.records`; what they mean is documented here.

Published behaviour: docs/published/sweet_rl.md#backend-programming.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, TypeAlias, TypeGuard

Json: TypeAlias = Any
"""Anything `json.loads` returns."""

Role = Literal["system", "user", "assistant"]

Compat = Literal["fixed", "published"]
"""How what the published systems do questionably is done: right, or as published, to compare numbers."""

NO_ANSWER = "No answer"
"""What a trajectory holds when the agent never answered."""


def is_answer(answer: object) -> TypeGuard[str]:
    """Whether the `answer` of an episode is one: nothing, an empty text and `NO_ANSWER` are none."""
    return isinstance(answer, str) and answer not in {"", NO_ANSWER}


ANSWER_MARKER = "I WANT TO ANSWER:"
"""What announces an answer."""

NO_RESPONSE = "No response."
"""What the agent reads when the simulated human could not be asked."""


class StopReason(StrEnum):
    """Why an episode ended. Each step that is the last one names it (`StepResult.stop_reason`)."""

    ANSWERED = "answered"  # the agent handed in an answer, which is graded behind the episode
    ENDED = "ended"  # the world came to its own end: a game is solved, lost or over, a purchase made
    TURN_LIMIT = "turn_limit"
    CONTEXT_FULL = "context_full"
    USER_FAILED = "user_failed"
    POLICY_FAILED = "policy_failed"
    WORLD_FAILED = "world_failed"

    @property
    def truncated(self) -> bool:
        """True when the episode was cut off rather than finished (matters for bootstrapping)."""
        return self not in (StopReason.ANSWERED, StopReason.ENDED)

    @property
    def failed(self) -> bool:
        """True where agent, human or world could not be asked: such an episode has no score, not even 0."""
        return self in (StopReason.USER_FAILED, StopReason.POLICY_FAILED, StopReason.WORLD_FAILED)


class FinishReason(StrEnum):
    """Why a generation ended: the model's own end token or stop string, the token limit, or a refusal.

    `REFUSED` is the model's own refusal or its provider's content filter; `TOOL_CALLS` a call of a tool where
    text was asked for. All are the agent's answer, and score.
    """

    STOP = "stop"
    LENGTH = "length"
    REFUSED = "refused"
    TOOL_CALLS = "tool_calls"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Task:
    """One problem: what the agent is given, what only the user and the critic may know, and the hidden tests.

    `row` is the task as it stood in its file; it is written back verbatim, unknown fields included.
    """

    task_id: str
    problem_description: str
    ground_truth: str
    hidden_information: str
    test_cases: Mapping[str, str]
    row: Mapping[str, Json] = field(repr=False)

    @property
    def extra(self) -> Mapping[str, Json]:
        """The fields of `row` that this library gives no meaning to."""
        known = {"task_id", "problem_description", "ground_truth", "hidden_information", "test_cases"}
        return {key: value for key, value in self.row.items() if key not in known}


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of a dialogue as its participants see it."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model wrote for one prompt.

    `token_ids` and `logprobs` are aligned, include the end token when one was generated (the text does not),
    and are None where the engine returns none. Log-probabilities are natural, of the untempered model.
    """

    text: str
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    finish_reason: FinishReason = FinishReason.OTHER
    thoughts: str | None = None  # separated by a server; else between tags, if any (`sweet_rl.thoughts`)


@dataclass(frozen=True, slots=True)
class Generation:
    """A policy's turn: the exact prompt string its model was given, and the completion."""

    input: str
    completion: Completion
    reflection: str | None = None  # what a reflection model wrote before, and what it was given
    reflection_input: str | None = None
    failures: tuple[Failure, ...] = ()  # troubles on the way that did not keep it from acting


@dataclass(frozen=True, slots=True)
class AgentTurn(Message):
    """An assistant message with exactly what the model was given and what it wrote.

    `content` is what the human and later prompts see; `output` is the raw text. They differ when the agent
    thought aloud before `OUTPUT:`. `thoughts` are no part of `content`; `output` holds them only where it is what
    the model wrote behind `input`, token for token.
    """

    input: str = ""
    output: str = ""
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    finish_reason: FinishReason | None = None
    reward: float | None = None  # the world's for this turn; None where it gives none
    reflection: str | None = None
    reflection_input: str | None = None
    thoughts: str | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that went wrong inside an episode, kept in its row.

    `kind` is a short stable word ("timeout", "rate_limited", "server_error", "connection", "bad_request",
    "malformed_reply", "empty_reply", ...); `turn` counts agent turns from 0; `attempts` counts requests sent.
    """

    kind: str
    detail: str = ""
    status: int | None = None
    attempts: int = 1
    turn: int | None = None

    def __str__(self) -> str:
        return f"{self.kind}{f' {self.status}' if self.status else ''}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Observation:
    """What a policy may see of an episode: never hidden information.

    `task_id` names the task without saying anything about its answer; `seed` is the episode's own.
    """

    task_id: str
    messages: tuple[Message, ...]
    seed: int

    @property
    def turn(self) -> int:
        """How many turns the agent has already taken."""
        return sum(message.role == "assistant" for message in self.messages)


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one action did; `content` and `output` are the action as others see it and as it is kept (`AgentTurn`)."""

    content: str
    output: str
    observation: Observation | None  # what the agent sees next; at the end the world's last message, if any
    reward: float | None = None  # None in worlds whose answers are graded afterwards
    terminated: bool = False
    truncated: bool = False
    stop_reason: StopReason | None = None
    answer: str | None = None  # what the agent handed in
    failures: tuple[Failure, ...] = ()  # troubles on the way that did not end the episode
    info: Mapping[str, Json] = field(default_factory=dict)  # further fields of the row, the latest of each

    @property
    def over(self) -> bool:
        """Whether the episode ended with this action."""
        return self.terminated or self.truncated


@dataclass(frozen=True, slots=True)
class UserContext:
    """Everything the simulated human may know when asked for a reply: the hidden information included."""

    problem_description: str
    hidden_information: str
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class UserReply:
    """The human's words; `failure` says why they are `NO_RESPONSE`."""

    content: str
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One episode, finished. Its identity is `(task.task_id, sample_index)`."""

    task: Task
    dialogue_history: tuple[Message, ...]
    answer: str | None
    sample_index: int = 0
    stop_reason: StopReason | None = None
    reward: float | None = None  # its grade, or the sum of the turns' rewards; None if it failed
    error: Failure | None = None
    failures: tuple[Failure, ...] = ()
    provenance: Mapping[str, Json] = field(default_factory=dict)
    extra: Mapping[str, Json] = field(default_factory=dict)  # further fields of the row: grades, others'

    @property
    def key(self) -> tuple[str, int]:
        """The row's identity on disk: task and repeat."""
        return self.task.task_id, self.sample_index

    @property
    def failed(self) -> bool:
        """Whether it failed because a service is missing: it is not graded, and in no mean and no pair."""
        return self.stop_reason is not None and self.stop_reason.failed

    @property
    def cannot_be_graded(self) -> bool:
        """Whether it was graded and found to have no grade, since its task allows none."""
        return self.reward is None and isinstance(self.extra.get("grades"), Mapping)

    @property
    def last_turn(self) -> AgentTurn | None:
        """The turn that ended the episode: its `input` + `output` is the whole dialogue.

        After it comes at most the world's last message, and that only where worlds reward turns. None for
        a dialogue that broke off.
        """
        match self.dialogue_history:
            case (*_, AgentTurn() as last):
                return last
            case (*_, AgentTurn(reward=float() | int()) as last, _) if self.reward is not None:
                return last
        return None


@dataclass(frozen=True, slots=True)
class TestResult:
    """One hidden test: the expression, both values as Python literals (shortened), and what happened.

    `outcome` is "passed", "failed", or why there is no value to compare: "error", "timeout", "memory",
    "crash", "too_large", "not_plain_data", "reference_none".
    """

    __test__ = False  # not a pytest class

    name: str
    expression: str
    outcome: str
    expected: str | None = None
    got: str | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Score:
    """A grade in [0, 1] with its details; `note` says why there is none, or why it is so low."""

    value: float | None
    tests: tuple[TestResult, ...] = ()
    note: str = ""
    details: Mapping[str, Json] = field(default_factory=dict)


def digest(value: Json, length: int = 16) -> str:
    """First `length` hex digits of the SHA-256 of the canonical JSON of `value`."""
    canonical = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:length]


def derive_seed(*parts: Json, bits: int = 31) -> int:
    """A seed in [0, 2**bits), at most 64 bits, that depends on every part and on nothing else (not on the order of events)."""
    return int(digest(list(parts), 8 if bits < 32 else 16), 16) & ((1 << bits) - 1)
