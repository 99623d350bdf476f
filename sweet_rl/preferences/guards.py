"""Rows that keep a policy from losing what it can do while it learns from pairs of single turns.

Pairs drawn from a model's own candidates say nothing about what only the trained model would do: repeat
itself, for example. Two remedies, both without a critic and for any world:

- a *hard negative*: a turn of a pair's better side against a turn that the agent has taken before in the same
  dialogue;
- a *twin*: a turn of a successful dialogue on both sides. It states no preference; the negative
  log-likelihood of the chosen side (`--nll_loss_coef`) holds on to it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from sweet_rl.preferences.candidates import Candidates
from sweet_rl.preferences.step_pairs import StepPair
from sweet_rl.preferences.trajectory_pairs import TrajectoryPair
from sweet_rl.preferences.turn_keys import TurnKey, key_fields
from sweet_rl.types import AgentTurn, FinishReason, Json, Trajectory, derive_seed

HARD_NEGATIVE, TWIN = "hard negative", "twin"
"""What the field `guard` of such a row says."""


def earlier_turns(messages: Sequence[Mapping[str, Json]]) -> list[str]:
    """The agent's turns before the last one, as its model wrote them, each once.

    Args:
        messages: the dialogue up to and with the turn, as in a sampled row.
    """
    texts = [
        message.get("output") or message.get("content")
        for message in messages[:-1]
        if message.get("role") == "assistant"
    ]
    return list(dict.fromkeys(text for text in texts if isinstance(text, str) and text))


def hard_negatives(
    row: Candidates,
    pairs: Sequence[StepPair],
    count: int,
    rng: random.Random,
    *,
    end_token: str,
    no_prompt: bool,
) -> list[dict[str, Json]]:
    """At most `count` rows in which a chosen candidate of these pairs stands against an earlier turn.

    A candidate equal to an earlier turn is never the better side; no earlier turn comes twice.
    """
    earlier = earlier_turns(row.row.get("messages") or [])
    fresh = [pair.chosen for pair in pairs if row.candidates[pair.chosen].text not in earlier]
    if not fresh:
        return []
    repeated = rng.sample(earlier, min(count, len(earlier)))
    return [
        _guard(
            row,
            row.candidates[rng.choice(fresh)].closed(end_token),
            text + end_token,
            HARD_NEGATIVE,
            no_prompt=no_prompt,
        )
        for text in repeated
    ]


def dialogue_hard_negatives(
    trajectories: Sequence[Trajectory], pairs: Sequence[TrajectoryPair], count: int
) -> list[dict[str, Json]]:
    """At most `count` rows for each pair of dialogues, likewise, from turns of the better dialogue.

    The same pairs give the same rows. As in rows of whole dialogues, no end token closes a turn.
    """
    rows: list[dict[str, Json]] = []
    for pair in pairs:
        trajectory = trajectories[pair.chosen]
        turns = [
            entry for entry in trajectory.dialogue_history if isinstance(entry, AgentTurn) and entry.input
        ]
        outputs = [turn.output for turn in turns]
        fresh = [place for place, output in enumerate(outputs) if place and output not in outputs[:place]]
        rng = random.Random(derive_seed(0, *trajectory.key, pair.rejected))
        for place in rng.sample(fresh, min(count, len(fresh))):
            before = rng.choice(outputs[:place])
            sides: dict[str, Json] = {"chosen": outputs[place], "rejected": before}
            rows.append({"prompt": turns[place].input} | sides | {"guard": HARD_NEGATIVE})
    return rows


def twin(row: Candidates, *, end_token: str, no_prompt: bool) -> dict[str, Json] | None:
    """The turn that was taken in the dialogue, on both sides; None where the row does not say which."""
    taken = row.row.get("older_output")
    if not isinstance(taken, str) or not taken:
        return None
    return _guard(row, taken + end_token, taken + end_token, TWIN, no_prompt=no_prompt)


def twins_of(trajectory: Trajectory, *, end_token: str, no_prompt: bool) -> list[dict[str, Json]]:
    """Every turn of a dialogue that was given a prompt, on both sides."""
    found: list[dict[str, Json]] = []
    turns = [entry for entry in trajectory.dialogue_history if entry.role == "assistant"]
    for index, turn in enumerate(turns):
        if isinstance(turn, AgentTurn) and turn.input and turn.output:
            text = turn.output if turn.finish_reason is FinishReason.LENGTH else turn.output + end_token
            key = (*trajectory.key, index)
            found.append(_row(turn.input, text, text, key, TWIN, no_prompt=no_prompt))
    return found


def succeeded(row: Candidates, least: float = 1.0) -> bool:
    """Whether the dialogue of a turn was rewarded with at least so much."""
    reward = row.row.get("reward")
    return isinstance(reward, int | float) and reward >= least


def _guard(row: Candidates, chosen: str, rejected: str, kind: str, *, no_prompt: bool) -> dict[str, Json]:
    return _row(row.prompt, chosen, rejected, row.key, kind, no_prompt=no_prompt)


def _row(
    prompt: str, chosen: str, rejected: str, key: TurnKey, kind: str, *, no_prompt: bool
) -> dict[str, Json]:
    before = prompt if no_prompt else ""
    sides: dict[str, Json] = {"chosen": before + chosen, "rejected": before + rejected}
    return ({} if no_prompt else {"prompt": prompt}) | sides | key_fields(key) | {"guard": kind}
