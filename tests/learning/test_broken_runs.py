"""Each gate, broken on purpose by a real run at the smallest size; and a folder that was begun otherwise."""

import json
import re
import shutil
from pathlib import Path
from statistics import fmean

import pytest

from sweet_rl.cli import load
from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.learning import chain, gates
from sweet_rl.records import read_rows
from sweet_rl.worlds import Scores
from tests.conftest import ROOT
from tests.learning import letters
from tests.tiny_models import save_tiny_gpt2, save_tiny_llama

pytestmark = pytest.mark.usefixtures("small_runs")
WORLDS = "tests.learning.letters"
SMALL = {"max_tokens": 4, "minutes": 0.001}


SLOWLY = pytest.mark.slow


@pytest.mark.parametrize(
    ("world", "steps", "line", "repair"),
    [
        ("WORLD", 1, r"STOP the policy takes turns: 3.0 turns, .*, (9\d|100)% cut off or empty, .*; the longest of the demonstrations has 2 tokens with its end", "train for longer"),
        pytest.param("NEVER_AGAIN", 30, r"STOP it does not repeat itself: \d\d% of its turns, of the demonstrations' 0%", "Give more demonstrations", marks=SLOWLY),
        pytest.param("CHANCE", 30, r"STOP it is better than chance: return 1.\d+ .*, of turns by chance 1.\d+", "Give more demonstrations", marks=SLOWLY),
        pytest.param("ALIKE", 30, r"STOP it is better than chance: return 3.000, of turns by chance 3.000, difference \+0.000",
                     "Every episode has the return 3: the rewards of letters must depend on what is said", marks=SLOWLY),
    ],
)  # fmt: skip
def test_a_policy_that_is_no_beginning(world, steps, line, repair, capsys, monkeypatch):
    monkeypatch.setattr(gates, "OFTEN", 0.05)  # what is learned in thirty steps is better than 0.25
    with pytest.raises(UsageError, match=f"Stopped. This check failed: .*{repair}"):
        load("make_policy")(f"{WORLDS}:{world}", "start", max_tokens=4, steps=steps, episodes=60)
    assert re.search(line, said := capsys.readouterr().out), said


@pytest.mark.parametrize(
    ("world", "method", "rate", "line", "repair"),
    [
        ("ALIKE", "rft", 1, r"STOP there is something to learn: return 3.000, .* in 0% of the tasks episodes differ", "share of the reward"),
        ("ONE_SOLUTION", "sweet", 1, "STOP tasks have solutions of their own: 1 in 20 tasks", "choose another --method"),
        ("WORLD", "sweet", 1, r"STOP the critic reads the solution: with another task's solution \d% of the pairs", "`ground_truth` that says"),
        ("OPPOSITE", "sweet", 1, r"STOP pairs of turns are right: 16% right, 30% wrong, .* of 57 pairs by the world's oracle", "dpo and rft need no critic"),
        ("WORLD", "dpo", 1e-9, r"learning rate 3e-13.\n(?s:.*)It collapsed: \d% of its turns are repeated \(start \d%\)", "rft changes a policy least"),
        ("WORLD", "rft", 1e-9, r"STOP the policy is better: learning rate 5e-13: .* difference \+0.000", "Give it more time"),
    ],
)  # fmt: skip
def test_a_run_that_is_stopped(world, method, rate, line, repair, capsys, monkeypatch):
    monkeypatch.setattr(chain, "_RATES", ((float("inf"), rate),))
    if world == "OPPOSITE":
        monkeypatch.setattr(gates, "READS", 0)
    if (
        method == "dpo"
    ):  # what a policy that diverges says depends on the processor: one that is as it was has collapsed here
        monkeypatch.setattr(gates, "REPEATED", -1)
    with pytest.raises(UsageError, match=repair):
        load("learn")(f"{WORLDS}:{world}", "untrained", "out", method=method, **SMALL)
    assert re.search(line, said := capsys.readouterr().out), said


def test_what_a_policy_was_made_of_outlives_another_try(small_runs, tmp_path):
    def make(**changed):
        small_runs.clear()
        with pytest.raises(UsageError):
            load("make_policy")(
                f"{WORLDS}:WORLD", "start", **{"max_tokens": 4, "steps": 1, "episodes": 20} | changed
            )
        return small_runs

    assert list(make()) == ["good.jsonl", "imitate", "start.jsonl"]
    assert make() == []
    assert list(make(steps=2)) == ["imitate", "start.jsonl"]
    assert list((tmp_path / "start.made/replaced").glob("imitate-*/start/model.safetensors"))
    with pytest.raises(UsageError, match=r"'start\.made' was begun otherwise: seed was 0, is 1"):
        load("make_policy")(f"{WORLDS}:WORLD", "start", seed=1)
    shutil.rmtree(tmp_path / "start.made/replaced")
    (tmp_path / "start/run.json").write_text(
        (tmp_path / "start/run.json").read_text().replace('"status": "finished"', '"status": "running"')
    )
    assert list(make(steps=2)) == ["imitate"]  # as after a kill: the same comes of what is in start.made
    assert (tmp_path / "start.made/good.jsonl").exists()


