"""Mini-web: schema, well-formed pages, determinism, disjoint splits, and requests that give nothing away."""

import hashlib
import json
import re
from collections import Counter
from html.parser import HTMLParser
from importlib.resources import files
from xml.etree.ElementTree import ParseError

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweet_rl.browsers.page import extract_html, normalise_urls
from sweet_rl.errors import UsageError
from sweet_rl.mini.frontend import pages as mini_web
from sweet_rl.mini.frontend.pages import WORDS, Draw, Site, arrangement, draw_look, parse, to_html, topics_for
from sweet_rl.worlds import load_tasks

VOID = {"br", "hr", "img", "input", "link"}
ROUND = len(mini_web.KINDS)

seeds = st.integers(0, 10**6)
kinds = st.sampled_from(sorted(mini_web.KINDS))


class Page(HTMLParser):
    """Reads a page strictly: every tag that opens closes, in order."""

    def __init__(self, html):
        super().__init__()
        self.open, self.seen, self.ids, self.labels = [], Counter(), [], []
        self.addresses, self.words = [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"an attribute twice: {attrs}"
        self.seen[tag] += 1
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name == "for":
                self.labels.append(value)
            if name == "class":
                assert value == value.strip() != ""
            if name in {"src", "style"}:
                self.addresses += re.findall(r"https?://[^'\")]+", value)
            assert value is None or "None" not in value

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if data.strip() and self.open[-1] != "style":
            self.words.append(data.strip())


@settings(max_examples=100, deadline=None)
@given(kinds, seeds)
def test_every_page_is_well_formed_and_its_request_says_what_for_and_not_how(kind, seed):
    drawn = mini_web.draw_page(kind, seed, 0)
    html, told = drawn.html, drawn.request
    page = Page(html)
    assert page.open == []
    assert page.seen["html"] == page.seen["body"] == page.seen["link"] == 1
    assert len(page.ids) == len(set(page.ids))
    assert set(page.labels) <= set(page.ids)
    assert len(page.words) >= 4
    assert all(re.fullmatch(r"https://picsum\.photos/id/48/\d+/\d+", address) for address in page.addresses)
    assert html.startswith(f'<html>\n<link href="{mini_web.TAILWIND}" rel="stylesheet">\n')
    assert normalise_urls(html) == html
    assert extract_html(f"Here it is:\n{html}\nDone.") == ("Here it is:\n[SEE RENDERED HTML]\nDone.", html)
    assert 137 <= len(told) <= 549  # as long as those of the published sample
    assert told[0].isupper()
    assert told.endswith(".")
    layout = (
        r"columns?|rows?|grid|sidebar|header|footer|navigation|left|right|top|bottom|cent(?:er|re)d|cards?"
    )
    assert not re.search(rf"\b(?:{layout})\b", told, re.IGNORECASE)
    assert not [name for topic in WORDS["topics"] for name in topic["names"] if name in told]


def test_rows_have_exactly_the_fields_of_a_published_row(shared):
    with (shared / "data/colbench/frontend_tasks_500.jsonl").open() as file:
        real = json.loads(next(file))
    for row in mini_web.generate("test", ROUND):
        assert list(row) == list(real)
        assert all(type(value) is str and value for value in row.values())


def test_pages_and_requests_of_a_split_are_all_different_and_the_splits_share_none():
    train, test = mini_web.generate("train", 190), mini_web.generate("test", 95)
    other = mini_web.generate("test", 95, seed=7)
    for rows in (train, test, other):
        for field in ("ground_truth", "problem_description"):
            assert len({row[field] for row in rows}) == len(rows)
    pages = [{row["ground_truth"] for row in rows} for rows in (train, test, other)]
    assert not pages[0] & (pages[1] | pages[2])
    assert test != other
    assert train[:23] == mini_web.generate("train", 23)  # a longer list begins as a shorter one


def test_the_arrangement_decides_the_split_whatever_is_written_in_it():
    here = parse('<div class="p-4" id="a"> <p>One</p> <p class="">Two</p> </div>')
    same = parse('<div class=" p-4 " id="b"><p>Three</p><p>Four</p></div>')
    other = parse('<div class="p-4" id="a"><p>One</p><p class="font-bold">Two</p></div>')
    assert arrangement(here) == arrangement(same) == ["div", "p-4", ["p", ""], ["p", ""]]
    assert arrangement(here) != arrangement(other)


def test_every_kind_has_a_template_purposes_and_something_to_be_about():
    templates = (files("sweet_rl.mini.frontend") / "templates/kinds").iterdir()
    assert {path.name.removesuffix(".html.j2") for path in templates} == set(mini_web.KINDS)
    assert set(WORDS["only_for"]) <= set(mini_web.KINDS)
    for kind in mini_web.KINDS:
        assert WORDS["purposes"][kind]
        assert len(topics_for(kind)) >= 3
    abouts = {topic["about"] for topic in WORDS["topics"]}
    assert set().union(*WORDS["only_for"].values()) <= abouts


def test_texts_are_escaped_once_and_what_is_not_closed_is_an_error():
    node = parse('<p class="a">1 &lt; 2 &amp; so on<img alt="say &#34;hi&#34;"/> or <br/></p>')
    html = '<p class="a">\n  1 &lt; 2 &amp; so on\n  <img alt="say &quot;hi&quot;">\n  or\n  <br>\n</p>'
    assert to_html(node) == html
    draw = Draw(0)
    topic = dict.fromkeys(WORDS["topics"][0], ["A <b> & \"c\" 'd'"] * 9) | {"offer": "<i>", "prices": (1, 2)}
    for kind in mini_web.KINDS:
        html = to_html(Site(draw, draw_look(draw), topic, "<u>").body(kind))
        assert not re.search(r"<[biu]>|&amp;(?:lt|amp|quot|#)", html)
        assert "&lt;" in html
    with pytest.raises(ParseError, match="mismatched tag"):
        parse("<body><p></body>")


def test_the_benchmark_has_a_name_for_each_split_and_its_pages_never_change():
    tasks = load_tasks("mini-web:test", num_tasks=9, seed=4)
    assert [task.row for task in tasks] == mini_web.generate("test", 9, 4)
    assert all(task.hidden_information == task.ground_truth and not task.test_cases for task in tasks)
    # Published figures name these tasks; a change here needs a new name for the benchmark.
    text = json.dumps([mini_web.generate("train", 60), mini_web.generate("test", 60)])
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "df724c400e58e494"


@pytest.mark.parametrize("source", ["mini-web", "mini-web:dev", "mini-web:easy:test"])
def test_a_split_that_does_not_exist_is_named_with_those_that_do(source):
    with pytest.raises(UsageError, match="Use 'mini-web:train' or 'mini-web:test'"):
        load_tasks(source)
    with pytest.raises(UsageError, match="'train' and 'test', not 'dev'"):
        mini_web.generate("dev", 1)
