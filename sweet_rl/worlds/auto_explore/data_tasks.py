"""Where AutoExplore's tasks come from: repositories without what is not fit to be explored, and a teacher's questions
about their files.

Published behaviour: docs/published/reflect_rl.md#data-of-autoexplore, #deviations.
"""

from __future__ import annotations

import codecs
import random
import re
import shutil
from collections import Counter
from collections.abc import Callable
from functools import partial
from importlib import import_module
from itertools import accumulate, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sweet_rl import openai_client, tracking
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.errors import StorageError, UsageError
from sweet_rl.flags import REQUIRED, flag, group
from sweet_rl.flags.shared import Compatible, OutputDir, Overwriting, Quiet, Seeded
from sweet_rl.prompts import fill, load_prompt, packaged_text
from sweet_rl.reflect_data.texts import Output, TeacherFlags, teacher_stage, write_list
from sweet_rl.types import Compat, Failure, Json, Message, derive_seed
from sweet_rl.worlds.auto_explore.options import Repositories
from sweet_rl.worlds.auto_explore.repositories import is_allowed, kind_of, optimal_path, read_file, scan
from sweet_rl.worlds.auto_explore.tasks import ALL_QUESTIONS

if TYPE_CHECKING:
    from sweet_rl.reflect_data.jobs import Done, Job
    from sweet_rl.reflect_data.teachers import Teacher


@group("This stage")
class MakeRepositoriesFlags(OutputDir, Seeded, Overwriting):
    num: int = flag(40, "number of repositories.", at_least=1)
    hops: int = flag(
        1,
        "difficulty: with 1, names of folders and files lead to the answer; with 2, a file says who keeps a "
        "thing, and where (topic, then owner, then file).",
        at_least=1,
        at_most=2,
    )


@recorded("reflect make_repositories")
@stage(
    defaults={"output_dir": "data/auto_explore"},
    helps={
        "output_dir": "output folder.",
        "seed": "random seed; a different seed makes different repositories.",
    },
)
def make_repositories(flags: MakeRepositoriesFlags, /) -> None:
    """Write small generated repositories, and task records that ask about their files.

    There are four kinds: libraries, services, analyses of data, installations. Each repository has a dozen
    files at depths 0 to 2, and about 20 questions that exactly one file answers. The folder gets repos/, an
    input for filter_repo and gen_task, and made_tasks.json, an input for filter_task, so no download and no
    model is needed. The same seed writes the same bytes.
    """
    write = import_module("sweet_rl.mini.repositories").write_repositories
    tasks = write(
        flags.output_dir, num=flags.num, seed=flags.seed, hops=flags.hops, overwrite=flags.overwrite
    )
    print(
        f"{flags.num} repositories are in {flags.output_dir}/repos, {tasks} tasks about them in "
        f"{flags.output_dir}/made_tasks.json"
    )


@group("This stage")
class FilterRepoFlags(Repositories, Output, Overwriting, Compatible):
    pass


@recorded("reflect filter_repo", reads=("repo_dir",))
@stage(
    "repo_dir",
    defaults={"repo_dir": REQUIRED, "output": "data/auto_explore/repos_filtered"},
    helps={
        "repo_dir": "folder whose subfolders are repositories.",
        "output": "folder for the copies.",
        "compat": 'fixed, or published: the published rules, which drop any name that contains "ci" (pricing.py, social/).',
    },
)
def filter_repo(flags: FilterRepoFlags, /) -> None:
    """Copy the part of every repository in a folder that may be shown.

    Hidden entries, licences, tests and examples, names that are not ASCII, and files other than readable text
    with a known suffix are left out. Links are never followed. Files beside the repositories are not copied.
    """
    source, target = Path(flags.repo_dir), Path(flags.output)
    if not source.is_dir():
        raise UsageError(f"There is no folder {str(source)!r}. --repo_dir names a folder of repositories.")
    repositories = [
        one
        for one in sorted(source.iterdir())
        if one.is_dir() and not one.is_symlink() and one.name[0] != "."
    ]
    for entry in repositories:
        if target.resolve().is_relative_to(entry.resolve()):
            raise UsageError(f"--output lies in {str(entry)!r}, which is to be copied: choose another.")
    copies = [copy for one in repositories if (copy := target / one.name).exists()]
    if copies and not flags.overwrite:
        raise UsageError(f"{str(copies[0])!r} exists; pass --overwrite or choose another --output.")
    for copy in copies if target.resolve() != source.resolve() else ():
        shutil.rmtree(copy)  # what is left out now would stay from then
    tracking.writes(target)  # beside it: a file in there could be taken for a repository
    files, left_out = 0, Counter[str]()
    waiting = [(entry, target / entry.name) for entry in repositories]
    while waiting:  # there is no recursion: a tree may be deeper than Python's stack
        folder, copy = waiting.pop()
        try:
            copy.mkdir(parents=True, exist_ok=True)
            for here in sorted(folder.iterdir()):
                there = copy / here.name
                if reason := why_left_out(here, compat=flags.compat):
                    left_out[reason] += 1
                elif here.is_dir():
                    waiting.append((here, there))
                else:
                    shutil.copyfile(here, there, follow_symlinks=False)
                    files += 1
        except OSError as error:
            raise StorageError(f"Cannot copy {str(folder)!r} to {str(copy)!r}: {error.strerror}.") from error
    print(f"{len(repositories)} repositories with {files} files are in {flags.output}")
    if left_out:
        print(f"Left out: {', '.join(f'{count} {reason}' for reason, count in left_out.most_common())}")


