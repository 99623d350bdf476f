"""The agent that the flags ask for, put together from the rooms below."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from sweet_rl import tracking
from sweet_rl.chat.reflect_format import ACTION_HEADS
from sweet_rl.commands.agent_flags import ENGINES, SCRIPTED_AGENTS, AgentFlags
from sweet_rl.commands.servers import client_of, retry_of, vllm_server
from sweet_rl.contracts import Policy
from sweet_rl.errors import UsageError, no_such
from sweet_rl.types import Observation, Task, derive_seed


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
    if flags.task_type not in ACTION_HEADS or flags.resolved_engine() == "scripted":
        return policy
    from sweet_rl.policies.markov import MarkovPolicy

    return MarkovPolicy(policy)


async def _policy(flags: AgentFlags, tasks: Sequence[Task], concurrency: int) -> Policy:
    engine = flags.resolved_engine()
    system_prompt = flags.system_prompt()
    if engine == "scripted":
        if flags.task_type == "html":
            return _designer(flags, tasks, system_prompt)
        if flags.task_type == "code":
            return _scripted_policy(flags, tasks, system_prompt)
        from sweet_rl.commands.players import scripted_player

        return await scripted_player(flags, tasks, system_prompt)
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


def _scripted_policy(flags: AgentFlags, tasks: Sequence[Task], system_prompt: str) -> Policy:
    from sweet_rl.policies import scripted

    if flags.model == "questioner":
        if not 0 <= flags.num_questions < flags.max_steps:
            raise UsageError(
                f"--num_questions must be from 0 to max_steps - 1 = {flags.max_steps - 1}, "
                f"got {flags.num_questions}."
            )
        return scripted.QuestionerPolicy(system_prompt=system_prompt, num_questions=flags.num_questions)
    if flags.model == "expert":
        return scripted.TeacherPolicy(_expert(flags), system_prompt=system_prompt)
    if flags.model == "oracle":
        answers = {task.task_id: task.ground_truth for task in tasks}
        return scripted.OraclePolicy(answers, system_prompt=system_prompt)
    if flags.model != "constant":
        raise no_such("scripted agent of code", flags.model, SCRIPTED_AGENTS["code"])
    from sweet_rl.grading.code import constant_answer, reference_outputs
    from sweet_rl.grading.sandbox import Sandbox

    with Sandbox(unsafe_no_sandbox=flags.unsafe_no_sandbox) as sandbox:
        outputs = reference_outputs(tasks, sandbox)
    answers = {task.task_id: constant_answer(task, outputs[task.task_id]) for task in tasks}
    return scripted.ConstantPolicy(answers, system_prompt=system_prompt)


def _designer(flags: AgentFlags, tasks: Sequence[Task], system_prompt: str) -> Policy:
    from sweet_rl.policies import designers

    if flags.model == "blank":
        return designers.BlankDesigner(system_prompt)
    if flags.model == "generic":
        return designers.GenericDesigner(system_prompt)
    if flags.model == "target":
        pages = {task.task_id: task.hidden_information for task in tasks}
        return designers.TargetDesigner(pages, system_prompt=system_prompt)
    if flags.model == "improver":
        return designers.ImproverDesigner(max_steps=flags.max_steps, system_prompt=system_prompt)
    raise no_such("scripted agent of html", flags.model, SCRIPTED_AGENTS["html"])


def _expert(flags: AgentFlags) -> Callable[[Observation], str]:
    from sweet_rl.tasks.mini import expert

    def say(observation: Observation) -> str:
        rng = Random(derive_seed(flags.seed, observation.seed, observation.turn))
        return expert.say(observation.messages, rng, max_steps=flags.max_steps)

    return say
