"""What the mini study is made of: its sizes, its ways of SWEET-RL, and the settings of every method."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from sweet_rl.chat import EMBEDDED as EMBEDDED_AGENT
from sweet_rl.chat import model_path

Flags: TypeAlias = Mapping[str, Any]

MAIN_WAYS = ("sweet", "sweet_blind", "sweet_wrong")  # The forms of SWEET-RL that the claim is about
REAL_WAYS = (  # Of a pretrained model, in the order in which its claims matter
    *("sweet", "sweet_untrained", "sweet_blind", "sweet_wrong", "sweet_outcomes", "sweet_shuffled"),
    "sweet_oracle",
)


@dataclass(frozen=True, slots=True)
class Settings:
    """Flags of every method for one kind of agent; `pairs` are of turns, `blind` is for the blind critic's."""

    critic: Flags
    blind_critic: Flags
    policy: Flags
    blind_policy: Flags
    dialogue_dpo: Flags
    rejection: Flags
    pairs: Flags
    blind_pairs: Flags
    training: Flags = field(default_factory=dict)  # of every training
    sampling: Flags = field(default_factory=dict)  # of dialogues and candidates
    ranking: Flags = field(default_factory=dict)
    imitation: Flags = field(default_factory=dict)  # with which a pretrained model begins


# The best of their grids on mini:trades=40:dev and mini:trades=10:dev with seed 0, by benchmarks/mini_settings.py.
EMBEDDED = Settings(
    critic={"learning_rate": 1e-4, "max_epochs": 4, "beta": 100.0},
    blind_critic={"learning_rate": 1e-4, "max_epochs": 4, "beta": 10.0},
    policy={"learning_rate": 1e-3, "beta": 0.3, "nll_loss_coef": 0.3, "max_epochs": 2},
    blind_policy={"learning_rate": 1e-3, "beta": 0.3, "nll_loss_coef": 0.1, "max_epochs": 2},
    dialogue_dpo={"learning_rate": 3e-4, "beta": 0.3, "nll_loss_coef": 1.0, "max_epochs": 32},
    rejection={"learning_rate": 1e-3, "max_epochs": 40},
    pairs={"margin": 0.3, "min_score": 0.0},
    blind_pairs={"margin": 0.3},
    training={"train_batch_size": 32, "micro_train_batch_size": 32},
    sampling={"max_tokens": 48, "max_batch": 256},
)

# For SmolLM2-135M. Of two untuned runs on one GPU (28 November 2026), which trained critics, but no policy by their
# credit: no grid has been run yet (benchmarks/mini_settings.py --agent smollm2).
_POLICY = {"learning_rate": 1e-4, "beta": 0.3, "nll_loss_coef": 0.3, "max_epochs": 1}
_CRITIC = {"learning_rate": 5e-5, "max_epochs": 4, "beta": 50.0}
PRETRAINED = Settings(
    critic=_CRITIC,
    blind_critic=_CRITIC,
    policy=_POLICY,
    blind_policy=_POLICY,
    dialogue_dpo={"learning_rate": 5e-5, "beta": 0.3, "nll_loss_coef": 1.0, "max_epochs": 6},
    rejection={"learning_rate": 1e-4, "max_epochs": 4},
    pairs={"margin": 0.02},
    blind_pairs={"margin": 0.02},
    imitation={"learning_rate": 2e-4, "max_epochs": 2},
)


@dataclass(frozen=True, slots=True)
class Study:
    """What a study is made of; `candidates` are sampled for a turn, in `candidates_of` dialogues of each task.

    All methods begin with `agent`: as it is, or made of a `pretrained` model by imitating so many `demonstrations`.
    """

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
    candidates_of: float = 4
    pairs_per_turn: int = 2
    ways: tuple[str, ...] = MAIN_WAYS
    best_of: tuple[int, ...] = ()
    page_tasks: int = 0
    prefix: str = ""
    settings: Settings = EMBEDDED
    pretrained: str = ""
    demonstrations: int = 0
    threads: int = 1
    unsafe_no_sandbox: bool = False

    def path(self, name: str) -> Path:
        return self.folder / f"{self.prefix}{name}"

    @property
    def trades(self) -> int | None:
        from sweet_rl.mini.backend.tasks import TRADES, world_of

        found: int | None = world_of(self.world).fields.get(TRADES)
        return found

    @property
    def grading(self) -> dict[str, bool]:
        return {"quiet": True} | ({"unsafe_no_sandbox": True} if self.unsafe_no_sandbox else {})

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


GUARDS = {"hard_negatives": 1, "twins": 0.33}  # What holds a policy while it learns from pairs of turns
UNTRAINED = "untrained"  # The critic that is the agent before any training
DECEIVED = "critic_outcomes"  # The critic that learns from outcomes of other dialogues
ORACLE = "oracle"  # Instead of a critic: who knows what a turn is worth

