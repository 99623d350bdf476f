"""The page as a text: what it may do, and what cannot get out of its data."""

import base64
import hashlib
import json
import re

import pytest

from sweet_rl.errors import StorageError
from sweet_rl.viewer.export import export
from sweet_rl.viewer.library import Library
from sweet_rl.viewer.page import build_page, data_block, embed
from sweet_rl.viewer.rows import LAYOUTS
from tests.viewer.samples import ATTACK, index_by

BLOCK = re.compile(r'<script type="application/json" id="([\w-]+)">(.*?)</script>', re.DOTALL)


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
    hashes = {"script": set(), "style": set()}
    for name, block in blocks:
        hashes[name].add(f"'sha256-{base64.b64encode(hashlib.sha256(block.encode()).digest()).decode()}'")
    rules = dict(rule.split(" ", 1) for rule in page.policy.split("; "))
    assert set(rules["script-src"].split()) == hashes["script"]
    assert set(rules["style-src"].split()) == hashes["style"]
    assert rules["default-src"] == "'none'"
    assert rules["connect-src"] == ("'self'" if served else "'none'")
    assert rules["img-src"] == ("data: 'self'" if served else "data:")


def test_page_refers_to_nothing_elsewhere():
    page = build_page("t", served=False)
    addresses = re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"')]*", page.head + page.tail)
    assert set(addresses) == {"http://www.w3.org/2000/svg"}  # a namespace, which nobody loads
    assert " src=" not in page.head + page.tail


def test_title_is_text():
    page = build_page("<script>x</script> & <!--style--> <!--data-->", served=False)
    assert (
        "<title>&lt;script&gt;x&lt;/script&gt; &amp; &lt;!--style--&gt; &lt;!--data--&gt;</title>"
        in page.head
    )


def test_export_holds_index_and_rows_one_a_line(sample_file, trajectories, tmp_path):
    out = tmp_path / "new" / "out.html"
    export(Library([sample_file]), out)
    blocks = dict(BLOCK.findall(out.read_text(encoding="utf-8")))
    index = index_by("code", trajectories, "sample.jsonl")
    assert json.loads(blocks["index-0"]) == index | {"broken": []}
    first, *lines = blocks["rows-0"].split("\n")
    assert first == ""
    shown = [json.loads(line) for line in lines]
    rows = list(map(LAYOUTS["code"].row, trajectories))
    assert [{name: one[name] for name in rows[0]} for one in shown] == rows


def test_export_of_no_rows(tmp_path):
    (tmp_path / "empty.jsonl").touch()
    export(Library([tmp_path / "empty.jsonl"]), tmp_path / "out.html")
    blocks = dict(BLOCK.findall((tmp_path / "out.html").read_text()))
    assert blocks["rows-0"] == ""
    assert json.loads(blocks["index-0"])["tasks"] == []


def test_export_that_fails_leaves_the_old_file(sample_file, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="Cannot write"):
        export(Library([sample_file]), tmp_path / "file" / "out.html")
    assert (tmp_path / "file").read_text() == "x"


def test_data_block_ends_where_it_should():
    assert BLOCK.fullmatch("".join(data_block("rows", [ATTACK, ATTACK])).strip()).group(2).count("\n") == 2
