"""Which episodes a file holds, when it may be continued, and its final order."""

import json

import pytest

from sweet_rl.errors import DataError, UsageError
from sweet_rl.rollout import schedule
from sweet_rl.runs import finish, open_journal, plan
from sweet_rl.types import Task

SETTINGS = {"seed": 0, "parser": "published"}


def tasks(n):
    return [Task(f"t{i}", "p", "g", "g", {}, {"n": i}) for i in range(n)]


def row(i, j, settings=SETTINGS, **more):
    return {
        "task": {"n": i},
        "task_id": f"t{i}",
        "sample_index": j,
        "provenance": {"settings": settings},
    } | more


def number(rows):
    return list(enumerate(rows, start=1))


def todo(run):
    return [(episode.task.task_id, episode.sample_index) for episode in run.todo]


def test_what_is_there_is_not_played_again():
    run = plan(schedule(tasks(3), 2), number([row(2, 0), row(0, 1)]), settings=SETTINGS, path="f")
    assert todo(run) == [("t0", 0), ("t1", 0), ("t1", 1), ("t2", 1)]
    assert run.done == {("t2", 0), ("t0", 1)}


def test_rows_of_a_published_file_are_known_by_their_place():
    published = [{"task": {"n": i}, "dialogue_history": [], "answer": None} for i in (0, 1, 2, 0)]
    run = plan(schedule(tasks(3), 2), number(published), settings=SETTINGS, path="f")
    assert todo(run) == [("t1", 1), ("t2", 1)]
    with pytest.raises(UsageError, match="line 1: the task 't0' differs"):
        plan(schedule(tasks(3), 2), number(published[::-1][1:]), settings=SETTINGS, path="f")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row(0, 0), row(7, 0)], "line 2: this episode is of a task that is not among yours"),
        ([row(0, 0) | {"task": {"n": "changed"}}], "line 1: the task 't0' differs"),
        ([row(0, 0, {"seed": 1, "parser": "published"})], "seed was 1, is 0"),
        ([row(0, 0, {"seed": 0})], "parser was None, is 'published'"),
    ],
)
def test_a_file_made_otherwise_is_refused_unless_told(rows, message):
    with pytest.raises(UsageError, match=message):
        plan(schedule(tasks(3), 1), number(rows), settings=SETTINGS, path="f")
    run = plan(schedule(tasks(3), 1), number(rows), settings=SETTINGS, path="f", force=True)
    assert ("t0", 0) not in todo(run)


def test_more_repeats_than_wanted_are_kept(tmp_path):
    file = tmp_path / "f.jsonl"
    rows = [row(0, 1), row(1, 0), row(0, 0)]
    file.write_text("".join(json.dumps(r) + "\n" for r in rows))
    run = plan(schedule(tasks(2), 1), number(rows), settings=SETTINGS, path=file)
    assert run.todo == ()
    finish(file, run)
    assert [json.loads(line) for line in file.read_text().splitlines()] == [rows[2], rows[1], rows[0]]


def test_a_doubled_episode_is_named():
    with pytest.raises(DataError, match="Delete this line or line 1"):
        plan(schedule(tasks(1), 1), number([row(0, 0), row(0, 0)]), settings=SETTINGS, path="f")


def test_the_finished_file_is_in_published_order_and_untouched_when_it_was(tmp_path):
    file = tmp_path / "f.jsonl"
    rows = [row(i, j) for i in (2, 0, 1) for j in (1, 0)]
    file.write_text("".join(json.dumps(r) + "\n" for r in rows))
    run = plan(schedule(tasks(3), 2), number(rows), settings=SETTINGS, path=file)
    finish(file, run)
    order = [(r["task_id"], r["sample_index"]) for r in map(json.loads, file.read_text().splitlines())]
    assert order == [("t0", 0), ("t1", 0), ("t2", 0), ("t0", 1), ("t1", 1), ("t2", 1)]
    inode = file.stat().st_ino
    finish(file, run)
    assert file.stat().st_ino == inode


def test_rows_are_never_thrown_away_by_accident(tmp_path):
    file = tmp_path / "f.jsonl"
    file.write_text("{}\n")
    with pytest.raises(UsageError, match="already holds a run"):
        open_journal(file, to_continue=False, overwrite=False)
    with pytest.raises(UsageError, match="exclude"):
        open_journal(file, to_continue=True, overwrite=True)
    with pytest.raises(UsageError, match="is a folder"):
        open_journal(tmp_path, to_continue=True, overwrite=False)
    assert file.read_text() == "{}\n"
    with open_journal(file, to_continue=False, overwrite=True) as journal:
        assert journal.rows == []
        assert file.read_text() == "{}\n"  # until it is certain that the run begins
        journal.begin()
    assert file.read_text() == ""
    with open_journal(tmp_path / "new.jsonl", to_continue=True, overwrite=False) as journal:
        assert journal.rows == []


FAILED = {"stop_reason": "user_failed", "error": {"kind": "timeout"}}


def test_what_failed_is_played_again_unless_told():
    rows = number([row(0, 0, **FAILED), row(1, 0, stop_reason="context_full"), row(2, 0)])
    assert todo(plan(schedule(tasks(3), 1), rows, settings=SETTINGS, path="f")) == [("t0", 0)]
    kept = plan(schedule(tasks(3), 1), rows, settings=SETTINGS, path="f", retry_failed=False)
    assert kept.todo == ()


def test_of_several_tries_the_last_stays(tmp_path):
    """What a run leaves that was killed while it played failed episodes again; no row is lost before."""
    rows = [row(1, 0, **FAILED), row(0, 0, **FAILED), row(1, 0, n=2), row(0, 0, n=2, **FAILED), row(2, 0)]
    run = plan(schedule(tasks(3), 1), number(rows), settings=SETTINGS, path="f")
    assert todo(run) == [("t0", 0)]
    file = tmp_path / "f.jsonl"
    file.write_text("".join(json.dumps(r) + "\n" for r in rows))
    assert finish(file, run) == [rows[3]]
    assert [json.loads(line) for line in file.read_text().splitlines()] == [rows[3], rows[2], rows[4]]
    with pytest.raises(DataError, match="twice"):
        plan(schedule(tasks(3), 1), number([*rows, row(1, 0)]), settings=SETTINGS, path="f")
