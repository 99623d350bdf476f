"""Players of text games without a model: one that tries what is listed, and one that knows the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from sweet_rl.errors import UsageError
from sweet_rl.policies.scripted import ScriptedPolicy
from sweet_rl.types import Observation, derive_seed
from sweet_rl.worlds.adventures.scenes import listed_actions

NOTHING_LISTED = "look"
"""The reply where an observation lists no action."""


class RandomAdventurer(ScriptedPolicy):
    """Takes any of the actions that the last observation lists, each as likely: the floor.

    The same episode seed draws the same actions from the same observations.
    """

    name = "random"

    def _say(self, observation: Observation) -> str:
        actions = listed_actions(observation.messages[-1].content) or (NOTHING_LISTED,)
        return Random(derive_seed(observation.seed, observation.turn)).choice(actions)


class WalkthroughPolicy(ScriptedPolicy):
    """Is given the way through every task and takes it: the ceiling."""

    name = "walkthrough"

    def __init__(self, routes: Mapping[str, Sequence[str]], *, system_prompt: str = "") -> None:
        super().__init__(system_prompt)
        self._routes = routes

    def _say(self, observation: Observation) -> str:
        route = self._routes.get(observation.task_id)
        if route is None:
            raise UsageError(
                f"The walkthrough agent was given no way through the task {observation.task_id!r}; "
                "give it the routes of exactly the tasks that are played."
            )
        return route[observation.turn] if observation.turn < len(route) else NOTHING_LISTED
