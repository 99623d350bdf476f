"""The destination of episodes from Python: memory, or a file that can be resumed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from sweet_rl import tracking
from sweet_rl.errors import UsageError
from sweet_rl.records import Journal, load_trajectories, trajectory_to_row
from sweet_rl.rollout import Episode
from sweet_rl.runs import finish, open_journal, plan
from sweet_rl.runs.record import Record
from sweet_rl.types import Json, Trajectory


class Output(Protocol):
    """The episodes to play, and those that were played."""

    todo: Sequence[Episode]

    async def add(self, trajectory: Trajectory) -> None:
        """Keep an episode that is over."""
        ...

    async def flush(self) -> None:
        """Return when all that was added is kept."""
        ...

    def trajectories(self) -> list[Trajectory]:
        """All of them, in the order of the episodes; once the output is closed."""
        ...


@contextmanager
def opened_output(
    path: str | Path | None,
    episodes: Sequence[Episode],
    settings: Mapping[str, Json],
    *,
    to_continue: bool,
    overwrite: bool,
) -> Iterator[Output]:
    """An output for these episodes; a file keeps a record of the run beside it.

    Raises:
        UsageError: the file exists; it was made with other settings; there is none to be continued.
    """
    if path is None:
        if to_continue or overwrite:
            raise UsageError("to_continue and overwrite are about a file: name it with output_path.")
        yield _Memory(episodes)
        return
    record = Record("simulate", dict(settings), command=f"sweet_rl.simulate(output_path={str(path)!r}, ...)")
    try:
        with (
            tracking.listening(record),
            open_journal(path, to_continue=to_continue, overwrite=overwrite) as journal,
        ):
            run = plan(episodes, journal.rows, settings=settings, path=path)
            tracking.writes(path, continues=to_continue)
            yield _File(journal, run.todo)
            finish(path, run)
    except BaseException as error:
        record.close("interrupted" if not isinstance(error, Exception) else "failed", str(error)[:2000])
        raise
    record.close("finished")


class _Memory:
    def __init__(self, episodes: Sequence[Episode]) -> None:
        self.todo = episodes
        self._found: dict[tuple[str, int], Trajectory] = {}

    async def add(self, trajectory: Trajectory) -> None:
        self._found[trajectory.key] = trajectory

    async def flush(self) -> None:
        """There is nothing to wait for."""

    def trajectories(self) -> list[Trajectory]:
        return [self._found[one.task.task_id, one.sample_index] for one in self.todo]


class _File:
    def __init__(self, journal: Journal, todo: Sequence[Episode]) -> None:
        self.todo = todo
        self._journal = journal

    async def add(self, trajectory: Trajectory) -> None:
        await self._journal.append_soon(trajectory_to_row(trajectory))

    async def flush(self) -> None:
        await self._journal.flush()

    def trajectories(self) -> list[Trajectory]:
        return load_trajectories(self._journal.path)
