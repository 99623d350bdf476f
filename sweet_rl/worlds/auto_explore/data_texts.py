"""Trajectories with reflections for tasks of AutoExplore, their training texts, and models measured in the
same talk.

Two questions a step, the published way: the state without its actions, and the request for an analysis; then
the actions, and the request for a choice. Of each task there is the right way, and ways back from a wrong
file. Published behaviour: docs/published/reflect_rl.md#data-of-autoexplore, #episodes, #evaluation, #deviations.
"""

from __future__ import annotations

import posixpath
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sweet_rl import openai_client, tracking
from sweet_rl.chat.reflect_format import SftTexts, resolve_label, sft_texts, split_prompt
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.errors import EpisodeError, UsageError
from sweet_rl.flags import flag, group
from sweet_rl.flags.shared import Compatible, MaxFailed, Overwriting, Quiet, Seeded
from sweet_rl.prompts import packaged_text
from sweet_rl.reflect_data.texts import (
    Markov,
    Output,
    TaskFile,
    TeacherFlags,
    TextFlags,
    Texts,
    Words,
    read_list,
    teacher_stage,
    write_list,
)
from sweet_rl.text_game import GameStep
from sweet_rl.types import Compat, Failure, Json, Message, Task, derive_seed, digest
from sweet_rl.worlds.auto_explore.game import ExploreGame
from sweet_rl.worlds.auto_explore.options import ACTION_HEAD, STAGES, Levels, Repositories
from sweet_rl.worlds.auto_explore.repositories import Library, unwrap, wrap
from sweet_rl.worlds.auto_explore.tasks import levels_of, load_dataset, played_path, task_rows

if TYPE_CHECKING:
    from sweet_rl.reflect_data.jobs import Done, Job
    from sweet_rl.reflect_data.teachers import Teacher


class Turn(NamedTuple):
    """One step of a talk. `command` is None where the reply named nothing that was on offer."""

    reflection: str
    reply: str
    command: str | None
    moved: GameStep


class ExploreTalk:
    """One teacher in one game that has begun. The embedded one learns of a file that it opened whether it is
    right; `markov`: a model is shown nothing of earlier steps."""

    def __init__(
        self, game: ExploreGame, question: str, teacher: Teacher, *, seed: int, markov: bool = False
    ) -> None:
        self.game = game
        self.cost = 0.0
        self._teacher, self._seed, self._markov = teacher, seed, markov
        self._embedded = import_module("sweet_rl.mini.repositories")
        self._explorer = self._embedded.Explorer(question, game.targets, seed=seed)
        self._history: list[Message] = []
        self._asked = 0
        self._explorer.look(game.sandbox.cwd, game.sandbox.entries())

    def follow(self, command: str) -> GameStep:
        """Take a step without asking anybody: a command that is on offer."""
        if command not in self.game.offered.values():
            raise LookupError(command)
        folder = self.game.sandbox.cwd
        moved = self._step(command)
        self._explorer.look(self.game.sandbox.cwd, self.game.sandbox.entries())
        if command.startswith("cat "):
            path = posixpath.join(folder, unwrap(command.partition(" ")[2]))
            self._explorer.read(path, str(moved.info["result"]))
        return moved

    def _step(self, said: str) -> GameStep:
        moved = self.game.step(said)
        self.cost += moved.cost
        self._explorer.content = ""
        return moved

    async def turn(self, *, wrong: bool = False) -> Turn:
        """Ask for an analysis and for a choice, and run the chosen command."""
        if self._markov:
            self._history.clear()
        search = self._explorer.search(self.game.sandbox.cwd)
        before, after = split_prompt(self.game.text, ACTION_HEAD)
        request = packaged_text("explore_teacher_wrong" if wrong else "explore_teacher_analyse")
        words = self._embedded.second_thought if wrong else self._embedded.thought
        reflection = await self._ask(f"{before}\n{request}", lambda draws: str(words(search, draws)))
        best = search.plan.command
        label = next((label for label, command in self.game.offered.items() if command == best), best)
        choose = f"{after.lstrip()}{packaged_text('explore_teacher_choose')}"
        reply = await self._ask(choose, lambda _: label)
        chosen = resolve_label(reply, self.game.offered)
        if chosen is None:
            return Turn(reflection, reply, None, self._step(reply))
        command = self.game.offered[chosen]
        return Turn(reflection, reply, command, self.follow(command))

    async def _ask(self, text: str, known: Words) -> str:
        """One question and its answer, which both become history."""
        from sweet_rl.reflect_data.teachers import Asked

        self._history.append(Message("user", text))
        system = Message("system", packaged_text("explore_teacher_system"))
        asked = Asked([system, *self._history], known, derive_seed(self._seed, self._asked))
        self._asked += 1
        reply = await self._teacher.say(asked)
        self._history.append(Message("assistant", reply))
        return reply


