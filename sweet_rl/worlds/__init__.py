"""The worlds that agents play in, by name: ours, those of installed packages, and `module:ATTRIBUTE`; and their tasks.

Begin with `base.py`, the contract: tasks in, an `Env` for each episode out. A world of your own is an object of a subclass
of `World`; an entry point of the group `sweet_rl.worlds` gives it a name. Nothing outside a world's folder knows its name
but the list here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field, fields
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, Final

from sweet_rl.cli.stage import StageEntry
from sweet_rl.errors import DataError, SweetRLError, UsageError, missing_package, no_such, suggestion
from sweet_rl.flags import flags_of as flags_of_settings
from sweet_rl.network import without_hub_if_silent
from sweet_rl.plugins import Registry, is_own
from sweet_rl.types import Json, Task
from sweet_rl.worlds.base import BaseEnv, World, no_agent, one_level, tasks_in
from sweet_rl.worlds.dialogue import HUB_REPOSITORY
from sweet_rl.worlds.options import (
    COMMON,
    AgentRequest,
    Answers,
    Archer,
    Learning,
    Level,
    LevelRequest,
    Options,
    Scores,
    ScriptedFlags,
    TaskLists,
)

__all__ = [
    "AgentRequest",
    "Answers",
    "Archer",
    "BaseEnv",
    "Learning",
    "Level",
    "LevelRequest",
    "Options",
    "Scores",
]
__all__ += ["ScriptedFlags", "TaskLists", "World", "agents_with", "all_worlds", "check_tasks"]
__all__ += ["chosen_tasks", "first_for", "flags_of", "learning_options", "levels_of", "load_tasks", "names"]
__all__ += ["no_agent", "options_of", "own_options", "two_worlds", "world_in", "world_named_in", "world_of"]

_OURS: Final = {
    "code": "sweet_rl.worlds.backend_programming.world:WORLD",
    "html": "sweet_rl.worlds.frontend_design.world:WORLD",
    "guess_my_city": "sweet_rl.worlds.guess_my_city:WORLD",
    "twenty_questions": "sweet_rl.worlds.twenty_questions:WORLD",
    "alfworld": "sweet_rl.worlds.alfworld:WORLD",
    "auto_explore": "sweet_rl.worlds.auto_explore:WORLD",
    "dangerous_taxi": "sweet_rl.worlds.dangerous_taxi:WORLD",
    "detective": "sweet_rl.worlds.detective:WORLD",
    "lantern": "sweet_rl.mini.lantern:WORLD",
    "webshop": "sweet_rl.worlds.webshop.world:WORLD",
}
"""Ours, by who answers in them: a human, an oracle, the world itself."""
_PUBLISHED: Final = {
    "backend_programming": "code",
    "frontend_design": "html",
    "adventure": "detective",
    "taxi": "dangerous_taxi",
    "llm_twenty_questions": "sweet_rl.worlds.twenty_questions:TEN_WORDS",
}
"""What they are called in published command lines, where that is another name."""
_FIRST: Final = {
    "dialogue": "code",
    "archer": "twenty_questions",
    "reflect": "auto_explore",
    "as_it_is": "dangerous_taxi",
}
"""What commands play where no world is named."""
WORLDS: Final = Registry("sweet_rl.worlds", "world", _OURS, base=World)
_OTHERS: dict[str, World] = {}
"""Those that were asked for as `module:ATTRIBUTE` in this process: their lists of tasks have names, too."""


def names() -> tuple[str, ...]:
    """All worlds that have a name: ours, then those of installed packages."""
    return WORLDS.names()


def world_of(name: str) -> World:
    """The world of this name, ours or the published one, or `module:ATTRIBUTE`; else a UsageError."""
    place = _PUBLISHED.get(name, name)
    found = WORLDS.find(place if ":" in place or place in names() else place.replace("-", "_"))
    if not isinstance(found, World):
        made = isinstance(found, type) and issubclass(found, World)
        write = f" Make one: WORLD = {found.__name__}(), and name that." if made else ""
        raise UsageError(
            f"{name!r} is not a world but {found!r}. It must be an object of a subclass of sweet_rl.worlds.World.{write}"
        )
    if ":" in name:
        check_world(found)
        _OTHERS[name] = found
    return found


def sources_of(world: World) -> list[Path]:
    """Where a world of someone's own is written: its packages as folders; of other modules the file, and those beside it that are loaded."""
    names = {one.__module__ for one in type(world).__mro__}
    names |= {name.partition(":")[0] for name, one in _OTHERS.items() if one is world}
    loaded = {
        name: Path(file)
        for name, one in list(sys.modules.items())
        if (file := getattr(one, "__file__", None))
    }
    found = set[Path]()
    for name in names:
        if name not in loaded or not is_own(name):
            continue
        top = name.partition(".")[0]
        if top in loaded and loaded[top].stem == "__init__":
            found.add(loaded[top].parent)
        else:
            found |= {file for file in loaded.values() if file.parent == loaded[name].parent}
    return sorted(found)


