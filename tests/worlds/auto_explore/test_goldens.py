"""Everything recorded in auto_explore.json, in `compat="published"` mode."""

import random

import pytest

from sweet_rl.worlds.auto_explore.game import ExploreGame, all_commands, published_keyword_cost, step_cost
from sweet_rl.worlds.auto_explore.repositories import (
    Library,
    ascii_fraction,
    scan,
    split_command,
    unwrap,
    wrap,
)
from sweet_rl.worlds.auto_explore.sandbox import (
    Sandbox,
    extract_blocks,
    extract_commands,
    file_names,
    hide_root,
    truncate,
)
from tests.worlds.auto_explore.goldens import CharacterCounter

from .goldens import load, shop_folder, tagged, task

EPISODES = [
    *("optimal", "direct_id", "wrong_id", "invalid_choice_then_ok", "horizon_3", "last_step_success"),
    *("cat_removed_after_use", "full_command_text_as_action", "label_with_dot", "space_file_target_unquoted"),
    *("first_step_ok", "first_step_bad", "easy_question", "shuffled_seed7"),
]


@pytest.fixture
def golden(shared):
    return load(shared)


@pytest.fixture
def shop(shared):
    return scan(shop_folder(shared) / "shop")


def sandbox(index, **more):
    return Sandbox(index, tokens=CharacterCounter(), compat="published", **more)


def test_parsing_helpers(golden):
    for line, words in golden["split_command"].items():
        assert split_command(line, compat="published") == words
    for text, commands in golden["extract_commands"].items():
        assert extract_commands(text, compat="published") == commands
    case = golden["extract_command_blocks"]
    texts, spans = case["out"]
    blocks = extract_blocks(case["in"])
    assert [block.text for block in blocks] == texts
    assert [[block.start, block.end] for block in blocks] == spans
    for line, names in golden["get_file_names"].items():
        assert file_names(split_command(line)) == names
    for name, (wrapped, unwrapped) in golden["wrap_unwrap"].items():
        assert (wrap(name, compat="published"), unwrap(wrapped, compat="published")) == (wrapped, unwrapped)
    assert hide_root("cat: /tmp/r/sub/x: no; at /tmp/r end", "/tmp/r") == golden["hide_root"]
    for text, fraction in golden["ascii_fraction"].items():
        assert ascii_fraction(text) == fraction


def test_line_breaks_between_commands_are_no_words_by_default():
    assert split_command("cat a.py\nls") == ["cat", "a.py", "ls"]
    assert extract_commands("```bash\ncd a\nls\n```") == [["cd", "a"], ["ls"]]


def test_truncation(golden):
    numbers = "\n".join(map(str, range(12)))
    for quoted, expected in golden["trunc_text_one_token_per_char"].items():
        name = unwrap(quoted)
        text = "x" * 600 if name == "a.py" else numbers
        assert tagged(truncate(text, name, tokens=CharacterCounter())) == expected


def test_sandbox(golden, shop):
    box = sandbox(shop)
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
    assert box.files() == golden["sandbox_main"]["list_files"]
    assert list(box.all_files()) == golden["sandbox_main"]["all_files"]
    assert box.written == golden["sandbox_main"]["changed"]


@pytest.mark.parametrize("compat", ["published", "fixed"])
def test_everything_left_out_but_the_target(golden, shop, compat):
    rng = random.Random(0) if compat == "published" else 0
    box = Sandbox(shop, seed=rng, leaveout_prob=1, keep=["src/core/tax.py"], compat=compat)
    recorded = golden["leaveout_p1"]
    (step,) = recorded["steps"]
    assert box.run(step["cmd"]).text == step["result"]
    assert box.files() == recorded["list_files"]
    assert list(box.all_files()) == recorded["all_files"]


@pytest.mark.parametrize(("where", "name"), [("", "root"), ("src", "src"), ("my notes", "notes")])
def test_what_is_offered(golden, shop, where, name):
    box = sandbox(shop)
    box.cwd = where
    commands = [command for command, _ in all_commands(box, compat="published")]
    assert commands == golden[f"list_all_actions_{name}"]


def test_costs(golden):
    recorded = golden["cost"]
    messages = [tuple(message) for message in recorded["messages"]]
    assert published_keyword_cost(messages) == recorded["keyword_on_tuples"]
    assert step_cost("", compat="published") + published_keyword_cost(messages) == recorded["synthesized"]
    texts = [text for _, text in messages]
    assert (
        sum(2 * text.count("Error") + text.count("Warning") for text in texts)
        == recorded["keyword_on_strings"]
    )


@pytest.mark.parametrize("name", EPISODES)
def test_episode(golden, shared, name):
    episode = golden["episodes"][name]
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
    assert game.reset(asked, seed=7) == first["obs"]
    for step in steps:
        assert step["labels"] in (None, game.labels)
        moved = game.step(step["action"])
        costs.append(moved.cost)
        assert moved.reward == step["reward"]
        assert (moved.terminated, moved.truncated) == (step["done"], step["truncated"])
        assert moved.over is (step["obs"] is None)
        if not moved.over:
            assert tagged(moved.text) == step["obs"]
    assert costs == episode["costs"]
    assert sum(costs) == episode["total_cost"]
    assert game.history == episode["cmd_history"]
    assert (sum(costs) < game.success_threshold) is episode["success"]


def test_all_recorded_episodes_are_played(golden):
    assert sorted(golden["episodes"]) == sorted(EPISODES)