@group("This stage")
class ReflectionNegativeFlags(TaskFile, Repositories, Output, Markov, Seeded, Overwriting, Compatible, Quiet):
    negatives: bool = flag(True, "also make trajectories that open a wrong file first.")


@recorded("reflect reflection_negative", reads=("task_file", "repo_dir"), prices=True, resumes=True)
@teacher_stage(
    "task_file",
    defaults={"output": "", "task_file": "data/auto_explore/tasks_filtered/data.json"},
    helps={
        "task_file": "the filtered tasks.",
        "output": "output file; default data_reflection_negative.json beside --task_file.",
        "compat": "fixed, or published: reflections and commands are paired by position even if a reply "
        "could not be parsed, quoted names stay quoted, and both wrong paths may open the same "
        "file.",
    },
)
def reflection_negative(flags: ReflectionNegativeFlags, teacher_flags: TeacherFlags, /) -> None:
    """Let a teacher do the tasks while explaining each step, also after opening wrong files.

    Each task gets one trajectory of the right path and, for each file on it, two that open another file there
    first. If the output exists, only what is missing is added (another teacher adds its own right paths). The
    same command resumes an interrupted run.
    """
    from sweet_rl.reflect_data.jobs import JobFile, beside, say_failures, teach_all

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
        for key, lesson in planned.items():
            if made := jobs.results.get(key):
                task = tasks[lesson.index]
                task["trajectories"] = [*(task.get("trajectories") or []), made]
        write_list(target, tasks)
        ways = [one["info"] for task in tasks for one in task.get("trajectories") or []]
        right = sum(info.startswith("positive") for info in ways)
        wrong = len(ways) - right
        print(f"{len(tasks)} tasks with {right} right ways and {wrong} wrong ones are in {target}")
        say_failures(jobs, len(jobs.missing(planned)), "trajectories", total=len(planned))


NEGATIVES_PER_FILE: Final = 2
MAX_NEGATIVES: Final = 3  # of one task, however many files its path opens


@dataclass(frozen=True, slots=True)
class Lesson:
    """One trajectory to be made for the task at `index` of the file: the right way, or with a wrong file at
    place `wrong_at` of the optimal path; `number` counts the task's wrong ways."""

    index: int
    task: Mapping[str, Any]
    wrong_at: int | None = None
    number: int = 0


def plan_lessons(
    tasks: Sequence[Mapping[str, Json]], model: str, *, negatives: bool = True
) -> dict[str, Lesson]:
    """The missing lessons: a right path for each task without one by this model, and the wrong paths."""
    planned = {}
    for index, task in enumerate(tasks):
        name = f"{index} {task_id_of(task)}"
        there = [(str(one.get("info", "")), one.get("model_name")) for one in task.get("trajectories") or []]
        if not any(info.startswith("positive") and by == model for info, by in there):
            planned[f"{name} positive"] = Lesson(index, task)
        if negatives:
            have = sum(info.startswith("negative") for info, _ in there)
            path = enumerate(played_path(task["optimal_path"]))
            files = [at for at, command in path if command.startswith("cat ")]
            places = [at for at in files for _ in range(NEGATIVES_PER_FILE)]
            for number, at in list(enumerate(places))[have:MAX_NEGATIVES]:
                planned[f"{name} negative{number}"] = Lesson(index, task, at, number)
    return planned


