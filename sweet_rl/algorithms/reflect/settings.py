"""Settings of the stages of Reflect-RL: the 75 published flags, then ours.

Published behaviour: docs/published/reflect_rl.md#flags.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Final

from sweet_rl.errors import UsageError

ENVS: Final = ("auto_explore", "taxi", "alfworld")


@dataclass(frozen=True, slots=True)
class ReflectSettings:
    """All flags under their published names and defaults; the last six are ours.

    Args:
        per_device_train_batch_size: rows of a micro-batch with gradients; RL: also episodes drawn from replay after each rollout.
        per_device_eval_batch_size: episodes that are played at once; RL: the episodes of an iteration.
        gradient_accumulation_steps: fine-tuning: micro-batches of an update; RL: trainer calls whose episodes an update pools.
        eval_reps: how often an evaluation plays its data.
        mode: what the run is for; every stage sets it by itself (train_SPT, train_RLFT, test).
        learning_rate: of the adapter, and of the critic.
        max_grad_norm: gradients are clipped to this norm.
        weight_decay: of the optimizer.
        ppo_clip_coef: how far PPO lets the probability ratio move from 1.
        ppo_update_iter: passes over an update's steps with --trainer ppo.
        entropy_coef: what a unit of the policy's entropy takes off a step's cost.
        lora_alpha: scale of the adapter.
        lora_dropout: dropout in front of the adapter, active in updates.
        disable_dropout: no dropout anywhere.
        lora_r: rank of the adapter.
        max_seq_length: tokens of a text in fine-tuning; longer ones lose their beginning.
        max_new_tokens: tokens of an action at most; the shrunk head writes one.
        temperature: of sampling.
        top_p: sample among the likeliest tokens that have this probability together.
        top_k: sample among so many tokens only.
        model_name: the policy's model: a folder, a hub name, or tiny (made on the spot).
        load_dir: a checkpoint of the policy to begin with: adapter and tokenizer.
        reflect_model_name: the reflection model's model.
        reflect_load_dir: a checkpoint of the reflection model.
        ckpt_path: folder in which every run gets a numbered folder of its own.
        use_8bit: load models in 8 bits. Needs CUDA and bitsandbytes; without CUDA models are loaded whole.
        use_4bit: load models in 4 bits. Needs CUDA and bitsandbytes.
        use_nested_quant: also quantize the constants of the 4-bit weights.
        bnb_4bit_compute_dtype: what 4-bit weights are computed in (float16, bfloat16 or float32).
        bnb_4bit_quant_type: 4-bit format (nf4 or fp4).
        num_train_epochs: of no effect; --max_steps decides.
        fp16: fine-tuning computes in float16 where there is CUDA.
        bf16: fine-tuning computes in bfloat16 where there is CUDA; elsewhere in float32.
        gradient_checkpointing: fine-tuning keeps no activations of a layer but its input.
        optim: optimizer of fine-tuning; paged ones need CUDA and bitsandbytes and are AdamW elsewhere.
        lr_scheduler_type: of fine-tuning: constant, constant_with_warmup, linear or cosine.
        max_steps: updates of fine-tuning; iterations of RL.
        warmup_ratio: share of the updates in which the learning rate rises; constant has none.
        group_by_length: fine-tuning: texts of similar lengths share a micro-batch.
        save_steps: a checkpoint every so many updates or iterations.
        save_total_limit: checkpoints of fine-tuning that are kept.
        logging_steps: updates or iterations over which the numbers shown are means.
        cache_dir: where downloaded models are kept.
        env: the world: auto_explore, taxi or alfworld.
        trainer: pg (policy gradient) or ppo (needs a critic).
        replay_buffer_size: successful episodes that are remembered.
        use_critic: learn a value of states and subtract it from the costs to come.
        critic_update_freq: the critic learns at every so many-th update.
        critic_update_iter: passes over its data when it does.
        shared_critic: the critic reads the policy's hidden states; otherwise those of the model without its adapter.
        critic_layer_type: what is trained on the hidden state: linear or mlp.
        shrink_head: score the world's labels only, instead of the vocabulary. Not for fine-tuning.
        map_size: of no effect; kept for published command lines.
        random_map: of no effect; kept for published command lines.
        is_slippery: of no effect; kept for published command lines.
        horizon: steps of an episode at most.
        task_file: tasks of auto_explore; in fine-tuning the .jsonl file of texts.
        repo_dir: the repositories of auto_explore.
        sandbox_dir: where copies of them are made.
        discretize_actions: of no effect: actions are labels.
        disable_alfworld: do without the planner of alfworld.
        with_prompt: the taxi's text begins with the rules.
        with_history: the taxi's text shows all earlier grids.
        first_step: play only the first step of every episode.
        curriculum_index: only this level of the curriculum; -1: all, one after the other.
        few_data: only the first so many tasks of the first level; 0: all.
        easy: auto_explore asks for a file by its name.
        reflect: let the reflection model think first; fine-tuning: train it, instead of the policy.
        reflect_prob: how often it is asked, by step.
        leaveout_prob: auto_explore leaves out files that are no answers with this probability.
        shuffle_action: labels are drawn anew at every step.
        depth_curriculum: auto_explore begins with files near the top.
        merge_first_two: the two shallowest levels are one.
        merge_after_first_k: levels behind the first so many are one.
        taxi_curriculum: learn to pick up, then to drop off, then both; without it no taxi episode succeeds.
        seed: of all draws.
        strict: published arithmetic throughout, questionable as some of it is; for comparisons.
        device: auto (a GPU if there is one), cpu, cuda, cuda:1, ...
        max_tokens_per_batch: tokens computed together at most, padding included. Changes speed and memory only.
        reflect_max_new_tokens: tokens of a reflection at most.
        target_modules: names of the modules that get adapters, by commas; auto: peft's own for the kind of model; all-linear: all.

    Raises:
        UsageError: a value is out of its range.
    """  # noqa: E501 - one line of help for each flag

    per_device_train_batch_size: int = 1
    per_device_eval_batch_size: int = 4
    gradient_accumulation_steps: int = 1
    eval_reps: int = 10
    mode: str = "train"
    learning_rate: float = 2e-4
    max_grad_norm: float = 0.3
    weight_decay: float = 0.001
    ppo_clip_coef: float = 0.1
    ppo_update_iter: int = 3
    entropy_coef: float = 0.0
    lora_alpha: int = 16
    lora_dropout: float = 0.1
    disable_dropout: bool = False
    lora_r: int = 64
    max_seq_length: int = 1024
    max_new_tokens: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 99999
    model_name: str = "gpt2-xl"
    load_dir: str | None = None
    reflect_model_name: str = "gpt2-xl"
    reflect_load_dir: str | None = None
    ckpt_path: str = "results/"
    use_8bit: bool = True
    use_4bit: bool = False
    use_nested_quant: bool = False
    bnb_4bit_compute_dtype: str = "float16"
    bnb_4bit_quant_type: str = "nf4"
    num_train_epochs: int = 1
    fp16: bool = False
    bf16: bool = True
    gradient_checkpointing: bool = True
    optim: str = "paged_adamw_32bit"
    lr_scheduler_type: str = "constant"
    max_steps: int = 20000
    warmup_ratio: float = 0.03
    group_by_length: bool = False
    save_steps: int = 100
    save_total_limit: int = 10
    logging_steps: int = 10
    cache_dir: str = "model/"
    env: str = "auto_explore"
    trainer: str = "pg"
    replay_buffer_size: int = 50
    use_critic: bool = False
    critic_update_freq: int = 5
    critic_update_iter: int = 5
    shared_critic: bool = False
    critic_layer_type: str = "linear"
    shrink_head: bool = True
    map_size: int = 4
    random_map: bool = True
    is_slippery: bool = False
    horizon: int = 15
    task_file: str = "data/auto_explore/tasks_filtered/train.json"
    repo_dir: str = "data/auto_explore/repos_filtered/"
    sandbox_dir: str = "/dev/shm/"  # noqa: S108 - as published
    discretize_actions: bool = True
    disable_alfworld: bool = True
    first_step: bool = False
    curriculum_index: int = -1
    few_data: int = 0
    easy: bool = False
    reflect: bool = False
    reflect_prob: float = 1.0
    leaveout_prob: float = 0.5
    shuffle_action: bool = False
    depth_curriculum: bool = False
    merge_first_two: bool = False
    merge_after_first_k: int = 3
    with_prompt: bool = False
    with_history: bool = False
    taxi_curriculum: bool = False
    seed: int = 0
    strict: bool = False
    device: str = "auto"
    max_tokens_per_batch: int = 4096
    reflect_max_new_tokens: int = 100
    target_modules: str = "auto"

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise UsageError(
                    f"--{name} must be one of {', '.join(choices)}, got {getattr(self, name)!r}."
                )
        for names, fits, what in _RANGES:
            for name in names.split():
                if not fits(float(getattr(self, name))):
                    raise UsageError(f"--{name} must be {what}, got {getattr(self, name)!r}.")

    @property
    def world(self) -> str:
        """The world's name in this library: that of its action head."""
        return "dangerous_taxi" if self.env == "taxi" else self.env


