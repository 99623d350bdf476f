"""The shared part of every training run: resume, hold out, train, evaluate, save."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from transformers import TrainingArguments, set_seed

from sweet_rl import tracking
from sweet_rl.errors import UsageError
from sweet_rl.training import checkpoints, forward, models, processes, sharding
from sweet_rl.training.attention import attention_span
from sweet_rl.training.batches import Reader, to_device
from sweet_rl.training.encoding import Encoded, EncodingReport, scored_texts, some_of
from sweet_rl.training.forward import Objective
from sweet_rl.training.settings import DataSettings, TrainSettings
from sweet_rl.training.steps import ByTokens, Packs, StepSampler, by_count, history_groups, prefix_order
from sweet_rl.training.trainer import Rows, Run, Say, StepTrainer
from sweet_rl.training.vision import Vision
from sweet_rl.types import Json

ROWS = 8  # of a micro-batch where nothing is said about it, and no GPU's memory says it
RowT = TypeVar("RowT", bound=Encoded)

# Flags that say how a step is computed, not what: another value changes a resumed run by rounding only.
_ROUNDING = frozenset({
    "--micro_train_batch_size", "--max_tokens_per_batch", "--gradient_checkpointing", "--torch_compile",
    "--gradient_checkpointing_use_reentrant", "--device", "--attention", "--flash_attn",
})  # fmt: skip
_CALLED = {"name": "loss", "reduction": "mean_log_prob"}  # fields of settings whose flags have another name


def training_arguments(settings: TrainSettings, accumulation: int) -> TrainingArguments:
    """Trainer's arguments. Making them also joins the other processes, if there are some."""
    engine = sharding.engine_of(settings)
    cuda = torch.cuda.is_available() and settings.device != "cpu"
    sharding.check_engine(settings, cuda=cuda)
    sharding.claim(settings)
    several = processes.world_size() > 1 or engine is not None
    if not cuda:
        os.environ.setdefault("DS_ACCELERATOR", "cpu")  # it need not look for one, and say that there is none
    if several and not cuda:
        sharding.join_on_cpu(settings)
    engines: dict[str, Any] = {}
    if engine == "deepspeed":
        engines["deepspeed"] = sharding.deepspeed_config(settings)
    elif engine == "fsdp2":
        config = sharding.fsdp_config(settings, os.environ, cuda=cuda)
        backend = "cuda:nccl,cpu:gloo" if cuda else "gloo"  # states may lie in main memory
        engines |= {"fsdp": True, "fsdp_config": config, "ddp_backend": backend}
    arguments = TrainingArguments(
        output_dir=str(
            settings.ckpt_path if settings.save_steps > 0 else settings.save_path
        ),  # it is made at once
        per_device_train_batch_size=settings.micro_train_batch_size or 1,  # our own batches come
        gradient_accumulation_steps=accumulation,
        num_train_epochs=settings.max_epochs,
        learning_rate=settings.learning_rate,
        weight_decay=settings.l2,
        adam_beta1=settings.betas[0],
        adam_beta2=settings.betas[1],
        adam_epsilon=1e-8,
        max_grad_norm=settings.max_norm,
        optim="adamw_torch_fused" if cuda and engine != "deepspeed" else "adamw_torch",
        logging_steps=settings.logging_steps,
        logging_nan_inf_filter=False,
        save_strategy="steps" if settings.save_steps > 0 else "no",
        save_steps=max(1, settings.save_steps),
        eval_strategy="steps" if settings.eval_steps > 0 else "no",
        eval_steps=max(1, settings.eval_steps),
        seed=settings.seed,
        bf16=settings.bf16 and (cuda or engine is None),  # not known for engines on CPUs; accelerate decides
        ddp_find_unused_parameters=False,
        ddp_timeout=settings.timeout_s,
        use_cpu=not cuda and engine is None,
        accelerator_config={
            "use_configured_state": several and not cuda,
            # A gradient that waits whole for its step's other micro-batches would undo the sharding.
            "gradient_accumulation_kwargs": {"sync_each_batch": True} if engine == "fsdp2" else None,
        },
        **engines,
        report_to=[],  # numbers go where the metrics do (`sweet_rl.training.checkpoints.MetricsLog`)
        remove_unused_columns=False,
        disable_tqdm=True,
        log_level="error",
        dataloader_pin_memory=cuda,
    )
    if engine == "fsdp2" and settings.bf16:
        from torch.distributed.fsdp import MixedPrecisionPolicy  # not in every build of torch

        # It computes in bfloat16; it adds up gradients, and gives log-probabilities, in float32.
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        arguments.fsdp_plugin_args["mixed_precision_policy"] = policy
    arguments._n_gpu = min(1, arguments.n_gpu)  # several GPUs in one process are not for us
    return arguments


