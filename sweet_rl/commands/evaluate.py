"""Stage 2 for any world: by the grader that the world names, or by one from outside."""

from __future__ import annotations

import inspect
import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from sweet_rl import tracking
from sweet_rl.cli.main import load
from sweet_rl.cli.progress import Bar, write_report
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.errors import UsageError
from sweet_rl.evaluation.episodes import read_episodes
from sweet_rl.evaluation.report import measures_of
from sweet_rl.flags import flags_of, group
from sweet_rl.flags.shared import Evaluation, GraderName, Margin, Quiet, Regrade
from sweet_rl.grading import GRADERS, fields_by
from sweet_rl.grading.report import failed_words, repeats_words
from sweet_rl.preferences.pairs import dialogue_hard_negatives, margin_pairs, pair_rows, trajectory_pairs
from sweet_rl.records import locked, read_rows, replace_rows, stamp_of, trajectories_from_rows
from sweet_rl.records.rows import group_by_identity, group_by_task, repeats_of
from sweet_rl.runs import new_file
from sweet_rl.statistics import mean_over_tasks, share_over_tasks
from sweet_rl.types import AgentTurn, Json, StopReason, Trajectory
from sweet_rl.worlds import World, two_worlds, world_in, world_named_in


@group("Grading")
class GraderFlags(Evaluation, GraderName, Margin, Regrade, Quiet):
    pass


@recorded("evaluate", reads=("saved_path",))
@stage(
    "saved_path",
    helps={
        "margin": "smallest difference between the rewards of a pair; 0: the default of the world's stage, or 0.1 for a grader of your own."
    },
)
def evaluate(flags: GraderFlags, /) -> None:
    """Grade trajectories of any world; print the table; write preference pairs.

    Without --grader this runs the world's own stage (evaluate_code, evaluate_html or evaluate_games, each of
    which has more flags). A grader of your own gives every trajectory a score, which becomes its reward; the
    previous reward is kept under `grades`. Any two episodes of a task whose rewards differ by at least
    --margin become a pair. Rows that the grader has scored are skipped unless you pass --regrade, which only
    reads the rows and plays nothing. `graded_with` names the grader of a reward.
    """
    given: dict[str, Any] = {one.name: getattr(flags, one.name) for one in flags_of(Evaluation)}
    path, grader = given.pop("saved_path"), flags.grader
    if grader == "auto":
        given |= {"margin": flags.margin} if flags.margin else {}
        given |= {"regrade": True} if flags.regrade else {}
        world = world_in(next((row for _, row in read_rows(path)), {}).get("provenance") or {})
        if world is None:
            raise UsageError(
                f"{path!r} does not name a known world. Run the world's own stage (evaluate_code, "
                "evaluate_html, evaluate_games), or name a --grader."
            )
        grading_by(world, given, {"quiet": flags.quiet})(path)
        return
    GRADERS.find(grader)
    with graded_file(path, flags.k, regrade=flags.regrade) as file:
        judge = GRADERS.make(grader, world_in(file.trajectories[0].provenance), flag="grader")
        missing = file.missing(
            lambda row: {"reward": row["grades"][grader]} if grader in (row.get("grades") or {}) else None,
            *(flags.regrade, grader),
        )
        scores = judge.grade(file.trajectories[index] for index in missing)
        with Bar(len(missing), 0, unit="episode", quiet=flags.quiet or not missing) as bar:
            for index, score in zip(missing, scores, strict=True):
                file.update(index, fields_by(grader, judge, score, file.rows[index]))
                bar.update()
        if file.has_no_reward():
            details = next(file.rows[row] for row in file.groups[0]).get("grading_details") or {}
            note = details.get(f"{grader}_note", "it gives no reason")
            raise UsageError(f"The grader {grader!r} has no score for any episode of {path!r}: {note}.")
    _plain(evaluate_games)(saved_path=path, margin=flags.margin or 0.1, **given)


