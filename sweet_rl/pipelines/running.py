"""Runs the steps of a pipeline: each once, some at a time, resuming an earlier run.

Every step runs in a process of its own, which ends with the one that wanted it: a pipeline that is killed
does not continue by itself.
"""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, Literal

from sweet_rl import tracking
from sweet_rl.cli.main import configure_process
from sweet_rl.cli.parse import joined_flags, stage_flags
from sweet_rl.cli.stage import PARENT, STEP
from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.flags import REQUIRED
from sweet_rl.pipelines.steps import PLAIN, Step, function_of
from sweet_rl.policies import parent_watchdog
from sweet_rl.records import locked
from sweet_rl.runs.facts import changed_input, place_in, place_of, read_record
from sweet_rl.runs.record import without_secrets
from sweet_rl.tracking import RECORD, is_record
from sweet_rl.types import Json

_WATCH_S: Final = 0.2  # how often a worker looks whether its pipeline still runs
_GRACE_S: Final = 2.0  # in which a step ends by itself when its pipeline is stopped


def run_steps(
    steps: Sequence[Step],
    folder: Path,
    *,
    jobs: int = 1,
    fresh: bool = True,
    small: bool = False,
    threads: int = 1,
) -> None:
    """Run the steps that are not done, each once its `needs` and `after` are.

    Args:
        steps: all of the pipeline.
        folder: in which the pipeline writes.
        jobs: steps at once.
        fresh: a process for each; else one keeps torch loaded, and what it holds of a GPU's memory.
        small: few `threads` a process, and a step's command and output go to a file: for many small steps.
    """
    places = {step.name: f"{number}/{len(steps)}" for number, step in enumerate(steps, 1)}
    waiting, running = list(steps), dict[Future[float], Step]()

    def say(step: Step, words: str) -> None:
        print(f"[{places[step.name]}] {step.name}: {words}", flush=True)

    def to_run(step: Step, look: Look) -> Step | None:
        """The step as it is to be run; None for one that is done."""
        if look.state == "done":
            progress.done += 1
            progress.first += 1
            say(step, "done")
            return None
        if look.record is None:
            say(step, f"begins ({step.run.rpartition(':')[2]})")
            return step
        if look.state == "begun" and (resumed := step.resumed(outputs_of(look.record))) is not None:
            say(step, f"{look.why}: resumes")
            return resumed
        say(step, f"{look.why}: runs again")
        if look.state == "begun":
            for path in outputs_of(look.record):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
                place_of(path, folder=False).unlink(missing_ok=True)
        else:
            for was, place in _move_aside(look.record, folder):
                say(step, f"{was} is now {place}")
        return step

    with locked(folder / "pipeline"):
        tracking.writes(folder, folder=True, continues=True)
        with workers(jobs, fresh=fresh, threads=threads if small else None) as pool:
            progress = tracking.progresses("stage", len(steps))
            while waiting or running:
                records = Records(folder, steps)
                for step in list(waiting):
                    if len(running) >= jobs:
                        break
                    ahead = {one.name for one in (*waiting, *running.values())}
                    if ahead.isdisjoint((*step.needs, *step.after)):
                        waiting.remove(step)
                        if (ready := to_run(step, records.look(step))) is not None:
                            if not small:
                                print(f"[{places[step.name]}] $ {ready.command}", flush=True)
                            running[pool.submit(_run, ready, folder, small=small)] = step
                for one in wait(running, return_when=FIRST_COMPLETED).done if running else ():
                    step = running[one]
                    try:
                        seconds = one.result()
                    except BrokenProcessPool:
                        why = "its process was killed; is there enough memory?"
                    except Exception as error:  # noqa: BLE001 - whatever it is, the person wants to know the step
                        why = str(error) or type(error).__name__
                    else:
                        del running[one]
                        progress.done += 1
                        say(step, f"after {seconds:.0f} s")
                        continue
                    if len(running) > 1:
                        say(step, f"failed: {why}. What runs beside it comes to its end.")
                    log = f"\nIts output: {_log(step, folder)}" if small else ""
                    words = f"The stage {step.name} failed: {why}\nIts command: {step.command}{log}"
                    raise ServiceError(words) from None


