"""A worker process of `Household`: one engine, asked through a pipe."""

from __future__ import annotations

from sweet_rl.envs.alfworld.textworld_engine import start
from sweet_rl.workers.serving import work

if __name__ == "__main__":  # python -m sweet_rl.envs.alfworld.worker FD
    work(start)
