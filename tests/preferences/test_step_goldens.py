"""Sampling, ranking and pairs against the published files (goldens d_sampling)."""

import asyncio
import json
import random

import pytest

from sweet_rl.chat import tokenizer_digest
from sweet_rl.errors import UsageError
from sweet_rl.preferences.candidates import candidates_from_rows, offline_turns, sample_turns, sampled_row
from sweet_rl.preferences.ranking import (
    advantage,
    context_of,
    encoding_of,
    logprobs_of,
    published_request,
    published_tokens,
    reduce,
    stored_reference,
)
from sweet_rl.preferences.step_pairs import allowed_pairs, draw_pairs, pair_row, published_draws
from sweet_rl.records import read_rows
from sweet_rl.types import Completion, FinishReason

VARIANTS = {
    "ground_truth_mean": {"with_ground_truth": True, "use_sum": False},
    "ground_truth_sum": {"with_ground_truth": True, "use_sum": True},
    "no_ground_truth_mean": {"with_ground_truth": False, "use_sum": False},
}


@pytest.fixture
def golden(shared):
    return shared / "goldens/sweet_rl/d_sampling"


@pytest.fixture(scope="module")
def encoding(shared):
    return encoding_of(str(shared / "goldens/sweet_rl/e_dpo/tokenizer"), needs_header=True)


def load(path):
    return json.loads(path.read_text())


def expected_rows(path):
    return [row for _, row in read_rows(path)]


class RecordedSampler:
    """The golden's generations, by prompt."""

    def __init__(self, recorded):
        self.outputs = dict(zip(recorded["prompts"], recorded["outputs"], strict=True))
        self.asked = []

    async def sample(self, prompts, n, *, seeds=None):
        self.asked += prompts
        return [
            [
                Completion(one["text"], None, tuple(one["logprobs"]), FinishReason.STOP)
                for one in self.outputs[prompt][:n]
            ]
            for prompt in prompts
        ]


def sampled(golden, **options):
    turns = offline_turns(list(read_rows(golden / "sample_input.jsonl")), **options)
    sampler = RecordedSampler(load(golden / "fake_generation.json")["llm_call"])
    rows = {}

    async def keep(turn, completions, failure):
        rows[turn.key] = sampled_row(turn, completions, tokenizer=None, end_token=None, settings={})

    asyncio.run(sample_turns(turns, sampler, keep, n=16, seed=0))
    return [rows[turn.key] for turn in turns], sampler.asked


def test_sampled_rows_are_the_published_ones(golden):
    rows, asked = sampled(golden)
    expected = expected_rows(golden / "expected_sampled.jsonl")
    published = load(golden / "expected_sample_counts.json")["row_keys"]
    assert [{key: row[key] for key in published} for row in rows] == expected
    assert sorted(asked) == sorted(load(golden / "fake_generation.json")["llm_call"]["prompts"])
    keys = [(row["sample_index"], row["turn_index"]) for row in rows]
    assert keys == [(0, 0), (0, 1), (0, 0), (0, 0), (0, 1), (0, 2), (0, 0)]


@pytest.mark.parametrize(("fraction", "count"), [(0.4, 3), (0.5, 3), (0.99, 7), (0.1, None)])
def test_fractions(golden, fraction, count):
    """A fraction of less than one trajectory crashes the original; here it is named, and fixed."""
    rows = list(read_rows(golden / "sample_input.jsonl"))
    if count is None:
        with pytest.raises(UsageError, match="less than one"):
            offline_turns(rows, fraction, published=True)
        assert len(offline_turns(rows, fraction)) == 2
    else:
        assert len(offline_turns(rows, fraction, published=True)) == count


class RecordedScorer:
    """The golden's log-probabilities, by the ids of the whole request without the header after it."""

    def __init__(self, requests, header_length):
        self.by_ids = {tuple(r["token_ids"][:-header_length]): r["logprobs"] for r in requests}

    async def score(self, contexts, candidates):
        return [
            [self.by_ids[(*context, *one)][len(context) : len(context) + len(one)] for one in row]
            for context, row in zip(contexts, candidates, strict=True)
        ]


