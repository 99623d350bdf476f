"""Scores of turns against what turns were worth: numbers by hand, the table, the page, and what is refused."""

import json
import re
from pathlib import Path
from random import Random
from statistics import fmean

import pytest
from scipy import stats

from sweet_rl.cli.main import load
from sweet_rl.credit.compare import Turn, auc, compared, picked, ranks, spearman
from sweet_rl.errors import DataError, UsageError
from sweet_rl.records import replace_rows

SETTINGS = {"policy": "sha256:1", "world": "code", "measure": "reward", "seed": 0}
compare = load("credit compare")


def turn(worth, score, *, half=0.05, kind="turn", repeat=False):
    return Turn(worth, worth - half, worth + half, kind, 0, repeat, {} if score is None else {"m": score})


def measured_row(task, place, worth, kind="turn"):
    known = {"task_id": task, "sample_index": 0, "turn_index": place, "turn_digest": f"{task} {place}"}
    got = {"advantage": worth, "low": worth - 0.05, "high": worth + 0.05, "allocation": "fixed"}
    return known | {"kind": kind, "repeat": False, "measured": got, "settings": SETTINGS}


def scored(row, scores, **more):
    names = ("task_id", "sample_index", "turn_index", "turn_digest")
    return {name: row[name] for name in names} | {"scores": scores} | more


def test_ranks_and_their_correlation_are_scipys():
    rng = Random(3)
    for _ in range(20):
        worth, score = ([rng.randint(0, 6) for _ in range(12)] for _ in range(2))
        assert ranks(worth) == list(stats.rankdata(worth))
        found = spearman("m", [[turn(a, b) for a, b in zip(worth, score, strict=True)]])
        assert found == pytest.approx(stats.spearmanr(worth, score).statistic)
    assert spearman("m", [[turn(1, 2), turn(2, 2)]]) is spearman("m", [[turn(1, 2)]]) is None
    assert spearman("other", [[turn(1, 2)]]) is None


def test_auc_is_over_turns_that_are_clearly_good_or_bad():
    turns = [turn(0.3, 2), turn(0.2, 1), turn(0.04, -9), turn(-0.2, 1), turn(-0.4, 0), turn(-0.3, None)]
    assert auc("m", [turns]) == pytest.approx((1 + 1 + 0.5 + 1) / 4)
    assert auc("m", [turns[:3]]) is None


