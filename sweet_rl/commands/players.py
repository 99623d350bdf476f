"""Scripted agents of the games, by the names that `--agent_model` knows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from sweet_rl.commands.agent_flags import SCRIPTED_AGENTS, AgentFlags
from sweet_rl.commands.games import QUESTION_GAMES
from sweet_rl.contracts import Policy
from sweet_rl.errors import UsageError, no_such
from sweet_rl.policies.scripted import ScriptedPolicy
from sweet_rl.types import Task


async def scripted_player(flags: AgentFlags, tasks: Sequence[Task], system_prompt: str) -> Policy:
    """The agent that the flags name; they were checked.

    Raises:
        UsageError: the world has no such player; the game file or its package is missing.
    """
    player = await _player(flags, tasks, system_prompt)
    if flags.tokenizer:
        from sweet_rl.chat import TokenizerChat

        player.chat_format = TokenizerChat.from_pretrained(flags.tokenizer)
    return player


async def _player(flags: AgentFlags, tasks: Sequence[Task], system_prompt: str) -> ScriptedPolicy:
    if flags.task_type == "webshop":
        from sweet_rl.policies.shopper import ShopperPolicy

        return ShopperPolicy(flags.model, max_steps=flags.max_steps, system_prompt=system_prompt)
    if flags.task_type in {"dangerous_taxi", "auto_explore", "alfworld"}:
        return _chooser(flags, tasks, system_prompt)
    if flags.task_type in {"detective", "lantern"}:
        from sweet_rl.policies.adventurer import RandomAdventurer, WalkthroughPolicy

        if flags.model == "random":
            return RandomAdventurer(system_prompt=system_prompt)
        if flags.model == "walkthrough":
            return WalkthroughPolicy(await _routes(flags, tasks), system_prompt=system_prompt)
    if flags.task_type in QUESTION_GAMES and flags.model == "asker":
        return _asker(flags, tasks, system_prompt)
    raise _no_player(flags)


def _no_player(flags: AgentFlags) -> UsageError:
    return no_such(f"player of {flags.task_type}", flags.model, SCRIPTED_AGENTS.get(flags.task_type, ()))


def _asker(flags: AgentFlags, tasks: Sequence[Task], system_prompt: str) -> ScriptedPolicy:
    words = [task.hidden_information for task in tasks]
    more: dict[str, Any] = {
        "skill": 1.0 if flags.skill is None else flags.skill,
        "max_turns": flags.max_steps,
        "system_prompt": system_prompt,
    }
    if flags.task_type == "guess_my_city":
        from sweet_rl.policies.city_asker import CityAsker
        from sweet_rl.users.oracles.cities import CityOracle

        return CityAsker(CityOracle().answer, words, **more)
    if flags.task_type != "twenty_questions":
        raise _no_player(flags)
    from sweet_rl.policies.object_asker import ObjectAsker
    from sweet_rl.users.oracles.objects import answer

    return ObjectAsker(answer, words, **more)


def _chooser(flags: AgentFlags, tasks: Sequence[Task], system_prompt: str) -> ScriptedPolicy:
    """Players of Reflect-RL's worlds, who choose labels."""
    if flags.task_type == "dangerous_taxi":
        from sweet_rl.policies.taxi_driver import TaxiDriver

        return TaxiDriver(flags.model, skill=flags.skill, system_prompt=system_prompt)
    if flags.task_type == "alfworld":
        return _household_player(flags, tasks, system_prompt)
    if flags.task_type != "auto_explore":
        raise _no_player(flags)
    from sweet_rl.policies.explorer import PlanningExplorer, Wanderer

    if flags.model == "wanderer":
        return Wanderer(system_prompt=system_prompt)
    if flags.model != "planner":
        raise _no_player(flags)
    targets = {task.task_id: task.ground_truth for task in tasks}
    return PlanningExplorer(targets, system_prompt=system_prompt)


def _household_player(flags: AgentFlags, tasks: Sequence[Task], system_prompt: str) -> ScriptedPolicy:
    """With a planner of its own: a worker process, started when it is first asked."""
    from sweet_rl.envs.alfworld import Household
    from sweet_rl.policies.householder import HouseholdPlayer

    household = Household(workers=1)

    async def plan(source: str, done: Sequence[str]) -> Sequence[str]:
        return await asyncio.to_thread(household.plan, source, done)

    return HouseholdPlayer(
        flags.model,
        plan,
        {task.task_id: str(task.row.get("game")) for task in tasks},
        skill=flags.skill,
        system_prompt=system_prompt,
        on_close=household.close,
    )


async def _routes(flags: AgentFlags, tasks: Sequence[Task]) -> dict[str, tuple[str, ...]]:
    """The way through every task of an adventure."""
    if flags.task_type == "lantern":
        from sweet_rl.envs.adventure.lantern_solver import solve

        return {task.task_id: solve(int(task.row.get("variant", 0))) for task in tasks}
    from sweet_rl.envs.adventure.detective import open_detective

    interpreters = open_detective(flags.game_place)
    try:
        route = await interpreters.walkthrough()
    finally:
        interpreters.close()
    return {task.task_id: route for task in tasks}
