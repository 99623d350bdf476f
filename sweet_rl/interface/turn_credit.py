"""The critic's view of every turn, from Python."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path

from sweet_rl.errors import UsageError, missing_package
from sweet_rl.interface.waiting import in_thread
from sweet_rl.preferences.credit import (
    Advantage,
    Crediting,
    TurnCredit,
    check_reference,
    credited,
    own_turns,
)
from sweet_rl.preferences.ranking import Model
from sweet_rl.preferences.tokenizers import encoding_of
from sweet_rl.runs.record import trained_from
from sweet_rl.types import Trajectory


def credit(
    episodes: Iterable[Trajectory],
    critic: str | Path,
    *,
    hidden: bool = True,
    without_hidden: bool = True,
    reference_model: str | Path | None = None,
    advantage: Advantage = "released",
    device: str = "auto",
    dtype: str = "auto",
) -> list[list[TurnCredit]]:
    """Score every turn of episodes by a critic; what `sweet-rl credit` does.

    Args:
        episodes: finished ones, of any world.
        critic: a checkpoint folder, or a name on the hub.
        hidden: score with the hidden solution before the dialogue.
        without_hidden: score without it.
        reference_model: what the critic is compared with; default: the model that it was trained from, as the
            record in its folder says, else what the sampler recorded.
        advantage: released, or paper (equation 3; needs a reference model).
        device: "auto" (a GPU if there is one), "cpu", "cuda:1", ...
        dtype: "auto" (that of the checkpoint), "float32", "bfloat16", "float16".

    Returns:
        For every episode its agent turns' scores. A turn without a score says why
        (`sweet_rl.preferences.credit.WHY`).

    Raises:
        UsageError: no such model, or nothing to compare the critic with.
    """
    if not (hidden or without_hidden):
        raise UsageError("Neither hidden nor without_hidden: there is nothing to compute.")
    reference_model = reference_model or trained_from(critic)
    if advantage == "paper" and reference_model is None:
        raise UsageError("advantage='paper' needs a reference_model, which is shown the solution, too.")
    turns = [own_turns(episode) for episode in episodes]
    every = [turn for own in turns for turn in own]
    try:
        from sweet_rl.training.scoring import CandidateScorer, ScorerInThread  # noqa: PLC0415 - needs torch
    except ImportError as error:
        raise missing_package("torch", "transformers", needed_for="a critic") from error

    def model(name: str | Path) -> Model:
        scorer = CandidateScorer(name, device=device, dtype=dtype)
        return Model(ScorerInThread(scorer, str(name)), encoding_of(str(name), needs_header=False))

    def work() -> Sequence[TurnCredit]:
        own = model(critic)
        reference = None if reference_model is None else model(reference_model)
        check_reference(every, own, reference)
        return asyncio.run(credited(every, own, reference, Crediting(hidden, without_hidden, advantage)))

    scores = iter(in_thread(work))
    return [[next(scores) for _ in own] for own in turns]
