"""Pages in texts: the goldens, and what agents write that is no page."""

import hashlib
import io
import json
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from sweet_rl.browsers.assets import asset_for, join_rules, picture, read_rules, tailwind, tailwind_for
from sweet_rl.browsers.page import PLACEHOLDER, extract_html, normalise_urls


@pytest.mark.parametrize(
    ("name", "wanted", "found"),
    [
        ("url_replacement", lambda case: case["output"], normalise_urls),
        ("html_extraction", lambda case: (case["text"], case["html"]), extract_html),
    ],
)
def test_addresses_are_normalised_and_pages_found_as_published(shared, name, wanted, found):
    cases = json.loads((shared / "goldens/sweet_rl/f_html/html.json").read_text())[name]
    assert cases
    assert [found(case["input"]) for case in cases] == list(map(wanted, cases))


NO_PAGES = [
    "", "no page", "<html>half", "half</html>", "</html><html>", "<html</html>", "<HTML>x</HTML>", "<Body>x</Body>", "<html", "<",
]  # fmt: skip
PAGES = {
    "<html>a</html><html>b</html>": "<html>a</html>",
    "<body>a</body> <body>b</body>": "<body>a</body>",
    "<html>open <body>whole</body>": "<body>whole</body>",
    "<html>outer <html>inner</html></html>": "<html>outer <html>inner</html>",
    "<htmlx>also</html>": "<htmlx>also</html>",
    "<html </html>x</html>": "<html </html>x</html>",
}


@pytest.mark.parametrize("text", [*NO_PAGES, *PAGES])
def test_several_pages_give_the_first_and_others_none(text):
    page = PAGES.get(text)
    assert extract_html(text) == (text.replace(page, PLACEHOLDER) if page else text, page)


def test_a_million_half_tags_take_no_time():
    started = time.perf_counter()
    assert extract_html("<html>" * 500_000 + "<body>" * 500_000)[1] is None
    assert time.perf_counter() - started < 2


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["<html", "<body", ">", "</html>", "</body>", "a", "\n", " "]), max_size=14))
def test_pages_are_what_the_pattern_finds(parts):
    text = "".join(parts)
    patterns = r"<html.*?>.*?</html>", r"<body.*?>.*?</body>"
    found = next(filter(None, (re.search(pattern, text, re.DOTALL) for pattern in patterns)), None)
    assert extract_html(text)[1] == (found and found.group())


@pytest.mark.parametrize(
    ("url", "size"),
    [
        ("https://picsum.photos/id/48/300/200", (300, 200)), ("https://picsum.photos/id/48/300/200-estate", (300, 200)),
        ("http://picsum.photos/64", (64, 64)), ("https://picsum.photos/seed/a1/30/20.jpg?grayscale&blur=2", (30, 20)),
        ("https://fastly.picsum.photos/id/9/30/20.jpg", (30, 20)), ("https://source.unsplash.com/random", (800, 600)),
        ("https://source.unsplash.com/random/30x20/?cat,dog", (30, 20)), ("https://via.placeholder.com/32", (32, 32)),
        ("https://images.unsplash.com/photo-1500?w=40&q=80", (40, 30)), ("https://dummyimage.com/60x40/000/fff", (60, 40)),
        ("https://images.unsplash.com/photo-1500?h=30", (40, 30)), ("https://via.placeholder.com/320x100.png?text=a", (320, 100)),
    ],
)  # fmt: skip
def test_pictures_have_the_size_that_is_asked_for(url, size):
    asset = asset_for(url)
    assert asset.content_type == "image/png"
    with Image.open(io.BytesIO(asset.body)) as image:
        image.load()
        assert image.size == size


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/", "https://picsum.photos.example.com/3/4",
        "https://picsum.photos/id/1/99999/9", "https://picsum.photos/0/9",
        "https://example.com/picsum.photos/3/4", "http://169.254.169.254/latest/meta-data",
        "file:///etc/passwd", "ftp://picsum.photos/3/4", "http://[bad", "https://cdn.tailwindcss.com",
    ],
)  # fmt: skip
def test_nothing_else_exists(url):
    assert asset_for(url) is None


