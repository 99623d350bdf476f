"""Checks before a long run: data, models, disk, GPUs, packages, servers.

Each look takes seconds at most, changes nothing, and gives findings: what is as it should be, or what is
wrong and how to repair it. Nothing here knows stages or their flags.
"""

from sweet_rl.preflight.findings import Finding, fine, missing, warn

__all__ = ["Finding", "fine", "missing", "warn"]
