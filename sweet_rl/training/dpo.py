"""Preference training: pairs, the reference's log-probabilities, and the run. Prints through `say`."""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from sweet_rl.chat import tokenizer_digest
from sweet_rl.errors import UsageError
from sweet_rl.records import replace_rows
from sweet_rl.training import models
from sweet_rl.training.batches import Collator
from sweet_rl.training.data import Render, read_pairs
from sweet_rl.training.encoding import EncodedPair, Encoder, TurnEncoder
from sweet_rl.training.engines import (
    in_pieces,
    in_pieces_for_scoring,
    lost_processes_named,
    uses_deepspeed,
)
from sweet_rl.training.fitting import (
    Rows,
    Run,
    Say,
    begin,
    check_sizes,
    fit,
    hold_out,
    once,
    packs_of,
    pad_id,
    reader,
    say_what_was_encoded,
    trainable,
)
from sweet_rl.training.forward import PairForward
from sweet_rl.training.losses import PairLogps, pair_losses
from sweet_rl.training.metrics import finite
from sweet_rl.training.objectives import PreferenceObjective
from sweet_rl.training.published import PublishedEncoder
from sweet_rl.training.reference import Processes, score_pairs
from sweet_rl.training.reference_cache import ReferenceCache, pairs_digest, weights_digest
from sweet_rl.training.settings import TrainSettings
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
    pairs = _pairs(tokenizer, settings, say).pairs
    names = (settings.model.ref_pretrain or settings.model.pretrain, settings.model.pretrain)
    scores = [_score(name, settings, pairs, pad_id(tokenizer)) for name in dict.fromkeys(names)]
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
        "accuracy": losses.accuracy_B,
        "nll_loss": losses.nll_B,
        "total_loss": losses.total_B,
    }
    lists = {name: tensor.tolist() for name, tensor in columns.items()}
    rows: list[Json] = [
        finite({"index": index, **{name: values[i] for name, values in lists.items()}})
        for i, index in enumerate(at)
    ]
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
    run = begin(settings, rows, say)
    with lost_processes_named(settings):
        reference, model = _reference_and_policy(run, rows)
    fit(
        run,
        model,
        collator=Collator(settings.loss.reduction, reader(model, rows.pad_id, settings), reference),
        objective=lambda bare: PreferenceObjective(bare, settings.loss),
    )


def pair_rows(tokenizer: Any, settings: TrainSettings, say: Say) -> Rows:
    """Pairs to train on and held-out ones.

    Raises:
        SweetRLError: there are none, or a row is not a pair.
    """
    pairs, total, has_test = _pairs(tokenizer, settings, say)
    train_on, held_out = hold_out(pairs, settings, total=total, has_test=has_test)
    say(f"{len(train_on):,} pairs to train on, {len(held_out):,} held out")
    return Rows(tokenizer, train_on, held_out, pad_id(tokenizer))


class _Pairs(NamedTuple):
    """Pairs that can be trained on; `total` rows come before those of a test split, if there is one."""

    pairs: list[EncodedPair]
    total: int
    has_test: bool


def _pairs(tokenizer: Any, settings: TrainSettings, say: Say) -> _Pairs:
    data = settings.data
    sets = read_pairs(
        data, seed=settings.seed, render=_render(tokenizer) if data.apply_chat_template else None
    )
    pairs, report = _encoder(tokenizer, settings).encode([*sets.train, *sets.test])
    say_what_was_encoded(pairs, report, data, say)
    return _Pairs(pairs, len(sets.train), bool(sets.test))


def _encoder(tokenizer: Any, settings: TrainSettings) -> Encoder:
    data = settings.data
    encoder = PublishedEncoder if settings.published else TurnEncoder
    return encoder(tokenizer, max_len=data.max_len, response_template=data.response_template)


def _render(tokenizer: Any) -> Render:
    def render(messages: list[dict[str, Json]], open_turn: bool) -> str:
        text: str = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=open_turn)
        return text

    return render


