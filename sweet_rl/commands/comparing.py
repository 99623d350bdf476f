"""The work of `compare` after its flags are checked: read, compare, print, write."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sweet_rl import tracking
from sweet_rl.errors import UsageError
from sweet_rl.evaluation import words
from sweet_rl.evaluation.comparison import compared
from sweet_rl.evaluation.page import comparison_page, trainings_page
from sweet_rl.evaluation.sources import Source, Training, labels_of, opened
from sweet_rl.records import replace_file
from sweet_rl.runs import new_file
from sweet_rl.runs.live import now
from sweet_rl.types import Json

if TYPE_CHECKING:
    from sweet_rl.commands.compare import CompareFlags


def run(flags: CompareFlags, runs: Sequence[str]) -> None:
    """Compare runs that were played, or trainings.

    Raises:
        UsageError: they cannot be compared, or the page exists.
        DataError: a file is broken.
    """
    page = Path(flags.output)
    numbers = page.with_suffix(".json")
    for place in (page, numbers):
        new_file(place, "output", overwrite=flags.overwrite)
    for path in runs:
        tracking.reads("runs", path)
    found = [opened(path) for path in runs]
    command = tracking.command() or ""
    made = now()[:10]
    played = [one for one in found if isinstance(one, Source)]
    trained = [one for one in found if isinstance(one, Training)]
    if played and trained:
        raise UsageError(
            f"{trained[0].label!r} is a training and {played[0].label!r} has episodes: compare like with like."
        )
    content: Json
    if trained:
        labels = labels_of([str(one.path) for one in trained])
        text = words.trainings_text(trained, labels)
        html = trainings_page(trained, labels, command=command, made=made)
        step = words.common_step(trained)
        each = [
            {name: numbers[place] for name, numbers in words.numbers_at(step, trained).items()}
            for place in range(len(trained))
        ]
        content = {"step": step, "trainings": dict(zip(labels, each, strict=True))}
    else:
        result = compared(played, interval=flags.interval, force=flags.force)
        text = words.text_of(result)
        html = comparison_page(result, command=command, made=made, dialogues=flags.dialogues)
        content = result.to_json()
    tracking.writes(page)
    tracking.writes(numbers)
    replace_file(page, [html.encode("utf-8", "replace")])
    replace_file(
        numbers, [json.dumps({"made": made, "command": command} | content, indent=1).encode() + b"\n"]
    )
    print(f"{text}\n\nThe page is {page}, its numbers are in {numbers}")
