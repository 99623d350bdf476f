"""Score sampled candidates with a critic that sees the hidden solution. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("rank_best_of_n")
