"""The data of `demo_reflect`: what each world's teacher shows, as training texts in a folder for each world."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sweet_rl.studies.chains import Chain, call
from sweet_rl.studies.reflect.worlds import BEST, HOPS, HOUSEHOLD, METHODS, TAXI
from sweet_rl.worlds.alfworld.tasks import TOMATO

RECORDS: Final = 8000
"""States of the taxi that the teacher reflects on."""

HOUSEHOLD_RECORDS: Final = 3000
"""States of household games: some 400 games."""

HOUSEHOLDS: Final = 250
"""Homes of the published family of tasks; every fifth is held out."""

RANDOM_SHARE: Final = 0.2
"""Of a recorded player's moves, which the policy imitates: an imitator that has something left to learn."""

REPOSITORIES: Final = 40
"""To explore; each has about twenty questions. Those that are measured on are in no training text."""

_AT_ONCE: Final = 256
"""Of the teacher's work: what is finished together goes to the disk together."""


def texts_folder(study: Path, world: str, seed: int, kind: str = "") -> Path:
    """Where a world's training texts are; those of `best` actions are apart."""
    return study / f"{world}_{BEST if kind == BEST else 'texts'}-{seed}"


def repositories(study: Path, world: str, seed: int) -> Path:
    """The folder of repositories that a world explores."""
    return study / f"{world}_repositories-{seed}"


def split(study: Path, world: str, seed: int, part: str) -> Path:
    """The tasks of a part: train, validate or test."""
    return study / f"{world}_lessons-{seed}" / f"{part}.json"


def households(part: str, seed: int) -> str:
    """The household games of a part, train or test: all seeds learn in the same homes, each is measured in others."""
    if part == "train":
        return f"alfworld:{TOMATO}:train:{HOUSEHOLDS}"
    first = HOUSEHOLDS * (1 + seed)
    return f"alfworld:{TOMATO}:{part}:{first}-{first + HOUSEHOLDS - 1}"


def chain(study: Path, world: str, seed: int, *, records: int | None, count: int) -> Chain:
    """The steps that make a world's training texts; other ones for each seed.

    Args:
        seed: of the games or repositories, of the teacher's words, and of what is kept for tests.
        records: states of the taxi or of households; None: the world's own number.
    """
    if world in HOPS:
        return _explored(study, world, seed, count)
    return _recorded(study, world, seed, records or (RECORDS if world == TAXI else HOUSEHOLD_RECORDS))


def _recorded(study: Path, world: str, seed: int, records: int) -> Chain:
    """States of games, with what a teacher thinks of them."""
    made, texts = study / f"{world}_records-{seed}.json", texts_folder(study, world, seed)
    played = {
        "output": made,
        "num_records": records,
        "random_share": RANDOM_SHARE,
        "seed": seed,
        "concurrency": _AT_ONCE,
        "quiet": True,
    }
    played |= {"tasks": households("train", seed), "seek": True} if world == HOUSEHOLD else {}
    written = {"task_file": made, "output": texts, "overwrite": True}
    written |= {"containing": ""} if world == HOUSEHOLD else {}
    steps = (
        call(f"reflect {world}_reflection", made, flags=played),
        call(f"reflect {world}_gen_sft", texts, flags=written),
    )
    if not any(method.texts == BEST for method in METHODS[world]):
        return steps
    best = texts_folder(study, world, seed, BEST)
    return (*steps, call(f"reflect {world}_gen_sft", best, flags=written | {"output": best, "label": "best"}))


def _explored(study: Path, world: str, seed: int, count: int) -> Chain:
    """Repositories, questions about them, right ways and wrong ones; other repositories for tests."""
    made, kept = study / f"{world}_made-{seed}", repositories(study, world, seed)
    tasks, train = study / f"{world}_tasks-{seed}.json", split(study, world, seed, "train")
    lessons, texts = train.with_name("lessons.json"), texts_folder(study, world, seed)
    making = {"output_dir": made, "num": count, "hops": HOPS[world], "seed": seed, "overwrite": True}
    teaching = {
        "task_file": tasks,
        "repo_dir": kept,
        "output": lessons,
        "seed": seed,
        "concurrency": _AT_ONCE,
        "quiet": True,
    }
    filtering = {"repo_dir": kept, "output": tasks, "overwrite": True}
    splitting = {"by_repo": True, "seed": seed, "overwrite": True}
    writing = {"repo_dir": kept, "output": texts, "overwrite": True, "quiet": True}
    return (
        call("reflect make_repositories", made, flags=making),
        call("reflect filter_repo", kept, (str(made / "repos"),), {"output": kept, "overwrite": True}),
        call("reflect filter_task", tasks, (str(made / "made_tasks.json"),), filtering),
        call("reflect reflection_negative", lessons.parent, flags=teaching),
        call("reflect split_data", study / f"{world}_split-{seed}", (str(lessons),), splitting),
        call("reflect gen_sft", texts, (str(train),), writing),
    )
