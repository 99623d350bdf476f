"""Pages and games in a real Chromium: pictures compared, sources that stay text, rewards of turns and nothing of tests."""

import base64
import io

import pytest
from PIL import Image

from sweet_rl.commands.view import visualize_dialogue_histories
from sweet_rl.viewer.design import DesignContents
from sweet_rl.viewer.export import export
from sweet_rl.viewer.library import Library
from tests.browsers.fake_renderer import FakeRenderer
from tests.viewer.driving import Viewer, page_of
from tests.viewer.samples import ATTACK, ERRAND, FIRST, HOSTILE_PAGE, game_rows, page_rows, write_rows

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

PRESSED = "return document.querySelector('[data-mode][aria-pressed=true]').dataset.mode"
LOADED = "return [...document.querySelectorAll('.canvas img')].every((image) => image.complete)"


@pytest.fixture(scope="module")
def exported_pages(tmp_path_factory):
    """The address of the exported sample file, graded turn by turn."""
    folder = tmp_path_factory.mktemp("pages")
    saved = write_rows(folder / "pages.jsonl", page_rows(folder))

    def drawing(read, beside):
        return DesignContents(read, folder=beside, renderer=FakeRenderer(), metrics=True)

    export(Library([saved], drawing=drawing), folder / "pages.html", picture_bytes=1_000_000)
    return (folder / "pages.html").as_uri()


@pytest.fixture
def viewer(browser, exported_pages):
    return Viewer(browser, exported_pages)


def colour_at(viewer, x, y):
    """The colour that one sees at a place of the compared pictures, shares of their width and height."""
    viewer.until(LOADED)
    box = viewer.script("""
        const plate = document.querySelector(".plate");
        plate.scrollIntoView({ block: "end", behavior: "instant" });
        const box = plate.getBoundingClientRect();
        return [box.x, box.y, box.width, box.height]""")
    clip = {"x": box[0] + box[2] * x, "y": box[1] + box[3] * y, "width": 1, "height": 1, "scale": 1}
    shot = viewer.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png", "clip": clip})
    return Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB").getpixel((0, 0))


def test_summary_filters_and_order_go_by_score(viewer):
    viewer.open()
    assert viewer.texts("#figures dd") == ["43 tasks", "0.35[0.05, 0.85] · combined", "0.46", "0.01"]
    assert viewer.texts(".segments button") == ["All4", "≥ 0.81", "≥ 0.50", "< 0.52", "Ungraded1"]
    assert viewer.texts(".entry-meta")[0] == "best 0.82mean 0.61"
    viewer.press("2")
    assert viewer.count == "1 row of 4"
    viewer.press("1")
    viewer.choose("#sorting", "worst")
    assert viewer.texts(".entry-title")[0].startswith("A page for </script>")
    viewer.press("o")  # back to the file's order
    assert viewer.texts(".entry-title")[0] == "A page for bakery."


def test_dialogue_has_words_pictures_and_scores_turn_by_turn(viewer):
    viewer.open("#bakery/0")
    assert viewer.classes(".turn") == ["turn user", "turn assistant"] * 2
    assert viewer.texts(".bubble")[1] == "Here:[SEE RENDERED HTML]Like this?" + FIRST + "Turn 1Target"
    assert viewer.shown(".bubble .source") == [False, False]
    viewer.click(".placeholder")
    assert viewer.shown(".bubble .source") == [True, False]
    assert viewer.text("#dialogue .handed-in") == "Hands in its answer"
    first, second = map(float, viewer.texts(".speaker .reward > span:last-child"))
    assert viewer.text(".change") == f"+{second - first:.2f}"
    wide = "return [...document.querySelectorAll('.shot img')].every((image) => image.naturalWidth === 64)"
    viewer.until(wide)


def test_drafts_are_chosen_in_the_strip_and_compared_in_four_ways(viewer):
    viewer.open("#bakery/0")
    assert viewer.texts(".frame-name") == ["Turn 1", "Turn 2answer", "Target"]
    assert viewer.texts(".sheet strong") == ["Turn 2, the answer", "Target"]
    viewer.press("h")
    assert viewer.texts(".sheet strong") == ["Turn 1", "Target"]
    viewer.press("l", "x", "-", "-")  # small enough to be in the window
    assert viewer.script(PRESSED) == "difference"
    # the heading is the same; the target has a footer where the shorter draft goes on in white
    assert colour_at(viewer, 0.5, 1 / 6) == (0, 0, 0)
    different = colour_at(viewer, 0.5, 5 / 6)
    viewer.press("w")
    left, right = colour_at(viewer, 0.1, 5 / 6), colour_at(viewer, 0.9, 5 / 6)
    assert left == (255, 255, 255)
    assert different == tuple(min(255, 2 * (255 - channel)) for channel in right)  # twice, by default
    viewer.script("""
        const plate = document.querySelector(".plate");
        const box = plate.getBoundingClientRect();
        const at = { pointerId: 1, pointerType: "mouse", button: 0, clientX: box.x + box.width * 0.05, clientY: box.y + 5 };
        plate.setPointerCapture = () => {};
        plate.dispatchEvent(new PointerEvent("pointerdown", at))""")
    assert colour_at(viewer, 0.1, 5 / 6) == right
    assert round(float(viewer.script("return document.querySelector('.range').value"))) == 5
    viewer.press("b", *"++++")
    assert viewer.text(".zoom-text") == "200 %"
    viewer.go("#bakery/1")  # what was chosen stays
    assert (viewer.script(PRESSED), viewer.text(".zoom-text")) == ("blend", "200 %")
    assert viewer.complaints() == []


