"""What every metric keeps, and numbers worked out by hand."""

import io
import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from sweet_rl.browsers import Box, RenderedPage
from sweet_rl.grading.pages import metrics
from sweet_rl.grading.pages.metrics import (
    PARTS,
    WEIGHT_FREE,
    WIDTH,
    BrokenPicture,
    PageView,
    black,
    compare,
    decode,
    elements_of,
    layout_agreement,
    scale,
    text_agreement,
    windows_of,
)
from tests.grading.pages.pages_by_hand import DARK, GREEN, SHOP, WHITE, draw, moved, page

NOTHING = PageView(scale(Image.new("RGB", (1366, 768), "white")), RenderedPage(b"", 1366, 768))
NO_PICTURE = PageView(scale(black()))


def pages():
    """Random pages of a few boxes."""
    tags, texts = (
        ["p", "div", "img", "button"],
        ["", "Home", "Order now", "fresh bread and fruit", "Ünïcode 日本"],
    )
    frame = (st.integers(0, 900), st.integers(0, 1500), st.integers(1, 800), st.integers(1, 300))
    kinds = (texts, [(0, 0, 0), WHITE], [None, GREEN, DARK, (200, 30, 40)])
    box = st.builds(Box, st.sampled_from(tags), *frame, *map(st.sampled_from, kinds))
    heights = st.sampled_from([40, 600, 768, 1300])
    return st.builds(lambda boxes, height: page(boxes, height=height), st.lists(box, max_size=6), heights)


@settings(max_examples=12, deadline=None)
@given(pages(), pages())
def test_range_and_symmetry_for_any_two_pages(first, second):
    there, back = compare(first, second), compare(second, first)
    assert set(there) == set(WEIGHT_FREE)
    assert all(0 <= value <= 1 for value in there.values())
    for name in ("ssim", "colour"):
        assert there[name] == pytest.approx(back[name], abs=1e-9)
    for name in ("text", "layout"):  # ties between pairs may be settled the other way round
        assert there[name] == pytest.approx(back[name], abs=0.1)


@settings(max_examples=6, deadline=None)
@given(pages())
def test_a_page_is_exactly_like_itself(one):
    assert set(compare(one, one).values()) == {1.0}
    again = (metrics.structure(one, one), metrics.colour(one, one))
    assert again == pytest.approx((1, 1), abs=1e-9)  # also without the short cut for equal pictures


def test_saying_nothing_and_drawing_nothing_is_worth_little():
    target = page(SHOP)
    nothing, no_picture = compare(NOTHING, target), compare(NO_PICTURE, target)
    assert set(nothing.values()) == {0}
    assert no_picture["text"] == no_picture["layout"] == 0
    assert no_picture["ssim"] < 0.01
    assert no_picture["colour"] < 0.3


def test_combined_is_the_plain_mean():
    values = compare(page(SHOP[:6]), page(SHOP))
    assert values["combined"] == sum(values[name] for name in PARTS) / 4
    assert 0 < values["combined"] < 1


DRAFTS = {
    "things move": [moved(SHOP, d, d / 2) for d in (0, 8, 24, 80, 240)],
    "things are missing": [SHOP[:count] for count in (10, 7, 4, 1, 0)],
}


@pytest.mark.parametrize("name", DRAFTS)
def test_the_further_from_the_target_the_worse_by_every_metric(name):
    target = page(SHOP)
    values = [compare(page(draft), target) for draft in DRAFTS[name]]
    for metric in WEIGHT_FREE:
        course = [value[metric] for value in values]
        assert course[0] == 1
        assert course == sorted(course, reverse=True)
        assert course[0] > course[1] > course[-1]


def test_colours_drift_and_only_colour_and_structure_notice():
    target, values = page(SHOP), []
    for share in (0, 0.1, 0.3, 0.6, 1):
        green = tuple(round(a + share * (b - a)) for a, b in zip(GREEN, (220, 38, 38), strict=True))
        values.append(compare(page((replace(SHOP[0], background=green), *SHOP[1:])), target))
    colours = [value["colour"] for value in values]
    assert colours == sorted(colours, reverse=True)
    assert colours[1] < 1
    assert all(value["text"] == value["layout"] == 1 for value in values)


def test_a_white_tail_changes_nothing_and_a_full_one_does():
    target = page(SHOP)
    tail = compare(page(SHOP, height=2000), target)
    assert (tail["colour"], tail["text"], tail["layout"]) == pytest.approx((1, 1, 1), abs=0.02)
    assert tail["ssim"] == pytest.approx(1, abs=0.05)  # the footer's last pixels share a row with the tail
    more = compare(page(SHOP + moved(SHOP, down=868), height=1736), target)
    assert all(value < 0.8 for value in more.values())


def test_another_width_is_scaled():
    """The same design at twice the size: pixels agree, elements are where they are in CSS pixels."""
    small = PageView(scale(draw(SHOP).resize((683, 434), Image.Resampling.BOX)), None)
    values = compare(small, page(SHOP))
    assert values["colour"] > 0.95
    assert values["ssim"] > 0.9
    assert values["text"] == values["layout"] == 0  # not known


def text(words, x=0.0):
    return Box("p", x, 0, 100, 20, words)


def block(x=0.0, y=0.0, width=100.0, height=100.0, tag="img"):
    return Box(tag, x, y, width, height)


