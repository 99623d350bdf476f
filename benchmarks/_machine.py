"""What every benchmark prints about the machine that it ran on."""

from __future__ import annotations

import os
import platform
from pathlib import Path


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