def task_id_of(task: Mapping[str, Json]) -> str:
    """A name for a task that depends on its repository, file and question alone."""
    return digest([task.get("root"), task.get("filename"), task.get("question")], 12)


def task_of(row: Mapping[str, Json]) -> Task:
    """A record as the game wants it: right is its own file, and what its `targets` name."""
    from sweet_rl.records import task_from_row

    own = {name: row.get(name) for name in ("root", "optimal_path")}
    own["targets"] = list(dict.fromkeys([row["filename"], *(row.get("targets") or ())]))
    asked = {"problem_description": row["question"], "ground_truth": row["filename"]}
    return task_from_row({"task_id": task_id_of(row), **asked, **own})


async def teach(
    job: Job[Lesson],
    teacher: Teacher,
    *,
    make_game: Callable[[], ExploreGame],
    seed: int = 0,
    markov: bool = False,
    compat: Compat = "fixed",
) -> Done:
    """Make one trajectory in the published form; an empty object where there is no wrong file to open. A
    malformed reply is a failure with its text: it cost a step, and is not part of the trajectory."""
    from sweet_rl.reflect_data.jobs import Done

    lesson, own_seed, game = job.item, derive_seed(seed, job.key, job.attempt), make_game()
    turns: list[Turn] = []
    led: list[str] = []
    broken: Failure | None = None
    try:
        game.reset(task_of(lesson.task), seed=own_seed)
        talk = ExploreTalk(game, str(lesson.task["question"]), teacher, seed=own_seed, markov=markov)
        if lesson.wrong_at is None:
            while not turns or not turns[-1].moved.over:
                turns.append(await talk.turn())
        else:
            led = played_path(lesson.task["optimal_path"])[: lesson.wrong_at + 1]
            for command in led[:-1]:
                talk.follow(command)
            others = [
                command
                for command in game.offered.values()
                if command.startswith("cat ")
                and command != led[-1]
                and posixpath.join(game.sandbox.cwd, game.name_of(command)) not in game.targets
            ]
            if not others:
                return Done({})
            draws = [derive_seed(seed, task_id_of(lesson.task)), lesson.wrong_at]
            repeat = lesson.number % NEGATIVES_PER_FILE
            if compat == "published":
                led[-1] = random.Random(derive_seed(*draws, repeat)).choice(others)
            else:  # each a different one
                drawn = random.Random(derive_seed(*draws)).sample(others, len(others))
                led[-1] = drawn[repeat % len(others)]
            talk.follow(led[-1])
            turns.append(await talk.turn(wrong=True))
    except (openai_client.RequestFailed, EpisodeError) as error:
        broken = error.failure
    except LookupError as error:
        return Done(None, (Failure("not_on_offer", f"the optimal path's command {error}"),))
    finally:
        game.close()
    failures = [
        Failure("malformed_reply", turn.reply, turn=number)
        for number, turn in enumerate(turns)
        if turn.command is None
    ]
    read = [turn for turn in turns if turn.command]
    if broken or not read:
        return Done(None, (*failures, *([broken] if broken else [])))
    # as published, reflections and commands are paired by their place even where a reply could not be read
    thought = turns if compat == "published" and lesson.wrong_at is None else read
    steps: list[Json] = [{"reflection": "", "cmd": command} for command in led]
    pairs = zip(thought, read, strict=False)
    steps += [{"reflection": one.reflection, "cmd": other.command} for one, other in pairs]
    handed_in = next((one.moved.info["identified"] for one in turns if "identified" in one.moved.info), None)
    if handed_in is not None and compat == "published":
        folder, _, name = str(handed_in).rpartition("/")
        handed_in = f"{folder}/{wrap(unwrap(name), compat='published')}".lstrip("/")
    info = "positive" if lesson.wrong_at is None else f"negative{lesson.number}"
    found = {"model_name": teacher.name, "info": info, "filename": handed_in, "trajectory": steps}
    return Done(found, tuple(failures))


