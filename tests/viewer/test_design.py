"""What the viewer shows of Frontend Design, and which files it gives away."""

import asyncio
import json
import os

import pytest
from aiohttp.test_utils import TestClient, TestServer

from sweet_rl.viewer import design as gallery
from sweet_rl.viewer.design import DesignContents, find_picture
from sweet_rl.viewer.export import export
from sweet_rl.viewer.library import Library
from sweet_rl.viewer.server import make_app
from tests.browsers.fake_renderer import FakeRenderer, draw
from tests.viewer.samples import FIRST, SECOND, TARGET, index_by, listed, page_rows, read, write_rows
from tests.viewer.test_export import BLOCK


def contents(folder, rows=None, **how):
    rows = page_rows(folder) if rows is None else rows
    return DesignContents(read(*rows).__getitem__, folder=folder, **how)


def row(shown, position):
    asyncio.run(shown.prepare(position))
    return shown.row(position)


# ---- rows


def test_index_has_the_metric_and_what_a_blank_page_scores(tmp_path):
    index = index_by("design", read(*page_rows(tmp_path)))
    assert (index["kind"], index["columns"]["metric"][:3]) == ("design", ["combined", "combined", None])
    known = [(0.82, 0.01), (0.4, 0.01), (None, None), (0.1, None)]
    assert [(one["reward"], one["floor"]) for one in listed(index)] == known


def test_row_has_words_with_a_placeholder_the_page_and_its_picture(tmp_path):
    shown = row(contents(tmp_path), 0)
    agent = [message for message in shown["messages"] if message["role"] == "assistant"]
    assert agent[0]["content"] == "Here:\n[SEE RENDERED HTML]\nLike this?"
    assert [message["html"] for message in agent] == [FIRST, SECOND]
    assert [message["thoughts"] for message in agent] == ["I think."] * 2
    picture = {"id": "0/1", "width": 64, "height": 32, "rendered": False}
    assert shown["drafts"][1] == {"turn": 1, "picture": picture, "failure": None, "grades": None}
    assert shown["target"]["id"] == "0/target"
    assert shown["answer"] == {"turn": 1, "picture": None}
    assert (shown["metric"], shown["hidden"]) == ("combined", TARGET)
    assert row(contents(tmp_path), 1)["answer"] == {"turn": 0, "picture": None}  # of an earlier turn


def test_published_row_has_the_picture_of_its_last_page_only(tmp_path):
    shown = row(contents(tmp_path), 2)
    assert [draft["picture"]["id"] for draft in shown["drafts"]] == [None, "2/1"]
    assert shown["drafts"][0]["picture"]["note"] == shown["target"]["note"] == gallery.NOT_TOLD
    assert shown["answer"] == {"turn": 1, "picture": None}


def test_the_page_is_told_no_path(tmp_path):
    assert "run_images" not in json.dumps([row(contents(tmp_path), position) for position in range(4)])
    rows = page_rows(tmp_path)
    details = {"failures": [{"kind": "missing_picture", "detail": "/home/somebody/x.png"}]}
    shown = row(contents(tmp_path, [rows[0] | {"grading_details": details}]), 0)
    assert shown["grading_notes"] == ["missing picture"]


@pytest.mark.parametrize("odd", [7, {}, [3], [{"turn": "x", "image": 3}], [{"turn": 0, "image": ["a"]}]])
def test_other_peoples_drafts_do_no_harm(tmp_path, odd):
    strange = page_rows(tmp_path)[0] | {"drafts": odd, "target_image": odd, "floors": odd, "grades": odd}
    shown = row(contents(tmp_path, [strange]), 0)
    assert [draft["turn"] for draft in shown["drafts"]] == [0, 1]
    assert shown["target"]["id"] is None


# ---- rendering and grading


def test_what_has_no_picture_is_rendered_when_told(tmp_path):
    assert row(contents(tmp_path), 2)["target"]["id"] is None  # and else not
    renderer = FakeRenderer(fails={"Oven Street": "timeout"})
    shown = contents(tmp_path, renderer=renderer)
    published = row(shown, 2)
    assert published["drafts"][0]["picture"] == {"id": "2/0", "width": 64, "height": 16, "rendered": True}
    assert published["target"]["note"].startswith(gallery.NOT_RENDERED)
    assert shown.picture(2, "0") == draw(FIRST).image
    assert renderer.pages == [TARGET, FIRST]  # the last page has a picture


def test_metrics_of_every_draft(tmp_path):
    renderer = FakeRenderer()
    shown = contents(tmp_path, renderer=renderer, metrics=True)
    grades = [draft["grades"] for draft in row(shown, 0)["drafts"]]
    assert grades[0]["combined"] < grades[1]["combined"] < 1
    assert set(grades[0]) == {"combined", "ssim", "colour", "text", "layout"}
    assert set(renderer.pages) == {TARGET, FIRST, SECOND}


