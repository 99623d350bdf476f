"""The reflection model that the flags ask for, beside an agent of any kind."""

from __future__ import annotations

from dataclasses import replace

from sweet_rl.commands.agent_flags import (
    RECAP,
    REFLECTION_REQUEST,
    REFLECTION_SYSTEM,
    WHAT_A_MODEL_IS,
    AgentFlags,
    is_no_model,
)
from sweet_rl.contracts import Policy
from sweet_rl.errors import UsageError, no_such
from sweet_rl.policies.reflective import ReflectivePolicy
from sweet_rl.prompts import load_prompt
from sweet_rl.worlds import world_of


def model_that_reflects(flags: AgentFlags) -> AgentFlags | None:
    """The agent's flags but for the reflection model's own name, server, prompt and length.

    None where no model is wanted: for `recap`, or for an agent that does not reflect.

    Raises:
        UsageError: an agent is named in place of a model.
    """
    wanted = flags.reflection
    if wanted is None or wanted.model == RECAP:
        return None
    if wanted.model in world_of(flags.task_type).agents:
        raise UsageError(
            f"--reflection_model {wanted.model} is an agent, and acts. Name a model, or {RECAP!r}."
        )
    if wanted.base_url is None and flags.vllm_python is None and is_no_model(wanted.model):
        raise no_such(
            "--reflection_model", wanted.model, (RECAP,), f"{WHAT_A_MODEL_IS} --reflection_base_url."
        )
    return replace(
        flags,
        engine="auto",
        model=wanted.model,
        base_url=wanted.base_url,
        api=wanted.api or flags.api,
        api_key_var=wanted.api_key_var or flags.api_key_var,
        tokenizer=None,
        prompt_path=wanted.prompt_path or REFLECTION_SYSTEM,
        max_tokens=wanted.max_tokens,
        reflection=None,
        role="reflection",
    )


def reflecting(policy: Policy, reflector: Policy, flags: AgentFlags) -> Policy:
    """The agent, which reads what the reflection model says before it acts."""
    return ReflectivePolicy(
        policy,
        reflector,
        head=world_of(flags.task_type).action_head,
        request=load_prompt(REFLECTION_REQUEST).strip(),
        reflect_prob=1.0 if flags.reflection is None else flags.reflection.share,
        seed=flags.seed,
    )
