"""Settings of the algorithms: one value for each key that decides arithmetic. No torch.

Published behaviour: docs/published/archer.md#configuration, #deviations.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from sweet_rl.errors import UsageError
from sweet_rl.flags import Settings, flag
from sweet_rl.types import Compat

# Which learner: `archer` and `archer_llm` are the same one under the two published names.
AgentType = Literal["archer", "archer_llm", "chai", "online_filteredbc", "ppo", "reinforce"]

# Learners without a critic and a memory: they learn from the newest iteration's whole episodes only.
ON_POLICY = ("ppo", "reinforce")

PUBLISHED_TOP_K = 50  # Of so many likeliest tokens one is sampled, as published: the default of `generate`

ShardWith = Literal["fsdp2"]  # What divides a policy over processes

DTypeName = Literal["auto", "float32", "bfloat16", "float64"]


@dataclass(frozen=True)
class ArcherSettings(Settings):
    """The algorithmic keys under their published names and defaults; `configs/archer/default.yaml` says what they are.

    `checkpoint_path` holds weights of the policy to begin with: `.pt` with `model_state_dict`, or a
    checkpoint of a run. `template` is the text around an observation, which stands at `{obs}`. `save_path` is where
    a batch with a non-finite loss is kept.
    """

    DASHES: ClassVar = ""

    policy_lm: str = "gpt2"
    critic_lm: str = "roberta-base"
    cache_dir: str | None = None
    checkpoint_path: str | None = None
    agent_type: AgentType = "archer"
    use_baseline: bool = False
    normalize_advantages: bool = False
    double_critic: bool = True
    clip_range: float = flag(0.2, "", above=0)
    use_lora: bool = False
    max_new_tokens: int = flag(32, "", at_least=1)
    batch_size: int = flag(8, "", at_least=1)
    grad_accum_steps: int = flag(32, "", at_least=1)
    epochs: int = flag(50, "", at_least=0)
    actor_epochs: int = flag(3, "", at_least=0)
    do_sample: bool = True
    temperature: float = flag(1.0, "", above=0)
    critic_lr: float = flag(1e-5, "", at_least=0)
    lm_lr: float = flag(1e-5, "", at_least=0)
    gamma: float = flag(0.95, "", at_least=0, at_most=1)
    tau: float = flag(0.1, "", at_least=0, at_most=1)
    max_grad_norm: float = flag(1.0, "", above=0)
    eos_str: str | None = "\n"
    compat: Compat = "fixed"
    top_k: int = flag(0, "", at_least=0)
    template: str | None = None
    max_context: int = flag(512, "", at_least=1)
    candidates: int = flag(5, "", at_least=1)
    lora_rank: int = flag(16, "", at_least=1)
    lora_alpha: int = 32
    lora_dropout: float = 0.05
    target_modules: str = "auto"
    gradient_checkpointing: bool = False
    max_tokens_per_batch: int = flag(4096, "", at_least=1)
    shard_with: ShardWith | None = None
    dtype: DTypeName = "auto"
    device: str = "auto"
    save_path: str | None = None
    seed: int = 0

    def check_together(self) -> None:
        """What no single setting can say."""
        published, on_policy = self.compat == "published", self.agent_type in ON_POLICY
        if on_policy and self.shard_with:
            raise UsageError(f"shard_with divides no policy of agent_type={self.agent_type}: leave it out.")
        if self.template is not None and "{obs}" not in self.template:
            raise UsageError("template must contain {obs}, the place of the observation.")
        if self.eos_str == "":
            raise UsageError("eos_str must not be empty; null lets only the end token end an utterance.")
        for wrong, name, why in (
            (self.shard_with, "shard_with", "computes in one process only"),
            (on_policy, "agent_type", f"has none: agent_type={self.agent_type} is not part of the published code"),
            (not self.double_critic, "double_critic", "has two critics"),
            (self.normalize_advantages, "normalize_advantages", "takes advantages as they are"),
            (self.top_k not in {0, PUBLISHED_TOP_K}, "top_k", f"samples from the {PUBLISHED_TOP_K} likeliest tokens"),
            (self.agent_type == "chai" and self.eos_str is None, "eos_str", "ends every utterance of chai with eos_str"),
        ):  # fmt: skip
            if published and wrong:
                raise UsageError(f"compat=published {why}. Leave {name} out, or take compat=fixed.")

    @property
    def has_value_head(self) -> bool:
        """Whether the policy learns the values of its tokens: PPO always, REINFORCE never."""
        return self.agent_type == "ppo" or (self.use_baseline and self.agent_type != "reinforce")

    @property
    def rows_per_step(self) -> int:
        """G x B: rows of an optimizer step, over all processes."""
        return self.grad_accum_steps * self.batch_size

    @property
    def nonfinite_path(self) -> Path | None:
        """Where a batch with a non-finite loss is kept."""
        return Path(self.save_path) / "nonfinite_batch.jsonl" if self.save_path else None


@dataclass(frozen=True)
class LoopSettings(Settings):
    """The published settings of the loop; `default.yaml` says what they are.

    Filtered behaviour cloning learns from episodes whose return is at least the `filter_quantile` of all returns so far
    (published: 0.9); None: from all. `on_policy`: from the newest iteration only. `gamma` discounts the returns of turns.
    """

    DASHES: ClassVar = ""

    iterations: int = flag(2000, "", at_least=1)
    rollout_size: int = flag(128, "", at_least=1)
    eval_size: int = flag(32, "", at_least=1)
    eval_freq: int = flag(25, "", at_least=1)
    save_freq: int = flag(25, "", at_least=1)
    warmup_iter: int = flag(20, "", at_least=0)
    capacity: int = flag(100_000, "", at_least=1)
    filter_quantile: float | None = flag(None, "", at_least=0, at_most=1)
    on_policy: bool = False
    gamma: float = 0.95
    whole_games: bool = False
    concurrency: int = flag(128, "", at_least=1)
    keep_checkpoints: int = flag(2, "", at_least=0)
    compat: Compat = "fixed"
    seed: int = 0

    def check_together(self) -> None:
        """What no single setting can say."""
        if self.whole_games and self.compat == "published":
            raise UsageError(
                "compat=published draws turn by turn: leave whole_games out, or take compat=fixed."
            )
