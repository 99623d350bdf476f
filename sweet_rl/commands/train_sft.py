"""Supervised fine-tuning on the agent's turns; on successful dialogues it is rejection fine-tuning."""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl.command_line.recording import recorded
from sweet_rl.commands.training_flags import (
    ExpertsFlags,
    FieldFlags,
    TrainedOn,
    TrainingFlags,
    training_stage,
)
from sweet_rl.flags import flag
from sweet_rl.flags.models import MinReward


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
    from sweet_rl.training import sft

    sft.train(settings, SelectionSettings(flags.min_reward, flags.best_of_task), print)
