"""AutoExplore where the default is not the published behaviour, and what the goldens do not show."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweet_rl.chat.reflect_format import CHOICES
from sweet_rl.errors import UsageError
from sweet_rl.worlds.auto_explore.game import ExploreGame, step_cost
from sweet_rl.worlds.auto_explore.repositories import Library, index_of, split_command, unwrap, wrap
from sweet_rl.worlds.auto_explore.sandbox import PIECES, Sandbox, bytes_shown, file_names, truncate
from tests.worlds.auto_explore.goldens import CharacterCounter

from .goldens import task

FILES = {
    "README.md": "Error: what users see when it breaks\n",
    "Makefile": "all:\n",
    "docs/hours.md": "Nine to five.\n",
    "docs/prices.csv": "".join(f"{n},x\n" for n in range(9)),
    "src/core/tax.py": "TAX = 0.2\n",
}


@pytest.fixture
def library():
    known = Library()
    known._known["shop"] = index_of("shop", FILES)
    return known


def begun(library, targets=("docs/hours.md",), seed=0, **settings):
    game = ExploreGame(library, **settings)
    game.reset(task("When is it open?", targets, optimal_path=["ls", "cd docs"]), seed=seed)
    return game


def test_warnings_cost_and_what_files_say_does_not(library):
    game = begun(library)
    assert game.step("zz").cost == 2
    assert game.step("cat README.md").cost == 1  # its text begins with a keyword
    assert "Error: what users see" in game.text
    assert [step_cost("Error: x"), step_cost("Warning: x"), step_cost("An Error: x")] == [3, 2, 1]
    moved = begun(library, compat="published").step("zz")
    assert moved.cost == 1


def test_out_of_steps_is_no_end(library):
    game = begun(library, max_turns=2)
    game.step("cd docs")
    moved = game.step("cd ..")
    assert (moved.terminated, moved.truncated, moved.cost, moved.info["won"]) == (False, True, 3, False)
    assert moved.text == "Executing: cd ..\nSuccess: Now at ."
    assert game.step("0") == (game.text, 0, True, False, {"won": False})


def test_one_of_several_targets(library):
    game = begun(library, targets=["docs/nope.md", "README.md"])
    assert game.step("id README.md").info == {
        "won": True,
        "command": "id README.md",
        "result": "Success: Identified file README.md",
        "identified": "README.md",
    }


def test_first_step(library):
    moved = begun(library, first_step=True).step("cd docs")
    assert (moved.cost, moved.over, moved.info["won"]) == (-115, True, True)
    moved = begun(library, first_step=True).step("cd src")
    assert (moved.cost, moved.over, moved.info["won"]) == (1, True, False)


def test_seeds(library):
    """Everything that is drawn depends on the task and the seed alone."""
    settings = {"leaveout_prob": 0.5, "shuffle_action": True, "easy": True}
    texts = {}
    for seed in range(30):
        game = begun(library, seed=seed, targets=["README.md", "src/core/tax.py"], **settings)
        text = [game.text, game.step(game.labels[-1]).text]
        again = begun(library, seed=seed, targets=["README.md", "src/core/tax.py"], **settings)
        assert text == [again.text, again.step(again.labels[-1]).text]
        texts[seed] = "".join(text)
    assert len(set(texts.values())) > 25
    assert {text.partition("\n\n")[0] for text in texts.values()} == {
        "# Task\nFind README.md",
        "# Task\nFind src/core/tax.py",
    }


def test_shuffled_labels(library):
    game = begun(library, shuffle_action=True)
    first = dict(game.offered)
    assert set(first) <= set(CHOICES)
    assert list(first.values()) == list(begun(library).offered.values())
    game.step("zz")
    assert list(game.offered.values()) == list(first.values())
    assert game.labels != list(first)


@given(st.integers(0, 10_000), st.sampled_from([0.2, 0.5, 0.9]))
def test_the_way_to_a_target_is_never_left_out(seed, probability):
    box = Sandbox(index_of("r", FILES), seed=seed, leaveout_prob=probability, keep=["src/core/tax.py"])
    assert box.at("src/core/tax.py") == "file"
    left = list(box.all_files())
    assert "src/core/tax.py" in left
    for path in FILES:
        assert (box.at(path) == "file") is (path in left)
        assert box.run(["cat", path]).text.startswith("Success") is (path in left)


def test_leaving_out_is_as_frequent_as_asked():
    index = index_of("r", {f"{n}.md": "x" for n in range(2000)})
    left = len(Sandbox(index, seed=1, leaveout_prob=0.3, keep=["7.md"]).entries())
    assert 1340 < left < 1460
    assert left != len(Sandbox(index, seed=2, leaveout_prob=0.3, keep=["7.md"]).entries())


def test_letters_keep_nothing():
    index = index_of("r", {"s": "", "src/a.md": "", "srcs/b.md": ""})
    kept = [
        Sandbox(index, leaveout_prob=1, keep=["src/a.md"], compat=compat).all_files()
        for compat in ("fixed", "published")
    ]
    assert [list(files) for files in kept] == [["src/a.md"], ["s", "src/a.md"]]


@given(st.text(min_size=1, max_size=30).filter(lambda name: name.isprintable() and "/" not in name))
def test_any_name_survives_quoting(name):
    assert unwrap(wrap(name)) == name
    assert split_command(f"cat {wrap(name)}") == ["cat", wrap(name)]
    assert file_names(split_command(f"id {wrap(name)}")) == [wrap(name)]
    known = Library()
    known._known["r"] = index_of("r", {f"{name}.md": "x"})
    game = ExploreGame(known)
    game.reset(task("?", [f"{name}.md"], root="r"), seed=0)
    assert game.step("1").info["won"] is True


@given(st.text(alphabet=string.printable + "é🐕", max_size=300), st.sampled_from(["a.csv", "a.md", "a.bin"]))
def test_truncation_keeps_a_beginning(text, name):
    shown = truncate(text, name, tokens=CharacterCounter())
    limit = {"a.csv": 5, "a.md": 100, "a.bin": 10}[name]
    if shown == text:
        assert text.count("\n") <= limit
    else:
        kept = shown.partition("\n...\n")[0] if "\n...\n" not in text else ""
        assert text.startswith(kept)


def test_five_lines_with_a_last_line_break_are_whole():
    assert truncate("1\n2\n3\n4\n5\n", "a.csv") == "1\n2\n3\n4\n5\n"
    assert truncate("1\n2\n3\n4\n5\n6", "a.csv").startswith("1\n2\n3\n4\n5\n...\n")


@given(st.text(max_size=200))
def test_pieces(text):
    count = PIECES.count(text)
    assert PIECES.cut(text, count) == text
    assert sum(len(PIECES.cut(text, n)) for n in range(count)) <= count * len(text)
    assert all(PIECES.count(PIECES.cut(text, n)) <= n for n in range(count))
    assert len(text) <= PIECES.longest * max(count, 0)


def test_what_is_read_is_enough():
    """A file that is longer than what is read is cut anyway: nobody can tell that the rest was not looked at."""
    for tokens in (PIECES, CharacterCounter()):
        limit = bytes_shown(tokens)
        for char in ("x", "é", "🐕", " "):
            data = char * limit
            read = data.encode()[:limit].decode(errors="ignore")
            assert truncate(read, "a.py", tokens=tokens) == truncate(data, "a.py", tokens=tokens)


def test_settings_that_cannot_be(library):
    with pytest.raises(UsageError, match="max_turns"):
        ExploreGame(library, max_turns=0)
    with pytest.raises(UsageError, match="leaveout_prob"):
        ExploreGame(library, leaveout_prob=1.5)


@pytest.mark.parametrize("compat", ["published", "fixed"])
def test_easy_asks_for_one_file_and_takes_no_other(library, compat):
    paths = {
        "docs/hours.md": ["cd docs", "id hours.md"],
        "src/core/tax.py": ["cd src", "cd core", "id tax.py"],
    }
    rewards = {}
    for seed in range(8):
        for handed_in, commands in paths.items():
            game = begun(library, tuple(paths), seed, easy=True, compat=compat)
            (wanted,) = game.targets
            assert f"# Task\nFind {wanted}\n" in game.text
            moves = [game.step(command) for command in commands]
            won = moves[-1].info["won"]
            assert won == (handed_in == wanted)
            rewards[wanted, handed_in] = sum(move.reward for move in moves)
    hours, tax = paths
    assert rewards == {(hours, hours): 13, (tax, tax): 12, (hours, tax): -18, (tax, hours): -17}


@pytest.mark.parametrize("compat", ["published", "fixed"])
def test_easy_leaves_the_other_right_files_out_like_any_file(library, compat):
    targets = ("docs/hours.md", "src/core/tax.py")
    for seed in range(8):
        game = begun(library, targets, seed, easy=True, compat=compat, leaveout_prob=1.0)
        assert game.sandbox.files() == game.targets


def test_easy_asks_for_no_file_that_is_not_there(library):
    asked = {
        begun(library, ("docs/gone.md", "docs/hours.md"), seed, easy=True).targets[0] for seed in range(9)
    }
    assert asked == {"docs/hours.md"}


def test_the_first_step_of_an_easy_game_leads_to_the_file_that_is_asked_for(library):
    targets = ("docs/hours.md", "src/core/tax.py")  # the row's optimal path leads to the first
    for seed in range(8):
        game = begun(library, targets, seed, easy=True, first_step=True)
        folder = game.targets[0].partition("/")[0]
        assert game.step(f"cd {folder}").info["won"] is True
