"""Between grading and training of a critic with eyes: pairs of page dialogues with the hidden page's picture."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sweet_rl import tracking
from sweet_rl.command_line.recording import recorded
from sweet_rl.errors import UsageError

if TYPE_CHECKING:
    from sweet_rl.commands.rendering import RenderFlags
    from sweet_rl.types import Trajectory


@recorded("picture_pairs", reads=("pairs_path", "saved_path"))
def picture_pairs(
    pairs_path: str,
    saved_path: str | None = None,
    output_path: str | None = None,
    *,
    browser: str = "chromium",
    network: str = "none",
    allow_scripts: bool = False,
    viewport: str = "1366x768",
    page_timeout_s: float = 30.0,
    browsers: int = 2,
    render_cache: str = "default",
    overwrite: bool = False,
) -> None:
    """Turn pairs of page dialogues into messages that show the hidden page's picture, for a critic with eyes.

    Each side becomes a list of messages: a system message with the picture, then the dialogue. train_dpo.py and
    train_reward_model.py read it with a vision-language model of the Qwen2-VL kind. Pictures are those of the
    trajectories; where they have none, the hidden page is rendered beside the output.

    evaluate_html.py runs.jsonl --k 6 --preference_path pairs.jsonl
    picture_pairs.py pairs.jsonl runs.jsonl shown.jsonl
    train_dpo.py --pretrain QWEN2_VL --dataset shown.jsonl --mean_log_prob --max_len 8192 --save_path critic

    Args:
        pairs_path: pairs of evaluate_html.py, with or without the hidden page.
        saved_path: the trajectory file that they were made of.
        output_path: the .jsonl file for the messages. Pictures are named relative to its folder.
        browser: what renders pages: chromium or firefox.
        network: none (pages get what the package ships) or allow.
        allow_scripts: run the scripts of pages.
        viewport: width and height of the window that pages are laid out for.
        page_timeout_s: seconds that one page may take.
        browsers: browsers at once.
        render_cache: folder that keeps what was rendered; default in the user's cache; none: not kept.
        overwrite: replace output_path when it exists.
    """
    if saved_path is None or output_path is None:
        raise UsageError("--saved_path (the trajectories) and --output_path (a .jsonl file) are needed.")
    from sweet_rl.runs import new_file

    new_file(output_path, "output_path", overwrite=overwrite)
    from sweet_rl.commands.rendering import RenderFlags
    from sweet_rl.preferences.page_pairs import shown_pairs
    from sweet_rl.records import read_rows, replace_rows, trajectories_from_rows

    flags = RenderFlags(
        browser, network, allow_scripts, viewport, page_timeout_s, browsers, render_cache=render_cache
    )
    flags.settings()
    trajectories = trajectories_from_rows(list(read_rows(saved_path)), path=saved_path)
    targets = _targets(trajectories, Path(saved_path), Path(output_path), flags)
    rows = shown_pairs(read_rows(pairs_path), trajectories, targets, path=pairs_path)
    tracking.writes(output_path)
    replace_rows(output_path, rows)
    print(f"{len(rows):,} pairs are in {output_path}.")


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
    from sweet_rl.commands.rendering import make_renderer
    from sweet_rl.concurrency import for_each
    from sweet_rl.pages import RenderFailed
    from sweet_rl.records import replace_file
    from sweet_rl.types import digest

    folder = output.with_name(f"{output.stem}_targets")
    tracking.writes(folder, folder=True)
    found: dict[str, str] = {}
    renderer = make_renderer(flags)

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