_LEFT_OUT: Final = ("LICENSE", "Makefile", "conf.py", "artwork", "requirements", "tests", "examples")
"""A name that holds one of them, at any place, is left out. The published list has "ci" as well."""


def why_left_out(path: Path, *, compat: Compat = "fixed") -> str:
    """Why an entry is not copied, "" when it is. A folder with a dot in its name is taken for a file."""
    name = path.name
    if name.startswith((".", "_")):
        return "hidden"
    has_ci = "ci" in name if compat == "published" else re.search(r"(?<![A-Za-z0-9])ci(?![A-Za-z0-9])", name)
    if has_ci or any(word in name for word in _LEFT_OUT):
        return "name"
    if not name.isascii():
        return "name not ASCII"
    if compat == "fixed" and not name.isprintable():
        return "control character in name"
    if path.is_symlink() or not (path.is_dir() or path.is_file()):
        return "link or special file"
    if "." not in name:
        return ""
    if not is_allowed(name):
        return "suffix"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return "not UTF-8 text"
    if len(text) < 10:
        return "too short"
    return "" if len(text.encode("ascii", "ignore")) >= 0.9 * len(text) else "mostly not ASCII"


MAX_TOKENS: Final = 2000  # what a teacher is shown of a file
MAX_BYTES: Final = 1 << 22  # what is read of a file; questions are about a part of it anyway


@group("This stage")
class GenTaskFlags(Repositories, Output, Seeded, Overwriting, Compatible, Quiet):
    pass


@recorded("reflect gen_task", reads=("repo_dir",), prices=True, resumes=True)
@teacher_stage(
    defaults={"output": "data/auto_explore/tasks", "seed": 1},
    helps={
        "repo_dir": "the filtered repositories.",
        "output": "folder of the task files, one for each repository and data.json with all.",
        "compat": "fixed, or published: files are drawn with replacement, patterns match the whole path, and "
        "every second line of a file's text is empty.",
        "teacher": "embedded (simple patterns in the files; needs no model), or openai: a model behind any OpenAI-compatible server.",
    },
)
def gen_task(flags: GenTaskFlags, teacher_flags: TeacherFlags, /) -> None:
    """Let a teacher ask questions about files of every repository, with answers.

    Up to 100 files of each repository are drawn, none deeper than two folders. The same command resumes an
    interrupted run, and asks again if a reply could not be read. If the default --repo_dir (published as an
    archive to download) does not exist, eleven generated repositories are written there first.
    """
    from sweet_rl.reflect_data.jobs import JobFile, beside, say_failures, teach_all

    source, data = Path(flags.repo_dir), Path(flags.output) / ALL_QUESTIONS
    if flags.repo_dir == GenTaskFlags.repo_dir and not source.exists():
        made = import_module("sweet_rl.mini.repositories")
        made.write_into(source, [made.make_repository(name) for name in made.repository_names(11, seed=0)])
        print(f"{source} was not there: 11 made repositories are in it now.")
    planned = plan_questions(source, seed=flags.seed, compat=flags.compat)
    settings = teacher_flags.settings() | {"seed": flags.seed, "compat": flags.compat}
    ask = partial(ask_about, source=source, seed=flags.seed, compat=flags.compat)
    journal = beside(data, teacher_flags.name, "journal")
    with JobFile(journal, settings, overwrite=flags.overwrite, output=data) as jobs:
        tracking.writes(data.parent, folder=True, continues=not flags.overwrite)
        teach_all(jobs, planned, ask, teacher_flags, data, unit="file", quiet=flags.quiet)
        tasks: dict[str, list[Json]] = {}
        for key, (repository, _) in planned.items():
            tasks.setdefault(repository, []).extend(jobs.results.get(key, ()))
        for name, own in tasks.items():
            if f"{name}.json" != ALL_QUESTIONS:
                write_list(data.with_name(f"{name}.json"), own)
        every = [task for name in sorted(tasks) for task in tasks[name]]
        write_list(data, every)
        print(f"{len(every)} questions about {len(planned)} files are in {data}")
        say_failures(jobs, len(jobs.missing(planned)), "files", total=len(planned))


_NOT_ASKED_ABOUT: Final = tuple(map(re.compile, (r".*out.*", r".*\.git.*", r".*test.*", r"__init__.py")))


