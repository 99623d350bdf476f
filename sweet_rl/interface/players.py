"""Agents and humans by name, by address, as objects, and as functions of the dialogue."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import os
import traceback
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from sweet_rl.chat import as_json, with_system
from sweet_rl.chat.formats import folder_of
from sweet_rl.cli.servers import key_in, vllm_server
from sweet_rl.contracts import Policy, User
from sweet_rl.errors import SweetRLError, UsageError, no_such
from sweet_rl.flags.models import VLLM
from sweet_rl.interface.parts import check_kinds, shown
from sweet_rl.policies import BASE_URL_VAR, POLICIES, engine_and_name
from sweet_rl.prompts import load_prompt
from sweet_rl.types import (
    Completion,
    Generation,
    Json,
    Message,
    Observation,
    StepResult,
    Task,
    UserContext,
    UserReply,
)
from sweet_rl.users import USERS
from sweet_rl.worlds import AgentRequest, Options, World

Speaker = Callable[[list[dict[str, str]]], str | Awaitable[str]]
"""A function of the dialogue: of messages as {"role": ..., "content": ...}, which says the next one."""

Agent = Policy | Speaker | str
Human = User | Speaker | str | None
Urls = str | Sequence[str] | None

_WITHOUT_MODEL = ("auto", "scripted", "embedded")
"""Names of who answers without a model."""


def name_of(one: Any) -> str:
    """What an agent or a human is called in the settings of a run; None is who answers without a model."""
    if one is None or isinstance(one, str):
        return engine_and_name(one or "auto")[1]
    return str(getattr(one, "name", None) or getattr(one, "__name__", type(one).__name__))


def check_player(one: Any, role: str, method: str, contract: str) -> None:
    """Find what an object or a function lacks before anything is played."""
    if inspect.isclass(one):
        raise UsageError(f"{role} is the class {one.__name__}: give an object of it, {one.__name__}().")
    if callable(one) and not hasattr(one, method):
        try:
            inspect.signature(one).bind([])
        except TypeError:
            raise UsageError(
                f"The {role} {name_of(one)}{inspect.signature(one)} is a function of the dialogue: it must take "
                "one argument, the list of messages ({'role': ..., 'content': ...}), and return a text."
            ) from None
        except ValueError:  # one that does not say what it takes
            pass
    elif not inspect.iscoroutinefunction(getattr(one, method, None)) or not hasattr(one, "name"):
        raise UsageError(
            f"{role} must be a name, a function of the messages that returns a text, or an object; {shown(one)}. "
            f"As an object it lacks a name or `async def {method}`; {contract} lists what it needs."
        )


class Named(NamedTuple):
    """A player by its name: what runs it ("own": it does itself), its name there, its servers."""

    engine: str
    name: str
    urls: Sequence[str] = ()

    @property
    def settings(self) -> dict[str, Json]:
        """What decides about a model's turns, besides its name."""
        model = self.engine in {"openai", "vllm", "transformers"}
        return {"temperature": 1.0, "max_tokens": 1024} if model else {}


def _urls(role: str, engine: str, given: Urls, flag: str) -> list[str]:
    """Where the servers of a player are; none where nothing is said."""
    if given is None and engine == "openai":
        given = os.environ.get(BASE_URL_VAR)
        if not given:
            raise UsageError(
                f"The {role} is behind a server: name it with {flag}='http://127.0.0.1:8000/v1', or in the "
                f"environment variable {BASE_URL_VAR}."
            )
    from sweet_rl.openai_client import base_url_from

    some = [given] if isinstance(given, str) else given or []
    if not (isinstance(some, Sequence) and all(isinstance(one, str) for one in some)):
        raise UsageError(f"{flag} must be an address like 'http://host:8000/v1', or a list; {shown(given)}.")
    return [url for one in some for url in base_url_from("", 0, one)]


