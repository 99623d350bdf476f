"""Two processes over gloo compute the update of one; so do two that have parts of a policy (FSDP2), and one goes on as the other."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from sweet_rl.errors import UsageError
from sweet_rl.online.models import make_learner
from sweet_rl.online.settings import ArcherSettings
from sweet_rl.training import processes as learning
from tests.online import test_archer as learners
from tests.online.models import Joined, critic_model, critic_tokenizer, policy_model, policy_tokenizer
from tests.online.processes import CASES, goes_on, settings_of, train, train_sharded
from tests.online.test_archer import NEVER_MOVE

# Two processes for all of them; the time limit is for the first test, which waits for them.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.xdist_group("sharded")]

ROUNDED = {"float32": 1e-4, "bfloat16": 0.02, "bfloat16_adapter": 0.02}
"""How far numbers and weights may be from each other; in float64 1e-9."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What two processes made of every case."""
    root = tmp_path_factory.mktemp("sharded")
    policy_model().save_pretrained(root / "policy")
    policy_tokenizer().save_pretrained(root / "policy")
    critic_model().base_lm.save_pretrained(root / "critic")
    critic_tokenizer().save_pretrained(root / "critic")
    done = subprocess.run(
        [sys.executable, "-m", "tests.online.processes", str(root)],
        capture_output=True, text=True, check=False, timeout=280,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return root


def tensors(state, name="state"):
    """Every tensor of a nest by its place."""
    if isinstance(state, torch.Tensor):
        return {name: state}
    pairs = state.items() if isinstance(state, dict) else enumerate(state) if isinstance(state, list) else ()
    return {place: one for key, value in pairs for place, one in tensors(value, f"{name}.{key}").items()}


def far(one, other):
    one, other = tensors(one), tensors(other)
    assert one.keys() == other.keys()
    for place, tensor in one.items():
        assert tensor.dtype == other[place].dtype, place
    moved = [
        place
        for place, tensor in one.items()
        if tensor.is_floating_point() and not place.endswith(NEVER_MOVE)
    ]
    return max((one[place] - other[place]).abs().max().item() for place in moved)


@pytest.mark.parametrize("kind", learners.KINDS)
def test_two_processes_do_what_one_does(folder, kind):
    """The published mean made gradients half as large."""
    theirs = torch.load(folder / f"{kind}-whole.pt", weights_only=True)
    alone, infos = train(kind)
    assert learners.distance(learners.weights(alone), theirs["weights"]) < 1e-6
    for ours, found in zip(infos, theirs["infos"], strict=True):
        assert ours == pytest.approx(found, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_two_processes_with_parts_do_what_one_does_and_it_goes_on_for_them(case, folder):
    found = torch.load(folder / f"{case}.pt", weights_only=True)
    settings, limit = settings_of(folder, case), ROUNDED.get(case, 1e-9)
    learner, infos = train_sharded(settings)
    infos.append(goes_on(learner))
    for ours, theirs in zip(infos, found["infos"], strict=True):
        assert ours == pytest.approx(theirs, rel=limit, abs=limit)
    assert far(learner.state_dict(), found["after"]) < limit
    alone = make_learner(settings, chat_format=Joined())
    alone.load_state_dict(found["state"])
    goes_on(alone)
    assert far(alone.state_dict(), found["after"]) < limit


@pytest.mark.parametrize("case", ["archer", "imitation", "chai"])
def test_the_saved_policy_is_whole(case, folder):
    found = torch.load(folder / f"{case}.pt", weights_only=True)
    saved = AutoModelForCausalLM.from_pretrained(folder / f"{case}-saved")
    plain = AutoModelForCausalLM.from_pretrained(folder / "policy")
    assert saved.config.architectures == ["GPT2LMHeadModel"]
    wanted = found["after"].get("model_state_dict", dict(plain.named_parameters()))
    assert dict(saved.named_parameters()).keys() == wanted.keys()
    for name, parameter in saved.named_parameters():
        assert torch.equal(parameter, wanted[name]), name
    assert saved.lm_head.weight is saved.transformer.wte.weight


def test_the_saved_adapter_is_whole(folder):
    found = torch.load(folder / "adapter.pt", weights_only=True)["after"]["model_state_dict"]
    saved = load_file(folder / "adapter-saved" / "adapter_model.safetensors")
    assert len(saved) == len(found) > 0
    for name, weights in found.items():
        assert torch.equal(saved[f"base_model.model.{name.replace('.default', '')}"], weights), name


def test_an_ordinary_model_is_left_alone():
    model = torch.nn.Linear(2, 2)
    with learning.gathered(model):
        assert not learning.is_fsdp(model)


def test_what_cannot_be_is_refused(tmp_path, monkeypatch):
    settings = replace(ArcherSettings(), policy_lm=str(tmp_path), shard_with="fsdp2")
    with pytest.raises(UsageError, match=r"this is the only one.*torchrun --nproc-per-node"):
        make_learner(settings, chat_format=Joined())
    monkeypatch.setattr(learning, "world_size", lambda: 2)
    monkeypatch.delattr("torch.distributed.fsdp.FSDPModule.reset_iter_state")
    with pytest.raises(UsageError, match=r"torch 2\.13 or newer"):
        learning.check_sharding()
    monkeypatch.setitem(sys.modules, "torch.distributed.fsdp", None)
    with pytest.raises(UsageError, match="has no FSDP2"):
        learning.check_sharding()


def test_the_norm_is_that_of_all_gradients():
    one, other = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(1))
    one.grad, other.grad = torch.tensor([3.0, 0.0]), torch.tensor([4.0])
    assert learning.clip_gradients([one, other], 2.5) == 5
    assert one.grad.tolist() == pytest.approx([1.5, 0])
