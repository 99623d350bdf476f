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
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias

from sweet_rl.chat import ChatFormat
from sweet_rl.errors import DataError, UsageError
from sweet_rl.preferences import ranking
from sweet_rl.preferences.candidates import Candidate, Candidates
from sweet_rl.preferences.pairs import TurnKey, key_of
from sweet_rl.preferences.ranking import Continuation, Encoding, Model
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


def digest_of(turn: Candidates) -> str:
    """The `turn_digest` of a turn."""
    return turn_digest(turn.prompt, *(one.text for one in turn.candidates))


Value: TypeAlias = float | str
"""A score, or the key of `WHY` that says why there is none."""
Values: TypeAlias = list[list[Value]]
"""One for each candidate of each turn."""


class Reader:
    """Asks models, by their roles, about candidates of turns (a turn that was taken is the only one).

    `cost` are the tokens that were read for each turn since `begin`, prompts and candidates; what was read is kept till then.
    """

    def __init__(self, models: Mapping[str, Model]) -> None:
        self.models, self.cost = models, Counter[TurnKey]()
        self._known = dict[tuple[str, Continuation], list[float] | None]()

    def begin(self) -> None:
        """Count anew."""
        self.cost.clear()
        self._known.clear()

    async def read(
        self, role: str, turns: Sequence[Candidates], *, told: bool = False, total: bool = False
    ) -> Values:
        """Mean log-probabilities of candidates behind their prompts, or sums; the value of a regression head.

        `told`: the hidden solution stands before the prompt. The sampler's ids are read where they spell the text.
        """
        model, rows, wanted = self.models[role], list[list[Continuation]](), list[list[Continuation]]()
        for turn in turns:
            ids = (one for one in turn.candidates if one.token_ids is not None)
            own = turn.tokenizer is None and all(spells(one, model.encoding) for one in ids)
            asked = replace(turn, tokenizer=model.encoding.digest) if own else turn
            context = ranking.context_of(asked, with_ground_truth=told)
            rows.append(ranking.candidate_tokens(asked, context, model.encoding) if turn.prompt else [])
            wanted.append([one for one in rows[-1] if (role, one) not in self._known])
            self.cost[turn.key] += sum(len(one.tokens) for one in wanted[-1])
            self.cost[turn.key] += len(wanted[-1][0].context) if wanted[-1] else 0
        scored = await ranking.logprobs_of(model.scorer, wanted, model.scorer.context_length)
        for row, found in zip(wanted, scored, strict=True):
            self._known.update(zip(((role, one) for one in row), found, strict=True))

        def value(one: Continuation) -> Value:
            logps = self._known[role, one]
            if not logps:
                return "too_long" if one.tokens else "no_tokens"
            found = math.fsum(logps) / (1 if total else len(logps))
            return found if math.isfinite(found) else "not_finite"

        both = zip(turns, rows, strict=True)
        return [[*map(value, row)] if row else ["no_prompt" for _ in turn.candidates] for turn, row in both]

    async def compared(
        self, turns: Sequence[Candidates], *, told: bool, paper: bool = False, role: str = "critic"
    ) -> list[list[View]]:
        """What a critic says of candidates beside the reference, or beside the sampler where there is none.

        By the released advantage the reference never knows the solution; by the paper's (equation 3) as the critic does.
        """
        valued = self.models[role].scorer.has_value_head
        ours = await self.read(role, turns, told=told)
        theirs: Sequence[Sequence[Value | None]] = [[one.mean for one in turn.candidates] for turn in turns]
        if "reference" in self.models and not valued:
            theirs = await self.read("reference", turns, told=told and paper)

        def view(critic: Value, reference: Value | None) -> View:
            if isinstance(critic, str):
                return View(why=critic)
            if valued:
                return View(critic, None, critic)
            if reference is None or isinstance(reference, str):
                return View(critic, why=reference or "no_reference")
            return View(critic, reference, critic - reference)

        return [[*map(view, one, other)] for one, other in zip(ours, theirs, strict=True)]


def check_reference(turns: Sequence[Candidates], critic: Model, reference: Model | None) -> None:
    """Whether there is anything to compare the critic with."""
    if critic.scorer.has_value_head or reference is not None or not turns:
        return
    if all(turn.candidates[0].mean is None for turn in turns):
        raise UsageError(
            "No turn has log-probabilities to compare the critic's with: the agent is a server or needs no "
            "model. Pass --reference_model with the model that the critic was trained from: it computes them."
        )


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
"""A turn's row of a file of `sweet-rl credit score`."""

_AGAIN = "Score this trajectory file again by sweet-rl credit score."


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
            own = digest_of(turn)
            if scored is not None and scored["turn_digest"] != own:
                value = scored["turn_digest"]
                problem = f"is of another text than turn {turn.key[2]} of {turn.key[:2]}"
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
                repair = "Run sweet-rl credit score on these trajectories to its end."
                raise UsageError(
                    f"{str(path)!r} has no {what} for turn {number} of {trajectory.key}. {repair}"
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
                problem = "has calls of tools, which are no dialogue of texts"
                raise DataError(problem, field=where, repair=repair)
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
        found: dict[TurnKey, View] = {}
        for tells in (True, False):
            of_way = (own for told, own in zip(hidden, turns, strict=True) if (told is not None) is tells)
            asked = list(chain.from_iterable(of_way))
            views = await self.compared(asked, told=tells)
            found |= {turn.key: own for turn, own in zip(asked, views, strict=True)}
        return [[found[turn.key] for turn in own] for own in turns]

    async def compared(self, turns: Sequence[Candidates], *, told: bool) -> list[View]:
        """What the critic says of turns that were taken (`Reader.compared`)."""
        check_reference(turns, self.critic, self.reference)
        models = {"critic": self.critic} | ({} if self.reference is None else {"reference": self.reference})
        views = await Reader(models).compared(turns, told=told, paper=self.advantage == "paper")
        return [own for (own,) in views]


def facts_of(critic: str | Path, reference: str | Path | None, advantage: Advantage) -> dict[str, Json]:
    """What decides about a score: a file may be continued only with the same. Models go by their content."""
    known = None if reference is None else identity_of(reference)
    return {"critic": identity_of(critic), "reference": known, "advantage": advantage}
