"""The reference model's log-probabilities of all pairs.

It is asked once, before training, so that it need not stay in memory, and not at all where its numbers are on
disk already. It is the base model itself, before an adapter is put on it, unless another one is named.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sweet_rl.chat import tokenizer_digest
from sweet_rl.training import memory, models
from sweet_rl.training.batches import Collator, Reader, to_device
from sweet_rl.training.engines import Processes, half_weights, sharded_for_scoring, shards_weights
from sweet_rl.training.fitting import Rows, Run, check_sizes, packs_of, reader, show_pictures, trainable
from sweet_rl.training.forward import PairForward
from sweet_rl.training.reference_cache import ReferenceCache, pairs_digest, weights_digest
from sweet_rl.training.settings import TrainSettings
from sweet_rl.training.vision import Vision


def reference_and_policy(run: Run, rows: Rows) -> tuple[Tensor, Any]:
    """[rows of the data, 2] under the reference, and the policy; both models are never held at once."""
    settings = run.settings
    model = settings.model
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
        policy = models.load_model(model.pretrain, model, half=half_weights(settings))
        check_sizes(policy, rows.all, settings)
    return _by_index(scores, rows.all)[:, :2].contiguous(), trainable(policy, settings)


def score_alone(
    name: str, settings: TrainSettings, pairs: Sequence[Any], pad: int, vision: Vision | None = None
) -> Tensor:
    """[rows of the data, 3] under a model that this process holds alone; columns as `_scores`."""
    model = models.load_model(name, settings.model)
    check_sizes(model, pairs, settings)
    wanted = settings.model.device
    device = ("cuda" if torch.cuda.is_available() else "cpu") if wanted == "auto" else wanted
    read = reader(model, pad, settings, vision)
    return _by_index(_scores(model.to(device), model, settings, pairs, read, Processes(), device), pairs)


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
    if rows.vision is not None and show_pictures(rows.all):
        identity["pixels"] = rows.vision.digest
    return ReferenceCache(folder, identity)


def _known(cache: ReferenceCache | None, processes: Processes) -> Tensor | None:
    """What the first process finds on its disk, on all of them; only that one has a cache."""
    found = [None if cache is None else cache.load()]
    if processes.world > 1:
        torch.distributed.broadcast_object_list(found)
    return found[0]


def _ask(name: str, run: Run, rows: Rows) -> tuple[Tensor, Any | None]:
    """[pairs, 3] under the reference; and its model, where the policy begins as the same."""
    settings = run.settings
    reference = models.load_model(name, settings.model, half=half_weights(settings))
    check_sizes(reference, rows.all, settings)
    device, sharded = run.arguments.device, shards_weights(settings)
    asked = sharded_for_scoring(reference, run.arguments, settings) if sharded else reference.to(device)
    read = reader(reference, rows.pad_id, settings, rows.vision)
    scores = _scores(asked, reference, settings, rows.all, read, run.processes, device)
    return scores, reference if name == settings.model.pretrain and not sharded else None


def _scores(
    asked: Any,
    bare: Any,
    settings: TrainSettings,
    pairs: Sequence[Any],
    read: Reader,
    processes: Processes,
    device: Any,
) -> Tensor:
    """[pairs, 3] in float32 on the CPU: chosen, rejected, and the chosen one's NLL, in the order of `pairs`.

    Every process takes every other batch, and all make the same number of passes, as a sharded model needs.
    """
    share = read.attention_span > 0 and not show_pictures(pairs)
    collator, forward = Collator(settings.loss.reduction, read), PairForward(bare)
    batches = packs_of(pairs, settings, processes, share=share)(list(range(len(pairs))))
    bf16 = torch.autocast(torch.device(device).type, torch.bfloat16, enabled=settings.model.bf16)

    def scored(rows: Sequence[int]) -> Tensor:
        batch = to_device(collator([(pairs[row], 0.0) for row in rows]), device)
        with torch.inference_mode(), bf16:
            logps, _ = forward(asked, batch)
        return torch.stack(list(logps), dim=-1).float().cpu()

    rank, world = processes
    result = torch.zeros(len(pairs), 3)
    training = asked.training
    asked.eval()
    for start in range(0, len(batches), world):
        mine = start + rank
        rows = batches[min(mine, len(batches) - 1)]
        with memory.explained(memory.REPAIR):
            scores = torch.cat(list(memory.by_halves(rows, scored))) if world == 1 else scored(rows)
        if mine < len(batches):
            result[rows] = scores
    asked.train(training)
    if world > 1:
        shared = result.to(device)
        torch.distributed.all_reduce(shared)
        result = shared.cpu()
    return result


def _by_index(scores: Tensor, pairs: Sequence[Any]) -> Tensor:
    """[rows of the data, 3], by `Encoded.index`; rows that were left out are 0."""
    by_index = torch.zeros(max(pair.index for pair in pairs) + 1, scores.shape[1])
    by_index[[pair.index for pair in pairs]] = scores
    return by_index
