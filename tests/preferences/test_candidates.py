"""Offline turns, sampled rows and their goldens: identities, fractions, files that are wrong; credit for dialogues."""

import asyncio
import json
import random

import pytest

from sweet_rl.chat import load_tokenizer, tokenizer_digest
from sweet_rl.errors import DataError, EpisodeError, UsageError
from sweet_rl.preferences.candidates import candidates_from_rows, offline_turns, sample_turns, sampled_row
from sweet_rl.preferences.credit import hidden_of, messages_of
from sweet_rl.preferences.pairs import allowed_pairs, draw_pairs, pair_row, published_draws
from sweet_rl.preferences.ranking import (
    context_of,
    encoding_of,
    logprobs_of,
    published_request,
    published_tokens,
    reduce,
)
from sweet_rl.records import read_rows
from sweet_rl.types import Completion, Failure, FinishReason, StopReason


def trajectory(description="want", *, turns=2, reward=1.0, **fields):
    history = [{"role": "user", "content": description}]
    for turn in range(turns):
        said = {"role": "assistant", "content": "c", "input": f"{description}|{turn}>", "output": "o"}
        history += [said, {"role": "user", "content": "reply"}]
    task = {"problem_description": description, "ground_truth": "def f(): pass"}
    row = {"task": task, "dialogue_history": history[: 2 * turns or 1], "answer": "a"}
    return row | ({} if reward is None else {"reward": reward}) | fields


def numbered(*rows):
    return list(enumerate(rows, start=1))


def test_every_turn_of_a_file_has_an_identity_and_the_published_fields():
    turns = offline_turns(numbered(trajectory("a"), trajectory("b"), trajectory("a")))
    assert len({turn.key for turn in turns}) == 6
    assert [turn.key[1:] for turn in turns] == [(0, 0), (0, 1), (0, 0), (0, 1), (1, 0), (1, 1)]
    left_out = trajectory("b", reward=None, grades={"fixed": None, "published": 1.0})  # cannot be graded
    turns = offline_turns(numbered(trajectory("a"), left_out))
    assert [turn.row["messages"][0]["content"] for turn in turns] == ["a", "a"]
    row = trajectory(turns=1, task_id="t", sample_index=3)
    row["dialogue_history"][1] |= {"token_ids": [1, 2], "logprobs": [-1.0, -2.0]}
    (turn,) = offline_turns(numbered(row))
    assert turn.key == ("t", 3, 0)
    assert set(turn.row["messages"][1]) == {"role", "content", "input", "output"}
    row = trajectory(turns=2)  # a turn without input counts, and is none to sample for
    del row["dialogue_history"][1]["input"], row["dialogue_history"][1]["output"]
    row["dialogue_history"] += [{"role": "user", "content": "x"}, {"role": "user", "content": "y"}]
    (turn,) = offline_turns(numbered(row))
    assert (turn.key[2], turn.prompt) == (1, "want|1>")


@pytest.mark.parametrize(
    ("rows", "error", "words"),
    [
        (
            [trajectory(), trajectory(reward=None)],
            DataError,
            r"line 2: field 'reward' is missing.*evaluate_code",
        ),
        ([trajectory(turns=0, reward=None)], UsageError, r"None of the 1 .* has an agent turn with `input`"),
        ([], UsageError, "holds no trajectories"),
        ([trajectory(task_id="t", sample_index=0)] * 2, DataError, "line 2.*is in the file twice.*line 1"),
        ([trajectory(dialogue_history="hi")], DataError, "dialogue_history.*must be a list"),
    ],
)
def test_files_that_are_wrong(rows, error, words):
    with pytest.raises(error, match=words):
        offline_turns(numbered(*rows), path="f.jsonl")


def test_a_fraction_is_of_the_first_trajectories():
    rows = numbered(*[trajectory(f"task{i}", turns=1) for _ in range(2) for i in range(10)])
    assert [turn.prompt for turn in offline_turns(rows, 0.4)] == [f"task{i}|0>" for i in range(8)]
    for fraction in (0.0, -1.0, 1.5, float("nan")):
        with pytest.raises(UsageError, match="data_fraction"):
            offline_turns(rows, fraction)


class Echo:
    """Completions that tell their prompt and seed; a prompt of task b does not fit."""

    def __init__(self):
        self.asked = []

    async def sample(self, prompts, n, *, seeds=None):
        self.asked.append((prompts[0], n))
        await asyncio.sleep(0)
        if prompts[0].startswith("b"):
            raise EpisodeError(StopReason.CONTEXT_FULL, Failure("context_full", "too long"))
        return [[Completion(f"{seeds[0]}.{i}", (1, 2), (-1.0, -2.0), FinishReason.STOP) for i in range(n)]]


def sample(rows, **options):
    sampler, got = Echo(), {}

    async def keep(turn, completions, failure):
        got[turn.key[1:], turn.prompt] = [c.text for c in completions], failure

    asyncio.run(sample_turns(offline_turns(rows), sampler, keep, seed=0, **options))
    return got, sampler.asked


def test_repeats_get_other_candidates_and_a_failure_stays_in_its_row():
    rows = numbered(*[trajectory(name, turns=1) for name in ("a", "b", "a")])
    got, asked = sample(rows, n=2)
    again, _ = sample(rows[::-1][1:] + rows[2:], n=2, concurrency=1)  # other order, other batches
    first, second = got[(0, 0), "a|0>"][0], got[(1, 0), "a|0>"][0]
    assert len({*first, *second}) == 4
    assert got[(0, 0), "b|0>"][0] == []
    assert got[(0, 0), "b|0>"][1].kind == "context_full"
    assert len(asked) == 3
    assert {first[0], second[0]} == {texts[0] for (_, p), (texts, _) in again.items() if p == "a|0>"}


