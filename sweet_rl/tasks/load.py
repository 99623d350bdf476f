"""Where tasks come from: a ColBench file, the hub, or one of the embedded benchmarks.

Reading and checking rows belongs to `sweet_rl.records`.

Published behaviour: docs/published/sweet_rl.md#files.
"""

from __future__ import annotations

from pathlib import Path

from sweet_rl.errors import UsageError, missing_package
from sweet_rl.records import load_tasks_file, task_from_row
from sweet_rl.tasks import mini, mini_web
from sweet_rl.tasks.game_sources import GAME_SOURCES
from sweet_rl.types import Task

HUB_REPOSITORY = "facebook/collaborative_agent_bench"
HUB_FILES = {"test": "backend_tasks/test.jsonl", "train": "backend_tasks/train.jsonl"}
MINI_SIZES = {"train": 1000, "dev": 500, "test": 500}
"""How many mini tasks there are when no limit is given."""
MINI_WEB_SIZES = {"train": 1000, "test": 500}
"""Likewise of mini-web."""

_SOURCES = (
    "a path to a .jsonl file with ColBench tasks, 'mini:train', 'mini:dev' or 'mini:test' for the embedded "
    "benchmark (other worlds of it: 'mini:easy:test', 'mini:families:test'), 'mini-web:train' or "
    "'mini-web:test' for embedded web pages, "
    f"a game ({', '.join(GAME_SOURCES)}; behind it ':train' or ':test'), "
    f"or '{HUB_REPOSITORY}:test' (or ':train') for the published tasks"
)


def load_tasks(source: str, *, limit: int | None = None, seed: int = 0) -> list[Task]:
    """Tasks from a file, the mini benchmark, or the hub.

    Args:
        source: path to a ColBench JSON Lines file, `mini:train`, `mini:dev`, `mini:test` (of
            another world than the first: `mini:easy:test`, `mini:families:test`), `mini-web:train`,
            `mini-web:test` for web pages, a game of `GAME_SOURCES` with its split, or
            `facebook/collaborative_agent_bench`, with `:test` (the default) or `:train` behind it.
        limit: how many tasks at most, from the first on; None for all of them (`MINI_SIZES`, `MINI_WEB_SIZES`
            for the embedded benchmarks, which have no end).
        seed: draws the tasks of the embedded benchmarks; of no effect on files.

    Raises:
        UsageError: there is no such source, no file, no network, or the limit is negative.
        DataError: a row is wrong; names file, line and field.
    """
    if limit is not None and limit < 0:
        raise UsageError(f"the number of tasks must be 0 or more, got {limit}. Leave it out for all tasks.")
    name, _, split = source.partition(":")
    if name == "mini":
        return _mini_tasks(split, limit, seed)
    if name in GAME_SOURCES:
        return [task_from_row(row) for row in GAME_SOURCES[name](split)][:limit]
    if name == "mini-web":
        return _mini_web_tasks(split, limit, seed)
    if name == HUB_REPOSITORY:
        return load_tasks_file(_download(split or "test"))[:limit]
    path = Path(source).expanduser()
    if not path.is_file():
        what = "is a folder, not a file" if path.is_dir() else "is no file that exists"
        raise UsageError(f"{source!r} {what} (looked in {str(Path.cwd())!r}). Tasks can be {_SOURCES}.")
    return load_tasks_file(path)[:limit]


def _mini_tasks(where: str, limit: int | None, seed: int) -> list[Task]:
    """`where` is a split, or a world and a split."""
    world, _, split = where.rpartition(":")
    world = world or mini.DEFAULT_WORLD
    if split not in MINI_SIZES or world not in mini.WORLDS:
        raise UsageError(
            f"'mini:{where}' is no split of the mini benchmark. Use 'mini:train', 'mini:dev' or "
            "'mini:test', or name a world: 'mini:easy:test', 'mini:families:test'."
        )
    rows = mini.generate(split, MINI_SIZES[split] if limit is None else limit, seed, world)
    return [task_from_row(row) for row in rows]


def _mini_web_tasks(split: str, limit: int | None, seed: int) -> list[Task]:
    if split not in MINI_WEB_SIZES:
        raise UsageError(
            f"'mini-web:{split}' is no split of mini-web. Use 'mini-web:train' or 'mini-web:test'."
        )
    rows = mini_web.generate(split, MINI_WEB_SIZES[split] if limit is None else limit, seed)
    return [task_from_row(row) for row in rows]


def _download(split: str) -> Path:
    """The published file of a split, from the hub or its local cache."""
    if split not in HUB_FILES:
        raise UsageError(f"{HUB_REPOSITORY!r} has the splits 'test' and 'train', not {split!r}.")
    try:
        # Heavy, and only this source needs it.
        from huggingface_hub import hf_hub_download  # noqa: PLC0415
        from huggingface_hub.errors import HfHubHTTPError  # noqa: PLC0415
    except ImportError:
        raise missing_package(
            "huggingface_hub", "hub", needed_for=f"The task source {HUB_REPOSITORY!r}"
        ) from None
    file = HUB_FILES[split]
    try:
        return Path(hf_hub_download(HUB_REPOSITORY, file, repo_type="dataset"))
    except (OSError, HfHubHTTPError) as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise UsageError(
            f"Cannot get {file!r} of {HUB_REPOSITORY!r} from the hub ({reason}). "
            "On a machine with network run\n"
            f"  hf download {HUB_REPOSITORY} {file} --repo-type dataset --local-dir colbench\n"
            f"and give the path colbench/{file} instead. Without network, 'mini:{split}' needs no download."
        ) from error
