"""AutoExplore: let a teacher ask questions about files of repositories. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("reflect gen_task")
