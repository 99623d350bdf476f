"""A whole run of preference training: data, reference, trainer, files. Prints through `say`."""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import TrainingArguments, set_seed

from sweet_rl.errors import UsageError
from sweet_rl.records import replace_rows
from sweet_rl.training import checkpoints, models
from sweet_rl.training.arguments import training_arguments, uses_deepspeed
from sweet_rl.training.batches import Collator
from sweet_rl.training.data import Render, read_pairs
from sweet_rl.training.encoding import EncodedPair, Encoder, TurnEncoder
from sweet_rl.training.forward import PairForward
from sweet_rl.training.losses import PairLogps, pair_losses
from sweet_rl.training.metrics import MetricsLog, finite
from sweet_rl.training.published import PublishedEncoder
from sweet_rl.training.reference import Processes, score_pairs
from sweet_rl.training.settings import TrainSettings
from sweet_rl.training.sharding import scoring_config
from sweet_rl.types import Json

Say = Callable[[str], None]


class _Parts(NamedTuple):
    """What training and scoring share."""

    tokenizer: Any
    pairs: list[EncodedPair]
    held_out: list[EncodedPair]
    pad_id: int


def evaluate(settings: TrainSettings, say: Say) -> None:
    """Write every pair's numbers to `metrics_path`, in file order, and train nothing.

    Raises:
        SweetRLError: data, models or flags are wrong; see the rooms' own functions.
    """
    if settings.output.metrics_path is None:
        raise UsageError("--eval_only needs --metrics_path, the .jsonl file for the numbers.")
    if int(os.environ.get("RANK", "0")):
        return  # one process scores; the others of a launcher have nothing to do
    parts = _prepare(settings, say, hold_out=False)
    names = (settings.model.ref_pretrain or settings.model.pretrain, settings.model.pretrain)
    scores = [_score(name, settings, parts, Processes()) for name in dict.fromkeys(names)]
    reference, policy = scores[0], scores[-1]
    at = [pair.index for pair in parts.pairs]
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
        SweetRLError: data, models or flags are wrong, or the loss is not a number.
    """
    arguments = training_arguments(settings)
    resume = (
        checkpoints.newest_checkpoint(settings.output.ckpt_path) if settings.output.load_checkpoint else None
    )
    processes = Processes(arguments.process_index, arguments.world_size)
    say = say if processes.rank == 0 else _silent
    if uses_deepspeed(settings):
        say(f"DeepSpeed ZeRO-{settings.shards.zero_stage} over {processes.world} processes")
    parts = _prepare(settings, say, hold_out=True)
    _check_batches(settings, parts)
    set_seed(settings.seed)
    reference, model = _reference_and_policy(settings, parts, processes, arguments)
    from sweet_rl.training.trainer import DPOTrainer  # noqa: PLC0415 - seconds; after all that can be refused

    trainer = DPOTrainer(
        model,
        arguments,
        settings,
        pairs=parts.pairs,
        held_out=parts.held_out,
        collator=Collator(settings.loss.reduction, parts.pad_id, reference),
        metrics=MetricsLog(
            settings.output.metrics_path if processes.rank == 0 else None,
            after_step=checkpoints.step_of(resume) if resume else 0,
        ),
        forward=PairForward(_bare(model), aux_loss=settings.loss.aux_loss_coef > 0),
    )
    if resume:
        say(f"going on from {resume}")
    trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    if parts.held_out and not (settings.output.eval_steps > 0):
        shown = trainer.evaluate()
        say(f"held out: accuracy {shown['eval_acc']:.3f}, loss {shown['eval_loss']:.4f}")
    save(trainer, parts.tokenizer, settings.output.save_path)
    say(f"model and tokenizer: {settings.output.save_path}")


def save(trainer: Any, tokenizer: Any, folder: Path) -> None:
    """Model, an adapter merged into it, and tokenizer; files get their names when all are written."""
    partial = folder / checkpoints.PARTIAL
    model = trainer.accelerator.unwrap_model(trainer.model)
    if hasattr(model, "merge_and_unload") and not trainer.is_deepspeed_enabled:
        model = model.merge_and_unload()
        if trainer.is_world_process_zero():
            model.save_pretrained(partial)
    else:
        trainer.save_model(str(partial))
    trainer.accelerator.wait_for_everyone()
    if trainer.is_world_process_zero():
        tokenizer.save_pretrained(partial)
        (partial / "training_args.bin").unlink(missing_ok=True)  # a pickle that nobody needs
        for path in partial.iterdir():
            path.replace(folder / path.name)
        partial.rmdir()
    trainer.accelerator.wait_for_everyone()


def _prepare(settings: TrainSettings, say: Say, *, hold_out: bool) -> _Parts:
    data = settings.data
    tokenizer = models.load_tokenizers(settings.model)
    sets = read_pairs(
        data, seed=settings.seed, render=_render(tokenizer) if data.apply_chat_template else None
    )
    encoder = _encoder(tokenizer, settings)
    pairs, report = encoder.encode([*sets.train, *sets.test])
    for line in report.lines(data.max_len):
        say(line)
    if not pairs:
        raise UsageError(
            f"None of the {report.dropped:,} pairs of {data.dataset!r} can be trained on (see above). Raise "
            "--max_len, or check that the texts were made with the chat template of --pretrain."
        )
    held_out: list[EncodedPair] = []
    if hold_out:
        held_out = _held_out(pairs, len(sets.train), settings, has_test=bool(sets.test))
        held = {pair.index for pair in held_out}
        pairs = [pair for pair in pairs if pair.index not in held]
        say(f"{len(pairs):,} pairs to train on, {len(held_out):,} held out")
    pad = next((i for i in (tokenizer.pad_token_id, tokenizer.eos_token_id) if i is not None), 0)
    return _Parts(tokenizer, pairs, held_out, pad)


def _encoder(tokenizer: Any, settings: TrainSettings) -> Encoder:
    data = settings.data
    encoder = PublishedEncoder if settings.published else TurnEncoder
    return encoder(tokenizer, max_len=data.max_len, response_template=data.response_template)


def _render(tokenizer: Any) -> Render:
    def render(messages: list[dict[str, Json]], open_turn: bool) -> str:
        text: str = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=open_turn)
        return text

    return render


def _held_out(
    pairs: list[EncodedPair], train_rows: int, settings: TrainSettings, *, has_test: bool
) -> list[EncodedPair]:
    """The test split; else a seeded sample, or the first rows (published)."""
    if has_test:
        return [pair for pair in pairs if pair.index >= train_rows]
    fraction = settings.data.eval_fraction
    if settings.published:
        return [pair for pair in pairs if pair.index < int(fraction * train_rows)]
    chosen = random.Random(settings.seed).sample(range(len(pairs)), int(fraction * len(pairs)))
    return [pairs[position] for position in sorted(chosen)]


def _check_batches(settings: TrainSettings, parts: _Parts) -> None:
    if not parts.pairs:
        raise UsageError("All pairs are held out; lower --eval_fraction.")
    batch = settings.optimizer.train_batch_size
    if settings.published and len(parts.pairs) < batch:
        raise UsageError(
            f"{len(parts.pairs)} pairs do not fill one --train_batch_size of {batch}, and --compat published "
            "trains on whole batches only. Lower it, or use --compat fixed."
        )


def _reference_and_policy(
    settings: TrainSettings, parts: _Parts, processes: Processes, arguments: TrainingArguments
) -> tuple[torch.Tensor, Any]:
    """The reference's log-probabilities of all pairs, and the policy; both models are never held at once."""
    model, sharded = settings.model, uses_deepspeed(settings)
    half = sharded and model.bf16
    reference_name = model.ref_pretrain or model.pretrain
    reference = models.load_model(reference_name, model, half=half)
    _check_sizes(reference, parts, settings)
    zero3 = sharded and settings.shards.zero_stage == 3
    asked = _sharded(reference, settings) if zero3 else reference.to(arguments.device)
    scores = _scores(asked, reference, settings, parts, processes, arguments.device)
    if reference_name == model.pretrain and not zero3:
        policy = reference
    else:
        del reference, asked
        gc.collect()
        policy = models.load_model(model.pretrain, model, half=half)
        _check_sizes(policy, parts, settings)
    if model.gradient_checkpointing:
        models.recompute_activations(policy, model)
    if model.lora_rank:
        policy = models.add_adapter(policy, model)
    return scores[:, :2].contiguous(), policy


