"""The critic's score of every turn of finished trajectories: which turn made the difference.

A score is what `sweet_rl.preferences.ranking` gives a candidate, here of the turn that was taken: the
critic's mean log-probability of the turn's own tokens minus the reference's, with the hidden solution before
the prompt (`hidden`) and without it (`without_hidden`). A critic with a regression head gives its value
instead.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias

from sweet_rl.chat import ChatFormat
from sweet_rl.errors import DataError, UsageError
from sweet_rl.preferences.candidates import Candidate, Candidates
from sweet_rl.preferences.pairs import TurnKey, key_fields, key_of
from sweet_rl.preferences.ranking import Encoding, Model, reduced
from sweet_rl.records import message_from_row, read_rows
from sweet_rl.runs.facts import identity_of
from sweet_rl.types import AgentTurn, Json, Message, Trajectory, digest

Advantage = Literal["released", "paper"]
Way = Literal["hidden", "without_hidden"]
WAYS: tuple[Way, ...] = ("hidden", "without_hidden")
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
        row: dict[str, Json] = key_fields(self.key) | {"turn_digest": self.turn_digest}
        for way in WAYS:
            if (view := getattr(self, way)) is not None:
                known = {name: value for name, value in asdict(view).items() if value not in {None, ""}}
                row[way] = {"advantage": view.advantage} | known
        return row


def own_turns(trajectory: Trajectory) -> list[Candidates]:
    """Every agent turn of a trajectory, in order, each as the only candidate of its row."""
    turns = [message for message in trajectory.dialogue_history if message.role == "assistant"]
    hidden = trajectory.task.ground_truth
    return [own_turn((*trajectory.key, number), turn, hidden) for number, turn in enumerate(turns)]


def own_turn(key: TurnKey, turn: Message, hidden: str) -> Candidates:
    """One agent turn; without a prompt, and so with none to score, where it was recorded without one."""
    taken = turn if isinstance(turn, AgentTurn) else AgentTurn("assistant", "")
    return Candidates(key, 0, taken.input, hidden, (Candidate.of(taken.output, taken),))


def turn_digest(prompt: str, *outputs: str) -> str:
    """What a turn's scores belong to: its prompt and text, or the texts of its candidates."""
    return digest([prompt, *outputs])


async def credited(
    turns: Sequence[Candidates],
    critic: Model,
    reference: Model | None,
    ways: Sequence[Way] = WAYS,
    *,
    advantage: Advantage = "released",
) -> list[TurnCredit]:
    """The scores of turns, in their order.

    By the released advantage the reference never knows the solution; by the paper's (equation 3) it is a model
    that knows it where the critic does.
    """
    found: dict[str, list[View]] = {}
    for way in ways:
        ours = await _scored(turns, critic, told=way == "hidden")
        theirs = [turn.candidates[0].mean for turn in turns]
        if reference is not None and not critic.scorer.has_value_head:
            theirs = await _scored(turns, reference, told=way == "hidden" and advantage == "paper")
        found[way] = [
            _view(turn, one, other, value_head=critic.scorer.has_value_head)
            for turn, one, other in zip(turns, ours, theirs, strict=True)
        ]
    return [
        TurnCredit(
            turn.key,
            turn_digest(turn.prompt, turn.candidates[0].text),
            **{way: views[place] for way, views in found.items()},
        )
        for place, turn in enumerate(turns)
    ]


async def _scored(turns: Sequence[Candidates], model: Model, *, told: bool) -> list[float | None]:
    """One score for each turn; those without a prompt are not asked about."""
    asked, found = list[Candidates](), list[float | None]()
    for turn in turns:
        if (
            turn.prompt
        ):  # with the sampler's token ids only where they spell the turn's text in this tokenizer
            (own,) = turn.candidates
            is_own = own.token_ids is None or spells(own, model.encoding)
            asked.append(replace(turn, tokenizer=model.encoding.digest) if is_own else turn)
    values = iter(await reduced(asked, model, with_ground_truth=told))
    for turn in turns:
        found.append(next(values)[0] if turn.prompt else None)
    return found


def _view(turn: Candidates, critic: float | None, reference: float | None, *, value_head: bool) -> View:
    if not turn.prompt:
        return View(why="no_prompt")
    if critic is None:
        empty = not turn.candidates[0].text and not turn.candidates[0].token_ids
        return View(why="no_tokens" if empty else "too_long")
    if value_head:
        return View(critic, None, critic) if math.isfinite(critic) else View(why="not_finite")
    if not math.isfinite(critic) or not math.isfinite(reference or 0.0):
        return View(why="not_finite")
    if reference is None:
        return View(critic, why="no_reference")
    return View(critic, reference, critic - reference)


