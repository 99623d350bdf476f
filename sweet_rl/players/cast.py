"""Agent, human and world, put together from their settings: checked, described, made, opened and closed here and nowhere else."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sweet_rl import tracking
from sweet_rl.chat import TokenizerChat
from sweet_rl.cli.servers import asked_with, client_of, fields_of, key_in, retry_of, vllm_server
from sweet_rl.contracts import Env, HeldEnv, HeldPlayer, Policy, User, check_contract
from sweet_rl.errors import ServiceError, UsageError, missing_package, no_such, own_code, suggestion
from sweet_rl.flags import flags_of
from sweet_rl.openai_client import base_url_from, shown
from sweet_rl.players import (
    OWN,
    OWN_HUMAN,
    PLACE_FLAGS,
    RECAP,
    WHAT_A_MODEL_IS,
    HumanFlags,
    PlayerFlags,
    engine_of,
    is_no_model,
    tokenizer_facts,
)
from sweet_rl.plugins import is_own
from sweet_rl.policies import POLICIES, giving
from sweet_rl.policies.reflective import Recap, ReflectivePolicy
from sweet_rl.policies.scripted import MarkovPolicy, ScriptedPolicy
from sweet_rl.preferences.ranking import BestOfN, encoding_of
from sweet_rl.prompts import load_prompt, prompt_digest
from sweet_rl.types import Json, Task
from sweet_rl.users import USERS
from sweet_rl.version import __version__
from sweet_rl.worlds import AgentRequest, Options, ScriptedFlags, World, sources_of

if TYPE_CHECKING:
    from sweet_rl.openai_client import OpenAIClient

_ORACLES_HERE: Final = ("embedded", "auto", "scripted")
"""Names of who answers in question games where no server is named: they all mean the embedded oracle."""
_HUMANS_HERE: Final = ("scripted", "auto")
"""Names in dialogues that belong to no server's model: auto is the first that a server offers."""
_REFLECTION_SYSTEM, _REFLECTION_REQUEST = "reflect/reflection_system", "reflect/reflection_request"
_SERVER_FLAGS: Final = f"A model answers through a server: name it with {PLACE_FLAGS}."


class Nowhere(World):
    """No world: an agent here only continues texts."""

    name = ""


class Playing(NamedTuple):
    """What `Cast.opened` has made; `user` is None where the world itself answers, `policy` where no agent plays."""

    make_env: Callable[[], Env]
    user: User | None
    policy: Any

    @property
    def who_answers(self) -> str:
        return "nobody" if self.user is None else self.user.name

    def provenance(self, settings: Mapping[str, Json]) -> dict[str, Json]:
        """Where a trajectory comes from, as its row has it."""
        agent = {} if self.policy is None else {"agent_model": self.policy.name}
        return {"sweet_rl": __version__, **agent, "env_model": self.who_answers, "settings": dict(settings)}


