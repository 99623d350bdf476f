"""Checkpoints are whole or not there; a damaged one is named; one that is of another run is refused."""

import json
import os
import re
import subprocess
import sys

import pytest
import torch

from sweet_rl.commands.train import train_sft
from sweet_rl.errors import StorageError, UsageError
from sweet_rl.training import checkpoints
from tests.conftest import ROOT
from tests.states import same_state

FROM = {"--learning_rate": 0.1, "--adam_betas": (0.9, 0.95), "--dataset": "8 rows, 1a"}


def make(folder, step, *, size=10, made_from=FROM, covers=()):
    with checkpoints.writing(folder, step, {"step": step}, made_from, covers) as made:
        (made / "model.safetensors").write_bytes(os.urandom(size))
        (made / "state").mkdir()
        (made / "state/optimizer.pt").write_bytes(bytes(size))
    return folder / f"checkpoint-{step}"


def resumable(folder, made_from=FROM, say=print, **more):
    return checkpoints.resumable(folder, made_from, say, instead="take another --ckpt_path", **more)


def everything(folder):
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_the_newest_one(tmp_path):
    assert resumable(tmp_path / "none") is None
    (tmp_path / "run.json").write_text("{}")
    (tmp_path / ".run.json.abc.tmp").touch()
    assert checkpoints.checkpoints_in(tmp_path, "--ckpt_path") == []  # of a run that was killed early
    assert resumable(tmp_path) is None
    for step in (9, 10):
        make(tmp_path, step)
    assert not (tmp_path / checkpoints.PARTIAL).exists()
    assert resumable(tmp_path) == tmp_path / "checkpoint-10"
    assert resumable(tmp_path / "checkpoint-9") == tmp_path / "checkpoint-9"


