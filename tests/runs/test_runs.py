"""What a record says of a run, also of one that was killed, continued, overwritten; which episodes a file has and how it is resumed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sweet_rl import tracking
from sweet_rl.cli.stage import recorded
from sweet_rl.errors import DataError, StorageError, UsageError
from sweet_rl.rollout import schedule
from sweet_rl.runs import finish, open_journal, plan
from sweet_rl.runs import record as records
from sweet_rl.runs.facts import Price, cost_of, digest_of, load_prices, runs_below, unchanged
from sweet_rl.tracking import Usage
from sweet_rl.types import Task


@recorded("write", reads=("source",), prices=True)
def write(
    output: str,
    *,
    source: str | None = None,
    seed: int = 0,
    to_continue: bool = False,
    api_key_var: str = "SOME_CREDENTIAL",
    tokens: int = 0,
    error: str | None = None,
) -> None:
    """Write a file.

    Args:
        output: the file.
    """
    tracking.writes(output, continues=to_continue)
    if tokens:
        with tracking.role("user"):
            usage = tracking.meter("gpt")
        usage.requests += 1
        usage.add(tokens, 1)
    if error:
        kinds = {"UsageError": UsageError, "KeyboardInterrupt": KeyboardInterrupt}
        raise kinds[error](os.environ.get(api_key_var))
    with Path(output).open("a") as file:
        file.write("x\n")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "out.jsonl.run.json"


def content(place):
    return json.loads(place.read_text())


def test_a_continued_run_keeps_its_id_and_sums_up(place):
    write("out.jsonl", tokens=100)
    first = content(place)
    write("out.jsonl", to_continue=True, tokens=20, seed=0)
    write("out.jsonl", to_continue=True, tokens=3, seed=5)
    last = content(place)
    assert last["id"] == first["id"]
    assert last["started"] == first["started"]
    assert last["usage"]["user"]["gpt"]["prompt_tokens"] == 123
    assert last["usage"]["user"]["gpt"]["requests"] == 3
    assert [one["usage"]["user"]["gpt"]["prompt_tokens"] for one in last["sessions"]] == [100, 20, 3]
    assert last["wall_s"] == pytest.approx(sum(one["wall_s"] for one in last["sessions"]), abs=0.02)
    assert "settings" in last["sessions"][1]  # it had another seed than the last one
    assert last["seeds"] == {"seed": 5}
    assert last["sessions"][1]["seeds"] == {"seed": 0}
    assert "versions" not in last["sessions"][1]


def test_what_is_overwritten_is_named(place):
    write("out.jsonl")
    first = content(place)
    write("out.jsonl")
    second = content(place)
    assert second["id"] != first["id"]
    assert second["replaces"] == first["id"]
    assert len(second["sessions"]) == 1


def test_failures_and_interruptions_are_told(place, tmp_path, monkeypatch):
    (tmp_path / "out.jsonl").write_text("")
    monkeypatch.setenv("SOME_CREDENTIAL", "sk-very-secret")
    with pytest.raises(UsageError):
        write("out.jsonl", error="UsageError", tokens=5)
    found = content(place)
    assert (found["status"], found["error"]) == ("failed", "[secret]")
    assert "sk-very" not in place.read_text()
    assert found["settings"]["api_key_var"] == "SOME_CREDENTIAL"
    with pytest.raises(KeyboardInterrupt):
        write("out.jsonl", error="KeyboardInterrupt", to_continue=True)
    write("out.jsonl", to_continue=True)
    assert [one["status"] for one in content(place)["sessions"]] == ["failed", "interrupted", "finished"]


def test_where_nothing_came_of_a_run_nothing_is_left(place, tmp_path):
    with pytest.raises(UsageError):
        write("out.jsonl", error="UsageError")
    assert list(tmp_path.iterdir()) == []


def test_secrets_in_commands_are_left_out(monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", 'quo"ted-secret')
    text = json.dumps({"a": 'quo"ted-secret', "b": "https://me:word@host/v1", "c": "--api-key abc --x 1"})
    without = {"a": "[secret]", "b": "https://[secret]@host/v1", "c": "--api-key [secret] --x 1"}
    assert json.loads(records.without_secrets(text)) == without


def test_only_the_first_process_of_a_launcher_writes(place, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    unfinished = place.with_name(".out.jsonl.run.json.abc.tmp")  # the first process writes just now
    unfinished.write_text("{")
    write("out.jsonl")
    assert not place.exists()
    assert unfinished.exists()
    monkeypatch.setenv("RANK", "0")
    write("out.jsonl")
    assert content(place)["processes"] == 2


def test_inputs_are_as_they_were_read_even_if_they_are_replaced(place, tmp_path):
    (tmp_path / "in.jsonl").write_text("before\n")
    before = digest_of(tmp_path / "in.jsonl")["sha256"]

    @recorded("replace", reads=("source",))
    def replace(source: str) -> None:
        (tmp_path / "new").write_text("after\n")
        (tmp_path / "new").replace(tmp_path / "in.jsonl")
        tracking.writes("out.jsonl")
        (tmp_path / "out.jsonl").write_text("x")

    replace("in.jsonl")
    (entry,) = content(place)["inputs"]
    assert entry["sha256"] == before
    assert unchanged(tmp_path / "in.jsonl", entry) is False


def test_a_stage_in_a_stage_names_it(place, tmp_path):
    @recorded("outer")
    def outer() -> None:
        tracking.writes("folder", folder=True)
        write("out.jsonl")

    outer()
    assert content(place)["parent"] == content(tmp_path / "folder/run.json")["id"]


def test_a_record_that_cannot_be_written_fails_the_stage(place, monkeypatch):
    def full(*_):
        raise StorageError("the disk is full")

    monkeypatch.setattr(records, "replace_file", full)
    with pytest.raises(StorageError, match="full"):
        write("out.jsonl")


KILLED = """
import sys, time
sys.path.insert(0, {root!r})
from sweet_rl import tracking
from sweet_rl.runs import record
record._EVERY_S = 0.05
from sweet_rl.cli.stage import recorded

