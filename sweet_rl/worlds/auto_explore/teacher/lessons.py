"""Trajectories with reflections for tasks of AutoExplore: the right way, and ways back from a wrong file.

The work of `reflection_negative`. The published second phase cannot run;
here it does.

Published behaviour: docs/published/reflect_rl.md#data-of-autoexplore, #deviations.
"""

from __future__ import annotations

import posixpath
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sweet_rl.chat.reflect_format import SftTexts, sft_texts
from sweet_rl.errors import EpisodeError
from sweet_rl.openai_client import RequestFailed
from sweet_rl.records import task_from_row
from sweet_rl.reflect_data.jobs import Done, Job
from sweet_rl.reflect_data.teachers import Teacher
from sweet_rl.reflect_data.texts import Texts
from sweet_rl.types import Compat, Failure, Json, Task, derive_seed, digest
from sweet_rl.worlds.auto_explore import ACTION_HEAD
from sweet_rl.worlds.auto_explore.commands import unwrap, wrap
from sweet_rl.worlds.auto_explore.game import ExploreGame
from sweet_rl.worlds.auto_explore.teacher.talk import ExploreTalk, Turn
from sweet_rl.worlds.auto_explore.teacher.task_filter import played_path

NEGATIVES_PER_FILE: Final = 2
MAX_NEGATIVES: Final = 3
"""Of one task, however many files its path opens."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """One trajectory to be made for the task at `index` of the file.

    `wrong_at` is None for the right way; else the place in the optimal path at which a wrong file is opened
    instead, and `number` counts the task's wrong ways.
    """

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
        there = task.get("trajectories") or []
        if not any(_is(one, "positive") and one.get("model_name") == model for one in there):
            planned[f"{name} positive"] = Lesson(index, task)
        if negatives:
            have = sum(_is(one, "negative") for one in there)
            for number, at in list(enumerate(_wrong_places(task)))[have:MAX_NEGATIVES]:
                planned[f"{name} negative{number}"] = Lesson(index, task, at, number)
    return planned


def task_id_of(task: Mapping[str, Json]) -> str:
    """A name for a task that depends on its repository, file and question alone."""
    return digest([task.get("root"), task.get("filename"), task.get("question")], 12)


def task_of(row: Mapping[str, Json]) -> Task:
    """A record as the game wants it: right is its own file, and what its `targets` name."""
    return task_from_row(
        {
            "task_id": task_id_of(row),
            "problem_description": row["question"],
            "ground_truth": row["filename"],
            "root": row["root"],
            "targets": list(dict.fromkeys([row["filename"], *(row.get("targets") or ())])),
            "optimal_path": row.get("optimal_path"),
        }
    )


async def teach(
    job: Job[Lesson],
    make_game: Callable[[], ExploreGame],
    teacher: Teacher,
    *,
    seed: int = 0,
    markov: bool = False,
    compat: Compat = "fixed",
) -> Done:
    """Make one trajectory, as the published files have it.

    Malformed replies are failures with the raw text: such a step cost the teacher a step, and is not part of
    the trajectory. The result is an empty object where there is no wrong file to open.
    """
    lesson = job.item
    own_seed = derive_seed(seed, job.key, job.attempt)
    game = make_game()
    turns: list[Turn] = []
    led: list[str] = []
    try:
        game.reset(task_of(lesson.task), seed=own_seed)
        talk = ExploreTalk(game, str(lesson.task["question"]), teacher, seed=own_seed, markov=markov)
        if lesson.wrong_at is None:
            while not turns or not turns[-1].moved.over:
                turns.append(await talk.turn())
        else:
            wrong = _lead_astray(lesson, talk, led, derive_seed(seed, task_id_of(lesson.task)), compat=compat)
            if not wrong:
                return Done({})
            turns.append(await talk.turn(wrong=True))
    except (RequestFailed, EpisodeError) as error:
        return Done(None, (*_failures(turns), error.failure))
    except LookupError as error:
        return Done(None, (Failure("not_on_offer", f"the optimal path's command {error}"),))
    finally:
        game.close()
    kept = turns if lesson.wrong_at is None else [turn for turn in turns if turn.command]
    steps = [{"reflection": "", "cmd": command} for command in led] + _steps(kept, compat=compat)
    if len(steps) == len(led):
        return Done(None, _failures(turns))
    info = "positive" if lesson.wrong_at is None else f"negative{lesson.number}"
    found = {
        "model_name": teacher.name,
        "info": info,
        "filename": _handed_in(turns, compat=compat),
        "trajectory": steps,
    }
    return Done(found, _failures(turns))


def add_lessons(
    tasks: Sequence[Mapping[str, Json]], planned: Mapping[str, Lesson], results: Mapping[str, Json]
) -> list[dict[str, Json]]:
    """The tasks with the trajectories that were made for them, in the order of the plan."""
    complete = [dict(task) for task in tasks]
    for key, lesson in planned.items():
        if results.get(key):
            task = complete[lesson.index]
            task["trajectories"] = [*(task.get("trajectories") or []), results[key]]
    return complete


def _wrong_places(task: Mapping[str, Any]) -> Iterator[int]:
    for at, command in enumerate(played_path(task["optimal_path"])):
        if command.startswith("cat "):
            yield from [at] * NEGATIVES_PER_FILE


def _lead_astray(lesson: Lesson, talk: ExploreTalk, led: list[str], seed: int, *, compat: Compat) -> bool:
    """Follow the right way up to a file, and open another one; False where there is no other.

    The wrong files of a task differ as long as there are enough of them; as published each is drawn anew.
    """
    path = played_path(lesson.task["optimal_path"])
    at = lesson.wrong_at or 0
    for command in path[:at]:
        talk.follow(command)
        led.append(command)
    game = talk.game
    others = [
        command
        for command in game.offered.values()
        if command.startswith("cat ")
        and command != path[at]
        and posixpath.join(game.sandbox.cwd, game.name_of(command)) not in game.targets
    ]
    if not others:
        return False
    repeat = lesson.number % NEGATIVES_PER_FILE
    if compat == "published":
        wrong = random.Random(derive_seed(seed, at, repeat)).choice(others)
    else:
        wrong = random.Random(derive_seed(seed, at)).sample(others, len(others))[repeat % len(others)]
    talk.follow(wrong)
    led.append(wrong)
    return True


def _steps(turns: Sequence[Turn], *, compat: Compat) -> list[dict[str, Json]]:
    if compat == "published":
        commands = [turn.command for turn in turns if turn.command]
        return [
            {"reflection": turn.reflection, "cmd": command}
            for turn, command in zip(turns, commands, strict=False)
        ]
    return [{"reflection": turn.reflection, "cmd": turn.command} for turn in turns if turn.command]


def _failures(turns: Sequence[Turn]) -> tuple[Failure, ...]:
    return tuple(
        Failure(turn.failure.kind, turn.failure.detail, turn=number)
        for number, turn in enumerate(turns)
        if turn.failure
    )


def _handed_in(turns: Sequence[Turn], *, compat: Compat) -> str | None:
    """The file that was identified; None where none was."""
    found = [turn for turn in turns if "identified" in turn.moved.info]
    if not found:
        return None
    path = str(found[-1].moved.info["identified"])
    if compat == "published":
        folder, _, name = path.rpartition("/")
        path = f"{folder}/{wrap(unwrap(name), compat='published')}".lstrip("/")
    return path


def _is(trajectory: Mapping[str, Json], kind: str) -> bool:
    return str(trajectory.get("info", "")).startswith(kind)


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
                _add(texts, step, positive=positive)
        on_done()
    return texts


def _replay(
    task: Mapping[str, Json], steps: list[Mapping[str, Any]], game: ExploreGame
) -> list[SftTexts] | str:
    """The texts of all steps, or why there are none."""
    head = ACTION_HEAD
    replayed = []
    try:
        game.reset(task_of(task), seed=0)
        for step in steps:
            command = str(step["cmd"])
            label = next((label for label, offer in game.offered.items() if offer == command), None)
            if label is None:
                return "trajectory with a command that is not on offer"
            replayed.append(sft_texts(game.text, head, str(step.get("reflection") or ""), label))
            if game.step(label).over and len(replayed) < len(steps):
                return "trajectory that continues after its end"
    except EpisodeError as error:
        return f"task that cannot be played ({error.failure.kind})"
    finally:
        game.close()
    return replayed


def _add(texts: Texts, step: SftTexts, *, positive: bool) -> None:
    texts.add(step)
    if positive:
        texts.files["sft_reflection_positive.jsonl"].append(step.reflection)
        texts.files["sft_policy_positive.jsonl"].append(step.policy)
