"""The teacher that the flags ask for, and a run with it that can be interrupted at any time."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from sweet_rl import tracking
from sweet_rl.command_line.running import judge_failed, progress, until_stopped
from sweet_rl.command_line.servers import client_of
from sweet_rl.openai_client import base_url_from
from sweet_rl.sft_data.flags import RecordingFlags, TeacherFlags
from sweet_rl.sft_data.jobs import Done, Job, JobFile
from sweet_rl.sft_data.reflections import RecordPlan, collect
from sweet_rl.sft_data.teachers import EmbeddedTeacher, ModelTeacher, Teacher
from sweet_rl.sft_data.texts import write_list
from sweet_rl.types import Json

Item = TypeVar("Item")

NAMED_BY: Final = (
    "--base_url names the server that is asked, --model its model, --api_key_var the variable with its key; "
    "--teacher embedded needs no server."
)


def make_teacher(flags: TeacherFlags, output: Path) -> Teacher:
    """The teacher; replies of a model are kept beside `output`, so that none is asked for twice."""
    if flags.teacher == "embedded":
        return EmbeddedTeacher()
    with tracking.role("teacher"):
        client = client_of(
            base_url_from("", 0, flags.base_url),
            flags,
            key_var=flags.api_key_var,
            named_by=NAMED_BY,
            max_connections=flags.concurrency,
        )
    replies = beside(output, flags.name, "replies")
    return ModelTeacher(client, flags.model, replies=replies, at_once=flags.concurrency)


def beside(output: Path, teacher: str, what: str) -> Path:
    """A file of our own beside an output: one for each teacher, so that several may work on it in turn."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", teacher)
    return output.with_name(f"{output.stem}.{name}.{what}.jsonl")


def run_until_stopped(work: Coroutine[Any, Any, None], journal: Path) -> None:
    """Run `work`; Ctrl-C and SIGTERM end it cleanly, with a message that says how to resume."""
    until_stopped(work, lambda: f"The same command resumes from {journal}.")


def teach_all(
    jobs: JobFile,
    planned: Mapping[str, Item],
    work: Callable[[Job[Item], Teacher], Awaitable[Done]],
    *,
    make: Callable[[], Teacher],
    at_once: int,
    unit: str,
    quiet: bool,
) -> None:
    """Work on all that is planned and has no result yet, with one teacher and a progress bar."""
    todo = jobs.missing(planned)
    bar = progress(len(planned), len(planned) - len(todo), unit=unit, quiet=quiet)

    async def everything() -> None:
        teacher = make()
        try:
            await jobs.do(todo, lambda job: work(job, teacher), at_once=at_once, on_done=bar.update)
        finally:
            await teacher.close()
            bar.close()

    run_until_stopped(everything(), jobs.path)


def say_failures(jobs: JobFile, missing: int, noun: str, *, total: int | None = None) -> None:
    """Print what went wrong in this run, and where it can be read."""
    if jobs.failures:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(jobs.failures.items()))
        print(f"Not all went well ({kinds}); {jobs.path} holds each with its raw text.")
    if missing:
        print(f"{missing} {noun} are missing; the same command tries them again.")
    if total:
        first = next(iter(jobs.lost.values()), None)
        kept = f"{jobs.path} holds the others; the same command tries these again."
        judge_failed(len(jobs.lost), total, first, noun=noun, kept=kept, flag="")


def judge_episodes(jobs: JobFile, planned: Mapping[str, Any], *, max_failed: float) -> None:
    """Print how measured episodes failed, where any did."""
    say_failures(jobs, 0, "episodes")
    judge_failed(
        len(jobs.missing(planned)),
        len(planned),
        str(jobs.first_failure),
        noun="episodes",
        kept="The same command plays them again.",
        most=max_failed,
    )


_OF_ALL = ("seed", "random_share", "max_turns", "reflections")
"""Flags of every such stage that decide about the content of a record."""


def record(
    plan: RecordPlan, teacher: TeacherFlags, flags: RecordingFlags, output: Path, games: Mapping[str, Json]
) -> None:
    """Collect the records that are missing, and write them all."""
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
