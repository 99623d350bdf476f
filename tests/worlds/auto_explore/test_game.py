"""AutoExplore: everything recorded (auto_explore.json), and where the default is not the published behaviour."""

import asyncio
import json
import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweet_rl.chat.reflect_format import CHOICES, offered_commands
from sweet_rl.errors import UsageError
from sweet_rl.mini.repositories import make_repository
from sweet_rl.types import Message, Observation
from sweet_rl.worlds import load_tasks
from sweet_rl.worlds.auto_explore.game import ExploreGame, PlanningExplorer, Wanderer, all_commands
from sweet_rl.worlds.auto_explore.options import ACTION_HEAD
from sweet_rl.worlds.auto_explore.repositories import (
    Entry,
    Library,
    index_of,
    is_allowed,
    kind_of,
    next_command,
    optimal_path,
    scan,
    split_command,
    unwrap,
    wrap,
)
from sweet_rl.worlds.auto_explore.sandbox import PIECES, Sandbox, bytes_shown, truncate
from sweet_rl.worlds.text_games import TextGameEnv
from tests.worlds.playing import played

from .goldens import CharacterCounter, load, shop_folder, tagged, task

FILES = {
    "README.md": "Error: what users see when it breaks\n",
    "Makefile": "all:\n",
    "docs/hours.md": "Nine to five.\n",
    "docs/prices.csv": "".join(f"{n},x\n" for n in range(9)),
    "src/core/tax.py": "TAX = 0.2\n",
}


@pytest.fixture
def golden(shared):
    return load(shared)


@pytest.fixture
def shop(shared):
    return scan(shop_folder(shared) / "shop")


@pytest.fixture
def library():
    known = Library()
    known._known["shop"] = index_of("shop", FILES)
    return known


def test_parsing_helpers(golden, shared):
    for line, words in golden["split_command"].items():
        assert split_command(line, compat="published") == words
    for name, (wrapped, unwrapped) in golden["wrap_unwrap"].items():
        assert (wrap(name, compat="published"), unwrap(wrapped, compat="published")) == (wrapped, unwrapped)
    paths = json.loads((shared / "goldens/reflect_rl/data_and_cli.json").read_text())["optimal_path"]
    files = ("README.md", "src/core/tax.py", "my notes/todo list.txt")
    assert [optimal_path(file) for file in files] == paths
    # line breaks between commands are no words by default
    assert split_command("cat a.py\nls") == ["cat", "a.py", "ls"]


def test_truncation(golden):
    numbers = "\n".join(map(str, range(12)))
    for quoted, expected in golden["trunc_text_one_token_per_char"].items():
        name = unwrap(quoted)
        text = "x" * 600 if name == "a.py" else numbers
        assert tagged(truncate(text, name, tokens=CharacterCounter())) == expected


def test_the_recorded_sandbox(golden, shop):
    box = Sandbox(shop, tokens=CharacterCounter(), compat="published")
    not_reproduced = []
    for step in golden["sandbox_main"]["steps"]:
        if step["cmd"] == ["exit"]:
            with pytest.raises(NotImplementedError):
                box.run(step["cmd"])
            assert step["result"].startswith("EXC NotImplementedError")
            continue
        result = box.run(step["cmd"])
        if step["cmd"][0] in {"python", "pip"}:
            assert result.text.startswith("Error: ")
            not_reproduced.append(step["cmd"][0])
            continue
        assert tagged(result.text) == step["result"], step["cmd"]
        assert result.identified == step["status"].get("identified_file")
        assert (box.cwd or ".") == step["cwd"]
    # On purpose: `python` would run code of the repository (and of the model) in our process's place.
    assert not_reproduced == ["python"]
    assert list(filter(is_allowed, box.all_files())) == golden["sandbox_main"]["list_files"]
    assert list(box.all_files()) == golden["sandbox_main"]["all_files"]
    assert box.written == golden["sandbox_main"]["changed"]
    for where, name in (("", "root"), ("src", "src"), ("my notes", "notes")):
        box = Sandbox(shop, tokens=CharacterCounter(), compat="published")
        box.cwd = where
        commands = [command for command, _ in all_commands(box, compat="published")]
        assert commands == golden[f"list_all_actions_{name}"]


