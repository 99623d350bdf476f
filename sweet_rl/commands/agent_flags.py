"""Who acts and who reflects, as the flags say it: names, prompts, engines, what decides about an episode."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from sweet_rl.chat.names import EMBEDDED
from sweet_rl.command_line.servers import key_in
from sweet_rl.errors import UsageError, no_such
from sweet_rl.policies import POLICIES
from sweet_rl.prompts import load_prompt, prompt_digest
from sweet_rl.types import Json
from sweet_rl.worlds import Options, names, world_of

ENGINES = ("auto", "scripted", "transformers", "vllm", "openai")
APIS = ("completions", "chat")
"""How a server is spoken to: by prompts, or by messages."""

OWN = "own"
"""What runs an agent of `POLICIES`: it does so itself."""

RECAP = "recap"
"""The reflection model that is none: it says again what was said last."""

REFLECTION_SYSTEM = "reflect/reflection_system"
REFLECTION_REQUEST = "reflect/reflection_request"


WHAT_A_MODEL_IS = "A model is a folder, or a hub name with its owner (as in owner/name); for another name add"


def is_no_model(name: str) -> bool:
    """A single word that is no folder: hardly a model, rather a name of ours that there is not."""
    return name != EMBEDDED and "/" not in name and not Path(name).exists()


@dataclass(frozen=True, slots=True)
class ReflectionFlags:
    """Who reflects, and where; see the flags of `simulate_interactions`. None is what the agent has."""

    model: str
    base_url: str | None = None
    api: str | None = None
    api_key_var: str | None = None
    prompt_path: str | None = None
    max_tokens: int = 100
    share: float = 1.0

    def check(self) -> None:
        """Find what is wrong before anything is begun.

        Raises:
            UsageError: a flag has a value that it cannot have.
        """
        if not 0 <= self.share <= 1:
            raise UsageError(f"--reflect_prob must be from 0 to 1, got {self.share}.")
        if self.api not in {None, *APIS}:
            raise UsageError(f"--reflection_api must be {' or '.join(APIS)}, got {self.api!r}.")
        if self.max_tokens < 1:
            raise UsageError(f"--reflection_tokens must be at least 1, got {self.max_tokens}.")

    def settings(self) -> dict[str, Json]:
        """What decides about the content of an episode."""
        prompt = load_prompt(self.prompt_path or REFLECTION_SYSTEM)
        return {
            "reflection_model": self.model,
            "reflection_prompt": prompt_digest(f"{prompt}\n{load_prompt(REFLECTION_REQUEST)}"),
            "reflection_tokens": self.max_tokens,
            "reflect_prob": self.share,
        }


@dataclass(frozen=True, slots=True)
class AgentFlags:
    """Who acts, and what runs it; see the flags of `simulate_interactions`."""

    engine: str
    model: str
    base_url: str | None
    api: str
    api_key_var: str | None
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
    request_patience_s: float = 300.0
    task_type: str = "code"
    skill: float | None = None
    options: Options = field(default_factory=Options)
    reflection: ReflectionFlags | None = None
    role: str = "agent"  # what its flags begin with: "reflection" for the model that reflects

    def check_keys(self) -> None:
        """Find a missing key before anything is begun.

        Raises:
            UsageError: a variable that is named is not set.
        """
        key_in(self.api_key_var)
        if self.reflection is not None:
            key_in(self.reflection.api_key_var)

    def system_prompt(self) -> str:
        """The agent's instructions, before everything else.

        Raises:
            UsageError: there is no such file, or no such world.
        """
        return load_prompt(self.prompt_path) if self.prompt_path else world_of(self.task_type).system_prompt()

    def settings(self) -> dict[str, Json]:
        """What decides about the content of an episode."""
        settings: dict[str, Json] = {
            "agent_model": self.model,
            "agent_prompt": prompt_digest(self.system_prompt()),
        }
        if self.reflection is not None:
            settings |= self.reflection.settings()
        engine = self.resolved_engine()
        if engine == OWN:
            return settings | ({"agent": self.engine} if self.engine != "auto" else {})
        if engine != "scripted":
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
            UsageError: engine and model do not go together, or a name that may be a typing error.
        """
        if self.api not in APIS:
            raise UsageError(f"--agent_api must be {' or '.join(APIS)}, got {self.api!r}.")
        return engine_of(
            self.engine,
            self.model,
            task_type=self.task_type,
            base_url=self.base_url,
            vllm_python=self.vllm_python,
        )


def engine_of(
    engine: str, model: str, *, task_type: str, base_url: str | None, vllm_python: str | None
) -> str:
    """What runs a model or scripted agent: the engine that is named, or the one that `auto` stands for.

    Raises:
        UsageError: engine and model do not go together, or a name that may be a typing error.
    """
    if engine not in ENGINES and not POLICIES.knows(engine):
        raise no_such("--agent", engine, (*ENGINES, *POLICIES.names()))
    scripted = world_of(task_type).agents
    if engine == "scripted" and model not in scripted:
        raise no_such(f"scripted agent for --task_type {task_type}", model, scripted)
    if engine != "auto":
        return engine if engine in ENGINES else OWN
    if model in scripted:
        return "scripted"
    if base_url is not None:
        return "openai"
    if vllm_python is not None:
        return "vllm"
    own = POLICIES.knows(model)
    if is_no_model(model) and not own:
        worlds = [world for world in names() if model in world_of(world).agents]
        elsewhere = f"{model} plays {', '.join(worlds)}. " if worlds else ""
        raise no_such(
            f"agent for --task_type {task_type}",
            model,
            (*scripted, *POLICIES.names()),
            f"{elsewhere}{WHAT_A_MODEL_IS} --agent transformers, vllm or openai.",
        )
    return OWN if own else "transformers"
