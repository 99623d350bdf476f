"""Run as a module: two forked processes train together; the first writes what came of it.

`python -m tests.online.processes FOLDER`: the folder holds `policy` and `critic`, and gets a file for each learner, and
for each of `CASES`, in which policies are divided. Assertions about single processes are made here.
"""

import copy
import os
import signal
import sys
import traceback
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from sweet_rl.errors import NonFiniteError
from sweet_rl.online.models import make_learner
from sweet_rl.online.settings import ArcherSettings
from sweet_rl.training.processes import is_main
from tests.online import test_archer as one_process
from tests.online.models import ROWS, Joined
from tests.online.test_archer import drawing

UPDATES = 2


def train(kind):
    """A learner after some updates, and its numbers. 3 rows a step: the two processes have unequal shares."""
    learner = one_process.make(
        kind, use_baseline=True, normalize_advantages=True, grad_accum_steps=3, batch_size=1
    )
    draw = one_process.drawing()
    infos = [learner.update(draw, update_actor=True) for _ in range(UPDATES)]
    return learner, infos


def work(rank, kind, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/{kind}-meets", rank=rank, world_size=2)
    one_process.MODEL_SEED = rank  # the first one's weights count
    learner, infos = train(kind)
    mine = one_process.weights(learner)
    both = [None, None]
    dist.all_gather_object(both, mine)
    assert all(torch.equal(a, b) for a, b in zip(*both, strict=True)), "the processes differ"
    if rank == 0:
        torch.save({"weights": mine, "infos": infos}, f"{folder}/{kind}-whole.pt")
    dist.destroy_process_group()


def forked(work, *arguments):
    """Run `work(rank, *arguments)` in two processes; 0 if both did it. One does not wait for another's end."""
    children = set()
    for rank in range(2):
        child = os.fork()
        if not child:
            status = 0
            try:
                work(rank, *arguments)
            except BaseException:  # noqa: BLE001 - shown by the parent
                traceback.print_exc()
                status = 1
            sys.stderr.flush()
            os._exit(status)
        children.add(child)
    failed = 0
    while children:
        child, status = os.wait()
        children.remove(child)
        if status:
            failed = 1
            for other in children:
                os.kill(other, signal.SIGKILL)
    return failed


CASES = {
    "archer": {"normalize_advantages": True},
    "baseline": {"use_baseline": True, "max_tokens_per_batch": 40, "gradient_checkpointing": True},
    "adapter": {"use_lora": True, "lora_rank": 2, "use_baseline": True},
    "imitation": {"agent_type": "online_filteredbc", "max_tokens_per_batch": 40},
    "chai": {"agent_type": "chai"},
    "one_row": {"grad_accum_steps": 1},
    "float32": {"dtype": "float32"},
    "bfloat16": {"dtype": "bfloat16", "agent_type": "online_filteredbc"},
    "bfloat16_adapter": {"dtype": "bfloat16", "agent_type": "online_filteredbc", "use_lora": True},
}
"""What differs from the settings below. 3 rows a step: shares are unequal, and one row leaves a process none."""


def settings_of(folder, case):
    common = {
        "policy_lm": f"{folder}/policy", "critic_lm": f"{folder}/critic", "dtype": "float64", "device": "cpu",
        "max_new_tokens": 6, "batch_size": 1, "grad_accum_steps": 3, "epochs": 1, "actor_epochs": 2,
        "critic_lr": 1e-3, "lm_lr": 1e-3, "seed": 5,
    }  # fmt: skip
    return ArcherSettings(**{**common, **CASES[case]})


def train_sharded(settings):
    """A learner after some updates, and its numbers."""
    learner = make_learner(settings, chat_format=Joined())
    draw = drawing()
    return learner, [learner.update(draw, update_actor=True) for _ in range(UPDATES)]


def goes_on(learner):
    """The numbers of one more update."""
    return learner.update(drawing(1), update_actor=True)


def has_its_part_only(learner):
    """Of every weight, and of what Adam knows of it."""
    for name, parameter in learner.policy.model.named_parameters():
        rows = parameter.shape[0]
        assert parameter.to_local().shape[0] in {rows // 2, -(-rows // 2)}, name
        optimizer = learner.lm_optimizer if learner.learns_words else None
        for kept in optimizer.state.get(parameter, {}).values() if optimizer else ():
            assert kept.dim() == 0 or kept.to_local().shape == parameter.to_local().shape, name


def work_sharded(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/meets", rank=rank, world_size=2)
    for case in CASES:
        settings = replace(settings_of(folder, case), shard_with="fsdp2")
        learner, infos = train_sharded(settings)
        has_its_part_only(learner)
        state = copy.deepcopy(learner.state_dict())
        infos.append(goes_on(learner))
        after = learner.state_dict()
        learner.save_policy(Path(folder) / f"{case}-saved")
        again = make_learner(settings, chat_format=Joined())  # only the first process has read a file
        again.load_state_dict(copy.deepcopy(state) if is_main() else {})
        has_its_part_only(again)
        assert goes_on(again) == infos[-1]
        if rank == 0:
            torch.save({"infos": infos, "state": state, "after": after}, f"{folder}/{case}.pt")
    sampling_needs_nobody(train_sharded(replace(settings_of(folder, "archer"), shard_with="fsdp2"))[0])
    stops_alike(again, rank)
    dist.destroy_process_group()


def sampling_needs_nobody(learner):
    """Inside `gathered` one process samples while the other does something else; nothing of it stays."""
    with learner.gathered(), learner.gathered():
        if is_main():
            for _ in range(3):
                learner.policy.sample([row.observation for row in ROWS], range(7))
    has_its_part_only(learner)
    goes_on(learner)


def stops_alike(learner, rank):
    """A number that is none in the second process stops both, and no part is stepped."""
    policy, before = learner.policy, [p.to_local().clone() for p in learner.policy.model.parameters()]
    scores = policy.scores
    if rank == 1:
        policy.scores = lambda *rows: (found := scores(*rows))._replace(logps_BT=found.logps_BT * torch.nan)
    with pytest.raises(NonFiniteError):
        goes_on(learner)
    for kept, parameter in zip(before, policy.model.parameters(), strict=True):
        assert torch.equal(kept, parameter.to_local())


if __name__ == "__main__":
    torch.set_num_threads(1)
    whole = [forked(work, kind, sys.argv[1]) for kind in one_process.KINDS]
    sys.exit(max(*whole, forked(work_sharded, sys.argv[1])))