@pytest.mark.parametrize(
    ("agreement", "first", "second", "expected"),
    [
        (text_agreement, [text("Open now")], [text("open NOW")], 1),
        (text_agreement, [text("one two")], [text("one three")], 0.5),  # 2 * 1 common of 4 words
        (text_agreement, [text("one two", x=683)], [text("one two")], 0.5),  # out of reach: half of it is for the place
        (text_agreement, [text("one two", x=341.5)], [text("one two")], 0.75),
        (text_agreement, [text("one two"), text("three")], [text("one two")], 0.8),  # (2 + 2) of 5 words
        (text_agreement, [text("one")], [], 0),
        (text_agreement, [], [], 1),
        (text_agreement, [text("a a b")], [text("a b b")], 2 / 3),
        (layout_agreement, [block()], [block()], 1),
        (layout_agreement, [block()], [block(width=50)], 0.5),
        (layout_agreement, [block(y=171)], [block()], 0.5),  # half of 342
        (layout_agreement, [block()], [block(tag="button")], 0),
        (layout_agreement, [block(), block(x=400)], [block()], 2 / 3),  # 200 of 300
        (layout_agreement, [block(width=400, height=400), block(x=800)], [block(width=400, height=400)], 800 / 900),
        (layout_agreement, [block()], [], 0),
        (layout_agreement, [block(width=0)], [], 1),  # nothing to be seen
    ],
)  # fmt: skip
def test_elements_by_hand(agreement, first, second, expected):
    assert agreement(elements_of(first), elements_of(second)) == pytest.approx(expected)


def test_areas_count_where_their_background_shows():
    ground = Box("div", 0, 0, 800, 800, background=GREEN)
    same = Box("div", 0, 0, 400, 400, background=GREEN, parent=0)
    other = Box("div", 0, 0, 400, 400, background=DARK, parent=1)
    on_paper = Box("div", 0, 0, 400, 400, background=WHITE)
    assert len(elements_of([ground, same, other]).kinds) == 2
    assert len(elements_of([on_paper]).kinds) == 0
    assert len(elements_of([Box("body", 0, 0, 800, 800, background=DARK)]).kinds) == 0


def flat(red, green, blue, height=8):
    return PageView(np.full((height, WIDTH, 3), (red, green, blue), np.float32))


def test_colour_by_hand():
    assert metrics.colour(flat(1, 1, 1), flat(1, 1, 1)) == 1
    assert metrics.colour(flat(0, 0, 0), flat(1, 1, 1)) == 0
    # ink (0, 0, 1) in (0, 1, 1): half of it in place, no colour in common
    assert metrics.colour(flat(1, 1, 0), flat(1, 0, 0)) == pytest.approx(0.25)
    half = PageView(np.concatenate([flat(0, 0, 0, 4).pixels, flat(1, 1, 1, 4).pixels]))
    # the same colours, nowhere in place
    assert metrics.colour(half, PageView(half.pixels[::-1])) == pytest.approx(0.5)
    assert metrics.colour(half, flat(0, 0, 0)) == pytest.approx(0.5)


def test_structure_by_hand():
    """Against the definition, window by window, at the first scale."""
    source = np.random.default_rng(0)
    one, other = source.random((12, 15)), source.random((12, 15))
    total = weights = 0.0
    for y in range(12 - 6):
        for x in range(15 - 6):
            a, b = one[y : y + 7, x : x + 7], other[y : y + 7, x : x + 7]
            covariance = ((a - a.mean()) * (b - b.mean())).mean()
            brightness = (2 * a.mean() * b.mean() + 1e-4) / (a.mean() ** 2 + b.mean() ** 2 + 1e-4)
            value = brightness * 2 * covariance / (a.var() + b.var())
            weight = max(a.std(), b.std())
            total, weights = total + max(value, 0) * weight, weights + weight
    assert metrics.weighed_similarity(windows_of(one), windows_of(other)) == pytest.approx(total / weights)


def test_structure_of_tiny_and_flat_pictures():
    for height in (1, 2, 3, 13):
        assert 0 <= metrics.structure(flat(0, 0, 0, height), flat(1, 1, 1, 1)) < 0.01
        assert metrics.structure(flat(0.5, 0.5, 0.5, height), flat(0.5, 0.5, 0.5, height)) == pytest.approx(1)


def encoded(image, kind="PNG"):
    out = io.BytesIO()
    image.save(out, kind)
    return out.getvalue()


def test_pictures_of_every_kind_are_decoded_and_others_said():
    clear = Image.new("RGBA", (3, 2), (255, 0, 0, 0))
    assert decode(encoded(clear)).getpixel((0, 0)) == (255, 255, 255)  # as on paper
    assert decode(encoded(Image.new("L", (3, 2), 7))).getpixel((2, 1)) == (7, 7, 7)
    assert decode(encoded(Image.new("P", (3, 2)))).mode == "RGB"
    assert decode(encoded(Image.new("RGB", (3, 2), "red"), "JPEG")).size == (3, 2)
    whole, huge = encoded(draw(SHOP)), bytearray(encoded(Image.new("1", (1, 1))))
    huge[16:24] = struct.pack(">II", 60_000, 60_000)  # a small file that claims to be large
    huge[29:33] = struct.pack(">I", zlib.crc32(bytes(huge[12:29])))
    for data in (b"", b"no picture", whole[:30], whole[: len(whole) // 2], bytes(huge)):
        with pytest.raises(BrokenPicture):
            decode(data)


def test_extreme_shapes_are_looked_at():
    for size in ((1, 1), (1366, 1), (1, 3000), (5000, 20)):
        look = scale(Image.new("RGB", size, "white"))
        assert look.shape[1:] == (WIDTH, 3)
        assert 1 <= len(look) <= 8 * WIDTH
