"""Arguments of the interface, by name or as objects: worlds' options, tasks, agents, humans."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from sweet_rl.chat.names import folder_of
from sweet_rl.contracts import Policy, User
from sweet_rl.errors import UsageError, no_such
from sweet_rl.policies import POLICIES
from sweet_rl.prompts import load_prompt
from sweet_rl.records import task_from_row, unique_tasks
from sweet_rl.types import Json, Task
from sweet_rl.users import USERS
from sweet_rl.worlds import AgentRequest, Options, World, check_tasks, load_tasks, names, world_of

Tasks = str | Iterable[Task | Mapping[str, Json]]
"""The name of a list or a file, or tasks themselves: as objects, or as rows of a task file."""

_WITHOUT_MODEL = ("auto", "scripted", "embedded")
"""Names of who answers without a model."""


def options_for(world: World, options: Options | Mapping[str, Json] | None) -> Options:
    """A world's options.

    Raises:
        UsageError: an option is another world's, or no world's.
    """
    if isinstance(options, Options):
        if not isinstance(options, world.options):
            raise UsageError(f"{world.name} takes {world.options.__name__}, got {options!r}.")
        return options
    given, known = dict(options or {}), [one.name for one in fields(world.options)]
    for name in given:
        if name in known:
            continue
        others = [other for other in names() if name in {one.name for one in fields(world_of(other).options)}]
        hint = f"{name} is an option of {', '.join(others)}." if others else ""
        raise no_such(f"option of {world.name}", name, known, hint)
    return world.options(**given)


def tasks_for(world: World, tasks: Tasks | None, num_tasks: int | None) -> list[Task]:
    """What is played.

    Raises:
        UsageError: there are no tasks, or they are another world's.
        DataError: a row is no task.
    """
    if tasks is None or isinstance(tasks, str):
        source = tasks if tasks is not None else world.test_tasks
        some = load_tasks(source, num_tasks=num_tasks, world=world)
    else:
        source = "tasks"
        some = [one if isinstance(one, Task) else task_from_row(one) for one in tasks]
        some = unique_tasks(some)[:num_tasks]
    check_tasks(world, some, source)
    return some


def name_of(one: Any) -> str:
    """What an agent or a human is called in the settings of a run; None is who answers without a model."""
    if one is None or isinstance(one, str):
        return one or "auto"
    return str(getattr(one, "name", one))


def prompt_for(agent: Policy | str, path: str | None, world: World) -> str | None:
    """The instructions of an agent that is named; None for an object, which has its own.

    Raises:
        UsageError: there is no such prompt, or an object is to have another one.
    """
    if isinstance(agent, str):
        return load_prompt(path) if path is not None else world.system_prompt()
    if path is not None:
        raise UsageError(f"The agent {agent!r} has its own instructions: leave agent_prompt out.")
    return None


async def agent_of(agent: Policy | str, wanted: AgentRequest, world: World, stack: AsyncExitStack) -> Policy:
    """The agent. One that is made from a name is closed with the stack.

    Args:
        agent: an object, or a name.
        wanted: what a scripted agent is built with; its name is added here.
        world: that is played.
        stack: of what is closed.

    Raises:
        UsageError: an unknown name; no agent.
    """
    if not isinstance(agent, str):
        _check(agent, "act", "agent", "sweet_rl.Policy")
        return agent
    name = world.agents[0] if agent == "auto" and world.agents else agent
    if name in world.agents:
        policy = await world.make_agent(replace(wanted, name=name))
    elif POLICIES.knows(name):
        policy = POLICIES.make(name, replace(wanted, name=name), flag="agent")
    elif _is_model(name):
        policy = _model(name, wanted, world)
    else:
        hint = "A model is a folder, owner/name of the hub, smollm2 or embedded; your own: module:ATTRIBUTE."
        raise no_such(f"agent of {world.name}", name, (*world.agents, *POLICIES.names()), hint)
    stack.push_async_callback(policy.close)
    return policy


def _is_model(name: str) -> bool:
    return folder_of(name) is not None or "/" in name or Path(name).exists()


def _model(name: str, wanted: AgentRequest, world: World) -> Policy:
    from sweet_rl.policies.transformers import TransformersPolicy  # needs torch

    policy = TransformersPolicy(name, system_prompt=wanted.system_prompt, seed=wanted.seed)
    if world.action_head is None:
        return policy
    from sweet_rl.policies.markov import MarkovPolicy

    return MarkovPolicy(policy)


async def human_of(human: User | str | None, world: World, stack: AsyncExitStack) -> User | None:
    """The human; None where the world itself answers. One that is made from a name is closed with the stack.

    Raises:
        UsageError: an unknown name; no human; a human for a world that asks none.
    """
    if world.answered_by == "world":
        if human is not None:
            raise UsageError(f"{world.name} asks no human: it answers by itself. Leave `human` out.")
        return None
    if human is not None and not isinstance(human, str):
        _check(human, "reply", "human", "sweet_rl.User")
        return human
    if human is None or human in _WITHOUT_MODEL:
        user = world.make_user()
    elif USERS.knows(human):
        user = USERS.make(human, world, flag="human")
    else:
        hint = "One with a model is an object, such as sweet_rl.users.openai.OpenAIUser."
        raise no_such(f"human of {world.name}", human, (*_WITHOUT_MODEL, *USERS.names()), hint)
    stack.push_async_callback(user.close)
    return user


def _check(one: object, method: str, kind: str, contract: str) -> None:
    """Find what an object lacks before anything is played."""
    if not inspect.iscoroutinefunction(getattr(one, method, None)) or not hasattr(one, "name"):
        raise UsageError(
            f"The {kind} {one!r} lacks a name or `async def {method}`; {contract} lists what it needs."
        )
