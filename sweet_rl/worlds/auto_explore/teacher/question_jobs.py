"""Questions for every repository of a folder: the work of `gen_task`.

Published behaviour: docs/published/reflect_rl.md#data-of-autoexplore.
"""

from __future__ import annotations

import codecs
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

from sweet_rl.errors import UsageError
from sweet_rl.openai_client import RequestFailed
from sweet_rl.prompts import fill, load_prompt
from sweet_rl.reflect_data.jobs import Done, Job
from sweet_rl.reflect_data.teachers import Asked, Teacher
from sweet_rl.reflect_data.texts import write_list
from sweet_rl.types import Compat, Failure, Json, Message, derive_seed
from sweet_rl.worlds.auto_explore.repositories import is_allowed, scan
from sweet_rl.worlds.auto_explore.repositories.quoting import optimal_path
from sweet_rl.worlds.auto_explore.repositories.reading import read_head
from sweet_rl.worlds.auto_explore.teacher.known_questions import known_questions
from sweet_rl.worlds.auto_explore.teacher.questions import (
    DATA_LINES,
    SourceFile,
    block_of,
    draw_files,
    extract_questions,
    files_to_ask_about,
)
from sweet_rl.worlds.auto_explore.truncation import shown_part

ALL_QUESTIONS: Final = "data.json"
"""The file with those of all repositories."""

MAX_BYTES: Final = 1 << 22
"""What is read of a file; questions are about a part of it anyway."""


def plan_questions(source: Path, *, seed: int = 1, compat: Compat = "fixed") -> dict[str, SourceFile]:
    """The files of all repositories that are asked about, by a name for each; repositories are shuffled."""
    if not source.is_dir():
        raise UsageError(f"There is no folder {str(source)!r}; filter_repo makes one.")
    names = sorted(entry.name for entry in source.iterdir() if entry.is_dir() and entry.name[0] != ".")
    random.Random(seed).shuffle(names)
    planned: dict[str, SourceFile] = {}
    for name in names:
        draws = random.Random(derive_seed(seed, name))
        found = files_to_ask_about(scan(source / name), compat=compat)
        for path in draw_files(found, draws, compat=compat):
            repeat = (
                sum(file == SourceFile(name, path) for file in planned.values())
                if compat == "published"
                else 0
            )
            planned[f"{name}/{path}" + (f"#{repeat}" if repeat else "")] = SourceFile(name, path)
    return planned


async def ask_about(
    job: Job[SourceFile],
    source: Path,
    teacher: Teacher,
    count_tokens: Callable[[str], int],
    *,
    seed: int = 1,
    compat: Compat = "fixed",
) -> Done:
    """Let the teacher ask about one file; the result is a list of task records, empty for a short file.

    A reply without a single pair is a failure that holds the raw text.
    """
    file = job.item
    own_seed = derive_seed(seed, job.key, job.attempt)
    try:
        data, whole = read_head(source / file.repository, file.path, MAX_BYTES)
        text = codecs.getincrementaldecoder("utf-8")().decode(data, final=whole)
    except (OSError, UnicodeDecodeError) as error:
        return Done(None, (Failure("unreadable_file", str(error)),))
    block = block_of(text, random.Random(derive_seed(seed, job.key)), count_tokens, compat=compat)
    if not block:
        return Done([])
    if file.kind == "data":
        block = "".join(block.splitlines(keepends=True)[:DATA_LINES])
    prompt = fill(_prompt(file.kind), NAME=file.path, CONTENT=block)
    messages = [Message("system", _prompt("system").strip()), Message("user", prompt)]
    try:
        reply = await teacher.say(Asked(messages, lambda draws: _known(source, file, text, draws), own_seed))
    except RequestFailed as error:
        return Done(None, (error.failure,))
    pairs = extract_questions(reply, compat=compat)
    if not pairs and teacher.name != "embedded":
        return Done(None, (Failure("malformed_reply", reply),))
    return Done(
        [
            {
                "question": pair.question,
                "answer": pair.answer,
                "optimal_path": optimal_path(file.path, compat=compat),
                "filename": file.path,
                "root": file.repository,
                "n_level": file.levels,
                "model": teacher.name,
            }
            for pair in pairs
        ]
    )


def write_questions(
    folder: Path, planned: Mapping[str, SourceFile], results: Mapping[str, Sequence[Json]]
) -> int:
    """Write one file of tasks for each repository, and all of them to `ALL_QUESTIONS`; returns their number.

    Those of a repository called `data` are in that file alone.
    """
    by_repository: dict[str, list[Json]] = {}
    for key, file in planned.items():
        by_repository.setdefault(file.repository, []).extend(results.get(key, ()))
    for name, tasks in by_repository.items():
        if (own := f"{name}.json") != ALL_QUESTIONS:
            write_list(folder / own, tasks)
    every = [task for name in sorted(by_repository) for task in by_repository[name]]
    write_list(folder / ALL_QUESTIONS, every)
    return len(every)


def _known(source: Path, file: SourceFile, text: str, draws: random.Random) -> str:
    """What the embedded teacher asks: about what agents are shown, and no other file says."""
    texts = _texts(source / file.repository)
    others = [other for path, other in texts.items() if path != file.path]
    return known_questions(file, text, shown_part(text, file.path), draws, others=others)


@lru_cache(maxsize=2)  # files come repository by repository
def _texts(folder: Path) -> Mapping[str, str]:
    """All files of a repository that an agent may hand in."""
    repository = scan(folder)
    texts = {}
    for path in filter(is_allowed, repository.files()):
        with suppress(OSError):
            texts[path] = read_head(folder, path, MAX_BYTES).data.decode("utf-8", "ignore")
    return texts


@cache  # looking for a packaged file takes a millisecond
def _prompt(name: str) -> str:
    return load_prompt(f"gen_task_{name}")
