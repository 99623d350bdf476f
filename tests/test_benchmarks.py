"""The study of many seeds: which studies it makes, what it refuses, and how its settings were chosen; and the worlds."""

import argparse
import asyncio
import itertools
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import _measure
import archer_critics
import archer_settings
import mini
import mini_settings
import pytest
import worlds as world_table
from markupsafe import Markup
from mini import COMMITTED, FullStudy, Seed, read_full_study, write_full_study, write_packaged

from sweet_rl import studies
from sweet_rl.errors import DataError, UsageError
from sweet_rl.online.replay import Transition
from sweet_rl.studies.archer.recipe import METHODS
from sweet_rl.studies.report.page import results_page
from sweet_rl.studies.results import Results, beside, read_study
from sweet_rl.studies.runner import table
from sweet_rl.studies.sweet.settings import Study, begun_with
from tests.conftest import ROOT


def asked(tmp_path, **changes):
    sizes = {"train_tasks": 4, "test_tasks": 2, "dev": False, "markdown": False, "packaged": None}
    sizes |= {"jobs": 2, "page": None, "unsafe_no_sandbox": False}
    what = {"agents": None, "seeds": [5], "trades": [1], "ways": "sweet", "best_of": None}
    places = {"folder": str(tmp_path), "output": str(tmp_path / "out.json")}
    return argparse.Namespace(**(sizes | what | places | changes))


def test_what_is_there_is_not_run_again_and_another_warm_start_is_refused(tmp_path, monkeypatch, capsys):
    arguments = asked(tmp_path)
    (study,) = mini._studies(arguments)
    ran = []
    monkeypatch.setattr(mini, "flags", lambda doc, **_: arguments)
    monkeypatch.setattr(mini, "_run", lambda study, jobs: ran.append(study))
    monkeypatch.setattr(mini, "results", lambda study, seconds: None)
    measured = mini.sweet_results.measured_in
    monkeypatch.setattr(
        mini, "numbers_of", lambda _, study: {name: {"success": 0.5} for name in measured(study)}
    )
    mini.main()
    mini.main()
    assert ran == [study]
    assert "trades=1, seed 5: is in " in capsys.readouterr().out
    arguments.ways = "sweet,sweet_blind"  # a further row
    mini.main()
    assert [len(each.ways) for each in ran] == [1, 2]
    full = mini.read_full_study(tmp_path / "out.json")
    assert full.seeds[1][5].made[0]["warm start"].startswith("embedded (")
    others = Seed(full.seeds[1][5].numbers, ({"warm start": "b (c)"},))
    write_full_study(tmp_path / "out.json", FullStudy(full.settings, {1: {5: others}}))
    with pytest.raises(DataError, match="began with b"):
        mini.main()


def test_a_study_of_other_sizes_is_refused(tmp_path):
    write_full_study(tmp_path / "out.json", FullStudy({"test tasks": 2}, {}))
    with pytest.raises(UsageError, match=r"of another study: test tasks 2 and not 3"):
        mini.known(tmp_path / "out.json", {"test tasks": 3})


def test_the_tables_of_the_docs_by_hand():
    made = ({"warm start": "a"},)
    few = {"warm_start": {"success": 0.125}, "sweet": {"success": 0.5, "auc_questions": 0.75}}
    many = {"warm_start": {"success": 0.375}, "sweet": {"success": 0.5}, "random": {"success": 0.0}}
    full = FullStudy({}, {1: {5: Seed(few, made)}, 40: {5: Seed(few, made), 6: Seed(many, made)}})
    # 0.125 and 0.375: mean 0.25, standard error 0.125, Student's t for one degree of freedom 12.706
    assert (
        mini.markdown(full).splitlines()
        == [
            "| success % | K = 1 | K = 40 |",
            "|---|---|---|",
            "| warm start | 12.5 | 25.0 [-133.8, 183.8] |",
            "| SWEET-RL | 50.0 | 50.0 |",  # seeds that are all alike have no interval
            "| floor: random |  | 0.0 |",
            "",
            "| SWEET-RL minus | K = 1 | K = 40 |",
            "|---|---|---|",
            "| warm start | 37.5 | 25.0 [-133.8, 183.8] |",
            "",
            f"| K = 1 | {' | '.join([*mini.HABITS.values()][:-1])} |",
            "|---|---|---|---|---|---|---|---|",
            "| SWEET-RL |  |  |  | 0.75 |  |  |  |",
            "",
            f"| K = 40 | {' | '.join([*mini.HABITS.values()][:-1])} |",
            "|---|---|---|---|---|---|---|---|",
            "| SWEET-RL |  |  |  | 0.75 |  |  |  |",
        ]
    )