def test_rows_far_back_are_let_go_and_made_again(tmp_path, monkeypatch):
    monkeypatch.setattr("sweet_rl.viewer.design._HELD", 2)
    renderer = FakeRenderer()
    shown = contents(tmp_path, renderer=renderer)

    async def look():
        await asyncio.gather(*(shown.prepare(2) for _ in range(3)))  # at once, as a page asks
        assert len(renderer.pages) == 2
        for position in (0, 1):
            await shown.prepare(position)
        assert shown.picture(2, "0") is None
        await shown.prepare(2)
        await shown.close()

    asyncio.run(look())
    assert shown.picture(2, "0") == draw(FIRST).image
    assert renderer.closed


# ---- files


def test_only_plain_files_that_are_pictures_are_shown(tmp_path):
    png = draw(FIRST).image
    (tmp_path / "good.png").write_bytes(png)
    (tmp_path / "text.png").write_text("root:x:0:0")
    (tmp_path / "short.png").write_bytes(png[:20])
    (tmp_path / "odd.png").write_bytes(png[:12] + b"XXXX" + png[16:])
    (tmp_path / "folder.png").mkdir()
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "link.png").symlink_to(tmp_path / "good.png")
    assert find_picture("good.png", tmp_path) == find_picture(str(tmp_path / "good.png"), tmp_path / "x")
    assert find_picture("link.png", tmp_path).read() == png
    for name in ("text.png", "short.png", "odd.png", "pipe.png"):
        assert find_picture(name, tmp_path) == gallery.NO_PNG
    for name in ("folder.png", "none.png", "a\0b", "x" * 5000):
        assert find_picture(name, tmp_path) == gallery.NOT_THERE
    assert find_picture(None, tmp_path) == find_picture("", tmp_path) == gallery.NOT_TOLD


def test_a_picture_that_has_moved_is_found_by_its_name(tmp_path):
    (tmp_path / "moved").mkdir()
    (tmp_path / "moved" / "0_17.png").write_bytes(draw(FIRST).image)
    found = find_picture("/home/somebody/.cache/0_17.png", tmp_path, tmp_path / "moved")
    assert (found.width, found.height) == (64, 16)
    assert find_picture("../moved/..", tmp_path, tmp_path / "moved") == gallery.NOT_THERE


def test_a_large_file_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(gallery, "MAX_BYTES", 10)
    (tmp_path / "a.png").write_bytes(draw(FIRST).image)
    assert find_picture("a.png", tmp_path) == gallery.TOO_LARGE


# ---- server and export


def library(folder):
    return Library([write_rows(folder / "run.jsonl", page_rows(folder))])


def ask(folder, *paths):
    async def requests():
        async with TestClient(TestServer(make_app(library(folder), token="t"))) as client:
            await client.get("/?token=t")
            await client.get("/api/index/0")
            answers = [await client.get(path) for path in paths]
            return [(answer.status, answer.headers, await answer.read()) for answer in answers]

    return asyncio.run(requests())


def test_pictures_of_rows_are_served_and_no_other_file(tmp_path):
    (tmp_path / "secret").write_bytes(draw(TARGET).image)
    status, headers, body = ask(tmp_path, "/api/pictures/0/0/0")[0]
    assert (status, headers["Content-Type"], body) == (200, "image/png", draw(FIRST).image)
    safe = headers["X-Content-Type-Options"], headers["Cross-Origin-Resource-Policy"]
    assert safe == ("nosniff", "same-origin")
    refused = ["0/2", "0/secret", "9/0", "0/..%2Fsecret", "0/%2e%2e/secret", "..%2f..%2fetc/passwd"]
    refused += ["0/answer", "3/target"]
    assert {status for status, *_ in ask(tmp_path, *(f"/api/pictures/0/{one}" for one in refused))} == {404}


def test_a_picture_that_vanishes_is_not_found(tmp_path):
    shown = contents(tmp_path)
    row(shown, 0)
    (tmp_path / "run_images" / "0.png").write_bytes(b"no longer")
    assert shown.picture(0, "0") is None


def test_export_holds_each_picture_once(tmp_path):
    out = tmp_path / "out.html"
    embedded = export(library(tmp_path), out, picture_bytes=10_000_000)
    blocks = dict(BLOCK.findall(out.read_text()))
    lines = blocks["pictures"].split("\n")[1:]
    assert len(set(lines)) == len(lines) == embedded.pictures == 4
    places = json.loads(blocks["picture-lines"])
    assert places["0/0/target"] == places["0/1/target"]
    assert set(places) == {f"0/{one}" for one in ("0/target", "0/0", "0/1", "1/target", "1/0", "2/1", "3/0")}
    assert json.loads(lines[0]).startswith("data:image/png;base64,iVBOR")
    assert embedded.left_out == 0


def test_export_leaves_out_what_has_no_room(tmp_path):
    out = tmp_path / "out.html"
    embedded = export(library(tmp_path), out, picture_bytes=200)
    places = json.loads(dict(BLOCK.findall(out.read_text()))["picture-lines"])
    assert 0 < embedded.left_out == embedded.pictures - len(set(places.values()))
