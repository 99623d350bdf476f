"""Keep the frontend tasks whose page renders, and report why the others do not. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("filter_websites")