@group("This stage")
class GenSftFlags(TextFlags, Repositories, Compatible, Quiet):
    pass


@recorded("reflect gen_sft", reads=("task_file", "repo_dir"))
@stage(
    "task_file",
    defaults={"output": ""},
    helps={
        "output": "folder for the texts; default the folder of --task_file.",
        "task_file": "tasks with trajectories, usually train.json.",
        "compat": "fixed, or published: texts of the published game, which quotes unusual names differently.",
    },
)
def gen_sft(flags: GenSftFlags, /) -> None:
    """Replay the trajectories of tasks and write training texts beside their file.

    sft.jsonl is for a policy without reflections, sft_reflection.jsonl for the reflection model,
    sft_policy.jsonl for a policy that reads reflections; the last two are also written without wrong paths,
    as *_positive.jsonl.
    """
    from sweet_rl.cli.progress import Bar

    tasks = read_list(Path(flags.task_file), STAGES)
    library = Library(flags.repo_dir)
    bar = Bar(len(tasks), 0, unit="task", quiet=flags.quiet)
    texts = explore_texts(
        tasks, lambda steps: ExploreGame(library, max_turns=steps, compat=flags.compat), on_done=bar.update
    )
    bar.close()
    texts.save(flags)


def explore_texts(
    tasks: Iterable[Mapping[str, Json]],
    make_game: Callable[[int], ExploreGame],
    on_done: Callable[[], object] = lambda: None,
) -> Texts:
    """Replay every trajectory of every task, and write down each step; of a wrong way only the last step."""
    names = ("sft", "sft_reflection", "sft_policy", "sft_reflection_positive", "sft_policy_positive")
    texts = Texts({f"{name}.jsonl": [] for name in names})
    for task in tasks:
        trajectories = task.get("trajectories") or []
        if not trajectories:
            texts.skipped["task without trajectory"] += 1
        for trajectory in trajectories:
            steps = trajectory.get("trajectory") or []
            replayed = _replay(task, steps, make_game(len(steps) + 1))
            if isinstance(replayed, str):
                texts.skipped[replayed] += 1
                continue
            positive = not str(trajectory.get("info", "")).startswith("negative")
            for step in replayed if positive else replayed[-1:]:
                texts.add(step)
                if positive:
                    texts.files["sft_reflection_positive.jsonl"].append(step.reflection)
                    texts.files["sft_policy_positive.jsonl"].append(step.policy)
        on_done()
    return texts


def _replay(
    task: Mapping[str, Json], steps: list[Mapping[str, Any]], game: ExploreGame
) -> list[SftTexts] | str:
    """The texts of all steps, or why there are none."""
    replayed = []
    try:
        game.reset(task_of(task), seed=0)
        for step in steps:
            command = str(step["cmd"])
            label = next((label for label, offer in game.offered.items() if offer == command), None)
            if label is None:
                return "trajectory with a command that is not on offer"
            replayed.append(sft_texts(game.text, ACTION_HEAD, str(step.get("reflection") or ""), label))
            if game.step(label).over and len(replayed) < len(steps):
                return "trajectory that continues after its end"
    except EpisodeError as error:
        return f"task that cannot be played ({error.failure.kind})"
    finally:
        game.close()
    return replayed


@group("This stage")
class AutoExploreGptFlags(
    TaskFile, Repositories, Levels, Markov, Output, MaxFailed, Seeded, Overwriting, Compatible, Quiet
):
    eval_reps: int = flag(10, "episodes of every task.", at_least=1)


