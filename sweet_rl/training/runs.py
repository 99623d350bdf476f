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
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as save_tensors
from torch import Tensor
from transformers.integrations.deepspeed import unset_hf_deepspeed_config

from sweet_rl import tracking
from sweet_rl.chat import tokenizer_digest
from sweet_rl.chat.formats import user_cache
from sweet_rl.errors import UsageError
from sweet_rl.records import replace_file, replace_rows
from sweet_rl.training import checkpoints, models, processes, steps
from sweet_rl.training.batches import Collator, Reader, ValueCollator, to_device
from sweet_rl.training.data import DataRow, check_tokenizers, read_pairs, read_texts, some_of
from sweet_rl.training.encoding import Encoded, PublishedEncoder, TurnEncoder, scored_texts
from sweet_rl.training.forward import (
    CriticObjective,
    ImitationObjective,
    Objective,
    PreferenceObjective,
    attention_span,
)
from sweet_rl.training.losses import PairLogps, pair_losses
from sweet_rl.training.processes import from_main, rank, world_size
from sweet_rl.training.settings import DPOSettings, SFTSettings, TrainSettings
from sweet_rl.training.trainer import Rows, Run, Say, StepTrainer
from sweet_rl.training.vision import Vision
from sweet_rl.types import digest


def evaluate_pairs(settings: DPOSettings, say: Say) -> None:
    """Write every pair's numbers to `metrics_path`, in file order, and train nothing."""
    if int(os.environ.get("RANK", "0")):
        return  # one process scores; the others of a launcher have nothing to do
    rows = _pair_rows(settings, say, holds_out=False)
    wanted, scores = settings.device, []
    device = ("cuda" if torch.cuda.is_available() else "cpu") if wanted == "auto" else wanted
    for name in dict.fromkeys((settings.ref_pretrain or settings.pretrain, settings.pretrain)):
        model = _loaded(name, settings, rows)
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
    numbers = zip(*(tensor.tolist() for tensor in columns.values()), strict=True)
    lines = [
        {"index": index, **dict(zip(columns, row, strict=True))}
        for index, row in zip(at, numbers, strict=True)
    ]
    path = str(settings.metrics_path)
    tracking.writes(path)
    replace_rows(path, map(checkpoints.finite, lines))
    accuracy, loss = (sum(line[name] for line in lines) / len(lines) for name in ("accuracy", "total_loss"))
    say(f"{len(lines):,} pairs: accuracy {accuracy:.3f}, loss {loss:.4f}")
    say(f"numbers: {path}")


def train_dpo(settings: DPOSettings, say: Say) -> None:
    """Learn from pairs by the preference loss of the settings."""
    say = once(say)
    run = Run("train_dpo", settings, _pair_rows(settings, say), say)
    with processes.lost_processes_named(settings):
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
    texts = _encoded(read, settings, tokenizer, None, say)
    train_on, held_out = hold_out(texts, settings, total=len(read))
    tokens = sum(text.weight for text in train_on)
    say(f"{len(train_on):,} texts ({tokens:,} tokens to imitate) to train on, {len(held_out):,} held out")
    vision = Vision.find(settings.pretrain, tokenizer)  # texts show nothing, but it is saved as well
    run = Run("train_sft", settings, Rows(tokenizer, train_on, held_out, vision), say)
    model = models.trainable(_loaded(settings.pretrain, settings, run.rows), settings)
    fit(run, model, collator=Collator("sum", reader(model, run.rows, settings)), objective=ImitationObjective)


def train_critic(settings: TrainSettings, say: Say) -> None:
    """Train a sequence classifier with one label: the ablation that SWEET-RL's own critic is compared with."""
    say = once(say)
    run = Run("train_reward_model", settings, rows := _pair_rows(settings, say), say, share=False)
    model = _loaded(settings.pretrain, settings, rows, models.load_critic)
    model.config.get_text_config().pad_token_id = rows.pad_id  # without one, the classifier refuses batches
    model.config.critic_value = "mean" if settings.published else "last"
    model = models.trainable(model, settings)
    fit(run, model, collator=ValueCollator(rows.pad_id, rows.vision), objective=CriticObjective)


def once(say: Say) -> Say:
    """Only the first of several processes says something."""
    return say if rank() == 0 else lambda _: None


def _pair_rows(settings: TrainSettings, say: Say, *, holds_out: bool = True) -> Rows:
    """Pairs to train on and, if it `holds_out` some, held-out ones."""
    tokenizer = models.load_tokenizers(settings)
    train_on, test = read_pairs(settings, seed=settings.seed, published=settings.published)
    rows, vision = [*train_on, *test], None
    try:
        vision = Vision.load(settings.pretrain, tokenizer, settings)
    except UsageError as error:  # the model does not see, or its folder does not say how: it may not need to
        if (first := next((row for row in rows if row.pictures), None)) is not None:
            raise UsageError(f"{first.place} shows a picture. {error}") from error
    pairs = _encoded(rows, settings, tokenizer, vision, say)
    if not holds_out:
        return Rows(tokenizer, pairs, [], vision)
    train, held_out = hold_out(pairs, settings, total=len(train_on), has_test=bool(test))
    say(f"{len(train):,} pairs to train on, {len(held_out):,} held out")
    return Rows(tokenizer, train, held_out, vision)


