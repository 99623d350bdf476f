"""The first step of AutoExplore's data: repositories that are fit to be explored."""

from __future__ import annotations

from sweet_rl.commands.recording import recorded


@recorded("reflect filter_repo", reads=("repo_dir",))
def filter_repo(
    repo_dir: str,
    *,
    output: str = "data/auto_explore/repos_filtered",
    strict: bool = False,
) -> None:
    """Copy what may be shown of every repository in a folder (Reflect-RL spec §2.1.1).

    Left out are hidden entries, licences, tests and examples, names that are not ASCII, and files that are no
    readable text with a known suffix. Links are never followed. Loose files in the folder stay behind.

    Args:
        repo_dir: a folder whose sub-folders are repositories.
        output: where the copies go; files of an earlier run are overwritten.
        strict: the published rules, by which "ci" anywhere in a name drops it (pricing.py, social/).
    """
    from pathlib import Path

    from sweet_rl.teaching.repositories import Filtered, filter_repositories

    totals = Filtered()
    for totals in filter_repositories(Path(repo_dir), Path(output), strict=strict):  # noqa: B007
        pass
    print(f"{totals.repositories} repositories with {totals.files} files are in {output}")
    if totals.left_out:
        reasons = ", ".join(f"{count} {reason}" for reason, count in totals.left_out.most_common())
        print(f"Left out: {reasons}")