def test_a_single_seed_has_intervals_over_its_tasks_and_several_have_them_over_seeds(tmp_path):
    """By hand: of four tasks three and two are solved; the third episode of the start failed."""
    numbers = {"sweet": {"success": 0.75, "wrong_pairs": 0.007}, "warm_start": {"success": 1 / 3}}
    one = Seed(numbers, MADE, {"sweet": "1110", "warm_start": "10-0"})
    full = FullStudy({}, {10: {6: one}})
    write_full_study(tmp_path / "real.json", full)
    assert read_full_study(tmp_path / "real.json") == full
    counted, made, success, less, habits = mini.markdown(full).split("\n\n")
    assert counted == "K = 10: 1 seed (intervals over its 4 test tasks)"
    assert made == "warm start: embedded (a1); day: 2026-11-23"
    # standard error of 1, 1, 1, 0: 0.25, t for three degrees of freedom 3.182; of 1, 0, 0: 1/3 and 4.303
    assert success.splitlines()[2:] == [
        "| warm start | 33.3 [0.0, 100.0] |",
        "| SWEET-RL | 75.0 [0.0, 100.0] |",
    ]
    assert less.splitlines()[2:] == ["| warm start | 33.3 [-100.0, 100.0] |"]  # of 0, 1 and 0
    assert habits.splitlines()[-1] == "| SWEET-RL |  |  |  |  |  |  |  | 0.7 |"
    (part,) = full.comparisons()
    assert part.text == "mini:trades=10, 1 seed (intervals over its 4 test tasks)."
    (claim,) = part.claims
    assert (claim.over, claim.mean) == ("tasks", pytest.approx(1 / 3))
    both = full.with_seed(10, 7, one)
    assert mini.markdown(both).startswith("K = 10: 2 seeds\n")
    assert [claim.over for claim in next(both.comparisons()).claims] == ["seeds"]


def test_the_plan_says_which_parts_of_the_study_are_done_and_how_each_is_run(tmp_path, monkeypatch, capsys):
    seed, trades, ways = mini.PARTS[1]
    done = FullStudy({}, {trades: {seed: Seed({way: {} for way in ways}, MADE)}})
    write_full_study(tmp_path / "my real.json", done)

    def planned(*words):
        monkeypatch.setattr(sys, "argv", ["mini.py", "--plan", *words])
        mini.main()
        return capsys.readouterr().out.splitlines()

    lines = planned("--output", str(tmp_path / "my real.json"), "--jobs", "2", "--agents", "smollm2,mine")
    states = [line.rpartition(": ")[2] for line in lines[::2]]
    assert states == ["missing", "done", *["missing"] * (len(mini.PARTS) - 2)]
    assert lines[2] == "[2/10] seed 7, 10 trades: done"
    assert (
        "--agents mine --seeds 7 --trades 10 --ways sweet,sweet_untrained,sweet_blind --jobs 2 " in lines[3]
    )
    assert lines[3].endswith(f" --folder outputs/real --output '{tmp_path}/my real.json'")
    assert {line.split()[4] for line in lines[1::2] if "--seeds 6 " in line} == {"smollm2"}
    usual = planned("--folder", "elsewhere")[1]
    assert usual.endswith(" --jobs 4 --folder elsewhere --output benchmarks/results/real.json")
    for idle in (["--seeds", "6"], ["--dev"], ["--ways", "all"], ["--page", "out"]):
        with pytest.raises(SystemExit):
            planned(*idle)
        assert f"unrecognized arguments: {' '.join(idle)}" in capsys.readouterr().err