# Critics that choose among turns at test time, and what they see
CHOOSERS = {"critic": "solution", "critic_blind": "dialogue", UNTRAINED: "solution"}


def chosen_by(critic: str, turns: int) -> str:
    """Name of the agent that takes the best of so many turns by a critic of `CHOOSERS`."""
    return f"best_of_{turns}_by_{critic}"


# Know the true prior, teach, and forget: they bound what can be reached
LINES = ("insider", "expert", "random")


@dataclass(frozen=True, slots=True)
class Sweet:
    """One way of SWEET-RL: its critic, whose solution that is given, how scores become pairs; settings of its own."""

    name: str
    critic: str = "critic"
    given: Literal["own", "wrong", "none"] = "own"
    advantage: Literal["paper", "released"] = "paper"
    shuffled: bool = False
    draws: Literal["best", "halves"] = "best"
    guarded: bool = True
    pairs: Flags | None = None
    policy: Flags | None = None


SWEETS = (  # The blind critic has settings of its own; the other ablations take those of the whole
    Sweet("sweet"),
    Sweet("sweet_released", advantage="released"),
    Sweet("sweet_blind", "critic_blind", "none", advantage="released"),
    Sweet("sweet_wrong", given="wrong"),
    Sweet("sweet_shuffled", shuffled=True),
    Sweet("sweet_outcomes", DECEIVED),
    Sweet("sweet_untrained", UNTRAINED, advantage="released"),
    Sweet("sweet_halves", draws="halves"),
    Sweet("sweet_unguarded", guarded=False),
    Sweet("sweet_oracle", ORACLE),
)

TWO_ROUNDS = "sweet_rounds"  # SWEET-RL twice, from as many dialogues in all
SECOND_ROUND = 1_000_000  # Added to the seed of a study for the tasks of its second round
OF_DEMONSTRATIONS = 2_000_000  # The same for the tasks of the demonstrations
ALL_WAYS = (*(way.name for way in SWEETS), TWO_ROUNDS)


_SIZES = ("train_tasks", "test_tasks", "candidates", "candidates_of", "demonstrations")
_ON_A_GPU, _ON_TWO_CORES = (500, 300, 12, 2, 1000), (100, 150, 8, 0.5, 500)


def is_pretrained(agent: str) -> bool:
    """Whether an agent is none of make_embedded_agent, which can talk and read solutions, as its figures say."""
    return agent != EMBEDDED_AGENT and not Path(agent, "figures.json").is_file()


def begun_with(agent: str, folder: str | Path, jobs: int) -> dict[str, Any]:
    """The fields of a `Study` in a folder that say what its agent is, and what follows from that; sizes are printed.

    Of a pretrained model it is sized for a quarter of an hour on one GPU, or a night on two cores. A quarter of a GPU's
    memory decides how many tokens are computed at once, whatever `jobs` are: other settings would run everything again.
    """
    if not is_pretrained(agent):
        return {"agent": agent}
    import torch

    model_path(agent)  # refused before anything is written
    found: dict[str, Any] = {"agent": str(Path(folder) / "warm_start"), "pretrained": agent, "page_tasks": 0}
    found["threads"] = max(1, (os.cpu_count() or 1) // jobs)
    sampling, where, sizes = {"max_tokens": 96}, "two cores, as torch sees no GPU", _ON_TWO_CORES
    if torch.cuda.is_available():
        card, sizes = torch.cuda.get_device_properties(0), _ON_A_GPU
        share = card.total_memory / 2**30 / 4
        where = f"a GPU, {card.name} with {4 * share:.0f} GiB"
        tokens = 2 ** min(15, int(math.log2(1000 * share)))  # 32,768 take 33 GB
        own = replace(
            PRETRAINED,
            training={"max_len": 1024, "train_batch_size": 32, "max_tokens_per_batch": tokens, "bf16": True},
            sampling=sampling | {"max_batch": 512, "batch_size": 512, "cache_gib": share / 4},
        )
    else:
        processor = Path("/proc/cpuinfo")
        bf16 = processor.exists() and "avx512_bf16" in processor.read_text()
        own = replace(
            PRETRAINED,
            training={"max_len": 1024, "train_batch_size": 8, "max_tokens_per_batch": 1024, "bf16": bf16},
            sampling=sampling | {"max_batch": 64, "batch_size": 64},
            ranking={"max_batch_tokens": 2048},
            imitation={**PRETRAINED.imitation, "max_epochs": 1},
        )
    fitting = dict(zip(_SIZES, sizes, strict=True))
    told = ", ".join(f"{name} {number}" for name, number in fitting.items())
    print(f"Sizes that no flag names are those for {where}: {told}.\n", flush=True)
    return found | {"settings": own} | fitting
