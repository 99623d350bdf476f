"""The critic's score of every turn of finished trajectories: which turn made the difference.

A score is what `sweet_rl.preferences.ranking` gives a candidate, here of the turn that was taken: the
critic's mean log-probability of the turn's own tokens minus the reference's, with the hidden solution before
the prompt (`hidden`) and without it (`without_hidden`). A critic with a regression head gives its value
instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from sweet_rl.chat import ChatFormat
from sweet_rl.errors import DataError, UsageError
from sweet_rl.preferences.candidates import Candidate, Candidates
from sweet_rl.preferences.ranking import Encoding, Model, advantage, reduce, reduced, stored_reference
from sweet_rl.preferences.trajectory_pairs import TurnKey, key_fields, key_of
from sweet_rl.records import message_from_row, read_rows
from sweet_rl.types import AgentTurn, FinishReason, Json, Message, Trajectory, digest

Advantage = Literal["released", "paper"]
Way = Literal["hidden", "without_hidden"]
"""How a score came about: the critic was given the hidden solution, or not."""

WHY = {
    "no_prompt": "the file has no prompt of this turn",
    "no_tokens": "the turn has no text",
    "too_long": "prompt and turn are longer than the critic's context",
    "no_reference": "the file has no log-probabilities of this turn to compare with",
    "not_finite": "the model gives no number",
}
"""Why a turn has no score, in words."""


@dataclass(frozen=True, slots=True)
class View:
    """A turn's score as the critic sees it one way; means over the turn's tokens, natural logarithms.

    `advantage` is the score. `reference` is None for a critic with a regression head, whose value is
    `critic`. `why` names, as in `WHY`, what a missing number is missing for.
    """

    critic: float | None = None
    reference: float | None = None
    advantage: float | None = None
    why: str = ""

    def as_json(self) -> dict[str, Json]:
        """What of it is known."""
        known = {"critic": self.critic, "reference": self.reference, "why": self.why}
        return {"advantage": self.advantage} | {
            name: value for name, value in known.items() if value not in {None, ""}
        }


@dataclass(frozen=True, slots=True)
class TurnCredit:
    """One agent turn's scores; None where they were not asked for.

    `turn_digest` is of the turn's prompt and text: a score belongs to these and to no others.
    """

    key: TurnKey
    turn_digest: str
    hidden: View | None = None
    without_hidden: View | None = None

    def as_row(self) -> dict[str, Json]:
        """As a row of a credit file."""
        views = {"hidden": self.hidden, "without_hidden": self.without_hidden}
        return (
            key_fields(self.key)
            | {"turn_digest": self.turn_digest}
            | {name: view.as_json() for name, view in views.items() if view is not None}
        )


@dataclass(frozen=True, slots=True)
class Crediting:
    """What is computed.

    Args:
        hidden: scores with the hidden solution.
        without_hidden: scores without it.
        advantage: released (the reference never knows the solution), or paper (equation 3: where the critic
            knows it, so does the reference, which is then computed).
    """

    hidden: bool = True
    without_hidden: bool = True
    advantage: Advantage = "released"


@dataclass(frozen=True, slots=True)
class OwnTurn:
    """A turn that was taken, as the only candidate of its row; without a prompt there is none to score."""

    taken: Candidates
    turn_digest: str

    @property
    def key(self) -> TurnKey:
        """Whose turn it is."""
        return self.taken.key

    def encoded_by(self, encoding: Encoding) -> Candidates:
        """With the sampler's token ids only where they spell the turn's text in this tokenizer."""
        (own,) = self.taken.candidates
        if own.token_ids is None or spells(own, encoding):
            return replace(self.taken, tokenizer=encoding.digest)
        return self.taken


def own_turns(trajectory: Trajectory) -> list[OwnTurn]:
    """Every agent turn of a trajectory, in order."""
    turns = [message for message in trajectory.dialogue_history if message.role == "assistant"]
    hidden = trajectory.task.ground_truth
    return [own_turn((*trajectory.key, number), turn, hidden) for number, turn in enumerate(turns)]


def own_turn(key: TurnKey, turn: Message, hidden: str) -> OwnTurn:
    """One agent turn; without a prompt where it was recorded without one."""
    taken = turn if isinstance(turn, AgentTurn) else AgentTurn("assistant", "")
    mean, total = reduce(taken.logprobs, use_sum=False), reduce(taken.logprobs, use_sum=True)
    cut = taken.finish_reason is FinishReason.LENGTH
    return OwnTurn(
        Candidates(
            key=key,
            line=0,
            prompt=taken.input,
            ground_truth=hidden,
            candidates=(Candidate(taken.output, taken.token_ids, mean, total, cut),),
            tokenizer=None,
            end_token=None,
            scores=None,
            row={},
        ),
        turn_digest(taken.input, taken.output),
    )


def turn_digest(prompt: str, output: str) -> str:
    """What a turn's scores belong to."""
    return digest([prompt, output])


