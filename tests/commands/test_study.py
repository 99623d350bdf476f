"""The mini study: its commands, its marks, and what it reads out of the stages' files."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sweet_rl.cli import _check_flags, load
from sweet_rl.commands import study as runner
from sweet_rl.commands.recipes import SWEETS, Call, Chain, Study, data
from sweet_rl.commands.study_results import METHODS, area_under_curve, results, table
from sweet_rl.errors import ServiceError
from sweet_rl.records import replace_rows
from sweet_rl.tasks.mini import extras
from sweet_rl.tasks.mini.judge import Verdict

SOLUTION = extras.source({"delivery": 3, "tuning": 7})
TOLD = {
    e: f'If "{e}" is in the extras, the price goes up by {v}.' for e, v in (("delivery", 3), ("tuning", 7))
}
ANSWER = f"I WANT TO ANSWER:\n{SOLUTION}"
ASK = {extra: extras.question(extra) for extra in extras.EXTRAS}


@pytest.fixture
def study(tmp_path):
    return Study(tmp_path, agent="embedded", human="http://127.0.0.1:1/v1", train_tasks=4, test_tasks=2)


def test_every_command_of_the_study_is_one_that_a_person_can_type(study):
    calls = [call for chains in runner.rounds(study) for chain in chains for call in chain.calls]
    assert {"simulate_interactions", "train_sft", "train_dpo", "rank_best_of_n"} <= {
        call.stage for call in calls
    }
    for call in calls:
        words = [*call.positional, *(f"--{name}={value}" for name, value in call.flags.items())]
        _check_flags(load(call.stage), words)
    assert len({call.output for call in calls}) == len(calls)


def test_every_way_of_sweet_rl_is_measured():
    assert {way.name for way in SWEETS} <= set(METHODS)


def test_a_stage_that_is_done_is_not_run_again_and_a_failed_one_is_named(tmp_path, monkeypatch, capsys):
    ran = []

    def stage(call, log):
        ran.append(call.stage)
        if call.stage == "fails":
            raise ValueError("no such thing")
        call.output.write_text("made")

    monkeypatch.setattr(runner, "_run_call", stage)
    good, bad = Call("works", tmp_path / "a.txt"), Call("fails", tmp_path / "b.txt", ("x",), {"flag": 1})
    runner._run_chain(Chain("first", (good,)), tmp_path)
    with pytest.raises(ServiceError, match=r"stage fails failed: no such thing\n.*sweet-rl fails x --flag 1"):
        runner._run_chain(Chain("second", (good, bad)), tmp_path)
    assert ran == ["works", "fails"]
    (tmp_path / "a.txt").unlink()  # a mark without what it stands for is no proof
    runner._run_chain(Chain("first", (good,)), tmp_path)
    assert ran == ["works", "fails", "works"]
    assert "[first] $ sweet-rl works" in capsys.readouterr().out


def test_area_under_the_curve_by_hand():
    assert area_under_curve([1.0, 3.0], [2.0]) == 0.5
    assert area_under_curve([2.0], [2.0, 1.0]) == 0.75


def turn(text):
    return {"role": "assistant", "content": text, "input": "p", "output": text}


def trajectory(index, *texts, reward):
    row = {
        "problem_description": f"Two of our extras, {index}.",
        "ground_truth": SOLUTION,
        "test_cases": {"t": "total(1, [])"},
    }
    history = [{"role": "user", "content": row["problem_description"]}]
    for place, text in enumerate(texts):
        history.append(turn(text) if place % 2 == 0 else {"role": "user", "content": text})
    key = {"task_id": f"t{index}", "sample_index": 0}
    return {"task": row, "dialogue_history": history, "answer": texts[-1], "reward": reward} | key


def ranked(row, place, candidates, scores):
    history = row["dialogue_history"]
    return {
        "input": "p", "input_with_ground_truth": "s p", "older_output": history[place]["output"], "reward": row["reward"],
        "ground_truth": SOLUTION, "messages": history[: place + 1], "additional_outputs": candidates,
        "additional_reference_logprobs": [-1.0] * len(candidates), "additional_reference_logprobs_sum": [-1.0] * len(candidates),
        "judge_result": scores, "task_id": row["task_id"], "sample_index": 0, "turn_index": place // 2,
    }  # fmt: skip


def test_results_say_what_the_files_hold(study):
    lost = trajectory(
        0,
        ASK["storage"],
        "I don't know.",
        ASK["delivery"],
        TOLD["delivery"],
        "I WANT TO ANSWER:\npass",
        reward=0.3,
    )
    won = trajectory(1, ASK["delivery"], TOLD["delivery"], ASK["tuning"], TOLD["tuning"], ANSWER, reward=1.0)
    interval = {"mean": 0.5, "low": 0.1, "high": 0.9}
    for name in METHODS:
        replace_rows(study.path(f"{name}.test.jsonl"), [lost, won])
        columns = {"fixed": {"success": interval, "tests_passed": interval}}
        study.path(f"{name}.test.report.json").write_text(json.dumps({"columns": columns}))
        replace_rows(study.path(f"{name}.pairs.jsonl"), [{"chosen": "a", "rejected": "b"}] * 3)
    replace_rows(study.dialogues, [lost, won])
    replace_rows(study.path("pairs.jsonl"), [{"chosen": "a", "rejected": "b"}])
    # The first turn: a useful question above one useless one and below another. The last: the answer on top.
    first = ranked(won, 1, [ASK["tuning"], ASK["storage"], ASK["framing"]], [0.2, 0.1, 0.5])
    early = ranked(won, 3, ["I WANT TO ANSWER:\npass", ASK["storage"]], [0.3, 0.1])
    last = ranked(won, 5, [ANSWER, ASK["storage"]], [0.9, 0.1])
    for way in SWEETS:
        replace_rows(study.path(f"{way.name}.ranked.jsonl"), [first, early, last])
    for name in ("warm_start", "sweet"):
        rows = [
            ranked(row, place, [row["dialogue_history"][place]["content"]], [0.1])
            for row in (lost, won)
            for place in (1, 3, 5)
        ]
        replace_rows(study.path(f"{name}.seen.jsonl"), rows)
    study.path("sweet").mkdir()
    replace_rows(
        study.path("sweet") / "metrics.jsonl",
        [{"step": 1, "loss": 0.7, "acc": 0.5, "chosen_reward": 0.2, "reject_reward": -0.1}],
    )

    found = results(study)
    method = found["methods"][0]
    assert method["verdicts"][Verdict.USEFUL] == 1.5
    assert method["verdicts"][Verdict.USELESS] == 0.5
    assert method["verdicts"][Verdict.EARLY] == 0.5
    assert method["verdicts"][Verdict.RIGHT] == 0.5
    assert method["by_turns"] == [{"turns": 3, "episodes": 2, "successes": 1}]
    assert method["usual_share"] == 0.5
    assert [m["examples"] for m in found["methods"]][:4] == [None, 1, 1, 3]
    critic = found["critics"][0]
    assert (critic["auc_questions"], critic["turns_questions"]) == (0.5, 1)
    assert (critic["auc_answering"], critic["turns_answering"]) == (0.5, 2)
    curve = next(curve for curve in found["curves"] if curve["name"] == "sweet")
    assert curve["points"] == [{"update": 1, "loss": 0.7, "accuracy": 0.5, "margin": pytest.approx(0.3)}]
    assert {dialogue["method"] for dialogue in found["dialogues"]} == {"warm_start", "sweet"}
    assert "SWEET-RL" in table(found)
    from sweet_rl.viewer.study import study_page

    assert "SWEET-RL" in study_page(found)


def test_another_port_of_the_human_runs_nothing_again_and_another_seed_does(study, tmp_path, monkeypatch):
    ran = []

    def stage(call, log):
        ran.append(call.stage)
        call.output.write_text("made")

    monkeypatch.setattr(runner, "_run_call", stage)
    offline = data(study)
    runner._run_chain(offline, tmp_path)
    assert "http://127.0.0.1:1/v1" in offline.calls[2].command  # what is printed is what can be typed
    everything = list(ran)
    assert everything == ["generate_tasks", "generate_tasks", "simulate_interactions", "evaluate_code"]
    runner._run_chain(data(replace(study, human="http://127.0.0.1:2/v1")), tmp_path)
    assert ran == everything
    runner._run_chain(data(replace(study, seed=1)), tmp_path)
    assert "simulate_interactions" in ran[len(everything) :]


def test_marks_name_the_command_so_that_other_settings_run_again(tmp_path):
    call = Call("works", tmp_path / "a.txt", flags={"seed": 1})
    call.output.write_text("made")
    mark = Path(tmp_path / "done.json")
    mark.write_text(json.dumps({"command": "sweet-rl works --seed 0", "seconds": 1}))
    assert not runner._is_done(mark, call)
