"""AutoExplore: divide tasks 7:2:1 into train, validate and test. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("reflect split_data")
