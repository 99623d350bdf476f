"""Learn online on the embedded defaults: ArCHer and its baselines play a question game. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("demo_archer")
