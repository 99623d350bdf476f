"""Flags of the agent and the reflection model: names, prompts, engines, limits of an episode."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from sweet_rl.chat.formats import folder_of
from sweet_rl.cli.servers import asked_with, fields_of
from sweet_rl.errors import UsageError, no_such
from sweet_rl.flags import Only, Settings, flag
from sweet_rl.flags.models import (
    A_MODEL,
    IN_PROCESS,
    SERVED,
    VLLM,
    Agent,
    AgentModel,
    Critic,
    Device,
    DType,
    MaxTokens,
    PatientRequests,
    Tokenizer,
)
from sweet_rl.policies import POLICIES
from sweet_rl.prompts import load_prompt, prompt_digest
from sweet_rl.types import Json
from sweet_rl.worlds import Options, ScriptedFlags, World, names, world_of

ENGINES: Final = ("auto", "scripted", "transformers", "vllm", "openai")
OWN: Final = "own"
"""What runs an agent of `POLICIES`: it does so itself."""

RECAP: Final = "recap"
"""The stand-in for a reflection model: it repeats the last message."""

REFLECTION_SYSTEM: Final = "reflect/reflection_system"
REFLECTION_REQUEST: Final = "reflect/reflection_request"
WHAT_A_MODEL_IS: Final = "A model is a folder, a hub name with its owner (as in owner/name), smollm2 or embedded; for another name add"
_AGENT_SERVED: Final = Only("agent", ("openai",))
_REFLECTING: Final = Only("reflection", ("model",), "a --reflection_model model")


@dataclass(frozen=True, kw_only=True)
class ModelFlags(MaxTokens, Tokenizer, Device, DType, VLLM, PatientRequests):
    """The agent."""

    temperature: float = flag(1.0, "sampling temperature; 0 is greedy.", at_least=0, only=A_MODEL)
    agent_base_url: str | None = flag(
        None,
        "base URL(s) of the server that runs the agent.",
        only=_AGENT_SERVED,
    )
    agent_api: Literal["completions", "chat"] = flag(
        "completions",
        "completions (the exact prompt string is sent and recorded) or chat.",
        shown="all",
        only=SERVED,
    )
    agent_api_key_var: str | None = flag(
        None,
        "environment variable that holds that server's key, which must be set; default OPENAI_API_KEY, if that is set.",
        shown="all",
        only=SERVED,
    )
    agent_request: str | None = flag(
        None,
        'fields of every request to that server, as a JSON object; null leaves one out: {"reasoning_effort": "low", "top_p": null}.',
        shown="all",
        only=_AGENT_SERVED,
    )
    agent_header: str | None = flag(
        None,
        "header of every request to that server, such as 'api-key: ${VARIABLE}', whose value is taken from the environment.",
        shown="all",
        only=_AGENT_SERVED,
    )
    max_batch: int = flag(
        64, "prompts in one forward pass at most.", at_least=1, shown="all", only=IN_PROCESS
    )
    cache_gib: float = flag(
        2.0,
        "memory, at most, for dialogues that wait for their next turn, so that a turn reads only what is new; more only where the turns that are computed need it. 0 keeps none.",
        at_least=0,
        shown="all",
        only=IN_PROCESS,
    )

    def check_together(self) -> None:
        """Whether fields and headers can be read."""
        super().check_together()
        asked_with(self, "agent")


@dataclass(frozen=True, kw_only=True)
class AgentFlags(Agent, AgentModel, ModelFlags):
    """The agent."""


@dataclass(frozen=True, kw_only=True)
class ReflectionFlags(Settings):
    """A second model that reflects."""

    reflection_model: str | None = flag(
        None,
        "a model that analyses the state before every turn of the agent, in any world: a folder, a hub name, smollm2, the name under which reflection_base_url offers it, or recap (no model, for trials).",
    )
    reflection_base_url: str | None = flag(
        None, "base URL(s) of the server that runs it.", shown="all", only=_REFLECTING
    )
    reflection_api: Literal["completions", "chat"] | None = flag(
        None,
        "completions or chat, as that server is spoken to; default agent_api.",
        shown="all",
        only=_REFLECTING,
    )
    reflection_api_key_var: str | None = flag(
        None,
        "environment variable that holds that server's key; default agent_api_key_var.",
        shown="all",
        only=_REFLECTING,
    )
    reflection_prompt_path: str | None = flag(
        None, "its system prompt file; default the packaged one.", shown="all", only=_REFLECTING
    )
    reflection_tokens: int = flag(
        100, "tokens of one analysis at most.", at_least=1, shown="all", only=_REFLECTING
    )
    reflect_prob: float = flag(
        1.0,
        "share of turns that it is asked in.",
        at_least=0,
        at_most=1,
        shown="all",
        only=Only("reflection", ("model", RECAP), "a --reflection_model model or recap"),
    )

    def settings(self) -> dict[str, Json]:
        """What decides about the content of an episode; nothing without such a model."""
        if self.reflection_model is None:
            return {}
        prompt = load_prompt(self.reflection_prompt_path or REFLECTION_SYSTEM)
        return {
            "reflection_model": self.reflection_model,
            "reflection_prompt": prompt_digest(f"{prompt}\n{load_prompt(REFLECTION_REQUEST)}"),
            "reflection_tokens": self.reflection_tokens,
            "reflect_prob": self.reflect_prob,
        }


@dataclass(frozen=True, kw_only=True)
class TestTimeCriticFlags(Critic):
    """A critic that chooses among turns."""

    agent_best_of_n: int = flag(
        1, "turns that the agent samples for each that it takes; the critic chooses.", at_least=1, shown="all"
    )
    critic_sees: Literal["dialogue", "solution"] = flag(
        "dialogue",
        "dialogue, or solution: the hidden solution, too, as the critic was trained: an upper line, for at test time "
        "nobody knows it.",
        shown="all",
    )

    def check_together(self) -> None:
        """Whether there is one that chooses."""
        super().check_together()
        for name, given in (
            ("agent_best_of_n", self.agent_best_of_n > 1),
            ("critic_sees", self.critic_sees == "solution"),
        ):
            if given and self.critic is None:
                raise UsageError(f"--{name} needs --critic, the model that chooses.")

    def settings(self) -> dict[str, Json]:
        """What decides about the content of an episode; nothing without a critic."""
        if self.critic is None:
            return {}
        return {
            "agent_best_of_n": self.agent_best_of_n,
            "critic": self.critic,
            "critic_sees": self.critic_sees,
        }


@dataclass(frozen=True, kw_only=True)
class AgentPrompt(Settings):
    """The agent."""

    agent_prompt_path: str | None = flag(
        None, "system prompt file of the agent; default the packaged one.", shown="all"
    )


@dataclass(frozen=True, kw_only=True)
class PlayerFlags(AgentFlags, ScriptedFlags, AgentPrompt):
    """The agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Player:
    """An agent in a world, before it is made.

    Args:
        world: that it plays; None where it only continues texts.
        role: what its flags begin with: "reflection" for the model that reflects.
    """

    flags: AgentFlags
    world: World | None = None
    options: Options = field(default_factory=Options)
    scripted: ScriptedFlags = field(default_factory=ScriptedFlags)
    prompt_path: str | None = None
    seed: int = 0
    reflection: ReflectionFlags = field(default_factory=ReflectionFlags)
    critic: TestTimeCriticFlags = field(default_factory=TestTimeCriticFlags)
    role: str = "agent"

    @property
    def model(self) -> str:
        """The model's name, or the agent's."""
        return self.flags.agent_model

    def changed(self, **flags: Any) -> Player:
        """The same with other flags."""
        return replace(self, flags=replace(self.flags, **flags))

    def system_prompt(self) -> str:
        """The agent's instructions, before everything else."""
        if self.prompt_path:
            return load_prompt(self.prompt_path)
        return "" if self.world is None else self.world.system_prompt()

    def settings(self) -> dict[str, Json]:
        """What decides about the content of an episode."""
        settings: dict[str, Json] = {
            "agent_model": self.model,
            "agent_prompt": prompt_digest(self.system_prompt()),
            **self.reflection.settings(),
            **self.critic.settings(),
        }
        engine = self.engine()
        if engine == OWN:
            return settings | ({"agent": self.flags.agent} if self.flags.agent != "auto" else {})
        if engine != "scripted":
            request = fields_of("agent_request", self.flags.agent_request)
            settings |= {"agent_request": request} if request else {}
            return settings | {"temperature": self.flags.temperature, "max_tokens": self.flags.max_tokens}
        taken = self.world.takes.get(self.model, {}) if self.world else {}
        own = {name: getattr(self.scripted, name) for name in taken if name != "unsafe_no_sandbox"}
        return settings | {name: taken[name] if value is None else value for name, value in own.items()}

    def engine(self) -> str:
        """The engine that `auto` selects."""
        return engine_of(self.flags, self.world)


