"""A critic with a regression head, for the ablation (spec §9.5)."""

from __future__ import annotations

from sweet_rl.commands.training_flags import TrainingFlags, model_and_data, one_of, training_stage


@training_stage(
    learning_rate=9e-6,
    micro_train_batch_size=1,
    ckpt_path="./ckpt/checkpoints_rm",
    wandb_project="openrlhf_train_rm",
)
def train_reward_model(
    pretrain: str | None = None,
    dataset: str | None = None,
    *,
    dataset_probs: str = "1.0",
    train_split: str = "train",
    eval_split: str = "test",
    prompt_key: str | None = None,
    chosen_key: str = "chosen",
    rejected_key: str = "rejected",
    input_template: str | None = None,
    apply_chat_template: bool = False,
    loss: str = "sigmoid",
    compat: str = "fixed",
    flags: TrainingFlags,
) -> None:
    """Train a critic with a regression head on preference pairs.

    The logits of the model give way to one number, its value at the last token of a text; the chosen side is to
    have the larger one. What is saved is a sequence classifier with one label, which rank_best_of_n.py takes as
    its critic: a candidate's score is the value at its last token, after the dialogue that it continues. That is
    the advantage up to what all candidates of a turn share, so no reference is subtracted.

    train_reward_model.py --pretrain MODEL --dataset gt_pairs.jsonl --max_len 8192 --save_path critic
    rank_best_of_n.py sampled.jsonl ranked.jsonl critic

    Args:
        pretrain: the model to begin from: a folder or a hub name; its head is new unless it is such a critic.
        dataset: pairs: .jsonl, .json or .csv files, or hub names (name@data_dir); several with commas between them.
        dataset_probs: for several datasets: how often each is drawn from, with commas between the numbers.
        train_split: of a dataset from the hub.
        eval_split: of a dataset from the hub: what to hold out, if it has such a split, in place of eval_fraction.
        prompt_key: field with the prompt that both sides answer; default: prompt in rows that have it, else the sides are whole dialogues (published: always whole dialogues).
        chosen_key: field with the preferred side.
        rejected_key: field with the other side.
        input_template: text around the prompt, which takes the place of {}.
        apply_chat_template: the fields are lists of messages; make texts of them with the model's chat template.
        loss: sigmoid, or logexp: the same number in a form that overflows for values far apart.
        compat: fixed, or published: a text's value is the mean over all positions of its batch, padding included (ranking then takes the mean over dialogue and candidate).
        flags: what every training stage has.
    """
    pretrain, dataset = model_and_data(pretrain, dataset, "a .jsonl file with pairs")
    one_of("compat", compat, ("fixed", "published"))
    one_of("loss", loss, ("sigmoid", "logexp"))
    from sweet_rl.training.settings import LossSettings

    published = compat == "published"
    settings = flags.settings(
        flags.data(
            dataset,
            dataset_probs=dataset_probs,
            train_split=train_split,
            eval_split=eval_split,
            prompt_key=prompt_key,
            find_prompt=not published,
            chosen_key=chosen_key,
            rejected_key=rejected_key,
            input_template=input_template,
            apply_chat_template=apply_chat_template,
        ),
        flags.model(pretrain),
        loss=LossSettings(),
        published=published,
    )
    from sweet_rl.training import critic

    critic.train(settings, "logexp" if loss == "logexp" else "sigmoid", print)
