"""The episodes of a file as numbers, and why those that are no success are none.

Only the fields that numbers need are decoded, since files may have many thousand rows. A row that cannot be
read is looked at by `sweet_rl.records`, whose errors name the field and the repair.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from sweet_rl.errors import DataError, UsageError
from sweet_rl.records import encode_row, is_being_written, parse_line
from sweet_rl.records.rows import task_from_row, trajectory_from_row, trajectory_to_row
from sweet_rl.runs import has_failed
from sweet_rl.types import FinishReason, Json, StopReason, Trajectory, is_answer
from sweet_rl.worlds import Options, World, options_of, two_worlds, world_in, world_named_in, world_of

CUT_OFF, REFUSED, TOOL_CALL, EMPTY = "cut off", "refused", "tool call instead of text", "empty reply"
"""What may be wrong with a turn of the agent: the first three are its finish reason."""

NOT_GRADABLE: Final = "not gradable"

_FLAWS = {FinishReason.LENGTH: CUT_OFF, FinishReason.REFUSED: REFUSED, FinishReason.TOOL_CALLS: TOOL_CALL}
_SERVICES: Final = {
    StopReason.POLICY_FAILED: "agent could not be asked",
    StopReason.USER_FAILED: "human could not be asked",
    StopReason.WORLD_FAILED: "world failed",
}
_CUT_SHORT: Final = {StopReason.TURN_LIMIT: "turn limit", StopReason.CONTEXT_FULL: "context full"}
_OUTCOMES: Final = {
    "failed": "wrong value",
    "error": "exception",
    "timeout": "time-out",
    "memory": "out of memory",
    "crash": "crash of the interpreter",
    "too_large": "value too large",
    "not_plain_data": "value is no plain data",
    "reference_none": "test that no answer can pass",
}
"""Categories of answers by what most of the tests that they do not pass came to."""
_NO_PICTURE: Final = {"missing": "picture of the page is missing", "broken": "picture of the page is broken"}
_PARTS: Final = {"ssim": "structure", "colour": "colours", "text": "text", "layout": "layout"}


@dataclass(frozen=True, slots=True)
class Episode:
    """What numbers need of one row."""

    task: str
    sample: int
    family: str
    reward: float | None  # None where it has none: not graded, or failed
    success: float | None  # 1 or 0; None where that is not known
    turns: int
    questions: int  # turns of the agent that someone answered
    failed: bool  # a service was missing; the episode is in no number
    flaws: tuple[str, ...] = ()  # of the agent's turns, a word for each that has one
    category: str = ""  # why it is no success; empty where it is one, or where nothing says that it is none
    why: str = ""  # the same of this episode, as far as its row says more
    offset: int = -1  # of its line in the file, in bytes; -1 of what is in no file


@dataclass(slots=True)
class Episodes:
    """All episodes of a file, or (path None) of what was in memory."""

    path: Path | None
    episodes: list[Episode]  # in the file's order; of an episode that was played again the last row
    contents: dict[str, int]  # by task: the hash of its object, to tell those of one name apart
    provenances: dict[str, int]  # what rows say of their origin, seeds apart, and how many say so
    graders: dict[str, int]  # what rows say of their grader, likewise
    world: World | None
    bounds: tuple[float | None, float | None] = (None, None)  # of rewards, as far as the world says so
    max_turns: int | None = None  # of an episode, where the world and its settings are known
    problems: tuple[str, ...] = ()  # what is wrong with the file, and yet it can be read


_NOTHING: Final = msgspec.Raw(b"null")
_BLANK: Final = re.compile(rb'"(?:\s|\\[nrt])*"|null|\[\]')
_Entry: Any = msgspec.defstruct(
    "_Entry", [("role", str), ("content", msgspec.Raw, _NOTHING), ("finish_reason", str | None, None)]
)
_Provenance: Any = msgspec.defstruct("_Provenance", [
    ("settings", msgspec.Raw, msgspec.Raw(b"{}")), ("sweet_rl", str | None, None), ("agent_model", str | None, None),
    ("env_model", str | None, None),
])  # fmt: skip
_Row: Any = msgspec.defstruct("_Row", [
    ("task", msgspec.Raw), ("dialogue_history", list[_Entry]), ("task_id", str | None, None),
    ("sample_index", Annotated[int, msgspec.Meta(ge=0)] | None, None), ("stop_reason", str | None, None),
    ("answer", msgspec.Raw, _NOTHING), ("reward", float | None, None), ("game", dict[str, Any] | None, None),
    ("solved", bool | None, None), ("outcome", msgspec.Raw, _NOTHING), ("error", msgspec.Raw, _NOTHING),
    ("test_results", msgspec.Raw, _NOTHING), ("grades", msgspec.Raw, _NOTHING), ("grading_details", msgspec.Raw, _NOTHING),
    ("provenance", _Provenance | None, None), ("graded_with", msgspec.Raw, _NOTHING),
])  # fmt: skip
"""What is decoded of a row; a piece that is `Raw` is looked at where it matters."""

_DECODER: Any = msgspec.json.Decoder(_Row)


_ESCAPES: Final = re.compile(rb"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u[dD][89a-fA-F]..|\\.", re.DOTALL)
"""What stands behind a backslash: a pair of surrogates (12 bytes), one alone, anything else (2)."""


def _decoded(line: bytes) -> Any:
    """A row; also with what JSON has not: lone surrogates, as Python writes them, a byte order mark."""
    line = line.removeprefix(codecs.BOM_UTF8)
    try:
        return _DECODER.decode(line)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        return _DECODER.decode(_ESCAPES.sub(lambda it: it[0] if len(it[0]) in {12, 2} else rb"\ufffd", line))


def read_episodes(path: str | Path, world: World | None = None) -> Episodes:
    """The episodes of a file of trajectories; `world` is theirs, where rows name none that has a name here.

    A last line that is cut off, of a run that writes or was killed, is left out and among the problems, and so is that a run
    is writing.
    """
    place, line, number = Path(path), b"", 0
    problems = ["a run is writing to it: what it holds so far"] if is_being_written(place) else []

    def rows() -> Iterator[tuple[Any, int, int]]:
        nonlocal line, number
        offset = 0
        with place.open("rb", buffering=1 << 20) as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    try:
                        row = _decoded(line)
                    except msgspec.DecodeError as error:
                        if isinstance(error, msgspec.ValidationError) or line.endswith(b"\n"):
                            raise
                        problems.append(f"line {number} is cut off: it is left out")
                        return
                    yield row, offset, number
                offset += len(line)

    try:
        return _gathered(rows(), world, place, problems)
    except (msgspec.DecodeError, RecursionError) as error:
        try:  # the error as the readers of whole rows have it
            trajectory_from_row(parse_line(line, place, number), path=place, line=number)
        except DataError as found_wrong:
            raise found_wrong from None
        what, repair = f"is no trajectory ({error})", "Grade or play it again."
        raise DataError(what, path=place, line=number, repair=repair) from None
    except FileNotFoundError:
        raise UsageError(f"There is no file {str(path)!r} (looked in {str(Path.cwd())!r}).") from None
    except OSError as error:
        raise UsageError(f"Cannot read {str(path)!r}: {error.strerror}.") from error


def episodes_of(trajectories: Iterable[Trajectory], world: World | None = None) -> Episodes:
    """The same of trajectories in memory."""
    rows = (_DECODER.decode(encode_row(trajectory_to_row(one))) for one in trajectories)
    return _gathered(((row, -1, number) for number, row in enumerate(rows, start=1)), world, None, [])


def _gathered(
    rows: Iterable[tuple[Any, int, int]], given: World | None, path: Path | None, problems: list[str]
) -> Episodes:
    """The episodes of rows, each with its byte and its line in the file; what many rows say alike is looked at once."""
    episodes: dict[tuple[str, int], Episode] = {}
    contents: dict[str, int] = {}
    families: dict[str, str] = {}
    known: dict[tuple[bytes, bool], tuple[World | None, Options | None]] = {}
    provenances, graders, repeats = Counter[tuple[Any, ...]](), Counter[bytes](), Counter[str]()
    theirs, named = given, None
    for row, offset, line in rows:
        task, said = bytes(row.task), row.provenance or _Provenance()
        name = row.task_id or _name_of(task)
        settings, grader = bytes(said.settings), bytes(row.graded_with)
        for field, text in (("provenance.settings", settings), ("graded_with", grader)):
            if text[:1] not in {b"{", b"n"}:
                raise msgspec.ValidationError(f"Expected `object | null` - at `$.{field}`")
        provenances[settings, said.sweet_rl, said.agent_model, said.env_model] += 1
        alike = settings, bytes(row.test_results) != b"null"
        if alike not in known:
            known[alike] = _world_of(settings, given, tested=alike[1])
            if one := world_named_in({"settings": msgspec.json.decode(settings)}):
                named = named or (one, line)
                if one != named[0]:
                    raise two_worlds(one, *named, path=path, line=line)
        world, options = known[alike]
        theirs = theirs or world
        if name not in families:
            # Most tasks need not be decoded for it.
            told = world is not None and (b'"family"' in task or b'"category"' in task)
            content = msgspec.json.decode(task) if told else {}
            family = content.get("family") or content.get("category")
            families[name] = family if isinstance(family, str) else ""
            contents[name] = hash(task)
        failed = has_failed({"stop_reason": row.stop_reason})
        reward = None if failed else row.reward
        if reward is not None and grader != b"null":
            graders[grader] += 1
        sample = repeats[name] if row.sample_index is None else row.sample_index
        repeats[name] += 1
        roles = [entry.role for entry in row.dialogue_history]
        turns = roles.count("assistant")
        answered = roles[roles.index("assistant") :].count("user") if turns else 0
        success = None
        if reward is not None and world is not None and options is not None:
            success = world.succeeded(reward, {"game": row.game, "solved": row.solved}, options)
        flaws = [
            _FLAWS.get(entry.finish_reason) or (EMPTY if _BLANK.fullmatch(entry.content) else "")
            for entry in row.dialogue_history
            if entry.role == "assistant"
        ]
        won = None if success is None else float(success)
        why = ("", "") if success else _category(row, reward, success, flaws)
        numbers = (reward, won, turns, answered, failed, tuple(filter(None, flaws)))
        episodes[name, sample] = Episode(name, sample, families[name], *numbers, *why, offset)
    if not episodes:
        nothing = "There are no episodes" if path is None else f"{str(path)!r} holds no trajectories"
        raise UsageError(f"{nothing}{', but ' + problems[0] if problems else ''}.")
    said_of = Counter[str]()
    for (settings, version, agent, human), count in provenances.items():
        facts = {"sweet_rl": version, "agent_model": agent, "env_model": human}
        said_of[msgspec.json.encode(facts | {"settings": msgspec.json.decode(settings)}).decode()] += count
    low = high = most = None
    played = [(world, options) for world, options in known.values() if world and options]
    if len(played) == len(known):
        spans = [world.scores.range(world.turns(options)) for world, options in played]
        lows, highs = zip(*spans, strict=True)
        low, high = None if None in lows else min(lows), None if None in highs else max(highs)
        most = max(world.turns(options) for world, options in played)
    by_grader = {text.decode(): count for text, count in graders.items()}
    told_of = contents, said_of, by_grader, theirs
    return Episodes(path, [*episodes.values()], *told_of, (low, high), most, tuple(problems))


def _world_of(settings: bytes, given: World | None, *, tested: bool) -> tuple[World | None, Options | None]:
    """The world of rows with these settings; published rows name none, and have tests where they are of functions."""
    known = msgspec.json.decode(settings)
    known = known if isinstance(known, dict) else {}
    world = world_in({"settings": known}) or given
    if world is None and tested and not (known.get("world") or known.get("task_type")):
        world = world_of("code")
    if world is None:
        return None, None
    return world, options_of(world, {"max_turns": known.get("max_steps"), **known})


def _category(row: Any, reward: float | None, success: bool | None, flaws: Sequence[str]) -> tuple[str, str]:
    """Why an episode is no success, and what its row says beyond; the first reason that holds.

    A turn counts that ended the episode, or one of more than half of its turns.
    """
    if has_failed({"stop_reason": row.stop_reason}):
        said = [str(_object(row.error).get(name) or "") for name in ("kind", "detail")]
        return _SERVICES[StopReason(row.stop_reason)], ": ".join(filter(None, said))
    details, grades = _object(row.grading_details), bytes(row.grades) != b"null"
    troubles = [one for one in details.get("failures") or [] if isinstance(one, dict)]
    if reward is None and grades:
        notes = [str(note) for name, note in details.items() if name.endswith("_note")]
        notes += [f"{one.get('kind')}: {one.get('detail', '')}" for one in troubles]
        why = notes[0].removeprefix("cannot be graded: ") if notes else "its grader says no reason"
        return NOT_GRADABLE, why
    worst, number = Counter(filter(None, flaws)).most_common(1)[0] if any(flaws) else ("", 0)
    flaw = (flaws[-1] if flaws else "") or (worst if 2 * number > len(flaws) else "")
    if flaw:
        return flaw, ""
    answer = msgspec.json.decode(row.answer)
    if row.stop_reason in _CUT_SHORT:
        return f"{'no answer: ' * grades}{_CUT_SHORT[StopReason(row.stop_reason)]}", ""
    if grades and not is_answer(answer):
        return "no answer", ""
    if isinstance(told := msgspec.json.decode(row.outcome), str):
        return told, ""
    tests = msgspec.json.decode(row.test_results) or []
    if failed := [test for test in tests if test.get("outcome") != "passed"]:
        return _failed_tests(failed, details)
    if "picture" in details:
        unseen = next((one for one in troubles if str(one.get("kind")).startswith("answer_")), None)
        if details["picture"] in _NO_PICTURE or unseen:
            why = str((unseen or next(iter(troubles), {})).get("detail", ""))
            return _NO_PICTURE.get(details["picture"], "page did not render"), why
        parts = {name: value for name, value in _object(row.grades).items() if name in _PARTS}
        if reward is not None and reward < 1 and parts:
            return f"page differs, in its {_PARTS[min(parts, key=parts.__getitem__)]} most", ""
        return "", ""
    if success is None:
        return "", ""
    if row.stop_reason == StopReason.ANSWERED:
        return "wrong answer", ""
    game = row.game or {}
    ended = "lost" if game.get("won") is False or row.solved is False else "ended short of the goal"
    outcome = game.get("outcome")
    return f"{ended}: {outcome.replace('_', ' ')}" if isinstance(outcome, str) else ended, ""


def _failed_tests(failed: Sequence[Mapping[str, Json]], details: Mapping[str, Json]) -> tuple[str, str]:
    """The category that most failed tests are of, and what the first of these says."""
    if word := details.get("filtered_by"):
        return "forbidden word", f"the word filter sets answers with {word!r} to zero"
    outcome = Counter(str(test.get("outcome")) for test in failed).most_common(1)[0][0]
    first = next(test for test in failed if test.get("outcome") == outcome)
    detail = str(details.get("fixed_note") or first.get("detail") or "")
    category = _OUTCOMES.get(outcome, outcome)
    if outcome == "error" and detail.startswith(("SyntaxError", "IndentationError", "TabError")):
        category = "code does not parse"
    missing = re.match(r"NameError: name '(\w+)' is not defined", detail)
    if missing and f"{missing[1]}(" in str(first.get("expression")):
        category = "function is missing"
    if outcome == "failed" and not detail:
        detail = f"{first.get('got')} where {first.get('expected')} is right"
    return category, f"{first.get('expression', '')}: {detail}"


def _object(piece: msgspec.Raw) -> dict[str, Any]:
    found = msgspec.json.decode(piece)
    return found if isinstance(found, dict) else {}


@cache
def _name_of(task: bytes) -> str:
    return task_from_row(msgspec.json.decode(task)).task_id


def rows_at(path: Path, offsets: Iterable[int]) -> Iterator[Mapping[str, Json]]:
    """The whole rows at these places of a file, in their order."""
    with path.open("rb") as file:
        for offset in offsets:
            file.seek(offset)
            yield parse_line(file.readline(), path, 0)
