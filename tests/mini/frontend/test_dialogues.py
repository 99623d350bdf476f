"""Pages drawn by hand for the eye, and a browser that knows nothing but a scripted designer's canvas."""

import asyncio
import io
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from sweet_rl.browsers import Box, PageContext, RenderedPage
from sweet_rl.browsers.page import extract_html
from sweet_rl.errors import UsageError
from sweet_rl.mini.frontend import agents
from sweet_rl.mini.frontend.agents import Block, Canvas, TargetDesigner, Words, apply_remarks, sketch
from sweet_rl.mini.frontend.human import ALIKE, NOTHING_SHOWN, ScriptedViewer
from sweet_rl.mini.frontend.scene import parse_page
from sweet_rl.types import Message, Observation, UserContext
from sweet_rl.worlds.dialogue import parse_fixed, parse_published


def page(*boxes, height=400, width=800, background=(255, 255, 255), paint=()):
    """A page with boxes; letters are bars of their colour, `ink` of their box from its left edge."""
    image = Image.new("RGB", (width, height), background)
    draw = ImageDraw.Draw(image)
    everything = [Box("body", 0, 0, width, height, background=background), *boxes]
    for box in everything:
        rect = (box.x, box.y, box.x + box.width - 1, box.y + box.height - 1)
        if box.background is not None:
            draw.rectangle(rect, box.background)
    for box in everything:
        if box.text:
            middle = box.y + box.height / 2
            half = box.font_size * 0.35
            left = box.x + 5
            draw.rectangle((left, middle - half, left + 10 * len(box.text) - 1, middle + half), box.color)
    for rect, color in paint:
        draw.rectangle(rect, color)
    out = io.BytesIO()
    image.save(out, "PNG")
    return RenderedPage(out.getvalue(), width, height, tuple(everything))


def text(words, x, y, *, size=16.0, weight=400, color=(0, 0, 0), width=None, height=None, tag="p"):
    """A box with a text of one line."""
    return Box(
        tag, x, y, width or 300, height or 1.5 * size, words, color=color, font_size=size, font_weight=weight
    )


def area(x, y, width, height, color):
    return Box("div", x, y, width, height, background=color)


def context(target, draft, *turns):
    roles = ("assistant", "user")
    messages = [Message("user", "a page, please")]
    messages += [Message(roles[i % 2], turn) for i, turn in enumerate(turns)]
    return PageContext("a page, please", "<html>hidden source</html>", tuple(messages), target, draft)


def canvas_page(canvas):
    """What a browser would lay out of a scripted designer's page: boxes only, the picture tells nothing."""

    def rgb(code):
        return tuple(int(code[i : i + 2], 16) for i in (1, 3, 5))

    boxes = [Box("body", 0, 0, canvas.width, canvas.height, background=rgb(canvas.background))]
    for block in sorted(canvas.blocks, key=lambda block: -block.width * block.height):
        tag = {"picture": "img", "input field": "input"}.get(block.kind, "div")
        color = rgb(block.color) if tag == "div" else None
        boxes.append(Box(tag, block.x, block.y, block.width, block.height, background=color))
    for words in canvas.words:
        line = words.line_height if words.lines > 1 else 1.5 * words.size
        place = (words.x, words.y, words.width, words.lines * line)
        letters = {"font_size": words.size, "font_weight": 700 if words.bold else 400}
        boxes.append(Box("p", *place, words.text, color=rgb(words.color), **letters))
    return RenderedPage(b"", canvas.width, round(canvas.height), tuple(boxes))


GREEN, BLUE, WHITE = (16, 185, 129), (37, 99, 235), (255, 255, 255)

HEADER = area(0, 0, 800, 60, GREEN)
TITLE = text("Bakery", 20, 10, size=30, weight=700, color=WHITE)
BREAD = text("Fresh bread every day", 20, 100)


def say(target, draft, *turns):
    return ScriptedViewer().answer(context(target, draft, *turns))


