"""Online learning from nothing: a teacher, tiny policies, ArCHer and its rivals, a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sweet_rl.command_line.recording import recorded
from sweet_rl.command_line.stages import stage
from sweet_rl.flags import flag
from sweet_rl.flags.models import Skill
from sweet_rl.studies.flags import HELPS, OnlineFlags, TestGames


@dataclass(frozen=True, kw_only=True)
class ArcherDemoFlags(OnlineFlags, TestGames, Skill):
    """The study."""

    teacher_games: int = flag(40, "of the scripted asker, for each word, to imitate.", at_least=1)


@recorded("demo_archer")
@stage(
    "output_dir",
    defaults={"output_dir": "outputs/demo_archer", "skill": 0.3, "test_games": 20},
    helps=HELPS
    | {
        "seeds": "policies to begin with, and runs of every method.",
        "iterations": "of every run; default that of configs/archer/demo_20q.yaml.",
        "skill": "of the asker: how often it asks one of the best questions, 0 to 1.",
        "test_games": "for each word, to measure every policy on.",
        "jobs": "runs at once, each with one thread.",
    },
    only={"skill": None},
)
def demo_archer(flags: ArcherDemoFlags, /) -> None:
    """Run ArCHer, Online CHAI and Online Filtered BC from nothing: Twenty Questions, ten words, tiny models.

    Needs no GPU, no download and no key; takes a few minutes on two cores. A scripted asker of middling skill
    plays against the embedded oracle; for every seed a tiny GPT-2 learns to imitate it, and each method goes
    on from there by its own games. Each command is printed as a person would type it. It ends with a table
    and a page: return against environment steps, and what is more than chance over seeds. An interrupted demo
    resumes where it stopped.
    """
    from functools import partial

    from sweet_rl.pipelines.steps import in_rounds
    from sweet_rl.studies.archer.recipe import OnlineStudy, rounds
    from sweet_rl.studies.archer.results import results
    from sweet_rl.studies.outcome import prepared, run_study

    folder = prepared(flags)
    numbers: dict[str, Any] = {
        "skill": flags.skill,
        "test_games": flags.test_games,
        "teacher_games": flags.teacher_games,
    }
    given = {name: number for name, number in numbers.items() if number is not None}
    study = OnlineStudy(folder, flags.seeds, flags.iterations, **given)
    run_study(flags, in_rounds(rounds(study)), partial(results, study))
    print(f"Read games with: sweet-rl visualize_dialogue_histories {folder / 'archer-0.greedy.jsonl'}")
