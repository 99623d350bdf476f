"""Draw preference pairs of single turns from scored candidates. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("generate_random_pairs_from_ranks")
