"""The study of many seeds: its file, and what the page shows of it, by hand."""

import json

import pytest

from sweet_rl.errors import DataError
from sweet_rl.studies.outcome import table
from sweet_rl.studies.report.page import results_page
from sweet_rl.studies.results import Results, beside_study
from sweet_rl.studies.sweet.full_study import FullStudy, Seed, read_full_study, write_full_study

RUN = {"warm start": "embedded (a1)", "day": "2026-11-23"}
MADE = (RUN,)
ONE = {"warm_start": {"success": 0.125}, "sweet": {"success": 0.75}, "dpo": {"success": 0.75}}
FEW = {"warm_start": {"success": 0.25}, "sweet": {"success": 0.75}, "dpo": {"success": 0.25}}
MANY = {
    "warm_start": {"success": 0.25},
    "sweet": {"success": 0.5},
    "dpo": {"success": 0.125},
    "sweet_wrong": {"success": 0.25},
    "best_of_4_by_critic": {"success": 0.5},
    "best_of_2_by_critic": {"success": 0.375},
}
FULL = FullStudy(
    {"test tasks": 8},
    {
        1: {5: Seed(ONE, MADE), 6: Seed(ONE | {"sweet_wrong": {"success": 0.5}}, MADE)},
        40: {5: Seed(FEW, MADE), 6: Seed(MANY, MADE)},
    },
)


def test_what_was_written_is_read(tmp_path):
    path = tmp_path / "made" / "full.json"
    assert read_full_study(path) is None
    write_full_study(path, FULL)
    assert read_full_study(path) == FULL
    path.write_text(json.dumps({"format": "another"}))
    with pytest.raises(DataError, match=r"must have the format sweet_rl.mini_study/1"):
        read_full_study(path)
    whole = {"format": "sweet_rl.mini_study/1", "settings": {}}
    for broken in ({"trades": [1]}, {"trades": {"1": {"5": {"numbers": {}}}}}, {"trades": {"x": {}}}, {}):
        path.write_text(json.dumps(whole | broken))
        with pytest.raises(DataError, match=r"is not whole"):
            read_full_study(path)


def test_another_seed_leaves_the_others_and_further_methods_join_theirs():
    grown = FULL.with_seed(40, 7, Seed(ONE, MADE)).with_seed(10, 5, Seed(ONE, MADE))
    assert {trades: sorted(seeds) for trades, seeds in grown.seeds.items()} == {
        1: [5, 6],
        10: [5],
        40: [5, 6, 7],
    }
    assert sorted(FULL.seeds) == [1, 40]
    rft = {"rft": {"success": 0.375}}
    assert FULL.with_seed(40, 5, Seed(rft, MADE)).seeds[40][5].numbers == FEW | rft
    with pytest.raises(DataError, match=r"seed 5.*began with embedded \(a1\)"):
        FULL.with_seed(40, 5, Seed(rft, ({**RUN, "warm start": "1 (b2)"},)))


def test_all_runs_that_made_a_seed_are_kept():
    later = RUN | {"day": "2026-11-24"}
    grown = FULL.with_seed(40, 5, Seed({}, (later,))).with_seed(40, 5, Seed({}, (later,)))
    assert grown.seeds[40][5].made == (RUN, later)
    assert grown.made() == "test tasks: 8; warm start: embedded (a1); day: 2026-11-23, 2026-11-24"


def test_differences_are_of_the_same_seeds_and_the_dose_comes_first():
    dose, few, many, chosen = FULL.comparisons()
    assert dose.method("sweet").runs[1].curves == {"success": ((1, 0.75), (40, 0.5))}
    assert dose.method("dpo").runs[0].curves == {"success": ((1, 0.75), (40, 0.25))}
    assert [run.seed for run in dose.method("sweet_wrong").runs] == [6]  # seed 5 has no such row
    claims = {claim.worse: claim for claim in many.claims}
    # 0.5 and 0.375: mean 0.4375, standard error 0.0625, Student's t for one degree of freedom 12.706
    assert (claims["dpo"].mean, claims["dpo"].low) == (0.4375, pytest.approx(0.4375 - 12.706 * 0.0625))
    assert (claims["sweet_wrong"].mean, claims["sweet_wrong"].each) == (0.25, ((6, 0.25),))
    # with one trade another task's solution is not wrong: nothing is claimed
    assert {claim.worse: claim.mean for claim in few.claims} == {"warm_start": 0.625, "dpo": 0.0}
    assert [method.name for method in chosen.methods] == ["critic"]
    assert chosen.methods[0].runs[0].curves == {"success": ((1, 0.25), (2, 0.375), (4, 0.5))}


def test_the_page_marks_what_another_run_made_and_the_table_leaves_it_out():
    (_, _, own, _) = FULL.comparisons()
    results = beside_study(Results("sweet", "A run", comparisons=(own,)), FULL.comparisons(), FULL.made())
    assert [part.title for part in results.comparisons] == [
        "Full study: The more there is to know, the more a critic that knows it helps",
        "Full study: 1 trade",
        "Full study: 40 trades",
        "Full study: 40 trades, a critic chooses at test time",
        "This run: 40 trades",
    ]
    assert table(results).splitlines()[0].startswith("This run: 40 trades ")
    page = results_page(results)
    assert page.count("not of this run.") >= 4
    assert "made with test tasks: 8; warm start: embedded (a1); day: 2026-11-23." in page
