"""What is appended stays, whatever happens to the process or the disk."""

import asyncio
import json
import os
import subprocess
import sys

import pytest

from sweet_rl.errors import DataError, StorageError
from sweet_rl.records import Journal, locked, replace_rows
from tests.conftest import ran


def rows_of(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_appends_and_reopens(tmp_path):
    path = tmp_path / "new" / "f.jsonl"
    with Journal(path) as journal:
        journal.append([{"a": 1}, {"a": 2}])
    with Journal(path) as journal:
        assert journal.rows == [(1, {"a": 1}), (2, {"a": 2})]
        journal.append([{"a": 3}])
    assert rows_of(path) == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert os.listdir(path.parent) == ["f.jsonl"]


@pytest.mark.parametrize("cut", [1, 8, 10, 11])
def test_a_torn_last_line_is_dropped_and_nothing_else(tmp_path, cut):
    path = tmp_path / "f.jsonl"
    whole = b'{"a": 1}\n'
    path.write_bytes(whole + b'{"a": "\xc3\xa9"}\n'[:cut])  # with 11 only the line break is missing
    with Journal(path) as journal:
        kept = [row for _, row in journal.rows]
        assert kept == [{"a": 1}, {"a": "é"}][: 1 + (cut >= 11)]
        journal.append([{"a": 3}])
    assert rows_of(path) == [*kept, {"a": 3}]


def test_a_broken_line_in_the_middle_is_for_a_person_to_look_at(tmp_path):
    path = tmp_path / "f.jsonl"
    before = b'{"a": 1}\n{"a": \n{"a": 3}\n'
    path.write_bytes(before)
    with pytest.raises(DataError, match="line 2"):
        Journal(path)
    assert path.read_bytes() == before
    with locked(path):
        pass  # the failed opening has let go of the file


def test_a_second_writer_is_refused_also_when_the_file_has_been_replaced(tmp_path):
    path = tmp_path / "f.jsonl"
    with Journal(path):
        for _ in range(2):
            with pytest.raises(StorageError, match="Another run is writing"):
                Journal(path)
            replace_rows(path, [{"a": 1}])
    Journal(path).close()


COUNTS = """
import sys
from pathlib import Path
from sweet_rl.errors import StorageError
from sweet_rl.records import locked
counter, left = Path(sys.argv[1]), 300
while left:
    try:
        with locked(counter):
            counter.write_text(str(int(counter.read_text()) + 1))
            left -= 1
    except StorageError:
        pass
"""


def test_two_processes_never_hold_the_lock_at_once(tmp_path):
    counter = tmp_path / "f"
    counter.write_text("0")
    processes = [subprocess.Popen([sys.executable, "-c", COUNTS, str(counter)]) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    assert counter.read_text() == "600"


async def test_rows_that_arrive_together_are_written_together(tmp_path, monkeypatch):
    path = tmp_path / "f.jsonl"
    syncs = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (syncs.append(fd), real(fd)))

    with Journal(path) as journal:
        syncs.clear()
        await asyncio.gather(*(journal.append_soon({"i": i}) for i in range(100)))
    assert [row["i"] for row in rows_of(path)] == list(range(100))
    assert 1 <= len(syncs) <= 3


async def test_a_row_handed_over_before_a_cancellation_is_written(tmp_path):
    path = tmp_path / "f.jsonl"

    with Journal(path) as journal:
        task = asyncio.create_task(journal.append_soon({"a": 1}))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await journal.flush()
    assert rows_of(path) == [{"a": 1}]


ROOM = """
import asyncio, resource, signal, sys
from sweet_rl.errors import StorageError
from sweet_rl.records import Journal, replace_rows
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
"""
"""Begins programs on a disk with room for 1,000 bytes."""

FULL_DISK = """
async def main():
    with Journal(sys.argv[1]) as journal:
        rows = [journal.append_soon({"i": i, "text": "x" * 90}) for i in range(100)]
        return await asyncio.gather(*rows, return_exceptions=True)
results = asyncio.run(main())
print(results[-1])
try:
    replace_rows(sys.argv[1], [{"text": "y" * 2000}])
except StorageError as error:
    print(error)
"""


def test_a_full_disk_loses_nothing_that_was_there(tmp_path):
    path = tmp_path / "f.jsonl"
    done = ran(sys.executable, "-c", ROOM + FULL_DISK, path)
    first, second = done.stdout.splitlines()
    assert "Cannot write to" in first
    assert "--to_continue" in first
    assert "The file is unchanged" in second
    assert [row["i"] for row in rows_of(path)] == list(range(9))  # as many whole rows as fit, of 110 bytes
    assert f"The {path.stat().st_size:,} bytes before are safe" in first
    assert os.listdir(tmp_path) == ["f.jsonl"]


def test_what_is_not_json_is_refused_before_anything_is_written(tmp_path):
    path = tmp_path / "f.jsonl"
    with Journal(path) as journal:
        journal.append([{"a": 1}])
        with pytest.raises(ValueError, match="JSON"):
            journal.append([{"a": float("nan")}])
    assert rows_of(path) == [{"a": 1}]


def test_a_replacement_keeps_the_permissions_and_follows_links(tmp_path):
    real, link = tmp_path / "real.jsonl", tmp_path / "link.jsonl"
    real.write_text("{}\n")
    real.chmod(0o640)
    link.symlink_to(real)
    replace_rows(link, [{"a": 1}])
    assert link.is_symlink()
    assert rows_of(real) == [{"a": 1}]
    assert real.stat().st_mode & 0o777 == 0o640
