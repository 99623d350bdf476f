"""Measure a model as it is, by ReAct. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("reflect evaluate_gpt")
