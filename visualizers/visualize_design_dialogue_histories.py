"""Browse a trajectory file of pages in a web browser, or export it as one page. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("visualize_design_dialogue_histories")
