"""Train a critic or a policy on preference pairs, by DPO. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("train_dpo")
