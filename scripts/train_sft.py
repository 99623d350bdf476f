"""Fine-tune a model on what the agent said, in dialogues or in single turns. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("train_sft")
