"""Pages in texts: the goldens, and what agents write that is no page."""

import json
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweet_rl.browsers.page import PLACEHOLDER, extract_html, normalise_urls


def golden(shared, name):
    return json.loads((shared / "goldens/sweet_rl/f_html/html.json").read_text())[name]


def test_addresses_are_normalised_as_published(shared):
    cases = golden(shared, "url_replacement")
    assert cases
    for case in cases:
        assert normalise_urls(case["input"]) == case["output"]


def test_pages_are_found_as_published(shared):
    cases = golden(shared, "html_extraction")
    assert cases
    for case in cases:
        assert extract_html(case["input"]) == (case["text"], case["html"])


@pytest.mark.parametrize(
    "text",
    [
        "", "no page", "<html>half", "half</html>", "</html><html>", "<html</html>", "<HTML>x</HTML>",
        "<Body>x</Body>", "<html", "<",
    ],
)  # fmt: skip
def test_what_is_no_page(text):
    assert extract_html(text) == (text, None)


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("<html>a</html><html>b</html>", "<html>a</html>"),
        ("<body>a</body> <body>b</body>", "<body>a</body>"),
        ("<html>open <body>whole</body>", "<body>whole</body>"),
        ("<html>outer <html>inner</html></html>", "<html>outer <html>inner</html>"),
        ("<htmlx>also</html>", "<htmlx>also</html>"),
        ("<html </html>x</html>", "<html </html>x</html>"),
    ],
)
def test_several_pages_give_the_first(text, page):
    assert extract_html(text) == (text.replace(page, PLACEHOLDER), page)


def test_a_million_half_tags_take_no_time():
    started = time.perf_counter()
    assert extract_html("<html>" * 500_000 + "<body>" * 500_000)[1] is None
    assert time.perf_counter() - started < 2


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["<html", "<body", ">", "</html>", "</body>", "a", "\n", " "]), max_size=14))
def test_pages_are_what_the_pattern_finds(parts):
    text = "".join(parts)
    found = re.search(r"<html.*?>.*?</html>", text, re.DOTALL) or re.search(
        r"<body.*?>.*?</body>", text, re.DOTALL
    )
    assert extract_html(text)[1] == (found and found.group())
