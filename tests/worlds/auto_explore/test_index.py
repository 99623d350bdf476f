"""A repository looked at once: on disk and in memory it is the same."""

import pytest

from sweet_rl.mini.repositories import make_repository
from sweet_rl.worlds.auto_explore.repositories import Entry, Library, index_of, is_allowed, kind_of, scan


def write(folder, files):
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def test_on_disk_and_in_memory(tmp_path):
    made = make_repository("analysis-3")
    write(tmp_path / "analysis-3", made.files)
    disk, memory = scan(tmp_path / "analysis-3"), made.index()
    assert (disk.name, disk.folders) == (memory.name, memory.folders)
    assert list(disk.files()) == list(memory.files()) == sorted(made.files)
    for path, text in made.files.items():
        for limit in (5, 100_000):
            assert disk.read(path, limit) == memory.read(path, limit)
            assert disk.read(path, limit, from_end=True) == memory.read(path, limit, from_end=True)
        assert disk.read(path, 100_000).data.decode() == text
        assert disk.find(path) == Entry(path.rpartition("/")[2], False, len(text))
    assert disk.find("nope") is None


def test_order_does_not_depend_on_the_disk():
    index = index_of("r", {"b.md": "", "B.md": "", "a/x.md": "", "_.md": "", "1.md": "", "a.md": ""})
    assert [entry.name for entry in index.folders[""]] == ["1.md", "B.md", "_.md", "a", "a.md", "b.md"]


def test_hidden_names_do_not_exist(tmp_path):
    write(tmp_path, {".git/config": "x", ".env": "x", "a.md": "x"})
    index = scan(tmp_path)
    assert list(index.files()) == ["a.md"]
    assert index.refused == ()


def test_one_look_for_all(tmp_path):
    write(tmp_path / "one", {"a.md": "x"})
    library = Library(tmp_path)
    assert library.get("one") is library.get("one")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.py", "code"),
        ("a.csv", "data"),
        ("a.md", "text"),
        ("a.sh", "exec"),
        ("a.png", "other"),
        ("py", "other"),
        (".md", "other"),
        ("a.b.json", "text"),
        ("a.md/b", "other"),
    ],
)
def test_kinds(name, kind):
    assert kind_of(name) == kind
    assert is_allowed(name) is (kind != "other")
