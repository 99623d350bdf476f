"""What the viewer shows of worlds that reward turns."""

import pytest

from sweet_rl.records import trajectories_from_rows
from sweet_rl.viewer.content import GameContents, rewards_turns
from tests.viewer.game_samples import ERRAND, KETTLE, game_rows, played
from tests.viewer.samples import listed, row, sample_rows


def read(*rows):
    return trajectories_from_rows(list(enumerate(rows, start=1)))


@pytest.fixture
def games():
    return GameContents(read(*game_rows()), "games")


def test_turn_rewards_tell_games_from_other_files():
    assert rewards_turns(read(*game_rows()))
    assert not rewards_turns(read(*sample_rows()))
    assert not rewards_turns([])


def test_index_names_tasks_by_errand_or_by_what_is_hidden_and_says_what_was_cut_short(games):
    index = games.index()
    assert [task["summary"] for task in index["tasks"]] == [
        "river",
        ERRAND,
        "lantern/5: You are on an island. Light the great lantern again.",
    ]
    assert [one["truncated"] for one in listed(index)] == [False, True, False, True, False]


def test_a_shop_that_tells_its_errand_only_when_entered():
    task = {key: value for key, value in KETTLE.items() if key != "instruction"} | {"hidden_information": ""}
    history = played(task, ("search[x]", 0.0, "Nothing."))
    (told,) = read(row(task, 0, history, None, "turn_limit", instruction="Find me a lamp"))
    (untold,) = read(row(task, 0, history, None, None))
    assert GameContents([told], "").index()["tasks"][0]["summary"] == "Find me a lamp"
    index = GameContents([untold], "").index()
    assert index["tasks"][0]["summary"] == "webshop/3: Buy what the shop's first page asks for."
    assert listed(index)[0]["truncated"] is None


def test_rows_carry_turn_rewards_where_there_are_any(games):
    def rewards(position):
        return [m.get("reward") for m in games.row(position)["messages"] if m["role"] == "assistant"]

    assert rewards(0) == [-1.0, 0.0]
    assert rewards(3) == [None]


def test_search_covers_what_is_hidden(games):
    assert "blue kettle" in games.text(games.items[3])
    assert "river" in games.text(games.items[1])
