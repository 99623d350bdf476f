"""Sample candidates for every agent turn of graded trajectories. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("sample_best_of_n")