@pytest.mark.parametrize(
    ("url", "exact"),
    [
        ("https://cdn.jsdelivr.net/npm/tailwindcss@2.2.19/dist/tailwind.min.css", True),
        ("https://unpkg.com/tailwindcss@2.2.19/dist/tailwind.min.css?x", True),
        ("https://cdnjs.cloudflare.com/ajax/libs/tailwindcss/2.2.19/tailwind.min.css", True),
        ("https://unpkg.com/tailwindcss@^2/dist/tailwind.css", False),
    ],
)
def test_tailwind_is_the_published_file(url, exact):
    asset = asset_for(url)
    assert asset.body is tailwind()
    assert (asset.content_type, asset.note == "") == ("text/css", exact)
    assert len(tailwind()) == 2_934_019
    assert tailwind().startswith(b"/*! tailwindcss v2.2.19 | MIT License")


def test_pictures_never_change():
    """Their bytes are part of every picture of a page: who changes them raises `assets.VERSION`."""
    with Image.open(io.BytesIO(picture(31, 17, "a"))) as image:
        pixels = image.tobytes()
    assert hashlib.sha256(pixels).hexdigest()[:16] == "f9563b009d0e6974"


def test_one_motif_in_many_sizes():
    small, large = (asset_for(f"https://picsum.photos/id/48/{size}") for size in ("30/20", "300/200"))
    with Image.open(io.BytesIO(small.body)) as a, Image.open(io.BytesIO(large.body)) as b:
        for at in ((0, 0), (0, 19), (29, 19)):
            corner = b.getpixel((at[0] * 10 + 5, at[1] * 10 + 5))
            assert all(abs(x - y) < 12 for x, y in zip(a.getpixel(at), corner, strict=True))
    other = asset_for("https://picsum.photos/id/49/30/20")
    assert other.body != small.body


def test_every_rule_of_tailwind_is_read():
    css = re.sub(r"/\*.*?\*/", "", tailwind().decode(), flags=re.DOTALL)
    rules = read_rules(css)
    assert len(rules) > 39_000
    assert css.count("{") == css.count("@media") + sum(rule.text.count("{") for rule in rules)
    assert read_rules(join_rules(rules).decode()) == rules


PAGE = """<div class="md:w-1/2 HOVER:text-white group"><p class='-mt-2 w-0.5 x&amp;y'>
<b class=text-3xl><i class="group-hover:underline space-y-4 sm:container">"""


CLASSES = "md:w-1/2 hover:text-white -mt-2 w-0.5 text-3xl group-hover:underline space-y-4 sm:container"


def test_a_page_gets_the_rules_of_its_classes():
    rules, served = read_rules(tailwind().decode()), read_rules(tailwind_for(PAGE).decode())
    known = {(rule.text, rule.conditions) for rule in served}
    for name in CLASSES.split():
        wanted = [rule for rule in rules if any(name in one for one in rule.alternatives)]
        mine = [rule for rule in wanted if any(one <= {name, "group"} for one in rule.alternatives)]
        assert mine, name
        assert all((rule.text, rule.conditions) in known for rule in mine), name


def test_and_no_others_but_those_that_need_none():
    served = tailwind_for(PAGE)
    assert len(served) < 10_000
    assert b".underline" not in served.replace(b"\\:underline", b"")
    assert served.startswith(join_rules(read_rules(tailwind().decode())[:20]))
    assert b"@keyframes spin" in served


@pytest.mark.parametrize(
    "page", ["<iframe srcdoc='&lt;p class=mt-2&gt;'>", "<object data='data:text/html,%3Cp'>"]
)
def test_pages_within_pages_get_all_of_it(page):
    assert tailwind_for(page) == tailwind()
