"""Reflect-RL from nothing: a teacher, tiny models, two worlds, the use of reflections, a page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sweet_rl.command_line.recording import recorded
from sweet_rl.command_line.stages import stage
from sweet_rl.errors import UsageError
from sweet_rl.flags import flag, listed
from sweet_rl.studies.flags import HELPS, OnlineFlags, TestGames
from sweet_rl.studies.reflect.worlds import MAIN_METHODS, METHODS, USUAL, WORLDS

FULL_STUDY: Final = Path(__file__).with_name("full_study.json")
"""The study.json of the study on fresh seeds, with all settings chosen before; missing until it was run."""

_NUMBERS = ("sft_updates", "iterations", "records", "repositories", "test_games")
"""What the study has numbers of its own for, where none is given."""


@dataclass(frozen=True, kw_only=True)
class ReflectDemoFlags(OnlineFlags, TestGames):
    """The study."""

    sft_updates: int | None = flag(
        None,
        "of every fine-tuning; default that of the study, as for iterations, records, repositories and test_games.",
        at_least=1,
    )
    records: int | None = flag(
        None, "states of the taxi, and of households, that the teacher reflects on.", at_least=1
    )
    repositories: int | None = flag(None, "to explore.", at_least=1)
    worlds: str = flag(
        ",".join(USUAL), f"of {', '.join(WORLDS)}, with commas between; alfworld needs its engine's packages."
    )


@recorded("demo_reflect")
@stage(
    "output_dir",
    defaults={"output_dir": "outputs/demo_reflect", "seeds": 1},
    helps=HELPS
    | {
        "seeds": "each with data, models and test games of its own; a claim needs several.",
        "iterations": "of every online run.",
        "test_games": "of each of the taxi's levels, to measure every policy on.",
        "ablations": "also Reflect-RL without a curriculum (taxi) and without wrong ways in the texts (AutoExplore), and as many updates without reflections.",
        "jobs": "runs at once, each with one thread.",
    },
)
def demo_reflect(flags: ReflectDemoFlags, /) -> None:
    """Run Reflect-RL and what it is compared with from nothing: DangerousTaxi, AutoExplore, ALFWorld; tiny models.

    Needs no GPU, no download and no key; one world and one seed take minutes on two cores. A teacher that knows the
    way reflects on games. For every seed tiny Llamas learn from that and online: fine-tuning only, online learning
    only, both without and with reflections. Each command is printed as a
    person would type it. It ends with a table and a page: success against episodes, and which published
    orderings hold at this size, beside a planner, chance and a linear policy. An interrupted demo resumes where it stopped.
    """
    from sweet_rl.pipelines.steps import in_rounds
    from sweet_rl.studies.brought_along import beside
    from sweet_rl.studies.outcome import prepared, run_study
    from sweet_rl.studies.reflect.recipe import ReflectStudy, rounds
    from sweet_rl.studies.reflect.results import results

    given = {name: number for name in _NUMBERS if (number := getattr(flags, name)) is not None}
    chosen = tuple(dict.fromkeys(listed(flags.worlds)))
    if not chosen or not set(chosen) <= set(WORLDS):
        raise UsageError(f"--worlds must be of {', '.join(WORLDS)}, got {flags.worlds!r}.")
    methods = METHODS if flags.ablations else MAIN_METHODS
    folder = prepared(flags)
    study = ReflectStudy(folder, flags.seeds, flags.first_seed, worlds=chosen, methods=methods, **given)
    run_study(
        flags, in_rounds(rounds(study), folder), lambda seconds: beside(results(study, seconds), FULL_STUDY)
    )
