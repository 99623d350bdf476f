"""Grade web pages by their pictures; print the table; write preference pairs. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("evaluate_html")
