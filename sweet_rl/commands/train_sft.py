"""Supervised fine-tuning on the agent's turns; on successful dialogues it is rejection fine-tuning."""

from __future__ import annotations

from sweet_rl.commands.recording import recorded
from sweet_rl.commands.training_flags import TrainingFlags, at_least, model_and_data, training_stage


@recorded("train_sft", reads=("pretrain", "dataset", "deepspeed_config"))
@training_stage(ckpt_path="./ckpt/checkpoints_sft", wandb_project="openrlhf_train_sft")
def train_sft(
    pretrain: str | None = None,
    dataset: str | None = None,
    *,
    min_reward: float | None = None,
    best_of_task: bool = False,
    prompt_key: str | None = None,
    chosen_key: str = "chosen",
    input_template: str | None = None,
    aux_loss_coef: float = 0.0,
    flags: TrainingFlags,
) -> None:
    """Fine-tune a model on what the agent said, in dialogues or in single turns.

    All assistant turns are imitated, each with its end token; headers, the user and the system never are. An
    update minimises the mean over all imitated tokens of its rows, so long dialogues count for more than short
    ones, and the size of a micro-batch has no influence.

    Rejection fine-tuning keeps the dialogues that solve their task, here the first best one of each:
    train_sft.py --pretrain MODEL --dataset graded.jsonl --min_reward 1 --best_of_task --max_len 8192 --save_path rft

    Args:
        pretrain: the model to train: a folder or a hub name.
        dataset: .jsonl files, several with commas between them: trajectories (of simulate_interactions.py, or published), or pairs, whose chosen side is imitated (generate_random_pairs_from_ranks.py --get_sft).
        min_reward: of trajectories only those with at least this reward; default all.
        best_of_task: of the trajectories of a task only the one with the largest reward, the first of equals.
        prompt_key: of pairs, the field with the prompt; default: prompt in rows that have it, else the chosen side is a whole dialogue.
        chosen_key: of pairs, the field that is imitated.
        input_template: text around the prompt, which takes the place of {}.
        aux_loss_coef: weight of the balance loss of a mixture of experts.
        flags: what every training stage has.
    """
    pretrain, dataset = model_and_data(pretrain, dataset, "a .jsonl file of trajectories or pairs")
    at_least(0, aux_loss_coef=aux_loss_coef)
    from sweet_rl.training.settings import LossSettings, SelectionSettings

    settings = flags.settings(
        flags.data(
            dataset,
            prompt_key=prompt_key,
            find_prompt=True,
            chosen_key=chosen_key,
            input_template=input_template,
        ),
        flags.model(pretrain),
        loss=LossSettings(name="imitation", aux_loss_coef=aux_loss_coef),
    )
    from sweet_rl.training import sft

    sft.train(settings, SelectionSettings(min_reward, best_of_task), print)
