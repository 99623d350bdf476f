"""Which of two runs is better, and where: task by task, as a table and, where it is asked for, as one page."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sweet_rl import tracking
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.errors import UsageError
from sweet_rl.flags import flag
from sweet_rl.flags.shared import Overwriting
from sweet_rl.records import replace_file
from sweet_rl.runs import new_file
from sweet_rl.runs.facts import now


@dataclass(frozen=True, kw_only=True)
class CompareFlags(Overwriting):
    """How runs are compared, and where to."""

    html: str | None = flag(
        None,
        "also write a page with dialogues side by side, such as comparison.html, and its numbers as JSON beside it (.json).",
    )
    interval: Literal["student", "bootstrap"] = flag(
        "student", "of differences: Student's over tasks, or a paired bootstrap's over tasks."
    )
    dialogues: int = flag(
        12,
        "on the page of --html: so many tasks that only the one run solves, and as many of the other.",
        at_least=0,
    )
    force: bool = flag(
        False,
        "compare what runs share although their tasks, worlds, humans, rules or graders differ, or a file is torn or being "
        "written; the page says so on top.",
    )


@recorded("compare")
@stage(helps={"overwrite": "replace the page and its numbers when they exist."})
def compare(flags: CompareFlags, /, *runs: str) -> None:
    """Compare runs of the same tasks: the first one with each of the others.

    A run is a file of trajectories, a folder of `sweet-rl eval`, or, beside its likes, the folder or metrics.jsonl of a
    training. Of every number the difference task by task, with its interval; wins, losses and ties; McNemar's exact test
    where every task has one success or failure, else a paired t; by kinds of tasks and by turns; what only the one
    solves. The table is printed; --html writes a page with the dialogues side by side. Runs of other tasks, humans,
    rules or graders are refused.

    The smallest comparison:
    sweet-rl eval --model expert --num_tasks 50 --output_dir a
    sweet-rl eval --model random --num_tasks 50 --output_dir b
    sweet-rl compare a b

    Args:
        flags: how, and where to.
        runs: two or more.
    """
    if len(runs) < 2:
        raise UsageError("Name at least two runs, for example: sweet-rl compare evals/a evals/b")
    from sweet_rl.evaluation import comparison
    from sweet_rl.evaluation.comparison import Source, Training, labels_of, opened
    from sweet_rl.evaluation.page import comparison_page

    page = None if flags.html is None else Path(flags.html)
    if page is not None:
        if page.suffix == ".json":
            raise UsageError(
                f"--html {flags.html!r} is the page, whose numbers are beside it as .json: name it .html."
            )
        for place in (page, page.with_suffix(".json")):
            new_file(place, "html", overwrite=flags.overwrite)
    for path in runs:
        tracking.reads("runs", path)
    found = [opened(path) for path in runs]
    played = [one for one in found if isinstance(one, Source)]
    trained = [one for one in found if isinstance(one, Training)]
    if played and trained:
        raise UsageError(
            f"{trained[0].label!r} is a training and {played[0].label!r} has episodes: compare like with like."
        )
    if trained:
        if page is not None:
            raise UsageError(
                "Trainings are drawn together by `sweet-rl view RUN RUN`, and with --export as a page."
            )
        print(comparison.trainings_text(trained, labels_of([str(one.path) for one in trained])))
        return
    result, text = comparison.compared(played, interval=flags.interval, force=flags.force), ""
    if page is not None:  # before the table: who reads its first lines alone has the page all the same
        made = {"made": now()[:10], "command": tracking.command() or ""}
        html = comparison_page(result, **made, dialogues=flags.dialogues)
        numbers = page.with_suffix(".json")
        tracking.writes(page)
        tracking.writes(numbers)
        replace_file(page, [html.encode("utf-8", "replace")])
        replace_file(numbers, [json.dumps(made | result.to_json(), indent=1).encode() + b"\n"])
        text = f"\n\nThe page is {page}, its numbers are in {numbers}"
    print(f"{result}{text}")