@recorded("write")
def write(output: str) -> None:
    tracking.writes(output)
    open(output, "w").write("x")
    usage = tracking.meter("gpt", "agent")
    usage.requests += 1
    usage.add(7, 1)
    print("there", flush=True)
    time.sleep(60)

write("out.jsonl")
"""


def test_a_killed_run_says_running_and_the_next_session_says_so(place, tmp_path):
    from tests.conftest import ROOT

    child = subprocess.Popen([sys.executable, "-c", KILLED.format(root=str(ROOT))], stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"there\n"
    deadline = time.monotonic() + 30
    while not (place.exists() and content(place)["usage"]) and time.monotonic() < deadline:
        time.sleep(0.02)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    killed = content(place)
    assert killed["status"] == "running"
    assert killed["usage"]["agent"]["gpt"]["prompt_tokens"] == 7
    write("out.jsonl", to_continue=True, tokens=2)
    found = content(place)
    assert found["id"] == killed["id"]
    assert [one["status"] for one in found["sessions"]] == ["interrupted", "finished"]
    assert "noticed" in found["sessions"][0]
    assert found["usage"]["agent"]["gpt"]["prompt_tokens"] == 7


def test_large_weights_are_sampled_and_a_training_is_seen(tmp_path):
    path = tmp_path / "model.safetensors"
    with path.open("wb") as file:
        file.truncate(80 << 20)
    before = digest_of(path)
    assert before["sampled"] is True
    with path.open("r+b") as file:  # every tensor moves a little
        for offset in range(0, 80 << 20, 32 << 10):
            file.seek(offset)
            file.write(b"1")
    assert digest_of(path)["sha256"] != before["sha256"]
    os.utime(path, (before["mtime"], before["mtime"]))
    assert unchanged(tmp_path, digest_of(tmp_path)) is True
    assert unchanged(tmp_path / "gone", before) is None


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ('"""A world."""\n# with a comment\n\nX = [  # another\n  1\n]\nif X: pass\n', True),
        ('"""A world!"""\nX = [1]\nif X: pass\n', False),  # it may be read
        ('"""A world."""\nX = [1.0]\nif X: pass\n', False),
        ('"""A world."""\nX = [\n', False),
        ('"""A world."""\nX = [1]\nif X:\n    pass\n', False),
    ],
)
def test_of_python_the_code_counts_and_not_its_text(text, same, tmp_path):
    path = tmp_path / "own/world.py"
    path.parent.mkdir()
    path.write_text('"""A world."""\nX = [1]\nif X: pass\n')
    file, folder = digest_of(path), digest_of(path.parent)
    path.write_text(text)
    assert unchanged(path, file) is unchanged(path.parent, folder) is same
    assert unchanged(path, digest_of(path) | {"mtime": 0, "code": "of another Python's tokens"})
    path.with_name("words.txt").write_text("a")
    assert unchanged(path.parent, folder) is False


def test_tokens_that_a_server_does_not_tell_are_unknown():
    from sweet_rl.runs.facts import added, summed

    silent, half, untouched = Usage("agent", "a"), Usage("user", "b"), Usage("user", "c")
    for usage, replies in ((silent, [(None, None)]), (half, [(5, 2), (None, None)])):
        for reply in replies:
            usage.requests += 1
            usage.add(*reply)
    found = summed([silent, half, untouched])
    assert found["agent"]["a"]["prompt_tokens"] is None
    assert found["user"] == {
        "b": {
            "requests": 2, "retries": 0, "failed_requests": 0, "replies": 2, "replies_without_usage": 1,
            "prompt_tokens": 5, "completion_tokens": 2, "reasoning_tokens": 0,
        }
    }  # fmt: skip
    prices = {"a": Price(1, 1), "b": Price(1, 1)}
    cost = cost_of(found, prices)
    assert cost["usd"] is cost["agent_usd"] is cost["user_usd"] is None
    assert cost["unknown"] == ["the tokens of 'a' (agent)", "the tokens of 'b' (user)"]
    assert added([found, found])["agent"]["a"]["prompt_tokens"] is None


def test_who_asked_no_model_anything_makes_no_price_unknown():
    from sweet_rl.runs.facts import summed

    asked, listed, refused = Usage("user", "gpt"), Usage("user", ""), Usage("agent", "gone")
    asked.requests, listed.requests, refused.requests = 1, 2, 6
    asked.add(1_000_000, 0)
    refused.failed["server_error"] += 6
    found = summed([asked, listed, refused])
    assert list(found["user"]) == ["gpt"]  # a list of a server's models is no request to a model
    assert cost_of(found, {"gpt": Price(2, 1)}) == {"usd": 2.0, "user_usd": 2.0, "agent_usd": 0.0}


def test_money(place, tmp_path):
    (tmp_path / "p.toml").write_text("[gpt]\ninput = 2.5\noutput = 10\n")
    (tmp_path / "p.json").write_text('{"other": {"input": 1, "output": 1}}')
    write("out.jsonl", tokens=1000, prices="p.toml")
    assert content(place)["cost"] == {"usd": 0.00251, "user_usd": 0.00251}
    write("out.jsonl", tokens=1000, prices="p.json")
    assert content(place)["cost"] == {"usd": None, "user_usd": None, "unknown": ["the price of 'gpt' (user)"]}
    write("out.jsonl", tokens=1000)
    assert "cost" not in content(place)


@pytest.mark.parametrize(
    "text",
    ["x = ", "gpt = 3", "[gpt]\ninput = 1", "[gpt]\ninput = 1\noutput = true", "[gpt]\ninput=-1\noutput=0"],
)
def test_a_broken_table_of_prices_is_refused_before_the_stage_runs(place, tmp_path, text):
    (tmp_path / "p.toml").write_text(text)
    with pytest.raises(UsageError, match=r"--prices 'p.toml'.*A table of prices is"):
        write("out.jsonl", prices="p.toml")
    with pytest.raises(UsageError, match="cannot be read"):
        load_prices("none.toml")
    assert not (tmp_path / "out.jsonl").exists()


def test_a_file_changed_in_place_has_the_makers_record_and_the_changers(place, tmp_path):
    @recorded("reflect grade")
    def grade(error: bool = False) -> None:
        tracking.writes("out.jsonl", in_place=True)
        (tmp_path / "out.jsonl").write_text("graded")
        if error:
            raise UsageError("in between")

    write("out.jsonl")
    made = content(place)
    with pytest.raises(UsageError):
        grade(error=True)
    changed = content(tmp_path / "out.jsonl.reflect_grade.run.json")
    assert content(place) == made
    assert (changed["status"], changed["outputs"][0]["changed_in_place"]) == ("failed", True)
    grade()
    assert content(tmp_path / "out.jsonl.reflect_grade.run.json")["replaces"] == changed["id"]
    assert [run.content["stage"] for run in runs_below(tmp_path)] == ["write", "reflect grade"]


def test_of_two_runs_that_one_goes_on_with_both_are_named(place, tmp_path):
    @recorded("both")
    def both() -> None:
        for name in ("a.jsonl", "b.jsonl"):
            tracking.writes(name, continues=True)
            (tmp_path / name).write_text("x")

    write("a.jsonl")
    write("b.jsonl")
    first, second = (content(tmp_path / f"{name}.jsonl.run.json") for name in "ab")
    both()
    for name in "ab":
        found = content(tmp_path / f"{name}.jsonl.run.json")
        assert (found["id"], found["continues"]) == (first["id"], [second["id"]])


def test_the_folder_may_be_left(place, tmp_path):
    @recorded("leaves")
    def leaves() -> None:
        tracking.writes("out.jsonl")
        Path("out.jsonl").write_text("x")
        (tmp_path / "other").mkdir()
        os.chdir(tmp_path / "other")

    leaves()
    assert content(place)["status"] == "finished"
    assert list((tmp_path / "other").iterdir()) == []


SETTINGS = {"seed": 0, "parser": "published"}


def tasks(n):
    return [Task(f"t{i}", "p", "g", "g", {}, {"n": i}) for i in range(n)]


def row(i, j, settings=SETTINGS, **more):
    said = {"task_id": f"t{i}", "sample_index": j, "provenance": {"settings": settings}}
    return {"task": {"n": i}} | said | more


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
def test_a_file_made_otherwise_is_refused(rows, message):
    with pytest.raises(UsageError, match=message):
        plan(schedule(tasks(3), 1), number(rows), settings=SETTINGS, path="f")


def test_more_repeats_than_wanted_are_kept(tmp_path):
    file = tmp_path / "f.jsonl"
    rows = [row(0, 1), row(1, 0), row(0, 0)]
    file.write_text("".join(json.dumps(r) + "\n" for r in rows))
    run = plan(schedule(tasks(2), 1), number(rows), settings=SETTINGS, path=file)
    assert run.todo == ()
    finish(file, run.order)
    assert [json.loads(line) for line in file.read_text().splitlines()] == [rows[2], rows[1], rows[0]]


def test_a_doubled_episode_is_named():
    with pytest.raises(DataError, match="Delete this line or line 1"):
        plan(schedule(tasks(1), 1), number([row(0, 0), row(0, 0)]), settings=SETTINGS, path="f")


def test_the_finished_file_is_in_published_order_and_untouched_when_it_was(tmp_path):
    file = tmp_path / "f.jsonl"
    rows = [row(i, j) for i in (2, 0, 1) for j in (1, 0)]
    file.write_text("".join(json.dumps(r) + "\n" for r in rows))
    run = plan(schedule(tasks(3), 2), number(rows), settings=SETTINGS, path=file)
    finish(file, run.order)
    order = [(r["task_id"], r["sample_index"]) for r in map(json.loads, file.read_text().splitlines())]
    assert order == [("t0", 0), ("t1", 0), ("t2", 0), ("t0", 1), ("t1", 1), ("t2", 1)]
    inode = file.stat().st_ino
    finish(file, run.order)
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
    assert finish(file, run.order) == [rows[3]]
    assert [json.loads(line) for line in file.read_text().splitlines()] == [rows[3], rows[2], rows[4]]
    with pytest.raises(DataError, match="twice"):
        plan(schedule(tasks(3), 1), number([*rows, row(1, 0)]), settings=SETTINGS, path="f")
