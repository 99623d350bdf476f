"""AutoExplore: make small repositories with facts to find. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("reflect make_repositories")
