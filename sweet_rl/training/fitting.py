"""The shared part of every training run: resume, hold out, train, evaluate, save."""

from __future__ import annotations

import math
import os
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from transformers import TrainingArguments, set_seed

from sweet_rl import tracking
from sweet_rl.errors import SweetRLError, UsageError
from sweet_rl.training import adapters, checkpoints, engines, memory, models
from sweet_rl.training.attention import attention_span
from sweet_rl.training.batches import Reader, to_device
from sweet_rl.training.encoding import Encoded, EncodingReport, scored_texts
from sweet_rl.training.engines import Processes
from sweet_rl.training.forward import Objective
from sweet_rl.training.metrics import MetricsLog
from sweet_rl.training.reference_cache import pairs_digest
from sweet_rl.training.settings import DataSettings, TrainSettings
from sweet_rl.training.sharding import deepspeed_config, fsdp_config
from sweet_rl.training.steps import ByTokens, Packs, StepSampler, by_count, history_groups, prefix_order
from sweet_rl.training.vision import Vision
from sweet_rl.types import Json


def training_arguments(settings: TrainSettings, accumulation: int) -> TrainingArguments:
    """Trainer's arguments. Making them also joins the other processes, if there are some."""
    options, output, model = settings.optimizer, settings.output, settings.model
    engine = engines.engine_of(settings)
    cuda = torch.cuda.is_available() and model.device != "cpu"
    engines.check_engine(settings, cuda=cuda)
    engines.claim(settings)
    several = engines.world_size() > 1 or engine is not None
    if not cuda:
        os.environ.setdefault("DS_ACCELERATOR", "cpu")  # it need not look for one, and say that there is none
    if several and not cuda:
        engines.join_on_cpu(settings)
    arguments = TrainingArguments(
        output_dir=str(output.ckpt_path if output.save_steps > 0 else output.save_path),  # it is made at once
        per_device_train_batch_size=options.micro_train_batch_size or 1,  # our own batches come
        gradient_accumulation_steps=accumulation,
        num_train_epochs=options.max_epochs,
        learning_rate=options.learning_rate,
        weight_decay=options.l2,
        adam_beta1=options.adam_betas[0],
        adam_beta2=options.adam_betas[1],
        adam_epsilon=1e-8,
        max_grad_norm=options.max_norm,
        optim="adamw_torch_fused" if cuda and engine != "deepspeed" else "adamw_torch",
        logging_steps=output.logging_steps,
        logging_nan_inf_filter=False,
        save_strategy="steps" if output.save_steps > 0 else "no",
        save_steps=max(1, output.save_steps),
        eval_strategy="steps" if output.eval_steps > 0 else "no",
        eval_steps=max(1, output.eval_steps),
        seed=settings.seed,
        bf16=model.bf16 and (cuda or engine is None),  # not known for engines on CPUs; accelerate decides
        ddp_find_unused_parameters=False,
        ddp_timeout=settings.shards.timeout_s,
        use_cpu=not cuda and engine is None,
        accelerator_config={
            "use_configured_state": several and not cuda,
            # A gradient that waits whole for its step's other micro-batches would undo the sharding.
            "gradient_accumulation_kwargs": {"sync_each_batch": True} if engine == "fsdp2" else None,
        },
        **_sharding(settings, cuda=cuda),
        report_to=[],  # numbers go where the metrics do (`sweet_rl.training.metrics`)
        remove_unused_columns=False,
        disable_tqdm=True,
        log_level="error",
        dataloader_pin_memory=cuda,
    )
    if engine == "fsdp2" and model.bf16:
        arguments.fsdp_plugin_args["mixed_precision_policy"] = engines.mixed_precision()
    arguments._n_gpu = min(1, arguments.n_gpu)  # several GPUs in one process are not for us
    return arguments


def _sharding(settings: TrainSettings, *, cuda: bool) -> dict[str, Any]:
    engine = engines.engine_of(settings)
    if engine == "deepspeed":
        config = deepspeed_config(settings.shards, settings.optimizer, bf16=settings.model.bf16)
        return {"deepspeed": config}
    if engine == "fsdp2":
        backend = "cuda:nccl,cpu:gloo" if cuda else "gloo"  # states may lie in main memory
        config = fsdp_config(settings.shards, os.environ, cuda=cuda)
        return {"fsdp": True, "fsdp_config": config, "ddp_backend": backend}
    return {}


ROWS = 8
"""Rows of a micro-batch where nothing is said about it, and no GPU's memory says it."""

Say = Callable[[str], None]
Row = TypeVar("Row", bound=Encoded)

_ROUNDING = frozenset(
    {
        "--micro_train_batch_size", "--max_tokens_per_batch", "--gradient_checkpointing", "--torch_compile",
        "--gradient_checkpointing_use_reentrant", "--device", "--attention", "--flash_attn",
    }
)  # fmt: skip
"""Flags that say how a step is computed, not what: another value changes a resumed run by rounding only."""

