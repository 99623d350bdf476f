"""Settings of the stages of Reflect-RL: published flags, ours, and those of the world that is played.

Published behaviour: docs/published/reflect_rl.md#flags.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Final

from sweet_rl.errors import UsageError
from sweet_rl.flags import flag
from sweet_rl.types import Compat, Json
from sweet_rl.worlds import Options, World, first_for, flags_of, options_of, world_of


@dataclass(frozen=True, slots=True)
class ReflectFlags:
    """Flags of any world, under their published names and defaults; the last six are ours.

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
        env: the world: its name, the published one as well, or module:WORLD.
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
        max_turns: agent turns of an episode at most.
        task_file: tasks: a file, or a list of the world; default the world's own. In fine-tuning the .jsonl file of texts.
        sandbox_dir: of no effect: no files are copied.
        discretize_actions: of no effect: actions are labels.
        first_step: play only the first step of every episode.
        curriculum_index: only this level of the curriculum; -1: all, one after the other.
        few_data: only the first so many tasks of the first level; 0: all.
        reflect: let the reflection model think first; fine-tuning: train it, instead of the policy.
        reflect_prob: how often it is asked, by step.
        seed: of all draws.
        compat: fixed, or published: the published arithmetic throughout, questionable as some of it is.
        device: auto (a GPU if there is one), cpu, cuda, cuda:1, ...
        max_tokens_per_batch: tokens computed together at most, padding included. Changes speed and memory only.
        reflect_max_new_tokens: tokens of a reflection at most.
        target_modules: names of the modules that get adapters, by commas; auto: peft's own for the kind of model; all-linear: all.

    Raises:
        UsageError: a value is out of its range.
    """

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
    env: str = first_for("reflect")
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
    max_turns: int = flag(15, "agent turns of an episode at most.", aliases=("horizon",))
    task_file: str | None = None
    sandbox_dir: str = "/dev/shm/"  # noqa: S108 - as published
    discretize_actions: bool = True
    first_step: bool = False
    curriculum_index: int = -1
    few_data: int = 0
    reflect: bool = False
    reflect_prob: float = 1.0
    seed: int = 0
    compat: Compat = flag(
        "fixed",
        "fixed, or published: the published arithmetic throughout, questionable as some of it is.",
        formerly=("strict",),
        bare="published",
    )
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
    def published(self) -> bool:
        """Whether it is computed as published."""
        return self.compat == "published"


PLAIN: Final = tuple(field.name for field in fields(ReflectFlags))
"""Settings that do not depend on the world."""


@dataclass(frozen=True, slots=True)
class ReflectSettings(ReflectFlags):
    """The settings of a run: those of any world, and the world's own (`settings_of`).

    Args:
        options: of the world, where an agent learns in it; default its own.

    Raises:
        UsageError: a value is out of its range, or there is no such world.
    """

    options: Options | None = None

    def __post_init__(self) -> None:
        ReflectFlags.__post_init__(self)
        if self.options is None:
            object.__setattr__(self, "options", options_of(self.world, {}, learning=True))

    @property
    def world(self) -> World:
        """The world that is played.

        Raises:
            UsageError: there is none of this name.
        """
        return world_of(self.env)

    @property
    def rules(self) -> Options:
        """The options of a game: the world's own, and those of every world."""
        names = {option.name for option in fields(self.world.learns_with)}
        values = {
            option.name: getattr(self.options, option.name) for option in fields(self.world.learns_with)
        }
        values |= {name: getattr(self, name) for name in _OF_GAMES if name in names}
        values |= {"max_turns": self.max_turns, "compat": self.compat}
        return self.world.learns_with(**values)


_OF_GAMES: Final = ("first_step",)
"""Settings of any world that are options of some."""


def settings_of(**flags: Any) -> ReflectSettings:
    """Settings from flags by their names, those of the world among them.

    Raises:
        UsageError: there is no such world, or a value is out of its range.
        TypeError: neither the stage nor the world has such a flag.
    """
    world = world_of(flags.get("env", first_for("reflect")))
    own = flags_of(world, learning=True)
    given = {own[name]: flags.pop(name) for name in own if name in flags}
    return ReflectSettings(**flags, options=options_of(world, given, learning=True))


def as_flags(settings: ReflectSettings) -> dict[str, Json]:
    """All settings as one flat map, by the names of their flags."""
    plain = {
        field.name: getattr(settings, field.name) for field in fields(settings) if field.name != "options"
    }
    own = flags_of(settings.world, learning=True)
    return plain | {flag: getattr(settings.options, name) for flag, name in own.items()}


_CHOICES: Final[dict[str, tuple[str, ...]]] = {
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
            "max_turns critic_update_freq critic_update_iter ppo_update_iter "
            "max_tokens_per_batch reflect_max_new_tokens"
        ),
        lambda value: value >= 1,
        "at least 1",
    ),
    (
        "learning_rate weight_decay replay_buffer_size few_data top_k entropy_coef",
        lambda value: value >= 0,
        "at least 0",
    ),
    ("max_grad_norm temperature ppo_clip_coef", lambda value: value > 0, "above 0"),
    (
        "lora_dropout warmup_ratio top_p reflect_prob",
        lambda value: 0 <= value <= 1,
        "between 0 and 1",
    ),
)
