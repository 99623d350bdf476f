"""Tasks of AutoExplore: published records of questions about files, read, cleaned and divided, and the embedded ones.

Published behaviour: docs/published/reflect_rl.md#data-of-autoexplore, #file-formats, #deviations, #curriculum.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from itertools import chain, zip_longest
from pathlib import Path, PurePosixPath
from typing import Any, Final

from sweet_rl.cli.stage import recorded, stage, written_by
from sweet_rl.errors import DataError, UsageError
from sweet_rl.flags import flag, group
from sweet_rl.flags.shared import Compatible, Overwriting, Seeded
from sweet_rl.reflect_data.texts import Output, TaskFile, read_list, write_list
from sweet_rl.tracking import is_record
from sweet_rl.types import Compat, Json, Task
from sweet_rl.worlds.auto_explore.options import STAGES, Levels, Repositories
from sweet_rl.worlds.auto_explore.repositories import is_allowed, split_command, unwrap, wrap

Record = dict[str, Json]

TRAIN_REPOSITORIES: Final = 40
TEST_REPOSITORIES: Final = 10  # embedded repositories; those held out are other ones, not other questions
ALL_QUESTIONS: Final = "data.json"  # the file with the questions about all repositories

_FIELDS: Final = {
    **dict.fromkeys(("filename", "root"), "a string"),
    "optimal_path": "a list of commands",
    **dict.fromkeys(("targets", "clues"), "a list of paths"),
    "trajectories": "a list of objects, each with a 'filename'",
}
"""What a record has to hold."""
_OPTIONAL: Final = frozenset(["targets", "clues", "trajectories"])


def explore_tasks(where: str = "") -> list[Record]:
    """Rows of a task source; embedded: the first question of every repository, then the second of each, and so on."""
    variant, _, split = where.rpartition(":")
    cut = {"": (0, None), "train": (0, TRAIN_REPOSITORIES), "test": (TRAIN_REPOSITORIES, None)}.get(split)
    if cut is None or (variant and not variant.startswith("hops=")):
        rows = task_rows(load_dataset(where))
        if not rows:
            raise UsageError(f"{where!r} holds no task that can be played: none has a question and a file.")
        return rows
    if variant not in {"", "hops=1", "hops=2"}:
        raise UsageError(f"{where!r}: hops must be 1 or 2. Write 'hops=2:train', say.")
    made = import_module("sweet_rl.mini.repositories")
    hops = 2 if variant == "hops=2" else 1
    names = made.repository_names(TRAIN_REPOSITORIES + TEST_REPOSITORIES, hops=hops)
    repositories = [made.make_repository(name).rows() for name in names[slice(*cut)]]
    return [
        _row(f"auto_explore/{row['root']}/{place}", row, targets_of(row))
        for place, rows in enumerate(zip_longest(*repositories))
        for row in rows
        if row is not None
    ]


def load_dataset(path: str | Path, *, compat: Compat = "fixed") -> list[Record]:
    """Records that can be played: files of the allowed kinds, and nothing hidden on the way."""
    path = Path(path).expanduser()
    files = [path]
    if path.is_dir():
        files = [one for one in sorted(path.glob("*.json")) if not is_record(one)]
    if not files or not all(file.is_file() for file in files):
        raise UsageError(
            f"There are no task records at {str(path)!r}.{written_by(path, STAGES)} Name a .json file with a "
            "list of records, a folder of such files, or 'auto-explore:train' for embedded tasks."
        )
    playable = []
    for file in files:
        for number, record in enumerate(read_list(file)):
            for name, what in _FIELDS.items():
                value = record.get(name, [] if name in _OPTIONAL else None)
                if what == "a string":
                    fits = isinstance(value, str)
                elif name == "trajectories":
                    fits = isinstance(value or [], list) and all(
                        isinstance(one, dict) and isinstance(one.get("filename"), str | None)
                        for one in value or []
                    )
                else:
                    fits = isinstance(value, list) and all(isinstance(one, str) for one in value)
                if not fits:
                    field, repair = f"[{number}].{name}", "gen_task and make_repositories write such records."
                    raise DataError(f"must be {what}", path=file, field=field, value=value, repair=repair)
            if not why_unplayable(record["optimal_path"], compat=compat):
                playable.append(record)
    return playable


def why_unplayable(optimal_path: Sequence[str], *, compat: Compat = "fixed") -> str:
    """Why the game would not offer a command of a path, in a word or two; "" where it would."""
    for command in optimal_path:
        verb, _, written = command.strip().partition(" ")
        name = written if compat == "published" else unwrap(written.strip())
        up = compat == "fixed" and (verb, name) == ("cd", "..")
        if verb in {"cd", "cat"} and name.startswith(".") and not up:
            return "hidden target"
        if verb == "cat" and not is_allowed(name):
            return "target cannot be opened"
    return ""


def targets_of(record: Mapping[str, Json], *, compat: Compat = "fixed") -> list[str]:
    """The files that count as right: the one asked for, and what successful players handed in."""
    found = [
        trajectory["filename"]
        for trajectory in record.get("trajectories") or ()
        if trajectory.get("filename")
        and (compat == "published" or str(trajectory.get("info", "")).startswith("positive"))
    ]
    if compat == "published" and not found:
        return []
    also = [] if compat == "published" else record.get("targets") or []
    return list(dict.fromkeys([record["filename"], *also, *found]))


def task_rows(records: Sequence[Record], *, easy: bool = False, compat: Compat = "fixed") -> list[Record]:
    """Records as tasks: `task_id` is "auto_explore/0" and so on, the place in the list."""
    return [
        _row(f"auto_explore/{number}", record, targets)
        for number, record in enumerate(records)
        if (targets := targets_of(record, compat=compat))
        and (easy or str(record.get("question") or "").strip())
    ]


def _row(task_id: str, record: Record, targets: list[str]) -> Record:
    more = {name: value for name, value in record.items() if name not in {"question", "trajectories"}}
    answer = f" It says: {record['answer']}" if record.get("answer") else ""
    return {
        "task_id": task_id,
        "problem_description": str(record.get("question") or ""),
        "ground_truth": targets[0],
        "hidden_information": f"The file is {' or '.join(targets)}.{answer}",
        **more,
        "targets": targets,
    }


def levels_of(
    tasks: Iterable[Task], flags: Levels, *, easy: bool = False, compat: Compat = "fixed"
) -> list[list[Task]]:
    """Tasks as they are learned: one level, or levels by the depth of their shallowest files; as published,
    of each of their files. `easy`: tasks without a question stay."""
    asked = [task for task in tasks if easy or task.problem_description.strip()]
    if not flags.depth_curriculum:
        return [asked]
    filed: dict[int, list[Task]] = {}
    for task in asked:
        depths = [str(path).count("/") for path in task.extra["targets"]]
        for depth in depths if compat == "published" else [min(depths, default=0)]:
            filed.setdefault(depth, []).append(task)
    levels = [filed[depth] for depth in sorted(filed)]
    if flags.merge_first_two and len(levels) > 1:
        levels[:2] = [levels[0] + levels[1]]
    first, rest = levels[: flags.merge_after_first_k], levels[flags.merge_after_first_k :]
    return [*first, *([list(chain(*rest))] if rest else [])]


@group("This stage")
class FilterTaskFlags(TaskFile, Repositories, Output, Overwriting, Compatible):
    pass


@recorded("reflect filter_task", reads=("task_file", "repo_dir"))
@stage(
    "task_file",
    defaults={"output": "data/auto_explore/tasks_filtered/data.json"},
    helps={
        "task_file": "task file, or a folder of task files (among other files, data.json is read only if a repository is called data).",
        "compat": "fixed, or published: tasks whose file name contains a space are dropped.",
    },
)
def filter_task(flags: FilterTaskFlags, /) -> None:
    """Drop tasks that cannot be asked or played, and merge duplicates."""
    from sweet_rl.runs import new_file

    new_file(flags.output, "output", overwrite=flags.overwrite)
    source = Path(flags.task_file)
    files = [source]
    if source.is_dir():
        files = [file for file in sorted(source.glob("*.json")) if not is_record(file)]
        if not files:
            raise UsageError(f"There is no .json file in {flags.task_file!r}; gen_task writes such files.")
    tasks = [
        task
        for file in files
        for task in read_list(file, STAGES)
        if len(files) == 1 or file.name != ALL_QUESTIONS or task.get("root") == file.stem
    ]
    if not Path(flags.repo_dir).is_dir():
        raise UsageError(
            f"There is no folder {flags.repo_dir!r}. --repo_dir names the filtered repositories."
        )
    stay, dropped = clean_tasks(tasks, Path(flags.repo_dir), compat=flags.compat)
    write_list(Path(flags.output), stay)
    print(f"{len(stay)} of {len(tasks)} tasks are in {flags.output}")
    if dropped:
        print(f"Dropped: {', '.join(f'{count} {reason}' for reason, count in dropped.most_common())}")


_LEFTOVERS: Final = frozenset(
    ["copilot_cmds", "reasons", "reason", "commands_reason", "commands_copilot_cmds", "commands"]
)
"""Fields of older files that nothing reads."""


def clean_tasks(
    tasks: Iterable[Mapping[str, Json]], repositories: Path, *, compat: Compat = "fixed"
) -> tuple[list[Record], Counter[str]]:
    """Drop what cannot be asked, bring paths into the form that is played, join duplicates; the tasks that
    stay, and how many went, by reason. Where one question was asked about several files of a repository,
    all are right: each task then lists them in `targets`."""
    dropped = Counter[str]()
    first: dict[tuple[str, str, str], Record] = {}
    same: dict[tuple[str, str], list[Record]] = {}
    for given in tasks:
        if reason := _why_dropped(given, repositories, compat=compat):
            dropped[reason] += 1
            continue
        task = {name: value for name, value in given.items() if name not in _LEFTOVERS}
        task["optimal_path"] = played_path(task["optimal_path"], compat=compat)
        root, question = str(task["root"]), str(task["question"])
        kept = first.setdefault((root, str(task["filename"]), question), task)
        if kept is task:
            same.setdefault((root, " ".join(question.casefold().split())), []).append(task)
            continue
        dropped["twice"] += 1
        there = kept.setdefault("trajectories", [])
        for trajectory in task.get("trajectories") or []:  # under the next free numbers of their kind
            kind = "positive" if str(trajectory.get("info", "")).startswith("positive") else "negative"
            number = sum(str(other.get("info", "")).startswith(kind) for other in there)
            there.append({**trajectory, "info": f"{kind}{number}"})
        if not there:
            del kept["trajectories"]
    for alike in same.values() if compat == "fixed" else ():
        for task in alike if len(alike) > 1 else ():
            task["targets"] = [one["filename"] for one in alike]
    return list(first.values()), dropped


def _why_dropped(task: Mapping[str, Json], repositories: Path, *, compat: Compat) -> str:
    """The reason why a task cannot stay, in a word or two; "" when it can."""

    def inside(path: str) -> bool:
        """Whether a relative path stays below where it begins."""
        parts = PurePosixPath(path).parts
        return bool(parts) and not path.startswith("/") and ".." not in parts

    if not str(task.get("question") or "").strip():
        return "no question"
    root, name, path = task.get("root"), task.get("filename"), task.get("optimal_path")
    if not isinstance(root, str) or not isinstance(name, str) or not isinstance(path, list):
        return "not a task"
    if not inside(root) or not (repositories / root).is_dir():
        return "no such repository"
    if not inside(name) or not (repositories / root / name).is_file():
        return "no such file"
    return why_unplayable([str(command) for command in path], compat=compat)


def played_path(commands: Iterable[Any], *, compat: Compat = "fixed") -> list[str]:
    """Commands as they are offered: no `ls`, names quoted where that is needed, `id` behind a last `cat`."""
    path = []
    for command in commands:
        verb, _, rest = str(command).strip().partition(" ")
        words = split_command(rest)
        # a name with blanks may stand there bare
        target = unwrap(words[0] or "") if len(words) == 1 else rest.strip()
        if verb != "ls":
            path.append(f"{verb} {wrap(target, compat=compat)}" if target else verb)
    if path and path[-1].startswith("cat "):
        path.append(f"id {path[-1].removeprefix('cat ')}")
    return path


SHARES: Final[dict[str, int]] = {"train": 7, "validate": 2, "test": 1}  # file name to share, in tenths


@group("This stage")
class SplitDataFlags(TaskFile, Seeded, Overwriting, Compatible):
    by_repo: bool = flag(
        False, "keep a repository's tasks in one part, so that test repositories are unseen."
    )


@recorded("reflect split_data", reads=("task_file",))
@stage(
    "task_file",
    helps={
        "task_file": "tasks of reflect reflection_negative. Those without a question are skipped.",
        "compat": "fixed, or published: each task is assigned at random, so the shares are only approximate.",
    },
)
def split_data(flags: SplitDataFlags, /) -> None:
    """Divide tasks 7:2:1 into train.json, validate.json, test.json beside the file."""
    from sweet_rl.runs import new_file

    source = Path(flags.task_file)
    for name in SHARES:
        new_file(source.with_name(f"{name}.json"), "task_file in another folder", overwrite=flags.overwrite)
    tasks = read_list(source, STAGES)
    parts = split_tasks(tasks, seed=flags.seed, by_repo=flags.by_repo, compat=flags.compat)
    for name, part in parts.items():
        write_list(source.with_name(f"{name}.json"), part)
        print(f"{len(part)} of {len(tasks)} tasks are in {source.with_name(f'{name}.json')}")


def split_tasks(
    tasks: Sequence[Mapping[str, Json]], *, seed: int = 0, by_repo: bool = False, compat: Compat = "fixed"
) -> dict[str, list[Mapping[str, Json]]]:
    """Give every task with a question to one of the three parts; within a part the order stays."""
    asked = [task for task in tasks if str(task.get("question") or "").strip()]
    draws = random.Random(seed)
    whole = {name: divmod(tenths * len(asked), 10) for name, tenths in SHARES.items()}
    sizes = {name: size for name, (size, _) in whole.items()}
    for name in sorted(SHARES, key=lambda name: -whole[name][1])[: len(asked) - sum(sizes.values())]:
        sizes[name] += 1  # the largest remainders get what is left
    if compat == "published":
        parts = [draws.choices(list(SHARES), list(SHARES.values()))[0] for _ in asked]
    elif by_repo:
        counts = Counter(str(task["root"]) for task in asked)
        names = sorted(counts)
        draws.shuffle(names)  # equally large ones come in any order
        part: dict[str, str] = {}
        for place, name in enumerate(sorted(names, key=lambda name: -counts[name])):
            empty = [one for one in SHARES if one not in part.values()]
            open_parts = empty if len(names) - place <= len(empty) else list(SHARES)
            part[name] = max(open_parts, key=sizes.__getitem__)
            sizes[part[name]] -= counts[name]
        parts = [part[str(task["root"])] for task in asked]
    else:
        parts = [part for part, size in sizes.items() for _ in range(size)]
        draws.shuffle(parts)
    return {name: [task for task, part in zip(asked, parts, strict=True) if part == name] for name in SHARES}
