"""Supervised fine-tuning on the agent's turns: texts, and the run. Prints through `say`."""

from __future__ import annotations

from sweet_rl.training import models
from sweet_rl.training.batches import TextCollator
from sweet_rl.training.data import read_texts
from sweet_rl.training.encoding import check_tokenizers, turn_encoder
from sweet_rl.training.engines import half_weights
from sweet_rl.training.fitting import (
    Rows,
    Say,
    begin,
    check_sizes,
    fit,
    hold_out,
    once,
    pad_id,
    reader,
    say_what_was_encoded,
    trainable,
)
from sweet_rl.training.forward import ImitationObjective
from sweet_rl.training.settings import SelectionSettings, TrainSettings
from sweet_rl.training.vision import Vision


def train(settings: TrainSettings, selection: SelectionSettings, say: Say) -> None:
    """Train, and save the model with its tokenizer to `save_path`.

    An optimizer step minimises the mean negative log-likelihood over all scored tokens of its rows.

    Raises:
        SweetRLError: data, models or flags are wrong, or the loss is not a number.
    """
    say = once(say)
    rows = _rows(settings, selection, say)
    run = begin("train_sft", settings, rows, say)
    model = models.load_model(settings.model.pretrain, settings.model, half=half_weights(settings))
    check_sizes(model, rows.all, settings)
    fit(
        run,
        trainable(model, settings),
        collator=TextCollator(reader(model, rows.pad_id, settings)),
        objective=lambda bare: ImitationObjective(bare, aux_loss_coef=settings.loss.aux_loss_coef),
    )


def _rows(settings: TrainSettings, selection: SelectionSettings, say: Say) -> Rows:
    data = settings.data
    read, selected = read_texts(data, selection)
    for line in selected.lines():
        say(line)
    tokenizer = models.load_tokenizers(settings.model)
    check_tokenizers(read, tokenizer, allowed=data.other_tokenizer)
    texts, report = turn_encoder(tokenizer, data).encode_texts(read)
    say_what_was_encoded(texts, report, data, tokenizer, say)
    train_on, held_out = hold_out(texts, settings, total=len(read))
    tokens = sum(text.weight for text in train_on)
    say(f"{len(train_on):,} texts ({tokens:,} tokens to imitate) to train on, {len(held_out):,} held out")
    vision = Vision.find(settings.model.pretrain, tokenizer)  # texts show nothing, but it is saved as well
    return Rows(tokenizer, train_on, held_out, pad_id(tokenizer), vision)
