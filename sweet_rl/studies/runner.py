"""Runs a study: chains of stages, two at a time, each stage once; and goes on where it was.

A stage that is done leaves a mark with its command, without the addresses of servers, which change from run
to run; an interrupted study goes on where it was.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import multiprocessing
import os
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from sweet_rl import tracking
from sweet_rl.command_line.recording import PARENT
from sweet_rl.commands.catalogue import load
from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.records import replace_file
from sweet_rl.studies.chains import Call, Chain
from sweet_rl.types import Json

_WATCH_S = 0.5
"""How often a worker looks whether its study still runs."""


def run_rounds(rounds: Sequence[Sequence[Chain]], folder: Path, *, jobs: int) -> None:
    """Run the chains of each round, `jobs` at once; a round begins when the one before it has ended.

    What follows a call that has to be run is made anew, even if it was done.

    Args:
        rounds: of chains.
        folder: of the study.
        jobs: chains at once, each in a process of its own with one thread.

    Raises:
        UsageError: the folder holds something that another command made.
        ServiceError: a stage failed; names it, its command and its log.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _forget_stale(rounds, folder)
    with _workers(jobs) as pool:
        for chains in rounds:
            running = {pool.submit(_run_chain, chain, folder): chain for chain in chains}
            for finished in as_completed(running):
                finished.result()


def seconds_of(folder: Path) -> dict[str, float]:
    """Wall-clock seconds of every stage that is done in the folder of a study, by what it made."""
    marks = sorted((folder / "done").glob("*.json"), key=lambda path: path.stat().st_mtime)
    return {mark.stem: json.loads(mark.read_text())["seconds"] for mark in marks}


@contextlib.contextmanager
def _workers(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that keep torch loaded between stages, with one thread: tiny models want no more."""
    saved = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "TOKENIZERS_PARALLELISM", PARENT)}
    os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", PARENT: tracking.run_id() or ""}
    try:
        with ProcessPoolExecutor(
            jobs,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_leave_with,
            initargs=(os.getpid(),),
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


def _leave_with(parent: int) -> None:
    """In a worker: end when the process that wanted it is gone; a killed study must not go on by itself."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _run_chain(chain: Chain, folder: Path) -> None:
    """In a worker: the calls of a chain that are not done, their output in a log file each."""
    for call in chain.calls:
        mark = _mark(call, folder)
        if _is_done(mark, call):
            continue
        print(f"[{chain.name}] $ {call.command}", flush=True)
        log = folder / "logs" / f"{call.output.name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        started = time.perf_counter()
        try:
            _run_call(call, log)
        except Exception as error:  # noqa: BLE001 - whatever it is, the person wants to know the stage
            raise ServiceError(
                f"The stage {call.stage} failed: {error}\nIts command: {call.command}\nIts output: {log}"
            ) from None
        seconds = round(time.perf_counter() - started, 2)
        print(f"[{chain.name}] {call.output.name} after {seconds:.0f} s", flush=True)
        done: Json = {"command": call.identity, "seconds": seconds}
        replace_file(mark, [json.dumps(done).encode()])


def _run_call(call: Call, log: Path) -> None:
    module, _, function = call.stage.partition(":")
    stage = getattr(importlib.import_module(module), function) if function else load(module)
    flags = {name: str(value) if isinstance(value, Path) else value for name, value in call.flags.items()}
    if call.output.is_dir() and not call.resumes:  # a model that was not finished
        shutil.rmtree(call.output)
    with log.open("w") as file, contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
        stage(*call.positional, **flags)


def _forget_stale(rounds: Sequence[Sequence[Chain]], folder: Path) -> None:
    """Remove what was made of something that is to be made anew, before anything is.

    An output without a mark was interrupted: it stays, to go on from, unless what it was made of is stale.

    Raises:
        UsageError: the folder holds something that another command made; nothing is removed.
    """
    stale: list[Call] = []
    anew = False
    for chains in rounds:
        follows = {chain.name: anew for chain in chains}
        for chain in chains:
            for call in chain.calls:
                mark = _mark(call, folder)
                if follows[chain.name]:
                    stale.append(call)
                elif not _is_done(mark, call):
                    _check_command(mark, call)
                    follows[chain.name] = True
        anew = any(follows.values())
    for call in stale:
        _mark(call, folder).unlink(missing_ok=True)
        _remove(call.output)


def _check_command(mark: Path, call: Call) -> None:
    if mark.exists() and call.output.exists():
        theirs = json.loads(mark.read_text())["command"]
        raise UsageError(
            f"{str(call.output)!r} was made by another command:\n{theirs}\n"
            f"and now it would be\n{call.identity}\n"
            "Choose another --output_dir, pass --overwrite, or remove it: it and all that follow are made "
            "anew."
        )


def _mark(call: Call, folder: Path) -> Path:
    return folder / "done" / f"{call.output.name}.json"


def _remove(output: Path) -> None:
    if output.is_dir():
        shutil.rmtree(output)
    else:
        output.unlink(missing_ok=True)


def _is_done(mark: Path, call: Call) -> bool:
    return mark.exists() and json.loads(mark.read_text())["command"] == call.identity and call.output.exists()
