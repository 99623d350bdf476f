"""Rows to nouns and back, and errors that name file, line, field, value and repair; files that change; YAML that no reader survives."""

import copy
import json
import os
import re
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweet_rl.commands.archer_config import _compose
from sweet_rl.commands.evaluate import graded_file
from sweet_rl.errors import DataError, UsageError
from sweet_rl.online.reflect.settings import SETTINGS, read_settings
from sweet_rl.pipelines.pipeline import read_file
from sweet_rl.records import (
    load_tasks_file,
    load_trajectories,
    read_rows,
    replace_rows,
    stamp_of,
    task_from_row,
    trajectories_from_rows,
    trajectory_from_row,
    trajectory_to_row,
    unique_tasks,
)
from sweet_rl.types import AgentTurn, Message, StopReason, Trajectory

TASK = {"problem_description": "p", "ground_truth": "g", "test_cases": {"test1": "f(1)"}, "level": 3}
ROW = {
    "task": TASK,
    "dialogue_history": [
        {"role": "user", "content": "p"},
        {"role": "assistant", "content": "c", "input": "i", "output": "o"}
        | {"token_ids": [1, 2], "logprobs": [-0.5, -1.0], "finish_reason": "stop"},
    ],
    "answer": "a",
    "reward": 0.5,
    "task_id": "id",
    "sample_index": 2,
    "stop_reason": "answered",
    "error": {"kind": "timeout", "attempts": 4, "turn": 1},
    "failures": [{"kind": "rate_limited", "status": 429, "attempts": 2, "turn": 0}],
    "provenance": {"settings": {"seed": 0}},
    "grades": {"fixed": 0.5},
}


def test_a_row_comes_back_as_it_was():
    trajectory = trajectory_from_row(ROW)
    assert trajectory_to_row(trajectory) == ROW
    assert trajectory.stop_reason is StopReason.ANSWERED
    assert isinstance(trajectory.last_turn, AgentTurn)
    assert trajectory.last_turn.token_ids == (1, 2)
    assert trajectory.key == ("id", 2)
    assert trajectory_from_row(ROW | {"task_id": 3}).task.task_id == "3"  # public data count their tasks


def test_a_published_row_is_read_and_its_identity_derived():
    published = {key: ROW[key] for key in ("task", "dialogue_history", "answer")}
    rows = [(1, published), (2, published), (3, published | {"task": TASK | {"ground_truth": "other"}})]
    first, second, third = trajectories_from_rows(rows)
    assert (first.sample_index, second.sample_index, third.sample_index) == (0, 1, 0)
    assert first.task.task_id == second.task.task_id != third.task.task_id
    assert first.reward is None
    assert first.stop_reason is None
    assert first.task.hidden_information == "g"
    assert first.task.extra == {"level": 3}


def test_copies_of_a_task_get_identities_of_their_own():
    tasks = unique_tasks([task_from_row(TASK)] * 3)
    assert len({task.task_id for task in tasks}) == 3
    assert tasks[1].task_id == tasks[0].task_id + "#2"


def set_at(row, path, value):
    *parents, last = path
    for key in parents:
        row = row[key]
    row[last] = value


