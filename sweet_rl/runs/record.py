"""The record of one stage's run: `run.json` in a folder that it writes, `FILE.run.json` beside a file.

Each output has the whole record, so that it can be moved with it. It is written when the output is begun, now
and then, and at the end; a run that was killed leaves one that says "running".
"""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from glob import escape
from io import BufferedReader
from pathlib import Path
from typing import Final, Self

from sweet_rl import errors, tracking
from sweet_rl.chat.formats import folder_of
from sweet_rl.flags.shared import Budget
from sweet_rl.openai_client import shown
from sweet_rl.records import replace_file
from sweet_rl.runs import facts
from sweet_rl.tracking import RECORD, Destination, Progress, Tracker, Usage, open_trackers, usable_trackers
from sweet_rl.types import Json

FORMAT: Final = 1

_EVERY_S: Final = 5.0
_PER_SESSION: Final = ("stage", "settings", "seeds", "inputs", "versions", "library", "machine")
"""What a session that was continued says for itself where the last one differs."""

_COUNTED: Final = ("requests", "retries", "failed_requests", "prompt_tokens", "completion_tokens")
_SECRET_NAMES: Final = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)S?$", re.IGNORECASE)
_SECRET_FLAG: Final = re.compile(r"(--?(?:api[-_]key|token|password)[ =]+)[^\s\"'\\]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Output:
    """A file or a folder that the run writes."""

    place: Path  # of the record
    entry: dict[str, Json]  # what the record says of the output
    before: bytes | None  # the record that was there
    state: Json  # of the output then


class Record(tracking.Listener):
    """Keeps the record of a run, which is the block that it is the context of; a listener of `sweet_rl.tracking`.

    Numbers that have steps of their own, such as losses, come by `logs`; those of a rollout are taken now and then.
    `settings` are all flags with their values, `command` would do the same, `argv` is what was typed; `parent` is the id of the
    run that this one is a part of, `step` its name in the pipeline that runs it.
    """

    id: str

    def __init__(
        self,
        stage: str,
        settings: Mapping[str, Json],
        *,
        command: str,
        argv: list[str] | None = None,
        prices: Mapping[str, facts.Price] | None = None,
        budget: Budget | None = None,
        parent: str | None = None,
        step: str | None = None,
    ) -> None:
        self.id = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
        self.stage, self.settings, self.command = stage, dict(settings), command
        self._prices, self._budget = prices, budget or Budget()
        self._about: dict[str, Json] = {} if parent is None else {"parent": parent}
        self._about |= {} if step is None else {"step": {"name": step, "flags": dict(settings)}}
        self._session: dict[str, Json] = {"started": facts.now(), "command": command, "pid": os.getpid()}
        self._session |= {} if argv is None else {"argv": argv}
        self._begun, self._folder = time.monotonic(), str(_absolute(Path()))
        self._usage: list[Usage] = []
        self._inputs: list[dict[str, Json]] = []
        self._unread: list[tuple[dict[str, Json], Path, BufferedReader | None]] = []
        self._outputs: dict[Path, _Output] = {}
        self._earlier: list[dict[str, Json]] = []
        self._writes_here = os.environ.get("RANK", "0") in {"", "0"}  # one process of a launcher
        self._lock, self._ended = threading.RLock(), threading.Event()
        self._keeper: threading.Thread | None = None
        self._progress: Progress | None = None
        self._progress_begun, self._ticked = 0.0, 0
        self._per_s: float | None = None  # units of this session per second; None before the first
        self._step_logged: int | None = None
        self._newest: dict[str, float] = {}
        self._destination = Destination()
        self._trackers: list[Tracker] = []
        self._listening = tracking.listening(self)

    # ---- what is asked of a run

    def uses(self, usage: Usage) -> None:
        self._usage.append(usage)

    def permits(self, model: str) -> None:
        budget = self._budget
        if not (budget.max_cost or budget.max_requests or budget.max_total_tokens):
            return
        if budget.max_cost and model and model not in (self._prices or {}):
            raise errors.UsageError(f"--max_cost needs the price of {model!r}: add it to {budget.prices}.")
        used = [row for models in self.usage().values() for row in models.values()]
        tokens = sum((row["prompt_tokens"] or 0) + (row["completion_tokens"] or 0) for row in used)
        uncounted = any(row["replies_without_usage"] for row in used)
        spent = {
            "max_cost": (self.cost() or {}).get("usd"),
            "max_requests": sum(row["requests"] for row in used),
            "max_total_tokens": None if uncounted else tokens,
        }
        for name, value in spent.items():
            if (most := getattr(budget, name)) is not None and (value is None or value >= most):
                why = "a server does not count its tokens, or a model has no price"
                known = f"the run has used {value:,.6g}, with retries and earlier sessions. A larger one goes on from here"
                raise errors.BudgetSpent(f"Stopped by --{name} {most:g}: {why if value is None else known}.")

    def usage(self) -> dict[str, dict[str, Json]]:
        return facts.added([*(one.get("usage") or {} for one in self._earlier), facts.summed(self._usage)])

    def cost(self) -> dict[str, Json] | None:
        return None if self._prices is None else facts.cost_of(self.usage(), self._prices)

    def killed(self) -> int:
        return sum("noticed" in session for session in self._earlier)

    def server_changes(self) -> list[str]:
        here = [f"{usage.role}: {words}" for usage in self._usage for words in usage.changes]
        earlier = [words for one in self._earlier for words in one.get("server_changes") or ()]
        return list(dict.fromkeys([*earlier, *here]))

    # ---- its numbers

    def progresses(self, progress: Progress) -> None:
        with self._lock:
            self._tick()  # what was before it has its last numbers
            self._progress, self._progress_begun = progress, time.monotonic()
            self._ticked, self._per_s = progress.first, None

    def logs(self, step: int, numbers: Mapping[str, float]) -> None:
        """Take the numbers of a step; what is no number is left out, and the step itself."""
        found = {name: float(value) for name, value in numbers.items() if isinstance(value, int | float)}
        found.pop("step", None)
        with self._lock:
            self._step_logged = step
            self._newest |= found
            self._track(step, found)

    def logs_to(self, destination: Destination) -> None:
        if self._writes_here:
            self._destination = usable_trackers(destination)

    def _tick(self) -> None:
        """Take what the progress says, if it has moved: its own numbers, and for trackers speed and tokens."""
        progress = self._progress
        if progress is None or progress.done in {self._ticked, progress.first}:
            return
        self._ticked, took_s = progress.done, time.monotonic() - self._progress_begun
        self._per_s = (progress.done - progress.first) / max(took_s, 1e-9)
        numbers = dict(progress.numbers)
        if numbers:
            self._step_logged = progress.done
            self._newest |= numbers
        numbers[f"{progress.unit}s_per_s"] = self._per_s
        numbers |= {"failed": progress.failed} if progress.failed else {}
        for role, models in facts.summed(self._usage).items():
            for name in _COUNTED:
                known = [row[name] for row in models.values() if row.get(name) is not None]
                numbers |= {f"{role}.{name}": sum(known)} if any(known) else {}
        self._track(max(progress.done, self._step_logged or 0), numbers)

    def _track(self, step: int, numbers: Mapping[str, float]) -> None:
        for tracker in list(self._trackers):
            try:
                tracker.log(step, numbers)
            except Exception as error:  # noqa: BLE001 - hours of work do not end for a curve
                self._trackers.remove(tracker)
                _warn(tracker, error)

    # ---- what it reads and writes

    def sets(self, settings: Mapping[str, object]) -> None:
        with self._lock:
            self.settings |= settings

    def reads(self, flag: str, source: str) -> None:
        """Note an input as it is now; digests are taken beside the work."""
        for name in [source] if Path(source).expanduser().exists() else source.split(","):
            path = Path(name.strip()).expanduser()
            if flag != "env_model" and not path.is_file():
                path = folder_of(name.strip()) or path
            entry: dict[str, Json] = {"flag": flag, "source": name.strip()}
            if not path.exists() and not re.search("[:/]", name):  # a word that is in the settings as well
                continue
            if any(entry.items() <= known.items() for known in self._inputs):
                continue
            self._inputs.append(entry)
            with suppress(OSError):
                if path.is_dir():
                    self._unread.append((entry, path, None))
                elif path.is_file():  # opened now: what replaces it later is another file
                    self._unread.append((entry, path, path.open("rb")))
                home = os.environ.get("HF_HOME", "~/.cache/huggingface")
                cache = Path(os.environ.get("HF_HUB_CACHE", f"{home}/hub")).expanduser()
                commit = cache / f"models--{name.strip().replace('/', '--')}" / "refs" / "main"
                with suppress(OSError, ValueError):  # a model of the hub that is in the cache
                    if revision := commit.read_text("utf-8").strip():
                        entry["revision"] = revision
                if (maker := facts.maker_of(path)) is not None:
                    entry["made_by"] = maker["id"]

    def writes(self, path: Path, *, folder: bool, continues: bool, in_place: bool) -> None:
        """Start an output: from now on the record is beside it."""
        whole = _absolute(path)
        place = facts.place_of(whole, folder=folder)
        entry: dict[str, Json] = {"path": str(path)}
        if in_place:  # beside the record of the run that made it
            place = whole.with_name(f"{whole.name}.{self.stage.replace(' ', '_')}.{RECORD}")
            entry["changed_in_place"] = True
        with self._lock:
            if whole in self._outputs or any(o in whole.parents for o in self._outputs if o.is_dir()):
                return
            old = facts.read_record(place)
            if continues and old is not None:
                self._go_on(old)
            before = place.read_bytes() if place.is_file() else None
            self._outputs[whole] = _Output(place, entry, before, _state_of(whole))
            if folder:
                whole.mkdir(parents=True, exist_ok=True)
            if old is not None and old["id"] != self.id:
                self._about["replaces"] = old["id"]
            if not self._writes_here:
                return
            for torn in place.parent.glob(f".{escape(place.name)}.*.tmp"):  # of a run that was killed
                torn.unlink(missing_ok=True)
            if (
                self._keeper is None
            ):  # the first output: trackers are beside it, or in it where it is a folder
                self._trackers = open_trackers(
                    self._destination,
                    folder=place.with_name(place.name.removesuffix(RECORD) + "tensorboard"),
                    run=self.id,
                    stage=self.stage,
                    continues=bool(self._earlier),
                    config=json.loads(self._shown(self.settings)),
                )
            self._save()
            if self._keeper is None:
                self._keeper = threading.Thread(target=self._keep, daemon=True, name="run record")
                self._keeper.start()

    def _go_on(self, old: dict[str, Json]) -> None:
        """This session continues an earlier run; of several, the one whose output was named first."""
        if old["id"] == self.id:
            return
        if self._earlier:
            self._about.setdefault("continues", []).append(old["id"])
            return
        self.id = old["id"]
        names = ("replaces", "parent", "continues")
        self._about |= {name: old[name] for name in names if name in old}
        self._about["started"] = old.get("started") or self._session["started"]
        *before, last = old["sessions"] or [{}]
        if last.get("status") == "running":
            last |= {"status": "interrupted", "noticed": facts.now()}
        mine = self._now()
        last |= {name: old[name] for name in _PER_SESSION if name in old and old[name] != mine.get(name)}
        self._earlier = [*before, last]

    def _keep(self) -> None:
        """In a thread: digests as soon as they can be had, then what has been counted, now and then."""
        wait_s = 0.0 if self._unread else _EVERY_S
        self._digest_inputs()
        while not self._ended.wait(wait_s):
            wait_s = _EVERY_S
            with suppress(errors.StorageError), self._lock:
                if not self._ended.is_set():
                    self._tick()
                    self._save()

    def _digest_inputs(self) -> None:
        while True:
            try:
                entry, path, file = self._unread.pop(0)
            except IndexError:
                return
            with suppress(OSError):
                found = facts.digest_of(path) if file is None else facts.of_open_file(file, path.suffix)
                with self._lock:
                    entry.update(found)

    # ---- its beginning and its end

    def __enter__(self) -> Self:
        self._listening.__enter__()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._listening.__exit__(None, None, None)
        status, why = _end(error)
        self._ended.set()
        if status == "finished" and self._keeper is not None:
            self._keeper.join()
            self._digest_inputs()
        while self._unread:
            if (file := self._unread.pop()[2]) is not None:
                file.close()
        with self._lock:
            self._tick()
            open_ones, self._trackers = self._trackers, []
            for tracker in open_ones:
                try:
                    tracker.close()
                except Exception as problem:  # noqa: BLE001 - the run itself is whole
                    _warn(tracker, problem)
            if self._outputs and self._writes_here and not self._was_refused(error):
                self._session |= {"finished": facts.now(), "status": status} | ({"error": why} if why else {})
                for path, output in list(self._outputs.items()):
                    with suppress(OSError):
                        if path.exists():
                            output.entry.update(facts.digest_of(path))
                        else:  # nothing came of it
                            del self._outputs[path]
                            output.place.unlink()
                try:
                    self._save()
                except errors.StorageError:
                    if status == "finished":
                        raise

    def _was_refused(self, error: BaseException | None) -> bool:
        """Whether the run was refused and has made nothing; then the records that were there are put back."""
        refused = isinstance(error, (errors.UsageError, errors.DataError))
        if not refused or isinstance(error, errors.NonFiniteError) or facts.summed(self._usage):
            return False
        if any(_state_of(path) != output.state for path, output in self._outputs.items()):
            return False
        for path, output in self._outputs.items():
            if output.before is not None:
                replace_file(output.place, [output.before])
                continue
            output.place.unlink(missing_ok=True)
            if output.state is None:
                with suppress(OSError):
                    path.rmdir()
        return True

    # ---- its text

    def _now(self) -> dict[str, Json]:
        """What a record says of its last session beside `sessions`."""
        gpus = facts.gpus()
        return {
            "stage": self.stage,
            "settings": self.settings,
            "seeds": {name: self.settings[name] for name in ("seed", "seeds") if name in self.settings},
            "inputs": self._inputs,
            "versions": facts.versions(),
            "library": facts.library(),
            "machine": facts.machine() | ({"gpus": gpus} if gpus else {}),
        }

    def _save(self) -> None:
        session: dict[str, Json] = {"status": "running"} | self._session
        session |= {"wall_s": round(time.monotonic() - self._begun, 2), "usage": facts.summed(self._usage)}
        if changes := self.server_changes():
            session["server_changes"] = changes
        sessions = [*self._earlier, session]
        outputs = [output.entry for output in self._outputs.values()]
        content: dict[str, Json] = {
            "format": FORMAT,
            "id": self.id,
            "stage": self.stage,
            "status": session["status"],
            "started": session["started"],
            "updated": facts.now(),
            "finished": session.get("finished"),
            "wall_s": round(sum(one.get("wall_s") or 0.0 for one in sessions), 2),
            "command": session["command"],
            "outputs": sorted(outputs, key=lambda entry: "changed_in_place" in entry),
            "usage": self.usage(),
        }
        if changes:
            content["server_changes"] = changes
        if (cost := self.cost()) is not None:
            content["cost"] = cost
        if (processes := os.environ.get("WORLD_SIZE", "1")) != "1":
            content["processes"] = int(processes)
        if (progress := self._progress) is not None:
            content["progress"] = {
                name: getattr(progress, name) for name in ("unit", "done", "total", "failed", "phase")
            } | {"per_s": None if self._per_s is None else float(f"{self._per_s:.4g}")}
        if self._newest:
            finite = {name: value if math.isfinite(value) else None for name, value in self._newest.items()}
            content["numbers"] = {"step": self._step_logged, **finite}
        content |= self._about | self._now()
        content |= {"error": session["error"]} if "error" in session else {}
        text = self._shown(content | {"folder": self._folder, "sessions": sessions}, indent=1)
        for path, output in self._outputs.items():
            if output.place.name != RECORD or path.is_dir():  # a folder that was taken away stays away
                replace_file(output.place, [text.encode("utf-8", "backslashreplace"), b"\n"])

    def _shown(self, content: Mapping[str, Json], indent: int | None = None) -> str:
        """As JSON without secrets."""
        keys = [str(value) for flag, value in self.settings.items() if flag.endswith("api_key_var")]
        text = json.dumps(content, indent=indent, default=str, ensure_ascii=False)
        for flag, headers in self.settings.items():
            for line in str(headers or "").splitlines() if flag.endswith("_header") else ():
                value = line.partition(":")[2].strip()
                if len(value) >= 6 and "${" not in value:
                    text = text.replace(json.dumps(value, ensure_ascii=False)[1:-1], "[secret]")
        return without_secrets(text, keys)


def _end(error: BaseException | None) -> tuple[str, str | None]:
    """How a run ended that ended with this: the status, and why."""
    match error:
        case None | SystemExit(code=None | 0):
            return "finished", None
        case SystemExit():
            return "failed", f"exit status {error.code}"
        case Exception():
            known = isinstance(error, errors.SweetRLError)
            words = str(error) if known else f"{type(error).__name__}: {error}"
            return "interrupted" if isinstance(error, errors.BudgetSpent) else "failed", words[:2000]
    return "interrupted", None  # Ctrl-C, or a task that was cancelled


def _warn(tracker: Tracker, error: Exception) -> None:
    name, why = type(tracker).__name__, errors.first_line(error)
    print(f"{name} has failed and gets no more numbers: {why} The run goes on.", file=sys.stderr)


def _state_of(path: Path) -> Json:
    """What tells whether a file, or anything in a folder, has changed; None where there is none."""
    inside = sorted(path.rglob("*")) if path.is_dir() else [path]
    files = [one.stat() for one in inside if one.is_file() and one.name != RECORD]
    return [(one.st_ino, one.st_size, one.st_mtime_ns) for one in files] if path.exists() else None


def _absolute(path: Path) -> Path:
    """Where it is, wherever the process goes; links stay as they are."""
    return Path(os.path.abspath(path.expanduser()))  # links stay


def without_secrets(text: str, names: Sequence[str] = ()) -> str:
    """JSON without secrets in URLs (`shown`) and the values of environment variables named here, or like keys."""
    for name, value in os.environ.items():
        if (name in names or _SECRET_NAMES.search(name)) and len(value) >= 8:
            text = text.replace(json.dumps(value, ensure_ascii=False)[1:-1], "[secret]")
    return shown(_SECRET_FLAG.sub(r"\1[secret]", text))
