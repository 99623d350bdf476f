"""The reference model's log-probabilities of all pairs, and their files: the same pairs are scored once for all runs.

It is asked once, before training, so that it need not stay in memory, and not at all where its numbers are on
disk already. It is the base model itself, before an adapter is put on it, unless another one is named.
"""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from sweet_rl.chat import tokenizer_digest
from sweet_rl.chat.formats import model_path, user_cache
from sweet_rl.errors import UsageError
from sweet_rl.records import replace_file
from sweet_rl.training import forward, models, processes, sharding
from sweet_rl.training.batches import Collator, Reader, to_device
from sweet_rl.training.checkpoints import downloaded
from sweet_rl.training.fitting import check_sizes, packs_of, pairs_digest, reader, show_pictures
from sweet_rl.training.forward import PairForward
from sweet_rl.training.settings import DPOSettings, TrainSettings
from sweet_rl.training.trainer import Rows, Run
from sweet_rl.training.vision import Vision
from sweet_rl.types import digest


def reference_and_policy(settings: DPOSettings, run: Run, rows: Rows) -> tuple[Tensor, Any]:
    """[rows of the data, 2] under the reference, and the policy; both models are never held at once."""
    name, half = settings.ref_pretrain or settings.pretrain, sharding.half_weights(settings)
    cache = _cache(name, rows, settings) if processes.rank() == 0 else None
    scores = processes.from_main(lambda: None if cache is None else cache.load())
    policy = None
    if scores is None:
        reference = models.load_model(name, settings, half=half)
        check_sizes(reference, rows.all, settings)
        device, sharded = run.arguments.device, sharding.shards_weights(settings)
        asked = reference
        if sharded:
            asked = sharding.sharded_for_scoring(reference, run.arguments, settings)
        else:
            reference.to(device)
            policy = reference if name == settings.pretrain else None
        read = reader(reference, rows.pad_id, settings, rows.vision)
        mine = processes.rank(), processes.world_size()
        scores = _scores(asked, reference, settings, rows.all, read, device, *mine)
        del reference, asked
        if cache is not None:
            cache.save(scores)
    else:
        run.say(f"the reference's log-probabilities: {cache.path if cache else ''}")
    if policy is None:
        gc.collect()
        policy = models.load_model(settings.pretrain, settings, half=half)
        check_sizes(policy, rows.all, settings)
    return _by_index(scores, rows.all)[:, :2].contiguous(), models.trainable(policy, settings)


def score_alone(
    name: str, settings: TrainSettings, pairs: Sequence[Any], pad: int, vision: Vision | None = None
) -> Tensor:
    """[rows of the data, 3] under a model that this process holds alone; columns as `_scores`."""
    model = models.load_model(name, settings)
    check_sizes(model, pairs, settings)
    wanted = settings.device
    device = ("cuda" if torch.cuda.is_available() else "cpu") if wanted == "auto" else wanted
    read = reader(model, pad, settings, vision)
    return _by_index(_scores(model.to(device), model, settings, pairs, read, device), pairs)


def _cache(name: str, rows: Rows, settings: DPOSettings) -> ReferenceCache | None:
    weights = None if settings.reference_cache == "none" else weights_digest(name)
    if weights is None:
        return None
    identity = {
        "model": weights,
        "tokenizer": tokenizer_digest(rows.tokenizer),
        "data": pairs_digest(rows.all),
        "reduction": settings.reduction,
        "precision": f"{settings.dtype}, bf16 {settings.bf16}, 4 bit {settings.load_in_4bit}",
    }
    if rows.vision is not None and show_pictures(rows.all):
        identity["pixels"] = rows.vision.digest
    return ReferenceCache(Path(settings.reference_cache or user_cache() / "reference"), identity)


def _scores(
    asked: Any,
    bare: Any,
    settings: TrainSettings,
    pairs: Sequence[Any],
    read: Reader,
    device: Any,
    rank: int = 0,
    world: int = 1,
) -> Tensor:
    """[pairs, 3] in float32 on the CPU: chosen, rejected, and the chosen one's NLL, in the order of `pairs`.

    Every process takes every other batch, and all make the same number of passes, as a sharded model needs.
    """
    share = read.attention_span > 0 and not show_pictures(pairs)
    collator, ask = Collator(settings.reduction, read), PairForward(bare)
    batches = packs_of(pairs, settings, share=share, world=world)(list(range(len(pairs))))
    bf16 = torch.autocast(torch.device(device).type, torch.bfloat16, enabled=settings.bf16)

    def scored(rows: Sequence[int]) -> Tensor:
        batch = to_device(collator([(pairs[row], 0.0) for row in rows]), device)
        with torch.inference_mode(), bf16:
            logps, _ = ask(asked, batch)
        return torch.stack(list(logps), dim=-1).float().cpu()

    result = torch.zeros(len(pairs), 3)
    training = asked.training
    asked.eval()
    for start in range(0, len(batches), world):
        mine = start + rank
        rows = batches[min(mine, len(batches) - 1)]
        with forward.explained(forward.REPAIR):
            scores = torch.cat(list(forward.by_halves(rows, scored))) if world == 1 else scored(rows)
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


@dataclass(frozen=True, slots=True)
class ReferenceCache:
    """The numbers of some pairs under one model.

    A file's name is a digest of all that decides about its numbers: the model's weights, the tokens and what is
    scored of them, the reduction, the precision. It also holds these in words, so a file that was renamed or
    damaged is refused.
    """

    folder: Path
    identity: dict[str, str]

    @property
    def path(self) -> Path:
        return self.folder / f"{digest(self.identity)}.safetensors"

    def load(self) -> Tensor | None:
        """[pairs, 3] as they were saved; None if they never were."""
        if not self.path.exists():
            return None
        try:
            with safe_open(self.path, framework="pt") as file:
                theirs, logps = file.metadata() or {}, file.get_tensor("logps")
        except (SafetensorError, OSError) as error:
            raise self._refused(f"is damaged ({error})") from error
        differs = [name for name in self.identity if theirs.get(name) != self.identity[name]]
        if differs:
            raise self._refused(f"was made with another {', another '.join(differs)}")
        if not logps.isfinite().all():
            row = int((~logps.isfinite()).any(dim=-1).nonzero()[0, 0])
            raise self._refused(f"holds a number that is not finite, for pair {row}")
        return logps  # type: ignore[no-any-return]

    def save(self, logps: Tensor) -> None:
        """Keep [pairs, 3], at once or not at all; not if a number is missing."""
        if logps.isfinite().all():
            self.folder.mkdir(parents=True, exist_ok=True)
            replace_file(self.path, [save({"logps": logps.contiguous()}, metadata=self.identity)])

    def _refused(self, why: str) -> UsageError:
        return UsageError(
            f"The reference's log-probabilities in {str(self.path)!r} cannot be used: the file {why}. "
            "Delete it, and they are computed again."
        )


def weights_digest(name: str) -> str | None:
    """A fingerprint of a model's files, by content; None where they are not found."""
    folder = Path(model_path(name))
    if not folder.is_dir():
        folder = downloaded(name) or folder
    files = sorted(path for path in folder.glob("*") if path.suffix in {".safetensors", ".bin", ".json"})
    if not any(path.suffix != ".json" for path in files):
        return None
    total = hashlib.sha256()
    for path in files:
        if path.suffix == ".json" and path.name != "config.json":
            continue
        with path.open("rb") as file:
            total.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()[:16]
