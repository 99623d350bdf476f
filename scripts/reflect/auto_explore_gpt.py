"""AutoExplore: measure a model as it is, in the talk of the data generation. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("reflect auto_explore_gpt")
