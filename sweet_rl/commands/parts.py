"""Builds the agent that the flags ask for; and what does a stage's pieces elsewhere."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from sweet_rl import tracking
from sweet_rl.chat import load_tokenizer, tokenizer_digest
from sweet_rl.cli.servers import asked_with, client_of, retry_of, vllm_server
from sweet_rl.commands.agent_flags import (
    ENGINES,
    OWN,
    RECAP,
    REFLECTION_REQUEST,
    REFLECTION_SYSTEM,
    WHAT_A_MODEL_IS,
    Player,
    ReflectionFlags,
    is_no_model,
)
from sweet_rl.contracts import Policy
from sweet_rl.errors import UsageError, missing_package, no_such
from sweet_rl.flags import flags_of
from sweet_rl.flags.shared import FanOut
from sweet_rl.policies import POLICIES
from sweet_rl.policies.reflective import ReflectivePolicy
from sweet_rl.policies.scripted import ScriptedPolicy
from sweet_rl.preferences.ranking import end_token_of
from sweet_rl.prompts import load_prompt
from sweet_rl.types import Task
from sweet_rl.worlds import AgentRequest, ScriptedFlags


def cluster_of(flags: FanOut) -> Any:
    """What does the stage's pieces over a cluster, where --fan_out asks for it (`sweet_rl.integrations.ray`); None for this process."""
    return None if flags.fan_out == "local" else importlib.import_module("sweet_rl.integrations.ray")


async def make_policy(player: Player, tasks: Sequence[Task], *, concurrency: int) -> Policy:
    """The agent, with the reflection model and the critic that it is to have."""
    acting = await _alone(player, tasks, concurrency)
    if player.critic.critic is not None:
        try:
            acting = _with_critic(acting, player, player.critic.critic, tasks)
        except BaseException:
            await acting.close()
            raise
    if player.reflection.reflection_model is None:
        return acting
    from sweet_rl.policies.reflective import Recap

    try:
        wanted = model_that_reflects(player)
        with tracking.role("reflection"):
            reflector = Recap() if wanted is None else await _alone(wanted, tasks, concurrency)
    except BaseException:
        await acting.close()
        raise
    return reflecting(acting, reflector, player)


async def _alone(player: Player, tasks: Sequence[Task], concurrency: int) -> Policy:
    """One model or scripted agent; a model sees the last text alone where that says the whole state."""
    policy = await _policy(player, tasks, concurrency)
    world = player.world
    if world is None or world.action_head is None or player.engine() in {OWN, "scripted"}:
        return policy
    from sweet_rl.policies.scripted import MarkovPolicy

    return MarkovPolicy(policy)


def _with_critic(acting: Policy, player: Player, model: str, tasks: Sequence[Task]) -> Policy:
    """The agent that takes the turns which the critic likes."""
    if not hasattr(acting, "sample"):
        raise UsageError(
            f"--agent_model {player.model!r} has one reply only; a --critic has nothing to choose from. Name a model."
        )
    from sweet_rl.preferences.best_of_n import BestOfN, SamplingPolicy
    from sweet_rl.preferences.ranking import encoding_of

    try:
        from sweet_rl.training.scoring import CandidateScorer
    except ImportError as error:
        raise missing_package("torch", "transformers", needed_for="a critic") from error
    flags, critic = player.flags, player.critic
    solutions = (
        {task.task_id: task.ground_truth for task in tasks} if critic.critic_sees == "solution" else None
    )
    return BestOfN(
        cast(SamplingPolicy, acting),
        CandidateScorer(model, device=flags.device, dtype=flags.dtype),
        encoding_of(model, needs_header=False),
        tokenizer=tokenizer_facts(player).digest,
        n=critic.agent_best_of_n,
        solutions=solutions,
        seed=player.seed,
    )


