"""Compare two runs of Frontend Design page by page: by a vision judge, or by a metric. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("judge_html")