_CALLED = {"name": "loss", "reduction": "mean_log_prob"}
"""Fields of settings whose flags have another name."""


class Rows(NamedTuple):
    """The training data, and how it is batched; `vision` is for a vision-language model."""

    tokenizer: Any
    train: Sequence[Encoded]
    held_out: Sequence[Encoded]
    pad_id: int
    vision: Vision | None = None

    @property
    def all(self) -> list[Encoded]:
        """The rows to train on, then those that are held out."""
        return [*self.train, *self.held_out]


class Run(NamedTuple):
    """A run that has begun: its place among its processes, and the checkpoint it resumes from."""

    settings: TrainSettings
    rows: Rows
    steps: StepSampler
    held_out_packs: Packs
    arguments: TrainingArguments
    resume: Path | None
    made_from: dict[str, Json]
    processes: Processes
    share: bool
    say: Say
    most_places: float = math.inf
    """Tokens of a micro-batch, padding included, that memory is known to suffice for."""


def begin(stage: str, settings: TrainSettings, rows: Rows, say: Say, *, share: bool = True) -> Run:
    """Plan the steps, join the other processes, if there are some, and find the checkpoint to resume from."""
    processes = Processes(engines.rank(), engines.world_size())
    if processes.world > 1:
        _check_all_see(rows)
    share = share and settings.optimizer.prefix_tree and not show_pictures(rows.all)
    steps = _steps(settings, rows.train, processes, share=share)
    held_out = packs_of(rows.held_out, settings, processes, share=share)
    arguments = training_arguments(settings, steps.accumulation)
    if engine := engines.describe(settings):
        say(engine)
    made_from = _made_from(stage, settings, rows) if processes.rank == 0 else {}
    resume = None
    if settings.output.load_checkpoint:
        with engines.lost_processes_named(settings):
            resume = _resumed(settings, made_from, processes, say)
    set_seed(settings.seed)
    return Run(settings, rows, steps, held_out, arguments, resume, made_from, processes, share, say)


def _made_from(stage: str, settings: TrainSettings, rows: Rows) -> dict[str, Json]:
    """All that decides about the weights, by the flags: values, and digests of data and models."""
    engine, output, model = engines.engine_of(settings), settings.output, settings.model
    if not (output.load_checkpoint or output.save_steps > 0):
        return {}
    groups: list[Any] = [settings.data, settings.loss, model, settings.optimizer]
    if engine == "deepspeed":
        groups.append(settings.shards)
    flags = {
        f"--{_CALLED.get(name, name)}": value for group in groups for name, value in asdict(group).items()
    }
    for free in ("--find_prompt", "--timeout_s", "--overlap_comm", "--shard_with"):
        flags.pop(free, None)
    return flags | {
        "the stage": stage,
        "the engine": engine,
        "the number of processes": engines.world_size() if engine == "deepspeed" else "any",
        "--dataset": f"{len(rows.train)} rows and {len(rows.held_out)} held out, {pairs_digest(rows.all)}",
        "--pretrain": checkpoints.identity_of(model.pretrain),
        "--ref_pretrain": checkpoints.identity_of(model.ref_pretrain),
        "--compat": "published" if settings.published else "fixed",
        "--seed": settings.seed,
    }


def _resumed(
    settings: TrainSettings, made_from: dict[str, Json], processes: Processes, say: Say
) -> Path | None:
    """The checkpoint that the first process finds, on all of them; each raises what that one does."""
    folder = settings.output.ckpt_path
    found: list[Any] = [None]
    if processes.rank == 0:
        instead = "start anew with another --ckpt_path"
        try:
            checkpoints.checkpoints_in(folder, "--ckpt_path")
            found = [checkpoints.resumable(folder, made_from, say, instead=instead, rounding=_ROUNDING)]
        except SweetRLError as error:
            found = [error]
    if processes.world > 1:
        torch.distributed.broadcast_object_list(found)
    if isinstance(found[0], SweetRLError):
        raise found[0]
    resume: Path | None = found[0]
    return resume


def show_pictures(rows: Sequence[Encoded]) -> bool:
    """Whether any does. Such rows share no tokens: a tree's positions have one axis, a picture's three."""
    return any(branch.pictures for row in rows for branch in row.branches)


def _check_all_see(rows: Rows) -> None:
    """Raises UsageError if some pairs show pictures and others none: processes must use the same weights."""
    blind = next((row for row in rows.all if not any(branch.pictures for branch in row.branches)), None)
    if blind is not None and show_pictures(rows.all):
        raise UsageError(
            f"{blind.row.place} shows no picture, and others do. Several processes need one in every pair, "
            "as all must use the same weights at the same time. Train on one process, or on one sort."
        )


