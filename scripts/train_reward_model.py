"""Train a critic with a regression head on preference pairs. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("train_reward_model")
