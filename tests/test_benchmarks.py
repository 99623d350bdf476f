"""The study of many seeds: which studies it makes, what it refuses, and how its settings were chosen; and the worlds."""

import argparse
import asyncio
import json
import sys

import pytest

from sweet_rl.errors import DataError, UsageError
from sweet_rl.studies.archer.recipe import METHODS, OnlineStudy
from sweet_rl.studies.sweet.full_study import FullStudy, Seed, write_full_study
from tests.conftest import ROOT


@pytest.fixture
def mini(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    import mini

    return mini


@pytest.fixture
def mini_settings(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    import mini_settings

    return mini_settings


@pytest.fixture
def archer_settings(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    import archer_settings

    return archer_settings


def asked(tmp_path, **changes):
    sizes = {"train_tasks": 4, "test_tasks": 2, "dev": False, "markdown": False, "folder": str(tmp_path)}
    what = {"agents": ["embedded"], "seeds": [5], "trades": [1], "ways": "sweet", "best_of": []}
    return argparse.Namespace(**sizes, **(what | changes), output=str(tmp_path / "out.json"))


def test_seeds_take_turns_with_the_warm_starts(mini, tmp_path):
    studies = list(mini._studies(asked(tmp_path, agents=["embedded", "b"], seeds=[5, 6, 7], trades=[1, 40])))
    assert [(study.seed, study.trades, study.agent) for study in studies] == [
        (5, 1, "embedded"),
        (5, 40, "embedded"),
        (6, 1, "b"),
        (6, 40, "b"),
        (7, 1, "embedded"),
        (7, 40, "embedded"),
    ]
    assert len({study.folder for study in studies}) == 6


def test_what_is_there_is_not_run_again_and_another_warm_start_is_refused(
    mini, tmp_path, monkeypatch, capsys
):
    arguments = asked(tmp_path)
    (study,) = mini._studies(arguments)
    ran = []
    monkeypatch.setattr(mini, "_arguments", lambda: arguments)
    monkeypatch.setattr(mini, "_run", ran.append)
    monkeypatch.setattr(mini, "results", lambda study, seconds: None)
    monkeypatch.setattr(
        mini, "numbers_of", lambda found, study: {name: {"success": 0.5} for name in mini.measured_in(study)}
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


def test_a_study_of_other_sizes_is_refused(mini, tmp_path):
    write_full_study(tmp_path / "out.json", FullStudy({"test tasks": 2}, {}))
    with pytest.raises(UsageError, match=r"of another study: test tasks 2 and not 3"):
        mini.known(tmp_path / "out.json", {"test tasks": 3})


def test_the_tables_of_the_docs_by_hand(mini):
    made = ({"warm start": "a"},)
    few = {"warm_start": {"success": 0.125}, "sweet": {"success": 0.5, "auc_questions": 0.75}}
    many = {"warm_start": {"success": 0.375}, "sweet": {"success": 0.5}, "random": {"success": 0.0}}
    full = FullStudy({}, {1: {5: Seed(few, made)}, 40: {5: Seed(few, made), 6: Seed(many, made)}})
    # 0.125 and 0.375: mean 0.25, standard error 0.125, Student's t for one degree of freedom 12.706
    assert mini.markdown(full).splitlines() == [
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
        f"| K = 1 | {' | '.join(mini.HABITS.values())} |",
        "|---|---|---|---|---|---|---|---|",
        "| SWEET-RL |  |  |  | 0.75 |  |  |  |",
        "",
        f"| K = 40 | {' | '.join(mini.HABITS.values())} |",
        "|---|---|---|---|---|---|---|---|",
        "| SWEET-RL |  |  |  | 0.75 |  |  |  |",
    ]


def test_the_best_settings_of_one_world_go_on_and_those_that_were_best_elsewhere(mini_settings, monkeypatch):
    def row(beta, **worlds):
        return {
            "settings": {"beta": beta},
            "worlds": {world: {"updates": 8, "success": {"mean": mean}} for world, mean in worlds.items()},
        }

    monkeypatch.setattr(mini_settings, "OF_TEN", {"dpo": [{"beta": 4}]})
    rows = [row(1, first=0.25), row(2, first=0.5), row(3, first=0.75), row(4, first=0.125)]
    assert [one["settings"]["beta"] for one in mini_settings._kept("dpo", rows, 2)] == [3, 2, 4]
    assert [one["settings"]["beta"] for one in mini_settings._kept("rft", rows, 2)] == [3, 2]
    # 0.75 + 0.25 against 0.5 + 0.625; what was not measured in the second world comes after both.
    rows = [row(1, first=1.0), row(2, first=0.75, second=0.25), row(3, first=0.5, second=0.625)]
    assert [one["settings"]["beta"] for one in mini_settings._best(rows)] == [3, 2, 1]


def test_archer_and_its_rivals_get_grids_of_one_size_and_the_winners_are_the_settings(archer_settings):
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


def test_no_setting_is_chosen_by_what_is_not_measured(archer_settings, tmp_path):
    """Runs and sampled games of every setting, and what they need."""
    study = OnlineStudy(tmp_path, 1, 100, methods={"a": METHODS["archer"]})
    names = [[[step.name for step in chain] for chain in each] for each in archer_settings._rounds(study)]
    assert names == [[["hasty-100.jsonl", "start-100"]], [["a-100", "a-100.sampled.jsonl"]]]


# ---- worlds


@pytest.fixture
def worlds(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    import worlds

    def lacking(_):
        raise UsageError("no game file")

    monkeypatch.setattr(worlds, "WORLDS", {"nothing": worlds.nothing, "detective": lacking})
    return worlds


def test_a_world_whose_engine_is_missing_is_a_row_that_says_so(worlds, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["worlds.py", "--parallel", "1", "--seconds", "0.01"])
    rows = asyncio.run(worlds.table(worlds.parse()))
    assert [row.world for row in rows] == ["nothing"]
    assert "| detective | | not measured: no game file | | | | |\n" in capsys.readouterr().out


def test_a_world_that_was_asked_for_must_be_there(worlds, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["worlds.py", "--worlds", "detective"])
    with pytest.raises(UsageError, match="no game file"):
        asyncio.run(worlds.table(worlds.parse()))