_MEMBERS: Final[Mapping[str, tuple[type, str]]] = {
    "name": (str, "one word of letters, digits, _ and -, since the names of its tasks begin with it"),
    "max_turns": (int, "a whole number, at least 1"),
    "agents": (Mapping, "their names with the flags that each takes, mostly none: {'good': {}, 'hasty': {}}"),
    "system_prompt": (str, "a text"),
    "tasks": (TaskLists, "a sweet_rl.worlds.TaskLists"),
    "user": (Answers, "a sweet_rl.worlds.Answers"),
    "scores": (Scores, "a sweet_rl.worlds.Scores"),
}


def check_world(world: World) -> None:
    """Raise a UsageError for a member of a world of someone's own that cannot be right."""
    for member, (kind, must) in _MEMBERS.items():
        found: Any = getattr(world, member, None)
        fits = isinstance(found, kind) and (member != "name" or re.fullmatch(r"[\w.-]+", str(found)))
        if not fits or (member == "max_turns" and found < 1):
            what = f"`{member}` of the world {type(world).__name__} is {found!r:.100}"
            raise UsageError(f"{what}: it must be {must}.")


def all_worlds() -> Iterator[World]:
    """Every world that has a name, then those that were asked for by their place."""
    yield from map(world_of, names())
    yield from list(_OTHERS.values())


def agents_with(flag: str) -> tuple[str, ...]:
    """The names of the scripted agents that take this flag, whichever world they play."""
    takers = {name for world in all_worlds() for name, takes in world.agents.items() if flag in takes}
    return tuple(sorted(takers))


def world_with(source: str) -> World:
    """The world that has a list of tasks of this name, also with what it wants; else the one of this name."""
    name = source.partition(":")[0]
    return next((world for world in all_worlds() if name in world.tasks.sources), None) or world_of(source)


def world_in(provenance: Mapping[str, Json]) -> World | None:
    """The world that a row says it is of, if it has a name here; published rows say none."""
    name = world_named_in(provenance)
    return world_of(name) if name in names() else None


def world_named_in(provenance: Mapping[str, Json]) -> str | None:
    """The name of the world that a row says it is of, which need not be known here."""
    settings = provenance.get("settings") or {}
    name = settings.get("world") or settings.get("task_type")
    return world_of(name).name if name in _PUBLISHED else name


def two_worlds(this: str, other: str, first: int, *, path: str | Path | None, line: int) -> DataError:
    """The error for a file with rows of two worlds; the first row of the other one is in line `first`."""
    repair = "Grades of two worlds have no common mean: put the rows of each into a file of their own."
    return DataError(f"is of {this}, and line {first} is of {other}", path=path, line=line, repair=repair)


def stages() -> dict[str, StageEntry]:
    """The stages of single worlds, by their names after `sweet-rl`."""
    return {name: stage for world in all_worlds() for name, stage in world.stages.items()}


def first_for(commands: str) -> str:
    """The name of the world that these commands play where none is named."""
    return _FIRST[commands]


def own_options(world: World) -> tuple[Field[Any], ...]:
    """The options that this world has beyond those of all."""
    return tuple(option for option in fields(world.options) if option.name not in COMMON)


def learning_options(world: World) -> type[Options]:
    """The dataclass of a world's options where an agent learns in it level by level."""
    return world.learning.options or world.options


def flags_of(world: World, *, learning: bool = False) -> dict[str, str]:
    """The flags of a world's options: the name that is typed, and the option's.

    `learning`: where an agent learns level by level, by published names, and without those that any world has.
    """
    if learning:
        options = flags_of_settings(learning_options(world))
        return {(one.aliases or (one.name,))[0]: one.name for one in options if one.name not in COMMON}
    return {one.name: one.name for one in flags_of_settings(world.options)}


def options_of(world: World, values: Mapping[str, Json], *, learning: bool = False) -> Options:
    """The options of this world among the values of many; those of other worlds are left out."""
    kind = learning_options(world) if learning else world.options
    names = {option.name for option in fields(kind)}
    return kind(**{name: value for name, value in values.items() if name in names})


HUB_FILES = {"test": "backend_tasks/test.jsonl", "train": "backend_tasks/train.jsonl"}


