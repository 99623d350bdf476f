"""Browse a trajectory file of pages; render and grade every draft. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("visualize_design_dialogue_histories")
