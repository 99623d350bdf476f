"""Reflect-RL: fine-tune the policy or the reflection model on texts. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("reflect supervised_pretrain")
