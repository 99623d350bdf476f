"""Show which tokens of a file training would learn. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("show_tokens")
