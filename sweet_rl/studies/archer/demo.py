"""Online learning from nothing: a teacher, tiny policies, ArCHer and its rivals, a page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sweet_rl.command_line.recording import recorded
from sweet_rl.command_line.stages import stage
from sweet_rl.flags import flag
from sweet_rl.flags.models import Skill
from sweet_rl.studies.flags import HELPS, OnlineFlags, TestGames

FULL_STUDY: Final = Path(__file__).with_name("full_study.json")
"""The study.json of the study on fresh seeds, with all settings chosen before; missing until it was run."""


@dataclass(frozen=True, kw_only=True)
class ArcherDemoFlags(OnlineFlags, TestGames, Skill):
    """The study."""

    teacher_games: int = flag(160, "of the scripted player, for each word, to imitate.", at_least=1)


@recorded("demo_archer")
@stage(
    "output_dir",
    defaults={"output_dir": "outputs/demo_archer", "seeds": 1, "skill": 0.3, "test_games": 20},
    helps=HELPS
    | {
        "seeds": "each with a demonstrator's games, a policy and test games of its own; a claim needs several.",
        "iterations": "of every run; default that of configs/archer/demo_20q.yaml.",
        "skill": "of the demonstrator: the share of games in which it asks before it names a word, 0 to 1.",
        "test_games": "for each word, to measure every policy on.",
        "ablations": "also ArCHer with one critic, without a delay of its policy and with an exact critic; and Online CHAI, which takes longest.",
        "jobs": "runs at once, each with one thread.",
    },
    only={"skill": None},
)
def demo_archer(flags: ArcherDemoFlags, /) -> None:
    """Run ArCHer and its rivals from nothing: Twenty Questions about sixteen words, tiny models.

    Needs no GPU, no download and no key; one seed takes minutes on two cores. A scripted player that mostly
    guesses plays against the embedded oracle; a tiny GPT-2 learns to imitate it, and ArCHer, filtered BC,
    PPO and REINFORCE go on from there by their own games; with --ablations Online CHAI does, too.
    Each command is printed as a person would type it. It ends with a table and a page: return against games,
    between the best play and naming the words in order, and which published orderings hold at this size. An
    interrupted demo resumes where it stopped.
    """
    from sweet_rl.pipelines.steps import in_rounds
    from sweet_rl.studies.archer.recipe import OnlineStudy, rounds
    from sweet_rl.studies.archer.results import results
    from sweet_rl.studies.archer.settings import ABLATIONS, METHODS
    from sweet_rl.studies.brought_along import beside
    from sweet_rl.studies.outcome import prepared, run_study

    folder = prepared(flags)
    numbers: dict[str, Any] = {
        "skill": flags.skill,
        "test_games": flags.test_games,
        "teacher_games": flags.teacher_games,
    }
    given = {name: number for name, number in numbers.items() if number is not None}
    methods = {name: own for name, own in METHODS.items() if flags.ablations or name not in ABLATIONS}
    study = OnlineStudy(folder, flags.seeds, flags.first_seed, flags.iterations, methods=methods, **given)
    run_study(
        flags, in_rounds(rounds(study), folder), lambda seconds: beside(results(study, seconds), FULL_STUDY)
    )
    played = study.games("archer", study.first_seed, greedy=True)
    print(f"Read games with: sweet-rl visualize_dialogue_histories {played}")
