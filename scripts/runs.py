"""List what made the outputs in a folder: stage, time, inputs, cost. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("runs")
