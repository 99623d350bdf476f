"""A teacher's work: in parallel, each piece saved as soon as it is done, resumable, judged at the end.

The journal beside a stage's output holds the settings in its first row, then one row for each piece that was tried: its key, its
result (null where there is none), and what went wrong, with the raw text of a reply that could not be read. A piece that failed
is tried again by the next run, with other draws.

Published behaviour of recorded states: docs/published/reflect_rl.md#data-of-recorded-states.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from sweet_rl import tracking
from sweet_rl.chat.reflect_format import split_prompt
from sweet_rl.cli.progress import Bar, judge_failed, until_stopped
from sweet_rl.cli.servers import client_of
from sweet_rl.concurrency import for_each
from sweet_rl.errors import DataError, EpisodeError, UsageError
from sweet_rl.openai_client import RequestFailed, base_url_from
from sweet_rl.prompts import fill
from sweet_rl.records import Journal
from sweet_rl.reflect_data.teachers import Asked, EmbeddedTeacher, ModelTeacher, Teacher
from sweet_rl.reflect_data.texts import Moment, RecordingFlags, Request, TeacherFlags, write_list
from sweet_rl.runs import check_settings, new_file
from sweet_rl.types import Failure, Json, Message, derive_seed

Item = TypeVar("Item")

# Kinds of failures that have another cause than the text of the request.
_UNSERVED: Final = frozenset(
    "bad_request connection empty_reply only_thoughts quota rate_limited refused server_error timeout".split()
)


@dataclass(frozen=True, slots=True)
class Job(Generic[Item]):
    """One piece of work; `key` names it in the journal, `attempt` counts earlier tries without a result."""

    key: str
    item: Item
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a piece of work; `result` is None where there is none, and then `failures` say why."""

    result: Json | None
    failures: tuple[Failure, ...] = ()


class JobFile(Journal):
    """The journal of one stage's work; it is continued only with the same `settings`, and `output` is made of it in the end.

    `lost` are the pieces of this run that got no answer, and why.
    """

    def __init__(
        self, path: Path, settings: Mapping[str, Json], *, overwrite: bool = False, output: Path | None = None
    ) -> None:
        if output is not None and not path.exists():
            new_file(output, "output", overwrite=overwrite)
        self.results: dict[str, Json] = {}
        self.failures: Counter[str] = Counter()
        self.first_failure: Failure | None = None
        self.lost: dict[str, Failure] = {}
        self._tries: Counter[str] = Counter()
        super().__init__(path, overwrite=overwrite)
        with ExitStack() as refused:
            refused.callback(self.close)
            if rows := self.rows:
                line, first = rows[0]
                if not isinstance(first.get("settings"), dict):
                    repair = "Name another output, or pass --overwrite to begin again."
                    raise DataError("is not the journal of this stage", path=path, line=line, repair=repair)
                check_settings(first["settings"], settings, f"{str(path)!r}, line {line}")
            else:
                self.append([{"settings": dict(settings)}])
            for line, row in rows[1:]:
                if not isinstance(key := row.get("key"), str):
                    raise DataError("must be a string", path=path, line=line, field="key", value=key)
                self._tries[key] += 1
                if row.get("result") is not None:
                    self.results[key] = row["result"]
            rows.clear()
            refused.pop_all()

    def missing(self, items: Mapping[str, Item]) -> list[Job[Item]]:
        """The pieces without a result, in their order."""
        return [Job(key, item, self._tries[key]) for key, item in items.items() if key not in self.results]

    async def do(
        self, jobs: Sequence[Job[Item]], work: Callable[[Job[Item]], Awaitable[Done]], *, at_once: int,
        on_done: Callable[[], object] = lambda: None,
    ) -> None:  # fmt: skip
        """Work on all jobs, `at_once` of them at a time."""

        async def one(job: Job[Item]) -> None:
            done = await work(job)
            told = [asdict(failure).items() for failure in done.failures]
            failures = [{name: value for name, value in one if value not in (None, "")} for one in told]
            await self.append_soon({"key": job.key, "result": done.result, "failures": failures})
            self._tries[job.key] += 1
            self.failures.update(failure.kind for failure in done.failures)
            if done.result is not None:
                self.results[job.key] = done.result
            elif done.failures:
                self.first_failure = self.first_failure or done.failures[-1]
                if done.failures[-1].kind in _UNSERVED:
                    self.lost[job.key] = done.failures[-1]
            on_done()

        try:
            await for_each(jobs, one, at_once=max(1, min(at_once, len(jobs))))
        finally:
            await self.flush()


