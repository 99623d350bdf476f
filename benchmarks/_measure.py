"""How benchmarks measure: the machine and the command, sides that take turns, and the steps of a Trainer."""

from __future__ import annotations

import math
import os
import platform
import resource
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sweet_rl.runs import facts


def circumstances() -> dict[str, str]:
    return {"machine": machine_line(), "commit": facts.commit(), "command": command()}


def heading() -> str:
    return "\n".join(circumstances().values())


def command() -> str:
    return shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])


def machine_line() -> str:
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    processor = platform.processor() or platform.machine()
    if (cpuinfo := Path("/proc/cpuinfo")).exists():
        names = [
            line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line
        ]
        processor = names[0] if names else processor
    return (
        f"{len(os.sched_getaffinity(0))} cores of {processor}, {memory_gib:.0f} GiB, "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    )


def in_turn(
    sides: Mapping[str, Callable[[], object]],
    rounds: int,
    *,
    warm: int = 0,
    clock: Callable[[], float] = time.perf_counter,
    enough_s: float = math.inf,
) -> dict[str, list[float]]:
    """Seconds of each side in each round.

    Args:
        sides: what is timed.
        rounds: how often each runs.
        warm: further rounds before, which are not timed.
        clock: `time.process_time` counts the seconds of this process's processor only.
        enough_s: a side that has taken more does not run again; if it never ran but warm, that counts.
    """
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(warm + rounds):
        for side, run in sides.items():
            if sum(seconds[side]) <= enough_s:
                began = clock()
                run()
                seconds[side].append(clock() - began)
    return {side: each[warm:] or each for side, each in seconds.items()}


def medians(seconds: Mapping[str, list[float]]) -> dict[str, float]:
    return {side: statistics.median(each) for side, each in seconds.items()}


def on_gpu(device: str) -> bool:
    return device.startswith("cuda")


class Clock:
    """Seconds of every step, the first left out; and memory before the first and at its highest, in MiB.

    Args:
        device: where the model is. On a GPU a step has ended when the GPU is done, and memory is what torch
            has taken there; on a CPU it is the process's.
    """

    def __init__(self, device: str = "cpu") -> None:
        self._gpu = on_gpu(device)
        self._times: list[float] = []
        self._idle = 0.0

    def begin(self) -> None:
        if self._gpu:
            import torch

            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            self._idle = torch.cuda.memory_allocated() / 2**20
        else:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            self._idle = pages * resource.getpagesize() / 2**20
            Path("/proc/self/clear_refs").write_text("5")  # the highest so far is forgotten
        self._times = [time.perf_counter()]

    def step(self) -> None:
        if self._gpu:
            import torch

            torch.cuda.synchronize()
        self._times.append(time.perf_counter())

    def result(self) -> dict[str, Any]:
        """Seconds of the `first` step and of the other `steps`; MiB when `idle` and at the `peak`."""
        steps = [after - before for before, after in zip(self._times, self._times[1:], strict=False)]
        return {"first": steps[0], "steps": steps[1:], "idle": self._idle, "peak": self._peak()}

    def _peak(self) -> float:
        if self._gpu:
            import torch

            return torch.cuda.max_memory_allocated() / 2**20
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        return int(status["VmHWM"].split()[0]) / 1024


def callback(clock: Clock) -> Any:
    from transformers import TrainerCallback

    class Tells(TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            clock.begin()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            clock.step()

    return Tells()
