"""What a tiny model made from nothing reads before it plays, and the command that makes the packaged one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from random import Random
from typing import Final, TypeAlias

from sweet_rl import tracking
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.errors import UsageError, missing_package
from sweet_rl.flags.shared import OutputDir, Overwriting, Quiet, Seeded, WorldName
from sweet_rl.types import Message
from sweet_rl.worlds import first_for, world_with


@dataclass(frozen=True, slots=True)
class Text:
    """A dialogue, its `solution` before it; on the first `skipped` turns no loss is taken."""

    messages: tuple[Message, ...]
    solution: str | None = None
    skipped: int = 0


Ask: TypeAlias = Callable[[Sequence[Text], Sequence[str]], Sequence[Sequence[float]]]
"""What a model would say next: for each text that ends before an agent's turn, the log-probability (nats) that
the turn begins with the first token of each sentence."""


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    value: float
    low: float = -math.inf
    high: float = math.inf

    @property
    def passed(self) -> bool:
        return self.low <= self.value <= self.high

    @property
    def bounds(self) -> str:
        low = [f"at least {self.low:g}"] * (self.low > -math.inf)
        return " and ".join(low + [f"at most {self.high:g}"] * (self.high < math.inf))

    def __str__(self) -> str:
        return f"{self.name} {self.value:.3f}" + (f" (has to be {self.bounds})" if self.bounds else "")


@dataclass(frozen=True, slots=True)
class Phase:
    """Some steps over one kind of text; where gates have to pass, `more` steps follow again and again, up to `limit`."""

    name: str
    texts: Callable[[Random], Iterator[Text]]
    steps: int
    batch_size: int
    learning_rate: float
    muon_learning_rate: float | None = None
    more: int = 0
    limit: int = 0


@dataclass(frozen=True, slots=True)
class PretrainingTexts:
    """What an agent reads.

    Args:
        rules: the packaged prompt, or a file, that stands before what it reads, and before its games.
        corpus: makes the texts that its tokenizer is learnt from, each with the `sentences` beside it.
        once: of these, what an agent should not say twice; each is one token.
        figures: measures the agent that has read; a phase with `more` goes on until all gates pass.
        card: what such an agent can and cannot do, for people; `{seed}` stands for its seed.
        pieces: what may become one token at most, a regular expression; by default lines.
    """

    rules: str
    corpus: Callable[[], Iterator[Text]]
    phases: tuple[Phase, ...]
    sentences: Sequence[str] = ()
    once: Sequence[str] = ()
    figures: Callable[[Ask], Sequence[Figure]] | None = None
    card: str = ""
    pieces: str = r'    if "\w+" in \w+:\n        \w+ \+= \d+\n|\n\n|[^\n]*\n|[^\n]+'


PRETRAINING_TEXTS: Final = {"code": "sweet_rl.mini.backend.pretraining:TEXTS"}
"""What an agent made from nothing reads, by the world's name; of other worlds it reads demonstrations (`learning.policy`)."""


@dataclass(frozen=True, kw_only=True)
class AgentMakingFlags(OutputDir, WorldName, Seeded, Overwriting, Quiet):
    """The agent."""


@recorded("make_embedded_agent")
@stage(
    "output_dir",
    defaults={"world": first_for("dialogue")},
    helps={
        "output_dir": "folder for the model and its tokenizer.",
        "world": "world of the agent: its name, module:ATTRIBUTE, or one of its lists of tasks; only worlds that provide pretraining texts.",
        "seed": "random seed; a different seed gives different weights, trained on different dialogues.",
        "overwrite": "write into a folder that already holds a model.",
    },
    narrow={"world": {"aliases": ()}},
)
def make_embedded_agent(flags: AgentMakingFlags, /) -> None:
    """Train the embedded agent of the mini benchmark from scratch: a tiny Llama, ten minutes on one core.

    Seed 0 gives the packaged agent; docs/world_code.md says what it is trained on. It must pass checks, whose figures are in its
    README.md and figures.json. For any other world: sweet-rl make_policy.
    """
    world = world_with(flags.world)
    if world.name not in PRETRAINING_TEXTS:
        raise UsageError(
            f"{world.name} has no texts of its own for a tiny model. `sweet-rl make_policy {flags.world} {flags.output_dir}` lets one "
            "imitate its scripted agents."
        )
    folder = Path(flags.output_dir)
    if (folder / "config.json").exists() and not flags.overwrite:
        raise UsageError(
            f"{flags.output_dir!r} holds a model already; pass --overwrite or choose another folder."
        )
    try:
        make_agent = resolve_name("sweet_rl.mini.embedded_agent:make_agent")
    except ImportError as error:
        raise missing_package("torch", "transformers", needed_for="an agent made from nothing") from error

    tracking.writes(folder, folder=True)
    texts = resolve_name(PRETRAINING_TEXTS[world.name])
    for figure in make_agent(folder, texts, seed=flags.seed, quiet=flags.quiet):
        print(figure)
    print(f"The agent is in {folder}")
