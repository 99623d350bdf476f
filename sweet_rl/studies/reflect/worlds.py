"""The worlds of `demo_reflect`: how much is learned in each, which methods are compared, what bounds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

TAXI, EXPLORE, MOVED, HOUSEHOLD = "taxi", "auto_explore", "two_hops", "alfworld"
WORLDS: Final = (TAXI, EXPLORE, MOVED, HOUSEHOLD)
USUAL: Final = (TAXI, EXPLORE)
"""What the demo runs where none is named; the settings of the other two are not chosen by trials yet."""

HOPS: Final[Mapping[str, int]] = {EXPLORE: 1, MOVED: 2}
"""Of worlds of repositories: how far an answer is."""


@dataclass(frozen=True, slots=True)
class Amount:
    """How much is learned in a world, and how.

    Attributes:
        updates: of a policy's fine-tuning.
        reflection_updates: of a reflection model's; what it writes is longer than an action.
        iterations: of an online run.
        episodes: of an iteration.
        online_rate: learning rate of the online runs. At 1e-3 policies learn to give up at once, as an early
            end costs less than a late failure.
        reflection_tokens: of a reflection at most; those of the teacher are shorter.
        points: policies point at commands; else they write labels.
        phrases: what texts repeat literally is one token.
        easier: flags of the levels that come before the whole task.
        whole: flags of the whole task alone.
    """

    updates: int
    reflection_updates: int
    iterations: int
    episodes: int
    online_rate: float
    reflection_tokens: int
    points: bool = False
    phrases: bool = False
    easier: Mapping[str, Any] = field(default_factory=dict)
    whole: Mapping[str, Any] = field(default_factory=dict)


_DEPTHS: Final = {"depth_curriculum": True}

AMOUNTS: Final[Mapping[str, Amount]] = {
    TAXI: Amount(
        600,
        2000,
        30,
        32,
        online_rate=5e-4,
        reflection_tokens=40,
        phrases=True,
        easier={"taxi_curriculum": True},
        whole={"taxi_curriculum": True, "curriculum_index": 2},
    ),
    EXPLORE: Amount(500, 800, 20, 16, online_rate=2e-4, reflection_tokens=64, easier=_DEPTHS),
    MOVED: Amount(500, 1500, 20, 16, online_rate=2e-4, reflection_tokens=64, points=True, easier=_DEPTHS),
    HOUSEHOLD: Amount(500, 1500, 20, 16, online_rate=2e-4, reflection_tokens=80, points=True),
}
"""In minutes on two cores."""


@dataclass(frozen=True, slots=True)
class Method:
    """One way to make a policy.

    Attributes:
        key: name in files.
        texts: fine-tuned on `sft` (no reflections), `policy` (with), `policy_positive` (with, but without
            wrong ways), or on nothing.
        online: iterations of reinforcement learning follow.
        curriculum: these begin with easier levels.
        policy_of: key of the method whose policy this one measures again, every state with the reflection of
            another; nothing is trained.
        agent: an agent of the world that is measured; nothing is trained.
        linear: a linear policy is fitted to the texts, when it is measured.
    """

    key: str
    texts: str = ""
    online: bool = False
    curriculum: bool = True
    policy_of: str = ""
    agent: str = ""
    linear: bool = False

    @property
    def reflects(self) -> bool:
        """Whether a reflection model thinks before."""
        return self.texts.startswith("policy")

    @property
    def reflection_texts(self) -> str:
        """What that model is fine-tuned on."""
        return self.texts.replace("policy", "reflection")

    @property
    def tuned(self) -> bool:
        """Whether a model is fine-tuned on the texts."""
        return bool(self.texts) and not self.linear

    @property
    def once(self) -> bool:
        """It is the same whatever the seed of the models: measured once."""
        return bool(self.agent) or (self.linear and not self.reflects)


def _bounds(floor: str) -> tuple[Method, ...]:
    """What every table has beside the methods: a ceiling and floors."""
    return (
        Method("planner", agent="planner"),
        Method("random", agent=floor),
        Method("linear", "sft", linear=True),
        Method("linear_reflect", "policy", linear=True),
    )


_MAIN: Final = (
    Method("sft", "sft"),
    Method("rl", online=True),
    Method("reflect_sft", "policy"),
    Method("reflect_rl", "policy", online=True),
)
_SWAPPED: Final = Method("reflect_rl_swapped", "policy", online=True, policy_of="reflect_rl")
_POSITIVE: Final = Method("reflect_rl_positive", "policy_positive", online=True)

METHODS: Final[Mapping[str, Sequence[Method]]] = {
    TAXI: (
        *_MAIN,
        Method("reflect_rl_flat", "policy", online=True, curriculum=False),
        _SWAPPED,
        *_bounds("random"),
    ),
    EXPLORE: (*_MAIN, _POSITIVE, _SWAPPED, *_bounds("wanderer")),
    MOVED: (*_MAIN, _POSITIVE, _SWAPPED, *_bounds("wanderer")),
    HOUSEHOLD: (*_MAIN, _SWAPPED, *_bounds("random")),
}
"""What is compared in each world."""
