"""Who plays: an agent and who answers it, in plain values (names, addresses, prompts, limits), which commands take as flags.

`cast` makes agent, human and world of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from sweet_rl.chat import load_tokenizer, tokenizer_digest
from sweet_rl.chat.formats import folder_of
from sweet_rl.cli.servers import asked_with, fields_of
from sweet_rl.errors import UsageError, no_such
from sweet_rl.flags import Only, Settings, flag, flags_of, group, no_flag
from sweet_rl.flags.models import (
    A_MODEL,
    IN_PROCESS,
    SERVED,
    VLLM,
    Agent,
    AgentModel,
    Critic,
    MaxTokens,
    Placement,
    Requests,
    ServerPlace,
    Tokenizer,
)
from sweet_rl.policies import POLICIES
from sweet_rl.preferences.ranking import end_token_of
from sweet_rl.types import Json
from sweet_rl.users import USERS
from sweet_rl.worlds import ScriptedFlags, World, names, world_of

ENGINES: Final = ("auto", "scripted", "transformers", "vllm", "openai")
OWN: Final = "own"
"""What runs an agent of `POLICIES`: it does so itself."""

WHAT_A_MODEL_IS: Final = "A model is a folder, a hub name with its owner (as in owner/name), smollm2 or embedded; for another name add"

RECAP: Final = "recap"
"""The stand-in for a reflection model: it repeats the last message."""

PLACE_FLAGS: Final = "--hostname and --port, or --env_base_url"
OWN_HUMAN: Final = "Your own is named as module:ATTRIBUTE, or by the entry point of an installed package."
ORACLES: Final = ("embedded", "seq2seq", "openai", "gradio")
"""What runs an oracle, by the names that play and run_archer have for it."""

_AGENT_SERVED: Final = Only("agent", ("openai",))
_REFLECTING: Final = Only("reflection", ("model",), "a --reflection_model model")
_ANSWERED: Final = Only("answered_by", ("human", "oracle"), "worlds in which a human or an oracle answers")
_TALKS: Final = Only("talks", ("server",), "a human, of a world of dialogues, behind a server")
_SERVED: Final = Only("human", ("server",), "a human behind a server (--hostname, --port or --env_base_url)")

ANSWERED: Final = dict.fromkeys(("hostname", "port"), _ANSWERED)
"""Where flags that others have, too, have a meaning beside `HumanFlags`."""


@group("The agent")
class ModelFlags(MaxTokens, Tokenizer, Placement, VLLM, Requests):
    temperature: float = flag(1.0, "sampling temperature; 0 is greedy.", at_least=0, only=A_MODEL)
    agent_base_url: str | None = flag(
        None, "base URL(s) of the server that runs the agent.", only=_AGENT_SERVED
    )
    agent_api: Literal["completions", "chat"] = flag(
        "completions",
        "API of the agent's server: completions (the exact prompt string is sent and recorded) or chat.",
        shown="all",
        only=SERVED,
    )
    agent_api_key_var: str | None = flag(
        None,
        "environment variable with the key of the agent's server; it must be set. Default OPENAI_API_KEY, if that is set.",
        shown="all",
        only=SERVED,
    )
    agent_request: str | None = flag(
        None,
        "extra fields of every request to the agent's server, as a JSON object; null removes a field: "
        '{"reasoning_effort": "low", "top_p": null}.',
        shown="all",
        only=_AGENT_SERVED,
    )
    agent_header: str | None = flag(
        None,
        "header of every request to the agent's server, such as 'api-key: ${VARIABLE}', whose value is taken from the environment.",
        shown="all",
        only=_AGENT_SERVED,
    )
    max_batch: int = flag(64, "most prompts in one forward pass.", at_least=1, shown="all", only=IN_PROCESS)
    cache_gib: float = flag(
        2.0,
        "memory, in GiB, for the key-value cache of dialogues that wait for their next turn, so that a turn "
        "reads only what is new. Turns in progress may exceed it. 0: no cache.",
        at_least=0,
        shown="all",
        only=IN_PROCESS,
    )

    def check_together(self) -> None:
        if self.agent_request or self.agent_header:
            asked_with(self, "agent")


@group("The agent")
class AgentFlags(Agent, AgentModel, ModelFlags):
    pass


@group("The agent")
class PromptedFlags(ModelFlags, ScriptedFlags):
    agent_prompt_path: str | None = flag(
        None, "file with the agent's system prompt; default the packaged one.", shown="all"
    )


@group("A second model that reflects before each turn")
class ReflectionFlags(Settings):
    reflection_model: str | None = flag(
        None,
        "model that analyses the state before every turn of the agent, in any world: a folder, a hub name, "
        "smollm2, its name on the server at --reflection_base_url, or recap (no model, for trials).",
    )
    reflection_base_url: str | None = flag(
        None, "base URL(s) of the server that runs the reflection model.", shown="all", only=_REFLECTING
    )
    reflection_api: Literal["completions", "chat"] | None = flag(
        None,
        "API of the reflection server: completions or chat; default that of --agent_api.",
        shown="all",
        only=_REFLECTING,
    )
    reflection_api_key_var: str | None = flag(
        None,
        "environment variable with the key of the reflection server; default that of --agent_api_key_var.",
        shown="all",
        only=_REFLECTING,
    )
    reflection_prompt_path: str | None = flag(
        None, "file with its system prompt; default the packaged one.", shown="all", only=_REFLECTING
    )
    reflection_tokens: int = flag(
        100, "longest analysis, in tokens.", at_least=1, shown="all", only=_REFLECTING
    )
    reflect_prob: float = flag(
        1.0,
        "share of the turns in which the reflection model is used.",
        at_least=0,
        at_most=1,
        shown="all",
        only=Only("reflection", ("model", RECAP), "a --reflection_model model or recap"),
    )


@group("Best of n: a critic chooses among candidates")
class TestTimeCriticFlags(Critic):
    agent_best_of_n: int = flag(
        1, "candidates sampled for each turn; the critic picks one.", at_least=1, shown="all"
    )
    critic_sees: Literal["dialogue", "solution"] = flag(
        "dialogue",
        "dialogue, or solution: the hidden solution as well, as in the critic's training. This is an upper "
        "bound, because nobody knows the solution at test time.",
        shown="all",
    )

    def check_together(self) -> None:
        given = {"agent_best_of_n": self.agent_best_of_n > 1, "critic_sees": self.critic_sees == "solution"}
        if self.critic is None and (name := next((one for one in given if given[one]), None)):
            raise UsageError(f"--{name} needs --critic, the model that chooses.")


@group("The agent")
class PlayerFlags(AgentFlags, PromptedFlags, ReflectionFlags, TestTimeCriticFlags):
    pass


@group("The human")
class HumanFlags(ServerPlace, Requests):
    env_model: str = flag(
        "auto",
        "who plays the human, or answers in question games: auto (the server's first model; in question "
        "games without a server, the embedded oracle), a model's name on the server (a vision model for "
        "pages), or scripted: no model, in process unless a server is named (for pages always in process).",
        only=_ANSWERED,
    )
    env_base_url: str | None = flag(
        None,
        "base URL of the human's server, instead of --hostname and --port (like https://host/v1); several, "
        "separated by commas, share the load.",
        only=_ANSWERED,
    )
    env_api_key_var: str | None = flag(
        None,
        "environment variable with the key of the human's server; it must be set. Default OPENAI_API_KEY, if that is set.",
        shown="all",
        only=_SERVED,
    )
    env_request: str | None = flag(
        None,
        "extra fields of every request to the human's server, as a JSON object; null removes a field.",
        shown="all",
        only=_SERVED,
    )
    env_header: str | None = flag(
        None, "header of its requests, such as 'api-key: ${VARIABLE}'.", shown="all", only=_SERVED
    )
    env_max_tokens: int = flag(
        4096, "longest reply of the human, in tokens.", at_least=1, shown="all", only=_TALKS
    )
    env_system_prompt: str | None = flag(
        None,
        "system message of the human's model; default 'You are a helpful assistant.', and none for pages. An empty text sends none.",
        shown="all",
        only=_TALKS,
    )
    user_prompt_path: str | None = flag(
        None,
        "file with the human's prompt, with {problem_description}, {hidden_information} and "
        "{dialogue_history} (for pages none is required, and the second is not allowed); default the "
        "packaged one.",
        shown="all",
        only=_SERVED,
    )
    oracle: str = no_flag("openai")
    """What runs a model that answers questions, behind env_base_url: openai, gradio, or seq2seq, whose folder it then is."""

    def check_together(self) -> None:
        if self.env_request or self.env_header:
            asked_with(self, "env")

    @property
    def server_named(self) -> bool:
        """Whether the flags say where the human is."""
        return any(flag is not None for flag in (self.hostname, self.port, self.env_base_url))

    @property
    def urls(self) -> Sequence[str]:
        """Where the human's server is, or would be."""
        from sweet_rl.openai_client import base_url_from

        return base_url_from(self.hostname or "127.0.0.1", self.port or 8000, self.env_base_url)

    def or_scripted(self, world: World) -> HumanFlags:
        """The human without a model where no server is named, for commands that look for none by themselves."""
        simulated = world.user.by == "human" and self.env_model == "auto" and not self.server_named
        return replace(self, env_model="scripted") if simulated else self

    def asked(self) -> dict[str, Json]:
        """How a server is asked, where that is not the usual way."""
        usual = {one.name: one.default for one in flags_of(HumanFlags)}
        asked: dict[str, Any] = {
            name: getattr(self, name) for name in ("env_max_tokens", "env_system_prompt")
        }
        asked["env_request"] = fields_of("env_request", self.env_request) or None
        return {name: value for name, value in asked.items() if value != usual[name]}


