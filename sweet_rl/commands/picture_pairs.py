"""Pairs of page dialogues with the hidden page's picture, for a vision critic."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sweet_rl import tracking
from sweet_rl.browsers.page import RenderFlags
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.errors import UsageError
from sweet_rl.flags import REQUIRED, flag
from sweet_rl.flags.shared import OutputPath, Overwriting, SavedPath

if TYPE_CHECKING:
    from sweet_rl.types import Trajectory


@dataclass(frozen=True, kw_only=True)
class PicturePairFlags(SavedPath, OutputPath, RenderFlags, Overwriting):
    """Inputs and outputs."""

    pairs_path: str = flag(REQUIRED, "pairs of sweet-rl evaluate_html, with or without the hidden page.")


@recorded("picture_pairs", reads=("pairs_path", "saved_path"))
@stage(
    "pairs_path",
    "saved_path",
    "output_path",
    helps={
        "saved_path": "the trajectory file that they were made of.",
        "output_path": "the .jsonl file for the messages. Pictures are named relative to its folder.",
    },
)
def picture_pairs(flags: PicturePairFlags, /) -> None:
    """Turn pairs of page dialogues into messages that show the hidden page's picture, for a vision critic.

    Each side becomes a list of messages: a system message with the picture, then the dialogue. sweet-rl train_dpo and
    sweet-rl train_reward_model read it with a vision-language model of the Qwen2-VL kind. Pictures are those of the
    trajectories; where they have none, the hidden page is rendered beside the output.

    sweet-rl evaluate_html runs.jsonl --k 6 --preference_path pairs.jsonl
    sweet-rl picture_pairs pairs.jsonl runs.jsonl shown.jsonl
    sweet-rl train_dpo --pretrain QWEN2_VL --dataset shown.jsonl --mean_log_prob --max_len 8192 --save_path critic
    """
    from sweet_rl.preferences.step_pairs import shown_pairs
    from sweet_rl.records import read_rows, replace_rows, trajectories_from_rows
    from sweet_rl.runs import new_file

    saved, output = Path(flags.saved_path), Path(flags.output_path)
    new_file(flags.output_path, "output_path", overwrite=flags.overwrite)
    trajectories = trajectories_from_rows(list(read_rows(saved)), path=flags.saved_path)
    targets = _targets(trajectories, saved, output, flags)
    rows = shown_pairs(read_rows(flags.pairs_path), trajectories, targets, path=flags.pairs_path)
    tracking.writes(output)
    replace_rows(output, rows)
    print(f"{len(rows):,} pairs are in {output}.")


def _targets(trajectories: Sequence[Trajectory], saved: Path, output: Path, flags: RenderFlags) -> list[str]:
    """Each target's picture, relative to the output's folder; rendered where there is none."""
    known: dict[str, str] = {}
    for trajectory in trajectories:
        image = trajectory.extra.get("target_image")
        if isinstance(image, str) and (saved.parent / image).is_file():
            known[trajectory.task.ground_truth] = os.path.relpath(saved.parent / image, output.parent)
    missing = {
        trajectory.task.ground_truth: trajectory.task.task_id
        for trajectory in trajectories
        if trajectory.task.ground_truth not in known
    }
    if missing:
        import asyncio

        known |= asyncio.run(_rendered(missing, output, flags))
    return [known[trajectory.task.ground_truth] for trajectory in trajectories]


async def _rendered(pages: dict[str, str], output: Path, flags: RenderFlags) -> dict[str, str]:
    """Pages, by their source, to pictures in the folder `<output>_targets`."""
    from sweet_rl.batching import for_each
    from sweet_rl.browsers import RenderFailed, open_renderer
    from sweet_rl.records import replace_file
    from sweet_rl.types import digest

    folder = output.with_name(f"{output.stem}_targets")
    tracking.writes(folder, folder=True)
    found: dict[str, str] = {}
    renderer = open_renderer(flags.rendering())

    async def render(html: str) -> None:
        try:
            page = await renderer.render(html)
        except RenderFailed as error:
            raise UsageError(f"The page of task {pages[html]!r} has no picture: {error}.") from error
        name = f"{digest(html)}.png"
        replace_file(folder / name, [page.image])
        found[html] = f"{folder.name}/{name}"

    try:
        await for_each(list(pages), render, at_once=2 * flags.browsers)
    finally:
        await renderer.close()
    return found
