"""Play a game in the terminal: see what an agent sees, get its rewards. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("play")