def test_metrics_by_turn_with_floors(viewer):
    viewer.open("#bakery/0")
    heads = ["Metric", "Turn 1", "Turn 2", "Answer", "Black picture", "Blank page"]
    assert viewer.texts(".grades thead th") == heads
    assert viewer.texts(".grades .chosen td")[2:] == ["0.82", "0.02", "0.01"]
    assert viewer.texts(".grades tbody th")[0] == "combined (the score)"


def test_a_row_without_pictures_says_why(browser, tmp_path):
    viewer = page_of(browser, tmp_path, page_rows(tmp_path)[2:3])
    assert "No metrics" not in viewer.text("#metrics")
    assert "sweet-rl evaluate_html does it" in viewer.text("#metrics")
    left_out = "Left out of this file: it would have been larger than --export_mb allows."
    assert viewer.texts(".sheet .no-picture") == [left_out, "The file names no picture."]
    assert viewer.shown(".modes button") == [True] * 4
    assert viewer.script("return document.querySelector('.modes button').disabled")


def test_hostile_pages_stay_text(viewer):
    viewer.open()
    viewer.click(".entry:last-child .entry-main")
    viewer.until("return document.querySelector('.detail-head h2').textContent.includes('</script>')")
    viewer.click(".placeholder")
    assert viewer.texts(".bubble .source") == [HOSTILE_PAGE]
    assert viewer.text("#pages > .source") == HOSTILE_PAGE
    assert ATTACK in viewer.text("#metrics")
    assert viewer.script("return window.pwned") is None
    assert viewer.all("#detail script, #detail a, #detail svg, #detail iframe, #detail [onerror]") == []
    assert viewer.requests() == viewer.complaints() == []


def test_narrow_window_holds_the_stage(viewer):
    with viewer.window(400, 800):
        viewer.open("#bakery/0")
        assert (viewer.shown(".canvas img"), viewer.too_wide()) == ([True, True], 0)
        viewer.named()


@pytest.fixture(scope="module")
def exported_games(tmp_path_factory):
    """The address of the page that the real command makes of the file."""
    saved = write_rows(tmp_path_factory.mktemp("games") / "games.jsonl", game_rows())
    visualize_dialogue_histories(str(saved), export=str(saved.with_suffix(".html")))
    return saved.with_suffix(".html").as_uri()


@pytest.fixture
def games(browser, exported_games):
    return Viewer(browser, exported_games)


def test_games_summary_filters_and_titles(games):
    games.open()
    assert games.texts("#figures dt") == ["Rows", "Mean return", "Ended by the world", "Failed"]
    assert games.texts("#figures dd") == ["53 tasks", "1.39[\u22126.83, 9.61] · \u22122 to 5", "60.0 %", "1"]
    assert games.texts(".segments button") == ["All5", "Ended3", "Cut short2"]
    assert games.texts(".entry-title")[:2] == ["twenty_questions/7: Questions:", ERRAND]
    means = ("\u22121.5", "0.67⚑ 1")
    assert games.texts(".entry-meta")[:2] == [f"1 of 2 endedmean return {mean}" for mean in means]
    assert games.classes(".entry:first-child .chip") == ["chip ended", "chip cut"]
    assert games.text(".detail-head h2") == "twenty_questions/7: Questions:"
    assert games.shown("#dialogue .folded.hidden") == [False]
    assert "EndedBy the world" in games.text(".facts")
    games.press("3")
    games.wait_for_count("2 rows of 5")
    assert games.texts("#figures dd") == ["22 tasks", "\u22122", "0.0 %"]
    assert games.complaints() == []


def test_every_turn_shows_its_reward(games):
    games.open("#twenty_questions%2F7/0")
    assert games.texts(".turn-reward") == ["reward \u22121", "reward 0"]
    assert games.texts(".turn.user .speaker") == ["Worldbegins", "World", "World"]
    games.press("j", "j")
    games.until("return document.querySelector('.facts').textContent.includes('webshop/3')")
    assert games.texts(".turn-reward") == ["reward 0", "reward 0.67"]
    assert games.classes(".turn-reward") == ["turn-reward", "turn-reward gain"]
    assert games.text(".facts .reward") == "Return 0.67"


def test_nothing_is_shown_that_games_do_not_have(games):
    games.open()
    assert games.all("#answer, #tests, .reward-bar, .chip-bar, .handed-in, .turn-reward:empty") == []
    assert games.texts(".jumps button") == ["Dialogue"]
    chips = ["0: reward \u22121, ended, 2 turns", "1: reward \u22122, turn limit, 2 turns"]
    chips += ["0: reward 0.67, ended, 2 turns", "1: ungraded, world failed, 1 turn"]
    assert games.texts(".chip", "ariaLabel") == [f"Repeat {chip}" for chip in chips]
    games.press(*"jk][g2tpdae")
    games.open()
    for text, count in (("blue kettle", "2 rows of 5"), ("the shop is closed", "1 row of 5")):
        games.search(text)
        games.wait_for_count(count)
    games.press("Enter")
    games.until("return document.querySelector('.stepper').textContent.includes('Repeat 1')")
    assert games.all(".turn-reward") == []
    assert games.texts("#figures dd") == ["11 task", "\u2013", "0.0 %"]
    assert games.complaints() == []


def test_a_reflection_opens_with_the_thoughts(games):
    games.open("#lantern%2F5/0")
    assert games.shown(".folded.thoughts") == [False]
    games.press("t")
    assert games.shown(".folded.thoughts") == [True]
    assert games.text(".folded.thoughts") == "There may be a tower up north."
    games.search("a tower up north")
    games.wait_for_count("1 row of 5")
    assert games.complaints() == []