def load_tasks(
    source: str | Path, *, num_tasks: int | None = None, seed: int = 0, world: World | None = None
) -> list[Task]:
    """Tasks from a file, the hub, or a world's own list.

    Args:
        source: path to a JSON Lines file in ColBench's format, the list of a world with what it wants behind a colon
            (`mini:test`), or `facebook/collaborative_agent_bench`, with `:test` (the default) or `:train` behind it.
        num_tasks: how many at most, from the first on; None for all of them.
        seed: draws tasks that are generated.
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
    from sweet_rl.records import load_tasks_file  # not for those who only ask for names

    name, _, where = source.partition(":")
    if name == HUB_REPOSITORY:
        return load_tasks_file(_download(where or "test"))[:num_tasks]
    # ours are looked at first, so that no package is imported in vain, and none takes a name of ours
    worlds = [world] if world is not None and name in world.tasks.sources else all_worlds()
    for one in (each for each in worlds if name in each.tasks.sources):
        known = [one.tasks.train, one.tasks.test]
        splits = [each.partition(":")[2] for each in known]
        meant = where.isalpha() and where not in splits and get_close_matches(where, splits, cutoff=0.8)
        if meant:
            # lists are not declared: whether `rows` looks at their names is seen by one that is none
            try:
                any_name = tasks_in(one, f"{name}:no such list", limit=1)
            except SweetRLError:  # `rows` finds a wrong name by itself
                any_name = []
            if any_name:
                lists = f"{one.name} has {' and '.join(known)}"
                raise UsageError(f"There is no list {source!r}: did you mean {name}:{meant[0]}? {lists}.")
        return tasks_in(one, source, limit=num_tasks, seed=seed)
    path = Path(source).expanduser()
    if not path.is_file():
        what = "is a folder, not a file" if path.is_dir() else "does not exist"
        every = [*all_worlds()] if world is None else [world, *all_worlds()]
        every.sort(key=lambda one: not is_own(type(one).__module__))  # a person's own are meant first
        known = [*dict.fromkeys(one for each in every for one in (each.tasks.train, each.tasks.test))]
        raise UsageError(
            f"{source!r} {what}{suggestion(source, known)} (looked in {str(Path.cwd())!r}). Tasks can be a path to a .jsonl "
            f"file with ColBench tasks, the list of a world, such as {known[0]} or {known[1]} (there are {', '.join(known)}), "
            f"or '{HUB_REPOSITORY}:test' (or ':train') for the published tasks."
        )
    return load_tasks_file(path)[:num_tasks]


def check_tasks(world: World, tasks: Sequence[Task], source: str) -> None:
    """Raise a UsageError if there are no tasks, or they are another world's."""
    if not tasks:
        raise UsageError(f"{source!r} holds no tasks.")
    prefix = tasks[0].task_id.partition("/")[0]
    other = prefix in names() and world_of(prefix).user.by != "human" and prefix != world.name
    if other and all(task.task_id.startswith(f"{prefix}/") for task in tasks):
        raise UsageError(f"{source!r} holds tasks of a game: add --world {prefix}.")
    if why := world.tasks.refusal(tasks, world.name):
        raise UsageError(f"{source!r} {why}")


def levels_of(world: World, options: Options, request: LevelRequest) -> Sequence[Level]:
    """Tasks in the order in which they are learned; a UsageError or DataError without tasks or for a wrong one."""
    return (world.learning.levels or partial(one_level, world))(options, request)


def chosen_tasks(tasks: Sequence[Task], wanted: str, source: str) -> list[Task]:
    """Those of the tasks that are wanted: ids, places from 0 on, and ranges of places, separated by commas."""
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


def _download(split: str) -> Path:
    """The published file of a split, from the hub or its local cache."""
    if split not in HUB_FILES:
        raise UsageError(f"{HUB_REPOSITORY!r} has the splits 'test' and 'train', but not {split!r}.")
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import HfHubHTTPError
    except ImportError:
        needed_for = f"The task source {HUB_REPOSITORY!r}"
        raise missing_package("huggingface_hub", "hub", needed_for=needed_for) from None
    file = HUB_FILES[split]
    without_hub_if_silent()
    try:
        return Path(hf_hub_download(HUB_REPOSITORY, file, repo_type="dataset"))
    except (OSError, HfHubHTTPError) as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise UsageError(
            f"Cannot get {file!r} of {HUB_REPOSITORY!r} from the hub ({reason}). On a machine with network run\n"
            f"  hf download {HUB_REPOSITORY} {file} --repo-type dataset --local-dir colbench\n"
            f"and give the path colbench/{file} instead. Without network, 'mini:{split}' needs no download."
        ) from error
