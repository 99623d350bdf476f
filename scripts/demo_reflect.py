"""Reflect-RL on the embedded defaults: the taxi and repositories to explore. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("demo_reflect")
