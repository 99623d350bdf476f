"""Show what training would learn from a file, token by token. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("show_tokens")
