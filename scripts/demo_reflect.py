"""Reflect-RL on the embedded defaults: two worlds, four ways to learn. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("demo_reflect")
