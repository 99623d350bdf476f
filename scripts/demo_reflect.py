"""Run Reflect-RL and its baselines from scratch, in one world or several. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("demo_reflect")
