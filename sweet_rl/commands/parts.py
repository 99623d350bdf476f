"""The agent that the flags ask for, put together from the rooms below."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from sweet_rl.chat.reflect_format import ACTION_HEADS
from sweet_rl.commands.reflecting import APIS, ReflectionFlags, make_reflective
from sweet_rl.commands.servers import client_of, retry_of, vllm_server
from sweet_rl.contracts import Policy
from sweet_rl.errors import UsageError
from sweet_rl.prompts import load_prompt
from sweet_rl.types import Json, Observation, Task, derive_seed

SCRIPTED_AGENTS = {
    "code": ("oracle", "constant", "questioner", "expert"),
    "html": ("improver", "generic", "blank", "target"),
    "twenty_questions": ("asker",),
    "guess_my_city": ("asker",),
    "detective": ("walkthrough", "random"),
    "lantern": ("walkthrough", "random"),
    "webshop": ("careful", "buyer", "random"),
    "dangerous_taxi": ("planner", "careless", "random"),
    "auto_explore": ("planner", "wanderer"),
    "alfworld": ("planner", "careless", "random"),
}
DEFAULT_AGENTS = {task_type: names[0] for task_type, names in SCRIPTED_AGENTS.items()} | {
    "code": "questioner"
}
ENGINES = ("auto", "scripted", "transformers", "vllm", "openai")
AGENT_PROMPTS = {
    "code": "llm_agent_code_prompt.txt",
    "html": "llm_agent_html_prompt.txt",
    "twenty_questions": "llm_agent_twenty_questions_prompt.txt",
    "guess_my_city": "llm_agent_city_prompt.txt",
    "detective": "llm_agent_adventure_prompt.txt",
    "lantern": "llm_agent_adventure_prompt.txt",
    "webshop": "llm_agent_webshop_prompt.txt",
    "dangerous_taxi": "llm_agent_taxi_prompt.txt",
    "auto_explore": "llm_agent_explore_prompt.txt",
    "alfworld": "llm_agent_household_prompt.txt",
}


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
    task_type: str = "code"
    skill: float | None = None
    game_place: str | None = None
    reflection: ReflectionFlags | None = None

    def system_prompt(self) -> str:
        """What the agent is told before everything else."""
        return load_prompt(self.prompt_path or AGENT_PROMPTS[self.task_type])

    def settings(self) -> dict[str, Json]:
        """What decides about the content of an episode."""
        settings: dict[str, Json] = {
            "agent_model": self.model,
            "agent_prompt": prompt_digest(self.system_prompt()),
        }
        if self.reflection is not None:
            settings |= self.reflection.settings()
        if self.resolved_engine() != "scripted":
            return settings | {"temperature": self.temperature, "max_tokens": self.max_tokens}
        if self.model == "questioner":
            settings["num_questions"] = self.num_questions
        if self.model == "asker":
            settings["skill"] = 1.0 if self.skill is None else self.skill
        if self.model == "careless":
            settings["skill"] = self.skill
        return settings

    def resolved_engine(self) -> str:
        """The engine that `auto` stands for.

        Raises:
            UsageError: engine and model do not go together.
        """
        if self.api not in APIS:
            raise UsageError(f"--agent_api must be {' or '.join(APIS)}, got {self.api!r}.")
        if self.engine not in ENGINES:
            raise UsageError(f"--agent must be one of {', '.join(ENGINES)}, got {self.engine!r}.")
        scripted = SCRIPTED_AGENTS[self.task_type]
        if self.engine == "scripted" and self.model not in scripted:
            raise UsageError(
                f"--agent scripted has {', '.join(scripted)} for --task_type {self.task_type}; "
                f"there is no {self.model!r} among them."
            )
        if self.engine != "auto":
            return self.engine
        if self.model in scripted:
            return "scripted"
        if self.base_url is not None:
            return "openai"
        return "vllm" if self.vllm_python is not None else "transformers"


async def make_policy(flags: AgentFlags, tasks: Sequence[Task], *, concurrency: int) -> Policy:
    """The agent, with the reflection model that it is to have.

    Raises:
        UsageError: flags that do not go together, a missing package, a model that cannot be loaded.
        ServiceError: no server answers.
    """
    acting = await _acting(flags, tasks, concurrency)
    if flags.task_type in ACTION_HEADS and flags.resolved_engine() != "scripted":
        from sweet_rl.policies.markov import MarkovPolicy

        acting = MarkovPolicy(acting)
    return await make_reflective(acting, flags, tasks, concurrency=concurrency)


async def _acting(flags: AgentFlags, tasks: Sequence[Task], concurrency: int) -> Policy:
    engine = flags.resolved_engine()
    system_prompt = flags.system_prompt()
    if engine == "scripted":
        if flags.task_type == "html":
            return _designer(flags, tasks, system_prompt)
        if flags.task_type != "code":
            from sweet_rl.commands.players import scripted_player

            return await scripted_player(flags, tasks, system_prompt)
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


def _designer(flags: AgentFlags, tasks: Sequence[Task], system_prompt: str) -> Policy:
    from sweet_rl.policies import designers

    if flags.model == "blank":
        return designers.BlankDesigner(system_prompt)
    if flags.model == "generic":
        return designers.GenericDesigner(system_prompt)
    if flags.model == "target":
        pages = {task.task_id: task.hidden_information for task in tasks}
        return designers.TargetDesigner(pages, system_prompt=system_prompt)
    return designers.ImproverDesigner(max_steps=flags.max_steps, system_prompt=system_prompt)


def _expert(flags: AgentFlags) -> Callable[[Observation], str]:
    from sweet_rl.tasks.mini import expert

    def say(observation: Observation) -> str:
        rng = Random(derive_seed(flags.seed, observation.seed, observation.turn))
        return expert.say(observation.messages, rng, max_steps=flags.max_steps)

    return say


def prompt_digest(text: str) -> str:
    """By which two prompts are told apart."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]