def grading_by(world: World, given: Mapping[str, Any], offered: Mapping[str, Any]) -> Callable[..., None]:
    """The stage that grades files of a world, to be called with one, and with further flags."""
    stage = load(world.scores.stage)
    known = inspect.signature(stage).parameters
    if "regrade" in given and "regrade" not in known:
        raise UsageError(
            f"--regrade has nothing to grade again: {world.name} rewards turns during play. Play again, "
            "or name a --grader."
        )
    if idle := [flag for flag in given if flag not in known]:
        raise UsageError(
            f"--{idle[0]} is not a flag of {world.scores.stage}, which grades {world.name}. Leave it out."
        )
    return partial(_plain(stage), **given, **{flag: one for flag, one in offered.items() if flag in known})


def _plain(stage: Callable[..., None]) -> Callable[..., None]:
    """The stage without a record of its own: what it writes belongs to the one that calls it."""
    inner: Callable[..., None] = getattr(stage, "__wrapped__", stage)
    return inner


_SAVE_AFTER_S = 1.0
_SAVING_SHARE = 0.05
"""Grading is saved as often as costs a twentieth of the time; what is saved is not graded again."""


class GradedFile:
    """A trajectory file in our hands: `rows` are changed in place and keep every field they have.

    `trajectories` are the same rows as they were read; `groups` holds the row indices of each task's repeats
    that did not fail, of the tasks that have any; `failed` counts the rows that did. Failed episodes have no
    reward, and get none. `k` is the number of repeats of every task, None where they differ.
    """

    def __init__(self, path: str, k: int | None) -> None:
        self._stamp = stamp_of(path)
        numbered = list(read_rows(path))
        self.path, self.rows = path, [row for _, row in numbered]
        self.trajectories = trajectories_from_rows(numbered, path=path)
        if not self.trajectories:
            raise UsageError(f"{path!r} holds no trajectories.")
        known: tuple[int, str] | None = None  # a mean over two worlds says nothing of either
        for (line, _), one in zip(numbered, self.trajectories, strict=True):
            if (name := world_named_in(one.provenance)) is not None:
                known = known or (line, name)
                if name != known[1]:
                    raise two_worlds(name, known[1], known[0], path=path, line=line)
        if k is None and all(row.get("sample_index") is not None for row in self.rows):
            groups = group_by_identity(self.trajectories)
        else:
            groups = group_by_task(self.trajectories, k or 1, path=path)
        self.k = repeats_of(groups)
        self.known = self.others = 0  # rewards that there were before, and those that became others
        self._changed, self._saved, self._wait_s = False, time.monotonic(), _SAVE_AFTER_S
        counts = [not trajectory.failed for trajectory in self.trajectories]
        self.groups = [kept for group in groups if (kept := [i for i in group if counts[i]])]
        self.failed = counts.count(False)
        if not self.groups:
            first = next((error for one in self.trajectories if (error := one.error)), "unknown")
            raise UsageError(
                f"All {self.failed} episodes of {path!r} failed: there is nothing to grade. "
                f"The first: {first}. Play them again: the command that made the file, with --to_continue."
            )
        self.counted = [row for row, counted in zip(self.rows, counts, strict=True) if counted]
        for row, counted in zip(self.rows, counts, strict=True):
            if not counted and row.get("reward") is not None:  # graded by others
                row["reward"], self._changed = None, True

    def missing(
        self, known: Callable[[Mapping[str, Json]], dict[str, Json] | None], regrade: bool, grader: str
    ) -> list[int]:
        """Rows to grade: all, or those of which nothing is known (None); others get the reward that the grader gave them."""
        found = []
        for index in sorted(itertools.chain(*self.groups)):
            row = self.rows[index]
            if regrade or (fields := known(row)) is None:
                found.append(index)
                continue
            if fields and (row.get("graded_with") or {}).get("grader", grader) != grader:
                fields["graded_with"] = {"grader": grader}  # another one has graded it since
            if any(row.get(name) != value for name, value in fields.items()):
                self.update(index, fields)
        return found

    def has_no_reward(self) -> bool:
        """Whether no episode that counts has one."""
        return all(row.get("reward") is None for row in self.counted)

    def update(self, index: int, fields: Mapping[str, Json]) -> None:
        """Give a row fields, and save all rows now and then."""
        row, before = self.rows[index], self.rows[index].get("reward")
        row |= fields
        self._changed = True
        self.known += before is not None
        self.others += before is not None and row.get("reward") != before
        if time.monotonic() - self._saved > self._wait_s:
            self.save()

    def save(self) -> None:
        """Write all rows, at once or not at all, where any has changed."""
        if self._changed:
            started = time.monotonic()
            tracking.writes(self.path, in_place=True)
            try:
                self._stamp = replace_rows(self.path, self.rows, self._stamp)
            except UsageError:
                self._changed = False  # it is kept beside a file that has changed: once is enough
                raise
            self._saved, self._changed = time.monotonic(), False
            self._wait_s = max(_SAVE_AFTER_S, (self._saved - started) / _SAVING_SHARE)

    def write_pairs(
        self,
        flags: Evaluation,
        margin: float | None,
        *,
        of: str = "repeats",
        to_rows: Callable[..., Sequence[Json]] = pair_rows,
    ) -> None:
        """Write the pair files that are asked for, and say how many pairs they hold.

        Without a margin a right answer is preferred to a worse one. `of` is what a task has several of, in words.
        """
        usable = [one.last_turn is not None and not one.failed for one in self.trajectories]
        rewards = [row.get("reward") for row in self.rows]
        if margin is None:
            able = [fine and reward is not None for fine, reward in zip(usable, rewards, strict=True)]
            pairs = trajectory_pairs([float(reward or 0.0) for reward in rewards], self.groups, able)
            why_none = "no task has a right answer beside a worse one"
        else:
            pairs = margin_pairs(rewards, self.groups, margin, usable)
            why_none = f"no two {of} of a task differ by {margin:g}"
        paths = {False: flags.preference_path, True: flags.ground_truth_preference_path}
        for with_ground_truth, path in paths.items():
            if path is None:
                continue
            tracking.writes(path)
            beside: Sequence[Json] = ()
            if not with_ground_truth:
                beside = dialogue_hard_negatives(self.trajectories, pairs, flags.hard_negatives)
            rows = to_rows(self.trajectories, pairs, with_ground_truth=with_ground_truth)
            replace_rows(path, [*rows, *beside])
            print(f"{len(pairs)} pairs {'' if pairs else f'({why_none}) '}are in {path}")
            if beside:
                print(f"{len(beside)} rows of hard negatives are in it, too.")
        if (skipped := usable.count(False) - self.failed) and any(paths.values()):
            print(f"{skipped} dialogues that do not end with an agent turn are in no pair.")


