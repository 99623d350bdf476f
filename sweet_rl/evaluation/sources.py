"""What a path names: a file of trajectories, a folder of `eval`, a training; and what two do not share."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sweet_rl.errors import UsageError
from sweet_rl.evaluation.episodes import Episodes, read_episodes
from sweet_rl.records import read_rows
from sweet_rl.types import Json
from sweet_rl.viewer.library import Curve, curves_of

EPISODES: Final = "episodes.jsonl"
"""The file of trajectories in a folder of `eval`."""

_METRICS: Final = "metrics.jsonl"
_OF_AGENTS: Final = frozenset(
    {
        "agent_model", "agent_prompt", "agent", "temperature", "max_tokens", "seed", "skill", "num_questions",
        "reflection_model", "reflection_prompt", "reflection_tokens", "reflect_prob",
        "agent_best_of_n", "critic", "critic_sees",
    }
)  # fmt: skip
"""Settings of an episode in which agents may differ that are compared."""
_OF_HUMANS: Final = frozenset({"env_model", "user_prompt"})
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Source:
    """A run that has been played, as tables call it, and its file."""

    label: str
    path: Path
    episodes: Episodes


@dataclass(frozen=True, slots=True)
class Training:
    """A run of a training: its numbers by their names, each with the step at which it was taken."""

    label: str
    path: Path
    curves: Mapping[str, Curve]

    @property
    def last_step(self) -> float:
        """How far it came."""
        return max(points[-1][0] for points in self.curves.values())


def opened(path: str) -> Source | Training:
    """What is there."""
    place = Path(path).expanduser()
    if place.is_dir():
        if (place / EPISODES).is_file():
            return Source(path.rstrip("/"), place / EPISODES, read_episodes(place / EPISODES))
        if (place / _METRICS).is_file():
            return _training(path, place, (row for _, row in read_rows(place / _METRICS)))
        if sorted(place.glob("checkpoint-*/logs.json")):
            from sweet_rl.online.reflect.runs import read_logs  # few runs are of this kind

            return _training(path, place, read_logs(place))
        raise UsageError(
            f"{path!r} holds neither {EPISODES} (of `sweet-rl eval`) nor {_METRICS} or "
            "checkpoint-N/logs.json (of a training). Name a file of trajectories."
        )
    if place.name == _METRICS:
        return _training(path, place, (row for _, row in read_rows(place)))
    return Source(path, place, read_episodes(place))


def _training(path: str, place: Path, rows: Iterable[Mapping[str, Json]]) -> Training:
    if not (curves := curves_of(rows)):
        raise UsageError(f"{path!r} holds no numbers yet.")
    return Training(path.rstrip("/"), place, curves)


def labels_of(paths: Sequence[str]) -> list[str]:
    """Short names that differ: as much of the end of each path as is needed."""
    parts = [[part for part in Path(path).with_suffix("").parts if part != "/"] for path in paths]
    parts = [part[:-1] if len(part) > 1 and part[-1] == Path(EPISODES).stem else part for part in parts]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            words = [name.split("-") for name in names]  # `code-test-a` and `code-test-b` are a and b
            while all(len(each) > 1 for each in words) and len({each[0] for each in words}) == 1:
                words = [each[1:] for each in words]
            return ["-".join(each) for each in words]
    return [f"{name} ({place})" for place, name in enumerate(paths, 1)]


def facts_of(source: Source) -> dict[str, str]:
    """Who played, answered and graded, by which rules: as most rows of a run say it."""
    said: dict[str, Json] = {}
    if source.episodes.provenances:
        found = source.episodes.provenances
        said = json.loads(max(found, key=found.__getitem__))
    settings = said.pop("settings", None) or {}
    graders = source.episodes.graders
    known = {
        "agent": said.get("agent_model"),
        "human": said.get("env_model"),
        "human's prompt": settings.get("user_prompt"),
        "grader": None
        if not graders
        else " ".join(map(str, json.loads(max(graders, key=graders.__getitem__)).values())),
        "sweet_rl": said.get("sweet_rl"),
    }
    rest = {name: value for name, value in settings.items() if name not in _OF_HUMANS | {"agent_model"}}
    return {name: str(value) for name, value in {**known, **rest}.items() if value is not None}


# ---- what two runs do not share


def unlike(one: Source, other: Source) -> Iterator[str]:
    """Why their numbers cannot be compared task by task; nothing where they can.

    Each is a sentence without its end: other worlds, tasks, humans, rules or graders.
    """
    yield from (f"{each.label}: {problem}" for each in (one, other) for problem in each.episodes.problems)
    ours, theirs = one.episodes, other.episodes
    if ours.world is not theirs.world:
        names = [str(each.world.name if each.world else "none that has a name") for each in (ours, theirs)]
        yield f"they are of different worlds ({one.label}: {names[0]}; {other.label}: {names[1]})"
    here, there = ours.contents, theirs.contents
    if here.keys().isdisjoint(there):
        raise UsageError(f"{one.label} and {other.label} have no task in common: nothing can be compared.")
    for mine, yours, label in ((here, there, one.label), (there, here, other.label)):
        if alone := [task for task in mine if task not in yours]:
            some = ", ".join(alone[:_SHOWN]) + (", ..." if len(alone) > _SHOWN else "")
            yield f"{len(alone)} of {len(mine)} tasks are in {label} alone ({some})"
    if changed := [task for task, content in here.items() if there.get(task, content) != content]:
        yield f"{len(changed)} tasks have the same name and another content ({', '.join(changed[:_SHOWN])})"
    kinds: tuple[tuple[str, frozenset[str] | None], ...] = (("humans", _OF_HUMANS), ("rules", None))
    for what, settings in kinds:
        said, told = _said(ours, settings), _said(theirs, settings)
        if said and told and said != told:
            yield f"their {what} differ ({_differences(said, told)})"
    graders = [sorted(each.graders) for each in (ours, theirs)]
    if all(graders) and graders[0] != graders[1]:
        one_s, other_s = (json.loads(each[0]) for each in graders)
        shown = _differences({"": one_s}, {"": other_s})
        yield f"their graders differ ({shown}): grade both again with `sweet-rl evaluate FILE --regrade`"


def unknown(sources: Sequence[Source]) -> Iterator[str]:
    """What is not known of runs and might matter, as sentences without their ends."""
    graded = [each for each in sources if any(one.reward is not None for one in each.episodes.episodes)]
    silent = [
        each.label
        for each in graded
        if not each.episodes.graders and getattr(each.episodes.world, "evaluation", "") != "evaluate_games"
    ]
    if silent:
        yield f"no row of {', '.join(silent)} says which grader made its reward"
    versions = {
        str(json.loads(text).get("sweet_rl")) for each in sources for text in each.episodes.provenances
    } - {"None"}
    if len(versions) > 1:
        yield f"they were played with different versions of the library ({', '.join(sorted(versions))})"


def _said(episodes: Episodes, names: frozenset[str] | None) -> dict[str, Json]:
    """Settings of humans, or (None) of all that is no agent's and no human's, in each form that rows have."""
    found: dict[str, Json] = {}
    for text in episodes.provenances:
        said = json.loads(text)
        settings = dict(said.get("settings") or {})
        if not settings:
            continue
        settings["env_model"] = said.get("env_model") or settings.get("env_model")
        kept = {
            name: value
            for name, value in settings.items()
            if (name in names if names is not None else name not in _OF_AGENTS | _OF_HUMANS)
        }
        found[json.dumps(kept, sort_keys=True)] = kept
    return dict(sorted(found.items()))


def _differences(mine: Mapping[str, Json], yours: Mapping[str, Json]) -> str:
    ours, theirs = next(iter(mine.values())), next(iter(yours.values()))
    names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    if not names:
        return "one file has several"
    return ", ".join(f"{name} {ours.get(name)!r} and {theirs.get(name)!r}" for name in names)
