"""Browse a trajectory file of pages: drafts, target, difference. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("visualize_design_dialogue_histories")
