"""Sampling, ranking and pairing as a person runs them: resumed, interrupted, on published and on wrong files."""

import json
import math
import os
import signal
import threading
import time

import pytest

from sweet_rl.commands.generate_random_pairs_from_ranks import generate_random_pairs_from_ranks
from sweet_rl.commands.rank_best_of_n import rank_best_of_n
from sweet_rl.commands.sample_best_of_n import sample_best_of_n
from sweet_rl.errors import DataError, UsageError
from sweet_rl.records import replace_rows
from tests.tiny_models import TURN_END, save_tiny_gpt2, tiny_tokenizer

FLAGS = {"best_of_n": 4, "max_tokens": 8, "quiet": True}
HEADER = "<|header|>assistant<|end_header|>\n\n"


def trajectories(count, turns=2):
    """Published layout: no identity, no token ids; dialogues of one tokenizer's template."""
    for number in range(count):
        text = f"<|begin|><|header|>user<|end_header|>\n\nWrite {number}.{TURN_END}"
        history = [{"role": "user", "content": f"Write {number}."}]
        for turn in range(turns):
            text += HEADER
            output = f"What {turn}?"
            history.append({"role": "assistant", "content": output, "input": text, "output": output})
            text += f"{output}{TURN_END}<|header|>user<|end_header|>\n\nThis.{TURN_END}"
            history.append({"role": "user", "content": "This."})
        task = {"problem_description": f"Write {number}.", "ground_truth": f"def f(): return {number}"}
        yield {"task": task, "dialogue_history": history[:-1], "answer": "x", "reward": number % 2}


@pytest.fixture(scope="module")
def made(models, tmp_path_factory):
    """A folder with trajectories, candidates for their turns, and the candidates' scores."""
    folder = tmp_path_factory.mktemp("made")
    replace_rows(folder / "trajectories.jsonl", trajectories(3))
    sample_best_of_n(folder / "trajectories.jsonl", folder / "sampled.jsonl", models["policy"], **FLAGS)
    rank_best_of_n(folder / "sampled.jsonl", folder / "ranked.jsonl", models["critic"], quiet=True)
    return folder


@pytest.fixture
def sampled(made):
    return made / "sampled.jsonl"


@pytest.fixture
def rank(models, tmp_path):
    """Ranks a file, or rows; returns the rows."""

    def ranked(source, critic=models["critic"], output=tmp_path / "ranked_here.jsonl", **flags):
        if isinstance(source, list):
            replace_rows(tmp_path / "rows.jsonl", source)
            source = tmp_path / "rows.jsonl"
        rank_best_of_n(source, output, critic, **{"quiet": True, "overwrite": True} | flags)
        return rows_of(output)

    return ranked


