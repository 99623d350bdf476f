"""AutoExplore: copy what may be shown of repositories. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("reflect filter_repo")
