"""The last step of AutoExplore's data: texts that the two models are trained on.

Published behaviour: docs/published/reflect_rl.md#data-of-autoexplore.
"""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl.command_line.recording import recorded
from sweet_rl.command_line.stages import stage
from sweet_rl.flags.common import Compatible, Quiet
from sweet_rl.sft_data.flags import TextFlags
from sweet_rl.worlds.auto_explore.stages.flags import Repositories


@dataclass(frozen=True, kw_only=True)
class GenSftFlags(TextFlags, Repositories, Compatible, Quiet):
    """The flags of this stage."""


@recorded("reflect gen_sft", reads=("task_file", "repo_dir"))
@stage(
    "task_file",
    defaults={"output": ""},
    helps={
        "output": "folder of the texts; default that of task_file.",
        "task_file": "tasks with trajectories, usually train.json.",
        "compat": "fixed, or published: texts of its game, which has other quotes around odd names.",
    },
)
def gen_sft(flags: GenSftFlags, /) -> None:
    """Replay the trajectories of tasks and write training texts beside their file.

    sft.jsonl is for a policy alone, sft_reflection.jsonl for the reflection model, sft_policy.jsonl for a
    policy that reads reflections; the last two also without wrong ways, as *_positive.jsonl.
    """
    from pathlib import Path

    from sweet_rl.command_line.running import progress
    from sweet_rl.sft_data.texts import read_list
    from sweet_rl.worlds.auto_explore.game import ExploreGame
    from sweet_rl.worlds.auto_explore.repositories.library import Library
    from sweet_rl.worlds.auto_explore.stages import STAGES
    from sweet_rl.worlds.auto_explore.teacher.sft import explore_texts

    tasks = read_list(Path(flags.task_file), STAGES)
    library = Library(flags.repo_dir)
    bar = progress(len(tasks), 0, unit="task", quiet=flags.quiet)
    texts = explore_texts(
        tasks,
        lambda steps: ExploreGame(library, max_turns=steps, compat=flags.compat),
        on_done=bar.update,
    )
    bar.close()
    texts.save(flags)