def rows_of(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def scores_of(rows):
    return [score for row in rows for score in row["judge_result"]]


def plain_mean(folder, context, token_ids):
    import torch
    from transformers import AutoModelForCausalLM

    ids = tiny_tokenizer()(context, add_special_tokens=False)["input_ids"]
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    with torch.inference_mode():
        logits_TV = model(torch.tensor([ids + token_ids])).logits[0, len(ids) - 1 : -1]
    return logits_TV.log_softmax(-1).gather(1, torch.tensor(token_ids)[:, None]).mean().item()


def close(value):
    return pytest.approx(value, abs=1e-4)


def test_a_published_layout_goes_through_all_three_stages(models, made, rank, tmp_path, capsys):
    rows, scored = rows_of(made / "sampled.jsonl"), rank(made / "sampled.jsonl")
    keys = [(row["messages"][0]["content"][-2], row["turn_index"]) for row in rows]
    assert keys == [(str(i), turn) for i in range(3) for turn in range(2)]
    first = rows[0]
    assert (len(first["additional_outputs"]), first["end_token"]) == (4, TURN_END)
    ids = first["additional_token_ids"][1]
    mean = plain_mean(models["policy"], first["input"], ids)
    assert first["additional_reference_logprobs"][1] == close(mean)
    blank = {"judge_result": None, "ranking": None}
    assert [row | blank for row in scored] == [row | blank for row in rows]
    assert "tokenised again" not in capsys.readouterr().err
    critic = plain_mean(models["critic"], first["input_with_ground_truth"], ids)
    assert scored[0]["judge_result"][1] == close(critic - mean)

    pairs, again = tmp_path / "pairs.jsonl", tmp_path / "again.jsonl"
    for output in (pairs, again):
        generate_random_pairs_from_ranks(made / "ranked.jsonl", output, num_pairs=2)
    assert pairs.read_bytes() == again.read_bytes()
    by_key = {(row["task_id"], row["turn_index"]): row for row in rows_of(made / "ranked.jsonl")}
    for pair in rows_of(pairs):
        row = by_key[pair["task_id"], pair["turn_index"]]
        better, worse = pair["chosen_index"], pair["rejected_index"]
        assert row["judge_result"][better] > row["judge_result"][worse]
        cut = row["additional_finish_reasons"][better] == "length"
        assert pair["chosen"] == row["additional_outputs"][better] + ("" if cut else TURN_END)
        assert pair["chosen_token_ids"] == row["additional_token_ids"][better]
        assert (pair["prompt"], pair["tokenizer"]) == (row["input"], row["tokenizer"])


def test_equation_3_conditions_both_sides_on_the_solution(models, made, sampled, rank):
    policy, critic = models["policy"], models["critic"]
    row = rank(sampled, advantage="paper", reference_model=policy)[0]
    ids, context = row["additional_token_ids"][0], row["input_with_ground_truth"]
    assert row["judge_result"][0] == close(
        plain_mean(critic, context, ids) - plain_mean(policy, context, ids)
    )
    # computed again without the solution, the reference is what the sampler recorded
    assert scores_of(rank(sampled, reference_model=policy)) == close(
        scores_of(rows_of(made / "ranked.jsonl"))
    )
    # the same model on both sides of equation 3 prefers nothing
    assert set(scores_of(rank(sampled, policy, advantage="paper", reference_model=policy))) == {0.0}


def test_a_swap_test_scores_with_another_tasks_solution_as_well(models, made, sampled, rank, capsys):
    rows = rank(sampled, swap_test=True, save_steps=2)
    said = capsys.readouterr().out
    assert "with another task's solution the scores" in said
    assert "of 6 turns" in said
    assert scores_of(rows) == close(scores_of(rows_of(made / "ranked.jsonl")))
    # of three tasks the first is given the second's solution, and the last the first's
    for number, other in ((0, 2), (5, 0)):
        row, ids = rows[number], rows[number]["additional_token_ids"][1]
        context = row["input_with_ground_truth"].replace(row["ground_truth"], rows[other]["ground_truth"])
        expected = plain_mean(models["critic"], context, ids) - row["additional_reference_logprobs"][1]
        assert row["judge_result_swapped"][1] == close(expected)
        assert row["judge_result_swapped"][1] != pytest.approx(row["judge_result"][1], abs=1e-6)


def test_a_run_is_resumed_by_row_and_ends_the_same(models, made, rank, tmp_path):
    """Rows in the middle are missing, the last line is torn, and the order is another one."""

    def torn(name):
        whole = (made / name).read_bytes().splitlines(keepends=True)
        (tmp_path / name).write_bytes(whole[4] + whole[1] + whole[2][:50])
        return tmp_path / name

    output = torn("sampled.jsonl")
    sample_best_of_n(made / "trajectories.jsonl", output, models["policy"], to_continue=True, **FLAGS)
    texts = [[row["additional_outputs"] for row in rows_of(at)] for at in (output, made / "sampled.jsonl")]
    assert texts[0] == texts[1]
    flags = {"output": torn("ranked.jsonl"), "save_steps": 2, "to_continue": True, "overwrite": False}
    found, whole = rank(made / "sampled.jsonl", **flags), rows_of(made / "ranked.jsonl")
    assert scores_of(found) == pytest.approx(scores_of(whole), abs=1e-5)
    assert [row["input"] for row in found] == [row["input"] for row in whole]


def test_a_run_is_continued_only_as_it_was_begun(models, made, rank):
    def sample(**flags):
        source = made / "trajectories.jsonl"
        sample_best_of_n(source, made / "sampled.jsonl", models["policy"], **FLAGS | flags)

    ranked = {"output": made / "ranked.jsonl", "to_continue": True, "overwrite": False}
    before = {path: path.read_bytes() for path in made.glob("*.jsonl")}
    for words, stage in {
        "already holds a run": sample,
        "best_of_n was 4, is 5": lambda: sample(to_continue=True, best_of_n=5),
        "turn that is not among yours": lambda: sample(to_continue=True, data_fraction=0.4),
        "use_sum was False, is True": lambda: rank(made / "sampled.jsonl", use_sum=True, **ranked),
        "swap_test was None, is True": lambda: rank(made / "sampled.jsonl", swap_test=True, **ranked),
    }.items():
        with pytest.raises(UsageError, match=words):
            stage()
    assert {path: path.read_bytes() for path in made.glob("*.jsonl")} == before


def test_another_tokenizer_is_said_once_and_scored_by_text(sampled, rank, capsys):
    rows = rows_of(sampled)
    rows[0]["tokenizer"] = rows[1]["tokenizer"] = "another"
    del rows[2]["tokenizer"], rows[2]["additional_token_ids"]
    assert all(map(math.isfinite, scores_of(rank(rows))))
    said = capsys.readouterr().err
    assert said.count("2 rows are of another tokenizer than the critic's") == 1
    assert said.count("1 rows have no token ids") == 1


def test_odd_candidates(sampled, rank, tmp_path, capsys):
    """Other numbers of candidates, empty ones, one too long, one of no token at all."""
    rows = rows_of(sampled)[:4]
    for name in ("outputs", "reference_logprobs", "reference_logprobs_sum", "token_ids", "finish_reasons"):
        rows[0][f"additional_{name}"] = []
        rows[1][f"additional_{name}"] = rows[1][f"additional_{name}"][:3]
    end = tiny_tokenizer().eos_token_id
    rows[2]["additional_outputs"][0], rows[2]["additional_token_ids"][0] = "", [end]
    rows[2]["additional_outputs"][1], rows[2]["additional_token_ids"][1] = "", []
    rows[3]["additional_token_ids"][2] = [5] * 600
    scores = [row["judge_result"] for row in rank(rows)]
    assert [len(values) for values in scores] == [0, 3, 4, 4]
    assert scores[2][0] is not None
    assert scores[2][1] is scores[3][2] is None
    said = capsys.readouterr().out
    assert "1 candidates have no score: they have no tokens" in said
    assert "1 candidates have no score: with their context they are too long" in said
    generate_random_pairs_from_ranks(tmp_path / "ranked_here.jsonl", tmp_path / "pairs.jsonl")
    assert "1 turns gave none: 1 of 1 rows have fewer than two scored candidates" in capsys.readouterr().out


QUESTIONS = [f"Do you charge for {extra}?" for extra in ("storage", "tuning", "framing", "samples")]


@pytest.fixture
def pairs_of(tmp_path):
    """Draws pairs from two ranked turns of one dialogue; returns the rows."""
    charged = 'def total(price, extras):\n    if "storage" in extras:\n        price += 3\n    return price'
    history = [{"role": "user", "content": "Two extras."}]
    rows = []
    for turn, taken in enumerate(QUESTIONS[1:3]):
        asked = {"role": "assistant", "content": taken, "output": taken}
        rows.append(
            {"input": "I:", "ground_truth": charged, "older_output": taken, "reward": 1.0, "end_token": "<e>"}
            | {"messages": [*history, asked], "task_id": "t", "sample_index": 0, "turn_index": turn}
            | {"additional_outputs": QUESTIONS, "judge_result": [9.0, 0.1, 0.3, 0.2]}
        )
        history += [asked, {"role": "user", "content": "No."}]

    def drawn(change=(), **flags):
        replace_rows(tmp_path / "ranked.jsonl", [row | dict(change) for row in rows])
        output = tmp_path / "pairs.jsonl"
        generate_random_pairs_from_ranks(tmp_path / "ranked.jsonl", output, overwrite=True, **flags)
        return rows_of(output)

    return drawn


def test_draws_guards_and_what_an_oracle_says(pairs_of, tmp_path, capsys):
    written = pairs_of(draws="across", num_pairs=3, hard_negatives=1, twins=0.4, oracle_of="code")
    said = capsys.readouterr().out
    assert "6 pairs of 2 turns" in said
    assert "Scores of a pair differ by 8.8 in the mean." in said
    assert "By the oracle of code, 100.0% of the pairs are right, 0.0% the wrong way round" in said
    guards = {row["guard"]: row for row in written if "guard" in row}
    assert len(written) == 6 + 1 + 2  # one turn has one before it; 0.4 of six is two
    negative, twin = guards["hard negative"], guards["twin"]
    assert (negative["rejected"], negative["chosen"]) == (f"{QUESTIONS[1]}<e>", f"{QUESTIONS[0]}<e>")
    assert twin["chosen"] == twin["rejected"]
    pairs_of(num_pairs=9, oracle_of="code")
    assert "50.0% of the pairs are right, 0.0% the wrong way round" in capsys.readouterr().out
    turn = {"role": "assistant", "content": "a", "input": "J:", "output": "a"}
    won = {"task": {"problem_description": "q", "ground_truth": "g"}, "reward": 1}
    won["dialogue_history"] = [{"role": "user", "content": "q"}, turn]
    replace_rows(tmp_path / "graded.jsonl", [won, won | {"reward": 0}])
    found = pairs_of(twins=0.5, twins_from=tmp_path / "graded.jsonl")
    assert [row["prompt"] for row in found if "guard" in row] == ["J:"]
    found = pairs_of({"additional_outputs": ["a", "b", "a", "b"]}, get_sft=True, num_pairs=9)
    sides = sorted((row["chosen"], row["rejected"]) for row in found)
    assert sides == [("a<e>", "a<e>")] * 2 + [("b<e>", "b<e>")] * 2


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"twins_from": "graded.jsonl"}, "--twins_from needs --twins"),
        ({"draws": "best", "compat": "published"}, "--draws best does not exist in the published system"),
        ({"margin": 0.5, "compat": "published"}, "--margin 0.5 does not exist in the published system"),
        (
            {"hard_negatives": 1, "compat": "published"},
            "--hard_negatives 1 does not exist in the published system",
        ),
        ({"twins": 0.5, "compat": "published"}, "--twins 0.5 does not exist in the published system"),
        ({"get_sft": True, "margin": 0.5}, "--get_sft draws single candidates"),
        ({"get_sft": True, "twins": 1.0}, "--get_sft draws single candidates"),
        ({"get_sft": True, "min_score": 0.0}, "--get_sft draws single candidates"),
        ({"twins": 1.0, "min_reward": 2.0}, "no turn of .* reward of at least 2"),
        ({"draws": "thirds"}, "--draws must be"),
    ],
)
def test_draws_that_contradict_each_other_are_refused(pairs_of, flags, words):
    with pytest.raises(UsageError, match=words):
        pairs_of(**flags)