async def _policy(player: Player, tasks: Sequence[Task], concurrency: int) -> Policy:
    flags, engine = player.flags, player.engine()
    system_prompt = player.system_prompt()
    if engine == "scripted":
        return await scripted_agent(player, tasks, system_prompt)
    if engine == OWN:
        flag = "agent_model" if flags.agent == "auto" else "agent"
        wanted = _request(player, tasks, system_prompt)
        policy: Policy = POLICIES.make(getattr(flags, flag), wanted, flag=flag)
        if getattr(policy, "system_prompt", "") is None:
            policy.system_prompt = system_prompt  # type: ignore[attr-defined]
        return policy
    from sweet_rl.chat import TokenizerChat

    chat = TokenizerChat.from_pretrained(flags.tokenizer) if flags.tokenizer else None
    if engine == "transformers":
        from sweet_rl.policies.transformers import TransformersPolicy

        return TransformersPolicy(
            player.model,
            system_prompt=system_prompt,
            chat_format=chat,
            temperature=flags.temperature,
            max_new_tokens=flags.max_tokens,
            max_batch=flags.max_batch,
            max_dialogues=2 * concurrency,
            cache_gib=flags.cache_gib,
            device=flags.device,
            dtype=flags.dtype,
            seed=player.seed,
        )
    if engine == "vllm":
        from sweet_rl.policies.vllm import VLLMPolicy

        return await VLLMPolicy.start(
            vllm_server(player.model, flags),
            system_prompt=system_prompt,
            chat_format=chat,
            temperature=flags.temperature,
            max_tokens=flags.max_tokens,
            seed=player.seed,
            retry=retry_of(flags),
            max_connections=concurrency,
        )
    if engine != "openai":
        raise no_such("--agent", engine, ENGINES)
    if flags.agent_base_url is None:
        raise UsageError("--agent openai needs --agent_base_url, for example http://127.0.0.1:8001/v1.")
    from sweet_rl.openai_client import base_url_from
    from sweet_rl.policies.openai import OpenAIPolicy

    return OpenAIPolicy(
        client_of(
            base_url_from("", 0, flags.agent_base_url),
            flags,
            key_var=flags.agent_api_key_var,
            named_by=_named_by(player),
            max_connections=concurrency,
            **asked_with(flags, "agent"),
        ),
        player.model,
        system_prompt=system_prompt,
        chat_format=chat,
        api=flags.agent_api,
        temperature=flags.temperature,
        max_tokens=flags.max_tokens,
        seed=player.seed,
    )


def _named_by(player: Player) -> str:
    """Which flags name the server, its model, and the way in which it is asked."""
    role, here = player.role, player.flags.agent_api
    other, routes = ("completions", ("/chat/completions", "/completions"))
    if here == "completions":
        other, routes = "chat", ("/completions", "/chat/completions")
    return (
        f"--{role}_base_url names the server, --{role}_model its model. It was asked at {routes[0]}; for a server "
        f"that has {routes[1]} alone (404): --{role}_api {other}."
    )


async def scripted_agent(player: Player, tasks: Sequence[Task], system_prompt: str) -> Policy:
    """The scripted agent that the flags name; they were checked."""
    if player.world is None:
        raise UsageError(f"--agent_model {player.model!r} is scripted: it plays a world, and this is none.")
    policy = await player.world.make_agent(_request(player, tasks, system_prompt))
    if player.flags.tokenizer and isinstance(policy, ScriptedPolicy):
        from sweet_rl.chat import TokenizerChat

        policy.chat_format = TokenizerChat.from_pretrained(player.flags.tokenizer)
    return policy


def _request(player: Player, tasks: Sequence[Task], system_prompt: str) -> AgentRequest:
    return AgentRequest(
        name=player.model,
        tasks=tasks,
        system_prompt=system_prompt,
        options=player.options,
        seed=player.seed,
        **{one.name: getattr(player.scripted, one.name) for one in flags_of(ScriptedFlags)},
    )


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


class TokenizerFacts(NamedTuple):
    """What later stages must know of the sampler's tokenizer: its digest, and the text of its end token."""

    digest: str | None = None
    end_token: str | None = None


def tokenizer_facts(agent: Player) -> TokenizerFacts:
    """Of the tokenizer that the flags name; nothing for a server whose tokenizer is not at hand."""
    name = agent.flags.tokenizer or (None if agent.engine() == "openai" else agent.model)
    if name is None:
        return TokenizerFacts()
    tokenizer = load_tokenizer(name)
    return TokenizerFacts(tokenizer_digest(tokenizer), end_token_of(tokenizer))