def test_what_is_no_checkpoint_is_said(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(UsageError, match=r"--ckpt_path .* holds no checkpoint"):
        checkpoints.checkpoints_in(tmp_path, "--ckpt_path")
    with pytest.raises(UsageError, match=r"--ckpt_path .* is a file"):
        checkpoints.checkpoints_in(tmp_path / "model.safetensors", "--ckpt_path")


def cut(checkpoint):
    os.truncate(checkpoint / "model.safetensors", 4)


def flip(checkpoint):
    path = checkpoint / "state/optimizer.pt"
    path.write_bytes(path.read_bytes()[:-1] + b"\x10")


def unlink(name):
    return lambda checkpoint: (checkpoint / name).unlink()


DAMAGE = [
    (cut, r"model\.safetensors has 4 bytes, and 10 were written"),
    (flip, r"state/optimizer\.pt does not hold the bytes that were written"),
    (unlink("state/optimizer.pt"), r"state/optimizer\.pt is missing"),
    (unlink("trainer_state.json"), r"trainer_state\.json is missing"),
    (unlink("manifest.json"), r"manifest\.json is missing"),
    (lambda path: (path / "manifest.json").write_text("{}"), r"manifest\.json cannot be read \(KeyError"),
    (lambda path: (path / "manifest.json").write_text(""), r"manifest\.json cannot be read \(JSON"),
]


@pytest.mark.parametrize(("damage", "told"), DAMAGE)
def test_a_damaged_one_is_put_aside_and_the_one_before_it_taken(damage, told, tmp_path):
    said = []
    make(tmp_path, 2)
    damage(make(tmp_path, 4))
    before = everything(tmp_path)
    with pytest.raises(UsageError, match=r"--learning_rate was 0\.1, is 0\.2"):
        resumable(tmp_path, FROM | {"--learning_rate": 0.2}, said.append)
    assert (everything(tmp_path), said) == (before, [])
    assert resumable(tmp_path, say=said.append) == tmp_path / "checkpoint-2"
    assert len(said) == 1
    assert re.search(rf"checkpoint-4' is damaged and not used: {told}.*now 'damaged-checkpoint-4'", said[0])
    assert resumable(tmp_path, say=said.append) == tmp_path / "checkpoint-2"  # once is enough
    damage(make(tmp_path, 4))
    resumable(tmp_path, say=said.append)
    kept = {"checkpoint-2", "damaged-checkpoint-4", "damaged-checkpoint-4-again"}
    assert {path.name for path in tmp_path.iterdir()} == kept


def test_where_all_are_damaged_nothing_is_changed(tmp_path):
    for step in (2, 4):
        cut(make(tmp_path, step))
    before = everything(tmp_path)
    with pytest.raises(StorageError, match=r"checkpoint-4: .*; checkpoint-2: .* or take another --ckpt_path"):
        resumable(tmp_path)
    assert everything(tmp_path) == before


def test_what_differs_is_named_and_what_only_rounds_is_said(tmp_path):
    said = []
    make(tmp_path, 2, made_from=FROM | {"--device": "cpu"})
    other = FROM | {"--device": "cuda", "--dataset": "9 rows, 2b"}
    told = r"--dataset was '8 rows, 1a', is '9 rows, 2b'\. Resume .*take another"
    with pytest.raises(UsageError, match=told):
        resumable(tmp_path, other, rounding={"--device"})
    assert resumable(tmp_path, FROM | {"--device": "cuda"}, said.append, rounding={"--device"})
    assert "equal up to rounding: --device was 'cpu', is 'cuda'" in said[0]
    assert checkpoints.differences({"a": 1}, {"b": None, "a": 1.0, "c": 2}) == {"c": "c was None, is 2"}


def test_how_far_a_file_beside_it_was_written(tmp_path):
    games = tmp_path / "trajectories.jsonl"
    games.write_text("one\n")
    assert checkpoints.covered(tmp_path, games) == ""
    make(tmp_path, 1, covers=[games])
    games.write_text("one\ntwo\n")
    make(tmp_path, 2, covers=[games])
    for content, wrong in (
        ("one\ntwo\nthree", ""),
        ("one\nto", "is 6 bytes long, and had 8 bytes at checkpoint-2"),
        ("one\nTwo\n", "has been changed in the 8 bytes that it had at checkpoint-2"),
    ):
        games.write_text(content)
        assert checkpoints.covered(tmp_path, games) == wrong
    (tmp_path / "checkpoint-2/manifest.json").unlink()
    assert checkpoints.covered(tmp_path, games) == ""  # as checkpoint-1 has it
    games.unlink()
    assert checkpoints.covered(tmp_path, games) == "is missing, and had 4 bytes at checkpoint-1"


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (OSError(28, "No space left on device"), "No space left on device"),
        (OSError(122, "Disk quota exceeded"), "Disk quota exceeded"),
        (RuntimeError("[enforce fail at inline_container.cc:1] PytorchStreamWriter failed"), "enforce fail"),
    ],
)
def test_a_disk_that_is_full_leaves_the_checkpoints_before(error, why, tmp_path):
    make(tmp_path, 2)
    before = everything(tmp_path)

    def fails():
        with checkpoints.writing(tmp_path, 4, {}, FROM) as made:
            (made / "half").write_text("")
            raise error

    told = rf"Cannot write .*checkpoint-4': .*{why}.*raise the quota"
    with pytest.raises(StorageError, match=told) as raised:
        fails()
    assert raised.value.__cause__ is error
    assert everything(tmp_path) == before


def test_what_has_nothing_to_do_with_the_disk_stays_what_it_is(tmp_path):
    with pytest.raises(RuntimeError, match="mat1"), checkpoints.storing(tmp_path, tmp_path / "x"):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")


def test_safetensors_that_cannot_write_says_so_in_our_words(tmp_path):
    state = {"weights": torch.zeros(3), "step": 1, "pair": (1, [None])}
    told = pytest.raises(StorageError, match="Cannot write")
    with told, checkpoints.storing(tmp_path / "c", tmp_path / "p"):
        checkpoints.save_state(tmp_path / "nowhere", state)
    checkpoints.save_state(tmp_path, state)
    assert same_state(checkpoints.load_state(tmp_path), state)


def test_only_one_run_writes_and_a_killed_one_blocks_nobody(tmp_path):
    path = tmp_path / "deep/run"
    script = f"""
import os
from pathlib import Path
from sweet_rl.training.checkpoints import held
with held(Path({str(path)!r})):
    print("held", flush=True)
    input()
"""
    holder = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(StorageError, match="Another run is writing to"), checkpoints.held(path):
        pass
    holder.kill()
    holder.communicate()
    with checkpoints.held(path, tmp_path / "deep/./run", tmp_path / "other/deep/run"):
        pass
    assert list(tmp_path.rglob("*")) == [tmp_path / "deep"]  # no folder is made for a lock alone


