"""The critic's score of every turn of a trajectory file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sweet_rl.cli.parse import Facets
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.commands.rank_best_of_n import ScorerFlags
from sweet_rl.flags import REQUIRED, flag
from sweet_rl.flags.models import SERVED, Advantage, Critic, Tokenizer, WithoutHidden
from sweet_rl.flags.shared import ContinuingOtherwise, Quiet, SavedPath, SaveSteps


@dataclass(frozen=True, kw_only=True)
class CreditFlags(
    SavedPath, Critic, Advantage, WithoutHidden, Tokenizer, SaveSteps, ContinuingOtherwise, Quiet
):
    """Scores."""

    output_path: str | None = flag(
        None,
        "the .jsonl file that scores are appended to; default beside the file: STEM.credit.CRITIC.jsonl.",
    )
    hidden: bool = flag(False, "only what the critic says when it is shown the hidden solution.")


def _facets(flags: Mapping[str, Any]) -> Facets:
    asked = {"nobody"} if flags["engine"] == "transformers" else {"server"}
    return {"engine": {flags["engine"]}, "asked": asked}


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
    facets=_facets,
)
def credit(flags: CreditFlags, scorers: ScorerFlags, /) -> None:
    """Score every turn of finished dialogues by a critic, with and without the hidden solution.

    A score is the critic's mean log-probability of the turn's own tokens minus the reference's: of the model
    that the critic was trained from, as its record says; without a record, what the sampler recorded. A critic
    with a regression head gives its value. The scores go into a file of their own, which says which critic made
    them; `sweet-rl view` shows them along the dialogue. Nothing is played again.

    The smallest run: credit trajectories.jsonl --critic path/to/critic
    """
    from sweet_rl.commands import crediting

    crediting.run(flags, scorers)
