"""What a turn was worth, and what methods believe it was worth."""

from __future__ import annotations

from sweet_rl.cli.stage import recorded, stage
from sweet_rl.flags import REQUIRED, flag, group
from sweet_rl.flags.shared import Overwriting, Resumable, SavedPath, Seeded


@group("Measuring")
class MeasuringFlags(SavedPath, Seeded, Resumable):
    output_path: str | None = flag(
        None, "file for the measured turns; default STEM.measured.jsonl beside the input."
    )


@recorded("credit measure", reads=("saved_path",), prices=True)
@stage("saved_path")
def measure(flags: MeasuringFlags, /) -> None:
    """Measure what each turn was worth, by playing on from before and after it."""


@group("Comparing")
class ComparingFlags(Overwriting):
    measured_path: str = flag(REQUIRED, "file of sweet-rl credit measure.")
    report_path: str | None = flag(
        None, "JSON file for the numbers; default STEM.compared.json beside the measured file."
    )


@recorded("credit compare", reads=("measured_path",))
@stage("measured_path")
def compare(flags: ComparingFlags, /, *scores: str) -> None:
    """Hold the scores of methods against what turns were worth.

    Args:
        scores: files of sweet-rl credit score on the same trajectories or candidates.
    """