def test_what_a_model_goes_by(tmp_path, monkeypatch):
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(b"weights")
    found = checkpoints.identity_of(str(model))
    (model / "README.md").write_text("of no influence")
    moved = model.rename(tmp_path / "moved")
    assert checkpoints.identity_of(str(moved)) == found
    (moved / "model.safetensors").write_bytes(b"Weights")
    assert checkpoints.identity_of(str(moved)) != found
    assert checkpoints.identity_of(str(moved / "README.md")).startswith("sha256:")
    assert checkpoints.identity_of(None) is None
    assert checkpoints.identity_of("nobody/has-this-model") == "nobody/has-this-model"
    monkeypatch.setattr(checkpoints, "downloaded", lambda _: tmp_path / "5f3a")  # without weights yet
    assert checkpoints.identity_of("someone/model") == "someone/model at 5f3a"


def test_rotation_by_number_and_by_size(tmp_path):
    for step in (1, 2, 3, 10):
        make(tmp_path, step, size=1000)

    def left():
        return [checkpoints.step_of(path) for path in checkpoints.complete_checkpoints(tmp_path)]

    checkpoints.rotate(tmp_path, keep=3, max_gb=1)
    assert left() == [2, 3, 10]
    size = sum(path.stat().st_size for path in (tmp_path / "checkpoint-10").rglob("*") if path.is_file())
    checkpoints.rotate(tmp_path, keep=3, max_gb=2.5 * size / 1e9)
    assert left() == [3, 10]
    checkpoints.rotate(tmp_path, keep=3, max_gb=0)
    assert left() == [10]
    assert json.loads((tmp_path / "checkpoint-10/trainer_state.json").read_text()) == {"step": 10}


WAYS = [
    ("train_dpo", "HUP", "resumes from the newest checkpoint"),
    ("train_dpo", "twice", "Another run is writing to"),
    ("train_dpo", "flipped", "does not hold the bytes that were written"),
    ("train_dpo", "quota", "checkpoint-6': "),
    ("train_sft", "KILL", ""),
    ("run_archer", "TERM", "the same command resumes it"),
    ("run_archer", "truncated", "were written. It is now 'damaged-checkpoint-4'"),
    ("run_archer", "torn games", "trajectories.jsonl' is "),
    ("run_archer", "other games", "trajectories.jsonl' has been changed in the "),
    ("rl_finetune", "KILL", ""),
    ("rl_finetune", "emptied", "manifest.json is missing"),
    ("rl_finetune", "all", "Nothing was changed: restore one of them"),
    ("rl_finetune", "rate", "--learning_rate was 0.001, is 0.002"),
]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
        folder = tmp_path_factory.mktemp("table")
        patch.setitem(os.environ, "XDG_CACHE_HOME", str(folder / "cache"))
        import interruptions

        yield interruptions.Table(folder)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.xdist_group("interruptions")  # one worker makes them all, as a trainer's whole run is made once
@pytest.mark.parametrize(("trainer", "way", "words"), WAYS)
def test_a_run_is_refused_or_goes_on_to_the_same_weights(trainer, way, words, table):
    what, said, outcome, wanted = table.row(trainer, way)
    assert outcome == wanted, (what, said)
    assert "Traceback" not in said
    assert words in said


def test_two_trainings_do_not_write_to_one_place(tmp_path):
    flags = {"metrics_path": str(tmp_path / "numbers.jsonl"), "ckpt_path": str(tmp_path / "kept")}
    flags |= {"save_path": str(tmp_path / "out"), "save_steps": 1}
    for path in (tmp_path / "out", tmp_path / "numbers.jsonl", tmp_path / "kept"):
        with checkpoints.held(path), pytest.raises(StorageError, match=f"Another run is writing to '{path}'"):
            train_sft("embedded", "nowhere.jsonl", **flags)
    assert list(tmp_path.iterdir()) == []