def _reference_and_policy(run: Run, rows: Rows) -> tuple[torch.Tensor, Any]:
    """The reference's log-probabilities of all pairs, and the policy; both models are never held at once."""
    settings = run.settings
    model, half = settings.model, uses_deepspeed(settings) and settings.model.bf16
    name = model.ref_pretrain or model.pretrain
    cache = _cache(name, rows, settings) if run.processes.rank == 0 else None
    scores = _known(cache, run.processes)
    policy = None
    if scores is None:
        scores, policy = _ask(name, run, rows)
        if cache is not None:
            cache.save(scores)
    else:
        run.say(f"the reference's log-probabilities: {cache.path if cache else ''}")
    if policy is None:
        gc.collect()
        policy = models.load_model(model.pretrain, model, half=half)
        check_sizes(policy, rows.all, settings)
    return _by_index(scores, rows.all)[:, :2].contiguous(), trainable(policy, settings)


def _ask(name: str, run: Run, rows: Rows) -> tuple[torch.Tensor, Any | None]:
    """[pairs, 3] under the reference; and its model, where the policy begins as the same."""
    settings = run.settings
    half = uses_deepspeed(settings) and settings.model.bf16
    reference = models.load_model(name, settings.model, half=half)
    check_sizes(reference, rows.all, settings)
    device, pieces = run.arguments.device, in_pieces(settings)
    asked = in_pieces_for_scoring(reference, run.arguments, settings) if pieces else reference.to(device)
    scores = _scores(asked, reference, settings, rows.all, rows.pad_id, run.processes, device)
    return scores, reference if name == settings.model.pretrain and not pieces else None


def _cache(name: str, rows: Rows, settings: TrainSettings) -> ReferenceCache | None:
    folder = settings.output.reference_cache
    weights = None if folder is None else weights_digest(name)
    if folder is None or weights is None:
        return None
    model = settings.model
    precision = f"{model.dtype}, bf16 {model.bf16}, 4 bit {model.load_in_4bit}"
    identity = {
        "model": weights,
        "tokenizer": tokenizer_digest(rows.tokenizer),
        "data": pairs_digest(rows.all),
        "reduction": settings.loss.reduction,
        "precision": precision,
    }
    return ReferenceCache(folder, identity)


def _known(cache: ReferenceCache | None, processes: Processes) -> torch.Tensor | None:
    """What the first process finds on its disk, on all of them; only that one has a cache."""
    found = [None if cache is None else cache.load()]
    if processes.world > 1:
        torch.distributed.broadcast_object_list(found)
    return found[0]


def _score(name: str, settings: TrainSettings, pairs: Sequence[Any], pad: int) -> torch.Tensor:
    model = models.load_model(name, settings.model)
    check_sizes(model, pairs, settings)
    wanted = settings.model.device
    device = ("cuda" if torch.cuda.is_available() else "cpu") if wanted == "auto" else wanted
    return _by_index(_scores(model.to(device), model, settings, pairs, pad, Processes(), device), pairs)


def _scores(
    asked: Any,
    bare: Any,
    settings: TrainSettings,
    pairs: Sequence[Any],
    pad: int,
    processes: Processes,
    device: Any,
) -> torch.Tensor:
    """[pairs, 3], in the order of `pairs`."""
    read = reader(bare, pad, settings)
    packs = packs_of(pairs, settings, processes, share=read.attention_span > 0)
    return score_pairs(
        asked,
        pairs,
        Collator(settings.loss.reduction, read),
        forward=PairForward(bare),
        batches=packs(list(range(len(pairs)))),
        device=device,
        processes=processes,
        bf16=settings.model.bf16,
    )


def _by_index(scores: torch.Tensor, pairs: Sequence[Any]) -> torch.Tensor:
    """[rows of the data, 3], by `EncodedPair.index`; rows that were left out are 0."""
    by_index = torch.zeros(max(pair.index for pair in pairs) + 1, scores.shape[1])
    by_index[[pair.index for pair in pairs]] = scores
    return by_index
