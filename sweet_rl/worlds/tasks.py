"""Loads tasks from a file, the hub, or the list of a world.

Reading and checking rows is the business of `sweet_rl.records`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sweet_rl.errors import UsageError, missing_package, no_such
from sweet_rl.network import without_hub_if_silent
from sweet_rl.types import Task
from sweet_rl.worlds.base import World
from sweet_rl.worlds.dialogue import HUB_REPOSITORY
from sweet_rl.worlds.registry import all_worlds, names, world_of

HUB_FILES = {"test": "backend_tasks/test.jsonl", "train": "backend_tasks/train.jsonl"}


def load_tasks(
    source: str | Path, *, num_tasks: int | None = None, seed: int = 0, world: World | None = None
) -> list[Task]:
    """Tasks from a file, the hub, or a world's own list.

    Args:
        source: path to a JSON Lines file in ColBench's format, the list of a world (`World.sources`) with
            what it wants behind a colon (`mini:test`, say), or
            `facebook/collaborative_agent_bench`, with `:test` (the default) or `:train` behind it.
        num_tasks: how many at most, from the first on; None for all of them.
        seed: draws tasks that are generated; of no effect on files.
        world: looked at first; it may be one without a name in the registry.

    Raises:
        UsageError: there is no such source, no file, no network, or their number is negative.
        DataError: a row is wrong; names file, line and field.
    """
    if num_tasks is not None and (not isinstance(num_tasks, int) or num_tasks < 0):
        raise UsageError(
            f"the number of tasks must be 0 or more, got {num_tasks!r}. Leave it out for all tasks."
        )
    if not isinstance(source, str | Path):
        raise UsageError(f"tasks are loaded by the name of a list or a file, got {source!r}.")
    source = str(source)
    from sweet_rl.records import load_tasks_file, task_from_row  # not for those who only ask for names

    name, _, where = source.partition(":")
    if name == HUB_REPOSITORY:
        return load_tasks_file(_download(where or "test"))[:num_tasks]
    for one in (world,) if world is not None and name in world.sources else _worlds_with(name):
        return [task_from_row(row) for row in one.rows(name, where, limit=num_tasks, seed=seed)][:num_tasks]
    path = Path(source).expanduser()
    if not path.is_file():
        what = "is a folder, not a file" if path.is_dir() else "is no file that exists"
        raise UsageError(f"{source!r} {what} (looked in {str(Path.cwd())!r}). Tasks can be {_sources()}.")
    return load_tasks_file(path)[:num_tasks]


def check_tasks(world: World, tasks: Sequence[Task], source: str) -> None:
    """Make sure that the tasks are of this world.

    Raises:
        UsageError: there are none, or they are another world's.
    """
    if not tasks:
        raise UsageError(f"{source!r} holds no tasks.")
    prefix = tasks[0].task_id.partition("/")[0]
    other = prefix in names() and world_of(prefix).answered_by != "human" and prefix != world.name
    if other and all(task.task_id.startswith(f"{prefix}/") for task in tasks):
        raise UsageError(f"{source!r} holds tasks of a game: add --world {prefix}.")
    if why := world.refuses(tasks):
        raise UsageError(f"{source!r} {why}")


def chosen_tasks(tasks: Sequence[Task], wanted: str, source: str) -> list[Task]:
    """Some of the tasks, in the order of the list.

    Args:
        tasks: all of them.
        wanted: ids, places from 0 on, and ranges of places, with commas between them.
        source: of the tasks, for messages.

    Raises:
        UsageError: there is no such task.
    """
    places = {task.task_id: place for place, task in enumerate(tasks)}
    chosen: set[int] = set()
    for word in filter(None, map(str.strip, wanted.split(","))):
        first, _, last = word.partition("-")
        if word in places:
            chosen.add(places[word])
        elif (
            first.isdigit() and (not last or last.isdigit()) and int(first) <= int(last or first) < len(tasks)
        ):
            chosen.update(range(int(first), int(last or first) + 1))
        else:
            hint = f"Places go from 0 to {len(tasks) - 1}." if tasks else ""
            raise no_such(f"task in {source!r} for --sample_ids", word, list(places)[:20], hint)
    if not chosen:
        raise UsageError(f"--sample_ids {wanted!r} names no task.")
    return [tasks[place] for place in sorted(chosen)]


def _worlds_with(source: str) -> Iterator[World]:
    """Ours are looked at first, so that no package is imported in vain, and none takes a name of ours."""
    return (world for world in all_worlds() if source in world.sources)


def _sources() -> str:
    lists = ", ".join(source for world in all_worlds() for source in world.sources)
    return (
        "a path to a .jsonl file with ColBench tasks, the list of a world, such as mini:train or mini:test "
        f"(there are {lists}), "
        f"or '{HUB_REPOSITORY}:test' (or ':train') for the published tasks"
    )


def _download(split: str) -> Path:
    """The published file of a split, from the hub or its local cache."""
    if split not in HUB_FILES:
        raise UsageError(f"{HUB_REPOSITORY!r} has the splits 'test' and 'train', not {split!r}.")
    try:
        # Heavy, and only this source needs it.
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import HfHubHTTPError
    except ImportError:
        raise missing_package(
            "huggingface_hub", "hub", needed_for=f"The task source {HUB_REPOSITORY!r}"
        ) from None
    file = HUB_FILES[split]
    without_hub_if_silent()
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
