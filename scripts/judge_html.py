"""Compare two runs of Frontend Design page by page; print the win rate. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("judge_html")
