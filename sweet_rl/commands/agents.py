"""Flags of the agent and the reflection model: names, prompts, engines, limits of an episode."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, cast

from sweet_rl import tracking
from sweet_rl.chat import TokenizerChat, load_tokenizer, tokenizer_digest
from sweet_rl.chat.formats import folder_of
from sweet_rl.cli.servers import asked_with, client_of, fields_of, retry_of, vllm_server
from sweet_rl.contracts import Policy
from sweet_rl.errors import UsageError, missing_package, no_such
from sweet_rl.flags import Only, Settings, flag, flags_of
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
from sweet_rl.flags.shared import FanOut
from sweet_rl.openai_client import base_url_from
from sweet_rl.policies import POLICIES
from sweet_rl.policies.reflective import Recap, ReflectivePolicy
from sweet_rl.policies.scripted import MarkovPolicy, ScriptedPolicy
from sweet_rl.preferences.ranking import encoding_of, end_token_of
from sweet_rl.prompts import load_prompt, prompt_digest
from sweet_rl.types import Json, Task
from sweet_rl.worlds import AgentRequest, Options, ScriptedFlags, World, names, world_of

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
        None, "base URL(s) of the server that runs the agent.", only=_AGENT_SERVED
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

    def system_prompt(self) -> str:
        """The agent's instructions, before everything else."""
        own = "" if self.world is None else self.world.system_prompt()
        return load_prompt(self.prompt_path) if self.prompt_path else own

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
    try:
        wanted = model_that_reflects(player)
        with tracking.role("reflection"):
            reflector = Recap() if wanted is None else await _alone(wanted, tasks, concurrency)
    except BaseException:
        await acting.close()
        raise
    return ReflectivePolicy(
        acting,
        reflector,
        head=None if player.world is None else player.world.action_head,
        request=load_prompt(REFLECTION_REQUEST).strip(),
        reflect_prob=player.reflection.reflect_prob,
        seed=player.seed,
    )


async def _alone(player: Player, tasks: Sequence[Task], concurrency: int) -> Policy:
    """One model or scripted agent; a model sees the last text alone where that says the whole state."""
    policy = await _policy(player, tasks, concurrency)
    world = player.world
    if world is None or world.action_head is None or player.engine() in {OWN, "scripted"}:
        return policy
    return MarkovPolicy(policy)


def _with_critic(acting: Policy, player: Player, model: str, tasks: Sequence[Task]) -> Policy:
    """The agent that takes the turns which the critic likes."""
    if not hasattr(acting, "sample"):
        raise UsageError(
            f"--agent_model {player.model!r} has one reply only; a --critic has nothing to choose from. Name a model."
        )
    from sweet_rl.preferences.best_of_n import BestOfN, SamplingPolicy

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
    from sweet_rl.policies.openai import OpenAIPolicy

    routes, other = ("/chat/completions", "/completions"), "completions"
    if flags.agent_api == "completions":
        routes, other = routes[::-1], "chat"
    role = player.role
    named_by = (
        f"--{role}_base_url names the server, --{role}_model its model. It was asked at {routes[0]}; for a server "
        f"that has {routes[1]} alone (404): --{role}_api {other}."
    )
    return OpenAIPolicy(
        client_of(
            base_url_from("", 0, flags.agent_base_url),
            flags,
            key_var=flags.agent_api_key_var,
            named_by=named_by,
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


async def scripted_agent(player: Player, tasks: Sequence[Task], system_prompt: str) -> Policy:
    """The scripted agent that the flags name; they were checked."""
    if player.world is None:
        raise UsageError(f"--agent_model {player.model!r} is scripted: it plays a world, and this is none.")
    policy = await player.world.make_agent(_request(player, tasks, system_prompt))
    if player.flags.tokenizer and isinstance(policy, ScriptedPolicy):
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
    alone = replace(
        flags,
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
    return replace(player, flags=alone, prompt_path=prompt, reflection=ReflectionFlags(), role="reflection")


class TokenizerFacts(NamedTuple):
    """What later stages must know of the sampler's tokenizer; nothing for a server whose tokenizer is not at hand."""

    digest: str | None = None
    end_token: str | None = None


def tokenizer_facts(agent: Player) -> TokenizerFacts:
    """Of the tokenizer that the flags name."""
    name = agent.flags.tokenizer or (None if agent.engine() == "openai" else agent.model)
    if name is None:
        return TokenizerFacts()
    tokenizer = load_tokenizer(name)
    return TokenizerFacts(tokenizer_digest(tokenizer), end_token_of(tokenizer))