@contextmanager
def graded_file(path: str, k: int | None, *, regrade: bool = False) -> Iterator[GradedFile]:
    """The file, locked; finished grades are saved at the end, also after an error. What `regrade` changed is said."""
    with locked(path):
        file = GradedFile(path, k)
        try:
            yield file
        finally:
            file.save()
    if regrade:
        print(f"Graded again: {file.known} rows had a reward, and {file.others} of them got another one.")


def check_outputs(flags: Evaluation) -> None:
    """Check, before grading, that no output replaces an existing file.

    A report of the same trajectory file is brought up to date without asking.
    """
    outputs = ["preference_path", "ground_truth_preference_path", "report_path"]
    try:
        said = json.loads(Path(flags.report_path or "").read_bytes())["saved_path"]
        if Path(said).resolve() == Path(flags.saved_path).resolve():
            outputs.remove("report_path")
    except (OSError, ValueError, LookupError, TypeError):
        pass
    for name in outputs:
        if (path := getattr(flags, name)) is not None:
            new_file(path, name, overwrite=flags.overwrite)


@group("Games")
class GameFlags(Evaluation, Margin):
    pass


@recorded("evaluate_games", reads=("saved_path",))
@stage(
    "saved_path",
    defaults={"margin": 1.0},
    helps={"margin": "smallest difference between the returns of a pair."},
    narrow={"margin": {"at_least": None, "above": 0}},
)
def evaluate_games(flags: GameFlags, /) -> None:
    """Report trajectories of worlds that reward turns; write preference pairs.

    Question games, adventures and the shop give rewards during play, so there is nothing to grade. The table
    shows the return, the share of episodes that the world itself ended (a solved game, a purchase), the
    turns, and the share that was won if the world reports it, with 95 % confidence intervals over tasks. Of
    any two episodes of a task whose returns differ by at least --margin, the better one is preferred; the
    pairs train critics and policies like those of sweet-rl evaluate_code.
    """
    check_outputs(flags)
    saved_path = flags.saved_path
    file = GradedFile(saved_path, flags.k)
    k = file.k
    rewards = [None if one.failed else one.reward for one in file.trajectories]
    if all(reward is None for reward in rewards):
        raise UsageError(
            f"{saved_path!r} holds no rewards: its world does not reward turns, or every episode failed. "
            "Functions are graded by sweet-rl evaluate_code, pages by sweet-rl evaluate_html."
        )
    groups = [[file.trajectories[row] for row in group] for group in file.groups]

    def by_task(number: Callable[[Trajectory], float | None]) -> list[list[float]]:
        """The values of each task's rewarded repeats that have one; tasks without any are left out."""
        values = ([number(one) for one in group if one.reward is not None] for group in groups)
        return [known for task in values if (known := [value for value in task if value is not None])]

    def won(one: Trajectory) -> float | None:
        """Whether the goal was reached, where the world reports it."""
        game = one.extra.get("game")
        reached = game.get("won") if isinstance(game, Mapping) else None
        return float(reached) if isinstance(reached, bool) else None

    rewarded = by_task(lambda one: one.reward)
    reward = next(one for one in measures_of([read_episodes(saved_path)]) if one.field == "reward")
    world = world_in(file.trajectories[0].provenance)
    name = "return" if world is None else reward.name
    bounds = {"low": reward.low, "high": reward.high}
    ended = by_task(lambda one: float(one.stop_reason is StopReason.ENDED))
    turns = by_task(lambda one: float(sum(isinstance(entry, AgentTurn) for entry in one.dialogue_history)))
    numbers = {
        name: mean_over_tasks(rewarded, **bounds),
        f"{name}, best of k": mean_over_tasks([[max(task)] for task in rewarded], **bounds),
        "ended by the world": share_over_tasks(ended),
        "turns": mean_over_tasks(turns),
    }
    numbers |= {"won": share_over_tasks(goals)} if (goals := by_task(won)) else {}
    failed = sum(one.failed or (one.reward is None and one.error is not None) for one in file.trajectories)
    ungraded = rewards.count(None) - failed
    size = f"{len(rewards)} episodes, {len(file.groups)} tasks{repeats_words(k)}"
    print(f"{saved_path}: {size}{failed_words(failed)}\n")
    for what, interval in numbers.items():
        if (k is not None and k > 1) or not what.endswith(", best of k"):
            ends = "" if interval.low is None else f" [{interval.low:.2f}, {interval.high:.2f}]"
            print(f"{what:<22}{interval.mean:8.2f}{ends}")
    for count, what in ((failed, "episodes failed"), (ungraded, "episodes have no reward")):
        if count:
            print(f"{count:>6}  {what} and are left out")
    report: dict[str, Json] = {"trajectories": len(rewards), "tasks": len(file.groups), "k": k}
    report |= {"failed": file.failed, "ungraded": ungraded}
    report |= {what: asdict(found) for what, found in numbers.items()}
    write_report(saved_path, flags.report_path, report)
    file.write_pairs(flags, flags.margin, of="episodes")
