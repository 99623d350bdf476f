"""The files of an online run, so that it can be interrupted, resumed and inspected.

| file | holds |
|---|---|
| `settings.json` | the configuration |
| `run.json` | the record: what was called when, with what (docs/files.md) |
| `trajectories.jsonl` | every episode that was played to learn from, in the library's format |
| `evaluations.jsonl` | every episode that was played to measure |
| `failures.jsonl` | episodes that failed; played again where nothing was learned from their iteration yet |
| `metrics.jsonl` | one line an iteration, under the published names |
| `checkpoint-N/` | everything that N iterations have made of the models, optimizers and counters |
| `final/` | the trained policy, as a folder that transformers and vLLM load |
| `models/` | models that were made to begin with: tiny ones, or an adapter merged into its base |

The replay buffer is not among them: it is what the trajectories say. Episodes are read from their file when
they are needed, so that memory does not grow with what was played.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from sweet_rl import tracking
from sweet_rl.errors import DataError, StorageError, UsageError
from sweet_rl.online.replay import Place
from sweet_rl.records import Journal, replace_file, trajectory_from_row, trajectory_to_row
from sweet_rl.runs.record import without_secrets
from sweet_rl.training import checkpoints
from sweet_rl.training.checkpoints import MetricsLog, last_step
from sweet_rl.types import Json, Trajectory

# Settings that may change when a run is continued: they decide about nothing that was made.
FREE_KEYS = frozenset({
    "save_path", "iterations", "save_freq", "eval_freq", "eval_size", "keep_checkpoints", "concurrency",
    "shard_with", "log_to", "use_wandb", "tensorboard", "project_name", "run_name", "cache_dir", "quiet",
    "overwrite", "env_base_url",
})  # fmt: skip
SETTINGS, METRICS, MODELS = "settings.json", "metrics.jsonl", "models"
_PLAYED = "trajectories.jsonl"  # what memory is read from again when a run resumes
_EPISODES = (_PLAYED, "evaluations.jsonl", "failures.jsonl")
_INSTEAD = "name another save_path, or pass overwrite=true to start again"


class RunFolder:
    """The folder of one run, held by one process at a time."""

    def __init__(
        self,
        path: Path,
        config: Mapping[str, Json],
        *,
        overwrite: bool = False,
        say: Callable[[str], object] = print,
    ) -> None:
        config = json.loads(without_secrets(json.dumps(dict(config))))
        self.path, self._say = path, say
        if path.exists() and not path.is_dir():
            raise UsageError(f"save_path={str(path)!r} is a file; name a folder.")
        self._files = ExitStack()
        self._files.enter_context(checkpoints.held(path))
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._check(config, overwrite=overwrite)
        except BaseException:
            self._files.close()
            raise
        self._overwrite, self._before = overwrite, path / f".{MODELS}-before"
        if overwrite and (path / MODELS).is_dir() and not self._before.exists():
            (path / MODELS).rename(self._before)
        self._config = [json.dumps(config, indent=1).encode() + b"\n"]
        self._metrics: MetricsLog | None = None
        self.learned = 0  # iterations that were learned from, before and since the newest checkpoint
        self.made_from: dict[str, Json] = {}  # digests of models and tasks; a checkpoint of others is refused

    def close(self) -> None:
        """Close the files of the run and free their locks; a run that was refused before it began leaves what it found."""
        if self._before.is_dir():
            shutil.rmtree(self.path / MODELS, ignore_errors=True)
            self._before.rename(self.path / MODELS)
        self._files.close()

    def newest(self) -> tuple[int, Any] | None:
        """Iterations that are done and the state they led to; None where nothing was saved yet.

        Only now files are changed: a run that is refused leaves all as it was.
        """
        if self._overwrite:
            for name in (*_EPISODES, METRICS):
                (self.path / name).unlink(missing_ok=True)
            for old in [*checkpoints.checkpoints_in(self.path), self.path / "final", self._before]:
                shutil.rmtree(old, ignore_errors=True)
        found = checkpoints.resumable(self.path, self.made_from, self._say, instead=_INSTEAD)
        tracking.writes(self.path, folder=True, continues=not self._overwrite)
        replace_file(self.path / SETTINGS, self._config)
        self.trajectories, self.evaluations, self.failures = (
            self._files.enter_context(closing(EpisodeFile(self.path / name))) for name in _EPISODES
        )
        return (checkpoints.step_of(found), checkpoints.load_state(found)) if found else None

    def save(self, done: int, state: Any, *, keep: int) -> None:
        """Write the checkpoint after `done` iterations, at once or not at all; keep the newest `keep`."""
        covers = [self.path / _PLAYED, self.path / METRICS]
        with checkpoints.writing(self.path, done, {"iterations": done}, self.made_from, covers) as made:
            checkpoints.save_state(made, state)
        checkpoints.rotate(self.path, keep=keep, max_gb=float("inf"))

    def begin_metrics(self, done: int) -> None:
        """Continue the log after `done` iterations; lines of later ones are written again."""
        path = self.path / METRICS
        if wrong := checkpoints.covered(self.path, path):
            self._say(f"{path} {wrong}: numbers of earlier iterations may be missing in it.")
        self.learned = max(last_step(path), *self.trajectories.iterations(), 0)
        self._metrics = MetricsLog(path, after_step=done)

    def log(self, done: int, info: Mapping[str, float]) -> None:
        """Append the line of an iteration to metrics.jsonl."""
        if self._metrics is not None:
            self._metrics.append({"step": done, **info})

    def _check(self, config: Mapping[str, Json], *, overwrite: bool) -> None:
        theirs, played = self._settings(overwrite=overwrite), self.path / _PLAYED
        any_ = checkpoints.checkpoints_in(self.path) or (played.exists() and played.stat().st_size)
        if overwrite or theirs is None or not any_:  # nothing that the configuration decided about
            return
        where = f"save_path={str(self.path)!r}"
        checkpoints.check_same(theirs, config, where, instead=_INSTEAD, free=FREE_KEYS)
        if wrong := checkpoints.covered(self.path, played):
            raise StorageError(
                f"{str(played)!r} {wrong}, which was made with these episodes. Restore the file "
                f"from a copy, or {_INSTEAD}. Nothing was changed."
            )

    def _settings(self, *, overwrite: bool) -> dict[str, Json] | None:
        """The configuration of the run that is there; None in a new folder, and of one that is to go."""
        file = self.path / SETTINGS
        if file.exists():
            try:
                return dict(json.loads(file.read_text(encoding="utf-8")))
            except (ValueError, TypeError) as error:
                if overwrite:
                    return None
                raise UsageError(
                    f"{str(file)!r} is broken ({error}). Put it right, or pass overwrite=true."
                ) from error
        # A record and made models alone are of a run that was stopped before it wrote its settings.
        names = (entry.name for entry in self.path.iterdir())
        if others := sorted(
            name for name in names if name not in {"run.json", MODELS} and not name.endswith(".lock")
        ):
            raise UsageError(
                f"save_path={str(self.path)!r} holds {others[0]!r}, but no {SETTINGS} of run_archer. "
                "Name an empty or a new folder."
            )
        return None


class EpisodeFile:
    """Finished episodes of one file, found again by their place in the run.

    Of an episode only the byte where its line begins is kept in memory: a run plays for weeks.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._starts: dict[int, dict[int, int]] = {}
        self._journal = Journal(path, each=self._note)

    def close(self) -> None:
        self._journal.close()

    def iterations(self) -> list[int]:
        """The iterations of which there are episodes, counted from 0."""
        return sorted(self._starts)

    def numbers(self, iteration: int) -> list[int]:
        """Numbers of the iteration's episodes that are in the file, in order."""
        return sorted(self._starts.get(iteration, ()))

    def read(self, place: Place) -> Trajectory:
        """An episode that is in the file."""
        iteration, number = place
        return trajectory_from_row(self._journal.read(self._starts[iteration][number]), path=self.path)

    async def append_soon(self, trajectory: Trajectory, iteration: int, number: int) -> None:
        """Write an episode with its place in the run; returns when it is on the disk."""
        row = {**trajectory_to_row(trajectory), "iteration": iteration, "episode": number}
        self._starts.setdefault(iteration, {})[number] = await self._journal.append_soon(row)

    async def flush(self) -> None:
        """Wait until every row that was handed over is on the disk."""
        await self._journal.flush()

    def _note(self, line: int, start: int, row: dict[str, Json]) -> None:
        place = row.get("iteration"), row.get("episode")
        if not (isinstance(place[0], int) and isinstance(place[1], int)):
            where: Any = {"path": self.path, "line": line, "field": "iteration, episode", "value": place}
            repair = "Remove the row: it was not written by run_archer."
            raise DataError("must give its place in the run", **where, repair=repair)
        trajectory_from_row(row, path=self.path, line=line)  # a broken one is reported now
        self._starts.setdefault(place[0], {})[place[1]] = start
