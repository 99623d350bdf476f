"""Keep the frontend tasks whose page renders. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("filter_websites")