def check_reference(turns: Sequence[Candidates], critic: Model, reference: Model | None) -> None:
    """Whether there is anything to compare the critic with."""
    if critic.scorer.has_value_head or reference is not None or not turns:
        return
    if all(turn.candidates[0].mean is None for turn in turns):
        raise UsageError(
            "No turn has log-probabilities to compare the critic's with: the agent is a server or needs no "
            "model. Pass --reference_model with the model that the critic was trained from: it computes them."
        )


def summary(rows: Sequence[Mapping[str, Json]]) -> dict[str, dict[str, Json]]:
    """Of rows of a credit file, for each way: how many scores, their mean, how many are missing and why."""
    found: dict[str, dict[str, Json]] = {}
    for way in WAYS:
        views = [row[way] for row in rows if way in row]
        scores = [view["advantage"] for view in views if view["advantage"] is not None]
        if views:
            found[way] = {
                "scores": len(scores),
                "mean": math.fsum(scores) / len(scores) if scores else None,
                "missing": dict(sorted(Counter(view["why"] for view in views if "why" in view).items())),
            }
    return found


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
            own = turn_digest(turn.prompt, turn.candidates[0].text)
            if scored is not None and scored["turn_digest"] != own:
                problem, value = (
                    f"is of another text than turn {turn.key[2]} of {turn.key[:2]}",
                    scored["turn_digest"],
                )
                raise DataError(
                    problem, path=path, line=line, field="turn_digest", value=value, repair=_AGAIN
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
    messages: list[Message] = []
    for place, entry in enumerate(given):
        where, message = f"{name}[{place}]", entry
        if not isinstance(entry, Message):
            if not isinstance(entry, Mapping):
                repair = 'Like {"role": "user", "content": "..."}.'
                raise DataError("must be a message", field=where, value=entry, repair=repair)
            if entry.get("tool_calls") or entry.get("role") == "tool":
                repair = "A critic reads texts: leave it out, or write it as text."
                raise DataError(
                    "has calls of tools, which are no dialogue of texts", field=where, repair=repair
                )
            content = entry.get("content")
            for part in content if isinstance(content, list) else ():  # as chat APIs have it
                if not isinstance(part, Mapping) or not isinstance(part.get("text"), str):
                    repair = "A critic reads texts: pictures cannot be shown to it here."
                    problem = "has a part that is no text"
                    raise DataError(problem, field=f"{where}.content", value=part, repair=repair)
            if isinstance(content, list):
                content = "".join(part["text"] for part in content)
            row = {"input": ""} if entry.get("role") == "assistant" else {}
            message = message_from_row({**row, **entry, "content": content}, where)
        messages.append(message)
    for place, message in enumerate(messages):
        _check_text(message.content, f"{name}[{place}].content")
    if messages and messages[0].role == "assistant" and not getattr(messages[0], "input", ""):
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


def _check_text(text: str, name: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        repair = "Replace half surrogates, as by text.encode(errors='replace').decode()."
        raise DataError("is no text that can be tokenised", field=name, value=text, repair=repair) from error


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
        turns: list[list[Candidates]] = []
        for number, (told, messages) in enumerate(zip(hidden, dialogues, strict=True)):
            turns.append([])
            for place, message in enumerate(messages):
                if message.role == "assistant":
                    taken = message
                    if not isinstance(taken, AgentTurn):
                        taken = AgentTurn("assistant", message.content, output=message.content)
                    if not taken.input:
                        taken = replace(taken, input=self._chat().render(messages[:place]))
                    turns[-1].append(own_turn(("", number, len(turns[-1])), taken, told or ""))
        found: dict[TurnKey, View | None] = {}
        for tells in (True, False):
            way: Way = "hidden" if tells else "without_hidden"
            of_way = (own for told, own in zip(hidden, turns, strict=True) if (told is not None) is tells)
            asked = list(chain.from_iterable(of_way))
            check_reference(asked, self.critic, self.reference)
            for one in await credited(asked, self.critic, self.reference, (way,), advantage=self.advantage):
                found[one.key] = getattr(one, way)
        return [[found[turn.key] or View() for turn in own] for own in turns]


def facts_of(critic: str | Path, reference: str | Path | None, advantage: Advantage) -> dict[str, Json]:
    """What decides about a score: a file may be continued only with the same. Models go by their content."""
    known = None if reference is None else identity_of(reference)
    return {"critic": identity_of(critic), "reference": known, "advantage": advantage}
