"""The published flags and their defaults, the curriculum's schedule, and logs of runs as one series."""

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest
import yaml

from sweet_rl.cli import help_text, load
from sweet_rl.cli.parse import read
from sweet_rl.commands.reflect_train import own_flags, reflect_stage, settings_from
from sweet_rl.errors import DataError, UsageError
from sweet_rl.flags import Settings, flag, flags_of
from sweet_rl.online.reflect.play import Schedule, starts_of
from sweet_rl.online.reflect.settings import (
    ReflectFlags,
    ReflectSettings,
    as_flags,
    continued,
    logs_of,
    moving_average,
    read_logs,
    save_settings,
    without_effect,
)
from sweet_rl.worlds.auto_explore import LEARNED_TASKS
from tests.online.reflect.tiny import golden

ENVS = ("taxi", "alfworld", "auto_explore")
OURS = {
    *("seed", "compat", "device", "max_tokens_per_batch", "reflect_max_new_tokens", "target_modules"),
    *("reflect_temperature", "pointing_head", "kept_tokens"),
}
"""Flags that the published code does not have."""


@dataclass(frozen=True, kw_only=True)
class More(Settings):
    """More."""

    report: str | None = flag(None, "a file.", positional=True)
    resume: str | None = flag(None, "a folder.")


@reflect_stage(mode="test")
def stage(published: ReflectFlags, more: More, own: Any, /) -> None:
    """A stage."""
    stage.got = (more.report, settings_from(published, own))


def rewrite(*words):
    return stage.rewrite_arguments(list(words))


def test_names_and_defaults_are_the_published_ones(shared):
    """Of the flags 64 are any world's, 11 those of one; the file of tasks is AutoExplore's."""
    recorded = {flag["name"]: flag for flag in golden(shared, "data_and_cli")["cli_flags"]}
    settings = {env: as_flags(ReflectSettings(env=env)) for env in ENVS}
    known = settings["taxi"] | settings["alfworld"] | settings["auto_explore"]
    known["horizon"] = known.pop("max_turns")  # both are taken
    assert (len(recorded), set(known) - set(recorded)) == (75, OURS)
    assert ReflectSettings().env == "auto_explore"
    for name, one in recorded.items():
        if name == "task_file":
            assert (known[name], LEARNED_TASKS) == (None, one["default"])
            continue
        assert known[name] == one["default"], name
        kind = "float" if name == "weight_decay" else kinds()[name]
        assert kind in one["type"] or name == "weight_decay", name


def kinds():
    flags = [*stage.flags, *(one for env in ENVS for one in flags_of(own_flags(env)))]
    return {name: one.annotation.partition(" ")[0] for one in flags for name in one.names}


IDLE = {"num_train_epochs", "map_size", "random_map", "is_slippery", "sandbox_dir", "discretize_actions"}
"""Published flags that do nothing."""


def test_every_flag_that_does_something_has_its_line_of_help():
    for env, own in (
        ("auto_explore", "repo_dir"),
        ("taxi", "taxi_curriculum"),
        ("alfworld", "disable_alfworld"),
    ):
        text = help_text("stage", stage, arguments=["--env", env])
        for name in ("report", *as_flags(ReflectSettings(env=env))):
            assert (f"--{name}" in text) is (name not in IDLE), name
        assert f"--{own}" in text
    assert "--options" not in text
    assert "--flags" not in text


