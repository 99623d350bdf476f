"""The reflection model that the flags ask for, beside an agent of any kind."""

from __future__ import annotations

from dataclasses import replace

from sweet_rl.commands.agent_flags import (
    RECAP,
    REFLECTION_REQUEST,
    REFLECTION_SYSTEM,
    WHAT_A_MODEL_IS,
    Player,
    ReflectionFlags,
    is_no_model,
)
from sweet_rl.contracts import Policy
from sweet_rl.errors import UsageError, no_such
from sweet_rl.policies.reflective import ReflectivePolicy
from sweet_rl.prompts import load_prompt


def model_that_reflects(player: Player) -> Player | None:
    """The agent's flags but for the reflection model's own name, server, prompt and length.

    None where no model is wanted: for `recap`, or for an agent that does not reflect.
    """
    wanted, flags = player.reflection, player.flags
    model = wanted.reflection_model
    if model is None or model == RECAP:
        return None
    if player.world is not None and model in player.world.agents:
        raise UsageError(f"--reflection_model {model} is an agent, and acts. Name a model, or {RECAP!r}.")
    if wanted.reflection_base_url is None and flags.vllm_python is None and is_no_model(model):
        raise no_such("--reflection_model", model, (RECAP,), f"{WHAT_A_MODEL_IS} --reflection_base_url.")
    alone = player.changed(
        agent="auto",
        agent_model=model,
        agent_base_url=wanted.reflection_base_url,
        agent_api=wanted.reflection_api or flags.agent_api,
        agent_api_key_var=wanted.reflection_api_key_var or flags.agent_api_key_var,
        agent_request=None,
        agent_header=None,
        tokenizer=None,
        max_tokens=wanted.reflection_tokens,
    )
    prompt = wanted.reflection_prompt_path or REFLECTION_SYSTEM
    return replace(alone, prompt_path=prompt, reflection=ReflectionFlags(), role="reflection")


def reflecting(policy: Policy, reflector: Policy, player: Player) -> Policy:
    """The agent, which reads what the reflection model says before it acts."""
    return ReflectivePolicy(
        policy,
        reflector,
        head=None if player.world is None else player.world.action_head,
        request=load_prompt(REFLECTION_REQUEST).strip(),
        reflect_prob=player.reflection.reflect_prob,
        seed=player.seed,
    )