def agent_named(agent: Agent, base_url: Urls, world: World) -> Named | None:
    """An agent that is named; None for an object or a function."""
    if not isinstance(agent, str):
        check_player(agent, "agent", "act", "sweet_rl.Policy")
        engine, name = None, name_of(agent)
    else:
        engine, name = engine_and_name(world.agents[0] if agent == "auto" and world.agents else agent)
        if engine == "scripted" and name not in world.agents:
            raise no_such(f"scripted agent of {world.name}", name, world.agents)
        if engine == "auto" and name in world.agents:
            engine = "scripted"
        elif engine == "auto" and base_url is not None:
            engine = "openai"
        elif engine == "auto" and POLICIES.knows(name):
            POLICIES.find(name)
            engine = "own"
        elif engine == "auto" and (
            folder_of(name) is not None or "/" in name or (name and Path(name).exists())
        ):
            engine = "transformers"
        elif engine == "auto":
            hint = (
                "A model is a folder, owner/name of the hub, smollm2 or embedded, or openai/NAME behind a server "
                "(base_url); your own: module:ATTRIBUTE."
            )
            raise no_such(f"agent of {world.name}", name, (*world.agents, *POLICIES.names()), hint)
    if engine != "openai" and base_url is not None:
        raise UsageError(
            f"base_url is the address of a model's server (agent='openai/NAME'), and the agent {name} is behind none."
        )
    return None if engine is None else Named(engine, name, _urls("agent", engine, base_url, "base_url"))


def prompt_for(agent: Agent, path: str | Path | None, world: World) -> str | None:
    """The instructions of an agent; None for an object that has its own."""
    check_kinds((str, Path, type(None)), "a file, or the name of a packaged prompt", agent_prompt=path)
    takes = isinstance(agent, str) or not hasattr(agent, "act") or _instructed(agent) is not None
    if takes:
        return load_prompt(str(path)) if path is not None else world.system_prompt()
    if path is not None:
        raise UsageError(f"The agent {agent!r} has its own instructions: leave agent_prompt out.")
    return None


def _instructed(policy: Any) -> Any:
    """The policy, or the one that it wraps, which is to be given instructions: its `system_prompt` is None."""
    while not hasattr(policy, "system_prompt") and hasattr(policy, "policy"):
        policy = policy.policy
    return policy if getattr(policy, "system_prompt", "") is None or id(policy) in _AT_PLAY else None


_AT_PLAY: dict[int, list[str]] = {}
"""The instructions that policies were given for as long as they play, by their identity."""


@contextmanager
def _giving(policy: Policy, prompt: str) -> Iterator[None]:
    """Give a policy that has no instructions of its own those of the world, until it has played."""
    one = _instructed(policy)
    if one is None:
        yield
        return
    given = _AT_PLAY.setdefault(id(one), [])
    if given and prompt not in given:
        raise UsageError(
            f"The agent {policy.name} plays another world at the moment, by other instructions: make a second "
            "object, or give it a system_prompt of its own."
        )
    given.append(prompt)
    one.system_prompt = prompt
    try:
        yield
    finally:
        given.pop()
        if not given:
            del _AT_PLAY[id(one)]
            one.system_prompt = None