async def credited(
    turns: Sequence[OwnTurn], critic: Model, reference: Model | None, what: Crediting
) -> list[TurnCredit]:
    """The scores of turns, in their order."""
    ways = [(name, name == "hidden") for name in ("hidden", "without_hidden") if getattr(what, name)]
    found: dict[str, list[View]] = {}
    for name, sees in ways:
        known = what.advantage == "paper" and sees
        found[name] = await _views(turns, critic, reference, sees=sees, reference_sees=known)
    return [
        TurnCredit(turn.key, turn.turn_digest, **{name: views[place] for name, views in found.items()})
        for place, turn in enumerate(turns)
    ]


def check_reference(turns: Sequence[OwnTurn], critic: Model, reference: Model | None) -> None:
    """Whether there is anything to compare the critic with."""
    if critic.scorer.has_value_head or reference is not None or not turns:
        return
    if all(stored_reference(turn.taken.candidates[0], use_sum=False) is None for turn in turns):
        raise UsageError(
            "No turn has log-probabilities to compare the critic's with: the agent is a server or needs no "
            "model. Pass --reference_model with the model that the critic was trained from: it computes them."
        )


def summary(rows: Sequence[Mapping[str, Json]]) -> dict[str, dict[str, Json]]:
    """Of rows of a credit file, for each way: how many scores, their mean, how many are missing and why."""
    found: dict[str, dict[str, Json]] = {}
    for name in ("hidden", "without_hidden"):
        views = [row[name] for row in rows if name in row]
        scores = [view["advantage"] for view in views if view["advantage"] is not None]
        reasons = [view["why"] for view in views if "why" in view]
        if views:
            found[name] = {
                "scores": len(scores),
                "mean": math.fsum(scores) / len(scores) if scores else None,
                "missing": {reason: reasons.count(reason) for reason in sorted(set(reasons))},
            }
    return found


async def _views(
    turns: Sequence[OwnTurn], critic: Model, reference: Model | None, *, sees: bool, reference_sees: bool
) -> list[View]:
    rows = [turn.encoded_by(critic.encoding) for turn in turns]
    ours = await _scored(rows, critic, with_ground_truth=sees)
    if critic.scorer.has_value_head:
        theirs: list[float | None] = [None] * len(rows)
    elif reference is not None:
        rows_there = [turn.encoded_by(reference.encoding) for turn in turns]
        theirs = await _scored(rows_there, reference, with_ground_truth=reference_sees)
    else:
        theirs = [stored_reference(turn.taken.candidates[0], use_sum=False) for turn in turns]
    return [
        _view(row, one, other, value_head=critic.scorer.has_value_head)
        for row, one, other in zip(rows, ours, theirs, strict=True)
    ]


async def _scored(rows: Sequence[Candidates], model: Model, *, with_ground_truth: bool) -> list[float | None]:
    """One score for each row; rows without a prompt are not asked about."""
    places = [place for place, row in enumerate(rows) if row.prompt]
    values = await reduced([rows[place] for place in places], model, with_ground_truth=with_ground_truth)
    found: list[float | None] = [None] * len(rows)
    for place, (value,) in zip(places, values, strict=True):
        found[place] = value
    return found


