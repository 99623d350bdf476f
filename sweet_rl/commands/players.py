"""Scripted agents of the games, by the names that `--agent_model` knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sweet_rl.contracts import Policy
from sweet_rl.types import Task

if TYPE_CHECKING:
    from sweet_rl.commands.parts import AgentFlags


def scripted_player(flags: AgentFlags, tasks: Sequence[Task], system_prompt: str) -> Policy:
    """The agent that the flags name; they were checked."""
    if flags.task_type == "webshop":
        from sweet_rl.policies.shopper import ShopperPolicy

        return ShopperPolicy(flags.model, max_steps=flags.max_steps, system_prompt=system_prompt)
    if flags.task_type in {"detective", "lantern"}:
        from sweet_rl.policies import adventurer

        if flags.model == "random":
            return adventurer.RandomAdventurer(system_prompt=system_prompt)
        return adventurer.WalkthroughAdventurer(system_prompt=system_prompt)
    if flags.task_type == "guess_my_city":
        from sweet_rl.policies.city_asker import CityAsker

        return CityAsker()
    from sweet_rl.policies.object_asker import ObjectAsker

    return ObjectAsker(words=[task.hidden_information for task in tasks], system_prompt=system_prompt)
