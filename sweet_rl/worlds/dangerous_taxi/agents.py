"""Drivers of DangerousTaxi without a model: one that knows the shortest way, one that often forgets it.

Published behaviour: docs/published/reflect_rl.md#data-of-recorded-states.
"""

from __future__ import annotations

from random import Random
from typing import Final

from sweet_rl.policies.scripted import ScriptedPolicy, skill_of
from sweet_rl.types import Observation, derive_seed
from sweet_rl.worlds.dangerous_taxi.game import read_state
from sweet_rl.worlds.dangerous_taxi.rules import LABELS, plan

SKILLS: Final = {"planner": 1.0, "careless": 0.1, "random": 0.0}
"""How often each driver plans; the published data generator in one step of ten."""


class TaxiDriver(ScriptedPolicy):
    """Reads the last picture; with probability `skill` takes the oracle's next step, else any of the six.

    The picture tells everything, so nothing hidden is needed. The same episode seed draws the same steps.

    Args:
        skill: how often it plans, 0 to 1; None for what its name says.
    """

    def __init__(self, name: str = "planner", *, skill: float | None = None, system_prompt: str = "") -> None:
        super().__init__(system_prompt)
        self.name = name
        self._skill = skill_of("driver", name, skill, SKILLS)

    def _say(self, observation: Observation) -> str:
        rng = Random(derive_seed(observation.seed, observation.turn, "taxi driver"))
        if rng.random() >= self._skill:
            return rng.choice(LABELS)
        state = read_state(observation.messages[-1].content)
        way = () if state is None else plan(state)
        return LABELS[way[0]] if way else LABELS[0]
