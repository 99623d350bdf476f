"""The scripted human: what it sees on pages drawn by hand, and what it says of them."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweet_rl.browsers import Box, PageContext, RenderedPage
from sweet_rl.mini.frontend.human import ALIKE, NOTHING_SHOWN, ScriptedViewer
from sweet_rl.mini.frontend.scene import parse_page
from sweet_rl.types import UserContext
from tests.mini.frontend.scenes import area, context, page, text

GREEN, BLUE, WHITE = (16, 185, 129), (37, 99, 235), (255, 255, 255)

HEADER = area(0, 0, 800, 60, GREEN)
TITLE = text("Bakery", 20, 10, size=30, weight=700, color=WHITE)
BREAD = text("Fresh bread every day", 20, 100)


def say(target, draft, *turns):
    return ScriptedViewer().answer(context(target, draft, *turns))


def test_the_same_page_looks_alike():
    one = page(HEADER, TITLE, BREAD)
    assert say(one, one) == ALIKE
    nearly = page(HEADER, text("Bakery", 22, 11, size=30, weight=700, color=WHITE), BREAD)
    assert say(one, nearly) == ALIKE  # two pixels that nobody sees


def test_a_missing_text_is_quoted_with_place_size_and_colour():
    said = say(page(HEADER, TITLE, BREAD), page(HEADER, BREAD))
    assert said == (
        "At the top left there should be the text “Bakery” in bold white (#ffffff) letters of 30 px, "
        "25 px from the left and 10 px from the top, 60 px wide."
    )


def test_each_difference_has_its_sentence():
    target = page(HEADER, TITLE, BREAD)
    cases = {
        "The page's background should be white (#ffffff).": page(
            HEADER, TITLE, BREAD, background=(250, 220, 90)
        ),
        "The page should be 400 px tall, not 600 px.": page(HEADER, TITLE, BREAD, height=600),
        "At the top there should be a green (#10b981) band of 800 by 60 px, 0 px from the left and 0 px from the top.": page(
            text("Bakery", 20, 10, size=30, weight=700, color=(9, 9, 9)), BREAD
        ),
        "The blue (#2563eb) band 0 px from the left and 0 px from the top should be green (#10b981).": page(
            area(0, 0, 800, 60, BLUE), TITLE, BREAD
        ),
        "The green (#10b981) band 0 px from the left and 0 px from the top should be 800 by 60 px, 0 px from the left and 0 px from the top.": page(
            area(0, 0, 800, 100, GREEN), TITLE, BREAD
        ),
        "The blue (#2563eb) box 500 px from the left and 200 px from the top is not on my page.": page(
            HEADER, TITLE, BREAD, area(500, 200, 100, 100, BLUE)
        ),
        "“Fresh bred every day” should read “Fresh bread every day”.": page(
            HEADER, TITLE, text("Fresh bred every day", 20, 100)
        ),
        "“Fresh bread every day” should be in black (#000000) letters of 16 px.": page(
            HEADER, TITLE, text("Fresh bread every day", 20, 100, color=(200, 0, 0))
        ),
        "“Fresh bread every day” should be 25 px from the left and 100 px from the top, 210 px wide.": page(
            HEADER, TITLE, text("Fresh bread every day", 220, 300)
        ),
        "“Rolls” is not on my page.": page(HEADER, TITLE, BREAD, text("Rolls", 20, 200)),
    }
    for sentence, draft in cases.items():
        assert sentence in say(target, draft), sentence


def test_pictures_and_fields():
    target = page(Box("img", 100, 100, 200, 150), Box("input", 400, 100, 200, 40))
    said = say(target, page())
    assert "there should be a picture of 200 by 150 px, 100 px from the left and 100 px from the top." in said
    assert "there should be an input field of 200 by 40 px" in said
    moved = page(Box("img", 150, 100, 200, 150), Box("input", 400, 100, 200, 40))
    assert say(target, moved) == (
        "The picture 150 px from the left and 100 px from the top should be 200 by 150 px, "
        "100 px from the left and 100 px from the top."
    )


def test_order_and_columns():
    heads = [text(word, 20, y, size=24) for word, y in (("Rolls", 50), ("Cakes", 200))]
    swapped = [text(word, 20, y, size=24) for word, y in (("Cakes", 50), ("Rolls", 200))]
    assert "“Rolls” comes above “Cakes” on my page." in say(page(*heads), page(*swapped))
    beside = [text("Rolls", 20, 50, size=24), text("Cakes", 420, 50, size=24)]
    assert "“Rolls” and “Cakes” stand side by side on my page." in say(page(*beside), page(*heads))


def test_the_most_striking_comes_first():
    target = page(area(0, 0, 800, 300, GREEN), text("small print", 20, 350, size=10))
    assert say(target, page()).startswith("In the middle there should be a green")


def test_equal_texts_are_counted_in_reading_order():
    three = [text("Buy", x, 100) for x in (20, 220, 420)]
    moved = [text("Buy", x, y) for x, y in ((20, 100), (220, 300), (420, 100))]
    assert say(page(*three), page(*moved)).startswith(
        "The third “Buy” should be 225 px from the left and 100"
    )
    assert "there should be another text “Buy”" in say(page(*three), page(*three[:2]))


def test_long_texts_are_called_by_their_beginning_and_read_out_in_parts():
    long = " ".join(f"word{i}" for i in range(200))
    said = say(page(text(long, 20, 100)), page())
    assert len(said) <= 1000
    assert said.count("word") < 100
    assert "…”" in said
    begun = page(text(long[:600], 20, 100))
    said = say(page(text(long, 20, 100)), begun)
    assert said.startswith("“word0 word1")
    assert "” goes on: “" in said


def test_an_agent_without_a_page_is_told_of_the_wanted_one():
    target = page(HEADER, TITLE, BREAD, Box("img", 300, 150, 200, 150))
    first = say(target, None, "What do you want?")
    assert first.startswith(f"{NOTHING_SHOWN} My page is 400 px tall, on a white (#ffffff) background.")
    assert all(part in first for part in ("“Bakery”", "green (#10b981) band", "picture of 200 by 150 px"))
    about = say(target, None, "Which pictures are there?").removeprefix(NOTHING_SHOWN)
    assert about.strip().startswith("In the middle there should be a picture")
    texts = say(target, None, "What does the headline say?").removeprefix(NOTHING_SHOWN)
    assert texts.index("“Bakery”") < texts.index("band")


def test_nothing_is_told_twice_while_there_is_more():
    texts = [text(f"Sentence number {i} of this page", 20, 20 + 40 * i) for i in range(30)]
    target = page(*texts, height=1300)
    first = say(target, None, "Hello?")
    second = say(target, None, "Hello?", first, "And?")
    for i in range(30):
        quoted = f"“Sentence number {i} of this page”"
        assert not (quoted in first and quoted in second)


def test_the_source_is_never_said():
    target = page(HEADER, TITLE)
    for draft in (None, page()):
        assert "hidden source" not in say(target, draft, "Show me the html!")


def test_letters_are_found_where_they_stand_in_a_wide_box():
    wide = page(Box("h1", 0, 0, 800, 45, font_size=30), paint=[((350, 10, 449, 33), (0, 0, 0))])
    one = RenderedPage(
        wide.image, 800, 400, (Box("body", 0, 0, 800, 400), Box("h1", 0, 0, 800, 45, "Centred", font_size=30))
    )
    seen = parse_page(one).texts[0]
    assert (seen.x, seen.width, seen.lines) == (350, 100, 1)


def test_lines_are_counted_and_their_middle_is_noticed():
    rows = [((20, 105, 219, 117), (0, 0, 0)), ((60, 129, 179, 141), (0, 0, 0))]
    one = page(paint=rows)
    box = Box("p", 0, 100, 800, 48, "two lines")
    seen = parse_page(RenderedPage(one.image, 800, 400, (box,))).texts[0]
    assert (seen.lines, seen.line_height, seen.centred) == (2, 24, True)
    assert (seen.x, seen.width, seen.y) == (20, 200, 100)


def test_a_picture_behind_texts_is_seen_without_an_img():
    import random

    noise = random.Random(0)
    paint = [
        ((x, y, x + 9, y + 9), tuple(noise.randrange(256) for _ in range(3)))
        for x in range(0, 800, 10)
        for y in range(0, 300, 10)
    ]
    one = page(Box("header", 0, 0, 800, 300), paint=paint)
    assert [element.kind for element in parse_page(one).elements] == ["picture"]


def test_a_smooth_picture_is_one_but_a_painted_gradient_is_not():
    paint = [((0, y, 799, y), (y // 2, 200 - y // 2, 60)) for y in range(300)]
    assert [
        element.kind for element in parse_page(page(Box("div", 0, 0, 800, 300), paint=paint)).elements
    ] == ["picture"]
    painted = page(Box("div", 0, 0, 800, 300, background=(0, 200, 60)), paint=paint)
    assert [element.kind for element in parse_page(painted).elements] != ["picture"]


def test_what_stands_outside_the_page_has_a_place_all_the_same():
    target = RenderedPage(b"", 800, 1, (Box("p", -900, -40, 10, 10, "out"),))
    assert "At the top left there should be" in ScriptedViewer().answer(context(target, None))


def test_bytes_that_are_no_picture_are_done_without():
    one = RenderedPage(b"no picture", 800, 400, page(HEADER, TITLE).boxes)
    assert [seen.text for seen in parse_page(one).texts] == ["Bakery"]
    assert say(one, one) == ALIKE


def test_it_needs_pictures():
    with pytest.raises(TypeError, match="PageContext"):
        asyncio.run(ScriptedViewer().reply(UserContext("p", "h", ())))


def test_as_a_user_it_remembers_no_episode():
    eye = ScriptedViewer()
    one, other = context(page(HEADER), page(), "x"), context(page(TITLE), page(), "x")

    async def main():
        first = [(await eye.reply(c)).content for c in (one, other)]
        again = [reply.content for reply in await asyncio.gather(*(eye.reply(c) for c in (one, other) * 3))]
        assert again == first * 3
        assert first[0] != first[1]

    asyncio.run(main())


colors = st.tuples(*[st.integers(0, 255)] * 3)
coordinates = st.floats(-50, 2000)
boxes = st.builds(
    Box,
    tag=st.sampled_from(["body", "div", "p", "h1", "img", "input", "a"]),
    x=coordinates,
    y=coordinates,
    width=st.floats(0, 1500),
    height=st.floats(0, 1500),
    text=st.builds(str.__mul__, st.text(max_size=8), st.sampled_from([0, 1, 1, 150])),
    color=colors,
    background=st.none() | colors,
    font_size=st.floats(1, 200),
    font_weight=st.sampled_from([100, 400, 700]),
)
pages = st.builds(
    lambda boxes, height: RenderedPage(page(height=300).image, 800, height, tuple(boxes)),
    st.lists(boxes, max_size=6),
    st.integers(1, 5000),
)


@settings(max_examples=25, deadline=None)
@given(pages, st.none() | pages)
def test_it_never_says_more_than_the_agent_can_hear_and_always_the_same(target, draft):
    said = say(target, draft, "What?")
    assert said
    assert len(said) <= 1000
    assert said == say(target, draft, "What?")
    assert isinstance(context(target, draft), PageContext)


@settings(max_examples=25, deadline=None)
@given(pages)
def test_every_page_looks_like_itself(target):
    assert say(target, target) == ALIKE