@dataclass(frozen=True, kw_only=True)
class Cast:
    """An agent and who answers it in a world, before they are made.

    Args:
        called: what messages call flags where nobody types them, by what they call them elsewhere.
        role: what the agent's flags begin with: "reflection" for the model that reflects.
    """

    world: World = field(default_factory=Nowhere)
    options: Options = field(default_factory=Options)
    agent: PlayerFlags = field(default_factory=PlayerFlags)
    human: HumanFlags = field(default_factory=HumanFlags)
    seed: int = 0
    called: Mapping[str, str] = field(default_factory=dict)
    role: str = "agent"

    def __post_init__(self) -> None:
        if self.agent.agent_model == "auto":
            first = next(iter(self.world.agents), "auto")
            object.__setattr__(self, "agent", replace(self.agent, agent_model=first))

    def words(self, text: str) -> str:
        """A message with the names that flags have here."""
        for flag_name, name in self.called.items():
            text = text.replace(flag_name, name)
        return text

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except UsageError as error:
            raise UsageError(self.words(str(error))) from error.__cause__

    def check(self) -> None:
        self.check_human()
        self.check_agent()

    def settings(self) -> dict[str, Json]:
        """What decides about the content of an episode: a file may be continued only with the same."""
        own = self.world.settings(self.options) | {"seed": self.seed}
        return own | self.agent_settings() | self.human_settings()

    @asynccontextmanager
    async def opened(
        self,
        tasks: Sequence[Task] | None,
        *,
        concurrency: int,
        path: Path | None = None,
        samples: Mapping[tuple[str, int], int] | None = None,
        user: User | None = None,
        policy: Policy | None = None,
    ) -> AsyncIterator[Playing]:
        """Agent, human and world; what is made is closed with the block, `user` and `policy` by their owner.

        `tasks` are what the agent will play (None: there is none), `path` is the file that rows go to, `samples` the
        number of an episode's repeat, by its task's identity and its seed.
        """
        async with AsyncExitStack() as stack:
            if user is None:
                with tracking.role("user"):
                    user = await self.make_user(concurrency)
                if user is not None:
                    check_contract(user, f"human of {self.world.name}", "reply")
                    if is_own(type(user).__module__):
                        user = HeldPlayer(user, f"the human of {self.world.name}")
                    stack.push_async_callback(user.close)
                    if self.human_served:
                        tracking.permits(user.name)
            if policy is None and tasks is not None:
                with tracking.role("agent"):
                    policy = await self.make_policy(tasks, concurrency)
                stack.push_async_callback(policy.close)
            if policy is not None:
                stack.enter_context(giving(policy, self.system_prompt()))
            for source in sources_of(self.world):
                tracking.reads("world", source)
            name, turns = self.world.name, self.world.turns(self.options)
            write = "write @asynccontextmanager above an `open` that yields what makes an Env, or `make_env(self, options, user)` alone."
            with own_code(f"`open` of the world {name}", f"W{write[1:]}"):
                opening: Any = self.world.open(self.options.beside(path, samples or {}), user)
                inner = getattr(opening, "gen", opening)
                if inspect.iscoroutine(inner):
                    inner.close()
                    raise UsageError(f"`open` of the world {name} has no `yield`: {write}")
                if not hasattr(opening, "__aenter__"):
                    raise UsageError(f"`open` of the world {name} is not an async context manager: {write}")
                make_env = await opening.__aenter__()
            stack.push_async_exit(opening)
            yield Playing(lambda: HeldEnv(make_env, name, turns), user, policy)

    # The agent.

    @property
    def engine(self) -> str:
        """What runs the agent: as named, or as `auto` selects."""
        return engine_of(self.agent, self.world)

    def check_agent(self) -> None:
        """Find what is wrong with the agent before anything starts."""
        with self._in_words():
            agent, engine = self.agent, self.engine
            for variable in filter(None, (agent.agent_api_key_var, agent.reflection_api_key_var)):
                key_in(variable)
            for urls in filter(None, (agent.agent_base_url, agent.reflection_base_url)):
                base_url_from("", 0, urls)
            if engine == OWN:
                POLICIES.find(agent.agent_model if agent.agent == "auto" else agent.agent)
            for model in (None if engine in {OWN, "scripted"} else agent.agent_model, agent.reflection_model):
                if model not in {None, RECAP}:
                    tracking.permits(str(model))

    def system_prompt(self) -> str:
        """The agent's instructions, before everything else."""
        path = self.agent.agent_prompt_path
        return load_prompt(path) if path else self.world.system_prompt

    def agent_settings(self) -> dict[str, Json]:
        """What decides about the agent's turns."""
        agent, engine = self.agent, self.engine
        settings: dict[str, Json] = {"agent_model": agent.agent_model}
        settings["agent_prompt"] = prompt_digest(self.system_prompt())
        if agent.reflection_model is not None:
            prompt = load_prompt(agent.reflection_prompt_path or _REFLECTION_SYSTEM)
            digest = prompt_digest(f"{prompt}\n{load_prompt(_REFLECTION_REQUEST)}")
            settings |= {"reflection_model": agent.reflection_model, "reflection_prompt": digest}
            settings |= {name: getattr(agent, name) for name in ("reflection_tokens", "reflect_prob")}
        if agent.critic is not None:
            settings |= {name: getattr(agent, name) for name in ("agent_best_of_n", "critic", "critic_sees")}
        if engine == OWN:
            return settings | ({"agent": agent.agent} if agent.agent != "auto" else {})
        if engine != "scripted":
            request = fields_of("agent_request", agent.agent_request)
            settings |= {"agent_request": request} if request else {}
            return settings | {"temperature": agent.temperature, "max_tokens": agent.max_tokens}
        taken = self.world.agents.get(agent.agent_model, {})
        own = {name: getattr(agent, name) for name in taken if name != "unsafe_no_sandbox"}
        return settings | {name: taken[name] if value is None else value for name, value in own.items()}

    async def make_policy(self, tasks: Sequence[Task], concurrency: int) -> Policy:
        """The agent, with the reflection model and the critic that it is to have; its caller closes it."""
        async with AsyncExitStack() as stack:
            with self._in_words():
                acting = await self._alone(tasks, concurrency)
                stack.push_async_callback(acting.close)
                if self.agent.critic is not None:
                    acting = self._with_critic(acting, tasks)
                if self.agent.reflection_model is not None:
                    reflecting = self._reflecting()
                    with tracking.role("reflection"):
                        reflector = await reflecting._alone(tasks, concurrency) if reflecting else Recap()
                    acting = ReflectivePolicy(
                        acting,
                        reflector,
                        head=self.world.learning.head,
                        request=load_prompt(_REFLECTION_REQUEST).strip(),
                        reflect_prob=self.agent.reflect_prob,
                        seed=self.seed,
                    )
            stack.pop_all()
            return acting

    def _with_critic(self, acting: Any, tasks: Sequence[Task]) -> Policy:
        """The agent that takes the turns which the critic likes."""
        agent, model = self.agent, str(self.agent.critic)
        if not hasattr(acting, "sample"):
            raise UsageError(
                f"--agent_model {agent.agent_model!r} always gives the same reply; a --critic has nothing to choose from. Name a model."
            )
        try:
            from sweet_rl.training.scoring import CandidateScorer
        except ImportError as error:
            raise missing_package("torch", "transformers", needed_for="a critic") from error
        solutions = {task.task_id: task.ground_truth for task in tasks}
        return BestOfN(
            acting,
            CandidateScorer(model, device=agent.device, dtype=agent.dtype),
            encoding_of(model, needs_header=False),
            tokenizer=tokenizer_facts(agent, self.engine).digest,
            n=agent.agent_best_of_n,
            solutions=solutions if agent.critic_sees == "solution" else None,
            seed=self.seed,
        )

    def _reflecting(self) -> Cast | None:
        """The model that reflects: the agent's settings but for its name, server, prompt and length; None for `recap`."""
        agent, model = self.agent, str(self.agent.reflection_model)
        if model == RECAP:
            return None
        if model in self.world.agents:
            raise UsageError(
                f"--reflection_model {model} is an agent, not a model. Name a model, or {RECAP!r}."
            )
        if agent.reflection_base_url is None and agent.vllm_python is None and is_no_model(model):
            raise no_such("--reflection_model", model, (RECAP,), f"{WHAT_A_MODEL_IS} --reflection_base_url.")
        alone = replace(
            agent,
            agent="auto",
            agent_model=model,
            agent_prompt_path=agent.reflection_prompt_path or _REFLECTION_SYSTEM,
            agent_base_url=agent.reflection_base_url,
            agent_api=agent.reflection_api or agent.agent_api,
            agent_api_key_var=agent.reflection_api_key_var or agent.agent_api_key_var,
            agent_request=None,
            agent_header=None,
            tokenizer=None,
            max_tokens=agent.reflection_tokens,
        )
        return replace(self, agent=alone, role="reflection")

    async def _alone(self, tasks: Sequence[Task], concurrency: int) -> Policy:
        """One model or scripted agent; a model sees the last text alone where that says the whole state."""
        engine = self.engine
        if engine not in {OWN, "scripted"}:
            policy = await self._model(engine, concurrency)
            return policy if self.world.learning.head is None else MarkovPolicy(policy)
        agent, prompt = self.agent, self.system_prompt()
        wanted = AgentRequest(
            name=agent.agent_model,
            tasks=tasks,
            system_prompt=prompt,
            options=self.options,
            seed=self.seed,
            **{one.name: getattr(agent, one.name) for one in flags_of(ScriptedFlags)},
        )
        if engine == OWN:
            flag = "agent_model" if agent.agent == "auto" else "agent"
            own: Policy = POLICIES.make(getattr(agent, flag), wanted, flag=flag)
            check_contract(own, f"agent {getattr(agent, flag)}", "act")
            return HeldPlayer(own, f"the agent {getattr(agent, flag)}")
        made: Any = self.world.make_agent(wanted)
        scripted: Policy = await made if inspect.isawaitable(made) else made
        check_contract(scripted, f"agent {agent.agent_model} of {self.world.name}", "act")
        if agent.tokenizer and isinstance(scripted, ScriptedPolicy):
            scripted.chat_format = TokenizerChat.from_pretrained(agent.tokenizer, "--tokenizer")
        whose = f"the agent {agent.agent_model} of {self.world.name}"
        return HeldPlayer(scripted, whose) if is_own(type(self.world).__module__) else scripted

    async def _model(self, engine: str, concurrency: int) -> Policy:
        agent, flag = self.agent, self.words(f"--{self.role}_model")
        chat = TokenizerChat.from_pretrained(agent.tokenizer, "--tokenizer") if agent.tokenizer else None
        how: dict[str, Any] = {"system_prompt": self.system_prompt(), "chat_format": chat, "seed": self.seed}
        how["temperature"] = agent.temperature
        if engine == "transformers":
            from sweet_rl.policies.transformers import TransformersPolicy

            how |= {name: getattr(agent, name) for name in ("max_batch", "cache_gib", "device", "dtype")}
            how |= {"max_new_tokens": agent.max_tokens, "max_dialogues": 2 * concurrency, "flag": flag}
            return TransformersPolicy(agent.agent_model, **how)
        how |= {"max_tokens": agent.max_tokens}
        if engine == "vllm":
            from sweet_rl.policies.vllm import VLLMPolicy

            server = vllm_server(agent.agent_model, agent)
            return await VLLMPolicy.start(server, **how, retry=retry_of(agent), max_connections=concurrency)
        if agent.agent_base_url is None:
            raise UsageError("--agent openai needs --agent_base_url, for example http://127.0.0.1:8001/v1.")
        from sweet_rl.policies.openai import OpenAIPolicy

        named_by = self.words(f"--{self.role}_base_url names the server, --{self.role}_model its model.")
        if not self.called:
            (at, instead), api = ("/chat/completions", "/completions"), "completions"
            if agent.agent_api == "completions":
                at, instead, api = instead, at, "chat"
            named_by += f" It was asked at {at}; for a server that has {instead} alone (404): --{self.role}_api {api}."
        urls, asked = base_url_from("", 0, agent.agent_base_url), asked_with(agent, "agent")
        named: dict[str, Any] = {"key_var": agent.agent_api_key_var, "named_by": named_by}
        client = client_of(urls, agent, max_connections=concurrency, **named, **asked)
        return OpenAIPolicy(client, agent.agent_model, api=agent.agent_api, **how)

    # Who answers.

    @property
    def simulated(self) -> bool:
        return self.world.user.by == "human"

    @property
    def own_human(self) -> bool:
        """Whether it is one of `USERS`, who answer in any world; a server's model may have the same name."""
        return not self.human.server_named and USERS.knows(self.human.env_model)

    @property
    def human_served(self) -> bool:
        """Whether a server is asked for who answers; under auto not where no model plays the human."""
        human, named = self.human, self.human.server_named
        if not self.simulated:
            return named and self.world.user.by == "oracle"
        here = {"scripted"} if self.world.user.model else {"scripted", "auto"}
        return named or (human.env_model not in here and not USERS.knows(human.env_model))

    def check_human(self) -> None:
        """Find what is wrong with who answers before anything starts."""
        human, here = self.human, _HUMANS_HERE if self.simulated else _ORACLES_HERE
        model, named = human.env_model, human.server_named
        with self._in_words():
            if self.own_human:
                USERS.find(model)
            elif named and self.world.user.by == "oracle" and model in here[::2]:
                raise UsageError(
                    f"--env_model {model} is an oracle in this process, but {PLACE_FLAGS} name a server. Leave one of them out."
                )
            elif not named and model not in here:
                here = (*here, *USERS.names())
                if not self.simulated:
                    raise no_such("--env_model without a server", model, here, f"{_SERVER_FLAGS} {OWN_HUMAN}")
                if meant := suggestion(model, here, "--env_model "):
                    raise UsageError(f"There is no --env_model {model}{meant} here. {_SERVER_FLAGS}")
            if model == "scripted" and self.simulated and named and not self.world.user.speaker:
                raise UsageError(
                    "The scripted human of pages runs only in this process, not behind a server. Leave out "
                    f"{PLACE_FLAGS}, or name a vision model of the server with --env_model."
                )
            if human.env_api_key_var:
                key_in(human.env_api_key_var)
            if self.human_served and human.oracle == "openai":
                base_url_from("", 0, ",".join(human.urls))
            if self.human_served and self.simulated:
                self.human_prompt()

    def human_prompt(self) -> str:
        """The instructions of the model that plays the human."""
        path = self.human.user_prompt_path or self.world.user.prompt
        if not path:
            raise UsageError(
                f"{self.world.name} has no prompt for a model that plays its human: write its file into the world "
                "(`user=Answers(prompt=FILE)`), or name it with --user_prompt_path."
            )
        template = load_prompt(path)
        self.world.user.check_prompt(template, path)
        return template

    def human_settings(self) -> dict[str, Json]:
        """What decides about the answers."""
        human, model = self.human, self.human.env_model
        if self.own_human:
            return {"env_model": model}
        if not self.simulated:
            return {"env_model": model if self.human_served else "embedded"} | human.asked()
        path, settings = human.user_prompt_path or self.world.user.prompt, dict[str, Json](env_model=model)
        if path:
            settings["user_prompt"] = prompt_digest(load_prompt(path))
        if not self.human_served:
            return settings
        return settings | self.world.user.settings(self.options) | human.asked()

    async def make_user(self, concurrency: int) -> User | None:
        """The simulated human, or the oracle, whom the caller closes; None where the world itself answers."""
        if self.world.user.by == "world":
            return None
        if self.human_served:
            return await self._served_user(concurrency)
        if not self.own_human:
            return self.world.user.make(self.world.name)
        own: User = USERS.make(self.human.env_model, self.world, flag="env_model")
        return own

    async def _served_user(self, concurrency: int) -> User:
        human, world, model = self.human, self.world, self.human.env_model
        asked = asked_with(human, "env")
        if not self.simulated:
            served = human.oracle == "openai"
            return world.user.make_oracle(
                human.oracle,
                ",".join(human.urls) if served else str(human.env_base_url),
                model=None if model in {"auto", "scripted"} else model,
                api_key=key_in(human.env_api_key_var),
                world=world.name,
                concurrency=concurrency,
                **({"retry": retry_of(human), **asked} if served else {}),
            )
        template = self.human_prompt()
        hint = f"The human's server is named by {PLACE_FLAGS}, its model by --env_model; {world.user.hint}"
        named: dict[str, Any] = {"key_var": human.env_api_key_var, "named_by": self.words(hint)}
        client = client_of(human.urls, human, max_connections=concurrency, **named, **asked)
        try:
            with self._in_words():
                model = await self._model_offered(client)
        except BaseException:
            await client.close()
            raise
        said: dict[str, Any] = {"options": self.options, "max_tokens": human.env_max_tokens}
        if human.env_system_prompt is not None:
            said["system_prompt"] = human.env_system_prompt
        return world.user.make_human(client, model, prompt=template, **said)

    async def _model_offered(self, client: OpenAIClient) -> str:
        """The name of the model that plays the human; where no server was named, the usual one is asked for it first."""
        model, named = self.human.env_model, self.human.server_named
        if named and model not in _HUMANS_HERE and not USERS.knows(model):
            return model
        try:
            offered = [str(one["id"]) for one in await client.models()]
        except ServiceError as error:
            if named or model == "auto":
                raise
            hint = f"{OWN_HUMAN} {_SERVER_FLAGS} The usual one: {error}"
            here = (*_HUMANS_HERE, *USERS.names())
            raise no_such("--env_model without a server", model, here, hint) from error
        url = shown(self.human.urls[0])
        if model == "auto":
            if not offered:
                raise UsageError(f"{url} offers no model; name one with --env_model.")
            return offered[0]
        if named and model not in offered:
            raise UsageError(
                f"--env_model {model} answers in this process, and {url} offers no model of that name (it offers "
                f"{', '.join(offered) or 'none'}). Leave out {PLACE_FLAGS}, or name another --env_model."
            )
        return model