def packs_of(rows: Sequence[Encoded], settings: TrainSettings, processes: Processes, *, share: bool) -> Packs:
    """How rows are divided into micro-batches: by count, or by tokens."""
    options, world = settings.optimizer, processes.world
    order = prefix_order(rows) if share else [-row.length for row in rows]
    if options.max_tokens_per_batch is None:
        return by_count(order, most=options.micro_train_batch_size or ROWS, world=world)
    return ByTokens(rows, order, budget=options.max_tokens_per_batch, share=share, world=world)


def once(say: Say) -> Say:
    """Only the first of several processes says something."""
    return say if engines.rank() == 0 else lambda _: None


def _steps(
    settings: TrainSettings, rows: Sequence[Encoded], processes: Processes, *, share: bool
) -> StepSampler:
    options = settings.optimizer
    return StepSampler(
        [row.length for row in rows],
        packs=packs_of(rows, settings, processes, share=share),
        weights=[row.weight for row in rows],
        groups=history_groups(rows) if share and options.group_by_history else None,
        train_batch=options.train_batch_size,
        epochs=options.max_epochs,
        seed=settings.seed,
        shuffle=options.shuffle,
        group_by_length=options.group_by_length,
        drop_last=settings.published,
        rank=processes.rank,
        world=processes.world,
    )


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
    shown = [", ".join(map(repr, texts[:3])) + (", ..." if len(texts) > 3 else "") for texts in learned]
    say(
        f"learned from {first.row.place}: {' | '.join(text[:150] for text in shown)} (all: sweet-rl show_tokens)"
    )


def pad_id(tokenizer: Any) -> int:
    """What fills up a batch; it is never read."""
    known = (tokenizer.pad_token_id, tokenizer.eos_token_id)
    return next((token for token in known if token is not None), 0)


def reader(model: Any, pad: int, settings: TrainSettings, vision: Vision | None = None) -> Reader:
    """How this model reads rows: with what they share standing there once, if it can and the flags say so.

    Where a batch shows pictures, nothing is shared in it, whatever the model can (`Reader.ask`). An adapter
    around the model changes nothing.
    """
    span = attention_span(adapters.bare_model(model)) if settings.optimizer.prefix_tree else 0
    return Reader(pad, span, with_attention=settings.loss.aux_loss_coef > 0, vision=vision)


def hold_out(
    rows: list[Row], settings: TrainSettings, *, total: int, has_test: bool = False
) -> tuple[list[Row], list[Row]]:
    """Rows to train on, and to evaluate on: a seeded sample, the first rows (published), or a test split."""
    fraction = settings.data.eval_fraction
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
    batch = settings.optimizer.train_batch_size
    if settings.published and len(train) < batch:
        raise UsageError(
            f"{len(train)} rows do not fill one --train_batch_size of {batch}, and --compat published "
            "trains on whole batches only. Lower it, or use --compat fixed."
        )
    return train, [row for row in rows if row.index in held]


def check_sizes(model: Any, rows: Sequence[Encoded], settings: TrainSettings) -> None:
    """Raises UsageError for ids or lengths that the model has no embedding for, and for unseen pictures."""
    config = model.config.get_text_config()
    if show_pictures(rows) and not hasattr(model.config, "image_token_id"):
        raise UsageError(f"{model.name_or_path!r} reads no pictures, and the data have some.")
    longest = max(row.length for row in rows)
    context = getattr(config, "max_position_embeddings", None)
    if context is not None and longest > context:
        raise UsageError(
            f"The longest row has {longest:,} tokens, and {model.name_or_path!r} reads {context:,}: "
            f"set --max_len {context} (it is {settings.data.max_len})."
        )
    vocabulary = config.vocab_size
    for row in rows:
        largest = max(max(branch.ids) for branch in row.branches)
        if largest >= vocabulary:
            raise UsageError(
                f"{row.row.place} has the token id {largest}, but {model.name_or_path!r} knows "
                f"{vocabulary:,} tokens: its tokenizer does not belong to it."
            )


def trainable(model: Any, settings: TrainSettings) -> Any:
    """The model as it is trained: recomputing activations, with an adapter, compiled, if the flags say so."""
    if settings.model.gradient_checkpointing:
        models.recompute_activations(model, settings.model)
    if settings.model.lora_rank:
        model = adapters.add_adapter(model, settings.model)
    if settings.model.torch_compile:
        models.compile_layers(model, settings.model)
    return model


