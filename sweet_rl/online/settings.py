"""Settings of the algorithms: one value for each key that decides arithmetic. No torch.

Published behaviour: docs/published/archer.md#configuration, #deviations.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import ClassVar, Literal, get_args

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

AGENT_TYPES: tuple[str, ...] = get_args(AgentType)


@dataclass(frozen=True)
class ArcherSettings(Settings):
    """The algorithmic keys under their published names and defaults, then ours."""

    DASHES: ClassVar = ""

    policy_lm: str = flag("gpt2", "causal language model: folder, or name on the hub.")
    critic_lm: str = flag("roberta-base", "encoder of the critics: folder, or name on the hub.")
    cache_dir: str | None = flag(None, "where downloads are kept; None for the usual place.")
    checkpoint_path: str | None = flag(
        None,
        "weights of the policy to begin with (`.pt` with `model_state_dict`, `.safetensors`, or a checkpoint of a run); None for those of `policy_lm`.",
    )
    agent_type: AgentType = flag("archer", "which learner.")
    use_baseline: bool = flag(
        False, "subtract a value of each token, learnt by a head on the policy, from the advantage."
    )
    normalize_advantages: bool = flag(
        False,
        "give the advantages of a policy step mean 0 and deviation 1 over its rows. What the critic has not learnt yet is mostly an error common to all, which then drops out.",
    )
    double_critic: bool = flag(
        True,
        "learn two critics and count the lower value, as published; False: one (an ablation of the paper).",
    )
    clip_range: float = flag(
        0.2, "how far the probability of a token may move from the one it was sampled with (PPO).", above=0
    )
    use_lora: bool = flag(False, "train an adapter on the policy instead of its weights.")
    max_new_tokens: int = flag(
        32, "tokens of an utterance at most, the one that ends it included.", at_least=1
    )
    batch_size: int = flag(8, "rows over which a loss is a mean (B).", at_least=1)
    grad_accum_steps: int = flag(
        32, "such means that are added up for an optimizer step (G); a step sees G x B rows.", at_least=1
    )
    epochs: int = flag(50, "critic steps of an update.", at_least=0)
    actor_epochs: int = flag(3, "policy steps of an update.", at_least=0)
    do_sample: bool = flag(True, "sample; False takes the likeliest token.")
    temperature: float = flag(1.0, "of sampling.", above=0)
    critic_lr: float = flag(1e-5, "learning rate of the critics (Adam).", at_least=0)
    lm_lr: float = flag(1e-5, "learning rate of the policy (Adam).", at_least=0)
    gamma: float = flag(0.95, "discount.", at_least=0, at_most=1)
    tau: float = flag(
        0.1, "how far the target critic moves to the critic after each step.", at_least=0, at_most=1
    )
    max_grad_norm: float = flag(1.0, "gradients are clipped to this norm.", above=0)
    eos_str: str | None = flag(
        "\n", "what ends an utterance and is no part of it; None: only the end token does."
    )
    compat: Compat = flag("fixed", "fixed or published arithmetic.")
    top_k: int = flag(
        0, "sample among so many tokens only; 0: among all. The score of a token obeys it, too.", at_least=0
    )
    template: str | None = flag(
        None, "text around the observation, which stands at `{obs}`, for the policy only; None for none."
    )
    max_context: int = flag(
        512,
        "tokens of an observation that policy and critic read at most; the oldest are dropped.",
        at_least=1,
    )
    candidates: int = flag(5, "utterances among which CHAI chooses.", at_least=1)
    lora_rank: int = flag(16, "rank of the adapter.", at_least=1)
    lora_alpha: int = flag(32, "its scale.")
    lora_dropout: float = flag(0.05, "kept in the adapter's configuration. No dropout is active here.")
    target_modules: str = flag(
        "auto",
        "names of the modules that get adapters, by commas; 'auto': q, k, v and o projections where the model has them, else all linear modules.",
    )
    gradient_checkpointing: bool = flag(False, "keep no activations of a policy layer but its input.")
    max_tokens_per_batch: int = flag(
        4096,
        "tokens computed together with gradients at most, those that sequences share once, padding included where nothing is shared; four times as many without. Changes speed and memory, not results.",
        at_least=1,
    )
    shard_with: ShardWith | None = flag(
        None,
        "'fsdp2' divides the policy's weights, gradients and optimizer states over the processes; None: each process has all of them. Decides about memory, not results.",
    )
    dtype: DTypeName = flag(
        "auto",
        "'bfloat16' computes in it, with float32 weights where they are trained; 'auto': bfloat16 on a GPU that has it, else float32.",
    )
    device: str = flag("auto", "'auto' (a GPU if there is one), 'cpu', 'cuda', 'cuda:1', ...")
    save_path: str | None = flag(
        None, "folder where a batch with a non-finite loss is kept; None keeps none."
    )
    seed: int = flag(0, "of all draws.")

    def check_together(self) -> None:
        """What no single setting can say."""
        if self.shard_with and self.compat == "published":
            raise UsageError(
                "compat=published computes in one process only, and shard_with=fsdp2 needs several. Leave "
                "shard_with out, or take compat=fixed."
            )
        if self.agent_type in ON_POLICY and self.compat == "published":
            raise UsageError(
                f"agent_type={self.agent_type} is not part of the published code, which compat=published computes. "
                "Leave compat out."
            )
        if self.agent_type in ON_POLICY and self.shard_with:
            raise UsageError(f"shard_with divides no policy of agent_type={self.agent_type}: leave it out.")
        if self.compat == "published":
            self._check_published()
        if self.template is not None and "{obs}" not in self.template:
            raise UsageError("template must contain {obs}, the place of the observation.")
        if self.eos_str is None and self.agent_type == "chai" and self.compat == "published":
            raise UsageError(
                "agent_type=chai with compat=published ends every utterance with eos_str, so it must not be "
                "null. Leave it out, or take compat=fixed."
            )
        if self.eos_str == "":
            raise UsageError("eos_str must not be empty; null lets only the end token end an utterance.")

    def _check_published(self) -> None:
        if not self.double_critic:
            raise UsageError(
                "compat=published has two critics: leave double_critic out, or take compat=fixed."
            )
        if self.normalize_advantages:
            raise UsageError(
                "compat=published takes advantages as they are: leave normalize_advantages out, or take compat=fixed."
            )
        if self.top_k not in {0, PUBLISHED_TOP_K}:
            raise UsageError(
                f"compat=published samples from the {PUBLISHED_TOP_K} likeliest tokens, got top_k={self.top_k}. "
                "Leave it out, or take compat=fixed."
            )

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


# Every key that is a setting here; the loop has more of its own.
SETTING_NAMES = tuple(field.name for field in fields(ArcherSettings))
