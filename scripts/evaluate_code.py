"""Grade functions by hidden tests, in a sandbox; print the table; write preference pairs. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("evaluate_code")
