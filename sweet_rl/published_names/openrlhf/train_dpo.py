"""`python -m sweet_rl.openrlhf.train_dpo` and `deepspeed --module sweet_rl.openrlhf.train_dpo`, with the published flags."""

from sweet_rl.cli.main import run

if __name__ == "__main__":
    run("train_dpo")
