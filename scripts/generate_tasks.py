"""Write tasks of an embedded benchmark as a ColBench file. Flags: --help."""

from sweet_rl.cli import run

if __name__ == "__main__":
    run("generate_tasks")
