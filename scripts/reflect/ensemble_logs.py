"""Reflect-RL: merge the logs of runs that went on from each other. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("reflect ensemble_logs")