def test_greedy_prompts_are_asked_for_once():
    rows = numbered(*[trajectory("a", turns=1) for _ in range(3)])
    got, asked = sample(rows, n=4, greedy=True)
    assert asked == [("a|0>", 1)]
    assert {tuple(texts) for texts, _ in got.values()} == {("0.0",) * 4}


def test_a_written_row_reads_back():
    (turn,) = offline_turns(numbered(trajectory(turns=1)))
    completions = [
        Completion("yes", (5, 6, 2), (-0.5, -0.25, -0.75), FinishReason.STOP),
        Completion("", (9,), (-1.0,), FinishReason.LENGTH),
        Completion("chat"),
    ]
    row = sampled_row(turn, completions, tokenizer="abc", end_token="<e>", settings={"n": 3})
    assert row["additional_reference_logprobs"] == [-0.5, -1.0, None]
    assert row["additional_reference_logprobs_sum"] == [-1.5, -1.0, None]
    (read,) = candidates_from_rows([(7, row)])
    assert read.key == turn.key
    assert [c.cut for c in read.candidates] == [False, True, False]
    assert [c.token_ids for c in read.candidates] == [(5, 6, 2), (9,), None]
    assert (read.tokenizer, read.end_token, read.scores, read.line) == ("abc", "<e>", None, 7)


def sampled(**fields):
    base = {"input": "i", "ground_truth": "g", "messages": [], "additional_outputs": ["a", "b"]}
    return base | {"additional_reference_logprobs": [-1, -2.0]} | fields


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (sampled(input=None), "'input' must be a string"),
        (sampled(ground_truth=3), "'ground_truth' must be a string"),
        (sampled(additional_outputs=None), "'additional_outputs' must be a list of strings"),
        (sampled(additional_outputs=["a", None]), "'additional_outputs' must be a list of strings"),
        (sampled(additional_reference_logprobs=[-1.0]), "must have 2 entries, one for each candidate"),
        (sampled(additional_token_ids=[["a"], None]), "must be a list of lists of token ids"),
        (sampled(messages=True), "'messages' must be a list of messages"),
        (sampled(messages=[{"role": "user"}]), "'messages' must be a list of messages"),
        (sampled(judge_result=["x", 1]), "'judge_result' must be a list of numbers"),
    ],
)
def test_sampled_rows_that_are_wrong(row, words):
    with pytest.raises(DataError, match=words) as caught:
        candidates_from_rows([(4, row)], path="f.jsonl")
    assert "f.jsonl, line 4" in str(caught.value)


def test_rows_may_differ_in_their_number_of_candidates():
    rows = candidates_from_rows(
        numbered(
            sampled(),
            sampled(additional_outputs=[], additional_reference_logprobs=[]),
            sampled(additional_outputs=["", "x", "y"], additional_reference_logprobs=None),
        )
    )
    assert [len(row.candidates) for row in rows] == [2, 0, 3]
    assert [row.key[1] for row in rows] == [0, 1, 2]


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


def sampled_from(golden, **options):
    turns = offline_turns(list(read_rows(golden / "sample_input.jsonl")), **options)
    sampler = RecordedSampler(load(golden / "fake_generation.json")["llm_call"])
    rows = {}

    async def keep(turn, completions, failure):
        rows[turn.key] = sampled_row(turn, completions, tokenizer=None, end_token=None, settings={})

    asyncio.run(sample_turns(turns, sampler, keep, n=16, seed=0))
    return [rows[turn.key] for turn in turns], sampler.asked


def test_sampled_rows_are_the_published_ones(golden):
    rows, asked = sampled_from(golden)
    expected = [row for _, row in read_rows(golden / "expected_sampled.jsonl")]
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
            reduce(value, use_sum=options["use_sum"])
            - (candidate.total if options["use_sum"] else candidate.mean)
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
    tokenizer = load_tokenizer(shared / "goldens/sweet_rl/e_dpo/tokenizer")
    assert encoding.digest == tokenizer_digest(tokenizer)


ASKED = {"role": "user", "content": "Please write f."}
SAID = {"role": "assistant", "content": "What should it return?"}


@pytest.mark.parametrize("value", [5, ["def f(): pass"], b"def f(): pass", {"a": 1}, 0.5, "\ud800"])
def test_hidden_information_is_a_text_or_none(value):
    told = r"field 'hidden\[3\]' (must be a text|is no text that can be tokenised)"
    with pytest.raises(DataError, match=told):
        hidden_of(value, "hidden[3]")
    assert [hidden_of(one, "hidden") for one in (None, "", "def f(): pass")] == [None, "", "def f(): pass"]


@pytest.mark.parametrize(
    ("dialogue", "says"),
    [
        (None, "'d' must be a list of messages, got None"),
        ("Hello", "'d' must be a list of messages, got 'Hello'"),
        ([SAID], r"'d\[0\]' is a turn of the agent behind nothing.* Put what it was asked before it"),
        ([ASKED, 5], r"'d\[1\]' must be a message, got 5"),
        ([ASKED, SAID | {"content": "\ud800"}], r"'d\[1\].content' is no text that can be tokenised"),
    ],
)
def test_what_is_no_dialogue_of_text_is_named(dialogue, says):
    with pytest.raises(DataError, match=says):
        messages_of(dialogue, "d")


def test_a_turn_that_brings_its_prompt_needs_nothing_before_it():
    (turn,) = messages_of([SAID | {"input": "USER: Please write f. AGENT:"}])
    assert turn.input == "USER: Please write f. AGENT:"
