"""Checkpoints are whole or not there."""

import pytest

from sweet_rl.errors import UsageError
from sweet_rl.training import checkpoints
from sweet_rl.training.settings import LossSettings


def make(folder, step, *, size=10, complete=True):
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "model.safetensors").write_bytes(bytes(size))
    if complete:
        (path / "trainer_state.json").write_text("{}")
    return path


def test_the_newest_complete_one(tmp_path):
    assert checkpoints.newest_checkpoint(tmp_path / "none") is None
    (tmp_path / "run.json").write_text("{}")
    (tmp_path / ".run.json.abc.tmp").touch()
    assert checkpoints.newest_checkpoint(tmp_path) is None  # of a run that was killed at its beginning
    make(tmp_path, 9)
    make(tmp_path, 10)
    make(tmp_path, 11, complete=False)
    make(tmp_path / checkpoints.PARTIAL, 12)
    assert checkpoints.newest_checkpoint(tmp_path) == tmp_path / "checkpoint-10"
    assert checkpoints.newest_checkpoint(tmp_path / "checkpoint-9") == tmp_path / "checkpoint-9"


def test_what_is_no_checkpoint_is_said(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(UsageError, match="holds no checkpoint"):
        checkpoints.newest_checkpoint(tmp_path)
    with pytest.raises(UsageError, match="is a file"):
        checkpoints.newest_checkpoint(tmp_path / "model.safetensors")
    with pytest.raises(UsageError, match="not a complete checkpoint"):
        checkpoints.newest_checkpoint(make(tmp_path, 3, complete=False))


def test_publishing_renames(tmp_path):
    make(tmp_path / checkpoints.PARTIAL, 4)
    make(tmp_path, 4, size=1)  # of an earlier run
    checkpoints.keep_loss(tmp_path / checkpoints.PARTIAL / "checkpoint-4", LossSettings(beta=0.3))
    checkpoints.publish(tmp_path, "checkpoint-4")
    assert (tmp_path / "checkpoint-4/model.safetensors").stat().st_size == 10
    assert not (tmp_path / checkpoints.PARTIAL).exists()
    checkpoints.check_loss(tmp_path / "checkpoint-4", LossSettings(beta=0.3))
    with pytest.raises(
        UsageError, match=r"checkpoint-4' was trained with another loss: beta 0\.3, now 0\.1\."
    ):
        checkpoints.check_loss(tmp_path / "checkpoint-4", LossSettings())


def test_a_checkpoint_from_before_losses_were_kept_is_taken(tmp_path):
    checkpoints.check_loss(make(tmp_path, 4), LossSettings(name="hinge"))


def test_rotation_by_number_and_by_size(tmp_path):
    for step in (1, 2, 3, 10):
        make(tmp_path, step, size=1000)

    def left():
        return [checkpoints.step_of(path) for path in checkpoints.complete_checkpoints(tmp_path)]

    checkpoints.rotate(tmp_path, keep=3, max_gb=1)
    assert left() == [2, 3, 10]
    checkpoints.rotate(tmp_path, keep=3, max_gb=2500e-9)
    assert left() == [3, 10]
    checkpoints.rotate(tmp_path, keep=3, max_gb=0)
    assert left() == [10]
