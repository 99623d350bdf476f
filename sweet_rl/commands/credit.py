"""The critic's score of every turn of a trajectory file."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sweet_rl import tracking
from sweet_rl.cli.progress import progress, run_until_stopped
from sweet_rl.cli.servers import key_in
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.commands.rank_best_of_n import ScorerFlags, facets, models_of, scorers_of
from sweet_rl.commands.sample_best_of_n import finish, turn_file
from sweet_rl.errors import UsageError
from sweet_rl.flags import REQUIRED, flag
from sweet_rl.flags.models import SERVED, Advantage, Critic, Tokenizer, WithoutHidden
from sweet_rl.flags.shared import Continuing, Quiet, SavedPath, SaveSteps
from sweet_rl.preferences.candidates import Candidates
from sweet_rl.preferences.credit import (
    WAYS,
    WHY,
    Way,
    check_reference,
    credited,
    own_turns,
    summary,
    turn_digest,
)
from sweet_rl.preferences.trajectory_pairs import twice
from sweet_rl.records import Journal, read_rows, trajectories_from_rows
from sweet_rl.runs.facts import identity_of
from sweet_rl.runs.reading import maker_of, trained_from, worlds_behind
from sweet_rl.types import Json, Trajectory


@dataclass(frozen=True, kw_only=True)
class CreditFlags(SavedPath, Critic, Advantage, WithoutHidden, Tokenizer, SaveSteps, Continuing, Quiet):
    """Scores."""

    output_path: str | None = flag(
        None,
        "the .jsonl file that scores are appended to; default beside the file: STEM.credit.CRITIC.jsonl.",
    )
    hidden: bool = flag(False, "only what the critic says when it is shown the hidden solution.")


@recorded("credit", reads=("saved_path", "critic", "reference_model", "tokenizer"), prices=True)
@stage(
    "saved_path",
    defaults={"critic": REQUIRED, "save_steps": 256, "request_timeout_s": 600.0},
    helps={
        "critic": "the critic: a checkpoint folder, a hub name, smollm2, embedded, or the name under which a server offers it.",
        "reference_model": "what the critic is compared with; default: the model that it was trained from, as the record in its folder says, else what the sampler recorded.",
        "saved_path": "any trajectory file; it is not changed.",
        "save_steps": "turns that are scored and saved together; a killed run loses at most these.",
        "overwrite": "throw away what the output holds.",
        "tokenizer": "folder or name of the critic's tokenizer; default the critic's own.",
        "without_hidden": "only what it says without the solution; default: both. Both flags together: both.",
    },
    narrow={"save_steps": {"at_least": 1}},
    only={"base_url": SERVED, "api_key_var": SERVED},
    facets=facets,
)
def credit(flags: CreditFlags, scorers: ScorerFlags, /) -> None:
    """Score every turn of finished dialogues by a critic, with and without the hidden solution.

    A score is the critic's mean log-probability of the turn's own tokens minus the reference's: of the model
    that the critic was trained from, as its record says; without a record, what the sampler recorded. A critic
    with a regression head gives its value. The scores go into a file of their own, which says which critic made
    them; `sweet-rl view` shows them along the dialogue. Nothing is played again.

    The smallest run: credit trajectories.jsonl --critic path/to/critic
    """
    key_in(scorers.api_key_var)
    if flags.reference_model is None and (base := trained_from(str(flags.critic))):
        flags = replace(flags, reference_model=base)
        tracking.reads("reference_model", base)
    turns = _turns(flags.saved_path, str(flags.critic))
    settings = _settings(flags)
    output = Path(flags.output_path or _beside(flags))
    wanted = {turn.key: turn_digest(turn.prompt, turn.candidates[0].text) for turn in turns}
    held = turn_file(output, flags, wanted, settings, field="credit", content="turn_digest")
    with held as (journal, done):
        todo = [turn for turn in turns if turn.key not in done]
        if todo:
            work = _credit(flags, scorers, todo, journal, settings, len(done))
            run_until_stopped(work, str(output), len(turns), noun="turns", verb="does")
        finish(output, [turn.key for turn in turns])
    _say(output, len(turns), flags.reference_model)


def warn_of_another_world(critic: str | Path, trajectories: Iterable[Trajectory]) -> None:
    """Print a warning where records say that a critic has learned from other worlds than these dialogues are of.

    Args:
        critic: its folder, as the run that asks it names it; what has no record is not warned of.
    """
    settings = (one.provenance.get("settings") or {} for one in trajectories)
    here = {str(own["task_type"]) for own in settings if "task_type" in own}
    learned = worlds_behind(critic) if Path(critic).expanduser().is_dir() else set()
    if here and learned and not here <= learned:
        print(
            f"warning: the critic {str(critic)!r} has learned from {', '.join(sorted(learned))}, and these dialogues "
            f"are of {', '.join(sorted(here))}: its scores may mean nothing. Name a critic of that world.",
            file=sys.stderr,
        )


def warn_of_a_file(path: str | Path, trajectories: Iterable[Trajectory]) -> None:
    """The same of the critic that a credit file was made by."""
    record = maker_of(Path(path)) or {}
    if record.get("stage") == "credit":
        critic = Path(str(record["folder"])) / Path(str(record["settings"]["critic"])).expanduser()
        warn_of_another_world(critic, trajectories)


_WAYS = {"hidden": "With the hidden solution", "without_hidden": "Without it"}


async def _credit(
    flags: CreditFlags,
    scorer_flags: ScorerFlags,
    todo: Sequence[Candidates],
    journal: Journal,
    settings: dict[str, Json],
    done: int,
) -> None:
    more = {"critic": flags.critic, "credit": settings}
    async with AsyncExitStack() as stack:
        name, base = str(flags.critic), flags.reference_model
        scorers = await stack.enter_async_context(scorers_of(name, base, scorer_flags))
        critic, reference = models_of(scorers, name, base, flags.tokenizer)
        check_reference(todo, critic, reference)
        bar = stack.enter_context(progress(len(todo) + done, done, unit="turn", quiet=flags.quiet))
        for start in range(0, len(todo), flags.save_steps):
            window = todo[start : start + flags.save_steps]
            found = await credited(window, critic, reference, _ways(flags), advantage=flags.advantage)
            journal.append([one.as_row() | more for one in found])
            bar.update(len(window))


def _turns(path: str, critic: str) -> list[Candidates]:
    """Every agent turn of the file, which the critic is to score."""
    numbered = list(read_rows(path))
    trajectories = trajectories_from_rows(numbered, path=path)
    lines: dict[tuple[str, int], int] = {}
    turns: list[Candidates] = []
    for (line, _), trajectory in zip(numbered, trajectories, strict=True):
        if trajectory.key in lines:
            raise twice(path, line, "task_id, sample_index", trajectory.key, lines[trajectory.key])
        lines[trajectory.key] = line
        turns += own_turns(trajectory)
    if not turns:
        raise UsageError(
            f"{path!r} holds no agent turns. Make trajectories with sweet-rl simulate_interactions."
        )
    warn_of_another_world(critic, trajectories)
    return turns


def _ways(flags: CreditFlags) -> tuple[Way, ...]:
    """Those that are asked for; both where none is."""
    return tuple(way for way in WAYS if getattr(flags, way)) or WAYS


def _settings(flags: CreditFlags) -> dict[str, Json]:
    """What decides about a score: a file may be continued only with the same. Models go by their content."""
    return facts_of(flags) | {way: way in _ways(flags) for way in WAYS}


def facts_of(flags: Any) -> dict[str, Json]:
    """What a score depends on, whatever is asked."""
    return {
        "critic": identity_of(str(flags.critic)),
        "reference": None if flags.reference_model is None else identity_of(flags.reference_model),
        "advantage": flags.advantage,
    }


def _beside(flags: CreditFlags) -> Path:
    saved, critic = Path(flags.saved_path), Path(str(flags.critic))
    name = critic.resolve().name if critic.is_dir() else str(flags.critic).replace("/", "_")
    return saved.with_name(f"{saved.stem}.credit.{name}.jsonl")


def _say(output: Path, count: int, reference: str | None) -> None:
    """Print what the file holds."""
    print(f"{count} turns with the critic's scores are in {output}.")
    print(f"The critic is compared with {reference or 'what the sampler recorded'}.")
    for name, found in summary([row for _, row in read_rows(output)]).items():
        mean = "" if found["mean"] is None else f", mean {found['mean']:+.3f}"
        print(f"{_WAYS[name]}: {found['scores']} scores{mean}.")
        for reason, missing in found["missing"].items():
            print(f"  {missing} have none: {WHY[reason]}.")
