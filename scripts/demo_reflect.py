"""Reflect-RL from nothing: one world or several, five ways to learn. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("demo_reflect")
