"""Merge a LoRA adapter into the weights of its model. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("merge_adapters")
