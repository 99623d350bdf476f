"""Train the embedded agent of the mini benchmark from scratch. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("make_embedded_agent")
