"""The mini study: what is read out of the stages' files against numbers made by hand, its own steps, its pages."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from sweet_rl.chat import model_path
from sweet_rl.errors import UsageError
from sweet_rl.mini.backend import extras
from sweet_rl.mini.backend.extras import Verdict
from sweet_rl.records import replace_rows
from sweet_rl.studies.demos import demo
from sweet_rl.studies.report.page import results_page
from sweet_rl.studies.results import Candidate, Counted, Results, Turn, read_study
from sweet_rl.studies.sweet import recipe
from sweet_rl.studies.sweet.recipe import (
    check_agent,
    score_by_oracle,
    shuffle_outcomes,
    shuffle_scores,
    take_swapped,
)
from sweet_rl.studies.sweet.results import (
    METHODS,
    _credit,
    _way_up,
    agreement,
    choosing_agents,
    page_results,
    results,
)
from sweet_rl.studies.sweet.settings import ALL_WAYS, EMBEDDED, REAL_WAYS, SWEETS
from tests.browsers.fake_renderer import FakeRenderer
from tests.tiny_models import save_tiny_chatml
from tests.viewer.samples import page_rows, write_rows

SOLUTION = extras.source({"delivery": 3, "tuning": 7})
TOLD = {
    e: f'If "{e}" is in the extras, the price goes up by {v}.' for e, v in (("delivery", 3), ("tuning", 7))
}
ANSWER = f"I WANT TO ANSWER:\n{SOLUTION}"
GUESS = "I WANT TO ANSWER:\npass"
ASK = {extra: extras.question(extra) for extra in extras.EXTRAS}

LOST = (ASK["storage"], "I don't know.", ASK["delivery"], TOLD["delivery"], GUESS)
WON = (ASK["delivery"], TOLD["delivery"], ASK["tuning"], TOLD["tuning"], ANSWER)
HASTY = (ASK["delivery"], TOLD["delivery"], GUESS)


def turn(text):
    return {"role": "assistant", "content": text, "input": "p", "output": text}


def trajectory(index, texts, reward):
    row = {
        "problem_description": f"Two of our extras, {index}.", "ground_truth": SOLUTION,
        "test_cases": {"t": "total(1, [])"}, "trades": 10,
    }  # fmt: skip
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


def seen(row):
    """Every turn of a dialogue with itself as its only candidate."""
    history = row["dialogue_history"]
    return [ranked(row, place, [history[place]["content"]], [0.1]) for place in range(1, len(history), 2)]


SUCCESS = {"mean": 0.5, "low": 0.1, "high": 0.9}
PASSED = {"mean": 0.6, "low": 0.2, "high": 0.8}


def measured(study, name, rows):
    """The files of an agent's test dialogues; the numbers of the report are not the rows'."""
    replace_rows(study.measured(name), rows)
    columns = {
        "published": {"success": None, "tests_passed": None},
        "fixed": {"success": SUCCESS, "tests_passed": PASSED},
    }
    study.path(f"{name}.test.report.json").write_text(json.dumps({"columns": columns}))


def looked_at(study, name, rows):
    replace_rows(study.path(f"{name}.seen.jsonl"), [turn for row in rows for turn in seen(row)])


@pytest.mark.parametrize(
    ("place", "candidates", "scores", "found"),
    [
        # of four comparisons three are won; the turn that was taken, delivery, is no repetition of itself
        (1, "tuning delivery storage framing", [0.4, 0.25, 0.2, 0.3], {"auc_questions": 0.75}),
        (1, "tuning storage framing", [0.3, None, 0.1], {"auc_questions": 1.0}),
        (1, "tuning delivery", [0.3, 0.1], {}),
        # delivery is known by now: to ask about it again is a waste
        (3, "tuning delivery", [0.1, 0.2], {"auc_questions": 0.0}),
        # something is missing: an answer is worse than a question
        (3, "GUESS tuning storage", [0.2, 0.3, 0.1], {"auc_questions": 1, "auc_useful_early": 1, "auc_useless_early": 0}),
        (3, "GUESS storage", [0.3, 0.1], {"auc_useless_early": 0.0}),
        # everything is known: the answer is better than any question
        (5, "ANSWER storage", [0.9, 0.1], {"auc_answering": 1.0}),
    ],
)  # fmt: skip
def test_what_a_critic_is_measured_by(study, place, candidates, scores, found):
    said = {**ASK, "GUESS": GUESS, "ANSWER": ANSWER}
    candidates = [said[name] for name in candidates.split()]
    replace_rows(study.ranked("sweet"), [ranked(trajectory(0, WON, 1.0), place, candidates, scores)])
    replace_rows(study.pairs("sweet"), [])
    assert agreement(study, "sweet") == {name: Counted(area, n=1) for name, area in found.items()}


def test_a_pair_is_right_where_the_oracle_likes_its_chosen_turn_only(study):
    row = ranked(trajectory(0, WON, 1.0), 1, [ASK["tuning"], ASK["storage"], ASK["delivery"]], [3, 2, 1])
    replace_rows(study.ranked("sweet"), [row])
    key = {name: row[name] for name in ("task_id", "sample_index", "turn_index")}
    drawn = [(0, 1), (0, 2), (1, 2), (2, 1)]  # useful above useless; two useful ones; the wrong way; right
    pairs = [key | {"chosen_index": chosen, "rejected_index": rejected} for chosen, rejected in drawn]
    replace_rows(study.pairs("sweet"), [*pairs, {"chosen": "a twin"}])
    shares = agreement(study, "sweet")
    assert (shares["right_pairs"], shares["wrong_pairs"]) == (Counted(0.5, n=4), Counted(0.25, n=4))


def test_results_say_what_the_files_hold(study, no_charts):
    study = replace(study, ways=ALL_WAYS, best_of=(2,))
    rows = [trajectory(0, LOST, 0.3), trajectory(1, WON, 1.0), trajectory(2, HASTY, 0.0)]
    for name in (*METHODS, *choosing_agents(study)):
        measured(study, name, rows)
    for name in (way.name for way in SWEETS):
        replace_rows(study.pairs(name), [{"chosen": "a", "rejected": "b"}] * 3)
    replace_rows(study.dialogues, rows)
    replace_rows(study.path("pairs_guarded.jsonl"), [{"chosen": "a", "rejected": "b"}])
    first = ranked(rows[1], 1, [ASK["tuning"], ASK["storage"], ASK["framing"]], [0.2, 0.1, 0.5])
    last = ranked(rows[1], 5, [ANSWER, ASK["storage"]], [0.9, 0.1])
    early = ranked(rows[1], 3, [GUESS, ASK["storage"]], [0.3, 0.1])
    for way in SWEETS:
        replace_rows(study.ranked(way.name), [first, early, last])
    for name in ("warm_start", "sweet"):
        looked_at(study, name, rows)
    study.path("sweet").mkdir()
    first = {"step": 1, "loss": 0.7, "acc": 0.5, "chosen_reward": 0.2, "reject_reward": -0.1}
    metrics = [first, {"step": 2, "loss": 0.6}, {"eval_loss": 0.5, "step": 2}]
    replace_rows(study.path("sweet") / "metrics.jsonl", metrics)

    found = results(study, {})
    part, chosen = found.comparisons
    assert chosen.methods[1].runs[0].curves == {"success": ((1.0, 0.5), (2.0, 0.5))}
    assert [method.name for method in part.methods] == [*METHODS, "critic"]
    method = part.method("sweet")
    (run,) = method.runs
    assert {str(verdict): run.measures[str(verdict)].mean for verdict in Verdict} == {
        str(verdict): 0 for verdict in Verdict
    } | {"useful question": 4 / 3, "useless question": 1 / 3, "early answer": 2 / 3, "right answer": 1 / 3}  # fmt: skip
    assert run.measures["success"] == Counted(**SUCCESS)
    assert run.measures["tests_passed"] == Counted(**PASSED)
    assert run.measures["usual_share"] == Counted(3 / 5)
    assert run.measures["useful_share"] == Counted(4 / 5)
    assert method.facts == {"examples": 3, "updates": 2}
    assert [m.facts.get("examples") for m in part.methods][:4] == [None, 1, 1, 3]
    assert run.measures["auc_questions"] == Counted(0.5, n=1)
    assert run.measures["auc_useless_early"] == Counted(0.0, n=1)
    assert run.measures["auc_answering"] == Counted(1.0, n=1)
    # All methods have the same dialogues here: no difference in three tasks; Wilson leaves 3.8415 / 6.8415 to others.
    assert {(claim.mean, claim.over, claim.verdict) for claim in part.claims} == {(0.0, "tasks", "open")}
    assert [claim.low for claim in part.claims] == pytest.approx([-0.5615] * len(part.claims), abs=1e-4)
    assert {dialogue.method for dialogue in found.dialogues} == {"warm_start", "sweet"}
    assert found.failures == ()
    page = results_page(found)
    assert "SWEET-RL reaches <strong>50.0\u202f%</strong>" in page


def test_credit_is_shown_of_the_shortest_dialogue_that_was_solved_in_spite_of_a_useless_question(study):
    wasted = (ASK["storage"], "I don't know.", *WON)
    longer, unscored, unsolved = ("I see.", "Yes?", *wasted), (*wasted, "Thanks.", ""), wasted
    rows = [trajectory(i, texts, 1.0) for i, texts in enumerate((longer, WON, unscored, wasted))]
    replace_rows(study.dialogues, [*rows, trajectory(4, unsolved, 0.5)])
    scored = [turn for row in rows if row is not rows[2] for turn in seen(row)]
    for way in ("sweet", "sweet_blind"):
        replace_rows(study.ranked(way), [row | {"judge_result": [len(way)]} for row in scored])
    blind, own = _credit(study)
    assert (blind.method, own.method) == ("sweet_blind", "sweet")
    assert blind.request.endswith("3.")
    assert [turn.agent for turn in own.turns] == [ASK["storage"], ASK["delivery"], ASK["tuning"], ANSWER]
    assert {turn.score for turn in blind.turns} == {11.0}
    assert _credit(replace(study, ways=("sweet",)))[0].method == "sweet"
    replace_rows(study.dialogues, [rows[1]])
    assert _credit(study) == ()


def test_episodes_that_failed_are_told_and_in_no_difference(study):
    rows = [trajectory(0, LOST, 0.3), trajectory(1, WON, 1.0)]
    for name in METHODS:
        failed = rows[1] | {"reward": None} if name == "rft" else rows[1]
        measured(study, name, [rows[0], failed])
    for name in ("warm_start", "sweet"):
        looked_at(study, name, rows)
    replace_rows(study.dialogues, rows)
    found = results(study, {})
    assert list(found.failures) == ["rejection fine-tuning: 1 test episodes failed."]
    low = {claim.worse: claim.low for claim in found.comparisons[0].claims}
    assert low["rft"] == -1  # one task is left, which tells nothing
    assert low["dpo"] == pytest.approx(-0.6576, abs=1e-4)


def test_dialogues_that_became_a_success_are_shown_first_and_those_of_other_worlds_refused(study):
    before, after = (LOST, WON, LOST, WON), (LOST, WON, WON, LOST)
    for name in METHODS:
        told = before if name == "warm_start" else after
        rows = [trajectory(i, texts, 1.0 if texts is WON else 0.3) for i, texts in enumerate(told)]
        measured(study, name, rows)
        if name in ("warm_start", "sweet"):
            looked_at(study, name, rows)
    replace_rows(study.dialogues, rows)
    shown = results(study, {}).dialogues
    assert [(one.method, one.request[-2], one.reward) for one in shown] == [
        *(("warm_start", "2", 0.3), ("sweet", "2", 1.0)),
        *(("warm_start", "0", 0.3), ("sweet", "0", 0.3)),
        *(("warm_start", "1", 1.0), ("sweet", "1", 1.0)),
    ]
    replace_rows(study.measured("warm_start"), [trajectory(0, WON, 1.0)])
    with pytest.raises(UsageError, match=r"task 1 is one of 10 trades, and 40 trades are wanted"):
        results(replace(study, world="trades=40", ways=("sweet",)), {})


def test_a_dialogue_shows_what_could_have_been_said(study):
    row = trajectory(0, HASTY, 0.0)
    for name in METHODS:
        measured(study, name, [row])
    looked_at(study, "warm_start", [row])
    replace_rows(study.dialogues, [row])
    opening = [ASK["storage"], ASK["delivery"], ASK["storage"], ASK["tuning"]]
    answering = ranked(row, 3, [ASK["framing"], ASK["tuning"]], [None, 0.6])
    replace_rows(study.path("sweet.seen.jsonl"), [ranked(row, 1, opening, [0.1, 0.4, 0.1, 0.7]), answering])
    _, dialogue = results(study, {}).dialogues
    useful, useless = "useful question", "useless question"
    asked = (
        Candidate(ASK["tuning"], 0.7, 1, useful),
        Candidate(ASK["delivery"], 0.4, 1, useful),
        Candidate(ASK["storage"], 0.1, 2, useless),
    )
    answered = (Candidate(ASK["tuning"], 0.6, 1, useful), Candidate(ASK["framing"], None, 1, useless))
    assert dialogue.turns == (
        Turn(ASK["delivery"], TOLD["delivery"], useful, 0.4, asked),
        Turn(GUESS, None, "early answer", None, answered),
    )


CHARGED = 'def total(price, extras):\n    if "storage" in extras:\n        price += 3\n    return price'


def asked_turn(task, solution, **more):
    key = {"task_id": task, "sample_index": 0, "turn_index": 0}
    return key | {"input": "I:", "ground_truth": solution} | more


def test_the_packaged_agent_comes_with_its_figures_and_another_one_is_measured(tmp_path, monkeypatch):
    """What is measured, and refused: tests/mini/test_embedded_agent.py."""

    def refused(*_):
        raise UsageError("P(charged), right solution 0.1")

    monkeypatch.setattr("sweet_rl.mini.embedded_agent.check_gates", refused)
    check_agent("embedded", str(tmp_path / "gates.json"))
    figures = json.loads((tmp_path / "gates.json").read_text())
    assert figures == json.loads((Path(model_path("embedded")) / "figures.json").read_text())
    with pytest.raises(UsageError, match="right solution"):  # the same agent under its path is anyone's
        check_agent(model_path("embedded"), str(tmp_path / "other.json"))
    assert not (tmp_path / "other.json").exists()


def test_trainings_that_resume_at_once_keep_their_checkpoints_apart(study):
    steps = [step for chains in recipe.rounds(study) for chain in chains for step in chain]
    places = [step.flags["ckpt_path"] for step in steps if "save_path" in step.flags]
    assert len(places) == len(set(places)) > 3


MESSAGES = [{"role": "user", "content": "Two extras."}, {"role": "assistant", "content": "a"}]


def scored(tmp_path, step, rows):
    """The scores that a step of the study writes."""
    replace_rows(tmp_path / "in.jsonl", rows)
    step(str(tmp_path / "in.jsonl"), str(tmp_path / "out.jsonl"))
    return [json.loads(line)["judge_result"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]


def test_credit_that_is_wrong_on_purpose_or_right_by_an_oracle(tmp_path):
    swapped = asked_turn("a", "one", messages=MESSAGES, additional_outputs=["a"], judge_result_swapped=[2])
    assert scored(tmp_path, take_swapped, [swapped | {"judge_result": [1]}]) == [[2]]
    said = ["Do you charge for storage?", "Do you charge for tuning?", "Hello."]
    asked = asked_turn("a", CHARGED, messages=MESSAGES, additional_outputs=said)
    assert scored(tmp_path, score_by_oracle, [asked]) == [[1.0, 0.0, 0.0]]
    texts, scores = ["a", "b", "c", "d", "e", "a"], [1, 2, 3, 4, 5, 1]
    rows = [
        asked_turn(task, "x", messages=MESSAGES, additional_outputs=texts, judge_result=scores)
        for task in "pqrs"
    ]
    found = scored(tmp_path, shuffle_scores, rows)  # the same numbers for other texts
    assert all(each[0] == each[5] and sorted(each[:5]) == [1, 2, 3, 4, 5] for each in found)
    assert len(set(map(tuple, found))) > 1
    assert scored(tmp_path, shuffle_scores, rows) == found


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_pretrained_model_goes_through_the_whole_chain_and_what_is_done_is_not_run_again(
    tmp_path, monkeypatch, capsys
):
    """Tiny numbers, which mean nothing; learning rates of a tiny model."""
    agent = save_tiny_chatml(tmp_path / "tiny")
    trainings = "critic blind_critic policy blind_policy dialogue_dpo rejection".split()
    tiny = replace(
        EMBEDDED,
        **{name: {**getattr(EMBEDDED, name), "max_epochs": 1} for name in trainings},
        pairs={"margin": 0.0},
        blind_pairs={"margin": 0.0},
        imitation={"learning_rate": 2e-3},
    )
    monkeypatch.setattr("sweet_rl.studies.sweet.settings.PRETRAINED", tiny)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    folder = tmp_path / "real"
    flags = {"agent": str(agent), "num_train_tasks": 24, "num_test_tasks": 4, "trades": 1}
    flags["demonstrations"] = 80
    demo(str(folder), **flags)
    found, (part,) = read_study(folder / "study.json")
    rows = {method.name: method for method in part.methods}
    assert rows.keys() >= {*REAL_WAYS, "warm_start", "dpo", "rft", "insider"}
    # one epoch, eight rows an update: the size for two cores
    assert rows["warm_start"].facts["updates"] == 10
    assert rows["sweet_oracle"].mean("right_pairs") == 1
    assert all(claim.over == "tasks" for claim in part.claims)
    assert {"sweet_untrained", "sweet_outcomes"} <= {claim.worse for claim in part.claims}
    assert found["settings"]["imitation: dialogues"] == 80
    assert found["seconds"].keys() >= {"warm_start", "critic_outcomes", "sweet_wrong", "dpo.test.jsonl"}
    assert '<th scope="row">warm_start</th>' in (folder / "report.html").read_text()
    capsys.readouterr()
    (folder / "sweet_oracle.test.report.json").unlink()
    demo(str(folder), **flags)
    ran = re.findall(r"^\[\d+/68\] (\S+): (?!done)", capsys.readouterr().out, re.MULTILINE)
    assert set(ran) == {"sweet_oracle.test.report.json"}


def test_shuffled_outcomes_are_dealt_within_a_task_and_give_as_many_pairs(study):
    rows = [
        trajectory(index, texts, reward) | {"sample_index": sample}
        for sample, (texts, reward) in enumerate(((WON, 1.0), (LOST, 0.3), (HASTY, 0.0)))
        for index in range(12)
    ]
    replace_rows(study.dialogues, rows)
    output = study.path("pairs_shuffled.jsonl")
    shuffle_outcomes(str(study.dialogues), str(output))
    pairs = [json.loads(line) for line in output.read_text().splitlines()]
    assert len(pairs) == 2 * 12
    won = [SOLUTION in pair["chosen"].rpartition("ANSWER")[2] for pair in pairs]
    assert 0 < sum(won) < len(won)
    assert all(pair["chosen"].startswith("In light that the final answer is") for pair in pairs)


LINE = {"mean": {"mean": 0.5, "low": 0.4, "high": 0.6}, "floors": {"blank page": 0.01}}


def test_without_a_browser_the_reason_names_the_repair(study, monkeypatch):
    def no_browser(flags):
        raise UsageError("there is none. Install it: apt install chromium")

    monkeypatch.setattr("sweet_rl.browsers.open_renderer", no_browser)
    assert "Install it: apt install" in recipe.why_no_pages(study)


def test_the_report_is_told_grades_floors_curves_and_pictures(study, monkeypatch):
    monkeypatch.setattr("sweet_rl.browsers.open_renderer", lambda settings: FakeRenderer())
    study = replace(study, page_tasks=2)
    for name in recipe.DESIGNERS:
        report = {"tasks": 2, "metric": "combined", "metrics": {"combined": LINE, "ssim": LINE}}
        study.path(f"pages.{name}.report.json").write_text(json.dumps(report))
    write_rows(study.path("pages.improver.jsonl"), page_rows(study.folder)[:2])
    part, strips = page_results(study)
    assert [method.name for method in part.methods] == [*recipe.DESIGNERS, "floor_blank page"]
    assert part.method("blank").estimate("ssim") == Counted(0.5, 0.4, 0.6)
    assert part.method("floor_blank page").mean("combined") == 0.01
    (first, early), (second, later) = part.method("improver").runs[0].curves["combined"]
    assert (first, second) == (1, 2)
    assert early < later
    frames = strips[0].frames
    assert [frame.label for frame in frames] == ["turn 1", "turn 2", "target"]
    assert frames[0].score < frames[1].score
    assert all(frame.picture.startswith("data:image/webp;base64,") for frame in frames)
    page = results_page(Results("sweet", "Pages", comparisons=(part,), strips=strips))
    assert "Web pages: draft by draft" in page
    assert "floor: blank page" in page


def test_a_dialogue_that_has_ended_keeps_its_last_grade():
    assert _way_up([{0: 0.2, 1: 0.6}, {0: 0.4}, {0: 0.0, 2: 0.9}]) == (
        (1.0, pytest.approx(0.2)),
        (2.0, pytest.approx(1 / 3)),
        (3.0, pytest.approx((0.6 + 0.4 + 0.9) / 3)),
    )
