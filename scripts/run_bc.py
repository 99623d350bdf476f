"""Make the starting policy for online learning: it imitates demonstrations."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("run_bc")
