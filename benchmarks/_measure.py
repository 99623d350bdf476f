"""How benchmarks measure: flags, machine and command, sides that take turns, tables, the steps of a Trainer."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from sweet_rl.records import replace_file
from sweet_rl.runs import facts

COLOURS = ("#1155cc", "#b45f06", "#777777")


def flags(doc: str | None, **options: Any) -> argparse.Namespace:
    """What was typed, by the defaults: of a tuple the first is it, and all are choices; a list is several values.

    A list of words holds all that there are; several are written with commas or blanks between.
    """
    look = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=doc, formatter_class=look, allow_abbrev=False)
    for name, default in options.items():
        how: dict[str, Any] = {"default": default, "type": type(default)}
        if default is None:
            how = {}
        elif isinstance(default, bool):
            how = {"action": "store_true"}
        elif isinstance(default, tuple):
            how = {"default": default[0], "choices": default}
        elif isinstance(default, list):
            how = {"default": default, "nargs": "+"}
        parser.add_argument(f"--{name}", **how)
    found = parser.parse_args()
    for name, default in options.items():
        if isinstance(default, list):
            words = [one for word in getattr(found, name) for one in str(word).split(",")]
            if isinstance(default[0], str) and (unknown := set(words) - set(default)):
                parser.error(f"--{name} knows {', '.join(default)}; not {', '.join(sorted(unknown))}")
            setattr(found, name, [type(default[0])(word) for word in words])
    return found


def show(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a Markdown table, row by row as they come."""
    for cells in (heads, ["---"] * len(heads)):
        print(f"| {' | '.join(cells)} |")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |", flush=True)


def save(path: str | None, **found: Any) -> None:
    """Write figures with their circumstances, where a file for them is named."""
    if path:
        replace_file(Path(path), [f"{json.dumps(circumstances() | found, indent=1)}\n".encode()])


def stage(name: str, *words: object, **options: object) -> None:
    """Run a stage of ours; what it said is shown when it fails."""
    typed = [f"--{option}={value}" for option, value in options.items()]
    command = [sys.executable, "-m", "sweet_rl", name, *map(str, words), *typed]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{shlex.join(command)}\n{done.stdout}{done.stderr}")


def in_a_process(script: str, options: Mapping[str, object]) -> Any:
    """What a run of the same script with these flags prints as its last line, as JSON."""
    typed = [f"--{name}={value}" for name, value in options.items()]
    done = subprocess.run([sys.executable, script, *typed], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr[-3000:])
    return json.loads(done.stdout.splitlines()[-1])


def shared_tasks(name: str, otherwise: str) -> str:
    """A task file of ColBench where SWEET_RL_SHARED has it, else the embedded tasks, said aloud."""
    root = Path(__file__).resolve().parent.parent.parent / "shared"
    path = Path(os.environ.get("SWEET_RL_SHARED", root)) / "data/colbench" / name
    if path.exists():
        return str(path)
    print(f"No ColBench file at hand (--tasks, or SWEET_RL_SHARED): measuring on {otherwise} instead.")
    return otherwise


Line = tuple[str, Sequence[tuple[float, float]]]
"""A curve's name and its points."""


def plot(panels: Mapping[tuple[str, str], Sequence[Line]], path: str | None, *, log: bool = False) -> None:
    """Where a picture is named: a panel for each (title, label along), a line for each curve; its name is told once.

    A limit is dashed; lines with the same name are of one colour, those with a name that begins with _ faint.
    """
    if not path:
        return
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        1, len(panels), figsize=(4 * len(panels), 3.6), layout="constrained", squeeze=False
    )
    names = dict.fromkeys(name.lstrip("_") for lines in panels.values() for name, _ in lines)
    colours = dict(zip(names, cycle(COLOURS), strict=False))
    for axis, ((title, along), lines) in zip(axes[0], panels.items(), strict=True):
        for name, points in lines:
            faint = {"alpha": 0.25, "linewidth": 1} if name[0] == "_" else {"label": name, "marker": "o"}
            how = {"linestyle": "--"} if "limit" in name else faint
            axis.plot(*zip(*points, strict=True), color=colours[name.lstrip("_")], markersize=3, **how)
        if log:
            axis.set(xscale="log", yscale="log")
        axis.set(title=title, xlabel=along)
        axis.grid(alpha=0.3)
    handles = {
        line.get_label(): line for axis in axes[0] for line in axis.get_lines() if line.get_label()[0] != "_"
    }
    if len(handles) > 1:
        figure.legend(handles=handles.values(), loc="outside lower center", ncols=len(handles), frameon=False)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def learned_tokenizer(texts: Iterable[str], size: int, special: list[str], **marks: Any) -> Any:
    """A byte-level BPE of words, as large models have, learned from texts."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer, bpe.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    how = {"special_tokens": special, "initial_alphabet": letters, "show_progress": False}
    bpe.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, **how))
    return PreTrainedTokenizerFast(tokenizer_object=bpe, **marks)


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
        """Seconds of the `first` step and of the others, if any, as `steps`; MiB when `idle` and at the `peak`."""
        steps = [after - before for before, after in zip(self._times, self._times[1:], strict=False)]
        return {"first": steps[0], "steps": steps[1:] or steps, "idle": self._idle, "peak": self._peak()}

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