def _view(row: Candidates, critic: float | None, reference: float | None, *, value_head: bool) -> View:
    if not row.prompt:
        return View(why="no_prompt")
    if critic is None:
        empty = not row.candidates[0].text and not row.candidates[0].token_ids
        return View(why="no_tokens" if empty else "too_long")
    if not math.isfinite(critic) or not math.isfinite(reference or 0.0):
        return View(why="not_finite")
    if value_head:
        return View(critic, None, critic)
    return View(critic, reference, advantage(critic, reference), "no_reference" if reference is None else "")


def spells(candidate: Candidate, encoding: Encoding) -> bool:
    """Whether a candidate's ids are its text in a tokenizer, with the end token behind it if not cut."""
    ids = candidate.token_ids or ()
    width = len(encoding.end_ids)
    own = ids if candidate.cut or ids[-width:] != encoding.end_ids else ids[:-width]
    try:
        return encoding.decode(own) == candidate.text
    except (IndexError, OverflowError, TypeError):  # ids that this tokenizer does not have
        return False


Scored = dict[str, Json]
"""A turn's row of a credit file (`TurnCredit.as_row`)."""

_AGAIN = "Score this trajectory file again by sweet-rl credit."


def credit_in(path: str | Path, trajectories: Sequence[Trajectory]) -> list[list[Scored | None]]:
    """The row of every agent turn, in order; None for a turn that the file says nothing of."""
    known: dict[tuple[str, int, int], tuple[int, Scored]] = {}
    for line, row in read_rows(path):
        if "turn_digest" not in row:
            raise DataError("is not there", path=path, line=line, field="turn_digest", repair=_AGAIN)
        known[key_of(row)] = line, row
    found: list[list[Scored | None]] = []
    for trajectory in trajectories:
        found.append([])
        for turn in own_turns(trajectory):
            line, scored = known.get(turn.key, (0, None))
            if scored is not None and scored["turn_digest"] != turn.turn_digest:
                raise DataError(
                    f"is of another text than turn {turn.key[2]} of {turn.key[:2]}",
                    path=path,
                    line=line,
                    field="turn_digest",
                    value=scored["turn_digest"],
                    repair=_AGAIN,
                )
            found[-1].append(scored)
    return found


def advantages_in(path: str | Path, trajectories: Sequence[Trajectory], way: Way) -> list[list[float | None]]:
    """The advantage of every agent turn, None where the critic gave none."""
    found: list[list[float | None]] = []
    for trajectory, scored in zip(trajectories, credit_in(path, trajectories), strict=True):
        for number, row in enumerate(scored):
            if row is None or way not in row:
                what = "row" if row is None else f"score {way!r}"
                raise UsageError(
                    f"{str(path)!r} has no {what} for turn {number} of {trajectory.key}. Run sweet-rl credit "
                    "on these trajectories to its end."
                )
        found.append([row[way]["advantage"] for row in scored if row is not None])
    return found


Dialogue: TypeAlias = Sequence[Message | Mapping[str, Json]]
"""Our messages, or those of chat APIs: `{"role": ..., "content": ...}`."""


def messages_of(dialogue: Dialogue, name: str = "dialogue") -> list[Message]:
    """The messages of a dialogue; an assistant's may bring `token_ids`, `logprobs` and `finish_reason`."""
    given: Any = dialogue
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise DataError("must be a list of messages", field=name, value=dialogue)
    messages = [_message(entry, f"{name}[{place}]") for place, entry in enumerate(dialogue)]
    for place, message in enumerate(messages):
        _check_text(message.content, f"{name}[{place}].content")
        if place == 0 and message.role == "assistant" and not getattr(message, "input", ""):
            repair = "Put what it was asked before it, or its prompt in `input`."
            raise DataError("is a turn of the agent behind nothing", field=f"{name}[0]", repair=repair)
    return messages


