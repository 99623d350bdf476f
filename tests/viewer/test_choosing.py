"""Which layout shows a file: by what its rows have, whatever world they name."""

import re
from pathlib import Path

import pytest

import sweet_rl
from sweet_rl.commands.view import visualize_dialogue_histories
from sweet_rl.records import trajectories_from_rows
from sweet_rl.viewer.content import kind_of_trajectories
from tests.viewer.game_samples import game_rows
from tests.viewer.page_samples import page_rows
from tests.viewer.samples import sample_rows, write_rows


def trajectories(rows):
    return trajectories_from_rows(list(enumerate(rows, 1)))


def of_no_world(row):
    return {name: value for name, value in row.items() if name not in {"provenance", "settings"}}


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        (lambda _: sample_rows(), "code"),
        (lambda _: game_rows(), "game"),
        (page_rows, "design"),
        (lambda folder: page_rows(folder)[:1] + sample_rows(), "design"),
        (lambda _: [], "code"),
    ],
)
def test_rows_decide(tmp_path, rows, kind):
    found = trajectories([of_no_world(row) for row in rows(tmp_path)])
    assert kind_of_trajectories(found) == kind


def test_a_published_row_names_its_picture_as_its_answer():
    row = of_no_world(sample_rows()[0]) | {"answer": "pictures/7.png"}
    assert kind_of_trajectories(trajectories([row])) == "design"


def test_one_stage_and_one_call_show_pictures_too(tmp_path, capsys):
    saved = write_rows(tmp_path / "pages.jsonl", page_rows(tmp_path))
    visualize_dialogue_histories(str(saved), export=str(tmp_path / "one.html"))
    assert "rows exported to" in capsys.readouterr().out
    sweet_rl.view(saved, tmp_path / "two.html")
    pages = [Path(tmp_path / name).read_text() for name in ("one.html", "two.html")]
    assert all(len(re.findall("data:image/png;base64|iVBORw0KGgo", page)) > 1 for page in pages)
