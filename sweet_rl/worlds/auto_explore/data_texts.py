"""Trajectories with reflections for tasks of AutoExplore, their training texts, and models measured in the
same talk.

Two questions a step, the published way: the state without its actions, and the request for an analysis; then
the actions, and the request for a choice. Of each task there is the right way, and ways back from a wrong
file. Published behaviour: docs/published/reflect_rl.md#data-of-autoexplore, #episodes, #deviations.
"""

from __future__ import annotations

import posixpath
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, NamedTuple

from sweet_rl.chat.reflect_format import SftTexts, resolve_label, sft_texts, split_prompt
from sweet_rl.errors import EpisodeError
from sweet_rl.openai_client import RequestFailed
from sweet_rl.prompts import packaged_text
from sweet_rl.records import task_from_row
from sweet_rl.reflect_data.jobs import Done, Job
from sweet_rl.reflect_data.teachers import Asked, Teacher, of_the_model
from sweet_rl.reflect_data.texts import Texts, Words
from sweet_rl.text_game import GameStep
from sweet_rl.types import Compat, Failure, Json, Message, Task, derive_seed, digest
from sweet_rl.worlds.auto_explore.data_tasks import played_path
from sweet_rl.worlds.auto_explore.game import ExploreGame
from sweet_rl.worlds.auto_explore.options import ACTION_HEAD
from sweet_rl.worlds.auto_explore.repositories import unwrap, wrap


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
        self._embedded = import_module("sweet_rl.mini.repository_teacher")
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
        self._history.append(Message("user", text))
        system = Message("system", packaged_text("explore_teacher_system"))
        asked = Asked([system, *self._history], known, derive_seed(self._seed, self._asked))
        self._asked += 1
        reply = await self._teacher.say(asked)
        self._history.append(Message("assistant", reply))
        return reply


NEGATIVES_PER_FILE: Final = 2
MAX_NEGATIVES: Final = 3
"""Of one task, however many files its path opens."""


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
    teacher: Teacher,
    *,
    make_game: Callable[[], ExploreGame],
    seed: int = 0,
    markov: bool = False,
    compat: Compat = "fixed",
) -> Done:
    """Make one trajectory in the published form; an empty object where there is no wrong file to open. A
    malformed reply is a failure with its text: it cost a step, and is not part of the trajectory."""
    lesson = job.item
    own_seed = derive_seed(seed, job.key, job.attempt)
    game = make_game()
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
            if not _lead_astray(lesson, talk, led, derive_seed(seed, task_id_of(lesson.task)), compat=compat):
                return Done({})
            turns.append(await talk.turn(wrong=True))
    except (RequestFailed, EpisodeError) as error:
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
    if broken:
        return Done(None, (*failures, broken))
    read = [turn for turn in turns if turn.command]
    if not read:
        return Done(None, tuple(failures))
    # as published, reflections and commands are paired by their place even where a reply could not be read
    thought = turns if compat == "published" and lesson.wrong_at is None else read
    steps: list[Json] = [{"reflection": "", "cmd": command} for command in led]
    pairs = zip(thought, read, strict=False)
    steps += [{"reflection": one.reflection, "cmd": other.command} for one, other in pairs]
    handed_in = next(
        (str(one.moved.info["identified"]) for one in turns if "identified" in one.moved.info), None
    )
    if handed_in is not None and compat == "published":
        folder, _, name = handed_in.rpartition("/")
        handed_in = f"{folder}/{wrap(unwrap(name), compat='published')}".lstrip("/")
    info = "positive" if lesson.wrong_at is None else f"negative{lesson.number}"
    found = {"model_name": teacher.name, "info": info, "filename": handed_in, "trajectory": steps}
    return Done(found, tuple(failures))


def _lead_astray(lesson: Lesson, talk: ExploreTalk, led: list[str], seed: int, *, compat: Compat) -> bool:
    """Follow the right way up to a file, and open another one (each a different one, unless as published);
    False where there is none."""
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


async def play_explore(
    task: Task,
    game: ExploreGame,
    player: Teacher,
    *,
    seed: int,
    markov: bool = False,
    compat: Compat = "fixed",
) -> Done:
    """Play a task to its end. An episode that the model cannot continue is not won; one that the service or
    the world broke off has no result, or, as published, is not won either."""
    failures: list[Failure] = []
    cost = 0.0
    try:
        game.reset(task, seed=seed)
        talk = ExploreTalk(game, task.problem_description, player, seed=seed, markov=markov)
        over = False
        while not over:
            turn = await talk.turn()
            over, cost = turn.moved.over, talk.cost
            if turn.command is None:
                failures.append(Failure("malformed_reply", turn.reply))
        won = cost < game.success_threshold
    except (RequestFailed, EpisodeError) as error:
        failures.append(error.failure)
        won = False
        if compat == "fixed" and not (isinstance(error, RequestFailed) and of_the_model(error)):
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