@pytest.mark.parametrize("name", VARIANTS)
def test_published_scores(golden, encoding, name):
    options = VARIANTS[name]
    requests = load(golden / f"fake_prompt_logprobs_{name}.json")["requests"]
    rows = candidates_from_rows(list(read_rows(golden / "expected_sampled.jsonl")))
    contexts = [context_of(row, with_ground_truth=options["with_ground_truth"]) for row in rows]
    tokens = [published_tokens(row, context, encoding) for row, context in zip(rows, contexts, strict=True)]
    scorer = RecordedScorer(requests, encoding.header_length)
    logprobs = asyncio.run(logprobs_of(scorer, tokens))
    expected = load(golden / "expected_judge_results.json")[name]["judge_result"]
    for row, values, scores in zip(rows, logprobs, expected, strict=True):
        ours = [
            advantage(
                reduce(value, use_sum=options["use_sum"]),
                stored_reference(candidate, use_sum=options["use_sum"]),
            )
            for value, candidate in zip(values, row.candidates, strict=True)
        ]
        assert ours == pytest.approx(scores, abs=1e-5)


@pytest.mark.parametrize("name", VARIANTS)
def test_published_requests(golden, encoding, name):
    """Every request string and its ids, with the second begin token, in order."""
    requests = iter(load(golden / f"fake_prompt_logprobs_{name}.json")["requests"])
    for row in candidates_from_rows(list(read_rows(golden / "expected_sampled.jsonl"))):
        context = context_of(row, with_ground_truth=VARIANTS[name]["with_ground_truth"])
        for candidate, one in zip(row.candidates, published_tokens(row, context, encoding), strict=True):
            request = next(requests)
            prompt = published_request(context, candidate.text, encoding)
            assert prompt == request["prompt"]
            assert encoding.encode_with_special(prompt) == request["token_ids"]
            assert [*one.context, *one.tokens] == request["token_ids"][: -encoding.header_length]
    assert next(requests, None) is None


def test_published_pairs_are_the_allowed_ones(golden):
    rows = candidates_from_rows(list(read_rows(golden / "pairs_input.jsonl")))
    drawn = published_draws(rows, 2000, random.Random(1), get_sft=False)
    for allowed, pairs in zip(load(golden / "expected_pairs.json")["allowed"], drawn, strict=True):
        expected = {tuple(pair) for pair in allowed["allowed_chosen_rejected"]}
        assert set(map(tuple, pairs)) == expected


@pytest.mark.parametrize(
    ("name", "count", "options"),
    [
        ("no_prompt_num_pairs_4", 4, {"no_prompt": True}),
        ("with_prompt_num_pairs_4", 4, {"no_prompt": False}),
        ("get_sft_num_pairs_2", 2, {"no_prompt": False}),
    ],
)
def test_published_output_to_the_last_draw(golden, name, count, options):
    expected = load(golden / "expected_pairs.json")
    rows = candidates_from_rows(list(read_rows(golden / "pairs_input.jsonl")))
    rng = random.Random(42)
    drawn = published_draws(rows, count, rng, get_sft="sft" in name)
    pairs = [
        pair_row(row, pair, end_token=expected["eos_token"], published=True, **options)
        for row, row_pairs in zip(rows, drawn, strict=True)
        for pair in row_pairs
    ]
    rng.shuffle(pairs)
    assert pairs == expected["exact_output_seed42_cpython_random"][name]


def test_fixed_pairs_are_the_allowed_ones_without_ties(golden):
    rows = candidates_from_rows(list(read_rows(golden / "pairs_input.jsonl")))
    for row, allowed in zip(rows, load(golden / "expected_pairs.json")["allowed"], strict=True):
        pairs = draw_pairs(row, 1000, random.Random(0))
        assert len(pairs) == len(set(pairs))
        expected = {tuple(pair) for pair in allowed["allowed_chosen_rejected"]}
        distinct = {(a, b) for a, b in expected if row.scores[a] > row.scores[b]}
        assert set(map(tuple, pairs)) == set(map(tuple, allowed_pairs(row))) == distinct
    assert not draw_pairs(rows[3], 4, random.Random(0))  # sixteen equal scores


def test_the_header_is_the_published_one(encoding, shared):
    assert encoding.header == "<|start_header_id|>assistant<|end_header_id|>\n\n"
    assert encoding.header_length == 4
    from sweet_rl.chat import load_tokenizer

    tokenizer = load_tokenizer(shared / "goldens/sweet_rl/e_dpo/tokenizer")
    assert encoding.digest == tokenizer_digest(tokenizer)
