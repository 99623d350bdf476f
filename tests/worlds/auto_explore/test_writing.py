"""Made repositories on disk."""

import pytest

from sweet_rl.errors import StorageError, UsageError
from sweet_rl.mini.repositories import make_repository, write_repositories
from sweet_rl.tracking import is_record
from sweet_rl.worlds import load_tasks
from sweet_rl.worlds.auto_explore.repositories import Library
from sweet_rl.worlds.auto_explore.stages import make_repositories
from sweet_rl.worlds.auto_explore.tasks import load_dataset


def contents(folder):
    files = [path for path in folder.rglob("*") if path.is_file() and not is_record(path)]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def names_in(folder):
    return {path.name for path in (folder / "repos").iterdir() if path.is_dir()}


def test_the_same_bytes_and_the_same_repositories_as_in_memory(tmp_path):
    count = write_repositories(tmp_path / "a", num=5, seed=3)
    assert write_repositories(tmp_path / "b", num=5, seed=3) == count
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert write_repositories(tmp_path / "b", num=5, seed=4, overwrite=True) > 0
    library = Library(tmp_path / "a" / "repos")
    names = names_in(tmp_path / "a")
    assert len(names) == 5
    for name in names:
        assert library.get(name).folders == make_repository(name).index().folders
    tasks = load_tasks(f"auto-explore:{tmp_path}/a/made_tasks.json")
    assert len(tasks) == count == len(load_dataset(tmp_path / "a" / "made_tasks.json", compat="published"))
    assert {task.row["root"] for task in tasks} == names


def test_what_is_there_stays(tmp_path, capsys):
    make_repositories(output_dir=str(tmp_path), num=2)
    assert "2 repositories are in" in capsys.readouterr().out
    before = contents(tmp_path)
    with pytest.raises(UsageError, match=r"exists; pass --overwrite"):
        make_repositories(output_dir=str(tmp_path), num=2)
    (name, *_) = names_in(tmp_path)
    (tmp_path / "repos" / name / "README.md").write_text("changed")
    make_repositories(output_dir=str(tmp_path), num=2, overwrite=True)
    assert contents(tmp_path) == before
    assert not list((tmp_path / "repos").glob(".*"))


@pytest.mark.parametrize("target", ["outside", "nowhere"])
def test_a_link_is_replaced_not_followed(tmp_path, target):
    write_repositories(tmp_path / "a", num=1)
    (name,) = names_in(tmp_path / "a")
    (tmp_path / "b" / "repos").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "mine.md").write_text("stays")
    (tmp_path / "b" / "repos" / name).symlink_to(tmp_path / target)
    write_repositories(tmp_path / "b", num=1, overwrite=True)
    assert (tmp_path / "outside" / "mine.md").read_text() == "stays"
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_wrong_numbers_and_places(tmp_path):
    with pytest.raises(UsageError, match="at least 1"):
        write_repositories(tmp_path, num=0)
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="Cannot write"):
        write_repositories(tmp_path / "file" / "x", num=1)
