"""Make frontend tasks from WebSight, from the hub or from files. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("prepare_websight")