def test_odd_critics(models, sampled, rank, tmp_path):
    """A regression head scores without reference, one that gives no numbers is named, one without template may score."""
    import torch
    from transformers import AutoModelForCausalLM, LlamaForSequenceClassification

    model = AutoModelForCausalLM.from_pretrained(models["critic"])
    model.config.num_labels = 1
    torch.manual_seed(0)
    LlamaForSequenceClassification(model.config).save_pretrained(tmp_path / "head")
    model.lm_head.weight.data[:] = math.nan
    model.save_pretrained(tmp_path / "nan")
    for name in ("head", "nan"):
        tiny_tokenizer().save_pretrained(tmp_path / name)
    scores = scores_of(rank(sampled, str(tmp_path / "head")))
    assert len(scores) == 24
    assert len({round(score, 6) for score in scores}) > 12
    with pytest.raises(DataError, match=r"line 1: field 'additional_outputs\[0\]' gets no number.*nan"):
        rank(sampled, str(tmp_path / "nan"))
    folder = str(save_tiny_gpt2(tmp_path / "gpt2"))
    with pytest.raises(UsageError, match="no chat template"):
        rank(sampled, folder, compat="published")
    rank(sampled, folder)


def test_published_ranking_scores_the_header_and_not_the_end_token(models, sampled, rank):
    row = rank(sampled, compat="published")[0]
    context = f"<|begin|>{row['input_with_ground_truth'].removesuffix(HEADER)}"
    ids = tiny_tokenizer()(HEADER + row["additional_outputs"][0], add_special_tokens=False)["input_ids"]
    expected = plain_mean(models["critic"], context, ids) - row["additional_reference_logprobs"][0]
    assert row["judge_result"][0] == close(expected)


