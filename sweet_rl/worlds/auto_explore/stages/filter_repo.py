"""The first step of AutoExplore's data: repositories that are fit to be explored.

Published behaviour: docs/published/reflect_rl.md#data-of-autoexplore.
"""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl.command_line.recording import recorded
from sweet_rl.command_line.stages import stage
from sweet_rl.flags import REQUIRED
from sweet_rl.flags.common import Compatible, Overwriting
from sweet_rl.sft_data.flags import Output
from sweet_rl.worlds.auto_explore.stages.flags import Repositories


@dataclass(frozen=True, kw_only=True)
class FilterRepoFlags(Repositories, Output, Overwriting, Compatible):
    """The flags of this stage."""


@recorded("reflect filter_repo", reads=("repo_dir",))
@stage(
    "repo_dir",
    defaults={"repo_dir": REQUIRED, "output": "data/auto_explore/repos_filtered"},
    helps={
        "repo_dir": "a folder whose sub-folders are repositories.",
        "output": "where the copies go.",
        "overwrite": "replace copies of these repositories that are there.",
        "compat": 'fixed, or published: the rules by which "ci" anywhere in a name drops it (pricing.py, social/).',
    },
)
def filter_repo(flags: FilterRepoFlags, /) -> None:
    """Copy what may be shown of every repository in a folder.

    Left out are hidden entries, licences, tests and examples, names that are not ASCII, and files that are no
    readable text with a known suffix. Links are never followed. Loose files in the folder stay behind.
    """
    import shutil
    from pathlib import Path

    from sweet_rl.errors import UsageError
    from sweet_rl.worlds.auto_explore.teacher.repository_filter import Filtered, filter_repositories, to_copy

    repositories = to_copy(Path(flags.repo_dir), Path(flags.output))
    copies = [copy for one in repositories if (copy := Path(flags.output) / one.name).exists()]
    if copies and not flags.overwrite:
        raise UsageError(f"{str(copies[0])!r} exists; pass --overwrite or choose another --output.")
    if Path(flags.output).resolve() != Path(flags.repo_dir).resolve():
        for copy in copies:  # what is left out now would stay from then
            shutil.rmtree(copy)
    totals = Filtered()
    for totals in filter_repositories(Path(flags.repo_dir), Path(flags.output), compat=flags.compat):  # noqa: B007
        pass
    print(f"{totals.repositories} repositories with {totals.files} files are in {flags.output}")
    if totals.left_out:
        reasons = ", ".join(f"{count} {reason}" for reason, count in totals.left_out.most_common())
        print(f"Left out: {reasons}")
