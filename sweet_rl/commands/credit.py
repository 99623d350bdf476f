"""The critic's score of every turn of a trajectory file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

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
    check_reference,
    credited,
    facts_of,
    own_turns,
    summary,
    turn_digest,
)
from sweet_rl.preferences.trajectory_pairs import twice
from sweet_rl.records import read_rows, trajectories_from_rows
from sweet_rl.runs.reading import trained_from


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
    name = str(flags.critic)
    if flags.reference_model is None and (base := trained_from(name)):
        flags = replace(flags, reference_model=base)
        tracking.reads("reference_model", base)
    numbered = list(read_rows(flags.saved_path))
    lines: dict[tuple[str, int], int] = {}
    turns: list[Candidates] = []
    trajectories = trajectories_from_rows(numbered, path=flags.saved_path)
    for (line, _), trajectory in zip(numbered, trajectories, strict=True):
        if (first := lines.setdefault(trajectory.key, line)) != line:
            raise twice(flags.saved_path, line, "task_id, sample_index", trajectory.key, first)
        turns += own_turns(trajectory)
    if not turns:
        raise UsageError(
            f"{flags.saved_path!r} holds no agent turns. Make trajectories with sweet-rl simulate_interactions."
        )
    ways = tuple(way for way in WAYS if getattr(flags, way)) or WAYS
    settings = facts_of(flags) | {way: way in ways for way in WAYS}
    called = Path(name).resolve().name if Path(name).is_dir() else name.replace("/", "_")
    saved = Path(flags.saved_path)
    output = Path(flags.output_path or saved.with_name(f"{saved.stem}.credit.{called}.jsonl"))
    wanted = {turn.key: turn_digest(turn.prompt, turn.candidates[0].text) for turn in turns}
    held = turn_file(output, flags, wanted, settings, field="credit", content="turn_digest")
    with held as (journal, done):
        todo = [turn for turn in turns if turn.key not in done]

        async def work() -> None:
            async with scorers_of(name, flags.reference_model, scorers) as opened:
                critic, reference = models_of(opened, name, flags.reference_model, flags.tokenizer)
                check_reference(todo, critic, reference)
                with progress(len(turns), len(done), unit="turn", quiet=flags.quiet) as bar:
                    for start in range(0, len(todo), flags.save_steps):
                        window = todo[start : start + flags.save_steps]
                        found = await credited(window, critic, reference, ways, advantage=flags.advantage)
                        more = {"critic": flags.critic, "credit": settings}
                        journal.append([one.as_row() | more for one in found])
                        bar.update(len(window))

        if todo:
            run_until_stopped(work(), str(output), len(turns), noun="turns", verb="does")
        finish(output, [turn.key for turn in turns])
    print(f"{len(turns)} turns with the critic's scores are in {output}.")
    print(f"The critic is compared with {flags.reference_model or 'what the sampler recorded'}.")
    words = {"hidden": "With the hidden solution", "without_hidden": "Without it"}
    for way, scores in summary([row for _, row in read_rows(output)]).items():
        mean = "" if scores["mean"] is None else f", mean {scores['mean']:+.3f}"
        print(f"{words[way]}: {scores['scores']} scores{mean}.")
        for reason, missing in scores["missing"].items():
            print(f"  {missing} have none: {WHY[reason]}.")
