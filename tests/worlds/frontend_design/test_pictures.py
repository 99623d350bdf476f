"""Pictures lie beside the output file under names that a resumed run finds again."""

import pytest

from sweet_rl.errors import StorageError
from sweet_rl.types import Task
from sweet_rl.worlds.frontend_design.env import PictureFolder


def task(task_id):
    return Task(task_id, "p", "<html></html>", "<html></html>", {}, {})


def folder(tmp_path, **settings):
    return PictureFolder(tmp_path / "run_images", beside=tmp_path, **settings)


def test_names_tell_task_sample_and_turn_and_paths_are_relative(tmp_path):
    pictures = folder(tmp_path, samples={("t-1", 7): 0, ("t-1", 8): 1})
    assert pictures.save_draft(task("t-1"), 7, 0, b"a") == "run_images/t-1_0_0.png"
    assert pictures.save_draft(task("t-1"), 8, 3, b"b") == "run_images/t-1_1_3.png"
    assert pictures.save_draft(task("t-1"), 9, 0, b"c") == "run_images/t-1_seed9_0.png"
    assert pictures.save_target(task("t-1"), b"d") == "run_images/t-1_target.png"
    assert {file.name: file.read_bytes() for file in (tmp_path / "run_images").iterdir()} == {
        "t-1_0_0.png": b"a",
        "t-1_1_3.png": b"b",
        "t-1_seed9_0.png": b"c",
        "t-1_target.png": b"d",
    }


def test_a_resumed_run_overwrites_its_own(tmp_path):
    first = folder(tmp_path).save_draft(task("t"), 1, 0, b"half of a run")
    assert folder(tmp_path).save_draft(task("t"), 1, 0, b"whole") == first
    assert [file.read_bytes() for file in (tmp_path / "run_images").iterdir()] == [b"whole"]


def test_no_task_id_leaves_the_folder_or_shares_a_name(tmp_path):
    pictures = folder(tmp_path)
    ids = ["../../etc/x", "a/b", "a b", "a-b", "é", "ü", "x" * 300, "x" * 301, "a#2"]
    paths = [pictures.save_target(task(i), i.encode()) for i in ids]
    assert len(set(paths)) == len(ids)
    assert all((tmp_path / path).parent == tmp_path / "run_images" for path in paths)
    assert [(tmp_path / path).read_bytes().decode() for path in paths] == ids


def test_a_folder_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    from pathlib import Path

    pictures = PictureFolder(Path("~/pictures"), beside=tmp_path / "runs")
    assert pictures.save_target(task("t"), b"x") == "../pictures/t_target.png"


def test_a_disk_that_takes_nothing(tmp_path):
    (tmp_path / "run_images").write_text("a file is in the way")
    with pytest.raises(StorageError, match="Cannot write"):
        folder(tmp_path).save_target(task("t"), b"x")
