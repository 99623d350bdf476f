"""AutoExplore: drop tasks that cannot be played, and duplicates. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("reflect filter_task")
