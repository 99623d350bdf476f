"""Reflect-RL: train the policy online, beside a frozen model that reflects. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("reflect rl_finetune")
