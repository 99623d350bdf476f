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
from tests.tiny_models import TURN_END, save_tiny_gpt2, save_tiny_llama, tiny_tokenizer

FLAGS = {"best_of_n": 4, "max_tokens": 8, "quiet": True}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    import torch

    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("models")
    return {
        "policy": str(save_tiny_llama(folder / "policy", seed=0)),
        "critic": str(save_tiny_llama(folder / "critic", seed=1)),
    }


def trajectories(count, turns=2):
    """Published layout: no identity, no token ids; dialogues of one tokenizer's template."""
    for number in range(count):
        text = f"<|begin|><|header|>user<|end_header|>\n\nWrite {number}.{TURN_END}"
        history = [{"role": "user", "content": f"Write {number}."}]
        for turn in range(turns):
            text += "<|header|>assistant<|end_header|>\n\n"
            output = f"What {turn}?"
            history.append({"role": "assistant", "content": output, "input": text, "output": output})
            text += f"{output}{TURN_END}<|header|>user<|end_header|>\n\nThis.{TURN_END}"
            history.append({"role": "user", "content": "This."})
        task = {"problem_description": f"Write {number}.", "ground_truth": f"def f(): return {number}"}
        yield {"task": task, "dialogue_history": history[:-1], "answer": "x", "reward": number % 2}


@pytest.fixture
def source(tmp_path):
    replace_rows(tmp_path / "trajectories.jsonl", trajectories(3))
    return tmp_path / "trajectories.jsonl"