@pytest.mark.parametrize("compat", ["published", "fixed"])
def test_everything_left_out_but_the_target(golden, shop, compat):
    rng = random.Random(0) if compat == "published" else 0
    box = Sandbox(shop, seed=rng, leaveout_prob=1, keep=["src/core/tax.py"], compat=compat)
    recorded = golden["leaveout_p1"]
    (step,) = recorded["steps"]
    assert box.run(step["cmd"]).text == step["result"]
    assert list(filter(is_allowed, box.all_files())) == recorded["list_files"]
    assert list(box.all_files()) == recorded["all_files"]


def test_costs(library):
    game = begun(library)  # by default warnings cost, and what files say does not
    assert game.step("zz").cost == 2
    assert game.step("cat README.md").cost == 1  # its text begins with a keyword
    assert "Error: what users see" in game.text
    assert begun(library, compat="published").step("zz").cost == 1


def test_recorded_episodes(golden, shared):
    assert len(golden["episodes"]) == 14
    for name, episode in golden["episodes"].items():
        game = ExploreGame(
            Library(shop_folder(shared)),
            max_turns=episode["horizon"],
            tokens=CharacterCounter(),
            compat="published",
            easy=name == "easy_question",
            first_step=name.startswith("first_step"),
            shuffle_action=name.startswith("shuffled"),
        )
        (first, *steps), costs = episode["steps"], []
        optimal = ["ls", "cd docs", "ls", "cat hours.md"]
        asked = task("What are the opening hours?", episode["targets"], optimal_path=optimal)
        assert game.reset(asked, seed=7) == first["obs"], name
        for step in steps:
            assert step["labels"] in (None, game.labels), name
            moved = game.step(step["action"])
            costs.append(moved.cost)
            assert moved.reward == step["reward"], name
            assert (moved.terminated, moved.truncated) == (step["done"], step["truncated"]), name
            assert moved.over is (step["obs"] is None), name
            assert moved.over or tagged(moved.text) == step["obs"], name
        assert (costs, sum(costs)) == (episode["costs"], episode["total_cost"]), name
        assert game.history == episode["cmd_history"], name
        assert (sum(costs) < game.success_threshold) is episode["success"], name


def begun(library, targets=("docs/hours.md",), seed=0, **settings):
    game = ExploreGame(library, **settings)
    game.reset(task("When is it open?", targets, optimal_path=["ls", "cd docs"]), seed=seed)
    return game


def test_out_of_steps_is_no_end(library):
    game = begun(library, max_turns=2)
    game.step("cd docs")
    moved = game.step("cd ..")
    assert (moved.terminated, moved.truncated, moved.cost, moved.info["won"]) == (False, True, 3, False)
    assert moved.text == "Executing: cd ..\nSuccess: Now at ."
    assert game.step("0") == (game.text, 0, True, False, {"won": False})


def test_one_of_several_targets(library):
    won = begun(library, targets=["docs/nope.md", "README.md"]).step("id README.md").info
    result = "Success: Identified file README.md"
    assert won == {"won": True, "command": "id README.md", "result": result, "identified": "README.md"}


def test_first_step(library):
    for command, cost in (("cd docs", -115), ("cd src", 1)):
        moved = begun(library, first_step=True).step(command)
        assert (moved.cost, moved.over, moved.info["won"]) == (cost, True, cost < 0)
    for seed in range(8):  # the way of an easy game leads to the file that is asked for
        game = begun(library, ("docs/hours.md", "src/core/tax.py"), seed, easy=True, first_step=True)
        assert game.step(f"cd {game.targets[0].partition('/')[0]}").info["won"] is True


