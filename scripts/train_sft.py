"""Fine-tune a model on the agent's messages, in dialogues or in single turns. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("train_sft")
