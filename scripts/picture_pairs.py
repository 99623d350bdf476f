"""Show the hidden page's picture in pairs of page dialogues, for a vision critic. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("picture_pairs")