def beside(output: Path, teacher: str, what: str) -> Path:
    """A file of our own beside an output: one for each teacher, so that several may work on it in turn."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", teacher)
    return output.with_name(f"{output.stem}.{name}.{what}.jsonl")


def teach_all(
    jobs: JobFile, planned: Mapping[str, Item], work: Callable[[Job[Item], Teacher], Awaitable[Done]],
    flags: TeacherFlags, output: Path, *, unit: str, quiet: bool,
) -> None:  # fmt: skip
    """Work on all that is planned and has no result yet, with one teacher and a progress bar."""
    todo = jobs.missing(planned)
    if flags.teacher == "embedded" and not quiet:
        print("The embedded teacher answers; with --teacher openai --base_url URL --model NAME a model does.")
    bar = Bar(len(planned), len(planned) - len(todo), unit=unit, quiet=quiet)
    how: Any = {"at_once": flags.concurrency, "on_done": bar.update}
    _with_teacher(
        lambda teacher: jobs.do(todo, lambda job: work(job, teacher), **how), jobs, flags, output, bar
    )


def _with_teacher(
    work: Callable[[Teacher], Awaitable[None]], jobs: JobFile, flags: TeacherFlags, output: Path, bar: Bar
) -> None:
    """Work with a teacher until all is done or somebody stops it; a model's replies are kept beside `output`."""

    async def everything() -> None:
        teacher: Teacher = EmbeddedTeacher()
        if flags.teacher != "embedded":
            named_by = "--base_url names the server that is asked, --model its model, --api_key_var the variable with its key."
            url, key, most = base_url_from("", 0, flags.base_url), flags.api_key_var, flags.concurrency
            with tracking.role("teacher"):
                client = client_of(url, flags, key_var=key, named_by=named_by, max_connections=most)
            replies = beside(output, flags.name, "replies")
            teacher = ModelTeacher(client, flags.model, replies=replies, at_once=most)
        try:
            await work(teacher)
        finally:
            await teacher.close()
            bar.close()

    until_stopped(everything(), lambda: f"The same command resumes from {jobs.path}.")


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
    failed, first = len(jobs.missing(planned)), str(jobs.first_failure)
    kept = "The same command plays them again."
    judge_failed(failed, len(planned), first, noun="episodes", kept=kept, most=max_failed)


def record(
    play: Callable[[int], Sequence[Moment]], request: Request, teacher: TeacherFlags, flags: RecordingFlags,
    output: Path, games: Mapping[str, Json],
) -> None:  # fmt: skip
    """Collect the records that are missing, and write them all; `games` decides about their content, too."""
    of_all = ("seed", "random_share", "max_turns", "reflections")
    settings = teacher.settings() | {name: getattr(flags, name) for name in of_all} | dict(games)
    journal = beside(output, teacher.name, "journal")
    with JobFile(journal, settings, overwrite=flags.overwrite, output=output) as jobs:
        for path in (journal, output):
            tracking.writes(path, continues=not flags.overwrite)
        bar = Bar(flags.num_records, 0, unit="record", quiet=flags.quiet)
        how: Any = {"at_once": min(teacher.concurrency, flags.num_records), "num_records": flags.num_records}

        async def work(asked: Teacher) -> None:
            records = await collect(
                play, request if flags.reflections else None, asked, jobs, seed=flags.seed,
                on_record=lambda number: bar.update(number - bar.n), **how,
            )  # fmt: skip
            write_list(output, records)

        _with_teacher(work, jobs, teacher, output, bar)
        print(f"{flags.num_records} records are in {output}")
        say_failures(jobs, 0, "episodes")


async def collect(
    play: Callable[[int], Sequence[Moment]], request: Request | None, teacher: Teacher, jobs: JobFile, *,
    seed: int, num_records: int, at_once: int, on_record: Callable[[int], object] = lambda _: None,
) -> list[Json]:  # fmt: skip
    """Play episodes until there are so many records; return the first ones, in the episodes' order.

    `play` plays the episode of a seed to its end; a player that is mostly random gets into all kinds of states, and the
    teacher says of each what led there and what would be best now (`request`; None: nothing). Each episode has its own seed,
    so the result does not depend on what was done at once or before an interruption.
    """

    episodes = 0
    while True:
        in_order = [jobs.results.get(f"episode {number}") or [] for number in range(episodes)]
        records = [record for episode in in_order for record in episode]
        on_record(min(len(records), num_records))
        if len(records) >= num_records:
            return records[:num_records]
        if episodes >= 64 and not records:  # it would be asked for ever
            raise UsageError(
                f"{episodes} episodes gave no record; {jobs.path} holds every reply that was of no use."
            )
        wave = range(episodes, episodes + max(1, at_once))
        episodes = wave.stop
        missing = jobs.missing({f"episode {number}": number for number in wave})
        await jobs.do(missing, lambda job: _episode(job, play, request, teacher, seed), at_once=at_once)


async def _episode(
    job: Job[int],
    play: Callable[[int], Sequence[Moment]],
    request: Request | None,
    teacher: Teacher,
    seed: int,
) -> Done:
    """Play one episode and ask about all its states at once; a state without an answer gives no record."""
    own_seed = derive_seed(seed, "episode", job.item)
    try:
        moments = await asyncio.to_thread(play, own_seed)
    except EpisodeError as error:
        return Done(None, (error.failure,))

    async def ask(step: int, moment: Moment) -> Json | Failure:
        reflection = ""
        if request is not None:
            values = {"SENTENCES": "one sentence" if step == 0 else "two sentences"}
            values |= {"SPOILER": moment.hint} if moment.hint else {}
            before = split_prompt(moment.text, request.head).before
            text = f"{before}\n\n{fill(request.template, **values)}"
            messages = [Message("system", request.system), Message("user", text)]
            draws = derive_seed(own_seed, "reflection", step, job.attempt)
            try:
                reflection = (await teacher.say(Asked(messages, moment.known, draws))).strip()
            except RequestFailed as error:
                return replace(error.failure, turn=step)
        return {
            "state": moment.text, "reflection": reflection, "action": moment.action, "reason": "",
            "model": teacher.name, "best_action": moment.best, **moment.extra,
        }  # fmt: skip

    replies = await asyncio.gather(*(ask(step, moment) for step, moment in enumerate(moments)))
    failures = tuple(one for one in replies if isinstance(one, Failure))
    records = [one for one in replies if not isinstance(one, Failure)]
    return Done(records or None, failures)
