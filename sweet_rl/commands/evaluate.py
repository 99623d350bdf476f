"""Stage 2 for any world: by the grader that the world names, or by one from outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sweet_rl.cli.stage import recorded, stage
from sweet_rl.errors import UsageError
from sweet_rl.flags import flags_of
from sweet_rl.flags.shared import Evaluation, GraderName, Margin, Quiet, Regrade

if TYPE_CHECKING:
    from sweet_rl.commands.evaluation import GradedFile
    from sweet_rl.worlds import World


@dataclass(frozen=True, kw_only=True)
class GraderFlags(Evaluation, GraderName, Margin, Regrade, Quiet):
    """Grading."""


@recorded("evaluate", reads=("saved_path",))
@stage(
    "saved_path",
    helps={
        "saved_path": "trajectory file of sweet-rl simulate_interactions.",
        "margin": "by how much the rewards of a pair differ at least; 0: what the world's stage takes, and 0.1 for a grader of your own.",
        "regrade": "grade all rows again, also those that the grader has scored, without playing.",
        "overwrite": "replace files of pairs, and a report of another file, when they exist.",
    },
)
def evaluate(flags: GraderFlags, /) -> None:
    """Grade trajectories of any world; print the table; write preference pairs.

    Without a grader this is the stage that the world names, with the settings that all have (evaluate_code,
    evaluate_html, evaluate_games; each has more). A grader of your own gives every trajectory a score, which
    becomes its reward; a former reward is kept among the row's grades. Any two episodes of a task whose rewards
    differ by the margin become a pair. Rows that the grader has scored are not graded again, unless by --regrade:
    that needs the rows alone and plays nothing; `graded_with` says which grader made a reward.
    """
    from sweet_rl.commands.evaluate_games import evaluate_games

    names = [one.name for one in flags_of(Evaluation) if one.name != "saved_path"]
    given: dict[str, Any] = {name: getattr(flags, name) for name in names}
    if flags.grader == "auto":
        given |= {"margin": flags.margin} if flags.margin else {}
        given |= {"regrade": True} if flags.regrade else {}
        grading_by(_world_in(flags.saved_path), given, {"quiet": flags.quiet})(flags.saved_path)
        return
    _grade(flags.saved_path, flags.grader, flags.k, regrade=flags.regrade, quiet=flags.quiet)
    plain(evaluate_games)(saved_path=flags.saved_path, margin=flags.margin or 0.1, **given)


def _world_in(saved_path: str) -> World:
    """The world that a file is of."""
    from sweet_rl.records import read_rows
    from sweet_rl.worlds import world_in

    world = world_in(next((row for _, row in read_rows(saved_path)), {}).get("provenance") or {})
    if world is None:
        raise UsageError(
            f"{saved_path!r} names no world that has a name here. Run the world's own stage (evaluate_code, "
            "evaluate_html, evaluate_games), or name a --grader."
        )
    return world


def grading_by(world: World, given: Mapping[str, Any], offered: Mapping[str, Any]) -> Callable[..., None]:
    """The stage that grades files of a world, to be called with one, and with further flags."""
    import inspect

    from sweet_rl.cli.main import load

    stage = load(world.evaluation)
    known = inspect.signature(stage).parameters
    if "regrade" in given and "regrade" not in known:
        raise UsageError(
            f"--regrade has nothing to grade again: {world.name} rewards turns as they are played. Play again, "
            "or name a --grader."
        )
    if idle := [flag for flag in given if flag not in known]:
        raise UsageError(
            f"--{idle[0]} is no flag of {world.evaluation}, which grades {world.name}. Leave it out."
        )
    taken = {flag: value for flag, value in offered.items() if flag in known}
    return partial(plain(stage), **given, **taken)


def _grade(saved_path: str, grader: str, k: int | None, *, regrade: bool, quiet: bool) -> None:
    """Give rows the grader's scores where they are missing."""
    from sweet_rl.cli.progress import progress
    from sweet_rl.commands.evaluation import graded_file
    from sweet_rl.grading import GRADERS, fields_by
    from sweet_rl.grading.report import graded_with_own
    from sweet_rl.worlds import world_in

    GRADERS.find(grader)
    with graded_file(saved_path, k) as file:
        judge = GRADERS.make(grader, world_in(file.trajectories[0].provenance), flag="grader")
        missing = [
            index for index in range(len(file.rows)) if _is_missing(file, index, grader, regrade=regrade)
        ]
        made_by = graded_with_own(grader, judge)
        scores = judge.grade(file.trajectories[index] for index in missing)
        with progress(len(missing), 0, unit="episode", quiet=quiet or not missing) as bar:
            for index, score in zip(missing, scores, strict=True):
                file.update(index, fields_by(grader, score, file.rows[index]) | {"graded_with": made_by})
                bar.update()
        if all(file.rows[row].get("reward") is None for group in file.groups for row in group):
            details = next(file.rows[row] for row in file.groups[0]).get("grading_details") or {}
            note = details.get(f"{grader}_note", "it gives no reason")
            raise UsageError(f"The grader {grader!r} has no score for any episode of {saved_path!r}: {note}.")
    file.say_regraded(regrade=regrade)


def _is_missing(file: GradedFile, index: int, grader: str, *, regrade: bool) -> bool:
    return file.counts(index) and (regrade or grader not in (file.rows[index].get("grades") or {}))


def plain(stage: Callable[..., None]) -> Callable[..., None]:
    """The stage without a record of its own: what it writes belongs to the one that calls it."""
    inner: Callable[..., None] = getattr(stage, "__wrapped__", stage)
    return inner
