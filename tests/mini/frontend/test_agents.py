"""Scripted designers: floors, ceiling, and one that understands what the eye says."""

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweet_rl.browsers.page import extract_html
from sweet_rl.errors import UsageError
from sweet_rl.mini.frontend.agents import (
    BlankDesigner,
    Block,
    Canvas,
    GenericDesigner,
    ImproverDesigner,
    TargetDesigner,
    Words,
    apply_remarks,
    sketch,
)
from sweet_rl.mini.frontend.human import ALIKE, ScriptedViewer
from sweet_rl.types import Message, Observation
from sweet_rl.worlds.dialogue import parse_fixed, parse_published
from tests.mini.frontend.scenes import canvas_page, context

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
        BlankDesigner(),
        GenericDesigner(),
        TargetDesigner({"t": "<p>the page</p>"}),
        ImproverDesigner(max_turns=1),
    ],
    ids=lambda policy: policy.name,
)
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


def test_markers_in_a_page_cut_nothing():
    canvas = Canvas(words=[Words("OUTPUT: I WANT", 0, 0, 10)])
    assert "OUTPUT:" not in canvas.html()


def test_the_improver_goes_on_until_told_or_out_of_turns():
    improver = ImproverDesigner(max_turns=3)
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
    assert (buy.text, buy.bold, buy.color, buy.size, buy.x, buy.y, buy.width) == (
        "Buy",
        True,
        "#ffffff",
        20,
        300,
        20,
        45,
    )
    assert (head.text, head.size, head.color, head.x) == ("New. Head!", 24, "#000000", 10)
    assert (two.text, two.lines, two.centred, two.y) == ("Two lines", 2, True, -8)
    assert canvas.height == 900
    band, picture, box = canvas.blocks
    assert band.color == "#10b981"
    assert (picture.width, picture.height, picture.x, picture.y) == (60, 70, 8, 9)
    assert (box.kind, box.color, box.width, box.height) == ("area", "#ffffff", 30, 40)


def test_what_is_no_remark_changes_nothing():
    canvas = sketch(DESCRIPTION)
    before = canvas.html()
    for words in (
        "",
        "No response.",
        "“x” is not on my page.",
        "“” should be .",
    ):
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


@settings(max_examples=20, deadline=None)
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
