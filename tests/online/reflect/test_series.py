"""Logs of runs that went on from each other, and moving averages."""

import json

import pytest
import yaml

from sweet_rl.commands.reflect.plot import labels
from sweet_rl.errors import DataError, UsageError
from sweet_rl.online.reflect.runs import ensemble_logs, moving_average, read_logs
from tests.online.reflect.tiny import golden


def run(folder, iterations, **settings):
    folder.mkdir(parents=True)
    (folder / "setting.yml").write_text(yaml.safe_dump(settings))
    for start in range(0, iterations, 2):
        checkpoint = folder / f"checkpoint-{start + 2}"
        checkpoint.mkdir()
        entries = [
            {
                "iter": i,
                "loss": [1.0, None],
                "critic_loss": [None, None],
                "cost": float(i),
                "succ": 0.5,
                "log": ["long"],
            }
            for i in range(start, min(start + 2, iterations))
        ]
        (checkpoint / "logs.json").write_text(json.dumps(entries))
    return folder


@pytest.fixture
def runs(tmp_path):
    run(
        tmp_path / "001_rl_finetune",
        6,
        gradient_accumulation_steps=1,
        load_dir="000_supervised_pretrain/checkpoint-9",
    )
    before = "results/001_rl_finetune/checkpoint-4"
    return run(tmp_path / "002_rl_finetune", 4, gradient_accumulation_steps=2, load_dir=before)


def test_runs_follow_each_other(runs):
    found = ensemble_logs(runs)
    assert [entry["iter"] for entry in found] == [0, 1, 2, 3, 4, 4.5, 5, 5.5]
    assert [entry["cost"] for entry in found] == [0, 1, 2, 3, 0, 1, 2, 3]
    assert "log" not in found[0]


def test_published_runs_overlap(runs, shared):
    recorded = golden(shared, "rl_loop_and_plots")["ensemble"]
    found = ensemble_logs(runs, compat="published")
    assert [entry["iter"] for entry in found] == recorded["iters"]
    assert [entry["cost"] for entry in found] == recorded["cost"]


def test_published_averages(shared):
    recorded = golden(shared, "rl_loop_and_plots")["moving_average"]
    numbers = list(range(8))
    assert list(moving_average(numbers, numbers, window=5, compat="published")) == recorded["scalar_window5"]
    pairs = [[i, None] for i in range(6)]
    found = moving_average(list(range(6)), pairs, window=5, compat="published")
    assert list(found) == recorded["pairs_with_none_window5"]


def test_averages_are_centred_and_leave_out_what_there_is_not():
    iters, means = moving_average([0, 1, 2, 3], [0, 3, None, 9], window=3)
    assert (iters, means) == ([0, 1, 2, 3], [1.5, 1.5, 6, 9])
    assert moving_average([100, 101], [1, 3], window=99)[1] == [2, 2]
    assert moving_average([0, 90], [None, 1], window=3)[1] == [None, 1]
    assert moving_average([0, 1], [[2, None], [4, 6]], window=3) == ([0, 0, 1, 1], [4, 4, 4, 4])


def test_what_is_no_run_is_refused(tmp_path, runs):
    with pytest.raises(UsageError, match="no run's folder"):
        ensemble_logs(tmp_path / "x")
    empty = run(tmp_path / "003_rl_finetune", 0)
    with pytest.raises(UsageError, match="holds no logs"):
        ensemble_logs(empty)
    for broken in (
        "{",
        "[3]",
        '[{"iter": 0, "cost": 1, "loss": []}]',
        '[{"iter": "0", "succ": 0, "cost": 1, "loss": []}]',
    ):
        (runs / "checkpoint-2" / "logs.json").write_text(broken)
        with pytest.raises(DataError, match=r"checkpoint-2/logs.json: is no list of iterations"):
            read_logs(runs)


def test_runs_are_merged_and_drawn(tmp_path, runs, capsys):
    from sweet_rl.cli import load

    load("reflect ensemble_logs")(str(runs), output_dir=str(tmp_path))
    assert len(json.loads((tmp_path / "002_rl_finetune.json").read_text())) == 8
    pytest.importorskip("matplotlib")
    load("reflect plot")(str(runs), output=str(tmp_path / "picture"), window=3)
    assert (tmp_path / "picture.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_runs_of_one_name_are_told_apart(tmp_path):
    names = [str(run(tmp_path / place / "002_rl_finetune", 2)) for place in "ab"]
    assert labels([*names, str(tmp_path / "c/003_x")]) == [*names, "003_x"]
