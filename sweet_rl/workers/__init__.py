"""Worker processes that answer requests, for engines that block, could crash or hang."""

from sweet_rl.workers.pool import WorkerPool

__all__ = ["WorkerPool"]
