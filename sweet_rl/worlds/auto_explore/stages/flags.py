"""Flags that several of these stages have, or a stage and the world itself."""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl.flags import Settings, flag


@dataclass(frozen=True, kw_only=True)
class Repositories(Settings):
    """Inputs and outputs."""

    repo_dir: str = flag("data/auto_explore/repos_filtered", "the repositories that they are about.")


@dataclass(frozen=True, kw_only=True)
class Levels(Settings):
    """The levels."""

    depth_curriculum: bool = flag(False, "levels by the depth of the files; else there is one.")
    merge_first_two: bool = flag(False, "the two shallowest levels are one.", shown="all")
    merge_after_first_k: int = flag(3, "so many levels stay, the rest are one.", at_least=0, shown="all")