def test_a_pretrained_model_has_equal_grids_whose_chains_are_those_of_the_study(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("sweet_rl.studies.sweet.settings.model_path", lambda name: name)
    grids = mini_settings.PRETRAINED_GRIDS
    assert {len(grid) for grid in grids.values()} == {4}
    study = Study(tmp_path, human="", **begun_with("smollm2", tmp_path, 2))
    (ranked, drawn, trained, *_) = mini_settings._chain(study, "sweet_untrained", grids["sweet_untrained"][1])
    assert ranked.words[2] == study.agent
    assert (drawn.flags["margin"], "min_score" in drawn.flags) == (0.02, False)
    assert (trained.flags["learning_rate"], trained.flags["max_epochs"]) == (2e-5, 2)
    blind = mini_settings._chain(Study(tmp_path, "embedded", ""), "sweet_blind", mini_settings.BLIND[0])
    assert blind[1].flags.items() >= {"margin": 0.3, "min_score": 0.0}.items()
    rows = {method: [{"settings": one} for one in grid] for method, grid in grids.items()}
    critics = [step.name for chain in mini_settings._critics(study, rows) for step in chain]
    assert critics == ["critic_pretrained", "critic_blind_pretrained"]


def test_a_method_without_a_grid_for_the_agent_is_refused_with_those_that_have_one(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["mini_settings.py", "--methods", "rft,sweet_untrained"])
    with pytest.raises(
        UsageError, match=r"embedded.*'sweet_untrained'.* Known: rft, dpo, sweet, sweet_blind\."
    ):
        mini_settings.main()


def test_archer_and_its_rivals_get_grids_of_one_size_and_the_winners_are_the_settings():
    """As committed: what was tried is the grid around the settings of the study, and the best of it is they."""
    assert {len(archer_settings.tries(method)) for method in archer_settings.GRIDS} == {3}
    saved = json.loads((ROOT / "benchmarks/results/archer_settings.json").read_text())
    for method, rows in saved["methods"].items():
        tried = archer_settings.tries(method)
        assert all(row["settings"] in tried for row in rows)
        assert len(rows) == len(tried)
        assert all(len(row["returns"]) == len(saved["seeds"]) for row in rows)
        best = max(rows, key=lambda row: sum(row["returns"]))
        assert best["settings"] == METHODS[method]


def test_flags_are_made_of_their_defaults(monkeypatch, capsys):
    options = {
        "rows": 3, "rate": 0.5, "tiny": False, "output": None, "size": ("small", "tiny"),
        "worlds": ["a", "b"], "seeds": [1],
    }  # fmt: skip
    words = "x.py --tiny --rows 4 --size tiny --worlds b --seeds 2,3 4"
    monkeypatch.setattr(sys, "argv", words.split())
    assert vars(_measure.flags("", **options)) == {
        "rows": 4, "rate": 0.5, "tiny": True, "output": None, "size": "tiny", "worlds": ["b"], "seeds": [2, 3, 4],
    }  # fmt: skip
    monkeypatch.setattr(sys, "argv", ["x.py", "--worlds", "a,c"])
    with pytest.raises(SystemExit):
        _measure.flags("", **options)
    assert "--worlds knows a, b; not c" in capsys.readouterr().err


def test_a_world_whose_engine_is_missing_is_a_row_that_says_so_unless_it_was_asked_for(monkeypatch, capsys):
    played = {"nothing": world_table.PLAYED["nothing"], "detective": world_table.PLAYED["detective"]}
    monkeypatch.setattr(world_table, "PLAYED", played)
    words = "worlds.py --parallel 1 --seconds 0.01 --detective no.z5"
    monkeypatch.setattr(sys, "argv", words.split())
    rows = asyncio.run(world_table.table(world_table.parse()))
    assert [row.world for row in rows] == ["nothing"]
    assert "| detective | | not measured: " in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["worlds.py", "--worlds", "detective", "--detective", "no.z5"])
    with pytest.raises(UsageError):
        asyncio.run(world_table.table(world_table.parse()))