def test_what_is_wrong_is_named(models, made, sampled, rank, tmp_path):
    broken, output = tmp_path / "broken.jsonl", tmp_path / "out.jsonl"
    rows, ranked = rows_of(sampled), rows_of(made / "ranked.jsonl")

    def sample(rows, model=models["policy"]):
        replace_rows(broken, rows)
        sample_best_of_n(broken, output, model, overwrite=True)

    def pair(rows):
        replace_rows(broken, rows)
        generate_random_pairs_from_ranks(broken, output)

    unknown = [rows[0], rows[1] | {"additional_reference_logprobs": [None] * 4}]
    same = [row | {"additional_outputs": ["same"] * 4} for row in ranked]
    for words, stage in {
        "No model could be loaded: there is no folder '.*/absent'": lambda: rank(
            sampled, str(tmp_path / "absent")
        ),
        "No model could be loaded": lambda: rank(sampled, str(made)),
        "--advantage paper needs --reference_model": lambda: rank(sampled, advantage="paper"),
        "--swap_test and --no_use_gr": lambda: rank(sampled, swap_test=True, no_use_ground_truth=True),
        r"line 2.*reference_logprobs\[0\].*--reference_model": lambda: rank(unknown),
        r"line 1: field 'judge_result' is missing.*rank_best_of_n": lambda: pair(rows),
        "6 of 6 rows have scores that are all the same": lambda: pair(
            [row | {"judge_result": [1, 1, 1, 1]} for row in ranked]
        ),
        "6 of 6 rows have candidates that are all the same text": lambda: pair(same),
        r"end_token.*--tokenizer": lambda: pair([row | {"end_token": None} for row in ranked]),
        "has no rows. Run sweet-rl sample_best_of_n": lambda: rank([]),
        "has no rows. Run sweet-rl rank_best_of_n": lambda: pair([]),
        "holds no trajectories": lambda: sample([]),
        "there are no candidates to sample": lambda: sample(trajectories(1), "oracle"),
    }.items():
        with pytest.raises((UsageError, DataError), match=words):
            stage()


def test_ctrl_c_says_how_to_go_on(models, tmp_path, capsys):
    """Interrupted from beside as soon as a row is there; the run itself has the main thread."""
    replace_rows(tmp_path / "in.jsonl", trajectories(60))
    output = tmp_path / "out.jsonl"

    def interrupt():
        while not (output.exists() and output.stat().st_size):
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    flags = {"max_tokens": 30, "batch_size": 1, "quiet": True}
    with pytest.raises(KeyboardInterrupt):
        sample_best_of_n(tmp_path / "in.jsonl", output, models["policy"], **flags)
    there = len(rows_of(output))
    assert 0 < there < 120
    said = f"{there} of 120 rows are in {output}; the same command with --to_continue"
    assert said in capsys.readouterr().err
