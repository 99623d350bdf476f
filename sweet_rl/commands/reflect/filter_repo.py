"""The first step of AutoExplore's data: repositories that are fit to be explored.

Published behaviour: docs/published/reflect_rl.md#data-of-autoexplore.
"""

from __future__ import annotations

from sweet_rl.commands.recording import recorded


@recorded("reflect filter_repo", reads=("repo_dir",))
def filter_repo(
    repo_dir: str,
    *,
    output: str = "data/auto_explore/repos_filtered",
    overwrite: bool = False,
    strict: bool = False,
) -> None:
    """Copy what may be shown of every repository in a folder.

    Left out are hidden entries, licences, tests and examples, names that are not ASCII, and files that are no
    readable text with a known suffix. Links are never followed. Loose files in the folder stay behind.

    Args:
        repo_dir: a folder whose sub-folders are repositories.
        output: where the copies go.
        overwrite: replace copies of these repositories that are there.
        strict: the published rules, by which "ci" anywhere in a name drops it (pricing.py, social/).
    """
    import shutil
    from pathlib import Path

    from sweet_rl.errors import UsageError
    from sweet_rl.teaching.repositories import Filtered, filter_repositories

    names = [entry.name for entry in Path(repo_dir).glob("*") if entry.is_dir()]
    copies = [Path(output) / name for name in names if (Path(output) / name).exists()]
    if copies and not overwrite:
        raise UsageError(f"{str(copies[0])!r} exists; pass --overwrite or choose another --output.")
    if Path(output).resolve() != Path(repo_dir).resolve():
        for copy in copies:  # what is left out now would stay from then
            shutil.rmtree(copy)
    totals = Filtered()
    for totals in filter_repositories(Path(repo_dir), Path(output), strict=strict):  # noqa: B007
        pass
    print(f"{totals.repositories} repositories with {totals.files} files are in {output}")
    if totals.left_out:
        reasons = ", ".join(f"{count} {reason}" for reason, count in totals.left_out.most_common())
        print(f"Left out: {reasons}")
