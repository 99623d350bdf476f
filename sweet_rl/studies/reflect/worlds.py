"""The worlds of `demo_reflect`: how much is learned in each, which methods are compared, what bounds them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final, NamedTuple

TAXI, EXPLORE, MOVED, HOUSEHOLD = "taxi", "auto_explore", "two_hops", "alfworld"
WORLDS: Final = (TAXI, EXPLORE, MOVED, HOUSEHOLD)
USUAL: Final = (TAXI,)  # What the demo runs where none is named: minutes

BEST: Final = "best"  # Texts of the recorded states with the teacher's actions, where the driver took others

LONG: Final = "sft_long"
"""Those of `sft`, for as many updates as a policy with reflections and its reflection model have together."""

HOPS: Final[Mapping[str, int]] = {EXPLORE: 1, MOVED: 2}  # Of worlds of repositories: how far an answer is


class Tuning(NamedTuple):
    updates: int
    rate: float = 1e-3


class Online(NamedTuple):
    """An online run; at a rate of 1e-3 policies learn to give up at once, as an early end costs less."""

    iterations: int
    episodes: int
    rate: float


@dataclass(frozen=True, slots=True)
class Amount:
    """How much is learned in a world, and how; `easier` are flags of the levels before the `whole` task."""

    sft: Tuning
    policy: Tuning
    reflection: Tuning
    rl: Online
    sft_rl: Online
    reflect_rl: Online
    reflection_tokens: int
    points: bool = False
    phrases: bool = False
    names: bool = False
    focus: float = 1.0
    copies: bool = False
    easier: Mapping[str, Any] = field(default_factory=dict)
    whole: Mapping[str, Any] = field(default_factory=dict)

    def tuning(self, kind: str) -> Tuning:
        if kind == LONG:
            return self.sft._replace(updates=self.policy.updates + self.reflection.updates)
        return {"policy": self.policy, "reflection": self.reflection}.get(kind.partition("_")[0], self.sft)

    def online(self, key: str) -> Online:
        return {"rl": self.rl, "sft_rl": self.sft_rl, "sft_long_rl": self.sft_rl}.get(key, self.reflect_rl)


@dataclass(frozen=True, slots=True)
class Method:
    """One way to make a policy; `key` is its name in files.

    Attributes:
        texts: fine-tuned on `sft` (no reflections), `sft_long` (for longer), `best` (the teacher's actions in
    the same states), `policy` (with reflections), `policy_positive` (without wrong ways), or nothing.
        online: iterations of reinforcement learning follow, on easier levels first if `curriculum`.
        policy_of: the method whose policy is measured again, every state with the reflection of another.
        agent: an agent of the world that is measured; or a `linear` policy, fitted to the texts.
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
        return self.texts.startswith("policy")

    @property
    def reflection_texts(self) -> str:
        return self.texts.replace("policy", "reflection")

    @property
    def tuned(self) -> bool:
        return bool(self.texts) and not self.linear

    @property
    def ablates(self) -> bool:
        """It is Reflect-RL without one of its parts, or as much work without thoughts; trained for that alone."""
        return not self.curriculum or self.texts in {"policy_positive", LONG}

    @property
    def bound(self) -> bool:
        return bool(self.agent) or self.linear or self.texts == BEST


SETTINGS: Final[dict[str, Any]] = tomllib.loads(
    files(__package__).joinpath("settings.toml").read_text("utf-8")
)


def _amount(*, compared: object, **given: Any) -> Amount:
    rows = {name: (Online if len(e) == 3 else Tuning)(*e) for name, e in given.items() if isinstance(e, list)}
    return Amount(**{**given, **rows})


AMOUNTS: Final = {world: _amount(**given) for world, given in SETTINGS["worlds"].items()}

METHODS: Final[Mapping[str, Sequence[Method]]] = {  # What is compared in each world
    world: tuple(Method(**{"key": name, **SETTINGS["methods"][name]}) for name in given["compared"])
    for world, given in SETTINGS["worlds"].items()
}

MAIN_METHODS: Final[Mapping[str, Sequence[Method]]] = {
    world: tuple(method for method in methods if not method.ablates) for world, methods in METHODS.items()
}
"""Without what shows where the difference comes from: minutes less."""