def plan(steps: Sequence[Step], folder: Path) -> tuple[list[Step], list[str]]:
    """The steps that would run, and the plan in lines; nothing is run or written."""
    from sweet_rl.pipelines.preflight import needed  # which no worker has to import

    records, to_run, lines = Records(folder, steps), dict[str, Step](), list[str]()
    states = {"new": "would run", "changed": "would run again", "begun": "would resume", "done": "done"}
    for number, step in enumerate(steps, 1):
        look = records.look(step)
        state, why = states[look.state], look.why
        if look.state == "done" and (after := [name for name in step.needs if name in to_run]):
            state, why = "would run if its inputs change", f"after {', '.join(after)}"
        lines.append(f"[{number}/{len(steps)}] {step.name}: {state}" + (f" ({why})" if why else ""))
        lines.append(f"    $ {step.command}")
        if state != "done":
            to_run[step.name] = step
            last = records.last(step.name)
            seconds = float(last["wall_s"]) if last is not None and last["status"] == "finished" else None
            lines.append(f"    {needed(step, seconds, steps)}")
    return [*to_run.values()], [*lines, f"{len(to_run)} of {len(steps)} stages would run."]


def seconds_of(folder: Path, steps: Sequence[Step]) -> dict[str, float]:
    """Wall-clock seconds of every step that is done, by name, in the order in which they were run."""
    records = Records(folder)
    done = [(step.name, records.last(step.name)) for step in steps]
    known = sorted(((str(one["started"]), name, one["wall_s"]) for name, one in done if one is not None))
    return {name: float(seconds) for _, name, seconds in known}


def _log(step: Step, folder: Path) -> Path:
    return folder / "logs" / f"{step.name}.log"


