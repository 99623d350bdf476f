"""What a stage does that records played states, once its flags are known: play, ask, write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sweet_rl import tracking
from sweet_rl.command_line.running import progress
from sweet_rl.sft_data.jobs import JobFile
from sweet_rl.sft_data.reflections import RecordPlan, collect
from sweet_rl.sft_data.runs import beside, make_teacher, run_until_stopped, say_failures
from sweet_rl.sft_data.teacher_flags import TeacherFlags
from sweet_rl.sft_data.texts import write_list
from sweet_rl.types import Json


@dataclass(frozen=True, slots=True)
class RecordFlags:
    """The flags of a run that belong to neither the games nor the teacher."""

    output: Path
    num_records: int
    settings: Mapping[str, Json]
    overwrite: bool
    quiet: bool


def record(plan: RecordPlan, teacher: TeacherFlags, flags: RecordFlags) -> None:
    """Collect the records that are missing, and write them all.

    Raises:
        SweetRLError: the run cannot continue; what had finished is in the journal.
        KeyboardInterrupt: likewise, after printing how to continue.
    """
    journal = beside(flags.output, teacher.name, "journal")
    settings = {**teacher.settings(), **flags.settings}
    with JobFile(journal, settings, overwrite=flags.overwrite, output=flags.output) as jobs:
        for path in (journal, flags.output):
            tracking.writes(path, continues=not flags.overwrite)
        bar = progress(flags.num_records, 0, unit="record", quiet=flags.quiet)

        def show(number: int) -> None:
            bar.update(number - bar.n)

        async def work() -> None:
            asked = make_teacher(teacher, flags.output)
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
            write_list(flags.output, records)

        run_until_stopped(work(), journal)
        print(f"{flags.num_records} records are in {flags.output}")
        say_failures(jobs, 0, "episodes")
