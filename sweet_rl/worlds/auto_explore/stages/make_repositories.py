"""Small repositories with facts to find, as folders."""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl.command_line.recording import recorded
from sweet_rl.command_line.stages import stage
from sweet_rl.flags import flag
from sweet_rl.flags.common import OutputDir, Overwriting, Seeded


@dataclass(frozen=True, kw_only=True)
class MakeRepositoriesFlags(OutputDir, Seeded, Overwriting):
    """The flags of this stage."""

    num: int = flag(40, "how many repositories.", at_least=1)
    hops: int = flag(
        1,
        "how hard they are: 1: names of folders and files lead to an answer; 2: a file says who keeps a thing, and where (topic, then owner, then file).",
        at_least=1,
        at_most=2,
    )


@recorded("reflect make_repositories")
@stage(
    defaults={"output_dir": "data/auto_explore"},
    helps={"output_dir": "the folder to write to.", "seed": "another one makes other repositories."},
)
def make_repositories(flags: MakeRepositoriesFlags, /) -> None:
    """Write small made repositories to explore, and task records that ask about their files.

    Of four kinds: libraries, services, analyses of data, installations; each a dozen files at depths
    0 to 2, with about 20 questions that exactly one file answers. In the folder appear repos/, which
    filter_repo and gen_task take as any other, and made_tasks.json, which filter_task takes, so that nothing
    needs a download or a model. The same seed writes the same bytes.
    """
    from sweet_rl.worlds.auto_explore.repositories.writing import REPOSITORIES, TASKS, write_repositories

    tasks = write_repositories(
        flags.output_dir, num=flags.num, seed=flags.seed, hops=flags.hops, overwrite=flags.overwrite
    )
    print(
        f"{flags.num} repositories are in {flags.output_dir}/{REPOSITORIES}, {tasks} tasks about them in "
        f"{flags.output_dir}/{TASKS}"
    )
