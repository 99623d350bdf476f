"""The worlds as the flags ask for them, and what is missing in them."""

import json
from dataclasses import replace

import pytest

from sweet_rl.algorithms.reflect.settings import ReflectSettings
from sweet_rl.algorithms.reflect.worlds import open_world
from sweet_rl.errors import UsageError


def opened(settings):
    with open_world(settings) as world:
        return world


def test_repositories_that_are_all_missing(tmp_path):
    way = {"question": "where?", "filename": "a.py", "optimal_path": ["cat a.py", "id a.py"], "n_level": 0}
    found = {"trajectories": [{"filename": "a.py", "info": "positive", "trajectory": []}]}
    tasks = tmp_path / "train.json"
    tasks.write_text(json.dumps([{**way, **found, "root": root} for root in ("one", "two")]))
    (tmp_path / "repos" / "other").mkdir(parents=True)
    settings = ReflectSettings(task_file=str(tasks), repo_dir=str(tmp_path / "repos"))
    with pytest.raises(UsageError, match=r"There is no repository 'one' in .*repos"):
        opened(settings)
    (tmp_path / "repos" / "two").mkdir()
    assert [len(level) for level in opened(settings).levels] == [2]  # one task's episodes will fail
    with pytest.raises(UsageError, match=r"There is no folder .*nowhere"):
        opened(replace(settings, repo_dir=str(tmp_path / "nowhere")))
    tasks.write_text("[]")
    with pytest.raises(UsageError, match=r"nothing to play: --task_file .*train\.json"):
        opened(settings)
