"""Worker processes that answer questions: for engines that block, could crash or hang, or must not share ours."""

from sweet_rl.workers.pool import WorkerPool

__all__ = ["WorkerPool"]
