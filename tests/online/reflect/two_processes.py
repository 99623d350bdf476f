"""Run as a module: two forked processes make one run together; the first writes what came of it.

`python -m tests.online.reflect.two_processes MODEL FOLDER`
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist

from tests.online.processes import forked
from tests.online.reflect import taxi

RUNS = {
    "pg": {"gradient_accumulation_steps": 2},
    "ppo": {"trainer": "ppo", "use_critic": True, "shared_critic": True, "reflect": True},
    "pointing": {"pointing_head": True, "per_device_train_batch_size": 4},
}


def run(model, kind):
    """7 episodes an iteration: the two processes have unequal shares."""
    flags = taxi.settings(
        model, disable_dropout=True, per_device_eval_batch_size=7, max_steps=3, **RUNS[kind]
    )
    entries = taxi.Entries()
    with taxi.opened(flags, None, entries) as loop:
        loop.run()
        return loop.state(3)["trainer"]["parameters"], entries.all


def work(rank, model, folder):
    for kind in RUNS:
        dist.init_process_group("gloo", init_method=f"file://{folder}/{kind}-meets", rank=rank, world_size=2)
        parameters, entries = run(model, kind)
        both = [None, None]
        dist.all_gather_object(both, parameters)
        assert all(torch.equal(a, b) for a, b in zip(*both, strict=True)), "the processes differ"
        if rank == 0:
            torch.save({"parameters": parameters, "entries": entries}, Path(folder) / f"{kind}.pt")
        dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(forked(work, *sys.argv[1:]))