def _sharded(model: Any, settings: TrainSettings) -> Any:
    import deepspeed  # noqa: PLC0415 - an extra

    config = scoring_config(settings.shards, bf16=settings.model.bf16)
    return deepspeed.initialize(model=model, config=config)[0]


def _score(name: str, settings: TrainSettings, parts: _Parts, processes: Processes) -> torch.Tensor:
    model = models.load_model(name, settings.model)
    _check_sizes(model, parts, settings)
    wanted = settings.model.device
    device = ("cuda" if torch.cuda.is_available() else "cpu") if wanted == "auto" else wanted
    return _scores(model.to(device), model, settings, parts, processes, device)


def _scores(
    asked: Any, bare: Any, settings: TrainSettings, parts: _Parts, processes: Processes, device: Any
) -> torch.Tensor:
    """[rows of the data, 3], by `EncodedPair.index`; rows that were left out are 0."""
    pairs = [*parts.pairs, *parts.held_out]
    scores = score_pairs(
        asked,
        pairs,
        Collator(settings.loss.reduction, parts.pad_id),
        forward=PairForward(bare),
        batch_size=settings.optimizer.micro_train_batch_size,
        device=device,
        processes=processes,
        bf16=settings.model.bf16,
    )
    by_index = torch.zeros(max(pair.index for pair in pairs) + 1, scores.shape[1])
    by_index[[pair.index for pair in pairs]] = scores
    return by_index


def _check_sizes(model: Any, parts: _Parts, settings: TrainSettings) -> None:
    """Raises UsageError for ids or lengths that the model has no embedding for."""
    pairs = [*parts.pairs, *parts.held_out]
    longest = max(pair.length for pair in pairs)
    context = getattr(model.config, "max_position_embeddings", None)
    if context is not None and longest > context:
        raise UsageError(
            f"The longest pair has {longest:,} tokens, and {model.name_or_path!r} reads {context:,}: "
            f"set --max_len {context} (it is {settings.data.max_len})."
        )
    vocabulary = model.config.vocab_size
    for pair in pairs:
        largest = max(*pair.chosen.ids, *pair.rejected.ids)
        if largest >= vocabulary:
            raise UsageError(
                f"{pair.row.place} has the token id {largest}, but {model.name_or_path!r} knows "
                f"{vocabulary:,} tokens: its tokenizer does not belong to it."
            )


def _bare(model: Any) -> Any:
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def _silent(_: str) -> None:
    """Processes other than the first say nothing."""
