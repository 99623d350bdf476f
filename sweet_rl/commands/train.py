"""Stages 3 and 6 of the pipeline: preference pairs to a critic, and to a policy.

Published behaviour: docs/published/sweet_rl.md#preference-training.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sweet_rl.chat.formats import user_cache
from sweet_rl.cli.stage import recorded
from sweet_rl.commands.training_flags import (
    ExpertsFlags,
    FieldFlags,
    Loss,
    PairFlags,
    TrainedOn,
    TrainingFlags,
    training_stage,
)
from sweet_rl.errors import UsageError
from sweet_rl.flags import flag
from sweet_rl.flags.models import MinReward
from sweet_rl.flags.shared import Compatible

if TYPE_CHECKING:
    from sweet_rl.training.settings import LossSettings, Reduction


@dataclass(frozen=True, kw_only=True)
class DPOFlags(TrainedOn, Compatible, Loss, ExpertsFlags):
    """The loss."""

    mean_log_prob: str = flag(
        "none",
        "none (sum over the response), trajectory (mean over its tokens; what the bare switch means) or turn (sum of each turn's mean).",
        bare="True",
    )
    beta: float = flag(0.1, "how strongly the policy is held to the reference.", above=0)
    ipo: bool = flag(False, "the same as loss ipo.", shown="all")
    label_smoothing: float = flag(
        0.0,
        "share of labels assumed to be wrong; for sigmoid, sigmoid_norm and robust.",
        at_least=0,
        shown="all",
    )
    nll_loss_coef: float = flag(
        0.0, "weight of the chosen response's negative log-likelihood per token.", at_least=0
    )
    ref_pretrain: str | None = flag(
        None, "the reference model; default pretrain as it is before training.", shown="all"
    )
    eval_only: bool = flag(
        False,
        "train nothing; write every pair's log-probabilities, rewards and losses to metrics_path.",
        shown="all",
    )
    reference_cache: str | None = flag(
        None,
        "folder that keeps the reference's log-probabilities for later trainings on the same pairs; default in the user's cache; none: not kept.",
        shown="all",
    )
    ref_offload: bool = flag(False, "of no effect: the reference is freed before training.", shown="never")
    packing_samples: bool = flag(False, "not there: in the published code it does not run.", shown="never")
    ring_attn_size: int = flag(1, "only 1: one process reads a whole pair.", shown="never")
    ring_head_stride: int = flag(1, "of no effect: belongs to ring attention.", shown="never")
    disable_fast_tokenizer: bool = flag(False, "of no effect.", shown="never")

    def check_together(self) -> None:
        """Published flags that have no effect here, and flags that an evaluation needs."""
        super().check_together()
        for name, given, instead in (
            ("packing_samples", self.packing_samples, "--max_tokens_per_batch packs without padding"),
            (
                "ring_attn_size",
                self.ring_attn_size != 1,
                "use --zero_stage 3 and --gradient_checkpointing for long texts",
            ),
        ):
            if given:
                raise UsageError(f"--{name} is not there: {instead}.")

    def settings(self) -> LossSettings:
        """The loss as the flags say, tried."""
        from sweet_rl.training.losses import check_loss, reduction_of
        from sweet_rl.training.settings import LossSettings

        if self.ipo and self.loss not in {None, "ipo"}:
            raise UsageError(f"--ipo and --loss {self.loss} name two losses; leave one of them out.")
        name = self.loss or ("ipo" if self.ipo else LossSettings().name)
        reduction, wanted = self._reduction(), reduction_of(name)
        if wanted not in {None, reduction}:
            if reduction != "sum":
                raise UsageError(
                    f"--loss {name} is of another mean than --mean_log_prob {self.mean_log_prob}; leave it out."
                )
            reduction = wanted
        published_ipo = self.ipo and self.compat == "published"
        settings = LossSettings(
            name=name,
            reduction=reduction,
            beta=self.beta,
            label_smoothing=0.0 if published_ipo else self.label_smoothing,
            nll_loss_coef=self.nll_loss_coef,
            aux_loss_coef=self.aux_loss_coef,
        )
        check_loss(settings)
        return settings

    def _reduction(self) -> Reduction:
        match self.mean_log_prob.lower():
            case "none" | "false":
                return "sum"
            case "trajectory" | "true":
                return "trajectory"
            case "turn":
                return "turn"
        raise UsageError(f"--mean_log_prob must be none, trajectory or turn, got {self.mean_log_prob!r}.")


@recorded("train_dpo", reads=("pretrain", "ref_pretrain", "dataset", "deepspeed_config"))
@training_stage(
    helps={
        "compat": "fixed, or published (its masks, truncation, denominators and warm-up, to compare numbers)."
    }
)
def train_dpo(flags: DPOFlags, pairs: PairFlags, training: TrainingFlags, /) -> None:
    """Train a model on preference pairs, by DPO.

    Only the assistant's turns are scored, wherever the chat template puts them. The reference's log-probabilities
    are computed once, before training. The model and its tokenizer go to save_path, the numbers of every update
    to metrics.jsonl beside them.

    The critic (paper: turn-level advantages) and the policy:
    sweet-rl train_dpo --pretrain MODEL --dataset gt_pairs.jsonl --mean_log_prob --max_len 8192 --save_path critic
    sweet-rl train_dpo --pretrain MODEL --dataset step_pairs.jsonl --nll_loss_coef 0.01 --save_path policy

    Several processes: torchrun --nproc-per-node 2 -m sweet_rl train_dpo --zero_stage 3 ..., or the deepspeed launcher.
    """
    if flags.eval_only and training.metrics_path is None:
        raise UsageError("--eval_only needs --metrics_path, the .jsonl file for the numbers.")
    published = flags.compat == "published"
    loss = flags.settings()
    settings = training.settings(
        pairs.data(training, flags.dataset, published=published),
        training.model(flags.pretrain, flags.ref_pretrain),
        loss=loss,
        published=published,
        trains=not flags.eval_only,
    )
    if flags.eval_only:
        from sweet_rl.runs import new_file

        new_file(str(training.metrics_path), "metrics_path", overwrite=training.overwrite)
    from sweet_rl.training import runs

    if flags.reference_cache != "none":
        folder = Path(flags.reference_cache or user_cache() / "reference")
        settings = replace(settings, output=replace(settings.output, reference_cache=folder))
    (runs.evaluate_pairs if flags.eval_only else runs.train_dpo)(settings, print)


@dataclass(frozen=True, kw_only=True)
class ImitationFlags(TrainedOn, FieldFlags, MinReward, ExpertsFlags):
    """Which dialogues are imitated."""

    best_of_task: bool = flag(
        False, "of the trajectories of a task only the one with the largest reward, the first of equals."
    )


@recorded("train_sft", reads=("pretrain", "dataset", "deepspeed_config"))
@training_stage(
    ckpt_path="./ckpt/checkpoints_sft",
    wandb_project="openrlhf_train_sft",
    helps={
        "min_reward": "of trajectories only those with at least this reward; default all.",
        "dataset": "files or hub names, several with commas between them: trajectories (of sweet-rl simulate_interactions, of eval, or published), messages, prompt and completion, or pairs, whose chosen side is imitated (sweet-rl generate_random_pairs_from_ranks --get_sft).",
        "prompt_key": "of pairs, the field with the prompt; default: prompt in rows that have it, else the chosen side is a whole dialogue.",
        "chosen_key": "of pairs, the field that is imitated.",
    },
)
def train_sft(flags: ImitationFlags, training: TrainingFlags, /) -> None:
    """Fine-tune a model on the agent's messages, in dialogues or in single turns.

    All assistant turns are imitated, each with its end token; headers, the user and the system never are. An
    update minimises the mean over all imitated tokens of its rows, so long dialogues count for more than short
    ones, and the size of a micro-batch has no influence.

    Rejection fine-tuning keeps the dialogues that solve their task, here the first best one of each:
    sweet-rl train_sft --pretrain MODEL --dataset graded.jsonl --min_reward 1 --best_of_task --max_len 8192 --save_path rft
    """
    from sweet_rl.training.settings import LossSettings, SelectionSettings

    settings = training.settings(
        training.data(
            flags.dataset,
            prompt_key=flags.prompt_key,
            find_prompt=True,
            chosen_key=flags.chosen_key,
            input_template=flags.input_template,
        ),
        training.model(flags.pretrain),
        loss=LossSettings(name="imitation", aux_loss_coef=flags.aux_loss_coef),
    )
    from sweet_rl.training import runs

    runs.train_sft(settings, SelectionSettings(flags.min_reward, flags.best_of_task), print)


@dataclass(frozen=True, kw_only=True)
class CriticFlags(TrainedOn, Compatible, Loss):
    """The critic."""


@recorded("train_reward_model", reads=("pretrain", "dataset", "deepspeed_config"))
@training_stage(
    learning_rate=9e-6,
    loss="sigmoid",
    micro_train_batch_size=1,
    ckpt_path="./ckpt/checkpoints_rm",
    wandb_project="openrlhf_train_rm",
    helps={
        "loss": "of the two values, with a beta of 1: sigmoid; logexp, the same number in a form that overflows for values far apart; or another preference loss of train_dpo.",
        "pretrain": "the model to begin from: a folder, a hub name or smollm2; its head is new unless it is such a critic.",
        "compat": "fixed, or published: a text's value is the mean over all positions of its batch, padding included (ranking then takes the mean over dialogue and candidate).",
    },
)
def train_reward_model(flags: CriticFlags, pairs: PairFlags, training: TrainingFlags, /) -> None:
    """Train a critic with a regression head on preference pairs.

    The logits of the model give way to one number, its value at the last token of a text; the chosen side is to
    have the larger one. What is saved is a sequence classifier with one label, which sweet-rl rank_best_of_n takes as
    its critic: a candidate's score is the value at its last token, after the dialogue that it continues. That is
    the advantage up to what all candidates of a turn share, so no reference is subtracted.

    sweet-rl train_reward_model --pretrain MODEL --dataset gt_pairs.jsonl --max_len 8192 --save_path critic
    sweet-rl rank_best_of_n sampled.jsonl ranked.jsonl critic
    """
    from sweet_rl.training.losses import check_loss, reduction_of
    from sweet_rl.training.settings import LossSettings

    name = flags.loss or "sigmoid"
    if reduction_of(name) is not None:
        raise UsageError(f"--loss {name} is of means over tokens, and this critic has one value for a text.")
    loss = LossSettings(name=name, beta=1.0)
    check_loss(loss)
    published = flags.compat == "published"
    settings = training.settings(
        pairs.data(training, flags.dataset, published=published),
        training.model(flags.pretrain),
        loss=loss,
        published=published,
    )
    from sweet_rl.training import runs

    runs.train_critic(settings, print)