@pytest.fixture(scope="module")
def sampled(models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sampled")
    replace_rows(folder / "trajectories.jsonl", trajectories(3))
    sample_best_of_n(folder / "trajectories.jsonl", folder / "out.jsonl", models["policy"], **FLAGS)
    return folder / "out.jsonl"


def rows_of(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def plain_mean(folder, context, token_ids):
    import torch
    from transformers import AutoModelForCausalLM

    ids = tiny_tokenizer()(context, add_special_tokens=False)["input_ids"]
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    with torch.inference_mode():
        logits_TV = model(torch.tensor([ids + token_ids])).logits[0, len(ids) - 1 : -1]
    return logits_TV.log_softmax(-1).gather(1, torch.tensor(token_ids)[:, None]).mean().item()


def test_a_published_layout_goes_through_all_three_stages(models, sampled, tmp_path, capsys):
    rows = rows_of(sampled)
    assert [(row["messages"][0]["content"][-2], row["turn_index"]) for row in rows] == [
        (str(i), turn) for i in range(3) for turn in range(2)
    ]
    first = rows[0]
    assert len(first["additional_outputs"]) == 4
    mean = plain_mean(models["policy"], first["input"], first["additional_token_ids"][1])
    assert first["additional_reference_logprobs"][1] == pytest.approx(mean, abs=1e-4)
    assert first["end_token"] == TURN_END

    ranked = tmp_path / "ranked.jsonl"
    rank_best_of_n(sampled, ranked, models["critic"], quiet=True)
    scored = rows_of(ranked)
    assert [{**row, "judge_result": None, "ranking": None} for row in scored] == [
        row | {"judge_result": None, "ranking": None} for row in rows
    ]
    assert "tokenised again" not in capsys.readouterr().err
    ids = first["additional_token_ids"][1]
    critic = plain_mean(models["critic"], first["input_with_ground_truth"], ids)
    assert scored[0]["judge_result"][1] == pytest.approx(critic - mean, abs=1e-4)

    pairs = tmp_path / "pairs.jsonl"
    generate_random_pairs_from_ranks(ranked, pairs, num_pairs=2)
    again = tmp_path / "again.jsonl"
    generate_random_pairs_from_ranks(ranked, again, num_pairs=2)
    assert pairs.read_bytes() == again.read_bytes()
    by_key = {(row["task_id"], row["turn_index"]): row for row in scored}
    for pair in rows_of(pairs):
        row = by_key[pair["task_id"], pair["turn_index"]]
        better, worse = pair["chosen_index"], pair["rejected_index"]
        assert row["judge_result"][better] > row["judge_result"][worse]
        cut = row["additional_finish_reasons"][better] == "length"
        assert pair["chosen"] == row["additional_outputs"][better] + ("" if cut else TURN_END)
        assert pair["prompt"] == row["input"]
        assert pair["chosen_token_ids"] == row["additional_token_ids"][better]
        assert pair["tokenizer"] == row["tokenizer"]


def test_equation_3_conditions_both_sides_on_the_solution(models, sampled, tmp_path):
    ranked, released = tmp_path / "paper.jsonl", tmp_path / "released.jsonl"
    flags = {"reference_model": models["policy"], "quiet": True}
    rank_best_of_n(sampled, ranked, models["critic"], advantage="paper", **flags)
    row = rows_of(ranked)[0]
    ids, context = row["additional_token_ids"][0], row["input_with_ground_truth"]
    expected = plain_mean(models["critic"], context, ids) - plain_mean(models["policy"], context, ids)
    assert row["judge_result"][0] == pytest.approx(expected, abs=1e-4)
    # computed again without the solution, the reference is what the sampler recorded
    rank_best_of_n(sampled, released, models["critic"], **flags)
    recomputed = [row["judge_result"] for row in rows_of(released)]
    rank_best_of_n(sampled, released, models["critic"], overwrite=True, quiet=True)
    stored = [row["judge_result"] for row in rows_of(released)]
    for one, other in zip(recomputed, stored, strict=True):
        assert one == pytest.approx(other, abs=1e-4)
    # the same model on both sides of equation 3 prefers nothing
    rank_best_of_n(sampled, ranked, models["policy"], advantage="paper", overwrite=True, **flags)
    assert {score for row in rows_of(ranked) for score in row["judge_result"]} == {0.0}


def test_a_swap_test_scores_with_another_tasks_solution_as_well(models, sampled, tmp_path, capsys):
    ranked, plain = tmp_path / "swapped.jsonl", tmp_path / "plain.jsonl"
    rank_best_of_n(sampled, ranked, models["critic"], swap_test=True, save_steps=2, quiet=True)
    assert "with another task's solution the scores" in (said := capsys.readouterr().out)
    assert "of 6 turns" in said
    rank_best_of_n(sampled, plain, models["critic"], quiet=True)
    rows, unchanged = rows_of(ranked), rows_of(plain)
    assert [row["judge_result"] for row in rows] == [
        pytest.approx(row["judge_result"], abs=1e-4) for row in unchanged
    ]
    # of three tasks the first is given the second's solution, and the last the first's
    for number, other in ((0, 2), (5, 0)):
        row, ids = rows[number], rows[number]["additional_token_ids"][1]
        context = row["input_with_ground_truth"].replace(row["ground_truth"], rows[other]["ground_truth"])
        expected = plain_mean(models["critic"], context, ids) - row["additional_reference_logprobs"][1]
        assert row["judge_result_swapped"][1] == pytest.approx(expected, abs=1e-4)
        assert row["judge_result_swapped"][1] != pytest.approx(row["judge_result"][1], abs=1e-6)
    with pytest.raises(UsageError, match="swap_test"):
        rank_best_of_n(sampled, plain, models["critic"], swap_test=True, to_continue=True, quiet=True)
    with pytest.raises(UsageError, match="--swap_test and --no_use_ground_truth"):
        rank_best_of_n(sampled, plain, models["critic"], swap_test=True, no_use_ground_truth=True)


def test_a_run_is_resumed_by_row_and_ends_the_same(models, source, sampled, tmp_path):
    """Rows in the middle are missing, the last line is torn, and the order is another one."""
    whole = sampled.read_bytes().splitlines(keepends=True)
    output = tmp_path / "out.jsonl"
    output.write_bytes(whole[4] + whole[1] + whole[2][:50])
    sample_best_of_n(source, output, models["policy"], to_continue=True, **FLAGS)
    ours, full = rows_of(output), rows_of(sampled)
    assert [row["additional_outputs"] for row in ours] == [row["additional_outputs"] for row in full]
    ranked = tmp_path / "ranked.jsonl"
    rank_best_of_n(sampled, ranked, models["critic"], save_steps=2, quiet=True)
    whole = ranked.read_bytes().splitlines(keepends=True)
    ranked.write_bytes(whole[4] + whole[1] + whole[2][:50])
    rank_best_of_n(sampled, ranked, models["critic"], to_continue=True, quiet=True)
    for line, row in zip(whole, rows_of(ranked), strict=True):
        assert row["judge_result"] == pytest.approx(json.loads(line)["judge_result"], abs=1e-5)
        assert row["input"] == json.loads(line)["input"]


def test_a_run_is_continued_only_as_it_was_begun(models, source, sampled, tmp_path):
    output = tmp_path / "out.jsonl"
    output.write_bytes(sampled.read_bytes())
    with pytest.raises(UsageError, match="already holds a run"):
        sample_best_of_n(source, output, models["policy"], **FLAGS)
    with pytest.raises(UsageError, match="best_of_n was 4, is 5"):
        sample_best_of_n(source, output, models["policy"], to_continue=True, **FLAGS | {"best_of_n": 5})
    with pytest.raises(UsageError, match="turn that is not among yours"):
        sample_best_of_n(source, output, models["policy"], to_continue=True, data_fraction=0.4, **FLAGS)
    ranked = tmp_path / "ranked.jsonl"
    rank_best_of_n(sampled, ranked, models["critic"], quiet=True)
    with pytest.raises(UsageError, match="use_sum was False, is True"):
        rank_best_of_n(sampled, ranked, models["critic"], use_sum=True, to_continue=True, quiet=True)


def test_another_tokenizer_is_said_once_and_scored_by_text(models, sampled, tmp_path, capsys):
    rows = rows_of(sampled)
    rows[0]["tokenizer"] = rows[1]["tokenizer"] = "another"
    del rows[2]["tokenizer"], rows[2]["additional_token_ids"]
    replace_rows(tmp_path / "mixed.jsonl", rows)
    rank_best_of_n(tmp_path / "mixed.jsonl", tmp_path / "ranked.jsonl", models["critic"], quiet=True)
    said = capsys.readouterr().err
    assert said.count("2 rows are of another tokenizer than the critic's") == 1
    assert said.count("1 rows have no token ids") == 1
    assert all(
        math.isfinite(score) for row in rows_of(tmp_path / "ranked.jsonl") for score in row["judge_result"]
    )


def test_odd_candidates(models, sampled, tmp_path, capsys):
    """Other numbers of candidates, empty ones, one too long, one of no token at all."""
    rows = rows_of(sampled)[:4]
    fields = ("outputs", "reference_logprobs", "reference_logprobs_sum", "token_ids", "finish_reasons")
    for name in fields:
        rows[0][f"additional_{name}"] = []
        rows[1][f"additional_{name}"] = rows[1][f"additional_{name}"][:3]
    end = tiny_tokenizer().eos_token_id
    rows[2]["additional_outputs"][0], rows[2]["additional_token_ids"][0] = "", [end]
    rows[2]["additional_outputs"][1], rows[2]["additional_token_ids"][1] = "", []
    rows[3]["additional_token_ids"][2] = [5] * 600
    replace_rows(tmp_path / "odd.jsonl", rows)
    rank_best_of_n(tmp_path / "odd.jsonl", tmp_path / "ranked.jsonl", models["critic"], quiet=True)
    scores = [row["judge_result"] for row in rows_of(tmp_path / "ranked.jsonl")]
    assert [len(values) for values in scores] == [0, 3, 4, 4]
    assert scores[2][0] is not None
    assert scores[2][1] is scores[3][2] is None
    said = capsys.readouterr().out
    assert "1 candidates have no score: they have no tokens" in said
    assert "1 candidates have no score: with their context they are too long" in said
    generate_random_pairs_from_ranks(tmp_path / "ranked.jsonl", tmp_path / "pairs.jsonl")
    assert "1 turns gave none: 1 of 1 rows have fewer than two scored candidates" in capsys.readouterr().out


def test_draws_guards_and_what_an_oracle_says(tmp_path, capsys):
    charged = 'def total(price, extras):\n    if "storage" in extras:\n        price += 3\n    return price'
    questions = [f"Do you charge for {extra}?" for extra in ("storage", "tuning", "framing", "samples")]
    history = [{"role": "user", "content": "Two extras."}]
    rows = []
    for turn, taken in enumerate(questions[1:3]):
        asked = {"role": "assistant", "content": taken, "output": taken}
        rows.append(
            {"input": "I:", "ground_truth": charged, "older_output": taken, "reward": 1.0, "end_token": "<e>"}
            | {"messages": [*history, asked], "task_id": "t", "sample_index": 0, "turn_index": turn}
            | {"additional_outputs": questions, "judge_result": [9.0, 0.1, 0.3, 0.2]}
        )
        history += [asked, {"role": "user", "content": "No."}]
    source, output = tmp_path / "ranked.jsonl", tmp_path / "pairs.jsonl"
    replace_rows(source, rows)
    generate_random_pairs_from_ranks(
        source, output, draws="across", num_pairs=3, hard_negatives=1, twins=0.4, oracle_of="code"
    )
    said = capsys.readouterr().out
    assert "6 pairs of 2 turns" in said
    assert "Scores of a pair differ by 8.8 in the mean." in said
    assert "By the oracle of code, 100.0% of the pairs are right, 0.0% the wrong way round" in said
    written = rows_of(output)
    guards = {row["guard"]: row for row in written if "guard" in row}
    assert len(written) == 6 + 1 + 2  # one turn has one before it; 0.4 of six is two
    assert guards["hard negative"]["rejected"] == f"{questions[1]}<e>"
    assert guards["hard negative"]["chosen"] == f"{questions[0]}<e>"
    assert guards["twin"]["chosen"] == guards["twin"]["rejected"]
    generate_random_pairs_from_ranks(source, output, num_pairs=9, oracle_of="code", overwrite=True)
    assert "50.0% of the pairs are right, 0.0% the wrong way round" in capsys.readouterr().out
    history = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a", "input": "J:", "output": "a"},
    ]
    won = {
        "task": {"problem_description": "q", "ground_truth": "g"},
        "dialogue_history": history,
        "reward": 1,
    }
    replace_rows(tmp_path / "graded.jsonl", [won, won | {"reward": 0}])
    generate_random_pairs_from_ranks(
        source, output, twins=0.5, twins_from=tmp_path / "graded.jsonl", overwrite=True
    )
    assert [row["prompt"] for row in rows_of(output) if "guard" in row] == ["J:"]
    twice = tmp_path / "twice.jsonl"
    replace_rows(twice, [row | {"additional_outputs": ["a", "b", "a", "b"]} for row in rows])
    generate_random_pairs_from_ranks(twice, output, get_sft=True, num_pairs=9, overwrite=True)
    assert (
        sorted((row["chosen"], row["rejected"]) for row in rows_of(output))
        == [("a<e>",) * 2, ("a<e>",) * 2] + [("b<e>",) * 2] * 2
    )
    for flags, words in (
        ({"twins_from": "graded.jsonl"}, "--twins_from says where"),
        ({"draws": "best", "compat": "published"}, "--draws best is not published"),
        ({"margin": 0.5, "compat": "published"}, "--margin 0.5 is not published"),
        ({"hard_negatives": 1, "compat": "published"}, "--hard_negatives 1 is not published"),
        ({"twins": 0.5, "compat": "published"}, "--twins 0.5 is not published"),
        ({"get_sft": True, "margin": 0.5}, "--get_sft draws single candidates"),
        ({"get_sft": True, "twins": 1.0}, "--get_sft draws single candidates"),
        ({"get_sft": True, "min_score": 0.0}, "--get_sft draws single candidates"),
        ({"twins": 1.0, "min_reward": 2.0}, "no turn of .* reward of at least 2"),
        ({"draws": "thirds"}, "--draws must be"),
    ):
        with pytest.raises(UsageError, match=words):
            generate_random_pairs_from_ranks(source, output, overwrite=True, **flags)


def test_a_regression_head_scores_without_reference(models, sampled, tmp_path):
    import torch
    from transformers import AutoModelForCausalLM, LlamaForSequenceClassification

    config = AutoModelForCausalLM.from_pretrained(models["critic"]).config
    config.num_labels = 1
    torch.manual_seed(0)
    LlamaForSequenceClassification(config).save_pretrained(tmp_path / "head")
    tiny_tokenizer().save_pretrained(tmp_path / "head")
    rank_best_of_n(sampled, tmp_path / "ranked.jsonl", str(tmp_path / "head"), quiet=True)
    scores = [score for row in rows_of(tmp_path / "ranked.jsonl") for score in row["judge_result"]]
    assert len(scores) == 24
    assert len({round(score, 6) for score in scores}) > 12


def test_what_is_wrong_is_named(models, source, sampled, tmp_path):
    broken, output = tmp_path / "broken.jsonl", tmp_path / "out.jsonl"

    def with_row(change):
        rows = rows_of(sampled)
        change(rows[1])
        replace_rows(broken, rows)
        return broken

    with pytest.raises(UsageError, match=r"No model could be loaded from '.*/absent'"):
        rank_best_of_n(sampled, output, str(tmp_path / "absent"), quiet=True)
    with pytest.raises(UsageError, match="No model could be loaded"):
        rank_best_of_n(sampled, output, str(source.parent), to_continue=True, quiet=True)
    with pytest.raises(UsageError, match="--advantage paper needs --reference_model"):
        rank_best_of_n(sampled, output, models["critic"], advantage="paper")
    unknown = with_row(lambda row: row.update(additional_reference_logprobs=[None] * 4))
    with pytest.raises(DataError, match=r"line 2.*reference_logprobs\[0\].*--reference_model"):
        rank_best_of_n(unknown, output, models["critic"], overwrite=True, quiet=True)
    with pytest.raises(DataError, match=r"line 1: field 'judge_result' is missing.*rank_best_of_n"):
        generate_random_pairs_from_ranks(sampled, output)
    rank_best_of_n(sampled, tmp_path / "ranked.jsonl", models["critic"], quiet=True)
    rows = rows_of(tmp_path / "ranked.jsonl")
    replace_rows(broken, [row | {"judge_result": [1, 1, 1, 1]} for row in rows])
    with pytest.raises(UsageError, match="6 of 6 rows have scores that are all the same"):
        generate_random_pairs_from_ranks(broken, output)
    replace_rows(broken, [row | {"additional_outputs": ["same"] * 4} for row in rows])
    with pytest.raises(UsageError, match="6 of 6 rows have candidates that are all the same text"):
        generate_random_pairs_from_ranks(broken, output)
    replace_rows(broken, [{k: v for k, v in row.items() if k != "end_token"} for row in rows])
    with pytest.raises(DataError, match=r"end_token.*--tokenizer"):
        generate_random_pairs_from_ranks(broken, output)
    replace_rows(broken, [])
    for stage in (
        lambda: sample_best_of_n(broken, output, models["policy"], overwrite=True),
        lambda: rank_best_of_n(broken, output, models["critic"], overwrite=True),
        lambda: generate_random_pairs_from_ranks(broken, output),
    ):
        with pytest.raises(UsageError, match="holds no"):
            stage()
    with pytest.raises(UsageError, match="there are no alternatives to sample"):
        sample_best_of_n(source, output, "oracle", overwrite=True)


def test_a_critic_that_gives_no_numbers_is_named(models, sampled, tmp_path):
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(models["critic"])
    model.lm_head.weight.data[:] = math.nan
    model.save_pretrained(tmp_path / "nan")
    tiny_tokenizer().save_pretrained(tmp_path / "nan")
    with pytest.raises(DataError, match=r"line 1: field 'additional_outputs\[0\]' gets no number.*nan"):
        rank_best_of_n(sampled, tmp_path / "out.jsonl", str(tmp_path / "nan"), quiet=True)


def test_published_ranking_and_a_model_without_template(models, sampled, tmp_path):
    """The header is scored and the end token is not; without a chat template only the fixed mode works."""
    rank_best_of_n(sampled, tmp_path / "a.jsonl", models["critic"], compat="published", quiet=True)
    row = rows_of(tmp_path / "a.jsonl")[0]
    tokenizer = tiny_tokenizer()
    header = "<|header|>assistant<|end_header|>\n\n"
    context = f"<|begin|>{row['input_with_ground_truth'].removesuffix(header)}"
    ids = tokenizer(header + row["additional_outputs"][0], add_special_tokens=False)["input_ids"]
    expected = plain_mean(models["critic"], context, ids) - row["additional_reference_logprobs"][0]
    assert row["judge_result"][0] == pytest.approx(expected, abs=1e-4)
    folder = str(save_tiny_gpt2(tmp_path / "gpt2"))
    with pytest.raises(UsageError, match="no chat template"):
        rank_best_of_n(sampled, tmp_path / "b.jsonl", folder, compat="published", quiet=True)
    rank_best_of_n(sampled, tmp_path / "b.jsonl", folder, to_continue=True, quiet=True)


def test_ctrl_c_says_how_to_go_on(models, tmp_path, capsys):
    """Interrupted from beside as soon as a row is there; the run itself has the main thread."""
    replace_rows(tmp_path / "in.jsonl", trajectories(60))
    output = tmp_path / "out.jsonl"

    def interrupt():
        while not (output.exists() and output.stat().st_size):
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        sample_best_of_n(
            tmp_path / "in.jsonl", output, models["policy"], max_tokens=30, batch_size=1, quiet=True
        )
    there = len(rows_of(output))
    assert 0 < there < 120
    assert (
        f"{there} of 120 rows are in {output}; the same command with --to_continue" in capsys.readouterr().err
    )
