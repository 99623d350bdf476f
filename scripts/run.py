"""Train a policy online, with ArCHer or another method: it plays and learns from its games. The line of ArCHer's README; flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("run_archer")
