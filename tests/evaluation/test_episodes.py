"""Rows to numbers: what counts, what does not, and files that are torn or being written."""

import json

import pytest
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from sweet_rl.errors import DataError, UsageError
from sweet_rl.evaluation.episodes import episodes_of, read_episodes, rows_at
from sweet_rl.evaluation.measures import passes
from sweet_rl.evaluation.sources import labels_of
from sweet_rl.records import load_trajectories, locked
from tests.evaluation.samples import row, write


def test_an_episode_in_numbers(tmp_path):
    rows = [
        row("t1", 1.0, turns=3, family="sums"),
        row("t2", 0.5),
        row("t3", 1.0, stop_reason="user_failed", error={"kind": "timeout"}),
    ]
    path = write(tmp_path / "a.jsonl", rows)
    first, second, third = read_episodes(path).episodes
    assert (first.success, first.reward, first.turns, first.questions, first.family) == (1, 1.0, 3, 2, "sums")
    assert (second.success, second.questions) == (0, 0)
    assert (third.failed, third.reward, third.success) == (True, None, None)
    assert [each["task_id"] for each in rows_at(tmp_path / "a.jsonl", [second.offset])] == ["t2"]
    in_memory = episodes_of(load_trajectories(path))
    assert [(one.task, one.success, one.turns) for one in in_memory.episodes] == [
        (one.task, one.success, one.turns) for one in read_episodes(path).episodes
    ]


def test_labels_are_as_short_as_they_differ():
    assert labels_of(["evals/code-test-a/episodes.jsonl", "evals/code-test-b/episodes.jsonl"]) == ["a", "b"]
    assert labels_of(["x/a.jsonl", "y/a.jsonl"]) == ["x/a", "y/a"]
    assert labels_of(["a.jsonl", "b.jsonl"]) == ["a", "b"]
    assert labels_of(["a.jsonl", "a.jsonl"]) == ["a.jsonl (1)", "a.jsonl (2)"]


def test_of_an_episode_that_was_played_again_the_last_row_counts(tmp_path):
    rows = [row("t1", None, stop_reason="user_failed"), row("t1", 1.0)]
    (one,) = read_episodes(write(tmp_path / "a.jsonl", rows)).episodes
    assert (one.failed, one.reward) == (False, 1.0)


def test_a_line_that_is_cut_off_is_told_and_left_out(tmp_path):
    path = tmp_path / "a.jsonl"
    whole = json.dumps(row("t1", 1.0)) + "\n"
    path.write_text(whole + whole.replace("t1", "t2")[:200])
    found = read_episodes(path)
    assert len(found.episodes) == 1
    assert found.problems == ("line 2 is cut off: it is left out",)
    path.write_text(whole[:200] + "\n" + whole)
    with pytest.raises(DataError, match=r"a\.jsonl, line 1: is not JSON"):
        read_episodes(path)
    path.write_text(whole + json.dumps(row("t2", "much")) + "\n")
    with pytest.raises(DataError, match="line 2: field 'reward' must be a finite number"):
        read_episodes(path)
    path.write_text("")
    with pytest.raises(UsageError, match="holds no trajectories"):
        read_episodes(path)


def test_lone_surrogates_and_a_byte_order_mark_are_read_as_the_viewer_reads_them(tmp_path):
    path = tmp_path / "a.jsonl"
    rows = [row("t1", 1.0, says="\ud83d cut, \\\\ud83d, \U0001f600"), row("t\udc00", 0.0)]
    path.write_bytes(b"\xef\xbb\xbf" + "".join(json.dumps(one) + "\n" for one in rows).encode())
    assert b"\\ud83d cut" in path.read_bytes()
    assert [one.task for one in read_episodes(path).episodes] == ["t1", "t\ufffd"]
    whole = write(tmp_path / "b.jsonl", [row("t1", 1.0)])  # a task is the same, whatever else a row holds
    assert read_episodes(path).contents["t1"] == read_episodes(whole).contents["t1"]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ('"graded_with": "x"', r"Expected `object \| null` - at `\$.graded_with`"),
        ('"provenance": {"settings": [1]}', r"at `\$.provenance.settings`"),
        ('"sample_index": -1', "field 'sample_index' must be an integer from 0, got -1"),
        (f'"more": {"[" * 100_000}{"]" * 100_000}', "is nested too deeply"),
        (f'"task": {"[" * 100_000}{"]" * 100_000}', "is nested too deeply"),
    ],
)
def test_a_row_that_is_none_is_named_by_its_line(tmp_path, more, says):
    whole = json.dumps(row("t1", 1.0))
    (tmp_path / "a.jsonl").write_text(f"{whole}\n{whole[:-1]}, {more}}}\n")
    with pytest.raises(DataError, match=rf"a\.jsonl, line 2: .*{says}"):
        read_episodes(tmp_path / "a.jsonl")


def test_a_file_that_a_run_is_writing_is_told(tmp_path):
    path = write(tmp_path / "a.jsonl", [row("t1", 1.0)])
    with locked(path):
        assert "a run is writing to it" in read_episodes(path).problems[0]
    assert not read_episodes(path).problems


def test_published_rows_without_names_count_their_repeats(tmp_path):
    plain = row("t1", 1.0)
    for name in ("task_id", "sample_index", "provenance", "stop_reason", "graded_with"):
        del plain[name]
    del plain["task"]["task_id"]
    found = read_episodes(write(tmp_path / "a.jsonl", [plain, plain | {"reward": 0.0}]))
    assert [(one.sample, one.reward) for one in found.episodes] == [(0, 1.0), (1, 0.0)]
    assert len({one.task for one in found.episodes}) == 1


def test_pass_at_k_over_tasks_by_hand():
    """Two, none and four of four repeats: pass@2 is 5/6, 0 and 1, pass^2 is 1/6, 0 and 1."""
    values = {"a": [1.0, 1.0, 0.0, 0.0], "b": [0.0] * 4, "c": [1.0] * 4, "too few": [1.0]}
    some, every = passes(values, 2)
    assert (some.mean, every.mean) == (pytest.approx((5 / 6 + 0 + 1) / 3), pytest.approx((1 / 6 + 0 + 1) / 3))
    assert some.error == pytest.approx(stats.sem([5 / 6, 0, 1]))
    assert every.error == pytest.approx(stats.sem([1 / 6, 0, 1]))
    # tasks are what is independent: Wilson's interval of three of them
    assert (some.low, some.high) == pytest.approx(
        proportion_confint(3 * some.mean, 3, method="wilson"), abs=1e-6
    )
