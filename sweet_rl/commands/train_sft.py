"""Supervised fine-tuning on the agent's turns; on successful dialogues it is rejection fine-tuning."""

from __future__ import annotations

from dataclasses import dataclass

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