def oracle_flags(
    kind: str, where: str | None = None, model: str | None = None, api_key_var: str | None = None
) -> HumanFlags:
    """Who answers questions: one of `ORACLES`, with its folder or address and its server's name for it, or of `USERS`."""
    if USERS.knows(kind):
        USERS.find(kind)
    elif kind not in ORACLES:
        raise no_such("oracle", kind, (*ORACLES, *USERS.names()), OWN_HUMAN)
    elif kind != "embedded":
        if not where:
            what = "the folder of the model" if kind == "seq2seq" else "the address of the server"
            raise UsageError(f"oracle={kind} needs {what} (env_load_path).")
        named: dict[str, Any] = {"env_base_url": where, "env_api_key_var": api_key_var}
        named["env_model"] = model or "auto"
        return HumanFlags(**named, oracle=kind, server_wait_s=0)
    return HumanFlags(env_model=kind)


def engine_of(agent: AgentFlags, world: World) -> str:
    """The engine of a model or scripted agent: as named, or the one that `auto` selects."""
    engine, model = agent.agent, agent.agent_model
    if engine not in ENGINES and not POLICIES.knows(engine):
        raise no_such("--agent", engine, (*ENGINES, *POLICIES.names()))
    where = f" for --world {world.name}" if world.name else ""

    def played() -> list[str]:
        return [name for name in names() if model in world_of(name).agents]

    scripted = tuple(world.agents) if world.name else (model,) * bool(played())
    if engine == "scripted" and model not in scripted:
        raise no_such(f"scripted agent{where}", model, scripted)
    if engine != "auto":
        return engine if engine in ENGINES else OWN
    if model in scripted:
        return "scripted"
    if agent.agent_base_url is not None:
        return "openai"
    if agent.vllm_python is not None:
        return "vllm"
    own = POLICIES.knows(model)
    if is_no_model(model) and not own:
        elsewhere = f"{model} plays {', '.join(worlds)}. " if (worlds := played()) else ""
        hint = f"{elsewhere}{WHAT_A_MODEL_IS} --agent transformers, vllm or openai."
        raise no_such(f"agent{where}", model, (*scripted, *POLICIES.names()), hint)
    return OWN if own else "transformers"


def is_no_model(name: str) -> bool:
    """A single word that is no folder: hardly a model, rather a name of ours that there is not."""
    return folder_of(name) is None and "/" not in name and not (name and Path(name).exists())


class TokenizerFacts(NamedTuple):
    """What later stages must know of the sampler's tokenizer; nothing for a server whose tokenizer is not at hand."""

    digest: str | None = None
    end_token: str | None = None


def tokenizer_facts(agent: AgentFlags, engine: str) -> TokenizerFacts:
    """Of the tokenizer that the settings name."""
    name = agent.tokenizer or (None if engine == "openai" else agent.agent_model)
    if name is None:
        return TokenizerFacts()
    tokenizer = load_tokenizer(name)
    return TokenizerFacts(tokenizer_digest(tokenizer), end_token_of(tokenizer))