async def agent_of(
    agent: Agent,
    named: Named | None,
    wanted: AgentRequest,
    world: World,
    stack: AsyncExitStack,
    concurrency: int,
) -> Policy:
    """The agent. One that is made from a name is closed with the stack; `wanted` is what a scripted one is built with."""
    if named is None:
        policy: Any = Own(agent, "agent", wanted.system_prompt, concurrency, stack)
        stack.enter_context(_giving(agent, wanted.system_prompt))  # type: ignore[arg-type]
        return policy  # type: ignore[no-any-return]
    prompt, seed = wanted.system_prompt, wanted.seed
    wanted = replace(wanted, name=named.name)
    if named.engine == "scripted":
        policy = await world.make_agent(wanted)
    elif named.engine == "own":
        policy = POLICIES.make(named.name, wanted, flag="agent")
    elif named.engine == "openai":
        from sweet_rl.openai_client import OpenAIClient
        from sweet_rl.policies.openai import OpenAIPolicy

        client = OpenAIClient(
            named.urls,
            api_key=key_in(None),
            max_connections=concurrency,
            named_by="base_url names the server, agent='openai/NAME' its model.",
        )
        policy = OpenAIPolicy(client, named.name, system_prompt=prompt, api="chat", seed=seed)
    elif named.engine == "vllm":
        from sweet_rl.policies.vllm import VLLMPolicy

        server = vllm_server(named.name, VLLM())
        policy = await VLLMPolicy.start(server, system_prompt=prompt, seed=seed, max_connections=concurrency)
    else:
        from sweet_rl.policies.transformers import TransformersPolicy  # needs torch

        policy = TransformersPolicy(named.name, system_prompt=prompt, seed=seed)
    stack.push_async_callback(policy.close)
    stack.enter_context(_giving(policy, prompt))
    if world.action_head is None or not named.settings:
        return policy  # type: ignore[no-any-return]
    from sweet_rl.policies.scripted import MarkovPolicy

    return MarkovPolicy(policy)


def human_named(human: Human, base_url: Urls, world: World) -> Named | None:
    """A human that is named: run by "world" (without a model), "own" or "openai"; None for an object."""
    if world.answered_by == "world":
        if human is not None or base_url is not None:
            raise UsageError(f"{world.name} asks no human: it answers by itself. Leave `human` out.")
        return Named("world", "auto")
    if human is not None and not isinstance(human, str):
        check_player(human, "human", "reply", "sweet_rl.User")
        if base_url is not None:
            raise UsageError(
                "human_base_url is the address of a model's server (human='openai/NAME'), and the human "
                f"{name_of(human)} is behind none."
            )
        return None
    engine, name = engine_and_name("auto" if human is None else human)
    if engine == "openai" or (engine == "auto" and base_url is not None):
        return Named("openai", name, _urls("human", "openai", base_url, "human_base_url"))
    if engine == "auto" and name in _WITHOUT_MODEL:
        return Named("world", name)
    if engine == "auto" and USERS.knows(name):
        USERS.find(name)
        return Named("own", name)
    hint = "One with a model is behind a server: openai/NAME, with human_base_url."
    raise no_such(f"human of {world.name}", human, (*_WITHOUT_MODEL, *USERS.names()), hint)


async def human_of(
    human: Human, named: Named | None, world: World, options: Options, stack: AsyncExitStack, concurrency: int
) -> User | None:
    """The human; None where the world itself answers. One that is made from a name is closed with the stack."""
    if named is None:
        return Own(human, "human", "", concurrency, stack)
    if world.answered_by == "world":
        return None
    if named.engine != "openai":
        user = USERS.make(named.name, world, flag="human") if named.engine == "own" else world.make_user()
    elif world.answered_by == "oracle":
        model = None if named.name in _WITHOUT_MODEL else named.name
        user = world.make_oracle(
            "openai",
            ",".join(named.urls),
            model=model,
            api_key=key_in(None),
            retry=None,
            concurrency=concurrency,
        )
    else:
        from sweet_rl.openai_client import OpenAIClient

        client = OpenAIClient(
            named.urls,
            api_key=key_in(None),
            max_connections=concurrency,
            named_by="human_base_url names the human's server, human='openai/NAME' its model.",
        )
        stack.push_async_callback(client.close)
        model = named.name
        if model == "auto":
            offered = await client.models()
            if not offered:
                raise UsageError(f"{named.urls[0]} offers no model; name one: human='openai/NAME'.")
            model = str(offered[0]["id"])
        user = world.make_model_user(
            client, model, prompt=load_prompt(str(world.user_prompt)), options=options
        )
    stack.push_async_callback(user.close)
    return user