def test_seeds(library):
    """Everything that is drawn depends on the task and the seed alone."""
    settings = {"leaveout_prob": 0.5, "shuffle_action": True, "easy": True}
    texts = {}
    for seed in range(30):
        played = []
        for _ in range(2):
            game = begun(library, seed=seed, targets=["README.md", "src/core/tax.py"], **settings)
            played.append(game.text + game.step(game.labels[-1]).text)
        assert played[0] == played[1]
        texts[seed] = played[0]
    assert len(set(texts.values())) > 25
    asked = {text.partition("\n\n")[0] for text in texts.values()}
    assert asked == {"# Task\nFind README.md", "# Task\nFind src/core/tax.py"}


def test_shuffled_labels(library):
    game = begun(library, shuffle_action=True)
    first = dict(game.offered)
    assert set(first) <= set(CHOICES)
    assert list(first.values()) == list(begun(library).offered.values())
    game.step("zz")
    assert list(game.offered.values()) == list(first.values())
    assert game.labels != list(first)


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
            assert moves[-1].info["won"] == (handed_in == wanted)
            rewards[wanted, handed_in] = sum(move.reward for move in moves)
        game = begun(library, tuple(paths), seed, easy=True, compat=compat, leaveout_prob=1.0)
        assert [
            *filter(is_allowed, game.sandbox.all_files())
        ] == game.targets  # the file that is asked for stays
        gone = begun(library, ("docs/gone.md", "docs/hours.md"), seed, easy=True)
        assert gone.targets == ["docs/hours.md"]  # and no other is asked for
    hours, tax = paths
    assert rewards == {(hours, hours): 13, (tax, tax): 12, (hours, tax): -18, (tax, hours): -17}


@given(st.integers(0, 10_000), st.sampled_from([0.2, 0.5, 0.9]))
def test_the_way_to_a_target_is_never_left_out(seed, probability):
    box = Sandbox(index_of("r", FILES), seed=seed, leaveout_prob=probability, keep=["src/core/tax.py"])
    left = list(box.all_files())
    assert "src/core/tax.py" in left
    for path in FILES:
        assert (box.at(path) == "file") is (path in left)
        assert box.run(["cat", path]).text.startswith("Success") is (path in left)


def test_leaving_out_is_as_frequent_as_asked():
    index = index_of("r", {f"{n}.md": "x" for n in range(2000)})
    one, other = (
        len(Sandbox(index, seed=seed, leaveout_prob=0.3, keep=["7.md"]).entries()) for seed in (1, 2)
    )
    assert 1340 < one < 1460
    assert one != other
    index = index_of("r", {"s": "", "src/a.md": "", "srcs/b.md": ""})
    for compat, kept in (("fixed", ["src/a.md"]), ("published", ["s", "src/a.md"])):  # letters keep nothing
        assert list(Sandbox(index, leaveout_prob=1, keep=["src/a.md"], compat=compat).all_files()) == kept


@given(st.text(min_size=1, max_size=30).filter(lambda name: name.isprintable() and "/" not in name))
def test_any_name_survives_quoting(name):
    assert unwrap(wrap(name)) == name
    assert split_command(f"cat {wrap(name)}") == ["cat", wrap(name)]
    known = Library()
    known._known["r"] = index_of("r", {f"{name}.md": "x"})
    game = ExploreGame(known)
    game.reset(task("?", [f"{name}.md"], root="r"), seed=0)
    assert game.step("1").info["won"] is True


@given(st.text(alphabet=string.printable + "é🐕", max_size=300), st.sampled_from(["a.csv", "a.md", "a.bin"]))
def test_what_is_shown_is_a_beginning(text, name):
    shown = truncate(text, name, tokens=CharacterCounter())
    if shown == text:
        assert text.count("\n") <= {"a.csv": 5, "a.md": 100, "a.bin": 10}[name]
    else:
        assert text.startswith(shown.partition("\n...\n")[0] if "\n...\n" not in text else "")
    five = "1\n2\n3\n4\n5\n"
    assert truncate(five, "a.csv") == five  # behind a last line break there is no line
    assert truncate(f"{five}6", "a.csv").startswith(f"{five}...\n")
    count = PIECES.count(text)
    assert PIECES.cut(text, count) == text
    assert all(PIECES.count(PIECES.cut(text, n)) <= n for n in range(0, count, 7))
    assert len(text) <= PIECES.longest * count