def fit(
    run: Run, model: Any, *, collator: Callable[[Any], Any], objective: Callable[[Any], Objective]
) -> None:
    """Train, evaluate at the end, and save the model with its tokenizer to `save_path`."""
    from sweet_rl.training.trainer import StepTrainer

    bare = adapters.bare_model(model)
    kind = type(bare)  # an engine may put another class in its place
    losses_of = objective(bare)
    run = _as_memory_allows(run, model, collator, losses_of)
    settings, rows = run.settings, run.rows
    output, first = settings.output, run.processes.rank == 0
    known = run.resume and first and output.metrics_path
    if known and (wrong := checkpoints.covered(output.ckpt_path, known)):
        run.say(f"{known} {wrong}: numbers of earlier updates may be missing in it.")
    trainer = StepTrainer(
        model,
        run.arguments,
        settings,
        rows=rows.train,
        held_out=rows.held_out,
        packs=run.held_out_packs,
        sampler=run.steps,
        collator=collator,
        objective=losses_of,
        metrics=MetricsLog(
            output.metrics_path if first else None,
            after_step=checkpoints.step_of(run.resume) if run.resume else 0,
        ),
        most_places=run.most_places,
        say=run.say,
        made_from=run.made_from,
    )
    if first and output.save_steps > 0 and not output.load_checkpoint:
        for earlier in checkpoints.checkpoints_in(output.ckpt_path):  # --overwrite; they would count as newer
            shutil.rmtree(earlier)
    tracking.sets({"resolved": asdict(settings)})
    tracking.writes(output.save_path, folder=True, continues=run.resume is not None)
    if output.save_steps > 0:
        tracking.writes(output.ckpt_path, folder=True, continues=run.resume is not None)
    if output.metrics_path is not None:
        tracking.writes(output.metrics_path, continues=run.resume is not None)
    if run.resume:
        run.say(f"going on from {run.resume}")
    with engines.lost_processes_named(settings), memory.explained(memory.REPAIR):
        trainer.train(resume_from_checkpoint=str(run.resume) if run.resume else None)
        if rows.held_out and not output.eval_steps > 0:
            shown = trainer.evaluate()
            accuracy = f"accuracy {shown['eval_acc']:.3f}, " if "eval_acc" in shown else ""
            run.say(f"held out: {accuracy}loss {shown['eval_loss']:.4f}")
        save(trainer, run, kind)
    run.say(f"model and tokenizer: {output.save_path}")


def _as_memory_allows(run: Run, model: Any, collator: Callable[[Any], Any], objective: Objective) -> Run:
    """The run, packed by as many tokens as one GPU has room for, if the flags say nothing about packs."""
    options, device = run.settings.optimizer, run.arguments.device
    said = options.max_tokens_per_batch or options.micro_train_batch_size
    one = run.processes.world == 1 and engines.engine_of(run.settings) is None
    if said or not one or device.type != memory.CARD or not objective.by_row:
        return run

    def work(rows: Sequence[Encoded]) -> int:
        batch = to_device(collator([(row, 0.0) for row in rows]), device)
        with torch.autocast(device.type, torch.bfloat16, enabled=run.settings.model.bf16):
            losses = objective(model, batch)
        losses.total_B.sum().backward()  # type: ignore[no-untyped-call]
        return memory.places(batch)

    if not run.settings.model.load_in_4bit:  # which is there already
        model.to(device)
    model.train()
    trained = (parameter for parameter in model.parameters() if parameter.requires_grad)
    adam = sum(2 * parameter.numel() * parameter.element_size() for parameter in trained)
    longest = max(run.rows.all, key=lambda row: row.length)
    with memory.explained(f"{longest.row.place} alone takes it. {memory.REPAIR}"):
        most = memory.tokens_that_fit(run.rows.all, work, reserve=adam, device=device)
    model.zero_grad()
    tokens = max(longest.length, int(most * (1 - memory.PADDING)))
    run.say(f"{tokens:,} tokens in one forward pass, by the GPU's free memory")
    settings = replace(run.settings, optimizer=replace(options, max_tokens_per_batch=tokens))
    steps = _steps(settings, run.rows.train, run.processes, share=run.share)
    run.arguments.gradient_accumulation_steps = steps.accumulation
    held_out = packs_of(run.rows.held_out, settings, run.processes, share=run.share)
    return run._replace(settings=settings, steps=steps, held_out_packs=held_out, most_places=most)


def save(trainer: Any, run: Run, kind: type) -> None:
    """Model, an adapter merged into it, tokenizer and image processor; files get their names at the end."""
    settings, first = run.settings, run.processes.rank == 0
    model = trainer.accelerator.unwrap_model(trainer.model)
    if engines.shards_weights(settings):  # all give theirs to the first
        weights = trainer.accelerator.get_state_dict(trainer.model_wrapped)
        model = engines.whole_model(kind, model, weights, settings) if first else None
    if first:
        whole = model.merge_and_unload() if settings.model.lora_rank else model
        folder = settings.output.save_path
        with checkpoints.storing(folder, folder / checkpoints.PARTIAL):
            models.save_whole(whole, run.rows.tokenizer, folder, run.rows.vision)
    trainer.accelerator.wait_for_everyone()