def plan_questions(source: Path, *, seed: int = 1, compat: Compat = "fixed") -> dict[str, tuple[str, str]]:
    """The files that are asked about, repository and path by a name for each: of each repository, in a drawn order, at
    most 100 that may be opened, none deeper than two folders."""
    if not source.is_dir():
        raise UsageError(f"There is no folder {str(source)!r}; filter_repo makes one.")
    names = sorted(entry.name for entry in source.iterdir() if entry.is_dir() and entry.name[0] != ".")
    random.Random(seed).shuffle(names)
    planned: dict[str, tuple[str, str]] = {}
    for name in names:
        repository, draws, asked = scan(source / name), random.Random(derive_seed(seed, name)), Counter[str]()
        above = f"{repository.root}/" if compat == "published" else ""  # there patterns see the whole path
        files = [
            path
            for path in repository.files()
            if is_allowed(path) and not any(pattern.match(above + path) for pattern in _NOT_ASKED_ABOUT)
        ]
        count = min(100, len(files))
        repeats = compat == "published" and files  # there a file can be drawn again
        for path in draws.choices(files, k=count) if repeats else draws.sample(files, count):
            if path.count("/") <= 2:
                planned[f"{name}/{path}" + (f"#{asked[path]}" if asked[path] else "")] = (name, path)
                asked[path] += 1
    return planned


def block_of(
    text: str,
    draws: random.Random,
    count_tokens: Callable[[str], int],
    *,
    max_tokens: int = MAX_TOKENS,
    compat: Compat = "fixed",
) -> str:
    """The part of a file that a teacher is shown, "" of one that is too short: all of it, or a random run of
    lines that never begins so late that fewer than `max_tokens` are left."""
    total = count_tokens(text)
    if total < 50:
        return ""
    lines = text.splitlines(keepends=True)
    if total > max_tokens:
        tokens = [count_tokens(line) for line in lines]
        last, left = len(lines), 0
        while last > 0 and left < max_tokens:
            last -= 1
            left += tokens[last]
        start = draws.randint(0, last)
        taken = takewhile(lambda sum_: sum_ <= max_tokens, accumulate(tokens[start:]))
        lines = lines[start : start + len(list(taken))]
    return ("\n" if compat == "published" else "").join(lines)


async def ask_about(
    job: Job[tuple[str, str]], teacher: Teacher, *, source: Path, seed: int = 1, compat: Compat = "fixed"
) -> Done:
    """Let the teacher ask about one file: task records, none for a short file; a reply without a pair fails."""
    from sweet_rl.reflect_data.jobs import Done
    from sweet_rl.reflect_data.teachers import Asked
    from sweet_rl.worlds.auto_explore.sandbox import PIECES

    repository, path = job.item
    try:
        data, whole = read_file(source / repository, path, MAX_BYTES)
        text = codecs.getincrementaldecoder("utf-8")().decode(data, final=whole)
    except (OSError, UnicodeDecodeError) as error:
        return Done(None, (Failure("unreadable_file", str(error)),))
    block = block_of(text, random.Random(derive_seed(seed, job.key)), PIECES.count, compat=compat)
    if not block:
        return Done([])
    kind = kind_of(path) if kind_of(path) in {"text", "data"} else "code"
    if kind == "data":
        block = "".join(block.splitlines(keepends=True)[:20])

    def known(draws: random.Random) -> str:
        ask = import_module("sweet_rl.mini.repositories").known_questions
        return str(ask(repository, path, text, draws))

    user = fill(load_prompt(f"gen_task_{kind}"), NAME=path, CONTENT=block)
    messages = [Message("system", packaged_text("gen_task_system")), Message("user", user)]
    try:
        reply = await teacher.say(Asked(messages, known, derive_seed(seed, job.key, job.attempt)))
    except openai_client.RequestFailed as error:
        return Done(None, (error.failure,))
    pairs = extract_questions(reply, compat=compat)
    if not pairs and teacher.name != "embedded":
        return Done(None, (Failure("malformed_reply", reply),))
    more: Json = {"optimal_path": optimal_path(path, compat=compat), "filename": path, "root": repository}
    more |= {"n_level": path.count("/"), "model": teacher.name}
    return Done([{"question": question, "answer": answer, **more} for question, answer in pairs])


def extract_questions(text: str, *, compat: Compat = "fixed") -> list[tuple[str, str]]:
    """The questions and answers of a reply: lines that begin with QUERY or ANSWER, without their numbers."""
    found: list[tuple[str, str]] = []
    query = ""
    for line in text.splitlines():
        word = next((word for word in ("QUERY", "ANSWER") if word in line[:10]), None)
        if word is None or (word == "ANSWER" and not query):
            continue
        rest = line.partition(word)[2]
        number = None if compat == "published" else re.match(r"\s*+\d*+\s*+:", rest)
        said = (rest[number.end() :] if number else rest.lstrip("0123456789: ")).strip()
        if word == "QUERY":
            query = said
        else:
            found.append((query, said))
    return found