def _encoded(
    rows: Sequence[DataRow], settings: TrainSettings, tokenizer: Any, vision: Vision | None, say: Say
) -> list[Encoded]:
    """The rows as token ids, after saying what happened to them, and what is learned of the first one."""
    check_tokenizers(rows, tokenizer, allowed=settings.other_tokenizer)
    published = settings.published and len(rows[0].sides) > 1
    encoder = (PublishedEncoder if published else TurnEncoder)(tokenizer, settings, vision)
    encoded, report = encoder.encode(rows)
    for line in report.lines(settings.max_len):
        say(line)
    if not encoded:
        raise UsageError(
            f"None of the {len(report.too_long):,} {report.noun} of {settings.dataset!r} fits into --max_len "
            f"{settings.max_len}. Raise it."
        )
    learned = [scored_texts(side.branches, tokenizer) for side in encoded[0].sides]
    all_ = " | ".join(some_of([*map(repr, texts)])[:150] for texts in learned)
    say(f"learned from {encoded[0].row.place}: {all_} (all: sweet-rl show_tokens)")
    return encoded


def hold_out(
    rows: list[Encoded], settings: TrainSettings, *, total: int, has_test: bool = False
) -> tuple[list[Encoded], list[Encoded]]:
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


def _loaded(
    name: str, settings: TrainSettings, rows: Rows, load: Callable[..., Any] = models.load_model
) -> Any:
    """A model that has embeddings for all ids and lengths of the rows, and sees where they show something."""
    # DeepSpeed keeps float32 copies of its own
    half = processes.engine_of(settings) == "deepspeed" and settings.bf16
    model = load(name, replace(settings, dtype="bfloat16") if half else settings)
    config = model.config.get_text_config()
    if rows.pictured and not hasattr(model.config, "image_token_id"):
        raise UsageError(f"{name!r} reads no pictures, and the data have some.")
    longest, context = max(row.length for row in rows.all), getattr(config, "max_position_embeddings", None)
    if context is not None and longest > context:
        what = f"The longest row has {longest:,} tokens, and {name!r} reads {context:,}"
        raise UsageError(f"{what}: set --max_len {context} (it is {settings.max_len}).")
    for row in rows.all:
        if (largest := max(max(branch.ids) for branch in row.branches)) >= config.vocab_size:
            known = f"{name!r} knows {config.vocab_size:,} tokens"
            raise UsageError(
                f"{row.row.place} has the token id {largest}, but {known}: its tokenizer does not belong to it."
            )
    return model


def reader(model: Any, rows: Rows, settings: TrainSettings) -> Reader:
    """How this model, with or without an adapter, reads rows: what they share once, if it can and the flags say so."""
    span = attention_span(models.bare_model(model)) if settings.prefix_tree else 0
    return Reader(rows.pad_id, span, with_attention=settings.aux_loss_coef > 0, vision=rows.vision)