# -- beginning --------------------------------------------------------------------------------------------


def begin(stage: str, settings: TrainSettings, rows: Rows, say: Say, *, share: bool = True) -> Run:
    """Plan the steps, join the other processes, if there are some, and find the checkpoint to resume from."""
    pictured = show_pictures(rows.all)
    if processes.world_size() > 1 and pictured:
        blind = next((row for row in rows.all if not any(branch.pictures for branch in row.branches)), None)
        if blind is not None:
            raise UsageError(
                f"{blind.row.place} shows no picture, and others do. Several processes need one in every pair, "
                "as all must use the same weights at the same time. Train on one process, or on one sort."
            )
    share = share and settings.prefix_tree and not pictured
    steps = _steps(settings, rows.train, share=share)
    held_out = packs_of(rows.held_out, settings, share=share, world=processes.world_size())
    arguments = training_arguments(settings, steps.accumulation)
    if engine := sharding.describe(settings):
        say(engine)
    made_from = _made_from(stage, settings, rows) if processes.rank() == 0 else {}
    resume = None
    if settings.load_checkpoint:

        def found() -> Path | None:
            folder = Path(settings.ckpt_path)
            checkpoints.checkpoints_in(folder, "--ckpt_path")
            instead = "start anew with another --ckpt_path"
            return checkpoints.resumable(folder, made_from, say, instead=instead, rounding=_ROUNDING)

        with sharding.lost_processes_named(settings):
            resume = processes.from_main(found)
    set_seed(settings.seed)
    return Run(settings, rows, steps, held_out, arguments, resume, made_from, share, say)


def _made_from(stage: str, settings: TrainSettings, rows: Rows) -> dict[str, Json]:
    """All that decides about the weights, by the flags: values, and digests of data and models."""
    engine = sharding.engine_of(settings)
    if not (settings.load_checkpoint or settings.save_steps > 0):
        return {}
    every = settings.plain()
    groups = ["data", "loss", "model", "optimizer", *(["shards"] if engine == "deepspeed" else [])]
    values = {name: value for group in groups for name, value in every[group].items()}
    for free in ("timeout_s", "overlap_comm", "shard_with"):
        values.pop(free, None)
    return {f"--{_CALLED.get(name, name)}": value for name, value in values.items()} | {
        "the stage": stage,
        "the engine": engine,
        "the number of processes": processes.world_size() if engine == "deepspeed" else "any",
        "--dataset": f"{len(rows.train)} rows and {len(rows.held_out)} held out, {pairs_digest(rows.all)}",
        "--pretrain": checkpoints.identity_of(settings.pretrain),
        "--ref_pretrain": checkpoints.identity_of(settings.ref_pretrain),
        "--compat": "published" if settings.published else "fixed",
        "--seed": settings.seed,
    }


def pairs_digest(pairs: Sequence[Encoded]) -> str:
    """A fingerprint of the tokens, the scored positions and the pictures."""
    total = hashlib.sha256()
    for pair in pairs:
        for side in pair.sides:
            for branch in side.branches:
                scored = [pair.index, side.denominator, *map(tuple, branch.scored)]
                total.update(json.dumps([branch.ids, scored]).encode())
                total.update("".join(picture.digest for picture in branch.pictures).encode())
    return total.hexdigest()[:16]


def show_pictures(rows: Sequence[Encoded]) -> bool:
    """Whether any does. Such rows share no tokens: a tree's positions have one axis, a picture's three."""
    return any(branch.pictures for row in rows for branch in row.branches)


def packs_of(rows: Sequence[Encoded], settings: TrainSettings, *, share: bool, world: int) -> Packs:
    """How rows are divided into micro-batches: by count, or by tokens."""
    order = prefix_order(rows) if share else [-row.length for row in rows]
    if settings.max_tokens_per_batch is None:
        return by_count(order, most=settings.micro_train_batch_size or ROWS, world=world)
    return ByTokens(rows, order, budget=settings.max_tokens_per_batch, share=share, world=world)


