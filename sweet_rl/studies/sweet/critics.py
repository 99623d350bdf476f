"""How far a critic of the mini study agrees with the oracle of good turns."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from statistics import fmean

from sweet_rl.preferences.candidates import Candidates, candidates_from_rows
from sweet_rl.preferences.trajectory_pairs import key_of
from sweet_rl.records import read_rows
from sweet_rl.statistics import area_under_curve
from sweet_rl.studies.results import Counted
from sweet_rl.studies.sweet.settings import Study
from sweet_rl.worlds.backend_programming.mini.judge import Verdict, judge


def agreement(study: Study, name: str) -> dict[str, Counted]:
    """How often a critic's scores put a good turn above a bad one: areas under the curve, means over turns.

    And the share of its pairs that the oracle agrees with: the chosen turn is good, the rejected one is not.
    """
    found: dict[str, list[float]] = defaultdict(list)
    rows = ranked_turns(study.ranked(name))
    verdicts = {row.key: verdicts_of(row) for row in rows}
    for row in rows:
        by_verdict = defaultdict(list)
        for verdict, score in zip(verdicts[row.key], row.scores or (), strict=True):
            if score is not None:
                by_verdict[verdict].append(score)
        wasted = [*by_verdict[Verdict.USELESS], *by_verdict[Verdict.REPEATED], *by_verdict[Verdict.NEEDLESS]]
        useful, early = by_verdict[Verdict.USEFUL], by_verdict[Verdict.EARLY]
        for key, good, bad in (
            ("auc_questions", useful, wasted),
            ("auc_useful_early", useful, early),
            ("auc_useless_early", by_verdict[Verdict.USELESS], early),
            ("auc_answering", by_verdict[Verdict.RIGHT], wasted),
        ):
            if good and bad:
                found[key].append(area_under_curve(good, bad))
    found["right_pairs"] = [
        float(
            verdicts[key_of(row)][row["chosen_index"]].good
            > verdicts[key_of(row)][row["rejected_index"]].good
        )
        for _, row in read_rows(study.pairs(name))
        if "chosen_index" in row
    ]
    return {key: Counted(fmean(values), n=len(values)) for key, values in found.items() if values}


def verdicts_of(row: Candidates) -> list[Verdict]:
    """The oracle's word on every candidate."""
    return [judge(row.ground_truth, row.before, candidate.text) for candidate in row.candidates]


def ranked_turns(path: Path) -> list[Candidates]:
    """Turns with scored candidates."""
    return candidates_from_rows(list(read_rows(path)), path=str(path))