TURN = ("dialogue_history", 1)
WRONG = [
    (("task",), "text", "task"),
    (("task", "problem_description"), None, "task.problem_description"),
    (("task", "ground_truth"), ["x"], "task.ground_truth"),
    (("task", "ground_truth"), None, "task.ground_truth"),
    (("task", "test_cases"), ["f(1)"], "task.test_cases"),
    (("task", "test_cases", "test1"), 1, "task.test_cases.test1"),
    (("task", "hidden_information"), 1, "task.hidden_information"),
    (("dialogue_history",), "hello", "dialogue_history"),
    (("dialogue_history",), None, "dialogue_history"),
    (TURN, "hello", "dialogue_history[1]"),
    ((*TURN, "role"), "robot", "dialogue_history[1].role"),
    ((*TURN, "role"), ["user"], "dialogue_history[1].role"),
    ((*TURN, "content"), None, "dialogue_history[1].content"),
    ((*TURN, "input"), 3, "dialogue_history[1].input"),
    ((*TURN, "output"), 3, "dialogue_history[1].output"),
    ((*TURN, "token_ids"), [1.5], "dialogue_history[1].token_ids"),
    ((*TURN, "logprobs"), [True], "dialogue_history[1].logprobs"),
    ((*TURN, "finish_reason"), "tired", "dialogue_history[1].finish_reason"),
    ((*TURN, "reflection"), 3, "dialogue_history[1].reflection"),
    (("answer",), 3, "answer"),
    (("reward",), True, "reward"),
    (("reward",), "1", "reward"),
    (("task_id",), 3.0, "task_id"),
    (("sample_index",), True, "sample_index"),
    (("sample_index",), 1.5, "sample_index"),
    (("stop_reason",), "bored", "stop_reason"),
    (("error",), "timeout", "error"),
    (("failures",), {}, "failures"),
    (("failures", 0), "timeout", "failures[0]"),
    (("failures", 0, "kind"), None, "failures[0].kind"),
    (("provenance",), [], "provenance"),
]


@pytest.mark.parametrize(("path", "value", "field"), WRONG, ids=[f"{f}={v!r}" for _, v, f in WRONG])
def test_a_wrong_field_is_named(tmp_path, path, value, field):
    row = copy.deepcopy(ROW)
    set_at(row, path, value)
    file = tmp_path / "f.jsonl"
    file.write_text(json.dumps(ROW) + "\n\n" + json.dumps(row) + "\n")
    with pytest.raises(DataError) as caught:
        load_trajectories(file)
    message = str(caught.value)
    assert message.startswith(f"{file}, line 3: field {field!r} must ")
    assert f"got {value!r}" in message


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "is not JSON"),
        (b"[1]", "one JSON object"),
        (b'{"a": NaN}', "holds NaN"),
        (b'{"a": "\xff"}', "is not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "is not JSON"),
        (b"\x00", "is not JSON"),
    ],
    ids=["cut", "list", "nan", "latin1", "deep", "huge-int", "null-byte"],
)
def test_a_line_that_is_no_row_is_named(tmp_path, line, message):
    file = tmp_path / "f.jsonl"
    file.write_bytes(b'{"ok": 1}\n' + line + b"\n")
    with pytest.raises(DataError, match=f"line 2.*{message}|line 2: .*{message}"):
        list(read_rows(file))


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path):
    file = tmp_path / "f.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps(TASK).encode() + b"\r\n" + json.dumps(TASK).encode())
    assert len(load_tasks_file(file)) == 2


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=40)
@given(json_values)
def test_anything_is_either_a_trajectory_or_a_named_error(value):
    try:
        trajectory_from_row(value, path="f", line=7)
    except DataError as error:
        assert str(error).startswith("f, line 7: ")
    else:
        pytest.fail("random JSON has no task")


PATHS = [
    *[(key,) for key in ROW],
    *[("task", key) for key in TASK],
    *[("dialogue_history", 1, key) for key in ROW["dialogue_history"][1]],
    ("failures", 0, "status"),
]


@settings(max_examples=40)
@given(st.sampled_from(PATHS), json_values)
def test_one_changed_field_is_either_read_or_named(path, value):
    row = copy.deepcopy(ROW)
    set_at(row, path, value)
    try:
        trajectory = trajectory_from_row(row, path="f", line=7)
    except DataError as error:
        assert error.field is not None
        assert str(path[-1]) in error.field
        return
    again = trajectory_from_row(trajectory_to_row(trajectory))
    assert again == trajectory


HIDDEN = "def f(a):\n    return a\n"


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "episodes.jsonl"
    task = task_from_row({"problem_description": "A function.", "ground_truth": HIDDEN, "task_id": "t"})
    played = Trajectory(task, (Message("user", "Hi."), AgentTurn("assistant", HIDDEN)), HIDDEN)
    replace_rows(file, [trajectory_to_row(played)])
    return file


