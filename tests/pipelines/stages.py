"""Steps of pipelines in tests: functions that write a file, and say so."""

import gc
import os
import signal
from pathlib import Path

from sweet_rl import tracking
from sweet_rl.cli.stage import recorded


@recorded("write", reads=("source",))
def write(
    output: str, source: str | None = None, *, text: str = "", times: int = 1, quiet: bool = False
) -> None:
    """Write what the source holds, and a text some times."""
    tracking.reads("source", source)
    before = Path(source).read_text() if source else ""
    assert not Path(output).exists()
    tracking.writes(output)
    Path(output).write_text(before + text * times)
    with Path(output).with_suffix(".log").open("a") as log:
        log.write("run\n")


@recorded("rows")
def rows(output: str, *, number: int, kill_at: int = -1, to_continue: bool = False) -> None:
    """Append numbers to a file; kill the whole pipeline at one of them, as long as it is not continued."""
    path = Path(output)
    there = len(path.read_text().splitlines()) if to_continue else 0
    assert to_continue or not path.exists()
    tracking.writes(path, continues=to_continue)
    for i in range(there, number):
        with path.open("a") as file:
            file.write(f"{i} {'again' if to_continue else 'first'}\n")
        if i == kill_at and not to_continue:
            os.kill(os.getppid(), signal.SIGKILL)
            signal.pause()  # until the worker notices


@recorded("train")
def train(output: str, *, until: int, kill_at: int = -1, resume: str | None = None) -> None:
    """Write a checkpoint a step into a run's folder; once, kill the whole pipeline before one."""
    run = Path(resume or Path(output, "000"))
    tracking.writes(run, folder=True, continues=True)
    run.mkdir(parents=True, exist_ok=True)
    for i in range(len(list(run.glob("checkpoint-*"))), until):
        if i == kill_at and not Path("killed").exists():
            Path("killed").touch()
            os.kill(os.getppid(), signal.SIGKILL)
            signal.pause()  # until the worker notices
        place = run / f"checkpoint-{i}"
        place.mkdir()
        (place / "trainer_state.json").write_text("first" if resume is None else "again")


def told(output: str) -> None:
    """Write how often this process looks for garbage."""
    tracking.writes(output)
    Path(output).write_text(str(gc.get_threshold()))


def fails(output: str) -> None:
    """Raise."""
    raise ValueError(f"no such thing as {output}")


@recorded("lasts")
def lasts(output: str) -> None:
    """Write the number of this process and stay."""
    tracking.writes(output)
    Path(output).write_text(str(os.getpid()))
    while True:
        signal.pause()
