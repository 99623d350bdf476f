"""What the mini study is made of: its sizes, its ways of SWEET-RL, and the settings of every method."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

MAIN_WAYS = ("sweet", "sweet_blind", "sweet_wrong")  # The forms of SWEET-RL that the claim is about


@dataclass(frozen=True, slots=True)
class Study:
    """What a study is made of; `candidates` are sampled for a turn, in `candidates_of` dialogues of each task."""

    folder: Path
    agent: str
    human: str
    seed: int = 0
    world: str = "trades=10"
    train_tasks: int = 600
    repeats: int = 4
    test_split: str = "test"
    test_tasks: int = 500
    candidates: int = 16
    candidates_of: int = 4
    pairs_per_turn: int = 2
    ways: tuple[str, ...] = MAIN_WAYS
    best_of: tuple[int, ...] = ()
    page_tasks: int = 0
    prefix: str = ""

    def path(self, name: str) -> Path:
        return self.folder / f"{self.prefix}{name}"

    @property
    def trades(self) -> int | None:
        from sweet_rl.mini.backend.tasks import TRADES, world_of

        found: int | None = world_of(self.world).fields.get(TRADES)
        return found

    @property
    def dialogues(self) -> Path:
        return self.path("offline.jsonl")

    @property
    def sampled(self) -> Path:
        return self.path("sampled.jsonl")

    def ranked(self, way: str) -> Path:
        return self.path(f"{way}.ranked.jsonl")

    def pairs(self, way: str) -> Path:
        return self.path(f"{way}.pairs.jsonl")

    def critic(self, name: str) -> Path | str:
        return self.agent if name == UNTRAINED else self.path(name)

    def measured(self, name: str) -> Path:
        return self.path(f"{name}.test.jsonl")


# Of every training
TRAIN = {"train_batch_size": 32, "micro_train_batch_size": 32, "eval_fraction": 0, "quiet": True}

# The best of their grids on mini:trades=40:dev and mini:trades=10:dev with seed 0, by benchmarks/mini_settings.py.
CRITIC = {"learning_rate": 1e-4, "max_epochs": 4, "beta": 100.0}
BLIND_CRITIC = {"learning_rate": 1e-4, "max_epochs": 4, "beta": 10.0}
POLICY = {"learning_rate": 1e-3, "beta": 0.3, "nll_loss_coef": 0.3, "max_epochs": 2}
BLIND_POLICY = {"learning_rate": 1e-3, "beta": 0.3, "nll_loss_coef": 0.1, "max_epochs": 2}
DIALOGUE_DPO = {"learning_rate": 3e-4, "beta": 0.3, "nll_loss_coef": 1.0, "max_epochs": 32}
REJECTION = {"learning_rate": 1e-3, "max_epochs": 40}

GUARDS = {"hard_negatives": 1, "twins": 0.33}  # What holds a policy while it learns from pairs of turns
UNTRAINED = "untrained"  # The critic that is the agent before any training
ORACLE = "oracle"  # Instead of a critic: who knows what a turn is worth

# Critics that choose among turns at test time, and what they see
CHOOSERS = {"critic": "solution", "critic_blind": "dialogue", UNTRAINED: "solution"}


def chosen_by(critic: str, turns: int) -> str:
    """Name of the agent that takes the best of so many turns by a critic of `CHOOSERS`."""
    return f"best_of_{turns}_by_{critic}"


LINES = (
    "insider",
    "expert",
    "random",
)  # Know the true prior, teach, and forget: they bound what can be reached


@dataclass(frozen=True, slots=True)
class Sweet:
    """One way of SWEET-RL: its critic, whose solution that is given, how scores become pairs (`margin` apart)."""

    name: str
    critic: str = "critic"
    given: Literal["own", "wrong", "none"] = "own"
    advantage: Literal["paper", "released"] = "paper"
    shuffled: bool = False
    draws: Literal["best", "halves"] = "best"
    margin: float = 0.3
    min_score: float | None = 0.0
    guarded: bool = True
    settings: dict[str, Any] = field(default_factory=lambda: POLICY)


SWEETS = (  # The blind critic has settings of its own; the other ablations take those of the whole
    Sweet("sweet"),
    Sweet("sweet_released", advantage="released"),
    Sweet("sweet_blind", "critic_blind", "none", advantage="released", min_score=None, settings=BLIND_POLICY),
    Sweet("sweet_wrong", given="wrong"),
    Sweet("sweet_shuffled", shuffled=True),
    Sweet("sweet_untrained", UNTRAINED, advantage="released"),
    Sweet("sweet_halves", draws="halves"),
    Sweet("sweet_unguarded", guarded=False),
    Sweet("sweet_oracle", ORACLE),
)

TWO_ROUNDS = "sweet_rounds"  # SWEET-RL twice, from as many dialogues in all
SECOND_ROUND = 1_000_000  # Added to the seed of a study for the tasks of its second round
ALL_WAYS = (*(way.name for way in SWEETS), TWO_ROUNDS)