def test_what_is_read_is_enough():
    """A file that is longer than what is read is cut anyway: nobody can tell that the rest was not looked at."""
    for tokens in (PIECES, CharacterCounter()):
        limit = bytes_shown(tokens)
        for char in ("x", "é", "🐕", " "):
            data = char * limit
            read = data.encode()[:limit].decode(errors="ignore")
            assert truncate(read, "a.py", tokens=tokens) == truncate(data, "a.py", tokens=tokens)


def test_a_repository_on_disk_and_in_memory(tmp_path):
    made = make_repository("analysis-3")
    for path, text in {".git/config": "x", ".env": "x", **made.files}.items():  # hidden names do not exist
        (tmp_path / "analysis-3" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "analysis-3" / path).write_text(text)
    library = Library(tmp_path)
    disk, memory = library.get("analysis-3"), made.index()
    assert library.get("analysis-3") is disk
    assert (disk.name, disk.folders, disk.refused) == (memory.name, memory.folders, {})
    assert list(disk.files()) == list(memory.files()) == sorted(made.files)
    for path, text in made.files.items():
        assert disk.read(path, 5) == memory.read(path, 5) == (text.encode()[:5], False)
        assert disk.read(path, 100_000) == memory.read(path, 100_000) == (text.encode(), True)
        assert disk.find(path) == Entry(path.rpartition("/")[2], False)
    assert disk.find("nope") is None
    index = index_of("r", dict.fromkeys(("b.md", "B.md", "a/x.md", "_.md", "1.md", "a.md"), ""))
    assert [entry.name for entry in index.folders[""]] == ["1.md", "B.md", "_.md", "a", "a.md", "b.md"]
    kinds = {"a.py": "code", "a.csv": "data", "a.md": "text", "a.sh": "exec", "a.b.json": "text"}
    kinds |= dict.fromkeys(("a.png", "py", ".md", "a.md/b"), "other")
    for name, kind in kinds.items():
        assert (kind_of(name), is_allowed(name)) == (kind, kind != "other")


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


TASKS = load_tasks("auto-explore:test", num_tasks=40)
PLANNER = PlanningExplorer({task.task_id: task.ground_truth for task in TASKS})


def explored(policy, tasks=TASKS, **settings):
    library = Library()
    done = played(lambda: TextGameEnv(lambda: ExploreGame(library, **settings)), policy, tasks)
    assert all(trajectory.error is None for trajectory in done)
    return done


@pytest.mark.parametrize(
    "settings",
    [{}, {"shuffle_action": True}, {"leaveout_prob": 0.5}, {"compat": "published"}, {"easy": True}],
)
def test_the_planner_goes_the_shortest_way(settings):
    for trajectory in explored(PLANNER, **settings):
        game, depth = trajectory.extra["game"], trajectory.task.ground_truth.count("/")
        assert (game["won"], game["identified"]) == (True, trajectory.task.ground_truth)
        assert trajectory.reward == 15 - (depth + 2) == -game["cost"]
    asked = Observation("auto_explore/other", (Message("user", ""),), 0)
    with pytest.raises(UsageError, match="was given no file"):
        asyncio.run(PLANNER.act(asked))


def test_the_wanderer_is_a_floor():
    done = explored(Wanderer())
    assert sum(trajectory.extra["game"]["won"] for trajectory in done) / len(done) < 0.35
    assert done[0].dialogue_history == explored(Wanderer(), tasks=TASKS[:1])[0].dialogue_history


def test_what_a_prompt_says():
    game = ExploreGame(Library())
    assert offered_commands(game.reset(TASKS[0], seed=0), ACTION_HEAD) == game.offered
