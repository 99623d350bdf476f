"""The agent and the human that the flags ask for, put together from the rooms below."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from sweet_rl.commands.servers import client_of, retry_of, vllm_server
from sweet_rl.contracts import Policy, User
from sweet_rl.errors import UsageError
from sweet_rl.prompts import check_placeholders, load_prompt
from sweet_rl.types import Json, Observation, Task, derive_seed

if TYPE_CHECKING:
    from sweet_rl.openai_client import OpenAIClient

SCRIPTED_AGENTS = ("oracle", "constant", "questioner", "expert")
ENGINES = ("auto", "scripted", "transformers", "vllm", "openai")
AGENT_PROMPT = "llm_agent_code_prompt.txt"
USER_PROMPT = "human_simulator_code_prompt.txt"


@dataclass(frozen=True, slots=True)
class UserFlags:
    """Who plays the human; see the flags of `simulate_interactions`."""

    model: str
    hostname: str | None
    port: int | None
    base_url: str | None
    api_key_var: str
    prompt_path: str | None
    request_timeout_s: float
    request_attempts: int

    @property
    def in_process(self) -> bool:
        """The scripted human, unless a server is named."""
        server_named = any(flag is not None for flag in (self.hostname, self.port, self.base_url))
        return self.model == "scripted" and not server_named

    def settings(self) -> dict[str, Json]:
        """What decides about the content of an episode."""
        prompt = load_prompt(self.prompt_path or USER_PROMPT)
        return {"env_model": self.model, "user_prompt": _digest(prompt)}


@dataclass(frozen=True, slots=True)
class AgentFlags:
    """Who acts, and what runs it; see the flags of `simulate_interactions`."""

    engine: str
    model: str
    base_url: str | None
    api: str
    api_key_var: str
    tokenizer: str | None
    prompt_path: str | None
    temperature: float
    max_tokens: int
    device: str
    dtype: str
    max_batch: int
    tensor_parallel_size: int
    data_parallel_size: int
    vllm_python: str | None
    vllm_args: str
    num_questions: int
    max_steps: int
    seed: int
    request_timeout_s: float
    request_attempts: int
    unsafe_no_sandbox: bool

    def settings(self) -> dict[str, Json]:
        """What decides about the content of an episode."""
        settings: dict[str, Json] = {
            "agent_model": self.model,
            "agent_prompt": _digest(load_prompt(self.prompt_path or AGENT_PROMPT)),
        }
        if self.resolved_engine() != "scripted":
            return settings | {"temperature": self.temperature, "max_tokens": self.max_tokens}
        if self.model == "questioner":
            settings["num_questions"] = self.num_questions
        return settings

    def resolved_engine(self) -> str:
        """The engine that `auto` stands for.

        Raises:
            UsageError: engine and model do not go together.
        """
        if self.api not in {"completions", "chat"}:
            raise UsageError(f"--agent_api must be completions or chat, got {self.api!r}.")
        if self.engine not in ENGINES:
            raise UsageError(f"--agent must be one of {', '.join(ENGINES)}, got {self.engine!r}.")
        if self.engine == "scripted" and self.model not in SCRIPTED_AGENTS:
            raise UsageError(
                f"--agent scripted has {', '.join(SCRIPTED_AGENTS)}; there is no {self.model!r} among them."
            )
        if self.engine != "auto":
            return self.engine
        if self.model in SCRIPTED_AGENTS:
            return "scripted"
        if self.base_url is not None:
            return "openai"
        return "vllm" if self.vllm_python is not None else "transformers"


async def make_user(flags: UserFlags, *, concurrency: int) -> User:
    """The simulated human.

    Raises:
        UsageError: the prompt lacks a placeholder, or nothing is served under that name.
        ServiceError: no server answers.
    """
    if flags.in_process:
        from sweet_rl.users.scripted import ScriptedHuman

        return ScriptedHuman()
    from sweet_rl.openai_client import base_url_from
    from sweet_rl.prompts.simulator import PLACEHOLDERS
    from sweet_rl.users.openai import OpenAIUser

    template = load_prompt(flags.prompt_path or USER_PROMPT)
    check_placeholders(template, PLACEHOLDERS, flags.prompt_path or USER_PROMPT)
    urls = base_url_from(flags.hostname or "127.0.0.1", flags.port or 8000, flags.base_url)
    client = client_of(urls, flags, max_connections=concurrency)
    try:
        model = flags.model if flags.model != "auto" else await _first_model(client, urls)
    except BaseException:
        await client.close()
        raise
    return OpenAIUser(client, model, prompt_template=template)


async def make_policy(flags: AgentFlags, tasks: Sequence[Task], *, concurrency: int) -> Policy:
    """The agent.

    Raises:
        UsageError: flags that do not go together, a missing package, a model that cannot be loaded.
        ServiceError: no server answers.
    """
    engine = flags.resolved_engine()
    system_prompt = load_prompt(flags.prompt_path or AGENT_PROMPT)
    if engine == "scripted":
        return _scripted_policy(flags, tasks, system_prompt)
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
    if flags.base_url is None:
        raise UsageError("--agent openai needs --agent_base_url, for example http://127.0.0.1:8001/v1.")
    from sweet_rl.openai_client import base_url_from
    from sweet_rl.policies.openai import OpenAIPolicy

    return OpenAIPolicy(
        client_of(base_url_from("", 0, flags.base_url), flags, max_connections=concurrency),
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
    from sweet_rl.grading.code import constant_answer, reference_outputs
    from sweet_rl.grading.sandbox import Sandbox

    with Sandbox(unsafe_no_sandbox=flags.unsafe_no_sandbox) as sandbox:
        outputs = reference_outputs(tasks, sandbox)
    answers = {task.task_id: constant_answer(task, outputs[task.task_id]) for task in tasks}
    return scripted.ConstantPolicy(answers, system_prompt=system_prompt)


def _expert(flags: AgentFlags) -> Callable[[Observation], str]:
    from sweet_rl.tasks.mini import expert

    def say(observation: Observation) -> str:
        rng = Random(derive_seed(flags.seed, observation.seed, observation.turn))
        return expert.say(observation.messages, rng, max_steps=flags.max_steps)

    return say


async def _first_model(client: OpenAIClient, urls: Sequence[str]) -> str:
    models = await client.models()
    if not models:
        raise UsageError(f"{urls[0]} offers no model; name one with --env_model.")
    return str(models[0]["id"])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
