"""The reference is asked once for the same pairs; a file that does not fit is refused."""

import json

import pytest
import torch
from safetensors.torch import save_file

from sweet_rl.commands.train_dpo import train_dpo
from sweet_rl.errors import UsageError
from sweet_rl.training import reference
from sweet_rl.training.reference import ReferenceCache, weights_digest
from tests.training.pairs import dialogue_pairs, write_pairs

LOGPS = torch.tensor([[-1.0, -2.0, 3.0], [-4.0, -5.0, 6.0]])


@pytest.fixture
def cache(tmp_path):
    return ReferenceCache(tmp_path, {"model": "m", "data": "d"})


def test_what_was_saved_comes_back(cache):
    assert cache.load() is None
    cache.save(LOGPS)
    assert torch.equal(cache.load(), LOGPS)
    assert ReferenceCache(cache.folder, cache.identity | {"model": "other"}).load() is None


def test_a_file_of_another_model_is_refused(cache):
    ReferenceCache(cache.folder, {"model": "other", "data": "d"}).save(LOGPS)
    (made,) = cache.folder.glob("*.safetensors")
    made.rename(cache.path)
    with pytest.raises(UsageError, match=r"was made with another model\. Delete it"):
        cache.load()


def test_a_number_that_is_none_is_refused_and_never_saved(cache):
    missing = LOGPS.clone()
    missing[1, 0] = float("nan")
    cache.save(missing)
    assert not cache.path.exists()
    save_file({"logps": missing}, cache.path, metadata=cache.identity)
    with pytest.raises(UsageError, match="not finite, for pair 1"):
        cache.load()


def test_a_damaged_file_is_refused(cache):
    cache.path.write_bytes(b"not a tensor")
    with pytest.raises(UsageError, match="is damaged"):
        cache.load()


def test_a_name_without_files_has_no_digest(tmp_path):
    assert weights_digest(str(tmp_path)) is None
    assert weights_digest("nobody/has-this-model") is None


def test_the_second_training_on_the_same_pairs_asks_no_reference(steady, tmp_path, monkeypatch):
    data = write_pairs(tmp_path / "pairs.jsonl", dialogue_pairs(8))
    asked = []
    ask = reference._scores
    monkeypatch.setattr(reference, "_scores", lambda *arguments: asked.append(1) or ask(*arguments))

    def run(name, **flags):
        train_dpo(
            str(steady),
            str(data),
            save_path=str(tmp_path / name),
            eval_fraction=0,
            quiet=True,
            train_batch_size=4,
            learning_rate=1e-3,
            **flags,
        )
        return [
            json.loads(line)["loss"] for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()
        ]

    first = run("one")
    assert run("two") == first
    assert len(asked) == 1
    run("turns", mean_log_prob="turn")
    run("off", reference_cache="none")
    assert len(asked) == 3
