"""The data of `demo_reflect`: what each world's teacher shows, as training texts in a folder for each world."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sweet_rl.studies.chains import Chain, call
from sweet_rl.studies.reflect.worlds import HOPS, HOUSEHOLD, TAXI

RECORDS: Final = 8000
"""States of the taxi that the teacher reflects on."""

HOUSEHOLD_RECORDS: Final = 3000
"""States of household games: some 250 games."""

RANDOM_SHARE: Final = 0.2
"""Of a recorded player's moves, which the policy imitates: an imitator that has something left to learn."""

REPOSITORIES: Final = 40
"""To explore; each has about twenty questions. Those that are measured on are in no training text."""

_AT_ONCE: Final = 256
"""Of the teacher's work: what is finished together goes to the disk together."""


def texts_folder(study: Path, world: str) -> Path:
    """Where a world's training texts are."""
    return study / f"{world}_texts"


def repositories(study: Path, world: str) -> Path:
    """The folder of repositories that a world explores."""
    return study / f"{world}_repositories"


def split(study: Path, world: str, part: str) -> Path:
    """The tasks of a part: train, validate or test."""
    return study / f"{world}_lessons" / f"{part}.json"


def chain(study: Path, world: str, *, records: int | None, count: int) -> Chain:
    """The steps that make a world's training texts.

    Args:
        study: the folder of the study.
        world: one of `worlds.WORLDS`.
        records: states of the taxi or of households; None: the world's own number.
        count: repositories.
    """
    if world in HOPS:
        return _explored(study, world, count)
    return _recorded(study, world, records or (RECORDS if world == TAXI else HOUSEHOLD_RECORDS))


def _recorded(study: Path, world: str, records: int) -> Chain:
    """States of games, with what a teacher thinks of them."""
    made, texts = study / f"{world}_records.json", texts_folder(study, world)
    played = {
        "output": made,
        "num_records": records,
        "random_share": RANDOM_SHARE,
        "concurrency": _AT_ONCE,
        "quiet": True,
    }
    played |= {"tasks": "alfworld:train"} if world == HOUSEHOLD else {}
    written = {"task_file": made, "output": texts, "overwrite": True}
    written |= {"containing": ""} if world == HOUSEHOLD else {}
    return (
        call(f"reflect {world}_reflection", made, flags=played),
        call(f"reflect {world}_gen_sft", texts, flags=written),
    )


def _explored(study: Path, world: str, count: int) -> Chain:
    """Repositories, questions about them, right ways and wrong ones; other repositories for tests."""
    made, kept = study / f"{world}_made", repositories(study, world)
    tasks, lessons = study / f"{world}_tasks.json", study / f"{world}_lessons" / "lessons.json"
    train, texts = split(study, world, "train"), texts_folder(study, world)
    making = {"output_dir": made, "num": count, "hops": HOPS[world], "overwrite": True}
    teaching = {
        "task_file": tasks,
        "repo_dir": kept,
        "output": lessons,
        "concurrency": _AT_ONCE,
        "quiet": True,
    }
    filtering = {"repo_dir": kept, "output": tasks, "overwrite": True}
    writing = {"repo_dir": kept, "output": texts, "overwrite": True, "quiet": True}
    return (
        call("reflect make_repositories", made, flags=making),
        call("reflect filter_repo", kept, (str(made / "repos"),), {"output": kept, "overwrite": True}),
        call("reflect filter_task", tasks, (str(made / "made_tasks.json"),), filtering),
        call("reflect reflection_negative", lessons.parent, flags=teaching),
        call(
            "reflect split_data",
            study / f"{world}_split",
            (str(lessons),),
            {"by_repo": True, "overwrite": True},
        ),
        call("reflect gen_sft", texts, (str(train),), writing),
    )