def test_a_folder_remembers_what_it_was_begun_with(small_runs, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(chain, "_RATES", ((float("inf"), 1e-9),))
    own = tmp_path / "own.py"
    source = shutil.copy(ROOT / "tests/learning/letters.py", own).read_text()

    def learn(says="the policy is better", **changed):
        small_runs.clear()
        asked = {"world": "own:WORLD", "policy": "untrained", "output_dir": "out", "method": "rft", **SMALL}
        with pytest.raises(UsageError, match=says):
            load("learn")(**asked | changed)
        return small_runs

    steps = ["start.dev.jsonl", "good.dev.jsonl", "episodes.jsonl", "rft_1", "rft_1.dev.jsonl"]
    assert list(learn()) == steps
    assert learn() == []
    assert list(learn(minutes=5)) == ["rft_2", "rft_2.dev.jsonl", "rft_0.5", "rft_0.5.dev.jsonl"]
    for changed, says in (
        ({"method": "dpo"}, "method was 'rft', is 'dpo'"),
        ({"max_tokens": 5}, "max_tokens was 4, is 5"),
        ({"seed": 1, "world": "own:ALIKE"}, "world was 'own:WORLD', is 'own:ALIKE', seed was 0, is 1"),
        ({"policy": "./untrained"}, "policy was 'untrained', is './untrained'"),
    ):
        assert (
            learn(
                f"'out' was begun otherwise: {says}. Old and new .* another folder, or pass --overwrite",
                **changed,
            )
            == []
        )
    own.write_text(f"# a comment\n{source}")
    assert learn() == []
    own.write_text(f"{source}\nEDITED = True\n")
    assert learn(r"begun otherwise: .*own.py has changed\.") == []
    assert list(learn(overwrite=True))[:3] == steps[:3]
    assert list((tmp_path / "out/replaced").glob("episodes.jsonl-*/episodes.jsonl"))
    assert learn() == []
    shutil.copytree("out", "copy", symlinks=True)
    assert learn(output_dir="copy") == []
    save_tiny_llama(tmp_path / "untrained", seed=1)
    assert learn("begun otherwise: .*untrained has changed") == []


def test_episodes_of_two_versions_of_a_world_do_not_go_to_one_file(tmp_path):
    own = tmp_path / "own.py"
    shutil.copy(ROOT / "tests/learning/letters.py", own)
    game = {"world": "own:WORLD", "input_path": "letters:test", "output_path": "games.jsonl", "quiet": True}
    load("simulate_interactions")(**game, num_tasks=2)
    load("simulate_interactions")(**game, num_tasks=3, to_continue=True)
    own.write_text(own.read_text().replace("% 7 / 7", "% 7 / 70"))
    with pytest.raises(UsageError, match=r"'games.jsonl' was begun with another world: .*own.py has changed"):
        load("simulate_interactions")(**game, num_tasks=4, to_continue=True)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("nothing", "there is no folder 'nothing' here; sweet-rl make_policy makes one"),
        ("outputs/nothing", "there is no folder 'outputs/nothing'"),
        ("here/nothing", "there is no folder 'here/nothing'"),
        ("good", "'good' is also the name of a scripted agent, which would play instead: write ./good"),
        ("./good", "good' has no chat template: put chat_template.jinja there"),
    ],
)
def test_a_policy_that_cannot_be_trained_is_named(policy, words, tmp_path):
    (tmp_path / "here").mkdir()
    save_tiny_gpt2(tmp_path / "good")
    with pytest.raises((UsageError, ServiceError), match=words):
        load("learn")(f"{WORLDS}:WORLD", policy, "out", **SMALL)


@pytest.mark.slow
def test_fewer_minutes_keep_the_settings_that_were_tried(capsys, monkeypatch):
    monkeypatch.setattr(gates, "improved", lambda *given: gates.Gate("not what is looked at here", True, ""))
    monkeypatch.setattr(letters.Letters, "scores", Scores(success_return=1.5))
    reports = []
    for minutes, tried in ((0.001, 1), (60, 3), (0.001, 3)):
        run = {"method": "rft", "max_tokens": 4, "minutes": minutes}
        load("learn")(f"{WORLDS}:WORLD", "untrained", "out", **run)
        said = capsys.readouterr().out
        assert (said.count("\nSetting "), "is not tried" in said) == (tried, tried == 1)
        reports.append(json.loads(Path("out/report.json").read_text()))
    assert reports[1]["setting"] == reports[2]["setting"] and reports[1]["policy"] == reports[2]["policy"]
    found = {name: read_rows(f"out/{name}.test.jsonl") for name in ("start", "policy")}
    rates = {name: fmean(row["reward"] > 1.5 for _, row in rows) for name, rows in found.items()}
    success = reports[2]["success"]
    assert (success["start"], success["policy"]) == pytest.approx((rates["start"], rates["policy"]))
    assert success["low"] <= success["difference"] == pytest.approx(rates["policy"] - rates["start"])
    assert re.search(
        rf"  start   \d.*, success {rates['start']:.3f} \[.*\n  policy .*, success .*\n  diff.*, success [+-]0",
        said,
    )
