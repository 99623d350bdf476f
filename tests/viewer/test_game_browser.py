"""Worlds that reward turns in a real Chromium: returns, ends and every turn's reward, and nothing of tests."""

import pytest

from sweet_rl.commands.view import visualize_dialogue_histories
from tests.viewer.driving import Viewer
from tests.viewer.samples import ERRAND, game_rows, write_rows

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def exported_games(tmp_path_factory):
    """The address of the page that the real command makes of the file."""
    saved = write_rows(tmp_path_factory.mktemp("games") / "games.jsonl", game_rows())
    visualize_dialogue_histories(str(saved), export=str(saved.with_suffix(".html")))
    return saved.with_suffix(".html").as_uri()


@pytest.fixture
def viewer(browser, exported_games):
    return Viewer(browser, exported_games)


def test_summary_filters_and_titles(viewer):
    viewer.open()
    assert viewer.texts("#figures dt") == ["Rows", "Mean return", "Ended by the world", "Failed"]
    assert viewer.texts("#figures dd") == ["53 tasks", "1.39[\u22126.83, 9.61] · \u22122 to 5", "60.0 %", "1"]
    assert viewer.texts(".segments button") == ["All5", "Ended3", "Cut short2"]
    assert viewer.texts(".entry-title")[:2] == ["river", ERRAND]
    assert viewer.texts(".entry-meta")[:2] == [
        "1 of 2 endedmean return \u22121.5",
        "1 of 2 endedmean return 0.67⚑ 1",
    ]
    assert viewer.classes(".entry:first-child .chip") == ["chip ended", "chip cut"]
    assert viewer.text(".detail-head h2") == "river"
    assert "EndedBy the world" in viewer.text(".facts")
    viewer.press("3")
    viewer.wait_for_count("2 rows of 5")
    assert viewer.texts("#figures dd") == ["22 tasks", "\u22122", "0.0 %"]
    assert viewer.complaints() == []


def test_every_turn_shows_its_reward(viewer):
    viewer.open("#twenty_questions%2F7/0")
    assert viewer.texts(".turn-reward") == ["reward \u22121", "reward 0"]
    assert viewer.texts(".turn.user .speaker") == ["Worldbegins", "World", "World"]
    viewer.press("j", "j")
    viewer.until("return document.querySelector('.facts').textContent.includes('webshop/3')")
    assert viewer.texts(".turn-reward") == ["reward 0", "reward 0.67"]
    assert viewer.classes(".turn-reward") == ["turn-reward", "turn-reward gain"]
    assert viewer.text(".facts .reward") == "Return 0.67"


def test_nothing_is_shown_that_games_do_not_have(viewer):
    viewer.open()
    assert viewer.all("#answer, #tests, .reward-bar, .chip-bar, .handed-in, .turn-reward:empty") == []
    assert viewer.texts(".jumps button") == ["Dialogue"]
    viewer.press(*"jk][g2tpdae")
    assert viewer.complaints() == []


def test_a_row_without_rewards_has_no_badge(viewer):
    viewer.open()
    viewer.search("the shop is closed")
    viewer.wait_for_count("1 row of 5")
    viewer.press("Enter")
    viewer.until("return document.querySelector('.stepper').textContent.includes('Repeat 1')")
    assert viewer.all(".turn-reward") == []
    assert viewer.texts("#figures dd") == ["11 task", "\u2013", "0.0 %"]


def test_search_in_the_page_covers_what_is_hidden(viewer):
    viewer.open()
    viewer.search("blue kettle")
    viewer.wait_for_count("2 rows of 5")


def test_chips_say_returns_and_ends(viewer):
    viewer.open()
    chips = viewer.script("return Array.from(document.querySelectorAll('.chip'), e => e.ariaLabel)")
    assert chips == [
        "Repeat 0: reward \u22121, ended, 2 turns",
        "Repeat 1: reward \u22122, turn limit, 2 turns",
        "Repeat 0: reward 0.67, ended, 2 turns",
        "Repeat 1: ungraded, world failed, 1 turn",
    ]


def test_a_reflection_opens_with_the_thoughts(viewer):
    viewer.open("#lantern%2F5/0")
    assert viewer.shown(".folded.thoughts") == [False]
    viewer.press("t")
    assert viewer.shown(".folded.thoughts") == [True]
    assert viewer.text(".folded.thoughts") == "There may be a tower up north."
    viewer.search("a tower up north")
    viewer.wait_for_count("1 row of 5")
    assert viewer.complaints() == []