def test_each_difference_has_its_sentence_and_the_same_page_looks_alike():
    cases = {
        "The page's background should be white (#ffffff).": ((), {"background": (250, 220, 90)}),
        "The page should be 400 px tall, not 600 px.": ((), {"height": 600}),
        "At the top there should be a green (#10b981) band of 800 by 60 px, 0 px from the left and 0 px from the top.":
            ((text("Bakery", 20, 10, size=30, weight=700, color=(9, 9, 9)), BREAD), {}),
        "The blue (#2563eb) band 0 px from the left and 0 px from the top should be green (#10b981).":
            ((area(0, 0, 800, 60, BLUE), TITLE, BREAD), {}),
        "The green (#10b981) band 0 px from the left and 0 px from the top should be 800 by 60 px, 0 px from the left and 0 px from the top.":
            ((area(0, 0, 800, 100, GREEN), TITLE, BREAD), {}),
        "The blue (#2563eb) box 500 px from the left and 200 px from the top is not on my page.":
            ((HEADER, TITLE, BREAD, area(500, 200, 100, 100, BLUE)), {}),
        "“Fresh bred every day” should read “Fresh bread every day”.":
            ((HEADER, TITLE, text("Fresh bred every day", 20, 100)), {}),
        "“Fresh bread every day” should be in black (#000000) letters of 16 px.":
            ((HEADER, TITLE, text("Fresh bread every day", 20, 100, color=(200, 0, 0))), {}),
        "“Fresh bread every day” should be 25 px from the left and 100 px from the top, 210 px wide.":
            ((HEADER, TITLE, text("Fresh bread every day", 220, 300)), {}),
        "“Rolls” is not on my page.": ((HEADER, TITLE, BREAD, text("Rolls", 20, 200)), {}),
    }  # fmt: skip
    for sentence, (boxes, how) in cases.items():
        draft = page(*(boxes or (HEADER, TITLE, BREAD)), **how)
        assert sentence in say(page(HEADER, TITLE, BREAD), draft), sentence
    one = page(HEADER, TITLE, BREAD)
    assert say(one, one) == ALIKE
    nearly = page(HEADER, text("Bakery", 22, 11, size=30, weight=700, color=WHITE), BREAD)
    assert say(one, nearly) == ALIKE  # two pixels that nobody sees


HEADS = [text(word, 20, y, size=24) for word, y in (("Rolls", 50), ("Cakes", 200))]
BESIDE = [text("Rolls", 20, 50, size=24), text("Cakes", 420, 50, size=24)]
SEEN = [Box("img", 100, 100, 200, 150), Box("input", 400, 100, 200, 40)]
BUY = [text("Buy", x, 100) for x in (20, 220, 420)]


@pytest.mark.parametrize(
    ("target", "draft", "said"),
    [
        ([HEADER, TITLE, BREAD], [HEADER, BREAD],
         "^At the top left there should be the text “Bakery” in bold white (#ffffff) letters of 30 px, "
         "25 px from the left and 10 px from the top, 60 px wide."),
        (SEEN, [], "there should be a picture of 200 by 150 px, 100 px from the left and 100 px from the top."),
        (SEEN, [], "there should be an input field of 200 by 40 px"),
        (SEEN, [Box("img", 150, 100, 200, 150), SEEN[1]],
         "^The picture 150 px from the left and 100 px from the top should be 200 by 150 px, "
         "100 px from the left and 100 px from the top."),
        (HEADS, [text(word, 20, y, size=24) for word, y in (("Cakes", 50), ("Rolls", 200))],
         "“Rolls” comes above “Cakes” on my page."),
        (BESIDE, HEADS, "“Rolls” and “Cakes” stand side by side on my page."),
        ([area(0, 0, 800, 300, GREEN), text("small print", 20, 350, size=10)], [], "^In the middle there should be a green"),
        (BUY, [BUY[0], text("Buy", 220, 300), BUY[2]], "^The third “Buy” should be 225 px from the left and 100"),
        (BUY, BUY[:2], "there should be another text “Buy”"),
    ],
)  # fmt: skip
def test_what_is_said_of_whole_pages(target, draft, said):
    found = say(page(*target), page(*draft))
    assert said.removeprefix("^") in found
    assert not said.startswith("^") or found.startswith(said[1:])


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


def test_an_agent_without_a_page_is_told_of_the_wanted_one_and_nothing_twice():
    target = page(HEADER, TITLE, BREAD, Box("img", 300, 150, 200, 150))
    first = say(target, None, "What do you want?")
    assert first.startswith(f"{NOTHING_SHOWN} My page is 400 px tall, on a white (#ffffff) background.")
    assert all(part in first for part in ("“Bakery”", "green (#10b981) band", "picture of 200 by 150 px"))
    about = say(target, None, "Which pictures are there?").removeprefix(NOTHING_SHOWN)
    assert about.strip().startswith("In the middle there should be a picture")
    texts = say(target, None, "What does the headline say?").removeprefix(NOTHING_SHOWN)
    assert texts.index("“Bakery”") < texts.index("band")
    assert not any("hidden source" in say(target, draft, "Show me the html!") for draft in (None, page()))
    texts = [text(f"Sentence number {i} of this page", 20, 20 + 40 * i) for i in range(30)]
    target = page(*texts, height=1300)
    first = say(target, None, "Hello?")
    second = say(target, None, "Hello?", first, "And?")
    for i in range(30):
        quoted = f"“Sentence number {i} of this page”"
        assert not (quoted in first and quoted in second)


