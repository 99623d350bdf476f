"""Settings of the algorithms: one value for each key that decides arithmetic. No torch.

Published behaviour: docs/published/archer.md#configuration, #deviations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal, get_args

from sweet_rl.errors import UsageError
from sweet_rl.types import Compat

AgentType = Literal["archer", "archer_llm", "chai", "online_filteredbc"]
"""Which learner: `archer` and `archer_llm` are the same one under the two published names."""

ShardWith = Literal["fsdp2"]
"""What divides a policy over processes."""

DTypeName = Literal["auto", "float32", "bfloat16", "float64"]

AGENT_TYPES: tuple[str, ...] = get_args(AgentType)


@dataclass(frozen=True, slots=True)
class ArcherSettings:
    """The algorithmic keys under their published names and defaults, then ours.

    Attributes:
        policy_lm: causal language model: folder, or name on the hub.
        critic_lm: encoder of the critics: folder, or name on the hub.
        cache_dir: where downloads are kept; None for the usual place.
        checkpoint_path: weights of the policy to begin with (`.pt` with `model_state_dict`, `.safetensors`,
            or a checkpoint of a run); None for those of `policy_lm`.
        agent_type: which learner.
        use_baseline: subtract a value of each token, learnt by a head on the policy, from the advantage.
        normalize_advantages: give the advantages of a policy step mean 0 and deviation 1 over its rows. What
            the critic has not learnt yet is mostly an error common to all, which then drops out.
        use_lora: train an adapter on the policy instead of its weights.
        max_new_tokens: tokens of an utterance at most, the one that ends it included.
        batch_size: rows over which a loss is a mean (B).
        grad_accum_steps: such means that are added up for an optimizer step (G); a step sees G x B rows.
        epochs: critic steps of an update.
        actor_epochs: policy steps of an update.
        do_sample: sample; False takes the likeliest token.
        temperature: of sampling.
        critic_lr: learning rate of the critics (Adam).
        lm_lr: learning rate of the policy (Adam).
        gamma: discount.
        tau: how far the target critic moves to the critic after each step.
        max_grad_norm: gradients are clipped to this norm.
        eos_str: what ends an utterance and is no part of it; None: only the end token does.
        compat: fixed or published arithmetic.
        top_k: sample among so many tokens only; 0: among all. The score of a token obeys it, too.
        template: text around the observation, which stands at `{obs}`, for the policy only; None for none.
        max_context: tokens of an observation that policy and critic read at most; the oldest are dropped.
        candidates: utterances among which CHAI chooses.
        lora_rank: rank of the adapter.
        lora_alpha: its scale.
        lora_dropout: kept in the adapter's configuration. No dropout is active here.
        target_modules: names of the modules that get adapters, by commas; "auto": q, k, v and o projections
            where the model has them, else all linear modules.
        gradient_checkpointing: keep no activations of a policy layer but its input.
        max_tokens_per_batch: tokens computed together with gradients at most, padding included; four times
            as many without. Changes speed and memory, not results.
        shard_with: "fsdp2" divides the policy's weights, gradients and optimizer states over the processes;
            None: each process has all of them. Decides about memory, not results.
        dtype: "bfloat16" computes in it, with float32 weights where they are trained; "auto": bfloat16 on a
            GPU that has it, else float32.
        device: "auto" (a GPU if there is one), "cpu", "cuda", "cuda:1", ...
        save_path: folder where a batch with a non-finite loss is kept; None keeps none.
        seed: of all draws.

    Raises:
        UsageError: a value is out of its range.
    """

    policy_lm: str = "gpt2"
    critic_lm: str = "roberta-base"
    cache_dir: str | None = None
    checkpoint_path: str | None = None
    agent_type: AgentType = "archer"
    use_baseline: bool = False
    normalize_advantages: bool = False
    use_lora: bool = False
    max_new_tokens: int = 32
    batch_size: int = 8
    grad_accum_steps: int = 32
    epochs: int = 50
    actor_epochs: int = 3
    do_sample: bool = True
    temperature: float = 1.0
    critic_lr: float = 1e-5
    lm_lr: float = 1e-5
    gamma: float = 0.95
    tau: float = 0.1
    max_grad_norm: float = 1.0
    eos_str: str | None = "\n"
    compat: Compat = "fixed"
    top_k: int = 0
    template: str | None = None
    max_context: int = 512
    candidates: int = 5
    lora_rank: int = 16
    lora_alpha: int = 32
    lora_dropout: float = 0.05
    target_modules: str = "auto"
    gradient_checkpointing: bool = False
    max_tokens_per_batch: int = 4096
    shard_with: ShardWith | None = None
    dtype: DTypeName = "auto"
    device: str = "auto"
    save_path: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise UsageError(f"{name} must be one of {', '.join(choices)}, got {getattr(self, name)!r}.")
        if self.shard_with not in (None, *get_args(ShardWith)):
            raise UsageError(f"shard_with must be fsdp2 or null, got {self.shard_with!r}.")
        if self.shard_with and self.compat == "published":
            raise UsageError(
                "compat=published computes in one process only, and shard_with=fsdp2 needs several. Leave "
                "shard_with out, or take compat=fixed."
            )
        for names, fits, what in _RANGES:
            for name in names:
                if not fits(float(getattr(self, name))):
                    raise UsageError(f"{name} must be {what}, got {getattr(self, name)!r}.")
        if self.template is not None and "{obs}" not in self.template:
            raise UsageError("template must contain {obs}, the place of the observation.")
        if self.eos_str is None and self.agent_type == "chai" and self.compat == "published":
            raise UsageError(
                "agent_type=chai with compat=published ends every utterance with eos_str, so it must not be "
                "null. Leave it out, or take compat=fixed."
            )
        if self.eos_str == "":
            raise UsageError("eos_str must not be empty; null lets only the end token end an utterance.")

    @property
    def rows_per_step(self) -> int:
        """G x B: rows of an optimizer step, over all processes."""
        return self.grad_accum_steps * self.batch_size

    @property
    def nonfinite_path(self) -> Path | None:
        """Where a batch with a non-finite loss is kept."""
        return Path(self.save_path) / "nonfinite_batch.jsonl" if self.save_path else None


_CHOICES: dict[str, tuple[str, ...]] = {
    "agent_type": AGENT_TYPES,
    "compat": get_args(Compat),
    "dtype": get_args(DTypeName),
}

_Range = tuple[tuple[str, ...], Callable[[float], bool], str]

_RANGES: tuple[_Range, ...] = (
    (
        (
            *("max_new_tokens", "batch_size", "grad_accum_steps", "candidates", "max_context"),
            *("max_tokens_per_batch", "lora_rank"),
        ),
        lambda value: value >= 1,
        "at least 1",
    ),
    (("epochs", "actor_epochs", "top_k"), lambda value: value >= 0, "at least 0"),
    (("temperature", "max_grad_norm"), lambda value: value > 0, "above 0"),
    (("critic_lr", "lm_lr"), lambda value: value >= 0, "at least 0"),
    (("gamma", "tau"), lambda value: 0 <= value <= 1, "between 0 and 1"),
)

SETTING_NAMES = tuple(field.name for field in fields(ArcherSettings))
"""Every key that is a setting here; the loop has more of its own."""
