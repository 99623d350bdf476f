"""Stages 3 and 6 of the pipeline: preference pairs to a critic, and to a policy; and what they would learn.

Published behaviour: docs/published/sweet_rl.md#preference-training.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sweet_rl import tracking
from sweet_rl.chat import load_tokenizer
from sweet_rl.cli.main import drawn_on, inert
from sweet_rl.cli.progress import on_interrupt
from sweet_rl.cli.stage import Stage, needing, recorded, stage
from sweet_rl.errors import UsageError
from sweet_rl.flags import flag, group
from sweet_rl.flags.models import Pretrain
from sweet_rl.training.settings import CriticSettings, DataSettings, DPOSettings, SFTSettings, TrainSettings

if TYPE_CHECKING:
    from sweet_rl.training.encoding import Branch


_HELPS: Final = {
    "seed": "random seed of row order, held-out rows, adapters and dropout.",
    "device": "auto, cpu or cuda.",
    "dtype": "precision of the weights: auto (float32), float32 or bfloat16 (which rounds away updates of small learning rates; see --bf16).",
    "other_tokenizer": "train also on turns that were sampled with another tokenizer; their texts are tokenised again.",
}
_NARROW: Final[Mapping[str, Mapping[str, Any]]] = {
    "device": {"choices": ("auto", "cpu", "cuda"), "shown": "help"},
    "dtype": {"choices": ("auto", "float32", "bfloat16")},
}
_PACKAGES: Final = frozenset({"torch", "transformers", "accelerate", "jinja2"})  # of the extra `training`


def training_stage(
    *, helps: Mapping[str, str] | None = None, without: Sequence[str] = (), **defaults: Any
) -> Callable[[Callable[..., None]], Stage]:
    """Make a stage of a function that trains."""

    def decorate(function: Callable[..., None]) -> Stage:
        return stage(
            "pretrain",
            "dataset",
            defaults={"seed": 42} | defaults,
            helps=_HELPS | dict(helps or {}),
            narrow=_NARROW,
            only={"device": None, "dtype": None},
            without=without,
        )(needing(_PACKAGES, "training", needed_for="training")(_alone(function)))

    return decorate


def _alone(function: Callable[..., None]) -> Callable[..., None]:
    """The stage, which no other run writes beside, and which says how to resume when it is stopped."""

    @functools.wraps(function)
    def alone(settings: TrainSettings) -> None:
        destination = settings.destination()
        if getattr(settings, "eval_only", False):
            if destination.kinds:
                raise UsageError(
                    f"Nothing is trained, so there are no metrics for {destination.kinds[0]}; leave it out."
                )
            function(settings)
            return
        settings = settings.resolved()
        first = os.environ.get("RANK", "0") == "0"  # one process writes
        if first:
            replaces_nothing(settings)
        tracking.logs_to(destination)
        if not first:
            function(settings)
            return
        from sweet_rl.training.checkpoints import held

        again = "The same command with --load_checkpoint resumes from the newest checkpoint in"
        words = (
            f"{again} {settings.ckpt_path}."
            if settings.save_steps > 0
            else "There are no checkpoints (--save_steps)."
        )
        folder, metrics = Path(settings.save_path), Path(settings.metrics_path or "")
        written = [folder] if metrics.parent == folder else [folder, metrics]
        written += [Path(settings.ckpt_path)] if settings.save_steps > 0 or settings.load_checkpoint else []
        with held(*written), on_interrupt(words):
            function(settings)

    return alone


def replaces_nothing(settings: TrainSettings) -> None:
    """Make sure, before anything is loaded, that no model and no numbers are lost."""
    from sweet_rl.training.checkpoints import checkpoints_in

    if settings.overwrite:
        return
    resumes, place = settings.load_checkpoint, Path(settings.ckpt_path)
    if resumes and checkpoints_in(place, "--ckpt_path"):
        return
    if settings.save_steps > 0 and (kept := checkpoints_in(place)):
        raise UsageError(
            f"--ckpt_path {settings.ckpt_path!r} holds {kept[-1].name} of an earlier training. Pass --overwrite "
            "to replace its checkpoints, --load_checkpoint to resume it, or choose another --ckpt_path."
        )
    for path in (
        Path(settings.save_path) / "config.json",
        *([] if resumes else [Path(settings.metrics_path or "")]),
    ):
        if path.is_file() and path.stat().st_size:
            raise UsageError(
                f"{str(path)!r} exists already, from an earlier training. Pass --overwrite to replace it, "
                "--load_checkpoint to resume from a checkpoint, or choose another --save_path."
            )


@recorded("train_dpo", reads=("pretrain", "ref_pretrain", "dataset", "deepspeed_config"))
@training_stage(
    helps={
        "compat": "fixed, or published (published masks, truncation, denominators and warm-up, to compare numbers)."
    }
)
def train_dpo(settings: DPOSettings, /) -> None:
    """Train a model on preference pairs, by DPO.

    Only the assistant's turns are scored, wherever the chat template puts them. The reference's
    log-probabilities are computed once, before training. The model and its tokenizer are saved to save_path,
    with the metrics of every update in metrics.jsonl.

    The critic (paper: turn-level advantages) and the policy:
    sweet-rl train_dpo --pretrain MODEL --dataset gt_pairs.jsonl --mean_log_prob --max_len 8192 --save_path critic
    sweet-rl train_dpo --pretrain MODEL --dataset step_pairs.jsonl --nll_loss_coef 0.01 --save_path policy

    Several processes: torchrun --nproc-per-node 2 -m sweet_rl train_dpo --zero_stage 3 ..., or the deepspeed launcher.
    """
    from sweet_rl.training import runs
    from sweet_rl.training.losses import check_loss

    if settings.eval_only:
        if settings.metrics_path is None:
            raise UsageError("--eval_only needs --metrics_path, the .jsonl file for the numbers.")
        from sweet_rl.runs import new_file

        new_file(settings.metrics_path, "metrics_path", overwrite=settings.overwrite)
    if settings.ipo and settings.published:
        settings = replace(settings, label_smoothing=0.0)  # which it ignores
    (runs.evaluate_pairs if settings.eval_only else runs.train_dpo)(check_loss(settings), print)


@recorded("train_sft", reads=("pretrain", "dataset", "deepspeed_config"))
@training_stage(
    ckpt_path="./ckpt/checkpoints_sft",
    wandb_project="openrlhf_train_sft",
    helps={
        "min_reward": "imitate only trajectories with at least this reward; default all.",
        "dataset": "files or hub names, separated by commas: trajectories (of sweet-rl simulate_interactions "
        "or eval, or published), messages, prompts and completions, or pairs, whose chosen side "
        "is imitated (sweet-rl generate_random_pairs_from_ranks --get_sft).",
        "prompt_key": "for pairs: the field with the prompt; default: prompt in rows that have it, else the chosen side is a whole dialogue.",
        "chosen_key": "for pairs: the field that is imitated.",
    },
    without="""
        loss mean_log_prob beta ipo label_smoothing nll_loss_coef compat rejected_key dataset_probs train_split eval_split
        apply_chat_template image_processor min_pixels max_pixels
    """.split(),
)
def train_sft(settings: SFTSettings, /) -> None:
    """Fine-tune a model on the agent's messages, in dialogues or in single turns.

    All assistant turns are imitated, each with its end token; headers, user and system messages never are. An
    update minimises the mean over all imitated tokens of its rows, so long dialogues count more than short
    ones, and the size of a micro-batch has no influence.

    Rejection fine-tuning keeps the dialogues that solve their task, here one for each task: sweet-rl
    train_sft --pretrain MODEL --dataset graded.jsonl --min_reward 1 --best_of_task --max_len 8192 --save_path
    rft
    """
    from sweet_rl.training import runs

    runs.train_sft(replace(settings, loss="imitation"), print)


@recorded("train_reward_model", reads=("pretrain", "dataset", "deepspeed_config"))
@training_stage(
    learning_rate=9e-6,
    loss="sigmoid",
    micro_train_batch_size=1,
    ckpt_path="./ckpt/checkpoints_rm",
    wandb_project="openrlhf_train_rm",
    helps={
        "loss": "loss on the two values, with a beta of 1: sigmoid; logexp, which is equal but overflows for "
        "values far apart; or another preference loss of train_dpo.",
        "pretrain": "starting model: a folder, a hub name or smollm2. Its regression head is new, unless it is already such a critic.",
        "compat": "fixed, or published: a text's value is the mean over all positions of its batch, padding "
        "included (ranking then takes the mean over dialogue and candidate).",
    },
    without=("mean_log_prob", "beta", "ipo", "label_smoothing", "nll_loss_coef", "aux_loss_coef"),
)
def train_reward_model(settings: CriticSettings, /) -> None:
    """Train a critic with a regression head on preference pairs.

    A regression head replaces the model's logits: one value, read at the last token of a text, which training
    makes larger for the chosen side. The result is a sequence classifier with one label, which sweet-rl
    rank_best_of_n takes as its critic: a candidate's score is the value at its last token, after the dialogue
    so far. This equals the advantage up to a constant for each turn, so no reference is subtracted.

    sweet-rl train_reward_model --pretrain MODEL --dataset gt_pairs.jsonl --max_len 8192 --save_path critic
    sweet-rl rank_best_of_n sampled.jsonl ranked.jsonl critic
    """
    from sweet_rl.training import runs
    from sweet_rl.training.losses import check_loss

    settings = check_loss(replace(settings, beta=1.0))
    if settings.reduction != "sum":
        raise UsageError(
            f"--loss {settings.loss} is of means over tokens, and this critic has one value for a text."
        )
    runs.train_critic(settings, print)


_LEARNED, _READ, _PLAIN = "\x1b[1;32m", "\x1b[2m", "\x1b[0m"


@group("What is shown")
class ShownFlags(Pretrain, DataSettings):
    rows: int | None = flag(None, "rows to show, from the first on; default 2, with --json all.", at_least=1)
    json: bool = flag(
        False, 'one JSON object for each side: {"file", "row", "side", "scored"}; scored: the trained texts.'
    )


@stage(
    "dataset",
    helps={
        "dataset": "any file that a training stage reads: dialogues, preference pairs, messages, or prompts and completions.",
        "pretrain": "model that would be trained; only its tokenizer and chat template are read.",
    },
    without="""
        dataset_probs train_split eval_split apply_chat_template image_processor min_pixels max_pixels max_samples eval_fraction
    """.split(),
)
def show_tokens(flags: ShownFlags, /) -> None:
    """Show which tokens of a file training would learn, and what the model reads before them.

    Learned text is green (or between [ and ] without colours); the rest is only read. If the turns of a side
    have separate prompts (because the chat template strips thoughts from the history, for example), they are
    shown as several sequences. A row that training would refuse is refused here with the same message.

    sweet-rl show_tokens pairs.jsonl --pretrain Qwen/Qwen3-8B --rows 1
    """
    from sweet_rl.training.data import check_tokenizers, read_any
    from sweet_rl.training.encoding import TurnEncoder, scored_texts

    count = flags.rows or (None if flags.json else 2)
    data = replace(flags, max_samples=count or flags.max_samples)
    tokenizer = load_tokenizer(flags.pretrain)
    pairs, texts = read_any(data)
    check_tokenizers([*pairs, *texts], tokenizer, allowed=flags.other_tokenizer)
    encoder = TurnEncoder(tokenizer, data)
    for encoded, report in map(encoder.encode, (pairs, texts)):
        for row in encoded:
            names = ("chosen", "rejected") if len(row.sides) > 1 else ("text",)
            for name, side in zip(names, row.sides, strict=True):
                if flags.json:
                    scored = scored_texts(side.branches, tokenizer)
                    print(
                        json.dumps(
                            {"file": row.row.path, "row": row.row.line, "side": name, "scored": scored}
                        )
                    )
                else:
                    _draw(f"{row.row.place}, {name}", side.branches, tokenizer)
        for line in report.lines(data.max_len):
            print(line, file=sys.stderr if flags.json else sys.stdout)


def _draw(title: str, branches: tuple[Branch, ...], tokenizer: Any) -> None:
    out = drawn_on(sys.stdout)
    colours = (out.isatty() and "NO_COLOR" not in os.environ) or "FORCE_COLOR" in os.environ
    learned, read, plain = (_LEARNED, _READ, _PLAIN) if colours else ("[", "", "")
    closed = plain if colours else "]"
    for number, branch in enumerate(branches, 1):
        tokens = sum(end - start for start, end in branch.scored)
        which = f", sequence {number} of {len(branches)}" if len(branches) > 1 else ""
        out.write(f"== {inert(title)}{which}: {tokens:,} of {len(branch.ids):,} tokens are learned\n")
        position = 0
        for start, end in branch.scored:
            for mark, ids, back in (
                (read, branch.ids[position:start], plain),
                (learned, branch.ids[start:end], closed),
            ):
                text = tokenizer.decode(list(ids), clean_up_tokenization_spaces=False)
                out.write(f"{mark}{inert(str(text))}{back}")
            position = end
        out.write("\n\n")
