"""List what made the outputs in a folder, and when, with what, at what cost. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("runs")
