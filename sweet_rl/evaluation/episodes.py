"""The episodes of a file as numbers.

Only the fields that numbers need are decoded, since files may have many thousand rows. A row that cannot be
read is looked at by `sweet_rl.records`, whose errors name the field and the repair.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from sweet_rl.errors import DataError, UsageError
from sweet_rl.records import (
    encode_row,
    is_being_written,
    parse_line,
    task_from_row,
    trajectory_from_row,
    trajectory_to_row,
)
from sweet_rl.runs.continuing import has_failed
from sweet_rl.types import Json, Trajectory
from sweet_rl.worlds import Options, World, options_of, two_worlds, world_in, world_named_in


@dataclass(frozen=True, slots=True)
class Episode:
    """What numbers need of one row.

    Attributes:
        task: its name.
        sample: which repeat.
        family: the kind of task, where the world knows kinds.
        reward: None where it has none: not graded, or failed.
        success: 1 or 0; None where that is not known.
        turns: of the agent.
        questions: turns that someone answered.
        failed: a service was missing; the episode is in no number.
        offset: of its line in the file, in bytes; -1 of what is in no file.
    """

    task: str
    sample: int
    family: str
    reward: float | None
    success: float | None
    turns: int
    questions: int
    failed: bool
    offset: int = -1


@dataclass(slots=True)
class Episodes:
    """All episodes of a file.

    Attributes:
        path: of the file; None of what was in memory.
        episodes: in the file's order; of an episode that was played again the last row.
        contents: of each task, by its name: the bytes of its object, to tell tasks of the same name apart.
        provenances: what rows say of their origin, seeds apart, with the number of rows that say so.
        graders: what rows say of their grader, likewise.
        world: that they are of, where they name one that has a name here.
        problems: what is wrong with the file, and yet it can be read.
    """

    path: Path | None
    episodes: list[Episode]
    contents: dict[str, int]
    provenances: dict[str, int]
    graders: dict[str, int]
    world: World | None
    problems: tuple[str, ...] = ()


_NOTHING: Final = msgspec.Raw(b"null")
_Entry: Any = msgspec.defstruct("_Entry", [("role", str)])
_Provenance: Any = msgspec.defstruct(
    "_Provenance",
    [
        ("settings", msgspec.Raw, msgspec.Raw(b"{}")),
        ("sweet_rl", str | None, None),
        ("agent_model", str | None, None),
        ("env_model", str | None, None),
    ],
)
_Row: Any = msgspec.defstruct(
    "_Row",
    [
        ("task", msgspec.Raw),
        ("dialogue_history", list[_Entry]),
        ("task_id", str | None, None),
        ("sample_index", Annotated[int, msgspec.Meta(ge=0)] | None, None),
        ("stop_reason", str | None, None),
        ("reward", float | None, None),
        ("game", dict[str, Any] | None, None),
        ("solved", bool | None, None),
        ("test_results", msgspec.Raw, _NOTHING),
        ("provenance", _Provenance | None, None),
        ("graded_with", msgspec.Raw, _NOTHING),
    ],
)
"""What is decoded of a row; a piece that is `Raw` is looked at once for all rows that have the same."""

_DECODER: Any = msgspec.json.Decoder(_Row)


_ESCAPES: Final = re.compile(rb"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u[dD][89a-fA-F]..|\\.", re.DOTALL)
"""What stands behind a backslash: a pair of surrogates, one alone, anything else."""
_PAIR, _OTHER = 12, 2


def _decoded(line: bytes) -> Any:
    """A row; also with what JSON has not: lone surrogates, as Python writes them, a byte order mark."""
    line = line.removeprefix(codecs.BOM_UTF8)
    try:
        return _DECODER.decode(line)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        return _DECODER.decode(
            _ESCAPES.sub(lambda it: it[0] if len(it[0]) in {_PAIR, _OTHER} else rb"\ufffd", line)
        )


def read_episodes(path: str | Path, world: World | None = None) -> Episodes:
    """The episodes of a file of trajectories.

    Args:
        path: of the file.
        world: that they are of, where rows name none that has a name here.

    Returns:
        All but a last line that is cut off, of a run that writes or was killed: that is among the problems,
        and so is that a run is writing.


    Raises:
        UsageError: there is no such file, or nothing in it.
        DataError: a row is wrong; names line, field and repair.
    """
    place, problems = Path(path), []
    if is_being_written(place):
        problems.append("a run is writing to it: what it holds so far")
    found = _Found(world, place)
    try:
        with place.open("rb", buffering=1 << 20) as file:
            offset = 0
            for number, line in enumerate(file, start=1):
                if line.strip():
                    try:
                        found.add(_decoded(line), offset, number)
                    except (msgspec.DecodeError, RecursionError) as error:
                        cut = isinstance(error, msgspec.DecodeError) and not line.endswith(b"\n")
                        if cut and not isinstance(error, msgspec.ValidationError):
                            problems.append(f"line {number} is cut off: it is left out")
                            break
                        raise _error(line, place, number, error) from None
                offset += len(line)
    except FileNotFoundError:
        raise UsageError(f"There is no file {str(path)!r} (looked in {str(Path.cwd())!r}).") from None
    except OSError as error:
        raise UsageError(f"Cannot read {str(path)!r}: {error.strerror}.") from error
    if not found.episodes:
        raise UsageError(f"{str(path)!r} holds no trajectories{', but ' + problems[0] if problems else ''}.")
    return found.taken(place, tuple(problems))


def episodes_of(trajectories: Iterable[Trajectory], world: World | None = None) -> Episodes:
    """The same of trajectories in memory.

    Raises:
        UsageError: there are none.
    """
    found = _Found(world)
    for number, trajectory in enumerate(trajectories, start=1):
        found.add(_DECODER.decode(encode_row(trajectory_to_row(trajectory))), -1, number)
    if not found.episodes:
        raise UsageError("There are no episodes.")
    return found.taken(None, ())


class _Found:
    """What has been read so far; what many rows say alike is looked at once."""

    def __init__(self, world: World | None, path: Path | None = None) -> None:
        self.episodes: dict[tuple[str, int], Episode] = {}
        self._contents: dict[str, int] = {}
        self._provenances: dict[tuple[bytes, str | None, str | None, str | None], int] = {}
        self._graders: dict[bytes, int] = {}
        self._settings: dict[bytes, tuple[World | None, Options | None]] = {}
        self._repeats: dict[str, int] = {}
        self._families: dict[str, str] = {}
        self._given = self._world = world
        self._named: tuple[str, int] | None = None
        self._path = path

    def add(self, row: Any, offset: int, line: int) -> None:
        """One row more."""
        task = bytes(row.task)
        name = row.task_id or _name_of(task)
        said = row.provenance or _Provenance()
        settings, grader = bytes(said.settings), bytes(row.graded_with)
        for field, text in (("provenance.settings", settings), ("graded_with", grader)):
            if text[:1] not in {b"{", b"n"}:
                raise msgspec.ValidationError(f"Expected `object | null` - at `$.{field}`")
        key = (settings, said.sweet_rl, said.agent_model, said.env_model)
        self._provenances[key] = self._provenances.get(key, 0) + 1
        if settings not in self._settings:
            self._settings[settings] = _world_of(settings, self._given)
            if named := world_named_in({"settings": msgspec.json.decode(settings)}):
                self._named = self._named or (named, line)
                if named != self._named[0]:
                    raise two_worlds(named, *self._named, path=self._path, line=line)
        world, options = self._settings[settings]
        self._world = self._world or world
        if name not in self._families:
            self._families[name] = _family(world, task)
            self._contents[name] = hash(task)
        roles = [entry.role for entry in row.dialogue_history]
        turns = roles.count("assistant")
        failed = has_failed({"stop_reason": row.stop_reason})
        reward = None if failed else row.reward
        if reward is not None and grader != b"null":
            self._graders[grader] = self._graders.get(grader, 0) + 1
        sample = row.sample_index if row.sample_index is not None else self._repeats.get(name, 0)
        self._repeats[name] = self._repeats.get(name, 0) + 1
        answered = roles[roles.index("assistant") :].count("user") if turns else 0
        self.episodes[name, sample] = Episode(
            name,
            sample,
            self._families[name],
            reward,
            None if reward is None else _success(reward, row, world, options),
            turns,
            answered,
            failed,
            offset,
        )

    def taken(self, path: Path | None, problems: tuple[str, ...]) -> Episodes:
        """All that was read."""
        provenances: dict[str, int] = {}
        for (settings, version, agent, human), number in self._provenances.items():
            known = {"sweet_rl": version, "agent_model": agent, "env_model": human}
            text = msgspec.json.encode(known | {"settings": msgspec.json.decode(settings)}).decode()
            provenances[text] = provenances.get(text, 0) + number
        graders = {text.decode(): number for text, number in self._graders.items()}
        return Episodes(
            path, list(self.episodes.values()), self._contents, provenances, graders, self._world, problems
        )


def _world_of(settings: bytes, given: World | None) -> tuple[World | None, Options | None]:
    known = msgspec.json.decode(settings)
    world = (world_in({"settings": known}) if isinstance(known, dict) else None) or given
    if world is None:
        return None, None
    return world, options_of(world, {"max_turns": known.get("max_steps"), **known})


def _success(reward: float, row: Any, world: World | None, options: Options | None) -> float | None:
    if world is None or options is None:
        return float(reward == 1) if bytes(row.test_results) != b"null" else None
    found = world.succeeded(reward, {"game": row.game, "solved": row.solved}, options)
    return None if found is None else float(found)


@cache
def _name_of(task: bytes) -> str:
    return task_from_row(msgspec.json.decode(task)).task_id


def _family(world: World | None, task: bytes) -> str:
    if world is None or (
        type(world).family is World.family and b'"family"' not in task and b'"category"' not in task
    ):
        return ""  # most tasks need not be decoded for it
    return world.family(msgspec.json.decode(task))


def _error(line: bytes, path: Path, number: int, error: Exception) -> DataError:
    """The error as the readers of whole rows have it."""
    try:
        trajectory_from_row(parse_line(line, path, number), path=path, line=number)
    except DataError as found:
        return found
    return DataError(f"is no trajectory ({error})", path=path, line=number, repair="Grade or play it again.")


def rows_at(path: Path, offsets: Iterable[int]) -> Iterator[Mapping[str, Json]]:
    """The whole rows at these places of a file, in their order.

    Raises:
        DataError: the file is another one meanwhile.
    """
    with path.open("rb") as file:
        for offset in offsets:
            file.seek(offset)
            yield parse_line(file.readline(), path, 0)
