"""What every benchmark says about how it ran."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from pathlib import Path

from sweet_rl.runs import facts


def circumstances() -> dict[str, str]:
    """Machine, commit and command: enough to judge a figure by, and to measure it once more."""
    return {"machine": machine_line(), "commit": facts.commit(), "command": command()}


def heading() -> str:
    """The same as lines to print."""
    return "\n".join(circumstances().values())


def command() -> str:
    """What was typed, from the folder of the project."""
    return shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])


def machine_line() -> str:
    """Cores, memory, processor, Python: enough to judge a figure by."""
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
