"""Run a pipeline of stages from a YAML file; skip what is done, go on where it was. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("run")
