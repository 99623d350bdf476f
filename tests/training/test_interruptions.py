"""Rows of the table of interruptions (benchmarks/interruptions.py, all of it in docs/failures.md), on each trainer."""

import os
import sys

import pytest

from sweet_rl.commands.train_sft import train_sft
from sweet_rl.errors import StorageError
from tests.conftest import ROOT

ROWS = {
    "train_dpo": ["HUP", "twice", "flipped", "quota"],
    "train_sft": ["KILL"],
    "run_archer": ["TERM", "truncated", "torn games", "other games"],
    "rl_finetune": ["KILL", "emptied", "all", "rate"],
}

# One worker makes them all, as a trainer's whole run is made once.
pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("interruptions")]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
        folder = tmp_path_factory.mktemp("table")
        patch.setitem(os.environ, "XDG_CACHE_HOME", str(folder / "cache"))
        import interruptions

        interruptions.load_everything()
        yield interruptions.Table(folder)


@pytest.mark.parametrize(
    ("trainer", "way"), [(trainer, way) for trainer, ways in ROWS.items() for way in ways]
)
def test_a_run_is_refused_or_goes_on_to_the_same_weights(trainer, way, table):
    what, said, outcome, wanted = table.row(trainer, way)
    assert outcome == wanted, (what, said)
    assert "Traceback" not in said
    assert WORDS[way] in said


WORDS = {
    "HUP": "resumes from the newest checkpoint",
    "TERM": "the same command resumes it",
    "KILL": "",
    "twice": "Another run is writing to",
    "flipped": "does not hold the bytes that were written",
    "truncated": "were written. It is now 'damaged-checkpoint-4'",
    "emptied": "manifest.json is missing",
    "all": "Nothing was changed: restore one of them",
    "quota": "checkpoint-6': ",
    "torn games": "trajectories.jsonl' is ",
    "other games": "trajectories.jsonl' has been changed in the ",
    "rate": "--learning_rate was 0.001, is 0.002",
}


def test_two_trainings_do_not_write_to_one_place(tmp_path):
    from sweet_rl.training.checkpoints import held

    flags = {
        "metrics_path": str(tmp_path / "numbers.jsonl"),
        "ckpt_path": str(tmp_path / "kept"),
        "save_steps": 1,
    }
    for path in (tmp_path / "out", tmp_path / "numbers.jsonl", tmp_path / "kept"):
        with held(path), pytest.raises(StorageError, match=f"Another run is writing to '{path}'"):
            train_sft("embedded", "nowhere.jsonl", save_path=str(tmp_path / "out"), **flags)
    assert list(tmp_path.iterdir()) == []
