"""Paths and commands that want out: none reads, writes, waits or runs, and each has a defined outcome."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from sweet_rl.errors import EpisodeError, UsageError
from sweet_rl.worlds.auto_explore.game import ExploreGame
from sweet_rl.worlds.auto_explore.repositories import Library, index_of, scan, split_command
from sweet_rl.worlds.auto_explore.sandbox import MAX_WRITTEN, Sandbox

from .goldens import task

SECRET = "the secret outside"


@pytest.fixture
def place(tmp_path):
    """A repository with everything in it that should not be, and a secret beside it."""
    (tmp_path / "secret.md").write_text(SECRET)
    repo = tmp_path / "repos" / "evil"
    (repo / "docs").mkdir(parents=True)
    (repo / "README.md").write_text("harmless\n")
    (repo / "docs" / "inner.md").write_text("inner\n")
    (repo / "link.md").symlink_to(tmp_path / "secret.md")
    (repo / "way_out").symlink_to(tmp_path)
    (repo / "loop").symlink_to(repo)
    (repo / "docs" / "up").symlink_to("..")
    (repo / "dangling.md").symlink_to("nowhere")
    os.mkfifo(repo / "pipe.md")
    for name in ("two\nlines.md", "tab\there.md", "\u202egnp.md", os.fsdecode(b"latin\xe9.md")):
        (repo / name).write_text("x")
    return tmp_path


@pytest.fixture
def box(place):
    return Sandbox(scan(place / "repos" / "evil"))


def say(box, line):
    return box.run(split_command(line)).text


def test_what_cannot_be_shown_is_refused_and_remembered(place):
    index = scan(place / "repos" / "evil")
    assert list(index.files()) == ["README.md", "docs/inner.md"]
    links = ("link.md", "way_out", "loop", "docs/up", "dangling.md")
    unprintable = ("two\\nlines.md", "tab\\there.md", "\\u202egnp.md", "latin\\udce9.md")
    assert index.refused == {
        **dict.fromkeys(links, "is a symbolic link"),
        **dict.fromkeys(unprintable, "has a name that cannot be shown on one line"),
        "pipe.md": "is not an ordinary file",
    }


PATHS = [
    *("../secret.md", "../../secret.md", "docs/../../../secret.md", "/etc/passwd", "//etc/passwd"),
    *("/proc/self/environ", "docs/../../evil/../../secret.md", "./../../secret.md", ".."),
    *("../evil/README.md", '"../../secret.md"', "'../../secret.md'", "link.md", "./link.md"),
    *("way_out/secret.md", "loop/README.md", "docs/up/README.md", "~/secret.md", "$HOME/secret.md"),
    *("pipe.md", "dangling.md", "README.md/../link.md", "%2e%2e/secret.md", "..\\..\\secret.md"),
    *("docs//../../secret.md", "\x00", "README.md\x00.png", "a" * 5000, "..;cat", "`pwd`", "$(pwd)"),
]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: ascii(path)[:30])
@pytest.mark.parametrize(
    "command", ["cat {}", "head {}", "head -n 1 {}", "tail {}", "cd {}", "ls {}", "id {}", "echo x > {}"]
)
def test_paths(place, box, command, path):
    before = sorted(place.rglob("*"))
    result = box.run(split_command(command.format(path)))
    assert SECRET not in result.text
    assert "root:" not in result.text
    if command.startswith("echo") and result.text.startswith("Success"):
        assert set(box.written) == {path.strip("'\"")} or len(box.written) == 1  # a name in the view, no more
        assert not any(".." in name.split("/") or name.startswith("/") for name in box.written)
    else:
        assert result.text.startswith("Error: "), result.text
        assert result.identified is None
    assert "\x00" not in result.text
    assert len(result.text) < 1000
    assert box.cwd == ""
    assert sorted(place.rglob("*")) == before


COMMANDS = [
    *("rm -rf .", "rm README.md", "mv README.md x.md", "python -c 'print(1)'", "python README.md"),
    *("pip install x", "sh -c id", "bash", "curl http://127.0.0.1", "cat README.md; id README.md"),
    *("cat README.md | sh", "cat $(ls)", "cat README.md > other.md", "cat < README.md"),
    *("cat README.md && rm README.md", "head -c 5 README.md", "head -n -1 README.md"),
    *("head -n x README.md", "tail -f README.md", "ls -la", "ls docs docs", "cd", "cd docs docs", "id"),
    *("id docs", "id README.md docs/inner.md", "exit", "", " ", "\n", "cat", "cat -"),
    *("find / -name secret.md", "echo x > docs", "echo x > nowhere/new.md", "echo x > a > b"),
    *("echo x | sh", "echo x >", "import os", "CAT README.md", "cat --help", "head --version"),
    *("ls --color", "cd -", "cat 'README.md", 'cat "README.md', "cat README.md\\"),
]


@pytest.mark.parametrize("line", COMMANDS)
def test_commands(place, box, line, monkeypatch):
    def never(*_args, **_more):
        raise AssertionError("a process was begun")

    monkeypatch.setattr(subprocess, "Popen", never)
    for name in ("system", "chdir", "remove", "unlink"):
        monkeypatch.setattr(os, name, never)
    here = Path.cwd()
    result = box.run(split_command(line))
    assert result.text.startswith("Error: "), result.text
    assert result.identified is None
    assert (box.cwd, box.written, Path.cwd()) == ("", {}, here)
    assert (place / "repos/evil/README.md").read_text() == "harmless\n"


def test_a_repository_that_changes_after_it_was_looked_at(place, box):
    readme, docs = place / "repos/evil/README.md", place / "repos/evil/docs"
    readme.unlink()
    readme.symlink_to(place / "secret.md")
    assert say(box, "cat README.md").startswith("Error: ")
    (docs / "inner.md").unlink()
    docs.joinpath("up").unlink()
    docs.rmdir()
    docs.symlink_to(place)
    (place / "inner.md").write_text(SECRET)
    assert say(box, "cat docs/inner.md").startswith("Error: ")
    readme.unlink()
    os.mkfifo(readme)
    started = time.monotonic()
    assert say(box, "cat README.md").startswith("Error: ")  # nobody waits for a writer
    assert time.monotonic() - started < 1
    readme.unlink()
    assert say(box, "cat README.md") == "Error: README.md: No such file or directory"


@pytest.mark.parametrize(
    "root", ["../repos/evil", "..", "/etc", "evil/../..", "", ".", "evil/loop", "linked", "evil\x00"]
)
def test_tasks_that_name_somewhere_else(place, root):
    (place / "repos/linked").symlink_to(place)
    game = ExploreGame(Library(place / "repos"))
    with pytest.raises(EpisodeError) as caught:
        game.reset(task("Where?", ["secret.md"], root=root), seed=0)
    assert caught.value.failure.kind in {"bad_task", "no_repository"}


@pytest.mark.parametrize(
    "target", ["../../secret.md", "/etc/passwd", "link.md", "way_out/secret.md", "docs", "", "nope.md"]
)
def test_targets_that_are_not_there(place, target):
    game = ExploreGame(Library(place / "repos"))
    with pytest.raises(EpisodeError, match="has no file") as caught:
        game.reset(task("Where?", [target], root="evil"), seed=0)
    assert caught.value.failure.kind == "missing_target"


def test_odd_names_are_offered_opened_and_handed_in(tmp_path):
    names = ["a b.md", "it's.md", 'say "hi".md', "back\\slash.md", "-rf.md", ">out.md", "$(id).md", "&.md"]
    names += ["é.md", "*.md", "#.md", "a;b.md"]
    repo = tmp_path / "odd"
    (repo / "my 'own' dir").mkdir(parents=True)
    for name in names:
        (repo / "my 'own' dir" / name).write_text(f"this is {name}\n")
    for name in names:
        game = ExploreGame(Library(tmp_path), max_turns=3)
        game.reset(task("Which?", [f"my 'own' dir/{name}"], root="odd"), seed=0)
        assert list(game.offered.values()) == ["cd \"my 'own' dir\""]
        game.step("0")
        opens = (command for command in game.offered.values() if command.startswith("cat"))
        look = next(command for command in opens if game.name_of(command) == name)
        assert f"this is {name}" in game.step(look).text
        moved = game.step("id" + look.removeprefix("cat"))
        assert (moved.info["won"], moved.info["identified"]) == (True, f"my 'own' dir/{name}")


def test_what_is_no_text(tmp_path):
    files = {
        "latin.md": b"caf\xe9",
        "nul.md": b"a\x00b",
        "cut.md": b"\xf0\x9f\x90",
        "bom.md": b"\xef\xbb\xbfok",
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    box = Sandbox(scan(tmp_path))
    for command in ("cat", "head", "tail"):
        for name in ("latin.md", "nul.md", "cut.md"):
            assert say(box, f"{command} {name}").startswith(f"Error: {name} is not a text")
        assert say(box, f"{command} bom.md").startswith("Success")


def test_huge_files_are_not_read(tmp_path):
    with (tmp_path / "huge.md").open("wb") as file:
        file.write("é\n".encode() * 200)
        file.truncate(1 << 40)  # a terabyte, nearly all of it a hole
    (tmp_path / "long.md").write_text("é" * 3_000_000)
    box = Sandbox(scan(tmp_path))
    started = time.monotonic()
    assert say(box, "cat huge.md").startswith("Error: huge.md is not a text")  # the hole is NULs
    for name in ("huge.md", "long.md"):
        assert say(box, f"tail {name}").startswith("Error: ")
    assert time.monotonic() - started < 1
    for command in ("cat", "head", "head -n 1"):
        shown = say(box, f"{command} long.md")
        assert shown.startswith("Success")
        assert "..." in shown[-200:]
        assert len(shown) < 10_000
    for shift in range(4):  # a character may end where reading ends
        (tmp_path / "long.md").write_text("x" * shift + "🐕" * 100_000)
        assert say(box, "cat long.md").startswith("Success")


def test_a_line_ends_with_a_line_break_and_with_nothing_else():
    box = Sandbox(index_of("r", {"a.md": "1\x0b2\u20283\n4\n\n5"}))
    head = "Success: The content of a.md is:\n"
    assert say(box, "head -n 1 a.md") == f"{head}1\x0b2\u20283\n"
    assert say(box, "tail -n 2 a.md") == f"{head}\n5"
    assert say(box, "tail -n 0 a.md") == say(box, "head -n 0 a.md") == head
    assert say(box, "head a.md") == say(box, "tail -n 99 a.md") == say(box, "cat a.md")


def test_writing_has_an_end():
    box = Sandbox(index_of("r", {"a.md": "x"}))
    said = [say(box, f"echo {'x' * 1000} > new{number}.md") for number in range(100)]
    assert said[0].startswith("Success")
    assert said[-1] == "Error: echo: new99.md: cannot be written"
    assert sum(map(len, box.written.values())) <= MAX_WRITTEN
    assert box.index.find("new0.md") is None


@pytest.mark.parametrize("compat", ["fixed", "published"])
def test_more_entries_than_labels(tmp_path, compat):
    many = tmp_path / "repos" / "big" / "heap"
    many.mkdir(parents=True)
    for number in range(130):
        (many / f"{number}.md").write_text("x")
    game = ExploreGame(Library(tmp_path / "repos"), compat=compat)
    game.reset(task("Which?", ["heap/7.md"], root="big"), seed=0)
    if compat == "published":
        with pytest.raises(EpisodeError, match="heap offers 261 commands, and there are 252 labels"):
            game.step("cd heap")
    else:
        moved = game.step("cd heap")
        assert "Error: heap offers more than the 252 labels there are" in moved.text
        assert (moved.cost, game.sandbox.cwd) == (3, "")
    with pytest.raises(EpisodeError, match="'heap': the repository itself offers 260 commands"):
        ExploreGame(Library(tmp_path / "repos/big"), compat=compat).reset(
            task("?", ["7.md"], root="heap"), seed=0
        )


def test_a_hundred_thousand_entries():
    index = index_of("heap", {f"{number}.md": "x" for number in range(100_000)})
    started = time.monotonic()
    listed = say(Sandbox(index), "ls")
    assert listed.endswith("\n... and 99000 more")
    library = Library(None)
    library._known["heap"] = index
    with pytest.raises(EpisodeError, match="offers 200000 commands"):
        ExploreGame(library).reset(task("?", ["7.md"], root="heap"), seed=0)
    assert time.monotonic() - started < 5


def test_folders_without_end(tmp_path):
    tmp_path.joinpath(*["d"] * 100).mkdir(parents=True)
    index = scan(tmp_path)
    assert index.refused == {"/".join(["d"] * 65): "is more than 64 folders deep"}
    box = Sandbox(index)
    assert [say(box, "cd d").startswith("Success") for _ in range(65)] == [True] * 64 + [False]


def test_a_folder_that_cannot_be_read(tmp_path, monkeypatch):
    (tmp_path / "r" / "closed").mkdir(parents=True)
    real = os.open

    def refuse(path, *args, **more):
        if path == "closed":  # chmod would not keep root out
            raise PermissionError(13, "Permission denied")
        return real(path, *args, **more)

    monkeypatch.setattr(os, "open", refuse)
    index = scan(tmp_path / "r")
    assert (index.folders, index.refused) == ({"": ()}, {"closed": "cannot be read (Permission denied)"})


def test_repositories_that_are_not_there(tmp_path):
    with pytest.raises(UsageError, match="no folder"):
        Library(tmp_path / "nope")
    with pytest.raises(UsageError, match="Cannot read the repository"):
        scan(tmp_path / "nope")
    (tmp_path / "shop").mkdir()
    with pytest.raises(UsageError, match=r"no repository 'shob'.*did you mean 'shop'"):
        Library(tmp_path).get("shob")