def _steps(settings: TrainSettings, rows: Sequence[Encoded], *, share: bool) -> StepSampler:
    world = processes.world_size()
    return StepSampler(
        [row.length for row in rows],
        packs=packs_of(rows, settings, share=share, world=world),
        weights=[row.weight for row in rows],
        groups=history_groups(rows) if share and settings.group_by_history else None,
        train_batch=settings.train_batch_size,
        epochs=settings.max_epochs,
        seed=settings.seed,
        shuffle=settings.shuffle,
        group_by_length=bool(settings.group_by_length),
        drop_last=settings.published,
        rank=processes.rank(),
        world=world,
    )


def once(say: Say) -> Say:
    """Only the first of several processes says something."""
    return say if processes.rank() == 0 else lambda _: None


def say_what_was_encoded(
    encoded: Sequence[Encoded], report: EncodingReport, data: DataSettings, tokenizer: Any, say: Say
) -> None:
    """Print what happened to the rows on their way to token ids, and what is learned of the first one."""
    for line in report.lines(data.max_len):
        say(line)
    if not encoded:
        raise UsageError(
            f"None of the {len(report.too_long):,} {report.noun} of {data.dataset!r} fits into --max_len "
            f"{data.max_len}. Raise it."
        )
    first = encoded[0]
    learned = [scored_texts(side.branches, tokenizer) for side in first.sides]
    all_ = " | ".join(some_of([*map(repr, texts)])[:150] for texts in learned)
    say(f"learned from {first.row.place}: {all_} (all: sweet-rl show_tokens)")


def pad_id(tokenizer: Any) -> int:
    """What fills up a batch; it is never read."""
    known = (tokenizer.pad_token_id, tokenizer.eos_token_id)
    return next((token for token in known if token is not None), 0)


def reader(model: Any, pad: int, settings: TrainSettings, vision: Vision | None = None) -> Reader:
    """How this model reads rows: with what they share standing there once, if it can and the flags say so.

    Where a batch shows pictures, nothing is shared in it, whatever the model can (`Reader.ask`). An adapter
    around the model changes nothing.
    """
    span = attention_span(models.bare_model(model)) if settings.prefix_tree else 0
    return Reader(pad, span, with_attention=settings.aux_loss_coef > 0, vision=vision)


def hold_out(
    rows: list[RowT], settings: TrainSettings, *, total: int, has_test: bool = False
) -> tuple[list[RowT], list[RowT]]:
    """Rows to train on, and to evaluate on: a seeded sample, the first rows (published), or a test split."""
    fraction = settings.eval_fraction
    if has_test:
        held = {row.index for row in rows if row.index >= total}
    elif settings.published:
        held = set(range(int(fraction * total)))
    else:
        places = random.Random(settings.seed).sample(range(len(rows)), int(fraction * len(rows)))
        held = {rows[place].index for place in places}
    train = [row for row in rows if row.index not in held]
    if not train:
        raise UsageError("Everything is held out; lower --eval_fraction.")
    batch = settings.train_batch_size
    if settings.published and len(train) < batch:
        raise UsageError(
            f"{len(train)} rows do not fill one --train_batch_size of {batch}, and --compat published "
            "trains on whole batches only. Lower it, or use --compat fixed."
        )
    return train, [row for row in rows if row.index in held]


def check_sizes(model: Any, rows: Sequence[Encoded], settings: TrainSettings) -> None:
    """Raises UsageError for ids or lengths that the model has no embedding for, and for unseen pictures."""
    config, name = model.config.get_text_config(), model.name_or_path
    if show_pictures(rows) and not hasattr(model.config, "image_token_id"):
        raise UsageError(f"{name!r} reads no pictures, and the data have some.")
    longest = max(row.length for row in rows)
    context = getattr(config, "max_position_embeddings", None)
    if context is not None and longest > context:
        raise UsageError(
            f"The longest row has {longest:,} tokens, and {name!r} reads {context:,}: "
            f"set --max_len {context} (it is {settings.max_len})."
        )
    for row in rows:
        largest = max(max(branch.ids) for branch in row.branches)
        if largest >= config.vocab_size:
            raise UsageError(
                f"{row.row.place} has the token id {largest}, but {name!r} knows "
                f"{config.vocab_size:,} tokens: its tokenizer does not belong to it."
            )


# -- training ---------------------------------------------------------------------------------------------