def engine_of(flags: AgentFlags, world: World | None) -> str:
    """The engine of a model or scripted agent: as named, or the one that `auto` selects."""
    engine, model = flags.agent, flags.agent_model
    if engine not in ENGINES and not POLICIES.knows(engine):
        raise no_such("--agent", engine, (*ENGINES, *POLICIES.names()))
    where = "" if world is None else f" for --world {world.name}"
    worlds = [name for name in names() if model in world_of(name).agents]
    scripted = tuple(worlds and (model,)) if world is None else world.agents
    if engine == "scripted" and model not in scripted:
        raise no_such(f"scripted agent{where}", model, scripted)
    if engine != "auto":
        return engine if engine in ENGINES else OWN
    if model in scripted:
        return "scripted"
    if flags.agent_base_url is not None:
        return "openai"
    if flags.vllm_python is not None:
        return "vllm"
    own = POLICIES.knows(model)
    if is_no_model(model) and not own:
        elsewhere = f"{model} plays {', '.join(worlds)}. " if worlds else ""
        hint = f"{elsewhere}{WHAT_A_MODEL_IS} --agent transformers, vllm or openai."
        raise no_such(f"agent{where}", model, (*scripted, *POLICIES.names()), hint)
    return OWN if own else "transformers"


def is_no_model(name: str) -> bool:
    """A single word that is no folder: hardly a model, rather a name of ours that there is not."""
    return folder_of(name) is None and "/" not in name and not Path(name).exists()
