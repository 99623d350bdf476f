"""Pictures in data files: how they are named, and what is said of those that are of no use."""

import json

import pytest

from sweet_rl.errors import DataError, UsageError
from sweet_rl.training.data import Said, read_pairs
from sweet_rl.training.settings import DataSettings
from tests.training.vision_models import data_url, png


def read(tmp_path, *rows, **settings):
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_pairs(DataSettings(str(path), **settings), seed=0)[0]


def pair(*content):
    ask = {"role": "user", "content": [*content]}
    return {side: [ask, {"role": "assistant", "content": side}] for side in ("chosen", "rejected")}


def test_every_spelling_of_a_picture(tmp_path):
    data = png(40, 30, 0)
    (tmp_path / "a.png").write_bytes(data)
    whole = str(tmp_path / "a.png")
    spellings = [
        {"type": "image", "image": "a.png"},
        {"type": "image", "path": whole},
        {"type": "image", "url": f"file://{whole}"},
        {"type": "image_url", "image_url": {"url": data_url(data)}},
        {"type": "image", "image": data_url(data).replace("image/png", "image")},
    ]
    (row,) = read(tmp_path, pair({"type": "text", "text": "these: "}, *spellings))
    marks = [{"type": "image"}] * 5
    assert row.chosen.messages[0]["content"] == [{"type": "text", "text": "these: "}, *marks]
    assert {(picture.digest, picture.width, picture.height) for picture in row.pictures} == {
        (row.pictures[0].digest, 40, 30)
    }
    assert len(row.chosen.pictures) == len(row.rejected.pictures) == 5
    assert row.chosen.pictures[0] is row.rejected.pictures[0]  # looked at once


def test_a_prompts_pictures_belong_to_both_sides(tmp_path):
    (tmp_path / "a.png").write_bytes(png(40, 30, 0))
    ask = [{"role": "user", "content": [{"type": "image", "image": "a.png"}]}]
    row = {"prompt": ask, "chosen": [{"role": "assistant", "content": "yes"}]}
    (found,) = read(
        tmp_path, row | {"rejected": [{"role": "assistant", "content": "no"}]}, prompt_key="prompt"
    )
    assert [said.messages[-1]["content"] for said in (found.chosen, found.rejected)] == ["yes", "no"]
    assert len(found.prompt.pictures) == 1
    assert found.chosen.pictures == found.rejected.pictures == ()


def test_the_layout_of_pages(tmp_path):
    sides = {"chosen": {"input": "ask ", "output": "good"}, "rejected": {"input": "other ", "output": "bad"}}
    (row,) = read(tmp_path, sides)
    assert (row.prompt, row.chosen.text, row.rejected.text) == (Said(), "ask good", "other bad")
    assert [(turn.input, turn.output) for turn in row.chosen.turns] == [("ask ", "good")]


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (
            {"type": "image", "image": "b.png"},
            r"field 'chosen\[0\]\.content\[0\]' .*not there .*b\.png.* data's folder",
        ),
        ({"type": "image", "image": "broken.png"}, r"cannot be decoded .*broken\.png.* leave the row out"),
        ({"type": "image", "image": "https://host/a.png"}, "is a picture on the web.*Nothing is fetched"),
        ({"type": "image", "image": "data:image/png,abc"}, "a data URL that cannot be read"),
        ({"type": "image", "image": "data:image/png;base64,a?"}, "a data URL that cannot be read"),
        ({"type": "image"}, "must be a text or a picture"),
        ({"type": "video", "video": "a.mp4"}, "must be a text or a picture"),
        ("text", "must be a text or a picture"),
    ],
)
def test_one_of_no_use_is_named_with_its_line(part, message, tmp_path):
    (tmp_path / "broken.png").write_bytes(png(40, 30, 0)[:60])
    with pytest.raises(
        DataError, match=r"pairs\.jsonl, line 2: " + (message if "field" in message else f".*{message}")
    ):
        read(tmp_path, pair({"type": "text", "text": "fine"}), pair(part))


def test_an_assistant_shows_none(tmp_path):
    side = [
        {"role": "user", "content": "draw"},
        {"role": "assistant", "content": [{"type": "image", "image": "a"}]},
    ]
    with pytest.raises(DataError, match="the assistant's own turn"):
        read(tmp_path, {"chosen": side, "rejected": side})


def test_a_picture_that_changes_in_the_middle(tmp_path):
    (tmp_path / "a.png").write_bytes(png(40, 30, 0))
    (row,) = read(tmp_path, pair({"type": "image", "image": "a.png"}))
    assert row.pictures[0].decoded().size == (40, 30)
    (tmp_path / "a.png").write_bytes(png(40, 30, 1))
    with pytest.raises(UsageError, match="has changed since the run began"):
        row.pictures[0].decoded()
    (tmp_path / "a.png").unlink()
    with pytest.raises(UsageError, match="cannot be read any more"):
        row.pictures[0].decoded()
