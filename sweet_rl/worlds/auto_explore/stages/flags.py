"""Flags that several of these stages have."""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl.flags import Settings, flag


@dataclass(frozen=True, kw_only=True)
class Repositories(Settings):
    """Inputs and outputs."""

    repo_dir: str = flag("data/auto_explore/repos_filtered", "the repositories that they are about.")