# ---- the study of many seeds

RUN = {"warm start": "embedded (a1)", "day": "2026-11-23"}
MADE = (RUN,)
ONE = {"warm_start": {"success": 0.125}, "sweet": {"success": 0.75}, "dpo": {"success": 0.75}}
FEW = {"warm_start": {"success": 0.25}, "sweet": {"success": 0.75}, "dpo": {"success": 0.25}}
MANY = {
    "warm_start": {"success": 0.25}, "sweet": {"success": 0.5}, "dpo": {"success": 0.125},
    "sweet_wrong": {"success": 0.25}, "best_of_4_by_critic": {"success": 0.5},
    "best_of_2_by_critic": {"success": 0.375},
}  # fmt: skip
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
    seeds = {trades: sorted(seeds) for trades, seeds in grown.seeds.items()}
    assert seeds == {1: [5, 6], 10: [5], 40: [5, 6, 7]}
    assert sorted(FULL.seeds) == [1, 40]
    rft = {"rft": {"success": 0.375}}
    assert FULL.with_seed(40, 5, Seed(rft, MADE)).seeds[40][5].numbers == FEW | rft
    with pytest.raises(DataError, match=r"seed 5.*began with embedded \(a1\)"):
        FULL.with_seed(40, 5, Seed(rft, ({**RUN, "warm start": "1 (b2)"},)))


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


def test_the_page_marks_what_another_run_made_and_the_table_leaves_it_out(tmp_path, monkeypatch):
    monkeypatch.setattr("sweet_rl.studies.report.charts._svg", lambda *_: Markup())
    write_packaged(tmp_path / "packaged.json", FULL)
    (_, _, own, _) = FULL.comparisons()
    run = Results("sweet", "A run", comparisons=(own,))
    results = beside(run, tmp_path / "packaged.json")
    first, *titles = (part.title for part in results.comparisons)
    assert first == "The more kinds of shop, the more it helps that the critic reads the solution"
    assert titles == ["40 trades, a critic chooses at test time", "40 trades", "1 trade", "40 trades"]
    assert table(results).splitlines()[0].startswith("40 trades ")
    page = results_page(results)
    assert page.count("not from this run.") == 1
    assert re.search(
        r'<th scope="row">test tasks</th><td [^>]+>[^<]*</td><td data-label="full study">8</td>', page
    )


def test_the_study_that_comes_with_the_package_is_that_of_its_numbers():
    _, comparisons = read_study(Path(studies.__file__).parent / "sweet/full_study.json")
    assert comparisons == tuple(read_full_study(COMMITTED).comparisons())


# ---- shuffled outcomes


def test_shuffled_outcomes_are_the_same_ones_of_other_episodes():
    def turn(reward, *, done=False, cut=False):
        return Transition("asked", f"said {reward}", reward, "", done, cut, reward, reward)

    rows = [turn(-1), turn(0, done=True), turn(-1), turn(1, done=True), turn(-1), turn(2, cut=True), turn(-1)]
    dealt = [archer_critics.dealt_anew(rows, Random(seed)) for seed in range(40)]
    assert [row.reward for row in rows] == [-1, 0, -1, 1, -1, 2, -1]
    ends = {tuple(rows[place].reward for place in (1, 3, 5)) for rows in dealt}
    assert ends == set(itertools.permutations((0, 1, 2)))
    for one in dealt:
        assert [replace(row, reward=0) for row in one] == [replace(row, reward=0) for row in rows]
        assert {row.reward for row in one if not row.done} == {-1}
