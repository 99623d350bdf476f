"""Agents and humans by name, by address, as objects, and as functions of the dialogue."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import os
import traceback
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from sweet_rl.chat import as_json, with_system
from sweet_rl.contracts import Policy, User
from sweet_rl.errors import SweetRLError, UsageError, no_such
from sweet_rl.interface.parts import check_kinds, shown
from sweet_rl.players import HumanFlags, PlayerFlags
from sweet_rl.players.cast import Cast
from sweet_rl.policies import BASE_URL_VAR, engine_and_name, instructed
from sweet_rl.prompts import load_prompt
from sweet_rl.types import (
    Completion,
    Generation,
    Message,
    Observation,
    StepResult,
    Task,
    UserContext,
    UserReply,
)
from sweet_rl.users import USERS
from sweet_rl.worlds import Options, World

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


CALLED = {
    "for --world": "of",
    "add --agent transformers, vllm or openai": "write openai/NAME (behind base_url) or vllm/NAME. Your own: module:ATTRIBUTE",
    "--agent openai needs --agent_base_url": "openai/NAME needs base_url",
    "--agent_base_url": "base_url",
    "--agent_model": "agent",
    "--hostname and --port, or --env_base_url": "human_base_url",
    "--env_model": "human",
}
"""What settings of a cast are called here."""


def _urls(role: str, given: Urls, flag: str, *, needed: bool) -> str | None:
    """Where the servers of a player are; None where nothing is said, and nothing is needed."""
    if given is None:
        if needed and not (given := os.environ.get(BASE_URL_VAR)):
            raise UsageError(
                f"The {role} is behind a server: name it with {flag}='http://127.0.0.1:8000/v1', or in the "
                f"environment variable {BASE_URL_VAR}."
            )
        return given
    some = [given] if isinstance(given, str) else given
    if not (isinstance(some, Sequence) and all(isinstance(one, str) for one in some)):
        raise UsageError(f"{flag} must be an address like 'http://host:8000/v1', or a list; {shown(given)}.")
    return ",".join(some) or None


def cast_of(
    world: World,
    options: Options,
    agent: Agent,
    base_url: Urls,
    agent_prompt: str | Path | None,
    human: Human,
    human_base_url: Urls,
    seed: int,
) -> Cast:
    """Who plays, as names say it; objects and functions are looked at, and left to `Own`.

    Raises:
        UsageError: there is no such agent or human, or an address belongs to neither.
    """
    engine, name = "auto", "auto"
    if isinstance(agent, str):
        engine, name = engine_and_name(agent)
    else:
        check_player(agent, "agent", "act", "sweet_rl.Policy")
    named = PlayerFlags(
        agent=engine,
        agent_model=name,
        agent_base_url=_urls("agent", base_url, "base_url", needed=engine == "openai"),
        agent_api="chat",
        agent_prompt_path=None if agent_prompt is None else str(agent_prompt),
        server_wait_s=0,
    )
    answers = HumanFlags(server_wait_s=0)
    if world.user.by == "world":
        if human is not None or human_base_url is not None:
            raise UsageError(f"{world.name} asks no human: it answers by itself. Leave `human` out.")
    elif human is None or isinstance(human, str):
        engine, name = engine_and_name("auto" if human is None else human)
        url = _urls("human", human_base_url, "human_base_url", needed=engine == "openai")
        if url is None and name not in _WITHOUT_MODEL and not USERS.knows(name):
            hint = "One with a model is behind a server: openai/NAME, with human_base_url."
            raise no_such(f"human of {world.name}", human, (*_WITHOUT_MODEL, *USERS.names()), hint)
        here = "embedded" if world.user.by == "oracle" else "scripted"
        name = here if url is None and name in _WITHOUT_MODEL else name
        answers = replace(answers, env_model=name, env_base_url=url)
    else:
        check_player(human, "human", "reply", "sweet_rl.User")
        if human_base_url is not None:
            raise UsageError(
                "human_base_url is the address of a model's server (human='openai/NAME'), and the human "
                f"{name_of(human)} is behind none."
            )
    cast = Cast(world=world, options=options, agent=named, human=answers, seed=seed, called=CALLED)
    if isinstance(agent, str):
        cast.check_agent()
    if base_url is not None and (not isinstance(agent, str) or cast.engine != "openai"):
        raise UsageError(
            "base_url is the address of a model's server (agent='openai/NAME'), and the agent "
            f"{name_of(agent)} is behind none."
        )
    if human is None or isinstance(human, str):
        cast.check_human()
    return cast


def prompt_for(agent: Agent, path: str | Path | None, world: World) -> str | None:
    """The instructions of an agent; None for an object that has its own."""
    check_kinds((str, Path, type(None)), "a file, or the name of a packaged prompt", agent_prompt=path)
    takes = isinstance(agent, str) or not hasattr(agent, "act") or instructed(agent) is not None
    if takes:
        return load_prompt(str(path)) if path is not None else world.system_prompt()
    if path is not None:
        raise UsageError(f"The agent {agent!r} has its own instructions: leave agent_prompt out.")
    return None


class Own:
    """A person's own agent or human, an object or a function of the dialogue; what it says is looked at.

    A function that is no coroutine runs in threads, so that one which waits for a server stops no other
    episode. Its owner closes it.
    """

    def __init__(self, one: Any, role: str, system: str, at_once: int, stack: AsyncExitStack) -> None:
        self.name = name_of(one)
        self.policy, self._one, self._system, self._whose = one, one, system, f"the {role} {self.name}"
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