_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "env": ENVS,
    "trainer": ("pg", "ppo"),
    "critic_layer_type": ("linear", "mlp"),
    "bnb_4bit_compute_dtype": ("float16", "bfloat16", "float32"),
    "bnb_4bit_quant_type": ("nf4", "fp4"),
    "lr_scheduler_type": ("constant", "constant_with_warmup", "linear", "cosine"),
}

_Range = tuple[str, Callable[[float], bool], str]

_RANGES: Final[tuple[_Range, ...]] = (
    (
        (
            "per_device_train_batch_size per_device_eval_batch_size gradient_accumulation_steps eval_reps "
            "lora_r max_seq_length max_new_tokens max_steps save_steps save_total_limit logging_steps "
            "horizon critic_update_freq critic_update_iter ppo_update_iter "
            "max_tokens_per_batch reflect_max_new_tokens"
        ),
        lambda value: value >= 1,
        "at least 1",
    ),
    (
        "learning_rate weight_decay replay_buffer_size few_data top_k merge_after_first_k entropy_coef",
        lambda value: value >= 0,
        "at least 0",
    ),
    ("max_grad_norm temperature ppo_clip_coef", lambda value: value > 0, "above 0"),
    (
        "lora_dropout warmup_ratio top_p reflect_prob leaveout_prob",
        lambda value: 0 <= value <= 1,
        "between 0 and 1",
    ),
)

OURS: Final = ("seed", "strict", "device", "max_tokens_per_batch", "reflect_max_new_tokens", "target_modules")
"""Flags that the published code does not have."""

PUBLISHED: Final = tuple(field.name for field in fields(ReflectSettings) if field.name not in OURS)
"""The 75 that it has, in their order there."""
