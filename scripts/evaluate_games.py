"""Report trajectories of worlds that reward turns; write preference pairs. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("evaluate_games")