def hidden_of(value: Json, name: str) -> str | None:
    """What a critic is told."""
    if not isinstance(value, str | None):
        problem = "must be a text, or null (None) for a critic that was trained without hidden information"
        raise DataError(problem, field=name, value=value)
    _check_text(value or "", name)
    return value


def turns_of(
    number: int, hidden: str | None, messages: Sequence[Message], chat: Callable[[], ChatFormat]
) -> list[OwnTurn]:
    """The agent's turns as they are scored, in order."""
    turns: list[OwnTurn] = []
    for place, message in enumerate(messages):
        if message.role != "assistant":
            continue
        taken = message
        if not isinstance(taken, AgentTurn):
            taken = AgentTurn("assistant", message.content, output=message.content)
        if not taken.input:
            taken = replace(taken, input=chat().render(messages[:place]))
        turns.append(own_turn(("", number, len(turns)), taken, hidden or ""))
    return turns


class DialogueCritic:
    """A critic, and what it is compared with, that are asked about dialogues.

    Args:
        reference: that it is compared with; None: with the log-probabilities that the turns bring.
        chat: renders the prompts of turns that bring none, as the critic reads them.
    """

    def __init__(
        self,
        critic: Model,
        reference: Model | None,
        chat: Callable[[], ChatFormat],
        advantage: Advantage = "released",
    ) -> None:
        self.critic, self.reference, self.advantage = critic, reference, advantage
        self._chat = chat

    async def views(
        self, hidden: Sequence[str | None], dialogues: Sequence[Sequence[Message]]
    ) -> list[list[View]]:
        """What the critic says of every agent turn, dialogue by dialogue."""
        if len(hidden) != len(dialogues):
            raise UsageError(f"{len(hidden)} pieces of hidden information for {len(dialogues)} dialogues.")
        given = enumerate(zip(hidden, dialogues, strict=True))
        turns = [turns_of(number, told, one, self._chat) for number, (told, one) in given]
        found: dict[TurnKey, View | None] = {}
        for tells in (True, False):
            asked = [
                turn
                for told, own in zip(hidden, turns, strict=True)
                if (told is not None) is tells
                for turn in own
            ]
            check_reference(asked, self.critic, self.reference)
            what = Crediting(hidden=tells, without_hidden=not tells, advantage=self.advantage)
            for one in await credited(asked, self.critic, self.reference, what):
                found[one.key] = one.hidden if tells else one.without_hidden
        return [[found[turn.key] or View() for turn in own] for own in turns]


def _message(entry: Message | Mapping[str, Json], name: str) -> Message:
    if isinstance(entry, Message):
        return entry
    if not isinstance(entry, Mapping):
        raise DataError(
            "must be a message", field=name, value=entry, repair='Like {"role": "user", "content": "..."}.'
        )
    if entry.get("tool_calls") or entry.get("role") == "tool":
        raise DataError(
            "has calls of tools, which are no dialogue of texts",
            field=name,
            repair="A critic reads texts: leave it out, or write it as text.",
        )
    row = {**entry, "content": _text(entry.get("content"), name)}
    return message_from_row({"input": "", **row} if row.get("role") == "assistant" else row, name)


def _check_text(text: str, name: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        repair = "Replace half surrogates, as by text.encode(errors='replace').decode()."
        raise DataError("is no text that can be tokenised", field=name, value=text, repair=repair) from error


def _text(content: Json, name: str) -> Json:
    """A content of parts, as chat APIs have it, as one text."""
    if not isinstance(content, list):
        return content
    for part in content:
        if not isinstance(part, Mapping) or not isinstance(part.get("text"), str):
            raise DataError(
                "has a part that is no text",
                field=f"{name}.content",
                value=part,
                repair="A critic reads texts: pictures cannot be shown to it here.",
            )
    return "".join(part["text"] for part in content)
