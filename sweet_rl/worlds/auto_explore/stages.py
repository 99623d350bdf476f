"""Stages that make AutoExplore's training data, in their order, and measure models in the talk that it is generated with.

Published behaviour: docs/published/reflect_rl.md#data-of-autoexplore, #evaluation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path

from sweet_rl import tracking
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.errors import UsageError
from sweet_rl.flags import REQUIRED, flag
from sweet_rl.flags.shared import Compatible, MaxFailed, OutputDir, Overwriting, Quiet, Seeded
from sweet_rl.reflect_data.texts import (
    Markov,
    Output,
    TaskFile,
    TeacherFlags,
    TextFlags,
    read_list,
    teacher_stage,
    write_list,
)
from sweet_rl.tracking import is_record
from sweet_rl.worlds.auto_explore.options import STAGES, Levels, Repositories


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
    write = import_module("sweet_rl.mini.repositories").write_repositories
    tasks = write(
        flags.output_dir, num=flags.num, seed=flags.seed, hops=flags.hops, overwrite=flags.overwrite
    )
    print(
        f"{flags.num} repositories are in {flags.output_dir}/repos, {tasks} tasks about them in "
        f"{flags.output_dir}/made_tasks.json"
    )


@dataclass(frozen=True, kw_only=True)
class FilterRepoFlags(Repositories, Output, Overwriting, Compatible):
    """The flags of this stage."""


@recorded("reflect filter_repo", reads=("repo_dir",))
@stage(
    "repo_dir",
    defaults={"repo_dir": REQUIRED, "output": "data/auto_explore/repos_filtered"},
    helps={
        "repo_dir": "a folder whose sub-folders are repositories.",
        "output": "where the copies go.",
        "compat": 'fixed, or published: the rules by which "ci" anywhere in a name drops it (pricing.py, social/).',
    },
)
def filter_repo(flags: FilterRepoFlags, /) -> None:
    """Copy what may be shown of every repository in a folder.

    Left out are hidden entries, licences, tests and examples, names that are not ASCII, and files that are no
    readable text with a known suffix. Links are never followed. Loose files in the folder stay behind.
    """
    import shutil

    from sweet_rl.worlds.auto_explore.data_tasks import filter_repositories, to_copy

    source, output = Path(flags.repo_dir), Path(flags.output)
    copies = [copy for one in to_copy(source, output) if (copy := output / one.name).exists()]
    if copies and not flags.overwrite:
        raise UsageError(f"{str(copies[0])!r} exists; pass --overwrite or choose another --output.")
    if output.resolve() != source.resolve():
        for copy in copies:  # what is left out now would stay from then
            shutil.rmtree(copy)
    repositories, files, left_out = filter_repositories(source, output, compat=flags.compat)
    print(f"{repositories} repositories with {files} files are in {flags.output}")
    if left_out:
        print(f"Left out: {', '.join(f'{count} {reason}' for reason, count in left_out.most_common())}")


@dataclass(frozen=True, kw_only=True)
class GenTaskFlags(Repositories, Output, Seeded, Overwriting, Compatible, Quiet):
    """The flags of this stage."""


@recorded("reflect gen_task", reads=("repo_dir",), prices=True, resumes=True)
@teacher_stage(
    defaults={"output": "data/auto_explore/tasks", "seed": 1},
    helps={
        "repo_dir": "the filtered repositories.",
        "output": "folder of the task files, one for each repository and data.json with all.",
        "compat": "fixed, or published: files with replacement, patterns that see the whole path, every second line of a file's text empty.",
        "teacher": "embedded (plain patterns in the files; needs no model), or openai: a model behind any OpenAI-compatible server.",
    },
)
def gen_task(flags: GenTaskFlags, teacher_flags: TeacherFlags, /) -> None:
    """Let a teacher ask questions about files of every repository, with answers.

    Of each repository up to 100 files are drawn, none deeper than two folders. The same command resumes where
    it stopped, and asks again where a reply could not be read. Without the default --repo_dir (published as an
    archive to download) eleven made repositories are written there first.
    """
    from sweet_rl.reflect_data.jobs import JobFile, beside, say_failures, teach_all
    from sweet_rl.worlds.auto_explore.data_tasks import (
        ALL_QUESTIONS,
        ask_about,
        plan_questions,
        write_questions,
    )
    from sweet_rl.worlds.auto_explore.sandbox import PIECES

    source, data = Path(flags.repo_dir), Path(flags.output) / ALL_QUESTIONS
    if flags.repo_dir == GenTaskFlags.repo_dir and not source.exists():
        made = import_module("sweet_rl.mini.repositories")
        made.write_into(source, [made.make_repository(name) for name in made.repository_names(11, seed=0)])
        print(f"{source} was not there: 11 made repositories are in it now.")
    planned = plan_questions(source, seed=flags.seed, compat=flags.compat)
    settings = teacher_flags.settings() | {"seed": flags.seed, "compat": flags.compat}
    journal = beside(data, teacher_flags.name, "journal")
    ask = partial(ask_about, source=source, count_tokens=PIECES.count, seed=flags.seed, compat=flags.compat)

    with JobFile(journal, settings, overwrite=flags.overwrite, output=data) as jobs:
        tracking.writes(data.parent, folder=True, continues=not flags.overwrite)
        teach_all(jobs, planned, ask, teacher_flags, data, unit="file", quiet=flags.quiet)
        number = write_questions(data.parent, planned, jobs.results)
        print(f"{number} questions about {len(planned)} files are in {data}")
        say_failures(jobs, len(jobs.missing(planned)), "files", total=len(planned))


@dataclass(frozen=True, kw_only=True)
class FilterTaskFlags(TaskFile, Repositories, Output, Overwriting, Compatible):
    """The flags of this stage."""


@recorded("reflect filter_task", reads=("task_file", "repo_dir"))
@stage(
    "task_file",
    defaults={"output": "data/auto_explore/tasks_filtered/data.json"},
    helps={
        "task_file": "a file of tasks, or a folder of them (beside others, data.json counts only for a repository called data).",
        "compat": "fixed, or published: a task with a blank in its file's name is dropped.",
    },
)
def filter_task(flags: FilterTaskFlags, /) -> None:
    """Drop tasks that cannot be asked or played, and join duplicates."""
    from sweet_rl.runs import new_file
    from sweet_rl.worlds.auto_explore.data_tasks import ALL_QUESTIONS, clean_tasks

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


@dataclass(frozen=True, kw_only=True)
class ReflectionNegativeFlags(TaskFile, Repositories, Output, Markov, Seeded, Overwriting, Compatible, Quiet):
    """The flags of this stage."""

    negatives: bool = flag(True, "make the wrong ways as well.")


@recorded("reflect reflection_negative", reads=("task_file", "repo_dir"), prices=True, resumes=True)
@teacher_stage(
    "task_file",
    defaults={"output": "", "task_file": "data/auto_explore/tasks_filtered/data.json"},
    helps={
        "task_file": "the filtered tasks.",
        "output": "the file to write; default data_reflection_negative.json beside task_file.",
        "compat": "fixed, or published: reflections and commands are paired by their place even where a reply could not be read, quoted names stay quoted, and both wrong ways may open the same file.",
    },
)
def reflection_negative(flags: ReflectionNegativeFlags, teacher_flags: TeacherFlags, /) -> None:
    """Let a teacher do the tasks aloud, and find back from wrong files.

    Each task gets one trajectory of the right way and, for each file on its path, two that open another file
    there first. Where the output exists, what is missing in it is added (another teacher adds its own right
    ways). The same command resumes where it stopped.
    """
    from sweet_rl.reflect_data.jobs import JobFile, beside, say_failures, teach_all
    from sweet_rl.worlds.auto_explore.data_texts import add_lessons, plan_lessons, teach
    from sweet_rl.worlds.auto_explore.game import ExploreGame
    from sweet_rl.worlds.auto_explore.repositories import Library

    usual = Path(flags.task_file).with_name("data_reflection_negative.json")
    target = Path(flags.output) if flags.output else usual
    tasks = read_list(target if target.exists() and not flags.overwrite else Path(flags.task_file), STAGES)
    planned = plan_lessons(tasks, teacher_flags.name, negatives=flags.negatives)
    own = ("seed", "compat", "max_turns", "markov")
    settings = teacher_flags.settings() | {name: getattr(flags, name) for name in own}
    new_game = partial(ExploreGame, Library(flags.repo_dir), max_turns=flags.max_turns, compat=flags.compat)
    learn = partial(teach, make_game=new_game, seed=flags.seed, markov=flags.markov, compat=flags.compat)
    with JobFile(beside(target, teacher_flags.name, "journal"), settings, overwrite=flags.overwrite) as jobs:
        for path in (jobs.path, target):
            tracking.writes(path, continues=not flags.overwrite)
        teach_all(jobs, planned, learn, teacher_flags, target, unit="way", quiet=flags.quiet)
        complete = add_lessons(tasks, planned, jobs.results)
        write_list(target, complete)
        ways = [one["info"] for task in complete for one in task.get("trajectories") or []]
        right = sum(info.startswith("positive") for info in ways)
        wrong = len(ways) - right
        print(f"{len(complete)} tasks with {right} right ways and {wrong} wrong ones are in {target}")
        say_failures(jobs, len(jobs.missing(planned)), "trajectories", total=len(planned))


@dataclass(frozen=True, kw_only=True)
class SplitDataFlags(TaskFile, Seeded, Overwriting, Compatible):
    """The flags of this stage."""

    by_repo: bool = flag(
        False, "all tasks of a repository go to one part, so that tests are on repositories never seen."
    )


@recorded("reflect split_data", reads=("task_file",))
@stage(
    "task_file",
    helps={
        "task_file": "tasks, as reflection_negative writes them. Those without a question are left out.",
        "compat": "fixed, or published: each task by a draw of its own, so that the shares hold only about.",
    },
)
def split_data(flags: SplitDataFlags, /) -> None:
    """Divide tasks 7:2:1 into train.json, validate.json, test.json beside the file."""
    from sweet_rl.runs import new_file
    from sweet_rl.worlds.auto_explore.data_tasks import SHARES, split_tasks

    source = Path(flags.task_file)
    for name in SHARES:
        new_file(source.with_name(f"{name}.json"), "task_file in another folder", overwrite=flags.overwrite)
    tasks = read_list(source, STAGES)
    parts = split_tasks(tasks, seed=flags.seed, by_repo=flags.by_repo, compat=flags.compat)
    for name, part in parts.items():
        write_list(source.with_name(f"{name}.json"), part)
        print(f"{len(part)} of {len(tasks)} tasks are in {source.with_name(f'{name}.json')}")


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
    from sweet_rl.cli.progress import progress
    from sweet_rl.worlds.auto_explore.data_texts import explore_texts
    from sweet_rl.worlds.auto_explore.game import ExploreGame
    from sweet_rl.worlds.auto_explore.repositories import Library

    tasks = read_list(Path(flags.task_file), STAGES)
    library = Library(flags.repo_dir)
    bar = progress(len(tasks), 0, unit="task", quiet=flags.quiet)
    texts = explore_texts(
        tasks, lambda steps: ExploreGame(library, max_turns=steps, compat=flags.compat), on_done=bar.update
    )
    bar.close()
    texts.save(flags)


@dataclass(frozen=True, kw_only=True)
class AutoExploreGptFlags(
    TaskFile, Repositories, Levels, Markov, Output, MaxFailed, Seeded, Overwriting, Compatible, Quiet
):
    """The flags of this stage."""

    eval_reps: int = flag(10, "episodes of every task.", at_least=1)


@recorded("reflect auto_explore_gpt", reads=("task_file", "repo_dir"), prices=True, resumes=True)
@teacher_stage(
    "task_file",
    defaults={
        "task_file": "data/auto_explore/tasks_filtered/test.json",
        "output": "results/auto_explore_gpt.json",
    },
    helps={
        "output": "the file of results; beside it is a journal of the episodes.",
        "compat": "fixed, or published: its targets, levels and costs, and an episode that fails is one that is not won.",
        "teacher": "embedded (no model: a scripted player that sees what a model sees, and knows whether a file that it opened is right), or openai: a model behind an OpenAI-compatible server.",
    },
)
def auto_explore_gpt(flags: AutoExploreGptFlags, teacher_flags: TeacherFlags, /) -> None:
    """Let a model do tasks of AutoExplore, and print its success on every level.

    A model is named by --teacher openai --base_url URL --model NAME. Without these flags none is measured:
    the embedded player is, and the result says so.

    An episode that fails because a service is missing is in no number; the same command plays it again, and resumes
    where it stopped.
    """
    from sweet_rl.records import task_from_row
    from sweet_rl.reflect_data.jobs import Done, Job, JobFile, beside, judge_episodes, teach_all
    from sweet_rl.reflect_data.teachers import Teacher
    from sweet_rl.types import Task, derive_seed
    from sweet_rl.worlds.auto_explore.data_texts import play_explore, success_by_level
    from sweet_rl.worlds.auto_explore.game import ExploreGame
    from sweet_rl.worlds.auto_explore.repositories import Library
    from sweet_rl.worlds.auto_explore.tasks import levels_of, load_dataset, task_rows

    rows = task_rows(load_dataset(flags.task_file, compat=flags.compat), compat=flags.compat)
    levels = [
        {
            f"level {at} task {number} repeat {repeat}": task
            for number, task in enumerate(level)
            for repeat in range(flags.eval_reps)
        }
        for at, level in enumerate(levels_of(map(task_from_row, rows), flags, compat=flags.compat))
    ]
    planned = {key: task for level in levels for key, task in level.items()}
    if not planned:
        raise UsageError(f"{flags.task_file!r} holds no task that can be played.")
    output, library = Path(flags.output), Library(flags.repo_dir)
    own = ("seed", "max_turns", "markov", "compat")
    settings = teacher_flags.settings() | {name: getattr(flags, name) for name in own}
    journal = beside(output, teacher_flags.name, "journal")

    async def episode(job: Job[Task], teacher: Teacher) -> Done:
        game = ExploreGame(library, max_turns=flags.max_turns, compat=flags.compat)
        seed = derive_seed(flags.seed, job.key, job.attempt)
        return await play_explore(
            job.item, game, teacher, seed=seed, markov=flags.markov, compat=flags.compat
        )

    with JobFile(journal, settings, overwrite=flags.overwrite, output=output) as jobs:
        for path in (journal, output):
            tracking.writes(path, continues=not flags.overwrite)
        teach_all(jobs, planned, episode, teacher_flags, output, unit="episode", quiet=flags.quiet)
        embedded = "sees what a model sees, and knows of a file that it opened whether it is right"
        print(teacher_flags.measured(embedded))
        results = [{**row, "player": teacher_flags.name} for row in success_by_level(levels, jobs.results)]
        for row in results:
            none = "no episode was played to its end"
            share = none if row["success"] is None else f"{100 * row['success']:.2f}%"
            print(f"Level {row['level']}: {share}")
        write_list(output, results)
        print(f"That is in {output}")
        judge_episodes(jobs, planned, max_failed=flags.max_failed)
