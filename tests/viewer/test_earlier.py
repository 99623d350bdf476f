"""Files that earlier versions wrote (tests/viewer/earlier, by their day) are still read and shown."""

import asyncio
from pathlib import Path

import pytest

from sweet_rl.evaluation.episodes import read_episodes
from sweet_rl.records import load_trajectories
from sweet_rl.viewer.library import Library

EARLIER = Path(__file__).parent / "earlier"
KINDS = {
    "code.jsonl": "code",
    "game.jsonl": "game",
    "sampled.jsonl": "turns",
    "ranked.jsonl": "turns",
    "pairs.jsonl": "pairs",
    "code.report.json": "report",
}
FILES = sorted(path.relative_to(EARLIER).as_posix() for path in EARLIER.glob("*/*"))
PLAYED = [name for name in FILES if name.endswith(("code.jsonl", "game.jsonl"))]


def test_every_kind_has_a_file():
    assert {Path(name).name for name in FILES} == set(KINDS)


@pytest.mark.parametrize("name", FILES)
def test_it_is_shown(name, tmp_path):
    file = tmp_path / Path(name).name
    file.write_bytes((EARLIER / name).read_bytes())
    library = Library([file])
    (shown,) = library.files
    shown.bring_up()
    assert shown.kind == KINDS[file.name]
    if shown.kind == "report":
        assert shown.document()
    else:
        assert [shown.row(place) for place in range(len(file.read_text().splitlines()))]
        assert shown.index.broken == []
    asyncio.run(library.close())


@pytest.mark.parametrize("name", PLAYED)
def test_its_episodes_are_read(name):
    found = read_episodes(EARLIER / name)
    rows = load_trajectories(EARLIER / name)
    assert len(found.episodes) == len(rows) > 0
    assert [each.reward for each in found.episodes] == [row.reward for row in rows]
    assert all(row.reward is not None and row.dialogue_history for row in rows)
    assert not found.problems
