"""Worker processes that answer questions, for engines that block, could crash or hang."""

from sweet_rl.workers.pool import WorkerPool

__all__ = ["WorkerPool"]
