"""Reflect-RL: measure checkpoints by sampled episodes. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("reflect evaluate")
