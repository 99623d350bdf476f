"""AutoExplore: write training texts from trajectories. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("reflect gen_sft")