def reference_and_policy(settings: DPOSettings, run: Run) -> tuple[Tensor, Any]:
    """[rows of the data, 2] under the reference, asked once before training, and the policy; never both at once.

    The reference is the base model itself, before an adapter is put on it, unless another one is named. Its numbers
    are kept for later trainings on the same pairs.
    """
    rows, device, policy = run.rows, run.arguments.device, None
    name, identity = settings.ref_pretrain or settings.pretrain, dict[str, str]()
    weights = checkpoints.weights_digest(name) if rank() == 0 and settings.reference_cache != "none" else None
    if weights is not None:  # all that decides about the numbers
        identity = {
            "model": weights,
            "tokenizer": tokenizer_digest(rows.tokenizer),
            "data": rows.digest,
            "reduction": settings.reduction,
            "precision": f"{settings.dtype}, bf16 {settings.bf16}, 4 bit {settings.load_in_4bit}",
            "pixels": f"{settings.image_processor}, {settings.min_pixels} to {settings.max_pixels}",
        }
    path = Path(settings.reference_cache or user_cache() / "reference") / f"{digest(identity)}.safetensors"
    scores = from_main(lambda: _kept(path, identity) if identity else None)
    if scores is None:
        asked = reference = _loaded(name, settings, rows)
        if processes.shards_weights(settings):
            asked = processes.sharded_for_scoring(reference, run.arguments, settings)
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
        policy = _loaded(settings.pretrain, settings, rows)
    return scores[:, :2].contiguous(), models.trainable(policy, settings)


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

    Every process takes every other batch.
    """
    pairs, read = rows.all, reader(bare, rows, settings)
    share = read.attention_span > 0 and not rows.pictured
    collator, objective = Collator(settings.reduction, read), PreferenceObjective(bare, settings)
    batches = steps.packs_of(pairs, settings, share=share, world=world)(list(range(len(pairs))))
    bf16 = torch.autocast(torch.device(device).type, torch.bfloat16, enabled=settings.bf16)

    def scored(some: Sequence[int]) -> tuple[list[int], Tensor]:
        batch = to_device(collator([(pairs[row], 0.0) for row in some]), device)
        with torch.inference_mode(), bf16:
            logps, _ = objective.logps(asked, batch)
        return [pairs[row].index for row in some], torch.stack(list(logps), dim=-1).float().cpu()

    result = torch.zeros(max(pair.index for pair in pairs) + 1, 3)
    training = asked.training
    asked.eval()
    with steps.explained(steps.REPAIR):
        for counts, (places, scores) in steps.own_passes(batches, scored, world=world):
            if counts:
                result[places] = scores
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
    kind, losses_of = (
        type(bare),
        objective(bare, run.settings),
    )  # an engine may put another class in its place
    _divide_by_memory(run, model, collator, losses_of)
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
    with processes.lost_processes_named(settings), steps.explained(steps.REPAIR):
        trainer.train(resume_from_checkpoint=str(run.resume) if run.resume else None)
        if run.rows.held_out and not settings.eval_steps > 0:
            shown = trainer.evaluate()
            accuracy = f"accuracy {shown['eval_acc']:.3f}, " if "eval_acc" in shown else ""
            run.say(f"held out: {accuracy}loss {shown['eval_loss']:.4f}")
        save(trainer, run, kind)
    run.say(f"model and tokenizer: {settings.save_path}")


def _divide_by_memory(run: Run, model: Any, collator: Callable[[Any], Any], objective: Objective) -> None:
    """Pack rows by as many tokens as one GPU has room for, if the flags say nothing about packs."""
    settings, device = run.settings, run.arguments.device
    said = settings.max_tokens_per_batch or settings.micro_train_batch_size
    one = world_size() == 1 and processes.engine_of(settings) is None
    if said or not one or device.type != steps.CARD or not objective.by_row:
        return

    def work(rows: Sequence[Encoded]) -> int:
        batch = to_device(collator([(row, 0.0) for row in rows]), device)
        with torch.autocast(device.type, torch.bfloat16, enabled=settings.bf16):
            losses = objective(model, batch)
        losses.total_B.sum().backward()  # type: ignore[no-untyped-call]
        return steps.places(batch)

    if not settings.load_in_4bit:  # which is there already
        model.to(device)
    model.train()
    trained = (parameter for parameter in model.parameters() if parameter.requires_grad)
    adam = sum(2 * parameter.numel() * parameter.element_size() for parameter in trained)
    longest = max(run.rows.all, key=lambda row: row.length)
    with steps.explained(f"{longest.row.place} alone takes it. {steps.REPAIR}"):
        most = steps.tokens_that_fit(run.rows.all, work, reserve=adam, device=device)
    model.zero_grad()
    tokens = max(longest.length, int(most * (1 - steps.PADDING)))
    run.say(f"{tokens:,} tokens in one forward pass, by the GPU's free memory")
    run.divide(replace(settings, max_tokens_per_batch=tokens))
    run.arguments.gradient_accumulation_steps, run.most_places = run.steps.accumulation, most


def save(trainer: Any, run: Run, kind: type) -> None:
    """Model, an adapter merged into it, tokenizer and image processor; files get their names at the end."""
    settings, first = run.settings, rank() == 0
    model = trainer.accelerator.unwrap_model(trainer.model)
    if processes.shards_weights(settings):  # all give theirs to the first, which puts them into a whole model
        weights = trainer.accelerator.get_state_dict(trainer.model_wrapped)
        if first:
            unset_hf_deepspeed_config()  # type: ignore[no-untyped-call]  # this one is not to be sharded
            bare = models.bare_model(model)
            with torch.device("meta"):
                model = kind(bare.config)
                model.generation_config = getattr(bare, "generation_config", None)
                model = models.add_adapter(model, settings) if settings.lora_rank else model
            model.load_state_dict(weights, assign=True)
            models.bare_model(model).tie_weights()
    if first:
        whole = model.merge_and_unload() if settings.lora_rank else model
        folder = Path(settings.save_path)
        with checkpoints.storing(folder, folder / checkpoints.PARTIAL):
            models.save_whole(whole, run.rows.tokenizer, folder, run.rows.vision)
    trainer.accelerator.wait_for_everyone()
