"""Seconds and memory of the optimizer steps of any Trainer in this process, on a CPU or a GPU."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Any


def on_gpu(device: str) -> bool:
    """Whether a device is a GPU."""
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
        """Training begins: the model is there, no step was made."""
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
        """An optimizer step has ended."""
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
    """Tells the clock of a Trainer's steps."""
    from transformers import TrainerCallback

    class Tells(TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            clock.begin()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            clock.step()

    return Tells()
