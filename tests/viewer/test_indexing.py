"""The index beside a file: torn, growing, rewritten and broken files, and what a search finds."""

import json
import os
import subprocess
import sys

import pytest

from sweet_rl.errors import DataError, StorageError, UsageError
from sweet_rl.viewer.indexing import Entry, FileIndex, place_of
from tests.conftest import ROOT


def read(row):
    if "task" not in row:
        raise DataError("is missing", field="task")
    return Entry(row["task"], row.get("repeat"), {"summary": row["task"], "n": row["n"]}, row.get("text", ""))


def line(number, task="t", text="", **more):
    return json.dumps({"task": task, "n": number, "text": text, **more}) + "\n"


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(line(0, text="Ask about the Discount") + line(1, "u") + line(2, repeat=7))
    return path


@pytest.fixture
def index(saved):
    found = FileIndex(saved, "kind", read)
    found.refresh()
    yield found
    found.close()


def numbers(index):
    return [(task, repeat, shown["n"]) for task, repeat, shown in index.entries()]


def test_rows_have_their_place_and_repeats_are_counted_where_they_are_not_named(index):
    assert numbers(index) == [("t", 0, 0), ("u", 0, 1), ("t", 7, 2)]
    assert index.row(1).row["n"] == 1
    assert index.of_task("t", 7) == [2]
    with pytest.raises(IndexError):
        index.row(3)


def test_a_kept_index_is_not_made_again(saved, index):
    def refuse(row):
        raise AssertionError(row)

    again = FileIndex(saved, "kind", refuse)
    assert again.refresh() is False
    assert numbers(again) == numbers(index)


def test_a_file_that_grows_is_read_from_where_it_ended_and_a_torn_line_waits(saved, index):
    seen = []
    going_on = FileIndex(saved, "kind", lambda row: seen.append(row["n"]) or read(row))
    with saved.open("a") as file:
        file.write(line(3) + line(4)[:9])
    assert (going_on.refresh(), seen, going_on.broken) == (True, [3], [])
    with saved.open("a") as file:
        file.write(line(4)[9:])
    going_on.refresh()
    assert seen == [3, 4]
    assert [n for *_, n in numbers(going_on)] == [0, 1, 2, 3, 4]
    assert going_on.row(4).row["n"] == 4


@pytest.fixture
def index_of(tmp_path):
    """The index of a file with this text."""

    def make(text, read=read):
        (tmp_path / "other.jsonl").write_text(text)
        index = FileIndex(tmp_path / "other.jsonl", "kind", read)
        index.refresh()
        return index

    return make


def test_a_last_line_without_its_newline_is_a_row(index_of):
    assert len(index_of(line(0) + line(1).rstrip())) == 2


@pytest.mark.parametrize("how", ["replaced", "in place", "shorter"])
def test_a_file_that_was_changed_otherwise_is_read_anew(saved, index, how):
    text = saved.read_text().replace('"n": 0', '"n": 9')
    if how == "replaced":  # as grading does
        saved.with_suffix(".new").write_text(text + line(3))
        saved.with_suffix(".new").replace(saved)
    else:
        saved.write_text(text if how == "in place" else line(9))
    os.utime(saved, ns=(1, 1))
    assert index.refresh() is True
    assert next(iter(numbers(index))) == ("t", 0, 9)
    assert index.row(0).row["n"] == 9
    assert index.search("discount") == ([0] if how != "shorter" else [])


def test_an_index_of_another_kind_or_a_broken_one_is_made_anew(saved, index):
    other = FileIndex(saved, "other", read)
    assert other.refresh() is True
    other.close()
    index.close()
    place_of(saved).write_bytes(b"no database" * 1000)
    anew = FileIndex(saved, "kind", read)
    anew.refresh()
    assert len(anew) == 3


def test_lines_that_cannot_be_read_are_told_and_passed_over(index_of):
    index = index_of(line(0) + "{torn\n" + '{"no": "task"}\n\n' + line(1))
    assert [n for *_, n in numbers(index)] == [0, 1]
    assert [number for number, _ in index.broken] == [2, 3]
    assert "is not JSON" in index.broken[0][1]


def test_a_search_is_for_words_in_their_order_and_never_a_query(index):
    assert index.search("DISCOUNT") == index.search("about the dis") == [0]
    queries = ('"; DROP TABLE rows --', "ask) OR (t", "*", "  ", "caf\u00e9 OR about")
    assert [index.search(text) for text in ("the about", "zebra", *queries)] == [[]] * 7


def test_accents_and_what_stands_between_words_do_not_matter(index_of):
    index = index_of(line(0, text="The caf\u00e9: \ud800 open_late!"))
    assert index.search("CAFE") == index.search("open-late") == [0]


def test_a_killed_indexing_goes_on(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(line(number) for number in range(2500)))
    code = (
        "import os, sys; from pathlib import Path; from tests.viewer.test_indexing import *\n"
        "def stop(row):\n"
        "    if row['n'] == 2200: os.kill(os.getpid(), 9)\n"
        "    return read(row)\n"
        "FileIndex(Path(sys.argv[1]), 'kind', stop).refresh()"
    )
    done = subprocess.run([sys.executable, "-c", code, path], check=False, cwd=ROOT)
    assert done.returncode == -9
    seen = []
    index = FileIndex(path, "kind", lambda row: seen.append(row["n"]) or read(row))
    index.refresh()
    assert seen == list(range(2000, 2500))
    assert [n for *_, n in numbers(index)] == list(range(2500))
    assert [repeat for _, repeat, _ in index.entries()] == list(range(2500))


def test_two_processes_at_once_make_one_index(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(line(number) for number in range(1500)))
    code = (
        "import sys, time; from pathlib import Path; from tests.viewer.test_indexing import *\n"
        "slow = lambda row: time.sleep(0.0002) or read(row)\n"
        "FileIndex(Path(sys.argv[1]), 'kind', slow).refresh()"
    )
    both = [subprocess.Popen([sys.executable, "-c", code, path], cwd=ROOT) for _ in range(2)]
    assert [one.wait(60) for one in both] == [0, 0]
    index = FileIndex(path, "kind", read)
    assert index.refresh() is False
    assert [n for *_, n in numbers(index)] == list(range(1500))


def test_an_index_without_room_is_named(saved, monkeypatch, tmp_path):
    monkeypatch.setattr("sweet_rl.viewer.indexing.place_of", lambda path: tmp_path)  # a folder
    with pytest.raises(StorageError, match=r"Cannot keep an index of .*rows\.jsonl"):
        FileIndex(saved, "kind", read).refresh()


def test_a_folder_that_cannot_be_written_has_its_index_elsewhere(saved, monkeypatch, tmp_path):
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    index = FileIndex(saved, "kind", read)
    index.refresh()
    assert len(index) == 3
    assert not list(saved.parent.glob(".*.sqlite"))


def test_a_file_that_is_gone_is_named(tmp_path):
    with pytest.raises(UsageError, match="Cannot read"):
        FileIndex(tmp_path / "none.jsonl", "kind", read).refresh()
