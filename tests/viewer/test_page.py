"""The page as a text: what it may do, and what cannot get out of its data."""

import base64
import hashlib
import json
import re

import pytest

from sweet_rl.errors import StorageError
from sweet_rl.viewer.content import make_index, make_row
from sweet_rl.viewer.export import export_html
from sweet_rl.viewer.page import build_page, data_block, embed
from tests.viewer.samples import ATTACK

BLOCK = re.compile(r'<script type="application/json" id="(\w+)">(.*?)</script>', re.DOTALL)


@pytest.mark.parametrize("text", [ATTACK, "</SCRIPT>", "<!--<script>", "\u2028\u2029", "\ud800", "é𝄞"])
def test_embedded_text_is_plain_ascii_without_markup_and_comes_back(text):
    embedded = embed({"text": text})
    assert embedded.isascii()
    assert "<" not in embedded
    assert json.loads(embedded) == {"text": text}


@pytest.mark.parametrize("served", [False, True])
def test_policy_allows_exactly_the_page_s_own_scripts_and_style(served):
    page = build_page("t", served=served)
    text = page.head + page.tail
    blocks = re.findall(r"<(script|style)>(.*?)</\1>", text, re.DOTALL)
    assert len(blocks) > 2
    hashes = {kind: set() for kind in ("script", "style")}
    for kind, block in blocks:
        hashes[kind].add(f"'sha256-{base64.b64encode(hashlib.sha256(block.encode()).digest()).decode()}'")
    rules = dict(rule.split(" ", 1) for rule in page.policy.split("; "))
    assert set(rules["script-src"].split()) == hashes["script"]
    assert set(rules["style-src"].split()) == hashes["style"]
    assert rules["default-src"] == "'none'"
    assert rules["connect-src"] == ("'self'" if served else "'none'")


def test_page_refers_to_nothing_elsewhere():
    page = build_page("t", served=False)
    addresses = re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"')]*", page.head + page.tail)
    assert addresses == ["http://www.w3.org/2000/svg"]  # the icon's namespace, which nobody loads
    assert " src=" not in page.head + page.tail


def test_title_is_text():
    page = build_page("<script>x</script> & <!--style--> <!--data-->", served=False)
    assert (
        "<title>&lt;script&gt;x&lt;/script&gt; &amp; &lt;!--style--&gt; &lt;!--data--&gt;</title>"
        in page.head
    )


def test_export_holds_index_and_rows_one_a_line(trajectories, tmp_path):
    out = tmp_path / "new" / "out.html"
    export_html(trajectories, out, "sample")
    blocks = dict(BLOCK.findall(out.read_text(encoding="utf-8")))
    assert json.loads(blocks["index"]) == make_index(trajectories, "sample")
    first, *lines = blocks["rows"].split("\n")
    assert first == ""
    assert [json.loads(line) for line in lines] == [make_row(trajectory) for trajectory in trajectories]


def test_export_of_no_rows(tmp_path):
    export_html([], tmp_path / "out.html", "empty")
    blocks = dict(BLOCK.findall((tmp_path / "out.html").read_text()))
    assert blocks["rows"] == ""
    assert json.loads(blocks["index"]) == {"title": "empty", "tasks": [], "rows": []}


def test_export_that_fails_leaves_the_old_file(trajectories, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="Cannot write"):
        export_html(trajectories, tmp_path / "file" / "out.html", "sample")
    assert (tmp_path / "file").read_text() == "x"


def test_data_block_ends_where_it_should():
    assert BLOCK.fullmatch("".join(data_block("rows", [ATTACK, ATTACK])).strip()).group(2).count("\n") == 2