def swapped(file):
    other = file.with_name("other")
    other.write_bytes(file.read_bytes())
    other.replace(file)


def edited(file):
    before = file.stat()
    file.write_bytes(file.read_bytes().replace(b"Hi.", b"Ho."))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("change", [edited, swapped, lambda file: file.unlink()])
def test_it_is_not_overwritten(path, change, saved):
    changed = pytest.raises(UsageError, match="has changed since it was read")
    with changed as error, graded_file(str(path), None) as file:
        if saved:  # what this run itself has written is no change of another's
            file.update(0, {"reward": 0.5})
            file.save()
        file.update(0, {"reward": 1.0})
        change(path)
        there = path.read_bytes() if path.exists() else None
        file.save()
    assert (path.read_bytes() if path.exists() else None) == there
    (kept,) = path.parent.glob("*.kept_*.jsonl")
    assert str(kept) in str(error.value)
    assert [row["reward"] for _, row in read_rows(kept)] == [1.0]
    assert not list(path.parent.glob("*.tmp"))


def test_it_is_compared_right_before_it_is_replaced(path):
    def rows():
        yield {"a": 1}
        path.write_text(json.dumps({"another": "program"}))  # while ours is being written

    with pytest.raises(UsageError, match="has changed since it was read"):
        replace_rows(path, rows(), stamp_of(path))
    assert json.loads(path.read_text()) == {"another": "program"}
    stamp = replace_rows(path, [{"a": 1}], stamp_of(path))  # as it was read
    assert stamp == stamp_of(path)
    replace_rows(path, [{"a": 2}], stamp)
    assert [row for _, row in read_rows(path)] == [{"a": 2}]


MANY = 100_000
NINE = (f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in pairwise("abcdefghijkl"))
BOMB = "a: &a [x, x]\n" + "".join(NINE)
FILES = {
    "an alias of itself": ("a: &a\n  b: *a\n", 2),
    "a list of itself": ("\n- &a [*a]\n", 2),
    "a bomb": (BOMB, 6),
    "doubled": ("a0: &x0 [1]\n" + "".join(f"a{i}: &x{i} [*x{i - 1}, *x{i - 1}]\n" for i in range(1, 60)), 15),
    "brackets": ("a: 1\nb: " + "[" * MANY + "]" * MANY, 2),
    "brackets that stay open": ("a: " + "[" * MANY, 1),
    "braces": ("a: " + "{a: " * MANY, 1),
    "dashes": ("- " * MANY, 1),
    "questions": ("? " * MANY, 1),
    "steps": ("".join(" " * i + "a:\n" for i in range(3_000)), 51),
    "merged": ("a: &a {x: 1}\nb:\n  <<: [" + "*a, " * MANY + "]\n", 3),
    "a long number": ("a: " + "9" * MANY, 1),
    "a number of sixties": ("a: " + "1:" * MANY + "1", 1),
}


@pytest.fixture(scope="module")
def hydra():
    """Loaded before any clock runs."""
    _compose("archer_debug", (), None)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("reader", ["pipeline", "setting.yml", "archer"])
@pytest.mark.usefixtures("hydra")
def test_a_hostile_file_is_refused(tmp_path, name, reader):
    text, line = FILES[name]
    file = tmp_path / (SETTINGS if reader == "setting.yml" else "mine.yaml")
    file.write_text(text)
    read = {
        "pipeline": lambda: read_file(file),
        "setting.yml": lambda: read_settings(tmp_path),
        "archer": lambda: _compose("mine", (), str(tmp_path)),
    }[reader]
    started = time.process_time()
    with pytest.raises(UsageError, match=rf"{re.escape(str(file))}, line {line}: this cannot be read"):
        read()
    assert time.process_time() - started < 2
