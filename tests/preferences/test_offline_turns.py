"""Offline turns and sampled rows: identities, fractions, and files that are wrong."""

import asyncio

import pytest

from sweet_rl.errors import DataError, EpisodeError, UsageError
from sweet_rl.preferences.candidates import candidates_from_rows, offline_turns, sample_turns, sampled_row
from sweet_rl.types import Completion, Failure, FinishReason, StopReason


def trajectory(description="want", *, turns=2, reward=1.0, **fields):
    history = [{"role": "user", "content": description}]
    for turn in range(turns):
        history.append(
            {"role": "assistant", "content": "c", "input": f"{description}|{turn}>", "output": "o"}
        )
        history.append({"role": "user", "content": "reply"})
    task = {"problem_description": description, "ground_truth": "def f(): pass"}
    row = {"task": task, "dialogue_history": history[: 2 * turns or 1], "answer": "a"}
    return row | ({} if reward is None else {"reward": reward}) | fields


def numbered(*rows):
    return list(enumerate(rows, start=1))


def test_repeats_of_a_published_file_get_identities_of_their_own():
    turns = offline_turns(numbered(trajectory("a"), trajectory("b"), trajectory("a")))
    assert len({turn.key for turn in turns}) == 6
    assert [turn.key[1:] for turn in turns] == [(0, 0), (0, 1), (0, 0), (0, 1), (1, 0), (1, 1)]


def test_what_cannot_be_graded_is_passed_over():
    left_out = trajectory("b", reward=None, grades={"fixed": None, "published": 1.0})
    turns = offline_turns(numbered(trajectory("a"), left_out))
    assert [turn.row["messages"][0]["content"] for turn in turns] == ["a", "a"]


def test_messages_hold_the_published_fields_only():
    row = trajectory(turns=1, task_id="t", sample_index=3)
    row["dialogue_history"][1] |= {"token_ids": [1, 2], "logprobs": [-1.0, -2.0]}
    (turn,) = offline_turns(numbered(row))
    assert turn.key == ("t", 3, 0)
    assert set(turn.row["messages"][1]) == {"role", "content", "input", "output"}


def test_an_odd_history_gives_its_turns_and_counts_those_without_input():
    row = trajectory(turns=2)
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
        (
            [trajectory(task_id="t", sample_index=0)] * 2,
            DataError,
            "line 2.*is in the file twice.*line 1",
        ),
        ([trajectory(dialogue_history="hi")], DataError, "dialogue_history.*must be a list"),
    ],
)
def test_files_that_are_wrong(rows, error, words):
    with pytest.raises(error, match=words):
        offline_turns(numbered(*rows), path="f.jsonl")


@pytest.mark.parametrize("fraction", [0.0, -1.0, 1.5, float("nan")])
def test_fractions_that_are_none(fraction):
    with pytest.raises(UsageError, match="data_fraction"):
        offline_turns(numbered(trajectory()), fraction)


def test_shuffling_takes_whole_tasks_and_keeps_the_order_of_the_file():
    rows = numbered(*[trajectory(f"task{i}", turns=1) for _ in range(2) for i in range(10)])
    first = offline_turns(rows, 0.4)
    assert [turn.prompt for turn in first] == [f"task{i}|0>" for i in range(8)]
    shuffled = offline_turns(rows, 0.4, shuffle_seed=1)
    prompts = [turn.prompt for turn in shuffled]
    assert len(prompts) == 8
    assert len(set(prompts)) == 4
    assert prompts[:4] == prompts[4:] == sorted(prompts[:4])
    assert prompts != [turn.prompt for turn in offline_turns(rows, 0.4, shuffle_seed=2)]


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
