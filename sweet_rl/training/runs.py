"""The runs of preference training: DPO and its evaluation, imitation, a critic with a regression head.

All print through `say`, raise SweetRLError where data, models or flags are wrong, a loss is not a number or a process
is gone, and save the model with its tokenizer to `save_path`.

Published behaviour: docs/published/sweet_rl.md#preference-training, #reward-models.
"""

from __future__ import annotations

import gc
import os
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as save_tensors
from torch import Tensor
from transformers import set_seed

from sweet_rl import tracking
from sweet_rl.chat import tokenizer_digest
from sweet_rl.chat.formats import user_cache
from sweet_rl.errors import UsageError
from sweet_rl.records import replace_file, replace_rows
from sweet_rl.training import checkpoints, forward, models, sharding
from sweet_rl.training.attention import attention_span
from sweet_rl.training.batches import Collator, Reader, ValueCollator, to_device
from sweet_rl.training.data import read_pairs, read_texts
from sweet_rl.training.encoders import PublishedEncoder, check_tokenizers, scored_texts, turn_encoder
from sweet_rl.training.encoding import Encoded, EncodingReport, TurnEncoder, some_of
from sweet_rl.training.forward import (
    CriticObjective,
    ImitationObjective,
    Objective,
    PairForward,
    PreferenceObjective,
)
from sweet_rl.training.losses import PairLogps, pair_losses
from sweet_rl.training.processes import from_main, rank, world_size
from sweet_rl.training.settings import DataSettings, DPOSettings, SFTSettings, TrainSettings
from sweet_rl.training.steps import packs_of, steps_of
from sweet_rl.training.trainer import (
    Rows,
    Run,
    Say,
    StepTrainer,
    check_sizes,
    pairs_digest,
    show_pictures,
)  # fmt: skip
from sweet_rl.training.vision import Vision
from sweet_rl.types import Json, digest

RowT = TypeVar("RowT", bound=Encoded)

# Flags that say how a step is computed, not what: another value changes a resumed run by rounding only.
_ROUNDING = frozenset({
    "--micro_train_batch_size", "--max_tokens_per_batch", "--gradient_checkpointing", "--torch_compile",
    "--gradient_checkpointing_use_reentrant", "--device", "--attention", "--flash_attn",
})  # fmt: skip
_CALLED = {"name": "loss", "reduction": "mean_log_prob"}  # fields of settings whose flags have another name


def evaluate_pairs(settings: DPOSettings, say: Say) -> None:
    """Write every pair's numbers to `metrics_path`, in file order, and train nothing."""
    if int(os.environ.get("RANK", "0")):
        return  # one process scores; the others of a launcher have nothing to do
    rows = _pairs(settings, say)[0]
    names = dict.fromkeys((settings.ref_pretrain or settings.pretrain, settings.pretrain))
    wanted = settings.device
    device = ("cuda" if torch.cuda.is_available() else "cpu") if wanted == "auto" else wanted
    scores = []
    for name in names:
        model = models.load_model(name, settings)
        check_sizes(model, rows.all, settings)
        scores.append(_scores(model.to(device), model, settings, rows, device))
    at = [pair.index for pair in rows.all]
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
    columns_of = {name: tensor.tolist() for name, tensor in columns.items()}
    lines = [
        checkpoints.finite({"index": index, **{name: values[i] for name, values in columns_of.items()}})
        for i, index in enumerate(at)
    ]
    path = str(settings.metrics_path)
    tracking.writes(path)
    replace_rows(path, lines)
    accuracy, loss = (sum(columns_of[name]) / len(lines) for name in ("accuracy", "total_loss"))
    say(f"{len(lines):,} pairs: accuracy {accuracy:.3f}, loss {loss:.4f}")
    say(f"numbers: {path}")


def train_dpo(settings: DPOSettings, say: Say) -> None:
    """Learn from pairs by the preference loss of the settings."""
    say = once(say)
    run = begin("train_dpo", settings, _pair_rows(settings, say), say)
    with sharding.lost_processes_named(settings):
        reference, model = reference_and_policy(settings, run)
    collator = Collator(settings.reduction, reader(model, run.rows, settings), reference)
    fit(run, model, collator=collator, objective=PreferenceObjective)


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
    run = begin("train_sft", settings, Rows(tokenizer, train_on, held_out, vision), say)
    model = models.load_model(settings.pretrain, settings, half=sharding.half_weights(settings))
    check_sizes(model, run.rows.all, settings)
    model = models.trainable(model, settings)
    fit(run, model, collator=Collator("sum", reader(model, run.rows, settings)), objective=ImitationObjective)


def train_critic(settings: TrainSettings, say: Say) -> None:
    """Train a sequence classifier with one label: the ablation that SWEET-RL's own critic is compared with."""
    say = once(say)
    run = begin("train_reward_model", settings, rows := _pair_rows(settings, say), say, share=False)
    model = models.load_critic(settings.pretrain, settings, half=sharding.half_weights(settings))
    check_sizes(model, rows.all, settings)
    model.config.get_text_config().pad_token_id = rows.pad_id  # without one, the classifier refuses batches
    model.config.critic_value = "mean" if settings.published else "last"
    model = models.trainable(model, settings)
    fit(run, model, collator=ValueCollator(rows.pad_id, rows.vision), objective=CriticObjective)


