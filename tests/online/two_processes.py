"""Run as a module: two forked processes train each learner together; the first writes what came of it.

`python -m tests.online.two_processes FOLDER`
"""

import os
import signal
import sys
import traceback

import torch
import torch.distributed as dist

from tests.online import test_learners as one_process

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
        torch.save({"weights": mine, "infos": infos}, f"{folder}/{kind}.pt")
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


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(max(forked(work, kind, sys.argv[1]) for kind in one_process.KINDS))
