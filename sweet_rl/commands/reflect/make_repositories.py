"""Small repositories with facts to find, as folders."""

from __future__ import annotations

from sweet_rl.commands.recording import recorded


@recorded("reflect make_repositories")
def make_repositories(
    *,
    output_dir: str = "data/auto_explore",
    num: int = 40,
    seed: int = 0,
    overwrite: bool = False,
) -> None:
    """Write small made repositories to explore, and task records that ask about their files.

    Of four kinds: libraries, services, analyses of data, installations; each a dozen files at depths
    0 to 2, with about twenty questions that exactly one file answers. In the folder appear repos/, which
    filter_repo and gen_task take as any other, and made_tasks.json, which filter_task takes, so that nothing
    needs a download or a model. The same seed writes the same bytes.

    Args:
        output_dir: the folder to write to.
        num: how many repositories.
        seed: another one makes other repositories.
        overwrite: replace what is there.
    """
    from sweet_rl.tiny_models.repositories import REPOSITORIES, TASKS, write_repositories

    tasks = write_repositories(output_dir, num=num, seed=seed, overwrite=overwrite)
    print(
        f"{num} repositories are in {output_dir}/{REPOSITORIES}, {tasks} tasks about them in "
        f"{output_dir}/{TASKS}"
    )
