"""ALFWorld: write training texts from records. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("reflect alfworld_gen_sft")