def once(say: Say) -> Say:
    """Only the first of several processes says something."""
    return say if rank() == 0 else lambda _: None


def _pair_rows(settings: TrainSettings, say: Say) -> Rows:
    """Pairs to train on and held-out ones."""
    rows, total, has_test = _pairs(settings, say)
    train_on, held_out = hold_out(rows.all, settings, total=total, has_test=has_test)
    say(f"{len(train_on):,} pairs to train on, {len(held_out):,} held out")
    return rows._replace(train=train_on, held_out=held_out)


def _pairs(settings: TrainSettings, say: Say) -> tuple[Rows, int, bool]:
    """Pairs that can be trained on; how many rows come before those of a test split, and if there is one."""
    tokenizer = models.load_tokenizers(settings)
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
        options: dict[str, Any] = {"response_template": settings.response_template, "vision": vision}
        encoder = PublishedEncoder(tokenizer, max_len=settings.max_len, **options)
    else:
        encoder = turn_encoder(tokenizer, settings, vision)
    pairs, report = encoder.encode(rows)
    say_what_was_encoded(pairs, report, settings, tokenizer, say)
    return Rows(tokenizer, pairs, [], vision), len(train_on), bool(test)


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


def begin(stage: str, settings: TrainSettings, rows: Rows, say: Say, *, share: bool = True) -> Run:
    """Plan the steps, join the other processes, if there are some, and find the checkpoint to resume from."""
    pictured = show_pictures(rows.all)
    if world_size() > 1 and pictured:
        blind = next((row for row in rows.all if not any(branch.pictures for branch in row.branches)), None)
        if blind is not None:
            raise UsageError(
                f"{blind.row.place} shows no picture, and others do. Several processes need one in every pair: train "
                "on one process, or on one sort."
            )
    share = share and settings.prefix_tree and not pictured
    steps = steps_of(settings, rows.train, share=share)
    held_out = packs_of(rows.held_out, settings, share=share, world=world_size())
    arguments = sharding.training_arguments(settings, steps.accumulation)
    if engine := sharding.describe(settings):
        say(engine)
    made_from = _made_from(stage, settings, rows) if rank() == 0 else {}
    resume = None
    if settings.load_checkpoint:

        def found() -> Path | None:
            folder = Path(settings.ckpt_path)
            checkpoints.checkpoints_in(folder, "--ckpt_path")
            instead = "start anew with another --ckpt_path"
            return checkpoints.resumable(folder, made_from, say, instead=instead, rounding=_ROUNDING)

        with sharding.lost_processes_named(settings):
            resume = from_main(found)
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
        "the number of processes": world_size() if engine == "deepspeed" else "any",
        "--dataset": f"{len(rows.train)} rows and {len(rows.held_out)} held out, {pairs_digest(rows.all)}",
        "--pretrain": checkpoints.identity_of(settings.pretrain),
        "--ref_pretrain": checkpoints.identity_of(settings.ref_pretrain),
        "--compat": "published" if settings.published else "fixed",
        "--seed": settings.seed,
    }


def reader(model: Any, rows: Rows, settings: TrainSettings) -> Reader:
    """How this model, with or without an adapter, reads rows: what they share once, if it can and the flags say so."""
    span = attention_span(models.bare_model(model)) if settings.prefix_tree else 0
    return Reader(rows.pad_id, span, with_attention=settings.aux_loss_coef > 0, vision=rows.vision)


def reference_and_policy(settings: DPOSettings, run: Run) -> tuple[Tensor, Any]:
    """[rows of the data, 2] under the reference, asked once before training, and the policy; never both at once.

    The reference is the base model itself, before an adapter is put on it, unless another one is named. Its numbers
    are kept for later trainings on the same pairs.
    """
    rows, device, half = run.rows, run.arguments.device, sharding.half_weights(settings)
    name = settings.ref_pretrain or settings.pretrain
    policy, identity = None, _identity(name, rows, settings) if rank() == 0 else {}
    path = Path(settings.reference_cache or user_cache() / "reference") / f"{digest(identity)}.safetensors"
    scores = from_main(lambda: _kept(path, identity) if identity else None)
    if scores is None:
        asked = reference = models.load_model(name, settings, half=half)
        check_sizes(reference, rows.all, settings)
        if sharding.shards_weights(settings):
            asked = sharding.sharded_for_scoring(reference, run.arguments, settings)
        else:
            reference.to(device)
            policy = reference if name == settings.pretrain else None
        scores = _scores(asked, reference, settings, rows, device, world=world_size())
        del reference, asked
        if identity and scores.isfinite().all():
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, [save_tensors({"logps": scores.contiguous()}, metadata=identity)])
    else:
        run.say(f"the reference's log-probabilities: {path}")
    if policy is None:
        gc.collect()
        policy = models.load_model(settings.pretrain, settings, half=half)
        check_sizes(policy, rows.all, settings)
    return scores[:, :2].contiguous(), models.trainable(policy, settings)


