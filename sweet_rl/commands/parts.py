"""The agent that the flags ask for, put together from the rooms below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sweet_rl import tracking
from sweet_rl.command_line.servers import client_of, retry_of, vllm_server
from sweet_rl.commands.agent_flags import ENGINES, OWN, AgentFlags
from sweet_rl.contracts import Policy
from sweet_rl.errors import UsageError, no_such
from sweet_rl.policies import POLICIES
from sweet_rl.policies.scripted import ScriptedPolicy
from sweet_rl.types import Task
from sweet_rl.worlds import AgentRequest, world_of


async def make_policy(flags: AgentFlags, tasks: Sequence[Task], *, concurrency: int) -> Policy:
    """The agent, with the reflection model that it is to have.

    Raises:
        UsageError: flags that do not go together, a missing package, a model that cannot be loaded.
        ServiceError: no server answers.
    """
    acting = await _alone(flags, tasks, concurrency)
    if flags.reflection is None:
        return acting
    from sweet_rl.commands.reflecting import model_that_reflects, reflecting
    from sweet_rl.policies.reflective import Recap

    try:
        wanted = model_that_reflects(flags)
        with tracking.role("reflection"):
            reflector = Recap() if wanted is None else await _alone(wanted, tasks, concurrency)
    except BaseException:
        await acting.close()
        raise
    return reflecting(acting, reflector, flags)


async def _alone(flags: AgentFlags, tasks: Sequence[Task], concurrency: int) -> Policy:
    """One model or scripted agent; a model sees the last text alone where that says the whole state."""
    policy = await _policy(flags, tasks, concurrency)
    if world_of(flags.task_type).action_head is None or flags.resolved_engine() in {OWN, "scripted"}:
        return policy
    from sweet_rl.policies.markov import MarkovPolicy

    return MarkovPolicy(policy)


async def _policy(flags: AgentFlags, tasks: Sequence[Task], concurrency: int) -> Policy:
    engine = flags.resolved_engine()
    system_prompt = flags.system_prompt()
    if engine == "scripted":
        return await scripted_agent(flags, tasks, system_prompt)
    if engine == OWN:
        name = flags.model if flags.engine == "auto" else flags.engine
        flag = "agent_model" if flags.engine == "auto" else "agent"
        return POLICIES.make(name, _request(flags, tasks, system_prompt), flag=flag)  # type: ignore[no-any-return]
    from sweet_rl.chat import TokenizerChat

    chat = TokenizerChat.from_pretrained(flags.tokenizer) if flags.tokenizer else None
    if engine == "transformers":
        from sweet_rl.policies.transformers import TransformersPolicy

        return TransformersPolicy(
            flags.model,
            system_prompt=system_prompt,
            chat_format=chat,
            temperature=flags.temperature,
            max_new_tokens=flags.max_tokens,
            max_batch=flags.max_batch,
            device=flags.device,
            dtype=flags.dtype,
            seed=flags.seed,
        )
    if engine == "vllm":
        from sweet_rl.policies.vllm import VLLMPolicy

        return await VLLMPolicy.start(
            vllm_server(flags.model, flags),
            system_prompt=system_prompt,
            chat_format=chat,
            temperature=flags.temperature,
            max_tokens=flags.max_tokens,
            seed=flags.seed,
            retry=retry_of(flags),
            max_connections=concurrency,
        )
    if engine != "openai":
        raise no_such("--agent", engine, ENGINES)
    if flags.base_url is None:
        raise UsageError("--agent openai needs --agent_base_url, for example http://127.0.0.1:8001/v1.")
    from sweet_rl.openai_client import base_url_from
    from sweet_rl.policies.openai import OpenAIPolicy

    return OpenAIPolicy(
        client_of(
            base_url_from("", 0, flags.base_url),
            flags,
            named_by=f"--{flags.role}_base_url names the server, --{flags.role}_model its model.",
            max_connections=concurrency,
        ),
        flags.model,
        system_prompt=system_prompt,
        chat_format=chat,
        api="chat" if flags.api == "chat" else "completions",
        temperature=flags.temperature,
        max_tokens=flags.max_tokens,
        seed=flags.seed,
    )


async def scripted_agent(flags: AgentFlags, tasks: Sequence[Task], system_prompt: str) -> Policy:
    """The scripted agent that the flags name; they were checked.

    Raises:
        UsageError: the world has no such agent; a file or package is missing.
    """
    policy = await world_of(flags.task_type).make_agent(_request(flags, tasks, system_prompt))
    if flags.tokenizer and isinstance(policy, ScriptedPolicy):
        from sweet_rl.chat import TokenizerChat

        policy.chat_format = TokenizerChat.from_pretrained(flags.tokenizer)
    return policy


def _request(flags: AgentFlags, tasks: Sequence[Task], system_prompt: str) -> AgentRequest:
    return AgentRequest(
        name=flags.model,
        tasks=tasks,
        system_prompt=system_prompt,
        options=replace(flags.options, max_turns=flags.max_steps),
        skill=flags.skill,
        seed=flags.seed,
        num_questions=flags.num_questions,
        unsafe_no_sandbox=flags.unsafe_no_sandbox,
    )