def fit(
    run: Run, model: Any, *, collator: Callable[[Any], Any], objective: Callable[[Any, Any], Objective]
) -> None:
    """Train, evaluate at the end, and save the model with its tokenizer to `save_path`."""
    bare = models.bare_model(model)
    kind = type(bare)  # an engine may put another class in its place
    losses_of = objective(bare, run.settings)
    run = _as_memory_allows(run, model, collator, losses_of)
    settings, resumes = run.settings, run.resume is not None
    folder = Path(settings.ckpt_path)
    if processes.rank() == 0:
        known = settings.metrics_path if resumes else None
        if known and (wrong := checkpoints.covered(folder, Path(known))):
            run.say(f"{known} {wrong}: numbers of earlier updates may be missing in it.")
        if settings.save_steps > 0 and not settings.load_checkpoint:
            for earlier in checkpoints.checkpoints_in(folder):  # --overwrite: they'd count as newer
                shutil.rmtree(earlier)
    trainer = StepTrainer(model, run, collator=collator, objective=losses_of)
    tracking.sets({"resolved": settings.plain()})
    tracking.writes(settings.save_path, folder=True, continues=resumes)
    if settings.save_steps > 0:
        tracking.writes(settings.ckpt_path, folder=True, continues=resumes)
    if settings.metrics_path is not None:
        tracking.writes(settings.metrics_path, continues=resumes)
    if run.resume:
        run.say(f"going on from {run.resume}")
    with sharding.lost_processes_named(settings), forward.explained(forward.REPAIR):
        trainer.train(resume_from_checkpoint=str(run.resume) if run.resume else None)
        if run.rows.held_out and not settings.eval_steps > 0:
            shown = trainer.evaluate()
            accuracy = f"accuracy {shown['eval_acc']:.3f}, " if "eval_acc" in shown else ""
            run.say(f"held out: {accuracy}loss {shown['eval_loss']:.4f}")
        save(trainer, run, kind)
    run.say(f"model and tokenizer: {settings.save_path}")


def _as_memory_allows(run: Run, model: Any, collator: Callable[[Any], Any], objective: Objective) -> Run:
    """The run, packed by as many tokens as one GPU has room for, if the flags say nothing about packs."""
    options, device, world = run.settings, run.arguments.device, processes.world_size()
    said = options.max_tokens_per_batch or options.micro_train_batch_size
    one = world == 1 and sharding.engine_of(run.settings) is None
    if said or not one or device.type != forward.CARD or not objective.by_row:
        return run

    def work(rows: Sequence[Encoded]) -> int:
        batch = to_device(collator([(row, 0.0) for row in rows]), device)
        with torch.autocast(device.type, torch.bfloat16, enabled=run.settings.bf16):
            losses = objective(model, batch)
        losses.total_B.sum().backward()  # type: ignore[no-untyped-call]
        return forward.places(batch)

    if not run.settings.load_in_4bit:  # which is there already
        model.to(device)
    model.train()
    trained = (parameter for parameter in model.parameters() if parameter.requires_grad)
    adam = sum(2 * parameter.numel() * parameter.element_size() for parameter in trained)
    longest = max(run.rows.all, key=lambda row: row.length)
    with forward.explained(f"{longest.row.place} alone takes it. {forward.REPAIR}"):
        most = forward.tokens_that_fit(run.rows.all, work, reserve=adam, device=device)
    model.zero_grad()
    tokens = max(longest.length, int(most * (1 - forward.PADDING)))
    run.say(f"{tokens:,} tokens in one forward pass, by the GPU's free memory")
    settings = replace(options, max_tokens_per_batch=tokens)
    steps = _steps(settings, run.rows.train, share=run.share)
    run.arguments.gradient_accumulation_steps = steps.accumulation
    held_out = packs_of(run.rows.held_out, settings, share=run.share, world=world)
    return run._replace(settings=settings, steps=steps, held_out_packs=held_out, most_places=most)


def save(trainer: Any, run: Run, kind: type) -> None:
    """Model, an adapter merged into it, tokenizer and image processor; files get their names at the end."""
    settings, first = run.settings, processes.rank() == 0
    model = trainer.accelerator.unwrap_model(trainer.model)
    if sharding.shards_weights(settings):  # all give theirs to the first
        weights = trainer.accelerator.get_state_dict(trainer.model_wrapped)
        model = sharding.whole_model(kind, model, weights, settings) if first else None
    if first:
        whole = model.merge_and_unload() if settings.lora_rank else model
        folder = Path(settings.save_path)
        with checkpoints.storing(folder, folder / checkpoints.PARTIAL):
            models.save_whole(whole, run.rows.tokenizer, folder, run.rows.vision)
    trainer.accelerator.wait_for_everyone()