def test_letters_are_found_where_they_stand_and_lines_are_counted():
    wide = page(Box("h1", 0, 0, 800, 45, font_size=30), paint=[((350, 10, 449, 33), (0, 0, 0))])
    one = RenderedPage(
        wide.image, 800, 400, (Box("body", 0, 0, 800, 400), Box("h1", 0, 0, 800, 45, "Centred", font_size=30))
    )
    seen = parse_page(one).texts[0]
    assert (seen.x, seen.width, seen.lines) == (350, 100, 1)
    rows = [((20, 105, 219, 117), (0, 0, 0)), ((60, 129, 179, 141), (0, 0, 0))]
    one = page(paint=rows)
    box = Box("p", 0, 100, 800, 48, "two lines")
    seen = parse_page(RenderedPage(one.image, 800, 400, (box,))).texts[0]
    assert (seen.lines, seen.line_height, seen.centred) == (2, 24, True)
    assert (seen.x, seen.width, seen.y) == (20, 200, 100)


def test_pictures_are_seen_without_an_img_but_a_painted_gradient_is_none():
    def kinds(box, paint):
        return [element.kind for element in parse_page(page(box, paint=paint)).elements]

    noise = random.Random(0)
    many = [
        ((x, y, x + 9, y + 9), tuple(noise.randrange(256) for _ in range(3)))
        for x in range(0, 800, 10)
        for y in range(0, 300, 10)
    ]
    assert kinds(Box("header", 0, 0, 800, 300), many) == ["picture"]
    smooth = [((0, y, 799, y), (y // 2, 200 - y // 2, 60)) for y in range(300)]
    assert kinds(Box("div", 0, 0, 800, 300), smooth) == ["picture"]
    assert kinds(Box("div", 0, 0, 800, 300, background=(0, 200, 60)), smooth) != ["picture"]


def test_odd_pages_have_places_and_texts_all_the_same_and_without_one_it_is_an_error():
    target = RenderedPage(b"", 800, 1, (Box("p", -900, -40, 10, 10, "out"),))
    assert "At the top left there should be" in ScriptedViewer().answer(context(target, None))
    one = RenderedPage(b"no picture", 800, 400, page(HEADER, TITLE).boxes)
    assert [seen.text for seen in parse_page(one).texts] == ["Bakery"]
    assert say(one, one) == ALIKE
    with pytest.raises(TypeError, match="PageContext"):
        asyncio.run(ScriptedViewer().reply(UserContext("p", "h", ())))


async def test_as_a_user_it_remembers_no_episode():
    eye = ScriptedViewer()
    one, other = context(page(HEADER), page(), "x"), context(page(TITLE), page(), "x")

    first = [(await eye.reply(c)).content for c in (one, other)]
    again = [reply.content for reply in await asyncio.gather(*(eye.reply(c) for c in (one, other) * 3))]
    assert again == first * 3
    assert first[0] != first[1]


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


@settings(max_examples=15, deadline=None)
@given(pages, st.none() | pages)
def test_it_never_says_more_than_the_agent_can_hear_and_always_the_same(target, draft):
    said = say(target, draft, "What?")
    assert 0 < len(said) <= 1000
    assert said == say(target, draft, "What?")
    assert say(target, target) == ALIKE


DESCRIPTION = (
    "Bakery Website: A warm design with a large header image, a navigation bar at the top, sections for fresh "
    "bread, cakes and opening hours, a footer with contact information. The colour scheme is brown."
)


def act(policy, *turns, task_id="t"):
    roles = ("user", "assistant")
    messages = [Message(roles[i % 2], turn) for i, turn in enumerate((DESCRIPTION, *turns))]
    return asyncio.run(policy.act(Observation(task_id, tuple(messages), 0))).completion.text


@pytest.mark.parametrize("parse", [parse_published, parse_fixed])
@pytest.mark.parametrize(
    "policy",
    [
        agents.BlankDesigner(), agents.GenericDesigner(), TargetDesigner({"t": "<p>the page</p>"}),
        agents.ImproverDesigner(max_turns=1),
    ],
    ids=lambda policy: policy.name,
)  # fmt: skip
def test_an_answer_is_a_page_behind_both_markers(policy, parse):
    parsed = parse(act(policy))
    assert parsed.answer is not None
    html = extract_html(parsed.visible)[1]
    assert html.startswith("<html>")
    assert html.endswith("</html>")


def test_the_target_is_handed_in_as_it_is():
    page = "<html>\n<body>OK</body></html>"
    assert extract_html(act(TargetDesigner({"t": page})))[1] == page
    with pytest.raises(UsageError, match="no page for the task 'u'"):
        act(TargetDesigner({"t": page}), task_id="u")


def test_the_sketch_is_made_of_the_description():
    canvas = sketch(DESCRIPTION)
    texts = [words.text for words in canvas.words]
    assert "Bakery Website" in texts
    assert {"Fresh bread", "Cakes", "Opening hours", "Contact information"} <= set(texts)
    assert {block.kind for block in canvas.blocks} == {"area", "picture"}
    assert canvas.blocks[0].color == "#78350f"
    assert sketch(DESCRIPTION).html() == canvas.html()
    for odd in ("", "x", ":::", "ü" * 500, "<script>alert(1)</script>: <b>"):
        html = sketch(odd).html()
        assert "<script>" not in html
        assert html.isascii()
    assert "OUTPUT:" not in Canvas(words=[Words("OUTPUT: I WANT", 0, 0, 10)]).html()


def test_the_improver_goes_on_until_told_or_out_of_turns():
    improver = agents.ImproverDesigner(max_turns=3)
    first = act(improver)
    assert parse_published(first).answer is None
    assert extract_html(first)[1] == sketch(DESCRIPTION).html()
    second = act(improver, first, "The page's background should be black (#000000). Whatever else I say.")
    assert "background-color:#000000" in second
    assert parse_published(second).answer is None
    assert parse_published(act(improver, first, ALIKE)).answer is not None
    assert parse_published(act(improver, first, "hm", second, "hm")).answer is not None
    assert act(improver, first, "No response.") == act(improver, first, "No response.")


def test_each_build_of_sentence_does_what_it_says():
    canvas = Canvas(
        words=[Words("Buy", 10, 10, 30), Words("Buy", 100, 10, 30), Words("Old head", 10, 50, 80)],
        blocks=[Block("area", 0, 0, 1366, 72, "#2563eb"), Block("picture", 5, 100, 50, 50)],
    )
    understood = apply_remarks(
        canvas,
        "The second “Buy” should be in bold white (#ffffff) letters of 20 px, 300 px from the left and 20 px "
        "from the top, 45 px wide. “Old head” should read “New. Head!”, in black (#000000) letters of 24 px. "
        "The first “Buy” is not on my page. The page should be 900 px tall, not 768 px. "
        "The blue (#2563eb) band 0 px from the left and 0 px from the top should be green (#10b981). "
        "The picture 5 px from the left and 100 px from the top should be 60 by 70 px, 8 px from the left and "
        "9 px from the top. At the top left there should be the text “Hi“ in red (#ff0000) letters. "
        "In the middle there should be a white (#ffffff) box of 30 by 40 px, 1 px from the left and 2 px from the top. "
        "There should be the text “Two lines” in grey (#888888) letters of 16 px, 7 px from the left and -8 px "
        "from the top, 90 px wide, in 2 centred lines of 24 px each. I like cats.",
    )
    assert understood == 8
    buy, head, two = canvas.words
    letters = (buy.text, buy.bold, buy.color, buy.size, buy.x, buy.y, buy.width)
    assert letters == ("Buy", True, "#ffffff", 20, 300, 20, 45)
    assert (head.text, head.size, head.color, head.x) == ("New. Head!", 24, "#000000", 10)
    assert (two.text, two.lines, two.centred, two.y) == ("Two lines", 2, True, -8)
    assert canvas.height == 900
    band, picture, box = canvas.blocks
    assert band.color == "#10b981"
    assert (picture.width, picture.height, picture.x, picture.y) == (60, 70, 8, 9)
    assert (box.kind, box.color, box.width, box.height) == ("area", "#ffffff", 30, 40)
    before = canvas.html()
    for words in ("", "No response.", "“x” is not on my page.", "“” should be ."):
        assert apply_remarks(canvas, words) == 0
    assert canvas.html() == before


def wanted(rng):
    """A page with room between its parts, as people make them."""
    canvas = Canvas(background=rng.choice(["#ffffff", "#f3f4f6", "#1f2937"]), height=rng.randrange(800, 1600))
    for row in range(rng.randrange(1, 8)):
        y = 20 + 130 * row
        if rng.random() < 0.5:
            kind = rng.choice(["area", "picture", "input field"])
            canvas.blocks.append(
                Block(kind, 20, y, rng.randrange(200, 1300), 90, rng.choice(["#10b981", "#dc2626"]))
            )
        for column in range(rng.randrange(1, 4)):
            text = rng.choice(
                ["Learn more", "About us", 'We bake "bread" & more.', f"Row {row}, column {column}"]
            )
            size = rng.choice([14, 16, 24, 36])
            canvas.words.append(
                Words(text, 30 + 400 * column, y + 10, 8 * len(text), size, rng.random() < 0.3, "#111827")
            )
    return canvas


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6))
def test_the_improver_understands_everything_that_the_eye_says(seed):
    """Whatever page is wanted, doing what is said ends with two pages that look alike."""
    target = canvas_page(wanted(random.Random(seed)))
    canvas = sketch(DESCRIPTION)
    for _ in range(25):
        said = ScriptedViewer().answer(context(target, canvas_page(canvas), "see"))
        if said == ALIKE:
            break
        assert apply_remarks(canvas, said) > 0, said
    assert said == ALIKE
