"""A worker process of `Household`: one engine, asked through a pipe."""

from __future__ import annotations

from sweet_rl.workers.serving import work
from sweet_rl.worlds.alfworld.textworld_engine import start

if __name__ == "__main__":  # python -m sweet_rl.worlds.alfworld.worker FD FOLDER
    work(start)