@contextlib.contextmanager
def workers(jobs: int, *, fresh: bool, threads: int | None) -> Iterator[ProcessPoolExecutor]:
    """Processes that run steps, with so many threads each, or as many as there are cores."""
    ours = {PARENT: tracking.current().id or ""}
    if threads is not None:
        ours |= {"OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}
    saved = {name: os.environ[name] for name in ours if name in os.environ}
    context, once = multiprocessing.get_context("spawn"), 1 if fresh else None
    goes_on, stop = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(jobs, context, _in_worker, (os.getpid(), goes_on), max_tasks_per_child=once)
    os.environ |= ours
    try:
        with goes_on, stop, pool:
            try:
                yield pool
            except (KeyboardInterrupt, SystemExit):
                stop.close()
                raise
    finally:
        for name in ours:
            del os.environ[name]
        os.environ |= saved


def _in_worker(parent: int, goes_on: Connection) -> None:
    """In a worker, before its first step: end when the process that wanted it is gone, or stops, which closes the pipe."""
    configure_process()

    def lives_for(seconds: float) -> bool:
        until = time.monotonic() + seconds
        while (lives := os.getppid() == parent) and time.monotonic() < until:
            time.sleep(_WATCH_S)
        return lives

    def watch() -> None:
        while os.getppid() == parent and not goes_on.poll(_WATCH_S):
            pass
        # Ctrl-C has reached this process too, unless the signal was for its parent alone; a killed one is gone at once
        if lives_for(_GRACE_S):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            lives_for(5 * _GRACE_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _run(step: Step, folder: Path, *, small: bool) -> float:
    """In a worker: run a step; returns the seconds that it took."""
    started = time.perf_counter()
    os.environ[STEP] = step.name
    if step.launcher:
        _launch(step)
    elif small:
        log = _log(step, folder)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w") as file, contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
            print(f"$ {step.command}", flush=True)
            step()
        if (torch := sys.modules.get("torch")) is not None:
            torch.cuda.empty_cache()  # of which the processes beside this one have need
    else:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        step()
    return time.perf_counter() - started


def _launch(step: Step) -> None:
    """Run a step by its launcher, which is ended with this process, whatever ends that."""
    module = {"deepspeed": "--module", "torchrun": "-m", "accelerate": "-m"}.get(step.launcher[0])
    console = Path(sys.executable).with_name("sweet-rl")  # for launchers that take no module, but a file
    if module is None and not console.exists():
        raise UsageError(
            f"{console} is missing, which the launcher would run. `pip install sweet_rl` installs it."
        )
    entry = [str(console)] if module is None else [module, "sweet_rl"]
    watched = [sys.executable, parent_watchdog.__file__, str(os.getpid())]
    process = subprocess.Popen([*watched, *step.launcher, *entry, *step.arguments], start_new_session=True)
    try:
        status = process.wait()
    except BaseException:
        process.send_signal(signal.SIGTERM)
        process.wait()
        raise
    if status:
        raise ServiceError(f"exit status {status}")


ASIDE: Final = "replaced"
"""Folder in a pipeline's folder for what steps made before their settings or inputs changed."""

_HOW: Final = frozenset(
    {
        *("quiet", "overwrite", "to_continue", "load_checkpoint", "resume", "retry"),
        *("hostname", "port", "env_base_url", "agent_base_url", "reflection_base_url", "base_url", "prices"),
        *("request_timeout_s", "request_attempts", "request_patience_s", "max_failed", "vllm_python"),
        *("ray_address", "browsers", "render_cache", "reference_cache", "log_to", "use_tensorboard"),
        *("use_wandb", "wandb_org", "wandb_group", "wandb_project", "wandb_run_name"),
    }
)
"""Flags that say how a step is run or where a server is to be found, and nothing about its output."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a step is like, why, and the record of its last run.

    `new`: nothing of it is there. `changed`: what is there was made with other settings or of other inputs.
    `begun`: it was interrupted, or has failed, with the settings and inputs of now.
    """

    state: Literal["done", "new", "changed", "begun"]
    why: str = ""
    record: Mapping[str, Json] | None = None


class Records:
    """The records of the last runs of a pipeline's steps."""

    def __init__(self, folder: Path, steps: Iterable[Step] = ()) -> None:
        self._last: dict[str, dict[str, Json]] = {}
        places: list[Path] = []
        for above, folders, names in os.walk(folder):
            inside = [one for one in folders if not one.startswith(".")]
            folders[:] = [one for one in inside if one != ASIDE or Path(above) != folder]
            places += [Path(above, name) for name in names if is_record(Path(name))]
        for step in steps:  # where records may lie of outputs that are not in the pipeline's folder
            for value in (*step.words, *step.flags.values()):
                if isinstance(value, str | Path) and str(value) and len(str(value)) < 1000:
                    places += [place_of(Path(value), folder=is_folder) for is_folder in (True, False)]
        for place in {place.resolve(): place for place in places}.values():
            record = record_at(place)
            if record is None or "step" not in record:
                continue
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
        why = _other_settings(step, record) or changed_input(record) or self._later(step, record)
        if why:
            return Look("changed", why, record)
        if record["status"] != "finished":
            words = "failed" if record["status"] == "failed" else "was interrupted"
            return Look("begun", f"it {words}", record)
        gone = next((path for path in outputs_of(record, in_place=True) if not path.exists()), None)
        return Look("new", f"{gone} is missing", record) if gone is not None else Look("done", record=record)

    def _later(self, step: Step, record: Mapping[str, Json]) -> str:
        """A step before it that has run since, where digests cannot tell whether that matters."""
        read = {place_in(record, str(entry["source"])) for entry in record["inputs"] if "sha256" in entry}
        for name in step.needs:
            before = self.last(name)
            if before is None or read.intersection(outputs_of(before, in_place=True)):
                continue
            if str(before.get("finished") or before["updated"]) > _began(record):
                return f"{name} has run since"
        return ""


def record_at(place: Path) -> dict[str, Json] | None:
    """The record there. In a folder that was copied or moved, what it wrote and read is what lies there now, if it does.

    What is removed or put aside by its word is then never of the folder that it came from. `moved` has both places.
    """
    if (record := read_record(place)) is None:
        return None
    outputs = [(one, place_in(record, str(one["path"]))) for one in record.get("outputs") or []]
    now = Path(os.path.abspath(place.parent))
    if place.name == RECORD:  # of a folder; that of a whole run may be called otherwise now
        renamed = len(outputs) == 1 and "step" not in record
        before = (path for _, path in outputs if renamed or path.name == now.name)
    else:
        before = (path.parent for _, path in outputs if place.name.startswith(f"{path.name}."))
    was = next(before, now)
    if was.resolve() == now.resolve():
        return record
    inside = ((one, path.relative_to(was)) for one, path in outputs if path.is_relative_to(was))
    found = record | {"outputs": [one | {"path": str(now / path)} for one, path in inside]}
    old, new = was, now
    while old.name == new.name != "":  # what is around it may have been moved with it
        old, new = old.parent, new.parent
    found |= {"inputs": [dict(one) for one in record.get("inputs") or []], "moved": (old, new)}
    for entry in found["inputs"]:
        path = place_in(record, str(entry["source"]))
        if path.is_relative_to(old) and (there := new / path.relative_to(old)).exists():
            entry["source"] = str(there)
    return found


def outputs_of(record: Mapping[str, Json], *, in_place: bool = False) -> list[Path]:
    """What a run wrote; `in_place`: also the files of others that it changed."""
    outputs = record.get("outputs") or []
    return [
        place_in(record, str(one["path"])) for one in outputs if in_place or "changed_in_place" not in one
    ]


def _move_aside(record: Mapping[str, Json], folder: Path) -> list[tuple[Path, Path]]:
    """Move what a run wrote, with its records, out of the way: where each thing was, and is. A kill loses nothing."""
    moved = []
    target = folder / ASIDE / f"{record['step']['name'].replace('/', '-')}-{record['id']}"
    for path in outputs_of(record):
        for one in (path, place_of(path, folder=False)):
            if one.exists():
                named = target / one.name
                numbered = (named.with_name(f"{named.name}.{number}") for number in range(2, 1000))
                place = next(free for free in (named, *numbered) if not free.exists())
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(one, place)
                moved += [(one, place)] if one == path else []
    return moved


def _began(record: Mapping[str, Json]) -> str:
    sessions = record.get("sessions") or [{}]
    return str(sessions[-1].get("started", ""))


def _other_settings(step: Step, record: Mapping[str, Json]) -> str:
    theirs, function = record["step"]["flags"], function_of(step.run)
    flags = (*stage_flags(function), *joined_flags(function, step.settings))
    defaults = {one.name: one.default for one in flags if one.default is not REQUIRED}
    ours = json.loads(without_secrets(json.dumps(step.settings, default=str)))
    for name in _HOW.intersection(ours):
        if name != "resume" or name not in step.flags:  # ours, not the pipeline's
            del ours[name]
    before = {name: theirs.get(name, defaults.get(name)) for name in ours}
    return next(iter(differences(record, before, ours)), "")


def differences(record: Mapping[str, Json], before: Mapping[str, Json], now: Mapping[str, Json]) -> list[str]:
    """Which settings of a run, of those that are named now, were others, in words; its folder may have been moved since."""

    def without(folder: Path, here: str, value: Json) -> str:
        text = PLAIN.sub(lambda one: str(place_in({"folder": here}, one[0])), json.dumps(value))
        return text.replace(str(folder), "").replace(here, "")

    found, moved = [], record.get("moved")
    for name, value in now.items():
        was = before.get(name, value)
        same = was == value or (
            moved and without(moved[0], str(record["folder"]), was) == without(moved[1], os.getcwd(), value)
        )
        if not same:
            found.append(f"{name} was {was!r:.80}, is {value!r:.80}")
    return found
