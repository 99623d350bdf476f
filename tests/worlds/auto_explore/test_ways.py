"""Ways to files: as recorded, and from wherever one is."""

import json

import pytest

from sweet_rl.worlds.auto_explore.repositories import next_command, optimal_path


def test_paths_as_published(shared):
    golden = json.loads((shared / "goldens/reflect_rl/data_and_cli.json").read_text())["optimal_path"]
    files = ["README.md", "src/core/tax.py", "my notes/todo list.txt"]
    assert [optimal_path(file) for file in files] == golden


@pytest.mark.parametrize(
    ("folder", "path", "opened", "command"),
    [
        ("a/b", "c d/it's.md", False, "cd .."),
        ("", "c d/it's.md", False, 'cd "c d"'),
        ("a", "a/b/x.md", False, "cd b"),
        ("a/b", "a/b/x.md", False, "cat x.md"),
        ("a/b", "a/b/x.md", True, "id x.md"),
        ("c d", "c d/it's.md", True, 'id "it\'s.md"'),
        ("ab", "a/b/x.md", False, "cd .."),
        ("a", "ab/x.md", False, "cd .."),
        ("a", "top.md", True, "cd .."),
        ("", "top.md", False, "cat top.md"),
    ],
)
def test_the_next_command(folder, path, opened, command):
    assert next_command(folder, path, opened=opened) == command