class Own:
    """A person's own agent or human, an object or a function of the dialogue; what it says is looked at.

    A function that is no coroutine runs in threads, so that one which waits for a server stops no other
    episode. Its owner closes it.
    """

    def __init__(self, one: Any, role: str, system: str, at_once: int, stack: AsyncExitStack) -> None:
        self.name = name_of(one)
        self._one, self._system, self._whose = one, system, f"the {role} {self.name}"
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix=f"sweet_rl {role}")
        stack.callback(self._threads.shutdown, wait=False, cancel_futures=True)

    async def act(self, observation: Observation) -> Generation:
        """One turn."""
        if not hasattr(self._one, "act"):
            messages = with_system(self._system, observation.messages)
            return Generation(as_json(messages), Completion(await self._say(messages)))
        found = await self._one.act(observation)
        if (
            isinstance(found, Generation)
            and isinstance(found.input, str)
            and isinstance(found.completion, Completion)
            and isinstance(found.completion.text, str)
        ):
            return found
        raise _wrong(
            f"`act` of {self._whose}", found, "sweet_rl.Generation(prompt, sweet_rl.Completion(text))"
        )

    async def reply(self, context: UserContext) -> UserReply:
        """The human's answer."""
        if not hasattr(self._one, "reply"):
            return UserReply(await self._say(with_system(context.hidden_information, context.messages)))
        found = await self._one.reply(context)
        if isinstance(found, UserReply) and isinstance(found.content, str):
            return found
        raise _wrong(f"`reply` of {self._whose}", found, "sweet_rl.UserReply(content)")

    async def close(self) -> None:
        """Do nothing: its owner closes it."""

    async def _say(self, messages: Sequence[Message]) -> str:
        function = self._one
        dialogue = [{"role": one.role, "content": one.content} for one in messages]

        def call() -> tuple[Any, Exception | None]:  # a StopIteration would never come out of the thread
            try:
                return function(dialogue), None
            except Exception as error:  # noqa: BLE001 - it is raised outside
                return None, error

        try:
            if inspect.iscoroutinefunction(function):
                said = await function(dialogue)
            else:
                context = contextvars.copy_context()
                said, failed = await asyncio.get_running_loop().run_in_executor(
                    self._threads, context.run, call
                )
                if failed is not None:
                    raise failed
                if inspect.isawaitable(said):
                    said = await said
        except SweetRLError:
            raise
        except Exception as error:
            file = getattr(getattr(inspect.unwrap(function), "__code__", None), "co_filename", None)
            frames = traceback.extract_tb(error.__traceback__)
            at = next((one for one in reversed(frames) if one.filename == file), frames[-1])
            raise UsageError(
                f"T{self._whose[1:]} raised {type(error).__name__}: {error} (file {at.filename}, line "
                f"{at.lineno}, in {at.name}: {at.line}). That ends the run, and is no score. Where only one episode "
                "cannot go on, raise sweet_rl.errors.EpisodeError."
            ) from error
        if not isinstance(said, str):
            raise _wrong(self._whose, said, "the text of its turn, a str")
        return said


class OwnEnv:
    """An episode in a person's own world; what it returns is looked at."""

    def __init__(self, env: Any, world: str) -> None:
        self._env, self._whose = env, f"the world {world}"

    async def reset(self, task: Task, *, seed: int) -> Observation:
        found = await self._env.reset(task, seed=seed)
        if isinstance(found, Observation) and all(isinstance(one, Message) for one in found.messages):
            return found
        raise _wrong(f"`reset` of {self._whose}", found, "sweet_rl.Observation(task_id, messages, seed)")

    async def step(self, action: str) -> StepResult:
        found = await self._env.step(action)
        if isinstance(found, StepResult):
            return found
        raise _wrong(
            f"`step` of {self._whose}", found, "sweet_rl.StepResult(content, output, observation, ...)"
        )

    async def close(self) -> None:
        await self._env.close()


def _wrong(what: str, found: object, wanted: str) -> UsageError:
    """The error for what a person's own part has returned."""
    hint = " A way through it ends without `return`." if found is None else ""
    if inspect.iscoroutine(found):
        found.close()
        hint = " Put `await` before the call that it returns."
    return UsageError(f"{what[0].upper()}{what[1:]} must return {wanted}; {shown(found)}.{hint}")
