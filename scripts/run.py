"""Train a policy online: it plays, and learns from what it played. The line of ArCHer's README; flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("run_archer")
