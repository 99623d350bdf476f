"""The work of a stage that records played states, after its flags are checked: play, ask, write."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sweet_rl import tracking
from sweet_rl.command_line.running import progress
from sweet_rl.sft_data.flags import RecordingFlags
from sweet_rl.sft_data.jobs import JobFile
from sweet_rl.sft_data.reflections import RecordPlan, collect
from sweet_rl.sft_data.runs import beside, make_teacher, run_until_stopped, say_failures
from sweet_rl.sft_data.teacher_flags import TeacherFlags
from sweet_rl.sft_data.texts import write_list
from sweet_rl.types import Json

_OF_ALL = ("seed", "random_share", "max_turns", "reflections")
"""Flags of every such stage that decide about the content of a record."""


def record(
    plan: RecordPlan, teacher: TeacherFlags, flags: RecordingFlags, output: Path, games: Mapping[str, Json]
) -> None:
    """Collect the records that are missing, and write them all.

    Args:
        plan: what decides about them.
        teacher: who is asked.
        flags: of the stage.
        output: the file that gets them.
        games: what decides about the content of a record besides the teacher and what all stages have.
    """
    journal = beside(output, teacher.name, "journal")
    settings = teacher.settings() | {name: getattr(flags, name) for name in _OF_ALL} | dict(games)
    with JobFile(journal, settings, overwrite=flags.overwrite, output=output) as jobs:
        for path in (journal, output):
            tracking.writes(path, continues=not flags.overwrite)
        bar = progress(flags.num_records, 0, unit="record", quiet=flags.quiet)

        def show(number: int) -> None:
            bar.update(number - bar.n)

        async def work() -> None:
            asked = make_teacher(teacher, output)
            try:
                records = await collect(
                    plan,
                    asked,
                    jobs,
                    num_records=flags.num_records,
                    at_once=min(teacher.concurrency, flags.num_records),
                    on_record=show,
                )
            finally:
                await asked.close()
                bar.close()
            write_list(output, records)

        run_until_stopped(work(), journal)
        print(f"{flags.num_records} records are in {output}")
        say_failures(jobs, 0, "episodes")
