"""The state of a pipeline: which steps are done, by the records of their last runs.

A step is done if its last run had the same settings, ended well, and what it read and wrote is still there.
Files are compared by digest, so that a step whose inputs were made anew as they were is not run again.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from sweet_rl.chat.names import folder_of
from sweet_rl.pipelines.steps import Step
from sweet_rl.runs.facts import unchanged
from sweet_rl.runs.reading import place_of, read_record
from sweet_rl.runs.record import without_secrets
from sweet_rl.tracking import RECORD, is_record
from sweet_rl.types import Json

ASIDE: Final = "replaced"
"""Folder in a pipeline's folder for what steps made before their settings or inputs changed."""

_HOW: Final = frozenset(
    {
        *("quiet", "overwrite", "to_continue", "force_continue", "load_checkpoint", "resume", "retry"),
        *("hostname", "port", "env_base_url", "agent_base_url", "reflection_base_url", "base_url", "prices"),
        *("request_timeout_s", "request_attempts", "request_patience_s", "max_failed", "vllm_python"),
        *("ray_address", "browsers", "render_cache", "reference_cache", "log_to", "use_tensorboard"),
        *("use_wandb", "wandb_org", "wandb_group", "wandb_project", "wandb_run_name"),
    }
)
"""Flags that say how a step is run or where a server is to be found, and nothing about its output."""

State = Literal["done", "new", "changed", "begun"]


@dataclass(frozen=True, slots=True)
class Look:
    """What a step is like, why, and the record of its last run.

    `new`: nothing of it is there. `changed`: what is there was made with other settings or of other inputs.
    `begun`: it was interrupted, or has failed, with the settings and inputs of now.
    """

    state: State
    why: str = ""
    record: Mapping[str, Json] | None = None


class Records:
    """The records of the last runs of a pipeline's steps."""

    def __init__(self, folder: Path, steps: Iterable[Step] = ()) -> None:
        self._last: dict[str, dict[str, Json]] = {}
        places = {place.resolve(): place for place in (*_walk(folder), *_beside(steps))}
        for place in places.values():
            record = read_record(place)
            if record is None or "step" not in record:
                continue
            record = _as_found(record, place)
            name = str(record["step"]["name"])
            if _began(record) >= _began(self._last.get(name, {})):
                self._last[name] = record

    def last(self, name: str) -> Mapping[str, Json] | None:
        """Of the step of this name."""
        return self._last.get(name)

    def look(self, step: Step) -> Look:
        """Whether a step is done, and why not."""
        record = self.last(step.name)
        if record is None:
            return Look("new", "not run yet")
        why = _other_settings(step, record) or _other_inputs(record) or self._later(step, record)
        if why:
            return Look("changed", why, record)
        if record["status"] != "finished":
            words = "failed" if record["status"] == "failed" else "was interrupted"
            return Look("begun", f"it {words}", record)
        gone = next((path for path in outputs_of(record, in_place=True) if not path.exists()), None)
        return Look("new", f"{gone} is missing", record) if gone is not None else Look("done", record=record)

    def _later(self, step: Step, record: Mapping[str, Json]) -> str:
        """A step before it that has run since, where digests cannot tell whether that matters."""
        read = {_place(record, str(entry["source"])) for entry in record["inputs"] if "sha256" in entry}
        for name in step.needs:
            before = self.last(name)
            if before is None or read.intersection(outputs_of(before, in_place=True)):
                continue
            if str(before.get("finished") or before["updated"]) > _began(record):
                return f"{name} has run since"
        return ""


def _as_found(record: dict[str, Json], place: Path) -> dict[str, Json]:
    """A record as it is where it lies: in a folder that was copied, its outputs are those of this folder.

    What is removed or put aside by its word is then never of the folder that it came from.
    """
    outputs = [(one, _place(record, str(one["path"]))) for one in record.get("outputs") or []]
    now = place.parent
    if place.name == RECORD:  # of a folder
        before = (path for _, path in outputs if path.name == now.name)
    else:
        before = (path.parent for _, path in outputs if place.name.startswith(f"{path.name}."))
    was = next(before, now)
    if was.resolve() == now.resolve():
        return record
    found = [
        one | {"path": str(now.resolve() / path.relative_to(was))}
        for one, path in outputs
        if path.is_relative_to(was)
    ]
    return record | {"outputs": found}


def outputs_of(record: Mapping[str, Json], *, in_place: bool = False) -> list[Path]:
    """What a run wrote; `in_place`: also the files of others that it changed."""
    outputs = record.get("outputs") or []
    return [_place(record, str(one["path"])) for one in outputs if in_place or "changed_in_place" not in one]


def move_aside(record: Mapping[str, Json], folder: Path) -> list[tuple[Path, Path]]:
    """Move what a run wrote, with its records, out of the way; a kill in between loses nothing.

    Args:
        record: of the run.
        folder: of the pipeline.

    Returns:
        Where each thing was, and where it is.
    """
    moved = []
    target = folder / ASIDE / f"{record['step']['name'].replace('/', '-')}-{record['id']}"
    for path in outputs_of(record):
        for one in (path, place_of(path, folder=False)):
            if one.exists():
                place = _free(target / one.name)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(one, place)
                moved += [(one, place)] if one == path else []
    return moved


def remove(record: Mapping[str, Json]) -> None:
    """Remove what a run wrote, and its records."""
    for path in outputs_of(record):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        place_of(path, folder=False).unlink(missing_ok=True)


def _walk(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = [one for one in folders if not one.startswith(".")]
        if Path(place) == folder and ASIDE in folders:
            folders.remove(ASIDE)
        yield from (Path(place, name) for name in names if is_record(Path(name)))


def _beside(steps: Iterable[Step]) -> Iterator[Path]:
    """Where records may lie of outputs that are not in the pipeline's folder."""
    for step in steps:
        for value in (*step.words, *step.flags.values()):
            if isinstance(value, str | Path) and str(value) and len(str(value)) < 1000:
                path = Path(value)
                yield from (place_of(path, folder=folder) for folder in (True, False))


def _began(record: Mapping[str, Json]) -> str:
    sessions = record.get("sessions") or [{}]
    return str(sessions[-1].get("started", ""))


def _place(record: Mapping[str, Json], path: str) -> Path:
    """A path of a record, wherever this process is."""
    return Path(os.path.normpath(Path(str(record.get("folder") or ""), Path(path).expanduser())))


def _other_settings(step: Step, record: Mapping[str, Json]) -> str:
    theirs, defaults = record["step"]["flags"], step.defaults
    ours = json.loads(without_secrets(json.dumps({**defaults, **step.settings}, default=str)))
    for name, value in ours.items():
        before = theirs.get(name, defaults.get(name))
        how = name in _HOW and not (name == "resume" and name in step.flags)  # ours, not the pipeline's
        if not how and before != value:
            return f"{name} was {_short(before)}, is {_short(value)}"
    return ""


def _other_inputs(record: Mapping[str, Json]) -> str:
    own = {str(one["path"]): one for one in record.get("outputs") or [] if "sha256" in one}
    for entry in record.get("inputs") or []:
        source = str(entry["source"])
        then = own.get(source, entry)  # what it has changed itself
        if "sha256" not in then:  # a name
            continue
        path = folder_of(source) or _place(record, source)
        same = unchanged(path, then)
        if not same:
            return f"{path} {'is gone' if same is None else 'has changed'}"
    return ""


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _free(path: Path) -> Path:
    numbered = (path.with_name(f"{path.name}.{number}") for number in range(2, 1000))
    return next(one for one in (path, *numbered) if not one.exists())