def test_the_top_pick_loses_against_the_best_and_may_repeat():
    states = [
        [turn(0.5, 1.0), turn(0.1, 3.0, repeat=True), turn(0.3, 2.0)],
        [turn(0.2, 5.0), turn(0.0, 5.0), turn(-0.2, 1.0)],
        [turn(0.9, None), turn(0.1, 1.0)],  # nothing to choose from
    ]
    assert picked("m", "lost", states) == pytest.approx((0.4 + 0.1) / 2)
    assert picked("m", "random", states) == pytest.approx((0.2 + 0.2) / 2)
    assert picked("m", "repeats", states) == 0.5
    assert picked("m", "lost", states, repeats=False) == pytest.approx((0.2 + 0.1) / 2)
    assert picked("m", "within", states) == pytest.approx(
        (-1 + stats.spearmanr([0.2, 0, -0.2], [5, 5, 1]).statistic) / 2
    )


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A measured file, and scores of three methods: one that knows, one that guesses, one without scores."""
    monkeypatch.chdir(tmp_path)
    rng, rows, scores = Random(0), [], []
    for task in range(12):
        for place in range(5):
            kind = "last" if place == 4 else "turn"
            rows.append(measured_row(f"t{task}", place, rng.uniform(-0.4, 0.4), kind))
            worth = rows[-1]["measured"]["advantage"]
            own = {"knows": 2 * worth + 0.1, "guesses": rng.random(), "silent": None}
            more = {"cost": {"knows": 100, "guesses": 0}, "why": {"silent": "no reason"}}
            scores.append(scored(rows[-1], own, **more))
    replace_rows("run.measured.jsonl", rows)
    replace_rows("scores.jsonl", scores)
    return rows, scores


def test_numbers_table_and_page(files, capsys):
    compare("run.measured.jsonl", "scores.jsonl", html="credit.html")
    said, numbers = capsys.readouterr().out, json.loads(Path("credit.json").read_text())
    assert list(numbers["methods"]) == ["knows", "guesses", "silent"]
    knows, guesses, silent = numbers["methods"].values()
    assert knows["spearman"] == {"value": pytest.approx(1), "low": pytest.approx(1), "high": pytest.approx(1)}
    assert (knows["auc"]["value"], knows["tokens"], silent["turns"]) == (1, 100, 0)
    assert (knows["slope"], knows["intercept"]) == (pytest.approx(0.5), pytest.approx(-0.05))
    assert guesses["spearman"]["low"] < guesses["spearman"]["value"] < guesses["spearman"]["high"] < 0.9
    assert knows["parts"].keys() == {"last turns", "other turns", *(f"turn {n}" for n in range(1, 6))}
    assert len(knows["fifths"]) == 5 and knows["fifths"] == sorted(knows["fifths"])
    assert re.search(r"^knows +60 +1\.00 \[1\.00, 1\.00\] +1\.00 \[1\.00, 1\.00\] +0\.500 +100$", said, re.M)
    page = Path("credit.html").read_text()
    assert "<script" not in page and all(f">{name}</th>" in page for name in numbers["methods"])
    assert compared("run.measured.jsonl", ["scores.jsonl"])["methods"] == numbers["methods"]
    with pytest.raises(UsageError, match="exists already"):
        compare("run.measured.jsonl", "scores.jsonl", html="credit.html")


def test_views_of_a_critic_are_two_methods_and_of_two_files_both_stay(files):
    blind = {"advantage": None}
    for name, sign, scores in (("a", 1, {}), ("b", -1, {}), ("c", 1, {"m": 0.5})):
        told = [(row, {"advantage": sign * row["measured"]["advantage"]}) for row in files[0]]
        made = [scored(row, scores, hidden=own, without_hidden=blind) for row, own in told]
        replace_rows(f"{name}.jsonl", made)
    found = compared("run.measured.jsonl", ["a.jsonl", "b.jsonl", "c.jsonl"])["methods"]
    values = {name: one["spearman"]["value"] for name, one in found.items()}
    assert values == {  # where rows have scores by methods' names, these alone count
        "critic, with solution": pytest.approx(1), "critic, blind": None,
        "critic, with solution (b)": pytest.approx(-1), "critic, blind (b)": None, "m": None,
    }  # fmt: skip


def test_candidates_are_compared_within_their_state(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows, scores = [], []
    for task in range(4):
        worths = [0.1 * task, 0.3, -0.2]
        row = measured_row(f"t{task}", 1, 0.0) | {"kind": ["useful", "last", "useless"]}
        ends = ("advantage", 0), ("advantage_low", -0.01), ("advantage_high", 0.01)
        row["measured"] = {"candidates": [{name: one + more for name, more in ends} for one in worths]}
        row["repeat"] = [False, False, True]
        rows.append(row)
        own = {"of turns taken": None, "likes repeats": [0, 0.1, 1], "knows": worths, "some": [1, None, 0]}
        scores.append(scored(row, own))
    replace_rows("m.jsonl", rows)
    replace_rows("s.jsonl", scores)
    found = compared("m.jsonl", ["s.jsonl"])
    assert (found["states"], found["turns"]) == (4, 12)
    assert list(found["methods"]) == ["knows", "some", "likes repeats", "of turns taken"]
    assert found["random"] == pytest.approx(0.3 - fmean((0.1 * task + 0.1) / 3 for task in range(4)))
    bad, good = found["methods"]["likes repeats"], found["methods"]["knows"]
    assert (bad["lost"]["value"], bad["repeats"]["value"]) == (pytest.approx(0.5), 1)
    assert good["lost"]["value"] == good["lost_without_repeats"]["value"] == 0
    assert good["within"]["value"] == pytest.approx(1)
    assert found["methods"]["some"]["turns"] == 8


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (lambda rows, scores: scores[3].update(turn_digest="x"), DataError, r"line 4.*another text than turn 3 of \('t0', 0\)"),
        (lambda rows, scores: scores[2].pop("scores"), DataError, "line 3.*Make the file with sweet-rl credit score"),
        (lambda rows, scores: [one.update(task_id="else") for one in scores], UsageError, "scores no turn of 'run.measured.jsonl'"),
        (lambda rows, scores: rows[1].pop("measured"), DataError, "line 2.*Make the file with sweet-rl credit measure"),
        (lambda rows, scores: rows[5].update(settings=SETTINGS | {"policy": "sha256:2"}), UsageError, "line 6.*policy was 'sha256:2', is 'sha256:1'"),
        (lambda rows, scores: rows.append(rows[0]), DataError, "twice|two"),
        (lambda rows, scores: scores.append(scores[0]), DataError, "is in the file twice"),
    ],
)  # fmt: skip
def test_what_does_not_belong_together_is_refused(files, change, error, says):
    rows, scores = files
    change(rows, scores)
    replace_rows("run.measured.jsonl", rows)
    replace_rows("scores.jsonl", scores)
    with pytest.raises(error, match=says):
        compare("run.measured.jsonl", "scores.jsonl")
    with pytest.raises(UsageError, match="Name a measured file and files of scores"):
        compare("run.measured.jsonl")
