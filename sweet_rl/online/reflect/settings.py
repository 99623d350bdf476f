"""Settings of the stages of Reflect-RL: published flags, ours, and those of the world that is played.

Published behaviour: docs/published/reflect_rl.md#flags.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final, Literal

from sweet_rl.flags import Only, flag, no_flag
from sweet_rl.flags.shared import Compatible
from sweet_rl.types import Json
from sweet_rl.worlds import Options, World, first_for, flags_of, learning_options, options_of, world_of

_PPO: Final = Only("trainer", ("ppo",))
_CRITIC: Final = Only("critic", ("used",), "--use_critic")
_REFLECTING: Final = Only("reflect", ("asked",), "--reflect")


@dataclass(frozen=True)
class ReflectFlags(Compatible):
    """Flags of any world, under their published names and defaults; the last nine are ours."""

    per_device_train_batch_size: int = flag(
        1, "rows of a micro-batch; online: also episodes drawn from replay after each rollout.", at_least=1
    )
    per_device_eval_batch_size: int = flag(4, "episodes played at once; online: of an iteration.", at_least=1)
    gradient_accumulation_steps: int = flag(
        1, "micro-batches of an update; online: trainer calls whose episodes an update pools.", at_least=1
    )
    eval_reps: int = flag(10, "how often an evaluation plays its data.", at_least=1)
    mode: str = flag("train", "what the run is for; every stage sets it (train_SPT, train_RLFT, test).")
    learning_rate: float = flag(2e-4, "of the adapter, and of the critic.", at_least=0)
    max_grad_norm: float = flag(0.3, "gradients are clipped to this norm.", above=0)
    weight_decay: float = flag(0.001, "of the optimizer.", at_least=0)
    ppo_clip_coef: float = flag(0.1, "how far PPO lets the ratio move from 1.", above=0, only=_PPO)
    ppo_update_iter: int = flag(3, "passes over an update's steps with --trainer ppo.", at_least=1, only=_PPO)
    entropy_coef: float = flag(0.0, "what a unit of entropy takes off a step's cost.", at_least=0)
    lora_alpha: int = flag(16, "scale of the adapter.")
    lora_dropout: float = flag(0.1, "before the adapter, active in updates.", at_least=0, at_most=1)
    disable_dropout: bool = flag(False, "no dropout anywhere.")
    lora_r: int = flag(64, "rank of the adapter.", at_least=1)
    max_seq_length: int = flag(
        1024, "tokens of a text in fine-tuning; longer ones lose their beginning.", at_least=2
    )
    max_new_tokens: int = flag(1, "tokens of an action at most; the shrunk head writes one.", at_least=1)
    temperature: float = flag(1.0, "of sampling.", above=0)
    top_p: float = flag(1.0, "sample the likeliest with this probability together.", at_least=0, at_most=1)
    top_k: int = flag(99999, "sample among so many tokens only.", at_least=0)
    model_name: str = flag("gpt2-xl", "the policy's model: a folder, a hub name, or tiny (made on the spot).")
    load_dir: str | None = flag(None, "a checkpoint of the policy to begin with: adapter and tokenizer.")
    reflect_model_name: str = flag("gpt2-xl", "the reflection model's model.", only=_REFLECTING)
    reflect_load_dir: str | None = flag(
        None, "a checkpoint of the reflection model.", aliases=("reflectload_dir",)
    )
    ckpt_path: str = flag("results/", "folder in which every run gets a numbered folder of its own.")
    use_8bit: bool = flag(
        True, "load models in 8 bits. Needs bitsandbytes; without CUDA they are loaded whole."
    )
    use_4bit: bool = flag(False, "load models in 4 bits. Needs CUDA and bitsandbytes.")
    use_nested_quant: bool = flag(False, "also quantize the constants of the 4-bit weights.")
    bnb_4bit_compute_dtype: Literal["float16", "bfloat16", "float32"] = flag(
        "float16", "what 4-bit weights are computed in (float16, bfloat16 or float32)."
    )
    bnb_4bit_quant_type: Literal["nf4", "fp4"] = flag("nf4", "4-bit format (nf4 or fp4).")
    num_train_epochs: int = flag(1, "of no effect; --max_steps decides.", shown="never")
    fp16: bool = flag(False, "fine-tuning computes in float16 where there is CUDA.")
    bf16: bool = flag(True, "fine-tuning computes in bfloat16 where there is CUDA; elsewhere in float32.")
    gradient_checkpointing: bool = flag(True, "fine-tuning keeps no activations of a layer but its input.")
    optim: str = flag("paged_adamw_32bit", "of fine-tuning; paged ones need bitsandbytes, else AdamW.")
    lr_scheduler_type: Literal["constant", "constant_with_warmup", "linear", "cosine"] = flag(
        "constant", "of fine-tuning: constant, constant_with_warmup, linear or cosine."
    )
    max_steps: int = flag(20000, "updates of fine-tuning; iterations online.", at_least=1)
    warmup_ratio: float = flag(
        0.03, "updates in which the learning rate rises; constant has none.", at_least=0, at_most=1
    )
    group_by_length: bool = flag(False, "fine-tuning: texts of similar lengths share a micro-batch.")
    save_steps: int = flag(100, "a checkpoint every so many updates or iterations.", at_least=1)
    save_total_limit: int = flag(10, "checkpoints of fine-tuning that are kept.", at_least=1)
    logging_steps: int = flag(10, "updates or iterations over which the numbers shown are means.", at_least=1)
    cache_dir: str = flag("model/", "where downloaded models are kept.")
    env: str = flag(
        first_for("reflect"),
        "the world: its name, the published one too, or module:WORLD.",
        aliases=("world",),
    )
    trainer: Literal["pg", "ppo"] = flag("pg", "pg (policy gradient) or ppo (needs a critic).")
    replay_buffer_size: int = flag(50, "successful episodes that are remembered.", at_least=0)
    use_critic: bool = flag(False, "learn a value of states and subtract it from the costs to come.")
    critic_update_freq: int = flag(
        5, "the critic learns at every so many-th update.", at_least=1, only=_CRITIC
    )
    critic_update_iter: int = flag(5, "passes over its data when it does.", at_least=1, only=_CRITIC)
    shared_critic: bool = flag(
        False, "the critic reads the policy's hidden states; else those without its adapter.", only=_CRITIC
    )
    critic_layer_type: Literal["linear", "mlp"] = flag(
        "linear", "what is trained on the hidden state: linear or mlp.", only=_CRITIC
    )
    shrink_head: bool = flag(
        True, "score the world's labels only, instead of the vocabulary. Not for fine-tuning."
    )
    map_size: int = flag(4, "of no effect; kept for published command lines.", shown="never")
    random_map: bool = flag(True, "of no effect; kept for published command lines.", shown="never")
    is_slippery: bool = flag(False, "of no effect; kept for published command lines.", shown="never")
    max_turns: int | None = flag(
        None, "agent turns of an episode at most; default the world's own.", at_least=1, aliases=("horizon",)
    )
    task_file: str | None = flag(
        None, "tasks: a file, or a list of the world. In fine-tuning the .jsonl file of texts."
    )
    sandbox_dir: str = flag("/dev/shm/", "of no effect: no files are copied.", shown="never")  # as published
    discretize_actions: bool = flag(True, "of no effect: actions are labels.", shown="never")
    first_step: bool = flag(False, "play only the first step of every episode.")
    curriculum_index: int = flag(-1, "only this level of the curriculum; -1: all, one after the other.")
    few_data: int = flag(0, "only the first so many tasks of the first level; 0: all.", at_least=0)
    reflect: bool = flag(
        False, "let the reflection model think first; fine-tuning: train it, instead of the policy."
    )
    reflect_prob: float = flag(
        1.0, "how often it is asked, by step.", at_least=0, at_most=1, only=_REFLECTING
    )
    seed: int = flag(0, "of all draws.")
    device: str = flag("auto", "auto (a GPU if there is one), cpu, cuda, cuda:1, ...")
    max_tokens_per_batch: int = flag(
        4096, "tokens computed together at most. Changes speed and memory only.", at_least=1
    )
    kept_tokens: int = flag(
        4096, "with --disable_dropout: tokens of play that are kept for the update's gradients.", at_least=0
    )
    reflect_max_new_tokens: int = flag(100, "tokens of a reflection at most.", at_least=1, only=_REFLECTING)
    reflect_temperature: float | None = flag(
        None, "of sampling reflections; default --temperature.", above=0, only=_REFLECTING
    )
    target_modules: str = flag(
        "auto", "modules that get adapters, by commas; auto: peft's own choice; all-linear: all."
    )
    pointing_head: bool = flag(
        False,
        "point at a command on offer instead of writing its label. A checkpoint with such a head keeps it.",
    )


PLAIN: Final = tuple(field.name for field in fields(ReflectFlags))  # Settings that do not depend on the world


@dataclass(frozen=True)
class ReflectSettings(ReflectFlags):
    """The settings of a run: those of any world, and the world's own (`settings_of`)."""

    options: Options | None = no_flag(None)

    def __post_init__(self) -> None:
        ReflectFlags.__post_init__(self)
        if self.options is None:
            object.__setattr__(self, "options", options_of(self.world, {}, learning=True))
        if self.max_turns is None:
            object.__setattr__(self, "max_turns", self.world.max_turns)

    @property
    def world(self) -> World:
        """The world that is played."""
        return world_of(self.env)

    @property
    def rules(self) -> Options:
        """The options of a game: the world's own, and those of every world."""
        kind = learning_options(self.world)
        names = {option.name for option in fields(kind)}
        values = {name: getattr(self.options, name) for name in names}
        values |= {"first_step": self.first_step} if "first_step" in names else {}
        return kind(**values | {"max_turns": self.max_turns, "compat": self.compat})


def settings_of(**flags: Any) -> ReflectSettings:
    """Settings from flags by their names, those of the world among them."""
    world = world_of(flags.get("env", first_for("reflect")))
    own = flags_of(world, learning=True)
    given = {own[name]: flags.pop(name) for name in own if name in flags}
    return ReflectSettings(**flags, options=options_of(world, given, learning=True))


def as_flags(settings: ReflectSettings) -> dict[str, Json]:
    """All settings as one flat map, by the names of their flags."""
    own = flags_of(settings.world, learning=True)
    plain = {name: getattr(settings, name) for name in PLAIN}
    return plain | {flag: getattr(settings.options, name) for flag, name in own.items()}
