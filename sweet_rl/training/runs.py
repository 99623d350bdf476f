"""The runs of preference training: DPO and its evaluation, imitation, a critic with a regression head.

All print through `say`, raise SweetRLError where data, models or flags are wrong, a loss is not a number or a process
is gone, and save the model with its tokenizer to `save_path`.

Published behaviour: docs/published/sweet_rl.md#preference-training, #reward-models.
"""

from __future__ import annotations

import os
from typing import Any

from sweet_rl import tracking
from sweet_rl.errors import UsageError
from sweet_rl.records import replace_rows
from sweet_rl.training import models
from sweet_rl.training.batches import Collator, ValueCollator
from sweet_rl.training.checkpoints import finite
from sweet_rl.training.data import read_pairs, read_texts
from sweet_rl.training.encoding import Encoded, PublishedEncoder, TurnEncoder, check_tokenizers, turn_encoder
from sweet_rl.training.fitting import (
    begin,
    check_sizes,
    fit,
    hold_out,
    once,
    pad_id,
    reader,
    say_what_was_encoded,
)
from sweet_rl.training.forward import CriticObjective, ImitationObjective, PreferenceObjective
from sweet_rl.training.losses import PairLogps, pair_losses
from sweet_rl.training.reference import reference_and_policy, score_alone
from sweet_rl.training.settings import DPOSettings, SFTSettings, TrainSettings
from sweet_rl.training.sharding import half_weights, lost_processes_named
from sweet_rl.training.trainer import Rows, Say
from sweet_rl.training.vision import Vision
from sweet_rl.types import Json


def evaluate_pairs(settings: DPOSettings, say: Say) -> None:
    """Write every pair's numbers to `metrics_path`, in file order, and train nothing."""
    if int(os.environ.get("RANK", "0")):
        return  # one process scores; the others of a launcher have nothing to do
    tokenizer = models.load_tokenizers(settings)
    pairs, vision = _pairs(tokenizer, settings, say)[:2]
    names = (settings.ref_pretrain or settings.pretrain, settings.pretrain)
    scores = [score_alone(name, settings, pairs, pad_id(tokenizer), vision) for name in dict.fromkeys(names)]
    at = [pair.index for pair in pairs]
    (chosen, rejected), policy = scores[0][at, :2].T, scores[-1][at]
    losses = pair_losses(PairLogps(*policy.T), chosen, rejected, settings)
    columns = {
        "chosen_logp": policy[:, 0],
        "rejected_logp": policy[:, 1],
        "reference_chosen_logp": chosen,
        "reference_rejected_logp": rejected,
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
    path = str(settings.metrics_path)
    tracking.writes(path)
    replace_rows(path, rows)
    accuracy, loss = (sum(lists[name]) / len(rows) for name in ("accuracy", "total_loss"))
    say(f"{len(rows):,} pairs: accuracy {accuracy:.3f}, loss {loss:.4f}")
    say(f"numbers: {path}")


def train_dpo(settings: DPOSettings, say: Say) -> None:
    """Learn from pairs by the preference loss of the settings."""
    say = once(say)
    rows = _pair_rows(settings, say)
    run = begin("train_dpo", settings, rows, say)
    with lost_processes_named(settings):
        reference, model = reference_and_policy(settings, run, rows)
    read = reader(model, rows.pad_id, settings, rows.vision)
    fit(run, model, collator=Collator(settings.reduction, read, reference), objective=PreferenceObjective)


def train_sft(settings: SFTSettings, say: Say) -> None:
    """Imitate: an optimizer step minimises the mean negative log-likelihood over all scored tokens of its rows."""
    say = once(say)
    read, selected = read_texts(settings, min_reward=settings.min_reward, best_of_task=settings.best_of_task)
    for line in selected:
        say(line)
    tokenizer = models.load_tokenizers(settings)
    check_tokenizers(read, tokenizer, allowed=settings.other_tokenizer)
    texts, report = turn_encoder(tokenizer, settings).encode(read)
    say_what_was_encoded(texts, report, settings, tokenizer, say)
    train_on, held_out = hold_out(texts, settings, total=len(read))
    tokens = sum(text.weight for text in train_on)
    say(f"{len(train_on):,} texts ({tokens:,} tokens to imitate) to train on, {len(held_out):,} held out")
    vision = Vision.find(settings.pretrain, tokenizer)  # texts show nothing, but it is saved as well
    rows = Rows(tokenizer, train_on, held_out, pad_id(tokenizer), vision)
    run = begin("train_sft", settings, rows, say)
    model = models.load_model(settings.pretrain, settings, half=half_weights(settings))
    check_sizes(model, rows.all, settings)
    fit(
        run,
        models.trainable(model, settings),
        collator=Collator("sum", reader(model, rows.pad_id, settings)),
        objective=ImitationObjective,
    )


def train_critic(settings: TrainSettings, say: Say) -> None:
    """Train a sequence classifier with one label: the ablation that SWEET-RL's own critic is compared with."""
    say = once(say)
    rows = _pair_rows(settings, say)
    run = begin("train_reward_model", settings, rows, say, share=False)
    model = models.load_critic(settings.pretrain, settings, half=half_weights(settings))
    check_sizes(model, rows.all, settings)
    model.config.get_text_config().pad_token_id = rows.pad_id  # without one, the classifier refuses batches
    model.config.critic_value = "mean" if settings.published else "last"
    fit(
        run,
        models.trainable(model, settings),
        collator=ValueCollator(rows.pad_id, rows.vision),
        objective=CriticObjective,
    )


def _pair_rows(settings: TrainSettings, say: Say) -> Rows:
    """Pairs to train on and held-out ones."""
    tokenizer = models.load_tokenizers(settings)
    pairs, vision, total, has_test = _pairs(tokenizer, settings, say)
    train_on, held_out = hold_out(pairs, settings, total=total, has_test=has_test)
    say(f"{len(train_on):,} pairs to train on, {len(held_out):,} held out")
    return Rows(tokenizer, train_on, held_out, pad_id(tokenizer), vision)


def _pairs(
    tokenizer: Any, settings: TrainSettings, say: Say
) -> tuple[list[Encoded], Vision | None, int, bool]:
    """Pairs that can be trained on; how many rows come before those of a test split, and if there is one."""
    train_on, test = read_pairs(settings, seed=settings.seed, published=settings.published)
    rows = [*train_on, *test]
    check_tokenizers(rows, tokenizer, allowed=settings.other_tokenizer)
    vision = None
    try:
        vision = Vision.load(settings.pretrain, tokenizer, settings)
    except UsageError as error:  # the model does not see, or its folder does not say how: it may not need to
        if (first := next((row for row in rows if row.pictures), None)) is not None:
            raise UsageError(f"{first.place} shows a picture. {error}") from error
    encoder: PublishedEncoder | TurnEncoder
    if settings.published:
        template = settings.response_template
        encoder = PublishedEncoder(
            tokenizer, max_len=settings.max_len, response_template=template, vision=vision
        )
    else:
        encoder = turn_encoder(tokenizer, settings, vision)
    pairs, report = encoder.encode(rows)
    say_what_was_encoded(pairs, report, settings, tokenizer, say)
    return pairs, vision, len(train_on), bool(test)