@pytest.mark.parametrize(
    ("words", "rewritten"),
    [
        *(("--shrink_head", "--shrink_head=True"), ("--no_shrink_head", "--shrink_head=False")),
        *(("--shrink_head=False", "--shrink_head=False"), ("--shrink_head no", "--shrink_head=False")),
        *(("--no_use_8bit", "--use_8bit=False"), ("--no_shrink", "--shrink_head=False")),
        *(("--reflect", "--reflect=True"), ("--reflect=yes", "--reflect=True")),
        *(("--temperature 0.5", "--temperature=0.5"), ("--weight_decay 0.01", "--weight_decay=0.01")),
        *(("--max-steps 5", "--max_steps=5"), ("--hor 5", "--horizon=5")),
        *(("--reflect_load x", "--reflect_load_dir=x"), ("--reflectload_dir=x", "--reflectload_dir=x")),
        *(("--curriculum_index -1", "--curriculum_index=-1"), ("a.json --reflect b", "a.json --reflect=True b")),
    ],
)  # fmt: skip
def test_a_command_line_is_read_as_published(words, rewritten):
    assert rewrite(*words.split()) == rewritten.split()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        *(("--re x", "is not unique"), ("--load_dir", "needs a value"), ("--load_dir --reflect", "needs a value")),
        *(("--reflect=maybe", "true or false"), ("--reflect_laod_dir=x", "did you mean --reflect_load_dir")),
        ("--strict --weight_decay 0.01", "whole number in the published"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(words, message):
    with pytest.raises(UsageError, match=message):
        read(stage, rewrite(*words.split()))


def test_what_was_typed_counts_when_a_run_goes_on_whatever_the_default(tmp_path):
    (tmp_path / "setting.yml").write_text("env: taxi\nhorizon: 7\nmax_steps: 5\nlearning_rate: 0.5\n")
    usual = ReflectSettings(env="taxi")
    assert (continued(tmp_path, usual, ()).max_turns, continued(tmp_path, usual, ()).max_steps) == (7, 5)
    assert continued(tmp_path, usual, {"max_steps", "quiet"}).max_steps == usual.max_steps
    with pytest.raises(UsageError, match=f"--learning_rate was 0.5, is {usual.learning_rate}"):
        continued(tmp_path, usual, {"learning_rate"})


def test_what_began_a_run_may_be_typed_again(tmp_path):
    run = tmp_path / "000_rl_finetune"
    run.mkdir()
    (run / "setting.yml").write_text(f"env: taxi\nmodel_name: {run}/tiny\nreflect_model_name: gpt2\n")
    usual = ReflectSettings(env="taxi", model_name="tiny", reflect_model_name="gpt2")
    assert continued(run, usual, {"model_name", "reflect_model_name"}).model_name == f"{run}/tiny"
    with pytest.raises(UsageError, match=r"--model_name was '.*tiny', is 'other'"):
        continued(run, replace(usual, model_name="other"), {"model_name"})
    saved = f"env: taxi\nload_dir: somewhere\ntask_file: {run}/tasks.jsonl\n"
    (run / "setting.yml").write_text(saved)
    for name, value in (("load_dir", None), ("task_file", "tasks.jsonl")):  # no models of this run
        with pytest.raises(UsageError, match=f"--{name} was '.*', is "):
            continued(run, replace(usual, **{name: value}), {name})


def test_flags_that_do_nothing_as_published_are_named():
    published = {"env": "alfworld", "compat": "published", "mode": "train_RLFT"}
    told = without_effect(ReflectSettings(**published, task_file="mine.json", reflect_load_dir="r"))
    assert [note.partition(" has")[0] for note in told] == ["--reflect_load_dir", "--task_file mine.json"]
    assert not without_effect(ReflectSettings(**published, reflect_load_dir="r", reflect=True))


def test_values_reach_the_stage():
    stage(report="r", max_steps=3)
    assert stage.got == ("r", ReflectSettings(mode="test", max_steps=3))
    stage(env="taxi", taxi_curriculum=True)
    assert as_flags(stage.got[1])["taxi_curriculum"] is True
    assert stage.got[1].rules.max_turns == 15
    for name, wrong in {
        "trainer": "sac",
        "top_p": 1.5,
        "max_steps": 0,
        "There is no world 'mars'": "mars",
    }.items():
        with pytest.raises(UsageError, match=name):
            ReflectSettings(**{"env" if wrong == "mars" else name: wrong})


def test_starts_of_levels(shared):
    data = golden(shared, "data_and_cli")
    for case in data["curriculum"]["schedules"]:
        sizes = [len(level) for level in case["levels"]]
        steps = case["args"]["max_steps"]
        assert starts_of(sizes, steps, compat="published") == case["trigger_set"]
        if steps >= sum(sizes):
            assert starts_of(sizes, steps) == case["trigger_set"]
        else:
            assert starts_of(sizes, steps) == [0, 2, 3, 3]
    for case in data["taxi_configer"]:
        assert starts_of(case["dataset"], case["args"]["max_steps"], equal=True) == case["trigger_set"]


def test_a_pass_takes_every_item_once_and_the_next_is_shuffled():
    together = (Schedule([4, 2], [0, 0], batch=2, seed=0, compat=compat) for compat in ("fixed", "published"))
    assert [schedule.draw(7)[1] for schedule in together] == [
        1,
        0,
    ]  # published levels that begin together are one
    longer = Schedule([5, 3], [0, 60], batch=2, seed=1)
    longer.place = {"level": 1, "passed": 0, "position": 0}
    assert longer.draw(8)[:2] == (False, 1), "a run that became longer went back to an easier level"
    schedule = Schedule([5, 3], [0, 6], batch=2, seed=1)
    drawn = [schedule.draw(iteration) for iteration in range(9)]
    assert [begins for begins, _, _ in drawn] == [True, *[False] * 5, True, False, False]
    first, second = ([item for _, _, items in drawn[a : a + 3] for item in items] for a in (0, 3))
    assert sorted(first) == sorted(second) == list(range(5))
    assert first != second
    assert [len(items) for _, _, items in drawn] == [2, 2, 1, 2, 2, 1, 2, 1, 2]
    assert {level for _, level, _ in drawn[6:]} == {1}
    other = Schedule([5, 3], [0, 6], batch=2, seed=1)
    other.place = schedule.place
    assert [other.draw(i) for i in (9, 10)] == [schedule.draw(i) for i in (9, 10)]


def test_options_of_other_worlds_are_left_out_where_published_lines_have_them(tmp_path):
    line = ["--env", "taxi", "--repo_dir", "x", "--with_prompt"]
    assert rewrite(*line, "--strict") == ["--env=taxi", "--with_prompt=True", "--compat=published"]
    assert rewrite(*line, "--compat", "published") == rewrite(*line, "--strict")
    assert rewrite(*line) == ["--env=taxi", "--repo_dir=x", "--with_prompt=True"]  # and is refused later


def test_a_run_that_goes_on_is_of_its_folders_world(tmp_path):
    save_settings(tmp_path, ReflectSettings(env="taxi"))
    words = [f"--resume={tmp_path}", "--taxi_curriculum"]
    assert rewrite(*words) == [words[0], "--taxi_curriculum=True", "--env=taxi"]
    assert rewrite(f"--resume={tmp_path / 'absent'}") == [f"--resume={tmp_path / 'absent'}"]


def run(folder, iterations, **settings):
    folder.mkdir(parents=True)
    (folder / "setting.yml").write_text(yaml.safe_dump(settings))
    for start in range(0, iterations, 2):
        checkpoint = folder / f"checkpoint-{start + 2}"
        checkpoint.mkdir()
        told = {"loss": [1.0, None], "critic_loss": [None, None], "succ": 0.5, "log": ["long"]}
        entries = [{"iter": i, "cost": float(i), **told} for i in range(start, min(start + 2, iterations))]
        (checkpoint / "logs.json").write_text(json.dumps(entries))
    return folder


@pytest.fixture
def runs(tmp_path):
    first = {"gradient_accumulation_steps": 1, "load_dir": "000_supervised_pretrain/checkpoint-9"}
    run(tmp_path / "001_rl_finetune", 6, **first)
    before = "results/001_rl_finetune/checkpoint-4"
    return run(tmp_path / "002_rl_finetune", 4, gradient_accumulation_steps=2, load_dir=before)


def test_runs_follow_each_other_and_published_ones_overlap(runs, shared):
    recorded = golden(shared, "rl_loop_and_plots")["ensemble"]
    found, published = logs_of(runs), logs_of(runs, compat="published")
    assert [entry["iter"] for entry in found] == [0, 1, 2, 3, 4, 4.5, 5, 5.5]
    assert [entry["cost"] for entry in found] == [0, 1, 2, 3, 0, 1, 2, 3]
    assert "log" not in found[0]
    assert [entry["iter"] for entry in published] == recorded["iters"]
    assert [entry["cost"] for entry in published] == recorded["cost"]


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
        logs_of(tmp_path / "x")
    empty = run(tmp_path / "003_rl_finetune", 0)
    with pytest.raises(UsageError, match="holds no logs"):
        logs_of(empty)
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
    load("reflect ensemble_logs")(str(runs), output_dir=str(tmp_path))
    assert len(json.loads((tmp_path / "002_rl_finetune.json").read_text())) == 8
    pytest.importorskip("matplotlib")
    load("reflect plot")(str(runs), output=str(tmp_path / "picture"), window=3)
    assert (tmp_path / "picture.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
