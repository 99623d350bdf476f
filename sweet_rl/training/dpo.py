"""Preference training: pairs, the reference's log-probabilities, and the run. Prints through `say`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from sweet_rl import tracking
from sweet_rl.errors import UsageError
from sweet_rl.records import replace_rows
from sweet_rl.training import models
from sweet_rl.training.batches import Collator
from sweet_rl.training.data import PairRow, read_pairs
from sweet_rl.training.encoding import (
    Encoded,
    TurnEncoder,
    check_tokenizers,
    turn_encoder,
)
from sweet_rl.training.engines import lost_processes_named
from sweet_rl.training.fitting import (
    Rows,
    Say,
    begin,
    fit,
    hold_out,
    once,
    pad_id,
    reader,
    say_what_was_encoded,
)
from sweet_rl.training.forward import PreferenceObjective
from sweet_rl.training.losses import PairLogps, pair_losses
from sweet_rl.training.metrics import finite
from sweet_rl.training.published import PublishedEncoder
from sweet_rl.training.reference import reference_and_policy, score_alone
from sweet_rl.training.settings import TrainSettings
from sweet_rl.training.vision import Vision
from sweet_rl.types import Json


def evaluate(settings: TrainSettings, say: Say) -> None:
    """Write every pair's numbers to `metrics_path`, in file order, and train nothing.

    Raises:
        SweetRLError: data, models or flags are wrong; see the rooms' own functions.
    """
    if settings.output.metrics_path is None:
        raise UsageError("--eval_only needs --metrics_path, the .jsonl file for the numbers.")
    if int(os.environ.get("RANK", "0")):
        return  # one process scores; the others of a launcher have nothing to do
    tokenizer = models.load_tokenizers(settings.model)
    pairs, vision = _pairs(tokenizer, settings, say)[:2]
    names = (settings.model.ref_pretrain or settings.model.pretrain, settings.model.pretrain)
    scores = [score_alone(name, settings, pairs, pad_id(tokenizer), vision) for name in dict.fromkeys(names)]
    reference, policy = scores[0], scores[-1]
    at = [pair.index for pair in pairs]
    chosen, rejected = reference[at, :2].T
    losses = pair_losses(PairLogps(*policy[at].T), chosen, rejected, settings.loss)
    columns: dict[str, Any] = {
        "chosen_logp": policy[at, 0],
        "rejected_logp": policy[at, 1],
        "reference_chosen_logp": reference[at, 0],
        "reference_rejected_logp": reference[at, 1],
        "preference_loss": losses.preference_B,
        "chosen_reward": losses.chosen_reward_B,
        "rejected_reward": losses.rejected_reward_B,
        "reward_margin": losses.margin_B,
        "accuracy": losses.accuracy_B,
        "nll_loss": losses.nll_B,
        "total_loss": losses.total_B,
    }
    lists = {name: tensor.tolist() for name, tensor in columns.items()}
    rows: list[Json] = [
        finite({"index": index, **{name: values[i] for name, values in lists.items()}})
        for i, index in enumerate(at)
    ]
    tracking.writes(settings.output.metrics_path)
    replace_rows(settings.output.metrics_path, rows)
    accuracy = sum(lists["accuracy"]) / len(rows)
    loss = sum(lists["total_loss"]) / len(rows)
    say(f"{len(rows):,} pairs: accuracy {accuracy:.3f}, loss {loss:.4f}")
    say(f"numbers: {settings.output.metrics_path}")


def train(settings: TrainSettings, say: Say) -> None:
    """Train, and save the model with its tokenizer to `save_path`.

    Raises:
        SweetRLError: data, models or flags are wrong, the loss is not a number, or a process is gone.
    """
    say = once(say)
    rows = pair_rows(models.load_tokenizers(settings.model), settings, say)
    run = begin("train_dpo", settings, rows, say)
    with lost_processes_named(settings):
        reference, model = reference_and_policy(run, rows)
    fit(
        run,
        model,
        collator=Collator(
            settings.loss.reduction, reader(model, rows.pad_id, settings, rows.vision), reference
        ),
        objective=lambda bare: PreferenceObjective(bare, settings.loss),
    )


def pair_rows(tokenizer: Any, settings: TrainSettings, say: Say) -> Rows:
    """Pairs to train on and held-out ones.

    Raises:
        SweetRLError: there are none, or a row is not a pair.
    """
    pairs, vision, total, has_test = _pairs(tokenizer, settings, say)
    train_on, held_out = hold_out(pairs, settings, total=total, has_test=has_test)
    say(f"{len(train_on):,} pairs to train on, {len(held_out):,} held out")
    return Rows(tokenizer, train_on, held_out, pad_id(tokenizer), vision)


class _Pairs(NamedTuple):
    """Pairs that can be trained on; `total` rows come before those of a test split, if there is one."""

    pairs: list[Encoded]
    vision: Vision | None
    total: int
    has_test: bool


def _pairs(tokenizer: Any, settings: TrainSettings, say: Say) -> _Pairs:
    data = settings.data
    sets = read_pairs(data, seed=settings.seed, published=settings.published)
    rows = [*sets.train, *sets.test]
    check_tokenizers(rows, tokenizer, allowed=data.other_tokenizer)
    vision = _vision(tokenizer, rows, settings)
    encoder: PublishedEncoder | TurnEncoder
    if settings.published:
        template = data.response_template
        encoder = PublishedEncoder(tokenizer, max_len=data.max_len, response_template=template, vision=vision)
    else:
        encoder = turn_encoder(tokenizer, data, vision)
    pairs, report = encoder.encode(rows)
    say_what_was_encoded(pairs, report, data, tokenizer, say)
    return _Pairs(pairs, vision, len(sets.train), bool(sets.test))


def _vision(tokenizer: Any, rows: Sequence[PairRow], settings: TrainSettings) -> Vision | None:
    """How the model sees; None where it does not, and where it need not and its folder does not say how."""
    try:
        return Vision.load(settings.model.pretrain, tokenizer, settings.data)
    except UsageError as error:
        first = next((row for row in rows if row.pictures), None)
        if first is None:
            return None
        raise UsageError(f"{first.place} shows a picture. {error}") from error
