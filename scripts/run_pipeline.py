"""Run a pipeline of stages from a YAML file; skip what is done, resume where it stopped. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("run")
