"""Runs the steps of a pipeline: each once, some at a time, resuming an earlier run.

Every step runs in a process of its own, which ends with the one that wanted it: a pipeline that is killed
does not continue by itself.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sweet_rl import tracking
from sweet_rl.command_line.process import settle
from sweet_rl.command_line.recording import PARENT, STEP
from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.pipelines.state import Records, move_aside, outputs_of, remove
from sweet_rl.pipelines.steps import Step
from sweet_rl.policies import parent_watchdog
from sweet_rl.records import locked

_WATCH_S: Final = 0.2
"""How often a worker looks whether its pipeline still runs."""

_MODULE: Final = {"deepspeed": "--module", "torchrun": "-m", "accelerate": "-m"}
"""What launchers take a module by; others are given the console entry, a file."""


@dataclass(frozen=True, slots=True)
class How:
    """How steps are run.

    Attributes:
        jobs: steps at once.
        fresh: each step has a process of its own; else a process keeps torch loaded for the steps that
            follow, and what it holds of a GPU's memory.
        small: each process has one thread, and a step's output goes to a file: for many small steps.
        replace: throw away what a changed step made before; else it is moved aside.
    """

    jobs: int = 1
    fresh: bool = True
    small: bool = False
    replace: bool = False


def run_steps(steps: Sequence[Step], folder: Path, how: How | None = None) -> None:
    """Run the steps that are not done.

    Args:
        steps: in an order in which each comes after those that it needs.
        folder: of the pipeline.
        how: they are run.

    Raises:
        StorageError: another run is at work in the folder.
        ServiceError: a step failed; names it and its command.
    """
    how = how or How()
    with locked(folder / "pipeline"):
        tracking.writes(folder, folder=True, continues=True)
        with _workers(how) as pool:
            _Run(steps, folder, how, pool).go()


def seconds_of(folder: Path, steps: Sequence[Step]) -> dict[str, float]:
    """Wall-clock seconds of every step that is done, by name, in the order in which they were run."""
    records = Records(folder)
    done = [(step.name, records.last(step.name)) for step in steps]
    known = sorted(((str(one["started"]), name, one["wall_s"]) for name, one in done if one is not None))
    return {name: float(seconds) for _, name, seconds in known}


class _Run:
    """One run of a pipeline."""

    def __init__(self, steps: Sequence[Step], folder: Path, how: How, pool: ProcessPoolExecutor) -> None:
        self._waiting, self._folder, self._how, self._pool = list(steps), folder, how, pool
        self._places = {step.name: f"{number}/{len(steps)}" for number, step in enumerate(steps, 1)}
        self._steps = steps
        self._running: dict[Future[float], Step] = {}
        self._progress = tracking.progresses("stage", len(steps))

    def go(self) -> None:
        while self._waiting or self._running:
            self._begin()
            if not self._running:
                continue
            finished, _ = wait(self._running, return_when=FIRST_COMPLETED)
            for one in finished:
                step = self._running[one]
                seconds = self._result(one, step)
                del self._running[one]
                self._progress.done += 1
                self._say(step, f"after {seconds:.0f} s")

    def _begin(self) -> None:
        """Begin what may begin; what is done is skipped."""
        records = Records(self._folder, self._steps)
        for step in list(self._waiting):
            if len(self._running) >= self._how.jobs:
                return
            ahead = {one.name for one in (*self._waiting, *self._running.values())}
            if not ahead.isdisjoint((*step.needs, *step.after)):
                continue
            self._waiting.remove(step)
            ready = self._ready(step, records)
            if ready is not None:
                print(f"[{self._places[step.name]}] $ {ready.command}", flush=True)
                self._running[self._pool.submit(_run, ready, self._folder, small=self._how.small)] = step

    def _ready(self, step: Step, records: Records) -> Step | None:
        """The step as it is to be run; None for one that is done."""
        look = records.look(step)
        if look.state == "done":
            self._progress.done += 1
            self._progress.first += 1
            self._say(step, "done")
            return None
        if look.record is None:
            self._say(step, look.why)
            return step
        if look.state == "begun" and (resumed := step.resumed(outputs_of(look.record))) is not None:
            self._say(step, f"{look.why}: resumes")
            return resumed
        self._say(step, f"{look.why}: runs again")
        if look.state == "begun" or self._how.replace:
            remove(look.record)
        else:
            for was, place in move_aside(look.record, self._folder):
                self._say(step, f"{was} is now {place}")
        return step

    def _result(self, finished: Future[float], step: Step) -> float:
        log = f"\nIts output: {_log(step, self._folder)}" if self._how.small else ""
        how = f"Its command: {step.command}{log}"
        try:
            return finished.result()
        except BrokenProcessPool:
            why = "its process was killed; is there enough memory?"
        except Exception as error:  # noqa: BLE001 - whatever it is, the person wants to know the step
            why = str(error) or type(error).__name__
        raise ServiceError(f"The stage {step.name} failed: {why}\n{how}") from None

    def _say(self, step: Step, words: str) -> None:
        print(f"[{self._places[step.name]}] {step.name}: {words}", flush=True)


def _log(step: Step, folder: Path) -> Path:
    return folder / "logs" / f"{step.name}.log"


@contextlib.contextmanager
def _workers(how: How) -> Iterator[ProcessPoolExecutor]:
    """Processes that run steps."""
    ours = {PARENT: tracking.run_id() or ""}
    if how.small:
        ours |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    saved = {name: os.environ.get(name) for name in ours}
    os.environ |= ours
    try:
        with ProcessPoolExecutor(
            how.jobs,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_in_worker,
            initargs=(os.getpid(),),
            max_tasks_per_child=1 if how.fresh else None,
        ) as pool:
            try:
                yield pool
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    finally:
        for name, value in saved.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _in_worker(parent: int) -> None:
    """In a worker, before its first step: end when the process that wanted it is gone."""
    settle()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH_S)
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
            step()
    else:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        step()
    return time.perf_counter() - started


def _launch(step: Step) -> None:
    """Run a step by its launcher, which is ended with this process, whatever ends that."""
    entry = [_MODULE[step.launcher[0]], "sweet_rl"] if step.launcher[0] in _MODULE else [_console()]
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


def _console() -> str:
    place = Path(sys.executable).with_name("sweet-rl")
    if not place.exists():
        raise UsageError(
            f"{place} is not there, which the launcher would run. pip install sweet_rl puts it there."
        )
    return str(place)
