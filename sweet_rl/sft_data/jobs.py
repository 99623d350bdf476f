"""A teacher's jobs: in parallel, each saved as soon as it is done, resumable.

The journal beside a stage's output holds the settings in its first row, then one row for each piece that was
tried: its key, its result (null where there is none), and what went wrong on the way, with the raw text of
a reply that could not be read. A piece that failed is tried again by the next run, with other draws.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Generic, Self, TypeVar

from sweet_rl.concurrency import for_each
from sweet_rl.errors import DataError
from sweet_rl.records import Journal
from sweet_rl.runs import check_settings, new_file
from sweet_rl.types import Failure, Json

Item = TypeVar("Item")

_UNSERVED = frozenset(
    [
        "bad_request",
        "connection",
        "empty_reply",
        "only_thoughts",
        "quota",
        "rate_limited",
        "refused",
        "server_error",
        "timeout",
    ]
)
"""Kinds of failures that have another cause than the text of the request."""


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


class JobFile:
    """The journal of one stage's work.

    `lost` are the pieces of this run that got no answer, and why.

    Args:
        settings: what decides about the content; a file is continued only with the same.
        output: what will be made of it in the end, all at once.
    """

    def __init__(
        self,
        path: Path,
        settings: Mapping[str, Json],
        *,
        overwrite: bool = False,
        output: Path | None = None,
    ) -> None:
        if output is not None and not path.exists():
            new_file(output, "output", overwrite=overwrite)
        self.path = path
        self.results: dict[str, Json] = {}
        self.failures: Counter[str] = Counter()
        self.first_failure: Failure | None = None
        self.lost: dict[str, Failure] = {}
        self._tries: Counter[str] = Counter()
        self._journal = Journal(path, overwrite=overwrite)
        try:
            self._read(settings)
        except BaseException:
            self._journal.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._journal.close()

    def missing(self, items: Mapping[str, Item]) -> list[Job[Item]]:
        """The pieces without a result, in their order."""
        return [Job(key, item, self._tries[key]) for key, item in items.items() if key not in self.results]

    async def do(
        self,
        jobs: Sequence[Job[Item]],
        work: Callable[[Job[Item]], Awaitable[Done]],
        *,
        at_once: int,
        on_done: Callable[[], object] = lambda: None,
    ) -> None:
        """Work on all jobs, `at_once` of them at a time."""

        async def one(job: Job[Item]) -> None:
            done = await work(job)
            failures = [_compact(failure) for failure in done.failures]
            await self._journal.append_soon({"key": job.key, "result": done.result, "failures": failures})
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
            await self._journal.flush()

    def _read(self, settings: Mapping[str, Json]) -> None:
        rows = self._journal.rows
        if not rows:
            self._journal.append([{"settings": dict(settings)}])
            return
        line, first = rows[0]
        if not isinstance(first.get("settings"), dict):
            raise DataError(
                "is not the journal of this stage",
                path=self.path,
                line=line,
                repair="Name another output, or pass --overwrite to begin again.",
            )
        check_settings(first["settings"], settings, f"{str(self.path)!r}, line {line}")
        for line, row in rows[1:]:
            key = row.get("key")
            if not isinstance(key, str):
                raise DataError("must be a string", path=self.path, line=line, field="key", value=key)
            self._tries[key] += 1
            if row.get("result") is not None:
                self.results[key] = row["result"]
        rows.clear()


def journal_path(output: Path) -> Path:
    """Where the work that an output is made from is kept: beside it."""
    return output.with_name(f"{output.stem}.journal.jsonl")


def _compact(failure: Failure) -> dict[str, Json]:
    return {key: value for key, value in asdict(failure).items() if value not in (None, "")}
