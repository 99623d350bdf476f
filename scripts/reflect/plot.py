"""Reflect-RL: draw success, cost and loss of online runs. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("reflect plot")
