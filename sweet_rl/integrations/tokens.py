"""Dialogues token by token, and credit on their tokens: what the integrations of trainers share.

A row is a prompt and all that follows: the agent's turns as sampled, each a run of ones in the mask, and what it was told.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sweet_rl.credit.check import runs
from sweet_rl.errors import UsageError
from sweet_rl.preferences.candidates import Candidate
from sweet_rl.preferences.credit import spells
from sweet_rl.preferences.ranking import Encoding, encoding_by
from sweet_rl.types import AgentTurn, FinishReason, Json, Trajectory

Credit = list[float | None]
"""One number for each turn of a row, in nats per token; None for a turn that has none."""


@dataclass(slots=True)
class TokenRow:
    """A prompt, and what follows it; `logprobs` are the sampler's, 0 where `mask` is; `turns` are the turns' numbers."""

    prompt_ids: list[int]
    response_ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] | None = field(default_factory=list)
    turns: list[int] = field(default_factory=list)


def token_rows(episode: Trajectory, tokenizer: Any, encoding: Encoding | None = None) -> list[TokenRow]:
    """An episode, whose turns bring their tokens, by what was sampled with this tokenizer.

    One row, as long as each prompt begins with all that was before; a new one where it does not (thoughts
    that are taken out, worlds whose every message has the whole state).
    """
    encoding = encoding or encoding_by(tokenizer)
    rows: list[TokenRow] = []
    before: str | None = None
    taken = [message for message in episode.dialogue_history if message.role == "assistant"]
    for number, turn in enumerate(taken):
        if not isinstance(turn, AgentTurn) or not turn.token_ids:
            repair = "Play with --agent transformers or vllm; other trainers learn from tokens as they were sampled."
            raise UsageError(f"Turn {number} of {episode.key} has no token ids. {repair}")
        own = spells(Candidate.of(turn.output, turn), encoding)
        with suppress(IndexError, OverflowError, TypeError):  # ids that this tokenizer does not have
            how = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
            own = own or tokenizer.decode(turn.token_ids, **how) == turn.output  # special ones within it
        if not own:
            problem = f"are not its text in the tokenizer of {tokenizer.name_or_path!r}"
            repair = "Name the tokenizer of the model that sampled them."
            raise UsageError(f"The token ids of turn {number} of {episode.key} {problem}. {repair}")
        if before is None or not turn.input.startswith(before):
            rows.append(TokenRow(encoding.encode(turn.input)))
        else:
            _add(rows[-1], encoding.encode(turn.input[len(before) :]), 0, None)
        _add(rows[-1], turn.token_ids, 1, turn.logprobs)
        rows[-1].turns.append(number)
        before = turn.input + encoding.decode(turn.token_ids)
    return rows


def credited_rows(
    episodes: Sequence[Trajectory], credit: Sequence[Credit], tokenizer: Any
) -> list[dict[str, Json]]:
    """Rows for other trainers, in the columns that TRL asks a rollout for; see `sweet-rl export_credit`."""
    found: list[dict[str, Json]] = []
    encoding = encoding_by(tokenizer)
    tasks = [episode.task.task_id for episode in episodes]
    for episode, own, less in zip(episodes, credit, centred(credit, tasks), strict=True):
        for row in token_rows(episode, tokenizer, encoding):
            advantages, _ = on_tokens([less[turn] for turn in row.turns], row.mask)
            whose = {"task_id": episode.task.task_id, "sample_index": episode.sample_index}
            said = {"prompt_ids": row.prompt_ids, "completion_ids": row.response_ids, "env_mask": row.mask}
            scores = {"credit": [own[turn] for turn in row.turns], "advantages": advantages}
            found.append({**whose, "turn_indexes": row.turns, **said, "logprobs": row.logprobs, **scores})
    return found


def agent_turns(
    prompt_ids: Sequence[int], response_ids: Sequence[int], mask: Sequence[int], encoding: Encoding
) -> list[AgentTurn]:
    """The turns of a row, each with its prompt as text: what a critic scores."""
    return [
        agent_turn(response_ids[start:end], encoding, encoding.decode([*prompt_ids, *response_ids[:start]]))
        for start, end in runs(mask)
    ]


def agent_turn(ids: Sequence[int], encoding: Encoding, given: str = "") -> AgentTurn:
    """A turn of the sampled ids, special ones written out; `given`, its prompt, is "" where a critic's template writes it."""
    width = len(encoding.end_ids)
    ended = tuple(ids[-width:]) == encoding.end_ids
    said = encoding.decode(ids[:-width] if ended else ids)
    why = FinishReason.STOP if ended else FinishReason.LENGTH
    return AgentTurn("assistant", said, given, said, token_ids=tuple(ids), finish_reason=why)


def centred(credit: Sequence[Credit], groups: Sequence[Hashable]) -> list[Credit]:
    """Credit less its group's mean: a critic's is not 0, and a policy would learn to like whatever it does."""
    known: defaultdict[Hashable, list[float]] = defaultdict(list)
    for group, values in zip(groups, credit, strict=True):
        known[group] += [value for value in values if value is not None]
    means = {group: sum(values) / len(values) for group, values in known.items() if values}
    both = [(means.get(group, 0.0), values) for group, values in zip(groups, credit, strict=True)]
    return [[None if value is None else value - mean for value in values] for mean, values in both]


def on_tokens(values: Credit, mask: Sequence[int]) -> tuple[list[float], list[int]]:
    """A row's credit on every token of each turn, 0 elsewhere; and the mask without turns that have none."""
    places = runs(mask)
    if len(places) != len(values):
        raise UsageError(f"{len(values)} values for {len(places)} turns.")
    spread, learned = [0.0] * len(mask), [0] * len(mask)
    for (start, end), value in zip(places, values, strict=True):
        if value is not None:
            spread[start:end], learned[start:end] = [value] * (end - start), [1] * (end - start)
    return spread, learned


def _add(row: TokenRow, ids: Sequence[int], own: int, logprobs: Sequence[float] | None) -> None:
    row.response_ids += ids
    row.mask += [own] * len(ids)
    if own and not logprobs:
        row.logprobs = None
    elif row.logprobs is not None:
        row.logprobs += logprobs or [0.0] * len(ids)
