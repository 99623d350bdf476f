"""Steps of the study that are no stages: the agent's gates, and credit that is wrong on purpose or right by an oracle."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

from sweet_rl import tracking
from sweet_rl.chat import EMBEDDED, model_path
from sweet_rl.mini.backend.extras import judge
from sweet_rl.preferences.candidates import Candidates, candidates_from_rows
from sweet_rl.preferences.ranking import SWAPPED
from sweet_rl.records import read_rows, replace_file, replace_rows
from sweet_rl.types import Json


def check_agent(agent: str, output: str) -> None:
    """Refuse an agent that cannot show what the study is about; write the figures of one that passes.

    The packaged agent has its figures with it, and a test of ours measures them anew: they are not measured
    here, which takes longer than the dialogues of a small study.
    """
    tracking.reads("agent", agent)
    packaged = Path(model_path(agent)) / "figures.json"
    figures = json.loads(packaged.read_text()) if agent == EMBEDDED else _measured(agent)
    tracking.writes(output)
    replace_file(Path(output), [f"{json.dumps(figures, indent=1)}\n".encode()])


def _measured(agent: str) -> dict[str, float]:
    from sweet_rl.mini.backend.pretraining import TEXTS
    from sweet_rl.mini.embedded_agent import check_gates

    return {figure.name: figure.value for figure in check_gates(agent, TEXTS)}


def take_swapped(scored: str, output: str) -> None:
    """Put the scores with another task's solution, of `rank_best_of_n --swap_test`, in place of the right ones."""
    _write(output, [dict(row.row) | {"judge_result": row.row[SWAPPED]} for row in _turns(scored)])


def shuffle_scores(scored: str, output: str) -> None:
    """Give the scores of every turn to its candidates by chance, drawn from the turn's name; equal texts get the same."""
    rows = []
    for row in _turns(scored):
        score_of = dict(zip((candidate.text for candidate in row.candidates), row.scores or (), strict=True))
        others = list(score_of.values())
        Random(str(row.key)).shuffle(others)
        given = dict(zip(score_of, others, strict=True))
        rows.append(dict(row.row) | {"judge_result": [given[candidate.text] for candidate in row.candidates]})
    _write(output, rows)


def score_by_oracle(source: str, output: str) -> None:
    """Score every candidate by the oracle of good turns: 1 for a good one, 0 for another."""
    scored = []
    for row in _turns(source):
        good = [judge(row.ground_truth, row.before, candidate.text).good for candidate in row.candidates]
        scored.append(dict(row.row) | {"judge_result": list(map(float, good))})
    _write(output, scored)


def _turns(path: str) -> list[Candidates]:
    tracking.reads("source", path)
    return candidates_from_rows(list(read_rows(path)), path=path)


def _write(path: str, rows: Sequence[Mapping[str, Json]]) -> None:
    tracking.writes(path)
    replace_rows(path, rows)