@recorded("reflect auto_explore_gpt", reads=("task_file", "repo_dir"), prices=True, resumes=True)
@teacher_stage(
    "task_file",
    defaults={
        "task_file": "data/auto_explore/tasks_filtered/test.json",
        "output": "results/auto_explore_gpt.json",
    },
    helps={
        "output": "file for the results; a journal of the episodes is written beside it.",
        "compat": "fixed, or published: the published targets, levels and costs; an episode that could not be played counts as lost.",
        "teacher": "embedded (no model: a scripted player that sees what a model sees, and also knows "
        "whether a file it opened is right), or openai: a model behind an OpenAI-compatible "
        "server.",
    },
)
def auto_explore_gpt(flags: AutoExploreGptFlags, teacher_flags: TeacherFlags, /) -> None:
    """Let a model do AutoExplore tasks, and print its success on every level.

    Name the model with --teacher openai --base_url URL --model NAME. Without these flags, the embedded player
    is evaluated instead, and the result says so.

    An episode that fails because a service could not be used counts in no number. The same command plays it
    again and resumes an interrupted run.
    """
    from sweet_rl.records import task_from_row
    from sweet_rl.reflect_data.jobs import JobFile, beside, judge_episodes, teach_all

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
    output = Path(flags.output)
    own = ("seed", "max_turns", "markov", "compat")
    settings = teacher_flags.settings() | {name: getattr(flags, name) for name in own}
    journal = beside(output, teacher_flags.name, "journal")
    play = partial(_play_explore, flags=flags, library=Library(flags.repo_dir))
    with JobFile(journal, settings, overwrite=flags.overwrite, output=output) as jobs:
        for path in (journal, output):
            tracking.writes(path, continues=not flags.overwrite)
        teach_all(jobs, planned, play, teacher_flags, output, unit="episode", quiet=flags.quiet)
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


async def _play_explore(
    job: Job[Task], player: Teacher, *, flags: AutoExploreGptFlags, library: Library
) -> Done:
    """Play a task to its end. An episode that the model cannot continue is not won; one that the service or
    the world broke off has no result, or, as published, is not won either."""
    from sweet_rl.reflect_data.jobs import Done
    from sweet_rl.reflect_data.teachers import of_the_model

    task, seed = job.item, derive_seed(flags.seed, job.key, job.attempt)
    game = ExploreGame(library, max_turns=flags.max_turns, compat=flags.compat)
    failures: list[Failure] = []
    over, won, cost = False, False, 0.0
    try:
        game.reset(task, seed=seed)
        talk = ExploreTalk(game, task.problem_description, player, seed=seed, markov=flags.markov)
        while not over:
            turn = await talk.turn()
            over, cost = turn.moved.over, talk.cost
            if turn.command is None:
                failures.append(Failure("malformed_reply", turn.reply))
        won = cost < game.success_threshold
    except (openai_client.RequestFailed, EpisodeError) as error:
        failures.append(error.failure)
        model = isinstance(error, openai_client.RequestFailed) and of_the_model(error)
        if flags.compat == "fixed" and not model:
            return Done(None, tuple(failures))
    finally:
        game.close()
    commands = list(getattr(game, "history", ()))
    return Done({"task_id": task.task_id, "won": won, "cost": cost, "commands": commands}, tuple(failures))


def success_by_level(
    levels: Sequence[Mapping[str, Task]], played: Mapping[str, Json]
) -> list[dict[str, Json]]:
    """`level`, `episodes`, `failed` and `success` (of 1, of the episodes that did not fail) of every level."""
    results: list[dict[str, Json]] = []
    for at, keys in enumerate(levels):
        won = [played[key]["won"] for key in keys if key in played]
        success = sum(won) / len(won) if won else None
        results.append(
            {"level": at, "episodes": len(won), "failed": len(keys) - len(won), "success": success}
        )
    return results