def _identity(name: str, rows: Rows, settings: DPOSettings) -> dict[str, str]:
    """All that decides about a reference's numbers; {} where they are not to be kept."""
    weights = None if settings.reference_cache == "none" else checkpoints.weights_digest(name)
    if weights is None:
        return {}
    return {
        "model": weights,
        "tokenizer": tokenizer_digest(rows.tokenizer),
        "data": pairs_digest(rows.all),
        "reduction": settings.reduction,
        "precision": f"{settings.dtype}, bf16 {settings.bf16}, 4 bit {settings.load_in_4bit}",
        "pixels": f"{settings.image_processor}, {settings.min_pixels} to {settings.max_pixels}",
    }


def _kept(path: Path, identity: dict[str, str]) -> Tensor | None:
    """A reference's numbers as they were saved; None if they never were."""
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            theirs, logps = file.metadata() or {}, file.get_tensor("logps")
        differs = [name for name in identity if theirs.get(name) != identity[name]]
        problem = f"was made with another {', another '.join(differs)}" if differs else ""
        if not problem and not logps.isfinite().all():
            problem = "holds a number that is not finite"
    except (SafetensorError, OSError) as error:
        problem = f"is damaged ({error})"
    if problem:
        what = f"The reference's log-probabilities in {str(path)!r} cannot be used: the file {problem}"
        raise UsageError(f"{what}. Delete it, and they are computed again.")
    return logps  # type: ignore[no-any-return]


def _scores(
    asked: Any, bare: Any, settings: TrainSettings, rows: Rows, device: Any, *, world: int = 1
) -> Tensor:
    """[rows of the data, 3] by `Encoded.index`, 0 of those left out: chosen, rejected, the chosen one's NLL.

    Every process takes every other batch, and all make the same number of passes, as a sharded model needs.
    """
    pairs, read = rows.all, reader(bare, rows, settings)
    share = read.attention_span > 0 and not show_pictures(pairs)
    collator, ask = Collator(settings.reduction, read), PairForward(bare)
    batches = packs_of(pairs, settings, share=share, world=world)(list(range(len(pairs))))
    bf16 = torch.autocast(torch.device(device).type, torch.bfloat16, enabled=settings.bf16)

    def scored(some: Sequence[int]) -> Tensor:
        batch = to_device(collator([(pairs[row], 0.0) for row in some]), device)
        with torch.inference_mode(), bf16:
            logps, _ = ask(asked, batch)
        return torch.stack(list(logps), dim=-1).float().cpu()

    result = torch.zeros(max(pair.index for pair in pairs) + 1, 3)
    training = asked.training
    asked.eval()
    for start in range(0, len(batches), world):
        mine = start + (rank() if world > 1 else 0)
        some = batches[min(mine, len(batches) - 1)]
        with forward.explained(forward.REPAIR):
            scores = torch.cat(list(forward.by_halves(some, scored))) if world == 1 else scored(some)
        if mine < len(batches):
            result[[pairs[row].index for row in some]] = scores
    asked.train(training)
    if world > 1:
        shared = result.to(device)
        torch.distributed.all_reduce(shared)
        result = shared.cpu()
    return result


def fit(
    run: Run, model: Any, *, collator: Callable[[Any], Any], objective: Callable[[Any, Any], Objective]
) -> None:
    """Train, evaluate at the end, and save the model with its tokenizer to `save_path`."""
    bare = models.bare_model(model)
    kind = type(bare)  # an engine may put another class in its place
    losses_of = objective(bare, run.settings)
    run = _as_memory_allows(run, model, collator, losses_of)
    settings, resumes = run.settings, run.resume is not None
    if rank() == 0 and settings.save_steps > 0 and not settings.load_checkpoint:
        for earlier in checkpoints.checkpoints_in(Path(settings.ckpt_path)):  # they would count as newer
            shutil.rmtree(earlier)
    trainer = StepTrainer(model, run, collator=collator, objective=losses_of)
    tracking.sets({"resolved": settings.plain()})
    for folder in (settings.save_path, *([settings.ckpt_path] if settings.save_steps > 0 else [])):
        tracking.writes(folder, folder=True, continues=resumes)
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
    options, device, world = run.settings, run.arguments.device, world_size()
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
    steps = steps_of(settings, run.rows.train, share=run.share)
    run.arguments.gradient_accumulation_steps = steps.accumulation
    held_out = packs_of(run.rows.held_out, settings, share=run.share, world=world)
    return run._replace(settings=settings, steps=steps, held_out_packs=held_out, most_places=most)


def save(trainer: Any, run: Run, kind: type) -> None:
    """Model, an adapter merged into it, tokenizer and image processor; files get their names at the end."""
    settings, first = run.settings, rank() == 0
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
